/*
 * queue_stats_request.c - what is asked of Redis for the figures of all queues, and what a shard's state says by
 * itself.
 */
#include "web/queue_stats.h"

#include <string.h>

srt_arena *srt_web_stats_memory(stats_state *s)
{
    return s->snapshot ? &s->snapshot->memory : &s->w->memory;
}

int srt_web_stats_ask_layout(seriatim_client *c, stats_state *s, size_t place)
{
    const srt_web_row *row = &s->w->rows[place];
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    if (!r)
        return srt_operator_nomem(c);
    srt_bytes_clear(&s->key);
    srt_key_layout(&s->key, c->registry.ns.data, row->name.data, row->name.len);
    srt_request_text(r, "GET");
    srt_request_arg(r, s->key.data, s->key.len);
    r->tail.failed |= s->key.failed;
    r->kind = STATS_LAYOUT;
    r->place = place;
    return srt_client_send(c, r);
}

void srt_web_stats_add_key(seriatim_client *c, stats_state *s, srt_request *r, const srt_web_row *row, unsigned shard,
                           const char *kind)
{
    srt_bytes_clear(&s->key);
    srt_key_shard(&s->key, c->registry.ns.data, row->name.data, row->name.len, shard);
    srt_bytes_adds(&s->key, kind);
    srt_request_arg(r, s->key.data, s->key.len);
    r->tail.failed |= s->key.failed;
}

int srt_web_stats_ask_move(seriatim_client *c, stats_state *s, size_t place, unsigned shard)
{
    const srt_web_row *row = &s->w->rows[place];
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    if (!r)
        return srt_operator_nomem(c);
    srt_request_text(r, "HMGET");
    srt_web_stats_add_key(c, s, r, row, shard, "reshard");
    srt_request_text(r, "moved");
    srt_request_text(r, "ids");
    srt_request_text(r, "out");
    srt_request_text(r, "mark");
    r->kind = STATS_MOVE;
    r->place = place;
    r->part = shard;
    r->subject = row->shards;
    return srt_client_send(c, r);
}

/* As lib/is_out.lua. */
static int stats_is_out(const srt_token *out, const srt_token *mark)
{
    return srt_token_is(out, "1") || (out->type == SRT_STRING && srt_token_int(out) == srt_token_int(mark) + 2);
}

void srt_web_stats_on_move(stats_state *s, const srt_request *r, const srt_reply *reply)
{
    srt_web_row *row = &s->w->rows[r->place];
    const srt_token *at = &reply->tokens[1];
    if (reply->count == 5 && r->subject == row->shards)
        srt_resharding_add(&row->move, (unsigned)r->part, srt_token_int(&at[0]), srt_token_int(&at[1]),
                           stats_is_out(&at[2], &at[3]));
}

int srt_web_stats_ask_shards(seriatim_client *c, stats_state *s, size_t place, unsigned first, unsigned count, int what)
{
    static const int scripts[] = {
        [STATS_STATES] = srt_script_none, [STATS_SHARDS] = srt_script_summary, [STATS_LOCATE] = srt_script_locate};
    const srt_web_row *row = &s->w->rows[place];
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), scripts[what], NULL, 0);
    unsigned i;
    if (!r)
        return srt_operator_nomem(c);
    if (what == STATS_STATES)
        srt_request_text(r, "MGET");
    for (i = 0; i < count; i++)
        srt_web_stats_add_key(c, s, r, row, first + i, "state");
    if (what != STATS_STATES) {
        r->keys = count;
        srt_request_int(r, row->generation);
    }
    if (what == STATS_LOCATE)
        srt_request_arg(r, s->w->locate.data, s->w->locate.len);
    r->kind = what;
    r->place = place;
    r->part = first;
    r->subject = row->shards;
    return srt_client_send(c, r);
}

static int stats_lives(const stats_state *s, const char *owner, size_t len)
{
    size_t i;
    for (i = 0; i < s->node_count && len; i++)
        if (s->nodes[i].len == len && memcmp(s->nodes[i].data, owner, len) == 0)
            return 1;
    return 0;
}

int64_t srt_web_stats_number(const char *data, size_t at)
{
    double number = srt_little_double(data + at);
    return number > -(double)SRT_FOREVER && number < (double)SRT_FOREVER ? (int64_t)number : 0;
}

/* The counters that a state holds. */
static void stats_add_counters(srt_web_shard *shard, const srt_token *state)
{
    shard->processed += srt_web_stats_number(state->data, SRT_STATE_PROCESSED);
    shard->failed += srt_web_stats_number(state->data, SRT_STATE_FAILED);
    shard->refused += srt_web_stats_number(state->data, SRT_STATE_REFUSED);
    shard->stale += srt_web_stats_number(state->data, SRT_STATE_STALE);
    shard->removed += srt_web_stats_number(state->data, SRT_STATE_REMOVED);
    shard->pushed += srt_web_stats_number(state->data, SRT_STATE_PUSHED);
}

int srt_web_stats_ask_gone(seriatim_client *c, stats_state *s, size_t place, unsigned shard)
{
    const srt_web_row *row = &s->w->rows[place];
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    if (!r)
        return srt_operator_nomem(c);
    srt_request_text(r, "GET");
    srt_web_stats_add_key(c, s, r, row, shard, "state");
    r->kind = STATS_GONE;
    r->place = place;
    r->subject = row->shards;
    return srt_client_send(c, r);
}

void srt_web_stats_on_gone(stats_state *s, const srt_request *r, const srt_reply *reply)
{
    srt_web_row *row = &s->w->rows[r->place];
    if (reply->tokens[0].type == SRT_STRING && reply->tokens[0].len >= SRT_STATE_OWNER && r->subject == row->shards)
        stats_add_counters(&row->gone, &reply->tokens[0]);
}

void srt_web_stats_on_gone_refused(stats_state *s, const srt_request *r)
{
    srt_web_row *row = &s->w->rows[r->place];
    if (r->subject == row->shards)
        row->gone.is_missing++;
}

int srt_web_stats_set_version(seriatim_client *c, stats_state *s, srt_web_shard *shard, const srt_token *state)
{
    size_t owned = state->len > SRT_STATE_OWNER ? state->len - SRT_STATE_OWNER : 0;
    shard->version.len = state->len;
    shard->version.data = srt_arena_copy(srt_web_stats_memory(s), state->data, state->len);
    if (!shard->version.data)
        return srt_operator_nomem(c);
    shard->owner = owned ? shard->version.data + SRT_STATE_OWNER : "";
    shard->owner_alive = stats_lives(s, shard->owner, owned);
    if (state->len >= SRT_STATE_OWNER) {
        shard->processed = shard->failed = shard->refused = shard->stale = shard->removed = shard->pushed = 0;
        stats_add_counters(shard, state);
        shard->paused = (state->data[SRT_STATE_FLAGS] & SRT_FLAG_PAUSED) != 0;
    }
    return SERIATIM_OK;
}

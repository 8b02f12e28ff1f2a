/*
 * queue_stats_idle.c - the figures of a shard in which nothing runs, by plain commands: they cost Redis half as much as
 * the script.
 *
 * The state is read before and behind them. Where it changed, or something runs after all, the script is asked.
 */
#include "web/queue_stats.h"

#include <string.h>

#define STATS_FEW 100 /* failed ids: ZINTER of that many takes Redis a few microseconds */

/*
 * Words behind the key; with `other`, a second key, their number before them; `later`: first the bound of what is not
 * due.
 */
static const struct {
    const char *command, *key, *rest[5], *other;
    int later;
} stats_parts[] = {[STATS_JOBS] = {"HLEN", "jobs", {NULL}, NULL, 0},
                   [STATS_RUNNING] = {"HLEN", "running", {NULL}, NULL, 0},
                   [STATS_OWNED] = {"HEXISTS", "running", {""}, NULL, 0},
                   [STATS_PARKED] = {"ZCARD", "parked", {NULL}, NULL, 0},
                   [STATS_RETRY] = {"ZCARD", "retry", {NULL}, NULL, 0},
                   [STATS_DEAD] = {"HLEN", "dead", {NULL}, NULL, 0},
                   [STATS_DUE] = {"ZCARD", "due", {NULL}, NULL, 0},
                   [STATS_FIRST] = {"ZRANGE", "due", {"0", "0", "WITHSCORES"}, NULL, 0},
                   [STATS_READY] = {"LRANGE", "ready", {"0", "3"}, NULL, 0},
                   [STATS_LATER] = {"ZCOUNT", "due", {"+inf"}, NULL, 1},
                   [STATS_NEXT] = {"ZRANGEBYSCORE", "due", {"+inf", "WITHSCORES", "LIMIT", "0", "1"}, NULL, 1},
                   [STATS_FAILED_LATER] = {"ZINTER", "due", {NULL}, "retry", 0},
                   [STATS_FAILED_TIMES] = {"ZINTER", "due", {"WEIGHTS", "1", "0", "WITHSCORES"}, "retry", 0},
                   [STATS_SCHEDULED] = {"ZCARD", "scheduled", {NULL}, NULL, 0},
                   [STATS_RECORDS] = {"HMGET", "jobs", {NULL}, NULL, 0},
                   [STATS_STATE] = {"GET", "state", {NULL}, NULL, 0}};

/* The smallest deliver_at of what is scheduled; 0: nothing is. */
static int64_t stats_delivers(const char *state)
{
    return srt_web_stats_number(state, SRT_STATE_DELIVERS);
}

/* A scheduled payload that is due counts as lag, which the script alone knows. */
static int stats_is_due(const stats_state *s, const srt_token *state)
{
    int64_t delivers = stats_delivers(state->data);
    return delivers > 0 && delivers <= s->w->now_us;
}

int srt_web_stats_is_idle(const stats_state *s, const srt_web_row *row, const srt_token *state)
{
    return s->w->now_us > 0 && state->len >= SRT_STATE_OWNER &&
           srt_web_stats_number(state->data, 0) == row->generation &&
           srt_web_stats_number(state->data, SRT_STATE_HELD) == 0 && !stats_is_due(s, state) &&
           ((unsigned char)state->data[SRT_STATE_FLAGS] & (SRT_FLAG_DOUBTED | SRT_FLAG_SOURCE)) == 0;
}

static void stats_add_bound(stats_state *s, srt_request *r)
{
    srt_bytes_clear(&s->key);
    srt_bytes_addc(&s->key, '(');
    srt_bytes_add_int(&s->key, s->w->now_us);
    srt_request_arg(r, s->key.data, s->key.len);
    r->tail.failed |= s->key.failed;
}

/* One of stats_parts, with these ids behind it. */
static int stats_ask_part(seriatim_client *c, stats_state *s, size_t place, unsigned shard, int kind,
                          const srt_token *ids, size_t count)
{
    const srt_web_row *row = &s->w->rows[place];
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    size_t i;
    if (!r)
        return srt_operator_nomem(c);
    srt_request_text(r, stats_parts[kind].command);
    if (stats_parts[kind].other)
        srt_request_text(r, "2");
    srt_web_stats_add_key(c, s, r, row, shard, stats_parts[kind].key);
    if (stats_parts[kind].other)
        srt_web_stats_add_key(c, s, r, row, shard, stats_parts[kind].other);
    if (stats_parts[kind].later)
        stats_add_bound(s, r);
    for (i = 0; i < 5 && stats_parts[kind].rest[i]; i++)
        srt_request_text(r, stats_parts[kind].rest[i]);
    for (i = 0; i < count; i++)
        srt_request_arg(r, ids[i].data, ids[i].len);
    r->kind = kind;
    r->place = place;
    r->part = shard;
    r->subject = row->shards;
    return srt_client_send(c, r);
}

int srt_web_stats_ask_idle(seriatim_client *c, stats_state *s, size_t place, unsigned shard, const srt_token *state)
{
    srt_web_shard *figures = &s->w->rows[place].shards[shard];
    int status = srt_web_stats_set_version(c, s, figures, state), kind;
    figures->soon_us = figures->change_us = SRT_FOREVER;
    if (stats_delivers(state->data) > 0 && status == SERIATIM_OK)
        status = stats_ask_part(c, s, place, shard, STATS_SCHEDULED, NULL, 0);
    for (kind = STATS_JOBS; kind <= STATS_READY && status == SERIATIM_OK; kind++)
        if (kind != STATS_OWNED || state->len > SRT_STATE_OWNER)
            status = stats_ask_part(c, s, place, shard, kind, NULL, 0);
    return status;
}

static int stats_ask_script(seriatim_client *c, stats_state *s, size_t place, unsigned shard)
{
    srt_web_shard *figures = &s->w->rows[place].shards[shard];
    memset(figures, 0, sizeof *figures);
    figures->owner = "";
    return srt_web_stats_ask_shards(c, s, place, shard, 1, STATS_SHARDS);
}

/* What of `due` is not due, when that changes, and how much of it failed. */
static int stats_ask_due(seriatim_client *c, stats_state *s, size_t place, unsigned shard)
{
    srt_web_shard *figures = &s->w->rows[place].shards[shard];
    int overdue = figures->soon_us <= s->w->now_us, status = SERIATIM_OK;
    if (overdue) {
        status = stats_ask_part(c, s, place, shard, STATS_LATER, NULL, 0);
        if (status == SERIATIM_OK)
            status = stats_ask_part(c, s, place, shard, STATS_NEXT, NULL, 0);
    } else {
        figures->change_us = figures->soon_us;
    }
    if (figures->retries > 0 && status == SERIATIM_OK)
        status = stats_ask_part(c, s, place, shard, overdue ? STATS_FAILED_TIMES : STATS_FAILED_LATER, NULL, 0);
    return status;
}

/* All sizes are known, and the first ids of the ready list. */
static int stats_on_ready(seriatim_client *c, stats_state *s, const srt_request *r, const srt_reply *reply)
{
    unsigned shard = (unsigned)r->part;
    srt_web_shard *figures = &s->w->rows[r->place].shards[shard];
    int status = SERIATIM_OK, due;
    figures->length -= figures->parked;
    due = figures->length > 0 && figures->delayed > 0;
    if (figures->read_us < 0 || figures->busy || !srt_reply_is_list(reply, 0) || (due && figures->retries > STATS_FEW))
        return stats_ask_script(c, s, r->place, shard);
    if (due) {
        status = stats_ask_due(c, s, r->place, shard);
    } else {
        figures->delayed = 0;
        figures->soon_us = SRT_FOREVER;
    }
    if (figures->length > 0 && reply->count > 1 && status == SERIATIM_OK)
        status = stats_ask_part(c, s, r->place, shard, STATS_RECORDS, &reply->tokens[1], reply->count - 1);
    return status == SERIATIM_OK ? stats_ask_part(c, s, r->place, shard, STATS_STATE, NULL, 0) : status;
}

/* Those that are due later, by their times, or all. */
static void stats_on_failed(const stats_state *s, srt_web_shard *figures, int kind, const srt_reply *reply)
{
    size_t i, width = kind == STATS_FAILED_TIMES ? 2 : 1;
    for (i = width; i < reply->count; i += width)
        if (width == 1 || srt_token_int(&reply->tokens[i]) > s->w->now_us)
            figures->delayed--;
}

/* Of the ids at the head of the ready list; all their entries may be stale. */
static void stats_on_records(srt_web_shard *figures, const srt_reply *reply)
{
    int64_t soon = SRT_FOREVER;
    size_t i;
    for (i = 1; i < reply->count; i++) {
        const srt_token *record = &reply->tokens[i];
        int64_t due;
        if (record->type != SRT_STRING || record->len < SRT_RECORD_RETRY ||
            (unsigned char)record->data[0] % SRT_RECORD_PLACES != SRT_PLACE_READY)
            continue;
        due = srt_web_stats_number(record->data, SRT_RECORD_DUE);
        soon = due < soon ? due : soon;
    }
    if (soon == SRT_FOREVER)
        figures->read_us = -1;
    if (soon < figures->soon_us)
        figures->soon_us = soon;
}

static int stats_on_state(seriatim_client *c, stats_state *s, const srt_request *r, const srt_token *state)
{
    srt_web_shard *figures = &s->w->rows[r->place].shards[r->part];
    int64_t delivers;
    if (figures->read_us < 0 || state->type != SRT_STRING || state->len != figures->version.len ||
        memcmp(state->data, figures->version.data, state->len) != 0)
        return stats_ask_script(c, s, r->place, (unsigned)r->part);
    figures->read_us = s->w->now_us;
    delivers = stats_delivers(state->data);
    if (delivers > 0 && delivers < figures->change_us)
        figures->change_us = delivers; /* from then on it counts as lag */
    figures->lag_us = figures->read_us > figures->soon_us ? figures->read_us - figures->soon_us : 0;
    return SERIATIM_OK;
}

int srt_web_stats_on_part(seriatim_client *c, stats_state *s, const srt_request *r, const srt_reply *reply)
{
    srt_web_shard *figures = s->w->rows[r->place].shards;
    int64_t value = srt_token_int(&reply->tokens[0]);
    if (r->subject != figures) /* of a layout that is no more */
        return SERIATIM_OK;
    figures += r->part;
    switch (r->kind) {
    case STATS_JOBS:
        figures->length = value;
        break;
    case STATS_RUNNING:
        figures->busy = value;
        break;
    case STATS_OWNED:
        figures->busy -= value;
        break;
    case STATS_PARKED:
        figures->parked = value;
        break;
    case STATS_RETRY:
        figures->retries = value;
        break;
    case STATS_DEAD:
        figures->dead = value;
        break;
    case STATS_SCHEDULED:
        figures->scheduled = value;
        break;
    case STATS_DUE:
    case STATS_LATER:
        figures->delayed = value;
        break;
    case STATS_FIRST:
        if (reply->count > 2)
            figures->soon_us = srt_token_int(&reply->tokens[2]);
        break;
    case STATS_READY:
        return stats_on_ready(c, s, r, reply);
    case STATS_RECORDS:
        stats_on_records(figures, reply);
        break;
    case STATS_NEXT:
        if (reply->count > 2)
            figures->change_us = srt_token_int(&reply->tokens[2]);
        break;
    case STATS_FAILED_LATER:
    case STATS_FAILED_TIMES:
        stats_on_failed(s, figures, r->kind, reply);
        break;
    default:
        return stats_on_state(c, s, r, &reply->tokens[0]);
    }
    return SERIATIM_OK;
}

int srt_web_stats_on_part_refused(seriatim_client *c, stats_state *s, const srt_request *r)
{
    srt_web_shard *shards = s->w->rows[r->place].shards;
    if (r->subject != shards)
        return SERIATIM_OK;
    shards[r->part].read_us = -1;
    return r->kind == STATS_READY || r->kind == STATS_STATE ? stats_ask_script(c, s, r->place, (unsigned)r->part)
                                                            : SERIATIM_OK;
}

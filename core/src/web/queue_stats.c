/*
 * queue_stats.c - the figures of all queues in one pipeline.
 *
 * The states of all shards are asked for first: every script that changes what the figures count changes the state,
 * too. So the figures of the last snapshot stand wherever the state is the same, nothing runs, and nothing has come
 * due. Other shards are read by a script. Neighbours share a call; where one of them is refused, each is asked by
 * itself. A shard that no snapshot knows and in which nothing runs is read by plain commands (queue_stats_idle.c).
 */
#include "web/queue_stats.h"

#include <string.h>

#define STATS_TRIES 3 /* of a queue whose layout changes meanwhile */
/* keys may also be evicted, or changed by hand: figures are read anew within twice that */
#define STATS_HOLDS_US 20000000
#define STATS_MANY 1000  /* shards: such a snapshot is shown to all who ask within a moment */
#define STATS_MOMENT 0.7 /* seconds */
#define STATS_TOGETHER 5 /* shards of a call: the worst of them together take no more than a few ms; 1 in a cluster */
#define STATS_FIGURES 10 /* of a shard, of summary.lua */
#define STATS_AHEAD 2000 /* requests under way, beyond which no other queue is begun */

/* ---- Asking -------------------------------------------------------------------------------- */

static void stats_release(seriatim_client *c)
{
    stats_state *s = c->state;
    srt_arena_free(&s->memory);
    srt_bytes_free(&s->key);
    srt_free(c->mem, s, sizeof *s);
}

/* The figures of these, if any. */
static int stats_ask_range(seriatim_client *c, stats_state *s, size_t place, unsigned from, unsigned to)
{
    return to > from ? srt_web_stats_ask_shards(c, s, place, from, to - from, STATS_SHARDS) : SERIATIM_OK;
}

/* What srt_web_stats_ask_shards asked for, but not of a layout that is no more. */
static int stats_asked(const stats_state *s, const srt_request *r, unsigned *first, unsigned *count)
{
    *first = (unsigned)r->part;
    *count = (unsigned)(r->kind == STATS_STATES ? r->args - 1 : r->keys);
    return r->subject == s->w->rows[r->place].shards;
}

static int stats_go_on(seriatim_client *c, stats_state *s)
{
    int status = SERIATIM_OK;
    while (s->awaited == 0 && s->begun < s->w->row_count && srt_cluster_waiting(&c->cluster) < STATS_AHEAD &&
           status == SERIATIM_OK)
        status = srt_web_stats_ask_layout(c, s, s->begun++);
    return status;
}

/* One Redis answers in order; in a cluster other masters may answer before those that tell the time and the nodes. */
static int stats_send(seriatim_client *c, srt_queue *queue)
{
    stats_state *s = c->state;
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    int status;
    (void)queue;
    s->awaited = c->cluster.many ? 2 : 0;
    if (!r)
        return srt_operator_nomem(c);
    srt_request_text(r, "TIME");
    r->kind = STATS_TIME;
    status = srt_client_send(c, r);
    if (status == SERIATIM_OK)
        status = srt_nodes_ask(c, STATS_NODES);
    return status == SERIATIM_OK ? stats_go_on(c, s) : status;
}

/* ---- Answers ------------------------------------------------------------------------------- */

static int stats_on_nodes(seriatim_client *c, stats_state *s, const srt_reply *reply)
{
    const srt_token *at = reply->tokens;
    int64_t now;
    size_t i;
    if (!srt_reply_is_list(reply, 1) || (reply->count - 2) % 3 != 0)
        return srt_operator_protocol(c, "nodes");
    now = srt_token_int(&at[1]);
    s->nodes = srt_arena_alloc(&s->memory, reply->count * sizeof *s->nodes);
    if (!s->nodes)
        return srt_operator_nomem(c);
    for (i = 2; i < reply->count; i += 3) {
        if (srt_token_int(&at[i + 1]) <= now)
            continue;
        s->nodes[s->node_count].data = srt_arena_copy(&s->memory, at[i].data, at[i].len);
        s->nodes[s->node_count].len = at[i].len;
        if (!s->nodes[s->node_count++].data)
            return srt_operator_nomem(c);
    }
    return SERIATIM_OK;
}

/* A queue without a layout, or of another schema, has no shards to show. */
static int stats_read_layout(srt_web_row *row, srt_layout *layout, const srt_token *answer)
{
    row->shards_count = 0;
    memset(&row->move, 0, sizeof row->move);
    memset(&row->gone, 0, sizeof row->gone);
    if (answer->type != SRT_STRING || srt_layout_read(answer->data, answer->len, layout, NULL) != SERIATIM_OK)
        return 0;
    row->generation = layout->generation;
    row->shards_count = layout->old > layout->shards ? layout->old : layout->shards;
    row->move.from = layout->old ? layout->old : layout->shards;
    row->move.to = layout->shards;
    return 1;
}

/* The shard of an id; while ids move, the one that it leaves and the new one. */
static int stats_ask_locate(seriatim_client *c, stats_state *s, size_t place)
{
    const srt_web_row *row = &s->w->rows[place];
    unsigned from = seriatim_shard_of(s->w->locate.data, s->w->locate.len, row->move.from),
             to = seriatim_shard_of(s->w->locate.data, s->w->locate.len, row->move.to);
    int status = srt_web_stats_ask_shards(c, s, place, from, 1, STATS_LOCATE);
    return status == SERIATIM_OK && to != from ? srt_web_stats_ask_shards(c, s, place, to, 1, STATS_LOCATE) : status;
}

static int stats_on_layout(seriatim_client *c, stats_state *s, const srt_request *r, const srt_reply *reply)
{
    size_t place = r->place;
    srt_web_row *row = &s->w->rows[place];
    unsigned shard, count, most = c->cluster.many ? 1 : STATS_TOGETHER;
    srt_layout layout;
    int status = SERIATIM_OK, what;
    if (!stats_read_layout(row, &layout, &reply->tokens[0]))
        return SERIATIM_OK;
    row->shards = srt_arena_alloc(srt_web_stats_memory(s), row->shards_count * sizeof *row->shards);
    if (!row->shards)
        return srt_operator_nomem(c);
    memset(row->shards, 0, row->shards_count * sizeof *row->shards);
    for (shard = 0; shard < row->shards_count; shard++)
        row->shards[shard].owner = "";
    if (s->w->locate.data)
        return stats_ask_locate(c, s, place);
    for (shard = 0; row->move.from != row->move.to && shard < row->move.from && status == SERIATIM_OK; shard++)
        status = srt_web_stats_ask_move(c, s, place, shard);
    for (shard = row->shards_count; shard < layout.most && status == SERIATIM_OK; shard++)
        status = srt_web_stats_ask_gone(c, s, place, shard);
    what = s->snapshot ? STATS_STATES : STATS_SHARDS;
    for (shard = 0; shard < row->shards_count && status == SERIATIM_OK; shard += count) {
        count = row->shards_count - shard < most ? row->shards_count - shard : most;
        status = srt_web_stats_ask_shards(c, s, place, shard, count, what);
    }
    return status;
}

/* The queue as it was then, with the same shards, or NULL. */
static const srt_web_row *stats_find_last(const stats_state *s, const srt_web_row *row)
{
    size_t low = 0, high = s->last->row_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const srt_web_row *there = &s->last->rows[middle];
        int order = srt_id_compare(row->name.data, row->name.len, there->name.data, there->name.len);
        if (order == 0)
            return there->generation == row->generation && there->shards_count == row->shards_count && there->shards
                       ? there
                       : NULL;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* Not all are read anew at once. */
static int stats_holds(const stats_state *s, const srt_web_shard *last, const srt_token *state, size_t place)
{
    int64_t now = s->w->now_us, spread = (int64_t)(place * 7919 % 1000) * (STATS_HOLDS_US / 1000);
    return last->version.data && last->version.len == state->len &&
           memcmp(last->version.data, state->data, state->len) == 0 && last->read_us > 0 && last->busy == 0 &&
           now < last->change_us && now - last->read_us < STATS_HOLDS_US + spread;
}

static int stats_take_over(seriatim_client *c, stats_state *s, srt_web_shard *shard, const srt_web_shard *last,
                           const srt_token *state)
{
    int64_t lag = s->w->now_us - last->soon_us;
    *shard = *last;
    shard->lag_us = lag > 0 ? lag : 0;
    return srt_web_stats_set_version(c, s, shard, state);
}

/* Of neighbours that are not idle, all between the first and the last that changed are asked for. */
static int stats_on_states(seriatim_client *c, stats_state *s, const srt_request *r, const srt_reply *reply)
{
    srt_web_row *row = &s->w->rows[r->place];
    const srt_web_row *last = stats_find_last(s, row);
    const srt_token *states = &reply->tokens[1];
    unsigned first, count, i, from = STATS_TOGETHER, to = 0;
    int status = SERIATIM_OK;
    if (!stats_asked(s, r, &first, &count))
        return SERIATIM_OK;
    if (reply->tokens[0].type != SRT_ARRAY || reply->count != 1 + (size_t)count)
        return srt_operator_protocol(c, "MGET");
    for (i = 0; i < count && status == SERIATIM_OK; i++) {
        if (states[i].type != SRT_STRING) /* never used */
            continue;
        if (last && stats_holds(s, &last->shards[first + i], &states[i], r->place)) {
            status = stats_take_over(c, s, &row->shards[first + i], &last->shards[first + i], &states[i]);
        } else if (!last && srt_web_stats_is_idle(s, row, &states[i])) {
            status = stats_ask_range(c, s, r->place, first + from, first + to);
            from = STATS_TOGETHER;
            if (status == SERIATIM_OK)
                status = srt_web_stats_ask_idle(c, s, r->place, first + i, &states[i]);
        } else {
            from = i < from ? i : from;
            to = i + 1;
        }
    }
    return status == SERIATIM_OK ? stats_ask_range(c, s, r->place, first + from, first + to) : status;
}

static int stats_read_figures(seriatim_client *c, stats_state *s, srt_web_shard *shard, const srt_token *at)
{
    shard->read_us = s->w->now_us;
    shard->length = srt_token_int(&at[0]);
    shard->retries = srt_token_int(&at[1]);
    shard->busy = srt_token_int(&at[2]);
    shard->parked = srt_token_int(&at[3]);
    shard->dead = srt_token_int(&at[4]);
    shard->delayed = srt_token_int(&at[5]);
    shard->soon_us = srt_token_int(&at[6]);
    shard->change_us = srt_token_int(&at[7]);
    shard->scheduled = srt_token_int(&at[8]);
    shard->lag_us = shard->read_us > shard->soon_us ? shard->read_us - shard->soon_us : 0;
    return srt_web_stats_set_version(c, s, shard, &at[STATS_FIGURES - 1]);
}

static int stats_on_shards(seriatim_client *c, stats_state *s, const srt_request *r, const srt_reply *reply)
{
    const srt_token *at = &reply->tokens[1];
    unsigned first, count, i;
    int status = SERIATIM_OK;
    if (!stats_asked(s, r, &first, &count))
        return SERIATIM_OK;
    if (!srt_reply_is_list(reply, 1) || reply->count != 2 + (size_t)count * STATS_FIGURES)
        return srt_operator_protocol(c, "summary");
    s->w->now_us = srt_token_int(at++);
    for (i = 0; i < count && status == SERIATIM_OK; i++, at += STATS_FIGURES)
        if (at[STATS_FIGURES - 1].len) /* it was used */
            status = stats_read_figures(c, s, &s->w->rows[r->place].shards[first + i], at);
    return status;
}

static int stats_on_locate(seriatim_client *c, stats_state *s, const srt_request *r, const srt_reply *reply)
{
    srt_web_row *row = &s->w->rows[r->place];
    const srt_token *at = &reply->tokens[1];
    if (!srt_reply_is_list(reply, 3))
        return srt_operator_protocol(c, "locate");
    row->is_dead |= srt_token_int(&at[1]) != 0;
    row->is_scheduled |= srt_token_int(&at[2]) != 0;
    if (row->state.len)
        return SERIATIM_OK;
    row->state.data = srt_arena_copy(&s->w->memory, at[0].data, at[0].len);
    row->state.len = at[0].len;
    return row->state.data ? SERIATIM_OK : srt_operator_nomem(c);
}

static int stats_take(seriatim_client *c, stats_state *s, const srt_request *r, const srt_reply *reply)
{
    switch (r->kind) {
    case STATS_TIME:
        if (reply->count == 3)
            s->w->now_us = srt_token_int(&reply->tokens[1]) * 1000000 + srt_token_int(&reply->tokens[2]);
        return SERIATIM_OK;
    case STATS_NODES:
        return stats_on_nodes(c, s, reply);
    case STATS_GONE:
        srt_web_stats_on_gone(s, r, reply);
        return SERIATIM_OK;
    case STATS_MOVE:
        srt_web_stats_on_move(s, r, reply);
        return SERIATIM_OK;
    case STATS_LAYOUT:
        return stats_on_layout(c, s, r, reply);
    case STATS_STATES:
        return stats_on_states(c, s, r, reply);
    case STATS_SHARDS:
        return stats_on_shards(c, s, r, reply);
    case STATS_LOCATE:
        return stats_on_locate(c, s, r, reply);
    default:
        return srt_web_stats_on_part(c, s, r, reply);
    }
}

/* One that was awaited has come, or is refused. */
static void stats_note_awaited(stats_state *s, const srt_request *r)
{
    s->awaited -= s->awaited > 0 && (r->kind == STATS_TIME || r->kind == STATS_NODES);
}

static int stats_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    int status = stats_take(c, c->state, r, reply);
    stats_note_awaited(c->state, r);
    return status == SERIATIM_OK ? stats_go_on(c, c->state) : status;
}

/*
 * Of several shards each is asked by itself then. A queue that is being laid out anew is asked for again; what else is
 * refused leaves its shard's figures empty.
 */
static int stats_take_refusal(seriatim_client *c, stats_state *s, const srt_request *r, const seriatim_error *error)
{
    int what = r->kind, status = SERIATIM_OK;
    unsigned first, count, i;
    if (error->status == SERIATIM_AUTH || error->status == SERIATIM_NOMEM) {
        c->error = *error;
        return srt_client_fail(c, error->status);
    }
    if (what >= STATS_JOBS)
        return srt_web_stats_on_part_refused(c, s, r);
    if (what == STATS_GONE)
        srt_web_stats_on_gone_refused(s, r);
    if (what <= STATS_LAYOUT || !stats_asked(s, r, &first, &count))
        return SERIATIM_OK;
    for (i = 0; i < count && count > 1 && status == SERIATIM_OK; i++)
        status = srt_web_stats_ask_shards(c, s, r->place, first + i, 1, what);
    if (count == 1)
        s->w->rows[r->place].shards[first].is_missing = 1;
    if (count == 1 && (first == 0 || what == STATS_LOCATE) && error->status == SERIATIM_GENERATION &&
        s->tries[r->place]++ < STATS_TRIES)
        return srt_web_stats_ask_layout(c, s, r->place);
    return status;
}

static int stats_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    int status = stats_take_refusal(c, c->state, r, error);
    stats_note_awaited(c->state, r);
    return status == SERIATIM_OK ? stats_go_on(c, c->state) : status;
}

/* ---- The snapshot ---------------------------------------------------------------------------- */

static void stats_sum(srt_web_row *row)
{
    srt_web_shard *total = &row->total;
    unsigned i;
    *total = row->gone;
    for (i = 0; i < row->shards_count && row->shards; i++) {
        const srt_web_shard *shard = &row->shards[i];
        total->length += shard->length;
        total->retries += shard->retries;
        total->busy += shard->busy;
        total->parked += shard->parked;
        total->dead += shard->dead;
        total->delayed += shard->delayed;
        total->scheduled += shard->scheduled;
        total->processed += shard->processed;
        total->failed += shard->failed;
        total->refused += shard->refused;
        total->removed += shard->removed;
        total->stale += shard->stale;
        total->pushed += shard->pushed;
        total->paused += shard->paused;
        total->owner_alive += shard->owner_alive;
        total->is_missing += shard->is_missing;
        if (shard->lag_us > total->lag_us)
            total->lag_us = shard->lag_us;
    }
}

static void stats_keep(const seriatim_client *c, stats_state *s)
{
    srt_web *w = s->w;
    size_t i;
    s->snapshot->rows = w->rows;
    s->snapshot->row_count = w->row_count;
    s->snapshot->now_us = w->now_us;
    s->snapshot->at = c->unix_time;
    s->snapshot->shard_count = 0;
    for (i = 0; i < w->row_count; i++)
        s->snapshot->shard_count += w->rows[i].shards_count;
    w->last_snapshot = s->snapshot == &w->snapshots[1];
}

static int stats_on_end(seriatim_client *c, int failed)
{
    stats_state *s = c->state;
    size_t i;
    for (i = 0; i < s->w->row_count; i++)
        stats_sum(&s->w->rows[i]);
    if (s->snapshot && failed == SERIATIM_OK)
        stats_keep(c, s);
    return failed;
}

/* Rows by these names, which outlive the request when it is a snapshot. */
static int stats_make_rows(stats_state *s, const seriatim_text *names, size_t count)
{
    srt_web_row *rows = srt_arena_alloc(srt_web_stats_memory(s), (count + 1) * sizeof *rows);
    size_t i;
    s->tries = srt_arena_alloc(&s->memory, count + 1);
    if (!rows || !s->tries)
        return SERIATIM_NOMEM;
    memset(rows, 0, (count + 1) * sizeof *rows);
    memset(s->tries, 0, count + 1);
    for (i = 0; i < count; i++) {
        rows[i].name = names[i];
        if (s->snapshot)
            rows[i].name.data = srt_arena_copy(&s->snapshot->memory, names[i].data, names[i].len);
        if (!rows[i].name.data)
            return SERIATIM_NOMEM;
    }
    s->w->rows = rows;
    s->w->row_count = count;
    return SERIATIM_OK;
}

int srt_web_queue_stats_begin(seriatim_client *c, srt_web *w, const seriatim_text *names, size_t count,
                              srt_web_snapshot *snapshot)
{
    static const srt_operation operation = {.send = stats_send,
                                            .on_reply = stats_on_reply,
                                            .on_refused = stats_on_refused,
                                            .on_end = stats_on_end,
                                            .release = stats_release};
    stats_state *s;
    int status = srt_operator_begin(c, sizeof *s);
    if (status != SERIATIM_OK)
        return status;
    s = c->state;
    s->w = w;
    s->snapshot = snapshot;
    s->last = &w->snapshots[w->last_snapshot];
    srt_arena_init(&s->memory, c->mem);
    srt_bytes_init(&s->key, c->mem);
    if (snapshot)
        srt_arena_reset(&snapshot->memory);
    if (stats_make_rows(s, names, count) != SERIATIM_OK) {
        stats_release(c);
        c->state = NULL;
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    }
    return srt_client_start_alone(c, &operation);
}

/* What the last snapshot found, if it was a large one and a moment ago. */
static int stats_show_again(const seriatim_client *c, srt_web *w)
{
    const srt_web_snapshot *last = &w->snapshots[w->last_snapshot];
    double age = c->unix_time - last->at;
    if (w->locate.data || last->at <= 0 || last->shard_count < STATS_MANY || age < 0 || age >= STATS_MOMENT)
        return 0;
    w->rows = last->rows;
    w->row_count = last->row_count;
    w->now_us = last->now_us;
    return 1;
}

/* Names that are known need no step of their own; step 0 then is the figures'. */
int srt_web_queue_stats_all(seriatim_client *c, srt_web *w)
{
    int status;
    if (w->step == 0) {
        if (stats_show_again(c, w)) {
            w->step = 2;
            return SRT_WEB_DONE;
        }
        status = srt_web_names_begin(c, w);
        if (status != SRT_WEB_DONE)
            return status;
        w->step++;
    } else if (w->step == 1 && srt_web_names_take(c, w) != SERIATIM_OK) {
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    }
    if (w->step != 1)
        return SRT_WEB_DONE;
    return srt_web_queue_stats_begin(c, w, w->names, w->name_count,
                                     w->locate.data ? NULL : &w->snapshots[!w->last_snapshot]);
}

/*
 * survey.c - the figures of all queues in one pipeline, and whether there is a queue of a name.
 *
 * A look at all queues asks for the states of the shards: every script that changes what the figures count changes the
 * state, too. So the figures of the last look stand wherever the state is the same, nothing runs, and nothing has come due.
 * Other shards are read by a script. Neighbours share a call; where one of them is refused, each is asked by itself. Where no
 * look knows the queue and nothing runs, plain commands read the same: they cost Redis half as much.
 */
#include "web/web.h"

#include <stdlib.h>
#include <string.h>

#define SURVEY_NAMES_SECONDS 10 /* for which the names hold, once finding them takes more than a few calls */
#define SURVEY_CHEAP_SLICES 4
#define SURVEY_TRIES 3          /* of a queue whose layout changes meanwhile */
#define SURVEY_HOLDS_US 20000000 /* keys may also be evicted, or changed by hand: figures are read anew within twice that */
#define SURVEY_MANY 1000        /* shards: such a look is shown to all who ask within a moment */
#define SURVEY_MOMENT 0.7       /* seconds */
#define SURVEY_PROCESSED 48     /* where it stands in a state, and so on */
#define SURVEY_FAILED 56
#define SURVEY_REFUSED 64
#define SURVEY_PUSHED 72
#define SURVEY_HELD 80
#define SURVEY_FLAGS 88
#define SURVEY_OWNER 89
#define SURVEY_NEVER 9000000000000000
#define SURVEY_FEW 100          /* ids that failed: Redis compares so many in a moment */
#define SURVEY_TOGETHER 5       /* shards of a call: the worst of them together take no more than a few ms */
#define SURVEY_FIGURES 9        /* of a shard, of summary.lua */
#define SURVEY_AHEAD 2000       /* requests under way, beyond which no other queue is begun */

/* Those of a quiet shard begin with SURVEY_JOBS, in the order in which they are asked. */
enum {
    SURVEY_TIME,
    SURVEY_NODES,
    SURVEY_LAYOUT,
    SURVEY_STATES,
    SURVEY_SHARDS,
    SURVEY_LOCATE,
    SURVEY_JOBS,
    SURVEY_RUNNING,
    SURVEY_OWNED,
    SURVEY_PARKED,
    SURVEY_RETRY,
    SURVEY_DEAD,
    SURVEY_DUE,
    SURVEY_FIRST,
    SURVEY_READY,
    SURVEY_LATER,
    SURVEY_NEXT,
    SURVEY_FAILED_LATER,
    SURVEY_FAILED_TIMES,
    SURVEY_RECORDS,
    SURVEY_STATE
};

typedef struct survey_state {
    srt_web *w;
    srt_web_look *look;         /* where the rows lie; NULL: in the request's memory */
    const srt_web_look *last;
    srt_arena memory;           /* the living nodes */
    seriatim_text *nodes;
    size_t node_count;
    size_t begun;               /* rows whose layout is asked for */
    unsigned char *tries;       /* of each row */
    srt_bytes key;
} survey_state;

/* ---- Names --------------------------------------------------------------------------------- */

int srt_web_names_begin(seriatim_client *c, srt_web *w)
{
    double age = c->unix_time - w->names_at;
    if (w->names_at > 0 && w->names_slices > SURVEY_CHEAP_SLICES && age >= 0 && age < SURVEY_NAMES_SECONDS)
        return SRT_WEB_DONE;
    return seriatim_queues_begin(c);
}

static int names_compare(const void *left, const void *right)
{
    const seriatim_text *a = left, *b = right;
    return srt_id_compare(a->data, a->len, b->data, b->len);
}

/* Those of Redis, and those that the host's workers have, whether or not Redis has heard of them. */
static size_t names_collect(const seriatim_client *c, const seriatim_text *found, size_t count, seriatim_text *names)
{
    size_t i, n = count, kept = 0;
    if (count)
        memcpy(names, found, count * sizeof *names);
    for (i = 0; i < c->registry.count; i++) {
        const srt_queue *queue = c->registry.queues[i];
        if (queue->wanted_shards == 0)
            continue;
        names[n].data = queue->name.data;
        names[n++].len = queue->name.len;
    }
    if (n > 1)
        qsort(names, n, sizeof *names, names_compare);
    for (i = 0; i < n; i++)
        if (kept == 0 || names_compare(&names[i], &names[kept - 1]) != 0)
            names[kept++] = names[i];
    return kept;
}

int srt_web_names_take(seriatim_client *c, srt_web *w)
{
    size_t count, i;
    const seriatim_text *found = seriatim_queues_result(c, &count);
    seriatim_text *names;
    w->name_count = 0;
    w->names_at = 0;
    srt_arena_reset(&w->names_memory);
    names = srt_arena_alloc(&w->names_memory, (count + c->registry.count + 1) * sizeof *names);
    if (!names)
        return SERIATIM_NOMEM;
    count = names_collect(c, found, count, names);
    for (i = 0; i < count; i++) {
        names[i].data = srt_arena_copy(&w->names_memory, names[i].data, names[i].len);
        if (!names[i].data)
            return SERIATIM_NOMEM;
    }
    w->names = names;
    w->name_count = count;
    w->names_at = c->unix_time;
    w->names_slices = srt_queues_slices(c);
    return SERIATIM_OK;
}

/* ---- Asking -------------------------------------------------------------------------------- */

static srt_arena *survey_memory(survey_state *s)
{
    return s->look ? &s->look->memory : &s->w->memory;
}

static void survey_release(seriatim_client *c)
{
    survey_state *s = c->state;
    srt_arena_free(&s->memory);
    srt_bytes_free(&s->key);
    srt_free(c->mem, s, sizeof *s);
}

static int survey_ask_layout(seriatim_client *c, survey_state *s, size_t place)
{
    const srt_web_row *row = &s->w->rows[place];
    srt_request *r = srt_session_begin(&c->session, srt_script_none, NULL, 0);
    if (!r)
        return srt_operator_nomem(c);
    srt_bytes_clear(&s->key);
    srt_key_layout(&s->key, c->registry.ns.data, row->name.data, row->name.len);
    srt_request_text(r, "GET");
    srt_request_arg(r, s->key.data, s->key.len);
    r->tail.failed |= s->key.failed;
    r->kind = SURVEY_LAYOUT;
    r->place = place;
    return srt_client_send(c, r);
}

static void survey_add_key(seriatim_client *c, survey_state *s, srt_request *r, const srt_web_row *row, unsigned shard, const char *kind)
{
    srt_bytes_clear(&s->key);
    srt_key_shard(&s->key, c->registry.ns.data, row->name.data, row->name.len, shard);
    srt_bytes_adds(&s->key, kind);
    srt_request_arg(r, s->key.data, s->key.len);
    r->tail.failed |= s->key.failed;
}

/* STATES or SHARDS of these, at most SURVEY_TOGETHER; or LOCATE in one. */
static int survey_ask_shards(seriatim_client *c, survey_state *s, size_t place, unsigned first, unsigned count, int what)
{
    static const int scripts[] = {
        [SURVEY_STATES] = srt_script_none, [SURVEY_SHARDS] = srt_script_summary, [SURVEY_LOCATE] = srt_script_locate};
    const srt_web_row *row = &s->w->rows[place];
    srt_request *r = srt_session_begin(&c->session, scripts[what], NULL, 0);
    unsigned i;
    if (!r)
        return srt_operator_nomem(c);
    if (what == SURVEY_STATES)
        srt_request_text(r, "MGET");
    for (i = 0; i < count; i++)
        survey_add_key(c, s, r, row, first + i, "state");
    if (what != SURVEY_STATES) {
        r->keys = count;
        srt_request_int(r, row->generation);
    }
    if (what == SURVEY_LOCATE)
        srt_request_arg(r, s->w->locate.data, s->w->locate.len);
    r->kind = what;
    r->place = place;
    r->part = first;
    r->subject = row->shards;
    return srt_client_send(c, r);
}

/* The figures of these, if any. */
static int survey_ask_range(seriatim_client *c, survey_state *s, size_t place, unsigned from, unsigned to)
{
    return to > from ? survey_ask_shards(c, s, place, from, to - from, SURVEY_SHARDS) : SERIATIM_OK;
}

/* What survey_ask_shards asked for, but not of a layout that is no more. */
static int survey_asked(const survey_state *s, const srt_request *r, unsigned *first, unsigned *count)
{
    *first = (unsigned)r->part;
    *count = (unsigned)(r->kind == SURVEY_STATES ? r->args - 1 : r->keys);
    return r->subject == s->w->rows[r->place].shards;
}

static int survey_go_on(seriatim_client *c, survey_state *s)
{
    int status = SERIATIM_OK;
    while (s->begun < s->w->row_count && c->session.waiting < SURVEY_AHEAD && status == SERIATIM_OK)
        status = survey_ask_layout(c, s, s->begun++);
    return status;
}

static int survey_send(seriatim_client *c, srt_queue *queue)
{
    srt_request *r = srt_session_begin(&c->session, srt_script_none, NULL, 0);
    int status;
    (void)queue;
    if (!r)
        return srt_operator_nomem(c);
    srt_request_text(r, "TIME");
    r->kind = SURVEY_TIME;
    status = srt_client_send(c, r);
    if (status == SERIATIM_OK)
        status = srt_nodes_ask(c, SURVEY_NODES);
    return status == SERIATIM_OK ? survey_go_on(c, c->state) : status;
}

/* ---- What the last look says ----------------------------------------------------------------- */

/* The queue as it was then, with the same shards, or NULL. */
static const srt_web_row *survey_find_last(const survey_state *s, const srt_web_row *row)
{
    size_t low = 0, high = s->last->row_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const srt_web_row *there = &s->last->rows[middle];
        int order = srt_id_compare(row->name.data, row->name.len, there->name.data, there->name.len);
        if (order == 0)
            return there->generation == row->generation && there->shards_count == row->shards_count && there->shards ? there : NULL;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* ---- Answers ------------------------------------------------------------------------------- */

static int survey_on_nodes(seriatim_client *c, survey_state *s, const srt_reply *reply)
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

static int survey_lives(const survey_state *s, const char *owner, size_t len)
{
    size_t i;
    for (i = 0; i < s->node_count && len; i++)
        if (s->nodes[i].len == len && memcmp(s->nodes[i].data, owner, len) == 0)
            return 1;
    return 0;
}

/* A queue without a layout, or of another schema, has no shards to show. */
static int survey_read_layout(srt_web_row *row, const srt_token *answer)
{
    int64_t shards;
    row->shards_count = 0;
    if (answer->type != SRT_STRING || srt_layout_read(answer->data, answer->len, &row->generation, &shards, NULL) != SERIATIM_OK)
        return 0;
    row->shards_count = (unsigned)shards;
    return 1;
}

static int survey_on_layout(seriatim_client *c, survey_state *s, const srt_request *r, const srt_reply *reply)
{
    size_t place = r->place;
    srt_web_row *row = &s->w->rows[place];
    unsigned shard, count;
    int status = SERIATIM_OK, what;
    if (!survey_read_layout(row, &reply->tokens[0]))
        return SERIATIM_OK;
    row->shards = srt_arena_alloc(survey_memory(s), row->shards_count * sizeof *row->shards);
    if (!row->shards)
        return srt_operator_nomem(c);
    memset(row->shards, 0, row->shards_count * sizeof *row->shards);
    for (shard = 0; shard < row->shards_count; shard++)
        row->shards[shard].owner = "";
    if (s->w->locate.data)
        return survey_ask_shards(c, s, place, seriatim_shard_of(s->w->locate.data, s->w->locate.len, row->shards_count), 1,
                                 SURVEY_LOCATE);
    what = s->look ? SURVEY_STATES : SURVEY_SHARDS;
    for (shard = 0; shard < row->shards_count && status == SERIATIM_OK; shard += count) {
        count = row->shards_count - shard < SURVEY_TOGETHER ? row->shards_count - shard : SURVEY_TOGETHER;
        status = survey_ask_shards(c, s, place, shard, count, what);
    }
    return status;
}

/* Not all are read anew at once. */
static int survey_holds(const survey_state *s, const srt_web_shard *last, const srt_token *state, size_t place)
{
    int64_t now = s->w->now_us, spread = (int64_t)(place * 7919 % 1000) * (SURVEY_HOLDS_US / 1000);
    return last->version.data && last->version.len == state->len && memcmp(last->version.data, state->data, state->len) == 0 &&
           last->read_us > 0 && last->busy == 0 && now < last->change_us && now - last->read_us < SURVEY_HOLDS_US + spread;
}

/* A whole number that is packed as a double; 0 when it is none. */
static int64_t survey_number(const char *data, size_t at)
{
    double number = srt_little_double(data + at);
    return number > -(double)SURVEY_NEVER && number < (double)SURVEY_NEVER ? (int64_t)number : 0;
}

/* What the state says by itself. */
static int survey_set_version(seriatim_client *c, survey_state *s, srt_web_shard *shard, const srt_token *state)
{
    size_t owned = state->len > SURVEY_OWNER ? state->len - SURVEY_OWNER : 0;
    shard->version.len = state->len;
    shard->version.data = srt_arena_copy(survey_memory(s), state->data, state->len);
    if (!shard->version.data)
        return srt_operator_nomem(c);
    shard->owner = owned ? shard->version.data + SURVEY_OWNER : "";
    shard->owner_alive = survey_lives(s, shard->owner, owned);
    if (state->len >= SURVEY_OWNER) {
        shard->processed = survey_number(state->data, SURVEY_PROCESSED);
        shard->failed = survey_number(state->data, SURVEY_FAILED);
        shard->refused = survey_number(state->data, SURVEY_REFUSED);
        shard->pushed = survey_number(state->data, SURVEY_PUSHED);
        shard->paused = state->data[SURVEY_FLAGS] & 1;
    }
    return SERIATIM_OK;
}

static int survey_take_over(seriatim_client *c, survey_state *s, srt_web_shard *shard, const srt_web_shard *last, const srt_token *state)
{
    int64_t lag = s->w->now_us - last->soon_us;
    *shard = *last;
    shard->lag_us = lag > 0 ? lag : 0;
    return survey_set_version(c, s, shard, state);
}

/* ---- Quiet shards ------------------------------------------------------------------------------ */

/* Words behind the key; with `other`, a second key, their number before them; `later`: first the bound of what is not due. */
static const struct {
    const char *command, *key, *rest[5], *other;
    int later;
} survey_parts[] = {[SURVEY_JOBS] = {"HLEN", "jobs", {NULL}, NULL, 0},
                    [SURVEY_RUNNING] = {"HLEN", "running", {NULL}, NULL, 0},
                    [SURVEY_OWNED] = {"HEXISTS", "running", {""}, NULL, 0},
                    [SURVEY_PARKED] = {"ZCARD", "parked", {NULL}, NULL, 0},
                    [SURVEY_RETRY] = {"ZCARD", "retry", {NULL}, NULL, 0},
                    [SURVEY_DEAD] = {"HLEN", "dead", {NULL}, NULL, 0},
                    [SURVEY_DUE] = {"ZCARD", "due", {NULL}, NULL, 0},
                    [SURVEY_FIRST] = {"ZRANGE", "due", {"0", "0", "WITHSCORES"}, NULL, 0},
                    [SURVEY_READY] = {"LRANGE", "ready", {"0", "3"}, NULL, 0},
                    [SURVEY_LATER] = {"ZCOUNT", "due", {"+inf"}, NULL, 1},
                    [SURVEY_NEXT] = {"ZRANGEBYSCORE", "due", {"+inf", "WITHSCORES", "LIMIT", "0", "1"}, NULL, 1},
                    [SURVEY_FAILED_LATER] = {"ZINTER", "due", {NULL}, "retry", 0},
                    [SURVEY_FAILED_TIMES] = {"ZINTER", "due", {"WEIGHTS", "1", "0", "WITHSCORES"}, "retry", 0},
                    [SURVEY_RECORDS] = {"HMGET", "jobs", {NULL}, NULL, 0},
                    [SURVEY_STATE] = {"GET", "state", {NULL}, NULL, 0}};

/* By its state no claim holds ids, and no id is in doubt. */
static int survey_is_quiet(const survey_state *s, const srt_web_row *row, const srt_token *state)
{
    return s->w->now_us > 0 && state->len >= SURVEY_OWNER && survey_number(state->data, 0) == row->generation &&
           survey_number(state->data, SURVEY_HELD) == 0 && ((unsigned char)state->data[SURVEY_FLAGS] & 2) == 0;
}

static void survey_add_bound(survey_state *s, srt_request *r)
{
    srt_bytes_clear(&s->key);
    srt_bytes_addc(&s->key, '(');
    srt_bytes_add_int(&s->key, s->w->now_us);
    srt_request_arg(r, s->key.data, s->key.len);
    r->tail.failed |= s->key.failed;
}

/* One of survey_parts, with these ids behind it. */
static int survey_ask_part(seriatim_client *c, survey_state *s, size_t place, unsigned shard, int kind, const srt_token *ids, size_t count)
{
    const srt_web_row *row = &s->w->rows[place];
    srt_request *r = srt_session_begin(&c->session, srt_script_none, NULL, 0);
    size_t i;
    if (!r)
        return srt_operator_nomem(c);
    srt_request_text(r, survey_parts[kind].command);
    if (survey_parts[kind].other)
        srt_request_text(r, "2");
    survey_add_key(c, s, r, row, shard, survey_parts[kind].key);
    if (survey_parts[kind].other)
        survey_add_key(c, s, r, row, shard, survey_parts[kind].other);
    if (survey_parts[kind].later)
        survey_add_bound(s, r);
    for (i = 0; i < 5 && survey_parts[kind].rest[i]; i++)
        srt_request_text(r, survey_parts[kind].rest[i]);
    for (i = 0; i < count; i++)
        srt_request_arg(r, ids[i].data, ids[i].len);
    r->kind = kind;
    r->place = place;
    r->part = shard;
    r->subject = row->shards;
    return srt_client_send(c, r);
}

/*
 * The state is read before and behind what plain commands read: where it is the same, all is of one moment; else, and where
 * something runs after all, the script is asked. While they are under way `length` counts what is in `jobs`, `delayed` what is
 * in `due`, and read_us is -1 once more than they tell is to be known.
 */
static int survey_ask_quiet(seriatim_client *c, survey_state *s, size_t place, unsigned shard, const srt_token *state)
{
    srt_web_shard *figures = &s->w->rows[place].shards[shard];
    int status = survey_set_version(c, s, figures, state), kind;
    figures->soon_us = figures->change_us = SURVEY_NEVER;
    for (kind = SURVEY_JOBS; kind <= SURVEY_READY && status == SERIATIM_OK; kind++)
        if (kind != SURVEY_OWNED || state->len > SURVEY_OWNER)
            status = survey_ask_part(c, s, place, shard, kind, NULL, 0);
    return status;
}

static int survey_ask_script(seriatim_client *c, survey_state *s, size_t place, unsigned shard)
{
    srt_web_shard *figures = &s->w->rows[place].shards[shard];
    memset(figures, 0, sizeof *figures);
    figures->owner = "";
    return survey_ask_shards(c, s, place, shard, 1, SURVEY_SHARDS);
}

/* What of `due` is not due, when that changes, and how much of it failed. */
static int survey_ask_due(seriatim_client *c, survey_state *s, size_t place, unsigned shard)
{
    srt_web_shard *figures = &s->w->rows[place].shards[shard];
    int overdue = figures->soon_us <= s->w->now_us, status = SERIATIM_OK;
    if (overdue) {
        status = survey_ask_part(c, s, place, shard, SURVEY_LATER, NULL, 0);
        if (status == SERIATIM_OK)
            status = survey_ask_part(c, s, place, shard, SURVEY_NEXT, NULL, 0);
    } else {
        figures->change_us = figures->soon_us;
    }
    if (figures->retries > 0 && status == SERIATIM_OK)
        status = survey_ask_part(c, s, place, shard, overdue ? SURVEY_FAILED_TIMES : SURVEY_FAILED_LATER, NULL, 0);
    return status;
}

/* All sizes are known, and the first ids of the ready list. */
static int survey_on_ready(seriatim_client *c, survey_state *s, const srt_request *r, const srt_reply *reply)
{
    unsigned shard = (unsigned)r->part;
    srt_web_shard *figures = &s->w->rows[r->place].shards[shard];
    int status = SERIATIM_OK, due;
    figures->length -= figures->parked;
    due = figures->length > 0 && figures->delayed > 0;
    if (figures->read_us < 0 || figures->busy || !srt_reply_is_list(reply, 0) || (due && figures->retries > SURVEY_FEW))
        return survey_ask_script(c, s, r->place, shard);
    if (due) {
        status = survey_ask_due(c, s, r->place, shard);
    } else {
        figures->delayed = 0;
        figures->soon_us = SURVEY_NEVER;
    }
    if (figures->length > 0 && reply->count > 1 && status == SERIATIM_OK)
        status = survey_ask_part(c, s, r->place, shard, SURVEY_RECORDS, &reply->tokens[1], reply->count - 1);
    return status == SERIATIM_OK ? survey_ask_part(c, s, r->place, shard, SURVEY_STATE, NULL, 0) : status;
}

/* Those that are due later, by their times, or all. */
static void survey_on_failed(const survey_state *s, srt_web_shard *figures, int kind, const srt_reply *reply)
{
    size_t i, width = kind == SURVEY_FAILED_TIMES ? 2 : 1;
    for (i = width; i < reply->count; i += width)
        if (width == 1 || srt_token_int(&reply->tokens[i]) > s->w->now_us)
            figures->delayed--;
}

/* Of the ids at the head of the ready list; all their entries may be stale. */
static void survey_on_records(srt_web_shard *figures, const srt_reply *reply)
{
    int64_t soon = SURVEY_NEVER;
    size_t i;
    for (i = 1; i < reply->count; i++) {
        const srt_token *record = &reply->tokens[i];
        int64_t due;
        if (record->type != SRT_STRING || record->len < 9 || (record->data[0] & 3) != 0)
            continue;
        due = survey_number(record->data, 1);
        soon = due < soon ? due : soon;
    }
    if (soon == SURVEY_NEVER)
        figures->read_us = -1;
    if (soon < figures->soon_us)
        figures->soon_us = soon;
}

static int survey_on_state(seriatim_client *c, survey_state *s, const srt_request *r, const srt_token *state)
{
    srt_web_shard *figures = &s->w->rows[r->place].shards[r->part];
    if (figures->read_us < 0 || state->type != SRT_STRING || state->len != figures->version.len ||
        memcmp(state->data, figures->version.data, state->len) != 0)
        return survey_ask_script(c, s, r->place, (unsigned)r->part);
    figures->read_us = s->w->now_us;
    figures->lag_us = figures->read_us > figures->soon_us ? figures->read_us - figures->soon_us : 0;
    return SERIATIM_OK;
}

static int survey_on_part(seriatim_client *c, survey_state *s, const srt_request *r, const srt_reply *reply)
{
    srt_web_shard *figures = s->w->rows[r->place].shards;
    int64_t value = srt_token_int(&reply->tokens[0]);
    if (r->subject != figures) /* of a layout that is no more */
        return SERIATIM_OK;
    figures += r->part;
    switch (r->kind) {
    case SURVEY_JOBS:
        figures->length = value;
        break;
    case SURVEY_RUNNING:
        figures->busy = value;
        break;
    case SURVEY_OWNED:
        figures->busy -= value;
        break;
    case SURVEY_PARKED:
        figures->parked = value;
        break;
    case SURVEY_RETRY:
        figures->retries = value;
        break;
    case SURVEY_DEAD:
        figures->dead = value;
        break;
    case SURVEY_DUE:
    case SURVEY_LATER:
        figures->delayed = value;
        break;
    case SURVEY_FIRST:
        if (reply->count > 2)
            figures->soon_us = srt_token_int(&reply->tokens[2]);
        break;
    case SURVEY_READY:
        return survey_on_ready(c, s, r, reply);
    case SURVEY_RECORDS:
        survey_on_records(figures, reply);
        break;
    case SURVEY_NEXT:
        if (reply->count > 2)
            figures->change_us = srt_token_int(&reply->tokens[2]);
        break;
    case SURVEY_FAILED_LATER:
    case SURVEY_FAILED_TIMES:
        survey_on_failed(s, figures, r->kind, reply);
        break;
    default:
        return survey_on_state(c, s, r, &reply->tokens[0]);
    }
    return SERIATIM_OK;
}

/* A part is refused: the script will be, too, or finds what it can. */
static int survey_on_part_refused(seriatim_client *c, survey_state *s, const srt_request *r)
{
    srt_web_shard *shards = s->w->rows[r->place].shards;
    if (r->subject != shards)
        return SERIATIM_OK;
    shards[r->part].read_us = -1;
    return r->kind == SURVEY_READY || r->kind == SURVEY_STATE ? survey_ask_script(c, s, r->place, (unsigned)r->part) : SERIATIM_OK;
}

/* ---- Answers to many shards ---------------------------------------------------------------------- */

/* Of neighbours that are no quiet ones, all between the first and the last that changed are asked for. */
static int survey_on_states(seriatim_client *c, survey_state *s, const srt_request *r, const srt_reply *reply)
{
    srt_web_row *row = &s->w->rows[r->place];
    const srt_web_row *last = survey_find_last(s, row);
    const srt_token *states = &reply->tokens[1];
    unsigned first, count, i, from = SURVEY_TOGETHER, to = 0;
    int status = SERIATIM_OK;
    if (!survey_asked(s, r, &first, &count))
        return SERIATIM_OK;
    if (reply->tokens[0].type != SRT_ARRAY || reply->count != 1 + (size_t)count)
        return srt_operator_protocol(c, "MGET");
    for (i = 0; i < count && status == SERIATIM_OK; i++) {
        if (states[i].type != SRT_STRING) /* never used */
            continue;
        if (last && survey_holds(s, &last->shards[first + i], &states[i], r->place)) {
            status = survey_take_over(c, s, &row->shards[first + i], &last->shards[first + i], &states[i]);
        } else if (!last && survey_is_quiet(s, row, &states[i])) {
            status = survey_ask_range(c, s, r->place, first + from, first + to);
            from = SURVEY_TOGETHER;
            if (status == SERIATIM_OK)
                status = survey_ask_quiet(c, s, r->place, first + i, &states[i]);
        } else {
            from = i < from ? i : from;
            to = i + 1;
        }
    }
    return status == SERIATIM_OK ? survey_ask_range(c, s, r->place, first + from, first + to) : status;
}

/* ---- Answers of scripts ------------------------------------------------------------------------ */

static int survey_read_figures(seriatim_client *c, survey_state *s, srt_web_shard *shard, const srt_token *at)
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
    shard->lag_us = shard->read_us > shard->soon_us ? shard->read_us - shard->soon_us : 0;
    return survey_set_version(c, s, shard, &at[8]);
}

static int survey_on_shards(seriatim_client *c, survey_state *s, const srt_request *r, const srt_reply *reply)
{
    const srt_token *at = &reply->tokens[1];
    unsigned first, count, i;
    int status = SERIATIM_OK;
    if (!survey_asked(s, r, &first, &count))
        return SERIATIM_OK;
    if (!srt_reply_is_list(reply, 1) || reply->count != 2 + (size_t)count * SURVEY_FIGURES)
        return srt_operator_protocol(c, "summary");
    s->w->now_us = srt_token_int(at++);
    for (i = 0; i < count && status == SERIATIM_OK; i++, at += SURVEY_FIGURES)
        if (at[SURVEY_FIGURES - 1].len) /* it was used */
            status = survey_read_figures(c, s, &s->w->rows[r->place].shards[first + i], at);
    return status;
}

static int survey_on_locate(seriatim_client *c, survey_state *s, const srt_request *r, const srt_reply *reply)
{
    srt_web_row *row = &s->w->rows[r->place];
    const srt_token *at = &reply->tokens[1];
    if (!srt_reply_is_list(reply, 2))
        return srt_operator_protocol(c, "locate");
    row->state.data = srt_arena_copy(&s->w->memory, at[0].data, at[0].len);
    row->state.len = at[0].len;
    row->is_dead = srt_token_int(&at[1]) != 0;
    return row->state.data ? SERIATIM_OK : srt_operator_nomem(c);
}

static int survey_take(seriatim_client *c, survey_state *s, const srt_request *r, const srt_reply *reply)
{
    switch (r->kind) {
    case SURVEY_TIME:
        if (reply->count == 3)
            s->w->now_us = srt_token_int(&reply->tokens[1]) * 1000000 + srt_token_int(&reply->tokens[2]);
        return SERIATIM_OK;
    case SURVEY_NODES:
        return survey_on_nodes(c, s, reply);
    case SURVEY_LAYOUT:
        return survey_on_layout(c, s, r, reply);
    case SURVEY_STATES:
        return survey_on_states(c, s, r, reply);
    case SURVEY_SHARDS:
        return survey_on_shards(c, s, r, reply);
    case SURVEY_LOCATE:
        return survey_on_locate(c, s, r, reply);
    default:
        return survey_on_part(c, s, r, reply);
    }
}

static int survey_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    int status = survey_take(c, c->state, r, reply);
    return status == SERIATIM_OK ? survey_go_on(c, c->state) : status;
}

/*
 * Of several shards each is asked by itself then. A queue that is being laid out anew is asked for again; what else is
 * refused leaves its shard's figures empty.
 */
static int survey_take_refusal(seriatim_client *c, survey_state *s, const srt_request *r, const seriatim_error *error)
{
    int what = r->kind, status = SERIATIM_OK;
    unsigned first, count, i;
    if (error->status == SERIATIM_AUTH || error->status == SERIATIM_NOMEM) {
        c->error = *error;
        return srt_client_fail(c, error->status);
    }
    if (what >= SURVEY_JOBS)
        return survey_on_part_refused(c, s, r);
    if (what <= SURVEY_LAYOUT || !survey_asked(s, r, &first, &count))
        return SERIATIM_OK;
    for (i = 0; i < count && count > 1 && status == SERIATIM_OK; i++)
        status = survey_ask_shards(c, s, r->place, first + i, 1, what);
    if (count == 1)
        s->w->rows[r->place].shards[first].is_missing = 1;
    if (count == 1 && (first == 0 || what == SURVEY_LOCATE) && error->status == SERIATIM_GENERATION && s->tries[r->place]++ < SURVEY_TRIES)
        return survey_ask_layout(c, s, r->place);
    return status;
}

static int survey_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    int status = survey_take_refusal(c, c->state, r, error);
    return status == SERIATIM_OK ? survey_go_on(c, c->state) : status;
}

static void survey_sum(srt_web_row *row)
{
    srt_web_shard *total = &row->total;
    unsigned i;
    memset(total, 0, sizeof *total);
    for (i = 0; i < row->shards_count && row->shards; i++) {
        const srt_web_shard *shard = &row->shards[i];
        total->length += shard->length;
        total->retries += shard->retries;
        total->busy += shard->busy;
        total->parked += shard->parked;
        total->dead += shard->dead;
        total->delayed += shard->delayed;
        total->processed += shard->processed;
        total->failed += shard->failed;
        total->refused += shard->refused;
        total->pushed += shard->pushed;
        total->paused += shard->paused;
        total->owner_alive += shard->owner_alive;
        if (shard->lag_us > total->lag_us)
            total->lag_us = shard->lag_us;
    }
}

static void survey_keep(const seriatim_client *c, survey_state *s)
{
    srt_web *w = s->w;
    size_t i;
    s->look->rows = w->rows;
    s->look->row_count = w->row_count;
    s->look->now_us = w->now_us;
    s->look->at = c->unix_time;
    s->look->shard_count = 0;
    for (i = 0; i < w->row_count; i++)
        s->look->shard_count += w->rows[i].shards_count;
    w->last_look = s->look == &w->looks[1];
}

static int survey_on_end(seriatim_client *c, int failed)
{
    survey_state *s = c->state;
    size_t i;
    for (i = 0; i < s->w->row_count; i++)
        survey_sum(&s->w->rows[i]);
    if (s->look && failed == SERIATIM_OK)
        survey_keep(c, s);
    return failed;
}

/* Rows by these names, which outlive the request when it is a look. */
static int survey_make_rows(survey_state *s, const seriatim_text *names, size_t count)
{
    srt_web_row *rows = srt_arena_alloc(survey_memory(s), (count + 1) * sizeof *rows);
    size_t i;
    s->tries = srt_arena_alloc(&s->memory, count + 1);
    if (!rows || !s->tries)
        return SERIATIM_NOMEM;
    memset(rows, 0, (count + 1) * sizeof *rows);
    memset(s->tries, 0, count + 1);
    for (i = 0; i < count; i++) {
        rows[i].name = names[i];
        if (s->look)
            rows[i].name.data = srt_arena_copy(&s->look->memory, names[i].data, names[i].len);
        if (!rows[i].name.data)
            return SERIATIM_NOMEM;
    }
    s->w->rows = rows;
    s->w->row_count = count;
    return SERIATIM_OK;
}

int srt_web_survey_begin(seriatim_client *c, srt_web *w, const seriatim_text *names, size_t count, srt_web_look *look)
{
    static const srt_operation operation = {.send = survey_send,
                                            .on_reply = survey_on_reply,
                                            .on_refused = survey_on_refused,
                                            .on_end = survey_on_end,
                                            .release = survey_release};
    survey_state *s;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    s = srt_operator_state(c, sizeof *s);
    if (!s)
        return SERIATIM_NOMEM;
    s->w = w;
    s->look = look;
    s->last = &w->looks[w->last_look];
    srt_arena_init(&s->memory, c->mem);
    srt_bytes_init(&s->key, c->mem);
    c->state = s;
    if (look)
        srt_arena_reset(&look->memory);
    if (survey_make_rows(s, names, count) != SERIATIM_OK) {
        survey_release(c);
        c->state = NULL;
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    }
    return srt_client_start(c, &operation, SRT_NO_QUEUE);
}

/* What the last look found, if it was a large one and a moment ago. */
static int survey_show_again(const seriatim_client *c, srt_web *w)
{
    const srt_web_look *last = &w->looks[w->last_look];
    double age = c->unix_time - last->at;
    if (w->locate.data || last->at <= 0 || last->shard_count < SURVEY_MANY || age < 0 || age >= SURVEY_MOMENT)
        return 0;
    w->rows = last->rows;
    w->row_count = last->row_count;
    w->now_us = last->now_us;
    return 1;
}

/* Names that are known need no step of their own; step 0 then is the figures'. */
int srt_web_survey_all(seriatim_client *c, srt_web *w)
{
    int status;
    if (w->step == 0) {
        if (survey_show_again(c, w)) {
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
    return srt_web_survey_begin(c, w, w->names, w->name_count, w->locate.data ? NULL : &w->looks[!w->last_look]);
}

/* ---- One queue ----------------------------------------------------------------------------- */

/* What is asked for, and whether it is there. */
typedef struct layout_state {
    seriatim_text name;
    int found;
} layout_state;

static int exists_send(seriatim_client *c, srt_queue *queue)
{
    const layout_state *l = c->state;
    srt_request *r = srt_session_begin(&c->session, srt_script_none, NULL, 0);
    srt_bytes key;
    int status;
    (void)queue;
    if (!r)
        return srt_operator_nomem(c);
    srt_bytes_init(&key, c->mem);
    srt_key_layout(&key, c->registry.ns.data, l->name.data, l->name.len);
    srt_request_text(r, "EXISTS");
    srt_request_arg(r, key.data, key.len);
    r->tail.failed |= key.failed;
    status = srt_client_send(c, r);
    srt_bytes_free(&key);
    return status;
}

static int exists_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    (void)r;
    ((layout_state *)c->state)->found = srt_token_int(&reply->tokens[0]) > 0;
    return SERIATIM_OK;
}

static void exists_release(seriatim_client *c)
{
    srt_free(c->mem, c->state, sizeof(layout_state));
}

int srt_web_layout_begin(seriatim_client *c, srt_web *w)
{
    static const srt_operation operation = {.send = exists_send, .on_reply = exists_on_reply, .release = exists_release};
    layout_state *l;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    l = srt_operator_state(c, sizeof *l);
    if (!l)
        return SERIATIM_NOMEM;
    l->name = w->worker;
    c->state = l;
    return srt_client_start(c, &operation, SRT_NO_QUEUE);
}

int srt_web_layout_found(const seriatim_client *c)
{
    return c->operation && c->operation->send == exists_send && ((const layout_state *)c->state)->found;
}

static size_t find_number(const seriatim_client *c, seriatim_text name)
{
    size_t i;
    for (i = 0; i < c->registry.count; i++)
        if (c->registry.queues[i]->name.len == name.len && memcmp(c->registry.queues[i]->name.data, name.data, name.len) == 0)
            return i;
    return SRT_NO_QUEUE;
}

static int find_register(seriatim_client *c, srt_web *w)
{
    seriatim_queue_settings settings;
    seriatim_queue_settings_init(&settings);
    settings.name = w->worker.data;
    settings.name_len = w->worker.len;
    settings.shards_count = 0;
    return seriatim_client_queue(c, &settings, &w->queue);
}

/* w->worker is no queue: is it a worker? Its queue takes its place, once: a queue's name is not looked up as a worker's again. */
static int find_by_worker(srt_web *w)
{
    const seriatim_web_worker *worker = srt_web_worker_named(w, w->worker);
    if (!worker)
        return 0;
    w->worker = worker->queue;
    w->worker_count = 0;
    w->step = 0;
    return 1;
}

/* Only what Redis knows becomes known to the client: no request can fill its memory with names. */
int srt_web_find_queue(seriatim_client *c, srt_web *w)
{
    if (w->step == 1 && w->queue == SRT_NO_QUEUE) {
        if (srt_web_layout_found(c))
            return find_register(c, w) == SERIATIM_OK ? SRT_WEB_DONE : SERIATIM_NOMEM;
        if (!find_by_worker(w))
            return srt_web_refuse(w, 404, "there is no such queue");
    }
    if (w->step > 0)
        return SRT_WEB_DONE;
    w->queue = find_number(c, w->worker);
    if (w->queue == SRT_NO_QUEUE && (w->worker.len < 1 || w->worker.len > 512))
        return srt_web_refuse(w, 404, "there is no such queue");
    if (w->queue == SRT_NO_QUEUE)
        return srt_web_layout_begin(c, w);
    w->step++;
    return SRT_WEB_DONE;
}

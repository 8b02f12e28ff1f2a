/* web_survey.c - the figures of all queues in one pipeline, and whether there is a queue of a name. */
#include "web.h"

#include <stdlib.h>
#include <string.h>

#define SURVEY_NAMES_SECONDS 10 /* for which the names hold, once finding them takes more than a few calls */
#define SURVEY_CHEAP_SLICES 8
#define SURVEY_TRIES 3          /* of a queue whose layout changes meanwhile */

enum { SURVEY_NODES, SURVEY_LAYOUT, SURVEY_SHARD, SURVEY_LOCATE };

typedef struct survey_state {
    srt_web *w;
    srt_arena memory;           /* the living nodes */
    seriatim_text *nodes;
    size_t node_count;
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

static int survey_ask_shard(seriatim_client *c, survey_state *s, size_t place, unsigned shard)
{
    const srt_web_row *row = &s->w->rows[place];
    int locates = s->w->locate.data != NULL;
    srt_request *r = srt_session_begin(&c->session, locates ? srt_script_locate : srt_script_summary, NULL, 0);
    if (!r)
        return srt_operator_nomem(c);
    srt_bytes_clear(&s->key);
    srt_key_shard(&s->key, c->registry.ns.data, row->name.data, row->name.len, shard);
    srt_bytes_adds(&s->key, "state");
    srt_request_arg(r, s->key.data, s->key.len);
    r->tail.failed |= s->key.failed;
    r->keys = 1;
    srt_request_int(r, row->generation);
    if (locates)
        srt_request_arg(r, s->w->locate.data, s->w->locate.len);
    r->kind = locates ? SURVEY_LOCATE : SURVEY_SHARD;
    r->place = place;
    r->subject = &row->shards[shard];
    return srt_client_send(c, r);
}

static int survey_send(seriatim_client *c, srt_queue *queue)
{
    survey_state *s = c->state;
    size_t i;
    int status = srt_nodes_ask(c, SURVEY_NODES);
    (void)queue;
    for (i = 0; i < s->w->row_count && status == SERIATIM_OK; i++)
        status = survey_ask_layout(c, s, i);
    return status;
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
    s->w->now_us = now * 1000;
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
    unsigned shard;
    int status = SERIATIM_OK;
    if (!survey_read_layout(row, &reply->tokens[0]))
        return SERIATIM_OK;
    row->shards = srt_arena_alloc(&s->w->memory, row->shards_count * sizeof *row->shards);
    if (!row->shards)
        return srt_operator_nomem(c);
    memset(row->shards, 0, row->shards_count * sizeof *row->shards);
    for (shard = 0; shard < row->shards_count; shard++)
        row->shards[shard].owner = "";
    if (s->w->locate.data)
        return survey_ask_shard(c, s, place, seriatim_shard_of(s->w->locate.data, s->w->locate.len, row->shards_count));
    for (shard = 0; shard < row->shards_count && status == SERIATIM_OK; shard++)
        status = survey_ask_shard(c, s, place, shard);
    return status;
}

/* The living node of this name, or a copy of a dead one's name. */
static int survey_note_owner(survey_state *s, srt_web_shard *shard, const srt_token *owner)
{
    size_t i;
    if (owner->len == 0)
        return SERIATIM_OK;
    for (i = 0; i < s->node_count; i++)
        if (s->nodes[i].len == owner->len && memcmp(s->nodes[i].data, owner->data, owner->len) == 0)
            shard->owner_alive = 1;
    shard->owner = srt_arena_copy(&s->w->memory, owner->data, owner->len);
    return shard->owner ? SERIATIM_OK : SERIATIM_NOMEM;
}

static int survey_on_shard(seriatim_client *c, survey_state *s, const srt_request *r, const srt_reply *reply)
{
    srt_web_shard *shard = r->subject;
    const srt_token *at = &reply->tokens[1];
    if (!srt_reply_is_list(reply, 1) || (reply->count != 2 && reply->count != 14))
        return srt_operator_protocol(c, "summary");
    s->w->now_us = srt_token_int(&at[0]);
    if (reply->count == 2)
        return SERIATIM_OK;
    shard->length = srt_token_int(&at[1]);
    shard->retries = srt_token_int(&at[2]);
    shard->busy = srt_token_int(&at[3]);
    shard->parked = srt_token_int(&at[4]);
    shard->dead = srt_token_int(&at[5]);
    shard->delayed = srt_token_int(&at[6]);
    shard->processed = srt_token_int(&at[7]);
    shard->failed = srt_token_int(&at[8]);
    shard->refused = srt_token_int(&at[9]);
    shard->paused = srt_token_int(&at[10]);
    shard->lag_us = srt_token_int(&at[11]);
    return survey_note_owner(s, shard, &at[12]) == SERIATIM_OK ? SERIATIM_OK : srt_operator_nomem(c);
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

static int survey_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    survey_state *s = c->state;
    if (r->kind == SURVEY_NODES)
        return survey_on_nodes(c, s, reply);
    if (r->kind == SURVEY_LOCATE)
        return survey_on_locate(c, s, r, reply);
    return r->kind == SURVEY_LAYOUT ? survey_on_layout(c, s, r, reply) : survey_on_shard(c, s, r, reply);
}

/* A queue that is being laid out anew is asked for again; what else is refused leaves its shard's figures empty. */
static int survey_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    survey_state *s = c->state;
    int first = r->kind == SURVEY_LOCATE || (r->kind == SURVEY_SHARD && r->subject == &s->w->rows[r->place].shards[0]);
    if (error->status == SERIATIM_GENERATION && first && s->tries[r->place]++ < SURVEY_TRIES)
        return survey_ask_layout(c, s, r->place);
    if (error->status == SERIATIM_AUTH || error->status == SERIATIM_NOMEM) {
        c->error = *error;
        return srt_client_fail(c, error->status);
    }
    return SERIATIM_OK;
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
        total->paused += shard->paused;
        total->owner_alive += shard->owner_alive;
        if (shard->lag_us > total->lag_us)
            total->lag_us = shard->lag_us;
    }
}

static int survey_on_end(seriatim_client *c, int failed)
{
    survey_state *s = c->state;
    size_t i;
    for (i = 0; i < s->w->row_count; i++)
        survey_sum(&s->w->rows[i]);
    return failed;
}

int srt_web_survey_begin(seriatim_client *c, srt_web *w, const seriatim_text *names, size_t count)
{
    static const srt_operation operation = {.send = survey_send,
                                            .on_reply = survey_on_reply,
                                            .on_refused = survey_on_refused,
                                            .on_end = survey_on_end,
                                            .release = survey_release};
    survey_state *s;
    size_t i;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    s = srt_operator_state(c, sizeof *s);
    if (!s)
        return SERIATIM_NOMEM;
    s->w = w;
    srt_arena_init(&s->memory, c->mem);
    srt_bytes_init(&s->key, c->mem);
    c->state = s;
    w->rows = srt_arena_alloc(&w->memory, (count + 1) * sizeof *w->rows);
    s->tries = srt_arena_alloc(&s->memory, count + 1);
    if (!w->rows || !s->tries) {
        survey_release(c);
        c->state = NULL;
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    }
    memset(w->rows, 0, (count + 1) * sizeof *w->rows);
    memset(s->tries, 0, count + 1);
    for (i = 0; i < count; i++)
        w->rows[i].name = names[i];
    w->row_count = count;
    return srt_client_start(c, &operation, SRT_NO_QUEUE);
}

/* Names that are known need no step of their own; step 0 then is the figures'. */
int srt_web_survey_all(seriatim_client *c, srt_web *w)
{
    int status;
    if (w->step == 0) {
        status = srt_web_names_begin(c, w);
        if (status != SRT_WEB_DONE)
            return status;
        w->step++;
    } else if (w->step == 1 && srt_web_names_take(c, w) != SERIATIM_OK) {
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    }
    return w->step == 1 ? srt_web_survey_begin(c, w, w->names, w->name_count) : SRT_WEB_DONE;
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

/* Only what Redis knows becomes known to the client: no request can fill its memory with names. */
int srt_web_find_queue(seriatim_client *c, srt_web *w)
{
    if (w->step == 0) {
        w->queue = find_number(c, w->worker);
        if (w->queue == SRT_NO_QUEUE && (w->worker.len < 1 || w->worker.len > 512))
            return srt_web_refuse(w, 404, "there is no such queue");
        if (w->queue == SRT_NO_QUEUE)
            return srt_web_layout_begin(c, w);
        w->step++;
    } else if (w->step == 1 && w->queue == SRT_NO_QUEUE) {
        if (!srt_web_layout_found(c))
            return srt_web_refuse(w, 404, "there is no such queue");
        return find_register(c, w) == SERIATIM_OK ? SRT_WEB_DONE : SERIATIM_NOMEM;
    }
    return SRT_WEB_DONE;
}

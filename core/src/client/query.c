/* query.c - pages of what waits, runs or is dead, merged over all shards. */
#include "client/operator.h"

#include <stdlib.h>
#include <string.h>

#define QUERY_READY_SLICE 250
#define QUERY_PAGE_SLICE 120
#define QUERY_SPARE 4096 /* candidates beyond the limit before they are cut */

/* What a request asks for: srt_request.kind. From QUERY_FETCH_IDS on: records of kind - QUERY_FETCH_IDS ids. */
typedef enum query_part {
    QUERY_SCAN_WAITING,
    QUERY_SCAN_BEHIND,
    QUERY_SCAN_RUNNING,
    QUERY_SCAN_DEAD,
    QUERY_LIST_READY,
    QUERY_LIST_DUE,
    QUERY_LIST_UNPROVEN,
    QUERY_LIST_SUSPECT,
    QUERY_LIST_RETRY,
    QUERY_LIST_DIED,
    QUERY_LIST_PARKED,
    QUERY_FETCH_IDS
} query_part;

static const char *const query_words[] = {"waiting", "behind",   "running", "dead",  "ready", "due",
                                          "unproven", "suspect", "retry",   "died", "parked"};

typedef struct query_found {
    seriatim_record view;
    srt_record record; /* what the view shows; more of its payloads may come in further answers */
    int64_t key;
} query_found;

typedef struct query_state {
    const seriatim_allocator *mem;
    int kind, reverse;
    size_t limit, payload_limit;
    int64_t shard; /* -1: all */
    srt_range range;
    srt_id_bound min, max;
    int has_after;
    srt_target after; /* only what comes behind this key and id */
    srt_arena args; /* bounds and ids of the caller */
    srt_target *chosen;
    size_t chosen_count;

    srt_queue *queue;
    srt_arena memory; /* the candidates' ids */
    srt_target *candidates;
    size_t count, cap;
    size_t open; /* requests of the present phase */

    srt_arena results;
    query_found *found;
    size_t found_count, found_cap;
    seriatim_record *records;
} query_state;

static int query_is_fetch(const query_state *q)
{
    return q->kind == SERIATIM_FETCH || q->kind == SERIATIM_MORGUE_FETCH || q->kind == SRT_FETCH_RUNNING;
}

static srt_part query_part_of(const query_state *q)
{
    switch (q->kind) {
    case SERIATIM_MORGUE_RANGE_BY_ID:
    case SERIATIM_MORGUE_RANGE_BY_UPDATED_AT:
    case SERIATIM_MORGUE_FETCH:
        return SRT_PART_DEAD;
    case SERIATIM_PROCESSING:
    case SRT_FETCH_RUNNING:
        return SRT_PART_RUNNING;
    default:
        return SRT_PART_WAITING;
    }
}

static void query_reset(query_state *q)
{
    srt_arena_reset(&q->memory);
    srt_arena_reset(&q->results);
    q->count = q->open = q->found_count = 0;
    q->records = NULL;
}

static void query_release(seriatim_client *c)
{
    query_state *q = c->state;
    srt_arena_free(&q->args);
    srt_arena_free(&q->memory);
    srt_arena_free(&q->results);
    srt_free(q->mem, q->candidates, q->cap * sizeof *q->candidates);
    srt_free(q->mem, q->found, q->found_cap * sizeof *q->found);
    srt_free(q->mem, q, sizeof *q);
}

/* ---- Candidates ---------------------------------------------------------------------------- */

/* Drops all but one of each id, then all but the best `limit`, and moves those to memory of their own. */
static int query_cut(query_state *q)
{
    srt_arena kept;
    size_t i, n = 0;
    if (q->count == 0)
        return SERIATIM_OK;
    qsort(q->candidates, q->count, sizeof *q->candidates, srt_target_by_id);
    for (i = 0; i < q->count; i++)
        if (n == 0 || srt_id_compare(q->candidates[i].id, q->candidates[i].len, q->candidates[n - 1].id,
                                     q->candidates[n - 1].len) != 0)
            q->candidates[n++] = q->candidates[i];
    qsort(q->candidates, n, sizeof *q->candidates, srt_target_by_key);
    if (n > q->limit) {
        if (q->reverse)
            memmove(q->candidates, q->candidates + n - q->limit, q->limit * sizeof *q->candidates);
        n = q->limit;
    }
    q->count = n;
    srt_arena_init(&kept, q->mem);
    for (i = 0; i < n; i++) {
        const char *id = srt_arena_copy(&kept, q->candidates[i].id, q->candidates[i].len);
        if (!id) {
            srt_arena_free(&kept);
            return SERIATIM_NOMEM;
        }
        q->candidates[i].id = id;
    }
    srt_arena_free(&q->memory);
    q->memory = kept;
    return SERIATIM_OK;
}

/* The number that this query sorts by; of those by id there is none. */
static int query_is_by_id(const query_state *q)
{
    return q->kind == SERIATIM_RANGE_BY_ID || q->kind == SERIATIM_MORGUE_RANGE_BY_ID || q->kind == SERIATIM_PROCESSING;
}

static int query_is_behind(const query_state *q, const srt_token *id, int64_t key)
{
    srt_target target = {NULL, 0, 0, 0};
    int order;
    target.id = id->data;
    target.len = id->len;
    target.key = key;
    order = srt_target_by_key(&target, &q->after);
    return q->reverse ? order < 0 : order > 0;
}

static int query_add(seriatim_client *c, query_state *q, const srt_token *id, int64_t key, unsigned shard)
{
    void *candidates = q->candidates;
    srt_target *target;
    if (query_is_by_id(q) ? !srt_id_within(&q->min, &q->max, id->data, id->len) : key < q->range.low || key > q->range.high)
        return SERIATIM_OK;
    if (q->has_after && !query_is_behind(q, id, key))
        return SERIATIM_OK;
    if ((q->count >= 2 * q->limit + QUERY_SPARE && query_cut(q) != SERIATIM_OK) ||
        srt_grow(q->mem, &candidates, &q->cap, q->count + 1, sizeof *target) != SERIATIM_OK)
        return srt_operator_nomem(c);
    q->candidates = candidates;
    target = &q->candidates[q->count];
    target->id = srt_arena_copy(&q->memory, id->data, id->len);
    if (!target->id)
        return srt_operator_nomem(c);
    target->len = id->len;
    target->key = query_is_by_id(q) ? 0 : key;
    target->shard = shard;
    q->count++;
    return SERIATIM_OK;
}

/* ---- Requests ------------------------------------------------------------------------------ */

static const char query_start[] = "0";

/* Asks one part of one shard; cursor: of a scan, or the place in the ready list. */
static int query_ask(seriatim_client *c, query_state *q, int part, unsigned shard, const char *cursor, size_t len)
{
    int lists = part >= QUERY_LIST_READY, pages = lists && q->has_after;
    srt_request *r = srt_client_shard_request(c, q->queue, shard,
                                              pages ? srt_script_page : lists ? srt_script_list : srt_script_scan);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, query_words[part]);
    if (lists) {
        srt_request_text(r, q->reverse ? "down" : "up");
        srt_request_int(r, q->range.low);
        srt_request_int(r, q->range.high);
    }
    srt_request_arg(r, pages && cursor == query_start ? "" : cursor, pages && cursor == query_start ? 0 : len);
    if (lists)
        srt_request_int(r, part != QUERY_LIST_READY ? (int64_t)q->limit : pages ? QUERY_PAGE_SLICE : QUERY_READY_SLICE);
    if (pages) {
        srt_request_int(r, q->after.key);
        srt_request_arg(r, q->after.id, q->after.len);
    }
    r->kind = part;
    r->place = shard;
    q->open++;
    return srt_client_send(c, r);
}

/* The parts that hold what this query asks for, ending with -1. */
static const int *query_parts(const query_state *q)
{
    static const int by_id[] = {QUERY_SCAN_WAITING, QUERY_SCAN_BEHIND, -1};
    static const int by_time[] = {QUERY_LIST_READY,    QUERY_LIST_DUE,    QUERY_LIST_UNPROVEN,
                                  QUERY_LIST_SUSPECT, QUERY_SCAN_BEHIND, -1};
    static const int by_retry[] = {QUERY_LIST_RETRY, QUERY_SCAN_BEHIND, -1};
    static const int dead_by_id[] = {QUERY_SCAN_DEAD, -1};
    static const int dead_by_time[] = {QUERY_LIST_DIED, -1};
    static const int running[] = {QUERY_SCAN_RUNNING, -1};
    static const int parked[] = {QUERY_LIST_PARKED, -1};
    switch (q->kind) {
    case SERIATIM_RANGE_BY_PERFORM_IN:
        return by_time;
    case SERIATIM_RANGE_BY_RETRY_COUNT:
        return q->range.low <= -1 ? by_id : by_retry;
    case SERIATIM_MORGUE_RANGE_BY_ID:
        return dead_by_id;
    case SERIATIM_MORGUE_RANGE_BY_UPDATED_AT:
        return dead_by_time;
    case SERIATIM_PROCESSING:
        return running;
    case SERIATIM_PARKED:
        return parked;
    default:
        return by_id;
    }
}

static int query_collect(seriatim_client *c, query_state *q, srt_queue *queue)
{
    const int *part;
    unsigned shard;
    int status = SERIATIM_OK;
    if (queue->shards_count > 0 && q->shard >= (int64_t)queue->shards_count)
        return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID, "shard must be from 0 to %u, not %lld", queue->shards_count - 1,
                                           (long long)q->shard));
    for (shard = 0; shard < queue->shards_count; shard++)
        for (part = query_parts(q); *part >= 0 && status == SERIATIM_OK; part++)
            if (q->shard < 0 || q->shard == (int64_t)shard)
                status = query_ask(c, q, *part, shard, query_start, 1);
    return status;
}

/* Asks for n candidates from `first` on; `from` payloads of the first one are known. */
static int query_ask_records(seriatim_client *c, query_state *q, size_t first, size_t n, int64_t from)
{
    static const char *const words[] = {"waiting", "running", "dead"};
    srt_request *r = srt_client_shard_request(c, q->queue, q->candidates[first].shard, srt_script_records);
    size_t i;
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, words[query_part_of(q)]);
    srt_request_int(r, (int64_t)q->payload_limit);
    srt_request_int(r, from);
    for (i = first; i < first + n; i++)
        srt_request_arg(r, q->candidates[i].id, q->candidates[i].len);
    r->part = (size_t)from; /* payloads of the first id that are known already */
    r->kind = QUERY_FETCH_IDS + (int)n;
    r->place = first;
    q->open++;
    return srt_client_send(c, r);
}

/* The page is known: asks for its records. */
static int query_fetch(seriatim_client *c, query_state *q)
{
    size_t first, n;
    int status = SERIATIM_OK;
    if (!query_is_fetch(q) && query_cut(q) != SERIATIM_OK)
        return srt_operator_nomem(c);
    q->count = q->queue->shards_count ? srt_targets_route(q->candidates, q->count, q->queue->shards_count) : 0;
    for (first = 0; first < q->count && status == SERIATIM_OK; first += n) {
        n = srt_targets_chunk(q->candidates, q->count, first);
        status = query_ask_records(c, q, first, n, 0);
    }
    return status;
}

static int query_send(seriatim_client *c, srt_queue *queue)
{
    query_state *q = c->state;
    void *candidates = q->candidates;
    query_reset(q);
    q->queue = queue;
    if (!query_is_fetch(q))
        return query_collect(c, q, queue);
    if (srt_grow(q->mem, &candidates, &q->cap, q->chosen_count, sizeof *q->candidates) != SERIATIM_OK)
        return srt_operator_nomem(c);
    q->candidates = candidates;
    if (q->chosen_count)
        memcpy(q->candidates, q->chosen, q->chosen_count * sizeof *q->chosen);
    q->count = q->chosen_count;
    return query_fetch(c, q);
}

/* ---- Answers ------------------------------------------------------------------------------- */

static int query_on_scan(seriatim_client *c, query_state *q, const srt_request *r, const srt_reply *reply)
{
    const srt_token *cursor = &reply->tokens[1], *at;
    size_t i;
    int status = SERIATIM_OK;
    if (!srt_reply_is_list(reply, 1) || (reply->count - 2) % 3 != 0)
        return srt_operator_protocol(c, "scan");
    for (i = 2; i < reply->count && status == SERIATIM_OK; i += 3) {
        at = &reply->tokens[i];
        status = query_add(c, q, at, srt_token_int(q->kind == SERIATIM_RANGE_BY_RETRY_COUNT ? at + 2 : at + 1),
                           (unsigned)r->place);
    }
    if (status == SERIATIM_OK && !srt_token_is(cursor, "0"))
        status = query_ask(c, q, r->kind, (unsigned)r->place, cursor->data, cursor->len);
    return status;
}

/* May the next slice of a ready list hold what belongs on the page? The list is nearly sorted. */
static int query_wants_more(query_state *q, const srt_reply *reply)
{
    int64_t best = 0, key;
    size_t i;
    if (reply->count == 2)
        return 1;
    for (i = 2; i < reply->count; i += 2) {
        key = srt_token_int(&reply->tokens[i + 1]);
        if (i == 2 || (q->reverse ? key > best : key < best))
            best = key;
    }
    if (q->reverse ? best < q->range.low : best > q->range.high)
        return 0;
    if (q->count < q->limit)
        return 1;
    key = q->candidates[q->reverse ? 0 : q->count - 1].key;
    return q->reverse ? best >= key : best <= key;
}

static int query_on_list(seriatim_client *c, query_state *q, const srt_request *r, const srt_reply *reply)
{
    size_t i;
    int status = SERIATIM_OK;
    char digits[24];
    srt_bytes text = {NULL, digits, 0, sizeof digits, 0};
    if (!srt_reply_is_list(reply, 1) || reply->count % 2 != 0)
        return srt_operator_protocol(c, "list");
    for (i = 2; i < reply->count && status == SERIATIM_OK; i += 2)
        status = query_add(c, q, &reply->tokens[i], srt_token_int(&reply->tokens[i + 1]), (unsigned)r->place);
    if (status != SERIATIM_OK || r->kind != QUERY_LIST_READY || srt_token_int(&reply->tokens[1]) < 0)
        return status;
    if (query_cut(q) != SERIATIM_OK)
        return srt_operator_nomem(c);
    if (!query_wants_more(q, reply))
        return SERIATIM_OK;
    srt_bytes_add_int(&text, srt_token_int(&reply->tokens[1]));
    return query_ask(c, q, r->kind, (unsigned)r->place, text.data, text.len);
}

/* A record as it is now; it may have left the range since the page was made. */
static int query_still_there(const query_state *q, const srt_record *record, const seriatim_record *view, int64_t *key)
{
    int parked = !view->behind && record->place == SRT_PLACE_PARKED;
    switch (q->kind) {
    case SERIATIM_RANGE_BY_PERFORM_IN:
    case SERIATIM_MORGUE_RANGE_BY_UPDATED_AT:
        *key = record->due_us;
        break;
    case SERIATIM_RANGE_BY_RETRY_COUNT:
        *key = record->retry_count;
        break;
    case SERIATIM_PARKED:
        return parked;
    case SERIATIM_RANGE_BY_ID:
        return !parked;
    default:
        return 1;
    }
    return *key >= q->range.low && *key <= q->range.high && (!parked || q->kind == SERIATIM_MORGUE_RANGE_BY_UPDATED_AT);
}

/* The payloads of a record that did not fit into one answer, as the view shows them. */
static void query_show_payloads(const query_state *q, query_found *found, const srt_token *total)
{
    const srt_record *record = &found->record;
    found->view.payloads = record->payloads;
    found->view.payload_count = record->count < q->payload_limit ? record->count : q->payload_limit;
    found->view.payload_total = srt_token_int(total) > (int64_t)record->count ? (size_t)srt_token_int(total) : record->count;
}

static query_found *query_find_found(const query_state *q, const srt_target *target)
{
    size_t i;
    for (i = q->found_count; i-- > 0;)
        if (q->found[i].view.shard == target->shard &&
            srt_id_compare(q->found[i].view.id, q->found[i].view.id_len, target->id, target->len) == 0)
            return &q->found[i];
    return NULL;
}

/* More payloads of an id of which an earlier answer had the first. */
static int query_keep_more(seriatim_client *c, query_state *q, const srt_target *target, const srt_record *more, const srt_token *total)
{
    query_found *found = query_find_found(q, target);
    if (!found)
        return SERIATIM_OK;
    if (srt_record_join(&found->record, &q->results, more) != SERIATIM_OK)
        return srt_operator_nomem(c);
    query_show_payloads(q, found, total);
    return SERIATIM_OK;
}

static int query_keep(seriatim_client *c, query_state *q, const srt_target *target, const srt_token *at, int64_t now_us, int goes_on)
{
    void *list = q->found;
    char *data = srt_arena_copy(&q->results, at[4].data, at[4].len);
    query_found *found;
    srt_record record;
    int status;
    if (!data || srt_grow(q->mem, &list, &q->found_cap, q->found_count + 1, sizeof *found) != SERIATIM_OK)
        return srt_operator_nomem(c);
    q->found = list;
    found = &q->found[q->found_count];
    memset(found, 0, sizeof *found);
    status = srt_record_read(&record, &q->results, data, at[4].len);
    if (status == SERIATIM_NOMEM)
        return srt_operator_nomem(c);
    if (status != SERIATIM_OK)
        return srt_operator_protocol(c, "records");
    if (goes_on)
        return query_keep_more(c, q, target, &record, &at[3]);
    found->record = record;
    found->key = target->key;
    found->view.behind = srt_token_int(&at[2]) != 0;
    found->view.shard = target->shard;
    srt_record_view(&found->view, &record, query_part_of(q), now_us, &at[1]);
    query_show_payloads(q, found, &at[3]);
    if (!query_still_there(q, &record, &found->view, &found->key))
        return SERIATIM_OK;
    found->view.id = srt_arena_copy(&q->results, target->id, target->len);
    found->view.id_len = target->len;
    if (!found->view.id)
        return srt_operator_nomem(c);
    q->found_count++;
    return SERIATIM_OK;
}

static int query_on_records(seriatim_client *c, query_state *q, const srt_request *r, const srt_reply *reply)
{
    size_t asked = (size_t)(r->kind - QUERY_FETCH_IDS), looked, i, at = r->place, end = r->place + asked;
    int64_t next;
    int status = SERIATIM_OK;
    if (!srt_reply_is_list(reply, 3) || (reply->count - 4) % 5 != 0)
        return srt_operator_protocol(c, "records");
    next = srt_token_int(&reply->tokens[3]);
    looked = (size_t)srt_token_int(&reply->tokens[2]);
    if (looked < 1 || looked > asked)
        return srt_operator_protocol(c, "records");
    for (i = 4; i < reply->count && status == SERIATIM_OK; i += 5, at++) {
        const srt_token *id = &reply->tokens[i];
        while (at < end && srt_id_compare(q->candidates[at].id, q->candidates[at].len, id->data, id->len) != 0)
            at++;
        if (at == end)
            return srt_operator_protocol(c, "records");
        status = query_keep(c, q, &q->candidates[at], id, srt_token_int(&reply->tokens[1]), r->part > 0 && at == r->place);
    }
    if (status == SERIATIM_OK && next > 0 && query_find_found(q, &q->candidates[r->place + looked - 1]))
        return query_ask_records(c, q, r->place + looked - 1, asked - looked + 1, next);
    if (status == SERIATIM_OK && looked < asked)
        status = query_ask_records(c, q, r->place + looked, asked - looked, 0);
    return status;
}

static int query_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    query_state *q = c->state;
    int status;
    if (r->kind >= QUERY_FETCH_IDS)
        return query_on_records(c, q, r, reply);
    status = r->kind >= QUERY_LIST_READY ? query_on_list(c, q, r, reply) : query_on_scan(c, q, r, reply);
    q->open--;
    if (status == SERIATIM_OK && q->open == 0)
        status = query_fetch(c, q);
    return status;
}

static int query_compare(const void *left, const void *right)
{
    const query_found *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return srt_id_compare(a->view.id, a->view.id_len, b->view.id, b->view.id_len);
}

static int query_on_end(seriatim_client *c, int failed)
{
    query_state *q = c->state;
    size_t i;
    if (failed != SERIATIM_OK)
        return failed;
    if (q->found_count > 1)
        qsort(q->found, q->found_count, sizeof *q->found, query_compare);
    q->records = srt_arena_alloc(&q->results, q->found_count * sizeof *q->records);
    if (!q->records)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    for (i = 0; i < q->found_count; i++)
        q->records[i] = q->found[q->reverse && !query_is_fetch(q) ? q->found_count - 1 - i : i].view;
    return SERIATIM_OK;
}

/* ---- Begin --------------------------------------------------------------------------------- */

void seriatim_query_init(seriatim_query *query, int kind)
{
    memset(query, 0, sizeof *query);
    query->kind = kind;
    query->limit = 10;
    query->payload_limit = 1000;
    query->shard = -1;
}

static int query_check(seriatim_client *c, const seriatim_query *query)
{
    if (query->kind < SERIATIM_RANGE_BY_ID || query->kind > SERIATIM_PARKED)
        return srt_fail(&c->error, SERIATIM_INVALID, "there is no query with the number %d", query->kind);
    if (query->limit < 1 || query->limit > 100000)
        return srt_fail(&c->error, SERIATIM_INVALID, "limit must be from 1 to 100000, not %lld", (long long)query->limit);
    if (query->payload_limit < 1 || query->payload_limit > 1000000)
        return srt_fail(&c->error, SERIATIM_INVALID, "payload_limit must be from 1 to 1000000, not %lld",
                        (long long)query->payload_limit);
    if (query->shard < -1 || query->shard >= SERIATIM_MAX_SHARDS)
        return srt_fail(&c->error, SERIATIM_INVALID, "there is no shard %lld", (long long)query->shard);
    return SERIATIM_OK;
}

static int query_take_args(seriatim_client *c, query_state *q, const seriatim_query *query)
{
    static const seriatim_text none = {NULL, 0};
    int status;
    q->kind = query->kind;
    q->reverse = query->reverse != 0;
    q->limit = (size_t)query->limit;
    q->payload_limit = (size_t)query->payload_limit;
    q->shard = query->shard;
    if (query_is_fetch(q))
        return srt_targets_copy(c, &q->args, query->ids, query->id_count, &q->chosen);
    status = srt_range_read(c, &q->range, query_is_by_id(q) ? none : query->min, query_is_by_id(q) ? none : query->max,
                            q->kind == SERIATIM_RANGE_BY_RETRY_COUNT ? 1 : 1e6);
    if (status != SERIATIM_OK || !query_is_by_id(q))
        return status;
    status = srt_id_bound_read(c, &q->args, &q->min, "min", query->min);
    return status == SERIATIM_OK ? srt_id_bound_read(c, &q->args, &q->max, "max", query->max) : status;
}

int seriatim_query_begin(seriatim_client *c, size_t queue, const seriatim_query *query)
{
    int status = srt_client_begin(c);
    if (status == SERIATIM_OK)
        status = query_check(c, query);
    return status == SERIATIM_OK ? srt_query_begin(c, queue, query, NULL) : status;
}

static int query_keep_after(seriatim_client *c, query_state *q, const srt_target *after)
{
    q->has_after = 1;
    q->after = *after;
    q->after.id = srt_arena_copy(&q->args, after->id, after->len);
    return q->after.id ? SERIATIM_OK : srt_fail_plain(&c->error, SERIATIM_NOMEM);
}

int srt_query_begin(seriatim_client *c, size_t queue, const seriatim_query *query, const srt_target *after)
{
    static const srt_operation operation = {
        .send = query_send, .on_reply = query_on_reply, .on_end = query_on_end, .release = query_release};
    query_state *q;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    q = srt_operator_state(c, sizeof *q);
    if (!q)
        return SERIATIM_NOMEM;
    q->mem = c->mem;
    srt_arena_init(&q->args, c->mem);
    srt_arena_init(&q->memory, c->mem);
    srt_arena_init(&q->results, c->mem);
    c->state = q;
    status = query_take_args(c, q, query);
    if (status == SERIATIM_OK && after)
        status = query_keep_after(c, q, after);
    if (status != SERIATIM_OK) {
        query_release(c);
        c->state = NULL;
        return status;
    }
    q->chosen_count = query_is_fetch(q) ? query->id_count : 0;
    return srt_client_start(c, &operation, queue);
}

static const query_state *query_of(const seriatim_client *c)
{
    return c->operation && c->operation->send == query_send ? c->state : NULL;
}

const seriatim_record *seriatim_query_result(const seriatim_client *c, size_t *count)
{
    const query_state *q = query_of(c);
    *count = q && q->records ? q->found_count : 0;
    return q ? q->records : NULL;
}

int srt_query_more(const seriatim_client *c, int64_t *key)
{
    const query_state *q = query_of(c);
    if (!q || !q->records || q->found_count == 0 || q->count < q->limit)
        return 0;
    *key = q->found[q->reverse ? 0 : q->found_count - 1].key;
    return 1;
}

const seriatim_record *srt_query_keep(seriatim_client *c, srt_arena *arena, size_t *count)
{
    query_state *q = c->operation && c->operation->send == query_send ? c->state : NULL;
    const seriatim_record *records = q ? q->records : NULL;
    *count = records ? q->found_count : 0;
    if (q) {
        srt_arena_join(arena, &q->results);
        q->records = NULL;
    }
    return records;
}

/* query_ask.c - what a query asks of the shards: parts of them, then the records of the candidates. */
#include "client/query_state.h"

#include <stdlib.h>
#include <string.h>

#define QUERY_READY_SLICE 250
#define QUERY_PAGE_SLICE 120

static const char *const query_words[] = {"waiting",  "behind",  "running", "dead", "ready",  "due",
                                          "unproven", "suspect", "retry",   "died", "parked", "moving"};

static void query_reset(query_state *q)
{
    srt_arena_reset(&q->memory);
    srt_arena_reset(&q->results);
    q->count = q->open = q->found_count = 0;
    q->is_full = 0;
    q->bytes = 0;
    q->records = NULL;
}

static const char query_start[] = "0";

int srt_query_ask(seriatim_client *c, query_state *q, int part, unsigned shard, const char *cursor, size_t len)
{
    int lists = part >= QUERY_LIST_READY, pages = lists && q->has_after;
    srt_request *r = srt_client_shard_request(c, q->queue, shard,
                                              pages   ? srt_script_page
                                              : lists ? srt_script_list
                                                      : srt_script_scan);
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
    static const int by_time[] = {QUERY_LIST_MOVING,
                                  QUERY_LIST_READY,
                                  QUERY_LIST_DUE,
                                  QUERY_LIST_UNPROVEN,
                                  QUERY_LIST_SUSPECT,
                                  QUERY_SCAN_BEHIND,
                                  -1};
    static const int by_retry[] = {QUERY_LIST_RETRY, QUERY_SCAN_BEHIND, -1};
    static const int dead_by_id[] = {QUERY_SCAN_DEAD, -1};
    static const int dead_by_time[] = {QUERY_LIST_DIED, -1};
    static const int running[] = {QUERY_SCAN_RUNNING, -1};
    static const int parked[] = {QUERY_LIST_PARKED, -1};
    switch (q->kind) {
    case SERIATIM_RANGE_BY_PERFORM_IN:
        return by_time + (q->queue->old_count ? 0 : 1);
    case SERIATIM_RANGE_BY_RETRY_COUNT:
        return q->range.low <= -1 ? by_id : by_retry;
    case SERIATIM_MORGUE_RANGE_BY_ID:
        return dead_by_id;
    case SERIATIM_MORGUE_RANGE_BY_UPDATED_AT:
        return dead_by_time;
    case SERIATIM_PROCESSING_DATA:
        return running;
    case SERIATIM_PARKED:
        return parked;
    default:
        return by_id;
    }
}

static int query_ask_shard(seriatim_client *c, query_state *q, unsigned shard)
{
    const int *part;
    int status = SERIATIM_OK;
    if (q->kind == SERIATIM_RANGE_BY_DELIVER_AT)
        return srt_query_ask_scheduled(c, q, shard, q->has_after ? &q->after : NULL);
    for (part = query_parts(q); *part >= 0 && status == SERIATIM_OK; part++)
        status = srt_query_ask(c, q, *part, shard, query_start, 1);
    return status;
}

/* Does the query read this shard? */
static int query_reads(const query_state *q, const srt_queue *queue, unsigned shard)
{
    if (q->chosen_count)
        return shard == seriatim_shard_of(q->chosen->id, q->chosen->len, queue->shards_count) ||
               (queue->old_count && shard == seriatim_shard_of(q->chosen->id, q->chosen->len, queue->old_count));
    return q->shard < 0 || q->shard == (int64_t)shard;
}

static int query_collect(seriatim_client *c, query_state *q, srt_queue *queue)
{
    unsigned shard;
    int status = SERIATIM_OK;
    if (queue->shards_count > 0 && q->shard >= (int64_t)srt_queue_addressed(queue))
        return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID, "shard must be from 0 to %u, not %lld",
                                           srt_queue_addressed(queue) - 1, (long long)q->shard));
    for (shard = 0; shard < srt_queue_addressed(queue) && status == SERIATIM_OK; shard++)
        if (query_reads(q, queue, shard))
            status = query_ask_shard(c, q, shard);
    return status;
}

/* The ids of the page share its bytes. What they do not need goes to payloads that are larger than a share. */
static void query_add_bytes(srt_request *r, const query_state *q, size_t n)
{
    int64_t share = q->count ? q->most_bytes / (int64_t)q->count : 0;
    int64_t left = q->most_bytes - q->bytes, within = share * (int64_t)n;
    srt_request_int(r, q->most_bytes && share < 1 ? 1 : share);
    srt_request_int(r, left < 0 ? 0 : left < within ? left : within);
}

int srt_query_ask_records(seriatim_client *c, query_state *q, size_t first, size_t n, int64_t from)
{
    static const char *const words[] = {"waiting", "running", "dead"};
    const srt_target *id = &q->candidates[first];
    srt_request *r = n == 1 ? srt_client_id_request(c, q->queue, id->id, id->len, srt_script_records, 7)
                            : srt_client_shard_request(c, q->queue, id->shard, srt_script_records);
    size_t i;
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, q->kind == SRT_FETCH_BEHIND ? "behind" : words[srt_query_part_of(q)]);
    srt_request_int(r, (int64_t)q->payload_limit);
    srt_request_int(r, from);
    query_add_bytes(r, q, n);
    for (i = first; i < first + n; i++)
        srt_request_arg(r, q->candidates[i].id, q->candidates[i].len);
    r->part = (size_t)from; /* payloads of the first id that are known already */
    r->kind = QUERY_FETCH_IDS + (int)n;
    r->place = first;
    q->open++;
    return srt_client_send(c, r);
}

/* To be called before the candidates are ordered by shard, which drops all but one of an id that two shards have. */
static void query_note_last(query_state *q)
{
    q->is_full = q->count >= q->limit;
    if (q->is_full)
        q->last = q->candidates[q->reverse ? 0 : q->count - 1];
}

int srt_query_fetch(seriatim_client *c, query_state *q)
{
    size_t first, n;
    int status = SERIATIM_OK;
    if (!srt_query_is_fetch(q)) {
        if (srt_query_cut(q) != SERIATIM_OK)
            return srt_operator_nomem(c);
        query_note_last(q);
    }
    if (q->kind == SERIATIM_RANGE_BY_DELIVER_AT)
        return srt_query_read_scheduled(c, q);
    q->count = q->queue->shards_count ? srt_targets_route(q->candidates, q->count, q->queue->shards_count) : 0;
    for (first = 0; first < q->count && status == SERIATIM_OK; first += n) {
        n = srt_targets_chunk(q->queue, q->candidates, q->count, first);
        status = srt_query_ask_records(c, q, first, n, 0);
        if (status == SERIATIM_OK && q->kind == SERIATIM_FETCH)
            status = srt_query_ask_scheduled_of(c, q, first, n);
    }
    return status;
}

int srt_query_send(seriatim_client *c, srt_queue *queue)
{
    query_state *q = c->state;
    void *candidates = q->candidates;
    query_reset(q);
    q->queue = queue;
    if (!srt_query_is_fetch(q))
        return query_collect(c, q, queue);
    if (srt_grow(q->mem, &candidates, &q->cap, q->chosen_count, sizeof *q->candidates) != SERIATIM_OK)
        return srt_operator_nomem(c);
    q->candidates = candidates;
    if (q->chosen_count)
        memcpy(q->candidates, q->chosen, q->chosen_count * sizeof *q->chosen);
    q->count = q->chosen_count;
    return srt_query_fetch(c, q);
}

/* query.c - pages of what waits, runs or is dead, merged over all shards. */
#include "client/query_state.h"

#include <stdlib.h>
#include <string.h>

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
        status = srt_query_add(c, q, at, srt_token_int(q->kind == SERIATIM_RANGE_BY_RETRY_COUNT ? at + 2 : at + 1),
                               (unsigned)r->place);
    }
    if (status == SERIATIM_OK && !srt_token_is(cursor, "0"))
        status = srt_query_ask(c, q, r->kind, (unsigned)r->place, cursor->data, cursor->len);
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
        status = srt_query_add(c, q, &reply->tokens[i], srt_token_int(&reply->tokens[i + 1]), (unsigned)r->place);
    if (status != SERIATIM_OK || r->kind != QUERY_LIST_READY || srt_token_int(&reply->tokens[1]) < 0)
        return status;
    if (srt_query_cut(q) != SERIATIM_OK)
        return srt_operator_nomem(c);
    if (!query_wants_more(q, reply))
        return SERIATIM_OK;
    srt_bytes_add_int(&text, srt_token_int(&reply->tokens[1]));
    return srt_query_ask(c, q, r->kind, (unsigned)r->place, text.data, text.len);
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
    found->view.payload_total =
        srt_token_int(total) > (int64_t)record->count ? (size_t)srt_token_int(total) : record->count;
}

static query_found *query_find_found(const query_state *q, const srt_target *target)
{
    size_t i;
    for (i = q->found_count; i-- > 0;)
        if (q->found[i].view.scheduled_total == 0 && q->found[i].view.shard == target->shard &&
            srt_id_compare(q->found[i].view.id, q->found[i].view.id_len, target->id, target->len) == 0)
            return &q->found[i];
    return NULL;
}

/* More payloads of an id of which an earlier answer had the first. */
static int query_keep_more(seriatim_client *c, query_state *q, const srt_target *target, const srt_record *more,
                           const srt_token *total)
{
    query_found *found = query_find_found(q, target);
    if (!found)
        return SERIATIM_OK;
    if (srt_record_join(&found->record, &q->results, more) != SERIATIM_OK)
        return srt_operator_nomem(c);
    query_show_payloads(q, found, total);
    return SERIATIM_OK;
}

static int query_keep(seriatim_client *c, query_state *q, const srt_target *target, const srt_token *at, int64_t now_us,
                      int goes_on)
{
    char *data = srt_arena_copy(&q->results, at[4].data, at[4].len);
    query_found *found = data ? srt_query_new_found(c, q) : NULL;
    srt_record record;
    int status;
    q->bytes += (int64_t)at[4].len;
    if (!found)
        return srt_operator_nomem(c);
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
    srt_record_view(&found->view, &record, srt_query_part_of(q), now_us, &at[1]);
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
        status =
            query_keep(c, q, &q->candidates[at], id, srt_token_int(&reply->tokens[1]), r->part > 0 && at == r->place);
    }
    if (status == SERIATIM_OK && next > 0 && query_find_found(q, &q->candidates[r->place + looked - 1]))
        return srt_query_ask_records(c, q, r->place + looked - 1, asked - looked + 1, next);
    if (status == SERIATIM_OK && looked < asked)
        status = srt_query_ask_records(c, q, r->place + looked, asked - looked, 0);
    return status;
}

/* Behind the last part the page is known. */
static int query_part_ended(seriatim_client *c, query_state *q)
{
    return --q->open == 0 ? srt_query_fetch(c, q) : SERIATIM_OK;
}

static int query_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    query_state *q = c->state;
    int status;
    if (r->kind >= QUERY_FETCH_IDS)
        return query_on_records(c, q, r, reply);
    if (r->kind > QUERY_SCHEDULED_PAGE)
        return srt_query_on_scheduled_texts(c, q, r, reply);
    status = r->kind == QUERY_SCHEDULED_PAGE ? srt_query_on_scheduled_page(c, q, r, reply)
             : r->kind >= QUERY_LIST_READY   ? query_on_list(c, q, r, reply)
                                             : query_on_scan(c, q, r, reply);
    return status == SERIATIM_OK ? query_part_ended(c, q) : status;
}

/* A page is made without a shard whose slot moves. Ids that were asked for are not: nobody could tell that from none.
 */
static int query_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    query_state *q = c->state;
    if (srt_query_is_fetch(q) || !r->gave_up) {
        c->error = *error;
        return srt_client_fail(c, error->status);
    }
    return r->kind > QUERY_SCHEDULED_PAGE ? SERIATIM_OK : query_part_ended(c, q);
}

static int query_compare(const void *left, const void *right)
{
    const query_found *a = left, *b = right;
    double x = a->view.scheduled_count ? a->view.scheduled->payload.stamp : 0;
    double y = b->view.scheduled_count ? b->view.scheduled->payload.stamp : 0;
    int order;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (x < y || x > y)
        return x < y ? -1 : 1;
    order = srt_id_compare(a->view.id, a->view.id_len, b->view.id, b->view.id_len);
    return order ? order : (a->view.scheduled_total > 0) - (b->view.scheduled_total > 0);
}

static int query_on_end(seriatim_client *c, int failed)
{
    query_state *q = c->state;
    size_t i;
    if (failed != SERIATIM_OK)
        return failed;
    if (q->found_count > 1)
        qsort(q->found, q->found_count, sizeof *q->found, query_compare);
    if (q->kind == SERIATIM_FETCH)
        srt_query_join_scheduled(q);
    q->records = srt_arena_alloc(&q->results, q->found_count * sizeof *q->records);
    if (!q->records)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    for (i = 0; i < q->found_count; i++)
        q->records[i] = q->found[q->reverse && !srt_query_is_fetch(q) ? q->found_count - 1 - i : i].view;
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
    if (query->kind < 0 || query->kind >= SERIATIM_QUERIES_COUNT)
        return srt_fail(&c->error, SERIATIM_INVALID, "there is no query with the number %d", query->kind);
    if (query->limit < 1 || query->limit > 100000)
        return srt_fail(&c->error, SERIATIM_INVALID, "limit must be from 1 to 100000, not %lld",
                        (long long)query->limit);
    if (query->payload_limit < 1 || query->payload_limit > 1000000)
        return srt_fail(&c->error, SERIATIM_INVALID, "payload_limit must be from 1 to 1000000, not %lld",
                        (long long)query->payload_limit);
    if (query->shard < -1 || query->shard >= SERIATIM_MAX_SHARDS)
        return srt_fail(&c->error, SERIATIM_INVALID, "there is no shard %lld", (long long)query->shard);
    if (query->kind == SERIATIM_RANGE_BY_DELIVER_AT && query->id_count > 1)
        return srt_fail(&c->error, SERIATIM_INVALID, "ids must be one id or none, not %lu",
                        (unsigned long)query->id_count);
    if (query->kind == SERIATIM_RANGE_BY_DELIVER_AT && query->id_count && query->ids &&
        (query->ids->len < 1 || query->ids->len > SERIATIM_MAX_ID))
        return srt_fail(&c->error, SERIATIM_INVALID, "id must be 1 to %d bytes, not %lu", SERIATIM_MAX_ID,
                        (unsigned long)query->ids->len);
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
    if (srt_query_is_fetch(q) || (q->kind == SERIATIM_RANGE_BY_DELIVER_AT && query->id_count)) {
        status = srt_targets_copy(c, &q->args, query->ids, query->id_count, &q->chosen);
        if (status != SERIATIM_OK)
            return status;
        q->chosen_count = query->id_count;
    }
    if (srt_query_is_fetch(q))
        return SERIATIM_OK;
    status =
        srt_range_read(c, &q->range, srt_query_is_by_id(q) ? none : query->min,
                       srt_query_is_by_id(q) ? none : query->max, q->kind == SERIATIM_RANGE_BY_RETRY_COUNT ? 1 : 1e6);
    if (status != SERIATIM_OK || !srt_query_is_by_id(q))
        return status;
    status = srt_id_bound_read(c, &q->args, &q->min, "min", query->min);
    return status == SERIATIM_OK ? srt_id_bound_read(c, &q->args, &q->max, "max", query->max) : status;
}

int seriatim_query_begin(seriatim_client *c, size_t queue, const seriatim_query *query)
{
    int status = srt_client_begin(c);
    if (status == SERIATIM_OK)
        status = query_check(c, query);
    return status == SERIATIM_OK ? srt_query_begin(c, queue, query, NULL, 0) : status;
}

static int query_keep_after(seriatim_client *c, query_state *q, const srt_target *after)
{
    q->has_after = 1;
    q->after = *after;
    q->after.id = srt_arena_copy(&q->args, after->id, after->len);
    return q->after.id ? SERIATIM_OK : srt_fail_plain(&c->error, SERIATIM_NOMEM);
}

int srt_query_begin(seriatim_client *c, size_t queue, const seriatim_query *query, const srt_target *after,
                    int64_t most_bytes)
{
    static const srt_operation operation = {.send = srt_query_send,
                                            .on_reply = query_on_reply,
                                            .on_refused = query_on_refused,
                                            .on_end = query_on_end,
                                            .release = query_release};
    query_state *q;
    int status = srt_operator_begin(c, sizeof *q);
    if (status != SERIATIM_OK)
        return status;
    q = c->state;
    q->mem = c->mem;
    q->most_bytes = most_bytes;
    srt_arena_init(&q->args, c->mem);
    srt_arena_init(&q->memory, c->mem);
    srt_arena_init(&q->results, c->mem);
    status = query_take_args(c, q, query);
    if (status == SERIATIM_OK && after)
        status = query_keep_after(c, q, after);
    if (status != SERIATIM_OK) {
        query_release(c);
        c->state = NULL;
        return status;
    }
    return srt_client_start(c, &operation, queue);
}

static const query_state *query_of(const seriatim_client *c)
{
    return c->operation && c->operation->send == srt_query_send ? c->state : NULL;
}

const seriatim_record *seriatim_query_result(const seriatim_client *c, size_t *count)
{
    const query_state *q = query_of(c);
    *count = q && q->records ? q->found_count : 0;
    return q ? q->records : NULL;
}

const srt_target *srt_query_more(const seriatim_client *c)
{
    const query_state *q = query_of(c);
    return q && q->records && q->is_full ? &q->last : NULL;
}

const seriatim_record *srt_query_keep(seriatim_client *c, srt_arena *arena, size_t *count)
{
    query_state *q = c->operation && c->operation->send == srt_query_send ? c->state : NULL;
    const seriatim_record *records = q ? q->records : NULL;
    *count = records ? q->found_count : 0;
    if (q) {
        srt_arena_join(arena, &q->results);
        q->records = NULL;
    }
    return records;
}

/*
 * query_scheduled.c - what a query reads of scheduled payloads: pages by deliver_at, and the first ones of the ids of a
 * fetch.
 */
#include "client/handle.h"
#include "client/query_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SCHEDULED_SLICE 500 /* entries of a page that one call lists */
#define SCHEDULED_SHOWN 10  /* payloads of an id that a fetch reads */
#define SCHEDULED_STAMP 8   /* bytes of a candidate before the id */
#define SCHEDULED_HEAD 26   /* bytes of a stored text before its context */

/* ---- Asking -------------------------------------------------------------------------------- */

static double scheduled_arrival(const char *stamp)
{
    char little[SCHEDULED_STAMP];
    int i;
    for (i = 0; i < SCHEDULED_STAMP; i++)
        little[i] = stamp[SCHEDULED_STAMP - 1 - i];
    return srt_little_double(little);
}

/*
 * Writes the arrival behind which the page of a shard begins. An arrival is unique in its shard only: another shard
 * may have a payload of the same deliver_at and arrival, whose id comes after the cursor's. So other shards begin one
 * arrival before the cursor's, and scheduled_is_behind leaves out what the page before has shown.
 */
static void scheduled_begin_at(char stamp[SCHEDULED_STAMP], const query_state *q, unsigned shard,
                               const srt_target *after)
{
    const char *id = after->id + SCHEDULED_STAMP;
    memcpy(stamp, after->id, SCHEDULED_STAMP);
    if (after != &q->after || shard == seriatim_shard_of(id, after->len - SCHEDULED_STAMP, q->queue->shards_count))
        return;
    srt_number_pack(stamp, nextafter(scheduled_arrival(after->id), q->reverse ? HUGE_VAL : -HUGE_VAL));
}

/* Does the entry come after the cursor, in the direction of the query? */
static int scheduled_is_behind(const query_state *q, const srt_target *entry)
{
    int order = q->has_after ? srt_target_by_key(entry, &q->after) : 1;
    return q->has_after && q->reverse ? order < 0 : order > 0;
}

int srt_query_ask_scheduled(seriatim_client *c, query_state *q, unsigned shard, const srt_target *after)
{
    char stamp[SCHEDULED_STAMP];
    srt_request *r = srt_client_shard_request(c, q->queue, shard, srt_script_scheduled_page);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, q->reverse ? "down" : "up");
    srt_request_int(r, q->range.low);
    srt_request_int(r, q->range.high);
    srt_request_int(r, q->limit < SCHEDULED_SLICE ? (int64_t)q->limit : SCHEDULED_SLICE);
    if (after)
        srt_request_int(r, after->key);
    else
        srt_request_text(r, "");
    if (after)
        scheduled_begin_at(stamp, q, shard, after);
    srt_request_arg(r, stamp, after ? SCHEDULED_STAMP : 0);
    srt_request_arg(r, q->chosen_count ? q->chosen->id : "", q->chosen_count ? q->chosen->len : 0);
    r->kind = QUERY_SCHEDULED_PAGE;
    r->place = shard;
    q->open++;
    return srt_client_send(c, r);
}

/* Asks scheduled_read.lua for n candidates of one shard, from `first` on. */
static int scheduled_ask_texts(seriatim_client *c, query_state *q, int kind, size_t first, size_t n)
{
    const srt_target *id = &q->candidates[first];
    srt_request *r = kind == QUERY_SCHEDULED_OF_IDS && n == 1
                         ? srt_client_id_request(c, q->queue, id->id, id->len, srt_script_scheduled_read, 4)
                         : srt_client_shard_request(c, q->queue, id->shard, srt_script_scheduled_read);
    size_t i;
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, kind == QUERY_SCHEDULED_READ ? "payloads" : "ids");
    srt_request_int(r, SCHEDULED_SHOWN);
    for (i = first; i < first + n; i++)
        srt_request_arg(r, q->candidates[i].id, q->candidates[i].len);
    r->kind = kind;
    r->place = first;
    r->part = n;
    return srt_client_send(c, r);
}

int srt_query_ask_scheduled_of(seriatim_client *c, query_state *q, size_t first, size_t n)
{
    return scheduled_ask_texts(c, q, QUERY_SCHEDULED_OF_IDS, first, n);
}

int srt_query_read_scheduled(seriatim_client *c, query_state *q)
{
    size_t first, n;
    int status = SERIATIM_OK;
    if (q->count > 1)
        qsort(q->candidates, q->count, sizeof *q->candidates, srt_target_by_id);
    for (first = 0; first < q->count && status == SERIATIM_OK; first += n) {
        n = srt_targets_chunk(NULL, q->candidates, q->count, first);
        status = scheduled_ask_texts(c, q, QUERY_SCHEDULED_READ, first, n);
    }
    return status;
}

/* ---- Answers ------------------------------------------------------------------------------- */

/* May this shard have more for the page behind `last`? The candidates are cut to the best ones. */
static int scheduled_wants_more(const query_state *q, const srt_target *last)
{
    int order;
    if (q->count < q->limit)
        return 1;
    order = srt_target_by_key(last, &q->candidates[q->reverse ? 0 : q->count - 1]);
    return q->reverse ? order > 0 : order < 0;
}

int srt_query_on_scheduled_page(seriatim_client *c, query_state *q, const srt_request *r, const srt_reply *reply)
{
    srt_target last = {NULL, 0, 0, 0};
    size_t i;
    int status = SERIATIM_OK;
    if (!srt_reply_is_list(reply, 1) || reply->count % 2 != 0)
        return srt_operator_protocol(c, "scheduled_page");
    for (i = 2; i < reply->count && status == SERIATIM_OK; i += 2) {
        last.id = reply->tokens[i].data;
        last.len = reply->tokens[i].len;
        last.key = srt_token_int(&reply->tokens[i + 1]);
        if (last.len <= SCHEDULED_STAMP)
            return srt_operator_protocol(c, "scheduled_page");
        if (scheduled_is_behind(q, &last))
            status = srt_query_add(c, q, &reply->tokens[i], last.key, (unsigned)r->place);
    }
    if (status != SERIATIM_OK || !last.id || srt_token_int(&reply->tokens[1]) == 0)
        return status;
    if (srt_query_cut(q) != SERIATIM_OK)
        return srt_operator_nomem(c);
    return scheduled_wants_more(q, &last) ? srt_query_ask_scheduled(c, q, (unsigned)r->place, &last) : SERIATIM_OK;
}

/* How core/scripts/lib/scheduled.lua keeps a payload. What cannot be read is shown as it is stored. */
static void scheduled_unpack(seriatim_scheduled *s, const char *text, size_t len)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t context = 0, i;
    s->payload.data = text;
    s->payload.len = len;
    s->payload.context = "";
    for (i = 0; i < 4 && len >= SCHEDULED_HEAD; i++)
        context |= (size_t)at[SCHEDULED_HEAD - 4 + i] << (8 * i);
    if (len < SCHEDULED_HEAD || context > len - SCHEDULED_HEAD)
        return;
    s->scored = at[0] & 1;
    if (s->scored)
        s->payload.score = srt_little_double(text + 1);
    s->payload.context = text + SCHEDULED_HEAD;
    s->payload.context_len = context;
    s->payload.data = text + SCHEDULED_HEAD + context;
    s->payload.len = len - SCHEDULED_HEAD - context;
}

/* `at`: deliver_at and text. OK or NOMEM. */
static int scheduled_view(query_state *q, seriatim_scheduled *s, const seriatim_record *of, const char *stamp,
                          const srt_token *at)
{
    char *text = srt_arena_copy(&q->results, at[1].data, at[1].len);
    seriatim_text name = {q->queue->name.data, q->queue->name.len};
    size_t len = srt_handle_size(q->queue->name.len, of->id_len);
    char *handle = srt_arena_alloc(&q->results, len);
    if (!text || !handle)
        return SERIATIM_NOMEM;
    memset(s, 0, sizeof *s);
    s->deliver_at = s->payload.score = srt_operator_seconds(&at[0]);
    s->payload.stamp = scheduled_arrival(stamp);
    s->pushed_at = s->payload.stamp / 1e6;
    scheduled_unpack(s, text, at[1].len);
    srt_handle_write(handle, name, of->id, of->id_len);
    srt_handle_arrive(handle, s->scored, s->payload.stamp);
    s->handle.data = handle;
    s->handle.len = len;
    return SERIATIM_OK;
}

/* A record of an id of which only what is scheduled is known, with room for `count` payloads. NULL: out of memory. */
static query_found *scheduled_new(seriatim_client *c, query_state *q, const srt_token *id, size_t skip, size_t count,
                                  seriatim_scheduled **list)
{
    query_found *found = srt_query_new_found(c, q);
    char *copy = found ? srt_arena_copy(&q->results, id->data + skip, id->len - skip) : NULL;
    *list = copy ? srt_arena_alloc(&q->results, count * sizeof **list) : NULL;
    if (!*list) {
        srt_operator_nomem(c);
        return NULL;
    }
    found->view.id = copy;
    found->view.id_len = id->len - skip;
    found->view.state = "scheduled";
    found->view.error = "";
    found->view.retry_count = -1;
    found->view.scheduled = *list;
    return found;
}

static void scheduled_date(query_found *found, const srt_token *deliver_at)
{
    found->view.deliver_at = found->view.perform_in = srt_operator_seconds(deliver_at);
}

/* What follows: stamp and id, deliver_at, text. */
static int scheduled_keep(seriatim_client *c, query_state *q, const srt_target *target, const srt_token *at)
{
    seriatim_scheduled *list;
    query_found *found = scheduled_new(c, q, &at[0], SCHEDULED_STAMP, 1, &list);
    if (!found || scheduled_view(q, list, &found->view, at[0].data, &at[1]) != SERIATIM_OK)
        return srt_operator_nomem(c);
    found->key = srt_token_int(&at[1]);
    found->view.shard = target->shard;
    found->view.scheduled_count = found->view.scheduled_total = 1;
    scheduled_date(found, &at[1]);
    if (found->key >= q->range.low && found->key <= q->range.high)
        q->found_count++; /* else it was rescheduled since the page was made */
    return SERIATIM_OK;
}

/* What follows: id, count, smallest deliver_at, n, then n times stamp, deliver_at, text. */
static int scheduled_keep_id(seriatim_client *c, query_state *q, const srt_target *target, const srt_token *at,
                             size_t n)
{
    seriatim_scheduled *list;
    query_found *found = scheduled_new(c, q, &at[0], 0, n, &list);
    size_t i;
    if (!found)
        return srt_operator_nomem(c);
    for (i = 0; i < n; i++) {
        const srt_token *one = &at[4 + 3 * i];
        if (one->len != SCHEDULED_STAMP)
            return srt_operator_protocol(c, "scheduled_read");
        if (scheduled_view(q, &list[i], &found->view, one->data, &one[1]) != SERIATIM_OK)
            return srt_operator_nomem(c);
    }
    found->key = target->key;
    found->view.shard = target->shard;
    found->view.scheduled_count = n;
    found->view.scheduled_total = (size_t)srt_token_int(&at[1]);
    scheduled_date(found, &at[2]);
    q->found_count++;
    return SERIATIM_OK;
}

/* The candidate that an answer names, from *at on, which is moved behind it. NULL: none has this name. */
static const srt_target *scheduled_target(const query_state *q, size_t *at, size_t end, const srt_token *name)
{
    for (; *at < end; ++*at)
        if (srt_id_compare(q->candidates[*at].id, q->candidates[*at].len, name->data, name->len) == 0)
            return &q->candidates[(*at)++];
    return NULL;
}

int srt_query_on_scheduled_texts(seriatim_client *c, query_state *q, const srt_request *r, const srt_reply *reply)
{
    size_t asked = r->part, looked, i, width, n, at = r->place;
    int is_ids = r->kind == QUERY_SCHEDULED_OF_IDS, status = SERIATIM_OK;
    if (!srt_reply_is_list(reply, 1))
        return srt_operator_protocol(c, "scheduled_read");
    looked = (size_t)srt_token_int(&reply->tokens[1]);
    if (looked < 1 || looked > asked)
        return srt_operator_protocol(c, "scheduled_read");
    for (i = 2; i < reply->count && status == SERIATIM_OK; i += width) {
        const srt_token *name = &reply->tokens[i];
        const srt_target *target = scheduled_target(q, &at, r->place + asked, name);
        n = is_ids && i + 3 < reply->count ? (size_t)srt_token_int(&reply->tokens[i + 3]) : 0;
        width = is_ids ? 4 + 3 * n : 3;
        if (!target || n > SCHEDULED_SHOWN || i + width > reply->count ||
            (is_ids && srt_token_int(&reply->tokens[i + 1]) < 1))
            return srt_operator_protocol(c, "scheduled_read");
        status = is_ids ? scheduled_keep_id(c, q, target, name, n) : scheduled_keep(c, q, target, name);
    }
    if (status == SERIATIM_OK && looked < asked)
        status = scheduled_ask_texts(c, q, r->kind, r->place + looked, asked - looked);
    return status;
}

void srt_query_join_scheduled(query_state *q)
{
    size_t i, n = 0;
    for (i = 0; i < q->found_count; i++) {
        seriatim_record *last = n ? &q->found[n - 1].view : NULL;
        const seriatim_record *view = &q->found[i].view;
        if (!last || q->found[n - 1].key != q->found[i].key) {
            q->found[n++] = q->found[i];
            continue;
        }
        last->scheduled = view->scheduled;
        last->scheduled_count = view->scheduled_count;
        last->scheduled_total = view->scheduled_total;
        last->deliver_at = view->deliver_at;
    }
    q->found_count = n;
}

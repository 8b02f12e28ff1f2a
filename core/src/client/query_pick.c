/* query_pick.c - the candidates of a page: the best of all shards, by id or by number. */
#include "client/query_state.h"

#include <stdlib.h>
#include <string.h>

#define QUERY_SPARE 4096 /* candidates beyond the limit before they are cut */

int srt_query_is_fetch(const query_state *q)
{
    return q->kind == SERIATIM_FETCH || q->kind == SERIATIM_MORGUE_FETCH || q->kind >= SRT_FETCH_RUNNING;
}

srt_part srt_query_part_of(const query_state *q)
{
    switch (q->kind) {
    case SERIATIM_MORGUE_RANGE_BY_ID:
    case SERIATIM_MORGUE_RANGE_BY_UPDATED_AT:
    case SERIATIM_MORGUE_FETCH:
        return SRT_PART_DEAD;
    case SERIATIM_PROCESSING_DATA:
    case SRT_FETCH_RUNNING:
        return SRT_PART_RUNNING;
    default:
        return SRT_PART_WAITING;
    }
}

int srt_query_is_by_id(const query_state *q)
{
    return q->kind == SERIATIM_RANGE_BY_ID || q->kind == SERIATIM_MORGUE_RANGE_BY_ID ||
           q->kind == SERIATIM_PROCESSING_DATA;
}

int srt_query_cut(query_state *q)
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

int srt_query_add(seriatim_client *c, query_state *q, const srt_token *id, int64_t key, unsigned shard)
{
    void *candidates = q->candidates;
    srt_target *target;
    if (srt_query_is_by_id(q) ? !srt_id_within(&q->min, &q->max, id->data, id->len)
                              : key < q->range.low || key > q->range.high)
        return SERIATIM_OK;
    if (q->has_after && !query_is_behind(q, id, key))
        return SERIATIM_OK;
    if ((q->count >= 2 * q->limit + QUERY_SPARE && srt_query_cut(q) != SERIATIM_OK) ||
        srt_grow(q->mem, &candidates, &q->cap, q->count + 1, sizeof *target) != SERIATIM_OK)
        return srt_operator_nomem(c);
    q->candidates = candidates;
    target = &q->candidates[q->count];
    target->id = srt_arena_copy(&q->memory, id->data, id->len);
    if (!target->id)
        return srt_operator_nomem(c);
    target->len = id->len;
    target->key = srt_query_is_by_id(q) ? 0 : key;
    target->shard = shard;
    q->count++;
    return SERIATIM_OK;
}

query_found *srt_query_new_found(seriatim_client *c, query_state *q)
{
    void *list = q->found;
    if (srt_grow(q->mem, &list, &q->found_cap, q->found_count + 1, sizeof *q->found) != SERIATIM_OK) {
        srt_operator_nomem(c);
        return NULL;
    }
    q->found = list;
    memset(&q->found[q->found_count], 0, sizeof *q->found);
    return &q->found[q->found_count];
}

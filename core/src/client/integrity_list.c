/* integrity_list.c - which ids are in the ready list of a shard, and which that should be are not. */
#include "client/integrity.h"

#include <stdlib.h>

static uint64_t integrity_hash(const char *id, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    while (len--)
        hash = (hash ^ (unsigned char)*id++) * UINT64_C(1099511628211);
    return hash;
}

int srt_integrity_compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

int srt_integrity_list(seriatim_client *c, integrity_state *k, const srt_token *id)
{
    void *listed = k->listed;
    if (srt_grow(k->mem, &listed, &k->listed_cap, k->listed_count + 1, sizeof *k->listed) != SERIATIM_OK)
        return srt_operator_nomem(c);
    k->listed = listed;
    k->listed[k->listed_count++] = integrity_hash(id->data, id->len);
    return SERIATIM_OK;
}

static int integrity_is_listed(const integrity_state *k, const srt_token *id)
{
    uint64_t hash = integrity_hash(id->data, id->len);
    return k->listed_count && bsearch(&hash, k->listed, k->listed_count, sizeof hash, srt_integrity_compare);
}

int srt_integrity_miss(seriatim_client *c, integrity_state *k, const srt_token *id)
{
    void *missing = k->missing;
    if (k->unlisted || integrity_is_listed(k, id))
        return SERIATIM_OK;
    if (srt_grow(k->mem, &missing, &k->missing_cap, k->missing_count + 1, sizeof *k->missing) != SERIATIM_OK)
        return srt_operator_nomem(c);
    k->missing = missing;
    k->missing[k->missing_count].len = id->len;
    k->missing[k->missing_count].data = srt_arena_copy(&k->memory, id->data, id->len);
    return k->missing[k->missing_count++].data ? SERIATIM_OK : srt_operator_nomem(c);
}

void srt_integrity_keep_missing(integrity_state *k)
{
    size_t i, kept = 0;
    for (i = 0; i < k->missing_count; i++) {
        srt_token id = {SRT_STRING, 0, k->missing[i].data, k->missing[i].len};
        if (!integrity_is_listed(k, &id))
            k->missing[kept++] = k->missing[i];
    }
    k->missing_count = kept;
}

/* integrity_finding.c - the findings, and how a script tells them. */
#include "client/integrity.h"

#include <string.h>

static int integrity_find(seriatim_client *c, integrity_state *k, const char *kind, seriatim_text id,
                          seriatim_text detail)
{
    void *findings = k->findings;
    seriatim_finding *f;
    if (srt_grow(k->mem, &findings, &k->cap, k->count + 1, sizeof *f) != SERIATIM_OK)
        return srt_operator_nomem(c);
    k->findings = findings;
    f = &k->findings[k->count];
    f->shard = 0;
    f->repaired = 0;
    f->kind = srt_arena_copy(&k->results, kind, strlen(kind));
    f->id = srt_arena_copy(&k->results, id.data, id.len);
    f->id_len = id.len;
    f->detail = srt_arena_copy(&k->results, detail.data, detail.len);
    if (!f->kind || !f->id || !f->detail)
        return srt_operator_nomem(c);
    k->count++;
    return SERIATIM_OK;
}

int srt_integrity_find_plain(seriatim_client *c, integrity_state *k, const char *kind, seriatim_text id,
                             const char *detail)
{
    seriatim_text text;
    text.data = detail;
    text.len = strlen(detail);
    return integrity_find(c, k, kind, id, text);
}

/* kind, id, detail, "1" if it was mended */
static int integrity_find_said(seriatim_client *c, integrity_state *k, unsigned shard, const srt_token *at)
{
    seriatim_text id, detail;
    char kind[32];
    size_t len = at[0].len < sizeof kind - 1 ? at[0].len : sizeof kind - 1;
    int status;
    memcpy(kind, at[0].data, len);
    kind[len] = '\0';
    id.data = at[1].data;
    id.len = at[1].len;
    detail.data = at[2].data;
    detail.len = at[2].len;
    status = integrity_find(c, k, kind, id, detail);
    if (status != SERIATIM_OK)
        return status;
    k->findings[k->count - 1].shard = shard;
    k->findings[k->count - 1].repaired = srt_token_is(&at[3], "1");
    return SERIATIM_OK;
}

/* The two lists inside an answer of check.lua; 0 when it has another shape. */
static int integrity_shape(const srt_reply *reply, size_t *findings, size_t *ready)
{
    const srt_token *at = reply->tokens;
    size_t i;
    if (reply->count < 5 || at[0].type != SRT_ARRAY || at[0].integer != 4 || at[3].type != SRT_ARRAY ||
        at[3].integer < 0 || at[3].integer % 4 != 0)
        return 0;
    *findings = (size_t)at[3].integer;
    if (*findings > reply->count - 5 || at[4 + *findings].type != SRT_ARRAY || at[4 + *findings].integer < 0)
        return 0;
    *ready = (size_t)at[4 + *findings].integer;
    for (i = 4; i < reply->count; i++)
        if (at[i].type != SRT_STRING && i != 4 + *findings)
            return 0;
    return *findings + *ready + 5 == reply->count;
}

int srt_integrity_take(seriatim_client *c, integrity_state *k, const srt_request *r, const srt_reply *reply)
{
    size_t findings, ready, i;
    int status = SERIATIM_OK;
    if (!integrity_shape(reply, &findings, &ready))
        return srt_operator_protocol(c, "check");
    k->looked_at += (size_t)srt_token_int(&reply->tokens[2]);
    k->records += r->kind == INTEGRITY_JOBS || r->kind == INTEGRITY_DEAD ? srt_token_int(&reply->tokens[2]) : 0;
    for (i = 0; i < findings && status == SERIATIM_OK; i += 4)
        status = integrity_find_said(c, k, (unsigned)r->place, &reply->tokens[4 + i]);
    for (i = 0; i < ready && status == SERIATIM_OK; i++)
        status = srt_integrity_miss(c, k, &reply->tokens[5 + findings + i]);
    return status;
}

int srt_integrity_stray(seriatim_client *c, integrity_state *k, const srt_token *key, unsigned shard,
                        const char *detail)
{
    seriatim_text name;
    size_t i;
    int status;
    name.data = key->data;
    name.len = key->len;
    for (i = 0; k->scan.rounds > 0 && i < k->count; i++) /* SCAN has begun again: slots have moved */
        if (k->findings[i].id_len == name.len && memcmp(k->findings[i].id, name.data, name.len) == 0)
            return SERIATIM_OK;
    status = srt_integrity_find_plain(c, k, "stray", name, detail);
    if (status == SERIATIM_OK)
        k->findings[k->count - 1].shard = shard;
    return status;
}

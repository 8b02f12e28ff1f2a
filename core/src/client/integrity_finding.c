/* integrity_finding.c - the findings, and how a script tells them. */
#include "client/integrity.h"

#include <stdio.h>
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

static seriatim_text integrity_text(const srt_token *token)
{
    seriatim_text text;
    text.data = token->data;
    text.len = token->len;
    return text;
}

/* kind, id, detail, "1" if it was mended */
static int integrity_find_said(seriatim_client *c, integrity_state *k, unsigned shard, const srt_token *at)
{
    char kind[32];
    size_t len = at[0].len < sizeof kind - 1 ? at[0].len : sizeof kind - 1;
    int status;
    memcpy(kind, at[0].data, len);
    kind[len] = '\0';
    status = integrity_find(c, k, kind, integrity_text(&at[1]), integrity_text(&at[2]));
    if (status != SERIATIM_OK)
        return status;
    k->findings[k->count - 1].shard = shard;
    k->findings[k->count - 1].repaired = srt_token_is(&at[3], "1");
    return SERIATIM_OK;
}

/* Moves *at behind a list of texts, whose first one and their number it gives; 0: there is no such list. */
static int integrity_texts(const srt_reply *reply, size_t *at, size_t *first, size_t *count)
{
    size_t i;
    if (*at >= reply->count || reply->tokens[*at].type != SRT_ARRAY || reply->tokens[*at].integer < 0)
        return 0;
    *first = *at + 1;
    *count = (size_t)reply->tokens[*at].integer;
    if (*count > reply->count - *first)
        return 0;
    *at = *first + *count;
    for (i = *first; i < *at; i++)
        if (reply->tokens[i].type != SRT_STRING)
            return 0;
    return 1;
}

int srt_integrity_place(seriatim_client *c, integrity_state *k, unsigned shard, const char *what, seriatim_text id)
{
    const srt_queue *queue = k->queue;
    unsigned home = seriatim_shard_of(id.data, id.len, queue->shards_count);
    char detail[160];
    size_t i;
    int status;
    if (home == shard || (queue->old_count && seriatim_shard_of(id.data, id.len, queue->old_count) == shard))
        return SERIATIM_OK;
    for (i = 0; i < k->count; i++) /* one finding for all that is there of the id */
        if (strcmp(k->findings[i].kind, "elsewhere") == 0 && k->findings[i].shard == shard &&
            k->findings[i].id_len == id.len && memcmp(k->findings[i].id, id.data, id.len) == 0)
            return SERIATIM_OK;
    snprintf(detail, sizeof detail,
             "%s: the id belongs to shard %u, and moves home when the queue gets another number of shards", what, home);
    status = srt_integrity_find_plain(c, k, "elsewhere", id, detail);
    if (status == SERIATIM_OK)
        k->findings[k->count - 1].shard = shard;
    return status;
}

int srt_integrity_take(seriatim_client *c, integrity_state *k, const srt_request *r, const srt_reply *reply)
{
    const srt_token *t = reply->tokens;
    size_t findings, ready, present, counts[3] = {0}, at = 3, i;
    const char *what = r->kind == INTEGRITY_JOBS       ? "record in jobs"
                       : r->kind == INTEGRITY_DEAD     ? "record in dead"
                       : r->kind == INTEGRITY_TOLD     ? "notice"
                       : r->kind == INTEGRITY_OUTBOXES ? "number of a job of an outbox"
                                                       : "remembered score";
    int status = SERIATIM_OK;
    if (reply->count < 5 || t[0].type != SRT_ARRAY || !integrity_texts(reply, &at, &findings, &counts[0]) ||
        counts[0] % 4 != 0 || !integrity_texts(reply, &at, &ready, &counts[1]) ||
        (at < reply->count && !integrity_texts(reply, &at, &present, &counts[2])) || at != reply->count)
        return srt_operator_protocol(c, "check");
    k->looked_at += (size_t)srt_token_int(&reply->tokens[2]);
    k->records += r->kind == INTEGRITY_JOBS || r->kind == INTEGRITY_DEAD ? srt_token_int(&reply->tokens[2]) : 0;
    for (i = 0; i < counts[0] && status == SERIATIM_OK; i += 4)
        status = integrity_find_said(c, k, (unsigned)r->place, &t[findings + i]);
    for (i = 0; i < counts[1] && status == SERIATIM_OK; i++)
        status = srt_integrity_miss(c, k, &t[ready + i]);
    for (i = 0; i < counts[2] && status == SERIATIM_OK; i++)
        status = srt_integrity_place(c, k, (unsigned)r->place, what, integrity_text(&t[present + i]));
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

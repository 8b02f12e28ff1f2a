/* check.c - proves what is stored of a queue, shard by shard, slice by slice. */
#include "operator.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_READY_SLICE 250
#define CHECK_CONFIRM 10 /* ids of a call that looks through the ready list */

/* What is looked at in each shard, in this order; SCAN then looks for payloads that no record owns. */
typedef enum check_step {
    CHECK_LIST_READY,
    CHECK_JOBS,
    CHECK_CONFIRM_READY,
    CHECK_NEXT,
    CHECK_RUNNING,
    CHECK_DEAD,
    CHECK_DUE,
    CHECK_PARKED,
    CHECK_UNPROVEN,
    CHECK_SUSPECT,
    CHECK_RETRY,
    CHECK_DIED,
    CHECK_OVERRUN,
    CHECK_STEPS,
    CHECK_SCAN = CHECK_STEPS,
    CHECK_OWNED
} check_step;

static const char *const check_words[CHECK_STEPS] = {"",         "jobs",    "ready", "next", "running", "dead",   "due",
                                                     "parked", "unproven", "suspect", "retry", "died", "overrun"};
static const char *const check_spills[] = {"spill", "nextspill", "deadspill", "spillmap", "nextspillmap", "deadspillmap"};

typedef struct check_state {
    const seriatim_allocator *mem;
    int repair;
    srt_queue *queue;
    unsigned shard;
    check_step step;
    srt_bytes pattern; /* of the spilled keys; what stands before the shard is `prefix` bytes long */
    size_t prefix;

    uint64_t *listed; /* hashes of the ids in the shard's ready list, sorted after the last slice */
    size_t listed_count, listed_cap;
    srt_arena memory; /* of the shard */
    seriatim_text *missing; /* ids that did not seem to be listed */
    size_t missing_count, missing_cap, confirmed;

    srt_arena results;
    seriatim_finding *findings;
    size_t count, cap;
    size_t looked_at;
} check_state;

static void check_release(seriatim_client *c)
{
    check_state *k = c->state;
    srt_bytes_free(&k->pattern);
    srt_arena_free(&k->memory);
    srt_arena_free(&k->results);
    srt_free(k->mem, k->listed, k->listed_cap * sizeof *k->listed);
    srt_free(k->mem, k->missing, k->missing_cap * sizeof *k->missing);
    srt_free(k->mem, k->findings, k->cap * sizeof *k->findings);
    srt_free(k->mem, k, sizeof *k);
}

/* ---- What the ready list holds ------------------------------------------------------------- */

static uint64_t check_hash(const char *id, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    while (len--)
        hash = (hash ^ (unsigned char)*id++) * UINT64_C(1099511628211);
    return hash;
}

static int check_compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static int check_list(seriatim_client *c, check_state *k, const srt_token *id)
{
    void *listed = k->listed;
    if (srt_grow(k->mem, &listed, &k->listed_cap, k->listed_count + 1, sizeof *k->listed) != SERIATIM_OK)
        return srt_operator_nomem(c);
    k->listed = listed;
    k->listed[k->listed_count++] = check_hash(id->data, id->len);
    return SERIATIM_OK;
}

static int check_is_listed(const check_state *k, const srt_token *id)
{
    uint64_t hash = check_hash(id->data, id->len);
    return k->listed_count && bsearch(&hash, k->listed, k->listed_count, sizeof hash, check_compare);
}

static int check_miss(seriatim_client *c, check_state *k, const srt_token *id)
{
    void *missing = k->missing;
    if (check_is_listed(k, id))
        return SERIATIM_OK;
    if (srt_grow(k->mem, &missing, &k->missing_cap, k->missing_count + 1, sizeof *k->missing) != SERIATIM_OK)
        return srt_operator_nomem(c);
    k->missing = missing;
    k->missing[k->missing_count].len = id->len;
    k->missing[k->missing_count].data = srt_arena_copy(&k->memory, id->data, id->len);
    return k->missing[k->missing_count++].data ? SERIATIM_OK : srt_operator_nomem(c);
}

/* ---- Requests ------------------------------------------------------------------------------ */

static int check_ask_list(seriatim_client *c, check_state *k, int64_t from)
{
    srt_request *r = srt_client_shard_request(c, k->queue, k->shard, srt_script_list);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, "ready");
    srt_request_text(r, "up");
    srt_request_text(r, "-inf");
    srt_request_text(r, "+inf");
    srt_request_int(r, from);
    srt_request_int(r, CHECK_READY_SLICE);
    r->kind = CHECK_LIST_READY;
    return srt_client_send(c, r);
}

static srt_request *check_request(seriatim_client *c, check_state *k, unsigned shard, const char *part, const srt_token *cursor)
{
    srt_request *r = srt_client_shard_request(c, k->queue, shard, srt_script_check);
    if (!r)
        return NULL;
    srt_request_text(r, part);
    srt_request_arg(r, cursor ? cursor->data : "0", cursor ? cursor->len : 1);
    srt_request_int(r, k->repair);
    srt_request_text(r, k->queue->fold);
    r->place = shard;
    return r;
}

static int check_ask(seriatim_client *c, check_state *k, const srt_token *cursor)
{
    srt_request *r = check_request(c, k, k->shard, check_words[k->step], cursor);
    size_t i;
    if (!r)
        return SERIATIM_NOMEM;
    if (k->step == CHECK_CONFIRM_READY) {
        for (i = 0; i < CHECK_CONFIRM && k->confirmed < k->missing_count; i++, k->confirmed++)
            srt_request_arg(r, k->missing[k->confirmed].data, k->missing[k->confirmed].len);
    }
    r->kind = (int)k->step;
    return srt_client_send(c, r);
}

static int check_ask_scan(seriatim_client *c, check_state *k, const srt_token *cursor)
{
    srt_request *r = srt_session_begin(&c->session, srt_script_none, NULL, 0);
    if (!r)
        return srt_operator_nomem(c);
    srt_request_text(r, "SCAN");
    srt_request_arg(r, cursor ? cursor->data : "0", cursor ? cursor->len : 1);
    srt_request_text(r, "MATCH");
    srt_request_arg(r, k->pattern.data, k->pattern.len);
    srt_request_text(r, "COUNT");
    srt_request_int(r, SRT_SLICE);
    r->kind = CHECK_SCAN;
    return srt_client_send(c, r);
}

/* Goes on with the step that is set, or the next one that has something to do. */
static int check_go_on(seriatim_client *c, check_state *k)
{
    if (k->step == CHECK_CONFIRM_READY && k->confirmed == k->missing_count)
        k->step = CHECK_NEXT;
    if (k->step == CHECK_STEPS && k->shard + 1 < k->queue->shards_count) {
        k->shard++;
        k->step = CHECK_LIST_READY;
    }
    if (k->step == CHECK_LIST_READY) {
        srt_arena_reset(&k->memory);
        k->listed_count = k->missing_count = k->confirmed = 0;
        return check_ask_list(c, k, 0);
    }
    return k->step == CHECK_SCAN ? check_ask_scan(c, k, NULL) : check_ask(c, k, NULL);
}

static int check_send(seriatim_client *c, srt_queue *queue)
{
    check_state *k = c->state;
    srt_arena_reset(&k->results);
    k->count = k->looked_at = 0;
    k->queue = queue;
    k->shard = 0;
    k->step = CHECK_LIST_READY;
    if (queue->shards_count == 0)
        return SERIATIM_OK;
    srt_bytes_clear(&k->pattern);
    srt_key_shard(&k->pattern, c->registry.ns.data, queue->name.data, queue->name.len, 0);
    if (k->pattern.failed)
        return srt_operator_nomem(c);
    k->prefix = k->pattern.len -= 3; /* without 0}: */
    srt_bytes_adds(&k->pattern, "*}:*spill*:*");
    return k->pattern.failed ? srt_operator_nomem(c) : check_go_on(c, k);
}

/* ---- Answers ------------------------------------------------------------------------------- */

static int check_find(seriatim_client *c, check_state *k, unsigned shard, const srt_token *at)
{
    void *findings = k->findings;
    seriatim_finding *f;
    if (srt_grow(k->mem, &findings, &k->cap, k->count + 1, sizeof *f) != SERIATIM_OK)
        return srt_operator_nomem(c);
    k->findings = findings;
    f = &k->findings[k->count];
    f->shard = shard;
    f->kind = srt_arena_copy(&k->results, at[0].data, at[0].len);
    f->id = srt_arena_copy(&k->results, at[1].data, at[1].len);
    f->id_len = at[1].len;
    f->detail = srt_arena_copy(&k->results, at[2].data, at[2].len);
    f->repaired = srt_token_is(&at[3], "1");
    if (!f->kind || !f->id || !f->detail)
        return srt_operator_nomem(c);
    k->count++;
    return SERIATIM_OK;
}

static int check_on_list(seriatim_client *c, check_state *k, const srt_reply *reply)
{
    size_t i;
    int status = SERIATIM_OK;
    if (!srt_reply_is_list(reply, 1))
        return srt_operator_protocol(c, "list");
    for (i = 2; i < reply->count && status == SERIATIM_OK; i += 2)
        status = check_list(c, k, &reply->tokens[i]);
    if (status != SERIATIM_OK)
        return status;
    if (srt_token_int(&reply->tokens[1]) >= 0)
        return check_ask_list(c, k, srt_token_int(&reply->tokens[1]));
    if (k->listed_count > 1)
        qsort(k->listed, k->listed_count, sizeof *k->listed, check_compare);
    k->step = CHECK_JOBS;
    return check_go_on(c, k);
}

/* The two lists inside an answer of check.lua; 0 when it has another shape. */
static int check_shape(const srt_reply *reply, size_t *findings, size_t *ready)
{
    const srt_token *at = reply->tokens;
    if (reply->count < 5 || at[0].type != SRT_ARRAY || at[0].integer != 4 || at[3].type != SRT_ARRAY || at[3].integer < 0 ||
        at[3].integer % 4 != 0)
        return 0;
    *findings = (size_t)at[3].integer;
    if (*findings > reply->count - 5 || at[4 + *findings].type != SRT_ARRAY || at[4 + *findings].integer < 0)
        return 0;
    *ready = (size_t)at[4 + *findings].integer;
    return *findings + *ready + 5 == reply->count;
}

static int check_on_slice(seriatim_client *c, check_state *k, const srt_request *r, const srt_reply *reply)
{
    size_t findings, ready, i;
    int status = SERIATIM_OK;
    if (!check_shape(reply, &findings, &ready))
        return srt_operator_protocol(c, "check");
    k->looked_at += (size_t)srt_token_int(&reply->tokens[2]);
    for (i = 0; i < findings && status == SERIATIM_OK; i += 4)
        status = check_find(c, k, (unsigned)r->place, &reply->tokens[4 + i]);
    for (i = 0; i < ready && status == SERIATIM_OK; i++)
        status = check_miss(c, k, &reply->tokens[5 + findings + i]);
    if (status != SERIATIM_OK || r->kind == CHECK_OWNED)
        return status;
    if (!srt_token_is(&reply->tokens[1], "0"))
        return check_ask(c, k, &reply->tokens[1]);
    if (k->step != CHECK_CONFIRM_READY || k->confirmed == k->missing_count)
        k->step++;
    return check_go_on(c, k);
}

/* Takes SHARD}:KIND:ID apart and asks who owns it. Other keys that match are not ours. */
static int check_key(seriatim_client *c, check_state *k, const srt_token *key)
{
    srt_token number;
    const char *at = key->data + k->prefix, *end = key->data + key->len, *colon, *brace;
    srt_request *r;
    size_t i;
    if (key->type != SRT_STRING || key->len <= k->prefix)
        return SERIATIM_OK;
    brace = memchr(at, '}', (size_t)(end - at));
    if (!brace || end - brace < 3)
        return SERIATIM_OK;
    number.type = SRT_STRING;
    number.data = at;
    number.len = (size_t)(brace - at);
    colon = memchr(brace + 2, ':', (size_t)(end - brace - 2));
    for (i = 0; colon && i < sizeof check_spills / sizeof *check_spills; i++) {
        if (srt_token_int(&number) >= (int64_t)k->queue->shards_count ||
            (size_t)(colon - brace - 2) != strlen(check_spills[i]) || memcmp(brace + 2, check_spills[i], (size_t)(colon - brace - 2)) != 0)
            continue;
        r = check_request(c, k, (unsigned)srt_token_int(&number), check_spills[i], NULL);
        if (!r)
            return SERIATIM_NOMEM;
        srt_request_arg(r, colon + 1, (size_t)(end - colon - 1));
        r->kind = CHECK_OWNED;
        return srt_client_send(c, r);
    }
    return SERIATIM_OK;
}

static int check_on_scan(seriatim_client *c, check_state *k, const srt_reply *reply)
{
    const srt_token *at = reply->tokens;
    size_t i;
    int status = SERIATIM_OK;
    if (reply->count < 3 || at[0].type != SRT_ARRAY || at[0].integer != 2 || at[2].type != SRT_ARRAY)
        return srt_operator_protocol(c, "SCAN");
    for (i = 3; i < reply->count && status == SERIATIM_OK; i++)
        status = check_key(c, k, &at[i]);
    if (status == SERIATIM_OK && !srt_token_is(&at[1], "0"))
        status = check_ask_scan(c, k, &at[1]);
    return status;
}

static int check_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    if (r->kind == CHECK_LIST_READY)
        return check_on_list(c, c->state, reply);
    if (r->kind == CHECK_SCAN)
        return check_on_scan(c, c->state, reply);
    return check_on_slice(c, c->state, r, reply);
}

int seriatim_check_begin(seriatim_client *c, size_t queue, int repair)
{
    static const srt_operation operation = {.send = check_send, .on_reply = check_on_reply, .release = check_release};
    check_state *k;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    k = srt_operator_state(c, sizeof *k);
    if (!k)
        return SERIATIM_NOMEM;
    k->mem = c->mem;
    k->repair = repair != 0;
    srt_bytes_init(&k->pattern, c->mem);
    srt_arena_init(&k->memory, c->mem);
    srt_arena_init(&k->results, c->mem);
    c->state = k;
    return srt_client_start(c, &operation, queue);
}

static const check_state *check_of(const seriatim_client *c)
{
    return c->operation && c->operation->send == check_send ? c->state : NULL;
}

const seriatim_finding *seriatim_check_result(const seriatim_client *c, size_t *count)
{
    const check_state *k = check_of(c);
    *count = k ? k->count : 0;
    return k ? k->findings : NULL;
}

size_t seriatim_check_looked_at(const seriatim_client *c)
{
    const check_state *k = check_of(c);
    return k ? k->looked_at : 0;
}

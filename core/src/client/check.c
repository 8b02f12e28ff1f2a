/* check.c - proves what is stored of a queue, shard by shard, slice by slice, and that all keys of the namespace are somebody's. */
#include "client/operator.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_READY_SLICE 150
#define CHECK_CONFIRM 25 /* ids of a call that looks through the ends of the ready list */
#define CHECK_DIGITS 10  /* of a shard's number */

/* What is looked at in each shard, in this order; SCAN then looks for keys that nothing owns. */
typedef enum check_step {
    CHECK_TYPES,
    CHECK_LIST_READY,
    CHECK_JOBS,
    CHECK_LIST_AGAIN,
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
    CHECK_OWNED,
    CHECK_NAMESPACE, /* without a queue: SCAN, layouts, nodes */
    CHECK_LAYOUT,
    CHECK_NODES
} check_step;

static const char *const check_words[CHECK_STEPS] = {"",       "",         "jobs",    "",      "ready", "next",   "running", "dead",
                                                     "due",    "parked",   "unproven", "suspect", "retry", "died", "overrun"};
static const char *const check_nodes[] = {"{/nodes}:alive", "{/nodes}:info", "{/nodes}:renewed", "{/nodes}:sampler", NULL};
/* Kinds of a shard beside those that its scripts declare. */
static const char *const check_more[] = {"uniting", NULL};
/* Kinds of which each key names an id or a client. */
static const char *const check_owned[] = {"spill", "nextspill", "deadspill", "spillmap", "nextspillmap", "deadspillmap", "push", NULL};

/* Kinds of a shard that are there only at times, each one key. */
static const char *const check_single[] = {"notices", "tellers", NULL};

/* A queue that a key names, on the way through the whole namespace. */
typedef struct check_queue {
    seriatim_text name;
    int seen; /* CHECK_HAS_* bits */
} check_queue;

/* What was seen of a queue. A deleted queue keeps that mark and the states of its shards, which refuse old layouts. */
enum { CHECK_HAS_LAYOUT = 1, CHECK_HAS_MARK = 2, CHECK_HAS_CONTENT = 4 };

typedef struct check_state {
    const seriatim_allocator *mem;
    int repair;
    srt_queue *queue;
    unsigned shard;
    check_step step;
    srt_bytes left;    /* a byte a shard: 1, its keys are not what the scripts need */
    srt_bytes pattern; /* of the keys; what stands before the shard is `prefix` bytes long */
    size_t prefix;

    uint64_t *listed; /* hashes of the ids in the shard's ready list, sorted after the last slice */
    size_t listed_count, listed_cap;
    int unlisted;     /* the ready list could not be read */
    srt_arena memory; /* of the shard */
    seriatim_text *missing; /* ids that did not seem to be listed */
    size_t missing_count, missing_cap, confirmed;

    check_queue *queues; /* without a queue */
    size_t queue_count, queue_cap;
    srt_bytes name; /* of the key that is looked at */

    srt_arena results;
    seriatim_finding *findings;
    size_t count, cap;
    size_t looked_at;
} check_state;

static void check_release(seriatim_client *c)
{
    check_state *k = c->state;
    srt_bytes_free(&k->left);
    srt_bytes_free(&k->pattern);
    srt_bytes_free(&k->name);
    srt_free(k->mem, k->queues, k->queue_cap * sizeof *k->queues);
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
    if (k->unlisted || check_is_listed(k, id))
        return SERIATIM_OK;
    if (srt_grow(k->mem, &missing, &k->missing_cap, k->missing_count + 1, sizeof *k->missing) != SERIATIM_OK)
        return srt_operator_nomem(c);
    k->missing = missing;
    k->missing[k->missing_count].len = id->len;
    k->missing[k->missing_count].data = srt_arena_copy(&k->memory, id->data, id->len);
    return k->missing[k->missing_count++].data ? SERIATIM_OK : srt_operator_nomem(c);
}

/* The list was read once more: who is in it now is not missing. */
static void check_keep_missing(check_state *k)
{
    size_t i, kept = 0;
    for (i = 0; i < k->missing_count; i++) {
        srt_token id = {SRT_STRING, 0, k->missing[i].data, k->missing[i].len};
        if (!check_is_listed(k, &id))
            k->missing[kept++] = k->missing[i];
    }
    k->missing_count = kept;
}

/* ---- Requests ------------------------------------------------------------------------------ */

static int check_ask_types(seriatim_client *c, check_state *k)
{
    srt_request *r = srt_client_shard_request(c, k->queue, k->shard, srt_script_check_types);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_int(r, k->repair);
    r->place = k->shard;
    r->kind = CHECK_TYPES;
    return srt_client_send(c, r);
}

/* From its end: claims shorten the beginning, so no place that is counted from the end moves away from the reader. */
static int check_ask_list(seriatim_client *c, check_state *k, int64_t from)
{
    srt_request *r = srt_client_shard_request(c, k->queue, k->shard, srt_script_list);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, "ready");
    srt_request_text(r, "down");
    srt_request_text(r, "-inf");
    srt_request_text(r, "+inf");
    srt_request_int(r, from);
    srt_request_int(r, CHECK_READY_SLICE);
    r->kind = (int)k->step;
    return srt_client_send(c, r);
}

static int check_listed(const char *const *words, const char *at, size_t len)
{
    size_t i;
    for (i = 0; words[i]; i++)
        if (strlen(words[i]) == len && memcmp(words[i], at, len) == 0)
            return 1;
    return 0;
}

static srt_request *check_request(seriatim_client *c, check_state *k, unsigned shard, const char *part, const srt_token *cursor)
{
    int script = check_listed(check_single, part, strlen(part)) ? srt_script_check_notices : srt_script_check;
    srt_request *r = srt_client_shard_request(c, k->queue, shard, script);
    if (!r)
        return NULL;
    srt_request_text(r, part);
    srt_request_arg(r, cursor ? cursor->data : "0", cursor ? cursor->len : 1);
    srt_request_int(r, k->repair);
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

static int check_ask_scan(seriatim_client *c, check_state *k, const srt_token *cursor, int kind)
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
    r->kind = kind;
    return srt_client_send(c, r);
}

/* Goes on with the step that is set, or the next one that has something to do. */
static int check_go_on(seriatim_client *c, check_state *k)
{
    if (k->step == CHECK_LIST_AGAIN && k->missing_count == 0)
        k->step = CHECK_CONFIRM_READY;
    if (k->step == CHECK_CONFIRM_READY && k->confirmed == k->missing_count)
        k->step = CHECK_NEXT;
    if (k->step == CHECK_STEPS && k->shard + 1 < k->queue->shards_count) {
        k->shard++;
        k->step = CHECK_TYPES;
    }
    if (k->step == CHECK_TYPES) {
        srt_arena_reset(&k->memory);
        k->missing_count = k->confirmed = 0;
        k->unlisted = 0;
        return check_ask_types(c, k);
    }
    if (k->step == CHECK_LIST_READY || k->step == CHECK_LIST_AGAIN) {
        k->listed_count = 0;
        return check_ask_list(c, k, 0);
    }
    return k->step == CHECK_SCAN ? check_ask_scan(c, k, NULL, CHECK_SCAN) : check_ask(c, k, NULL);
}

static int check_send(seriatim_client *c, srt_queue *queue)
{
    check_state *k = c->state;
    srt_arena_reset(&k->results);
    k->count = k->looked_at = 0;
    k->queue = queue;
    k->shard = 0;
    k->step = CHECK_TYPES;
    if (queue->shards_count == 0)
        return SERIATIM_OK;
    srt_bytes_clear(&k->left);
    srt_bytes_clear(&k->pattern);
    srt_key_shard(&k->pattern, c->registry.ns.data, queue->name.data, queue->name.len, 0);
    if (k->pattern.failed)
        return srt_operator_nomem(c);
    k->prefix = k->pattern.len -= 3; /* without 0}: */
    srt_bytes_adds(&k->pattern, "*}:*");
    return k->pattern.failed ? srt_operator_nomem(c) : check_go_on(c, k);
}

/* ---- Answers ------------------------------------------------------------------------------- */

static int check_find(seriatim_client *c, check_state *k, const char *kind, seriatim_text id, seriatim_text detail)
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

static int check_find_plain(seriatim_client *c, check_state *k, const char *kind, seriatim_text id, const char *detail)
{
    seriatim_text text;
    text.data = detail;
    text.len = strlen(detail);
    return check_find(c, k, kind, id, text);
}

/* kind, id, detail, "1" if it was mended */
static int check_find_said(seriatim_client *c, check_state *k, unsigned shard, const srt_token *at)
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
    status = check_find(c, k, kind, id, detail);
    if (status != SERIATIM_OK)
        return status;
    k->findings[k->count - 1].shard = shard;
    k->findings[k->count - 1].repaired = srt_token_is(&at[3], "1");
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
    if (k->step == CHECK_LIST_AGAIN)
        check_keep_missing(k);
    k->step++;
    return check_go_on(c, k);
}

/* The two lists inside an answer of check.lua; 0 when it has another shape. */
static int check_shape(const srt_reply *reply, size_t *findings, size_t *ready)
{
    const srt_token *at = reply->tokens;
    size_t i;
    if (reply->count < 5 || at[0].type != SRT_ARRAY || at[0].integer != 4 || at[3].type != SRT_ARRAY || at[3].integer < 0 ||
        at[3].integer % 4 != 0)
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

/* What a script has found, and the ids that must be in the ready list. */
static int check_take(seriatim_client *c, check_state *k, const srt_request *r, const srt_reply *reply)
{
    size_t findings, ready, i;
    int status = SERIATIM_OK;
    if (!check_shape(reply, &findings, &ready))
        return srt_operator_protocol(c, "check");
    k->looked_at += (size_t)srt_token_int(&reply->tokens[2]);
    for (i = 0; i < findings && status == SERIATIM_OK; i += 4)
        status = check_find_said(c, k, (unsigned)r->place, &reply->tokens[4 + i]);
    for (i = 0; i < ready && status == SERIATIM_OK; i++)
        status = check_miss(c, k, &reply->tokens[5 + findings + i]);
    return status;
}

/* A shard whose keys are not what the scripts need is left alone. */
static int check_on_types(seriatim_client *c, check_state *k, const srt_request *r, const srt_reply *reply)
{
    size_t looked_at = k->looked_at;
    int status = check_take(c, k, r, reply), closed;
    k->looked_at = looked_at;
    if (status != SERIATIM_OK)
        return status;
    closed = srt_token_is(&reply->tokens[1], "1");
    srt_bytes_addc(&k->left, (char)closed);
    k->step = closed ? CHECK_STEPS : CHECK_LIST_READY;
    return k->left.failed ? srt_operator_nomem(c) : check_go_on(c, k);
}

static int check_on_slice(seriatim_client *c, check_state *k, const srt_request *r, const srt_reply *reply)
{
    int status = check_take(c, k, r, reply);
    if (status != SERIATIM_OK || r->kind == CHECK_OWNED)
        return status;
    if (r->kind == CHECK_NODES)
        return check_ask_scan(c, k, NULL, CHECK_NAMESPACE);
    if (!srt_token_is(&reply->tokens[1], "0"))
        return check_ask(c, k, &reply->tokens[1]);
    if (k->step != CHECK_CONFIRM_READY || k->confirmed == k->missing_count)
        k->step++;
    return check_go_on(c, k);
}

/* The number between `at` and `end` as srt_key_shard writes it; -1: there is none. */
static int64_t check_number(const char *at, const char *end)
{
    srt_token token = {SRT_STRING, 0, at, (size_t)(end - at)};
    const char *p;
    for (p = at; p < end && *p >= '0' && *p <= '9'; p++)
        ;
    return p == end && p > at && p - at <= CHECK_DIGITS && (*at != '0' || p - at == 1) ? srt_token_int(&token) : -1;
}

static int check_stray(seriatim_client *c, check_state *k, const srt_token *key, unsigned shard, const char *detail)
{
    seriatim_text name;
    int status;
    name.data = key->data;
    name.len = key->len;
    status = check_find_plain(c, k, "stray", name, detail);
    if (status == SERIATIM_OK)
        k->findings[k->count - 1].shard = shard;
    return status;
}

/* Takes SHARD}:KIND:ID apart. A key of an id or a client is asked for its owner. */
static int check_key(seriatim_client *c, check_state *k, const srt_token *key)
{
    size_t prefix = key->type == SRT_STRING && key->len > k->prefix ? k->prefix : 0;
    const char *at = prefix ? key->data + prefix : "", *end = prefix ? key->data + key->len : at, *kind, *colon;
    const char *brace = memchr(at, '}', (size_t)(end - at));
    srt_request *r;
    int64_t shard = brace ? check_number(at, brace) : -1;
    if (shard < 0 || end - brace < 3 || brace[1] != ':')
        return check_stray(c, k, key, 0, "the key names no shard");
    kind = brace + 2;
    colon = memchr(kind, ':', (size_t)(end - kind));
    if (shard >= (int64_t)k->queue->shards_count && end - kind == 5 && memcmp(kind, "state", 5) == 0)
        return SERIATIM_OK; /* of an earlier queue of this name that had more shards: it refuses old layouts */
    if (shard >= (int64_t)k->queue->shards_count)
        return check_stray(c, k, key, (unsigned)shard, "the layout has no such shard");
    if (!colon && (check_listed(srt_shard_kinds, kind, (size_t)(end - kind)) || check_listed(check_more, kind, (size_t)(end - kind))))
        return SERIATIM_OK;
    if (colon && colon - kind == 9 && memcmp(kind, "misplaced", 9) == 0)
        return SERIATIM_OK;
    if (!check_listed(colon ? check_owned : check_single, kind, (size_t)((colon ? colon : end) - kind)))
        return check_stray(c, k, key, (unsigned)shard, "the key is of no known kind");
    if (k->left.data[shard])
        return SERIATIM_OK;
    srt_bytes_clear(&k->name);
    srt_bytes_add(&k->name, kind, (size_t)((colon ? colon : end) - kind));
    srt_bytes_addc(&k->name, '\0');
    r = k->name.failed ? NULL : check_request(c, k, (unsigned)shard, k->name.data, NULL);
    if (!r)
        return srt_operator_nomem(c);
    if (colon)
        srt_request_arg(r, colon + 1, (size_t)(end - colon - 1));
    r->kind = CHECK_OWNED;
    return srt_client_send(c, r);
}

/* ---- The whole namespace --------------------------------------------------------------------- */

static int check_note_queue(seriatim_client *c, check_state *k, int seen)
{
    void *queues = k->queues;
    check_queue *q;
    size_t i;
    for (i = k->queue_count; i-- > 0;) { /* neighbours are often of one queue */
        q = &k->queues[i];
        if (q->name.len == k->name.len && memcmp(q->name.data, k->name.data, k->name.len) == 0) {
            q->seen |= seen;
            return SERIATIM_OK;
        }
    }
    if (srt_grow(k->mem, &queues, &k->queue_cap, k->queue_count + 1, sizeof *q) != SERIATIM_OK)
        return srt_operator_nomem(c);
    k->queues = queues;
    q = &k->queues[k->queue_count];
    q->name.data = srt_arena_copy(&k->memory, k->name.data, k->name.len);
    q->name.len = k->name.len;
    q->seen = seen;
    if (!q->name.data)
        return srt_operator_nomem(c);
    k->queue_count++;
    return SERIATIM_OK;
}

/* Layout and settings of the queue k->name. */
static int check_ask_layout(seriatim_client *c, check_state *k)
{
    srt_queue queue;
    srt_request *r;
    memset(&queue, 0, sizeof queue);
    queue.name = k->name;
    r = srt_layout_request(&c->registry, &c->session, &queue, SRT_LAYOUT_LOOK, 0);
    if (!r)
        return srt_operator_nomem(c);
    r->kind = CHECK_LAYOUT;
    r->place = k->queue_count - 1;
    return srt_client_send(c, r);
}

/* The name of the queue whose shard's or layout's key this is into k->name; INVALID when it is neither. */
static int check_read_queue(check_state *k, const char *ns, const char *key, const char *brace, const char *slash)
{
    srt_bytes layout;
    int status;
    srt_bytes_init(&layout, k->mem);
    srt_bytes_add(&layout, key, (size_t)((slash ? slash : brace) - key));
    srt_bytes_adds(&layout, "}:layout");
    status = layout.failed ? SERIATIM_NOMEM : srt_key_read_layout(&k->name, ns, layout.data, layout.len);
    srt_bytes_free(&layout);
    return status;
}

static const char *check_last(const char *at, const char *end, char wanted)
{
    while (end-- > at)
        if (*end == wanted)
            return end;
    return NULL;
}

/* What a key says of its queue, by what follows the '}'. 0: a key of no known kind. */
static int check_kind(const char *kind, const char *end, int of_shard)
{
    size_t len = (size_t)(end - kind);
    if (of_shard)
        return (len == 7 && memcmp(kind, "}:state", 7) == 0) || (len > 7 && memcmp(kind, "}:push:", 7) == 0) ? CHECK_HAS_MARK
                                                                                                        : CHECK_HAS_CONTENT;
    if (len < 2 || kind[1] != ':' || !check_listed(srt_queue_kinds, kind + 2, len - 2))
        return 0;
    return kind[2] == 'l' ? CHECK_HAS_LAYOUT : kind[2] == 'd' ? CHECK_HAS_MARK : CHECK_HAS_CONTENT;
}

/* NAMESPACE:{...}:KIND, or what stands below the namespace without being ours. */
static int check_any_key(seriatim_client *c, check_state *k, const srt_token *key)
{
    const char *at, *end, *brace, *slash;
    int status, kind;
    if (key->type != SRT_STRING || key->len <= k->prefix)
        return SERIATIM_OK;
    at = key->data + k->prefix;
    end = key->data + key->len;
    brace = memchr(at, '}', (size_t)(end - at));
    if (*at != '{' || !brace)
        return memchr(at, '{', (size_t)(end - at)) ? SERIATIM_OK : check_stray(c, k, key, 0, "the key is of no queue");
    if (at[1] == '/') {
        int known = check_listed(check_nodes, at, (size_t)(end - at)) || (end - at > 15 && memcmp(at, "{/nodes}:order:", 15) == 0);
        return known ? SERIATIM_OK : check_stray(c, k, key, 0, "the key is of no queue");
    }
    slash = check_last(at, brace, '/');
    kind = check_kind(brace, end, slash != NULL);
    if (!kind)
        return check_stray(c, k, key, 0, "the key is of no known kind");
    status = check_read_queue(k, c->registry.ns.data, key->data, brace, slash);
    if (status == SERIATIM_NOMEM)
        return srt_operator_nomem(c);
    if (status != SERIATIM_OK)
        return check_stray(c, k, key, 0, "the key is of no queue");
    status = check_note_queue(c, k, kind);
    return kind != CHECK_HAS_LAYOUT || status != SERIATIM_OK ? status : check_ask_layout(c, k);
}

static int check_ask_nodes(seriatim_client *c, check_state *k)
{
    srt_request *r = srt_nodes_request(c, srt_script_check_nodes);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_int(r, k->repair);
    r->kind = CHECK_NODES;
    return srt_client_send(c, r);
}

static int check_send_namespace(seriatim_client *c, srt_queue *queue)
{
    check_state *k = c->state;
    (void)queue;
    srt_key_escape(&k->pattern, c->registry.ns.data, strlen(c->registry.ns.data));
    srt_bytes_addc(&k->pattern, ':');
    k->prefix = k->pattern.len;
    srt_bytes_addc(&k->pattern, '*');
    if (k->pattern.failed)
        return srt_operator_nomem(c);
    return check_ask_nodes(c, k);
}

/* {layout, name, value, ...} */
static int check_on_layout(seriatim_client *c, check_state *k, const srt_request *r, const srt_reply *reply)
{
    const srt_token *at = reply->tokens + 1;
    int64_t generation, shards;
    srt_settings settings = {0};
    seriatim_error error;
    if (reply->count < 2 || at->type != SRT_STRING)
        return srt_operator_protocol(c, "layout");
    if (at->len == 0) /* it was deleted meanwhile */
        return SERIATIM_OK;
    if (srt_layout_read(at->data, at->len, &generation, &shards, NULL) != SERIATIM_OK)
        return check_find_plain(c, k, "layout", k->queues[r->place].name, "the layout of the queue cannot be read");
    if (srt_settings_take(&settings, at + 1, reply->count - 2, &error) != SERIATIM_OK)
        return check_find_plain(c, k, "layout", k->queues[r->place].name, error.message);
    return SERIATIM_OK;
}

static int check_on_end(seriatim_client *c, int failed)
{
    check_state *k = c->state;
    size_t i;
    for (i = 0; i < k->queue_count && failed == SERIATIM_OK; i++)
        if (!(k->queues[i].seen & CHECK_HAS_LAYOUT) && k->queues[i].seen != CHECK_HAS_MARK)
            failed = check_find_plain(c, k, "layout", k->queues[i].name, "keys of a queue that has no layout; its application makes one");
    return failed;
}

/* ---- Answers of both --------------------------------------------------------------------------- */

static int check_on_scan(seriatim_client *c, check_state *k, const srt_reply *reply, int kind)
{
    const srt_token *at = reply->tokens;
    size_t i;
    int status = SERIATIM_OK;
    if (reply->count < 3 || at[0].type != SRT_ARRAY || at[0].integer != 2 || at[2].type != SRT_ARRAY)
        return srt_operator_protocol(c, "SCAN");
    for (i = 3; i < reply->count && status == SERIATIM_OK; i++)
        status = kind == CHECK_SCAN ? check_key(c, k, &at[i]) : check_any_key(c, k, &at[i]);
    if (status == SERIATIM_OK && !srt_token_is(&at[1], "0"))
        status = check_ask_scan(c, k, &at[1], kind);
    return status;
}

static int check_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    switch (r->kind) {
    case CHECK_TYPES:
        return check_on_types(c, c->state, r, reply);
    case CHECK_LIST_READY:
    case CHECK_LIST_AGAIN:
        return check_on_list(c, c->state, reply);
    case CHECK_SCAN:
    case CHECK_NAMESPACE:
        return check_on_scan(c, c->state, reply, r->kind);
    case CHECK_LAYOUT:
        return check_on_layout(c, c->state, r, reply);
    default:
        return check_on_slice(c, c->state, r, reply);
    }
}

/* What a script stumbles over is a finding; the check goes on with what comes next. */
static int check_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    static const seriatim_text none = {"", 0};
    check_state *k = c->state;
    int status;
    if (error->status != SERIATIM_SERVER || r->kind == CHECK_SCAN || r->kind == CHECK_NAMESPACE) {
        c->error = *error;
        return srt_client_fail(c, error->status);
    }
    if (r->kind == CHECK_LAYOUT)
        return check_find_plain(c, k, "layout", k->queues[r->place].name, error->message);
    status = check_find_plain(c, k, "error", none, error->message);
    if (status != SERIATIM_OK)
        return status;
    k->findings[k->count - 1].shard = (unsigned)r->place;
    if (r->kind == CHECK_OWNED)
        return SERIATIM_OK;
    if (r->kind == CHECK_NODES)
        return check_ask_scan(c, k, NULL, CHECK_NAMESPACE);
    k->unlisted |= r->kind == CHECK_LIST_READY || r->kind == CHECK_LIST_AGAIN;
    if (r->kind == CHECK_TYPES)
        srt_bytes_addc(&k->left, 1);
    k->step = r->kind == CHECK_TYPES ? CHECK_STEPS : (check_step)(r->kind + 1);
    if (k->left.failed)
        return srt_operator_nomem(c);
    return check_go_on(c, k);
}

int seriatim_check_begin(seriatim_client *c, size_t queue, int repair)
{
    static const srt_operation of_queue = {
        .send = check_send, .on_reply = check_on_reply, .on_refused = check_on_refused, .release = check_release};
    static const srt_operation of_namespace = {.send = check_send_namespace,
                                               .on_reply = check_on_reply,
                                               .on_refused = check_on_refused,
                                               .on_end = check_on_end,
                                               .release = check_release};
    check_state *k;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    k = srt_operator_state(c, sizeof *k);
    if (!k)
        return SERIATIM_NOMEM;
    k->mem = c->mem;
    k->repair = repair != 0;
    srt_bytes_init(&k->left, c->mem);
    srt_bytes_init(&k->pattern, c->mem);
    srt_bytes_init(&k->name, c->mem);
    srt_arena_init(&k->memory, c->mem);
    srt_arena_init(&k->results, c->mem);
    c->state = k;
    return srt_client_start(c, queue == SERIATIM_NO_QUEUE ? &of_namespace : &of_queue, queue);
}

static const check_state *check_of(const seriatim_client *c)
{
    int ours = c->operation && (c->operation->send == check_send || c->operation->send == check_send_namespace);
    return ours ? c->state : NULL;
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

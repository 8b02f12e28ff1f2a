/* queues.c - the names of all queues of the namespace, found by the keys of their layouts. */
#include "client/operator.h"

#include <stdlib.h>
#include <string.h>

#define QUEUES_SLICE 1000 /* keys that Redis looks at in one call */
#define QUEUES_MAX_NAME 512

typedef struct queues_state {
    const seriatim_allocator *mem;
    srt_bytes name; /* of the key that is looked at */
    srt_arena memory;
    seriatim_text *names;
    size_t count, cap, slices;
} queues_state;

static void queues_release(seriatim_client *c)
{
    queues_state *q = c->state;
    srt_bytes_free(&q->name);
    srt_arena_free(&q->memory);
    srt_free(q->mem, q->names, q->cap * sizeof *q->names);
    srt_free(q->mem, q, sizeof *q);
}

static int queues_ask(seriatim_client *c, const char *cursor, size_t len)
{
    srt_request *r = srt_session_begin(&c->session, srt_script_none, NULL, 0);
    srt_bytes pattern;
    int status;
    if (!r)
        return srt_operator_nomem(c);
    srt_bytes_init(&pattern, c->mem);
    srt_key_layouts(&pattern, c->registry.ns.data);
    srt_request_text(r, "SCAN");
    srt_request_arg(r, cursor, len);
    srt_request_text(r, "MATCH");
    srt_request_arg(r, pattern.data, pattern.len);
    srt_request_text(r, "COUNT");
    srt_request_int(r, QUEUES_SLICE);
    r->tail.failed |= pattern.failed;
    status = srt_client_send(c, r);
    srt_bytes_free(&pattern);
    return status;
}

static int queues_send(seriatim_client *c, srt_queue *queue)
{
    (void)queue;
    return queues_ask(c, "0", 1);
}

/* Keeps the name of the queue whose layout the key holds; any other key is passed over. */
static int queues_add(seriatim_client *c, queues_state *q, const srt_token *key)
{
    void *names = q->names;
    char *name;
    int status = srt_key_read_layout(&q->name, c->registry.ns.data, key->data, key->len);
    if (status == SERIATIM_NOMEM)
        return srt_operator_nomem(c);
    if (status != SERIATIM_OK || q->name.len < 1 || q->name.len > QUEUES_MAX_NAME)
        return SERIATIM_OK;
    name = srt_arena_copy(&q->memory, q->name.data, q->name.len);
    if (!name || srt_grow(q->mem, &names, &q->cap, q->count + 1, sizeof *q->names) != SERIATIM_OK)
        return srt_operator_nomem(c);
    q->names = names;
    q->names[q->count].data = name;
    q->names[q->count++].len = q->name.len;
    return SERIATIM_OK;
}

/* [cursor, [key, ...]] */
static int queues_is_slice(const srt_reply *reply)
{
    const srt_token *at = reply->tokens;
    size_t i;
    if (reply->count < 3 || at[0].type != SRT_ARRAY || at[0].integer != 2 || at[1].type != SRT_STRING ||
        at[2].type != SRT_ARRAY || at[2].integer != (int64_t)reply->count - 3)
        return 0;
    for (i = 3; i < reply->count; i++)
        if (at[i].type != SRT_STRING)
            return 0;
    return 1;
}

static int queues_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    queues_state *q = c->state;
    const srt_token *cursor = &reply->tokens[1];
    size_t i;
    int status = SERIATIM_OK;
    (void)r;
    if (!queues_is_slice(reply))
        return srt_operator_protocol(c, "SCAN");
    q->slices++;
    for (i = 3; i < reply->count && status == SERIATIM_OK; i++)
        status = queues_add(c, q, &reply->tokens[i]);
    if (status == SERIATIM_OK && !srt_token_is(cursor, "0"))
        status = queues_ask(c, cursor->data, cursor->len);
    return status;
}

static int queues_compare(const void *left, const void *right)
{
    const seriatim_text *a = left, *b = right;
    return srt_id_compare(a->data, a->len, b->data, b->len);
}

/* SCAN may give a key more than once. */
static int queues_on_end(seriatim_client *c, int failed)
{
    queues_state *q = c->state;
    size_t i, kept = 0;
    if (q->count > 1)
        qsort(q->names, q->count, sizeof *q->names, queues_compare);
    for (i = 0; i < q->count; i++)
        if (kept == 0 || queues_compare(&q->names[i], &q->names[kept - 1]) != 0)
            q->names[kept++] = q->names[i];
    q->count = kept;
    return failed;
}

int seriatim_queues_begin(seriatim_client *c)
{
    static const srt_operation operation = {
        .send = queues_send, .on_reply = queues_on_reply, .on_end = queues_on_end, .release = queues_release};
    queues_state *q;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    q = srt_operator_state(c, sizeof *q);
    if (!q)
        return SERIATIM_NOMEM;
    q->mem = c->mem;
    srt_bytes_init(&q->name, c->mem);
    srt_arena_init(&q->memory, c->mem);
    c->state = q;
    return srt_client_start(c, &operation, SRT_NO_QUEUE);
}

static const queues_state *queues_of(const seriatim_client *c)
{
    return c->operation && c->operation->send == queues_send && c->status == SERIATIM_OK ? c->state : NULL;
}

size_t srt_queues_slices(const seriatim_client *c)
{
    const queues_state *q = queues_of(c);
    return q ? q->slices : 0;
}

const seriatim_text *seriatim_queues_result(const seriatim_client *c, size_t *count)
{
    const queues_state *q = queues_of(c);
    *count = q ? q->count : 0;
    return q ? q->names : NULL;
}

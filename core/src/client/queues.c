/* queues.c - the names of all queues of the namespace, found by the keys of their layouts. */
#include "client/operator.h"
#include "model/queue_names.h"

#include <stdlib.h>
#include <stdint.h>

typedef struct queues_state {
    srt_queue_names found;
    size_t slices; /* calls of SCAN */
} queues_state;

static void queues_release(seriatim_client *c)
{
    queues_state *q = c->state;
    srt_queue_names_free(&q->found);
    srt_free(c->mem, q, sizeof *q);
}

static int queues_ask(seriatim_client *c, const char *cursor, size_t len)
{
    srt_request *r = srt_queue_names_request(&c->session, c->mem, c->registry.ns.data, cursor, len);
    return r ? srt_client_send(c, r) : srt_operator_nomem(c);
}

static int queues_send(seriatim_client *c, srt_queue *queue)
{
    (void)queue;
    return queues_ask(c, "0", 1);
}

static int queues_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    queues_state *q = c->state;
    const srt_token *cursor = &reply->tokens[1];
    int status = srt_queue_names_take(&q->found, c->registry.ns.data, reply, SIZE_MAX);
    (void)r;
    if (status == SERIATIM_PROTOCOL)
        return srt_operator_protocol(c, "SCAN");
    if (status != SERIATIM_OK)
        return srt_operator_nomem(c);
    q->slices++;
    return srt_token_is(cursor, "0") ? SERIATIM_OK : queues_ask(c, cursor->data, cursor->len);
}

static int queues_compare(const void *left, const void *right)
{
    const seriatim_text *a = left, *b = right;
    return srt_id_compare(a->data, a->len, b->data, b->len);
}

/* SCAN may give a key more than once. */
static int queues_on_end(seriatim_client *c, int failed)
{
    srt_queue_names *found = &((queues_state *)c->state)->found;
    size_t i, kept = 0;
    if (found->count > 1)
        qsort(found->names, found->count, sizeof *found->names, queues_compare);
    for (i = 0; i < found->count; i++)
        if (kept == 0 || queues_compare(&found->names[i], &found->names[kept - 1]) != 0)
            found->names[kept++] = found->names[i];
    found->count = kept;
    return failed;
}

int seriatim_queues_begin(seriatim_client *c)
{
    static const srt_operation operation = {
        .send = queues_send, .on_reply = queues_on_reply, .on_end = queues_on_end, .release = queues_release};
    queues_state *q;
    int status = srt_operator_begin(c, sizeof *q);
    if (status != SERIATIM_OK)
        return status;
    q = c->state;
    srt_queue_names_init(&q->found, c->mem);
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
    *count = q ? q->found.count : 0;
    return q ? q->found.names : NULL;
}

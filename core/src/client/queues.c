/* queues.c - the names of all queues of the namespace, found by the keys of their layouts. */
#include "base/system.h"
#include "client/operator.h"

#include <stdlib.h>
#include <stdint.h>

typedef struct queues_state {
    srt_queue_names own, *found; /* own, or the caller's */
    int64_t until_ms;            /* by srt_clock_ms, when it ends though Redis has more keys */
} queues_state;

static void queues_release(seriatim_client *c)
{
    queues_state *q = c->state;
    srt_queue_names_free(&q->own);
    srt_free(c->mem, q, sizeof *q);
}

static int queues_send(seriatim_client *c, srt_queue *queue)
{
    const queues_state *q = c->state;
    srt_request *r = srt_queue_names_request(q->found, srt_cluster_pool(&c->cluster), c->registry.ns.data);
    (void)queue;
    if (!r)
        return srt_operator_nomem(c);
    srt_queue_names_route(q->found, &c->cluster, r);
    return srt_client_send(c, r);
}

static int queues_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    queues_state *q = c->state;
    int status = srt_queue_names_take(q->found, c->registry.ns.data, reply, SIZE_MAX);
    (void)r;
    if (status == SERIATIM_PROTOCOL)
        return srt_operator_protocol(c, "SCAN");
    if (status != SERIATIM_OK)
        return srt_operator_nomem(c);
    srt_queue_names_turn(q->found, &c->cluster);
    return srt_queue_names_complete(q->found) || srt_clock_ms() >= q->until_ms ? SERIATIM_OK : queues_send(c, NULL);
}

static int queues_compare(const void *left, const void *right)
{
    const seriatim_text *a = left, *b = right;
    return srt_id_compare(a->data, a->len, b->data, b->len);
}

/* SCAN may give a key more than once. */
static int queues_on_end(seriatim_client *c, int failed)
{
    srt_queue_names *found = ((queues_state *)c->state)->found;
    size_t i, kept = 0;
    if (found->count > 1)
        qsort(found->names, found->count, sizeof *found->names, queues_compare);
    for (i = 0; i < found->count; i++)
        if (kept == 0 || queues_compare(&found->names[i], &found->names[kept - 1]) != 0)
            found->names[kept++] = found->names[i];
    found->count = kept;
    return failed;
}

int srt_queues_begin(seriatim_client *c, srt_queue_names *found, int64_t ms)
{
    static const srt_operation operation = {
        .send = queues_send, .on_reply = queues_on_reply, .on_end = queues_on_end, .release = queues_release};
    queues_state *q;
    int status = srt_operator_begin(c, sizeof *q);
    if (status != SERIATIM_OK)
        return status;
    q = c->state;
    srt_queue_names_init(&q->own, c->mem);
    q->found = found ? found : &q->own;
    q->until_ms = ms < SRT_QUEUES_ALL ? srt_clock_ms() + ms : SRT_QUEUES_ALL;
    return srt_client_start_alone(c, &operation);
}

int seriatim_queues_begin(seriatim_client *c)
{
    return srt_queues_begin(c, NULL, SRT_QUEUES_ALL);
}

static const queues_state *queues_of(const seriatim_client *c)
{
    return c->operation && c->operation->send == queues_send && c->status == SERIATIM_OK ? c->state : NULL;
}

const seriatim_text *seriatim_queues_result(const seriatim_client *c, size_t *count)
{
    const queues_state *q = queues_of(c);
    *count = q ? q->found->count : 0;
    return q ? q->found->names : NULL;
}

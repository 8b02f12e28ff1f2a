/*
 * run_times.c - how long the calls of perform took: counted in memory, and told Redis every ten seconds and when the
 * node leaves. One request is under way at a time, so that claims and settles never wait behind more than one.
 */
#include "node/node_state.h"

#include <string.h>

/* Was any of its jobs begun? Jobs that a stop or a full pool handed back were not. */
static int delivery_ran(const seriatim_delivery *d)
{
    size_t i;
    for (i = 0; i < d->count; i++)
        if (d->jobs[i]->outcome != SRT_RELEASED)
            return 1;
    return 0;
}

void srt_delivery_taken(seriatim_delivery *d, int64_t now_us)
{
    d->taken_us = now_us;
}

void srt_delivery_timed(seriatim_delivery *d, int64_t now_us)
{
    if (d->kind == SERIATIM_RUN && !d->abandoned && d->taken_us && delivery_ran(d))
        srt_run_counts_add(&d->shard->queue->run_counts, now_us - d->taken_us);
}

/* What cannot be sent for want of memory goes with the next. Returns whether it was sent. */
static int run_times_send(srt_node *n, srt_queue *queue)
{
    srt_session *session = srt_cluster_pool(&n->cluster);
    seriatim_text id = {n->id.data, n->id.len};
    srt_request *r = srt_run_times_request(session, n->registry.ns.data, queue->name.data, queue->name.len, id, n->hash,
                                           ++n->run_times.number, &queue->run_counts);
    if (!r)
        return 0;
    r->kind = SRT_ASK_RUN_TIMES;
    if (srt_cluster_send(&n->cluster, r) != SERIATIM_OK)
        return 0;
    memset(&queue->run_counts, 0, sizeof queue->run_counts);
    return 1;
}

static void run_times_next(srt_node *n)
{
    while (!n->run_times.asking && n->run_times.next < n->worker_count) {
        srt_queue *queue = n->workers[n->run_times.next++];
        if (queue->run_counts.any)
            n->run_times.asking = run_times_send(n, queue);
    }
}

void srt_node_run_times(srt_node *n, int64_t now)
{
    if (now < n->run_times.at || n->run_times.asking || n->left || !srt_node_may_send(n))
        return;
    n->run_times.at = now + SRT_RUN_TIMES_EVERY_MS;
    n->run_times.next = 0;
    run_times_next(n);
}

void srt_node_run_times_told(srt_node *n, const seriatim_error *error)
{
    n->run_times.asking = 0;
    if (error && !n->run_times.warned) {
        n->run_times.warned = 1;
        srt_node_tell(n, SERIATIM_EVENT_WARNING, error->status, "run times of a queue cannot be noted: %s",
                      error->message);
    }
    if (!n->left)
        run_times_next(n);
}

void srt_node_last_run_times(srt_node *n)
{
    size_t i;
    for (i = 0; i < n->worker_count; i++)
        if (n->workers[i]->run_counts.any)
            run_times_send(n, n->workers[i]);
}

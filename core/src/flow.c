/* flow.c - what went through each queue of a node, told to its history every ten seconds. */
#include "node_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FLOW_EVERY_MS 10000

static int flow_is_still(const srt_history_sample *flow)
{
    return flow->processed == 0 && flow->failed == 0 && flow->enqueued == 0;
}

static int flow_send(srt_node *n, size_t worker)
{
    const srt_queue *queue = n->workers[worker];
    char unique[96];
    snprintf(unique, sizeof unique, "%.*s:%" PRIu64, (int)n->id.len, n->id.data, ++n->histories);
    return srt_history_write(&n->sessions[SRT_COMMANDS], n->registry.ns.data, queue->name.data, queue->name.len, &n->flows[worker],
                             unique, SRT_ASK_HISTORY);
}

/* Queues through which nothing went cost nothing. What cannot be sent goes with the next. */
void srt_node_tell_flows(srt_node *n, int64_t now)
{
    size_t i;
    if (now < n->history_at || !n->flows || !n->sessions[SRT_COMMANDS].connected)
        return;
    n->history_at = now + FLOW_EVERY_MS;
    for (i = 0; i < n->worker_count; i++)
        if (!flow_is_still(&n->flows[i]) && flow_send(n, i) == SERIATIM_OK)
            memset(&n->flows[i], 0, sizeof n->flows[i]);
}

/*
 * shard_request.c - a request to Redis about one shard: begun with the shard's keys, tried again after a failure to
 * send it.
 */
#include "node/node_state.h"

srt_request *srt_shard_begin(srt_node *node, srt_shard *s, int script, int kind)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&node->cluster), script, &s->keys->args, SRT_SHARD_KEYS);
    if (!r)
        return NULL;
    r->kind = kind;
    r->subject = s;
    srt_request_int(r, s->queue->generation);
    return r;
}

int srt_shard_send(srt_node *node, srt_shard *s, srt_request *r, int64_t now)
{
    if (r && srt_cluster_send(&node->cluster, r) == SERIATIM_OK)
        return 1;
    srt_node_wake(node, s, now + 100);
    return 0;
}

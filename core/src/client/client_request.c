/* client_request.c - what each operation of a client begins and sends, and how it fails. */
#include "client/client.h"

int srt_client_fail(seriatim_client *c, int status)
{
    if (c->failed == SERIATIM_OK)
        c->failed = status;
    return status;
}

int srt_client_fail_plain(seriatim_client *c, int status)
{
    if (c->failed == SERIATIM_OK)
        srt_fail_plain(&c->error, status);
    return srt_client_fail(c, status);
}

int srt_client_send(seriatim_client *c, srt_request *request)
{
    if (srt_cluster_send(&c->cluster, request) != SERIATIM_OK)
        return srt_client_fail_plain(c, SERIATIM_NOMEM);
    c->asked++;
    return SERIATIM_OK;
}

void srt_client_mark_left(srt_request *request)
{
    request->left = 1;
}

srt_request *srt_client_shard_request(seriatim_client *c, srt_queue *queue, unsigned shard, int script)
{
    srt_request *r =
        srt_session_begin(srt_cluster_pool(&c->cluster), script, &queue->shards[shard]->args, SRT_SHARD_KEYS);
    if (!r) {
        srt_client_fail_plain(c, SERIATIM_NOMEM);
        return NULL;
    }
    srt_request_int(r, queue->generation);
    return r;
}

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

srt_request *srt_client_key_request(seriatim_client *c, const srt_queue *queue, unsigned shard, const char *command,
                                    const char *kind)
{
    const srt_bytes *prefix = &queue->shards[shard]->prefix;
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    srt_bytes key;
    if (!r) {
        srt_client_fail_plain(c, SERIATIM_NOMEM);
        return NULL;
    }
    srt_bytes_init(&key, c->mem);
    srt_bytes_add(&key, prefix->data, prefix->len);
    srt_bytes_adds(&key, kind);
    srt_request_text(r, command);
    srt_request_arg(r, key.data, key.len);
    r->tail.failed |= key.failed;
    srt_bytes_free(&key);
    return r;
}

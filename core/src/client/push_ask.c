/*
 * push_ask.c - sends a request about a chunk, and to a shard that ids leave the ids of a chunk alone, to ask whether
 * any of them is there.
 */
#include "client/push.h"

int srt_push_ask(seriatim_client *c, srt_request *r, int kind, size_t i)
{
    int status;
    r->kind = kind;
    r->place = i;
    r->subject = c->push;
    status = srt_client_send(c, r);
    c->push->unanswered += status == SERIATIM_OK;
    return status;
}

static char *put_big_endian(char *at, size_t value, int bytes)
{
    while (bytes-- > 0)
        *at++ = (char)(value >> (8 * bytes) & 255);
    return at;
}

/* As an array of MessagePack: one argument costs Redis less than one for each id. */
static void add_ids(const srt_push *p, const srt_push_chunk *chunk, srt_request *r)
{
    size_t i, len, size = 3;
    char *at;
    for (i = chunk->first; i < chunk->first + chunk->count; i++) {
        srt_push_id(&p->jobs[p->places[i]], &len);
        size += len + (len > 0xffff ? 5 : 3);
    }
    at = srt_bytes_reserve(&r->tail, srt_resp_arg_size(size));
    if (!at)
        return;
    at = srt_resp_put_head(at, size);
    *at++ = '\xdc';
    at = put_big_endian(at, chunk->count, 2);
    for (i = chunk->first; i < chunk->first + chunk->count; i++) {
        const char *id = srt_push_id(&p->jobs[p->places[i]], &len);
        *at++ = len > 0xffff ? '\xdb' : '\xda';
        at = srt_push_put(put_big_endian(at, len, len > 0xffff ? 4 : 2), id, len);
    }
    srt_push_put(at, "\r\n", 2);
    r->tail.len += srt_resp_arg_size(size);
    r->args++;
}

int srt_push_send_ids(seriatim_client *c, size_t i)
{
    srt_push *p = c->push;
    srt_queue *queue = c->registry.queues[c->queue];
    srt_request *r = srt_client_shard_request(c, queue, p->chunks[i].shard, srt_script_absent);
    if (!r)
        return c->failed;
    p->flying += p->chunks[i].bytes;
    add_ids(p, &p->chunks[i], r);
    return srt_push_ask(c, r, PUSH_KIND_ASK, i);
}

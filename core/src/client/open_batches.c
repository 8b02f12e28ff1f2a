/* open_batches.c - waits until the batches have ended in which ids are on their way to another shard. */
#include "client/operator.h"

#define BATCHES_MS 5           /* until a batch that is open is looked at again */
#define BATCHES_LIMIT_MS 30000 /* without one that has ended: as long as any operation waits for an answer */
#define BATCHES_UNKNOWN (-1)   /* the shard was not asked yet */

int srt_batches_begin(seriatim_client *c, srt_batches *b, srt_queue *queue, int kind)
{
    void *open = b->open;
    unsigned shard;
    if (srt_grow(b->mem, &open, &b->cap, queue->old_count, sizeof *b->open) != SERIATIM_OK)
        return srt_operator_nomem(c);
    b->open = open;
    b->count = queue->old_count;
    b->since_ms = -1;
    for (shard = 0; shard < b->count; shard++)
        b->open[shard] = BATCHES_UNKNOWN;
    return srt_batches_ask(c, b, queue, kind);
}

int srt_batches_ask(seriatim_client *c, srt_batches *b, srt_queue *queue, int kind)
{
    unsigned shard;
    int status = SERIATIM_OK;
    for (shard = 0; shard < b->count && status == SERIATIM_OK; shard++) {
        srt_request *r;
        if (b->open[shard] == 0)
            continue;
        r = srt_client_key_request(c, queue, shard, "HGET", "leaving");
        if (!r)
            return SERIATIM_NOMEM;
        srt_request_text(r, "");
        r->kind = kind;
        r->place = shard;
        status = srt_client_send(c, r);
    }
    return status;
}

int srt_batches_take(seriatim_client *c, srt_batches *b, const srt_request *r, const srt_token *sequence)
{
    int64_t open = sequence->type == SRT_STRING ? srt_token_int(sequence) : 0, *known = &b->open[r->place];
    unsigned shard;
    if (*known != BATCHES_UNKNOWN && *known != open) { /* it has ended */
        open = 0;
        b->since_ms = -1;
    }
    *known = open;
    if (c->asked > 1)
        return 0;
    for (shard = 0; shard < b->count; shard++)
        if (b->open[shard]) {
            srt_client_sleep(c, BATCHES_MS);
            return 0;
        }
    return 1;
}

int srt_batches_stay(const seriatim_client *c, srt_batches *b)
{
    if (b->since_ms < 0)
        b->since_ms = c->spent_ms;
    return c->spent_ms - b->since_ms >= BATCHES_LIMIT_MS;
}

void srt_batches_free(srt_batches *b)
{
    srt_free(b->mem, b->open, b->cap * sizeof *b->open);
}

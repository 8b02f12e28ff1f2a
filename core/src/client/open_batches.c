/* open_batches.c - waits until the batches have ended in which ids are on their way to another shard. */
#include "client/operator.h"

#define BATCHES_MS 5         /* until a batch that is open is looked at again */
#define BATCHES_UNKNOWN (-1) /* the shard was not asked yet */

int srt_batches_begin(seriatim_client *c, srt_batches *b, srt_queue *queue, int kind)
{
    void *open = b->open;
    unsigned shard;
    if (srt_grow(b->mem, &open, &b->cap, queue->old_count, sizeof *b->open) != SERIATIM_OK)
        return srt_operator_nomem(c);
    b->open = open;
    b->count = queue->old_count;
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
    *known = *known == BATCHES_UNKNOWN || *known == open ? open : 0;
    if (c->asked > 1)
        return 0;
    for (shard = 0; shard < b->count; shard++)
        if (b->open[shard]) {
            srt_client_sleep(c, BATCHES_MS);
            return 0;
        }
    return 1;
}

void srt_batches_free(srt_batches *b)
{
    srt_free(b->mem, b->open, b->cap * sizeof *b->open);
}

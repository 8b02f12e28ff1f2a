/* metrics.c - the operation metrics: the figures of one queue and of each of its shards. */
#include "client/operator.h"

#include <string.h>

typedef struct metrics_state {
    srt_arena memory;
    seriatim_metrics total, *shards;
    size_t count;
} metrics_state;

static void metrics_release(seriatim_client *c)
{
    metrics_state *m = c->state;
    srt_arena_free(&m->memory);
    srt_free(c->mem, m, sizeof *m);
}

static int metrics_send(seriatim_client *c, srt_queue *queue)
{
    metrics_state *m = c->state;
    int status = SERIATIM_OK;
    unsigned shard;
    srt_arena_reset(&m->memory);
    m->count = 0;
    m->shards = srt_arena_alloc(&m->memory, srt_queue_addressed(queue) * sizeof *m->shards);
    if (!m->shards)
        return srt_operator_nomem(c);
    m->count = srt_queue_addressed(queue);
    memset(m->shards, 0, m->count * sizeof *m->shards);
    for (shard = 0; shard < srt_queue_addressed(queue) && status == SERIATIM_OK; shard++) {
        srt_request *r = srt_client_shard_request(c, queue, shard, srt_script_metrics);
        if (!r)
            return SERIATIM_NOMEM;
        r->place = shard;
        status = srt_client_send(c, r);
    }
    return status;
}

static int metrics_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    metrics_state *m = c->state;
    seriatim_metrics *shard = &m->shards[r->place];
    const srt_token *at = &reply->tokens[1];
    if (!srt_reply_is_list(reply, 20))
        return srt_operator_protocol(c, "metrics");
    shard->now = srt_operator_seconds(&at[0]);
    shard->length = srt_token_int(&at[1]);
    shard->retries = srt_token_int(&at[2]);
    shard->fresh = shard->length - shard->retries;
    shard->busy = srt_token_int(&at[3]);
    shard->parked = srt_token_int(&at[4]);
    shard->morgue_length = srt_token_int(&at[5]);
    shard->unproven = srt_token_int(&at[6]);
    shard->suspect = srt_token_int(&at[7]);
    shard->processed = srt_token_int(&at[8]);
    shard->failed = srt_token_int(&at[9]);
    shard->refused = srt_token_int(&at[10]);
    shard->paused = srt_token_int(&at[11]);
    shard->lag = srt_operator_seconds(&at[12]);
    shard->first = srt_operator_is_never(&at[13]) ? 0 : srt_operator_seconds(&at[13]);
    shard->lease = srt_token_int(&at[14]);
    shard->fence = srt_token_int(&at[15]);
    shard->scheduled = srt_token_int(&at[17]);
    shard->morgue_removed = srt_token_int(&at[18]);
    shard->stale = srt_token_int(&at[19]);
    shard->owner = srt_arena_copy(&m->memory, at[16].data, at[16].len);
    return shard->owner ? SERIATIM_OK : srt_operator_nomem(c);
}

static int metrics_on_end(seriatim_client *c, int failed)
{
    metrics_state *m = c->state;
    seriatim_metrics *total = &m->total;
    size_t i;
    memset(total, 0, sizeof *total);
    total->owner = "";
    for (i = 0; i < m->count; i++) {
        const seriatim_metrics *shard = &m->shards[i];
        total->length += shard->length;
        total->scheduled += shard->scheduled;
        total->fresh += shard->fresh;
        total->retries += shard->retries;
        total->morgue_length += shard->morgue_length;
        total->busy += shard->busy;
        total->parked += shard->parked;
        total->unproven += shard->unproven;
        total->suspect += shard->suspect;
        total->processed += shard->processed;
        total->failed += shard->failed;
        total->refused += shard->refused;
        total->morgue_removed += shard->morgue_removed;
        total->stale += shard->stale;
        total->paused += shard->paused;
        if (shard->lag > total->lag)
            total->lag = shard->lag;
        if (shard->first > 0 && (!(total->first > 0) || shard->first < total->first))
            total->first = shard->first;
        if (shard->now > total->now)
            total->now = shard->now;
    }
    return failed;
}

int seriatim_metrics_begin(seriatim_client *c, size_t queue)
{
    static const srt_operation operation = {
        .send = metrics_send, .on_reply = metrics_on_reply, .on_end = metrics_on_end, .release = metrics_release};
    metrics_state *m;
    int status = srt_operator_begin(c, sizeof *m);
    if (status != SERIATIM_OK)
        return status;
    m = c->state;
    srt_arena_init(&m->memory, c->mem);
    m->total.owner = "";
    return srt_client_start(c, &operation, queue);
}

static const metrics_state *metrics_of(const seriatim_client *c)
{
    return c->operation && c->operation->send == metrics_send && c->status == SERIATIM_OK ? c->state : NULL;
}

const seriatim_metrics *seriatim_metrics_total(const seriatim_client *c)
{
    const metrics_state *m = metrics_of(c);
    return m ? &m->total : NULL;
}

const seriatim_metrics *seriatim_metrics_shards(const seriatim_client *c, size_t *count)
{
    const metrics_state *m = metrics_of(c);
    *count = m ? m->count : 0;
    return m ? m->shards : NULL;
}

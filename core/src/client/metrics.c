/* metrics.c - the operation metrics: the figures of one queue and of each of its shards. */
#include "client/operator.h"
#include "model/stored.h"

#include <string.h>

typedef struct metrics_state {
    srt_arena memory;
    seriatim_metrics total, *shards;
    size_t count;
    seriatim_metrics gone; /* the counters of shards that the queue had before it was given fewer */
    seriatim_resharding resharding;
} metrics_state;

enum { METRICS_SHARD, METRICS_GONE };

static void metrics_release(seriatim_client *c)
{
    metrics_state *m = c->state;
    srt_arena_free(&m->memory);
    srt_free(c->mem, m, sizeof *m);
}

void srt_resharding_add(seriatim_resharding *r, unsigned shard, int64_t moved, int64_t before, int is_out)
{
    unsigned a = r->from, b = r->to, rest;
    double left;
    for (; b != 0; b = rest) { /* a becomes their greatest common divisor */
        rest = a % b;
        a = b;
    }
    r->ids_moved += moved;
    if (is_out)
        return;
    r->shards_left++;
    left = (double)before * (shard < r->to ? 1 - (double)a / r->to : 1) - (double)moved;
    r->ids_left += left > 0 ? (int64_t)(left + 0.5) : 0;
}

static int metrics_ask_gone(seriatim_client *c, const srt_queue *queue, unsigned shard)
{
    srt_request *r = srt_client_key_request(c, queue, shard, "GET", "state");
    if (!r)
        return SERIATIM_NOMEM;
    r->kind = METRICS_GONE;
    return srt_client_send(c, r);
}

/* A counter of a state; 0 if what stands there is no counter. */
static int64_t metrics_counter(const srt_token *state, size_t at)
{
    double number = srt_little_double(state->data + at);
    return number >= 0 && number < (double)SRT_FOREVER ? (int64_t)number : 0;
}

static void metrics_on_gone(seriatim_metrics *gone, const srt_token *state)
{
    if (state->type != SRT_STRING || state->len < SRT_STATE_OWNER)
        return;
    gone->processed += metrics_counter(state, SRT_STATE_PROCESSED);
    gone->failed += metrics_counter(state, SRT_STATE_FAILED);
    gone->refused += metrics_counter(state, SRT_STATE_REFUSED);
    gone->morgue_removed += metrics_counter(state, SRT_STATE_REMOVED);
    gone->stale += metrics_counter(state, SRT_STATE_STALE);
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
    memset(&m->gone, 0, sizeof m->gone);
    memset(&m->resharding, 0, sizeof m->resharding);
    m->resharding.from = queue->old_count ? queue->old_count : queue->shards_count;
    m->resharding.to = queue->shards_count;
    memset(m->shards, 0, m->count * sizeof *m->shards);
    for (shard = 0; shard < srt_queue_addressed(queue) && status == SERIATIM_OK; shard++) {
        srt_request *r = srt_client_shard_request(c, queue, shard, srt_script_metrics);
        if (!r)
            return SERIATIM_NOMEM;
        r->place = shard;
        status = srt_client_send(c, r);
    }
    for (; shard < queue->most_count && status == SERIATIM_OK; shard++)
        status = metrics_ask_gone(c, queue, shard);
    return status;
}

static int metrics_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    metrics_state *m = c->state;
    seriatim_metrics *shard = &m->shards[r->place];
    const srt_token *at = &reply->tokens[1];
    if (r->kind == METRICS_GONE) {
        metrics_on_gone(&m->gone, &reply->tokens[0]);
        return SERIATIM_OK;
    }
    if (!srt_reply_is_list(reply, 23))
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
    if (m->resharding.from != m->resharding.to && r->place < m->resharding.from)
        srt_resharding_add(&m->resharding, (unsigned)r->place, srt_token_int(&at[20]), srt_token_int(&at[21]),
                           srt_token_int(&at[22]) != 0);
    return shard->owner ? SERIATIM_OK : srt_operator_nomem(c);
}

static int metrics_on_end(seriatim_client *c, int failed)
{
    metrics_state *m = c->state;
    seriatim_metrics *total = &m->total;
    size_t i;
    *total = m->gone;
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

const seriatim_resharding *seriatim_metrics_resharding(const seriatim_client *c)
{
    const metrics_state *m = metrics_of(c);
    return m && m->resharding.from != m->resharding.to ? &m->resharding : NULL;
}

const seriatim_metrics *seriatim_metrics_shards(const seriatim_client *c, size_t *count)
{
    const metrics_state *m = metrics_of(c);
    *count = m ? m->count : 0;
    return m ? m->shards : NULL;
}

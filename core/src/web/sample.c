/*
 * sample.c - where no node lives, the dashboard measures the queues for their histories: in front of a page of figures,
 * when ten seconds have passed, and if no other process does (sampler.lua). What is refused here (a user of Redis that
 * may only read, or a replica) leaves the page as it is.
 */
#include "model/history.h"
#include "web/web.h"

#include <string.h>

enum { MEASURE_LEASE, MEASURE_WRITE };

static int measure_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    (void)r;
    if (error->status != SERIATIM_NOMEM)
        return SERIATIM_OK;
    c->error = *error;
    return srt_client_fail(c, error->status);
}

static int measure_send(seriatim_client *c, srt_request *r, int kind)
{
    if (!r)
        return srt_operator_nomem(c);
    r->kind = kind;
    r->dispensable = 1;
    return srt_client_send(c, r);
}

static int measure_send_lease(seriatim_client *c, srt_queue *queue)
{
    srt_session *pool = srt_cluster_pool(&c->cluster);
    (void)queue;
    return measure_send(c, srt_sampler_request(pool, c->registry.ns.data, c->identity, SRT_IDENTITY, 0), MEASURE_LEASE);
}

/* Of a queue of which every shard was read; the others keep their gap. */
static int measure_send_row(seriatim_client *c, const srt_web *w, const srt_web_row *row)
{
    srt_history_sample sample;
    unsigned i;
    for (i = 0; i < row->shards_count; i++)
        if (row->shards[i].is_missing)
            return SERIATIM_OK;
    memset(&sample, 0, sizeof sample);
    sample.time_us = w->now_us;
    sample.processed = row->total.processed;
    sample.failed = row->total.failed;
    sample.pushed = row->total.pushed;
    sample.lag_us = row->total.lag_us;
    sample.since_us = w->sampling->before_us;
    return measure_send(
        c,
        srt_history_request(srt_cluster_pool(&c->cluster), c->registry.ns.data, row->name.data, row->name.len, &sample),
        MEASURE_WRITE);
}

static int measure_send_rows(seriatim_client *c, srt_queue *queue)
{
    const srt_web *w = c->web;
    size_t i;
    int status = SERIATIM_OK;
    (void)queue;
    for (i = 0; i < w->row_count && status == SERIATIM_OK; i++)
        if (w->rows[i].shards_count)
            status = measure_send_row(c, w, &w->rows[i]);
    return status;
}

static int measure_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    srt_web_sampling *sampling = c->web->sampling;
    if (r->kind != MEASURE_LEASE)
        return SERIATIM_OK;
    if (!srt_reply_is_list(reply, 3))
        return srt_operator_protocol(c, "sampler");
    sampling->granted = srt_token_int(&reply->tokens[1]) == 1;
    sampling->before_us = srt_token_int(&reply->tokens[3]);
    return SERIATIM_OK;
}

static const srt_operation measure_lease = {
    .send = measure_send_lease, .on_reply = measure_on_reply, .on_refused = measure_on_refused};
static const srt_operation measure_rows = {
    .send = measure_send_rows, .on_reply = measure_on_reply, .on_refused = measure_on_refused};

/* The pages that show figures; where the host tells no time, none. */
int srt_web_sample_due(const seriatim_client *c, const srt_web *w)
{
    double age = c->unix_time - w->sampled_at;
    if (c->unix_time <= 0 || (w->sampled_at > 0 && age >= 0 && age < SRT_SAMPLE_EVERY_MS / 1e3))
        return 0;
    return (w->handler->uses & SRT_WEB_SHOWS_FIGURES) != 0;
}

/* The lease. NOMEM, or begun. */
static int measure_ask(seriatim_client *c, srt_web *w)
{
    w->sampling = srt_arena_alloc(&w->memory, sizeof *w->sampling);
    if (!w->sampling)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    memset(w->sampling, 0, sizeof *w->sampling);
    w->sampled_at = c->unix_time;
    return srt_client_begin_alone(c, &measure_lease);
}

/* The lease, then the steps of srt_web_queue_stats_all, then the samples. */
int srt_web_sample_next(seriatim_client *c, srt_web *w)
{
    int status;
    if (!w->sampling)
        return measure_ask(c, w);
    if (!w->sampling->granted || w->sampling->written)
        return SRT_WEB_DONE;
    if (!w->sampling->looking)
        w->step = 0;
    w->sampling->looking = 1;
    status = srt_web_queue_stats_all(c, w);
    if (status != SRT_WEB_DONE)
        return status;
    w->sampling->written = 1;
    return srt_client_begin_alone(c, &measure_rows);
}

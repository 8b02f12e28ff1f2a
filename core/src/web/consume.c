/* consume.c - pushes jobs and pops deliveries for clients that speak HTTP, and takes the results that they report. */
#include "web/consume.h"

#include "client/pop.h"

#include <string.h>

/*
 * A host that waits itself asks again after this time, or after 2 ms for each poll that waits there: with many polls
 * Redis gets at most 500 pops a second of one process.
 */
#define CONSUME_PAUSE_MS 100
#define CONSUME_PAUSE_MS_EACH 2
#define CONSUME_WAITING 1000

/* ---- Queues -------------------------------------------------------------------------------- */

/* SRT_WEB_DONE: the queue is in w->queue, or w->status refuses. OK: it is being looked for. */
static int consume_find(seriatim_client *c, srt_web *w, seriatim_text name, int status_of_none)
{
    int status;
    w->worker = name;
    status = srt_web_find_queue(c, w);
    if (w->status == 404 && status_of_none == 404)
        srt_web_refuse(w, 404,
                       "there is no queue \"%.*s\": a server of its worker or `seriatim push --create` makes it",
                       srt_utf8_valid(name.data, name.len) ? (int)srt_web_cut(name, 100) : 0, name.data);
    else if (w->status == 404)
        srt_web_refuse(w, status_of_none, "the delivery is not this consumer's any more: its queue was deleted");
    return status;
}

/* ---- Push ---------------------------------------------------------------------------------- */

static int consume_push_begin(seriatim_client *c, const srt_web *w, const srt_consume *of)
{
    size_t i;
    int status = seriatim_push_begin(c, w->queue);
    if (status == SERIATIM_OK && of->handles)
        status = seriatim_push_want_handles(c);
    for (i = 0; i < of->job_count && status == SERIATIM_OK; i++)
        status = seriatim_push_job(c, &of->jobs[i]);
    return status == SERIATIM_OK ? seriatim_push_send(c) : status;
}

int srt_web_consume_push_next(seriatim_client *c, srt_web *w)
{
    srt_consume *of = w->page;
    int status;
    if (of->found)
        return SRT_WEB_DONE;
    status = consume_find(c, w, of->queue, 404);
    if (status != SRT_WEB_DONE || w->status)
        return status;
    of->found = 1;
    return consume_push_begin(c, w, of);
}

static void consume_write_handles(const seriatim_client *c, srt_web_out *out)
{
    size_t count, i;
    const seriatim_text *handles = seriatim_push_handles(c, &count);
    srt_web_key(out, "handles");
    srt_json_begin_array(&out->json);
    for (i = 0; i < count; i++)
        if (handles[i].data)
            srt_json_string(&out->json, handles[i].data, handles[i].len);
        else
            srt_json_null(&out->json);
    srt_json_end_array(&out->json);
}

void srt_web_consume_push_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    const srt_consume *of = w->page;
    seriatim_push_counts counts = seriatim_push_result(c);
    size_t count, i;
    const size_t *refused = seriatim_push_refused(c, &count);
    srt_json_begin_object(&out->json);
    srt_web_int(out, "added", (int64_t)counts.added);
    srt_web_int(out, "folded", (int64_t)counts.folded);
    if (of->handles)
        consume_write_handles(c, out);
    srt_web_key(out, "refused");
    srt_json_begin_array(&out->json);
    for (i = 0; i < count; i++)
        srt_json_int(&out->json, (int64_t)refused[i]);
    srt_json_end_array(&out->json);
    srt_web_int(out, "scheduled", (int64_t)counts.scheduled);
    srt_web_int(out, "stale", (int64_t)counts.stale);
    srt_json_end_object(&out->json);
}

/* ---- Pop ----------------------------------------------------------------------------------- */

static int consume_pop_begin(seriatim_client *c, const srt_web *w, const srt_consume *of)
{
    seriatim_pop pop;
    double left = of->wait - (double)w->waited_ms / 1000;
    seriatim_pop_init(&pop);
    pop.queues = of->numbers;
    pop.queue_count = of->queue_count;
    pop.weights = of->weight_count ? of->weights : NULL;
    pop.wait = w->host_waits || left < 0 ? 0 : left;
    pop.ttr = of->ttr;
    pop.max = of->max;
    return srt_pop_begin(c, &pop, w->host_waits > 0);
}

/*
 * Nothing was due. A host that waits itself is told for how long. If a shard could not be asked, that is longer than
 * the pop's time, by as long as a web request waits for Redis: nobody knows since when, and only then it is an error.
 */
static void consume_pop_take_nothing(srt_web *w, const srt_consume *of, const seriatim_error *miss)
{
    int64_t left = (int64_t)(of->wait * 1000 + 0.5) + (miss ? SRT_WEB_LIMIT_MS : 0) - w->waited_ms;
    int64_t pause = CONSUME_PAUSE_MS_EACH * (w->host_waits < CONSUME_WAITING ? w->host_waits : CONSUME_WAITING);
    pause = pause < CONSUME_PAUSE_MS ? CONSUME_PAUSE_MS : pause;
    if (miss && left <= 0) {
        srt_web_refuse(w, 503, "%s", miss->message);
        return;
    }
    w->status = 204;
    if (w->host_waits && left > 0)
        w->wait_ms = (int)(left < pause ? left : pause);
}

int srt_web_consume_pop_next(seriatim_client *c, srt_web *w)
{
    srt_consume *of = w->page;
    int status;
    if (w->step == 0)
        return srt_web_layouts_begin(c, of->queues, of->queue_count, of->exist);
    if (w->step == 1) {
        for (; of->found < of->queue_count; of->found++) {
            w->queue = SRT_NO_QUEUE;
            w->is_there = of->exist[of->found];
            status = consume_find(c, w, of->queues[of->found], 404);
            if (status != SRT_WEB_DONE || w->status)
                return status;
            of->numbers[of->found] = w->queue;
        }
        return consume_pop_begin(c, w, of);
    }
    if (!seriatim_pop_result(c))
        consume_pop_take_nothing(w, of, srt_pop_miss(c));
    return SRT_WEB_DONE;
}

static void consume_write_lists(srt_web_out *out, const seriatim_claimed *job, int raw)
{
    size_t i;
    srt_web_key(out, "contexts");
    srt_json_begin_array(&out->json);
    for (i = 0; i < job->payload_count; i++)
        if (job->payloads[i].context_len)
            srt_consume_write(out, job->payloads[i].context, job->payloads[i].context_len, 0);
        else
            srt_json_null(&out->json);
    srt_json_end_array(&out->json);
    srt_web_key(out, "payloads");
    srt_json_begin_array(&out->json);
    for (i = 0; i < job->payload_count; i++)
        srt_consume_write(out, job->payloads[i].data, job->payloads[i].len, raw);
    srt_json_end_array(&out->json);
    srt_web_key(out, "scores");
    srt_json_begin_array(&out->json);
    for (i = 0; i < job->payload_count; i++)
        srt_json_double(&out->json, job->payloads[i].score);
    srt_json_end_array(&out->json);
}

void srt_web_consume_pop_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    const srt_consume *of = w->page;
    const seriatim_popped *popped = seriatim_pop_result(c);
    const srt_queue *queue = srt_client_queue_at(c, popped->queue);
    srt_json_begin_object(&out->json);
    consume_write_lists(out, &popped->job, of->raw);
    srt_web_int(out, "deliveries", popped->deliveries);
    srt_web_int(out, "fence", popped->job.fence);
    srt_web_text(out, "id", popped->job.id, popped->job.id_len);
    srt_web_bool(out, "more", popped->more);
    srt_web_text(out, "queue", queue->name.data, queue->name.len);
    srt_web_int(out, "retry_count", popped->job.retry_count);
    if (popped->token.data)
        srt_web_text(out, "token", popped->token.data, popped->token.len);
    else
        srt_web_null(out, "token");
    srt_json_end_object(&out->json);
}

/* ---- The result of a delivery -------------------------------------------------------------- */

static int consume_outcome_begin(seriatim_client *c, const srt_web *w, const srt_consume *of)
{
    seriatim_popped_outcome outcome;
    memset(&outcome, 0, sizeof outcome);
    outcome.kind = w->handler->number;
    outcome.seconds = outcome.kind == SERIATIM_POPPED_FAIL ? of->retry_in : of->seconds;
    outcome.text = outcome.kind == SERIATIM_POPPED_FAIL ? of->error : of->payload;
    outcome.payload_count = (size_t)of->count; /* of a checkpoint */
    return seriatim_popped_begin(c, of->token, &outcome);
}

/* Names the token's queue. */
static int consume_outcome_read(srt_web *w, srt_consume *of)
{
    srt_pop_token token;
    int status = srt_pop_token_read(&token, &w->memory, of->token);
    if (status == SERIATIM_INVALID)
        return srt_web_refuse(w, 400, "token must be the token of a delivery");
    if (status != SERIATIM_OK)
        return status;
    of->queue = token.queue;
    return SERIATIM_OK;
}

int srt_web_consume_outcome_next(seriatim_client *c, srt_web *w)
{
    srt_consume *of = w->page;
    int status = SERIATIM_OK;
    if (of->found)
        return SRT_WEB_DONE;
    if (!of->queue.data)
        status = consume_outcome_read(w, of);
    if (status == SERIATIM_OK && srt_registry_number(&c->registry, of->queue.data, of->queue.len) == SRT_NO_QUEUE)
        status = consume_find(c, w, of->queue, 409);
    else if (status == SERIATIM_OK)
        status = SRT_WEB_DONE; /* if it was deleted, the delivery is not there either */
    if (status != SRT_WEB_DONE || w->status)
        return status;
    of->found = 1;
    return consume_outcome_begin(c, w, of);
}

void srt_web_consume_outcome_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    (void)c;
    (void)w;
    srt_json_begin_object(&out->json);
    srt_web_bool(out, "ok", 1);
    srt_json_end_object(&out->json);
}

/* ---- The description of these routes ------------------------------------------------------- */

int srt_web_consume_openapi_next(seriatim_client *c, srt_web *w)
{
    static const char name[] = "openapi.json";
    (void)c;
    w->asset = srt_web_asset_find(name, sizeof name - 1);
    if (!w->asset)
        return srt_web_refuse(w, 404, "not found");
    w->status = 200;
    return SRT_WEB_DONE;
}

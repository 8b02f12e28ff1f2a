/* history.c - the history of one queue, or the sum of all. */
#include "model/history.h"
#include "model/run_times.h"
#include "web/web.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HISTORY_POINTS 288
#define HISTORY_RUNS 60 /* steps of run times in a ring: the most of all */

/* The percentiles that are told, and their names. */
#define HISTORY_PARTS 3
static const double history_parts[HISTORY_PARTS] = {0.5, 0.95, 0.99};
static const char *const history_part_names[HISTORY_PARTS] = {"p50", "p95", "p99"};

typedef struct history_run {
    int64_t step; /* its number since 1970; 0: not of the span */
    double parts[HISTORY_PARTS];
} history_run;

typedef struct history_page {
    const srt_history_span *span;
    size_t count;
    int64_t now; /* seconds */
    srt_history_point points[HISTORY_POINTS], one[HISTORY_POINTS];
    history_run runs[HISTORY_RUNS]; /* of one queue, by place in the ring */
    srt_run_times ran;              /* in the whole span */
} history_page;

enum { HISTORY_TIME, HISTORY_RING, HISTORY_RAN };

static int history_ask(seriatim_client *c, srt_web *w, seriatim_text name)
{
    const history_page *page = w->page;
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    int64_t first, last;
    srt_bytes key;
    if (!r)
        return srt_operator_nomem(c);
    srt_history_range(page->span, &first, &last);
    srt_bytes_init(&key, c->mem);
    srt_key_history(&key, c->registry.ns.data, name.data, name.len);
    srt_request_text(r, "GETRANGE");
    srt_request_arg(r, key.data, key.len);
    srt_request_int(r, first);
    srt_request_int(r, last);
    r->tail.failed |= key.failed;
    r->kind = HISTORY_RING;
    srt_bytes_free(&key);
    return srt_client_send(c, r);
}

static int history_ask_runs(seriatim_client *c, srt_web *w)
{
    const history_page *page = w->page;
    srt_request *r = srt_run_times_reading(srt_cluster_pool(&c->cluster), "HMGET", c->registry.ns.data, w->worker.data,
                                           w->worker.len);
    char field[40];
    size_t i;
    if (!r)
        return srt_operator_nomem(c);
    for (i = 0; i < page->span->run_ring; i++) {
        snprintf(field, sizeof field, "%d:%d", (int)page->span->run_step, (int)i);
        srt_request_text(r, field);
    }
    r->kind = HISTORY_RAN;
    return srt_client_send(c, r);
}

static int history_ask_all(seriatim_client *c, srt_web *w)
{
    size_t i;
    int status = SERIATIM_OK;
    if (w->worker.len) {
        status = history_ask(c, w, w->worker);
        return status == SERIATIM_OK ? history_ask_runs(c, w) : status;
    }
    for (i = 0; i < w->name_count && status == SERIATIM_OK; i++)
        status = history_ask(c, w, w->names[i]);
    return status;
}

/* Without the time no step has a place. One Redis answers in order; in a cluster other masters may answer before it. */
static int history_send(seriatim_client *c, srt_queue *queue)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    int status;
    (void)queue;
    if (!r)
        return srt_operator_nomem(c);
    srt_request_text(r, "TIME");
    r->kind = HISTORY_TIME;
    status = srt_client_send(c, r);
    return status == SERIATIM_OK && !c->cluster.many ? history_ask_all(c, c->web) : status;
}

static void history_sum(history_page *page, const srt_token *ring)
{
    size_t i;
    memset(page->one, 0, page->count * sizeof *page->one);
    srt_history_add(page->span, page->one, page->now, ring->data, ring->len);
    for (i = 0; i < page->count; i++) {
        srt_history_point *point = &page->points[i];
        const srt_history_point *more = &page->one[i];
        point->known |= more->known;
        point->processed += more->processed;
        point->failed += more->failed;
        point->enqueued += more->enqueued;
        point->lag = more->lag > point->lag ? more->lag : point->lag;
    }
}

static void history_take_run(history_page *page, size_t place, const srt_token *text)
{
    int64_t last = page->now / page->span->run_step, step;
    srt_run_times one;
    size_t i;
    memset(&one, 0, sizeof one);
    step = srt_run_times_add_step(&one, text->data, text->len);
    if (step > last || step <= last - (int64_t)page->span->run_steps ||
        step % (int64_t)page->span->run_ring != (int64_t)place || !(srt_run_times_calls(&one) > 0))
        return;
    page->runs[place].step = step;
    for (i = 0; i < HISTORY_PARTS; i++)
        page->runs[place].parts[i] = srt_run_times_quantile(&one, history_parts[i]);
    srt_run_times_add_step(&page->ran, text->data, text->len);
}

static void history_take_runs(history_page *page, const srt_reply *reply)
{
    size_t place;
    if (reply->tokens[0].type != SRT_ARRAY || reply->count != page->span->run_ring + 1)
        return;
    for (place = 0; place < page->span->run_ring; place++)
        if (reply->tokens[place + 1].type == SRT_STRING)
            history_take_run(page, place, &reply->tokens[place + 1]);
}

static int history_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    srt_web *w = c->web;
    history_page *page = w->page;
    if (r->kind == HISTORY_TIME) {
        page->now = reply->count > 1 ? srt_token_int(&reply->tokens[1]) : 0;
        return c->cluster.many ? history_ask_all(c, w) : SERIATIM_OK;
    }
    if (r->kind == HISTORY_RING && reply->tokens[0].type == SRT_STRING)
        history_sum(page, &reply->tokens[0]);
    else if (r->kind == HISTORY_RAN)
        history_take_runs(page, reply);
    return SERIATIM_OK;
}

/* A key that is not ours, or may not be read, has no history. */
static int history_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    (void)c;
    (void)r;
    (void)error;
    return SERIATIM_OK;
}

static int history_begin(seriatim_client *c, srt_web *w)
{
    static const srt_operation operation = {
        .send = history_send, .on_reply = history_on_reply, .on_refused = history_on_refused};
    (void)w;
    return srt_client_begin_alone(c, &operation);
}

static int history_read(srt_web *w)
{
    seriatim_text span = srt_web_param_of(w, "span");
    history_page *page = srt_arena_alloc(&w->memory, sizeof *page);
    if (!page)
        return SERIATIM_NOMEM;
    memset(page, 0, sizeof *page);
    w->page = page;
    w->worker = srt_web_param_of(w, "queue");
    page->span = span.data ? srt_history_span_of(span.data, span.len) : srt_history_span_of("15m", 3);
    if (!page->span)
        return srt_web_refuse(w, 400, "span must be one of 15m, 1h, 1d, 7d");
    page->count = page->span->steps / page->span->merged;
    return SERIATIM_OK;
}

int srt_web_history_next(seriatim_client *c, srt_web *w)
{
    int status;
    if (w->step == 0) {
        status = history_read(w);
        if (status != SERIATIM_OK)
            return status;
    }
    if (w->worker.len)
        return srt_web_on_queue(c, w, history_begin);
    if (w->step == 0) {
        status = srt_web_names_begin(c, w);
        if (status != SRT_WEB_DONE)
            return status;
        w->step++;
    } else if (w->step == 1 && srt_web_names_take(c, w) != SERIATIM_OK) {
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    }
    return w->step == 1 ? history_begin(c, w) : SRT_WEB_DONE;
}

/* Seconds, to the microsecond. */
static void history_seconds(srt_web_out *out, const char *key, double seconds)
{
    srt_web_double(out, key, round(seconds * 1e6) / 1e6);
}

static void history_write_run(srt_web_out *out, const history_run *run, int64_t step)
{
    size_t i;
    if (run->step != step) {
        srt_json_null(&out->json);
        return;
    }
    srt_json_begin_array(&out->json);
    for (i = 0; i < HISTORY_PARTS; i++)
        history_seconds(out, NULL, run->parts[i]);
    srt_json_end_array(&out->json);
}

/* null where no queue is named, or nothing ran in the span. */
static void history_write_runs(srt_web_out *out, const history_page *page)
{
    const srt_history_span *span = page->span;
    int64_t first = page->now / span->run_step - (int64_t)span->run_steps + 1;
    size_t i;
    if (!(srt_run_times_calls(&page->ran) > 0)) {
        srt_web_null(out, "run_times");
        return;
    }
    srt_web_key(out, "run_times");
    srt_json_begin_object(&out->json);
    srt_web_int(out, "count", (int64_t)srt_run_times_calls(&page->ran));
    srt_web_int(out, "from", first * span->run_step);
    for (i = 0; i < HISTORY_PARTS; i++)
        history_seconds(out, history_part_names[i], srt_run_times_quantile(&page->ran, history_parts[i]));
    srt_web_key(out, "points");
    srt_json_begin_array(&out->json);
    for (i = 0; i < span->run_steps; i++)
        history_write_run(out, &page->runs[(first + (int64_t)i) % (int64_t)span->run_ring], first + (int64_t)i);
    srt_json_end_array(&out->json);
    srt_web_int(out, "step", span->run_step);
    srt_json_end_object(&out->json);
}

void srt_web_history_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    const history_page *page = w->page;
    int64_t step = page->span->step * (int64_t)page->span->merged;
    size_t i;
    (void)c;
    srt_json_begin_object(&out->json);
    srt_web_int(out, "from", (page->now / step - (int64_t)page->count + 1) * step);
    srt_web_key(out, "points");
    srt_json_begin_array(&out->json);
    for (i = 0; i < page->count; i++) {
        const srt_history_point *point = &page->points[i];
        if (!point->known) {
            srt_json_null(&out->json);
            continue;
        }
        srt_json_begin_array(&out->json);
        srt_web_double(out, NULL, point->processed);
        srt_web_double(out, NULL, point->failed);
        srt_web_double(out, NULL, point->enqueued);
        srt_web_double(out, NULL, point->lag);
        srt_json_end_array(&out->json);
    }
    srt_json_end_array(&out->json);
    history_write_runs(out, page);
    srt_web_int(out, "step", step);
    srt_json_end_object(&out->json);
}

/* run.c - the step run: a runner with threads from its start to its stop, and what they saw. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 16

typedef struct seen_payload {
    seriatim_text bytes, context;
    double score;
} seen_payload;

typedef struct seen_job {
    seriatim_text id;
    int64_t fence, retry_count;
    seen_payload *payloads;
    size_t payload_count;
    const value *turn;
    size_t place;      /* in the delivery */
    int checkpointed;  /* payloads of it are done, so that what is left counts as never failed */
    const char *wrong; /* what a checkpoint answered, where that was not expected; NULL: all is well */
} seen_job;

typedef struct call {
    queue *queue;
    seen_job *jobs;
    size_t size, number;
    double began, ended;
    struct call *next;
} call;

typedef struct told {
    seen_job job;
    seriatim_text error;
    struct told *next;
} told;

typedef struct turns {
    seriatim_text id;
    size_t count;
    struct turns *next;
} turns;

typedef struct run {
    scenario *scenario;
    const char *where;
    const value *plan;
    seriatim_runner *runner;
    queue *workers[QUEUES];
    size_t worker_count;
    call *calls;
    size_t call_count, ended_count, told_count;
    told *told, **told_tail;
    turns *turns;
} run;

/* ---- A call of perform ----------------------------------------------------------------------- */

static const value *next_turn(run *r, seriatim_text id)
{
    const value *list = value_get(r->plan, id.data), *turn = NULL;
    turns *t = r->turns;
    size_t place;
    while (t && !text_equal(t->id, id))
        t = t->next;
    if (!t) {
        t = keep(sizeof *t);
        t->id = id;
        t->next = r->turns;
        r->turns = t;
    }
    if (!list || strlen(id.data) != id.len)
        list = value_get(r->plan, "*");
    place = t->count++;
    if (list)
        turn = value_at(list, place < list->count ? place : list->count - 1);
    return turn;
}

static void copy_job(seen_job *job, const seriatim_claimed *claimed)
{
    size_t i;
    job->id = keep_text(claimed->id, claimed->id_len);
    job->fence = claimed->fence;
    job->retry_count = claimed->retry_count;
    job->payload_count = claimed->payload_count;
    job->payloads = keep((claimed->payload_count + 1) * sizeof *job->payloads);
    for (i = 0; i < claimed->payload_count; i++) {
        const seriatim_payload *p = &claimed->payloads[i];
        job->payloads[i].bytes = keep_text(p->data, p->len);
        job->payloads[i].context = p->context_len ? keep_text(p->context, p->context_len) : keep_text("{}", 2);
        job->payloads[i].score = p->score;
    }
}

/* Rejects what a JSON worker cannot read; 1 when all can be read. */
static int readable(seriatim_delivery *d, size_t i, const seen_job *job)
{
    static const char reason[] = "undecodable payload: it is not JSON";
    size_t *places = keep((job->payload_count + 1) * sizeof *places), count = 0, n;
    for (n = 0; n < job->payload_count; n++)
        if (!value_read(job->payloads[n].bytes.data, job->payloads[n].bytes.len))
            places[count++] = n;
    if (count)
        seriatim_delivery_reject(d, i, places, count, reason, sizeof reason - 1);
    return count == 0;
}

static call *begin_call(run *r, seriatim_delivery *d)
{
    call *c = keep(sizeof *c);
    size_t i, size = seriatim_delivery_size(d);
    c->queue = r->workers[seriatim_delivery_worker(d)];
    c->jobs = keep(size * sizeof *c->jobs);
    for (i = 0; i < size; i++) {
        seen_job *job = &c->jobs[c->size];
        copy_job(job, seriatim_delivery_job(d, i));
        job->place = i;
        c->size += (size_t)(c->queue->raw || readable(d, i, job));
    }
    if (c->size == 0)
        return NULL;
    for (i = 0; i < c->size; i++)
        c->jobs[i].turn = next_turn(r, c->jobs[i].id);
    c->began = unix_time();
    c->number = r->call_count++;
    c->next = r->calls;
    r->calls = c;
    return c;
}

/* What a call of the batch must answer. Where it does not, the id fails; and the step, too, since Redis refuses the
 * failure of a run whose time is over. */
static void must_answer(int wanted, int status, seen_job *job)
{
    if (status != wanted)
        job->wrong = seriatim_status_text(status);
}

static void too_long_turn(seriatim_delivery *d, seen_job *job)
{
    const value *length = value_get(job->turn, "too_long");
    size_t len = length ? (size_t)length->number : 0;
    char *payload = len ? malloc(len) : NULL;
    if (!payload)
        return;
    memset(payload, 'x', len);
    must_answer(SERIATIM_INVALID, seriatim_delivery_snooze(d, job->place, 0, payload, len), job);
    free(payload);
}

static int checkpoint(run *r, seriatim_delivery *d, seen_job *job, const value *count)
{
    int status = seriatim_runner_checkpoint(r->runner, d, job->place, (size_t)count->number);
    job->checkpointed |= status == SERIATIM_OK && count->number > 0;
    return status;
}

static void checkpoint_turn(run *r, seriatim_delivery *d, seen_job *job)
{
    const value *count = value_get(job->turn, "checkpoint"), *too_many = value_get(job->turn, "too_many");
    if (too_many)
        must_answer(SERIATIM_INVALID, checkpoint(r, d, job, too_many), job);
    if (!count)
        return;
    must_answer(SERIATIM_OK, checkpoint(r, d, job, count), job);
    must_answer(SERIATIM_OK, seriatim_runner_flush(r->runner, d, 30000), job);
}

static void late_turn(run *r, seriatim_delivery *d, seen_job *job)
{
    const value *sent = value_get(job->turn, "sent"), *stale = value_get(job->turn, "stale");
    if (sent)
        must_answer(SERIATIM_OK, checkpoint(r, d, job, sent), job);
    if (!stale)
        return;
    must_answer(SERIATIM_OK, checkpoint(r, d, job, stale), job);
    must_answer(SERIATIM_STALE, seriatim_runner_flush(r->runner, d, 30000), job);
}

static void take_turn(run *r, seriatim_delivery *d, const call *c, seen_job *job)
{
    const value *steps = value_get(job->turn, "steps"), *extend = value_get(job->turn, "extend"),
                *sleep = value_get(job->turn, "sleep");
    size_t i;
    too_long_turn(d, job);
    checkpoint_turn(r, d, job);
    if (steps)
        steps_run(r->scenario, steps, r->where);
    for (i = 0; extend && i < c->size; i++)
        seriatim_runner_extend(r->runner, d, c->jobs[i].place, extend->number);
    if (sleep)
        pause_seconds(sleep->number);
    late_turn(r, d, job);
}

static void snooze_job(seriatim_delivery *d, const seen_job *job, const value *seconds)
{
    const value *payload = value_get(job->turn, "payload");
    seriatim_text bytes = {NULL, 0};
    if (payload)
        bytes = value_canonical(payload);
    seriatim_delivery_snooze(d, job->place, seconds->number, bytes.data, bytes.len);
}

static void fail_job(seriatim_delivery *d, const call *c, const seen_job *job, const value *error)
{
    const value *waits = value_get(c->queue->settings, "retry_in");
    size_t count = job->checkpointed ? 0 : (size_t)(job->retry_count + 1);
    double seconds = waits ? value_at(waits, count < waits->count ? count : waits->count - 1)->number : 60;
    seriatim_delivery_fail(d, job->place, error->text.data, error->text.len, seconds);
}

static void report(seriatim_delivery *d, const call *c)
{
    const value *raise = NULL;
    size_t i;
    for (i = 0; i < c->size && !raise; i++)
        raise = value_get(c->jobs[i].turn, "raise");
    for (i = 0; i < c->size; i++) {
        const value *turn = c->jobs[i].turn, *fail = value_get(turn, "fail");
        if (value_true(value_get(turn, "done")))
            fail = NULL;
        else if (!fail)
            fail = raise;
        if (c->jobs[i].wrong)
            seriatim_delivery_fail(d, c->jobs[i].place, c->jobs[i].wrong, strlen(c->jobs[i].wrong), 60);
        else if (value_get(turn, "snooze"))
            snooze_job(d, &c->jobs[i], value_get(turn, "snooze"));
        else if (fail)
            fail_job(d, c, &c->jobs[i], fail);
        else
            seriatim_delivery_done(d, c->jobs[i].place);
    }
}

static void perform(run *r, seriatim_delivery *d)
{
    call *c;
    size_t i;
    lock();
    c = begin_call(r, d);
    unlock();
    if (!c)
        return;
    for (i = 0; i < c->size; i++)
        take_turn(r, d, c, &c->jobs[i]);
    report(d, c);
    lock();
    c->ended = unix_time();
    r->ended_count++;
    unlock();
}

static void exhausted(run *r, seriatim_delivery *d)
{
    size_t i;
    lock();
    for (i = 0; i < seriatim_delivery_size(d); i++) {
        const seriatim_claimed *job = seriatim_delivery_job(d, i);
        told *t = keep(sizeof *t);
        copy_job(&t->job, job);
        t->error = keep_text(job->error, job->error_len);
        *r->told_tail = t;
        r->told_tail = &t->next;
        r->told_count++;
    }
    unlock();
}

static void *work(void *argument)
{
    run *r = argument;
    seriatim_delivery *d;
    int status;
    while ((status = seriatim_runner_take(r->runner, 0, &d)) != SERIATIM_CLOSED) {
        if (status == SERIATIM_AGAIN) {
            seriatim_runner_wait(r->runner, 0, -1);
            continue;
        }
        if (seriatim_delivery_kind_of(d) == SERIATIM_EXHAUSTED)
            exhausted(r, d);
        else
            perform(r, d);
        seriatim_runner_settle(r->runner, d);
    }
    return NULL;
}

/* ---- Start, wait, stop ----------------------------------------------------------------------- */

static void choose_workers(run *r, const value *step)
{
    const value *wanted = value_get(step, "queues");
    size_t i, n;
    for (i = 0; i < r->scenario->queue_count; i++) {
        queue *q = &r->scenario->queues[i];
        int chosen = wanted == NULL;
        for (n = 0; wanted && n < wanted->count; n++)
            chosen |= text_equal(value_at(wanted, n)->text, q->label);
        if (chosen)
            r->workers[r->worker_count++] = q;
    }
}

static int start_runner(run *r, size_t threads, check *c)
{
    static int nodes;
    char id[64];
    seriatim_node_settings settings;
    seriatim_error error;
    size_t i, worker;
    int status;
    memset(&settings, 0, sizeof settings);
    snprintf(id, sizeof id, "c-%d-%d", (int)getpid(), ++nodes);
    settings.id = id;
    settings.options.ns = r->scenario->ns.data;
    settings.lease_ms = 10000;
    settings.poll_ms = 5000;
    settings.threads = threads;
    status = seriatim_runner_new(&settings, the_suite.url, &r->runner, &error);
    for (i = 0; i < r->worker_count && status == SERIATIM_OK; i++) {
        seriatim_queue_settings queue_settings;
        queue_core_settings(r->workers[i], &queue_settings);
        status = seriatim_runner_worker(r->runner, &queue_settings, &worker, &error);
    }
    if (status == SERIATIM_OK)
        status = seriatim_runner_start(r->runner, &error);
    if (status != SERIATIM_OK)
        wrong(c, "the runner did not start: %s", error.message);
    return status;
}

/* 1: nothing runs, nothing waits (or, for idle, nothing is due), and no ids move. */
static int quiet(const run *r, int empty, check *c)
{
    size_t i, number;
    for (i = 0; i < r->worker_count; i++) {
        const seriatim_metrics *m;
        int status = scenario_number(r->scenario, r->workers[i], &number);
        if (status == SERIATIM_OK)
            status =
                scenario_drive(r->scenario, seriatim_metrics_begin(seriatim_link_client(r->scenario->link), number));
        if (status != SERIATIM_OK) {
            wrong(c, "metrics: %s", seriatim_client_error(seriatim_link_client(r->scenario->link))->message);
            return 1;
        }
        m = seriatim_metrics_total(seriatim_link_client(r->scenario->link));
        if (m->busy || seriatim_metrics_resharding(seriatim_link_client(r->scenario->link)) ||
            (empty ? m->length > 0 : m->lag > 0))
            return 0;
    }
    return 1;
}

static int over(const run *r, const value *step, check *c)
{
    const value *until = value_get(step, "until"), *hook = value_get(value_get(step, "expect"), "exhausted");
    int done, empty = value_says(until, "empty");
    lock();
    if (hook && r->told_count < hook->count)
        done = 0;
    else if (until && until->kind == VALUE_INT)
        done = r->ended_count >= (size_t)until->integer;
    else
        done = quiet(r, empty, c) && quiet(r, empty, c);
    unlock();
    return done;
}

static void wait_until_over(const run *r, const value *step, check *c)
{
    double deadline = unix_time() + value_number(value_get(step, "limit"), 60);
    while (!over(r, step, c)) {
        if (unix_time() > deadline) {
            wrong(c, "not over within its limit, after %lu calls", (unsigned long)r->ended_count);
            return;
        }
        seriatim_runner_pulse(r->runner);
        pause_seconds(0.005);
    }
}

static void stop_runner(run *r, pthread_t *threads, size_t count, check *c)
{
    double deadline = unix_time() + 60;
    size_t i;
    seriatim_runner_stop(r->runner);
    while (!seriatim_runner_stopped(r->runner) && unix_time() < deadline) {
        seriatim_runner_pulse(r->runner);
        pause_seconds(0.002);
    }
    if (!seriatim_runner_stopped(r->runner)) {
        wrong(c, "it did not stop in time");
        seriatim_runner_abandon(r->runner);
    }
    for (i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* ---- What was seen --------------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b)
{
    const call *x = *(call *const *)a, *y = *(call *const *)b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int by_id(const void *a, const void *b)
{
    return text_compare(((const seen_job *)a)->id, ((const seen_job *)b)->id);
}

static int by_first_id(const void *a, const void *b)
{
    int order = text_compare((*(call *const *)a)->jobs->id, (*(call *const *)b)->jobs->id);
    return order ? order : by_begin(a, b);
}

static void check_answers(check *c, const call *x)
{
    size_t i;
    for (i = 0; i < x->size; i++)
        if (x->jobs[i].wrong)
            wrong(c, "a call of the batch answered for %.64s: %s", x->jobs[i].id.data, x->jobs[i].wrong);
}

static void check_pair(check *c, const call *before, const call *after, int overrun)
{
    size_t i, n;
    for (i = 0; i < before->size && text_equal(before->queue->name, after->queue->name); i++) {
        for (n = 0; n < after->size; n++) {
            if (!text_equal(before->jobs[i].id, after->jobs[n].id))
                continue;
            if (after->jobs[n].fence <= before->jobs[i].fence)
                wrong(c, "the fence of %.64s fell", after->jobs[n].id.data);
            if (!overrun && before->ended > after->began)
                wrong(c, "two runs of %.64s overlap", after->jobs[n].id.data);
        }
    }
}

static void compare_payloads(check *c, const value *wanted, const seen_job *job, int raw, const char *where)
{
    size_t i;
    if (wanted->count != job->payload_count) {
        wrong(c, "%s: %lu payloads, not %lu", where, (unsigned long)job->payload_count, (unsigned long)wanted->count);
        return;
    }
    for (i = 0; i < job->payload_count; i++)
        compare_payload(c, value_at(wanted, i), job->payloads[i].bytes, raw, where);
}

static void compare_list(check *c, const value *wanted, const seen_job *job, int scores, const char *where)
{
    size_t i;
    if (!wanted)
        return;
    if (wanted->count != job->payload_count)
        wrong(c, "%s: %lu payloads, not %lu", where, (unsigned long)job->payload_count, (unsigned long)wanted->count);
    for (i = 0; i < job->payload_count && i < wanted->count; i++) {
        if (scores)
            compare(c, value_at(wanted, i), found_number(job->payloads[i].score), where);
        else
            compare_payload(c, value_at(wanted, i), job->payloads[i].context, 0, where);
    }
}

static void compare_job(check *c, const value *wanted, const seen_job *job, int raw, const char *where)
{
    const value *payloads = value_get(wanted, "payloads");
    const value *id = value_get(wanted, "id");
    if (id && !text_equal(value_bytes(id), job->id))
        wrong(c, "%s: the id is %.64s, not %.64s", where, job->id.data, value_bytes(id).data);
    compare(c, value_get(wanted, "retry_count"), found_number((double)job->retry_count), where);
    compare_list(c, value_get(wanted, "scores"), job, 1, where);
    compare_list(c, value_get(wanted, "contexts"), job, 0, where);
    if (payloads)
        compare_payloads(c, payloads, job, raw, where);
}

static void compare_call(check *c, const value *wanted, const call *x, const call *before, size_t place)
{
    const value *jobs = value_get(wanted, "jobs");
    char where[64];
    size_t i;
    snprintf(where, sizeof where, "runs[%lu]", (unsigned long)place);
    compare(c, value_get(wanted, "queue"), found_text(x->queue->label), where);
    compare(c, value_get(wanted, "size"), found_number((double)x->size), where);
    compare(c, value_get(wanted, "began"), found_number(x->began), where);
    compare(c, value_get(wanted, "after"), before ? found_number(x->began - before->ended) : found_nothing(), where);
    if (jobs && jobs->count != x->size)
        wrong(c, "%s has %lu jobs, not %lu", where, (unsigned long)x->size, (unsigned long)jobs->count);
    for (i = 0; jobs && i < x->size && i < jobs->count; i++)
        compare_job(c, value_at(jobs, i), &x->jobs[i], x->queue->raw, where);
}

static void compare_calls(check *c, const value *expect, call **calls, size_t count)
{
    const value *wanted = value_get(expect, "runs");
    size_t i;
    if (!wanted)
        return;
    if (wanted->count != count) {
        wrong(c, "%lu runs, not %lu", (unsigned long)count, (unsigned long)wanted->count);
        return;
    }
    if (value_true(value_get(expect, "any_order"))) {
        for (i = 0; i < count; i++)
            qsort(calls[i]->jobs, calls[i]->size, sizeof *calls[i]->jobs, by_id);
        qsort(calls, count, sizeof *calls, by_first_id);
    }
    for (i = 0; i < count; i++)
        compare_call(c, value_at(wanted, i), calls[i], i ? calls[i - 1] : NULL, i);
}

static void compare_numbers(check *c, const value *wanted, call **calls, size_t count)
{
    long expected = 0;
    size_t i, n, p;
    for (i = 0; i < count; i++)
        for (n = 0; n < calls[i]->size; n++)
            for (p = 0; text_equal(calls[i]->jobs[n].id, wanted->key) && p < calls[i]->jobs[n].payload_count; p++)
                if (strtol(calls[i]->jobs[n].payloads[p].bytes.data, NULL, 10) != expected++)
                    wrong(c, "payload %ld of %s is %.20s", expected - 1, wanted->key.data,
                          calls[i]->jobs[n].payloads[p].bytes.data);
    if (expected != (long)wanted->integer)
        wrong(c, "%s had %ld payloads", wanted->key.data, expected);
}

static void compare_at_once(check *c, const value *wanted, call **calls, size_t count)
{
    size_t i, n, most = 0;
    for (i = 0; i < count; i++) {
        size_t here = 0;
        for (n = 0; n < count; n++)
            here += calls[n]->began <= calls[i]->began && calls[n]->ended > calls[i]->began;
        most = here > most ? here : most;
    }
    compare(c, wanted, found_number((double)most), "at_once");
}

static void compare_told(check *c, const value *wanted, const run *r)
{
    const told *t = r->told;
    size_t i;
    if (!wanted)
        return;
    if (wanted->count != r->told_count)
        wrong(c, "retries_exhausted was told of %lu jobs", (unsigned long)r->told_count);
    for (i = 0; t && i < wanted->count; i++, t = t->next) {
        const value *job = value_at(wanted, i), *payloads = value_get(job, "payloads"), *pair;
        size_t n = 0;
        compare(c, value_get(job, "id"), found_text(t->job.id), "exhausted.id");
        compare(c, value_get(job, "error"), found_text(t->error), "exhausted.error");
        if (payloads && payloads->count != t->job.payload_count)
            wrong(c, "exhausted: %lu payloads", (unsigned long)t->job.payload_count);
        for (pair = payloads ? payloads->first : NULL; pair && n < t->job.payload_count; pair = pair->next, n++) {
            compare_payload(c, value_at(pair, 0), t->job.payloads[n].bytes, 0, "exhausted.payloads");
            compare(c, value_at(pair, 1), found_number(t->job.payloads[n].score), "exhausted.payloads");
        }
    }
}

static void compare_all(check *c, const value *step, const run *r)
{
    const value *expect = value_get(step, "expect"), *numbers = value_get(expect, "numbers"), *member;
    call **calls = keep((r->call_count + 1) * sizeof *calls), *x;
    size_t count = 0, i, n;
    for (x = r->calls; x; x = x->next)
        calls[count++] = x;
    qsort(calls, count, sizeof *calls, by_begin);
    for (i = 0; i < count; i++) {
        check_answers(c, calls[i]);
        for (n = i + 1; n < count; n++)
            check_pair(c, calls[i], calls[n], value_true(value_get(step, "overrun")));
    }
    compare(c, value_get(expect, "count"), found_number((double)count), "count");
    compare_at_once(c, value_get(expect, "at_once"), calls, count);
    for (member = numbers ? numbers->first : NULL; member; member = member->next)
        compare_numbers(c, member, calls, count);
    compare_told(c, value_get(expect, "exhausted"), r);
    compare_calls(c, expect, calls, count);
}

void step_run(scenario *s, const value *step, const char *where, check *c)
{
    size_t threads = (size_t)value_number(value_get(step, "threads"), 1), i;
    pthread_t ids[THREADS];
    run r;
    memset(&r, 0, sizeof r);
    r.scenario = s;
    r.where = where;
    r.plan = value_get(step, "plan");
    r.told_tail = &r.told;
    choose_workers(&r, step);
    if (threads <= THREADS && start_runner(&r, threads, c) == SERIATIM_OK) {
        for (i = 0; i < threads; i++)
            if (pthread_create(&ids[i], NULL, work, &r) != 0)
                abort();
        wait_until_over(&r, step, c);
        stop_runner(&r, ids, threads, c);
        compare_all(c, step, &r);
    }
    if (r.runner)
        seriatim_runner_free(r.runner);
}

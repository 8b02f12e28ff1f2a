/*
 * fair.c - `fair SCENE RATE SECONDS`: from push to perform of ordinary ids, each new, RATE a second in slices of 100, beside a difficult one.
 *
 *   base: none. hot: an id that collects 100,000 payloads, becomes due with all of them, and is pushed to on and on. slow: an id
 *   whose jobs take a second. failing: an id that fails again and again, without any pause. BENCH_FOLD is the queue's (merge).
 *   Prints the median and the 99th percentile in milliseconds, the ordinary jobs performed a second, and how often the difficult
 *   id was performed with how many payloads in all. REDIS_URL, BENCH_THREADS (5).
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blank.h"

#define SLICE 100
#define WARM_UP 1.0         /* seconds without measuring */
#define HOT_PAYLOADS 100000 /* that it is due with */
#define HOT_SHARE 0.6       /* of the time, until it is due; all of them are pushed in nine tenths of it */
#define SLOW_SECONDS 1.0

typedef enum scene { BASE, HOT, SLOW, FAILING } scene;

typedef struct course {
    scene scene;
    double rate, seconds, start; /* start: of measuring */
    double *latencies;
    long count, cap;
    long odd_runs, odd_payloads;
    int ending;
    seriatim_queue_settings queue;
} course;

static int ends(const course *c)
{
    return __atomic_load_n(&c->ending, __ATOMIC_RELAXED);
}

/* ---- Performing ---------------------------------------------------------------------------- */

static void perform_odd(course *c, seriatim_delivery *delivery, const seriatim_claimed *job)
{
    __atomic_fetch_add(&c->odd_runs, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&c->odd_payloads, (long)job->payload_count, __ATOMIC_RELAXED);
    if (c->scene == SLOW)
        nap(SLOW_SECONDS);
    if (c->scene == FAILING)
        seriatim_delivery_fail(delivery, 0, "as always", 9, 0);
    else
        seriatim_delivery_done(delivery, 0);
}

static void perform_ordinary(course *c, seriatim_delivery *delivery, const seriatim_claimed *job)
{
    double pushed = strtod(job->payloads[0].data, NULL);
    if (pushed >= c->start) {
        long place = __atomic_fetch_add(&c->count, 1, __ATOMIC_RELAXED);
        if (place < c->cap)
            c->latencies[place] = now() - pushed;
    }
    seriatim_delivery_done(delivery, 0);
}

static void perform(seriatim_delivery *delivery, size_t thread, void *context)
{
    const seriatim_claimed *job = seriatim_delivery_job(delivery, 0);
    (void)thread;
    if (seriatim_delivery_kind_of(delivery) != SERIATIM_RUN)
        return;
    if (job->id[0] == 'o')
        perform_ordinary(context, delivery, job);
    else
        perform_odd(context, delivery, job);
}

/* ---- Pushing ------------------------------------------------------------------------------- */

static void sleep_until(double time)
{
    double left = time - now();
    if (left > 0)
        nap(left);
}

static void *push_ordinary(void *argument)
{
    course *c = argument;
    double next = now();
    producer p;
    char id[32], payload[32];
    long number = 0;
    int i;
    producer_open(&p, c->queue);
    for (; !ends(c); next += SLICE / c->rate) {
        size_t len;
        sleep_until(next);
        len = (size_t)snprintf(payload, sizeof payload, "%.9f", now());
        producer_begin(&p, p.queue);
        for (i = 0; i < SLICE; i++)
            producer_add(&p, id, (size_t)snprintf(id, sizeof id, "o%ld", number++), payload, len, 0);
        producer_send(&p);
    }
    producer_close(&p);
    return NULL;
}

/* The difficult id's: the same id again and again; to a hot one `SLICE` payloads a call. */
static void *push_odd(void *argument)
{
    course *c = argument;
    double hot_seconds = c->seconds * HOT_SHARE, due = c->start + hot_seconds, next = c->start;
    double pause = c->scene == HOT ? hot_seconds * 0.9 / (HOT_PAYLOADS / SLICE) : 0.01;
    int slice = c->scene == HOT ? SLICE : 1, i;
    long number = 0;
    producer p;
    char payload[32];
    producer_open(&p, c->queue);
    for (; !ends(c); next += pause) {
        double delay;
        sleep_until(next);
        delay = c->scene == HOT && due > now() ? due - now() : 0;
        producer_begin(&p, p.queue);
        for (i = 0; i < slice; i++)
            producer_add(&p, "difficult", 9, payload, (size_t)snprintf(payload, sizeof payload, "%ld", number++), delay);
        producer_send(&p);
    }
    producer_close(&p);
    return NULL;
}

/* ---- The course ---------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(course *c)
{
    long count = c->count < c->cap ? c->count : c->cap;
    if (count == 0)
        fail("fair", "nothing was performed");
    qsort(c->latencies, (size_t)count, sizeof *c->latencies, ascending);
    printf("%.6f %.6f %.1f %ld %ld\n", c->latencies[count / 2] * 1000, c->latencies[count * 99 / 100] * 1000,
           (double)count / c->seconds, c->odd_runs, c->odd_payloads);
}

static void run(course *c, server *s)
{
    pthread_t pushers[2];
    int odd = c->scene != BASE;
    c->start = now() + WARM_UP;
    if (pthread_create(&pushers[0], NULL, push_ordinary, c) != 0 || (odd && pthread_create(&pushers[1], NULL, push_odd, c) != 0))
        fail("thread", "cannot be started");
    server_watch(s, WARM_UP + c->seconds);
    __atomic_store_n(&c->ending, 1, __ATOMIC_RELAXED);
    pthread_join(pushers[0], NULL);
    if (odd)
        pthread_join(pushers[1], NULL);
}

static scene scene_of(const char *name)
{
    static const char *const names[] = {"base", "hot", "slow", "failing"};
    int i;
    for (i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0)
            return (scene)i;
    fail(name, "is no scene: base, hot, slow, failing");
    return BASE;
}

int main(int argc, char **argv)
{
    course c;
    server s;
    if (argc != 4 || atof(argv[2]) <= 0 || atof(argv[3]) <= 0)
        fail("usage", "fair SCENE RATE SECONDS");
    memset(&c, 0, sizeof c);
    c.scene = scene_of(argv[1]);
    c.rate = atof(argv[2]);
    c.seconds = atof(argv[3]);
    c.start = now() + 3600; /* until it is known */
    c.cap = (long)(2 * c.rate * c.seconds);
    c.latencies = calloc((size_t)c.cap, sizeof *c.latencies);
    c.queue = blank_queue();
    c.queue.fold = getenv("BENCH_FOLD") ? getenv("BENCH_FOLD") : c.queue.fold;
    if (!c.latencies)
        fail("fair", "out of memory");
    hold_signals();
    server_make(&s, perform, &c);
    server_worker(&s, c.queue);
    server_start(&s);
    server_watch(&s, 1);
    run(&c, &s);
    server_watch(&s, 0.5);
    report(&c);
    server_stop(&s);
    free(c.latencies);
    return 0;
}

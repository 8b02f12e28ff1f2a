/*
 * fair.c - `fair SCENE RATE SECONDS`: from push to perform of ordinary ids beside a difficult one. The ordinary ones
 * are new each, RATE a second in slices of 100.
 *
 *   base: none. hot: an id that has collected 100,000 payloads becomes due while 5,000 more a second are pushed to it.
 *   slow: an id whose jobs take a second. failing: an id that fails each time and is due again at once.
 *   BENCH_FOLD is the queue's (merge).
 *   Prints the median and the 99th percentile in milliseconds, the ordinary jobs performed a second, and how often the
 * difficult id was performed with how many payloads in all. REDIS_URL, BENCH_THREADS (5).
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blank.h"

#define SLICE 100
#define DIFFICULT "difficult"
#define WARM_UP 1.0 /* seconds without measuring */
#define HOT_PAYLOADS 100000
#define HOT_DUE 0.3    /* of the time, until they are due */
#define HOT_PAUSE 0.02 /* seconds from slice to slice */
#define ODD_PAUSE 0.05 /* from push to push of another difficult id */
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

static void push_difficult(producer *p, long first, int count, double delay)
{
    char payload[32];
    int i;
    producer_begin(p, p->queue);
    for (i = 0; i < count; i++)
        producer_add(p, DIFFICULT, strlen(DIFFICULT), payload,
                     (size_t)snprintf(payload, sizeof payload, "%ld", first + i), delay);
    producer_send(p);
}

static void collect_hot(const course *c)
{
    producer p;
    long number;
    producer_open(&p, c->queue);
    for (number = 0; number < HOT_PAYLOADS; number += 1000)
        push_difficult(&p, number, 1000, 3600);
    producer_close(&p);
}

/* By "earlier" a push without a delay makes an id due that was delayed. */
static void *push_odd(void *argument)
{
    course *c = argument;
    double next = c->start, pause = c->scene == HOT ? HOT_PAUSE : ODD_PAUSE;
    int slice = c->scene == HOT ? SLICE : 1;
    long number = HOT_PAYLOADS;
    seriatim_queue_settings queue = c->queue;
    producer p;
    queue.on_waiting = "earlier";
    producer_open(&p, queue);
    for (; !ends(c); next += pause, number += slice) {
        int due = c->scene != HOT || next >= c->start + HOT_DUE * c->seconds;
        sleep_until(next);
        push_difficult(&p, number, slice, due ? 0 : 3600);
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
    if (pthread_create(&pushers[0], NULL, push_ordinary, c) != 0 ||
        (odd && pthread_create(&pushers[1], NULL, push_odd, c) != 0))
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
    if (c.scene == HOT)
        collect_hot(&c);
    server_start(&s);
    server_watch(&s, 1);
    run(&c, &s);
    server_watch(&s, 0.5);
    report(&c);
    server_stop(&s);
    free(c.latencies);
    return 0;
}

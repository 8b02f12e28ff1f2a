/*
 * busy.c - `busy IDS PAUSE`: pushes a job to each of IDS ids, again and again with PAUSE seconds in between, and runs
 * them, until SIGTERM.
 *
 *   Then it prints how many ran and, of the longest time that a job of each id waited from the begin of its push to its
 * run, in seconds: p50, p99 and the most over all ids. REDIS_URL, BENCH_THREADS (5).
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <stdio.h>
#include <stdlib.h>

#include "blank.h"

typedef struct course {
    double *longest; /* by id; an id runs in one thread at a time */
    double pause;
    long ids, runs;
    int ending;
} course;

static void perform(seriatim_delivery *delivery, size_t thread, void *context)
{
    course *c = context;
    const seriatim_claimed *job = seriatim_delivery_job(delivery, 0);
    double waited;
    long id;
    (void)thread;
    if (seriatim_delivery_kind_of(delivery) != SERIATIM_RUN)
        return;
    id = strtol(job->id + 1, NULL, 10);
    waited = now() - strtod(job->payloads[0].data, NULL);
    if (waited > c->longest[id])
        c->longest[id] = waited;
    __atomic_fetch_add(&c->runs, (long)job->payload_count, __ATOMIC_RELAXED);
    seriatim_delivery_done(delivery, 0);
}

static void *push(void *argument)
{
    course *c = argument;
    producer p;
    producer_open(&p, blank_queue());
    while (!__atomic_load_n(&c->ending, __ATOMIC_RELAXED)) {
        char payload[32], id[24];
        int len = snprintf(payload, sizeof payload, "%.6f", now());
        long n;
        producer_begin(&p, p.queue);
        for (n = 0; n < c->ids; n++)
            producer_add(&p, id, (size_t)snprintf(id, sizeof id, "b%ld", n), payload, (size_t)len, 0);
        producer_send(&p);
        nap(c->pause);
    }
    producer_close(&p);
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    course c = {NULL, 0, 0, 0, 0};
    pthread_t thread;
    server s;
    if (argc == 3) {
        c.ids = atol(argv[1]);
        c.pause = atof(argv[2]);
    }
    if (c.ids < 1 || !(c.longest = calloc((size_t)c.ids, sizeof *c.longest))) {
        fprintf(stderr, "busy IDS PAUSE\n");
        return 2;
    }
    hold_signals();
    server_make(&s, perform, &c);
    server_worker(&s, blank_queue());
    server_start(&s);
    if (pthread_create(&thread, NULL, push, &c) != 0)
        fail("thread", "cannot be started");
    while (!server_watch(&s, 1))
        ;
    __atomic_store_n(&c.ending, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    server_stop(&s);
    qsort(c.longest, (size_t)c.ids, sizeof *c.longest, ascending);
    printf("%ld %.6f %.6f %.6f\n", c.runs, c.longest[c.ids / 2], c.longest[c.ids * 99 / 100], c.longest[c.ids - 1]);
    free(c.longest);
    return 0;
}

/*
 * worker.c - a server of blank jobs in C: takes and settles until SIGTERM.
 *
 *   REDIS_URL, BENCH_THREADS (5), BENCH_QUEUES (0: BlankWorker; else that many queues: blank-0 and so on), BENCH_JOBS
 * and BENCH_RESULT: the file that gets the seconds from the begin of the first of these jobs to the end of the last.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <stdio.h>
#include <stdlib.h>

#include "blank.h"

typedef struct tally {
    long wanted, begun, ended;
    double first;
} tally;

static void report(double seconds)
{
    const char *path = getenv("BENCH_RESULT");
    char temporary[4096];
    FILE *file;
    if (!path)
        return;
    snprintf(temporary, sizeof temporary, "%s.new", path);
    file = fopen(temporary, "w");
    if (!file || fprintf(file, "%.9f", seconds) < 0 || fclose(file) != 0 || rename(temporary, path) != 0)
        fail(path, "cannot be written");
}

static void perform(seriatim_delivery *delivery, size_t thread, void *context)
{
    tally *t = context;
    (void)thread;
    if (__atomic_fetch_add(&t->begun, 1, __ATOMIC_RELAXED) == 0)
        t->first = now();
    if (seriatim_delivery_kind_of(delivery) == SERIATIM_RUN)
        seriatim_delivery_done(delivery, 0);
    if (__atomic_add_fetch(&t->ended, 1, __ATOMIC_ACQ_REL) == t->wanted)
        report(now() - t->first);
}

int main(void)
{
    tally t = {0, 0, 0, 0};
    server s;
    t.wanted = number_of("BENCH_JOBS", 0);
    hold_signals();
    server_make(&s, perform, &t);
    server_workers(&s, number_of("BENCH_QUEUES", 0));
    server_start(&s);
    while (!server_watch(&s, 3600))
        ;
    server_stop(&s);
    return 0;
}

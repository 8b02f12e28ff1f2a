/*
 * trickle.c - a server that notes when each job is performed, and a pusher that pushes by a schedule.
 *
 *   serve: until SIGTERM, then it writes BENCH_RESULT.notes: of each job the time and what it counts from. both: with a
 * second queue, whose jobs take a millisecond and count from 0, and shards that take turns; `fill COUNT` gives it jobs.
 * push: BENCH_PACE, by the rules of bench/apps/count.rb. REDIS_URL, BENCH_THREADS (5).
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blank.h"

#define GRACE 0.5     /* seconds that a pusher may be late at the end */
#define SLICE 10000   /* jobs of the backlog a call */
#define MOST 10000000 /* notes */

typedef struct note {
    double performed, pushed;
} note;

typedef struct notes {
    note *all; /* pages that are not written take no memory */
    long count;
} notes;

static seriatim_queue_settings queue_of(const char *name)
{
    seriatim_queue_settings settings = blank_queue();
    settings.name = name;
    settings.name_len = strlen(name);
    return settings;
}

/* ---- Server -------------------------------------------------------------------------------- */

static void perform(seriatim_delivery *delivery, size_t thread, void *context)
{
    notes *n = context;
    note this = {now(), 0};
    long place;
    (void)thread;
    if (seriatim_delivery_kind_of(delivery) != SERIATIM_RUN)
        return;
    this.pushed = strtod(seriatim_delivery_job(delivery, 0)->payloads[0].data, NULL);
    if (this.pushed <= 0) {
        nap(0.001);
        this.performed = now();
    }
    place = __atomic_fetch_add(&n->count, 1, __ATOMIC_RELAXED);
    if (place >= MOST)
        fail("trickle", "too many jobs to note");
    n->all[place] = this;
    seriatim_delivery_done(delivery, 0);
}

static void write_notes(const notes *n)
{
    const char *result = getenv("BENCH_RESULT");
    char path[4096];
    FILE *file;
    long i;
    snprintf(path, sizeof path, "%s.notes", result ? result : "result");
    file = fopen(path, "w");
    for (i = 0; file && i < n->count; i++)
        fprintf(file, "%.6f %.6f\n", n->all[i].performed, n->all[i].pushed);
    if (!file || fclose(file) != 0)
        fail(path, "cannot be written");
}

static void serve(int both)
{
    notes n = {calloc(MOST, sizeof *n.all), 0};
    server s;
    if (!n.all)
        fail("trickle", "out of memory");
    if (both)
        setenv("BENCH_SEQ", "", 1);
    hold_signals();
    server_make(&s, perform, &n);
    server_worker(&s, queue_of("LatencyWorker"));
    if (both)
        server_worker(&s, queue_of("BacklogWorker"));
    server_start(&s);
    while (!server_watch(&s, 3600))
        ;
    server_stop(&s);
    write_notes(&n);
    free(n.all);
}

/* ---- Pushers ------------------------------------------------------------------------------- */

static void fill(long count)
{
    producer p;
    long first;
    producer_open(&p, queue_of("BacklogWorker"));
    for (first = 1; first <= count; first += SLICE)
        producer_numbers(&p, p.queue, first, first + SLICE - 1 < count ? first + SLICE - 1 : count, "0");
    producer_close(&p);
}

static void push(producer *p, long number, double pushed)
{
    char id[24], payload[64];
    int id_len = snprintf(id, sizeof id, "%ld", number), len = snprintf(payload, sizeof payload, "%.6f", pushed);
    producer_begin(p, p->queue);
    producer_add(p, id, (size_t)id_len, payload, (size_t)len, 0);
    producer_send(p);
}

static void pace(void)
{
    const char *text = getenv("BENCH_PACE");
    double rate, start, seconds, awake;
    long turn, of, number;
    producer p;
    if (!text || sscanf(text, "%lf %lf %lf %ld %ld", &rate, &start, &seconds, &turn, &of) != 5)
        fail("BENCH_PACE", "must be RATE START SECONDS TURN OF");
    awake = start;
    producer_open(&p, queue_of("LatencyWorker"));
    for (number = turn; number < lround(rate * seconds) && now() <= start + seconds + GRACE; number += of) {
        double due = start + (double)number / rate, left;
        while ((left = due - now()) > 0) {
            nap(left);
            awake = now();
        }
        push(&p, number, due > awake ? due : awake);
    }
    producer_close(&p);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "serve") == 0 || strcmp(what, "both") == 0)
        serve(strcmp(what, "both") == 0);
    else if (strcmp(what, "push") == 0)
        pace();
    else if (strcmp(what, "fill") == 0 && argc == 3)
        fill(atol(argv[2]));
    else
        fail("trickle", "serve, both, push or fill COUNT");
    return 0;
}

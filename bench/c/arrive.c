/*
 * arrive.c - `arrive COUNT RATE`: schedules COUNT jobs, each of its own id, and runs them when they come.
 *
 *   Their deliver_at are evenly RATE a second; RATE 0: all are the same. Prints the seconds from the first deliver_at
 * to the last run, then how late the jobs ran: p50, p99 and the most, in seconds. REDIS_URL, BENCH_THREADS (5);
 * BENCH_FIRST (1) is the first id.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "blank.h"

#define SLICE 1000             /* jobs a push */
#define PUSHES_A_SECOND 5000.0 /* jobs, at the least: the first is due when all are scheduled */

typedef struct arrivals {
    double *late; /* by job, in the order in which they ran */
    long wanted, ran;
} arrivals;

static double unix_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A scheduled payload has its deliver_at as its score. */
static void perform(seriatim_delivery *delivery, size_t thread, void *context)
{
    arrivals *a = context;
    long place;
    (void)thread;
    if (seriatim_delivery_kind_of(delivery) != SERIATIM_RUN)
        return;
    place = __atomic_fetch_add(&a->ran, 1, __ATOMIC_RELAXED);
    if (place < a->wanted)
        a->late[place] = unix_now() - seriatim_delivery_job(delivery, 0)->payloads[0].score;
    seriatim_delivery_done(delivery, 0);
}

static void schedule(producer *p, long first, long count, double begin, double rate)
{
    long at;
    for (at = 0; at < count; at++) {
        char id[24];
        seriatim_job job;
        if (at % SLICE == 0)
            producer_begin(p, p->queue);
        seriatim_job_init(&job);
        job.id = id;
        job.id_len = (size_t)snprintf(id, sizeof id, "%ld", first + at);
        job.payload = "\"\"";
        job.payload_len = 2;
        job.deliver_when = SERIATIM_AT;
        job.deliver_time = begin + (rate > 0 ? (double)at / rate : 0);
        if (seriatim_push_job(p->client, &job) != SERIATIM_OK)
            fail("job", seriatim_client_error(p->client)->message);
        if (at % SLICE == SLICE - 1 || at == count - 1)
            producer_send(p);
    }
    if (unix_now() > begin)
        fail("arrive", "the first job was due before the last was scheduled");
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(arrivals *a, double seconds)
{
    qsort(a->late, (size_t)a->wanted, sizeof *a->late, ascending);
    printf("%.6f %.6f %.6f %.6f\n", seconds, a->late[a->wanted / 2], a->late[a->wanted * 99 / 100],
           a->late[a->wanted - 1]);
}

int main(int argc, char **argv)
{
    long count = argc == 3 ? atol(argv[1]) : 0;
    double rate = argc == 3 ? atof(argv[2]) : 0, begin = unix_now() + 3 + (double)count / PUSHES_A_SECOND;
    arrivals a = {NULL, count, 0};
    producer p;
    server s;
    if (count < 1 || !(a.late = calloc((size_t)count, sizeof *a.late))) {
        fprintf(stderr, "arrive COUNT RATE\n");
        return 2;
    }
    hold_signals();
    producer_open(&p, blank_queue());
    schedule(&p, number_of("BENCH_FIRST", 1), count, begin, rate);
    producer_close(&p);
    server_make(&s, perform, &a);
    server_worker(&s, blank_queue());
    server_start(&s);
    while (__atomic_load_n(&a.ran, __ATOMIC_RELAXED) < count && !server_watch(&s, 0.02))
        ;
    report(&a, unix_now() - begin);
    server_stop(&s);
    free(a.late);
    return 0;
}

/*
 * steady.c - `steady WAITING SLICE SECONDS`: pushes and performs side by side, so that WAITING ids always wait.
 *
 *   The queues must hold WAITING jobs already (push fill). Pushes go in slices of SLICE, to each of BENCH_QUEUES queues
 * in turn (0: BlankWorker); performing waits for pushing where it is faster. Prints "begin" when it is warm, then,
 * SECONDS later, the number of jobs performed meanwhile and the seconds. REDIS_URL, BENCH_THREADS (5).
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <stdio.h>
#include <stdlib.h>

#include "blank.h"

#define WARM_UP 1.0       /* seconds at least */
#define WARM_UP_MOST 20.0 /* seconds, by when it has to do */
#define WARM_JOBS 10000   /* performed by then: all shards are in use */

typedef struct balance {
    long pushed, performed, least; /* waiting ids below which nothing is performed */
    int ending;
} balance;

typedef struct pushing {
    balance *balance;
    producer producer;
    long waiting, slice, queues;
} pushing;

static long waits(const balance *b)
{
    return __atomic_load_n(&b->pushed, __ATOMIC_RELAXED) - __atomic_load_n(&b->performed, __ATOMIC_RELAXED);
}

static int ends(const balance *b)
{
    return __atomic_load_n(&b->ending, __ATOMIC_RELAXED);
}

static void perform(seriatim_delivery *delivery, size_t thread, void *context)
{
    balance *b = context;
    (void)thread;
    while (waits(b) < b->least && !ends(b))
        nap(0.0001);
    if (seriatim_delivery_kind_of(delivery) == SERIATIM_RUN)
        seriatim_delivery_done(delivery, 0);
    __atomic_fetch_add(&b->performed, 1, __ATOMIC_RELAXED);
}

static void *push(void *argument)
{
    pushing *p = argument;
    long next = p->waiting + 1, turn;
    for (turn = 0; !ends(p->balance); turn++) {
        if (waits(p->balance) > p->waiting - p->slice) {
            nap(0.0001);
            continue;
        }
        producer_numbers(&p->producer, p->queues ? (size_t)(turn % p->queues) : 0, next, next + p->slice - 1, "\"\"");
        next += p->slice;
        __atomic_fetch_add(&p->balance->pushed, p->slice, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void warm_up(server *s, const balance *b)
{
    double start = now();
    server_watch(s, WARM_UP);
    while (__atomic_load_n(&b->performed, __ATOMIC_RELAXED) < WARM_JOBS && now() - start < WARM_UP_MOST)
        server_watch(s, 0.1);
}

static void measure(server *s, const balance *b, double seconds)
{
    long before;
    double start;
    warm_up(s, b);
    before = __atomic_load_n(&b->performed, __ATOMIC_RELAXED);
    start = now();
    puts("begin");
    fflush(stdout);
    server_watch(s, seconds);
    printf("%ld %.9f\n", __atomic_load_n(&b->performed, __ATOMIC_RELAXED) - before, now() - start);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    balance b = {0, 0, 0, 0};
    pushing p;
    server s;
    pthread_t thread;
    if (argc != 4 || atol(argv[1]) < 2 * atol(argv[2]) || atol(argv[2]) < 1) {
        fprintf(stderr, "steady WAITING SLICE SECONDS, and WAITING at least two slices\n");
        return 2;
    }
    p.balance = &b;
    p.waiting = b.pushed = atol(argv[1]);
    p.slice = atol(argv[2]);
    p.queues = number_of("BENCH_QUEUES", 0);
    b.least = p.waiting - 2 * p.slice;
    hold_signals();
    producer_open_all(&p.producer, p.queues);
    server_make(&s, perform, &b);
    server_workers(&s, p.queues);
    server_start(&s);
    if (pthread_create(&thread, NULL, push, &p) != 0)
        fail("thread", "cannot be started");
    measure(&s, &b, atof(argv[3]));
    __atomic_store_n(&b.ending, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    producer_close(&p.producer);
    server_stop(&s);
    return 0;
}

/*
 * push.c - `push MODE COUNT` pushes blank jobs and prints the seconds that it took.
 *
 *   single: one a call. bulk: BENCH_SLICE a call (10,000). Both connect with a job of their own, 0, before the clock
 * starts. fill: exactly COUNT jobs. wait: the same with payloads of 30 bytes. REDIS_URL; BENCH_FIRST (1) is the first
 * id; BENCH_QUEUES (0: BlankWorker; else that many queues) spreads them, BENCH_SLICE to each in turn. BENCH_DELIVER_IN
 * (0): the seconds until they arrive; BENCH_DELAY (0): until they are due.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blank.h"

#define PAYLOAD_OF_30 "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxx\""

int main(int argc, char **argv)
{
    long count = argc == 3 ? atol(argv[2]) : 0, first = number_of("BENCH_FIRST", 1), at;
    long queues = number_of("BENCH_QUEUES", 0), turn = 0;
    int single = argc == 3 && strcmp(argv[1], "single") == 0, bulk = argc == 3 && strcmp(argv[1], "bulk") == 0;
    int wait = argc == 3 && strcmp(argv[1], "wait") == 0, fill = argc == 3 && strcmp(argv[1], "fill") == 0;
    long slice = single ? 1 : number_of("BENCH_SLICE", 10000);
    const char *payload = wait ? PAYLOAD_OF_30 : "\"\"";
    producer p;
    double start;
    if (!(single || bulk || wait || fill) || count < 1 || slice < 1) {
        fprintf(stderr, "push single|bulk|fill|wait COUNT\n");
        return 2;
    }
    producer_open_all(&p, queues);
    if (single || bulk)
        producer_numbers(&p, 0, 0, 0, payload);
    start = now();
    for (at = 0; at < count; at += slice, turn++)
        producer_numbers(&p, queues ? (size_t)(turn % queues) : 0, first + at,
                         first + (at + slice < count ? at + slice : count) - 1, payload);
    printf("%.9f\n", now() - start);
    producer_close(&p);
    return 0;
}

/* blank.h - what the C programs share: one queue of blank jobs with every default, a producer to it, a server of it. */
#ifndef BLANK_H
#define BLANK_H

#include <pthread.h>
#include <stddef.h>

#include "seriatim.h"

double now(void); /* seconds of a monotonic clock */
void nap(double seconds);
void fail(const char *what, const char *why);     /* says so and ends the process */
long number_of(const char *name, long otherwise); /* of the environment */
const char *redis_url(void);
seriatim_queue_settings blank_queue(void); /* BlankWorker, every setting the default */

/* ---- Producer ------------------------------------------------------------------------------ */

typedef struct producer {
    seriatim_link *link;
    seriatim_client *client;
    size_t queue;
    double deliver_in; /* seconds until the jobs arrive, of BENCH_DELIVER_IN (0: they do at once) */
    double delay;      /* seconds until the jobs of producer_numbers are due, of BENCH_DELAY (0) */
} producer;

void producer_open(producer *p, seriatim_queue_settings settings);
/* To BlankWorker if `queues` is 0, else to blank-0 and so on, which are numbered from 0. */
void producer_open_all(producer *p, long queues);
void producer_close(producer *p);
void producer_begin(producer *p, size_t queue);
void producer_add(producer *p, const char *id, size_t id_len, const char *payload, size_t payload_len, double delay);
void producer_send(producer *p); /* returns when Redis has it */
/* The ids first..last, "1" and so on, in one call. */
void producer_numbers(producer *p, size_t queue, long first, long last, const char *payload);

/* ---- Server -------------------------------------------------------------------------------- */

/* Runs a delivery and says its outcome; several threads call it at once. */
typedef void (*perform_fn)(seriatim_delivery *delivery, size_t thread, void *context);

typedef struct server {
    seriatim_runner *runner;
    perform_fn perform;
    void *context;
    pthread_t *threads;
    size_t thread_count, next_thread;
} server;

/* BENCH_THREADS threads (5); if there is BENCH_SEQ, shards take turns. Workers are added between make and start. */
void server_make(server *s, perform_fn perform, void *context);
void server_worker(server *s, seriatim_queue_settings settings);
void server_workers(server *s, long queues); /* of the queues that producer_open_all pushes to */
void server_start(server *s);
/* Renews the heartbeat and prints warnings for `seconds`, or until SIGTERM or SIGINT comes: then returns 1. */
int server_watch(server *s, double seconds);
void server_stop(server *s); /* finishes what runs, leaves */

/* Blocks SIGTERM and SIGINT in this thread and all that it makes: server_watch takes them. */
void hold_signals(void);

#endif

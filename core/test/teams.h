/* teams.h - a redis-server with an append-only file, and runners on it whose threads note what they were given. */
#ifndef SRT_TEST_TEAMS_H
#define SRT_TEST_TEAMS_H

#include <pthread.h>

#include "server.h"
#include "seriatim.h"

#define IDS 500
#ifdef SMALL
#define JOBS 4000
#else
#define JOBS 20000
#endif
#define THREADS 5

extern redis_process team_redis;
extern char team_url[256]; /* what runners and links connect to */

typedef struct journal {
    pthread_mutex_t lock;
    int expected[IDS]; /* the next payload */
    int disordered, seen;
    double taken_at;
} journal;

typedef struct team {
    seriatim_runner *runner;
    journal *journal;
    pthread_t threads[THREADS];
} team;

/* Of the monotonic clock. */
double seconds(void);
void start_redis(void);
/* cmocka's: Redis runs and answers; it has ended and its folder is gone. */
int set_up(void **state);
int tear_down(void **state);
/* What redis-cli says. */
void ask_cli(const char *command, char *answer, size_t cap);
long commands_processed(void);
seriatim_queue_settings queue_named(const char *name, int shards);
/* Payloads `from` and on, in turn for each of the first `ids` ids. */
void team_push_for(seriatim_link *link, size_t queue, int from, int count, int ids);
void team_push(seriatim_link *link, size_t queue, int from, int count);
void *work(void *argument);
seriatim_runner *runner_new(const char *id, int64_t lease_ms, size_t threads, const seriatim_queue_settings *queues,
                            size_t count);
seriatim_runner *runner_start(const char *id, int64_t lease_ms, const seriatim_queue_settings *queues, size_t count);
/* The next delivery of its first group, which comes within 30 seconds. */
seriatim_delivery *runner_take(seriatim_runner *runner);
void team_start(team *t, journal *j, const char *id, const seriatim_queue_settings *queues, size_t count);
/* Returns the seconds that it took. */
double team_stop(team *t);
int seen(journal *j);
void wait_for(journal *j, team *a, team *b, int count);
seriatim_link *connect_link(const seriatim_queue_settings *q, size_t *queue);

#endif

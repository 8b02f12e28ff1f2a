/*
 * test_threads.c - many host threads on one runner, with signals, lost connections, quiet, stop, abandon and free.
 *
 * For ThreadSanitizer (SERIATIM_TSAN) first of all: what the threads share outside of the runner is relaxed atomics, so
 * that nothing but the runner's own lock orders them. ROUNDS=n makes it longer, SEED=n another one.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "seriatim.h"
#include "server.h"

#define IDS 40
#define MAX_NUMBERS 4000 /* of one id */
#define WORKERS 6
#define PRODUCERS 2

static unsigned char seen[IDS][MAX_NUMBERS];
static int produced[IDS]; /* by one producer alone */
static unsigned seed;

static unsigned roll(unsigned *state, unsigned below)
{
    *state = *state * 1664525 + 1013904223;
    return (*state >> 8) % below;
}

static int load(const int *value)
{
    return __atomic_load_n(value, __ATOMIC_RELAXED);
}

/* ---- Redis --------------------------------------------------------------------------------- */

static redisContext *connect_redis(void)
{
    redisContext *redis = redisConnectUnix(server.socket);
    if (redis && !redis->err)
        return redis;
    if (redis)
        redisFree(redis);
    return NULL;
}

/* ---- The queue ----------------------------------------------------------------------------- */

static seriatim_queue_settings settings_of_queue(void)
{
    seriatim_queue_settings q;
    seriatim_queue_settings_init(&q);
    q.name = "threads";
    q.name_len = 7;
    q.shards_count = 4;
    q.batch_size = 3;
    q.max_retry_count = 1000000;
    q.fold = "list";
    q.ttr = 30;
    return q;
}

typedef struct producer {
    int first; /* its ids: first, first + PRODUCERS, ... */
    int stop;
    pthread_t thread;
    int failed;
} producer;

static int push_round(seriatim_link *link, size_t queue, int first)
{
    seriatim_client *c = seriatim_link_client(link);
    int id, status = seriatim_push_begin(c, queue);
    for (id = first; id < IDS && status == SERIATIM_OK; id += PRODUCERS) {
        char name[16], payload[16];
        seriatim_job job;
        if (produced[id] == MAX_NUMBERS)
            continue;
        seriatim_job_init(&job);
        job.id = name;
        job.id_len = (size_t)snprintf(name, sizeof name, "%d", id);
        job.payload = payload;
        job.payload_len = (size_t)snprintf(payload, sizeof payload, "%d", produced[id]);
        status = seriatim_push_job(c, &job);
    }
    if (status == SERIATIM_OK)
        status = seriatim_push_send(c);
    while (status == SERIATIM_OK && (status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        status = seriatim_link_wait(link);
    for (id = first; id < IDS && status == SERIATIM_OK; id += PRODUCERS)
        produced[id] += produced[id] < MAX_NUMBERS;
    return status;
}

static void *produce(void *argument)
{
    producer *p = argument;
    seriatim_queue_settings settings = settings_of_queue();
    seriatim_link *link;
    size_t queue;
    p->failed = seriatim_link_new(NULL, server.url, &link, NULL);
    if (p->failed)
        return NULL;
    p->failed = seriatim_client_queue(seriatim_link_client(link), &settings, &queue);
    while (!p->failed && !load(&p->stop)) {
        p->failed = push_round(link, queue, p->first);
        pause_ms(5);
    }
    seriatim_link_free(link);
    return NULL;
}

/* ---- Workers ------------------------------------------------------------------------------- */

typedef struct team {
    seriatim_runner *runner;
    pthread_t workers[WORKERS], watcher;
    unsigned seeds[WORKERS];
    int finish, lazy; /* lazy: jobs take long, so that stop finds them running */
    int members;
} team;

static void note(const seriatim_claimed *job)
{
    int id = atoi(job->id);
    size_t i;
    for (i = 0; i < job->payload_count; i++) {
        char number[16] = "";
        memcpy(number, job->payloads[i].data, job->payloads[i].len < 15 ? job->payloads[i].len : 15);
        __atomic_store_n(&seen[id][atoi(number)], 1, __ATOMIC_RELAXED);
    }
}

static void run_one(team *t, seriatim_delivery *d, size_t i, unsigned *state)
{
    unsigned dice = load(&t->finish) ? 0 : roll(state, 20);
    if (seriatim_delivery_kind_of(d) == SERIATIM_DIED) {
        seriatim_delivery_fail(d, i, "worker died", 11, 0);
    } else if (dice == 1) {
        seriatim_delivery_fail(d, i, "wrong", 5, 0.01);
    } else if (dice == 2) {
        seriatim_delivery_release(d, i);
    } else if (dice != 3) { /* 3: without an outcome */
        note(seriatim_delivery_job(d, i));
        seriatim_delivery_done(d, i);
    }
}

static void run_delivery(team *t, seriatim_delivery *d, unsigned *state)
{
    size_t i;
    if (load(&t->lazy))
        pause_ms(roll(state, 30));
    for (i = 0; i < seriatim_delivery_size(d) && seriatim_delivery_kind_of(d) != SERIATIM_EXHAUSTED; i++) {
        if (roll(state, 4) == 0)
            seriatim_runner_extend(t->runner, d, i, 60);
        run_one(t, d, i, state);
    }
    seriatim_runner_settle(t->runner, d);
}

static int take(team *t, seriatim_delivery **d, unsigned *state)
{
    seriatim_candidate candidates[4];
    size_t count;
    if (roll(state, 3))
        return seriatim_runner_take(t->runner, 0, d);
    count = seriatim_runner_candidates(t->runner, 0, candidates, 4);
    if (count == 0)
        return seriatim_runner_take(t->runner, 0, d);
    return seriatim_runner_take_from(t->runner, 0, candidates[roll(state, (unsigned)count)].shard, d);
}

static void *work(void *argument)
{
    team *t = argument;
    unsigned state = t->seeds[__atomic_fetch_add(&t->members, 1, __ATOMIC_RELAXED)];
    seriatim_delivery *d;
    int status;
    while ((status = take(t, &d, &state)) != SERIATIM_CLOSED) {
        if (status == SERIATIM_OK)
            run_delivery(t, d, &state);
        else
            seriatim_runner_wait(t->runner, 0, 20);
    }
    return NULL;
}

/* Ask what any thread may ask. */
static void *watch(void *argument)
{
    team *t = argument;
    seriatim_event event;
    while (!seriatim_runner_stopped(t->runner)) {
        seriatim_runner_pulse(t->runner);
        while (seriatim_runner_event(t->runner, &event) == SERIATIM_OK)
            ;
        (void)seriatim_runner_stats_now(t->runner);
        pause_ms(1);
    }
    return NULL;
}

static void team_start(team *t, unsigned number)
{
    seriatim_queue_settings queue = settings_of_queue();
    seriatim_node_settings node;
    seriatim_error error;
    char id[32];
    size_t worker;
    int i;
    memset(t, 0, sizeof *t);
    memset(&node, 0, sizeof node);
    snprintf(id, sizeof id, "node-%u", number);
    node.id = id;
    node.lease_ms = 10000;
    node.poll_ms = 50;
    node.threads = WORKERS;
    if (seriatim_runner_new(&node, server.url, &t->runner, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
    assert_int_equal(seriatim_runner_worker(t->runner, &queue, &worker, &error), SERIATIM_OK);
    assert_int_equal(seriatim_runner_start(t->runner, &error), SERIATIM_OK);
    for (i = 0; i < WORKERS; i++)
        t->seeds[i] = seed + number * 100 + (unsigned)i;
    for (i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&t->workers[i], NULL, work, t), 0);
    assert_int_equal(pthread_create(&t->watcher, NULL, watch, t), 0);
}

static void team_end(team *t)
{
    int i;
    for (i = 0; i < WORKERS; i++)
        pthread_join(t->workers[i], NULL);
    pthread_join(t->watcher, NULL);
    seriatim_runner_free(t->runner);
}

/* ---- The storm ----------------------------------------------------------------------------- */

static void on_signal(int number)
{
    (void)number;
}

/* For a while: signals into every thread's waits, connections and scripts gone. */
static void disturb(team *t, redisContext *redis, unsigned *state, int times)
{
    while (times-- > 0) {
        unsigned dice = roll(state, 40);
        pthread_kill(t->workers[roll(state, WORKERS)], SIGUSR1);
        if (dice == 0)
            freeReplyObject(redisCommand(redis, "CLIENT KILL TYPE normal"));
        else if (dice == 1)
            freeReplyObject(redisCommand(redis, "CLIENT KILL TYPE pubsub"));
        else if (dice == 2)
            freeReplyObject(redisCommand(redis, "SCRIPT FLUSH"));
        else if (dice == 3)
            freeReplyObject(redisCommand(redis, "CLIENT PAUSE 20"));
        pause_ms(4);
    }
}

static void one_life(redisContext *redis, unsigned *state, unsigned number)
{
    team t;
    team_start(&t, number);
    disturb(&t, redis, state, 150);
    __atomic_store_n(&t.lazy, 1, __ATOMIC_RELAXED);
    disturb(&t, redis, state, 20);
    if (roll(state, 2))
        seriatim_runner_quiet(t.runner);
    seriatim_runner_stop(t.runner);
    if (number % 2) {
        disturb(&t, redis, state, 3);
        seriatim_runner_abandon(t.runner);
    }
    team_end(&t);
}

static int missing(void)
{
    int id, i, count = 0;
    for (id = 0; id < IDS; id++)
        for (i = 0; i < produced[id]; i++)
            count += !__atomic_load_n(&seen[id][i], __ATOMIC_RELAXED);
    return count;
}

static void finish(unsigned number)
{
    team t;
    int i;
    team_start(&t, number);
    __atomic_store_n(&t.finish, 1, __ATOMIC_RELAXED);
    for (i = 0; i < 3000 && missing() > 0; i++)
        pause_ms(20);
    seriatim_runner_stop(t.runner);
    team_end(&t);
}

static void test_many_threads_on_one_runner(void **state)
{
    const char *rounds = getenv("ROUNDS"), *wanted = getenv("SEED");
    unsigned dice, number, count = rounds ? (unsigned)atoi(rounds) : 4;
    struct sigaction action;
    producer producers[PRODUCERS];
    redisContext *redis = connect_redis();
    int i;
    (void)state;
    assert_non_null(redis);
    seed = wanted ? (unsigned)strtoul(wanted, NULL, 10) : getenv("SOAK") ? (unsigned)time(NULL) : 1;
    dice = seed;
    print_message("SEED=%u\n", seed);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal; /* without SA_RESTART */
    sigaction(SIGUSR1, &action, NULL);
    memset(producers, 0, sizeof producers);
    for (i = 0; i < PRODUCERS; i++) {
        producers[i].first = i;
        pthread_create(&producers[i].thread, NULL, produce, &producers[i]);
    }
    for (number = 1; number <= count; number++)
        one_life(redis, &dice, number);
    for (i = 0; i < PRODUCERS; i++) {
        __atomic_store_n(&producers[i].stop, 1, __ATOMIC_RELAXED);
        pthread_join(producers[i].thread, NULL);
        assert_int_equal(producers[i].failed, SERIATIM_OK);
    }
    finish(number);
    print_message("%d payloads of an id, %d in all lost\n", produced[0], missing());
    assert_int_equal(missing(), 0);
    assert_true(produced[0] > 0);
    redisFree(redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_many_threads_on_one_runner, start_server, stop_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

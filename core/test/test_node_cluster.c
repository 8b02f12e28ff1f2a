/* test_node_cluster.c - two runners on a real Redis Cluster: slots that move, failovers, killed and frozen masters. */
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define SRT_SCRIPT_TEXTS
#include "redis_cluster.h"
#include "teams.h"
#include "wire/keys.h"
#include "wire/script.h"

#define SHARDS 24
#define NAMES 240 /* ids */
#define LEASE_MS 10000
#define WOKEN 30 /* ids, of most shards */

#define X(name, sha) {srt_script_text_##name, sizeof srt_script_text_##name - 1},
static const struct {
    const char *text;
    size_t len;
} texts[] = {SRT_SCRIPTS(X)};
#undef X

/* What the threads were given, of each id. */
static struct {
    pthread_mutex_t lock;
    int next[NAMES], runs[NAMES]; /* the next payload; how many threads run the id */
    int done, disordered, overlaps;
} seen_jobs;

static int start_cluster(void **state)
{
    memset(&seen_jobs, 0, sizeof seen_jobs);
    pthread_mutex_init(&seen_jobs.lock, NULL);
    redis_cluster_set_up(state);
    snprintf(team_url, sizeof team_url, "%s", cluster.url);
    return 0;
}

static int stop_cluster(void **state)
{
    redis_cluster_tear_down(state);
    pthread_mutex_destroy(&seen_jobs.lock);
    return 0;
}

/* ---- The producer ---------------------------------------------------------------------------- */

typedef struct producer {
    pthread_t thread;
    redisContext *redis[CLUSTER_MOST_NODES];
    size_t at[SHARDS]; /* which node the shard was last pushed to */
    long sequences[SHARDS];
    int count;  /* payloads of each id */
    int lone;   /* masters may have no replica: nothing waits for one */
    int failed; /* a shard took nothing for a minute */
} producer;

static redisContext *connection(producer *p, size_t node)
{
    struct timeval limit = {1, 0};
    redisContext *c = p->redis[node];
    if (c && c->err) {
        redisFree(c);
        c = NULL;
    }
    if (!c && (c = redisConnectWithTimeout("127.0.0.1", cluster.nodes[node].port, limit)) != NULL)
        redisSetTimeout(c, limit);
    return p->redis[node] = c;
}

/* 1: the job is written, and a replica has it if `replicas` is 1. */
static int try_push(producer *p, size_t node, unsigned shard, const char *id, const char *payload, int replicas)
{
    char keys[SRT_SHARD_KEYS + 1][80], count[16], sequence[24];
    const char *argv[64] = {"EVAL", texts[srt_script_push].text, count};
    size_t lens[64] = {4, texts[srt_script_push].len}, n = 3, i;
    redisContext *c = connection(p, node);
    redisReply *reply;
    int ok;
    if (!c || c->err)
        return 0;
    for (i = 0; i <= SRT_SHARD_KEYS; i++) {
        static const char *const kinds[] = {"state", SRT_GUARD, "push:producer"};
        snprintf(keys[i], sizeof keys[i], "seriatim:{moving/%u}:%s", shard, kinds[i]);
        argv[n++] = keys[i];
    }
    snprintf(count, sizeof count, "%d", (int)n - 3);
    snprintf(sequence, sizeof sequence, "%ld", p->sequences[shard]);
    {
        const char *const rest[] = {"1", sequence, "list", "keep", "2", "0", id, payload};
        for (i = 0; i < sizeof rest / sizeof *rest; i++)
            argv[n++] = rest[i];
    }
    for (i = 2; i < n; i++)
        lens[i] = strlen(argv[i]);
    reply = redisCommandArgv(c, (int)n, argv, lens);
    ok = reply && reply->type == REDIS_REPLY_STRING;
    if (reply)
        freeReplyObject(reply);
    if (!ok || !replicas)
        return ok;
    reply = redisCommand(c, "WAIT 1 900");
    ok = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer >= 1;
    if (reply)
        freeReplyObject(reply);
    return ok;
}

static void push_one(producer *p, int name, int number)
{
    char id[16], payload[16];
    double until = seconds() + 60;
    unsigned shard;
    snprintf(id, sizeof id, "%d", name);
    snprintf(payload, sizeof payload, "%d", number);
    shard = seriatim_shard_of(id, strlen(id), SHARDS);
    p->sequences[shard]++;
    while (!try_push(p, p->at[shard], shard, id, payload, !p->lone)) {
        if (seconds() > until) {
            p->failed = 1;
            return;
        }
        p->at[shard] = (p->at[shard] + 1) % cluster.count;
        pause_ms(2);
    }
}

static void *produce(void *argument)
{
    producer *p = argument;
    int number, name;
    for (number = 0; number < p->count && !p->failed; number++)
        for (name = 0; name < NAMES && !p->failed; name++) {
            push_one(p, name, number);
            pause_ms(1); /* so that few jobs last as long as what is done to the cluster */
        }
    return NULL;
}

static void producer_start(producer *p, int count)
{
    memset(p, 0, sizeof *p);
    p->count = count;
    assert_int_equal(pthread_create(&p->thread, NULL, produce, p), 0);
}

static void producer_free(producer *p)
{
    size_t i;
    for (i = 0; i < CLUSTER_MOST_NODES; i++)
        if (p->redis[i])
            redisFree(p->redis[i]);
    assert_false(p->failed);
}

static void producer_end(producer *p)
{
    pthread_join(p->thread, NULL);
    producer_free(p);
}

/* ---- The runners ------------------------------------------------------------------------------ */

static void begin_run(const seriatim_claimed *job)
{
    int name = atoi(job->id);
    size_t i;
    pthread_mutex_lock(&seen_jobs.lock);
    seen_jobs.overlaps += seen_jobs.runs[name]++ > 0;
    for (i = 0; i < job->payload_count; i++) {
        char text[16] = "";
        int number;
        memcpy(text, job->payloads[i].data, job->payloads[i].len < 15 ? job->payloads[i].len : 15);
        number = atoi(text);
        seen_jobs.disordered += number > seen_jobs.next[name];
        if (number == seen_jobs.next[name]) {
            seen_jobs.next[name]++;
            seen_jobs.done++;
        }
    }
    pthread_mutex_unlock(&seen_jobs.lock);
}

static void end_run(const seriatim_claimed *job)
{
    pthread_mutex_lock(&seen_jobs.lock);
    seen_jobs.runs[atoi(job->id)]--;
    pthread_mutex_unlock(&seen_jobs.lock);
}

static void *run_jobs(void *argument)
{
    team *t = argument;
    seriatim_delivery *d;
    int status;
    while ((status = seriatim_runner_take(t->runner, 0, &d)) != SERIATIM_CLOSED) {
        size_t i;
        if (status == SERIATIM_AGAIN) {
            seriatim_runner_wait(t->runner, 0, -1);
            continue;
        }
        for (i = 0; i < seriatim_delivery_size(d); i++)
            begin_run(seriatim_delivery_job(d, i));
        pause_ms(1);
        for (i = 0; i < seriatim_delivery_size(d); i++) {
            end_run(seriatim_delivery_job(d, i));
            seriatim_delivery_done(d, i);
        }
        seriatim_runner_settle(t->runner, d);
    }
    return NULL;
}

static void start_team(team *t, const char *id, const seriatim_queue_settings *queue)
{
    size_t i;
    t->runner = runner_start(id, LEASE_MS, queue, 1);
    for (i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t->threads[i], NULL, run_jobs, t), 0);
}

static int done(void)
{
    int count;
    pthread_mutex_lock(&seen_jobs.lock);
    count = seen_jobs.done;
    pthread_mutex_unlock(&seen_jobs.lock);
    return count;
}

/* Two runners, whose events are read. */
typedef struct crew {
    team teams[2];
    pthread_t pulses;
    int ending;
} crew;

static void *pulse(void *argument)
{
    crew *c = argument;
    seriatim_event event;
    int i;
    while (!__atomic_load_n(&c->ending, __ATOMIC_RELAXED)) {
        for (i = 0; i < 2; i++) {
            seriatim_runner_pulse(c->teams[i].runner);
            while (seriatim_runner_event(c->teams[i].runner, &event) == SERIATIM_OK)
                if (getenv("SERIATIM_TEST_EVENTS"))
                    print_message("%d: %s\n", i, event.text);
        }
        pause_ms(50);
    }
    return NULL;
}

static void crew_start(crew *c, const seriatim_queue_settings *queue)
{
    memset(c, 0, sizeof *c);
    start_team(&c->teams[0], "one", queue);
    start_team(&c->teams[1], "two", queue);
    assert_int_equal(pthread_create(&c->pulses, NULL, pulse, c), 0);
}

static void crew_end(crew *c)
{
    __atomic_store_n(&c->ending, 1, __ATOMIC_RELAXED);
    pthread_join(c->pulses, NULL);
    assert_true(team_stop(&c->teams[0]) < 30.0);
    assert_true(team_stop(&c->teams[1]) < 30.0);
}

/* Two runners do all jobs in order while `disturb` is done to the cluster. Returns the overlaps of runs of one id. */
static int storm(int count, void (*disturb)(void))
{
    seriatim_queue_settings queue = queue_named("moving", SHARDS);
    crew c;
    producer p;
    double until;
    crew_start(&c, &queue);
    producer_start(&p, count);
    disturb();
    producer_end(&p);
    until = seconds() + 60;
    while (done() < count * NAMES && seconds() < until)
        pause_ms(5);
    if (done() < count * NAMES)
        fail_msg("%d of %d jobs were done", done(), count * NAMES);
    crew_end(&c);
    assert_int_equal(seen_jobs.disordered, 0);
    print_message("%d jobs, %d overlaps\n", seen_jobs.done, seen_jobs.overlaps);
    return seen_jobs.overlaps;
}

/* ---- What is done to the cluster --------------------------------------------------------------- */

static void nothing(void)
{
}

static void move_slots(void)
{
    int i;
    for (i = 0; i < 2 * SHARDS; i++) {
        char key[64];
        size_t to;
        int slot;
        snprintf(key, sizeof key, "seriatim:{moving/%d}:state", i % SHARDS);
        slot = cluster_slot(&cluster, key);
        to = (cluster_master_of(&cluster, slot) + 1) % CLUSTER_MASTERS;
        cluster_move_slot(&cluster, slot, to);
        while (cluster_master_of(&cluster, slot) != to)
            pause_ms(10);
        if (i % 8 == 0)
            cluster_do(&cluster, (size_t)i / 8 % CLUSTER_MASTERS, "SCRIPT FLUSH");
    }
}

/* Who serves the i-th third of the slots. */
static size_t master_of_third(size_t i)
{
    return cluster_master_of(&cluster, (int)i * 16384 / CLUSTER_MASTERS);
}

static void fail_over(void)
{
    size_t i;
    for (i = 0; i < CLUSTER_MASTERS; i++) {
        cluster_failover(&cluster, master_of_third(i));
        cluster_await_whole(&cluster);
    }
}

static void kill_masters(void)
{
    size_t i;
    for (i = 0; i < CLUSTER_MASTERS; i++) {
        size_t master = master_of_third(i);
        cluster_kill(&cluster, master);
        cluster_await_successor(&cluster, master);
        cluster_restart(&cluster, master);
        cluster_await_whole(&cluster);
    }
}

static void freeze_masters(void)
{
    size_t i;
    for (i = 0; i < CLUSTER_MASTERS; i++) {
        size_t master = master_of_third(i);
        cluster_freeze(&cluster, master);
        cluster_await_successor(&cluster, master);
        pause_ms(500);
        cluster_thaw(&cluster, master);
        cluster_await_whole(&cluster);
    }
}

static void test_shards_lie_on_all_masters_and_their_jobs_are_done(void **state)
{
    int shards[CLUSTER_MASTERS] = {0}, i;
    (void)state;
    assert_int_equal(storm(10, nothing), 0);
    for (i = 0; i < SHARDS; i++) {
        char key[64];
        snprintf(key, sizeof key, "seriatim:{moving/%d}:state", i);
        shards[cluster_master_of(&cluster, cluster_slot(&cluster, key))]++;
    }
    for (i = 0; i < CLUSTER_MASTERS; i++)
        assert_true(shards[i] > 0);
}

/* Pushes the next payload of some ids to runners that sleep. Returns the seconds until each was done. */
static double push_to_sleepers(producer *p, int number)
{
    double begun, took = 0;
    int i;
    for (i = 0; i < WOKEN; i++) {
        int before = done();
        pause_ms(20);
        begun = seconds();
        push_one(p, i, number);
        while (done() == before && seconds() < begun + 60)
            pause_ms(1);
        took += seconds() - begun;
    }
    print_message("%.0f ms from push to run\n", took * 1000 / WOKEN);
    return took;
}

/* A busy machine needs a while until the runners sleep and listen everywhere; one that hears nothing never comes so
 * far. */
static void await_wakes(producer *p, int *number)
{
    int tries = 5;
    do {
        assert_true(tries-- > 0);
        pause_ms(1000);
    } while (push_to_sleepers(p, (*number)++) >= WOKEN / 4.0);
}

/*
 * A node that hears nothing polls its shards once a second. So these jobs would take half a second each if no message
 * came from the masters of their shards, or none any more when the master was killed to which the node listened.
 */
static void test_pushes_wake_the_owners_of_their_shards(void **state)
{
    seriatim_queue_settings queue = queue_named("moving", SHARDS);
    crew c;
    producer p;
    int number = 0;
    (void)state;
    memset(&p, 0, sizeof p);
    crew_start(&c, &queue);
    await_wakes(&p, &number);
    kill_masters();
    await_wakes(&p, &number);
    crew_end(&c);
    producer_free(&p);
}

/* Nothing ends the connection for wake-ups to that node. The URL spells it otherwise than the map of the cluster. */
static void test_pushes_wake_owners_that_listened_to_a_node_which_has_left_the_cluster(void **state)
{
    seriatim_queue_settings queue = queue_named("moving", SHARDS);
    long long listener;
    double until;
    size_t node = 0;
    crew c;
    producer p;
    int number = 0;
    (void)state;
    memset(&p, 0, sizeof p);
    p.lone = 1;
    snprintf(team_url, sizeof team_url, "redis+cluster://localhost:%d", cluster.nodes[0].port);
    crew_start(&c, &queue);
    await_wakes(&p, &number);
    while ((listener = cluster_listener(&cluster, node)) == 0)
        assert_true(++node < cluster.count);
    await_wakes(&p, &number);
    assert_int_equal(cluster_listener(&cluster, node), listener);
    cluster_leave(&cluster, node);
    for (until = seconds() + 60; cluster_listener(&cluster, node) && seconds() < until;)
        pause_ms(10);
    assert_int_equal(cluster_listener(&cluster, node), 0);
    await_wakes(&p, &number);
    crew_end(&c);
    producer_free(&p);
}

#define MEASURED 6 /* queues; their layouts lie on all masters */

/* A node finds the queues by SCAN of each master, and measures each at the master that has it. */
static void test_queues_of_all_masters_are_measured(void **state)
{
    static const char *const names[MEASURED] = {"a", "b", "c", "d", "e", "f"};
    seriatim_queue_settings queues[MEASURED];
    seriatim_runner *runner;
    int i, masters[CLUSTER_MASTERS] = {0};
    double until = seconds() + 60;
    (void)state;
    for (i = 0; i < MEASURED; i++)
        queues[i] = queue_named(names[i], 2);
    runner = runner_start("one", LEASE_MS, queues, MEASURED);
    for (i = 0; i < MEASURED;) {
        char key[64];
        size_t master;
        redisReply *reply;
        snprintf(key, sizeof key, "seriatim:{%s}:history", names[i]);
        master = cluster_master_of(&cluster, cluster_slot(&cluster, key));
        reply = cluster_call(&cluster, master, "EXISTS %s", key);
        masters[master]++;
        i += reply->integer == 1;
        freeReplyObject(reply);
        seriatim_runner_pulse(runner);
        if (seconds() > until)
            fail_msg("there is no %s", key);
        pause_ms(20);
    }
    for (i = 0; i < CLUSTER_MASTERS; i++)
        assert_true(masters[i] > 0);
    seriatim_runner_free(runner);
}

static void test_slots_move_and_scripts_are_forgotten(void **state)
{
    (void)state;
    assert_int_equal(storm(20, move_slots), 0);
}

static void test_masters_fail_over_by_command(void **state)
{
    (void)state;
    assert_int_equal(storm(10, fail_over), 0);
}

static void test_masters_are_killed(void **state)
{
    (void)state;
    storm(10, kill_masters);
}

static void test_masters_freeze(void **state)
{
    (void)state;
    storm(10, freeze_masters);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shards_lie_on_all_masters_and_their_jobs_are_done, start_cluster,
                                        stop_cluster),
        cmocka_unit_test_setup_teardown(test_pushes_wake_the_owners_of_their_shards, start_cluster, stop_cluster),
        cmocka_unit_test_setup_teardown(test_pushes_wake_owners_that_listened_to_a_node_which_has_left_the_cluster,
                                        start_cluster, stop_cluster),
        cmocka_unit_test_setup_teardown(test_queues_of_all_masters_are_measured, start_cluster, stop_cluster),
        cmocka_unit_test_setup_teardown(test_slots_move_and_scripts_are_forgotten, start_cluster, stop_cluster),
        cmocka_unit_test_setup_teardown(test_masters_fail_over_by_command, start_cluster, stop_cluster),
        cmocka_unit_test_setup_teardown(test_masters_are_killed, start_cluster, stop_cluster),
        cmocka_unit_test_setup_teardown(test_masters_freeze, start_cluster, stop_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

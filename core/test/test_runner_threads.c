/* test_runner_threads.c - what each thread of a runner is given, when it is woken, and starts that fail; against a real
 * redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "teams.h"

/* A thread that waits, played by the test's own. */
typedef struct waiting_thread {
    seriatim_runner *runner;
    seriatim_waiter *own;
    int fd;
} waiting_thread;

/* Takes, or begins to wait. Returns what it took, or NULL. */
static seriatim_delivery *take_or_wait(waiting_thread *s)
{
    seriatim_delivery *d;
    for (;;) {
        if (seriatim_runner_take(s->runner, 0, &d) == SERIATIM_OK)
            return d;
        s->fd = seriatim_runner_wait_begin(s->runner, 0, &s->own);
        if (s->own)
            return NULL;
        seriatim_runner_clear(s->runner, 0);
    }
}

static void wait_begin(waiting_thread *s)
{
    assert_null(take_or_wait(s));
}

static int is_woken(const waiting_thread *s, int timeout_ms)
{
    struct pollfd fd = {s->fd, POLLIN, 0};
    return poll(&fd, 1, timeout_ms) == 1;
}

static seriatim_delivery *wait_end_and_take(waiting_thread *s)
{
    seriatim_delivery *d = NULL;
    while (!d) {
        assert_true(is_woken(s, 30000));
        seriatim_runner_wait_end(s->runner, 0, s->own);
        d = take_or_wait(s);
    }
    return d;
}

static void finish(seriatim_runner *runner, seriatim_delivery *d)
{
    size_t i;
    for (i = 0; i < seriatim_delivery_size(d); i++)
        seriatim_delivery_done(d, i);
    seriatim_runner_settle(runner, d);
}

static void pause_for_shards(seriatim_runner *runner, size_t shards)
{
    double until = seconds() + 30;
    while (seriatim_runner_stats_now(runner).shards < shards && seconds() < until)
        pause_ms(2);
    pause_ms(100); /* until the first claims are answered: threads are told to look then */
}

static void test_threads_are_called_one_by_one(void **state)
{
    seriatim_queue_settings q = queue_named("waiters", 1);
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    seriatim_runner *runner = runner_start("waiters", 10000, &q, 1);
    waiting_thread first = {runner, NULL, -1}, second = {runner, NULL, -1};
    seriatim_delivery *one, *other;
    int pushed, called = 1;
    (void)state;
    pause_for_shards(runner, 1);
    for (pushed = 0; called && pushed < 20; pushed++) { /* one who is slow to come is helped */
        wait_begin(&first);
        wait_begin(&second);
        team_push(link, queue, pushed, 1);
        finish(runner, wait_end_and_take(&second)); /* the one that waits least */
        called = is_woken(&first, 50);
        seriatim_runner_wait_end(runner, 0, first.own);
    }
    assert_false(called);
    wait_begin(&first);
    wait_begin(&second);
    team_push(link, queue, pushed, 1);
    one = wait_end_and_take(&second);
    team_push(link, queue, pushed + 1, 1);
    other = wait_end_and_take(&first); /* as the other thread has work */
    finish(runner, one);
    finish(runner, other);
    seriatim_runner_free(runner);
    seriatim_link_free(link);
}

/* Takes a job of each id, one after the other; the last is kept. */
static seriatim_delivery *take_each(seriatim_runner *runner, seriatim_link *link, size_t queue, int from)
{
    double until = seconds() + 60;
    seriatim_delivery *d = NULL;
    int done;
    team_push(link, queue, from, IDS);
    for (done = 0; done < IDS && seconds() < until;) {
        if (seriatim_runner_settle_and_take(runner, d, 0, &d) == SERIATIM_OK) {
            seriatim_delivery_done(d, 0);
            done++;
        } else {
            d = NULL;
            seriatim_runner_wait(runner, 0, 5);
        }
    }
    assert_int_equal(done, IDS);
    return d;
}

static void test_tiny_jobs_leave_threads_asleep(void **state)
{
    seriatim_queue_settings q = queue_named("tiny", 1);
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    seriatim_runner *runner = runner_start("tiny", 10000, &q, 1);
    waiting_thread waiter = {runner, NULL, -1};
    seriatim_delivery *kept = NULL;
    int from = 0, called = 1;
    (void)state;
    pause_for_shards(runner, 1);
    for (; called && from < 20 * IDS; from += IDS) { /* a machine may be busy with other things */
        wait_begin(&waiter);
        kept = take_each(runner, link, queue, from);
        called = is_woken(&waiter, 0);
        if (called) {
            seriatim_runner_wait_end(runner, 0, waiter.own);
            seriatim_runner_settle(runner, kept);
        }
    }
    assert_false(called);
    team_push(link, queue, from, 1);
    finish(runner, wait_end_and_take(&waiter)); /* who did tiny jobs has one that lasts */
    seriatim_runner_settle(runner, kept);
    seriatim_runner_free(runner);
    seriatim_link_free(link);
}

/*
 * Takes deliveries until they have this many ids at least, or 30 s have passed, and none comes for a while; returns how
 * many were added.
 */
static size_t take_all(seriatim_runner *runner, seriatim_delivery **held, size_t count, size_t cap, size_t least)
{
    double until = seconds() + 0.5, at_most = seconds() + 30;
    size_t before = count, ids = 0;
    while (count < cap && seconds() < (ids < least ? at_most : until)) {
        seriatim_runner_pulse(runner);
        if (seriatim_runner_take(runner, 0, &held[count]) == SERIATIM_OK) {
            ids += seriatim_delivery_size(held[count++]);
            until = seconds() + 0.5;
        } else {
            pause_ms(5);
        }
    }
    return count - before;
}

static size_t ids_of(seriatim_delivery *const *held, size_t count, size_t worker)
{
    size_t i, ids = 0;
    for (i = 0; i < count; i++)
        ids += seriatim_delivery_worker(held[i]) == worker ? seriatim_delivery_size(held[i]) : 0;
    return ids;
}

/* Ids of the limited worker that run when this many of its 20 have ended. */
static size_t run_of(size_t done)
{
    return 20 - done < 2 ? 20 - done : 2;
}

static void test_max_running_limits_one_worker_of_a_process(void **state)
{
    seriatim_queue_settings queues[2];
    seriatim_delivery *held[64];
    seriatim_runner *runner;
    seriatim_link *links[2];
    size_t queue, count = 0, done = 0, i;
    (void)state;
    queues[0] = queue_named("limited", 3);
    queues[0].max_running = 2;
    queues[0].batch_size = 10;
    queues[1] = queue_named("free", 1);
    for (i = 0; i < 2; i++) {
        links[i] = connect_link(&queues[i], &queue);
        team_push(links[i], queue, 0, 20);
    }
    runner = runner_start("limiting", 10000, queues, 2);
    count = take_all(runner, held, 0, 64, 20 + 2);
    assert_int_equal(ids_of(held, count, 1), 20);
    while (done < 20) { /* of the limited worker 2 ids run, and each of its 3 shards has at most one ahead */
        assert_int_equal(ids_of(held, count, 0), run_of(done));
        assert_true(seriatim_runner_stats_now(runner).claimed <= 3);
        for (i = 0; seriatim_delivery_worker(held[i]) != 0; i++) {
        }
        done += seriatim_delivery_size(held[i]);
        finish(runner, held[i]);
        held[i] = held[--count];
        count += take_all(runner, held, count, 64, run_of(done) - ids_of(held, count, 0));
    }
    while (count > 0)
        finish(runner, held[--count]);
    seriatim_runner_free(runner);
    seriatim_link_free(links[0]);
    seriatim_link_free(links[1]);
}

/* The limit of ids of one shard that a node has at once, and the most ids of one delivery. */
#define RUNS 4000
#define BATCH 1000

static void test_r_run_9_a_node_limits_the_runs_of_one_shard(void **state)
{
    seriatim_queue_settings q = queue_named("wide", 1);
    seriatim_delivery *held[64];
    seriatim_runner *runner;
    seriatim_link *link;
    seriatim_error error;
    size_t queue, count, done = 0;
    (void)state;
    q.batch_size = BATCH;
    link = connect_link(&q, &queue);
    team_push_for(link, queue, 0, 2 * RUNS, 2 * RUNS);
    runner = runner_new("wide", 10000, 2 * RUNS / BATCH, &q, 1);
    assert_int_equal(seriatim_runner_start(runner, &error), SERIATIM_OK);
    while (done < 2 * RUNS) {
        count = take_all(runner, held, 0, 64, 1);
        assert_in_range(count, 1, 64);
        assert_in_range(ids_of(held, count, 0) + seriatim_runner_stats_now(runner).claimed, 1, RUNS);
        done += ids_of(held, count, 0);
        while (count > 0)
            finish(runner, held[--count]);
    }
    seriatim_runner_free(runner);
    seriatim_link_free(link);
}

/* How many the process has open. */
static int descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(all);
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

/* As a host does whose thread was killed between its wake and wait_end. */
static void test_a_runner_frees_the_waiter_of_a_woken_thread(void **state)
{
    seriatim_queue_settings q = queue_named("called", 1);
    int before = descriptors();
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    seriatim_runner *runner = runner_start("called", 10000, &q, 1);
    waiting_thread waiter = {runner, NULL, -1};
    (void)state;
    pause_for_shards(runner, 1);
    wait_begin(&waiter);
    team_push(link, queue, 0, 1);
    assert_true(is_woken(&waiter, 30000));
    seriatim_runner_free(runner);
    seriatim_link_free(link);
    assert_int_equal(descriptors(), before);
}

/* A start with a limited number of free descriptors. */
static int start_with(seriatim_runner *runner, int free_descriptors)
{
    struct rlimit usual, few;
    seriatim_error error;
    int next = dup(0), status;
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    few = usual;
    few.rlim_cur = (rlim_t)(next + free_descriptors);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    status = seriatim_runner_start(runner, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    return status;
}

/* It describes its node once: two bars would make its own text part of the list of queues. */
static void test_a_start_that_failed_is_tried_again(void **state)
{
    seriatim_queue_settings q = queue_named("again", 1);
    int before = descriptors();
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    seriatim_runner *runner = runner_new("again", 10000, THREADS, &q, 1);
    char answer[256], *bar;
    (void)state;
    assert_int_equal(start_with(runner, 0), SERIATIM_IO);
    assert_int_equal(start_with(runner, 2), SERIATIM_IO); /* the second pipe */
    assert_int_equal(descriptors(), before);
    assert_int_equal(start_with(runner, 100), SERIATIM_OK);
    pause_for_shards(runner, 1);
    ask_cli("hget seriatim:{/nodes}:info again", answer, sizeof answer);
    bar = strchr(answer, '|');
    assert_non_null(bar);
    assert_null(strchr(bar + 1, '|'));
    seriatim_runner_free(runner);
    seriatim_link_free(link);
    assert_int_equal(descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_threads_are_called_one_by_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tiny_jobs_leave_threads_asleep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_max_running_limits_one_worker_of_a_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_r_run_9_a_node_limits_the_runs_of_one_shard, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_runner_frees_the_waiter_of_a_woken_thread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_start_that_failed_is_tried_again, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_mover_notices.c - what retries_exhausted is still to be told of while a queue gets another number of shards:
 * servers with a hook that takes its time, on a real redis-server.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "move_fixture.h"
#include "reshard_fixture.h"

#define RETRIES 25 /* max_retry_count */

static live_log run_log;

static long long notices_in(unsigned shard)
{
    redisReply *reply = redis("ZCARD seriatim:{Q/%u}:tellers", shard);
    long long count = reply->integer;
    freeReplyObject(reply);
    return count;
}

static int is_dead_in(unsigned shard, const char *id)
{
    redisReply *reply = redis("HEXISTS seriatim:{Q/%u}:dead %s", shard, id);
    int is = (int)reply->integer;
    freeReplyObject(reply);
    return is;
}

/* A queue of three shards, and a server whose hook is being told that the retries of the id have ended. */
static fixture open_telling(live_node *n, const char *id)
{
    fixture f = open_queue(3, "list");
    int64_t until = live_now() + LIVE_MOST_MS;
    memset(&run_log, 0, sizeof run_log);
    live_hook = 1;
    live_start(n, "teller", 3, 1, &run_log);
    live_await_shards(n, 3);
    n->fails = 1;
    n->hook_ms = 10 * LIVE_MOST_MS;
    push_failed(&f, id, "x", RETRIES, 0);
    while (run_log.told == 0 && live_now() < until)
        live_step(n);
    assert_int_equal(run_log.told, 1);
    assert_int_equal(notices_in(0), 1);
    return f;
}

static void close_told(fixture *f, live_node *n, const char *id)
{
    unsigned shard, to = seriatim_shard_of(id, strlen(id), 5);
    int64_t until = live_now() + LIVE_MOST_MS;
    while (notices_in(0) + notices_in(to) > 0 && live_now() < until)
        live_step(n);
    for (shard = 0; shard < 5; shard++)
        assert_int_equal(notices_in(shard), 0);
    assert_true(is_dead_in(to, id));
    live_stop(n);
    assert_string_equal(kinds_found(f, SERIATIM_NO_QUEUE, 0), "");
    live_hook = 0;
    close_queue(f);
}

static void test_a_notice_that_a_living_node_tells_stays_until_it_is_told(void **state)
{
    const char *id = leaving_id();
    unsigned to = seriatim_shard_of(id, strlen(id), 5);
    int64_t until = live_now() + LIVE_MOST_MS;
    live_node n;
    fixture f = open_telling(&n, id);
    (void)state;
    write_layout(5, 3, 5);
    while (!is_dead_in(to, id) && live_now() < until)
        live_step(&n);
    assert_true(is_dead_in(to, id));
    steps_for(&n, 1, 300);
    assert_int_equal(notices_in(0), 1);
    assert_int_equal(notices_in(to), 0);
    assert_false(live_is_quiet(5));
    live_end_runs(&n);
    live_move(&n, 1, 5);
    close_told(&f, &n, id);
    assert_int_equal(run_log.told, 1);
}

/* hook: the server that takes over has a retries_exhausted. */
static void tells_for_the_dead(int hook)
{
    const char *id = leaving_id();
    live_node n;
    fixture f = open_telling(&n, id);
    write_layout(5, 3, 5);
    steps_for(&n, 1, 300);
    live_kill(&n);
    live_hook = hook;
    live_start(&n, "heir", 3, 1, &run_log);
    live_move(&n, 1, 5);
    close_told(&f, &n, id);
}

static void test_a_notice_of_a_dead_node_is_told_by_another(void **state)
{
    (void)state;
    tells_for_the_dead(1);
    assert_int_equal(run_log.told, 2);
}

static void test_a_notice_of_a_dead_node_does_not_hold_up_a_queue_without_a_hook(void **state)
{
    (void)state;
    tells_for_the_dead(0);
}

/* An operator has ended the retries, so that any server may tell it: one that has the shard to which the id moves. */
static void test_a_notice_of_nobody_moves_with_its_id(void **state)
{
    const char *id = leaving_id();
    unsigned to = seriatim_shard_of(id, strlen(id), 5);
    fixture f = open_queue(3, "list");
    live_node n;
    move m;
    (void)state;
    memset(&run_log, 0, sizeof run_log);
    live_hook = 1;
    live_start(&n, "first", 3, 0, NULL); /* it writes that the queue has a hook */
    live_await_shards(&n, 3);
    live_stop(&n);
    push_failed(&f, id, "x", 3, 3600);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1);
    assert_int_equal(notices_in(0), 1);
    move_begin(&m, 5);
    move_all(&m);
    assert_int_equal(notices_in(0), 0);
    assert_int_equal(notices_in(to), 1);
    live_start(&n, "second", 3, 1, &run_log);
    live_await_shards(&n, 5);
    close_told(&f, &n, id);
    assert_int_equal(run_log.told, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_notice_that_a_living_node_tells_stays_until_it_is_told),
        cmocka_unit_test(test_a_notice_of_a_dead_node_is_told_by_another),
        cmocka_unit_test(test_a_notice_of_a_dead_node_does_not_hold_up_a_queue_without_a_hook),
        cmocka_unit_test(test_a_notice_of_nobody_moves_with_its_id),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

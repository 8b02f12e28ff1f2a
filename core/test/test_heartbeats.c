/*
 * test_heartbeats.c - which nodes live, by heartbeat.lua on a real redis-server: after absences of Redis, and beside
 * nodes that died.
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
#include <stdlib.h>

#define SRT_SCRIPT_TEXTS
#include "base/system.h"
#include "wire/script.h"
#include "server.h"

#define NODES "seriatim:{/nodes}:"

/* Renews a node's heartbeat. Returns for how many milliseconds every shard stays with the owner that it names. */
static long long renew(const char *node, int lease_ms)
{
    redisReply *reply =
        redis("EVAL %b 5 " NODES "alive " NODES "info " NODES "order:%s " NODES "renewed " NODES
              "- %s %d b;lease=%d|text channel",
              srt_script_text_heartbeat, sizeof srt_script_text_heartbeat - 1, node, node, lease_ms, lease_ms);
    long long left = strtoll(reply->element[2]->str, NULL, 10);
    freeReplyObject(reply);
    return left;
}

static int is_listed(const char *node)
{
    redisReply *reply = redis("ZSCORE " NODES "alive %s", node);
    int listed = reply->type != REDIS_REPLY_NIL;
    freeReplyObject(reply);
    return listed;
}

/*
 * Renews the heartbeats of `node` every `every_ms` until `dead` is not listed any more; how long that took, at most 10
 * s.
 */
static int until_forgotten(const char *dead, const char *node, int lease_ms, int every_ms)
{
    int ms;
    for (ms = 0; ms < 10000 && is_listed(dead); ms += every_ms) {
        pause_ms(every_ms);
        renew(node, lease_ms);
    }
    return ms;
}

/*
 * Half of the dead node's lease is less than the time between two heartbeats of the other: an absence, but only once.
 */
static void test_f36_a_dead_node_with_a_short_lease_is_forgotten(void **state)
{
    (void)state;
    REDIS("FLUSHALL");
    renew("slow", 2000);
    renew("quick", 200);
    assert_true(until_forgotten("quick", "slow", 2000, 300) < 6000);
}

/* Every heartbeat is later than half a lease: absence follows absence, and yet dead nodes are found dead. */
static void test_f36_dead_nodes_are_found_though_every_heartbeat_is_late(void **state)
{
    (void)state;
    REDIS("FLUSHALL");
    renew("late", 400);
    renew("dead", 400);
    assert_true(until_forgotten("dead", "late", 400, 250) < 6000);
}

/* Redis is away again before a node has come back: that time does not count. */
static void test_f36_absences_that_follow_one_another_do_not_add_up(void **state)
{
    int64_t began;
    (void)state;
    do { /* the time between these two is missing below */
        REDIS("FLUSHALL");
        began = srt_clock_ms();
        renew("a", 1000);
        renew("b", 1000);
    } while (srt_clock_ms() - began >= 90);
    pause_ms(1500);
    assert_in_range(renew("a", 1000), 600, 1000);
    assert_true(is_listed("b"));
    pause_ms(1500);
    assert_in_range(renew("a", 1000), 400, 1000);
    assert_true(is_listed("b"));
    renew("b", 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f36_a_dead_node_with_a_short_lease_is_forgotten),
        cmocka_unit_test(test_f36_dead_nodes_are_found_though_every_heartbeat_is_late),
        cmocka_unit_test(test_f36_absences_that_follow_one_another_do_not_add_up),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_redis_cluster.c - the Redis Cluster that other tests start: what its words do to it. */
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

#include "redis_cluster.h"

/* What one node says to a GET: the value, or the error. */
static void says(size_t node, const char *key, const char *expected)
{
    redisReply *reply = cluster_call(&cluster, node, "GET %s", key);
    const char *text = reply->type == REDIS_REPLY_NIL ? "nil" : reply->str;
    if (strncmp(text, expected, strlen(expected)) != 0)
        fail_msg("GET %s at node %zu: %s instead of %s", key, node, text, expected);
    freeReplyObject(reply);
}

static void test_a_slot_moves_with_its_keys(void **state)
{
    int slot = cluster_slot(&cluster, "{moved}");
    size_t from = cluster_master_of(&cluster, slot), to = (from + 1) % CLUSTER_MASTERS;
    (void)state;
    cluster_do(&cluster, from, "MSET {moved}1 a {moved}2 b");
    says(to, "{moved}1", "MOVED");
    assert_int_equal(cluster_half_move(&cluster, slot, to, 1), from);
    assert_int_equal(cluster_master_of(&cluster, slot), from);
    says(from, "{moved}3", "ASK");
    cluster_end_move(&cluster, slot, from, to);
    says(to, "{moved}1", "a");
    says(to, "{moved}2", "b");
    says(from, "{moved}1", "MOVED");
    cluster_move_slot(&cluster, slot, from);
    says(from, "{moved}2", "b");
}

static void test_a_replica_takes_over_by_command_and_from_a_dead_and_a_frozen_master(void **state)
{
    int slot = cluster_slot(&cluster, "{kept}");
    size_t first = cluster_master_of(&cluster, slot), second, third, fourth;
    (void)state;
    cluster_do(&cluster, first, "SET {kept} yes");
    second = cluster_failover(&cluster, first);
    assert_int_not_equal(second, first);
    says(second, "{kept}", "yes");
    cluster_await_whole(&cluster);
    cluster_kill(&cluster, second);
    third = cluster_await_successor(&cluster, second);
    assert_int_equal(third, first);
    says(third, "{kept}", "yes");
    cluster_restart(&cluster, second);
    cluster_await_whole(&cluster);
    cluster_freeze(&cluster, third);
    fourth = cluster_await_successor(&cluster, third);
    assert_int_equal(fourth, second);
    says(fourth, "{kept}", "yes");
    cluster_thaw(&cluster, third);
    cluster_await_whole(&cluster);
    assert_int_equal(cluster_master_of(&cluster, slot), fourth);
}

static void test_a_master_is_added_and_takes_a_slot(void **state)
{
    size_t node = cluster_add_master(&cluster);
    int slot = cluster_slot(&cluster, "{given}");
    (void)state;
    cluster_do(&cluster, cluster_master_of(&cluster, slot), "SET {given} yes");
    cluster_move_slot(&cluster, slot, node);
    assert_int_equal(cluster_master_of(&cluster, slot), node);
    says(node, "{given}", "yes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slot_moves_with_its_keys),
        cmocka_unit_test(test_a_replica_takes_over_by_command_and_from_a_dead_and_a_frozen_master),
        cmocka_unit_test(test_a_master_is_added_and_takes_a_slot),
    };
    return cmocka_run_group_tests(tests, redis_cluster_set_up, redis_cluster_tear_down);
}

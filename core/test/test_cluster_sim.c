/*
 * test_cluster_sim.c - clients and nodes on a real Redis Cluster of three masters, in a random schedule: their bytes
 * come in pieces and late, connections end, slots move, masters are replaced by command and forget the scripts.
 * SECONDS: how long; SEED: another schedule, as far as the cluster lets it be the same.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_sim.h"
#include "link_fixture.h"
#include "sim.h"
#include "wire/keys.h"

#define PATIENCE 60.0 /* seconds until all that was pushed has run */

static struct {
    uint64_t random;
    unsigned moves, failovers, kills;
} did;

static int slot_of_shard(uint64_t shard)
{
    char key[64];
    snprintf(key, sizeof key, "seriatim:{Q/%u}:state", (unsigned)shard);
    return cluster_slot(&cluster, key);
}

/* The slot of a shard, of the layout or of the heartbeats; it stays half moved for some milliseconds. */
static void move_slot(void)
{
    uint64_t shard = csim_below(&did.random, CSIM_SHARDS + 2);
    int slot =
        shard < CSIM_SHARDS ? slot_of_shard(shard) : cluster_slot(&cluster, shard == CSIM_SHARDS ? "{Q}" : "{/nodes}");
    size_t from = cluster_master_of(&cluster, slot), to = from;
    while (to == from)
        to = cluster_master_of(&cluster, (int)csim_below(&did.random, SRT_SLOTS));
    cluster_half_move(&cluster, slot, to, (int)csim_below(&did.random, 4));
    poll(NULL, 0, (int)csim_below(&did.random, 40));
    cluster_end_move(&cluster, slot, from, to);
    did.moves++;
}

static void end_connections(void)
{
    static const char *const types[] = {"normal", "pubsub"};
    size_t node = cluster_master_of(&cluster, (int)csim_below(&did.random, SRT_SLOTS));
    cluster_do(&cluster, node, "CLIENT KILL TYPE %s SKIPME yes", types[csim_below(&did.random, 2)]);
    if (csim_below(&did.random, 4) == 0)
        cluster_do(&cluster, node, "SCRIPT FLUSH");
    did.kills++;
}

/* The replica must have the keys of the slots that were moved, and know whose they are. */
static void fail_over(void)
{
    size_t master = cluster_master_of(&cluster, (int)csim_below(&did.random, SRT_SLOTS));
    cluster_await_whole(&cluster);
    cluster_failover(&cluster, master);
    cluster_await_whole(&cluster);
    did.failovers++;
}

/* For some seconds, and until at least one master was replaced. */
static void disturb(double ms)
{
    double until = wall_clock_ms() + ms, fail_over_at = wall_clock_ms() + ms / 3;
    while (!csim_violation()[0] && (wall_clock_ms() < until || did.failovers == 0)) {
        if (wall_clock_ms() > fail_over_at) {
            fail_over();
            fail_over_at = wall_clock_ms() + 4000;
        } else if (csim_below(&did.random, 3) == 0) {
            end_connections();
        } else {
            move_slot();
        }
        poll(NULL, 0, (int)csim_below(&did.random, 30));
    }
}

static size_t findings(void)
{
    seriatim_link *link = link_to_queue(cluster.url, "Q", CSIM_SHARDS, "list");
    seriatim_client *c = seriatim_link_client(link);
    size_t count;
    assert_int_equal(seriatim_check_begin(c, 0, 0), SERIATIM_OK);
    assert_int_equal(link_drive(link), SERIATIM_OK);
    seriatim_check_result(c, &count);
    seriatim_link_free(link);
    return count;
}

static void test_r_cluster_3_jobs_run_once_and_in_order_whatever_masters_and_connections_do(void **state)
{
    uint64_t seed = sim_number_from_env("SEED", 1), seconds = sim_number_from_env("SECONDS", 3);
    csim_totals sum;
    (void)state;
    memset(&did, 0, sizeof did);
    did.random = seed;
    csim_start(seed, 0);
    disturb((double)seconds * 1000);
    sum = csim_end(PATIENCE);
    printf("%u slots moved, %u masters replaced, connections ended %u + %u times, bytes late %u times; %u pushes, %u "
           "runs\n",
           did.moves, did.failovers, did.kills, sum.cuts, sum.late, sum.pushes, sum.runs);
    if (csim_violation()[0])
        fail_msg("SEED=%llu: %s", (unsigned long long)seed, csim_violation());
    assert_int_equal(findings(), 0);
}

/* A push that was executed and is sent again then writes its jobs again. */
static void test_a_push_with_another_token_on_each_connection_is_found(void **state)
{
    double until = wall_clock_ms() + 60000;
    (void)state;
    csim_start(sim_number_from_env("SEED", 1) + 1, 1); /* other clients than those of the test before */
    while (!csim_violation()[0] && wall_clock_ms() < until)
        poll(NULL, 0, 5);
    csim_end(PATIENCE);
    printf("%s\n", csim_violation());
    assert_non_null(strstr(csim_violation(), "runs behind"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_cluster_3_jobs_run_once_and_in_order_whatever_masters_and_connections_do),
        cmocka_unit_test(test_a_push_with_another_token_on_each_connection_is_found),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, redis_cluster_set_up, redis_cluster_tear_down);
}

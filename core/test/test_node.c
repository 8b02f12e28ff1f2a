/*
 * test_node.c - nodes on a fake clock against a model of Redis (store.h), with every fault at random. SEED=n ROUNDS=m
 * test_node replays; a failure prints its seed. ONLY=*f36* runs the tests of these names.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* ---- Rounds -------------------------------------------------------------------------------- */

/*
 *   name          n  t  b  cut    noscr  error  crash freeze stop  quiet pause nomem ab k  fail long huge delay ttr ser
 * clean sched ms    outages
 */
static const profile profiles[] = {
    {"calm", 3, 3, 4, 0, 5000, 0, 0, 0, 2000, 0, 0, 0, 0, 0, 0, 5, 2, 10, 0, 0, 1, 0, 20000, 0, 0, 0},
    {"cuts", 3, 3, 4, 4000, 20000, 0, 0, 0, 800, 0, 0, 0, 0, 0, 10, 5, 2, 10, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"errors", 3, 3, 2, 500, 20000, 10000, 0, 0, 800, 0, 1000, 0, 0, 0, 10, 5, 2, 10, 0, 0, 0, 1, 20000, 0, 0, 0},
    {"crashes", 4, 3, 4, 0, 1000, 0, 2000, 0, 500, 0, 0, 0, 0, 0, 10, 10, 2, 10, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"freezes", 4, 3, 4, 0, 1000, 0, 0, 1500, 500, 0, 0, 0, 0, 0, 10, 10, 2, 10, 0, 0, 0, 2, 20000, 0, 0, 0},
    {"everything", 4,  3, 4,  1500, 5000, 2000, 800, 600,   1000, 200, 2000, 0, 50, 0,
     10,           10, 4, 10, 0,    0,    0,    0,   20000, 0,    0,   0},
    {"deadlines", 4, 3, 2, 200, 1000, 0, 0, 0, 3000, 300, 0, 0, 100, 0, 10, 30, 2, 10, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"killers", 2, 3, 4, 0, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 5, 0, 10, 0, 0, 0, 0, 15000, 0, 0, 0},
    {"killers+", 3, 3, 4, 500, 1000, 500, 200, 300, 500, 0, 1000, 0, 50, 2, 10, 5, 2, 10, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"ttr", 3, 3, 2, 500, 1000, 500, 300, 300, 500, 0, 500, 0, 50, 0, 10, 20, 2, 10, 0.2, 0, 0, 0, 20000, 0, 0, 0},
    {"serial", 3, 3, 2, 500, 1000, 500, 300, 300, 500, 0, 500, 0, 50, 0, 10, 10, 2, 10, 0, 1, 0, 1, 20000, 0, 0, 0},
    {"pauses", 2, 2, 1, 0, 0, 0, 500, 0, 500, 100, 20000, 0, 0, 1, 10, 10, 2, 10, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"notices", 4, 3, 4, 500, 1000, 500, 3000, 300, 1000, 200, 0, 0, 50, 0, 60, 20, 0, 5, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"no memory", 3, 3, 4, 200, 2000, 200, 200, 0, 500, 0, 500, 3000, 50, 0, 10, 5, 4, 10, 0, 0, 0, 0, 20000, 0, 0, 0},
    {"poppers", 3, 3, 4, 0, 1000, 0, 0, 0, 1000, 0, 2000, 0, 50, 0, 10, 10, 2, 10, 0, 0, 0, 0, 20000, 0, 0, 30000},
    {"poppers+", 4,  3,  2, 500, 1000, 500, 500, 300, 800,   100, 1000, 0,    50,
     0,          10, 10, 2, 10,  0.2,  0,   0,   0,   20000, 0,   0,    30000},
};

#define PROFILES (sizeof profiles / sizeof *profiles)

static void test_random_rounds_keep_every_promise(void **state)
{
    uint64_t seed = sim_number_from_env("SEED", 1), rounds = sim_number_from_env("ROUNDS", 2 * PROFILES), i;
    totals sum;
    unsigned bad = 0;
    (void)state;
    memset(&sum, 0, sizeof sum);
    for (i = seed; i < seed + rounds; i++) {
        const profile *p = &profiles[i % PROFILES];
        char violation[256];
        sim_run_round(p, i, sim_honest, &sum, violation, sizeof violation);
        if (violation[0]) {
            print_error("SEED=%llu ROUNDS=1 (%s): %s\n", (unsigned long long)i, p->name, violation);
            bad++;
        }
    }
    print_message("%llu pops, %llu acknowledged, %llu too late\n", (unsigned long long)sum.pops,
                  (unsigned long long)sum.pops_done, (unsigned long long)sum.pops_refused);
    print_message("%u rounds, %u lives, %u deaths, %llu hand-outs, %llu of them stale, %llu refused, %llu commands, "
                  "%llu notices, %llu of them taken over, %llu told again, %llu confirmed checkpoints\n",
                  sum.rounds, sum.lives, sum.deaths, (unsigned long long)sum.handed, (unsigned long long)sum.stale,
                  (unsigned long long)sum.refused, (unsigned long long)sum.commands, (unsigned long long)sum.noticed,
                  (unsigned long long)sum.taken_over, (unsigned long long)sum.retold,
                  (unsigned long long)sum.confirmed);
    print_message("%llu claimed by pushes, %llu of them answered to a claim; %llu heard by nobody, %llu messages lost, "
                  "%llu late\n",
                  (unsigned long long)sum.handed_over, (unsigned long long)sum.missed, (unsigned long long)sum.unheard,
                  (unsigned long long)sum.lost_messages, (unsigned long long)sum.late_messages);
    assert_true(rounds < PROFILES ||
                (sum.handed_over && sum.missed && sum.unheard && sum.lost_messages && sum.late_messages));
    assert_int_equal(bad, 0);
}

static void test_control_without_fences_a_promise_breaks(void **state)
{
    const control no_fence = {.no_fence = 1};
    (void)state;
    sim_breaks_a_promise(&profiles[4], no_fence);
}

static void test_control_without_the_last_claim_seen_a_promise_breaks(void **state)
{
    const control forget_seen = {.forget_seen = 1};
    (void)state;
    sim_breaks_a_promise(&profiles[7], forget_seen);
}

/* Notices of nodes that died are lost where nobody takes them over. */
static void test_control_notices_without_a_next_owner_are_lost(void **state)
{
    const control no_heir = {.no_heir = 1};
    (void)state;
    sim_breaks_a_promise(&profiles[12], no_heir);
}

/* A node that takes what a push has claimed must have seen what was claimed before. */
static void test_control_without_the_gap_rule_a_promise_breaks(void **state)
{
    const control no_gaps = {.no_gaps = 1};
    (void)state;
    sim_breaks_a_promise(&profiles[0], no_gaps);
}

static void test_control_what_is_claimed_while_a_shard_is_acquired_breaks_a_promise(void **state)
{
    const control acquiring = {.acquiring = 1};
    (void)state;
    sim_breaks_a_promise(&profiles[1], acquiring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_rounds_keep_every_promise),
        cmocka_unit_test(test_control_without_fences_a_promise_breaks),
        cmocka_unit_test(test_control_without_the_last_claim_seen_a_promise_breaks),
        cmocka_unit_test(test_control_notices_without_a_next_owner_are_lost),
        cmocka_unit_test(test_control_without_the_gap_rule_a_promise_breaks),
        cmocka_unit_test(test_control_what_is_claimed_while_a_shard_is_acquired_breaks_a_promise),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

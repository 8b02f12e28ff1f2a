/* test_node_outages.c - nodes on a fake clock while Redis is away, jumps or fails over; run as test_node is. */
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

/* Nobody is killed or frozen: only Redis is away, again and again, while jobs run for up to three lease times. */
static const profile outages[] = {
    {.name = "killed", .outages = OUTAGE_KILL, .clean = 1, .stop = 500},
    {.name = "stalled", .outages = OUTAGE_STALL, .clean = 1, .stop = 500},
    {.name = "list lost", .outages = OUTAGE_LIST_LOST, .clean = 1, .stop = 500},
    {.name = "clock jumps", .outages = OUTAGE_JUMP, .clean = 1, .stop = 500},
    {.name = "failovers", .outages = OUTAGE_FAILOVER}, /* to a replica that heard less */
};

#define OUTAGE_PROFILES (sizeof outages / sizeof *outages)

/* The profile of one kind, with what all share. */
static profile outage_of(int kind)
{
    profile p;
    size_t i;
    for (i = 0; outages[i].outages != kind; i++)
        ;
    p = outages[i];
    p.nodes = 4;
    p.threads = 3;
    p.batch = 2;
    p.long_percent = 30;
    p.huge_percent = 2;
    p.delay_percent = 10;
    p.outage = 2000;
    p.chaos_ms = 20000;
    return p;
}

static void test_f36_no_outage_of_redis_makes_an_id_run_twice(void **state)
{
    uint64_t seed = sim_number_from_env("SEED", 1), rounds = sim_number_from_env("ROUNDS", 3 * OUTAGE_PROFILES), i;
    totals sum;
    unsigned bad = 0;
    (void)state;
    memset(&sum, 0, sizeof sum);
    for (i = seed; i < seed + rounds; i++) {
        const profile p = outage_of(outages[i % OUTAGE_PROFILES].outages);
        char violation[256];
        sim_run_round(&p, i, sim_honest, &sum, violation, sizeof violation);
        if (violation[0]) {
            print_error("SEED=%llu ROUNDS=1 (%s): %s\n", (unsigned long long)i, p.name, violation);
            bad++;
        }
    }
    print_message("%u rounds, %llu hand-outs, %llu commands, %llu claimed by pushes\n", sum.rounds,
                  (unsigned long long)sum.handed, (unsigned long long)sum.commands,
                  (unsigned long long)sum.handed_over);
    assert_true(rounds == 1 || sum.handed_over > 0);
    assert_int_equal(bad, 0);
}

/*
 * A failover forgets that a node gave a shard up, and that it had taken it anew before: Redis names it as the owner
 * under an older lease than the last one. In these rounds nobody served such a shard while the node lived.
 */
static void test_f36_a_shard_that_a_failover_gives_back_is_served(void **state)
{
    static const uint64_t seeds[] = {139, 559};
    const profile p = outage_of(OUTAGE_FAILOVER);
    totals sum;
    size_t i;
    (void)state;
    memset(&sum, 0, sizeof sum);
    for (i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        char violation[256];
        sim_run_round(&p, seeds[i], sim_honest, &sum, violation, sizeof violation);
        assert_string_equal(violation, "");
    }
}

static void test_f36_control_an_unnoticed_absence_breaks_a_promise(void **state)
{
    const control no_absence = {.no_absence = 1};
    int kind;
    (void)state;
    for (kind = OUTAGE_KILL; kind <= OUTAGE_JUMP; kind *= 2) {
        const profile p = outage_of(kind);
        sim_breaks_a_promise(&p, no_absence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f36_no_outage_of_redis_makes_an_id_run_twice),
        cmocka_unit_test(test_f36_a_shard_that_a_failover_gives_back_is_served),
        cmocka_unit_test(test_f36_control_an_unnoticed_absence_breaks_a_promise),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_seeds.c - a Redis Cluster that is found by the seeds of a URL: slow look-ups, a seed that is away. */
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

#include "link_fixture.h"
#include "lookups.h"
#include "redis_cluster.h"
#include "teams.h"
#include "wire/cluster.h"

/* None of them is left for the other while it connects. */
static void test_seeds_whose_names_are_looked_up_slowly_are_asked(void **state)
{
    char url[96];
    seriatim_link *link;
    (void)state;
    make_lookups_late(SRT_CLUSTER_ANSWER_MS + 100, 0);
    snprintf(url, sizeof url, "redis+cluster://late.test:%d,late.test:%d", cluster.nodes[0].port,
             cluster.nodes[1].port);
    link = link_to_queue(url, "late", 24, "list");
    link_push_jobs(link, "a", 0, 100, 100);
    seriatim_link_free(link);
}

static void test_a_runner_asks_seeds_whose_names_are_looked_up_slowly(void **state)
{
    seriatim_queue_settings q = queue_named("late", 24);
    seriatim_runner *runner;
    double until = seconds() + 30;
    (void)state;
    make_lookups_late(SRT_CLUSTER_ANSWER_MS + 100, 0);
    snprintf(team_url, sizeof team_url, "redis+cluster://late.test:%d,late.test:%d", cluster.nodes[0].port,
             cluster.nodes[1].port);
    runner = runner_start("late1", 10000, &q, 1);
    while (seriatim_runner_stats_now(runner).shards < 24 && seconds() < until) {
        seriatim_runner_pulse(runner);
        pause_ms(5);
    }
    assert_int_equal(seriatim_runner_stats_now(runner).shards, 24);
    seriatim_runner_free(runner);
}

/* The first seed is away, and another has answered since. */
static void test_the_error_of_a_slot_that_moves_does_not_name_a_seed_that_is_away(void **state)
{
    int slot = cluster_slot(&cluster, "{held/0}");
    size_t from = cluster_master_of(&cluster, slot), to = (from + 1) % CLUSTER_MASTERS;
    seriatim_link *link = link_to_queue(cluster.url, "held", 1, "list");
    char url[64], number[32];
    (void)state;
    link_push_jobs(link, "a", 0, 100, 100);
    seriatim_link_free(link);
    cluster_half_move(&cluster, slot, to, 2);
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:1,127.0.0.1:%d", cluster.nodes[0].port);
    link = link_to_queue(url, "held", 1, "list");
    link_begin_jobs_within(link, 2, "b", 100, 100, 200);
    assert_int_not_equal(link_drive(link), SERIATIM_OK);
    cluster_end_move(&cluster, slot, from, to);
    snprintf(number, sizeof number, "slot %d", slot);
    if (!strstr(link_message(link), number))
        fail_msg("%s lacks %s", link_message(link), number);
    seriatim_link_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds_whose_names_are_looked_up_slowly_are_asked),
        cmocka_unit_test(test_a_runner_asks_seeds_whose_names_are_looked_up_slowly),
        cmocka_unit_test(test_the_error_of_a_slot_that_moves_does_not_name_a_seed_that_is_away),
    };
    return cmocka_run_group_tests(tests, redis_cluster_set_up, redis_cluster_tear_down);
}

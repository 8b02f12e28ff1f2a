/*
 * test_mover_limits.c - what limits servers that move ids, on a real redis-server: how many dead ids a queue keeps, and
 * the rights of their user.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "live_node.h"
#include "move_fixture.h"
#include "operators.h"

static live_log run_log;

/* While "long" runs, its shard is not out, and most dead ids are still there. */
static void test_a_move_to_more_shards_removes_no_dead_id_within_the_limit(void **state)
{
    enum { LIMIT = 60 };
    fixture f = open_queue(1, "list");
    int64_t until = live_now() + LIVE_MOST_MS;
    char id[16];
    live_node n;
    int i;
    (void)state;
    run_log.count = 0;
    live_lease_ms = 20000;
    for (i = 0; i < LIMIT; i++) {
        snprintf(id, sizeof id, "dead-%d", i);
        push_failed(&f, id, "1", 0, 3600);
        act_on(&f, SERIATIM_KILL, id);
    }
    push(&f, "long", "1", none);
    live_start(&n, "one", 1, 1, &run_log);
    n.run_ms = LIVE_MOST_MS;
    live_await_shards(&n, 1);
    REDIS("HSET seriatim:{Q}:settings morgue_max_count %d", LIMIT);
    while (run_log.count == 0 || n.node->workers[0]->now.morgue_max_count != LIMIT) {
        assert_true(live_now() < until);
        srt_node_look_at_settings(n.node);
        live_step(&n);
    }
    assert_int_equal(act_on(&f, SERIATIM_RESHARD, "6"), 1);
    while (n.node->workers[0]->old_count == 0) {
        assert_true(live_now() < until);
        live_step(&n);
    }
    n.node->shards[0]->morgue.ask_at = 0; /* as when a minute has passed */
    steps_for(&n, 1, 500);
    assert_int_equal(metrics(&f).morgue_removed, 0);
    assert_int_equal(metrics(&f).morgue_length, LIMIT);
    live_end_runs(&n);
    live_move(&n, 1, 6);
    live_lease_ms = 1000;
    live_stop(&n);
    close_queue(&f);
}

static void test_jobs_run_though_the_server_may_not_ask_for_replicas(void **state)
{
    fixture f = open_queue(3, "list");
    int64_t until = live_now() + LIVE_MOST_MS;
    char id[16];
    live_node n;
    int i;
    (void)state;
    run_log.count = 0;
    live_lease_ms = 20000;
    REDIS("ACL SETUSER limited on >secret ~* &* +@all -role");
    live_user = "limited";
    live_start(&n, "one", 3, 1, &run_log);
    live_await_shards(&n, 3);
    assert_int_equal(act_on(&f, SERIATIM_RESHARD, "5"), 1);
    for (i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        push(&f, id, "1", none);
    }
    while (srt_node_stats(n.node).processed < 20 || !n.node->moves.warned) {
        assert_true(live_now() < until);
        live_step(&n);
    }
    assert_false(live_is_quiet(5));
    REDIS("ACL SETUSER limited +role");
    live_move(&n, 1, 5);
    live_stop(&n);
    live_user = NULL;
    live_lease_ms = 1000;
    REDIS("ACL DELUSER limited");
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_move_to_more_shards_removes_no_dead_id_within_the_limit),
        cmocka_unit_test(test_jobs_run_though_the_server_may_not_ask_for_replicas),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/*
 * test_mover_limits.c - what limits servers that move ids, on a real redis-server: the rights of their user.
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
        cmocka_unit_test(test_jobs_run_though_the_server_may_not_ask_for_replicas),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

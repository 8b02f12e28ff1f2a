/* test_runner_orders.c - commands to nodes (quiet, stop), and settings that another server changes; against a real
 * redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "teams.h"

static void drive(seriatim_link *link, int begun)
{
    int status = begun;
    while (status == SERIATIM_OK && (status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        status = seriatim_link_wait(link);
    if (status != SERIATIM_OK)
        fail_msg("%s", seriatim_client_error(seriatim_link_client(link))->message);
}

static int order(seriatim_link *link, const char *node, int what)
{
    drive(link, seriatim_order_begin(seriatim_link_client(link), node, strlen(node), what));
    return seriatim_order_result(seriatim_link_client(link));
}

/* NULL: no such node lives. */
static const char *state_of(seriatim_link *link, const char *node)
{
    const seriatim_living_node *nodes;
    size_t count, i;
    drive(link, seriatim_nodes_begin(seriatim_link_client(link)));
    nodes = seriatim_nodes_result(seriatim_link_client(link), &count);
    for (i = 0; i < count; i++)
        if (strcmp(nodes[i].name, node) == 0)
            return nodes[i].state;
    return NULL;
}

static void wait_for_state(seriatim_link *link, seriatim_runner *runner, const char *node, const char *state)
{
    double until = seconds() + 30;
    const char *now;
    while (((now = state_of(link, node)) == NULL || strcmp(now, state) != 0) && seconds() < until) {
        seriatim_runner_pulse(runner);
        pause_ms(2);
    }
    if (!now || strcmp(now, state) != 0)
        fail_msg("%s is %s, not %s", node, now ? now : "gone", state);
}

static void wait_for_order(seriatim_runner *runner, int what)
{
    double until = seconds() + 30;
    while (seriatim_runner_asked(runner) != what && seconds() < until) {
        seriatim_runner_pulse(runner);
        pause_ms(2);
    }
    assert_int_equal(seriatim_runner_asked(runner), what);
}

static void test_a_node_command_reaches_one_node(void **state)
{
    seriatim_queue_settings q = queue_named("orders", 2);
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    seriatim_runner *one = runner_start("one", 600000, &q, 1), *other = runner_start("other", 600000, &q, 1);
    char answer[64];
    (void)state;
    wait_for_state(link, one, "one", "working");
    wait_for_state(link, other, "other", "working");
    assert_int_equal(order(link, "gone", SERIATIM_ORDER_STOP), 0);
    assert_int_equal(order(link, "one", SERIATIM_ORDER_QUIET), 1);
    wait_for_order(one, SERIATIM_ORDER_QUIET); /* long before its next heartbeat, which is 150 s away */
    assert_string_equal(state_of(link, "one"), "working");
    seriatim_runner_quiet(one);
    assert_int_equal(seriatim_runner_asked(one), SERIATIM_ORDER_NONE);
    wait_for_state(link, one, "one", "quiet");
    assert_int_equal(order(link, "one", SERIATIM_ORDER_STOP), 1);
    assert_int_equal(order(link, "one", SERIATIM_ORDER_QUIET), 1);
    wait_for_order(one, SERIATIM_ORDER_STOP);
    ask_cli("get seriatim:{/nodes}:order:one", answer, sizeof answer);
    assert_string_equal(answer, "stop\n");
    seriatim_runner_stop(one);
    assert_int_equal(seriatim_runner_asked(one), SERIATIM_ORDER_NONE);
    while (!seriatim_runner_stopped(one))
        pause_ms(2);
    assert_null(state_of(link, "one"));
    assert_int_equal(order(link, "one", SERIATIM_ORDER_STOP), 0);
    ask_cli("exists seriatim:{/nodes}:order:one seriatim:{/nodes}:order:gone", answer, sizeof answer);
    assert_string_equal(answer, "0\n");
    assert_string_equal(state_of(link, "other"), "working");
    assert_int_equal(seriatim_runner_asked(other), SERIATIM_ORDER_NONE);
    seriatim_runner_free(one);
    seriatim_runner_free(other);
    seriatim_link_free(link);
}

/* It lies there until the node has answered, and no longer than the node lives. */
static void test_a_node_command_is_removed_with_its_node(void **state)
{
    seriatim_queue_settings q = queue_named("orders", 2);
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    /* A lease that a busy machine does not let end, and which is renewed more than once. */
    seriatim_runner *runner = runner_start("slow", 8000, &q, 1);
    char answer[64];
    double until;
    (void)state;
    wait_for_state(link, runner, "slow", "working");
    assert_int_equal(order(link, "slow", SERIATIM_ORDER_QUIET), 1);
    wait_for_order(runner, SERIATIM_ORDER_QUIET);
    for (until = seconds() + 5; seconds() < until; pause_ms(20)) {
        seriatim_runner_pulse(runner);
        assert_int_equal(seriatim_runner_asked(runner), SERIATIM_ORDER_QUIET);
    }
    seriatim_runner_free(runner); /* without a farewell, as a process that dies */
    for (until = seconds() + 30; state_of(link, "slow") && seconds() < until;)
        pause_ms(20);
    ask_cli("exists seriatim:{/nodes}:order:slow", answer, sizeof answer);
    assert_string_equal(answer, "0\n");
    seriatim_link_free(link);
}

/* Waits for a warning with this text; 0: none came in 30 s, or another warning about settings came first. */
static int hears_of_settings(seriatim_runner *runner, const char *text)
{
    seriatim_event event;
    double until = seconds() + 30;
    for (; seconds() < until; pause_ms(5)) {
        seriatim_runner_pulse(runner);
        while (seriatim_runner_event(runner, &event) == SERIATIM_OK)
            if (event.kind == SERIATIM_EVENT_WARNING && strstr(event.text, "settings"))
                return strcmp(event.text, text) == 0;
    }
    return 0;
}

/* The server that overwrites them says so, and those that run already follow within some heartbeats. */
static void test_r_settings_4_a_server_that_overwrites_settings_names_both_values(void **state)
{
    seriatim_queue_settings q = queue_named("q", 1);
    seriatim_runner *first, *second, *third;
    seriatim_link *link;
    size_t queue;
    (void)state;
    q.max_retry_count = 5;
    link = connect_link(&q, &queue);
    first = runner_start("first", 1000, &q, 1);
    wait_for_state(link, first, "first", "working");
    q.max_retry_count = 7;
    q.fold = "merge";
    second = runner_start("second", 1000, &q, 1);
    assert_true(hears_of_settings(
        second,
        "queue \"q\": this server changed its settings in Redis: fold: list, now merge; max_retry_count: 5, now 7"));
    assert_true(hears_of_settings(
        first,
        "queue \"q\": another server changed its settings in Redis: fold: list, now merge; max_retry_count: 5, now 7"));
    third = runner_start("third", 1000, &q, 1); /* with the same settings, so that it has nothing to say yet */
    wait_for_state(link, third, "third", "working");
    q.max_retry_count = 9;
    seriatim_runner_free(second);
    second = runner_start("fourth", 1000, &q, 1);
    assert_true(hears_of_settings(
        third, "queue \"q\": another server changed its settings in Redis: max_retry_count: 7, now 9"));
    seriatim_runner_free(first);
    seriatim_runner_free(second);
    seriatim_runner_free(third);
    seriatim_link_free(link);
}

static void pulse_until_shards(seriatim_runner *runner, size_t count)
{
    double until = seconds() + 60;
    while (seriatim_runner_stats_now(runner).shards != count && seconds() < until) {
        seriatim_runner_pulse(runner);
        pause_ms(2);
    }
    assert_int_equal(seriatim_runner_stats_now(runner).shards, count);
}

static void wait_for_processed(const team *t, uint64_t count)
{
    double until = seconds() + 60;
    while (seriatim_runner_stats_now(t->runner).processed < count && seconds() < until) {
        seriatim_runner_pulse(t->runner);
        pause_ms(2);
    }
    assert_int_equal(seriatim_runner_stats_now(t->runner).processed, count);
}

/* R-EVENT-9 in the core: a running server serves a queue that is added, hands it over, and serves it again. */
static void test_a_worker_is_added_to_a_running_runner_and_withdrawn(void **state)
{
    seriatim_queue_settings first = queue_named("first", 2), early = queue_named("early", 1);
    seriatim_queue_settings late = queue_named("late", 3);
    size_t queue, number, again;
    seriatim_link *link = connect_link(&late, &queue);
    seriatim_error error;
    journal j;
    team a, b;
    (void)state;
    memset(&j, 0, sizeof j);
    pthread_mutex_init(&j.lock, NULL);
    team_push_for(link, queue, 0, 30, 30);
    team_start(&a, &j, "a", &first, 1);
    assert_int_equal(seriatim_runner_worker(a.runner, &first, &number, &error), SERIATIM_INVALID);
    assert_int_equal(seriatim_runner_worker(a.runner, &early, &again, &error), SERIATIM_OK); /* while it starts */
    assert_int_equal(again, 1);
    pulse_until_shards(a.runner, 3);
    assert_int_equal(seriatim_runner_worker(a.runner, &late, &number, &error), SERIATIM_OK);
    assert_int_equal(number, 2);
    wait_for(&j, &a, NULL, 30);
    assert_int_equal(seriatim_runner_withdraw(a.runner, number, &error), SERIATIM_OK);
    assert_int_equal(seriatim_runner_withdraw(a.runner, number, &error), SERIATIM_AGAIN);
    assert_int_equal(seriatim_runner_withdraw(a.runner, 3, &error), SERIATIM_INVALID);
    pulse_until_shards(a.runner, 3);
    team_start(&b, &j, "b", &late, 1);
    team_push_for(link, queue, 30, 30, 30);
    wait_for(&j, &a, &b, 60);
    wait_for_processed(&b, 30); /* all of them */
    late.batch_size = 2;
    assert_int_equal(seriatim_runner_worker(a.runner, &late, &again, &error), SERIATIM_OK);
    assert_int_equal(again, number);
    while (seriatim_runner_stats_now(a.runner).shards < 4) { /* it gets its part while b runs */
        seriatim_runner_pulse(a.runner);
        seriatim_runner_pulse(b.runner);
        pause_ms(2);
    }
    assert_true(team_stop(&b) < 20.0);
    team_push_for(link, queue, 60, 30, 30);
    wait_for(&j, &a, NULL, 90);
    assert_int_equal(j.disordered, 0);
    seriatim_runner_stop(a.runner);
    assert_int_equal(seriatim_runner_worker(a.runner, &late, &again, &error), SERIATIM_INVALID);
    assert_int_equal(seriatim_runner_withdraw(a.runner, number, &error), SERIATIM_OK);
    assert_int_equal(seriatim_runner_worker(a.runner, &late, &again, &error), SERIATIM_CLOSED);
    assert_true(team_stop(&a) < 20.0);
    seriatim_link_free(link);
    pthread_mutex_destroy(&j.lock);
}

/* Redis is full: the queue that is added is not made, the connection stays, and a later heartbeat makes the queue. */
static void test_a_worker_whose_queue_is_refused_is_served_later(void **state)
{
    seriatim_queue_settings first = queue_named("first", 2), late = queue_named("late", 3);
    seriatim_runner *runner = runner_start("a", 1000, &first, 1);
    seriatim_error error;
    seriatim_event event;
    char answer[64];
    size_t number;
    int refused = 0, lost = 0;
    (void)state;
    pulse_until_shards(runner, 2);
    ask_cli("config set maxmemory 1", answer, sizeof answer);
    assert_int_equal(seriatim_runner_worker(runner, &late, &number, &error), SERIATIM_OK);
    while (!refused) {
        seriatim_runner_pulse(runner);
        pause_ms(2);
        while (seriatim_runner_event(runner, &event) == SERIATIM_OK) {
            refused |= event.kind == SERIATIM_EVENT_WARNING && event.number == SERIATIM_FULL;
            lost |= event.kind == SERIATIM_EVENT_LINK && event.number == 0;
        }
    }
    assert_int_equal(lost, 0);
    assert_int_equal(seriatim_runner_stats_now(runner).shards, 2);
    ask_cli("config set maxmemory 0", answer, sizeof answer);
    pulse_until_shards(runner, 5);
    seriatim_runner_stop(runner);
    while (!seriatim_runner_stopped(runner))
        pause_ms(2);
    seriatim_runner_free(runner);
}

static const char *failed(seriatim_runner *runner, seriatim_delivery *d)
{
    assert_int_equal(seriatim_delivery_fail(d, 0, "boom", 4, 0), SERIATIM_OK);
    return seriatim_runner_failure(runner, d, 0);
}

static void test_r_checkpoint_4_a_failure_behind_a_checkpoint_is_logged_as_the_first_in_a_row(void **state)
{
    seriatim_queue_settings q = queue_named("counted", 1);
    size_t queue;
    seriatim_link *link;
    seriatim_runner *runner;
    seriatim_delivery *d;
    (void)state;
    q.max_retry_count = 1;
    link = connect_link(&q, &queue);
    runner = runner_start("counting", 10000, &q, 1);
    team_push_for(link, queue, 0, 2, 1);
    d = runner_take(runner);
    assert_string_equal(failed(runner, d), "fail");
    seriatim_runner_settle(runner, d);
    d = runner_take(runner);
    assert_int_equal(seriatim_delivery_job(d, 0)->retry_count, 0);
    assert_int_equal(seriatim_runner_checkpoint(runner, d, 0, 0), SERIATIM_OK);
    assert_string_equal(failed(runner, d), "dead");
    assert_int_equal(seriatim_runner_checkpoint(runner, d, 0, 1), SERIATIM_OK);
    assert_string_equal(failed(runner, d), "fail");
    seriatim_runner_settle(runner, d);
    d = runner_take(runner);
    assert_int_equal(seriatim_delivery_job(d, 0)->retry_count, 0);
    assert_int_equal(seriatim_delivery_job(d, 0)->payload_count, 1);
    seriatim_runner_free(runner);
    seriatim_link_free(link);
}

/* Where the settings in Redis say that there is no hook, the node tells the host itself, by what it has of the run. */
static void test_r_checkpoint_6_a_host_is_told_the_payload_behind_a_checkpoint_that_used_up_its_retries(void **state)
{
    static const char *const actions[] = {"bury", "park", "drop"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof actions / sizeof *actions; i++) {
        seriatim_queue_settings q = queue_named(actions[i], 1);
        size_t queue;
        seriatim_link *link;
        seriatim_runner *runner;
        seriatim_delivery *d;
        const seriatim_claimed *job;
        q.max_retry_count = 0;
        q.on_exhausted = actions[i];
        link = connect_link(&q, &queue);
        runner = runner_start("telling", 10000, &q, 1);
        team_push_for(link, queue, 0, 2, 1);
        d = runner_take(runner);
        assert_int_equal(seriatim_runner_checkpoint(runner, d, 0, 1), SERIATIM_OK);
        assert_string_equal(failed(runner, d), i == 0 ? "dead" : i == 1 ? "parked" : "dropped");
        seriatim_runner_settle(runner, d);
        d = runner_take(runner);
        assert_int_equal(seriatim_delivery_kind_of(d), SERIATIM_EXHAUSTED);
        job = seriatim_delivery_job(d, 0);
        assert_int_equal(job->payload_count, 1);
        assert_int_equal(job->payload_total, 1);
        assert_int_equal(job->payloads[0].len, 1);
        assert_memory_equal(job->payloads[0].data, "1", 1);
        seriatim_runner_settle(runner, d);
        seriatim_runner_free(runner);
        seriatim_link_free(link);
    }
}

/* As a thread that waits without the lock of its language: the delivery is gone when it looks. */
static void test_a_flush_of_a_delivery_that_was_settled_meanwhile_is_closed(void **state)
{
    seriatim_queue_settings q = queue_named("flushed", 1);
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    seriatim_runner *runner = runner_start("flushing", 10000, &q, 1);
    seriatim_delivery *d;
    seriatim_flush flush;
    int status;
    (void)state;
    team_push_for(link, queue, 0, 2, 1);
    d = runner_take(runner);
    assert_int_equal(seriatim_runner_checkpoint(runner, d, 0, 1), SERIATIM_OK);
    status = seriatim_runner_flush_begin(runner, d, &flush);
    assert_true(status == SERIATIM_AGAIN || status == SERIATIM_OK);
    seriatim_delivery_done(d, 0);
    assert_int_equal(seriatim_runner_settle(runner, d), SERIATIM_OK);
    assert_int_equal(seriatim_runner_flush_wait(runner, &flush, 1000), SERIATIM_CLOSED);
    seriatim_runner_flush_end(runner, &flush);
    seriatim_runner_free(runner);
    seriatim_link_free(link);
}

/* A checkpoint before the abandon, which is confirmed, one behind it, and none: the run is another's in each case. */
static void test_r_checkpoint_7_a_flush_of_a_delivery_that_was_handed_back_is_stale(void **state)
{
    seriatim_queue_settings q = queue_named("abandoned", 1);
    size_t queue, count;
    seriatim_link *link;
    int before, behind;
    (void)state;
    q.fold = "list";
    link = connect_link(&q, &queue);
    for (before = 0; before <= 1; before++)
        for (behind = 0; behind <= 1; behind++) {
            seriatim_runner *runner = runner_start("abandoning", 10000, &q, 1);
            seriatim_delivery *d;
            seriatim_query all;
            double until = seconds() + 30;
            team_push_for(link, queue, 0, 3, 1);
            d = runner_take(runner);
            if (before) {
                assert_int_equal(seriatim_runner_checkpoint(runner, d, 0, 1), SERIATIM_OK);
                assert_int_equal(seriatim_runner_flush(runner, d, 30000), SERIATIM_OK);
            }
            seriatim_runner_stop(runner);
            seriatim_runner_abandon(runner);
            if (behind)
                assert_int_equal(seriatim_runner_checkpoint(runner, d, 0, 2), SERIATIM_OK);
            assert_int_equal(seriatim_runner_flush(runner, d, 30000), SERIATIM_STALE);
            while (!seriatim_runner_stopped(runner) && seconds() < until)
                pause_ms(2);
            seriatim_query_init(&all, SERIATIM_RANGE_BY_ID);
            drive(link, seriatim_query_begin(seriatim_link_client(link), queue, &all));
            assert_int_equal(seriatim_query_result(seriatim_link_client(link), &count)->payload_count, 3 - before);
            seriatim_runner_settle(runner, d);
            seriatim_runner_free(runner);
            drive(link, seriatim_action_begin(seriatim_link_client(link), queue, SERIATIM_DELETE_QUEUE,
                                              &(seriatim_text){q.name, q.name_len}, 1));
        }
    seriatim_link_free(link);
}

static void test_an_id_or_a_payload_that_a_delivery_does_not_have_is_refused(void **state)
{
    seriatim_queue_settings q = queue_named("few", 1);
    static const size_t place = 0, beyond[2] = {0, 2}, huge[2] = {SIZE_MAX, 0}, twice[2] = {1, 1}, back[2] = {1, 0};
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    seriatim_runner *runner = runner_start("few", 10000, &q, 1);
    seriatim_delivery *d;
    (void)state;
    team_push_for(link, queue, 0, 2, 1);
    d = runner_take(runner);
    assert_null(seriatim_delivery_job(d, 1));
    assert_int_equal(seriatim_delivery_done(d, 1), SERIATIM_INVALID);
    assert_int_equal(seriatim_delivery_done(d, 77), SERIATIM_INVALID);
    assert_int_equal(seriatim_delivery_fail(d, 1, "wrong", 5, 1), SERIATIM_INVALID);
    assert_int_equal(seriatim_delivery_release(d, 1), SERIATIM_INVALID);
    assert_int_equal(seriatim_delivery_snooze(d, 1, 1, NULL, 0), SERIATIM_INVALID);
    assert_int_equal(seriatim_delivery_reject(d, 1, &place, 1, "wrong", 5), SERIATIM_INVALID);
    assert_int_equal(seriatim_delivery_reject(d, 0, NULL, 1, "wrong", 5), SERIATIM_INVALID);
    assert_int_equal(seriatim_delivery_job(d, 0)->payload_count, 2);
    assert_int_equal(seriatim_delivery_reject(d, 0, beyond, 2, "wrong", 5), SERIATIM_INVALID);
    assert_int_equal(seriatim_delivery_reject(d, 0, huge, 2, "wrong", 5), SERIATIM_INVALID);
    assert_int_equal(seriatim_delivery_reject(d, 0, twice, 2, "wrong", 5), SERIATIM_INVALID);
    assert_int_equal(seriatim_delivery_reject(d, 0, back, 2, "wrong", 5), SERIATIM_INVALID);
    assert_int_equal(seriatim_runner_checkpoint(runner, d, 0, 1), SERIATIM_OK);
    assert_int_equal(seriatim_runner_flush(runner, d, 30000), SERIATIM_OK);
    assert_int_equal(seriatim_delivery_reject(d, 0, &place, 1, "wrong", 5), SERIATIM_INVALID); /* it has ended */
    assert_int_equal(seriatim_delivery_reject(d, 0, twice, 1, "wrong", 5), SERIATIM_OK);
    assert_int_equal(seriatim_runner_extend(runner, d, 1, 5), SERIATIM_INVALID);
    assert_int_equal(seriatim_runner_checkpoint(runner, d, 1, 1), SERIATIM_INVALID);
    assert_null(seriatim_runner_failure(runner, d, 1));
    assert_int_equal(seriatim_delivery_fail(d, 0, NULL, 5, 1), SERIATIM_OK);
    assert_int_equal(seriatim_runner_settle(runner, d), SERIATIM_OK);
    seriatim_runner_free(runner);
    seriatim_link_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_r_settings_4_a_server_that_overwrites_settings_names_both_values, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_worker_is_added_to_a_running_runner_and_withdrawn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_worker_whose_queue_is_refused_is_served_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_node_command_reaches_one_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_node_command_is_removed_with_its_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_r_checkpoint_4_a_failure_behind_a_checkpoint_is_logged_as_the_first_in_a_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_r_checkpoint_6_a_host_is_told_the_payload_behind_a_checkpoint_that_used_up_its_retries, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(test_a_flush_of_a_delivery_that_was_settled_meanwhile_is_closed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_r_checkpoint_7_a_flush_of_a_delivery_that_was_handed_back_is_stale, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_id_or_a_payload_that_a_delivery_does_not_have_is_refused, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

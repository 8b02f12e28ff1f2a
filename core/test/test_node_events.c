/*
 * test_node_events.c - what a node reports to its host of many failures, and that no allocation that fails breaks it.
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
#include <stdlib.h>
#include <string.h>

#include "failing.h"
#include "node_fixture.h"
#include "store.h"
#include "sim.h"
#include "wire/keys.h"

/* ---- The n-th allocation fails -------------------------------------------------------------- */

/* A life with a failure, a huge id and a stop; 1 when all went well and nothing was short. */
static int short_life(size_t fail_from, size_t fail_count)
{
    static const profile p = {.name = "short", .nodes = 1, .threads = 2, .batch = 4};
    failing memory = {0, fail_from + 1, 0, fail_count - 1};
    seriatim_allocator mem = {failing_alloc, &memory};
    seriatim_node_settings settings;
    seriatim_error error;
    sim s;
    sim_node *n = &s.nodes[0];
    int64_t until;
    int i, made;
    memset(&s, 0, sizeof s);
    memset(&settings, 0, sizeof settings);
    s.p = &p;
    s.store = store_new(7, 10);
    for (i = 0; i < 30; i++)
        store_push(s.store, &s.store->ids[i % 9 < 3 ? 0 : i % 9], 0);
    settings.options.allocator = &mem;
    settings.options.ns = STORE_NS;
    settings.id = "short";
    settings.lease_ms = LEASE_MS;
    settings.poll_ms = 100;
    settings.threads = 2;
    snprintf(n->id, sizeof n->id, "short");
    made = srt_node_new(&settings, &n->node, &error) == SERIATIM_OK;
    if (made &&
        (!sim_add_workers(&s, n->node) || srt_node_start(n->node, sim_local_now(&s, n), &error) != SERIATIM_OK)) {
        srt_node_free(n->node);
        made = 0;
    }
    until = s.store->now_us + 20000000;
    while (made && n->node && s.store->now_us < until) {
        if (store_empty(s.store) && !n->stopping) {
            n->stopping = 1;
            n->abandon_at = SRT_NEVER;
            srt_node_stop(n->node, sim_local_now(&s, n));
        }
        s.store->now_us += 3000;
        n->born_again = INT64_MAX;
        if (n->node->stopped) {
            srt_node_free(n->node);
            for (i = 0; i < SRT_CHANNELS; i++)
                sim_node_disconnect(&s, n, i);
            n->node = NULL;
        } else {
            int busy = sim_node_io(&s, n);
            srt_node_pulse(n->node, sim_local_now(&s, n));
            sim_node_tick(&s, n, busy);
            sim_node_threads(&s, n);
        }
    }
    if (made && n->node)
        sim_dump(&s);
    if (made && n->node)
        fail_msg("allocation %lu: the node does not come to its end", (unsigned long)fail_from);
    if (s.store->violation[0])
        fail_msg("allocation %lu: %s", (unsigned long)fail_from, s.store->violation);
    if (made)
        sim_check_payloads(&s);
    assert_string_equal(s.store->violation, "");
    assert_int_equal(memory.live, 0);
    store_free(s.store);
    return made && memory.calls <= fail_from;
}

/* How many of this number of failures at `now` are logged one by one. */
static int told_of(srt_node *node, int failures, int64_t now)
{
    int told = 0;
    while (failures-- > 0)
        told += srt_node_may_log(node, 0, now);
    return told;
}

/* The count that an event tells at `now`; 0 when none does. */
static int64_t counted(srt_node *node, int64_t now)
{
    seriatim_event event;
    if (srt_node_event(node, now, &event) != SERIATIM_OK)
        return 0;
    assert_int_equal(event.kind, SERIATIM_EVENT_FAILURES);
    assert_non_null(strstr(event.text, "more failures in queue Q are not logged"));
    return event.number;
}

/* With the queue Q. */
static srt_node *new_logging_node(void)
{
    seriatim_node_settings settings = node_of_one_thread("n");
    seriatim_queue_settings q = queue_q();
    seriatim_error error;
    srt_node *node;
    size_t worker;
    assert_int_equal(srt_node_new(&settings, &node, &error), SERIATIM_OK);
    assert_int_equal(srt_node_worker(node, &q, &worker, &error), SERIATIM_OK);
    return node;
}

static void test_many_failures_are_logged_as_a_count(void **state)
{
    srt_node *node = new_logging_node();
    (void)state;
    assert_int_equal(told_of(node, 10, 5000), 10);
    assert_int_equal(told_of(node, 10, 6000), 10);
    assert_int_equal(counted(node, 7000), 0);
    assert_int_equal(told_of(node, 500, 7000), 10);
    assert_int_equal(counted(node, 7999), 0);
    assert_int_equal(counted(node, 8000), 490);
    assert_int_equal(counted(node, 8000), 0);
    assert_int_equal(told_of(node, 11, 8100), 0); /* one line a second as long as there are many */
    assert_int_equal(counted(node, 9000), 11);
    assert_int_equal(told_of(node, 10, 9100), 0);
    assert_int_equal(counted(node, 10000), 10);
    assert_int_equal(told_of(node, 10, 10100), 10);
    srt_node_free(node);
}

/* 100,000 failures of a queue within 20 seconds; the log is looked at each 10 ms, and 2 seconds longer. */
static void test_r_log_1_of_100000_failures_at_most_1000_lines_are_logged(void **state)
{
    srt_node *node = new_logging_node();
    int64_t now, told = 0, lines = 0, count, counts = 0;
    (void)state;
    for (now = 5000; now < 27000; now += 10) {
        told += now < 25000 ? told_of(node, 50, now) : 0;
        count = counted(node, now);
        counts += count;
        lines += count > 0;
    }
    assert_int_equal(told + counts, 100000); /* none is missing in the counts */
    assert_in_range(told + lines, 10, 1000);
    srt_node_free(node);
}

/* What other nodes read of a node that was told something before its start. */
static void check_description(void (*tell)(srt_node *, int64_t), char state)
{
    seriatim_node_settings settings = node_of_one_thread("n");
    seriatim_queue_settings q = queue_q();
    seriatim_error error;
    srt_node *node;
    size_t worker;
    char text[64];
    settings.description = "host";
    assert_int_equal(srt_node_new(&settings, &node, &error), SERIATIM_OK);
    assert_int_equal(srt_node_worker(node, &q, &worker, &error), SERIATIM_OK);
    if (tell)
        tell(node, 5000);
    assert_int_equal(srt_node_start(node, 5000, &error), SERIATIM_OK);
    snprintf(text, sizeof text, "%c %08x|host", state, (unsigned)srt_crc32("Q", 1));
    assert_int_equal(node->description.len, strlen(text));
    assert_memory_equal(node->description.data, text, strlen(text));
    srt_node_free(node);
}

static void test_an_order_before_the_start_leaves_the_text_of_the_host_and_is_told(void **state)
{
    (void)state;
    check_description(NULL, 'b');
    check_description(srt_node_quiet, 'q');
    check_description(srt_node_stop, 's');
}

static void test_every_allocation_fails(void **state)
{
    size_t from = 0;
    (void)state;
    while (!short_life(from, 1 + from % 4))
        from++;
    assert_true(from > 50);
    print_message("%lu allocations\n", (unsigned long)from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_failures_are_logged_as_a_count),
        cmocka_unit_test(test_r_log_1_of_100000_failures_at_most_1000_lines_are_logged),
        cmocka_unit_test(test_an_order_before_the_start_leaves_the_text_of_the_host_and_is_told),
        cmocka_unit_test(test_every_allocation_fails),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

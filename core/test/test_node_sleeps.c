/*
 * test_node_sleeps.c - how often a node wakes that has nothing to do: against a model of Redis (store.h), on a clock
 * that stands still while bytes move.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store_node.h"

/* How often the node wakes from now on in this time, if each wake-up comes when it asked for it. */
static int wakes_of(srt_node *node, int64_t now, int64_t ms)
{
    int64_t end = now + ms;
    int wakes = 0;
    for (; now < end; wakes++) {
        srt_node_pulse(node, now);
        now = srt_node_tick(node, now);
    }
    return wakes;
}

static int wakes_in(node_and_store *f, int64_t ms)
{
    int wakes = wakes_of(f->node, now_of(f), ms);
    f->store->now_us += ms * 1000;
    return wakes;
}

static void connect_node(node_and_store *f)
{
    int i;
    for (i = 0; i < SRT_CHANNELS; i++) {
        f->conns[i] = store_connect(f->store);
        assert_int_equal(srt_node_connected(f->node, (srt_channel)i, NULL, NULL, 0, now_of(f)), SERIATIM_OK);
    }
}

static void test_a_node_without_redis_sleeps(void **state)
{
    node_and_store f = open_node(queue_q());
    (void)state;
    srt_node_disconnected(f.node, SRT_WAKES, now_of(&f));
    srt_node_disconnected(f.node, SRT_COMMANDS, now_of(&f));
    assert_true(wakes_in(&f, 400000) < 100); /* its heartbeat has been due for most of the time */
    connect_node(&f);
    pump(&f);
    push_and_run(&f, id_of(&f, 0, 0));
    assert_int_equal(f.node->stats.processed, 0);
    pass(&f, HOLD_MS);
    assert_int_equal(f.node->stats.processed, 1);
    close_node(&f);
}

/* It waits for its cluster, or for one Redis that is connected and does not answer. */
static void test_a_node_whose_layouts_are_not_known_sleeps(void **state)
{
    int is_cluster;
    (void)state;
    for (is_cluster = 0; is_cluster < 2; is_cluster++) {
        seriatim_node_settings settings = node_of_one_thread("waiting");
        seriatim_queue_settings queue = queue_q();
        seriatim_error error;
        size_t worker;
        srt_node *node;
        assert_int_equal(srt_node_new(&settings, &node, &error), SERIATIM_OK);
        if (is_cluster)
            assert_int_equal(srt_node_seed(node, "a", 1), SERIATIM_OK);
        assert_int_equal(srt_node_worker(node, &queue, &worker, &error), SERIATIM_OK);
        assert_int_equal(srt_node_start(node, 1000, &error), SERIATIM_OK);
        if (!is_cluster)
            assert_int_equal(srt_node_connected(node, SRT_COMMANDS, NULL, NULL, 0, 1000), SERIATIM_OK);
        assert_true(wakes_of(node, 1000, 60000) < 600);
        srt_node_free(node);
    }
}

/* Its host frees it only when its threads have ended, which may be late. Redis has answered, or does not. */
static void test_an_abandoned_node_sleeps_when_it_has_stopped(void **state)
{
    int answers;
    (void)state;
    for (answers = 0; answers < 2; answers++) {
        node_and_store f = open_node(queue_q());
        seriatim_delivery *held = push_and_take(&f, id_of(&f, 0, 0));
        srt_node_stop(f.node, now_of(&f));
        srt_node_abandon(f.node, now_of(&f));
        if (answers)
            pass(&f, 100);
        wakes_in(&f, 3000);
        assert_true(srt_node_is_stopped(f.node));
        assert_true(wakes_in(&f, 60000) < 100);
        end(&f, held);
        close_node(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_without_redis_sleeps),
        cmocka_unit_test(test_a_node_whose_layouts_are_not_known_sleeps),
        cmocka_unit_test(test_an_abandoned_node_sleeps_when_it_has_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_node_sleeps.c - how often a node without Redis wakes: against a model of Redis (store.h), on a clock that stands
 * still while bytes move.
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

/* How often the node wakes in this time, if each wake-up comes when it asked for it. */
static int wakes_in(node_and_store *f, int64_t ms)
{
    int64_t now = now_of(f), end = now + ms;
    int wakes = 0;
    for (; now < end; wakes++) {
        srt_node_pulse(f->node, now);
        now = srt_node_tick(f->node, now);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_without_redis_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_held_settles.c - how long a node holds what has ended: against a model of Redis (store.h), on a clock that
 * stands still while bytes move.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "store_node.h"

#define PROMPT_MS 5 /* HOLD_PROMPT_MS of hold.c */

static void test_r_run_10_what_ends_is_held_and_goes_in_one_write(void **state)
{
    node_and_store f = open_node(queue_q());
    store_id *a = id_of(&f, 0, 0), *b = id_of(&f, 1, 0), *c = id_of(&f, 1, 1);
    seriatim_delivery *of_a = push_and_take(&f, a), *of_b = push_and_take(&f, b), *of_c = push_and_take(&f, c);
    int before = f.writes;
    (void)state;
    end(&f, of_a);
    pass(&f, 20);
    end(&f, of_b);
    end(&f, of_c);
    pass(&f, HOLD_MS - 21);
    assert_int_equal(f.writes, before);
    assert_true(a->running && b->running && c->running);
    pass(&f, 1);
    assert_int_equal(f.writes, before + 1);
    assert_false(a->running || b->running || c->running);
    assert_int_equal(f.node->stats.processed, 3);
    close_node(&f);
}

static void test_what_is_held_goes_with_anything_else(void **state)
{
    node_and_store f = open_node(queue_q());
    store_id *a = id_of(&f, 0, 0), *b = id_of(&f, 1, 0), *c = id_of(&f, 2, 0);
    int before;
    (void)state;
    push_and_run(&f, a);
    pass(&f, 24);
    end(&f, push_and_take(&f, b));
    assert_true(a->running);
    pass(&f, 1);
    before = f.writes;
    end(&f, push_and_take(&f, c));
    assert_int_equal(f.writes, before + 1);
    assert_false(a->running || b->running);
    assert_true(c->running);
    pass(&f, HOLD_MS);
    assert_int_equal(f.writes, before + 2);
    assert_false(c->running);
    close_node(&f);
}

/* An id that has ended while others of its claim run is not held longer than others. */
static void test_a_part_of_a_claim_is_held_as_long(void **state)
{
    node_and_store f = open_node(queue_q());
    store_id *a = id_of(&f, 0, 0), *b = id_of(&f, 0, 1);
    seriatim_delivery *first, *second;
    (void)state;
    store_push(f.store, a, 0);
    store_push(f.store, b, 0);
    pump(&f);
    first = take(&f);
    second = take(&f);
    end(&f, first);
    pass(&f, HOLD_MS - 1);
    assert_true(a->running);
    pass(&f, 1);
    assert_false(a->running);
    assert_true(b->running);
    end(&f, second);
    pass(&f, HOLD_MS);
    assert_false(b->running);
    close_node(&f);
}

/* The id has ended and is pushed again: it runs again at once. Returns whether it did. */
static int is_run_again_at_once(node_and_store *f, store_id *id)
{
    int64_t before;
    seriatim_delivery *d = NULL;
    push_and_run(f, id);
    pass(f, 10);
    assert_true(id->running);
    before = now_of(f);
    store_push(f->store, id, 0);
    pump(f);
    assert_int_equal(now_of(f), before);
    if (srt_node_take(f->node, 0, now_of(f), &d) != SERIATIM_OK)
        return 0;
    assert_int_equal(store_handed(f->store, seriatim_delivery_job(d, 0), SERIATIM_RUN), 1);
    end(f, d);
    return 1;
}

static void test_r_run_11_a_push_behind_what_is_held_runs_at_once(void **state)
{
    node_and_store f = open_node(queue_q());
    store_id *a = id_of(&f, 0, 0);
    int i;
    (void)state;
    assert_true(is_run_again_at_once(&f, a));
    pump(&f);
    assert_false(a->running); /* the shard does not hold what ends, for 100 ms */
    for (i = 0; i < 9; i++) {
        pass(&f, 10);
        push_and_run(&f, a);
        assert_false(a->running);
    }
    pass(&f, 100);
    push_and_run(&f, a);
    assert_true(a->running);
    close_node(&f);
}

static void test_control_without_the_word_a_push_waits_behind_what_is_held(void **state)
{
    node_and_store f = open_node(queue_q());
    (void)state;
    f.store->no_word_behind = 1;
    assert_false(is_run_again_at_once(&f, id_of(&f, 0, 0)));
    close_node(&f);
}

/* Pushed while it runs: its end is settled at once, however long it runs. */
static void test_a_run_with_a_push_behind_it_is_not_held(void **state)
{
    node_and_store f = open_node(queue_q());
    store_id *a = id_of(&f, 0, 0);
    seriatim_delivery *d = push_and_take(&f, a);
    (void)state;
    pass(&f, 10);
    store_push(f.store, a, 0);
    pass(&f, 5000);
    end(&f, d);
    pump(&f);
    end(&f, take(&f));
    pump(&f);
    assert_false(a->running);
    close_node(&f);
}

/* The word of the push comes before the answer to the claim of the run. */
static void test_a_push_behind_a_run_is_known_before_the_run(void **state)
{
    node_and_store f = open_node(queue_q());
    store_id *a = id_of(&f, 0, 0);
    seriatim_delivery *d;
    (void)state;
    store_push(f.store, a, 0);
    srt_node_tick(f.node, now_of(&f));
    move_bytes(&f, SRT_WAKES);
    srt_node_tick(f.node, now_of(&f));
    move_bytes(&f, SRT_COMMANDS);
    assert_true(a->running);
    store_push(f.store, a, 0);
    pump(&f);
    d = take(&f);
    pass(&f, 2000);
    end(&f, d);
    pump(&f);
    end(&f, take(&f));
    close_node(&f);
}

/* Nothing is held by a node that is to leave, nor where something else waits for the settle. */
static void test_some_nodes_and_queues_hold_nothing(void **state)
{
    seriatim_queue_settings timed = queue_q(), unique = queue_q();
    node_and_store f = open_node(queue_q());
    store_id *a = id_of(&f, 0, 0);
    seriatim_delivery *d;
    (void)state;
    push_and_run(&f, a);
    assert_true(a->running);
    srt_node_quiet(f.node, now_of(&f));
    pump(&f);
    assert_false(a->running);
    close_node(&f);

    f = open_node(queue_q());
    d = push_and_take(&f, id_of(&f, 0, 0));
    srt_node_stop(f.node, now_of(&f));
    pump(&f);
    end(&f, d);
    pump(&f);
    assert_true(srt_node_is_stopped(f.node));
    close_node(&f);

    timed.ttr = 1;
    f = open_node(timed);
    push_and_run(&f, id_of(&f, 0, 0));
    assert_false(id_of(&f, 0, 0)->running);
    close_node(&f);

    unique.on_waiting = "unique";
    f = open_node(unique);
    push_and_run(&f, id_of(&f, 0, 0));
    assert_false(id_of(&f, 0, 0)->running);
    close_node(&f);
}

/* A push is refused until the settle, also while more of the claim is to run. */
static void test_an_id_of_a_unique_queue_does_not_wait_for_the_rest_of_its_claim(void **state)
{
    seriatim_queue_settings unique = queue_q();
    node_and_store f;
    store_id *a, *b;
    (void)state;
    unique.on_waiting = "unique";
    f = open_node_of_threads(unique, 1);
    a = id_of(&f, 0, 0);
    b = id_of(&f, 0, 1);
    store_push(f.store, a, 0);
    store_push(f.store, b, 0);
    pump(&f);
    assert_true(a->whole && b->whole && a->fence == b->fence);
    end(&f, take(&f));
    pass(&f, PROMPT_MS);
    assert_false(a->running);
    assert_true(b->running);
    end(&f, take(&f));
    pump(&f);
    assert_false(b->running);
    close_node(&f);
}

/* As many as end at once: is their settle held? */
static int are_held(unsigned count)
{
    node_and_store f = open_node(queue_q());
    seriatim_delivery *d[64];
    unsigned i;
    int held;
    for (i = 0; i < count; i++)
        store_push(f.store, id_of(&f, 0, i), 0);
    pump(&f);
    for (i = 0; i < count; i++)
        d[i] = take(&f);
    for (i = 0; i < count; i++)
        end(&f, d[i]);
    pump(&f);
    held = id_of(&f, 0, 0)->running;
    close_node(&f);
    return held;
}

static void test_many_are_not_held(void **state)
{
    (void)state;
    assert_true(are_held(31));
    assert_false(are_held(32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_run_10_what_ends_is_held_and_goes_in_one_write),
        cmocka_unit_test(test_what_is_held_goes_with_anything_else),
        cmocka_unit_test(test_a_part_of_a_claim_is_held_as_long),
        cmocka_unit_test(test_r_run_11_a_push_behind_what_is_held_runs_at_once),
        cmocka_unit_test(test_control_without_the_word_a_push_waits_behind_what_is_held),
        cmocka_unit_test(test_a_run_with_a_push_behind_it_is_not_held),
        cmocka_unit_test(test_a_push_behind_a_run_is_known_before_the_run),
        cmocka_unit_test(test_some_nodes_and_queues_hold_nothing),
        cmocka_unit_test(test_an_id_of_a_unique_queue_does_not_wait_for_the_rest_of_its_claim),
        cmocka_unit_test(test_many_are_not_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

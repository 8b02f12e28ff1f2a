/*
 * test_node_handed_over.c - what a node does with what pushes have claimed for it: against a model of Redis (store.h),
 * on a clock that stands still while bytes move.
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

#include "store_node.h"

#define WINDOW 40

static node_and_store open_listener(void)
{
    node_and_store f = open_node(queue_q());
    f.store->hands_over = 1;
    return f;
}

static void is_taken(const node_and_store *f, const store_id *id, seriatim_delivery **d)
{
    const seriatim_claimed *job;
    *d = take(f);
    job = seriatim_delivery_job(*d, 0);
    assert_int_equal(job->id_len, id->len);
    assert_memory_equal(job->id, id->name, id->len);
}

/* All shards of the first queue have this window. */
static void has_window(const node_and_store *f, size_t window)
{
    unsigned i;
    for (i = 0; i < f->store->queues[0].shards; i++)
        assert_int_equal(f->store->shards[i].window, window);
}

static void test_r_run_12_what_a_push_has_claimed_is_begun_without_a_request(void **state)
{
    node_and_store f = open_listener();
    store_id *a = id_of(&f, 0, 0), *b = id_of(&f, 0, 1);
    seriatim_delivery *of_a, *of_b;
    int before = f.writes;
    (void)state;
    has_window(&f, WINDOW);
    store_push(f.store, a, 0);
    store_push(f.store, b, 0);
    pump(&f);
    is_taken(&f, a, &of_a);
    is_taken(&f, b, &of_b);
    assert_int_equal(f.writes, before);
    end(&f, of_a);
    end(&f, of_b);
    pass(&f, HOLD_MS);
    assert_int_equal(f.writes, before + 1);
    assert_false(a->running || b->running);
    assert_int_equal(f.store->handed_over, 2);
    close_node(&f);
}

/* The first two messages are lost; the third names a claim that the node has not seen. */
static void test_what_was_missed_is_answered_the_oldest_first(void **state)
{
    node_and_store f = open_listener();
    store_id *ids[3];
    seriatim_delivery *d[3];
    int i;
    (void)state;
    for (i = 0; i < 3; i++)
        ids[i] = id_of(&f, 0, (unsigned)i);
    f.store->lost_ppm = 1000000;
    store_push(f.store, ids[0], 0);
    store_push(f.store, ids[1], 0);
    pump(&f);
    f.store->lost_ppm = 0;
    store_push(f.store, ids[2], 0);
    pump(&f);
    for (i = 0; i < 3; i++)
        is_taken(&f, ids[i], &d[i]);
    for (i = 0; i < 3; i++)
        end(&f, d[i]);
    pass(&f, HOLD_MS);
    assert_true(store_empty(f.store));
    assert_int_equal(f.store->missed, 3);
    close_node(&f);
}

/*
 * A push behind the run has spread the claims that the node has missed. Returns whether the first of them runs.
 */
static int is_spread_claim_answered(int again_by_held)
{
    node_and_store f = open_listener();
    store_id *a = id_of(&f, 0, 0), *b = id_of(&f, 0, 1);
    seriatim_delivery *first, *second = NULL;
    int answered;
    f.store->lost_ppm = 1000000;
    store_push(f.store, a, 0);
    store_push(f.store, b, 0);
    f.store->lost_ppm = 0;
    f.store->no_word_behind = 1;
    f.store->again_by_held = again_by_held;
    store_push(f.store, a, 0);
    assert_true(a->spread && b->spread);
    store_say(f.store, 0, "", "");
    pump(&f);
    first = take(&f);
    answered = srt_node_take(f.node, 0, now_of(&f), &second) == SERIATIM_OK;
    if (answered) {
        assert_memory_equal(seriatim_delivery_job(first, 0)->id, a->name, a->len);
        assert_memory_equal(seriatim_delivery_job(second, 0)->id, b->name, b->len);
        end(&f, second);
    }
    end(&f, first);
    close_node(&f);
    return answered;
}

static void test_a_missed_claim_that_was_spread_is_answered(void **state)
{
    (void)state;
    assert_true(is_spread_claim_answered(0));
    assert_false(is_spread_claim_answered(1)); /* the control: only while claims hold ids together */
}

/* The message comes when an answer to a claim has named the id already. */
static void test_a_message_that_is_late_is_ignored(void **state)
{
    node_and_store f = open_listener();
    store_id *a = id_of(&f, 0, 0), *b = id_of(&f, 0, 1);
    seriatim_delivery *of_a, *of_b, *none;
    int before;
    (void)state;
    f.store->late_ppm = 1000000;
    store_push(f.store, a, 0);
    f.store->late_ppm = 0;
    store_push(f.store, b, 0);
    pump(&f);
    is_taken(&f, a, &of_a);
    is_taken(&f, b, &of_b);
    before = f.writes;
    f.store->now_us += 100000;
    store_send_late(f.store);
    move_bytes(&f, SRT_WAKES);
    assert_int_equal(srt_node_take(f.node, 0, now_of(&f), &none), SERIATIM_AGAIN);
    assert_int_equal(f.writes, before);
    end(&f, of_a);
    end(&f, of_b);
    close_node(&f);
}

/* The answer to a claim is on its way: it is not known what it has seen. */
static void test_a_message_that_overtakes_an_answer_is_dropped_and_asked_for(void **state)
{
    node_and_store f = open_listener();
    store_id *a = id_of(&f, 0, 0);
    seriatim_delivery *d;
    (void)state;
    store_say(f.store, 0, "", "");
    move_bytes(&f, SRT_WAKES);
    srt_node_tick(f.node, now_of(&f));
    move_bytes(&f, SRT_COMMANDS); /* the claim is answered; the node has not read it */
    store_push(f.store, a, 0);
    assert_int_equal(f.store->handed_over, 1);
    move_bytes(&f, SRT_WAKES);
    assert_int_equal(srt_node_take(f.node, 0, now_of(&f), &d), SERIATIM_AGAIN);
    f.node->groups[0].waiting++;
    pump(&f);
    is_taken(&f, a, &d);
    assert_int_equal(f.store->missed, 1);
    end(&f, d);
    close_node(&f);
}

static void test_a_message_that_is_damaged_is_asked_for(void **state)
{
    static const char *const rests[] = {"", "12345678", "1234567812345678\377\377ab", "1234567812345678ab"};
    node_and_store f = open_listener();
    size_t i;
    (void)state;
    for (i = 0; i < sizeof rests / sizeof *rests; i++) {
        int before = f.writes;
        store_say(f.store, 0, "=", rests[i]);
        pump(&f);
        assert_int_equal(f.writes, before + 1);
    }
    close_node(&f);
}

/* Where a claim does more than to take the id, or where nothing is to be begun, no push claims. */
static void test_some_nodes_and_queues_let_no_push_claim(void **state)
{
    seriatim_queue_settings q = queue_q();
    node_and_store f;
    (void)state;
    q.ttr = 1;
    f = open_node(q);
    has_window(&f, 0);
    close_node(&f);
    q = queue_q();
    q.on_waiting = "unique";
    f = open_node(q);
    has_window(&f, 0);
    close_node(&f);
    q = queue_q();
    q.max_running = 20;
    f = open_node(q);
    has_window(&f, 4); /* of five shards */
    close_node(&f);
}

static void test_a_quiet_node_withdraws_at_once(void **state)
{
    node_and_store f = open_listener();
    store_id *a = id_of(&f, 0, 0), *b = id_of(&f, 0, 1);
    seriatim_delivery *d;
    (void)state;
    srt_node_quiet(f.node, now_of(&f));
    store_push(f.store, a, 0); /* before Redis knows */
    store_push(f.store, b, 0);
    assert_int_equal(f.store->handed_over, 2);
    pump(&f);
    has_window(&f, 0);
    assert_false(a->running); /* handed back */
    assert_false(b->running);
    store_push(f.store, id_of(&f, 0, 2), 0);
    pump(&f);
    assert_int_equal(f.store->handed_over, 2);
    assert_int_equal(srt_node_take(f.node, 0, now_of(&f), &d), SERIATIM_AGAIN);
    f.node->groups[0].waiting++;
    close_node(&f);
}

static void test_a_node_that_hears_no_messages_lets_no_push_claim(void **state)
{
    node_and_store f = open_listener();
    store_id *a = id_of(&f, 0, 0);
    seriatim_delivery *d;
    (void)state;
    store_disconnect(f.conns[SRT_WAKES]);
    srt_node_disconnected(f.node, SRT_WAKES, now_of(&f));
    store_push(f.store, a, 0);
    assert_int_equal(f.store->unheard, 1);
    assert_false(a->running);
    f.conns[SRT_WAKES] = store_connect(f.store);
    srt_shard_changed(f.node, f.node->shards[0], now_of(&f)); /* as the poll does */
    f.store->shards[0].wake = 0;
    pump(&f);
    is_taken(&f, a, &d);
    assert_int_equal(f.store->shards[0].window, 0);
    end(&f, d);
    close_node(&f);
}

/*
 * The owner's process is killed before a push. The next owner finds the id as it was pushed: nobody has run it. Returns
 * whether it is in doubt instead.
 */
static int is_in_doubt_after_a_death(int claims_unheard)
{
    node_and_store f = open_listener();
    store_id *a = id_of(&f, 0, 0);
    int claimed;
    f.store->claims_unheard = claims_unheard;
    store_disconnect(f.conns[SRT_WAKES]);
    store_disconnect(f.conns[SRT_COMMANDS]);
    store_push(f.store, a, 0);
    claimed = a->running;
    close_node(&f);
    return claimed; /* a run of a dead owner is unproven: recover.lua */
}

static void test_what_is_pushed_to_a_dead_owner_is_not_in_doubt(void **state)
{
    (void)state;
    assert_false(is_in_doubt_after_a_death(0));
    assert_true(is_in_doubt_after_a_death(1)); /* the control: a push that claims though nobody is subscribed */
}

/*
 * A failover forgets a claim whose id no thread has begun; before the node takes its shard anew, a push claims for it.
 * Returns how many times the id is given to a thread.
 */
static int given_after_a_failover(int hears_last_claim)
{
    node_and_store f = open_listener();
    store_id *a = id_of(&f, 0, 0), *b = id_of(&f, 0, 1);
    seriatim_delivery *d;
    store_image replica;
    int given = 0;
    f.store->hears_last_claim = hears_last_claim;
    f.store->hands_over = 0;
    store_push(f.store, a, 0);
    store_copy(f.store, &replica);
    pump(&f); /* claims a, which waits in the node */
    store_restore(f.store, &replica);
    f.store->hands_over = 1;
    f.store->shards[0].wake = INT64_MAX; /* the owner slept when the replica was made */
    f.store->now_us += 1000;
    store_push(f.store, b, 0);
    assert_true(b->running);
    reconnect_node(&f);
    pump(&f);
    while (srt_node_take(f.node, 0, now_of(&f), &d) == SERIATIM_OK) {
        const seriatim_claimed *job = seriatim_delivery_job(d, 0);
        given += job->id_len == a->len && memcmp(job->id, a->name, a->len) == 0;
        store_handed(f.store, job, SERIATIM_RUN);
        end(&f, d);
    }
    f.node->groups[0].waiting++;
    close_node(&f);
    return given;
}

static void test_f36_a_push_that_claims_hides_no_claim_that_a_failover_forgot(void **state)
{
    (void)state;
    assert_int_equal(given_after_a_failover(0), 1);
    assert_int_equal(given_after_a_failover(1), 2); /* the control: claims up to the last one count as known */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_run_12_what_a_push_has_claimed_is_begun_without_a_request),
        cmocka_unit_test(test_what_was_missed_is_answered_the_oldest_first),
        cmocka_unit_test(test_a_missed_claim_that_was_spread_is_answered),
        cmocka_unit_test(test_a_message_that_is_late_is_ignored),
        cmocka_unit_test(test_a_message_that_overtakes_an_answer_is_dropped_and_asked_for),
        cmocka_unit_test(test_a_message_that_is_damaged_is_asked_for),
        cmocka_unit_test(test_some_nodes_and_queues_let_no_push_claim),
        cmocka_unit_test(test_a_quiet_node_withdraws_at_once),
        cmocka_unit_test(test_a_node_that_hears_no_messages_lets_no_push_claim),
        cmocka_unit_test(test_what_is_pushed_to_a_dead_owner_is_not_in_doubt),
        cmocka_unit_test(test_f36_a_push_that_claims_hides_no_claim_that_a_failover_forgot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

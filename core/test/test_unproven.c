/*
 * test_unproven.c - when ids that may have ended a process run: against a model of Redis (store.h), on a clock that
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

#define TTR_MS 8000

/* mark: 1 unproven, 2 suspect */
static store_id *in_doubt(node_and_store *f, unsigned shard, unsigned n, int mark)
{
    store_id *id = id_of(f, shard, n);
    store_push(f->store, id, 0);
    id->first.place = 3;
    id->first.mark = mark;
    return id;
}

/* An id that waits for its run alone. */
static store_id *unproven(node_and_store *f, unsigned shard, unsigned n)
{
    return in_doubt(f, shard, n, 1);
}

/* Of more than STORE_SPILL payloads the record has none. */
static store_id *of_many_payloads(node_and_store *f, store_id *id, int count)
{
    while (id->first.count < count)
        store_push(f->store, id, 0);
    return id;
}

static store_id *spilled_suspect(node_and_store *f, unsigned shard, unsigned n)
{
    return of_many_payloads(f, in_doubt(f, shard, n, 2), STORE_SPILL + 1);
}

static const store_id *id_of_delivery(const node_and_store *f, const seriatim_delivery *d)
{
    const seriatim_claimed *job = seriatim_delivery_job(d, 0);
    size_t i;
    for (i = 0; i < f->store->id_count; i++)
        if (f->store->ids[i].len == job->id_len && memcmp(f->store->ids[i].name, job->id, job->id_len) == 0)
            return &f->store->ids[i];
    return NULL;
}

/* With serial_shards the second id of a shard waits for the first, and those of other shards do not. */
static void test_f35_an_unproven_id_that_may_not_run_holds_up_no_other(void **state)
{
    seriatim_queue_settings q = queue_q();
    node_and_store f;
    seriatim_delivery *first, *second;
    const store_id *a, *b;
    int runs;
    (void)state;
    q.serial_shards = 1;
    f = open_node_of_threads(q, 2);
    unproven(&f, 0, 0);
    unproven(&f, 0, 1);
    unproven(&f, 0, 2);
    pass(&f, 5);
    unproven(&f, 1, 0);
    unproven(&f, 1, 1);
    pass(&f, 5);
    first = take(&f);
    pass(&f, 5);
    a = id_of_delivery(&f, first);
    for (runs = 0; runs < 2; runs++) { /* the other shard goes on beside it */
        second = take(&f);
        b = id_of_delivery(&f, second);
        assert_ptr_not_equal(a->shard, b->shard);
        end(&f, second);
        pass(&f, 5);
    }
    assert_false(srt_node_offers(f.node, 0, now_of(&f)));
    end(&f, first);
    for (runs = 0; runs < 2; runs++) {
        pass(&f, 5);
        second = take(&f);
        assert_ptr_equal(id_of_delivery(&f, second)->shard, a->shard);
        assert_false(srt_node_offers(f.node, 0, now_of(&f)));
        end(&f, second);
    }
    pass(&f, HOLD_MS);
    assert_int_equal(f.node->stats.processed, 5);
    close_node(&f);
}

static int running_alone(const node_and_store *f)
{
    int count = 0;
    size_t i;
    for (i = 0; i < f->store->id_count; i++)
        count += f->store->ids[i].running && f->store->ids[i].mode == 'u';
    return count;
}

/* What is claimed when the process dies becomes a suspect, whether or not it ran. */
static void test_unproven_ids_are_claimed_for_free_threads_and_one_ahead(void **state)
{
    node_and_store f = open_node_of_threads(queue_q(), 4);
    seriatim_delivery *d[4];
    unsigned i;
    (void)state;
    for (i = 0; i < 4; i++)
        d[i] = push_and_take(&f, id_of(&f, i, 0));
    for (i = 0; i < 10; i++)
        unproven(&f, i / 2, 1 + i % 2);
    pass(&f, 5);
    assert_int_equal(running_alone(&f), 1);
    end(&f, d[0]);
    d[0] = take(&f);
    pass(&f, 5);
    assert_int_equal(running_alone(&f), 2);
    for (i = 1; i < 4; i++)
        end(&f, d[i]);
    for (i = 1; i < 4; i++) {
        pass(&f, 5);
        d[i] = take(&f);
    }
    pass(&f, 5);
    assert_int_equal(running_alone(&f), 5);
    for (i = 0; i < 10; i++) {
        end(&f, d[i % 4]);
        pass(&f, 5);
        if (i < 6)
            d[i % 4] = take(&f);
    }
    pass(&f, HOLD_MS);
    assert_int_equal(f.node->stats.processed, 14);
    close_node(&f);
}

/* More of them could not begin, and a death of the process would make all of them suspects. */
static void test_no_more_unproven_ids_are_claimed_than_max_running_lets_run(void **state)
{
    seriatim_queue_settings q = queue_q();
    node_and_store f;
    int max, i, ended = 0;
    (void)state;
    for (max = 1; max <= 2; max++) {
        q.max_running = max;
        f = open_node_of_threads(q, 4);
        for (i = 0; i < 4; i++)
            (void)unproven(&f, (unsigned)i, 0);
        pass(&f, 5);
        assert_int_equal(running_alone(&f), max);
        for (ended = 0; ended < 4; ended++) {
            seriatim_delivery *d = take(&f);
            pass(&f, 5);
            assert_in_range(running_alone(&f), 1, max);
            end(&f, d);
            pass(&f, HOLD_MS);
        }
        assert_int_equal(f.node->stats.processed, 4);
        close_node(&f);
    }
}

/* One answer after the other. */
static void exchange(node_and_store *f)
{
    srt_node_tick(f->node, now_of(f));
    move_bytes(f, SRT_WAKES);
    move_bytes(f, SRT_COMMANDS);
}

static void await_offer(node_and_store *f)
{
    int left = 50;
    while (!srt_node_offers(f->node, 0, now_of(f)) && left-- > 0)
        exchange(f);
    assert_true(left > 0);
}

static void await_claim(node_and_store *f, const store_id *id)
{
    int left = 50;
    while (!id->running && left-- > 0)
        exchange(f);
    assert_true(id->running);
}

static void test_an_unproven_id_whose_payloads_are_read_gets_the_next_thread(void **state)
{
    node_and_store f = open_node_of_threads(queue_q(), 4);
    seriatim_delivery *d[4];
    unsigned i, left;
    (void)state;
    for (i = 0; i < 4; i++)
        d[i] = push_and_take(&f, id_of(&f, i, 0));
    for (i = 0; i < 4; i++)
        of_many_payloads(&f, unproven(&f, i, 1), 60);
    for (left = 50; !srt_node_offers(f.node, 0, now_of(&f)) && left > 0; left--) {
        f.store->now_us += 1000;
        exchange(&f);
        assert_true(running_alone(&f) <= 1);
    }
    assert_true(left > 0 && left < 45); /* it was read in several steps */
    for (i = 0; i < 4; i++) {
        end(&f, d[i]);
        pass(&f, 5);
        d[i] = take(&f);
    }
    for (i = 0; i < 4; i++)
        end(&f, d[i]);
    pass(&f, HOLD_MS);
    assert_int_equal(f.node->stats.processed, 8);
    close_node(&f);
}

/* Is the second id claimed before the first one has run? Its payloads are read, and no other may run with it. */
static void test_no_unproven_id_is_claimed_behind_one_that_is_read_and_that_it_cannot_run_with(void **state)
{
    node_and_store f;
    int serial, i;
    (void)state;
    for (serial = 0; serial < 2; serial++) {
        seriatim_queue_settings q = queue_q();
        q.serial_shards = serial;
        q.max_running = !serial;
        f = open_node_of_threads(q, 4);
        of_many_payloads(&f, unproven(&f, 0, 0), 60);
        unproven(&f, serial ? 0 : 1, 1);
        for (i = 0; i < 50 && !srt_node_offers(f.node, 0, now_of(&f)); i++) {
            f.store->now_us += 1000;
            exchange(&f);
            assert_true(running_alone(&f) <= 1);
        }
        assert_true(i > 5 && i < 50); /* it was read in several steps */
        pass(&f, 5);
        assert_int_equal(running_alone(&f), 1);
        for (i = 0; i < 2; i++) {
            end(&f, take(&f));
            pass(&f, HOLD_MS);
        }
        assert_int_equal(f.node->stats.processed, 2);
        close_node(&f);
    }
}

/* Redis lost the run of the first one. */
static void test_another_unproven_id_is_claimed_when_one_cannot_be_read(void **state)
{
    node_and_store f = open_node_of_threads(queue_q(), 1);
    seriatim_delivery *d = push_and_take(&f, id_of(&f, 0, 0));
    store_id *lost = of_many_payloads(&f, unproven(&f, 1, 0), 60);
    int i;
    (void)state;
    await_claim(&f, lost);
    unproven(&f, 2, 0);
    lost->fence--;
    for (i = 0; i < 2; i++) {
        pass(&f, HOLD_MS);
        end(&f, d);
        pass(&f, HOLD_MS);
        d = take(&f);
    }
    end(&f, d);
    pass(&f, HOLD_MS);
    assert_int_equal(f.node->stats.processed, 3);
    close_node(&f);
}

/* One thread is busy for longer than the ttr, and an unproven id is claimed for it ahead. */
static node_and_store open_claimed_ahead(seriatim_delivery **d, store_id **id)
{
    seriatim_queue_settings q = queue_q();
    node_and_store f;
    q.ttr = TTR_MS / 1000;
    f = open_node_of_threads(q, 1);
    unproven(&f, 0, 0);
    *id = unproven(&f, 0, 1);
    pass(&f, 5);
    *d = take(&f);
    pass(&f, 5);
    assert_true((*id)->running);
    return f;
}

static void run_claimed_ahead(node_and_store *f, store_id *id)
{
    seriatim_delivery *d = take(f);
    assert_ptr_equal(id_of_delivery(f, d), id);
    pass(f, 5);
    end(f, d);
    pump(f);
    assert_int_equal(id->runs, 1);
    assert_int_equal(id->starts, 1);
    close_node(f);
}

static void test_an_unproven_id_whose_time_ended_while_all_threads_were_busy_is_claimed_again(void **state)
{
    seriatim_delivery *d;
    store_id *id;
    node_and_store f = open_claimed_ahead(&d, &id);
    (void)state;
    pass(&f, TTR_MS + 10);
    end(&f, d);
    pass(&f, 5);
    run_claimed_ahead(&f, id);
}

static void test_an_unproven_id_whose_time_ended_before_its_run_is_not_handed_out(void **state)
{
    seriatim_delivery *d, *none;
    store_id *id;
    node_and_store f = open_claimed_ahead(&d, &id);
    (void)state;
    f.store->now_us += (TTR_MS + 10) * INT64_C(1000); /* nothing is asked of Redis meanwhile */
    srt_node_pulse(f.node, now_of(&f));
    end(&f, d);
    assert_int_equal(srt_node_take(f.node, 0, now_of(&f), &none), SERIATIM_AGAIN);
    pump(&f);
    run_claimed_ahead(&f, id);
}

/* Another id is ready, and a suspect waits until no thread runs anything. */
static void await_drain(node_and_store *f)
{
    store_push(f->store, id_of(f, 1, 1), 0);
    pass(f, 1);
    assert_int_equal(f->node->quarantine.step, SRT_QUARANTINE_DRAIN);
    assert_true(id_of(f, 1, 1)->running);
}

/* While the payloads of one suspect are read no other id begins, and no other suspect is claimed. */
static void test_a_spilled_suspect_runs_as_soon_as_its_payloads_are_read(void **state)
{
    node_and_store f = open_node_of_threads(queue_q(), 2);
    seriatim_delivery *d = push_and_take(&f, id_of(&f, 1, 0));
    store_id *suspects[2] = {spilled_suspect(&f, 0, 0), in_doubt(&f, 0, 1, 2)};
    int i;
    (void)state;
    await_drain(&f);
    end(&f, d);
    for (i = 0; i < 2; i++) {
        await_offer(&f);
        d = take(&f);
        assert_ptr_equal(id_of_delivery(&f, d), suspects[i]);
        assert_int_equal(suspects[1]->running, i);
        end(&f, d);
        pass(&f, 1);
    }
    await_offer(&f);
    end(&f, take(&f));
    pass(&f, HOLD_MS);
    assert_int_equal(f.node->stats.processed, 4);
    close_node(&f);
}

/* The reading of another id of the shard may take long, and the drain has a limit. */
static void test_the_drain_for_a_suspect_lasts_while_payloads_of_its_shard_are_read(void **state)
{
    node_and_store f = open_node_of_threads(queue_q(), 2);
    seriatim_delivery *d = push_and_take(&f, id_of(&f, 1, 0));
    store_id *suspect = in_doubt(&f, 0, 0, 2), *big = id_of(&f, 0, 1);
    int i, reading = 0;
    (void)state;
    for (i = 0; i < 80; i++)
        store_push(f.store, big, 0);
    for (i = 0; i < 50 && f.node->quarantine.step == SRT_QUARANTINE_NONE; i++)
        exchange(&f);
    end(&f, d);
    for (i = 0; i < 10; i++) {
        exchange(&f);
        reading += f.node->quarantine.shard->slicing;
        assert_false(suspect->running);
    }
    assert_int_equal(reading, 10);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_DRAIN);
    await_offer(&f);
    d = take(&f);
    assert_ptr_equal(id_of_delivery(&f, d), suspect);
    end(&f, d);
    pass(&f, HOLD_MS);
    end(&f, take(&f));
    pass(&f, HOLD_MS);
    assert_int_equal(f.node->stats.processed, 3);
    close_node(&f);
}

/* Redis lost the run of the first one, which comes again. */
static void test_a_suspect_whose_payloads_cannot_be_read_is_claimed_again(void **state)
{
    node_and_store f = open_node_of_threads(queue_q(), 2);
    seriatim_delivery *d = push_and_take(&f, id_of(&f, 1, 0));
    store_id *suspect = spilled_suspect(&f, 0, 0);
    (void)state;
    await_drain(&f);
    end(&f, d);
    await_claim(&f, suspect);
    suspect->fence--;
    await_offer(&f);
    pass(&f, HOLD_MS);
    d = take(&f);
    assert_ptr_equal(id_of_delivery(&f, d), suspect);
    end(&f, d);
    pass(&f, 1);
    await_offer(&f);
    end(&f, take(&f));
    pass(&f, HOLD_MS);
    assert_int_equal(f.node->stats.processed, 3);
    close_node(&f);
}

/* The master of the suspect is away when it is claimed, and is back while another id runs. */
static void test_a_suspect_that_comes_late_is_handed_back_while_another_id_runs(void **state)
{
    node_and_store f = open_node_of_threads(queue_q(), 2);
    seriatim_delivery *d = push_and_take(&f, id_of(&f, 1, 0));
    store_id *suspect = in_doubt(&f, 0, 0, 2);
    (void)state;
    await_drain(&f);
    end(&f, d);
    await_claim(&f, suspect);
    srt_node_disconnected(f.node, SRT_COMMANDS, now_of(&f));
    srt_node_tick(f.node, now_of(&f));
    d = take(&f);
    assert_ptr_equal(id_of_delivery(&f, d), id_of(&f, 1, 1));
    reconnect_node(&f);
    pass(&f, 1);
    assert_false(suspect->running);
    end(&f, d);
    await_offer(&f);
    d = take(&f);
    assert_ptr_equal(id_of_delivery(&f, d), suspect);
    end(&f, d);
    pass(&f, HOLD_MS);
    assert_int_equal(f.node->stats.processed, 3);
    close_node(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f35_an_unproven_id_that_may_not_run_holds_up_no_other),
        cmocka_unit_test(test_unproven_ids_are_claimed_for_free_threads_and_one_ahead),
        cmocka_unit_test(test_no_more_unproven_ids_are_claimed_than_max_running_lets_run),
        cmocka_unit_test(test_an_unproven_id_whose_payloads_are_read_gets_the_next_thread),
        cmocka_unit_test(test_no_unproven_id_is_claimed_behind_one_that_is_read_and_that_it_cannot_run_with),
        cmocka_unit_test(test_another_unproven_id_is_claimed_when_one_cannot_be_read),
        cmocka_unit_test(test_an_unproven_id_whose_time_ended_while_all_threads_were_busy_is_claimed_again),
        cmocka_unit_test(test_an_unproven_id_whose_time_ended_before_its_run_is_not_handed_out),
        cmocka_unit_test(test_a_spilled_suspect_runs_as_soon_as_its_payloads_are_read),
        cmocka_unit_test(test_the_drain_for_a_suspect_lasts_while_payloads_of_its_shard_are_read),
        cmocka_unit_test(test_a_suspect_whose_payloads_cannot_be_read_is_claimed_again),
        cmocka_unit_test(test_a_suspect_that_comes_late_is_handed_back_while_another_id_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_time_to_run.c - a node claims of a queue with a ttr only what its threads can begin at once: against a model of
 * Redis (store.h), on a clock that stands still while bytes move.
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

#include <string.h>

#define SHARDS 5 /* of the first queue of the model */
#define TTR_MS 8000

static seriatim_queue_settings timed(void)
{
    seriatim_queue_settings q = queue_q();
    q.ttr = TTR_MS / 1000;
    return q;
}

/* Pushes `each` ids to each of the first shards. */
static void push_to(node_and_store *f, unsigned shards, unsigned each)
{
    unsigned shard, n;
    for (n = 0; n < each; n++)
        for (shard = 0; shard < shards; shard++)
            store_push(f->store, id_of(f, shard, n), 0);
    pump(f);
}

/* Ids that Redis has given to the node. */
static int claimed(const node_and_store *f)
{
    size_t i;
    int count = 0;
    for (i = 0; i < f->store->id_count; i++)
        count += f->store->ids[i].running;
    return count;
}

/* Is there an id that a thread may begin? */
static int offers(const node_and_store *f)
{
    return srt_node_offers(f->node, 0, now_of(f));
}

static void test_r_ttr_3_no_more_is_claimed_than_threads_can_begin(void **state)
{
    node_and_store f = open_node_of_threads(timed(), 4);
    seriatim_delivery *d[4];
    int i;
    (void)state;
    push_to(&f, SHARDS, 6);
    assert_int_equal(claimed(&f), 4);
    for (i = 0; i < 4; i++)
        d[i] = take(&f);
    pump(&f);
    assert_int_equal(claimed(&f), 4);
    assert_false(offers(&f));
    end(&f, d[0]);
    pump(&f);
    assert_int_equal(claimed(&f), 4);
    assert_true(offers(&f));
    for (i = 1; i < 4; i++)
        end(&f, d[i]);
    close_node(&f);
}

/* Jobs that take 50 ms each. */
static void run_slowly(node_and_store *f)
{
    seriatim_delivery *d = take(f);
    pass(f, 50);
    end(f, d);
    pump(f);
}

/* Each of the shards gets the thread in its turn, though each has more to run. */
static void test_shards_take_turns_at_the_threads(void **state)
{
    node_and_store f = open_node_of_threads(timed(), 1);
    unsigned shard, runs;
    (void)state;
    push_to(&f, SHARDS, 3);
    for (runs = 0; runs < 3 * SHARDS; runs++) {
        run_slowly(&f);
        if (runs + 1 == SHARDS)
            for (shard = 0; shard < SHARDS; shard++)
                assert_int_equal(id_of(&f, shard, 0)->runs, shard == 4 ? 2 : 1); /* open_node ran one of shard 4 */
    }
    assert_int_equal(claimed(&f), 0);
    assert_false(offers(&f));
    close_node(&f);
}

static void test_a_serial_shard_claims_one_id_at_a_time(void **state)
{
    seriatim_queue_settings q = timed();
    node_and_store f;
    seriatim_delivery *d;
    int runs;
    (void)state;
    q.serial_shards = 1;
    f = open_node_of_threads(q, 10);
    push_to(&f, 1, 6);
    for (runs = 0; runs < 6; runs++) {
        assert_int_equal(claimed(&f), 1);
        d = take(&f);
        pass(&f, 50);
        assert_int_equal(claimed(&f), 1);
        end(&f, d);
        pump(&f);
    }
    assert_int_equal(claimed(&f), 0);
    close_node(&f);
}

static void test_max_running_limits_what_is_claimed_in_all_shards(void **state)
{
    seriatim_queue_settings q = timed();
    node_and_store f;
    int runs;
    (void)state;
    q.max_running = 2;
    f = open_node_of_threads(q, 10);
    push_to(&f, SHARDS, 2);
    for (runs = 0; runs < 2 * SHARDS; runs++) {
        assert_int_equal(claimed(&f), runs < 2 * SHARDS - 1 ? 2 : 1);
        end(&f, take(&f));
        pump(&f);
    }
    assert_int_equal(claimed(&f), 0);
    close_node(&f);
}

/* Else a thread would wait for a claim after each job. Shards whose jobs are not among them get threads, too. */
static void test_short_jobs_are_claimed_ahead(void **state)
{
    node_and_store f = open_node_of_threads(timed(), 2);
    int runs;
    (void)state;
    push_to(&f, 2, 30);
    assert_int_equal(claimed(&f), 2);
    for (runs = 0; runs < 20; runs++) {
        end(&f, take(&f));
        pump(&f);
    }
    assert_in_range(claimed(&f), 8, 30);
    store_push(f.store, id_of(&f, 3, 0), 0);
    pump(&f);
    assert_int_equal(id_of(&f, 3, 0)->running, 1);
    pass(&f, 50); /* what was finished is long ago */
    runs = claimed(&f);
    store_push(f.store, id_of(&f, 2, 0), 0);
    pump(&f);
    assert_int_equal(claimed(&f), runs);
    close_node(&f);
}

/* Ten ids that end at once are one call of perform, which may have taken long. */
static void test_a_large_batch_is_no_sign_of_short_jobs(void **state)
{
    seriatim_queue_settings q = timed();
    node_and_store f;
    seriatim_delivery *d;
    size_t i;
    (void)state;
    q.batch_size = 10;
    f = open_node_of_threads(q, 2);
    push_to(&f, 3, 20);
    assert_int_equal(claimed(&f), 20);
    assert_int_equal(srt_node_take(f.node, 0, now_of(&f), &d), SERIATIM_OK);
    for (i = 0; i < seriatim_delivery_size(d); i++) {
        assert_int_equal(store_handed(f.store, seriatim_delivery_job(d, i), SERIATIM_RUN), 1);
        assert_int_equal(seriatim_delivery_done(d, i), SERIATIM_OK);
    }
    srt_node_settle(f.node, d, now_of(&f));
    pass(&f, HOLD_MS);
    assert_int_equal(claimed(&f), 20);
    close_node(&f);
}

/* What serial shards have claimed ahead waits for the job; it takes none of the threads that are free. */
static void test_ids_behind_a_long_job_of_a_serial_shard_hold_up_no_other_shard(void **state)
{
    seriatim_queue_settings q = timed();
    node_and_store f;
    int runs;
    (void)state;
    q.serial_shards = 1;
    f = open_node_of_threads(q, 3);
    push_to(&f, 1, 30);
    for (runs = 0; runs < 12; runs++) {
        end(&f, take(&f));
        pump(&f);
    }
    take(&f); /* and does not return */
    pump(&f);
    assert_true(claimed(&f) > 4);
    pass(&f, 100);
    store_push(f.store, id_of(&f, 2, 0), 0);
    pump(&f);
    assert_int_equal(id_of(&f, 2, 0)->running, 1);
    close_node(&f);
}

static void test_an_id_whose_time_ended_before_its_run_is_claimed_again(void **state)
{
    node_and_store f = open_node_of_threads(timed(), 1);
    store_id *id = id_of(&f, 0, 0);
    seriatim_delivery *d;
    (void)state;
    push_to(&f, 1, 1);
    assert_true(offers(&f));
    f.store->now_us += (TTR_MS + 1) * INT64_C(1000); /* nothing is asked of Redis meanwhile */
    assert_int_equal(srt_node_take(f.node, 0, now_of(&f), &d), SERIATIM_AGAIN);
    pump(&f);
    end(&f, take(&f));
    pump(&f);
    assert_int_equal(id->runs, 1);
    assert_int_equal(claimed(&f), 0);
    close_node(&f);
}

/*
 * Two threads. The time of the first one's run is over, and the id runs again, in the second thread.
 */
static node_and_store open_overrun(seriatim_delivery *d[2])
{
    node_and_store f = open_node_of_threads(timed(), 2);
    push_to(&f, 1, 1);
    d[0] = take(&f);
    pass(&f, TTR_MS + 1);
    d[1] = take(&f);
    return f;
}

static void test_a_reconnect_takes_no_run_for_lost_whose_id_is_in_two_threads(void **state)
{
    seriatim_delivery *d[2];
    node_and_store f = open_overrun(d);
    store_id *id = id_of(&f, 0, 0);
    (void)state;
    reconnect_node(&f);
    pump(&f);
    end(&f, d[1]);
    end(&f, d[0]);
    pump(&f);
    assert_int_equal(id->runs, 1);
    assert_int_equal(id->starts, 2);
    assert_int_equal(claimed(&f), 0);
    close_node(&f);
}

/* Nothing of it waits for an answer: the node knows by the second claim. */
static void test_r_checkpoint_7_a_flush_is_stale_when_the_id_runs_again(void **state)
{
    seriatim_delivery *d[2];
    node_and_store f = open_node_of_threads(timed(), 2);
    (void)state;
    push_to(&f, 1, 1);
    d[0] = take(&f);
    pass(&f, TTR_MS - 1000);
    assert_int_equal(srt_node_extend(f.node, d[0], 0, TTR_MS / 1000, now_of(&f)), SERIATIM_OK);
    pump(&f);
    pass(&f, TTR_MS - 1000);
    assert_int_equal(srt_node_flushed(d[0]), SERIATIM_OK);
    pass(&f, 1001);
    d[1] = take(&f);
    assert_int_equal(srt_node_flushed(d[0]), SERIATIM_STALE);
    assert_int_equal(srt_node_flushed(d[1]), SERIATIM_OK);
    end(&f, d[0]);
    reconnect_node(&f);
    pump(&f);
    assert_int_equal(srt_node_flushed(d[1]), SERIATIM_OK);
    end(&f, d[1]);
    close_node(&f);
}

static void test_r_checkpoint_7_a_flush_is_stale_when_the_ttr_was_removed_meanwhile(void **state)
{
    seriatim_delivery *d[2];
    node_and_store f = open_node_of_threads(timed(), 2);
    (void)state;
    push_to(&f, 1, 1);
    d[0] = take(&f);
    f.node->shards[0]->queue->now.ttr = 0;
    pass(&f, TTR_MS + 1);
    d[1] = push_and_take(&f, id_of(&f, 0, 0));
    assert_int_equal(srt_node_flushed(d[0]), SERIATIM_STALE);
    assert_int_equal(srt_node_flushed(d[1]), SERIATIM_OK);
    end(&f, d[0]);
    end(&f, d[1]);
    close_node(&f);
}

static void test_r_checkpoint_7_a_flush_is_stale_when_the_shard_is_lost(void **state)
{
    node_and_store f = open_node_of_threads(queue_q(), 2);
    store_shard *shard = &f.store->shards[0];
    seriatim_delivery *d;
    (void)state;
    d = push_and_take(&f, id_of(&f, 0, 0));
    assert_int_equal(srt_node_flushed(d), SERIATIM_OK);
    strcpy(shard->owner, "another");
    shard->lease++;
    store_push(f.store, id_of(&f, 0, 1), 0);
    reconnect_node(&f);
    pump(&f);
    assert_int_equal(srt_node_flushed(d), SERIATIM_STALE);
    end(&f, d);
    close_node(&f);
}

/* Redis lacks the first run, but has forgotten nothing. */
static void test_an_overrun_run_hides_no_other_when_the_ttr_is_removed(void **state)
{
    seriatim_delivery *d[2], *later;
    node_and_store f = open_overrun(d);
    store_id *other = id_of(&f, 0, 1);
    (void)state;
    end(&f, d[1]);
    pump(&f);
    f.node->shards[0]->queue->now.ttr = 0;
    later = push_and_take(&f, other);
    reconnect_node(&f);
    pump(&f);
    end(&f, later);
    end(&f, d[0]);
    pass(&f, HOLD_MS);
    assert_int_equal(other->runs, 1);
    assert_int_equal(other->starts, 1);
    assert_int_equal(claimed(&f), 0);
    close_node(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_ttr_3_no_more_is_claimed_than_threads_can_begin),
        cmocka_unit_test(test_shards_take_turns_at_the_threads),
        cmocka_unit_test(test_a_serial_shard_claims_one_id_at_a_time),
        cmocka_unit_test(test_max_running_limits_what_is_claimed_in_all_shards),
        cmocka_unit_test(test_short_jobs_are_claimed_ahead),
        cmocka_unit_test(test_a_large_batch_is_no_sign_of_short_jobs),
        cmocka_unit_test(test_ids_behind_a_long_job_of_a_serial_shard_hold_up_no_other_shard),
        cmocka_unit_test(test_an_id_whose_time_ended_before_its_run_is_claimed_again),
        cmocka_unit_test(test_a_reconnect_takes_no_run_for_lost_whose_id_is_in_two_threads),
        cmocka_unit_test(test_an_overrun_run_hides_no_other_when_the_ttr_is_removed),
        cmocka_unit_test(test_r_checkpoint_7_a_flush_is_stale_when_the_id_runs_again),
        cmocka_unit_test(test_r_checkpoint_7_a_flush_is_stale_when_the_ttr_was_removed_meanwhile),
        cmocka_unit_test(test_r_checkpoint_7_a_flush_is_stale_when_the_shard_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_reshard_ids.c - calls for single ids, and for whole queues, while ids move, and ids whose keys are broken;
 * against a real redis-server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "base/msgpack.h"
#include "model/stored.h"
#include "pop_fixture.h"
#include "reshard_fixture.h"

/* Three ids that leave shard 0 of 3: `old` is still there, `new` has left, and nothing was ever there of `nowhere`. */
typedef struct moving_queue {
    fixture f;
    move m;
    char old[32], new[32], nowhere[32];
} moving_queue;

/* An id of shard 0 of 3 that lies there of 4 as well, or not. */
static void find_id(char id[32], const char *name, int stays)
{
    int i = 0;
    do
        snprintf(id, 32, "%s%d", name, i++);
    while (seriatim_shard_of(id, strlen(id), 3) != 0 || (seriatim_shard_of(id, strlen(id), 4) == 0) != stays);
}

static void foreign_id(char id[32], const char *name)
{
    find_id(id, name, 0);
}

static moving_queue open_moving(void)
{
    moving_queue q;
    redisReply *batch;
    q.f = open_queue(3, "merge");
    foreign_id(q.old, "old");
    foreign_id(q.new, "new");
    foreign_id(q.nowhere, "nowhere");
    push_failed(&q.f, q.old, "1", 0, 3600);
    push_failed(&q.f, q.new, "1", 0, 3600);
    move_begin(&q.m, 4);
    batch = depart(&q.m, 0, q.new);
    assert_true(bring(&q.m, 0, batch));
    freeReplyObject(batch);
    return q;
}

static void close_moving(moving_queue *q)
{
    move_all(&q->m);
    close_queue(&q->f);
}

static void test_an_action_finds_an_id_in_its_old_and_in_its_new_shard(void **state)
{
    moving_queue q = open_moving();
    (void)state;
    assert_int_equal(act_on(&q.f, SERIATIM_PARK, q.old), 1);
    assert_int_equal(act_on(&q.f, SERIATIM_PARK, q.new), 1);
    assert_int_equal(act_on(&q.f, SERIATIM_PARK, q.nowhere), 0);
    assert_int_equal(act_on(&q.f, SERIATIM_UNPARK, q.old), 1);
    assert_int_equal(act_on(&q.f, SERIATIM_UNPARK, q.new), 1);
    assert_int_equal(act_on(&q.f, SERIATIM_DELETE, q.old), 1);
    assert_int_equal(act_on(&q.f, SERIATIM_DELETE, q.new), 1);
    close_moving(&q);
}

static void test_a_dead_id_is_requeued_where_it_is(void **state)
{
    moving_queue q = open_moving();
    (void)state;
    assert_int_equal(act_on(&q.f, SERIATIM_KILL, q.old), 1);
    assert_int_equal(act_on(&q.f, SERIATIM_KILL, q.new), 1);
    assert_string_equal(payloads(&q.f, SERIATIM_MORGUE_FETCH, q.old), "1");
    assert_string_equal(payloads(&q.f, SERIATIM_MORGUE_FETCH, q.new), "1");
    assert_int_equal(act_on(&q.f, SERIATIM_MORGUE_QUEUE_UP, q.old), 1);
    assert_int_equal(act_on(&q.f, SERIATIM_MORGUE_QUEUE_UP, q.new), 1);
    assert_string_equal(payloads(&q.f, SERIATIM_FETCH, q.old), "1");
    assert_string_equal(payloads(&q.f, SERIATIM_FETCH, q.new), "1");
    close_moving(&q);
}

static void test_an_id_is_read_where_it_is(void **state)
{
    moving_queue q = open_moving();
    (void)state;
    assert_string_equal(payloads(&q.f, SERIATIM_FETCH, q.old), "1");
    assert_string_equal(payloads(&q.f, SERIATIM_FETCH, q.new), "1");
    assert_string_equal(payloads(&q.f, SERIATIM_FETCH, q.nowhere), "-");
    assert_string_equal(explain(&q.f, q.old)->job.state, "retrying");
    assert_string_equal(explain(&q.f, q.new)->job.state, "retrying");
    assert_string_equal(explain(&q.f, q.nowhere)->job.state, "unknown");
    assert_int_equal(drop(&q.f, SERIATIM_DROP_PAYLOAD, q.old, "1"), 1);
    assert_int_equal(drop(&q.f, SERIATIM_DROP_PAYLOAD, q.new, "1"), 1);
    close_moving(&q);
}

/* The history of an id that is done stays in its old shard until the move comes to it; what happens then is noted in
 * the new one. */
static void test_explain_shows_the_history_of_an_id_whose_history_is_still_to_move(void **state)
{
    fixture f = open_queue(3, "merge");
    redisReply *batch;
    char id[32];
    move m;
    (void)state;
    f.history = "20";
    REDIS("HSET seriatim:{Q}:settings history_per_id 20");
    foreign_id(id, "id");
    push(&f, id, "1", none);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, id), 1);
    move_begin(&m, 4);
    assert_string_equal(events_of(&f, id), "pushed deleted");
    push_failed(&f, id, "2", 0, 3600);
    assert_string_equal(events_of(&f, id), "pushed deleted pushed");
    assert_string_equal(explain(&f, id)->job.state, "retrying");
    REDIS("COPY seriatim:{Q/0}:events:%s before", id);
    batch = depart(&m, 0, id);
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    assert_string_equal(events_of(&f, id), "pushed deleted pushed");
    REDIS("RENAME before seriatim:{Q/0}:events:%s", id); /* as if the old shard had answered before it moved */
    assert_string_equal(events_of(&f, id), "pushed deleted pushed");
    REDIS("DEL seriatim:{Q/0}:events:%s", id);
    move_all(&m);
    close_queue(&f);
}

static void ends_when_the_batch_has_arrived(moving_queue *q, redisReply *batch)
{
    int i;
    for (i = 0; i < 40; i++) {
        assert_int_equal(seriatim_link_step(q->f.link), SERIATIM_AGAIN);
        pause_ms(1);
    }
    assert_true(bring(&q->m, 0, batch));
    freeReplyObject(batch);
    assert_int_equal(drive(q->f.link), SERIATIM_OK);
}

static void test_an_action_waits_while_its_id_is_on_its_way(void **state)
{
    moving_queue q = open_moving();
    redisReply *batch = depart(&q.m, 0, q.old);
    seriatim_text ids[1];
    (void)state;
    ids[0] = text(q.old);
    assert_int_equal(seriatim_action_begin(q.f.client, q.f.queue, SERIATIM_PARK, ids, 1), SERIATIM_OK);
    ends_when_the_batch_has_arrived(&q, batch);
    assert_int_equal(seriatim_action_result(q.f.client), 1);
    close_moving(&q);
}

static void test_a_whole_queue_is_seen_in_all_of_its_shards(void **state)
{
    moving_queue q = open_moving();
    char both[80];
    (void)state;
    assert_int_equal(metrics(&q.f).length, 2);
    snprintf(both, sizeof both, "%s %s", q.new, q.old);
    assert_string_equal(range(&q.f, SERIATIM_RANGE_BY_ID, 0, "-", "+", 10), both);
    act(&q.f, SERIATIM_PAUSE);
    assert_int_equal(number("EXISTS seriatim:{Q/0}:state seriatim:{Q/3}:state"), 2);
    assert_int_equal(act(&q.f, SERIATIM_PERFORM_ALL_FAILED_JOBS_NOW), 2);
    act(&q.f, SERIATIM_RESUME);
    close_moving(&q);
}

/* An id that moves while an action goes through the shards is in none of them when the action comes by. */
static void test_an_action_on_a_whole_queue_passes_over_no_id(void **state)
{
    moving_queue q = open_moving();
    redisReply *batch = depart(&q.m, 0, q.old);
    (void)state;
    assert_int_equal(seriatim_action_begin(q.f.client, q.f.queue, SERIATIM_KILL_ALL_FAILED_JOBS, NULL, 0), SERIATIM_OK);
    ends_when_the_batch_has_arrived(&q, batch);
    assert_int_equal(seriatim_action_result(q.f.client), 2);
    close_moving(&q);
}

static void test_a_popper_reports_to_the_shard_that_has_its_run(void **state)
{
    moving_queue q = open_moving();
    popped delivery;
    char stays[32];
    int i;
    (void)state;
    assert_int_equal(act(&q.f, SERIATIM_PERFORM_ALL_FAILED_JOBS_NOW), 2);
    for (i = 0; i < 2; i++) {
        assert_string_not_equal(pop(&q.f, 30, &delivery), "-");
        assert_int_equal(ack(&q.f, &delivery), SERIATIM_OK);
        assert_int_equal(ack(&q.f, &delivery), SERIATIM_STALE);
    }
    assert_int_equal(metrics(&q.f).refused, 2);
    find_id(stays, "stays", 1);
    push(&q.f, stays, "1", none);
    assert_string_equal(pop(&q.f, 30, &delivery), stays);
    assert_int_equal(ack(&q.f, &delivery), SERIATIM_OK);
    assert_int_equal(ack(&q.f, &delivery), SERIATIM_STALE);
    assert_int_equal(metrics(&q.f).refused, 3);
    assert_string_equal(payloads(&q.f, SERIATIM_FETCH, q.old), "-");
    assert_string_equal(payloads(&q.f, SERIATIM_FETCH, q.new), "-");
    close_moving(&q);
}

/* The run of a popper fails when the id was to leave, so it waits for a batch. */
static void waits_to_leave(const moving_queue *q, const char *id, double retry_in)
{
    popped delivery;
    assert_int_equal(act_on(&q->f, SERIATIM_PERFORM_NOW, id), 1);
    assert_string_equal(pop(&q->f, 30, &delivery), id);
    freeReplyObject(depart(&q->m, 0, id));
    assert_int_equal(say_seconds(&q->f, &delivery, SERIATIM_POPPED_FAIL, retry_in, "boom"), SERIATIM_OK);
}

static void test_an_action_on_a_whole_queue_finds_an_id_that_waits_to_leave(void **state)
{
    moving_queue q = open_moving();
    char all[120];
    (void)state;
    waits_to_leave(&q, q.old, 3600);
    assert_int_equal(count_of("ZCARD", "moving"), 1);
    snprintf(all, sizeof all, "%s %s", q.new, q.old);
    assert_string_equal(range(&q.f, SERIATIM_RANGE_BY_PERFORM_IN, 0, "-inf", "+inf", 10), all);
    assert_int_equal(act(&q.f, SERIATIM_PERFORM_ALL_JOBS_NOW), 2);
    close_moving(&q);
}

static void test_an_id_that_waits_to_leave_counts_for_the_lag(void **state)
{
    moving_queue q = open_moving();
    (void)state;
    assert_true(metrics(&q.f).lag == 0);
    waits_to_leave(&q, q.old, 0);
    assert_int_equal(count_of("ZCARD", "moving"), 1);
    pause_ms(2);
    assert_true(metrics(&q.f).lag > 0);
    close_moving(&q);
}

/* How many ids a node that takes shard 0 is given by its first claim. */
static size_t claimed(const move *m)
{
    redisReply *owned = ON_SHARD(0, acquire, m->generation, "n1", "0", "", "0"), *reply;
    srt_texts ids = {NULL, NULL, 0};
    assert_string_equal(owned->element[0]->str, "OK");
    reply = ON_SHARD(0, claim, m->generation, owned->element[1]->str, owned->element[2]->str, "10", "0", "0", "list",
                     "0", "25", "bury");
    if (reply->elements > 8)
        assert_int_equal(srt_texts_begin(&ids, reply->element[8]->str, reply->element[8]->len), SERIATIM_OK);
    freeReplyObject(owned);
    freeReplyObject(reply);
    return ids.count;
}

/*
 * `stays` has two entries in ready, because it was deleted and pushed again. While it runs by the first, neither a
 * claim nor a pop takes it by the second, although an id that waits to leave stands in jobs and in no list of a claim.
 */
static void test_r_order_3_an_id_that_waits_to_leave_hides_no_stale_entry(void **state)
{
    fixture f = open_queue(3, "list");
    char leaves[32], stays[32];
    popped delivery;
    move m;
    (void)state;
    foreign_id(leaves, "leaves");
    find_id(stays, "stays", 1);
    push(&f, leaves, "1", none);
    push(&f, stays, "1", none);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, stays), 1);
    push(&f, stays, "2", none);
    assert_int_equal(count_of("LLEN", "ready"), 3);
    move_begin(&m, 4);
    assert_string_equal(pop(&f, 30, &delivery), leaves);
    freeReplyObject(depart(&m, 0, leaves));
    assert_int_equal(say_plain(&f, &delivery, SERIATIM_POPPED_RELEASE), SERIATIM_OK);
    assert_int_equal(count_of("ZCARD", "moving"), 1);
    assert_string_equal(pop(&f, 30, &delivery), stays);
    assert_int_equal(claimed(&m), 0);
    assert_string_equal(pop(&f, 30, &delivery), "-");
    move_all(&m);
    close_queue(&f);
}

/* What is broken: a record in jobs, one in the morgue, a run. */
static void test_an_id_whose_record_cannot_be_read_stays_and_the_others_leave(void **state)
{
    fixture f = open_queue(3, "merge");
    char waits[32], scheduled[32], broken[32], broken_dead[32], broken_run[32], words[200], *before[2], *after;
    redisReply *batch;
    move m;
    (void)state;
    foreign_id(scheduled, "scheduled");
    foreign_id(broken, "broken");
    foreign_id(broken_dead, "dead");
    foreign_id(broken_run, "run");
    foreign_id(waits, "waits");
    schedule_one(&f, scheduled, "1", 3600);
    push_failed(&f, broken, "1", 0, 3600);
    push_failed(&f, waits, "1", 0, 3600);
    push_failed(&f, broken_run, "1", 0, 3600);
    push_failed(&f, broken_dead, "1", 0, 3600);
    act_on(&f, SERIATIM_KILL, broken_dead);
    schedule_one(&f, broken_dead, "2", 3600);
    REDIS("HSET seriatim:{Q/0}:jobs %s %b", broken, "\x08garbage", (size_t)8);
    REDIS("HSET seriatim:{Q/0}:dead %s %b", broken_dead, "", (size_t)0);
    REDIS("HSET seriatim:{Q/0}:running %s %b", broken_run, "", (size_t)0);
    before[0] = stored(0, scheduled);
    before[1] = stored(0, broken_dead);
    move_begin(&m, 4);
    snprintf(words, sizeof words, "%s %s %s %s %s", scheduled, broken, broken_dead, broken_run, waits);
    batch = depart(&m, 0, words);
    assert_int_equal(batch->elements, 3 + 3 * 2);
    assert_int_equal(batch->element[2]->integer, 2 * SRT_STAYS_BROKEN + 1);
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    after = stored_of(scheduled, 4);
    assert_string_equal(after, before[0]);
    free(after);
    assert_true(is_stored(seriatim_shard_of(waits, strlen(waits), 4), waits));
    assert_true(is_stored(0, broken));
    after = stored(0, broken_dead);
    assert_string_equal(after, before[1]);
    free(after);
    assert_int_equal(move_source(&m, 0), 0);
    free(before[0]);
    free(before[1]);
    assert_string_equal(kinds_found(&f, f.queue, 1), "unreadable run stale");
    assert_string_equal(kinds_found(&f, f.queue, 1), "index"); /* when the id died, which was that of its record */
    move_all(&m);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, broken), "\x08garbage");
    close_queue(&f);
}

/*
 * The first call of a deletion unlinks the payloads, later ones remove their entries: the client has died in between.
 * left: entries that leave with the id; few of them go in its part, many in slices.
 */
static void deleted_payloads_stay_deleted(int left)
{
    enum { A_CALL = 500 }; /* entries that a call removes */
    fixture f = open_queue(3, "merge");
    char id[32], generation[64], payload[16], *after;
    unsigned target;
    redisReply *reply;
    move m;
    int i;
    foreign_id(id, "scheduled");
    target = seriatim_shard_of(id, strlen(id), 4);
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < A_CALL + left; i++) {
        snprintf(payload, sizeof payload, "p%d", i);
        add_scheduled(&f, id, payload, strlen(payload), 3600);
    }
    done(&f, seriatim_push_send(f.client));
    move_begin(&m, 4);
    snprintf(generation, sizeof generation, "%s here 5", m.generation);
    reply = ON_SHARD(0, delete, generation, "", "", "merge", id);
    assert_string_equal(reply->element[1]->str, "more");
    freeReplyObject(reply);
    assert_int_equal(number("ZCARD seriatim:{Q/0}:scheduled"), left);
    schedule_one(&f, id, "later", 3600);
    move_all(&m);
    assert_int_equal(number("ZCARD seriatim:{Q/0}:scheduled"), 0);
    after = stored(target, id);
    assert_non_null(strstr(after, "later"));
    free(after);
    reply = redis("HLEN seriatim:{Q/%u}:schedmap:%s", target, id);
    assert_int_equal(reply->integer, 1);
    freeReplyObject(reply);
    reply = redis("ZCARD seriatim:{Q/%u}:sched:%s", target, id);
    assert_int_equal(reply->integer, 1);
    freeReplyObject(reply);
    reply = redis("ZCARD seriatim:{Q/%u}:scheduled", target);
    assert_int_equal(reply->integer, 1);
    freeReplyObject(reply);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    close_queue(&f);
}

static void test_scheduled_payloads_whose_deletion_was_not_ended_arrive_nowhere(void **state)
{
    (void)state;
    deleted_payloads_stay_deleted(10);
    deleted_payloads_stay_deleted(600);
}

/* An id with as many payloads in a key of its own, waiting and dead. */
static void push_spilled(const fixture *f, char id[32], const char *name, int payloads)
{
    static const push_options failed = {.delay = 3600, .retry_count = 3};
    char payload[16];
    int round, i;
    foreign_id(id, name);
    for (round = 0; round < 2; round++) {
        done(f, seriatim_push_begin(f->client, f->queue));
        for (i = 0; i < payloads; i++) {
            snprintf(payload, sizeof payload, "p%d", i);
            add(f, id, strlen(id), payload, failed);
        }
        done(f, seriatim_push_send(f->client));
        if (round == 0)
            act_on(f, SERIATIM_KILL, id);
    }
}

static long long spilled(unsigned shard, const char *key, const char *id)
{
    redisReply *reply = redis("ZCARD seriatim:{Q/%u}:%s:%s", shard, key, id);
    long long count = reply->integer;
    freeReplyObject(reply);
    return count;
}

static void lose_some(const char *id)
{
    REDIS("ZREMRANGEBYRANK seriatim:{Q/0}:spill:%s 0 0", id);
    REDIS("ZREMRANGEBYRANK seriatim:{Q/0}:deadspill:%s 0 1", id);
}

static void test_an_id_that_has_lost_payloads_leaves_with_the_others(void **state)
{
    fixture f = open_queue(3, "merge");
    char id[32];
    unsigned target;
    redisReply *batch;
    move m;
    (void)state;
    push_spilled(&f, id, "spilled", 300);
    target = seriatim_shard_of(id, strlen(id), 4);
    lose_some(id);
    move_begin(&m, 4);
    batch = depart(&m, 0, id);
    m.until = 100; /* calls: an arrival that is refused is not repeated for ever */
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    assert_int_equal(spilled(target, "spill", id), 299);
    assert_int_equal(spilled(target, "deadspill", id), 298);
    assert_int_equal(findings(&f, 0), 0);
    move_all(&m);
    close_queue(&f);
}

/* Its record says nothing that could run: whoever repairs the shard is to see that payloads were lost. */
static void test_an_id_that_has_lost_all_payloads_stays(void **state)
{
    fixture f = open_queue(3, "merge");
    char id[32];
    redisReply *batch;
    move m;
    (void)state;
    push_spilled(&f, id, "spilled", 300);
    REDIS("DEL seriatim:{Q/0}:spill:%s", id);
    move_begin(&m, 4);
    batch = depart(&m, 0, id);
    assert_string_equal(batch->element[0]->str, "0");
    assert_int_equal(batch->element[2]->integer, SRT_STAYS_BROKEN);
    freeReplyObject(batch);
    assert_string_equal(kinds_found(&f, f.queue, 1), "payloads");
    move_all(&m);
    assert_int_equal(spilled(seriatim_shard_of(id, strlen(id), 4), "deadspill", id), 300);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* Who asks for an open batch again is told of what is there. */
static void test_a_batch_that_has_lost_payloads_arrives_with_the_others(void **state)
{
    fixture f = open_queue(3, "merge");
    char id[32], all_lost[32], both[80];
    unsigned target;
    redisReply *batch;
    move m;
    (void)state;
    push_spilled(&f, id, "spilled", 50);
    push_spilled(&f, all_lost, "empty", 50);
    target = seriatim_shard_of(id, strlen(id), 4);
    move_begin(&m, 4);
    snprintf(both, sizeof both, "%s %s", id, all_lost);
    freeReplyObject(depart(&m, 0, both));
    lose_some(id);
    REDIS("DEL seriatim:{Q/0}:spill:%s", all_lost);
    batch = depart(&m, 0, "");
    m.until = 100;
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    assert_int_equal(spilled(target, "spill", id), 49);
    assert_int_equal(spilled(target, "deadspill", id), 48);
    target = seriatim_shard_of(all_lost, strlen(all_lost), 4);
    assert_int_equal(spilled(target, "deadspill", all_lost), 50);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, all_lost), "-");
    assert_int_equal(findings(&f, 0), 0);
    move_all(&m);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_action_finds_an_id_in_its_old_and_in_its_new_shard),
        cmocka_unit_test(test_a_dead_id_is_requeued_where_it_is),
        cmocka_unit_test(test_an_id_is_read_where_it_is),
        cmocka_unit_test(test_explain_shows_the_history_of_an_id_whose_history_is_still_to_move),
        cmocka_unit_test(test_an_action_waits_while_its_id_is_on_its_way),
        cmocka_unit_test(test_a_whole_queue_is_seen_in_all_of_its_shards),
        cmocka_unit_test(test_an_action_on_a_whole_queue_passes_over_no_id),
        cmocka_unit_test(test_a_popper_reports_to_the_shard_that_has_its_run),
        cmocka_unit_test(test_an_action_on_a_whole_queue_finds_an_id_that_waits_to_leave),
        cmocka_unit_test(test_an_id_that_waits_to_leave_counts_for_the_lag),
        cmocka_unit_test(test_r_order_3_an_id_that_waits_to_leave_hides_no_stale_entry),
        cmocka_unit_test(test_an_id_whose_record_cannot_be_read_stays_and_the_others_leave),
        cmocka_unit_test(test_an_id_that_has_lost_payloads_leaves_with_the_others),
        cmocka_unit_test(test_an_id_that_has_lost_all_payloads_stays),
        cmocka_unit_test(test_a_batch_that_has_lost_payloads_arrives_with_the_others),
        cmocka_unit_test(test_scheduled_payloads_whose_deletion_was_not_ended_arrive_nowhere),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

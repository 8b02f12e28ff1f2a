/*
 * test_payload_slices.c - recovering, uniting, moving and burying the payloads of an id, where that takes several
 * calls of a script.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "operators.h"

/* The runs of a dead node come back in slices; until then nobody claims their ids, and what came meanwhile waits. */
static void test_the_next_owner_recovers_runs_in_slices(void **state)
{
    fixture f = open_queue(1, "merge");
    redisReply *reply;
    char id[16], cursor[24] = "0";
    int i, left = 300, calls = 0, busy;
    (void)state;
    acquire(&f, "n1");
    for (i = 0; i < 300; i++) {
        snprintf(id, sizeof id, "i%d", i);
        push(&f, id, "1", none);
    }
    assert_int_equal(claim(&f, "1000", NULL), 300);
    push(&f, "i7", "2", none);
    push(&f, "new", "1", none);
    reply = SCRIPT(acquire, "n2", "merge", "n1", f.lease);
    assert_int_equal(reply->element[4]->integer, 1);
    strcpy(f.lease, reply->element[1]->str);
    strcpy(f.seen, reply->element[2]->str);
    freeReplyObject(reply);
    assert_int_equal(metrics(&f).busy, 300);
    assert_int_equal(claim(&f, "1000", NULL), 1); /* new */
    assert_int_equal(findings(&f, 0), 0);
    while (recover_slice(&f, cursor)) {
        busy = (int)metrics(&f).busy - 1;
        assert_in_range(left - busy, 0, 220); /* a slice of a hash table */
        assert_int_equal(metrics(&f).unproven, 300 - busy);
        assert_int_equal(claim(&f, "1000", NULL), 0);
        assert_int_equal(findings(&f, 0), 0);
        left = busy;
        calls++;
    }
    assert_in_range(calls, 3, 20);
    assert_int_equal(left, 0);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "i7")->payload_total, 2);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "i7")->state, "unproven");
    close_queue(&f);
}

/*
 * Many payloads that meet many: moved in slices, whoever owns the shard meanwhile; the id is not claimed, and pushes
 * join.
 */
static void test_an_id_unites_in_slices(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], cursor[24] = "u";
    redisReply *reply;
    (void)state;
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 2000);
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "hot", 1000, 2000);
    settle_failed(&f, "hot", run, "9", "bury");
    assert_int_equal(metrics(&f).busy, 0);
    assert_int_equal(count_of("ZCARD", "uniting"), 1);
    assert_int_equal(claim(&f, "1000", NULL), 0);
    assert_int_equal(recover_slice(&f, cursor), 1);
    assert_int_equal(count_of("ZCARD", "nextspill:hot"), 1750);
    assert_int_equal(findings(&f, 0), 0);
    push(&f, "hot", "late", none);
    reply = SCRIPT(release, f.lease, "");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    assert_int_equal(findings(&f, 0), 0);
    acquire(&f, "n2");
    recover_all(&f);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 3001);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "hot")->state, "retrying");
    assert_int_equal(count_of("EXISTS", "nextspill:hot") + count_of("EXISTS", "uniting"), 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* What an operator does to an id that is uniting acts as on a run. */
static void test_actions_apply_to_an_id_that_unites(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 1000);
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "hot", 1000, 1000);
    settle_failed(&f, "hot", run, "9", "bury");
    assert_int_equal(act_on(&f, SERIATIM_PARK, "hot"), 1);
    recover_all(&f);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "hot")->state, "parked");
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 2000);
    assert_int_equal(act_on(&f, SERIATIM_UNPARK, "hot"), 1);
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "hot", 2000, 1000);
    settle_failed(&f, "hot", run, "9", "bury");
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "hot"), 1);
    push(&f, "hot", "later", none);
    recover_all(&f);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 1);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "hot")->state, "waiting");
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* Nothing runs of such an id, so a payload may go, whichever record it lies in. */
static void test_explain_and_drop_know_that_nothing_runs_of_an_id_that_unites(void **state)
{
    static const char *const folds[] = {"merge", "list"}; /* the map names payloads, or find goes over them */
    char run[64], payload[32];
    size_t fold;
    int i;
    (void)state;
    for (fold = 0; fold < 2; fold++) {
        fixture f = open_queue(1, folds[fold]);
        acquire(&f, "n1");
        push_many(&f, "hot", 0, 700);
        assert_int_equal(claim(&f, "1", run), 1);
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p5"), 0);
        assert_non_null(strstr(explain(&f, "hot")->text, "it runs, or is claimed to run on node n1"));
        push_many(&f, "hot", 1000, 700);
        freeReplyObject(
            SCRIPT(settle, f.lease, "1", folds[fold], "0", "fail", "hot", run, "60000000", "boom", "9", "bury"));
        assert_int_equal(count_of("ZCARD", "uniting"), 1);
        assert_non_null(strstr(explain(&f, "hot")->text, "its run has ended, and many payloads came meanwhile"));
        assert_non_null(strstr(explain(&f, "hot")->text, "n1, which owns its shard"));
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p699"), 1);
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p699"), 0);
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p1699"), 1);
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p1699"), 0);
        assert_int_equal(findings(&f, 0), 0);
        for (i = 0; i < 699; i++) {
            snprintf(payload, sizeof payload, "p%d", i);
            assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", payload), 1);
        }
        assert_int_equal(findings(&f, 0), 0);
        recover_all(&f);
        assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 699);
        assert_int_equal(count_of("EXISTS", "nextspill:hot") + count_of("EXISTS", "uniting"), 0);
        assert_int_equal(findings(&f, 0), 0);
        close_queue(&f);
    }
}

/* Seconds from now, as a bound of a range. */
static const char *in_seconds(char text[32], int seconds)
{
    redisReply *time = redis("TIME");
    snprintf(text, 32, "%lld", strtoll(time->element[0]->str, NULL, 10) + seconds);
    freeReplyObject(time);
    return text;
}

/* Beside one that runs. */
static void test_queries_list_an_id_that_unites_as_waiting(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], from[32], to[32];
    (void)state;
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 1000);
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "hot", 1000, 1200);
    settle_failed(&f, "hot", run, "9", "bury");
    assert_int_equal(count_of("ZCARD", "uniting"), 1);
    push(&f, "other", "x", none);
    assert_int_equal(claim(&f, "1", run), 1);
    assert_string_equal(range(&f, SERIATIM_PROCESSING_DATA, 0, NULL, NULL, 10), "other");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "hot");
    /* By its next run: what came meanwhile was due at once, and has no retry_count. */
    in_seconds(from, 1);
    in_seconds(to, 600);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, from, to, 10), "hot");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, "-inf", from, 10), "");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 0, "0", "100", 10), "hot");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 0, "-1", "-1", 10), "");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "hot")->state, "waiting");
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 1000);
    assert_false(fetch(&f, SERIATIM_FETCH, "hot")->behind);
    assert_string_equal(explain(&f, "hot")->job.state, "waiting");
    assert_int_equal(explain(&f, "hot")->job.payload_total, 1000);
    assert_int_equal(explain(&f, "hot")->job.fence, 0);
    assert_int_equal(explain(&f, "hot")->behind.payload_total, 1200);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "hot"), 1);
    push(&f, "hot", "later", none);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "hot"), "later");
    close_queue(&f);
}

/* Without its entry in `uniting` the id would stay as it is for ever; the repair puts what lay there aside. */
static void test_check_finds_the_ids_of_a_wrong_key_that_unite(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 1000);
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "hot", 1000, 1000);
    settle_failed(&f, "hot", run, "9", "bury");
    assert_int_equal(count_of("ZCARD", "uniting"), 1);
    REDIS("DEL " PREFIX "uniting");
    REDIS("SET " PREFIX "uniting wrong");
    assert_string_equal(kinds_found(&f, f.queue, 0), "type");
    assert_string_equal(kinds_found(&f, f.queue, 1), "type index");
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    assert_int_equal(count_of("ZCARD", "uniting"), 1);
    recover_all(&f);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 2000);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "hot")->state, "retrying");
    close_queue(&f);
}

/* Actions move many payloads to many in slices, and none is lost or doubled. */
static void test_actions_move_many_payloads_in_slices(void **state)
{
    fixture f = open_queue(1, "merge");
    redisReply *reply;
    char began[32], cursor[64];
    int calls = 0;
    (void)state;
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 1200);
    fail_all(&f, "hot");
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1);
    push_many(&f, "hot", 1000, 1200);
    fail_all(&f, "hot");
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1);
    assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->payload_total, 2200);
    assert_null(fetch(&f, SERIATIM_FETCH, "hot"));
    assert_int_equal(findings(&f, 0), 0);

    push_many(&f, "hot", 2000, 1500);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "hot"), 1);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 3500);
    assert_null(fetch(&f, SERIATIM_MORGUE_FETCH, "hot"));
    assert_int_equal(findings(&f, 0), 0);

    /* Some come while the failed ones are deleted, with scores before and after the old ones. */
    fail_all(&f, "hot");
    strcpy(began, "0");
    cursor[0] = '\0';
    do {
        if (calls == 0) {
            redisReply *state_of =
                SCRIPT(perform_now, "0", "suspect 0"); /* tells what began means now, and finds nothing */
            snprintf(began, sizeof began, "%s", state_of->element[0]->str);
            freeReplyObject(state_of);
            push_many(&f, "hot", 10000, 700);
        }
        reply = SCRIPT(delete_failed, began, cursor);
        snprintf(cursor, sizeof cursor, "%s", reply->element[1]->str);
        freeReplyObject(reply);
        assert_int_equal(findings(&f, 0), 0);
    } while (cursor[0] && ++calls < 50);
    assert_in_range(calls, 5, 20);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 700);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "hot")->state, "delayed");
    close_queue(&f);
}

/* 1,000 payloads of an id that runs; returns all of them with their stamps, which the caller frees. */
static redisReply *run_many(fixture *f, char run[64])
{
    push_many(f, "hot", 0, 1000);
    acquire(f, "n1");
    assert_int_equal(claim(f, "1", run), 1);
    return redis("ZRANGE " PREFIX "spill:hot 0 -1");
}

/* Payloads 0 to 399 cannot be read, and the run goes on; then 500 to 899, of which 400 lie in front no more. */
static void reject_slice(fixture *f, const char *run, const redisReply *flat, size_t slice)
{
    char stamps[8 * 400];
    size_t i;
    redisReply *reply;
    for (i = 0; i < 400; i++)
        memcpy(stamps + 8 * i, flat->element[i + 500 * slice]->str, 8);
    reply = SCRIPT_BYTES(settle, stamps, sizeof stamps, f->lease, slice ? "2" : "1", "list", "0",
                         slice ? "reject" : "bury", "hot", run, slice ? "100" : "0", "bad", "400");
    assert_int_equal(reply->element[0]->integer, 0);
    freeReplyObject(reply);
}

/* Many payloads that cannot be read go to the morgue in slices, and the run stays open until the last. */
static void test_undecodable_payloads_are_buried_in_slices(void **state)
{
    fixture f = open_queue(1, "list");
    char run[64];
    redisReply *flat = run_many(&f, run);
    size_t slice;
    (void)state;
    push(&f, "hot", "behind", none);
    for (slice = 0; slice < 2; slice++) {
        reject_slice(&f, run, flat, slice);
        assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->payload_total, 400 * (slice + 1));
        assert_int_equal(metrics(&f).busy, slice ? 0 : 1);
        assert_int_equal(findings(&f, 0), 0);
    }
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 201);
    freeReplyObject(flat);
    close_queue(&f);
}

static void test_undecodable_payloads_of_an_id_that_was_deleted_are_not_buried(void **state)
{
    fixture f = open_queue(1, "list");
    char run[64];
    redisReply *flat = run_many(&f, run);
    size_t slice;
    (void)state;
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "hot"), 1);
    for (slice = 0; slice < 2; slice++) {
        reject_slice(&f, run, flat, slice);
        assert_null(fetch(&f, SERIATIM_MORGUE_FETCH, "hot"));
        assert_int_equal(metrics(&f).busy, slice ? 0 : 1);
        assert_int_equal(findings(&f, 0), 0);
    }
    assert_null(fetch(&f, SERIATIM_FETCH, "hot"));
    freeReplyObject(flat);
    close_queue(&f);
}

/* ---- Payloads so large that one is more than a call moves ---------------------------------------- */

enum { OVERSIZE = 500000 };

static void push_oversize(const fixture *f, const char *id, char letter, int64_t retry_count)
{
    static char payload[OVERSIZE + 1];
    push_options options = {0, 0, retry_count + 1, NULL};
    memset(payload, letter, OVERSIZE);
    push(f, id, payload, options);
}

/* What was moved to its end is gone, and retries_exhausted is told of no payloads that are not there. */
static void test_an_oversize_payload_is_killed_in_one_call(void **state)
{
    fixture f = open_queue(1, "merge");
    redisReply *reply;
    (void)state;
    f.history = "20";
    REDIS("HSET seriatim:{Q}:settings history_per_id 20");
    push_oversize(&f, "hot", 'a', 3);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1);
    push_oversize(&f, "hot", 'b', 3);
    reply = SCRIPT(kill_failed, "0", "", "merge", "1");
    assert_string_equal(reply->element[1]->str, "");
    assert_int_equal(reply->element[2]->integer, 1);
    freeReplyObject(reply);
    assert_int_equal(count_of("HLEN", "notices"), 1);
    assert_int_equal(count_of("EXISTS", "jobs") + count_of("EXISTS", "retry") + count_of("EXISTS", "spill:hot"), 0);
    assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->payload_total, 2);
    assert_int_equal(explain(&f, "hot")->history_count, 4);
    assert_string_equal(explain(&f, "hot")->history[3].event, "buried");
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 0);
    close_queue(&f);
}

static void test_an_oversize_payload_is_requeued_in_one_call(void **state)
{
    fixture f = open_queue(1, "merge");
    redisReply *reply;
    (void)state;
    push_oversize(&f, "hot", 'a', 3);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1);
    push_oversize(&f, "hot", 'b', -1);
    reply = SCRIPT(dead_requeue, "", "", "merge", "hot");
    assert_string_equal(reply->element[1]->str, "");
    assert_int_equal(reply->element[2]->integer, 1);
    freeReplyObject(reply);
    assert_int_equal(count_of("EXISTS", "dead") + count_of("EXISTS", "died") + count_of("EXISTS", "deadspill:hot"), 0);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 2);
    close_queue(&f);
}

static void test_an_oversize_payload_leaves_no_empty_record_when_it_unites(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], cursor[24] = "u";
    (void)state;
    acquire(&f, "n1");
    push_oversize(&f, "hot", 'a', -1);
    assert_int_equal(claim(&f, "1", run), 1);
    push_oversize(&f, "hot", 'b', -1);
    settle_failed(&f, "hot", run, "9", "bury");
    assert_int_equal(count_of("ZCARD", "uniting"), 1);
    assert_int_equal(recover_slice(&f, cursor), 1);
    assert_int_equal(count_of("EXISTS", "next") + count_of("EXISTS", "nextspill:hot"), 0);
    recover_all(&f);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 2);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "hot")->state, "retrying");
    close_queue(&f);
}

/* A notice may take all that a call may move but a part of a payload: then the next id waits for the next call. */
static void test_ids_are_killed_beside_a_notice_that_leaves_less_than_a_payload(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"}; /* in whatever order Lua has them */
    static char payload[390856 + 1]; /* 248.5 of the 250 payloads of a call, and one more for the id */
    size_t i;
    (void)state;
    memset(payload, 'x', sizeof payload - 1);
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        fixture f = open_queue(1, "merge");
        char began[32] = "0", cursor[64] = "";
        long long killed = 0;
        push_failed(&f, "large", payload, 3, 3600);
        push_failed(&f, names[i], "small", 3, 3600);
        do {
            redisReply *reply = SCRIPT(kill_failed, began, cursor, "merge", "1");
            snprintf(began, sizeof began, "%s", reply->element[0]->str);
            snprintf(cursor, sizeof cursor, "%s", reply->element[1]->str);
            killed += reply->element[2]->integer;
            freeReplyObject(reply);
        } while (cursor[0]);
        assert_int_equal(killed, 2);
        assert_int_equal(count_of("HLEN", "notices"), 2);
        assert_int_equal(count_of("HLEN", "dead"), 2);
        close_queue(&f);
    }
}

/* The last slice of them is as long as a call reads, and the equal payload that came later has folded into them. */
static void test_failed_payloads_end_with_the_last_slice(void **state)
{
    int deletes;
    (void)state;
    for (deletes = 0; deletes < 2; deletes++) {
        fixture f = open_queue(1, "merge");
        char began[32];
        redisReply *reply;
        acquire(&f, "n1");
        push_many(&f, "hot", 0, 250);
        fail_all(&f, "hot");
        reply = SCRIPT(perform_now, "0", "suspect 0"); /* acts on nothing, and says when it began */
        snprintf(began, sizeof began, "%s", reply->element[0]->str);
        freeReplyObject(reply);
        push_many(&f, "hot", 0, 1);
        reply = deletes ? SCRIPT(delete_failed, began, "") : SCRIPT(kill_failed, began, "", "merge", "1");
        assert_string_equal(reply->element[1]->str, "");
        assert_int_equal(reply->element[2]->integer, 1);
        freeReplyObject(reply);
        assert_int_equal(count_of("EXISTS", "jobs") + count_of("EXISTS", "retry") + count_of("EXISTS", "spillmap:hot"),
                         0);
        assert_int_equal(count_of("ZCARD", "deadspill:hot"), deletes ? 0 : 250);
        close_queue(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_actions_move_many_payloads_in_slices),
        cmocka_unit_test(test_the_next_owner_recovers_runs_in_slices),
        cmocka_unit_test(test_an_id_unites_in_slices),
        cmocka_unit_test(test_actions_apply_to_an_id_that_unites),
        cmocka_unit_test(test_explain_and_drop_know_that_nothing_runs_of_an_id_that_unites),
        cmocka_unit_test(test_queries_list_an_id_that_unites_as_waiting),
        cmocka_unit_test(test_check_finds_the_ids_of_a_wrong_key_that_unite),
        cmocka_unit_test(test_undecodable_payloads_are_buried_in_slices),
        cmocka_unit_test(test_undecodable_payloads_of_an_id_that_was_deleted_are_not_buried),
        cmocka_unit_test(test_an_oversize_payload_is_killed_in_one_call),
        cmocka_unit_test(test_an_oversize_payload_is_requeued_in_one_call),
        cmocka_unit_test(test_an_oversize_payload_leaves_no_empty_record_when_it_unites),
        cmocka_unit_test(test_ids_are_killed_beside_a_notice_that_leaves_less_than_a_payload),
        cmocka_unit_test(test_failed_payloads_end_with_the_last_slice),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_action.c - actions on whole ids and queues, against a real redis-server. */
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
#include <time.h>

#define SRT_SCRIPT_TEXTS
#include "operators.h"

static void test_perform_all_now_makes_waiting_ids_due(void **state)
{
    fixture f = open_queue(3, "merge");
    seriatim_metrics m;
    (void)state;
    fill(&f);
    push_later(&f, "stopped", "1", 100);
    act_on(&f, SERIATIM_PARK, "stopped");
    assert_int_equal(act(&f, SERIATIM_PERFORM_ALL_JOBS_NOW), 4);
    m = metrics(&f);
    assert_true(m.lag < 5);
    assert_int_equal(m.retries, 3);
    assert_int_equal(m.parked, 1);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "e")->retry_count, 3);
    assert_true(fetch(&f, SERIATIM_FETCH, "c")->perform_in <= m.now);
    assert_int_equal(act(&f, SERIATIM_PERFORM_ALL_JOBS_NOW), 0);
    close_queue(&f);
}

static void test_perform_now_makes_chosen_ids_due(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    push_later(&f, "later", "1", 100);
    push_failed(&f, "failed", "1", 3, 60);
    push_later(&f, "stopped", "1", 100);
    act_on(&f, SERIATIM_PARK, "stopped");
    assert_int_equal(act_on(&f, SERIATIM_PERFORM_NOW, "later"), 1);
    assert_int_equal(act_on(&f, SERIATIM_PERFORM_NOW, "later"), 0);
    assert_int_equal(act_on(&f, SERIATIM_PERFORM_NOW, "failed"), 1);
    assert_int_equal(act_on(&f, SERIATIM_PERFORM_NOW, "stopped"), 0);
    assert_int_equal(act_on(&f, SERIATIM_PERFORM_NOW, "nothing"), 0);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "later")->state, "waiting");
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "failed")->retry_count, 3);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "stopped")->state, "parked");
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "5", run), 2);
    push_later(&f, "later", "2", 100);
    assert_int_equal(act_on(&f, SERIATIM_PERFORM_NOW, "later"), 1); /* behind the run */
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "later")->state, "waiting");
    settle_done(&f, "later", run);
    settle_done(&f, "failed", run);
    assert_int_equal(claim(&f, "5", run), 1);
    close_queue(&f);
}

static void test_unpark_all_makes_each_parked_id_due(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], id[16];
    int i;
    (void)state;
    acquire(&f, "n1");
    push(&f, "run", "1", none);
    assert_int_equal(claim(&f, "5", run), 1);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "run"), 1);
    for (i = 0; i < 250; i++) {
        snprintf(id, sizeof id, "%d", i);
        push(&f, id, "1", none);
        assert_int_equal(act_on(&f, SERIATIM_PARK, id), 1);
    }
    assert_int_equal(act(&f, SERIATIM_UNPARK_ALL), 251);
    assert_int_equal(act(&f, SERIATIM_UNPARK_ALL), 0);
    assert_int_equal(metrics(&f).parked, 0);
    assert_int_equal(metrics(&f).length, 250);
    settle_failed(&f, "run", run, "9", "bury");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "run")->state, "retrying");
    close_queue(&f);
}

static void test_actions_on_failed_ids_spare_all_others(void **state)
{
    fixture f = open_queue(3, "merge");
    (void)state;
    fill(&f);
    push(&f, "e", "more", none);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 3);
    assert_string_equal(range(&f, SERIATIM_MORGUE_RANGE_BY_ID, 0, NULL, NULL, 10), "e f g");
    assert_string_equal(range(&f, SERIATIM_MORGUE_RANGE_BY_ID, 1, "(e", NULL, 10), "g f");
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "e"), "5,more");
    assert_true(fetch(&f, SERIATIM_MORGUE_FETCH, "e")->updated_at > 1e9);
    assert_int_equal(metrics(&f).retries, 0);
    push_failed(&f, "e", "again", 2, 0);
    act(&f, SERIATIM_KILL_ALL_FAILED_JOBS);
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "e"), "5,more,again");
    push_failed(&f, "h", "8", 2, 0);
    assert_int_equal(act(&f, SERIATIM_DELETE_ALL_FAILED_JOBS), 1);
    assert_null(fetch(&f, SERIATIM_FETCH, "h"));
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "a b c d");
    assert_string_equal(range(&f, SERIATIM_MORGUE_RANGE_BY_UPDATED_AT, 1, NULL, NULL, 1), "e");
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_DELETE, "e"), 1);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_DELETE, "e"), 0);
    assert_int_equal(act(&f, SERIATIM_MORGUE_DELETE_ALL_JOBS), 2);
    assert_int_equal(metrics(&f).morgue_length, 0);
    close_queue(&f);
}

/* R-ACTION-10: what is pushed between two slices survives both actions, and what dies meanwhile is not deleted. */
/* One call of an action on failed ids: it deletes or kills them. Returns how many have ended. */
static long long end_slice(int deletes, char began[32], char cursor[64])
{
    redisReply *reply = deletes ? SCRIPT(delete_failed, began, cursor) : SCRIPT(kill_failed, began, cursor, "merge");
    long long ended = reply->element[2]->integer;
    snprintf(began, 32, "%s", reply->element[0]->str);
    snprintf(cursor, 64, "%s", reply->element[1]->str);
    freeReplyObject(reply);
    return ended;
}

static void test_r_action_10_pushes_between_two_slices_survive_the_action(void **state)
{
    static const int deletes[] = {0, 1};
    size_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        fixture f = open_queue(1, "merge");
        char began[32] = "0", cursor[64] = "", id[16];
        int slices = 0, n, kept = 0;
        done(&f, seriatim_push_begin(f.client, f.queue));
        for (n = 0; n < 900; n++) {
            push_options options = {60, 0, 3, NULL};
            snprintf(id, sizeof id, "f%d", n);
            add(&f, id, strlen(id), "old", options);
        }
        done(&f, seriatim_push_send(f.client));
        do {
            end_slice(deletes[i], began, cursor);
            if (slices++ == 1) {
                done(&f, seriatim_push_begin(f.client, f.queue));
                for (n = 0; n < 900; n++) {
                    snprintf(id, sizeof id, "f%d", n);
                    add(&f, id, strlen(id), "new", none);
                }
                done(&f, seriatim_push_send(f.client));
            }
        } while (*cursor);
        assert_true(slices > 3);
        for (n = 0; n < 900; n++) {
            snprintf(id, sizeof id, "f%d", n);
            kept += strcmp(payloads(&f, SERIATIM_FETCH, id), "new") == 0;
        }
        assert_int_equal(kept, 900);
        assert_int_equal(metrics(&f).retries, 0);
        assert_int_equal(metrics(&f).morgue_length, deletes[i] ? 0 : 900);
        close_queue(&f);
    }
}

/*
 * How many payloads the notices for retries_exhausted say that their ids had, in all; *notices: how many notices there
 * are.
 */
static unsigned notified_payloads(unsigned *notices)
{
    redisReply *all = redis("HVALS " PREFIX "notices");
    unsigned count = 0;
    uint32_t id_len, payloads;
    size_t i;
    for (i = 0; i < all->elements; i++) {
        memcpy(&id_len, all->element[i]->str, sizeof id_len);
        memcpy(&payloads, all->element[i]->str + 4 + id_len, sizeof payloads);
        count += payloads;
    }
    *notices = (unsigned)all->elements;
    freeReplyObject(all);
    return count;
}

/* Kills what has failed in a queue whose worker has a retries_exhausted hook. Returns how many calls it took. */
static int kill_with_hook(fixture *f)
{
    char began[32] = "0", cursor[64] = "";
    int calls = 0;
    do {
        redisReply *reply = SCRIPT(kill_failed, began, cursor, "merge", "1");
        snprintf(began, sizeof began, "%s", reply->element[0]->str);
        snprintf(cursor, sizeof cursor, "%s", reply->element[1]->str);
        freeReplyObject(reply);
        assert_int_equal(findings(f, 0), 0);
        calls++;
    } while (cursor[0]);
    return calls;
}

/* An id that goes to the morgue in slices: retries_exhausted is told of each payload once. */
static void test_notices_name_every_payload_that_was_killed_in_slices(void **state)
{
    fixture f = open_queue(1, "merge");
    unsigned notices;
    (void)state;
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 1100);
    fail_all(&f, "hot");
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1); /* nobody is to be told */
    push_many(&f, "hot", 1100, 1000);
    fail_all(&f, "hot");
    assert_true(kill_with_hook(&f) > 2);
    assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->payload_total, 2100);
    assert_int_equal(notified_payloads(&notices), 1000);
    close_queue(&f);
}

/* A notice holds a payload, whatever its size: a call writes few of them. */
static void test_a_call_writes_few_notices_of_large_payloads(void **state)
{
    fixture f = open_queue(1, "merge");
    char *large = malloc(1000001), id[8];
    unsigned notices;
    int n;
    (void)state;
    memset(large, 'x', 1000000);
    large[1000000] = '\0';
    for (n = 0; n < 4; n++) {
        snprintf(id, sizeof id, "l%d", n);
        push_failed(&f, id, large, 3, 3600);
    }
    assert_int_equal(kill_with_hook(&f), 4);
    assert_int_equal(notified_payloads(&notices), 4);
    assert_int_equal(notices, 4);
    free(large);
    close_queue(&f);
}

/* ZSCAN gives all ids of a small index at once; a call ends no more of them than it may take time for. */
static void test_a_call_deletes_a_bounded_number_of_failed_ids(void **state)
{
    fixture f = open_queue(1, "merge");
    char began[32] = "0", cursor[64] = "", id[16];
    int n, calls = 0;
    (void)state;
    for (n = 0; n < 120; n++) {
        snprintf(id, sizeof id, "f%03d", n);
        push_failed(&f, id, "old", 3, 3600);
    }
    do {
        assert_true(end_slice(1, began, cursor) <= 30);
        calls++;
    } while (cursor[0]);
    assert_int_equal(calls, 4);
    assert_int_equal(count_of("HLEN", "jobs"), 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* Large payloads of ids to which others came later: what a call reads is counted in bytes, too. */
static void test_a_call_reads_a_bounded_number_of_bytes_of_failed_ids(void **state)
{
    enum { IDS = 20, BYTES = 100000 };
    int deletes, n;
    char *payload = malloc(BYTES + 1), id[16];
    (void)state;
    assert_non_null(payload);
    memset(payload, 'x', BYTES);
    payload[BYTES] = '\0';
    for (deletes = 0; deletes < 2; deletes++) {
        fixture f = open_queue(1, "merge");
        char began[32] = "0", cursor[64] = "";
        redisReply *reply;
        for (n = 0; n < IDS; n++) {
            snprintf(id, sizeof id, "f%02d", n);
            push_failed(&f, id, payload, 3, 3600);
        }
        reply = SCRIPT(perform_now, "0", "suspect 0"); /* acts on nothing, and says when it began */
        snprintf(began, sizeof began, "%s", reply->element[0]->str);
        freeReplyObject(reply);
        for (n = 0; n < IDS; n++) {
            snprintf(id, sizeof id, "f%02d", n);
            push(&f, id, "late", none);
        }
        do {
            assert_true(end_slice(deletes, began, cursor) <= 4);
        } while (cursor[0]);
        for (n = 0; n < IDS; n++) {
            snprintf(id, sizeof id, "f%02d", n);
            assert_string_equal(payloads(&f, SERIATIM_FETCH, id), "late");
        }
        assert_int_equal(metrics(&f).morgue_length, deletes ? 0 : IDS);
        assert_int_equal(findings(&f, 0), 0);
        close_queue(&f);
    }
    free(payload);
}

static void test_actions_on_the_dead_spare_what_dies_meanwhile(void **state)
{
    fixture f = open_queue(1, "merge");
    char began[32], id[16];
    redisReply *reply;
    int n;
    (void)state;
    for (n = 0; n < 50; n++) {
        snprintf(id, sizeof id, "f%03d", n);
        push_failed(&f, id, "old", 3, 0);
    }
    act(&f, SERIATIM_KILL_ALL_FAILED_JOBS);
    reply = SCRIPT(dead_delete, "0", "", "merge");
    strcpy(began, reply->element[0]->str);
    assert_string_equal(reply->element[1]->str, "more");
    freeReplyObject(reply);
    push_failed(&f, "fresh", "new", 3, 0);
    act(&f, SERIATIM_KILL_ALL_FAILED_JOBS);
    reply = SCRIPT(dead_delete, began, "more", "merge");
    assert_int_equal(reply->element[2]->integer, 20);
    assert_string_equal(reply->element[1]->str, "");
    freeReplyObject(reply);
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "fresh"), "new");
    assert_int_equal(metrics(&f).morgue_length, 1);
    close_queue(&f);
}

/* R-MORGUE-1, and the same for parked and running ids and the other folds. */
static void test_r_morgue_1_dead_payloads_unite_with_what_waits(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_record *record;
    char run[64];
    (void)state;
    kill_one(&f, "w", "y");
    push_failed(&f, "w", "x", 3, 1000);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "w"), 1);
    record = fetch(&f, SERIATIM_FETCH, "w");
    assert_int_equal(record->retry_count, -1);
    assert_int_equal(record->payload_count, 2);
    assert_true(record->perform_in <= metrics(&f).now);
    assert_int_equal(metrics(&f).morgue_length, 0);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "w"), 0);
    act_on(&f, SERIATIM_DELETE, "w");

    kill_one(&f, "p", "y");
    push(&f, "p", "x", none);
    act_on(&f, SERIATIM_PARK, "p");
    act(&f, SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "p"), "y,x");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "p")->state, "parked");
    act_on(&f, SERIATIM_DELETE, "p");

    kill_one(&f, "r", "y");
    push(&f, "r", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "5", run), 1);
    act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "r");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "r"), "y");
    settle_done(&f, "r", run);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "r"), "y");
    assert_int_equal(claim(&f, "5", run), 1);
    settle_done(&f, "r", run);
    close_queue(&f);

    f = open_queue(1, "last");
    kill_one(&f, "l", "old");
    push(&f, "l", "new", none);
    act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "l");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "l"), "new");
    close_queue(&f);

    f = open_queue(1, "list");
    kill_one(&f, "l", "same");
    push(&f, "l", "same", none);
    act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "l");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "l"), "same,same");
    close_queue(&f);
}

static void test_deleting_removes_an_id_in_every_state(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    acquire(&f, "n1");
    fill(&f);
    act_on(&f, SERIATIM_PARK, "b");
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "a"), 1);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "b"), 1);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "c"), 1);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "e"), 1);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "unknown"), 0);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "d f g");
    assert_int_equal(metrics(&f).parked, 0);
    assert_int_equal(metrics(&f).retries, 2);

    assert_int_equal(claim(&f, "5", run), 1); /* g */
    push(&f, "g", "before", none);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "g"), 1);
    assert_null(fetch(&f, SERIATIM_FETCH, "g"));
    push(&f, "g", "after", none);
    settle_failed(&f, "g", run, "9", "bury");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "g"), "after");
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "g")->retry_count, -1);
    close_queue(&f);
}

/* A deleted run whose time is over stays deleted. */
static void test_a_deleted_run_beyond_its_ttr_stays_deleted(void **state)
{
    fixture f = open_queue(1, "merge");
    redisReply *reply;
    (void)state;
    acquire(&f, "n1");
    push(&f, "a", "1", none);
    push(&f, "b", "2", none);
    reply = SCRIPT(claim, f.lease, f.seen, "5", "0", "1000", "merge", "0", "25", "bury");
    strcpy(f.seen, reply->element[1]->str);
    freeReplyObject(reply);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "a"), 1);
    pause_ms(5);
    freeReplyObject(SCRIPT(claim, f.lease, f.seen, "5", "0", "1000", "merge", "0", "25", "bury"));
    assert_string_equal(range(&f, SERIATIM_PROCESSING_DATA, 0, NULL, NULL, 10), "b");
    assert_null(fetch(&f, SERIATIM_FETCH, "a"));
    close_queue(&f);
}

static void test_a_parked_id_stays_parked_until_it_is_unparked(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_record *record;
    char run[64];
    (void)state;
    acquire(&f, "n1");
    push_failed(&f, "a", "1", 4, 0);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "a"), 1);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "nothing"), 0);
    assert_int_equal(metrics(&f).retries, 0);
    assert_int_equal(claim(&f, "5", NULL), 0);
    assert_int_equal(act(&f, SERIATIM_PERFORM_ALL_JOBS_NOW), 0);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 0);
    push(&f, "a", "2", none);
    assert_string_equal(range(&f, SERIATIM_PARKED, 0, NULL, NULL, 10), "a");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "1,2");
    assert_int_equal(act_on(&f, SERIATIM_UNPARK, "a"), 1);
    assert_int_equal(act_on(&f, SERIATIM_UNPARK, "a"), 0);
    record = fetch(&f, SERIATIM_FETCH, "a");
    assert_int_equal(record->retry_count, -1);
    assert_string_equal(record->state, "waiting");

    assert_int_equal(claim(&f, "5", run), 1);
    act_on(&f, SERIATIM_PARK, "a");
    assert_int_equal(metrics(&f).busy, 1);
    settle_failed(&f, "a", run, "9", "bury");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "a")->state, "parked");
    act_on(&f, SERIATIM_UNPARK, "a");
    assert_int_equal(claim(&f, "5", run), 1);
    act_on(&f, SERIATIM_PARK, "a");
    act_on(&f, SERIATIM_UNPARK, "a");
    push(&f, "a", "3", none);
    settle_done(&f, "a", run);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "3");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "a")->state, "waiting");
    close_queue(&f);
}

static void ids_in_every_shard(seriatim_text ids[200])
{
    static char names[200][8];
    int i;
    for (i = 0; i < 200; i++) {
        snprintf(names[i], sizeof names[i], "id%d", i);
        ids[i] = text(names[i]);
    }
}

/*
 * Redis runs all calls that one connection has sent before it reads another request, so a call for each shard at once
 * would let the requests of others wait for all shards.
 */
static void test_r_action_16_an_action_has_at_most_two_calls_at_once(void **state)
{
    static const int kinds[] = {SERIATIM_DELETE, SERIATIM_PERFORM_NOW, SERIATIM_PERFORM_ALL_JOBS_NOW,
                                SERIATIM_PERFORM_ALL_FAILED_JOBS_NOW, SERIATIM_DELETE_ALL_FAILED_JOBS};
    seriatim_text ids[200];
    size_t k, i;
    (void)state;
    ids_in_every_shard(ids);
    for (k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        fixture f = open_queue(40, "merge");
        int takes_ids = srt_action_takes_ids(kinds[k]), status;
        size_t most = 0;
        for (i = 0; i < 200; i++)
            push_failed(&f, ids[i].data, "1", 3, 60);
        status = seriatim_action_begin(f.client, f.queue, kinds[k], takes_ids ? ids : NULL, takes_ids ? 200 : 0);
        assert_int_equal(status, SERIATIM_OK);
        while ((status = seriatim_link_step(f.link)) == SERIATIM_AGAIN) {
            most = f.client->asked > most ? f.client->asked : most;
            seriatim_link_wait(f.link);
        }
        assert_int_equal(status, SERIATIM_OK);
        assert_int_equal(seriatim_action_result(f.client), 200);
        assert_int_equal(most, 2);
        close_queue(&f);
    }
}

/* The owner hears of it at once. */
static void test_pausing_stops_claims_and_wakes_the_owner(void **state)
{
    fixture f = open_queue(1, "merge");
    redisContext *ear = redisConnectUnix(server.socket);
    void *heard;
    (void)state;
    freeReplyObject(redisCommand(ear, "SUBSCRIBE seriatim:wake:n1"));
    acquire(&f, "n1");
    push(&f, "a", "1", none);
    assert_int_equal(act(&f, SERIATIM_PAUSE), 1);
    assert_int_equal(act(&f, SERIATIM_PAUSE), 0);
    assert_int_equal(metrics(&f).paused, 1);
    assert_int_equal(claim(&f, "5", NULL), 0);
    assert_int_equal(act(&f, SERIATIM_RESUME), 1);
    assert_int_equal(metrics(&f).paused, 0);
    assert_int_equal(redisGetReply(ear, &heard), REDIS_OK);
    assert_string_equal(((redisReply *)heard)->element[2]->str, "!" PREFIX);
    freeReplyObject(heard);
    assert_int_equal(claim(&f, "5", NULL), 1);
    redisFree(ear);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_perform_all_now_makes_waiting_ids_due),
        cmocka_unit_test(test_perform_now_makes_chosen_ids_due),
        cmocka_unit_test(test_unpark_all_makes_each_parked_id_due),
        cmocka_unit_test(test_actions_on_failed_ids_spare_all_others),
        cmocka_unit_test(test_r_action_10_pushes_between_two_slices_survive_the_action),
        cmocka_unit_test(test_actions_on_the_dead_spare_what_dies_meanwhile),
        cmocka_unit_test(test_a_call_deletes_a_bounded_number_of_failed_ids),
        cmocka_unit_test(test_a_call_reads_a_bounded_number_of_bytes_of_failed_ids),
        cmocka_unit_test(test_notices_name_every_payload_that_was_killed_in_slices),
        cmocka_unit_test(test_a_call_writes_few_notices_of_large_payloads),
        cmocka_unit_test(test_r_morgue_1_dead_payloads_unite_with_what_waits),
        cmocka_unit_test(test_deleting_removes_an_id_in_every_state),
        cmocka_unit_test(test_a_parked_id_stays_parked_until_it_is_unparked),
        cmocka_unit_test(test_r_action_16_an_action_has_at_most_two_calls_at_once),
        cmocka_unit_test(test_pausing_stops_claims_and_wakes_the_owner),
        cmocka_unit_test(test_a_deleted_run_beyond_its_ttr_stays_deleted),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_payloads.c - ids of many or large payloads, against a real redis-server. */
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
#include <string.h>
#include <time.h>

#define SRT_SCRIPT_TEXTS
#include "operators.h"

static void test_an_id_of_thousands_of_payloads_keeps_all_in_every_state(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_record *record;
    seriatim_query query;
    seriatim_text ids[1];
    size_t count;
    char run[64];
    (void)state;
    push_many(&f, "hot", 0, 3000);
    record = fetch(&f, SERIATIM_FETCH, "hot");
    assert_int_equal(record->payload_count, 1000);
    assert_int_equal(record->payload_total, 3000);
    assert_memory_equal(record->payloads[999].data, "p999", 4);
    ids[0] = text("hot");
    seriatim_query_init(&query, SERIATIM_FETCH);
    query.ids = ids;
    query.id_count = 1;
    query.payload_limit = 5000;
    done(&f, seriatim_query_begin(f.client, f.queue, &query));
    assert_int_equal(seriatim_query_result(f.client, &count)->payload_count, 3000);

    acquire(&f, "n1");
    claim(&f, "1", run);
    push_many(&f, "hot", 2000, 2000);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 2000);
    settle_failed(&f, "hot", run, "9", "bury");
    assert_int_equal(findings(&f, 0), 0);
    assert_in_range(recover_all(&f), 4, 10);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 4000);
    assert_int_equal(findings(&f, 0), 0);
    act(&f, SERIATIM_KILL_ALL_FAILED_JOBS);
    assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->payload_total, 4000);
    assert_memory_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->error, "boom", 4);
    push(&f, "hot", "p1", none);
    push(&f, "hot", "unseen", none);
    act(&f, SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 4001);
    assert_int_equal(findings(&f, 0), 0);
    act_on(&f, SERIATIM_PARK, "hot");
    act_on(&f, SERIATIM_UNPARK, "hot");
    act_on(&f, SERIATIM_DELETE, "hot");
    claim(&f, "100", NULL); /* what is stale goes */
    assert_int_equal(count_of("EXISTS", "spill:hot") + count_of("EXISTS", "spillmap:hot"), 0);
    close_queue(&f);
}

/*
 * The few payloads of a run go into the many that came meanwhile: the first of equal ones keeps its context and place.
 */
static void test_a_failed_run_unites_with_payloads_that_spilled_meanwhile(void **state)
{
    fixture f = open_queue(1, "merge");
    push_options options = {0, 0, 0, "{\"k\":\"v\"}"};
    const seriatim_record *record;
    char run[64];
    (void)state;
    acquire(&f, "n1");
    push(&f, "a", "p7", options);
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "a", 0, 500);
    settle_failed(&f, "a", run, "9", "bury");
    record = fetch(&f, SERIATIM_FETCH, "a");
    assert_int_equal(record->payload_total, 500);
    assert_memory_equal(record->payloads[0].data, "p7", 2);
    assert_int_equal(record->payloads[0].context_len, 9);
    assert_memory_equal(record->payloads[1].data, "p0", 2);
    close_queue(&f);
}

static void test_r_names_1_r_names_2_queue_names_and_ids_hold_any_bytes(void **state)
{
    static const char *const names[] = {"Q:processing", "Q:morgue", "{Q}", "Q*", "Q/0}:jobs"};
    static const struct {
        const char *id;
        size_t len;
    } rows[] = {{"a:b", 3}, {"{x}", 3}, {"}", 1}, {"with space", 10}, {"nul\0in", 6}, {"\xc3\xa9", 2}, {"line\n", 5}};
    fixture f = open_queue(4, "merge");
    char longest[1025];
    seriatim_text ids[1];
    seriatim_query query;
    size_t i, n, count, q = f.queue;
    (void)state;
    memset(longest, 'k', sizeof longest);
    for (n = 0; n < 5; n++) {
        f.queue = add_queue(f.client, names[n], strlen(names[n]), 4, "merge");
        for (i = 0; i < 7; i++) {
            done(&f, seriatim_push_begin(f.client, f.queue));
            add(&f, rows[i].id, rows[i].len, "1", none);
            done(&f, seriatim_push_send(f.client));
            ids[0].data = rows[i].id;
            ids[0].len = rows[i].len;
            seriatim_query_init(&query, SERIATIM_FETCH);
            query.ids = ids;
            query.id_count = 1;
            done(&f, seriatim_query_begin(f.client, f.queue, &query));
            assert_int_equal(seriatim_query_result(f.client, &count)->id_len, rows[i].len);
        }
        done(&f, seriatim_push_begin(f.client, f.queue));
        for (i = 0; i < 200; i++) {
            char payload[32];
            snprintf(payload, sizeof payload, "payload %lu", (unsigned long)i);
            add(&f, longest, 1024, payload, none);
        }
        done(&f, seriatim_push_send(f.client));
        assert_int_equal(metrics(&f).length, 8);
        assert_int_equal(findings(&f, 0), 0);
    }
    ids[0].data = longest;
    ids[0].len = 1025;
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE, ids, 1), SERIATIM_INVALID);
    for (n = 0; n < 5; n++) {
        f.queue = add_queue(f.client, names[n], strlen(names[n]), 4, "merge");
        for (i = 0; i < 7; i++) {
            ids[0].data = rows[i].id;
            ids[0].len = rows[i].len;
            done(&f, seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE, ids, 1));
            assert_int_equal(seriatim_action_result(f.client), 1);
        }
        assert_int_equal(metrics(&f).length, 1);
    }
    f.queue = q;
    assert_int_equal(metrics(&f).length, 0);
    close_queue(&f);
}

static void digest(char out[64])
{
    redisReply *reply = redis("DEBUG DIGEST");
    snprintf(out, 64, "%s", reply->str);
    freeReplyObject(reply);
}

/* A key of the wrong type: every action fails and nothing is written. */
static void test_a_key_of_the_wrong_type_ends_every_action_before_it_writes(void **state)
{
    static const char *const kinds[] = {"state",   "jobs",      "ready",         "due",         "running",  "next",
                                        "retry",   "dead",      "died",          "parked",      "unproven", "suspect",
                                        "overrun", "spill:hot", "deadspill:bad", "spillmap:hot"};
    static const char *const ids[] = {"a", "e", "hot", "bad", "stopped"};
    char before[64], after[64];
    size_t i, n;
    int kind, refused;
    (void)state;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        fixture f = open_queue(1, "merge");
        seriatim_text all[5];
        push_failed(&f, "bad", "first", 3, 60);
        push_many(&f, "bad", 0, 400);
        act(&f, SERIATIM_KILL_ALL_FAILED_JOBS);
        fill(&f);
        push_failed(&f, "hot", "first", 3, 60);
        push_many(&f, "hot", 0, 400);
        act_on(&f, SERIATIM_PARK, "b");
        REDIS("DEL " PREFIX "%s", kinds[i]);
        if (i == 0)
            REDIS("HSET " PREFIX "%s a b", kinds[i]);
        else
            REDIS("SET " PREFIX "%s wrong", kinds[i]);
        for (n = 0; n < 5; n++)
            all[n] = text(ids[n]);
        refused = 0;
        digest(before);
        for (kind = SERIATIM_PERFORM_ALL_JOBS_NOW; kind <= SERIATIM_MORGUE_DROP_PAYLOAD; kind++) {
            int handled = kind == SERIATIM_CANCEL || kind == SERIATIM_RESCHEDULE;
            int status, spares = kind == SERIATIM_PAUSE || kind == SERIATIM_RESUME || handled || i >= 13;
            seriatim_text named[2];
            named[0] = text(kind == SERIATIM_MORGUE_DROP_PAYLOAD ? "bad" : "hot");
            named[1] = text("p5");
            if (handled) {
                named[0] = text("AQAAAAAAAAAAAAFRaG90"); /* a payload of "hot" that is not there */
                named[1] = text("2000000000");
                status = seriatim_action_begin(f.client, f.queue, kind, named, kind == SERIATIM_CANCEL ? 1 : 2);
            } else if (kind >= SERIATIM_DROP_PAYLOAD)
                status = seriatim_action_begin(f.client, f.queue, kind, named, 2);
            else
                status = seriatim_action_begin(f.client, f.queue, kind, all, srt_action_takes_ids(kind) ? 5 : 0);
            status = status == SERIATIM_OK ? drive(f.link) : status;
            if (spares && status == SERIATIM_OK) {
                digest(before);
                continue;
            }
            assert_int_equal(status, SERIATIM_SERVER);
            refused++;
            digest(after);
            if (strcmp(before, after) != 0)
                fail_msg("action %d changed something although %s has the wrong type", kind, kinds[i]);
        }
        assert_true(refused >= 4);
        seriatim_link_free(f.link);
    }
}

static void test_r_full_1_actions_work_at_maxmemory(void **state)
{
    fixture f = open_queue(2, "merge");
    (void)state;
    fill(&f);
    push_many(&f, "hot", 0, 2000);
    push_failed(&f, "dead", "1", 2, 0);
    metrics(&f);
    REDIS("CONFIG SET maxmemory 1");
    REDIS("CONFIG SET maxmemory-policy noeviction");
    assert_int_equal(act(&f, SERIATIM_PAUSE), 2);
    assert_int_equal(act(&f, SERIATIM_RESUME), 2);
    assert_int_equal(act(&f, SERIATIM_PERFORM_ALL_JOBS_NOW), 4);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "a"), 1);
    assert_int_equal(act_on(&f, SERIATIM_UNPARK, "a"), 1);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 4);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "e"), 1);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_DELETE, "f"), 1);
    assert_int_equal(act(&f, SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS), 2);
    assert_int_equal(act(&f, SERIATIM_DELETE_ALL_FAILED_JOBS), 0);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p7"), 1);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "hot"), 1);
    assert_int_equal(act(&f, SERIATIM_MORGUE_DELETE_ALL_JOBS), 0);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "a b c d dead e g");
    close_queue(&f);
}

static int64_t head_of(const char *hash, const char *id)
{
    redisReply *reply = redis("HSTRLEN " PREFIX "%s %s", hash, id);
    int64_t length = reply->integer;
    freeReplyObject(reply);
    return length;
}

/* What scripts read of many ids at once stays small, whatever they hold, in all that becomes of an id. */
static void test_large_payloads_lie_beside_the_heads(void **state)
{
    fixture f = open_queue(1, "merge");
    push_options context = {0, 0, 0, NULL};
    char run[64];
    (void)state;
    context.context = large('c');
    push(&f, "one", large('a'), none);
    push(&f, "ctx", "x", context);
    assert_in_range(head_of("jobs", "one"), 1, 100);
    assert_in_range(head_of("jobs", "ctx"), 1, 100);
    assert_int_equal(findings(&f, 0), 0);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "one")->payloads[0].len, LARGE);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "ctx")->payloads[0].context_len, LARGE);

    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, "one", large('b'), none);
    assert_in_range(head_of("next", "one"), 1, 100);
    settle_failed(&f, "one", run, "9", "bury");
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "one")->payload_total, 2);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1);
    assert_in_range(head_of("dead", "one"), 1, 100);
    assert_int_equal(findings(&f, 0), 0);
    assert_int_equal(act(&f, SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS), 1);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "one")->payload_total, 2);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "one", large('a')), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "one", large('b')), 1);
    assert_null(fetch(&f, SERIATIM_FETCH, "one"));
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "ctx"), 1);
    assert_int_equal(
        count_of("EXISTS", "spill:one") + count_of("EXISTS", "spill:ctx") + count_of("EXISTS", "deadspill:one"), 0);
    close_queue(&f);
}

static int jobs_are_in_a_hash_table(void)
{
    redisReply *reply = redis("OBJECT ENCODING " PREFIX "jobs");
    int are = reply->type == REDIS_REPLY_STRING && strcmp(reply->str, "hashtable") == 0;
    freeReplyObject(reply);
    return are;
}

/* In a hash of up to 512 short records Redis would look at each field until it comes to that of the id. */
static void test_short_records_of_more_than_32_ids_lie_in_a_hash_table(void **state)
{
    fixture f = open_queue(1, "list");
    int i;
    (void)state;
    push_new_ids(&f, 0, 32, none);
    assert_false(jobs_are_in_a_hash_table());
    for (i = 32; i < 40; i++)
        push_new_ids(&f, i, 1, none);
    assert_true(jobs_are_in_a_hash_table());
    assert_int_equal(count_of("HLEN", "jobs"), 40);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);

    f = open_queue(1, "merge");
    push_new_ids(&f, 0, 20, none);
    push_new_ids(&f, 19, 20, none); /* one of them waits already */
    assert_true(jobs_are_in_a_hash_table());
    assert_int_equal(count_of("HLEN", "jobs"), 39);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "i19"), "x");
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);

    f = open_queue(1, "list");
    push_new_ids(&f, 0, 62, none);
    assert_true(jobs_are_in_a_hash_table());
    assert_int_equal(count_of("HLEN", "jobs"), 62);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "i0"), "x");
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* The last payload replaces the one before, whichever of them is large; ties go to the latest arrival. */
static void test_fold_last_replaces_large_payloads(void **state)
{
    fixture f = open_queue(1, "last");
    push_options low = {0, 5, 0, NULL}, high = {0, 9, 0, NULL};
    char run[64];
    (void)state;
    push(&f, "a", large('a'), low);
    push(&f, "a", large('b'), high);
    push(&f, "a", large('c'), low);
    assert_memory_equal(fetch(&f, SERIATIM_FETCH, "a")->payloads[0].data, large('b'), LARGE);
    push(&f, "a", large('d'), high);
    assert_memory_equal(fetch(&f, SERIATIM_FETCH, "a")->payloads[0].data, large('d'), LARGE);
    push(&f, "a", "little", high);
    assert_memory_equal(fetch(&f, SERIATIM_FETCH, "a")->payloads[0].data, "little", 6);
    assert_int_equal(count_of("EXISTS", "spill:a") + count_of("EXISTS", "spillmap:a"), 0);
    push(&f, "a", large('e'), high);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, "a", large('f'), low);
    push(&f, "a", large('g'), low);
    freeReplyObject(SCRIPT(settle, f.lease, "1", "last", "0", "release", "a", run, "0", "", "0", ""));
    assert_memory_equal(fetch(&f, SERIATIM_FETCH, "a")->payloads[0].data, large('e'), LARGE);
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, "a", large('h'), high);
    freeReplyObject(SCRIPT(settle, f.lease, "2", "last", "0", "release", "a", run, "0", "", "0", ""));
    assert_memory_equal(fetch(&f, SERIATIM_FETCH, "a")->payloads[0].data, large('h'), LARGE);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "a")->payload_total, 1);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* A long error is kept whole, and its record stays small. */
static void test_a_long_error_lies_beside_the_head(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_record *record;
    char run[64];
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    freeReplyObject(SCRIPT(settle, f.lease, "1", "merge", "0", "fail", "a", run, "60000000", large('e'), "9", "bury"));
    assert_in_range(head_of("jobs", "a"), 1, 400);
    record = fetch(&f, SERIATIM_FETCH, "a");
    assert_int_equal(record->error_len, LARGE);
    assert_memory_equal(record->error, large('e'), LARGE);
    push(&f, "a", "y", none);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "a")->error_len, LARGE);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1);
    record = fetch(&f, SERIATIM_MORGUE_FETCH, "a");
    assert_int_equal(record->error_len, LARGE);
    assert_int_equal(record->payload_total, 2);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* What folds while a record is spilled is not counted. */
static void test_equal_payloads_that_spill_are_counted_once(void **state)
{
    fixture list = open_queue(1, "list"), merge = open_queue(1, "merge");
    char payload[301], other[701];
    (void)state;
    memset(payload, 'x', 300);
    memset(other, 'y', 700);
    payload[300] = other[700] = '\0';
    push(&list, "a", payload, none);
    push(&list, "a", payload, none);
    REDIS("HSET seriatim:{Q}:settings fold merge");
    push(&merge, "a", other, none);
    assert_int_equal(fetch(&merge, SERIATIM_FETCH, "a")->payload_total, 2);
    assert_int_equal(findings(&merge, 0), 0);
    assert_int_equal(drop(&merge, SERIATIM_DROP_PAYLOAD, "a", payload), 1);
    assert_int_equal(drop(&merge, SERIATIM_DROP_PAYLOAD, "a", other), 1);
    assert_null(fetch(&merge, SERIATIM_FETCH, "a"));
    close_queue(&list);
    close_queue(&merge);
}

/* A push that a key of another type ends has written nothing, also where it is the first to spill. */
static void test_a_stray_spill_key_ends_a_push_before_it_writes(void **state)
{
    fixture f = open_queue(1, "merge");
    char payload[601];
    (void)state;
    memset(payload, 'x', 600);
    payload[600] = '\0';
    push(&f, "a", payload, none);
    REDIS("SET " PREFIX "spillmap:a stray");
    memset(payload, 'y', 600);
    assert_int_equal(seriatim_push_begin(f.client, f.queue), SERIATIM_OK);
    add(&f, "new", 3, "1", none);
    add(&f, "a", 1, payload, none);
    assert_int_equal(seriatim_push_send(f.client), SERIATIM_OK);
    assert_int_not_equal(drive(f.link), SERIATIM_OK);
    assert_int_equal(count_of("HLEN", "jobs"), 1);
    assert_int_equal(count_of("LLEN", "ready"), 1);
    assert_int_equal(count_of("EXISTS", "spill:a"), 0);
    REDIS("DEL " PREFIX "spillmap:a");
    close_queue(&f);
}

/*
 * Also a push that begins with what Redis allows at maxmemory (here: to move the id to another time) is refused then.
 */
static void test_a_full_redis_refuses_every_push(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_job job;
    (void)state;
    push_later(&f, "a", "x", 900);
    REDIS("CONFIG SET maxmemory 1");
    REDIS("CONFIG SET maxmemory-policy noeviction");
    seriatim_job_init(&job);
    job.id = "a";
    job.id_len = 1;
    job.payload = "y";
    job.payload_len = 1;
    job.when = SERIATIM_DELAY;
    job.time = 100;
    job.on_waiting = "earlier";
    assert_int_equal(seriatim_push_begin(f.client, f.queue), SERIATIM_OK);
    assert_int_equal(seriatim_push_job(f.client, &job), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(f.client), SERIATIM_OK);
    assert_int_equal(drive(f.link), SERIATIM_FULL);
    REDIS("CONFIG SET maxmemory 0");
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "a")->payload_total, 1);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_id_of_thousands_of_payloads_keeps_all_in_every_state),
        cmocka_unit_test(test_r_names_1_r_names_2_queue_names_and_ids_hold_any_bytes),
        cmocka_unit_test(test_large_payloads_lie_beside_the_heads),
        cmocka_unit_test(test_short_records_of_more_than_32_ids_lie_in_a_hash_table),
        cmocka_unit_test(test_fold_last_replaces_large_payloads),
        cmocka_unit_test(test_a_long_error_lies_beside_the_head),
        cmocka_unit_test(test_equal_payloads_that_spill_are_counted_once),
        cmocka_unit_test(test_a_stray_spill_key_ends_a_push_before_it_writes),
        cmocka_unit_test(test_a_full_redis_refuses_every_push),
        cmocka_unit_test(test_a_key_of_the_wrong_type_ends_every_action_before_it_writes),
        cmocka_unit_test(test_r_full_1_actions_work_at_maxmemory),
        cmocka_unit_test(test_a_failed_run_unites_with_payloads_that_spilled_meanwhile),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

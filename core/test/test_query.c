/* test_query.c - queries, metrics and explanations, against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "operators.h"

static void test_queries_of_an_empty_queue_find_nothing(void **state)
{
    fixture f = open_queue(3, "merge");
    int kind;
    (void)state;
    for (kind = SERIATIM_RANGE_BY_ID; kind <= SERIATIM_RANGE_BY_DELIVER_AT; kind++) {
        assert_string_equal(range(&f, kind, 0, NULL, NULL, 10), "");
        assert_string_equal(range(&f, kind, 1, NULL, NULL, 10), "");
    }
    assert_null(fetch(&f, SERIATIM_FETCH, "a"));
    assert_int_equal(metrics(&f).length, 0);
    assert_true(metrics(&f).lag <= 0);
    close_queue(&f);
}

static void test_an_unknown_queue_is_empty_and_is_not_made_by_looking(void **state)
{
    fixture f = open_queue(0, "merge");
    redisReply *reply;
    (void)state;
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "");
    assert_null(fetch(&f, SERIATIM_FETCH, "a"));
    refuses_to_pause(&f, SERIATIM_PAUSE);
    refuses_to_pause(&f, SERIATIM_RESUME);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "a"), 0);
    assert_int_equal(metrics(&f).length, 0);
    done(&f, seriatim_explain_begin(f.client, f.queue, "a", 1));
    assert_string_equal(seriatim_explain_result(f.client)->job.state, "unknown");
    close_queue(&f);
    reply = redis("DBSIZE");
    assert_int_equal(reply->integer, 0);
    freeReplyObject(reply);
}

static void test_ranges_by_id_keep_their_bounds(void **state)
{
    fixture f = open_queue(5, "merge");
    (void)state;
    fill(&f);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, "-", "+", 10), "a b c d e f g");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 3), "a b c");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 1, "-", "+", 3), "g f e");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, "[c", "(e", 10), "c d");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 1, "(c", "[e", 10), "e d");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, "+", "-", 10), "");
    close_queue(&f);
}

static void test_ranges_by_numbers_keep_their_bounds(void **state)
{
    fixture f = open_queue(5, "merge");
    char bound[64];
    double due;
    (void)state;
    fill(&f);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, "-inf", "+inf", 10), "a b g d c e f");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 1, "-inf", "+inf", 3), "f e c");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, NULL, NULL, 2), "a b");
    due = fetch(&f, SERIATIM_FETCH, "d")->perform_in;
    snprintf(bound, sizeof bound, "%.17g", due);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, bound, "inf", 10), "d c e f");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 1, "-inf", bound, 10), "d g b a");
    snprintf(bound, sizeof bound, "(%.17g", due);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, bound, "inf", 10), "c e f");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 1, "-inf", bound, 10), "g b a");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 0, "0", "+inf", 10), "f g e");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 1, "0", "+inf", 10), "e g f");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 0, "(1", "3", 10), "e");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 0, "0.5", "1.5e0", 10), "f g");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 0, "-inf", "(3", 10), "a b c d f g");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 1, "-1", "-1", 2), "d c");
    close_queue(&f);
}

static void test_invalid_bounds_are_refused(void **state)
{
    static const struct {
        int kind;
        const char *min, *max, *named;
    } rows[] = {
        {SERIATIM_RANGE_BY_ID, "a", "+", "min"},
        {SERIATIM_RANGE_BY_ID, "-", "", "max"},
        {SERIATIM_RANGE_BY_ID, "-x", "+", "min"},
        {SERIATIM_MORGUE_RANGE_BY_ID, "[a", "b", "max"},
        {SERIATIM_RANGE_BY_PERFORM_IN, "x", "+inf", "min"},
        {SERIATIM_RANGE_BY_PERFORM_IN, "1", "1.2.3", "max"},
        {SERIATIM_RANGE_BY_RETRY_COUNT, "(", "1", "min"},
        {SERIATIM_RANGE_BY_RETRY_COUNT, "", "1", "min"},
        {SERIATIM_RANGE_BY_RETRY_COUNT, "1", "nan", "max"},
        {SERIATIM_RANGE_BY_RETRY_COUNT, "1", "1e", "max"},
        {SERIATIM_MORGUE_RANGE_BY_UPDATED_AT, "1,5", "+inf", "min"},
    };
    fixture f = open_queue(2, "merge");
    seriatim_query query;
    size_t i;
    (void)state;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        seriatim_query_init(&query, rows[i].kind);
        query.min = text(rows[i].min);
        query.max = text(rows[i].max);
        assert_int_equal(seriatim_query_begin(f.client, f.queue, &query), SERIATIM_INVALID);
        assert_non_null(strstr(seriatim_client_error(f.client)->message, rows[i].named));
    }
    seriatim_query_init(&query, SERIATIM_RANGE_BY_ID);
    query.limit = 0;
    assert_int_equal(seriatim_query_begin(f.client, f.queue, &query), SERIATIM_INVALID);
    seriatim_query_init(&query, 99);
    assert_int_equal(seriatim_query_begin(f.client, f.queue, &query), SERIATIM_INVALID);
    assert_int_equal(seriatim_action_begin(f.client, f.queue, 99, NULL, 0), SERIATIM_INVALID);
    seriatim_query_init(&query, SERIATIM_RANGE_BY_ID);
    assert_int_equal(seriatim_query_begin(f.client, 7, &query), SERIATIM_INVALID);
    close_queue(&f);
}

static void test_r_query_6_a_shard_that_the_queue_does_not_have_is_refused(void **state)
{
    static const int64_t shards[] = {2, 99};
    fixture f = open_queue(2, "merge");
    seriatim_query query;
    size_t i;
    (void)state;
    push(&f, "a", "1", none);
    seriatim_query_init(&query, SERIATIM_PROCESSING_DATA);
    for (i = 0; i < sizeof shards / sizeof *shards; i++) {
        char wanted[64];
        int status;
        query.shard = shards[i];
        status = seriatim_query_begin(f.client, f.queue, &query);
        assert_int_equal(status == SERIATIM_OK ? drive(f.link) : status, SERIATIM_INVALID);
        snprintf(wanted, sizeof wanted, "shard must be from 0 to 1, not %d", (int)shards[i]);
        assert_string_equal(seriatim_client_error(f.client)->message, wanted);
    }
    query.shard = 1;
    done(&f, seriatim_query_begin(f.client, f.queue, &query));
    close_queue(&f);
}

/* Thousands of ids over several shards and slices: each page is what sorting them all would give. */
static void test_a_range_merges_all_shards_in_order(void **state)
{
    fixture f = open_queue(7, "merge");
    char id[16], last[64];
    const seriatim_record *records;
    seriatim_query query;
    size_t count, total = 0;
    double before = 0;
    int i;
    (void)state;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < 6000; i++) {
        push_options options = {0, 0, 0, NULL};
        /* A minute between two of them: the calls that push them may be seconds apart. */
        options.delay = i % 3 == 0 ? 200000.0 - i * 20.0 : 0;
        snprintf(id, sizeof id, "id-%05d", i);
        add(&f, id, strlen(id), "{}", options);
    }
    done(&f, seriatim_push_send(f.client));
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, "(id-00998", "+", 3), "id-00999 id-01000 id-01001");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 1, "-", "+", 2), "id-05999 id-05998");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 1, NULL, NULL, 3), "id-00000 id-00003 id-00006");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 1, "-1", "0", 2), "id-05999 id-05998");
    seriatim_query_init(&query, SERIATIM_RANGE_BY_PERFORM_IN);
    query.limit = 1000;
    last[0] = '\0';
    for (;;) { /* page by page */
        query.min = text(last[0] ? last : NULL);
        done(&f, seriatim_query_begin(f.client, f.queue, &query));
        records = seriatim_query_result(f.client, &count);
        for (i = 0; (size_t)i < count; i++) {
            assert_true(records[i].perform_in >= before);
            before = records[i].perform_in;
        }
        total += count;
        if (count < 1000)
            break;
        snprintf(last, sizeof last, "(%.17g", before);
    }
    /* Jobs of two shards may share a microsecond at the end of a page; only those may be missed. */
    assert_in_range(total, 5980, 6000);
    query.min = text(NULL);
    query.limit = 100000;
    done(&f, seriatim_query_begin(f.client, f.queue, &query));
    seriatim_query_result(f.client, &count);
    assert_int_equal(count, 6000);
    close_queue(&f);
}

static void test_a_record_has_all_its_fields(void **state)
{
    fixture f = open_queue(1, "list");
    push_options options = {0, 9.5, 0, "{\"t\":\"1\"}"};
    const seriatim_record *record;
    char run[64];
    (void)state;
    push(&f, "x", "late", options);
    options.score = 2;
    options.context = NULL;
    push(&f, "x", "early", options);
    record = fetch(&f, SERIATIM_FETCH, "x");
    assert_string_equal(record->state, "waiting");
    assert_int_equal(record->payload_count, 2);
    assert_memory_equal(record->payloads[0].data, "early", 5);
    assert_true(fabs(record->payloads[1].score - 9.5) < 1e-12);
    assert_int_equal(record->payloads[1].context_len, 9);
    assert_int_equal(record->error_len, 0);
    assert_int_equal(record->retry_count, -1);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "10", run), 1);
    assert_null(fetch(&f, SERIATIM_FETCH, "x"));
    assert_string_equal(range(&f, SERIATIM_PROCESSING_DATA, 0, NULL, NULL, 10), "x");
    push(&f, "x", "next", none);
    record = fetch(&f, SERIATIM_FETCH, "x");
    assert_int_equal(record->behind, 1);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, NULL, NULL, 10), "x");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "x");
    settle_failed(&f, "x", run, "5", "bury");
    record = fetch(&f, SERIATIM_FETCH, "x");
    assert_string_equal(record->state, "retrying");
    assert_memory_equal(record->error, "boom", 4);
    assert_int_equal(record->retry_count, 0);
    assert_int_equal(record->payload_count, 3);
    close_queue(&f);
}

static double redis_us(void)
{
    redisReply *reply = redis("TIME");
    double us = strtod(reply->element[0]->str, NULL) * 1e6 + strtod(reply->element[1]->str, NULL);
    freeReplyObject(reply);
    return us;
}

/* Makes an id due `seconds` ago: its record is the plain form. Returns when that was, by Redis' clock, in us. */
static double backdate(const char *id, double seconds)
{
    unsigned char record[10];
    double due = redis_us() - seconds * 1e6;
    record[0] = 0;
    memcpy(record + 1, &due, 8);
    record[9] = 'p';
    REDIS("HSET " PREFIX "jobs %s %b", id, record, sizeof record);
    return due;
}

static void test_metrics_count_ids_by_state(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_metrics m;
    char run[64], id[32];
    double due;
    int i;
    (void)state;
    push_later(&f, "later", "1", 1000);
    m = metrics(&f);
    assert_true(m.lag <= 0);
    assert_true(m.first > m.now + 999);
    acquire(&f, "n1");
    for (i = 0; i < 4; i++) {
        snprintf(id, sizeof id, "dead%d", i);
        push_failed(&f, id, "1", 2, 100);
    }
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 4);
    push(&f, "run", "1", none);
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, "gone", "1", none);
    push(&f, "old", "p", none);
    push(&f, "new", "p", none);
    REDIS("HDEL " PREFIX "jobs gone");
    due = backdate("old", 10);
    push_failed(&f, "r1", "1", 0, 60);
    push_failed(&f, "r2", "1", 4, 60);
    push_failed(&f, "stopped", "1", 4, 60);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "stopped"), 1);
    m = metrics(&f);
    assert_int_equal(m.fresh, 3);
    assert_int_equal(m.retries, 2);
    assert_int_equal(m.length, 5);
    assert_int_equal(m.busy, 1);
    assert_int_equal(m.parked, 1);
    assert_int_equal(m.morgue_length, 4);
    assert_true(m.lag > 9.9 && m.lag <= (redis_us() - due) / 1e6);
    settle_done(&f, "run", run);
    m = metrics(&f);
    assert_int_equal(m.processed, 1);
    assert_int_equal(m.busy, 0);
    REDIS("HSET " PREFIX "running x y");
    REDIS("DEL " PREFIX "running");
    close_queue(&f);
}

static void test_r_query_7_explain_says_where_an_id_stands(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_explanation *x;
    const seriatim_living_node *nodes;
    size_t count;
    char run[64];
    (void)state;
    x = explain(&f, "a");
    assert_string_equal(x->text, "nothing waits or runs under this id; no server knows this queue");
    push_later(&f, "a", "1", 100);
    x = explain(&f, "a");
    assert_non_null(strstr(x->text, "it is due in "));
    assert_non_null(strstr(x->text, "; no server knows this queue, so no node owns its shard"));
    acquire(&f, "n1");
    x = explain(&f, "a");
    assert_int_equal(x->owner_alive, 0);
    assert_non_null(strstr(x->text, "has no heartbeat"));
    REDIS("ZADD seriatim:{/nodes}:alive 9000000000000 n1");
    REDIS("ZADD seriatim:{/nodes}:alive 5 n0");
    REDIS("HSET seriatim:{/nodes}:info n1 here");
    assert_int_equal(explain(&f, "a")->known, 0);
    REDIS("HSET seriatim:{/nodes}:info n1 %s", "b ce6e8eef;threads=7;since=1700000000|here");
    assert_int_equal(explain(&f, "a")->known, 1);
    x = explain(&f, "a");
    assert_int_equal(x->owner_alive, 1);
    assert_non_null(strstr(x->text, "node n1 owns its shard"));
    act(&f, SERIATIM_PAUSE);
    assert_non_null(strstr(explain(&f, "a")->text, "paused"));
    act(&f, SERIATIM_RESUME);
    act(&f, SERIATIM_PERFORM_ALL_JOBS_NOW);
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, "a", "2", none);
    push(&f, "a", "3", none);
    x = explain(&f, "a");
    assert_string_equal(x->job.state, "running");
    assert_true(x->job.fence == x->fence && x->fence > 0);
    assert_int_equal(x->behind.payload_total, 2);
    assert_non_null(strstr(x->text, "more waits"));
    act_on(&f, SERIATIM_PARK, "a");
    assert_non_null(strstr(explain(&f, "a")->text, "parked when its run ends"));
    settle_failed(&f, "a", run, "0", "bury");
    x = explain(&f, "a");
    assert_string_equal(x->job.state, "parked");
    assert_string_equal(x->dead.state, "dead");
    assert_non_null(strstr(x->text, "morgue"));
    done(&f, seriatim_nodes_begin(f.client));
    nodes = seriatim_nodes_result(f.client, &count);
    assert_int_equal(count, 1);
    assert_string_equal(nodes[0].name, "n1");
    assert_string_equal(nodes[0].description, "here"); /* without what nodes tell each other */
    assert_int_equal(nodes[0].threads, 7);
    assert_int_equal(nodes[0].since, 1700000000);
    assert_int_equal(nodes[0].rss, -1);
    assert_true(nodes[0].expires_in > 1000);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queries_of_an_empty_queue_find_nothing),
        cmocka_unit_test(test_an_unknown_queue_is_empty_and_is_not_made_by_looking),
        cmocka_unit_test(test_ranges_by_id_keep_their_bounds),
        cmocka_unit_test(test_ranges_by_numbers_keep_their_bounds),
        cmocka_unit_test(test_invalid_bounds_are_refused),
        cmocka_unit_test(test_r_query_6_a_shard_that_the_queue_does_not_have_is_refused),
        cmocka_unit_test(test_a_range_merges_all_shards_in_order),
        cmocka_unit_test(test_a_record_has_all_its_fields),
        cmocka_unit_test(test_metrics_count_ids_by_state),
        cmocka_unit_test(test_r_query_7_explain_says_where_an_id_stands),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

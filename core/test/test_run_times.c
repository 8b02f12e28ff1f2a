/* test_run_times.c - run times: buckets, percentiles, and what a real node and a dashboard make of them on a real
 * Redis. */
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
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "model/run_times.h"
#include "node_fixture.h"
#include "operators.h"

/* ---- Buckets ------------------------------------------------------------------------------- */

static size_t bucket_of(int64_t us)
{
    srt_run_counts counts;
    size_t i;
    memset(&counts, 0, sizeof counts);
    srt_run_counts_add(&counts, us);
    assert_true(counts.any);
    assert_int_equal(counts.sum_us, us > 0 ? us : 0);
    for (i = 0; i < SRT_TIMES_BUCKETS; i++)
        if (counts.calls[i])
            return i;
    fail();
    return 0;
}

static void test_a_bucket_holds_run_times_up_to_its_bound(void **state)
{
    size_t i;
    (void)state;
    assert_int_equal(bucket_of(-5), 0);
    assert_int_equal(bucket_of(0), 0);
    assert_int_equal(bucket_of(1), 0);
    for (i = 0; i + 1 < SRT_TIMES_BUCKETS; i++) {
        int64_t us = (int64_t)floor(srt_run_bound(i) * 1e6 + 1e-6);
        assert_int_equal(bucket_of(us), i);
        assert_int_equal(bucket_of(us + 1), i + 1);
        assert_true(i == 0 || fabs(srt_run_bound(i) / srt_run_bound(i - 1) - sqrt(2)) < 1e-9);
    }
    assert_int_equal(bucket_of(INT64_MAX), SRT_TIMES_BUCKETS - 1);
    assert_true(isinf(srt_run_bound(SRT_TIMES_BUCKETS - 1)));
}

static void near(double value, double expected)
{
    if (!(value >= expected / 1.42 && value <= expected * 1.42))
        fail_msg("%g is not near %g", value, expected);
}

static void test_a_percentile_lies_in_the_bucket_of_the_exact_one(void **state)
{
    srt_run_counts counts;
    srt_run_times times;
    size_t i;
    (void)state;
    memset(&counts, 0, sizeof counts);
    memset(&times, 0, sizeof times);
    assert_true(srt_run_times_quantile(&times, 0.5) == 0 && srt_run_times_calls(&times) == 0);
    for (i = 1; i <= 1000; i++)
        srt_run_counts_add(&counts, (int64_t)i * 1000);
    for (i = 0; i < SRT_TIMES_BUCKETS; i++)
        times.calls[i] = counts.calls[i];
    near(srt_run_times_quantile(&times, 0.5), 0.5);
    near(srt_run_times_quantile(&times, 0.95), 0.95);
    near(srt_run_times_quantile(&times, 0.99), 0.99);
    memset(&times, 0, sizeof times);
    times.calls[SRT_TIMES_BUCKETS - 1] = 1;
    assert_true(srt_run_times_quantile(&times, 0.99) == srt_run_bound(SRT_TIMES_BUCKETS - 2));
}

/* ---- The script ---------------------------------------------------------------------------- */

#define KEY "seriatim:{Q}:run_times"

/* What run_times.lua answers to a node's request with `calls` calls of 1 ms. */
static int64_t tell(const char *node, int64_t number, int calls)
{
    srt_run_counts counts;
    srt_session session;
    redisReply *reply;
    const char *data;
    size_t len;
    int64_t wrote;
    memset(&counts, 0, sizeof counts);
    while (calls-- > 0)
        srt_run_counts_add(&counts, 1000);
    REDIS("SCRIPT LOAD %b", srt_script_text_run_times, sizeof srt_script_text_run_times - 1);
    assert_int_equal(srt_session_init(&session, seriatim_default_allocator(), 0), SERIATIM_OK);
    assert_int_equal(srt_session_connected(&session, NULL, NULL, 0, NULL), SERIATIM_OK);
    assert_int_equal(srt_session_send(&session, srt_run_times_request(&session, "seriatim", "Q", 1, text(node),
                                                                      (uint64_t)(unsigned char)*node, number, &counts)),
                     SERIATIM_OK);
    srt_session_output(&session, &data, &len);
    assert_int_equal(redisAppendFormattedCommand(server_redis, data, len), REDIS_OK);
    assert_int_equal(redisGetReply(server_redis, (void **)&reply), REDIS_OK);
    if (reply->type != REDIS_REPLY_INTEGER)
        fail_msg("%s", reply->str);
    wrote = reply->integer;
    freeReplyObject(reply);
    srt_session_free(&session);
    return wrote;
}

static srt_run_times total(void)
{
    redisReply *reply = redis("HGET " KEY " total");
    srt_run_times times;
    memset(&times, 0, sizeof times);
    if (reply->type == REDIS_REPLY_STRING)
        srt_run_times_add_total(&times, reply->str, reply->len);
    freeReplyObject(reply);
    return times;
}

static double calls_in_total(void)
{
    srt_run_times times = total();
    return srt_run_times_calls(&times);
}

/* The calls in all steps of this length. */
static double calls_in_steps(int length, int ring)
{
    srt_run_times times;
    int i;
    memset(&times, 0, sizeof times);
    for (i = 0; i < ring; i++) {
        redisReply *reply = redis("HGET " KEY " %d:%d", length, i);
        if (reply->type == REDIS_REPLY_STRING)
            srt_run_times_add_step(&times, reply->str, reply->len);
        freeReplyObject(reply);
    }
    return srt_run_times_calls(&times);
}

static void test_r_metrics_6_run_times_of_all_nodes_add_up_and_none_counts_twice(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push(&f, "a", "x", none);
    assert_int_equal(tell("n1", 1, 3), 1);
    assert_int_equal(tell("n1", 1, 3), 0); /* sent again: its answer was lost */
    assert_int_equal(tell("m1", 1, 4), 1);
    assert_int_equal(tell("n1", 1, 3), 0);
    assert_int_equal(tell("n1", 2, 5), 1);
    assert_int_equal((int)calls_in_total(), 12);
    assert_true(fabs(total().sum - 0.012) < 1e-9);
    assert_int_equal((int)calls_in_steps(SRT_TIMES_FINE, SRT_TIMES_FINE_STEPS), 12);
    assert_int_equal((int)calls_in_steps(SRT_TIMES_MIDDLE, SRT_TIMES_MIDDLE_STEPS), 12);
    assert_int_equal((int)calls_in_steps(SRT_TIMES_COARSE, SRT_TIMES_COARSE_STEPS), 12);
    assert_in_range(number("PTTL " KEY), 691100000, 691200000);
    assert_string_equal(kinds_found(&f, f.queue, 0), ""); /* the key is of a known kind */
    close_queue(&f);
}

/* A step of an hour ago does not count in the present one of the same place. */
static void test_a_step_begins_empty(void **state)
{
    fixture f = open_queue(1, "merge");
    int i;
    (void)state;
    push(&f, "a", "x", none);
    for (i = 0; i < SRT_TIMES_FINE_STEPS; i++)
        REDIS("HSET " KEY " 60:%d %b", i, "\1\0\0\0\4\377\0\0\0", (size_t)9);
    assert_int_equal(tell("n1", 1, 3), 1);
    assert_int_equal((int)calls_in_steps(SRT_TIMES_FINE, SRT_TIMES_FINE_STEPS), 3 + 255 * (SRT_TIMES_FINE_STEPS - 1));
    close_queue(&f);
}

static void test_run_times_of_a_deleted_queue_are_gone_and_none_is_written(void **state)
{
    static const seriatim_text name = {"Q", 1};
    fixture f = open_queue(1, "merge");
    (void)state;
    assert_int_equal(tell("n1", 1, 3), 0); /* not made yet */
    push(&f, "a", "x", none);
    assert_int_equal(tell("n1", 2, 3), 1);
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE_QUEUE, &name, 1), SERIATIM_OK);
    assert_int_equal(drive(f.link), SERIATIM_OK);
    assert_int_equal(number("EXISTS " KEY), 0);
    assert_int_equal(tell("n1", 3, 3), 0);
    assert_int_equal(number("EXISTS " KEY), 0);
    close_queue(&f);
}

/* Bytes that no version has written are passed over, and what comes is counted. */
static void test_damaged_run_times_are_passed_over(void **state)
{
    static const char damaged[] = "\0\0\0\0\0\0\370\177\4\0\0\0\0\0\0\370\377\377abcdefgh\1short";
    fixture f = open_queue(1, "merge");
    (void)state;
    push(&f, "a", "x", none);
    REDIS("HSET " KEY " total %b node:49 x", damaged, sizeof damaged - 1);
    assert_int_equal((int)calls_in_total(), 0);
    assert_int_equal(tell("1", 1, 3), 1);
    assert_int_equal((int)calls_in_total(), 3);
    assert_true(total().sum >= 0);
    close_queue(&f);
}

/* ---- A node -------------------------------------------------------------------------------- */

#define RUNS 40

static void *work(void *argument)
{
    seriatim_runner *runner = argument;
    seriatim_delivery *d;
    int status, count = 0;
    while ((status = seriatim_runner_take(runner, 0, &d)) != SERIATIM_CLOSED) {
        seriatim_runner_pulse(runner);
        if (status == SERIATIM_AGAIN) {
            seriatim_runner_wait(runner, 0, 100);
            continue;
        }
        pause_ms(count % 10 ? 2 : 60);
        if (count++ % 2)
            seriatim_delivery_fail(d, 0, "wrong", 5, 3600);
        else
            seriatim_delivery_done(d, 0);
        seriatim_runner_settle(runner, d);
        if (count == RUNS)
            seriatim_runner_stop(runner);
    }
    return NULL;
}

static void run_all(void)
{
    seriatim_queue_settings q = queue_q();
    seriatim_node_settings settings = node_of_one_thread("n1");
    seriatim_runner *runner;
    seriatim_error error;
    pthread_t thread;
    size_t worker;
    assert_int_equal(seriatim_runner_new(&settings, server.url, &runner, &error), SERIATIM_OK);
    assert_int_equal(seriatim_runner_worker(runner, &q, &worker, &error), SERIATIM_OK);
    assert_int_equal(seriatim_runner_start(runner, &error), SERIATIM_OK);
    assert_int_equal(pthread_create(&thread, NULL, work, runner), 0);
    pthread_join(thread, NULL);
    while (!seriatim_runner_stopped(runner))
        pause_ms(2);
    seriatim_runner_free(runner);
}

/* The answer to GET path. */
static const char *page(const fixture *f, const char *path, const char *query)
{
    seriatim_web_settings settings;
    seriatim_web_request request;
    const seriatim_web_response *response;
    static char body[65536];
    memset(&settings, 0, sizeof settings);
    memset(&request, 0, sizeof request);
    request.method = "GET";
    request.host = text("localhost");
    request.role = SERIATIM_WEB_VIEWER;
    request.path = text(path);
    request.query = text(query);
    assert_int_equal(seriatim_web_begin(f->client, &settings, &request), SERIATIM_OK);
    response = seriatim_web_answer(f->client, drive(f->link), NULL);
    snprintf(body, sizeof body, "%.*s", (int)response->body.len, response->body.data);
    assert_int_equal(response->status, 200);
    return body;
}

static double field(const char *body, const char *name)
{
    const char *at = strstr(body, name);
    if (!at)
        fail_msg("no %s in %s", name, body);
    return strtod(at + strlen(name), NULL);
}

/* A tenth of the calls takes 60 ms, the others 2: as seen by a node that has left, and by who reads it. */
static void test_r_metrics_6_a_node_counts_each_call_of_perform(void **state)
{
    static const char *const spans[] = {"queue=Q&span=15m", "queue=Q&span=1h", "queue=Q&span=1d", "queue=Q&span=7d"};
    fixture f = open_queue(1, "merge");
    const char *body;
    size_t i;
    (void)state;
    push_many(&f, "a", 0, 1);
    assert_non_null(strstr(page(&f, "/api/v1/history", spans[0]), "\"run_times\":null"));
    assert_null(strstr(page(&f, "/metrics", ""), "seriatim_run_seconds_count{"));
    for (i = 1; i < RUNS; i++) {
        char id[8];
        snprintf(id, sizeof id, "b%d", (int)i);
        push(&f, id, "x", none);
    }
    run_all();
    assert_int_equal((int)calls_in_total(), RUNS);
    for (i = 0; i < 4; i++) {
        body = page(&f, "/api/v1/history", spans[i]);
        assert_int_equal((int)field(body, "\"run_times\":{\"count\":"), RUNS);
        assert_true(field(body, "\"p50\":") >= 0.002 / 1.42 && field(body, "\"p50\":") < 0.05);
        assert_true(field(body, "\"p99\":") >= 0.06 / 1.42);
        assert_true(field(body, "\"p95\":") <= field(body, "\"p99\":"));
    }
    assert_non_null(strstr(page(&f, "/api/v1/history", "span=15m"), "\"run_times\":null")); /* of all queues: none */
    body = page(&f, "/metrics", "");
    assert_non_null(strstr(body, "# TYPE seriatim_run_seconds histogram\n"));
    assert_int_equal((int)field(body, "seriatim_run_seconds_bucket{queue=\"Q\",le=\"0.001024\"} "), 0);
    assert_in_range(field(body, "seriatim_run_seconds_bucket{queue=\"Q\",le=\"0.032768\"} "), RUNS / 2, RUNS - 4);
    assert_int_equal((int)field(body, "seriatim_run_seconds_bucket{queue=\"Q\",le=\"8589.934592\"} "), RUNS);
    assert_int_equal((int)field(body, "seriatim_run_seconds_bucket{queue=\"Q\",le=\"+Inf\"} "), RUNS);
    assert_int_equal((int)field(body, "seriatim_run_seconds_count{queue=\"Q\"} "), RUNS);
    assert_true(field(body, "seriatim_run_seconds_sum{queue=\"Q\"} ") >= 0.3);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bucket_holds_run_times_up_to_its_bound),
        cmocka_unit_test(test_a_percentile_lies_in_the_bucket_of_the_exact_one),
        cmocka_unit_test(test_r_metrics_6_run_times_of_all_nodes_add_up_and_none_counts_twice),
        cmocka_unit_test(test_a_step_begins_empty),
        cmocka_unit_test(test_run_times_of_a_deleted_queue_are_gone_and_none_is_written),
        cmocka_unit_test(test_damaged_run_times_are_passed_over),
        cmocka_unit_test(test_r_metrics_6_a_node_counts_each_call_of_perform),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

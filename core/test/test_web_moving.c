/*
 * test_web_moving.c - what the dashboard answers while a real Redis Cluster has moved some keys of a slot: all that can
 * be read, soon, and which slot cannot. And while one of its masters answers late.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SRT_SCRIPT_TEXTS
#include "link_fixture.h"
#include "model/history.h"
#include "redis_cluster.h"
#include "server.h"

#define SHARDS 6
#define JOBS 90
#define HEADER "Seriatim-Moving-Slots"

typedef struct answer {
    int status;
    int wait_ms;
    double took_ms;
    char moving[64]; /* the header; empty: there is none */
    char body[1 << 16];
} answer;

static seriatim_link *link_;
static int slot; /* of the shard that has id-0 */
static unsigned shard;
static size_t from, to;
static int lost; /* jobs in that shard */
static struct {
    int host_waits;
    int64_t waited_ms;
} pop_of; /* how the host lets a pop wait */

static const char *header_of(const seriatim_web_response *response, const char *name)
{
    size_t i;
    for (i = 0; i < response->header_count; i++)
        if (strcmp(response->headers[i].name, name) == 0)
            return response->headers[i].value;
    return "";
}

/* path: with its query, if any. */
static const answer *ask_method(const char *method, const char *path, const char *body)
{
    static answer a;
    const char *query = strchr(path, '?');
    seriatim_client *c = seriatim_link_client(link_);
    const seriatim_web_response *response;
    seriatim_web_settings settings;
    seriatim_web_request request;
    double began = wall_clock_ms();
    int status;
    memset(&settings, 0, sizeof settings);
    settings.consume = 1;
    memset(&request, 0, sizeof request);
    request.host_waits = pop_of.host_waits;
    request.waited_ms = pop_of.waited_ms;
    request.method = method;
    request.path.data = path;
    request.path.len = query ? (size_t)(query - path) : strlen(path);
    request.query.data = query ? query + 1 : NULL;
    request.query.len = query ? strlen(query + 1) : 0;
    request.body.data = body;
    request.body.len = strlen(body);
    request.content_type.data = "application/json";
    request.content_type.len = strlen(request.content_type.data);
    request.origin.data = "http://127.0.0.1";
    request.origin.len = strlen(request.origin.data);
    request.host.data = "127.0.0.1";
    request.host.len = strlen(request.host.data);
    request.role = SERIATIM_WEB_ADMIN;
    status = seriatim_web_begin(c, &settings, &request);
    if (status == SERIATIM_OK)
        status = link_drive(link_);
    response = seriatim_web_answer(c, status, NULL);
    a.took_ms = wall_clock_ms() - began;
    a.status = response->status;
    a.wait_ms = response->wait_ms;
    snprintf(a.moving, sizeof a.moving, "%s", header_of(response, HEADER));
    snprintf(a.body, sizeof a.body, "%.*s", (int)response->body.len, response->body.data);
    return &a;
}

static const answer *ask(const char *path)
{
    return ask_method("GET", path, "");
}

/* Some keys of the shard have left, as many as `keys`. */
static void begin_half_move(int keys)
{
    from = cluster_master_of(&cluster, slot);
    to = (from + 1) % CLUSTER_MASTERS;
    cluster_half_move(&cluster, slot, to, keys);
}

static int start_queue(void **state)
{
    char key[64];
    int i;
    redis_cluster_set_up(state);
    link_ = link_to_queue(cluster.url, "shown", SHARDS, "list");
    link_push_jobs(link_, "a", 0, JOBS, 1 << 30);
    shard = seriatim_shard_of("id-0", 4, SHARDS);
    for (lost = i = 0; i < JOBS; i++) {
        snprintf(key, sizeof key, "id-%d", i);
        lost += seriatim_shard_of(key, strlen(key), SHARDS) == shard;
    }
    snprintf(key, sizeof key, "{shown/%u}", shard);
    slot = cluster_slot(&cluster, key);
    return 0;
}

static int stop_queue(void **state)
{
    seriatim_link_free(link_);
    redis_cluster_tear_down(state);
    return 0;
}

/* An answer that came soon. On a busy machine some come late; who waits for the slot is late each time. */
static const answer *ask_soon(const char *path)
{
    int attempt;
    for (attempt = 0; attempt < 10; attempt++) {
        const answer *a = ask(path);
        if (a->took_ms < 3000)
            return a;
    }
    fail_msg("%s took more than 3 seconds, %d times", path, attempt);
    return NULL;
}

/* An answer that lacks the shard comes soon, and names its slot. */
static const answer *ask_partly(const char *path)
{
    char expected[16];
    const answer *a = ask_soon(path);
    snprintf(expected, sizeof expected, "%d", slot);
    if (a->status != 200 || strcmp(a->moving, expected) != 0)
        fail_msg("%s: %d, %s: \"%s\": %s", path, a->status, HEADER, a->moving, a->body);
    return a;
}

static int count_of(const char *text, const char *word)
{
    int count = 0;
    for (; (text = strstr(text, word)) != NULL; text++)
        count++;
    return count;
}

/* An answer that lacks no slot. */
static const answer *ask_wholly(const char *path)
{
    const answer *a = ask(path);
    assert_string_equal(a->moving, "");
    return a;
}

/*
 * Its answers have `wanted` ids. On a busy machine some shards may be late for an answer, which does not wait for them:
 * then it is asked again.
 */
static void shows(const char *path, const answer *(*asks)(const char *path), int wanted)
{
    int attempt, count = 0;
    for (attempt = 0; attempt < 200 && count != wanted; attempt++)
        count = count_of(asks(path)->body, "\"id\":");
    assert_int_equal(count, wanted);
}

static void test_r_cluster_13_answers_have_what_can_be_read_and_name_the_slot_that_moves(void **state)
{
    static const int moved[] = {0, 1, 3};
    char expected[96];
    size_t i;
    (void)state;
    for (i = 0; i < sizeof moved / sizeof *moved; i++) {
        const answer *a;
        begin_half_move(moved[i]);
        a = ask_soon("/api/v1/queues/shown");
        assert_int_equal(a->status, 200);
        snprintf(expected, sizeof expected, "\"shard\":%u,\"slot\":%d", shard, slot);
        assert_non_null(strstr(a->body, expected));
        shows("/api/v1/queues/shown/records?by=id&limit=100", ask_partly, JOBS - lost);
        shows("/api/v1/queues/shown/records?by=time&limit=100", ask_partly, JOBS - lost);
        shows("/api/web/shown/range_by_id", ask_partly, JOBS - lost);
        snprintf(expected, sizeof expected, "\"of\":%d", JOBS - lost);
        assert_non_null(strstr(ask_partly("/api/v1/queues/shown/hottest")->body, expected));
        assert_non_null(strstr(ask_partly("/api/v1/queues/shown/ages")->body, expected));
        ask_partly("/api/v1/queues/shown/errors");
        ask_partly("/api/v1/queues/shown/scheduled");
        ask_partly("/api/v1/search?q=id-&prefix=1&queue=shown");
        cluster_end_move(&cluster, slot, from, to);
        shows("/api/v1/queues/shown/records?by=id&limit=100", ask_wholly, JOBS);
    }
}

static void test_r_cluster_13_figures_that_lack_a_shard_say_so(void **state)
{
    char expected[96];
    const answer *a;
    (void)state;
    a = ask("/metrics");
    assert_non_null(strstr(a->body, "seriatim_unread_shards{queue=\"shown\"} 0\n"));
    assert_non_null(strstr(a->body, "seriatim_pushed_total{queue=\"shown\"}"));
    assert_non_null(strstr(a->body, "seriatim_processed_total{queue=\"shown\",result=\"done\"}"));
    link_push_jobs(link_, "b", 0, JOBS, 1 << 30); /* so that the figures are no longer those of the last look */
    begin_half_move(0);                           /* a script of the shard fails at the first key that does not exist */
    a = ask_partly("/api/v1/queues/shown");
    snprintf(expected, sizeof expected, "\"slot\":%d,\"stale\":0,\"unread\":true", slot);
    assert_non_null(strstr(a->body, expected));
    assert_int_equal(count_of(a->body, "\"unread\":true"), 1);
    ask_partly("/api/v1/search?q=id-0");
    a = ask_partly("/metrics");
    assert_non_null(strstr(a->body, "seriatim_unread_shards{queue=\"shown\"} 1\n"));
    assert_non_null(strstr(a->body, "seriatim_ready{queue=\"shown\"}"));
    assert_null(strstr(a->body, "seriatim_pushed_total{")); /* a counter that falls would be one that began anew */
    assert_null(strstr(a->body, "seriatim_processed_total{"));
    cluster_end_move(&cluster, slot, from, to);
}

/* There is no part of an id's page that could be shown, and a change is not made by half. */
static void test_r_cluster_13_the_page_of_an_id_in_a_moving_slot_says_why_it_is_not_shown(void **state)
{
    char expected[64];
    const answer *a;
    (void)state;
    begin_half_move(1);
    snprintf(expected, sizeof expected, "Redis is moving slot %d", slot);
    a = ask_soon("/api/v1/queues/shown/id?id=id-0");
    assert_int_equal(a->status, 503);
    assert_non_null(strstr(a->body, expected));
    cluster_end_move(&cluster, slot, from, to);
    assert_int_equal(ask("/api/v1/queues/shown/id?id=id-0")->status, 200);
}

static void test_r_cluster_13_the_error_of_a_change_names_the_slot_that_it_waited_for(void **state)
{
    char expected[64];
    const answer *a;
    (void)state;
    begin_half_move(1);
    snprintf(expected, sizeof expected, "Redis is moving slot %d", slot);
    a = ask_method("POST", "/api/web/shown/park", "{\"ids\":[\"id-0\"]}");
    if (a->status != 503 || !strstr(a->body, expected) || !strstr(a->body, "\"done\":0"))
        fail_msg("%d: %s", a->status, a->body);
    cluster_end_move(&cluster, slot, from, to);
    assert_int_equal(ask_method("POST", "/api/web/shown/park", "{\"ids\":[\"id-0\"]}")->status, 200);
}

static const answer *pop_over_http(int wait, int host_waits, int64_t waited_ms)
{
    const answer *a;
    char body[64];
    snprintf(body, sizeof body, "{\"queues\":[\"shown\"],\"ttr\":0,\"wait\":%d}", wait);
    pop_of.host_waits = host_waits;
    pop_of.waited_ms = waited_ms;
    a = ask_method("POST", "/api/v1/consume/pop", body);
    pop_of.host_waits = 0;
    pop_of.waited_ms = 0;
    return a;
}

static void is_to_ask_again(int wait, int64_t waited_ms)
{
    const answer *a = pop_over_http(wait, 1, waited_ms);
    assert_int_equal(a->status, 204);
    assert_in_range(a->wait_ms, 1, 100);
}

/* A host that waits itself is told to ask again, and its thread is free meanwhile. */
static void test_r_cluster_13_a_consumer_gets_ids_of_other_shards_and_then_the_name_of_the_slot(void **state)
{
    char expected[64];
    const answer *a;
    int i;
    (void)state;
    begin_half_move(1);
    snprintf(expected, sizeof expected, "Redis is moving slot %d", slot);
    for (i = 0; i < JOBS - lost; i++)
        assert_int_equal(pop_over_http(1, i % 2, 0)->status, 200);
    is_to_ask_again(1, 2000);
    is_to_ask_again(20, 20000); /* the slot may have begun to move just now */
    a = pop_over_http(1, 1, 5500);
    if (a->status != 503 || !strstr(a->body, expected))
        fail_msg("%d: %s", a->status, a->body);
    a = pop_over_http(1, 0, 0);
    if (a->status != 503 || !strstr(a->body, expected))
        fail_msg("%d: %s", a->status, a->body);
    assert_true(a->took_ms > 4000);
    cluster_end_move(&cluster, slot, from, to);
    for (i = 0; pop_over_http(1, 1, 0)->status == 200;)
        i++;
    assert_in_range(i, lost - 1, lost); /* another test has parked id-0 */
}

/* Two measurements of a queue, as a server writes them. */
static void write_history(const char *queue)
{
    srt_history_sample sample;
    srt_session session;
    const char *data;
    char key[64];
    size_t len, node;
    redisContext *redis;
    redisReply *reply;
    int64_t now;
    int i;
    memset(&sample, 0, sizeof sample);
    snprintf(key, sizeof key, "{%s}", queue);
    node = cluster_master_of(&cluster, cluster_slot(&cluster, key));
    redis = redisConnect("127.0.0.1", cluster.nodes[node].port);
    freeReplyObject(redisCommand(redis, "SCRIPT LOAD %b", srt_script_text_history, sizeof srt_script_text_history - 1));
    reply = redisCommand(redis, "TIME");
    now = strtoll(reply->element[0]->str, NULL, 10) * 1000000;
    freeReplyObject(reply);
    for (i = 0; i < 2; i++) {
        srt_request *r;
        sample.time_us = now - 20000000 + i * 15000000;
        sample.processed = i;
        assert_int_equal(srt_session_init(&session, seriatim_default_allocator(), 0), SERIATIM_OK);
        assert_int_equal(srt_session_connected(&session, NULL, NULL, 0, NULL), SERIATIM_OK);
        r = srt_history_request(&session, "seriatim", queue, strlen(queue), &sample);
        assert_int_equal(srt_session_send(&session, r), SERIATIM_OK);
        srt_session_output(&session, &data, &len);
        assert_int_equal(redisAppendFormattedCommand(redis, data, len), REDIS_OK);
        assert_int_equal(redisGetReply(redis, (void **)&reply), REDIS_OK);
        if (reply->type == REDIS_REPLY_ERROR)
            fail_msg("%s", reply->str);
        freeReplyObject(reply);
        srt_session_free(&session);
    }
    redisFree(redis);
}

#define SINGLES 6 /* queues, so that each master has the only shard of one */

static void shows_all_lags(void)
{
    const char *body = ask("/metrics")->body;
    char text[96];
    int i;
    for (i = 0; i < SINGLES; i++) {
        const char *lag;
        snprintf(text, sizeof text, "seriatim_lag_seconds{queue=\"single-%d\"} ", i);
        lag = strstr(body, text);
        assert_non_null(lag);
        assert_true(strtod(strchr(lag, ' '), NULL) > 0);
    }
}

/* The sum over all points of the history of all queues. */
static double shown_processed(void)
{
    const char *at = strstr(ask("/api/v1/history?span=15m")->body, "\"points\":[");
    double sum = 0;
    assert_non_null(at);
    for (at = strchr(at, '['); (at = strchr(at + 1, '[')) != NULL;)
        sum += strtod(at + 1, NULL);
    return sum;
}

/* Any master may be asked for the time, without which neither a lag nor a place in a chart is known. */
static void test_r_cluster_13_a_master_that_answers_late_hides_no_figures_of_others(void **state)
{
    char text[96];
    size_t node;
    int i;
    (void)state;
    for (i = 0; i < SINGLES; i++) {
        seriatim_link *more;
        snprintf(text, sizeof text, "single-%d", i);
        more = link_to_queue(cluster.url, text, 1, "list");
        link_push_jobs(more, "a", 0, 5, 1 << 30);
        seriatim_link_free(more);
        write_history(text);
    }
    while (!strstr(ask("/metrics")->body, text)) /* the names of queues are kept for a while */
        pause_ms(100);
    for (node = 0; node < CLUSTER_MASTERS; node++) {
        cluster_do(&cluster, node, "CLIENT PAUSE 300");
        shows_all_lags();
        cluster_do(&cluster, node, "CLIENT PAUSE 300");
        assert_int_equal((int)shown_processed(), SINGLES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_cluster_13_answers_have_what_can_be_read_and_name_the_slot_that_moves),
        cmocka_unit_test(test_r_cluster_13_figures_that_lack_a_shard_say_so),
        cmocka_unit_test(test_r_cluster_13_the_page_of_an_id_in_a_moving_slot_says_why_it_is_not_shown),
        cmocka_unit_test(test_r_cluster_13_the_error_of_a_change_names_the_slot_that_it_waited_for),
        cmocka_unit_test(test_r_cluster_13_a_master_that_answers_late_hides_no_figures_of_others),
        cmocka_unit_test(test_r_cluster_13_a_consumer_gets_ids_of_other_shards_and_then_the_name_of_the_slot),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_queue, stop_queue);
}

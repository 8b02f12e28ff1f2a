/* test_web_reshard.c - the dashboard gives a queue another number of shards, and shows how far its servers are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "browser.h"
#include "imported.h"
#include "io/link.h"
#include "reshard_fixture.h"

#define FORM "application/x-www-form-urlencoded"

/* A queue Q with 40 ids. */
static void open_with_ids(void)
{
    char id[16];
    int i;
    open_browser();
    for (i = 0; i < 40; i++) {
        snprintf(id, sizeof id, "%d", i);
        push_text("Q", id, "payload", 1000);
    }
}

static int reshard(const char *body)
{
    return ask("POST", "/api/web/Q/reshard", body);
}

static void test_r_web_22_an_admin_gives_a_queue_another_number_of_shards(void **state)
{
    int64_t shards, wanted;
    char text[200], line[200];
    (void)state;
    open_with_ids();
    get("/api/v1/queues/Q");
    shows("\"resharding\":null");
    shards = member("shards");
    wanted = 3 * shards;
    assert_int_equal(reshard("{}"), 400);
    shows("shards is missing: a whole number");
    assert_int_equal(reshard("{\"shards\":\"5\"}"), 400);
    assert_int_equal(reshard("{\"ids\":[\"5\"]}"), 400);
    assert_int_equal(reshard("{\"shards\":5000}"), 400);
    shows("shards must be a whole number from 1 to 4096, not \\\"5000\\\"");
    assert_int_equal(reshard("{\"shards\":1.5}"), 400);
    get("/api/v1/queues/Q");
    shows("\"resharding\":null");
    snprintf(text, sizeof text, "{\"shards\":%d}", (int)wanted);
    assert_int_equal(reshard(text), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    snprintf(line, sizeof line, "reshard by admin: queue \"Q\", shards \"%d\": count 1", (int)wanted);
    assert_string_equal(line_of(seriatim_web_change_of(browser.client)), line);
    get("/api/v1/queues/Q");
    snprintf(text, sizeof text, "\"resharding\":{\"from\":%d,\"ids_left\":", (int)shards);
    shows(text);
    assert_int_equal(member("to"), wanted);
    assert_int_equal(member("enqueued"), 40);
    get("/api/web/dashboard");
    shows(text);
    get("/metrics");
    snprintf(text, sizeof text, "seriatim_reshard_shards_left{queue=\"Q\"} %d\n", (int)shards);
    shows(text);
    snprintf(text, sizeof text, "seriatim_shards{queue=\"Q\"} %d\n", (int)wanted);
    shows(text);
    assert_int_equal(reshard("{\"shards\":4096}"), 400);
    shows("wait until that has ended");
    browser.request.content_type = text_of(FORM);
    snprintf(text, sizeof text, "shards=%d", (int)wanted);
    assert_int_equal(reshard(text), 200);
    assert_string_equal(browser.text, "{\"count\":0}");
    assert_int_equal(reshard("shards=many"), 400);
    assert_int_equal(reshard("number=3"), 400);
}

/* How many shards of Q ids still leave, as /metrics has it. */
static int64_t shards_left(void)
{
    static const char line[] = "seriatim_reshard_shards_left{queue=\"Q\"} ";
    const char *found;
    get("/metrics");
    found = strstr(browser.text, line);
    assert_non_null(found);
    return strtoll(found + sizeof line - 1, NULL, 10);
}

static void test_r_web_22_a_shard_is_left_until_no_id_may_have_come_back(void **state)
{
    int64_t shards;
    (void)state;
    open_with_ids();
    assert_int_equal(reshard("{\"shards\":7}"), 200);
    shards = shards_left();
    REDIS("HSET seriatim:{Q/0}:reshard out 2");
    assert_int_equal(shards_left(), shards - 1);
    REDIS("HSET seriatim:{Q/0}:reshard mark 1"); /* as by a repair that brings an id back */
    assert_int_equal(shards_left(), shards);
    REDIS("HSET seriatim:{Q/0}:reshard out 3");
    assert_int_equal(shards_left(), shards - 1);
    REDIS("HSET seriatim:{Q/0}:reshard out 1"); /* by an earlier version */
    assert_int_equal(shards_left(), shards - 1);
}

/* To a dashboard that has just started: nothing else in the shard waits or runs. */
static void test_r_web_22_an_id_that_waits_to_leave_counts_for_the_lag(void **state)
{
    static const char waits[] = "local record = redis.call('HGET', KEYS[1], ARGV[1]) "
                                "local moved = string.char(string.byte(record) + 1) .. string.sub(record, 2) "
                                "redis.call('HSET', KEYS[1], ARGV[1], moved) redis.call('DEL', KEYS[2]) "
                                "redis.call('ZADD', KEYS[3], redis.call('TIME')[1] - 60 .. '000000', ARGV[1])";
    static const char line[] = "seriatim_lag_seconds{queue=\"Q\"} ";
    const char *found;
    char id[32];
    seriatim_job job;
    size_t queue;
    move m;
    (void)state;
    open_browser();
    departing_id(id, "id", 0);
    job = job_of(id, strlen(id), "1", 1, 0);
    queue = queue_of(browser.client, "Q", 1);
    assert_int_equal(seriatim_push_begin(browser.client, queue), SERIATIM_OK);
    assert_int_equal(seriatim_push_job(browser.client, &job), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(browser.client), SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
    move_begin(&m, 2);
    /* As the end of its run leaves it. */
    REDIS("EVAL %s 3 seriatim:{Q/0}:jobs seriatim:{Q/0}:ready seriatim:{Q/0}:moving %s", waits, id);
    get("/metrics");
    found = strstr(browser.text, line);
    assert_non_null(found);
    assert_in_range(strtoll(found + sizeof line - 1, NULL, 10), 50, 600);
}

/* An id is found, and its page is there, whether it has moved or not. */
static void test_r_web_22_pages_show_all_ids_while_they_move(void **state)
{
    (void)state;
    open_with_ids();
    assert_int_equal(reshard("{\"shards\":7}"), 200);
    push_text("Q", "new", "payload", 1000);
    get("/api/v1/queues/Q/records?limit=100");
    assert_non_null(strstr(browser.text, "\"id\":\"39\""));
    assert_non_null(strstr(browser.text, "\"id\":\"new\""));
    get("/api/v1/search?q=39");
    shows("delayed");
    get("/api/v1/search?q=new");
    shows("delayed");
    get("/api/v1/queues/Q/id?id=39");
    shows("it is due in ");
}

/* An id that begins with name, of shard 0 of 2, that leaves it for another one of 3. Returns id. */
static const char *leaving_id(char id[32], const char *name)
{
    int i = 0;
    do
        snprintf(id, 32, "%s-%d", name, i++);
    while (seriatim_shard_of(id, strlen(id), 2) != 0 || seriatim_shard_of(id, strlen(id), 3) == 0);
    return id;
}

static void finds(const char *id, const char *one, const char *other)
{
    char path[64], expected[128];
    snprintf(path, sizeof path, "/api/v1/search?q=%s", id);
    get(path);
    snprintf(expected, sizeof expected, "{\"hits\":[{\"queue\":\"Q\",\"state\":\"%s\"}", one);
    if (other)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), ",{\"queue\":\"Q\",\"state\":\"%s\"}",
                 other);
    snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "]}");
    assert_string_equal(browser.text, expected);
}

enum { LEAVING_FEW, LEAVING_MANY, LEAVING_WAITS, LEAVING_PARKED, LEAVING_DEAD, LEAVING };

static void finds_all(char ids[LEAVING][32])
{
    finds(ids[LEAVING_FEW], "scheduled", NULL);
    finds(ids[LEAVING_MANY], "scheduled", NULL);
    finds(ids[LEAVING_WAITS], "delayed", "scheduled");
    finds(ids[LEAVING_PARKED], "parked", NULL);
    finds(ids[LEAVING_DEAD], "dead", NULL);
}

/* What lies in an open batch is found: few scheduled payloads in it, many in keys of their own. */
static void test_r_web_22_an_id_is_found_while_it_is_in_a_batch(void **state)
{
    char ids[LEAVING][32], words[LEAVING * 32] = "", body[64];
    seriatim_text texts[2] = {{ids[LEAVING_DEAD], 0}, {IMPORTED("d"), sizeof IMPORTED("d") - 1}};
    redisReply *batch;
    move m;
    int i;
    (void)state;
    open_with_ids();
    for (i = 0; i < LEAVING; i++) {
        static const char *const names[] = {"few", "many", "waits", "parked", "dead"};
        leaving_id(ids[i], names[i]);
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s ", ids[i]);
    }
    push_scheduled("Q", ids[LEAVING_FEW], 1000);
    for (i = 0; i < 20; i++)
        push_scheduled("Q", ids[LEAVING_MANY], 1000 + i);
    push_scheduled("Q", ids[LEAVING_WAITS], 1000);
    push_text("Q", ids[LEAVING_WAITS], "x", 1000);
    push_text("Q", ids[LEAVING_PARKED], "x", 1000);
    snprintf(body, sizeof body, "{\"ids\":[\"%s\"]}", ids[LEAVING_PARKED]);
    assert_int_equal(ask("POST", "/api/web/Q/park", body), 200);
    texts[0].len = strlen(texts[0].data);
    assert_int_equal(seriatim_action_begin(browser.client, queue_of(browser.client, "Q", 2), SERIATIM_IMPORT, texts, 2),
                     SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
    finds_all(ids);
    move_begin(&m, 3);
    batch = depart(&m, 0, words);
    finds_all(ids);
    assert_int_equal(bring(&m, 0, batch), 1);
    finds_all(ids);
    freeReplyObject(batch);
}

/* ---- Actions on many ids, request by request, while ids move ----------------------------------- */

enum { DEAD_IDS = 1800 }; /* more than a request acts on */

/* Dead ids of 16 shards, with one error, and one that waits. */
static void open_with_dead_ids(void)
{
    char record[sizeof IMPORTED("d") - 1], id[16];
    seriatim_job waiting = job_of("waiting", 7, "1", 1, 1000);
    size_t queue;
    double i;
    open_browser();
    queue = queue_of(browser.client, "Q", 16);
    assert_int_equal(seriatim_push_begin(browser.client, queue), SERIATIM_OK);
    assert_int_equal(seriatim_push_job(browser.client, &waiting), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(browser.client), SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
    memcpy(record, IMPORTED("d"), sizeof record);
    for (i = 1; i <= DEAD_IDS; i++) {
        seriatim_text texts[2] = {{id, 0}, {record, sizeof record}};
        texts[0].len = (size_t)snprintf(id, sizeof id, "%.0f", i);
        memcpy(record + 1, &i, sizeof i); /* the sequence, which rises */
        assert_int_equal(seriatim_action_begin(browser.client, queue, SERIATIM_IMPORT, texts, 2), SERIATIM_OK);
        assert_int_equal(drive_browser(), SERIATIM_OK);
        assert_int_equal(seriatim_action_result(browser.client), 1);
    }
}

/*
 * Behind the first request the ids of the last shards move to shards that the action has left. after: the move begins
 * then, too. Each id is requeued once.
 */
static void requeues_once(const char *path, int after)
{
    char body[400] = "{\"slice\":true}", cursor[300];
    int64_t sum = 0;
    unsigned source = 16, requests = 0;
    move m;
    if (!after)
        move_begin(&m, 8);
    for (;;) {
        if (ask("POST", path, body) != 200)
            fail_msg("%s", browser.text);
        sum += member("count");
        if (strstr(browser.text, "\"more\":false"))
            break;
        assert_int_equal(sscanf(strstr(browser.text, "\"cursor\":\""), "\"cursor\":\"%299[^\"]", cursor), 1);
        snprintf(body, sizeof body, "{\"slice\":true,\"cursor\":\"%s\"}", cursor);
        if (requests++ == 0 && after)
            move_begin(&m, 8);
        while (source > 8)
            move_source(&m, --source);
    }
    assert_true(requests > 0);
    assert_int_equal(sum, DEAD_IDS);
    get("/api/v1/queues/Q");
    assert_int_equal(member("dead"), 0);
    assert_int_equal(member("enqueued"), DEAD_IDS + 1);
}

static void test_r_action_17_all_dead_ids_are_requeued_once_while_they_move(void **state)
{
    (void)state;
    open_with_dead_ids();
    requeues_once("/api/web/Q/morgue_queue_up_all_jobs", 0);
}

static void requeues_one_error(int after)
{
    char fingerprint[17], path[120];
    open_with_dead_ids();
    get("/api/v1/queues/Q/errors?part=dead");
    snprintf(fingerprint, sizeof fingerprint, "%.16s", strstr(browser.text, "\"fingerprint\":\"") + 15);
    snprintf(path, sizeof path, "/api/v1/queues/Q/errors/%s/queue_up", fingerprint);
    requeues_once(path, after);
}

static void test_r_action_17_dead_ids_of_one_error_are_requeued_once_while_they_move(void **state)
{
    (void)state;
    requeues_one_error(0);
}

static void test_r_action_17_dead_ids_of_one_error_are_requeued_once_if_a_move_begins(void **state)
{
    (void)state;
    requeues_one_error(1);
}

/* An id that leaves its shard, of which no server goes on with the move. */
static void stop_a_move(move *m, char *id, size_t cap)
{
    int64_t shards;
    int i = 0;
    open_with_ids();
    get("/api/v1/queues/Q");
    shards = member("shards");
    do
        snprintf(id, cap, "id%d", i++);
    while (seriatim_shard_of(id, strlen(id), (unsigned)shards) != 0 ||
           seriatim_shard_of(id, strlen(id), (unsigned)shards + 1) == 0);
    push_text("Q", id, "payload", 1000);
    move_begin(m, (unsigned)shards + 1);
    freeReplyObject(depart(m, 0, id));
}

static void test_r_web_22_an_id_whose_move_has_stopped_is_named_as_the_cause(void **state)
{
    char id[32], body[64];
    move m;
    (void)state;
    stop_a_move(&m, id, sizeof id);
    srt_link_set_limits(browser.link, 300, 15000);
    snprintf(body, sizeof body, "{\"ids\":[\"%s\"]}", id);
    assert_int_equal(ask("POST", "/api/web/Q/delete", body), 503);
    shows("\"error\":\"timed out: the id is on its way to another shard");
}

/* Redis goes on answering that it is on its way, which does not prolong a push. */
static void test_r_web_22_a_push_of_an_id_whose_move_has_stopped_ends(void **state)
{
    char id[32], body[128];
    move m;
    (void)state;
    stop_a_move(&m, id, sizeof id);
    snprintf(body, sizeof body, "{\"queue\":\"Q\",\"jobs\":[{\"id\":\"%s\",\"payload\":1}]}", id);
    browser.settings.consume = 1;
    browser.request.role = SERIATIM_WEB_CONSUMER;
    assert_int_equal(ask("POST", "/api/v1/consume/push", body), 503);
    shows("timed out: the id is on its way to another shard");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_web_22_an_admin_gives_a_queue_another_number_of_shards),
        cmocka_unit_test(test_r_web_22_a_shard_is_left_until_no_id_may_have_come_back),
        cmocka_unit_test(test_r_web_22_an_id_that_waits_to_leave_counts_for_the_lag),
        cmocka_unit_test(test_r_web_22_pages_show_all_ids_while_they_move),
        cmocka_unit_test(test_r_web_22_an_id_is_found_while_it_is_in_a_batch),
        cmocka_unit_test(test_r_web_22_an_id_whose_move_has_stopped_is_named_as_the_cause),
        cmocka_unit_test(test_r_web_22_a_push_of_an_id_whose_move_has_stopped_ends),
        cmocka_unit_test(test_r_action_17_all_dead_ids_are_requeued_once_while_they_move),
        cmocka_unit_test(test_r_action_17_dead_ids_of_one_error_are_requeued_once_while_they_move),
        cmocka_unit_test(test_r_action_17_dead_ids_of_one_error_are_requeued_once_if_a_move_begins),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

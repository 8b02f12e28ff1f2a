/* test_web_actions.c - what actions do to queues, ids and payloads, also when Redis or the visitor goes away; against a
 * real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "browser.h"

static long member_number(const char *name)
{
    const char *at = strstr(browser.text, name);
    if (!at)
        fail_msg("no %s in: %.500s", name, browser.text);
    return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

/* Asks for slices until there are no more, and returns how many it took; *sum is what they say that they did. */
static int ask_slices(const char *path, long *sum)
{
    char body[400] = "{\"slice\":true}", cursor[300];
    int slices = 0;
    for (*sum = 0;; slices++) {
        if (ask("POST", path, body) != 200)
            fail_msg("%s", browser.text);
        *sum += member_number("\"count\":");
        if (strstr(path, "/api/web/"))
            assert_int_equal(member_number("\"total\":"), *sum);
        if (strstr(browser.text, "\"more\":false"))
            break;
        assert_int_equal(sscanf(strstr(browser.text, "\"cursor\":\""), "\"cursor\":\"%299[^\"]", cursor), 1);
        snprintf(body, sizeof body, "{\"slice\":true,\"cursor\":\"%s\"}", cursor);
    }
    shows("\"cursor\":null");
    return slices + 1;
}

static void push_delayed(const char *prefix, int count)
{
    char id[30];
    int i;
    for (i = 0; i < count; i++) {
        snprintf(id, sizeof id, "%s%d", prefix, i);
        push_text("Q", id, "x", 1000);
    }
}

static void test_an_action_goes_on_from_its_cursor(void **state)
{
    long sum;
    (void)state;
    open_browser();
    push_delayed("id ", 5400);
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{\"slice\":true}"), 200);
    shows("\"more\":true");
    assert_in_range(member_number("\"count\":"), 1000, 5399);
    assert_in_range(ask_slices("/api/web/Q/perform_all_jobs_now", &sum), 2,
                    4); /* from the start: the rest, for what is done stays done */
    assert_in_range(sum, 1, 4400);
    get("/api/web/dashboard");
    shows("\"delayed\":0,");
    push_delayed("late ", 40);
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":40}");
    assert_int_equal(ask_slices("/api/web/Q/unpark_all", &sum), 1);
    assert_int_equal(sum, 0);
    browser.request.content_type = text_of("application/x-www-form-urlencoded");
    assert_int_equal(ask("POST", "/api/web/Q/unpark_all", "slice=1&cursor="), 200);
    assert_string_equal(browser.text, "{\"count\":0,\"cursor\":null,\"more\":false,\"total\":0}");
}

static void test_invalid_cursors_of_an_action_are_refused(void **state)
{
    static const char *const cursors[] = {"x",
                                          "1",
                                          "1.0.0",
                                          "1.0.0.0.5",
                                          "1.0.0.0.5.0",
                                          "1.0.0.0.5.zz",
                                          "1.0.0.0.a.00",
                                          "1.0.0.a.5.00",
                                          "-1.0.0.0.5.00",
                                          "1.9999999.0.0.5.00"};
    char body[100];
    size_t i;
    (void)state;
    open_browser();
    push_text("Q", "a", "x", 1000);
    for (i = 0; i < sizeof cursors / sizeof *cursors; i++) {
        snprintf(body, sizeof body, "{\"cursor\":\"%s\"}", cursors[i]);
        if (ask("POST", "/api/web/Q/perform_all_jobs_now", body) != 400)
            fail_msg("%s: %s", cursors[i], browser.text);
        shows("cursor must be one that this action returned");
    }
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{\"slice\":1}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{\"cursor\":\"1.99.7.0..\"}"),
                     200); /* behind the last shard */
    assert_string_equal(browser.text, "{\"count\":0,\"cursor\":null,\"more\":false,\"total\":7}");
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{\"cursor\":\"77.99.7.0.5.00\"}"),
                     200); /* of another layout */
    assert_string_equal(browser.text, "{\"count\":1,\"cursor\":null,\"more\":false,\"total\":8}");
}

static void test_r_web_5_actions_answer_with_their_outcome(void **state)
{
    (void)state;
    open_browser();
    push_two();
    assert_int_equal(ask("POST", "/api/web/Q/pause", ""), 200);
    assert_string_equal(browser.text, "{\"count\":2}");
    get("/api/web/dashboard");
    shows("\"paused\":2,");
    assert_int_equal(ask("POST", "/api/web/Q/resume", NULL), 200);
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"ids\":[{\"base64\":\"UQ==\"}]}"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    get("/api/web/dashboard");
    shows("\"parked\":1,");
    assert_int_equal(ask("POST", "/api/web/Q/park", "{}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/pause", "{\"ids\":[]}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"ids\":[\"\"]}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"ids\":[null]}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"ids\":[{\"base64\":\"UQ==x\"}]}"), 400);
    shows("\\\"ids\\\"");
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"ids\":"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/park", "[]"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"other\":1}"), 400);
}

/* Chosen ids, all that is parked, and the id page's buttons: retry now and delete. */
static void test_the_actions_of_an_id_s_page_work(void **state)
{
    (void)state;
    open_browser();
    push_text("Q", "1", "a", 1000);
    push_text("Q", "2", "b", 1000);
    get("/api/v1/queues/Q/id?id=1");
    shows("\"state\":\"delayed\"");
    assert_int_equal(ask("POST", "/api/web/Q/perform_now", "{\"ids\":[\"1\",\"none\"]}"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    get("/api/v1/queues/Q/id?id=1");
    shows("\"state\":\"waiting\"");
    get("/api/v1/queues/Q/id?id=2");
    shows("\"state\":\"delayed\"");
    assert_int_equal(ask("POST", "/api/web/Q/delete", "{\"ids\":[\"2\"]}"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    get("/api/v1/queues/Q/id?id=2");
    shows("\"job\":null");
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"ids\":[\"1\"]}"), 200);
    get("/api/v1/queues/Q/id?id=1");
    shows("\"state\":\"parked\"");
    assert_int_equal(ask("POST", "/api/web/Q/unpark_all", "{\"ids\":[\"1\"]}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/perform_now", "{}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/unpark_all", "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    get("/api/v1/queues/Q/id?id=1");
    shows("\"state\":\"waiting\"");
}

/* What the host's own workers say makes no queue: only a push does. */
static void test_r_settings_3_looking_makes_no_queue(void **state)
{
    redisReply *reply;
    (void)state;
    open_browser();
    another_measures();
    queue_of(browser.client, "Mine", 3);
    get("/api/web/Mine/range_by_id");
    assert_string_equal(browser.text, "[]");
    get("/api/v1/queues/Mine/records");
    shows("{\"cursor\":null,\"exact\":true,\"of\":0,\"records\":[],\"seen\":0}");
    assert_int_equal(ask("POST", "/api/web/Mine/pause", "{}"), 404);
    get("/api/web/dashboard");
    shows("\"name\":\"Mine\"");
    reply = redis("DBSIZE");
    assert_int_equal(reply->integer, 1); /* who measures */
    freeReplyObject(reply);
}

static void test_failed_ids_are_performed_now_and_killed(void **state)
{
    (void)state;
    open_browser();
    push_ids(6);
    fail_ids("a failure", 6);
    push_delayed("later ", 3);
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_failed_jobs_now", "{\"slice\":true}"), 200);
    assert_string_equal(browser.text, "{\"count\":6,\"cursor\":null,\"more\":false,\"total\":6}");
    get("/api/web/dashboard");
    shows("\"delayed\":3,");
    shows("\"retries\":6,");
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_failed_jobs_now", "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":0}");
}

static void test_failed_ids_of_one_error_are_performed_now_and_killed(void **state)
{
    char fingerprint[17], path[120];
    long sum;
    (void)state;
    open_browser();
    push_ids(4);
    fail_ids("out of paper", 4);
    push_text("Q", "other", "x", 0);
    fail_ids("out of ink", 1);
    push_delayed("later ", 2);
    fingerprint_of("paper", fingerprint);
    snprintf(path, sizeof path, "/api/v1/queues/Q/errors/%s/perform_now", fingerprint);
    assert_int_equal(ask_slices(path, &sum), 1);
    assert_int_equal(sum, 4);
    get("/api/web/dashboard");
    shows("\"delayed\":2,"); /* they never failed */
    get("/api/v1/queues/Q/id?id=other");
    assert_null(strstr(browser.text, "\"state\":\"waiting\""));
    snprintf(path, sizeof path, "/api/v1/queues/Q/errors/%s/kill", fingerprint);
    assert_int_equal(ask_slices(path, &sum), 1);
    assert_int_equal(sum, 4);
    get("/api/web/dashboard");
    shows("\"dead\":4,");
    shows("\"retries\":1,");
}

static void test_a_change_that_redis_refuses_is_an_error(void **state)
{
    seriatim_link *kept = browser.link, *other;
    (void)state;
    open_browser();
    kept = browser.link;
    assert_int_equal(seriatim_link_new(NULL, "unix:///nowhere/redis.sock", &other, NULL), SERIATIM_OK);
    browser.link = other;
    browser.client = seriatim_link_client(other);
    assert_int_equal(ask("POST", "/api/web/Q/pause", "{}"), 503);
    shows("{\"done\":0,\"error\":\"Redis cannot be asked now: No such file or directory; nothing was "
          "changed\",\"unknown\":false}");
    seriatim_link_free(other);
    browser.link = kept;
    browser.client = seriatim_link_client(kept);
}

/* Redis stands still from the end of that many waits on. */
static int waits_until_it_stops;

static void stop_redis_meanwhile(void)
{
    if (--waits_until_it_stops == 0)
        assert_int_equal(kill(server.pid, SIGSTOP), 0);
}

static void test_a_change_that_was_never_sent_is_reported_as_not_done(void **state)
{
    struct timespec from, to;
    (void)state;
    open_browser();
    push_delayed("id ", 300);
    clock_gettime(CLOCK_MONOTONIC, &from);
    waits_until_it_stops = 1;
    stop_redis_meanwhile();
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{}"), 503);
    clock_gettime(CLOCK_MONOTONIC, &to);
    kill(server.pid, SIGCONT);
    shows("{\"done\":0,\"error\":\"Redis cannot be asked now: ");
    shows("; nothing was changed\",\"unknown\":false}"); /* the queue's layout was not even read */
    assert_in_range(to.tv_sec - from.tv_sec, 3, 12);
    pause_ms(300);
    get("/api/web/dashboard");
    shows("\"delayed\":300,"); /* nor is it done later */
}

/* What was done before is told, and that more may have been done; going on from the last cursor does the rest. */
static void test_a_change_without_an_answer_is_reported_as_unknown(void **state)
{
    long done, rest;
    (void)state;
    open_browser();
    push_delayed("id ", 900);
    waits_until_it_stops = 6;
    browser.meanwhile = stop_redis_meanwhile;
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{\"slice\":true}"), 503);
    kill(server.pid, SIGCONT);
    browser.meanwhile = NULL;
    done = member_number("\"done\":");
    assert_in_range(done, 1, 899);
    shows("; whether more was done is not known\",\"unknown\":true}");
    ask_slices("/api/web/Q/perform_all_jobs_now", &rest);
    assert_in_range(done + rest, 900 - 200, 900); /* the call without an answer was of some 100 ids */
    get("/api/web/dashboard");
    shows("\"delayed\":0,");
}

/* The visitor's end of its connection; closed in one of the waits for Redis. */
static int visitor_end, waits_until_it_leaves;

static void leave_meanwhile(void)
{
    if (--waits_until_it_leaves == 0)
        close(visitor_end);
}

static void test_a_change_stops_when_its_visitor_has_left(void **state)
{
    int ends[2], waits;
    long done;
    (void)state;
    for (waits = 1; waits <= 7; waits += 6) { /* before anything was sent, and in the middle */
        open_browser();
        push_delayed("id ", 3000);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        visitor_end = ends[0];
        waits_until_it_leaves = waits;
        if (waits == 1)
            leave_meanwhile();
        browser.meanwhile = leave_meanwhile;
        browser.request.socket = ends[1];
        assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{}"), 503);
        browser.meanwhile = NULL;
        browser.request.socket = 0;
        close(ends[1]);
        done = member_number("\"done\":");
        assert_in_range(done, 0, waits == 1 ? 0 : 2800);
        shows("\"error\":\"the client closed its connection before the answer; ");
        get("/api/web/dashboard");
        assert_in_range(member_number("\"delayed\":"), 3000 - done - 600,
                        3000 - done); /* the last calls may have been heard */
    }
}

/* A reader that leaves costs nothing, and what it sent behind its request is no end. */
static void test_only_a_closed_connection_of_a_change_counts(void **state)
{
    int ends[2];
    (void)state;
    open_browser();
    push_delayed("id ", 300);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    browser.request.socket = ends[1];
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{}"), 200);
    assert_int_equal(write(ends[0], "GET", 3), 3);
    assert_int_equal(ask("POST", "/api/web/Q/pause", "{}"), 200);
    close(ends[0]);
    get("/api/web/dashboard");
    browser.request.socket = 0;
    close(ends[1]);
}

/* The key of a payload, by its place in the first record that the last answer shows. */
static const char *key_at(int place)
{
    static char key[33];
    const char *keys = strstr(browser.text, "\"keys\":[\"");
    assert_non_null(keys);
    snprintf(key, sizeof key, "%.32s", keys + strlen("\"keys\":[\"") + 35 * place);
    return key;
}

/* An action on the payload of this handle; `more`: members of the body behind it. */
static int change_by(const char *action, const char *handle, const char *more)
{
    char path[100], body[500];
    snprintf(path, sizeof path, "/api/web/Q/%s", action);
    snprintf(body, sizeof body, "{\"handle\":\"%s\"%s}", handle, more);
    return ask("POST", path, body);
}

static void test_r_web_19_scheduled_payloads_are_cancelled_and_rescheduled(void **state)
{
    char handle[300], form[400];
    const char *at = browser.text;
    (void)state;
    open_browser();
    browser.hooks.redact = hide;
    push_scheduled("Q", "1", 1000);
    push_scheduled("Q", "1", 2000);
    push_scheduled("Other", "1", 2000);
    get("/api/v1/queues/Q/id?id=1");
    browser.hooks.redact = NULL;
    shows("\"scheduled\":{\"count\":2,\"payloads\":[{\"deliver_at\":");
    snprintf(handle, sizeof handle, "%s", next_member(&at, "\"handle\":\""));
    assert_int_equal(change_by("reschedule", handle, ",\"at\":4000000000.5"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    assert_string_equal(line_of(seriatim_web_change_of(browser.client)),
                        "reschedule by admin: queue \"Q\", id \"1\": count 1");
    get("/api/v1/queues/Q/scheduled?order=desc");
    shows("\"payloads\":[{\"deliver_at\":4000000000.5,");
    assert_int_equal(change_by("reschedule", handle, ",\"at\":6000000000"), 400);
    shows("years ahead");
    assert_int_equal(change_by("reschedule", handle, ""), 400);
    assert_int_equal(change_by("reschedule", handle, ",\"at\":\"now\""), 400);
    assert_int_equal(change_by("cancel", handle, ",\"at\":5000000000"), 400);
    assert_int_equal(change_by("cancel", "paid", ""), 400);
    assert_int_equal(ask("POST", "/api/web/Other/cancel", "{}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/cancel", "{\"ids\":[\"1\"]}"), 400);
    snprintf(form, sizeof form, "{\"handle\":\"%s\"}", handle);
    assert_int_equal(ask("POST", "/api/web/Other/cancel", form), 400);
    shows("handle is of the queue");
    assert_int_equal(change_by("cancel", handle, ""), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    assert_int_equal(change_by("cancel", handle, ""), 200);
    assert_string_equal(browser.text, "{\"count\":0}");
    get("/api/v1/queues/Q/id?id=1");
    shows("\"scheduled\":{\"count\":1,");
    at = browser.text;
    snprintf(form, sizeof form, "at=1&handle=%s", next_member(&at, "\"handle\":\""));
    browser.request.content_type = text_of("application/x-www-form-urlencoded");
    assert_int_equal(ask("POST", "/api/web/Q/cancel", form), 400);
    assert_int_equal(ask("POST", "/api/web/Q/cancel", form + strlen("at=1&")), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
}

/* The key names the payload: the caller need not know its bytes, and among equal scores it is still the right one. */
static void test_r_action_14_a_payload_is_dropped_by_its_key(void **state)
{
    seriatim_job job;
    worker w;
    int i;
    (void)state;
    open_browser();
    browser.hooks.redact = hide;
    push_text("Q", "1", "secret, one", 1000);
    push_text("Q", "1", "secret, two", 1000);
    get("/api/v1/queues/Q/records");
    assert_null(strstr(browser.text, "\"keys\""));
    get("/api/v1/queues/Q/id?id=1");
    assert_int_equal(drops("drop_payload", "\"1\"", key_at(0)), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    browser.hooks.redact = NULL;
    get("/api/v1/queues/Q/id?id=1");
    shows("\"payload_total\":1,\"payloads\":[[\"secret, two\",");
    assert_int_equal(drops("morgue_drop_payload", "1", key_at(0)), 200);
    assert_string_equal(browser.text, "{\"count\":0}");
    get("/api/v1/queues/Q/id?id=1");
    assert_int_equal(drops("drop_payload", "1", key_at(0)), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    get("/api/v1/queues/Q/id?id=1");
    shows("\"job\":null");

    assert_int_equal(seriatim_push_begin(browser.client, queue_of(browser.client, "Q", 2)), SERIATIM_OK);
    for (i = 0; i < 1000; i++) {
        char payload[16];
        seriatim_job_init(&job);
        snprintf(payload, sizeof payload, "p%d", i);
        job.id = "\xff";
        job.id_len = 1;
        job.payload = payload;
        job.payload_len = strlen(payload);
        job.has_score = 1;
        job.score = -0.1;
        assert_int_equal(seriatim_push_job(browser.client, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(browser.client), SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
    get("/api/v1/queues/Q/id?id=%ff");
    assert_int_equal(drops("drop_payload", "{\"base64\":\"/w==\"}", key_at(77)), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    get("/api/v1/queues/Q/id?id=%ff");
    shows("\"payload_total\":999,");
    shows("[\"p76\",-0.1],[\"p78\",-0.1],");

    w = start_worker("Q", 0);
    push_text("Q", "dead", "x", 0);
    fail_one(&w, "a death", 0);
    stop_worker(&w);
    get("/api/v1/queues/Q/id?id=dead");
    assert_int_equal(drops("morgue_drop_payload", "\"dead\"", key_at(0)), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    assert_string_equal(line_of(seriatim_web_change_of(browser.client)),
                        "morgue_drop_payload by admin: queue \"Q\", id \"dead\": count 1");
}

static void test_a_drop_without_a_valid_key_is_refused(void **state)
{
    static const char *const bodies[] = {NULL,
                                         "{}",
                                         "{\"ids\":[\"1\"]}",
                                         "{\"id\":\"1\"}",
                                         "{\"key\":\"" KEY "\"}",
                                         "{\"id\":\"\",\"key\":\"" KEY "\"}",
                                         "{\"id\":\"1\",\"key\":\"\"}",
                                         "{\"id\":\"1\",\"key\":null}",
                                         "{\"id\":\"1\",\"key\":\"" KEY "0\"}",
                                         "{\"id\":\"1\",\"key\":\"g" KEY31 "\"}",
                                         "{\"id\":\"1\",\"key\":\"0000000000000000fff8000000000000\"}",
                                         "{\"id\":\"1\",\"key\":\"00000000000000007ff0000000000000\"}",
                                         "{\"id\":[\"1\"],\"key\":\"" KEY "\"}",
                                         "{\"id\":\"1\",\"key\":\"" KEY "\",\"ids\":[]}"};
    size_t i;
    (void)state;
    open_browser();
    push_text("Q", "1", "x", 0);
    for (i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (ask("POST", "/api/web/Q/drop_payload", bodies[i]) != 400)
            fail_msg("%s: %s", bodies[i], browser.text);
    assert_int_equal(drops("drop_payload", "\"1\"", KEY), 200);
    assert_string_equal(browser.text, "{\"count\":0}");
    /* A whole action does not take what names a payload. */
    assert_int_equal(ask("POST", "/api/web/Q/morgue_delete_all_jobs", "{\"id\":\"1\",\"key\":\"" KEY "\"}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/delete", "{\"ids\":[\"1\"],\"key\":\"" KEY "\"}"), 400);
    get("/api/v1/queues/Q/id?id=1");
    shows("\"state\":\"waiting\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_web_19_scheduled_payloads_are_cancelled_and_rescheduled),
        cmocka_unit_test(test_an_action_goes_on_from_its_cursor),
        cmocka_unit_test(test_invalid_cursors_of_an_action_are_refused),
        cmocka_unit_test(test_failed_ids_are_performed_now_and_killed),
        cmocka_unit_test(test_failed_ids_of_one_error_are_performed_now_and_killed),
        cmocka_unit_test(test_a_change_that_redis_refuses_is_an_error),
        cmocka_unit_test(test_a_change_that_was_never_sent_is_reported_as_not_done),
        cmocka_unit_test(test_a_change_without_an_answer_is_reported_as_unknown),
        cmocka_unit_test(test_r_web_5_actions_answer_with_their_outcome),
        cmocka_unit_test(test_the_actions_of_an_id_s_page_work),
        cmocka_unit_test(test_r_settings_3_looking_makes_no_queue),
        cmocka_unit_test(test_a_change_stops_when_its_visitor_has_left),
        cmocka_unit_test(test_only_a_closed_connection_of_a_change_counts),
        cmocka_unit_test(test_r_action_14_a_payload_is_dropped_by_its_key),
        cmocka_unit_test(test_a_drop_without_a_valid_key_is_refused),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

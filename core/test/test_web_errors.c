/* test_web_errors.c - errors of ids: groups, the list of a group, and load_error; against a real redis-server. */
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

static void test_errors_are_grouped(void **state)
{
    char path[200], *at;
    worker w;
    (void)state;
    open_browser();
    push_ids(5);
    w = start_worker("Q", 0);
    fail_one(&w, "Order 17 is gone\nat line 3", 0);
    fail_one(&w, "Order 4711 is gone\nat line 5", 0);
    fail_one(&w, "no 0xdeadbeef", 0);
    fail_one(&w, "no 0xcafe01", 0);
    fail_one(&w, "Order 5 is gone", 0);
    stop_worker(&w);
    get("/api/v1/queues/Q/errors");
    shows("{\"cursor\":null,\"groups\":[{\"count\":3,\"error\":\"Order ");
    shows("{\"count\":2,\"error\":\"no 0x");
    shows("\"of\":5,\"rest\":0,\"sample\":false,\"seen\":5}");
    at = strstr(browser.text, "\"fingerprint\":\"");
    assert_non_null(at);
    snprintf(path, sizeof path, "/api/v1/queues/Q/errors/%.16s/queue_up", at + strlen("\"fingerprint\":\""));
    assert_int_equal(ask("POST", path, "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":3,\"cursor\":null,\"more\":false}");
    get("/api/v1/queues/Q/records?part=dead");
    shows("\"exact\":true,\"of\":2,");
    assert_int_equal(ask("POST", "/api/v1/queues/Q/errors/0000000000000000/delete", "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":0,\"cursor\":null,\"more\":false}");
    get("/api/v1/queues/Q/records?part=dead&by=time&limit=1");
    shows("\"cursor\":\"0");
}

static void test_the_error_of_a_group_is_cut_between_characters(void **state)
{
    char error[240], shown[260];
    int bytes;
    worker w;
    (void)state;
    open_browser();
    push_ids(4);
    w = start_worker("Q", 0);
    for (bytes = 196; bytes < 200; bytes++) { /* ASCII bytes before characters of four bytes each */
        memset(error, 'a' + bytes - 196, (size_t)bytes);
        strcpy(error + bytes, "\xf0\x9f\x98\x80\xf0\x9f\x98\x80");
        fail_one(&w, error, 0);
    }
    stop_worker(&w);
    get("/api/v1/queues/Q/errors");
    for (bytes = 196; bytes < 200; bytes++) {
        memset(shown, 'a' + bytes - 196, (size_t)bytes);
        strcpy(shown + bytes, bytes == 196 ? "\xf0\x9f\x98\x80\",\"fingerprint" : "\",\"fingerprint");
        shows(shown);
    }
}

static struct loading {
    char text[1 << 17];
    int calls, breaks; /* breaks: it gives no text */
} loading;

/* What is stored is the text from its end to its beginning. */
static seriatim_text reverse(void *context, seriatim_text stored)
{
    seriatim_text text = {loading.text, stored.len};
    size_t i;
    (void)context;
    loading.calls++;
    assert_in_range(stored.len, 1, sizeof loading.text);
    for (i = 0; i < stored.len; i++)
        loading.text[i] = stored.data[stored.len - 1 - i];
    if (loading.breaks)
        text.data = NULL;
    return text;
}

static void load_by_reverse(void)
{
    loading.calls = loading.breaks = 0;
    browser.settings.loads_errors = 1;
    browser.hooks.load_error = reverse;
}

/* An error whose text begins at the end of 60,000 bytes, which no head of a record holds. */
static const char *long_error(void)
{
    static char error[60001];
    memset(error, 'x', sizeof error - 1);
    memcpy(error + sizeof error - sizeof "\nenog si 5 redrO", "\nenog si 5 redrO", sizeof "\nenog si 5 redrO");
    return error;
}

static void fail_with_stored_errors(double retry_in)
{
    worker w = start_worker("Q", retry_in > 0 ? 5 : 0);
    fail_one(&w, "3 enil ta\nenog si 71 redrO", retry_in);
    fail_one(&w, "5 enil ta\nenog si 1174 redrO", retry_in);
    fail_one(&w, long_error(), retry_in);
    fail_one(&w, "feebdaedx0 on", retry_in);
    fail_one(&w, "10efacx0 on", retry_in);
    stop_worker(&w);
}

static void test_r_web_21_errors_are_grouped_by_what_load_error_gives(void **state)
{
    char path[200], fingerprint[17];
    (void)state;
    open_browser();
    push_ids(5);
    fail_with_stored_errors(1000);
    load_by_reverse();
    fingerprint_of("{\"count\":3,\"error\":\"Order ", fingerprint);
    shows("{\"count\":2,\"error\":\"no 0x");
    shows("\"of\":5,\"rest\":0,\"sample\":false,\"seen\":5}");
    assert_null(strstr(browser.text, "at line"));
    snprintf(path, sizeof path, "/api/v1/queues/Q/errors/%s/kill", fingerprint);
    assert_int_equal(ask("POST", path, "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":3,\"cursor\":null,\"more\":false}");
    fingerprint_of("{\"count\":2,\"error\":\"no 0x", fingerprint);
    get("/api/v1/queues/Q/errors");
    shows("\"groups\":[{\"count\":3,\"error\":\"Order ");
    assert_int_equal(ask("POST", "/api/v1/queues/Q/errors/0000000000000000/delete", "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":0,\"cursor\":null,\"more\":false}");
    assert_int_equal(ask("POST", "/api/v1/queues/None/errors/0000000000000000/delete", "{}"), 404);
}

static seriatim_text hide_readable(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    static const char readable[] = "a readable error";
    (void)context;
    (void)queue;
    (void)id;
    return text.len == sizeof readable - 1 && memcmp(text.data, readable, text.len) == 0 ? text_of("[hidden]") : text;
}

static void test_r_web_21_errors_are_loaded_before_they_are_redacted(void **state)
{
    static const char *const paths[] = {"/api/web/Q/range_by_id", "/api/v1/queues/Q/records?part=retrying",
                                        "/api/v1/queues/Q/id?id=0", "/api/v1/queues/Q/errors?part=retrying"};
    worker w;
    size_t i;
    (void)state;
    open_browser();
    browser.history = 9;
    push_ids(1);
    w = start_worker("Q", 5);
    fail_one(&w, "rorre elbadaer a", 1000);
    stop_worker(&w);
    for (i = 0; i < sizeof paths / sizeof *paths; i++) {
        load_by_reverse();
        browser.hooks.redact = NULL;
        get(paths[i]);
        shows("\"error\":\"a readable error\"");
        if (strstr(browser.text, "rorre"))
            fail_msg("%s: %s", paths[i], browser.text);
        browser.hooks.redact = hide_readable;
        get(paths[i]);
        shows("\"error\":\"[hidden]\"");
        assert_null(strstr(browser.text, "readable"));
    }
}

/* A load_error that gives no text ends the request, before it has changed anything. */
static void test_r_web_21_nothing_is_changed_without_a_loaded_text(void **state)
{
    (void)state;
    open_browser();
    push_ids(5);
    fail_with_stored_errors(1000);
    load_by_reverse();
    loading.breaks = 1;
    assert_int_equal(ask("POST", "/api/v1/queues/Q/errors/cbf29ce484222325/kill", "{}"), 500); /* of the empty text */
    shows("load_error ended without a text");
    told("errors_kill by admin: queue \"Q\", errors \"cbf29ce484222325\": 500 load_error ended without a text");
    get("/api/v1/queues/Q/records?part=dead");
    shows("\"of\":0,");
    assert_int_equal(ask("GET", "/api/v1/queues/Q/errors?part=retrying", NULL), 500);
}

/* The ids of the answer, one letter each, in its order. */
static const char *ids_shown(void)
{
    static char ids[16];
    const char *at;
    size_t count = 0;
    for (at = browser.text; (at = strstr(at, "\"id\":\"")) && count + 1 < sizeof ids; at++)
        ids[count++] = at[strlen("\"id\":\"")];
    ids[count] = '\0';
    return ids;
}

/* Pages of one id and of all, by each order. */
static void shows_error_alone(const char *part, const char *fingerprint, const char *by, const char *wanted)
{
    char path[200];
    snprintf(path, sizeof path, "/api/v1/queues/Q/records?part=%s&error=%s&%s", part, fingerprint, by);
    get(path);
    assert_string_equal(ids_shown(), wanted);
    snprintf(path, sizeof path, "/api/v1/queues/Q/records?part=%s&error=%s&%s&limit=1", part, fingerprint, by);
    assert_int_equal(walk(path, (char[]){wanted[0], '\0'}, (char[]){wanted[strlen(wanted) - 1], '\0'}), strlen(wanted));
}

/*
 * Five ids fail with these errors, of which three are of one group: dead at once, or waiting for a retry. is_reversed:
 * what is stored is the error from its end to its beginning, and load_error turns it round.
 */
static void shows_group_alone(const char *const errors[5], int is_reversed)
{
    char fingerprint[17];
    size_t i;
    worker w;
    int64_t retries;
    for (retries = 0; retries < 2; retries++) {
        const char *part = retries ? "retrying" : "dead";
        open_browser();
        w = start_worker("Q", retries);
        for (i = 0; i < 5; i++) {
            char id[2] = {(char)('a' + i), '\0'};
            push_text("Q", id, "x", 0);
            fail_one(&w, errors[i], retries ? 60 : 0);
            /* what ends within 35 ms is settled together, and then no failure is the earlier one */
            while (seriatim_runner_stats_now(w.runner).failed <= i)
                pause_ms(5);
        }
        stop_worker(&w);
        if (is_reversed)
            load_by_reverse();
        get(retries ? "/api/v1/queues/Q/errors?part=retrying" : "/api/v1/queues/Q/errors");
        shows("{\"count\":3,\"error\":\"Order ");
        snprintf(fingerprint, sizeof fingerprint, "%.16s", strstr(browser.text, "\"fingerprint\":\"") + 15);
        shows_error_alone(part, fingerprint, "by=id&order=asc", "ace");
        shows_error_alone(part, fingerprint, "by=id&order=desc", "eca");
        shows_error_alone(part, fingerprint, "by=id&order=asc&from=b", "ce");
        shows_error_alone(part, fingerprint, "by=time&order=asc", "ace");
        shows_error_alone(part, fingerprint, "by=time&order=desc", "eca");
        shows_error_alone(part, fingerprint, "by=id&prefix=c", "c");
    }
}

static void test_r_web_20_records_are_filtered_by_the_group_of_their_error(void **state)
{
    static const char *const errors[] = {"Order 17 is gone", "no 0xdeadbeef", "Order 4711 is gone\nat line 5",
                                         "no 0xcafe01", "Order 5 is gone"};
    (void)state;
    shows_group_alone(errors, 0);
    get("/api/v1/queues/Q/records?part=retrying&error=0000000000000000");
    shows("\"records\":[]");
}

/* The errors are stored backwards: their stored first lines are of other groups than the loaded ones. */
static void test_r_web_21_records_are_filtered_by_the_group_of_the_loaded_error(void **state)
{
    static const char *const errors[] = {"enog si 71 redrO", "feebdaedx0 on", "5 enil ta\nenog si 1174 redrO",
                                         "10efacx0 on", "enog si 5 redrO"};
    (void)state;
    shows_group_alone(errors, 1);
    get("/api/v1/queues/Q/records?part=retrying&error=0000000000000000");
    shows("\"records\":[]");
    loading.breaks = 1;
    assert_int_equal(ask("GET", "/api/v1/queues/Q/records?part=retrying&error=0000000000000000", NULL), 500);
}

/* Marks the ids of the answer, which are numbers, in `seen`; none may come twice. Returns the number of them. */
static int mark_ids(char *seen, size_t size)
{
    const char *at;
    int count = 0;
    for (at = browser.text; (at = strstr(at, "\"id\":\"")); at++, count++) {
        size_t id = (size_t)atoi(at + strlen("\"id\":\""));
        assert_in_range(id, 0, size - 1);
        assert_int_equal(seen[id]++, 0);
    }
    return count;
}

/* A request ends its reading at 4 MiB of errors. 240 ids have 7 MB of them, so pages end within and at such an end. */
static void test_r_web_21_no_record_of_a_loaded_group_is_lost_between_pages(void **state)
{
    enum { IDS = 240 };
    char path[4000], fingerprint[17], seen[IDS], *at;
    int i, records = 0, partial = 0, pages = 0;
    worker w;
    (void)state;
    open_browser();
    push_ids(IDS);
    w = start_worker("Q", 0);
    for (i = 0; i < IDS; i++)
        fail_one(&w, i % 2 ? long_error() : "feebdaedx0 on", 0);
    stop_worker(&w);
    load_by_reverse();
    get("/api/v1/queues/Q/errors");
    at = strstr(strstr(browser.text, "\"error\":\"Order "), "\"fingerprint\":\"");
    snprintf(fingerprint, sizeof fingerprint, "%.16s", at + strlen("\"fingerprint\":\""));
    memset(seen, 0, sizeof seen);
    snprintf(path, sizeof path, "/api/v1/queues/Q/records?part=dead&limit=15&error=%s", fingerprint);
    for (;;) {
        loading.calls = 0;
        get(path);
        assert_in_range(loading.calls, 1, IDS - 1);
        records += mark_ids(seen, IDS);
        partial += strstr(browser.text, "\"exact\":false") != NULL;
        at = strstr(browser.text, "\"cursor\":\"");
        if (!at)
            break;
        assert_in_range(++pages, 1, IDS);
        at += strlen("\"cursor\":\"");
        snprintf(path, sizeof path, "/api/v1/queues/Q/records?part=dead&limit=15&error=%s&cursor=%.*s", fingerprint,
                 (int)strcspn(at, "\""), at);
    }
    assert_true(partial > 0);
    assert_int_equal(records, IDS / 2);
}

/* Fills the queue Q: 30,000 ids that were retried already. */
static void push_retried(void)
{
    seriatim_client *client = browser.client;
    char id[32];
    int i;
    assert_int_equal(seriatim_push_begin(client, queue_of(client, "Q", SPREAD_SHARDS)), SERIATIM_OK);
    for (i = 0; i < SPREAD_IDS; i++) {
        size_t len = (size_t)snprintf(id, sizeof id, "%05d", i);
        seriatim_job job = job_of(id, len, "x", 1, 3600);
        job.retry_count = 1;
        assert_int_equal(seriatim_push_job(client, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(client), SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
}

static void test_errors_are_sampled_over_all_shards(void **state)
{
    char before[64] = "", *ids;
    int looks, others = 0;
    (void)state;
    open_browser();
    push_retried();
    for (looks = 0; looks < 10; looks++) {
        get("/api/v1/queues/Q/errors?part=retrying");
        shows("\"sample\":true");
        shows("\"cursor\":\"0.0.0\"");
        assert_int_equal(member("of"), SPREAD_IDS);
        assert_in_range(member("seen"), 1, SPREAD_IDS - 1);
        ids = strstr(browser.text, "\"ids\":[");
        assert_non_null(ids);
        others += strncmp(before, ids, sizeof before - 1) != 0;
        snprintf(before, sizeof before, "%s", ids);
    }
    assert_true(others > 5); /* each look begins with another shard, at another place of it */
}

/* As push_ids, by one push. */
static void push_batch(int count)
{
    char id[12];
    int i;
    assert_int_equal(seriatim_push_begin(browser.client, queue_of(browser.client, "Q", 2)), SERIATIM_OK);
    for (i = 0; i < count; i++) {
        size_t len = (size_t)snprintf(id, sizeof id, "%d", i);
        seriatim_job job = job_of(id, len, "x", 1, 0);
        assert_int_equal(seriatim_push_job(browser.client, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(browser.client), SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
}

/* What is loaded by one request is bounded; following the cursors loads all. */
static void test_r_web_21_a_request_loads_a_sample_of_the_errors(void **state)
{
    char path[200] = "/api/v1/queues/Q/errors?part=retrying&cursor=0.0.0", *at;
    int64_t found = 0;
    (void)state;
    open_browser();
    push_batch(LOADED_IDS);
    fail_ids("enog si 71 redrO", LOADED_IDS);
    load_by_reverse();
    get("/api/v1/queues/Q/errors?part=retrying");
    shows("\"sample\":true");
    assert_in_range(loading.calls, 1, 1100); /* fewer than 1,000 where the time of a request ends before */
    assert_int_equal(member("seen"), loading.calls);
    do {
        loading.calls = 0;
        get(path);
        assert_in_range(loading.calls, 1, 1100);
        found += member("count");
        at = strstr(browser.text, "\"cursor\":\"");
        if (at)
            snprintf(path, sizeof path, "/api/v1/queues/Q/errors?part=retrying&cursor=%.*s",
                     (int)strcspn(at + 10, "\""), at + 10);
    } while (at);
    assert_int_equal(found, LOADED_IDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_grouped),
        cmocka_unit_test(test_the_error_of_a_group_is_cut_between_characters),
        cmocka_unit_test(test_r_web_20_records_are_filtered_by_the_group_of_their_error),
        cmocka_unit_test(test_r_web_21_errors_are_grouped_by_what_load_error_gives),
        cmocka_unit_test(test_r_web_21_records_are_filtered_by_the_group_of_the_loaded_error),
        cmocka_unit_test(test_r_web_21_no_record_of_a_loaded_group_is_lost_between_pages),
        cmocka_unit_test(test_r_web_21_errors_are_loaded_before_they_are_redacted),
        cmocka_unit_test(test_r_web_21_nothing_is_changed_without_a_loaded_text),
        cmocka_unit_test(test_r_web_21_a_request_loads_a_sample_of_the_errors),
        cmocka_unit_test(test_errors_are_sampled_over_all_shards),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_web_cache.c - figures that are kept from look to look, and samples over all shards; against a real redis-server.
 */
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
#include "web/web.h"

/* How often Redis has run a command. */
static long calls_of(const char *command)
{
    redisReply *reply = redis("INFO commandstats");
    char name[40];
    const char *at;
    long calls;
    snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    at = strstr(reply->str, name);
    calls = at ? strtol(at + strlen(name), NULL, 10) : 0;
    freeReplyObject(reply);
    return calls;
}

/* Copies /metrics up to the lags, which differ by the moment between two requests. */
static void copy_figures(char *to)
{
    char *end = strstr(browser.text, "# HELP seriatim_lag_seconds");
    assert_non_null(end);
    assert_non_null(strstr(end + 1, "# HELP"));
    *end = '\0';
    memcpy(to, browser.text, (size_t)(end - browser.text) + 1);
}

/* The dashboard of a browser that has looked before shows what one that comes for the first time is shown. A running
   node may claim ids between two requests: the figures before and after the cached ones must agree before they are
   compared. */
static void looks_alike(const char *what)
{
    static char before[sizeof browser.text], cached[sizeof browser.text], after[sizeof browser.text];
    time_t deadline = time(NULL) + 60;
    do {
        get_first("/metrics");
        copy_figures(before);
        get("/metrics");
        copy_figures(cached);
        get_first("/metrics");
        copy_figures(after);
    } while (strcmp(before, after) != 0 && time(NULL) < deadline);
    if (strcmp(cached, after) != 0)
        fail_msg("after %s: %s\nis shown as: %s", what, after, cached);
}

static void acts(const char *action, const char *body)
{
    char path[100];
    snprintf(path, sizeof path, "/api/web/Q/%s", action);
    if (ask("POST", path, body) != 200 || strcmp(browser.text, "{\"count\":0}") == 0)
        fail_msg("%s: %s", action, browser.text);
    looks_alike(action);
}

static void test_cached_figures_match_fresh_ones(void **state)
{
    worker w;
    int i;
    (void)state;
    open_browser();
    push_ids(12);
    w = start_worker("Q", 5);
    for (i = 0; i < 6; i++)
        fail_one(&w, "a failure", 1000);
    looks_alike("failures");
    stop_worker(&w);
    looks_alike("a stop");
    w = start_worker("Q", 0);
    for (i = 0; i < 4; i++)
        fail_one(&w, "a death", 0);
    stop_worker(&w);
    push_text("Q", "due soon", "x", 1.5);
    looks_alike("deaths");
    acts("park", "{\"ids\":[\"10\",\"11\",\"due soon\",\"1\",\"2\",\"3\"]}");
    acts("unpark", "{\"ids\":[\"10\",\"11\",\"1\"]}");
    acts("unpark_all", "{}");
    acts("morgue_queue_up_all_jobs", "{}");
    acts("pause", "{}");
    acts("resume", "{}");
    w = start_worker("Q", 5);
    for (i = 0; i < 6; i++)
        fail_one(&w, "a failure", 1000);
    stop_worker(&w);
    acts("perform_all_jobs_now", "{}");
    acts("kill_all_failed_jobs", "{}");
    acts("morgue_delete_all_jobs", "{}");
    acts("delete",
         "{\"ids\":[\"0\",\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"due soon\"]}");
    push_text("Q", "soon", "x", 6);
    push_text("Q", "late", "x", 1000);
    get("/api/web/dashboard");
    shows("\"delayed\":2,");
    pause_ms(6100);
    get("/api/web/dashboard");
    shows("\"delayed\":1,");
    looks_alike("a time that has come");
}

static void test_unchanged_shards_are_not_read_again(void **state)
{
    long before;
    (void)state;
    open_browser();
    push_two();
    push_text("Other", "1", "x", 0);
    get("/api/web/dashboard");
    before = calls_of("evalsha");
    get("/api/web/dashboard");
    get("/api/v1/stats");
    get("/metrics");
    assert_int_equal(calls_of("evalsha") - before, 3); /* the nodes, each time */
    push_text("Other", "2", "x", 0);
    before = calls_of("evalsha");
    get("/api/web/dashboard");
    shows("\"delayed\":0,\"enqueued\":2,");
    assert_int_equal(calls_of("evalsha") - before, 2);
}

/* What nobody has looked at is read by plain commands where nothing runs, else by the script. */
static void test_idle_queues_are_measured_without_a_script(void **state)
{
    worker w;
    long before;
    (void)state;
    open_browser();
    push_ids(12);
    push_text("Q", "late", "x", 1000);
    push_scheduled("Q", "plan", 1000);
    push_scheduled("Q", "another plan", 2000);
    another_measures();
    before = calls_of("evalsha");
    get_first("/api/web/dashboard");
    shows("\"delayed\":1,\"enqueued\":13,");
    shows("\"scheduled\":2,");
    assert_int_equal(calls_of("evalsha") - before, 2); /* the nodes, and who measures */
    w = hold_one("Q", 5);
    get_first("/api/web/dashboard");
    assert_null(strstr(browser.text, "\"busy\":0,"));
    shows("\"dead\":0,\"delayed\":1,");
    stop_worker(&w);
}

static void push_another(void)
{
    static int number;
    char id[20];
    snprintf(id, sizeof id, "failed %d", ++number);
    push_failed_id(id, 1000);
}

/* Ids that came between two answers are no part of one and not of the other. */
static void test_a_snapshot_leaves_out_ids_that_came_during_it(void **state)
{
    (void)state;
    open_browser();
    assert_int_equal(seriatim_layout_begin(browser.client, queue_of(browser.client, "One", 1)), SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
    push_another();
    push_text("One", "due later", "x", 1000);
    browser.meanwhile = push_another;
    get_first("/api/web/dashboard");
    browser.meanwhile = NULL;
    shows("\"delayed\":1,");
}

/* Whoever comes after a pause is not shown what was true before it. */
static void test_an_old_snapshot_of_many_shards_is_not_shown(void **state)
{
    (void)state;
    open_browser();
    assert_int_equal(seriatim_layout_begin(browser.client, queue_of(browser.client, "Large", 1000)), SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
    get("/api/web/dashboard");
    shows("\"enqueued\":0,");
    push_text("Large", "1", "x", 0);
    pause_ms(750);
    get("/api/web/dashboard");
    shows("\"enqueued\":1,");
}

static void test_an_unreadable_shard_hides_no_other(void **state)
{
    (void)state;
    open_browser();
    push_ids(12);
    get("/api/v1/stats");
    shows("\"length\":12,");
    REDIS("DEL seriatim:{Q/1}:jobs");
    REDIS("SET seriatim:{Q/1}:jobs x");
    get("/api/v1/queues/Q");
    shows("\"enqueued\":4,"); /* of shard 0 */
    get_first("/metrics");
    shows("seriatim_unread_shards{queue=\"Q\"} 1\n");
    shows("seriatim_shard_lag_seconds{queue=\"Q\",shard=\"0\"}");
    assert_null(strstr(browser.text, "seriatim_shard_lag_seconds{queue=\"Q\",shard=\"1\"}"));
    get_first("/api/web/dashboard");
    shows("\"enqueued\":4,");
    REDIS("SET seriatim:{Q/0}:dead x");
    get_first("/api/web/dashboard");
    shows("\"enqueued\":0,");
}

/* The name of the hot id with this number, in a shard from SPREAD_FAR on; two numbers never share a name. */
static void hot_name(char name[32], int number)
{
    int attempt = 0;
    do
        snprintf(name, 32, "hot%d-%d", number, attempt++);
    while (seriatim_shard_of(name, strlen(name), SPREAD_SHARDS) < SPREAD_FAR);
}

/* Fills the queue Q: 30,000 ids of one payload, of which those in the far half of the shards are due in an hour, and
   five ids of 400 payloads in far shards. */
static void push_spread(void)
{
    seriatim_client *client = browser.client;
    char id[32], payload[16];
    int i, j;
    assert_int_equal(seriatim_push_begin(client, queue_of(client, "Q", SPREAD_SHARDS)), SERIATIM_OK);
    for (i = 0; i < SPREAD_IDS; i++) {
        size_t len = (size_t)snprintf(id, sizeof id, "%05d", i);
        int is_far = seriatim_shard_of(id, len, SPREAD_SHARDS) >= SPREAD_FAR;
        seriatim_job job = job_of(id, len, "x", 1, is_far ? 3600 : 0);
        assert_int_equal(seriatim_push_job(client, &job), SERIATIM_OK);
    }
    for (i = 0; i < SPREAD_HOT; i++) {
        hot_name(id, i);
        for (j = 0; j < SPREAD_PAYLOADS; j++) {
            size_t len = (size_t)snprintf(payload, sizeof payload, "%d", j);
            seriatim_job job = job_of(id, strlen(id), payload, len, 0);
            assert_int_equal(seriatim_push_job(client, &job), SERIATIM_OK);
        }
    }
    assert_int_equal(seriatim_push_send(client), SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
}

/* Notes which hot ids the last answer shows; the number of those that were shown so far. */
static int note_hot(int found[SPREAD_HOT])
{
    char name[32], shown[80];
    int i, count = 0;
    for (i = 0; i < SPREAD_HOT; i++) {
        hot_name(name, i);
        snprintf(shown, sizeof shown, "{\"id\":\"%s\",\"payloads\":%d,", name, SPREAD_PAYLOADS);
        found[i] |= strstr(browser.text, shown) != NULL;
        count += found[i];
    }
    return count;
}

static void test_the_hottest_ids_are_sampled_over_all_shards(void **state)
{
    static char before[sizeof browser.text];
    int found[SPREAD_HOT] = {0}, looks, other = 0;
    (void)state;
    open_browser();
    push_spread();
    for (looks = 0; looks < 2000 && note_hot(found) < SPREAD_HOT; looks++) {
        snprintf(before, sizeof before, "%s", browser.text);
        get("/api/v1/queues/Q/hottest");
        shows("\"sample\":true");
        shows("\"cursor\":\"0.0.0\"");
        assert_int_equal(member("of"), SPREAD_IDS + SPREAD_HOT);
        assert_true(member("seen") > 0 && member("seen") < SPREAD_IDS);
        other |= looks > 0 && strcmp(before, browser.text) != 0;
    }
    assert_int_equal(note_hot(found), SPREAD_HOT);
    assert_true(other || looks == 1);
}

static void test_ages_are_sampled_over_all_shards(void **state)
{
    int64_t seen = 0, later = 0;
    int looks;
    (void)state;
    open_browser();
    push_spread();
    for (looks = 0; looks < 200 && seen < SPREAD_IDS; looks++) { /* a look of a slow machine may read few slices */
        get("/api/v1/queues/Q/ages");
        shows("\"sample\":true");
        later += member("count"); /* the first: what is not due yet */
        seen += member("seen");
    }
    if (later * 3 < seen || later * 3 > seen * 2)
        fail_msg("half of the ids are due later; of the samples %lld of %lld", (long long)later, (long long)seen);
}

/* What a sample left out is found by following its cursor. */
static void test_following_the_cursor_finds_all_hottest_ids(void **state)
{
    char path[200] = "/api/v1/queues/Q/hottest?cursor=0.0.0", *at;
    int found[SPREAD_HOT] = {0}, looks;
    (void)state;
    open_browser();
    push_spread();
    for (looks = 0; looks < 2000; looks++) {
        get(path);
        shows("\"sample\":false");
        note_hot(found);
        at = strstr(browser.text, "\"cursor\":\"");
        if (!at)
            break;
        at += strlen("\"cursor\":\"");
        snprintf(path, sizeof path, "/api/v1/queues/Q/hottest?cursor=%.*s", (int)strcspn(at, "\""), at);
    }
    assert_int_equal(note_hot(found), SPREAD_HOT);
    assert_int_equal(member("seen"), SPREAD_IDS + SPREAD_HOT);
}

/* Another layout than the shards are of, as while a queue is resharded: no figures, and no end of asking. */
static void test_a_changed_layout_ends_no_request(void **state)
{
    (void)state;
    open_browser();
    push_two();
    get("/api/v1/queues/Q");
    REDIS("SET seriatim:{Q}:layout %s", "2 3 3");
    get("/api/v1/stats");
    shows("\"total\":{\"lag\":0,\"length\":0,");
    get("/api/v1/search?q=Q");
    assert_string_equal(browser.text, "{\"hits\":[]}");
    REDIS("SET seriatim:{Q}:layout %s", "1 2 3");
    get("/api/v1/stats");
    shows("\"length\":2,");
    REDIS("SET seriatim:{Q/0}:state wrong");
    REDIS("DEL seriatim:{Q/1}:state");
    REDIS("LPUSH seriatim:{Q/1}:state x");
    get("/api/web/dashboard"); /* what cannot be read hides nothing else */
    shows("\"name\":\"Q\"");
}

static int left_visitor; /* a socket whose other end is closed */
static long last_scan;

static void leave_after_last_scan(void)
{
    if (calls_of("scan") >= last_scan)
        browser.client->visitor = left_visitor;
}

/* The status of a request that is given up after this many calls of SCAN. */
static int get_for_some_scans(const char *target, long calls)
{
    int ends[2], status;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[0]);
    left_visitor = ends[1];
    last_scan = calls_of("scan") + calls;
    browser.meanwhile = leave_after_last_scan;
    status = ask("GET", target, NULL);
    browser.meanwhile = NULL;
    close(ends[1]);
    return status;
}

/* On a slow Redis each request would otherwise look at the same first keys until it gives up. */
static void test_the_names_of_queues_are_found_though_each_request_fails_early(void **state)
{
    int requests = 1;
    (void)state;
    open_browser();
    push_two();
    REDIS("EVAL %s 0", "for i = 1, 60000 do redis.call('SET', 'other:' .. i, '') end");
    while (get_for_some_scans("/api/v1/stats", 4) != 200)
        assert_true(++requests < 12);
    assert_true(requests > 1);
    shows("\"Q\"");
    REDIS("FLUSHALL");
    push_text("Afterwards", "1", "{}", 0);
    browser.client->web->names_at = 0; /* as after ten seconds: a search of its own, from the beginning */
    get("/api/v1/stats");
    shows("\"Afterwards\"");
}

/* A Redis that answers after a while. */
static void pause_a_moment(void)
{
    pause_ms(100);
}

/* A search of the whole keyspace would keep each request waiting where Redis holds millions of keys. */
static void test_known_names_are_shown_while_a_search_for_new_ones_goes_on(void **state)
{
    int requests = 1;
    long before;
    (void)state;
    open_browser();
    push_two();
    REDIS("EVAL %s 0", "for i = 1, 60000 do redis.call('SET', 'other:' .. i, '') end");
    get("/api/v1/stats");
    push_text("New", "1", "{}", 0);
    browser.client->web->names_at -= 11; /* seconds, after which a search begins */
    browser.meanwhile = pause_a_moment;
    before = calls_of("scan");
    for (get("/api/v1/stats"); !strstr(browser.text, "\"New\""); get("/api/v1/stats")) {
        shows("\"Q\"");
        assert_in_range(calls_of("scan") - before, 1, 4); /* of 16 */
        before = calls_of("scan");
        assert_true(++requests < 20);
    }
    browser.meanwhile = NULL;
    assert_true(requests > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cached_figures_match_fresh_ones),
        cmocka_unit_test(test_unchanged_shards_are_not_read_again),
        cmocka_unit_test(test_idle_queues_are_measured_without_a_script),
        cmocka_unit_test(test_a_snapshot_leaves_out_ids_that_came_during_it),
        cmocka_unit_test(test_an_old_snapshot_of_many_shards_is_not_shown),
        cmocka_unit_test(test_an_unreadable_shard_hides_no_other),
        cmocka_unit_test(test_the_hottest_ids_are_sampled_over_all_shards),
        cmocka_unit_test(test_ages_are_sampled_over_all_shards),
        cmocka_unit_test(test_following_the_cursor_finds_all_hottest_ids),
        cmocka_unit_test(test_a_changed_layout_ends_no_request),
        cmocka_unit_test(test_the_names_of_queues_are_found_though_each_request_fails_early),
        cmocka_unit_test(test_known_names_are_shown_while_a_search_for_new_ones_goes_on),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

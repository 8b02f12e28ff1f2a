/* test_web_figures.c - what the pages of queues, records, errors and nodes show; against a real redis-server. */
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

/* Behind these characters the answer has a lag: how long depends on how busy the machine is. */
static void shows_a_lag(const char *before)
{
    const char *lag = strstr(browser.text, before);
    assert_non_null(lag);
    assert_true(strtod(lag + strlen(before), NULL) > 0);
}

static void test_r_web_3_dashboard_and_stats_have_the_figures(void **state)
{
    (void)state;
    open_browser();
    get("/api/v1/stats");
    assert_string_equal(browser.text, "{\"by_worker\":{},\"total\":{\"lag\":0,\"length\":0,\"morgue_length\":0}}");
    push_text("Q", "1", "a", 0);
    push_text("Q", "2", "b", 1000);
    push_text("Other/Queue", "1", "c", 0);
    get("/api/web/dashboard");
    shows("\"delayed\":1,\"enqueued\":2,\"failed\":0,\"fresh\":2,");
    shows("\"name\":\"Q\",\"parked\":0,\"paused\":0,\"processed\":0,\"pushed\":2,\"refused\":0,\"removed\":0,"
          "\"resharding\":null,"
          "\"retries\":0,\"scheduled\":0,\"shards\":2,\"stale\":0,\"unread\":0}");
    shows("\"name\":\"Other/Queue\"");
    shows("\"redis_info\":{\"connected_clients\":");
    shows("\"role\":\"admin\",\"title\":\"Seriatim\",\"version\":\"" SERIATIM_VERSION "\"}");
    get("/api/v1/stats");
    shows_a_lag("\"Q\":{\"lag\":");
    shows("\"length\":3,\"morgue_length\":0}");
}

/* Waiting ids that never failed and are not due, beside such as are due, or failed, or both. */
static void test_delayed_ids_are_counted(void **state)
{
    (void)state;
    open_browser();
    assert_int_equal(seriatim_layout_begin(browser.client, queue_of(browser.client, "One", 1)), SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
    push_failed_id("failed", 0);
    push_failed_id("failed, due later", 1000);
    push_text("One", "due later", "x", 1000);
    get("/api/web/dashboard");
    shows("\"delayed\":1,\"enqueued\":3,\"failed\":0,\"fresh\":1,");
    REDIS("LPUSH seriatim:{One/0}:ready gone gone gone gone");
    get_first("/api/web/dashboard");
    shows_a_lag("\"lag\":");
    push_failed_id("failed, due soon", 6);
    push_text("One", "due soon", "x", 6);
    get("/api/web/dashboard");
    shows("\"delayed\":2,\"enqueued\":5,\"failed\":0,\"fresh\":2,");
    get_first("/api/web/dashboard");
    shows("\"delayed\":2,\"enqueued\":5,\"failed\":0,\"fresh\":2,");
    pause_ms(6100);
    get("/api/web/dashboard");
    shows("\"delayed\":1,\"enqueued\":5,\"failed\":0,\"fresh\":2,");
    shows_a_lag("\"lag\":");
    get_first("/api/web/dashboard");
    shows("\"delayed\":1,\"enqueued\":5,\"failed\":0,\"fresh\":2,");
    shows_a_lag("\"lag\":");
}

/* By a browser that has looked before, which takes over what has not changed, and by one that has not. */
static void both_show(const char *path, const char *part)
{
    get(path);
    shows(part);
    get_first(path);
    shows(part);
}

static void test_an_id_is_found_by_its_scheduled_payloads(void **state)
{
    (void)state;
    open_browser();
    push_scheduled("Q", "a", 1000);
    get("/api/v1/search?q=a");
    assert_string_equal(browser.text, "{\"hits\":[{\"queue\":\"Q\",\"state\":\"scheduled\"}]}");
    push_text("Q", "a", "x", 1000);
    get("/api/v1/search?q=a");
    assert_string_equal(
        browser.text, "{\"hits\":[{\"queue\":\"Q\",\"state\":\"delayed\"},{\"queue\":\"Q\",\"state\":\"scheduled\"}]}");
    get("/api/v1/search?q=b");
    assert_string_equal(browser.text, "{\"hits\":[]}");
}

static void test_r_web_17_scheduled_payloads_are_counted(void **state)
{
    (void)state;
    open_browser();
    assert_int_equal(seriatim_layout_begin(browser.client, queue_of(browser.client, "One", 1)), SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
    push_scheduled("One", "b", 0.4);
    get("/api/web/dashboard");
    shows("\"scheduled\":1,");
    pause_ms(500); /* nothing that is stored changes now, but the payload is late from here on */
    both_show("/api/web/dashboard", "\"lag\":");
    shows_a_lag("\"lag\":");
    both_show("/api/web/dashboard", "\"scheduled\":1,");
    assert_int_equal(ask("POST", "/api/web/One/delete", "{\"ids\":[\"b\"]}"), 200);
    both_show("/api/web/dashboard", "\"scheduled\":0,");
    push_scheduled("One", "a", 1000);
    push_scheduled("One", "a", 2000);
    push_text("One", "due later", "x", 1500);
    both_show("/api/web/dashboard", "\"delayed\":1,\"enqueued\":1,\"failed\":0,\"fresh\":1,\"lag\":0,");
    both_show("/api/web/dashboard", "\"scheduled\":2,");
    both_show("/api/v1/queues/One", "\"retries\":0,\"scheduled\":2,\"shard\":0,\"stale\":0,\"unread\":false}");
    both_show("/metrics", "# TYPE seriatim_scheduled gauge\nseriatim_scheduled{queue=\"One\"} 2\n");
    assert_int_equal(ask("POST", "/api/web/One/delete", "{\"ids\":[\"a\"]}"), 200);
    both_show("/metrics", "seriatim_scheduled{queue=\"One\"} 0\n");
}

/* The ids that a page lists, and the cursor of the next page in `cursor`. */
static void list_scheduled(const char *more, const char *cursor, char ids[200], char next[300])
{
    char path[600];
    const char *at = browser.text, *id;
    snprintf(path, sizeof path, "/api/v1/queues/Q/scheduled?limit=2%s%s%s", more, cursor[0] ? "&cursor=" : "", cursor);
    get(path);
    snprintf(next, 300, "%s", next_member(&at, "\"cursor\":\""));
    for (ids[0] = '\0', at = browser.text; *(id = next_member(&at, "\"id\":\""));)
        snprintf(ids + strlen(ids), 200 - strlen(ids), "%s ", id);
}

static void lists_all(const char *more, const char *wanted)
{
    char ids[200], all[400] = "", cursor[300] = "", next[300];
    do {
        list_scheduled(more, cursor, ids, next);
        strncat(all, ids, sizeof all - strlen(all) - 1);
        memcpy(cursor, next, sizeof cursor);
    } while (cursor[0]);
    assert_string_equal(all, wanted);
}

/* A scheduled payload of Q as it is stored; stamp: the last byte of its arrival. */
static void plant(const char *id, const char *deliver_at, int last)
{
    char stamp[8] = "\x43\x18", text[26] = "";
    unsigned shard = seriatim_shard_of(id, strlen(id), 2);
    stamp[7] = (char)last;
    REDIS("ZADD seriatim:{Q/%d}:scheduled %s %b%s", (int)shard, deliver_at, stamp, (size_t)8, id);
    REDIS("ZADD seriatim:{Q/%d}:sched:%s %s %b", (int)shard, id, deliver_at, stamp, (size_t)8);
    REDIS("HSET seriatim:{Q/%d}:schedmap:%s %b %b", (int)shard, id, stamp, (size_t)8, text, sizeof text);
}

/*
 * Ids of one deliver_at, of which one in each shard arrived at the same microsecond. Returns them in their order, a
 * blank behind each.
 */
static const char *plant_pairs(char down[40])
{
    static char up[40];
    char found[2][8] = {{0}}, id[2] = "a";
    int count[2] = {0, 0}, i;
    size_t k;
    for (; count[0] < 4 || count[1] < 4; id[0]++) {
        unsigned shard = seriatim_shard_of(id, 1, 2);
        if (count[shard] == 4)
            continue;
        plant(id, "5000000000000000", count[shard]);
        found[shard][count[shard]++] = id[0];
    }
    for (up[0] = '\0', i = 0; i < 4; i++) {
        int first = found[0][i] > found[1][i];
        snprintf(up + strlen(up), sizeof up - strlen(up), "%c %c ", found[first][i], found[!first][i]);
    }
    for (k = 0; k < strlen(up); k++)
        down[k] = k % 2 ? ' ' : up[strlen(up) - 2 - k];
    down[k] = '\0';
    return up;
}

static void test_r_web_18_scheduled_payloads_are_listed_page_by_page(void **state)
{
    static const char *const wrong[] = {
        "cursor=00", "cursor=zz", "cursor=00000000000000010000000000000000", /* an arrival without an id */
        "limit=0",   "limit=101", "order=up",
        "from=x",
    };
    char path[100], wanted[100], up[40], down[40];
    size_t i;
    (void)state;
    open_browser();
    push_ids(12);
    get("/api/v1/queues/Q/scheduled");
    assert_string_equal(browser.text, "{\"cursor\":null,\"more\":false,\"payloads\":[]}");
    memcpy(up, plant_pairs(down), sizeof up);
    plant("before", "4000000000500000", 0);
    plant("behind", "6000000000000000", 0);
    snprintf(wanted, sizeof wanted, "before %sbehind ", up);
    lists_all("", wanted);
    lists_all("&from=5000000000", wanted + strlen("before "));
    snprintf(wanted, sizeof wanted, "behind %sbefore ", down);
    lists_all("&order=desc", wanted);
    lists_all("&from=5000000000&order=desc", wanted + strlen("behind "));
    up[1] = '\0';
    snprintf(wanted, sizeof wanted, "&id=%s", up);
    up[1] = ' ', up[2] = '\0';
    lists_all(wanted, up);
    lists_all("&id=none", "");
    get("/api/v1/queues/Q/scheduled?limit=1");
    shows("\"payloads\":[{\"deliver_at\":4000000000.5,\"handle\":\"A");
    get("/api/web/Q/range_by_deliver_at?min=5000000001&id=behind");
    shows("[{\"deliver_at\":6000000000,\"handle\":\"");
    get("/api/web/Q/rev_range_by_deliver_at?max=4000000001");
    shows("[{\"deliver_at\":4000000000.5,");
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(path, sizeof path, "/api/v1/queues/Q/scheduled?%s", wrong[i]);
        if (ask("GET", path, NULL) != 400)
            fail_msg("%s: %s", path, browser.text);
    }
}

static void test_r_web_4_ranges_list_records(void **state)
{
    (void)state;
    open_browser();
    push_text("Q", "1", "{\"a\":1}", 0);
    push_plain("Q", "\xff\0x", 3, "\xfe\xff", 2, 0);
    get("/api/web/Q/range_by_id?min=-&max=%2B");
    shows("\"id\":\"1\"");
    shows("\"payloads\":[[\"{\\\"a\\\":1}\",1");
    shows("\"id\":{\"base64\":\"/wB4\"}");
    shows("[{\"base64\":\"/v8=\"},");
    get("/api/web/Q/range_by_id?min=%5B1&max=(2");
    assert_null(strstr(browser.text, "base64"));
    get("/api/web/Q/processing_data");
    assert_string_equal(browser.text, "[]");
    assert_int_equal(ask("GET", "/api/web/Q/range_by_id?min=x", NULL), 400);
    shows("{\"error\":\"min must be");
    assert_int_equal(ask("GET", "/api/web/None/range_by_id", NULL), 404);
    assert_int_equal(ask("POST", "/api/web/None/pause", "{}"), 404);
}

static void test_a_queue_shows_ages_bytes_and_settings(void **state)
{
    (void)state;
    open_browser();
    push_text("Q", "late", "a", 0);
    push_text("Q", "later", "a", 1000);
    REDIS("SET unrelated x");
    pause_ms(1100);
    get("/api/v1/queues/Q/ages");
    shows("{\"ages\":[{\"count\":1,\"from\":null,\"to\":0},{\"count\":0,\"from\":0,\"to\":1},");
    shows("{\"count\":0,\"from\":604800,\"to\":null}],\"cursor\":null,\"of\":2,\"sample\":false,\"seen\":2}");
    get("/api/v1/queues/Q/bytes");
    shows("{\"bytes\":");
    shows("\"exact\":true}");
    assert_true(strtol(strchr(browser.text, ':') + 1, NULL, 10) > 200);
    get("/api/v1/queues/Q");
    shows("\"settings\":{\"generation\":1,\"paused\":0,\"shards\":2}");
}

static void push_many(int from, int to, double delay)
{
    seriatim_client *client;
    seriatim_link *link;
    int i, status;
    assert_int_equal(seriatim_link_new(NULL, server.url, &link, NULL), SERIATIM_OK);
    client = seriatim_link_client(link);
    assert_int_equal(seriatim_push_begin(client, queue_of(client, "Q", 2)), SERIATIM_OK);
    for (i = from; i < to; i++) {
        char id[16];
        seriatim_job job;
        seriatim_job_init(&job);
        job.id = id;
        job.id_len = (size_t)snprintf(id, sizeof id, "%05d", i);
        job.payload = "x";
        job.payload_len = 1;
        job.when = delay > 0 ? SERIATIM_DELAY : SERIATIM_NOW;
        job.time = delay + i;
        assert_int_equal(seriatim_push_job(client, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(client), SERIATIM_OK);
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        seriatim_link_wait(link);
    assert_int_equal(status, SERIATIM_OK);
    seriatim_link_free(link);
}

static void test_pages_of_records_hold_every_id_once(void **state)
{
    char cursor[80], path[200];
    redisReply *reply;
    (void)state;
    open_browser();
    push_many(0, 1500, 0);
    push_many(1500, 2000, 100);
    assert_int_equal(walk("/api/v1/queues/Q/records?part=waiting&limit=99", "00000", "01999"), 2000);
    assert_int_equal(walk("/api/v1/queues/Q/records?order=desc", "01999", "00000"), 2000);
    assert_int_equal(walk("/api/v1/queues/Q/records?by=time&limit=77", "0", "01999"), 2000);
    assert_int_equal(walk("/api/v1/queues/Q/records?by=time&order=desc", "01999", "0000"), 2000);
    assert_int_equal(walk("/api/v1/queues/Q/records?prefix=0012", "00120", "00129"), 10);
    assert_int_equal(walk("/api/v1/queues/Q/records?from=01990", "01990", "01999"), 10);
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"ids\":[\"00001\",\"00002\",\"00003\"]}"), 200);
    assert_int_equal(walk("/api/v1/queues/Q/records?part=parked&limit=2", "00001", "00003"), 3);
    assert_int_equal(walk("/api/v1/queues/Q/records?part=parked&by=time&limit=1&order=desc", "0000", "00001"), 3);
    /* One slice was read in time; its ids come first, then what was not read. */
    reply = redis("HSCAN seriatim:{Q/0}:jobs 0 COUNT 250");
    snprintf(cursor, sizeof cursor, "0.0.0.0.%s.000000000000000000", reply->element[0]->str);
    freeReplyObject(reply);
    assert_int_equal(walk_from("/api/v1/queues/Q/records?limit=40", cursor, "", ""), 1997);
    snprintf(path, sizeof path, "/api/v1/queues/Q/records?limit=40&cursor=%s", cursor);
    get(path);
    shows("\"exact\":false,\"of\":1997,");
    assert_in_range(member("seen"), 250, 300);
    get("/api/v1/search?q=0012&prefix=1&queue=Q"); /* "cursor" is null unless the time of a request was over */
    shows("\"ids\":[\"00120\",\"00121\",\"00122\",\"00123\",\"00124\",\"00125\",\"00126\",\"00127\",\"00128\","
          "\"00129\"]");
    get("/api/v1/search?q=00001");
    shows("\"parked\"");
    get("/api/v1/search?q=00002&queue=None");
    assert_string_equal(browser.text, "{\"hits\":[]}");
    get("/api/v1/queues/Q/hottest");
    shows("\"payloads\":1,");
}

static void act_on_many(const char *action, int from, int to)
{
    static char body[20000];
    char path[40];
    size_t len = (size_t)snprintf(body, sizeof body, "{\"ids\":[\"%05d\"", from);
    while (++from < to)
        len += (size_t)snprintf(body + len, sizeof body - len, ",\"%05d\"", from);
    assert_true(len + 3 < sizeof body);
    memcpy(body + len, "]}", 3);
    snprintf(path, sizeof path, "/api/web/Q/%s", action);
    assert_int_equal(ask("POST", path, body), 200);
}

static int64_t calls_of(const char *command)
{
    char key[64];
    redisReply *reply = redis("INFO commandstats");
    const char *at;
    int64_t calls;
    snprintf(key, sizeof key, "cmdstat_%s:calls=", command);
    at = strstr(reply->str, key);
    calls = at ? strtoll(at + strlen(key), NULL, 10) : 0;
    freeReplyObject(reply);
    return calls;
}

/* What is read of waiting ids counts them alone, though parked ones and those that run lie between them. */
static void test_samples_and_lists_count_what_waits_alone(void **state)
{
    const char *at;
    int64_t sum = 0;
    (void)state;
    open_browser();
    push_many(0, 2000, 0);
    act_on_many("park", 0, 800);
    act_on_many("park", 800, 1600);
    browser.settings.consume = 1;
    assert_int_equal(ask("POST", "/api/v1/consume/pop", "{\"queues\":[\"Q\"],\"ttr\":1000}"), 200);
    REDIS("CONFIG RESETSTAT");
    get("/api/v1/queues/Q/ages");
    for (at = browser.text; (at = strstr(at, "\"count\":")); at++)
        sum += strtoll(at + strlen("\"count\":"), NULL, 10);
    assert_int_equal(sum, member("of"));
    assert_int_equal(member("seen"), member("of"));
    assert_int_equal(sum, 399);
    assert_in_range(calls_of("hscan"), 1, 30);
    get("/api/v1/queues/Q/records?limit=1");
    assert_int_equal(member("of"), sum);
    if (strstr(browser.text, "\"exact\":true"))
        assert_int_equal(member("seen"), sum);
    get("/api/v1/queues/Q/records?prefix=none");
    assert_int_equal(member("seen"), sum);
    get("/api/v1/queues/Q/records?part=running");
    assert_int_equal(member("seen"), member("of"));
}

enum { SHRINKING_IDS = 8000 };

/* The ids of the last answer; its cursor, or an empty text. */
static void note_shown(char shown[SHRINKING_IDS], char cursor[100])
{
    const char *at;
    for (at = browser.text; (at = strstr(at, "\"id\":\"")); at++)
        shown[atoi(at + strlen("\"id\":\""))] = 1;
    at = strstr(browser.text, "\"cursor\":\"");
    at = at ? at + strlen("\"cursor\":\"") : "";
    snprintf(cursor, 100, "%.*s", (int)strcspn(at, "\""), at);
}

static void follow(char shown[SHRINKING_IDS], char cursor[100])
{
    char path[200];
    int pages;
    for (pages = 0; *cursor && pages < 2000; pages++) {
        snprintf(path, sizeof path, "/api/v1/queues/Q/records?limit=100&cursor=%s", cursor);
        get(path);
        note_shown(shown, cursor);
    }
    assert_string_equal(cursor, "");
}

static void wait_for_redis(void)
{
    pause_ms(30);
}

/*
 * The first page reads a part of the queue only, because each answer of Redis takes long. When most ids have gone, as
 * many slices as it read reach further; what lies there was not shown.
 */
static void test_following_a_cursor_shows_every_id_that_stays_while_a_queue_shrinks(void **state)
{
    static char shown[SHRINKING_IDS];
    char cursor[100];
    int i;
    (void)state;
    open_browser();
    memset(shown, 0, sizeof shown);
    for (i = 0; i < SHRINKING_IDS; i += 1000)
        push_many(i, i + 1000, 0);
    browser.meanwhile = wait_for_redis;
    get("/api/v1/queues/Q/records?limit=100");
    browser.meanwhile = NULL;
    assert_in_range(member("seen"), 100, SHRINKING_IDS - 1);
    note_shown(shown, cursor);
    for (i = 0; i < SHRINKING_IDS; i += 1000)
        act_on_many("delete", i + 300, i + 1000);
    follow(shown, cursor);
    for (i = 0; i < SHRINKING_IDS; i++)
        if (i % 1000 < 300 && !shown[i])
            fail_msg("%05d was not shown", i);
}

/* A cursor that asks to read all again gets what can be read within half a second, and nothing behind that is lost. */
static void test_what_a_cursor_reads_again_is_bounded(void **state)
{
    static char shown[SHRINKING_IDS];
    char cursor[100];
    int i;
    (void)state;
    open_browser();
    memset(shown, 0, sizeof shown);
    push_many(0, SHRINKING_IDS, 0);
    browser.meanwhile = wait_for_redis;
    REDIS("CONFIG RESETSTAT");
    get("/api/v1/queues/Q/records?limit=100&cursor=0.0.0.4.0.000000000000000000");
    assert_in_range(calls_of("hscan"), 2, 25); /* of about 32 */
    browser.meanwhile = NULL;
    note_shown(shown, cursor);
    follow(shown, cursor);
    for (i = 0; i < SHRINKING_IDS; i++)
        if (!shown[i])
            fail_msg("%05d was not shown", i);
}

static int64_t sent_bytes(void)
{
    redisReply *reply = redis("INFO stats");
    int64_t bytes =
        strtoll(strstr(reply->str, "total_net_output_bytes:") + strlen("total_net_output_bytes:"), NULL, 10);
    freeReplyObject(reply);
    return bytes;
}

static int count_of(const char *part)
{
    const char *at;
    int count = 0;
    for (at = browser.text; (at = strstr(at, part)); at++)
        count++;
    return count;
}

static void push_large(const char *name, int ids, int payloads, size_t len)
{
    static char payload[300000];
    char id[16];
    int i, k;
    memset(payload, 'x', len);
    for (i = 0; i < ids; i++)
        for (k = 0; k < payloads; k++) {
            snprintf(id, sizeof id, "%02d", i);
            memcpy(payload, id, 2);
            payload[2] = (char)('a' + k);
            push_plain(name, id, 2, payload, len, 0);
        }
}

/* 60 ids of 6 payloads, 90 MB, and a small one. */
static void test_a_list_of_large_payloads_reads_some_megabytes(void **state)
{
    static const char *const lists[] = {"/api/v1/queues/Q/records?by=time", "/api/v1/queues/Q/records",
                                        "/api/web/Q/range_by_id"};
    int64_t before;
    size_t i;
    (void)state;
    open_browser();
    push_large("Q", 60, 6, 250000);
    push_text("Q", "small", "a small one", 0);
    for (i = 0; i < sizeof lists / sizeof *lists; i++) {
        before = sent_bytes();
        get(lists[i]);
        assert_in_range(sent_bytes() - before, 1 << 20, 9 << 20);
        assert_int_equal(count_of("\"payload_total\":6"), 60);
        assert_in_range(count_of("[\"0") + count_of("[\"1"), 1, 20);
        shows("a small one");
    }
    get("/api/v1/queues/Q/records?limit=2&by=time&order=asc");
    assert_true(count_of("xxx\",") >= 6);
    get("/api/v1/queues/Q/id?id=00");
    assert_int_equal(count_of("xxx\","), 6);
}

/* Of some hundred bytes each, every payload is there. */
static void test_a_list_of_small_payloads_has_them_all(void **state)
{
    (void)state;
    open_browser();
    push_large("Q", 90, 20, 400);
    get("/api/v1/queues/Q/records?by=time");
    assert_int_equal(count_of("xxx\","), 90 * 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_web_3_dashboard_and_stats_have_the_figures),
        cmocka_unit_test(test_delayed_ids_are_counted),
        cmocka_unit_test(test_an_id_is_found_by_its_scheduled_payloads),
        cmocka_unit_test(test_r_web_17_scheduled_payloads_are_counted),
        cmocka_unit_test(test_r_web_18_scheduled_payloads_are_listed_page_by_page),
        cmocka_unit_test(test_r_web_4_ranges_list_records),
        cmocka_unit_test(test_a_queue_shows_ages_bytes_and_settings),
        cmocka_unit_test(test_pages_of_records_hold_every_id_once),
        cmocka_unit_test(test_following_a_cursor_shows_every_id_that_stays_while_a_queue_shrinks),
        cmocka_unit_test(test_what_a_cursor_reads_again_is_bounded),
        cmocka_unit_test(test_a_list_of_large_payloads_reads_some_megabytes),
        cmocka_unit_test(test_a_list_of_small_payloads_has_them_all),
        cmocka_unit_test(test_samples_and_lists_count_what_waits_alone),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

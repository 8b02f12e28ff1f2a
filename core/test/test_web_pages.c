/*
 * test_web_pages.c - pages of an index while ids change between the list of a page and the reading of its ids; against
 * a real redis-server.
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
#include <unistd.h>

#include "browser.h"

#define X(name, sha) sha,
static const char *const shas[] = {SRT_SCRIPTS(X)};
#undef X

static seriatim_client *client; /* asks for pages, and is driven by hand */
static redisContext *wire;      /* its connection */
static void (*change)(void);    /* is done once, before the ids of a page are read */
static char cursor[300], ids[200];

static int open_pages(void **state)
{
    (void)state;
    open_browser();
    assert_int_equal(seriatim_client_new(NULL, &client, NULL), SERIATIM_OK);
    assert_int_equal(srt_client_connected(client, NULL, NULL, 0), SERIATIM_OK);
    wire = redisConnectUnix(server.socket);
    assert_true(wire && !wire->err);
    redisSetTimeout(wire, (struct timeval){20, 0});
    return 0;
}

static int close_pages(void **state)
{
    (void)state;
    change = NULL;
    seriatim_client_free(client);
    redisFree(wire);
    return 0;
}

static int reads_ids(const char *data, size_t len)
{
    size_t i;
    for (i = 0; i + 40 <= len; i++)
        if (memcmp(data + i, shas[srt_script_records], 40) == 0 ||
            memcmp(data + i, shas[srt_script_scheduled_read], 40) == 0)
            return 1;
    return 0;
}

static void send_output(void)
{
    const char *data;
    size_t len;
    srt_client_output(client, &data, &len);
    if (len == 0)
        return;
    if (change && reads_ids(data, len)) {
        void (*due)(void) = change;
        change = NULL;
        due();
    }
    assert_int_equal(write(wire->fd, data, len), len);
    srt_client_sent(client, len);
}

static int drive_client(void)
{
    static char answer[1 << 16];
    seriatim_error error;
    while (srt_client_status(client) == SERIATIM_AGAIN) {
        ssize_t got;
        send_output();
        got = read(wire->fd, answer, sizeof answer);
        assert_true(got > 0);
        assert_int_equal(srt_client_input(client, answer, (size_t)got, &error), SERIATIM_OK);
    }
    return srt_client_status(client);
}

/* Takes ids and cursor of an answer. */
static void take_page(seriatim_text body)
{
    const char *at = browser.text, *id;
    assert_true(body.len < sizeof browser.text);
    memcpy(browser.text, body.data, body.len);
    browser.text[body.len] = '\0';
    snprintf(cursor, sizeof cursor, "%s", next_member(&at, "\"cursor\":\""));
    for (ids[0] = '\0', at = browser.text; *(id = next_member(&at, "\"id\":\""));)
        snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s ", id);
}

/* The page behind `cursor`; meanwhile: NULL, or what is done between its list and the reading of its ids. */
static const char *page(const char *target, void (*meanwhile)(void))
{
    const seriatim_web_response *response;
    char query[600];
    size_t len = strcspn(target, "?");
    snprintf(query, sizeof query, "%s%s%s", target + len + 1, cursor[0] ? "&cursor=" : "", cursor);
    browser.request.method = "GET";
    browser.request.path.data = target;
    browser.request.path.len = len;
    browser.request.query = text_of(query);
    browser.request.body = text_of(NULL);
    change = meanwhile;
    assert_int_equal(seriatim_web_begin(client, &browser.settings, &browser.request), SERIATIM_OK);
    response = seriatim_web_answer(client, drive_client(), &browser.hooks);
    assert_null(change);
    assert_int_equal(response->status, 200);
    take_page(response->body);
    return ids;
}

static void push_waiting(void)
{
    push_text("Q", "1", "x", 1000);
    push_text("Q", "2", "x", 2000);
    push_text("Q", "3", "x", 3000);
    push_text("Q", "4", "x", 4000);
}

static void make_3_due(void)
{
    assert_int_equal(ask("POST", "/api/web/Q/perform_now", "{\"ids\":[\"3\"]}"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
}

static void test_a_page_goes_on_behind_what_it_listed_though_an_id_gets_another_time(void **state)
{
    static const char target[] = "/api/v1/queues/Q/records?by=time&order=desc&limit=2";
    (void)state;
    push_waiting();
    cursor[0] = '\0';
    assert_string_equal(page(target, make_3_due), "4 3 ");
    assert_string_equal(page(target, NULL), "2 1 ");
    assert_string_equal(page(target, NULL), "3 ");
    assert_string_equal(cursor, "");
}

static worker claimant;

static void claim_1(void)
{
    claimant = hold_one("Q", 0);
}

static void test_a_page_whose_ids_were_all_claimed_before_they_were_read_has_a_cursor(void **state)
{
    static const char target[] = "/api/v1/queues/Q/records?by=time&limit=1";
    (void)state;
    push_text("Q", "1", "x", 0);
    push_text("Q", "2", "x", 2000);
    cursor[0] = '\0';
    assert_string_equal(page(target, claim_1), "");
    assert_string_not_equal(cursor, "");
    assert_string_equal(page(target, NULL), "2 ");
    stop_worker(&claimant);
}

/* As an id is listed for a moment that moves to another shard. */
static void list_in_both_shards(const char *id)
{
    unsigned shard = seriatim_shard_of(id, strlen(id), 2);
    redisReply *score = redis("ZSCORE seriatim:{Q/%d}:due %s", (int)shard, id);
    assert_int_equal(score->type, REDIS_REPLY_STRING);
    REDIS("ZADD seriatim:{Q/%d}:due %s %s", (int)!shard, score->str, id);
    freeReplyObject(score);
}

static void test_a_page_with_an_id_that_two_shards_list_has_a_cursor(void **state)
{
    static const char target[] = "/api/v1/queues/Q/records?by=time&limit=2";
    (void)state;
    push_waiting();
    list_in_both_shards("1");
    cursor[0] = '\0';
    assert_string_equal(page(target, NULL), "1 ");
    assert_string_equal(page(target, NULL), "2 3 ");
    assert_string_equal(page(target, NULL), "4 ");
    assert_string_equal(cursor, "");
}

static char handle[300]; /* of the payload of "2" */

static void reschedule_2(void)
{
    char body[400];
    redisReply *now = redis("TIME");
    snprintf(body, sizeof body, "{\"handle\":\"%s\",\"at\":%ld}", handle,
             strtol(now->element[0]->str, NULL, 10) + 3500);
    freeReplyObject(now);
    assert_int_equal(ask("POST", "/api/web/Q/reschedule", body), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
}

static void test_a_page_of_scheduled_payloads_goes_on_behind_what_it_listed(void **state)
{
    static const char target[] = "/api/v1/queues/Q/scheduled?limit=2";
    const char *at = browser.text;
    (void)state;
    push_scheduled("Q", "1", 1000);
    push_scheduled("Q", "2", 2000);
    push_scheduled("Q", "3", 3000);
    push_scheduled("Q", "4", 4000);
    get("/api/v1/queues/Q/scheduled?id=2");
    snprintf(handle, sizeof handle, "%s", next_member(&at, "\"handle\":\""));
    cursor[0] = '\0';
    assert_string_equal(page(target, reschedule_2), "1 2 ");
    assert_string_equal(page(target, NULL), "3 2 ");
    assert_string_equal(page(target, NULL), "4 ");
    assert_string_equal(cursor, "");
}

int main(void)
{
#define PAGES(name) cmocka_unit_test_setup_teardown(name, open_pages, close_pages)
    const struct CMUnitTest tests[] = {
        PAGES(test_a_page_goes_on_behind_what_it_listed_though_an_id_gets_another_time),
        PAGES(test_a_page_whose_ids_were_all_claimed_before_they_were_read_has_a_cursor),
        PAGES(test_a_page_with_an_id_that_two_shards_list_has_a_cursor),
        PAGES(test_a_page_of_scheduled_payloads_goes_on_behind_what_it_listed),
    };
#undef PAGES
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

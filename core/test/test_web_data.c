/* test_web_data.c - what is stored is shown as data (D8, D10), and redacted; against a real redis-server. */
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
#include "client/client.h"

static void test_d10_redaction_applies_to_every_route(void **state)
{
    static const char *const paths[] = {"/api/web/Q/range_by_id",
                                        "/api/web/Q/range_by_perform_in",
                                        "/api/web/Q/morgue_range_by_id",
                                        "/api/v1/queues/Q/records?part=waiting",
                                        "/api/v1/queues/Q/records?part=dead",
                                        "/api/v1/queues/Q/id?id=1",
                                        "/api/v1/queues/Q/id?id=2",
                                        "/api/v1/queues/Q/errors",
                                        "/api/v1/queues/Q/errors?part=retrying",
                                        "/api/v1/queues/Q/records?part=retrying"};
    worker w;
    size_t i;
    (void)state;
    open_browser();
    push_text("Q", "1", "secret", 0);
    w = start_worker("Q", 0);
    fail_one(&w, "secret error", 0);
    stop_worker(&w);
    push_text("Q", "2", "secret", 0);
    w = start_worker("Q", 5);
    fail_one(&w, "secret error", 1000);
    stop_worker(&w);
    browser.hooks.redact = hide;
    for (i = 0; i < sizeof paths / sizeof *paths; i++) {
        get(paths[i]);
        if (strstr(browser.text, "secret"))
            fail_msg("%s: %s", paths[i], browser.text);
        if (!strstr(browser.text, "[hidden]") && i != 3)
            fail_msg("%s shows nothing: %s", paths[i], browser.text);
    }
}

/* Replaces numbers of 16 digits by stars, as the redaction of an application does with those of cards. */
static seriatim_text hide_cards(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    static char shown[1 << 17];
    seriatim_text hidden = {shown, 0};
    size_t i, digits = 0;
    (void)context;
    (void)queue;
    (void)id;
    for (i = 0; i < text.len; i++) {
        shown[hidden.len++] = text.data[i];
        digits = text.data[i] >= '0' && text.data[i] <= '9' ? digits + 1 : 0;
        if (digits == 16) {
            hidden.len -= 16;
            memcpy(shown + hidden.len, "****", 4);
            hidden.len += 4;
            digits = 0;
        }
    }
    return hidden;
}

static seriatim_text hide_all(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    static const seriatim_text hidden = {"[all hidden]", 12};
    (void)context;
    (void)queue;
    (void)id;
    (void)text;
    return hidden;
}

/* The card stands at each place around the ends of what is read, kept and shown of the line: 712, 1,024 and 200 bytes.
 */
static void test_d10_no_part_of_a_secret_is_shown_where_an_error_is_cut(void **state)
{
    static const size_t ends[] = {200, 712, 1024};
    char error[1200];
    size_t i, before;
    worker w;
    (void)state;
    for (i = 0; i < sizeof ends / sizeof *ends; i++)
        for (before = ends[i] - 18; before <= ends[i] + 2; before++) {
            open_browser();
            browser.history = 9;
            push_text("Q", "0", "x", 0);
            w = start_worker("Q", 0);
            memset(error, 'x', sizeof error);
            memcpy(error + before, " 4111111111111111 ", 18);
            error[sizeof error - 1] = '\0';
            fail_one(&w, error, 0);
            stop_worker(&w);
            browser.hooks.redact = hide_cards;
            get("/api/v1/queues/Q/errors");
            shows("\"error\":\"xxx");
            assert_null(strstr(browser.text, " 4"));
            get("/api/v1/queues/Q/id?id=0");
            shows("xxx\",\"event\":\"failed\"");
            shows("xxx **** xxx");
            assert_null(strstr(browser.text, " 4"));
        }
}

static void test_d10_a_redaction_shows_its_own_text_in_place_of_a_cut_error(void **state)
{
    char error[1200];
    worker w;
    (void)state;
    open_browser();
    browser.history = 9;
    push_text("Q", "0", "x", 0);
    w = start_worker("Q", 0);
    memset(error, 'x', sizeof error);
    error[sizeof error - 1] = '\0';
    fail_one(&w, error, 0);
    stop_worker(&w);
    browser.hooks.redact = hide_all;
    get("/api/v1/queues/Q/errors");
    shows("\"error\":\"[all hidden]\"");
    get("/api/v1/queues/Q/id?id=0");
    shows("\"error\":\"[all hidden]\",\"event\":\"failed\"");
}

/* What happened to an id, where the queue keeps it: the errors go through the redaction as all that is stored. */
static void test_r_history_1_the_page_of_an_id_shows_its_history(void **state)
{
    worker w;
    (void)state;
    open_browser();
    browser.history = 9;
    push_text("Q", "0", "w", 0);
    w = start_worker("Q", 0);
    seriatim_runner_settle(w.runner, take_one(&w)); /* by a claim the shard knows that it keeps a history */
    stop_worker(&w);
    push_text("Q", "0", "x", 0);
    push_text("Q", "0", "x", 0);
    get("/api/v1/queues/Q/id?id=0");
    shows("\"history\":[{\"at\":");
    shows(",\"event\":\"folded\"}],\"id\":\"0\"");
    w = start_worker("Q", 0);
    fail_one(&w, "a secret error", 0);
    stop_worker(&w);
    browser.hooks.redact = hide;
    get("/api/v1/queues/Q/id?id=0");
    shows("\"event\":\"claimed\",\"fence\":1");
    shows("\"node\":\"node-");
    shows("\"error\":\"[hidden]\",\"event\":\"failed\"}");
    shows("\"error\":\"[hidden]\",\"event\":\"buried\",\"payloads_count\":1}],\"id\":");
    assert_null(strstr(browser.text, "secret"));
    get("/api/v1/queues/Q/id?id=none");
    shows("\"history\":[],\"id\":\"none\"");
}

static void test_d8_d9_a_huge_payload_is_cut_and_commands_in_ids_stay_text(void **state)
{
    static const char id[] = "*1\r\n$8\r\nFLUSHALL\r\n";
    static char payload[100000];
    redisReply *reply;
    (void)state;
    open_browser();
    memset(payload, 'a', sizeof payload);
    memcpy(payload + 4095, "\xc3\xa9", 2);
    push_plain("Q", id, sizeof id - 1, payload, sizeof payload, 0);
    get("/api/web/Q/range_by_id?min=%5B*1%0D%0A$8%0D%0AFLUSHALL%0D%0A");
    shows("\"id\":\"*1\\r\\n$8\\r\\nFLUSHALL\\r\\n\"");
    shows("\"truncated\":true");
    assert_true(browser.response->body.len < 5000);
    get("/api/v1/queues/Q/id?id=*1%0D%0A$8%0D%0AFLUSHALL%0D%0A");
    shows("\"payload_total\":1");
    assert_int_equal(ask("GET", "/api/web/Q/range_by_id?min=*1%0D%0A", NULL), 400);
    get("/api/v1/search?q=%0D%0AFLUSHALL%0D%0A");
    reply = redis("DBSIZE");
    assert_true(reply->integer > 0);
    freeReplyObject(reply);
}

/* The id's page, by a client of this namespace, has this command to copy. */
static void copies(const char *ns, const char *queue, const char *id, const char *command)
{
    char target[300], member[300];
    seriatim_options options;
    seriatim_error error;
    memset(&options, 0, sizeof options);
    options.ns = ns;
    seriatim_link_free(browser.link);
    assert_int_equal(seriatim_link_new(&options, server.url, &browser.link, &error), SERIATIM_OK);
    browser.client = seriatim_link_client(browser.link);
    snprintf(target, sizeof target, "/api/v1/queues/%s/id?id=%s", queue, id);
    snprintf(member, sizeof member, "\"cli\":%s,", command);
    get(target);
    shows(member);
}

static void test_the_command_to_copy_runs_nothing_else(void **state)
{
    static const char *const unsafe[] = {"17%15touch%20x%0A", "a%0A",      "%1B%5B201~", "a%7F",
                                         "%C2%9B201~",        "%E2%80%AE", "a%00",       "%FF"};
    size_t i;
    (void)state;
    open_browser();
    push_text("Q", "1", "1", 0);
    push_text("-Q", "1", "1", 0);
    push_text("Q\n", "1", "1", 0);
    copies(NULL, "Q", "1", "\"seriatim explain 'Q' '1'\"");
    copies(NULL, "Q", "a%20%22$(x)%60x%60!%C3%A4", "\"seriatim explain 'Q' 'a \\\"$(x)`x`!\xC3\xA4'\"");
    copies(NULL, "Q", "it's", "\"seriatim explain 'Q' 'it'\\\\''s'\"");
    copies(NULL, "Q", "a%5C", "\"seriatim explain 'Q' 'a'\\\\\\\\''\"");
    copies(NULL, "Q", "-x", "\"seriatim explain -- 'Q' '-x'\"");
    copies(NULL, "Q", "--help", "\"seriatim explain -- 'Q' '--help'\"");
    copies(NULL, "-Q", "1", "\"seriatim explain -- '-Q' '1'\"");
    copies(NULL, "Q%0A", "1", "null");
    for (i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        copies(NULL, "Q", unsafe[i], "null");
}

static void test_the_command_to_copy_names_the_application_for_another_namespace(void **state)
{
    (void)state;
    open_browser();
    REDIS("SET shop:{Q}:layout %s", "1 1 3");
    copies("shop", "Q", "-x", "\"seriatim explain -r ./app -- 'Q' '-x'\"");
    shows("\"namespace\":\"shop\"");
}

static void test_a_lost_redis_is_answered_with_503(void **state)
{
    seriatim_error error;
    (void)state;
    open_browser();
    seriatim_link_free(browser.link);
    assert_int_equal(seriatim_link_new(NULL, "unix:///nowhere/at/all.sock", &browser.link, &error), SERIATIM_OK);
    browser.client = seriatim_link_client(browser.link);
    assert_int_equal(ask("GET", "/api/v1/stats", NULL), 503);
    assert_null(strstr(browser.text, "nowhere"));
    assert_int_equal(ask("GET", "/readyz", NULL), 503);
    get("/livez");
    get("/");
}

/* What the answer says of an operation that ended with this error of the connection. */
static void shows_cause(const char *message, const char *cause)
{
    char expected[300];
    open_browser();
    browser.request.method = "GET";
    browser.request.path = text_of("/readyz");
    assert_int_equal(seriatim_web_begin(browser.client, &browser.settings, &browser.request), SERIATIM_OK);
    assert_int_equal(srt_client_give_up(browser.client, SERIATIM_IO, message), SERIATIM_IO);
    browser.response = seriatim_web_answer(browser.client, SERIATIM_IO, &browser.hooks);
    assert_int_equal(browser.response->status, 503);
    snprintf(expected, sizeof expected, "{\"error\":\"Redis cannot be asked now: %s\"}", cause);
    assert_int_equal(browser.response->body.len, strlen(expected));
    assert_memory_equal(browser.response->body.data, expected, strlen(expected));
}

static void test_the_cause_of_a_503_is_given_whole_and_without_the_address(void **state)
{
    (void)state;
    shows_cause("cannot connect to redis://h:6379/0: Connection refused", "Connection refused");
    shows_cause("cannot connect to rediss://h:6379/0: TLS: the handshake failed", "the handshake failed");
    shows_cause("cannot connect to redis://redis.example:6379/0: redis.example could not be resolved (110: Operation "
                "timed out); start Redis there, or correct seriatim.redis",
                "redis.example could not be resolved (110: Operation timed out); start Redis there, or correct "
                "seriatim.redis");
    shows_cause("no answer from redis://h:6379/0 in time", seriatim_status_text(SERIATIM_IO));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_d10_redaction_applies_to_every_route),
        cmocka_unit_test(test_d10_no_part_of_a_secret_is_shown_where_an_error_is_cut),
        cmocka_unit_test(test_d10_a_redaction_shows_its_own_text_in_place_of_a_cut_error),
        cmocka_unit_test(test_r_history_1_the_page_of_an_id_shows_its_history),
        cmocka_unit_test(test_d8_d9_a_huge_payload_is_cut_and_commands_in_ids_stay_text),
        cmocka_unit_test(test_the_command_to_copy_runs_nothing_else),
        cmocka_unit_test(test_the_command_to_copy_names_the_application_for_another_namespace),
        cmocka_unit_test(test_a_lost_redis_is_answered_with_503),
        cmocka_unit_test(test_the_cause_of_a_503_is_given_whole_and_without_the_address),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_web_changes.c - what the host is told of changes (D13); against a real redis-server. */
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

static void test_d13_the_host_is_told_of_every_change(void **state)
{
    size_t count, i;
    const seriatim_web_route *routes = seriatim_web_routes(&count);
    (void)state;
    open_browser();
    assert_null(seriatim_web_change_of(browser.client));
    push_two();
    for (i = 0; i < count; i++) {
        const char *name = strrchr(routes[i].pattern, '/') + 1;
        int foreign;
        for (foreign = 0; foreign < 2; foreign++) {
            browser.request.sec_fetch_site = text_of(foreign ? "cross-site" : "same-origin");
            ask(routes[i].method, path_of(routes[i].pattern), routes[i].action ? "{\"ids\":[\"Q\"]}" : NULL);
            if (!routes[i].action) {
                assert_null(seriatim_web_change_of(browser.client));
                continue;
            }
            assert_non_null(strstr(routes[i].action, name));
            assert_string_equal(seriatim_web_change_of(browser.client)->action, routes[i].action);
            assert_int_equal(seriatim_web_change_of(browser.client)->status, browser.response->status);
        }
    }
    assert_int_equal(ask("GET", "/", NULL), 200);
    assert_null(seriatim_web_change_of(browser.client));
    assert_int_equal(ask("DELETE", "/api/web/Q/delete", NULL), 405);
    assert_null(seriatim_web_change_of(browser.client));
}

static void test_d13_a_report_names_action_role_ids_and_outcome(void **state)
{
    const seriatim_web_change *change;
    (void)state;
    open_browser();
    push_text("Q", "a", "x", 0);
    push_text("Q", "b", "x", 0);
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"ids\":[\"a\",\"none\"]}"), 200);
    told("park by admin: queue \"Q\", ids \"a\", \"none\": count 1");
    change = seriatim_web_change_of(browser.client);
    assert_true(change->id_count == 2 && change->count == 1 && change->status == 200 && !change->node.data &&
                !change->error[0]);
    assert_memory_equal(change->ids[1].data, "none", 4);
    assert_int_equal(ask("POST", "/api/web/Q/pause", NULL), 200);
    told("pause by admin: queue \"Q\": count 2");
    assert_int_equal(ask("POST", "/api/web/None/pause", NULL), 404);
    told("pause by admin: queue \"None\": 404 there is no such queue");
    assert_int_equal(ask("POST", "/api/web/Q/delete", "{}"), 400);
    told("delete by admin: queue \"Q\": 400 ids are missing");
    assert_int_equal(ask("POST", "/api/v1/queues/Q/errors/00/delete", NULL), 200);
    told("errors_delete by admin: queue \"Q\", errors \"00\": count 0");
    assert_int_equal(ask("POST", "/api/v1/nodes/x%0Ay/stop", NULL), 404);
    told("stop_node by admin: node \"x\\u000ay\": 404 no such node is alive");
    browser.request.role = SERIATIM_WEB_OPERATOR;
    assert_int_equal(ask("POST", "/api/web/Q/delete", "{\"ids\":[\"a\"]}"), 403);
    told("delete by operator: queue \"Q\": 403 this needs the role admin");
    browser.request.sec_fetch_site = text_of("cross-site");
    assert_int_equal(ask("POST", "/api/web/Q/pause", NULL), 403);
    told("pause by operator: queue \"Q\": 403 the request comes from another site");
    browser.settings.token = "secret"; /* whose role is the host's word for all, but who has not shown the token */
    assert_int_equal(ask("POST", "/api/web/Q/pause", NULL), 401);
    told("pause by nobody: queue \"Q\": 401 a token is needed");
}

/* Most hosts refuse it before the core sees it, so that nobody is told of it there. */
static void test_d13_a_body_that_is_too_long_is_not_reported(void **state)
{
    static char body[SERIATIM_WEB_MAX_BODY + 2];
    (void)state;
    open_browser();
    push_two();
    memset(body, ' ', sizeof body - 1);
    assert_int_equal(ask("POST", "/api/web/Q/delete", body), 413);
    assert_null(seriatim_web_change_of(browser.client));
}

/* Nothing of an id can end the line, turn the terminal or hide. */
static void test_d13_hostile_ids_are_escaped_in_reports(void **state)
{
    char body[8000], expected[8000] = "";
    size_t i;
    (void)state;
    open_browser();
    push_text("Q", "a", "x", 0);
    assert_int_equal(
        ask("POST", "/api/web/Q/delete",
            "{\"ids\":[\"a\\nINFO forged\",\"\\u001b[2J\\\"\\\\\",\"\xC2\x85\xE2\x80\xA8\xE2\x80\xAE\xE2\x81\xA6\x7F\","
            "{\"base64\":\"/wAK4oA=\"},\"\xD0\xB6\xF0\x9F\x90\xAB\"]}"),
        200);
    told("delete by admin: queue \"Q\", ids \"a\\u000aINFO forged\", \"\\u001b[2J\\\"\\\\\", "
         "\"\\u0085\\u2028\\u202e\\u2066\\u007f\", \"\\xff\\u0000\\u000a\\xe2\\x80\", \"\xD0\xB6\xF0\x9F\x90\xAB\": "
         "count 0");
    strcpy(body, "{\"ids\":[");
    for (i = 0; i < 12; i++) {
        strcat(body, i ? ",\"" : "\"");
        memset(body + strlen(body) + 300, 0, 1);
        memset(body + strlen(body), 'x', 300);
        strcat(body, "\"");
    }
    strcat(body, "]}");
    memset(expected, 'x', 200);
    strcat(expected, "...\" and 2 more: count 0");
    assert_int_equal(ask("POST", "/api/web/Q/delete", body), 200);
    assert_int_equal(seriatim_web_change_of(browser.client)->id_count, 12);
    assert_non_null(strstr(line_of(seriatim_web_change_of(browser.client)), expected));
}

/* The outcome is reported as unknown, and the next request is not affected. */
static void test_d13_a_broken_off_change_is_reported_as_unknown(void **state)
{
    (void)state;
    open_browser();
    push_text("Q", "a", "x", 0);
    browser.request.method = "POST";
    browser.request.path = text_of("/api/web/Q/pause");
    assert_int_equal(seriatim_web_begin(browser.client, NULL, &browser.request), SERIATIM_OK);
    seriatim_link_reset(browser.link);
    assert_int_equal(seriatim_web_change_of(browser.client)->status, 0);
    assert_string_equal(line_of(seriatim_web_change_of(browser.client)),
                        "pause by admin: queue \"Q\": broken off, so its outcome is not known");
    get("/api/v1/stats");
    assert_null(seriatim_web_change_of(browser.client));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_d13_the_host_is_told_of_every_change),
        cmocka_unit_test(test_d13_a_report_names_action_role_ids_and_outcome),
        cmocka_unit_test(test_d13_a_body_that_is_too_long_is_not_reported),
        cmocka_unit_test(test_d13_hostile_ids_are_escaped_in_reports),
        cmocka_unit_test(test_d13_a_broken_off_change_is_reported_as_unknown),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

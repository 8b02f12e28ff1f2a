/* test_web_reshard.c - the dashboard gives a queue another number of shards, and shows how far its servers are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "browser.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_web_22_an_admin_gives_a_queue_another_number_of_shards),
        cmocka_unit_test(test_r_web_22_pages_show_all_ids_while_they_move),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

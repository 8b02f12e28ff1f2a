/* test_web_nodes.c - nodes: what they tell, and that they are quieted and stopped; against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "browser.h"

static void test_a_working_queue_shows_its_runs_and_nodes(void **state)
{
    worker w;
    char node[32], path[64];
    (void)state;
    open_browser();
    push_text("Q", "run", "secret payload", 0);
    w = hold_one("Q", 3);
    get("/api/v1/queues/Q");
    shows("\"name\":\"Q\"");
    shows("\"owner_alive\":true");
    shows("\"totals\":{\"busy\":1,\"consumers\":2,");
    get("/api/v1/running?limit=5");
    shows("\"more\":false");
    shows("\"running\":[{\"id\":\"run\",\"owner\":\"node-");
    shows("\"payload_total\":1,\"queue\":\"Q\"");
    assert_int_equal(sscanf(strstr(browser.text, "\"owner\":\"") + 9, "%31[^\"]", node), 1);
    snprintf(path, sizeof path, "/api/v1/running?node=%s", node);
    get(path);
    shows("\"running\":[{\"id\":\"run\",\"owner\":\"node-");
    shows("\"total\":1}");
    get("/api/v1/running?node=node");
    shows("{\"more\":false,");
    shows("\"running\":[],\"total\":0}");
    get("/api/v1/nodes");
    shows("\"busy\":1,\"clock_skew\":");
    shows("\"description\":\"host pid 1 C seriatim 9.9.9\"");
    shows("\"language\":\"C\"");
    shows("\"shards\":2,\"since\":");
    shows("\"state\":\"working\",\"threads\":1,\"version\":\"" SERIATIM_VERSION "\"}],\"versions\":[\"" SERIATIM_VERSION
          "\"]}");
    get("/api/v1/queues/Q/records?part=running");
    shows("\"state\":\"running\"");
    shows("[[\"secret payload\",");
    get("/api/v1/queues/Q/records?part=running&by=time&order=desc");
    shows("\"id\":\"run\"");
    push_text("Q", "run", "next", 0);
    get("/api/v1/queues/Q/id?id=run");
    shows("\"behind\":{\"behind\":true");
    shows("[[\"next\",");
    shows("[[\"secret payload\",");
    shows("\"cli\":\"seriatim explain 'Q' 'run'\"");
    shows("\"dead\":null");
    get("/api/v1/search?q=run");
    assert_string_equal(browser.text, "{\"hits\":[{\"queue\":\"Q\",\"state\":\"running\"}]}");
    get("/metrics");
    shows("# TYPE seriatim_running gauge\nseriatim_running{queue=\"Q\"} 1\n");
    stop_worker(&w);
    get("/livez");
    get("/readyz");
    browser.settings.stalled = "nothing was claimed";
    assert_int_equal(ask("GET", "/livez", NULL), 503);
    shows("nothing was claimed");
}

/* An id of the shard in which "run" runs, with payloads that came before and behind its run. */
static void push_uniting(const char *id)
{
    push_text("Q", id, "before", 1000);
    REDIS("HSET seriatim:{Q/0}:running %s 0m0", id);
    REDIS("ZADD seriatim:{Q/0}:uniting 1 %s", id);
    push_text("Q", id, "meanwhile", 0);
}

static void test_an_id_that_unites_is_shown_as_waiting(void **state)
{
    worker w;
    (void)state;
    open_browser();
    push_text("Q", "run", "x", 0);
    w = hold_one("Q", 3);
    push_uniting("u");
    get("/api/v1/running?limit=1");
    shows("\"more\":false");
    shows("\"running\":[{\"id\":\"run\",");
    shows("\"total\":1}");
    get("/api/v1/queues/Q/records?part=running");
    shows("\"id\":\"run\"");
    assert_null(strstr(browser.text, "\"id\":\"u\""));
    get("/api/v1/queues/Q/records?part=running&by=time&order=desc");
    assert_null(strstr(browser.text, "\"id\":\"u\""));
    get("/api/v1/queues/Q/records?part=waiting");
    shows("\"id\":\"u\"");
    shows("[[\"before\",");
    shows("\"state\":\"waiting\"");
    assert_null(strstr(browser.text, "\"id\":\"run\""));
    get("/api/v1/search?q=u");
    assert_string_equal(browser.text, "{\"hits\":[{\"queue\":\"Q\",\"state\":\"waiting\"}]}");
    get("/api/v1/queues/Q/id?id=u");
    shows("\"behind\":{\"behind\":true");
    shows("[[\"meanwhile\",");
    shows("\"job\":{\"behind\":false,\"fence\":0,");
    shows("[[\"before\",");
    shows("a server or a pop is to unite them");
    assert_null(strstr(browser.text, "\"state\":\"running\""));
    stop_worker(&w);
}

/* Of what runs, those that came since; nothing of what is parked. An id that unites is read in two places. */
static void test_the_hottest_ids_are_those_of_waiting_payloads(void **state)
{
    const char *at;
    worker w;
    char id[16], payload[16];
    int i, count = 0;
    (void)state;
    open_browser();
    for (i = 0; i < 7; i++) {
        snprintf(payload, sizeof payload, "%d", i);
        push_text("Q", "run", payload, 0);
        push_text("Q", "aside", payload, 1000);
    }
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"ids\":[\"aside\"]}"), 200);
    w = hold_one("Q", 3);
    for (i = 0; i < 3; i++) {
        snprintf(payload, sizeof payload, "%d", i);
        push_text("Q", "run", payload, 0);
    }
    push_uniting("u");
    for (i = 0; i < 25; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        push_text("Q", id, "x", 1000);
    }
    get("/api/v1/queues/Q/hottest");
    shows(
        "\"ids\":[{\"id\":\"run\",\"payloads\":3,\"shard\":0},{\"id\":\"u\",\"payloads\":2,\"shard\":0},{\"id\":\"id-");
    for (at = browser.text; (at = strstr(at, "\"payloads\":")); at++)
        count++;
    assert_int_equal(count, 20);
    stop_worker(&w);
}

/* Its payloads lie in two records, of which each is another number, and wait together, whether others run or not. */
static void test_an_id_that_unites_is_once_among_the_hottest(void **state)
{
    worker w;
    int i;
    (void)state;
    open_browser();
    push_text("Q", "run", "x", 0);
    w = hold_one("Q", 3); /* its owner would unite an id that it finds so, so the id comes behind it */
    for (i = 0; i < 2; i++) {
        push_text("Q", "more", i ? "b" : "a", 1000);
        push_text("Q", "u", i ? "b" : "a", 1000);
    }
    push_uniting("u");
    get("/api/v1/queues/Q/hottest");
    shows("\"ids\":[{\"id\":\"u\",\"payloads\":4,\"shard\":0},{\"id\":\"more\",\"payloads\":2,\"shard\":0}]");
    REDIS("HSET seriatim:{Q/0}:running u 2m0"); /* what ran was deleted: only what came meanwhile comes back */
    get("/api/v1/queues/Q/hottest");
    shows("\"ids\":[{\"id\":\"more\",\"payloads\":2,\"shard\":0},{\"id\":\"u\",\"payloads\":1,\"shard\":0}]");
    stop_worker(&w);
}

/* It is read in the shard that it leaves, and a moment later, with one payload more, in its new one. */
static void test_an_id_that_moves_is_once_among_the_hottest(void **state)
{
    static const char copy[] = "return redis.call('HSET', 'seriatim:{Q/1}:jobs', 'more', "
                               "redis.call('HGET', 'seriatim:{Q/0}:jobs', 'more'))";
    (void)state;
    open_browser();
    push_text("Q", "id-7", "x", 1000); /* of shard 1 */
    push_text("Q", "more", "a", 1000);
    push_text("Q", "more", "b", 1000);
    REDIS("EVAL %s 0", copy);
    push_text("Q", "more", "c", 1000);
    push_text("Q", "run", "a", 1000);
    push_text("Q", "run", "b", 1000);
    get("/api/v1/queues/Q/hottest");
    shows("\"ids\":[{\"id\":\"more\",\"payloads\":3,\"shard\":0},{\"id\":\"run\",\"payloads\":2,\"shard\":0},"
          "{\"id\":\"id-7\",\"payloads\":1,\"shard\":1}]");
}

static void wait_for_order(const worker *w, int order)
{
    int i;
    for (i = 0; i < 3000 && seriatim_runner_asked(w->runner) != order; i++)
        pause_ms(10);
    assert_int_equal(seriatim_runner_asked(w->runner), order);
}

/* The nodes, as soon as they say so. */
static void get_nodes(const char *part)
{
    int i;
    get("/api/v1/nodes");
    for (i = 0; i < 3000 && !strstr(browser.text, part); i++) {
        pause_ms(10);
        get("/api/v1/nodes");
    }
    shows(part);
}

/* The number behind "key": of the last body. */
static double number_of(const char *key)
{
    const char *at = strstr(browser.text, key);
    assert_non_null(at);
    return strtod(at + strlen(key), NULL);
}

static void test_a_node_shows_memory_and_clock_skew(void **state)
{
    worker w;
    int i;
    (void)state;
    open_browser();
    push_text("Q", "1", "x", 0);
    w = hold_one("Q", 3);
    seriatim_runner_quiet(w.runner); /* beats at once */
    get_nodes("\"state\":\"quiet\"");
    /* One machine, one clock; but a beat that was held up tells a wrong time. */
    for (i = 0; i < 3000 && (strstr(browser.text, "\"clock_skew\":null") || fabs(number_of("\"clock_skew\":")) >= 0.9);
         i++) {
        seriatim_runner_pulse(w.runner);
        pause_ms(10);
        get("/api/v1/nodes");
    }
    shows("\"description\":\"host pid 1 C seriatim 9.9.9\"");
    assert_true(number_of("\"rss\":") > 1e6 && number_of("\"rss\":") < 1e11);
    assert_null(strstr(browser.text, "\"clock_skew\":null"));
    assert_true(fabs(number_of("\"clock_skew\":")) < 0.9);
    stop_worker(&w);
}

/* Descriptions of other versions, and descriptions that any client may have written. */
static void test_node_descriptions_of_any_form_are_shown(void **state)
{
    static const struct {
        const char *info, *shown;
    } all[] = {
        {"b 0a1b2c3d|host; rss=1 seriatim 1", "\"clock_skew\":null,\"description\":\"host; rss=1 seriatim 1\""},
        {"b 0a1b2c3d;rss=52428800;skew_ms=-2500|host", "\"clock_skew\":-2.5,\"description\":\"host\""},
        {"b 0a1b2c3d;skew_ms=1;what=ever|host", "\"clock_skew\":0.001,\"description\":\"host\""},
        {"b;rss=-5;skew_ms=x|host", "\"clock_skew\":0,\"description\":\"host\""},
        {"b|;rss=7;skew_ms=8", "\"clock_skew\":null,\"description\":\";rss=7;skew_ms=8\""},
        {"b;language=ruby 3.1.2;threads=5|host", "\"language\":\"ruby 3.1.2\""},
        {"b;threads=5|language=x", "\"language\":null"},
        {"b;version=0.2.0;threads=5|host", "\"version\":\"0.2.0\""},
        {"b;threads=5|host;version=0.2.0", "\"version\":null"},
        {"b;rss=7;skew_ms=8", "\"clock_skew\":null,\"description\":\"b;rss=7;skew_ms=8\""},
        {"", "\"clock_skew\":null,\"description\":\"\""},
    };
    size_t i;
    (void)state;
    open_browser();
    push_text("Q", "1", "x", 0);
    REDIS("ZADD seriatim:{/nodes}:alive 99999999999999 n");
    for (i = 0; i < sizeof all / sizeof *all; i++) {
        REDIS("HSET seriatim:{/nodes}:info n %s", all[i].info);
        get("/api/v1/nodes");
        shows(all[i].shown);
        shows(i == 1 ? "\"rss\":52428800" : "\"rss\":null");
    }
    REDIS("ZADD seriatim:{/nodes}:alive 99999999999999 m 99999999999999 o");
    REDIS("HSET seriatim:{/nodes}:info m %s n %s o %s", "b;version=0.2.0|host", "b;version=0.1.0|seriatim 7",
          "b;version=0.2.0|other");
    get("/api/v1/nodes");
    shows("\"versions\":[\"0.2.0\",\"0.1.0\"]");
}

static void test_a_node_is_quieted_and_stopped(void **state)
{
    char quiet[64], stop[64], *name;
    worker w;
    (void)state;
    open_browser();
    push_text("Q", "run", "x", 0);
    w = hold_one("Q", 3);
    get("/api/v1/nodes");
    name = strstr(browser.text, "node-");
    assert_non_null(name);
    name[strcspn(name, "\"")] = '\0';
    snprintf(quiet, sizeof quiet, "/api/v1/nodes/%.32s/quiet", name);
    snprintf(stop, sizeof stop, "/api/v1/nodes/%.32s/stop", name);
    browser.request.role = SERIATIM_WEB_OPERATOR;
    assert_int_equal(ask("POST", stop, "{}"), 403);
    assert_int_equal(ask("POST", quiet, "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    wait_for_order(&w, SERIATIM_ORDER_QUIET);
    seriatim_runner_quiet(w.runner);
    get_nodes("\"state\":\"quiet\"");
    browser.request.role = SERIATIM_WEB_ADMIN;
    assert_int_equal(ask("POST", stop, NULL), 200);
    assert_int_equal(ask("POST", stop, "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    wait_for_order(&w, SERIATIM_ORDER_STOP);
    seriatim_runner_stop(w.runner);
    get_nodes("\"state\":\"stopping\"");
    get("/api/v1/queues/Q/records?part=running");
    shows("\"id\":\"run\"");
    stop_worker(&w);
    assert_int_equal(ask("POST", stop, "{}"), 404);
    shows("no such node is alive");
    assert_int_equal(ask("POST", "/api/v1/nodes/%7B%2Fx%7D%0D%0A/quiet", "{}"), 404);
    get("/api/v1/nodes");
    assert_string_equal(browser.text, "{\"nodes\":[],\"versions\":[]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_working_queue_shows_its_runs_and_nodes),
        cmocka_unit_test(test_an_id_that_unites_is_shown_as_waiting),
        cmocka_unit_test(test_the_hottest_ids_are_those_of_waiting_payloads),
        cmocka_unit_test(test_an_id_that_unites_is_once_among_the_hottest),
        cmocka_unit_test(test_an_id_that_moves_is_once_among_the_hottest),
        cmocka_unit_test(test_a_node_shows_memory_and_clock_skew),
        cmocka_unit_test(test_node_descriptions_of_any_form_are_shown),
        cmocka_unit_test(test_a_node_is_quieted_and_stopped),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

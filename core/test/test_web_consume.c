/* test_web_consume.c - pushing and consuming over HTTP, against a real redis-server. */
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
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "browser.h"

/* ---- A consumer ------------------------------------------------------------------------------ */

static void open_consumer(void)
{
    open_browser();
    browser.settings.consume = 1;
    browser.request.role = SERIATIM_WEB_CONSUMER;
    browser.request.sec_fetch_site = text_of(NULL);
}

static int consume(const char *name, const char *body)
{
    char path[100];
    snprintf(path, sizeof path, "/api/v1/consume/%s", name);
    return ask("POST", path, body);
}

static void succeeds(const char *name, const char *body)
{
    if (consume(name, body) != 200)
        fail_msg("%s %s: %d %s", name, body, browser.response->status, browser.text);
}

static void push_of(const char *name, const char *id)
{
    char body[200];
    push_text(name, "maker of the queue", "1", 1000);
    snprintf(body, sizeof body, "{\"queue\":\"%s\",\"jobs\":[{\"id\":\"%s\",\"payload\":{\"a\":1}}]}", name, id);
    succeeds("push", body);
}

/* A text member of the last answer. */
static const char *text_member(const char *name)
{
    static char value[4][1000];
    static int next;
    char key[40];
    const char *at;
    char *kept = value[next++ % 4];
    snprintf(key, sizeof key, "\"%s\":\"", name);
    at = strstr(browser.text, key);
    if (!at)
        fail_msg("no %s in: %.500s", name, browser.text);
    at += strlen(key);
    snprintf(kept, 1000, "%.*s", (int)strcspn(at, "\""), at);
    return kept;
}

static int pop(const char *queue)
{
    char body[200];
    snprintf(body, sizeof body, "{\"queues\":[\"%s\"],\"wait\":0}", queue);
    return consume("pop", body);
}

/* Returns the token. */
static const char *pop_one(const char *queue)
{
    if (pop(queue) != 200)
        fail_msg("%d %s", browser.response->status, browser.text);
    return text_member("token");
}

/* Reports a result, with more members of the body. */
static int report(const char *name, const char *token, const char *more)
{
    char body[2000];
    snprintf(body, sizeof body, "{\"token\":\"%s\"%s}", token, more);
    return consume(name, body);
}

/* ---- Push, pop, ack -------------------------------------------------------------------------- */

static void test_r_http_1_an_id_is_pushed_popped_and_acknowledged(void **state)
{
    const char *token;
    (void)state;
    open_consumer();
    push_text("Q", "other", "1", 1000);
    succeeds("push",
             "{\"queue\":\"Q\",\"jobs\":[{\"id\":\"a\",\"payload\":{\"b\":[1,2.5,null],\"a\":\"x\"},\"score\":7,"
             "\"context\":{\"user\":\"u\"}},{\"id\":9,\"payload\":\"later\",\"delay\":1000}]}");
    assert_string_equal(browser.text, "{\"added\":2,\"folded\":0,\"refused\":[],\"scheduled\":0,\"stale\":0}");
    token = pop_one("Q");
    shows("\"contexts\":[{\"user\":\"u\"}],\"deliveries\":1,");
    shows("\"id\":\"a\",\"more\":false,\"payloads\":[{\"a\":\"x\",\"b\":[1,2.5,null]}],\"queue\":\"Q\",\"retry_count\":"
          "-1,"
          "\"scores\":[7],\"token\":\"");
    assert_int_equal(pop("Q"), 204);
    assert_string_equal(browser.text, "");
    assert_int_equal(report("ack", token, ""), 200);
    assert_string_equal(browser.text, "{\"ok\":true}");
    assert_int_equal(report("ack", token, ""), 409);
    shows("\"error\":\"");
    assert_null(seriatim_web_change_of(browser.client));
}

static void test_a_push_tells_what_became_of_each_job(void **state)
{
    (void)state;
    open_consumer();
    push_of("Q", "a");
    succeeds("push",
             "{\"queue\":\"Q\",\"handles\":true,\"jobs\":[{\"id\":\"a\",\"payload\":2},{\"id\":\"a\",\"payload\":3,"
             "\"on_waiting\":\"unique\"},{\"id\":\"c\",\"payload\":4,\"deliver_in\":50}]}");
    shows("{\"added\":0,\"folded\":1,\"handles\":[\"");
    shows(",null,\"");
    shows("\"refused\":[1],\"scheduled\":1,\"stale\":0}");
}

static void test_a_queue_that_does_not_exist_is_not_made(void **state)
{
    (void)state;
    open_consumer();
    assert_int_equal(consume("push", "{\"queue\":\"None\",\"jobs\":[{\"id\":\"a\",\"payload\":1}]}"), 404);
    shows("there is no queue \\\"None\\\"");
    assert_int_equal(pop("None"), 404);
    REDIS("FLUSHALL");
    assert_int_equal(pop("None"), 404);
}

static void test_queues_are_popped_in_their_order(void **state)
{
    (void)state;
    open_consumer();
    push_of("B", "b");
    push_of("A", "a");
    assert_int_equal(consume("pop", "{\"queues\":[\"A\",\"B\"],\"wait\":0}"), 200);
    assert_string_equal(text_member("id"), "a");
    assert_int_equal(consume("pop", "{\"queues\":[\"A\",\"B\"],\"wait\":0,\"weights\":[1,5],\"ttr\":0}"), 200);
    assert_string_equal(text_member("id"), "b");
    shows("\"token\":null");
}

static void test_bytes_travel_as_base64(void **state)
{
    (void)state;
    open_consumer();
    push_plain("Q", "a", 1, "\xff\x00z", 3, 0);
    pop_one("Q");
    shows("\"payloads\":[{\"base64\":\"/wB6\"}]");
    succeeds("push", "{\"jobs\":[{\"id\":{\"base64\":\"/w==\"},\"payload\":\"AAE=\"}],\"queue\":\"Q\",\"raw\":true}");
    assert_int_equal(consume("pop", "{\"queues\":[\"Q\"],\"wait\":0,\"raw\":true}"), 200);
    shows("\"id\":{\"base64\":\"/w==\"}");
    shows("\"payloads\":[\"AAE=\"]");
}

/* What is no base64 as a whole is not taken for what it begins with. */
static void test_broken_base64_is_refused(void **state)
{
    static const char *const broken[] = {"QQ==Qg==", "QUJDR", "QQ==x", "QQ=", "QQ===", "QUJD=", "=", "====", "Q?"};
    static const char *const whole[] = {"QQ==", "QQ", "QUI=", "QUI", "QUJD", "_-8"};
    char body[200];
    size_t i;
    (void)state;
    open_consumer();
    push_text("Q", "other", "1", 1000);
    for (i = 0; i < sizeof broken / sizeof *broken; i++) {
        snprintf(body, sizeof body, "{\"queue\":\"Q\",\"raw\":true,\"jobs\":[{\"id\":1,\"payload\":\"%s\"}]}",
                 broken[i]);
        if (consume("push", body) != 400)
            fail_msg("%s: %s", broken[i], browser.text);
        shows("jobs[0]: payload must be a text of base64");
        snprintf(body, sizeof body, "{\"queue\":\"Q\",\"jobs\":[{\"id\":{\"base64\":\"%s\"},\"payload\":1}]}",
                 broken[i]);
        if (consume("push", body) != 400)
            fail_msg("%s: %s", broken[i], browser.text);
        shows("jobs[0]: id must be {\\\"base64\\\": ");
    }
    for (i = 0; i < sizeof whole / sizeof *whole; i++) {
        snprintf(body, sizeof body, "{\"queue\":\"Q\",\"raw\":true,\"jobs\":[{\"id\":1,\"payload\":\"%s\"}]}",
                 whole[i]);
        succeeds("push", body);
    }
}

static void test_stored_json_is_delivered_unchanged(void **state)
{
    static const char *const texts[] = {"{\"user\":12345678901234567890,\"price\":1.10}",
                                        "[9223372036854775808, -0, 1e3, 100000000000000000000]",
                                        " {\"b\": 1.0,\n \"a\": \"\\u00e9\"} ", "12345678901234567890"};
    const char *token;
    char shown[200];
    size_t i;
    (void)state;
    open_consumer();
    for (i = 0; i < sizeof texts / sizeof *texts; i++) {
        push_plain("Q", "a", 1, texts[i], strlen(texts[i]), 0);
        token = pop_one("Q");
        snprintf(shown, sizeof shown, "\"payloads\":[%s]", texts[i]);
        shows(shown);
        assert_int_equal(report("ack", token, ""), 200);
    }
    push_plain("Q", "a", 1, "[1]x", 4, 0);
    pop_one("Q");
    shows("\"payloads\":[{\"base64\":\"WzFdeA==\"}]");
}

static void test_floats_beyond_int64_are_pushed(void **state)
{
    (void)state;
    open_consumer();
    push_text("Q", "other", "1", 1000);
    succeeds("push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":[1e20,-1.5e300,18446744073709551615.0,"
                     "9223372036854775807,-9223372036854775808]}]}");
    pop_one("Q");
    shows("\"payloads\":[[100000000000000000000,-1.5e+300,18446744073709552000,9223372036854775807,"
          "-9223372036854775808]]");
}

/* ---- Other results --------------------------------------------------------------------------- */

static void test_each_result_is_reported_once(void **state)
{
    static const char *const results[][2] = {{"ack", ""},
                                             {"release", ""},
                                             {"fail", ",\"error\":\"broken\",\"retry_in\":0"},
                                             {"snooze", ",\"seconds\":0,\"payload\":[5]"}};
    char token[1000];
    size_t i;
    (void)state;
    open_consumer();
    for (i = 0; i < sizeof results / sizeof *results; i++) {
        push_of("Q", "a");
        snprintf(token, sizeof token, "%s", pop_one("Q"));
        assert_int_equal(report("extend", token, ",\"seconds\":60"), 200);
        if (report(results[i][0], token, results[i][1]) != 200)
            fail_msg("%s: %s", results[i][0], browser.text);
        assert_int_equal(report(results[i][0], token, results[i][1]), 409);
        assert_int_equal(report("extend", token, ",\"seconds\":60"), 409);
        if (i == 0)
            continue;
        assert_int_equal(report("ack", pop_one("Q"), ""), 200);
    }
    push_of("Q", "a");
    assert_int_equal(report("fail", pop_one("Q"), ",\"error\":\"\\u0000 broken\""), 200);
    assert_int_equal(pop("Q"), 204);
    browser.request.role = SERIATIM_WEB_ADMIN;
    get("/api/v1/queues/Q/id?id=a");
    shows("broken");
}

static void test_a_checkpoint_leaves_the_rest(void **state)
{
    char token[1000];
    (void)state;
    open_consumer();
    push_text("Q", "other", "1", 1000);
    succeeds("push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":\"a\",\"payload\":1},{\"id\":\"a\",\"payload\":2},"
                     "{\"id\":\"a\",\"payload\":3}]}");
    snprintf(token, sizeof token, "%s", pop_one("Q"));
    shows("\"payloads\":[1,2,3]");
    assert_int_equal(report("checkpoint", token, ",\"count\":4"), 400);
    shows("the delivery has only 3 payloads");
    assert_int_equal(report("checkpoint", token, ",\"count\":2"), 200);
    assert_int_equal(report("release", token, ""), 200);
    pop_one("Q");
    shows("\"payloads\":[3]");
    assert_int_equal(report("checkpoint", token, ",\"count\":2"), 409);
}

static void test_forged_tokens_do_nothing(void **state)
{
    char token[1000];
    (void)state;
    open_consumer();
    push_of("Q", "a");
    snprintf(token, sizeof token, "%s", pop_one("Q"));
    assert_int_equal(report("ack", "x", ""), 400);
    shows("token must be the token of a delivery");
    token[5] = token[5] == 'A' ? 'B' : 'A'; /* in the fence */
    assert_in_range(report("ack", token, ""), 400, 409);
    REDIS("FLUSHALL");
    snprintf(token, sizeof token, "%s", "");
    push_of("Gone", "a");
    snprintf(token, sizeof token, "%s", pop_one("Gone"));
    REDIS("FLUSHALL");
    open_consumer(); /* another process, which does not know the queue */
    assert_int_equal(report("ack", token, ""), 409);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void test_r_http_2_only_consumers_and_admins_consume(void **state)
{
    static const int roles[] = {SERIATIM_WEB_NOBODY, SERIATIM_WEB_VIEWER, SERIATIM_WEB_OPERATOR, SERIATIM_WEB_ADMIN};
    static const int statuses[] = {401, 403, 403, 204};
    size_t i;
    (void)state;
    open_consumer();
    push_text("Q", "a", "1", 1000);
    for (i = 0; i < 4; i++) {
        browser.request.role = roles[i];
        assert_int_equal(pop("Q"), statuses[i]);
    }
    browser.request.role = SERIATIM_WEB_CONSUMER;
    assert_int_equal(ask("GET", "/api/v1/stats", NULL), 403);
    assert_int_equal(ask("GET", "/metrics", NULL), 403);
    assert_int_equal(ask("POST", "/api/web/Q/delete", "{\"ids\":[\"a\"]}"), 403);
    assert_int_equal(ask("GET", "/livez", NULL), 200);
    browser.settings.read_only = 1;
    assert_int_equal(pop("Q"), 403);
    browser.settings.read_only = 0;
    browser.settings.consume = 0;
    assert_int_equal(pop("Q"), 404);
    shows("consume: true");
    browser.request.role = SERIATIM_WEB_NOBODY;
    assert_int_equal(pop("Q"), 401);
}

static void test_a_page_of_another_site_cannot_consume(void **state)
{
    (void)state;
    open_consumer();
    push_text("Q", "a", "1", 1000);
    browser.request.origin = text_of("http://evil.example");
    assert_int_equal(pop("Q"), 403);
    browser.request.origin = text_of("http://localhost:9292");
    assert_int_equal(pop("Q"), 204);
    browser.request.sec_fetch_site = text_of("cross-site");
    assert_int_equal(pop("Q"), 403);
    browser.request.origin = browser.request.sec_fetch_site = text_of(NULL);
    browser.request.content_type = text_of("application/x-www-form-urlencoded");
    assert_int_equal(pop("Q"), 415);
    browser.request.content_type = text_of(NULL);
    assert_int_equal(pop("Q"), 415);
    browser.request.content_type = text_of("application/json; charset=utf-8");
    assert_int_equal(pop("Q"), 204);
    browser.settings.token = "secret";
    assert_int_equal(pop("Q"), 401);
    browser.request.authorization = text_of("Bearer secret");
    browser.request.sec_fetch_site = text_of("cross-site");
    assert_int_equal(pop("Q"), 204);
    assert_int_equal(ask("GET", "/api/v1/consume/pop", NULL), 405);
}

static void test_r_http_3_a_refusal_names_the_field_the_rule_and_the_value(void **state)
{
    static const char *const cases[][3] = {
        {"pop", "", "the body is not JSON"},
        {"pop", "[]", "the body must be a JSON object, not an array"},
        {"pop", "{}", "queues is missing"},
        {"pop", "{\"queues\":[]}", "queues must have at least one element"},
        {"pop", "{\"queues\":\"Q\"}", "queues must be an array of names, not \\\"Q\\\""},
        {"pop", "{\"queues\":[1]}", "queues[] must be a text of 1 to 512 bytes, not 1"},
        {"pop", "{\"queues\":[\"Q\"],\"wait\":61}", "wait must be a number from 0 to 60, not 61"},
        {"pop", "{\"queues\":[\"Q\"],\"wait\":\"2\"}", "wait must be a number from 0 to 60, not \\\"2\\\""},
        {"pop", "{\"queues\":[\"Q\"],\"max\":1.5}", "max must be a whole number from 1 to 1000, not 1.5"},
        {"pop", "{\"queues\":[\"Q\"],\"ttr\":0.0001}", "ttr must be 0, or 0.001 to 31536000 seconds"},
        {"pop", "{\"queues\":[\"Q\"],\"weights\":[1,2]}", "weights must have as many elements as queues: 1, not 2"},
        {"pop", "{\"queues\":[\"Q\"],\"raw\":1}", "raw must be true or false, not 1"},
        {"pop", "{\"queues\":[\"Q\"],\"queue\":1}", "unknown field \\\"queue\\\""},
        {"pop", "{\"queues\":[\"Q\"],\"wait\":1,\"wait\":2}", "wait is given twice in the body"},
        {"pop", "{\"queues\":[\"Q\"]} x", "the body is not JSON"},
        {"push", "{\"queue\":\"Q\"}", "jobs is missing"},
        {"push", "{\"queue\":\"Q\",\"jobs\":[1]}", "jobs[0]: it must be an object, not 1"},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":1}]}", "jobs[0]: payload is missing"},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"payload\":1}]}", "jobs[0]: id is missing"},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":true,\"payload\":1}]}",
         "jobs[0]: id must be a text or a whole number, not true"},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":1},{\"id\":1,\"payload\":1,\"score\":\"x\"}]}",
         "jobs[1]: score must be a number, not \\\"x\\\""},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":1,\"delay\":1,\"perform_at\":5}]}",
         "jobs[0]: perform_at: only one of perform_in, perform_at and delay may be given"},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":1,\"perform_at\":60}]}",
         "perform_in: 60 is in 1970; for seconds from now use deliver_in (this payload) or delay (its id)"},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":1,\"colour\":60}]}",
         "jobs[0]: unknown field \\\"colour\\\""},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":{\"a\":1,\"a\":2}}]}",
         "jobs[0]: payload.a: the key stands twice in one object"},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":1},{\"id\":1,\"payload\":9223372036854775808}]}",
         "jobs[1]: payload: an integer must be from -2^63 to 2^63-1"},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":{\"u\":[0,{\"id\":-12345678901234567890}]}}]}",
         "jobs[0]: payload.u[1].id: an integer must be from -2^63 to 2^63-1"},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":[1e400]}]}", "jobs[0]: payload[0]: at byte "},
        {"snooze", "{\"token\":\"x\",\"seconds\":0,\"payload\":{\"id\":12345678901234567890}}",
         "payload.id: an integer must be from -2^63 to 2^63-1"},
        {"push", "{\"queue\":\"Q\",\"raw\":true,\"jobs\":[{\"id\":1,\"payload\":{}}]}",
         "jobs[0]: payload must be a text of base64, because raw is true, not an object"},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":1,\"context\":[]}]}",
         "jobs[0]: context must be an object of texts, not an array"},
        {"push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":1,\"context\":{\"a\":\"b\",\"c\":1}}]}",
         "jobs[0]: context must be an object of texts"},
        {"ack", "{}", "token is missing"},
        {"fail", "{\"token\":\"x\"}", "error is missing"},
        {"extend", "{\"token\":\"x\",\"seconds\":-1}", "seconds must be a number from 0 to 3155760000, not -1"},
        {"checkpoint", "{\"token\":\"x\",\"count\":1}", "token must be the token of a delivery"},
        {"checkpoint", "{\"token\":\"x\",\"count\":0}", "count must be a whole number from 1 to 1000, not 0"},
        {"checkpoint", "{\"token\":\"x\"}", "count is missing"},
        {"ack", "{\"token\":\"x\",\"seconds\":1}", "unknown field \\\"seconds\\\""},
    };
    size_t i;
    (void)state;
    open_consumer();
    push_text("Q", "other", "1", 1000);
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (consume(cases[i][0], cases[i][1]) != 400 || !strstr(browser.text, cases[i][2]))
            fail_msg("%s %s: %d %s", cases[i][0], cases[i][1], browser.response->status, browser.text);
    }
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static int sockets[2];

static void leave(void)
{
    if (sockets[1] >= 0)
        close(sockets[1]);
    sockets[1] = -1;
}

static void push_meanwhile(void)
{
    browser.meanwhile = NULL;
    push_text("Q", "late", "5", 0);
}

static void test_r_http_4_a_poll_waits_and_ends_with_its_visitor(void **state)
{
    const char *body = "{\"queues\":[\"Q\"],\"wait\":20}";
    (void)state;
    open_consumer();
    push_text("Q", "other", "1", 1000);
    browser.meanwhile = push_meanwhile;
    succeeds("pop", body);
    assert_string_equal(text_member("id"), "late");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    browser.request.socket = sockets[0];
    browser.meanwhile = leave;
    assert_int_equal(consume("pop", body), 503);
    browser.meanwhile = NULL;
    browser.request.socket = 0;
    close(sockets[0]);
    push_text("Q", "kept", "6", 0);
    pop_one("Q");
    assert_string_equal(text_member("id"), "kept");
    shows("\"deliveries\":1,");
}

static void test_a_host_that_waits_itself_is_told_for_how_long(void **state)
{
    const char *body = "{\"queues\":[\"Q\"],\"wait\":3}";
    (void)state;
    open_consumer();
    push_text("Q", "other", "1", 1000);
    browser.request.host_waits = 1;
    assert_int_equal(consume("pop", body), 204);
    assert_in_range(browser.response->wait_ms, 1, 1000);
    browser.request.waited_ms = 2990;
    assert_int_equal(consume("pop", body), 204);
    assert_in_range(browser.response->wait_ms, 1, 10);
    browser.request.waited_ms = 3000;
    assert_int_equal(consume("pop", body), 204);
    assert_int_equal(browser.response->wait_ms, 0);
    push_text("Q", "late", "5", 0);
    succeeds("pop", body);
    assert_int_equal(browser.response->wait_ms, 0);
}

/* ---- Figures of each shard ------------------------------------------------------------------- */

static void test_r_http_6_each_shard_tells_when_it_is_due_next(void **state)
{
    double now, next;
    const char *at;
    (void)state;
    open_consumer();
    browser.request.role = SERIATIM_WEB_ADMIN;
    push_text("Q", "a", "1", 1000);
    get("/api/v1/queues/Q");
    shows("\"next_due\":null");
    at = strstr(browser.text, "\"next_due\":1");
    assert_non_null(at);
    next = strtod(at + strlen("\"next_due\":"), NULL);
    at = strstr(browser.text, "\"now\":");
    assert_non_null(at);
    now = strtod(at + strlen("\"now\":"), NULL);
    assert_true(next > now + 990 && next <= now + 1000);
}

/* ---- The description ------------------------------------------------------------------------- */

static void test_r_http_5_the_description_has_every_route(void **state)
{
    static const char prefix[] = "/api/v1/consume/";
    size_t count, i, described = 0, found = 0;
    const seriatim_web_route *routes = seriatim_web_routes(&count);
    const char *at;
    char part[100];
    (void)state;
    open_consumer();
    get("/api/v1/consume/openapi.json");
    shows("\"openapi\": \"3.1.0\"");
    for (i = 0; i < count; i++) {
        if (strncmp(routes[i].pattern, prefix, sizeof prefix - 1) != 0)
            continue;
        assert_int_equal(routes[i].role, SERIATIM_WEB_CONSUMER);
        snprintf(part, sizeof part, "\"%s\": {\n   \"%s\":", routes[i].pattern,
                 routes[i].method[0] == 'G' ? "get" : "post");
        shows(part);
        described++;
    }
    for (at = browser.text; (at = strstr(at, "\"/api/v1/consume/")); at++)
        found++;
    assert_int_equal(found, described);
    assert_int_equal(described, 9);
}

/* The process knows the queue from before. Nothing is made again, and no pop waits. */
static void test_consumers_of_a_queue_that_was_deleted_get_404_at_once(void **state)
{
    char token[1000];
    time_t began;
    redisReply *reply;
    (void)state;
    open_consumer();
    push_of("Q", "a");
    push_of("R", "a");
    snprintf(token, sizeof token, "%s", pop_one("Q"));
    delete_queue("Q");
    began = time(NULL);
    assert_int_equal(consume("pop", "{\"queues\":[\"R\",\"Q\"],\"wait\":5}"), 404);
    assert_non_null(strstr(browser.text, "there is no queue \\\"Q\\\""));
    assert_true(time(NULL) - began < 4);
    assert_int_equal(consume("push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":\"a\",\"payload\":1}]}"), 404);
    assert_int_equal(report("ack", token, ""), 409);
    reply = redis("EXISTS seriatim:{Q}:layout");
    assert_int_equal(reply->integer, 0);
    freeReplyObject(reply);
    assert_int_equal(consume("pop", "{\"queues\":[\"R\"],\"wait\":0}"), 200);
}

/* An empty layout is there for a push that looks for the queue, and is none for one that reads it. */
static void test_a_push_whose_queue_is_deleted_meanwhile_gets_404(void **state)
{
    (void)state;
    open_consumer();
    push_of("Q", "a");
    delete_queue("Q");
    REDIS("SET seriatim:{Q}:layout %s", "");
    assert_int_equal(consume("push", "{\"queue\":\"Q\",\"jobs\":[{\"id\":\"a\",\"payload\":1}]}"), 404);
    shows("there is no such queue: it was deleted meanwhile");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_consumers_of_a_queue_that_was_deleted_get_404_at_once),
        cmocka_unit_test(test_a_push_whose_queue_is_deleted_meanwhile_gets_404),
        cmocka_unit_test(test_r_http_1_an_id_is_pushed_popped_and_acknowledged),
        cmocka_unit_test(test_a_push_tells_what_became_of_each_job),
        cmocka_unit_test(test_a_queue_that_does_not_exist_is_not_made),
        cmocka_unit_test(test_queues_are_popped_in_their_order),
        cmocka_unit_test(test_bytes_travel_as_base64),
        cmocka_unit_test(test_broken_base64_is_refused),
        cmocka_unit_test(test_stored_json_is_delivered_unchanged),
        cmocka_unit_test(test_floats_beyond_int64_are_pushed),
        cmocka_unit_test(test_each_result_is_reported_once),
        cmocka_unit_test(test_a_checkpoint_leaves_the_rest),
        cmocka_unit_test(test_forged_tokens_do_nothing),
        cmocka_unit_test(test_r_http_2_only_consumers_and_admins_consume),
        cmocka_unit_test(test_a_page_of_another_site_cannot_consume),
        cmocka_unit_test(test_r_http_3_a_refusal_names_the_field_the_rule_and_the_value),
        cmocka_unit_test(test_r_http_4_a_poll_waits_and_ends_with_its_visitor),
        cmocka_unit_test(test_a_host_that_waits_itself_is_told_for_how_long),
        cmocka_unit_test(test_r_http_6_each_shard_tells_when_it_is_due_next),
        cmocka_unit_test(test_r_http_5_the_description_has_every_route),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

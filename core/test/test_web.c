/* test_web.c - the dashboard's requests against a real redis-server: what they answer, refuse and cost. */
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

#include "client.h"
#include "server.h"

/* ---- A browser ----------------------------------------------------------------------------- */

static struct browser {
    seriatim_link *link;
    seriatim_client *client;
    seriatim_web_settings settings;
    seriatim_web_request request;
    seriatim_web_redact *redact;
    const seriatim_web_response *response;
    char text[1 << 20]; /* the last body, NUL-terminated */
} browser;

static seriatim_text text_of(const char *text)
{
    seriatim_text t = {text, text ? strlen(text) : 0};
    return t;
}

static void open_browser(void)
{
    seriatim_error error;
    if (browser.link)
        seriatim_link_free(browser.link);
    memset(&browser, 0, sizeof browser);
    REDIS("CONFIG SET maxmemory 0");
    REDIS("FLUSHALL");
    assert_int_equal(seriatim_link_new(NULL, server.url, &browser.link, &error), SERIATIM_OK);
    browser.client = seriatim_link_client(browser.link);
    browser.request.host = text_of("localhost:9292");
    browser.request.role = SERIATIM_WEB_ADMIN;
    browser.request.content_type = text_of("application/json");
    browser.request.sec_fetch_site = text_of("same-origin");
}

static int drive(void)
{
    int status;
    while ((status = seriatim_link_step(browser.link)) == SERIATIM_AGAIN)
        seriatim_link_wait(browser.link);
    return status;
}

/* Asks for PATH[?QUERY] and returns the status. */
static int ask(const char *method, const char *target, const char *body)
{
    const char *question = strchr(target, '?');
    int status;
    browser.request.method = method;
    browser.request.path.data = target;
    browser.request.path.len = question ? (size_t)(question - target) : strlen(target);
    browser.request.query = text_of(question ? question + 1 : NULL);
    browser.request.body = text_of(body);
    status = seriatim_web_begin(browser.client, &browser.settings, &browser.request);
    if (status == SERIATIM_OK)
        status = drive();
    browser.response = seriatim_web_answer(browser.client, status, browser.redact, &browser);
    assert_true(browser.response->body.len < sizeof browser.text);
    memcpy(browser.text, browser.response->body.data, browser.response->body.len);
    browser.text[browser.response->body.len] = '\0';
    return browser.response->status;
}

static void get(const char *target)
{
    int status = ask("GET", target, NULL);
    if (status != 200)
        fail_msg("%s: %d %s", target, status, browser.text);
}

static void shows(const char *part)
{
    if (!strstr(browser.text, part))
        fail_msg("no %s in: %.2000s", part, browser.text);
}

static const char *header(const char *name)
{
    size_t i;
    for (i = 0; i < browser.response->header_count; i++)
        if (strcmp(browser.response->headers[i].name, name) == 0)
            return browser.response->headers[i].value;
    return NULL;
}

/* ---- Jobs ---------------------------------------------------------------------------------- */

static size_t queue_of(seriatim_client *client, const char *name, int64_t shards)
{
    seriatim_queue_settings settings;
    size_t queue = 0;
    seriatim_queue_settings_init(&settings);
    settings.name = name;
    settings.name_len = strlen(name);
    settings.shards_count = shards;
    assert_int_equal(seriatim_client_queue(client, &settings, &queue), SERIATIM_OK);
    return queue;
}

/* By a client of its own, as an application would. */
static void push(const char *name, const char *id, size_t len, const char *payload, size_t payload_len, double delay)
{
    seriatim_link *link;
    seriatim_client *client;
    seriatim_job job;
    int status;
    assert_int_equal(seriatim_link_new(NULL, server.url, &link, NULL), SERIATIM_OK);
    client = seriatim_link_client(link);
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = len;
    job.payload = payload;
    job.payload_len = payload_len;
    job.when = delay > 0 ? SERIATIM_DELAY : SERIATIM_NOW;
    job.time = delay;
    assert_int_equal(seriatim_push_begin(client, queue_of(client, name, 2)), SERIATIM_OK);
    assert_int_equal(seriatim_push_job(client, &job), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(client), SERIATIM_OK);
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        seriatim_link_wait(link);
    assert_int_equal(status, SERIATIM_OK);
    seriatim_link_free(link);
}

static void push_text(const char *name, const char *id, const char *payload, double delay)
{
    push(name, id, strlen(id), payload, strlen(payload), delay);
}

/* ---- All queues ---------------------------------------------------------------------------- */

static void test_dashboard_and_stats(void **state)
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
    shows("\"name\":\"Q\",\"parked\":0,\"paused\":0,\"processed\":0,\"refused\":0,\"retries\":0,\"shards\":2}");
    shows("\"name\":\"Other/Queue\"");
    shows("\"redis_info\":{\"connected_clients\":");
    shows("\"role\":\"admin\",\"title\":\"Seriatim\",\"version\":\"" SERIATIM_VERSION "\"}");
    get("/api/v1/stats");
    shows("\"Q\":{\"lag\":0.");
    shows("\"length\":3,\"morgue_length\":0}");
}

static void test_ranges(void **state)
{
    (void)state;
    open_browser();
    push_text("Q", "1", "{\"a\":1}", 0);
    push("Q", "\xff\0x", 3, "\xfe\xff", 2, 0);
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

/* ---- Refusals ------------------------------------------------------------------------------ */

/* A route's pattern with words in the places of its names. */
static const char *path_of(const char *pattern)
{
    static char path[256];
    size_t n = 0;
    for (; *pattern && n < sizeof path - 2; pattern++) {
        if (*pattern != ':') {
            path[n++] = *pattern;
            continue;
        }
        path[n++] = 'Q';
        while (pattern[1] && pattern[1] != '/')
            pattern++;
    }
    path[n] = '\0';
    return path;
}

/* All keys and what they hold. */
static void digest(char out[64])
{
    redisReply *reply = redis("DEBUG DIGEST");
    snprintf(out, 64, "%s", reply->str);
    freeReplyObject(reply);
}

static void fill(void)
{
    push_text("Q", "Q", "a", 0);
    push_text("Q", "2", "b", 1000);
}

static void refused(const seriatim_web_route *route, int status)
{
    int found = ask(route->method, path_of(route->pattern), route->mutates ? "{\"ids\":[\"Q\"]}" : NULL);
    if (found != status)
        fail_msg("%s %s: %d %s", route->method, route->pattern, found, browser.text);
    shows("{\"error\":\"");
}

static void test_every_route_asks_who_it_is(void **state)
{
    size_t count, i;
    const seriatim_web_route *routes = seriatim_web_routes(&count);
    char before[64], after[64];
    (void)state;
    open_browser();
    fill();
    digest(before);
    assert_true(count > 20);
    for (i = 0; i < count; i++) {
        if (routes[i].role == SERIATIM_WEB_NOBODY)
            continue;
        browser.request.role = SERIATIM_WEB_NOBODY;
        refused(&routes[i], 401);
        browser.request.role = SERIATIM_WEB_ADMIN;
        browser.settings.token = "secret";
        refused(&routes[i], 401);
        assert_string_equal(header("WWW-Authenticate"), "Bearer");
        browser.request.authorization = text_of("Bearer secreT");
        refused(&routes[i], 401);
        browser.request.authorization = text_of("Bearer secretsecret");
        refused(&routes[i], 401);
        browser.request.authorization = text_of(NULL);
        browser.settings.token = NULL;
        if (routes[i].role > SERIATIM_WEB_VIEWER) {
            browser.request.role = routes[i].role - 1;
            refused(&routes[i], 403);
            browser.request.role = SERIATIM_WEB_ADMIN;
        }
    }
    digest(after);
    assert_string_equal(before, after);
    browser.settings.token = "secret";
    browser.request.authorization = text_of("bearer secret");
    get("/api/v1/stats");
}

static void refuse_forgery(const seriatim_web_route *route)
{
    static const char *const sites[] = {"cross-site", "same-site", "none", "", "Same-Origin"};
    static const char *const origins[] = {"http://evil.example", "https://localhost:9292", "http://localhost:9293",
                                          "http://localhost:9292.evil.example", "null", "", NULL};
    static const char *const types[] = {NULL, "", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"};
    size_t i;
    for (i = 0; i < sizeof sites / sizeof *sites; i++) {
        browser.request.sec_fetch_site = text_of(sites[i]);
        browser.request.origin = text_of("http://localhost:9292");
        refused(route, 403);
    }
    browser.request.sec_fetch_site = text_of(NULL);
    for (i = 0; i < sizeof origins / sizeof *origins; i++) {
        browser.request.origin = text_of(origins[i]);
        refused(route, 403);
    }
    browser.request.sec_fetch_site = text_of("same-origin");
    for (i = 0; i < sizeof types / sizeof *types; i++) {
        browser.request.content_type = text_of(types[i]);
        refused(route, 403);
    }
    browser.request.content_type = text_of("application/json");
    browser.settings.read_only = 1;
    refused(route, 403);
    browser.settings.read_only = 0;
    if (ask("GET", path_of(route->pattern), NULL) != 405 || ask("HEAD", path_of(route->pattern), NULL) != 405)
        fail_msg("GET %s: %d", route->pattern, browser.response->status);
    assert_int_equal(ask("GET", path_of(route->pattern), NULL), 405);
    assert_string_equal(header("Allow"), "POST");
}

static void test_no_forgery_changes_anything(void **state)
{
    size_t count, i, mutating = 0;
    const seriatim_web_route *routes = seriatim_web_routes(&count);
    char before[64], after[64];
    (void)state;
    open_browser();
    fill();
    digest(before);
    for (i = 0; i < count; i++) {
        if (!routes[i].mutates) {
            ask(routes[i].method, path_of(routes[i].pattern), NULL);
            continue;
        }
        mutating++;
        assert_true(routes[i].role >= SERIATIM_WEB_OPERATOR && strcmp(routes[i].method, "POST") == 0);
        refuse_forgery(&routes[i]);
    }
    assert_true(mutating >= 12);
    digest(after);
    assert_string_equal(before, after);
    browser.request.sec_fetch_site = text_of(NULL);
    browser.request.origin = text_of("http://localhost:9292");
    browser.request.content_type = text_of("application/json; charset=utf-8");
    assert_int_equal(ask("POST", "/api/web/Q/delete", "{\"ids\":[\"Q\",2]}"), 200);
    assert_string_equal(browser.text, "{\"count\":2}");
}

static void test_hosts(void **state)
{
    static const char *const hosts[] = {"localhost", "jobs.example:8080"};
    static const char *const good[] = {"localhost", "localhost:9292", "LOCALHOST:1", "jobs.example:8080"};
    static const char *const bad[] = {"evil.example", "localhost.evil.example", "localhost:", "localhost:x", "jobs.example", "", NULL};
    size_t i;
    (void)state;
    open_browser();
    browser.settings.hosts = hosts;
    browser.settings.host_count = 2;
    for (i = 0; i < sizeof good / sizeof *good; i++) {
        browser.request.host = text_of(good[i]);
        get("/api/v1/stats");
        get("/");
    }
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        browser.request.host = text_of(bad[i]);
        assert_int_equal(ask("GET", "/api/v1/stats", NULL), 403);
        assert_int_equal(ask("GET", "/", NULL), 403);
    }
}

/* ---- The page ------------------------------------------------------------------------------ */

static void test_the_page(void **state)
{
    char path[300];
    const char *at;
    (void)state;
    open_browser();
    get("/");
    shows("<!doctype html>");
    assert_null(strstr(browser.text, "{{base}}"));
    at = strstr(browser.text, "\"assets/");
    assert_non_null(at);
    snprintf(path, sizeof path, "/assets/%.12s/api.js", at + strlen("\"assets/"));
    get(path);
    assert_string_equal(header("Cache-Control"), "public, max-age=86400");
    get("/queues/a%2Fb/\"><script>");
    shows("\"../../assets/");
    assert_null(strstr(browser.text, "<script>"));
    assert_string_equal(header("Content-Security-Policy"),
                        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
                        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'");
    assert_string_equal(header("X-Content-Type-Options"), "nosniff");
    assert_string_equal(header("X-Frame-Options"), "DENY");
    assert_string_equal(header("Referrer-Policy"), "no-referrer");
    assert_string_equal(header("Cache-Control"), "no-store");
    assert_int_equal(ask("HEAD", "/", NULL), 200);
    assert_int_equal(browser.response->body.len, 0);
    assert_int_equal(ask("POST", "/", "{}"), 405);
    assert_int_equal(ask("DELETE", "/api/v1/stats", NULL), 405);
    assert_int_equal(ask("GET", "/api/none", NULL), 404);
    assert_string_equal(browser.text, "{\"error\":\"not found\"}");
    browser.settings.token = "secret"; /* the page asks for it */
    get("/");
    get(path);
}

static void test_no_other_file(void **state)
{
    static const char *const paths[] = {
        "/assets/x/../index.html", "/assets/x/..%2findex.html", "/assets/x/%2e%2e/%2e%2e/etc/passwd", "/assets//etc/passwd",
        "/assets/x/app.js%00", "/assets/x/..\\app.js", "/assets/x/%c0%ae%c0%ae/app.js", "/assets", "/assets/", "/assets/x",
        "/assets/x/", "/assets/x/app.js/"};
    size_t i;
    (void)state;
    open_browser();
    for (i = 0; i < sizeof paths / sizeof *paths; i++)
        if (ask("GET", paths[i], NULL) != 404)
            fail_msg("%s: %d", paths[i], browser.response->status);
}

static void test_redirect(void **state)
{
    static const char *const bad[] = {"//evil.example", "/a//b", "/a\r\nX: y", "a", "/a b", "https://evil.example", "/\\evil", "/\x80"};
    size_t i;
    (void)state;
    open_browser();
    browser.request.prefix = text_of("/admin/jobs");
    assert_int_equal(ask("GET", "", NULL), 308);
    assert_string_equal(header("Location"), "/admin/jobs/");
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        browser.request.prefix = text_of(bad[i]);
        assert_int_equal(ask("GET", "", NULL), 404);
        assert_null(header("Location"));
    }
}

/* ---- Actions ------------------------------------------------------------------------------- */

static void test_actions(void **state)
{
    (void)state;
    open_browser();
    fill();
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
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"ids\":"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/park", "[]"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"other\":1}"), 400);
}

/* What the host's own workers say makes no queue: only a push does. */
static void test_looking_makes_no_queue(void **state)
{
    redisReply *reply;
    (void)state;
    open_browser();
    queue_of(browser.client, "Mine", 3);
    get("/api/web/Mine/range_by_id");
    assert_string_equal(browser.text, "[]");
    get("/api/web/dashboard");
    shows("\"name\":\"Mine\"");
    reply = redis("DBSIZE");
    assert_int_equal(reply->integer, 0);
    freeReplyObject(reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dashboard_and_stats),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_every_route_asks_who_it_is),
        cmocka_unit_test(test_no_forgery_changes_anything),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_the_page),
        cmocka_unit_test(test_no_other_file),
        cmocka_unit_test(test_redirect),
        cmocka_unit_test(test_actions),
        cmocka_unit_test(test_looking_makes_no_queue),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

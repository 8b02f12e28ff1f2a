/* test_web_refusals.c - which requests are refused, and what is served without Redis; against a real redis-server. */
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

static const char *header(const char *name)
{
    size_t i;
    for (i = 0; i < browser.response->header_count; i++)
        if (strcmp(browser.response->headers[i].name, name) == 0)
            return browser.response->headers[i].value;
    return NULL;
}

/* All keys and what they hold. */
static void digest(char out[64])
{
    redisReply *reply = redis("DEBUG DIGEST");
    snprintf(out, 64, "%s", reply->str);
    freeReplyObject(reply);
}

static void refused(const seriatim_web_route *route, int status)
{
    int found = ask(route->method, path_of(route->pattern), route->action ? "{\"ids\":[\"Q\"]}" : NULL);
    if (found != status)
        fail_msg("%s %s: %d %s", route->method, route->pattern, found, browser.text);
    shows("{\"error\":\"");
}

static void test_d2_every_route_asks_for_its_role(void **state)
{
    size_t count, i;
    const seriatim_web_route *routes = seriatim_web_routes(&count);
    char before[64], after[64];
    (void)state;
    open_browser();
    browser.settings.consume = 1;
    push_two();
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
            browser.request.role = routes[i].role == SERIATIM_WEB_CONSUMER ? SERIATIM_WEB_OPERATOR : routes[i].role - 1;
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
    static const char *const origins[] = {"http://evil.example",
                                          "https://localhost:9292",
                                          "http://localhost:9293",
                                          "http://localhost:9292.evil.example",
                                          "null",
                                          "",
                                          NULL};
    static const char *const types[] = {
        NULL, "", "text/plain", "multipart/form-data", "application/x-www-form-urlencodedx", "application/jsonp"};
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
        refused(route, 415);
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

static void test_d5_a_request_of_another_site_changes_nothing(void **state)
{
    size_t count, i, mutating = 0;
    const seriatim_web_route *routes = seriatim_web_routes(&count);
    char before[64], after[64];
    (void)state;
    open_browser();
    push_two();
    another_measures();
    digest(before);
    for (i = 0; i < count; i++) {
        if (!routes[i].action) {
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

/* As a script of curl's asks: `curl -H "Authorization: Bearer secret" -d "ids[]=a" URL`. */
static void test_form_bodies_are_taken(void **state)
{
    (void)state;
    open_browser();
    push_two();
    push_text("Q", "a b&=%", "x", 0);
    push_text("Q", "\xff", "x", 0);
    browser.request.content_type = text_of("application/x-www-form-urlencoded");
    assert_int_equal(ask("POST", "/api/web/Q/park", "ids[]=Q&ids%5B%5D=2&ids[]=none"), 200);
    assert_string_equal(browser.text, "{\"count\":2}");
    assert_int_equal(ask("POST", "/api/web/Q/delete", "ids[]=a+b%26%3D%25&ids[]=%FF"), 200);
    assert_string_equal(browser.text, "{\"count\":2}");
    assert_int_equal(ask("POST", "/api/web/Q/unpark_all", ""), 200);
    assert_int_equal(ask("POST", "/api/v1/queues/Q/errors/00/delete", "cursor="), 200);
    assert_int_equal(ask("POST", "/api/web/Q/unpark_all", "slice=yes"), 400);
    shows("slice (1 or 0)");
    assert_int_equal(ask("POST", "/api/web/Q/unpark_all", "slice=0"), 200);
    browser.request.content_type = text_of("application/x-www-form-urlencoded; charset=utf-8");
    assert_int_equal(ask("POST", "/api/web/Q/drop_payload", "id=Q&key=" KEY), 200);
    assert_string_equal(browser.text, "{\"count\":0}");
    browser.request.content_type = text_of(NULL);
    assert_int_equal(ask("POST", "/api/web/Q/pause", ""), 200);
    assert_int_equal(ask("POST", "/api/web/Q/resume", NULL), 200);
    browser.request.content_type = text_of("text/plain"); /* so wsgiref says where the field is missing */
    assert_int_equal(ask("POST", "/api/web/Q/pause", NULL), 200);
    assert_int_equal(ask("POST", "/api/web/Q/resume", ""), 200);
}

/* A worker's name stands for its queue, unless a queue is named so. */
static void test_r_web_2_a_worker_s_name_stands_for_its_queue(void **state)
{
    static const seriatim_web_worker workers[] = {{{"WQ", 2}, {"other queue", 11}}, {{"Q", 1}, {"of Q", 4}},
                                                  {{"Same", 4}, {"one", 3}},        {{"Same", 4}, {"two", 3}},
                                                  {{"New", 3}, {"none yet", 8}},    {{"Loop", 4}, {"WQ", 2}}};
    (void)state;
    open_browser();
    push_text("other queue", "a", "x", 0);
    push_text("Q", "b", "x", 0);
    push_text("of Q", "c", "x", 0);
    push_text("one", "d", "x", 0);
    assert_int_equal(ask("GET", "/api/web/WQ/range_by_id?min=-&max=%2B", NULL), 404);
    browser.settings.workers = workers;
    browser.settings.worker_count = sizeof workers / sizeof *workers;
    get("/api/v1/stats");
    shows("\"WQ\":{\"lag\":");
    shows("\"Q\":{\"lag\":");
    shows("\"of Q\":{\"lag\":");
    shows("\"one\":{\"lag\":");
    assert_null(strstr(browser.text, "other queue"));
    get("/api/web/WQ/range_by_id?min=-&max=%2B");
    shows("\"id\":\"a\"");
    get_first("/api/web/WQ/range_by_id?min=-&max=%2B");
    shows("\"id\":\"a\"");
    get("/api/web/other%20queue/range_by_id?min=-&max=%2B");
    shows("\"id\":\"a\"");
    get("/api/web/Q/range_by_id?min=-&max=%2B");
    shows("\"id\":\"b\"");
    assert_int_equal(ask("POST", "/api/web/WQ/delete", "{\"ids\":[\"a\"]}"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    assert_memory_equal(seriatim_web_change_of(browser.client)->queue.data, "other queue", 11);
    assert_int_equal(ask("POST", "/api/web/Same/pause", NULL), 404);
    assert_int_equal(ask("POST", "/api/web/New/pause", NULL), 404);
    assert_int_equal(ask("POST", "/api/web/Loop/pause", NULL), 404);
    assert_int_equal(ask("GET", "/api/v1/queues/WQ", NULL), 404);
}

static void test_invalid_form_bodies_are_refused(void **state)
{
    static const char *const bodies[] = {"",  "ids=a",        "ids[]", "ids[]=", "ids[]=a&x=1", "{\"ids\":[\"a\"]}",
                                         "&", "id=a&key=" KEY};
    static const char *const drops[] = {
        "", "id=a", "key=" KEY, "id=&key=" KEY, "id=a&key=0", "id=a&key=" KEY "&ids[]=a", "ids[]=a"};
    static char many[12 * 1001 + 1];
    size_t i;
    (void)state;
    open_browser();
    push_two();
    browser.request.content_type = text_of("application/x-www-form-urlencoded");
    for (i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (ask("POST", "/api/web/Q/delete", bodies[i]) != 400)
            fail_msg("%s: %s", bodies[i], browser.text);
    for (i = 0; i < sizeof drops / sizeof *drops; i++)
        if (ask("POST", "/api/web/Q/drop_payload", drops[i]) != 400)
            fail_msg("%s: %s", drops[i], browser.text);
    assert_int_equal(ask("POST", "/api/web/Q/pause", "ids[]=a"), 400);
    for (i = 0; i < 1001; i++)
        memcpy(many + 8 * i, "ids[]=a&", 8);
    assert_int_equal(ask("POST", "/api/web/Q/delete", many), 400);
    shows("the form must have ids[], at most 1000 times");
    many[8 * 1000] = '\0';
    assert_int_equal(ask("POST", "/api/web/Q/delete", many), 200);
}

/* No browser adds a bearer token to what another site sends, so it takes the place of the Origin. */
static void test_a_token_needs_no_origin(void **state)
{
    (void)state;
    open_browser();
    push_two();
    browser.settings.token = "secret";
    browser.request.authorization = text_of("Bearer secret");
    browser.request.sec_fetch_site = text_of(NULL);
    assert_int_equal(ask("POST", "/api/web/Q/pause", NULL), 200);
    browser.request.content_type = text_of("application/x-www-form-urlencoded");
    assert_int_equal(ask("POST", "/api/web/Q/delete", "ids[]=Q"), 200);
    browser.request.authorization = text_of("Bearer wrong");
    assert_int_equal(ask("POST", "/api/web/Q/delete", "ids[]=2"), 401);
    browser.settings.token = NULL;
    assert_int_equal(ask("POST", "/api/web/Q/delete", "ids[]=2"), 403);
    shows("a change needs the header Origin");
    browser.request.origin = text_of("https://localhost:9292");
    assert_int_equal(ask("POST", "/api/web/Q/delete", "ids[]=2"), 403);
    shows("another site: its Origin is not scheme and Host");
}

static void test_d6_foreign_hosts_are_refused(void **state)
{
    static const char *const hosts[] = {"localhost", "jobs.example:8080", "[::1]", "[fe80::2]:8080"};
    static const char *const good[] = {"localhost", "localhost:9292", "LOCALHOST:1",   "jobs.example:8080",
                                       "[::1]",     "[::1]:9292",     "[FE80::2]:8080"};
    static const char *const bad[] = {"evil.example",
                                      "localhost.evil.example",
                                      "localhost:",
                                      "localhost:x",
                                      "jobs.example",
                                      "[::1]:",
                                      "[::1]:x",
                                      "[fe80::2]",
                                      "[fe80::2]:8081",
                                      "::1",
                                      "",
                                      NULL};
    size_t i;
    (void)state;
    open_browser();
    browser.settings.hosts = hosts;
    browser.settings.host_count = sizeof hosts / sizeof *hosts;
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

/* What the browser sends in Accept-Encoding; 1: the file comes compressed. */
static const struct {
    const char *accepted;
    int packed;
} encodings[] = {{"gzip", 1},
                 {"deflate, br ,\tGZip ;q=0.5", 1},
                 {"identity;q=0.5, gzip;q=0.001", 1},
                 {"gzip;q=1", 1},
                 {NULL, 0},
                 {"", 0},
                 {",", 0},
                 {"*", 0},
                 {"x-gzip, gzipped, br", 0},
                 {"gzip;q=0", 0},
                 {"gzip; q=0.000, br", 0}};

static void packed(const char *file)
{
    size_t i, len;
    get(file);
    len = browser.response->body.len;
    for (i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        const unsigned char *body;
        browser.request.accept_encoding = text_of(encodings[i].accepted);
        get(file);
        body = (const unsigned char *)browser.response->body.data;
        assert_string_equal(header("Vary"), "Accept-Encoding");
        assert_int_equal(header("Content-Encoding") != NULL, encodings[i].packed);
        assert_int_equal(body[0] == 0x1f && body[1] == 0x8b, encodings[i].packed);
        assert_true(encodings[i].packed ? browser.response->body.len < len / 2 : browser.response->body.len == len);
    }
    browser.request.accept_encoding = text_of("gzip");
    get("/"); /* holds what is of the request */
    assert_null(header("Content-Encoding"));
    get("/api/v1/stats");
    assert_null(header("Content-Encoding"));
    browser.request.accept_encoding = text_of(NULL);
}

static void test_r_web_1_unknown_paths_are_answered_with_the_page(void **state)
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
    snprintf(path, sizeof path, "/assets/%.12s/app/api.js", at + strlen("\"assets/"));
    get(path);
    assert_string_equal(header("Cache-Control"), "public, max-age=86400");
    packed(path);
    get("/assets/another/app/api.js"); /* during an update, of a process of another version */
    assert_string_equal(header("Cache-Control"), "no-store");
    get("/queues/a%2Fb/\"><script>");
    shows("\"../../assets/");
    assert_null(strstr(browser.text, "<script>"));
    assert_string_equal(
        header("Content-Security-Policy"),
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

static void test_d7_no_file_outside_the_table_is_served(void **state)
{
    static const char *const paths[] = {"/assets/x/../index.html",
                                        "/assets/x/..%2findex.html",
                                        "/assets/x/%2e%2e/%2e%2e/etc/passwd",
                                        "/assets//etc/passwd",
                                        "/assets/x/app/app.js%00",
                                        "/assets/x/..\\app\\app.js",
                                        "/assets/x/%c0%ae%c0%ae/app/app.js",
                                        "/assets",
                                        "/assets/",
                                        "/assets/x",
                                        "/assets/x/",
                                        "/assets/x/app/app.js/",
                                        "/assets/x/app/../app/app.js",
                                        "/assets/x/app",
                                        "/assets/x/app/"};
    size_t i;
    (void)state;
    open_browser();
    for (i = 0; i < sizeof paths / sizeof *paths; i++)
        if (ask("GET", paths[i], NULL) != 404)
            fail_msg("%s: %d", paths[i], browser.response->status);
}

static void test_a_missing_slash_is_redirected(void **state)
{
    static const char *const bad[] = {"//evil.example",       "/a//b",   "/a\r\nX: y", "a", "/a b",
                                      "https://evil.example", "/\\evil", "/\x80"};
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

static void test_r_web_9_invalid_parameters_are_refused(void **state)
{
    static const char *const bad[] = {"/api/v1/queues/Q/records?limit=0",
                                      "/api/v1/queues/Q/records?limit=101",
                                      "/api/v1/queues/Q/records?limit=x",
                                      "/api/v1/queues/Q/records?part=all",
                                      "/api/v1/queues/Q/records?by=x",
                                      "/api/v1/queues/Q/records?order=x",
                                      "/api/v1/queues/Q/records?cursor=x",
                                      "/api/v1/queues/Q/records?cursor=1.2",
                                      "/api/v1/queues/Q/records?cursor=0.0.0.0.00",
                                      "/api/v1/queues/Q/records?cursor=0.0.0.1.zz",
                                      "/api/v1/queues/Q/records?cursor=0.0.0.1.0.zz",
                                      "/api/v1/queues/Q/records?cursor=0.0.0.0.0.000000000000000061", /* nothing read */
                                      "/api/v1/queues/Q/records?cursor=0.5.0.0.1.000000000000000061", /* backwards */
                                      "/api/v1/queues/Q/records?by=time&cursor=00",
                                      "/api/v1/queues/Q/records?by=time&from=x",
                                      "/api/v1/queues/Q/records?by=time&prefix=1",
                                      "/api/v1/queues/Q/records?part=dead&by=retry_count",
                                      "/api/v1/queues/Q/records?part=waiting&error=0123456789abcdef",
                                      "/api/v1/queues/Q/records?part=retrying&by=retry_count&error=0123456789abcdef",
                                      "/api/v1/queues/Q/records?by=time&cursor=ffffffffffffffff",
                                      "/api/v1/queues/Q/id",
                                      "/api/v1/queues/Q/id?id=",
                                      "/api/v1/queues/Q/errors?part=waiting",
                                      "/api/v1/queues/Q/errors?cursor=;",
                                      "/api/v1/queues/Q/hottest?cursor=0.x.0",
                                      "/api/v1/queues/Q/ages?cursor=0.x.0",
                                      "/api/v1/search",
                                      "/api/v1/search?q=a&prefix=1",
                                      "/api/v1/history?span=2h",
                                      "/api/v1/running?limit=1001"};
    static const char *const absent[] = {
        "/api/v1/queues/None",         "/api/v1/queues/None/records", "/api/v1/queues/None/id?id=1",
        "/api/v1/queues/None/hottest", "/api/v1/queues/None/ages",    "/api/v1/queues/None/bytes",
        "/api/v1/queues/None/errors",  "/api/v1/history?queue=None",  "/api/v1/search?q=a&prefix=1&queue=None",
        "/api/v1/queues/%00",          "/api/v1/queues/Q/none"};
    size_t i;
    (void)state;
    open_browser();
    push_two();
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        if (ask("GET", bad[i], NULL) != 400)
            fail_msg("%s: %d %s", bad[i], browser.response->status, browser.text);
    assert_int_equal(ask("GET", "/api/v1/queues/Q/records?limit=101", NULL), 400);
    shows("limit must be from 1 to 100\"");
    assert_int_equal(ask("GET", "/api/v1/running?limit=1001", NULL), 400);
    shows("limit must be from 1 to 1000\"");
    for (i = 0; i < sizeof absent / sizeof *absent; i++)
        if (ask("GET", absent[i], NULL) != 404)
            fail_msg("%s: %d %s", absent[i], browser.response->status, browser.text);
    get("/api/v1/queues/Q/records?cursor=999999.0.0"); /* behind the end */
    shows("\"records\":[]");
    get("/api/v1/queues/Q/records?by=time&cursor=000000000000000000"); /* before all */
    shows("\"id\":\"Q\"");
}

/* The dashboard would measure the queues for their histories, which it leaves then. */
static void test_a_redis_user_who_may_only_read_sees_the_pages_and_is_told_so_of_a_change(void **state)
{
    seriatim_error error;
    char url[160];
    (void)state;
    open_browser();
    push_ids(3);
    seriatim_link_free(browser.link);
    REDIS("ACL SETUSER limited on >secret ~* &* +@all -@write +eval +evalsha");
    snprintf(url, sizeof url, "unix://limited:secret@%s", server.socket);
    assert_int_equal(seriatim_link_new(NULL, url, &browser.link, &error), SERIATIM_OK);
    browser.client = seriatim_link_client(browser.link);
    get("/api/web/dashboard");
    shows("\"name\":\"Q\"");
    get("/api/web/Q/range_by_id");
    shows("\"id\":\"1\"");
    assert_int_equal(ask("POST", "/api/web/Q/delete", "{\"ids\":[\"1\"]}"), 503);
    shows("Redis cannot be asked now: Redis answers, but its user may not write, or lacks another right; nothing was "
          "changed");
    REDIS("ACL DELUSER limited");
}

/* A dashboard that has shown a queue finds out that it was deleted: on each page, and before each change. */
static void test_a_queue_that_was_deleted_is_answered_with_404(void **state)
{
    static const char *const pages[] = {"/api/v1/queues/Q",
                                        "/api/v1/queues/Q/records",
                                        "/api/v1/queues/Q/records?by=time",
                                        "/api/v1/queues/Q/id?id=1",
                                        "/api/v1/history?queue=Q",
                                        "/api/v1/queues/Q/ages",
                                        "/api/v1/queues/Q/hottest",
                                        "/api/v1/queues/Q/bytes",
                                        "/api/v1/queues/Q/errors",
                                        "/api/v1/queues/Q/scheduled",
                                        "/api/v1/search?q=1&queue=Q&prefix=1",
                                        "/api/web/Q/range_by_id",
                                        "/api/v1/queues/Q/records?cursor=0.0.0"};
    static const char *const changes[][2] = {{"/api/web/Q/pause", "{}"},
                                             {"/api/web/Q/perform_all_jobs_now", "{\"slice\":true}"},
                                             {"/api/web/Q/delete", "{\"ids\":[\"1\"]}"},
                                             {"/api/web/Q/reshard", "{\"shards\":4}"},
                                             {"/api/v1/queues/Q/errors/0000000000000000/queue_up", "{}"}};
    size_t i, time;
    (void)state;
    open_browser();
    for (time = 0; time < 2; time++) {
        push_ids(3);
        for (i = 0; i < sizeof pages / sizeof *pages; i++)
            get(pages[i]);
        assert_int_equal(ask("POST", "/api/web/Q/pause", "{}"), 200);
        delete_queue("Q");
        for (i = 0; i < sizeof pages / sizeof *pages; i++)
            if (ask("GET", pages[i], NULL) != 404)
                fail_msg("%s: %d %s", pages[i], browser.response->status, browser.text);
        for (i = 0; i < sizeof changes / sizeof *changes; i++)
            if (ask("POST", changes[i][0], changes[i][1]) != 404)
                fail_msg("%s: %d %s", changes[i][0], browser.response->status, browser.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_queue_that_was_deleted_is_answered_with_404),
        cmocka_unit_test(test_d2_every_route_asks_for_its_role),
        cmocka_unit_test(test_d5_a_request_of_another_site_changes_nothing),
        cmocka_unit_test(test_form_bodies_are_taken),
        cmocka_unit_test(test_invalid_form_bodies_are_refused),
        cmocka_unit_test(test_a_token_needs_no_origin),
        cmocka_unit_test(test_r_web_2_a_worker_s_name_stands_for_its_queue),
        cmocka_unit_test(test_d6_foreign_hosts_are_refused),
        cmocka_unit_test(test_r_web_1_unknown_paths_are_answered_with_the_page),
        cmocka_unit_test(test_d7_no_file_outside_the_table_is_served),
        cmocka_unit_test(test_a_missing_slash_is_redirected),
        cmocka_unit_test(test_r_web_9_invalid_parameters_are_refused),
        cmocka_unit_test(test_a_redis_user_who_may_only_read_sees_the_pages_and_is_told_so_of_a_change),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

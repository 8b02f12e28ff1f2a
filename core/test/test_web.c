/* test_web.c - the dashboard's requests against a real redis-server: what they answer, refuse and cost. */
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

#define SRT_SCRIPT_TEXTS
#include "client/client.h"
#include "model/history.h"
#include "server.h"

/* ---- A browser ----------------------------------------------------------------------------- */

static struct browser {
    seriatim_link *link;
    seriatim_client *client;
    seriatim_web_settings settings;
    seriatim_web_request request;
    seriatim_web_hooks hooks;
    int64_t history; /* history_per_id of workers */
    const seriatim_web_response *response;
    void (*meanwhile)(void); /* NULL, or what is done whenever it waits */
    char text[1 << 20];      /* the last body, NUL-terminated */
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
    browser.hooks.context = &browser;
    browser.request.host = text_of("localhost:9292");
    browser.request.role = SERIATIM_WEB_ADMIN;
    browser.request.content_type = text_of("application/json");
    browser.request.sec_fetch_site = text_of("same-origin");
}

/* Another process measures the queues for the next seconds, so looking at the dashboard writes nothing. */
static void another_measures(void)
{
    redisReply *reply = redis("TIME");
    redisReply *answer = redis("SET seriatim:{/nodes}:sampler %lld000000%s",
                               strtoll(reply->element[0]->str, NULL, 10) + 14, " 1 another");
    freeReplyObject(reply);
    freeReplyObject(answer);
}

static int drive(void)
{
    int status;
    while ((status = seriatim_link_step(browser.link)) == SERIATIM_AGAIN) {
        seriatim_link_wait(browser.link);
        if (browser.meanwhile)
            browser.meanwhile();
    }
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
    while (!(browser.response = seriatim_web_answer(browser.client, status, &browser.hooks)))
        status = drive();
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

/* As `get`, by a browser that comes for the first time. */
static void get_first(const char *target)
{
    seriatim_link *kept = browser.link;
    assert_int_equal(seriatim_link_new(NULL, server.url, &browser.link, NULL), SERIATIM_OK);
    browser.client = seriatim_link_client(browser.link);
    get(target);
    seriatim_link_free(browser.link);
    browser.link = kept;
    browser.client = seriatim_link_client(kept);
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

static seriatim_job job_of(const char *id, size_t len, const char *payload, size_t payload_len, double delay)
{
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = len;
    job.payload = payload;
    job.payload_len = payload_len;
    job.when = delay > 0 ? SERIATIM_DELAY : SERIATIM_NOW;
    job.time = delay;
    return job;
}

/* By a client of its own, as an application would. */
static void push_job(const char *name, const seriatim_job *job)
{
    seriatim_link *link;
    seriatim_client *client;
    int status;
    assert_int_equal(seriatim_link_new(NULL, server.url, &link, NULL), SERIATIM_OK);
    client = seriatim_link_client(link);
    assert_int_equal(seriatim_push_begin(client, queue_of(client, name, 2)), SERIATIM_OK);
    assert_int_equal(seriatim_push_job(client, job), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(client), SERIATIM_OK);
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        seriatim_link_wait(link);
    assert_int_equal(status, SERIATIM_OK);
    seriatim_link_free(link);
}

static void push(const char *name, const char *id, size_t len, const char *payload, size_t payload_len, double delay)
{
    seriatim_job job = job_of(id, len, payload, payload_len, delay);
    push_job(name, &job);
}

static void push_text(const char *name, const char *id, const char *payload, double delay)
{
    push(name, id, strlen(id), payload, strlen(payload), delay);
}

/* So many ids, 0 and so on, with a payload each, onto the queue Q. */
static void push_ids(int count)
{
    char id[12];
    int i;
    for (i = 0; i < count; i++) {
        snprintf(id, sizeof id, "%d", i);
        push_text("Q", id, "x", 0);
    }
}

/* ---- All queues ---------------------------------------------------------------------------- */

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
          "\"retries\":0,\"scheduled\":0,\"shards\":2,\"stale\":0}");
    shows("\"name\":\"Other/Queue\"");
    shows("\"redis_info\":{\"connected_clients\":");
    shows("\"role\":\"admin\",\"title\":\"Seriatim\",\"version\":\"" SERIATIM_VERSION "\"}");
    get("/api/v1/stats");
    shows("\"Q\":{\"lag\":0.");
    shows("\"length\":3,\"morgue_length\":0}");
}

/* An id that has failed so often, and waits for its next run. */
static void push_failed(const char *id, double delay)
{
    seriatim_job job = job_of(id, strlen(id), "x", 1, delay);
    job.retry_count = 1;
    push_job("One", &job);
}

/* Waiting ids that never failed and are not due, beside such as are due, or failed, or both. */
static void test_delayed_ids_are_counted(void **state)
{
    (void)state;
    open_browser();
    assert_int_equal(seriatim_layout_begin(browser.client, queue_of(browser.client, "One", 1)), SERIATIM_OK);
    assert_int_equal(drive(), SERIATIM_OK);
    push_failed("failed", 0);
    push_failed("failed, due later", 1000);
    push_text("One", "due later", "x", 1000);
    get("/api/web/dashboard");
    shows("\"delayed\":1,\"enqueued\":3,\"failed\":0,\"fresh\":1,");
    REDIS("LPUSH seriatim:{One/0}:ready gone gone gone gone");
    get_first("/api/web/dashboard");
    shows("\"lag\":0.");
    push_failed("failed, due soon", 0.3);
    push_text("One", "due soon", "x", 0.3);
    get("/api/web/dashboard");
    shows("\"delayed\":2,\"enqueued\":5,\"failed\":0,\"fresh\":2,");
    get_first("/api/web/dashboard");
    shows("\"delayed\":2,\"enqueued\":5,\"failed\":0,\"fresh\":2,");
    pause_ms(400);
    get("/api/web/dashboard");
    shows("\"delayed\":1,\"enqueued\":5,\"failed\":0,\"fresh\":2,");
    shows("\"lag\":0.");
    get_first("/api/web/dashboard");
    shows("\"delayed\":1,\"enqueued\":5,\"failed\":0,\"fresh\":2,");
    shows("\"lag\":0.");
}

/* At this many seconds from now; it is not there before. */
static void push_scheduled(const char *name, const char *id, double seconds)
{
    seriatim_job job = job_of(id, strlen(id), "x", 1, 0);
    job.deliver_when = SERIATIM_DELAY;
    job.deliver_time = seconds;
    push_job(name, &job);
}

/* By a browser that has looked before, which takes over what has not changed, and by one that has not. */
static void both_show(const char *path, const char *part)
{
    get(path);
    shows(part);
    get_first(path);
    shows(part);
}

static void test_r_web_17_scheduled_payloads_are_counted(void **state)
{
    (void)state;
    open_browser();
    assert_int_equal(seriatim_layout_begin(browser.client, queue_of(browser.client, "One", 1)), SERIATIM_OK);
    assert_int_equal(drive(), SERIATIM_OK);
    push_scheduled("One", "b", 0.4);
    get("/api/web/dashboard");
    shows("\"scheduled\":1,");
    pause_ms(500); /* nothing that is stored changes now, but the payload is late from here on */
    both_show("/api/web/dashboard", "\"lag\":0.");
    both_show("/api/web/dashboard", "\"scheduled\":1,");
    assert_int_equal(ask("POST", "/api/web/One/delete", "{\"ids\":[\"b\"]}"), 200);
    both_show("/api/web/dashboard", "\"scheduled\":0,");
    push_scheduled("One", "a", 1000);
    push_scheduled("One", "a", 2000);
    push_text("One", "due later", "x", 1500);
    both_show("/api/web/dashboard", "\"delayed\":1,\"enqueued\":1,\"failed\":0,\"fresh\":1,\"lag\":0,");
    both_show("/api/web/dashboard", "\"scheduled\":2,");
    both_show("/api/v1/queues/One", "\"retries\":0,\"scheduled\":2,\"shard\":0,\"stale\":0}");
    both_show("/metrics", "# TYPE seriatim_scheduled gauge\nseriatim_scheduled{queue=\"One\"} 2\n");
    assert_int_equal(ask("POST", "/api/web/One/delete", "{\"ids\":[\"a\"]}"), 200);
    both_show("/metrics", "seriatim_scheduled{queue=\"One\"} 0\n");
}

/* The next text behind this name in the answer; empty: there is none. In the order of calls until the next `get`. */
static const char *next_member(const char **at, const char *name)
{
    static char value[300];
    const char *from = strstr(*at, name), *end;
    value[0] = '\0';
    if (!from)
        return value;
    from += strlen(name);
    end = strchr(from, '"');
    assert_non_null(end);
    snprintf(value, sizeof value, "%.*s", (int)(end - from), from);
    *at = end;
    return value;
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

#define KEY31 "0000000000000000000000000000000"
#define KEY "0" KEY31

static void fill(void)
{
    push_text("Q", "Q", "a", 0);
    push_text("Q", "2", "b", 1000);
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
    fill();
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
    fill();
    push_text("Q", "a b&=%", "x", 0);
    push_text("Q", "\xff", "x", 0);
    browser.request.content_type = text_of("application/x-www-form-urlencoded");
    assert_int_equal(ask("POST", "/api/web/Q/park", "ids[]=Q&ids%5B%5D=2&ids[]=none"), 200);
    assert_string_equal(browser.text, "{\"count\":2}");
    assert_int_equal(ask("POST", "/api/web/Q/delete", "ids[]=a+b%26%3D%25&ids[]=%FF"), 200);
    assert_string_equal(browser.text, "{\"count\":2}");
    assert_int_equal(ask("POST", "/api/web/Q/unpark_all", ""), 200);
    assert_int_equal(ask("POST", "/api/v1/queues/Q/errors/00/delete", "cursor="), 200);
    browser.request.content_type = text_of("application/x-www-form-urlencoded; charset=utf-8");
    assert_int_equal(ask("POST", "/api/web/Q/drop_payload", "id=Q&key=" KEY), 200);
    assert_string_equal(browser.text, "{\"count\":0}");
    browser.request.content_type = text_of(NULL);
    assert_int_equal(ask("POST", "/api/web/Q/pause", ""), 200);
    assert_int_equal(ask("POST", "/api/web/Q/resume", NULL), 200);
}

/* ---- Slices -------------------------------------------------------------------------------- */

static long member_number(const char *name)
{
    const char *at = strstr(browser.text, name);
    if (!at)
        fail_msg("no %s in: %.500s", name, browser.text);
    return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

/* Asks for slices until there are no more, and returns how many it took; *sum is what they say that they did. */
static int ask_slices(const char *path, long *sum)
{
    char body[400] = "{\"slice\":true}", cursor[300];
    int slices = 0;
    for (*sum = 0;; slices++) {
        if (ask("POST", path, body) != 200)
            fail_msg("%s", browser.text);
        *sum += member_number("\"count\":");
        if (strstr(path, "/api/web/"))
            assert_int_equal(member_number("\"total\":"), *sum);
        if (strstr(browser.text, "\"more\":false"))
            break;
        assert_int_equal(sscanf(strstr(browser.text, "\"cursor\":\""), "\"cursor\":\"%299[^\"]", cursor), 1);
        snprintf(body, sizeof body, "{\"slice\":true,\"cursor\":\"%s\"}", cursor);
    }
    shows("\"cursor\":null");
    return slices + 1;
}

static void push_delayed(const char *prefix, int count)
{
    char id[30];
    int i;
    for (i = 0; i < count; i++) {
        snprintf(id, sizeof id, "%s%d", prefix, i);
        push_text("Q", id, "x", 1000);
    }
}

static void test_an_action_goes_on_from_its_cursor(void **state)
{
    long sum;
    (void)state;
    open_browser();
    push_delayed("id ", 5400);
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{\"slice\":true}"), 200);
    shows("\"more\":true");
    assert_in_range(member_number("\"count\":"), 1000, 5399);
    assert_in_range(ask_slices("/api/web/Q/perform_all_jobs_now", &sum), 2,
                    4); /* from the start: the rest, for what is done stays done */
    assert_in_range(sum, 1, 4400);
    get("/api/web/dashboard");
    shows("\"delayed\":0,");
    push_delayed("late ", 40);
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":40}");
    assert_int_equal(ask_slices("/api/web/Q/unpark_all", &sum), 1);
    assert_int_equal(sum, 0);
    browser.request.content_type = text_of("application/x-www-form-urlencoded");
    assert_int_equal(ask("POST", "/api/web/Q/unpark_all", "slice=1&cursor="), 200);
    assert_string_equal(browser.text, "{\"count\":0,\"cursor\":null,\"more\":false,\"total\":0}");
}

static void test_invalid_cursors_of_an_action_are_refused(void **state)
{
    static const char *const cursors[] = {"x",          "1",          "1.0.0",       "1.0.0.5",         "1.0.0.5.0",
                                          "1.0.0.5.zz", "1.0.0.a.00", "-1.0.0.5.00", "1.9999999.0.5.00"};
    char body[100];
    size_t i;
    (void)state;
    open_browser();
    push_text("Q", "a", "x", 1000);
    for (i = 0; i < sizeof cursors / sizeof *cursors; i++) {
        snprintf(body, sizeof body, "{\"cursor\":\"%s\"}", cursors[i]);
        if (ask("POST", "/api/web/Q/perform_all_jobs_now", body) != 400)
            fail_msg("%s: %s", cursors[i], browser.text);
        shows("cursor must be one that this action returned");
    }
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{\"slice\":1}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{\"cursor\":\"1.99.7..\"}"),
                     200); /* behind the last shard */
    assert_string_equal(browser.text, "{\"count\":0,\"cursor\":null,\"more\":false,\"total\":7}");
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{\"cursor\":\"77.99.7.5.00\"}"),
                     200); /* of another layout */
    assert_string_equal(browser.text, "{\"count\":1,\"cursor\":null,\"more\":false,\"total\":8}");
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
    fill();
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
    fill();
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
    static const char *const hosts[] = {"localhost", "jobs.example:8080"};
    static const char *const good[] = {"localhost", "localhost:9292", "LOCALHOST:1", "jobs.example:8080"};
    static const char *const bad[] = {
        "evil.example", "localhost.evil.example", "localhost:", "localhost:x", "jobs.example", "", NULL};
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

/* ---- Actions ------------------------------------------------------------------------------- */

static void test_r_web_5_actions_answer_with_their_outcome(void **state)
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

/* Chosen ids, all that is parked, and the id page's buttons: retry now and delete. */
static void test_the_actions_of_an_id_s_page_work(void **state)
{
    (void)state;
    open_browser();
    push_text("Q", "1", "a", 1000);
    push_text("Q", "2", "b", 1000);
    get("/api/v1/queues/Q/id?id=1");
    shows("\"state\":\"delayed\"");
    assert_int_equal(ask("POST", "/api/web/Q/perform_now", "{\"ids\":[\"1\",\"none\"]}"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    get("/api/v1/queues/Q/id?id=1");
    shows("\"state\":\"waiting\"");
    get("/api/v1/queues/Q/id?id=2");
    shows("\"state\":\"delayed\"");
    assert_int_equal(ask("POST", "/api/web/Q/delete", "{\"ids\":[\"2\"]}"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    get("/api/v1/queues/Q/id?id=2");
    shows("\"job\":null");
    assert_int_equal(ask("POST", "/api/web/Q/park", "{\"ids\":[\"1\"]}"), 200);
    get("/api/v1/queues/Q/id?id=1");
    shows("\"state\":\"parked\"");
    assert_int_equal(ask("POST", "/api/web/Q/unpark_all", "{\"ids\":[\"1\"]}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/perform_now", "{}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/unpark_all", "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    get("/api/v1/queues/Q/id?id=1");
    shows("\"state\":\"waiting\"");
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

/* What the host's own workers say makes no queue: only a push does. */
static void test_r_settings_3_looking_makes_no_queue(void **state)
{
    redisReply *reply;
    (void)state;
    open_browser();
    another_measures();
    queue_of(browser.client, "Mine", 3);
    get("/api/web/Mine/range_by_id");
    assert_string_equal(browser.text, "[]");
    get("/api/web/dashboard");
    shows("\"name\":\"Mine\"");
    reply = redis("DBSIZE");
    assert_int_equal(reply->integer, 1); /* who measures */
    freeReplyObject(reply);
}

/* ---- A worker ------------------------------------------------------------------------------ */

typedef struct worker {
    seriatim_runner *runner;
    seriatim_delivery *held;
} worker;

static worker start_worker(const char *name, int64_t retries)
{
    static int lives;
    worker w = {NULL, NULL};
    seriatim_queue_settings queue;
    seriatim_node_settings settings;
    size_t number;
    char id[32];
    memset(&settings, 0, sizeof settings);
    snprintf(id, sizeof id, "node-%d", ++lives);
    settings.id = id;
    settings.description = "host pid 1 C seriatim 9.9.9";
    settings.lease_ms = 10000;
    settings.poll_ms = 10;
    settings.threads = 1;
    seriatim_queue_settings_init(&queue);
    queue.name = name;
    queue.name_len = strlen(name);
    queue.shards_count = 2;
    queue.max_retry_count = retries;
    queue.history_per_id = browser.history;
    assert_int_equal(seriatim_runner_new(&settings, server.url, &w.runner, NULL), SERIATIM_OK);
    assert_int_equal(seriatim_runner_worker(w.runner, &queue, &number, NULL), SERIATIM_OK);
    assert_int_equal(seriatim_runner_start(w.runner, NULL), SERIATIM_OK);
    return w;
}

static seriatim_delivery *take_one(const worker *w)
{
    seriatim_delivery *delivery = NULL;
    time_t deadline = time(NULL) + 60;
    while (time(NULL) < deadline) {
        if (seriatim_runner_take(w->runner, 0, &delivery) != SERIATIM_OK)
            seriatim_runner_wait(w->runner, 0, 10);
        else if (seriatim_delivery_kind_of(delivery) == SERIATIM_RUN)
            return delivery;
        else
            seriatim_runner_settle(w->runner, delivery);
    }
    fail_msg("nothing was claimed");
    return NULL;
}

/* Runs one id, which fails with this error; "NUMBER" in it becomes a number. */
static void fail_one(const worker *w, const char *error, double retry_in)
{
    seriatim_delivery *d = take_one(w);
    assert_int_equal(seriatim_delivery_fail(d, 0, error, strlen(error), retry_in), SERIATIM_OK);
    seriatim_runner_settle(w->runner, d);
}

static void stop_worker(worker *w)
{
    seriatim_delivery *d;
    int i;
    if (w->held)
        seriatim_runner_settle(w->runner, w->held);
    seriatim_runner_stop(w->runner);
    for (i = 0; i < 1000 && !seriatim_runner_stopped(w->runner); i++) {
        if (seriatim_runner_take(w->runner, 0, &d) == SERIATIM_OK)
            seriatim_runner_settle(w->runner, d);
        else
            seriatim_runner_clear(w->runner, 0);
        pause_ms(2);
    }
    assert_true(seriatim_runner_stopped(w->runner));
    seriatim_runner_free(w->runner);
}

/* ---- What is kept from look to look ---------------------------------------------------------- */

/* How often Redis has run scripts. */
static long scripts_run(void)
{
    redisReply *reply = redis("INFO commandstats");
    const char *at = strstr(reply->str, "cmdstat_evalsha:calls=");
    long calls = at ? strtol(at + strlen("cmdstat_evalsha:calls="), NULL, 10) : 0;
    freeReplyObject(reply);
    return calls;
}

/* The dashboard of a browser that has looked before shows what one that comes for the first time is shown. */
static void looks_alike(const char *what)
{
    static char old[sizeof browser.text];
    char *first, *second;
    get("/metrics");
    memcpy(old, browser.text, sizeof old);
    get_first("/metrics");
    first = strstr(old, "# HELP seriatim_lag_seconds"); /* lags differ by the moment between */
    second = strstr(browser.text, "# HELP seriatim_lag_seconds");
    assert_true(first && second);
    *first = *second = '\0';
    if (strcmp(old, browser.text) != 0)
        fail_msg("after %s: %s\nis shown as: %s", what, browser.text, old);
    first = strstr(first + 1, "# HELP");
    second = strstr(second + 1, "# HELP");
    assert_true(first && second);
}

static void acts(const char *action, const char *body)
{
    char path[100];
    snprintf(path, sizeof path, "/api/web/Q/%s", action);
    if (ask("POST", path, body) != 200 || strcmp(browser.text, "{\"count\":0}") == 0)
        fail_msg("%s: %s", action, browser.text);
    looks_alike(action);
}

/* So many ids of Q fail and wait for a retry that is far off. */
static void fail_ids(const char *error, int count)
{
    worker w = start_worker("Q", 5);
    int i;
    for (i = 0; i < count; i++)
        fail_one(&w, error, 1000);
    stop_worker(&w);
}

static void test_failed_ids_are_performed_now_and_killed(void **state)
{
    (void)state;
    open_browser();
    push_ids(6);
    fail_ids("a failure", 6);
    push_delayed("later ", 3);
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_failed_jobs_now", "{\"slice\":true}"), 200);
    assert_string_equal(browser.text, "{\"count\":6,\"cursor\":null,\"more\":false,\"total\":6}");
    get("/api/web/dashboard");
    shows("\"delayed\":3,");
    shows("\"retries\":6,");
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_failed_jobs_now", "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":0}");
}

static void fingerprint_of(const char *error, char fingerprint[17])
{
    const char *at;
    get("/api/v1/queues/Q/errors?part=retrying");
    at = strstr(browser.text, error);
    assert_non_null(at);
    at = strstr(at, "\"fingerprint\":\"");
    assert_non_null(at);
    snprintf(fingerprint, 17, "%.16s", at + strlen("\"fingerprint\":\""));
}

static void test_failed_ids_of_one_error_are_performed_now_and_killed(void **state)
{
    char fingerprint[17], path[120];
    long sum;
    (void)state;
    open_browser();
    push_ids(4);
    fail_ids("out of paper", 4);
    push_text("Q", "other", "x", 0);
    fail_ids("out of ink", 1);
    push_delayed("later ", 2);
    fingerprint_of("paper", fingerprint);
    snprintf(path, sizeof path, "/api/v1/queues/Q/errors/%s/perform_now", fingerprint);
    assert_int_equal(ask_slices(path, &sum), 1);
    assert_int_equal(sum, 4);
    get("/api/web/dashboard");
    shows("\"delayed\":2,"); /* they never failed */
    get("/api/v1/queues/Q/id?id=other");
    assert_null(strstr(browser.text, "\"state\":\"waiting\""));
    snprintf(path, sizeof path, "/api/v1/queues/Q/errors/%s/kill", fingerprint);
    assert_int_equal(ask_slices(path, &sum), 1);
    assert_int_equal(sum, 4);
    get("/api/web/dashboard");
    shows("\"dead\":4,");
    shows("\"retries\":1,");
}

/* ---- Redis goes away ------------------------------------------------------------------------ */

static void test_a_change_that_redis_refuses_is_an_error(void **state)
{
    seriatim_link *kept = browser.link, *other;
    (void)state;
    open_browser();
    kept = browser.link;
    assert_int_equal(seriatim_link_new(NULL, "unix:///nowhere/redis.sock", &other, NULL), SERIATIM_OK);
    browser.link = other;
    browser.client = seriatim_link_client(other);
    assert_int_equal(ask("POST", "/api/web/Q/pause", "{}"), 503);
    shows("{\"done\":0,\"error\":\"Redis cannot be asked now: No such file or directory; nothing was "
          "changed\",\"unknown\":false}");
    seriatim_link_free(other);
    browser.link = kept;
    browser.client = seriatim_link_client(kept);
}

/* Redis stands still from the end of that many waits on. */
static int waits_until_it_stops;

static void stop_redis_meanwhile(void)
{
    if (--waits_until_it_stops == 0)
        assert_int_equal(kill(server.pid, SIGSTOP), 0);
}

static void test_a_change_that_was_never_sent_is_reported_as_not_done(void **state)
{
    struct timespec from, to;
    (void)state;
    open_browser();
    push_delayed("id ", 300);
    clock_gettime(CLOCK_MONOTONIC, &from);
    waits_until_it_stops = 1;
    stop_redis_meanwhile();
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{}"), 503);
    clock_gettime(CLOCK_MONOTONIC, &to);
    kill(server.pid, SIGCONT);
    shows("{\"done\":0,\"error\":\"Redis cannot be asked now: ");
    shows("; nothing was changed\",\"unknown\":false}"); /* the queue's layout was not even read */
    assert_in_range(to.tv_sec - from.tv_sec, 3, 12);
    pause_ms(300);
    get("/api/web/dashboard");
    shows("\"delayed\":300,"); /* nor is it done later */
}

/* What was done before is told, and that more may have been done; going on from the last cursor does the rest. */
static void test_a_change_without_an_answer_is_reported_as_unknown(void **state)
{
    long done, rest;
    (void)state;
    open_browser();
    push_delayed("id ", 900);
    waits_until_it_stops = 6;
    browser.meanwhile = stop_redis_meanwhile;
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{\"slice\":true}"), 503);
    kill(server.pid, SIGCONT);
    browser.meanwhile = NULL;
    done = member_number("\"done\":");
    assert_in_range(done, 1, 899);
    shows("; whether more was done is not known\",\"unknown\":true}");
    ask_slices("/api/web/Q/perform_all_jobs_now", &rest);
    assert_in_range(done + rest, 900 - 200, 900); /* the call without an answer was of some 100 ids */
    get("/api/web/dashboard");
    shows("\"delayed\":0,");
}

/* The visitor's end of its connection; closed in one of the waits for Redis. */
static int visitor_end, waits_until_it_leaves;

static void leave_meanwhile(void)
{
    if (--waits_until_it_leaves == 0)
        close(visitor_end);
}

static void test_a_change_stops_when_its_visitor_has_left(void **state)
{
    int ends[2], waits;
    long done;
    (void)state;
    for (waits = 1; waits <= 7; waits += 6) { /* before anything was sent, and in the middle */
        open_browser();
        push_delayed("id ", 3000);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        visitor_end = ends[0];
        waits_until_it_leaves = waits;
        if (waits == 1)
            leave_meanwhile();
        browser.meanwhile = leave_meanwhile;
        browser.request.socket = ends[1];
        assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{}"), 503);
        browser.meanwhile = NULL;
        browser.request.socket = 0;
        close(ends[1]);
        done = member_number("\"done\":");
        assert_in_range(done, 0, waits == 1 ? 0 : 2800);
        shows("\"error\":\"the client closed its connection before the answer; ");
        get("/api/web/dashboard");
        assert_in_range(member_number("\"delayed\":"), 3000 - done - 600,
                        3000 - done); /* the last calls may have been heard */
    }
}

/* A reader that leaves costs nothing, and what it sent behind its request is no end. */
static void test_only_a_closed_connection_of_a_change_counts(void **state)
{
    int ends[2];
    (void)state;
    open_browser();
    push_delayed("id ", 300);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    browser.request.socket = ends[1];
    assert_int_equal(ask("POST", "/api/web/Q/perform_all_jobs_now", "{}"), 200);
    assert_int_equal(write(ends[0], "GET", 3), 3);
    assert_int_equal(ask("POST", "/api/web/Q/pause", "{}"), 200);
    close(ends[0]);
    get("/api/web/dashboard");
    browser.request.socket = 0;
    close(ends[1]);
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
    push_text("Q", "soon", "x", 0.3);
    push_text("Q", "late", "x", 1000);
    get("/api/web/dashboard");
    shows("\"delayed\":2,");
    pause_ms(400);
    get("/api/web/dashboard");
    shows("\"delayed\":1,");
    looks_alike("a time that has come");
}

static void test_unchanged_shards_are_not_read_again(void **state)
{
    long before;
    (void)state;
    open_browser();
    fill();
    push_text("Other", "1", "x", 0);
    get("/api/web/dashboard");
    before = scripts_run();
    get("/api/web/dashboard");
    get("/api/v1/stats");
    get("/metrics");
    assert_int_equal(scripts_run() - before, 3); /* the nodes, each time */
    push_text("Other", "2", "x", 0);
    before = scripts_run();
    get("/api/web/dashboard");
    shows("\"delayed\":0,\"enqueued\":2,");
    assert_int_equal(scripts_run() - before, 2);
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
    before = scripts_run();
    get_first("/api/web/dashboard");
    shows("\"delayed\":1,\"enqueued\":13,");
    shows("\"scheduled\":2,");
    assert_int_equal(scripts_run() - before, 2); /* the nodes, and who measures */
    w = start_worker("Q", 5);
    w.held = take_one(&w);
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
    push_failed(id, 1000);
}

/* Ids that came between two answers are no part of one and not of the other. */
static void test_a_snapshot_leaves_out_ids_that_came_during_it(void **state)
{
    (void)state;
    open_browser();
    assert_int_equal(seriatim_layout_begin(browser.client, queue_of(browser.client, "One", 1)), SERIATIM_OK);
    assert_int_equal(drive(), SERIATIM_OK);
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
    assert_int_equal(drive(), SERIATIM_OK);
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
    get_first("/api/web/dashboard");
    shows("\"enqueued\":4,");
    REDIS("SET seriatim:{Q/0}:dead x");
    get_first("/api/web/dashboard");
    shows("\"enqueued\":0,");
}

/* ---- Pages --------------------------------------------------------------------------------- */

static void test_a_working_queue_shows_its_runs_and_nodes(void **state)
{
    worker w;
    char node[32], path[64];
    (void)state;
    open_browser();
    push_text("Q", "run", "secret payload", 0);
    w = start_worker("Q", 3);
    w.held = take_one(&w);
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
    shows("\"state\":\"working\",\"threads\":1}],\"versions\":[\"9.9.9\"]}");
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
    w = start_worker("Q", 3);
    w.held = take_one(&w);
    seriatim_runner_quiet(w.runner); /* beats at once */
    get_nodes("\"state\":\"quiet\"");
    for (i = 0; i < 3000 && strstr(browser.text, "\"clock_skew\":null"); i++) {
        seriatim_runner_pulse(w.runner);
        pause_ms(10);
        get("/api/v1/nodes");
    }
    shows("\"description\":\"host pid 1 C seriatim 9.9.9\"");
    assert_true(number_of("\"rss\":") > 1e6 && number_of("\"rss\":") < 1e11);
    assert_true(number_of("\"clock_skew\":") > -0.9 && number_of("\"clock_skew\":") < 0.9); /* one machine, one clock */
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
}

static void test_a_node_is_quieted_and_stopped(void **state)
{
    char quiet[64], stop[64], *name;
    worker w;
    (void)state;
    open_browser();
    push_text("Q", "run", "x", 0);
    w = start_worker("Q", 3);
    w.held = take_one(&w);
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

/* ---- What the host is told of changes ------------------------------------------------------ */

/* Its line, NUL-terminated. */
static const char *line_of(const seriatim_web_change *change)
{
    static char line[8000];
    assert_non_null(change);
    assert_true(change->line.len < sizeof line);
    memcpy(line, change->line.data, change->line.len);
    line[change->line.len] = '\0';
    return line;
}

static void told(const char *line)
{
    const seriatim_web_change *change = seriatim_web_change_of(browser.client);
    assert_string_equal(line_of(change), line);
    assert_int_equal(change->status, browser.response->status);
    assert_int_equal(change->count >= 0, browser.response->status == 200);
}

static void test_d13_the_host_is_told_of_every_change(void **state)
{
    size_t count, i;
    const seriatim_web_route *routes = seriatim_web_routes(&count);
    (void)state;
    open_browser();
    assert_null(seriatim_web_change_of(browser.client));
    fill();
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

static void test_errors_are_grouped(void **state)
{
    char path[200], *at;
    worker w;
    (void)state;
    open_browser();
    push_ids(5);
    w = start_worker("Q", 0);
    fail_one(&w, "Order 17 is gone\nat line 3", 0);
    fail_one(&w, "Order 4711 is gone\nat line 5", 0);
    fail_one(&w, "no 0xdeadbeef", 0);
    fail_one(&w, "no 0xcafe01", 0);
    fail_one(&w, "Order 5 is gone", 0);
    stop_worker(&w);
    get("/api/v1/queues/Q/errors");
    shows("{\"cursor\":null,\"groups\":[{\"count\":3,\"error\":\"Order ");
    shows("{\"count\":2,\"error\":\"no 0x");
    shows("\"of\":5,\"rest\":0,\"sample\":false,\"seen\":5}");
    at = strstr(browser.text, "\"fingerprint\":\"");
    assert_non_null(at);
    snprintf(path, sizeof path, "/api/v1/queues/Q/errors/%.16s/queue_up", at + strlen("\"fingerprint\":\""));
    assert_int_equal(ask("POST", path, "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":3,\"cursor\":null,\"more\":false}");
    get("/api/v1/queues/Q/records?part=dead");
    shows("\"exact\":true,\"of\":2,");
    assert_int_equal(ask("POST", "/api/v1/queues/Q/errors/0000000000000000/delete", "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":0,\"cursor\":null,\"more\":false}");
    get("/api/v1/queues/Q/records?part=dead&by=time&limit=1");
    shows("\"cursor\":\"0");
}

/* ---- load_error ------------------------------------------------------------------------------ */

static struct loading {
    char text[1 << 17];
    int calls, breaks; /* breaks: it gives no text */
} loading;

/* What is stored is the text from its end to its beginning. */
static seriatim_text reverse(void *context, seriatim_text stored)
{
    seriatim_text text = {loading.text, stored.len};
    size_t i;
    (void)context;
    loading.calls++;
    assert_in_range(stored.len, 1, sizeof loading.text);
    for (i = 0; i < stored.len; i++)
        loading.text[i] = stored.data[stored.len - 1 - i];
    if (loading.breaks)
        text.data = NULL;
    return text;
}

static void load_by_reverse(void)
{
    loading.calls = loading.breaks = 0;
    browser.settings.loads_errors = 1;
    browser.hooks.load_error = reverse;
}

/* An error whose text begins at the end of 60,000 bytes, which no head of a record holds. */
static const char *long_error(void)
{
    static char error[60001];
    memset(error, 'x', sizeof error - 1);
    memcpy(error + sizeof error - sizeof "\nenog si 5 redrO", "\nenog si 5 redrO", sizeof "\nenog si 5 redrO");
    return error;
}

static void fail_with_stored_errors(double retry_in)
{
    worker w = start_worker("Q", retry_in > 0 ? 5 : 0);
    fail_one(&w, "3 enil ta\nenog si 71 redrO", retry_in);
    fail_one(&w, "5 enil ta\nenog si 1174 redrO", retry_in);
    fail_one(&w, long_error(), retry_in);
    fail_one(&w, "feebdaedx0 on", retry_in);
    fail_one(&w, "10efacx0 on", retry_in);
    stop_worker(&w);
}

static void test_r_web_21_errors_are_grouped_by_what_load_error_gives(void **state)
{
    char path[200], fingerprint[17];
    (void)state;
    open_browser();
    push_ids(5);
    fail_with_stored_errors(1000);
    load_by_reverse();
    fingerprint_of("{\"count\":3,\"error\":\"Order ", fingerprint);
    shows("{\"count\":2,\"error\":\"no 0x");
    shows("\"of\":5,\"rest\":0,\"sample\":false,\"seen\":5}");
    assert_null(strstr(browser.text, "at line"));
    snprintf(path, sizeof path, "/api/v1/queues/Q/errors/%s/kill", fingerprint);
    assert_int_equal(ask("POST", path, "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":3,\"cursor\":null,\"more\":false}");
    fingerprint_of("{\"count\":2,\"error\":\"no 0x", fingerprint);
    get("/api/v1/queues/Q/errors");
    shows("\"groups\":[{\"count\":3,\"error\":\"Order ");
    assert_int_equal(ask("POST", "/api/v1/queues/Q/errors/0000000000000000/delete", "{}"), 200);
    assert_string_equal(browser.text, "{\"count\":0,\"cursor\":null,\"more\":false}");
    assert_int_equal(ask("POST", "/api/v1/queues/None/errors/0000000000000000/delete", "{}"), 404);
}

static seriatim_text hide_readable(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    static const char readable[] = "a readable error";
    (void)context;
    (void)queue;
    (void)id;
    return text.len == sizeof readable - 1 && memcmp(text.data, readable, text.len) == 0 ? text_of("[hidden]") : text;
}

static void test_r_web_21_errors_are_loaded_before_they_are_redacted(void **state)
{
    static const char *const paths[] = {"/api/web/Q/range_by_id", "/api/v1/queues/Q/records?part=retrying",
                                        "/api/v1/queues/Q/id?id=0", "/api/v1/queues/Q/errors?part=retrying"};
    worker w;
    size_t i;
    (void)state;
    open_browser();
    browser.history = 9;
    push_ids(1);
    w = start_worker("Q", 5);
    fail_one(&w, "rorre elbadaer a", 1000);
    stop_worker(&w);
    for (i = 0; i < sizeof paths / sizeof *paths; i++) {
        load_by_reverse();
        browser.hooks.redact = NULL;
        get(paths[i]);
        shows("\"error\":\"a readable error\"");
        if (strstr(browser.text, "rorre"))
            fail_msg("%s: %s", paths[i], browser.text);
        browser.hooks.redact = hide_readable;
        get(paths[i]);
        shows("\"error\":\"[hidden]\"");
        assert_null(strstr(browser.text, "readable"));
    }
}

/* A load_error that gives no text ends the request, before it has changed anything. */
static void test_r_web_21_nothing_is_changed_without_a_loaded_text(void **state)
{
    (void)state;
    open_browser();
    push_ids(5);
    fail_with_stored_errors(1000);
    load_by_reverse();
    loading.breaks = 1;
    assert_int_equal(ask("POST", "/api/v1/queues/Q/errors/cbf29ce484222325/kill", "{}"), 500); /* of the empty text */
    shows("load_error ended without a text");
    told("errors_kill by admin: queue \"Q\", errors \"cbf29ce484222325\": 500 load_error ended without a text");
    get("/api/v1/queues/Q/records?part=dead");
    shows("\"of\":0,");
    assert_int_equal(ask("GET", "/api/v1/queues/Q/errors?part=retrying", NULL), 500);
}

/* Follows the cursors of a page to its end, from one or NULL; the number of records. */
static int walk_from(const char *target, const char *cursor, const char *first, const char *last)
{
    char path[4000], *at, *id;
    int records = 0, pages = 0, wrong = 0, partial = 0;
    char previous[64] = "";
    snprintf(path, sizeof path, cursor ? "%s&cursor=%s" : "%s", target, cursor);
    for (;;) {
        get(path);
        partial |= strstr(browser.text, "\"exact\":false") != NULL;
        for (at = browser.text; (at = strstr(at, "\"id\":\"")); at++) {
            id = at + strlen("\"id\":\"");
            wrong |= records == 0 && strncmp(id, first, strlen(first)) != 0;
            snprintf(previous, sizeof previous, "%.*s", (int)strcspn(id, "\""), id);
            records++;
        }
        at = strstr(browser.text, "\"cursor\":\"");
        if (!at || ++pages > 200)
            break;
        at += strlen("\"cursor\":\"");
        snprintf(path, sizeof path, "%s&cursor=%.*s", target, (int)strcspn(at, "\""), at);
    }
    wrong |= strncmp(previous, last, strlen(last)) != 0;
    if (wrong && (cursor || !partial))
        fail_msg("%s does not go from %s to %s", target, first, last);
    return wrong ? -1 : records;
}

/* On a busy machine a page may end before all ids are read, which it says; then their order is not of the whole. */
static int walk(const char *target, const char *first, const char *last)
{
    int tries, records = -1;
    for (tries = 0; tries < 20 && records < 0; tries++)
        records = walk_from(target, NULL, first, last);
    return records;
}

/* The ids of the answer, one letter each, in its order. */
static const char *ids_shown(void)
{
    static char ids[16];
    const char *at;
    size_t count = 0;
    for (at = browser.text; (at = strstr(at, "\"id\":\"")) && count + 1 < sizeof ids; at++)
        ids[count++] = at[strlen("\"id\":\"")];
    ids[count] = '\0';
    return ids;
}

/* Pages of one id and of all, by each order. */
static void shows_error_alone(const char *part, const char *fingerprint, const char *by, const char *wanted)
{
    char path[200];
    snprintf(path, sizeof path, "/api/v1/queues/Q/records?part=%s&error=%s&%s", part, fingerprint, by);
    get(path);
    assert_string_equal(ids_shown(), wanted);
    snprintf(path, sizeof path, "/api/v1/queues/Q/records?part=%s&error=%s&%s&limit=1", part, fingerprint, by);
    assert_int_equal(walk(path, (char[]){wanted[0], '\0'}, (char[]){wanted[strlen(wanted) - 1], '\0'}), strlen(wanted));
}

static void test_r_web_20_records_are_filtered_by_the_group_of_their_error(void **state)
{
    static const char *const errors[] = {"Order 17 is gone", "no 0xdeadbeef", "Order 4711 is gone\nat line 5",
                                         "no 0xcafe01", "Order 5 is gone"};
    char fingerprint[17];
    size_t i;
    worker w;
    int64_t retries;
    (void)state;
    for (retries = 0; retries < 2; retries++) { /* dead at once, or waiting for a retry */
        const char *part = retries ? "retrying" : "dead";
        open_browser();
        w = start_worker("Q", retries);
        for (i = 0; i < 5; i++) {
            char id[2] = {(char)('a' + i), '\0'};
            push_text("Q", id, "x", 0);
            fail_one(&w, errors[i], retries ? 60 : 0);
        }
        stop_worker(&w);
        get(retries ? "/api/v1/queues/Q/errors?part=retrying" : "/api/v1/queues/Q/errors");
        shows("{\"count\":3,\"error\":\"Order ");
        snprintf(fingerprint, sizeof fingerprint, "%.16s", strstr(browser.text, "\"fingerprint\":\"") + 15);
        shows_error_alone(part, fingerprint, "by=id&order=asc", "ace");
        shows_error_alone(part, fingerprint, "by=id&order=desc", "eca");
        shows_error_alone(part, fingerprint, "by=id&order=asc&from=b", "ce");
        shows_error_alone(part, fingerprint, "by=time&order=asc", "ace");
        shows_error_alone(part, fingerprint, "by=time&order=desc", "eca");
        shows_error_alone(part, fingerprint, "by=id&prefix=c", "c");
    }
    get("/api/v1/queues/Q/records?part=retrying&error=0000000000000000");
    shows("\"records\":[]");
}

/* The errors are stored backwards: their stored first lines are of other groups than the loaded ones. */
static void test_r_web_21_records_are_filtered_by_the_group_of_the_loaded_error(void **state)
{
    static const char *const errors[] = {"enog si 71 redrO", "feebdaedx0 on", "5 enil ta\nenog si 1174 redrO",
                                         "10efacx0 on", "enog si 5 redrO"};
    char fingerprint[17];
    size_t i;
    worker w;
    int64_t retries;
    (void)state;
    for (retries = 0; retries < 2; retries++) {
        const char *part = retries ? "retrying" : "dead";
        open_browser();
        w = start_worker("Q", retries);
        for (i = 0; i < 5; i++) {
            char id[2] = {(char)('a' + i), '\0'};
            push_text("Q", id, "x", 0);
            fail_one(&w, errors[i], retries ? 60 : 0);
        }
        stop_worker(&w);
        load_by_reverse();
        get(retries ? "/api/v1/queues/Q/errors?part=retrying" : "/api/v1/queues/Q/errors");
        shows("{\"count\":3,\"error\":\"Order ");
        snprintf(fingerprint, sizeof fingerprint, "%.16s", strstr(browser.text, "\"fingerprint\":\"") + 15);
        shows_error_alone(part, fingerprint, "by=id&order=asc", "ace");
        shows_error_alone(part, fingerprint, "by=id&order=desc", "eca");
        shows_error_alone(part, fingerprint, "by=id&order=asc&from=b", "ce");
        shows_error_alone(part, fingerprint, "by=time&order=asc", "ace");
        shows_error_alone(part, fingerprint, "by=time&order=desc", "eca");
        shows_error_alone(part, fingerprint, "by=id&prefix=c", "c");
    }
    get("/api/v1/queues/Q/records?part=retrying&error=0000000000000000");
    shows("\"records\":[]");
    loading.breaks = 1;
    assert_int_equal(ask("GET", "/api/v1/queues/Q/records?part=retrying&error=0000000000000000", NULL), 500);
}

/* Marks the ids of the answer, which are numbers, in `seen`; none may come twice. Returns the number of them. */
static int mark_ids(char *seen, size_t size)
{
    const char *at;
    int count = 0;
    for (at = browser.text; (at = strstr(at, "\"id\":\"")); at++, count++) {
        size_t id = (size_t)atoi(at + strlen("\"id\":\""));
        assert_in_range(id, 0, size - 1);
        assert_int_equal(seen[id]++, 0);
    }
    return count;
}

/* A request ends its reading at 4 MiB of errors. 240 ids have 7 MB of them, so pages end within and at such an end. */
static void test_r_web_21_no_record_of_a_loaded_group_is_lost_between_pages(void **state)
{
    enum { IDS = 240 };
    char path[4000], fingerprint[17], seen[IDS], *at;
    int i, records = 0, partial = 0, pages = 0;
    worker w;
    (void)state;
    open_browser();
    push_ids(IDS);
    w = start_worker("Q", 0);
    for (i = 0; i < IDS; i++)
        fail_one(&w, i % 2 ? long_error() : "feebdaedx0 on", 0);
    stop_worker(&w);
    load_by_reverse();
    get("/api/v1/queues/Q/errors");
    at = strstr(strstr(browser.text, "\"error\":\"Order "), "\"fingerprint\":\"");
    snprintf(fingerprint, sizeof fingerprint, "%.16s", at + strlen("\"fingerprint\":\""));
    memset(seen, 0, sizeof seen);
    snprintf(path, sizeof path, "/api/v1/queues/Q/records?part=dead&limit=15&error=%s", fingerprint);
    for (;;) {
        loading.calls = 0;
        get(path);
        assert_in_range(loading.calls, 1, IDS - 1);
        records += mark_ids(seen, IDS);
        partial += strstr(browser.text, "\"exact\":false") != NULL;
        at = strstr(browser.text, "\"cursor\":\"");
        if (!at)
            break;
        assert_in_range(++pages, 1, IDS);
        at += strlen("\"cursor\":\"");
        snprintf(path, sizeof path, "/api/v1/queues/Q/records?part=dead&limit=15&error=%s&cursor=%.*s", fingerprint,
                 (int)strcspn(at, "\""), at);
    }
    assert_true(partial > 0);
    assert_int_equal(records, IDS / 2);
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
    assert_int_equal(walk_from("/api/v1/queues/Q/records?limit=40", "0.0.0.1.000000000000000000", "", ""), 1997);
    get("/api/v1/queues/Q/records?limit=40&cursor=0.0.0.1.000000000000000000");
    shows("\"exact\":false,\"of\":1997,");
    get("/api/v1/search?q=0012&prefix=1&queue=Q");
    shows("{\"cursor\":null,\"ids\":[\"00120\",\"00121\"");
    get("/api/v1/search?q=00001");
    shows("\"parked\"");
    get("/api/v1/search?q=00002&queue=None");
    assert_string_equal(browser.text, "{\"hits\":[]}");
    get("/api/v1/queues/Q/hottest");
    shows("\"payloads\":1,");
}

/* ---- Samples of all shards ----------------------------------------------------------------- */

enum { LOADED_IDS = 1500 };
enum { SPREAD_SHARDS = 24, SPREAD_FAR = 12, SPREAD_IDS = 30000, SPREAD_HOT = 5, SPREAD_PAYLOADS = 400 };

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
    assert_int_equal(drive(), SERIATIM_OK);
}

static int64_t member(const char *name)
{
    char key[32];
    const char *at;
    snprintf(key, sizeof key, "\"%s\":", name);
    at = strstr(browser.text, key);
    if (!at)
        fail_msg("no %s in: %.2000s", key, browser.text);
    return strtoll(at + strlen(key), NULL, 10);
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
    for (looks = 0; looks < 200 && note_hot(found) < SPREAD_HOT; looks++) {
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
    for (looks = 0; looks < 10; looks++) {
        get("/api/v1/queues/Q/ages");
        shows("\"sample\":true");
        later += member("count"); /* the first: what is not due yet */
        seen += member("seen");
    }
    if (later * 3 < seen || later * 3 > seen * 2)
        fail_msg("half of the ids are due later; of the samples %lld of %lld", (long long)later, (long long)seen);
}

/* Fills the queue Q: 30,000 ids that were retried already. */
static void push_retried(void)
{
    seriatim_client *client = browser.client;
    char id[32];
    int i;
    assert_int_equal(seriatim_push_begin(client, queue_of(client, "Q", SPREAD_SHARDS)), SERIATIM_OK);
    for (i = 0; i < SPREAD_IDS; i++) {
        size_t len = (size_t)snprintf(id, sizeof id, "%05d", i);
        seriatim_job job = job_of(id, len, "x", 1, 3600);
        job.retry_count = 1;
        assert_int_equal(seriatim_push_job(client, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(client), SERIATIM_OK);
    assert_int_equal(drive(), SERIATIM_OK);
}

static void test_errors_are_sampled_over_all_shards(void **state)
{
    char before[64] = "", *ids;
    int looks, others = 0;
    (void)state;
    open_browser();
    push_retried();
    for (looks = 0; looks < 10; looks++) {
        get("/api/v1/queues/Q/errors?part=retrying");
        shows("\"sample\":true");
        shows("\"cursor\":\"0.0.0\"");
        assert_int_equal(member("of"), SPREAD_IDS);
        assert_in_range(member("seen"), 1, SPREAD_IDS - 1);
        ids = strstr(browser.text, "\"ids\":[");
        assert_non_null(ids);
        others += strncmp(before, ids, sizeof before - 1) != 0;
        snprintf(before, sizeof before, "%s", ids);
    }
    assert_true(others > 5); /* each look begins with another shard, at another place of it */
}

/* As push_ids, by one push. */
static void push_batch(int count)
{
    char id[12];
    int i;
    assert_int_equal(seriatim_push_begin(browser.client, queue_of(browser.client, "Q", 2)), SERIATIM_OK);
    for (i = 0; i < count; i++) {
        size_t len = (size_t)snprintf(id, sizeof id, "%d", i);
        seriatim_job job = job_of(id, len, "x", 1, 0);
        assert_int_equal(seriatim_push_job(browser.client, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(browser.client), SERIATIM_OK);
    assert_int_equal(drive(), SERIATIM_OK);
}

/* What is loaded by one request is bounded; following the cursors loads all. */
static void test_r_web_21_a_request_loads_a_sample_of_the_errors(void **state)
{
    char path[200] = "/api/v1/queues/Q/errors?part=retrying&cursor=0.0.0", *at;
    int64_t found = 0;
    (void)state;
    open_browser();
    push_batch(LOADED_IDS);
    fail_ids("enog si 71 redrO", LOADED_IDS);
    load_by_reverse();
    get("/api/v1/queues/Q/errors?part=retrying");
    shows("\"sample\":true");
    assert_in_range(loading.calls, 1, 1100); /* fewer than 1,000 where the time of a request ends before */
    assert_int_equal(member("seen"), loading.calls);
    do {
        loading.calls = 0;
        get(path);
        assert_in_range(loading.calls, 1, 1100);
        found += member("count");
        at = strstr(browser.text, "\"cursor\":\"");
        if (at)
            snprintf(path, sizeof path, "/api/v1/queues/Q/errors?part=retrying&cursor=%.*s",
                     (int)strcspn(at + 10, "\""), at + 10);
    } while (at);
    assert_int_equal(found, LOADED_IDS);
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
    fill();
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

/* Another layout than the shards are of, as while a queue is resharded: no figures, and no end of asking. */
static void test_a_changed_layout_ends_no_request(void **state)
{
    (void)state;
    open_browser();
    fill();
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

/* ---- What is stored is data (D1, D8, D10) ---------------------------------------------------- */

static seriatim_text hide(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    static const seriatim_text hidden = {"[hidden]", 8};
    assert_ptr_equal(context, &browser);
    assert_true(queue.len == 1 && queue.data[0] == 'Q');
    (void)id;
    return text.len >= 6 && strstr(text.data, "secret") ? hidden : text;
}

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

/* What happened to an id, where the queue keeps it: the errors go through the redaction as all that is stored. */
static void test_r_history_1_the_page_of_an_id_shows_its_history(void **state)
{
    worker w;
    (void)state;
    open_browser();
    browser.history = 9;
    w = start_worker("Q", 0);
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

/* The key of a payload, by its place in the first record that the last answer shows. */
static const char *key_at(int place)
{
    static char key[33];
    const char *keys = strstr(browser.text, "\"keys\":[\"");
    assert_non_null(keys);
    snprintf(key, sizeof key, "%.32s", keys + strlen("\"keys\":[\"") + 35 * place);
    return key;
}

static int drops(const char *action, const char *id, const char *key)
{
    char path[100], body[200];
    snprintf(path, sizeof path, "/api/web/Q/%s", action);
    snprintf(body, sizeof body, "{\"id\":%s,\"key\":\"%s\"}", id, key);
    return ask("POST", path, body);
}

/* An action on the payload of this handle; `more`: members of the body behind it. */
static int change_by(const char *action, const char *handle, const char *more)
{
    char path[100], body[500];
    snprintf(path, sizeof path, "/api/web/Q/%s", action);
    snprintf(body, sizeof body, "{\"handle\":\"%s\"%s}", handle, more);
    return ask("POST", path, body);
}

static void test_r_web_19_scheduled_payloads_are_cancelled_and_rescheduled(void **state)
{
    char handle[300], form[400];
    const char *at = browser.text;
    (void)state;
    open_browser();
    browser.hooks.redact = hide;
    push_scheduled("Q", "1", 1000);
    push_scheduled("Q", "1", 2000);
    push_scheduled("Other", "1", 2000);
    get("/api/v1/queues/Q/id?id=1");
    browser.hooks.redact = NULL;
    shows("\"scheduled\":{\"count\":2,\"payloads\":[{\"deliver_at\":");
    snprintf(handle, sizeof handle, "%s", next_member(&at, "\"handle\":\""));
    assert_int_equal(change_by("reschedule", handle, ",\"at\":4000000000.5"), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    assert_string_equal(line_of(seriatim_web_change_of(browser.client)),
                        "reschedule by admin: queue \"Q\", id \"1\": count 1");
    get("/api/v1/queues/Q/scheduled?order=desc");
    shows("\"payloads\":[{\"deliver_at\":4000000000.5,");
    assert_int_equal(change_by("reschedule", handle, ",\"at\":6000000000"), 400);
    shows("years ahead");
    assert_int_equal(change_by("reschedule", handle, ""), 400);
    assert_int_equal(change_by("reschedule", handle, ",\"at\":\"now\""), 400);
    assert_int_equal(change_by("cancel", handle, ",\"at\":5000000000"), 400);
    assert_int_equal(change_by("cancel", "paid", ""), 400);
    assert_int_equal(ask("POST", "/api/web/Other/cancel", "{}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/cancel", "{\"ids\":[\"1\"]}"), 400);
    snprintf(form, sizeof form, "{\"handle\":\"%s\"}", handle);
    assert_int_equal(ask("POST", "/api/web/Other/cancel", form), 400);
    shows("handle is of the queue");
    assert_int_equal(change_by("cancel", handle, ""), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    assert_int_equal(change_by("cancel", handle, ""), 200);
    assert_string_equal(browser.text, "{\"count\":0}");
    get("/api/v1/queues/Q/id?id=1");
    shows("\"scheduled\":{\"count\":1,");
    at = browser.text;
    snprintf(form, sizeof form, "at=1&handle=%s", next_member(&at, "\"handle\":\""));
    browser.request.content_type = text_of("application/x-www-form-urlencoded");
    assert_int_equal(ask("POST", "/api/web/Q/cancel", form), 400);
    assert_int_equal(ask("POST", "/api/web/Q/cancel", form + strlen("at=1&")), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
}

/* The key names the payload: the caller need not know its bytes, and among equal scores it is still the right one. */
static void test_r_action_14_a_payload_is_dropped_by_its_key(void **state)
{
    seriatim_job job;
    worker w;
    int i;
    (void)state;
    open_browser();
    browser.hooks.redact = hide;
    push_text("Q", "1", "secret, one", 1000);
    push_text("Q", "1", "secret, two", 1000);
    get("/api/v1/queues/Q/records");
    assert_null(strstr(browser.text, "\"keys\""));
    get("/api/v1/queues/Q/id?id=1");
    assert_int_equal(drops("drop_payload", "\"1\"", key_at(0)), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    browser.hooks.redact = NULL;
    get("/api/v1/queues/Q/id?id=1");
    shows("\"payload_total\":1,\"payloads\":[[\"secret, two\",");
    assert_int_equal(drops("morgue_drop_payload", "1", key_at(0)), 200);
    assert_string_equal(browser.text, "{\"count\":0}");
    get("/api/v1/queues/Q/id?id=1");
    assert_int_equal(drops("drop_payload", "1", key_at(0)), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    get("/api/v1/queues/Q/id?id=1");
    shows("\"job\":null");

    assert_int_equal(seriatim_push_begin(browser.client, queue_of(browser.client, "Q", 2)), SERIATIM_OK);
    for (i = 0; i < 1000; i++) {
        char payload[16];
        seriatim_job_init(&job);
        snprintf(payload, sizeof payload, "p%d", i);
        job.id = "\xff";
        job.id_len = 1;
        job.payload = payload;
        job.payload_len = strlen(payload);
        job.has_score = 1;
        job.score = -0.1;
        assert_int_equal(seriatim_push_job(browser.client, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(browser.client), SERIATIM_OK);
    assert_int_equal(drive(), SERIATIM_OK);
    get("/api/v1/queues/Q/id?id=%ff");
    assert_int_equal(drops("drop_payload", "{\"base64\":\"/w==\"}", key_at(77)), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    get("/api/v1/queues/Q/id?id=%ff");
    shows("\"payload_total\":999,");
    shows("[\"p76\",-0.1],[\"p78\",-0.1],");

    w = start_worker("Q", 0);
    push_text("Q", "dead", "x", 0);
    fail_one(&w, "a death", 0);
    stop_worker(&w);
    get("/api/v1/queues/Q/id?id=dead");
    assert_int_equal(drops("morgue_drop_payload", "\"dead\"", key_at(0)), 200);
    assert_string_equal(browser.text, "{\"count\":1}");
    assert_string_equal(line_of(seriatim_web_change_of(browser.client)),
                        "morgue_drop_payload by admin: queue \"Q\", id \"dead\": count 1");
}

static void test_a_drop_without_a_valid_key_is_refused(void **state)
{
    static const char *const bodies[] = {NULL,
                                         "{}",
                                         "{\"ids\":[\"1\"]}",
                                         "{\"id\":\"1\"}",
                                         "{\"key\":\"" KEY "\"}",
                                         "{\"id\":\"\",\"key\":\"" KEY "\"}",
                                         "{\"id\":\"1\",\"key\":\"\"}",
                                         "{\"id\":\"1\",\"key\":null}",
                                         "{\"id\":\"1\",\"key\":\"" KEY "0\"}",
                                         "{\"id\":\"1\",\"key\":\"g" KEY31 "\"}",
                                         "{\"id\":\"1\",\"key\":\"0000000000000000fff8000000000000\"}",
                                         "{\"id\":\"1\",\"key\":\"00000000000000007ff0000000000000\"}",
                                         "{\"id\":[\"1\"],\"key\":\"" KEY "\"}",
                                         "{\"id\":\"1\",\"key\":\"" KEY "\",\"ids\":[]}"};
    size_t i;
    (void)state;
    open_browser();
    push_text("Q", "1", "x", 0);
    for (i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (ask("POST", "/api/web/Q/drop_payload", bodies[i]) != 400)
            fail_msg("%s: %s", bodies[i], browser.text);
    assert_int_equal(drops("drop_payload", "\"1\"", KEY), 200);
    assert_string_equal(browser.text, "{\"count\":0}");
    /* A whole action does not take what names a payload. */
    assert_int_equal(ask("POST", "/api/web/Q/morgue_delete_all_jobs", "{\"id\":\"1\",\"key\":\"" KEY "\"}"), 400);
    assert_int_equal(ask("POST", "/api/web/Q/delete", "{\"ids\":[\"1\"],\"key\":\"" KEY "\"}"), 400);
    get("/api/v1/queues/Q/id?id=1");
    shows("\"state\":\"waiting\"");
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
    push("Q", id, sizeof id - 1, payload, sizeof payload, 0);
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

/* ---- History -------------------------------------------------------------------------------- */

/* The time of Redis, in microseconds. */
static int64_t redis_us(void)
{
    redisReply *reply = redis("TIME");
    int64_t us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 + strtoll(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return us;
}

/*
 * One answer of a session without a link: what it sends goes by the test's own connection. Returns what history.lua
 * says.
 */
static int64_t write_history(const char *queue, int64_t time_us, int64_t processed, int64_t failed, int64_t pushed,
                             int64_t lag_us, int64_t since_us)
{
    srt_history_sample sample;
    srt_session session;
    srt_request *r;
    const char *data;
    size_t len;
    int64_t wrote;
    redisReply *reply = redis("SCRIPT LOAD %b", srt_script_text_history, sizeof srt_script_text_history);
    freeReplyObject(reply);
    sample.time_us = time_us;
    sample.processed = processed;
    sample.failed = failed;
    sample.pushed = pushed;
    sample.lag_us = lag_us;
    sample.since_us = since_us;
    assert_int_equal(srt_session_init(&session, seriatim_default_allocator(), 0), SERIATIM_OK);
    assert_int_equal(srt_session_connected(&session, NULL, NULL, 0, NULL), SERIATIM_OK);
    r = srt_history_request(&session, "seriatim", queue, strlen(queue), &sample);
    assert_non_null(r);
    assert_int_equal(srt_session_send(&session, r), SERIATIM_OK);
    srt_session_output(&session, &data, &len);
    assert_int_equal(redisAppendFormattedCommand(server.redis, data, len), REDIS_OK);
    assert_int_equal(redisGetReply(server.redis, (void **)&reply), REDIS_OK);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    wrote = reply->integer;
    freeReplyObject(reply);
    srt_session_free(&session);
    return wrote;
}

/* The sum of one column over all points. */
static double sum_of(int column)
{
    double sum = 0;
    const char *at = strchr(browser.text, '[');
    int i;
    while (at && (at = strchr(at + 1, '['))) {
        const char *number = at + 1;
        for (i = 0; i < column; i++)
            number = strchr(number, ',') + 1;
        sum += strtod(number, NULL);
    }
    return sum;
}

static const char *const all_spans[] = {"15m", "1h", "1d", "7d"};

static void get_history(const char *queue, const char *span)
{
    char path[100];
    snprintf(path, sizeof path, "/api/v1/history?span=%s%s%s", span, queue ? "&queue=" : "", queue ? queue : "");
    get(path);
}

static void test_history_counts_what_came_and_ended(void **state)
{
    int64_t now;
    size_t i;
    redisReply *reply;
    (void)state;
    open_browser();
    fill();
    push_text("Other", "1", "a", 0);
    REDIS("SET seriatim:{/nodes}:sampler %s",
          "9000000000000000 1 another"); /* ends later than any lease could, so it does not count */
    REDIS("DEL seriatim:{Q}:history seriatim:{Other}:history");
    now = redis_us();
    assert_int_equal(write_history("Q", now - 3, 0, 0, 0, 0, 0), 1);
    assert_int_equal(write_history("Q", now - 2, 5, 1, 7, 1500000, 0), 1);
    assert_int_equal(write_history("Q", now - 2, 5, 1, 7, 1500000, 0), 0); /* sent twice */
    assert_int_equal(write_history("Q", now - 3, 4, 1, 6, 1500000, 0), 0); /* measured before it, by another process */
    assert_int_equal(write_history("Q", now - 1, 7, 1, 8, 500000, 0), 1);
    assert_int_equal(write_history("Other", now - 1, 100, 10, 0, 9000000, now - 5), 1);
    assert_int_equal(write_history("None", now - 1, 100, 10, 0, 9000000, 0), 0); /* no such queue */
    for (i = 0; i < 4; i++) {
        get_history("Q", all_spans[i]);
        assert_int_equal((int)sum_of(0), 7);
        assert_int_equal((int)sum_of(1), 1);
        assert_int_equal((int)sum_of(2), 8);
        assert_true(sum_of(3) > 1.4 && sum_of(3) < 2.1);
        get_history(NULL, all_spans[i]);
        assert_int_equal((int)sum_of(0), 107);
    }
    shows("\"step\":3600}");
    assert_int_equal(seriatim_check_begin(browser.client, SERIATIM_NO_QUEUE, 0), SERIATIM_OK);
    assert_int_equal(drive(), SERIATIM_OK);
    (void)seriatim_check_result(browser.client, &i);
    assert_int_equal(i, 0); /* the key is of a known kind */
    reply = redis("PTTL seriatim:{Q}:history");
    assert_true(reply->integer > 600000000);
    freeReplyObject(reply);
}

/* Points of the answer that are known, and how many stand between the first and the last of them that are not. */
static int known_points(int *gaps)
{
    const char *at = strchr(strchr(browser.text, '[') + 1, '[');
    int known = 0;
    for (*gaps = 0; at; known++) {
        const char *next = strchr(at + 1, '['), *null = at;
        while (next && (null = strstr(null + 1, "null")) && null < next)
            ++*gaps;
        at = next;
    }
    return known;
}

/*
 * Steps between two samples share what came; after more than a minute they are not known, and neither is when it came.
 */
static void test_history_marks_steps_between_samples_as_unknown(void **state)
{
    const int64_t second = 1000000;
    int64_t now;
    int gaps;
    (void)state;
    open_browser();
    fill();
    get("/api/v1/stats"); /* this process measured just now */
    REDIS("DEL seriatim:{Q}:history");
    now = redis_us() / (10 * second) * (10 * second) + second; /* one second into a step */
    write_history("Q", now - 600 * second, 0, 0, 0, 0, 0);
    write_history("Q", now - 590 * second, 0, 0, 0, 0, 0);
    get_history("Q", "15m");
    assert_int_equal(known_points(&gaps), 2); /* idle, not unknown */
    assert_int_equal(gaps, 0);
    assert_int_equal((int)(sum_of(0) + sum_of(1) + sum_of(2) + sum_of(3)), 0);
    write_history("Q", now - 550 * second, 10, 3, 5, 100 * second, 0); /* four steps later */
    get_history("Q", "15m");
    assert_int_equal(known_points(&gaps), 6);
    assert_int_equal(gaps, 0);
    assert_int_equal((int)sum_of(0), 10);
    assert_int_equal((int)sum_of(1), 3);
    assert_int_equal((int)sum_of(2), 5);
    assert_int_equal((int)sum_of(3), 100 + 90 + 80 + 70);
    write_history("Q", now, 1000, 3, 5000, 0, 0); /* nine minutes later */
    get_history("Q", "15m");
    assert_int_equal(known_points(&gaps), 7);
    assert_int_equal(gaps, 54);
    assert_int_equal((int)sum_of(2), 5);
    get_history("Q", "7d"); /* within an hour, or the one before it, that is no gap */
    assert_int_equal((int)sum_of(2), 5000);
    assert_int_equal((int)sum_of(3), 100);
    write_history("Q", now + 1, 1, 0, 0, 0, 0); /* a state was lost, and counts anew */
    write_history("Q", now + 2, 3, 0, 0, 0, 0);
    get_history("Q", "15m");
    assert_int_equal((int)sum_of(0), 12);
}

/* A year of steps takes no more room than a week. */
static void test_history_is_bounded(void **state)
{
    redisReply *reply;
    int64_t now;
    int i;
    (void)state;
    open_browser();
    fill();
    now = redis_us();
    for (i = 900; i >= 0; i--)
        write_history("Q", now - (int64_t)i * 10000000, 1000 - i, 0, 0, 0, 0);
    reply = redis("STRLEN seriatim:{Q}:history");
    assert_true(reply->integer <= 32 + 20 * (360 + 288 + 168));
    freeReplyObject(reply);
    /* Since `now` some seconds have passed, so the last points of a span may be empty. */
    get_history("Q", "15m");
    assert_true(sum_of(0) >= 80 && sum_of(0) <= 90);
    get_history("Q", "1h");
    assert_true(sum_of(0) >= 350 && sum_of(0) <= 360);
    get_history("Q", "1d");
    assert_int_equal((int)sum_of(0), 900);
}

/* Steps are merged by adding what came in them: no span shows more or less than came, and none adds lags up. */
static void test_merging_steps_of_history_keeps_their_sums(void **state)
{
    const int64_t second = 1000000;
    int64_t base;
    int i, gaps;
    (void)state;
    open_browser();
    fill();
    get("/api/v1/stats"); /* this process measured just now */
    REDIS("DEL seriatim:{Q}:history");
    base = (redis_us() / (30 * second) - 20) * 30 * second;
    write_history("Q", base - 9 * second, 0, 0, 0, 10 * second, 0);
    write_history("Q", base + 1 * second, 1000, 10, 100000, 10 * second, 0);
    write_history("Q", base + 11 * second, 2000, 20, 200000, 90 * second, 0);
    write_history("Q", base + 21 * second, 3000, 30, 300000, 10 * second, 0);
    for (i = 0; i < 4; i++) {
        get_history("Q", all_spans[i]);
        assert_int_equal((int)sum_of(0), 3000);
        assert_int_equal((int)sum_of(1), 30);
        assert_int_equal((int)sum_of(2), 300000);
        if (i == 0) {
            assert_int_equal(known_points(&gaps), 4);
            assert_int_equal((int)sum_of(3), 10 + 10 + 90 + 10);
        } else if (i == 1) { /* three steps make one point */
            assert_int_equal(known_points(&gaps), 2);
            assert_int_equal((int)sum_of(3), 10 + 90);
        } else {
            assert_true((int)sum_of(3) == 90 || (int)sum_of(3) == 100);
        }
    }
}

/* Another process that shows the dashboard. */
static void new_browser(void)
{
    seriatim_error error;
    seriatim_web_request request = browser.request;
    seriatim_link_free(browser.link);
    assert_int_equal(seriatim_link_new(NULL, server.url, &browser.link, &error), SERIATIM_OK);
    browser.client = seriatim_link_client(browser.link);
    browser.request = request;
}

/* After the lease of the one before it. */
static void measure_again(void)
{
    new_browser();
    REDIS("SET seriatim:{/nodes}:sampler %s", "1 1 another");
    get("/api/web/dashboard");
}

/* No node has ever served these queues: whoever looks at the dashboard measures them. */
static void test_the_dashboard_measures_queues_that_no_node_ever_served(void **state)
{
    int i, gaps;
    (void)state;
    open_browser();
    push_text("Abandoned", "1", "a", 0);
    push_text("Idle", "1", "a", 3600);
    get("/api/web/dashboard");
    for (i = 0; i < 80; i++)
        push_text("Abandoned", "1", "b", 0);
    assert_int_equal(ask("POST", "/api/web/Abandoned/pause", "{}"), 200);
    REDIS("DEBUG SLEEP 1");
    measure_again();
    get_history("Abandoned", "1d");
    assert_int_equal((int)sum_of(2), 80);
    assert_int_equal((int)sum_of(0), 0);
    assert_true(sum_of(3) >= 1 && sum_of(3) < 60);
    get_history("Idle", "1d");
    assert_true(known_points(&gaps) >= 1);
    assert_true(sum_of(3) < 1);
    /* Another process measures: this one does not, whatever is shown. */
    REDIS("DEL seriatim:{Idle}:history");
    another_measures();
    new_browser();
    get("/api/web/dashboard");
    get_history("Idle", "1d");
    assert_int_equal(known_points(&gaps), 0);
}

/*
 * The process that held the lease is gone; the next node measures as it starts. Waits until the history of the queue
 * shows this number of pushes.
 */
static void wait_for_pushes(const char *queue, int pushes)
{
    worker w;
    int i, gaps;
    REDIS("SET seriatim:{/nodes}:sampler %s", "1 1 another");
    w = start_worker("Served", 5);
    for (i = 0; i < 1000; i++) {
        get_history(queue, "1d");
        if (known_points(&gaps) > 0 && (int)sum_of(2) >= pushes)
            break;
        pause_ms(10);
    }
    assert_int_equal((int)sum_of(2), pushes);
    stop_worker(&w);
}

/* Nodes measure queues that no node serves, too. */
static void test_nodes_measure_queues_without_a_node(void **state)
{
    int i;
    (void)state;
    open_browser();
    another_measures();
    get("/api/v1/stats"); /* this client does not ask again for ten seconds */
    push_text("Abandoned", "1", "a", 0);
    wait_for_pushes("Abandoned", 0);
    for (i = 0; i < 7; i++)
        push_text("Abandoned", "1", "b", 0);
    wait_for_pushes("Abandoned", 7);
    assert_true(sum_of(3) > 0);
    assert_int_equal((int)sum_of(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_web_3_dashboard_and_stats_have_the_figures),
        cmocka_unit_test(test_delayed_ids_are_counted),
        cmocka_unit_test(test_r_web_17_scheduled_payloads_are_counted),
        cmocka_unit_test(test_r_web_18_scheduled_payloads_are_listed_page_by_page),
        cmocka_unit_test(test_r_web_19_scheduled_payloads_are_cancelled_and_rescheduled),
        cmocka_unit_test(test_r_web_4_ranges_list_records),
        cmocka_unit_test(test_d2_every_route_asks_for_its_role),
        cmocka_unit_test(test_d5_a_request_of_another_site_changes_nothing),
        cmocka_unit_test(test_form_bodies_are_taken),
        cmocka_unit_test(test_an_action_goes_on_from_its_cursor),
        cmocka_unit_test(test_invalid_cursors_of_an_action_are_refused),
        cmocka_unit_test(test_failed_ids_are_performed_now_and_killed),
        cmocka_unit_test(test_failed_ids_of_one_error_are_performed_now_and_killed),
        cmocka_unit_test(test_a_change_that_redis_refuses_is_an_error),
        cmocka_unit_test(test_a_change_that_was_never_sent_is_reported_as_not_done),
        cmocka_unit_test(test_a_change_without_an_answer_is_reported_as_unknown),
        cmocka_unit_test(test_invalid_form_bodies_are_refused),
        cmocka_unit_test(test_a_token_needs_no_origin),
        cmocka_unit_test(test_r_web_2_a_worker_s_name_stands_for_its_queue),
        cmocka_unit_test(test_d6_foreign_hosts_are_refused),
        cmocka_unit_test(test_r_web_1_unknown_paths_are_answered_with_the_page),
        cmocka_unit_test(test_d7_no_file_outside_the_table_is_served),
        cmocka_unit_test(test_a_missing_slash_is_redirected),
        cmocka_unit_test(test_r_web_5_actions_answer_with_their_outcome),
        cmocka_unit_test(test_the_actions_of_an_id_s_page_work),
        cmocka_unit_test(test_a_queue_shows_ages_bytes_and_settings),
        cmocka_unit_test(test_r_settings_3_looking_makes_no_queue),
        cmocka_unit_test(test_a_change_stops_when_its_visitor_has_left),
        cmocka_unit_test(test_only_a_closed_connection_of_a_change_counts),
        cmocka_unit_test(test_cached_figures_match_fresh_ones),
        cmocka_unit_test(test_unchanged_shards_are_not_read_again),
        cmocka_unit_test(test_idle_queues_are_measured_without_a_script),
        cmocka_unit_test(test_a_snapshot_leaves_out_ids_that_came_during_it),
        cmocka_unit_test(test_an_old_snapshot_of_many_shards_is_not_shown),
        cmocka_unit_test(test_an_unreadable_shard_hides_no_other),
        cmocka_unit_test(test_a_working_queue_shows_its_runs_and_nodes),
        cmocka_unit_test(test_a_node_shows_memory_and_clock_skew),
        cmocka_unit_test(test_node_descriptions_of_any_form_are_shown),
        cmocka_unit_test(test_a_node_is_quieted_and_stopped),
        cmocka_unit_test(test_d13_the_host_is_told_of_every_change),
        cmocka_unit_test(test_d13_a_report_names_action_role_ids_and_outcome),
        cmocka_unit_test(test_d13_hostile_ids_are_escaped_in_reports),
        cmocka_unit_test(test_d13_a_broken_off_change_is_reported_as_unknown),
        cmocka_unit_test(test_errors_are_grouped),
        cmocka_unit_test(test_r_web_20_records_are_filtered_by_the_group_of_their_error),
        cmocka_unit_test(test_r_web_21_errors_are_grouped_by_what_load_error_gives),
        cmocka_unit_test(test_r_web_21_records_are_filtered_by_the_group_of_the_loaded_error),
        cmocka_unit_test(test_r_web_21_no_record_of_a_loaded_group_is_lost_between_pages),
        cmocka_unit_test(test_r_web_21_errors_are_loaded_before_they_are_redacted),
        cmocka_unit_test(test_r_web_21_nothing_is_changed_without_a_loaded_text),
        cmocka_unit_test(test_r_web_21_a_request_loads_a_sample_of_the_errors),
        cmocka_unit_test(test_pages_of_records_hold_every_id_once),
        cmocka_unit_test(test_the_hottest_ids_are_sampled_over_all_shards),
        cmocka_unit_test(test_errors_are_sampled_over_all_shards),
        cmocka_unit_test(test_ages_are_sampled_over_all_shards),
        cmocka_unit_test(test_following_the_cursor_finds_all_hottest_ids),
        cmocka_unit_test(test_r_web_9_invalid_parameters_are_refused),
        cmocka_unit_test(test_a_changed_layout_ends_no_request),
        cmocka_unit_test(test_d10_redaction_applies_to_every_route),
        cmocka_unit_test(test_r_history_1_the_page_of_an_id_shows_its_history),
        cmocka_unit_test(test_r_action_14_a_payload_is_dropped_by_its_key),
        cmocka_unit_test(test_a_drop_without_a_valid_key_is_refused),
        cmocka_unit_test(test_d8_d9_a_huge_payload_is_cut_and_commands_in_ids_stay_text),
        cmocka_unit_test(test_a_lost_redis_is_answered_with_503),
        cmocka_unit_test(test_history_counts_what_came_and_ended),
        cmocka_unit_test(test_history_is_bounded),
        cmocka_unit_test(test_merging_steps_of_history_keeps_their_sums),
        cmocka_unit_test(test_history_marks_steps_between_samples_as_unknown),
        cmocka_unit_test(test_the_dashboard_measures_queues_that_no_node_ever_served),
        cmocka_unit_test(test_nodes_measure_queues_without_a_node),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

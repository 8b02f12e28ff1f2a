/*
 * test_allocation_web.c - the n-th allocation fails, for every n, while the dashboard and the HTTP API answer; see
 * test_allocation.c.
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
#include <string.h>
#include <time.h>

#include "seriatim.h"
#include "server.h"
#include "allocation.h"

/* ---- Scenarios of the web ------------------------------------------------------------------ */

static const char *const web_reads[] = {"/",
                                        "/assets/x/app/api.js",
                                        "/none/\xff",
                                        "/api/none",
                                        "/livez",
                                        "/readyz",
                                        "/metrics",
                                        "/api/v1/stats",
                                        "/api/web/dashboard",
                                        "/api/web/Q/range_by_id?min=-&max=%2B",
                                        "/api/web/Q/morgue_range_by_updated_at",
                                        "/api/web/Q/range_by_id?min=x",
                                        "/api/v1/queues/Q",
                                        "/api/v1/queues/None",
                                        "/api/v1/queues/Q/records?part=waiting&limit=2",
                                        "/api/v1/queues/Q/records?by=time&limit=2&cursor=000000000000000061",
                                        "/api/v1/queues/Q/records?part=retrying&by=time&limit=1",
                                        "/api/v1/queues/Q/records?cursor=0.0.0.1.0.000000000000000061",
                                        "/api/v1/queues/Q/id?id=a",
                                        "/api/v1/queues/Q/hottest",
                                        "/api/v1/queues/Q/ages",
                                        "/api/v1/queues/Q/bytes",
                                        "/api/v1/queues/Q/errors?part=retrying",
                                        "/api/v1/queues/Q/records?part=dead&error=0123456789abcdef",
                                        "/api/v1/queues/Q/errors?part=retrying&loads",
                                        "/api/v1/queues/Q/records?part=retrying&error=cbf29ce484222325&loads",
                                        "/api/v1/running",
                                        "/api/v1/nodes",
                                        "/api/v1/search?q=a",
                                        "/api/v1/search?q=a&queue=Q&prefix=1",
                                        "/api/v1/history?span=1h",
                                        "/api/v1/history?queue=Q"};

static const char *const web_writes[] = {"/api/web/Q/park",
                                         "/api/web/Q/unpark",
                                         "/api/v1/queues/Q/errors/0123456789abcdef/queue_up",
                                         "/api/web/Q/unpark_all",
                                         "/api/web/Q/perform_now",
                                         "/api/v1/nodes/n1/quiet",
                                         "/api/web/Q/drop_payload",
                                         "/api/v1/queues/Q/errors/cbf29ce484222325/kill?loads"};

#define WEB_READS (int)(sizeof web_reads / sizeof *web_reads)

#define WEB_WRITES (int)(sizeof web_writes / sizeof *web_writes)

static seriatim_text text_of(const char *text)
{
    seriatim_text t = {text, text ? strlen(text) : 0};
    return t;
}

static seriatim_text shorten(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    (void)context;
    (void)queue;
    (void)id;
    text.len = text.len > 3 ? 3 : text.len;
    return text;
}

static seriatim_text load(void *context, seriatim_text stored)
{
    (void)context;
    return stored;
}

/* The status of the drive, or of what the answer says: without memory it is a 503. */
static int browse(seriatim_link *link, int number)
{
    seriatim_web_request request;
    seriatim_web_settings settings;
    static const seriatim_web_hooks hooks = {shorten, load, NULL};
    const seriatim_web_response *response;
    const seriatim_web_change *change;
    const char *target = number < WEB_READS ? web_reads[number] : web_writes[number - WEB_READS],
               *question = strchr(target, '?');
    int status;
    memset(&request, 0, sizeof request);
    memset(&settings, 0, sizeof settings);
    settings.title = "A title";
    settings.loads_errors = strstr(target, "loads") != NULL;
    request.method = number < WEB_READS ? "GET" : "POST";
    request.role = SERIATIM_WEB_ADMIN;
    request.path.data = target;
    request.path.len = question ? (size_t)(question - target) : strlen(target);
    request.query = text_of(question ? question + 1 : NULL);
    request.sec_fetch_site = text_of("same-origin");
    request.content_type = text_of("application/json");
    request.body = text_of(number == WEB_READS ? "{\"ids\":[\"a\",7,{\"base64\":\"Yg==\"}]}"
                           : number == WEB_READS + 1 || number == WEB_READS + 4 ? "{\"ids\":[\"a\"]}"
                           : number == WEB_READS + 6 ? "{\"id\":\"a\",\"key\":\"00000000000000000000000000000000\"}"
                                                     : NULL);
    status = seriatim_web_begin(seriatim_link_client(link), &settings, &request);
    if (status == SERIATIM_OK)
        status = drive_failing(link);
    while (!(response = seriatim_web_answer(seriatim_link_client(link), status, &hooks)))
        status = drive_failing(link);
    assert_true(response->header_count >= 2 && response->body.data);
    if (status == SERIATIM_OK && response->status == 503 && strstr(response->body.data, "out of memory"))
        status = SERIATIM_NOMEM;
    if (status == SERIATIM_OK && response->status >= 500)
        fail_msg("%s: %d %s", target, response->status, response->body.data);
    change = seriatim_web_change_of(seriatim_link_client(link));
    assert_int_equal(status == SERIATIM_OK && change != NULL, status == SERIATIM_OK && number >= WEB_READS);
    if (change && change->line.len == 0) /* all else is told without memory */
        status = SERIATIM_NOMEM;
    return status;
}

static int browse_twice(int number)
{
    seriatim_options options = {&failing_allocator, NULL, NULL, 0, NULL};
    seriatim_link *link;
    size_t count;
    int status = seriatim_link_new(&options, server.url, &link, NULL);
    (void)seriatim_web_routes(&count);
    if (status != SERIATIM_OK)
        return status;
    status = browse(link, number);
    if (status == SERIATIM_OK)
        status = browse(link, number);
    seriatim_link_free(link);
    return status;
}

/* What consumers send; the token of the last names an id that does not run. */
static const char *const consumer_posts[][2] = {
    {"push",
     "{\"handles\":true,\"queue\":\"Q\",\"jobs\":[{\"id\":{\"base64\":\"Yg==\"},\"payload\":{\"a\":[1.5,null,true]},"
     "\"context\":{\"c\":\"d\"},\"on_waiting\":\"keep\"}]}"},
    {"push", "{\"raw\":true,\"queue\":\"Q\",\"jobs\":[{\"id\":1,\"payload\":\"AAE=\"}]}"},
    {"pop", "{\"queues\":[\"Q\"],\"weights\":[2],\"wait\":0,\"ttr\":0}"},
    {"pop", "{\"queues\":[\"Q\"],\"wait\":0,\"raw\":true}"},
    {"fail", "{\"token\":\"AUAUAAAAAAAAP_AAAAAAAAA_8AAAAAAAAD_wAAAAAAAAAAEAAQBRYQ\",\"error\":\"e\"}"},
};

static int consume(seriatim_link *link, int number)
{
    seriatim_web_request request;
    seriatim_web_settings settings;
    const seriatim_web_response *response;
    char path[64];
    int status;
    memset(&request, 0, sizeof request);
    memset(&settings, 0, sizeof settings);
    settings.consume = 1;
    snprintf(path, sizeof path, "/api/v1/consume/%s", consumer_posts[number][0]);
    request.method = "POST";
    request.role = SERIATIM_WEB_CONSUMER;
    request.path = text_of(path);
    request.content_type = text_of("application/json");
    request.body = text_of(consumer_posts[number][1]);
    status = seriatim_web_begin(seriatim_link_client(link), &settings, &request);
    if (status == SERIATIM_OK)
        status = drive_failing(link);
    while (!(response = seriatim_web_answer(seriatim_link_client(link), status, NULL)))
        status = drive_failing(link);
    if (response->status == 503)
        return SERIATIM_NOMEM;
    if (response->status >= 400 && response->status != 409)
        fail_msg("%s: %d %s", path, response->status, response->body.data);
    return SERIATIM_OK;
}

static int consume_once(int number)
{
    seriatim_options options = {&failing_allocator, NULL, NULL, 0, NULL};
    seriatim_link *link;
    int status = seriatim_link_new(&options, server.url, &link, NULL);
    if (status != SERIATIM_OK)
        return status;
    status = consume(link, number);
    seriatim_link_free(link);
    return status;
}

/* ---- The n-th allocation ------------------------------------------------------------------- */

static void test_every_allocation_of_the_dashboard_may_fail(void **state)
{
    int number;
    (void)state;
    fill_queue();
    for (number = 0; number < WEB_READS + WEB_WRITES; number++)
        fail_each_allocation("web", browse_twice, number, 200);
    for (number = 0; number < (int)(sizeof consumer_posts / sizeof *consumer_posts); number++)
        fail_each_allocation("consumer", consume_once, number, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_of_the_dashboard_may_fail),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

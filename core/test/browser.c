/* browser.c - a browser of the dashboard, and jobs for it. */
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

struct browser browser;

seriatim_text text_of(const char *text)
{
    seriatim_text t = {text, text ? strlen(text) : 0};
    return t;
}

void browse_at(const char *url)
{
    seriatim_error error;
    if (browser.link)
        seriatim_link_free(browser.link);
    memset(&browser, 0, sizeof browser);
    assert_int_equal(seriatim_link_new(NULL, url, &browser.link, &error), SERIATIM_OK);
    browser.client = seriatim_link_client(browser.link);
    browser.hooks.context = &browser;
    browser.request.host = text_of("localhost:9292");
    browser.request.role = SERIATIM_WEB_ADMIN;
    browser.request.content_type = text_of("application/json");
    browser.request.sec_fetch_site = text_of("same-origin");
}

void open_browser(void)
{
    REDIS("CONFIG SET maxmemory 0");
    REDIS("FLUSHALL");
    browse_at(server.url);
}

void another_measures(void)
{
    redisReply *reply = redis("TIME");
    redisReply *answer = redis("SET seriatim:{/nodes}:sampler %lld000000%s",
                               strtoll(reply->element[0]->str, NULL, 10) + 14, " 1 another");
    freeReplyObject(reply);
    freeReplyObject(answer);
}

int drive_browser(void)
{
    int status;
    while ((status = seriatim_link_step(browser.link)) == SERIATIM_AGAIN) {
        seriatim_link_wait(browser.link);
        if (browser.meanwhile)
            browser.meanwhile();
    }
    return status;
}

int ask(const char *method, const char *target, const char *body)
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
        status = drive_browser();
    while (!(browser.response = seriatim_web_answer(browser.client, status, &browser.hooks)))
        status = drive_browser();
    assert_true(browser.response->body.len < sizeof browser.text);
    memcpy(browser.text, browser.response->body.data, browser.response->body.len);
    browser.text[browser.response->body.len] = '\0';
    return browser.response->status;
}

void get(const char *target)
{
    int status = ask("GET", target, NULL);
    if (status != 200)
        fail_msg("%s: %d %s", target, status, browser.text);
}

void get_first(const char *target)
{
    seriatim_link *kept = browser.link;
    assert_int_equal(seriatim_link_new(NULL, server.url, &browser.link, NULL), SERIATIM_OK);
    browser.client = seriatim_link_client(browser.link);
    get(target);
    seriatim_link_free(browser.link);
    browser.link = kept;
    browser.client = seriatim_link_client(kept);
}

void shows(const char *part)
{
    if (!strstr(browser.text, part))
        fail_msg("no %s in: %.2000s", part, browser.text);
}

size_t queue_of(seriatim_client *client, const char *name, int64_t shards)
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

seriatim_job job_of(const char *id, size_t len, const char *payload, size_t payload_len, double delay)
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

void push_job(const char *name, const seriatim_job *job)
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

void push_plain(const char *name, const char *id, size_t len, const char *payload, size_t payload_len, double delay)
{
    seriatim_job job = job_of(id, len, payload, payload_len, delay);
    push_job(name, &job);
}

void push_text(const char *name, const char *id, const char *payload, double delay)
{
    push_plain(name, id, strlen(id), payload, strlen(payload), delay);
}

void delete_queue(const char *name)
{
    const seriatim_text confirmed = text_of(name);
    seriatim_link *kept = browser.link;
    assert_int_equal(seriatim_link_new(NULL, server.url, &browser.link, NULL), SERIATIM_OK);
    browser.client = seriatim_link_client(browser.link);
    assert_int_equal(
        seriatim_action_begin(browser.client, queue_of(browser.client, name, 0), SERIATIM_DELETE_QUEUE, &confirmed, 1),
        SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
    seriatim_link_free(browser.link);
    browser.link = kept;
    browser.client = seriatim_link_client(kept);
}

void push_ids(int count)
{
    char id[12];
    int i;
    for (i = 0; i < count; i++) {
        snprintf(id, sizeof id, "%d", i);
        push_text("Q", id, "x", 0);
    }
}

void push_failed_id(const char *id, double delay)
{
    seriatim_job job = job_of(id, strlen(id), "x", 1, delay);
    job.retry_count = 1;
    push_job("One", &job);
}

void push_scheduled(const char *name, const char *id, double seconds)
{
    seriatim_job job = job_of(id, strlen(id), "x", 1, 0);
    job.deliver_when = SERIATIM_DELAY;
    job.deliver_time = seconds;
    push_job(name, &job);
}

const char *next_member(const char **at, const char *name)
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

const char *path_of(const char *pattern)
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

void push_two(void)
{
    push_text("Q", "Q", "a", 0);
    push_text("Q", "2", "b", 1000);
}

worker start_worker(const char *name, int64_t retries)
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

seriatim_delivery *take_one(const worker *w)
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

worker hold_one(const char *name, int64_t retries)
{
    worker w = start_worker(name, retries);
    w.held = take_one(&w);
    return w;
}

void fail_one(const worker *w, const char *error, double retry_in)
{
    seriatim_delivery *d = take_one(w);
    assert_int_equal(seriatim_delivery_fail(d, 0, error, strlen(error), retry_in), SERIATIM_OK);
    seriatim_runner_settle(w->runner, d);
}

void stop_worker(worker *w)
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

void fail_ids(const char *error, int count)
{
    worker w = start_worker("Q", 5);
    int i;
    for (i = 0; i < count; i++)
        fail_one(&w, error, 1000);
    stop_worker(&w);
}

void fingerprint_of(const char *error, char fingerprint[17])
{
    const char *at;
    get("/api/v1/queues/Q/errors?part=retrying");
    at = strstr(browser.text, error);
    assert_non_null(at);
    at = strstr(at, "\"fingerprint\":\"");
    assert_non_null(at);
    snprintf(fingerprint, 17, "%.16s", at + strlen("\"fingerprint\":\""));
}

const char *line_of(const seriatim_web_change *change)
{
    static char line[8000];
    assert_non_null(change);
    assert_true(change->line.len < sizeof line);
    memcpy(line, change->line.data, change->line.len);
    line[change->line.len] = '\0';
    return line;
}

void told(const char *line)
{
    const seriatim_web_change *change = seriatim_web_change_of(browser.client);
    assert_string_equal(line_of(change), line);
    assert_int_equal(change->status, browser.response->status);
    assert_int_equal(change->count >= 0, browser.response->status == 200);
}

int walk_from(const char *target, const char *cursor, const char *first, const char *last)
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

int walk(const char *target, const char *first, const char *last)
{
    int tries, records = -1;
    for (tries = 0; tries < 20 && records < 0; tries++)
        records = walk_from(target, NULL, first, last);
    return records;
}

int64_t member(const char *name)
{
    char key[32];
    const char *at;
    snprintf(key, sizeof key, "\"%s\":", name);
    at = strstr(browser.text, key);
    if (!at)
        fail_msg("no %s in: %.2000s", key, browser.text);
    return strtoll(at + strlen(key), NULL, 10);
}

seriatim_text hide(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    static const seriatim_text hidden = {"[hidden]", 8};
    assert_ptr_equal(context, &browser);
    assert_true(queue.len == 1 && queue.data[0] == 'Q');
    (void)id;
    return text.len >= 6 && strstr(text.data, "secret") ? hidden : text;
}

int drops(const char *action, const char *id, const char *key)
{
    char path[100], body[200];
    snprintf(path, sizeof path, "/api/web/Q/%s", action);
    snprintf(body, sizeof body, "{\"id\":%s,\"key\":\"%s\"}", id, key);
    return ask("POST", path, body);
}

/*
 * test_web_read_only.c - the figures of a real Redis that answers and cannot be written to: a replica, a demoted
 * master, one without its replicas; of one Redis and of a cluster.
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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "browser.h"
#include "link_fixture.h"
#include "redis_cluster.h"

#define X(name, sha) sha,
static const char *const shas[] = {SRT_SCRIPTS(X)};
#undef X

static const char *const pages[] = {"/api/v1/stats", "/api/web/dashboard", "/api/v1/queues/Q", "/api/v1/history",
                                    "/metrics"};

/* Each by a browser that comes for the first time, so it asks to measure. */
static void all_figures_are_shown(const char *url)
{
    size_t i;
    for (i = 0; i < sizeof pages / sizeof *pages; i++) {
        browse_at(url);
        get(pages[i]);
        get(pages[i]);
    }
    shows("seriatim_ready{queue=\"Q\"} ");
}

static void test_f15_a_replica_shows_its_pages(void **state)
{
    redis_process replica;
    const seriatim_web_route *routes;
    size_t count, i;
    (void)state;
    open_browser();
    push_two();
    start_replica(&replica);
    all_figures_are_shown(replica.url);
    routes = seriatim_web_routes(&count);
    for (i = 0; i < count; i++)
        if (strcmp(routes[i].method, "GET") == 0 && strcmp(routes[i].pattern, "/readyz") != 0)
            assert_in_range(ask("GET", path_of(routes[i].pattern), NULL), 200, 499);
    open_browser();
    redis_remove(&replica);
}

static void test_f15_a_redis_without_its_replicas_shows_its_figures(void **state)
{
    (void)state;
    open_browser();
    push_two();
    REDIS("CONFIG SET min-replicas-to-write 1");
    all_figures_are_shown(server.url);
    REDIS("CONFIG SET min-replicas-to-write 0");
}

/* Does the client send a sample now? */
static int sends_a_sample(const char *data, size_t len)
{
    size_t i;
    for (i = 0; i + 40 <= len; i++)
        if (memcmp(data + i, shas[srt_script_history], 40) == 0)
            return 1;
    return 0;
}

/* Sends and hears once. 0: the connection has ended. When samples are to be sent, Redis refuses writes from then on. */
static int exchange(seriatim_client *client, redisContext *wire)
{
    static char answer[1 << 16];
    seriatim_error error;
    const char *data;
    size_t len;
    ssize_t got;
    srt_client_output(client, &data, &len);
    if (sends_a_sample(data, len))
        REDIS("CONFIG SET min-replicas-to-write 1");
    if (len > 0) {
        assert_int_equal(write(wire->fd, data, len), len);
        srt_client_sent(client, len);
    }
    got = read(wire->fd, answer, sizeof answer);
    assert_true(got > 0);
    if (srt_client_input(client, answer, (size_t)got, &error) == SERIATIM_OK)
        return 1;
    assert_int_equal(error.status, SERIATIM_READONLY);
    srt_client_disconnected(client);
    return 0;
}

/* Drives the client by hand until its operation has ended. Returns how many connections that took. */
static int connections_of(seriatim_client *client)
{
    int connections = 0;
    while (srt_client_status(client) == SERIATIM_AGAIN) {
        redisContext *wire = redisConnectUnix(server.socket);
        assert_true(wire && !wire->err);
        redisSetTimeout(wire, (struct timeval){20, 0});
        assert_int_equal(srt_client_connected(client, NULL, NULL, 0), SERIATIM_OK);
        connections++;
        while (srt_client_status(client) == SERIATIM_AGAIN && exchange(client, wire))
            ;
        redisFree(wire);
    }
    return connections;
}

/* The first sample is refused, and the others are not sent again. */
static void test_f15_a_redis_that_becomes_read_only_while_it_is_measured_shows_its_figures(void **state)
{
    static const unsigned char random[SRT_CLIENT_RANDOM] = {1};
    const seriatim_web_response *response;
    seriatim_client *client;
    char name[16];
    int i;
    (void)state;
    open_browser();
    for (i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "Q%d", i);
        push_text(name, "1", "a", 0);
    }
    assert_int_equal(seriatim_client_new(NULL, &client, NULL), SERIATIM_OK);
    srt_client_identify(client, random);
    srt_client_tell_time(client, 1790000000);
    browser.request.method = "GET";
    browser.request.path = text_of("/metrics");
    assert_int_equal(seriatim_web_begin(client, &browser.settings, &browser.request), SERIATIM_OK);
    assert_int_equal(connections_of(client), 2);
    response = seriatim_web_answer(client, srt_client_status(client), &browser.hooks);
    assert_int_equal(response->status, 200);
    assert_non_null(strstr(response->body.data, "seriatim_ready{queue=\"Q19\"} 1\n"));
    seriatim_client_free(client);
    REDIS("CONFIG SET min-replicas-to-write 0");
}

/* A dashboard whose URL is a name does not stay at the master that the name led to before. */
static void test_f15_a_dashboard_leaves_a_demoted_master(void **state)
{
    redis_process next;
    char name[100], url[120];
    (void)state;
    open_browser();
    push_two();
    memset(&next, 0, sizeof next);
    assert_int_equal(redis_make_folder(&next), 0);
    assert_int_equal(redis_run(&next, NULL), 0);
    assert_int_equal(redis_wait(&next), 0);
    snprintf(name, sizeof name, "%s/name.sock", server.folder);
    snprintf(url, sizeof url, "unix://%s", name);
    assert_int_equal(symlink(server.socket, name), 0);
    browse_at(url);
    get("/api/v1/search?q=2");
    shows("\"queue\":\"Q\"");
    unlink(name);
    assert_int_equal(symlink(next.socket, name), 0);
    REDIS("REPLICAOF 127.0.0.1 1");
    get("/metrics");
    assert_null(strstr(browser.text, "queue=\"Q\""));
    REDIS("REPLICAOF NO ONE");
    unlink(name);
    open_browser();
    redis_remove(&next);
}

static void test_f15_masters_of_a_cluster_without_their_replicas_show_their_figures(void **state)
{
    seriatim_link *link = link_to_queue(cluster.url, "Q", 3, "list");
    size_t i;
    (void)state;
    link_push_jobs(link, "a", 0, 2, 2);
    seriatim_link_free(link);
    for (i = 0; i < CLUSTER_MASTERS; i++)
        cluster_do(&cluster, i, "CONFIG SET min-replicas-to-write 3");
    all_figures_are_shown(cluster.url);
}

static int close_browser(void **state)
{
    (void)state;
    seriatim_link_free(browser.link);
    browser.link = NULL;
    return 0;
}

static int stop_server_and_browser(void **state)
{
    return close_browser(state) + stop_server(state);
}

static int stop_cluster_and_browser(void **state)
{
    return close_browser(state) + redis_cluster_tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f15_a_replica_shows_its_pages),
        cmocka_unit_test(test_f15_a_redis_without_its_replicas_shows_its_figures),
        cmocka_unit_test(test_f15_a_redis_that_becomes_read_only_while_it_is_measured_shows_its_figures),
        cmocka_unit_test(test_f15_a_dashboard_leaves_a_demoted_master),
    };
    const struct CMUnitTest of_cluster[] = {
        cmocka_unit_test(test_f15_masters_of_a_cluster_without_their_replicas_show_their_figures),
    };
    int failed;
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    failed = cmocka_run_group_tests(tests, start_server, stop_server_and_browser);
    return failed + cmocka_run_group_tests(of_cluster, redis_cluster_set_up, stop_cluster_and_browser);
}

/* test_cluster_client.c - what a client does beside pushing, on the masters of a Redis Cluster. */
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

#include "link_fixture.h"
#include "redis_cluster.h"
#include "server.h"

#define SHARDS 24
#define JOBS 300

static seriatim_link *open_queue(const char *queue)
{
    return link_to_queue(cluster.url, queue, SHARDS, "list");
}

static int64_t length_of(seriatim_link *link)
{
    return seriatim_metrics_total(link_finish(link, seriatim_metrics_begin(seriatim_link_client(link), 0)))->length;
}

static size_t found_by_range(seriatim_link *link)
{
    seriatim_query query;
    size_t count, i;
    const seriatim_record *found;
    seriatim_query_init(&query, SERIATIM_RANGE_BY_ID);
    query.limit = 100000;
    found =
        seriatim_query_result(link_finish(link, seriatim_query_begin(seriatim_link_client(link), 0, &query)), &count);
    for (i = 1; i < count; i++)
        assert_true(strcmp(found[i - 1].id, found[i].id) < 0);
    return count;
}

static int64_t act(seriatim_link *link, int kind, const char *id)
{
    seriatim_text text = {id, id ? strlen(id) : 0};
    return seriatim_action_result(
        link_finish(link, seriatim_action_begin(seriatim_link_client(link), 0, kind, &text, id != NULL)));
}

static void test_queries_actions_and_metrics_see_the_shards_of_all_masters(void **state)
{
    seriatim_link *link = open_queue("seen");
    (void)state;
    link_push_jobs(link, "a", 0, JOBS, 1 << 30);
    assert_int_equal(length_of(link), JOBS);
    assert_int_equal(found_by_range(link), JOBS);
    assert_int_equal(act(link, SERIATIM_DELETE, "id-7"), 1);
    assert_int_equal(found_by_range(link), JOBS - 1);
    assert_int_equal(act(link, SERIATIM_PAUSE, NULL), SHARDS);
    assert_int_equal(act(link, SERIATIM_RESUME, NULL), SHARDS);
    assert_int_equal(link_findings(link, 0), 0);
    assert_int_equal(act(link, SERIATIM_DELETE_QUEUE, "seen"), 1);
    assert_int_equal(link_findings(link, SERIATIM_NO_QUEUE), 0);
    seriatim_link_free(link);
}

/* What SCAN alone can find lies on all masters. */
static void test_the_names_of_queues_are_found_on_all_masters(void **state)
{
    seriatim_link *link = open_queue("name-0");
    seriatim_link *others[11];
    size_t count, i, masters[CLUSTER_STARTED] = {0};
    const seriatim_text *names;
    (void)state;
    link_push_jobs(link, "a", 0, 1, 1);
    for (i = 0; i < 11; i++) {
        char name[16], key[32];
        snprintf(name, sizeof name, "name-%d", (int)i + 1);
        snprintf(key, sizeof key, "{%s}", name);
        masters[cluster_master_of(&cluster, cluster_slot(&cluster, key))]++;
        others[i] = open_queue(name);
        link_push_jobs(others[i], "a", 0, 1, 1);
        seriatim_link_free(others[i]);
    }
    for (i = 0; i < CLUSTER_MASTERS; i++)
        assert_true(masters[i] > 0);
    names = seriatim_queues_result(link_finish(link, seriatim_queues_begin(seriatim_link_client(link))), &count);
    assert_int_equal(count, 12);
    assert_int_equal(memcmp(names[11].data, "name-9", 6), 0);
    seriatim_link_free(link);
}

/* A server of the queue that runs nothing. */
static seriatim_runner *start_mover(const char *name)
{
    seriatim_node_settings settings;
    seriatim_queue_settings queue;
    seriatim_runner *runner;
    size_t number;
    memset(&settings, 0, sizeof settings);
    settings.id = "mover";
    settings.lease_ms = 10000;
    settings.poll_ms = 1000;
    settings.threads = 1;
    seriatim_queue_settings_init(&queue);
    queue.name = name;
    queue.name_len = strlen(name);
    queue.shards_count = SHARDS;
    queue.fold = "list";
    assert_int_equal(seriatim_runner_new(&settings, cluster.url, &runner, NULL), SERIATIM_OK);
    assert_int_equal(seriatim_runner_worker(runner, &queue, &number, NULL), SERIATIM_OK);
    assert_int_equal(seriatim_runner_start(runner, NULL), SERIATIM_OK);
    return runner;
}

static int ids_move(seriatim_link *link)
{
    seriatim_client *c = link_finish(link, seriatim_metrics_begin(seriatim_link_client(link), 0));
    return seriatim_metrics_resharding(c) != NULL;
}

/* The number of the master that has the id in its shard of `shards`. */
static size_t master_with(const char *id, unsigned shards)
{
    unsigned shard = seriatim_shard_of(id, strlen(id), shards);
    char key[64];
    size_t master;
    redisReply *reply;
    snprintf(key, sizeof key, "seriatim:{moved/%u}:jobs", shard);
    master = cluster_master_of(&cluster, cluster_slot(&cluster, key));
    reply = cluster_call(&cluster, master, "HEXISTS %s %s", key, id);
    if (reply->integer != 1)
        fail_msg("%s is not in its shard %u", id, shard);
    freeReplyObject(reply);
    return master;
}

static void test_r_reshard_1_ids_move_to_shards_of_all_masters(void **state)
{
    seriatim_link *link = open_queue("moved");
    seriatim_runner *runner;
    size_t masters[CLUSTER_STARTED] = {0};
    double until = wall_clock_ms() + 600000; /* on a busy machine */
    char id[16];
    int i;
    (void)state;
    link_push_jobs(link, "a", 0, JOBS, 1 << 30);
    assert_int_equal(act(link, SERIATIM_PAUSE, NULL), SHARDS); /* so that the server claims nothing */
    runner = start_mover("moved");
    assert_int_equal(act(link, SERIATIM_RESHARD, "48"), 1);
    while (ids_move(link) && wall_clock_ms() < until) {
        seriatim_runner_pulse(runner);
        pause_ms(200); /* what asks all shards keeps the masters from moving */
    }
    assert_false(ids_move(link));
    assert_int_equal(length_of(link), JOBS);
    assert_int_equal(found_by_range(link), JOBS);
    for (i = 0; i < JOBS; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        masters[master_with(id, 2 * SHARDS)]++;
    }
    for (i = 0; i < CLUSTER_MASTERS; i++)
        assert_true(masters[i] > 0);
    assert_int_equal(act(link, SERIATIM_RESUME, NULL), 2 * SHARDS);
    seriatim_runner_free(runner);
    assert_int_equal(link_findings(link, 0), 0);
    seriatim_link_free(link);
}

/* An id whose shards before and after a move of SHARDS to twice as many lie on these two masters, or NULL. */
static const char *id_between(size_t from, size_t to)
{
    static char id[32];
    int i;
    for (i = 0; i < 10000; i++) {
        char key[64];
        unsigned before, after;
        snprintf(id, sizeof id, "between-%d", i);
        before = seriatim_shard_of(id, strlen(id), SHARDS);
        after = seriatim_shard_of(id, strlen(id), 2 * SHARDS);
        snprintf(key, sizeof key, "{torn/%u}", before);
        if (before == after || cluster_master_of(&cluster, cluster_slot(&cluster, key)) != from)
            continue;
        snprintf(key, sizeof key, "{torn/%u}", after);
        if (cluster_master_of(&cluster, cluster_slot(&cluster, key)) == to)
            return id;
    }
    return NULL;
}

static int is_in_new_shard(const char *id)
{
    redisReply *reply = cluster_call(&cluster, 1, "HEXISTS seriatim:{torn/%u}:jobs %s",
                                     seriatim_shard_of(id, strlen(id), 2 * SHARDS), id);
    int there = (int)reply->integer;
    freeReplyObject(reply);
    return there;
}

/* The push waits until the replica of the old shard's master knows that the id has left. Meanwhile the client loses
 * its connection to the master of the new shard: an answer to what it has asked before that does not count. */
static void test_a_push_of_an_id_that_moved_outlasts_a_lost_connection(void **state)
{
    seriatim_link *link = open_queue("torn");
    seriatim_client *c = seriatim_link_client(link);
    const char *id = id_between(0, 1);
    (void)state;
    assert_non_null(id);
    link_push_jobs(link, "a", 0, JOBS, 1 << 30); /* it has connections to all masters */
    assert_int_equal(act(link, SERIATIM_RESHARD, "48"), 1);
    assert_true(ids_move(link));
    cluster_freeze(&cluster, CLUSTER_MASTERS);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    link_add_job(link, id, "1", NULL);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    link_goes_on_for(link, 250);
    cluster_do(&cluster, 1, "CLIENT KILL TYPE normal");
    link_goes_on_for(link, 250);
    assert_false(is_in_new_shard(id));
    cluster_thaw(&cluster, CLUSTER_MASTERS);
    link_finish(link, SERIATIM_OK);
    assert_true(is_in_new_shard(id));
    cluster_await_whole(&cluster);
    seriatim_link_free(link);
}

static void change_strays(const char *command, const char *format)
{
    int i;
    for (i = 0; i < SHARDS; i++) {
        char key[64];
        snprintf(key, sizeof key, format, i);
        cluster_do(&cluster, cluster_master_of(&cluster, cluster_slot(&cluster, key)), command, key);
    }
}

static void test_check_finds_stray_keys_on_all_masters(void **state)
{
    seriatim_link *link = open_queue("strays");
    (void)state;
    link_push_jobs(link, "a", 0, JOBS, 1 << 30);
    change_strays("SET %s x", "seriatim:{strays/%d}:nothing");
    change_strays("SET %s x", "seriatim:{strange-%d}:nothing");
    assert_int_equal(link_findings(link, 0), SHARDS);
    assert_int_equal(link_findings(link, SERIATIM_NO_QUEUE), SHARDS);
    change_strays("DEL %s", "seriatim:{strays/%d}:nothing");
    change_strays("DEL %s", "seriatim:{strange-%d}:nothing");
    assert_int_equal(link_findings(link, 0), 0);
    seriatim_link_free(link);
}

static void test_health_is_that_of_all_masters(void **state)
{
    seriatim_link *link = open_queue("health");
    const seriatim_health *health;
    (void)state;
    health = seriatim_health_result(link_finish(link, seriatim_health_begin(seriatim_link_client(link))));
    assert_string_equal(health->role, "master");
    assert_int_equal(health->replicas, 1);
    assert_string_equal(health->maxmemory_policy, "noeviction");
    assert_non_null(strstr(health->address, "127.0.0.1:"));
    cluster_do(&cluster, 1, "CONFIG SET maxmemory-policy allkeys-lru");
    health = seriatim_health_result(link_finish(link, seriatim_health_begin(seriatim_link_client(link))));
    assert_string_equal(health->maxmemory_policy, "allkeys-lru");
    cluster_do(&cluster, 1, "CONFIG SET maxmemory-policy noeviction");
    seriatim_link_free(link);
}

/* ---- Pipelines and sets ---------------------------------------------------------------------- */

static void add_queue(seriatim_link *link, const char *name, size_t *number)
{
    seriatim_queue_settings settings;
    seriatim_queue_settings_init(&settings);
    settings.name = name;
    settings.name_len = strlen(name);
    settings.shards_count = SHARDS;
    assert_int_equal(seriatim_client_queue(seriatim_link_client(link), &settings, number), SERIATIM_OK);
}

/* Each queue has chunks at each master, and each master has its own WAIT for all of them. */
static void test_a_pipeline_waits_for_the_replicas_of_each_master(void **state)
{
    seriatim_link *link = open_queue("piped-0");
    seriatim_client *c = seriatim_link_client(link);
    size_t queues[3] = {0}, i;
    seriatim_push_counts counts;
    seriatim_error error;
    int k;
    (void)state;
    add_queue(link, "piped-1", &queues[1]);
    add_queue(link, "piped-2", &queues[2]);
    assert_int_equal(seriatim_pipeline_begin(c), SERIATIM_OK);
    for (i = 0; i < 3; i++) {
        assert_int_equal(seriatim_pipeline_push(c, queues[i]), SERIATIM_OK);
        assert_int_equal(seriatim_push_replicas(c, 1, 5), SERIATIM_OK);
        for (k = 0; k < JOBS; k++) {
            char id[16];
            snprintf(id, sizeof id, "id-%d", k);
            link_add_job(link, id, "1", NULL);
        }
    }
    link_finish(link, seriatim_pipeline_send(c));
    for (i = 0; i < 3; i++) {
        assert_int_equal(seriatim_pipeline_result(c, i, &counts, &error), SERIATIM_OK);
        assert_int_equal(counts.added, JOBS);
    }
    seriatim_link_free(link);
}

static void test_sets_of_all_masters_in_one_trip(void **state)
{
    seriatim_link *link = open_queue("sets");
    seriatim_client *c = seriatim_link_client(link);
    seriatim_ick_member member = {"m", 1, 1.0};
    const seriatim_ick_result *results;
    size_t count, i;
    char names[30][16];
    (void)state;
    assert_int_equal(seriatim_ick_begin(c), SERIATIM_OK);
    for (i = 0; i < 30; i++) {
        seriatim_ick ick;
        memset(&ick, 0, sizeof ick);
        snprintf(names[i], sizeof names[i], "set-%d", (int)i);
        ick.name.data = names[i];
        ick.name.len = strlen(names[i]);
        assert_int_equal(seriatim_ick_add(c, &ick, &member, 1), SERIATIM_OK);
        assert_int_equal(seriatim_ick_reserve(c, &ick, 10, 0), SERIATIM_OK);
    }
    link_finish(link, seriatim_ick_send(c));
    results = seriatim_ick_results(c, &count);
    assert_int_equal(count, 60);
    for (i = 0; i < 30; i++)
        assert_int_equal(results[2 * i + 1].count, 1);
    seriatim_link_free(link);
}

/* ---- Slots that move all the time ------------------------------------------------------------ */

/* Pushes are sent in the middle of each move. What Redis acknowledged is there once, and whole. */
static void test_pushes_while_a_slot_moves_to_and_fro_lose_and_tear_nothing(void **state)
{
    seriatim_link *link = open_queue("torn");
    int slot = cluster_slot(&cluster, "{torn/5}"), round, pushed = JOBS;
    (void)state;
    link_push_jobs(link, "a", 0, JOBS, 1 << 30);
    for (round = 0; round < 16; round++) {
        size_t from = cluster_master_of(&cluster, slot), to = (from + 1) % CLUSTER_MASTERS;
        double began = wall_clock_ms();
        link_begin_jobs(link, "b", pushed, 40, 1 << 30);
        pushed += 40;
        if (round % 2)
            seriatim_link_step(link);
        cluster_half_move(&cluster, slot, to, 1 + round % 5);
        while (wall_clock_ms() - began < 60 && seriatim_link_step(link) == SERIATIM_AGAIN)
            seriatim_link_wait(link);
        cluster_end_move(&cluster, slot, from, to);
        link_finish(link, SERIATIM_OK);
    }
    assert_int_equal(length_of(link), pushed);
    assert_int_equal(link_findings(link, 0), 0);
    seriatim_link_free(link);
}

/* ---- The dashboard --------------------------------------------------------------------------- */

static const char *ask_dashboard(seriatim_link *link, const char *path)
{
    static char body[1 << 16];
    seriatim_web_request request;
    const seriatim_web_response *answer;
    seriatim_client *c = seriatim_link_client(link);
    memset(&request, 0, sizeof request);
    request.method = "GET";
    request.path.data = path;
    request.path.len = strlen(path);
    request.role = SERIATIM_WEB_ADMIN;
    link_finish(link, seriatim_web_begin(c, NULL, &request));
    answer = seriatim_web_answer(c, SERIATIM_OK, NULL);
    assert_int_equal(answer->status, 200);
    snprintf(body, sizeof body, "%.*s", (int)answer->body.len, answer->body.data);
    return body;
}

static void test_the_dashboard_shows_the_ids_and_addresses_of_all_masters(void **state)
{
    seriatim_link *link = open_queue("shown");
    char expected[64], master[64];
    const char *at;
    int masters;
    (void)state;
    link_push_jobs(link, "a", 0, JOBS, 1 << 30);
    snprintf(expected, sizeof expected, "seriatim_ready{queue=\"shown\"} %d", JOBS);
    assert_non_null(strstr(ask_dashboard(link, "/metrics"), expected));
    assert_non_null(strstr(ask_dashboard(link, "/metrics"), expected));
    snprintf(master, sizeof master, "\"master\":\"127.0.0.1:%d\"",
             cluster.nodes[cluster_master_of(&cluster, cluster_slot(&cluster, "{shown/0}"))].port);
    at = strstr(ask_dashboard(link, "/api/v1/queues/shown"), "\"master\"");
    assert_memory_equal(at, master, strlen(master));
    at = ask_dashboard(link, "/api/web/dashboard");
    for (masters = 0; (at = strstr(at, "\"address\":\"127.0.0.1:")) != NULL; at++)
        masters++;
    assert_int_equal(masters, CLUSTER_MASTERS);
    seriatim_link_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queries_actions_and_metrics_see_the_shards_of_all_masters),
        cmocka_unit_test(test_the_names_of_queues_are_found_on_all_masters),
        cmocka_unit_test(test_check_finds_stray_keys_on_all_masters),
        cmocka_unit_test(test_health_is_that_of_all_masters),
        cmocka_unit_test(test_a_pipeline_waits_for_the_replicas_of_each_master),
        cmocka_unit_test(test_sets_of_all_masters_in_one_trip),
        cmocka_unit_test(test_pushes_while_a_slot_moves_to_and_fro_lose_and_tear_nothing),
        cmocka_unit_test(test_the_dashboard_shows_the_ids_and_addresses_of_all_masters),
        cmocka_unit_test(test_r_reshard_1_ids_move_to_shards_of_all_masters),
        cmocka_unit_test(test_a_push_of_an_id_that_moved_outlasts_a_lost_connection),
    };
    return cmocka_run_group_tests(tests, redis_cluster_set_up, redis_cluster_tear_down);
}

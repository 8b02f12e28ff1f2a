/* test_link_cluster.c - pushes over a link to a Redis Cluster, while its slots move and its masters leave. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "io/link.h"
#include "link_fixture.h"
#include "lookups.h"
#include "port.h"
#include "redis_cluster.h"

#define SHARDS 24
#define JOBS 500 /* of a push */

static int slot_of(const char *queue, unsigned shard)
{
    char key[64];
    snprintf(key, sizeof key, "{%s/%u}", queue, shard);
    return cluster_slot(&cluster, key);
}

/* How many payloads wait at this node, over the shards of the queue that it has. */
static long long waiting_at(size_t node, const char *queue)
{
    redisReply *keys = cluster_call(&cluster, node, "KEYS *{%s/*}:jobs", queue);
    long long sum = 0;
    size_t i;
    for (i = 0; i < keys->elements; i++) {
        redisReply *count = cluster_call(&cluster, node, "HLEN %b", keys->element[i]->str, keys->element[i]->len);
        sum += count->integer;
        freeReplyObject(count);
    }
    freeReplyObject(keys);
    return sum;
}

static int is_master(size_t node)
{
    redisReply *role = cluster_call(&cluster, node, "ROLE");
    int found = strcmp(role->element[0]->str, "master") == 0;
    freeReplyObject(role);
    return found;
}

/* The ids that wait at all masters. at_least: how many each of them must have. */
static long long waiting(const char *queue, long long at_least)
{
    long long sum = 0;
    size_t i;
    for (i = 0; i < cluster.count; i++)
        if (cluster.nodes[i].answers && is_master(i)) {
            long long here = waiting_at(i, queue);
            assert_true(here >= at_least);
            sum += here;
        }
    return sum;
}

static void drive_well(seriatim_link *link)
{
    int status = link_drive(link);
    if (status != SERIATIM_OK)
        fail_msg("%d: %s", status, link_message(link));
}

/* Each job has an id of its own. */
static void push(seriatim_link *link, const char *who, int from)
{
    link_push_jobs(link, who, from, JOBS, 1 << 30);
}

static void test_a_push_goes_to_all_masters(void **state)
{
    seriatim_link *link = link_to_queue(cluster.url, "spread", SHARDS, "list");
    (void)state;
    push(link, "a", 0);
    assert_int_equal(waiting("spread", 1), JOBS);
    assert_non_null(strstr(seriatim_link_url(link), "redis+cluster://"));
    seriatim_link_free(link);
}

static void test_one_living_seed_is_enough(void **state)
{
    char url[128];
    seriatim_link *link;
    (void)state;
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", free_port(), free_port(),
             cluster.nodes[4].port); /* a replica */
    link = link_to_queue(url, "seeds", SHARDS, "list");
    push(link, "a", 0);
    assert_int_equal(waiting("seeds", 1), JOBS);
    seriatim_link_free(link);
}

static void test_a_seed_is_asked_at_its_second_address_if_the_first_drops_packets(void **state)
{
    int dropping[DROPPING_SOCKETS];
    char url[64];
    seriatim_link *link;
    (void)state;
    drop_packets_to_the_first_address(dropping, cluster.nodes[0].port);
    snprintf(url, sizeof url, "redis+cluster://two.test:%d", cluster.nodes[0].port);
    link = link_to_queue(url, "second-address", SHARDS, "list");
    push(link, "a", 0);
    assert_int_equal(waiting("second-address", 1), JOBS);
    seriatim_link_free(link);
    end_dropping(dropping);
}

static void test_without_a_living_seed_the_push_fails_soon_and_names_the_url(void **state)
{
    char url[128];
    seriatim_link *link;
    double began = wall_clock_ms();
    (void)state;
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d", free_port(), free_port());
    link = link_to_queue(url, "nowhere", SHARDS, "list");
    link_begin_jobs(link, "a", 0, 1, 1);
    assert_int_equal(link_drive(link), SERIATIM_IO);
    assert_non_null(strstr(link_message(link), "redis+cluster://127.0.0.1:"));
    assert_true(wall_clock_ms() - began < 15000);
    seriatim_link_free(link);
}

/* A server that no other node has met. Returns its port. */
static int start_single(redis_process *single, const char *is_cluster)
{
    char port[16], bus_port[16];
    const char *words[] = {"--port",         port,     "--bind", "127.0.0.1", "--cluster-enabled", is_cluster,
                           "--cluster-port", bus_port, NULL};
    int number = free_port();
    snprintf(port, sizeof port, "%d", number);
    snprintf(bus_port, sizeof bus_port, "%d", free_port());
    assert_int_equal(redis_make_folder(single), 0);
    assert_int_equal(redis_run(single, words), 0);
    assert_int_equal(redis_wait(single), 0);
    return number;
}

static void test_a_server_that_is_no_cluster_is_refused(void **state)
{
    char url[64];
    redis_process single;
    seriatim_link *link;
    (void)state;
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", start_single(&single, "no"));
    link = link_to_queue(url, "single", SHARDS, "list");
    link_begin_jobs(link, "a", 0, 1, 1);
    assert_int_equal(link_drive(link), SERIATIM_SERVER);
    assert_non_null(strstr(link_message(link), "cluster"));
    seriatim_link_free(link);
    assert_int_equal(redis_remove(&single), 0);
}

/* How often a server was asked for the slots, by its INFO commandstats, which is freed. */
static int slots_asked(redisReply *info)
{
    const char *line;
    int calls = 0;
    assert_non_null(info);
    line = strstr(info->str, "cmdstat_cluster|slots:calls=");
    if (line)
        sscanf(line, "cmdstat_cluster|slots:calls=%d", &calls);
    freeReplyObject(info);
    return calls;
}

/* Such a node stands in the URL after it was removed from the cluster, or lost its disk. */
static void test_a_node_without_slots_is_passed_over_at_once(void **state)
{
    char url[128];
    redis_process alone;
    redisContext *redis;
    seriatim_link *link;
    int port = start_single(&alone, "yes");
    (void)state;
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d", port, cluster.nodes[0].port);
    link = link_to_queue(url, "passed-over", SHARDS, "list");
    push(link, "a", 0);
    assert_int_equal(waiting("passed-over", 1), JOBS);
    redis = connect_redis(&alone);
    assert_int_equal(slots_asked(redisCommand(redis, "INFO commandstats")),
                     1); /* the next one was connected before it was given up */
    redisFree(redis);
    seriatim_link_free(link);
    assert_int_equal(redis_remove(&alone), 0);
}

static void test_a_cluster_without_slots_is_an_error_that_says_so(void **state)
{
    char url[64];
    redis_process alone;
    seriatim_link *link;
    (void)state;
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", start_single(&alone, "yes"));
    link = link_to_queue(url, "alone", SHARDS, "list");
    srt_link_set_limits(link, 1000, 15000);
    assert_int_equal(seriatim_metrics_begin(seriatim_link_client(link), 0), SERIATIM_OK);
    assert_int_equal(link_drive(link), SERIATIM_LOADING);
    assert_non_null(strstr(link_message(link), "knows no slots"));
    seriatim_link_free(link);
    assert_int_equal(redis_remove(&alone), 0);
}

/* All nodes have the user of the URL but one. */
static void test_the_error_of_refused_credentials_names_the_master(void **state)
{
    size_t master = cluster_master_of(&cluster, slot_of("refused", 0)), i;
    char url[64], text[96];
    seriatim_link *link;
    (void)state;
    for (i = 0; i < cluster.count; i++)
        if (i != master)
            cluster_do(&cluster, i, "ACL SETUSER part on >secret ~* &* +@all");
    snprintf(url, sizeof url, "redis+cluster://part:secret@127.0.0.1:%d",
             cluster.nodes[(master + 1) % CLUSTER_MASTERS].port);
    link = link_to_queue(url, "refused", SHARDS, "list");
    link_begin_jobs(link, "a", 0, JOBS, JOBS);
    assert_int_equal(link_drive(link), SERIATIM_AUTH);
    snprintf(text, sizeof text, "127.0.0.1:%d: Redis refused the credentials", cluster.nodes[master].port);
    if (!strstr(link_message(link), text))
        fail_msg("%s lacks %s", link_message(link), text);
    seriatim_link_free(link);
}

/* Steps for a while and sees that the push is still under way. */
static void is_under_way_for(seriatim_link *link, double ms)
{
    double until = wall_clock_ms() + ms;
    while (wall_clock_ms() < until) {
        struct pollfd fd = {seriatim_link_fd(link), POLLIN, 0};
        int timeout = seriatim_link_timeout_ms(link);
        assert_int_equal(seriatim_link_step(link), SERIATIM_AGAIN);
        if (seriatim_link_wants(link) & SERIATIM_WANT_WRITE)
            fd.events |= POLLOUT;
        poll(&fd, 1, timeout < 20 ? timeout : 20);
    }
}

static void test_a_push_waits_for_a_slot_that_is_half_moved(void **state)
{
    int slot = slot_of("moving", 7);
    size_t from = cluster_master_of(&cluster, slot), to = (from + 1) % CLUSTER_MASTERS;
    seriatim_link *link = link_to_queue(cluster.url, "moving", SHARDS, "list");
    (void)state;
    push(link, "a", 0);
    cluster_half_move(&cluster, slot, to, 2);
    link_begin_jobs(link, "b", JOBS, JOBS, 1 << 30);
    is_under_way_for(link, 700);
    cluster_end_move(&cluster, slot, from, to);
    drive_well(link);
    assert_int_equal(waiting("moving", 1), 2 * JOBS);
    seriatim_link_free(link);
}

static void test_a_push_follows_slots_that_have_moved(void **state)
{
    seriatim_link *link = link_to_queue(cluster.url, "moved", SHARDS, "list");
    unsigned shard;
    (void)state;
    push(link, "a", 0);
    for (shard = 0; shard < SHARDS; shard++) {
        int slot = slot_of("moved", shard);
        cluster_move_slot(&cluster, slot, (cluster_master_of(&cluster, slot) + 1) % CLUSTER_MASTERS);
        if (shard % 8 == 0)
            push(link, "b", (int)(1 + shard / 8) * JOBS);
    }
    push(link, "c", 4 * JOBS);
    assert_int_equal(waiting("moved", 1), 5 * JOBS);
    seriatim_link_free(link);
}

static int slots_asked_of_all(void)
{
    int calls = 0;
    size_t i;
    for (i = 0; i < cluster.count; i++)
        calls += slots_asked(cluster_call(&cluster, i, "INFO commandstats"));
    return calls;
}

/* A master that owes an answer for a second is silent, and others are asked for the slots. */
static void test_a_pause_of_the_caller_does_not_make_a_master_silent(void **state)
{
    seriatim_link *link = link_to_queue(cluster.url, "paused", SHARDS, "list");
    seriatim_client *c = seriatim_link_client(link);
    int before;
    (void)state;
    push(link, "a", 0);
    before = slots_asked_of_all();
    poll(NULL, 0, 1100); /* between two operations */
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    poll(NULL, 0, 1100); /* while jobs are collected */
    link_add_job(link, "new", "1", NULL);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    drive_well(link);
    assert_int_equal(slots_asked_of_all(), before);
    seriatim_link_free(link);
}

/* Returns 1 if there was something. */
static int pop(seriatim_link *link, double wait)
{
    seriatim_pop settings;
    size_t queue = 0;
    seriatim_pop_init(&settings);
    settings.queues = &queue;
    settings.queue_count = 1;
    settings.wait = wait;
    settings.ttr = 0;
    assert_int_equal(seriatim_pop_begin(seriatim_link_client(link), &settings), SERIATIM_OK);
    drive_well(link);
    return seriatim_pop_result(seriatim_link_client(link)) != NULL;
}

/* It sleeps for more than a second once its subscription is confirmed, and then asks again. */
static void test_the_sleep_of_a_pop_does_not_make_a_master_silent(void **state)
{
    seriatim_link *link = link_to_queue(cluster.url, "emptied", SHARDS, "list");
    int before;
    (void)state;
    link_push_jobs(link, "a", 0, 1, 1);
    assert_true(pop(link, 0));
    before = slots_asked_of_all();
    assert_false(pop(link, 2));
    assert_int_equal(slots_asked_of_all(), before);
    seriatim_link_free(link);
}

/* A master may be found, wanted or lost in any step, also while others are connected. */
static void test_a_link_connects_to_a_master_only_in_a_step_of_which_it_said_so(void **state)
{
    seriatim_link *link = link_to_queue(cluster.url, "looked-up", SHARDS, "list");
    int first = 0, again = 0;
    size_t i;
    (void)state;
    link_begin_jobs(link, "a", 0, JOBS, 1 << 30);
    assert_int_equal(drive_and_count_lookups(link, &first), SERIATIM_OK);
    assert_true(first >= CLUSTER_MASTERS);
    for (i = 0; i < CLUSTER_MASTERS; i++)
        cluster_do(&cluster, i, "CLIENT KILL TYPE normal");
    poll(NULL, 0, 100);
    link_begin_jobs(link, "b", JOBS, JOBS, 1 << 30);
    assert_int_equal(drive_and_count_lookups(link, &again), SERIATIM_OK);
    assert_true(again >= CLUSTER_MASTERS);
    assert_int_equal(waiting("looked-up", 1), 2 * JOBS);
    seriatim_link_free(link);
}

static void test_masters_that_forget_their_scripts_are_taught_again(void **state)
{
    seriatim_link *link = link_to_queue(cluster.url, "flushed", SHARDS, "list");
    size_t i;
    (void)state;
    for (i = 0; i < CLUSTER_MASTERS; i++) {
        push(link, "a", (int)i * JOBS);
        cluster_do(&cluster, i, "SCRIPT FLUSH");
    }
    push(link, "b", CLUSTER_MASTERS * JOBS);
    assert_int_equal(waiting("flushed", 1), (CLUSTER_MASTERS + 1) * JOBS);
    seriatim_link_free(link);
}

#define PATIENCE 10 /* seconds for a replica, the longest; a master that was just made one has none for a while */

static void begin_replicated(seriatim_link *link, int from, double timeout)
{
    seriatim_client *c = seriatim_link_client(link);
    int i;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_timeout(c, 50), SERIATIM_OK);
    assert_int_equal(seriatim_push_replicas(c, 1, timeout), SERIATIM_OK);
    for (i = from; i < from + JOBS; i++) {
        char id[32];
        snprintf(id, sizeof id, "id-%d", i);
        link_add_job(link, id, "1", NULL);
    }
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
}

static void test_each_master_is_asked_for_its_replicas(void **state)
{
    seriatim_link *link = link_to_queue(cluster.url, "replicated", SHARDS, "list");
    (void)state;
    begin_replicated(link, 0, PATIENCE);
    drive_well(link);
    cluster_freeze(&cluster, 4); /* the replica of one master */
    begin_replicated(link, JOBS, 0.2);
    assert_int_equal(link_drive(link), SERIATIM_REPLICAS);
    assert_string_equal(link_message(link), "the push is written, 0 of 1 replicas have it");
    cluster_thaw(&cluster, 4);
    cluster_await_whole(&cluster);
    begin_replicated(link, 2 * JOBS, PATIENCE);
    drive_well(link);
    assert_int_equal(waiting("replicated", 1), 3 * JOBS);
    seriatim_link_free(link);
}

/* The URL names another node than the master that is away. */
static void assert_error_names(size_t master, const char *queue, const char *words)
{
    char url[64], text[128];
    seriatim_link *link;
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", cluster.nodes[(master + 1) % CLUSTER_STARTED].port);
    link = link_to_queue(url, queue, SHARDS, "list");
    srt_link_set_limits(link, 1000, 300);
    assert_int_equal(seriatim_metrics_begin(seriatim_link_client(link), 0), SERIATIM_OK);
    assert_int_not_equal(link_drive(link), SERIATIM_OK);
    snprintf(text, sizeof text, "%s 127.0.0.1:%d", words, cluster.nodes[master].port);
    if (!strstr(link_message(link), text))
        fail_msg("%s lacks %s", link_message(link), text);
    seriatim_link_free(link);
}

/* What was acknowledged with its replicas is there after each failover, once. */
static void push_over_a_failover(const char *queue, void (*away)(redis_cluster *, size_t),
                                 void (*back)(redis_cluster *, size_t))
{
    seriatim_link *link = link_to_queue(cluster.url, queue, SHARDS, "list");
    size_t master = cluster_master_of(&cluster, slot_of(queue, 0));
    begin_replicated(link, 0, PATIENCE);
    drive_well(link);
    if (away)
        away(&cluster, master);
    else
        cluster_failover(&cluster, master);
    if (away)
        assert_error_names(master, queue, away == cluster_kill ? "connecting to" : "no answer from");
    begin_replicated(link, JOBS, away ? 5 : PATIENCE);
    if (away) /* nobody waits for the new master but the link */
        assert_true(link_drive(link) == SERIATIM_OK || strstr(link_message(link), "0 of 1 replicas"));
    else
        drive_well(link);
    if (away) {
        cluster_await_successor(&cluster, master);
        back(&cluster, master);
    }
    cluster_await_whole(&cluster);
    begin_replicated(link, 2 * JOBS, PATIENCE);
    drive_well(link);
    assert_int_equal(waiting(queue, 1), 3 * JOBS);
    seriatim_link_free(link);
}

static void test_a_failover_by_command(void **state)
{
    (void)state;
    push_over_a_failover("planned", NULL, NULL);
}

static void test_a_master_that_is_killed(void **state)
{
    (void)state;
    push_over_a_failover("killed", cluster_kill, cluster_restart);
}

static void test_a_master_that_is_frozen(void **state)
{
    (void)state;
    push_over_a_failover("frozen", cluster_freeze, cluster_thaw);
}

static void test_a_master_that_is_added_is_found(void **state)
{
    seriatim_link *link = link_to_queue(cluster.url, "added", SHARDS, "list");
    size_t node = cluster_add_master(&cluster);
    unsigned shard;
    (void)state;
    push(link, "a", 0);
    for (shard = 0; shard < SHARDS; shard += 3)
        cluster_move_slot(&cluster, slot_of("added", shard), node);
    push(link, "b", JOBS);
    assert_true(waiting_at(node, "added") > 0);
    assert_int_equal(waiting("added", 1), 2 * JOBS);
    seriatim_link_free(link);
}

/* So that the queue is there, and nothing is to be popped. */
static void push_later(seriatim_link *link)
{
    seriatim_client *c = seriatim_link_client(link);
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = job.payload = "1";
    job.id_len = job.payload_len = 1;
    job.when = SERIATIM_DELAY;
    job.time = 3600;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    drive_well(link);
}

static void pop_nothing(seriatim_link *link)
{
    assert_false(pop(link, 0.3));
}

/* Where somebody listens to channels; cluster.count: nowhere. */
static size_t heard_node(void)
{
    size_t node = 0;
    while (node < cluster.count && !cluster_listener(&cluster, node))
        node++;
    return node;
}

/* The subscription of a popper lasts from one pop to the next. Returns where it listens. */
static size_t pop_until_heard(seriatim_link *link)
{
    int tries = 0;
    do
        pop_nothing(link);
    while (heard_node() == cluster.count && ++tries < 100);
    assert_true(heard_node() < cluster.count);
    return heard_node();
}

static void test_a_popper_goes_on_listening_though_the_url_spells_a_master_otherwise(void **state)
{
    char url[64];
    seriatim_link *link;
    long long listener;
    size_t node;
    int i;
    (void)state;
    snprintf(url, sizeof url, "redis+cluster://localhost:%d", cluster.nodes[cluster_master_of(&cluster, 0)].port);
    link = link_to_queue(url, "spelled", SHARDS, "list");
    push_later(link);
    pop_until_heard(link);
    for (i = 0; i < 3; i++) /* the master of the URL is left when the map is known */
        pop_nothing(link);
    node = pop_until_heard(link);
    listener = cluster_listener(&cluster, node);
    for (i = 0; i < 5; i++)
        pop_nothing(link);
    assert_int_equal(cluster_listener(&cluster, node), listener);
    seriatim_link_free(link);
}

/* Nothing ends its connection to that node. */
static void test_a_popper_listens_no_more_to_a_node_that_has_left_the_cluster(void **state)
{
    seriatim_link *link = link_to_queue(cluster.url, "left", SHARDS, "list");
    size_t node;
    int tries;
    (void)state;
    push_later(link);
    node = pop_until_heard(link);
    cluster_leave(&cluster, node);
    for (tries = 0; tries < 100 && cluster_listener(&cluster, node); tries++)
        pop_nothing(link);
    assert_int_equal(cluster_listener(&cluster, node), 0);
    pop_until_heard(link);
    seriatim_link_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_push_goes_to_all_masters),
        cmocka_unit_test(test_one_living_seed_is_enough),
        cmocka_unit_test(test_a_seed_is_asked_at_its_second_address_if_the_first_drops_packets),
        cmocka_unit_test(test_without_a_living_seed_the_push_fails_soon_and_names_the_url),
        cmocka_unit_test(test_a_server_that_is_no_cluster_is_refused),
        cmocka_unit_test(test_a_node_without_slots_is_passed_over_at_once),
        cmocka_unit_test(test_a_cluster_without_slots_is_an_error_that_says_so),
        cmocka_unit_test(test_the_error_of_refused_credentials_names_the_master),
        cmocka_unit_test(test_a_push_waits_for_a_slot_that_is_half_moved),
        cmocka_unit_test(test_a_push_follows_slots_that_have_moved),
        cmocka_unit_test(test_a_pause_of_the_caller_does_not_make_a_master_silent),
        cmocka_unit_test(test_the_sleep_of_a_pop_does_not_make_a_master_silent),
        cmocka_unit_test(test_a_link_connects_to_a_master_only_in_a_step_of_which_it_said_so),
        cmocka_unit_test(test_masters_that_forget_their_scripts_are_taught_again),
        cmocka_unit_test(test_each_master_is_asked_for_its_replicas),
        cmocka_unit_test(test_a_failover_by_command),
        cmocka_unit_test(test_a_master_that_is_killed),
        cmocka_unit_test(test_a_master_that_is_frozen),
        cmocka_unit_test(test_a_master_that_is_added_is_found),
        cmocka_unit_test(test_a_popper_goes_on_listening_though_the_url_spells_a_master_otherwise),
        cmocka_unit_test(test_a_popper_listens_no_more_to_a_node_that_has_left_the_cluster),
    };
    return cmocka_run_group_tests(tests, redis_cluster_set_up, redis_cluster_tear_down);
}

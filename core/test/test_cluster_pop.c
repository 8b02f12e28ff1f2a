/* test_cluster_pop.c - pops on the masters of a Redis Cluster, also while a slot moves and after a master has died. */
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

#include "client/client.h"
#include "io/link.h"
#include "link_fixture.h"
#include "redis_cluster.h"

#define SHARDS 24
#define JOBS 300

static seriatim_link *open_queue(const char *queue)
{
    return link_to_queue(cluster.url, queue, SHARDS, "list");
}

static void begin_pop(seriatim_link *link, double wait)
{
    static const size_t queue = 0;
    seriatim_pop pop;
    seriatim_pop_init(&pop);
    pop.queues = &queue;
    pop.queue_count = 1;
    pop.wait = wait;
    assert_int_equal(seriatim_pop_begin(seriatim_link_client(link), &pop), SERIATIM_OK);
}

static void acknowledge(seriatim_link *link)
{
    seriatim_client *c = seriatim_link_client(link);
    seriatim_popped_outcome outcome;
    char token[SERIATIM_TOKEN];
    seriatim_text text = seriatim_pop_result(c)->token;
    memset(&outcome, 0, sizeof outcome);
    outcome.kind = SERIATIM_POPPED_ACK;
    memcpy(token, text.data, text.len);
    text.data = token;
    link_finish(link, seriatim_popped_begin(c, text, &outcome));
}

static void test_all_ids_are_popped_from_all_masters(void **state)
{
    seriatim_link *link = open_queue("popped");
    int i;
    (void)state;
    link_push_jobs(link, "a", 0, JOBS, 1 << 30);
    for (i = 0; i < JOBS; i++) {
        begin_pop(link, 0);
        assert_non_null(seriatim_pop_result(link_finish(link, SERIATIM_OK)));
        acknowledge(link);
        if (i == JOBS / 2) /* the shard of the next ids has moved */
            cluster_move_slot(&cluster, cluster_slot(&cluster, "{popped/3}"),
                              (cluster_master_of(&cluster, cluster_slot(&cluster, "{popped/3}")) + 1) %
                                  CLUSTER_MASTERS);
    }
    begin_pop(link, 0);
    assert_null(seriatim_pop_result(link_finish(link, SERIATIM_OK)));
    assert_int_equal(link_findings(link, 0), 0);
    seriatim_link_free(link);
}

/* Ids of each master wake it: the messages reach it wherever it listens. */
static void test_a_pop_that_waits_is_woken_by_a_push_to_any_master(void **state)
{
    seriatim_link *popper = open_queue("woken"), *pusher = open_queue("woken");
    int i, seen = 0;
    (void)state;
    link_push_jobs(pusher, "a", 0, 1, 1);
    begin_pop(popper, 0);
    link_finish(popper, SERIATIM_OK);
    acknowledge(popper);
    for (i = 1; i <= 12; i++) {
        double began;
        int status = SERIATIM_AGAIN;
        begin_pop(popper, 20);
        began = wall_clock_ms();
        while (wall_clock_ms() - began < 300 && status == SERIATIM_AGAIN) { /* it sleeps */
            status = seriatim_link_step(popper);
            if (seriatim_link_timeout_ms(popper) > 50)
                break;
            seriatim_link_wait(popper);
        }
        assert_int_equal(status, SERIATIM_AGAIN);
        link_push_jobs(pusher, "b", i, 1, 1 << 30);
        began = wall_clock_ms();
        assert_non_null(seriatim_pop_result(link_finish(popper, SERIATIM_OK)));
        seen += wall_clock_ms() - began < 6000; /* without a message it looks again after 10 s */
        acknowledge(popper);
    }
    assert_int_equal(seen, 12);
    seriatim_link_free(popper);
    seriatim_link_free(pusher);
}

static unsigned shard_of_job(int number)
{
    char id[16];
    snprintf(id, sizeof id, "id-%d", number);
    return seriatim_shard_of(id, strlen(id), SHARDS);
}

/* How many of the JOBS ids lie in this shard. */
static int jobs_in(unsigned shard)
{
    int i, count = 0;
    for (i = 0; i < JOBS; i++)
        count += shard_of_job(i) == shard;
    return count;
}

static void pop_all(seriatim_link *link, int count)
{
    while (count-- > 0) {
        begin_pop(link, 0);
        assert_non_null(seriatim_pop_result(link_finish(link, SERIATIM_OK)));
        acknowledge(link);
    }
}

static void test_r_cluster_6_a_pop_takes_ids_of_other_shards_while_a_slot_stays_half_moved(void **state)
{
    seriatim_link *link = open_queue("held");
    int slot = cluster_slot(&cluster, "{held/3}"), held = jobs_in(3);
    size_t from, to = (cluster_master_of(&cluster, slot) + 1) % CLUSTER_MASTERS;
    char expected[64];
    double began;
    (void)state;
    link_push_jobs(link, "a", 0, JOBS, 1 << 30);
    from = cluster_half_move(&cluster, slot, to, 1);
    assert_in_range(held, 1, JOBS - 1);
    began = wall_clock_ms();
    pop_all(link, JOBS - held);
    assert_true(wall_clock_ms() - began < 20000); /* not a second for each round */
    seriatim_link_client(link)->limit_ms = 1000;  /* as a web request sets it */
    begin_pop(link, 0);
    link_goes_on_for(link, 500);
    assert_int_equal(link_drive(link), SERIATIM_LOADING);
    snprintf(expected, sizeof expected, "Redis is moving slot %d", slot);
    assert_non_null(strstr(link_message(link), expected));
    seriatim_link_client(link)->limit_ms = 0;
    begin_pop(link, 0);
    link_goes_on_for(link, 300);
    cluster_end_move(&cluster, slot, from, to);
    assert_non_null(seriatim_pop_result(link_finish(link, SERIATIM_OK)));
    acknowledge(link);
    pop_all(link, held - 1);
    assert_int_equal(link_findings(link, 0), 0);
    seriatim_link_free(link);
}

/* All shards have keys, and nothing is due. */
static void push_for_later(seriatim_link *link)
{
    int i;
    assert_int_equal(seriatim_push_begin(seriatim_link_client(link), 0), SERIATIM_OK);
    for (i = 0; i < JOBS; i++) {
        seriatim_job job;
        char id[16];
        snprintf(id, sizeof id, "id-%d", i);
        seriatim_job_init(&job);
        job.id = id;
        job.id_len = strlen(id);
        job.payload = "{}";
        job.payload_len = 2;
        job.when = SERIATIM_DELAY;
        job.time = 3600;
        assert_int_equal(seriatim_push_job(seriatim_link_client(link), &job), SERIATIM_OK);
    }
    link_finish(link, seriatim_push_send(seriatim_link_client(link)));
}

/* It has waited for longer than it waits for a slot, but not for this one. */
static void test_r_cluster_6_a_pop_whose_wait_ends_while_a_slot_moves_waits_for_that_slot(void **state)
{
    seriatim_link *link = open_queue("brief");
    int slot = cluster_slot(&cluster, "{brief/3}");
    size_t from, to = (cluster_master_of(&cluster, slot) + 1) % CLUSTER_MASTERS;
    (void)state;
    push_for_later(link);
    seriatim_link_client(link)->limit_ms = 3500;
    begin_pop(link, 4);
    link_goes_on_for(link, 2500);
    from = cluster_half_move(&cluster, slot, to, 1);
    link_goes_on_for(link, 2000);
    cluster_end_move(&cluster, slot, from, to);
    assert_null(seriatim_pop_result(link_finish(link, SERIATIM_OK)));
    seriatim_link_free(link);
}

#define FEW 40

static size_t master_of_job(int number)
{
    char key[32];
    snprintf(key, sizeof key, "{bereft/%u}", shard_of_job(number));
    return cluster_master_of(&cluster, cluster_slot(&cluster, key));
}

static void set_on_all(const char *option, const char *value)
{
    size_t i;
    for (i = 0; i < cluster.count; i++)
        if (cluster.nodes[i].answers)
            cluster_do(&cluster, i, "CONFIG SET %s %s", option, value);
}

/* A pop that comes to a shard of the dead master fails; the next one begins behind that shard. */
static void test_r_cluster_6_pops_go_on_behind_the_shards_of_a_dead_master(void **state)
{
    seriatim_link *link = open_queue("bereft");
    size_t dead = (cluster_master_of(&cluster, cluster_slot(&cluster, "{bereft}")) + 1) % CLUSTER_MASTERS;
    int i, others = 0, taken = 0, failed = 0;
    double until = wall_clock_ms() + 90000;
    (void)state;
    link_push_jobs(link, "a", 0, FEW, 1 << 30);
    for (i = 0; i < FEW; i++)
        others += master_of_job(i) != dead;
    assert_in_range(others, 1, FEW - 1);
    set_on_all("cluster-require-full-coverage", "no");
    set_on_all("cluster-replica-no-failover", "yes");
    cluster_kill(&cluster, dead);
    srt_link_set_limits(link, 500, 300);
    while (taken < others && wall_clock_ms() < until) {
        begin_pop(link, 0);
        if (link_drive(link) == SERIATIM_OK && seriatim_pop_result(seriatim_link_client(link))) {
            acknowledge(link);
            taken++;
        } else {
            failed++;
        }
    }
    assert_int_equal(taken, others);
    assert_true(failed > 0);
    cluster_restart(&cluster, dead);
    set_on_all("cluster-require-full-coverage", "yes");
    cluster_await_whole(&cluster);
    seriatim_link_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ids_are_popped_from_all_masters),
        cmocka_unit_test(test_a_pop_that_waits_is_woken_by_a_push_to_any_master),
        cmocka_unit_test(test_r_cluster_6_a_pop_takes_ids_of_other_shards_while_a_slot_stays_half_moved),
        cmocka_unit_test(test_r_cluster_6_a_pop_whose_wait_ends_while_a_slot_moves_waits_for_that_slot),
        cmocka_unit_test(test_r_cluster_6_pops_go_on_behind_the_shards_of_a_dead_master),
    };
    return cmocka_run_group_tests(tests, redis_cluster_set_up, redis_cluster_tear_down);
}

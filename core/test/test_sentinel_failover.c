/* test_sentinel_failover.c - pushes that WAIT for real replicas, and a failover of real sentinels. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "sentinel_fixture.h"

/* ---- WAIT ----------------------------------------------------------------------------------- */

static seriatim_link *link_to(const redis_node *p)
{
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", p->port);
    return sentinel_link(url);
}

static void test_a_push_waits_for_its_replica(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS), replica = start_replica_of(&redis);
    seriatim_link *link = link_to(&redis);
    int64_t before;
    int i;
    (void)state;
    for (i = 0; i < 20; i++) {
        sentinel_push(link, 10 * i, 10, 1, 10);
        assert_int_equal(payloads_waiting_at(replica.port), 10 * i + 10);
    }
    sentinel_push(link, 200, 5000, 1, 10);
    assert_int_equal(payloads_waiting_at(replica.port), 5200);
    before = srt_clock_ms();
    sentinel_begin_push(link, 5200, 10, 2, 4);
    assert_int_equal(sentinel_drive(link), SERIATIM_REPLICAS);
    assert_true(srt_clock_ms() - before >= 3990);
    assert_string_equal(sentinel_message(link), "the push is written, 1 of 2 replicas have it");
    assert_int_equal(seriatim_push_result(seriatim_link_client(link)).added, 10);
    assert_int_equal(payloads_waiting_at(redis.port), 5210);
    seriatim_link_free(link);
    stop_process(&replica);
    stop_process(&redis);
}

static void *kill_clients(void *argument)
{
    const redis_node *p = argument;
    nap_ms(300);
    freeReplyObject(command_at(p->port, "CLIENT KILL TYPE normal SKIPME yes"));
    return NULL;
}

static void *let_go_on(void *argument)
{
    const redis_node *p = argument;
    nap_ms(700);
    kill(p->redis.pid, SIGCONT);
    return NULL;
}

/*
 * The replica stands still, so WAIT hangs, and its connection is cut. The chunk that goes again writes nothing, since
 * its number is known; WAIT must still count the replicas that have the first sending.
 */
static void test_a_cut_wait_counts_replicas_of_the_first_sending(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS), replica = start_replica_of(&redis);
    seriatim_link *link = link_to(&redis);
    pthread_t thread, other;
    (void)state;
    sentinel_push(link, 0, 10, 1, 5);
    kill(replica.redis.pid, SIGSTOP);
    pthread_create(&thread, NULL, kill_clients, &redis);
    sentinel_begin_push(link, 10, 10, 1, 1);
    assert_int_equal(sentinel_drive(link), SERIATIM_REPLICAS);
    pthread_join(thread, NULL);
    assert_string_equal(sentinel_message(link), "the push is written, 0 of 1 replicas have it");
    assert_int_equal(payloads_waiting_at(redis.port), 20);
    pthread_create(&thread, NULL, kill_clients, &redis);
    pthread_create(&other, NULL, let_go_on, &replica);
    sentinel_push(link, 20, 10, 1, 5);
    assert_int_equal(payloads_waiting_at(replica.port), 30);
    assert_int_equal(payloads_waiting_at(redis.port), 30);
    pthread_join(thread, NULL);
    pthread_join(other, NULL);
    seriatim_link_free(link);
    stop_process(&replica);
    stop_process(&redis);
}

static void test_a_user_without_the_right_to_wait_gets_an_error(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS "user shy on >pw ~* &* +@all -wait\n");
    char url[96];
    seriatim_link *link;
    (void)state;
    snprintf(url, sizeof url, "redis://shy:pw@127.0.0.1:%d", redis.port);
    link = sentinel_link(url);
    sentinel_begin_push(link, 0, 10, 1, 1);
    assert_int_equal(sentinel_drive(link), SERIATIM_REPLICAS);
    assert_non_null(strstr(sentinel_message(link), "the push is written, and WAIT was refused: "));
    assert_int_equal(payloads_waiting_at(redis.port), 10);
    seriatim_link_free(link);
    stop_process(&redis);
}

/* ---- Real sentinels ------------------------------------------------------------------------- */

typedef struct house {
    redis_node redis, replica, sentinels[3];
    char url[256];
} house;

static void start_house(house *h)
{
    int i;
    h->redis = start_process(PLAIN_REDIS);
    h->replica = start_replica_of(&h->redis);
    for (i = 0; i < 3; i++)
        h->sentinels[i] =
            start_process("sentinel monitor mymaster 127.0.0.1 %d 2\nsentinel down-after-milliseconds mymaster 60000\n"
                          "sentinel failover-timeout mymaster 5000\n",
                          h->redis.port);
    for (i = 0; i < 3; i++)
        wait_for_info(h->sentinels[i].port, "sentinel", "slaves=1,sentinels=3");
    snprintf(h->url, sizeof h->url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/mymaster",
             h->sentinels[0].port, h->sentinels[1].port, h->sentinels[2].port);
}

static void stop_house(house *h)
{
    int i;
    for (i = 0; i < 3; i++)
        stop_process(&h->sentinels[i]);
    stop_process(&h->redis);
    stop_process(&h->replica);
}

static void check_health(seriatim_link *link, const redis_node *master, int replicas)
{
    const seriatim_health *health;
    char address[64];
    assert_int_equal(seriatim_health_begin(seriatim_link_client(link)), SERIATIM_OK);
    assert_int_equal(sentinel_drive(link), SERIATIM_OK);
    health = seriatim_health_result(seriatim_link_client(link));
    snprintf(address, sizeof address, "127.0.0.1:%d", master->port);
    assert_string_equal(health->role, "master");
    assert_string_equal(health->address, address);
    assert_int_equal(health->replicas, replicas);
}

/* A runner goes on by itself, and tells which master it works for. */
static void take_until(seriatim_runner *runner, int count, const char *said)
{
    int64_t until = srt_clock_ms() + 100000;
    int heard = !*said;
    while ((count > 0 || !heard) && srt_clock_ms() < until) {
        seriatim_delivery *delivery;
        seriatim_event event;
        seriatim_runner_pulse(runner);
        while (seriatim_runner_event(runner, &event) == SERIATIM_OK)
            heard |= strstr(event.text, said) != NULL;
        if (seriatim_runner_take(runner, 0, &delivery) != SERIATIM_OK) {
            seriatim_runner_wait(runner, 0, 50);
            continue;
        }
        seriatim_delivery_done(delivery, 0);
        count--;
        seriatim_runner_settle(runner, delivery);
    }
    assert_true(count <= 0);
    assert_true(heard);
}

static seriatim_runner *start_runner(const char *url)
{
    seriatim_node_settings settings;
    seriatim_queue_settings queue;
    seriatim_runner *runner;
    seriatim_error error;
    size_t worker;
    memset(&settings, 0, sizeof settings);
    settings.id = "node1";
    settings.lease_ms = 5000;
    settings.poll_ms = 200;
    settings.threads = 1;
    seriatim_queue_settings_init(&queue);
    queue.name = "q";
    queue.name_len = 1;
    queue.shards_count = 3;
    queue.fold = "list";
    if (seriatim_runner_new(&settings, url, &runner, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
    assert_int_equal(seriatim_runner_worker(runner, &queue, &worker, &error), SERIATIM_OK);
    assert_int_equal(seriatim_runner_start(runner, &error), SERIATIM_OK);
    return runner;
}

static void test_f6_a_failover_is_followed(void **state)
{
    house h;
    seriatim_link *link;
    seriatim_runner *runner;
    char said[64];
    int i;
    (void)state;
    start_house(&h);
    link = sentinel_link(h.url);
    runner = start_runner(h.url);
    sentinel_push(link, 0, 100, 1, 10);
    check_health(link, &h.redis, 1);
    snprintf(said, sizeof said, "the master is 127.0.0.1:%d", h.redis.port);
    take_until(runner, 100, said);
    kill(h.redis.redis.pid, SIGKILL);
    for (i = 0; i < 3; i++) /* before that a master that stalls is not replaced */
        freeReplyObject(command_at(h.sentinels[i].port, "SENTINEL SET mymaster down-after-milliseconds 2000"));
    sentinel_push(link, 100, 100, 0, 0);
    check_health(link, &h.replica, 0);
    snprintf(said, sizeof said, "the master is 127.0.0.1:%d", h.replica.port);
    take_until(runner, 100, said);
    sentinel_begin_push(link, 200, 10, 1, 0.1);
    assert_int_equal(sentinel_drive(link), SERIATIM_REPLICAS);
    take_until(runner, 10, "");
    seriatim_runner_free(runner);
    seriatim_link_free(link);
    stop_house(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_push_waits_for_its_replica),
        cmocka_unit_test(test_a_cut_wait_counts_replicas_of_the_first_sending),
        cmocka_unit_test(test_a_user_without_the_right_to_wait_gets_an_error),
        cmocka_unit_test(test_f6_a_failover_is_followed),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

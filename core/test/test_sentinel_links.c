/*
 * test_sentinel_links.c - links that ask scripted sentinels: silent ones, two addresses of a name, replicas, no
 * memory.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "failing.h"
#include "io/link.h"
#include "lookups.h"
#include "port.h"
#include "base/system.h"
#include "sentinel_fixture.h"
#include "seriatim/binding/client.h"

/* ---- Scripted sentinels --------------------------------------------------------------------- */

typedef struct scripted {
    int listener, port, silent, stop, asked;
    int first_port, then_port; /* of the masters that it names, the first time and later */
    pthread_t thread;
} scripted;

static void *scripted_run(void *argument)
{
    scripted *s = argument;
    struct pollfd fd = {s->listener, POLLIN, 0};
    while (!s->stop) {
        char buf[512], answer[128];
        int down;
        if (poll(&fd, 1, 20) <= 0)
            continue;
        down = accept(s->listener, NULL, NULL);
        s->asked++;
        if (!s->silent && read(down, buf, sizeof buf) > 0) {
            int port = s->asked > 1 ? s->then_port : s->first_port;
            snprintf(answer, sizeof answer, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n", port > 9999 ? 5 : 4, port);
            assert_true(write(down, answer, strlen(answer)) > 0);
        } else if (s->silent) {
            while (read(down, buf, sizeof buf) > 0)
                ;
        }
        close(down);
    }
    return NULL;
}

static void start_scripted(scripted *s, int silent, int first_port, int then_port)
{
    memset(s, 0, sizeof *s);
    s->listener = listen_on_loopback(16, &s->port);
    s->silent = silent;
    s->first_port = first_port;
    s->then_port = then_port;
    pthread_create(&s->thread, NULL, scripted_run, s);
}

static void stop_scripted(scripted *s)
{
    s->stop = 1;
    pthread_join(s->thread, NULL);
    close(s->listener);
}

static void test_a_silent_sentinel_costs_half_a_second(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS);
    scripted silent, good;
    seriatim_link *link;
    char url[256], address[64];
    int64_t before = srt_clock_ms(), took;
    (void)state;
    start_scripted(&silent, 1, 0, 0);
    start_scripted(&good, 0, redis.port, redis.port);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:1,127.0.0.1:%d,127.0.0.1:%d/mymaster", silent.port,
             good.port);
    link = sentinel_link(url);
    assert_string_equal(seriatim_link_address(link), "");
    sentinel_push(link, 0, 10, 0, 0);
    took = srt_clock_ms() - before;
    assert_true(took >= 490 && took < 12000);
    snprintf(address, sizeof address, "127.0.0.1:%d", redis.port);
    assert_string_equal(seriatim_link_address(link), address);
    seriatim_link_reset(link);
    sentinel_push(link, 10, 10, 0, 0);
    assert_int_equal(silent.asked, 1); /* the good one was asked first */
    assert_int_equal(good.asked, 2);
    assert_int_equal(payloads_waiting_at(redis.port), 20);
    seriatim_link_free(link);
    stop_scripted(&silent);
    stop_scripted(&good);
    stop_process(&redis);
}

static void test_a_sentinel_is_asked_at_the_second_address_of_its_name(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS);
    scripted good;
    seriatim_link *link;
    char url[256];
    (void)state;
    start_scripted(&good, 0, redis.port, redis.port);
    snprintf(url, sizeof url, "redis+sentinel://two.test:%d/mymaster", good.port);
    link = sentinel_link(url);
    srt_link_set_limits(link, 3000, 3000);
    sentinel_push(link, 0, 10, 0, 0);
    assert_int_equal(good.asked, 1);
    assert_int_equal(payloads_waiting_at(redis.port), 10);
    seriatim_link_free(link);
    stop_scripted(&good);
    stop_process(&redis);
}

static void test_a_sentinel_is_asked_at_the_second_address_if_the_first_drops_packets(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS);
    int dropping[DROPPING_SOCKETS];
    scripted good;
    seriatim_link *link;
    char url[256];
    (void)state;
    start_scripted(&good, 0, redis.port, redis.port);
    drop_packets_to_the_first_address(dropping, good.port);
    snprintf(url, sizeof url, "redis+sentinel://two.test:%d/mymaster", good.port);
    link = sentinel_link(url);
    sentinel_push(link, 0, 10, 0, 0);
    assert_int_equal(payloads_waiting_at(redis.port), 10);
    seriatim_link_free(link);
    end_dropping(dropping);
    stop_scripted(&good);
    stop_process(&redis);
}

/* The half second that a sentinel has begins when its address is known. */
static void test_a_sentinel_whose_name_is_looked_up_slowly_is_asked(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS);
    scripted good;
    seriatim_link *link;
    char url[256];
    (void)state;
    start_scripted(&good, 0, redis.port, redis.port);
    make_lookups_late(SERIATIM_SENTINEL_MS + 100, 0);
    snprintf(url, sizeof url, "redis+sentinel://late.test:%d/mymaster", good.port);
    link = sentinel_link(url);
    sentinel_push(link, 0, 10, 0, 0);
    assert_int_equal(good.asked, 1);
    seriatim_link_free(link);
    stop_scripted(&good);
    stop_process(&redis);
}

/* A link that was never connected gives up after 5 seconds, in which the look-up does not count. */
static void test_a_link_connects_after_a_look_up_of_5_seconds(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS);
    seriatim_link *link;
    char url[64];
    (void)state;
    make_lookups_late(5100, 0);
    snprintf(url, sizeof url, "redis://late.test:%d", redis.port);
    link = sentinel_link(url);
    sentinel_push(link, 0, 10, 0, 0);
    seriatim_link_free(link);
    stop_process(&redis);
}

/* A link that was never connected gives up after 5 seconds. */
static void test_a_link_connects_to_the_second_address_if_the_first_drops_packets(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS);
    int dropping[DROPPING_SOCKETS];
    seriatim_link *link;
    char url[64];
    (void)state;
    drop_packets_to_the_first_address(dropping, redis.port);
    snprintf(url, sizeof url, "redis://two.test:%d", redis.port);
    link = sentinel_link(url);
    sentinel_push(link, 0, 10, 0, 0);
    assert_int_equal(payloads_waiting_at(redis.port), 10);
    seriatim_link_free(link);
    end_dropping(dropping);
    stop_process(&redis);
}

static void test_a_sentinel_that_no_address_of_its_name_reaches_is_an_error(void **state)
{
    seriatim_link *link = sentinel_link("redis+sentinel://two.test:1/mymaster");
    (void)state;
    srt_link_set_limits(link, 3000, 3000);
    sentinel_begin_push(link, 0, 10, 0, 0);
    assert_int_equal(sentinel_drive(link), SERIATIM_IO);
    assert_string_equal(sentinel_message(link),
                        "cannot connect to master mymaster: no sentinel names it: two.test:1: Connection refused");
    seriatim_link_free(link);
}

/* A host whose threads share a lock must know it: the lookup of a name takes as long as the resolver does. */
static void test_a_link_says_before_each_step_whether_it_may_look_up_a_name(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS);
    scripted silent, good;
    seriatim_link *link;
    char url[256];
    int lookups = 0;
    (void)state;
    start_scripted(&silent, 1, 0, 0);
    start_scripted(&good, 0, redis.port, redis.port);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d,two.test:%d/mymaster", silent.port, good.port);
    link = sentinel_link(url);
    sentinel_begin_push(link, 0, 10, 0, 0);
    assert_int_equal(step_and_count_lookups(link, &lookups), SERIATIM_AGAIN);
    assert_int_equal(lookups, 1);
    assert_true(seriatim_link_fd(link) >= 0);
    assert_int_equal(srt_link_may_resolve(link), 1); /* the second sentinel has a name */
    assert_int_equal(drive_and_count_lookups(link, &lookups), SERIATIM_OK);
    assert_true(lookups >= 3); /* the sentinels and the master */
    assert_int_equal(kill(redis.redis.pid, SIGSTOP), 0);
    sentinel_begin_push(link, 10, 10, 0, 0);
    assert_int_equal(srt_link_may_resolve(link), 0);
    assert_int_equal(step_and_count_lookups(link, &lookups), SERIATIM_AGAIN);
    assert_int_equal(srt_link_may_resolve(link), 0); /* it waits for the answer */
    assert_int_equal(kill(redis.redis.pid, SIGCONT), 0);
    assert_int_equal(drive_and_count_lookups(link, &lookups), SERIATIM_OK);
    seriatim_link_free(link);
    stop_scripted(&silent);
    stop_scripted(&good);
    stop_process(&redis);
}

/* The step that sees the end of the connection was said to look up nothing. */
static void test_a_link_whose_idle_connection_was_closed_looks_its_host_up_in_the_next_step(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS);
    seriatim_link *link;
    char url[64];
    int lookups = 0;
    (void)state;
    snprintf(url, sizeof url, "redis://two.test:%d", redis.port);
    link = sentinel_link(url);
    sentinel_push(link, 0, 10, 0, 0);
    freeReplyObject(command_at(redis.port, "CLIENT KILL TYPE normal"));
    nap_ms(100);
    sentinel_begin_push(link, 10, 10, 0, 0);
    assert_int_equal(srt_link_may_resolve(link), 0);
    assert_int_equal(step_and_count_lookups(link, &lookups), SERIATIM_AGAIN);
    assert_int_equal(lookups, 0);
    assert_int_equal(srt_link_may_resolve(link), 1);
    assert_int_equal(seriatim_link_timeout_ms(link), 0);
    assert_int_equal(drive_and_count_lookups(link, &lookups), SERIATIM_OK);
    assert_true(lookups > 0);
    assert_int_equal(payloads_waiting_at(redis.port), 20);
    seriatim_link_free(link);
    stop_process(&redis);
}

/* A sentinel that has not heard the news names a replica; later it names the master. */
static void test_a_replica_is_not_taken(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS), replica = start_replica_of(&redis);
    scripted late;
    seriatim_link *link;
    char url[256];
    (void)state;
    start_scripted(&late, 0, replica.port, redis.port);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/mymaster", late.port);
    link = sentinel_link(url);
    sentinel_push(link, 0, 10, 0, 0);
    assert_true(late.asked >= 2);
    assert_int_equal(payloads_waiting_at(redis.port), 10);
    seriatim_link_free(link);
    stop_scripted(&late);
    start_scripted(&late, 0, replica.port, replica.port);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/mymaster", late.port);
    link = sentinel_link(url);
    srt_link_set_limits(link, 3000, 3000);
    begin_within(link, 3, 0, 10, 0, 0); /* it is tried again until then */
    assert_int_equal(sentinel_drive(link), SERIATIM_READONLY);
    assert_non_null(strstr(sentinel_message(link), "not a master: its ROLE is slave"));
    seriatim_link_free(link);
    stop_scripted(&late);
    stop_process(&replica);
    stop_process(&redis);
}

static void test_another_sentinel_is_asked_if_the_first_goes_on_naming_a_replica(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS), replica = start_replica_of(&redis);
    scripted stale, good;
    seriatim_link *link;
    char url[256];
    int asked;
    (void)state;
    start_scripted(&stale, 0, replica.port, replica.port);
    start_scripted(&good, 0, redis.port, redis.port);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/mymaster", stale.port, good.port);
    link = sentinel_link(url);
    begin_within(link, 5, 0, 10, 0, 0);
    if (sentinel_drive(link) != SERIATIM_OK)
        fail_msg("%s", sentinel_message(link));
    asked = stale.asked;
    seriatim_link_reset(link);
    sentinel_push(link, 10, 10, 0, 0);
    assert_int_equal(stale.asked, asked); /* the one whose master has answered is asked first */
    assert_int_equal(payloads_waiting_at(redis.port), 20);
    seriatim_link_free(link);
    stop_scripted(&stale);
    stop_scripted(&good);
    stop_process(&replica);
    stop_process(&redis);
}

static void test_another_sentinel_is_asked_if_nobody_listens_where_the_first_says(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS);
    scripted stale, good;
    seriatim_link *link;
    char url[256];
    int nobody;
    (void)state;
    nobody = free_port();
    start_scripted(&stale, 0, nobody, nobody);
    start_scripted(&good, 0, redis.port, redis.port);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/mymaster", stale.port, good.port);
    link = sentinel_link(url);
    begin_within(link, 5, 0, 10, 0, 0);
    if (sentinel_drive(link) != SERIATIM_OK)
        fail_msg("%s", sentinel_message(link));
    seriatim_link_free(link);
    stop_scripted(&stale);
    stop_scripted(&good);
    stop_process(&redis);
}

static void test_a_master_that_no_sentinel_names_is_an_error(void **state)
{
    seriatim_link *link = sentinel_link("redis+sentinel://:SeCrEt@127.0.0.1:1,127.0.0.1:2/mymaster");
    (void)state;
    srt_link_set_limits(link, 3000, 3000);
    sentinel_begin_push(link, 0, 10, 0, 0);
    assert_int_equal(sentinel_drive(link), SERIATIM_IO);
    assert_string_equal(sentinel_message(link), "cannot connect to master mymaster: no sentinel names it: "
                                                "127.0.0.1:1: Connection refused; 127.0.0.1:2: Connection refused");
    seriatim_link_free(link);
}

/* The life of a link with a push of replicas; its status. */
static int life_of_a_link(const seriatim_allocator *mem, const char *url)
{
    seriatim_options options = {mem, NULL, NULL, 0, NULL};
    seriatim_queue_settings settings;
    seriatim_link *link = NULL;
    seriatim_error error;
    seriatim_job job;
    size_t queue;
    int status = seriatim_link_new(&options, url, &link, &error);
    if (status != SERIATIM_OK)
        return status;
    seriatim_queue_settings_init(&settings);
    settings.name = "q";
    settings.name_len = 1;
    seriatim_job_init(&job);
    job.id = "a";
    job.id_len = 1;
    status = seriatim_client_queue(seriatim_link_client(link), &settings, &queue);
    if (status == SERIATIM_OK)
        status = seriatim_push_begin(seriatim_link_client(link), queue);
    if (status == SERIATIM_OK)
        status = seriatim_push_replicas(seriatim_link_client(link), 1, 0.001);
    if (status == SERIATIM_OK)
        status = seriatim_push_job(seriatim_link_client(link), &job);
    if (status == SERIATIM_OK)
        status = seriatim_push_send(seriatim_link_client(link));
    if (status == SERIATIM_OK)
        status = sentinel_drive(link);
    seriatim_link_free(link);
    return status;
}

static void test_every_allocation_of_a_link_may_fail(void **state)
{
    redis_node redis = start_process(PLAIN_REDIS);
    scripted good;
    char url[256];
    failing f = {0};
    seriatim_allocator mem = {failing_alloc, &f};
    int status = SERIATIM_NOMEM;
    (void)state;
    start_scripted(&good, 0, redis.port, redis.port);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:1,127.0.0.1:%d/mymaster", good.port);
    for (f.fail_at = 1; status != SERIATIM_REPLICAS || f.calls >= f.fail_at; f.fail_at++) {
        f.calls = 0;
        status = life_of_a_link(&mem, url);
        assert_true(status == SERIATIM_REPLICAS || status == SERIATIM_NOMEM || status == SERIATIM_UNKNOWN_OUTCOME);
        assert_int_equal(f.live, 0);
        assert_true(f.fail_at < 1000);
    }
    assert_true(f.fail_at > 40);
    stop_scripted(&good);
    stop_process(&redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_silent_sentinel_costs_half_a_second),
        cmocka_unit_test(test_a_sentinel_is_asked_at_the_second_address_of_its_name),
        cmocka_unit_test(test_a_sentinel_is_asked_at_the_second_address_if_the_first_drops_packets),
        cmocka_unit_test(test_a_sentinel_whose_name_is_looked_up_slowly_is_asked),
        cmocka_unit_test(test_a_link_connects_after_a_look_up_of_5_seconds),
        cmocka_unit_test(test_a_link_connects_to_the_second_address_if_the_first_drops_packets),
        cmocka_unit_test(test_a_sentinel_that_no_address_of_its_name_reaches_is_an_error),
        cmocka_unit_test(test_a_link_says_before_each_step_whether_it_may_look_up_a_name),
        cmocka_unit_test(test_a_link_whose_idle_connection_was_closed_looks_its_host_up_in_the_next_step),
        cmocka_unit_test(test_a_replica_is_not_taken),
        cmocka_unit_test(test_another_sentinel_is_asked_if_the_first_goes_on_naming_a_replica),
        cmocka_unit_test(test_another_sentinel_is_asked_if_nobody_listens_where_the_first_says),
        cmocka_unit_test(test_a_master_that_no_sentinel_names_is_an_error),
        cmocka_unit_test(test_every_allocation_of_a_link_may_fail),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_refusals.c - what a runner tells its host while a real redis-server refuses the requests of its shards. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "teams.h"

#define SHARDS 10

typedef struct told {
    int of_shards, of_heartbeats, over; /* warnings */
    int of_memory, connected;           /* events of Redis that is out of memory, or connected */
    long long kept;                     /* refusals that were not told one by one, as the last of `over` says */
} told;

/* Adds what the runner tells, for some seconds. */
static void listen_to(seriatim_runner *runner, told *t, double during)
{
    double until = seconds() + during;
    seriatim_event event;
    while (seconds() < until) {
        seriatim_runner_pulse(runner);
        while (seriatim_runner_event(runner, &event) == SERIATIM_OK) {
            t->of_shards += event.kind == SERIATIM_EVENT_WARNING && strncmp(event.text, "shard ", 6) == 0;
            t->of_memory += strstr(event.text, "Redis is out of memory") != NULL;
            t->connected += event.kind == SERIATIM_EVENT_LINK && event.number == 1;
            t->of_heartbeats += event.kind == SERIATIM_EVENT_WARNING && strncmp(event.text, "Redis answers", 13) == 0;
            if (event.kind == SERIATIM_EVENT_WARNING &&
                strncmp(event.text, "Redis does not refuse requests", 30) == 0) {
                t->over++;
                t->kept = event.number;
            }
        }
        pause_ms(5);
    }
}

/* Until a number has come, a minute at most. */
static void listen_until(seriatim_runner *runner, told *t, const int *number)
{
    double until = seconds() + 60;
    while (*number == 0 && seconds() < until)
        listen_to(runner, t, 0.1);
    assert_int_not_equal(*number, 0);
}

static void acl(const char *rules)
{
    char command[128], answer[256];
    snprintf(command, sizeof command, "acl setuser limited %s", rules);
    ask_cli(command, answer, sizeof answer);
    assert_string_equal(answer, "OK\n");
}

/*
 * Each shard is refused once a second. The first refusal is told, and no other one of the same cause, until the user
 * has the right again: then the number of the others. The next one is told at once.
 */
static void test_shards_that_lack_a_right_are_told_of_once(void **state)
{
    seriatim_queue_settings q = queue_named("limited", SHARDS);
    char everybody[sizeof team_url];
    journal j;
    team a;
    told t = {0, 0, 0, 0, 0, 0};
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    (void)state;
    memset(&j, 0, sizeof j);
    pthread_mutex_init(&j.lock, NULL);
    acl("on '>secret' '~*' '&*' +@all");
    strcpy(everybody, team_url);
    snprintf(team_url, sizeof team_url, "unix://limited:secret@%s", team_redis.socket);
    team_start(&a, &j, "limited1", &q, 1);
    team_push(link, queue, 0, IDS);
    wait_for(&j, &a, NULL, IDS);
    acl("-@write"); /* the script begins, and ends at its first write: Redis' words name the script and its line */
    team_push(link, queue, IDS, IDS);
    listen_until(a.runner, &t, &t.of_shards);
    listen_to(a.runner, &t, 4);
    assert_int_equal(t.of_shards, 1);
    assert_int_equal(t.of_heartbeats, 1);
    assert_int_equal(t.over, 0);
    acl("-evalsha");
    listen_to(a.runner, &t, 4);
    assert_int_equal(t.of_shards, 2); /* another cause */
    assert_int_equal(t.of_heartbeats, 2);
    acl("+@all");
    listen_until(a.runner, &t, &t.over);
    assert_int_equal(t.over, 1);
    assert_true(t.kept >= SHARDS - 1);
    wait_for(&j, &a, NULL, 2 * IDS);
    memset(&t, 0, sizeof t);
    listen_to(a.runner, &t, 0.1);
    acl("-evalsha");
    team_push(link, queue, 2 * IDS, IDS);
    listen_until(a.runner, &t, &t.of_shards);
    acl("+@all");
    wait_for(&j, &a, NULL, 3 * IDS);
    assert_true(team_stop(&a) < 30.0);
    strcpy(team_url, everybody);
    seriatim_link_free(link);
    pthread_mutex_destroy(&j.lock);
}

/* The layout of a new queue is refused for as long as Redis is full: by the answer, and with it ends the connection. */
static void test_a_queue_that_a_full_redis_refuses_at_the_start_is_told_of_once(void **state)
{
    seriatim_queue_settings q = queue_named("full", SHARDS);
    seriatim_runner *runner;
    told t = {0, 0, 0, 0, 0, 0};
    char answer[64];
    (void)state;
    ask_cli("config set maxmemory 1", answer, sizeof answer);
    runner = runner_start("full1", 10000, &q, 1);
    listen_until(runner, &t, &t.of_memory);
    listen_to(runner, &t, 4);
    assert_int_equal(t.of_memory, 2);
    assert_int_equal(t.connected, 0);
    ask_cli("config set maxmemory 0", answer, sizeof answer);
    listen_until(runner, &t, &t.connected);
    assert_int_equal(t.of_memory, 2);
    assert_int_equal(t.connected, 1);
    seriatim_runner_free(runner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shards_that_lack_a_right_are_told_of_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_queue_that_a_full_redis_refuses_at_the_start_is_told_of_once, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

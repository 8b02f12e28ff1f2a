/* test_runner.c - runners with real threads against a real redis-server, which is killed in between. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lookups.h"
#include "port.h"
#include "teams.h"

static void test_many_threads_do_all_jobs_in_order(void **state)
{
    seriatim_queue_settings q = queue_named("orders", 5);
    journal j;
    team a, b;
    char answer[256];
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    int i;
    (void)state;
    memset(&j, 0, sizeof j);
    pthread_mutex_init(&j.lock, NULL);
    team_push(link, queue, 0, JOBS / 4);
    team_start(&a, &j, "a1", &q, 1);
    team_start(&b, &j, "b1", &q, 1);
    wait_for(&j, &a, &b, JOBS / 4);
    team_push(link, queue, JOBS / 4, JOBS / 4);
    assert_true(team_stop(&b) < 10.0);
    team_start(&b, &j, "b2", &q, 1);
    ask_cli("script flush", answer, sizeof answer);
    wait_for(&j, &a, &b, JOBS / 2);
    team_push(link, queue, JOBS / 2, JOBS / 4);
    pause_ms(1200); /* the file is written each second */
    redis_end(&team_redis, SIGKILL);
    start_redis();
    wait_for(&j, &a, &b, 3 * JOBS / 4);
    seriatim_link_free(link);
    link = connect_link(&q, &queue);
    team_push(link, queue, 3 * JOBS / 4, JOBS / 4);
    wait_for(&j, &a, &b, JOBS);
    for (i = 0; i < IDS; i++)
        assert_int_equal(j.expected[i], JOBS / IDS);
    assert_int_equal(j.disordered, 0);
    assert_true(team_stop(&a) < 10.0);
    assert_true(team_stop(&b) < 10.0);
    seriatim_link_free(link);
    pthread_mutex_destroy(&j.lock);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

#ifdef SMALL
#define QUICK 1.0
#else
#define QUICK 0.02 /* seconds; 0.0007 on a quiet machine */
#endif

/* Of 100 pushes, each of which waits for the take of the one before: the seconds from push to take. */
static double median_wait(journal *j, team *a, seriatim_link *link, size_t queue)
{
    double waits[100];
    int i, before = seen(j);
    for (i = 0; i < 100; i++) {
        double begun = seconds();
        team_push(link, queue, before + i, 1);
        wait_for(j, a, NULL, before + i + 1);
        pthread_mutex_lock(&j->lock);
        waits[i] = j->taken_at - begun;
        pthread_mutex_unlock(&j->lock);
        pause_ms(5);
    }
    qsort(waits, 100, sizeof *waits, by_size);
    print_message("push to take: median %.2f ms, 95 of 100 below %.2f ms\n", waits[50] * 1e3, waits[95] * 1e3);
    return waits[50];
}

static void test_a_push_is_taken_within_milliseconds(void **state)
{
    seriatim_queue_settings q = queue_named("quick", 5);
    journal j;
    team a;
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    double median = 1;
    int rounds;
    (void)state;
    memset(&j, 0, sizeof j);
    pthread_mutex_init(&j.lock, NULL);
    team_start(&a, &j, "quick1", &q, 1);
    pause_ms(300);
    for (rounds = 0; rounds < 10 && median >= QUICK; rounds++) /* a machine may be busy with other things */
        median = median_wait(&j, &a, link, queue);
    assert_true(median < QUICK);
    assert_true(team_stop(&a) < 30.0);
    seriatim_link_free(link);
    pthread_mutex_destroy(&j.lock);
}

/* The warnings that name a word, for some seconds. */
static int warnings(seriatim_runner *runner, const char *word, double during)
{
    double until = seconds() + during;
    seriatim_event event;
    int count = 0;
    while (seconds() < until) {
        seriatim_runner_pulse(runner);
        while (seriatim_runner_event(runner, &event) == SERIATIM_OK)
            count += event.kind == SERIATIM_EVENT_WARNING && strstr(event.text, word) != NULL;
        pause_ms(5);
    }
    return count;
}

typedef struct tidings {
    int warnings, connected, lost;
} tidings;

/* What a runner tells of its connection: until it has told it, a minute at most, and for some seconds more. */
static tidings tidings_of(seriatim_runner *runner, tidings wanted, double more)
{
    double until = seconds() + 60;
    seriatim_event event;
    tidings t = {0, 0, 0};
    int is_complete = 0;
    while (seconds() < until) {
        seriatim_runner_pulse(runner);
        while (seriatim_runner_event(runner, &event) == SERIATIM_OK) {
            t.warnings += event.kind == SERIATIM_EVENT_WARNING && strncmp(event.text, "Redis: ", 7) == 0;
            t.connected += event.kind == SERIATIM_EVENT_LINK && event.number == 1;
            t.lost += event.kind == SERIATIM_EVENT_LINK && event.number == 0;
        }
        if (!is_complete && t.warnings >= wanted.warnings && t.connected >= wanted.connected && t.lost >= wanted.lost) {
            is_complete = 1;
            until = seconds() + more;
        }
        pause_ms(5);
    }
    return t;
}

static void assert_tidings(seriatim_runner *runner, int warnings, int connected, int lost, double more)
{
    tidings wanted = {warnings, connected, lost}, t = tidings_of(runner, wanted, more);
    if (memcmp(&t, &wanted, sizeof t) != 0)
        fail_msg("%d warnings, %d times connected, %d times lost", t.warnings, t.connected, t.lost);
}

static void test_a_redis_that_stays_read_only_is_told_of_once(void **state)
{
    seriatim_queue_settings q = queue_named("read", 2);
    seriatim_runner *served, *late;
    char answer[64];
    (void)state;
    served = runner_start("served", 10000, &q, 1);
    assert_tidings(served, 0, 1, 0, 0.1);
    ask_cli("replicaof 127.0.0.1 1", answer, sizeof answer);
    assert_tidings(served, 1, 0, 1, 3);
    late = runner_start("late", 10000, &q, 1);
    assert_tidings(late, 1, 0, 0, 3);
    ask_cli("replicaof no one", answer, sizeof answer);
    assert_tidings(served, 0, 1, 0, 0.1);
    assert_tidings(late, 0, 1, 0, 0.1);
    seriatim_runner_stop(served);
    seriatim_runner_stop(late);
    while (!seriatim_runner_stopped(served) || !seriatim_runner_stopped(late))
        pause_ms(2);
    seriatim_runner_free(served);
    seriatim_runner_free(late);
}

/* Waits for the first of these warnings, a minute at most, and then for some seconds. */
static int warnings_from_first(seriatim_runner *runner, const char *word, double during)
{
    double until = seconds() + 60;
    int count = 0;
    while (count == 0 && seconds() < until)
        count = warnings(runner, word, 0.1);
    return count + warnings(runner, word, during);
}

/*
 * A user to whom Redis gives no channels: jobs run by polling, one warning says so, and wakes come once the user may
 * have them.
 */
static void test_jobs_run_by_polling_without_channels(void **state)
{
    seriatim_queue_settings q = queue_named("refused", 5);
    char everybody[sizeof team_url], answer[256];
    journal j;
    team a;
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    double took = 60;
    int rounds;
    (void)state;
    memset(&j, 0, sizeof j);
    pthread_mutex_init(&j.lock, NULL);
    ask_cli("acl setuser limited on '>secret' '~*' +@all resetchannels", answer, sizeof answer);
    strcpy(everybody, team_url);
    snprintf(team_url, sizeof team_url, "unix://limited:secret@%s", team_redis.socket);
    team_start(&a, &j, "refused1", &q, 1);
    assert_int_equal(
        warnings_from_first(a.runner, "poll_interval: Redis answers, but its user lacks a right: NOPERM ", 3), 1);
    for (rounds = 0; rounds < 10 && took >= 2.5; rounds++) { /* a machine may be busy with other things */
        team_push(link, queue, 25 * rounds, 25);
        took = -seconds();
        wait_for(&j, &a, NULL, 25 * (rounds + 1));
        took += seconds();
    }
    assert_true(took < 2.5); /* five shards, none waits for the others' turns */
    assert_int_equal(warnings(a.runner, "poll_interval", 2.5), 0);
    ask_cli("acl setuser limited '&*'", answer, sizeof answer);
    assert_int_equal(warnings(a.runner, "poll_interval", 2.5), 0);
    ask_cli("acl setuser limited resetchannels", answer, sizeof answer);
    assert_int_equal(warnings_from_first(a.runner, "poll_interval", 3), 1);
    assert_true(team_stop(&a) < 30.0);
    strcpy(team_url, everybody);
    ask_cli("acl deluser limited", answer, sizeof answer);
    seriatim_link_free(link);
    pthread_mutex_destroy(&j.lock);
}

/* For a thread: answers each connection with a part of an answer, and ends it in the same segment. */
static void *answer_and_end(void *argument)
{
    int fd;
    char bytes[4096];
    while ((fd = accept(*(int *)argument, NULL, NULL)) >= 0) {
#ifdef TCP_CORK
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
#endif
        if (recv(fd, bytes, sizeof bytes, 0) > 0 && send(fd, "$9\r\nab", 6, MSG_NOSIGNAL) == 6) {
            shutdown(fd, SHUT_WR);
            while (recv(fd, bytes, sizeof bytes, 0) > 0)
                ;
        }
        close(fd);
    }
    return NULL;
}

static void test_the_end_of_a_connection_is_noticed_behind_bytes(void **state)
{
    seriatim_queue_settings q = queue_named("ended", 1);
    int port, listener = listen_on_loopback(5, &port), count = 0;
    char everybody[sizeof team_url];
    seriatim_runner *runner;
    pthread_t thread;
    double until;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, answer_and_end, &listener), 0);
    strcpy(everybody, team_url);
    snprintf(team_url, sizeof team_url, "redis://127.0.0.1:%d", port);
    runner = runner_start("ended1", 10000, &q, 1);
    for (until = seconds() + 5; count == 0 && seconds() < until;) /* 15 s pass before Redis counts as silent */
        count = warnings(runner, "closed by Redis", 0.1);
    assert_int_not_equal(count, 0);
    seriatim_runner_free(runner);
    strcpy(team_url, everybody);
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
}

static int loading_answers;

/* For a thread: greets each connection, and answers that the data is loaded still. */
static void *answer_loading(void *argument)
{
    static const char loading[] = "-LOADING x\r\n";
    int fd;
    while ((fd = accept(*(int *)argument, NULL, NULL)) >= 0) {
        char bytes[65536];
        ssize_t got;
        while ((got = recv(fd, bytes, sizeof bytes - 1, 0)) > 0) {
            bytes[got] = '\0';
            if (strstr(bytes, "SETNAME"))
                send(fd, "+OK\r\n", 5, MSG_NOSIGNAL);
            if (strstr(bytes, "EVAL") || strstr(bytes, "SUBSCRIBE"))
                send(fd, loading, sizeof loading - 1, MSG_NOSIGNAL);
            if (strstr(bytes, "EVAL"))
                __atomic_add_fetch(&loading_answers, 1, __ATOMIC_RELAXED);
        }
        close(fd);
    }
    return NULL;
}

static void test_a_runner_connects_ever_less_often_to_a_redis_that_is_loading(void **state)
{
    seriatim_queue_settings q = queue_named("loading", 1);
    int port, listener = listen_on_loopback(5, &port), answers;
    char everybody[sizeof team_url];
    seriatim_runner *runner;
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, answer_loading, &listener), 0);
    strcpy(everybody, team_url);
    snprintf(team_url, sizeof team_url, "redis://127.0.0.1:%d", port);
    runner = runner_start("loading1", 10000, &q, 1);
    pause_ms(3000);
    answers = __atomic_load_n(&loading_answers, __ATOMIC_RELAXED);
    seriatim_runner_free(runner);
    strcpy(team_url, everybody);
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
    assert_in_range(answers, 1, 11); /* after 25 to 50 ms, 50 to 100, ... 500 to 1000 */
}

/* Nothing may come in this time, and both go on. */
static void take_nothing_for(seriatim_runner *runner, seriatim_runner *other, double during)
{
    double until = seconds() + during;
    seriatim_delivery *d = NULL;
    while (seconds() < until) {
        assert_int_equal(seriatim_runner_take(runner, 0, &d), SERIATIM_AGAIN);
        seriatim_runner_pulse(runner);
        seriatim_runner_pulse(other);
        pause_ms(5);
    }
}

/* The name server is silent while the runner connects for its wake-ups: the open connection goes on. */
static void test_a_slow_look_up_keeps_no_heartbeat_back(void **state)
{
    seriatim_queue_settings q = queue_named("late", 1);
    char everybody[sizeof team_url], answer[256], command[64];
    int port = free_port();
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    seriatim_runner *a, *b;
    seriatim_delivery *d;
    (void)state;
    snprintf(command, sizeof command, "config set port %d", port);
    ask_cli(command, answer, sizeof answer);
    assert_string_equal(answer, "OK\n");
    strcpy(everybody, team_url);
    snprintf(team_url, sizeof team_url, "redis://late.test:%d", port);
    make_lookups_late(4000, 2);
    a = runner_start("late1", 1000, &q, 1);
    strcpy(team_url, everybody);
    team_push(link, queue, 0, 1);
    d = runner_take(a);
    b = runner_start("late2", 1000, &q, 1);
    take_nothing_for(b, a, 1);
    ask_cli("client kill type pubsub", answer, sizeof answer);
    take_nothing_for(b, a, 3);
    seriatim_delivery_done(d, 0);
    seriatim_runner_settle(a, d);
    take_nothing_for(b, a, 2);
    seriatim_runner_free(a);
    seriatim_runner_free(b);
    seriatim_link_free(link);
}

static double cpu_seconds(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

/*
 * All shards are its own, and two seconds pass with few commands: the start is over. Behind a heartbeat the settings of
 * some queues are read again.
 */
static void wait_until_idle(team *a, size_t shards)
{
    uint64_t sent = 0;
    int i, quiet;
    for (i = quiet = 0; i < 480 && quiet < 8; i++) {
        seriatim_runner_stats stats = seriatim_runner_stats_now(a->runner);
        quiet = stats.shards == shards && stats.commands - sent < 15 ? quiet + 1 : 0;
        sent = stats.commands;
        seriatim_runner_pulse(a->runner);
        pause_ms(250);
    }
    assert_int_equal(quiet, 8);
}

static int is_quiet_for_5_seconds(seriatim_runner *runner)
{
    long before = commands_processed();
    uint64_t sent = seriatim_runner_stats_now(runner).commands;
    double cpu = cpu_seconds();
    int i;
    for (i = 0; i < 10; i++) {
        seriatim_runner_pulse(runner);
        pause_ms(500);
    }
    cpu = cpu_seconds() - cpu;
    sent = seriatim_runner_stats_now(runner).commands - sent;
    /* Redis counts what a script calls, too: a beat makes 7, a claim 6. */
    print_message("5 s idle: %ld commands with those of scripts, %.1f ms of CPU\n", commands_processed() - before,
                  cpu * 1e3);
    /* 0.02 s on a quiet machine. Behind each of two or three heartbeats the settings of 11 of 200 queues are read. */
    return cpu < 0.2 && sent < 15 + 3 * 11;
}

static void test_r_schedule_2_an_idle_runner_sends_few_commands(void **state)
{
    static char names[200][16];
    static seriatim_queue_settings queues[200];
    journal j;
    team a;
    double took;
    int i, rounds, is_quiet = 0;
    (void)state;
    memset(&j, 0, sizeof j);
    pthread_mutex_init(&j.lock, NULL);
    for (i = 0; i < 200; i++) {
        snprintf(names[i], sizeof names[i], "queue%d", i);
        queues[i] = queue_named(names[i], 5);
    }
    team_start(&a, &j, "idle", queues, 200);
    wait_until_idle(&a, 1000);
    for (rounds = 0; rounds < 5 && !is_quiet; rounds++) /* a machine may be busy with other things */
        is_quiet = is_quiet_for_5_seconds(a.runner);
    assert_true(is_quiet);
    assert_true(seriatim_runner_stats_now(a.runner).connected);
    took = team_stop(&a);
    print_message("stopped in %.2f s\n", took);
    assert_true(took < 30.0);
    pthread_mutex_destroy(&j.lock);
}

/* The least of some spans of a second, because a machine may be busy with other things. */
static double cpu_of_a_second(seriatim_runner *runner)
{
    double least = 10;
    int i;
    for (i = 0; i < 5 && least >= 0.1; i++) {
        double cpu = cpu_seconds();
        pause_ms(1000);
        seriatim_runner_pulse(runner);
        cpu = cpu_seconds() - cpu;
        least = cpu < least ? cpu : least;
    }
    print_message("1 s of a stop that waits for a job: %.1f ms of CPU\n", least * 1e3);
    return least;
}

static void test_a_stop_that_waits_for_a_job_leaves_idle_threads_asleep(void **state)
{
    seriatim_queue_settings q = queue_named("slow", 1);
    journal j;
    team a;
    size_t queue;
    seriatim_link *link = connect_link(&q, &queue);
    seriatim_delivery *d;
    size_t i;
    double least;
    (void)state;
    memset(&j, 0, sizeof j);
    pthread_mutex_init(&j.lock, NULL);
    a.journal = &j;
    a.runner = runner_start("slow1", 10000, &q, 1);
    team_push(link, queue, 0, 1);
    d = runner_take(a.runner);
    for (i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&a.threads[i], NULL, work, &a), 0);
    pause_ms(300);
    seriatim_runner_stop(a.runner);
    pause_ms(300);
    least = cpu_of_a_second(a.runner);
    assert_false(seriatim_runner_stopped(a.runner));
    seriatim_delivery_done(d, 0);
    seriatim_runner_settle(a.runner, d);
    assert_true(team_stop(&a) < 10.0);
    assert_true(least < 0.1);
    seriatim_link_free(link);
    pthread_mutex_destroy(&j.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_many_threads_do_all_jobs_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_push_is_taken_within_milliseconds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_jobs_run_by_polling_without_channels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_end_of_a_connection_is_noticed_behind_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_runner_connects_ever_less_often_to_a_redis_that_is_loading, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_redis_that_stays_read_only_is_told_of_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_slow_look_up_keeps_no_heartbeat_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_r_schedule_2_an_idle_runner_sends_few_commands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_stop_that_waits_for_a_job_leaves_idle_threads_asleep, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

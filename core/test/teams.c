/* teams.c - see teams.h. */
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

#include "teams.h"

redis_process team_redis;
char team_url[256];

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- Redis --------------------------------------------------------------------------------- */

void start_redis(void)
{
    static const char *const words[] = {"--appendonly", "yes", "--appendfsync", "no", NULL}; /* see link_fixture.c */
    assert_int_equal(redis_run(&team_redis, words), 0);
}

int set_up(void **state)
{
    (void)state;
    if (redis_make_folder(&team_redis) != 0)
        return -1;
    strcpy(team_url, team_redis.url);
    start_redis();
    return redis_wait(&team_redis);
}

int tear_down(void **state)
{
    (void)state;
    return redis_remove(&team_redis);
}

void ask_cli(const char *command, char *answer, size_t cap)
{
    char line[256];
    FILE *pipe;
    size_t got;
    snprintf(line, sizeof line, "redis-cli -s %s %s", team_redis.socket, command);
    pipe = popen(line, "r");
    assert_non_null(pipe);
    got = fread(answer, 1, cap - 1, pipe);
    answer[got] = '\0';
    pclose(pipe);
}

long commands_processed(void)
{
    static char answer[16384];
    ask_cli("info stats", answer, sizeof answer);
    return atol(strstr(answer, "total_commands_processed:") + 25);
}

/* ---- Pushes -------------------------------------------------------------------------------- */

seriatim_queue_settings queue_named(const char *name, int shards)
{
    seriatim_queue_settings q;
    seriatim_queue_settings_init(&q);
    q.name = name;
    q.name_len = strlen(name);
    q.shards_count = shards;
    q.fold = "list";
    return q;
}

void team_push_for(seriatim_link *link, size_t queue, int from, int count, int ids)
{
    seriatim_client *c = seriatim_link_client(link);
    int i, status;
    seriatim_push_begin(c, queue);
    for (i = from; i < from + count; i++) {
        char id[16], payload[16];
        seriatim_job job;
        seriatim_job_init(&job);
        job.id = id;
        job.id_len = (size_t)snprintf(id, sizeof id, "%d", i % ids);
        job.payload = payload;
        job.payload_len = (size_t)snprintf(payload, sizeof payload, "%d", i / ids);
        assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    }
    seriatim_push_send(c);
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        seriatim_link_wait(link);
    if (status != SERIATIM_OK)
        fail_msg("push: %s", seriatim_client_error(c)->message);
}

void team_push(seriatim_link *link, size_t queue, int from, int count)
{
    team_push_for(link, queue, from, count, IDS);
}

/* ---- Runners ------------------------------------------------------------------------------- */

static void note(journal *j, const seriatim_claimed *job)
{
    size_t i;
    int id = atoi(job->id);
    pthread_mutex_lock(&j->lock);
    j->taken_at = seconds();
    for (i = 0; i < job->payload_count; i++) {
        char text[16] = "";
        int number;
        memcpy(text, job->payloads[i].data, job->payloads[i].len < 15 ? job->payloads[i].len : 15);
        number = atoi(text);
        if (number == j->expected[id]) {
            j->expected[id]++;
            j->seen++;
        } else if (number > j->expected[id]) {
            j->disordered++; /* smaller ones come again after a lost settle */
        }
    }
    pthread_mutex_unlock(&j->lock);
}

void *work(void *argument)
{
    team *t = argument;
    seriatim_delivery *d;
    int status;
    while ((status = seriatim_runner_take(t->runner, 0, &d)) != SERIATIM_CLOSED) {
        size_t i;
        if (status == SERIATIM_AGAIN) {
            seriatim_runner_wait(t->runner, 0, -1); /* nothing may depend on a limit */
            continue;
        }
        for (i = 0; i < seriatim_delivery_size(d); i++) {
            note(t->journal, seriatim_delivery_job(d, i));
            seriatim_delivery_done(d, i);
        }
        seriatim_runner_settle(t->runner, d);
    }
    return NULL;
}

seriatim_runner *runner_new(const char *id, int64_t lease_ms, size_t threads, const seriatim_queue_settings *queues,
                            size_t count)
{
    seriatim_node_settings settings;
    seriatim_runner *runner;
    seriatim_error error;
    size_t i, worker;
    memset(&settings, 0, sizeof settings);
    settings.id = id;
    settings.lease_ms = lease_ms;
    settings.poll_ms = 1000;
    settings.threads = threads;
    if (seriatim_runner_new(&settings, team_url, &runner, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
    for (i = 0; i < count; i++)
        assert_int_equal(seriatim_runner_worker(runner, &queues[i], &worker, &error), SERIATIM_OK);
    return runner;
}

seriatim_runner *runner_start(const char *id, int64_t lease_ms, const seriatim_queue_settings *queues, size_t count)
{
    seriatim_runner *runner = runner_new(id, lease_ms, THREADS, queues, count);
    seriatim_error error;
    assert_int_equal(seriatim_runner_start(runner, &error), SERIATIM_OK);
    return runner;
}

seriatim_delivery *runner_take(seriatim_runner *runner)
{
    seriatim_delivery *d = NULL;
    double until = seconds() + 30;
    int status;
    while ((status = seriatim_runner_take(runner, 0, &d)) == SERIATIM_AGAIN && seconds() < until)
        seriatim_runner_wait(runner, 0, 10);
    assert_int_equal(status, SERIATIM_OK);
    return d;
}

void team_start(team *t, journal *j, const char *id, const seriatim_queue_settings *queues, size_t count)
{
    size_t i;
    t->journal = j;
    t->runner = runner_start(id, 10000, queues, count);
    for (i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t->threads[i], NULL, work, t), 0);
}

double team_stop(team *t)
{
    double begun = seconds(), took;
    size_t i;
    seriatim_runner_stop(t->runner);
    while (!seriatim_runner_stopped(t->runner) && seconds() < begun + 60)
        pause_ms(2);
    took = seconds() - begun;
    for (i = 0; i < THREADS; i++)
        pthread_join(t->threads[i], NULL);
    seriatim_runner_free(t->runner);
    return took;
}

int seen(journal *j)
{
    int count;
    pthread_mutex_lock(&j->lock);
    count = j->seen;
    pthread_mutex_unlock(&j->lock);
    return count;
}

void wait_for(journal *j, team *a, team *b, int count)
{
    double until = seconds() + 60;
    while (seen(j) < count && seconds() < until) {
        seriatim_runner_pulse(a->runner);
        if (b)
            seriatim_runner_pulse(b->runner);
        pause_ms(1);
    }
    if (seen(j) < count)
        fail_msg("%d of %d jobs were done, %d out of order", seen(j), count, j->disordered);
}

seriatim_link *connect_link(const seriatim_queue_settings *q, size_t *queue)
{
    seriatim_options options;
    seriatim_link *link;
    seriatim_error error;
    memset(&options, 0, sizeof options);
    if (seriatim_link_new(&options, team_url, &link, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
    assert_int_equal(seriatim_client_queue(seriatim_link_client(link), q, queue), SERIATIM_OK);
    return link;
}

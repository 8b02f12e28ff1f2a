/* blank.c - see blank.h. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "blank.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STOP_SECONDS 10

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void nap(double seconds)
{
    struct timespec t;
    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}

void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

long number_of(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

const char *redis_url(void)
{
    const char *url = getenv("REDIS_URL");
    return url ? url : "redis://127.0.0.1:6379";
}

seriatim_queue_settings blank_queue(void)
{
    seriatim_queue_settings settings;
    seriatim_queue_settings_init(&settings);
    settings.name = "BlankWorker";
    settings.name_len = strlen(settings.name);
    return settings;
}

static seriatim_queue_settings numbered_queue(long i, char name[32])
{
    seriatim_queue_settings settings = blank_queue();
    settings.name_len = (size_t)snprintf(name, 32, "blank-%ld", i);
    settings.name = name;
    return settings;
}

/* ---- Producer ------------------------------------------------------------------------------ */

void producer_open(producer *p, seriatim_queue_settings settings)
{
    seriatim_error error;
    p->deliver_in = (double)number_of("BENCH_DELIVER_IN", 0);
    p->delay = (double)number_of("BENCH_DELAY", 0);
    if (seriatim_link_new(NULL, redis_url(), &p->link, &error) != SERIATIM_OK)
        fail("link", error.message);
    p->client = seriatim_link_client(p->link);
    if (seriatim_client_queue(p->client, &settings, &p->queue) != SERIATIM_OK)
        fail("queue", seriatim_client_error(p->client)->message);
}

void producer_open_all(producer *p, long queues)
{
    char name[32];
    long i;
    producer_open(p, queues ? numbered_queue(0, name) : blank_queue());
    for (i = 1; i < queues; i++) {
        seriatim_queue_settings settings = numbered_queue(i, name);
        size_t number;
        if (seriatim_client_queue(p->client, &settings, &number) != SERIATIM_OK)
            fail("queue", seriatim_client_error(p->client)->message);
    }
}

void producer_close(producer *p)
{
    seriatim_link_free(p->link);
}

void producer_begin(producer *p, size_t queue)
{
    if (seriatim_push_begin(p->client, queue) != SERIATIM_OK)
        fail("push", seriatim_client_error(p->client)->message);
}

void producer_add(producer *p, const char *id, size_t id_len, const char *payload, size_t payload_len, double delay)
{
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = id_len;
    job.payload = payload;
    job.payload_len = payload_len;
    job.when = delay > 0 ? SERIATIM_DELAY : SERIATIM_NOW;
    job.time = delay;
    job.deliver_when = p->deliver_in > 0 ? SERIATIM_DELAY : SERIATIM_NOW;
    job.deliver_time = p->deliver_in;
    if (seriatim_push_job(p->client, &job) != SERIATIM_OK)
        fail("job", seriatim_client_error(p->client)->message);
}

void producer_send(producer *p)
{
    int status = seriatim_push_send(p->client);
    while (status == SERIATIM_OK && (status = seriatim_link_step(p->link)) == SERIATIM_AGAIN)
        status = seriatim_link_wait(p->link);
    if (status != SERIATIM_OK)
        fail("send", seriatim_client_error(p->client)->message);
}

static size_t decimal(char text[24], long n)
{
    char backwards[24];
    size_t len = 0, i;
    do
        backwards[len++] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    for (i = 0; i < len; i++)
        text[i] = backwards[len - 1 - i];
    return len;
}

void producer_numbers(producer *p, size_t queue, long first, long last, const char *payload)
{
    size_t payload_len = strlen(payload);
    char id[24];
    long n;
    producer_begin(p, queue);
    for (n = first; n <= last; n++)
        producer_add(p, id, decimal(id, n), payload, payload_len, p->delay);
    producer_send(p);
}

/* ---- Server -------------------------------------------------------------------------------- */

void server_make(server *s, perform_fn perform, void *context)
{
    seriatim_node_settings settings;
    seriatim_error error;
    char id[64];
    memset(s, 0, sizeof *s);
    memset(&settings, 0, sizeof settings);
    s->perform = perform;
    s->context = context;
    s->thread_count = (size_t)number_of("BENCH_THREADS", 5);
    s->threads = calloc(s->thread_count, sizeof *s->threads);
    snprintf(id, sizeof id, "c-%ld-%.0f", (long)getpid(), now() * 1e6);
    settings.id = id;
    settings.description = "the C benchmark";
    settings.lease_ms = 10000;
    settings.poll_ms = 1000;
    settings.threads = s->thread_count;
    settings.scheduler = getenv("BENCH_SEQ") ? SERIATIM_SEQ : SERIATIM_LAG;
    if (!s->threads || seriatim_runner_new(&settings, redis_url(), &s->runner, &error) != SERIATIM_OK)
        fail("runner", s->threads ? error.message : "out of memory");
}

void server_worker(server *s, seriatim_queue_settings settings)
{
    seriatim_error error;
    size_t number;
    if (seriatim_runner_worker(s->runner, &settings, &number, &error) != SERIATIM_OK)
        fail("worker", error.message);
}

void server_workers(server *s, long queues)
{
    char name[32];
    long i;
    if (queues == 0)
        server_worker(s, blank_queue());
    for (i = 0; i < queues; i++)
        server_worker(s, numbered_queue(i, name));
}

static void *serve(void *argument)
{
    server *s = argument;
    size_t thread = __atomic_fetch_add(&s->next_thread, 1, __ATOMIC_RELAXED);
    seriatim_delivery *delivery = NULL;
    int status;
    while ((status = seriatim_runner_settle_and_take(s->runner, delivery, 0, &delivery)) != SERIATIM_CLOSED) {
        if (status == SERIATIM_OK) {
            s->perform(delivery, thread, s->context);
        } else {
            delivery = NULL;
            seriatim_runner_wait(s->runner, 0, -1);
        }
    }
    return NULL;
}

void server_start(server *s)
{
    seriatim_error error;
    size_t i;
    if (seriatim_runner_start(s->runner, &error) != SERIATIM_OK)
        fail("start", error.message);
    for (i = 0; i < s->thread_count; i++)
        if (pthread_create(&s->threads[i], NULL, serve, s) != 0)
            fail("thread", "cannot be started");
}

static void asked_to_stop(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
}

void hold_signals(void)
{
    sigset_t set;
    asked_to_stop(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void look_after(server *s)
{
    seriatim_event event;
    seriatim_runner_pulse(s->runner);
    while (seriatim_runner_event(s->runner, &event) == SERIATIM_OK)
        if (event.kind == SERIATIM_EVENT_WARNING || event.kind == SERIATIM_EVENT_LOST ||
            event.kind == SERIATIM_EVENT_REFUSED)
            fprintf(stderr, "%s\n", event.text);
}

int server_watch(server *s, double seconds)
{
    double until = now() + seconds, left;
    sigset_t set;
    asked_to_stop(&set);
    while ((left = until - now()) > 0) {
        struct timespec wait;
        double slice = left < 1 ? left : 1;
        wait.tv_sec = (time_t)slice;
        wait.tv_nsec = (long)((slice - (double)wait.tv_sec) * 1e9);
        look_after(s);
        if (sigtimedwait(&set, NULL, &wait) > 0)
            return 1;
    }
    return 0;
}

void server_stop(server *s)
{
    double until = now() + STOP_SECONDS;
    size_t i;
    seriatim_runner_stop(s->runner);
    while (!seriatim_runner_stopped(s->runner) && now() < until)
        nap(0.005);
    if (!seriatim_runner_stopped(s->runner))
        fail("stop", "what runs did not end");
    for (i = 0; i < s->thread_count; i++)
        pthread_join(s->threads[i], NULL);
    seriatim_runner_free(s->runner);
    free(s->threads);
}

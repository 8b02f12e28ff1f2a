/*
 * worker.c - the crash kit's worker in C, on the core's runner: it journals what kit/journal.rb says, and dies where it
 * is told.
 *
 *   worker QUEUE shards batch max_retry_count fold threads lease_ms poll_ms back_off nodes node
 *
 * nodes 0: the living share the shards; otherwise this is the node-th of so many. REDIS_URL, JOURNAL and, for its own
 * end, DIE ("perform_begin:3": in the third run) come by the environment.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "journal.h"
#include "seriatim.h"

#define MAX_THREADS 64

static struct worker {
    seriatim_runner *runner;
    const char *queue;
    double back_off;
    const char *die_at;
    long die_in; /* the run, from 1 */
    long runs;
} worker;

typedef struct host {
    pthread_t thread;
    size_t group;
} host;

static void nap(double seconds)
{
    struct timespec t;
    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}

/* ---- Runs ---------------------------------------------------------------------------------- */

static void step(const char *point, long run)
{
    if (worker.die_at && run == worker.die_in && strcmp(worker.die_at, point) == 0) {
        raise(SIGKILL);
        for (;;)
            pause();
    }
}

static double sleep_of(const seriatim_payload *payload)
{
    const char *word = journal_find(payload->data, payload->len, "\"sleep\":");
    return word ? strtod(word, NULL) : 0;
}

static int has(const seriatim_payload *payload, const char *word)
{
    return journal_find(payload->data, payload->len, word) != NULL;
}

/* The run ends with this payload, which comes again without the word. */
static void snooze(seriatim_delivery *d, size_t i, const seriatim_payload *payload)
{
    static const char word[] = "\"snooze\":";
    char again[1024];
    const char *value = journal_find(payload->data, payload->len, word);
    size_t at = (size_t)(value - payload->data) - sizeof word + 1, len = payload->len;
    if (len >= sizeof again) {
        fprintf(stderr, "the payload is too long\n");
        exit(1);
    }
    memcpy(again, payload->data, len);
    memcpy(again + at, "\"before\":", sizeof word - 1);
    seriatim_delivery_snooze(d, i, strtod(value, NULL), again, len);
}

/* A payload that is done by itself has ended. Returns 0 where its run is another's now. */
static int checkpoint(seriatim_delivery *d, size_t i, const seriatim_claimed *job, size_t place)
{
    const seriatim_payload *payload = &job->payloads[place];
    int status = SERIATIM_OK;
    journal_task("did", worker.queue, job, payload);
    seriatim_runner_checkpoint(worker.runner, d, i, place + 1);
    if (has(payload, "\"task\":\"flush\"")) {
        while ((status = seriatim_runner_flush(worker.runner, d, -1)) == SERIATIM_AGAIN)
            continue;
        if (status == SERIATIM_OK)
            journal_task("confirmed", worker.queue, job, payload);
    }
    return status == SERIATIM_OK;
}

/* Returns how the payload leaves the run: NULL, it goes on; "snooze" or "fail", it is over. */
static const char *perform_one(seriatim_delivery *d, size_t i, const seriatim_claimed *job, size_t place, long run)
{
    const seriatim_payload *payload = &job->payloads[place];
    int task = has(payload, "\"task\":");
    if (task)
        journal_task("task", worker.queue, job, payload);
    nap(sleep_of(payload) / 2);
    step("perform_during", run);
    nap(sleep_of(payload) / 2);
    if (task && has(payload, "\"snooze\":")) {
        snooze(d, i, payload);
        return "snooze";
    }
    return task && !checkpoint(d, i, job, place) ? "fail" : NULL;
}

static void perform(seriatim_delivery *d, size_t i)
{
    const seriatim_claimed *job = seriatim_delivery_job(d, i);
    long run = __atomic_add_fetch(&worker.runs, 1, __ATOMIC_RELAXED);
    const char *end = NULL;
    size_t place;
    seriatim_delivery_done(d, i);
    journal_start(worker.queue, job);
    step("perform_begin", run);
    for (place = 0; !end && place < job->payload_count; place++)
        end = perform_one(d, i, job, place, run);
    if (end && strcmp(end, "fail") == 0)
        seriatim_delivery_fail(d, i, "stale", 5, worker.back_off);
    journal_end(end ? end : "end", worker.queue, job);
    step("perform_end", run);
}

static void run(seriatim_delivery *d)
{
    int kind = seriatim_delivery_kind_of(d);
    size_t i;
    for (i = 0; i < seriatim_delivery_size(d); i++) {
        if (kind == SERIATIM_RUN) {
            perform(d, i);
        } else if (kind == SERIATIM_DIED) {
            seriatim_delivery_fail(d, i, "worker died", 11, worker.back_off);
        }
    }
    seriatim_runner_settle(worker.runner, d);
}

static void *host_main(void *argument)
{
    const host *h = argument;
    seriatim_delivery *d;
    int status;
    while ((status = seriatim_runner_take(worker.runner, h->group, &d)) != SERIATIM_CLOSED) {
        if (status == SERIATIM_OK)
            run(d);
        else
            seriatim_runner_wait(worker.runner, h->group, -1);
    }
    return NULL;
}

/* ---- Start and stop ------------------------------------------------------------------------ */

static void give_up(const char *what, const seriatim_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error->message);
    exit(1);
}

/* The shards of the queue as Redis has them, which this creates. */
static unsigned shards_of(const seriatim_queue_settings *q, const char *url)
{
    seriatim_options options;
    seriatim_error error;
    seriatim_link *link;
    unsigned shards;
    size_t queue;
    int status;
    memset(&options, 0, sizeof options);
    if (seriatim_link_new(&options, url, &link, &error) != SERIATIM_OK)
        give_up("link", &error);
    seriatim_client_queue(seriatim_link_client(link), q, &queue);
    seriatim_layout_begin(seriatim_link_client(link), queue);
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        seriatim_link_wait(link);
    if (status != SERIATIM_OK)
        give_up("layout", seriatim_client_error(seriatim_link_client(link)));
    shards = seriatim_layout_shards(seriatim_link_client(link), queue);
    seriatim_link_free(link);
    return shards;
}

/* A group for each thread. Returns their number. */
static size_t split(size_t threads, size_t nodes, size_t node, unsigned shards, size_t worker_number)
{
    static size_t groups[SERIATIM_MAX_SHARDS];
    static seriatim_shard hand[SERIATIM_MAX_SHARDS];
    size_t count = seriatim_split(shards, nodes, node, threads, groups), group, number;
    seriatim_error error;
    for (group = 0; group < count; group++) {
        size_t size = 0;
        unsigned shard;
        for (shard = 0; shard < shards; shard++)
            if (groups[shard] == group) {
                hand[size].worker = worker_number;
                hand[size++].shard = shard;
            }
        if (seriatim_runner_group(worker.runner, SERIATIM_LAG, hand, size, &number, &error) != SERIATIM_OK)
            give_up("group", &error);
    }
    return count;
}

static void set_up_runner(const seriatim_queue_settings *q, seriatim_node_settings *settings, const char *url)
{
    seriatim_error error;
    size_t number;
    if (seriatim_runner_new(settings, url, &worker.runner, &error) != SERIATIM_OK)
        give_up("runner", &error);
    if (seriatim_runner_worker(worker.runner, q, &number, &error) != SERIATIM_OK)
        give_up("worker", &error);
}

static void name_node(char id[64])
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(id, 64, "c-%ld-%lx%lx", (long)getpid(), (unsigned long)t.tv_sec, (unsigned long)t.tv_nsec);
}

/* Shows that it answers, and writes what the runner reports, until TERM or INT. */
static void keep(const sigset_t *signals, double interval)
{
    struct timespec t;
    seriatim_event event;
    t.tv_sec = (time_t)interval;
    t.tv_nsec = (long)((interval - (double)t.tv_sec) * 1e9);
    do {
        seriatim_runner_pulse(worker.runner);
        while (seriatim_runner_event(worker.runner, &event) == SERIATIM_OK)
            fprintf(stderr, "event %d %lld %s\n", event.kind, (long long)event.number, event.text);
    } while (sigtimedwait(signals, NULL, &t) < 0);
}

static void stop(host *hosts, size_t threads)
{
    size_t i;
    seriatim_runner_stop(worker.runner);
    while (!seriatim_runner_stopped(worker.runner)) {
        seriatim_runner_pulse(worker.runner);
        nap(0.005);
    }
    for (i = 0; i < threads; i++)
        pthread_join(hosts[i].thread, NULL);
    seriatim_runner_free(worker.runner);
}

static void read_die(void)
{
    static char point[64];
    const char *text = getenv("DIE");
    if (text && sscanf(text, "%63[^:]:%ld", point, &worker.die_in) == 2)
        worker.die_at = point;
}

int main(int argc, char **argv)
{
    static host hosts[MAX_THREADS];
    const char *url = getenv("REDIS_URL");
    seriatim_queue_settings q;
    seriatim_node_settings settings;
    seriatim_error error;
    size_t i, threads, nodes, groups = 0;
    sigset_t signals;
    char id[64];
    if (argc != 12 || !url || journal_open() != 0) {
        fprintf(stderr, "see the first lines of worker.c\n");
        return 2;
    }
    setvbuf(stderr, NULL, _IOLBF, 4096);
    read_die();
    memset(&settings, 0, sizeof settings);
    seriatim_queue_settings_init(&q);
    worker.queue = q.name = argv[1];
    q.name_len = strlen(argv[1]);
    q.shards_count = atol(argv[2]);
    q.batch_size = atol(argv[3]);
    q.max_retry_count = atol(argv[4]);
    q.fold = argv[5];
    threads = (size_t)atol(argv[6]);
    settings.threads = threads = threads < MAX_THREADS ? threads : MAX_THREADS;
    settings.lease_ms = atol(argv[7]);
    settings.poll_ms = atol(argv[8]);
    worker.back_off = atof(argv[9]);
    nodes = (size_t)atol(argv[10]);
    name_node(id);
    settings.id = settings.description = id;
    set_up_runner(&q, &settings, url);
    if (nodes > 0)
        groups = split(threads, nodes, (size_t)atol(argv[11]), shards_of(&q, url), 0);
    if (nodes > 0)
        threads = groups;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (seriatim_runner_start(worker.runner, &error) != SERIATIM_OK)
        give_up("start", &error);
    for (i = 0; i < threads; i++) {
        hosts[i].group = nodes > 0 ? i : 0;
        pthread_create(&hosts[i].thread, NULL, host_main, &hosts[i]);
    }
    fprintf(stderr, "worker %s start \n", id);
    keep(&signals, (double)settings.lease_ms / 5000);
    stop(hosts, threads);
    return 0;
}

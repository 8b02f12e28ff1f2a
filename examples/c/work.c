/* work.c - serves the queue with five threads until TERM or INT. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <seriatim.h>

#define THREADS 5
#define STOP_SECONDS 25

/* Runs one id, whose payloads are in order. Returns 1 if it is done, 0 if it failed and has to be retried. */
static int perform(const seriatim_claimed *job)
{
    size_t i;
    for (i = 0; i < job->payload_count; i++)
        printf("order %.*s: %.*s\n", (int)job->id_len, job->id, (int)job->payloads[i].len, job->payloads[i].data);
    fflush(stdout);
    return 1;
}

static void fail(seriatim_delivery *delivery, size_t i, const char *error)
{
    double seconds = seriatim_back_off(seriatim_delivery_job(delivery, i)->retry_count + 1, 0.5);
    seriatim_delivery_fail(delivery, i, error, strlen(error), seconds);
}

static void run(seriatim_delivery *delivery)
{
    int kind = seriatim_delivery_kind_of(delivery);
    size_t i;
    for (i = 0; i < seriatim_delivery_size(delivery); i++) {
        const seriatim_claimed *job = seriatim_delivery_job(delivery, i);
        if (kind == SERIATIM_EXHAUSTED) /* the retries of the id are used up: nothing is to run, no outcome to report */
            fprintf(stderr, "order %.*s is dead: %.*s\n", (int)job->id_len, job->id, (int)job->error_len, job->error);
        else if (kind == SERIATIM_DIED) /* a process died that ran it and nothing else */
            fail(delivery, i, "worker died");
        else if (perform(job))
            seriatim_delivery_done(delivery, i);
        else
            fail(delivery, i, "the order cannot be sent");
    }
}

static void *work(void *argument)
{
    seriatim_runner *runner = argument;
    seriatim_delivery *delivery;
    int status;
    while ((status = seriatim_runner_take(runner, 0, &delivery)) != SERIATIM_CLOSED) {
        if (status == SERIATIM_AGAIN) {
            seriatim_runner_wait(runner, 0, -1);
            continue;
        }
        run(delivery);
        seriatim_runner_settle(runner, delivery); /* the delivery and what was read from it is freed now */
    }
    return NULL;
}

/*
 * What the program must do for the runner regularly: read its events, carry out an operator's command, and tell it that
 * the program is alive.
 */
static void look_after(seriatim_runner *runner)
{
    seriatim_event event;
    if (seriatim_runner_asked(runner) == SERIATIM_ORDER_QUIET)
        seriatim_runner_quiet(runner);
    while (seriatim_runner_event(runner, &event) == SERIATIM_OK)
        fprintf(stderr, "work: %s\n", event.text);
    seriatim_runner_pulse(runner);
}

static void serve(seriatim_runner *runner, const sigset_t *signals)
{
    struct timespec half = {0, 500000000};
    int turns = 0;
    while (sigtimedwait(signals, NULL, &half) < 0 && seriatim_runner_asked(runner) != SERIATIM_ORDER_STOP)
        look_after(runner);
    seriatim_runner_stop(runner); /* claims nothing more, hands back jobs that have not begun, waits for running ones */
    half.tv_nsec = 100000000;
    while (!seriatim_runner_stopped(runner)) {
        look_after(runner);
        if (++turns == STOP_SECONDS * 10)
            seriatim_runner_abandon(runner); /* gives up its shards: running jobs are delivered again by another node */
        nanosleep(&half, NULL);
    }
}

/* The name must be unique for ever: two nodes with one name would take each other's leases for their own. */
static int random_name(char name[33])
{
    unsigned char bytes[16];
    FILE *file = fopen("/dev/urandom", "rb");
    size_t i, count = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file)
        fclose(file);
    for (i = 0; i < count; i++)
        snprintf(name + 2 * i, 3, "%02x", bytes[i]);
    return count == sizeof bytes;
}

static int make(seriatim_runner **runner, seriatim_error *error)
{
    const char *url = getenv("REDIS_URL");
    seriatim_node_settings node;
    seriatim_queue_settings queue;
    char name[33];
    size_t worker;
    int status;

    memset(&node, 0, sizeof node);
    node.id = name;
    node.description = "the orders' worker in C";
    node.lease_ms = 10000;
    node.poll_ms = 1000;
    node.threads = THREADS;
    if (!random_name(name)) {
        snprintf(error->message, sizeof error->message, "/dev/urandom cannot be read");
        return SERIATIM_IO;
    }
    status = seriatim_runner_new(&node, url ? url : "redis://127.0.0.1:6379", runner, error);
    if (status != SERIATIM_OK)
        return status;
    seriatim_queue_settings_init(&queue);
    queue.name = "OrderWorker";
    queue.name_len = strlen(queue.name);
    queue.shards_count = 24;
    status =
        seriatim_runner_worker(*runner, &queue, &worker, error); /* call it once for each worker, before the start */
    if (status == SERIATIM_OK)
        status = seriatim_runner_start(*runner, error);
    if (status != SERIATIM_OK)
        seriatim_runner_free(*runner);
    return status;
}

int main(void)
{
    pthread_t threads[THREADS];
    seriatim_runner *runner;
    seriatim_error error;
    sigset_t signals;
    int i;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before any thread is started, so that only main receives them */
    if (make(&runner, &error) != SERIATIM_OK) {
        fprintf(stderr, "work: %s\n", error.message);
        return 2;
    }
    for (i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, runner) != 0)
            abort();
    serve(runner, &signals);
    for (i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    seriatim_runner_free(runner);
    return 0;
}

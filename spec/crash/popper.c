/*
 * popper.c - the crash kit's popper in C: takes single ids from shards that servers own, and journals as worker.c does.
 * It dies where it is told.
 *
 *   popper QUEUE ttr_seconds max
 *
 * REDIS_URL, JOURNAL and, for its own end, DIE ("acknowledge:3": in the third run) come by the environment. TERM ends
 * it after the run.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "journal.h"
#include "seriatim.h"

static volatile sig_atomic_t ending;

static struct popper {
    seriatim_link *link;
    const char *queue;
    char token[2048], id[256];
    seriatim_claimed
        job; /* id and fence of the run; the delivery itself is gone once the client has another operation */
    const char *die_at;
    long die_in; /* the run, from 1 */
    long runs;
} popper;

static void end(int number)
{
    (void)number;
    ending = 1;
}

static void nap(double seconds)
{
    struct timespec t;
    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}

static void step(const char *point)
{
    if (popper.die_at && popper.runs == popper.die_in && strcmp(popper.die_at, point) == 0) {
        raise(SIGKILL);
        for (;;)
            pause();
    }
}

static int drive(int status)
{
    while (status == SERIATIM_OK && (status = seriatim_link_step(popper.link)) == SERIATIM_AGAIN)
        status = seriatim_link_wait(popper.link);
    return status;
}

static void work_on(const seriatim_claimed *job)
{
    size_t i;
    for (i = 0; i < job->payload_count; i++) {
        const char *word = journal_find(job->payloads[i].data, job->payloads[i].len, "\"sleep\":");
        nap(word ? strtod(word, NULL) : 0);
    }
}

/* Every tenth run ends without an acknowledgement, and its id comes again. */
static void report(void)
{
    seriatim_popped_outcome outcome;
    seriatim_text token;
    int status;
    memset(&outcome, 0, sizeof outcome);
    outcome.kind = popper.runs % 10 ? SERIATIM_POPPED_ACK : SERIATIM_POPPED_RELEASE;
    token.data = popper.token;
    token.len = strlen(popper.token);
    status = drive(seriatim_popped_begin(seriatim_link_client(popper.link), token, &outcome));
    if (status == SERIATIM_OK || status == SERIATIM_STALE)
        journal_end(status == SERIATIM_OK ? "reported" : "refused", popper.queue, &popper.job);
    else
        fprintf(stderr, "popped: %s\n", seriatim_client_error(seriatim_link_client(popper.link))->message);
}

static void run(const seriatim_popped *popped)
{
    popper.runs++;
    snprintf(popper.token, sizeof popper.token, "%.*s", (int)popped->token.len, popped->token.data);
    popper.job.id = popper.id;
    popper.job.id_len = (size_t)snprintf(popper.id, sizeof popper.id, "%.*s", (int)popped->job.id_len, popped->job.id);
    popper.job.fence = popped->job.fence;
    step("popped");
    journal_start(popper.queue, &popped->job);
    work_on(&popped->job);
    step("perform_during");
    journal_end(popper.runs % 10 ? "end" : "fail", popper.queue, &popped->job);
    step("acknowledge");
    report();
    step("acknowledged");
}

static void pop(const seriatim_pop *settings)
{
    seriatim_client *client = seriatim_link_client(popper.link);
    int status = drive(seriatim_pop_begin(client, settings));
    if (status != SERIATIM_OK) {
        fprintf(stderr, "pop: %s\n", seriatim_client_error(client)->message);
        nap(0.1);
    } else if (seriatim_pop_result(client)) {
        run(seriatim_pop_result(client));
    }
}

static void read_die(void)
{
    static char at[32];
    const char *die = getenv("DIE"), *colon = die ? strchr(die, ':') : NULL;
    if (!colon)
        return;
    snprintf(at, sizeof at, "%.*s", (int)(colon - die), die);
    popper.die_at = at;
    popper.die_in = atol(colon + 1);
}

int main(int argc, char **argv)
{
    const char *url = getenv("REDIS_URL");
    struct sigaction action;
    seriatim_queue_settings q;
    seriatim_options options;
    seriatim_error error;
    seriatim_pop settings;
    size_t queue;
    if (argc != 4 || !url || journal_open() != 0)
        return 2;
    memset(&action, 0, sizeof action);
    action.sa_handler = end;
    sigaction(SIGTERM, &action, NULL);
    read_die();
    memset(&options, 0, sizeof options);
    seriatim_queue_settings_init(&q);
    popper.queue = argv[1];
    q.name = argv[1];
    q.name_len = strlen(argv[1]);
    q.shards_count = 0;
    if (seriatim_link_new(&options, url, &popper.link, &error) != SERIATIM_OK ||
        seriatim_client_queue(seriatim_link_client(popper.link), &q, &queue) != SERIATIM_OK)
        return 2;
    seriatim_pop_init(&settings);
    settings.queues = &queue;
    settings.queue_count = 1;
    settings.wait = 0.5;
    settings.ttr = atof(argv[2]);
    settings.max = atol(argv[3]);
    journal_popper(settings.ttr);
    fprintf(stderr, "popper start \n");
    while (!ending)
        pop(&settings);
    seriatim_link_free(popper.link);
    return 0;
}

/*
 * pop.c - `pop SECONDS [PAUSE]`: pops and acknowledges single ids of BlankWorker, with PAUSE seconds (0) behind each.
 *
 *   Without PAUSE the queue must not become empty. It says "ready" when it is connected, waits for a line, and prints
 * how many ids it has acknowledged in how many seconds. REDIS_URL.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blank.h"

static void drive(seriatim_link *link, int status)
{
    while (status == SERIATIM_OK && (status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        status = seriatim_link_wait(link);
    if (status != SERIATIM_OK)
        fail("pop", seriatim_client_error(seriatim_link_client(link))->message);
}

/* 0: nothing was due. */
static int pop_one(seriatim_link *link, const seriatim_pop *settings)
{
    seriatim_client *client = seriatim_link_client(link);
    const seriatim_popped *popped;
    seriatim_popped_outcome outcome;
    char text[2048];
    seriatim_text token;
    drive(link, seriatim_pop_begin(client, settings));
    if (!(popped = seriatim_pop_result(client)))
        return 0;
    memset(&outcome, 0, sizeof outcome);
    outcome.kind = SERIATIM_POPPED_ACK;
    token.len = popped->token.len < sizeof text ? popped->token.len : 0;
    memcpy(text, popped->token.data, token.len);
    token.data = text;
    drive(link, seriatim_popped_begin(client, token, &outcome));
    return 1;
}

static void run(seriatim_link *link, const seriatim_pop *settings, double seconds, double pause)
{
    long count = 0;
    double start = now(), took;
    while ((took = now() - start) < seconds) {
        int popped = pop_one(link, settings);
        if (!popped && pause <= 0)
            fail("pop", "nothing is left to pop");
        count += popped;
        if (pause > 0)
            nap(pause);
    }
    printf("%ld %.9f\n", count, took);
}

int main(int argc, char **argv)
{
    seriatim_queue_settings queue = blank_queue();
    seriatim_pop settings;
    seriatim_link *link;
    seriatim_error error;
    size_t number;
    char line[8];
    if (argc < 2) {
        fprintf(stderr, "pop SECONDS [PAUSE]\n");
        return 2;
    }
    queue.shards_count = 0;
    if (seriatim_link_new(NULL, redis_url(), &link, &error) != SERIATIM_OK)
        fail("link", error.message);
    if (seriatim_client_queue(seriatim_link_client(link), &queue, &number) != SERIATIM_OK)
        fail("queue", seriatim_client_error(seriatim_link_client(link))->message);
    seriatim_pop_init(&settings);
    settings.queues = &number;
    settings.queue_count = 1;
    settings.wait = 0;
    pop_one(link, &settings);
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    run(link, &settings, atof(argv[1]), argc > 2 ? atof(argv[2]) : 0);
    seriatim_link_free(link);
    return 0;
}

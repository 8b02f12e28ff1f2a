/*
 * producer.c - the crash kit's producer in C: pushes numbers 1..count to each of its ids, one by one, and notes each
 * push that returned.
 *
 *   producer QUEUE shards fold count pause_seconds ID...          REDIS_URL and JOURNAL come by the environment
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "journal.h"
#include "seriatim.h"

static void nap(double seconds)
{
    struct timespec t;
    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}

static int push(seriatim_link *link, size_t queue, const char *id, long number)
{
    seriatim_client *client = seriatim_link_client(link);
    seriatim_job job;
    char payload[64];
    int status;
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = strlen(id);
    job.payload = payload;
    job.payload_len = (size_t)snprintf(payload, sizeof payload, "{\"n\":%ld}", number);
    status = seriatim_push_begin(client, queue);
    if (status == SERIATIM_OK)
        status = seriatim_push_timeout(client, 50); /* outlasts the kit's faults */
    if (status == SERIATIM_OK)
        status = seriatim_push_job(client, &job);
    if (status == SERIATIM_OK)
        status = seriatim_push_send(client);
    while (status == SERIATIM_OK && (status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        status = seriatim_link_wait(link);
    if (status != SERIATIM_OK)
        fprintf(stderr, "%s %ld: %s\n", id, number, seriatim_client_error(client)->message);
    return status;
}

int main(int argc, char **argv)
{
    const char *url = getenv("REDIS_URL");
    seriatim_queue_settings q;
    seriatim_options options;
    seriatim_link *link;
    seriatim_error error;
    size_t queue;
    long number;
    int at;
    if (argc < 7 || !url || journal_open() != 0)
        return 2;
    memset(&options, 0, sizeof options);
    seriatim_queue_settings_init(&q);
    q.name = argv[1];
    q.name_len = strlen(argv[1]);
    q.shards_count = atol(argv[2]);
    q.fold = argv[3];
    if (seriatim_link_new(&options, url, &link, &error) != SERIATIM_OK ||
        seriatim_client_queue(seriatim_link_client(link), &q, &queue) != SERIATIM_OK)
        return 2;
    for (number = 1; number <= atol(argv[4]); number++) {
        for (at = 6; at < argc; at++) {
            if (push(link, queue, argv[at], number) != SERIATIM_OK)
                return 1;
            journal_pushed(argv[1], argv[at], number);
        }
        nap(atof(argv[5]));
    }
    seriatim_link_free(link);
    return 0;
}

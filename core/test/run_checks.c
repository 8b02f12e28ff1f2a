/* run_checks.c - see run_checks.h. */
#include "run_checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    struct {
        int sent[CHECKED_CLIENTS], ran[CHECKED_CLIENTS]; /* the last payload of each client */
        int64_t fence;
        int runs;
    } ids[CHECKED_IDS];
    unsigned runs;
    char violation[300];
} seen;

void checks_begin(void)
{
    memset(&seen, 0, sizeof seen);
}

void checks_violated(const char *format, ...)
{
    va_list args;
    if (seen.violation[0])
        return;
    va_start(args, format);
    vsnprintf(seen.violation, sizeof seen.violation, format, args);
    va_end(args);
}

const char *checks_violation(void)
{
    return seen.violation;
}

int checks_next_payload(int id, int client)
{
    return ++seen.ids[id].sent[client];
}

static int number_of(const seriatim_claimed *job)
{
    return atoi(job->id + strlen("id-")) % CHECKED_IDS;
}

static void check_payload(int id, const seriatim_payload *given)
{
    char text[32];
    int client = 0, payload = 0, *ran;
    snprintf(text, sizeof text, "%.*s", (int)given->len, given->data);
    if (sscanf(text, "%d.%d", &client, &payload) != 2 || client < 0 || client >= CHECKED_CLIENTS) {
        checks_violated("%s was never pushed", text);
        return;
    }
    ran = &seen.ids[id].ran[client];
    if (payload != *ran + 1)
        checks_violated("payload %s of id-%d runs behind %d.%d", text, id, client, *ran);
    *ran = payload;
}

void checks_begin_run(const seriatim_claimed *job)
{
    int id = number_of(job);
    size_t i;
    seen.runs++;
    if (seen.ids[id].runs)
        checks_violated("id-%d runs twice at once", id);
    if (job->fence <= seen.ids[id].fence)
        checks_violated("the fence of id-%d falls", id);
    seen.ids[id].fence = job->fence;
    seen.ids[id].runs = 1;
    for (i = 0; i < job->payload_count; i++)
        check_payload(id, &job->payloads[i]);
}

void checks_end_run(const seriatim_claimed *job)
{
    seen.ids[number_of(job)].runs = 0;
}

int checks_left(void)
{
    int id, client, left = 0;
    for (id = 0; id < CHECKED_IDS; id++)
        for (client = 0; client < CHECKED_CLIENTS; client++)
            left += seen.ids[id].sent[client] - seen.ids[id].ran[client];
    return left;
}

unsigned checks_runs(void)
{
    return seen.runs;
}

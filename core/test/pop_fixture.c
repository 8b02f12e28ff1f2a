/* pop_fixture.c - pops ids and settles what was popped. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "pop_fixture.h"

static void keep(popped *kept, const seriatim_popped *p)
{
    size_t i;
    memset(kept, 0, sizeof *kept);
    snprintf(kept->id, sizeof kept->id, "%.*s", (int)p->job.id_len, p->job.id);
    snprintf(kept->token, sizeof kept->token, "%.*s", (int)p->token.len, p->token.data ? p->token.data : "");
    for (i = 0; i < p->job.payload_count && strlen(kept->payloads) < 400; i++) {
        strcat(kept->payloads, i ? "," : "");
        strncat(kept->payloads, p->job.payloads[i].data, p->job.payloads[i].len < 64 ? p->job.payloads[i].len : 64);
    }
    kept->queue = p->queue;
    kept->fence = p->job.fence;
    kept->deliveries = p->deliveries;
    kept->retry_count = p->job.retry_count;
    kept->more = p->more;
    kept->count = p->job.payload_count;
    kept->last = p->job.payloads[p->job.payload_count - 1];
}

const char *end_pop(const fixture *f, popped *kept)
{
    static popped unkept;
    const seriatim_popped *p;
    done(f, SERIATIM_OK);
    p = seriatim_pop_result(f->client);
    if (!p)
        return "-";
    kept = kept ? kept : &unkept;
    keep(kept, p);
    return kept->id;
}

const char *pop_as(const fixture *f, const seriatim_pop *pop, popped *kept)
{
    done(f, seriatim_pop_begin(f->client, pop));
    return end_pop(f, kept);
}

seriatim_pop plainly(const fixture *f, double ttr)
{
    seriatim_pop pop;
    seriatim_pop_init(&pop);
    pop.queues = &f->queue;
    pop.queue_count = 1;
    pop.wait = 0;
    pop.ttr = ttr;
    return pop;
}

const char *pop(const fixture *f, double ttr, popped *kept)
{
    seriatim_pop settings = plainly(f, ttr);
    return pop_as(f, &settings, kept);
}

int say(const fixture *f, const popped *p, seriatim_popped_outcome outcome)
{
    int status = seriatim_popped_begin(f->client, text(p->token), &outcome);
    return status == SERIATIM_OK ? drive(f->link) : status;
}

int say_plain(const fixture *f, const popped *p, int kind)
{
    seriatim_popped_outcome outcome = {0, 0, {NULL, 0}, NULL, 0};
    outcome.kind = kind;
    return say(f, p, outcome);
}

int say_seconds(const fixture *f, const popped *p, int kind, double seconds, const char *words)
{
    seriatim_popped_outcome outcome = {0, 0, {NULL, 0}, NULL, 0};
    outcome.kind = kind;
    outcome.seconds = seconds;
    outcome.text = text(words);
    return say(f, p, outcome);
}

int ack(const fixture *f, const popped *p)
{
    return say_plain(f, p, SERIATIM_POPPED_ACK);
}

int checkpoint(const fixture *f, const popped *p, size_t count)
{
    seriatim_popped_outcome outcome = {SERIATIM_POPPED_CHECKPOINT, 0, {NULL, 0}, NULL, 0};
    outcome.payload_count = count;
    return say(f, p, outcome);
}

void assert_sound(const fixture *f)
{
    assert_string_equal(kinds_found(f, f->queue, 0), "");
}

void expire(const popped *p)
{
    pause_ms(60);
    (void)p;
}

void pass_a_while(void)
{
    pause_ms((long)(A_WHILE * 1000) + 10);
}

/* test_pop.c - poppers, alone and beside a server, against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "base/system.h"
#include "client/client.h"
#include "operators.h"

/* ---- A popper -------------------------------------------------------------------------------- */

/* What was popped last, kept beyond the client's next operation. */
typedef struct popped {
    char id[64], payloads[512], token[512];
    size_t queue;
    int64_t fence, deliveries, retry_count;
    int more;
    size_t count;
    seriatim_payload last;
} popped;

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

/* Returns the id, or "-": nothing was due. */
static const char *pop_as(const fixture *f, const seriatim_pop *pop, popped *kept)
{
    static popped unkept;
    const seriatim_popped *p;
    done(f, seriatim_pop_begin(f->client, pop));
    p = seriatim_pop_result(f->client);
    if (!p)
        return "-";
    kept = kept ? kept : &unkept;
    keep(kept, p);
    return kept->id;
}

static seriatim_pop plainly(const fixture *f, double ttr)
{
    seriatim_pop pop;
    seriatim_pop_init(&pop);
    pop.queues = &f->queue;
    pop.queue_count = 1;
    pop.wait = 0;
    pop.ttr = ttr;
    return pop;
}

static const char *pop(const fixture *f, double ttr, popped *kept)
{
    seriatim_pop settings = plainly(f, ttr);
    return pop_as(f, &settings, kept);
}

static int say(const fixture *f, const popped *p, seriatim_popped_outcome outcome)
{
    int status = seriatim_popped_begin(f->client, text(p->token), &outcome);
    return status == SERIATIM_OK ? drive(f->link) : status;
}

static int say_plain(const fixture *f, const popped *p, int kind)
{
    seriatim_popped_outcome outcome = {0, 0, {NULL, 0}, NULL, 0};
    outcome.kind = kind;
    return say(f, p, outcome);
}

static int say_seconds(const fixture *f, const popped *p, int kind, double seconds, const char *words)
{
    seriatim_popped_outcome outcome = {0, 0, {NULL, 0}, NULL, 0};
    outcome.kind = kind;
    outcome.seconds = seconds;
    outcome.text = text(words);
    return say(f, p, outcome);
}

static int ack(const fixture *f, const popped *p)
{
    return say_plain(f, p, SERIATIM_POPPED_ACK);
}

static void assert_sound(const fixture *f)
{
    assert_string_equal(kinds_found(f, f->queue, 0), "");
}

/* Waits until the time of a run is over. */
static void expire(const popped *p)
{
    pause_ms(60);
    (void)p;
}
#define SHORT 0.05 /* seconds: a ttr that `expire` waits for */

/* ---- Taking and ending ------------------------------------------------------------------------ */

static void test_r_pop_1_ids_come_in_order_and_are_gone_when_acknowledged(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    char id[16];
    int i;
    (void)state;
    for (i = 1; i <= 20; i++) {
        snprintf(id, sizeof id, "%d", i);
        push(&f, id, "x", none);
    }
    for (i = 1; i <= 20; i++) {
        snprintf(id, sizeof id, "%d", i);
        assert_string_equal(pop(&f, 30, &p), id);
        assert_int_equal(p.deliveries, 1);
        assert_sound(&f);
        assert_int_equal(ack(&f, &p), SERIATIM_OK);
    }
    assert_string_equal(pop(&f, 30, &p), "-");
    assert_int_equal(metrics(&f).processed, 20);
    assert_int_equal(metrics(&f).busy, 0);
    assert_int_equal(number("EXISTS " PREFIX "running"), 0);
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_1_an_id_is_popped_once_while_it_runs(void **state)
{
    fixture f = open_queue(3, "list");
    popped p;
    (void)state;
    push(&f, "a", "1", none);
    push(&f, "a", "2", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(p.payloads, "1,2");
    push(&f, "a", "3", none);
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(p.payloads, "3");
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_2_a_late_acknowledgement_is_stale(void **state)
{
    fixture f = open_queue(1, "merge"), other = another(1, "merge");
    popped a, b;
    (void)state;
    push(&f, "a", "x", none);
    assert_string_equal(pop(&f, SHORT, &a), "a");
    expire(&a);
    assert_int_equal(ack(&f, &a), SERIATIM_STALE); /* nobody has looked yet: it is late nevertheless */
    assert_string_equal(pop(&other, 30, &b), "a");
    assert_int_equal(b.deliveries, 2);
    assert_int_equal(b.retry_count, 0);
    assert_true(b.fence > a.fence);
    assert_int_equal(ack(&f, &a), SERIATIM_STALE);
    assert_int_equal(say_plain(&f, &a, SERIATIM_POPPED_RELEASE), SERIATIM_STALE);
    assert_int_equal(say_seconds(&f, &a, SERIATIM_POPPED_EXTEND, 9, NULL), SERIATIM_STALE);
    assert_int_equal(metrics(&f).busy, 1);
    assert_int_equal(ack(&other, &b), SERIATIM_OK);
    assert_int_equal(ack(&other, &b), SERIATIM_STALE);
    assert_int_equal(metrics(&f).processed, 1);
    assert_int_equal(metrics(&f).failed, 1);
    assert_string_equal(pop(&f, 30, NULL), "-");
    close_queue(&other);
    close_queue(&f);
}

static void test_r_pop_4_a_failure_waits_and_the_limit_buries(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    int i;
    (void)state;
    push(&f, "a", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_FAIL, -1, "boom"), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_true(fetch(&f, SERIATIM_FETCH, "a")->perform_in > metrics(&f).now + 10);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "a")->state, "retrying");
    for (i = 1; i <= 25; i++) {
        act(&f, SERIATIM_PERFORM_ALL_JOBS_NOW);
        assert_string_equal(pop(&f, 30, &p), "a");
        assert_int_equal(p.deliveries, i + 1);
        assert_int_equal(p.retry_count, i - 1);
        assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_FAIL, 5, "boom"), SERIATIM_OK);
    }
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "-");
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "a"), "x");
    assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "a")->error_len, 4);
    act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "a");
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(p.deliveries, 1);
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_3_what_is_not_acknowledged_has_failed(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_record *dead;
    popped p;
    int i;
    (void)state;
    push(&f, "a", "x", none);
    for (i = 0; i < 26; i++) {
        assert_string_equal(pop(&f, SHORT, &p), "a");
        assert_int_equal(p.deliveries, i + 1);
        expire(&p);
    }
    assert_string_equal(pop(&f, 30, NULL), "-");
    dead = fetch(&f, SERIATIM_MORGUE_FETCH, "a");
    assert_non_null(dead);
    assert_memory_equal(dead->error, "not acknowledged within 0.05 s", dead->error_len);
    assert_int_equal(metrics(&f).failed, 26);
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_4_release_and_snooze_count_no_failure(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(say_plain(&f, &p, SERIATIM_POPPED_RELEASE), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(p.deliveries, 2);
    assert_int_equal(p.retry_count, -1);
    assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_SNOOZE, 0.02, "y"), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, NULL), "-");
    pause_ms(30);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(p.payloads, "y");
    assert_int_equal(p.deliveries, 3);
    assert_int_equal(metrics(&f).failed, 0);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_3_extend_keeps_a_delivery(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    assert_string_equal(pop(&f, SHORT, &p), "a");
    assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_EXTEND, 30, NULL), SERIATIM_OK);
    expire(&p);
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_int_equal(metrics(&f).failed, 0);
    close_queue(&f);
}

static void test_r_pop_5_without_ttr_an_id_is_gone_at_once(void **state)
{
    fixture f = open_queue(1, "list");
    seriatim_pop first = plainly(&f, 0);
    popped p;
    (void)state;
    push_many(&f, "a", 0, 5);
    first.max = 2;
    assert_string_equal(pop_as(&f, &first, &p), "a");
    assert_string_equal(p.payloads, "p0,p1");
    assert_string_equal(p.token, "");
    assert_sound(&f);
    assert_string_equal(pop(&f, 0, &p), "a");
    assert_string_equal(p.payloads, "p2,p3,p4");
    assert_string_equal(pop(&f, 0, NULL), "-");
    assert_int_equal(number("EXISTS " PREFIX "jobs " PREFIX "running " PREFIX "overrun"), 0);
    assert_int_equal(metrics(&f).processed, 2);
    close_queue(&f);
}

static void test_r_pop_6_a_delivery_has_at_most_max_payloads(void **state)
{
    fixture f = open_queue(1, "list");
    seriatim_pop some = plainly(&f, 30);
    popped p;
    (void)state;
    push_many(&f, "a", 0, 900);
    some.max = 400;
    assert_string_equal(pop_as(&f, &some, &p), "a");
    assert_true(p.more);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_sound(&f);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "a")->payload_total, 500);
    some.max = 500;
    assert_string_equal(pop_as(&f, &some, &p), "a");
    assert_memory_equal(p.payloads, "p400,p401,", 10);
    assert_int_equal(p.deliveries, 1);
    assert_false(p.more);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "-");
    assert_int_equal(number("EXISTS " PREFIX "spill:a " PREFIX "spillmap:a"), 0);
    assert_sound(&f);
    close_queue(&f);
}

static int checkpoint(const fixture *f, const popped *p, size_t count)
{
    seriatim_popped_outcome outcome = {SERIATIM_POPPED_CHECKPOINT, 0, {NULL, 0}, NULL, 0};
    outcome.payload_count = count;
    return say(f, p, outcome);
}

/* A delivery is read in several calls, and a checkpoint is sent in several. */
static void test_r_pop_15_a_checkpoint_of_many_payloads_counts_from_the_delivery(void **state)
{
    fixture f = open_queue(1, "list");
    seriatim_pop some = plainly(&f, 30);
    popped p;
    (void)state;
    push_many(&f, "a", 0, 900);
    some.max = 700;
    assert_string_equal(pop_as(&f, &some, &p), "a");
    assert_true(p.more);
    assert_int_equal(checkpoint(&f, &p, 100), SERIATIM_OK);
    assert_int_equal(checkpoint(&f, &p, 650), SERIATIM_OK);
    assert_int_equal(checkpoint(&f, &p, 300), SERIATIM_OK);
    assert_int_equal(number("ZCARD " PREFIX "spill:a"), 250);
    assert_int_equal(checkpoint(&f, &p, 700), SERIATIM_OK);
    assert_int_equal(checkpoint(&f, &p, 700), SERIATIM_OK);
    assert_sound(&f);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_memory_equal(p.payloads, "p700,p701,", 10);
    assert_int_equal(checkpoint(&f, &p, 1), SERIATIM_OK);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_int_equal(checkpoint(&f, &p, 2), SERIATIM_STALE);
    assert_int_equal(number("EXISTS " PREFIX "jobs " PREFIX "spill:a " PREFIX "spillmap:a"), 0);
    close_queue(&f);
}

/* So does what a pop without a time to run takes. */
static void test_r_pop_6_a_delivery_ends_at_one_mebibyte(void **state)
{
    static char large[300001];
    fixture f = open_queue(1, "list");
    popped p;
    int i;
    (void)state;
    memset(large, 'x', sizeof large - 1);
    for (i = 0; i < 7; i++)
        push(&f, "a", large, none);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_true(p.more);
    assert_int_equal(p.count, 3);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "a")->payload_total, 4);
    assert_string_equal(pop(&f, 0, &p), "a");
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "a")->payload_total, 4 - (int)p.count);
    assert_sound(&f);
    close_queue(&f);
}

/* ---- Scores that are remembered ----------------------------------------------------------------- */

static fixture open_scored(void)
{
    fixture f = open_queue(1, "list");
    seriatim_queue_settings settings;
    seriatim_queue_settings_init(&settings);
    settings.name = "S";
    settings.name_len = 1;
    settings.shards_count = 1;
    settings.fold = "list";
    settings.remember_score = 600;
    assert_int_equal(seriatim_client_queue(f.client, &settings, &f.queue), SERIATIM_OK);
    return f;
}

/* Pushes a payload with a score, its text. Returns how many were stale: 0 or 1. */
static size_t push_scored(const fixture *f, const char *score)
{
    push_options options = none;
    options.score = atof(score);
    push(f, "a", score, options);
    return seriatim_push_result(f->client).stale;
}

static void test_r_pop_18_an_acknowledgement_remembers_the_score(void **state)
{
    fixture f = open_scored();
    popped p;
    (void)state;
    assert_int_equal(push_scored(&f, "5"), 0);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(push_scored(&f, "4"), 0);
    assert_int_equal(push_scored(&f, "6"), 0);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_int_equal(push_scored(&f, "5"), 1);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(p.payloads, "6");
    assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_FAIL, 0, "boom"), SERIATIM_OK);
    assert_int_equal(push_scored(&f, "6"), 0);
    assert_string_equal(pop(&f, 0, &p), "a");
    assert_string_equal(p.payloads, "6,6");
    assert_int_equal(push_scored(&f, "6"), 1);
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_18_a_checkpoint_remembers_the_score(void **state)
{
    fixture f = open_scored();
    popped p;
    (void)state;
    assert_int_equal(push_scored(&f, "1"), 0);
    assert_int_equal(push_scored(&f, "2"), 0);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(checkpoint(&f, &p, 1), SERIATIM_OK);
    assert_int_equal(push_scored(&f, "1"), 1);
    assert_int_equal(push_scored(&f, "2"), 0);
    assert_int_equal(say_plain(&f, &p, SERIATIM_POPPED_RELEASE), SERIATIM_OK);
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_15_a_checkpoint_stands_when_the_rest_fails(void **state)
{
    fixture f = open_queue(1, "list");
    popped p;
    (void)state;
    push_many(&f, "a", 0, 3);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(checkpoint(&f, &p, 1), SERIATIM_OK);
    assert_int_equal(checkpoint(&f, &p, 1), SERIATIM_OK);
    assert_int_equal(checkpoint(&f, &p, 0), SERIATIM_OK);
    assert_int_equal(checkpoint(&f, &p, 4), SERIATIM_INVALID);
    assert_string_equal(seriatim_client_error(f.client)->message, "the delivery has only 3 payloads");
    assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_FAIL, 0, "boom"), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(p.payloads, "p1,p2");
    assert_int_equal(p.deliveries, 1);
    assert_int_equal(p.retry_count, 0);
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_16_payloads_that_cannot_be_read_go_to_the_morgue(void **state)
{
    fixture f = open_queue(1, "list");
    seriatim_popped_outcome outcome = {SERIATIM_POPPED_REJECT, 0, {"no json", 7}, NULL, 1};
    popped p;
    (void)state;
    push_many(&f, "a", 0, 3);
    assert_string_equal(pop(&f, 30, &p), "a");
    outcome.payloads = &p.last;
    assert_int_equal(say(&f, &p, outcome), SERIATIM_OK);
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "a"), "p2");
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(p.payloads, "p0,p1");
    close_queue(&f);
}

/* The record is not read whole, but as far as the delivery went. */
static void test_r_pop_16_the_last_of_many_payloads_goes_to_the_morgue(void **state)
{
    fixture f = open_queue(1, "list");
    seriatim_popped_outcome outcome = {SERIATIM_POPPED_REJECT, 0, {"no json", 7}, NULL, 1};
    popped p;
    (void)state;
    push_many(&f, "a", 0, 1100);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(p.count, 1000);
    outcome.payloads = &p.last;
    assert_int_equal(say(&f, &p, outcome), SERIATIM_OK);
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "a"), "p999");
    assert_int_equal(metrics(&f).failed, 0);
    assert_int_equal(number("ZCARD " PREFIX "spill:a"), 1099);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_sound(&f);
    close_queue(&f);
}

/* It would be popped at once again, without end. */
static void test_r_pop_16_a_report_without_a_known_payload_is_a_failure(void **state)
{
    fixture f = open_queue(1, "list");
    seriatim_popped_outcome outcome = {SERIATIM_POPPED_REJECT, 0, {"no json", 7}, NULL, 1};
    popped p;
    (void)state;
    push_many(&f, "a", 0, 3);
    assert_string_equal(pop(&f, 30, &p), "a");
    p.last.stamp += 1000000;
    outcome.payloads = &p.last;
    assert_int_equal(say(&f, &p, outcome), SERIATIM_OK);
    assert_int_equal(metrics(&f).failed, 1);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "a")->retry_count, 0);
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_16_a_record_that_cannot_be_read_stalls_nothing(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    REDIS("EVAL %s 1 " PREFIX "jobs", "redis.call('HSET', KEYS[1], 'a', '\\8' .. string.rep('\\0', 12))");
    assert_string_equal(pop(&f, 30, NULL), "b");
    assert_non_null(fetch(&f, SERIATIM_MORGUE_FETCH, "a"));
    assert_sound(&f);
    close_queue(&f);
}

/* ---- Who takes what --------------------------------------------------------------------------- */

static void test_r_pop_7_the_queues_go_in_the_order_named(void **state)
{
    fixture f = open_queue(2, "merge");
    size_t queues[3];
    char got[64] = "";
    seriatim_pop all = plainly(&f, 30);
    int i;
    popped p;
    (void)state;
    queues[0] = f.queue;
    queues[1] = add_queue(f.client, "R", 1, 2, "merge");
    queues[2] = add_queue(f.client, "never made", 10, 0, "merge");
    all.queues = queues;
    all.queue_count = 3;
    f.queue = queues[1];
    push(&f, "r1", "x", none);
    push(&f, "r2", "x", none);
    f.queue = queues[0];
    push(&f, "q1", "x", none);
    push(&f, "q2", "x", none);
    for (i = 0; i < 4; i++) {
        strcat(got, pop_as(&f, &all, &p));
        got[i + 1] = '\0';
        assert_int_equal(p.queue, queues[i / 2]);
    }
    assert_string_equal(got, "qqrr");
    assert_string_equal(pop_as(&f, &all, NULL), "-");
    close_queue(&f);
}

static void push_to(fixture *f, size_t queue, const char *prefix, int count)
{
    char id[16];
    size_t before = f->queue;
    int i;
    f->queue = queue;
    for (i = 0; i < count; i++) {
        snprintf(id, sizeof id, "%s%d", prefix, i);
        push(f, id, "x", none);
    }
    f->queue = before;
}

/* Clients that each pop once, as a command does, take ids of more shards than the first. */
static void test_r_pop_7_new_clients_begin_at_different_shards(void **state)
{
    fixture f = open_queue(2, "merge");
    unsigned from[2] = {0, 0};
    int i;
    (void)state;
    push_to(&f, f.queue, "a", 200);
    for (i = 0; i < 40 && (!from[0] || !from[1]); i++) {
        fixture once = another(0, "merge");
        popped p;
        assert_string_not_equal(pop(&once, 0, &p), "-");
        from[seriatim_shard_of(p.id, strlen(p.id), 2)]++;
        seriatim_link_free(once.link);
    }
    assert_true(from[0] && from[1]);
    close_queue(&f);
}

static void test_r_pop_8_queues_with_weights_take_turns(void **state)
{
    static const int64_t weights[] = {5, 1, 1};
    fixture f = open_queue(1, "merge");
    size_t queues[3];
    char got[64] = "";
    seriatim_pop all = plainly(&f, 0);
    int i;
    (void)state;
    queues[0] = f.queue;
    queues[1] = add_queue(f.client, "B", 1, 1, "merge");
    queues[2] = add_queue(f.client, "C", 1, 1, "merge");
    all.queues = queues;
    all.queue_count = 3;
    all.weights = weights;
    push_to(&f, queues[0], "a", 5);
    push_to(&f, queues[1], "b", 3);
    push_to(&f, queues[2], "c", 3);
    for (i = 0; i < 11; i++)
        strncat(got, pop_as(&f, &all, NULL), 1);
    assert_string_equal(got, "aabacaabcbc"); /* smooth: 5, 1, 1; then the empty one passes its turn */
    close_queue(&f);
}

static void test_r_pop_7_the_oldest_due_id_of_a_shard_comes_first(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push_later(&f, "later", "x", 0.5);
    push(&f, "now", "x", none);
    push_failed(&f, "retry", "x", 3, 0.001);
    push_later(&f, "never", "x", 3600);
    pause_ms(510);
    push(&f, "last", "x", none);
    assert_string_equal(pop(&f, 30, NULL), "now");
    assert_string_equal(pop(&f, 30, NULL), "retry");
    assert_string_equal(pop(&f, 30, NULL), "later");
    assert_string_equal(pop(&f, 30, NULL), "last");
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_1_stale_entries_are_passed_over(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    int i;
    (void)state;
    for (i = 0; i < 40; i++) {
        push(&f, "a", "x", none);
        act_on(&f, SERIATIM_DELETE, "a");
    }
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(pop(&f, 30, NULL), "b");
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_9_a_paused_queue_gives_nothing(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    act(&f, SERIATIM_PAUSE);
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    act(&f, SERIATIM_RESUME);
    assert_string_equal(pop(&f, 30, NULL), "b");
    close_queue(&f);
}

static void test_r_pop_17_operators_act_on_a_popped_id_as_on_any_run(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_non_null(strstr(explain(&f, "a")->text, "popped"));
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "a"), 1);
    push(&f, "a", "y", none);
    assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_FAIL, 0, "boom"), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(p.payloads, "y");
    assert_int_equal(act_on(&f, SERIATIM_PARK, "a"), 1);
    assert_int_equal(say_plain(&f, &p, SERIATIM_POPPED_RELEASE), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "a")->state, "parked");
    assert_sound(&f);
    close_queue(&f);
}

static void test_scheduled_payloads_arrive_by_a_pop(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_job job;
    popped p;
    (void)state;
    seriatim_job_init(&job);
    job.id = "a";
    job.id_len = 1;
    job.payload = "x";
    job.payload_len = 1;
    job.deliver_when = SERIATIM_DELAY;
    job.deliver_time = 0.05;
    done(&f, seriatim_push_begin(f.client, f.queue));
    done(&f, seriatim_push_job(f.client, &job));
    done(&f, seriatim_push_send(f.client));
    assert_string_equal(pop(&f, 30, NULL), "-");
    pause_ms(60);
    assert_string_equal(pop(&f, 30, &p), "a");
    close_queue(&f);
}

/* ---- Beside a server -------------------------------------------------------------------------- */

static void test_r_pop_10_a_server_and_a_popper_share_a_shard(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    push(&f, "c", "x", none);
    acquire(&f, "n1");
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(claim(&f, "1", run), 1);
    assert_string_equal(explain(&f, "b")->job.state, "running");
    assert_string_equal(pop(&f, 30, NULL), "c");
    assert_string_equal(pop(&f, 30, NULL), "-");
    settle_done(&f, "b", run);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_int_equal(metrics(&f).processed, 2);
    assert_int_equal(metrics(&f).refused, 0);
    assert_sound(&f);
    close_queue(&f);
}

/* The lease of the owner, its death, and its release leave a popper alone. */
static void test_r_pop_10_a_change_of_owner_leaves_a_popped_id_alone(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    redisReply *reply;
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    acquire(&f, "n1");
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(claim(&f, "5", NULL), 1);
    take_over(&f, "n2");
    assert_string_equal(explain(&f, "a")->job.state, "running");
    assert_string_equal(explain(&f, "b")->job.state, "unproven");
    freeReplyObject(SCRIPT(acquire, "n2", "merge", "", "0")); /* it keeps the shard: KEPT */
    assert_sound(&f);
    assert_string_equal(pop(&f, 30, NULL), "b"); /* in doubt: popped as others are */
    reply = SCRIPT(acquire, "n2", "merge", "", "0");
    strcpy(f.lease, reply->element[1]->str);
    freeReplyObject(reply);
    reply = SCRIPT(release, f.lease, "");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_int_equal(metrics(&f).busy, 1);
    assert_sound(&f);
    close_queue(&f);
}

/* Payloads that are many on both sides are united in several calls. */
static void test_r_pop_10_an_id_unites_though_the_owner_of_its_shard_is_dead(void **state)
{
    fixture f = open_queue(1, "list");
    popped p;
    (void)state;
    push_many(&f, "a", 0, 400);
    assert_string_equal(pop(&f, 30, &p), "a");
    push_many(&f, "a", 400, 400);
    assert_true(number("APPEND " PREFIX "state dead") > 4);
    assert_int_equal(say_plain(&f, &p, SERIATIM_POPPED_RELEASE), SERIATIM_OK);
    assert_int_equal(number("ZCARD " PREFIX "uniting"), 1);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(number("ZCARD " PREFIX "spill:a"), 800);
    assert_sound(&f);
    close_queue(&f);
}

/* A node takes its shard once more. Is it told to call recover.lua? */
static int keeps_unfinished(fixture *f, const char *node)
{
    redisReply *reply = SCRIPT(acquire, node, "merge", "", "0");
    int unfinished = (int)reply->element[4]->integer;
    assert_string_equal(reply->element[0]->str, "KEPT");
    strcpy(f->lease, reply->element[1]->str);
    freeReplyObject(reply);
    return unfinished;
}

/* One flag says both: that ids are uniting, and that the runs of the owner before are still to be looked at. */
static void test_r_pop_10_a_pop_that_unites_ids_leaves_the_runs_of_a_dead_owner(void **state)
{
    fixture f = open_queue(1, "list");
    redisReply *reply;
    char run[64];
    popped p;
    (void)state;
    push(&f, "b", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "a", 0, 400);
    assert_string_equal(pop(&f, 30, &p), "a");
    push_many(&f, "a", 400, 400);
    reply = SCRIPT(acquire, "n2", "merge", "n1", f.lease);
    strcpy(f.lease, reply->element[1]->str);
    freeReplyObject(reply);
    assert_int_equal(say_plain(&f, &p, SERIATIM_POPPED_RELEASE), SERIATIM_OK);
    assert_int_equal(number("ZCARD " PREFIX "uniting"), 1);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(number("ZCARD " PREFIX "uniting"), 0);
    assert_true(keeps_unfinished(&f, "n2"));
    recover_all(&f);
    assert_false(keeps_unfinished(&f, "n2"));
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "b")->state, "unproven");
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_11_a_claim_ends_what_a_popper_did_not_acknowledge(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    assert_string_equal(pop(&f, SHORT, &p), "a");
    assert_int_equal(claim(&f, "5", NULL), 0);
    expire(&p);
    assert_int_equal(claim(&f, "5", run), 1);
    assert_int_equal(ack(&f, &p), SERIATIM_STALE);
    settle_done(&f, "a", run);
    assert_int_equal(metrics(&f).processed, 1);
    assert_int_equal(metrics(&f).failed, 1);
    assert_sound(&f);
    close_queue(&f);
}

static void test_check_repairs_a_popped_id_without_an_end(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push(&f, "a", "x", none);
    assert_string_equal(pop(&f, 30, NULL), "a");
    REDIS("DEL " PREFIX "overrun");
    assert_string_equal(kinds_found(&f, f.queue, 1), "index state");
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    assert_string_equal(pop(&f, 30, NULL), "a");
    close_queue(&f);
}

static fixture open_serial(void)
{
    fixture f = open_queue(1, "merge");
    seriatim_queue_settings settings;
    seriatim_queue_settings_init(&settings);
    settings.name = "Q";
    settings.name_len = 1;
    settings.shards_count = 1;
    settings.serial_shards = 1;
    done(&f, seriatim_client_queue(f.client, &settings, &f.queue));
    return f;
}

static void test_r_pop_12_a_serial_shard_runs_one_id_at_a_time(void **state)
{
    fixture f = open_serial();
    popped p;
    char run[64];
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(pop(&f, 30, NULL), "-");
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "5", NULL), 0);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_int_equal(claim(&f, "1", run), 1);
    assert_string_equal(pop(&f, 30, NULL), "-");
    settle_done(&f, "b", run);
    close_queue(&f);
}

/* A repair removes the run; the state of the shard still says that a popper runs an id alone. */
static void test_r_pop_12_a_popped_run_that_is_gone_holds_up_no_serial_shard(void **state)
{
    fixture f = open_serial();
    char run[64];
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    push(&f, "c", "x", none);
    acquire(&f, "n1");
    assert_string_equal(pop(&f, 30, NULL), "a");
    REDIS("HDEL " PREFIX "jobs a");
    assert_string_equal(kinds_found(&f, f.queue, 1), "run");
    assert_int_equal(claim(&f, "1", run), 1);
    settle_done(&f, "b", run);
    assert_string_equal(pop(&f, 30, NULL), "c");
    assert_int_equal(claim(&f, "1", run), 0);
    close_queue(&f);
}

/* ---- Waiting ---------------------------------------------------------------------------------- */

typedef struct waiter {
    pthread_t thread;
    double wait, waited;
    char id[64];
    int status;
} waiter;

static void *wait_for_one(void *argument)
{
    waiter *w = argument;
    fixture f = another(0, "merge");
    seriatim_pop settings = plainly(&f, 30);
    const seriatim_popped *p;
    int64_t began = srt_clock_ms();
    settings.wait = w->wait;
    w->status = seriatim_pop_begin(f.client, &settings);
    if (w->status == SERIATIM_OK)
        w->status = drive(f.link);
    p = seriatim_pop_result(f.client);
    snprintf(w->id, sizeof w->id, "%.*s", p ? (int)p->job.id_len : 1, p ? p->job.id : "-");
    w->waited = (double)(srt_clock_ms() - began) / 1000;
    seriatim_link_free(f.link);
    return NULL;
}

static void begin_waiting(waiter *w, double wait)
{
    memset(w, 0, sizeof *w);
    w->wait = wait;
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_one, w), 0);
}

/* Until so many connections listen to the channel of shard 0. */
static void await_listeners(int count)
{
    redisReply *reply;
    long long there = -1;
    int tries;
    for (tries = 0; tries < 500 && there < count; tries++) {
        pause_ms(10);
        reply = redis("PUBSUB NUMSUB " PREFIX "wake");
        there = reply->element[1]->integer;
        freeReplyObject(reply);
    }
    assert_true(there >= count);
}

/* A host steps a link without a socket where it may block, so only such a step may connect: it may ask the resolver. */
static void test_r_pop_13_a_step_with_a_socket_makes_no_second_connection(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_pop settings = plainly(&f, 30);
    int status;
    (void)state;
    settings.wait = 0.2;
    assert_int_equal(seriatim_pop_begin(f.client, &settings), SERIATIM_OK);
    do {
        status = seriatim_link_step(f.link);
    } while (status == SERIATIM_AGAIN && srt_client_sleeps(f.client) < 0 && seriatim_link_wait(f.link) == SERIATIM_OK);
    assert_int_equal(status, SERIATIM_AGAIN);
    assert_int_equal(seriatim_link_fd(f.link), -1);
    assert_int_equal(seriatim_link_timeout_ms(f.link), 0);
    assert_int_equal(drive(f.link), SERIATIM_OK);
    seriatim_link_free(f.link);
}

static void test_r_pop_13_a_waiting_popper_is_woken(void **state)
{
    fixture f = open_queue(3, "merge");
    waiter w;
    (void)state;
    push_later(&f, "first", "x", 3600);
    begin_waiting(&w, 30);
    await_listeners(1);
    pause_ms(150);
    push(&f, "a", "x", none);
    pthread_join(w.thread, NULL);
    assert_int_equal(w.status, SERIATIM_OK);
    assert_string_equal(w.id, "a");
    assert_true(w.waited < 9); /* by the message, not because it looked again */
    close_queue(&f);
}

static void test_r_pop_13_a_wait_ends_in_time(void **state)
{
    fixture f = open_queue(2, "merge");
    waiter w;
    (void)state;
    push_later(&f, "first", "x", 3600);
    begin_waiting(&w, 0.3);
    pthread_join(w.thread, NULL);
    assert_int_equal(w.status, SERIATIM_OK);
    assert_string_equal(w.id, "-");
    assert_true(w.waited >= 0.3 && w.waited < 5);
    close_queue(&f);
}

/* The second connection is cut, and made again. */
static void test_a_waiting_popper_survives_a_cut(void **state)
{
    fixture f = open_queue(1, "merge");
    waiter w;
    (void)state;
    push_later(&f, "first", "x", 3600);
    begin_waiting(&w, 30);
    await_listeners(1);
    REDIS("CLIENT KILL TYPE pubsub");
    await_listeners(1);
    REDIS("CLIENT KILL TYPE normal SKIPME yes");
    push(&f, "a", "x", none);
    pthread_join(w.thread, NULL);
    assert_int_equal(w.status, SERIATIM_OK);
    assert_string_equal(w.id, "a");
    assert_true(w.waited < 9);
    close_queue(&f);
}

/* Pops for a short time until the client listens to all channels that it wants. */
static void pop_until_subscribed(const fixture *f, size_t queue)
{
    seriatim_pop settings = plainly(f, 30);
    int tries;
    settings.queues = &queue;
    settings.wait = 0.3;
    for (tries = 0; tries < 100 && !f->client->listener.subscribed; tries++)
        assert_string_equal(pop_as(f, &settings, NULL), "-");
    assert_true(f->client->listener.subscribed);
}

/* The client adds a channel to a connection that is lost, which it does not know yet. */
static void test_r_pop_13_a_pop_of_a_further_queue_survives_a_cut(void **state)
{
    fixture f = open_queue(1, "merge"), other = another(1, "merge");
    size_t further = add_queue(f.client, "B", 1, 1, "merge");
    seriatim_pop settings = plainly(&f, 30);
    int64_t began;
    (void)state;
    other.queue = add_queue(other.client, "B", 1, 1, "merge");
    push_later(&f, "first", "x", 3600);
    push_later(&other, "first", "x", 3600);
    pop_until_subscribed(&f, f.queue);
    REDIS("CLIENT KILL TYPE pubsub");
    settings.queues = &further;
    settings.wait = 30;
    assert_int_equal(seriatim_pop_begin(f.client, &settings), SERIATIM_OK);
    while (srt_client_sleeps(f.client) < 0) {
        assert_int_equal(seriatim_link_step(f.link), SERIATIM_AGAIN);
        if (srt_client_sleeps(f.client) < 0)
            assert_int_equal(seriatim_link_wait(f.link), SERIATIM_OK);
    }
    push(&other, "a", "x", none);
    began = srt_clock_ms();
    assert_int_equal(drive(f.link), SERIATIM_OK);
    assert_non_null(seriatim_pop_result(f.client));
    assert_true(srt_clock_ms() - began < 9000); /* not because it looked again after 10 seconds */
    seriatim_link_free(other.link);
    close_queue(&f);
}

static long long connections(const char *which)
{
    redisReply *reply = redis("INFO stats");
    const char *at = strstr(reply->str, which);
    long long count;
    assert_non_null(at);
    count = strtoll(at + strlen(which), NULL, 10);
    freeReplyObject(reply);
    return count;
}

/* Too many clients is a condition that passes. */
static void test_r_pop_13_a_popper_subscribes_when_redis_has_room_again(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_pop settings = plainly(&f, 30);
    long long before = connections("rejected_connections:");
    int tries;
    (void)state;
    push_later(&f, "first", "x", 3600);
    settings.wait = 0.3;
    REDIS("CONFIG SET maxclients 1");
    for (tries = 0; tries < 100 && connections("rejected_connections:") < before + 3; tries++)
        assert_string_equal(pop_as(&f, &settings, NULL), "-");
    REDIS("CONFIG SET maxclients 10000");
    assert_true(connections("rejected_connections:") >= before + 3);
    pop_until_subscribed(&f, f.queue);
    close_queue(&f);
}

static void test_r_pop_13_a_refused_popper_subscribes_a_minute_later(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_pop settings = plainly(&f, 30);
    long long made;
    int tries;
    (void)state;
    push_later(&f, "first", "x", 3600);
    settings.wait = 0.3;
    REDIS("ACL SETUSER default -subscribe");
    for (tries = 0; tries < 100 && !f.client->listener.refused; tries++)
        assert_string_equal(pop_as(&f, &settings, NULL), "-");
    REDIS("ACL SETUSER default +subscribe");
    assert_true(f.client->listener.refused);
    made = connections("total_connections_received:");
    assert_string_equal(pop_as(&f, &settings, NULL), "-");
    assert_int_equal(connections("total_connections_received:"), made);
    f.client->listener.refused_at -= 61;
    pop_until_subscribed(&f, f.queue);
    close_queue(&f);
}

/* All of them listen to one message; each of the ids is taken once. */
static void test_r_pop_13_ten_poppers_take_ten_ids(void **state)
{
    fixture f = open_queue(1, "merge");
    waiter all[10];
    char id[16];
    int i, sum = 0;
    (void)state;
    push_later(&f, "first", "x", 3600);
    for (i = 0; i < 10; i++)
        begin_waiting(&all[i], 30);
    await_listeners(10);
    for (i = 0; i < 10; i++) {
        snprintf(id, sizeof id, "%d", 1 << i);
        push(&f, id, "x", none);
    }
    for (i = 0; i < 10; i++) {
        pthread_join(all[i].thread, NULL);
        sum += atoi(all[i].id);
        assert_true(all[i].waited < 20);
    }
    assert_int_equal(sum, 1023);
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_11_a_waiting_popper_takes_what_another_lost(void **state)
{
    fixture f = open_queue(1, "merge");
    waiter w;
    (void)state;
    push(&f, "a", "x", none);
    assert_string_equal(pop(&f, 0.5, NULL), "a");
    begin_waiting(&w, 30);
    pthread_join(w.thread, NULL);
    assert_string_equal(w.id, "a");
    assert_true(w.waited < 9);
    close_queue(&f);
}

/* ---- Settings that change -------------------------------------------------------------------- */

static void age_settings(const fixture *f)
{
    f->client->registry.queues[f->queue]->read_at -= 61;
}

static void test_r_settings_2_a_popper_sees_changed_settings(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    REDIS("HSET seriatim:{Q}:settings serial_shards 1");
    age_settings(&f);
    assert_string_equal(pop(&f, 30, NULL), "-");
    REDIS("HSET seriatim:{Q}:settings max_retry_count 0");
    age_settings(&f);
    assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_FAIL, 9, "boom"), SERIATIM_OK);
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "a"), "x");
    assert_null(seriatim_client_warning(f.client)); /* a popper goes by Redis, whatever its own code says */
    assert_string_equal(pop(&f, 30, NULL), "b");
    assert_sound(&f);
    close_queue(&f);
}

/* ---- The same call again ---------------------------------------------------------------------- */

static redisReply *call_pop(const char *sequence, const char *ttr)
{
    return redis("EVAL %b 15 " PREFIX "state " PREFIX "jobs " PREFIX "ready " PREFIX "due " PREFIX "running " PREFIX
                 "next " PREFIX "retry " PREFIX "dead " PREFIX "died " PREFIX "parked " PREFIX "unproven " PREFIX
                 "suspect " PREFIX "overrun " PREFIX "claims " PREFIX "push:c1 1 %s merge 0 %s 10 0 0 25 bury 0",
                 srt_script_text_pop, sizeof srt_script_text_pop, sequence, ttr);
}

static void test_r_pop_14_a_pop_that_is_sent_twice_takes_one_id(void **state)
{
    static const char *const ttrs[] = {"30000000", "0"};
    size_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        fixture f = open_queue(1, "merge");
        redisReply *first, *second;
        push(&f, "a", "x", none);
        push(&f, "b", "x", none);
        first = call_pop("7", ttrs[i]);
        second = call_pop("7", ttrs[i]);
        assert_int_equal(second->elements, 7);
        assert_string_equal(second->element[3]->str, "a");
        assert_string_equal(second->element[2]->str, first->element[2]->str);
        freeReplyObject(second);
        second = call_pop("8", ttrs[i]);
        assert_string_equal(second->element[3]->str, "b");
        freeReplyObject(first);
        freeReplyObject(second);
        close_queue(&f);
    }
}

static void test_misuse_is_refused(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_pop settings = plainly(&f, 30);
    seriatim_popped_outcome outcome = {SERIATIM_POPPED_ACK, 0, {NULL, 0}, NULL, 0};
    size_t unknown = 99;
    int64_t weight = 0;
    (void)state;
    settings.wait = 61;
    assert_int_equal(seriatim_pop_begin(f.client, &settings), SERIATIM_INVALID);
    settings.wait = 0;
    settings.ttr = -1;
    assert_int_equal(seriatim_pop_begin(f.client, &settings), SERIATIM_INVALID);
    settings.ttr = 1;
    settings.max = 0;
    assert_int_equal(seriatim_pop_begin(f.client, &settings), SERIATIM_INVALID);
    settings.max = 1;
    settings.weights = &weight;
    assert_int_equal(seriatim_pop_begin(f.client, &settings), SERIATIM_INVALID);
    settings.weights = NULL;
    settings.queues = &unknown;
    assert_int_equal(seriatim_pop_begin(f.client, &settings), SERIATIM_INVALID);
    assert_int_equal(seriatim_popped_begin(f.client, text("no token"), &outcome), SERIATIM_INVALID);
    assert_int_equal(
        seriatim_popped_begin(f.client, text("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), &outcome),
        SERIATIM_INVALID);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_pop_1_ids_come_in_order_and_are_gone_when_acknowledged),
        cmocka_unit_test(test_r_pop_1_an_id_is_popped_once_while_it_runs),
        cmocka_unit_test(test_r_pop_2_a_late_acknowledgement_is_stale),
        cmocka_unit_test(test_r_pop_4_a_failure_waits_and_the_limit_buries),
        cmocka_unit_test(test_r_pop_3_what_is_not_acknowledged_has_failed),
        cmocka_unit_test(test_r_pop_4_release_and_snooze_count_no_failure),
        cmocka_unit_test(test_r_pop_3_extend_keeps_a_delivery),
        cmocka_unit_test(test_r_pop_5_without_ttr_an_id_is_gone_at_once),
        cmocka_unit_test(test_r_pop_6_a_delivery_has_at_most_max_payloads),
        cmocka_unit_test(test_r_pop_15_a_checkpoint_stands_when_the_rest_fails),
        cmocka_unit_test(test_r_pop_15_a_checkpoint_of_many_payloads_counts_from_the_delivery),
        cmocka_unit_test(test_r_pop_6_a_delivery_ends_at_one_mebibyte),
        cmocka_unit_test(test_r_pop_18_an_acknowledgement_remembers_the_score),
        cmocka_unit_test(test_r_pop_18_a_checkpoint_remembers_the_score),
        cmocka_unit_test(test_r_pop_16_payloads_that_cannot_be_read_go_to_the_morgue),
        cmocka_unit_test(test_r_pop_16_the_last_of_many_payloads_goes_to_the_morgue),
        cmocka_unit_test(test_r_pop_16_a_report_without_a_known_payload_is_a_failure),
        cmocka_unit_test(test_r_pop_16_a_record_that_cannot_be_read_stalls_nothing),
        cmocka_unit_test(test_r_pop_7_the_queues_go_in_the_order_named),
        cmocka_unit_test(test_r_pop_7_new_clients_begin_at_different_shards),
        cmocka_unit_test(test_r_pop_8_queues_with_weights_take_turns),
        cmocka_unit_test(test_r_pop_7_the_oldest_due_id_of_a_shard_comes_first),
        cmocka_unit_test(test_r_pop_1_stale_entries_are_passed_over),
        cmocka_unit_test(test_r_pop_9_a_paused_queue_gives_nothing),
        cmocka_unit_test(test_r_pop_17_operators_act_on_a_popped_id_as_on_any_run),
        cmocka_unit_test(test_scheduled_payloads_arrive_by_a_pop),
        cmocka_unit_test(test_r_pop_10_a_server_and_a_popper_share_a_shard),
        cmocka_unit_test(test_r_pop_10_a_change_of_owner_leaves_a_popped_id_alone),
        cmocka_unit_test(test_r_pop_10_an_id_unites_though_the_owner_of_its_shard_is_dead),
        cmocka_unit_test(test_r_pop_10_a_pop_that_unites_ids_leaves_the_runs_of_a_dead_owner),
        cmocka_unit_test(test_r_pop_11_a_claim_ends_what_a_popper_did_not_acknowledge),
        cmocka_unit_test(test_check_repairs_a_popped_id_without_an_end),
        cmocka_unit_test(test_r_pop_12_a_serial_shard_runs_one_id_at_a_time),
        cmocka_unit_test(test_r_pop_12_a_popped_run_that_is_gone_holds_up_no_serial_shard),
        cmocka_unit_test(test_r_pop_13_a_step_with_a_socket_makes_no_second_connection),
        cmocka_unit_test(test_r_pop_13_a_waiting_popper_is_woken),
        cmocka_unit_test(test_a_waiting_popper_survives_a_cut),
        cmocka_unit_test(test_r_pop_13_a_wait_ends_in_time),
        cmocka_unit_test(test_r_pop_13_ten_poppers_take_ten_ids),
        cmocka_unit_test(test_r_pop_11_a_waiting_popper_takes_what_another_lost),
        cmocka_unit_test(test_r_pop_13_a_pop_of_a_further_queue_survives_a_cut),
        cmocka_unit_test(test_r_pop_13_a_popper_subscribes_when_redis_has_room_again),
        cmocka_unit_test(test_r_pop_13_a_refused_popper_subscribes_a_minute_later),
        cmocka_unit_test(test_r_settings_2_a_popper_sees_changed_settings),
        cmocka_unit_test(test_r_pop_14_a_pop_that_is_sent_twice_takes_one_id),
        cmocka_unit_test(test_misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_pop.c - what a popper gets and how it settles a delivery, against a real redis-server. */
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

#include "operators.h"
#include "pop_fixture.h"

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
    assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_SNOOZE, A_WHILE, "y"), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, NULL), "-");
    pass_a_while();
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(p.payloads, "y");
    assert_int_equal(p.deliveries, 3);
    assert_int_equal(metrics(&f).failed, 0);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_sound(&f);
    close_queue(&f);
}

/* They were due before the ids that have come since. */
static void test_r_pop_7_released_ids_come_in_the_order_in_which_they_were_due(void **state)
{
    static const char *const ids[] = {"a", "b", "c"};
    fixture f = open_queue(1, "list");
    popped p[3];
    int i;
    (void)state;
    for (i = 0; i < 3; i++)
        push(&f, ids[i], "x", none);
    for (i = 0; i < 2; i++)
        assert_string_equal(pop(&f, 30, &p[i]), ids[i]);
    for (i = 0; i < 2; i++)
        assert_int_equal(say_plain(&f, &p[i], SERIATIM_POPPED_RELEASE), SERIATIM_OK);
    for (i = 0; i < 3; i++) {
        assert_string_equal(pop(&f, 30, &p[i]), ids[i]);
        assert_sound(&f);
    }
    close_queue(&f);
}

static void test_r_pop_3_extend_keeps_a_delivery(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    assert_string_equal(pop(&f, A_WHILE, &p), "a");
    assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_EXTEND, 30, NULL), SERIATIM_OK);
    pass_a_while();
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

/* Pushes "1", "2" and "3", and pops the first two of them. */
static popped pop_part(const fixture *f)
{
    seriatim_pop some = plainly(f, 30);
    popped p;
    assert_int_equal(push_scored(f, "1"), 0);
    assert_int_equal(push_scored(f, "2"), 0);
    assert_int_equal(push_scored(f, "3"), 0);
    some.max = 2;
    assert_string_equal(pop_as(f, &some, &p), "a");
    assert_string_equal(p.payloads, "1,2");
    return p;
}

static void test_r_pop_18_an_acknowledged_part_makes_what_waits_behind_it_stale(void **state)
{
    fixture f = open_scored();
    popped p = pop_part(&f);
    (void)state;
    assert_int_equal(push_scored(&f, "1.5"), 0);
    assert_int_equal(push_scored(&f, "2.5"), 0);
    push(&f, "a", "x", none);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_sound(&f);
    assert_int_equal(metrics(&f).stale, 1);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(p.payloads, "2.5,3,x");
    close_queue(&f);
}

/* More payloads wait behind the run than one call looks at. Those without a score of their own stay. */
static void test_r_pop_18_many_payloads_behind_an_acknowledged_part_become_stale(void **state)
{
    push_options scored = none;
    fixture f = open_scored();
    popped p = pop_part(&f);
    int i;
    (void)state;
    scored.score = 1.5;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < 700; i++)
        add(&f, "a", 1, "old", scored);
    done(&f, seriatim_push_send(f.client));
    push(&f, "a", "x", none);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_sound(&f);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(p.payloads, "3,x");
    assert_int_equal(metrics(&f).stale, 700);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, &p), "-");
    assert_int_equal(number("EXISTS " PREFIX "jobs " PREFIX "running " PREFIX "uniting " PREFIX "nextspill:a"), 0);
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

/* ---- The same call again ---------------------------------------------------------------------- */

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
        cmocka_unit_test(test_r_pop_7_released_ids_come_in_the_order_in_which_they_were_due),
        cmocka_unit_test(test_r_pop_3_extend_keeps_a_delivery),
        cmocka_unit_test(test_r_pop_5_without_ttr_an_id_is_gone_at_once),
        cmocka_unit_test(test_r_pop_18_an_acknowledgement_remembers_the_score),
        cmocka_unit_test(test_r_pop_18_a_checkpoint_remembers_the_score),
        cmocka_unit_test(test_r_pop_18_an_acknowledged_part_makes_what_waits_behind_it_stale),
        cmocka_unit_test(test_r_pop_18_many_payloads_behind_an_acknowledged_part_become_stale),
        cmocka_unit_test(test_r_pop_16_payloads_that_cannot_be_read_go_to_the_morgue),
        cmocka_unit_test(test_r_pop_16_the_last_of_many_payloads_goes_to_the_morgue),
        cmocka_unit_test(test_r_pop_16_a_report_without_a_known_payload_is_a_failure),
        cmocka_unit_test(test_r_pop_16_a_record_that_cannot_be_read_stalls_nothing),
        cmocka_unit_test(test_misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

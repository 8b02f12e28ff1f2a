/* test_action_drop.c - the action that drops a single payload of an id, against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <time.h>

#include "operators.h"

/* What remains keeps all that the id had: its due time, retry_count, contexts, and the order by score. */
static void test_r_action_14_dropping_a_payload_keeps_the_rest_of_the_id(void **state)
{
    fixture f = open_queue(1, "merge");
    push_options options = {100, 7, 5, "{\"k\":\"v\"}"};
    const seriatim_record *record;
    double due;
    (void)state;
    push(&f, "a", "seven", options);
    options.score = 5;
    push(&f, "a", "five", options);
    options.context = NULL;
    options.score = 6;
    push(&f, "a", "six", options);
    due = fetch(&f, SERIATIM_FETCH, "a")->perform_in;
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "fiv"), 0);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "unknown", "five"), 0);
    assert_int_equal(drop(&f, SERIATIM_MORGUE_DROP_PAYLOAD, "a", "five"), 0);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "five"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "five"), 0);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "six,seven");
    record = fetch(&f, SERIATIM_FETCH, "a");
    assert_true(record->perform_in == due && record->retry_count == 4);
    assert_int_equal(record->payloads[0].context_len, 0);
    assert_int_equal(record->payloads[1].context_len, 9);
    assert_int_equal(findings(&f, 0), 0);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "a"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "seven"), 1);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "a")->state, "parked");
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "six"), 1);
    assert_null(fetch(&f, SERIATIM_FETCH, "a"));
    assert_int_equal(metrics(&f).parked, 0);
    close_queue(&f);
}

/* An id goes with its last payload, wherever it stood, and nothing of it stays in an index. */
static void test_r_action_14_an_id_goes_with_its_last_payload(void **state)
{
    static const char *const kinds[] = {"jobs", "due", "retry", "parked", "dead", "died", "next", "unproven"};
    fixture f = open_queue(1, "merge");
    char run[64];
    size_t i;
    (void)state;
    acquire(&f, "n1");
    push(&f, "doubt", "1", none);
    assert_int_equal(claim(&f, "5", run), 1);
    take_over(&f, "n2");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "doubt")->state, "unproven");
    kill_one(&f, "dead", "1");
    push(&f, "waits", "1", none);
    push_later(&f, "later", "1", 100);
    push_failed(&f, "failed", "1", 3, 100);
    push(&f, "stopped", "1", none);
    act_on(&f, SERIATIM_PARK, "stopped");
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "doubt", "1"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "waits", "1"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "later", "1"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "failed", "1"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "stopped", "1"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "dead", "1"), 0);
    assert_int_equal(drop(&f, SERIATIM_MORGUE_DROP_PAYLOAD, "dead", "1"), 1);
    assert_int_equal(claim(&f, "5", NULL), 0);
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_int_equal(count_of("EXISTS", kinds[i]), 0);
    close_queue(&f);
}

/* What runs was delivered and stays; what waits behind it may go. */
static void test_r_action_14_a_running_payload_is_not_dropped_one_behind_the_run_is(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    acquire(&f, "n1");
    push(&f, "a", "1", none);
    push(&f, "a", "2", none);
    assert_int_equal(claim(&f, "5", run), 1);
    push(&f, "a", "2", none);
    push(&f, "a", "3", none);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "1"), 0);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "3"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "2"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "2"), 0);
    assert_int_equal(count_of("EXISTS", "next"), 0);
    assert_int_equal(findings(&f, 0), 0);
    settle_failed(&f, "a", run, "9", "bury");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "1,2");
    close_queue(&f);
}

/* The first by score goes, then by arrival; the others stay. The fold is of the record, not of the one who drops. */
static void test_r_action_14_the_first_of_equal_payloads_is_dropped(void **state)
{
    fixture f = open_queue(1, "list");
    push_options options = {0, 3, 0, NULL};
    const seriatim_record *record;
    int i;
    (void)state;
    for (i = 0; i < 2; i++) { /* plain, then spilled */
        push(&f, "a", "x", options);
        options.score = 1;
        push(&f, "a", "x", options);
        options.score = 2;
        push(&f, "a", "x", options);
        options.score = 3;
        if (i == 1)
            push_many(&f, "a", 0, 200);
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "x"), 1);
        record = fetch(&f, SERIATIM_FETCH, "a");
        assert_true(record->payloads[0].score == 2 && record->payloads[1].score == 3);
        assert_int_equal(record->payload_total, i == 0 ? 2 : 202);
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "x") + drop(&f, SERIATIM_DROP_PAYLOAD, "a", "x"), 2);
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "x"), 0);
    }
    close_queue(&f);
}

/* Spilled payloads: named by the map, found in slices where it is silent, and by their key among equal scores. */
static void test_r_action_14_a_spilled_payload_is_dropped(void **state)
{
    fixture f = open_queue(1, "list");
    push_options options = {0, 9, 0, "{\"k\":\"v\"}"};
    char payload[32], run[64];
    int i;
    (void)state;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < 2500; i++) {
        snprintf(payload, sizeof payload, "p%d", i);
        add(&f, "hot", 3, payload, options);
    }
    done(&f, seriatim_push_send(f.client));
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p2499"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p1023"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p0"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p0"), 0);
    assert_int_equal(count_of("HLEN", "spillmap:hot"), 2497); /* contexts */
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 2497);
    close_queue(&f);

    f = open_queue(1, "merge");
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 150);
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "hot", 0, 150);
    assert_int_equal(count_of("EXISTS", "nextspill:hot"), 1);
    assert_int_equal(findings(&f, 0), 0);
    for (i = 0; i < 150; i++) {
        snprintf(payload, sizeof payload, "p%d", i);
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", payload), 1);
        assert_int_equal(count_of("HLEN", "nextspillmap:hot"), 149 - i); /* digests */
    }
    assert_int_equal(count_of("EXISTS", "nextspill:hot") + count_of("EXISTS", "nextspillmap:hot"), 0);
    assert_int_equal(findings(&f, 0), 0);
    settle_failed(&f, "hot", run, "0", "park");
    assert_int_equal(act(&f, SERIATIM_UNPARK_ALL), 1);
    push_failed(&f, "hot", "more", 0, 0);
    assert_int_equal(claim(&f, "1", run), 1);
    settle_failed(&f, "hot", run, "9", "bury");
    act(&f, SERIATIM_KILL_ALL_FAILED_JOBS);
    assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->payload_total, 151);
    assert_int_equal(drop(&f, SERIATIM_MORGUE_DROP_PAYLOAD, "hot", "more"), 1);
    for (i = 0; i < 150; i++) {
        snprintf(payload, sizeof payload, "p%d", i);
        assert_int_equal(drop(&f, SERIATIM_MORGUE_DROP_PAYLOAD, "hot", payload), 1);
    }
    assert_int_equal(
        count_of("EXISTS", "deadspill:hot") + count_of("EXISTS", "deadspillmap:hot") + count_of("EXISTS", "died"), 0);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_action_14_dropping_a_payload_keeps_the_rest_of_the_id),
        cmocka_unit_test(test_r_action_14_an_id_goes_with_its_last_payload),
        cmocka_unit_test(test_r_action_14_a_running_payload_is_not_dropped_one_behind_the_run_is),
        cmocka_unit_test(test_r_action_14_the_first_of_equal_payloads_is_dropped),
        cmocka_unit_test(test_r_action_14_a_spilled_payload_is_dropped),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

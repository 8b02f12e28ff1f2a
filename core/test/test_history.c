/* test_history.c - the histories of ids (history_per_id), against a real redis-server: what scenarios cannot reach. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "operators.h"
#define SRT_SCRIPT_TEXTS
#include "wire/scripts.inc"

/* A queue of which each id keeps 20 events. */
static fixture open_history(void)
{
    fixture f = open_queue(1, "merge");
    f.history = "20";
    REDIS("HSET seriatim:{Q}:settings history_per_id 20");
    return f;
}

/* The last event of an id. */
static seriatim_history_entry last(const fixture *f, const char *id)
{
    const seriatim_explanation *x = explain(f, id);
    assert_true(x->history_count > 0);
    return x->history[x->history_count - 1];
}

static void test_r_history_1_a_run_names_its_node_and_fence(void **state)
{
    fixture f = open_history();
    seriatim_history_entry entry;
    char run[64];
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    claim(&f, "1", run);
    entry = last(&f, "a");
    assert_string_equal(entry.event, "claimed");
    assert_string_equal(entry.node, "n1");
    assert_int_equal(entry.fence, strtoll(run + 2, NULL, 10));
    settle_done(&f, "a", run);
    entry = last(&f, "a");
    assert_string_equal(entry.event, "done");
    assert_int_equal(entry.fence, strtoll(run + 2, NULL, 10));
    assert_non_null(strstr(entry.text, "Z done under fence "));
    assert_true(entry.at > 1.7e9 && entry.due == 0 && entry.error_len == 0);
    close_queue(&f);
}

static void test_r_history_3_a_history_goes_seven_days_after_the_last_event(void **state)
{
    fixture f = open_history();
    (void)state;
    push(&f, "a", "x", none);
    REDIS("PEXPIRE " PREFIX "events:a 5000");
    REDIS("PEXPIRE " PREFIX "traced 5000");
    push(&f, "a", "y", none);
    assert_in_range(number("PTTL " PREFIX "events:a"), 604700000, 604800000);
    assert_in_range(number("PTTL " PREFIX "traced"), 604700000, 604800000);
    close_queue(&f);
}

static void test_r_history_1_the_runs_of_a_dead_process_are_recovered(void **state)
{
    fixture f = open_history();
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    claim(&f, "1", NULL);
    take_over(&f, "n2");
    assert_string_equal(events_of(&f, "a"), "pushed claimed recovered");
    close_queue(&f);
}

static void test_r_history_1_a_run_that_is_handed_back_is_returned(void **state)
{
    fixture f = open_history();
    char run[64];
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    claim(&f, "1", run);
    freeReplyObject(SCRIPT(settle, f.lease, "1", "merge", "0", "release", "a", run, "0", "", "0", ""));
    assert_string_equal(events_of(&f, "a"), "pushed claimed returned");
    close_queue(&f);
}

/* Of a long error its first 1,024 bytes, and no part of a character. */
static void test_r_history_5_a_long_error_is_cut_between_characters(void **state)
{
    fixture f = open_history();
    char run[64], error[2100];
    size_t i;
    (void)state;
    memset(error, 'x', sizeof error);
    for (i = 1; i + 2 < sizeof error; i += 2)
        memcpy(error + i, "\xc3\xa9", 2); /* at 1023 and 1024 lies one character */
    error[sizeof error - 1] = '\0';
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    claim(&f, "1", run);
    freeReplyObject(SCRIPT(settle, f.lease, "1", "merge", "0", "fail", "a", run, "60000000", error, "5", "bury"));
    assert_int_equal(last(&f, "a").error_len, 1023);
    close_queue(&f);
}

/* A key of another type at the place of a history: nothing else suffers, and check puts it aside. */
static void test_r_history_6_a_history_that_cannot_be_written_stops_nothing(void **state)
{
    fixture f = open_history();
    char run[64];
    (void)state;
    REDIS("SET " PREFIX "events:a text");
    REDIS("SET " PREFIX "traced text");
    push(&f, "a", "x", none);
    push(&f, "a", "y", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    settle_failed(&f, "a", run, "5", "bury");
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "a"), 1);
    assert_string_equal(events_of(&f, "a"), "");
    assert_string_equal(kinds_found(&f, f.queue, 1), "type");
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    push(&f, "a", "x", none);
    assert_string_equal(events_of(&f, "a"), "pushed");
    close_queue(&f);
}

static void test_r_history_6_check_knows_histories_and_ends_them(void **state)
{
    fixture f = open_history();
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    REDIS("PERSIST " PREFIX "events:a");
    assert_string_equal(kinds_found(&f, f.queue, 1), "expiry");
    REDIS("PERSIST " PREFIX "traced");
    assert_string_equal(kinds_found(&f, f.queue, 1), "expiry");
    REDIS("ZREM " PREFIX "traced b");
    assert_string_equal(kinds_found(&f, f.queue, 1), "index");
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    assert_true(number("PTTL " PREFIX "events:a") > 604000000);
    assert_true(number("PTTL " PREFIX "traced") > 604000000);
    REDIS("RPUSH seriatim:{Q/7}:events:a x"); /* of a shard that is not there */
    assert_string_equal(kinds_found(&f, f.queue, 1), "stray");
    REDIS("DEL seriatim:{Q/7}:events:a");
    close_queue(&f);
}

/* A queue is deleted with the histories of ids that are long done, and one that holds nothing else counts as empty. */
static void test_r_history_6_histories_go_with_their_queue(void **state)
{
    fixture f = open_history();
    char id[16];
    int i;
    (void)state;
    for (i = 0; i < 700; i++) {
        snprintf(id, sizeof id, "i%d", i);
        push(&f, id, "x", none);
        assert_int_equal(act_on(&f, SERIATIM_DELETE, id), 1);
    }
    assert_int_equal(number("ZCARD " PREFIX "traced"), 700);
    done(&f, seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE_QUEUE, NULL, 0));
    assert_int_equal(number("EXISTS " PREFIX "events:i0 " PREFIX "events:i699 " PREFIX "traced"), 0);
    close_queue(&f);
}

/* What is no event, as a later version or somebody's hand may leave it. */
static void test_r_history_6_what_cannot_be_read_is_unknown(void **state)
{
    fixture f = open_history();
    (void)state;
    push(&f, "a", "x", none);
    REDIS("RPUSH " PREFIX "events:a %b", "\xfe\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", (size_t)17);
    REDIS("RPUSH " PREFIX "events:a short");
    REDIS("RPUSH " PREFIX "events:a %b", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0", (size_t)17);
    assert_string_equal(events_of(&f, "a"), "pushed unknown unknown unknown");
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_history_1_a_run_names_its_node_and_fence),
        cmocka_unit_test(test_r_history_3_a_history_goes_seven_days_after_the_last_event),
        cmocka_unit_test(test_r_history_1_the_runs_of_a_dead_process_are_recovered),
        cmocka_unit_test(test_r_history_1_a_run_that_is_handed_back_is_returned),
        cmocka_unit_test(test_r_history_5_a_long_error_is_cut_between_characters),
        cmocka_unit_test(test_r_history_6_a_history_that_cannot_be_written_stops_nothing),
        cmocka_unit_test(test_r_history_6_check_knows_histories_and_ends_them),
        cmocka_unit_test(test_r_history_6_histories_go_with_their_queue),
        cmocka_unit_test(test_r_history_6_what_cannot_be_read_is_unknown),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_pop_parts.c - deliveries that have not all payloads of their id, and reports that take several calls, against a
 * real redis-server. */
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

/* Small payloads, and large ones, which lie beside the record of the id. */
static void test_r_pop_4_snooze_replaces_only_what_was_delivered(void **state)
{
    static char padding[3001];
    char text[sizeof padding + 16];
    int large, i;
    (void)state;
    memset(padding, 'x', sizeof padding - 1);
    for (large = 0; large < 2; large++) {
        fixture f = open_queue(1, "list");
        seriatim_pop some = plainly(&f, 30);
        popped p;
        some.max = 2;
        for (i = 0; i < 4; i++) {
            snprintf(text, sizeof text, "p%d%s", i, large ? padding : "");
            push(&f, "a", text, none);
        }
        assert_string_equal(pop_as(&f, &some, &p), "a");
        assert_int_equal(checkpoint(&f, &p, 2), SERIATIM_OK);
        assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_SNOOZE, 0, "new"), SERIATIM_OK);
        assert_string_equal(pop_as(&f, &some, &p), "a");
        assert_memory_equal(p.payloads, "p2", 2);
        assert_int_equal(p.count, 2);
        assert_int_equal(checkpoint(&f, &p, 1), SERIATIM_OK);
        assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_SNOOZE, 0, "new"), SERIATIM_OK);
        assert_string_equal(pop(&f, 30, &p), "a");
        assert_string_equal(p.payloads, "new");
        assert_sound(&f);
        close_queue(&f);
    }
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

/* What came in time counts as a whole: between its calls the time of the run is not over. */
static void test_r_pop_2_a_report_in_several_calls_is_in_time_if_its_first_call_is(void **state)
{
    fixture f = open_queue(1, "list");
    popped p;
    (void)state;
    push_many(&f, "a", 0, 600);
    assert_string_equal(pop(&f, A_WHILE, &p), "a");
    assert_int_equal(checkpoint(&f, &p, 100), SERIATIM_OK);
    assert_int_equal(checkpoint(&f, &p, 600), SERIATIM_OK);
    pass_a_while();
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_int_equal(metrics(&f).failed, 0);
    assert_sound(&f);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_pop_4_snooze_replaces_only_what_was_delivered),
        cmocka_unit_test(test_r_pop_6_a_delivery_has_at_most_max_payloads),
        cmocka_unit_test(test_r_pop_15_a_checkpoint_of_many_payloads_counts_from_the_delivery),
        cmocka_unit_test(test_r_pop_2_a_report_in_several_calls_is_in_time_if_its_first_call_is),
        cmocka_unit_test(test_r_pop_6_a_delivery_ends_at_one_mebibyte),
        cmocka_unit_test(test_r_pop_15_a_checkpoint_stands_when_the_rest_fails),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

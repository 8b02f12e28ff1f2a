/* test_action_many.c - actions on ids that have many payloads, and many actions on a shard, against a real
 * redis-server. */
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

#define SRT_SCRIPT_TEXTS
#include "operators.h"

/* One call of delete.lua for an id; began: as it says where to go on. Does it go on? */
static int delete_some(const char *id, char began[64])
{
    redisReply *reply = SCRIPT(delete, began, "", "merge", id);
    int goes_on = reply->element[1]->len > 0;
    snprintf(began, 64, "%s", reply->element[0]->str);
    freeReplyObject(reply);
    return goes_on;
}

static void test_delete_ends_though_payloads_are_scheduled_meanwhile(void **state)
{
    fixture f = open_queue(1, "merge");
    char began[64] = "";
    int calls = 1, i;
    (void)state;
    for (i = 0; i < 1100; i++)
        schedule_one(&f, "x", "old", 1000 + i / 7);
    assert_true(delete_some("x", began));
    for (i = 0; i < 600; i++)
        schedule_one(&f, "x", "new", 10); /* all of one deliver_at or so, and earlier than what is to go */
    for (i = 0; i < 600; i++)
        schedule_one(&f, "x", "new", 1005);
    while (delete_some("x", began) && calls < 10)
        calls++;
    assert_true(calls < 10);
    assert_int_equal(number("ZCARD " PREFIX "sched:x"), 1200);
    assert_int_equal(number("ZCARD " PREFIX "scheduled"), 1200);
    assert_int_equal(number("HLEN " PREFIX "schedmap:x"), 1200);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "x"), 1);
    assert_int_equal(number("ZCARD " PREFIX "scheduled"), 0);
    close_queue(&f);
}

/*
 * An action whose layout changes between two calls begins anew, and then finds what the first call left of an id that
 * it has counted.
 */
static void test_delete_counts_an_id_once_though_it_begins_anew(void **state)
{
    fixture f = open_queue(1, "merge");
    redisReply *reply;
    int i;
    (void)state;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < 600; i++)
        add_scheduled(&f, "x", "p", 1, 1000 + i);
    done(&f, seriatim_push_send(f.client));
    reply = SCRIPT(delete, "", "", "merge", "x");
    assert_int_equal(reply->element[2]->integer, 1);
    assert_string_equal(reply->element[1]->str, "more");
    freeReplyObject(reply);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "x"), 0);
    assert_int_equal(number("EXISTS " PREFIX "sched:x " PREFIX "schedmap:x " PREFIX "scheduled"), 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* Whoever has read the figures of a shard sees by the state that they are others now. */
static void test_each_park_changes_the_state(void **state)
{
    fixture f = open_queue(1, "merge");
    redisReply *before, *after;
    char id[16];
    int i;
    (void)state;
    for (i = 0; i < 8; i++) {
        snprintf(id, sizeof id, "%d", i);
        push_later(&f, id, "1", 100);
    }
    before = redis("GET " PREFIX "state");
    for (i = 0; i < 8; i++) {
        snprintf(id, sizeof id, "%d", i);
        assert_int_equal(act_on(&f, SERIATIM_PARK, id), 1);
        after = redis("GET " PREFIX "state");
        assert_memory_not_equal(before->str, after->str, before->len);
        freeReplyObject(before);
        before = after;
    }
    freeReplyObject(before);
    close_queue(&f);
}

/* The morgue keeps all payloads of an id, also of a queue that keeps one of what waits; large ones lie beside the
 * record. */
static void test_r_morgue_3_of_many_dead_payloads_a_queue_that_keeps_one_gets_one(void **state)
{
    static const char *const folds[] = {"last", "first"}, *const left[] = {"c", "a"};
    size_t i;
    int waits;
    (void)state;
    for (i = 0; i < 2; i++)
        for (waits = 0; waits < 2; waits++) {
            fixture f = open_queue(1, folds[i]);
            char letter;
            for (letter = 'a'; letter <= 'c'; letter++)
                kill_one(&f, "x", large(letter));
            assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "x")->payload_total, 3);
            if (waits)
                push_later(&f, "x", i ? "a" : "c", 100);
            act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "x");
            assert_int_equal(fetch(&f, SERIATIM_FETCH, "x")->payload_total, 1);
            if (!waits)
                assert_int_equal(fetch(&f, SERIATIM_FETCH, "x")->payloads[0].data[0], left[i][0]);
            assert_int_equal(count_of("EXISTS", "deadspill:x"), 0);
            assert_int_equal(findings(&f, 0), 0);
            close_queue(&f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delete_ends_though_payloads_are_scheduled_meanwhile),
        cmocka_unit_test(test_delete_counts_an_id_once_though_it_begins_anew),
        cmocka_unit_test(test_each_park_changes_the_state),
        cmocka_unit_test(test_r_morgue_3_of_many_dead_payloads_a_queue_that_keeps_one_gets_one),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

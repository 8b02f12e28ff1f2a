/* test_reshard_order.c - a mover finds waiting ids about in the order in which they were pushed, and misses none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "reshard_fixture.h"

#define IDS 250

/* The numbers of the ids that one call lists, at most `room`. cursor is replaced. */
static size_t list(const move *m, char cursor[64], int *numbers, size_t room)
{
    redisReply *reply = ON_SHARD(0, foreign, m->generation, "jobs", cursor);
    size_t i, count = (reply->elements - 2) / 2;
    assert_true(count <= room);
    for (i = 0; i < count; i++)
        numbers[i] = atoi(reply->element[2 + 2 * i]->str);
    snprintf(cursor, 64, "%s", reply->element[0]->str);
    freeReplyObject(reply);
    return count;
}

/* The same of all calls while the cursor begins with `walk`. */
static size_t list_walk(const move *m, char cursor[64], const char *walk, int *numbers, size_t room)
{
    size_t count = 0;
    while (strncmp(cursor, walk, strlen(walk)) == 0)
        count += list(m, cursor, numbers + count, room - count);
    return count;
}

/* Their order by due time is neither that of the pushes nor that of the names. */
static void test_delayed_ids_are_found_in_the_order_of_their_due_times(void **state)
{
    fixture f = open_queue(1, "list");
    char id[32], cursor[64] = "due -inf 0 250";
    int numbers[2 * IDS], place[IDS], i;
    move m;
    (void)state;
    for (i = 0; i < IDS; i++) {
        place[i] = i * 77 % IDS;
        push_later(&f, departing_id(id, "", i), "1", 1000 + 10 * place[i]);
    }
    move_begin(&m, 2);
    assert_int_equal(list_walk(&m, cursor, "due", numbers, 2 * IDS), IDS);
    for (i = 0; i < IDS; i++)
        assert_int_equal(place[numbers[i]], i);
    assert_string_equal(cursor, "ready 0 0");
    close_queue(&f);
}

/* Claims take from the head. What was deleted has left an entry in the list. */
static void test_ready_ids_are_found_from_the_last_one_that_was_pushed(void **state)
{
    fixture f = open_queue(1, "list");
    char id[32], cursor[64] = "ready 0 250";
    int numbers[2 * IDS], i;
    move m;
    (void)state;
    for (i = 0; i < IDS; i++)
        push(&f, departing_id(id, "", i), "1", none);
    act_on(&f, SERIATIM_DELETE, departing_id(id, "", IDS - 1));
    move_begin(&m, 2);
    assert_int_equal(list_walk(&m, cursor, "ready", numbers, 2 * IDS), IDS - 1);
    for (i = 0; i < IDS - 1; i++)
        assert_int_equal(numbers[i], IDS - 2 - i);
    assert_string_equal(cursor, "all 0");
    close_queue(&f);
}

/* A push of several jobs with a delay gives all of them the same due time. */
static void test_ids_of_one_due_time_are_found_by_it(void **state)
{
    fixture f = open_queue(1, "list");
    char id[32], cursor[64] = "due -inf 0 250";
    int numbers[3 * IDS], number;
    char found[IDS] = {0};
    size_t count, i;
    move m;
    (void)state;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (number = 0; number < IDS; number++) {
        seriatim_job job;
        seriatim_job_init(&job);
        job.id = departing_id(id, "", number);
        job.id_len = strlen(id);
        job.payload = "1";
        job.payload_len = 1;
        job.when = SERIATIM_AT;
        job.time = 4000000000;
        done(&f, seriatim_push_job(f.client, &job));
    }
    done(&f, seriatim_push_send(f.client));
    move_begin(&m, 2);
    count = list_walk(&m, cursor, "due", numbers, 3 * IDS);
    assert_int_equal(count, IDS);
    for (i = 0; i < count; i++)
        found[numbers[i]] = 1;
    for (i = 0; i < IDS; i++)
        assert_true(found[i]);
    close_queue(&f);
}

/* Ids that are added behind the first call are not looked at, as many as they may be. */
static void test_a_walk_ends_though_ids_are_added(void **state)
{
    fixture f = open_queue(1, "list");
    char id[32], cursor[64] = "0";
    int numbers[100], i, calls = 0;
    move m;
    (void)state;
    for (i = 0; i < IDS; i++)
        push_later(&f, departing_id(id, "", i), "1", 1000);
    move_begin(&m, 2);
    while (list(&m, cursor, numbers, 100) > 0 && strncmp(cursor, "due", 3) == 0) {
        push_new_ids(&f, ++calls * 1000, 200, (push_options){2000, 0, 0, NULL});
        assert_in_range(calls, 1, 2);
    }
    close_queue(&f);
}

/* Ids that leave between two calls move the places of the others. Parked ones are in neither of the first walks. */
static void test_ids_that_leave_meanwhile_hide_no_other(void **state)
{
    fixture f = open_queue(1, "list");
    char id[32];
    int i;
    move m;
    (void)state;
    for (i = 0; i < IDS; i++)
        push(&f, departing_id(id, "", i), "1", (push_options){i % 3 == 0 ? 1000 : 0, 0, 0, NULL});
    for (i = 1; i < IDS; i += 3)
        act_on(&f, SERIATIM_PARK, departing_id(id, "", i));
    move_begin(&m, 2);
    assert_int_equal(move_source(&m, 0), IDS);
    close_queue(&f);
}

static void test_a_cursor_that_no_call_gave_is_refused(void **state)
{
    fixture f = open_queue(1, "list");
    char id[32];
    shard_call call;
    redisReply *reply;
    move m;
    (void)state;
    push(&f, departing_id(id, "", 0), "1", none);
    move_begin(&m, 2);
    CALL(&call, 0, foreign, m.generation);
    call_text(&call, "jobs");
    call_text(&call, "17");
    reply = call_send(&call, 1);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_string_equal(reply->str, "ERR wrong cursor");
    freeReplyObject(reply);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delayed_ids_are_found_in_the_order_of_their_due_times),
        cmocka_unit_test(test_ready_ids_are_found_from_the_last_one_that_was_pushed),
        cmocka_unit_test(test_ids_of_one_due_time_are_found_by_it),
        cmocka_unit_test(test_a_walk_ends_though_ids_are_added),
        cmocka_unit_test(test_ids_that_leave_meanwhile_hide_no_other),
        cmocka_unit_test(test_a_cursor_that_no_call_gave_is_refused),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

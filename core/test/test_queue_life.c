/* test_queue_life.c - settings and deletion of a queue, against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "operators.h"

/* The queue keeps what its first worker wrote; whoever says something else acts by that, and is told once. */
static void test_r_settings_1_a_queue_keeps_the_settings_of_its_first_worker(void **state)
{
    fixture worker = open_queue(1, "list"), command = another(0, "merge"), producer = another(1, "merge");
    const char *warning;
    (void)state;
    push_failed(&worker, "a", "x", 2, 0);
    push(&command, "a", "x", none);
    assert_null(seriatim_client_warning(command.client));
    push(&producer, "a", "x", none);
    warning = seriatim_client_warning(producer.client);
    assert_non_null(warning);
    assert_string_equal(warning,
                        "queue \"Q\" has other settings in Redis than in the code; the settings in Redis are used: "
                        "fold: list, in the code merge");
    push(&producer, "b", "x", none);
    assert_null(seriatim_client_warning(producer.client));
    assert_string_equal(payloads(&worker, SERIATIM_FETCH, "a"), "x,x,x");
    act(&command, SERIATIM_KILL_ALL_FAILED_JOBS);
    assert_int_equal(act_on(&command, SERIATIM_MORGUE_QUEUE_UP, "a"), 1);
    assert_string_equal(payloads(&worker, SERIATIM_FETCH, "a"), "x,x,x");
    seriatim_link_free(producer.link);
    seriatim_link_free(command.link);
    close_queue(&worker);
}

/* Also the number of shards belongs to the queue. */
static void test_r_settings_1_a_producer_is_warned_of_another_number_of_shards(void **state)
{
    fixture worker = open_queue(3, "list"), producer = another(7, "merge"), command = another(0, "list");
    (void)state;
    push(&worker, "a", "x", none);
    assert_null(seriatim_client_warning(worker.client));
    push(&command, "a", "x", none);
    assert_null(seriatim_client_warning(command.client));
    push(&producer, "a", "x", none);
    assert_string_equal(seriatim_client_warning(producer.client),
                        "queue \"Q\" has other settings in Redis than in the code; the settings in Redis are used: "
                        "fold: list, in the code merge; shards_count: 3, in the code 7");
    push(&producer, "b", "x", none);
    assert_null(seriatim_client_warning(producer.client));
    seriatim_link_free(producer.link);
    producer = another(7, "list");
    push(&producer, "b", "x", none);
    assert_string_equal(seriatim_client_warning(producer.client),
                        "queue \"Q\" has other settings in Redis than in the code; the settings in Redis are used: "
                        "shards_count: 3, in the code 7");
    seriatim_link_free(producer.link);
    seriatim_link_free(command.link);
    close_queue(&worker);
}

/* No user writes 0 for a setting that is not set. */
static void test_r_settings_1_a_warning_names_no_value_of_a_setting_that_is_not_set(void **state)
{
    fixture worker = open_queue(1, "list"), producer = another(1, "list");
    (void)state;
    push(&worker, "a", "x", none);
    REDIS("HSET seriatim:{Q}:settings ttr 2500000 max_retry_count 0 morgue_max_count 7");
    push(&producer, "a", "x", none);
    assert_string_equal(seriatim_client_warning(producer.client),
                        "queue \"Q\" has other settings in Redis than in the code; the settings in Redis are used: "
                        "max_retry_count: 0, in the code 25; ttr: 2.5, in the code none; "
                        "morgue_max_count: 7, in the code none");
    seriatim_link_free(producer.link);
    close_queue(&worker);
}

/* A program that chose no settings is not told of others. */
static void test_r_settings_1_assumed_settings_are_not_compared(void **state)
{
    fixture worker = open_queue(1, "list"), producer = another(1, "merge");
    seriatim_queue_settings assumed;
    (void)state;
    push(&worker, "a", "x", none);
    seriatim_queue_settings_init(&assumed);
    assumed.name = "Q";
    assumed.name_len = 1;
    assumed.assumed = 1;
    assert_int_equal(seriatim_client_queue(producer.client, &assumed, &producer.queue), SERIATIM_OK);
    push(&producer, "a", "x", none);
    assert_null(seriatim_client_warning(producer.client));
    seriatim_link_free(producer.link);
    close_queue(&worker);
}

/* A client that lives long sees a change: with its next action, and with its next push a minute later. */
static void test_r_settings_2_a_client_sees_changed_settings(void **state)
{
    fixture worker = open_queue(1, "merge"), command = another(0, "merge");
    (void)state;
    push(&worker, "a", "x", none);
    push(&command, "a", "y", none);
    REDIS("HSET seriatim:{Q}:settings fold list");
    kill_one(&command, "d", "x");
    kill_one(&command, "d", "x");
    assert_int_equal(act_on(&command, SERIATIM_MORGUE_QUEUE_UP, "d"), 1);
    assert_string_equal(payloads(&worker, SERIATIM_FETCH, "d"), "x,x");
    push(&worker, "a", "x", none);
    assert_string_equal(payloads(&worker, SERIATIM_FETCH, "a"), "x,y");
    worker.client->registry.queues[0]->read_at -= 61;
    push(&worker, "a", "x", none);
    assert_string_equal(payloads(&worker, SERIATIM_FETCH, "a"), "x,y,x");
    assert_non_null(seriatim_client_warning(worker.client));
    seriatim_link_free(command.link);
    close_queue(&worker);
}

/* A value of a later version is not acted by, and the check names it; settings of other names are passed over. */
static void test_a_setting_of_a_later_version_is_not_acted_by(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push(&f, "a", "x", none);
    REDIS("HSET seriatim:{Q}:settings unheard_of 5");
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "a"), 1);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    REDIS("HSET seriatim:{Q}:settings fold sorted");
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_PAUSE, NULL, 0), SERIATIM_OK);
    assert_int_equal(drive(f.link), SERIATIM_UNSUPPORTED);
    assert_string_equal(seriatim_client_error(f.client)->message,
                        "the queue's fold in Redis is \"sorted\", which this version does not know");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "layout");
    REDIS("HSET seriatim:{Q}:settings fold merge ttr 9999999999999999");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "layout");
    REDIS("DEL seriatim:{Q}:settings");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    close_queue(&f);
}

/* Only a push makes a queue: queries and actions of a worker that was never used do not. */
static void test_r_settings_3_queries_and_actions_make_no_queue(void **state)
{
    fixture f = open_queue(3, "merge");
    redisReply *reply;
    (void)state;
    refuses_to_pause(&f, SERIATIM_PAUSE);
    assert_int_equal(metrics(&f).length, 0);
    reply = redis("DBSIZE");
    assert_int_equal(reply->integer, 0);
    freeReplyObject(reply);
    push(&f, "a", "x", none);
    assert_int_equal(act(&f, SERIATIM_PAUSE), 3);
    close_queue(&f);
}

static int delete_queue(const fixture *f, int force)
{
    static const seriatim_text name = {"Q", 1};
    int status = seriatim_action_begin(f->client, f->queue, SERIATIM_DELETE_QUEUE, force ? &name : NULL, (size_t)force);
    return status == SERIATIM_OK ? drive(f->link) : status;
}

static const char *layout_text(void)
{
    static char text[64];
    redisReply *reply = redis("GET seriatim:{Q}:layout");
    snprintf(text, sizeof text, "%s", reply->str ? reply->str : "none");
    freeReplyObject(reply);
    return text;
}

/* Thousands of ids in one shard: what earlier calls removed leaves the beginning of its hash empty. */
static void test_a_queue_of_many_ids_is_deleted_in_slices(void **state)
{
    static const seriatim_text name = {"Q", 1};
    fixture f = open_queue(1, "list");
    char id[16];
    int i, status = SERIATIM_AGAIN;
    (void)state;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < 5000; i++) {
        snprintf(id, sizeof id, "%d", i);
        add(&f, id, strlen(id), "", none);
    }
    done(&f, seriatim_push_send(f.client));
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE_QUEUE, &name, 1), SERIATIM_OK);
    for (i = 0; i < 5000 && (status = seriatim_link_step(f.link)) == SERIATIM_AGAIN;
         i++) /* each waits for one of some 200 answers */
        seriatim_link_wait(f.link);
    assert_int_equal(status, SERIATIM_OK);
    assert_string_equal(layout_text(), "none");
    close_queue(&f);
}

/* The wipe of many ids may take longer than layout.lua waits: a push that comes meanwhile must not open the queue. */
static void test_r_queue_1_a_long_deletion_goes_on_to_its_end(void **state)
{
    static const seriatim_text name = {"Q", 1};
    fixture f = open_queue(1, "merge"), other = another(1, "merge");
    int i, wiped = SERIATIM_AGAIN, pushed = SERIATIM_AGAIN;
    (void)state;
    for (i = 0; i < 10; i++)
        push_new_ids(&f, 500 * i, 500, none);
    push(&other, "i0", "x", none); /* so it has the layout in hand */
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE_QUEUE, &name, 1), SERIATIM_OK);
    while (count_of("HLEN", "jobs") == 5000 && (wiped = seriatim_link_step(f.link)) == SERIATIM_AGAIN)
        seriatim_link_wait(f.link);
    REDIS("SET seriatim:{Q}:deleted %s", "2 1 1000"); /* its time is over */
    pause_ms(1100);
    for (i = 0; i < 10 && (wiped = seriatim_link_step(f.link)) == SERIATIM_AGAIN; i++)
        seriatim_link_wait(f.link);
    assert_true(count_of("HLEN", "jobs") > 0);
    done(&other, seriatim_push_begin(other.client, other.queue));
    add(&other, "new", 3, "1", none);
    assert_int_equal(seriatim_push_send(other.client), SERIATIM_OK);
    while (wiped == SERIATIM_AGAIN || pushed == SERIATIM_AGAIN) {
        if (pushed == SERIATIM_AGAIN)
            pushed = seriatim_link_step(other.link);
        if (wiped == SERIATIM_AGAIN)
            wiped = seriatim_link_step(f.link);
    }
    assert_int_equal(wiped, SERIATIM_OK);
    assert_int_equal(seriatim_action_result(f.client), 1);
    assert_int_equal(pushed, SERIATIM_OK);
    assert_int_equal(metrics(&other).length, 1);
    assert_string_equal(layout_text(), "2 1 3");
    seriatim_link_free(other.link);
    close_queue(&f);
}

/* A queue with something in it goes only by its name; the next one of the name goes on with the generation. */
static void test_r_queue_1_a_queue_with_content_is_deleted_by_its_name_only(void **state)
{
    fixture f = open_queue(3, "merge"), other = another(5, "list");
    seriatim_text wrong = {"q", 1};
    (void)state;
    assert_int_equal(delete_queue(&f, 1), SERIATIM_INVALID); /* the queue does not exist */
    push(&f, "a", "1", none);
    push(&other, "b", "1", none);
    kill_one(&f, "d", "1");
    push_many(&f, "spilled", 0, 200);
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE_QUEUE, &wrong, 1), SERIATIM_INVALID);
    assert_int_equal(delete_queue(&f, 0), SERIATIM_INVALID);
    assert_non_null(strstr(seriatim_client_error(f.client)->message, "holds 4 ids"));
    assert_string_equal(layout_text(), "2 3 3");
    push(&other, "b", "2", none); /* with the old layout in hand */
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "b"), "1,2");
    assert_int_equal(metrics(&f).length, 3);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");

    REDIS("SET seriatim:{Q}:history samples");
    assert_int_equal(delete_queue(&f, 1), SERIATIM_OK);
    assert_int_equal(seriatim_action_result(f.client), 1);
    assert_string_equal(layout_text(), "none");
    assert_int_equal(number("EXISTS seriatim:{Q}:history"), 0);
    assert_int_equal(
        count_of("EXISTS", "jobs") + count_of("EXISTS", "spill:spilled") + count_of("EXISTS", "spillmap:spilled"), 0);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    assert_int_equal(metrics(&f).length, 0);
    assert_int_equal(delete_queue(&f, 1), SERIATIM_INVALID);

    push(&other, "c", "1", none); /* makes it anew, with its own number of shards and settings */
    assert_string_equal(layout_text(), "3 5 3");
    assert_int_equal(metrics(&f).length, 1);
    assert_null(fetch(&f, SERIATIM_FETCH, "a"));
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    assert_int_equal(delete_queue(&other, 1), SERIATIM_OK);
    push(&f, "a", "1", none); /* fewer shards again */
    assert_string_equal(layout_text(), "4 3 3");
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    act_on(&f, SERIATIM_DELETE, "a");
    assert_int_equal(delete_queue(&f, 0), SERIATIM_OK);
    push_many(&other, "e", 0, 3);
    push(&other, "f", "1", none);
    push(&other, "g", "1", none);
    assert_string_equal(layout_text(), "5 5 3");
    assert_string_equal(kinds_found(&other, other.queue, 0), "");
    seriatim_link_free(other.link);
    close_queue(&f);
}

/* A node that serves the queue keeps it. */
static void test_r_queue_2_a_served_queue_is_not_deleted(void **state)
{
    fixture f = open_queue(1, "merge");
    char description[32];
    (void)state;
    push(&f, "a", "1", none);
    snprintf(description, sizeof description, "b 00000000 %08x|text", (unsigned)srt_crc32("Q", 1));
    REDIS("ZADD seriatim:{/nodes}:alive 9999999999999 n1");
    REDIS("HSET seriatim:{/nodes}:info n1 %s", description);
    assert_int_equal(delete_queue(&f, 1), SERIATIM_INVALID);
    assert_string_equal(seriatim_client_error(f.client)->message, "the node n1 serves the queue; stop it first");
    REDIS("ZADD seriatim:{/nodes}:alive 1 n1");
    assert_int_equal(delete_queue(&f, 1), SERIATIM_OK);
    close_queue(&f);
}

/* A deletion whose process died holds pushes up for 30 seconds; then the queue goes on, with what it held. */
static void test_a_queue_goes_on_after_its_deletion_was_broken_off(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push(&f, "a", "1", none);
    REDIS("SET seriatim:{Q}:deleted %s", "2 1 1000");
    REDIS("SETRANGE " PREFIX "state 0 %b", "\0\0\0\0\0\0\0\xc0", (size_t)8); /* -2, as close.lua leaves it */
    push(&f, "a", "2", none);
    assert_string_equal(layout_text(), "2 1 3");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "1,2");
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    close_queue(&f);
}

/* A deletion closes all shards that the queue ever had, also those that its layout lacks. */
static void test_a_queue_whose_deletion_was_refused_can_be_given_the_shards_that_it_had(void **state)
{
    fixture f = open_queue(5, "list"), other = another(3, "list");
    char id[16];
    int i;
    (void)state;
    push(&f, "a", "1", none);
    assert_int_equal(delete_queue(&f, 1), SERIATIM_OK);
    push(&other, "a", "1", none);
    assert_int_equal(delete_queue(&f, 0), SERIATIM_INVALID);
    assert_string_equal(layout_text(), "3 3 3");
    assert_int_equal(act_on(&f, SERIATIM_RESHARD, "5"), 1);
    for (i = 0; i < 30; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        push(&other, id, "1", none);
    }
    assert_int_equal(metrics(&f).length, 31);
    seriatim_link_free(other.link);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_queue_1_a_queue_with_content_is_deleted_by_its_name_only),
        cmocka_unit_test(test_a_queue_of_many_ids_is_deleted_in_slices),
        cmocka_unit_test(test_r_queue_1_a_long_deletion_goes_on_to_its_end),
        cmocka_unit_test(test_r_queue_2_a_served_queue_is_not_deleted),
        cmocka_unit_test(test_a_queue_goes_on_after_its_deletion_was_broken_off),
        cmocka_unit_test(test_a_queue_whose_deletion_was_refused_can_be_given_the_shards_that_it_had),
        cmocka_unit_test(test_r_settings_1_a_queue_keeps_the_settings_of_its_first_worker),
        cmocka_unit_test(test_r_settings_1_a_warning_names_no_value_of_a_setting_that_is_not_set),
        cmocka_unit_test(test_r_settings_1_a_producer_is_warned_of_another_number_of_shards),
        cmocka_unit_test(test_r_settings_1_assumed_settings_are_not_compared),
        cmocka_unit_test(test_r_settings_2_a_client_sees_changed_settings),
        cmocka_unit_test(test_a_setting_of_a_later_version_is_not_acted_by),
        cmocka_unit_test(test_r_settings_3_queries_and_actions_make_no_queue),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

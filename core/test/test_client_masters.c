/* test_client_masters.c - a client of a cluster whose host has the sockets: connections by numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "client/client.h"
#include "wire/keys.h"

#define MAP "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$1\r\nA\r\n:1\r\n*3\r\n:8192\r\n:16383\r\n*2\r\n$1\r\nB\r\n:2\r\n"

/* What it has for this master, sent; 1: `text` is a part of it. */
static int sends(seriatim_client *c, unsigned number, const char *text)
{
    const char *data;
    size_t len, i;
    int found = 0;
    srt_client_master_output(c, number, &data, &len);
    for (i = 0; i + strlen(text) <= len; i++)
        found |= memcmp(data + i, text, strlen(text)) == 0;
    srt_client_master_sent(c, number, len);
    return found;
}

static void hears(seriatim_client *c, unsigned number, const char *text)
{
    seriatim_error error;
    assert_int_equal(srt_client_master_input(c, number, text, strlen(text), &error), SERIATIM_OK);
}

static void test_an_operation_asks_each_master_on_its_own_connection(void **state)
{
    static const char info[] = "$8\r\n\nrole:me\r\n";
    seriatim_client *c;
    seriatim_error error;
    srt_client_master_view first, second;
    (void)state;
    assert_int_equal(seriatim_client_new(NULL, &c, &error), SERIATIM_OK);
    assert_int_equal(srt_client_master(c, 0, &first), 1);
    assert_null(first.host);
    assert_int_equal(srt_client_seed(c, "A", 1), SERIATIM_OK);
    assert_int_equal(seriatim_health_begin(c), SERIATIM_OK);
    assert_int_equal(srt_client_tick(c, 1000), 1500); /* another is asked then */
    assert_int_equal(srt_client_master(c, 0, &first), 1);
    assert_string_equal(first.host, "A");
    assert_int_equal(first.port, 1);
    assert_true(first.wanted);
    assert_int_equal(srt_client_master_connected(c, first.number, "u", "p"), SERIATIM_OK);
    assert_true(sends(c, first.number, "AUTH"));
    hears(c, first.number, "+OK\r\n");
    assert_true(sends(c, first.number, "SLOTS"));
    hears(c, first.number, MAP);
    assert_int_equal(srt_client_master(c, 1, &second), 1);
    assert_int_equal(srt_client_master(c, 2, &second), 0);
    assert_true(sends(c, first.number, "INFO"));
    hears(c, first.number, info);
    assert_int_equal(srt_client_master(c, 1, &second), 1);
    assert_string_equal(second.host, "B");
    assert_true(second.wanted);
    assert_int_equal(srt_client_master_connected(c, second.number, NULL, NULL), SERIATIM_OK);
    assert_true(sends(c, second.number, "INFO"));
    srt_client_master_disconnected(c, second.number);
    assert_int_equal(srt_client_master_connected(c, second.number, NULL, NULL), SERIATIM_OK);
    assert_true(sends(c, second.number, "INFO"));
    assert_int_equal(srt_client_status(c), SERIATIM_AGAIN);
    hears(c, second.number, info);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_string_equal(seriatim_health_result(c)->address, "A:1");
    assert_false(sends(c, 77, "x")); /* nobody has this number */
    hears(c, 77, "+x\r\n");
    srt_client_master_disconnected(c, 77);
    seriatim_client_free(c);
}

/* Each operation has its own reason, which is said when its time has passed. */
static void test_what_held_up_an_earlier_operation_is_forgotten(void **state)
{
    static const char info[] = "$8\r\n\nrole:me\r\n", map[] = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nA\r\n:1\r\n";
    seriatim_client *c;
    seriatim_error error;
    srt_client_master_view only;
    (void)state;
    assert_int_equal(seriatim_client_new(NULL, &c, &error), SERIATIM_OK);
    assert_int_equal(srt_client_seed(c, "A", 1), SERIATIM_OK);
    assert_int_equal(seriatim_health_begin(c), SERIATIM_OK);
    srt_client_tick(c, 1000);
    assert_int_equal(srt_client_master(c, 0, &only), 1);
    assert_int_equal(srt_client_master_connected(c, only.number, NULL, NULL), SERIATIM_OK);
    assert_true(sends(c, only.number, "SLOTS"));
    hears(c, only.number, map);
    assert_true(sends(c, only.number, "INFO"));
    hears(c, only.number, "-LOADING Redis is loading the dataset in memory\r\n");
    assert_int_equal(srt_client_held_up(c)->status, SERIATIM_LOADING);
    srt_client_tick(c, 1050);
    assert_true(sends(c, only.number, "INFO"));
    hears(c, only.number, info);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_health_begin(c), SERIATIM_OK);
    assert_int_equal(srt_client_held_up(c)->status, SERIATIM_OK);
    seriatim_client_free(c);
}

/* An id of a queue Q of 8 shards, in a shard of master A (1) or B (0). */
static const char *id_of(int is_a)
{
    static char ids[2][16];
    char *id = ids[is_a], key[64];
    int i = 0;
    do {
        snprintf(id, sizeof ids[0], "id-%d", i++);
        snprintf(key, sizeof key, "seriatim:{Q/%u}:state", seriatim_shard_of(id, strlen(id), 8));
    } while ((srt_key_slot(key, strlen(key)) < 8192) != is_a);
    return id;
}

/* A push of jobs with these ids that this number of replicas is to have; the second may be NULL. */
static void begin_push(seriatim_client *c, int replicas, const char *first, const char *second)
{
    const char *const given[] = {first, second};
    size_t i;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_replicas(c, replicas, 0.25), SERIATIM_OK);
    for (i = 0; i < 2 && given[i]; i++) {
        seriatim_job job;
        seriatim_job_init(&job);
        job.id = given[i];
        job.id_len = strlen(given[i]);
        job.payload = "text";
        job.payload_len = 4;
        assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
}

/* It has sent a job to each of the two masters. */
static seriatim_client *client_that_pushes(int replicas, srt_client_master_view *a, srt_client_master_view *b)
{
    static const unsigned char random[16] = {1};
    seriatim_queue_settings settings;
    seriatim_client *c;
    seriatim_error error;
    size_t queue;
    assert_int_equal(seriatim_client_new(NULL, &c, &error), SERIATIM_OK);
    srt_client_identify(c, random);
    seriatim_queue_settings_init(&settings);
    settings.name = "Q";
    settings.name_len = 1;
    settings.shards_count = 8;
    assert_int_equal(seriatim_client_queue(c, &settings, &queue), SERIATIM_OK);
    assert_int_equal(srt_client_seed(c, "A", 1), SERIATIM_OK);
    begin_push(c, replicas, id_of(1), id_of(0));
    srt_client_tick(c, 1000);
    assert_int_equal(srt_client_master(c, 0, a), 1);
    assert_int_equal(srt_client_master_connected(c, a->number, NULL, NULL), SERIATIM_OK);
    assert_true(sends(c, a->number, "SLOTS"));
    hears(c, a->number, MAP);
    assert_int_equal(srt_client_master(c, 1, b), 1);
    assert_int_equal(srt_client_master_connected(c, b->number, NULL, NULL), SERIATIM_OK);
    hears(c, sends(c, a->number, "{Q}:layout") ? a->number : b->number, "$5\r\n2 8 3\r\n");
    assert_true(sends(c, a->number, "text"));
    assert_true(sends(c, b->number, "text"));
    return c;
}

/* A has answered and B has not when the first push is given up. */
static void test_a_push_waits_for_no_replicas_of_what_an_earlier_one_has_written(void **state)
{
    srt_client_master_view a, b;
    seriatim_client *c = client_that_pushes(1, &a, &b);
    (void)state;
    hears(c, a.number, "$5\r\n1 1 0\r\n");
    assert_int_equal(srt_client_give_up(c, SERIATIM_TIMEOUT, "timed out"), SERIATIM_UNKNOWN_OUTCOME);

    assert_int_equal(srt_client_master_connected(c, a.number, NULL, NULL), SERIATIM_OK);
    assert_int_equal(srt_client_master_connected(c, b.number, NULL, NULL), SERIATIM_OK);
    begin_push(c, 1, id_of(0), NULL);
    assert_true(sends(c, b.number, "text"));
    hears(c, b.number, "$5\r\n1 1 0\r\n");
    assert_false(sends(c, a.number, "WAIT"));
    assert_true(sends(c, b.number, "WAIT"));
    hears(c, b.number, ":1\r\n");
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    seriatim_client_free(c);
}

/* A WAIT on another connection would count the replicas of what that one has written. */
static void test_a_push_that_waits_for_replicas_keeps_its_connections_while_it_sleeps(void **state)
{
    srt_client_master_view a, b;
    seriatim_client *c = client_that_pushes(1, &a, &b);
    (void)state;
    hears(c, a.number, "$5\r\n1 1 0\r\n");
    hears(c, b.number, "-GENERATION 1\r\n"); /* a shard that was not turned yet */
    assert_true(srt_client_sleeps(c) >= 0);
    assert_true(srt_client_repeats(c));
    assert_true(srt_client_keeps(c));
    assert_false(srt_client_master_left(c, a.number));
    srt_client_master_disconnected(c, a.number);
    assert_int_equal(srt_client_master_connected_again(c, a.number), SERIATIM_OK);
    assert_true(sends(c, a.number, "text"));
    hears(c, a.number, "$5\r\n1 1 0\r\n");
    assert_false(sends(c, a.number, "WAIT"));
    seriatim_client_free(c);
}

/* Where nothing depends on a connection, it can be used by others, and need not be made anew every few milliseconds. */
static void test_a_push_without_replicas_gives_its_connections_back_while_it_sleeps(void **state)
{
    srt_client_master_view a, b;
    seriatim_client *c = client_that_pushes(0, &a, &b);
    (void)state;
    hears(c, a.number, "$5\r\n1 1 0\r\n");
    hears(c, b.number, "-GENERATION 1\r\n");
    assert_true(srt_client_sleeps(c) >= 0);
    assert_false(srt_client_keeps(c));
    assert_true(srt_client_master_left(c, a.number));
    assert_true(srt_client_master_left(c, b.number));
    srt_client_wake(c);
    assert_int_equal(srt_client_master_connected_again(c, b.number), SERIATIM_OK);
    assert_true(sends(c, b.number, "text"));
    hears(c, b.number, "$5\r\n1 1 0\r\n");
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 2);
    seriatim_client_free(c);
}

/* What was written on the other connection stays so, and its replicas are counted there. */
static void test_a_lost_connection_repeats_nothing_that_was_written_on_another(void **state)
{
    srt_client_master_view a, b;
    seriatim_client *c = client_that_pushes(1, &a, &b);
    (void)state;
    hears(c, a.number, "$5\r\n1 1 0\r\n");
    srt_client_master_disconnected(c, b.number);
    assert_false(sends(c, a.number, "text"));
    assert_int_equal(srt_client_master_connected(c, b.number, NULL, NULL), SERIATIM_OK);
    assert_true(sends(c, b.number, "text"));
    hears(c, b.number, "$5\r\n1 1 0\r\n");
    assert_true(sends(c, a.number, "WAIT"));
    assert_true(sends(c, b.number, "WAIT"));
    hears(c, a.number, ":1\r\n");
    assert_int_equal(srt_client_status(c), SERIATIM_AGAIN);
    hears(c, b.number, ":1\r\n");
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 2);
    seriatim_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_operation_asks_each_master_on_its_own_connection),
        cmocka_unit_test(test_what_held_up_an_earlier_operation_is_forgotten),
        cmocka_unit_test(test_a_push_waits_for_no_replicas_of_what_an_earlier_one_has_written),
        cmocka_unit_test(test_a_push_that_waits_for_replicas_keeps_its_connections_while_it_sleeps),
        cmocka_unit_test(test_a_push_without_replicas_gives_its_connections_back_while_it_sleeps),
        cmocka_unit_test(test_a_lost_connection_repeats_nothing_that_was_written_on_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

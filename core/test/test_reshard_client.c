/*
 * test_reshard_client.c - the action that gives a queue another number of shards, answer by answer: no shard is turned
 * to a layout that may be lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define LAYOUT "$5\r\n1 2 3\r\n"
#define MOVING "$9\r\n7 3 4 2 3\r\n"
#define MASTER "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
#define WITH_REPLICA "*3\r\n$6\r\nmaster\r\n:0\r\n*1\r\n*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n0\r\n"
#define REPLICA "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:0\r\n"

/* The word is to stand `count` times in what the client sends. */
static void shows(seriatim_client *c, size_t count, const char *word)
{
    const char *data;
    size_t len, found = 0, i;
    srt_client_output(c, &data, &len);
    for (i = 0; i + strlen(word) <= len; i++)
        found += memcmp(data + i, word, strlen(word)) == 0;
    if (found != count)
        fail_msg("%lu times %s: %.*s", (unsigned long)found, word, (int)len, data);
}

/* The same, and takes what it sends. */
static void sends(seriatim_client *c, size_t count, const char *word)
{
    const char *data;
    size_t len;
    shows(c, count, word);
    srt_client_output(c, &data, &len);
    srt_client_sent(c, len);
}

static void hears_times(seriatim_client *c, size_t count, const char *answer)
{
    while (count-- > 0)
        assert_int_equal(says(c, answer), SERIATIM_OK);
}

/* The user may call the two commands that are sent behind the new layout. */
static void may_ask_for_replicas(seriatim_client *c)
{
    shows(c, 1, "ROLE");
    sends(c, 1, "WAIT");
    hears_times(c, 1, MASTER);
    sends(c, 0, "3 4 2 3");
    hears_times(c, 1, ":0\r\n");
}

/* Up to the moment at which the layout is written and its master is asked for its replicas. */
static seriatim_client *client_that_has_written(void)
{
    static const seriatim_text three = {"3", 1};
    seriatim_client *c = connected_client(2);
    assert_int_equal(seriatim_action_begin(c, 0, SERIATIM_RESHARD, &three, 1), SERIATIM_OK);
    sends(c, 1, "seriatim:{Q}:layout");
    hears_times(c, 1, LAYOUT);
    sends(c, 1, "seriatim:{/nodes}:alive");
    hears_times(c, 1, "*1\r\n:1000\r\n");
    sends(c, 2, "reshard");
    hears_times(c, 4, "$-1\r\n");
    sends(c, 1, "seriatim:{Q/*}:outbox:*");
    hears_times(c, 1, "*2\r\n$1\r\n0\r\n*0\r\n");
    may_ask_for_replicas(c);
    sends(c, 1, "3 4 2 3");
    hears_times(c, 1, "*2\r\n:1\r\n" MOVING);
    sends(c, 1, "ROLE");
    return c;
}

/* The layout is read again, and brought to its end. */
static void goes_on(seriatim_client *c)
{
    assert_true(srt_client_sleeps(c) >= 0);
    srt_client_wake(c);
    sends(c, 1, "seriatim:{Q}:layout");
    hears_times(c, 1, MOVING);
    sends(c, 2, "reshard");
    hears_times(c, 4, "$-1\r\n");
    sends(c, 1, "ROLE");
}

static void ends(seriatim_client *c)
{
    sends(c, 3, "7 3 4 2 3");
    hears_times(c, 3, "*3\r\n$2\r\nOK\r\n$1\r\n7\r\n" MOVING);
    sends(c, 1, "PUBLISH");
    hears_times(c, 1, ":0\r\n");
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_action_result(c), 1);
    seriatim_client_free(c);
}

static void test_r_reshard_3_a_master_without_replicas_is_enough(void **state)
{
    seriatim_client *c = client_that_has_written();
    (void)state;
    hears_times(c, 1, MASTER);
    ends(c);
}

static void test_r_reshard_3_shards_are_turned_when_a_replica_has_the_layout(void **state)
{
    seriatim_client *c = client_that_has_written();
    (void)state;
    hears_times(c, 1, WITH_REPLICA);
    sends(c, 1, "WAIT");
    hears_times(c, 1, ":0\r\n");
    sends(c, 0, "7 3 4 2 3");
    srt_client_wake(c);
    sends(c, 1, "ROLE");
    hears_times(c, 1, WITH_REPLICA);
    sends(c, 1, "WAIT");
    hears_times(c, 1, ":1\r\n");
    ends(c);
}

static void test_r_reshard_3_a_replica_does_not_count_as_a_master_without_replicas(void **state)
{
    seriatim_client *c = client_that_has_written();
    (void)state;
    hears_times(c, 1, REPLICA);
    sends(c, 0, "7 3 4 2 3");
    goes_on(c);
    hears_times(c, 1, MASTER);
    ends(c);
}

static void test_r_reshard_3_what_a_lost_connection_was_asked_is_asked_anew(void **state)
{
    seriatim_client *c = client_that_has_written();
    (void)state;
    srt_client_disconnected(c);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    goes_on(c);
    hears_times(c, 1, MASTER);
    ends(c);
}

/* Servers wait for replicas as well: they turn the shards when there is one. */
static void test_r_reshard_3_the_servers_turn_the_shards_if_replicas_are_stuck(void **state)
{
    seriatim_client *c = client_that_has_written();
    int i;
    (void)state;
    for (i = 0; i < 60; i++) {
        hears_times(c, 1, WITH_REPLICA);
        sends(c, 1, "WAIT");
        hears_times(c, 1, ":0\r\n");
        if (srt_client_sleeps(c) >= 0)
            srt_client_wake(c);
        if (i < 59)
            sends(c, 1, "ROLE");
    }
    sends(c, 1, "PUBLISH");
    hears_times(c, 1, ":0\r\n");
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_action_result(c), 1);
    seriatim_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_reshard_3_a_master_without_replicas_is_enough),
        cmocka_unit_test(test_r_reshard_3_shards_are_turned_when_a_replica_has_the_layout),
        cmocka_unit_test(test_r_reshard_3_a_replica_does_not_count_as_a_master_without_replicas),
        cmocka_unit_test(test_r_reshard_3_what_a_lost_connection_was_asked_is_asked_anew),
        cmocka_unit_test(test_r_reshard_3_the_servers_turn_the_shards_if_replicas_are_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

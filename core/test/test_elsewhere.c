/* test_elsewhere.c - calls for one id of a cluster while ids move, answer by answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "peer.h"

#define DELETED "*3\r\n$1\r\n1\r\n$0\r\n\r\n:1\r\n"
#define MAP "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nA\r\n:1\r\n"
#define MOVING "$9\r\n7 3 4 2 3\r\n"
#define MOVED "-ELSEWHERE moved 5000\r\n"
#define MASTER "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
#define WITH_REPLICA "*3\r\n$6\r\nmaster\r\n:0\r\n*1\r\n*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n0\r\n"

/* The word is to stand in what the client sends, which is taken. */
static void sends(seriatim_client *c, const char *word)
{
    const char *data;
    size_t len, found = 0, i;
    srt_client_output(c, &data, &len);
    for (i = 0; i + strlen(word) <= len; i++)
        found += memcmp(data + i, word, strlen(word)) == 0;
    if (found != 1)
        fail_msg("%lu times %s: %.*s", (unsigned long)found, word, (int)len, data);
    srt_client_sent(c, len);
}

static void hears_of(seriatim_client *c, const char *answer)
{
    assert_int_equal(says(c, answer), SERIATIM_OK);
}

/* Of a cluster of one master. It deletes an id, whose old shard has said that the id is not there. */
static seriatim_client *client_that_deletes(void)
{
    static char id[32];
    seriatim_client *c = new_client(NULL, 2, "keep");
    seriatim_text text = {id, 0};
    int number = 0;
    do
        snprintf(id, sizeof id, "id-%d", number++);
    while (seriatim_shard_of(id, strlen(id), 2) != 0 || seriatim_shard_of(id, strlen(id), 3) != 1);
    text.len = strlen(id);
    assert_int_equal(srt_cluster_seed(&c->cluster, "A", 1), SERIATIM_OK);
    assert_int_equal(seriatim_action_begin(c, 0, SERIATIM_DELETE, &text, 1), SERIATIM_OK);
    srt_client_tick(c, 1000);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    sends(c, "SLOTS");
    hears_of(c, MAP);
    sends(c, "seriatim:{Q}:layout");
    hears_of(c, MOVING);
    sends(c, "here");
    hears_of(c, MOVED);
    sends(c, "ROLE");
    return c;
}

static void test_a_call_goes_to_the_new_shard_when_its_master_has_no_replicas(void **state)
{
    seriatim_client *c = client_that_deletes();
    (void)state;
    hears_of(c, MASTER);
    sends(c, "from 5000");
    hears_of(c, DELETED);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_action_result(c), 1);
    seriatim_client_free(c);
}

/* The master has become a replica, or runs a script: who has its shards is asked anew. */
static void test_a_call_begins_anew_if_nobody_can_say_whether_replicas_know_that_its_id_has_moved(void **state)
{
    static const char *const answers[][2] = {
        {WITH_REPLICA, "-ERR WAIT cannot be used with replica instances. Please also note that...\r\n"},
        {NULL, "-BUSY Redis is busy running a script.\r\n"}};
    size_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        seriatim_client *c = client_that_deletes();
        if (answers[i][0]) {
            hears_of(c, answers[i][0]);
            sends(c, "WAIT");
        }
        hears_of(c, answers[i][1]);
        assert_int_equal(srt_client_status(c), SERIATIM_AGAIN);
        assert_true(srt_client_sleeps(c) >= 0);
        srt_client_wake(c);
        sends(c, "here");
        hears_of(c, DELETED);
        assert_int_equal(srt_client_status(c), SERIATIM_OK);
        assert_int_equal(seriatim_action_result(c), 1);
        seriatim_client_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_goes_to_the_new_shard_when_its_master_has_no_replicas),
        cmocka_unit_test(test_a_call_begins_anew_if_nobody_can_say_whether_replicas_know_that_its_id_has_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

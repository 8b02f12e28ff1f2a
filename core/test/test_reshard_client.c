/*
 * test_reshard_client.c - the action that gives a queue another number of shards, answer by answer: no shard is turned
 * to a layout that may be lost. And a push of many jobs while ids move.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing.h"
#include "model/stored.h"
#include "peer.h"

#define LAYOUT "$5\r\n1 2 3\r\n"
#define STATE_BYTES 133
#define MOVING "$9\r\n7 3 4 2 3\r\n"
#define MOVING_PAUSED "$16\r\n7 3 4 2 3 paused\r\n"
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

/* The answer to GET: the state of a shard. */
static const char *state_of(int is_paused)
{
    static char answer[STATE_BYTES + 16];
    int at = snprintf(answer, sizeof answer, "$%d\r\n", STATE_BYTES);
    memset(answer + at, '0', STATE_BYTES);
    answer[at + SRT_STATE_FLAGS] = is_paused ? '0' + SRT_FLAG_PAUSED : '0';
    strcpy(answer + at + STATE_BYTES, "\r\n");
    return answer;
}

/* Up to the moment at which the layout is written and its master is asked for its replicas. given: each shard's state.
 */
static seriatim_client *client_with_states(const char *given, int is_paused)
{
    static const seriatim_text three = {"3", 1};
    seriatim_client *c = connected_client(2);
    int i;
    assert_int_equal(seriatim_action_begin(c, 0, SERIATIM_RESHARD, &three, 1), SERIATIM_OK);
    sends(c, 1, "seriatim:{Q}:layout");
    hears_times(c, 1, LAYOUT);
    sends(c, 1, "seriatim:{/nodes}:alive");
    hears_times(c, 1, "*1\r\n:1000\r\n");
    sends(c, 1, "seriatim:{Q/*}:outbox:*");
    hears_times(c, 1, "*2\r\n$1\r\n0\r\n*0\r\n");
    may_ask_for_replicas(c);
    sends(c, 2, "reshard");
    for (i = 0; i < 2; i++) {
        hears_times(c, 1, given);
        hears_times(c, 1, "$-1\r\n");
    }
    sends(c, 1, is_paused ? "3 4 2 3 paused" : "3 4 2 3\r\n");
    hears_times(c, 1, is_paused ? "*2\r\n:1\r\n" MOVING_PAUSED : "*2\r\n:1\r\n" MOVING);
    sends(c, 1, "ROLE");
    return c;
}

static seriatim_client *client_that_has_written(int is_paused)
{
    return client_with_states(state_of(is_paused), is_paused);
}

static void test_r_reshard_4_a_queue_that_was_never_used_is_not_paused(void **state)
{
    (void)state;
    seriatim_client_free(client_with_states("$-1\r\n", 0));
}

/* The layout is read again, and brought to its end. */
static void goes_on(seriatim_client *c)
{
    char space[64];
    srt_bytes channels = {NULL, space, 0, sizeof space, 0};
    assert_true(srt_client_sleeps(c) >= 0);
    assert_int_equal(srt_client_channels(c, &channels), SERIATIM_OK); /* only a pop rests until a message comes */
    assert_int_equal(channels.len, 0);
    srt_client_wake(c);
    sends(c, 1, "seriatim:{Q}:layout");
    hears_times(c, 1, MOVING);
    sends(c, 2, "reshard");
    hears_times(c, 4, "$-1\r\n");
    sends(c, 1, "ROLE");
}

/* The states are asked for once more, and the shards are turned. */
static void turns(seriatim_client *c, int is_paused)
{
    sends(c, 2, ":state");
    hears_times(c, 2, state_of(is_paused));
    sends(c, 3, "7 3 4 2 3");
    hears_times(c, 3, "*3\r\n$2\r\nOK\r\n$1\r\n7\r\n" MOVING);
}

static void ends(seriatim_client *c)
{
    sends(c, 1, "PUBLISH");
    hears_times(c, 1, ":0\r\n");
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_action_result(c), 1);
    seriatim_client_free(c);
}

static void test_r_reshard_3_a_master_without_replicas_is_enough(void **state)
{
    seriatim_client *c = client_that_has_written(0);
    (void)state;
    hears_times(c, 1, MASTER);
    turns(c, 0);
    ends(c);
}

static void test_r_reshard_3_shards_are_turned_when_a_replica_has_the_layout(void **state)
{
    seriatim_client *c = client_that_has_written(0);
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
    turns(c, 0);
    ends(c);
}

static void test_r_reshard_3_a_replica_does_not_count_as_a_master_without_replicas(void **state)
{
    seriatim_client *c = client_that_has_written(0);
    (void)state;
    hears_times(c, 1, REPLICA);
    sends(c, 0, "7 3 4 2 3");
    goes_on(c);
    hears_times(c, 1, MASTER);
    turns(c, 0);
    ends(c);
}

static void test_r_reshard_3_what_a_lost_connection_was_asked_is_asked_anew(void **state)
{
    seriatim_client *c = client_that_has_written(0);
    (void)state;
    srt_client_disconnected(c);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    goes_on(c);
    hears_times(c, 1, MASTER);
    turns(c, 0);
    ends(c);
}

/* Servers wait for replicas as well: they turn the shards when there is one. */
static void test_r_reshard_3_the_servers_turn_the_shards_if_replicas_are_stuck(void **state)
{
    seriatim_client *c = client_that_has_written(0);
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

/* A shard that the queue gets is as the layout says, and a pause came too late for that. */
static void test_r_reshard_4_a_pause_or_resume_behind_the_layout_is_told_to_new_shards(void **state)
{
    int is_paused;
    (void)state;
    for (is_paused = 0; is_paused < 2; is_paused++) {
        seriatim_client *c = client_that_has_written(is_paused);
        hears_times(c, 1, MASTER);
        turns(c, !is_paused);
        shows(c, 0, "seriatim:{Q/1}:state");
        sends(c, 1, "seriatim:{Q/2}:state");
        hears_times(c, 1, ":1\r\n");
        ends(c);
    }
}

/* Who begins a move has read the states before the pause, and turns the shards behind it. */
static void test_r_reshard_4_a_pause_begins_anew_if_the_layout_is_another_one_behind_it(void **state)
{
    seriatim_client *c = connected_client(2);
    (void)state;
    assert_int_equal(seriatim_action_begin(c, 0, SERIATIM_PAUSE, NULL, 0), SERIATIM_OK);
    sends(c, 1, "seriatim:{Q}:layout");
    hears_times(c, 1, LAYOUT);
    sends(c, 2, ":state");
    hears_times(c, 2, ":1\r\n");
    sends(c, 1, "seriatim:{Q}:layout");
    hears_times(c, 1, MOVING);
    shows(c, 1, "seriatim:{Q/2}:state");
    sends(c, 3, ":state");
    hears_times(c, 2, ":0\r\n");
    hears_times(c, 1, ":1\r\n");
    sends(c, 1, "seriatim:{Q}:layout");
    hears_times(c, 1, MOVING);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_action_result(c), 3);
    seriatim_client_free(c);
}

static char padding[64]; /* the namespace: its length decides at which request the buffer grows */

/* Up to the commands that are tried before the layout is written. */
static int ask_rights_with(const seriatim_options *options)
{
    static const char *const answers[] = {LAYOUT, "*1\r\n:1000\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"};
    static const seriatim_text three = {"3", 1};
    seriatim_options padded = *options;
    seriatim_client *c;
    int i = 0, asks;
    padded.ns = padding;
    c = new_client(&padded, 2, "keep");
    if (c && srt_client_connected(c, NULL, NULL, 0) == SERIATIM_OK &&
        seriatim_action_begin(c, 0, SERIATIM_RESHARD, &three, 1) == SERIATIM_OK)
        while (i < 3 && srt_client_status(c) == SERIATIM_AGAIN && says(c, answers[i]) == SERIATIM_OK)
            i++;
    asks = i == 3 && srt_client_status(c) == SERIATIM_AGAIN;
    seriatim_client_free(c);
    return asks;
}

static void test_every_allocation_before_the_layout_is_written_may_fail(void **state)
{
    size_t len;
    (void)state;
    for (len = 1; len < sizeof padding; len++) {
        memset(padding, 'n', len);
        assert_every_allocation_may_fail(ask_rights_with);
    }
}

/* ---- A push while ids move --------------------------------------------------------------------- */

/* An id that lies in shard 0 of 2 and in shard 1 of 3. */
static const char *foreign_id(int *number)
{
    static char id[32];
    do
        snprintf(id, sizeof id, "id-%d", ++*number);
    while (seriatim_shard_of(id, strlen(id), 2) != 0 || seriatim_shard_of(id, strlen(id), 3) != 1);
    return id;
}

/* One master has all slots. */
static seriatim_client *client_of_a_cluster(void)
{
    seriatim_client *c = new_client(NULL, 2, "keep");
    assert_int_equal(srt_cluster_seed(&c->cluster, "A", 1), SERIATIM_OK);
    srt_cluster_tick(&c->cluster, 1000);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    return c;
}

/* It waits until a replica knows that the id has left its old shard. */
static void test_a_client_that_is_freed_frees_calls_for_ids_that_have_moved(void **state)
{
    failing memory = {0};
    seriatim_allocator mem = {failing_alloc, &memory};
    seriatim_options options = {0};
    seriatim_client *c;
    seriatim_text id;
    int number = 0;
    (void)state;
    options.allocator = &mem;
    c = new_client(&options, 2, "keep");
    id.data = foreign_id(&number);
    id.len = strlen(id.data);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(seriatim_action_begin(c, 0, SERIATIM_DELETE, &id, 1), SERIATIM_OK);
    sends(c, 1, "seriatim:{Q}:layout");
    hears_times(c, 1, MOVING);
    sends(c, 1, "here");
    hears_times(c, 1, "-ELSEWHERE moved 5000\r\n");
    sends(c, 1, "ROLE");
    seriatim_client_free(c);
    assert_int_equal(memory.live, 0);
}

enum { TO_ONE_REDIS, TO_A_CLUSTER, OF_AN_OUTBOX, WITH_A_REPLICA };

/* Begins a push of `count` jobs with foreign ids; the last job has the id of the first. The client has the layout. */
static seriatim_client *client_that_pushes(int count, int how)
{
    seriatim_client *c = how == TO_A_CLUSTER ? client_of_a_cluster() : connected_client(2);
    int first = 0, number = 0, i;
    foreign_id(&first);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    if (how == OF_AN_OUTBOX)
        assert_int_equal(seriatim_push_outbox(c, "rows"), SERIATIM_OK);
    if (how == WITH_A_REPLICA)
        assert_int_equal(seriatim_push_replicas(c, 1, 1), SERIATIM_OK);
    for (i = 0; i < count; i++) {
        seriatim_job job;
        seriatim_job_init(&job);
        if (i == count - 1)
            number = first - 1;
        job.id = foreign_id(&number);
        job.id_len = strlen(job.id);
        job.payload = "text";
        job.payload_len = 4;
        job.number = how == OF_AN_OUTBOX ? i + 1 : 0;
        assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    if (how == TO_A_CLUSTER) {
        srt_cluster_tick(&c->cluster, 1001);
        sends(c, 1, "SLOTS");
        hears_times(c, 1, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nA\r\n:1\r\n");
    }
    sends(c, 1, "seriatim:{Q}:layout");
    hears_times(c, 1, MOVING);
    return c;
}

static void push_ends(seriatim_client *c, size_t added, size_t folded)
{
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, added);
    assert_int_equal(seriatim_push_result(c).folded, folded);
    seriatim_client_free(c);
}

/* No id of the question is in the old shard, whose tick is 5000, and its master has no replicas. */
static void hears_of_absence(seriatim_client *c)
{
    hears_times(c, 1, "$4\r\n5000\r\n");
    sends(c, 1, "ROLE");
    hears_times(c, 1, MASTER);
}

static void test_a_push_of_many_jobs_asks_for_ids_alone(void **state)
{
    seriatim_client *c = client_that_pushes(20, TO_A_CLUSTER);
    (void)state;
    shows(c, 1, "seriatim:{Q/0}:state");
    sends(c, 0, "text");
    hears_of_absence(c);
    shows(c, 1, "seriatim:{Q/1}:state");
    shows(c, 1, "2 5000"); /* the least tick of the new shard */
    sends(c, 20, "text");
    hears_times(c, 1, "$7\r\n20 19 1\r\n");
    push_ends(c, 19, 1);
}

static void test_a_push_goes_to_the_old_shard_if_an_id_is_there(void **state)
{
    seriatim_client *c = client_that_pushes(20, TO_A_CLUSTER);
    (void)state;
    sends(c, 0, "text");
    hears_times(c, 1, "$0\r\n\r\n");
    shows(c, 1, "2 here");
    sends(c, 20, "text");
    hears_times(c, 1, "$8\r\n20 0 20 \r\n");
    push_ends(c, 0, 20);
}

/* It is sent again as it is: a shard without a state takes jobs of an earlier layout until it is turned. */
static void test_the_question_for_ids_waits_until_its_shard_is_turned(void **state)
{
    seriatim_client *c = client_that_pushes(20, TO_A_CLUSTER);
    int i;
    (void)state;
    for (i = 0; i < 3; i++) {
        shows(c, 1, "seriatim:{Q/0}:state");
        sends(c, 0, "text");
        hears_times(c, 1, "-GENERATION 1\r\n");
        sends(c, 0, "seriatim");
        assert_true(srt_client_sleeps(c) >= 0);
        srt_client_wake(c);
    }
    sends(c, 1, "seriatim:{Q/0}:state");
    hears_of_absence(c);
    shows(c, 1, "seriatim:{Q/1}:state");
    sends(c, 20, "text");
    seriatim_client_free(c);
}

/* Else the second job of an id, which has moved between the two calls, would overtake the first one. */
static void test_jobs_of_one_id_go_the_same_way(void **state)
{
    seriatim_client *c = client_that_pushes(1001, TO_A_CLUSTER);
    (void)state;
    sends(c, 0, "text");
    hears_times(c, 1, "$0\r\n\r\n");
    sends(c, 1, "seriatim:{Q/0}:state");
    hears_of_absence(c);
    shows(c, 1, "2 here");
    shows(c, 0, "seriatim:{Q/1}:state");
    sends(c, 1000, "text");
    seriatim_client_free(c);
}

static void test_a_push_of_few_jobs_or_of_an_outbox_does_not_ask(void **state)
{
    seriatim_client *few = client_that_pushes(19, TO_A_CLUSTER), *outbox = client_that_pushes(20, OF_AN_OUTBOX);
    (void)state;
    sends(few, 1, "2 here");
    sends(outbox, 1, "3 here");
    seriatim_client_free(few);
    seriatim_client_free(outbox);
}

static void test_a_push_to_one_redis_has_the_old_shard_looked_into(void **state)
{
    seriatim_client *c = client_that_pushes(3, TO_ONE_REDIS);
    (void)state;
    shows(c, 1, "seriatim:{Q/1}:state");
    shows(c, 1, "2 unless 0:3\r\n");
    sends(c, 3, "text");
    hears_times(c, 1, "-GENERATION 1\r\n"); /* one of the two shards was not turned yet */
    assert_true(srt_client_sleeps(c) >= 0);
    srt_client_wake(c);
    shows(c, 1, "2 unless 0:3\r\n");
    sends(c, 3, "text");
    hears_times(c, 1, "$5\r\n3 2 1\r\n");
    push_ends(c, 2, 1);
}

/* Its first id is still in the old shard, and the second call of 1,000 has a job of the same id. */
static void test_jobs_whose_id_is_in_the_old_shard_go_there_in_their_order(void **state)
{
    static char answer[1100];
    seriatim_client *c = client_that_pushes(1001, TO_ONE_REDIS);
    int at = snprintf(answer, sizeof answer, "$1012\r\n1000 999 0 lh");
    (void)state;
    sends(c, 1000, "text");
    memset(answer + at, 'n', 999);
    strcpy(answer + at + 999, "\r\n");
    hears_times(c, 1, answer);
    shows(c, 0, "unless");
    shows(c, 1, "2 here");
    sends(c, 2, "text");
    hears_times(c, 1, "$6\r\n2 0 2 \r\n");
    push_ends(c, 999, 2);
}

/* Begins a push of `count` jobs with the ids id-0, id-1 and so on. `layout`: the answer of Redis. */
static seriatim_client *client_that_pushes_ids(int count, const char *layout)
{
    seriatim_client *c = connected_client(2);
    char id[16];
    int i;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    for (i = 0; i < count; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        assert_int_equal(add_job(c, id, "text"), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    sends(c, 1, "seriatim:{Q}:layout");
    hears_times(c, 1, layout);
    return c;
}

/* id-0 to id-3 and id-8 and id-9 are of shard 0 of 2, and id-4 to id-7 of shard 1. */
static void test_the_jobs_of_an_old_shard_follow_one_another(void **state)
{
    seriatim_client *c = client_that_pushes_ids(10, "$9\r\n7 1 4 2 2\r\n");
    (void)state;
    shows(c, 1, "2 unless -:6,1:4\r\n");
    sends(c, 10, "text");
    hears_times(c, 1, "$18\r\n10 9 0 lnnnnnnnnnh\r\n");
    shows(c, 1, "2 here");
    shows(c, 1, "id-7");
    sends(c, 1, "text");
    hears_times(c, 1, "$6\r\n1 0 1 \r\n");
    push_ends(c, 9, 1);
}

/* Each costs Redis six commands. */
static void test_a_call_looks_into_few_of_many_old_shards(void **state)
{
    seriatim_client *c = client_that_pushes_ids(300, "$13\r\n7 1 4 201 201\r\n");
    (void)state;
    sends(c, 200, "text");
    hears_times(c, 1, "$9\r\n200 200 0\r\n");
    sends(c, 100, "text");
    hears_times(c, 1, "$9\r\n100 100 0\r\n");
    push_ends(c, 300, 0);
}

/* The master that said that the id is still there died before a replica had the push. The next one writes it. */
static void test_what_a_lost_master_said_of_an_id_does_not_count(void **state)
{
    seriatim_client *c = client_that_pushes(1, WITH_A_REPLICA);
    (void)state;
    sends(c, 1, "2 unless 0:1\r\n");
    hears_times(c, 1, "$8\r\n1 0 0 lh\r\n");
    sends(c, 1, "WAIT");
    srt_client_disconnected(c);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    sends(c, 1, "2 unless 0:1\r\n");
    hears_times(c, 1, "$5\r\n1 1 0\r\n");
    sends(c, 1, "WAIT");
    hears_times(c, 1, ":1\r\n");
    sends(c, 0, "text");
    push_ends(c, 1, 0);
}

/* A deletion, whose process has died, closed the shard before the layout was replaced. */
static void test_a_push_to_a_closed_shard_waits_until_it_is_turned(void **state)
{
    seriatim_client *c = client_that_pushes(1, TO_A_CLUSTER);
    (void)state;
    sends(c, 1, "2 here");
    hears_times(c, 1, "-GENERATION -2\r\n");
    assert_true(srt_client_sleeps(c) >= 0);
    srt_client_wake(c);
    shows(c, 0, "seriatim:{Q}:layout");
    sends(c, 1, "2 here");
    hears_times(c, 1, "$5\r\n1 1 0\r\n");
    push_ends(c, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_reshard_3_a_master_without_replicas_is_enough),
        cmocka_unit_test(test_r_reshard_3_shards_are_turned_when_a_replica_has_the_layout),
        cmocka_unit_test(test_r_reshard_3_a_replica_does_not_count_as_a_master_without_replicas),
        cmocka_unit_test(test_r_reshard_3_what_a_lost_connection_was_asked_is_asked_anew),
        cmocka_unit_test(test_r_reshard_3_the_servers_turn_the_shards_if_replicas_are_stuck),
        cmocka_unit_test(test_r_reshard_4_a_pause_or_resume_behind_the_layout_is_told_to_new_shards),
        cmocka_unit_test(test_r_reshard_4_a_pause_begins_anew_if_the_layout_is_another_one_behind_it),
        cmocka_unit_test(test_r_reshard_4_a_queue_that_was_never_used_is_not_paused),
        cmocka_unit_test(test_every_allocation_before_the_layout_is_written_may_fail),
        cmocka_unit_test(test_a_client_that_is_freed_frees_calls_for_ids_that_have_moved),
        cmocka_unit_test(test_a_push_of_many_jobs_asks_for_ids_alone),
        cmocka_unit_test(test_a_push_goes_to_the_old_shard_if_an_id_is_there),
        cmocka_unit_test(test_the_question_for_ids_waits_until_its_shard_is_turned),
        cmocka_unit_test(test_jobs_of_one_id_go_the_same_way),
        cmocka_unit_test(test_a_push_of_few_jobs_or_of_an_outbox_does_not_ask),
        cmocka_unit_test(test_a_push_to_one_redis_has_the_old_shard_looked_into),
        cmocka_unit_test(test_jobs_whose_id_is_in_the_old_shard_go_there_in_their_order),
        cmocka_unit_test(test_the_jobs_of_an_old_shard_follow_one_another),
        cmocka_unit_test(test_a_call_looks_into_few_of_many_old_shards),
        cmocka_unit_test(test_what_a_lost_master_said_of_an_id_does_not_count),
        cmocka_unit_test(test_a_push_to_a_closed_shard_waits_until_it_is_turned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

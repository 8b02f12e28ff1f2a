/*
 * test_reshard_turn.c - shards that are given another layout while they are closed for a deletion, on a
 * real redis-server.
 */
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

#define SRT_SCRIPT_TEXTS
#include "reshard_fixture.h"

/* An id that lies in shard `from` of 2 and in shard `to` of 3. */
static const char *id_between(unsigned from, unsigned to)
{
    static char ids[4][16];
    static int next;
    char *id = ids[next++ % 4];
    int i = 0;
    do
        snprintf(id, sizeof ids[0], "id-%d", i++);
    while (seriatim_shard_of(id, strlen(id), 2) != from || seriatim_shard_of(id, strlen(id), 3) != to);
    return id;
}

/* ---- A move beside a deletion ------------------------------------------------------------------ */

/* The answer of a step of a deletion, by the generation that the deletion has given. */
static redisReply *wipe(const char *generation)
{
    shard_call call;
    CALL(&call, 0, wipe, generation);
    call_text(&call, "1");
    call_text(&call, "0");
    return call_send(&call, 1);
}

/* The process that deletes dies behind its first close, or goes on too late. */
static void test_a_shard_that_was_closed_for_a_deletion_is_opened_by_a_later_layout(void **state)
{
    fixture f = open_queue(2, "list");
    const char *id;
    shard_call call;
    redisReply *reply;
    move m;
    (void)state;
    push(&f, id = id_between(0, 1), "1", none);
    REDIS("SET seriatim:{Q}:deleted %s", "2 2 1");
    freeReplyObject(ON_SHARD(0, close, "2"));
    move_begin(&m, 3);
    push(&f, id, "2", none);
    CALL(&call, 0, close, "2");
    reply = call_send(&call, 1);
    assert_non_null(strstr(reply->str, "GENERATION"));
    freeReplyObject(reply);
    reply = wipe("2");
    assert_non_null(strstr(reply->str, "GENERATION"));
    freeReplyObject(reply);
    move_all(&m);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, id), "1,2");
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* Else the deletion would go on in shards of the new layout. The clock of Redis is behind. */
static void test_a_layout_is_later_than_the_generation_that_a_deletion_has_given(void **state)
{
    fixture f = open_queue(2, "list");
    redisReply *reply;
    move m;
    (void)state;
    REDIS("SET seriatim:{Q}:layout %s", "8000000000000000 2 3");
    push(&f, id_between(0, 1), "1", none);
    REDIS("SET seriatim:{Q}:deleted %s", "8000000000000001 2 1");
    freeReplyObject(ON_SHARD(0, close, "8000000000000001"));
    move_begin(&m, 3);
    assert_string_equal(m.generation, "8000000000000002");
    reply = wipe("8000000000000001");
    assert_non_null(strstr(reply->str, "GENERATION"));
    freeReplyObject(reply);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_shard_that_was_closed_for_a_deletion_is_opened_by_a_later_layout),
        cmocka_unit_test(test_a_layout_is_later_than_the_generation_that_a_deletion_has_given),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

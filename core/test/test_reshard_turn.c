/*
 * test_reshard_turn.c - shards that are given another layout while they are closed for a deletion, or after their state
 * was lost, on a real redis-server.
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
#include "live_node.h"
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

/* The process that deletes died between two shards, and layout.lua has let the queue go on. */
static void test_a_server_turns_the_shards_that_a_deletion_had_not_closed(void **state)
{
    fixture f = open_queue(2, "list");
    push_options later = {.delay = 3600};
    live_node n;
    (void)state;
    push(&f, id_between(0, 1), "1", later);
    push(&f, id_between(1, 0), "1", later);
    REDIS("SET seriatim:{Q}:deleted %s", "2 2 1");
    freeReplyObject(ON_SHARD(0, close, "2"));
    push(&f, id_between(0, 1), "2", later);
    live_start(&n, "one", 2, 0, NULL);
    live_await_shards(&n, 2);
    push(&f, id_between(1, 0), "2", later);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, id_between(1, 0)), "1,2");
    live_stop(&n);
    close_queue(&f);
}

/* ---- A state that was lost --------------------------------------------------------------------- */

static void lose_state(unsigned shard)
{
    freeReplyObject(redis("DEL seriatim:{Q/%u}:state", shard));
}

static void acquire_anew(const move *m, unsigned shard)
{
    redisReply *reply = ON_SHARD(shard, acquire, m->generation, "n1", "0", "", "0");
    assert_string_equal(reply->element[0]->str, "OK");
    freeReplyObject(reply);
}

static void test_ids_leave_a_source_whose_state_was_lost_and_made_anew(void **state)
{
    fixture f = open_queue(2, "list");
    const char *id;
    move m;
    (void)state;
    push(&f, id = id_between(0, 1), "1", none);
    move_begin(&m, 3);
    lose_state(0);
    acquire_anew(&m, 0);
    assert_string_equal(turn_shard(0, m.layout), "OK");
    assert_string_equal(turn_shard(0, m.layout), "SAME");
    move_all(&m);
    assert_int_equal(is_stored(1, id), 1);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_ids_leave_a_source_whose_state_was_repaired(void **state)
{
    fixture f = open_queue(2, "list");
    const char *id;
    move m;
    (void)state;
    push(&f, id = id_between(0, 1), "1", none);
    move_begin(&m, 3);
    lose_state(0);
    assert_string_equal(kinds_found(&f, f.queue, 1), "state");
    move_all(&m);
    assert_int_equal(is_stored(1, id), 1);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* It lists nothing, and ids that come back to jobs do not say so. */
static void test_a_scan_that_began_before_a_source_was_known_again_does_not_count(void **state)
{
    int repairs;
    (void)state;
    for (repairs = 0; repairs < 2; repairs++) {
        fixture f = open_queue(2, "list");
        char mark[32];
        redisReply *reply;
        move m;
        push(&f, id_between(0, 1), "1", none);
        move_begin(&m, 3);
        reply = ON_SHARD(0, foreign, m.generation, "dead", "0");
        snprintf(mark, sizeof mark, "%s", reply->element[1]->str);
        freeReplyObject(reply);
        lose_state(0);
        if (repairs)
            assert_string_equal(kinds_found(&f, f.queue, 1), "state");
        else
            acquire_anew(&m, 0);
        turn_shard(0, m.layout);
        reply = ON_SHARD(0, out, m.generation, mark);
        assert_int_equal(reply->integer, 0);
        freeReplyObject(reply);
        move_all(&m);
        close_queue(&f);
    }
}

/* A shard remembers the batches that have come, also if its state is lost. */
static void test_a_batch_arrives_once_in_a_shard_whose_state_was_lost(void **state)
{
    int anew;
    (void)state;
    for (anew = 0; anew < 2; anew++) {
        fixture f = open_queue(2, "list");
        const char *id;
        redisReply *batch;
        move m;
        push(&f, id = id_between(0, 1), "1", none);
        move_begin(&m, 3);
        batch = depart(&m, 0, id);
        m.until = 2;
        assert_false(bring(&m, 0, batch)); /* it has arrived, and the mover is dead */
        m.until = 0;
        freeReplyObject(ON_SHARD(1, delete, m.generation, "", "", "list", id));
        assert_int_equal(is_stored(1, id), 0);
        lose_state(1);
        if (anew)
            acquire_anew(&m, 1);
        assert_string_equal(turn_shard(1, m.layout), "OK");
        assert_true(bring(&m, 0, batch));
        freeReplyObject(batch);
        assert_int_equal(is_stored(1, id), 0);
        close_queue(&f);
    }
}

/* An id that runs holds up the end of the move. */
static void test_a_server_turns_a_shard_again_whose_state_was_lost(void **state)
{
    static live_log ran;
    fixture f = open_queue(2, "list");
    live_node n;
    int i;
    (void)state;
    live_lease_ms = 20000;
    push(&f, id_between(0, 1), "1", none);
    live_start(&n, "mover", 2, 1, &ran);
    n.run_ms = LIVE_MOST_MS;
    for (i = 0; i < LIVE_MOST_MS && ran.count == 0; i++)
        live_step(&n);
    assert_int_equal(ran.count, 1);
    assert_int_equal(act_on(&f, SERIATIM_RESHARD, "3"), 1);
    for (i = 0; i < LIVE_MOST_MS && n.node->workers[0]->old_count == 0; i++)
        live_step(&n);
    live_await_shards(&n, 3);
    for (i = 0; i < 200; i++)
        live_step(&n);
    lose_state(0);
    n.run_ms = 0;
    live_end_runs(&n);
    live_move(&n, 1, 3);
    live_lease_ms = 1000;
    live_stop(&n);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_shard_that_was_closed_for_a_deletion_is_opened_by_a_later_layout),
        cmocka_unit_test(test_a_layout_is_later_than_the_generation_that_a_deletion_has_given),
        cmocka_unit_test(test_a_server_turns_the_shards_that_a_deletion_had_not_closed),
        cmocka_unit_test(test_ids_leave_a_source_whose_state_was_lost_and_made_anew),
        cmocka_unit_test(test_ids_leave_a_source_whose_state_was_repaired),
        cmocka_unit_test(test_a_scan_that_began_before_a_source_was_known_again_does_not_count),
        cmocka_unit_test(test_a_batch_arrives_once_in_a_shard_whose_state_was_lost),
        cmocka_unit_test(test_a_server_turns_a_shard_again_whose_state_was_lost),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

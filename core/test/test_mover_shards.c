/*
 * test_mover_shards.c - what shards are while a running server moves ids, on a real redis-server: those that a queue
 * gets are paused or not as the queue was, and those that it loses leave nothing that check finds.
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
#include "model/stored.h"
#include "reshard_fixture.h"

#define MOST_MS 120000 /* that anything may take on a busy machine */

static live_log run_log;

/* Only the layout is written, as by a command that dies then. */
static void write_layout(const char *words)
{
    redisReply *time = redis("TIME");
    char text[96];
    snprintf(text, sizeof text, "%s%06d %s", time->element[0]->str, atoi(time->element[1]->str), words);
    REDIS("SET seriatim:{Q}:layout %s", text);
    freeReplyObject(time);
}

static int layout_ends_with(const char *words)
{
    redisReply *reply = redis("GET seriatim:{Q}:layout");
    size_t len = strlen(words);
    int ends = reply->len >= len && strcmp(reply->str + reply->len - len, words) == 0;
    freeReplyObject(reply);
    return ends;
}

/* Fields of a hash of a shard. */
static long long count_in(unsigned shard, const char *key)
{
    redisReply *reply = redis("HLEN seriatim:{Q/%u}:%s", shard, key);
    long long count = reply->integer;
    freeReplyObject(reply);
    return count;
}

static void step_until_layout(live_node *n, const char *words)
{
    int64_t until = live_now() + MOST_MS;
    while (!layout_ends_with(words)) {
        live_step(n);
        assert_true(live_now() < until);
    }
}

static void reshard(const fixture *f, const char *shards)
{
    assert_int_equal(act_on(f, SERIATIM_RESHARD, shards), 1);
}

/* ---- Paused ---------------------------------------------------------------------------------- */

/* 1 or 0, by shard; '-' for one without a state. */
static const char *paused(unsigned shards)
{
    static char text[16];
    unsigned shard;
    for (shard = 0; shard < shards; shard++) {
        redisReply *reply = redis("GET seriatim:{Q/%u}:state", shard);
        text[shard] = '-';
        if (reply->type == REDIS_REPLY_STRING)
            text[shard] = (char)('0' + ((reply->str[SRT_STATE_FLAGS] & SRT_FLAG_PAUSED) != 0));
        freeReplyObject(reply);
    }
    text[shards] = '\0';
    return text;
}

static void push_some(const fixture *f, int count)
{
    char id[16];
    int i;
    for (i = 0; i < count; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        push(f, id, "1", none);
    }
}

/* Who began the move has died before it turned a shard, and a server that knows nothing of the queue does the rest. */
static void test_shards_that_a_paused_queue_gets_are_paused(void **state)
{
    fixture f = open_queue(3, "list");
    live_node n;
    (void)state;
    run_log.count = 0;
    push_some(&f, 1);
    act(&f, SERIATIM_PAUSE);
    push_some(&f, 50);
    write_layout("5 4 3 5 paused");
    live_start(&n, "one", 3, 2, &run_log);
    step_until_layout(&n, " 5 3");
    live_await_shards(&n, 5);
    assert_string_equal(paused(5), "11111");
    assert_int_equal(run_log.count, 0);
    live_stop(&n);
    close_queue(&f);
}

static void test_who_begins_a_move_says_whether_the_queue_is_paused(void **state)
{
    fixture f = open_queue(3, "list");
    (void)state;
    push_some(&f, 10);
    act(&f, SERIATIM_PAUSE);
    reshard(&f, "5");
    assert_true(layout_ends_with(" 5 4 3 5 paused"));
    assert_string_equal(paused(5), "11111");
    close_queue(&f);
}

/* It has been paused with five shards and resumed with three. */
static void test_a_shard_that_the_queue_gets_again_is_paused_no_more(void **state)
{
    fixture f = open_queue(5, "list");
    live_node n;
    (void)state;
    run_log.count = 0;
    push_some(&f, 50);
    act(&f, SERIATIM_PAUSE);
    live_start(&n, "one", 5, 2, &run_log);
    live_await_shards(&n, 5);
    reshard(&f, "3");
    step_until_layout(&n, " 3 4 0 5");
    live_await_shards(&n, 3);
    assert_string_equal(paused(3), "111");
    act(&f, SERIATIM_RESUME);
    reshard(&f, "5");
    step_until_layout(&n, " 5 3");
    assert_string_equal(paused(5), "00000");
    live_stop(&n);
    close_queue(&f);
}

/* ---- Shards that the queue loses ------------------------------------------------------------- */

/* Nobody takes them from a server that dies before it has given them up. */
static void test_check_finds_nothing_where_a_server_died_with_shards_that_the_queue_lost(void **state)
{
    fixture f = open_queue(5, "list");
    live_node n;
    (void)state;
    push_some(&f, 50);
    act(&f, SERIATIM_PAUSE);
    live_start(&n, "one", 5, 1, &run_log);
    live_await_shards(&n, 5);
    reshard(&f, "3");
    step_until_layout(&n, " 3 4 0 5");
    live_kill(&n);
    assert_int_equal(count_in(4, "running"), 1);
    live_start(&n, "two", 5, 1, &run_log);
    live_await_shards(&n, 3);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    live_stop(&n);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_that_a_paused_queue_gets_are_paused),
        cmocka_unit_test(test_who_begins_a_move_says_whether_the_queue_is_paused),
        cmocka_unit_test(test_a_shard_that_the_queue_gets_again_is_paused_no_more),
        cmocka_unit_test(test_check_finds_nothing_where_a_server_died_with_shards_that_the_queue_lost),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_moving_slot.c - the scripts of a shard while a real Redis Cluster moves the slot of its keys. */
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
#include <unistd.h>

#include "redis_cluster.h"
#include "model/stored.h"
#include "wire/keys.h"
#include "wire/script.h"

#define PREFIX "seriatim:{Q/0}:"

enum { OLD, NEW }; /* OLD has the slot of the shard, and gives it to NEW */

static size_t masters[2];
static redisContext *connections[2];
static int slot;

static redisReply *run(int node, const char *format, ...)
{
    va_list args;
    redisReply *reply;
    va_start(args, format);
    reply = redisvCommand(connections[node], format, args);
    va_end(args);
    assert_non_null(reply);
    return reply;
}

static void is_ok(redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("Redis answers: %s", reply->str);
    freeReplyObject(reply);
}

static long long number(redisReply *reply)
{
    long long value = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    return value;
}

static int connect_masters(void **state)
{
    int i;
    (void)state;
    slot = cluster_slot(&cluster, PREFIX "state");
    masters[OLD] = cluster_master_of(&cluster, slot);
    masters[NEW] = (masters[OLD] + 1) % CLUSTER_MASTERS;
    for (i = OLD; i <= NEW; i++) {
        connections[i] = redisConnectUnix(cluster.nodes[masters[i]].redis.socket);
        assert_true(connections[i] && !connections[i]->err);
    }
    return 0;
}

/* The slot is NEW's afterwards, also where a test has left it half moved. */
static int disconnect_masters(void **state)
{
    int i;
    (void)state;
    cluster_end_move(&cluster, slot, masters[OLD], masters[NEW]);
    for (i = OLD; i <= NEW; i++)
        redisFree(connections[i]);
    return 0;
}

static void begin_move(void)
{
    cluster_half_move(&cluster, slot, masters[NEW], 0);
}

static void move_key(const char *key)
{
    is_ok(run(OLD, "MIGRATE 127.0.0.1 %d %s 0 5000", cluster.nodes[masters[NEW]].port, key));
}

static void move_all_keys(void)
{
    for (;;) {
        redisReply *keys = run(OLD, "CLUSTER GETKEYSINSLOT %d 10", slot);
        size_t i, count = keys->elements;
        for (i = 0; i < count; i++)
            move_key(keys->element[i]->str);
        freeReplyObject(keys);
        if (count == 0)
            return;
    }
}

/* ---- The scripts ----------------------------------------------------------------------------- */

/* The KEYS of a shard. Without the guard a key that exists stands in its place. */
static void shard_keys(srt_bytes *keys, int is_guarded)
{
    static const char state[] = PREFIX "state";
    size_t i;
    if (is_guarded) {
        srt_key_shard_args(keys, PREFIX, strlen(PREFIX));
        return;
    }
    for (i = 0; i < SRT_SHARD_KEYS; i++)
        srt_resp_arg(keys, state, strlen(state));
}

/* Has the session's request sent with the text of its script: the masters do not know it yet. */
static void want_text(srt_session *session)
{
    static const char unknown[] = "-NOSCRIPT\r\n";
    seriatim_error error = {0};
    srt_request *r;
    srt_reply reply;
    const char *out;
    size_t len;
    srt_session_output(session, &out, &len);
    srt_session_sent(session, len);
    assert_int_equal(srt_session_input(session, unknown, strlen(unknown)), SERIATIM_OK);
    assert_int_equal(srt_session_next(session, &r, &reply, &error), SERIATIM_AGAIN);
}

typedef struct call {
    int node, script;
    int is_unguarded;
    int asks; /* ASKING goes before it */
    const char *token;
    const char *args[12];
} call;

/* The caller frees the answer. */
static redisReply *send_call(const call *c)
{
    srt_session session;
    srt_request *r;
    srt_bytes keys;
    const char *out;
    size_t len, sent, i;
    redisReply *reply = NULL;
    srt_bytes_init(&keys, seriatim_default_allocator());
    shard_keys(&keys, !c->is_unguarded);
    assert_int_equal(srt_session_init(&session, seriatim_default_allocator(), 0), SERIATIM_OK);
    assert_int_equal(srt_session_connected(&session, NULL, NULL, 0, NULL), SERIATIM_OK);
    r = srt_session_begin(&session, c->script, &keys, SRT_SHARD_KEYS);
    assert_non_null(r);
    if (c->token)
        srt_request_text(r, c->token);
    r->keys = r->args;
    for (i = 0; c->args[i]; i++)
        srt_request_text(r, c->args[i]);
    assert_int_equal(srt_session_send(&session, r), SERIATIM_OK);
    want_text(&session);
    if (c->asks)
        is_ok(run(c->node, "ASKING"));
    srt_session_output(&session, &out, &len);
    for (sent = 0; sent < len;) {
        ssize_t n = write(connections[c->node]->fd, out + sent, len - sent);
        assert_true(n > 0);
        sent += (size_t)n;
    }
    assert_int_equal(redisGetReply(connections[c->node], (void **)&reply), REDIS_OK);
    srt_session_free(&session);
    srt_bytes_free(&keys);
    return reply;
}

static char lease[24], seen[24]; /* of this test's node */

/* A shard that a node owns, in which the id "doubted" waits alone for a process of its own. */
static void fill(void)
{
    const call push = {OLD, srt_script_push,      0,
                       0,   PREFIX "push:client", {"1", "1", "merge", "keep", "2", "0", "doubted", "x"}};
    const call acquire = {OLD, srt_script_acquire, 0, 0, NULL, {"1", "node", "merge", "", "0"}};
    const unsigned char flags = SRT_FLAG_DOUBTED;
    redisReply *reply;
    is_ok(run(OLD, "FLUSHALL"));
    is_ok(send_call(&push));
    reply = send_call(&acquire);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    snprintf(lease, sizeof lease, "%s", reply->element[1]->str);
    snprintf(seen, sizeof seen, "%s", reply->element[2]->str);
    freeReplyObject(reply);
    is_ok(run(OLD, "SETRANGE " PREFIX "state %d %b", SRT_STATE_FLAGS, &flags, sizeof flags));
    is_ok(run(OLD, "ZADD " PREFIX "unproven 1 doubted"));
    /* All other keys exist, too, as they may in a busy shard. */
    is_ok(run(OLD, "ZADD " PREFIX "due 9e15 later"));
    is_ok(run(OLD, "HSET " PREFIX "next else x"));
    is_ok(run(OLD, "ZADD " PREFIX "retry 1 later"));
    is_ok(run(OLD, "HSET " PREFIX "dead gone x"));
    is_ok(run(OLD, "ZADD " PREFIX "died 1 gone"));
    is_ok(run(OLD, "ZADD " PREFIX "parked 1 halted"));
    is_ok(run(OLD, "ZADD " PREFIX "suspect 9e15 suspected"));
    is_ok(run(OLD, "ZADD " PREFIX "overrun 9e15 else"));
    is_ok(run(OLD, "HSET " PREFIX "claims 1 x"));
}

/* Claims the id that is in doubt. */
static redisReply *claim(int node, int is_unguarded, int asks)
{
    const call claim = {node,         srt_script_claim,
                        is_unguarded, asks,
                        NULL,         {"1", lease, seen, "1", "1", "0", "merge", "0", "25", "bury"}};
    return send_call(&claim);
}

static void is_error(redisReply *reply, const char *word)
{
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    if (strncmp(reply->str, word, strlen(word)) != 0)
        fail_msg("Redis answers %s", reply->str);
    freeReplyObject(reply);
}

static int waits(int node)
{
    return number(run(node, "ZCARD " PREFIX "unproven")) == 1;
}

static int runs(int node)
{
    return number(run(node, "HEXISTS " PREFIX "running doubted")) == 1;
}

static void test_without_the_guard_a_moving_slot_ends_a_script_behind_its_first_write(void **state)
{
    redisReply *before, *after;
    (void)state;
    fill();
    begin_move();
    before = run(OLD, "GET " PREFIX "state");
    is_error(claim(OLD, 1, 0), "");
    assert_true(runs(OLD));
    /* The state knows nothing of this run, and nobody has its fence: the id would run, for Redis, for ever. */
    after = run(OLD, "GET " PREFIX "state");
    assert_int_equal(before->len, after->len);
    assert_memory_equal(before->str, after->str, after->len);
    freeReplyObject(before);
    freeReplyObject(after);
}

static void test_with_the_guard_nothing_runs_while_the_slot_moves(void **state)
{
    redisReply *reply;
    (void)state;
    fill();
    begin_move();
    is_error(claim(OLD, 0, 0), "TRYAGAIN");
    assert_true(waits(OLD));
    assert_false(runs(OLD));
    move_key(PREFIX "unproven");
    is_error(claim(OLD, 0, 0), "TRYAGAIN");
    is_error(claim(NEW, 0, 1), "TRYAGAIN");
    move_key(PREFIX "state");
    is_error(claim(OLD, 0, 0), "ASK");
    is_error(claim(NEW, 0, 1), "TRYAGAIN");
    move_all_keys();
    is_error(claim(OLD, 0, 0), "ASK");
    is_error(claim(NEW, 0, 1), "TRYAGAIN");
    cluster_end_move(&cluster, slot, masters[OLD], masters[NEW]);
    is_error(claim(OLD, 0, 0), "MOVED");
    assert_true(waits(NEW));
    reply = claim(NEW, 0, 0);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    freeReplyObject(reply);
    assert_true(runs(NEW));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_the_guard_a_moving_slot_ends_a_script_behind_its_first_write,
                                        connect_masters, disconnect_masters),
        cmocka_unit_test_setup_teardown(test_with_the_guard_nothing_runs_while_the_slot_moves, connect_masters,
                                        disconnect_masters),
    };
    return cmocka_run_group_tests(tests, redis_cluster_set_up, redis_cluster_tear_down);
}

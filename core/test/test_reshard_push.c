/* test_reshard_push.c - pushes while ids move from shard to shard, against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "reshard_fixture.h"

/* An id that lies in shard `from` of 3 and in another one of 4. */
static const char *foreign_id(const char *name, unsigned from)
{
    static char ids[16][32];
    static size_t next;
    char *id = ids[next++ % 16];
    int i = 0;
    do
        snprintf(id, sizeof ids[0], "%s%d", name, i++);
    while (seriatim_shard_of(id, strlen(id), 3) != from || seriatim_shard_of(id, strlen(id), 4) == from);
    return id;
}

static int waits_in(unsigned shard, const char *id)
{
    redisReply *reply = redis("HEXISTS seriatim:{Q/%u}:jobs %s", shard, id);
    int there = (int)reply->integer;
    freeReplyObject(reply);
    return there;
}

static unsigned new_shard(const char *id)
{
    return seriatim_shard_of(id, strlen(id), 4);
}

static fixture open_moving(move *m, const char *waiting)
{
    fixture f = open_queue(3, "merge");
    push(&f, waiting, "1", none);
    move_begin(m, 4);
    return f;
}

static void close_moving(fixture *f, move *m)
{
    move_all(m);
    close_queue(f);
}

/* Takes steps of an operation for `ms`; it does not end. */
static void goes_on_for(const fixture *f, int ms)
{
    for (; ms > 0; ms--) {
        assert_int_equal(seriatim_link_step(f->link), SERIATIM_AGAIN);
        pause_ms(1);
    }
}

/* Begins a push of one job and takes steps of it for `ms`. */
static void begin_push(const fixture *f, const char *id, const char *payload, int ms)
{
    done(f, seriatim_push_begin(f->client, f->queue));
    add(f, id, strlen(id), payload, none);
    assert_int_equal(seriatim_push_send(f->client), SERIATIM_OK);
    goes_on_for(f, ms);
}

static void test_a_push_joins_what_waits_in_the_old_shard(void **state)
{
    const char *id = foreign_id("old", 0);
    move m;
    fixture f = open_moving(&m, id);
    seriatim_push_counts counts;
    (void)state;
    push(&f, id, "2", none);
    counts = seriatim_push_result(f.client);
    assert_int_equal(counts.folded, 1);
    assert_true(waits_in(0, id));
    assert_false(waits_in(new_shard(id), id));
    move_all(&m);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, id), "1,2");
    close_queue(&f);
}

static void test_a_push_of_an_id_that_is_not_there_goes_to_the_new_shard(void **state)
{
    const char *id = foreign_id("new", 1);
    move m;
    fixture f = open_moving(&m, foreign_id("old", 0));
    seriatim_push_counts counts;
    double tick, stamp;
    redisReply *reply;
    (void)state;
    REDIS("SETRANGE seriatim:{Q/1}:state 8 %b", "\x00\x00\x00\x00\x00\x88\x23\x43", (size_t)8); /* 2.7e15 µs */
    push(&f, id, "1", none);
    counts = seriatim_push_result(f.client);
    assert_int_equal(counts.added, 1);
    assert_int_equal(counts.folded, 0);
    assert_false(waits_in(1, id));
    reply = redis("HGET seriatim:{Q/%u}:jobs %s", new_shard(id), id);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    memcpy(&stamp, reply->str + 1, 8);
    memcpy(&tick, "\x00\x00\x00\x00\x00\x88\x23\x43", 8);
    assert_true(stamp > tick); /* it arrives behind all that the old shard gave */
    freeReplyObject(reply);
    close_moving(&f, &m);
}

static void test_ids_that_have_other_things_are_there(void **state)
{
    const char *waits = foreign_id("old", 0), *scheduled = foreign_id("scheduled", 0);
    move m;
    fixture f = open_queue(3, "merge");
    (void)state;
    push(&f, waits, "1", none);
    schedule_one(&f, scheduled, "later", 3600);
    move_begin(&m, 4);
    push(&f, scheduled, "now", none);
    assert_true(waits_in(0, scheduled));
    close_moving(&f, &m);
}

/* What the script push answers for these ids, which are separated by spaces. */
static redisReply *answer_of_push(const move *m, const char *sequence, const char *ids)
{
    static const char token[] = "seriatim:{Q/0}:push:test";
    const char *const texts[] = {m->generation, sequence, "merge", "keep", "2 here", "0"};
    char words[256], *word;
    shard_call call;
    size_t i;
    CALL(&call, 0, push, NULL);
    call.argv[2] = "3"; /* keys */
    call_text(&call, token);
    for (i = 0; i < sizeof texts / sizeof *texts; i++)
        call_text(&call, texts[i]);
    snprintf(words, sizeof words, "%s", ids);
    for (word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        call_text(&call, word);
        call_text(&call, "1");
    }
    return call_send(&call, 1);
}

/* The same from the letters on; the caller frees it. */
static char *letters_of_push(const move *m, const char *sequence, const char *ids)
{
    redisReply *reply = answer_of_push(m, sequence, ids);
    char *letters;
    assert_non_null(strchr(reply->str, 'l'));
    letters = strdup(strchr(reply->str, 'l'));
    freeReplyObject(reply);
    return letters;
}

/* What the script absent answers for an id beside one that is not there. */
static redisReply *answer_of_absent(const move *m, const char *id)
{
    char packed[64];
    shard_call call;
    snprintf(packed, sizeof packed, "\x92\xa3new%c%s", (char)(0xa0 + strlen(id)), id);
    CALL(&call, 0, absent, m->generation);
    call_text(&call, packed);
    return call_send(&call, 1);
}

static int is_absent(const move *m, const char *id)
{
    redisReply *reply = answer_of_absent(m, id);
    int absent = reply->len > 0;
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    freeReplyObject(reply);
    return absent;
}

/* Beside none, few and many other ids of each kind. */
static void test_ids_of_a_push_are_looked_for_in_all_that_a_shard_keeps(void **state)
{
    static const char others[] = "for i = 1, tonumber(ARGV[1]) do for _, key in ipairs(KEYS) do "
                                 "redis.call('HSET', key, 'other' .. i, '') end end",
                      stored[] = "local P, call = 'seriatim:{Q/0}:', redis.call "
                                 "call('HSET', P .. 'dead', 'dead', '') "
                                 "call('HSET', P .. 'leaving', 'leaving', '') "
                                 "call('HSET', P .. 'scores', 'scored', struct.pack('<dd', 1, 8e15), "
                                 "'past', struct.pack('<dd', 1, 1)) "
                                 "call('ZADD', P .. 'sched:later', 9e15, '12345678') "
                                 "call('ZADD', P .. 'scheduled', 9e15, '12345678later')";
    static const int counts[] = {0, 10, 600};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof counts / sizeof *counts; i++) {
        const char *waits = foreign_id("waits", 0);
        move m;
        fixture f = open_moving(&m, waits);
        char ids[128], *letters;
        REDIS("EVAL %s 3 seriatim:{Q/0}:dead seriatim:{Q/0}:scores seriatim:{Q/0}:leaving %d", others, counts[i]);
        letters = letters_of_push(&m, "1", "new1 new2 new3");
        assert_string_equal(letters, "lmmm");
        free(letters);
        REDIS("EVAL %s 0", stored);
        snprintf(ids, sizeof ids, "new1 dead scored past leaving later %s new2", waits);
        letters = letters_of_push(&m, "2", ids);
        assert_string_equal(letters, "lmnnmgnfm");
        free(letters);
        letters = letters_of_push(&m, "3", "leaving");
        assert_string_equal(letters, "lg");
        free(letters);
        assert_true(is_absent(&m, "new1"));
        assert_true(is_absent(&m, "past"));
        assert_false(is_absent(&m, "dead"));
        assert_false(is_absent(&m, "scored"));
        assert_false(is_absent(&m, "leaving"));
        assert_false(is_absent(&m, "later"));
        assert_false(is_absent(&m, waits));
        REDIS("FLUSHALL");
        close_queue(&f);
    }
}

static void test_a_push_waits_while_its_id_is_on_its_way(void **state)
{
    const char *id = foreign_id("old", 0);
    move m;
    fixture f = open_moving(&m, id);
    redisReply *batch;
    (void)state;
    batch = depart(&m, 0, id);
    begin_push(&f, id, "2", 40);
    assert_false(waits_in(0, id));
    assert_false(waits_in(new_shard(id), id));
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    assert_int_equal(drive(f.link), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(f.client).folded, 1);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, id), "1,2");
    close_moving(&f, &m);
}

/* A producer does not turn shards; a server or the command does. */
static void test_a_push_waits_until_its_shard_is_turned(void **state)
{
    const char *id = foreign_id("old", 0);
    move m;
    fixture f = open_moving(&m, id);
    (void)state;
    push(&f, foreign_id("any", 1), "1", none); /* the client knows the new layout */
    /* As before the turn: */
    REDIS("SETRANGE seriatim:{Q/0}:state 0 %b", "\x00\x00\x00\x00\x00\x00\xf0\x3f", (size_t)8);
    REDIS("DEL seriatim:{Q/0}:reshard");
    begin_push(&f, id, "2", 40);
    assert_string_equal(turn_shard(0, m.layout), "OK");
    assert_int_equal(drive(f.link), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(f.client).folded, 1);
    close_moving(&f, &m);
}

/* Nothing was ever in shard 0, and who began the move was killed before its turn. */
static void forget_shard(void)
{
    REDIS("DEL seriatim:{Q/0}:state seriatim:{Q/0}:reshard");
}

/* A producer that knows the layout before the move pushes a job to shard 0. */
static void push_by_old_layout(const char *id)
{
    static const char token[] = "seriatim:{Q/0}:push:other";
    const char *const texts[] = {"1", "merge", "keep", "2", "0", id, "old"};
    shard_call call;
    redisReply *reply;
    size_t i;
    CALL(&call, 0, push, NULL);
    call.argv[2] = "3"; /* keys */
    call_text(&call, token);
    call_text(&call, "1");
    for (i = 0; i < sizeof texts / sizeof *texts; i++)
        call_text(&call, texts[i]);
    reply = call_send(&call, 0);
    assert_string_equal(reply->str, "1 1 0");
    freeReplyObject(reply);
}

static void is_refused_as_earlier(redisReply *reply)
{
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_string_equal(reply->str, "GENERATION 1");
    freeReplyObject(reply);
}

/* It takes jobs of an earlier layout until it is turned, so it cannot say that an id will not be there. */
static void test_a_shard_that_was_never_used_does_not_say_that_an_id_has_left(void **state)
{
    const char *id = foreign_id("new", 0);
    char here[48];
    move m;
    fixture f = open_moving(&m, foreign_id("old", 1));
    shard_call call;
    (void)state;
    forget_shard();
    is_refused_as_earlier(answer_of_absent(&m, id));
    is_refused_as_earlier(answer_of_push(&m, "1", id));
    snprintf(here, sizeof here, "%s here 2", m.generation);
    CALL(&call, 0, explain, here);
    call_text(&call, id);
    is_refused_as_earlier(call_send(&call, 1));
    assert_int_equal(number("EXISTS seriatim:{Q/0}:state"), 0);
    assert_string_equal(turn_shard(0, m.layout), "OK");
    close_moving(&f, &m);
}

/* A large push asks for ids alone first, a small one does not. */
static void test_a_push_waits_until_a_shard_that_was_never_used_is_turned(void **state)
{
    static const int sizes[] = {1, 20};
    size_t i;
    int k;
    (void)state;
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *id = foreign_id("new", 0);
        move m;
        fixture f = open_moving(&m, foreign_id("old", 1));
        push(&f, foreign_id("any", 1), "1", none); /* the client knows the new layout */
        forget_shard();
        done(&f, seriatim_push_begin(f.client, f.queue));
        for (k = 0; k < sizes[i]; k++)
            add(&f, id, strlen(id), "new", none);
        assert_int_equal(seriatim_push_send(f.client), SERIATIM_OK);
        goes_on_for(&f, 40);
        assert_false(waits_in(new_shard(id), id));
        push_by_old_layout(id);
        assert_string_equal(turn_shard(0, m.layout), "OK");
        assert_int_equal(drive(f.link), SERIATIM_OK);
        assert_int_equal(seriatim_push_result(f.client).folded, sizes[i]);
        assert_false(waits_in(new_shard(id), id));
        move_all(&m);
        assert_string_equal(payloads(&f, SERIATIM_FETCH, id), "old,new");
        REDIS("FLUSHALL");
        close_queue(&f);
    }
}

static void test_an_action_waits_until_a_shard_that_was_never_used_is_turned(void **state)
{
    const char *id = foreign_id("new", 0);
    move m;
    fixture f = open_moving(&m, foreign_id("old", 1));
    seriatim_text ids[1];
    (void)state;
    metrics(&f); /* the client knows the layout */
    forget_shard();
    ids[0] = text(id);
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE, ids, 1), SERIATIM_OK);
    goes_on_for(&f, 40);
    push_by_old_layout(id);
    assert_string_equal(turn_shard(0, m.layout), "OK");
    assert_int_equal(drive(f.link), SERIATIM_OK);
    assert_int_equal(seriatim_action_result(f.client), 1);
    close_moving(&f, &m);
}

/* Jobs of all kinds of ids in one push: those that stay, that joined, that were not there. */
static void test_a_push_of_many_jobs_is_counted_as_without_a_move(void **state)
{
    move m;
    fixture f = open_queue(3, "merge");
    char id[32], before[8192];
    seriatim_push_counts counts;
    int i;
    (void)state;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < 100; i += 2) {
        snprintf(id, sizeof id, "id%d", i);
        add(&f, id, strlen(id), "1", none);
    }
    done(&f, seriatim_push_send(f.client));
    move_begin(&m, 4);
    move_source(&m, 0);
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "id%d", i);
        add(&f, id, strlen(id), "2", none);
        add(&f, id, strlen(id), "3", none);
    }
    done(&f, seriatim_push_send(f.client));
    counts = seriatim_push_result(f.client);
    assert_int_equal(counts.added, 50);
    assert_int_equal(counts.folded, 150);
    move_all(&m);
    (void)before;
    for (i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "id%d", i);
        assert_string_equal(payloads(&f, SERIATIM_FETCH, id), i % 2 ? "2,3" : "1,2,3");
    }
    close_queue(&f);
}

/* An id of another shard than this one, which stays there. */
static const char *steady_id(unsigned other)
{
    static char id[32];
    int i = 0;
    do
        snprintf(id, sizeof id, "steady%d", i++);
    while (seriatim_shard_of(id, strlen(id), 3) != new_shard(id) || new_shard(id) == other);
    return id;
}

/* Pushes a job for each of the ids, the second of which may be NULL, and fails. Returns why. */
static const char *why_a_push_fails(const fixture *f, const char *first, const char *second)
{
    done(f, seriatim_push_begin(f->client, f->queue));
    add(f, first, strlen(first), "1", none);
    if (second)
        add(f, second, strlen(second), "1", none);
    assert_int_equal(seriatim_push_send(f->client), SERIATIM_OK);
    assert_int_equal(drive(f->link), SERIATIM_SERVER);
    return seriatim_client_error(f->client)->message;
}

/* The old shard answers that it has written nothing of an id that is not there. */
static void test_an_error_of_a_new_shard_says_what_was_written(void **state)
{
    const char *id = foreign_id("new", 0);
    move m;
    fixture f = open_moving(&m, foreign_id("old", 0));
    (void)state;
    f.client->as_in_cluster = 1;
    REDIS("SET seriatim:{Q/%u}:ready wrong-type", new_shard(id));
    assert_null(strstr(why_a_push_fails(&f, id, NULL), " were not written"));
    assert_non_null(
        strstr(why_a_push_fails(&f, id, steady_id(new_shard(id))), ": 1 of 2 chunks (1 of 2 jobs) were not written"));
    REDIS("DEL seriatim:{Q/%u}:ready", new_shard(id));
    close_queue(&f);
}

static void test_a_pipeline_of_pushes_follows_a_move(void **state)
{
    const char *old = foreign_id("old", 0), *other = foreign_id("other", 2);
    move m;
    fixture f = open_moving(&m, old);
    (void)state;
    done(&f, seriatim_pipeline_begin(f.client));
    done(&f, seriatim_pipeline_push(f.client, f.queue));
    add(&f, old, strlen(old), "2", none);
    done(&f, seriatim_pipeline_push(f.client, f.queue));
    add(&f, other, strlen(other), "1", none);
    done(&f, seriatim_pipeline_send(f.client));
    assert_true(waits_in(0, old));
    assert_true(waits_in(new_shard(other), other));
    close_moving(&f, &m);
}

/* ---- Replicas -------------------------------------------------------------------------------- */

#define SOME_WAITS_MS 350 /* a WAIT ends after 100 */

static void test_a_push_believes_that_an_id_has_left_when_a_replica_knows_it(void **state)
{
    const char *old = foreign_id("old", 0), *new = foreign_id("new", 1), *other = foreign_id("other", 1);
    redis_process replica;
    move m;
    fixture f = open_moving(&m, old);
    (void)state;
    start_replica(&replica);
    kill(replica.pid, SIGSTOP);
    push(&f, old, "2", none);   /* it is there: nothing is waited for */
    push(&f, other, "1", none); /* one call looks and writes: whoever has the one has the other */
    assert_true(waits_in(new_shard(other), other));
    f.client->as_in_cluster = 1;
    begin_push(&f, new, "1", SOME_WAITS_MS);
    assert_false(waits_in(new_shard(new), new));
    kill(replica.pid, SIGCONT);
    assert_int_equal(drive(f.link), SERIATIM_OK);
    assert_true(waits_in(new_shard(new), new));
    redis_remove(&replica);
    close_moving(&f, &m);
}

/* An action, which only reads in the old shard, waits for what others have written there. */
static void test_an_action_believes_that_an_id_has_left_when_a_replica_knows_it(void **state)
{
    const char *id = foreign_id("old", 0);
    redis_process replica;
    move m;
    fixture f = open_moving(&m, id);
    seriatim_text ids[1];
    (void)state;
    while (move_source(&m, 0))
        ;
    assert_true(waits_in(new_shard(id), id));
    metrics(&f); /* the client knows the layout */
    start_replica(&replica);
    kill(replica.pid, SIGSTOP);
    REDIS("SET other 1");
    ids[0] = text(id);
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE, ids, 1), SERIATIM_OK);
    goes_on_for(&f, SOME_WAITS_MS);
    assert_true(waits_in(new_shard(id), id));
    kill(replica.pid, SIGCONT);
    assert_int_equal(drive(f.link), SERIATIM_OK);
    assert_false(waits_in(new_shard(id), id));
    redis_remove(&replica);
    close_moving(&f, &m);
}

static long long replication_offset(void)
{
    redisReply *reply = redis("ROLE");
    long long offset = reply->element[1]->integer;
    freeReplyObject(reply);
    return offset;
}

/* WAIT of later versions of Redis counts from the last write of its connection. */
static void test_the_answer_that_an_id_has_left_is_a_write(void **state)
{
    const char *id = foreign_id("new", 0);
    char generation[48];
    redis_process replica;
    move m;
    fixture f = open_moving(&m, foreign_id("old", 0));
    long long offset;
    redisReply *reply;
    shard_call call;
    (void)state;
    start_replica(&replica);
    REDIS("CONFIG SET repl-ping-replica-period 3600");
    offset = replication_offset();
    snprintf(generation, sizeof generation, "%s here 2", m.generation);
    CALL(&call, 0, explain, generation);
    call_text(&call, id);
    reply = call_send(&call, 1);
    assert_int_equal(strncmp(reply->str, "ELSEWHERE moved ", 16), 0);
    freeReplyObject(reply);
    assert_true(replication_offset() > offset);
    offset = replication_offset();
    assert_true(is_absent(&m, id));
    assert_true(replication_offset() > offset);
    REDIS("DEL seriatim:{Q/0}:reshard"); /* a server has taken the shard, and not turned it yet */
    offset = replication_offset();
    assert_true(is_absent(&m, id));
    assert_true(replication_offset() > offset);
    assert_string_equal(turn_shard(0, m.layout), "OK");
    redis_remove(&replica);
    close_moving(&f, &m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_push_joins_what_waits_in_the_old_shard),
        cmocka_unit_test(test_a_push_of_an_id_that_is_not_there_goes_to_the_new_shard),
        cmocka_unit_test(test_ids_that_have_other_things_are_there),
        cmocka_unit_test(test_ids_of_a_push_are_looked_for_in_all_that_a_shard_keeps),
        cmocka_unit_test(test_a_push_waits_while_its_id_is_on_its_way),
        cmocka_unit_test(test_a_push_waits_until_its_shard_is_turned),
        cmocka_unit_test(test_a_shard_that_was_never_used_does_not_say_that_an_id_has_left),
        cmocka_unit_test(test_a_push_waits_until_a_shard_that_was_never_used_is_turned),
        cmocka_unit_test(test_an_action_waits_until_a_shard_that_was_never_used_is_turned),
        cmocka_unit_test(test_a_push_of_many_jobs_is_counted_as_without_a_move),
        cmocka_unit_test(test_an_error_of_a_new_shard_says_what_was_written),
        cmocka_unit_test(test_a_pipeline_of_pushes_follows_a_move),
        cmocka_unit_test(test_a_push_believes_that_an_id_has_left_when_a_replica_knows_it),
        cmocka_unit_test(test_an_action_believes_that_an_id_has_left_when_a_replica_knows_it),
        cmocka_unit_test(test_the_answer_that_an_id_has_left_is_a_write),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

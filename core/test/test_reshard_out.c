/*
 * test_reshard_out.c - when a shard is out, that is when no id is to leave it any more: not if an id has come to a kind
 * of key through which the mover had looked. Against a real redis-server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "imported.h"
#include "live_node.h"
#include "node/mover.h"
#include "pop_fixture.h"
#include "reshard_fixture.h"

/* An id that lies in shard 0 of 3 and in another one of 4. */
static const char *foreign_id(void)
{
    static char id[32];
    int i = 0;
    do
        snprintf(id, sizeof id, "id%d", i++);
    while (seriatim_shard_of(id, strlen(id), 3) != 0 || seriatim_shard_of(id, strlen(id), 4) == 0);
    return id;
}

/* Ids move from 3 shards to 4; of this one only a dead record is in shard 0. */
static fixture open_with_dead(move *m, const char *id)
{
    fixture f = open_queue(3, "merge");
    push_failed(&f, id, "1", 0, 3600);
    assert_int_equal(act_on(&f, SERIATIM_KILL, id), 1);
    move_begin(m, 4);
    return f;
}

/* Looks through one kind of key of shard 0, in which no foreign id is to be found; mark: that of the scan, or NULL. */
static void finds_nothing(const move *m, const char *kind, char mark[32])
{
    redisReply *reply = ON_SHARD(0, foreign, m->generation, kind, "0");
    assert_int_equal(reply->elements, 2);
    if (mark)
        snprintf(mark, 32, "%s", reply->element[1]->str);
    freeReplyObject(reply);
}

/* The scan that began with this mark has found nothing of the id. It moves with the next one. */
static void is_not_out(fixture *f, move *m, const char *mark, const char *id)
{
    redisReply *reply = ON_SHARD(0, out, m->generation, mark);
    assert_int_equal(is_stored(0, id), 1);
    assert_int_equal(reply->integer, 0);
    freeReplyObject(reply);
    move_all(m);
    assert_int_equal(is_stored(0, id), 0);
    assert_int_equal(is_stored(seriatim_shard_of(id, strlen(id), 4), id), 1);
    close_queue(f);
}

static void test_a_shard_is_not_out_if_a_dead_id_was_requeued_behind_the_scan(void **state)
{
    const char *id = foreign_id();
    char mark[32];
    move m;
    fixture f = open_with_dead(&m, id);
    (void)state;
    finds_nothing(&m, "jobs", mark);
    freeReplyObject(ON_SHARD(0, dead_requeue, m.generation, "", "", "merge", id));
    finds_nothing(&m, "dead", NULL);
    is_not_out(&f, &m, mark, id);
}

static void test_a_shard_is_not_out_if_a_payload_of_a_dead_id_was_scheduled_behind_the_scan(void **state)
{
    const char *id = foreign_id();
    char mark[32];
    move m;
    fixture f = open_with_dead(&m, id);
    (void)state;
    finds_nothing(&m, "jobs", mark);
    finds_nothing(&m, "scheduled", NULL);
    schedule_one(&f, id, "later", 3600);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_DELETE, id), 1);
    finds_nothing(&m, "dead", NULL);
    finds_nothing(&m, "scores", NULL);
    is_not_out(&f, &m, mark, id);
}

/* The remembered score, which alone kept the id in its shard, is forgotten before the mover looks for scores. */
static void test_a_shard_is_not_out_if_a_dead_record_was_imported_behind_the_scan(void **state)
{
    static const char score[] = "redis.call('HSET', KEYS[1], ARGV[1], struct.pack('<dd', 1, 8e15))";
    const char *id = foreign_id();
    char mark[32], here[48];
    shard_call call;
    move m;
    fixture f = open_with_dead(&m, id);
    (void)state;
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_DELETE, id), 1);
    REDIS("EVAL %s 1 seriatim:{Q/0}:scores %s", score, id);
    finds_nothing(&m, "jobs", mark);
    finds_nothing(&m, "scheduled", NULL);
    finds_nothing(&m, "dead", NULL);
    snprintf(here, sizeof here, "%s here 3", m.generation);
    CALL(&call, 0, import, here);
    call_text(&call, "merge");
    call_text(&call, id);
    call_bytes(&call, IMPORTED("d"), sizeof IMPORTED("d") - 1);
    freeReplyObject(call_send(&call, 0));
    REDIS("HDEL seriatim:{Q/0}:scores %s", id);
    finds_nothing(&m, "scores", NULL);
    is_not_out(&f, &m, mark, id);
}

/* Ids move from 3 shards to 4; what there is of this one waits in shard 0 behind a run that is not there any more. */
static fixture open_with_lost_run(move *m, const char *id)
{
    static const char behind[] = "redis.call('HSET', KEYS[2], ARGV[1], redis.call('HGET', KEYS[1], ARGV[1])) "
                                 "redis.call('HDEL', KEYS[1], ARGV[1]) redis.call('ZREM', KEYS[3], ARGV[1])";
    fixture f = open_queue(3, "merge");
    push_failed(&f, id, "1", 0, 3600);
    move_begin(m, 4);
    REDIS("EVAL %s 3 seriatim:{Q/0}:jobs seriatim:{Q/0}:next seriatim:{Q/0}:due %s", behind, id);
    return f;
}

/* What waited behind the run waits in jobs again, behind the scan of jobs. */
static void test_a_shard_is_not_out_if_a_repair_brought_an_id_back_behind_the_scan(void **state)
{
    const char *id = foreign_id();
    char mark[32];
    move m;
    fixture f = open_with_lost_run(&m, id);
    (void)state;
    finds_nothing(&m, "jobs", mark);
    assert_string_equal(kinds_found(&f, f.queue, 1), "behind");
    finds_nothing(&m, "scheduled", NULL);
    finds_nothing(&m, "dead", NULL);
    finds_nothing(&m, "scores", NULL);
    is_not_out(&f, &m, mark, id);
}

static int is_out(const move *m, const char *mark)
{
    redisReply *reply = ON_SHARD(0, out, m->generation, mark);
    int out = (int)reply->integer;
    freeReplyObject(reply);
    return out;
}

static void test_a_shard_is_out_no_more_when_a_repair_has_brought_an_id_back(void **state)
{
    const char *id = foreign_id();
    char mark[32];
    move m;
    fixture f = open_with_lost_run(&m, id);
    (void)state;
    finds_nothing(&m, "jobs", mark);
    assert_int_equal(is_out(&m, mark), 1);
    assert_int_equal(is_out(&m, ""), 1);
    assert_string_equal(kinds_found(&f, f.queue, 1), "behind");
    assert_int_equal(is_out(&m, ""), 0);
    is_not_out(&f, &m, mark, id);
}

/* The mover of an earlier version does not look again. */
static void test_a_shard_of_which_an_earlier_version_says_that_it_is_out_is_out(void **state)
{
    const char *id = foreign_id();
    char mark[32];
    move m;
    fixture f = open_with_dead(&m, id);
    (void)state;
    assert_int_equal(is_out(&m, ""), 0);
    REDIS("HSET seriatim:{Q/0}:reshard out 1 mark 5");
    assert_int_equal(is_out(&m, ""), 1);
    REDIS("HDEL seriatim:{Q/0}:reshard out");
    finds_nothing(&m, "jobs", mark);
    is_not_out(&f, &m, "0", id);
}

/* shard: that with the mover, of 2; another one rests at first. */
static void mover_looks_again(unsigned shard)
{
    static const char clear[] = "redis.call('HINCRBY', KEYS[1], 'mark', 1)";
    fixture f = open_queue(2, "list");
    int64_t until = live_now() + LIVE_MOST_MS;
    live_log log = {.count = 0};
    char long_id[32], key[48];
    live_node n;
    int i = 0;
    do /* it lies in the other shard, and is to leave it */
        snprintf(long_id, sizeof long_id, "long%d", i++);
    while (seriatim_shard_of(long_id, strlen(long_id), 2) == shard ||
           seriatim_shard_of(long_id, strlen(long_id), 3) == 1 - shard);
    live_lease_ms = 20000;
    push(&f, long_id, "1", none);
    live_start(&n, "mover", 2, 1, &log);
    n.run_ms = LIVE_MOST_MS;
    while (log.count == 0) {
        assert_true(live_now() < until);
        live_step(&n);
    }
    act_on(&f, SERIATIM_RESHARD, "3");
    while (!n.node->shards[shard]->mover || n.node->shards[shard]->mover->step < SRT_MOVE_REST) {
        assert_true(live_now() < until);
        live_step(&n);
    }
    snprintf(key, sizeof key, "seriatim:{Q/%u}:reshard", shard);
    REDIS("EVAL %s 1 %s", clear, key); /* as by a repair */
    live_end_runs(&n);
    live_move(&n, 1, 3);
    live_lease_ms = 1000;
    live_stop(&n);
    close_queue(&f);
}

static void test_a_mover_that_rests_looks_again_when_its_shard_is_out_no_more(void **state)
{
    (void)state;
    mover_looks_again(0);
    mover_looks_again(1);
}

static void await_rest(live_node *n, const srt_shard *s)
{
    int64_t until = live_now() + LIVE_MOST_MS;
    while (!s->mover || s->mover->step != SRT_MOVE_REST) {
        assert_true(live_now() < until);
        live_step(n);
    }
}

/*
 * When the movers of shards 1 and 2 rest, that of shard 0, which works, gets no more answers, and keeps its turn.
 * Returns its shard.
 */
static srt_shard *hold_the_turn(live_node *n)
{
    srt_shard *s = n->node->shards[0];
    int64_t until = live_now() + LIVE_MOST_MS;
    await_rest(n, n->node->shards[1]);
    await_rest(n, n->node->shards[2]);
    while (!s->mover || s->mover->asking || n->node->moves.shard) {
        assert_true(live_now() < until);
        live_step(n);
    }
    s->mover->asking = 1;
    n->node->moves.shard = s;
    return s;
}

static void end_the_turn(live_node *n, srt_shard *s)
{
    s->mover->asking = 0;
    srt_node_wake(n->node, s, live_now());
}

/* Has it look at its shard now. */
static void look_now(live_node *n, srt_shard *s)
{
    s->mover->at = live_now();
    srt_node_wake(n->node, s, live_now());
}

/* Of 3 shards; an id that is to leave shard 0 runs. */
static fixture open_with_run(live_node *n, popped *run)
{
    fixture f = open_queue(3, "list");
    push(&f, foreign_id(), "1", none);
    assert_string_equal(pop(&f, 600, run), foreign_id());
    live_lease_ms = 20000;
    live_start(n, "mover", 3, 0, NULL);
    live_await_shards(n, 3);
    act_on(&f, SERIATIM_RESHARD, "4");
    return f;
}

static void test_a_mover_that_rests_looks_at_its_shard_while_another_one_works(void **state)
{
    live_node n;
    popped run;
    fixture f = open_with_run(&n, &run);
    srt_shard *working, *s = n.node->shards[1];
    int64_t until = live_now() + LIVE_MOST_MS;
    (void)state;
    working = hold_the_turn(&n);
    REDIS("HINCRBY seriatim:{Q/1}:reshard mark 1"); /* as by a repair */
    look_now(&n, s);
    while (s->mover && s->mover->step >= SRT_MOVE_REST) {
        assert_true(live_now() < until);
        live_step(&n);
    }
    assert_ptr_equal(n.node->moves.shard, working);
    end_the_turn(&n, working);
    assert_int_equal(ack(&f, &run), SERIATIM_OK);
    live_move(&n, 1, 4);
    live_lease_ms = 1000;
    live_stop(&n);
    close_queue(&f);
}

/* The node has learned that the shard is another one's while its mover looked whether it is out. */
static void test_a_shard_is_given_up_as_soon_as_its_mover_has_looked(void **state)
{
    live_node n;
    popped run;
    fixture f = open_with_run(&n, &run);
    srt_shard *working, *s = n.node->shards[1];
    int64_t until = live_now() + LIVE_MOST_MS;
    int steps;
    (void)state;
    working = hold_the_turn(&n);
    look_now(&n, s);
    n.is_deaf = 1;
    while (!s->mover->asking) {
        assert_true(live_now() < until);
        live_step(&n);
    }
    n.is_deaf = 0;
    for (steps = 0; s->mover && steps < 20; steps += s->mover && !s->mover->asking) {
        assert_true(live_now() < until);
        s->wanted = 0;
        live_step(&n);
    }
    assert_null(s->mover);
    s->wanted = 1;
    end_the_turn(&n, working);
    assert_int_equal(ack(&f, &run), SERIATIM_OK);
    live_move(&n, 1, 4);
    live_lease_ms = 1000;
    live_stop(&n);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_shard_is_not_out_if_a_dead_id_was_requeued_behind_the_scan),
        cmocka_unit_test(test_a_shard_is_not_out_if_a_payload_of_a_dead_id_was_scheduled_behind_the_scan),
        cmocka_unit_test(test_a_shard_is_not_out_if_a_dead_record_was_imported_behind_the_scan),
        cmocka_unit_test(test_a_shard_is_not_out_if_a_repair_brought_an_id_back_behind_the_scan),
        cmocka_unit_test(test_a_shard_is_out_no_more_when_a_repair_has_brought_an_id_back),
        cmocka_unit_test(test_a_shard_of_which_an_earlier_version_says_that_it_is_out_is_out),
        cmocka_unit_test(test_a_mover_that_rests_looks_at_its_shard_while_another_one_works),
        cmocka_unit_test(test_a_shard_is_given_up_as_soon_as_its_mover_has_looked),
        cmocka_unit_test(test_a_mover_that_rests_looks_again_when_its_shard_is_out_no_more),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

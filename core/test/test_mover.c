/*
 * test_mover.c - servers that follow the layout of a queue while they run, and move its ids, on a real redis-server:
 * while jobs run, connections end at any answer, and servers die.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "live_node.h"
#include "model/stored.h"
#include "move_fixture.h"
#include "node/mover.h"
#include "reshard_fixture.h"

#define IDS 120
#define MOST_MS LIVE_MOST_MS
#define MOST_STEPS 60000 /* of live_step, of a millisecond if there is nothing to do */

static const push_options later = {.delay = 3600};
static live_log run_log;
static char *before[IDS];
static int many = 300; /* payloads of an id that is alone in its batch */

static const char *id_of(int i)
{
    static char ids[4][32];
    static int next;
    char *id = ids[next++ % 4];
    snprintf(id, sizeof ids[0], "id-%d", i);
    return id;
}

/* Ids that wait for an hour, of which some are parked, retried, dead, spilled or scheduled. */
static void fill_waiting(fixture *f)
{
    int i, p;
    for (i = 0; i < IDS; i++) {
        char payload[64];
        for (p = 0; p < (i % 40 == 7 ? many : 1 + i % 3); p++) {
            snprintf(payload, sizeof payload, "a payload that takes some room %d", p);
            push(f, id_of(i), payload, later);
        }
        if (i % 10 == 1)
            act_on(f, SERIATIM_PARK, id_of(i));
        if (i % 10 == 2)
            push_failed(f, id_of(i), "again", 3, 3600);
    }
}

static void remember(unsigned shards)
{
    int i;
    for (i = 0; i < IDS; i++) {
        free(before[i]);
        before[i] = stored_of(id_of(i), shards);
        assert_true(before[i][0] != '\0');
    }
}

/* source: only ids that lay in this shard of 3; -1: all. */
static void are_as_before(unsigned shards, int source)
{
    int i;
    for (i = 0; i < IDS; i++) {
        char *now = stored_of(id_of(i), shards);
        size_t same = 0;
        if (source >= 0 && seriatim_shard_of(id_of(i), strlen(id_of(i)), 3) != (unsigned)source) {
            free(now);
            continue;
        }
        while (now[same] && now[same] == before[i][same])
            same++;
        if (now[same] != before[i][same])
            fail_msg("%s is not as it was: \"%.80s\" instead of \"%.80s\"", id_of(i), now + same, before[i] + same);
        free(now);
    }
}

static void is_as_before(unsigned shards)
{
    are_as_before(shards, -1);
}

/* Shards of the queue that have a batch open. */
static int open_batches(void)
{
    int shard, open = 0;
    for (shard = 0; shard < 5; shard++) {
        redisReply *reply = redis("EXISTS seriatim:{Q/%d}:leaving", shard);
        open += (int)reply->integer;
        freeReplyObject(reply);
    }
    return open;
}

static void test_a_running_server_moves_the_ids_of_its_queue(void **state)
{
    fixture f = open_queue(3, "list");
    live_node n;
    (void)state;
    fill_waiting(&f);
    remember(3);
    live_start(&n, "mover", 3, 0, NULL);
    steps_for(&n, 1, 200);
    write_layout(5, 3, 5);
    live_move(&n, 1, 5);
    is_as_before(5);
    live_await_shards(&n, 5);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    write_layout(2, 5, 5);
    live_move(&n, 1, 2);
    is_as_before(2);
    live_await_shards(&n, 2); /* the others are given up */
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    assert_int_equal(metrics(&f).length, IDS - IDS / 10); /* but for those parked */
    live_stop(&n);
    close_queue(&f);
}

static void test_a_server_that_starts_while_ids_move_goes_on(void **state)
{
    fixture f = open_queue(3, "list");
    live_node n;
    move m;
    (void)state;
    fill_waiting(&f);
    remember(3);
    move_begin(&m, 7);
    freeReplyObject(depart(&m, 0, "id-0 id-1 id-2 id-3 id-4 id-5 id-6 id-7 id-8 id-9"));
    live_start(&n, "mover", 3, 0, NULL);
    live_move(&n, 1, 7);
    is_as_before(7);
    live_stop(&n);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    close_queue(&f);
}

/* The next layout is there, and a failover has brought back a batch of the last move. */
static void test_a_batch_of_an_earlier_layout_is_finished(void **state)
{
    fixture f = open_queue(3, "list");
    char all[IDS * 8] = "";
    live_node n;
    move m;
    int i;
    (void)state;
    many = 150; /* all ids of the shard are one batch */
    fill_waiting(&f);
    many = 300;
    remember(3);
    move_begin(&m, 5);
    for (i = 0; i < IDS; i++)
        if (seriatim_shard_of(id_of(i), strlen(id_of(i)), 3) == 0)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s ", id_of(i));
    while (move_source(&m, 1) + move_source(&m, 2))
        ;
    freeReplyObject(depart(&m, 0, all));
    write_quiet(5);
    live_start(&n, "mover", 3, 0, NULL);
    live_move(&n, 1, 5);
    for (i = 0; i < MOST_STEPS && open_batches(); i++)
        live_step(&n);
    are_as_before(5, 0);
    live_stop(&n);
    close_queue(&f);
}

/* Lost answers: each request that has none is sent again, and some of what the mover does begins anew. */
static void test_a_move_ends_though_connections_end_at_any_answer(void **state)
{
    fixture f = open_queue(3, "list");
    live_node nodes[2];
    (void)state;
    fill_waiting(&f);
    remember(3);
    live_start(&nodes[0], "one", 3, 0, NULL);
    live_start(&nodes[1], "two", 3, 0, NULL);
    steps_for(nodes, 2, 300);
    nodes[0].cut = nodes[1].cut = 30;
    write_layout(4, 3, 4);
    live_move(nodes, 2, 4);
    is_as_before(4);
    write_layout(1, 4, 4);
    live_move(nodes, 2, 1);
    is_as_before(1);
    nodes[0].cut = nodes[1].cut = 0;
    live_stop(&nodes[0]);
    live_stop(&nodes[1]);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    close_queue(&f);
}

/* Each answer that a server gets while it moves a few ids is lost once. */
static void test_a_move_ends_whatever_answer_is_lost(void **state)
{
    fixture f = open_queue(3, "list");
    unsigned shards = 3, rounds = getenv("SOAK") ? 400 : 12, round;
    live_node n;
    (void)state;
    fill_waiting(&f);
    remember(3);
    live_start(&n, "mover", 3, 0, NULL);
    steps_for(&n, 1, 200);
    for (round = 1; round <= rounds; round++) {
        unsigned next = shards == 3 ? 5 : 3;
        n.cut_at = n.inputs + round;
        write_layout(next, shards, 5);
        live_move(&n, 1, next);
        is_as_before(next);
        shards = next;
    }
    live_stop(&n);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    close_queue(&f);
}

/* A server dies in the middle of the move, at another answer each time; another one takes its shards. */
static void test_a_move_ends_though_servers_die(void **state)
{
    fixture f = open_queue(3, "list");
    live_node nodes[2];
    unsigned shards = 3, round;
    (void)state;
    fill_waiting(&f);
    remember(3);
    live_start(&nodes[0], "one", 3, 0, NULL);
    live_start(&nodes[1], "two", 3, 0, NULL);
    steps_for(nodes, 2, 300);
    for (round = 0; round < 4; round++) {
        unsigned next = round % 2 ? 3 : 5, dies = round % 2;
        size_t inputs = nodes[dies].inputs + 10 + 17 * round;
        char id[8];
        write_layout(next, shards, 5);
        while (nodes[dies].inputs < inputs) {
            live_step(&nodes[0]);
            live_step(&nodes[1]);
        }
        live_kill(&nodes[dies]);
        snprintf(id, sizeof id, "n%u", round);
        live_start(&nodes[dies], id, 3, 0, NULL);
        live_move(nodes, 2, next);
        is_as_before(next);
        shards = next;
    }
    live_stop(&nodes[0]);
    live_stop(&nodes[1]);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    close_queue(&f);
}

/* ---- The size of a batch ---------------------------------------------------------------------- */

/* The smallest limit of a batch while all ids move and each answer is read late. longest: of a batch, in ms. */
static unsigned smallest_limit(live_node *n, int64_t *longest)
{
    unsigned least = UINT_MAX;
    size_t i;
    int step;
    *longest = 0;
    for (step = 0; step < MOST_STEPS && !live_is_quiet(5); step++) {
        live_step(n);
        pause_ms(15);
        for (i = 0; i < n->node->shard_count; i++) {
            const srt_mover *m = n->node->shards[i]->mover;
            if (m && m->limit < least)
                least = m->limit;
            if (m && m->batch && live_now() - m->opened_at > *longest)
                *longest = live_now() - m->opened_at;
        }
    }
    assert_true(live_is_quiet(5));
    return least;
}

static void test_a_batch_that_only_waits_is_followed_by_one_as_large(void **state)
{
    int sliced;
    (void)state;
    for (sliced = 0; sliced < 2; sliced++) {
        fixture f = open_queue(3, "list");
        int64_t longest;
        unsigned least;
        live_node n;
        int i;
        if (sliced)
            fill_waiting(&f);
        for (i = 0; i < IDS && !sliced; i++)
            push(&f, id_of(i), "a payload", later);
        live_start(&n, "mover", 3, 0, NULL);
        steps_for(&n, 1, 200);
        write_layout(5, 3, 5);
        least = smallest_limit(&n, &longest);
        assert_true(longest > 40);
        assert_int_equal(least < 50, sliced); /* to copy slices takes Redis as long as it takes */
        live_stop(&n);
        close_queue(&f);
    }
}

/* ---- Replicas --------------------------------------------------------------------------------- */

/* Is a mover of the node waiting for the answer to this step? */
static int asks(const live_node *n, srt_move_step step)
{
    size_t i;
    for (i = 0; i < n->node->shard_count; i++)
        if (n->node->shards[i]->mover && n->node->shards[i]->mover->asking && n->node->shards[i]->mover->step == step)
            return 1;
    return 0;
}

/* A batch with slices goes on only when the replica has it. */
static void test_a_batch_waits_for_the_replica(void **state)
{
    fixture f = open_queue(3, "list");
    redis_process replica;
    live_node n;
    int i, p;
    (void)state;
    fill_waiting(&f);
    for (i = 0; i < IDS; i += 10) /* a tenth of the ids: some are left when the replica stops */
        for (p = 0; p < many; p++)
            push(&f, id_of(i), "a payload that takes some room", later);
    remember(3);
    start_replica(&replica);
    live_start(&n, "mover", 3, 0, NULL);
    steps_for(&n, 1, 300);
    write_layout(5, 3, 5);
    for (i = 0; i < MOST_STEPS && n.node->workers[0]->old_count == 0; i++)
        live_step(&n);
    kill(replica.pid, SIGSTOP);
    for (i = 0; i < MOST_STEPS && !asks(&n, SRT_MOVE_OPENED); i++)
        live_step(&n);
    steps_for(&n, 1, 1500);
    assert_true(open_batches() == 1); /* one mover at a time */
    kill(replica.pid, SIGCONT);
    live_move(&n, 1, 5);
    is_as_before(5);
    live_stop(&n);
    redis_remove(&replica);
    close_queue(&f);
}

/* A Redis with all shards needs no replica that has a batch: only what cannot be seen on one connection waits. */
static void test_a_batch_of_one_redis_waits_for_no_replica(void **state)
{
    fixture f = open_queue(3, "list");
    redis_process replica;
    live_node n;
    int i, left = 0;
    (void)state;
    for (i = 0; i < IDS; i++)
        push(&f, id_of(i), "a payload", later);
    start_replica(&replica);
    live_start(&n, "mover", 3, 0, NULL);
    steps_for(&n, 1, 300);
    write_layout(5, 3, 5);
    for (i = 0; i < MOST_STEPS && n.node->workers[0]->old_count == 0; i++)
        live_step(&n);
    kill(replica.pid, SIGSTOP);
    for (i = 0; i < MOST_STEPS && !asks(&n, SRT_MOVE_LIFTED); i++) { /* which waits */
        live_step(&n);
        left += asks(&n, SRT_MOVE_DEPARTED);
    }
    assert_true(asks(&n, SRT_MOVE_LIFTED));
    assert_true(left > 0);
    kill(replica.pid, SIGCONT);
    live_move(&n, 1, 5);
    live_stop(&n);
    redis_remove(&replica);
    close_queue(&f);
}

/* It has what it had at the last SAVE, as a replica that was promoted may. */
static void forget_since_save(void)
{
    redis_end(&server, SIGKILL);
    assert_int_equal(redis_run(&server, NULL), 0);
    assert_int_equal(redis_wait(&server), 0);
    assert_int_equal(redisReconnect(server_redis), REDIS_OK);
}

/* In turn a departure is forgotten whose arrival is on its way, and an arrival whose batch is to be removed. */
static void test_no_step_follows_one_that_is_forgotten(void **state)
{
    fixture f = open_queue(3, "list");
    int i, forgotten = 0, saved = 0, payloads = many;
    live_node n;
    (void)state;
    many = 3; /* no slices */
    fill_waiting(&f);
    many = payloads;
    remember(3);
    live_start(&n, "mover", 3, 0, NULL);
    steps_for(&n, 1, 200);
    write_layout(5, 3, 5);
    REDIS("SAVE");
    for (i = 0; i < MOST_STEPS && forgotten < 6; i++) {
        srt_move_step wanted = forgotten % 2 ? SRT_MOVE_DEPARTED : SRT_MOVE_ARRIVE;
        live_step(&n); /* a request that it makes is written by the next one */
        if (saved && asks(&n, wanted)) {
            forget_since_save();
            forgotten++;
            saved = 0;
        } else if (wanted == SRT_MOVE_ARRIVE ? !open_batches()
                                             : !saved && open_batches() && asks(&n, SRT_MOVE_ARRIVE)) {
            REDIS("SAVE");
            saved = 1;
        }
    }
    assert_int_equal(forgotten, 6);
    live_move(&n, 1, 5);
    is_as_before(5);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    live_stop(&n);
    close_queue(&f);
}

static void step_until(live_node *n, const srt_shard *s, srt_move_step step)
{
    int i;
    for (i = 0; i < MOST_STEPS && !(s->mover && s->mover->step == step); i++)
        live_step(n);
    assert_true(s->mover && s->mover->step == step);
}

/* Nothing else is forgotten, and the mover of the shard rests by then. */
static void test_a_move_ends_though_it_is_forgotten_that_a_shard_is_out(void **state)
{
    unsigned shard;
    (void)state;
    for (shard = 0; shard < 2; shard++) {
        fixture f = open_queue(3, "list");
        live_node n;
        fill_waiting(&f);
        remember(3);
        live_start(&n, "mover", 3, 0, NULL);
        live_await_shards(&n, 3);
        write_layout(5, 3, 5);
        step_until(&n, n.node->shards[shard], SRT_MOVE_OUT); /* which is written by the next step */
        REDIS("SAVE");
        step_until(&n, n.node->shards[shard], SRT_MOVE_REST);
        forget_since_save();
        live_move(&n, 1, 5);
        is_as_before(5);
        live_stop(&n);
        close_queue(&f);
    }
}

/* ---- While jobs run -------------------------------------------------------------------------- */

#define BUSY 100
#define EACH 6

/* Each payload once, in its order, under fences that rise. */
static void check_runs(void)
{
    int seen[BUSY] = {0};
    int64_t fences[BUSY] = {0};
    size_t i;
    assert_int_equal(run_log.count, BUSY * EACH);
    for (i = 0; i < run_log.count; i++) {
        int id = atoi(run_log.runs[i].id + 3);
        assert_int_equal(atoi(run_log.runs[i].payload), seen[id]);
        assert_true(run_log.runs[i].fence >= fences[id]);
        fences[id] = run_log.runs[i].fence;
        seen[id]++;
    }
}

static void test_jobs_run_once_and_in_order_while_their_ids_move(void **state)
{
    fixture f = open_queue(3, "list");
    live_node nodes[2];
    int i, p;
    char payload[16];
    (void)state;
    run_log.count = 0;
    live_lease_ms = 20000; /* no node is taken for dead */
    for (p = 0; p < EACH; p++)
        for (i = 0; i < BUSY; i++) {
            snprintf(payload, sizeof payload, "%d", p);
            push(&f, id_of(i), payload, none);
        }
    live_start(&nodes[0], "one", 3, 2, &run_log);
    live_start(&nodes[1], "two", 3, 2, &run_log);
    nodes[0].run_ms = nodes[1].run_ms = 10;
    nodes[0].cut = nodes[1].cut = 15;
    write_layout(5, 3, 5);
    live_move(nodes, 2, 5);
    write_layout(2, 5, 5);
    live_move(nodes, 2, 2);
    for (i = 0; i < MOST_MS / 10 && run_log.count < BUSY * EACH; i++)
        steps_for(nodes, 2, 10);
    check_runs();
    live_lease_ms = 1000;
    assert_int_equal(srt_node_stats(nodes[0].node).refused + srt_node_stats(nodes[1].node).refused, 0);
    live_stop(&nodes[0]);
    live_stop(&nodes[1]);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    close_queue(&f);
}

/*
 * The settle of "b" is executed and its answer lost, while "c", which was claimed later, runs on; then the shard gets
 * another layout, so the copy that is sent again is refused. Its number tells that it was executed. Until then the node
 * may not tell Redis that "b" runs: its absence would say that Redis has forgotten all later claims.
 */
static void test_a_settle_whose_answer_is_lost_before_a_turn_counts_once(void **state)
{
    fixture f = open_queue(1, "list");
    live_node n;
    move m;
    int i;
    (void)state;
    run_log.count = 0;
    live_lease_ms = 20000;
    push(&f, "a", "1", none);
    live_start(&n, "one", 1, 2, &run_log);
    for (i = 0; i < MOST_STEPS && srt_node_stats(n.node).processed == 0; i++)
        live_step(&n); /* Redis knows the scripts */
    n.run_ms = LIVE_MOST_MS;
    push(&f, "b", "1", none);
    for (i = 0; i < MOST_STEPS && run_log.count < 2; i++)
        live_step(&n);
    push(&f, "c", "1", none);
    for (i = 0; i < MOST_STEPS && run_log.count < 3; i++)
        live_step(&n);
    n.ends[n.held[0]->jobs[0]->view.fence == run_log.runs[1].fence ? 0 : 1] = 0;
    for (i = 0; i < MOST_STEPS && n.held[0] && n.held[1]; i++)
        live_step(&n);
    n.is_deaf = 1; /* what has ended is held for some ms before its settle is written */
    for (i = 0; i < MOST_STEPS && metrics(&f).processed < 2; i++)
        live_step(&n);
    assert_int_equal(metrics(&f).processed, 2);
    assert_int_equal(srt_node_stats(n.node).processed, 1);
    live_cut(&n);
    n.is_deaf = 0;
    move_begin(&m, 2);
    for (i = 0; i < MOST_STEPS && srt_node_stats(n.node).processed + srt_node_stats(n.node).refused < 2; i++)
        live_step(&n);
    for (i = 0; i < 100; i++)
        live_step(&n);
    live_end_runs(&n);
    for (i = 0; i < MOST_STEPS && srt_node_stats(n.node).processed + srt_node_stats(n.node).refused < 3; i++)
        live_step(&n);
    assert_int_equal(srt_node_stats(n.node).refused, 0);
    assert_int_equal(srt_node_stats(n.node).processed, 3);
    live_move(&n, 1, 2);
    assert_int_equal(run_log.count, 3);
    live_lease_ms = 1000;
    live_stop(&n);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_running_server_moves_the_ids_of_its_queue),
        cmocka_unit_test(test_a_server_that_starts_while_ids_move_goes_on),
        cmocka_unit_test(test_a_move_ends_though_connections_end_at_any_answer),
        cmocka_unit_test(test_a_move_ends_whatever_answer_is_lost),
        cmocka_unit_test(test_a_move_ends_though_servers_die),
        cmocka_unit_test(test_a_batch_that_only_waits_is_followed_by_one_as_large),
        cmocka_unit_test(test_a_batch_waits_for_the_replica),
        cmocka_unit_test(test_a_batch_of_one_redis_waits_for_no_replica),
        cmocka_unit_test(test_no_step_follows_one_that_is_forgotten),
        cmocka_unit_test(test_a_move_ends_though_it_is_forgotten_that_a_shard_is_out),
        cmocka_unit_test(test_a_batch_of_an_earlier_layout_is_finished),
        cmocka_unit_test(test_jobs_run_once_and_in_order_while_their_ids_move),
        cmocka_unit_test(test_a_settle_whose_answer_is_lost_before_a_turn_counts_once),
    };
    int status;
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    status = cmocka_run_group_tests(tests, start_server, stop_server);
    while (before[0] || before[IDS - 1]) {
        int i;
        for (i = 0; i < IDS; i++) {
            free(before[i]);
            before[i] = NULL;
        }
    }
    return status;
}

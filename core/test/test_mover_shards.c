/*
 * test_mover_shards.c - what shards are while a running server moves ids, on a real redis-server: those that a queue
 * gets are paused or not as the queue was, and ids that run are taken as soon as their run has ended.
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
#include "model/stored.h"
#include "move_fixture.h"
#include "node/mover.h"
#include "reshard_fixture.h"

#define MOST_MS 120000   /* that anything may take on a busy machine */
#define MANY 3000        /* ids that wait */
#define HOT LIVE_THREADS /* ids that run */
#define CAUGHT 500       /* others that may leave while a hot one stands still: some batches */

static const push_options later = {.delay = 3600};
static live_log run_log;

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
    write_layout_words("5 4 3 5 paused");
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

/* ---- Ids that run ---------------------------------------------------------------------------- */

/* One that does not belong into shard 0 of seven. */
static const char *hot(int i)
{
    static char id[16];
    int number = -1;
    do {
        snprintf(id, sizeof id, "hot-%d", ++number);
        i -= seriatim_shard_of(id, strlen(id), 7) != 0;
    } while (i >= 0);
    return id;
}

static int is_at(unsigned shard, const char *key, const char *id)
{
    redisReply *reply = redis("HEXISTS seriatim:{Q/%u}:%s %s", shard, key, id);
    int is = reply->integer == 1;
    freeReplyObject(reply);
    return is;
}

/* Does its run lie behind it, and does it stand still until it leaves? */
static int is_moving(const char *id)
{
    redisReply *reply = redis("ZSCORE seriatim:{Q/0}:moving %s", id);
    int is = reply->type == REDIS_REPLY_STRING;
    freeReplyObject(reply);
    return is;
}

static int is_to_leave(const char *id)
{
    redisReply *reply = redis("HGET seriatim:{Q/0}:running %s", id);
    int is = reply->type == REDIS_REPLY_STRING && reply->str[0] >= '0' + SRT_RUN_TO_LEAVE;
    freeReplyObject(reply);
    return is;
}

/* Each runs, and has a payload behind its run. */
static void run_hot_ids(const fixture *f, live_node *n)
{
    int i;
    n->run_ms = MOST_MS;
    for (i = 0; i < HOT; i++)
        push(f, hot(i), "1", none);
    for (i = 0; run_log.count < HOT; i++) {
        live_step(n);
        assert_true(i < MOST_MS);
    }
    for (i = 0; i < HOT; i++)
        push(f, hot(i), "2", none);
}

/* Ends the runs that are to leave. */
static void end_runs_to_leave(live_node *n)
{
    int i;
    for (i = 0; i < LIVE_THREADS; i++) {
        char id[32];
        const seriatim_claimed *job = n->held[i] ? seriatim_delivery_job(n->held[i], 0) : NULL;
        snprintf(id, sizeof id, "%.*s", job ? (int)job->id_len : 0, job ? job->id : "");
        if (job && is_to_leave(id))
            n->ends[i] = 0;
    }
}

/* An id that runs when it is to leave is not claimed again, so it must not wait until all others have left. */
static void test_an_id_leaves_soon_after_its_run(void **state)
{
    fixture f = open_queue(1, "list");
    long long when[HOT] = {0}, worst = 0;
    live_node n;
    int i, gone = 0;
    int64_t until = live_now() + MOST_MS;
    (void)state;
    run_log.count = 0;
    live_lease_ms = 20000;
    push_new_ids(&f, 0, MANY, later);
    live_start(&n, "one", 1, LIVE_THREADS, &run_log);
    live_await_shards(&n, 1);
    run_hot_ids(&f, &n);
    reshard(&f, "7");
    while (gone < HOT) {
        assert_true(live_now() < until);
        live_step(&n);
        end_runs_to_leave(&n);
        for (i = 0, gone = 0; i < HOT; i++) {
            int has_left = !is_at(0, "jobs", hot(i));
            gone += has_left;
            if (!has_left && when[i] == 0 && is_moving(hot(i)))
                when[i] = count_in(0, "jobs");
            if (has_left && when[i] > 0) {
                worst = when[i] - count_in(0, "jobs") > worst ? when[i] - count_in(0, "jobs") : worst;
                when[i] = -1;
            }
        }
    }
    if (worst > CAUGHT)
        fail_msg("an id stood still while %lld others left", worst);
    live_kill(&n);
    live_lease_ms = 1000;
    close_queue(&f);
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* The most ids that a batch might have had, and the longest rest behind one, while jobs end. */
typedef struct seen_batches {
    unsigned ids;
    int64_t rest_ms;
} seen_batches;

/* Each batch ends as if it had taken this long. */
static seen_batches watch_batches(live_node *n, int64_t took_ms)
{
    seen_batches most = {0, 0};
    int64_t until = live_now() + MOST_MS;
    size_t i;
    while (!layout_ends_with(" 5 3")) {
        assert_true(live_now() < until);
        for (i = 0; i < n->node->shard_count; i++) {
            srt_mover *m = n->node->shards[i]->mover;
            if (m && m->step == SRT_MOVE_DEPARTED)
                m->opened_at = live_now() - took_ms;
            if (m && m->limit > most.ids)
                most.ids = m->limit;
        }
        n->node->stats.processed++;
        live_step(n);
        if (n->node->moves.at - live_now() > most.rest_ms)
            most.rest_ms = n->node->moves.at - live_now();
    }
    return most;
}

static seen_batches move_many(int64_t took_ms)
{
    fixture f = open_queue(3, "list");
    seen_batches most;
    live_node n;
    push_new_ids(&f, 0, MANY, later);
    live_start(&n, "one", 3, 0, NULL);
    live_await_shards(&n, 3);
    reshard(&f, "5");
    most = watch_batches(&n, took_ms);
    live_stop(&n);
    close_queue(&f);
    return most;
}

/* Beside full load each batch takes some time, however few its ids are. */
static void test_batches_grow_though_none_is_short(void **state)
{
    (void)state;
    assert_int_equal(move_many(20).ids, 100);
}

/* A batch of 100 ids takes 10 ms of Redis at most, and a batch that takes long has fewer. */
static void test_a_mover_rests_behind_its_own_time_of_redis(void **state)
{
    int64_t rest_ms = move_many(200).rest_ms;
    (void)state;
    assert_true(rest_ms > 0);
    if (rest_ms > 60)
        fail_msg("the mover rested for %lld ms", (long long)rest_ms);
}

/* Each is alone in its batch. To look through the shard again behind each of them would take too long. */
static void test_many_ids_with_many_payloads_move_in_few_scans(void **state)
{
    enum { MOVED = 40, PAYLOADS = 300 };
    fixture f = open_queue(1, "list");
    int64_t until;
    unsigned scans = 0;
    int i, p, was_scanning = 0;
    live_node n;
    (void)state;
    for (i = 0; i < MOVED; i++) {
        done(&f, seriatim_push_begin(f.client, f.queue));
        for (p = 0; p < PAYLOADS; p++) {
            char payload[16];
            snprintf(payload, sizeof payload, "p%d", p);
            add(&f, hot(i), strlen(hot(i)), payload, later);
        }
        done(&f, seriatim_push_send(f.client));
    }
    live_start(&n, "one", 1, 0, NULL);
    live_await_shards(&n, 1);
    reshard(&f, "7");
    until = live_now() + MOST_MS;
    while (!layout_ends_with(" 7 3")) {
        const srt_mover *m = n.node->shards[0]->mover;
        assert_true(live_now() < until);
        live_step(&n);
        scans += m && n.node->shards[0]->mover == m && was_scanning && !m->scanning;
        was_scanning = n.node->shards[0]->mover && n.node->shards[0]->mover->scanning;
    }
    assert_in_range(scans, 1, 5);
    live_stop(&n);
    close_queue(&f);
}

/* ---- What is broken -------------------------------------------------------------------------- */

/* Requests that movers send in a second. */
static int64_t requests_of_a_second(live_node *n)
{
    int64_t until = live_now() + 1000, before = n->node->moves.serial;
    while (live_now() < until)
        live_step(n);
    return n->node->moves.serial - before;
}

/* Ids of shard 0 that are to leave it, of those that push_new_ids has pushed. */
static int waiting_to_leave(int count)
{
    char id[16];
    int i, left = 0;
    for (i = 0; i < count; i++) {
        snprintf(id, sizeof id, "i%d", i);
        left += seriatim_shard_of(id, strlen(id), 5) != 0 && is_at(0, "jobs", id);
    }
    return left;
}

/* It stays until its record is mended. */
static void test_all_other_ids_move_beside_one_whose_record_cannot_be_read(void **state)
{
    enum { OTHERS = 200 };
    static const char warning[] = "{Q/0}: an id does not move, because its record is broken: see seriatim check";
    fixture f = open_queue(3, "list");
    int64_t until;
    live_node n;
    (void)state;
    push(&f, leaving_id(), "1", later);
    push_new_ids(&f, 0, OTHERS, later);
    REDIS("HSET seriatim:{Q/0}:jobs %s garbage", leaving_id());
    live_start(&n, "one", 3, 0, NULL);
    live_await_shards(&n, 3);
    reshard(&f, "5");
    until = live_now() + MOST_MS;
    while (waiting_to_leave(OTHERS) > 0 || !strstr(n.warning, warning)) {
        assert_true(live_now() < until);
        live_step(&n);
    }
    while (requests_of_a_second(&n) >= 100) /* of the other shards, on a busy machine */
        assert_true(live_now() < until);
    assert_true(is_at(0, "jobs", leaving_id()));
    assert_string_equal(kinds_found(&f, f.queue, 1), "unreadable stale");
    step_until_layout(&n, " 5 3");
    assert_true(is_at(seriatim_shard_of(leaving_id(), strlen(leaving_id()), 5), "dead", leaving_id()));
    live_stop(&n);
    close_queue(&f);
}

/* Another payload of a batch is lost each time that the mover copies it. */
static void test_a_mover_pauses_where_payloads_of_a_batch_are_missing(void **state)
{
    fixture f = open_queue(3, "list");
    int64_t until = 0, before = 0;
    char payload[16];
    live_node n;
    size_t i;
    (void)state;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < 600; i++) {
        snprintf(payload, sizeof payload, "p%d", (int)i);
        add(&f, leaving_id(), strlen(leaving_id()), payload, later);
    }
    done(&f, seriatim_push_send(f.client));
    live_start(&n, "one", 3, 0, NULL);
    live_await_shards(&n, 3);
    reshard(&f, "5");
    while (until == 0 || live_now() < until) {
        for (i = 0; i < n.node->shard_count; i++) {
            const srt_mover *m = n.node->shards[i]->mover;
            if (!m || m->step != SRT_MOVE_SLICE_IN)
                continue;
            REDIS("ZREMRANGEBYRANK seriatim:{Q/0}:spill:%s 0 0", leaving_id());
            if (until == 0) {
                until = live_now() + 1000;
                before = n.node->moves.serial;
            }
        }
        live_step(&n);
    }
    assert_true(n.node->moves.serial - before < 100);
    live_move(&n, 1, 5);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    live_stop(&n);
    close_queue(&f);
}

/* ---- Rests ----------------------------------------------------------------------------------- */

/* Until when does the mover of shard 0 rest behind 10 ms? */
static int64_t rest_behind_10_ms(live_node *n)
{
    int64_t now = live_now();
    size_t i;
    for (i = 0; n->node->shards[i]->index != 0; i++)
        ;
    n->node->moves.shard = n->node->shards[i];
    srt_move_rest_behind(n->node, n->node->shards[i], 10, now);
    return n->node->moves.at - now;
}

/* A push of a new id goes to its new shard, so the jobs that a move must leave room for are not of the shard that ids
 * leave. */
static void test_a_mover_rests_while_jobs_of_other_shards_end(void **state)
{
    fixture f = open_queue(2, "list");
    const char *id = "a";
    int64_t until = live_now() + MOST_MS;
    live_node n;
    (void)state;
    assert_int_equal(seriatim_shard_of(id, 1, 2), 1);
    run_log.count = 0;
    live_start(&n, "one", 2, 1, &run_log);
    live_await_shards(&n, 2);
    assert_int_equal(rest_behind_10_ms(&n), 0);
    push(&f, id, "1", none);
    while (srt_node_stats(n.node).processed == 0) {
        assert_true(live_now() < until);
        live_step(&n);
    }
    assert_int_equal(rest_behind_10_ms(&n), 80);
    assert_int_equal(rest_behind_10_ms(&n), 0);
    live_stop(&n);
    close_queue(&f);
}

/* Of 200 shards: each of the others is told of the end of a move by a call of its own. */
static void test_a_mover_rests_while_it_tells_many_shards_of_its_end(void **state)
{
    fixture f = open_queue(1, "list");
    int64_t until = live_now() + MOST_MS;
    int rests = 0, rested = 0;
    live_node n;
    (void)state;
    live_start(&n, "one", 1, 0, NULL);
    live_await_shards(&n, 1);
    reshard(&f, "200");
    while (!live_is_quiet(200)) {
        const srt_mover *m = n.node->shards[0]->mover;
        int rests_now = m && m->step == SRT_MOVE_LIFT && !m->asking && !n.node->moves.shard;
        rests += rests_now && !rested;
        rested = rests_now;
        assert_true(live_now() < until);
        live_step(&n);
    }
    assert_true(rests >= 3);
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
        cmocka_unit_test(test_an_id_leaves_soon_after_its_run),
        cmocka_unit_test(test_batches_grow_though_none_is_short),
        cmocka_unit_test(test_a_mover_rests_behind_its_own_time_of_redis),
        cmocka_unit_test(test_many_ids_with_many_payloads_move_in_few_scans),
        cmocka_unit_test(test_a_mover_rests_while_jobs_of_other_shards_end),
        cmocka_unit_test(test_a_mover_rests_while_it_tells_many_shards_of_its_end),
        cmocka_unit_test(test_all_other_ids_move_beside_one_whose_record_cannot_be_read),
        cmocka_unit_test(test_a_mover_pauses_where_payloads_of_a_batch_are_missing),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

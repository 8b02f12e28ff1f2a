/* test_mover_shards.c - a running server takes ids that run as soon as their run has ended, on a real redis-server. */
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

#define MOST_MS 120000   /* that anything may take on a busy machine */
#define MANY 3000        /* ids that wait */
#define HOT LIVE_THREADS /* ids that run */
#define CAUGHT 500       /* others that may leave while a hot one stands still: some batches */

static const push_options later = {.delay = 3600};
static live_log run_log;

static void reshard(const fixture *f, const char *shards)
{
    assert_int_equal(act_on(f, SERIATIM_RESHARD, shards), 1);
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

/* Ids that wait in the old shard. */
static long long left(void)
{
    return count_of("HLEN", "jobs");
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
    for (i = 0; i < MANY; i++) {
        char id[16];
        snprintf(id, sizeof id, "id-%d", i);
        push(&f, id, "1", later);
    }
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
                when[i] = left();
            if (has_left && when[i] > 0) {
                worst = when[i] - left() > worst ? when[i] - left() : worst;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_id_leaves_soon_after_its_run),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_evicted.c - servers and shards whose runs a real redis-server has evicted: here the keys are deleted. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "move_fixture.h"
#include "operators.h"

static live_log run_log;

static void push_ids(const fixture *f, int count)
{
    char id[16];
    int i;
    for (i = 0; i < count; i++) {
        snprintf(id, sizeof id, "i%d", i);
        push(f, id, "x", none);
    }
}

static const char *released(const fixture *f)
{
    static char answer[16];
    redisReply *reply = SCRIPT(release, f->lease, "");
    snprintf(answer, sizeof answer, "%s", reply->str);
    freeReplyObject(reply);
    return answer;
}

/* As a node does of which a release was answered BUSY, and which knows no run. Returns the deaths to be reported. */
static long long acquire_again(fixture *f, const char *node)
{
    redisReply *reply = acquire_seen(node, "1");
    long long deaths = reply->element[3]->integer;
    assert_string_equal(reply->element[0]->str, "KEPT");
    strcpy(f->lease, reply->element[1]->str);
    strcpy(f->seen, reply->element[2]->str);
    freeReplyObject(reply);
    return deaths;
}

static void claims_all(fixture *f, int count, char run[64])
{
    push_ids(f, count);
    acquire(f, "n1");
    assert_int_equal(claim(f, "1000", run), count);
}

static void test_f30_a_shard_of_which_a_claim_was_evicted_is_given_up(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    claims_all(&f, 20, NULL);
    REDIS("DEL " PREFIX "claims");
    assert_string_equal(released(&f), "BUSY");
    acquire_again(&f, "n1");
    assert_int_equal(metrics(&f).busy, 0);
    assert_string_equal(released(&f), "OK");
    assert_string_equal(kinds_found(&f, f.queue, 1), "index"); /* its ids are in no list */
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1000", NULL), 20);
    close_queue(&f);
}

static void test_f30_what_was_evicted_is_not_counted_by_the_next_owner(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    claims_all(&f, 20, NULL);
    REDIS("DEL " PREFIX "claims");
    take_over(&f, "n2");
    assert_int_equal(metrics(&f).busy, 0);
    assert_string_equal(released(&f), "OK");
    assert_string_equal(kinds_found(&f, f.queue, 1), "index");
    close_queue(&f);
}

static void test_f30_a_settle_of_an_evicted_claim_is_refused_and_counts_it_no_more(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], other[64];
    redisReply *reply;
    (void)state;
    claims_all(&f, 20, run);
    REDIS("DEL " PREFIX "claims");
    push(&f, "other", "x", none);
    assert_int_equal(claim(&f, "5", other), 1);
    reply = SCRIPT(settle, f.lease, "1", "merge", "1", run, "-20");
    assert_int_equal(reply->element[0]->integer, 20);
    freeReplyObject(reply);
    assert_int_equal(metrics(&f).busy, 1);
    freeReplyObject(SCRIPT(settle, f.lease, "2", "merge", "1", other, "-1"));
    assert_int_equal(metrics(&f).busy, 0);
    assert_int_equal(metrics(&f).processed, 1);
    assert_string_equal(kinds_found(&f, f.queue, 1), "index");
    close_queue(&f);
}

static void test_f30_claims_outlive_the_state_that_counted_them(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    claims_all(&f, 20, NULL);
    REDIS("DEL " PREFIX "state");
    take_over(&f, "n2");
    recover_all(&f);
    assert_int_equal(metrics(&f).unproven, 20);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* No claim would ever answer such a run, because it has no record to answer. */
static void test_f30_the_death_of_an_evicted_job_is_not_reported(void **state)
{
    static const char *const modes[] = {"s", "o"};
    size_t i;
    (void)state;
    for (i = 0; i < 2 * sizeof modes / sizeof *modes; i++) {
        fixture f = open_queue(1, "merge");
        claims_all(&f, 1, NULL);
        REDIS("DEL " PREFIX "claims " PREFIX "jobs");
        REDIS("HSET " PREFIX "running i0 0%s%s", modes[i / 2], f.seen);
        if (i % 2)
            take_over(&f, "n2");
        assert_int_equal(acquire_again(&f, i % 2 ? "n2" : "n1"), 0);
        recover_all(&f);
        assert_string_equal(released(&f), "OK");
        assert_int_equal(findings(&f, 0), 0);
        close_queue(&f);
    }
}

/* While a thread runs a job, this happens. The server ends, and the queue works on once it is repaired. */
static void test_f30_a_server_ends_whatever_has_become_of_its_keys(void **state)
{
    static const char *const damages[] = {"DEL " PREFIX "claims", "DEL " PREFIX "running",
                                          "DEL " PREFIX "jobs",   "DEL " PREFIX "state",
                                          "DEL " PREFIX "ready",  "HSET " PREFIX "running no run"};
    size_t i;
    (void)state;
    for (i = 0; i < 2 * sizeof damages / sizeof *damages; i++) {
        int is_spread = i % 2;
        fixture f = open_queue(1, "list");
        int64_t until = live_now() + LIVE_MOST_MS;
        live_node n;
        memset(&run_log, 0, sizeof run_log);
        live_start(&n, "n", 1, 2, &run_log);
        n.run_ms = LIVE_MOST_MS;
        live_await_shards(&n, 1);
        push_ids(&f, 10);
        while (run_log.count < LIVE_THREADS && live_now() < until)
            live_step(&n);
        assert_int_equal(run_log.count, LIVE_THREADS);
        if (is_spread)
            push(&f, run_log.runs[0].id, "behind", none);
        REDIS(damages[i / 2]);
        live_end_runs(&n);
        live_stop(&n);
        findings(&f, 1);
        findings(&f, 1);
        if (findings(&f, 0))
            fail_msg("%s: a finding is left", damages[i / 2]);
        live_start(&n, "next", 1, 2, &run_log);
        live_await_shards(&n, 1);
        push(&f, "last", "x", none);
        until = live_now() + LIVE_MOST_MS;
        while (metrics(&f).length + metrics(&f).busy > 0 && live_now() < until)
            live_step(&n);
        if (metrics(&f).length + metrics(&f).busy > 0)
            fail_msg("%s: what is left does not run", damages[i / 2]);
        live_stop(&n);
        close_queue(&f);
    }
}

static void step_until(live_node *n, size_t runs)
{
    int64_t until = live_now() + LIVE_MOST_MS;
    while (run_log.count < runs && live_now() < until)
        live_step(n);
    assert_int_equal(run_log.count, runs);
}

/*
 * To an acquire an evicted run looks as one that a failover forgot, so what the server has claimed later is void as
 * well: it runs once more, when its first run has ended.
 */
static void test_f30_what_was_claimed_after_an_evicted_run_runs_again_and_never_at_once(void **state)
{
    fixture f = open_queue(1, "list");
    live_node n;
    (void)state;
    memset(&run_log, 0, sizeof run_log);
    live_start(&n, "n", 1, 2, &run_log);
    n.run_ms = LIVE_MOST_MS;
    live_await_shards(&n, 1);
    push(&f, "a", "x", none);
    step_until(&n, 1);
    push(&f, "b", "x", none);
    step_until(&n, 2);
    push(&f, "a", "behind", none); /* now each has a run of its own */
    REDIS("HDEL " PREFIX "running a");
    live_cut(&n);
    steps_for(&n, 1, 300);
    assert_int_equal(run_log.count, 2);
    live_end_runs(&n);
    step_until(&n, 3);
    assert_string_equal(run_log.runs[2].id, "b");
    assert_true(run_log.runs[2].fence > run_log.runs[1].fence);
    findings(&f, 1);
    step_until(&n, 5); /* what the eviction had left of a */
    live_stop(&n);
    assert_int_equal(metrics(&f).busy, 0);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f30_a_shard_of_which_a_claim_was_evicted_is_given_up),
        cmocka_unit_test(test_f30_what_was_evicted_is_not_counted_by_the_next_owner),
        cmocka_unit_test(test_f30_a_settle_of_an_evicted_claim_is_refused_and_counts_it_no_more),
        cmocka_unit_test(test_f30_claims_outlive_the_state_that_counted_them),
        cmocka_unit_test(test_f30_the_death_of_an_evicted_job_is_not_reported),
        cmocka_unit_test(test_f30_a_server_ends_whatever_has_become_of_its_keys),
        cmocka_unit_test(test_f30_what_was_claimed_after_an_evicted_run_runs_again_and_never_at_once),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

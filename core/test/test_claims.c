/* test_claims.c - claims and settles, against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SRT_SCRIPT_TEXTS
#include "operators.h"

/* An id that was deleted and pushed again stands in the ready list twice. */
static void test_a_claim_skips_stale_entries(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push_new_ids(&f, 0, 20, none);
    act_on(&f, SERIATIM_DELETE, "i3");
    push(&f, "i3", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "10", NULL), 10);
    assert_int_equal(claim(&f, "30", NULL), 10);
    close_queue(&f);
}

/* A claim of all that is due; fails unless Redis refuses it because of the type of a key. */
static void claim_is_refused(const fixture *f)
{
    redisReply *reply =
        redisCommand(server_redis, "EVAL %b 2 %s %s 1 %s %s 10 0 0 merge 0 25 bury", srt_script_text_claim,
                     sizeof srt_script_text_claim - 1, PREFIX "state", PREFIX "-", f->lease, f->seen);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(reply->str, "WRONGTYPE"));
    freeReplyObject(reply);
}

static void test_f10_a_claim_beside_a_key_of_the_wrong_type_takes_nothing(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    acquire(&f, "n1");
    push_new_ids(&f, 0, 3, none);
    REDIS("SET " PREFIX "claims x");
    claim_is_refused(&f);
    REDIS("DEL " PREFIX "claims");
    assert_int_equal(claim(&f, "10", NULL), 3);
    push_failed(&f, "failed", "x", 2, 0);
    push_new_ids(&f, 3, 1, none);
    REDIS("RENAME " PREFIX "retry kept");
    REDIS("SET " PREFIX "retry x");
    claim_is_refused(&f);
    REDIS("RENAME kept " PREFIX "retry");
    assert_int_equal(claim(&f, "10", NULL), 2);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_ranges_leave_out_running_ids(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push_new_ids(&f, 0, 4, none);
    act_on(&f, SERIATIM_DELETE, "i1");
    push(&f, "i1", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "2", NULL), 2); /* i0 and, by its first entry, i1 */
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 1, "-inf", "+inf", 2), "i3 i2");
    close_queue(&f);
}

static void test_a_claim_skips_evicted_records(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push_new_ids(&f, 0, 20, none);
    REDIS("DEL " PREFIX "jobs");
    push_new_ids(&f, 0, 20, none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "100", NULL), 20);
    close_queue(&f);
}

static void keep_or_bring_back(const char *from, const char *to)
{
    static const char *const kinds[] = {"state", "jobs", "ready", "running", "claims"};
    size_t i;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        freeReplyObject(redisCommand(server_redis, "DEL %s%s", to, kinds[i]));
        freeReplyObject(redisCommand(server_redis, "COPY %s%s %s%s", from, kinds[i], to, kinds[i]));
    }
}

/* A failover to a replica that had not heard of the claim; the lease stays. */
static void test_a_settle_of_a_lost_claim_is_refused(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], seen[32];
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    strcpy(seen, f.seen);
    keep_or_bring_back(PREFIX, "kept:");
    assert_int_equal(claim(&f, "5", run), 1);
    keep_or_bring_back("kept:", PREFIX);
    settle_done(&f, "a", run);
    assert_int_equal(metrics(&f).refused, 1);
    strcpy(f.seen, seen);
    assert_int_equal(claim(&f, "5", run), 1);
    settle_done(&f, "a", run);
    assert_int_equal(claim(&f, "5", NULL), 0);
    close_queue(&f);
}

/* A dead connection may deliver what was sent on it after its successor has settled more. */
static void test_a_settle_that_arrives_late_again_changes_nothing(void **state)
{
    fixture f = open_queue(1, "merge");
    char first[64], second[64];
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    claim(&f, "5", first);
    settle_done(&f, "a", first);
    push(&f, "b", "x", none);
    claim(&f, "5", second);
    settle_done(&f, "b", second);
    push(&f, "a", "y", none);
    f.settles = 0;
    settle_done(&f, "a", first);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "y");
    close_queue(&f);
}

/* Redis executes a call of n1 once more, which names the number `number` and no run. */
static void acquires_late(const char *number, const char *owner)
{
    redisReply *reply = SCRIPT(acquire, "n1", "1", "", number);
    assert_string_equal(reply->element[0]->str, "TAKEN");
    assert_string_equal(reply->element[1]->str, owner);
    freeReplyObject(reply);
}

/* So does an acquire: its node has claimed, given the shard up, or acquired it anew meanwhile. */
static void test_an_acquire_that_arrives_late_again_changes_nothing(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], first[32], second[32];
    redisReply *reply;
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    strcpy(first, f.lease);
    acquires_late("0", "n1");
    assert_int_equal(claim(&f, "5", run), 1);
    acquires_late("0", "n1");
    settle_done(&f, "a", run);
    assert_int_equal(metrics(&f).refused, 0);
    reply = SCRIPT(acquire, "n1", "1", "", first);
    assert_string_equal(reply->element[0]->str, "KEPT");
    strcpy(second, reply->element[1]->str);
    freeReplyObject(reply);
    acquires_late(first, "n1");
    reply = SCRIPT(release, second, "");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    acquires_late("0", "");
    acquires_late(first, "");
    acquires_late(second, "");
    close_queue(&f);
}

/* Claims id a with a ttr of 1 us; the run is the answer. */
static void claim_shortly(fixture *f, char run[64])
{
    redisReply *reply = SCRIPT(claim, f->lease, f->seen, "5", "0", "1", "merge", "0", "25", "bury");
    assert_int_equal(reply->elements, 10);
    strcpy(f->seen, reply->element[1]->str);
    snprintf(run, 64, "0n%s", f->seen);
    freeReplyObject(reply);
}

/* The caller still has an earlier run, whose time was over. It names the runs in any order. */
static void test_an_acquire_keeps_the_latest_run_of_an_id(void **state)
{
    fixture f = open_queue(1, "merge");
    char runs[2][64];
    redisReply *reply;
    int first;
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    claim_shortly(&f, runs[0]);
    claim_shortly(&f, runs[1]);
    for (first = 0; first < 2; first++) {
        reply = SCRIPT(acquire, "n1", "0", "", f.lease, "a", runs[first], "a", runs[1 - first]);
        assert_string_equal(reply->element[0]->str, "KEPT");
        strcpy(f.lease, reply->element[1]->str);
        freeReplyObject(reply);
        reply = redis("HGET " PREFIX "running a");
        assert_string_equal(reply->str, runs[1]);
        freeReplyObject(reply);
    }
    close_queue(&f);
}

/* Ids i0.. of a shard that n1 has; claims all of them. */
static void claim_whole(fixture *f, int count, char run[64])
{
    push_new_ids(f, 0, count, none);
    acquire(f, "n1");
    assert_int_equal(claim(f, "1000", run), count);
}

static void settle_whole(fixture *f, const char *run, int count)
{
    char sequence[16], below[16];
    snprintf(sequence, sizeof sequence, "%d", ++f->settles);
    snprintf(below, sizeof below, "%d", -count);
    freeReplyObject(SCRIPT(settle, f->lease, sequence, "merge", "1", run, below));
}

static void test_a_claim_is_settled_as_a_whole(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    claim_whole(&f, 300, run);
    assert_int_equal(number("HLEN " PREFIX "running"), 1);
    assert_int_equal(number("HLEN " PREFIX "claims"), 1);
    assert_int_equal(metrics(&f).busy, 300);
    assert_int_equal(metrics(&f).length, 0);
    settle_whole(&f, run, 300);
    assert_int_equal(metrics(&f).processed, 300);
    assert_int_equal(metrics(&f).busy, 0);
    assert_int_equal(number("EXISTS " PREFIX "jobs " PREFIX "claims"), 0);
    settle_whole(&f, run, 300);
    assert_int_equal(metrics(&f).refused, 300);
    close_queue(&f);
}

/* Those who only look find the runs, and leave them where they are. */
static void test_queries_see_the_runs_of_whole_claims(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    claim_whole(&f, 3, NULL);
    assert_string_equal(range(&f, SERIATIM_PROCESSING_DATA, 0, NULL, NULL, 10), "i0 i1 i2");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, NULL, NULL, 10), "");
    assert_string_equal(explain(&f, "i1")->job.state, "running");
    assert_int_equal(findings(&f, 0), 0);
    assert_int_equal(number("HLEN " PREFIX "running"), 1);
    close_queue(&f);
}

static void test_a_push_waits_behind_a_whole_claim(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    claim_whole(&f, 20, run);
    push(&f, "i7", "y", none);
    push(&f, "new", "y", none);
    assert_int_equal(metrics(&f).busy, 20);
    assert_int_equal(claim(&f, "1000", NULL), 1); /* not i7 */
    settle_whole(&f, run, 20);
    assert_int_equal(metrics(&f).processed, 20);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "i7"), "y");
    assert_int_equal(claim(&f, "1000", NULL), 1);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_actions_apply_to_runs_of_whole_claims(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    claim_whole(&f, 20, run);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "i1"), 1);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "i2"), 1);
    push(&f, "i2", "y", none);
    settle_whole(&f, run, 20);
    assert_int_equal(metrics(&f).parked, 1);
    assert_int_equal(metrics(&f).busy, 0);
    assert_int_equal(metrics(&f).length, 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* Where one id ended alone, each of the others does; the whole counts no more. */
static void test_a_claim_is_split_when_one_of_its_ids_ends_alone(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    claim_whole(&f, 20, run);
    settle_done(&f, "i0", run);
    settle_failed(&f, "i1", run, "25", "bury");
    assert_int_equal(metrics(&f).busy, 18);
    settle_whole(&f, run, 20);
    assert_int_equal(metrics(&f).refused, 20);
    assert_int_equal(metrics(&f).busy, 18);
    settle_done(&f, "i2", run);
    assert_int_equal(metrics(&f).processed, 2);
    assert_int_equal(metrics(&f).retries, 1);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* Both kinds in one settle; a claim whose answer was lost comes again, whole. */
static void test_whole_claims_and_single_runs_are_settled_together(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], again[64], seen[32], sequence[16];
    (void)state;
    claim_whole(&f, 20, run);
    push(&f, "later", "x", none);
    strcpy(seen, f.seen);
    assert_int_equal(claim(&f, "10", again), 1);
    strcpy(f.seen, seen);
    assert_int_equal(claim(&f, "10", again), 1);
    snprintf(sequence, sizeof sequence, "%d", ++f.settles);
    freeReplyObject(
        SCRIPT(settle, f.lease, sequence, "merge", "1", run, "-20", "fail", "later", again, "0", "boom", "25", "bury"));
    assert_int_equal(metrics(&f).processed, 20);
    assert_int_equal(metrics(&f).retries, 1);
    assert_int_equal(metrics(&f).busy, 0);
    close_queue(&f);
}

static void test_the_next_owner_recovers_whole_claims(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    claim_whole(&f, 20, NULL);
    take_over(&f, "n2");
    assert_int_equal(metrics(&f).unproven, 20);
    assert_int_equal(metrics(&f).busy, 0);
    assert_int_equal(number("EXISTS " PREFIX "claims"), 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* What a full Redis allows: to look, to delete, to settle, and to claim again; what it refuses changes nothing. */
static void test_whole_claims_are_settled_at_maxmemory(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    claim_whole(&f, 20, run);
    push(&f, "more", "x", none);
    metrics(&f);
    REDIS("CONFIG SET maxmemory 1");
    done(&f, seriatim_push_begin(f.client, f.queue));
    add(&f, "i1", 2, "y", none);
    assert_int_equal(seriatim_push_send(f.client), SERIATIM_OK);
    assert_int_equal(drive(f.link), SERIATIM_FULL);
    assert_int_equal(number("HLEN " PREFIX "running"), 1);
    assert_string_equal(explain(&f, "i1")->job.state, "running");
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "i1"), 1);
    assert_int_equal(claim(&f, "10", NULL), 1);
    settle_whole(&f, run, 20);
    assert_int_equal(metrics(&f).processed, 20);
    REDIS("CONFIG SET maxmemory 0");
    close_queue(&f);
}

static void test_check_repairs_whole_claims(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    claim_whole(&f, 20, NULL);
    REDIS("HDEL " PREFIX "jobs i3");
    assert_string_equal(kinds_found(&f, f.queue, 1), "run");
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    close_queue(&f);
    f = open_queue(1, "merge");
    claim_whole(&f, 20, NULL);
    REDIS("HSET " PREFIX "claims %s nonsense", f.seen);
    assert_string_equal(kinds_found(&f, f.queue, 1), "index run"); /* its ids wait again */
    assert_string_equal(kinds_found(&f, f.queue, 1), "");
    assert_int_equal(claim(&f, "1000", NULL), 20);
    close_queue(&f);
}

/* The next message on the owner's channel. */
static void hears(redisContext *ear, const char *wanted)
{
    void *heard;
    assert_int_equal(redisGetReply(ear, &heard), REDIS_OK);
    assert_string_equal(((redisReply *)heard)->element[2]->str, wanted);
    freeReplyObject(heard);
}

/* Nothing but the first push behind a run of the owner's is told, so that it settles what has ended. */
static void test_r_run_11_the_first_push_behind_a_run_is_told(void **state)
{
    fixture f = open_queue(1, "merge");
    redisContext *ear = redisConnectUnix(server.socket);
    char run[64];
    (void)state;
    freeReplyObject(redisCommand(ear, "SUBSCRIBE seriatim:wake:n1"));
    acquire(&f, "n1");
    push(&f, "a", "1", none);
    assert_int_equal(claim(&f, "5", run), 1);
    assert_int_equal(claim(&f, "5", NULL), 0); /* the owner sleeps */
    push(&f, "a", "2", none);
    hears(ear, "~" PREFIX);
    push(&f, "a", "3", none);
    push(&f, "b", "1", none);
    hears(ear, PREFIX);
    settle_done(&f, "a", run);
    assert_int_equal(claim(&f, "5", run), 2);
    push(&f, "a", "4", none);
    hears(ear, "~" PREFIX);
    redisFree(ear);
    close_queue(&f);
}

/* The last slice of a recovery may come behind the claim with which the owner has begun to sleep. */
static void test_a_push_wakes_an_owner_whose_recovery_ended_behind_its_claim(void **state)
{
    fixture f = open_queue(1, "merge");
    redisContext *ear = redisConnectUnix(server.socket);
    char cursor[24] = "0";
    struct timeval patience = {10, 0};
    (void)state;
    assert_int_equal(redisSetTimeout(ear, patience), REDIS_OK);
    freeReplyObject(redisCommand(ear, "SUBSCRIBE seriatim:wake:n2"));
    claim_whole(&f, 1, NULL);
    assert_int_equal(take_from_dead(&f, "n2"), 1);
    while (cursor[0] != 'u')
        assert_int_equal(recover_slice(&f, cursor), 1);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "i0"), 1);
    hears(ear, "!" PREFIX);
    assert_int_equal(claim(&f, "5", NULL), 0); /* the owner sleeps */
    assert_int_equal(recover_slice(&f, cursor), 0);
    push(&f, "a", "1", none);
    hears(ear, PREFIX);
    redisFree(ear);
    close_queue(&f);
}

/* A push with this word of on_waiting. */
static void push_by(const fixture *f, const char *word, const char *id, double delay)
{
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = strlen(id);
    job.payload = "y";
    job.payload_len = 1;
    job.on_waiting = word;
    if (delay > 0) {
        job.when = SERIATIM_DELAY;
        job.time = delay;
    }
    done(f, seriatim_push_begin(f->client, f->queue));
    done(f, seriatim_push_job(f->client, &job));
    done(f, seriatim_push_send(f->client));
}

/* As if the clock of Redis had been set back: the tick of the shard is that of the year 2055. */
static void put_clock_behind(void)
{
    REDIS("SETRANGE " PREFIX "state 8 %b", "\x00\x00\x00\x00\x00\x88\x23\x43", (size_t)8); /* 2.7e15 us */
}

static void test_a_job_without_a_time_asks_for_now_though_the_clock_is_behind(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push_later(&f, "replaced", "x", 900);
    push_later(&f, "earlier", "x", 900);
    push(&f, "later", "x", none);
    push_failed(&f, "failed", "x", 3, 900); /* it waits for its retry */
    acquire(&f, "n1");
    put_clock_behind();
    push_by(&f, "replace", "replaced", 0);
    push_by(&f, "earlier", "earlier", 0);
    push_by(&f, "later", "later", 0);
    push_by(&f, "earlier", "failed", 0);
    assert_int_equal(claim(&f, "10", NULL), 4);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_a_job_behind_a_run_asks_for_now_though_the_clock_is_behind(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    put_clock_behind();
    push_by(&f, "earlier", "a", 0);
    settle_failed(&f, "a", run, "25", "bury"); /* its retry is due in a minute */
    assert_int_equal(claim(&f, "10", NULL), 1);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_a_delayed_job_behind_a_run_waits_though_the_clock_is_behind(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], other[64];
    (void)state;
    push(&f, "delayed", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, "moved", "x", none);
    assert_int_equal(claim(&f, "1", other), 1);
    put_clock_behind();
    push_by(&f, NULL, "delayed", 900);
    push_by(&f, NULL, "moved", 0);
    push_by(&f, "replace", "moved", 900);
    settle_done(&f, "delayed", run);
    settle_done(&f, "moved", other);
    assert_int_equal(claim(&f, "10", NULL), 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_perform_all_jobs_now_makes_ids_due_though_the_clock_is_behind(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    put_clock_behind();
    push_later(&f, "a", "y", 900); /* behind the run */
    push_later(&f, "delayed", "x", 900);
    assert_int_equal(act(&f, SERIATIM_PERFORM_ALL_JOBS_NOW), 2);
    settle_done(&f, "a", run);
    assert_int_equal(claim(&f, "10", NULL), 2);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_perform_all_failed_jobs_now_makes_ids_due_though_the_clock_is_behind(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push_failed(&f, "failed", "x", 3, 900);
    acquire(&f, "n1");
    put_clock_behind();
    assert_int_equal(act(&f, SERIATIM_PERFORM_ALL_FAILED_JOBS_NOW), 1);
    assert_int_equal(claim(&f, "10", NULL), 1);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f10_a_claim_beside_a_key_of_the_wrong_type_takes_nothing),
        cmocka_unit_test(test_ranges_leave_out_running_ids),
        cmocka_unit_test(test_a_claim_skips_stale_entries),
        cmocka_unit_test(test_a_claim_skips_evicted_records),
        cmocka_unit_test(test_r_run_11_the_first_push_behind_a_run_is_told),
        cmocka_unit_test(test_a_push_wakes_an_owner_whose_recovery_ended_behind_its_claim),
        cmocka_unit_test(test_a_settle_of_a_lost_claim_is_refused),
        cmocka_unit_test(test_a_settle_that_arrives_late_again_changes_nothing),
        cmocka_unit_test(test_an_acquire_that_arrives_late_again_changes_nothing),
        cmocka_unit_test(test_an_acquire_keeps_the_latest_run_of_an_id),
        cmocka_unit_test(test_a_claim_is_settled_as_a_whole),
        cmocka_unit_test(test_queries_see_the_runs_of_whole_claims),
        cmocka_unit_test(test_a_push_waits_behind_a_whole_claim),
        cmocka_unit_test(test_actions_apply_to_runs_of_whole_claims),
        cmocka_unit_test(test_a_claim_is_split_when_one_of_its_ids_ends_alone),
        cmocka_unit_test(test_whole_claims_and_single_runs_are_settled_together),
        cmocka_unit_test(test_the_next_owner_recovers_whole_claims),
        cmocka_unit_test(test_whole_claims_are_settled_at_maxmemory),
        cmocka_unit_test(test_check_repairs_whole_claims),
        cmocka_unit_test(test_a_job_without_a_time_asks_for_now_though_the_clock_is_behind),
        cmocka_unit_test(test_a_job_behind_a_run_asks_for_now_though_the_clock_is_behind),
        cmocka_unit_test(test_a_delayed_job_behind_a_run_waits_though_the_clock_is_behind),
        cmocka_unit_test(test_perform_all_jobs_now_makes_ids_due_though_the_clock_is_behind),
        cmocka_unit_test(test_perform_all_failed_jobs_now_makes_ids_due_though_the_clock_is_behind),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

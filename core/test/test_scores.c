/* test_scores.c - the scores that remember_score keeps, against a real redis-server: what scenarios cannot reach. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "operators.h"
#define SRT_SCRIPT_TEXTS
#include "wire/scripts.inc"

/* Scores as a settle packs them, >d. */
#define LOWER "?@@@@@@@"
#define SCORE "@@@@@@@@"
#define HIGHER "A@@@@@@@"

/* A run of the id "a" is done; its score is to be kept for `microseconds`. */
static void run_scored(fixture *f, const char *score, const char *microseconds)
{
    char run[64], sequence[16];
    push(f, "a", "x", none);
    assert_int_equal(claim(f, "1", run), 1);
    snprintf(sequence, sizeof sequence, "%d", ++f->settles);
    freeReplyObject(SCRIPT(settle, f->lease, sequence, "merge", "0", "done", "a", run, microseconds, score, "0", ""));
}

static void kept(char found[17], double *end)
{
    redisReply *reply = redis("HGET " PREFIX "scores a");
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    assert_int_equal(reply->len, 16);
    memcpy(found, reply->str, 8);
    memcpy(end, reply->str + 8, 8);
    freeReplyObject(reply);
    reply = redis("ZSCORE " PREFIX "scoreends a");
    assert_true(strtod(reply->str, NULL) == *end);
    freeReplyObject(reply);
}

/* A worker may set a shorter time meanwhile. */
static void test_r_stale_14_the_kept_score_is_neither_lowered_nor_shortened(void **state)
{
    fixture f = open_queue(1, "merge");
    char first[17], then[17];
    double end, later;
    (void)state;
    acquire(&f, "n1");
    run_scored(&f, SCORE, "600000000");
    kept(first, &end);
    run_scored(&f, SCORE, "1000000");
    kept(then, &later);
    assert_memory_equal(then, first, 8);
    assert_true(later == end);
    run_scored(&f, LOWER, "900000000");
    kept(then, &later);
    assert_memory_equal(then, first, 8);
    assert_true(later == end);
    assert_true(number("PTTL " PREFIX "scores") > 500000 && number("PTTL " PREFIX "scoreends") > 500000);
    run_scored(&f, SCORE, "900000000");
    kept(then, &later);
    assert_true(later > end);
    run_scored(&f, HIGHER, "60000000");
    kept(then, &later);
    assert_memory_not_equal(then, first, 8);
    assert_true(later < end);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_stale_14_the_kept_score_is_neither_lowered_nor_shortened),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

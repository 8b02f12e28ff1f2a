/* test_deaths.c - what the death of a process is charged to, against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "operators.h"

#define LATE 1e17                                     /* a score */
#define EARLY_LAST "\x43\x21\x43\x21\x43\x21\x43\x21" /* packed: below that score, and above that of other payloads */

/* The name of the node that owns the shard; it changes with each death. */
static const char *node(int next)
{
    static char name[16];
    static int number;
    number += next;
    snprintf(name, sizeof name, "n%d", number);
    return name;
}

/* The owner dies, and another node takes its shard. Returns how many deaths of suspects it found. */
static int dies(fixture *f)
{
    char before[16], cursor[24] = "0";
    redisReply *reply;
    int deaths = 0;
    snprintf(before, sizeof before, "%s", node(0));
    reply = SCRIPT(acquire, node(1), "0", before, f->lease);
    assert_string_equal(reply->element[0]->str, "OK");
    strcpy(f->lease, reply->element[1]->str);
    strcpy(f->seen, reply->element[2]->str);
    freeReplyObject(reply);
    f->settles = 0;
    while (cursor[0]) {
        reply = SCRIPT(recover, f->lease, "list", cursor);
        snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
        deaths += (int)reply->element[2]->integer;
        freeReplyObject(reply);
    }
    return deaths;
}

/* Claims the one id that is there. mode: that of the run (n, u, s, o) */
static void begins(fixture *f, char run[64], char mode)
{
    const char *place = mode == 'u' ? "1" : mode == 's' ? "2" : "0";
    redisReply *reply = SCRIPT(claim, f->lease, f->seen, "1", place, "0", "list", "0", "25", "bury");
    assert_int_equal(reply->elements, 10);
    assert_int_equal(reply->element[6]->str[0], mode);
    strcpy(f->seen, reply->element[1]->str);
    freeReplyObject(reply);
    snprintf(run, 64, "%d%c%s", count_of("EXISTS", "spill:a") == 1, mode, f->seen);
}

/* A queue whose id "a" has payloads; its process has died twice, and it runs as a suspect. */
static fixture suspect(int early, int late, char run[64])
{
    fixture f = open_queue(1, "list");
    push_options options = {0, LATE, 0, NULL};
    acquire(&f, node(1));
    push_many(&f, "a", 0, early);
    for (; late > 0; late--)
        push(&f, "a", "late", options);
    begins(&f, run, 'n');
    assert_int_equal(dies(&f), 0);
    begins(&f, run, 'u');
    assert_int_equal(dies(&f), 0);
    begins(&f, run, 's');
    return f;
}

/* The early payloads of the run are done, or as many of them as one call removes. */
static void checkpoint(fixture *f, const char *run)
{
    char sequence[16];
    snprintf(sequence, sizeof sequence, "%d", ++f->settles);
    freeReplyObject(SCRIPT(settle, f->lease, sequence, "list", "0", "checkpoint", "a", run, "0", EARLY_LAST EARLY_LAST,
                           "1000", ""));
}

/* So many payloads are left, and a death of their process is the first one. */
static void counts_as_new(fixture *f, int left)
{
    char run[64];
    assert_int_equal(metrics(f).unproven + metrics(f).suspect, 0);
    assert_int_equal(fetch(f, SERIATIM_FETCH, "a")->payload_total, left);
    assert_int_equal(findings(f, 0), 0);
    begins(f, run, 'n');
    assert_int_equal(dies(f), 0);
    begins(f, run, 'u');
    settle_done(f, "a", run);
    assert_int_equal(findings(f, 0), 0);
}

/* A record holds 1 payload itself; 100 and 400 lie in a hash beside it, and one call removes 400 only in part. */
static void test_r_checkpoint_4_a_death_behind_a_checkpoint_of_a_suspect_is_the_first(void **state)
{
    static const int early[] = {1, 100, 400};
    char run[64];
    size_t i;
    (void)state;
    for (i = 0; i < sizeof early / sizeof *early; i++) {
        fixture f = suspect(early[i], 2, run);
        checkpoint(&f, run);
        assert_int_equal(findings(&f, 0), 0);
        assert_int_equal(dies(&f), 0);
        assert_int_equal(metrics(&f).unproven, 1);
        assert_int_equal(findings(&f, 0), 0);
        begins(&f, run, 'u');
        assert_int_equal(dies(&f), 0);
        begins(&f, run, 's');
        assert_int_equal(dies(&f), 1);
        begins(&f, run, 'o');
        settle_failed(&f, "a", run, "25", "bury");
        assert_int_equal(metrics(&f).suspect, 1);
        close_queue(&f);
    }
}

static void test_r_checkpoint_4_what_is_handed_back_behind_a_checkpoint_is_not_in_doubt(void **state)
{
    char run[64];
    fixture f = suspect(1, 2, run);
    (void)state;
    checkpoint(&f, run);
    freeReplyObject(SCRIPT(settle, f.lease, "9", "list", "0", "release", "a", run, "0", "", "0", ""));
    counts_as_new(&f, 2);
    close_queue(&f);
}

/* As above, while nothing says that it runs. */
static void test_r_checkpoint_4_a_repair_of_a_run_behind_a_checkpoint_is_not_in_doubt(void **state)
{
    char run[64];
    fixture f = suspect(1, 2, run);
    (void)state;
    checkpoint(&f, run);
    REDIS("HDEL " PREFIX "running a");
    assert_string_equal(kinds_found(&f, f.queue, 1), "index");
    counts_as_new(&f, 2);
    close_queue(&f);
}

static void test_r_checkpoint_4_a_checkpoint_of_nothing_leaves_a_suspect(void **state)
{
    char run[64];
    fixture f = suspect(0, 2, run);
    (void)state;
    checkpoint(&f, run);
    assert_int_equal(dies(&f), 1);
    close_queue(&f);
}

/* It failed, or killed its process once more. */
static void test_r_crash_3_a_payload_behind_one_that_was_buried_is_not_in_doubt(void **state)
{
    char run[64];
    int died;
    (void)state;
    for (died = 0; died < 2; died++) {
        fixture f = suspect(2, 1, run);
        if (died) {
            assert_int_equal(dies(&f), 1);
            begins(&f, run, 'o');
        }
        settle_failed(&f, "a", run, "0", "bury");
        assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "a")->payload_total, 1);
        counts_as_new(&f, 2);
        close_queue(&f);
    }
}

/* A parked id keeps the payload that may have ended its processes. */
static void test_r_crash_3_a_suspect_that_fails_or_is_parked_stays_one(void **state)
{
    static const char *const limits[] = {"25", "0"};
    char run[64];
    size_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        fixture f = suspect(2, 0, run);
        settle_failed(&f, "a", run, limits[i], "park");
        if (i == 1)
            assert_int_equal(act_on(&f, SERIATIM_UNPARK, "a"), 1);
        assert_int_equal(metrics(&f).suspect, 1);
        assert_int_equal(findings(&f, 0), 0);
        close_queue(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_checkpoint_4_a_death_behind_a_checkpoint_of_a_suspect_is_the_first),
        cmocka_unit_test(test_r_checkpoint_4_what_is_handed_back_behind_a_checkpoint_is_not_in_doubt),
        cmocka_unit_test(test_r_checkpoint_4_a_repair_of_a_run_behind_a_checkpoint_is_not_in_doubt),
        cmocka_unit_test(test_r_checkpoint_4_a_checkpoint_of_nothing_leaves_a_suspect),
        cmocka_unit_test(test_r_crash_3_a_payload_behind_one_that_was_buried_is_not_in_doubt),
        cmocka_unit_test(test_r_crash_3_a_suspect_that_fails_or_is_parked_stays_one),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

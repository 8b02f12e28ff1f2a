/*
 * test_garbage.c - F10: whatever stands in a script's arguments, an error changes nothing.
 *
 * Every script of core/scripts must stand in `calls`. SEED=n takes another seed, TRIALS=n makes it longer.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "garbage_fixture.h"
#include "wire/script.h"

static unsigned dice;

static unsigned roll(unsigned below)
{
    dice = dice * 1664525 + 1013904223;
    return (dice >> 8) % below;
}

static void spoil(garbage_arguments *a)
{
    static const char *const garbage[] = {
        "",    "nan", "inf", "-inf",   "-1",    "1e999", "x",    "0x10", "99999999999999999999",
        " 1",  "1.5", "0",   "2",      "9",     "fail",  "jobs", "1e15", "-",
        "run", "hot", "\n",  "100000", "merge", "\t"};
    char bytes[64];
    size_t i = roll((unsigned)a->count), len, k;
    if (roll(8) == 0) { /* one is missing */
        free(a->data[--a->count]);
        a->data[a->count] = NULL;
    } else if (roll(3) == 0) {
        len = roll(sizeof bytes);
        for (k = 0; k < len; k++)
            bytes[k] = (char)roll(256);
        garbage_set(a, i, bytes, len);
    } else {
        k = roll(sizeof garbage / sizeof *garbage);
        garbage_set(a, i, garbage[k], strlen(garbage[k]));
    }
}

static void test_every_script_is_called_here(void **state)
{
    static const char *const names[] = {
#define X(name, sha) #name,
        SRT_SCRIPTS(X)
#undef X
    };
    size_t i, k;
    (void)state;
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        for (k = 0; k < CALLS && strcmp(calls[k].name, names[i]) != 0; k++)
            ;
        if (k == CALLS)
            fail_msg("%s stands in no call of this test", names[i]);
    }
}

static void test_plausible_calls_succeed(void **state)
{
    size_t i;
    (void)state;
    for (i = 0; i < CALLS; i++) {
        garbage_arguments a;
        redisReply *reply;
        garbage_restore(NULL);
        garbage_plausible(&a, &calls[i]);
        reply = garbage_call(calls[i].name, calls[i].keys, &a);
        if (reply->type == REDIS_REPLY_ERROR)
            fail_msg("%s: %s", calls[i].name, reply->str);
        freeReplyObject(reply);
        garbage_free(&a);
    }
}

static void test_f10_garbage_in_every_argument(void **state)
{
    const char *wanted = getenv("TRIALS");
    int trials = wanted ? atoi(wanted) : 20, trial, errors = 0;
    size_t i;
    (void)state;
    garbage_broken = 0;
    print_message("SEED=%u\n", dice);
    for (i = 0; i < CALLS; i++) {
        for (trial = 0; trial < trials; trial++) {
            garbage_arguments a;
            int more;
            garbage_restore(NULL);
            garbage_plausible(&a, &calls[i]);
            for (more = 1 + (int)roll(2); more > 0 && a.count > 0; more--)
                spoil(&a);
            errors += garbage_refuses_cleanly(&calls[i], &a, "garbage in an argument");
            garbage_free(&a);
        }
    }
    print_message("%d calls, %d refused\n", trials * (int)CALLS, errors);
    assert_true(errors > trials);
    assert_int_equal(garbage_broken, 0);
}

static int set_up(void **state)
{
    const char *seed = getenv("SEED");
    dice = seed ? (unsigned)strtoul(seed, NULL, 10) : getenv("SOAK") ? (unsigned)time(NULL) : 1;
    return garbage_start(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_script_is_called_here),
        cmocka_unit_test(test_plausible_calls_succeed),
        cmocka_unit_test(test_f10_garbage_in_every_argument),
    };
    return cmocka_run_group_tests(tests, set_up, garbage_stop);
}

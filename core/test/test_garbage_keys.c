/* test_garbage_keys.c - F10: whatever type a script's keys have, an error changes nothing. */
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

#include "garbage_fixture.h"
#include "server.h"

#define PREFIX GARBAGE_PREFIX

static const char *const types[] = {"string", "hash", "zset", "list", "set"};

/* 0: it has this type, and nothing is changed. */
static int make_wrong(const char *key, int with)
{
    static const char *const forms[] = {"SET %s wrong", "HSET %s a b", "ZADD %s 1 a", "RPUSH %s a", "SADD %s a"};
    redisReply *type = redis("TYPE %s", key);
    int same = strcmp(type->str, types[with]) == 0;
    freeReplyObject(type);
    if (same)
        return 0;
    freeReplyObject(redis("DEL %s", key));
    freeReplyObject(redis(forms[with], key));
    return 1;
}

/* Makes a key of this type, where that is a wrong one, and calls. Returns whether it was an error. */
static int refuses_type(const struct call *c, const char *key, int with)
{
    garbage_arguments a;
    char what[64];
    int failed;
    if (!make_wrong(key, with))
        return 0;
    garbage_plausible(&a, c);
    snprintf(what, sizeof what, "%s is a %s", key, types[with]);
    failed = garbage_refuses_cleanly(c, &a, what);
    garbage_free(&a);
    garbage_restore(key);
    return failed;
}

/* Whatever a script does with a key but by DEL and the like is an error of a string or of a hash. */
static int refuses_types(const struct call *c, const char *key)
{
    int with, errors = 0;
    for (with = 0; with < 2 || (with < 5 && errors > 0); with++)
        errors += refuses_type(c, key, with);
    return errors;
}

static void test_f10_wrong_type_in_every_key(void **state)
{
    static const char *const owned[] = {PREFIX "spill:hot",        PREFIX "spill:run",       PREFIX "nextspill:run",
                                        PREFIX "deadspill:bad",    PREFIX "spillmap:hot",    PREFIX "spillmap:run",
                                        PREFIX "nextspillmap:run", PREFIX "deadspillmap:bad"};
    const char *keys[GARBAGE_KEYS + sizeof owned / sizeof *owned];
    size_t i, k, count;
    int errors = 0;
    (void)state;
    garbage_broken = 0;
    for (i = 0; i < CALLS; i++) {
        count = garbage_keys(calls[i].keys, keys);
        for (k = 0; garbage_is_of_shard(calls[i].keys) && k < sizeof owned / sizeof *owned; k++)
            keys[count++] = owned[k];
        for (k = 0; k < count; k++)
            errors += refuses_types(&calls[i], keys[k]);
    }
    print_message("%d calls refused\n", errors);
    assert_true(errors > 100);
    assert_int_equal(garbage_broken, 0);
}

/* The keys that a script names itself, none of which is a string (docs/internals/layout.md). */
static void test_f10_wrong_type_in_every_key_that_no_script_declares(void **state)
{
    static const char *const kinds[] = {"jobs",
                                        "ready",
                                        "claims",
                                        "due",
                                        "running",
                                        "next",
                                        "retry",
                                        "dead",
                                        "died",
                                        "parked",
                                        "unproven",
                                        "suspect",
                                        "overrun",
                                        "uniting",
                                        "scheduled",
                                        "notices",
                                        "tellers",
                                        "traced",
                                        "scores",
                                        "scoreends",
                                        "outboxes",
                                        "reshard",
                                        "leaving",
                                        "moving",
                                        "sched:plan",
                                        "schedmap:plan",
                                        "sched:run",
                                        "schedmap:run",
                                        "events:run",
                                        "leavesched:plan",
                                        "sched:a",
                                        "arrivespill:w",
                                        "arrivespillmap:w",
                                        "arrivesched:w",
                                        "leaveschedmap:plan",
                                        "arriveschedmap:w",
                                        "outbox:o",
                                        "spill:lost",
                                        "spillmap:lost",
                                        "nextspill:lost",
                                        "nextspillmap:lost",
                                        "deadspill:lost",
                                        "deadspillmap:lost",
                                        "spill:popped",
                                        "spillmap:popped",
                                        "nextspill:popped",
                                        "deadspill:popped",
                                        "deadspillmap:popped"};
    size_t i, k;
    int errors = 0;
    (void)state;
    garbage_broken = 0;
    for (i = 0; i < CALLS; i++)
        for (k = 0; garbage_is_of_shard(calls[i].keys) && k < sizeof kinds / sizeof *kinds; k++) {
            char key[64];
            snprintf(key, sizeof key, PREFIX "%s", kinds[k]);
            errors += refuses_type(&calls[i], key, 0);
        }
    print_message("%d calls refused\n", errors);
    assert_true(errors > 200);
    assert_int_equal(garbage_broken, 0);
}

/* A stray key lies where payloads of an id are to go that has none of its own there yet. */
static void test_f10_stray_keys_of_payloads(void **state)
{
    static const char *const kinds[] = {"spill", "spillmap", "nextspill", "nextspillmap", "deadspill", "deadspillmap"};
    static const char *const ids[] = {"a", "b", "new", "run2", "parked", "bad"};
    size_t i, k;
    int errors = 0;
    (void)state;
    garbage_broken = 0;
    for (i = 0; i < CALLS; i++) {
        for (k = 0; garbage_is_of_shard(calls[i].keys) && k < 36; k++) {
            char key[48], what[64];
            garbage_arguments a;
            snprintf(key, sizeof key, PREFIX "%s:%s", kinds[k % 6], ids[k / 6]);
            snprintf(what, sizeof what, "%s is stray", key);
            freeReplyObject(redis("DEL %s", key));
            freeReplyObject(redis("SET %s stray", key));
            garbage_plausible(&a, &calls[i]);
            errors += garbage_refuses_cleanly(&calls[i], &a, what);
            garbage_free(&a);
            garbage_restore(key);
        }
    }
    print_message("%d calls refused\n", errors);
    assert_true(errors > 20);
    assert_int_equal(garbage_broken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f10_wrong_type_in_every_key),
        cmocka_unit_test(test_f10_wrong_type_in_every_key_that_no_script_declares),
        cmocka_unit_test(test_f10_stray_keys_of_payloads),
    };
    return cmocka_run_group_tests(tests, garbage_start, garbage_stop);
}

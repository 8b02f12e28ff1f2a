/* test_integrity.c - the check of what is stored and its repair, against a real redis-server. */
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

static void test_check_finds_nothing_in_a_sound_queue(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    fill(&f);
    acquire(&f, "n1");
    claim(&f, "1", run);
    push(&f, "a", "behind", none);
    push_many(&f, "hot", 0, 500);
    push_many(&f, "cold", 0, 500);
    kill_one(&f, "dead", "1");
    assert_int_equal(findings(&f, 0), 0);
    REDIS("LREM " PREFIX "ready 0 b");   /* missing in ready */
    REDIS("ZREM " PREFIX "due c");       /* missing in due */
    REDIS("ZADD " PREFIX "due 5 d");     /* another number */
    REDIS("ZADD " PREFIX "due 5 ghost"); /* leads to nothing */
    REDIS("ZADD " PREFIX "parked 5 d");
    REDIS("ZADD " PREFIX "retry 5 c");
    REDIS("ZREM " PREFIX "died dead");
    REDIS("ZADD " PREFIX "died 5 ghost");
    REDIS("ZADD " PREFIX "overrun 5 ghost");
    REDIS("HSET " PREFIX "running ghost 0n5");                            /* runs without a record */
    REDIS("HSET " PREFIX "next b %b", "\0\0\0\0\0\0\0\0\0p", (size_t)10); /* behind a run that is not there */
    REDIS("HDEL " PREFIX "jobs hot");                                     /* payloads without a record */
    REDIS("ZREMRANGEBYRANK " PREFIX "spill:cold 0 0");                    /* one payload less than counted */
    REDIS("HSET " PREFIX "spillmap:nobody i x");
    assert_true(findings(&f, 0) >= 13);
    assert_int_equal(findings(&f, 1), 0);
    assert_int_equal(findings(&f, 0), 0);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 500);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "b"), "p,2");
    assert_true(seriatim_check_looked_at(f.client) == 0);
    settle_done(&f, "a", run);
    REDIS("HSET " PREFIX "jobs junk %b", "\x0d", (size_t)1); /* goes to the morgue as it is */
    assert_int_equal(findings(&f, 1), 0);
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "junk"), "\x0d");
    close_queue(&f);
}

/* A shard with something of everything in it. The id "a" runs. */
static void fill_all(fixture *f, char run[64])
{
    static const double score[] = {7, 8e15}; /* and when it is forgotten */
    push_failed(f, "bad", "first", 3, 60);
    push_many(f, "bad", 0, 400);
    act(f, SERIATIM_KILL_ALL_FAILED_JOBS);
    fill(f);
    push_failed(f, "hot", "first", 3, 60);
    push_many(f, "hot", 0, 400);
    push_many(f, "cold", 0, 400);
    act_on(f, SERIATIM_PARK, "b");
    acquire(f, "n1");
    claim(f, "1", run);
    push_many(f, "a", 0, 400);
    REDIS("HSET " PREFIX "scores a %b", score, sizeof score);
    REDIS("ZADD " PREFIX "scoreends 8000000000000000 a");
    REDIS("PEXPIRE " PREFIX "scores 9000000000");
    REDIS("PEXPIRE " PREFIX "scoreends 9000000000");
}

/* After the repair another node takes the shard over, claims and is pushed to, and nothing is found. */
static void assert_works_on(fixture *f)
{
    take_over(f, "n2");
    claim(f, "100", NULL);
    push(f, "new", "1", none);
    assert_int_equal(findings(f, 0), 0);
}

/* Every key of a shard is replaced by one of another type: named, put aside, and the queue works on. */
static void test_check_replaces_keys_of_the_wrong_type(void **state)
{
    static const char *const kinds[] = {"state",         "jobs",         "ready",       "due",     "running",
                                        "next",          "retry",        "dead",        "died",    "parked",
                                        "unproven",      "suspect",      "overrun",     "uniting", "spill:hot",
                                        "deadspill:bad", "spillmap:hot", "nextspill:a", "scores",  "scoreends"};
    size_t i;
    char run[64];
    (void)state;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        fixture f = open_queue(1, "merge");
        fill_all(&f, run);
        assert_string_equal(kinds_found(&f, f.queue, 0), "");
        REDIS("DEL " PREFIX "%s", kinds[i]);
        if (i == 0)
            REDIS("HSET " PREFIX "%s a b", kinds[i]);
        else
            REDIS("SET " PREFIX "%s wrong", kinds[i]);
        if (!strstr(kinds_found(&f, f.queue, 0), "type"))
            fail_msg("%s of the wrong type is not found", kinds[i]);
        findings(&f, 1);
        if (findings(&f, 1) != 0 || findings(&f, 0) != 0)
            fail_msg("%s of the wrong type is not mended", kinds[i]);
        assert_works_on(&f);
        seriatim_link_free(f.link);
    }
}

/* F30: every key of a shard disappears, one by one. Nothing fails, and what is left is right after the repair. */
static void test_f30_repair_mends_each_evicted_key(void **state)
{
    static const char *const kinds[] = {"state",       "jobs",           "ready",     "due",           "running",
                                        "next",        "retry",          "dead",      "died",          "parked",
                                        "unproven",    "suspect",        "spill:hot", "deadspill:bad", "spillmap:hot",
                                        "nextspill:a", "nextspillmap:a", "scores",    "scoreends"};
    /* What nothing refers to cannot be missed: the jobs that were ready, and the index of a spilled id's payloads. */
    static const char *const found[] = {"state",  "run",      "index", "index", "index", "orphan",   "retry",
                                        "orphan", "index",    "index", "",      "",      "payloads", "payloads",
                                        "",       "payloads", "",      "stale", "index"};
    size_t i;
    char run[64];
    (void)state;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        fixture f = open_queue(1, "merge");
        fill_all(&f, run);
        REDIS("DEL " PREFIX "%s", kinds[i]);
        if (found[i][0] && !strstr(kinds_found(&f, f.queue, 0), found[i]))
            fail_msg("%s is missing: found is \"%s\"", kinds[i], kinds_found(&f, f.queue, 0));
        findings(&f, 1);
        if (findings(&f, 0) != 0)
            fail_msg("%s is missing and not mended", kinds[i]);
        assert_works_on(&f);
        seriatim_link_free(f.link);
    }
}

/* What a shard's keys can say that is not so, one by one. */
static void test_check_names_and_repairs_each_damage(void **state)
{
    static const struct {
        const char *command, *finding;
    } rows[] = {
        {"SET " PREFIX "state short", "state"},
        {"SETRANGE " PREFIX "state 8 \xff\xff\xff\xff\xff\xff\xff\xff", "state"},
        {"SET " PREFIX "state "
         "01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234"
         "567890123456789012345678901234567890123456789",
         "state"},
        {"HSET " PREFIX "jobs c junk", "unreadable"},
        {"HSET " PREFIX "jobs a junk", "unreadable"},
        {"HSET " PREFIX "next a \xff", "unreadable"},
        {"HSET " PREFIX "dead bad junk", "unreadable"},
        {"HSET " PREFIX "jobs strange \x7fjunkjunkjunkjunkjunk", "unreadable"},
        {"HSET " PREFIX "running a junk", "run"},
        {"HSET " PREFIX "running a 0n5", "run"},
        {"HSET " PREFIX "running a 0n8999999999999999", "run"},
        {"LREM " PREFIX "ready 0 cold", "index"},
        {"ZADD " PREFIX "due 1 hot", "index"},
        {"ZREM " PREFIX "parked b", "index"},
        {"ZADD " PREFIX "parked 1 ghost", "stale"},
        {"ZADD " PREFIX "unproven 1 ghost", "stale"},
        {"ZADD " PREFIX "suspect 1 ghost", "stale"},
        {"ZADD " PREFIX "retry 7 hot", "retry"},
        {"ZADD " PREFIX "overrun 7 ghost", "stale"},
        {"ZREMRANGEBYRANK " PREFIX "spill:cold 0 0", "payloads"},
        {"ZADD " PREFIX "spill:cold 1 abcdefghpayload", "payloads"},
        {"ZADD " PREFIX "spill:nobody 1 abcdefghpayload", "orphan"},
        {"ZADD " PREFIX "deadspill:nobody 1 abcdefghpayload", "orphan"},
        {"HSET " PREFIX "nextspillmap:nobody i x", "orphan"},
        {"HSET " PREFIX "scores a junk", "unreadable"},
        {"HSET " PREFIX "scores c 0123456789abcdef", "unreadable"},
        {"ZADD " PREFIX "scoreends 5 a", "index"},
        {"ZADD " PREFIX "scoreends 5 ghost", "stale"},
        {"PERSIST " PREFIX "scores", "expiry"},
        {"PERSIST " PREFIX "scoreends", "expiry"},
        {"SET " PREFIX "push:somebody 1", "push"},
        {"HSET " PREFIX "push:somebody 1 1", "type"},
    };
    size_t i;
    char run[64];
    (void)state;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f = open_queue(1, "merge");
        fill_all(&f, run);
        REDIS(rows[i].command);
        if (!strstr(kinds_found(&f, f.queue, 0), rows[i].finding))
            fail_msg("%s: found is \"%s\"", rows[i].command, kinds_found(&f, f.queue, 0));
        findings(&f, 1);
        if (findings(&f, 1) != 0 || findings(&f, 0) != 0)
            fail_msg("%s: not mended", rows[i].command);
        take_over(&f, "n2");
        claim(&f, "100", NULL);
        assert_int_equal(findings(&f, 0), 0);
        seriatim_link_free(f.link);
    }
}

/* A spilled record, whose payloads are removed, counts none. */
static void empty_record(const char *hash, const char *id, const char *spill)
{
    static const char empty[] = "local r = redis.call('HGET', KEYS[1], ARGV[1]) "
                                "redis.call('HSET', KEYS[1], ARGV[1], string.sub(r, 1, 14) .. string.rep('\\0', 4) "
                                ".. string.sub(r, 19)) "
                                "return redis.call('DEL', KEYS[2] .. ':' .. ARGV[1], KEYS[2] .. 'map:' .. ARGV[1])";
    redisReply *reply = redis("EVAL %s 2 " PREFIX "%s " PREFIX "%s %s", empty, hash, spill, id);
    assert_int_equal(reply->integer, 2);
    freeReplyObject(reply);
}

/* It could not move to another shard, either. */
static void test_check_ends_a_spilled_record_that_counts_no_payloads(void **state)
{
    static const char *const rows[][3] = {
        {"jobs", "cold", "spill"}, {"next", "a", "nextspill"}, {"dead", "bad", "deadspill"}};
    fixture f = open_queue(1, "merge");
    size_t i;
    char run[64];
    (void)state;
    fill_all(&f, run);
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        redisReply *reply;
        empty_record(rows[i][0], rows[i][1], rows[i][2]);
        assert_string_equal(kinds_found(&f, f.queue, 0), "payloads");
        assert_int_equal(findings(&f, 1), 0);
        assert_int_equal(findings(&f, 0), 0);
        reply = redis("HEXISTS " PREFIX "%s %s", rows[i][0], rows[i][1]);
        assert_int_equal(reply->integer, 0);
        freeReplyObject(reply);
    }
    assert_works_on(&f);
    close_queue(&f);
}

/* All payloads of the run have been checkpointed, and its outcome follows. */
static void test_check_leaves_a_run_of_which_no_payload_is_left(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 400);
    assert_int_equal(claim(&f, "1", run), 1);
    empty_record("jobs", "hot", "spill");
    assert_string_equal(kinds_found(&f, f.queue, 1), "");
    settle_done(&f, "hot", run);
    assert_int_equal(count_of("EXISTS", "jobs"), 0);
    close_queue(&f);
}

/* What waits of the id, or waits behind its run, cannot be read: the jobs before it in the call are not written either.
 */
static void test_r_push_8_a_push_that_meets_an_unreadable_record_writes_nothing(void **state)
{
    static const char *const broken[] = {"HSET " PREFIX "jobs c junk", "HSET " PREFIX "next c \xff"};
    size_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        fixture f = open_queue(1, "list");
        push(&f, "c", "1", none);
        if (i == 1) {
            acquire(&f, "n1");
            assert_int_equal(claim(&f, "10", NULL), 1);
            push(&f, "c", "2", none);
        }
        REDIS(broken[i]);
        assert_int_equal(seriatim_push_begin(f.client, f.queue), SERIATIM_OK);
        add(&f, "new", 3, "1", none);
        add(&f, "c", 1, "3", none);
        assert_int_equal(seriatim_push_send(f.client), SERIATIM_OK);
        assert_int_equal(drive(f.link), SERIATIM_SERVER);
        assert_non_null(
            strstr(seriatim_client_error(f.client)->message, "cannot be read (`seriatim check` mends it): c"));
        assert_int_equal(number("HEXISTS " PREFIX "jobs new"), 0);
        assert_int_equal(count_of("LLEN", "ready"), i == 0);
        seriatim_link_free(f.link);
    }
}

/* A key that the scan has named may have expired, or its id may have ended, when a script looks at it. */
static void test_check_passes_over_keys_that_have_gone_meanwhile(void **state)
{
    static const char *const parts[] = {"spill",        "nextspill",    "deadspill", "spillmap",
                                        "nextspillmap", "deadspillmap", "push"};
    fixture f = open_queue(1, "merge");
    size_t i;
    (void)state;
    push(&f, "a", "1", none);
    for (i = 0; i < sizeof parts / sizeof *parts; i++) {
        redisReply *reply = SCRIPT(check, parts[i], "0", "1", "gone");
        assert_int_equal(reply->element[2]->elements, 0);
        freeReplyObject(reply);
    }
    close_queue(&f);
}

/* Keys that nothing owns are named and stay. */
static void test_check_names_keys_that_nothing_owns(void **state)
{
    static const char *const keys[] = {"seriatim:{Q/1}:jobs", "seriatim:{Q/01}:jobs", "seriatim:{Q/0}:strange",
                                       "seriatim:{Q/0}:spill", "seriatim:{Q/x}:jobs"};
    static const char *const others[] = {"seriatim:{/strange}:x", "seriatim:strange", "seriatim:{Q}:strange",
                                         "seriatim:{Q Q/0}:jobs"};
    fixture f = open_queue(1, "merge");
    const seriatim_finding *list;
    size_t i, count;
    (void)state;
    push(&f, "a", "1", none);
    REDIS("SET seriatim:{Q/0}:misplaced:jobs:1 kept"); /* a repair left it */
    REDIS("SET seriatim:other:{Q/7}:jobs strange");    /* another namespace's */
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    for (i = 0; i < 5; i++) {
        REDIS("SET %s x", keys[i]);
        assert_int_equal(findings(&f, 1), 1);
        done(&f, seriatim_check_begin(f.client, f.queue, 0));
        list = seriatim_check_result(f.client, &count);
        assert_string_equal(list[0].kind, "stray");
        assert_string_equal(list[0].id, keys[i]);
        REDIS("DEL %s", keys[i]);
    }
    for (i = 0; i < 4; i++) {
        REDIS("SET %b x", others[i], strlen(others[i]));
        assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "stray");
        REDIS("DEL %b", others[i], strlen(others[i]));
    }
    REDIS("RPUSH seriatim:{Lost%%20one/3}:ready x");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "layout");
    list = seriatim_check_result(f.client, &count);
    assert_string_equal(list[0].id, "Lost one");
    REDIS("DEL seriatim:{Lost%%20one/3}:ready");
    REDIS("SET seriatim:{Odd}:layout much");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "layout");
    REDIS("DEL seriatim:{Odd}:layout");
    REDIS("RPUSH seriatim:{Odd}:layout much");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "layout");
    REDIS("DEL seriatim:{Odd}:layout");
    REDIS("HSET seriatim:{/ick/K}:about version ick.v2");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    REDIS("SET seriatim:{/ick/K}:other strange");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "stray");
    REDIS("DEL seriatim:{/ick/K}:other");
    REDIS("HSET seriatim:{/nodes}:info gone text");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "node");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "node");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    REDIS("SET seriatim:{/nodes}:alive text");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "type");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    close_queue(&f);
}

#define SET "seriatim:{/ick/K}:"

/* A set whose members are free, or reserved by me or another consumer; `both` was added again. */
static void fill_set(void)
{
    REDIS("FLUSHALL");
    REDIS("HSET " SET "about version ick.v2 token 5");
    REDIS("ZADD " SET "pset 4 free");
    REDIS("ZADD " SET "again 7 both");
    REDIS("HSET " SET "held mine me both me theirs other");
    REDIS("HSET " SET "tokens me 4 other 5");
    REDIS("ZADD " SET "ends 1 me 1 other");
    REDIS("ZADD " SET "cset:me 1 mine 2 both");
    REDIS("ZADD " SET "cset:other 3 theirs");
}

/* All reservations are over: what one consumer can reserve, sorted, "a b c". */
static const char *all_of_the_set(const fixture *f)
{
    static const char sort[] = "local all = redis.call('ZRANGE', KEYS[1], 0, -1) table.sort(all) "
                               "return table.concat(all, ' ')";
    static char names[256];
    seriatim_ick ick = {{"K", 1}, {"last", 4}, 0, 0};
    redisReply *reply;
    int i;
    for (i = 0; i < 2; i++) { /* the members that were added again come after the commit of the first reserve */
        REDIS("EVAL %s 1 " SET "ends", "for _, who in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
                                       "redis.call('ZADD', KEYS[1], 1, who) end return 0");
        assert_int_equal(seriatim_ick_begin(f->client), SERIATIM_OK);
        assert_int_equal(seriatim_ick_reserve(f->client, &ick, 100, 0), SERIATIM_OK);
        done(f, seriatim_ick_send(f->client));
    }
    reply = redis("EVAL %s 1 " SET "cset:last", sort);
    snprintf(names, sizeof names, "%s", reply->str);
    freeReplyObject(reply);
    return names;
}

/* Each key of a set is damaged: found, mended, and no member is forgotten that was still there. */
static void test_r_ick_15_check_mends_each_key_of_a_set(void **state)
{
    static const struct {
        const char *damage, *left;
    } rows[] = {
        {"DEL " SET "about", NULL},
        {"HDEL " SET "about version", NULL},
        {"HSET " SET "about token x", NULL},
        {"ZADD " SET "pset 9 mine", NULL},
        {"ZADD " SET "again 1 new", "both free mine new theirs"},
        {"DEL " SET "held", NULL},
        {"HDEL " SET "held mine", NULL},
        {"HSET " SET "held mine other", NULL},
        {"HSET " SET "held lost me", "both free lost mine theirs"},
        {"DEL " SET "tokens", NULL},
        {"HSET " SET "tokens gone 3", NULL},
        {"HSET " SET "tokens me 99", NULL},
        {"HSET " SET "tokens me x", NULL},
        {"DEL " SET "ends", NULL},
        {"ZADD " SET "ends 1 gone", NULL},
        {"ZADD " SET "ends inf me", NULL},
        {"DEL " SET "cset:me", NULL},
        {"ZREM " SET "cset:me mine", NULL},
        {"ZADD " SET "cset:me 1 new", "both free mine new theirs"},
        {"ZADD " SET "cset:other 5 mine", NULL},
        {"RENAME " SET "cset:me " SET "cset:you", NULL},
    };
    fixture f = open_queue(1, "merge");
    size_t i;
    (void)state;
    fill_set();
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        fill_set();
        REDIS(rows[i].damage);
        if (!strstr(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "set"))
            fail_msg("after %s: nothing was found", rows[i].damage);
        kinds_found(&f, SERIATIM_NO_QUEUE, 1);
        kinds_found(&f, SERIATIM_NO_QUEUE, 1);
        if (*kinds_found(&f, SERIATIM_NO_QUEUE, 0))
            fail_msg("%s is not mended", rows[i].damage);
        assert_string_equal(all_of_the_set(&f), rows[i].left ? rows[i].left : "both free mine theirs");
        assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    }
    close_queue(&f);
}

/* The first finding of this kind. */
static const seriatim_finding *finding_of_kind(const fixture *f, const char *kind)
{
    size_t count, i;
    const seriatim_finding *list = seriatim_check_result(f->client, &count);
    for (i = 0; i < count && strcmp(list[i].kind, kind) != 0; i++)
        ;
    if (i == count)
        fail_msg("there is no finding of the kind %s", kind);
    return &list[i];
}

/* A set of another version, or with a key of another type, is named; that key is not changed. */
static void test_r_ick_15_check_names_a_set_that_it_cannot_read(void **state)
{
    static const char *const parts[] = {"about", "pset", "again", "held", "tokens", "ends", "cset:me"};
    fixture f = open_queue(1, "merge");
    size_t i;
    (void)state;
    for (i = 0; i < sizeof parts / sizeof *parts; i++) {
        const seriatim_finding *found;
        fill_set();
        REDIS("SET " SET "%s x", parts[i]);
        kinds_found(&f, SERIATIM_NO_QUEUE, 1);
        found = finding_of_kind(&f, "error");
        assert_non_null(strstr(found->detail, "is a string"));
        assert_memory_equal(found->id, SET, sizeof SET - 1);
        assert_int_equal(found->repaired, 0);
        REDIS("APPEND " SET "%s y", parts[i]); /* an error if it is of another type now */
    }
    fill_set();
    REDIS("HSET " SET "about version ick.v9");
    assert_non_null(strstr(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "error"));
    close_queue(&f);
}

/* A set of more members than a slice holds is looked at as a whole. */
static void test_r_ick_15_check_looks_at_every_slice_of_a_set(void **state)
{
    fixture f = open_queue(1, "merge");
    size_t count;
    const seriatim_finding *list;
    (void)state;
    fill_set();
    REDIS("EVAL %s 1 " SET "pset", "for i = 1, 5000 do redis.call('ZADD', KEYS[1], i, 'm' .. i) end return 0");
    REDIS("HSET " SET "held m1 me m2500 me m5000 me");
    REDIS("ZADD " SET "cset:me 1 m1 1 m2500 1 m5000");
    kinds_found(&f, SERIATIM_NO_QUEUE, 1);
    list = seriatim_check_result(f.client, &count);
    assert_int_equal(count, 3);
    assert_string_equal(list[0].id, SET "pset");
    assert_true(seriatim_check_looked_at(f.client) > 5000);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    close_queue(&f);
}

/*
 * Each key of scheduled payloads, and what the state says of them, is damaged: found, mended, and nothing is lost that
 * was still there.
 */
static void test_check_mends_each_key_of_scheduled_payloads(void **state)
{
    static const struct {
        const char *damage, *found, *left;
    } rows[] = {
        {"DEL " PREFIX "sched:plan", "index", "plan plan plan"},
        {"DEL " PREFIX "scheduled", "index", "plan plan plan"},
        {"DEL " PREFIX "schedmap:plan", "stale", ""},
        {"SETRANGE " PREFIX "state 93 0000", "state", "plan plan plan"}, /* a much smaller number */
        {"ZREMRANGEBYRANK " PREFIX "sched:plan 0 0", "index", "plan plan plan"},
        {"ZREMRANGEBYRANK " PREFIX "scheduled 0 0", "index", "plan plan plan"},
        {"ZADD " PREFIX "scheduled 1 12345678gone", "stale", "plan plan plan"},
        {"HSET " PREFIX "schedmap:plan 12345678 short", "orphan", "plan plan plan plan"},
    };
    size_t i;
    (void)state;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f = open_queue(1, "merge");
        schedule_one(&f, "plan", "1", 600);
        schedule_one(&f, "plan", "2", 700);
        schedule_one(&f, "plan", "3", 800);
        assert_string_equal(kinds_found(&f, f.queue, 0), "");
        REDIS(rows[i].damage);
        if (!strstr(kinds_found(&f, f.queue, 0), rows[i].found))
            fail_msg("after %s: no %s", rows[i].damage, rows[i].found);
        findings(&f, 1);
        if (findings(&f, 1) != 0 || findings(&f, 0) != 0)
            fail_msg("%s is not mended", rows[i].damage);
        assert_string_equal(range(&f, SERIATIM_RANGE_BY_DELIVER_AT, 0, NULL, NULL, 10), rows[i].left);
        close_queue(&f);
    }
}

/* F33: a later version raises the schema in the layout; this one leaves the queue alone, and says why. */
static void test_f33_a_later_schema_is_left_alone(void **state)
{
    fixture f = open_queue(2, "merge");
    (void)state;
    REDIS("SET seriatim:{Q}:layout %s", "1 2 7");
    done(&f, seriatim_push_begin(f.client, f.queue));
    add(&f, "a", 1, "1", none);
    assert_int_equal(seriatim_push_send(f.client), SERIATIM_OK);
    assert_int_equal(drive(f.link), SERIATIM_UNSUPPORTED);
    assert_non_null(strstr(seriatim_client_error(f.client)->message, "schema 7"));
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "layout");
    seriatim_link_free(f.link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_finds_nothing_in_a_sound_queue),
        cmocka_unit_test(test_check_replaces_keys_of_the_wrong_type),
        cmocka_unit_test(test_f30_repair_mends_each_evicted_key),
        cmocka_unit_test(test_check_names_and_repairs_each_damage),
        cmocka_unit_test(test_check_ends_a_spilled_record_that_counts_no_payloads),
        cmocka_unit_test(test_check_leaves_a_run_of_which_no_payload_is_left),
        cmocka_unit_test(test_r_push_8_a_push_that_meets_an_unreadable_record_writes_nothing),
        cmocka_unit_test(test_check_passes_over_keys_that_have_gone_meanwhile),
        cmocka_unit_test(test_check_names_keys_that_nothing_owns),
        cmocka_unit_test(test_r_ick_15_check_mends_each_key_of_a_set),
        cmocka_unit_test(test_r_ick_15_check_names_a_set_that_it_cannot_read),
        cmocka_unit_test(test_r_ick_15_check_looks_at_every_slice_of_a_set),
        cmocka_unit_test(test_check_mends_each_key_of_scheduled_payloads),
        cmocka_unit_test(test_f33_a_later_schema_is_left_alone),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/*
 * test_integrity_notices.c - notices for retries_exhausted, and who tells them, that are not as the scripts write them:
 * what the check and a node make of them, on a real redis-server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "operators.h"

/* The number of a notice has eight bytes. */
static const char *const strange[] = {"abc", "abcdefghijklm", ""};

#define STRANGE (sizeof strange / sizeof *strange)

/* The retries of id "a" have ended, and n1, which owns the shard, has not told it. */
static fixture open_noticed(void)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    push(&f, "a", "payload", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    freeReplyObject(SCRIPT(settle, f.lease, "1", "merge", "0", "fail+", "a", run, "60000000", "boom", "0", "drop"));
    assert_int_equal(count_of("HLEN", "notices"), 1);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    return f;
}

static void assert_found(const fixture *f, const char *what, int repair, const char *kinds)
{
    const char *found = kinds_found(f, f->queue, repair);
    if (strcmp(found, kinds) != 0)
        fail_msg("\"%s\": found is \"%s\", not \"%s\"", what, found, kinds);
}

/* A second repair finds nothing. */
static void assert_mended_once(const fixture *f, const char *what)
{
    assert_found(f, what, 0, "notice");
    assert_found(f, what, 1, "notice");
    assert_found(f, what, 1, "");
    assert_found(f, what, 0, "");
    assert_string_equal(kinds_found(f, SERIATIM_NO_QUEUE, 0), "");
}

/* How many notices the owner is given, from all that do not live. Each is the one of open_noticed. */
static size_t told(const fixture *f)
{
    redisReply *reply = SCRIPT(tell, "n1", f->lease, "", "100", "n1");
    size_t i, count = (reply->elements - 2) / 2;
    for (i = 0; i < count; i++) {
        const redisReply *notice = reply->element[3 + 2 * i];
        assert_int_equal(reply->element[2 + 2 * i]->len, 8);
        assert_memory_equal(notice->str, "\1\0\0\0a\1\0\0\0", 9);
        assert_memory_equal(notice->str + notice->len - 7, "payload", 7);
    }
    freeReplyObject(reply);
    return count;
}

static void test_a_notice_of_a_strange_number_is_told_after_a_repair(void **state)
{
    static const char renumber[] =
        "local fields = redis.call('HGETALL', KEYS[1]) redis.call('HSET', KEYS[1], ARGV[1], fields[2]) return 1";
    size_t i;
    (void)state;
    for (i = 0; i < STRANGE; i++) {
        fixture f = open_noticed();
        REDIS("EVAL %s 1 " PREFIX "notices %s", renumber, strange[i]);
        assert_int_equal(count_of("HLEN", "notices"), 2);
        assert_mended_once(&f, strange[i]);
        assert_int_equal(told(&f), 2);
        assert_int_equal(findings(&f, 0), 0);
        seriatim_link_free(f.link);
    }
}

static void test_what_is_no_notice_is_put_aside(void **state)
{
    static const char *const values[] = {"", "junk", "junkjunkjunk"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof values / sizeof *values; i++) {
        fixture f = open_noticed();
        redisReply *aside;
        REDIS("HSET " PREFIX "notices abc %s", values[i]);
        assert_mended_once(&f, values[i]);
        assert_int_equal(told(&f), 1);
        aside = redis("KEYS " PREFIX "misplaced:notices:*");
        assert_int_equal(aside->elements, 1);
        REDIS("RENAME %s aside", aside->element[0]->str);
        freeReplyObject(aside);
        aside = redis("HGETALL aside");
        assert_int_equal(aside->elements, 2);
        assert_string_equal(aside->element[0]->str, "abc");
        assert_string_equal(aside->element[1]->str, values[i]);
        freeReplyObject(aside);
        seriatim_link_free(f.link);
    }
}

/* Whether its last bytes are those of a notice, or not. */
static void test_what_tells_nothing_is_removed_by_a_repair(void **state)
{
    static const char replace[] = "local number = redis.call('HKEYS', KEYS[1])[1] redis.call('DEL', KEYS[2]) "
                                  "return redis.call('ZADD', KEYS[2], 0, ARGV[1] .. number)";
    size_t i;
    (void)state;
    for (i = 0; i < STRANGE; i++) {
        fixture f = open_noticed();
        REDIS("ZADD " PREFIX "tellers 0 %s", strange[i]);
        assert_mended_once(&f, strange[i]);
        REDIS("EVAL %s 2 " PREFIX "notices " PREFIX "tellers %s", replace, strange[i]);
        assert_mended_once(&f, strange[i]);
        assert_int_equal(count_of("ZCARD", "tellers"), 1);
        assert_int_equal(told(&f), 1);
        seriatim_link_free(f.link);
    }
}

/* The script would go round for ever, and Redis with it. What tells nothing goes. */
static void test_a_node_passes_over_what_is_no_teller(void **state)
{
    size_t i;
    (void)state;
    for (i = 0; i < STRANGE; i++) {
        fixture f = open_noticed();
        REDIS("ZADD " PREFIX "tellers 0 %s 0 n2%s", strange[i], strange[i]);
        assert_int_equal(told(&f), 1);
        assert_int_equal(count_of("ZCARD", "tellers"), 1);
        assert_found(&f, strange[i], 0, "");
        seriatim_link_free(f.link);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_notice_of_a_strange_number_is_told_after_a_repair),
        cmocka_unit_test(test_what_is_no_notice_is_put_aside),
        cmocka_unit_test(test_what_tells_nothing_is_removed_by_a_repair),
        cmocka_unit_test(test_a_node_passes_over_what_is_no_teller),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

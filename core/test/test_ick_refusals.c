/* test_ick_refusals.c - two-phase commit sets: refused calls, a full Redis, and the import of old keys. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "operators.h"
#include "ick_fixture.h"

/* ---- Refusals --------------------------------------------------------------------------------- */

static void refused(ick_user *u, int status, const char *message)
{
    assert_int_equal(status, SERIATIM_INVALID);
    assert_string_equal(seriatim_client_error(u->client)->message, message);
    assert_int_equal(seriatim_ick_send(u->client), SERIATIM_INVALID);
}

static void test_r_ick_10_wrong_arguments_are_refused_before_any_write(void **state)
{
    static char large[1025];
    ick_user u = ick_join();
    seriatim_ick_member bad[] = {ick_member("a", 1), ick_member("z", NAN)};
    seriatim_ick wrong;
    (void)state;
    ick_begin(&u);
    refused(&u, seriatim_ick_add(u.client, &u.ick, bad, 2),
            "ickadd: the score of member 2 is NaN; it must be a number, which may be infinite");
    bad[1].score = 1;
    bad[1].data = large;
    bad[1].len = 1025;
    ick_begin(&u);
    refused(&u, seriatim_ick_add(u.client, &u.ick, bad, 2),
            "ickadd: member 2 has 1025 bytes; it must have at most 1024");
    ick_begin(&u);
    refused(&u, seriatim_ick_reserve(u.client, &u.ick, -1, 0),
            "ickreserve: max_size is -1; it must be 0 to 2147483647");
    wrong = u.ick;
    wrong.name.data = large;
    wrong.name.len = 1025;
    ick_begin(&u);
    refused(&u, seriatim_ick_stats(u.client, &wrong), "ickstats: the name has 1025 bytes; it must have 0 to 1024");
    wrong = u.ick;
    wrong.consumer = text("");
    ick_begin(&u);
    refused(&u, seriatim_ick_stats(u.client, &wrong), "ickstats: consumer has 0 bytes; it must have 1 to 512");
    wrong = u.ick;
    wrong.reserve_time = 0.01;
    ick_begin(&u);
    refused(&u, seriatim_ick_stats(u.client, &wrong),
            "ickstats: reserve_time is 0.01; it must be 0.1 to 86400 seconds");
    assert_int_equal(number("DBSIZE"), 0);
    ick_leave(&u);
}

static void fails(ick_user *u, int status, const char *part)
{
    assert_int_equal(seriatim_ick_send(u->client), SERIATIM_OK);
    assert_int_equal(drive(u->link), status);
    if (!strstr(seriatim_client_error(u->client)->message, part))
        fail_msg("%s", seriatim_client_error(u->client)->message);
}

static void test_r_ick_10_keys_of_another_kind_are_named(void **state)
{
    ick_user u = ick_join();
    (void)state;
    ick_add(&u, "a", 1);
    REDIS("SET " ICK_SET "again x");
    ick_begin(&u);
    assert_int_equal(seriatim_ick_reserve(u.client, &u.ick, 1, 0), SERIATIM_OK);
    fails(&u, SERIATIM_SERVER, "the key again of this set is a string, not a zset");
    REDIS("DEL " ICK_SET "again");
    REDIS("HSET " ICK_SET "about version ick.v9");
    ick_begin(&u);
    assert_int_equal(seriatim_ick_delete(u.client, &u.ick), SERIATIM_OK);
    fails(&u, SERIATIM_SERVER, "a version that is not known");
    REDIS("DEL " ICK_SET "about");
    ick_begin(&u);
    assert_int_equal(seriatim_ick_stats(u.client, &u.ick), SERIATIM_OK);
    fails(&u, SERIATIM_SERVER, "members and no version");
    ick_leave(&u);
}

static void test_r_ick_10_names_are_data(void **state)
{
    static const char *const names[] = {"x", "{a}b", "a{b}c", "{}abc", "abc{}", "a}b", "", "a b/c:d"};
    static char long_name[1025];
    size_t i, count = sizeof names / sizeof *names;
    ick_user u = ick_join();
    (void)state;
    memset(long_name, '{', 1024);
    for (i = 0; i <= count; i++) {
        u.ick.name = text(i < count ? names[i] : long_name);
        assert_string_equal(ick_add(&u, "a", 1), "1 0");
    }
    assert_int_equal(number("DBSIZE"), 2 * ((long long)count + 1));
    for (i = 0; i <= count; i++) {
        u.ick.name = text(i < count ? names[i] : long_name);
        assert_string_equal(ick_reserve(&u, 2), "a");
        assert_int_equal(ick_commit(&u, "a"), 1);
        assert_int_equal(ick_delete_set(&u), 1);
    }
    assert_int_equal(number("DBSIZE"), 0);
    ick_leave(&u);
}

static void test_r_ick_11_a_full_redis_refuses_adds_and_lets_consumers_work(void **state)
{
    ick_user u = ick_join();
    const seriatim_ick_member b = ick_member("b", 2);
    (void)state;
    ick_add(&u, "a", 1);
    REDIS("CONFIG SET maxmemory 1");
    ick_begin(&u);
    assert_int_equal(seriatim_ick_add(u.client, &u.ick, &b, 1), SERIATIM_OK);
    fails(&u, SERIATIM_FULL, "");
    assert_string_equal(ick_reserve(&u, 1), "a");
    assert_int_equal(ick_commit(&u, "a"), 1);
    assert_int_equal(ick_delete_set(&u), 1);
    REDIS("CONFIG SET maxmemory 0");
    ick_leave(&u);
}

/* ---- Import ----------------------------------------------------------------------------------- */

static void import(ick_user *u, const char *key)
{
    ick_begin(u);
    assert_int_equal(seriatim_ick_import(u->client, &u->ick, text(key)), SERIATIM_OK);
}

static void test_r_ick_12_import_reads_the_keys_of_the_gem(void **state)
{
    ick_user u = ick_join();
    const seriatim_ick_result *r;
    char longer[SERIATIM_ICK_MAX_MEMBER + 2] = "";
    size_t count;
    int i;
    (void)state;
    import(&u, "old");
    fails(&u, SERIATIM_INVALID, "there is no set of Redis::Ick at the key \"old\"");
    REDIS("SET old ick.v1");
    for (i = 0; i < 2500; i++)
        REDIS("ZADD old/ick/{old}/pset %d.5 m%d", i, i);
    REDIS("ZADD old/ick/{old}/cset -inf first 7 m9");
    ick_add(&u, "m0", -5);
    import(&u, "old");
    assert_int_equal(seriatim_ick_send(u.client), SERIATIM_OK);
    assert_int_equal(drive(u.link), SERIATIM_OK);
    r = seriatim_ick_results(u.client, &count);
    assert_int_equal(r->added, 2500);
    assert_int_equal(r->lowered, 1);
    assert_string_equal(ick_reserve(&u, 3), "first m0 m1");
    assert_int_equal(number("EXISTS old old/ick/{old}/pset old/ick/{old}/cset"), 3);
    memset(longer, 'x', sizeof longer - 1);
    REDIS("ZADD old/ick/{old}/cset 3 %s", longer);
    u.ick.name = text("L");
    import(&u, "old");
    fails(&u, SERIATIM_INVALID, "has 1025 bytes; it must have at most 1024");
    assert_int_equal(number("EXISTS seriatim:{/ick/L}:about"), 0); /* nothing is written before all are checked */
    REDIS("SET old ick.v7");
    import(&u, "old");
    fails(&u, SERIATIM_INVALID, "does not hold \"ick.v1\"");
    ick_leave(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_ick_10_wrong_arguments_are_refused_before_any_write),
        cmocka_unit_test(test_r_ick_10_keys_of_another_kind_are_named),
        cmocka_unit_test(test_r_ick_10_names_are_data),
        cmocka_unit_test(test_r_ick_11_a_full_redis_refuses_adds_and_lets_consumers_work),
        cmocka_unit_test(test_r_ick_12_import_reads_the_keys_of_the_gem),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_ick.c - two-phase commit sets: adds, reserves and commits, against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operators.h"
#include "ick_fixture.h"

static const char *ick_reserve_backwash(ick_user *u, int64_t n)
{
    ick_begin(u);
    return ick_listed(u, ick_finish(u, seriatim_ick_reserve(u->client, &u->ick, n, 1)));
}

static const char *ick_exchange(ick_user *u, int64_t n, const char *names, int backwash)
{
    seriatim_ick_member list[64];
    size_t count = ick_words(names, list);
    ick_begin(u);
    return ick_listed(u, ick_finish(u, seriatim_ick_exchange(u->client, &u->ick, n, backwash, list, count)));
}

/* ---- The rules of Redis::Ick ----------------------------------------------------------------- */

static void test_r_ick_1_the_lower_score_of_a_member_counts(void **state)
{
    ick_user u = ick_join();
    seriatim_ick_member two[] = {ick_member("foo", 10), ick_member("bar", 13)},
                        lower[] = {ick_member("foo", 4.5), ick_member("baz", 1)};
    seriatim_ick_result r;
    (void)state;
    assert_string_equal(ick_add(&u, "foo", 5), "1 0");
    assert_string_equal(ick_add_all(&u, two, 2), "1 0");
    assert_string_equal(ick_add_all(&u, lower, 2), "1 1");
    r = ick_stats(&u);
    assert_int_equal(r.producer.size, 3);
    assert_true(r.producer.lowest == 1 && r.producer.highest == 13);
    assert_true(r.total.size == 3 && r.consumer.size == 0 && isnan(r.consumer.lowest));
    assert_string_equal(r.version, "ick.v2");
    assert_memory_equal(r.producer_key.data, ICK_SET "pset", r.producer_key.len);
    assert_memory_equal(r.consumer_key.data, ICK_SET "cset:consumer", r.consumer_key.len);
    ick_leave(&u);
}

static void test_r_ick_2_a_reserve_gives_the_same_batch_until_the_commit(void **state)
{
    ick_user u = ick_join();
    (void)state;
    ick_add(&u, "a", 7);
    ick_add(&u, "b", 8);
    ick_add(&u, "c", 9);
    assert_string_equal(ick_reserve(&u, 1), "a");
    assert_string_equal(ick_reserve(&u, 2), "a b");
    assert_string_equal(ick_reserve(&u, 2), "a b");
    assert_int_equal(ick_commit(&u, "b"), 1);
    assert_string_equal(ick_reserve(&u, 2), "a c");
    assert_int_equal(ick_commit(&u, "c a b"), 2);
    assert_string_equal(ick_reserve(&u, 2), "");
    assert_int_equal(ick_commit(&u, "c a b"), 0);
    assert_string_equal(ick_reserve(&u, 0), "");
    ick_leave(&u);
}

static void test_r_ick_2_a_smaller_reserve_moves_nothing(void **state)
{
    ick_user u = ick_join();
    (void)state;
    ick_add(&u, "b", 2);
    ick_add(&u, "c", 3);
    assert_string_equal(ick_reserve(&u, 2), "b c");
    ick_add(&u, "a", 1);
    assert_string_equal(ick_reserve(&u, 1), "b");
    assert_int_equal(ick_stats(&u).producer.size, 1);
    ick_leave(&u);
}

static void test_r_ick_2_an_empty_add_makes_the_set(void **state)
{
    ick_user u = ick_join();
    (void)state;
    assert_int_equal(ick_stats(&u).exists, 0);
    assert_string_equal(ick_add_all(&u, NULL, 0), "0 0");
    assert_int_equal(ick_stats(&u).exists, 1);
    assert_int_equal(ick_delete_set(&u), 1);
    assert_int_equal(ick_stats(&u).exists, 0);
    assert_string_equal(ick_add(&u, "", INFINITY), "1 0");
    assert_string_equal(ick_add(&u, "low", -INFINITY), "1 0");
    assert_string_equal(ick_reserve(&u, 1), "low");
    assert_int_equal(ick_delete_set(&u), 3);
    assert_int_equal(ick_delete_set(&u), 0);
    assert_int_equal(number("DBSIZE"), 0);
    ick_leave(&u);
}

static void test_r_ick_2_scores_keep_all_their_bits(void **state)
{
    static const double scores[] = {-INFINITY,         -1.5e300,           -0.1,    0, 5e-324,
                                    1700000000.123456, 9007199254740993.0, INFINITY};
    ick_user u = ick_join();
    const seriatim_ick_result *r;
    size_t i, count = sizeof scores / sizeof *scores;
    char name[] = "a";
    (void)state;
    for (i = 0; i < count; i++, name[0]++)
        ick_add(&u, name, scores[i]);
    assert_true(ick_stats(&u).producer.lowest == -INFINITY && ick_stats(&u).total.highest == INFINITY);
    ick_begin(&u);
    r = ick_finish(&u, seriatim_ick_reserve(u.client, &u.ick, 100, 0));
    assert_int_equal(r->count, count);
    for (i = 0; i < count; i++)
        assert_true(r->members[i].score == scores[i]);
    ick_leave(&u);
}

static void test_r_ick_3_what_is_added_again_is_reserved_again(void **state)
{
    ick_user u = ick_join();
    (void)state;
    ick_add(&u, "a", 5);
    assert_string_equal(ick_reserve(&u, 1), "a");
    assert_string_equal(ick_add(&u, "a", 9), "1 0");
    assert_string_equal(ick_add(&u, "a", 3), "0 1");
    assert_int_equal(ick_stats(&u).total.size, 2);
    assert_true(ick_stats(&u).producer.lowest == 3 && ick_stats(&u).consumer.lowest == 5);
    assert_string_equal(ick_reserve(&u, 5), "a");
    assert_int_equal(ick_commit(&u, "a"), 1);
    assert_string_equal(ick_reserve(&u, 1), "a");
    assert_int_equal(ick_commit(&u, "a"), 1);
    assert_string_equal(ick_reserve(&u, 1), "");
    ick_leave(&u);
}

/* The old process reserved before the new one, and commits while the new one still works on it. */
static void test_r_ick_4_the_token_of_an_older_reserve_commits_nothing(void **state)
{
    ick_user old = ick_join(), new = ick_join_as("K", NULL, 0);
    (void)state;
    ick_add(&old, "a", 1);
    assert_string_equal(ick_reserve(&old, 1), "a");
    ick_add(&old, "a", 2);
    assert_string_equal(ick_reserve(&new, 2), "a");
    assert_int_equal(ick_commit(&old, "a"), 0);
    assert_string_equal(ick_exchange(&old, 0, "a", 0), "");
    assert_int_equal(ick_stats(&old).consumer.size, 1);
    assert_int_equal(ick_commit(&new, "a"), 1);
    assert_string_equal(ick_reserve(&new, 1), "a");
    ick_leave(&old);
    ick_leave(&new);
}

static void test_r_ick_4_a_deleted_set_gives_no_token_twice(void **state)
{
    ick_user old = ick_join(), new = ick_join_as("K", NULL, 0);
    (void)state;
    ick_add(&old, "a", 1);
    ick_reserve(&old, 1);
    ick_delete_set(&old);
    ick_add(&new, "a", 1);
    assert_string_equal(ick_reserve(&new, 1), "a");
    assert_int_equal(ick_commit(&old, "a"), 0);
    ick_leave(&old);
    ick_leave(&new);
}

static void test_r_ick_5_other_consumers_get_it_after_reserve_time(void **state)
{
    ick_user one = ick_join(), two = ick_join_as("K", "two", 0.2);
    (void)state;
    one.ick.reserve_time = 0.2;
    ick_add(&one, "a", 5);
    ick_add(&one, "b", 6);
    ick_add(&one, "c", 7);
    assert_string_equal(ick_reserve(&one, 2), "a b");
    ick_add(&one, "b", 1);
    assert_string_equal(ick_reserve(&two, 3), "c");
    assert_int_equal(ick_stats(&one).consumers, 2);
    assert_int_equal(ick_commit(&one, "a"), 1);
    while (number("EXISTS " ICK_SET "again"))
        ick_reserve(&two, 3);
    assert_string_equal(ick_reserve(&two, 3), "b c");
    assert_true(ick_stats(&two).consumer.lowest == 1);
    assert_int_equal(ick_commit(&one, "b"), 0);
    assert_int_equal(ick_commit(&two, "b c"), 2);
    assert_int_equal(ick_stats(&two).total.size, 0);
    assert_int_equal(ick_stats(&two).consumers, 0);
    ick_leave(&one);
    ick_leave(&two);
}

static void test_r_ick_6_an_exchange_commits_first(void **state)
{
    ick_user u = ick_join();
    uint64_t sent;
    (void)state;
    ick_add(&u, "a", 1);
    ick_add(&u, "b", 2);
    ick_add(&u, "c", 3);
    assert_string_equal(ick_reserve(&u, 2), "a b");
    ick_add(&u, "a", 4);
    assert_string_equal(ick_exchange(&u, 2, "a", 0), "b c");
    sent = u.client->cluster.peers[0]->commands.commands;
    assert_string_equal(ick_exchange(&u, 2, "b c", 0), "a");
    assert_int_equal(u.client->cluster.peers[0]->commands.commands, sent + 1);
    assert_string_equal(ick_exchange(&u, 0, "a", 0), "");
    assert_int_equal(ick_stats(&u).total.size, 0);
    ick_leave(&u);
}

static void test_r_ick_6_backwash_gives_the_lowest_of_all(void **state)
{
    ick_user u = ick_join();
    (void)state;
    ick_add(&u, "c", 3);
    ick_add(&u, "d", 4);
    assert_string_equal(ick_reserve(&u, 2), "c d");
    ick_add(&u, "a", 1);
    ick_add(&u, "d", 0);
    assert_string_equal(ick_reserve(&u, 2), "c d");
    assert_string_equal(ick_reserve_backwash(&u, 2), "d a");
    assert_true(ick_stats(&u).consumer.lowest == 0 && ick_stats(&u).producer.size == 1);
    assert_string_equal(ick_exchange(&u, 2, "a", 1), "d c");
    ick_leave(&u);
}

static void test_r_ick_7_no_member_starves(void **state)
{
    ick_user u = ick_join();
    seriatim_ick_member *all = calloc(10000, sizeof *all);
    char(*names)[12] = calloc(10000, sizeof *names);
    int i, batch = 0, found = 0;
    (void)state;
    for (i = 0; i < 10000; i++) {
        snprintf(names[i], sizeof names[i], "%d", i + 1);
        all[i] = ick_member(names[i], i + 1);
    }
    assert_string_equal(ick_add_all(&u, all, 10000), "10000 0");
    while (!found) {
        char batch_names[4096];
        ick_add(&u, "5000", 20001 + batch);
        snprintf(batch_names, sizeof batch_names, "%s", ick_reserve(&u, 10));
        batch++;
        found = strstr(batch_names, "5000") != NULL;
        assert_int_equal(ick_commit(&u, batch_names), 10);
    }
    assert_int_equal(batch, 500);
    free(all);
    free(names);
    ick_leave(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_ick_1_the_lower_score_of_a_member_counts),
        cmocka_unit_test(test_r_ick_2_a_reserve_gives_the_same_batch_until_the_commit),
        cmocka_unit_test(test_r_ick_2_a_smaller_reserve_moves_nothing),
        cmocka_unit_test(test_r_ick_2_an_empty_add_makes_the_set),
        cmocka_unit_test(test_r_ick_2_scores_keep_all_their_bits),
        cmocka_unit_test(test_r_ick_3_what_is_added_again_is_reserved_again),
        cmocka_unit_test(test_r_ick_4_the_token_of_an_older_reserve_commits_nothing),
        cmocka_unit_test(test_r_ick_4_a_deleted_set_gives_no_token_twice),
        cmocka_unit_test(test_r_ick_5_other_consumers_get_it_after_reserve_time),
        cmocka_unit_test(test_r_ick_6_an_exchange_commits_first),
        cmocka_unit_test(test_r_ick_6_backwash_gives_the_lowest_of_all),
        cmocka_unit_test(test_r_ick_7_no_member_starves),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_ick.c - two-phase commit sets, against a real redis-server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "operators.h"

#define SET "seriatim:{/ick/K}:"

/* A consumer, or a producer, with a connection of its own. */
typedef struct user {
    seriatim_link *link;
    seriatim_client *client;
    seriatim_ick ick;
} user;

static user join_as(const char *name, const char *consumer, double reserve_time)
{
    user u = {NULL, NULL, {{NULL, 0}, {NULL, 0}, 0, 0}};
    seriatim_error error;
    assert_int_equal(seriatim_link_new(NULL, server.url, &u.link, &error), SERIATIM_OK);
    u.client = seriatim_link_client(u.link);
    u.ick.name = text(name);
    if (consumer)
        u.ick.consumer = text(consumer);
    u.ick.reserve_time = reserve_time;
    return u;
}

static user join(void)
{
    REDIS("FLUSHALL");
    return join_as("K", NULL, 0);
}

static void leave(user *u)
{
    seriatim_link_free(u->link);
}

static const seriatim_ick_result *finish(user *u, int called)
{
    const seriatim_ick_result *results;
    size_t count;
    if (called == SERIATIM_OK)
        called = seriatim_ick_send(u->client);
    if (called == SERIATIM_OK)
        called = drive(u->link);
    if (called != SERIATIM_OK)
        fail_msg("%s", seriatim_client_error(u->client)->message);
    results = seriatim_ick_results(u->client, &count);
    assert_int_equal(count, 1);
    return results;
}

static void begin(user *u)
{
    assert_int_equal(seriatim_ick_begin(u->client), SERIATIM_OK);
}

static seriatim_ick_member member(const char *name, double score)
{
    seriatim_ick_member m = {name, strlen(name), score};
    return m;
}

/* "added lowered" */
static const char *add_all(user *u, const seriatim_ick_member *members, size_t count)
{
    static char figures[64];
    const seriatim_ick_result *r;
    begin(u);
    r = finish(u, seriatim_ick_add(u->client, &u->ick, members, count));
    snprintf(figures, sizeof figures, "%lld %lld", (long long)r->added, (long long)r->lowered);
    return figures;
}

static const char *ick_add(user *u, const char *name, double score)
{
    seriatim_ick_member m = member(name, score);
    return add_all(u, &m, 1);
}

/* "a b c", the members that a reserve or an exchange gave; the user keeps the token. */
static const char *listed(user *u, const seriatim_ick_result *r)
{
    static char names[4096];
    size_t i, len = 0;
    names[0] = '\0';
    for (i = 0; i < r->count && len < sizeof names - 64; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%.40s", i ? " " : "", r->members[i].data);
    if (r->token)
        u->ick.token = r->token;
    return names;
}

static const char *reserve(user *u, int64_t n)
{
    begin(u);
    return listed(u, finish(u, seriatim_ick_reserve(u->client, &u->ick, n, 0)));
}

static const char *reserve_backwash(user *u, int64_t n)
{
    begin(u);
    return listed(u, finish(u, seriatim_ick_reserve(u->client, &u->ick, n, 1)));
}

/* Splits "a b c". */
static size_t words(const char *names, seriatim_ick_member *list)
{
    size_t count = 0;
    while (*names) {
        list[count].data = names;
        list[count].len = strcspn(names, " ");
        names += list[count++].len;
        names += *names == ' ';
    }
    return count;
}

static int64_t commit(user *u, const char *names)
{
    seriatim_ick_member list[64];
    size_t count = words(names, list);
    begin(u);
    return finish(u, seriatim_ick_commit(u->client, &u->ick, list, count))->ended;
}

static const char *exchange(user *u, int64_t n, const char *names, int backwash)
{
    seriatim_ick_member list[64];
    size_t count = words(names, list);
    begin(u);
    return listed(u, finish(u, seriatim_ick_exchange(u->client, &u->ick, n, backwash, list, count)));
}

static seriatim_ick_result stats(user *u)
{
    begin(u);
    return *finish(u, seriatim_ick_stats(u->client, &u->ick));
}

static int64_t delete_set(user *u)
{
    begin(u);
    return finish(u, seriatim_ick_delete(u->client, &u->ick))->deleted;
}

/* ---- The rules of Redis::Ick ----------------------------------------------------------------- */

static void test_r_ick_1_the_lower_score_of_a_member_counts(void **state)
{
    user u = join();
    seriatim_ick_member two[] = {member("foo", 10), member("bar", 13)},
                        lower[] = {member("foo", 4.5), member("baz", 1)};
    seriatim_ick_result r;
    (void)state;
    assert_string_equal(ick_add(&u, "foo", 5), "1 0");
    assert_string_equal(add_all(&u, two, 2), "1 0");
    assert_string_equal(add_all(&u, lower, 2), "1 1");
    r = stats(&u);
    assert_int_equal(r.producer.size, 3);
    assert_true(r.producer.lowest == 1 && r.producer.highest == 13);
    assert_true(r.total.size == 3 && r.consumer.size == 0 && isnan(r.consumer.lowest));
    assert_string_equal(r.version, "ick.v2");
    assert_memory_equal(r.producer_key.data, SET "pset", r.producer_key.len);
    assert_memory_equal(r.consumer_key.data, SET "cset:consumer", r.consumer_key.len);
    leave(&u);
}

static void test_r_ick_2_a_reserve_gives_the_same_batch_until_the_commit(void **state)
{
    user u = join();
    (void)state;
    ick_add(&u, "a", 7);
    ick_add(&u, "b", 8);
    ick_add(&u, "c", 9);
    assert_string_equal(reserve(&u, 1), "a");
    assert_string_equal(reserve(&u, 2), "a b");
    assert_string_equal(reserve(&u, 2), "a b");
    assert_int_equal(commit(&u, "b"), 1);
    assert_string_equal(reserve(&u, 2), "a c");
    assert_int_equal(commit(&u, "c a b"), 2);
    assert_string_equal(reserve(&u, 2), "");
    assert_int_equal(commit(&u, "c a b"), 0);
    assert_string_equal(reserve(&u, 0), "");
    leave(&u);
}

static void test_r_ick_2_a_smaller_reserve_moves_nothing(void **state)
{
    user u = join();
    (void)state;
    ick_add(&u, "b", 2);
    ick_add(&u, "c", 3);
    assert_string_equal(reserve(&u, 2), "b c");
    ick_add(&u, "a", 1);
    assert_string_equal(reserve(&u, 1), "b");
    assert_int_equal(stats(&u).producer.size, 1);
    leave(&u);
}

static void test_r_ick_2_an_empty_add_makes_the_set(void **state)
{
    user u = join();
    (void)state;
    assert_int_equal(stats(&u).exists, 0);
    assert_string_equal(add_all(&u, NULL, 0), "0 0");
    assert_int_equal(stats(&u).exists, 1);
    assert_int_equal(delete_set(&u), 1);
    assert_int_equal(stats(&u).exists, 0);
    assert_string_equal(ick_add(&u, "", INFINITY), "1 0");
    assert_string_equal(ick_add(&u, "low", -INFINITY), "1 0");
    assert_string_equal(reserve(&u, 1), "low");
    assert_int_equal(delete_set(&u), 3);
    assert_int_equal(delete_set(&u), 0);
    assert_int_equal(number("DBSIZE"), 0);
    leave(&u);
}

static void test_r_ick_2_scores_keep_all_their_bits(void **state)
{
    static const double scores[] = {-INFINITY,         -1.5e300,           -0.1,    0, 5e-324,
                                    1700000000.123456, 9007199254740993.0, INFINITY};
    user u = join();
    const seriatim_ick_result *r;
    size_t i, count = sizeof scores / sizeof *scores;
    char name[] = "a";
    (void)state;
    for (i = 0; i < count; i++, name[0]++)
        ick_add(&u, name, scores[i]);
    assert_true(stats(&u).producer.lowest == -INFINITY && stats(&u).total.highest == INFINITY);
    begin(&u);
    r = finish(&u, seriatim_ick_reserve(u.client, &u.ick, 100, 0));
    assert_int_equal(r->count, count);
    for (i = 0; i < count; i++)
        assert_true(r->members[i].score == scores[i]);
    leave(&u);
}

static void test_r_ick_3_what_is_added_again_is_reserved_again(void **state)
{
    user u = join();
    (void)state;
    ick_add(&u, "a", 5);
    assert_string_equal(reserve(&u, 1), "a");
    assert_string_equal(ick_add(&u, "a", 9), "1 0");
    assert_string_equal(ick_add(&u, "a", 3), "0 1");
    assert_int_equal(stats(&u).total.size, 2);
    assert_true(stats(&u).producer.lowest == 3 && stats(&u).consumer.lowest == 5);
    assert_string_equal(reserve(&u, 5), "a");
    assert_int_equal(commit(&u, "a"), 1);
    assert_string_equal(reserve(&u, 1), "a");
    assert_int_equal(commit(&u, "a"), 1);
    assert_string_equal(reserve(&u, 1), "");
    leave(&u);
}

/* The old process reserved before the new one, and commits while the new one still works on it. */
static void test_r_ick_4_the_token_of_an_older_reserve_commits_nothing(void **state)
{
    user old = join(), new = join_as("K", NULL, 0);
    (void)state;
    ick_add(&old, "a", 1);
    assert_string_equal(reserve(&old, 1), "a");
    ick_add(&old, "a", 2);
    assert_string_equal(reserve(&new, 2), "a");
    assert_int_equal(commit(&old, "a"), 0);
    assert_string_equal(exchange(&old, 0, "a", 0), "");
    assert_int_equal(stats(&old).consumer.size, 1);
    assert_int_equal(commit(&new, "a"), 1);
    assert_string_equal(reserve(&new, 1), "a");
    leave(&old);
    leave(&new);
}

static void test_r_ick_4_a_deleted_set_gives_no_token_twice(void **state)
{
    user old = join(), new = join_as("K", NULL, 0);
    (void)state;
    ick_add(&old, "a", 1);
    reserve(&old, 1);
    delete_set(&old);
    ick_add(&new, "a", 1);
    assert_string_equal(reserve(&new, 1), "a");
    assert_int_equal(commit(&old, "a"), 0);
    leave(&old);
    leave(&new);
}

static void test_r_ick_5_other_consumers_get_it_after_reserve_time(void **state)
{
    user one = join(), two = join_as("K", "two", 0.2);
    (void)state;
    one.ick.reserve_time = 0.2;
    ick_add(&one, "a", 5);
    ick_add(&one, "b", 6);
    ick_add(&one, "c", 7);
    assert_string_equal(reserve(&one, 2), "a b");
    ick_add(&one, "b", 1);
    assert_string_equal(reserve(&two, 3), "c");
    assert_int_equal(stats(&one).consumers, 2);
    assert_int_equal(commit(&one, "a"), 1);
    while (number("EXISTS " SET "again"))
        reserve(&two, 3);
    assert_string_equal(reserve(&two, 3), "b c");
    assert_true(stats(&two).consumer.lowest == 1);
    assert_int_equal(commit(&one, "b"), 0);
    assert_int_equal(commit(&two, "b c"), 2);
    assert_int_equal(stats(&two).total.size, 0);
    assert_int_equal(stats(&two).consumers, 0);
    leave(&one);
    leave(&two);
}

static void test_r_ick_6_an_exchange_commits_first(void **state)
{
    user u = join();
    uint64_t sent;
    (void)state;
    ick_add(&u, "a", 1);
    ick_add(&u, "b", 2);
    ick_add(&u, "c", 3);
    assert_string_equal(reserve(&u, 2), "a b");
    ick_add(&u, "a", 4);
    assert_string_equal(exchange(&u, 2, "a", 0), "b c");
    sent = u.client->session.commands;
    assert_string_equal(exchange(&u, 2, "b c", 0), "a");
    assert_int_equal(u.client->session.commands, sent + 1);
    assert_string_equal(exchange(&u, 0, "a", 0), "");
    assert_int_equal(stats(&u).total.size, 0);
    leave(&u);
}

static void test_r_ick_6_backwash_gives_the_lowest_of_all(void **state)
{
    user u = join();
    (void)state;
    ick_add(&u, "c", 3);
    ick_add(&u, "d", 4);
    assert_string_equal(reserve(&u, 2), "c d");
    ick_add(&u, "a", 1);
    ick_add(&u, "d", 0);
    assert_string_equal(reserve(&u, 2), "c d");
    assert_string_equal(reserve_backwash(&u, 2), "d a");
    assert_true(stats(&u).consumer.lowest == 0 && stats(&u).producer.size == 1);
    assert_string_equal(exchange(&u, 2, "a", 1), "d c");
    leave(&u);
}

static void test_r_ick_7_no_member_starves(void **state)
{
    user u = join();
    seriatim_ick_member *all = calloc(10000, sizeof *all);
    char(*names)[12] = calloc(10000, sizeof *names);
    int i, batch = 0, found = 0;
    (void)state;
    for (i = 0; i < 10000; i++) {
        snprintf(names[i], sizeof names[i], "%d", i + 1);
        all[i] = member(names[i], i + 1);
    }
    assert_string_equal(add_all(&u, all, 10000), "10000 0");
    while (!found) {
        char batch_names[4096];
        ick_add(&u, "5000", 20001 + batch);
        snprintf(batch_names, sizeof batch_names, "%s", reserve(&u, 10));
        batch++;
        found = strstr(batch_names, "5000") != NULL;
        assert_int_equal(commit(&u, batch_names), 10);
    }
    assert_int_equal(batch, 500);
    free(all);
    free(names);
    leave(&u);
}

/* ---- Slices ----------------------------------------------------------------------------------- */

static void add_numbers(user *u, seriatim_ick_member *all, char (*names)[12], int count)
{
    int i;
    for (i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        all[i] = member(names[i], count - i);
    }
    begin(u);
    assert_int_equal(finish(u, seriatim_ick_add(u->client, &u->ick, all, (size_t)count))->added, count);
}

static void test_r_ick_8_large_calls_go_in_slices(void **state)
{
    static const int sizes[] = {1000, 1001, 8000, 8010, 100000};
    seriatim_ick_member *all = calloc(100000, sizeof *all);
    char(*names)[12] = calloc(100000, sizeof *names);
    size_t k;
    (void)state;
    for (k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        user u = join();
        int i, count = sizes[k], backwash;
        add_numbers(&u, all, names, count);
        for (backwash = 0; backwash < 2; backwash++) {
            const seriatim_ick_result *r;
            begin(&u);
            r = finish(&u, seriatim_ick_reserve(u.client, &u.ick, count + 5, backwash));
            assert_int_equal(r->count, count);
            for (i = 0; i < count; i++)
                assert_true(r->members[i].score == i + 1 && atoi(r->members[i].data) == count - i - 1);
            u.ick.token = r->token;
        }
        begin(&u);
        assert_int_equal(finish(&u, seriatim_ick_commit(u.client, &u.ick, all, (size_t)count))->ended, count);
        assert_string_equal(reserve(&u, count), "");
        assert_int_equal(commit(&u, "1 2 3"), 0);
        add_numbers(&u, all, names, count);
        begin(&u);
        u.ick.token = finish(&u, seriatim_ick_reserve(u.client, &u.ick, count / 2, 0))->token;
        begin(&u);
        assert_int_equal(finish(&u, seriatim_ick_exchange(u.client, &u.ick, count, 0, all, (size_t)count))->ended,
                         count / 2);
        leave(&u);
    }
    free(all);
    free(names);
}

/* Commands that the client has sent since the last call. */
static long long sent_since(const user *u, uint64_t *before)
{
    uint64_t now = u->client->session.commands, sent = now - *before;
    *before = now;
    return (long long)sent;
}

/*
 * 1,000 members of 1,024 bytes: an add or a commit sends 195 of them, less than SRT_ICK_SLICE_BYTES, in a script; a
 * reserve moves or lists 200, the first multiple of SRT_ICK_PART that is larger, in a script. The last one that moves
 * also lists.
 */
static void test_r_ick_8_slices_of_large_members_have_fewer(void **state)
{
    static char names[1000][1025];
    seriatim_ick_member all[1000];
    user u = join();
    uint64_t sent = u.client->session.commands;
    int backwash;
    size_t i;
    (void)state;
    for (i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof names[i], "%01024lu", (unsigned long)i);
        all[i] = member(names[i], (double)i);
    }
    assert_string_equal(add_all(&u, all, 1), "1 0"); /* also loads the script */
    sent_since(&u, &sent);
    assert_string_equal(add_all(&u, all, 1000), "999 0");
    assert_int_equal(sent_since(&u, &sent), 6);
    reserve(&u, 1);
    sent_since(&u, &sent);
    for (backwash = 0; backwash < 2; backwash++) {
        const seriatim_ick_result *r;
        begin(&u);
        r = finish(&u, seriatim_ick_reserve(u.client, &u.ick, 1000, backwash));
        u.ick.token = r->token;
        assert_int_equal(r->count, 1000);
        for (i = 0; i < 1000; i++)
            assert_memory_equal(r->members[i].data, names[i], 1024);
        assert_int_equal(sent_since(&u, &sent), backwash ? 14 : 9);
    }
    begin(&u);
    assert_int_equal(finish(&u, seriatim_ick_commit(u.client, &u.ick, all, 1000))->ended, 1000);
    assert_in_range(sent_since(&u, &sent), 6, 7); /* one may load the script */
    leave(&u);
}

/* ---- Trips ------------------------------------------------------------------------------------ */

/* Sends the calls that were made, and gives the results of `expected` calls. */
static const seriatim_ick_result *finish_trip(user *u, size_t expected)
{
    const seriatim_ick_result *results;
    size_t count;
    assert_int_equal(seriatim_ick_send(u->client), SERIATIM_OK);
    if (drive(u->link) != SERIATIM_OK)
        fail_msg("%s", seriatim_client_error(u->client)->message);
    results = seriatim_ick_results(u->client, &count);
    assert_int_equal(count, expected);
    return results;
}

static void test_r_ick_9_a_commit_of_a_trip_has_the_token_that_it_was_made_with(void **state)
{
    user u = join();
    const seriatim_ick_member all[] = {member("a", 1), member("b", 2), member("c", 3), member("d", 4)};
    const seriatim_ick_member a = member("a", NAN);
    const seriatim_ick_result *r;
    (void)state;
    begin(&u);
    assert_int_equal(seriatim_ick_add(u.client, &u.ick, all, 4), SERIATIM_OK);
    assert_int_equal(seriatim_ick_reserve(u.client, &u.ick, 4, 0), SERIATIM_OK);
    assert_int_equal(seriatim_ick_commit(u.client, &u.ick, &a, 1), SERIATIM_OK);
    assert_int_equal(seriatim_ick_stats(u.client, &u.ick), SERIATIM_OK);
    r = finish_trip(&u, 4);
    assert_int_equal(r[0].added, 4);
    assert_int_equal(r[1].count, 4);
    assert_int_equal(r[2].ended, 0);
    assert_int_equal(r[3].consumer.size, 4);
    u.ick.token = r[1].token;
    begin(&u);
    assert_int_equal(seriatim_ick_exchange(u.client, &u.ick, 2, 0, &a, 1), SERIATIM_OK);
    assert_int_equal(seriatim_ick_exchange(u.client, &u.ick, 2, 0, &all[1], 1), SERIATIM_OK);
    r = finish_trip(&u, 2);
    assert_int_equal(r[0].ended, 1);
    assert_int_equal(r[0].count, 2);
    assert_int_equal(r[1].ended, 0); /* the token of the first exchange is not the one that this call was made with */
    leave(&u);
}

/* What the object reserved before the trip was changed meanwhile: the commit of the old batch does not end the change.
 */
static void test_r_ick_9_a_commit_behind_a_reserve_ends_no_later_change(void **state)
{
    user u = join(), other = join_as("K", "other", 30);
    const seriatim_ick_member a = member("a", 1);
    const seriatim_ick_result *r;
    (void)state;
    ick_add(&u, "a", 1);
    assert_string_equal(reserve(&u, 1), "a");
    ick_add(&other, "a", 2);
    begin(&u);
    assert_int_equal(seriatim_ick_reserve(u.client, &u.ick, 1, 1), SERIATIM_OK);
    assert_int_equal(seriatim_ick_commit(u.client, &u.ick, &a, 1), SERIATIM_OK);
    r = finish_trip(&u, 2);
    assert_int_equal(r[0].count, 1);
    assert_int_equal(r[1].ended, 0);
    assert_string_equal(reserve(&u, 1), "a");
    leave(&u);
    leave(&other);
}

/* A reserve of 10 that first takes 1,500 members back is two scripts. */
static void test_r_ick_9_later_calls_wait_for_a_reserve_of_several_scripts(void **state)
{
    user u = join();
    seriatim_ick_member all[1500];
    char names[1500][12];
    const seriatim_ick_result *r;
    (void)state;
    add_numbers(&u, all, names, 1500);
    begin(&u);
    u.ick.token = finish(&u, seriatim_ick_reserve(u.client, &u.ick, 1500, 0))->token;
    begin(&u);
    assert_int_equal(seriatim_ick_reserve(u.client, &u.ick, 10, 1), SERIATIM_OK);
    assert_int_equal(seriatim_ick_stats(u.client, &u.ick), SERIATIM_OK);
    assert_int_equal(seriatim_ick_reserve(u.client, &u.ick, 10, 0), SERIATIM_OK);
    r = finish_trip(&u, 3);
    assert_int_equal(r[0].count, 10);
    assert_int_equal(r[1].consumer.size, 10);
    assert_int_equal(r[2].count, 10);
    leave(&u);
}

/* Drives both trips by turns, so that each reserves between the scripts of the other. */
static void drive_both(user *a, user *b)
{
    int of_a = SERIATIM_AGAIN, of_b = SERIATIM_AGAIN;
    assert_int_equal(seriatim_ick_send(a->client), SERIATIM_OK);
    assert_int_equal(seriatim_ick_send(b->client), SERIATIM_OK);
    while (of_a == SERIATIM_AGAIN || of_b == SERIATIM_AGAIN) {
        if (of_a == SERIATIM_AGAIN)
            of_a = seriatim_link_step(a->link);
        if (of_b == SERIATIM_AGAIN)
            of_b = seriatim_link_step(b->link);
    }
    if (of_a != SERIATIM_OK || of_b != SERIATIM_OK)
        fail_msg("%s %s", seriatim_client_error(a->client)->message, seriatim_client_error(b->client)->message);
}

static int64_t commit_listed(user *u)
{
    size_t count;
    const seriatim_ick_result *r = seriatim_ick_results(u->client, &count);
    seriatim_ick_member *members;
    char *names;
    int64_t ended;
    size_t i;
    assert_int_equal(count, 1);
    count = r->count;
    u->ick.token = r->token;
    members = calloc(count + 1, sizeof *members);
    names = calloc(count + 1, 12);
    for (i = 0; i < count; i++)
        members[i] = member(memcpy(names + 12 * i, r->members[i].data, r->members[i].len), 0);
    begin(u);
    ended = finish(u, seriatim_ick_commit(u->client, &u->ick, members, count))->ended;
    free(members);
    free(names);
    return ended;
}

static void test_r_ick_4_two_processes_of_one_name_both_end_a_large_reserve(void **state)
{
    user a = join(), b = join_as("K", NULL, 0);
    seriatim_ick_member *all = calloc(10000, sizeof *all);
    char(*names)[12] = calloc(10000, sizeof *names);
    int64_t of_a, of_b;
    (void)state;
    add_numbers(&a, all, names, 10000);
    begin(&a);
    begin(&b);
    assert_int_equal(seriatim_ick_reserve(a.client, &a.ick, 10000, 0), SERIATIM_OK);
    assert_int_equal(seriatim_ick_reserve(b.client, &b.ick, 10000, 0), SERIATIM_OK);
    drive_both(&a, &b);
    of_a = commit_listed(&a);
    of_b = commit_listed(&b);
    assert_true((of_a == 10000 && of_b == 0) || (of_a == 0 && of_b == 10000));
    leave(&a);
    leave(&b);
    free(all);
    free(names);
}

/* ---- Refusals --------------------------------------------------------------------------------- */

static void refused(user *u, int status, const char *message)
{
    assert_int_equal(status, SERIATIM_INVALID);
    assert_string_equal(seriatim_client_error(u->client)->message, message);
    assert_int_equal(seriatim_ick_send(u->client), SERIATIM_INVALID);
}

static void test_r_ick_10_wrong_arguments_are_refused_before_any_write(void **state)
{
    static char large[1025];
    user u = join();
    seriatim_ick_member bad[] = {member("a", 1), member("z", NAN)};
    seriatim_ick wrong;
    (void)state;
    begin(&u);
    refused(&u, seriatim_ick_add(u.client, &u.ick, bad, 2),
            "ickadd: the score of member 2 is NaN; it must be a number, which may be infinite");
    bad[1].score = 1;
    bad[1].data = large;
    bad[1].len = 1025;
    begin(&u);
    refused(&u, seriatim_ick_add(u.client, &u.ick, bad, 2),
            "ickadd: member 2 has 1025 bytes; it must have at most 1024");
    begin(&u);
    refused(&u, seriatim_ick_reserve(u.client, &u.ick, -1, 0),
            "ickreserve: max_size is -1; it must be 0 to 2147483647");
    wrong = u.ick;
    wrong.name.data = large;
    wrong.name.len = 1025;
    begin(&u);
    refused(&u, seriatim_ick_stats(u.client, &wrong), "ickstats: the name has 1025 bytes; it must have 0 to 1024");
    wrong = u.ick;
    wrong.consumer = text("");
    begin(&u);
    refused(&u, seriatim_ick_stats(u.client, &wrong), "ickstats: consumer has 0 bytes; it must have 1 to 512");
    wrong = u.ick;
    wrong.reserve_time = 0.01;
    begin(&u);
    refused(&u, seriatim_ick_stats(u.client, &wrong),
            "ickstats: reserve_time is 0.01; it must be 0.1 to 86400 seconds");
    assert_int_equal(number("DBSIZE"), 0);
    leave(&u);
}

static void fails(user *u, int status, const char *part)
{
    assert_int_equal(seriatim_ick_send(u->client), SERIATIM_OK);
    assert_int_equal(drive(u->link), status);
    if (!strstr(seriatim_client_error(u->client)->message, part))
        fail_msg("%s", seriatim_client_error(u->client)->message);
}

static void test_r_ick_10_keys_of_another_kind_are_named(void **state)
{
    user u = join();
    (void)state;
    ick_add(&u, "a", 1);
    REDIS("SET " SET "again x");
    begin(&u);
    assert_int_equal(seriatim_ick_reserve(u.client, &u.ick, 1, 0), SERIATIM_OK);
    fails(&u, SERIATIM_SERVER, "the key again of this set is a string, not a zset");
    REDIS("DEL " SET "again");
    REDIS("HSET " SET "about version ick.v9");
    begin(&u);
    assert_int_equal(seriatim_ick_delete(u.client, &u.ick), SERIATIM_OK);
    fails(&u, SERIATIM_SERVER, "a version that is not known");
    REDIS("DEL " SET "about");
    begin(&u);
    assert_int_equal(seriatim_ick_stats(u.client, &u.ick), SERIATIM_OK);
    fails(&u, SERIATIM_SERVER, "members and no version");
    leave(&u);
}

static void test_r_ick_10_names_are_data(void **state)
{
    static const char *const names[] = {"x", "{a}b", "a{b}c", "{}abc", "abc{}", "a}b", "", "a b/c:d"};
    static char long_name[1025];
    size_t i, count = sizeof names / sizeof *names;
    user u = join();
    (void)state;
    memset(long_name, '{', 1024);
    for (i = 0; i <= count; i++) {
        u.ick.name = text(i < count ? names[i] : long_name);
        assert_string_equal(ick_add(&u, "a", 1), "1 0");
    }
    assert_int_equal(number("DBSIZE"), 2 * ((long long)count + 1));
    for (i = 0; i <= count; i++) {
        u.ick.name = text(i < count ? names[i] : long_name);
        assert_string_equal(reserve(&u, 2), "a");
        assert_int_equal(commit(&u, "a"), 1);
        assert_int_equal(delete_set(&u), 1);
    }
    assert_int_equal(number("DBSIZE"), 0);
    leave(&u);
}

static void test_r_ick_11_a_full_redis_refuses_adds_and_lets_consumers_work(void **state)
{
    user u = join();
    const seriatim_ick_member b = member("b", 2);
    (void)state;
    ick_add(&u, "a", 1);
    REDIS("CONFIG SET maxmemory 1");
    begin(&u);
    assert_int_equal(seriatim_ick_add(u.client, &u.ick, &b, 1), SERIATIM_OK);
    fails(&u, SERIATIM_FULL, "");
    assert_string_equal(reserve(&u, 1), "a");
    assert_int_equal(commit(&u, "a"), 1);
    assert_int_equal(delete_set(&u), 1);
    REDIS("CONFIG SET maxmemory 0");
    leave(&u);
}

/* ---- Import ----------------------------------------------------------------------------------- */

static void import(user *u, const char *key)
{
    begin(u);
    assert_int_equal(seriatim_ick_import(u->client, &u->ick, text(key)), SERIATIM_OK);
}

static void test_r_ick_12_import_reads_the_keys_of_the_gem(void **state)
{
    user u = join();
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
    assert_string_equal(reserve(&u, 3), "first m0 m1");
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
    leave(&u);
}

/* ---- Random steps ----------------------------------------------------------------------------- */

#define STEPS 9000
#define STEPS_OF_A_SOAK 100000 /* with SOAK=1, which script/soak sets */
#define MEMBERS 12
#define CONSUMERS 4

/*
 * Step numbers: when each member was last added, when a reserve gave it last, and the latest reserve of which the
 * consumer has committed it.
 */
typedef struct model {
    long added[MEMBERS], given[MEMBERS], done[MEMBERS];
    unsigned long random;
} model;

static unsigned long pick(model *m, unsigned long below)
{
    m->random = m->random * 6364136223846793005UL + 1442695040888963407UL;
    return (m->random >> 33) % below;
}

/* Now and then the reserve_time of a consumer is over. */
static void pass_time(model *m, const user *users, int count)
{
    int i = (int)pick(m, (unsigned long)count);
    if (pick(m, 8) == 0)
        REDIS("EVAL %s 1 " SET "ends %b",
              "if redis.call('ZSCORE', KEYS[1], ARGV[1]) then redis.call('ZADD', KEYS[1], 1, ARGV[1]) end return 0",
              users[i].ick.consumer.data, users[i].ick.consumer.len);
}

static void step_add(model *m, user *u, long step)
{
    char name[8];
    unsigned long which = pick(m, MEMBERS);
    snprintf(name, sizeof name, "m%lu", which);
    ick_add(u, name, (double)pick(m, 50));
    m->added[which] = step;
}

/* What was given is noted at once: whoever got it will process it after the add. */
static void note_given(model *m, const seriatim_ick_result *r, long step)
{
    size_t i;
    for (i = 0; i < r->count; i++)
        m->given[atoi(r->members[i].data + 1)] = step;
}

typedef struct batch {
    char names[256];
    int64_t token;
    long step;
} batch;

static void keep_batch(batch *b, const seriatim_ick_result *r, long step)
{
    size_t i, len = 0;
    b->step = step;
    b->names[0] = '\0';
    for (i = 0; i < r->count; i++)
        len += (size_t)snprintf(b->names + len, sizeof b->names - len, "%s%s", i ? " " : "", r->members[i].data);
    b->token = r->token;
}

static void reserve_noted(model *m, user *u, batch *b, int64_t n, long step)
{
    const seriatim_ick_result *r;
    begin(u);
    r = finish(u, seriatim_ick_reserve(u->client, &u->ick, n, pick(m, 5) == 0));
    note_given(m, r, step);
    keep_batch(b, r, step);
}

static void step_reserve(model *m, user *u, batch *b, long step)
{
    reserve_noted(m, u, b, (int64_t)pick(m, 6), step);
}

/* The consumer has processed what the reserve gave, whatever becomes of the commit. */
static void note_done(model *m, const batch *b)
{
    seriatim_ick_member list[MEMBERS];
    size_t i, count = words(b->names, list);
    for (i = 0; i < count; i++) {
        long *done = &m->done[atoi(list[i].data + 1)];
        *done = *done > b->step ? *done : b->step;
    }
}

static void step_exchange(model *m, user *u, batch *b, long step)
{
    seriatim_ick_member list[MEMBERS];
    size_t count = words(b->names, list);
    const seriatim_ick_result *r;
    note_done(m, b);
    u->ick.token = b->token;
    begin(u);
    r = finish(u, seriatim_ick_exchange(u->client, &u->ick, (int64_t)pick(m, 6), pick(m, 5) == 0, list, count));
    note_given(m, r, step);
    keep_batch(b, r, step);
}

static void step_commit(model *m, user *u, batch *b)
{
    note_done(m, b);
    u->ick.token = b->token;
    commit(u, b->names);
    b->names[0] = '\0';
}

/*
 * A member that was added after the last reserve that gave it must be one that a reserve will give: in pset, or in
 * again while it is held. One that was given since, and not yet committed by whom it was given to, must be held at
 * least. ARGV: of each member '0' (committed), '1' (to be reserved) or '2' (held at least). Returns the number of the
 * first member that is gone, or -1.
 */
static const char first_gone[] =
    "for i, wanted in ipairs(ARGV) do "
    "local member = 'm' .. i - 1 "
    "local free, again = redis.call('ZSCORE', KEYS[1], member), redis.call('ZSCORE', KEYS[2], member) "
    "local held = redis.call('HEXISTS', KEYS[3], member) == 1 "
    "if wanted == '1' and not (free or again and held) or wanted == '2' and not (free or held) then return i - 1 end "
    "end return -1";

static void none_is_forgotten(const model *m, long step)
{
    const char *argv[6 + MEMBERS] = {"EVAL", first_gone, "3", SET "pset", SET "again", SET "held"};
    redisReply *reply;
    long i;
    for (i = 0; i < MEMBERS; i++)
        argv[6 + i] = m->added[i] <= m->done[i] ? "0" : m->added[i] > m->given[i] ? "1" : "2";
    reply = redisCommandArgv(server_redis, 6 + MEMBERS, argv, NULL);
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        fail_msg("the script that looks for members failed: %s", reply ? reply->str : "no answer");
    i = (long)reply->integer;
    freeReplyObject(reply);
    if (i >= 0)
        fail_msg("step %ld: m%ld was added at step %ld, given at step %ld, committed of step %ld, and is gone", step, i,
                 m->added[i], m->given[i], m->done[i]);
}

/* What `seriatim check` proves of a set holds between any two calls. */
static void is_sound(const user *u, long step)
{
    const seriatim_finding *found;
    size_t count;
    if (seriatim_check_begin(u->client, SERIATIM_NO_QUEUE, 0) != SERIATIM_OK || drive(u->link) != SERIATIM_OK)
        fail_msg("check: %s", seriatim_client_error(u->client)->message);
    found = seriatim_check_result(u->client, &count);
    if (count > 0)
        fail_msg("step %ld: %s: %s", step, found[0].id, found[0].detail);
}

/* All consumers are gone, and a new one takes what there is. */
static void drain(model *m, long step)
{
    user last = join_as("K", "last", 30);
    batch b;
    REDIS("EVAL %s 1 " SET "ends", "for _, who in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
                                   "redis.call('ZADD', KEYS[1], 1, who) end return 0");
    do {
        reserve_noted(m, &last, &b, MEMBERS, ++step);
        step_commit(m, &last, &b);
    } while (stats(&last).total.size > 0);
    none_is_forgotten(m, step);
    assert_int_equal(number("DBSIZE"), 1);
    leave(&last);
}

/*
 * Consumers 0 and 1 have one name: each is the other's zombie, which goes on with a batch that was given to it long
 * ago.
 */
static void walk(unsigned long seed, int consumers, long steps)
{
    static const char *const names[CONSUMERS] = {"one", "one", "two", "three"};
    user users[CONSUMERS];
    batch batches[CONSUMERS];
    model m;
    long step;
    int i;
    REDIS("FLUSHALL");
    memset(&m, 0, sizeof m);
    memset(batches, 0, sizeof batches);
    m.random = seed;
    for (i = 0; i < consumers; i++)
        users[i] = join_as("K", names[i], 30);
    for (step = 1; step <= steps; step++) {
        unsigned long what = pick(&m, 10);
        i = (int)pick(&m, (unsigned long)consumers);
        if (what < 4)
            step_add(&m, &users[i], step);
        else if (what < 6)
            step_reserve(&m, &users[i], &batches[i], step);
        else if (what < 8)
            step_commit(&m, &users[i], &batches[i]);
        else
            step_exchange(&m, &users[i], &batches[i], step);
        pass_time(&m, users, consumers);
        none_is_forgotten(&m, step);
        if (step % 25 == 0)
            is_sound(&users[i], step);
    }
    drain(&m, step);
    for (i = 0; i < consumers; i++)
        leave(&users[i]);
}

static void test_r_ick_13_every_add_is_followed_by_a_reserve_that_gives_the_member(void **state)
{
    const char *steps = getenv("ICK_STEPS"), *seed = getenv("ICK_SEED");
    long all = steps ? atol(steps) : getenv("SOAK") ? STEPS_OF_A_SOAK : STEPS;
    unsigned long first = seed ? strtoul(seed, NULL, 10) : (unsigned long)time(NULL);
    int consumers;
    (void)state;
    print_message("ICK_SEED=%lu\n", first);
    for (consumers = 2; consumers <= CONSUMERS; consumers++)
        walk(first + (unsigned long)consumers, consumers, all / (CONSUMERS - 1));
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
        cmocka_unit_test(test_r_ick_8_large_calls_go_in_slices),
        cmocka_unit_test(test_r_ick_8_slices_of_large_members_have_fewer),
        cmocka_unit_test(test_r_ick_9_a_commit_of_a_trip_has_the_token_that_it_was_made_with),
        cmocka_unit_test(test_r_ick_9_a_commit_behind_a_reserve_ends_no_later_change),
        cmocka_unit_test(test_r_ick_9_later_calls_wait_for_a_reserve_of_several_scripts),
        cmocka_unit_test(test_r_ick_4_two_processes_of_one_name_both_end_a_large_reserve),
        cmocka_unit_test(test_r_ick_10_wrong_arguments_are_refused_before_any_write),
        cmocka_unit_test(test_r_ick_10_keys_of_another_kind_are_named),
        cmocka_unit_test(test_r_ick_10_names_are_data),
        cmocka_unit_test(test_r_ick_11_a_full_redis_refuses_adds_and_lets_consumers_work),
        cmocka_unit_test(test_r_ick_12_import_reads_the_keys_of_the_gem),
        cmocka_unit_test(test_r_ick_13_every_add_is_followed_by_a_reserve_that_gives_the_member),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

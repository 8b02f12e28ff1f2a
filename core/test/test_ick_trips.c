/* test_ick_trips.c - two-phase commit sets: calls of several scripts, and several calls in one trip to Redis. */
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

#define SRT_SCRIPT_TEXTS
#include "operators.h"
#include "ick_fixture.h"

/* ---- Slices ----------------------------------------------------------------------------------- */

static void add_numbers(ick_user *u, seriatim_ick_member *all, char (*names)[12], int count)
{
    int i;
    for (i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        all[i] = ick_member(names[i], count - i);
    }
    ick_begin(u);
    assert_int_equal(ick_finish(u, seriatim_ick_add(u->client, &u->ick, all, (size_t)count))->added, count);
}

static void test_r_ick_8_large_calls_go_in_slices(void **state)
{
    static const int sizes[] = {1000, 1001, 8000, 8010, 100000};
    seriatim_ick_member *all = calloc(100000, sizeof *all);
    char(*names)[12] = calloc(100000, sizeof *names);
    size_t k;
    (void)state;
    for (k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        ick_user u = ick_join();
        int i, count = sizes[k], backwash;
        add_numbers(&u, all, names, count);
        for (backwash = 0; backwash < 2; backwash++) {
            const seriatim_ick_result *r;
            ick_begin(&u);
            r = ick_finish(&u, seriatim_ick_reserve(u.client, &u.ick, count + 5, backwash));
            assert_int_equal(r->count, count);
            for (i = 0; i < count; i++)
                assert_true(r->members[i].score == i + 1 && atoi(r->members[i].data) == count - i - 1);
            u.ick.token = r->token;
        }
        ick_begin(&u);
        assert_int_equal(ick_finish(&u, seriatim_ick_commit(u.client, &u.ick, all, (size_t)count))->ended, count);
        assert_string_equal(ick_reserve(&u, count), "");
        assert_int_equal(ick_commit(&u, "1 2 3"), 0);
        add_numbers(&u, all, names, count);
        ick_begin(&u);
        u.ick.token = ick_finish(&u, seriatim_ick_reserve(u.client, &u.ick, count / 2, 0))->token;
        ick_begin(&u);
        assert_int_equal(ick_finish(&u, seriatim_ick_exchange(u.client, &u.ick, count, 0, all, (size_t)count))->ended,
                         count / 2);
        ick_leave(&u);
    }
    free(all);
    free(names);
}

/* Commands that the client has sent since the last call. */
static long long sent_since(const ick_user *u, uint64_t *before)
{
    uint64_t now = u->client->cluster.peers[0]->commands.commands, sent = now - *before;
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
    ick_user u = ick_join();
    uint64_t sent = u.client->cluster.peers[0]->commands.commands;
    int backwash;
    size_t i;
    (void)state;
    for (i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof names[i], "%01024lu", (unsigned long)i);
        all[i] = ick_member(names[i], (double)i);
    }
    assert_string_equal(ick_add_all(&u, all, 1), "1 0"); /* also loads the script */
    sent_since(&u, &sent);
    assert_string_equal(ick_add_all(&u, all, 1000), "999 0");
    assert_int_equal(sent_since(&u, &sent), 6);
    ick_reserve(&u, 1);
    sent_since(&u, &sent);
    for (backwash = 0; backwash < 2; backwash++) {
        const seriatim_ick_result *r;
        ick_begin(&u);
        r = ick_finish(&u, seriatim_ick_reserve(u.client, &u.ick, 1000, backwash));
        u.ick.token = r->token;
        assert_int_equal(r->count, 1000);
        for (i = 0; i < 1000; i++)
            assert_memory_equal(r->members[i].data, names[i], 1024);
        assert_int_equal(sent_since(&u, &sent), backwash ? 14 : 9);
    }
    ick_begin(&u);
    assert_int_equal(ick_finish(&u, seriatim_ick_commit(u.client, &u.ick, all, 1000))->ended, 1000);
    assert_in_range(sent_since(&u, &sent), 6, 7); /* one may load the script */
    ick_leave(&u);
}

/* ---- Trips ------------------------------------------------------------------------------------ */

/* Sends the calls that were made, and gives the results of `expected` calls. */
static const seriatim_ick_result *finish_trip(ick_user *u, size_t expected)
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
    ick_user u = ick_join();
    const seriatim_ick_member all[] = {ick_member("a", 1), ick_member("b", 2), ick_member("c", 3), ick_member("d", 4)};
    const seriatim_ick_member a = ick_member("a", NAN);
    const seriatim_ick_result *r;
    (void)state;
    ick_begin(&u);
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
    ick_begin(&u);
    assert_int_equal(seriatim_ick_exchange(u.client, &u.ick, 2, 0, &a, 1), SERIATIM_OK);
    assert_int_equal(seriatim_ick_exchange(u.client, &u.ick, 2, 0, &all[1], 1), SERIATIM_OK);
    r = finish_trip(&u, 2);
    assert_int_equal(r[0].ended, 1);
    assert_int_equal(r[0].count, 2);
    assert_int_equal(r[1].ended, 0); /* the token of the first exchange is not the one that this call was made with */
    ick_leave(&u);
}

/* What the object reserved before the trip was changed meanwhile: the commit of the old batch does not end the change.
 */
static void test_r_ick_9_a_commit_behind_a_reserve_ends_no_later_change(void **state)
{
    ick_user u = ick_join(), other = ick_join_as("K", "other", 30);
    const seriatim_ick_member a = ick_member("a", 1);
    const seriatim_ick_result *r;
    (void)state;
    ick_add(&u, "a", 1);
    assert_string_equal(ick_reserve(&u, 1), "a");
    ick_add(&other, "a", 2);
    ick_begin(&u);
    assert_int_equal(seriatim_ick_reserve(u.client, &u.ick, 1, 1), SERIATIM_OK);
    assert_int_equal(seriatim_ick_commit(u.client, &u.ick, &a, 1), SERIATIM_OK);
    r = finish_trip(&u, 2);
    assert_int_equal(r[0].count, 1);
    assert_int_equal(r[1].ended, 0);
    assert_string_equal(ick_reserve(&u, 1), "a");
    ick_leave(&u);
    ick_leave(&other);
}

/* A reserve of 10 that first takes 1,500 members back is two scripts. */
static void test_r_ick_9_later_calls_wait_for_a_reserve_of_several_scripts(void **state)
{
    ick_user u = ick_join();
    seriatim_ick_member all[1500];
    char names[1500][12];
    const seriatim_ick_result *r;
    (void)state;
    add_numbers(&u, all, names, 1500);
    ick_begin(&u);
    u.ick.token = ick_finish(&u, seriatim_ick_reserve(u.client, &u.ick, 1500, 0))->token;
    ick_begin(&u);
    assert_int_equal(seriatim_ick_reserve(u.client, &u.ick, 10, 1), SERIATIM_OK);
    assert_int_equal(seriatim_ick_stats(u.client, &u.ick), SERIATIM_OK);
    assert_int_equal(seriatim_ick_reserve(u.client, &u.ick, 10, 0), SERIATIM_OK);
    r = finish_trip(&u, 3);
    assert_int_equal(r[0].count, 10);
    assert_int_equal(r[1].consumer.size, 10);
    assert_int_equal(r[2].count, 10);
    ick_leave(&u);
}

/* A script that Redis does not know is sent once more, behind what was sent meanwhile. */
static void test_r_ick_9_calls_keep_their_order_when_redis_forgets_the_scripts(void **state)
{
    ick_user u = ick_join();
    const seriatim_ick_member all[] = {ick_member("a", 1), ick_member("b", 2)};
    const seriatim_ick_result *r;
    (void)state;
    assert_string_equal(ick_add_all(&u, all, 2), "2 0");
    assert_string_equal(ick_reserve(&u, 1), "a");
    REDIS("SCRIPT FLUSH");
    ick_add(&u, "c", 3);
    assert_string_equal(ick_reserve(&u, 1), "a"); /* now Redis knows these two */
    ick_begin(&u);
    assert_int_equal(seriatim_ick_commit(u.client, &u.ick, all, 1), SERIATIM_OK);
    assert_int_equal(seriatim_ick_add(u.client, &u.ick, all, 1), SERIATIM_OK);
    assert_int_equal(seriatim_ick_stats(u.client, &u.ick), SERIATIM_OK);
    assert_int_equal(seriatim_ick_reserve(u.client, &u.ick, 3, 0), SERIATIM_OK);
    assert_int_equal(seriatim_ick_delete(u.client, &u.ick), SERIATIM_OK);
    r = finish_trip(&u, 5);
    assert_int_equal(r[0].ended, 1);
    assert_int_equal(r[1].added, 1);
    assert_int_equal(r[2].producer.size, 3);
    assert_int_equal(r[2].consumer.size, 0);
    assert_int_equal(r[3].count, 3);
    assert_int_equal(r[4].deleted, 2);
    ick_leave(&u);
}

/* Drives both trips by turns, so that each reserves between the scripts of the other. */
static void drive_both(ick_user *a, ick_user *b)
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

static int64_t commit_listed(ick_user *u)
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
        members[i] = ick_member(memcpy(names + 12 * i, r->members[i].data, r->members[i].len), 0);
    ick_begin(u);
    ended = ick_finish(u, seriatim_ick_commit(u->client, &u->ick, members, count))->ended;
    free(members);
    free(names);
    return ended;
}

static void test_r_ick_4_two_processes_of_one_name_both_end_a_large_reserve(void **state)
{
    ick_user a = ick_join(), b = ick_join_as("K", NULL, 0);
    seriatim_ick_member *all = calloc(10000, sizeof *all);
    char(*names)[12] = calloc(10000, sizeof *names);
    int64_t of_a, of_b;
    (void)state;
    add_numbers(&a, all, names, 10000);
    ick_begin(&a);
    ick_begin(&b);
    assert_int_equal(seriatim_ick_reserve(a.client, &a.ick, 10000, 0), SERIATIM_OK);
    assert_int_equal(seriatim_ick_reserve(b.client, &b.ick, 10000, 0), SERIATIM_OK);
    drive_both(&a, &b);
    of_a = commit_listed(&a);
    of_b = commit_listed(&b);
    assert_true((of_a == 10000 && of_b == 0) || (of_a == 0 && of_b == 10000));
    ick_leave(&a);
    ick_leave(&b);
    free(all);
    free(names);
}

/* One script of a reserve of 10 members. The caller frees the answer. */
static redisReply *reserve_script(const char *token, const char *backwash)
{
    return redis("EVAL %b 8 " ICK_SET "about " ICK_SET "pset " ICK_SET "again " ICK_SET "held " ICK_SET
                 "tokens " ICK_SET "ends " ICK_SET "guard " ICK_SET "cset:consumer consumer %s 10 0 30000000 %s %s",
                 srt_script_text_ick_reserve, sizeof srt_script_text_ick_reserve - 1, token, backwash, "");
}

/*
 * The second process has taken back all that the consumer held, and is to reserve in its next script, when a script of
 * the first one comes.
 */
static void test_r_ick_4_a_reserve_that_goes_on_ends_no_later_one_of_its_name(void **state)
{
    ick_user u = ick_join();
    seriatim_ick_member *all = calloc(1000, sizeof *all);
    char(*names)[12] = calloc(1000, sizeof *names);
    redisReply *old, *later, *reply;
    (void)state;
    add_numbers(&u, all, names, 1000);
    ick_begin(&u);
    ick_finish(&u, seriatim_ick_reserve(u.client, &u.ick, 1000, 0));
    old = redis("HGET " ICK_SET "tokens consumer");
    later = reserve_script("", "1");
    assert_string_equal(later->element[1]->str, "2");
    assert_int_equal(number("EXISTS " ICK_SET "cset:consumer"), 0);
    reply = reserve_script(old->str, "0");
    assert_string_equal(reply->element[0]->str, "");
    freeReplyObject(reply);
    reply = reserve_script(later->element[0]->str, "1");
    assert_string_equal(reply->element[0]->str, later->element[0]->str);
    assert_string_equal(reply->element[1]->str, "0");
    assert_int_equal(reply->elements, 3 + 2 * 10);
    freeReplyObject(reply);
    freeReplyObject(later);
    freeReplyObject(old);
    ick_leave(&u);
    free(all);
    free(names);
}

/* Between the scripts of a reserve that takes back first, the consumer has a token and an end, and no members. */
static void test_r_ick_15_a_check_beside_a_large_reserve_finds_and_changes_nothing(void **state)
{
    ick_user u = ick_join();
    fixture f = open_queue(1, "merge");
    seriatim_ick_member *all = calloc(1000, sizeof *all);
    char(*names)[12] = calloc(1000, sizeof *names);
    redisReply *first, *reply;
    (void)state;
    add_numbers(&u, all, names, 1000);
    ick_begin(&u);
    ick_finish(&u, seriatim_ick_reserve(u.client, &u.ick, 1000, 0));
    first = reserve_script("", "1");
    assert_string_equal(first->element[1]->str, "2");
    assert_int_equal(number("EXISTS " ICK_SET "cset:consumer"), 0);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "");
    reply = reserve_script(first->element[0]->str, "1");
    assert_int_equal(reply->elements, 3 + 2 * 10);
    freeReplyObject(reply);
    freeReplyObject(first);
    close_queue(&f);
    ick_leave(&u);
    free(all);
    free(names);
}

/* A repair that has listed the key of what a consumer holds comes to it when a reserve has taken all of it back. */
static void test_r_ick_15_a_repair_of_a_key_that_has_gone_leaves_the_reserve_its_token(void **state)
{
    ick_user u = ick_join();
    redisReply *reply;
    (void)state;
    ick_add(&u, "a", 1);
    REDIS("HSET " ICK_SET "about token 5");
    REDIS("HSET " ICK_SET "tokens consumer 5");
    REDIS("ZADD " ICK_SET "ends 9000000000000000 consumer");
    reply = redis("EVAL %b 8 " ICK_SET "about " ICK_SET "pset " ICK_SET "again " ICK_SET "held " ICK_SET
                  "tokens " ICK_SET "ends " ICK_SET "guard " ICK_SET "cset:consumer cset 0 1 consumer",
                  srt_script_text_check_ick, sizeof srt_script_text_check_ick - 1);
    assert_int_equal(reply->element[2]->elements, 0);
    freeReplyObject(reply);
    assert_int_equal(number("HLEN " ICK_SET "tokens"), 1);
    assert_int_equal(number("ZCARD " ICK_SET "ends"), 1);
    ick_leave(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_ick_8_large_calls_go_in_slices),
        cmocka_unit_test(test_r_ick_8_slices_of_large_members_have_fewer),
        cmocka_unit_test(test_r_ick_9_a_commit_of_a_trip_has_the_token_that_it_was_made_with),
        cmocka_unit_test(test_r_ick_9_a_commit_behind_a_reserve_ends_no_later_change),
        cmocka_unit_test(test_r_ick_9_later_calls_wait_for_a_reserve_of_several_scripts),
        cmocka_unit_test(test_r_ick_9_calls_keep_their_order_when_redis_forgets_the_scripts),
        cmocka_unit_test(test_r_ick_4_two_processes_of_one_name_both_end_a_large_reserve),
        cmocka_unit_test(test_r_ick_4_a_reserve_that_goes_on_ends_no_later_one_of_its_name),
        cmocka_unit_test(test_r_ick_15_a_check_beside_a_large_reserve_finds_and_changes_nothing),
        cmocka_unit_test(test_r_ick_15_a_repair_of_a_key_that_has_gone_leaves_the_reserve_its_token),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

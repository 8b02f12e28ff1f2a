/* test_ick_walk.c - two-phase commit sets: random steps of several consumers, compared with a model. */
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
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "operators.h"
#include "ick_fixture.h"

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
static void pass_time(model *m, const ick_user *users, int count)
{
    int i = (int)pick(m, (unsigned long)count);
    if (pick(m, 8) == 0)
        REDIS("EVAL %s 1 " ICK_SET "ends %b",
              "if redis.call('ZSCORE', KEYS[1], ARGV[1]) then redis.call('ZADD', KEYS[1], 1, ARGV[1]) end return 0",
              users[i].ick.consumer.data, users[i].ick.consumer.len);
}

static void step_add(model *m, ick_user *u, long step)
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

static void reserve_noted(model *m, ick_user *u, batch *b, int64_t n, long step)
{
    const seriatim_ick_result *r;
    ick_begin(u);
    r = ick_finish(u, seriatim_ick_reserve(u->client, &u->ick, n, pick(m, 5) == 0));
    note_given(m, r, step);
    keep_batch(b, r, step);
}

static void step_reserve(model *m, ick_user *u, batch *b, long step)
{
    reserve_noted(m, u, b, (int64_t)pick(m, 6), step);
}

/* The consumer has processed what the reserve gave, whatever becomes of the commit. */
static void note_done(model *m, const batch *b)
{
    seriatim_ick_member list[MEMBERS];
    size_t i, count = ick_words(b->names, list);
    for (i = 0; i < count; i++) {
        long *done = &m->done[atoi(list[i].data + 1)];
        *done = *done > b->step ? *done : b->step;
    }
}

static void step_exchange(model *m, ick_user *u, batch *b, long step)
{
    seriatim_ick_member list[MEMBERS];
    size_t count = ick_words(b->names, list);
    const seriatim_ick_result *r;
    note_done(m, b);
    u->ick.token = b->token;
    ick_begin(u);
    r = ick_finish(u, seriatim_ick_exchange(u->client, &u->ick, (int64_t)pick(m, 6), pick(m, 5) == 0, list, count));
    note_given(m, r, step);
    keep_batch(b, r, step);
}

static void step_commit(model *m, ick_user *u, batch *b)
{
    note_done(m, b);
    u->ick.token = b->token;
    ick_commit(u, b->names);
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
    const char *argv[6 + MEMBERS] = {"EVAL", first_gone, "3", ICK_SET "pset", ICK_SET "again", ICK_SET "held"};
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
static void is_sound(const ick_user *u, long step)
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
    ick_user last = ick_join_as("K", "last", 30);
    batch b;
    REDIS("EVAL %s 1 " ICK_SET "ends", "for _, who in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
                                       "redis.call('ZADD', KEYS[1], 1, who) end return 0");
    do {
        reserve_noted(m, &last, &b, MEMBERS, ++step);
        step_commit(m, &last, &b);
    } while (ick_stats(&last).total.size > 0);
    none_is_forgotten(m, step);
    assert_int_equal(number("DBSIZE"), 1);
    ick_leave(&last);
}

/*
 * Consumers 0 and 1 have one name: each is the other's zombie, which goes on with a batch that was given to it long
 * ago.
 */
static void walk(unsigned long seed, int consumers, long steps)
{
    static const char *const names[CONSUMERS] = {"one", "one", "two", "three"};
    ick_user users[CONSUMERS];
    batch batches[CONSUMERS];
    model m;
    long step;
    int i;
    REDIS("FLUSHALL");
    memset(&m, 0, sizeof m);
    memset(batches, 0, sizeof batches);
    m.random = seed;
    for (i = 0; i < consumers; i++)
        users[i] = ick_join_as("K", names[i], 30);
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
        ick_leave(&users[i]);
}

static void test_r_ick_13_every_add_is_followed_by_a_reserve_that_gives_the_member(void **state)
{
    const char *steps = getenv("ICK_STEPS"), *seed = getenv("ICK_SEED");
    long all = steps ? atol(steps) : getenv("SOAK") ? STEPS_OF_A_SOAK : STEPS;
    unsigned long first = seed ? strtoul(seed, NULL, 10) : getenv("SOAK") ? (unsigned long)time(NULL) : 1;
    int consumers;
    (void)state;
    print_message("ICK_SEED=%lu\n", first);
    for (consumers = 2; consumers <= CONSUMERS; consumers++)
        walk(first + (unsigned long)consumers, consumers, all / (CONSUMERS - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_ick_13_every_add_is_followed_by_a_reserve_that_gives_the_member),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

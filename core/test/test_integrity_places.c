/*
 * test_integrity_places.c - the check finds what lies in a shard to which it does not belong, and a queue without a
 * layout, on a real redis-server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "reshard_fixture.h"

#define SHARDS 3

/* An id that lies in shard 0 of 3. `other`: of 4 it lies in another one. */
static const char *home_id(const char *name, int other)
{
    static char ids[8][32];
    static size_t next;
    char *id = ids[next++ % 8];
    int i = 0;
    do
        snprintf(id, sizeof ids[0], "%s%d", name, i++);
    while (seriatim_shard_of(id, strlen(id), SHARDS) != 0 || (seriatim_shard_of(id, strlen(id), 4) != 0) != other);
    return id;
}

/* All keys of shard 0 become those of shard `to`, as if its ids had been put there. */
static void carry(unsigned to)
{
    static const char move_keys[] =
        "local from, to = '{Q/0}', ARGV[1] for _, key in ipairs(redis.call('KEYS', '*{Q/0}*')) do "
        "local at = string.find(key, from, 1, true) "
        "redis.call('RENAME', key, string.sub(key, 1, at - 1) .. to .. string.sub(key, at + #from)) end return 0";
    char text[16];
    snprintf(text, sizeof text, "{Q/%u}", to);
    REDIS("EVAL %s 0 %s", move_keys, text);
}

static void store_waiting(fixture *f, const char *id)
{
    push(f, id, "1", none);
}

static void store_running(fixture *f, const char *id)
{
    push(f, id, "1", none);
    acquire(f, "n1");
    assert_int_equal(claim(f, "1", NULL), 1);
}

static void store_dead(fixture *f, const char *id)
{
    kill_one(f, id, "1");
}

static void store_scheduled(fixture *f, const char *id)
{
    schedule_one(f, id, "1", 3600);
}

/* Of an id that has nothing else. */
static void store_score(fixture *f, const char *id)
{
    static const double score[] = {7, 8e15};
    schedule_one(f, id, "1", 3600);
    assert_int_equal(act_on(f, SERIATIM_DELETE, id), 1);
    REDIS("HSET " PREFIX "scores %s %b", id, score, sizeof score);
    REDIS("ZADD " PREFIX "scoreends 8000000000000000 %s", id);
    REDIS("PEXPIRE " PREFIX "scores 9000000000");
    REDIS("PEXPIRE " PREFIX "scoreends 9000000000");
}

static void store_history(fixture *f, const char *id)
{
    REDIS("HSET seriatim:{Q}:settings history_per_id 20");
    push(f, id, "1", none);
    assert_int_equal(act_on(f, SERIATIM_DELETE, id), 1);
    assert_int_equal(count_of("EXISTS", "jobs"), 0);
    assert_int_equal(count_of("ZCARD", "traced"), 1);
}

static void store_notice(fixture *f, const char *id)
{
    char run[64];
    push(f, id, "1", none);
    acquire(f, "n1");
    assert_int_equal(claim(f, "1", run), 1);
    freeReplyObject(SCRIPT(settle, f->lease, "1", "merge", "0", "fail+", id, run, "60000000", "boom", "0", "drop"));
    assert_int_equal(count_of("EXISTS", "jobs"), 0);
    assert_int_equal(count_of("HLEN", "notices"), 1);
}

/* The check names the id and both shards, and a repair leaves it as it is. */
static void assert_elsewhere(const fixture *f, const char *what, const char *id, unsigned shard, const char *home)
{
    int repair;
    for (repair = 0; repair < 2; repair++) {
        const seriatim_finding *list;
        size_t count;
        done(f, seriatim_check_begin(f->client, f->queue, repair));
        list = seriatim_check_result(f->client, &count);
        if (count != 1)
            fail_msg("%s: %lu findings, the first %s: %s", what, (unsigned long)count, count ? list[0].kind : "none",
                     count ? list[0].detail : "");
        assert_string_equal(list[0].kind, "elsewhere");
        assert_int_equal(list[0].id_len, strlen(id));
        assert_memory_equal(list[0].id, id, strlen(id));
        assert_int_equal(list[0].shard, shard);
        assert_int_equal(list[0].repaired, 0);
        if (!strstr(list[0].detail, home) || strncmp(list[0].detail, what, strlen(what)) != 0)
            fail_msg("%s: \"%s\"", what, list[0].detail);
    }
}

static void test_an_id_in_a_wrong_shard_is_found(void **state)
{
    static const struct {
        void (*store)(fixture *f, const char *id);
        const char *what;
    } rows[] = {
        {store_waiting, "record in jobs"}, {store_running, "record in jobs"},
        {store_dead, "record in dead"},    {store_scheduled, "scheduled payloads"},
        {store_score, "remembered score"}, {store_history, "history"},
        {store_notice, "notice"},
    };
    size_t i;
    (void)state;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f = open_queue(SHARDS, "merge");
        const char *id = home_id("a", 0);
        rows[i].store(&f, id);
        if (kinds_found(&f, f.queue, 0)[0])
            fail_msg("%s at home: %s", rows[i].what, kinds_found(&f, f.queue, 0));
        carry(2);
        assert_elsewhere(&f, rows[i].what, id, 2, "belongs to shard 0,");
        seriatim_link_free(f.link);
    }
}

/* While ids move, an id may be in its old or in its new shard, and in no other. */
static void test_while_ids_move_two_shards_are_right(void **state)
{
    fixture f = open_queue(SHARDS, "merge");
    const char *id = home_id("b", 1);
    unsigned home = seriatim_shard_of(id, strlen(id), 4), wrong = home == 1 ? 2 : 1;
    char where[32];
    move m;
    (void)state;
    push(&f, id, "1", none);
    move_begin(&m, 4);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    move_source(&m, 0);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    assert_true(is_stored(home, id));
    REDIS("RENAME seriatim:{Q/%u}:jobs seriatim:{Q/%u}:jobs", home, wrong);
    REDIS("RENAME seriatim:{Q/%u}:ready seriatim:{Q/%u}:ready", home, wrong);
    snprintf(where, sizeof where, "belongs to shard %u,", home);
    assert_elsewhere(&f, "record in jobs", id, wrong, where);
    seriatim_link_free(f.link);
}

/* What the finding says: another number of shards brings the id home, also into the old number again. */
static void test_an_id_in_a_wrong_shard_moves_home(void **state)
{
    fixture f = open_queue(SHARDS, "merge");
    const char *id = home_id("c", 1);
    move m;
    (void)state;
    push(&f, id, "1", none);
    carry(2);
    move_begin(&m, 4);
    move_all(&m);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    move_begin(&m, SHARDS);
    move_all(&m);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    assert_true(is_stored(0, id));
    close_queue(&f);
}

static void test_a_queue_whose_layout_is_gone_is_found(void **state)
{
    fixture f = open_queue(SHARDS, "merge");
    size_t unknown = add_queue(f.client, "Unknown", 7, SHARDS, "merge"), count;
    const seriatim_finding *list;
    (void)state;
    push(&f, home_id("d", 0), "1", none);
    assert_string_equal(kinds_found(&f, unknown, 0), "");
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    REDIS("DEL seriatim:{Q}:layout");
    done(&f, seriatim_check_begin(f.client, f.queue, 1));
    list = seriatim_check_result(f.client, &count);
    assert_int_equal(count, 1);
    assert_string_equal(list[0].kind, "layout");
    assert_int_equal(list[0].id_len, 1);
    assert_memory_equal(list[0].id, "Q", 1);
    assert_int_equal(list[0].repaired, 0);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "layout");
    push(&f, home_id("d", 0), "2", none); /* the application makes it anew */
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, home_id("d", 0)), "1,2");
    REDIS("DEL seriatim:{Q}:layout seriatim:{Q/0}:jobs seriatim:{Q/0}:ready"); /* as of a queue that was deleted */
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    seriatim_link_free(f.link);
}

/* Redis gives the keys in an order of its own: those of shards before and behind the layouts of their queues. */
static void test_each_queue_whose_layout_cannot_be_read_is_named(void **state)
{
    enum { QUEUES = 20 };
    fixture f = open_queue(1, "merge");
    const seriatim_finding *list;
    size_t count, i;
    int seen[QUEUES] = {0};
    (void)state;
    for (i = 0; i < QUEUES; i++) {
        REDIS("SET seriatim:{queue%d}:layout nonsense", (int)i);
        REDIS("SET seriatim:{queue%d/0}:jobs x", (int)i);
        REDIS("SET seriatim:{queue%d/1}:jobs x", (int)i);
    }
    done(&f, seriatim_check_begin(f.client, SERIATIM_NO_QUEUE, 0));
    list = seriatim_check_result(f.client, &count);
    assert_int_equal(count, QUEUES);
    for (i = 0; i < count; i++) {
        size_t number = (size_t)atoi(list[i].id + strlen("queue"));
        assert_string_equal(list[i].kind, "layout");
        assert_true(number < QUEUES);
        assert_int_equal(seen[number]++, 0);
    }
    seriatim_link_free(f.link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_id_in_a_wrong_shard_is_found),
        cmocka_unit_test(test_while_ids_move_two_shards_are_right),
        cmocka_unit_test(test_an_id_in_a_wrong_shard_moves_home),
        cmocka_unit_test(test_a_queue_whose_layout_is_gone_is_found),
        cmocka_unit_test(test_each_queue_whose_layout_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_reshard_bounds.c - one call of a move reads, writes and frees a bounded part of what is stored of an id. */
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

#define NOTICES 24
#define NOTICE_BYTES 200000
#define MANY 100

/* A notice that nobody tells yet, as notify.lua writes it; what follows the id is not read by a move. */
static void write_notice(const char *id, unsigned char number)
{
    const char key[8] = {0x40, 0, 0, 0, 0, 0, 0, (char)number};
    char entry[9] = {0}, *notice = calloc(1, NOTICE_BYTES);
    assert_non_null(notice);
    notice[0] = (char)strlen(id);
    strcpy(notice + 4, id);
    memcpy(entry + 1, key, sizeof key);
    freeReplyObject(redis("HSET seriatim:{Q/0}:notices %b %b", key, sizeof key, notice, (size_t)NOTICE_BYTES));
    freeReplyObject(redis("ZADD seriatim:{Q/0}:tellers 0 %b", entry, sizeof entry));
    free(notice);
}

static long long number_in(const char *command, unsigned shard, const char *key)
{
    redisReply *reply = redis("%s seriatim:{Q/%u}:%s", command, shard, key);
    long long count = reply->integer;
    freeReplyObject(reply);
    return count;
}

static size_t bytes_of(const redisReply *reply)
{
    size_t i, bytes = reply->type == REDIS_REPLY_STRING ? reply->len : 0;
    for (i = 0; i < reply->elements; i++)
        bytes += bytes_of(reply->element[i]);
    return bytes;
}

/* Redis keeps few entries of a sorted set so that ZSCAN gives all of them at once. */
static void test_r_reshard_8_notices_are_listed_and_leave_some_a_call(void **state)
{
    fixture f = open_queue(1, "list");
    char id[32], cursor[64] = "0";
    size_t listed = 0, passes = 0, last = 0;
    redisReply *batch;
    shard_call call;
    move m;
    int i;
    (void)state;
    push(&f, departing_id(id, "noticed", 0), "1", (push_options){0, 0, 0, NULL});
    for (i = 0; i < NOTICES; i++)
        write_notice(id, (unsigned char)i);
    move_begin(&m, 2);
    CALL(&call, 0, depart, m.generation);
    do {
        static char extras[NOTICES][16];
        redisReply *reply = ON_SHARD(0, foreign, m.generation, "notices", cursor);
        size_t k;
        snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
        assert_true(reply->elements - 2 <= 2 * 6);
        for (k = 2; k < reply->elements; k += 2, last++) {
            assert_string_equal(reply->element[k]->str, id);
            call_text(&call, id);
            memcpy(extras[last], reply->element[k + 1]->str, reply->element[k + 1]->len);
            call_bytes(&call, extras[last], reply->element[k + 1]->len);
        }
        listed += (reply->elements - 2) / 2;
        freeReplyObject(reply);
    } while (strcmp(cursor, "0") != 0);
    assert_int_equal(listed, NOTICES);
    batch = call_send(&call, 0);
    assert_true(bytes_of(batch) < 262144 + NOTICE_BYTES + 4096);
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    while (move_source(&m, 0) > 0)
        passes++;
    assert_true(passes > 1);
    assert_int_equal(number_in("HLEN", 0, "notices"), 0);
    assert_int_equal(number_in("HLEN", 1, "notices"), NOTICES);
    assert_int_equal(number_in("ZCARD", 1, "tellers"), NOTICES);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_r_reshard_8_scheduled_payloads_that_are_large_arrive_in_several_calls(void **state)
{
    enum { PAYLOADS = 5, BYTES = 700000 };
    fixture f = open_queue(1, "list");
    char id[32], *before, *after, *payload = malloc(BYTES);
    redisReply *batch;
    move m;
    int i;
    (void)state;
    assert_non_null(payload);
    departing_id(id, "scheduled", 0);
    for (i = 0; i < PAYLOADS; i++) {
        memset(payload, 'a' + i, BYTES);
        done(&f, seriatim_push_begin(f.client, f.queue));
        add_scheduled(&f, id, payload, BYTES, 3600 + i);
        done(&f, seriatim_push_send(f.client));
    }
    before = stored(0, id);
    move_begin(&m, 2);
    batch = depart(&m, 0, id);
    assert_true(bytes_of(batch) < 4096);
    m.until = 1000; /* only counts */
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    assert_int_equal(m.kills,
                     2 * PAYLOADS + (PAYLOADS + 1) / 2 + 1); /* slices, two payloads of 700 kB an arrival, the end */
    after = stored(1, id);
    assert_string_equal(after, before);
    free(after);
    free(before);
    free(payload);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* Each scheduled payload is removed from three keys of the source, and written to three of the destination. */
static void test_r_reshard_8_many_scheduled_payloads_leave_in_several_batches(void **state)
{
    enum { IDS = 40, EACH = 16, A_BATCH = 32 }; /* ids of a batch of 500 payloads */
    fixture f = open_queue(1, "list");
    static char words[IDS * 32];
    redisReply *batch;
    move m;
    int i, k;
    (void)state;
    words[0] = '\0';
    for (i = 0; i < IDS; i++) {
        char id[32], payload[16];
        departing_id(id, "few", i);
        done(&f, seriatim_push_begin(f.client, f.queue));
        for (k = 0; k < EACH; k++) {
            snprintf(payload, sizeof payload, "p%d", k);
            add_scheduled(&f, id, payload, strlen(payload), 3600 + k);
        }
        done(&f, seriatim_push_send(f.client));
        strcat(strcat(words, id), " ");
    }
    move_begin(&m, 2);
    batch = depart(&m, 0, words);
    assert_int_equal(batch->elements, 3 + 3 * A_BATCH);
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    assert_int_equal(number_in("ZCARD", 1, "scheduled"), A_BATCH * EACH);
    assert_int_equal(number_in("ZCARD", 0, "scheduled"), (IDS - A_BATCH) * EACH);
    while (move_source(&m, 0) > 0)
        continue;
    assert_int_equal(number_in("ZCARD", 1, "scheduled"), IDS * EACH);
    assert_int_equal(number_in("ZCARD", 0, "scheduled"), 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* Does a batch hold these ids, and no others? */
static int holds(const redisReply *batch, const char *one, const char *two)
{
    if (batch->elements != (two ? 9u : 6u) || strcmp(batch->element[3]->str, one) != 0)
        return 0;
    return !two || strcmp(batch->element[6]->str, two) == 0;
}

/* Else others would stand still until its payloads have been copied. */
static void leaves_alone(int is_scheduled)
{
    enum { PAYLOADS = 300 };
    fixture f = open_queue(1, "list");
    static const char *const names[] = {"a", "many", "b", "c"};
    char ids[4][32], words[160], payload[16];
    redisReply *batch;
    move m;
    int i;
    for (i = 0; i < 4; i++)
        push(&f, departing_id(ids[i], names[i], 0), "1", (push_options){0, 0, 0, NULL});
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < PAYLOADS; i++) {
        snprintf(payload, sizeof payload, "p%d", i);
        if (is_scheduled)
            add_scheduled(&f, ids[1], payload, strlen(payload), 3600);
        else
            add(&f, ids[1], strlen(ids[1]), payload, (push_options){0, 0, 0, NULL});
    }
    done(&f, seriatim_push_send(f.client));
    move_begin(&m, 2);
    snprintf(words, sizeof words, "%s %s %s", ids[0], ids[1], ids[2]);
    batch = depart(&m, 0, words);
    assert_true(holds(batch, ids[0], ids[2]));
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    snprintf(words, sizeof words, "%s %s", ids[1], ids[3]);
    batch = depart(&m, 0, words);
    assert_true(holds(batch, ids[1], NULL));
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    assert_int_equal(move_source(&m, 0), 1);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_r_reshard_8_an_id_with_many_payloads_leaves_alone(void **state)
{
    (void)state;
    leaves_alone(0);
    leaves_alone(1);
}

/* To free one payload of 1 MiB takes some 100 microseconds. */
static void test_r_reshard_8_payloads_of_many_ids_are_freed_in_several_calls(void **state)
{
    fixture f = open_queue(1, "list");
    static char words[MANY * 32];
    redisReply *batch;
    size_t taken;
    move m;
    int i;
    (void)state;
    for (i = 0; i < MANY; i++) {
        char id[32];
        push(&f, departing_id(id, "large", i), large('x'), (push_options){0, 0, 0, NULL});
        strcat(strcat(words, id), " ");
    }
    move_begin(&m, 2);
    batch = depart(&m, 0, words);
    taken = (batch->elements - 3) / 3;
    assert_in_range(taken, 262144 / 5200, 262144 / 5000);
    m.until = 1000; /* only counts */
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    assert_int_equal(m.kills, 2 * taken + 1 + 2);
    while (move_source(&m, 0) > 0)
        continue;
    assert_int_equal(number_in("HLEN", 1, "jobs"), MANY);
    assert_int_equal(number_in("EXISTS", 0, "leaving"), 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_reshard_8_notices_are_listed_and_leave_some_a_call),
        cmocka_unit_test(test_r_reshard_8_scheduled_payloads_that_are_large_arrive_in_several_calls),
        cmocka_unit_test(test_r_reshard_8_many_scheduled_payloads_leave_in_several_batches),
        cmocka_unit_test(test_r_reshard_8_an_id_with_many_payloads_leaves_alone),
        cmocka_unit_test(test_r_reshard_8_payloads_of_many_ids_are_freed_in_several_calls),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

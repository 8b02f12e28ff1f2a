/* test_reshard_outbox.c - jobs of an outbox whose ids move from shard to shard, against a real redis-server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "live_node.h"
#include "reshard_fixture.h"

#define ROWS 40
#define IDS 10

/* The rows of an outbox: row i, from 1, is a job of id i % IDS, whose payload is i. */
static const char *id_of(int row)
{
    static char ids[IDS][16];
    char *id = ids[row % IDS];
    snprintf(id, sizeof ids[0], "id%d", row % IDS);
    return id;
}

static void begin_rows(const fixture *f, int from, int to)
{
    int row;
    done(f, seriatim_push_begin(f->client, f->queue));
    assert_int_equal(seriatim_push_outbox(f->client, "o"), SERIATIM_OK);
    for (row = from; row <= to; row++) {
        seriatim_job job;
        char payload[16];
        snprintf(payload, sizeof payload, "%d", row);
        seriatim_job_init(&job);
        job.id = id_of(row);
        job.id_len = strlen(job.id);
        job.payload = payload;
        job.payload_len = strlen(payload);
        job.number = row;
        done(f, seriatim_push_job(f->client, &job));
    }
    assert_int_equal(seriatim_push_send(f->client), SERIATIM_OK);
}

static seriatim_push_counts push_rows(const fixture *f, int from, int to)
{
    seriatim_push_counts counts;
    begin_rows(f, from, to);
    done(f, SERIATIM_OK);
    counts = seriatim_push_result(f->client);
    assert_int_equal(counts.added + counts.folded + counts.repeated + counts.refused, to - from + 1);
    return counts;
}

/* Each row up to `last` is there once, in its order. */
static void assert_rows(const fixture *f, int last)
{
    char expected[256];
    int id, row;
    for (id = 0; id < IDS; id++) {
        expected[0] = '\0';
        for (row = id ? id : IDS; row <= last; row += IDS)
            snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s%d", expected[0] ? "," : "",
                     row);
        assert_string_equal(payloads(f, SERIATIM_FETCH, id_of(id)), expected[0] ? expected : "-");
    }
}

static long long numbers_in(unsigned shard)
{
    char command[64];
    snprintf(command, sizeof command, "ZCARD seriatim:{Q/%u}:outbox:o", shard);
    return number(command);
}

static void move_to(unsigned shards)
{
    move m;
    move_begin(&m, shards);
    move_all(&m);
}

/* A relay that has died before it deleted its rows pushes them again, at any time of a move. */
static void test_r_outbox_12_a_job_is_written_once_though_its_id_moves(void **state)
{
    static const unsigned counts[] = {5, 2, 7};
    fixture f = open_queue(3, "list");
    unsigned source;
    size_t i;
    (void)state;
    push_rows(&f, 1, ROWS);
    assert_rows(&f, ROWS);
    for (i = 0; i < sizeof counts / sizeof *counts; i++) {
        unsigned old = i ? counts[i - 1] : 3;
        move m;
        move_begin(&m, counts[i]);
        assert_int_equal(push_rows(&f, 1, ROWS).repeated, ROWS);
        for (source = 0; source < old; source++) {
            move_source(&m, source);
            assert_int_equal(push_rows(&f, 1, ROWS).repeated, ROWS);
        }
        move_all(&m);
        assert_int_equal(push_rows(&f, 1, ROWS).repeated, ROWS);
        assert_rows(&f, ROWS);
        assert_string_equal(kinds_found(&f, f.queue, 0), "");
    }
    close_queue(&f);
}

/* The numbers of an id move also if nothing else is stored of it. */
static void test_numbers_of_ids_that_have_nothing_move(void **state)
{
    fixture f = open_queue(3, "list");
    int id;
    move m;
    (void)state;
    push_rows(&f, 1, ROWS);
    for (id = 0; id < IDS; id++)
        assert_int_equal(act_on(&f, SERIATIM_DELETE, id_of(id)), 1);
    move_begin(&m, 7);
    move_source(&m, 0);
    assert_int_equal(push_rows(&f, 1, ROWS).repeated, ROWS);
    move_all(&m);
    assert_int_equal(push_rows(&f, 1, ROWS).repeated, ROWS);
    assert_rows(&f, 0);
    close_queue(&f);
}

static void test_rows_that_are_new_while_ids_move_are_written_once(void **state)
{
    fixture f = open_queue(3, "list");
    unsigned source;
    move m;
    (void)state;
    push_rows(&f, 1, 5); /* the other ids are in no shard yet */
    move_begin(&m, 4);
    assert_int_equal(push_rows(&f, 3, 14).repeated, 3);
    for (source = 0; source < 3; source++) {
        int last = 14 + 8 * (int)source;
        move_source(&m, source);
        assert_int_equal(push_rows(&f, last - 1, last + 8).repeated, 2);
        assert_int_equal(push_rows(&f, last - 1, last + 8).repeated, 10);
    }
    assert_rows(&f, 38);
    move_all(&m);
    assert_int_equal(push_rows(&f, 29, 38).repeated, 10);
    assert_rows(&f, 38);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    close_queue(&f);
}

static void test_a_push_of_an_outbox_waits_while_its_id_is_on_its_way(void **state)
{
    fixture f = open_queue(3, "list");
    redisReply *batch;
    char all[128] = "";
    int id, step;
    move m;
    (void)state;
    push_rows(&f, 1, 20);
    move_begin(&m, 7);
    for (id = 0; id < IDS; id++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s ", id_of(id));
    batch = depart(&m, 0, all);
    assert_string_not_equal(batch->element[0]->str, "0");
    begin_rows(&f, 11, 30);
    for (step = 0; step < 40; step++) {
        assert_int_equal(seriatim_link_step(f.link), SERIATIM_AGAIN);
        pause_ms(1);
    }
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    done(&f, SERIATIM_OK);
    assert_int_equal(seriatim_push_result(f.client).repeated, 10);
    assert_rows(&f, 30);
    move_all(&m);
    assert_rows(&f, 30);
    close_queue(&f);
}

/* Rows that are deleted have no numbers in any shard. That they were taken is known also where no push came since. */
static void test_r_outbox_13_the_low_water_mark_moves(void **state)
{
    fixture f = open_queue(3, "list");
    long long left = 0;
    unsigned shard;
    (void)state;
    push_rows(&f, 1, 20);
    push_rows(&f, 21, ROWS);
    for (shard = 0; shard < 3; shard++)
        left += numbers_in(shard);
    assert_int_equal(left, ROWS - 20);
    move_to(7);
    assert_int_equal(push_rows(&f, 1, 20).repeated, 20);
    move_to(2);
    assert_int_equal(push_rows(&f, 1, ROWS).repeated, ROWS);
    assert_rows(&f, ROWS);
    close_queue(&f);
}

/* As many as the last pushes had, however many there were; an arrival does not bring back what is below the mark. */
static void test_a_shard_keeps_few_numbers(void **state)
{
    fixture f = open_queue(1, "list");
    int page;
    (void)state;
    for (page = 0; page < 8; page++)
        push_rows(&f, 5 * page + 1, 5 * page + 5);
    assert_int_equal(numbers_in(0), 5);
    assert_int_equal(number("HLEN seriatim:{Q/0}:outboxes"), 1);
    close_queue(&f);
}

static void test_a_mover_that_dies_at_any_call_keeps_the_numbers(void **state)
{
    size_t until;
    int alive = 0, id;
    (void)state;
    for (until = 1; !alive; until++) {
        fixture f = open_queue(3, "list");
        redisReply *batch, *listed;
        shard_call call;
        size_t i;
        move m;
        push_rows(&f, 1, ROWS);
        for (id = 0; id < IDS; id += 2)
            act_on(&f, SERIATIM_DELETE, id_of(id));
        move_begin(&m, 7);
        listed = ON_SHARD(0, foreign, m.generation, "outboxes", "0");
        assert_true(listed->elements > 4);
        CALL(&call, 0, depart, m.generation);
        for (i = 2; i < listed->elements; i++)
            call_bytes(&call, listed->element[i]->str, listed->element[i]->len);
        batch = call_send(&call, 0);
        m.until = until;
        alive = bring(&m, 0, batch);
        freeReplyObject(batch);
        freeReplyObject(listed);
        m.until = 0;
        batch = depart(&m, 0, "");
        assert_true(bring(&m, 0, batch));
        freeReplyObject(batch);
        assert_int_equal(push_rows(&f, 1, ROWS).repeated, ROWS);
        move_all(&m);
        assert_int_equal(push_rows(&f, 1, ROWS).repeated, ROWS);
        assert_string_equal(kinds_found(&f, f.queue, 0), "");
        close_queue(&f);
    }
    assert_true(until > 4);
}

/* Ids with nothing to run; late: rows that were deleted come once more. */
static void test_a_server_moves_numbers_and_marks(void **state)
{
    static const unsigned counts[] = {5, 2};
    fixture f = open_queue(3, "list");
    live_node n;
    size_t i;
    int id;
    move m;
    (void)state;
    push_rows(&f, 1, 20);
    push_rows(&f, 21, ROWS);
    for (id = 0; id < IDS; id++)
        act_on(&f, id % 2 ? SERIATIM_DELETE : SERIATIM_PARK, id_of(id));
    live_start(&n, "mover", 3, 0, NULL);
    for (i = 0; i < sizeof counts / sizeof *counts; i++) {
        move_begin(&m, counts[i]);
        live_move(&n, 1, counts[i]);
        assert_int_equal(push_rows(&f, 1, 20).repeated, 20);
        assert_int_equal(push_rows(&f, 21, ROWS).repeated, ROWS - 20);
    }
    live_stop(&n);
    for (id = 0; id < IDS; id += 2)
        assert_string_not_equal(payloads(&f, SERIATIM_FETCH, id_of(id)), "-");
    seriatim_link_free(f.link);
}

/* An earlier version kept the last number of each shard as a string. */
static void test_numbers_of_an_earlier_version_stand_until_their_rows_are_deleted(void **state)
{
    fixture f = open_queue(1, "list");
    (void)state;
    REDIS("SET seriatim:{Q/0}:outbox:o 10");
    assert_int_equal(push_rows(&f, 8, 12).repeated, 3);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, id_of(11)), "11");
    assert_int_equal(number("STRLEN seriatim:{Q/0}:outbox:o"), 2);
    assert_int_equal(push_rows(&f, 8, 12).repeated, 5);
    assert_int_equal(push_rows(&f, 13, 15).repeated, 0);
    assert_int_equal(numbers_in(0), 3);
    assert_int_equal(push_rows(&f, 8, 15).repeated, 8);
    assert_int_equal(push_rows(&f, 16, 16).repeated, 0);
    assert_int_equal(numbers_in(0), 1);
    close_queue(&f);
}

static void test_numbers_of_an_earlier_version_do_not_move(void **state)
{
    fixture f = open_queue(3, "list");
    unsigned shard;
    move m;
    (void)state;
    push_rows(&f, 1, 10);
    for (shard = 0; shard < 3; shard++) {
        REDIS("DEL seriatim:{Q/%u}:outbox:o seriatim:{Q/%u}:outboxes", shard, shard);
        REDIS("SET seriatim:{Q/%u}:outbox:o 10", shard);
    }
    move_begin(&m, 7);
    begin_rows(&f, 8, 12);
    assert_int_equal(drive(f.link), SERIATIM_SERVER);
    assert_non_null(strstr(seriatim_client_error(f.client)->message, "earlier version"));
    assert_int_equal(push_rows(&f, 11, 12).repeated, 0);
    assert_rows(&f, 12);
    seriatim_link_free(f.link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_outbox_12_a_job_is_written_once_though_its_id_moves),
        cmocka_unit_test(test_numbers_of_ids_that_have_nothing_move),
        cmocka_unit_test(test_rows_that_are_new_while_ids_move_are_written_once),
        cmocka_unit_test(test_a_push_of_an_outbox_waits_while_its_id_is_on_its_way),
        cmocka_unit_test(test_r_outbox_13_the_low_water_mark_moves),
        cmocka_unit_test(test_a_shard_keeps_few_numbers),
        cmocka_unit_test(test_a_mover_that_dies_at_any_call_keeps_the_numbers),
        cmocka_unit_test(test_a_server_moves_numbers_and_marks),
        cmocka_unit_test(test_numbers_of_an_earlier_version_stand_until_their_rows_are_deleted),
        cmocka_unit_test(test_numbers_of_an_earlier_version_do_not_move),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

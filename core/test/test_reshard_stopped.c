/* test_reshard_stopped.c - what calls say when whoever moves ids has stopped in the middle; against a real Redis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "io/link.h"
#include "io/link_state.h"
#include "reshard_fixture.h"

#define ON_ITS_WAY "timed out: the id is on its way to another shard"

/* An id of this shard of 3 that lies in another one of 4. */
static const char *leaving_from(unsigned from)
{
    static char ids[3][32];
    char *id = ids[from];
    int i = 0;
    do
        snprintf(id, sizeof ids[from], "id%d", i++);
    while (seriatim_shard_of(id, strlen(id), 3) != from || seriatim_shard_of(id, strlen(id), 4) == from);
    return id;
}

/* The batch of an id of shard 0 is open, and nobody brings it. The caller frees the batch. */
static fixture open_stopped(move *m, redisReply **batch)
{
    fixture f = open_queue(3, "merge");
    push(&f, leaving_from(0), "1", none);
    push(&f, leaving_from(2), "1", none);
    move_begin(m, 4);
    *batch = depart(m, 0, leaving_from(0));
    metrics(&f); /* the client knows the layout */
    return f;
}

static void close_stopped(fixture *f, move *m, redisReply *batch)
{
    assert_true(bring(m, 0, batch));
    freeReplyObject(batch);
    move_all(m);
    close_queue(f);
}

static const char *why(const fixture *f)
{
    return seriatim_client_error(f->client)->message;
}

static void told_that_it_is_on_its_way(const fixture *f)
{
    assert_int_equal(f->client->status, SERIATIM_TIMEOUT);
    assert_int_equal(strncmp(why(f), ON_ITS_WAY, strlen(ON_ITS_WAY)), 0);
    assert_true(f->client->waited_for_move);
}

static void test_a_call_for_an_id_says_that_it_is_on_its_way(void **state)
{
    redisReply *batch;
    move m;
    fixture f = open_stopped(&m, &batch);
    seriatim_text id = text(leaving_from(0));
    seriatim_query query;
    (void)state;
    srt_link_set_limits(f.link, 300, 15000);
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE, &id, 1), SERIATIM_OK);
    drive(f.link);
    told_that_it_is_on_its_way(&f);
    seriatim_query_init(&query, SERIATIM_FETCH);
    query.ids = &id;
    query.id_count = 1;
    assert_int_equal(seriatim_query_begin(f.client, f.queue, &query), SERIATIM_OK);
    drive(f.link);
    told_that_it_is_on_its_way(&f);
    srt_link_set_limits(f.link, 30000, 15000);
    close_stopped(&f, &m, batch);
}

/* Begins a push of the id. as_in_cluster: to the old shard first. */
static void begin_push(const fixture *f, int as_in_cluster)
{
    f->client->as_in_cluster = as_in_cluster;
    assert_int_equal(seriatim_push_begin(f->client, f->queue), SERIATIM_OK);
    add(f, leaving_from(0), strlen(leaving_from(0)), "2", none);
}

static void steps_until_held_up(const fixture *f)
{
    int i;
    for (i = 0; srt_client_held_up(f->client)->status == SERIATIM_OK; i++) {
        assert_true(i < 1000);
        assert_int_equal(seriatim_link_step(f->link), SERIATIM_AGAIN);
        seriatim_link_wait(f->link);
    }
}

/* Its time is over while it sleeps: nothing is owed an answer. */
static void push_until_held_up(const fixture *f)
{
    seriatim_error held_up;
    assert_int_equal(seriatim_push_send(f->client), SERIATIM_OK);
    steps_until_held_up(f);
    held_up = *srt_client_held_up(f->client);
    srt_link_give_up(f->link, &held_up);
    told_that_it_is_on_its_way(f);
}

static void test_a_push_says_that_its_id_is_on_its_way(void **state)
{
    redisReply *batch;
    move m;
    fixture f = open_stopped(&m, &batch);
    int as_in_cluster;
    (void)state;
    for (as_in_cluster = 0; as_in_cluster < 2; as_in_cluster++) {
        begin_push(&f, as_in_cluster);
        push_until_held_up(&f);
    }
    close_stopped(&f, &m, batch);
}

/* All of its chunks were answered: one job is written, the other one waits for its id. */
static void test_a_push_says_how_many_jobs_wait_for_their_id(void **state)
{
    redisReply *batch;
    move m;
    fixture f = open_stopped(&m, &batch);
    int as_in_cluster;
    (void)state;
    for (as_in_cluster = 0; as_in_cluster < 2; as_in_cluster++) {
        begin_push(&f, as_in_cluster);
        add(&f, leaving_from(2), strlen(leaving_from(2)), "2", none);
        push_until_held_up(&f);
        assert_string_equal(strstr(why(&f), "lease_time"), "lease_time: 1 of 2 jobs were not written");
    }
    close_stopped(&f, &m, batch);
}

/* ---- Actions on all ids ----------------------------------------------------------------------- */

/* As many looks as an action that waits for open batches makes in this time, of which it knows that `ms` have passed.
 * Returns its status. */
static int waits(const fixture *f, int64_t ms)
{
    int i, status = SERIATIM_AGAIN;
    f->link->first_ms -= ms;
    for (i = 0; i < 100 && status == SERIATIM_AGAIN; i++) {
        pause_ms(1);
        status = seriatim_link_step(f->link);
    }
    return status;
}

/* The id is counted that fails in a shard of which no batch is open. */
static void test_an_action_on_all_ids_does_not_wait_for_ever_for_batches(void **state)
{
    redisReply *batches[2];
    move m;
    fixture f = open_stopped(&m, &batches[0]);
    (void)state;
    batches[1] = depart(&m, 2, leaving_from(2));
    push_failed(&f, leaving_from(1), "1", 3, 3600);
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE_ALL_FAILED_JOBS, NULL, 0), SERIATIM_OK);
    assert_int_equal(waits(&f, 0), SERIATIM_AGAIN);
    assert_int_equal(waits(&f, 20000), SERIATIM_AGAIN);
    assert_true(bring(&m, 2, batches[1]));
    assert_int_equal(waits(&f, 0), SERIATIM_AGAIN);
    assert_int_equal(waits(&f, 20000), SERIATIM_AGAIN); /* servers go on: 20 s since the last batch ended */
    assert_int_equal(waits(&f, 12000), SERIATIM_TIMEOUT);
    assert_non_null(strstr(why(&f), "timed out: 1 ids are done, others are on their way to another shard"));
    freeReplyObject(batches[1]);
    close_stopped(&f, &m, batches[0]);
}

/* ---- Later ------------------------------------------------------------------------------------ */

/* Else what takes long later would be blamed on the id. */
static void test_that_an_id_was_on_its_way_is_forgotten_when_it_has_arrived(void **state)
{
    redisReply *batch;
    move m;
    fixture f = open_stopped(&m, &batch);
    seriatim_text id = text(leaving_from(0));
    int i;
    (void)state;
    for (i = 0; i < 2; i++) {
        if (i == 0) {
            assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_PARK, &id, 1), SERIATIM_OK);
        } else {
            batch = depart(&m, 2, leaving_from(2));
            assert_int_equal(seriatim_push_begin(f.client, f.queue), SERIATIM_OK);
            add(&f, leaving_from(2), strlen(leaving_from(2)), "2", none);
            assert_int_equal(seriatim_push_send(f.client), SERIATIM_OK);
        }
        steps_until_held_up(&f);
        assert_true(bring(&m, i == 0 ? 0 : 2, batch));
        freeReplyObject(batch);
        assert_int_equal(drive(f.link), SERIATIM_OK);
        assert_int_equal(srt_client_held_up(f.client)->status, SERIATIM_OK);
    }
    move_all(&m);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_for_an_id_says_that_it_is_on_its_way),
        cmocka_unit_test(test_a_push_says_that_its_id_is_on_its_way),
        cmocka_unit_test(test_a_push_says_how_many_jobs_wait_for_their_id),
        cmocka_unit_test(test_an_action_on_all_ids_does_not_wait_for_ever_for_batches),
        cmocka_unit_test(test_that_an_id_was_on_its_way_is_forgotten_when_it_has_arrived),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

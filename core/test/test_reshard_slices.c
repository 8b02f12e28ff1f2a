/* test_reshard_slices.c - actions on whole queues, slice by slice, while ids move between the slices; against a real
 * redis-server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "reshard_fixture.h"

#define IDS 3000 /* of an action on 30 dead ids a call: more than two slices */

/* Ids that have failed; shards: of the queue. */
static fixture open_failed(int64_t shards)
{
    static const push_options failed = {.delay = 3600, .retry_count = 3};
    fixture f = open_queue(shards, "merge");
    char id[16];
    int i;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < IDS; i++) {
        snprintf(id, sizeof id, "id%d", i);
        add(&f, id, strlen(id), "1", failed);
    }
    done(&f, seriatim_push_send(f.client));
    return f;
}

/* An action in slices, and where it goes on. */
typedef struct walk {
    const fixture *f;
    int kind;
    srt_action_place place;
    char began[64], cursor[256];
    int64_t changed;
    unsigned slices;
} walk;

static walk walk_of(const fixture *f, int kind)
{
    walk w;
    memset(&w, 0, sizeof w);
    w.f = f;
    w.kind = kind;
    w.place.began = w.place.cursor = text("");
    return w;
}

static void keep(char *kept, size_t cap, seriatim_text *text)
{
    assert_true(text->len < cap);
    memcpy(kept, text->data, text->len);
    text->data = kept;
}

static int walk_slice(walk *w)
{
    int more;
    done(w->f, srt_action_slice_begin(w->f->client, w->f->queue, w->kind, &w->place));
    w->changed += seriatim_action_result(w->f->client);
    more = srt_action_slice_more(w->f->client, &w->place);
    keep(w->began, sizeof w->began, &w->place.began);
    keep(w->cursor, sizeof w->cursor, &w->place.cursor);
    assert_true(++w->slices < 100);
    return more;
}

/*
 * Between the slices all ids move that the action has not met yet, from the last shards to the first ones. An id that
 * dies again meanwhile is as one that dies later.
 */
static void acts_once_on_each(int kind, unsigned from, unsigned to)
{
    fixture f = open_failed(from);
    int64_t dead = kind == SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS || kind == SERIATIM_MORGUE_DELETE_ALL_JOBS;
    unsigned source = from;
    walk w = walk_of(&f, kind);
    move m;
    if (dead)
        assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), IDS);
    assert_int_equal(walk_slice(&w), 1);
    push_failed(&f, "later", "1", 3, 3600);
    if (dead)
        assert_int_equal(act_on(&f, SERIATIM_KILL, "later"), 1);
    move_begin(&m, to);
    while (walk_slice(&w)) {
        unsigned end = source > 3 ? source - 3 : 0;
        while (source > end)
            move_source(&m, --source);
    }
    assert_true(w.slices > (dead ? 2 : 1));
    assert_int_equal(w.changed, IDS);
    assert_int_equal(dead ? metrics(&f).morgue_length : metrics(&f).length, 1);
    move_all(&m);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_r_action_17_dead_ids_are_requeued_once_while_shards_become_fewer(void **state)
{
    (void)state;
    acts_once_on_each(SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS, 16, 8);
}

static void test_r_action_17_dead_ids_are_deleted_once_while_shards_become_more(void **state)
{
    (void)state;
    acts_once_on_each(SERIATIM_MORGUE_DELETE_ALL_JOBS, 5, 16);
}

static void test_r_action_17_failed_ids_are_deleted_once_while_shards_become_fewer(void **state)
{
    (void)state;
    acts_once_on_each(SERIATIM_DELETE_ALL_FAILED_JOBS, 16, 8);
}

/* A slice does not wait for a batch that nobody ends: the next one looks again. */
static void test_r_action_17_an_id_on_its_way_is_acted_upon_when_it_has_arrived(void **state)
{
    fixture f = open_queue(3, "merge");
    walk w = walk_of(&f, SERIATIM_PERFORM_ALL_FAILED_JOBS_NOW);
    redisReply *batch;
    move m;
    char id[16];
    int i = 0;
    (void)state;
    do
        snprintf(id, sizeof id, "id%d", i++);
    while (seriatim_shard_of(id, strlen(id), 3) != 2 || seriatim_shard_of(id, strlen(id), 4) != 0);
    push_failed(&f, id, "1", 3, 3600);
    move_begin(&m, 4);
    batch = depart(&m, 2, id);
    assert_int_equal(walk_slice(&w), 1);
    assert_int_equal(walk_slice(&w), 1);
    assert_int_equal(w.changed, 0);
    assert_true(bring(&m, 2, batch));
    freeReplyObject(batch);
    assert_int_equal(walk_slice(&w), 0);
    assert_int_equal(w.changed, 1);
    move_all(&m);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_action_17_dead_ids_are_requeued_once_while_shards_become_fewer),
        cmocka_unit_test(test_r_action_17_dead_ids_are_deleted_once_while_shards_become_more),
        cmocka_unit_test(test_r_action_17_failed_ids_are_deleted_once_while_shards_become_fewer),
        cmocka_unit_test(test_r_action_17_an_id_on_its_way_is_acted_upon_when_it_has_arrived),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

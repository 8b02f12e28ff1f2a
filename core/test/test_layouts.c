/*
 * test_layouts.c - when a running node reads again the settings of its queues, and how it takes over another number of
 * shards: on answers that are written here.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "answers_fixture.h"
#include "failing.h"
#include "node_fixture.h"

static life open_node(size_t workers, int64_t lease_ms)
{
    seriatim_node_settings settings = node_of_one_thread("n1");
    seriatim_queue_settings q = queue_q();
    seriatim_shard own = {0, 0}; /* by a splitter: of the other queues the node only reads the settings */
    life l = {.now = 1000};
    seriatim_error error;
    char name[16];
    size_t i, number;
    settings.lease_ms = lease_ms;
    assert_int_equal(srt_node_new(&settings, &l.node, &error), SERIATIM_OK);
    for (i = 0; i < workers; i++) {
        snprintf(name, sizeof name, "q%u", (unsigned)i);
        q.name = name;
        q.name_len = strlen(name);
        q.shards_count = 1;
        assert_int_equal(srt_node_worker(l.node, &q, &number, &error), SERIATIM_OK);
    }
    assert_int_equal(srt_node_group(l.node, SERIATIM_LAG, &own, 1, &number, &error), SERIATIM_OK);
    assert_int_equal(srt_node_start(l.node, l.now, &error), SERIATIM_OK);
    assert_int_equal(srt_node_connected(l.node, SRT_COMMANDS, NULL, NULL, 0, l.now), SERIATIM_OK);
    answer_for(&l, 5000);
    return l;
}

static void test_a_node_follows_the_settings_of_all_its_queues_within_a_minute(void **state)
{
    static const struct {
        size_t workers;
        int64_t lease_ms;
    } nodes[] = {{1, 10000}, {100, 10000}, {5, 200000}, {1000, 1000}};
    size_t i, worker;
    (void)state;
    for (i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        life l = open_node(nodes[i].workers, nodes[i].lease_ms);
        assert_int_not_equal(l.node->workers[0]->now.max_retry_count, RETRIES);
        l.changed = 1;
        answer_for(&l, 60000);
        for (worker = 0; worker < nodes[i].workers; worker++)
            assert_int_equal(l.node->workers[worker]->now.max_retry_count, RETRIES);
        srt_node_free(l.node);
    }
}

/* With a splitter that has a group for each of the two shards of the queue. */
static srt_node *open_split_node(const seriatim_allocator *mem)
{
    seriatim_node_settings settings = node_of_one_thread("n1");
    seriatim_queue_settings q = queue_q();
    life l = {.now = 1000, .shards = 2};
    seriatim_error error;
    size_t number;
    seriatim_shard own = {0, 0};
    settings.options.allocator = mem;
    assert_int_equal(srt_node_new(&settings, &l.node, &error), SERIATIM_OK);
    assert_int_equal(srt_node_worker(l.node, &q, &number, &error), SERIATIM_OK);
    for (own.shard = 0; own.shard < 2; own.shard++)
        assert_int_equal(srt_node_group(l.node, SERIATIM_LAG, &own, 1, &number, &error), SERIATIM_OK);
    assert_int_equal(srt_node_start(l.node, l.now, &error), SERIATIM_OK);
    assert_int_equal(srt_node_connected(l.node, SRT_COMMANDS, NULL, NULL, 0, l.now), SERIATIM_OK);
    answer_for(&l, 100);
    assert_int_equal(l.node->shard_count, 2);
    return l.node;
}

/* Is there room for all shards of the group that may get ready ids? */
static int has_room_for_its_shards(const srt_node *node, size_t group)
{
    size_t count = 0, i;
    for (i = 0; i < node->shard_count; i++)
        count += node->shards[i]->group == group && node->shards[i]->wanted;
    return count <= node->groups[group].ready_cap;
}

static void test_a_node_without_memory_for_more_shards_of_its_groups_takes_none_of_them(void **state)
{
    size_t from, group;
    int status = SERIATIM_NOMEM;
    (void)state;
    for (from = 1; status == SERIATIM_NOMEM; from++) {
        failing memory = {0, 0, 0, 0};
        seriatim_allocator mem = {failing_alloc, &memory};
        srt_node *node = open_split_node(&mem);
        memory.fail_at = memory.calls + from;
        status = srt_node_adopt(node, 0, "2 64 3", 2000);
        memory.fail_at = 0;
        for (group = 0; group < 2; group++)
            assert_true(has_room_for_its_shards(node, group));
        assert_int_equal(srt_node_adopt(node, 0, "2 64 3", 2000), SERIATIM_OK);
        for (group = 0; group < 2; group++)
            assert_true(has_room_for_its_shards(node, group));
        srt_node_free(node);
        assert_int_equal(memory.live, 0);
    }
    assert_true(from > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_follows_the_settings_of_all_its_queues_within_a_minute),
        cmocka_unit_test(test_a_node_without_memory_for_more_shards_of_its_groups_takes_none_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

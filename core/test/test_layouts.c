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

#include "failing.h"
#include "node/node_state.h"
#include "node_fixture.h"

#define RETRIES 7 /* another server writes them */

typedef struct life {
    srt_node *node;
    int64_t now;
    int changed; /* the settings in Redis */
    int shards;  /* of the queues: 2, else 1 */
} life;

static void answer_layout(const life *l, srt_bytes *out)
{
    srt_resp_array(out, l->changed ? 3 : 1);
    srt_resp_arg(out, l->shards == 2 ? "1 2 3" : "1 1 3", 5);
    if (!l->changed)
        return;
    srt_resp_arg(out, "max_retry_count", 15);
    srt_resp_arg_int(out, RETRIES);
}

/* What its script says to a request; no shard has anything to run. */
static void answer_of(const life *l, int kind, srt_bytes *out)
{
    int i;
    switch (kind) {
    case SRT_ASK_LAYOUT:
        answer_layout(l, out);
        return;
    case SRT_ASK_HEARTBEAT:
        srt_resp_array(out, 5);
        srt_resp_arg_int(out, INT64_C(1789000000000000) + l->now * 1000);
        srt_resp_arg(out, "", 0);
        srt_resp_arg_int(out, 0);
        srt_resp_arg(out, "n1", 2);
        srt_resp_arg(out, l->node->description.data, l->node->description.len);
        return;
    case SRT_ASK_ACQUIRE:
        srt_resp_array(out, 5);
        srt_resp_arg(out, "OK", 2);
        for (i = 0; i < 4; i++)
            srt_resp_arg_int(out, i < 2);
        return;
    case SRT_ASK_CLAIM:
        srt_resp_array(out, 8);
        srt_resp_arg_int(out, INT64_C(1789000000000000) + l->now * 1000);
        srt_resp_arg_int(out, 1);
        for (i = 0; i < 3; i++)
            srt_resp_arg_int(out, SRT_FOREVER);
        srt_resp_arg_int(out, 0);
        srt_resp_arg(out, "n", 1);
        srt_resp_arg_int(out, 0);
        return;
    default:
        srt_resp_arg(out, "OK", 2);
    }
}

static void answer_all(life *l)
{
    const srt_request *asked;
    seriatim_error error;
    while ((asked = l->node->cluster.peers[0]->commands.first)) {
        const srt_request *other;
        const char *data;
        size_t len, reads = 0;
        srt_bytes out;
        for (other = asked; l->changed && other; other = other->next)
            reads += !other->handshake && other->kind == SRT_ASK_LAYOUT;
        assert_true(reads <= 1); /* so that a claim waits for one of them at most */
        srt_node_output(l->node, SRT_COMMANDS, &data, &len);
        srt_node_sent(l->node, SRT_COMMANDS, len);
        srt_bytes_init(&out, seriatim_default_allocator());
        answer_of(l, asked->handshake ? -1 : asked->kind, &out);
        assert_int_equal(srt_node_input(l->node, SRT_COMMANDS, out.data, out.len, l->now, &error), SERIATIM_OK);
        srt_bytes_free(&out);
    }
}

static void pass(life *l, int64_t ms)
{
    int64_t until = l->now + ms;
    seriatim_event event;
    for (; l->now < until; l->now += 10) {
        srt_node_pulse(l->node, l->now);
        srt_node_tick(l->node, l->now);
        answer_all(l);
        while (srt_node_event(l->node, l->now, &event) == SERIATIM_OK)
            ;
    }
}

static life open_node(size_t workers, int64_t lease_ms)
{
    seriatim_node_settings settings = node_of_one_thread("n1");
    seriatim_queue_settings q = queue_q();
    seriatim_shard own = {0, 0}; /* by a splitter: of the other queues the node only reads the settings */
    life l = {NULL, 1000, 0, 0};
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
    pass(&l, 5000);
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
        pass(&l, 60000);
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
    life l = {NULL, 1000, 0, 2};
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
    pass(&l, 100);
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

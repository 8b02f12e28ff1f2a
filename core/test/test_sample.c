/* test_sample.c - the rounds in which a node measures all queues for their histories: on answers that are written here.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "answers_fixture.h"
#include "node_fixture.h"

#define QUEUES 8

static life open_measuring(int64_t slow_ms)
{
    seriatim_node_settings settings = node_of_one_thread("n1");
    seriatim_queue_settings q = queue_q();
    life l = {.now = 1000, .measured = QUEUES, .slow_ms = slow_ms};
    seriatim_error error;
    size_t number;
    settings.lease_ms = 3600000; /* heartbeats wait behind slow answers, too */
    assert_int_equal(srt_node_new(&settings, &l.node, &error), SERIATIM_OK);
    assert_int_equal(srt_node_worker(l.node, &q, &number, &error), SERIATIM_OK);
    assert_int_equal(srt_node_start(l.node, l.now, &error), SERIATIM_OK);
    assert_int_equal(srt_node_connected(l.node, SRT_COMMANDS, NULL, NULL, 0, l.now), SERIATIM_OK);
    return l;
}

static void test_a_long_round_of_many_queues_comes_to_its_end(void **state)
{
    life l = open_measuring(20000);
    (void)state;
    answer_for(&l, 20000 * (QUEUES + 4)); /* who measures, the names, which are idle, and each queue */
    assert_int_equal(l.looked_at, (1u << QUEUES) - 1);
    srt_node_free(l.node);
}

static void test_a_round_begins_anew_when_no_answer_comes(void **state)
{
    life l = open_measuring(1000000);
    int64_t rounds;
    (void)state;
    answer_for(&l, 50000);
    rounds = l.node->sampler.rounds;
    answer_for(&l, 30000);
    assert_int_equal(l.node->sampler.rounds, rounds + 1);
    srt_node_free(l.node);
}

/* A round of a minute, by the first of two nodes. Calls `meanwhile` when it is in the middle of it. */
static unsigned measured_by_the_second(life lives[2], void (*meanwhile)(sampler_lease *lease))
{
    static sampler_lease lease;
    int64_t ms;
    int i;
    memset(&lease, 0, sizeof lease);
    for (i = 0; i < 2; i++) {
        lives[i] = open_measuring(6000);
        lives[i].lease = &lease;
    }
    for (ms = 0; ms < 6000 * (QUEUES + 2) + 3000; ms += 10) {
        if (ms == 30000 && meanwhile)
            meanwhile(&lease);
        for (i = 0; i < 2; i++)
            answer_for(&lives[i], 10);
    }
    for (i = 0; i < 2; i++)
        srt_node_free(lives[i].node);
    return lives[1].looked_at;
}

static void test_a_long_round_keeps_other_nodes_from_measuring(void **state)
{
    life lives[2];
    (void)state;
    assert_int_equal(measured_by_the_second(lives, NULL), 0);
    assert_int_equal(lives[0].looked_at, (1u << QUEUES) - 1);
}

static void take_lease(sampler_lease *lease)
{
    lease->holder = (const void *)lease; /* none of the two */
    lease->until += 1000000;
}

static void test_a_round_ends_when_another_process_measures(void **state)
{
    life lives[2];
    (void)state;
    assert_int_equal(measured_by_the_second(lives, take_lease), 0);
    assert_int_not_equal(lives[0].looked_at, 0);
    assert_int_not_equal(lives[0].looked_at, (1u << QUEUES) - 1);
}

/* How many shards of a queue are asked for in a call after this refusal of several of them. */
static unsigned together_after(const char *refusal)
{
    life l = open_measuring(10);
    unsigned together;
    l.refusal = refusal;
    answer_for(&l, 5000);
    assert_int_equal(l.looked_at, (1u << QUEUES) - 1);
    together = l.node->sampler.together;
    srt_node_free(l.node);
    return together;
}

static void test_shards_of_another_generation_are_asked_for_together_again(void **state)
{
    (void)state;
    assert_int_equal(together_after("-GENERATION 5\r\n"), SRT_SAMPLE_SHARDS);
    assert_int_equal(together_after("-CROSSSLOT Keys in request don't hash to the same slot\r\n"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_long_round_of_many_queues_comes_to_its_end),
        cmocka_unit_test(test_a_round_begins_anew_when_no_answer_comes),
        cmocka_unit_test(test_a_long_round_keeps_other_nodes_from_measuring),
        cmocka_unit_test(test_a_round_ends_when_another_process_measures),
        cmocka_unit_test(test_shards_of_another_generation_are_asked_for_together_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

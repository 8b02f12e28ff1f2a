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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_long_round_of_many_queues_comes_to_its_end),
        cmocka_unit_test(test_a_round_begins_anew_when_no_answer_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_pipeline_peer.c - pushes of several queues in one operation, against a scripted peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "peer.h"

/* Connected, with the queues Q and R, whose layouts are not known yet. */
static seriatim_client *client_of_two(const seriatim_options *options, int64_t shards)
{
    seriatim_client *c = new_client(options, shards, "keep");
    seriatim_queue_settings settings;
    size_t queue;
    if (!c)
        return NULL;
    seriatim_queue_settings_init(&settings);
    settings.name = "R";
    settings.name_len = 1;
    settings.shards_count = shards;
    if (seriatim_client_queue(c, &settings, &queue) == SERIATIM_OK &&
        srt_client_connected(c, NULL, NULL, 0) == SERIATIM_OK)
        return c;
    seriatim_client_free(c);
    return NULL;
}

/* Pushes of ten jobs each, to the two queues by turns: the ids id-0 .. id-(10 * pushes - 1). */
static int collect(seriatim_client *c, int pushes, int replicas)
{
    int i, status = seriatim_pipeline_begin(c);
    for (i = 0; i < pushes && status == SERIATIM_OK; i++) {
        status = seriatim_pipeline_push(c, (size_t)i % 2);
        if (status == SERIATIM_OK && i == 0)
            status = seriatim_push_replicas(c, replicas, 0.25);
        if (status == SERIATIM_OK)
            status = add_jobs(c, 10 * i, 10);
    }
    return status == SERIATIM_OK ? seriatim_pipeline_send(c) : status;
}

static void assert_all_added(const seriatim_client *c, int pushes)
{
    int i;
    for (i = 0; i < pushes; i++) {
        seriatim_push_counts counts;
        seriatim_error error;
        assert_int_equal(seriatim_pipeline_result(c, (size_t)i, &counts, &error), SERIATIM_OK);
        assert_int_equal(counts.added, 10);
    }
}

static void test_r_pipe_3_a_layout_that_changed_is_loaded_for_its_queue_alone(void **state)
{
    int both;
    (void)state;
    for (both = 0; both < 2; both++) {
        peer *p = new_peer(3);
        seriatim_client *c = client_of_two(NULL, 3);
        seriatim_error error = {0, ""};
        assert_int_equal(collect(c, 20, 0), SERIATIM_OK);
        assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
        assert_int_equal(p->layouts, 2);
        assert_int_equal(p->pushes, 6);
        p->generation = 2;
        p->stale_from = both ? 0 : 32;
        p->jobs = 0;
        memset(p->seen, 0, sizeof p->seen);
        assert_int_equal(collect(c, 20, 0), SERIATIM_OK);
        assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
        assert_int_equal(p->layouts, both ? 4 : 3);
        assert_int_equal(p->pushes, both ? 18 : 15);
        assert_once(p, 200);
        assert_all_added(c, 20);
        free_peer(p);
        seriatim_client_free(c);
    }
}

static void test_f2_r_pipe_3_a_cut_at_every_answer_applies_each_job_once(void **state)
{
    int cut, how, finished;
    (void)state;
    for (how = 0; how < 8; how++)
        for (cut = 1, finished = 0; !finished; cut++) {
            int lost = how & 1, reshards = how & 2, replicated = how & 4, i, going = 1;
            peer *p = new_peer(3);
            seriatim_client *c = client_of_two(NULL, 3);
            seriatim_error error = {0, ""};
            p->replicas = 1;
            assert_int_equal(collect(c, 40, replicated ? 1 : 0), SERIATIM_OK);
            for (i = 1; i <= cut && going; i++)
                going = peer_answer_one(p, c, lost && i == cut);
            finished = !going;
            reconnect(p, c);
            if (reshards) {
                p->generation = 2;
                p->stale_from = 32;
            }
            assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
            assert_once(p, 400);
            assert_all_added(c, 40);
            free_peer(p);
            seriatim_client_free(c);
            assert_true(cut < 50);
        }
}

static void test_r_pipe_3_what_was_not_answered_is_told_of_each_push(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = client_of_two(NULL, 3);
    seriatim_error error = {0, ""};
    int i, unknown = 0;
    (void)state;
    assert_int_equal(collect(c, 20, 0), SERIATIM_OK);
    for (i = 0; i < 2 + 3; i++) /* the layouts, and all shards of Q */
        assert_true(peer_answer_one(p, c, 0));
    assert_int_equal(srt_client_give_up(c, SERIATIM_TIMEOUT, "late"), SERIATIM_UNKNOWN_OUTCOME);
    assert_string_equal(message(c), "queue R: outcome unknown: 3 of 3 chunks (100 of 100 jobs) were sent and not "
                                    "answered: shard 0 (43 jobs), shard 1 (28 jobs), shard 2 (29 jobs)");
    for (i = 0; i < 20; i++) {
        seriatim_push_counts counts;
        int status = seriatim_pipeline_result(c, (size_t)i, &counts, &error);
        assert_int_equal(status, i % 2 ? SERIATIM_UNKNOWN_OUTCOME : SERIATIM_OK);
        assert_int_equal(seriatim_pipeline_outcome(c, (size_t)i, 0), i % 2 ? SERIATIM_JOB_UNKNOWN : SERIATIM_JOB_ADDED);
        unknown += status != SERIATIM_OK;
    }
    assert_int_equal(unknown, 10);
    srt_client_disconnected(c);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(collect(c, 2, 0), SERIATIM_OK); /* nothing written yet: not in doubt */
    assert_int_equal(srt_client_give_up(c, SERIATIM_TIMEOUT, "late"), SERIATIM_TIMEOUT);
    assert_int_equal(seriatim_pipeline_outcome(c, 1, 0), SERIATIM_JOB_UNWRITTEN);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_one_wait_counts_the_replicas_of_all_queues(void **state)
{
    int enough;
    (void)state;
    for (enough = 0; enough < 2; enough++) {
        peer *p = new_peer(3);
        seriatim_client *c = client_of_two(NULL, 3);
        seriatim_push_counts counts;
        seriatim_error error = {0, ""};
        p->replicas = enough;
        assert_int_equal(collect(c, 20, 1), SERIATIM_OK);
        assert_int_equal(peer_run(p, c, &error), enough ? SERIATIM_OK : SERIATIM_REPLICAS);
        assert_int_equal(p->waits, 1);
        assert_once(p, 200);
        assert_int_equal(seriatim_pipeline_result(c, 1, &counts, &error), enough ? SERIATIM_OK : SERIATIM_REPLICAS);
        assert_int_equal(counts.added, 10);
        free_peer(p);
        seriatim_client_free(c);
    }
}

/* The answer to WAIT lets the first queue send its next chunk before the second queue has taken that answer. */
static void test_a_wait_counts_for_a_queue_while_another_one_goes_on(void **state)
{
    int how;
    (void)state;
    for (how = 0; how < 4; how++) {
        int enough = how & 1, status = enough ? SERIATIM_OK : SERIATIM_REPLICAS;
        int pushes = how & 2 ? 300 : 201; /* a chunk has 1,000 jobs: two chunks of Q, and two or one of R */
        peer *p = new_peer(1);
        seriatim_client *c = client_of_two(NULL, 1);
        seriatim_push_counts counts;
        seriatim_error error = {0, ""};
        p->replicas = enough;
        assert_int_equal(collect(c, pushes, 1), SERIATIM_OK);
        assert_int_equal(peer_run(p, c, &error), status);
        assert_once(p, 10 * pushes);
        assert_int_equal(p->waits, enough ? 2 : 1);
        assert_int_equal(seriatim_pipeline_result(c, 1, &counts, &error), status);
        assert_int_equal(counts.added, 10);
        free_peer(p);
        seriatim_client_free(c);
    }
}

static void test_the_strictest_options_hold(void **state)
{
    seriatim_client *c = client_of_two(NULL, 3);
    (void)state;
    assert_int_equal(seriatim_pipeline_begin(c), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_push(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_timeout(c, 3), SERIATIM_OK);
    assert_int_equal(add_jobs(c, 0, 1), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_push(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_timeout(c, 5), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_push(c, 1), SERIATIM_OK);
    assert_int_equal(seriatim_push_replicas(c, 2, 0.5), SERIATIM_OK);
    assert_int_equal(add_jobs(c, 0, 1), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_send(c), SERIATIM_OK);
    assert_int_equal(srt_client_whole_ms(c), 3000);
    assert_int_equal(c->push->replicas, 2);
    assert_int_equal(c->push->wait_ms, 500);
    seriatim_client_free(c);
}

static int pipeline_with(const seriatim_options *options)
{
    seriatim_client *c = client_of_two(options, 3);
    peer *p = new_peer(3);
    seriatim_error error = {0, ""};
    int ended = c && collect(c, 40, 0) == SERIATIM_OK && peer_run(p, c, &error) == SERIATIM_OK;
    if (ended)
        assert_once(p, 400);
    free_peer(p);
    seriatim_client_free(c);
    return ended;
}

static void test_every_allocation_of_a_pipeline_may_fail(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(pipeline_with);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_pipe_3_a_layout_that_changed_is_loaded_for_its_queue_alone),
        cmocka_unit_test(test_f2_r_pipe_3_a_cut_at_every_answer_applies_each_job_once),
        cmocka_unit_test(test_r_pipe_3_what_was_not_answered_is_told_of_each_push),
        cmocka_unit_test(test_one_wait_counts_the_replicas_of_all_queues),
        cmocka_unit_test(test_a_wait_counts_for_a_queue_while_another_one_goes_on),
        cmocka_unit_test(test_the_strictest_options_hold),
        cmocka_unit_test(test_every_allocation_of_a_pipeline_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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

/* ---- A queue that waits ------------------------------------------------------------------------ */

#define ADDED "$7\r\n10 10 0\r\n"
#define EARLY "-GENERATION 1\r\n" /* from a shard that was not turned yet */

/* The word is to stand in what the client sends, which is taken; or, absent 1, is not to stand there. */
static void sends_or_not(seriatim_client *c, const char *word, int absent)
{
    const char *data;
    size_t len, i;
    int found = 0;
    srt_client_output(c, &data, &len);
    for (i = 0; i + strlen(word) <= len; i++)
        found |= memcmp(data + i, word, strlen(word)) == 0;
    if (found == absent)
        fail_msg("%s: %.*s", word, (int)len, data);
    srt_client_sent(c, len);
}

static void sends(seriatim_client *c, const char *word)
{
    sends_or_not(c, word, 0);
}

static void hears_of(seriatim_client *c, const char *answer)
{
    assert_int_equal(says(c, answer), SERIATIM_OK);
}

static void assert_result(const seriatim_client *c, size_t number, int status)
{
    seriatim_push_counts counts;
    seriatim_error error;
    assert_int_equal(seriatim_pipeline_result(c, number, &counts, &error), status);
    assert_int_equal(counts.added, status == SERIATIM_OK || status == SERIATIM_REPLICAS ? 10 : 0);
}

enum { TO_ONE_REDIS, TO_A_CLUSTER, WITH_A_REPLICA };

/* Ten jobs for each of the queues, which have one shard, first for this one. The chunks are sent. */
static seriatim_client *client_that_pushes_to_both(size_t first, int how)
{
    seriatim_client *c = client_of_two(NULL, 1);
    size_t i;
    if (how == TO_A_CLUSTER)
        assert_int_equal(srt_cluster_seed(&c->cluster, "A", 1), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_begin(c), SERIATIM_OK);
    for (i = 0; i < 2; i++) {
        assert_int_equal(seriatim_pipeline_push(c, i == 0 ? first : 1 - first), SERIATIM_OK);
        if (how == WITH_A_REPLICA)
            assert_int_equal(seriatim_push_replicas(c, 1, 0.25), SERIATIM_OK);
        assert_int_equal(add_jobs(c, 10 * (int)i, 10), SERIATIM_OK);
    }
    assert_int_equal(seriatim_pipeline_send(c), SERIATIM_OK);
    if (how == TO_A_CLUSTER) {
        srt_client_tick(c, 1000);
        sends(c, "SLOTS");
        hears_of(c, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nA\r\n:1\r\n");
    }
    for (i = 0; i < 2; i++) {
        sends(c, ":layout");
        hears_of(c, "$5\r\n2 1 3\r\n");
    }
    sends(c, "id-19");
    return c;
}

/* A chunk of more than may be on its way at once, to a shard that is not turned yet. */
static void test_r_pipe_3_a_queue_goes_on_while_a_large_chunk_of_another_one_waits(void **state)
{
    static char payload[30 * 1024];
    seriatim_client *c = client_of_two(NULL, 1);
    char id[] = "0";
    (void)state;
    memset(payload, '7', sizeof payload - 1);
    assert_int_equal(seriatim_pipeline_begin(c), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_push(c, 0), SERIATIM_OK);
    for (; *id <= '9'; ++*id)
        assert_int_equal(add_job(c, id, payload), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_push(c, 1), SERIATIM_OK);
    assert_int_equal(add_jobs(c, 0, 10), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_send(c), SERIATIM_OK);
    sends(c, ":layout");
    hears_of(c, "$5\r\n2 1 3\r\n");
    hears_of(c, "$5\r\n2 1 3\r\n");
    sends(c, "{R/0}");
    hears_of(c, EARLY);
    hears_of(c, ADDED);
    assert_int_equal(srt_client_give_up(c, SERIATIM_TIMEOUT, "late"), SERIATIM_TIMEOUT);
    assert_result(c, 0, SERIATIM_TIMEOUT);
    assert_result(c, 1, SERIATIM_OK);
    seriatim_client_free(c);
}

static void test_r_pipe_3_replicas_of_a_queue_are_counted_while_another_one_waits(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = client_of_two(NULL, 3);
    seriatim_error error = {0, ""};
    int i;
    (void)state;
    p->generation = 2;
    p->replicas = 1;
    assert_int_equal(collect(c, 20, 1), SERIATIM_OK);
    for (i = 0; i < 2; i++)
        assert_true(peer_answer_one(p, c, 0));
    p->generation = 1; /* of the shards of R, which are not turned yet */
    p->stale_from = 32;
    assert_int_equal(peer_run(p, c, &error), SERIATIM_AGAIN);
    assert_int_equal(p->waits, 1);
    assert_int_equal(srt_client_give_up(c, SERIATIM_TIMEOUT, "late"), SERIATIM_TIMEOUT);
    assert_result(c, 0, SERIATIM_OK);
    assert_result(c, 1, SERIATIM_TIMEOUT);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_r_pipe_3_a_layout_that_changed_is_loaded_while_another_queue_waits(void **state)
{
    seriatim_client *c = client_that_pushes_to_both(0, TO_ONE_REDIS);
    (void)state;
    hears_of(c, "-GENERATION 3\r\n");
    sends(c, "{Q}:layout");
    hears_of(c, EARLY);
    hears_of(c, "$5\r\n3 1 3\r\n");
    sends(c, "{Q/0}");
    hears_of(c, ADDED);
    assert_true(srt_client_sleeps(c) >= 0);
    srt_client_wake(c);
    sends(c, "{R/0}");
    hears_of(c, ADDED);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_result(c, 0, SERIATIM_OK);
    assert_result(c, 1, SERIATIM_OK);
    seriatim_client_free(c);
}

/* The master of Q does not answer. */
static void test_r_pipe_3_an_early_request_is_repeated_while_another_queue_waits(void **state)
{
    seriatim_client *c = client_that_pushes_to_both(1, TO_A_CLUSTER);
    (void)state;
    hears_of(c, EARLY);
    assert_int_equal(srt_client_sleeps(c), -1);
    sends_or_not(c, "{R/0}", 1);
    srt_client_tick(c, 1050);
    sends(c, "{R/0}");
    hears_of(c, ADDED);
    hears_of(c, ADDED);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    seriatim_client_free(c);
}

/* Of one Redis there are always answers, and it is repeated with one of them. */
static void test_r_pipe_3_an_early_request_is_repeated_while_another_queue_goes_on(void **state)
{
    seriatim_client *c = client_that_pushes_to_both(1, TO_ONE_REDIS);
    (void)state;
    hears_of(c, EARLY);
    sends_or_not(c, "{R/0}", 1);
    srt_client_tell_spent(c, 10);
    hears_of(c, "$5\r\n9 9 0\r\n"); /* Q took nine of its jobs */
    sends(c, "{R/0}");
    hears_of(c, "$5\r\n1 1 0\r\n");
    hears_of(c, ADDED);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    seriatim_client_free(c);
}

/* Redis had forgotten the script of R, whose call comes behind the WAIT of Q now. */
static void test_a_wait_counts_nothing_that_is_written_behind_it(void **state)
{
    seriatim_client *c = client_that_pushes_to_both(0, WITH_A_REPLICA);
    (void)state;
    hears_of(c, ADDED);
    sends(c, "WAIT");
    hears_of(c, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    sends(c, "EVAL");
    hears_of(c, ":1\r\n");
    sends_or_not(c, "WAIT", 1);
    hears_of(c, ADDED);
    sends(c, "WAIT");
    hears_of(c, ":0\r\n");
    assert_int_equal(srt_client_status(c), SERIATIM_REPLICAS);
    assert_result(c, 0, SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_outcome(c, 1, 0), SERIATIM_JOB_ADDED);
    seriatim_client_free(c);
}

/* R fails as a whole while the replicas of Q are counted, or before Q is answered. */
static void test_r_pipe_3_too_few_replicas_are_told_of_a_queue_though_another_one_fails(void **state)
{
    int before;
    (void)state;
    for (before = 0; before < 2; before++) {
        seriatim_client *c = client_that_pushes_to_both(1, WITH_A_REPLICA);
        hears_of(c, before ? "$1\r\nx\r\n" : "-GENERATION 3\r\n");
        sends_or_not(c, "{R}:layout", before);
        hears_of(c, ADDED);
        sends_or_not(c, "WAIT", before);
        if (!before) {
            hears_of(c, "$5\r\n3 1 9\r\n"); /* of a later version */
            hears_of(c, ":0\r\n");
        }
        assert_result(c, 0, before ? SERIATIM_PROTOCOL : SERIATIM_UNSUPPORTED);
        assert_result(c, 1, SERIATIM_REPLICAS);
        assert_non_null(strstr(message(c), before ? "queue Q: the push is written, and its replicas were not counted"
                                                  : "queue Q: the push is written, 0 of 1 replicas have it"));
        seriatim_client_free(c);
    }
}

/* Two pushes of Q: the jobs of the first one are written, those of the second one are refused. */
static void test_too_few_replicas_are_told_of_a_push_though_a_later_chunk_is_refused(void **state)
{
    seriatim_client *c = client_of_two(NULL, 1);
    seriatim_push_counts counts;
    seriatim_error error;
    (void)state;
    assert_int_equal(seriatim_pipeline_begin(c), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_push(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_replicas(c, 1, 0.25), SERIATIM_OK);
    assert_int_equal(add_jobs(c, 0, 1000), SERIATIM_OK); /* a chunk */
    assert_int_equal(seriatim_pipeline_push(c, 0), SERIATIM_OK);
    assert_int_equal(add_jobs(c, 1000, 10), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_send(c), SERIATIM_OK);
    sends(c, ":layout");
    hears_of(c, "$5\r\n2 1 3\r\n");
    sends(c, "id-999");
    hears_of(c, "$11\r\n1000 1000 0\r\n");
    sends(c, "WAIT");
    hears_of(c, ":0\r\n");
    sends(c, "id-1009");
    hears_of(c, "-NOPERM no\r\n");
    assert_result(c, 1, srt_client_status(c));
    assert_int_equal(seriatim_pipeline_result(c, 0, &counts, &error), SERIATIM_REPLICAS);
    assert_string_equal(error.message, "the push is written, 0 of 1 replicas have it");
    assert_int_equal(counts.added, 1000);
    seriatim_client_free(c);
}

/* In the second round another master takes fewer jobs than the first one, whose replicas were not counted. */
static void test_only_jobs_that_may_be_written_are_in_doubt(void **state)
{
    int again;
    size_t i;
    (void)state;
    for (again = 0; again < 2; again++) {
        seriatim_client *c = client_that_pushes_to_both(0, WITH_A_REPLICA);
        for (i = 0; again && i < 2; i++)
            hears_of(c, ADDED);
        srt_client_disconnected(c);
        assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
        sends(c, "id-19");
        for (i = 0; i < 2; i++)
            hears_of(c, "$5\r\n9 9 0\r\n");
        assert_int_equal(srt_client_give_up(c, SERIATIM_TIMEOUT, "late"), SERIATIM_UNKNOWN_OUTCOME);
        for (i = 0; i < 2; i++) {
            assert_int_equal(seriatim_pipeline_outcome(c, i, 8), SERIATIM_JOB_UNKNOWN);
            assert_int_equal(seriatim_pipeline_outcome(c, i, 9), SERIATIM_JOB_UNWRITTEN);
        }
        seriatim_client_free(c);
    }
}

/* Two pushes of Q with one job each. The answer says that the first one was turned away. */
static void test_jobs_that_were_refused_or_stale_are_not_in_doubt(void **state)
{
    static const char *const answers[] = {"$11\r\n2 1 0 1 lrn\r\n", "$12\r\n2 1 0 t1 ltn\r\n"};
    size_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        seriatim_client *c = new_client(NULL, 1, "reject");
        seriatim_push_counts counts;
        seriatim_error error;
        int push;
        assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
        assert_int_equal(seriatim_pipeline_begin(c), SERIATIM_OK);
        for (push = 0; push < 2; push++) {
            assert_int_equal(seriatim_pipeline_push(c, 0), SERIATIM_OK);
            assert_int_equal(seriatim_push_replicas(c, 1, 0.25), SERIATIM_OK);
            assert_int_equal(add_jobs(c, push, 1), SERIATIM_OK);
        }
        assert_int_equal(seriatim_pipeline_send(c), SERIATIM_OK);
        sends(c, ":layout");
        hears_of(c, "$5\r\n2 1 3\r\n");
        sends(c, "id-1");
        hears_of(c, answers[i]);
        sends(c, "WAIT");
        assert_int_equal(srt_client_give_up(c, SERIATIM_TIMEOUT, "late"), SERIATIM_UNKNOWN_OUTCOME);
        assert_string_equal(message(c), "outcome unknown: 1 of 1 chunks (1 of 2 jobs) are written, maybe on "
                                        "too few replicas: shard 0 (1 jobs); 1 jobs were not written");
        assert_int_equal(seriatim_pipeline_result(c, 0, &counts, &error), SERIATIM_OK);
        assert_int_equal(i == 0 ? counts.refused : counts.stale, 1);
        assert_int_equal(seriatim_pipeline_outcome(c, 1, 0), SERIATIM_JOB_UNKNOWN);
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
        cmocka_unit_test(test_r_pipe_3_a_queue_goes_on_while_a_large_chunk_of_another_one_waits),
        cmocka_unit_test(test_r_pipe_3_replicas_of_a_queue_are_counted_while_another_one_waits),
        cmocka_unit_test(test_r_pipe_3_a_layout_that_changed_is_loaded_while_another_queue_waits),
        cmocka_unit_test(test_r_pipe_3_an_early_request_is_repeated_while_another_queue_waits),
        cmocka_unit_test(test_r_pipe_3_an_early_request_is_repeated_while_another_queue_goes_on),
        cmocka_unit_test(test_a_wait_counts_nothing_that_is_written_behind_it),
        cmocka_unit_test(test_r_pipe_3_too_few_replicas_are_told_of_a_queue_though_another_one_fails),
        cmocka_unit_test(test_too_few_replicas_are_told_of_a_push_though_a_later_chunk_is_refused),
        cmocka_unit_test(test_only_jobs_that_may_be_written_are_in_doubt),
        cmocka_unit_test(test_jobs_that_were_refused_or_stale_are_not_in_doubt),
        cmocka_unit_test(test_the_strictest_options_hold),
        cmocka_unit_test(test_every_allocation_of_a_pipeline_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

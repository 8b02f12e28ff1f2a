/* test_push_replicas.c - pushes that wait for replicas, against a scripted peer that fails over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "client/pipeline.h"
#include "peer.h"

/* ---- Replicas ------------------------------------------------------------------------------ */

/* Begins a push of `count` jobs that one replica must have. */
static void begin_replicated(seriatim_client *c, int from, int count)
{
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_replicas(c, 1, 0.25), SERIATIM_OK);
    assert_int_equal(add_jobs(c, from, count), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
}

static void test_replicas_are_counted(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    seriatim_error error = {0, ""};
    (void)state;
    p->replicas = 2;
    begin_replicated(c, 0, 3700);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 3700);
    assert_int_equal(p->pushes, 6);
    assert_int_equal(p->waits, 2); /* the shards go together, the two chunks of each one after another */
    assert_once(p, 3700);
    assert_int_equal(push_range(p, c, 3700, 10), SERIATIM_OK);
    assert_int_equal(p->waits, 2); /* each push says for itself */
    free_peer(p);
    seriatim_client_free(c);
}

static void test_too_few_replicas_are_an_error(void **state)
{
    static const char *const errors[] = {NULL, "-NOPERM this user has no permissions to run the 'wait' command\r\n",
                                         "-ERR unknown command 'WAIT'\r\n"};
    static const char *const texts[] = {"the push is written, 0 of 1 replicas have it",
                                        "the push is written, and WAIT was refused: ", "WAIT was refused: "};
    size_t i;
    (void)state;
    for (i = 0; i < 3; i++) {
        peer *p = new_peer(3);
        seriatim_client *c = connected_client(3);
        seriatim_error error = {0, ""};
        p->wait_error = errors[i];
        begin_replicated(c, 0, 3700);
        assert_int_equal(peer_run(p, c, &error), SERIATIM_REPLICAS);
        assert_non_null(strstr(message(c), texts[i]));
        assert_int_equal(seriatim_push_result(c).added, 3700);
        assert_int_equal(p->waits, 1); /* one shortage is enough */
        assert_once(p, 3700);
        free_peer(p);
        seriatim_client_free(c);
    }
}

static void test_a_push_is_sent_again_when_its_master_became_a_replica(void **state)
{
    static const char *const errors[] = {
        "-ERR WAIT cannot be used with replica instances. Please also note that...\r\n",
        "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n"};
    size_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        peer *p = new_peer(3);
        seriatim_client *c = connected_client(3);
        seriatim_error error = {0, ""};
        int status;
        p->replicas = 1;
        p->wait_error = errors[i];
        begin_replicated(c, 0, 100);
        status = peer_run(p, c, &error);
        assert_int_equal(status, i ? SERIATIM_READONLY : SERIATIM_LOADING);
        reconnect(p, c);
        assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
        assert_int_equal(seriatim_push_result(c).added, 100);
        assert_int_equal(p->pushes, 6);
        assert_once(p, 100);
        free_peer(p);
        seriatim_client_free(c);
    }
}

/* The master dies; the replica that takes its place has nothing that came after the last WAIT. */
static peer *fail_over(peer *p)
{
    peer *next = p->replica ? p->replica : new_peer((unsigned)p->shards);
    next->in = p->in;
    next->replica = NULL;
    next->replicas = 1;
    p->replica = NULL;
    p->in = NULL;
    free_peer(p);
    return next;
}

/*
 * After each answer in turn the connection ends, with that answer or without, and the master goes on or fails over. The
 * next connection ends, too, behind 1 to 7 answers.
 */
static void test_f6_a_cut_at_every_answer_loses_no_replicated_push(void **state)
{
    int cut, how, finished = 0;
    (void)state;
    for (how = 0; how < 64; how++)
        for (cut = 1, finished = 0; !finished; cut++) {
            int lost = how & 1, fails_over = how & 2, reshards = how & 4, more = how >> 3, i, going = 1;
            peer *p = new_peer(3);
            seriatim_client *c = connected_client(3);
            seriatim_error error = {0, ""};
            p->replicas = 1;
            begin_replicated(c, 0, 3700);
            for (i = 1; i <= cut && going; i++)
                going = peer_answer_one(p, c, lost && i == cut);
            if (fails_over)
                p = fail_over(p);
            if (reshards && !fails_over) {
                p->generation++;
                p->shards = 4;
            }
            reconnect(p, c);
            for (i = 0; i < more && peer_answer_one(p, c, 0); i++)
                ;
            if (more && srt_client_status(c) == SERIATIM_AGAIN)
                reconnect(p, c);
            assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
            assert_int_equal(seriatim_push_result(c).added, 3700);
            assert_once(p, 3700);
            finished = !going;
            assert_true(cut < 100);
            free_peer(p);
            seriatim_client_free(c);
        }
}

/* take: of the jobs of a chunk, or 0 for all. */
static void gives_up_behind(int answered, size_t take, const char *text)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    int i;
    p->take = take;
    begin_replicated(c, 0, 100);
    for (i = 0; i < 1 + answered; i++) /* the layout, and chunks */
        peer_answer_one(p, c, 0);
    assert_int_equal(srt_client_give_up(c, SERIATIM_IO, "gone"), SERIATIM_UNKNOWN_OUTCOME);
    assert_string_equal(message(c), text);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_giving_up_before_replicas_are_counted_says_so(void **state)
{
    (void)state;
    gives_up_behind(3, 0,
                    "outcome unknown: 3 of 3 chunks (100 of 100 jobs) are written, maybe on too few replicas: "
                    "shard 0 (39 jobs), shard 1 (28 jobs), shard 2 (33 jobs)");
    gives_up_behind(1, 0,
                    "outcome unknown: 2 of 3 chunks (61 of 100 jobs) were sent and not answered: "
                    "shard 1 (28 jobs), shard 2 (33 jobs); 39 jobs are written, maybe on too few replicas");
    gives_up_behind(3, 30,
                    "outcome unknown: 3 of 3 chunks (88 of 100 jobs) are written, maybe on too few replicas: "
                    "shard 0 (30 jobs), shard 1 (28 jobs), shard 2 (30 jobs); 12 jobs were not written");
    gives_up_behind(1, 30,
                    "outcome unknown: 2 of 3 chunks (61 of 100 jobs) were sent and not answered: "
                    "shard 1 (28 jobs), shard 2 (33 jobs); 30 jobs are written, maybe on too few replicas; "
                    "9 jobs were not written");
}

/* The connection ends when the chunks are answered, before WAIT is: they go again, and are answered again. */
static void test_jobs_that_are_answered_twice_have_the_handles_of_the_later_answer(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = new_client(NULL, 3, "reject");
    seriatim_error error = {0, ""};
    const seriatim_text *handles;
    size_t i, count, none = 0;
    (void)state;
    p->replicas = 1;
    p->refuse_every = 2;
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_replicas(c, 1, 0.25), SERIATIM_OK);
    assert_int_equal(seriatim_push_want_handles(c), SERIATIM_OK);
    assert_int_equal(add_jobs(c, 0, 10), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    while (p->waits == 0)
        assert_true(peer_answer_one(p, c, p->pushes == 3));
    reconnect(p, c);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    handles = seriatim_push_handles(c, &count);
    assert_int_equal(count, 10);
    for (i = 0; i < count; i++)
        none += handles[i].data == NULL;
    assert_true(none >= 5);
    assert_int_equal(none, seriatim_push_result(c).refused);
    free_peer(p);
    seriatim_client_free(c);
}

/* ---- Two queues, one of which gets another number of shards ---------------------------------- */

#define LAYOUT_THAT_MOVES "$9\r\n7 3 4 2 3\r\n"
#define WITH_REPLICA "*3\r\n$6\r\nmaster\r\n:0\r\n*1\r\n*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n0\r\n"

static seriatim_client *client_of_two(void)
{
    seriatim_client *c = connected_client(2);
    seriatim_queue_settings settings;
    size_t queue;
    c->as_in_cluster = 1;
    seriatim_queue_settings_init(&settings);
    settings.name = "R";
    settings.name_len = 1;
    settings.shards_count = 2;
    assert_int_equal(seriatim_client_queue(c, &settings, &queue), SERIATIM_OK);
    assert_int_equal(queue, 1);
    return c;
}

/* What the client sends, which is taken. */
static const char *sent(seriatim_client *c)
{
    static char text[8192];
    const char *data;
    size_t len;
    srt_client_output(c, &data, &len);
    assert_true(len < sizeof text);
    memcpy(text, data, len);
    text[len] = '\0';
    srt_client_sent(c, len);
    return text;
}

#define MOVED_JOBS 20 /* enough for it to be asked whether their ids are still in the old shard */

/* Does id-NUMBER lie in shard 0 of 2 and in shard 1 of 3? */
static int moves(int number)
{
    char id[32];
    snprintf(id, sizeof id, "id-%d", number);
    return seriatim_shard_of(id, strlen(id), 2) == 0 && seriatim_shard_of(id, strlen(id), 3) == 1;
}

/* A job to Q, which comes at this place, and MOVED_JOBS to R. The question for their ids is sent. */
static void push_to_both(seriatim_client *c, size_t place)
{
    static const char *const layouts[] = {"$5\r\n1 2 3\r\n", LAYOUT_THAT_MOVES};
    int number, added = 0;
    size_t i;
    assert_int_equal(seriatim_pipeline_begin(c), SERIATIM_OK);
    for (i = 0; i < 2; i++) {
        assert_int_equal(seriatim_pipeline_push(c, i != place), SERIATIM_OK);
        assert_int_equal(seriatim_push_replicas(c, 1, 0.25), SERIATIM_OK);
        if (i == place)
            assert_int_equal(add_job(c, "a", "{}"), SERIATIM_OK);
        for (number = 0; i != place && added < MOVED_JOBS; number++) {
            if (!moves(number))
                continue;
            assert_int_equal(add_jobs(c, number, 1), SERIATIM_OK);
            added++;
        }
    }
    assert_int_equal(seriatim_pipeline_send(c), SERIATIM_OK);
    for (i = 0; i < 2; i++)
        assert_int_equal(says(c, layouts[strstr(sent(c), "{Q}:layout") == NULL]), SERIATIM_OK);
    sent(c);
}

static void sends(seriatim_client *c, const char *word)
{
    assert_non_null(strstr(sent(c), word));
}

static void hears_of_push(seriatim_client *c)
{
    assert_int_equal(says(c, "$5\r\n1 1 0\r\n"), SERIATIM_OK);
}

/* No id is in the old shard. */
static void hears_of_absence(seriatim_client *c)
{
    assert_int_equal(says(c, "$4\r\n5000\r\n"), SERIATIM_OK);
}

/* The WAIT that follows counts the replicas of Q; ROLE is about the ids of R. */
static void hears_that_ids_have_moved(seriatim_client *c)
{
    const char *text;
    push_to_both(c, 0);
    hears_of_push(c);
    hears_of_absence(c);
    text = sent(c);
    assert_non_null(strstr(text, "WAIT"));
    assert_non_null(strstr(text, "ROLE"));
}

/* No replica of R knows that the ids have left: that queue waits, and the other one is done. */
static void assert_only_one_waits(seriatim_client *c, size_t place)
{
    seriatim_push_counts counts;
    seriatim_error error;
    sends(c, "WAIT");
    assert_int_equal(says(c, ":0\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_give_up(c, SERIATIM_TIMEOUT, "late"), SERIATIM_TIMEOUT);
    assert_int_equal(seriatim_pipeline_result(c, place, &counts, &error), SERIATIM_OK);
    assert_int_equal(counts.added, 1);
    assert_int_equal(seriatim_pipeline_result(c, 1 - place, &counts, &error), SERIATIM_TIMEOUT);
    seriatim_client_free(c);
}

static void test_moved_ids_are_followed_while_replicas_of_another_queue_are_counted(void **state)
{
    seriatim_client *c = client_of_two();
    (void)state;
    hears_that_ids_have_moved(c);
    assert_int_equal(says(c, ":1\r\n"), SERIATIM_OK);
    assert_int_equal(says(c, WITH_REPLICA), SERIATIM_OK);
    assert_only_one_waits(c, 0);
}

static void test_replicas_of_a_queue_are_counted_while_moved_ids_of_another_are_followed(void **state)
{
    seriatim_client *c = client_of_two();
    (void)state;
    push_to_both(c, 1);
    hears_of_absence(c);
    sends(c, "ROLE");
    hears_of_push(c);
    sends(c, "WAIT");
    assert_int_equal(says(c, WITH_REPLICA), SERIATIM_OK);
    assert_int_equal(says(c, ":1\r\n"), SERIATIM_OK);
    assert_only_one_waits(c, 1);
}

static void test_moved_ids_are_followed_though_wait_is_refused_to_another_queue(void **state)
{
    seriatim_client *c = client_of_two();
    seriatim_push_counts counts;
    seriatim_error error;
    (void)state;
    hears_that_ids_have_moved(c);
    assert_int_equal(says(c, "-NOPERM this user has no permissions to run the 'wait' command\r\n"), SERIATIM_OK);
    assert_int_equal(says(c, WITH_REPLICA), SERIATIM_OK);
    sends(c, "WAIT");
    assert_int_equal(says(c, ":1\r\n"), SERIATIM_OK);
    sends(c, "{R/1}");
    assert_int_equal(says(c, "$7\r\n20 20 0\r\n"), SERIATIM_OK);
    sends(c, "WAIT");
    assert_int_equal(says(c, ":1\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_REPLICAS);
    assert_int_equal(seriatim_pipeline_result(c, 0, &counts, &error), SERIATIM_REPLICAS);
    assert_int_equal(seriatim_pipeline_result(c, 1, &counts, &error), SERIATIM_OK);
    assert_int_equal(counts.added, MOVED_JOBS);
    seriatim_client_free(c);
}

static void test_moved_ids_are_followed_though_the_connection_ends_before_wait_is_answered(void **state)
{
    seriatim_client *c = client_of_two();
    (void)state;
    hears_that_ids_have_moved(c);
    srt_client_disconnected(c);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    sends(c, "{Q/");
    hears_of_push(c);
    sends(c, "WAIT");
    assert_int_equal(says(c, ":1\r\n"), SERIATIM_OK);
    assert_true(srt_client_sleeps(c) >= 0);
    srt_client_wake(c);
    sends(c, "{R}:layout");
    assert_int_equal(says(c, LAYOUT_THAT_MOVES), SERIATIM_OK);
    sends(c, " here");
    assert_int_equal(says(c, "$7\r\n20 20 0\r\n"), SERIATIM_OK);
    sends(c, "WAIT");
    assert_int_equal(says(c, ":1\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    seriatim_client_free(c);
}

/* The old shard has not written the job, whose id has moved. */
static void test_a_job_that_was_not_written_is_not_in_doubt(void **state)
{
    seriatim_client *c = client_of_two();
    int number = 0;
    (void)state;
    while (!moves(number))
        number++;
    begin_replicated(c, number, 1);
    sends(c, "{Q}:layout");
    assert_int_equal(says(c, LAYOUT_THAT_MOVES), SERIATIM_OK);
    sends(c, " here");
    assert_int_equal(says(c, "$11\r\n1 0 0 k5 lm\r\n"), SERIATIM_OK);
    sends(c, "WAIT");
    assert_int_equal(srt_client_give_up(c, SERIATIM_TIMEOUT, "late"), SERIATIM_TIMEOUT);
    assert_string_equal(message(c), "late");
    seriatim_client_free(c);
}

static void test_settings_of_replicas_are_checked(void **state)
{
    static const struct {
        int64_t count;
        double timeout;
        const char *names;
    } cases[] = {{-1, 1, "wait_replicas"}, {1001, 1, "wait_replicas"}, {1, 0, "wait_timeout"},
                 {1, -1, "wait_timeout"},  {1, 10.01, "wait_timeout"}, {1, NAN, "wait_timeout"}};
    seriatim_client *c = connected_client(3);
    size_t i;
    (void)state;
    assert_int_equal(seriatim_push_replicas(c, 1, 1), SERIATIM_INVALID);
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
        assert_int_equal(seriatim_push_replicas(c, cases[i].count, cases[i].timeout), SERIATIM_INVALID);
        assert_non_null(strstr(message(c), cases[i].names));
        assert_int_equal(add_job(c, "a", "1"), SERIATIM_INVALID);
        assert_int_equal(seriatim_push_send(c), SERIATIM_INVALID);
    }
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_replicas(c, 0, 0.001), SERIATIM_OK);
    assert_int_equal(seriatim_push_replicas(c, 1000, 10), SERIATIM_OK);
    seriatim_client_free(c);
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* A push of 3,000 jobs, each wave of which loses its connection once before its replicas are counted. */
static int push_replicated_with(const seriatim_options *options)
{
    peer *p = new_peer(3);
    seriatim_client *c = new_client(options, 3, "keep");
    seriatim_error error = {0, ""};
    int status = SERIATIM_NOMEM, i;
    p->replicas = 1;
    if (c && srt_client_connected(c, NULL, NULL, 0) == SERIATIM_OK && seriatim_push_begin(c, 0) == SERIATIM_OK) {
        seriatim_push_replicas(c, 1, 1);
        add_jobs(c, 0, 3000);
        status = seriatim_push_send(c);
        for (i = 0; i < 3 && status == SERIATIM_OK && srt_client_status(c) == SERIATIM_AGAIN; i++) {
            p->wait_error = "-UNBLOCKED force unblock\r\n";
            peer_run(p, c, &error);
            p->wait_error = NULL;
            p->in_len = 0;
            p->written_here = 0;
            srt_client_disconnected(c);
            status = srt_client_connected(c, NULL, NULL, 0);
        }
        if (status == SERIATIM_OK)
            status = peer_run(p, c, &error);
        if (srt_client_status(c) == SERIATIM_AGAIN)
            status = srt_client_give_up(c, SERIATIM_NOMEM, "out of memory");
        else
            status = srt_client_status(c);
    }
    assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM || status == SERIATIM_UNKNOWN_OUTCOME);
    assert_int_equal(p->doubled, 0);
    if (status == SERIATIM_OK)
        assert_int_equal(seriatim_push_result(c).added, 3000);
    seriatim_client_free(c);
    free_peer(p);
    return status == SERIATIM_OK;
}

static void test_every_allocation_of_a_replicated_push_may_fail(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(push_replicated_with);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas_are_counted),
        cmocka_unit_test(test_too_few_replicas_are_an_error),
        cmocka_unit_test(test_a_push_is_sent_again_when_its_master_became_a_replica),
        cmocka_unit_test(test_f6_a_cut_at_every_answer_loses_no_replicated_push),
        cmocka_unit_test(test_jobs_that_are_answered_twice_have_the_handles_of_the_later_answer),
        cmocka_unit_test(test_giving_up_before_replicas_are_counted_says_so),
        cmocka_unit_test(test_moved_ids_are_followed_while_replicas_of_another_queue_are_counted),
        cmocka_unit_test(test_replicas_of_a_queue_are_counted_while_moved_ids_of_another_are_followed),
        cmocka_unit_test(test_moved_ids_are_followed_though_wait_is_refused_to_another_queue),
        cmocka_unit_test(test_moved_ids_are_followed_though_the_connection_ends_before_wait_is_answered),
        cmocka_unit_test(test_a_job_that_was_not_written_is_not_in_doubt),
        cmocka_unit_test(test_settings_of_replicas_are_checked),
        cmocka_unit_test(test_every_allocation_of_a_replicated_push_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

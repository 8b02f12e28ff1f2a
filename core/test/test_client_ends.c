/* test_client_ends.c - misuse of a client, pushes that are given up, forks, and missing memory; against a scripted
 * peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "peer.h"

/* ---- Misuse, giving up, forks --------------------------------------------------------------- */

static void test_a_second_operation_is_refused_while_one_runs(void **state)
{
    seriatim_client *c = new_client(NULL, 5, "keep");
    (void)state;
    assert_int_equal(add_job(c, "a", ""), SERIATIM_INVALID);
    assert_string_equal(message(c), "no push was begun");
    assert_int_equal(seriatim_push_send(c), SERIATIM_INVALID);
    assert_int_equal(seriatim_push_begin(c, 7), SERIATIM_INVALID);
    assert_string_equal(message(c), "there is no queue with the number 7");
    assert_int_equal(seriatim_layout_begin(c, 7), SERIATIM_INVALID);
    assert_int_equal(srt_client_status(c), SERIATIM_INVALID);
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_INVALID);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_INVALID);
    assert_string_equal(message(c), "the client is busy with another operation");
    assert_int_equal(srt_client_status(c), SERIATIM_AGAIN);
    assert_int_equal(srt_client_give_up(c, SERIATIM_CLOSED, "enough"), SERIATIM_CLOSED);
    assert_string_equal(message(c), "enough");
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    seriatim_client_free(c);
}

/* The answer that is owed would be taken for one of the next operation. */
static void test_a_send_without_a_begin_leaves_the_operation_alone(void **state)
{
    seriatim_client *c = connected_client(2);
    int pipelines;
    (void)state;
    for (pipelines = 0; pipelines < 2; pipelines++) {
        assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_OK);
        assert_int_equal(pipelines ? seriatim_pipeline_send(c) : seriatim_push_send(c), SERIATIM_INVALID);
        assert_string_equal(message(c), "the client is busy with another operation");
        assert_int_equal(srt_client_status(c), SERIATIM_AGAIN);
        assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_INVALID);
        assert_int_equal(says(c, "$5\r\n1 2 3\r\n"), SERIATIM_OK);
        assert_int_equal(srt_client_status(c), SERIATIM_OK);
    }
    seriatim_client_free(c);
}

static void test_the_begin_of_another_operation_ends_a_pipeline_that_was_not_sent(void **state)
{
    seriatim_client *c = connected_client(2);
    (void)state;
    assert_int_equal(seriatim_pipeline_begin(c), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_push(c, 0), SERIATIM_OK);
    assert_int_equal(add_job(c, "a", "1"), SERIATIM_OK);
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_push(c, 0), SERIATIM_INVALID);
    assert_string_equal(message(c), "no pipeline was begun");
    assert_int_equal(add_job(c, "b", "1"), SERIATIM_INVALID);
    assert_int_equal(says(c, "$5\r\n1 2 3\r\n"), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_send(c), SERIATIM_INVALID);
    assert_string_equal(message(c), "no pipeline was begun");
    seriatim_client_free(c);
}

static void test_a_queue_that_does_not_exist_has_no_layout(void **state)
{
    seriatim_client *c = connected_client(0);
    (void)state;
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_OK);
    assert_int_equal(says(c, "$0\r\n\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_layout_shards(c, 0), 0);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_job(c, "a", "1");
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(says(c, "$0\r\n\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_INVALID);
    assert_string_equal(message(c), "the queue does not exist, and shards_count is 0");
    seriatim_client_free(c);
}

/* The next push finds that the queue does not exist, before anything is written. */
static void assert_next_push_is_refused(seriatim_client *c)
{
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_job(c, "a", "1");
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(says(c, "$0\r\n\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_INVALID);
}

/*
 * Its shards have refused the layout that the client read before. `first`: what shard 0 of two says; shard 1
 * refuses. A mistake of the program would be INVALID, after which nothing is written.
 */
static void test_a_push_whose_queue_is_deleted_meanwhile_is_no_misuse(void **state)
{
    static const struct {
        const char *first, *said;
    } rows[] = {
        {"-GENERATION 3\r\n", "the queue was deleted meanwhile, and shards_count is 0"},
        {"$5\r\n1 1 0\r\n",
         "the queue was deleted meanwhile, and shards_count is 0: 1 of 2 chunks (1 of 2 jobs) were not written"}};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        seriatim_client *c = connected_client(0);
        assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
        add_job(c, "id-0", "1");
        add_job(c, "id-4", "1");
        assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
        assert_int_equal(says(c, "$5\r\n2 2 3\r\n"), SERIATIM_OK);
        assert_int_equal(says(c, rows[i].first), SERIATIM_OK);
        assert_int_equal(says(c, "-GENERATION 3\r\n"), SERIATIM_OK);
        assert_int_equal(srt_client_status(c), SERIATIM_AGAIN);
        assert_int_equal(says(c, "$0\r\n\r\n"), SERIATIM_OK);
        assert_int_equal(srt_client_status(c), SERIATIM_GENERATION);
        assert_string_equal(message(c), rows[i].said);
        assert_int_equal(seriatim_push_result(c).added, i);
        assert_next_push_is_refused(c);
        seriatim_client_free(c);
    }
}

static void test_asking_for_the_layout_reads_it_again(void **state)
{
    peer *p = new_peer(2);
    seriatim_client *c = connected_client(2);
    seriatim_error error;
    (void)state;
    assert_int_equal(push_range(p, c, 0, 1), SERIATIM_OK);
    p->generation = 2;
    p->shards = 9;
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_OK);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_int_equal(seriatim_layout_shards(c, 0), 9);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_f25_giving_up_names_the_chunks(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    seriatim_error error;
    const char *data;
    char out[16384];
    size_t len;
    (void)state;
    assert_int_equal(push_range(p, c, 0, 1), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 1, 3000);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    srt_client_give_up(c, SERIATIM_IO, "cannot connect");
    assert_int_equal(srt_client_status(c), SERIATIM_IO); /* nothing left */
    assert_string_equal(message(c), "cannot connect");
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 1, 3000);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    srt_client_output(c, &data, &len);
    srt_client_sent(c, len / 2); /* into the second chunk */
    srt_client_disconnected(c);
    srt_client_give_up(c, SERIATIM_IO, "cannot connect");
    assert_int_equal(srt_client_status(c), SERIATIM_UNKNOWN_OUTCOME);
    assert_string_equal(message(c), "outcome unknown: 2 of 5 chunks (1,965 of 3,000 jobs) were sent and not answered: "
                                    "shard 0 (1,000 jobs), shard 1 (965 jobs); 1,035 jobs were not written");
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 1, 3000);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    peer_take(p, c);
    peer_parse(p);
    peer_answer(p, out, sizeof out);
    peer_say(p, c, out, &error);
    srt_client_give_up(c, SERIATIM_TIMEOUT, "timed out");
    assert_int_equal(srt_client_status(c), SERIATIM_UNKNOWN_OUTCOME);
    assert_true(seriatim_push_result(c).added > 0);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_f15_refusals_end_the_connection_or_the_operation(void **state)
{
    seriatim_options options = {0};
    seriatim_error error;
    seriatim_client *c;
    (void)state;
    options.name = "tester";
    c = new_client(&options, 5, "keep");
    assert_int_equal(srt_client_connected(c, "user", "secret", 3), SERIATIM_OK);
    hears(c,
          "*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$6\r\nsecret\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
          "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$6\r\ntester\r\n",
          100);
    assert_int_equal(srt_client_input(c, "-WRONGPASS no\r\n", 15, &error), SERIATIM_AUTH);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_OK);
    assert_int_equal(says(c, "+OK\r\n-NOPERM this user has no permissions\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_AUTH);
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_OK);
    assert_int_equal(says(c, "-ERR what\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_SERVER);
    assert_int_equal(says(c, "+unasked\r\n"), SERIATIM_PROTOCOL);
    seriatim_client_free(c);
}

static void test_hostile_answers_end_in_an_error(void **state)
{
    static const char *const answers[] = {"$0\r\n\r\n",         "$1\r\n1\r\n",
                                          "$5\r\n2 1 1\r\n",    "$5\r\n2 3 0\r\n",
                                          "$6\r\n99 2 0\r\n",   "*0\r\n",
                                          "*2\r\n:1\r\n:1\r\n", ":2\r\n",
                                          "+2 2 0\r\n",         "$-1\r\n",
                                          "$7\r\n2 2 0 x\r\n",  "$7\r\n2 1 0 3\r\n",
                                          "$7\r\n2 1 0 0\r\n",  "$7\r\n2 1 0 1\r\n",
                                          "$5\r\n2 2 0\r\n",    "$15\r\n2 99999999999 0\r\n",
                                          "$5\r\n-1 3 0\r\n",   "$5\r\n0 0 0\r\n",
                                          "$5\r\n3 3 0\r\n",    "$5\r\n1 2 0\r\n"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof answers / sizeof *answers; i++) {
        seriatim_client *c = connected_client(1);
        assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
        add_jobs(c, 0, 2);
        assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
        assert_int_equal(says(c, "$5\r\n1 1 3\r\n"), SERIATIM_OK);
        says(c, answers[i]);
        if (i == 2 || i == 14)
            assert_int_equal(srt_client_status(c), SERIATIM_OK);
        else
            assert_true(srt_client_status(c) == SERIATIM_PROTOCOL || srt_client_status(c) == SERIATIM_AGAIN);
        seriatim_client_free(c);
    }
}

static void test_a_fork_keeps_only_what_is_not_sent(void **state)
{
    static const unsigned char other[16] = {0xff};
    peer *p = new_peer(2);
    seriatim_client *c = connected_client(2);
    seriatim_error error;
    (void)state;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 0, 5);
    srt_client_forked(c, other);
    assert_string_equal(c->identity, "ff000000000000000000000000000000");
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_once(p, 5);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 5, 5);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    srt_client_forked(c, other);
    assert_int_equal(srt_client_status(c), SERIATIM_CLOSED);
    assert_int_equal(srt_client_waits(c), 0);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_without_random_bytes_a_push_is_refused(void **state)
{
    seriatim_client *c = new_client(NULL, 1, "keep");
    (void)state;
    srt_client_forked(c, NULL);
    assert_string_equal(c->identity, "");
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 0, 1);
    assert_int_equal(seriatim_push_send(c), SERIATIM_INVALID);
    assert_string_equal(message(c), "the client has no identity yet");
    srt_client_identify(c, random_bytes);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 0, 1);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    seriatim_client_free(c);
}

static void test_a_kept_connection_is_not_greeted_again(void **state)
{
    const seriatim_options options = {NULL, NULL, "named", 0, NULL};
    seriatim_client *c = new_client(&options, 1, "keep");
    const char *data;
    size_t len;
    (void)state;
    assert_int_equal(srt_client_connected(c, "user", "secret", 3), SERIATIM_OK);
    srt_client_output(c, &data, &len);
    assert_true(len > 0);
    srt_client_disconnected(c);
    assert_int_equal(srt_client_connected_again(c), SERIATIM_OK);
    srt_client_output(c, &data, &len);
    assert_int_equal(len, 0);
    assert_int_equal(seriatim_health_begin(c), SERIATIM_OK);
    srt_client_output(c, &data, &len);
    assert_memory_equal(data, "*", 1);
    assert_true(len < 30); /* INFO alone */
    seriatim_client_free(c);
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* A whole push of 3,000 jobs; 1 when it came to its end without a failure. */
static int push_with(const seriatim_options *options)
{
    peer *p = new_peer(3);
    seriatim_client *c = new_client(options, 3, "reject");
    seriatim_error error = {0, ""};
    int status = SERIATIM_NOMEM, done;
    p->refuse_every = 50;
    if (c && srt_client_connected(c, NULL, NULL, 0) == SERIATIM_OK && seriatim_push_begin(c, 0) == SERIATIM_OK) {
        add_jobs(c, 0, 3000);
        status = seriatim_push_send(c);
        if (status == SERIATIM_OK)
            status = peer_run(p, c, &error);
        if (status == SERIATIM_AGAIN || srt_client_status(c) == SERIATIM_AGAIN)
            status = srt_client_give_up(c, SERIATIM_NOMEM, "out of memory");
    }
    assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM || status == SERIATIM_UNKNOWN_OUTCOME);
    assert_int_equal(p->doubled, 0);
    done = status == SERIATIM_OK;
    if (done)
        assert_int_equal(seriatim_push_result(c).added + seriatim_push_result(c).refused, 3000);
    else if (c && status == SERIATIM_NOMEM)
        assert_int_equal(seriatim_push_result(c).added + seriatim_push_result(c).refused, p->jobs);
    seriatim_client_free(c);
    free_peer(p);
    return done;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(push_with);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_second_operation_is_refused_while_one_runs),
        cmocka_unit_test(test_a_send_without_a_begin_leaves_the_operation_alone),
        cmocka_unit_test(test_the_begin_of_another_operation_ends_a_pipeline_that_was_not_sent),
        cmocka_unit_test(test_a_queue_that_does_not_exist_has_no_layout),
        cmocka_unit_test(test_a_push_whose_queue_is_deleted_meanwhile_is_no_misuse),
        cmocka_unit_test(test_asking_for_the_layout_reads_it_again),
        cmocka_unit_test(test_f25_giving_up_names_the_chunks),
        cmocka_unit_test(test_f15_refusals_end_the_connection_or_the_operation),
        cmocka_unit_test(test_hostile_answers_end_in_an_error),
        cmocka_unit_test(test_a_fork_keeps_only_what_is_not_sent),
        cmocka_unit_test(test_without_random_bytes_a_push_is_refused),
        cmocka_unit_test(test_a_kept_connection_is_not_greeted_again),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_pipeline_layout.c - pipelines in which the layout of a queue cannot be loaded, or is there no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "peer.h"

#define LAYOUT "$5\r\n2 1 3\r\n"
#define NO_QUEUE "*1\r\n$0\r\n\r\n"
#define ADDED "$7\r\n10 10 0\r\n"

static const struct {
    const char *answer;
    int status;
} unloaded[] = {{"$5\r\n3 1 9\r\n", SERIATIM_UNSUPPORTED}, /* of a later version */
                {"*3\r\n$5\r\n3 1 3\r\n:1\r\n:1\r\n", SERIATIM_PROTOCOL},
                {"-WRONGTYPE x\r\n", SERIATIM_SERVER},
                {"-NOPERM no\r\n", SERIATIM_AUTH}};
#define UNLOADED (sizeof unloaded / sizeof *unloaded)

static void send_ten_to_each(seriatim_client *c)
{
    size_t queue;
    assert_int_equal(seriatim_pipeline_begin(c), SERIATIM_OK);
    for (queue = 0; queue < 2; queue++) {
        assert_int_equal(seriatim_pipeline_push(c, queue), SERIATIM_OK);
        assert_int_equal(add_jobs(c, 10 * (int)queue, 10), SERIATIM_OK);
    }
    assert_int_equal(seriatim_pipeline_send(c), SERIATIM_OK);
}

/*
 * Ten jobs for each of the queues Q and R are on their way. The layout of Q is asked for. shards: the setting of both;
 * 0: what Redis says
 */
static seriatim_client *client_with(int64_t shards)
{
    seriatim_client *c = connected_client(shards);
    seriatim_queue_settings settings;
    size_t queue;
    seriatim_queue_settings_init(&settings);
    settings.name = "R";
    settings.name_len = 1;
    settings.shards_count = shards;
    assert_int_equal(seriatim_client_queue(c, &settings, &queue), SERIATIM_OK);
    send_ten_to_each(c);
    return c;
}

static seriatim_client *client_of_two(void)
{
    return client_with(1);
}

/* The word is to stand in what the client sends, which is taken. */
static void sends(seriatim_client *c, const char *word)
{
    const char *data;
    size_t len, i;
    int found = 0;
    srt_client_output(c, &data, &len);
    for (i = 0; i + strlen(word) <= len; i++)
        found |= memcmp(data + i, word, strlen(word)) == 0;
    if (!found)
        fail_msg("%s: %.*s", word, (int)len, data);
    srt_client_sent(c, len);
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
    assert_int_equal(counts.added, status == SERIATIM_OK ? 10 : 0);
}

/* The operation ends with the error of this queue, and names no other. */
static void assert_failed_alone(const seriatim_client *c, size_t number, int status)
{
    assert_int_equal(srt_client_status(c), status);
    assert_result(c, number, status);
    assert_result(c, 1 - number, SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_outcome(c, number, 0), SERIATIM_JOB_UNWRITTEN);
    assert_non_null(strstr(message(c), number ? "queue R: " : "queue Q: "));
    assert_null(strstr(message(c), number ? "queue Q: " : "queue R: "));
}

static void test_r_pipe_3_a_layout_that_cannot_be_loaded_fails_its_queue_alone(void **state)
{
    size_t i, place;
    (void)state;
    for (i = 0; i < UNLOADED; i++)
        for (place = 0; place < 2; place++) {
            seriatim_client *c = client_of_two();
            sends(c, "{Q}:layout");
            hears_of(c, place == 0 ? unloaded[i].answer : LAYOUT);
            sends(c, "{R}:layout");
            hears_of(c, place == 1 ? unloaded[i].answer : LAYOUT);
            sends(c, place == 0 ? "{R/0}" : "{Q/0}");
            hears_of(c, ADDED);
            assert_failed_alone(c, place, unloaded[i].status);
            seriatim_client_free(c);
        }
}

/* Its shard has refused what was sent, so nothing of it is in doubt. */
static void test_r_pipe_3_a_new_layout_that_cannot_be_loaded_fails_its_queue_alone(void **state)
{
    size_t i;
    (void)state;
    for (i = 0; i < UNLOADED; i++) {
        seriatim_client *c = client_of_two();
        hears_of(c, LAYOUT);
        hears_of(c, LAYOUT);
        sends(c, "id-19");
        hears_of(c, "-GENERATION 3\r\n");
        sends(c, "{Q}:layout");
        hears_of(c, "$5\r\n9 9 0\r\n"); /* R took nine of its jobs */
        sends(c, "{R/0}");
        hears_of(c, unloaded[i].answer);
        hears_of(c, "$5\r\n1 1 0\r\n");
        assert_failed_alone(c, 0, unloaded[i].status);
        seriatim_client_free(c);
    }
}

static void test_a_pipeline_ends_where_no_layout_can_be_loaded(void **state)
{
    seriatim_client *c = client_of_two();
    (void)state;
    hears_of(c, unloaded[0].answer);
    hears_of(c, "-NOPERM no\r\n");
    assert_int_equal(srt_client_status(c), SERIATIM_UNSUPPORTED);
    assert_result(c, 0, SERIATIM_UNSUPPORTED);
    assert_result(c, 1, SERIATIM_AUTH);
    seriatim_client_free(c);
}

static void test_r_pipe_3_a_layout_that_cannot_be_loaded_is_told_after_a_timeout(void **state)
{
    seriatim_client *c = client_of_two();
    (void)state;
    hears_of(c, unloaded[0].answer);
    hears_of(c, LAYOUT);
    sends(c, "{R/0}");
    assert_int_equal(srt_client_give_up(c, SERIATIM_TIMEOUT, "late"), SERIATIM_UNKNOWN_OUTCOME);
    assert_result(c, 0, SERIATIM_UNSUPPORTED);
    assert_result(c, 1, SERIATIM_UNKNOWN_OUTCOME);
    assert_int_equal(seriatim_pipeline_outcome(c, 0, 0), SERIATIM_JOB_UNWRITTEN);
    seriatim_client_free(c);
}

/* It is Q or R; in the last case R has one more job to send when Q is found to be deleted. */
static void test_r_pipe_3_a_queue_that_is_deleted_meanwhile_fails_alone(void **state)
{
    static const struct {
        size_t place;
        const char *answers[2], *last;
    } cases[] = {{0, {"-GENERATION 3\r\n", ADDED}, NULL},
                 {1, {ADDED, "-GENERATION 3\r\n"}, NULL},
                 {0, {"-GENERATION 3\r\n", "$5\r\n9 9 0\r\n"}, "$5\r\n1 1 0\r\n"}};
    size_t i;
    (void)state;
    for (i = 0; i < 3; i++) {
        seriatim_client *c = client_with(0);
        const char *layout = cases[i].place ? "{R}:layout" : "{Q}:layout";
        hears_of(c, LAYOUT);
        hears_of(c, LAYOUT);
        sends(c, "id-19");
        hears_of(c, cases[i].answers[0]);
        if (cases[i].place == 0)
            sends(c, layout);
        hears_of(c, cases[i].answers[1]);
        sends(c, cases[i].place ? layout : cases[i].last ? "{R/0}" : "");
        hears_of(c, NO_QUEUE);
        if (cases[i].last)
            hears_of(c, cases[i].last);
        assert_failed_alone(c, cases[i].place, SERIATIM_GENERATION);
        assert_non_null(strstr(message(c), "the queue was deleted"));
        seriatim_client_free(c);
    }
}

/* The layout that was deleted is not kept. */
static void test_r_pipe_2_the_pipeline_after_that_of_a_deleted_queue_is_refused(void **state)
{
    seriatim_client *c = client_with(0);
    (void)state;
    hears_of(c, LAYOUT);
    hears_of(c, LAYOUT);
    hears_of(c, "-GENERATION 3\r\n");
    hears_of(c, ADDED);
    sends(c, "{Q}:layout");
    hears_of(c, NO_QUEUE);
    assert_failed_alone(c, 0, SERIATIM_GENERATION);
    send_ten_to_each(c);
    sends(c, "{Q}:layout");
    hears_of(c, NO_QUEUE);
    assert_int_equal(srt_client_status(c), SERIATIM_INVALID);
    assert_result(c, 0, SERIATIM_INVALID);
    assert_result(c, 1, SERIATIM_INVALID);
    seriatim_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_pipe_3_a_layout_that_cannot_be_loaded_fails_its_queue_alone),
        cmocka_unit_test(test_r_pipe_3_a_new_layout_that_cannot_be_loaded_fails_its_queue_alone),
        cmocka_unit_test(test_r_pipe_3_a_queue_that_is_deleted_meanwhile_fails_alone),
        cmocka_unit_test(test_r_pipe_2_the_pipeline_after_that_of_a_deleted_queue_is_refused),
        cmocka_unit_test(test_a_pipeline_ends_where_no_layout_can_be_loaded),
        cmocka_unit_test(test_r_pipe_3_a_layout_that_cannot_be_loaded_is_told_after_a_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

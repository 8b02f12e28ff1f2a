/* test_push_outbox.c - pushes of the numbered jobs of an outbox, against a real redis-server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "link_fixture.h"

static void begin(seriatim_link *link, const char *outbox)
{
    assert_int_equal(seriatim_push_begin(seriatim_link_client(link), 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_outbox(seriatim_link_client(link), outbox), SERIATIM_OK);
}

static int add(seriatim_link *link, const char *id, int64_t number, const char *payload, const char *on_waiting)
{
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = strlen(id);
    job.payload = payload;
    job.payload_len = strlen(payload);
    job.on_waiting = on_waiting;
    job.number = number;
    return seriatim_push_job(seriatim_link_client(link), &job);
}

static int end(seriatim_link *link)
{
    assert_int_equal(seriatim_push_send(seriatim_link_client(link)), SERIATIM_OK);
    return link_drive(link);
}

/* Pushes the jobs with these numbers, one for an id, and returns the counts. */
static seriatim_push_counts push_range(seriatim_link *link, const char *outbox, int from, int to)
{
    int i;
    begin(link, outbox);
    for (i = from; i <= to; i++) {
        char id[32];
        snprintf(id, sizeof id, "id-%d", i % 7);
        assert_int_equal(add(link, id, i, "1", NULL), SERIATIM_OK);
    }
    if (end(link) != SERIATIM_OK)
        fail_msg("%s", link_message(link));
    return seriatim_push_result(seriatim_link_client(link));
}

static void test_r_outbox_1_a_job_that_is_pushed_again_is_written_once(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "once", 3, "list"), *other;
    seriatim_push_counts counts = push_range(link, "o", 1, 20);
    assert_int_equal(counts.added + counts.folded, 20);
    assert_int_equal(counts.repeated, 0);
    assert_int_equal(push_range(link, "o", 1, 20).repeated, 20);
    seriatim_link_free(link);
    other = link_to_queue(s->url, "once", 3, "list"); /* as after a crash: nobody remembers the push itself */
    counts = push_range(other, "o", 6, 30);
    assert_int_equal(counts.repeated, 15);
    assert_int_equal(counts.added + counts.folded, 10);
    assert_int_equal(waiting_payloads(s, "once", 3), 30);
    assert_int_equal(ask_redis(s, "PTTL seriatim:{once/0}:outbox:o"), -1);
    counts = push_range(other, "another", 1, 5);
    assert_int_equal(counts.repeated, 0);
    assert_int_equal(waiting_payloads(s, "once", 3), 35);
    seriatim_link_free(other);
}

static void test_refused_jobs_are_counted_behind_those_that_were_written(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "places", 1, "list");
    size_t count;
    const size_t *places;
    push_range(link, "o", 1, 3);
    begin(link, "o");
    assert_int_equal(add(link, "id-2", 2, "1", NULL), SERIATIM_OK);
    assert_int_equal(add(link, "id-3", 3, "1", NULL), SERIATIM_OK);
    assert_int_equal(add(link, "id-1", 4, "1", "reject"), SERIATIM_OK);
    assert_int_equal(add(link, "new", 5, "1", "reject"), SERIATIM_OK);
    assert_int_equal(end(link), SERIATIM_OK);
    places = seriatim_push_refused(seriatim_link_client(link), &count);
    assert_int_equal(count, 1);
    assert_int_equal(places[0], 2);
    assert_int_equal(seriatim_push_result(seriatim_link_client(link)).repeated, 2);
    assert_int_equal(seriatim_push_result(seriatim_link_client(link)).added, 1);
    assert_int_equal(waiting_payloads(s, "places", 1), 4);
    seriatim_link_free(link);
}

/* If it were, its number would make the shard refuse the jobs of the first chunk for ever. */
static void test_r_outbox_2_a_later_chunk_is_not_written_before_one_that_was_refused(void **state)
{
    static char large[3000];
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "chunks", 1, "list");
    int i, round;
    memset(large, '1', sizeof large - 1);
    ask_redis(s, "SET seriatim:{chunks/0}:spill:large wrong-type");
    for (round = 0; round < 2; round++) {
        begin(link, "o");
        assert_int_equal(add(link, "large", 1, large, NULL), SERIATIM_OK);
        for (i = 2; i <= 1500; i++) {
            char id[32];
            snprintf(id, sizeof id, "id-%d", i);
            assert_int_equal(add(link, id, i, "1", NULL), SERIATIM_OK);
        }
        if (round == 0) {
            assert_int_not_equal(end(link), SERIATIM_OK);
            assert_int_equal(waiting_payloads(s, "chunks", 1), 0);
            ask_redis(s, "DEL seriatim:{chunks/0}:spill:large");
        }
    }
    assert_int_equal(end(link), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(seriatim_link_client(link)).repeated, 0);
    assert_int_equal(seriatim_push_result(seriatim_link_client(link)).added, 1500);
    seriatim_link_free(link);
}

/* Of 1,000 jobs for ids that wait already, the shard takes some hundred a call. The last one cannot be written. */
static void test_an_error_behind_the_first_jobs_of_a_chunk_names_what_is_missing(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "partly", 1, "list");
    seriatim_push_counts counts;
    char id[32], want[64];
    int i, round;
    for (round = 0; round < 2; round++) {
        begin(link, "o");
        for (i = 1; i <= 1000; i++) {
            snprintf(id, sizeof id, "id-%d", i);
            assert_int_equal(add(link, id, 1000 * round + i, "1", NULL), SERIATIM_OK);
        }
        if (round == 0) {
            assert_int_equal(end(link), SERIATIM_OK);
            ask_redis(s, "HSET seriatim:{partly/0}:jobs id-1000 unreadable");
        }
    }
    assert_int_equal(end(link), SERIATIM_SERVER);
    counts = seriatim_push_result(seriatim_link_client(link));
    assert_in_range(counts.folded, 1, 999);
    snprintf(want, sizeof want, ": 1 of 1 chunks (%d of 1,000 jobs) were not written", 1000 - (int)counts.folded);
    if (!strstr(link_message(link), want))
        fail_msg("%s, not %s", link_message(link), want);
    seriatim_link_free(link);
}

static void test_wrong_names_and_numbers_are_refused(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "wrong", 1, "list");
    seriatim_client *c = seriatim_link_client(link);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_outbox(c, "a b"), SERIATIM_INVALID);
    assert_non_null(strstr(link_message(link), "name of an outbox"));
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(add(link, "a", 1, "1", NULL), SERIATIM_INVALID);
    assert_non_null(strstr(link_message(link), "jobs[0]: number is for jobs of an outbox"));
    begin(link, "o");
    assert_int_equal(add(link, "a", 5, "1", NULL), SERIATIM_OK);
    assert_int_equal(add(link, "a", 5, "2", NULL), SERIATIM_INVALID);
    assert_non_null(strstr(link_message(link), "jobs[1]: number must be from 6 to 2^53, not 5"));
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(add(link, "a", 0, "1", NULL), SERIATIM_OK);
    assert_int_equal(seriatim_push_outbox(c, "o"), SERIATIM_INVALID);
    seriatim_link_free(link);
}

static void test_a_pipeline_has_no_outboxes(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "pipeline", 1, "list");
    seriatim_client *c = seriatim_link_client(link);
    assert_int_equal(seriatim_pipeline_begin(c), SERIATIM_OK);
    assert_int_equal(seriatim_pipeline_push(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_outbox(c, "rows"), SERIATIM_INVALID);
    assert_string_equal(link_message(link), "a pipeline has no outboxes");
    assert_int_equal(add(link, "a", 1, "1", NULL), SERIATIM_INVALID);
    assert_int_equal(seriatim_pipeline_send(c), SERIATIM_INVALID);
    assert_string_equal(link_message(link), "a pipeline has no outboxes");
    assert_int_equal(ask_redis(s, "EXISTS seriatim:{pipeline}:layout"), 0);
    seriatim_link_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_outbox_1_a_job_that_is_pushed_again_is_written_once),
        cmocka_unit_test(test_refused_jobs_are_counted_behind_those_that_were_written),
        cmocka_unit_test(test_r_outbox_2_a_later_chunk_is_not_written_before_one_that_was_refused),
        cmocka_unit_test(test_an_error_behind_the_first_jobs_of_a_chunk_names_what_is_missing),
        cmocka_unit_test(test_wrong_names_and_numbers_are_refused),
        cmocka_unit_test(test_a_pipeline_has_no_outboxes),
    };
    return cmocka_run_group_tests(tests, start_link_server, stop_link_server);
}

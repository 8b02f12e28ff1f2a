/* test_pipeline.c - pushes of several queues in one operation, against a real redis-server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/pipeline.h"
#include "link_fixture.h"

/* A link whose client has the queues PREFIX-a (3 shards) and PREFIX-b (2 shards) as its numbers 0 and 1. */
static seriatim_link *link_to_two(const redis_process *s, const char *prefix)
{
    char a[64], b[64];
    seriatim_link *link;
    seriatim_queue_settings settings;
    size_t queue;
    snprintf(a, sizeof a, "%s-a", prefix);
    snprintf(b, sizeof b, "%s-b", prefix);
    link = link_to_queue(s->url, a, 3, "merge");
    seriatim_queue_settings_init(&settings);
    settings.name = b;
    settings.name_len = strlen(b);
    settings.shards_count = 2;
    settings.fold = "list";
    assert_int_equal(seriatim_client_queue(seriatim_link_client(link), &settings, &queue), SERIATIM_OK);
    assert_int_equal(queue, 1);
    return link;
}

static void begin(seriatim_link *link)
{
    assert_int_equal(seriatim_pipeline_begin(seriatim_link_client(link)), SERIATIM_OK);
}

static void push(seriatim_link *link, size_t queue)
{
    assert_int_equal(seriatim_pipeline_push(seriatim_link_client(link), queue), SERIATIM_OK);
}

static int finish(seriatim_link *link)
{
    int status = seriatim_pipeline_send(seriatim_link_client(link));
    return status == SERIATIM_OK ? link_drive(link) : status;
}

static seriatim_push_counts counts_of(seriatim_link *link, size_t number, int status)
{
    seriatim_push_counts counts;
    seriatim_error error;
    assert_int_equal(seriatim_pipeline_result(seriatim_link_client(link), number, &counts, &error), status);
    assert_int_equal(error.status, status);
    return counts;
}

/* How many commands Redis has executed for clients, scripts as one. */
static long long commands(const redis_process *s)
{
    redisContext *c = connect_redis(s);
    redisReply *r = redisCommand(c, "INFO commandstats");
    const char *names[] = {"cmdstat_evalsha:calls=", "cmdstat_eval:calls="};
    long long total = 0;
    size_t i;
    for (i = 0; i < 2; i++) {
        const char *at = strstr(r->str, names[i]);
        total += at ? atoll(at + strlen(names[i])) : 0;
    }
    freeReplyObject(r);
    redisFree(c);
    return total;
}

static void test_r_pipe_1_the_pushes_of_a_queue_are_one_push(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_two(s, "one");
    seriatim_push_counts counts;
    long long before;
    int i;
    begin(link);
    push(link, 0);
    link_add_job(link, "warm", "1", NULL);
    push(link, 1);
    link_add_job(link, "warm", "1", NULL);
    assert_int_equal(finish(link), SERIATIM_OK);
    before = commands(s);
    begin(link);
    for (i = 0; i < 400; i++) {
        char id[32];
        snprintf(id, sizeof id, "id-%d", i);
        push(link, (size_t)i % 2);
        link_add_job(link, id, "1", NULL);
    }
    assert_int_equal(finish(link), SERIATIM_OK);
    assert_int_equal(commands(s) - before, 5); /* one for each shard */
    for (i = 0; i < 400; i++) {
        counts = counts_of(link, (size_t)i, SERIATIM_OK);
        assert_int_equal(counts.added, 1);
    }
    assert_int_equal(waiting_payloads(s, "one-a", 3), 201);
    assert_int_equal(waiting_payloads(s, "one-b", 2), 201);
    seriatim_link_free(link);
}

static void test_r_pipe_1_each_push_has_its_own_counts(void **state)
{
    static const char outcomes[] = "nfrnst";
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "counts", 1, "merge");
    seriatim_client *c = seriatim_link_client(link);
    seriatim_queue_settings settings;
    seriatim_job job;
    size_t queue, count, i;
    seriatim_queue_settings_init(&settings);
    settings.name = "counts";
    settings.name_len = 6;
    settings.shards_count = 1;
    settings.remember_score = 60;
    assert_int_equal(seriatim_client_queue(c, &settings, &queue), SERIATIM_OK);
    begin(link);
    push(link, 0);
    link_add_job(link, "a", "1", NULL);
    push(link, 0);
    link_add_job(link, "a", "2", NULL);
    push(link, 0);
    assert_int_equal(seriatim_push_want_handles(c), SERIATIM_OK);
    link_add_job(link, "a", "3", "reject");
    link_add_job(link, "b", "1", NULL);
    push(link, 0);
    seriatim_job_init(&job);
    job.id = "c";
    job.id_len = 1;
    job.deliver_when = SERIATIM_DELAY;
    job.deliver_time = 60;
    assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    push(link, 0);
    assert_int_equal(finish(link), SERIATIM_OK);
    assert_int_equal(counts_of(link, 0, SERIATIM_OK).added, 1);
    assert_int_equal(counts_of(link, 1, SERIATIM_OK).folded, 1);
    assert_int_equal(counts_of(link, 2, SERIATIM_OK).refused, 1);
    assert_int_equal(counts_of(link, 2, SERIATIM_OK).added, 1);
    assert_int_equal(counts_of(link, 3, SERIATIM_OK).scheduled, 1);
    assert_int_equal(counts_of(link, 4, SERIATIM_OK).added, 0);
    for (i = 0; i < 5; i++)
        assert_int_equal(seriatim_pipeline_outcome(c, i < 2 ? i : i < 4 ? 2 : 3, i == 3 ? 1 : 0), outcomes[i]);
    assert_null(seriatim_pipeline_handles(c, 0, &count));
    assert_int_equal(count, 0); /* it asked for none */
    assert_null(seriatim_pipeline_handles(c, 2, &count)[0].data);
    assert_non_null(strstr(seriatim_pipeline_handles(c, 2, &count)[1].data, ""));
    assert_int_equal(count, 2);
    assert_non_null(seriatim_pipeline_handles(c, 3, &count)[0].data);
    seriatim_link_free(link);
}

static void test_a_stale_score_is_told_of_its_push(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "scores", 1, "merge");
    seriatim_client *c = seriatim_link_client(link);
    seriatim_queue_settings settings;
    seriatim_job job;
    size_t queue;
    unsigned char stored[16];
    double score = 7, until = 9e15;
    redisContext *redis = connect_redis(s);
    seriatim_queue_settings_init(&settings);
    settings.name = "scores";
    settings.name_len = 6;
    settings.shards_count = 1;
    settings.remember_score = 60;
    assert_int_equal(seriatim_client_queue(c, &settings, &queue), SERIATIM_OK);
    memcpy(stored, &score, 8);
    memcpy(stored + 8, &until, 8);
    freeReplyObject(redisCommand(redis, "HSET seriatim:{scores/0}:scores a %b", stored, sizeof stored));
    redisFree(redis);
    begin(link);
    push(link, 0);
    seriatim_job_init(&job);
    job.id = "a";
    job.id_len = 1;
    job.has_score = 1;
    job.score = 6;
    assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    push(link, 0);
    job.score = 8;
    assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    assert_int_equal(finish(link), SERIATIM_OK);
    assert_int_equal(counts_of(link, 0, SERIATIM_OK).stale, 1);
    assert_int_equal(seriatim_pipeline_outcome(c, 0, 0), SERIATIM_JOB_STALE);
    assert_int_equal(counts_of(link, 1, SERIATIM_OK).added, 1);
    seriatim_link_free(link);
}

static void test_r_pipe_2_a_wrong_job_stops_all_pushes(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_two(s, "wrong");
    seriatim_client *c = seriatim_link_client(link);
    seriatim_job job;
    size_t number;
    begin(link);
    push(link, 0);
    link_add_job(link, "a", "1", NULL);
    push(link, 0);
    link_add_job(link, "b", "1", NULL);
    seriatim_job_init(&job);
    assert_int_equal(seriatim_push_job(c, &job), SERIATIM_INVALID);
    assert_string_equal(link_message(link), "jobs[1]: id is missing"); /* its place in its own push */
    assert_int_equal(seriatim_pipeline_push(c, 1), SERIATIM_INVALID);
    assert_int_equal(finish(link), SERIATIM_INVALID);
    assert_string_equal(link_message(link), "jobs[1]: id is missing");
    for (number = 0; number < 2; number++)
        assert_int_equal(counts_of(link, number, SERIATIM_INVALID).added, 0);
    assert_int_equal(seriatim_pipeline_outcome(c, 0, 0), SERIATIM_JOB_UNWRITTEN);
    assert_int_equal(ask_redis(s, "EXISTS seriatim:{wrong-a}:layout"), 0);
    assert_int_equal(seriatim_pipeline_push(c, 0), SERIATIM_INVALID);
    assert_string_equal(link_message(link), "no pipeline was begun");
    begin(link);
    push(link, 0);
    assert_int_equal(seriatim_pipeline_push(c, 7), SERIATIM_INVALID);
    assert_int_equal(finish(link), SERIATIM_INVALID);
    counts_of(link, 0, SERIATIM_INVALID);
    begin(link);
    push(link, 0);
    assert_int_equal(seriatim_push_send(c), SERIATIM_INVALID);
    assert_non_null(strstr(link_message(link), "seriatim_pipeline_send"));
    begin(link);
    assert_int_equal(finish(link), SERIATIM_OK); /* nothing to do */
    begin(link);
    push(link, 0);
    assert_int_equal(finish(link), SERIATIM_OK);
    assert_int_equal(ask_redis(s, "EXISTS seriatim:{wrong-a}:layout"), 0);
    seriatim_link_free(link);
}

static void test_r_pipe_3_a_queue_that_fails_leaves_the_others_alone(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_two(s, "broken");
    seriatim_client *c = seriatim_link_client(link);
    seriatim_push_counts counts;
    seriatim_error error;
    size_t unwritten = 0, number;
    int i;
    ask_redis(s, "SET seriatim:{broken-a/0}:jobs x");
    begin(link);
    for (i = 0; i < 60; i++) {
        char id[32];
        snprintf(id, sizeof id, "id-%d", i);
        push(link, (size_t)i % 2);
        link_add_job(link, id, "1", NULL);
    }
    assert_int_equal(finish(link), SERIATIM_SERVER);
    assert_ptr_equal(strstr(link_message(link), "queue broken-a: "), link_message(link));
    assert_non_null(strstr(link_message(link), "WRONGTYPE"));
    assert_null(strstr(link_message(link), "broken-b"));
    for (number = 0; number < 60; number++) {
        int status = seriatim_pipeline_result(c, number, &counts, &error);
        if (seriatim_pipeline_outcome(c, number, 0) == SERIATIM_JOB_UNWRITTEN) {
            assert_int_equal(number % 2, 0);
            assert_int_equal(status, SERIATIM_SERVER);
            assert_non_null(strstr(error.message, "WRONGTYPE"));
            assert_int_equal(counts.added, 0);
            unwritten++;
        } else {
            assert_int_equal(status, SERIATIM_OK);
            assert_int_equal(counts.added, 1);
        }
    }
    assert_in_range(unwritten, 1, 29);
    assert_int_equal(waiting_payloads(s, "broken-b", 2), 30);
    seriatim_link_free(link);
}

/* Its number of shards is not known, and nobody has said with how many to make it. */
static void test_r_pipe_2_a_queue_that_does_not_exist_stops_all_pushes(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_two(s, "unknown");
    seriatim_queue_settings settings;
    size_t queue;
    seriatim_queue_settings_init(&settings);
    settings.name = "unknown-c";
    settings.name_len = 9;
    settings.shards_count = 0;
    assert_int_equal(seriatim_client_queue(seriatim_link_client(link), &settings, &queue), SERIATIM_OK);
    begin(link);
    push(link, 0);
    link_add_job(link, "a", "1", NULL);
    push(link, 2);
    link_add_job(link, "a", "1", NULL);
    assert_int_equal(finish(link), SERIATIM_INVALID);
    assert_non_null(strstr(link_message(link), "queue unknown-c: the queue does not exist"));
    assert_int_equal(counts_of(link, 0, SERIATIM_INVALID).added, 0);
    assert_int_equal(waiting_payloads(s, "unknown-a", 3), 0);
    seriatim_link_free(link);
}

/* The layout of the first queue, then that of the second one. */
static void test_r_pipe_3_a_queue_whose_layout_is_broken_leaves_the_others_alone(void **state)
{
    static const char *const queues[] = {"a", "b"}, *const commands[] = {"SET seriatim:{%s-%s}:layout nonsense",
                                                                         "HSET seriatim:{%s-%s}:layout a b"};
    redis_process *s = *state;
    int i;
    for (i = 0; i < 4; i++) {
        char prefix[16], named[32], healthy[32];
        seriatim_link *link;
        snprintf(prefix, sizeof prefix, "layout%d", i);
        snprintf(named, sizeof named, "queue %s-%s: ", prefix, queues[i % 2]);
        snprintf(healthy, sizeof healthy, "%s-%s", prefix, queues[1 - i % 2]);
        link = link_to_two(s, prefix);
        ask_redis(s, commands[i / 2], prefix, queues[i % 2]);
        begin(link);
        push(link, 0);
        link_add_job(link, "a", "1", NULL);
        push(link, 1);
        link_add_job(link, "a", "1", NULL);
        assert_int_equal(finish(link), i / 2 ? SERIATIM_SERVER : SERIATIM_UNSUPPORTED);
        assert_ptr_equal(strstr(link_message(link), named), link_message(link));
        assert_null(strstr(link_message(link), healthy));
        assert_int_equal(counts_of(link, (size_t)(i % 2), i / 2 ? SERIATIM_SERVER : SERIATIM_UNSUPPORTED).added, 0);
        assert_int_equal(counts_of(link, (size_t)(1 - i % 2), SERIATIM_OK).added, 1);
        assert_int_equal(waiting_payloads(s, healthy, i % 2 ? 3 : 2), 1);
        seriatim_link_free(link);
    }
}

/* More than may be on its way at once, which is a chunk of 256 KB of each queue, and more jobs than a chunk holds. */
static void test_r_pipe_4_a_large_pipeline_goes_in_bounded_writes(void **state)
{
    enum { JOBS = 30000 };
    redis_process *s = *state;
    seriatim_link *link = link_to_two(s, "large");
    seriatim_push_counts counts;
    char payload[200];
    int i, added = 0, status;
    memset(payload, '7', sizeof payload);
    payload[sizeof payload - 1] = '\0';
    begin(link);
    for (i = 0; i < JOBS; i++) {
        char id[32];
        snprintf(id, sizeof id, "id-%d", i);
        if (i % 10 == 0)
            push(link, (size_t)(i / 10) % 2);
        link_add_job(link, id, payload, NULL);
    }
    assert_int_equal(seriatim_pipeline_send(seriatim_link_client(link)), SERIATIM_OK);
    do {
        status = seriatim_link_step(link);
        assert_true(status != SERIATIM_AGAIN || srt_pipeline_flying(seriatim_link_client(link)) <= (size_t)512 * 1024);
        if (status == SERIATIM_AGAIN)
            seriatim_link_wait(link);
    } while (status == SERIATIM_AGAIN);
    assert_int_equal(status, SERIATIM_OK);
    for (i = 0; i < JOBS / 10; i++) {
        counts = counts_of(link, (size_t)i, SERIATIM_OK);
        added += (int)counts.added;
    }
    assert_int_equal(added, JOBS);
    assert_int_equal(waiting_payloads(s, "large-a", 3) + waiting_payloads(s, "large-b", 2), JOBS);
    seriatim_link_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_pipe_1_the_pushes_of_a_queue_are_one_push),
        cmocka_unit_test(test_r_pipe_1_each_push_has_its_own_counts),
        cmocka_unit_test(test_a_stale_score_is_told_of_its_push),
        cmocka_unit_test(test_r_pipe_2_a_wrong_job_stops_all_pushes),
        cmocka_unit_test(test_r_pipe_2_a_queue_that_does_not_exist_stops_all_pushes),
        cmocka_unit_test(test_r_pipe_3_a_queue_that_fails_leaves_the_others_alone),
        cmocka_unit_test(test_r_pipe_3_a_queue_whose_layout_is_broken_leaves_the_others_alone),
        cmocka_unit_test(test_r_pipe_4_a_large_pipeline_goes_in_bounded_writes),
    };
    return cmocka_run_group_tests(tests, start_link_server, stop_link_server);
}

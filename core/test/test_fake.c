/*
 * test_fake.c - the queues in memory for tests of applications: what ruby/spec/fake_model_spec.rb does not compare with
 * Redis, and what happens when memory runs out.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "allocation.h"
#include "seriatim/binding.h"

#define NOW INT64_C(1700000000000000)
#define HOUR INT64_C(3600000000)

typedef struct fake_fixture {
    seriatim_link *link;
    seriatim_client *client;
    srt_fake *fake;
    size_t queue;
} fake_fixture;

static fake_fixture open_fake(const char *fold, const char *on_exhausted)
{
    fake_fixture f;
    seriatim_queue_settings settings;
    seriatim_error error;
    seriatim_queue_settings_init(&settings);
    settings.name = "Q";
    settings.name_len = 1;
    settings.fold = fold;
    settings.on_exhausted = on_exhausted;
    settings.max_retry_count = 1;
    settings.exhausted_hook = 1;
    assert_int_equal(seriatim_link_new(NULL, "redis://localhost", &f.link, &error), SERIATIM_OK);
    f.client = seriatim_link_client(f.link);
    assert_int_equal(seriatim_client_queue(f.client, &settings, &f.queue), SERIATIM_OK);
    f.fake = srt_fake_new(f.client);
    assert_non_null(f.fake);
    return f;
}

static void close_fake(const fake_fixture *f)
{
    srt_fake_free(f->fake);
    seriatim_link_free(f->link);
}

static seriatim_text text_of(const char *words)
{
    seriatim_text text = {words, strlen(words)};
    return text;
}

static seriatim_job job_with(const char *id, const char *payload)
{
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = strlen(id);
    job.payload = payload;
    job.payload_len = strlen(payload);
    return job;
}

/* A push with this word of on_waiting. */
static void push_by(const fake_fixture *f, const char *word, const char *id, double delay, int64_t now)
{
    seriatim_job job = job_with(id, "1");
    job.on_waiting = word;
    if (delay > 0)
        job.when = SERIATIM_DELAY, job.time = delay;
    assert_int_equal(seriatim_push_begin(f->client, f->queue), SERIATIM_OK);
    assert_int_equal(seriatim_push_job(f->client, &job), SERIATIM_OK);
    assert_int_equal(srt_fake_push(f->fake, now), SERIATIM_OK);
}

static int push_job(const fake_fixture *f, const char *id, const char *payload, double deliver_in)
{
    seriatim_job job = job_with(id, payload);
    int status = seriatim_push_begin(f->client, f->queue);
    if (deliver_in > 0)
        job.deliver_when = SERIATIM_DELAY, job.deliver_time = deliver_in;
    if (status == SERIATIM_OK)
        status = seriatim_push_job(f->client, &job);
    return status == SERIATIM_OK ? srt_fake_push(f->fake, NOW) : status;
}

static size_t take(const fake_fixture *f, int64_t now)
{
    unsigned shard;
    size_t count;
    assert_int_equal(srt_fake_take(f->fake, f->queue, 10, now, &shard, &count), SERIATIM_OK);
    return count;
}

/* Reports the outcome of the first id that was taken. */
static int settle_at(const fake_fixture *f, int kind, const char *words, const size_t *places, size_t count,
                     int64_t now)
{
    const seriatim_claimed *job = srt_fake_taken(f->fake, 0);
    srt_fake_outcome outcome = {0};
    outcome.kind = kind;
    outcome.id.data = job->id;
    outcome.id.len = job->id_len;
    outcome.fence = job->fence;
    outcome.text = text_of(words);
    outcome.seconds = 60;
    outcome.places = places;
    outcome.count = count;
    return srt_fake_settle(f->fake, f->queue, &outcome, now);
}

static int settle(const fake_fixture *f, int kind, const char *words, const size_t *places, size_t count)
{
    return settle_at(f, kind, words, places, count, NOW);
}

/* Of all shards. */
static size_t take_all(const fake_fixture *f, int64_t now)
{
    size_t count, all = 0;
    while ((count = take(f, now)) > 0)
        all += count;
    return all;
}

static size_t rows_in(const fake_fixture *f, int state)
{
    const srt_fake_row *rows;
    size_t i, count, found = 0;
    assert_int_equal(srt_fake_list(f->fake, f->queue, &rows, &count), SERIATIM_OK);
    for (i = 0; i < count; i++)
        found += rows[i].state == state;
    return found;
}

static void test_r_test_2_retries_end_in_the_morgue_and_are_told(void **state)
{
    fake_fixture f = open_fake("list", "bury");
    size_t told;
    int64_t at;
    (void)state;
    assert_int_equal(push_job(&f, "a", "1", 0), SERIATIM_OK);
    assert_int_equal(push_job(&f, "a", "2", 0), SERIATIM_OK);
    assert_int_equal(take(&f, NOW), 1);
    assert_int_equal(settle(&f, SRT_FAKE_FAIL, "boom", NULL, 0), SERIATIM_OK);
    assert_true(srt_fake_next(f.fake, f.queue, NOW, &at));
    assert_int_equal(at, NOW + 60000000);
    assert_int_equal(take(&f, NOW), 0);
    assert_int_equal(take(&f, at), 1);
    assert_int_equal(srt_fake_taken(f.fake, 0)->retry_count, 0);
    assert_memory_equal(srt_fake_taken(f.fake, 0)->error, "boom", 4);
    assert_int_equal(settle(&f, SRT_FAKE_FAIL, "boom", NULL, 0), SERIATIM_OK);
    assert_int_equal(rows_in(&f, SRT_FAKE_DEAD), 1);
    assert_int_equal(rows_in(&f, SRT_FAKE_WAITING), 1);
    assert_int_equal(srt_fake_take_exhausted(f.fake, f.queue, &told), SERIATIM_OK);
    assert_int_equal(told, 1);
    assert_memory_equal(srt_fake_taken(f.fake, 0)->payloads[0].data, "1", 1);
    assert_int_equal(srt_fake_take_exhausted(f.fake, f.queue, &told), SERIATIM_OK);
    assert_int_equal(told, 0);
    close_fake(&f);
}

static void test_r_test_2_unreadable_payloads_die_and_the_others_come_again(void **state)
{
    fake_fixture f = open_fake("list", "bury");
    const size_t places[] = {0, 2}, beyond[] = {3}, twice[] = {1, 1};
    (void)state;
    assert_int_equal(push_job(&f, "a", "1", 0), SERIATIM_OK);
    assert_int_equal(push_job(&f, "a", "2", 0), SERIATIM_OK);
    assert_int_equal(push_job(&f, "a", "3", 0), SERIATIM_OK);
    assert_int_equal(take(&f, NOW), 1);
    assert_int_equal(settle(&f, SRT_FAKE_REJECT, "bad", beyond, 1), SERIATIM_INVALID);
    assert_int_equal(settle(&f, SRT_FAKE_REJECT, "bad", twice, 2), SERIATIM_INVALID);
    assert_int_equal(settle(&f, SRT_FAKE_REJECT, "bad", places, 2), SERIATIM_OK);
    assert_int_equal(settle(&f, SRT_FAKE_DONE, "", NULL, 0), SERIATIM_STALE);
    assert_int_equal(rows_in(&f, SRT_FAKE_DEAD), 2);
    assert_int_equal(take(&f, NOW), 1);
    assert_int_equal(srt_fake_taken(f.fake, 0)->payload_count, 1);
    assert_memory_equal(srt_fake_taken(f.fake, 0)->payloads[0].data, "2", 1);
    close_fake(&f);
}

/* A host may say an earlier time than before. */
static void test_r_test_2_a_job_without_a_time_asks_for_now_though_the_clock_is_behind(void **state)
{
    static const char *const words[] = {"replace", "earlier"};
    fake_fixture f = open_fake("list", "bury");
    size_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        push_by(&f, NULL, words[i], 900, NOW);
        push_by(&f, words[i], words[i], 0, NOW - HOUR);
    }
    assert_int_equal(take_all(&f, NOW - HOUR), 2);
    srt_fake_clear(f.fake, f.queue);
    push_by(&f, NULL, "failed", 0, NOW);
    assert_int_equal(take(&f, NOW), 1);
    push_by(&f, "earlier", "failed", 0, NOW - HOUR);
    assert_int_equal(settle(&f, SRT_FAKE_FAIL, "boom", NULL, 0), SERIATIM_OK);
    assert_int_equal(take(&f, NOW - HOUR), 1);
    close_fake(&f);
}

static void test_r_test_2_a_delayed_job_behind_a_run_waits_though_the_clock_is_behind(void **state)
{
    fake_fixture f = open_fake("list", "bury");
    (void)state;
    push_by(&f, NULL, "delayed", 0, NOW);
    assert_int_equal(take(&f, NOW), 1);
    push_by(&f, NULL, "delayed", 900, NOW - HOUR);
    assert_int_equal(settle_at(&f, SRT_FAKE_DONE, "", NULL, 0, NOW - HOUR), SERIATIM_OK);
    assert_int_equal(take_all(&f, NOW - HOUR), 0);
    push_by(&f, NULL, "moved", 0, NOW);
    assert_int_equal(take(&f, NOW - HOUR), 1);
    push_by(&f, NULL, "moved", 0, NOW - HOUR);
    push_by(&f, "replace", "moved", 900, NOW - HOUR);
    assert_int_equal(settle_at(&f, SRT_FAKE_DONE, "", NULL, 0, NOW - HOUR), SERIATIM_OK);
    assert_int_equal(take_all(&f, NOW - HOUR), 0);
    close_fake(&f);
}

/* Hands back the id at this place of those that were taken. */
static int release_at(const fake_fixture *f, size_t place)
{
    const seriatim_claimed *job = srt_fake_taken(f->fake, place);
    srt_fake_outcome outcome = {0};
    outcome.kind = SRT_FAKE_RELEASE;
    outcome.id.data = job->id;
    outcome.id.len = job->id_len;
    outcome.fence = job->fence;
    return srt_fake_settle(f->fake, f->queue, &outcome, NOW + HOUR);
}

static void test_r_test_2_ids_that_are_handed_back_keep_their_order(void **state)
{
    static const char *const ids[] = {"8", "3", "5"}; /* of one shard */
    fake_fixture f = open_fake("merge", "bury");
    size_t i;
    (void)state;
    for (i = 0; i < 3; i++)
        assert_int_equal(push_job(&f, ids[i], "1", 0), SERIATIM_OK);
    assert_int_equal(take(&f, NOW), 3);
    assert_int_equal(push_job(&f, "7", "1", 0), SERIATIM_OK);
    for (i = 0; i < 3; i++)
        assert_int_equal(release_at(&f, i), SERIATIM_OK);
    assert_int_equal(take(&f, NOW + HOUR), 4);
    for (i = 0; i < 3; i++)
        assert_memory_equal(srt_fake_taken(f.fake, i)->id, ids[i], 1);
    assert_memory_equal(srt_fake_taken(f.fake, 3)->id, "7", 1);
    close_fake(&f);
}

static void test_r_test_2_clear_ends_runs(void **state)
{
    fake_fixture f = open_fake("merge", "drop");
    srt_fake_outcome outcome = {0};
    int64_t at;
    (void)state;
    assert_int_equal(push_job(&f, "a", "1", 0), SERIATIM_OK);
    assert_int_equal(push_job(&f, "b", "1", 60), SERIATIM_OK);
    assert_int_equal(take(&f, NOW), 1);
    outcome.id = text_of("a");
    outcome.fence = srt_fake_taken(f.fake, 0)->fence;
    srt_fake_clear(f.fake, f.queue);
    assert_int_equal(srt_fake_settle(f.fake, f.queue, &outcome, NOW), SERIATIM_STALE);
    assert_false(srt_fake_next(f.fake, f.queue, NOW, &at));
    close_fake(&f);
}

static void test_r_test_3_what_a_push_refuses_is_refused_with_the_same_words(void **state)
{
    fake_fixture f = open_fake("merge", "bury");
    seriatim_job job;
    int changed;
    (void)state;
    assert_int_equal(seriatim_push_begin(f.client, f.queue), SERIATIM_OK);
    seriatim_job_init(&job);
    assert_int_equal(seriatim_push_job(f.client, &job), SERIATIM_INVALID);
    assert_int_equal(srt_fake_push(f.fake, NOW), SERIATIM_INVALID);
    assert_string_equal(seriatim_client_error(f.client)->message, "jobs[0]: id is missing");
    assert_int_equal(srt_fake_push(f.fake, NOW), SERIATIM_INVALID);
    assert_string_equal(seriatim_client_error(f.client)->message, "no push was begun");
    assert_int_equal(srt_fake_cancel(f.fake, f.queue, text_of("x"), &changed), SERIATIM_INVALID);
    assert_string_equal(seriatim_client_error(f.client)->message, "the handle is not one that a push has answered");
    assert_int_equal(srt_fake_reschedule(f.fake, f.queue, text_of("x"), text_of("60"), NOW, &changed),
                     SERIATIM_INVALID);
    close_fake(&f);
}

/* ---- Out of memory ----------------------------------------------------------------------------------- */

static int settle_all(const fake_fixture *f, int kind, size_t count)
{
    const size_t first[] = {0};
    int status = SERIATIM_OK;
    for (; count > 0 && status == SERIATIM_OK; count--) {
        srt_fake_outcome outcome = {0};
        const seriatim_claimed *job = srt_fake_taken(f->fake, count - 1);
        outcome.kind = kind;
        outcome.id.data = job->id;
        outcome.id.len = job->id_len;
        outcome.fence = job->fence;
        outcome.text = text_of("[1]");
        outcome.places = first;
        outcome.count = kind == SRT_FAKE_REJECT || kind == SRT_FAKE_CHECKPOINT;
        status = srt_fake_settle(f->fake, f->queue, &outcome, NOW + 3 * HOUR);
    }
    return status;
}

static int reschedule_first(const fake_fixture *f)
{
    size_t count;
    const seriatim_text *handles = seriatim_push_handles(f->client, &count);
    seriatim_text handle = count ? handles[0] : text_of("AQAAAAAAAAAAAAFRYQ");
    int changed, status = srt_fake_reschedule(f->fake, f->queue, handle, text_of("1700003600"), NOW, &changed);
    return status == SERIATIM_OK ? srt_fake_cancel(f->fake, f->queue, text_of("AQAAAAAAAAAAAAFRYQ"), &changed) : status;
}

static int push_and_run(fake_fixture *f, int kind)
{
    const srt_fake_row *rows;
    size_t count;
    unsigned shard;
    int status = push_job(f, "a", "[1]", 3600);
    if (status == SERIATIM_OK)
        status = reschedule_first(f);
    if (status == SERIATIM_OK)
        status = push_job(f, "a", "[2]", 0);
    if (status == SERIATIM_OK)
        status = srt_fake_take(f->fake, f->queue, 10, NOW + 3 * HOUR, &shard, &count);
    if (status == SERIATIM_OK)
        status = push_job(f, "a", "[3]", 0);
    if (status == SERIATIM_OK && count)
        status = srt_fake_take(f->fake, f->queue, 10, NOW + 3 * HOUR, &shard, &count);
    if (status == SERIATIM_OK)
        status = srt_fake_list(f->fake, f->queue, &rows, &count);
    (void)kind;
    return status;
}

static int run_outcome(fake_fixture *f, int kind)
{
    size_t count;
    unsigned shard;
    int status = push_job(f, "a", "[1]", 0);
    if (status == SERIATIM_OK)
        status = push_job(f, "a", "[2]", 0);
    if (status == SERIATIM_OK)
        status = srt_fake_take(f->fake, f->queue, 10, NOW + 3 * HOUR, &shard, &count);
    if (status == SERIATIM_OK)
        status = settle_all(f, kind, count);
    if (status == SERIATIM_OK)
        status = srt_fake_take_exhausted(f->fake, f->queue, &count);
    srt_fake_clear(f->fake, f->queue);
    return status;
}

/* number: the kind of outcome; beyond the last: everything before an outcome. */
static int fake_scenario(int number)
{
    fake_fixture f = {0};
    seriatim_options options = {0};
    seriatim_queue_settings settings = settings_of_queue();
    seriatim_error error;
    int status;
    options.allocator = &failing_allocator;
    settings.max_retry_count = 0;
    settings.exhausted_hook = 1;
    status = seriatim_link_new(&options, "redis://localhost", &f.link, &error);
    if (status != SERIATIM_OK)
        return status;
    f.client = seriatim_link_client(f.link);
    status = seriatim_client_queue(f.client, &settings, &f.queue);
    if (status == SERIATIM_OK && (f.fake = srt_fake_new(f.client)) == NULL)
        status = SERIATIM_NOMEM;
    if (status == SERIATIM_OK)
        status = number > SRT_FAKE_CHECKPOINT ? push_and_run(&f, number) : run_outcome(&f, number);
    srt_fake_free(f.fake);
    seriatim_link_free(f.link);
    return status;
}

static void test_out_of_memory(void **state)
{
    int number;
    (void)state;
    for (number = 0; number <= SRT_FAKE_CHECKPOINT + 1; number++)
        fail_each_allocation("a fake", fake_scenario, number, MOST);
}

/* Of payloads with a score and without one. */
static void test_r_handle_4_a_payload_that_runs_has_the_handle_that_its_push_answered(void **state)
{
    fake_fixture f = open_fake("list", "bury");
    seriatim_text pushed[2], queue = text_of("Q");
    size_t count, i;
    (void)state;
    for (i = 0; i < 2; i++) {
        seriatim_job job = job_with("some id", i ? "2" : "1");
        job.has_score = (int)i;
        job.score = 3e9;
        assert_int_equal(seriatim_push_begin(f.client, f.queue), SERIATIM_OK);
        assert_int_equal(seriatim_push_want_handles(f.client), SERIATIM_OK);
        assert_int_equal(seriatim_push_job(f.client, &job), SERIATIM_OK);
        assert_int_equal(srt_fake_push(f.fake, NOW + (int64_t)i), SERIATIM_OK);
        pushed[i] = *seriatim_push_handles(f.client, &count);
        pushed[i].data = strndup(pushed[i].data, pushed[i].len);
    }
    assert_int_equal(take(&f, NOW + HOUR), 1);
    assert_int_equal(srt_fake_taken(f.fake, 0)->payload_count, 2);
    for (i = 0; i < 2; i++) {
        char handle[64];
        assert_int_equal(srt_claimed_handle_size(queue, srt_fake_taken(f.fake, 0)), pushed[i].len);
        srt_claimed_handle(queue, srt_fake_taken(f.fake, 0), i, handle);
        assert_memory_equal(handle, pushed[i].data, pushed[i].len);
        free((char *)pushed[i].data);
    }
    close_fake(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_test_2_retries_end_in_the_morgue_and_are_told),
        cmocka_unit_test(test_r_test_2_unreadable_payloads_die_and_the_others_come_again),
        cmocka_unit_test(test_r_test_2_a_job_without_a_time_asks_for_now_though_the_clock_is_behind),
        cmocka_unit_test(test_r_test_2_a_delayed_job_behind_a_run_waits_though_the_clock_is_behind),
        cmocka_unit_test(test_r_test_2_ids_that_are_handed_back_keep_their_order),
        cmocka_unit_test(test_r_test_2_clear_ends_runs),
        cmocka_unit_test(test_r_test_3_what_a_push_refuses_is_refused_with_the_same_words),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_r_handle_4_a_payload_that_runs_has_the_handle_that_its_push_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

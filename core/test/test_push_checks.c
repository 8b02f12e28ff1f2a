/* test_push_checks.c - what a push may be, and into which chunks it is cut; against a scripted peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "peer.h"

/* ---- Validation ----------------------------------------------------------------------------- */

static void expect_refused(const seriatim_job *job, const char *want)
{
    seriatim_client *c = new_client(NULL, 5, "keep");
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(add_jobs(c, 0, 3), SERIATIM_OK);
    assert_int_equal(seriatim_push_job(c, job), SERIATIM_INVALID);
    assert_string_equal(message(c), want);
    assert_int_equal(add_job(c, "later", "{}"), SERIATIM_INVALID);
    assert_int_equal(seriatim_push_send(c), SERIATIM_INVALID);
    assert_string_equal(message(c), want);
    assert_int_equal(srt_client_status(c), SERIATIM_INVALID);
    assert_int_equal(srt_client_waits(c), 0);
    seriatim_client_free(c);
}

static void test_f11_f26_every_check_of_a_job(void **state)
{
    static const char long_id[1025] = "x";
    char *large = calloc(1, 1024 * 1024 + 1);
    seriatim_job good, job;
    (void)state;
    seriatim_job_init(&good);
    good.id = "a";
    good.id_len = 1;
#define REFUSED(change, want)                                                                                          \
    do {                                                                                                               \
        job = good;                                                                                                    \
        change;                                                                                                        \
        expect_refused(&job, want);                                                                                    \
    } while (0)
    REFUSED(job.id_len = 0, "jobs[3]: id is empty");
    REFUSED(job.id = NULL, "jobs[3]: id is missing");
    REFUSED((job.id = long_id, job.id_len = 1025), "jobs[3]: id is 1025 bytes long; at most 1024 are allowed");
    REFUSED(job.payload_len = 5, "jobs[3]: payload is missing");
    REFUSED((job.payload = large, job.payload_len = 1024 * 1024 + 1),
            "jobs[3]: payload is 1048577 bytes long; at most 1048576 are allowed: store it elsewhere and push its key "
            "(queue Q, id a)");
    REFUSED((job.context = large, job.context_len = 1024 * 1024 + 1),
            "jobs[3]: context is 1048577 bytes long; at most 1048576 are allowed: store it elsewhere and push its key "
            "(queue Q, id a)");
    REFUSED((job.has_score = 1, job.score = NAN), "jobs[3]: score must be a finite number");
    REFUSED((job.has_score = 1, job.score = INFINITY), "jobs[3]: score must be a finite number");
    REFUSED((job.has_score = 1, job.score = -INFINITY), "jobs[3]: score must be a finite number");
    REFUSED((job.when = SERIATIM_AT, job.time = NAN), "jobs[3]: perform_in must be a finite number");
    REFUSED((job.when = SERIATIM_AT, job.time = -INFINITY), "jobs[3]: perform_in must be a finite number");
    REFUSED((job.when = SERIATIM_DELAY, job.time = INFINITY), "jobs[3]: delay must be a finite number");
    REFUSED((job.when = SERIATIM_AT, job.time = 60),
            "jobs[3]: perform_in: 60 is in 1970; for seconds from now use deliver_in (this payload) or delay (its id)");
    REFUSED((job.when = SERIATIM_AT, job.time = 5e-324),
            "jobs[3]: perform_in: 4.940656458e-324 is in 1970; for seconds from now use deliver_in (this payload) or "
            "delay (its id)");
    REFUSED((job.when = SERIATIM_AT, job.time = 999999999.5),
            "jobs[3]: perform_in: 999999999.5 is in 2001; for seconds from now use deliver_in (this payload) or delay "
            "(its id)");
    REFUSED((job.when = SERIATIM_AT, job.time = 1790000000000.0),
            "jobs[3]: perform_in looks like milliseconds: it is Unix time in seconds");
    REFUSED((job.when = SERIATIM_AT, job.time = 1e300),
            "jobs[3]: perform_in looks like milliseconds: it is Unix time in seconds");
    REFUSED((job.when = SERIATIM_AT, job.time = 253402300799.0), "jobs[3]: perform_in is more than 100 years ahead");
    REFUSED((job.when = SERIATIM_AT, job.time = NOW + 101 * 365.25 * 86400),
            "jobs[3]: perform_in is more than 100 years ahead");
    REFUSED((job.when = SERIATIM_DELAY, job.time = 101 * 365.25 * 86400),
            "jobs[3]: delay is more than 100 years ahead");
    REFUSED(job.when = 3, "jobs[3]: when must be NOW, AT or DELAY");
    REFUSED(job.retry_count = -2, "jobs[3]: retry_count must be from -1 to 1000000, not -2");
    REFUSED(job.retry_count = 1000001, "jobs[3]: retry_count must be from -1 to 1000000, not 1000001");
    REFUSED(job.retry_count = INT64_MAX, "jobs[3]: retry_count must be from -1 to 1000000");
    REFUSED(job.on_waiting = "sooner",
            "jobs[3]: on_waiting must be one of keep, earlier, later, replace, reject, unique, not \"sooner\"");
#undef REFUSED
    free(large);
}

static void test_f11_f26_edges_that_are_allowed(void **state)
{
    static const char longest[1024] = "id";
    static const double times[] = {-1e300, -1, 0, 1e9, NOW, NOW + 100 * 365.25 * 86400};
    char *payload = calloc(1, 1024 * 1024);
    peer *p = new_peer(5);
    seriatim_client *c = connected_client(5);
    seriatim_error error;
    seriatim_job job;
    size_t i;
    (void)state;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    for (i = 0; i < 2 * sizeof times / sizeof *times; i++) {
        seriatim_job_init(&job);
        job.id = longest;
        job.id_len = 1024 - i;
        job.payload = payload;
        job.payload_len = i ? 0 : 1024 * 1024;
        job.when = i % 2 ? SERIATIM_AT : SERIATIM_DELAY;
        job.time = times[i / 2];
        if (!(i % 2) && job.time > 1e9)
            job.time = 100 * 365.25 * 86400;
        job.has_score = 1;
        job.score = i % 2 ? -1.7976931348623157e308 : 1.7976931348623157e308;
        job.retry_count = i % 2 ? 1000000 : 0;
        assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_int_equal(p->jobs, 12);
    free(payload);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_options_of_a_client_are_checked(void **state)
{
    seriatim_options options = {0};
    seriatim_client *c = NULL;
    seriatim_error error;
    (void)state;
    options.name = "with space";
    assert_int_equal(seriatim_client_new(&options, &c, &error), SERIATIM_INVALID);
    assert_string_equal(error.message, "name must be printable ASCII without spaces");
    options.name = NULL;
    options.ns = "";
    assert_int_equal(seriatim_client_new(&options, &c, &error), SERIATIM_INVALID);
    options.ns = NULL;
    options.max_payload = (size_t)1 << 40;
    assert_int_equal(seriatim_client_new(&options, &c, &error), SERIATIM_INVALID);
    assert_null(c);
}

/* ---- Chunks --------------------------------------------------------------------------------- */

static void test_one_chunk_of_a_shard_at_a_time(void **state)
{
    peer *p = new_peer(2);
    seriatim_client *c = connected_client(2);
    seriatim_error error;
    (void)state;
    assert_int_equal(push_range(p, c, 0, 1), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 1, 3900);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(c->cluster.peers[0]->commands.waiting, 2);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_once(p, 3901);
    assert_int_equal(p->pushes, 5);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_large_payloads_make_small_chunks(void **state)
{
    const size_t size = 200 * 1024;
    peer *p = new_peer(1);
    seriatim_client *c = connected_client(1);
    seriatim_error error;
    seriatim_job job;
    char *payload = calloc(1, size), id[32];
    int i;
    (void)state;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    seriatim_job_init(&job);
    job.payload = payload;
    job.payload_len = size;
    for (i = 0; i < 10; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        job.id = id;
        job.id_len = strlen(id);
        assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_int_equal(p->pushes, 5); /* two each: at most 512 KiB */
    assert_once(p, 10);
    free(payload);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_f26_empty_push_is_done_at_once(void **state)
{
    seriatim_client *c = new_client(NULL, 5, "keep");
    (void)state;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(srt_client_waits(c), 0);
    seriatim_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_chunk_of_a_shard_at_a_time), cmocka_unit_test(test_large_payloads_make_small_chunks),
        cmocka_unit_test(test_f26_empty_push_is_done_at_once), cmocka_unit_test(test_f11_f26_every_check_of_a_job),
        cmocka_unit_test(test_f11_f26_edges_that_are_allowed), cmocka_unit_test(test_options_of_a_client_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_client.c - the client and its pushes against a scripted peer, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

#include "peer.h"

#define X(name, sha) sha,
static const char *const shas[] = {SRT_SCRIPTS(X)};
#undef X

#define SHARD_KEYS                                                                                                     \
    "$20\r\nseriatim:{Q/0}:state\r\n$16\r\nseriatim:{Q/0}:-\r\n$52\r\nseriatim:{Q/0}:push:" IDENTITY "\r\n"

/* The settings of new_client, as the queue's hash in Redis has them; seconds are microseconds there. */
#define SETTINGS                                                                                                       \
    "$4\r\nfold\r\n$5\r\nmerge\r\n$10\r\non_waiting\r\n$4\r\nkeep\r\n$12\r\non_exhausted\r\n$4\r\nbury\r\n"            \
    "$15\r\nmax_retry_count\r\n$2\r\n25\r\n$3\r\nttr\r\n$1\r\n0\r\n$14\r\nremember_score\r\n$1\r\n0\r\n$13\r\nserial_" \
    "shards\r\n$1\r\n0\r\n"                                                                                            \
    "$14\r\nmorgue_max_age\r\n$1\r\n0\r\n$16\r\nmorgue_max_count\r\n$1\r\n0\r\n"                                       \
    "$14\r\nhistory_per_id\r\n$1\r\n0\r\n"                                                                             \
    "$14\r\nexhausted_hook\r\n$1\r\n0\r\n"

static size_t layout_command(char *out, size_t cap, int shards)
{
    char digits[8];
    snprintf(digits, sizeof digits, "%d", shards);
    return (size_t)snprintf(
        out, cap,
        "*34\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n6\r\n$19\r\nseriatim:{Q}:layout\r\n"
        "$21\r\nseriatim:{Q}:settings\r\n$20\r\nseriatim:{Q}:deleted\r\n$20\r\nseriatim:{Q}:history\r\n"
        "$22\r\nseriatim:{Q}:run_times\r\n$14\r\nseriatim:{Q}:-\r\n"
        "$4\r\nkeep\r\n$1\r\n0\r\n$%d\r\n%s\r\n" SETTINGS,
        shas[srt_script_layout], (int)strlen(digits), digits);
}

static void test_a_push_sends_exactly_these_bytes(void **state)
{
    static const char options[] = "$24\r\n"
                                  "\x03"
                                  "\x00\x00\x00\x00\x00\x00\x1c\x40" /* score 7 */
                                  "\x00\x00\xc0\xb8\x80\x6f\x19\x43" /* placeholder, checked below */
                                  "\x02\x00\x00\x00"                 /* retry_count 2 */
                                  "\x03"                             /* later */
                                  "{}\r\n";
    char want[4096];
    const char *data;
    size_t len, queue_len;
    seriatim_client *c = new_client(NULL, 1, "keep");
    seriatim_job job;
    double due = 1789000000.25 * 1e6;
    (void)state;
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(add_job(c, "a", "[1]"), SERIATIM_OK);
    seriatim_job_init(&job);
    job.id = "b\0c";
    job.id_len = 3;
    job.has_score = 1;
    job.score = 7;
    job.when = SERIATIM_AT;
    job.time = 1789000000.25;
    job.retry_count = 2;
    job.on_waiting = "later";
    job.context = "{}";
    job.context_len = 2;
    assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_AGAIN);
    len = layout_command(want, sizeof want, 1);
    hears(c, want, len);
    assert_int_equal(says(c, "$5\r\n1 1 3\r\n"), SERIATIM_OK);
    assert_int_equal(seriatim_layout_shards(c, 0), 1);
    len = (size_t)snprintf(want, sizeof want,
                           "*18\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n3\r\n" SHARD_KEYS
                           "$1\r\n1\r\n$1\r\n1\r\n$5\r\nmerge\r\n$4\r\nkeep\r\n$1\r\n3\r\n$1\r\n0\r\n"
                           "$1\r\na\r\n$3\r\n[1]\r\n$0\r\n\r\n",
                           shas[srt_script_push]);
    memcpy(want + len, "$3\r\nb\0c\r\n$0\r\n\r\n", 15);
    len += 15;
    queue_len = len;
    memcpy(want + len, options, sizeof options - 1);
    len += sizeof options - 1;
    memcpy(want + queue_len + 5 + 9, &due, 8); /* this test runs on little-endian machines */
    srt_client_output(c, &data, &queue_len);
    assert_int_equal(queue_len, len);
    hears(c, want, len);
    assert_int_equal(says(c, "$5\r\n2 1 1\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 1);
    assert_int_equal(seriatim_push_result(c).folded, 1);
    seriatim_client_free(c);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void test_f3_noscript_becomes_eval(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    (void)state;
    p->noscript = 1;
    assert_int_equal(push_range(p, c, 0, 2500), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 2500);
    assert_int_equal(p->evals, p->layouts + p->pushes);
    assert_once(p, 2500);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_f17_answers_split_at_every_byte(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    (void)state;
    p->step = 1;
    p->refuse_every = 100;
    seriatim_client_free(c);
    c = new_client(NULL, 3, "reject");
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(push_range(p, c, 0, 2500), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added + seriatim_push_result(c).refused, 2500);
    assert_true(seriatim_push_result(c).refused >= 25);
    free_peer(p);
    seriatim_client_free(c);
}

/*
 * A shard may take the first jobs of a chunk alone: the others follow, in order, each once, whatever is refused or
 * lost.
 */
static void test_the_rest_of_a_partly_taken_chunk_follows_in_order(void **state)
{
    int every;
    (void)state;
    for (every = 0; every < 4; every += 3) {
        peer *p = new_peer(3);
        seriatim_client *c = new_client(NULL, 3, "reject");
        size_t count, i;
        const size_t *places;
        assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
        p->take = 70;
        p->refuse_every = every;
        if (every == 0) { /* the layout is known, and grows old */
            assert_int_equal(push_range(p, c, 2500, 100), SERIATIM_OK);
            p->generation = 2;
        }
        assert_int_equal(push_range(p, c, 0, 2500), SERIATIM_OK);
        assert_int_equal(seriatim_push_result(c).added + seriatim_push_result(c).refused, 2500);
        places = seriatim_push_refused(c, &count);
        for (i = 1; i < count; i++)
            assert_true(places[i] > places[i - 1] && places[i] < 2500);
        assert_int_equal(p->jobs, every == 0 ? 2600 : 2500);
        assert_int_equal(p->doubled, 0);
        for (i = 0; i < 2500; i++)
            assert_int_equal(p->seen[i], 1);
        assert_true(p->pushes > 33);
        free_peer(p);
        seriatim_client_free(c);
    }
}

static void test_indexes_of_refused_jobs_ascend(void **state)
{
    peer *p = new_peer(7);
    seriatim_client *c = new_client(NULL, 7, "reject");
    const size_t *places;
    size_t count, i;
    (void)state;
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    p->refuse_every = 3;
    assert_int_equal(push_range(p, c, 0, 2000), SERIATIM_OK);
    places = seriatim_push_refused(c, &count);
    assert_true(count > 600);
    for (i = 1; i < count; i++)
        assert_true(places[i] > places[i - 1] && places[i] < 2000);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_f15_loading_keeps_the_request(void **state)
{
    static const char *const pauses[] = {"-LOADING Redis is loading the dataset in memory\r\n",
                                         "-BUSY Redis is busy running a script.\r\n",
                                         "-READONLY You can't write against a read only replica. script: 123\r\n",
                                         "-MISCONF no disk\r\n",
                                         "-MASTERDOWN Link with MASTER is down\r\n",
                                         "-ERR max number of clients reached\r\n"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        peer *p = new_peer(2);
        seriatim_client *c = connected_client(2);
        seriatim_error error = {0, ""};
        int status;
        assert_int_equal(push_range(p, c, 0, 10), SERIATIM_OK);
        assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
        add_jobs(c, 10, 10);
        assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
        peer_take(p, c);
        status = peer_say(p, c, pauses[i], &error);
        assert_int_equal(status, i == 2 || i == 3 ? SERIATIM_READONLY : SERIATIM_LOADING);
        assert_true(strlen(error.message) > 10);
        assert_int_equal(srt_client_status(c), SERIATIM_AGAIN);
        reconnect(p, c);
        assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
        assert_int_equal(seriatim_push_result(c).added, 10);
        assert_once(p, 20);
        free_peer(p);
        seriatim_client_free(c);
    }
}

static void test_f4_lost_answers_are_not_applied_twice(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    seriatim_error error;
    char out[16384];
    (void)state;
    assert_int_equal(push_range(p, c, 0, 100), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 100, 3000);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    peer_take(p, c);
    assert_true(peer_parse(p) > 0);
    peer_answer(p, out, sizeof out); /* applied, and the answer is lost */
    reconnect(p, c);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 3000);
    assert_once(p, 3100);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_a_new_generation_distributes_the_jobs_again(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    (void)state;
    assert_int_equal(push_range(p, c, 0, 100), SERIATIM_OK);
    p->generation = 2;
    p->shards = 5;
    assert_int_equal(push_range(p, c, 100, 3700), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 3700);
    assert_int_equal(seriatim_layout_shards(c, 0), 5);
    assert_once(p, 3800);
    assert_int_equal(p->layouts, 2);
    assert_int_equal(p->gets, 0);
    free_peer(p);
    seriatim_client_free(c);
}

/* Two shards took their chunk before the layout changed, and the answers were lost with the connection. */
static void test_a_new_generation_after_lost_answers_applies_no_chunk_twice(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    seriatim_error error;
    char out[16384];
    int i;
    (void)state;
    assert_int_equal(push_range(p, c, 0, 100), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 100, 900);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    peer_take(p, c);
    for (i = 0; i < 2; i++) {
        size_t len = peer_parse(p);
        peer_answer(p, out, sizeof out);
        p->in_len -= len;
        memmove(p->in, p->in + len, p->in_len + 1);
    }
    p->generation = 2;
    p->shards = 4;
    reconnect(p, c);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_int_equal(p->gets, 3);
    assert_int_equal(seriatim_push_result(c).added, 900);
    assert_int_equal(p->jobs, 1000);
    assert_int_equal(p->doubled, 0);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_a_refusal_under_an_unchanged_layout_waits(void **state)
{
    peer *p = new_peer(2);
    seriatim_client *c = connected_client(2);
    seriatim_error error;
    (void)state;
    assert_int_equal(push_range(p, c, 0, 10), SERIATIM_OK);
    p->stale_until = 2;
    assert_int_equal(push_range(p, c, 10, 10), SERIATIM_LOADING);
    reconnect(p, c);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_LOADING);
    p->generation = 2;
    reconnect(p, c);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_once(p, 20);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_full_redis_names_what_is_missing(void **state)
{
    peer *p = new_peer(5);
    seriatim_client *c = connected_client(5);
    char want[200];
    size_t i, missing = 0;
    (void)state;
    p->oom_shard = 2;
    for (i = 0; i < 3999; i++) {
        char id[32];
        snprintf(id, sizeof id, "id-%d", (int)i);
        missing += seriatim_shard_of(id, strlen(id), 5) == 2;
    }
    assert_int_equal(push_range(p, c, 0, 3999), SERIATIM_FULL);
    snprintf(want, sizeof want, "Redis is out of memory: 1 of 5 chunks (%lu of 3,999 jobs) were not written",
             (unsigned long)missing);
    assert_string_equal(message(c), want);
    assert_int_equal(seriatim_push_result(c).added, 3999 - missing);
    assert_int_equal(p->jobs, 3999 - missing);
    p->oom_shard = -1;
    assert_int_equal(push_range(p, c, 4000, 10), SERIATIM_OK);
    free_peer(p);
    seriatim_client_free(c);
}

/* Of a cause that is too long for the message whole words are left. */
static void test_a_long_cause_is_cut_between_words(void **state)
{
    peer *p = new_peer(5);
    seriatim_client *c = connected_client(5);
    char refusal[600] = "ERR";
    size_t i;
    (void)state;
    for (i = 3; i + 8 < sizeof refusal; i += 8)
        memcpy(refusal + i, " 1234567", sizeof " 1234567");
    p->oom_shard = 2;
    p->refusal = refusal;
    assert_int_equal(push_range(p, c, 0, 3999), SERIATIM_SERVER);
    assert_ptr_equal(strstr(message(c), "Redis answered with an error: ERR 1234567 1234567 "), message(c));
    assert_non_null(strstr(message(c), " 1234567 ...: 1 of 5 chunks ("));
    assert_non_null(strstr(message(c), " of 3,999 jobs) were not written"));
    assert_true(strlen(message(c)) > 400);
    free_peer(p);
    seriatim_client_free(c);
}

/* Behind the layout. A shard that has much to do takes the first 360 of the jobs. */
static void begin_partly_taken(peer *p, seriatim_client *c)
{
    p->take = 360;
    p->oom_shard = -1;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(add_jobs(c, 0, 1000), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_true(peer_answer_one(p, c, 0));
    assert_int_equal(seriatim_push_result(c).added, 360);
}

static void test_an_error_behind_a_partly_taken_chunk_names_what_is_missing(void **state)
{
    peer *p = new_peer(1);
    seriatim_client *c = connected_client(1);
    seriatim_error error;
    (void)state;
    p->refusal = "ERR what";
    assert_int_equal(push_range(p, c, 1000, 1), SERIATIM_OK);
    begin_partly_taken(p, c);
    p->oom_shard = 0;
    assert_int_equal(peer_run(p, c, &error), SERIATIM_SERVER);
    assert_string_equal(message(c),
                        "Redis answered with an error: ERR what: 1 of 1 chunks (640 of 1,000 jobs) were not written");
    begin_partly_taken(p, c);
    assert_int_equal(srt_client_give_up(c, SERIATIM_IO, "cannot connect"), SERIATIM_IO);
    assert_string_equal(message(c), "cannot connect: 1 of 1 chunks (640 of 1,000 jobs) were not written");
    free_peer(p);
    seriatim_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_push_sends_exactly_these_bytes),
        cmocka_unit_test(test_f3_noscript_becomes_eval),
        cmocka_unit_test(test_f17_answers_split_at_every_byte),
        cmocka_unit_test(test_indexes_of_refused_jobs_ascend),
        cmocka_unit_test(test_the_rest_of_a_partly_taken_chunk_follows_in_order),
        cmocka_unit_test(test_f15_loading_keeps_the_request),
        cmocka_unit_test(test_f4_lost_answers_are_not_applied_twice),
        cmocka_unit_test(test_a_new_generation_distributes_the_jobs_again),
        cmocka_unit_test(test_a_new_generation_after_lost_answers_applies_no_chunk_twice),
        cmocka_unit_test(test_a_refusal_under_an_unchanged_layout_waits),
        cmocka_unit_test(test_full_redis_names_what_is_missing),
        cmocka_unit_test(test_a_long_cause_is_cut_between_words),
        cmocka_unit_test(test_an_error_behind_a_partly_taken_chunk_names_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

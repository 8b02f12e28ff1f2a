/* test_hand_over.c - pushes that claim for a sleeping owner, against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define SRT_SCRIPT_TEXTS
#include "operators.h"
#include "wire/script.h"

/* ---- The owner ------------------------------------------------------------------------------ */

/* What the owner says to Redis, and what it hears. */
typedef struct owned_queue {
    fixture f;
    redisContext *ear; /* NULL: it does not listen */
} owned_queue;

typedef struct message {
    double fence, previous;
    char id[64];
    size_t id_len, record_len;
} message;

/* Claims, and answers up to `count` ids, separated by spaces; the claim that was answered is f.seen. */
static const char *claim_with_window(fixture *f, const char *limit, const char *window)
{
    static char ids[256];
    redisReply *reply = SCRIPT(claim, f->lease, f->seen, limit, "0", "0", "merge", "0", "25", "bury", "", window);
    size_t i;
    strcpy(f->seen, reply->element[1]->str);
    ids[0] = '\0';
    if (reply->elements > 8) { /* a MessagePack array of short texts: a head, then heads of one byte */
        const redisReply *packed = reply->element[8];
        for (i = 1; i < packed->len; i += 1 + ((unsigned char)packed->str[i] & 31))
            snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s%.*s", ids[0] ? " " : "",
                     (unsigned char)packed->str[i] & 31, packed->str + i + 1);
    }
    freeReplyObject(reply);
    return ids;
}

/* n1 owns the shard, listens and sleeps; pushes may claim for it while it holds fewer than 3 ids. */
static owned_queue open_owned(void)
{
    owned_queue q;
    struct timeval patience = {60, 0};
    q.f = open_queue(1, "merge");
    REDIS("SET seriatim:{Q}:layout %s", "1 1 3"); /* so that the end can be checked */
    acquire(&q.f, "n1");
    q.ear = redisConnectUnix(server.socket);
    redisSetTimeout(q.ear, patience);
    freeReplyObject(redisCommand(q.ear, "SUBSCRIBE seriatim:wake:n1"));
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "");
    return q;
}

static void close_owned(owned_queue *q)
{
    if (q->ear)
        redisFree(q->ear);
    close_queue(&q->f);
}

/* The next message of the owner's channel. */
static redisReply *next_message(owned_queue *q)
{
    void *reply = NULL;
    if (redisGetReply(q->ear, &reply) != REDIS_OK)
        fail_msg("no message");
    return reply;
}

static message hears_claim(owned_queue *q)
{
    redisReply *reply = next_message(q);
    const char *text, *head = "=" PREFIX;
    message m;
    text = reply->element[2]->str;
    assert_true(reply->element[2]->len > strlen(head) + 18);
    assert_memory_equal(text, head, strlen(head));
    text += strlen(head);
    m.fence = srt_little_double(text);
    m.previous = srt_little_double(text + 8);
    m.id_len = (size_t)(unsigned char)text[16] + 256 * (size_t)(unsigned char)text[17];
    snprintf(m.id, sizeof m.id, "%.*s", (int)m.id_len, text + 18);
    m.record_len = reply->element[2]->len - strlen(head) - 18 - m.id_len;
    freeReplyObject(reply);
    return m;
}

/* Nothing has come before a message that is published now. */
static int is_silent(owned_queue *q)
{
    redisReply *reply;
    int silent;
    freeReplyObject(redisCommand(server_redis, "PUBLISH seriatim:wake:n1 now"));
    reply = next_message(q);
    silent = strcmp(reply->element[2]->str, "now") == 0;
    freeReplyObject(reply);
    return silent;
}

static void hears(owned_queue *q, const char *wanted)
{
    redisReply *reply = next_message(q);
    assert_string_equal(reply->element[2]->str, wanted);
    freeReplyObject(reply);
}

static void settle_claim(owned_queue *q, const message *m)
{
    char run[64], sequence[16];
    redisReply *reply;
    snprintf(run, sizeof run, "0n%.0f", m->fence);
    snprintf(sequence, sizeof sequence, "%d", ++q->f.settles);
    reply = SCRIPT(settle, q->f.lease, sequence, "merge", "1", run, "-1");
    assert_int_equal(reply->integer, 0);
    freeReplyObject(reply);
}

/* ---- Pushes --------------------------------------------------------------------------------- */

static void test_r_run_12_a_push_to_a_sleeping_owner_claims_for_it(void **state)
{
    owned_queue q = open_owned();
    message a, b;
    (void)state;
    push(&q.f, "a", "1", none);
    a = hears_claim(&q);
    assert_string_equal(a.id, "a");
    assert_int_equal(a.record_len, 10); /* kind, stamp, payload */
    assert_int_equal((int64_t)a.previous, strtoll(q.f.seen, NULL, 10));
    assert_int_equal(number("LLEN " PREFIX "ready"), 0);
    assert_int_equal(number("HLEN " PREFIX "claims"), 1);
    assert_int_equal(metrics(&q.f).busy, 1);
    push(&q.f, "b", "1", none);
    b = hears_claim(&q);
    assert_string_equal(b.id, "b");
    assert_true(b.previous == a.fence && b.fence > a.fence);
    settle_claim(&q, &a);
    settle_claim(&q, &b);
    assert_int_equal(metrics(&q.f).processed, 2);
    assert_int_equal(number("EXISTS " PREFIX "jobs " PREFIX "claims"), 0);
    assert_int_equal(findings(&q.f, 0), 0);
    close_owned(&q);
}

static void test_a_push_that_nobody_hears_waits_as_any_other(void **state)
{
    owned_queue q = open_owned();
    char seen[32];
    (void)state;
    redisFree(q.ear);
    q.ear = NULL;
    while (number("PUBLISH seriatim:wake:n1 x") > 0)
        pause_ms(1);
    strcpy(seen, q.f.seen);
    push(&q.f, "a", "1", none);
    assert_int_equal(number("LLEN " PREFIX "ready"), 1);
    assert_int_equal(metrics(&q.f).busy, 0);
    assert_int_equal(metrics(&q.f).fresh, 1);
    assert_int_equal(findings(&q.f, 0), 0);
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "a");
    assert_string_not_equal(q.f.seen, seen);
    close_owned(&q);
}

static void test_no_more_is_claimed_than_the_window(void **state)
{
    owned_queue q = open_owned();
    message m;
    (void)state;
    push(&q.f, "a", "1", none);
    push(&q.f, "b", "1", none);
    push(&q.f, "c", "1", none);
    push(&q.f, "d", "1", none); /* wakes the owner, which has not claimed when e comes */
    push(&q.f, "e", "1", none);
    hears_claim(&q);
    hears_claim(&q);
    m = hears_claim(&q);
    hears(&q, PREFIX);
    assert_int_equal(number("LLEN " PREFIX "ready"), 2);
    snprintf(q.f.seen, sizeof q.f.seen, "%.0f", m.fence);
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "d e");
    settle_claim(&q, &m);
    push(&q.f, "f", "1", none); /* four are held */
    hears(&q, PREFIX);
    close_owned(&q);
}

/* A push behind a run moves the runs of its claim to `running`. A claim says the window anew. */
static void test_runs_of_claims_that_are_no_whole_any_more_count_in_the_window(void **state)
{
    owned_queue q = open_owned();
    message c;
    (void)state;
    push(&q.f, "a", "1", none);
    hears_claim(&q);
    push(&q.f, "a", "2", none);
    hears(&q, "~" PREFIX);
    assert_int_equal(number("HEXISTS " PREFIX "running a"), 1);
    push(&q.f, "b", "1", none);
    hears_claim(&q);
    push(&q.f, "c", "1", none);
    c = hears_claim(&q);
    push(&q.f, "d", "1", none);
    hears(&q, PREFIX);
    assert_int_equal(number("LLEN " PREFIX "ready"), 1);
    assert_int_equal(findings(&q.f, 0), 0);
    snprintf(q.f.seen, sizeof q.f.seen, "%.0f", c.fence);
    assert_string_equal(claim_with_window(&q.f, "5", "5"), "d");
    push(&q.f, "e", "1", none); /* of five, one is in running and three are held */
    hears_claim(&q);
    push(&q.f, "f", "1", none);
    hears(&q, PREFIX);
    close_owned(&q);
}

/* Those of a claim with a time to run are in `running` from the begin. */
static void test_runs_that_end_at_a_time_count_in_the_window(void **state)
{
    owned_queue q = open_owned();
    (void)state;
    push_many(&q.f, "many", 0, 2);
    hears(&q, PREFIX);
    freeReplyObject(SCRIPT(claim, q.f.lease, q.f.seen, "5", "0", "60000000", "merge", "0", "25", "bury", "", "3"));
    assert_int_equal(number("HEXISTS " PREFIX "running many"), 1);
    push(&q.f, "a", "1", none);
    hears_claim(&q);
    push(&q.f, "b", "1", none);
    hears_claim(&q);
    push(&q.f, "c", "1", none);
    hears(&q, PREFIX);
    assert_int_equal(number("LLEN " PREFIX "ready"), 1);
    close_owned(&q);
}

static void test_a_push_claims_past_nothing_that_became_due_by_a_settle(void **state)
{
    owned_queue q = open_owned();
    message a;
    (void)state;
    push(&q.f, "a", "1", none);
    a = hears_claim(&q);
    push(&q.f, "a", "2", none);
    hears(&q, "~" PREFIX);
    settle_claim(&q, &a);
    push(&q.f, "b", "1", none);
    assert_int_equal(number("LLEN " PREFIX "ready"), 2);
    snprintf(q.f.seen, sizeof q.f.seen, "%.0f", a.fence);
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "a b");
    assert_int_equal(findings(&q.f, 0), 0);
    close_owned(&q);
}

/* An id that is there already, jobs with options, more than one job, a large payload. */
static void test_other_pushes_claim_nothing(void **state)
{
    owned_queue q = open_owned();
    push_options score = {0, 5, 0, NULL}, context = {0, 0, 0, "{}"};
    char large_payload[2002];
    message a;
    (void)state;
    memset(large_payload, 'x', sizeof large_payload);
    large_payload[2001] = '\0';
    push(&q.f, "large", large_payload, none);
    hears(&q, PREFIX);
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "large");
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "");
    push(&q.f, "scored", "1", score);
    hears(&q, PREFIX);
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "scored");
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "");
    push(&q.f, "context", "1", context);
    hears(&q, PREFIX);
    assert_string_equal(claim_with_window(&q.f, "5", "10"), "context");
    assert_string_equal(claim_with_window(&q.f, "5", "10"), "");
    push_many(&q.f, "many", 0, 2);
    hears(&q, PREFIX);
    assert_string_equal(claim_with_window(&q.f, "5", "10"), "many");
    assert_string_equal(claim_with_window(&q.f, "5", "10"), "");
    push_later(&q.f, "later", "1", 60);
    hears(&q, PREFIX);
    assert_string_equal(claim_with_window(&q.f, "5", "10"), "");
    push(&q.f, "later", "2", none); /* folds into what waits */
    push(&q.f, "context", "2", none);
    hears(&q, "~" PREFIX);
    push(&q.f, "a", "1", none);
    a = hears_claim(&q);
    assert_string_equal(a.id, "a");
    assert_int_equal(findings(&q.f, 0), 0);
    close_owned(&q);
}

static void test_a_shard_that_is_paused_in_doubt_or_polled_by_poppers_is_left_to_claims(void **state)
{
    static const int flags[] = {SRT_FLAG_PAUSED, SRT_FLAG_DOUBTED, SRT_FLAG_UNFINISHED, SRT_FLAG_NOTICED,
                                SRT_FLAG_ALONE};
    owned_queue q = open_owned();
    char id[8];
    size_t i;
    (void)state;
    for (i = 0; i < sizeof flags / sizeof *flags; i++) {
        char flag = (char)flags[i];
        snprintf(id, sizeof id, "id%d", (int)i);
        REDIS("SETRANGE " PREFIX "state %d %b", SRT_STATE_FLAGS, &flag, (size_t)1);
        push(&q.f, id, "1", none);
        hears(&q, PREFIX);
        flag = 0;
        REDIS("SETRANGE " PREFIX "state %d %b", SRT_STATE_FLAGS, &flag, (size_t)1);
        assert_string_equal(claim_with_window(&q.f, "5", "20"), id);
        assert_string_equal(claim_with_window(&q.f, "5", "20"), "");
    }
    {
        const unsigned char forever[8] = {0, 0x80, 0xfa, 0xca, 0x73, 0xf9, 0x3f, 0x43}; /* 9e15 */
        REDIS("SETRANGE " PREFIX "state %d %b", SRT_STATE_ASLEEP, forever, sizeof forever);
        push(&q.f, "popper", "1", none);
        hears(&q, PREFIX);
    }
    close_owned(&q);
}

static void test_an_acquire_and_a_release_let_no_push_claim(void **state)
{
    owned_queue q = open_owned();
    redisReply *reply = acquire_seen("n1", "0");
    (void)state;
    strcpy(q.f.lease, reply->element[1]->str);
    freeReplyObject(reply);
    push(&q.f, "a", "1", none);
    assert_int_equal(number("LLEN " PREFIX "ready"), 1);
    close_owned(&q);
}

/* ---- What the owner has missed --------------------------------------------------------------- */

static void test_claims_that_were_missed_are_answered_the_oldest_first(void **state)
{
    owned_queue q = open_owned();
    message b;
    (void)state;
    push(&q.f, "a", "1", none);
    push(&q.f, "b", "1", none);
    hears_claim(&q);
    b = hears_claim(&q);
    push(&q.f, "a", "2", none); /* spreads both */
    hears(&q, "~" PREFIX);
    push(&q.f, "c", "1", none);
    hears_claim(&q);
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "a");
    push(&q.f, "d", "1", none); /* waits until the owner has caught up */
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "b");
    assert_int_equal(strtoll(q.f.seen, NULL, 10), (int64_t)b.fence);
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "c");
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "d");
    close_owned(&q);
}

/* Of a claim that was missed an operator has settled nothing, but one id was handed back alone. */
static void test_what_is_left_of_a_missed_claim_is_answered(void **state)
{
    owned_queue q = open_owned();
    message a;
    char run[64];
    (void)state;
    push(&q.f, "a", "1", none);
    push(&q.f, "b", "1", none);
    a = hears_claim(&q);
    hears_claim(&q);
    snprintf(run, sizeof run, "0n%.0f", a.fence);
    settle_failed(&q.f, "a", run, "25", "bury");
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "b");
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "");
    close_owned(&q);
}

/* ---- Refusals ------------------------------------------------------------------------------- */

/* A push of one job by its script, or by another text. Returns the reply. */
static redisReply *push_by(const char *script_text, size_t len, const char *sequence, const char *id)
{
    const char *argv[] = {"EVAL", script_text, "3",     PREFIX "state", PREFIX "-", PREFIX "push:me",
                          "1",    sequence,    "merge", "keep",         "2",        "0",
                          id,     "1"};
    size_t lens[sizeof argv / sizeof *argv], i;
    for (i = 0; i < sizeof argv / sizeof *argv; i++)
        lens[i] = i == 1 ? len : strlen(argv[i]);
    return redisCommandArgv(server_redis, (int)i, argv, lens);
}

static redisReply *push_plainly(const char *sequence, const char *id)
{
    return push_by(srt_script_text_push, sizeof srt_script_text_push - 1, sequence, id);
}

static void is_refused(const char *sequence, const char *id)
{
    redisReply *reply = push_plainly(sequence, id);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

static void test_a_push_that_is_sent_again_claims_once(void **state)
{
    owned_queue q = open_owned();
    redisReply *reply;
    int i;
    (void)state;
    for (i = 0; i < 2; i++) {
        reply = push_plainly("7", "a");
        assert_string_equal(reply->str, "1 1 0");
        freeReplyObject(reply);
    }
    is_refused("6", "b");
    hears_claim(&q);
    assert_true(is_silent(&q));
    assert_int_equal(number("HLEN " PREFIX "claims"), 1);
    close_owned(&q);
}

static void test_a_push_that_is_sent_again_when_its_job_has_ended_writes_nothing(void **state)
{
    owned_queue q = open_owned();
    message m;
    redisReply *reply;
    (void)state;
    freeReplyObject(push_plainly("7", "a"));
    m = hears_claim(&q);
    settle_claim(&q, &m);
    reply = push_plainly("7", "a");
    assert_string_equal(reply->str, "1 1 0");
    freeReplyObject(reply);
    is_refused("6", "b");
    assert_true(is_silent(&q));
    assert_int_equal(number("EXISTS " PREFIX "jobs " PREFIX "claims"), 0);
    freeReplyObject(push_plainly("8", "a"));
    m = hears_claim(&q);
    assert_string_equal(m.id, "a");
    freeReplyObject(push_plainly("10", "c")); /* sequences are compared as texts */
    hears_claim(&q);
    is_refused("9", "d");
    assert_true(is_silent(&q));
    close_owned(&q);
}

/* Redis is full. Returns whether the refused push was published. */
static int is_published_when_refused(const char *script_text, size_t len)
{
    owned_queue q = open_owned();
    redisReply *reply;
    int silent;
    freeReplyObject(push_by(script_text, len, "1", "known"));
    do { /* the control has published before, too */
        reply = next_message(&q);
        silent = reply->element[2]->len == 1;
        freeReplyObject(reply);
    } while (silent);
    REDIS("CONFIG SET maxmemory 1");
    reply = push_by(script_text, len, "2", "a");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    REDIS("CONFIG SET maxmemory 0");
    assert_int_equal(number("HLEN " PREFIX "jobs"), 1);
    silent = is_silent(&q);
    close_owned(&q);
    return !silent;
}

static void test_a_push_that_a_full_redis_refuses_is_not_published(void **state)
{
    static const char at[] = "if listeners > 0 and call('HSETNX', JOBS, job_id, record) == 1 then";
    static const char before[] = "redis.pcall('PUBLISH', 'seriatim:wake:n1', '=')\n";
    char *text = malloc(sizeof srt_script_text_push - 1 + sizeof before), *from;
    size_t len = sizeof srt_script_text_push - 1;
    (void)state;
    assert_false(is_published_when_refused(srt_script_text_push, sizeof srt_script_text_push - 1));
    /* The control: a script that publishes before its first write. */
    memcpy(text, srt_script_text_push, len);
    from = memmem(text, len, at, sizeof at - 1);
    assert_non_null(from);
    memmove(from + sizeof before - 1, from, len - (size_t)(from - text));
    memcpy(from, before, sizeof before - 1);
    assert_true(is_published_when_refused(text, len + sizeof before - 1));
    free(text);
}

/*
 * The owner does not listen at this Redis; replicas and members of a cluster would pass the message on, as to this
 * client, which listens to all channels of a pattern. Returns whether the claim is published.
 */
static int is_published_to_nobody(const char *script_text, size_t len)
{
    owned_queue q = open_owned();
    redisReply *reply;
    int published;
    redisFree(q.ear);
    while (number("PUBLISH seriatim:wake:n1 x") > 0)
        pause_ms(1);
    q.ear = redisConnectUnix(server.socket);
    freeReplyObject(redisCommand(q.ear, "PSUBSCRIBE seriatim:wake:*"));
    freeReplyObject(push_by(script_text, len, "1", "a"));
    reply = next_message(&q);
    published = reply->element[3]->str[0] == '=';
    freeReplyObject(reply);
    close_owned(&q);
    return published;
}

static void test_a_claim_that_the_owner_cannot_hear_here_is_not_published(void **state)
{
    static const char at[] = "if listeners > 0 and";
    char *text = malloc(sizeof srt_script_text_push - 1), *from;
    (void)state;
    assert_false(is_published_to_nobody(srt_script_text_push, sizeof srt_script_text_push - 1));
    memcpy(text, srt_script_text_push, sizeof srt_script_text_push - 1);
    from = memmem(text, sizeof srt_script_text_push - 1, at, sizeof at - 1);
    assert_non_null(from);
    memcpy(from, "if 0 >= 0 and       ", sizeof at - 1); /* the control */
    assert_true(is_published_to_nobody(text, sizeof srt_script_text_push - 1));
    free(text);
}

static void test_keys_of_a_wrong_type_lose_no_job(void **state)
{
    owned_queue q = open_owned();
    redisReply *reply;
    int i;
    (void)state;
    REDIS("SET " PREFIX "claims x");
    push(&q.f, "a", "1", none);
    assert_int_equal(number("LLEN " PREFIX "ready"), 1);
    REDIS("DEL " PREFIX "claims");
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "a");
    assert_string_equal(claim_with_window(&q.f, "5", "3"), "");
    REDIS("RENAME " PREFIX "claims kept");
    REDIS("SET " PREFIX "claims x");
    REDIS("SET " PREFIX "ready x");
    for (i = 0; i < 2; i++) {
        is_refused("1", "b");
        assert_int_equal(number("HLEN " PREFIX "jobs"), 1);
    }
    REDIS("DEL " PREFIX "ready");
    REDIS("RENAME kept " PREFIX "claims");
    reply = push_plainly("1", "b");
    assert_string_equal(reply->str, "1 1 0");
    freeReplyObject(reply);
    assert_int_equal(number("HLEN " PREFIX "jobs"), 2);
    close_owned(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_run_12_a_push_to_a_sleeping_owner_claims_for_it),
        cmocka_unit_test(test_a_push_that_nobody_hears_waits_as_any_other),
        cmocka_unit_test(test_no_more_is_claimed_than_the_window),
        cmocka_unit_test(test_runs_of_claims_that_are_no_whole_any_more_count_in_the_window),
        cmocka_unit_test(test_runs_that_end_at_a_time_count_in_the_window),
        cmocka_unit_test(test_a_push_claims_past_nothing_that_became_due_by_a_settle),
        cmocka_unit_test(test_other_pushes_claim_nothing),
        cmocka_unit_test(test_a_shard_that_is_paused_in_doubt_or_polled_by_poppers_is_left_to_claims),
        cmocka_unit_test(test_an_acquire_and_a_release_let_no_push_claim),
        cmocka_unit_test(test_claims_that_were_missed_are_answered_the_oldest_first),
        cmocka_unit_test(test_what_is_left_of_a_missed_claim_is_answered),
        cmocka_unit_test(test_a_push_that_is_sent_again_claims_once),
        cmocka_unit_test(test_a_push_that_is_sent_again_when_its_job_has_ended_writes_nothing),
        cmocka_unit_test(test_a_push_that_a_full_redis_refuses_is_not_published),
        cmocka_unit_test(test_a_claim_that_the_owner_cannot_hear_here_is_not_published),
        cmocka_unit_test(test_keys_of_a_wrong_type_lose_no_job),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_operator.c - queries, actions, metrics, explanations, checks, queues and health against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SRT_SCRIPT_TEXTS
#include "client/client.h"
#include "base/msgpack.h"
#include "client/operator.h"
#include "server.h"

#define PREFIX "seriatim:{Q/0}:"

/* ---- The server ---------------------------------------------------------------------------- */

static long long count_of(const char *command, const char *key)
{
    redisReply *reply = redis("%s " PREFIX "%s", command, key);
    long long n = reply->integer;
    freeReplyObject(reply);
    return n;
}

/* Runs a script on shard 0 of queue Q; more arguments follow the generation, NULL ends them; then come `tail_len` bytes, if any. */
static redisReply *script(const char *text, size_t len, const char *tail, size_t tail_len, ...)
{
    static const char *const kinds[] = {"state",  "jobs", "ready", "due",    "running",  "next",   "retry",
                                        "dead",   "died", "parked", "unproven", "suspect", "overrun", "claims"};
    static char keys[14][64];
    const char *argv[64] = {"EVAL", text, "14"};
    size_t lens[64] = {4, len, 2}, n = 3, i;
    redisReply *reply;
    va_list args;
    for (i = 0; i < 14; i++) {
        snprintf(keys[i], sizeof keys[i], PREFIX "%s", kinds[i]);
        argv[n++] = keys[i];
    }
    argv[n++] = "1";
    va_start(args, tail_len);
    while ((argv[n] = va_arg(args, const char *)))
        n++;
    va_end(args);
    for (i = 3; i < n; i++)
        lens[i] = strlen(argv[i]);
    if (tail) {
        lens[n] = tail_len;
        argv[n++] = tail;
    }
    reply = redisCommandArgv(server.redis, (int)n, argv, lens);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%.40s: %s", text, reply ? reply->str : "closed");
    return reply;
}
#define SCRIPT_BYTES(name, tail, len, ...) script(srt_script_text_##name, sizeof srt_script_text_##name, tail, len, __VA_ARGS__, NULL)
#define SCRIPT(name, ...) SCRIPT_BYTES(name, NULL, 0, __VA_ARGS__)

/* ---- A queue ------------------------------------------------------------------------------- */

typedef struct fixture {
    seriatim_link *link;
    seriatim_client *client;
    size_t queue;
    char lease[32], seen[32];
    int settles;
} fixture;

static size_t add_queue(seriatim_client *c, const char *name, size_t len, int64_t shards, const char *fold)
{
    seriatim_queue_settings settings;
    size_t queue = 0;
    seriatim_queue_settings_init(&settings);
    settings.name = name;
    settings.name_len = len;
    settings.shards_count = shards;
    settings.fold = fold;
    assert_int_equal(seriatim_client_queue(c, &settings, &queue), SERIATIM_OK);
    return queue;
}

static fixture open_queue(int64_t shards, const char *fold)
{
    fixture f;
    seriatim_error error;
    memset(&f, 0, sizeof f);
    REDIS("CONFIG SET maxmemory 0");
    REDIS("FLUSHALL");
    assert_int_equal(seriatim_link_new(NULL, server.url, &f.link, &error), SERIATIM_OK);
    f.client = seriatim_link_client(f.link);
    f.queue = add_queue(f.client, "Q", 1, shards, fold);
    return f;
}

static int drive(seriatim_link *link)
{
    int status;
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        seriatim_link_wait(link);
    return status;
}

static void done(const fixture *f, int begun)
{
    int status = begun == SERIATIM_OK ? drive(f->link) : begun;
    if (status != SERIATIM_OK)
        fail_msg("%s: %s", seriatim_status_name(status), seriatim_client_error(f->client)->message);
}

typedef struct push_options {
    double delay, score;
    int64_t retry_count; /* 0: none, else one more */
    const char *context;
} push_options;

static void add(const fixture *f, const char *id, size_t len, const char *payload, push_options options)
{
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = len;
    job.payload = payload;
    job.payload_len = strlen(payload);
    if (options.delay > 0) {
        job.when = SERIATIM_DELAY;
        job.time = options.delay;
    }
    if (options.score > 0) {
        job.has_score = 1;
        job.score = options.score;
    }
    job.retry_count = options.retry_count - 1;
    if (options.context) {
        job.context = options.context;
        job.context_len = strlen(options.context);
    }
    done(f, seriatim_push_job(f->client, &job));
}

static const push_options none = {0, 0, 0, NULL};

static void push(const fixture *f, const char *id, const char *payload, push_options options)
{
    done(f, seriatim_push_begin(f->client, f->queue));
    add(f, id, strlen(id), payload, options);
    done(f, seriatim_push_send(f->client));
}

/* A failed id: a push with a retry_count. */
static void push_failed(const fixture *f, const char *id, const char *payload, int64_t retry_count, double delay)
{
    push_options options = {0, 0, 0, NULL};
    options.delay = delay;
    options.retry_count = retry_count + 1;
    push(f, id, payload, options);
}

static void push_later(const fixture *f, const char *id, const char *payload, double delay)
{
    push_options options = {0, 0, 0, NULL};
    options.delay = delay;
    push(f, id, payload, options);
}

static void push_many(const fixture *f, const char *id, int from, int count)
{
    char payload[32];
    int i;
    done(f, seriatim_push_begin(f->client, f->queue));
    for (i = from; i < from + count; i++) {
        snprintf(payload, sizeof payload, "p%d", i);
        add(f, id, strlen(id), payload, none);
    }
    done(f, seriatim_push_send(f->client));
}

/* ---- What a node does, on shard 0 ----------------------------------------------------------- */

static void acquire(fixture *f, const char *node)
{
    redisReply *reply = SCRIPT(acquire, node, "merge", "", "0");
    assert_string_equal(reply->element[0]->str, "OK");
    strcpy(f->lease, reply->element[1]->str);
    strcpy(f->seen, reply->element[2]->str);
    freeReplyObject(reply);
}

/* A slice of what an acquire or a settle left. Returns 0 when nothing is left. */
static int recover_slice(fixture *f, char cursor[24])
{
    redisReply *reply = SCRIPT(recover, f->lease, "merge", cursor);
    snprintf(cursor, 24, "%s", reply->element[0]->str);
    freeReplyObject(reply);
    return cursor[0] != '\0';
}

/* Returns how many calls it took. */
static int recover_all(fixture *f)
{
    char cursor[24] = "0";
    int calls = 1;
    while (recover_slice(f, cursor))
        calls++;
    return calls;
}

/* After n1: as its heir, or of a shard whose state was lost. */
static void take_over(fixture *f, const char *node)
{
    redisReply *reply = SCRIPT(acquire, node, "merge", "n1", f->lease);
    if (strcmp(reply->element[0]->str, "OK") != 0) {
        freeReplyObject(reply);
        acquire(f, node);
        return;
    }
    strcpy(f->lease, reply->element[1]->str);
    strcpy(f->seen, reply->element[2]->str);
    freeReplyObject(reply);
    recover_all(f);
}

/* Claims up to `limit` ids; the run of the first is written to `run`. Returns their number. */
static size_t claim(fixture *f, const char *limit, char run[64])
{
    redisReply *reply = SCRIPT(claim, f->lease, f->seen, limit, "0", "0", "merge");
    srt_texts records = {NULL, NULL, 0};
    const char *record;
    size_t len, n = 0;
    strcpy(f->seen, reply->element[1]->str);
    if (reply->elements > 8) {
        assert_int_equal(srt_texts_begin(&records, reply->element[9]->str, reply->element[9]->len), SERIATIM_OK);
        n = records.count;
        assert_int_equal(srt_texts_next(&records, &record, &len), SERIATIM_OK);
        if (run)
            snprintf(run, 64, "%d%s%s", (unsigned char)record[0] >= 12, reply->element[6]->str, f->seen);
    }
    freeReplyObject(reply);
    return n;
}

static void settle_done(fixture *f, const char *id, const char *run)
{
    char sequence[16];
    snprintf(sequence, sizeof sequence, "%d", ++f->settles);
    freeReplyObject(SCRIPT(settle, f->lease, sequence, "merge", "1", run, "1", id));
}

static void settle_failed(fixture *f, const char *id, const char *run, const char *limit, const char *action)
{
    char sequence[16];
    snprintf(sequence, sizeof sequence, "%d", ++f->settles);
    freeReplyObject(SCRIPT(settle, f->lease, sequence, "merge", "0", "fail", id, run, "60000000", "boom", limit, action));
}

/* ---- What an operator does ------------------------------------------------------------------ */

static seriatim_text text(const char *word)
{
    seriatim_text t = {word, word ? strlen(word) : 0};
    return t;
}

static int64_t act(const fixture *f, int kind)
{
    done(f, seriatim_action_begin(f->client, f->queue, kind, NULL, 0));
    return seriatim_action_result(f->client);
}

static int64_t act_on(const fixture *f, int kind, const char *id)
{
    seriatim_text ids[1];
    ids[0] = text(id);
    done(f, seriatim_action_begin(f->client, f->queue, kind, ids, 1));
    return seriatim_action_result(f->client);
}

/* kind: SERIATIM_DROP_PAYLOAD or SERIATIM_MORGUE_DROP_PAYLOAD. */
static int64_t drop(const fixture *f, int kind, const char *id, const char *payload)
{
    seriatim_text texts[2];
    texts[0] = text(id);
    texts[1] = text(payload);
    done(f, seriatim_action_begin(f->client, f->queue, kind, texts, 2));
    return seriatim_action_result(f->client);
}

/* The ids of a range, joined by spaces. */
static const char *range(const fixture *f, int kind, int reverse, const char *min, const char *max, int64_t limit)
{
    static char out[4096];
    const seriatim_record *records;
    seriatim_query query;
    size_t count, i;
    seriatim_query_init(&query, kind);
    query.reverse = reverse;
    query.min = text(min);
    query.max = text(max);
    query.limit = limit;
    done(f, seriatim_query_begin(f->client, f->queue, &query));
    records = seriatim_query_result(f->client, &count);
    out[0] = '\0';
    for (i = 0; i < count; i++) {
        if (i)
            strcat(out, " ");
        strcat(out, records[i].id);
    }
    return out;
}

/* One id's record, or NULL. */
static const seriatim_record *fetch(const fixture *f, int kind, const char *id)
{
    const seriatim_record *records;
    seriatim_query query;
    seriatim_text ids[1];
    size_t count;
    ids[0] = text(id);
    seriatim_query_init(&query, kind);
    query.ids = ids;
    query.id_count = 1;
    done(f, seriatim_query_begin(f->client, f->queue, &query));
    records = seriatim_query_result(f->client, &count);
    return count ? &records[0] : NULL;
}

/* An id's payloads, joined by commas; "-" when it is unknown. */
static const char *payloads(const fixture *f, int kind, const char *id)
{
    static char out[4096];
    const seriatim_record *record = fetch(f, kind, id);
    size_t i;
    if (!record)
        return "-";
    out[0] = '\0';
    for (i = 0; i < record->payload_count; i++) {
        if (i)
            strcat(out, ",");
        strncat(out, record->payloads[i].data, record->payloads[i].len);
    }
    return out;
}

static seriatim_metrics metrics(const fixture *f)
{
    done(f, seriatim_metrics_begin(f->client, f->queue));
    return *seriatim_metrics_total(f->client);
}

static size_t findings(const fixture *f, int repair)
{
    const seriatim_finding *list;
    size_t count, i, open = 0;
    done(f, seriatim_check_begin(f->client, f->queue, repair));
    list = seriatim_check_result(f->client, &count);
    for (i = 0; i < count; i++) {
        open += !list[i].repaired;
        if (!repair && getenv("VERBOSE"))
            printf("%s %s: %s\n", list[i].kind, list[i].id, list[i].detail);
    }
    return repair ? open : count;
}

static void close_queue(fixture *f)
{
    REDIS("CONFIG SET maxmemory 0");
    assert_int_equal(findings(f, 0), 0);
    seriatim_link_free(f->link);
}

/* ---- Queries -------------------------------------------------------------------------------- */

static void test_queries_of_an_empty_queue_find_nothing(void **state)
{
    fixture f = open_queue(3, "merge");
    int kind;
    (void)state;
    for (kind = SERIATIM_RANGE_BY_ID; kind <= SERIATIM_PARKED; kind++) {
        assert_string_equal(range(&f, kind, 0, NULL, NULL, 10), "");
        assert_string_equal(range(&f, kind, 1, NULL, NULL, 10), "");
    }
    assert_null(fetch(&f, SERIATIM_FETCH, "a"));
    assert_int_equal(metrics(&f).length, 0);
    assert_true(metrics(&f).lag <= 0);
    close_queue(&f);
}

/* A queue that Redis does not know, and that is not made by looking. */
/* There is no queue: pause and resume say so, since the first push would make it, not paused. */
static void refuses_to_pause(const fixture *f, seriatim_action_kind kind)
{
    int status = seriatim_action_begin(f->client, f->queue, kind, NULL, 0);
    assert_int_equal(status == SERIATIM_OK ? drive(f->link) : status, SERIATIM_INVALID);
    assert_non_null(strstr(seriatim_client_error(f->client)->message, "there is no queue \"Q\" yet"));
}

static void test_an_unknown_queue_is_empty_and_is_not_made_by_looking(void **state)
{
    fixture f = open_queue(0, "merge");
    redisReply *reply;
    (void)state;
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "");
    assert_null(fetch(&f, SERIATIM_FETCH, "a"));
    refuses_to_pause(&f, SERIATIM_PAUSE);
    refuses_to_pause(&f, SERIATIM_RESUME);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "a"), 0);
    assert_int_equal(metrics(&f).length, 0);
    done(&f, seriatim_explain_begin(f.client, f.queue, "a", 1));
    assert_string_equal(seriatim_explain_result(f.client)->job.state, "unknown");
    close_queue(&f);
    reply = redis("DBSIZE");
    assert_int_equal(reply->integer, 0);
    freeReplyObject(reply);
}

static void fill(fixture *f)
{
    push(f, "a", "1", none);
    push(f, "b", "2", none);
    push_later(f, "c", "3", 100);
    push_later(f, "d", "4", 50);
    push_failed(f, "e", "5", 3, 200);
    push_failed(f, "f", "6", 1, 300);
    push_failed(f, "g", "7", 1, 0);
}

static void test_ranges_by_id_keep_their_bounds(void **state)
{
    fixture f = open_queue(5, "merge");
    (void)state;
    fill(&f);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, "-", "+", 10), "a b c d e f g");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 3), "a b c");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 1, "-", "+", 3), "g f e");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, "[c", "(e", 10), "c d");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 1, "(c", "[e", 10), "e d");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, "+", "-", 10), "");
    close_queue(&f);
}

static void test_ranges_by_numbers_keep_their_bounds(void **state)
{
    fixture f = open_queue(5, "merge");
    char bound[64];
    double due;
    (void)state;
    fill(&f);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, "-inf", "+inf", 10), "a b g d c e f");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 1, "-inf", "+inf", 3), "f e c");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, NULL, NULL, 2), "a b");
    due = fetch(&f, SERIATIM_FETCH, "d")->perform_in;
    snprintf(bound, sizeof bound, "%.17g", due);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, bound, "inf", 10), "d c e f");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 1, "-inf", bound, 10), "d g b a");
    snprintf(bound, sizeof bound, "(%.17g", due);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, bound, "inf", 10), "c e f");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 1, "-inf", bound, 10), "g b a");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 0, "0", "+inf", 10), "f g e");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 1, "0", "+inf", 10), "e g f");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 0, "(1", "3", 10), "e");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 0, "0.5", "1.5e0", 10), "f g");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 0, "-inf", "(3", 10), "a b c d f g");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 1, "-1", "-1", 2), "d c");
    close_queue(&f);
}

static void test_invalid_bounds_are_refused(void **state)
{
    static const struct {
        int kind;
        const char *min, *max, *named;
    } rows[] = {
        {SERIATIM_RANGE_BY_ID, "a", "+", "min"},
        {SERIATIM_RANGE_BY_ID, "-", "", "max"},
        {SERIATIM_RANGE_BY_ID, "-x", "+", "min"},
        {SERIATIM_MORGUE_RANGE_BY_ID, "[a", "b", "max"},
        {SERIATIM_RANGE_BY_PERFORM_IN, "x", "+inf", "min"},
        {SERIATIM_RANGE_BY_PERFORM_IN, "1", "1.2.3", "max"},
        {SERIATIM_RANGE_BY_RETRY_COUNT, "(", "1", "min"},
        {SERIATIM_RANGE_BY_RETRY_COUNT, "", "1", "min"},
        {SERIATIM_RANGE_BY_RETRY_COUNT, "1", "nan", "max"},
        {SERIATIM_RANGE_BY_RETRY_COUNT, "1", "1e", "max"},
        {SERIATIM_MORGUE_RANGE_BY_UPDATED_AT, "1,5", "+inf", "min"},
    };
    fixture f = open_queue(2, "merge");
    seriatim_query query;
    size_t i;
    (void)state;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        seriatim_query_init(&query, rows[i].kind);
        query.min = text(rows[i].min);
        query.max = text(rows[i].max);
        assert_int_equal(seriatim_query_begin(f.client, f.queue, &query), SERIATIM_INVALID);
        assert_non_null(strstr(seriatim_client_error(f.client)->message, rows[i].named));
    }
    seriatim_query_init(&query, SERIATIM_RANGE_BY_ID);
    query.limit = 0;
    assert_int_equal(seriatim_query_begin(f.client, f.queue, &query), SERIATIM_INVALID);
    seriatim_query_init(&query, 99);
    assert_int_equal(seriatim_query_begin(f.client, f.queue, &query), SERIATIM_INVALID);
    assert_int_equal(seriatim_action_begin(f.client, f.queue, 99, NULL, 0), SERIATIM_INVALID);
    seriatim_query_init(&query, SERIATIM_RANGE_BY_ID);
    assert_int_equal(seriatim_query_begin(f.client, 7, &query), SERIATIM_INVALID);
    close_queue(&f);
}

/* Thousands of ids over several shards and slices: each page is what sorting them all would give. */
static void test_a_range_merges_all_shards_in_order(void **state)
{
    fixture f = open_queue(7, "merge");
    char id[16], last[64];
    const seriatim_record *records;
    seriatim_query query;
    size_t count, total = 0;
    double before = 0;
    int i;
    (void)state;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < 6000; i++) {
        push_options options = {0, 0, 0, NULL};
        options.delay = i % 3 == 0 ? 1000.0 - i / 10.0 + 1000 : 0;
        snprintf(id, sizeof id, "id-%05d", i);
        add(&f, id, strlen(id), "{}", options);
    }
    done(&f, seriatim_push_send(f.client));
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, "(id-00998", "+", 3), "id-00999 id-01000 id-01001");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 1, "-", "+", 2), "id-05999 id-05998");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 1, NULL, NULL, 3), "id-00000 id-00003 id-00006");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_RETRY_COUNT, 1, "-1", "0", 2), "id-05999 id-05998");
    seriatim_query_init(&query, SERIATIM_RANGE_BY_PERFORM_IN);
    query.limit = 1000;
    last[0] = '\0';
    for (;;) { /* page by page */
        query.min = text(last[0] ? last : NULL);
        done(&f, seriatim_query_begin(f.client, f.queue, &query));
        records = seriatim_query_result(f.client, &count);
        for (i = 0; (size_t)i < count; i++) {
            assert_true(records[i].perform_in >= before);
            before = records[i].perform_in;
        }
        total += count;
        if (count < 1000)
            break;
        snprintf(last, sizeof last, "(%.17g", before);
    }
    /* Jobs of two shards may share a microsecond at the end of a page; only those may be missed. */
    assert_in_range(total, 5980, 6000);
    query.min = text(NULL);
    query.limit = 100000;
    done(&f, seriatim_query_begin(f.client, f.queue, &query));
    seriatim_query_result(f.client, &count);
    assert_int_equal(count, 6000);
    close_queue(&f);
}

static void test_a_record_has_all_its_fields(void **state)
{
    fixture f = open_queue(1, "list");
    push_options options = {0, 9.5, 0, "{\"t\":\"1\"}"};
    const seriatim_record *record;
    char run[64];
    (void)state;
    push(&f, "x", "late", options);
    options.score = 2;
    options.context = NULL;
    push(&f, "x", "early", options);
    record = fetch(&f, SERIATIM_FETCH, "x");
    assert_string_equal(record->state, "waiting");
    assert_int_equal(record->payload_count, 2);
    assert_memory_equal(record->payloads[0].data, "early", 5);
    assert_true(fabs(record->payloads[1].score - 9.5) < 1e-12);
    assert_int_equal(record->payloads[1].context_len, 9);
    assert_int_equal(record->error_len, 0);
    assert_int_equal(record->retry_count, -1);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "10", run), 1);
    assert_null(fetch(&f, SERIATIM_FETCH, "x"));
    assert_string_equal(range(&f, SERIATIM_PROCESSING, 0, NULL, NULL, 10), "x");
    push(&f, "x", "next", none);
    record = fetch(&f, SERIATIM_FETCH, "x");
    assert_int_equal(record->behind, 1);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, NULL, NULL, 10), "x");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "x");
    settle_failed(&f, "x", run, "5", "bury");
    record = fetch(&f, SERIATIM_FETCH, "x");
    assert_string_equal(record->state, "retrying");
    assert_memory_equal(record->error, "boom", 4);
    assert_int_equal(record->retry_count, 0);
    assert_int_equal(record->payload_count, 3);
    close_queue(&f);
}

/* ---- Metrics -------------------------------------------------------------------------------- */

/* Makes an id due `seconds` ago: its record is the plain form. */
static void backdate(const char *id, double seconds)
{
    unsigned char record[10];
    redisReply *reply = redis("TIME");
    double due = (strtod(reply->element[0]->str, NULL) - seconds) * 1e6 + strtod(reply->element[1]->str, NULL);
    freeReplyObject(reply);
    record[0] = 0;
    memcpy(record + 1, &due, 8);
    record[9] = 'p';
    REDIS("HSET " PREFIX "jobs %s %b", id, record, sizeof record);
}

static void test_metrics_count_ids_by_state(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_metrics m;
    char run[64], id[32];
    int i;
    (void)state;
    push_later(&f, "later", "1", 1000);
    m = metrics(&f);
    assert_true(m.lag <= 0);
    assert_true(m.first > m.now + 999);
    acquire(&f, "n1");
    for (i = 0; i < 4; i++) {
        snprintf(id, sizeof id, "dead%d", i);
        push_failed(&f, id, "1", 2, 100);
    }
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 4);
    push(&f, "run", "1", none);
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, "gone", "1", none);
    push(&f, "old", "p", none);
    push(&f, "new", "p", none);
    REDIS("HDEL " PREFIX "jobs gone");
    backdate("old", 10);
    push_failed(&f, "r1", "1", 0, 60);
    push_failed(&f, "r2", "1", 4, 60);
    push_failed(&f, "stopped", "1", 4, 60);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "stopped"), 1);
    m = metrics(&f);
    assert_int_equal(m.fresh, 3);
    assert_int_equal(m.retries, 2);
    assert_int_equal(m.length, 5);
    assert_int_equal(m.busy, 1);
    assert_int_equal(m.parked, 1);
    assert_int_equal(m.morgue_length, 4);
    assert_true(m.lag > 9.9 && m.lag < 10.5);
    settle_done(&f, "run", run);
    m = metrics(&f);
    assert_int_equal(m.processed, 1);
    assert_int_equal(m.busy, 0);
    REDIS("HSET " PREFIX "running x y");
    REDIS("DEL " PREFIX "running");
    close_queue(&f);
}

/* ---- Actions -------------------------------------------------------------------------------- */

static void test_perform_all_now_makes_waiting_ids_due(void **state)
{
    fixture f = open_queue(3, "merge");
    seriatim_metrics m;
    (void)state;
    fill(&f);
    push_later(&f, "stopped", "1", 100);
    act_on(&f, SERIATIM_PARK, "stopped");
    assert_int_equal(act(&f, SERIATIM_PERFORM_ALL_JOBS_NOW), 4);
    m = metrics(&f);
    assert_true(m.lag < 5);
    assert_int_equal(m.retries, 3);
    assert_int_equal(m.parked, 1);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "e")->retry_count, 3);
    assert_true(fetch(&f, SERIATIM_FETCH, "c")->perform_in <= m.now);
    assert_int_equal(act(&f, SERIATIM_PERFORM_ALL_JOBS_NOW), 0);
    close_queue(&f);
}

static void test_perform_now_makes_chosen_ids_due(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    push_later(&f, "later", "1", 100);
    push_failed(&f, "failed", "1", 3, 60);
    push_later(&f, "stopped", "1", 100);
    act_on(&f, SERIATIM_PARK, "stopped");
    assert_int_equal(act_on(&f, SERIATIM_PERFORM_NOW, "later"), 1);
    assert_int_equal(act_on(&f, SERIATIM_PERFORM_NOW, "later"), 0);
    assert_int_equal(act_on(&f, SERIATIM_PERFORM_NOW, "failed"), 1);
    assert_int_equal(act_on(&f, SERIATIM_PERFORM_NOW, "stopped"), 0);
    assert_int_equal(act_on(&f, SERIATIM_PERFORM_NOW, "nothing"), 0);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "later")->state, "waiting");
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "failed")->retry_count, 3);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "stopped")->state, "parked");
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "5", run), 2);
    push_later(&f, "later", "2", 100);
    assert_int_equal(act_on(&f, SERIATIM_PERFORM_NOW, "later"), 1); /* behind the run */
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "later")->state, "waiting");
    settle_done(&f, "later", run);
    settle_done(&f, "failed", run);
    assert_int_equal(claim(&f, "5", run), 1);
    close_queue(&f);
}

static void test_unpark_all_makes_each_parked_id_due(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], id[16];
    int i;
    (void)state;
    acquire(&f, "n1");
    push(&f, "run", "1", none);
    assert_int_equal(claim(&f, "5", run), 1);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "run"), 1);
    for (i = 0; i < 250; i++) {
        snprintf(id, sizeof id, "%d", i);
        push(&f, id, "1", none);
        assert_int_equal(act_on(&f, SERIATIM_PARK, id), 1);
    }
    assert_int_equal(act(&f, SERIATIM_UNPARK_ALL), 251);
    assert_int_equal(act(&f, SERIATIM_UNPARK_ALL), 0);
    assert_int_equal(metrics(&f).parked, 0);
    assert_int_equal(metrics(&f).length, 250);
    settle_failed(&f, "run", run, "9", "bury");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "run")->state, "retrying");
    close_queue(&f);
}

static void test_actions_on_failed_ids_spare_all_others(void **state)
{
    fixture f = open_queue(3, "merge");
    (void)state;
    fill(&f);
    push(&f, "e", "more", none);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 3);
    assert_string_equal(range(&f, SERIATIM_MORGUE_RANGE_BY_ID, 0, NULL, NULL, 10), "e f g");
    assert_string_equal(range(&f, SERIATIM_MORGUE_RANGE_BY_ID, 1, "(e", NULL, 10), "g f");
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "e"), "5,more");
    assert_true(fetch(&f, SERIATIM_MORGUE_FETCH, "e")->updated_at > 1e9);
    assert_int_equal(metrics(&f).retries, 0);
    push_failed(&f, "e", "again", 2, 0);
    act(&f, SERIATIM_KILL_ALL_FAILED_JOBS);
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "e"), "5,more,again");
    push_failed(&f, "h", "8", 2, 0);
    assert_int_equal(act(&f, SERIATIM_DELETE_ALL_FAILED_JOBS), 1);
    assert_null(fetch(&f, SERIATIM_FETCH, "h"));
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "a b c d");
    assert_string_equal(range(&f, SERIATIM_MORGUE_RANGE_BY_UPDATED_AT, 1, NULL, NULL, 1), "e");
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_DELETE, "e"), 1);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_DELETE, "e"), 0);
    assert_int_equal(act(&f, SERIATIM_MORGUE_DELETE_ALL_JOBS), 2);
    assert_int_equal(metrics(&f).morgue_length, 0);
    close_queue(&f);
}

/* R-ACTION-10: what is pushed between two slices survives both actions, and what dies meanwhile is not deleted. */
static void test_r_action_10_pushes_between_two_slices_survive_the_action(void **state)
{
    static const int deletes[] = {0, 1};
    size_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        fixture f = open_queue(1, "merge");
        char began[32] = "0", cursor[32] = "", id[16];
        int slices = 0, n, kept = 0;
        done(&f, seriatim_push_begin(f.client, f.queue));
        for (n = 0; n < 900; n++) {
            push_options options = {60, 0, 3, NULL};
            snprintf(id, sizeof id, "f%d", n);
            add(&f, id, strlen(id), "old", options);
        }
        done(&f, seriatim_push_send(f.client));
        do {
            redisReply *reply = deletes[i] ? SCRIPT(delete_failed, began, cursor) : SCRIPT(kill_failed, began, cursor, "merge");
            strcpy(began, reply->element[0]->str);
            strcpy(cursor, reply->element[1]->str);
            freeReplyObject(reply);
            if (slices++ == 1) {
                done(&f, seriatim_push_begin(f.client, f.queue));
                for (n = 0; n < 900; n++) {
                    snprintf(id, sizeof id, "f%d", n);
                    add(&f, id, strlen(id), "new", none);
                }
                done(&f, seriatim_push_send(f.client));
            }
        } while (*cursor);
        assert_true(slices > 3);
        for (n = 0; n < 900; n++) {
            snprintf(id, sizeof id, "f%d", n);
            kept += strcmp(payloads(&f, SERIATIM_FETCH, id), "new") == 0;
        }
        assert_int_equal(kept, 900);
        assert_int_equal(metrics(&f).retries, 0);
        assert_int_equal(metrics(&f).morgue_length, deletes[i] ? 0 : 900);
        close_queue(&f);
    }
}

/* Fails what waits of an id. */
static void fail_all(fixture *f, const char *id)
{
    char run[64];
    assert_int_equal(claim(f, "1", run), 1);
    settle_failed(f, id, run, "9", "bury");
}

/* How many payloads the notices for retries_exhausted say that their ids had, in all; *notices: how many notices there are. */
static unsigned notified_payloads(unsigned *notices)
{
    redisReply *all = redis("HVALS " PREFIX "notices");
    unsigned count = 0;
    uint32_t id_len, payloads;
    size_t i;
    for (i = 0; i < all->elements; i++) {
        memcpy(&id_len, all->element[i]->str, sizeof id_len);
        memcpy(&payloads, all->element[i]->str + 4 + id_len, sizeof payloads);
        count += payloads;
    }
    *notices = (unsigned)all->elements;
    freeReplyObject(all);
    return count;
}

/* Kills what has failed in a queue whose worker has a retries_exhausted hook. Returns how many calls it took. */
static int kill_with_hook(fixture *f)
{
    char began[32] = "0", cursor[64] = "";
    int calls = 0;
    do {
        redisReply *reply = SCRIPT(kill_failed, began, cursor, "merge", "1");
        snprintf(began, sizeof began, "%s", reply->element[0]->str);
        snprintf(cursor, sizeof cursor, "%s", reply->element[1]->str);
        freeReplyObject(reply);
        assert_int_equal(findings(f, 0), 0);
        calls++;
    } while (cursor[0]);
    return calls;
}

/* An id that goes to the morgue in slices: retries_exhausted is told of each payload once. */
static void test_notices_name_every_payload_that_was_killed_in_slices(void **state)
{
    fixture f = open_queue(1, "merge");
    unsigned notices;
    (void)state;
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 1100);
    fail_all(&f, "hot");
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1); /* nobody is to be told */
    push_many(&f, "hot", 1100, 1000);
    fail_all(&f, "hot");
    assert_true(kill_with_hook(&f) > 2);
    assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->payload_total, 2100);
    assert_int_equal(notified_payloads(&notices), 1000);
    close_queue(&f);
}

/* A notice holds a payload, whatever its size: a call writes few of them. */
static void test_a_call_writes_few_notices_of_large_payloads(void **state)
{
    fixture f = open_queue(1, "merge");
    char *large = malloc(1000001), id[8];
    unsigned notices;
    int n;
    (void)state;
    memset(large, 'x', 1000000);
    large[1000000] = '\0';
    for (n = 0; n < 4; n++) {
        snprintf(id, sizeof id, "l%d", n);
        push_failed(&f, id, large, 3, 3600);
    }
    assert_int_equal(kill_with_hook(&f), 4);
    assert_int_equal(notified_payloads(&notices), 4);
    assert_int_equal(notices, 4);
    free(large);
    close_queue(&f);
}

/* ZSCAN gives all ids of a small index at once; a call ends no more of them than it may take time for. */
static void test_a_call_deletes_a_bounded_number_of_failed_ids(void **state)
{
    fixture f = open_queue(1, "merge");
    char began[32] = "0", cursor[64] = "", id[16];
    int n, calls = 0;
    (void)state;
    for (n = 0; n < 120; n++) {
        snprintf(id, sizeof id, "f%03d", n);
        push_failed(&f, id, "old", 3, 3600);
    }
    do {
        redisReply *reply = SCRIPT(delete_failed, began, cursor);
        assert_true(reply->element[2]->integer <= 30);
        snprintf(began, sizeof began, "%s", reply->element[0]->str);
        snprintf(cursor, sizeof cursor, "%s", reply->element[1]->str);
        freeReplyObject(reply);
        calls++;
    } while (cursor[0]);
    assert_int_equal(calls, 4);
    assert_int_equal(count_of("HLEN", "jobs"), 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_actions_on_the_dead_spare_what_dies_meanwhile(void **state)
{
    fixture f = open_queue(1, "merge");
    char began[32], id[16];
    redisReply *reply;
    int n;
    (void)state;
    for (n = 0; n < 50; n++) {
        snprintf(id, sizeof id, "f%03d", n);
        push_failed(&f, id, "old", 3, 0);
    }
    act(&f, SERIATIM_KILL_ALL_FAILED_JOBS);
    reply = SCRIPT(dead_delete, "0", "", "merge");
    strcpy(began, reply->element[0]->str);
    assert_string_equal(reply->element[1]->str, "more");
    freeReplyObject(reply);
    push_failed(&f, "fresh", "new", 3, 0);
    act(&f, SERIATIM_KILL_ALL_FAILED_JOBS);
    reply = SCRIPT(dead_delete, began, "more", "merge");
    assert_int_equal(reply->element[2]->integer, 20);
    assert_string_equal(reply->element[1]->str, "");
    freeReplyObject(reply);
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "fresh"), "new");
    assert_int_equal(metrics(&f).morgue_length, 1);
    close_queue(&f);
}

static void kill_one(const fixture *f, const char *id, const char *payload)
{
    push_failed(f, id, payload, 2, 0);
    act(f, SERIATIM_KILL_ALL_FAILED_JOBS);
}

/* R-MORGUE-1, and the same for parked and running ids and the other folds. */
static void test_r_morgue_1_dead_payloads_unite_with_what_waits(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_record *record;
    char run[64];
    (void)state;
    kill_one(&f, "w", "y");
    push_failed(&f, "w", "x", 3, 1000);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "w"), 1);
    record = fetch(&f, SERIATIM_FETCH, "w");
    assert_int_equal(record->retry_count, -1);
    assert_int_equal(record->payload_count, 2);
    assert_true(record->perform_in <= metrics(&f).now);
    assert_int_equal(metrics(&f).morgue_length, 0);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "w"), 0);
    act_on(&f, SERIATIM_DELETE, "w");

    kill_one(&f, "p", "y");
    push(&f, "p", "x", none);
    act_on(&f, SERIATIM_PARK, "p");
    act(&f, SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "p"), "y,x");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "p")->state, "parked");
    act_on(&f, SERIATIM_DELETE, "p");

    kill_one(&f, "r", "y");
    push(&f, "r", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "5", run), 1);
    act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "r");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "r"), "y");
    settle_done(&f, "r", run);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "r"), "y");
    assert_int_equal(claim(&f, "5", run), 1);
    settle_done(&f, "r", run);
    close_queue(&f);

    f = open_queue(1, "last");
    kill_one(&f, "l", "old");
    push(&f, "l", "new", none);
    act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "l");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "l"), "new");
    close_queue(&f);

    f = open_queue(1, "list");
    kill_one(&f, "l", "same");
    push(&f, "l", "same", none);
    act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "l");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "l"), "same,same");
    close_queue(&f);
}

static void test_deleting_removes_an_id_in_every_state(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    acquire(&f, "n1");
    fill(&f);
    act_on(&f, SERIATIM_PARK, "b");
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "a"), 1);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "b"), 1);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "c"), 1);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "e"), 1);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "unknown"), 0);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "d f g");
    assert_int_equal(metrics(&f).parked, 0);
    assert_int_equal(metrics(&f).retries, 2);

    assert_int_equal(claim(&f, "5", run), 1); /* g */
    push(&f, "g", "before", none);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "g"), 1);
    assert_null(fetch(&f, SERIATIM_FETCH, "g"));
    push(&f, "g", "after", none);
    settle_failed(&f, "g", run, "9", "bury");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "g"), "after");
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "g")->retry_count, -1);
    close_queue(&f);
}

/* A deleted run whose time is over stays deleted. */
static void test_a_deleted_run_beyond_its_ttr_stays_deleted(void **state)
{
    fixture f = open_queue(1, "merge");
    redisReply *reply;
    (void)state;
    acquire(&f, "n1");
    push(&f, "a", "1", none);
    push(&f, "b", "2", none);
    reply = SCRIPT(claim, f.lease, f.seen, "5", "0", "1000", "merge");
    strcpy(f.seen, reply->element[1]->str);
    freeReplyObject(reply);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "a"), 1);
    pause_ms(5);
    freeReplyObject(SCRIPT(claim, f.lease, f.seen, "5", "0", "1000", "merge"));
    assert_string_equal(range(&f, SERIATIM_PROCESSING, 0, NULL, NULL, 10), "b");
    assert_null(fetch(&f, SERIATIM_FETCH, "a"));
    close_queue(&f);
}

static void test_a_parked_id_stays_parked_until_it_is_unparked(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_record *record;
    char run[64];
    (void)state;
    acquire(&f, "n1");
    push_failed(&f, "a", "1", 4, 0);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "a"), 1);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "nothing"), 0);
    assert_int_equal(metrics(&f).retries, 0);
    assert_int_equal(claim(&f, "5", NULL), 0);
    assert_int_equal(act(&f, SERIATIM_PERFORM_ALL_JOBS_NOW), 0);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 0);
    push(&f, "a", "2", none);
    assert_string_equal(range(&f, SERIATIM_PARKED, 0, NULL, NULL, 10), "a");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "1,2");
    assert_int_equal(act_on(&f, SERIATIM_UNPARK, "a"), 1);
    assert_int_equal(act_on(&f, SERIATIM_UNPARK, "a"), 0);
    record = fetch(&f, SERIATIM_FETCH, "a");
    assert_int_equal(record->retry_count, -1);
    assert_string_equal(record->state, "waiting");

    assert_int_equal(claim(&f, "5", run), 1);
    act_on(&f, SERIATIM_PARK, "a");
    assert_int_equal(metrics(&f).busy, 1);
    settle_failed(&f, "a", run, "9", "bury");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "a")->state, "parked");
    act_on(&f, SERIATIM_UNPARK, "a");
    assert_int_equal(claim(&f, "5", run), 1);
    act_on(&f, SERIATIM_PARK, "a");
    act_on(&f, SERIATIM_UNPARK, "a");
    push(&f, "a", "3", none);
    settle_done(&f, "a", run);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "3");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "a")->state, "waiting");
    close_queue(&f);
}

/* What remains keeps all that the id had: its due time, retry_count, contexts, and the order by score. */
static void test_r_action_14_dropping_a_payload_keeps_the_rest_of_the_id(void **state)
{
    fixture f = open_queue(1, "merge");
    push_options options = {100, 7, 5, "{\"k\":\"v\"}"};
    const seriatim_record *record;
    double due;
    (void)state;
    push(&f, "a", "seven", options);
    options.score = 5;
    push(&f, "a", "five", options);
    options.context = NULL;
    options.score = 6;
    push(&f, "a", "six", options);
    due = fetch(&f, SERIATIM_FETCH, "a")->perform_in;
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "fiv"), 0);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "unknown", "five"), 0);
    assert_int_equal(drop(&f, SERIATIM_MORGUE_DROP_PAYLOAD, "a", "five"), 0);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "five"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "five"), 0);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "six,seven");
    record = fetch(&f, SERIATIM_FETCH, "a");
    assert_true(record->perform_in == due && record->retry_count == 4);
    assert_int_equal(record->payloads[0].context_len, 0);
    assert_int_equal(record->payloads[1].context_len, 9);
    assert_int_equal(findings(&f, 0), 0);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "a"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "seven"), 1);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "a")->state, "parked");
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "six"), 1);
    assert_null(fetch(&f, SERIATIM_FETCH, "a"));
    assert_int_equal(metrics(&f).parked, 0);
    close_queue(&f);
}

/* An id goes with its last payload, wherever it stood, and nothing of it stays in an index. */
static void test_r_action_14_an_id_goes_with_its_last_payload(void **state)
{
    static const char *const kinds[] = {"jobs", "due", "retry", "parked", "dead", "died", "next", "unproven"};
    fixture f = open_queue(1, "merge");
    char run[64];
    size_t i;
    (void)state;
    acquire(&f, "n1");
    push(&f, "doubt", "1", none);
    assert_int_equal(claim(&f, "5", run), 1);
    take_over(&f, "n2");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "doubt")->state, "unproven");
    kill_one(&f, "dead", "1");
    push(&f, "waits", "1", none);
    push_later(&f, "later", "1", 100);
    push_failed(&f, "failed", "1", 3, 100);
    push(&f, "stopped", "1", none);
    act_on(&f, SERIATIM_PARK, "stopped");
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "doubt", "1"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "waits", "1"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "later", "1"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "failed", "1"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "stopped", "1"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "dead", "1"), 0);
    assert_int_equal(drop(&f, SERIATIM_MORGUE_DROP_PAYLOAD, "dead", "1"), 1);
    assert_int_equal(claim(&f, "5", NULL), 0);
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_int_equal(count_of("EXISTS", kinds[i]), 0);
    close_queue(&f);
}

/* What runs was delivered and stays; what waits behind it may go. */
static void test_r_action_14_a_running_payload_is_not_dropped_one_behind_the_run_is(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    acquire(&f, "n1");
    push(&f, "a", "1", none);
    push(&f, "a", "2", none);
    assert_int_equal(claim(&f, "5", run), 1);
    push(&f, "a", "2", none);
    push(&f, "a", "3", none);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "1"), 0);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "3"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "2"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "2"), 0);
    assert_int_equal(count_of("EXISTS", "next"), 0);
    assert_int_equal(findings(&f, 0), 0);
    settle_failed(&f, "a", run, "9", "bury");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "1,2");
    close_queue(&f);
}

/* The first by score goes, then by arrival; the others stay. The fold is of the record, not of the one who drops. */
static void test_r_action_14_the_first_of_equal_payloads_is_dropped(void **state)
{
    fixture f = open_queue(1, "list");
    push_options options = {0, 3, 0, NULL};
    const seriatim_record *record;
    int i;
    (void)state;
    for (i = 0; i < 2; i++) { /* plain, then spilled */
        push(&f, "a", "x", options);
        options.score = 1;
        push(&f, "a", "x", options);
        options.score = 2;
        push(&f, "a", "x", options);
        options.score = 3;
        if (i == 1)
            push_many(&f, "a", 0, 200);
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "x"), 1);
        record = fetch(&f, SERIATIM_FETCH, "a");
        assert_true(record->payloads[0].score == 2 && record->payloads[1].score == 3);
        assert_int_equal(record->payload_total, i == 0 ? 2 : 202);
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "x") + drop(&f, SERIATIM_DROP_PAYLOAD, "a", "x"), 2);
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "a", "x"), 0);
    }
    close_queue(&f);
}

/* Spilled payloads: named by the map, found in slices where it is silent, and by their key among equal scores. */
static void test_r_action_14_a_spilled_payload_is_dropped(void **state)
{
    fixture f = open_queue(1, "list");
    push_options options = {0, 9, 0, "{\"k\":\"v\"}"};
    char payload[32], run[64];
    int i;
    (void)state;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < 2500; i++) {
        snprintf(payload, sizeof payload, "p%d", i);
        add(&f, "hot", 3, payload, options);
    }
    done(&f, seriatim_push_send(f.client));
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p2499"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p1023"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p0"), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p0"), 0);
    assert_int_equal(count_of("HLEN", "spillmap:hot"), 2497); /* contexts */
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 2497);
    close_queue(&f);

    f = open_queue(1, "merge");
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 150);
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "hot", 0, 150);
    assert_int_equal(count_of("EXISTS", "nextspill:hot"), 1);
    assert_int_equal(findings(&f, 0), 0);
    for (i = 0; i < 150; i++) {
        snprintf(payload, sizeof payload, "p%d", i);
        assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", payload), 1);
    }
    assert_int_equal(count_of("EXISTS", "nextspill:hot") + count_of("EXISTS", "nextspillmap:hot"), 0);
    assert_int_equal(findings(&f, 0), 0);
    settle_failed(&f, "hot", run, "0", "park");
    assert_int_equal(act(&f, SERIATIM_UNPARK_ALL), 1);
    push_failed(&f, "hot", "more", 0, 0);
    assert_int_equal(claim(&f, "1", run), 1);
    settle_failed(&f, "hot", run, "9", "bury");
    act(&f, SERIATIM_KILL_ALL_FAILED_JOBS);
    assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->payload_total, 151);
    assert_int_equal(drop(&f, SERIATIM_MORGUE_DROP_PAYLOAD, "hot", "more"), 1);
    for (i = 0; i < 150; i++) {
        snprintf(payload, sizeof payload, "p%d", i);
        assert_int_equal(drop(&f, SERIATIM_MORGUE_DROP_PAYLOAD, "hot", payload), 1);
    }
    assert_int_equal(count_of("EXISTS", "deadspill:hot") + count_of("EXISTS", "deadspillmap:hot") + count_of("EXISTS", "died"), 0);
    close_queue(&f);
}

/* The owner hears of it at once. */
static void test_pausing_stops_claims_and_wakes_the_owner(void **state)
{
    fixture f = open_queue(1, "merge");
    redisContext *ear = redisConnectUnix(server.socket);
    void *heard;
    (void)state;
    freeReplyObject(redisCommand(ear, "SUBSCRIBE seriatim:wake:n1"));
    acquire(&f, "n1");
    push(&f, "a", "1", none);
    assert_int_equal(act(&f, SERIATIM_PAUSE), 1);
    assert_int_equal(act(&f, SERIATIM_PAUSE), 0);
    assert_int_equal(metrics(&f).paused, 1);
    assert_int_equal(claim(&f, "5", NULL), 0);
    assert_int_equal(act(&f, SERIATIM_RESUME), 1);
    assert_int_equal(metrics(&f).paused, 0);
    assert_int_equal(redisGetReply(ear, &heard), REDIS_OK);
    assert_string_equal(((redisReply *)heard)->element[2]->str, "!" PREFIX);
    freeReplyObject(heard);
    assert_int_equal(claim(&f, "5", NULL), 1);
    redisFree(ear);
    close_queue(&f);
}

/* ---- Many payloads, strange names, broken and full servers ---------------------------------- */

static void test_an_id_of_thousands_of_payloads_keeps_all_in_every_state(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_record *record;
    seriatim_query query;
    seriatim_text ids[1];
    size_t count;
    char run[64];
    (void)state;
    push_many(&f, "hot", 0, 3000);
    record = fetch(&f, SERIATIM_FETCH, "hot");
    assert_int_equal(record->payload_count, 1000);
    assert_int_equal(record->payload_total, 3000);
    assert_memory_equal(record->payloads[999].data, "p999", 4);
    ids[0] = text("hot");
    seriatim_query_init(&query, SERIATIM_FETCH);
    query.ids = ids;
    query.id_count = 1;
    query.payload_limit = 5000;
    done(&f, seriatim_query_begin(f.client, f.queue, &query));
    assert_int_equal(seriatim_query_result(f.client, &count)->payload_count, 3000);

    acquire(&f, "n1");
    claim(&f, "1", run);
    push_many(&f, "hot", 2000, 2000);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 2000);
    settle_failed(&f, "hot", run, "9", "bury");
    assert_int_equal(findings(&f, 0), 0);
    assert_in_range(recover_all(&f), 4, 10);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 4000);
    assert_int_equal(findings(&f, 0), 0);
    act(&f, SERIATIM_KILL_ALL_FAILED_JOBS);
    assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->payload_total, 4000);
    assert_memory_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->error, "boom", 4);
    push(&f, "hot", "p1", none);
    push(&f, "hot", "unseen", none);
    act(&f, SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 4001);
    assert_int_equal(findings(&f, 0), 0);
    act_on(&f, SERIATIM_PARK, "hot");
    act_on(&f, SERIATIM_UNPARK, "hot");
    act_on(&f, SERIATIM_DELETE, "hot");
    claim(&f, "100", NULL); /* what is stale goes */
    assert_int_equal(count_of("EXISTS", "spill:hot") + count_of("EXISTS", "spillmap:hot"), 0);
    close_queue(&f);
}

/* The few payloads of a run go into the many that came meanwhile: the first of equal ones keeps its context and place. */
static void test_a_failed_run_unites_with_payloads_that_spilled_meanwhile(void **state)
{
    fixture f = open_queue(1, "merge");
    push_options options = {0, 0, 0, "{\"k\":\"v\"}"};
    const seriatim_record *record;
    char run[64];
    (void)state;
    acquire(&f, "n1");
    push(&f, "a", "p7", options);
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "a", 0, 500);
    settle_failed(&f, "a", run, "9", "bury");
    record = fetch(&f, SERIATIM_FETCH, "a");
    assert_int_equal(record->payload_total, 500);
    assert_memory_equal(record->payloads[0].data, "p7", 2);
    assert_int_equal(record->payloads[0].context_len, 9);
    assert_memory_equal(record->payloads[1].data, "p0", 2);
    close_queue(&f);
}

static void test_r_names_1_r_names_2_queue_names_and_ids_hold_any_bytes(void **state)
{
    static const char *const names[] = {"Q:processing", "Q:morgue", "{Q}", "Q*", "Q/0}:jobs"};
    static const struct {
        const char *id;
        size_t len;
    } rows[] = {{"a:b", 3}, {"{x}", 3}, {"}", 1}, {"with space", 10}, {"nul\0in", 6}, {"\xc3\xa9", 2}, {"line\n", 5}};
    fixture f = open_queue(4, "merge");
    char longest[1025];
    seriatim_text ids[1];
    seriatim_query query;
    size_t i, n, count, q = f.queue;
    (void)state;
    memset(longest, 'k', sizeof longest);
    for (n = 0; n < 5; n++) {
        f.queue = add_queue(f.client, names[n], strlen(names[n]), 4, "merge");
        for (i = 0; i < 7; i++) {
            done(&f, seriatim_push_begin(f.client, f.queue));
            add(&f, rows[i].id, rows[i].len, "1", none);
            done(&f, seriatim_push_send(f.client));
            ids[0].data = rows[i].id;
            ids[0].len = rows[i].len;
            seriatim_query_init(&query, SERIATIM_FETCH);
            query.ids = ids;
            query.id_count = 1;
            done(&f, seriatim_query_begin(f.client, f.queue, &query));
            assert_int_equal(seriatim_query_result(f.client, &count)->id_len, rows[i].len);
        }
        done(&f, seriatim_push_begin(f.client, f.queue));
        for (i = 0; i < 200; i++) {
            char payload[32];
            snprintf(payload, sizeof payload, "payload %lu", (unsigned long)i);
            add(&f, longest, 1024, payload, none);
        }
        done(&f, seriatim_push_send(f.client));
        assert_int_equal(metrics(&f).length, 8);
        assert_int_equal(findings(&f, 0), 0);
    }
    ids[0].data = longest;
    ids[0].len = 1025;
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE, ids, 1), SERIATIM_INVALID);
    for (n = 0; n < 5; n++) {
        f.queue = add_queue(f.client, names[n], strlen(names[n]), 4, "merge");
        for (i = 0; i < 7; i++) {
            ids[0].data = rows[i].id;
            ids[0].len = rows[i].len;
            done(&f, seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE, ids, 1));
            assert_int_equal(seriatim_action_result(f.client), 1);
        }
        assert_int_equal(metrics(&f).length, 1);
    }
    f.queue = q;
    assert_int_equal(metrics(&f).length, 0);
    close_queue(&f);
}

static void digest(char out[64])
{
    redisReply *reply = redis("DEBUG DIGEST");
    snprintf(out, 64, "%s", reply->str);
    freeReplyObject(reply);
}

/* A key of the wrong type: every action fails and nothing is written. */
static void test_a_key_of_the_wrong_type_ends_every_action_before_it_writes(void **state)
{
    static const char *const kinds[] = {"state", "jobs",   "ready",    "due",     "running", "next",      "retry",         "dead",
                                        "died",  "parked", "unproven", "suspect", "overrun", "spill:hot", "deadspill:bad", "spillmap:hot"};
    static const char *const ids[] = {"a", "e", "hot", "bad", "stopped"};
    char before[64], after[64];
    size_t i, n;
    int kind, refused;
    (void)state;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        fixture f = open_queue(1, "merge");
        seriatim_text all[5];
        push_failed(&f, "bad", "first", 3, 60);
        push_many(&f, "bad", 0, 400);
        act(&f, SERIATIM_KILL_ALL_FAILED_JOBS);
        fill(&f);
        push_failed(&f, "hot", "first", 3, 60);
        push_many(&f, "hot", 0, 400);
        act_on(&f, SERIATIM_PARK, "b");
        REDIS("DEL " PREFIX "%s", kinds[i]);
        if (i == 0)
            REDIS("HSET " PREFIX "%s a b", kinds[i]);
        else
            REDIS("SET " PREFIX "%s wrong", kinds[i]);
        for (n = 0; n < 5; n++)
            all[n] = text(ids[n]);
        refused = 0;
        digest(before);
        for (kind = SERIATIM_PERFORM_ALL_JOBS_NOW; kind <= SERIATIM_MORGUE_DROP_PAYLOAD; kind++) {
            int status, spares = kind == SERIATIM_PAUSE || kind == SERIATIM_RESUME || i >= 13;
            seriatim_text named[2];
            named[0] = text(kind == SERIATIM_MORGUE_DROP_PAYLOAD ? "bad" : "hot");
            named[1] = text("p5");
            if (kind >= SERIATIM_DROP_PAYLOAD)
                status = seriatim_action_begin(f.client, f.queue, kind, named, 2);
            else
                status = seriatim_action_begin(f.client, f.queue, kind, srt_action_takes_ids(kind) ? all : NULL, 5);
            status = status == SERIATIM_OK ? drive(f.link) : status;
            if (spares && status == SERIATIM_OK) {
                digest(before);
                continue;
            }
            assert_int_equal(status, SERIATIM_SERVER);
            refused++;
            digest(after);
            if (strcmp(before, after) != 0)
                fail_msg("action %d changed something although %s has the wrong type", kind, kinds[i]);
        }
        assert_true(refused >= 4);
        seriatim_link_free(f.link);
    }
}

static void test_r_full_1_actions_work_at_maxmemory(void **state)
{
    fixture f = open_queue(2, "merge");
    (void)state;
    fill(&f);
    push_many(&f, "hot", 0, 2000);
    push_failed(&f, "dead", "1", 2, 0);
    metrics(&f);
    REDIS("CONFIG SET maxmemory 1");
    REDIS("CONFIG SET maxmemory-policy noeviction");
    assert_int_equal(act(&f, SERIATIM_PAUSE), 2);
    assert_int_equal(act(&f, SERIATIM_RESUME), 2);
    assert_int_equal(act(&f, SERIATIM_PERFORM_ALL_JOBS_NOW), 4);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "a"), 1);
    assert_int_equal(act_on(&f, SERIATIM_UNPARK, "a"), 1);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 4);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "e"), 1);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_DELETE, "f"), 1);
    assert_int_equal(act(&f, SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS), 2);
    assert_int_equal(act(&f, SERIATIM_DELETE_ALL_FAILED_JOBS), 0);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "hot", "p7"), 1);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "hot"), 1);
    assert_int_equal(act(&f, SERIATIM_MORGUE_DELETE_ALL_JOBS), 0);
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "a b c d dead e g");
    close_queue(&f);
}

/* ---- Check ---------------------------------------------------------------------------------- */

static void test_check_finds_nothing_in_a_sound_queue(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    fill(&f);
    acquire(&f, "n1");
    claim(&f, "1", run);
    push(&f, "a", "behind", none);
    push_many(&f, "hot", 0, 500);
    push_many(&f, "cold", 0, 500);
    kill_one(&f, "dead", "1");
    assert_int_equal(findings(&f, 0), 0);
    REDIS("LREM " PREFIX "ready 0 b");          /* missing in ready */
    REDIS("ZREM " PREFIX "due c");              /* missing in due */
    REDIS("ZADD " PREFIX "due 5 d");            /* another number */
    REDIS("ZADD " PREFIX "due 5 ghost");        /* leads to nothing */
    REDIS("ZADD " PREFIX "parked 5 d");
    REDIS("ZADD " PREFIX "retry 5 c");
    REDIS("ZREM " PREFIX "died dead");
    REDIS("ZADD " PREFIX "died 5 ghost");
    REDIS("ZADD " PREFIX "overrun 5 ghost");
    REDIS("HSET " PREFIX "running ghost 0n5");  /* runs without a record */
    REDIS("HSET " PREFIX "next b %b", "\0\0\0\0\0\0\0\0\0p", (size_t)10); /* behind a run that is not there */
    REDIS("HDEL " PREFIX "jobs hot");           /* payloads without a record */
    REDIS("ZREMRANGEBYRANK " PREFIX "spill:cold 0 0"); /* one payload less than counted */
    REDIS("HSET " PREFIX "spillmap:nobody i x");
    assert_true(findings(&f, 0) >= 13);
    assert_int_equal(findings(&f, 1), 0);
    assert_int_equal(findings(&f, 0), 0);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 500);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "b"), "p,2");
    assert_true(seriatim_check_looked_at(f.client) == 0);
    settle_done(&f, "a", run);
    REDIS("HSET " PREFIX "jobs junk %b", "\x0d", (size_t)1); /* goes to the morgue as it is */
    assert_int_equal(findings(&f, 1), 0);
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "junk"), "\x0d");
    close_queue(&f);
}

/* A shard with something of everything in it. The id "a" runs. */
static void fill_all(fixture *f, char run[64])
{
    push_failed(f, "bad", "first", 3, 60);
    push_many(f, "bad", 0, 400);
    act(f, SERIATIM_KILL_ALL_FAILED_JOBS);
    fill(f);
    push_failed(f, "hot", "first", 3, 60);
    push_many(f, "hot", 0, 400);
    push_many(f, "cold", 0, 400);
    act_on(f, SERIATIM_PARK, "b");
    acquire(f, "n1");
    claim(f, "1", run);
    push_many(f, "a", 0, 400);
}

/* What check finds: "kind kind ...", each once, in the order of appearance. */
static const char *kinds_found(const fixture *f, size_t queue, int repair)
{
    static char out[512];
    const seriatim_finding *list;
    size_t count, i;
    out[0] = '\0';
    done(f, seriatim_check_begin(f->client, queue, repair));
    list = seriatim_check_result(f->client, &count);
    for (i = 0; i < count; i++) {
        if (getenv("VERBOSE"))
            printf("%s %.*s: %s %d\n", list[i].kind, (int)list[i].id_len, list[i].id, list[i].detail, list[i].repaired);
        if (strstr(out, list[i].kind))
            continue;
        if (out[0])
            strcat(out, " ");
        strcat(out, list[i].kind);
    }
    return out;
}

/* Every key of a shard is replaced by one of another type: named, put aside, and the queue works on. */
static void test_check_replaces_keys_of_the_wrong_type(void **state)
{
    static const char *const kinds[] = {"state",  "jobs",     "ready",   "due",     "running",   "next",          "retry",     "dead",         "died",
                                        "parked", "unproven", "suspect", "overrun", "spill:hot", "deadspill:bad", "spillmap:hot", "nextspill:a"};
    size_t i;
    char run[64];
    (void)state;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        fixture f = open_queue(1, "merge");
        fill_all(&f, run);
        assert_string_equal(kinds_found(&f, f.queue, 0), "");
        REDIS("DEL " PREFIX "%s", kinds[i]);
        if (i == 0)
            REDIS("HSET " PREFIX "%s a b", kinds[i]);
        else
            REDIS("SET " PREFIX "%s wrong", kinds[i]);
        if (!strstr(kinds_found(&f, f.queue, 0), "type"))
            fail_msg("%s of the wrong type is not found", kinds[i]);
        findings(&f, 1);
        if (findings(&f, 1) != 0 || findings(&f, 0) != 0)
            fail_msg("%s of the wrong type is not mended", kinds[i]);
        take_over(&f, "n2");
        claim(&f, "100", NULL);
        push(&f, "new", "1", none);
        assert_int_equal(findings(&f, 0), 0);
        seriatim_link_free(f.link);
    }
}

/* F30: every key of a shard disappears, one by one. Nothing fails, and what is left is right after the repair. */
static void test_f30_repair_mends_each_evicted_key(void **state)
{
    static const char *const kinds[] = {"state",  "jobs",     "ready",   "due",       "running",       "next",         "retry",       "dead",          "died",
                                        "parked", "unproven", "suspect", "spill:hot", "deadspill:bad", "spillmap:hot", "nextspill:a", "nextspillmap:a"};
    /* What nothing refers to cannot be missed: the jobs that were ready, and the index of a spilled id's payloads. */
    static const char *const found[] = {"state", "run", "index", "index", "index", "orphan", "retry", "orphan", "index",
                                        "index", "",    "",      "payloads", "payloads", "", "payloads", ""};
    size_t i;
    char run[64];
    (void)state;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        fixture f = open_queue(1, "merge");
        fill_all(&f, run);
        REDIS("DEL " PREFIX "%s", kinds[i]);
        if (found[i][0] && !strstr(kinds_found(&f, f.queue, 0), found[i]))
            fail_msg("%s is missing: found is \"%s\"", kinds[i], kinds_found(&f, f.queue, 0));
        findings(&f, 1);
        if (findings(&f, 0) != 0)
            fail_msg("%s is missing and not mended", kinds[i]);
        take_over(&f, "n2");
        claim(&f, "100", NULL);
        push(&f, "new", "1", none);
        assert_int_equal(findings(&f, 0), 0);
        seriatim_link_free(f.link);
    }
}

/* What a shard's keys can say that is not so, one by one. */
static void test_check_names_and_repairs_each_damage(void **state)
{
    static const struct {
        const char *command, *finding;
    } rows[] = {
        {"SET " PREFIX "state short", "state"},
        {"SETRANGE " PREFIX "state 8 \xff\xff\xff\xff\xff\xff\xff\xff", "state"},
        {"SET " PREFIX "state 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789", "state"},
        {"HSET " PREFIX "jobs c junk", "unreadable"},
        {"HSET " PREFIX "jobs a junk", "unreadable"},
        {"HSET " PREFIX "next a \xff", "unreadable"},
        {"HSET " PREFIX "dead bad junk", "unreadable"},
        {"HSET " PREFIX "jobs strange \x7fjunkjunkjunkjunkjunk", "unreadable"},
        {"HSET " PREFIX "running a junk", "run"},
        {"HSET " PREFIX "running a 0n5", "run"},
        {"HSET " PREFIX "running a 0n8999999999999999", "run"},
        {"LREM " PREFIX "ready 0 cold", "index"},
        {"ZADD " PREFIX "due 1 hot", "index"},
        {"ZREM " PREFIX "parked b", "index"},
        {"ZADD " PREFIX "parked 1 ghost", "stale"},
        {"ZADD " PREFIX "unproven 1 ghost", "stale"},
        {"ZADD " PREFIX "suspect 1 ghost", "stale"},
        {"ZADD " PREFIX "retry 7 hot", "retry"},
        {"ZADD " PREFIX "overrun 7 ghost", "stale"},
        {"ZREMRANGEBYRANK " PREFIX "spill:cold 0 0", "payloads"},
        {"ZADD " PREFIX "spill:cold 1 abcdefghpayload", "payloads"},
        {"ZADD " PREFIX "spill:nobody 1 abcdefghpayload", "orphan"},
        {"ZADD " PREFIX "deadspill:nobody 1 abcdefghpayload", "orphan"},
        {"HSET " PREFIX "nextspillmap:nobody i x", "orphan"},
        {"SET " PREFIX "push:somebody 1", "push"},
        {"HSET " PREFIX "push:somebody 1 1", "type"},
    };
    size_t i;
    char run[64];
    (void)state;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f = open_queue(1, "merge");
        fill_all(&f, run);
        REDIS(rows[i].command);
        if (!strstr(kinds_found(&f, f.queue, 0), rows[i].finding))
            fail_msg("%s: found is \"%s\"", rows[i].command, kinds_found(&f, f.queue, 0));
        findings(&f, 1);
        if (findings(&f, 1) != 0 || findings(&f, 0) != 0)
            fail_msg("%s: not mended", rows[i].command);
        take_over(&f, "n2");
        claim(&f, "100", NULL);
        assert_int_equal(findings(&f, 0), 0);
        seriatim_link_free(f.link);
    }
}

/* Keys that nothing owns are named and stay. */
static void test_check_names_keys_that_nothing_owns(void **state)
{
    static const char *const keys[] = {"seriatim:{Q/1}:jobs", "seriatim:{Q/01}:jobs", "seriatim:{Q/0}:strange", "seriatim:{Q/0}:spill",
                                       "seriatim:{Q/x}:jobs"};
    static const char *const others[] = {"seriatim:{/strange}:x", "seriatim:strange", "seriatim:{Q}:strange", "seriatim:{Q Q/0}:jobs"};
    fixture f = open_queue(1, "merge");
    const seriatim_finding *list;
    size_t i, count;
    (void)state;
    push(&f, "a", "1", none);
    REDIS("SET seriatim:{Q/0}:misplaced:jobs:1 kept"); /* a repair left it */
    REDIS("SET seriatim:other:{Q/7}:jobs strange");    /* another namespace's */
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    for (i = 0; i < 5; i++) {
        REDIS("SET %s x", keys[i]);
        assert_int_equal(findings(&f, 1), 1);
        done(&f, seriatim_check_begin(f.client, f.queue, 0));
        list = seriatim_check_result(f.client, &count);
        assert_string_equal(list[0].kind, "stray");
        assert_string_equal(list[0].id, keys[i]);
        REDIS("DEL %s", keys[i]);
    }
    for (i = 0; i < 4; i++) {
        REDIS("SET %b x", others[i], strlen(others[i]));
        assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "stray");
        REDIS("DEL %b", others[i], strlen(others[i]));
    }
    REDIS("RPUSH seriatim:{Lost%%20one/3}:ready x");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "layout");
    list = seriatim_check_result(f.client, &count);
    assert_string_equal(list[0].id, "Lost one");
    REDIS("DEL seriatim:{Lost%%20one/3}:ready");
    REDIS("SET seriatim:{Odd}:layout much");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "layout");
    REDIS("DEL seriatim:{Odd}:layout");
    REDIS("RPUSH seriatim:{Odd}:layout much");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "layout");
    REDIS("DEL seriatim:{Odd}:layout");
    REDIS("HSET seriatim:{/nodes}:info gone text");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "node");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "node");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    REDIS("SET seriatim:{/nodes}:alive text");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 1), "type");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    close_queue(&f);
}

/* F33: a later version raises the schema in the layout; this one leaves the queue alone, and says why. */
static void test_f33_a_later_schema_is_left_alone(void **state)
{
    fixture f = open_queue(2, "merge");
    (void)state;
    REDIS("SET seriatim:{Q}:layout %s", "1 2 7");
    done(&f, seriatim_push_begin(f.client, f.queue));
    add(&f, "a", 1, "1", none);
    assert_int_equal(seriatim_push_send(f.client), SERIATIM_OK);
    assert_int_equal(drive(f.link), SERIATIM_UNSUPPORTED);
    assert_non_null(strstr(seriatim_client_error(f.client)->message, "schema 7"));
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "layout");
    seriatim_link_free(f.link);
}

/* ---- Explain and nodes ---------------------------------------------------------------------- */

static const seriatim_explanation *explain(const fixture *f, const char *id)
{
    done(f, seriatim_explain_begin(f->client, f->queue, id, strlen(id)));
    return seriatim_explain_result(f->client);
}

static void test_r_query_7_explain_says_where_an_id_stands(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_explanation *x;
    const seriatim_living_node *nodes;
    size_t count;
    char run[64];
    (void)state;
    x = explain(&f, "a");
    assert_string_equal(x->text, "nothing waits or runs under this id; no server knows this queue");
    push_later(&f, "a", "1", 100);
    x = explain(&f, "a");
    assert_non_null(strstr(x->text, "it is due in "));
    assert_non_null(strstr(x->text, "; no server knows this queue, so no node owns its shard"));
    acquire(&f, "n1");
    x = explain(&f, "a");
    assert_int_equal(x->owner_alive, 0);
    assert_non_null(strstr(x->text, "has no heartbeat"));
    REDIS("ZADD seriatim:{/nodes}:alive 9000000000000 n1");
    REDIS("ZADD seriatim:{/nodes}:alive 5 n0");
    REDIS("HSET seriatim:{/nodes}:info n1 here");
    assert_int_equal(explain(&f, "a")->known, 0);
    REDIS("HSET seriatim:{/nodes}:info n1 %s", "b ce6e8eef;threads=7;since=1700000000|here");
    assert_int_equal(explain(&f, "a")->known, 1);
    x = explain(&f, "a");
    assert_int_equal(x->owner_alive, 1);
    assert_non_null(strstr(x->text, "node n1 owns its shard"));
    act(&f, SERIATIM_PAUSE);
    assert_non_null(strstr(explain(&f, "a")->text, "paused"));
    act(&f, SERIATIM_RESUME);
    act(&f, SERIATIM_PERFORM_ALL_JOBS_NOW);
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, "a", "2", none);
    push(&f, "a", "3", none);
    x = explain(&f, "a");
    assert_string_equal(x->job.state, "running");
    assert_true(x->job.fence == x->fence && x->fence > 0);
    assert_int_equal(x->behind.payload_total, 2);
    assert_non_null(strstr(x->text, "more waits"));
    act_on(&f, SERIATIM_PARK, "a");
    assert_non_null(strstr(explain(&f, "a")->text, "parked when its run ends"));
    settle_failed(&f, "a", run, "0", "bury");
    x = explain(&f, "a");
    assert_string_equal(x->job.state, "parked");
    assert_string_equal(x->dead.state, "dead");
    assert_non_null(strstr(x->text, "morgue"));
    done(&f, seriatim_nodes_begin(f.client));
    nodes = seriatim_nodes_result(f.client, &count);
    assert_int_equal(count, 1);
    assert_string_equal(nodes[0].name, "n1");
    assert_non_null(strstr(nodes[0].description, "|here"));
    assert_int_equal(nodes[0].threads, 7);
    assert_int_equal(nodes[0].since, 1700000000);
    assert_int_equal(nodes[0].rss, -1);
    assert_true(nodes[0].expires_in > 1000);
    close_queue(&f);
}

/* ---- Queues and health ------------------------------------------------------------------------ */

/* The names of all queues, joined by spaces. */
static const char *queues(const fixture *f)
{
    static char out[16384];
    const seriatim_text *names;
    size_t count, i, len = 0;
    done(f, seriatim_queues_begin(f->client));
    names = seriatim_queues_result(f->client, &count);
    out[0] = '\0';
    for (i = 0; i < count; i++) {
        assert_true(len + names[i].len + 2 < sizeof out);
        len += (size_t)snprintf(out + len, sizeof out - len, "%s%s", i ? " " : "", names[i].data);
    }
    return out;
}

static void make_queue(const fixture *f, const char *name, size_t len)
{
    done(f, seriatim_layout_begin(f->client, add_queue(f->client, name, len, 1, "merge")));
}

static void test_all_queues_are_listed(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_text *names;
    size_t count;
    (void)state;
    assert_string_equal(queues(&f), "");
    make_queue(&f, "Q/0}:jobs", 9);
    make_queue(&f, "\xc3\xa9", 2);
    make_queue(&f, "A::B", 4);
    make_queue(&f, "a b", 3);
    make_queue(&f, "%41", 3);
    make_queue(&f, "{Q*", 3);
    make_queue(&f, "Q", 1);
    push(&f, "x", "1", none);
    assert_string_equal(queues(&f), "%41 A::B Q Q/0}:jobs a b {Q* \xc3\xa9");
    make_queue(&f, "nul\0in", 6);
    assert_string_equal(queues(&f), "%41 A::B Q Q/0}:jobs a b nul {Q* \xc3\xa9");
    names = seriatim_queues_result(f.client, &count);
    assert_int_equal(names[5].len, 6);
    assert_memory_equal(names[5].data, "nul\0in", 6);
    done(&f, seriatim_metrics_begin(f.client, f.queue));
    assert_null(seriatim_queues_result(f.client, &count));
    assert_int_equal(count, 0);
    close_queue(&f);
}

/* What looks like a layout's key, and is none. */
static void test_the_list_of_queues_leaves_out_other_keys(void **state)
{
    static const char *const keys[] = {"seriatim:{}:layout",      "seriatim:{a b}:layout",   "seriatim:{a%2Eb}:layout",
                                       "seriatim:{a%4}:layout",   "seriatim:{a%2f}:layout",  "seriatim:{Q/0}:layout",
                                       "seriatim:{/x}:layout",    "seriatim:{Q}x}:layout",   "seriatim:{Q}:layout:",
                                       "xseriatim:{Q}:layout",    "seriatimx:{Q}:layout",    "seriatim:{Q}:nolayout"};
    fixture f = open_queue(1, "merge");
    size_t i;
    (void)state;
    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        REDIS("SET %s 1", keys[i]);
    push_many(&f, "}:layout", 0, 300);
    assert_string_equal(queues(&f), "Q");
    REDIS("DEL seriatim:{Q/0}:layout");
    close_queue(&f);
}

static void test_queues_are_found_among_many_keys(void **state)
{
    fixture f = open_queue(1, "merge");
    char name[16], want[4096] = "";
    int i;
    (void)state;
    REDIS("EVAL %s 0", "for i = 1, 5000 do redis.call('SET', 'other' .. i, '') end");
    for (i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "queue%03d", i);
        make_queue(&f, name, strlen(name));
        if (i)
            strcat(want, " ");
        strcat(want, name);
    }
    assert_string_equal(queues(&f), want);
    close_queue(&f);
}

/* SCAN may give a key more than once, in one answer or in two. */
static void test_queues_are_named_once(void **state)
{
    static const char *const answers[] = {
        "*2\r\n$1\r\n7\r\n*3\r\n$19\r\nseriatim:{b}:layout\r\n$19\r\nseriatim:{a}:layout\r\n$19\r\nseriatim:{b}:layout\r\n",
        "*2\r\n$1\r\n0\r\n*1\r\n$19\r\nseriatim:{a}:layout\r\n",
    };
    seriatim_client *c = NULL;
    seriatim_error error;
    const seriatim_text *names;
    size_t count, i;
    (void)state;
    assert_int_equal(seriatim_client_new(NULL, &c, &error), SERIATIM_OK);
    srt_client_connected(c, NULL, NULL, 0);
    assert_int_equal(seriatim_queues_begin(c), SERIATIM_OK);
    for (i = 0; i < 2; i++)
        assert_int_equal(srt_client_input(c, answers[i], strlen(answers[i]), &error), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    names = seriatim_queues_result(c, &count);
    assert_int_equal(count, 2);
    assert_string_equal(names[0].data, "a");
    assert_string_equal(names[1].data, "b");
    seriatim_client_free(c);
}

static void test_queues_of_another_namespace_are_not_listed(void **state)
{
    static const char *const spaces[] = {"a*", "a*b", "a?", "[a]", "a"};
    seriatim_options options = {NULL, NULL, NULL, 0};
    seriatim_error error;
    fixture f;
    size_t i;
    (void)state;
    REDIS("FLUSHALL");
    for (i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        options.ns = spaces[i];
        assert_int_equal(seriatim_link_new(&options, server.url, &f.link, &error), SERIATIM_OK);
        f.client = seriatim_link_client(f.link);
        make_queue(&f, spaces[i], strlen(spaces[i]));
        assert_string_equal(queues(&f), spaces[i]);
        seriatim_link_free(f.link);
    }
}

static const seriatim_health *health(const fixture *f)
{
    done(f, seriatim_health_begin(f->client));
    return seriatim_health_result(f->client);
}

/* Pages of 7 through an index of 90 ids that failed equally often; returns how many ids they show. */
static size_t count_by_pages(const fixture *f, int reverse)
{
    const seriatim_record *records;
    seriatim_query query;
    srt_target after = {NULL, 0, 0, 0};
    char last[SERIATIM_MAX_ID];
    size_t count, total = 0;
    seriatim_query_init(&query, SERIATIM_RANGE_BY_RETRY_COUNT);
    query.reverse = reverse;
    query.min = text("0");
    query.max = text("+inf");
    query.limit = 7;
    do {
        done(f, srt_query_begin(f->client, f->queue, &query, total ? &after : NULL));
        records = seriatim_query_result(f->client, &count);
        if (count) {
            memcpy(last, records[count - 1].id, records[count - 1].id_len);
            after.id = last;
            after.len = records[count - 1].id_len;
        }
        total += count;
    } while (count && total < 1000);
    return total;
}

/* The pages of an index are in byte order, whatever the locale of Redis says (server.c gives it another collation). */
static void test_pages_are_in_byte_order(void **state)
{
    static const char *const kinds[] = {"User-%02d", "order-%02d", "_job-%02d", "order-%02d-\xc3\xa4", "order_%02d", "order-%02d-"};
    fixture f = open_queue(1, "merge");
    char id[32];
    int i;
    (void)state;
    for (i = 0; i < 90; i++) {
        snprintf(id, sizeof id, kinds[i % 6], i / 6);
        push_failed(&f, id, "1", 0, 600);
    }
    assert_int_equal(count_by_pages(&f, 0), 90);
    assert_int_equal(count_by_pages(&f, 1), 90);
    close_queue(&f);
}

static void test_health_reports_how_redis_is_set_up(void **state)
{
    fixture f = open_queue(1, "merge");
    char command[160];
    (void)state;
    assert_string_equal(health(&f)->maxmemory_policy, "noeviction");
    assert_int_equal(health(&f)->append_only, 0);
    REDIS("CONFIG SET maxmemory-policy allkeys-lru");
    REDIS("CONFIG SET appendonly yes");
    assert_string_equal(health(&f)->maxmemory_policy, "allkeys-lru");
    assert_int_equal(health(&f)->append_only, 1);
    REDIS("CONFIG SET maxmemory-policy noeviction");
    REDIS("CONFIG SET appendonly no");
    done(&f, seriatim_queues_begin(f.client));
    assert_null(seriatim_health_result(f.client));
    snprintf(command, sizeof command, "rm -rf %s/*aof* %s/appendonlydir", server.folder, server.folder);
    assert_int_equal(system(command), 0);
    close_queue(&f);
}

/* Without the right to INFO the answer is "unknown"; without SCAN there is none. The link goes on. */
static void test_forbidden_commands_make_health_unknown(void **state)
{
    fixture f = open_queue(1, "merge"), limited = f;
    seriatim_error error;
    char url[160];
    (void)state;
    REDIS("ACL SETUSER limited on >secret ~* &* +@all -info -scan");
    snprintf(url, sizeof url, "unix://limited:secret@%s", server.socket);
    assert_int_equal(seriatim_link_new(NULL, url, &limited.link, &error), SERIATIM_OK);
    limited.client = seriatim_link_client(limited.link);
    limited.queue = add_queue(limited.client, "Q", 1, 1, "merge");
    assert_string_equal(health(&limited)->maxmemory_policy, "");
    assert_int_equal(health(&limited)->append_only, -1);
    assert_int_equal(seriatim_queues_begin(limited.client), SERIATIM_OK);
    assert_int_equal(drive(limited.link), SERIATIM_AUTH);
    assert_non_null(strstr(seriatim_client_error(limited.client)->message, "NOPERM"));
    push(&limited, "a", "1", none);
    assert_int_equal(metrics(&f).length, 1);
    seriatim_link_free(limited.link);
    REDIS("ACL DELUSER limited");
    close_queue(&f);
}

/* Redis-alikes that leave fields out, or a proxy that knows no INFO. */
static void test_health_reads_incomplete_answers(void **state)
{
    static const struct {
        const char *answer, *policy;
        int append_only;
    } cases[] = {
        {"$0\r\n\r\n", "", -1},
        {"-ERR unknown command 'INFO'\r\n", "", -1},
        {"$20\r\n# X\r\naof_enabled:1\r\n\r\n", "", 1},
        {"$17\r\n# X\r\naof_enabled:\r\n", "", -1},
        {"$18\r\n\nmaxmemory_policy:\r\n", "", -1},
        {"$28\r\n\nmaxmemory_policy:noeviction\r\n", "noeviction", -1},
        {"$24\r\nx_maxmemory_policy:abc\r\n\r\n", "", -1},
    };
    size_t i;
    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        seriatim_client *c = NULL;
        seriatim_error error;
        const seriatim_health *h;
        assert_int_equal(seriatim_client_new(NULL, &c, &error), SERIATIM_OK);
        srt_client_connected(c, NULL, NULL, 0);
        assert_int_equal(seriatim_health_begin(c), SERIATIM_OK);
        assert_int_equal(srt_client_input(c, cases[i].answer, strlen(cases[i].answer), &error), SERIATIM_OK);
        assert_int_equal(srt_client_status(c), SERIATIM_OK);
        h = seriatim_health_result(c);
        assert_non_null(h);
        assert_string_equal(h->maxmemory_policy, cases[i].policy);
        assert_int_equal(h->append_only, cases[i].append_only);
        seriatim_client_free(c);
    }
}

/* ---- Memory and hostile answers -------------------------------------------------------------- */

typedef struct failing {
    long left;
} failing;

static void *failing_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    failing *memory = user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return memory->left-- > 0 ? realloc(ptr, new_size) : NULL;
}

#define OPERATIONS 17

static int begin_number(seriatim_client *c, size_t queue, int number)
{
    seriatim_query query;
    seriatim_text ids[2];
    ids[0] = text("a");
    ids[1] = text("hot");
    switch (number) {
    case 0:
        return seriatim_metrics_begin(c, queue);
    case 1:
        return seriatim_explain_begin(c, queue, "a", 1);
    case 2:
        return seriatim_check_begin(c, queue, 1);
    case 3:
        return seriatim_nodes_begin(c);
    case 4:
        return seriatim_action_begin(c, queue, SERIATIM_PARK, ids, 2);
    case 5:
        return seriatim_action_begin(c, queue, SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS, NULL, 0);
    case 6:
    case 7:
        seriatim_query_init(&query, number == 6 ? SERIATIM_FETCH : SERIATIM_MORGUE_FETCH);
        query.ids = ids;
        query.id_count = 2;
        return seriatim_query_begin(c, queue, &query);
    case 8:
        return seriatim_queues_begin(c);
    case 9:
        return seriatim_health_begin(c);
    case 10:
        return seriatim_order_begin(c, "n1", 2, SERIATIM_ORDER_QUIET);
    default:
        seriatim_query_init(&query, (const int[]){SERIATIM_RANGE_BY_ID, SERIATIM_RANGE_BY_PERFORM_IN, SERIATIM_RANGE_BY_RETRY_COUNT,
                                                  SERIATIM_MORGUE_RANGE_BY_ID, SERIATIM_PROCESSING, SERIATIM_PARKED}[number - 11]);
        query.reverse = number % 2;
        return seriatim_query_begin(c, queue, &query);
    }
}

static void test_every_allocation_of_an_operation_may_fail(void **state)
{
    fixture f = open_queue(2, "merge");
    seriatim_options options = {NULL, NULL, NULL, 0};
    failing memory = {0};
    seriatim_allocator allocator = {failing_alloc, NULL};
    seriatim_error error;
    int number;
    (void)state;
    fill(&f);
    push_many(&f, "hot", 0, 300);
    allocator.user = &memory;
    options.allocator = &allocator;
    for (number = 0; number < OPERATIONS; number++) {
        long n;
        int status = SERIATIM_NOMEM;
        for (n = 0; status != SERIATIM_OK; n++) {
            seriatim_link *link;
            size_t queue;
            memory.left = 1000000;
            assert_int_equal(seriatim_link_new(&options, server.url, &link, &error), SERIATIM_OK);
            queue = add_queue(seriatim_link_client(link), "Q", 1, 2, "merge");
            memory.left = n;
            status = begin_number(seriatim_link_client(link), queue, number);
            if (status == SERIATIM_OK)
                status = drive(link);
            memory.left = 1000000;
            if (status != SERIATIM_OK && status != SERIATIM_NOMEM)
                fail_msg("operation %d, allocation %ld: %s", number, n, seriatim_client_error(seriatim_link_client(link))->message);
            seriatim_link_free(link);
            assert_true(n < 3000);
        }
    }
    close_queue(&f);
}

/* Answers that no script gives: an error, never more. */
static void test_answers_of_no_script_end_in_an_error(void **state)
{
    static const char *const answers[] = {
        "+OK\r\n", ":7\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$0\r\n\r\n", "*1\r\n:1\r\n", "*2\r\n:1\r\n$1\r\nx\r\n",
        "*2\r\n:1\r\n:1\r\n", "*3\r\n$1\r\n0\r\n$-1\r\n:1\r\n", "*3\r\n:5\r\n:9\r\n:1\r\n", "*1\r\n*1\r\n*1\r\n:1\r\n",
        "*2\r\n$1\r\n0\r\n*1\r\n$5\r\nabcde\r\n", "*4\r\n$1\r\n0\r\n:1\r\n*3\r\n:1\r\n:1\r\n:1\r\n*0\r\n",
        "*4\r\n$1\r\n0\r\n:1\r\n*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n*0\r\n", "*7\r\n:1\r\n:1\r\n$1\r\na\r\n$0\r\n\r\n:0\r\n:1\r\n$1\r\nx\r\n",
        "*7\r\n:1\r\n:9\r\n$1\r\na\r\n$0\r\n\r\n:0\r\n:1\r\n$1\r\nx\r\n",
        "*2\r\n$1\r\n0\r\n*1\r\n:1\r\n", "*2\r\n$1\r\n7\r\n*1\r\n$17\r\nseriatim:{}:layout\r\n", "*2\r\n*0\r\n*0\r\n",
        "$14\r\n\naof_enabled:1\r\n", "*10\r\n:1\r\n:1\r\n:1\r\n:1\r\n$2\r\nn1\r\n$1\r\n0\r\n:1\r\n$1\r\nx\r\n$0\r\n\r\n$0\r\n\r\n",
    };
    int number;
    size_t i;
    (void)state;
    for (number = 0; number < OPERATIONS; number++) {
        for (i = 0; i < sizeof answers / sizeof *answers; i++) {
            seriatim_client *c = NULL;
            seriatim_error error;
            size_t queue, n;
            assert_int_equal(seriatim_client_new(NULL, &c, &error), SERIATIM_OK);
            queue = add_queue(c, "Q", 1, 1, "merge");
            srt_client_connected(c, NULL, NULL, 0);
            assert_int_equal(begin_number(c, queue, number), SERIATIM_OK);
            if (number != 3 && number != 8 && number != 9)
                srt_client_input(c, "$5\r\n1 1 3\r\n", 11, &error);
            for (n = 0; n < 50 && srt_client_waits(c); n++)
                srt_client_input(c, answers[i], strlen(answers[i]), &error);
            seriatim_client_free(c);
        }
    }
}

/* ---- Where claims and settles need not look at runs ------------------------------------------ */

static void push_ids(const fixture *f, int count)
{
    char id[16];
    int i;
    done(f, seriatim_push_begin(f->client, f->queue));
    for (i = 0; i < count; i++) {
        snprintf(id, sizeof id, "i%d", i);
        add(f, id, strlen(id), "x", none);
    }
    done(f, seriatim_push_send(f->client));
}

/* An id that was deleted and pushed again stands in the ready list twice. */
static void test_a_claim_skips_stale_entries(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push_ids(&f, 20);
    act_on(&f, SERIATIM_DELETE, "i3");
    push(&f, "i3", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "10", NULL), 10);
    assert_int_equal(claim(&f, "30", NULL), 10);
    close_queue(&f);
}

static void test_ranges_leave_out_running_ids(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push_ids(&f, 4);
    act_on(&f, SERIATIM_DELETE, "i1");
    push(&f, "i1", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "2", NULL), 2); /* i0 and, by its first entry, i1 */
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 1, "-inf", "+inf", 2), "i3 i2");
    close_queue(&f);
}

static void test_a_claim_skips_evicted_records(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push_ids(&f, 20);
    REDIS("DEL " PREFIX "jobs");
    push_ids(&f, 20);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "100", NULL), 20);
    close_queue(&f);
}

static void keep_or_bring_back(const char *from, const char *to)
{
    static const char *const kinds[] = {"state", "jobs", "ready", "running", "claims"};
    size_t i;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        freeReplyObject(redisCommand(server.redis, "DEL %s%s", to, kinds[i]));
        freeReplyObject(redisCommand(server.redis, "COPY %s%s %s%s", from, kinds[i], to, kinds[i]));
    }
}

/* A failover to a replica that had not heard of the claim; the lease stays. */
static void test_a_settle_of_a_lost_claim_is_refused(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], seen[32];
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    strcpy(seen, f.seen);
    keep_or_bring_back(PREFIX, "kept:");
    assert_int_equal(claim(&f, "5", run), 1);
    keep_or_bring_back("kept:", PREFIX);
    settle_done(&f, "a", run);
    assert_int_equal(metrics(&f).refused, 1);
    strcpy(f.seen, seen);
    assert_int_equal(claim(&f, "5", run), 1);
    settle_done(&f, "a", run);
    assert_int_equal(claim(&f, "5", NULL), 0);
    close_queue(&f);
}

/* A dead connection may deliver what was sent on it after its successor has settled more. */
static void test_a_settle_that_arrives_late_again_changes_nothing(void **state)
{
    fixture f = open_queue(1, "merge");
    char first[64], second[64];
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    claim(&f, "5", first);
    settle_done(&f, "a", first);
    push(&f, "b", "x", none);
    claim(&f, "5", second);
    settle_done(&f, "b", second);
    push(&f, "a", "y", none);
    f.settles = 0;
    settle_done(&f, "a", first);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "y");
    close_queue(&f);
}

/* ---- Claims that are settled as a whole ------------------------------------------------------ */

/* Ids i0.. of a shard that n1 has; claims all of them. */
static void claim_whole(fixture *f, int count, char run[64])
{
    push_ids(f, count);
    acquire(f, "n1");
    assert_int_equal(claim(f, "1000", run), count);
}

static void settle_whole(fixture *f, const char *run, int count)
{
    char sequence[16], below[16];
    snprintf(sequence, sizeof sequence, "%d", ++f->settles);
    snprintf(below, sizeof below, "%d", -count);
    freeReplyObject(SCRIPT(settle, f->lease, sequence, "merge", "1", run, below));
}

static long long number(const char *command)
{
    redisReply *reply = redisCommand(server.redis, command);
    long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}

static void test_a_claim_is_settled_as_a_whole(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    claim_whole(&f, 300, run);
    assert_int_equal(number("HLEN " PREFIX "running"), 1);
    assert_int_equal(number("HLEN " PREFIX "claims"), 1);
    assert_int_equal(metrics(&f).busy, 300);
    assert_int_equal(metrics(&f).length, 0);
    settle_whole(&f, run, 300);
    assert_int_equal(metrics(&f).processed, 300);
    assert_int_equal(metrics(&f).busy, 0);
    assert_int_equal(number("EXISTS " PREFIX "jobs " PREFIX "claims"), 0);
    settle_whole(&f, run, 300);
    assert_int_equal(metrics(&f).refused, 300);
    close_queue(&f);
}

/* Those who only look find the runs, and leave them where they are. */
static void test_queries_see_the_runs_of_whole_claims(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    claim_whole(&f, 3, NULL);
    assert_string_equal(range(&f, SERIATIM_PROCESSING, 0, NULL, NULL, 10), "i0 i1 i2");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_ID, 0, NULL, NULL, 10), "");
    assert_string_equal(range(&f, SERIATIM_RANGE_BY_PERFORM_IN, 0, NULL, NULL, 10), "");
    assert_string_equal(explain(&f, "i1")->job.state, "running");
    assert_int_equal(findings(&f, 0), 0);
    assert_int_equal(number("HLEN " PREFIX "running"), 1);
    close_queue(&f);
}

static void test_a_push_waits_behind_a_whole_claim(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    claim_whole(&f, 20, run);
    push(&f, "i7", "y", none);
    push(&f, "new", "y", none);
    assert_int_equal(metrics(&f).busy, 20);
    assert_int_equal(claim(&f, "1000", NULL), 1); /* not i7 */
    settle_whole(&f, run, 20);
    assert_int_equal(metrics(&f).processed, 20);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "i7"), "y");
    assert_int_equal(claim(&f, "1000", NULL), 1);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_actions_apply_to_runs_of_whole_claims(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    claim_whole(&f, 20, run);
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "i1"), 1);
    assert_int_equal(act_on(&f, SERIATIM_PARK, "i2"), 1);
    push(&f, "i2", "y", none);
    settle_whole(&f, run, 20);
    assert_int_equal(metrics(&f).parked, 1);
    assert_int_equal(metrics(&f).busy, 0);
    assert_int_equal(metrics(&f).length, 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* Where one id ended alone, each of the others does; the whole counts no more. */
static void test_a_claim_is_split_when_one_of_its_ids_ends_alone(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    claim_whole(&f, 20, run);
    settle_done(&f, "i0", run);
    settle_failed(&f, "i1", run, "25", "bury");
    assert_int_equal(metrics(&f).busy, 18);
    settle_whole(&f, run, 20);
    assert_int_equal(metrics(&f).refused, 20);
    assert_int_equal(metrics(&f).busy, 18);
    settle_done(&f, "i2", run);
    assert_int_equal(metrics(&f).processed, 2);
    assert_int_equal(metrics(&f).retries, 1);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* Both kinds in one settle; a claim whose answer was lost comes again, whole. */
static void test_whole_claims_and_single_runs_are_settled_together(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], again[64], seen[32], sequence[16];
    (void)state;
    claim_whole(&f, 20, run);
    push(&f, "later", "x", none);
    strcpy(seen, f.seen);
    assert_int_equal(claim(&f, "10", again), 1);
    strcpy(f.seen, seen);
    assert_int_equal(claim(&f, "10", again), 1);
    snprintf(sequence, sizeof sequence, "%d", ++f.settles);
    freeReplyObject(SCRIPT(settle, f.lease, sequence, "merge", "1", run, "-20", "fail", "later", again, "0", "boom", "25", "bury"));
    assert_int_equal(metrics(&f).processed, 20);
    assert_int_equal(metrics(&f).retries, 1);
    assert_int_equal(metrics(&f).busy, 0);
    close_queue(&f);
}

static void test_the_next_owner_recovers_whole_claims(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    claim_whole(&f, 20, NULL);
    take_over(&f, "n2");
    assert_int_equal(metrics(&f).unproven, 20);
    assert_int_equal(metrics(&f).busy, 0);
    assert_int_equal(number("EXISTS " PREFIX "claims"), 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* What a full Redis allows: to look, to delete, to settle, and to claim again; what it refuses changes nothing. */
static void test_whole_claims_are_settled_at_maxmemory(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    claim_whole(&f, 20, run);
    push(&f, "more", "x", none);
    metrics(&f);
    REDIS("CONFIG SET maxmemory 1");
    done(&f, seriatim_push_begin(f.client, f.queue));
    add(&f, "i1", 2, "y", none);
    assert_int_equal(seriatim_push_send(f.client), SERIATIM_OK);
    assert_int_equal(drive(f.link), SERIATIM_FULL);
    assert_int_equal(number("HLEN " PREFIX "running"), 1);
    assert_string_equal(explain(&f, "i1")->job.state, "running");
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "i1"), 1);
    assert_int_equal(claim(&f, "10", NULL), 1);
    settle_whole(&f, run, 20);
    assert_int_equal(metrics(&f).processed, 20);
    REDIS("CONFIG SET maxmemory 0");
    close_queue(&f);
}

static void test_check_repairs_whole_claims(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    claim_whole(&f, 20, NULL);
    REDIS("HDEL " PREFIX "jobs i3");
    assert_string_equal(kinds_found(&f, f.queue, 1), "run");
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    close_queue(&f);
    f = open_queue(1, "merge");
    claim_whole(&f, 20, NULL);
    REDIS("HSET " PREFIX "claims %s nonsense", f.seen);
    assert_string_equal(kinds_found(&f, f.queue, 1), "index run"); /* its ids wait again */
    assert_string_equal(kinds_found(&f, f.queue, 1), "");
    assert_int_equal(claim(&f, "1000", NULL), 20);
    close_queue(&f);
}

/* ---- Large payloads ------------------------------------------------------------------------- */

#define LARGE 5000

static const char *large(char letter)
{
    static char texts[26][LARGE + 1];
    char *own = texts[letter - 'a'];
    memset(own, letter, LARGE);
    return own;
}

static int64_t head_of(const char *hash, const char *id)
{
    redisReply *reply = redis("HSTRLEN " PREFIX "%s %s", hash, id);
    int64_t length = reply->integer;
    freeReplyObject(reply);
    return length;
}

/* What scripts read of many ids at once stays small, whatever they hold, in all that becomes of an id. */
static void test_large_payloads_lie_beside_the_heads(void **state)
{
    fixture f = open_queue(1, "merge");
    push_options context = {0, 0, 0, NULL};
    char run[64];
    (void)state;
    context.context = large('c');
    push(&f, "one", large('a'), none);
    push(&f, "ctx", "x", context);
    assert_in_range(head_of("jobs", "one"), 1, 100);
    assert_in_range(head_of("jobs", "ctx"), 1, 100);
    assert_int_equal(findings(&f, 0), 0);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "one")->payloads[0].len, LARGE);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "ctx")->payloads[0].context_len, LARGE);

    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, "one", large('b'), none);
    assert_in_range(head_of("next", "one"), 1, 100);
    settle_failed(&f, "one", run, "9", "bury");
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "one")->payload_total, 2);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1);
    assert_in_range(head_of("dead", "one"), 1, 100);
    assert_int_equal(findings(&f, 0), 0);
    assert_int_equal(act(&f, SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS), 1);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "one")->payload_total, 2);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "one", large('a')), 1);
    assert_int_equal(drop(&f, SERIATIM_DROP_PAYLOAD, "one", large('b')), 1);
    assert_null(fetch(&f, SERIATIM_FETCH, "one"));
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "ctx"), 1);
    assert_int_equal(count_of("EXISTS", "spill:one") + count_of("EXISTS", "spill:ctx") + count_of("EXISTS", "deadspill:one"), 0);
    close_queue(&f);
}

/* The last payload replaces the one before, whichever of them is large; ties go to the latest arrival. */
static void test_fold_last_replaces_large_payloads(void **state)
{
    fixture f = open_queue(1, "last");
    push_options low = {0, 5, 0, NULL}, high = {0, 9, 0, NULL};
    char run[64];
    (void)state;
    push(&f, "a", large('a'), low);
    push(&f, "a", large('b'), high);
    push(&f, "a", large('c'), low);
    assert_memory_equal(fetch(&f, SERIATIM_FETCH, "a")->payloads[0].data, large('b'), LARGE);
    push(&f, "a", large('d'), high);
    assert_memory_equal(fetch(&f, SERIATIM_FETCH, "a")->payloads[0].data, large('d'), LARGE);
    push(&f, "a", "little", high);
    assert_memory_equal(fetch(&f, SERIATIM_FETCH, "a")->payloads[0].data, "little", 6);
    assert_int_equal(count_of("EXISTS", "spill:a") + count_of("EXISTS", "spillmap:a"), 0);
    push(&f, "a", large('e'), high);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, "a", large('f'), low);
    push(&f, "a", large('g'), low);
    freeReplyObject(SCRIPT(settle, f.lease, "1", "last", "0", "release", "a", run, "0", "", "0", ""));
    assert_memory_equal(fetch(&f, SERIATIM_FETCH, "a")->payloads[0].data, large('e'), LARGE);
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, "a", large('h'), high);
    freeReplyObject(SCRIPT(settle, f.lease, "2", "last", "0", "release", "a", run, "0", "", "0", ""));
    assert_memory_equal(fetch(&f, SERIATIM_FETCH, "a")->payloads[0].data, large('h'), LARGE);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "a")->payload_total, 1);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* A long error is kept whole, and its record stays small. */
static void test_a_long_error_lies_beside_the_head(void **state)
{
    fixture f = open_queue(1, "merge");
    const seriatim_record *record;
    char run[64];
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    freeReplyObject(SCRIPT(settle, f.lease, "1", "merge", "0", "fail", "a", run, "60000000", large('e'), "9", "bury"));
    assert_in_range(head_of("jobs", "a"), 1, 400);
    record = fetch(&f, SERIATIM_FETCH, "a");
    assert_int_equal(record->error_len, LARGE);
    assert_memory_equal(record->error, large('e'), LARGE);
    push(&f, "a", "y", none);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "a")->error_len, LARGE);
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1);
    record = fetch(&f, SERIATIM_MORGUE_FETCH, "a");
    assert_int_equal(record->error_len, LARGE);
    assert_int_equal(record->payload_total, 2);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* The runs of a dead node come back in slices; until then nobody claims their ids, and what came meanwhile waits. */
static void test_the_next_owner_recovers_runs_in_slices(void **state)
{
    fixture f = open_queue(1, "merge");
    redisReply *reply;
    char id[16], cursor[24] = "0";
    int i, left = 300, calls = 0, busy;
    (void)state;
    acquire(&f, "n1");
    for (i = 0; i < 300; i++) {
        snprintf(id, sizeof id, "i%d", i);
        push(&f, id, "1", none);
    }
    assert_int_equal(claim(&f, "1000", NULL), 300);
    push(&f, "i7", "2", none);
    push(&f, "new", "1", none);
    reply = SCRIPT(acquire, "n2", "merge", "n1", f.lease);
    assert_int_equal(reply->element[4]->integer, 1);
    strcpy(f.lease, reply->element[1]->str);
    strcpy(f.seen, reply->element[2]->str);
    freeReplyObject(reply);
    assert_int_equal(metrics(&f).busy, 300);
    assert_int_equal(claim(&f, "1000", NULL), 1); /* new */
    assert_int_equal(findings(&f, 0), 0);
    while (recover_slice(&f, cursor)) {
        busy = (int)metrics(&f).busy - 1;
        assert_in_range(left - busy, 0, 220); /* a slice of a hash table */
        assert_int_equal(metrics(&f).unproven, 300 - busy);
        assert_int_equal(claim(&f, "1000", NULL), 0);
        assert_int_equal(findings(&f, 0), 0);
        left = busy;
        calls++;
    }
    assert_in_range(calls, 3, 20);
    assert_int_equal(left, 0);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "i7")->payload_total, 2);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "i7")->state, "unproven");
    close_queue(&f);
}

/* Many payloads that meet many: moved in slices, whoever owns the shard meanwhile; the id is not claimed, and pushes join. */
static void test_an_id_unites_in_slices(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64], cursor[24] = "u";
    redisReply *reply;
    (void)state;
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 2000);
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "hot", 1000, 2000);
    settle_failed(&f, "hot", run, "9", "bury");
    assert_int_equal(metrics(&f).busy, 0);
    assert_int_equal(count_of("ZCARD", "uniting"), 1);
    assert_int_equal(claim(&f, "1000", NULL), 0);
    assert_int_equal(recover_slice(&f, cursor), 1);
    assert_int_equal(count_of("ZCARD", "nextspill:hot"), 1750);
    assert_int_equal(findings(&f, 0), 0);
    push(&f, "hot", "late", none);
    reply = SCRIPT(release, f.lease, "");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    assert_int_equal(findings(&f, 0), 0);
    acquire(&f, "n2");
    recover_all(&f);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 3001);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "hot")->state, "retrying");
    assert_int_equal(count_of("EXISTS", "nextspill:hot") + count_of("EXISTS", "uniting"), 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* What an operator does to an id that is uniting acts as on a run. */
static void test_actions_apply_to_an_id_that_unites(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    (void)state;
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 1000);
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "hot", 1000, 1000);
    settle_failed(&f, "hot", run, "9", "bury");
    assert_int_equal(act_on(&f, SERIATIM_PARK, "hot"), 1);
    recover_all(&f);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "hot")->state, "parked");
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 2000);
    assert_int_equal(act_on(&f, SERIATIM_UNPARK, "hot"), 1);
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "hot", 2000, 1000);
    settle_failed(&f, "hot", run, "9", "bury");
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "hot"), 1);
    push(&f, "hot", "later", none);
    recover_all(&f);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 1);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "hot")->state, "waiting");
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

/* Actions move many payloads to many in slices, and none is lost or doubled. */
static void test_actions_move_many_payloads_in_slices(void **state)
{
    fixture f = open_queue(1, "merge");
    redisReply *reply;
    char began[32], cursor[64];
    int calls = 0;
    (void)state;
    acquire(&f, "n1");
    push_many(&f, "hot", 0, 1200);
    fail_all(&f, "hot");
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1);
    push_many(&f, "hot", 1000, 1200);
    fail_all(&f, "hot");
    assert_int_equal(act(&f, SERIATIM_KILL_ALL_FAILED_JOBS), 1);
    assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->payload_total, 2200);
    assert_null(fetch(&f, SERIATIM_FETCH, "hot"));
    assert_int_equal(findings(&f, 0), 0);

    push_many(&f, "hot", 2000, 1500);
    assert_int_equal(act_on(&f, SERIATIM_MORGUE_QUEUE_UP, "hot"), 1);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 3500);
    assert_null(fetch(&f, SERIATIM_MORGUE_FETCH, "hot"));
    assert_int_equal(findings(&f, 0), 0);

    /* Some come while the failed ones are deleted, with scores before and after the old ones. */
    fail_all(&f, "hot");
    strcpy(began, "0");
    cursor[0] = '\0';
    do {
        if (calls == 0) {
            redisReply *state_of = SCRIPT(perform_now, "0", "suspect 0"); /* tells what began means now, and finds nothing */
            snprintf(began, sizeof began, "%s", state_of->element[0]->str);
            freeReplyObject(state_of);
            push_many(&f, "hot", 10000, 700);
        }
        reply = SCRIPT(delete_failed, began, cursor);
        snprintf(cursor, sizeof cursor, "%s", reply->element[1]->str);
        freeReplyObject(reply);
        assert_int_equal(findings(&f, 0), 0);
    } while (cursor[0] && ++calls < 50);
    assert_in_range(calls, 5, 20);
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 700);
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "hot")->state, "delayed");
    close_queue(&f);
}

/* What folds while a record is spilled is not counted. */
static void test_equal_payloads_that_spill_are_counted_once(void **state)
{
    fixture list = open_queue(1, "list"), merge = open_queue(1, "merge");
    char payload[301], other[701];
    (void)state;
    memset(payload, 'x', 300);
    memset(other, 'y', 700);
    payload[300] = other[700] = '\0';
    push(&list, "a", payload, none);
    push(&list, "a", payload, none);
    REDIS("HSET seriatim:{Q}:settings fold merge");
    push(&merge, "a", other, none);
    assert_int_equal(fetch(&merge, SERIATIM_FETCH, "a")->payload_total, 2);
    assert_int_equal(findings(&merge, 0), 0);
    assert_int_equal(drop(&merge, SERIATIM_DROP_PAYLOAD, "a", payload), 1);
    assert_int_equal(drop(&merge, SERIATIM_DROP_PAYLOAD, "a", other), 1);
    assert_null(fetch(&merge, SERIATIM_FETCH, "a"));
    close_queue(&list);
    close_queue(&merge);
}

/* A push that a key of another type ends has written nothing, also where it is the first to spill. */
static void test_a_stray_spill_key_ends_a_push_before_it_writes(void **state)
{
    fixture f = open_queue(1, "merge");
    char payload[601];
    (void)state;
    memset(payload, 'x', 600);
    payload[600] = '\0';
    push(&f, "a", payload, none);
    REDIS("SET " PREFIX "spillmap:a stray");
    memset(payload, 'y', 600);
    assert_int_equal(seriatim_push_begin(f.client, f.queue), SERIATIM_OK);
    add(&f, "new", 3, "1", none);
    add(&f, "a", 1, payload, none);
    assert_int_equal(seriatim_push_send(f.client), SERIATIM_OK);
    assert_int_not_equal(drive(f.link), SERIATIM_OK);
    assert_int_equal(count_of("HLEN", "jobs"), 1);
    assert_int_equal(count_of("LLEN", "ready"), 1);
    assert_int_equal(count_of("EXISTS", "spill:a"), 0);
    REDIS("DEL " PREFIX "spillmap:a");
    close_queue(&f);
}

/* Also a push that begins with what Redis allows at maxmemory (here: to move the id to another time) is refused then. */
static void test_a_full_redis_refuses_every_push(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_job job;
    (void)state;
    push_later(&f, "a", "x", 900);
    REDIS("CONFIG SET maxmemory 1");
    REDIS("CONFIG SET maxmemory-policy noeviction");
    seriatim_job_init(&job);
    job.id = "a";
    job.id_len = 1;
    job.payload = "y";
    job.payload_len = 1;
    job.when = SERIATIM_DELAY;
    job.time = 100;
    job.on_waiting = "earlier";
    assert_int_equal(seriatim_push_begin(f.client, f.queue), SERIATIM_OK);
    assert_int_equal(seriatim_push_job(f.client, &job), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(f.client), SERIATIM_OK);
    assert_int_equal(drive(f.link), SERIATIM_FULL);
    REDIS("CONFIG SET maxmemory 0");
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "a")->payload_total, 1);
    close_queue(&f);
}

/* Many payloads that cannot be read go to the morgue in slices, and the run stays open until the last. */
static void test_undecodable_payloads_are_buried_in_slices(void **state)
{
    fixture f = open_queue(1, "list");
    redisReply *reply, *flat;
    char run[64], stamps[8 * 400], sequence[8], from[16];
    size_t i, slice;
    (void)state;
    push_many(&f, "hot", 0, 1000);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, "hot", "behind", none);
    flat = redis("ZRANGE " PREFIX "spill:hot 0 -1");
    for (slice = 0; slice < 2; slice++) {
        snprintf(sequence, sizeof sequence, "%d", (int)slice + 1);
        snprintf(from, sizeof from, "%d", slice ? 100 : 0); /* 0 to 399; then 500 to 899, of which 400 lie in front no more */
        for (i = 0; i < 400; i++)
            memcpy(stamps + 8 * i, flat->element[i + 500 * slice]->str, 8);
        reply = SCRIPT_BYTES(settle, stamps, sizeof stamps, f.lease, sequence, "list", "0", slice ? "reject" : "bury", "hot", run, from,
                             "bad", "400");
        assert_int_equal(reply->element[0]->integer, 0);
        freeReplyObject(reply);
        assert_int_equal(fetch(&f, SERIATIM_MORGUE_FETCH, "hot")->payload_total, 400 * (slice + 1));
        assert_int_equal(metrics(&f).busy, slice ? 0 : 1);
        assert_int_equal(findings(&f, 0), 0);
    }
    assert_int_equal(fetch(&f, SERIATIM_FETCH, "hot")->payload_total, 201);
    freeReplyObject(flat);
    close_queue(&f);
}

/* ---- Settings ------------------------------------------------------------------------------- */

/* Another process that uses the queue, with settings of its own. shards 0: it knows none, like the command and the dashboard. */
static fixture another(int64_t shards, const char *fold)
{
    fixture f;
    seriatim_error error;
    memset(&f, 0, sizeof f);
    assert_int_equal(seriatim_link_new(NULL, server.url, &f.link, &error), SERIATIM_OK);
    f.client = seriatim_link_client(f.link);
    f.queue = add_queue(f.client, "Q", 1, shards, fold);
    return f;
}

/* The queue keeps what its first worker wrote; whoever says something else acts by that, and is told once. */
static void test_r_settings_1_a_queue_keeps_the_settings_of_its_first_worker(void **state)
{
    fixture worker = open_queue(1, "list"), command = another(0, "merge"), producer = another(1, "merge");
    const char *warning;
    (void)state;
    push_failed(&worker, "a", "x", 2, 0);
    push(&command, "a", "x", none);
    assert_null(seriatim_client_warning(command.client));
    push(&producer, "a", "x", none);
    warning = seriatim_client_warning(producer.client);
    assert_non_null(warning);
    assert_string_equal(warning, "queue \"Q\" has other settings in Redis than in the code; the settings in Redis are used: "
                                 "fold: list, in the code merge");
    push(&producer, "b", "x", none);
    assert_null(seriatim_client_warning(producer.client));
    assert_string_equal(payloads(&worker, SERIATIM_FETCH, "a"), "x,x,x");
    act(&command, SERIATIM_KILL_ALL_FAILED_JOBS);
    assert_int_equal(act_on(&command, SERIATIM_MORGUE_QUEUE_UP, "a"), 1);
    assert_string_equal(payloads(&worker, SERIATIM_FETCH, "a"), "x,x,x");
    seriatim_link_free(producer.link);
    seriatim_link_free(command.link);
    close_queue(&worker);
}

/* A client that lives long sees a change: with its next action, and with its next push a minute later. */
static void test_r_settings_2_a_client_sees_changed_settings(void **state)
{
    fixture worker = open_queue(1, "merge"), command = another(0, "merge");
    (void)state;
    push(&worker, "a", "x", none);
    push(&command, "a", "y", none);
    REDIS("HSET seriatim:{Q}:settings fold list");
    kill_one(&command, "d", "x");
    kill_one(&command, "d", "x");
    assert_int_equal(act_on(&command, SERIATIM_MORGUE_QUEUE_UP, "d"), 1);
    assert_string_equal(payloads(&worker, SERIATIM_FETCH, "d"), "x,x");
    push(&worker, "a", "x", none);
    assert_string_equal(payloads(&worker, SERIATIM_FETCH, "a"), "x,y");
    worker.client->registry.queues[0]->read_at -= 61;
    push(&worker, "a", "x", none);
    assert_string_equal(payloads(&worker, SERIATIM_FETCH, "a"), "x,y,x");
    assert_non_null(seriatim_client_warning(worker.client));
    seriatim_link_free(command.link);
    close_queue(&worker);
}

/* A value of a later version is not acted by, and the check names it; settings of other names are passed over. */
static void test_a_setting_of_a_later_version_is_not_acted_by(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push(&f, "a", "x", none);
    REDIS("HSET seriatim:{Q}:settings unheard_of 5");
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "a"), 1);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    REDIS("HSET seriatim:{Q}:settings fold sorted");
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_PAUSE, NULL, 0), SERIATIM_OK);
    assert_int_equal(drive(f.link), SERIATIM_UNSUPPORTED);
    assert_string_equal(seriatim_client_error(f.client)->message,
                        "the queue's fold in Redis is \"sorted\", which this version does not know");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "layout");
    REDIS("HSET seriatim:{Q}:settings fold merge ttr 9999999999999999");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "layout");
    REDIS("DEL seriatim:{Q}:settings");
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    close_queue(&f);
}

/* Only a push makes a queue: queries and actions of a worker that was never used do not. */
static void test_r_settings_3_queries_and_actions_make_no_queue(void **state)
{
    fixture f = open_queue(3, "merge");
    redisReply *reply;
    (void)state;
    refuses_to_pause(&f, SERIATIM_PAUSE);
    assert_int_equal(metrics(&f).length, 0);
    reply = redis("DBSIZE");
    assert_int_equal(reply->integer, 0);
    freeReplyObject(reply);
    push(&f, "a", "x", none);
    assert_int_equal(act(&f, SERIATIM_PAUSE), 3);
    close_queue(&f);
}

/* ---- Deletion ------------------------------------------------------------------------------- */

static int delete_queue(const fixture *f, int force)
{
    static const seriatim_text name = {"Q", 1};
    int status = seriatim_action_begin(f->client, f->queue, SERIATIM_DELETE_QUEUE, force ? &name : NULL, (size_t)force);
    return status == SERIATIM_OK ? drive(f->link) : status;
}

static const char *layout_text(void)
{
    static char text[64];
    redisReply *reply = redis("GET seriatim:{Q}:layout");
    snprintf(text, sizeof text, "%s", reply->str ? reply->str : "none");
    freeReplyObject(reply);
    return text;
}

/* Thousands of ids in one shard: what earlier calls removed leaves the beginning of its hash empty. */
static void test_a_queue_of_many_ids_is_deleted_in_slices(void **state)
{
    static const seriatim_text name = {"Q", 1};
    fixture f = open_queue(1, "list");
    char id[16];
    int i, status = SERIATIM_AGAIN;
    (void)state;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < 5000; i++) {
        snprintf(id, sizeof id, "%d", i);
        add(&f, id, strlen(id), "", none);
    }
    done(&f, seriatim_push_send(f.client));
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE_QUEUE, &name, 1), SERIATIM_OK);
    for (i = 0; i < 5000 && (status = seriatim_link_step(f.link)) == SERIATIM_AGAIN; i++) /* each waits for one of some 200 answers */
        seriatim_link_wait(f.link);
    assert_int_equal(status, SERIATIM_OK);
    assert_string_equal(layout_text(), "none");
    close_queue(&f);
}

/* A queue with something in it goes only by its name; the next one of the name goes on with the generation. */
static void test_r_queue_1_a_queue_with_content_is_deleted_by_its_name_only(void **state)
{
    fixture f = open_queue(3, "merge"), other = another(5, "list");
    seriatim_text wrong = {"q", 1};
    (void)state;
    assert_int_equal(delete_queue(&f, 1), SERIATIM_INVALID); /* there is none */
    push(&f, "a", "1", none);
    push(&other, "b", "1", none);
    kill_one(&f, "d", "1");
    push_many(&f, "spilled", 0, 200);
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_DELETE_QUEUE, &wrong, 1), SERIATIM_INVALID);
    assert_int_equal(delete_queue(&f, 0), SERIATIM_INVALID);
    assert_non_null(strstr(seriatim_client_error(f.client)->message, "holds 4 ids"));
    assert_string_equal(layout_text(), "2 3 3");
    push(&other, "b", "2", none); /* with the old layout in hand */
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "b"), "1,2");
    assert_int_equal(metrics(&f).length, 3);
    assert_string_equal(kinds_found(&f, f.queue, 0), "");

    REDIS("SET seriatim:{Q}:history samples");
    assert_int_equal(delete_queue(&f, 1), SERIATIM_OK);
    assert_int_equal(seriatim_action_result(f.client), 1);
    assert_string_equal(layout_text(), "none");
    assert_int_equal(number("EXISTS seriatim:{Q}:history"), 0);
    assert_int_equal(count_of("EXISTS", "jobs") + count_of("EXISTS", "spill:spilled") + count_of("EXISTS", "spillmap:spilled"), 0);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    assert_int_equal(metrics(&f).length, 0);
    assert_int_equal(delete_queue(&f, 1), SERIATIM_INVALID);

    push(&other, "c", "1", none); /* makes it anew, with its own number of shards and settings */
    assert_string_equal(layout_text(), "3 5 3");
    assert_int_equal(metrics(&f).length, 1);
    assert_null(fetch(&f, SERIATIM_FETCH, "a"));
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    assert_int_equal(delete_queue(&other, 1), SERIATIM_OK);
    push(&f, "a", "1", none); /* fewer shards again */
    assert_string_equal(layout_text(), "4 3 3");
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    act_on(&f, SERIATIM_DELETE, "a");
    assert_int_equal(delete_queue(&f, 0), SERIATIM_OK);
    push_many(&other, "e", 0, 3);
    push(&other, "f", "1", none);
    push(&other, "g", "1", none);
    assert_string_equal(layout_text(), "5 5 3");
    assert_string_equal(kinds_found(&other, other.queue, 0), "");
    seriatim_link_free(other.link);
    close_queue(&f);
}

/* A node that serves the queue keeps it. */
static void test_r_queue_2_a_served_queue_is_not_deleted(void **state)
{
    fixture f = open_queue(1, "merge");
    char description[32];
    (void)state;
    push(&f, "a", "1", none);
    snprintf(description, sizeof description, "b 00000000 %08x|text", (unsigned)srt_crc32("Q", 1));
    REDIS("ZADD seriatim:{/nodes}:alive 9999999999999 n1");
    REDIS("HSET seriatim:{/nodes}:info n1 %s", description);
    assert_int_equal(delete_queue(&f, 1), SERIATIM_INVALID);
    assert_string_equal(seriatim_client_error(f.client)->message, "the node n1 serves the queue; stop it first");
    REDIS("ZADD seriatim:{/nodes}:alive 1 n1");
    assert_int_equal(delete_queue(&f, 1), SERIATIM_OK);
    close_queue(&f);
}

/* A deletion whose process died holds pushes up for 30 seconds; then the queue goes on, with what it held. */
static void test_a_queue_goes_on_after_its_deletion_was_broken_off(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push(&f, "a", "1", none);
    REDIS("SET seriatim:{Q}:deleted %s", "2 1 1000");
    REDIS("SETRANGE " PREFIX "state 0 %b", "\0\0\0\0\0\0\0\xc0", (size_t)8); /* -2, as close.lua leaves it */
    push(&f, "a", "2", none);
    assert_string_equal(layout_text(), "2 1 3");
    assert_string_equal(payloads(&f, SERIATIM_FETCH, "a"), "1,2");
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_queue_1_a_queue_with_content_is_deleted_by_its_name_only),
        cmocka_unit_test(test_a_queue_of_many_ids_is_deleted_in_slices),
        cmocka_unit_test(test_r_queue_2_a_served_queue_is_not_deleted),
        cmocka_unit_test(test_a_queue_goes_on_after_its_deletion_was_broken_off),
        cmocka_unit_test(test_r_settings_1_a_queue_keeps_the_settings_of_its_first_worker),
        cmocka_unit_test(test_r_settings_2_a_client_sees_changed_settings),
        cmocka_unit_test(test_a_setting_of_a_later_version_is_not_acted_by),
        cmocka_unit_test(test_r_settings_3_queries_and_actions_make_no_queue),
        cmocka_unit_test(test_queries_of_an_empty_queue_find_nothing),
        cmocka_unit_test(test_an_unknown_queue_is_empty_and_is_not_made_by_looking),
        cmocka_unit_test(test_ranges_by_id_keep_their_bounds),
        cmocka_unit_test(test_ranges_by_numbers_keep_their_bounds),
        cmocka_unit_test(test_invalid_bounds_are_refused),
        cmocka_unit_test(test_a_range_merges_all_shards_in_order),
        cmocka_unit_test(test_a_record_has_all_its_fields),
        cmocka_unit_test(test_metrics_count_ids_by_state),
        cmocka_unit_test(test_perform_all_now_makes_waiting_ids_due),
        cmocka_unit_test(test_perform_now_makes_chosen_ids_due),
        cmocka_unit_test(test_unpark_all_makes_each_parked_id_due),
        cmocka_unit_test(test_actions_on_failed_ids_spare_all_others),
        cmocka_unit_test(test_r_action_10_pushes_between_two_slices_survive_the_action),
        cmocka_unit_test(test_actions_on_the_dead_spare_what_dies_meanwhile),
        cmocka_unit_test(test_a_call_deletes_a_bounded_number_of_failed_ids),
        cmocka_unit_test(test_notices_name_every_payload_that_was_killed_in_slices),
        cmocka_unit_test(test_a_call_writes_few_notices_of_large_payloads),
        cmocka_unit_test(test_r_morgue_1_dead_payloads_unite_with_what_waits),
        cmocka_unit_test(test_deleting_removes_an_id_in_every_state),
        cmocka_unit_test(test_a_parked_id_stays_parked_until_it_is_unparked),
        cmocka_unit_test(test_pausing_stops_claims_and_wakes_the_owner),
        cmocka_unit_test(test_r_action_14_dropping_a_payload_keeps_the_rest_of_the_id),
        cmocka_unit_test(test_r_action_14_an_id_goes_with_its_last_payload),
        cmocka_unit_test(test_r_action_14_a_running_payload_is_not_dropped_one_behind_the_run_is),
        cmocka_unit_test(test_r_action_14_the_first_of_equal_payloads_is_dropped),
        cmocka_unit_test(test_r_action_14_a_spilled_payload_is_dropped),
        cmocka_unit_test(test_an_id_of_thousands_of_payloads_keeps_all_in_every_state),
        cmocka_unit_test(test_r_names_1_r_names_2_queue_names_and_ids_hold_any_bytes),
        cmocka_unit_test(test_large_payloads_lie_beside_the_heads),
        cmocka_unit_test(test_fold_last_replaces_large_payloads),
        cmocka_unit_test(test_a_long_error_lies_beside_the_head),
        cmocka_unit_test(test_equal_payloads_that_spill_are_counted_once),
        cmocka_unit_test(test_a_stray_spill_key_ends_a_push_before_it_writes),
        cmocka_unit_test(test_actions_move_many_payloads_in_slices),
        cmocka_unit_test(test_the_next_owner_recovers_runs_in_slices),
        cmocka_unit_test(test_an_id_unites_in_slices),
        cmocka_unit_test(test_actions_apply_to_an_id_that_unites),
        cmocka_unit_test(test_a_full_redis_refuses_every_push),
        cmocka_unit_test(test_undecodable_payloads_are_buried_in_slices),
        cmocka_unit_test(test_a_key_of_the_wrong_type_ends_every_action_before_it_writes),
        cmocka_unit_test(test_r_full_1_actions_work_at_maxmemory),
        cmocka_unit_test(test_check_finds_nothing_in_a_sound_queue),
        cmocka_unit_test(test_check_replaces_keys_of_the_wrong_type),
        cmocka_unit_test(test_f30_repair_mends_each_evicted_key),
        cmocka_unit_test(test_check_names_and_repairs_each_damage),
        cmocka_unit_test(test_check_names_keys_that_nothing_owns),
        cmocka_unit_test(test_f33_a_later_schema_is_left_alone),
        cmocka_unit_test(test_r_query_7_explain_says_where_an_id_stands),
        cmocka_unit_test(test_all_queues_are_listed),
        cmocka_unit_test(test_the_list_of_queues_leaves_out_other_keys),
        cmocka_unit_test(test_queues_are_found_among_many_keys),
        cmocka_unit_test(test_queues_of_another_namespace_are_not_listed),
        cmocka_unit_test(test_queues_are_named_once),
        cmocka_unit_test(test_pages_are_in_byte_order),
        cmocka_unit_test(test_health_reports_how_redis_is_set_up),
        cmocka_unit_test(test_forbidden_commands_make_health_unknown),
        cmocka_unit_test(test_health_reads_incomplete_answers),
        cmocka_unit_test(test_every_allocation_of_an_operation_may_fail),
        cmocka_unit_test(test_answers_of_no_script_end_in_an_error),
        cmocka_unit_test(test_a_failed_run_unites_with_payloads_that_spilled_meanwhile),
        cmocka_unit_test(test_a_deleted_run_beyond_its_ttr_stays_deleted),
        cmocka_unit_test(test_ranges_leave_out_running_ids),
        cmocka_unit_test(test_a_claim_skips_stale_entries),
        cmocka_unit_test(test_a_claim_skips_evicted_records),
        cmocka_unit_test(test_a_settle_of_a_lost_claim_is_refused),
        cmocka_unit_test(test_a_settle_that_arrives_late_again_changes_nothing),
        cmocka_unit_test(test_a_claim_is_settled_as_a_whole),
        cmocka_unit_test(test_queries_see_the_runs_of_whole_claims),
        cmocka_unit_test(test_a_push_waits_behind_a_whole_claim),
        cmocka_unit_test(test_actions_apply_to_runs_of_whole_claims),
        cmocka_unit_test(test_a_claim_is_split_when_one_of_its_ids_ends_alone),
        cmocka_unit_test(test_whole_claims_and_single_runs_are_settled_together),
        cmocka_unit_test(test_the_next_owner_recovers_whole_claims),
        cmocka_unit_test(test_whole_claims_are_settled_at_maxmemory),
        cmocka_unit_test(test_check_repairs_whole_claims),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

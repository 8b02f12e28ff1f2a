/* operators.c - a queue on a real Redis, what a node and an operator do with it, and what is stored then. */
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
#include "base/msgpack.h"
#include "operators.h"

const push_options none = {0, 0, 0, NULL};

long long count_of(const char *command, const char *key)
{
    redisReply *reply = redis("%s " PREFIX "%s", command, key);
    long long n = reply->integer;
    freeReplyObject(reply);
    return n;
}

redisReply *script(const char *text, size_t len, const char *tail, size_t tail_len, ...)
{
    const char *argv[64] = {"EVAL", text, "2", PREFIX "state", PREFIX "-", "1"};
    size_t lens[64] = {4, len}, n = 6, i;
    redisReply *reply;
    va_list args;
    va_start(args, tail_len);
    while ((argv[n] = va_arg(args, const char *)))
        n++;
    va_end(args);
    for (i = 2; i < n; i++)
        lens[i] = strlen(argv[i]);
    if (tail) {
        lens[n] = tail_len;
        argv[n++] = tail;
    }
    reply = redisCommandArgv(server_redis, (int)n, argv, lens);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%.40s: %s", text, reply ? reply->str : "closed");
    return reply;
}

size_t add_queue(seriatim_client *c, const char *name, size_t len, int64_t shards, const char *fold)
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

fixture open_queue(int64_t shards, const char *fold)
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

int drive(seriatim_link *link)
{
    int status;
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        seriatim_link_wait(link);
    return status;
}

void done(const fixture *f, int begun)
{
    int status = begun == SERIATIM_OK ? drive(f->link) : begun;
    if (status != SERIATIM_OK)
        fail_msg("%s: %s", seriatim_status_name(status), seriatim_client_error(f->client)->message);
}

void add(const fixture *f, const char *id, size_t len, const char *payload, push_options options)
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

void push(const fixture *f, const char *id, const char *payload, push_options options)
{
    done(f, seriatim_push_begin(f->client, f->queue));
    add(f, id, strlen(id), payload, options);
    done(f, seriatim_push_send(f->client));
}

void push_failed(const fixture *f, const char *id, const char *payload, int64_t retry_count, double delay)
{
    push_options options = {0, 0, 0, NULL};
    options.delay = delay;
    options.retry_count = retry_count + 1;
    push(f, id, payload, options);
}

void push_later(const fixture *f, const char *id, const char *payload, double delay)
{
    push_options options = {0, 0, 0, NULL};
    options.delay = delay;
    push(f, id, payload, options);
}

void push_new_ids(const fixture *f, int from, int count, push_options options)
{
    char id[16];
    int i;
    done(f, seriatim_push_begin(f->client, f->queue));
    for (i = from; i < from + count; i++) {
        snprintf(id, sizeof id, "i%d", i);
        add(f, id, strlen(id), "x", options);
    }
    done(f, seriatim_push_send(f->client));
}

void add_scheduled(const fixture *f, const char *id, const char *payload, size_t len, double seconds)
{
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = strlen(id);
    job.payload = payload;
    job.payload_len = len;
    job.deliver_when = SERIATIM_DELAY;
    job.deliver_time = seconds;
    done(f, seriatim_push_job(f->client, &job));
}

void schedule_one(const fixture *f, const char *id, const char *payload, double seconds)
{
    done(f, seriatim_push_begin(f->client, f->queue));
    add_scheduled(f, id, payload, strlen(payload), seconds);
    done(f, seriatim_push_send(f->client));
}

void push_many(const fixture *f, const char *id, int from, int count)
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

redisReply *acquire_seen(const char *node, const char *knows_all)
{
    char number[24];
    redisReply *reply = SCRIPT(acquire, node, knows_all, "", "0");
    if (strcmp(reply->element[0]->str, "TAKEN") != 0)
        return reply;
    snprintf(number, sizeof number, "%s", reply->element[2]->str);
    freeReplyObject(reply);
    return SCRIPT(acquire, node, knows_all, "", number);
}

void acquire(fixture *f, const char *node)
{
    redisReply *reply = acquire_seen(node, "0");
    assert_string_equal(reply->element[0]->str, "OK");
    strcpy(f->lease, reply->element[1]->str);
    strcpy(f->seen, reply->element[2]->str);
    freeReplyObject(reply);
}

int recover_slice(fixture *f, char cursor[24])
{
    redisReply *reply = SCRIPT(recover, f->lease, "merge", cursor);
    snprintf(cursor, 24, "%s", reply->element[0]->str);
    freeReplyObject(reply);
    return cursor[0] != '\0';
}

int recover_all(fixture *f)
{
    char cursor[24] = "0";
    int calls = 1;
    while (recover_slice(f, cursor))
        calls++;
    return calls;
}

int take_from_dead(fixture *f, const char *node)
{
    redisReply *reply = SCRIPT(acquire, node, "merge", "n1", f->lease);
    if (strcmp(reply->element[0]->str, "OK") != 0) {
        freeReplyObject(reply);
        acquire(f, node);
        return 0;
    }
    strcpy(f->lease, reply->element[1]->str);
    strcpy(f->seen, reply->element[2]->str);
    freeReplyObject(reply);
    return 1;
}

void take_over(fixture *f, const char *node)
{
    if (take_from_dead(f, node))
        recover_all(f);
}

size_t claim(fixture *f, const char *limit, char run[64])
{
    redisReply *reply =
        SCRIPT(claim, f->lease, f->seen, limit, "0", "0", "merge", f->history ? f->history : "0", "25", "bury");
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

void settle_done(fixture *f, const char *id, const char *run)
{
    char sequence[16];
    snprintf(sequence, sizeof sequence, "%d", ++f->settles);
    freeReplyObject(SCRIPT(settle, f->lease, sequence, "merge", "1", run, "1", id));
}

void settle_failed(fixture *f, const char *id, const char *run, const char *limit, const char *action)
{
    char sequence[16];
    snprintf(sequence, sizeof sequence, "%d", ++f->settles);
    freeReplyObject(
        SCRIPT(settle, f->lease, sequence, "merge", "0", "fail", id, run, "60000000", "boom", limit, action));
}

seriatim_text text(const char *word)
{
    seriatim_text t = {word, word ? strlen(word) : 0};
    return t;
}

int64_t act(const fixture *f, int kind)
{
    done(f, seriatim_action_begin(f->client, f->queue, kind, NULL, 0));
    return seriatim_action_result(f->client);
}

int64_t act_on(const fixture *f, int kind, const char *id)
{
    seriatim_text ids[1];
    ids[0] = text(id);
    done(f, seriatim_action_begin(f->client, f->queue, kind, ids, 1));
    return seriatim_action_result(f->client);
}

int64_t drop(const fixture *f, int kind, const char *id, const char *payload)
{
    seriatim_text texts[2];
    texts[0] = text(id);
    texts[1] = text(payload);
    done(f, seriatim_action_begin(f->client, f->queue, kind, texts, 2));
    return seriatim_action_result(f->client);
}

const char *range(const fixture *f, int kind, int reverse, const char *min, const char *max, int64_t limit)
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

const seriatim_record *fetch(const fixture *f, int kind, const char *id)
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

const char *payloads(const fixture *f, int kind, const char *id)
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

seriatim_metrics metrics(const fixture *f)
{
    done(f, seriatim_metrics_begin(f->client, f->queue));
    return *seriatim_metrics_total(f->client);
}

size_t findings(const fixture *f, int repair)
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

void close_queue(fixture *f)
{
    REDIS("CONFIG SET maxmemory 0");
    assert_int_equal(findings(f, 0), 0);
    seriatim_link_free(f->link);
}

/* There is no queue: pause and resume say so, since the first push would make it, not paused. */
void refuses_to_pause(const fixture *f, seriatim_action_kind kind)
{
    int status = seriatim_action_begin(f->client, f->queue, (int)kind, NULL, 0);
    assert_int_equal(status == SERIATIM_OK ? drive(f->link) : status, SERIATIM_INVALID);
    assert_non_null(strstr(seriatim_client_error(f->client)->message, "there is no queue \"Q\" yet"));
}

void fill(fixture *f)
{
    push(f, "a", "1", none);
    push(f, "b", "2", none);
    push_later(f, "c", "3", 100);
    push_later(f, "d", "4", 50);
    push_failed(f, "e", "5", 3, 200);
    push_failed(f, "f", "6", 1, 300);
    push_failed(f, "g", "7", 1, 0);
}

void fail_all(fixture *f, const char *id)
{
    char run[64];
    assert_int_equal(claim(f, "1", run), 1);
    settle_failed(f, id, run, "9", "bury");
}

void kill_one(const fixture *f, const char *id, const char *payload)
{
    push_failed(f, id, payload, 2, 0);
    act(f, SERIATIM_KILL_ALL_FAILED_JOBS);
}

const char *kinds_found(const fixture *f, size_t queue, int repair)
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

const seriatim_explanation *explain(const fixture *f, const char *id)
{
    done(f, seriatim_explain_begin(f->client, f->queue, id, strlen(id)));
    return seriatim_explain_result(f->client);
}

const char *events_of(const fixture *f, const char *id)
{
    static char text[1024];
    const seriatim_explanation *x = explain(f, id);
    size_t i, len = 0;
    text[0] = '\0';
    for (i = 0; i < x->history_count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", i ? " " : "", x->history[i].event);
    return text;
}

const char *queues(const fixture *f)
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

long long number(const char *command)
{
    redisReply *reply = redisCommand(server_redis, command);
    long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}

const char *large(char letter)
{
    static char texts[26][LARGE + 1];
    char *own = texts[letter - 'a'];
    memset(own, letter, LARGE);
    return own;
}

fixture another(int64_t shards, const char *fold)
{
    fixture f;
    seriatim_error error;
    memset(&f, 0, sizeof f);
    assert_int_equal(seriatim_link_new(NULL, server.url, &f.link, &error), SERIATIM_OK);
    f.client = seriatim_link_client(f.link);
    f.queue = add_queue(f.client, "Q", 1, shards, fold);
    return f;
}

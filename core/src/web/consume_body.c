/* consume_body.c - reads the JSON body of a request that pushes or consumes; a refusal names the field, what it must be
 * and what it was. */
#include "web/consume.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define BODY_SHOWN 60       /* bytes of a value that a refusal shows */
#define BODY_PLACE_SIZE 100 /* bytes of a place in a value that a refusal shows, with the NUL */

typedef enum body_kind {
    BODY_TEXT,
    BODY_NUMBER,
    BODY_INTEGER,
    BODY_FLAG,
    BODY_QUEUES,
    BODY_WEIGHTS,
    BODY_JOBS,
    BODY_PAYLOAD
} body_kind;

typedef struct body_field {
    const char *name;
    unsigned routes; /* bits of BODY_ROUTE() */
    int is_needed;
    body_kind kind;
    size_t place; /* in srt_consume */
    double low, high;
} body_field;

#define BODY_ROUTE(kind) (1u << ((kind) + 2))
#define BODY_TOKEN_ROUTES (~(BODY_ROUTE(SRT_CONSUME_PUSH) | BODY_ROUTE(SRT_CONSUME_POP)))
#define BODY_RAW_ROUTES                                                                                                \
    (BODY_ROUTE(SRT_CONSUME_PUSH) | BODY_ROUTE(SRT_CONSUME_POP) | BODY_ROUTE(SERIATIM_POPPED_SNOOZE))
#define BODY_PLACE(field) offsetof(srt_consume, field)
#define BODY_CENTURY 3155760000.0

/* Every field of every route, with its limits. */
static const body_field body_fields[] = {
    {"queue", BODY_ROUTE(SRT_CONSUME_PUSH), 1, BODY_TEXT, BODY_PLACE(queue), 1, 512},
    {"jobs", BODY_ROUTE(SRT_CONSUME_PUSH), 1, BODY_JOBS, 0, 1, SRT_CONSUME_JOBS},
    {"handles", BODY_ROUTE(SRT_CONSUME_PUSH), 0, BODY_FLAG, BODY_PLACE(handles), 0, 0},
    {"queues", BODY_ROUTE(SRT_CONSUME_POP), 1, BODY_QUEUES, 0, 1, SRT_CONSUME_QUEUES},
    {"weights", BODY_ROUTE(SRT_CONSUME_POP), 0, BODY_WEIGHTS, 0, 1, 1000000},
    {"wait", BODY_ROUTE(SRT_CONSUME_POP), 0, BODY_NUMBER, BODY_PLACE(wait), 0, 60},
    {"ttr", BODY_ROUTE(SRT_CONSUME_POP), 0, BODY_NUMBER, BODY_PLACE(ttr), 0, 31536000},
    {"max", BODY_ROUTE(SRT_CONSUME_POP), 0, BODY_INTEGER, BODY_PLACE(max), 1, 1000},
    {"raw", BODY_RAW_ROUTES, 0, BODY_FLAG, BODY_PLACE(raw), 0, 0},
    {"token", BODY_TOKEN_ROUTES, 1, BODY_TEXT, BODY_PLACE(token), 1, 4096},
    {"error", BODY_ROUTE(SERIATIM_POPPED_FAIL), 1, BODY_TEXT, BODY_PLACE(error), 0, SERIATIM_WEB_MAX_BODY},
    {"retry_in", BODY_ROUTE(SERIATIM_POPPED_FAIL), 0, BODY_NUMBER, BODY_PLACE(retry_in), 0, BODY_CENTURY},
    {"seconds", BODY_ROUTE(SERIATIM_POPPED_SNOOZE) | BODY_ROUTE(SERIATIM_POPPED_EXTEND), 1, BODY_NUMBER,
     BODY_PLACE(seconds), 0, BODY_CENTURY},
    {"payload", BODY_ROUTE(SERIATIM_POPPED_SNOOZE), 0, BODY_PAYLOAD, BODY_PLACE(payload), 0, 0},
    {"count", BODY_ROUTE(SERIATIM_POPPED_CHECKPOINT), 1, BODY_INTEGER, BODY_PLACE(count), 1, 1000},
};

#define BODY_FIELDS (sizeof body_fields / sizeof *body_fields)

/* A body being read. */
typedef struct consume_body {
    srt_web *w;
    srt_consume *of;
    srt_json_reader reader;
    const char *where; /* in front of a field's name in a refusal */
    size_t from;       /* where the value that was read last begins */
    int no_memory;
} consume_body;

/* ---- Values -------------------------------------------------------------------------------- */

/* 1: a token was read. 0: the body is refused, or memory is short. */
static int body_next(consume_body *b, srt_json_token *t)
{
    int status;
    b->from = b->reader.at;
    status = srt_json_next(&b->reader, t);
    b->no_memory |= status == SERIATIM_NOMEM;
    if (status == SERIATIM_INVALID)
        srt_web_refuse(b->w, 400, "the body is not JSON: %.200s", b->reader.error.message);
    return status == SERIATIM_OK;
}

/* The value that was read last, as the body has it. */
static seriatim_text body_value(const consume_body *b)
{
    seriatim_text text = {b->reader.data + b->from, b->reader.at - b->from};
    while (text.len && strchr(" \t\r\n,:", text.data[0])) {
        text.data++;
        text.len--;
    }
    return text;
}

/* Refuses the value that was read last. Returns 0. */
static int body_refuse(consume_body *b, const char *name, const char *rule)
{
    seriatim_text value = body_value(b);
    size_t shown = srt_web_cut(value, BODY_SHOWN);
    const char *what = value.len && value.data[0] == '['   ? "an array"
                       : value.len && value.data[0] == '{' ? "an object"
                                                           : NULL;
    if (!srt_utf8_valid(value.data, shown))
        shown = 0;
    if (what)
        srt_web_refuse(b->w, 400, "%s%s must be %s, not %s", b->where, name, rule, what);
    else
        srt_web_refuse(b->w, 400, "%s%s must be %s, not %.*s%s", b->where, name, rule, (int)shown, value.data,
                       shown < value.len ? "..." : "");
    return 0;
}

static int body_refuse_unknown(consume_body *b, const srt_json_token *key)
{
    const seriatim_text name = {key->text, key->len};
    srt_web_refuse(b->w, 400, "%sunknown field \"%.*s\"", b->where, (int)srt_web_cut(name, BODY_SHOWN), name.data);
    return 0;
}

static int body_keep(consume_body *b, const srt_json_token *t, seriatim_text *text)
{
    text->data = srt_arena_copy(&b->w->memory, t->text, t->len);
    text->len = t->len;
    b->no_memory |= !text->data;
    return text->data != NULL;
}

static int body_text(consume_body *b, const body_field *f, const srt_json_token *t, seriatim_text *text)
{
    char rule[64];
    snprintf(rule, sizeof rule, "a text of %.0f to %.0f bytes", f->low, f->high);
    if (t->type != SRT_JSON_STRING || (double)t->len < f->low || (double)t->len > f->high)
        return body_refuse(b, f->name, rule);
    return body_keep(b, t, text);
}

static int body_number(consume_body *b, const body_field *f, const srt_json_token *t, double *number)
{
    char rule[80];
    *number = t->type == SRT_JSON_INT ? (double)t->integer : t->number;
    if ((t->type == SRT_JSON_INT || t->type == SRT_JSON_DOUBLE) && *number >= f->low && *number <= f->high)
        return 1;
    snprintf(rule, sizeof rule, "a number from %.0f to %.0f", f->low, f->high);
    return body_refuse(b, f->name, rule);
}

static int body_integer(consume_body *b, const body_field *f, const srt_json_token *t, int64_t *integer)
{
    char rule[80];
    *integer = t->integer;
    if (t->type == SRT_JSON_INT && (double)t->integer >= f->low && (double)t->integer <= f->high)
        return 1;
    snprintf(rule, sizeof rule, "a whole number from %.0f to %.0f", f->low, f->high);
    return body_refuse(b, f->name, rule);
}

static int body_flag(consume_body *b, const char *name, const srt_json_token *t, int *flag)
{
    *flag = t->type == SRT_JSON_TRUE;
    return *flag || t->type == SRT_JSON_FALSE || body_refuse(b, name, "true or false");
}

/* Names the place inside the value that could not be copied. */
static void body_refuse_copy(consume_body *b, const srt_json_writer *writer)
{
    char place[BODY_PLACE_SIZE];
    int is_reader = b->reader.error.status != SERIATIM_OK;
    srt_json_writer_path(writer, place, sizeof place);
    srt_web_refuse(b->w, 400, "%s%s: %.150s", b->where, place,
                   is_reader ? b->reader.error.message : writer->error.message);
}

/* A JSON value as it is stored: canonical, so that equal values are equal bytes, as in the other languages. */
static int body_canonical(consume_body *b, const char *name, const srt_json_token *t, seriatim_text *text)
{
    srt_json_writer writer;
    srt_bytes bytes;
    int status;
    srt_bytes_init(&bytes, b->w->mem);
    srt_json_writer_init(&writer, &bytes, name);
    status = srt_json_copy(&b->reader, t, &writer, SRT_CONSUME_DEPTH, SRT_JSON_REFUSE);
    if (status == SERIATIM_OK)
        status = srt_json_finish(&writer);
    text->data = status == SERIATIM_OK ? srt_arena_copy(&b->w->memory, bytes.data, bytes.len) : NULL;
    text->len = bytes.len;
    b->no_memory |= status == SERIATIM_NOMEM || (status == SERIATIM_OK && !text->data);
    if (status == SERIATIM_INVALID)
        body_refuse_copy(b, &writer);
    srt_json_writer_free(&writer);
    srt_bytes_free(&bytes);
    return text->data != NULL;
}

/* A payload: JSON, or the base64 of its bytes if the body is raw. */
static int body_payload(consume_body *b, const char *name, const srt_json_token *t, seriatim_text *text)
{
    if (!b->of->raw)
        return body_canonical(b, name, t, text);
    if (t->type != SRT_JSON_STRING)
        return body_refuse(b, name, "a text of base64, because raw is true");
    switch (srt_web_request_unbase64(b->w, t, text)) {
    case SERIATIM_OK:
        return 1;
    case SERIATIM_INVALID:
        return body_refuse(b, name, "a text of base64, because raw is true");
    default:
        b->no_memory = 1;
        return 0;
    }
}

/* ---- Lists --------------------------------------------------------------------------------- */

/* Reads the next element of an array of at most `most`. 1: it is there; 0: the end, or w->status, or no memory. */
static int body_element(consume_body *b, const body_field *f, size_t count, srt_json_token *t)
{
    if (!body_next(b, t) || t->type == SRT_JSON_END_ARRAY)
        return 0;
    if (count < (size_t)(f->kind == BODY_WEIGHTS ? SRT_CONSUME_QUEUES : f->high))
        return 1;
    srt_web_refuse(b->w, 400, "%s must have at most %lu elements", f->name, (unsigned long)count);
    return 0;
}

static int body_queues(consume_body *b, const body_field *f, srt_json_token *t)
{
    static const body_field queue = {"queues[]", 0, 0, BODY_TEXT, 0, 1, 512};
    srt_consume *of = b->of;
    if (t->type != SRT_JSON_BEGIN_ARRAY)
        return body_refuse(b, f->name, "an array of names");
    while (body_element(b, f, of->queue_count, t))
        if (!body_text(b, &queue, t, &of->queues[of->queue_count++]))
            return 0;
    if (!b->w->status && !b->no_memory && of->queue_count == 0)
        srt_web_refuse(b->w, 400, "queues must have at least one element");
    return !b->w->status && !b->no_memory;
}

static int body_weights(consume_body *b, const body_field *f, srt_json_token *t)
{
    static const body_field weight = {"weights[]", 0, 0, BODY_INTEGER, 0, 1, 1000000};
    srt_consume *of = b->of;
    if (t->type != SRT_JSON_BEGIN_ARRAY)
        return body_refuse(b, f->name, "an array of whole numbers");
    while (body_element(b, f, of->weight_count, t))
        if (!body_integer(b, &weight, t, &of->weights[of->weight_count++]))
            return 0;
    return !b->w->status && !b->no_memory;
}

/* ---- Jobs ---------------------------------------------------------------------------------- */

enum {
#define X(number, name) CONSUME_JOB_##number,
    SERIATIM_JOB_FIELDS(X)
#undef X
        CONSUME_JOB_FIELDS
};

static int body_job_field(const srt_json_token *key)
{
#define X(number, name) #name,
    static const char *const names[] = {SERIATIM_JOB_FIELDS(X)};
#undef X
    const seriatim_text name = {key->text, key->len};
    int i;
    for (i = 0; i < CONSUME_JOB_FIELDS && !srt_web_word_is(name, names[i]); i++)
        ;
    return i;
}

/* Numbers that the core checks; here only that they are numbers. */
static int body_job_number(consume_body *b, const char *name, const srt_json_token *t, double *number)
{
    *number = t->type == SRT_JSON_INT ? (double)t->integer : t->number;
    return t->type == SRT_JSON_INT || t->type == SRT_JSON_DOUBLE || body_refuse(b, name, "a number");
}

/* A time, which may be given in one field only; `others` names them. */
static int body_job_time(consume_body *b, const char *name, const char *others, int meant, const srt_json_token *t,
                         int *when, double *time)
{
    if (*when != SERIATIM_NOW) {
        srt_web_refuse(b->w, 400, "%s%s: only one of %s may be given", b->where, name, others);
        return 0;
    }
    *when = meant;
    return body_job_number(b, name, t, time);
}

static int body_job_id(consume_body *b, const srt_json_token *t, seriatim_job *job)
{
    seriatim_text id = {NULL, 0};
    int status = srt_web_request_read_id(b->w, &b->reader, t, &id);
    job->id = id.data;
    job->id_len = id.len;
    b->no_memory |= status == SERIATIM_NOMEM;
    if (status != SERIATIM_INVALID)
        return status == SERIATIM_OK;
    if (t->type != SRT_JSON_BEGIN_OBJECT)
        return body_refuse(b, "id", "a text or a whole number");
    srt_web_refuse(b->w, 400, "%sid must be {\"base64\": \"...\"}, with a text of base64, if it is an object",
                   b->where);
    return 0;
}

/* Of a JSON object: is each member a text? */
static int body_holds_texts(const consume_body *b, seriatim_text object)
{
    srt_json_reader r;
    srt_json_token t;
    int status, is_key = 0;
    srt_json_reader_init(&r, b->w->mem, object.data, object.len);
    status = srt_json_next(&r, &t); /* its beginning */
    while (status == SERIATIM_OK && (status = srt_json_next(&r, &t)) == SERIATIM_OK &&
           t.type == (is_key ? SRT_JSON_STRING : SRT_JSON_KEY))
        is_key = !is_key;
    srt_json_reader_free(&r);
    return status == SERIATIM_OK && !is_key && t.type == SRT_JSON_END_OBJECT;
}

static int body_job_context(consume_body *b, const srt_json_token *t, seriatim_job *job)
{
    seriatim_text text = {NULL, 0};
    if (t->type != SRT_JSON_BEGIN_OBJECT)
        return body_refuse(b, "context", "an object of texts");
    if (!body_canonical(b, "context", t, &text))
        return 0;
    if (!body_holds_texts(b, text)) {
        srt_web_refuse(b->w, 400, "%scontext must be an object of texts", b->where);
        return 0;
    }
    job->context = text.data;
    job->context_len = text.len;
    return 1;
}

static int body_job_text(consume_body *b, int field, const srt_json_token *t, seriatim_job *job)
{
    static const body_field on_waiting = {"on_waiting", 0, 0, BODY_TEXT, 0, 1, 40};
    seriatim_text text = {NULL, 0};
    int read =
        field == CONSUME_JOB_PAYLOAD ? body_payload(b, "payload", t, &text) : body_text(b, &on_waiting, t, &text);
    if (field == CONSUME_JOB_ON_WAITING) {
        job->on_waiting = text.data;
    } else {
        job->payload = text.data;
        job->payload_len = text.len;
    }
    return read;
}

static int body_job_retry_count(consume_body *b, const srt_json_token *t, seriatim_job *job)
{
    static const body_field retry_count = {"retry_count", 0, 0, BODY_INTEGER, 0, -1, 1000000};
    return body_integer(b, &retry_count, t, &job->retry_count);
}

static int body_job_member(consume_body *b, int field, const srt_json_token *t, seriatim_job *job)
{
    static const char due[] = "perform_in, perform_at and delay", delivery[] = "deliver_at and deliver_in";
    if (t->type == SRT_JSON_NULL && field != CONSUME_JOB_PAYLOAD && field != CONSUME_JOB_ID)
        return 1;
    switch (field) {
    case CONSUME_JOB_ID:
        return body_job_id(b, t, job);
    case CONSUME_JOB_SCORE:
        job->has_score = 1;
        return body_job_number(b, "score", t, &job->score);
    case CONSUME_JOB_PERFORM_IN:
    case CONSUME_JOB_PERFORM_AT:
        return body_job_time(b, field == CONSUME_JOB_PERFORM_IN ? "perform_in" : "perform_at", due, SERIATIM_AT, t,
                             &job->when, &job->time);
    case CONSUME_JOB_DELAY:
        return body_job_time(b, "delay", due, SERIATIM_DELAY, t, &job->when, &job->time);
    case CONSUME_JOB_CONTEXT:
        return body_job_context(b, t, job);
    case CONSUME_JOB_RETRY_COUNT:
        return body_job_retry_count(b, t, job);
    case CONSUME_JOB_DELIVER_AT:
    case CONSUME_JOB_DELIVER_IN:
        return body_job_time(b, field == CONSUME_JOB_DELIVER_AT ? "deliver_at" : "deliver_in", delivery,
                             field == CONSUME_JOB_DELIVER_AT ? SERIATIM_AT : SERIATIM_DELAY, t, &job->deliver_when,
                             &job->deliver_time);
    default:
        return body_job_text(b, field, t, job);
    }
}

static int body_job_read(consume_body *b, srt_json_token *t, seriatim_job *job)
{
    int field;
    seriatim_job_init(job);
    if (t->type != SRT_JSON_BEGIN_OBJECT)
        return body_refuse(b, "it", "an object");
    while (body_next(b, t) && t->type == SRT_JSON_KEY) {
        field = body_job_field(t);
        if (field == CONSUME_JOB_FIELDS)
            return body_refuse_unknown(b, t);
        if (!body_next(b, t) || !body_job_member(b, field, t, job))
            return 0;
    }
    if (!b->w->status && !b->no_memory && !job->payload)
        srt_web_refuse(b->w, 400, "%spayload is missing", b->where);
    return !b->w->status && !b->no_memory;
}

static int body_jobs(consume_body *b, const body_field *f, srt_json_token *t)
{
    srt_consume *of = b->of;
    char where[32];
    if (t->type != SRT_JSON_BEGIN_ARRAY)
        return body_refuse(b, f->name, "an array of objects");
    of->jobs = srt_arena_alloc(&b->w->memory, SRT_CONSUME_JOBS * sizeof *of->jobs);
    b->no_memory |= !of->jobs;
    if (!of->jobs)
        return 0;
    b->where = where;
    while (body_element(b, f, of->job_count, t)) {
        snprintf(where, sizeof where, "jobs[%lu]: ", (unsigned long)of->job_count);
        if (!body_job_read(b, t, &of->jobs[of->job_count++]))
            return 0;
    }
    b->where = "";
    if (!b->w->status && !b->no_memory && of->job_count == 0)
        srt_web_refuse(b->w, 400, "jobs must have at least one element");
    return !b->w->status && !b->no_memory;
}

/* ---- The body ------------------------------------------------------------------------------ */

static int body_member(consume_body *b, const body_field *f, srt_json_token *t)
{
    char *place = (char *)b->of + f->place;
    switch (f->kind) {
    case BODY_TEXT:
        return body_text(b, f, t, (seriatim_text *)(void *)place);
    case BODY_NUMBER:
        return body_number(b, f, t, (double *)(void *)place);
    case BODY_INTEGER:
        return body_integer(b, f, t, (int64_t *)(void *)place);
    case BODY_FLAG:
        return body_flag(b, f->name, t, (int *)(void *)place);
    case BODY_QUEUES:
        return body_queues(b, f, t);
    case BODY_WEIGHTS:
        return body_weights(b, f, t);
    case BODY_JOBS:
        return body_jobs(b, f, t);
    default:
        return body_payload(b, f->name, t, (seriatim_text *)(void *)place);
    }
}

static const body_field *body_find(const consume_body *b, const srt_json_token *key)
{
    const seriatim_text name = {key->text, key->len};
    size_t i;
    for (i = 0; i < BODY_FIELDS; i++)
        if ((body_fields[i].routes & BODY_ROUTE(b->w->handler->number)) && srt_web_word_is(name, body_fields[i].name))
            return &body_fields[i];
    return NULL;
}

/*
 * `raw` counts wherever it stands in the body, so it is read in a pass of its own. Short memory must end the request:
 * otherwise a body whose `raw` was not reached would store base64 as JSON.
 */
static void body_read_raw(consume_body *b, seriatim_text text)
{
    srt_json_token t;
    size_t depth = 0;
    int status, is_raw = 0;
    while ((status = srt_json_next(&b->reader, &t)) == SERIATIM_OK && t.type != SRT_JSON_END) {
        if (is_raw && depth == 1)
            b->of->raw = t.type == SRT_JSON_TRUE;
        is_raw = t.type == SRT_JSON_KEY && t.len == 3 && memcmp(t.text, "raw", 3) == 0;
        depth += t.type == SRT_JSON_BEGIN_ARRAY || t.type == SRT_JSON_BEGIN_OBJECT;
        depth -= t.type == SRT_JSON_END_ARRAY || t.type == SRT_JSON_END_OBJECT;
    }
    b->no_memory |= status == SERIATIM_NOMEM;
    srt_json_reader_reset(&b->reader, text.data, text.len);
}

static void body_read(consume_body *b, unsigned *seen)
{
    const body_field *f;
    srt_json_token t;
    if (!body_next(b, &t))
        return;
    if (t.type != SRT_JSON_BEGIN_OBJECT) {
        body_refuse(b, "the body", "a JSON object");
        return;
    }
    while (body_next(b, &t) && t.type == SRT_JSON_KEY) {
        f = body_find(b, &t);
        if (!f) {
            body_refuse_unknown(b, &t);
            return;
        }
        if (*seen & 1u << (f - body_fields)) {
            srt_web_refuse(b->w, 400, "%s is given twice in the body", f->name);
            return;
        }
        *seen |= 1u << (f - body_fields);
        if (!body_next(b, &t) || !body_member(b, f, &t))
            return;
    }
    if (!b->w->status && !b->no_memory)
        body_next(b, &t); /* behind the object there must be nothing */
}

static void body_check(consume_body *b, unsigned seen)
{
    const srt_consume *of = b->of;
    size_t i;
    for (i = 0; i < BODY_FIELDS && !b->w->status; i++)
        if (body_fields[i].is_needed && (body_fields[i].routes & BODY_ROUTE(b->w->handler->number)) &&
            !(seen & 1u << i))
            srt_web_refuse(b->w, 400, "%s is missing", body_fields[i].name);
    if (!b->w->status && of->weight_count && of->weight_count != of->queue_count)
        srt_web_refuse(b->w, 400, "weights must have as many elements as queues: %lu, not %lu",
                       (unsigned long)of->queue_count, (unsigned long)of->weight_count);
    if (!b->w->status && of->ttr > 0 && of->ttr < 0.001)
        srt_web_refuse(b->w, 400, "ttr must be 0, or 0.001 to 31536000 seconds");
}

int srt_consume_read(srt_web *w, const seriatim_web_request *request)
{
    srt_consume *of = srt_arena_alloc(&w->memory, sizeof *of);
    unsigned seen = 0;
    consume_body b;
    memset(&b, 0, sizeof b);
    if (!of)
        return SERIATIM_NOMEM;
    memset(of, 0, sizeof *of);
    of->wait = 2;
    of->ttr = 30;
    of->max = 1000;
    of->retry_in = -1;
    w->page = of;
    b.w = w;
    b.of = of;
    b.where = "";
    srt_json_reader_init(&b.reader, w->mem, request->body.data ? request->body.data : "", request->body.len);
    body_read_raw(&b, request->body);
    if (!b.no_memory)
        body_read(&b, &seen);
    if (!w->status && !b.no_memory)
        body_check(&b, seen);
    srt_json_reader_free(&b.reader);
    return b.no_memory && !w->status ? SERIATIM_NOMEM : SERIATIM_OK;
}

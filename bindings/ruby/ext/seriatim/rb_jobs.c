/*
 * rb_jobs.c - the job Hashes of perform_async, read straight into a push. Seriatim::Jobs has the rules of rare values.
 */
#include "rb_link.h"

#include <stdio.h>

enum {
#define X(number, name) FIELD_##number,
    SERIATIM_JOB_FIELDS(X)
#undef X
        FIELDS
};

#define X(number, name) #name,
static const char *const field_names[FIELDS] = {SERIATIM_JOB_FIELDS(X)};
#undef X
#define X(number, name) ", " #name
static const char field_list[] = SERIATIM_JOB_FIELDS(X); /* ", id, payload, ..." */
#undef X
static VALUE field_symbols[FIELDS]; /* interned, so never collected */

/* ---- The fields of one Hash ------------------------------------------------------------------ */

typedef struct job_fields {
    long at;              /* the job's place in the call */
    VALUE values[FIELDS]; /* Qundef: not given */
} job_fields;

NORETURN(static void fields_refuse(long at, VALUE rule));
static void fields_refuse(long at, VALUE rule)
{
    srb_invalid(rb_enc_sprintf(rb_utf8_encoding(), "jobs[%ld]: %" PRIsVALUE, at, rule));
}

static int field_of(VALUE key)
{
    int i;
    for (i = 0; i < FIELDS; i++)
        if (key == field_symbols[i])
            return i;
    for (i = 0; RB_TYPE_P(key, T_STRING) && i < FIELDS; i++)
        if (rb_str_equal(key, rb_sym2str(field_symbols[i])) == Qtrue)
            return i;
    return FIELDS;
}

/* What Seriatim::Jobs makes of the value, or it raises. */
static VALUE field_by_rule(const job_fields *job, int field)
{
    VALUE rules = rb_const_get(rb_path2class("Seriatim"), rb_intern("Jobs"));
    return rb_funcall(rules, rb_intern(field_names[field]), 2, job->values[field], LONG2NUM(job->at));
}

static int fields_take(VALUE key, VALUE value, VALUE arg)
{
    job_fields *job = (job_fields *)arg;
    int field = field_of(key);
    if (field == FIELDS)
        fields_refuse(job->at, rb_sprintf("unknown key %+" PRIsVALUE "; known are %s", key, field_list + 2));
    if (job->values[field] != Qundef)
        fields_refuse(job->at, rb_sprintf("%s is given twice", field_names[field]));
    job->values[field] = value;
    return ST_CONTINUE;
}

static void fields_read(job_fields *job, VALUE hash, long at)
{
    int i;
    job->at = at;
    for (i = 0; i < FIELDS; i++)
        job->values[i] = Qundef;
    if (!RB_TYPE_P(hash, T_HASH))
        fields_refuse(at, rb_sprintf("must be a Hash, not a %" PRIsVALUE, rb_class_name(rb_obj_class(hash))));
    rb_hash_foreach(hash, fields_take, (VALUE)job);
}

static int field_given(const job_fields *job, int field)
{
    return job->values[field] != Qundef && !NIL_P(job->values[field]);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static double field_number(const job_fields *job, int field)
{
    VALUE value = job->values[field];
    if (RB_FLOAT_TYPE_P(value))
        return RFLOAT_VALUE(value);
    return FIXNUM_P(value) ? (double)FIX2LONG(value) : NUM2DBL(field_by_rule(job, field));
}

/* A time that may be said by each of these fields, of which the last is seconds from now. */
static void fields_time(const job_fields *job, int first, int last, int *when, double *time)
{
    int field, found = FIELDS;
    for (field = first; field <= last; field++) {
        if (!field_given(job, field))
            continue;
        if (found != FIELDS)
            fields_refuse(job->at, rb_sprintf("%s and %s exclude each other", field_names[found], field_names[field]));
        found = field;
    }
    if (found == FIELDS)
        return;
    *when = found == last ? SERIATIM_DELAY : SERIATIM_AT;
    *time = field_number(job, found);
}

static int64_t fields_retry_count(const job_fields *job)
{
    VALUE count = job->values[FIELD_RETRY_COUNT];
    if (!field_given(job, FIELD_RETRY_COUNT))
        return -1;
    return FIXNUM_P(count) && FIX2LONG(count) >= -1 ? FIX2LONG(count) : NUM2LL(field_by_rule(job, FIELD_RETRY_COUNT));
}

/* A String or an Integer. */
static VALUE fields_id(const job_fields *job)
{
    VALUE id = job->values[FIELD_ID];
    if (id == Qundef)
        fields_refuse(job->at, rb_str_new_cstr("id is missing"));
    return FIXNUM_P(id) || RB_TYPE_P(id, T_STRING) ? id : field_by_rule(job, FIELD_ID);
}

/* ---- All jobs of a call ---------------------------------------------------------------------- */

typedef struct jobs_push {
    srb_link *box; /* NULL: they are only checked */
    VALUE jobs;
    VALUE payloads; /* nil: JSON is written; else the bytes of each payload */
    VALUE numbers;  /* nil, or the number of each job in its outbox */
    srb_json_writer json;
} jobs_push;

/* What must live as long as out->payload is used. */
static VALUE jobs_payload(jobs_push *p, const job_fields *job, seriatim_job *out)
{
    char root[64];
    VALUE bytes;
    if (!NIL_P(p->payloads)) {
        bytes = rb_ary_entry(p->payloads, job->at);
        Check_Type(bytes, T_STRING);
        out->payload = RSTRING_PTR(bytes);
        out->payload_len = (size_t)RSTRING_LEN(bytes);
        return bytes;
    }
    if (!srb_json_write(&p->json,
                        job->values[FIELD_PAYLOAD] == Qundef ? rb_str_new(NULL, 0) : job->values[FIELD_PAYLOAD])) {
        snprintf(root, sizeof root, "jobs[%ld].payload", job->at);
        srb_json_refuse(&p->json, root);
    }
    out->payload = p->json.out.data;
    out->payload_len = p->json.out.len;
    return Qnil;
}

/* Pointers are taken when no more code of Ruby runs. */
static void jobs_add(jobs_push *p, const job_fields *job)
{
    VALUE id = fields_id(job), on_waiting = Qnil, context = Qnil, payload;
    seriatim_job out;
    char digits[32];
    seriatim_job_init(&out);
    out.has_score = field_given(job, FIELD_SCORE);
    out.score = out.has_score ? field_number(job, FIELD_SCORE) : 0.0;
    fields_time(job, FIELD_PERFORM_IN, FIELD_DELAY, &out.when, &out.time);
    fields_time(job, FIELD_DELIVER_AT, FIELD_DELIVER_IN, &out.deliver_when, &out.deliver_time);
    out.retry_count = fields_retry_count(job);
    if (field_given(job, FIELD_ON_WAITING))
        on_waiting = field_by_rule(job, FIELD_ON_WAITING);
    if (field_given(job, FIELD_CONTEXT))
        context = field_by_rule(job, FIELD_CONTEXT);
    if (!NIL_P(p->numbers))
        out.number = NUM2LL(rb_ary_entry(p->numbers, job->at));
    payload = jobs_payload(p, job, &out);
    out.id = FIXNUM_P(id) ? digits : RSTRING_PTR(id);
    out.id_len = FIXNUM_P(id) ? (size_t)snprintf(digits, sizeof digits, "%ld", FIX2LONG(id)) : (size_t)RSTRING_LEN(id);
    out.on_waiting = RTEST(on_waiting) ? StringValueCStr(on_waiting) : NULL;
    out.context = RTEST(context) ? RSTRING_PTR(context) : NULL;
    out.context_len = RTEST(context) ? (size_t)RSTRING_LEN(context) : 0;
    if (p->box)
        srb_link_check(p->box, seriatim_push_job(seriatim_link_client(p->box->link), &out));
    RB_GC_GUARD(id);
    RB_GC_GUARD(context);
    RB_GC_GUARD(payload);
}

static VALUE jobs_add_all(VALUE arg)
{
    jobs_push *p = (jobs_push *)arg;
    job_fields job;
    long at;
    for (at = 0; at < RARRAY_LEN(p->jobs); at++) {
        fields_read(&job, RARRAY_AREF(p->jobs, at), at);
        jobs_add(p, &job);
    }
    return Qnil;
}

static VALUE jobs_close(VALUE arg)
{
    srb_json_close_writer(&((jobs_push *)arg)->json);
    return Qnil;
}

static void jobs_check_list(VALUE jobs)
{
    if (!RB_TYPE_P(jobs, T_ARRAY))
        srb_invalid(
            rb_sprintf("jobs must be an Array of Hashes, not a %" PRIsVALUE, rb_class_name(rb_obj_class(jobs))));
}

void srb_jobs_push(srb_link *box, VALUE jobs, VALUE payloads, VALUE numbers)
{
    jobs_push p;
    p.box = box;
    p.jobs = jobs;
    p.payloads = payloads;
    p.numbers = numbers;
    jobs_check_list(jobs);
    srb_json_open_writer(&p.json);
    rb_ensure(jobs_add_all, (VALUE)&p, jobs_close, (VALUE)&p);
    RB_GC_GUARD(jobs);
    RB_GC_GUARD(payloads);
    RB_GC_GUARD(numbers);
}

/* Native.check_jobs(jobs, payloads or nil): raises what a push would, but for what the core knows. */
static VALUE native_check_jobs(VALUE self, VALUE jobs, VALUE payloads)
{
    (void)self;
    srb_jobs_push(NULL, jobs, payloads, Qnil);
    return Qnil;
}

/* Native.read_jobs(jobs) -> Hashes of their own, with Symbol keys */
static VALUE native_read_jobs(VALUE self, VALUE jobs)
{
    VALUE list = rb_ary_new(), hash;
    job_fields job;
    long at;
    int i;
    (void)self;
    jobs_check_list(jobs);
    for (at = 0; at < RARRAY_LEN(jobs); at++) {
        fields_read(&job, RARRAY_AREF(jobs, at), at);
        rb_ary_push(list, hash = rb_hash_new());
        for (i = 0; i < FIELDS; i++)
            if (job.values[i] != Qundef)
                rb_hash_aset(hash, field_symbols[i], job.values[i]);
    }
    return list;
}

void srb_init_jobs(void)
{
    int i;
    for (i = 0; i < FIELDS; i++)
        field_symbols[i] = ID2SYM(rb_intern(field_names[i]));
    rb_define_singleton_method(srb_native, "check_jobs", native_check_jobs, 2);
    rb_define_singleton_method(srb_native, "read_jobs", native_read_jobs, 1);
}

/* rb_fake.c - Seriatim::Native::Fake: queues in memory, for tests of applications. */
#include "rb_link.h"

typedef struct fake_box {
    srb_link link; /* never connected: it checks and packs what is pushed */
    srt_fake *fake;
} fake_box;

static void fake_free(void *data)
{
    fake_box *box = data;
    srt_fake_free(box->fake);
    if (box->link.link)
        seriatim_link_free(box->link.link);
    xfree(box);
}

static size_t fake_size(const void *data)
{
    (void)data;
    return sizeof(fake_box);
}

static const rb_data_type_t fake_type = {"Seriatim::Native::Fake",
                                         {NULL, fake_free, fake_size, NULL, {0}},
                                         NULL,
                                         NULL,
                                         RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED};

static VALUE fake_allocate(VALUE klass)
{
    fake_box *box;
    return TypedData_Make_Struct(klass, fake_box, &fake_type, box);
}

static fake_box *fake_of(VALUE self)
{
    fake_box *box = rb_check_typeddata(self, &fake_type);
    if (!box->fake)
        rb_raise(rb_eTypeError, "not initialized");
    return box;
}

/* Fake.new */
static VALUE fake_initialize(VALUE self)
{
    fake_box *box = rb_check_typeddata(self, &fake_type);
    seriatim_error error = {0};
    if (box->fake)
        rb_raise(rb_eTypeError, "already initialized");
    if (!box->link.link && seriatim_link_new(NULL, "redis://localhost", &box->link.link, &error) != SERIATIM_OK)
        srb_raise_error(&error);
    box->fake = srt_fake_new(seriatim_link_client(box->link.link));
    if (!box->fake)
        rb_memerror();
    return self;
}

/* fake.queue(settings) -> its number */
static VALUE fake_queue(VALUE self, VALUE hash)
{
    fake_box *box = fake_of(self);
    seriatim_queue_settings settings;
    size_t queue;
    srb_queue_settings(hash, &settings);
    srb_link_check(&box->link, seriatim_client_queue(seriatim_link_client(box->link.link), &settings, &queue));
    RB_GC_GUARD(hash);
    return SIZET2NUM(queue);
}

/* fake.push(queue, jobs, payloads or nil, handles, now) -> [added, folded, [places of refused jobs], scheduled, stale,
 * [handles or nil]]; now: Unix time in microseconds, as below */
static VALUE fake_push(VALUE self, VALUE queue, VALUE jobs, VALUE payloads, VALUE handles, VALUE now)
{
    fake_box *box = fake_of(self);
    seriatim_client *client = seriatim_link_client(box->link.link);
    seriatim_push_counts counts;
    int64_t time = NUM2LL(now);
    srb_link_check(&box->link, seriatim_push_begin(client, NUM2SIZET(queue)));
    if (RTEST(handles))
        srb_link_check(&box->link, seriatim_push_want_handles(client));
    srb_jobs_push(&box->link, jobs, payloads, Qnil);
    srb_link_check(&box->link, srt_fake_push(box->fake, time));
    counts = seriatim_push_result(client);
    return rb_ary_new_from_args(6, SIZET2NUM(counts.added), SIZET2NUM(counts.folded), srb_link_places(client),
                                SIZET2NUM(counts.scheduled), SIZET2NUM(counts.stale), srb_link_handles(client));
}

/* fake.check_jobs(queue, jobs, payloads or nil): raises what a push of them would, and keeps nothing */
static VALUE fake_check_jobs(VALUE self, VALUE queue, VALUE jobs, VALUE payloads)
{
    fake_box *box = fake_of(self);
    srb_link_check(&box->link, seriatim_push_begin(seriatim_link_client(box->link.link), NUM2SIZET(queue)));
    srb_jobs_push(&box->link, jobs, payloads, Qnil);
    return Qnil;
}

static seriatim_text fake_text(VALUE value)
{
    seriatim_text text = {NULL, 0};
    if (NIL_P(value))
        return text;
    Check_Type(value, T_STRING);
    text.data = RSTRING_PTR(value);
    text.len = (size_t)RSTRING_LEN(value);
    return text;
}

/* fake.cancel(queue, handle) -> was it cancelled? */
static VALUE fake_cancel(VALUE self, VALUE queue, VALUE handle)
{
    fake_box *box = fake_of(self);
    int changed;
    srb_link_check(&box->link, srt_fake_cancel(box->fake, NUM2SIZET(queue), fake_text(handle), &changed));
    RB_GC_GUARD(handle);
    return changed ? Qtrue : Qfalse;
}

/* fake.reschedule(queue, handle, decimal Unix seconds, now) -> was it? */
static VALUE fake_reschedule(VALUE self, VALUE queue, VALUE handle, VALUE at, VALUE now)
{
    fake_box *box = fake_of(self);
    int64_t time = NUM2LL(now);
    int changed;
    srb_link_check(&box->link,
                   srt_fake_reschedule(box->fake, NUM2SIZET(queue), fake_text(handle), fake_text(at), time, &changed));
    RB_GC_GUARD(handle);
    RB_GC_GUARD(at);
    return changed ? Qtrue : Qfalse;
}

/* fake.next(queue, now) -> Unix time in microseconds, or nil: nothing will be due */
static VALUE fake_next(VALUE self, VALUE queue, VALUE now)
{
    int64_t at;
    return srt_fake_next(fake_of(self)->fake, NUM2SIZET(queue), NUM2LL(now), &at) ? LL2NUM(at) : Qnil;
}

static VALUE fake_rows(const srt_fake *fake, size_t count)
{
    VALUE rows = rb_ary_new_capa((long)count);
    size_t i;
    for (i = 0; i < count; i++)
        rb_ary_push(rows, srb_claimed(srt_fake_taken(fake, i)));
    return rows;
}

/* fake.take(queue, limit, now) -> [shard, [as srb_claimed, ...]] */
static VALUE fake_take(VALUE self, VALUE queue, VALUE limit, VALUE now)
{
    fake_box *box = fake_of(self);
    int64_t time = NUM2LL(now);
    unsigned shard;
    size_t count;
    srb_link_check(&box->link, srt_fake_take(box->fake, NUM2SIZET(queue), NUM2SIZET(limit), time, &shard, &count));
    return rb_ary_new_from_args(2, UINT2NUM(shard), fake_rows(box->fake, count));
}

/* fake.take_exhausted(queue) -> [as srb_claimed], or [] */
static VALUE fake_take_exhausted(VALUE self, VALUE queue)
{
    fake_box *box = fake_of(self);
    size_t count;
    srb_link_check(&box->link, srt_fake_take_exhausted(box->fake, NUM2SIZET(queue), &count));
    return fake_rows(box->fake, count);
}

/* fake.handles(i, queue's name) -> [the handle of each payload, ...] of the i-th id of the last take, which has it */
static VALUE fake_handles(VALUE self, VALUE i, VALUE queue)
{
    return srb_claimed_handles(srt_fake_taken(fake_of(self)->fake, NUM2SIZET(i)), queue);
}

static int fake_kind(VALUE name)
{
    static const char *const kinds[] = {"done", "fail", "release", "snooze", "reject", "checkpoint"};
    int kind;
    for (kind = 0; kind <= SRT_FAKE_CHECKPOINT; kind++)
        if (name == ID2SYM(rb_intern(kinds[kind])))
            return kind;
    rb_raise(rb_eArgError, "no such outcome");
}

/*
 * fake.settle(queue, id, fence, kind, seconds, text or nil, places or count or nil, now): kind is :done, :fail,
 * :release, :snooze, :reject (places of payloads) or :checkpoint (count of payloads)
 */
static VALUE fake_settle(int argc, VALUE *argv, VALUE self)
{
    fake_box *box = fake_of(self);
    srt_fake_outcome outcome = {0};
    size_t queue, *places;
    VALUE buffer = 0;
    int64_t now;
    long i, count = 0;
    int status;
    rb_check_arity(argc, 8, 8);
    queue = NUM2SIZET(argv[0]);
    outcome.id = fake_text(argv[1]);
    outcome.fence = NUM2LL(argv[2]);
    outcome.kind = fake_kind(argv[3]);
    outcome.seconds = NUM2DBL(argv[4]);
    outcome.text = fake_text(argv[5]);
    if (RB_TYPE_P(argv[6], T_ARRAY))
        count = RARRAY_LEN(argv[6]);
    else if (!NIL_P(argv[6]))
        outcome.count = NUM2SIZET(argv[6]);
    now = NUM2LL(argv[7]);
    places = ALLOCV_N(size_t, buffer, count > 0 ? count : 1);
    for (i = 0; i < count; i++)
        places[outcome.count++] = NUM2SIZET(rb_ary_entry(argv[6], i));
    outcome.places = places;
    status = srt_fake_settle(box->fake, queue, &outcome, now);
    ALLOCV_END(buffer);
    srb_link_check(&box->link, status);
    return Qnil;
}

static VALUE fake_row(const srt_fake_row *row)
{
    static const char *const states[] = {"waiting", "running", "scheduled", "parked", "dead"};
    const seriatim_payload *p = &row->payload;
    return rb_ary_new_from_args(
        8, ID2SYM(rb_intern(states[row->state])), srb_text(row->id.data, row->id.len), srb_bytes(p->data, p->len),
        p->has_score ? DBL2NUM(p->score) : Qnil, p->context_len ? srb_text(p->context, p->context_len) : Qnil,
        LL2NUM(row->time), LL2NUM(row->retry_count), row->error.len ? srb_text(row->error.data, row->error.len) : Qnil);
}

/* fake.list(queue) -> [[state, id, bytes, score or nil, context or nil, time, retry_count, error or nil], ...] */
static VALUE fake_list(VALUE self, VALUE queue)
{
    fake_box *box = fake_of(self);
    const srt_fake_row *rows;
    size_t i, count;
    VALUE list = rb_ary_new();
    srb_link_check(&box->link, srt_fake_list(box->fake, NUM2SIZET(queue), &rows, &count));
    for (i = 0; i < count; i++)
        rb_ary_push(list, fake_row(&rows[i]));
    return list;
}

static VALUE fake_clear(VALUE self, VALUE queue)
{
    srt_fake_clear(fake_of(self)->fake, NUM2SIZET(queue));
    return Qnil;
}

void srb_init_fake(void)
{
    VALUE klass = rb_define_class_under(srb_native, "Fake", rb_cObject);
    rb_define_alloc_func(klass, fake_allocate);
    rb_define_method(klass, "initialize", fake_initialize, 0);
    rb_define_method(klass, "queue", fake_queue, 1);
    rb_define_method(klass, "push", fake_push, 5);
    rb_define_method(klass, "check_jobs", fake_check_jobs, 3);
    rb_define_method(klass, "cancel", fake_cancel, 2);
    rb_define_method(klass, "reschedule", fake_reschedule, 4);
    rb_define_method(klass, "next", fake_next, 2);
    rb_define_method(klass, "take", fake_take, 3);
    rb_define_method(klass, "handles", fake_handles, 2);
    rb_define_method(klass, "take_exhausted", fake_take_exhausted, 1);
    rb_define_method(klass, "settle", fake_settle, -1);
    rb_define_method(klass, "list", fake_list, 1);
    rb_define_method(klass, "clear", fake_clear, 1);
}

/* rb_link.c - Seriatim::Native::Link: one connection that pushes and asks, waited for by the interpreter. */
#include "rb_link.h"

/* In a child of fork(2), a link that a thread of the parent was changing may be half changed: it is left alone. */
static void link_free(void *data)
{
    srb_link *box = data;
    if (box->link && !box->stepping)
        seriatim_link_free(box->link);
    xfree(box);
}

static size_t link_size(const void *data)
{
    (void)data;
    return sizeof(srb_link);
}

static const rb_data_type_t link_type = {"Seriatim::Native::Link",
                                         {NULL, link_free, link_size, NULL, {0}},
                                         NULL,
                                         NULL,
                                         RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED};

static VALUE link_allocate(VALUE klass)
{
    srb_link *box;
    return TypedData_Make_Struct(klass, srb_link, &link_type, box);
}

srb_link *srb_link_idle(VALUE self)
{
    srb_link *box = rb_check_typeddata(self, &link_type);
    if (!box->link)
        srb_raise(SERIATIM_CLOSED, "the link is closed");
    if (box->busy)
        rb_raise(rb_eThreadError, "the link is in use by another thread or fiber");
    return box;
}

static seriatim_turns *link_turns; /* of the process; written once, when the extension is loaded */

/* Link.new(url, namespace, name, max_payload, url_from) */
static VALUE link_initialize(VALUE self, VALUE url, VALUE ns, VALUE name, VALUE max_payload, VALUE url_from)
{
    srb_link *box = rb_check_typeddata(self, &link_type);
    seriatim_options options = {0};
    seriatim_error error = {0};
    if (box->link)
        rb_raise(rb_eTypeError, "already initialized");
    options.ns = StringValueCStr(ns);
    options.name = NIL_P(name) ? NULL : StringValueCStr(name);
    options.max_payload = NUM2SIZET(max_payload);
    options.url_from = NIL_P(url_from) ? NULL : StringValueCStr(url_from);
    if (seriatim_link_new(&options, StringValueCStr(url), &box->link, &error) != SERIATIM_OK)
        srb_raise_error(&error);
    seriatim_client_share_turns(seriatim_link_client(box->link), link_turns);
    RB_GC_GUARD(ns);
    RB_GC_GUARD(name);
    RB_GC_GUARD(url_from);
    RB_GC_GUARD(url);
    return self;
}

/* ---- Driving what was begun ------------------------------------------------------------------ */

typedef struct link_drive {
    srb_link *box;
    int64_t deadline_ms; /* monotonic; 0: as long as the core allows */
    int status;
    int done;
} link_drive;

static void *link_step_unlocked(void *arg)
{
    link_drive *drive = arg;
    drive->status = seriatim_link_step(drive->box->link);
    return NULL;
}

/* The resolver blocks: a step that may ask it goes without the interpreter's lock. */
static void link_step(link_drive *drive)
{
    if (srt_link_may_resolve(drive->box->link)) {
        drive->box->stepping = 1;
        rb_thread_call_without_gvl(link_step_unlocked, drive, RUBY_UBF_IO, NULL); /* may raise */
        drive->box->stepping = 0;
    } else {
        link_step_unlocked(drive);
    }
}

static int link_patience_ms(const link_drive *drive)
{
    int patience = seriatim_link_timeout_ms(drive->box->link);
    if (drive->deadline_ms) {
        int64_t left = drive->deadline_ms - srt_clock_ms();
        if (left < 0)
            left = 0;
        if (patience < 0 || left < patience)
            patience = (int)left;
    }
    return patience;
}

static VALUE link_drive_body(VALUE arg)
{
    link_drive *drive = (link_drive *)arg;
    seriatim_link *link = drive->box->link;
    for (;;) {
        link_step(drive);
        if (drive->status != SERIATIM_AGAIN)
            break;
        if (drive->deadline_ms && srt_clock_ms() >= drive->deadline_ms) {
            drive->status = srt_link_expire(link);
            break;
        }
        srb_wait(seriatim_link_fd(link), seriatim_link_wants(link), link_patience_ms(drive));
    }
    drive->done = 1;
    return Qnil;
}

/*
 * Timeout, kill and raise may end a wait: what was begun is then dropped with its socket, so no answer can be mistaken
 * for another's.
 */
static VALUE link_drive_ensure(VALUE arg)
{
    link_drive *drive = (link_drive *)arg;
    drive->box->busy = drive->box->stepping = 0;
    if (!drive->done)
        seriatim_link_reset(drive->box->link);
    return Qnil;
}

void srb_link_check(srb_link *box, int status)
{
    const seriatim_error *error = seriatim_client_error(seriatim_link_client(box->link));
    if (status == SERIATIM_OK)
        return;
    if (error && error->status == status)
        srb_raise_error(error);
    srb_raise(status, error && error->message[0] ? error->message : seriatim_status_text(status));
}

int srb_link_run(srb_link *box, VALUE limit)
{
    link_drive drive = {0};
    drive.box = box;
    if (!NIL_P(limit))
        drive.deadline_ms = srt_clock_ms() + (int64_t)(NUM2DBL(limit) * 1000.0);
    box->busy = 1;
    rb_ensure(link_drive_body, (VALUE)&drive, link_drive_ensure, (VALUE)&drive);
    return drive.status;
}

void srb_link_drive(srb_link *box, VALUE limit)
{
    srb_link_check(box, srb_link_run(box, limit));
}

/* ---- Queues and layout ----------------------------------------------------------------------- */

/* link.queue(settings) -> its number in this link */
static VALUE link_queue(VALUE self, VALUE array)
{
    srb_link *box = srb_link_idle(self);
    seriatim_queue_settings settings;
    size_t queue;
    srb_queue_settings(array, &settings);
    srb_link_check(box, seriatim_client_queue(seriatim_link_client(box->link), &settings, &queue));
    RB_GC_GUARD(array);
    return SIZET2NUM(queue);
}

/* link.layout(queue, limit) -> shards_count as Redis has it, 0 when there is no such queue */
static VALUE link_layout(VALUE self, VALUE queue, VALUE limit)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    size_t number = NUM2SIZET(queue);
    srb_link_check(box, seriatim_layout_begin(client, number));
    srb_link_drive(box, limit);
    return UINT2NUM(seriatim_layout_shards(client, number));
}

/* ---- Push ------------------------------------------------------------------------------------ */

VALUE srb_link_places(seriatim_client *client)
{
    size_t count, i;
    const size_t *places = seriatim_push_refused(client, &count);
    VALUE list = rb_ary_new_capa((long)count);
    for (i = 0; i < count; i++)
        rb_ary_push(list, SIZET2NUM(places[i]));
    return list;
}

/* What was said of too few replicas: the push is written. */
static VALUE link_shortage(srb_link *box, int status)
{
    const char *text;
    if (status != SERIATIM_REPLICAS)
        srb_link_check(box, status);
    if (status == SERIATIM_OK)
        return Qnil;
    text = seriatim_client_error(seriatim_link_client(box->link))->message;
    return srb_text(text, strlen(text));
}

/* What the operation that ended warns of, or nil; told once. */
static VALUE link_warning(seriatim_client *client)
{
    const char *text = seriatim_client_warning(client);
    return text ? srb_text(text, strlen(text)) : Qnil;
}

VALUE srb_link_handles(const seriatim_client *client)
{
    size_t count, i;
    const seriatim_text *handles = seriatim_push_handles(client, &count);
    VALUE list = rb_ary_new_capa((long)count);
    for (i = 0; i < count; i++)
        rb_ary_push(list, handles[i].data ? srb_text(handles[i].data, handles[i].len) : Qnil);
    return list;
}

/*
 * link.push(queue, jobs, payloads, replicas, wait_timeout, push_timeout, handles, outbox or nil, numbers or nil)
 *   -> [added, folded, [places of refused jobs], shortage or nil, warning or nil, scheduled, stale, [handles or nil]],
 *      and with an outbox behind it the number of jobs that were written before
 */
static VALUE link_push(int argc, VALUE *argv, VALUE self)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    seriatim_push_counts counts;
    VALUE shortage, answer;
    int from_outbox = argc > 7 && RTEST(argv[7]);
    rb_check_arity(argc, 6, 9);
    srb_link_check(box, seriatim_push_begin(client, NUM2SIZET(argv[0])));
    srb_link_check(box, seriatim_push_replicas(client, NUM2LL(argv[3]), NUM2DBL(argv[4])));
    srb_link_check(box, seriatim_push_timeout(client, NUM2DBL(argv[5])));
    if (argc > 6 && RTEST(argv[6]))
        srb_link_check(box, seriatim_push_want_handles(client));
    if (from_outbox)
        srb_link_check(box, seriatim_push_outbox(client, StringValueCStr(argv[7])));
    srb_jobs_push(box, argv[1], argv[2], argc > 8 ? argv[8] : Qnil);
    srb_link_check(box, seriatim_push_send(client));
    shortage = link_shortage(box, srb_link_run(box, Qnil));
    counts = seriatim_push_result(client);
    answer = rb_ary_new_from_args(8, SIZET2NUM(counts.added), SIZET2NUM(counts.folded), srb_link_places(client),
                                  shortage, link_warning(client), SIZET2NUM(counts.scheduled), SIZET2NUM(counts.stale),
                                  srb_link_handles(client));
    return from_outbox ? rb_ary_push(answer, SIZET2NUM(counts.repeated)) : answer;
}

/* Each of `rows` is a push of a pipeline: its arguments as link.push takes them. */
static void link_collect(srb_link *box, seriatim_client *client, VALUE rows)
{
    long i;
    srb_link_check(box, seriatim_pipeline_begin(client));
    for (i = 0; i < RARRAY_LEN(rows); i++) {
        VALUE row = rb_ary_entry(rows, i);
        srb_link_check(box, seriatim_pipeline_push(client, NUM2SIZET(rb_ary_entry(row, 0))));
        srb_link_check(box,
                       seriatim_push_replicas(client, NUM2LL(rb_ary_entry(row, 3)), NUM2DBL(rb_ary_entry(row, 4))));
        srb_link_check(box, seriatim_push_timeout(client, NUM2DBL(rb_ary_entry(row, 5))));
        if (RTEST(rb_ary_entry(row, 6)))
            srb_link_check(box, seriatim_push_want_handles(client));
        srb_jobs_push(box, rb_ary_entry(row, 1), rb_ary_entry(row, 2), Qnil);
    }
}

/* [added, folded, [places of refused jobs], error or nil, nil, scheduled, stale, [handles or nil]] of one push */
static VALUE link_piped(const seriatim_client *client, size_t push, size_t jobs)
{
    seriatim_push_counts counts;
    seriatim_error error;
    VALUE places = rb_ary_new(), handles;
    size_t count, i;
    const seriatim_text *texts = seriatim_pipeline_handles(client, push, &count);
    seriatim_pipeline_result(client, push, &counts, &error);
    for (i = 0; i < jobs && counts.refused; i++)
        if (seriatim_pipeline_outcome(client, push, i) == SERIATIM_JOB_REFUSED)
            rb_ary_push(places, SIZET2NUM(i));
    handles = rb_ary_new_capa((long)count);
    for (i = 0; i < count; i++)
        rb_ary_push(handles, texts[i].data ? srb_text(texts[i].data, texts[i].len) : Qnil);
    return rb_ary_new_from_args(8, SIZET2NUM(counts.added), SIZET2NUM(counts.folded), places, srb_error(&error), Qnil,
                                SIZET2NUM(counts.scheduled), SIZET2NUM(counts.stale), handles);
}

/*
 * link.pipeline([[queue, jobs, payloads, replicas, wait_timeout, push_timeout, handles], ...])
 *   -> [[what link.push gives, of each push, but an exception or nil in the place of the shortage], exception or nil,
 *      warning or nil]
 */
static VALUE link_pipeline(VALUE self, VALUE rows)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    seriatim_error error = {0};
    VALUE outcomes = rb_ary_new();
    long i;
    int status;
    link_collect(box, client, rows);
    srb_link_check(box, seriatim_pipeline_send(client));
    status = srb_link_run(box, Qnil);
    if (status != SERIATIM_OK)
        error = *seriatim_client_error(client);
    for (i = 0; i < RARRAY_LEN(rows); i++)
        rb_ary_push(outcomes,
                    link_piped(client, (size_t)i, (size_t)RARRAY_LEN(rb_ary_entry(rb_ary_entry(rows, i), 1))));
    return rb_ary_new_from_args(3, outcomes, srb_error(&error), link_warning(client));
}

/* link.check_jobs(queue, jobs, payloads): raises what a push of them would before anything is sent */
static VALUE link_check_jobs(VALUE self, VALUE queue, VALUE jobs, VALUE payloads)
{
    srb_link *box = srb_link_idle(self);
    srb_link_check(box, seriatim_push_begin(seriatim_link_client(box->link), NUM2SIZET(queue)));
    srb_jobs_push(box, jobs, payloads, Qnil);
    return Qnil;
}

/* ---- The rest -------------------------------------------------------------------------------- */

static VALUE link_url(VALUE self)
{
    return rb_utf8_str_new_cstr(seriatim_link_url(srb_link_idle(self)->link));
}

static VALUE link_reset(VALUE self)
{
    seriatim_link_reset(srb_link_idle(self)->link);
    return Qnil;
}

/*
 * link.progress(what, total or nil): is the next action on a whole queue or check shown on stderr? It is where that is
 * a terminal.
 */
static VALUE link_progress(VALUE self, VALUE what, VALUE total)
{
    srb_link *box = srb_link_idle(self);
    int64_t known = NIL_P(total) ? -1 : NUM2LL(total);
    int shown;
    Check_Type(what, T_STRING);
    shown = seriatim_link_progress(box->link, STDERR_FILENO, RSTRING_PTR(what), (size_t)RSTRING_LEN(what), known);
    RB_GC_GUARD(what);
    return shown ? Qtrue : Qfalse;
}

static VALUE link_close(VALUE self)
{
    srb_link *box = rb_check_typeddata(self, &link_type);
    if (box->link && !box->busy) {
        seriatim_link_free(box->link);
        box->link = NULL;
    }
    return Qnil;
}

void srb_init_link(void)
{
    VALUE klass = rb_define_class_under(srb_native, "Link", rb_cObject);
    link_turns = seriatim_turns_new(NULL); /* out of memory: each link has turns of its own */
    rb_define_alloc_func(klass, link_allocate);
    rb_define_method(klass, "initialize", link_initialize, 5);
    rb_define_method(klass, "queue", link_queue, 1);
    rb_define_method(klass, "layout", link_layout, 2);
    rb_define_method(klass, "push", link_push, -1);
    rb_define_method(klass, "pipeline", link_pipeline, 1);
    rb_define_method(klass, "check_jobs", link_check_jobs, 3);
    rb_define_method(klass, "url", link_url, 0);
    rb_define_method(klass, "reset", link_reset, 0);
    rb_define_method(klass, "progress", link_progress, 2);
    rb_define_method(klass, "close", link_close, 0);
    srb_init_operators(klass);
    srb_init_pop(klass);
    srb_init_ick(klass);
    srb_init_web(klass);
}

/* rb_runner.c - Seriatim::Native::Runner and Delivery: the node, and what it hands to the host's threads. */
#include "seriatim_native.h"

/*
 * Of a Runner and its Deliveries, which the collector may free in any order: the last one frees it. With the
 * interpreter's lock.
 */
typedef struct runner_box {
    seriatim_runner *runner;  /* NULL: not made yet, or freed */
    unsigned long generation; /* the runner's thread lives in this process alone */
    size_t owners;
    size_t waiting; /* threads inside runner.wait and runner.flush */
    int closed;     /* the last thread that waits frees the runner */
} runner_box;

typedef struct delivery_box {
    seriatim_delivery *delivery; /* NULL: settled, or nothing was taken */
    VALUE runner;                /* keeps it from being collected */
    runner_box *owner;           /* the Runner's, also when that is collected together with this */
    int64_t taken_ms;            /* monotonic */
} delivery_box;

/* ---- Runner ---------------------------------------------------------------------------------- */

/* In a child of fork(2) there is no thread to end: the memory is left alone. */
static int runner_lives(const runner_box *box)
{
    return box->runner && box->generation == srb_generation();
}

static void runner_drop(runner_box *box)
{
    if (--box->owners == 0)
        xfree(box);
}

static void runner_free(void *data)
{
    runner_box *box = data;
    if (runner_lives(box))
        seriatim_runner_free(box->runner);
    box->runner = NULL;
    runner_drop(box);
}

static size_t runner_size(const void *data)
{
    (void)data;
    return sizeof(runner_box);
}

static const rb_data_type_t runner_type = {"Seriatim::Native::Runner",
                                           {NULL, runner_free, runner_size, NULL, {0}},
                                           NULL,
                                           NULL,
                                           RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED};

static VALUE runner_allocate(VALUE klass)
{
    runner_box *box;
    VALUE self = TypedData_Make_Struct(klass, runner_box, &runner_type, box);
    box->owners = 1;
    return self;
}

static seriatim_runner *runner_of(VALUE self)
{
    runner_box *box = rb_check_typeddata(self, &runner_type);
    if (!box->runner || box->closed)
        srb_raise(SERIATIM_CLOSED, "the runner is closed");
    if (box->generation != srb_generation())
        srb_raise(SERIATIM_CLOSED, "the runner belongs to the process that created it; create another one after fork");
    return box->runner;
}

/* Runner.new(url, namespace, name, id, description, lease_ms, poll_ms, threads, scheduler) */
static VALUE runner_initialize(int argc, VALUE *argv, VALUE self)
{
    runner_box *box = rb_check_typeddata(self, &runner_type);
    seriatim_node_settings settings = {0};
    seriatim_error error = {0};
    rb_check_arity(argc, 9, 9);
    if (box->runner)
        rb_raise(rb_eTypeError, "already initialized");
    settings.options.ns = StringValueCStr(argv[1]);
    settings.options.name = NIL_P(argv[2]) ? NULL : StringValueCStr(argv[2]);
    settings.id = StringValueCStr(argv[3]);
    settings.description = StringValueCStr(argv[4]);
    settings.lease_ms = NUM2LL(argv[5]);
    settings.poll_ms = NUM2LL(argv[6]);
    settings.threads = NUM2SIZET(argv[7]);
    settings.scheduler = NUM2INT(argv[8]);
    if (seriatim_runner_new(&settings, StringValueCStr(argv[0]), &box->runner, &error) != SERIATIM_OK)
        srb_raise_error(&error);
    box->generation = srb_generation();
    return self;
}

/* runner.worker(settings) -> its number */
static VALUE runner_worker(VALUE self, VALUE array)
{
    seriatim_runner *runner = runner_of(self);
    seriatim_queue_settings settings;
    seriatim_error error = {0};
    size_t worker;
    srb_queue_settings(array, &settings);
    if (seriatim_runner_worker(runner, &settings, &worker, &error) != SERIATIM_OK)
        srb_raise_error(&error);
    RB_GC_GUARD(array);
    return SIZET2NUM(worker);
}

/* runner.withdraw(worker) -> false: it was withdrawn before */
static VALUE runner_withdraw(VALUE self, VALUE worker)
{
    seriatim_error error = {0};
    int status = seriatim_runner_withdraw(runner_of(self), NUM2SIZET(worker), &error);
    if (status != SERIATIM_OK && status != SERIATIM_AGAIN)
        srb_raise_error(&error);
    return status == SERIATIM_OK ? Qtrue : Qfalse;
}

static seriatim_shard runner_shard(VALUE pair)
{
    seriatim_shard shard;
    Check_Type(pair, T_ARRAY);
    shard.worker = NUM2SIZET(rb_ary_entry(pair, 0));
    shard.shard = NUM2UINT(rb_ary_entry(pair, 1));
    return shard;
}

/* runner.group(scheduler, [[worker, shard], ...]) -> its number */
static VALUE runner_group(VALUE self, VALUE scheduler, VALUE pairs)
{
    seriatim_runner *runner = runner_of(self);
    seriatim_error error = {0};
    seriatim_shard *shards;
    size_t group;
    VALUE buffer;
    long i, count;
    int status;
    Check_Type(pairs, T_ARRAY);
    count = RARRAY_LEN(pairs);
    shards = ALLOCV_N(seriatim_shard, buffer, count > 0 ? count : 1);
    for (i = 0; i < count; i++)
        shards[i] = runner_shard(rb_ary_entry(pairs, i));
    status = seriatim_runner_group(runner, NUM2INT(scheduler), shards, (size_t)count, &group, &error);
    ALLOCV_END(buffer);
    if (status != SERIATIM_OK)
        srb_raise_error(&error);
    return SIZET2NUM(group);
}

static VALUE runner_start(VALUE self)
{
    seriatim_error error = {0};
    if (seriatim_runner_start(runner_of(self), &error) != SERIATIM_OK)
        srb_raise_error(&error);
    return Qnil;
}

/* Seriatim::Native::Delivery, kept by its constant. */
static VALUE delivery_class;

/* ---- Delivery -------------------------------------------------------------------------------- */

static void delivery_mark(void *data)
{
    rb_gc_mark(((delivery_box *)data)->runner);
}

/*
 * One that nobody settled, as after an error between its take and its run, gives its ids back: each without an outcome
 * is released.
 */
static void delivery_free(void *data)
{
    delivery_box *box = data;
    if (box->delivery && runner_lives(box->owner))
        seriatim_runner_settle(box->owner->runner, box->delivery);
    if (box->owner)
        runner_drop(box->owner);
    xfree(box);
}

static size_t delivery_memsize(const void *data)
{
    (void)data;
    return sizeof(delivery_box);
}

static const rb_data_type_t delivery_type = {"Seriatim::Native::Delivery",
                                             {delivery_mark, delivery_free, delivery_memsize, NULL, {0}},
                                             NULL,
                                             NULL,
                                             RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED};

/* An empty one, made before the take: an error while it is made must not lose what was taken. */
static VALUE delivery_new(VALUE runner, delivery_box **made)
{
    delivery_box *box;
    VALUE self = TypedData_Make_Struct(delivery_class, delivery_box, &delivery_type, box);
    RB_OBJ_WRITE(self, &box->runner, runner);
    box->owner = rb_check_typeddata(runner, &runner_type);
    box->owner->owners++;
    *made = box;
    return self;
}

/* The delivery, not settled yet, of a runner that still is; raises. */
static delivery_box *delivery_of(VALUE self)
{
    delivery_box *box = rb_check_typeddata(self, &delivery_type);
    if (!box->delivery)
        srb_raise(SERIATIM_CLOSED, "the delivery is settled");
    runner_of(box->runner);
    return box;
}

static size_t delivery_place(const delivery_box *box, VALUE i)
{
    size_t place = NUM2SIZET(i);
    if (place >= seriatim_delivery_size(box->delivery))
        rb_raise(rb_eIndexError, "no such id in this delivery");
    return place;
}

/* delivery.held? -> is it not settled yet? Also in another process than its runner's. */
static VALUE delivery_held(VALUE self)
{
    const delivery_box *box = rb_check_typeddata(self, &delivery_type);
    return box->delivery ? Qtrue : Qfalse;
}

/* delivery.elapsed -> seconds since it was taken */
static VALUE delivery_elapsed(VALUE self)
{
    return DBL2NUM((double)(srt_clock_ms() - delivery_of(self)->taken_ms) / 1000.0);
}

static VALUE delivery_kind(VALUE self)
{
    switch (seriatim_delivery_kind_of(delivery_of(self)->delivery)) {
    case SERIATIM_RUN:
        return ID2SYM(rb_intern("run"));
    case SERIATIM_DIED:
        return ID2SYM(rb_intern("died"));
    default:
        return ID2SYM(rb_intern("exhausted"));
    }
}

static VALUE delivery_worker(VALUE self)
{
    return SIZET2NUM(seriatim_delivery_worker(delivery_of(self)->delivery));
}

static VALUE delivery_shard(VALUE self)
{
    return UINT2NUM(seriatim_delivery_shard(delivery_of(self)->delivery));
}

static VALUE delivery_size(VALUE self)
{
    return SIZET2NUM(seriatim_delivery_size(delivery_of(self)->delivery));
}

static VALUE delivery_payloads(const seriatim_claimed *job)
{
    VALUE list = rb_ary_new_capa((long)job->payload_count);
    size_t i;
    for (i = 0; i < job->payload_count; i++) {
        const seriatim_payload *p = &job->payloads[i];
        VALUE context = p->context_len ? srb_text(p->context, p->context_len) : Qnil;
        rb_ary_push(list, rb_ary_new_from_args(3, srb_bytes(p->data, p->len), DBL2NUM(p->score), context));
    }
    return list;
}

VALUE srb_claimed(const seriatim_claimed *job)
{
    VALUE error = job->error_len ? srb_text(job->error, job->error_len) : Qnil;
    return rb_ary_new_from_args(7, srb_text(job->id, job->id_len), LL2NUM(job->fence), LL2NUM(job->retry_count),
                                DBL2NUM(job->perform_in), error, delivery_payloads(job), SIZET2NUM(job->payload_total));
}

/* delivery.job(i) -> as srb_claimed */
static VALUE delivery_job(VALUE self, VALUE i)
{
    delivery_box *box = delivery_of(self);
    return srb_claimed(seriatim_delivery_job(box->delivery, delivery_place(box, i)));
}

VALUE srb_claimed_handles(const seriatim_claimed *job, VALUE queue)
{
    VALUE list = rb_ary_new_capa((long)job->payload_count);
    size_t i;
    Check_Type(queue, T_STRING);
    for (i = 0; i < job->payload_count; i++) {
        seriatim_text name = {RSTRING_PTR(queue), (size_t)RSTRING_LEN(queue)};
        VALUE handle = rb_usascii_str_new(NULL, (long)srt_claimed_handle_size(name, job));
        srt_claimed_handle(name, job, i, RSTRING_PTR(handle));
        rb_ary_push(list, handle);
    }
    RB_GC_GUARD(queue);
    return list;
}

/* delivery.handles(i, queue's name) -> [the handle of each payload, ...] */
static VALUE delivery_handles(VALUE self, VALUE i, VALUE queue)
{
    delivery_box *box = delivery_of(self);
    return srb_claimed_handles(seriatim_delivery_job(box->delivery, delivery_place(box, i)), queue);
}

typedef struct delivery_read {
    const seriatim_delivery *delivery;
    srb_json_reader reader;
} delivery_read;

static VALUE delivery_read_all(VALUE arg)
{
    delivery_read *read = (delivery_read *)arg;
    size_t i, p, size = seriatim_delivery_size(read->delivery);
    VALUE hash = rb_hash_new();
    for (i = 0; i < size; i++) {
        const seriatim_claimed *job = seriatim_delivery_job(read->delivery, i);
        VALUE payloads = rb_ary_new_capa((long)job->payload_count);
        rb_hash_aset(hash, rb_obj_freeze(srb_text(job->id, job->id_len)), payloads);
        for (p = 0; p < job->payload_count; p++)
            rb_ary_push(payloads, srb_json_read(&read->reader, job->payloads[p].data, job->payloads[p].len));
    }
    return hash;
}

/*
 * delivery.payloads_by_id -> {id => [what each payload's JSON says]}, or nil: one of them cannot be read, or it is not
 * to be run
 */
static VALUE delivery_payloads_by_id(VALUE self)
{
    delivery_read read;
    int failed = 0;
    VALUE hash;
    read.delivery = delivery_of(self)->delivery;
    if (seriatim_delivery_kind_of(read.delivery) != SERIATIM_RUN)
        return Qnil;
    srb_json_open(&read.reader);
    hash = rb_protect(delivery_read_all, (VALUE)&read, &failed);
    srb_json_close(&read.reader);
    if (failed)
        rb_set_errinfo(Qnil);
    return failed ? Qnil : hash;
}

static void delivery_check(int status)
{
    if (status == SERIATIM_NOMEM)
        rb_memerror();
    if (status != SERIATIM_OK)
        srb_raise(status, seriatim_status_text(status));
}

static VALUE delivery_done(VALUE self, VALUE i)
{
    delivery_box *box = delivery_of(self);
    delivery_check(seriatim_delivery_done(box->delivery, delivery_place(box, i)));
    return Qnil;
}

static void delivery_all_done(seriatim_delivery *delivery)
{
    size_t i, size = seriatim_delivery_size(delivery);
    for (i = 0; i < size; i++)
        delivery_check(seriatim_delivery_done(delivery, i));
}

static VALUE delivery_done_all(VALUE self)
{
    delivery_all_done(delivery_of(self)->delivery);
    return Qnil;
}

static VALUE delivery_release(VALUE self, VALUE i)
{
    delivery_box *box = delivery_of(self);
    delivery_check(seriatim_delivery_release(box->delivery, delivery_place(box, i)));
    return Qnil;
}

/* delivery.fail(i, error, retry_in) */
static VALUE delivery_fail(VALUE self, VALUE i, VALUE error, VALUE retry_in)
{
    delivery_box *box = delivery_of(self);
    double seconds = NUM2DBL(retry_in);
    StringValue(error);
    delivery_check(seriatim_delivery_fail(box->delivery, delivery_place(box, i), RSTRING_PTR(error),
                                          (size_t)RSTRING_LEN(error), seconds));
    RB_GC_GUARD(error);
    return Qnil;
}

/* delivery.reject(i, places, reason) */
static VALUE delivery_reject(VALUE self, VALUE i, VALUE places, VALUE reason)
{
    delivery_box *box = delivery_of(self);
    size_t place = delivery_place(box, i), *list;
    VALUE buffer;
    long at, count;
    int status;
    Check_Type(places, T_ARRAY);
    StringValue(reason);
    count = RARRAY_LEN(places);
    list = ALLOCV_N(size_t, buffer, count > 0 ? count : 1);
    for (at = 0; at < count; at++)
        list[at] = NUM2SIZET(rb_ary_entry(places, at));
    status = seriatim_delivery_reject(box->delivery, place, list, (size_t)count, RSTRING_PTR(reason),
                                      (size_t)RSTRING_LEN(reason));
    ALLOCV_END(buffer);
    RB_GC_GUARD(reason);
    delivery_check(status);
    return Qnil;
}

/* delivery.snooze(i, seconds, payload or nil) */
static VALUE delivery_snooze(VALUE self, VALUE i, VALUE seconds, VALUE payload)
{
    delivery_box *box = delivery_of(self);
    double wait = NUM2DBL(seconds);
    size_t place = delivery_place(box, i);
    if (!NIL_P(payload))
        StringValue(payload);
    delivery_check(seriatim_delivery_snooze(box->delivery, place, wait, NIL_P(payload) ? NULL : RSTRING_PTR(payload),
                                            NIL_P(payload) ? 0 : (size_t)RSTRING_LEN(payload)));
    RB_GC_GUARD(payload);
    return Qnil;
}

static void runner_init_delivery(void)
{
    VALUE klass = rb_define_class_under(srb_native, "Delivery", rb_cObject);
    rb_gc_register_mark_object(klass);
    delivery_class = klass;
    rb_undef_alloc_func(klass);
    rb_define_method(klass, "held?", delivery_held, 0);
    rb_define_method(klass, "elapsed", delivery_elapsed, 0);
    rb_define_method(klass, "kind", delivery_kind, 0);
    rb_define_method(klass, "worker", delivery_worker, 0);
    rb_define_method(klass, "shard", delivery_shard, 0);
    rb_define_method(klass, "size", delivery_size, 0);
    rb_define_method(klass, "job", delivery_job, 1);
    rb_define_method(klass, "handles", delivery_handles, 2);
    rb_define_method(klass, "payloads_by_id", delivery_payloads_by_id, 0);
    rb_define_method(klass, "done", delivery_done, 1);
    rb_define_method(klass, "done_all", delivery_done_all, 0);
    rb_define_method(klass, "fail", delivery_fail, 3);
    rb_define_method(klass, "release", delivery_release, 1);
    rb_define_method(klass, "reject", delivery_reject, 3);
    rb_define_method(klass, "snooze", delivery_snooze, 3);
}

/* ---- Taking and settling --------------------------------------------------------------------- */

static VALUE runner_taken(VALUE delivery, delivery_box *box, int status)
{
    box->taken_ms = srt_clock_ms();
    if (status == SERIATIM_OK)
        return delivery;
    if (status == SERIATIM_AGAIN)
        return Qnil;
    if (status == SERIATIM_CLOSED)
        return ID2SYM(rb_intern("closed"));
    srb_raise(status, seriatim_status_text(status));
}

/* runner.take(group) -> a Delivery, nil (wait), or :closed */
static VALUE runner_take(VALUE self, VALUE group)
{
    seriatim_runner *runner = runner_of(self);
    size_t number = NUM2SIZET(group);
    delivery_box *box;
    VALUE delivery = delivery_new(self, &box);
    return runner_taken(delivery, box, seriatim_runner_take(runner, number, &box->delivery));
}

/* runner.take_from(group, [worker, shard]) */
static VALUE runner_take_from(VALUE self, VALUE group, VALUE pair)
{
    seriatim_runner *runner = runner_of(self);
    seriatim_shard shard = runner_shard(pair);
    size_t number = NUM2SIZET(group);
    delivery_box *box;
    VALUE delivery = delivery_new(self, &box);
    return runner_taken(delivery, box, seriatim_runner_take_from(runner, number, shard, &box->delivery));
}

/* runner.take_unscheduled(group) -> as take, but only dead ids and ids in doubt, which no scheduler chooses */
static VALUE runner_take_unscheduled(VALUE self, VALUE group)
{
    static const seriatim_shard no_shard = {0, SERIATIM_MAX_SHARDS};
    seriatim_runner *runner = runner_of(self);
    size_t number = NUM2SIZET(group);
    delivery_box *box;
    VALUE delivery = delivery_new(self, &box);
    return runner_taken(delivery, box, seriatim_runner_take_from(runner, number, no_shard, &box->delivery));
}

/* runner.candidates(group, cap) -> [[worker, shard, lag, size], ...] */
static VALUE runner_candidates(VALUE self, VALUE group, VALUE cap)
{
    seriatim_runner *runner = runner_of(self);
    seriatim_candidate *list;
    size_t i, count, number = NUM2SIZET(group), room = NUM2SIZET(cap);
    VALUE buffer, result = rb_ary_new();
    list = ALLOCV_N(seriatim_candidate, buffer, room ? room : 1);
    count = seriatim_runner_candidates(runner, number, list, room);
    for (i = 0; i < count && i < room; i++)
        rb_ary_push(result, rb_ary_new_from_args(4, SIZET2NUM(list[i].shard.worker), UINT2NUM(list[i].shard.shard),
                                                 DBL2NUM(list[i].lag), SIZET2NUM(list[i].size)));
    ALLOCV_END(buffer);
    return result;
}

/* runner.settle(delivery) */
static VALUE runner_settle(VALUE self, VALUE delivery)
{
    delivery_box *box = delivery_of(delivery);
    seriatim_delivery *settled = box->delivery;
    if (box->runner != self)
        rb_raise(rb_eArgError, "the delivery is another runner's");
    box->delivery = NULL;
    seriatim_runner_settle(runner_of(self), settled);
    return Qnil;
}

/*
 * runner.advance(group, delivery) -> delivery, nil (wait) or :closed. All its ids are done, it is settled, and the
 * group's next delivery, if there is one, takes its place in the same object: nothing can come between. Not with one
 * that user code knows.
 */
static VALUE runner_advance(VALUE self, VALUE group, VALUE delivery)
{
    seriatim_runner *runner = runner_of(self);
    size_t number = NUM2SIZET(group);
    delivery_box *box = delivery_of(delivery);
    seriatim_delivery *settled = box->delivery;
    int status;
    if (box->runner != self)
        rb_raise(rb_eArgError, "the delivery is another runner's");
    delivery_all_done(settled);
    box->delivery = NULL;
    status = seriatim_runner_settle_and_take(runner, settled, number, &box->delivery);
    return runner_taken(delivery, box, status);
}

/* runner.extend_time(delivery, i, seconds) */
static VALUE runner_extend(VALUE self, VALUE delivery, VALUE i, VALUE seconds)
{
    delivery_box *box = delivery_of(delivery);
    int status = seriatim_runner_extend(runner_of(self), box->delivery, delivery_place(box, i), NUM2DBL(seconds));
    if (status != SERIATIM_OK)
        srb_raise(status, seriatim_status_text(status));
    return Qnil;
}

/* runner.checkpoint(delivery, i, count) */
static VALUE runner_checkpoint(VALUE self, VALUE delivery, VALUE i, VALUE count)
{
    delivery_box *box = delivery_of(delivery);
    size_t place = delivery_place(box, i), wanted = NUM2SIZET(count);
    int status = seriatim_runner_checkpoint(runner_of(self), box->delivery, place, wanted);
    char text[128];
    if (status == SERIATIM_OK)
        return Qnil;
    if (status != SERIATIM_INVALID)
        srb_raise(status, seriatim_status_text(status));
    snprintf(text, sizeof text, "checkpoint of %lu payloads: the id has %lu in this batch", (unsigned long)wanted,
             (unsigned long)seriatim_delivery_job(box->delivery, place)->payload_count);
    srb_raise(status, text);
}

#define FLUSH_SLICE_MS 1000

typedef struct runner_flush {
    VALUE self;
    runner_box *box;
    seriatim_runner *runner;
    seriatim_flush own; /* is begun with the GVL: another thread may settle the delivery */
    int status;
} runner_flush;

static void *runner_flush_unlocked(void *argument)
{
    runner_flush *flush = argument;
    flush->status = seriatim_runner_flush_wait(flush->runner, &flush->own, FLUSH_SLICE_MS);
    return NULL;
}

/* Interrupts are handled between the waits, and may settle the delivery or close the runner. */
static VALUE runner_flush_all(VALUE argument)
{
    runner_flush *flush = (runner_flush *)argument;
    while (flush->status == SERIATIM_AGAIN) {
        rb_thread_call_without_gvl(runner_flush_unlocked, flush, RUBY_UBF_IO, NULL);
        runner_of(flush->self);
    }
    return Qnil;
}

static VALUE runner_flush_end(VALUE argument);

/* runner.flush(delivery): until Redis has confirmed its checkpoints */
static VALUE runner_flush_delivery(VALUE self, VALUE delivery)
{
    delivery_box *of = delivery_of(delivery);
    runner_flush flush = {self, rb_check_typeddata(self, &runner_type), runner_of(self), {NULL, NULL}, SERIATIM_OK};
    flush.status = seriatim_runner_flush_begin(flush.runner, of->delivery, &flush.own);
    flush.box->waiting++;
    rb_ensure(runner_flush_all, (VALUE)&flush, runner_flush_end, (VALUE)&flush);
    RB_GC_GUARD(delivery);
    if (flush.status == SERIATIM_CLOSED)
        srb_raise(flush.status, "the delivery is settled");
    if (flush.status != SERIATIM_OK)
        srb_raise(
            flush.status,
            "the run is not this process's any more: another has taken it, or the end of a stop has handed it back");
    return Qnil;
}

typedef struct runner_waiter {
    runner_box *box;
    seriatim_runner *runner;
    seriatim_waiter *own;
    size_t group;
    int fd, timeout_ms;
} runner_waiter;

static VALUE runner_wait_readable(VALUE argument)
{
    const runner_waiter *waiter = (const runner_waiter *)argument;
    srb_wait(waiter->fd, SERIATIM_WANT_READ, waiter->timeout_ms);
    return Qnil;
}

static void runner_free_native(void *runner)
{
    seriatim_runner_free(runner);
}

/* Ends a closed runner, unless threads still wait for its descriptors. */
static void runner_end(runner_box *box)
{
    seriatim_runner *runner = box->runner;
    if (!box->closed || box->waiting || !runner_lives(box))
        return;
    box->runner = NULL;
    srb_without_lock(runner_free_native, runner);
}

/* Unless the runner was left behind by a fork in the meantime. */
static VALUE runner_wait_end(VALUE argument)
{
    const runner_waiter *waiter = (const runner_waiter *)argument;
    if (!runner_lives(waiter->box))
        return Qnil;
    seriatim_runner_wait_end(waiter->runner, waiter->group, waiter->own);
    waiter->box->waiting--;
    runner_end(waiter->box);
    return Qnil;
}

static VALUE runner_flush_end(VALUE argument)
{
    runner_flush *flush = (runner_flush *)argument;
    if (!runner_lives(flush->box))
        return Qnil;
    seriatim_runner_flush_end(flush->runner, &flush->own);
    flush->box->waiting--;
    runner_end(flush->box);
    return Qnil;
}

/* runner.wait(group, seconds or nil): until a take may give something, or the runner is closed. */
static VALUE runner_wait(VALUE self, VALUE group, VALUE seconds)
{
    runner_waiter waiter = {rb_check_typeddata(self, &runner_type), runner_of(self), NULL, NUM2SIZET(group), -1, -1};
    if (!NIL_P(seconds))
        waiter.timeout_ms = (int)(NUM2DBL(seconds) * 1000.0);
    waiter.fd = seriatim_runner_wait_begin(waiter.runner, waiter.group, &waiter.own);
    waiter.box->waiting++;
    rb_ensure(runner_wait_readable, (VALUE)&waiter, runner_wait_end, (VALUE)&waiter);
    RB_GC_GUARD(self);
    return Qnil;
}

/* ---- Watching and ending --------------------------------------------------------------------- */

/* runner.failure(delivery, i) -> the event as which the failure of this id is to be logged, or nil */
static VALUE runner_failure(VALUE self, VALUE delivery, VALUE i)
{
    delivery_box *box = delivery_of(delivery);
    const char *event = seriatim_runner_failure(runner_of(self), box->delivery, delivery_place(box, i));
    return event ? rb_utf8_str_new_cstr(event) : Qnil;
}

/* runner.event -> [kind, number, text] or nil */
static VALUE runner_event(VALUE self)
{
    static const char *const names[] = {"lease",   "lost",     "refused", "recovered", "link",
                                        "warning", "failures", "morgue",  "stale"};
    seriatim_event event;
    if (seriatim_runner_event(runner_of(self), &event) != SERIATIM_OK)
        return Qnil;
    return rb_ary_new_from_args(3, ID2SYM(rb_intern(names[event.kind])), LL2NUM(event.number),
                                srb_text(event.text, strlen(event.text)));
}

static VALUE runner_pulse(VALUE self)
{
    seriatim_runner_pulse(runner_of(self));
    return Qnil;
}

static VALUE runner_quiet(VALUE self)
{
    seriatim_runner_quiet(runner_of(self));
    return Qnil;
}

static VALUE runner_stop(VALUE self)
{
    seriatim_runner_stop(runner_of(self));
    return Qnil;
}

static VALUE runner_abandon(VALUE self)
{
    seriatim_runner_abandon(runner_of(self));
    return Qnil;
}

/* runner.asked -> :quiet, :stop or nil */
static VALUE runner_asked(VALUE self)
{
    int order = seriatim_runner_asked(runner_of(self));
    return order == SERIATIM_ORDER_NONE ? Qnil : ID2SYM(rb_intern(order == SERIATIM_ORDER_STOP ? "stop" : "quiet"));
}

/* What a handler of a signal tells; handlers belong to the process, so this does, too. */
static srt_ending runner_ending;

/* Asked again and again while the runner stops, so a signal that ends the process then tells what is unfinished. */
static VALUE runner_stopped(VALUE self)
{
    seriatim_runner *runner = runner_of(self);
    srt_ending_note(&runner_ending, runner);
    return seriatim_runner_stopped(runner) ? Qtrue : Qfalse;
}

/* runner.unfinished -> what threads have in hand, in one line */
static VALUE runner_unfinished(VALUE self)
{
    char text[1000];
    seriatim_runner_unfinished(runner_of(self), text, sizeof text);
    return srb_text(text, strlen(text));
}

/* Native.begin_ending(allowed): counts TERM and INT from zero; the count belongs to the process */
static VALUE native_begin_ending(VALUE module, VALUE allowed)
{
    (void)module;
    srt_ending_begin(&runner_ending, NUM2INT(allowed));
    return Qnil;
}

/* Native.ending_counts?(number): in a handler, of each TERM and INT: is it beyond the allowed ones? */
static VALUE native_ending_counts(VALUE module, VALUE number)
{
    (void)module;
    return srt_ending_counts(&runner_ending, NUM2INT(number)) ? Qtrue : Qfalse;
}

/*
 * Native.tell_ending: in a handler, before exit!, writes to standard error that the process ends at once and what is
 * unfinished.
 */
static VALUE native_tell_ending(VALUE module)
{
    (void)module;
    srt_ending_tell(&runner_ending);
    return Qnil;
}

/* Native.write_stderr(text): what standard error takes of it at once, without a lock */
static VALUE native_write_stderr(VALUE module, VALUE text)
{
    (void)module;
    Check_Type(text, T_STRING);
    srt_ending_write(RSTRING_PTR(text), (size_t)RSTRING_LEN(text));
    RB_GC_GUARD(text);
    return Qnil;
}

static void runner_figure(VALUE hash, const char *name, VALUE value)
{
    rb_hash_aset(hash, ID2SYM(rb_intern(name)), value);
}

/* runner.stats -> a Hash with symbol keys */
static VALUE runner_stats(VALUE self)
{
    seriatim_runner_stats stats = seriatim_runner_stats_now(runner_of(self));
    VALUE hash = rb_hash_new();
    runner_figure(hash, "commands", ULL2NUM(stats.commands));
    runner_figure(hash, "processed", ULL2NUM(stats.processed));
    runner_figure(hash, "failed", ULL2NUM(stats.failed));
    runner_figure(hash, "refused", ULL2NUM(stats.refused));
    runner_figure(hash, "shards", SIZET2NUM(stats.shards));
    runner_figure(hash, "running", SIZET2NUM(stats.running));
    runner_figure(hash, "claimed", SIZET2NUM(stats.claimed));
    runner_figure(hash, "connected", stats.connected ? Qtrue : Qfalse);
    return hash;
}

/* Frees the runner as soon as no thread waits; every later call of it, or of a delivery of it, raises. */
static VALUE runner_close(VALUE self)
{
    runner_box *box = rb_check_typeddata(self, &runner_type);
    if (!runner_lives(box) || box->closed)
        return Qnil;
    box->closed = 1;
    if (box->waiting)
        seriatim_runner_wake_all(box->runner);
    runner_end(box);
    return Qnil;
}

void srb_init_runner(void)
{
    VALUE klass = rb_define_class_under(srb_native, "Runner", rb_cObject);
    rb_define_alloc_func(klass, runner_allocate);
    rb_define_method(klass, "initialize", runner_initialize, -1);
    rb_define_method(klass, "worker", runner_worker, 1);
    rb_define_method(klass, "withdraw", runner_withdraw, 1);
    rb_define_method(klass, "group", runner_group, 2);
    rb_define_method(klass, "start", runner_start, 0);
    rb_define_method(klass, "take", runner_take, 1);
    rb_define_method(klass, "take_from", runner_take_from, 2);
    rb_define_method(klass, "take_unscheduled", runner_take_unscheduled, 1);
    rb_define_method(klass, "candidates", runner_candidates, 2);
    rb_define_method(klass, "settle", runner_settle, 1);
    rb_define_method(klass, "advance", runner_advance, 2);
    rb_define_method(klass, "extend_time", runner_extend, 3);
    rb_define_method(klass, "checkpoint", runner_checkpoint, 3);
    rb_define_method(klass, "flush", runner_flush_delivery, 1);
    rb_define_method(klass, "wait", runner_wait, 2);
    rb_define_method(klass, "event", runner_event, 0);
    rb_define_method(klass, "failure", runner_failure, 2);
    rb_define_method(klass, "pulse", runner_pulse, 0);
    rb_define_method(klass, "quiet", runner_quiet, 0);
    rb_define_method(klass, "stop", runner_stop, 0);
    rb_define_method(klass, "abandon", runner_abandon, 0);
    rb_define_method(klass, "asked", runner_asked, 0);
    rb_define_method(klass, "stopped?", runner_stopped, 0);
    rb_define_method(klass, "unfinished", runner_unfinished, 0);
    rb_define_module_function(srb_native, "begin_ending", native_begin_ending, 1);
    rb_define_module_function(srb_native, "ending_counts?", native_ending_counts, 1);
    rb_define_module_function(srb_native, "tell_ending", native_tell_ending, 0);
    rb_define_module_function(srb_native, "write_stderr", native_write_stderr, 1);
    rb_define_method(klass, "stats", runner_stats, 0);
    rb_define_method(klass, "close", runner_close, 0);
    runner_init_delivery();
}

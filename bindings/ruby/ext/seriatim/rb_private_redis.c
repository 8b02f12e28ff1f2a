/*
 * rb_private_redis.c - Seriatim::Native::PrivateRedis: this process' use of the Redis that Seriatim starts for itself.
 */
#include "seriatim_native.h"

typedef struct private_box {
    srt_private_redis *redis; /* NULL: not started, or released */
} private_box;

static void private_box_free(void *data)
{
    private_box *box = data;
    srt_private_redis_release(box->redis);
    xfree(box);
}

static size_t private_box_size(const void *data)
{
    (void)data;
    return sizeof(private_box);
}

static const rb_data_type_t private_type = {"Seriatim::Native::PrivateRedis",
                                            {NULL, private_box_free, private_box_size, NULL, {0}},
                                            NULL,
                                            NULL,
                                            RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED};

static VALUE private_allocate(VALUE klass)
{
    private_box *box;
    return TypedData_Make_Struct(klass, private_box, &private_type, box);
}

typedef struct private_start {
    const char *folder;
    srt_private_redis *redis;
    seriatim_error error;
    int status;
} private_start;

static void *private_start_unlocked(void *arg)
{
    private_start *start = arg;
    start->status = srt_private_redis_start(seriatim_default_allocator(), start->folder, &start->error, &start->redis);
    return NULL;
}

/* PrivateRedis.new(folder): waits until it answers. */
static VALUE private_initialize(VALUE self, VALUE folder)
{
    private_box *box = rb_check_typeddata(self, &private_type);
    private_start start = {0};
    if (box->redis)
        rb_raise(rb_eTypeError, "already initialized");
    StringValueCStr(folder);
    folder = rb_str_new_frozen(folder);
    start.folder = StringValueCStr(folder);
    start.status = SERIATIM_AGAIN;
    while (start.status == SERIATIM_AGAIN) {
        rb_thread_check_ints();
        rb_nogvl(private_start_unlocked, &start, NULL, NULL,
                 RB_NOGVL_INTR_FAIL); /* nothing was done if it is interrupted */
    }
    box->redis = start.status == SERIATIM_OK ? start.redis : NULL;
    RB_GC_GUARD(folder);
    if (start.status != SERIATIM_OK)
        srb_raise_error(&start.error);
    return self;
}

static srt_private_redis *private_of(VALUE self)
{
    private_box *box = rb_check_typeddata(self, &private_type);
    if (!box->redis)
        srb_raise(SERIATIM_CLOSED, "the private Redis is released");
    return box->redis;
}

static VALUE private_url(VALUE self)
{
    return rb_utf8_str_new_cstr(srt_private_redis_url(private_of(self)));
}

static VALUE private_started(VALUE self)
{
    return srt_private_redis_started(private_of(self)) ? Qtrue : Qfalse;
}

static void private_release_native(void *redis)
{
    srt_private_redis_release(redis);
}

static VALUE private_release(VALUE self)
{
    private_box *box = rb_check_typeddata(self, &private_type);
    srt_private_redis *redis = box->redis;
    box->redis = NULL;
    srb_without_lock(private_release_native, redis);
    return Qnil;
}

void srb_init_private_redis(void)
{
    VALUE klass = rb_define_class_under(srb_native, "PrivateRedis", rb_cObject);
    rb_define_alloc_func(klass, private_allocate);
    rb_define_method(klass, "initialize", private_initialize, 1);
    rb_define_method(klass, "url", private_url, 0);
    rb_define_method(klass, "started?", private_started, 0);
    rb_define_method(klass, "release", private_release, 0);
}

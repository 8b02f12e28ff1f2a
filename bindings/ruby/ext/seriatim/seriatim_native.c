/* seriatim_native.c - Seriatim::Native: errors, texts and waiting, shared by the classes below it. */
#include "seriatim_native.h"

#include <pthread.h>

VALUE srb_native;

/* getpid(2) is a system call, and some ask for every job. */
static volatile unsigned long native_forks;

static void native_forked(void)
{
    native_forks++;
}

unsigned long srb_generation(void)
{
    return native_forks;
}

static VALUE native_error(int status, const char *message)
{
    VALUE name = ID2SYM(rb_intern(seriatim_status_name(status)));
    return rb_funcall(srb_native, rb_intern("error"), 2, name, srb_text(message, strlen(message)));
}

void srb_raise(int status, const char *message)
{
    rb_exc_raise(native_error(status, message));
}

VALUE srb_error(const seriatim_error *error)
{
    return error->status == SERIATIM_OK ? Qnil : native_error(error->status, error->message);
}

void srb_invalid(VALUE message)
{
    rb_exc_raise(rb_funcall(srb_native, rb_intern("error"), 2, ID2SYM(rb_intern("INVALID")), message));
}

void srb_raise_error(const seriatim_error *error)
{
    srb_raise(error->status, error->message[0] ? error->message : seriatim_status_text(error->status));
}

VALUE srb_bytes(const char *bytes, size_t len)
{
    return rb_str_new(bytes, (long)len);
}

VALUE srb_text(const char *bytes, size_t len)
{
    VALUE text = rb_utf8_str_new(bytes, (long)len);
    if (rb_enc_str_coderange(text) == ENC_CODERANGE_BROKEN)
        rb_enc_associate_index(text, rb_ascii8bit_encindex());
    return text;
}

void srb_pin(VALUE *buffer, int count, const VALUE *arrays)
{
    VALUE *pinned; /* the collector looks through the buffer as through a stack */
    long total = 0;
    int i;
    for (i = 0; i < count; i++) {
        Check_Type(arrays[i], T_ARRAY);
        total += RARRAY_LEN(arrays[i]);
    }
    pinned = rb_alloc_tmp_buffer(buffer, (total + 1) * (long)sizeof *pinned);
    for (i = 0; i < count; i++) {
        MEMCPY(pinned, RARRAY_CONST_PTR(arrays[i]), VALUE, RARRAY_LEN(arrays[i]));
        pinned += RARRAY_LEN(arrays[i]);
    }
}

/* Signals, Timeout, Thread#kill and fibers always interrupt the interpreter's own wait, and no other. */
void srb_wait(int fd, int wants, int timeout_ms)
{
    struct timeval limit;
    int events = 0;
    if (fd < 0) {
        rb_funcall(rb_mKernel, rb_intern("sleep"), 1, DBL2NUM(timeout_ms < 0 ? 1.0 : timeout_ms / 1000.0));
        return;
    }
    if (wants & SERIATIM_WANT_READ)
        events |= RB_WAITFD_IN;
    if (wants & SERIATIM_WANT_WRITE)
        events |= RB_WAITFD_OUT;
    limit.tv_sec = timeout_ms / 1000;
    limit.tv_usec = (timeout_ms % 1000) * 1000;
    rb_wait_for_single_fd(fd, events ? events : RB_WAITFD_IN, timeout_ms < 0 ? NULL : &limit);
}

typedef struct native_call {
    void (*f)(void *);
    void *p;
    int done;
} native_call;

static void *native_call_unlocked(void *arg)
{
    native_call *call = arg;
    call->f(call->p);
    call->done = 1;
    return NULL;
}

void srb_without_lock(void (*f)(void *), void *p)
{
    native_call call = {f, p, 0};
    rb_nogvl(native_call_unlocked, &call, NULL, NULL, RB_NOGVL_INTR_FAIL);
    if (!call.done)
        native_call_unlocked(&call);
}

static VALUE native_version(VALUE self)
{
    (void)self;
    return rb_utf8_str_new_cstr(seriatim_version());
}

static VALUE native_generation(VALUE self)
{
    (void)self;
    return ULONG2NUM(srb_generation());
}

RUBY_FUNC_EXPORTED void Init_seriatim_native(void)
{
    VALUE seriatim = rb_define_module("Seriatim");
    srb_native = rb_define_module_under(seriatim, "Native");
    rb_gc_register_mark_object(srb_native);
    rb_define_singleton_method(srb_native, "version", native_version, 0);
    rb_define_singleton_method(srb_native, "generation", native_generation, 0);
    rb_define_const(srb_native, "MAX_PAYLOAD", INT2FIX(SERIATIM_MAX_PAYLOAD));
    if (pthread_atfork(NULL, NULL, native_forked) != 0)
        rb_memerror();
    srb_init_definitions();
    srb_init_json();
    srb_init_policy();
    srb_init_link();
    srb_init_jobs();
    srb_init_runner();
    srb_init_private_redis();
    srb_init_fake();
}

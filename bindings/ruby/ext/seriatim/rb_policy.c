/*
 * rb_policy.c - Native.back_off, .split, .shard_of, .command_text and .printable: the core's functions without a state,
 * for what the gem does itself.
 */
#include "seriatim_native.h"

#include <ruby/random.h>

/* Native.back_off(count) -> seconds until the next run after the failure that made retry_count `count` */
static VALUE policy_back_off(VALUE self, VALUE count)
{
    (void)self;
    return DBL2NUM(seriatim_back_off(NUM2LL(count), rb_genrand_real()));
}

/* Native.back_off_of_events(count) -> the same by the table of delayedQueue */
static VALUE policy_back_off_of_events(VALUE self, VALUE count)
{
    (void)self;
    return DBL2NUM(seriatim_back_off_of_events(NUM2LL(count)));
}

/* Native.split(shards, nodes, node, threads) -> [[place, ...], ...]: this node's shards, dealt to its threads */
static VALUE policy_split(VALUE self, VALUE shards, VALUE nodes, VALUE node, VALUE threads)
{
    size_t count = NUM2SIZET(shards), hands, i, *groups;
    VALUE buffer, list = rb_ary_new();
    (void)self;
    groups = ALLOCV_N(size_t, buffer, count ? count : 1);
    hands = seriatim_split(count, NUM2SIZET(nodes), NUM2SIZET(node), NUM2SIZET(threads), groups);
    for (i = 0; i < hands; i++)
        rb_ary_push(list, rb_ary_new());
    for (i = 0; i < count; i++)
        if (groups[i] != SERIATIM_ELSEWHERE)
            rb_ary_push(rb_ary_entry(list, (long)groups[i]), SIZET2NUM(i));
    ALLOCV_END(buffer);
    return list;
}

/* Native.shard_of(id, shards_count) */
static VALUE policy_shard_of(VALUE self, VALUE id, VALUE shards_count)
{
    unsigned count = NUM2UINT(shards_count);
    (void)self;
    Check_Type(id, T_STRING);
    return UINT2NUM(seriatim_shard_of(RSTRING_PTR(id), (size_t)RSTRING_LEN(id), count));
}

/* Native.command_text(topic) -> the text, or nil */
static VALUE policy_command_text(VALUE self, VALUE topic)
{
    const char *text = seriatim_command_text(StringValueCStr(topic));
    (void)self;
    return text ? rb_utf8_str_new_cstr(text) : Qnil;
}

/*
 * Native.printable(text) -> the text, UTF-8, as a terminal and a log of lines may show it; itself where nothing is to
 * be escaped
 */
static VALUE policy_printable(VALUE self, VALUE text)
{
    size_t need;
    VALUE out;
    (void)self;
    Check_Type(text, T_STRING);
    need = seriatim_printable(RSTRING_PTR(text), (size_t)RSTRING_LEN(text), NULL, 0);
    if (need == (size_t)RSTRING_LEN(text))
        return text;
    out = rb_utf8_str_new(NULL, (long)need);
    seriatim_printable(RSTRING_PTR(text), (size_t)RSTRING_LEN(text), RSTRING_PTR(out), need);
    RB_GC_GUARD(text);
    return out;
}

void srb_init_policy(void)
{
    rb_define_singleton_method(srb_native, "command_text", policy_command_text, 1);
    rb_define_singleton_method(srb_native, "printable", policy_printable, 1);
    rb_define_singleton_method(srb_native, "back_off", policy_back_off, 1);
    rb_define_singleton_method(srb_native, "back_off_of_events", policy_back_off_of_events, 1);
    rb_define_singleton_method(srb_native, "split", policy_split, 4);
    rb_define_singleton_method(srb_native, "shard_of", policy_shard_of, 2);
}

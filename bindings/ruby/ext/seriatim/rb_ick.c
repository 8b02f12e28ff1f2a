/* rb_ick.c - the calls of two-phase commit sets, as a method of Seriatim::Native::Link. */
#include "rb_link.h"

#include <math.h>

#define SET(hash, name, value) rb_hash_aset(hash, rb_str_new_cstr(name), value)

/* ---- Calls ------------------------------------------------------------------------------------ */

static seriatim_text ick_text(VALUE text)
{
    seriatim_text t;
    Check_Type(text, T_STRING);
    t.data = RSTRING_PTR(text);
    t.len = (size_t)RSTRING_LEN(text);
    return t;
}

/* One call: [name of the call, name of the set, token, max_size, backwash, members, their scores or nil]. */
static int ick_call(seriatim_client *client, seriatim_ick *ick, VALUE call)
{
    VALUE lists[2], scores, buffer, pinned;
    seriatim_ick_member *members;
    seriatim_text kind;
    int64_t token, max_size;
    long i, count;
    int status;
    Check_Type(call, T_ARRAY);
    lists[0] = call;
    lists[1] = rb_ary_entry(call, 5);
    srb_pin(&pinned, 2, lists);
    kind = ick_text(rb_ary_entry(call, 0));
    ick->name = ick_text(rb_ary_entry(call, 1));
    token = NUM2LL(rb_ary_entry(call, 2));
    max_size = NUM2LL(rb_ary_entry(call, 3));
    scores = rb_ary_entry(call, 6);
    count = RARRAY_LEN(lists[1]);
    members = rb_alloc_tmp_buffer(&buffer, (count + 1) * (long)sizeof *members);
    for (i = 0; i < count; i++) {
        seriatim_text member = ick_text(rb_ary_entry(lists[1], i));
        members[i].data = member.data;
        members[i].len = member.len;
        members[i].score = NIL_P(scores) ? 0 : NUM2DBL(rb_ary_entry(scores, i));
    }
    ick->token = token;
    status =
        srt_ick_call(client, kind.data, kind.len, ick, max_size, RTEST(rb_ary_entry(call, 4)), members, (size_t)count);
    rb_free_tmp_buffer(&buffer);
    rb_free_tmp_buffer(&pinned);
    return status;
}

/* ---- Results ---------------------------------------------------------------------------------- */

static VALUE ick_pairs(const seriatim_ick_result *r)
{
    VALUE list = rb_ary_new_capa((long)r->count);
    size_t i;
    for (i = 0; i < r->count; i++)
        rb_ary_push(list, rb_assoc_new(srb_text(r->members[i].data, r->members[i].len), DBL2NUM(r->members[i].score)));
    return list;
}

static VALUE ick_score(double score)
{
    return srt_ick_is_whole(score) ? LL2NUM((long long)score) : DBL2NUM(score);
}

/* The lowest and the highest score, only if there is one. */
static void ick_range(VALUE hash, const char *low, const char *high, const seriatim_ick_figures *figures)
{
    if (isnan(figures->lowest))
        return;
    SET(hash, low, ick_score(figures->lowest));
    SET(hash, high, ick_score(figures->highest));
}

/* nil: there is no such set. */
static VALUE ick_stats(VALUE name, const seriatim_ick_result *r)
{
    VALUE hash;
    if (!r->exists)
        return Qnil;
    hash = rb_hash_new();
    SET(hash, "key", name);
    SET(hash, "pset_key", srb_text(r->producer_key.data, r->producer_key.len));
    SET(hash, "cset_key", srb_text(r->consumer_key.data, r->consumer_key.len));
    SET(hash, "ver", srb_text(r->version, strlen(r->version)));
    SET(hash, "cset_size", LL2NUM(r->consumer.size));
    SET(hash, "pset_size", LL2NUM(r->producer.size));
    SET(hash, "total_size", LL2NUM(r->total.size));
    SET(hash, "consumers", LL2NUM(r->consumers));
    ick_range(hash, "pset_min", "pset_max", &r->producer);
    ick_range(hash, "cset_min", "cset_max", &r->consumer);
    ick_range(hash, "total_min", "total_max", &r->total);
    return hash;
}

static VALUE ick_result(VALUE call, const seriatim_ick_result *r)
{
    VALUE row[7] = {
        LL2NUM(r->added), LL2NUM(r->lowered), LL2NUM(r->ended), LL2NUM(r->deleted), LL2NUM(r->token), Qnil, Qnil};
    row[5] = ick_pairs(r);
    row[6] = ick_stats(rb_ary_entry(call, 1), r);
    return rb_ary_new_from_values(7, row);
}

/*
 * link.ick(consumer, reserve_time, calls, seconds) -> for each call [new members, lowered scores, reservations that
 * were ended, keys that were deleted, token, [[member, score], ...], statistics or nil]
 */
static VALUE ick_trip(VALUE self, VALUE consumer, VALUE reserve_time, VALUE calls, VALUE seconds)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    const seriatim_ick_result *results;
    seriatim_ick ick = {{NULL, 0}, {NULL, 0}, 0, 0};
    VALUE list;
    size_t count;
    long i;
    Check_Type(calls, T_ARRAY);
    ick.reserve_time = NUM2DBL(reserve_time);
    ick.consumer = ick_text(consumer);
    srb_link_check(box, seriatim_ick_begin(client));
    for (i = 0; i < RARRAY_LEN(calls); i++)
        srb_link_check(box, ick_call(client, &ick, rb_ary_entry(calls, i)));
    RB_GC_GUARD(consumer);
    srb_link_check(box, seriatim_ick_send(client));
    srb_link_drive(box, seconds);
    list = rb_ary_new_capa(RARRAY_LEN(calls));
    results = seriatim_ick_results(client, &count);
    for (i = 0; i < (long)count; i++)
        rb_ary_push(list, ick_result(rb_ary_entry(calls, i), &results[i]));
    return list;
}

void srb_init_ick(VALUE link_class)
{
    rb_define_method(link_class, "ick", ick_trip, 4);
}

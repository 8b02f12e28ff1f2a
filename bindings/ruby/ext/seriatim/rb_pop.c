/* rb_pop.c - pop, and the reports on what was popped, as methods of Seriatim::Native::Link. */
#include "rb_link.h"

/* ---- Pop ------------------------------------------------------------------------------------- */

/* Numbers of queues, in a buffer for rb_free_tmp_buffer. */
static const size_t *pop_queues(VALUE list, VALUE *buffer, size_t *count)
{
    size_t *queues, i;
    Check_Type(list, T_ARRAY);
    *count = (size_t)RARRAY_LEN(list);
    queues = rb_alloc_tmp_buffer(buffer, (long)((*count + 1) * sizeof *queues));
    for (i = 0; i < *count; i++)
        queues[i] = NUM2SIZET(rb_ary_entry(list, (long)i));
    return queues;
}

/* A weight for each of `count` queues, or NULL for nil. */
static const int64_t *pop_weights(VALUE list, VALUE *buffer, size_t count)
{
    int64_t *weights;
    size_t i;
    *buffer = 0;
    if (NIL_P(list))
        return NULL;
    Check_Type(list, T_ARRAY);
    weights = rb_alloc_tmp_buffer(buffer, (long)((count + 1) * sizeof *weights));
    for (i = 0; i < count; i++)
        weights[i] = NUM2LL(rb_ary_entry(list, (long)i));
    return weights;
}

static VALUE pop_payload(const seriatim_payload *p)
{
    VALUE context = p->context_len ? srb_text(p->context, p->context_len) : Qnil;
    return rb_ary_new_from_args(4, srb_bytes(p->data, p->len), DBL2NUM(p->score), context, DBL2NUM(p->stamp));
}

static VALUE pop_payloads(const seriatim_claimed *job)
{
    VALUE list = rb_ary_new_capa((long)job->payload_count);
    size_t i;
    for (i = 0; i < job->payload_count; i++)
        rb_ary_push(list, pop_payload(&job->payloads[i]));
    return list;
}

static VALUE pop_result(const seriatim_popped *popped)
{
    const seriatim_claimed *job = &popped->job;
    VALUE token = popped->token.data ? srb_text(popped->token.data, popped->token.len) : Qnil;
    return rb_ary_new_from_args(6, SIZET2NUM(popped->queue), srb_text(job->id, job->id_len), LL2NUM(job->fence),
                                LL2NUM(popped->deliveries), token, pop_payloads(job));
}

/*
 * link.pop([queue, ...], [weight, ...] or nil, wait, ttr, max)
 *   -> nil: no id was due; or [queue, id, fence, deliveries, token or nil, [[bytes, score, context or nil, stamp],
 * ...]]
 */
static VALUE link_pop(VALUE self, VALUE queues, VALUE weights, VALUE wait, VALUE ttr, VALUE max)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    const seriatim_popped *popped;
    VALUE queues_buffer, weights_buffer;
    seriatim_pop pop;
    int status;
    seriatim_pop_init(&pop);
    pop.wait = NUM2DBL(wait);
    pop.ttr = NUM2DBL(ttr);
    pop.max = NUM2LL(max);
    pop.queues = pop_queues(queues, &queues_buffer, &pop.queue_count);
    pop.weights = pop_weights(weights, &weights_buffer, pop.queue_count);
    status = seriatim_pop_begin(client, &pop);
    rb_free_tmp_buffer(&queues_buffer);
    rb_free_tmp_buffer(&weights_buffer);
    srb_link_check(box, status);
    srb_link_drive(box, Qnil);
    popped = seriatim_pop_result(client);
    return popped ? pop_result(popped) : Qnil;
}

/* ---- Reports --------------------------------------------------------------------------------- */

/* Only scores and stamps: [[score, stamp], ...], in a buffer for rb_free_tmp_buffer. */
static const seriatim_payload *popped_payloads(VALUE list, VALUE *buffer, size_t *count)
{
    seriatim_payload *payloads;
    size_t i;
    *count = 0;
    *buffer = 0;
    if (NIL_P(list))
        return NULL;
    Check_Type(list, T_ARRAY);
    *count = (size_t)RARRAY_LEN(list);
    payloads = rb_alloc_tmp_buffer(buffer, (long)((*count + 1) * sizeof *payloads));
    memset(payloads, 0, (*count + 1) * sizeof *payloads);
    for (i = 0; i < *count; i++) {
        VALUE pair = rb_ary_entry(list, (long)i);
        Check_Type(pair, T_ARRAY);
        payloads[i].score = NUM2DBL(rb_ary_entry(pair, 0));
        payloads[i].stamp = NUM2DBL(rb_ary_entry(pair, 1));
    }
    return payloads;
}

/* link.popped(token, kind, seconds, text or nil, [[score, stamp], ...] or nil); kind: a value of Native::POPPED */
static VALUE link_popped(VALUE self, VALUE token, VALUE kind, VALUE seconds, VALUE text, VALUE payloads)
{
    srb_link *box = srb_link_idle(self);
    seriatim_popped_outcome outcome = {0};
    seriatim_text of;
    VALUE buffer;
    int status;
    Check_Type(token, T_STRING);
    outcome.kind = NUM2INT(kind);
    outcome.seconds = NUM2DBL(seconds);
    if (!NIL_P(text))
        Check_Type(text, T_STRING);
    outcome.payloads = popped_payloads(payloads, &buffer, &outcome.payload_count);
    outcome.text.data = NIL_P(text) ? NULL : RSTRING_PTR(text);
    outcome.text.len = NIL_P(text) ? 0 : (size_t)RSTRING_LEN(text);
    of.data = RSTRING_PTR(token);
    of.len = (size_t)RSTRING_LEN(token);
    status = seriatim_popped_begin(seriatim_link_client(box->link), of, &outcome);
    rb_free_tmp_buffer(&buffer);
    RB_GC_GUARD(text);
    RB_GC_GUARD(token);
    srb_link_check(box, status);
    srb_link_drive(box, Qnil);
    return Qnil;
}

/* Native::POPPED: {ack: ..., fail: ...}, the kinds that link.popped takes */
static VALUE popped_kinds(void)
{
    VALUE kinds = rb_hash_new();
#define KIND(name, number) rb_hash_aset(kinds, ID2SYM(rb_intern(name)), INT2FIX(number))
    KIND("ack", SERIATIM_POPPED_ACK);
    KIND("fail", SERIATIM_POPPED_FAIL);
    KIND("release", SERIATIM_POPPED_RELEASE);
    KIND("extend", SERIATIM_POPPED_EXTEND);
    KIND("snooze", SERIATIM_POPPED_SNOOZE);
    KIND("checkpoint", SERIATIM_POPPED_CHECKPOINT);
    KIND("reject", SERIATIM_POPPED_REJECT);
#undef KIND
    return rb_hash_freeze(kinds);
}

void srb_init_pop(VALUE link_class)
{
    rb_define_const(srb_native, "POPPED", popped_kinds());
    rb_define_method(link_class, "pop", link_pop, 5);
    rb_define_method(link_class, "popped", link_popped, 5);
}

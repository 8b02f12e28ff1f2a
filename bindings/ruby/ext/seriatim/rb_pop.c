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
    VALUE error = job->error_len ? srb_text(job->error, job->error_len) : Qnil;
    return rb_ary_new_from_args(9, SIZET2NUM(popped->queue), srb_text(job->id, job->id_len), LL2NUM(job->fence),
                                LL2NUM(popped->deliveries), token, LL2NUM(job->retry_count), error,
                                popped->more ? Qtrue : Qfalse, pop_payloads(job));
}

/*
 * link.pop([queue, ...], [weight, ...] or nil, wait, ttr, max)
 *   -> nil: no id was due; or [queue, id, fence, deliveries, token or nil, retry_count, error or nil, more,
 *      [[bytes, score, context or nil, stamp], ...]]
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

/* How many payloads a checkpoint is about, or the stamps of those that a rejection is about, in a buffer for
 * rb_free_tmp_buffer. */
static void popped_set_payloads(seriatim_popped_outcome *outcome, VALUE list, VALUE *buffer)
{
    seriatim_payload *payloads;
    size_t i;
    *buffer = 0;
    if (RB_INTEGER_TYPE_P(list))
        outcome->payload_count = NUM2SIZET(list);
    if (NIL_P(list) || RB_INTEGER_TYPE_P(list))
        return;
    Check_Type(list, T_ARRAY);
    outcome->payload_count = (size_t)RARRAY_LEN(list);
    payloads = rb_alloc_tmp_buffer(buffer, (long)((outcome->payload_count + 1) * sizeof *payloads));
    memset(payloads, 0, (outcome->payload_count + 1) * sizeof *payloads);
    for (i = 0; i < outcome->payload_count; i++)
        payloads[i].stamp = NUM2DBL(rb_ary_entry(list, (long)i));
    outcome->payloads = payloads;
}

/*
 * link.popped(token, kind, seconds, text or nil, payloads); kind: a value of Native::POPPED; payloads: a number of them
 * for :checkpoint, an array of stamps for :reject, else nil
 */
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
    popped_set_payloads(&outcome, payloads, &buffer);
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

/* Native.token_parts(token) -> [queue, id, fence, number of payloads], or nil: the text is no token of a delivery */
static VALUE token_parts(VALUE self, VALUE text)
{
    char bytes[SERIATIM_TOKEN];
    seriatim_token_parts parts;
    seriatim_text token;
    (void)self;
    Check_Type(text, T_STRING);
    token.data = RSTRING_PTR(text);
    token.len = (size_t)RSTRING_LEN(text);
    if (seriatim_token_read(token, bytes, &parts) != SERIATIM_OK)
        return Qnil;
    return rb_ary_new_from_args(4, srb_text(parts.queue.data, parts.queue.len), srb_text(parts.id.data, parts.id.len),
                                LL2NUM(parts.fence), SIZET2NUM(parts.payload_count));
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
    rb_define_module_function(srb_native, "token_parts", token_parts, 1);
    rb_define_method(link_class, "pop", link_pop, 5);
    rb_define_method(link_class, "popped", link_popped, 5);
}

/* ick_request.c - begins and sends the requests of a two-phase commit set. */
#include "client/ick.h"

/* Writes the prefix of the keys of the set, and behind it, as bulk strings, the KEYS. Returns the prefix's length. */
static size_t ick_keys(seriatim_client *c, ick_state *s, const ick_call *call, int consumer)
{
    srt_bytes prefix;
    size_t len;
    srt_bytes_clear(&s->keys);
    srt_bytes_init(&prefix, s->mem);
    srt_key_ick(&prefix, c->registry.ns.data, call->name.data, call->name.len);
    srt_key_ick_args(&s->keys, prefix.data, prefix.len);
    len = prefix.len;
    if (consumer) {
        srt_bytes_adds(&prefix, "cset:");
        srt_bytes_add(&prefix, call->consumer.data, call->consumer.len);
        srt_resp_arg(&s->keys, prefix.data, prefix.len);
    }
    s->keys.failed |= prefix.failed;
    srt_bytes_free(&prefix);
    return len;
}

srt_request *srt_ick_request(seriatim_client *c, ick_state *s, const ick_call *call, int script, int consumer)
{
    srt_request *r;
    ick_keys(c, s, call, consumer);
    r = s->keys.failed ? NULL
                       : srt_session_begin(srt_cluster_pool(&c->cluster), script, &s->keys,
                                           SRT_ICK_KEYS + (size_t)(consumer != 0));
    if (!r) {
        srt_operator_nomem(c);
        return NULL;
    }
    if (consumer)
        srt_request_arg(r, call->consumer.data, call->consumer.len);
    return r;
}

int srt_ick_send(seriatim_client *c, const ick_state *s, ick_call *call, srt_request *r, int kind)
{
    call->asked++;
    r->kind = kind;
    r->place = (size_t)(call - s->calls);
    return srt_client_send(c, r);
}

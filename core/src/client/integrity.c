/*
 * integrity.c - proves what is stored of a queue, shard by shard, slice by slice, and that all keys of the namespace
 * are somebody's.
 */
#include "client/integrity.h"

#include <stdlib.h>

static void integrity_release(seriatim_client *c)
{
    integrity_state *k = c->state;
    srt_bytes_free(&k->left);
    srt_bytes_free(&k->pattern);
    srt_bytes_free(&k->name);
    srt_free(k->mem, k->queues, k->queue_cap * sizeof *k->queues);
    srt_free(k->mem, k->ick_keys, k->ick_cap * sizeof *k->ick_keys);
    srt_arena_free(&k->memory);
    srt_arena_free(&k->results);
    srt_free(k->mem, k->listed, k->listed_cap * sizeof *k->listed);
    srt_free(k->mem, k->missing, k->missing_cap * sizeof *k->missing);
    srt_free(k->mem, k->findings, k->cap * sizeof *k->findings);
    srt_free(k->mem, k, sizeof *k);
}

static int integrity_send(seriatim_client *c, srt_queue *queue)
{
    integrity_state *k = c->state;
    srt_arena_reset(&k->results);
    k->count = k->looked_at = 0;
    k->records = k->keys = 0;
    k->queue = queue;
    k->shard = 0;
    k->step = INTEGRITY_TYPES;
    srt_bytes_clear(&k->left);
    srt_bytes_clear(&k->pattern);
    srt_key_shard(&k->pattern, c->registry.ns.data, queue->name.data, queue->name.len, 0);
    if (k->pattern.failed)
        return srt_operator_nomem(c);
    k->prefix = k->pattern.len -= 3; /* without 0}: */
    srt_bytes_adds(&k->pattern, "*}:*");
    if (k->pattern.failed)
        return srt_operator_nomem(c);
    if (queue->shards_count == 0) { /* there is no such queue, or its layout is gone */
        k->step = INTEGRITY_SCAN;
        return srt_integrity_ask_scan(c, k, NULL, INTEGRITY_SCAN);
    }
    return srt_integrity_go_on(c, k);
}

static int integrity_on_list(seriatim_client *c, integrity_state *k, const srt_reply *reply)
{
    size_t i;
    int status = SERIATIM_OK;
    if (!srt_reply_is_list(reply, 1))
        return srt_operator_protocol(c, "list");
    for (i = 2; i < reply->count && status == SERIATIM_OK; i += 2)
        status = srt_integrity_list(c, k, &reply->tokens[i]);
    if (status != SERIATIM_OK)
        return status;
    if (srt_token_int(&reply->tokens[1]) >= 0)
        return srt_integrity_ask_list(c, k, srt_token_int(&reply->tokens[1]));
    if (k->listed_count > 1)
        qsort(k->listed, k->listed_count, sizeof *k->listed, srt_integrity_compare);
    if (k->step == INTEGRITY_LIST_AGAIN)
        srt_integrity_keep_missing(k);
    k->step++;
    return srt_integrity_go_on(c, k);
}

/* A shard whose keys are not what the scripts need is left alone. */
static int integrity_on_types(seriatim_client *c, integrity_state *k, const srt_request *r, const srt_reply *reply)
{
    size_t looked_at = k->looked_at;
    int status = srt_integrity_take(c, k, r, reply), closed;
    k->looked_at = looked_at;
    if (status != SERIATIM_OK)
        return status;
    closed = srt_token_is(&reply->tokens[1], "1");
    srt_bytes_addc(&k->left, (char)closed);
    k->step = closed ? INTEGRITY_STEPS : INTEGRITY_LIST_READY;
    return k->left.failed ? srt_operator_nomem(c) : srt_integrity_go_on(c, k);
}

static int integrity_on_slice(seriatim_client *c, integrity_state *k, const srt_request *r, const srt_reply *reply)
{
    int status = srt_integrity_take(c, k, r, reply);
    if (status != SERIATIM_OK || r->kind == INTEGRITY_OWNED)
        return status;
    if (r->kind == INTEGRITY_NODES)
        return srt_integrity_ask_scan(c, k, NULL, INTEGRITY_NAMESPACE);
    if (!srt_token_is(&reply->tokens[1], "0"))
        return srt_integrity_ask(c, k, &reply->tokens[1]);
    if (k->step != INTEGRITY_CONFIRM_READY || k->confirmed == k->missing_count)
        k->step++;
    return srt_integrity_go_on(c, k);
}

static int integrity_on_scan(seriatim_client *c, integrity_state *k, const srt_reply *reply, int kind)
{
    const srt_token *at = reply->tokens;
    size_t i;
    int status = SERIATIM_OK;
    if (reply->count < 3 || at[0].type != SRT_ARRAY || at[0].integer != 2 || at[2].type != SRT_ARRAY)
        return srt_operator_protocol(c, "SCAN");
    k->keys += (int64_t)reply->count - 3;
    for (i = 3; i < reply->count && status == SERIATIM_OK; i++)
        status = kind == INTEGRITY_SCAN ? srt_integrity_key(c, k, &at[i]) : srt_integrity_any_key(c, k, &at[i]);
    if (kind == INTEGRITY_SCAN && k->queue->shards_count == 0 && k->count > 0) /* all is said */
        return status;
    if (status == SERIATIM_OK && (!srt_token_is(&at[1], "0") || srt_scan_turn(&k->scan, &c->cluster)))
        status = srt_integrity_ask_scan(c, k, &at[1], kind);
    return status;
}

static int integrity_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    switch (r->kind) {
    case INTEGRITY_TYPES:
        return integrity_on_types(c, c->state, r, reply);
    case INTEGRITY_LIST_READY:
    case INTEGRITY_LIST_AGAIN:
        return integrity_on_list(c, c->state, reply);
    case INTEGRITY_SCAN:
    case INTEGRITY_NAMESPACE:
        return integrity_on_scan(c, c->state, reply, r->kind);
    case INTEGRITY_LAYOUT:
        return srt_integrity_on_layout(c, c->state, r, reply);
    case INTEGRITY_ICK:
        return srt_integrity_on_ick(c, c->state, r, reply);
    default:
        return integrity_on_slice(c, c->state, r, reply);
    }
}

/* What a script stumbles over is a finding; the check goes on with what comes next. */
static int integrity_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    static const seriatim_text none = {"", 0};
    integrity_state *k = c->state;
    int status;
    if (error->status != SERIATIM_SERVER || r->kind == INTEGRITY_SCAN || r->kind == INTEGRITY_NAMESPACE) {
        c->error = *error;
        return srt_client_fail(c, error->status);
    }
    if (r->kind == INTEGRITY_LAYOUT)
        return srt_integrity_find_plain(c, k, "layout", k->queues[r->place].name, error->message);
    if (r->kind == INTEGRITY_ICK)
        return srt_integrity_ick_refused(c, k, r, error->message);
    status = srt_integrity_find_plain(c, k, "error", none, error->message);
    if (status != SERIATIM_OK)
        return status;
    k->findings[k->count - 1].shard = (unsigned)r->place;
    if (r->kind == INTEGRITY_OWNED)
        return SERIATIM_OK;
    if (r->kind == INTEGRITY_NODES)
        return srt_integrity_ask_scan(c, k, NULL, INTEGRITY_NAMESPACE);
    k->unlisted |= r->kind == INTEGRITY_LIST_READY || r->kind == INTEGRITY_LIST_AGAIN;
    if (r->kind == INTEGRITY_TYPES)
        srt_bytes_addc(&k->left, 1);
    k->step = r->kind == INTEGRITY_TYPES ? INTEGRITY_STEPS : (integrity_step)(r->kind + 1);
    if (k->left.failed)
        return srt_operator_nomem(c);
    return srt_integrity_go_on(c, k);
}

/* The records of the shards first, then the keys that SCAN gives, of which nobody knows how many there are. */
static srt_done integrity_done(const seriatim_client *c)
{
    static const char *const records = "records", *const keys = "keys";
    const integrity_state *k = c->state;
    int scans = c->operation->send == srt_integrity_send_namespace || k->step == INTEGRITY_SCAN;
    srt_done done = {scans ? k->keys : k->records, scans ? keys : records};
    return done;
}

int seriatim_check_begin(seriatim_client *c, size_t queue, int repair)
{
    static const srt_operation of_queue = {.fresh = 1,
                                           .send = integrity_send,
                                           .on_reply = integrity_on_reply,
                                           .on_refused = integrity_on_refused,
                                           .release = integrity_release,
                                           .done = integrity_done};
    static const srt_operation of_namespace = {.send = srt_integrity_send_namespace,
                                               .on_reply = integrity_on_reply,
                                               .on_refused = integrity_on_refused,
                                               .on_end = srt_integrity_on_end,
                                               .release = integrity_release,
                                               .done = integrity_done};
    integrity_state *k;
    int status = srt_operator_begin(c, sizeof *k);
    if (status != SERIATIM_OK)
        return status;
    k = c->state;
    k->mem = c->mem;
    k->repair = repair != 0;
    srt_bytes_init(&k->left, c->mem);
    srt_bytes_init(&k->pattern, c->mem);
    srt_bytes_init(&k->name, c->mem);
    srt_arena_init(&k->memory, c->mem);
    srt_arena_init(&k->results, c->mem);
    return queue == SERIATIM_NO_QUEUE ? srt_client_start_alone(c, &of_namespace)
                                      : srt_client_start(c, &of_queue, queue);
}

static const integrity_state *integrity_of(const seriatim_client *c)
{
    int ours =
        c->operation && (c->operation->send == integrity_send || c->operation->send == srt_integrity_send_namespace);
    return ours ? c->state : NULL;
}

const seriatim_finding *seriatim_check_result(const seriatim_client *c, size_t *count)
{
    const integrity_state *k = integrity_of(c);
    *count = k ? k->count : 0;
    return k ? k->findings : NULL;
}

size_t seriatim_check_looked_at(const seriatim_client *c)
{
    const integrity_state *k = integrity_of(c);
    return k ? k->looked_at : 0;
}

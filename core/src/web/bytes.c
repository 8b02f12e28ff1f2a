/* bytes.c - about how much memory a queue's keys take, by Redis' own estimate of a few entries each. */
#include "wire/keys.h"
#include "web/web.h"

#include <string.h>

#define BYTES_SHARDS 50 /* that are asked; the rest is taken to be alike */

enum { BYTES_LAYOUT, BYTES_KEY };

typedef struct bytes_page {
    int64_t shards, asked, bytes;
    int refused; /* a Redis that does not answer MEMORY USAGE */
} bytes_page;

static int bytes_ask(seriatim_client *c, const srt_bytes *key, int kind)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    if (!r)
        return srt_operator_nomem(c);
    if (kind == BYTES_KEY) {
        srt_request_text(r, "MEMORY");
        srt_request_text(r, "USAGE");
    } else {
        srt_request_text(r, "GET");
    }
    srt_request_arg(r, key->data, key->len);
    if (kind == BYTES_KEY) {
        srt_request_text(r, "SAMPLES");
        srt_request_text(r, "5");
    }
    r->tail.failed |= key->failed;
    r->kind = kind;
    return srt_client_send(c, r);
}

static int bytes_send(seriatim_client *c, srt_queue *queue)
{
    srt_web *w = c->web;
    srt_bytes key;
    int status;
    (void)queue;
    memset(w->page, 0, sizeof(bytes_page));
    srt_bytes_init(&key, c->mem);
    srt_key_layout(&key, c->registry.ns.data, w->worker.data, w->worker.len);
    status = bytes_ask(c, &key, BYTES_LAYOUT);
    srt_bytes_free(&key);
    return status;
}

static int bytes_ask_shard(seriatim_client *c, const srt_web *w, unsigned shard)
{
    srt_bytes key;
    size_t i;
    int status = SERIATIM_OK;
    srt_bytes_init(&key, c->mem);
    for (i = 0; srt_shard_kinds[i] && status == SERIATIM_OK; i++) {
        srt_bytes_clear(&key);
        srt_key_shard(&key, c->registry.ns.data, w->worker.data, w->worker.len, shard);
        srt_bytes_adds(&key, srt_shard_kinds[i]);
        status = bytes_ask(c, &key, BYTES_KEY);
    }
    srt_bytes_free(&key);
    return status;
}

static int bytes_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    const srt_web *w = c->web;
    bytes_page *page = w->page;
    const srt_token *at = &reply->tokens[0];
    srt_layout layout;
    unsigned shard;
    int status = SERIATIM_OK;
    if (r->kind == BYTES_KEY) {
        page->bytes += at->type == SRT_INTEGER ? srt_token_int(at) : 0; /* no key: null */
        return SERIATIM_OK;
    }
    if (at->type != SRT_STRING || srt_layout_read(at->data, at->len, &layout, NULL) != SERIATIM_OK)
        return SERIATIM_OK;
    page->shards = layout.shards;
    page->asked = page->shards < BYTES_SHARDS ? page->shards : BYTES_SHARDS;
    for (shard = 0; shard < (unsigned)page->asked && status == SERIATIM_OK; shard++)
        status = bytes_ask_shard(c, w, shard);
    return status;
}

static int bytes_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    (void)r;
    (void)error;
    ((bytes_page *)c->web->page)->refused = 1;
    return SERIATIM_OK;
}

static int bytes_begin(seriatim_client *c, srt_web *w)
{
    static const srt_operation operation = {
        .send = bytes_send, .on_reply = bytes_on_reply, .on_refused = bytes_on_refused};
    (void)w;
    return srt_client_begin_alone(c, &operation);
}

int srt_web_bytes_next(seriatim_client *c, srt_web *w)
{
    if (w->step == 0) {
        w->page = srt_arena_alloc(&w->memory, sizeof(bytes_page));
        if (!w->page)
            return SERIATIM_NOMEM;
        memset(w->page, 0, sizeof(bytes_page));
    }
    return srt_web_on_queue(c, w, bytes_begin);
}

void srt_web_bytes_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    const bytes_page *page = w->page;
    (void)c;
    srt_json_begin_object(&out->json);
    if (page->refused)
        srt_web_null(out, "bytes");
    else
        srt_web_int(out, "bytes",
                    page->asked ? (int64_t)((double)page->bytes / (double)page->asked * (double)page->shards) : 0);
    srt_web_bool(out, "exact", page->asked == page->shards);
    srt_json_end_object(&out->json);
}

/* running.c - what runs, over all queues or on one node, as far as one page shows it. */
#include "web/web.h"

#include <string.h>

typedef struct running_id {
    const srt_web_row *row;
    unsigned shard;
    seriatim_text id;
    int64_t fence, payloads;
} running_id;

typedef struct running_page {
    seriatim_text node; /* only what runs in shards that it owns; empty: in all */
    int64_t limit, asked, busy;
    running_id *ids;
    size_t count;
} running_page;

static int running_ask(seriatim_client *c, srt_web *w, size_t row, unsigned shard, int64_t limit)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_running, NULL, 0);
    srt_bytes key;
    if (!r)
        return srt_operator_nomem(c);
    srt_bytes_init(&key, c->mem);
    srt_key_shard(&key, c->registry.ns.data, w->rows[row].name.data, w->rows[row].name.len, shard);
    srt_bytes_adds(&key, "state");
    srt_request_arg(r, key.data, key.len);
    r->tail.failed |= key.failed;
    r->keys = 1;
    srt_request_int(r, limit);
    r->kind = (int)shard;
    r->place = row;
    srt_bytes_free(&key);
    return srt_client_send(c, r);
}

static int running_is_chosen(const running_page *page, const srt_web_shard *shard)
{
    return page->node.len == 0 || srt_web_word_is(page->node, shard->owner);
}

/* Shard after shard, until they hold enough for the page. */
static int running_send(seriatim_client *c, srt_queue *queue)
{
    srt_web *w = c->web;
    running_page *page = w->page;
    size_t row;
    unsigned shard;
    int status = SERIATIM_OK;
    (void)queue;
    for (row = 0; row < w->row_count; row++)
        for (shard = 0; shard < w->rows[row].shards_count && w->rows[row].shards && status == SERIATIM_OK; shard++) {
            int64_t busy = w->rows[row].shards[shard].busy;
            if (!running_is_chosen(page, &w->rows[row].shards[shard]))
                continue;
            page->busy += busy;
            if (busy <= 0 || page->asked >= page->limit)
                continue;
            status = running_ask(c, w, row, shard, page->limit - page->asked);
            page->asked += busy;
        }
    return status;
}

static int running_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    srt_web *w = c->web;
    running_page *page = w->page;
    size_t i;
    if (!srt_reply_is_list(reply, 1) || (reply->count - 2) % 3 != 0)
        return srt_operator_protocol(c, "running");
    for (i = 2; i < reply->count && (int64_t)page->count < page->limit; i += 3) {
        const srt_token *at = &reply->tokens[i];
        running_id *id = &page->ids[page->count];
        srt_token fence = {SRT_STRING, 0, NULL, 0};
        id->row = &w->rows[r->place];
        id->shard = (unsigned)r->kind;
        id->id.data = srt_arena_copy(&w->memory, at[0].data, at[0].len);
        id->id.len = at[0].len;
        id->payloads = srt_token_int(&at[2]);
        if (!id->id.data)
            return srt_operator_nomem(c);
        if (at[1].len > 2) {
            fence.data = at[1].data + 2;
            fence.len = at[1].len - 2;
            id->fence = srt_token_int(&fence);
        }
        page->count++;
    }
    return SERIATIM_OK;
}

/* A shard whose slot moves is left out. */
static int running_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    if (r->gave_up)
        return SERIATIM_OK;
    c->error = *error;
    return srt_client_fail(c, error->status);
}

static int running_begin(seriatim_client *c, srt_web *w)
{
    static const srt_operation operation = {
        .send = running_send, .on_reply = running_on_reply, .on_refused = running_on_refused};
    running_page *page = w->page;
    page->ids = srt_arena_alloc(&w->memory, (size_t)page->limit * sizeof *page->ids);
    if (!page->ids)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    memset(page->ids, 0, (size_t)page->limit * sizeof *page->ids);
    return srt_client_begin_alone(c, &operation);
}

int srt_web_running_next(seriatim_client *c, srt_web *w)
{
    running_page *page = w->page;
    int status;
    if (!page) {
        page = srt_arena_alloc(&w->memory, sizeof *page);
        if (!page)
            return SERIATIM_NOMEM;
        memset(page, 0, sizeof *page);
        w->page = page;
        page->node = srt_web_param_of(w, "node");
        if (!srt_web_param_int(w, "limit", 1, 1000, SRT_WEB_ROWS, &page->limit))
            return SRT_WEB_DONE;
    }
    status = w->step <= 1 ? srt_web_queue_stats_all(c, w) : SRT_WEB_DONE;
    if (status != SRT_WEB_DONE || w->step > 2)
        return status;
    return running_begin(c, w);
}

void srt_web_running_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    const running_page *page = w->page;
    size_t i;
    (void)c;
    srt_json_begin_object(&out->json);
    srt_web_bool(out, "more", page->busy > (int64_t)page->count);
    srt_web_double(out, "now", (double)w->now_us / 1e6);
    srt_web_key(out, "running");
    srt_json_begin_array(&out->json);
    for (i = 0; i < page->count; i++) {
        const running_id *id = &page->ids[i];
        srt_json_begin_object(&out->json);
        srt_web_text(out, "id", id->id.data, id->id.len);
        srt_web_chars(out, "owner", id->row->shards[id->shard].owner);
        srt_web_bool(out, "owner_alive", id->row->shards[id->shard].owner_alive);
        srt_web_int(out, "payload_total", id->payloads);
        srt_web_text(out, "queue", id->row->name.data, id->row->name.len);
        srt_web_int(out, "shard", id->shard);
        srt_web_double(out, "since", (double)id->fence / 1e6);
        srt_json_end_object(&out->json);
    }
    srt_json_end_array(&out->json);
    srt_web_int(out, "total", page->busy);
    srt_json_end_object(&out->json);
}

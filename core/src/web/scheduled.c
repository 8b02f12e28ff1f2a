/*
 * scheduled.c - pages of one queue's scheduled payloads, and what an operator does to one payload by its handle.
 *
 * A cursor is a deliver_at, an arrival and an id: payloads with the same deliver_at are in the order of their
 * arrivals, and those with the same arrival, of which each shard may have one, in the order of their ids.
 */
#include "client/handle.h"
#include "web/scan.h"

#include <string.h>

#define SCHEDULED_STAMP 8 /* bytes of an arrival */

typedef struct scheduled_page {
    seriatim_text id, from; /* data NULL: absent */
    int64_t limit;
    int down, has_after;
    srt_target after;
} scheduled_page;

/* ---- A page -------------------------------------------------------------------------------- */

static seriatim_text scheduled_param(const srt_web *w, const char *name)
{
    seriatim_text text = srt_web_param_of(w, name);
    if (text.len == 0)
        text.data = NULL;
    return text;
}

static int scheduled_read(srt_web *w)
{
    seriatim_text order = srt_web_param_of(w, "order"), cursor = scheduled_param(w, "cursor");
    scheduled_page *page = srt_arena_alloc(&w->memory, sizeof *page);
    if (!page)
        return SERIATIM_NOMEM;
    memset(page, 0, sizeof *page);
    w->page = page;
    page->id = scheduled_param(w, "id");
    page->from = scheduled_param(w, "from");
    if (page->id.data && page->id.len > SERIATIM_MAX_ID)
        return srt_web_refuse(w, 400, "id must be at most %d bytes", SERIATIM_MAX_ID);
    page->down = srt_web_word_is(order, "desc");
    if (order.data && !page->down && !srt_web_word_is(order, "asc"))
        return srt_web_refuse(w, 400, "order must be asc or desc");
    if (!srt_web_param_int(w, "limit", 1, SRT_WEB_ROWS, SRT_WEB_ROWS, &page->limit))
        return SRT_WEB_DONE;
    page->has_after = cursor.data != NULL;
    return page->has_after ? srt_web_cursor_read(w, cursor, SCHEDULED_STAMP, &page->after) : SERIATIM_OK;
}

static int scheduled_begin(seriatim_client *c, srt_web *w)
{
    const scheduled_page *page = w->page;
    seriatim_query query;
    seriatim_query_init(&query, SERIATIM_RANGE_BY_DELIVER_AT);
    query.reverse = page->down;
    query.limit = page->limit;
    query.ids = &page->id;
    query.id_count = page->id.data != NULL;
    if (page->down)
        query.max = page->from;
    else
        query.min = page->from;
    return srt_query_begin(c, w->queue, &query, page->has_after ? &page->after : NULL, 0);
}

int srt_web_scheduled_next(seriatim_client *c, srt_web *w)
{
    int status = w->step == 0 ? scheduled_read(w) : SERIATIM_OK;
    return status == SERIATIM_OK ? srt_web_on_queue(c, w, scheduled_begin) : status;
}

/* The cursor of the next page; data NULL: nothing follows, or there is no memory, so the body fails. */
static seriatim_text scheduled_cursor(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    const srt_target *last = srt_query_more(c);
    seriatim_text cursor = {NULL, 0};
    srt_bytes text;
    if (!last)
        return cursor;
    srt_bytes_init(&text, w->mem);
    srt_web_cursor_of(&text, last->key, last->id, last->len);
    if (!text.failed)
        cursor.data = srt_arena_copy(&w->memory, text.data, text.len);
    cursor.len = text.len;
    out->body->failed |= !cursor.data;
    srt_bytes_free(&text);
    return cursor;
}

void srt_web_scheduled_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    size_t count;
    const seriatim_record *records = seriatim_query_result(c, &count);
    srt_json_begin_object(&out->json);
    srt_web_write_cursor(out, scheduled_cursor(c, w, out));
    srt_web_key(out, "payloads");
    srt_web_write_payloads(out, w->worker, records, count);
    srt_json_end_object(&out->json);
}

/* ---- Cancel and reschedule ------------------------------------------------------------------ */

static int scheduled_begin_change(seriatim_client *c, srt_web *w)
{
    seriatim_text texts[2];
    texts[0] = w->handle;
    texts[1] = w->at;
    w->is_changing = 1;
    return seriatim_action_begin(c, w->queue, w->handler->number, texts, w->at.data ? 2 : 1);
}

/* The id of the handle, for the audit. */
static int scheduled_read_handle(srt_web *w)
{
    srt_handle handle;
    int status = w->handle.data ? srt_handle_read(&w->memory, w->handle, &handle) : SERIATIM_INVALID;
    if (status == SERIATIM_INVALID)
        return srt_web_refuse(w, 400, "a handle is missing, or is not one that a push has answered");
    if (status != SERIATIM_OK)
        return status;
    if ((w->handler->number == SERIATIM_RESCHEDULE) != (w->at.data != NULL))
        return srt_web_refuse(w, 400,
                              w->at.data ? "this action takes no time" : "at is missing: a Unix time in seconds");
    w->id = handle.id;
    w->ids = &w->id;
    w->id_count = 1;
    return SERIATIM_OK;
}

int srt_web_handle_next(seriatim_client *c, srt_web *w)
{
    int status = w->step == 0 ? scheduled_read_handle(w) : SERIATIM_OK;
    if (status == SERIATIM_OK)
        status = srt_web_on_queue(c, w, scheduled_begin_change);
    return status == SRT_WEB_DONE && !w->status ? srt_web_done(w, seriatim_action_result(c)) : status;
}

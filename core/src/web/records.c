/* records.c - pages of one queue's ids: by an index, exactly; by id, what can be read in a moment. */
#include "web/scan.h"

#include <string.h>

enum { BY_ID, BY_TIME, BY_RETRY };

typedef struct records_part {
    const char *word;
    const char *stages[2];
    unsigned stage_count;
    int fetch;   /* the query that reads the ids of a scan */
    int by_time; /* the query by time, or -1: it is read like by id */
    int has_retry;
} records_part;

static const records_part records_parts[] = {
    {"waiting", {"waiting", "behind"}, 2, SRT_FETCH_WAITING, SERIATIM_RANGE_BY_PERFORM_IN, 1},
    {"retrying", {"retrying", NULL}, 1, SRT_FETCH_WAITING, -1, 1},
    {"running", {"running", NULL}, 1, SRT_FETCH_RUNNING, -1, 0},
    {"parked", {"parked", NULL}, 1, SRT_FETCH_WAITING, SERIATIM_PARKED, 0},
    {"dead", {"dead", NULL}, 1, SERIATIM_MORGUE_FETCH, SERIATIM_MORGUE_RANGE_BY_UPDATED_AT, 0},
};

typedef struct records_page {
    const records_part *part;
    int by, down;
    int64_t limit;
    srt_target after;
    int has_after;
    seriatim_text from;
    seriatim_text error; /* only what failed with an error of this group, by its fingerprint */
    seriatim_text next;  /* the cursor */
} records_page;

static const records_part *records_part_of(seriatim_text word)
{
    size_t i;
    for (i = 0; i < sizeof records_parts / sizeof *records_parts; i++)
        if (srt_web_word_is(word, records_parts[i].word))
            return &records_parts[i];
    return word.data ? NULL : &records_parts[0];
}

/* The page lies behind the scan, if there is one, in w->found. */
static records_page *records_page_of(srt_web *w)
{
    return w->page;
}

static int records_is_indexed(const records_page *page)
{
    return page->error.len == 0 && (page->by == BY_RETRY || (page->by == BY_TIME && page->part->by_time >= 0));
}

/* ---- What is asked for --------------------------------------------------------------------- */

static int records_read_words(srt_web *w, records_page *page)
{
    seriatim_text by = srt_web_param_of(w, "by"), order = srt_web_param_of(w, "order");
    page->part = records_part_of(srt_web_param_of(w, "part"));
    if (!page->part)
        return srt_web_refuse(w, 400, "part must be one of waiting, retrying, running, parked, dead");
    page->by = srt_web_word_is(by, "time") ? BY_TIME : srt_web_word_is(by, "retry_count") ? BY_RETRY : BY_ID;
    if (by.data && page->by == BY_ID && !srt_web_word_is(by, "id"))
        return srt_web_refuse(w, 400, "by must be one of id, time, retry_count");
    if (page->by == BY_RETRY && !page->part->has_retry)
        return srt_web_refuse(w, 400, "by must be id or time of this part");
    page->down = srt_web_word_is(order, "desc");
    if (order.data && !page->down && !srt_web_word_is(order, "asc"))
        return srt_web_refuse(w, 400, "order must be asc or desc");
    page->error = srt_web_param_of(w, "error");
    if (page->error.len &&
        (page->by == BY_RETRY || (strcmp(page->part->word, "dead") != 0 && strcmp(page->part->word, "retrying") != 0)))
        return srt_web_refuse(w, 400, "error goes with part=dead or part=retrying, and with by=id or by=time");
    return SERIATIM_OK;
}

static int records_read_scan(seriatim_client *c, srt_web *w, records_page *page)
{
    static const seriatim_text none = {NULL, 0};
    int what = page->by == BY_TIME ? SRT_SCAN_DUE : SRT_SCAN_IDS, status;
    srt_web_scan *scan;
    if (page->error.len)
        what = w->loads_errors ? SRT_SCAN_WHOLE : SRT_SCAN_ERRORS;
    scan = srt_web_scan_new(w, what);
    if (!scan)
        return SERIATIM_NOMEM;
    scan->stages[0] = page->part->stages[0];
    scan->stages[1] = page->part->stages[1];
    scan->stage_count = page->part->stage_count;
    scan->limit = (size_t)page->limit;
    scan->reverse = page->down;
    scan->prefix = srt_web_param_of(w, "prefix");
    scan->error = page->error;
    scan->matches = page->error.len ? srt_web_error_is : NULL;
    scan->by_id = page->error.len && page->by == BY_ID;
    if (what == SRT_SCAN_WHOLE)
        srt_web_errors_hold(scan);
    if (page->by == BY_ID)
        scan->from = page->from;
    else if ((status = srt_range_read(c, &scan->range, page->down ? none : page->from, page->down ? page->from : none,
                                      1e6)) != SERIATIM_OK)
        return status;
    return srt_web_scan_cursor(w, scan, srt_web_param_of(w, "cursor"));
}

static int records_read_index(srt_web *w, records_page *page)
{
    seriatim_text cursor = srt_web_param_of(w, "cursor");
    if (srt_web_param_of(w, "prefix").len)
        return srt_web_refuse(w, 400, "prefix goes with by=id");
    if (!cursor.len)
        return SERIATIM_OK;
    page->has_after = 1;
    return srt_web_cursor_read(w, cursor, 0, &page->after);
}

static int records_read(seriatim_client *c, srt_web *w)
{
    records_page *page = srt_arena_alloc(&w->memory, sizeof *page);
    int status;
    if (!page)
        return SERIATIM_NOMEM;
    memset(page, 0, sizeof *page);
    w->page = page;
    status = records_read_words(w, page);
    if (status != SERIATIM_OK)
        return status;
    if (!srt_web_param_int(w, "limit", 1, SRT_WEB_ROWS, SRT_WEB_ROWS, &page->limit))
        return SRT_WEB_DONE;
    page->from = srt_web_param_of(w, "from");
    if (page->from.len == 0)
        page->from.data = NULL;
    return records_is_indexed(page) ? records_read_index(w, page) : records_read_scan(c, w, page);
}

/* ---- Asking -------------------------------------------------------------------------------- */

/* What failed at least once has an index by its number; the rest is by id or time. */
static int records_begin_index(seriatim_client *c, srt_web *w, const records_page *page)
{
    seriatim_query query;
    seriatim_query_init(&query, page->by == BY_RETRY ? SERIATIM_RANGE_BY_RETRY_COUNT : page->part->by_time);
    query.reverse = page->down;
    query.limit = page->limit;
    query.payload_limit = SRT_WEB_PAYLOADS;
    if (page->down)
        query.max = page->from;
    else
        query.min = page->from;
    if (page->by == BY_RETRY && !query.min.data) {
        query.min.data = "0";
        query.min.len = 1;
    }
    return srt_query_begin(c, w->queue, &query, page->has_after ? &page->after : NULL, SRT_WEB_BYTES);
}

static int records_begin(seriatim_client *c, srt_web *w)
{
    const records_page *page = records_page_of(w);
    return records_is_indexed(page) ? records_begin_index(c, w, page) : srt_web_scan_begin(c, w);
}

int srt_web_fetch_begin(seriatim_client *c, srt_web *w, int kind, const srt_target *targets, size_t count,
                        int64_t payloads, int64_t most_bytes)
{
    seriatim_text *ids = srt_arena_alloc(&w->memory, (count + 1) * sizeof *ids);
    seriatim_query query;
    size_t i;
    if (!ids)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    for (i = 0; i < count; i++) {
        ids[i].data = targets[i].id;
        ids[i].len = targets[i].len;
    }
    seriatim_query_init(&query, kind);
    query.payload_limit = payloads;
    query.ids = ids;
    query.id_count = count;
    return srt_query_begin(c, w->queue, &query, NULL, most_bytes);
}

int srt_web_records_next(seriatim_client *c, srt_web *w)
{
    const records_page *page;
    const srt_web_scan *scan = w->found;
    int status;
    if (w->step == 0) {
        status = records_read(c, w);
        if (status != SERIATIM_OK)
            return status;
    }
    if (w->step <= 1)
        return srt_web_on_queue(c, w, records_begin);
    page = records_page_of(w);
    if (w->step > 2 || records_is_indexed(page))
        return SRT_WEB_DONE;
    if (page->error.len && w->loads_errors && (status = srt_web_errors_choose(w)) != SRT_WEB_DONE)
        return status;
    if (w->status || scan->count == 0)
        return SRT_WEB_DONE;
    return srt_web_fetch_begin(c, w, page->part->fetch, scan->items, scan->count, SRT_WEB_PAYLOADS, SRT_WEB_BYTES);
}

/* ---- The answer ---------------------------------------------------------------------------- */

static void records_write_next(seriatim_client *c, const srt_web_scan *scan, srt_web_out *out)
{
    const srt_target *last;
    srt_bytes text;
    if (scan) {
        if (scan->next.data)
            srt_web_text(out, "cursor", scan->next.data, scan->next.len);
        else
            srt_web_null(out, "cursor");
        return;
    }
    last = srt_query_more(c);
    if (!last) {
        srt_web_null(out, "cursor");
        return;
    }
    srt_bytes_init(&text, out->body->mem);
    srt_web_cursor_of(&text, last->key, last->id, last->len);
    out->body->failed |= text.failed;
    srt_web_text(out, "cursor", text.data ? text.data : "", text.failed ? 0 : text.len);
    srt_bytes_free(&text);
}

void srt_web_records_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    const srt_web_scan *scan = w->found;
    size_t count, i;
    const seriatim_record *records = seriatim_query_result(c, &count);
    srt_json_begin_object(&out->json);
    records_write_next(c, scan, out);
    srt_web_bool(out, "exact", !scan || (scan->seen >= scan->total && scan->complete));
    srt_web_int(out, "of", scan ? scan->total : (int64_t)count);
    srt_web_key(out, "records");
    srt_json_begin_array(&out->json);
    for (i = 0; i < count; i++)
        srt_web_record(out, w->worker, &records[i]);
    srt_json_end_array(&out->json);
    srt_web_int(out, "seen", scan ? scan->seen : (int64_t)count);
    srt_json_end_object(&out->json);
}

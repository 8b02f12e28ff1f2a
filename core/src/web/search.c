/* search.c - an id in all queues, exactly; ids of one queue that begin alike, as far as a moment's reading goes. */
#include "web/scan.h"

#include <string.h>

static int search_is_prefix(const srt_web *w)
{
    return srt_web_word_is(srt_web_param_of(w, "prefix"), "1");
}

static int search_read_prefix(srt_web *w)
{
    srt_web_scan *scan = srt_web_scan_new(w, SRT_SCAN_IDS);
    if (!scan)
        return SERIATIM_NOMEM;
    scan->stages[0] = "all";
    scan->stages[1] = "dead";
    scan->stage_count = 2;
    scan->prefix = srt_web_param_of(w, "q");
    return srt_web_scan_cursor(w, scan, srt_web_param_of(w, "cursor"));
}

int srt_web_search_next(seriatim_client *c, srt_web *w)
{
    seriatim_text id = srt_web_param_of(w, "q");
    int status;
    if (w->step == 0) {
        if (id.len < 1 || id.len > SERIATIM_MAX_ID)
            return srt_web_refuse(w, 400, "q must be 1 to %d bytes", SERIATIM_MAX_ID);
        w->worker = srt_web_param_of(w, "queue");
        if (search_is_prefix(w)) {
            if (!w->worker.len)
                return srt_web_refuse(w, 400, "queue is missing: a prefix is looked for in one queue");
            status = search_read_prefix(w);
            if (status != SERIATIM_OK)
                return status;
        }
    }
    if (search_is_prefix(w))
        return srt_web_on_queue(c, w, srt_web_scan_begin);
    w->locate = id;
    if (w->worker.len && w->step <= 1)
        return w->step == 1 ? SRT_WEB_DONE : srt_web_queue_stats_begin(c, w, &w->worker, 1, NULL);
    return srt_web_queue_stats_all(c, w);
}

static void search_write_hit(srt_web_out *out, const srt_web_row *row, const char *state, size_t len)
{
    srt_json_begin_object(&out->json);
    srt_web_text(out, "queue", row->name.data, row->name.len);
    srt_web_text(out, "state", state, len);
    srt_json_end_object(&out->json);
}

static void search_write_ids(const srt_web_scan *scan, srt_web_out *out)
{
    size_t i;
    srt_json_begin_object(&out->json);
    srt_web_key(out, "ids");
    srt_json_begin_array(&out->json);
    for (i = 0; i < scan->count; i++)
        srt_web_text(out, NULL, scan->items[i].id, scan->items[i].len);
    srt_json_end_array(&out->json);
    srt_web_write_seen(scan, out);
    srt_json_end_object(&out->json);
}

void srt_web_search_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    size_t i;
    (void)c;
    if (search_is_prefix(w)) {
        search_write_ids(w->found, out);
        return;
    }
    srt_json_begin_object(&out->json);
    srt_web_key(out, "hits");
    srt_json_begin_array(&out->json);
    for (i = 0; i < w->row_count; i++) {
        if (w->rows[i].state.len)
            search_write_hit(out, &w->rows[i], w->rows[i].state.data, w->rows[i].state.len);
        if (w->rows[i].is_dead)
            search_write_hit(out, &w->rows[i], "dead", 4);
        if (w->rows[i].is_scheduled)
            search_write_hit(out, &w->rows[i], "scheduled", 9);
    }
    srt_json_end_array(&out->json);
    srt_json_end_object(&out->json);
}

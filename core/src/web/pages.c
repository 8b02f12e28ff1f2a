/* pages.c - answers what the pages show beside lists: one queue, one id, the hottest ids, the nodes. */
#include "model/stored.h"
#include "web/scan.h"

#include <stdio.h>
#include <string.h>

#define PAGES_ID_PAYLOADS 100
#define PAGES_ID_SCHEDULED 10 /* scheduled payloads of an id that its page shows */

/* ---- One queue ----------------------------------------------------------------------------- */

static int pages_begin_queue(seriatim_client *c, srt_web *w)
{
    return srt_web_queue_stats_begin(c, w, &w->worker, 1, NULL);
}

int srt_web_queue_next(seriatim_client *c, srt_web *w)
{
    return srt_web_on_queue(c, w, pages_begin_queue);
}

/* When the first of what waits or is scheduled is due, in Unix seconds; null: nothing waits. */
static void pages_write_next_due(srt_web_out *out, const srt_web_shard *shard)
{
    if ((shard->length || shard->scheduled) && shard->soon_us < SRT_FOREVER)
        srt_web_double(out, "next_due", (double)shard->soon_us / 1e6);
    else
        srt_web_null(out, "next_due");
}

static void pages_write_shard(const seriatim_client *c, const srt_web *w, srt_web_out *out, unsigned number)
{
    const srt_web_shard *shard = &w->rows[0].shards[number];
    char master[300];
    srt_json_begin_object(&out->json);
    srt_web_int(out, "busy", shard->busy);
    srt_web_int(out, "dead", shard->dead);
    srt_web_int(out, "delayed", shard->delayed);
    srt_web_int(out, "failed", shard->failed);
    srt_web_int(out, "fresh", shard->length - shard->retries);
    srt_web_double(out, "lag", (double)shard->lag_us / 1e6);
    srt_web_int(out, "length", shard->length);
    if (c->cluster.many) {
        srt_web_shard_address(c, w->worker, number, master, sizeof master);
        srt_web_chars(out, "master", master);
    }
    pages_write_next_due(out, shard);
    srt_web_chars(out, "owner", shard->owner);
    srt_web_bool(out, "owner_alive", shard->owner_alive);
    srt_web_int(out, "parked", shard->parked);
    srt_web_bool(out, "paused", shard->paused != 0);
    srt_web_int(out, "processed", shard->processed);
    srt_web_int(out, "refused", shard->refused);
    srt_web_int(out, "retries", shard->retries);
    srt_web_int(out, "scheduled", shard->scheduled);
    srt_web_int(out, "shard", number);
    if (c->cluster.many)
        srt_web_int(out, "slot", srt_web_shard_slot(c, w->worker, number));
    srt_web_int(out, "stale", shard->stale);
    srt_web_bool(out, "unread", shard->is_missing);
    srt_json_end_object(&out->json);
}

void srt_web_queue_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    const srt_web_row *row = &w->rows[0];
    unsigned i;
    srt_json_begin_object(&out->json);
    srt_web_text(out, "name", w->worker.data, w->worker.len);
    srt_web_double(out, "now", (double)w->now_us / 1e6);
    srt_web_key(out, "settings");
    srt_json_begin_object(&out->json);
    srt_web_int(out, "generation", row->generation);
    srt_web_int(out, "paused", row->total.paused);
    srt_web_int(out, "shards", row->move.to);
    srt_json_end_object(&out->json);
    srt_web_key(out, "shards");
    srt_json_begin_array(&out->json);
    for (i = 0; i < row->shards_count && row->shards; i++)
        pages_write_shard(c, w, out, i);
    srt_json_end_array(&out->json);
    srt_web_key(out, "totals");
    srt_web_write_row(out, row);
    srt_json_end_object(&out->json);
}

/* ---- The hottest ids ----------------------------------------------------------------------- */

int srt_web_hottest_next(seriatim_client *c, srt_web *w)
{
    srt_web_scan *scan;
    if (w->step == 0) {
        scan = srt_web_scan_sample(w, SRT_SCAN_HOT, "waiting");
        if (!scan)
            return SERIATIM_NOMEM;
        scan->reverse = 1;
        scan->limit = 20;
    }
    return srt_web_sample_ids(c, w);
}

void srt_web_hottest_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    const srt_web_scan *scan = w->found;
    size_t i;
    (void)c;
    srt_json_begin_object(&out->json);
    srt_web_key(out, "ids");
    srt_json_begin_array(&out->json);
    for (i = 0; i < scan->count; i++) {
        srt_json_begin_object(&out->json);
        srt_web_text(out, "id", scan->items[i].id, scan->items[i].len);
        srt_web_int(out, "payloads", scan->items[i].key);
        srt_web_int(out, "shard", scan->items[i].shard);
        srt_json_end_object(&out->json);
    }
    srt_json_end_array(&out->json);
    srt_web_write_sample(scan, out);
    srt_json_end_object(&out->json);
}

/* ---- One id -------------------------------------------------------------------------------- */

enum { ID_EXPLAIN = 2, ID_JOB, ID_BEHIND, ID_DEAD, ID_SCHEDULED }; /* the steps behind: explained, read, ... */

typedef struct pages_id {
    seriatim_text id;
    seriatim_explanation told;
    const seriatim_record *records[3]; /* job, behind, dead: with payloads; NULL: not there */
    const seriatim_record *scheduled;  /* one for each of the first scheduled payloads; NULL: none was read */
    size_t scheduled_count;
    int64_t whole; /* the payload, from 1, that is shown whole; 0: none */
} pages_id;

static int pages_begin_explain(seriatim_client *c, srt_web *w)
{
    const pages_id *page = w->page;
    return seriatim_explain_begin(c, w->queue, page->id.data, page->id.len);
}

static int pages_is_there(const seriatim_record *record)
{
    return strcmp(record->state, "unknown") != 0;
}

static const char *pages_copy(srt_web *w, const char *text)
{
    return srt_arena_copy(&w->memory, text, strlen(text));
}

/* The explanation's history, into the memory of the request: the next operation frees it. */
static int pages_keep_history(srt_web *w, pages_id *page)
{
    const seriatim_explanation *told = &page->told;
    seriatim_history_entry *entries;
    size_t i;
    if (told->history_count == 0)
        return SERIATIM_OK;
    entries = srt_arena_copy(&w->memory, told->history, told->history_count * sizeof *entries);
    if (!entries)
        return SERIATIM_NOMEM;
    for (i = 0; i < told->history_count; i++) {
        entries[i].node = pages_copy(w, entries[i].node);
        entries[i].error = srt_arena_copy(&w->memory, entries[i].error, entries[i].error_len);
        if (!entries[i].node || !entries[i].error)
            return SERIATIM_NOMEM;
    }
    page->told.history = entries;
    return SERIATIM_OK;
}

static int pages_take_explanation(seriatim_client *c, srt_web *w, pages_id *page)
{
    const seriatim_explanation *told = seriatim_explain_result(c);
    seriatim_record *views[3];
    size_t i;
    if (!told)
        return srt_fail(&c->error, SERIATIM_PROTOCOL, "nothing was explained");
    page->told = *told;
    page->told.text = pages_copy(w, told->text);
    page->told.owner = pages_copy(w, told->owner);
    if (pages_keep_history(w, page) != SERIATIM_OK)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    views[0] = &page->told.job;
    views[1] = &page->told.behind;
    views[2] = &page->told.dead;
    for (i = 0; i < 3; i++) {
        views[i]->id = page->id.data;
        views[i]->error = srt_arena_copy(&w->memory, views[i]->error, views[i]->error_len);
        views[i]->payloads = NULL;
        views[i]->payload_count = 0;
        if (!views[i]->error)
            return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    }
    return page->told.text && page->told.owner ? SERIATIM_OK : srt_fail_plain(&c->error, SERIATIM_NOMEM);
}

/* The last step of all. */
static int pages_read_scheduled(seriatim_client *c, srt_web *w, pages_id *page)
{
    seriatim_query query;
    if (w->step > ID_SCHEDULED) {
        page->scheduled = srt_query_keep(c, &w->memory, &page->scheduled_count);
        return SRT_WEB_DONE;
    }
    if (page->told.scheduled == 0)
        return SRT_WEB_DONE;
    seriatim_query_init(&query, SERIATIM_RANGE_BY_DELIVER_AT);
    query.limit = PAGES_ID_SCHEDULED;
    query.ids = &page->id;
    query.id_count = 1;
    return srt_query_begin(c, w->queue, &query, NULL, 0);
}

/* Takes what the last step read, and reads the next of the three that is there. */
static int pages_read_records(seriatim_client *c, srt_web *w, pages_id *page)
{
    const seriatim_explanation *told = &page->told;
    int runs = strcmp(told->job.state, "running") == 0, kinds[3] = {0, SRT_FETCH_BEHIND, SERIATIM_MORGUE_FETCH};
    int wanted[3];
    srt_target target = {NULL, 0, 0, 0};
    size_t count;
    kinds[0] = runs ? SRT_FETCH_RUNNING : SERIATIM_FETCH;
    wanted[0] = pages_is_there(&told->job);
    wanted[1] = pages_is_there(&told->behind);
    wanted[2] = pages_is_there(&told->dead);
    target.id = page->id.data;
    target.len = page->id.len;
    for (; w->step <= ID_DEAD; w->step++) {
        int at = w->step - ID_JOB;
        if (at >= 0) {
            const seriatim_record *records = wanted[at] ? srt_query_keep(c, &w->memory, &count) : NULL;
            if (records && count && records->behind == (at == ID_BEHIND - ID_JOB))
                page->records[at] = records;
        }
        if (at + 1 < 3 && wanted[at + 1])
            return srt_web_fetch_begin(c, w, kinds[at + 1], &target, 1, PAGES_ID_PAYLOADS, 0);
    }
    return pages_read_scheduled(c, w, page);
}

int srt_web_id_next(seriatim_client *c, srt_web *w)
{
    pages_id *page = w->page;
    int status;
    if (w->step == 0) {
        page = srt_arena_alloc(&w->memory, sizeof *page);
        if (!page)
            return SERIATIM_NOMEM;
        memset(page, 0, sizeof *page);
        w->page = page;
        page->id = srt_web_param_of(w, "id");
        if (page->id.len < 1 || page->id.len > SERIATIM_MAX_ID)
            return srt_web_refuse(w, 400, "id must be 1 to %d bytes", SERIATIM_MAX_ID);
        if (!srt_web_param_int(w, "whole", 1, PAGES_ID_PAYLOADS, 0, &page->whole))
            return SRT_WEB_DONE;
    }
    if (w->step <= 1)
        return srt_web_on_queue(c, w, pages_begin_explain);
    if (w->step == ID_EXPLAIN) {
        status = pages_take_explanation(c, w, page);
        if (status != SERIATIM_OK)
            return status;
    }
    return pages_read_records(c, w, page);
}

static void pages_write_record(srt_web *w, srt_web_out *out, const char *key, const seriatim_record *known,
                               const seriatim_record *read)
{
    srt_web_key(out, key);
    if (pages_is_there(known))
        srt_web_record(out, w->worker, read ? read : known);
    else
        srt_json_null(&out->json);
}

/* An event keeps the beginning of a long error. It was cut between characters, so it may be some bytes shorter. */
static void pages_write_event_error(const srt_web *w, srt_web_out *out, seriatim_text id,
                                    const seriatim_history_entry *entry)
{
    const seriatim_text stored = {entry->error, entry->error_len}, text = srt_web_load(out->hooks, stored);
    if (stored.len > SRT_EVENT_TEXT - 4)
        srt_web_beginning(out, "error", w->worker, id, text);
    else
        srt_web_shown(out, "error", w->worker, id, text.data, text.len);
}

static void pages_write_event(const srt_web *w, srt_web_out *out, seriatim_text id, const seriatim_history_entry *entry)
{
    srt_json_begin_object(&out->json);
    srt_web_double(out, "at", entry->at);
    if (entry->due > 0)
        srt_web_double(out, "due", entry->due);
    if (entry->error_len)
        pages_write_event_error(w, out, id, entry);
    srt_web_chars(out, "event", entry->event);
    if (entry->fence)
        srt_web_int(out, "fence", entry->fence);
    if (*entry->node)
        srt_web_chars(out, "node", entry->node);
    if (entry->payloads)
        srt_web_int(out, "payloads_count", entry->payloads);
    srt_json_end_object(&out->json);
}

static void pages_write_history(const srt_web *w, srt_web_out *out, const pages_id *page)
{
    size_t i;
    srt_web_key(out, "history");
    srt_json_begin_array(&out->json);
    for (i = 0; i < page->told.history_count; i++)
        pages_write_event(w, out, page->id, &page->told.history[i]);
    srt_json_end_array(&out->json);
}

/* As a shell reads it. fish also takes a backslash between quotes for an escape, so it stands outside of them. */
static void pages_quote(srt_bytes *out, seriatim_text text)
{
    size_t i;
    srt_bytes_adds(out, " '");
    for (i = 0; i < text.len; i++) {
        if (text.data[i] == '\'' || text.data[i] == '\\')
            srt_bytes_adds(out, "'\\");
        srt_bytes_addc(out, text.data[i]);
        if (text.data[i] == '\'' || text.data[i] == '\\')
            srt_bytes_addc(out, '\'');
    }
    srt_bytes_addc(out, '\'');
}

/* Control characters act on the terminal into which they are pasted, within quotes, too; others would not be seen. */
static int pages_may_paste(seriatim_text text)
{
    return seriatim_printable(text.data, text.len, NULL, 0) == text.len;
}

static int pages_is_like_option(seriatim_text text)
{
    return text.len > 0 && text.data[0] == '-';
}

/* null: no command can be pasted. The command learns another namespace from the application alone. */
static void pages_write_cli(const seriatim_client *c, srt_web *w, srt_web_out *out, seriatim_text id)
{
    srt_bytes text;
    if (!pages_may_paste(w->worker) || !pages_may_paste(id)) {
        srt_web_null(out, "cli");
        return;
    }
    srt_bytes_init(&text, out->body->mem);
    srt_bytes_adds(&text, "seriatim explain");
    if (strcmp(c->registry.ns.data, "seriatim") != 0)
        srt_bytes_adds(&text, " -r ./app");
    if (pages_is_like_option(w->worker) || pages_is_like_option(id))
        srt_bytes_adds(&text, " --");
    pages_quote(&text, w->worker);
    pages_quote(&text, id);
    out->body->failed |= text.failed;
    srt_web_text(out, "cli", text.data ? text.data : "", text.failed ? 0 : text.len);
    srt_bytes_free(&text);
}

void srt_web_id_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    const pages_id *page = w->page;
    const seriatim_explanation *told = &page->told;
    out->keys = 1;
    out->whole = page->whole;
    srt_json_begin_object(&out->json);
    pages_write_record(w, out, "behind", &told->behind, page->records[1]);
    pages_write_cli(c, w, out, page->id);
    pages_write_record(w, out, "dead", &told->dead, page->records[2]);
    srt_web_int(out, "fence", told->fence);
    pages_write_history(w, out, page);
    srt_web_text(out, "id", page->id.data, page->id.len);
    pages_write_record(w, out, "job", &told->job, page->records[0]);
    srt_web_int(out, "lease", told->lease);
    srt_web_chars(out, "namespace", c->registry.ns.data);
    srt_web_double(out, "now", told->now);
    srt_web_chars(out, "owner", told->owner);
    srt_web_bool(out, "owner_alive", told->owner_alive);
    srt_web_bool(out, "paused", told->paused);
    srt_web_text(out, "queue", w->worker.data, w->worker.len);
    if (told->has_score) {
        srt_web_double(out, "remembered_score", told->score);
        srt_web_double(out, "remembered_until", told->score_until);
    }
    srt_web_key(out, "scheduled");
    srt_json_begin_object(&out->json);
    srt_web_int(out, "count", told->scheduled);
    srt_web_key(out, "payloads");
    srt_web_write_payloads(out, w->worker, page->scheduled, page->scheduled_count);
    srt_json_end_object(&out->json);
    srt_web_int(out, "shard", told->job.shard);
    srt_web_chars(out, "text", told->text);
    srt_json_end_object(&out->json);
}

/* ---- The nodes ----------------------------------------------------------------------------- */

int srt_web_nodes_next(seriatim_client *c, srt_web *w)
{
    int status = w->step <= 1 ? srt_web_queue_stats_all(c, w) : SRT_WEB_DONE;
    if (status != SRT_WEB_DONE || w->step > 2)
        return status;
    return seriatim_nodes_begin(c);
}

/* A field of each kind of SERIATIM_NODE_FIELDS; null: the node does not tell. */
#define WRITE_INTEGER(out, key, value) ((value) >= 0 ? srt_web_int(out, key, value) : srt_web_null(out, key))
#define WRITE_SECONDS(out, key, value) srt_web_double(out, key, value)
#define WRITE_TEXT(out, key, value) (*(value) ? srt_web_chars(out, key, value) : srt_web_null(out, key))

static void pages_write_node(srt_web *w, srt_web_out *out, const seriatim_living_node *node)
{
    int64_t shards = 0, busy = 0;
    size_t i;
    unsigned shard;
    for (i = 0; i < w->row_count; i++)
        for (shard = 0; shard < w->rows[i].shards_count && w->rows[i].shards; shard++)
            if (strcmp(w->rows[i].shards[shard].owner, node->name) == 0) {
                shards++;
                busy += w->rows[i].shards[shard].busy;
            }
    srt_json_begin_object(&out->json);
    srt_web_int(out, "busy", busy);
    srt_web_chars(out, "description", node->description);
    srt_web_double(out, "expires_in", node->expires_in);
    srt_web_chars(out, "name", node->name);
#define X(kind, field, key) WRITE_##kind(out, #field, node->field);
    SERIATIM_NODE_FIELDS(X)
#undef X
    srt_web_int(out, "shards", shards);
    srt_web_chars(out, "state", node->state);
    srt_json_end_object(&out->json);
}

/* Those that the nodes report, each once. */
static void pages_write_versions(const seriatim_living_node *nodes, size_t count, srt_web_out *out)
{
    size_t i, j;
    srt_web_key(out, "versions");
    srt_json_begin_array(&out->json);
    for (i = 0; i < count; i++) {
        const char *version = nodes[i].version;
        for (j = 0; version && j < i; j++)
            if (nodes[j].version && strcmp(nodes[j].version, version) == 0)
                break;
        if (version && j == i)
            srt_web_chars(out, NULL, version);
    }
    srt_json_end_array(&out->json);
}

void srt_web_nodes_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    size_t count, i;
    const seriatim_living_node *nodes = seriatim_nodes_result(c, &count);
    srt_json_begin_object(&out->json);
    srt_web_key(out, "nodes");
    srt_json_begin_array(&out->json);
    for (i = 0; i < count; i++)
        pages_write_node(w, out, &nodes[i]);
    srt_json_end_array(&out->json);
    pages_write_versions(nodes, count, out);
    srt_json_end_object(&out->json);
}

int srt_web_order_next(seriatim_client *c, srt_web *w)
{
    if (w->step == 0) {
        w->is_changing = 1;
        return seriatim_order_begin(c, w->worker.data, w->worker.len, w->handler->number);
    }
    return seriatim_order_result(c) ? srt_web_done(w, 1) : srt_web_refuse(w, 404, "no such node is alive");
}

/*
 * api.c - the routes below /api/web: figures of all queues, ranges of one queue, operators' actions. Lowkiq has the
 * same.
 */
#include "web/web.h"

#include <string.h>

/* Looking at a queue must not make it: the layout is only asked for. */
static int api_begin_looking(seriatim_client *c, srt_web *w, int (*begin)(seriatim_client *, srt_web *))
{
    srt_queue *queue = c->registry.queues[w->queue];
    int64_t wanted = queue->own.shards_count;
    int status;
    queue->own.shards_count = 0;
    status = begin(c, w);
    queue->own.shards_count = wanted;
    return status;
}

int srt_web_on_queue(seriatim_client *c, srt_web *w, int (*begin)(seriatim_client *, srt_web *))
{
    int status;
    if (w->step > 1)
        return SRT_WEB_DONE;
    status = srt_web_find_queue(c, w);
    if (status != SRT_WEB_DONE || w->status)
        return status;
    w->step = 1;
    return api_begin_looking(c, w, begin);
}

/* ---- All queues ---------------------------------------------------------------------------- */

int srt_web_stats_next(seriatim_client *c, srt_web *w)
{
    return srt_web_queue_stats_all(c, w);
}

static void api_write_three(srt_web_out *out, const srt_web_shard *figures)
{
    srt_json_begin_object(&out->json);
    srt_web_double(out, "lag", (double)figures->lag_us / 1e6);
    srt_web_int(out, "length", figures->length);
    srt_web_int(out, "morgue_length", figures->dead);
    srt_json_end_object(&out->json);
}

static void api_key_of(srt_web_out *out, seriatim_text name)
{
    srt_bytes text;
    if (srt_utf8_valid(name.data, name.len)) {
        srt_json_key(&out->json, name.data, name.len);
        return;
    }
    srt_bytes_init(&text, out->body->mem);
    srt_bytes_adds(&text, "base64:");
    srt_web_base64(&text, name.data, name.len);
    out->body->failed |= text.failed;
    srt_json_key(&out->json, text.data ? text.data : "", text.len);
    srt_bytes_free(&text);
}

static int api_is_queue(const srt_web *w, seriatim_text name)
{
    size_t i;
    for (i = 0; i < w->row_count; i++)
        if (w->rows[i].name.len == name.len && memcmp(w->rows[i].name.data, name.data, name.len) == 0)
            return 1;
    return 0;
}

/* What stands for this queue in :worker: its worker's name, unless another queue is named so. */
static seriatim_text api_worker_name(const srt_web *w, seriatim_text queue)
{
    const seriatim_web_worker *worker = srt_web_worker_of(w, queue);
    return worker && !api_is_queue(w, worker->name) ? worker->name : queue;
}

void srt_web_stats_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    srt_web_shard total;
    size_t i;
    (void)c;
    memset(&total, 0, sizeof total);
    srt_json_begin_object(&out->json);
    srt_web_key(out, "by_worker");
    srt_json_begin_object(&out->json);
    for (i = 0; i < w->row_count; i++) {
        const srt_web_shard *row = &w->rows[i].total;
        api_key_of(out, api_worker_name(w, w->rows[i].name));
        api_write_three(out, row);
        total.length += row->length;
        total.dead += row->dead;
        if (row->lag_us > total.lag_us)
            total.lag_us = row->lag_us;
    }
    srt_json_end_object(&out->json);
    srt_web_key(out, "total");
    api_write_three(out, &total);
    srt_json_end_object(&out->json);
}

int srt_web_dashboard_next(seriatim_client *c, srt_web *w)
{
    int status = w->step <= 1 ? srt_web_queue_stats_all(c, w) : SRT_WEB_DONE;
    if (status != SRT_WEB_DONE || w->step > 2)
        return status;
    return seriatim_health_begin(c);
}

void srt_web_write_move(srt_web_out *out, const srt_web_row *row)
{
    if (row->move.from == row->move.to) {
        srt_web_null(out, "resharding");
        return;
    }
    srt_web_key(out, "resharding");
    srt_json_begin_object(&out->json);
    srt_web_int(out, "from", row->move.from);
    srt_web_int(out, "ids_left", row->move.ids_left);
    srt_web_int(out, "ids_moved", row->move.ids_moved);
    srt_web_int(out, "shards_left", row->move.shards_left);
    srt_web_int(out, "to", row->move.to);
    srt_json_end_object(&out->json);
}

void srt_web_write_row(srt_web_out *out, const srt_web_row *row)
{
    const srt_web_shard *t = &row->total;
    srt_json_begin_object(&out->json);
    srt_web_int(out, "busy", t->busy);
    srt_web_int(out, "consumers", t->owner_alive);
    srt_web_int(out, "dead", t->dead);
    srt_web_int(out, "delayed", t->delayed);
    srt_web_int(out, "enqueued", t->length);
    srt_web_int(out, "failed", t->failed);
    srt_web_int(out, "fresh", t->length - t->retries);
    srt_web_double(out, "lag", (double)t->lag_us / 1e6);
    srt_web_text(out, "name", row->name.data, row->name.len);
    srt_web_int(out, "parked", t->parked);
    srt_web_int(out, "paused", t->paused);
    srt_web_int(out, "processed", t->processed);
    srt_web_int(out, "pushed", t->pushed);
    srt_web_int(out, "refused", t->refused);
    srt_web_int(out, "removed", t->removed);
    srt_web_write_move(out, row);
    srt_web_int(out, "retries", t->retries);
    srt_web_int(out, "scheduled", t->scheduled);
    srt_web_int(out, "shards", row->move.to);
    srt_web_int(out, "stale", t->stale);
    srt_web_int(out, "unread", t->is_missing);
    srt_json_end_object(&out->json);
}

static int64_t api_number(seriatim_text text)
{
    srt_token token = {SRT_STRING, 0, NULL, 0};
    token.data = text.data;
    token.len = text.len;
    return text.data ? srt_token_int(&token) : 0;
}

/* How many slots each master of a cluster has. */
static void api_write_masters(const seriatim_client *c, srt_web_out *out)
{
    const srt_redis *master;
    size_t i;
    srt_web_key(out, "masters");
    srt_json_begin_array(&out->json);
    for (i = 0; (master = srt_cluster_master(&c->cluster, i)) != NULL; i++) {
        char address[300];
        srt_redis_address(master, address, sizeof address);
        srt_json_begin_object(&out->json);
        srt_web_chars(out, "address", address);
        srt_web_int(out, "slots", master->slots);
        srt_json_end_object(&out->json);
    }
    srt_json_end_array(&out->json);
}

static void api_write_redis(seriatim_client *c, srt_web_out *out)
{
    static const struct {
        const char *key, *field;
        int number;
    } fields[] = {
        {"connected_clients", "\nconnected_clients:", 1},
        {"uptime_in_days", "\nuptime_in_days:", 1},
        {"used_memory_human", "\nused_memory_human:", 0},
        {"used_memory_peak_human", "\nused_memory_peak_human:", 0},
        {"version", "\nredis_version:", 0},
    };
    const seriatim_health *health = seriatim_health_result(c);
    size_t i;
    srt_web_key(out, "redis_info");
    srt_json_begin_object(&out->json);
    for (i = 0; i < sizeof fields / sizeof *fields; i++) {
        seriatim_text text = srt_health_field(c, fields[i].field);
        if (fields[i].number)
            srt_web_int(out, fields[i].key, api_number(text));
        else
            srt_web_text(out, fields[i].key, text.data ? text.data : "", text.len);
    }
    srt_web_chars(out, "url", health ? health->address : "");
    srt_json_end_object(&out->json);
}

void srt_web_dashboard_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    size_t i;
    srt_json_begin_object(&out->json);
    if (c->cluster.many)
        api_write_masters(c, out);
    srt_web_double(out, "now", (double)w->now_us / 1e6);
    srt_web_key(out, "queues");
    srt_json_begin_array(&out->json);
    for (i = 0; i < w->row_count; i++)
        srt_web_write_row(out, &w->rows[i]);
    srt_json_end_array(&out->json);
    srt_web_bool(out, "read_only", w->read_only);
    api_write_redis(c, out);
    srt_web_chars(out, "role", srt_web_role_word(w->role));
    srt_web_chars(out, "title", w->title);
    srt_web_chars(out, "version", SERIATIM_VERSION);
    srt_json_end_object(&out->json);
}

/* ---- Ranges of one queue ------------------------------------------------------------------- */

/* Many clients write the + of a bound unescaped, and the query's decoding makes a blank of it. */
static seriatim_text api_bound(const srt_web *w, const char *name)
{
    seriatim_text text = srt_web_param_of(w, name);
    if (text.len == 0)
        text.data = NULL;
    else if (text.data[0] == ' ')
        ((char *)(uintptr_t)text.data)[0] = '+';
    return text;
}

static int api_begin_range(seriatim_client *c, srt_web *w)
{
    seriatim_query query;
    seriatim_text id = srt_web_param_of(w, "id");
    seriatim_query_init(&query, w->handler->number);
    query.reverse = w->handler->flag;
    query.min = api_bound(w, "min");
    query.max = api_bound(w, "max");
    query.limit = SRT_WEB_ROWS;
    query.payload_limit = SRT_WEB_PAYLOADS;
    query.ids = &id;
    query.id_count = w->handler->number == SERIATIM_RANGE_BY_DELIVER_AT && id.len > 0;
    return srt_query_begin(c, w->queue, &query, NULL, SRT_WEB_BYTES);
}

int srt_web_range_next(seriatim_client *c, srt_web *w)
{
    return srt_web_on_queue(c, w, api_begin_range);
}

void srt_web_range_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    size_t count, i;
    const seriatim_record *records = seriatim_query_result(c, &count);
    if (w->handler->number == SERIATIM_RANGE_BY_DELIVER_AT) {
        srt_web_write_payloads(out, w->worker, records, count);
        return;
    }
    srt_json_begin_array(&out->json);
    for (i = 0; i < count; i++)
        srt_web_record(out, w->worker, &records[i]);
    srt_json_end_array(&out->json);
}

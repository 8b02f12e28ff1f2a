/* metrics.c - answers /metrics: text for Prometheus. */
#include "model/run_times.h"
#include "web/web.h"

#include <stdio.h>
#include <string.h>

#define RUNS_AHEAD 2000 /* requests under way */

/* Of each row. */
typedef struct metrics_runs {
    size_t begun; /* rows that are asked for */
    srt_run_times *rows;
} metrics_runs;

static int runs_ask(seriatim_client *c, const srt_web *w, size_t place)
{
    seriatim_text name = w->rows[place].name;
    srt_request *r =
        srt_run_times_reading(srt_cluster_pool(&c->cluster), "HGET", c->registry.ns.data, name.data, name.len);
    if (!r)
        return srt_operator_nomem(c);
    srt_request_text(r, "total");
    r->place = place;
    return srt_client_send(c, r);
}

static int runs_go_on(seriatim_client *c)
{
    srt_web *w = c->web;
    metrics_runs *runs = w->page;
    int status = SERIATIM_OK;
    while (runs->begun < w->row_count && srt_cluster_waiting(&c->cluster) < RUNS_AHEAD && status == SERIATIM_OK)
        status = runs_ask(c, w, runs->begun++);
    return status;
}

static int runs_send(seriatim_client *c, srt_queue *queue)
{
    (void)queue;
    return runs_go_on(c);
}

static int runs_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    metrics_runs *runs = c->web->page;
    const srt_token *text = &reply->tokens[0];
    if (text->type == SRT_STRING)
        srt_run_times_add_total(&runs->rows[r->place], text->data, text->len);
    return runs_go_on(c);
}

/* A key that is not ours, or may not be read, tells of no runs. */
static int runs_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    (void)r;
    (void)error;
    return runs_go_on(c);
}

static int runs_read(seriatim_client *c, srt_web *w)
{
    static const srt_operation operation = {
        .send = runs_send, .on_reply = runs_on_reply, .on_refused = runs_on_refused};
    metrics_runs *runs = srt_arena_alloc(&w->memory, sizeof *runs);
    srt_run_times *rows = srt_arena_alloc(&w->memory, w->row_count * sizeof *rows);
    if (!runs || !rows)
        return SERIATIM_NOMEM;
    memset(rows, 0, w->row_count * sizeof *rows);
    runs->begun = 0;
    runs->rows = rows;
    w->page = runs;
    return srt_client_begin_alone(c, &operation);
}

/* The figures of all queues in two steps, then their run times. */
int srt_web_metrics_next(seriatim_client *c, srt_web *w)
{
    int status = w->step > 2 ? SRT_WEB_DONE : srt_web_queue_stats_all(c, w);
    if (status != SRT_WEB_DONE || w->step > 2 || w->status || w->row_count == 0)
        return status;
    return runs_read(c, w);
}

static void metrics_label(srt_bytes *out, seriatim_text text)
{
    size_t i;
    if (!srt_utf8_valid(text.data, text.len)) {
        srt_bytes_adds(out, "base64:");
        srt_web_base64(out, text.data, text.len);
        return;
    }
    for (i = 0; i < text.len; i++) {
        if (text.data[i] == '\\' || text.data[i] == '"' || text.data[i] == '\n')
            srt_bytes_addc(out, '\\');
        srt_bytes_addc(out, text.data[i] == '\n' ? 'n' : text.data[i]);
    }
}

static void metrics_number(srt_bytes *out, double value)
{
    char text[SRT_JSON_DOUBLE_SIZE];
    srt_bytes_add(out, text, srt_json_double_text(value, text));
    srt_bytes_addc(out, '\n');
}

static void metrics_head(srt_bytes *out, const char *name, const char *type, const char *help)
{
    srt_bytes_adds(out, "# HELP seriatim_");
    srt_bytes_adds(out, name);
    srt_bytes_addc(out, ' ');
    srt_bytes_adds(out, help);
    srt_bytes_adds(out, "\n# TYPE seriatim_");
    srt_bytes_adds(out, name);
    srt_bytes_addc(out, ' ');
    srt_bytes_adds(out, type);
    srt_bytes_addc(out, '\n');
}

static void metrics_line(srt_bytes *out, const char *name, const srt_web_row *row, const char *more, double value)
{
    srt_bytes_adds(out, "seriatim_");
    srt_bytes_adds(out, name);
    srt_bytes_adds(out, "{queue=\"");
    metrics_label(out, row->name);
    srt_bytes_addc(out, '"');
    srt_bytes_adds(out, more);
    srt_bytes_adds(out, "} ");
    metrics_number(out, value);
}

enum {
    OF_READY,
    OF_DELAYED,
    OF_SCHEDULED,
    OF_RETRYING,
    OF_RUNNING,
    OF_PARKED,
    OF_DEAD,
    OF_LAG,
    OF_PAUSED,
    OF_SHARDS,
    OF_UNREAD,
    OF_OLD_SHARDS,
    OF_SHARDS_LEFT,
    OF_IDS_MOVED,
    OF_IDS_LEFT,
    OF_CONSUMERS,
    OF_PUSHED,
    OF_REFUSED,
    OF_REMOVED,
    OF_STALE
};

static double metrics_of_row(const srt_web_row *row, int of)
{
    const srt_web_shard *t = &row->total;
    switch (of) {
    case OF_READY:
        return (double)(t->length - t->retries - t->delayed);
    case OF_DELAYED:
        return (double)t->delayed;
    case OF_SCHEDULED:
        return (double)t->scheduled;
    case OF_RETRYING:
        return (double)t->retries;
    case OF_RUNNING:
        return (double)t->busy;
    case OF_PARKED:
        return (double)t->parked;
    case OF_DEAD:
        return (double)t->dead;
    case OF_LAG:
        return (double)t->lag_us / 1e6;
    case OF_PAUSED:
        return (double)t->paused;
    case OF_SHARDS:
        return (double)row->move.to;
    case OF_UNREAD:
        return (double)t->is_missing;
    case OF_OLD_SHARDS:
        return (double)row->move.from;
    case OF_SHARDS_LEFT:
        return (double)row->move.shards_left;
    case OF_IDS_MOVED:
        return (double)row->move.ids_moved;
    case OF_IDS_LEFT:
        return (double)row->move.ids_left;
    case OF_CONSUMERS:
        return (double)t->owner_alive;
    case OF_PUSHED:
        return (double)t->pushed;
    case OF_REFUSED:
        return (double)t->refused;
    case OF_REMOVED:
        return (double)t->removed;
    default:
        return (double)t->stale;
    }
}

/* Without a shard, a counter would fall, and Prometheus takes that for a restart: it is left out until all are read. */
static int metrics_counts_all(const srt_web_row *row)
{
    return row->total.is_missing == 0;
}

static void metrics_of_queues(srt_web *w, srt_bytes *out)
{
    static const struct {
        const char *name, *type, *help;
    } all[] = {
        [OF_READY] = {"ready", "gauge", "Ids that wait, never failed and are due."},
        [OF_DELAYED] = {"delayed", "gauge", "Ids that never failed and are due later."},
        [OF_SCHEDULED] = {"scheduled", "gauge",
                          "Payloads whose deliver_at has not come, or that no server or pop has taken since."},
        [OF_RETRYING] = {"retrying", "gauge", "Ids that failed and wait for their next run, due or not."},
        [OF_RUNNING] = {"running", "gauge", "Ids in open claims."},
        [OF_PARKED] = {"parked", "gauge", "Ids that wait for an operator."},
        [OF_DEAD] = {"dead", "gauge", "Ids in the morgue."},
        [OF_LAG] = {"lag_seconds", "gauge",
                    "Seconds since the oldest waiting id, or scheduled payload whose time has come, became due."},
        [OF_PAUSED] = {"paused", "gauge", "Shards that are paused."},
        [OF_SHARDS] = {"shards", "gauge", "Shards of the queue."},
        [OF_UNREAD] = {"unread_shards", "gauge",
                       "Shards that Redis could not read, as while their slot moves; the gauges are without them, "
                       "counters are left out."},
        [OF_OLD_SHARDS] = {"reshard_from_shards", "gauge",
                           "Shards that the queue had before; the same as shards while no ids move."},
        [OF_SHARDS_LEFT] = {"reshard_shards_left", "gauge",
                            "Shards that ids still leave for another number of shards."},
        [OF_IDS_MOVED] = {"reshard_ids_moved", "gauge", "Ids that have changed their shard in the move that goes on."},
        [OF_IDS_LEFT] = {"reshard_ids_left", "gauge", "Estimate of the ids that are yet to change their shard."},
        [OF_CONSUMERS] = {"consumers", "gauge", "Shards whose owner is alive."},
        [OF_PUSHED] = {"pushed_total", "counter", "Jobs that were pushed, folded ones too."},
        [OF_REFUSED] = {"refused_total", "counter", "Settled ids that were refused because their fence was old."},
        [OF_STALE] = {"stale_total", "counter", "Jobs that were refused or dropped because of their score."},
        [OF_REMOVED] = {"morgue_removed_total", "counter",
                        "Dead ids that morgue_max_age and morgue_max_count removed."},
    };
    size_t i, row;
    for (i = 0; i < sizeof all / sizeof *all; i++) {
        int is_counter = strcmp(all[i].type, "counter") == 0;
        metrics_head(out, all[i].name, all[i].type, all[i].help);
        for (row = 0; row < w->row_count; row++)
            if (!is_counter || metrics_counts_all(&w->rows[row]))
                metrics_line(out, all[i].name, &w->rows[row], "", metrics_of_row(&w->rows[row], (int)i));
    }
}

static void metrics_of_results(srt_web *w, srt_bytes *out)
{
    size_t row;
    metrics_head(out, "processed_total", "counter", "Ids settled, by result.");
    for (row = 0; row < w->row_count; row++) {
        if (!metrics_counts_all(&w->rows[row]))
            continue;
        metrics_line(out, "processed_total", &w->rows[row], ",result=\"done\"", (double)w->rows[row].total.processed);
        metrics_line(out, "processed_total", &w->rows[row], ",result=\"failed\"", (double)w->rows[row].total.failed);
    }
}

static void metrics_of_shards(srt_web *w, srt_bytes *out)
{
    char label[40];
    size_t row;
    unsigned shard;
    metrics_head(
        out, "shard_lag_seconds", "gauge",
        "Seconds since the oldest waiting id of the shard, or scheduled payload whose time has come, became due.");
    for (row = 0; row < w->row_count; row++)
        for (shard = 0; shard < w->rows[row].shards_count && w->rows[row].shards; shard++) {
            srt_bytes text = {NULL, label, 0, sizeof label - 1, 0};
            if (w->rows[row].shards[shard].is_missing)
                continue; /* 0 would say that it is not late */
            srt_bytes_adds(&text, ",shard=\"");
            srt_bytes_add_int(&text, shard);
            srt_bytes_adds(&text, "\"");
            label[text.len] = '\0';
            metrics_line(out, "shard_lag_seconds", &w->rows[row], label,
                         (double)w->rows[row].shards[shard].lag_us / 1e6);
        }
}

static void metrics_bucket(const srt_web_row *row, const char *le, double calls, srt_bytes *out)
{
    char label[60];
    snprintf(label, sizeof label, ",le=\"%s\"", le);
    metrics_line(out, "run_seconds_bucket", row, label, calls);
}

/* Whole octaves: half as many series as there are buckets. */
static void metrics_of_runs_of(const srt_web_row *row, const srt_run_times *times, srt_bytes *out)
{
    char bound[SRT_JSON_DOUBLE_SIZE];
    double calls = 0;
    size_t i;
    for (i = 0; i + 1 < SRT_TIMES_BUCKETS; i++) {
        calls += times->calls[i];
        if (i % 2 == 0) {
            bound[srt_json_double_text(srt_run_bound(i), bound)] = '\0';
            metrics_bucket(row, bound, calls, out);
        }
    }
    calls += times->calls[i];
    metrics_bucket(row, "+Inf", calls, out);
    metrics_line(out, "run_seconds_sum", row, "", times->sum);
    metrics_line(out, "run_seconds_count", row, "", calls);
}

static void metrics_of_runs(srt_web *w, srt_bytes *out)
{
    const metrics_runs *runs = w->page;
    size_t row;
    metrics_head(out, "run_seconds", "histogram", "Run times of the calls of perform.");
    for (row = 0; runs && row < w->row_count; row++)
        if (srt_run_times_calls(&runs->rows[row]) > 0)
            metrics_of_runs_of(&w->rows[row], &runs->rows[row], out);
}

void srt_web_metrics_text(srt_web *w, srt_bytes *out)
{
    metrics_of_queues(w, out);
    metrics_of_results(w, out);
    metrics_of_shards(w, out);
    metrics_of_runs(w, out);
}

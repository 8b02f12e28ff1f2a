/* web.c - a web request from begin to answer. */
#include "web/web.h"

#include <stdio.h>
#include <string.h>

/* ---- Life ---------------------------------------------------------------------------------- */

static void web_free(seriatim_client *c)
{
    srt_web *w = c->web;
    srt_arena_free(&w->memory);
    srt_arena_free(&w->names_memory);
    srt_queue_names_free(&w->search);
    srt_arena_free(&w->snapshots[0].memory);
    srt_arena_free(&w->snapshots[1].memory);
    srt_bytes_free(&w->body);
    srt_bytes_free(&w->line);
    srt_free(c->mem, w, sizeof *w);
}

static srt_web *web_of(seriatim_client *c)
{
    srt_web *w = c->web;
    if (w)
        return w;
    w = srt_alloc(c->mem, sizeof *w);
    if (!w)
        return NULL;
    w->mem = c->mem;
    srt_arena_init(&w->memory, c->mem);
    srt_arena_init(&w->names_memory, c->mem);
    srt_queue_names_init(&w->search, c->mem);
    srt_arena_init(&w->snapshots[0].memory, c->mem);
    srt_arena_init(&w->snapshots[1].memory, c->mem);
    srt_bytes_init(&w->body, c->mem);
    srt_bytes_init(&w->line, c->mem);
    c->web = w;
    srt_client_on_free(c, web_free);
    return w;
}

/* All but what is kept from request to request. */
static void web_reset(srt_web *w)
{
    srt_web kept = *w;
    memset(w, 0, sizeof *w);
    w->mem = kept.mem;
    w->memory = kept.memory;
    w->body = kept.body;
    w->line = kept.line;
    w->names_memory = kept.names_memory;
    w->names = kept.names;
    w->name_count = kept.name_count;
    w->names_at = kept.names_at;
    w->names_slices = kept.names_slices;
    w->search = kept.search;
    w->search_at = kept.search_at;
    w->snapshots[0] = kept.snapshots[0];
    w->snapshots[1] = kept.snapshots[1];
    w->last_snapshot = kept.last_snapshot;
    w->sampled_at = kept.sampled_at;
    w->queue = SRT_NO_QUEUE;
    w->count = -1;
    srt_arena_reset(&w->memory);
    srt_bytes_clear(&w->body);
}

/* ---- The chain ----------------------------------------------------------------------------- */

static void web_go_on(seriatim_client *c);

/* What could not be begun because of what was asked is the asker's fault. */
static int web_take_failure(seriatim_client *c, srt_web *w, int status)
{
    if (status == SERIATIM_INVALID) {
        srt_web_refuse(w, 400, "%s", c->error.message);
        return SERIATIM_OK;
    }
    srt_web_refuse(w, 503, "%s", c->error.message);
    return status;
}

/* Begins the next operation, and the one behind it where that one ends at once. */
static int web_run(seriatim_client *c)
{
    srt_web *w = c->web;
    int status;
    do {
        status = w->is_sampling ? srt_web_sample_next(c, w) : w->handler->next(c, w);
        w->is_loading = status == SRT_WEB_LOADS && !w->is_sampling;
        if (w->is_loading)
            return SERIATIM_OK;
        w->step++;
        if (status == SRT_WEB_DONE && !w->is_sampling)
            return SERIATIM_OK;
        if (status == SRT_WEB_DONE) {
            w->is_sampling = w->step = 0;
            continue;
        }
        if (status != SERIATIM_OK)
            return web_take_failure(c, w, status);
    } while (c->status == SERIATIM_OK);
    c->after = web_go_on;
    return SERIATIM_OK;
}

static void web_go_on(seriatim_client *c)
{
    int status = web_run(c);
    if (status != SERIATIM_OK && c->status != SERIATIM_AGAIN)
        c->status = status;
}

static int web_check_lists(seriatim_client *c, const seriatim_web_settings *s)
{
    if (s->host_count && !s->hosts)
        return srt_fail(&c->error, SERIATIM_INVALID, "hosts are missing");
    if (s->worker_count && !s->workers)
        return srt_fail(&c->error, SERIATIM_INVALID, "workers are missing");
    return SERIATIM_OK;
}

int seriatim_web_begin(seriatim_client *c, const seriatim_web_settings *settings, const seriatim_web_request *request)
{
    static const seriatim_web_settings defaults = {NULL, 0, NULL, 0, NULL, NULL, NULL, 0, 0, 0};
    srt_web *w;
    int status = srt_client_begin(c);
    if (!settings)
        settings = &defaults;
    if (status == SERIATIM_OK)
        status = web_check_lists(c, settings);
    if (status != SERIATIM_OK)
        return status;
    w = web_of(c);
    if (!w)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    c->limit_ms = SRT_WEB_LIMIT_MS;
    c->visitor = c->heard = 0;
    web_reset(w);
    w->loads_errors = settings->loads_errors;
    w->routes = seriatim_web_routes(&w->route_count);
    w->handlers = srt_web_handlers();
    status = srt_web_read(w, settings, request);
    if (status == SERIATIM_OK) {
        w->title = srt_arena_copy(&w->memory, settings->title ? settings->title : "Seriatim",
                                  strlen(settings->title ? settings->title : "Seriatim"));
        w->stalled =
            settings->stalled ? srt_arena_copy(&w->memory, settings->stalled, strlen(settings->stalled)) : NULL;
        if (!w->title || (settings->stalled && !w->stalled))
            status = SERIATIM_NOMEM;
    }
    if (status != SERIATIM_OK) {
        srt_web_refuse(w, 503, "out of memory");
        return srt_fail_plain(&c->error, status);
    }
    if (srt_web_changes(w))
        c->visitor = request->socket;
    srt_cluster_set_patience(&c->cluster, srt_web_changes(w) ? 0 : SRT_WEB_MOVING_MS);
    if (w->route && w->route->action)
        w->snapshots[w->last_snapshot].at = 0;
    w->is_sampling = !w->status && w->route && srt_web_sample_due(c, w);
    return w->status || !w->route ? SERIATIM_OK : web_run(c);
}

/* ---- The answer ---------------------------------------------------------------------------- */

static void web_header(srt_web *w, const char *name, const char *value)
{
    w->headers[w->header_count].name = name;
    w->headers[w->header_count++].value = value;
}

static void web_headers(srt_web *w, const char *type)
{
    int file = w->asset && w->status == 200 && strcmp(w->asset->name, "index.html") != 0;
    w->header_count = 0;
    if (type)
        web_header(w, "Content-Type", type);
    web_header(w, "Cache-Control", file && w->is_same_version ? "public, max-age=86400" : "no-store");
    web_header(w, "Content-Security-Policy",
               "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
               "base-uri 'none'; form-action 'self'; frame-ancestors 'none'");
    web_header(w, "X-Content-Type-Options", "nosniff");
    web_header(w, "X-Frame-Options", "DENY");
    web_header(w, "Referrer-Policy", "no-referrer");
    if (file && w->asset->gzip)
        web_header(w, "Vary", "Accept-Encoding");
    if (file && w->asset->gzip && w->takes_gzip)
        web_header(w, "Content-Encoding", "gzip");
    if (w->status == 308)
        web_header(w, "Location", w->location);
    if (w->status == 401)
        web_header(w, "WWW-Authenticate", "Bearer");
    if (w->status == 405)
        web_header(w, "Allow", w->allow ? w->allow : "GET, HEAD");
    if (w->moving[0])
        web_header(w, "Seriatim-Moving-Slots", w->moving);
}

/* The slots without which the answer is made: "12, 4019". */
static void web_note_moving(const srt_cluster *cl, srt_web *w)
{
    size_t len = 0;
    int slot;
    w->moving[0] = '\0';
    for (slot = srt_cluster_given_up(cl, 0); slot >= 0; slot = srt_cluster_given_up(cl, slot + 1)) {
        const char *format = len + 16 < sizeof w->moving ? "%s%d" : "%s...";
        len += (size_t)snprintf(w->moving + len, sizeof w->moving - len, format, len ? ", " : "", slot);
        if (len + 8 >= sizeof w->moving)
            return;
    }
}

/* A change that Redis failed also tells what it did before, so that nobody has to guess. */
static void web_write_error(srt_web *w, srt_web_out *out)
{
    int failed = w->status >= 500 && w->route && w->route->action;
    srt_json_begin_object(&out->json);
    if (failed)
        srt_web_int(out, "done", w->done);
    srt_web_chars(out, "error", w->error);
    if (failed)
        srt_web_bool(out, "unknown", w->is_unknown);
    srt_json_end_object(&out->json);
}

/* 0: memory is short. */
static int web_write_json(seriatim_client *c, srt_web *w, const seriatim_web_hooks *hooks)
{
    srt_web_out out;
    int status;
    memset(&out, 0, sizeof out);
    out.body = &w->body;
    out.hooks = hooks;
    srt_json_writer_init(&out.json, &w->body, "");
    if (w->status && w->status != 200)
        web_write_error(w, &out);
    else
        w->handler->write(c, w, &out);
    status = srt_json_finish(&out.json);
    if (status != SERIATIM_OK && status != SERIATIM_NOMEM)
        srt_web_refuse(w, 500, "the answer cannot be written");
    srt_json_writer_free(&out.json);
    return status == SERIATIM_OK && !w->body.failed;
}

static const seriatim_web_response *web_respond(srt_web *w, const char *data, size_t len)
{
    w->response.status = w->status;
    w->response.headers = w->headers;
    w->response.header_count = w->header_count;
    w->response.body.data = data;
    w->response.body.len = w->head ? 0 : len;
    w->response.wait_ms = w->wait_ms;
    return &w->response;
}

/* When there is no memory for a better one. */
static const seriatim_web_response *web_nothing(srt_web *w)
{
    static const char body[] = "{\"error\":\"out of memory\"}";
    static const seriatim_web_header headers[] = {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}};
    static const seriatim_web_response response = {503, headers, 2, {body, sizeof body - 1}, 0};
    if (!w)
        return &response;
    w->status = 503;
    w->asset = NULL;
    web_headers(w, "application/json");
    return web_respond(w, body, sizeof body - 1);
}

static const seriatim_web_response *web_answer_file(srt_web *w)
{
    web_headers(w, w->asset->type);
    if (strcmp(w->asset->name, "index.html") != 0 && w->asset->gzip && w->takes_gzip)
        return web_respond(w, (const char *)w->asset->gzip, w->asset->gzip_len);
    if (strcmp(w->asset->name, "index.html") != 0)
        return web_respond(w, (const char *)w->asset->data, w->asset->len);
    srt_web_page(&w->body, w->depth);
    return w->body.failed ? web_nothing(w) : web_respond(w, w->body.data ? w->body.data : "", w->body.len);
}

static const seriatim_web_response *web_answer_text(srt_web *w)
{
    w->handler->text(w, &w->body);
    if (w->body.failed) {
        srt_bytes_clear(&w->body);
        return web_nothing(w);
    }
    w->status = 200;
    web_headers(w, "text/plain; version=0.0.4; charset=utf-8");
    return web_respond(w, w->body.data ? w->body.data : "", w->body.len);
}

/*
 * "Connection refused" where the client's error ends so: what stands behind its last ": ", brackets aside. What stands
 * before it names the address, which no visitor needs.
 */
static const char *web_cause(const seriatim_client *c, int status)
{
    const char *cause = seriatim_status_text(status), *at = c->error.message;
    int depth = 0;
    if (status != SERIATIM_IO && status != SERIATIM_TIMEOUT && status != SERIATIM_CLOSED)
        return cause;
    for (; *at; at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth == 0 && at[0] == ':' && at[1] == ' ')
            cause = at + 2;
    }
    return cause;
}

/* Of a change that failed: what is known of it, as data and behind the error. */
static void web_take_failed_change(seriatim_client *c, srt_web *w)
{
    size_t len = strlen(w->error);
    if (!w->route || !w->route->action || w->status < 500)
        return;
    if (w->is_changing) {
        w->done = seriatim_action_result(c);
        w->is_unknown = c->heard;
    }
    if (w->is_unknown)
        snprintf(w->error + len, sizeof w->error - len, "; done before: %lld; whether more was done is not known",
                 (long long)w->done);
    else if (w->done > 0)
        snprintf(w->error + len, sizeof w->error - len, "; done before: %lld", (long long)w->done);
    else
        snprintf(w->error + len, sizeof w->error - len, "; nothing was changed");
}

/* How the drive failed: not reached or not now 503, anything else 500 without details. */
static void web_take_status(seriatim_client *c, srt_web *w, int status)
{
    if (status == SERIATIM_INVALID)
        srt_web_refuse(w, 400, "%s", c->error.message);
    else if (status == SERIATIM_STALE && w->handler && (w->handler->uses & SRT_WEB_CONSUMES))
        srt_web_refuse(w, 409, "%s", c->error.message);
    else if (status == SERIATIM_GENERATION)
        srt_web_refuse(w, 404, "there is no such queue: it was deleted meanwhile");
    else if (status == SERIATIM_PROTOCOL || status == SERIATIM_SERVER || status == SERIATIM_UNSUPPORTED)
        srt_web_refuse(w, 500, "Redis cannot answer this: %s", seriatim_status_text(status));
    else if (c->waited_for_move || (status == SERIATIM_LOADING && w->moving[0]))
        srt_web_refuse(w, 503, "%s", c->error.message);
    else if (status == SERIATIM_CLOSED) /* the visitor has left (the audit shows it), or the host is busy */
        srt_web_refuse(w, 503, "%.100s", c->error.message);
    else if (status == SERIATIM_AUTH) /* the credentials, or a right of its user, without the words of Redis */
        srt_web_refuse(w, 503, "Redis cannot be asked now: %.*s", (int)strcspn(c->error.message, ":"),
                       c->error.message);
    else
        srt_web_refuse(w, 503, "Redis cannot be asked now: %.160s", web_cause(c, status));
    web_take_failed_change(c, w);
}

/*
 * Who is signed in is the host application's matter: its root is where a reader can do so. No file of the page is shown
 * to nobody, so it has no look.
 */
static const seriatim_web_response *web_answer_sign_in(srt_web *w)
{
    static const char head[] =
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Not signed in</title>\n<h1>";
    static const char tail[] =
        ".</h1>\n<p>This page is for those who are signed in to the application that it belongs to.</p>\n"
        "<p><a href=\"/\">Sign in</a>, then <a href=\"\">open this page again</a>.</p>\n</html>\n";
    srt_bytes_add(&w->body, head, sizeof head - 1);
    srt_bytes_add(&w->body, w->error, strlen(w->error));
    srt_bytes_add(&w->body, tail, sizeof tail - 1);
    if (w->body.failed) {
        srt_bytes_clear(&w->body);
        return web_nothing(w);
    }
    web_headers(w, "text/html; charset=utf-8");
    return web_respond(w, w->body.data, w->body.len);
}

/* Calls a handler that waited for the hooks. 1: it began another operation. */
static int web_load(seriatim_client *c, srt_web *w, const seriatim_web_hooks *hooks)
{
    static const seriatim_web_hooks none = {NULL, NULL, NULL};
    w->hooks = hooks ? hooks : &none;
    web_go_on(c);
    w->hooks = NULL;
    return c->status == SERIATIM_AGAIN;
}

const seriatim_web_response *seriatim_web_answer(seriatim_client *c, int status, const seriatim_web_hooks *hooks)
{
    srt_web *w = c->web;
    if (!w)
        return web_nothing(NULL);
    if (w->is_loading && status == SERIATIM_OK) {
        if (web_load(c, w, hooks))
            return NULL;
        status = c->status;
    }
    c->limit_ms = c->visitor = 0;
    if (c->cluster.patience_ms > 0)
        web_note_moving(&c->cluster, w);
    srt_cluster_set_patience(&c->cluster, 0);
    srt_bytes_clear(&w->body);
    if (status == SERIATIM_NOMEM)
        return web_nothing(w);
    if (status != SERIATIM_OK && (w->status == 0 || w->status == 200))
        web_take_status(c, w, status);
    if (w->status == 200 && w->asset)
        return web_answer_file(w);
    if (w->status == 401 && w->wants_html)
        return web_answer_sign_in(w);
    if (!w->status && !w->handler)
        return web_nothing(w);
    if (w->status == 204) {
        web_headers(w, NULL);
        return web_respond(w, "", 0);
    }
    if (!w->status && w->handler->text)
        return web_answer_text(w);
    if (!web_write_json(c, w, hooks)) {
        srt_bytes_clear(&w->body);
        return web_nothing(w);
    }
    if (!w->status)
        w->status = 200;
    web_headers(w, "application/json");
    return web_respond(w, w->body.data, w->body.len);
}

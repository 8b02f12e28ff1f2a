/* request.c - reads a request: which route and queue it is for, and whether it is permitted. */
#include "web/consume.h"

#include <string.h>

static int request_copy(srt_web *w, seriatim_text from, seriatim_text *to)
{
    to->len = from.data ? from.len : 0;
    to->data = srt_arena_copy(&w->memory, from.data, to->len);
    return to->data ? SERIATIM_OK : SERIATIM_NOMEM;
}

/* The settings are gone when Redis answers. */
static int request_keep_workers(srt_web *w, const seriatim_web_settings *s)
{
    int wanted = w->route && (w->handler->uses & SRT_WEB_NAMES_WORKERS);
    seriatim_web_worker *workers;
    size_t i;
    if (!wanted || s->worker_count == 0)
        return SERIATIM_OK;
    workers = srt_arena_alloc(&w->memory, s->worker_count * sizeof *workers);
    if (!workers)
        return SERIATIM_NOMEM;
    for (i = 0; i < s->worker_count; i++)
        if (request_copy(w, s->workers[i].name, &workers[i].name) != SERIATIM_OK ||
            request_copy(w, s->workers[i].queue, &workers[i].queue) != SERIATIM_OK)
            return SERIATIM_NOMEM;
    w->workers = workers;
    w->worker_count = s->worker_count;
    return SERIATIM_OK;
}

static int request_texts_equal(seriatim_text a, seriatim_text b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

const seriatim_web_worker *srt_web_worker_named(const srt_web *w, seriatim_text name)
{
    const seriatim_web_worker *found = NULL;
    size_t i;
    for (i = 0; i < w->worker_count; i++) {
        if (!request_texts_equal(w->workers[i].name, name))
            continue;
        if (found && !request_texts_equal(found->queue, w->workers[i].queue))
            return NULL;
        found = &w->workers[i];
    }
    return found;
}

const seriatim_web_worker *srt_web_worker_of(const srt_web *w, seriatim_text queue)
{
    size_t i;
    for (i = 0; i < w->worker_count; i++)
        if (request_texts_equal(w->workers[i].queue, queue))
            return srt_web_worker_named(w, w->workers[i].name);
    return NULL;
}

/* What is asked for, as far as method and path tell. */
static int request_find(srt_web *w, const seriatim_web_request *request)
{
    static const seriatim_text nowhere = {"", 0};
    seriatim_text path = request->path.data ? request->path : nowhere;
    int api = srt_web_request_starts(path, "/api"), status;
    const char *method = w->head ? "GET" : request->method;
    if (!method || (strcmp(method, "GET") != 0 && strcmp(method, "POST") != 0)) {
        srt_web_refuse(w, 405, "only GET, HEAD and POST are answered");
        return SERIATIM_OK;
    }
    if (path.len > 0 && path.data[0] != '/') {
        srt_web_refuse(w, 404, "not found");
        return SERIATIM_OK;
    }
    status = srt_web_request_find_route(w, method, path);
    if (status != SERIATIM_OK || w->route || w->status)
        return status;
    if (api)
        srt_web_refuse(w, 404, "not found");
    else if (strcmp(method, "GET") != 0)
        srt_web_refuse(w, 405, "only GET and HEAD are answered here");
    else if (srt_web_request_starts(path, "/assets"))
        srt_web_request_find_asset(w, path);
    else
        srt_web_request_find_page(w, request);
    return SERIATIM_OK;
}

/* An absent text has no length, whatever the host gave. */
static seriatim_web_request request_given(const seriatim_web_request *request)
{
    seriatim_web_request given = *request;
    seriatim_text *const texts[] = {
        &given.prefix,         &given.path,         &given.query,         &given.host,   &given.origin,
        &given.sec_fetch_site, &given.content_type, &given.authorization, &given.accept, &given.accept_encoding,
        &given.body,
    };
    size_t i;
    for (i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!texts[i]->data)
            texts[i]->len = 0;
    return given;
}

int srt_web_read(srt_web *w, const seriatim_web_settings *s, const seriatim_web_request *asked)
{
    const seriatim_web_request given = request_given(asked), *request = &given;
    int found, status;
    w->head = request->method && strcmp(request->method, "HEAD") == 0;
    w->wants_html = srt_web_request_wants_html(request->accept);
    w->takes_gzip = srt_web_request_takes_gzip(request->accept_encoding);
    w->role = srt_web_request_has_token(s, request) ? request->role : SERIATIM_WEB_NOBODY;
    w->read_only = s->read_only;
    w->consume = s->consume;
    w->host_waits = request->host_waits;
    w->waited_ms = request->waited_ms;
    status = request_find(w, request);
    if (status != SERIATIM_OK)
        return status;
    found = w->status;
    if (found == 0 || found == 200 || found == 404)
        srt_web_request_check(w, s, request);
    if (w->status || !w->route)
        return SERIATIM_OK;
    if (request->body.data && request->body.len > SERIATIM_WEB_MAX_BODY) {
        srt_web_refuse(w, 413, "the body is longer than %d bytes", SERIATIM_WEB_MAX_BODY);
        w->route = NULL; /* nothing is told of it: most hosts refuse such a body before the core sees it */
        return SERIATIM_OK;
    }
    status = request_keep_workers(w, s);
    if (status == SERIATIM_OK)
        status = srt_web_request_read_params(w, request->query);
    if (status != SERIATIM_OK || !srt_web_changes(w))
        return status;
    return w->route->action ? srt_web_request_read_body(w, request) : srt_consume_read(w, request);
}

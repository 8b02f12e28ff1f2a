/* find_route.c - finds the route, the file or the page that a path names. */
#include "web/request.h"

#include <stdio.h>
#include <string.h>

#define REQUEST_SEGMENTS 8

static size_t request_split(const char *at, size_t len, seriatim_text *segments, size_t cap)
{
    const char *end = at + len, *slash;
    size_t n = 0;
    for (; at < end; at = slash) {
        if (n == cap)
            return cap + 1;
        at++; /* the slash before it */
        slash = memchr(at, '/', (size_t)(end - at));
        if (!slash)
            slash = end;
        segments[n].data = at;
        segments[n++].len = (size_t)(slash - at);
    }
    return n;
}

/* The pattern's words agree; what stands for :name goes into values. */
static int request_fits(const char *pattern, const seriatim_text *segments, size_t count, seriatim_text *values)
{
    seriatim_text words[REQUEST_SEGMENTS];
    size_t i, n = request_split(pattern, strlen(pattern), words, REQUEST_SEGMENTS), found = 0;
    if (n != count)
        return 0;
    for (i = 0; i < n; i++) {
        if (words[i].data[0] == ':' && segments[i].len > 0)
            values[found++] = segments[i];
        else if (words[i].len != segments[i].len || memcmp(words[i].data, segments[i].data, words[i].len) != 0)
            return 0;
    }
    return 1;
}

int srt_web_request_find_route(srt_web *w, const char *method, seriatim_text path)
{
    static const seriatim_text none = {NULL, 0};
    seriatim_text segments[REQUEST_SEGMENTS], values[2];
    size_t i, count = request_split(path.data, path.len, segments, REQUEST_SEGMENTS);
    int status = SERIATIM_OK;
    for (i = 0; i < w->route_count && count <= REQUEST_SEGMENTS; i++) {
        values[0] = values[1] = none;
        if (!request_fits(w->routes[i].pattern, segments, count, values))
            continue;
        w->allow = strcmp(w->routes[i].method, "POST") == 0 ? "POST" : "GET, HEAD";
        if (strcmp(w->routes[i].method, method) != 0)
            continue;
        if (!w->consume && srt_web_request_starts(path, "/api/v1/consume")) {
            srt_web_refuse(w, 404, "this mount does not serve consumers: it was made without consume: true");
            return SERIATIM_OK;
        }
        w->route = &w->routes[i];
        w->handler = &w->handlers[i];
        if (values[0].data)
            status = srt_web_request_decode(w, values[0].data, values[0].len, 0, &w->worker);
        if (status == SERIATIM_OK && values[1].data)
            status = srt_web_request_decode(w, values[1].data, values[1].len, 0, &w->word);
        return status;
    }
    if (w->allow)
        srt_web_refuse(w, 405, "this path does not answer %s", strcmp(method, "GET") == 0 ? "GET" : "this method");
    return SERIATIM_OK;
}

int srt_web_request_starts(seriatim_text path, const char *with)
{
    size_t len = strlen(with);
    return path.len >= len && memcmp(path.data, with, len) == 0 && (path.len == len || path.data[len] == '/');
}

void srt_web_request_find_asset(srt_web *w, seriatim_text path)
{
    const char *at = path.data + strlen("/assets/"), *end = path.data + path.len;
    const char *slash = path.len > strlen("/assets/") ? memchr(at, '/', (size_t)(end - at)) : NULL;
    seriatim_text version = {at, slash ? (size_t)(slash - at) : 0};
    w->asset = slash ? srt_web_asset_find(slash + 1, (size_t)(end - slash - 1)) : NULL;
    w->is_same_version = srt_web_word_is(version, srt_web_assets_version());
    if (w->asset)
        w->status = 200;
    else
        srt_web_refuse(w, 404, "not found");
}

/* The prefix goes into a header: nothing but printable ASCII, and no host in it. */
static void request_redirect(srt_web *w, seriatim_text prefix)
{
    size_t i;
    int fits = prefix.len > 0 && prefix.len < sizeof w->location - 2 && prefix.data[0] == '/';
    for (i = 0; fits && i < prefix.len; i++)
        fits = prefix.data[i] > ' ' && prefix.data[i] < 127 && !strchr("\\\"<>", prefix.data[i]) &&
               (prefix.data[i] != '/' || i == 0 || prefix.data[i - 1] != '/');
    if (!fits) {
        srt_web_refuse(w, 404, "not found");
        return;
    }
    snprintf(w->location, sizeof w->location, "%.*s/", (int)prefix.len, prefix.data);
    srt_web_refuse(w, 308, "moved");
}

void srt_web_request_find_page(srt_web *w, const seriatim_web_request *request)
{
    size_t i;
    if (request->path.len == 0 && request->prefix.len > 0) {
        request_redirect(w, request->prefix);
        return;
    }
    for (i = 1; i < request->path.len; i++)
        w->depth += request->path.data[i] == '/';
    if (w->depth > 16)
        srt_web_refuse(w, 404, "not found");
    else if ((w->asset = srt_web_asset_find("index.html", 10)))
        w->status = 200;
    else
        srt_web_refuse(w, 404, "not found");
}

/* request.c - what a web request asks for, and whether it may. */
#include "web/web.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REQUEST_SEGMENTS 8
#define REQUEST_PARAMS 32
#define REQUEST_MAX_IDS 1000
#define REQUEST_JSON "application/json"
#define REQUEST_FORM "application/x-www-form-urlencoded"

/* ---- Texts --------------------------------------------------------------------------------- */

int srt_web_refuse(srt_web *w, int status, const char *format, ...)
{
    va_list args;
    w->status = status;
    va_start(args, format);
    vsnprintf(w->error, sizeof w->error, format, args);
    va_end(args);
    return SRT_WEB_DONE;
}

const char *srt_web_role_word(int role)
{
    static const char *const words[] = {"nobody", "viewer", "operator", "admin"};
    return words[role < SERIATIM_WEB_NOBODY ? SERIATIM_WEB_NOBODY : role > SERIATIM_WEB_ADMIN ? SERIATIM_WEB_ADMIN : role];
}

int srt_web_done(srt_web *w, int64_t count)
{
    if (!w->status)
        w->count = count;
    return SRT_WEB_DONE;
}

int srt_web_word_is(seriatim_text text, const char *word)
{
    return text.data && text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

static char request_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 32) : c;
}

static int request_same(seriatim_text a, const char *b, size_t len)
{
    size_t i;
    if (!a.data || a.len != len)
        return 0;
    for (i = 0; i < len; i++)
        if (request_lower(a.data[i]) != request_lower(b[i]))
            return 0;
    return 1;
}

/* Is it this media type, with or without parameters? */
static int request_is_type(seriatim_text type, const char *wanted)
{
    seriatim_text head = {type.data, strlen(wanted)};
    return type.data && type.len >= head.len && request_same(head, wanted, head.len) &&
           (type.len == head.len || type.data[head.len] == ';' || type.data[head.len] == ' ');
}

static int request_hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Percent-decodes into the request's memory; a percent sign that begins nothing stays one. */
static int request_decode(srt_web *w, const char *at, size_t len, int plus, seriatim_text *text)
{
    char *out = srt_arena_alloc(&w->memory, len + 1);
    size_t i, n = 0;
    if (!out)
        return SERIATIM_NOMEM;
    for (i = 0; i < len; i++) {
        if (at[i] == '%' && len - i > 2 && request_hex(at[i + 1]) >= 0 && request_hex(at[i + 2]) >= 0) {
            out[n++] = (char)(request_hex(at[i + 1]) * 16 + request_hex(at[i + 2]));
            i += 2;
        } else {
            out[n++] = plus && at[i] == '+' ? ' ' : at[i];
        }
    }
    out[n] = '\0';
    text->data = out;
    text->len = n;
    return SERIATIM_OK;
}

/* ---- The query ----------------------------------------------------------------------------- */

/* Reads the NAME=VALUE that *at begins with, decoded, and moves *at behind its "&". */
static int request_next_param(srt_web *w, const char **at, const char *end, srt_web_param *param)
{
    const char *stop = memchr(*at, '&', (size_t)(end - *at)), *equals;
    int status;
    if (!stop)
        stop = end;
    equals = memchr(*at, '=', (size_t)(stop - *at));
    status = request_decode(w, *at, (size_t)((equals ? equals : stop) - *at), 1, &param->name);
    if (status == SERIATIM_OK)
        status = request_decode(w, equals ? equals + 1 : stop, equals ? (size_t)(stop - equals - 1) : 0, 1, &param->value);
    *at = stop < end ? stop + 1 : end;
    return status;
}

static int request_read_params(srt_web *w, seriatim_text query)
{
    const char *at = query.data, *end = at ? at + query.len : at;
    int status = SERIATIM_OK;
    if (!at || query.len == 0)
        return SERIATIM_OK;
    w->params = srt_arena_alloc(&w->memory, REQUEST_PARAMS * sizeof *w->params);
    if (!w->params)
        return SERIATIM_NOMEM;
    while (at < end && status == SERIATIM_OK && w->param_count < REQUEST_PARAMS) {
        status = request_next_param(w, &at, end, &w->params[w->param_count]);
        w->param_count += status == SERIATIM_OK;
    }
    return status;
}

seriatim_text srt_web_param_of(const srt_web *w, const char *name)
{
    static const seriatim_text none = {NULL, 0};
    size_t i;
    for (i = 0; i < w->param_count; i++)
        if (srt_web_word_is(w->params[i].name, name))
            return w->params[i].value;
    return none;
}

int srt_web_param_int(srt_web *w, const char *name, int64_t low, int64_t high, int64_t absent, int64_t *value)
{
    seriatim_text text = srt_web_param_of(w, name);
    size_t i;
    *value = absent;
    if (!text.data || text.len == 0)
        return 1;
    *value = 0;
    for (i = 0; i < text.len && text.data[i] >= '0' && text.data[i] <= '9' && *value <= high; i++)
        *value = *value * 10 + (text.data[i] - '0');
    if (i == text.len && *value >= low && *value <= high)
        return 1;
    srt_web_refuse(w, 400, "%s must be from %lld to %lld", name, (long long)low, (long long)high);
    return 0;
}

/* ---- The body: {"ids": [...], "cursor": "..."}, of one payload {"id": ..., "key": "..."} -------- */

static int base64_value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+' || c == '-' ? 62
           : c == '/' || c == '_' ? 63
                                  : -1;
}

static int request_unbase64(srt_web *w, const srt_json_token *t, seriatim_text *text)
{
    char *out = srt_arena_alloc(&w->memory, t->len + 1);
    unsigned bits = 0, have = 0;
    size_t i, n = 0;
    if (!out)
        return SERIATIM_NOMEM;
    for (i = 0; i < t->len && t->text[i] != '='; i++) {
        int value = base64_value(t->text[i]);
        if (value < 0)
            return SERIATIM_INVALID;
        bits = bits << 6 | (unsigned)value;
        have += 6;
        if (have >= 8)
            out[n++] = (char)(bits >> (have -= 8) & 255);
    }
    text->data = out;
    text->len = n;
    return SERIATIM_OK;
}

static int request_keep_text(srt_web *w, const srt_json_token *t, seriatim_text *text)
{
    text->data = srt_arena_copy(&w->memory, t->text, t->len);
    text->len = t->len;
    return text->data ? SERIATIM_OK : SERIATIM_NOMEM;
}

/* One id: a text, a whole number, or {"base64": text}. */
static int request_read_id(srt_web *w, srt_json_reader *r, const srt_json_token *t, seriatim_text *id)
{
    srt_json_token inner;
    char digits[24];
    int status;
    if (t->type == SRT_JSON_STRING)
        return request_keep_text(w, t, id);
    if (t->type == SRT_JSON_INT) {
        srt_bytes number = {NULL, digits, 0, sizeof digits, 0};
        srt_json_token text = {SRT_JSON_STRING, digits, 0, 0, 0};
        srt_bytes_add_int(&number, t->integer);
        text.len = number.len;
        return request_keep_text(w, &text, id);
    }
    if (t->type != SRT_JSON_BEGIN_OBJECT || srt_json_next(r, &inner) != SERIATIM_OK || inner.type != SRT_JSON_KEY ||
        inner.len != 6 || memcmp(inner.text, "base64", 6) != 0 || srt_json_next(r, &inner) != SERIATIM_OK ||
        inner.type != SRT_JSON_STRING)
        return SERIATIM_INVALID;
    status = request_unbase64(w, &inner, id);
    if (status == SERIATIM_OK && (srt_json_next(r, &inner) != SERIATIM_OK || inner.type != SRT_JSON_END_OBJECT))
        status = SERIATIM_INVALID;
    return status;
}

/* Room for all ids that a body may have. */
static int request_begin_ids(srt_web *w)
{
    w->has_ids = 1;
    w->ids = srt_arena_alloc(&w->memory, REQUEST_MAX_IDS * sizeof *w->ids);
    return w->ids ? SERIATIM_OK : SERIATIM_NOMEM;
}

static int request_read_ids(srt_web *w, srt_json_reader *r)
{
    srt_json_token t;
    int status = srt_json_next(r, &t);
    if (status != SERIATIM_OK || t.type != SRT_JSON_BEGIN_ARRAY)
        return status == SERIATIM_NOMEM ? status : SERIATIM_INVALID;
    status = request_begin_ids(w);
    if (status != SERIATIM_OK)
        return status;
    for (w->id_count = 0;; w->id_count++) {
        status = srt_json_next(r, &t);
        if (status != SERIATIM_OK || t.type == SRT_JSON_END_ARRAY)
            return status;
        if (w->id_count == REQUEST_MAX_IDS)
            return SERIATIM_INVALID;
        status = request_read_id(w, r, &t, &w->ids[w->id_count]);
        if (status != SERIATIM_OK)
            return status;
    }
}

/* The 32 hex digits that a record tells of a payload; its score is a number. */
static int request_read_key(srt_web *w, seriatim_text digits)
{
    char *key = srt_arena_alloc(&w->memory, SRT_KEY);
    size_t i;
    if (!key)
        return SERIATIM_NOMEM;
    if (digits.len != 2 * SRT_KEY)
        return SERIATIM_INVALID;
    for (i = 0; i < SRT_KEY; i++) {
        int high = request_hex(digits.data[2 * i]), low = request_hex(digits.data[2 * i + 1]);
        if (high < 0 || low < 0)
            return SERIATIM_INVALID;
        key[i] = (char)(high << 4 | low);
    }
    w->key.data = key;
    w->key.len = SRT_KEY;
    return (key[8] & 0x7F) == 0x7F && (key[9] & 0xF0) == 0xF0 ? SERIATIM_INVALID : SERIATIM_OK;
}

/* What names a payload. */
static int request_read_name(srt_web *w, srt_json_reader *r, const srt_json_token *key)
{
    int is_id = key->len == 2 && memcmp(key->text, "id", 2) == 0, is_key = key->len == 3 && memcmp(key->text, "key", 3) == 0;
    srt_json_token t;
    int status = srt_json_next(r, &t);
    if (status != SERIATIM_OK)
        return status;
    if (is_key) {
        const seriatim_text digits = {t.text, t.len};
        return t.type == SRT_JSON_STRING ? request_read_key(w, digits) : SERIATIM_INVALID;
    }
    w->ids = &w->id; /* for the audit */
    w->id_count = 1;
    return is_id ? request_read_id(w, r, &t, &w->id) : SERIATIM_INVALID;
}

static int request_drops(const srt_web *w)
{
    return w->handler->uses & SRT_WEB_TAKES_PAYLOAD;
}

static int request_read_slice(srt_web *w, srt_json_reader *r)
{
    srt_json_token t;
    int status = srt_json_next(r, &t);
    if (status != SERIATIM_OK)
        return status;
    w->is_slice = t.type == SRT_JSON_TRUE;
    return w->is_slice || t.type == SRT_JSON_FALSE ? SERIATIM_OK : SERIATIM_INVALID;
}

static int request_read_member(srt_web *w, srt_json_reader *r, const srt_json_token *key)
{
    srt_json_token t;
    int status;
    if (request_drops(w))
        return request_read_name(w, r, key);
    if (key->len == 3 && memcmp(key->text, "ids", 3) == 0)
        return request_read_ids(w, r);
    if (key->len == 5 && memcmp(key->text, "slice", 5) == 0)
        return request_read_slice(w, r);
    if (key->len != 6 || memcmp(key->text, "cursor", 6) != 0)
        return SERIATIM_INVALID;
    status = srt_json_next(r, &t);
    if (status != SERIATIM_OK || t.type == SRT_JSON_NULL)
        return status;
    return t.type == SRT_JSON_STRING ? request_keep_text(w, &t, &w->cursor) : SERIATIM_INVALID;
}

static int request_read_object(srt_web *w, srt_json_reader *r)
{
    srt_json_token t;
    int status = srt_json_next(r, &t);
    if (status == SERIATIM_OK && t.type != SRT_JSON_BEGIN_OBJECT)
        return SERIATIM_INVALID;
    while (status == SERIATIM_OK && (status = srt_json_next(r, &t)) == SERIATIM_OK && t.type == SRT_JSON_KEY)
        status = request_read_member(w, r, &t);
    if (status == SERIATIM_OK)
        status = srt_json_next(r, &t);
    return status == SERIATIM_OK && t.type != SRT_JSON_END ? SERIATIM_INVALID : status;
}

/* ---- The body as a form: ids[]=a&ids[]=b, cursor=..., of one payload id=...&key=... --------------------------------------- */

static int request_take_form_id(srt_web *w, seriatim_text id)
{
    int status = w->has_ids ? SERIATIM_OK : request_begin_ids(w);
    if (status == SERIATIM_OK && w->id_count == REQUEST_MAX_IDS)
        status = SERIATIM_INVALID;
    if (status == SERIATIM_OK)
        w->ids[w->id_count++] = id;
    return status;
}

static int request_take_form_field(srt_web *w, const srt_web_param *field)
{
    if (!request_drops(w) && srt_web_word_is(field->name, "ids[]"))
        return request_take_form_id(w, field->value);
    if (!request_drops(w) && srt_web_word_is(field->name, "cursor")) {
        w->cursor = field->value;
        return SERIATIM_OK;
    }
    if (!request_drops(w) && srt_web_word_is(field->name, "slice")) {
        w->is_slice = srt_web_word_is(field->value, "1") || srt_web_word_is(field->value, "true");
        return SERIATIM_OK;
    }
    if (request_drops(w) && srt_web_word_is(field->name, "key"))
        return request_read_key(w, field->value);
    if (!request_drops(w) || !srt_web_word_is(field->name, "id"))
        return SERIATIM_INVALID;
    w->id = field->value;
    w->ids = &w->id; /* for the audit */
    w->id_count = 1;
    return SERIATIM_OK;
}

static int request_read_form(srt_web *w, seriatim_text body)
{
    const char *at = body.data, *end = at + body.len;
    srt_web_param field;
    int status = SERIATIM_OK;
    while (at < end && status == SERIATIM_OK)
        if ((status = request_next_param(w, &at, end, &field)) == SERIATIM_OK)
            status = request_take_form_field(w, &field);
    return status;
}

static int request_read_json(srt_web *w, seriatim_text body)
{
    srt_json_reader reader;
    int status;
    srt_json_reader_init(&reader, w->mem, body.data, body.len);
    status = request_read_object(w, &reader);
    srt_json_reader_free(&reader);
    return status;
}

static int request_read_body(srt_web *w, const seriatim_web_request *request)
{
    int is_form = request_is_type(request->content_type, REQUEST_FORM), status = SERIATIM_OK;
    if (request->body.data && request->body.len > 0)
        status = is_form ? request_read_form(w, request->body) : request_read_json(w, request->body);
    if (status == SERIATIM_OK || status == SERIATIM_NOMEM)
        return status;
    if (is_form)
        srt_web_refuse(w, 400, request_drops(w) ? "the form must have the id and the key of a payload" : "the form must have ids[], at most %d times",
                       REQUEST_MAX_IDS);
    else
        srt_web_refuse(w, 400, request_drops(w) ? "the body must be a JSON object with the \"id\" and the \"key\" of a payload"
                                                : "the body must be a JSON object with \"ids\" of at most %d ids",
                       REQUEST_MAX_IDS);
    return SERIATIM_OK;
}

/* ---- Which route --------------------------------------------------------------------------- */

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

/* One path may be a route of GET and another of POST. */
static int request_find_route(srt_web *w, const char *method, seriatim_text path)
{
    static const seriatim_text none = {NULL, 0};
    seriatim_text segments[REQUEST_SEGMENTS], values[2];
    size_t i, count = request_split(path.data, path.len, segments, REQUEST_SEGMENTS);
    int status = SERIATIM_OK;
    for (i = 0; i < w->route_count && count <= REQUEST_SEGMENTS; i++) {
        values[0] = values[1] = none;
        if (!request_fits(w->routes[i].pattern, segments, count, values))
            continue;
        w->allow = w->routes[i].action ? "POST" : "GET, HEAD";
        if (strcmp(w->routes[i].method, method) != 0)
            continue;
        w->route = &w->routes[i];
        w->handler = &w->handlers[i];
        if (values[0].data)
            status = request_decode(w, values[0].data, values[0].len, 0, &w->worker);
        if (status == SERIATIM_OK && values[1].data)
            status = request_decode(w, values[1].data, values[1].len, 0, &w->word);
        return status;
    }
    if (w->allow)
        srt_web_refuse(w, 405, "this path does not answer %s", strcmp(method, "GET") == 0 ? "GET" : "this method");
    return SERIATIM_OK;
}

static int request_starts(seriatim_text path, const char *with)
{
    size_t len = strlen(with);
    return path.len >= len && memcmp(path.data, with, len) == 0 && (path.len == len || path.data[len] == '/');
}

/* /assets/VERSION/NAME; of another version only the name counts, so that a page that was open during an update goes on. */
static void request_find_asset(srt_web *w, seriatim_text path)
{
    const char *at = path.data + strlen("/assets/"), *end = path.data + path.len;
    const char *slash = path.len > strlen("/assets/") ? memchr(at, '/', (size_t)(end - at)) : NULL;
    w->asset = slash ? srt_web_asset_find(slash + 1, (size_t)(end - slash - 1)) : NULL;
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

static void request_find_page(srt_web *w, const seriatim_web_request *request)
{
    size_t i;
    if (request->path.len == 0 && request->prefix.len > 0) {
        request_redirect(w, request->prefix);
        return;
    }
    for (i = 1; i < request->path.len; i++)
        w->depth += request->path.data[i] == '/';
    if (request->path.len > 0 && request->path.data[0] != '/')
        srt_web_refuse(w, 404, "not found");
    else if (w->depth > 16)
        srt_web_refuse(w, 404, "not found");
    else if ((w->asset = srt_web_asset_find("index.html", 10)))
        w->status = 200;
    else
        srt_web_refuse(w, 404, "not found");
}

/* ---- Workers --------------------------------------------------------------------------------- */

static int request_copy(srt_web *w, seriatim_text from, seriatim_text *to)
{
    to->data = srt_arena_copy(&w->memory, from.data, from.len);
    to->len = from.len;
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

/* ---- May it? ------------------------------------------------------------------------------- */

static int request_host_fits(const char *allowed, seriatim_text host)
{
    size_t len = strlen(allowed), i;
    if (request_same(host, allowed, len))
        return 1;
    if (strchr(allowed, ':') || host.len <= len + 1 || host.data[len] != ':')
        return 0;
    for (i = len + 1; i < host.len; i++)
        if (host.data[i] < '0' || host.data[i] > '9')
            return 0;
    host.len = len;
    return request_same(host, allowed, len);
}

static int request_host_allowed(const seriatim_web_settings *s, seriatim_text host)
{
    size_t i;
    for (i = 0; i < s->host_count; i++)
        if (host.data && request_host_fits(s->hosts[i], host))
            return 1;
    return s->host_count == 0;
}

/* Takes as long for a wrong token as for the right one. */
static int request_token_fits(const char *token, seriatim_text authorization)
{
    static const char scheme[] = "bearer ";
    size_t wanted = strlen(token), skip = sizeof scheme - 1, given, i;
    seriatim_text head = {authorization.data, skip};
    unsigned difference;
    if (!authorization.data || authorization.len < skip || !request_same(head, scheme, skip))
        return 0;
    given = authorization.len - skip;
    difference = given != wanted;
    for (i = 0; i < given; i++)
        difference |= (unsigned char)authorization.data[skip + i] ^ (unsigned char)(wanted ? token[i % wanted] : 0);
    return difference == 0 && wanted > 0;
}

static int request_has_token(const seriatim_web_settings *s, const seriatim_web_request *request)
{
    return !s->token || request_token_fits(s->token, request->authorization);
}

/* Origin is scheme://host of the request itself. */
static int request_same_origin(const seriatim_web_request *request)
{
    const char *scheme = request->secure ? "https://" : "http://";
    size_t len = strlen(scheme);
    seriatim_text rest = request->origin, head = request->origin;
    if (!rest.data || !request->host.data || request->host.len == 0 || rest.len <= len)
        return 0;
    head.len = len;
    rest.data += len;
    rest.len -= len;
    return request_same(head, scheme, len) && request_same(rest, request->host.data, request->host.len);
}

/*
 * A browser tells where a request comes from in Sec-Fetch-Site or, if it is an old one, in Origin. A change that tells neither is
 * refused, too: a form of another site may send one.
 */
static void request_check_origin(srt_web *w, const seriatim_web_request *request)
{
    if (request->sec_fetch_site.data) {
        if (!srt_web_word_is(request->sec_fetch_site, "same-origin"))
            srt_web_refuse(w, 403, "the request comes from another site");
    } else if (!request->origin.data) {
        srt_web_refuse(w, 403, "a change needs the header Origin, this dashboard's own, or a dashboard with a bearer token");
    } else if (!request_same_origin(request)) {
        srt_web_refuse(w, 403, "the request comes from another site: its Origin is not scheme and Host of this dashboard");
    }
}

/* Without a body there is nothing that has a type. */
static int request_has_known_type(const seriatim_web_request *request)
{
    return request_is_type(request->content_type, REQUEST_JSON) || request_is_type(request->content_type, REQUEST_FORM) ||
           (request->body.len == 0 && request->content_type.len == 0);
}

static void request_check_mutation(srt_web *w, const seriatim_web_settings *s, const seriatim_web_request *request)
{
    if (w->read_only)
        srt_web_refuse(w, 403, "this dashboard is read-only");
    else if (!s->token) /* which was shown; no browser adds one to a request of another site */
        request_check_origin(w, request);
    if (!w->status && !request_has_known_type(request))
        srt_web_refuse(w, 415, "Content-Type must be " REQUEST_JSON " or " REQUEST_FORM);
}

/* Browsers name the type when they open an address; the page's own questions and programs do not. */
static int request_wants_html(seriatim_text accept)
{
    static const char wanted[] = "text/html";
    seriatim_text part = {accept.data, sizeof wanted - 1};
    size_t i;
    for (i = 0; i + part.len <= accept.len; i++) {
        part.data = accept.data + i;
        if (request_same(part, wanted, part.len))
            return 1;
    }
    return 0;
}

static void request_check(srt_web *w, const seriatim_web_settings *s, const seriatim_web_request *request)
{
    int open = w->route && w->route->role == SERIATIM_WEB_NOBODY, file = !w->route && w->status == 200;
    if (!open && !request_host_allowed(s, request->host))
        srt_web_refuse(w, 403, "this Host is not served");
    else if (!open && !file && !request_has_token(s, request))
        srt_web_refuse(w, 401, "a token is needed");
    else if (!open && request->role <= SERIATIM_WEB_NOBODY)
        srt_web_refuse(w, 401, "you are not signed in");
    else if (w->route && w->route->action)
        request_check_mutation(w, s, request);
    if (!w->route || w->status || open || request->role >= w->route->role)
        return;
    srt_web_refuse(w, 403, "this needs the role %s", srt_web_role_word(w->route->role));
}

/* ---- All ----------------------------------------------------------------------------------- */

/* What is asked for, as far as method and path tell. */
static int request_find(srt_web *w, const seriatim_web_request *request)
{
    static const seriatim_text nowhere = {"", 0};
    seriatim_text path = request->path.data ? request->path : nowhere;
    int api = request_starts(path, "/api"), status;
    const char *method = w->head ? "GET" : request->method;
    if (!method || (strcmp(method, "GET") != 0 && strcmp(method, "POST") != 0)) {
        srt_web_refuse(w, 405, "only GET, HEAD and POST are answered");
        return SERIATIM_OK;
    }
    status = request_find_route(w, method, path);
    if (status != SERIATIM_OK || w->route || w->status)
        return status;
    if (api)
        srt_web_refuse(w, 404, "not found");
    else if (strcmp(method, "GET") != 0)
        srt_web_refuse(w, 405, "only GET and HEAD are answered here");
    else if (request_starts(path, "/assets"))
        request_find_asset(w, path);
    else
        request_find_page(w, request);
    return SERIATIM_OK;
}

int srt_web_read(srt_web *w, const seriatim_web_settings *s, const seriatim_web_request *request)
{
    int found, status;
    w->head = request->method && strcmp(request->method, "HEAD") == 0;
    w->wants_html = request_wants_html(request->accept);
    w->role = request_has_token(s, request) ? request->role : SERIATIM_WEB_NOBODY;
    w->read_only = s->read_only;
    status = request_find(w, request);
    if (status != SERIATIM_OK)
        return status;
    found = w->status;
    if (found == 0 || found == 200 || found == 404)
        request_check(w, s, request);
    if (w->status || !w->route)
        return SERIATIM_OK;
    if (request->body.data && request->body.len > SERIATIM_WEB_MAX_BODY) {
        srt_web_refuse(w, 413, "the body is longer than %d bytes", SERIATIM_WEB_MAX_BODY);
        return SERIATIM_OK;
    }
    status = request_keep_workers(w, s);
    if (status == SERIATIM_OK)
        status = request_read_params(w, request->query);
    return status == SERIATIM_OK && w->route->action ? request_read_body(w, request) : status;
}

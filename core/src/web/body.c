/*
 * body.c - the ids, the cursor and the payload that a change names.
 *
 * JSON: {"ids": [...], "cursor": "..."}; of one payload {"id": ..., "key": "..."} or, by its handle,
 * {"handle": "...", "at": 1.5}; of a number of shards {"shards": 16}. A form: ids[]=a&ids[]=b, cursor=...; of one
 * payload id=...&key=... or handle=...&at=...; shards=16
 */
#include "web/request.h"

#include <string.h>

#define REQUEST_MAX_IDS 1000

static int base64_value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+' || c == '-' ? 62
           : c == '/' || c == '_' ? 63
                                  : -1;
}

int srt_web_request_unbase64(srt_web *w, const srt_json_token *t, seriatim_text *text)
{
    char *out = srt_arena_alloc(&w->memory, t->len + 1);
    unsigned bits = 0, have = 0;
    size_t i, n = 0, digits;
    int value;
    if (!out)
        return SERIATIM_NOMEM;
    for (i = 0; i < t->len && (value = base64_value(t->text[i])) >= 0; i++) {
        bits = bits << 6 | (unsigned)value;
        have += 6;
        if (have >= 8)
            out[n++] = (char)(bits >> (have -= 8) & 255);
    }
    digits = i;
    while (i < t->len && t->text[i] == '=')
        i++;
    if (i < t->len || digits % 4 == 1 || i - digits > 2 || (i > digits && i % 4 != 0))
        return SERIATIM_INVALID;
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

int srt_web_request_read_id(srt_web *w, srt_json_reader *r, const srt_json_token *t, seriatim_text *id)
{
    srt_json_token inner;
    char digits[24];
    int status;
    if (t->type == SRT_JSON_STRING)
        return request_keep_text(w, t, id);
    if (t->type == SRT_JSON_INT) {
        srt_bytes number = {NULL, digits, 0, sizeof digits, 0};
        srt_json_token text = {SRT_JSON_STRING, digits, 0, 0, 0, 0};
        srt_bytes_add_int(&number, t->integer);
        text.len = number.len;
        return request_keep_text(w, &text, id);
    }
    if (t->type != SRT_JSON_BEGIN_OBJECT || srt_json_next(r, &inner) != SERIATIM_OK || inner.type != SRT_JSON_KEY ||
        inner.len != 6 || memcmp(inner.text, "base64", 6) != 0 || srt_json_next(r, &inner) != SERIATIM_OK ||
        inner.type != SRT_JSON_STRING)
        return SERIATIM_INVALID;
    status = srt_web_request_unbase64(w, &inner, id);
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
        status = srt_web_request_read_id(w, r, &t, &w->ids[w->id_count]);
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
        int high = srt_web_request_hex(digits.data[2 * i]), low = srt_web_request_hex(digits.data[2 * i + 1]);
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
    int is_id = key->len == 2 && memcmp(key->text, "id", 2) == 0,
        is_key = key->len == 3 && memcmp(key->text, "key", 3) == 0;
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
    return is_id ? srt_web_request_read_id(w, r, &t, &w->id) : SERIATIM_INVALID;
}

static int request_keep_number(srt_web *w, const srt_json_token *t, seriatim_text *text)
{
    char digits[SRT_JSON_DOUBLE_SIZE];
    srt_json_token number = {SRT_JSON_STRING, digits, 0, 0, 0, 0};
    if (t->type != SRT_JSON_INT && t->type != SRT_JSON_DOUBLE)
        return SERIATIM_INVALID;
    number.len = srt_json_double_text(t->type == SRT_JSON_INT ? (double)t->integer : t->number, digits);
    return request_keep_text(w, &number, text);
}

/* The members "handle" and, of reschedule, "at". */
static int request_read_handle(srt_web *w, srt_json_reader *r, const srt_json_token *key)
{
    int is_handle = key->len == 6 && memcmp(key->text, "handle", 6) == 0;
    int is_at = key->len == 2 && memcmp(key->text, "at", 2) == 0;
    srt_json_token t;
    int status = srt_json_next(r, &t);
    if (status != SERIATIM_OK)
        return status;
    if (is_at)
        return request_keep_number(w, &t, &w->at);
    return is_handle && t.type == SRT_JSON_STRING ? request_keep_text(w, &t, &w->handle) : SERIATIM_INVALID;
}

/* The member "shards". */
static int request_read_shards(srt_web *w, srt_json_reader *r, const srt_json_token *key)
{
    srt_json_token t;
    int status = srt_json_next(r, &t);
    if (status != SERIATIM_OK)
        return status;
    if (key->len != 6 || memcmp(key->text, "shards", 6) != 0 || t.type != SRT_JSON_INT)
        return SERIATIM_INVALID;
    return request_keep_number(w, &t, &w->shards);
}

static int request_has_shards(const srt_web *w)
{
    return w->handler->uses & SRT_WEB_TAKES_SHARDS;
}

static int request_has_handle(const srt_web *w)
{
    return w->handler->uses & SRT_WEB_TAKES_HANDLE;
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
    if (request_has_handle(w))
        return request_read_handle(w, r, key);
    if (request_has_shards(w))
        return request_read_shards(w, r, key);
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

static int request_take_form_id(srt_web *w, seriatim_text id)
{
    int status = w->has_ids ? SERIATIM_OK : request_begin_ids(w);
    if (status == SERIATIM_OK && w->id_count == REQUEST_MAX_IDS)
        status = SERIATIM_INVALID;
    if (status == SERIATIM_OK)
        w->ids[w->id_count++] = id;
    return status;
}

static int request_take_form_handle(srt_web *w, const srt_web_param *field)
{
    if (!srt_web_word_is(field->name, "handle") && !srt_web_word_is(field->name, "at"))
        return SERIATIM_INVALID;
    *(srt_web_word_is(field->name, "at") ? &w->at : &w->handle) = field->value;
    return SERIATIM_OK;
}

static int request_take_form_field(srt_web *w, const srt_web_param *field)
{
    if (request_has_handle(w))
        return request_take_form_handle(w, field);
    if (request_has_shards(w)) {
        w->shards = field->value;
        return srt_web_word_is(field->name, "shards") ? SERIATIM_OK : SERIATIM_INVALID;
    }
    if (!request_drops(w) && srt_web_word_is(field->name, "ids[]"))
        return request_take_form_id(w, field->value);
    if (!request_drops(w) && srt_web_word_is(field->name, "cursor")) {
        w->cursor = field->value;
        return SERIATIM_OK;
    }
    if (!request_drops(w) && srt_web_word_is(field->name, "slice")) {
        w->is_slice = srt_web_word_is(field->value, "1") || srt_web_word_is(field->value, "true");
        return w->is_slice || srt_web_word_is(field->value, "0") || srt_web_word_is(field->value, "false")
                   ? SERIATIM_OK
                   : SERIATIM_INVALID;
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
        if ((status = srt_web_request_next_param(w, &at, end, &field)) == SERIATIM_OK)
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

int srt_web_request_read_body(srt_web *w, const seriatim_web_request *request)
{
    int is_form = srt_web_request_is_type(request->content_type, REQUEST_FORM), status = SERIATIM_OK;
    if (request->body.data && request->body.len > 0)
        status = is_form ? request_read_form(w, request->body) : request_read_json(w, request->body);
    if (status == SERIATIM_OK || status == SERIATIM_NOMEM)
        return status;
    if (request_has_handle(w))
        srt_web_refuse(w, 400, "the %s must have the handle of a payload, and of reschedule a time \"at\"",
                       is_form ? "form" : "JSON object of the body");
    else if (request_has_shards(w))
        srt_web_refuse(w, 400, "the %s must have \"shards\", a whole number",
                       is_form ? "form" : "JSON object of the body");
    else if (is_form)
        srt_web_refuse(w, 400,
                       request_drops(w) ? "the form must have the id and the key of a payload"
                                        : "the form must have ids[], at most %d times, or slice (1 or 0) and cursor",
                       REQUEST_MAX_IDS);
    else
        srt_web_refuse(w, 400,
                       request_drops(w) ? "the body must be a JSON object with the \"id\" and the \"key\" of a payload"
                                        : "the body must be a JSON object with \"ids\" of at most %d ids",
                       REQUEST_MAX_IDS);
    return SERIATIM_OK;
}

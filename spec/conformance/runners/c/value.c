/* value.c - JSON trees, values of the files, comparisons. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"

/* ---- Memory -------------------------------------------------------------------------------- */

typedef union block {
    union block *next;
    long double aligned;
} block;

static block *blocks;

void *keep(size_t size)
{
    block *b = calloc(1, sizeof *b + size);
    if (!b)
        abort();
    b->next = blocks;
    blocks = b;
    return b + 1;
}

seriatim_text keep_text(const char *data, size_t len)
{
    seriatim_text text;
    char *copy = keep(len + 1);
    if (len)
        memcpy(copy, data, len);
    text.data = copy;
    text.len = len;
    return text;
}

void keep_nothing(void)
{
    while (blocks) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

/* ---- Reading ------------------------------------------------------------------------------- */

static value *read_value(srt_json_reader *r, const srt_json_token *token);

/* The items up to the end of the list or map; 0 when something could not be read. */
static int read_items(srt_json_reader *r, value *parent, srt_json_type end)
{
    value **tail = &parent->first;
    srt_json_token token;
    while (srt_json_next(r, &token) == SERIATIM_OK && token.type != SRT_JSON_END) {
        seriatim_text key = {NULL, 0};
        if (token.type == end)
            return 1;
        if (token.type == SRT_JSON_KEY) {
            key = keep_text(token.text, token.len);
            if (srt_json_next(r, &token) != SERIATIM_OK)
                return 0;
        }
        if (!(*tail = read_value(r, &token)))
            return 0;
        (*tail)->key = key;
        tail = &(*tail)->next;
        parent->count++;
    }
    return 0;
}

static value *read_value(srt_json_reader *r, const srt_json_token *token)
{
    value *v = keep(sizeof *v);
    switch (token->type) {
    case SRT_JSON_BEGIN_ARRAY:
        v->kind = VALUE_LIST;
        return read_items(r, v, SRT_JSON_END_ARRAY) ? v : NULL;
    case SRT_JSON_BEGIN_OBJECT:
        v->kind = VALUE_MAP;
        return read_items(r, v, SRT_JSON_END_OBJECT) ? v : NULL;
    case SRT_JSON_STRING:
        v->kind = VALUE_TEXT;
        v->text = keep_text(token->text, token->len);
        break;
    case SRT_JSON_INT:
        v->kind = VALUE_INT;
        v->integer = token->integer;
        v->number = (double)token->integer;
        break;
    case SRT_JSON_DOUBLE:
        v->kind = VALUE_DOUBLE;
        v->number = token->number;
        break;
    case SRT_JSON_TRUE:
    case SRT_JSON_FALSE:
        v->kind = VALUE_BOOL;
        v->integer = token->type == SRT_JSON_TRUE;
        v->number = (double)v->integer;
        break;
    default:
        v->kind = VALUE_NULL;
    }
    return v;
}

value *value_read(const char *data, size_t len)
{
    srt_json_reader r;
    srt_json_token token;
    value *v = NULL;
    srt_json_reader_init(&r, seriatim_default_allocator(), data, len);
    if (srt_json_next(&r, &token) == SERIATIM_OK && token.type != SRT_JSON_END)
        v = read_value(&r, &token);
    if (v && (srt_json_next(&r, &token) != SERIATIM_OK || token.type != SRT_JSON_END))
        v = NULL;
    srt_json_reader_free(&r);
    return v;
}

/* ---- Access -------------------------------------------------------------------------------- */

const value *value_get(const value *map, const char *key)
{
    const value *member;
    for (member = map && map->kind == VALUE_MAP ? map->first : NULL; member; member = member->next)
        if (strcmp(member->key.data, key) == 0)
            return member;
    return NULL;
}

const value *value_at(const value *list, size_t place)
{
    const value *item = list ? list->first : NULL;
    while (item && place--)
        item = item->next;
    return item;
}

double value_number(const value *v, double otherwise)
{
    if (v && v->kind == VALUE_TEXT)
        return v->text.data[0] == 'N' ? (double)NAN : v->text.data[0] == '-' ? -HUGE_VAL : HUGE_VAL;
    return v && v->kind != VALUE_NULL ? v->number : otherwise;
}

int value_true(const value *v)
{
    return v && v->kind == VALUE_BOOL && v->integer;
}

int value_says(const value *v, const char *word)
{
    return v && v->kind == VALUE_TEXT && strcmp(v->text.data, word) == 0;
}

static seriatim_text bytes_of_hex(seriatim_text hex)
{
    char *bytes = keep(hex.len / 2 + 1);
    seriatim_text text;
    size_t i;
    for (i = 0; i < hex.len / 2; i++) {
        char pair[3] = {hex.data[2 * i], hex.data[2 * i + 1], '\0'};
        bytes[i] = (char)strtol(pair, NULL, 16);
    }
    text.data = bytes;
    text.len = hex.len / 2;
    return text;
}

seriatim_text value_bytes(const value *v)
{
    const value *repeat = value_get(v, "repeat"), *hex = value_get(v, "hex");
    size_t times = repeat ? (size_t)value_number(value_get(v, "times"), 0) : 0, i;
    seriatim_text text = {"", 0};
    char *copy;
    if (hex)
        return bytes_of_hex(hex->text);
    if (v && v->kind == VALUE_INT)
        return value_canonical(v);
    if (!repeat)
        return v && v->kind == VALUE_TEXT ? v->text : text;
    copy = keep(repeat->text.len * times + 1);
    for (i = 0; i < times; i++)
        memcpy(copy + i * repeat->text.len, repeat->text.data, repeat->text.len);
    text.data = copy;
    text.len = repeat->text.len * times;
    return text;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static void write_value(srt_json_writer *w, const value *v)
{
    const value *item;
    switch (v->kind) {
    case VALUE_NULL:
        srt_json_null(w);
        break;
    case VALUE_BOOL:
        srt_json_bool(w, (int)v->integer);
        break;
    case VALUE_INT:
        srt_json_int(w, v->integer);
        break;
    case VALUE_DOUBLE:
        srt_json_double(w, v->number);
        break;
    case VALUE_TEXT:
        srt_json_string(w, v->text.data, v->text.len);
        break;
    case VALUE_LIST:
        srt_json_begin_array(w);
        for (item = v->first; item; item = item->next)
            write_value(w, item);
        srt_json_end_array(w);
        break;
    case VALUE_MAP:
        srt_json_begin_object(w);
        for (item = v->first; item; item = item->next) {
            srt_json_key(w, item->key.data, item->key.len);
            write_value(w, item);
        }
        srt_json_end_object(w);
        break;
    }
}

seriatim_text value_canonical(const value *v)
{
    srt_bytes out;
    srt_json_writer w;
    seriatim_text text = {NULL, 0};
    srt_bytes_init(&out, seriatim_default_allocator());
    srt_json_writer_init(&w, &out, "payload");
    write_value(&w, v);
    if (srt_json_finish(&w) == SERIATIM_OK)
        text = keep_text(out.data, out.len);
    srt_json_writer_free(&w);
    srt_bytes_free(&out);
    return text;
}

/* ---- Texts --------------------------------------------------------------------------------- */

int text_equal(seriatim_text a, seriatim_text b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

int text_compare(seriatim_text a, seriatim_text b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.data, b.data, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

int text_has(seriatim_text text, seriatim_text part)
{
    size_t at;
    for (at = 0; at + part.len <= text.len; at++)
        if (memcmp(text.data + at, part.data, part.len) == 0)
            return 1;
    return 0;
}

/* ---- Comparing ----------------------------------------------------------------------------- */

void wrong(check *c, const char *format, ...)
{
    va_list args;
    int written;
    if (c->len && c->len + 3 < sizeof c->wrong) {
        strcpy(c->wrong + c->len, "; ");
        c->len += 2;
    }
    va_start(args, format);
    written = vsnprintf(c->wrong + c->len, sizeof c->wrong - c->len, format, args);
    va_end(args);
    c->len = written > 0 && c->len + (size_t)written < sizeof c->wrong ? c->len + (size_t)written : sizeof c->wrong - 1;
}

found found_nothing(void)
{
    found f;
    memset(&f, 0, sizeof f);
    return f;
}

found found_number(double number)
{
    found f = found_nothing();
    f.kind = FOUND_NUMBER;
    f.number = number;
    return f;
}

found found_text(seriatim_text text)
{
    found f = found_nothing();
    f.kind = FOUND_TEXT;
    f.text = text;
    return f;
}

found found_word(const char *word)
{
    seriatim_text text = {word, word ? strlen(word) : 0};
    return word ? found_text(text) : found_nothing();
}

static int within(double x, double min, double max)
{
    return x >= min && x <= max;
}

/* Does it meet the object, such as {"min": 1}? */
static int meets(const check *c, const value *wanted, found f)
{
    const value *at = value_get(wanted, "at"), *from = value_get(wanted, "from"), *now = value_get(wanted, "from_now");
    double middle = at ? c->start + at->number : unix_time() + value_number(now, 0);
    double around = value_number(value_get(wanted, "within"), 0);
    if (value_get(wanted, "has"))
        return f.kind == FOUND_TEXT && text_has(f.text, value_get(wanted, "has")->text);
    if (value_get(wanted, "hex") || value_get(wanted, "repeat"))
        return f.kind == FOUND_TEXT && text_equal(f.text, value_bytes(wanted));
    if (f.kind != FOUND_NUMBER)
        return 0;
    if (from)
        return within(f.number, c->start + from->number, c->start + value_number(value_get(wanted, "to"), 0));
    if (at || now)
        return within(f.number, middle - around, middle + around);
    return within(f.number, value_number(value_get(wanted, "min"), -HUGE_VAL),
                  value_number(value_get(wanted, "max"), HUGE_VAL));
}

static int equals(const check *c, const value *wanted, found f)
{
    switch (wanted->kind) {
    case VALUE_NULL:
        return f.kind == FOUND_NOTHING;
    case VALUE_TEXT:
        return f.kind == FOUND_TEXT && text_equal(f.text, wanted->text);
    case VALUE_MAP:
        return meets(c, wanted, f);
    default:
        return f.kind == FOUND_NUMBER && !(f.number < wanted->number) && !(f.number > wanted->number);
    }
}

void compare(check *c, const value *wanted, found f, const char *where)
{
    seriatim_text text;
    if (!wanted || equals(c, wanted, f))
        return;
    text = value_canonical(wanted);
    if (f.kind == FOUND_NUMBER)
        wrong(c, "%s is %.17g, not %.200s", where, f.number, text.data);
    else
        wrong(c, "%s is %.*s, not %.200s", where, f.kind == FOUND_TEXT ? (int)(f.text.len < 200 ? f.text.len : 200) : 7,
              f.kind == FOUND_TEXT ? f.text.data : "nothing", text.data);
}

void compare_payload(check *c, const value *wanted, seriatim_text bytes, int raw, const char *where)
{
    const value *read = raw ? NULL : value_read(bytes.data, bytes.len);
    seriatim_text expected = raw ? value_bytes(wanted) : value_canonical(wanted);
    seriatim_text canonical = read ? value_canonical(read) : bytes;
    if (!text_equal(expected, canonical))
        wrong(c, "%s is %.*s, not %.*s", where, (int)(canonical.len < 200 ? canonical.len : 200), canonical.data,
              (int)(expected.len < 200 ? expected.len : 200), expected.data);
}

/* ---- Time ---------------------------------------------------------------------------------- */

double unix_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void pause_seconds(double seconds)
{
    struct timespec t;
    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}

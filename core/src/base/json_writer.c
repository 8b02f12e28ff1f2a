/* json_writer.c - writes canonical JSON, value by value. */
#include "base/json.h"
#include "base/json_number.h"
#include "base/json_text.h"

#include <string.h>

void srt_json_writer_init(srt_json_writer *w, srt_bytes *out, const char *root)
{
    w->out = out;
    w->root = root;
    w->members = NULL;
    w->member_cap = 0;
    srt_bytes_init(&w->sorting, out->mem);
    srt_json_writer_reset(w);
}

void srt_json_writer_reset(srt_json_writer *w)
{
    w->start = w->out->len;
    srt_error_clear(&w->error);
    w->member_count = 0;
    w->depth = 0;
    w->made_of = NULL;
    memset(&w->levels[0], 0, sizeof w->levels[0]);
}

void srt_json_writer_free(srt_json_writer *w)
{
    srt_free(w->out->mem, w->members, w->member_cap * sizeof *w->members);
    srt_bytes_free(&w->sorting);
    w->members = NULL;
    w->member_cap = w->member_count = 0;
}

static srt_json_level *json_level(srt_json_writer *w)
{
    return &w->levels[w->depth];
}

static int json_refuse(srt_json_writer *w, const char *rule)
{
    return srt_fail(&w->error, SERIATIM_INVALID, "%s", rule);
}

static int json_no_memory(srt_json_writer *w)
{
    return srt_fail_plain(&w->error, SERIATIM_NOMEM);
}

/* Room behind the comma, which is written when something stands before; NULL out of memory. */
static char *json_room(srt_json_writer *w, size_t size, int comma)
{
    srt_bytes *out = w->out;
    int fits = !out->failed && out->cap - out->len > size;
    char *at = fits ? out->data + out->len : srt_bytes_reserve(out, size + 1);
    if (!at) {
        json_no_memory(w);
        return NULL;
    }
    if (comma) {
        *at++ = ',';
        out->len++;
    }
    return at;
}

/* Room for a value here; NULL when no value may stand here, or something failed before. */
static char *json_begin_value(srt_json_writer *w, size_t size)
{
    srt_json_level *level = json_level(w);
    if (w->error.status)
        return NULL;
    if (level->kind == '{' && !level->keyed)
        json_refuse(w, "a member of an object needs a key before its value");
    else if (level->kind == 0 && level->count > 0)
        json_refuse(w, "only one value may stand at the top");
    else
        return json_room(w, size, level->kind == '[' && level->count > 0);
    return NULL;
}

static int json_end_value(srt_json_writer *w, size_t len)
{
    srt_json_level *level = json_level(w);
    w->out->len += len;
    level->keyed = 0;
    level->count++;
    return SERIATIM_OK;
}

static int json_literal(srt_json_writer *w, const char *text, size_t len)
{
    char *at = json_begin_value(w, len);
    if (!at)
        return w->error.status;
    memcpy(at, text, len);
    return json_end_value(w, len);
}

int srt_json_bool(srt_json_writer *w, int value)
{
    return value ? json_literal(w, "true", 4) : json_literal(w, "false", 5);
}

int srt_json_null(srt_json_writer *w)
{
    return json_literal(w, "null", 4);
}

int srt_json_text(srt_json_writer *w, const char *text, size_t len)
{
    return json_literal(w, text, len);
}

int srt_json_int(srt_json_writer *w, int64_t value)
{
    char *at = json_begin_value(w, 20);
    return at ? json_end_value(w, srt_json_put_int(at, value)) : w->error.status;
}

int srt_json_double(srt_json_writer *w, double value)
{
    char *at = json_begin_value(w, SRT_JSON_DOUBLE_SIZE);
    if (!at)
        return w->error.status;
    if (!srt_json_is_finite(value))
        return json_refuse(w, value != value ? "NaN has no place in JSON" : "infinity has no place in JSON");
    return json_end_value(w, srt_json_double_text(value, at));
}

/* Copies leading ASCII that needs no escape; how many bytes that was. */
static size_t json_copy_ascii(char *to, const char *text, size_t len)
{
    size_t at = 0;
    for (; len - at >= 8; at += 8) {
        uint64_t word = srt_json_load8(text + at);
        if (srt_json_any_special(word) | (word & SRT_JSON_HIGH_BITS))
            break;
        memcpy(to + at, &word, sizeof word);
    }
    for (; at < len && srt_json_is_plain(text[at]) && !(text[at] & 0x80); at++)
        to[at] = text[at];
    return at;
}

/* The rest of a text that holds more than plain ASCII; leaves room for two bytes behind it. */
static int json_put_text(srt_json_writer *w, const char *text, size_t len)
{
    srt_bytes *out = w->out;
    size_t run;
    int ascii;
    for (;;) {
        run = srt_json_plain_run(text, len, &ascii);
        memcpy(out->data + out->len, text, run);
        out->len += run;
        if (run == len)
            return SERIATIM_OK;
        len -= run + 1;
        if (!srt_bytes_reserve(out, len + 8))
            return json_no_memory(w);
        out->len += srt_json_put_escape(out->data + out->len, text[run]);
        text += run + 1;
    }
}

/* The text with quotes and escapes, into room of at least len + 2; leaves room for one byte behind
 * it. */
static int json_put_quoted(srt_json_writer *w, const char *text, size_t len, const char *rule)
{
    srt_bytes *out = w->out;
    size_t run;
    out->data[out->len++] = '"';
    run = json_copy_ascii(out->data + out->len, text, len);
    out->len += run;
    if (run < len) {
        if (!srt_utf8_valid(text + run, len - run))
            return json_refuse(w, rule);
        if (json_put_text(w, text + run, len - run) != SERIATIM_OK)
            return w->error.status;
    }
    out->data[out->len++] = '"';
    return SERIATIM_OK;
}

int srt_json_string(srt_json_writer *w, const char *text, size_t len)
{
    if (len > SIZE_MAX / 2)
        return json_no_memory(w);
    if (!json_begin_value(w, len + 2) || json_put_quoted(w, text, len, "a string must be valid UTF-8") != SERIATIM_OK)
        return w->error.status;
    return json_end_value(w, 0);
}

void srt_json_made_of(srt_json_writer *w, const void *value)
{
    w->made_of = value;
}

static int json_too_deep(srt_json_writer *w)
{
    size_t i;
    for (i = 1; w->made_of && i <= w->depth; i++)
        if (w->levels[i].made_of == w->made_of)
            return srt_fail(&w->error, SERIATIM_INVALID, "a value that contains itself cannot be written as JSON");
    return srt_fail(&w->error, SERIATIM_INVALID, "arrays and objects may lie %d deep at most", SRT_JSON_DEPTH);
}

static int json_begin(srt_json_writer *w, char bracket)
{
    srt_json_level *level;
    char *at;
    if (w->error.status == SERIATIM_OK && w->depth == SRT_JSON_DEPTH)
        return json_too_deep(w);
    at = json_begin_value(w, 1);
    if (!at)
        return w->error.status;
    *at = bracket;
    w->out->len++;
    w->depth++;
    level = json_level(w);
    memset(level, 0, sizeof *level);
    level->kind = bracket;
    level->start = w->out->len;
    level->first_member = w->member_count;
    level->made_of = w->made_of;
    w->made_of = NULL;
    return SERIATIM_OK;
}

int srt_json_begin_array(srt_json_writer *w)
{
    return json_begin(w, '[');
}

int srt_json_begin_object(srt_json_writer *w)
{
    return json_begin(w, '{');
}

static int json_end(srt_json_writer *w, char bracket)
{
    w->depth--;
    if (!json_room(w, 1, 0)) {
        w->depth++;
        return w->error.status;
    }
    w->out->data[w->out->len] = bracket;
    return json_end_value(w, 1);
}

int srt_json_end_array(srt_json_writer *w)
{
    if (w->error.status)
        return w->error.status;
    if (json_level(w)->kind != '[')
        return json_refuse(w, "there is no array to end here");
    return json_end(w, ']');
}

/*
 * The next byte of a key in its written form, in an order where comparing bytes compares UTF-16
 * code units: the lead bytes of four-byte sequences (surrogate pairs) come before 0xEE and 0xEF
 * (U+E000 and above). -1 at the closing quote.
 */
static int json_key_byte(const char **at)
{
    int c = (unsigned char)*(*at)++;
    if (c < 0xEE) {
        if (c == '"')
            return -1;
        return c == '\\' ? -2 : c;
    }
    return c < 0xF0 ? c + 5 : c - 2;
}

/* The value behind a backslash; writer's escapes only. */
static int json_key_escaped(const char **at)
{
    static const char letters[] = "b\bt\tn\nf\fr\r";
    const char *hex = *at, *found;
    if (*hex == 'u') {
        *at += 5;
        return (hex[3] - '0') * 16 + (hex[4] <= '9' ? hex[4] - '0' : hex[4] - 'a' + 10);
    }
    ++*at;
    found = strchr(letters, *hex);
    return found ? found[1] : *hex;
}

/* Compares two written keys, each from behind its opening quote. */
static int json_key_compare(const char *a, const char *b)
{
    int x, y;
    do {
        x = json_key_byte(&a);
        y = json_key_byte(&b);
        if (x == -2)
            x = json_key_escaped(&a);
        if (y == -2)
            y = json_key_escaped(&b);
    } while (x == y && x != -1);
    return x - y;
}

static int json_add_member(srt_json_writer *w, size_t start)
{
    void *members = w->members;
    if (w->member_count == w->member_cap) {
        if (srt_grow(w->out->mem, &members, &w->member_cap, w->member_count + 1, sizeof *w->members))
            return json_no_memory(w);
        w->members = members;
    }
    w->members[w->member_count++].start = start;
    return SERIATIM_OK;
}

/* Notes how the new key stands to the one before it. */
static int json_order_key(srt_json_writer *w, srt_json_level *level, size_t key)
{
    const char *data = w->out->data;
    int order = level->count ? json_key_compare(data + level->key + 1, data + key + 1) : -1;
    level->key = key;
    level->keyed = 1;
    if (order > 0)
        level->unsorted = 1;
    return order == 0 ? json_refuse(w, "the key stands twice in one object") : SERIATIM_OK;
}

int srt_json_key(srt_json_writer *w, const char *text, size_t len)
{
    srt_json_level *level = json_level(w);
    size_t key;
    if (w->error.status)
        return w->error.status;
    if (level->kind != '{' || level->keyed)
        return json_refuse(w, "a key may stand only in an object, one before each value");
    if (len > SIZE_MAX / 2)
        return json_no_memory(w);
    if (!json_room(w, len + 3, level->count > 0))
        return w->error.status;
    key = w->out->len;
    if (json_add_member(w, key) != SERIATIM_OK ||
        json_put_quoted(w, text, len, "a key must be valid UTF-8") != SERIATIM_OK)
        return w->error.status;
    w->out->data[w->out->len++] = ':';
    return json_order_key(w, level, key);
}

static int json_member_compare(const char *data, const srt_json_member *a, const srt_json_member *b)
{
    return json_key_compare(data + a->start + 1, data + b->start + 1);
}

static void json_insertion_sort(const char *data, srt_json_member *members, size_t count)
{
    size_t i, hole;
    for (i = 1; i < count; i++) {
        srt_json_member member = members[i];
        for (hole = i; hole > 0 && json_member_compare(data, &members[hole - 1], &member) > 0; hole--)
            members[hole] = members[hole - 1];
        members[hole] = member;
    }
}

/* Lets the member at `root` sink to where it is not below its children. */
static void json_sift(const char *data, srt_json_member *members, size_t root, size_t count)
{
    srt_json_member member = members[root];
    size_t child;
    while ((child = 2 * root + 1) < count) {
        if (child + 1 < count && json_member_compare(data, &members[child], &members[child + 1]) < 0)
            child++;
        if (json_member_compare(data, &member, &members[child]) >= 0)
            break;
        members[root] = members[child];
        root = child;
    }
    members[root] = member;
}

/* Heapsort, because a caller may be hostile and no memory is to be had here. */
static void json_sort_members(const char *data, srt_json_member *members, size_t count)
{
    size_t i;
    if (count <= 16) {
        json_insertion_sort(data, members, count);
        return;
    }
    for (i = count / 2; i-- > 0;)
        json_sift(data, members, i, count);
    for (i = count - 1; i > 0; i--) {
        srt_json_member last = members[i];
        members[i] = members[0];
        members[0] = last;
        json_sift(data, members, 0, i);
    }
}

/* Each member ends where the next one's comma stands, the last at the end of out. */
static void json_measure_members(const srt_json_writer *w, srt_json_member *members, size_t count)
{
    size_t i;
    for (i = 0; i + 1 < count; i++)
        members[i].len = members[i + 1].start - 1 - members[i].start;
    members[i].len = w->out->len - members[i].start;
}

static int json_find_twins(srt_json_writer *w, const srt_json_member *members, size_t count)
{
    size_t i;
    for (i = 1; i < count; i++) {
        if (json_member_compare(w->out->data, &members[i - 1], &members[i]) == 0) {
            json_level(w)->key = members[i].start;
            json_level(w)->keyed = 1;
            return json_refuse(w, "the key stands twice in one object");
        }
    }
    return SERIATIM_OK;
}

/* Writes the sorted members over the unsorted ones: the same bytes in all, so the same room. */
static int json_rearrange(srt_json_writer *w, const srt_json_member *members, size_t count)
{
    char *body = w->out->data + json_level(w)->start, *at;
    size_t size = w->out->len - json_level(w)->start, i;
    srt_bytes_clear(&w->sorting);
    at = srt_bytes_reserve(&w->sorting, size);
    if (!at)
        return json_no_memory(w);
    for (i = 0; i < count; i++) {
        if (i > 0)
            *at++ = ',';
        memcpy(at, w->out->data + members[i].start, members[i].len);
        at += members[i].len;
    }
    memcpy(body, w->sorting.data, size);
    return SERIATIM_OK;
}

static int json_sort_object(srt_json_writer *w)
{
    srt_json_member *members = w->members + json_level(w)->first_member;
    size_t count = w->member_count - json_level(w)->first_member;
    json_measure_members(w, members, count);
    json_sort_members(w->out->data, members, count);
    if (json_find_twins(w, members, count) != SERIATIM_OK)
        return w->error.status;
    return json_rearrange(w, members, count);
}

int srt_json_end_object(srt_json_writer *w)
{
    srt_json_level *level = json_level(w);
    if (w->error.status)
        return w->error.status;
    if (level->kind != '{')
        return json_refuse(w, "there is no object to end here");
    if (level->keyed)
        return json_refuse(w, "the last key has no value");
    if (level->unsorted && json_sort_object(w) != SERIATIM_OK)
        return w->error.status;
    w->member_count = level->first_member;
    return json_end(w, '}');
}

int srt_json_finish(srt_json_writer *w)
{
    if (w->error.status == SERIATIM_OK && w->depth > 0)
        json_refuse(w, "an array or object is not ended");
    if (w->error.status == SERIATIM_OK && w->levels[0].count == 0)
        json_refuse(w, "no value was written");
    if (w->error.status)
        w->out->len = w->start;
    return w->error.status;
}

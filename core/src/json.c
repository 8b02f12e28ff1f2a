/* json.c - canonical JSON: a writer and a pull reader, driven value by value by a binding. */
#include "json.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Text: UTF-8, and what must be escaped ------------------------------------------------- */

#define JSON_EACH_BYTE 0x0101010101010101u /* times n: n in each byte of a word */
#define JSON_HIGH_BITS 0x8080808080808080u

static uint64_t json_load8(const char *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

static int json_continues(const unsigned char *at, size_t n)
{
    while (n-- > 0)
        if ((*at++ & 0xC0) != 0x80)
            return 0;
    return 1;
}

/* The length of the sequence that begins with a byte of 0x80 or more; 0 when it is not valid. */
static size_t json_utf8_sequence(const unsigned char *at, size_t left)
{
    size_t size = at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
    if (at[0] < 0xC2 || at[0] > 0xF4 || left < size || !json_continues(at + 1, size - 1))
        return 0;
    if ((at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xF0 && at[1] < 0x90))
        return 0; /* longer than it need be */
    if ((at[0] == 0xED && at[1] > 0x9F) || (at[0] == 0xF4 && at[1] > 0x8F))
        return 0; /* a surrogate, or beyond U+10FFFF */
    return size;
}

/* How many leading bytes are valid UTF-8. */
static size_t json_utf8_prefix(const char *text, size_t len)
{
    size_t at = 0, size;
    while (at < len) {
        if (len - at >= 8 && !(json_load8(text + at) & JSON_HIGH_BITS)) {
            at += 8;
        } else if (!(text[at] & 0x80)) {
            at++;
        } else {
            size = json_utf8_sequence((const unsigned char *)text + at, len - at);
            if (size == 0)
                break;
            at += size;
        }
    }
    return at;
}

int srt_utf8_valid(const char *text, size_t len)
{
    return json_utf8_prefix(text, len) == len;
}

size_t srt_utf8_size(const char *text, size_t len)
{
    if (len == 0)
        return 0;
    return (unsigned char)text[0] < 0x80 ? 1 : json_utf8_sequence((const unsigned char *)text, len);
}

/* Non-zero when some byte of the word is below n (n <= 128). */
static uint64_t json_any_below(uint64_t word, unsigned n)
{
    return (word - JSON_EACH_BYTE * n) & ~word & JSON_HIGH_BITS;
}

/* Non-zero when some byte of the word must be escaped. */
static uint64_t json_any_special(uint64_t word)
{
    return json_any_below(word, 0x20) | json_any_below(word ^ (JSON_EACH_BYTE * '"'), 1) |
           json_any_below(word ^ (JSON_EACH_BYTE * '\\'), 1);
}

static int json_is_plain(char c)
{
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

/* How many leading bytes may stand in a string as they are; `ascii`: whether all of them are ASCII.
 */
static size_t json_plain_run(const char *text, size_t len, int *ascii)
{
    uint64_t seen = 0;
    size_t at = 0;
    for (; len - at >= 8; at += 8) {
        uint64_t word = json_load8(text + at);
        if (json_any_special(word))
            break;
        seen |= word;
    }
    for (; at < len && json_is_plain(text[at]); at++)
        seen |= (unsigned char)text[at];
    *ascii = !(seen & JSON_HIGH_BITS);
    return at;
}

/* The letter of a two-character escape, or 0. */
static char json_escape_letter(char c)
{
    switch (c) {
    case '\b':
        return 'b';
    case '\t':
        return 't';
    case '\n':
        return 'n';
    case '\f':
        return 'f';
    case '\r':
        return 'r';
    case '"':
    case '\\':
        return c;
    default:
        return 0;
    }
}

static size_t json_put_escape(char *at, char c)
{
    static const char hex[] = "0123456789abcdef";
    char letter = json_escape_letter(c);
    at[0] = '\\';
    if (letter) {
        at[1] = letter;
        return 2;
    }
    memcpy(at + 1, "u00", 3);
    at[4] = hex[(unsigned char)c >> 4];
    at[5] = hex[c & 15];
    return 6;
}

/* ---- Numbers ------------------------------------------------------------------------------- */

#define JSON_DIGITS 768 /* more significant digits never change which double is nearest */

/* The value 0.DIGITS times 10 to the `point`; the first and the last digit are not 0, zero has
 * none. */
typedef struct json_decimal {
    char digits[JSON_DIGITS + 1];
    int count;
    int64_t point;
} json_decimal;

static const double json_powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Only where doubles are not calculated in some wider format is one operation one rounding. */
static int json_plain_doubles(void)
{
    return FLT_EVAL_METHOD == 0;
}

static uint64_t json_double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static int json_is_finite(double value)
{
    return (json_double_bits(value) >> 52 & 0x7FF) != 0x7FF;
}

static size_t json_put_uint(char *at, uint64_t value)
{
    char text[20], *first = text + sizeof text;
    size_t len;
    do {
        *--first = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    len = (size_t)(text + sizeof text - first);
    memcpy(at, first, len);
    return len;
}

static size_t json_put_int(char *at, int64_t value)
{
    if (value >= 0)
        return json_put_uint(at, (uint64_t)value);
    *at = '-';
    return 1 + json_put_uint(at + 1, 0 - (uint64_t)value);
}

static void json_drop_zeros(json_decimal *d)
{
    while (d->count > 0 && d->digits[d->count - 1] == '0')
        d->count--;
}

/*
 * The nearest double: infinity when there is none. strtod rounds correctly; without a decimal point
 * in the text no locale changes what it reads.
 */
static double json_nearest(const json_decimal *d)
{
    char text[JSON_DIGITS + 32];
    uint64_t whole = 0;
    int64_t power = d->point - d->count;
    size_t len = (size_t)d->count;
    int i;
    if (d->count == 0 || d->point < -400)
        return 0.0;
    if (d->count <= 19 && power >= -22 && power <= 22 && json_plain_doubles()) {
        for (i = 0; i < d->count; i++)
            whole = whole * 10 + (uint64_t)(d->digits[i] - '0');
        if (whole <= (uint64_t)1 << 53) /* two exact doubles, one rounding */
            return power < 0 ? (double)whole / json_powers[-power]
                             : (double)whole * json_powers[power];
    }
    memcpy(text, d->digits, len);
    text[len++] = 'e';
    len += json_put_int(text + len, d->point > 400 ? 400 : power);
    text[len] = '\0';
    return strtod(text, NULL);
}

/* The decimal of `precision` digits nearest to value. */
static void json_round(double value, int precision, json_decimal *d)
{
    char text[64], *at = text;
    snprintf(text, sizeof text, "%.*e", precision - 1, value);
    d->count = 0;
    for (; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9') /* whatever else stands there is the locale's decimal point */
            d->digits[d->count++] = *at;
    d->point = atoi(at + 1) + 1;
}

/* Adds one unit at the last digit. */
static void json_step_up(json_decimal *d)
{
    int i = d->count - 1;
    while (i >= 0 && d->digits[i] == '9')
        d->digits[i--] = '0';
    if (i >= 0) {
        d->digits[i]++;
    } else {
        d->digits[0] = '1';
        d->point++;
    }
}

/*
 * Below a power of two doubles lie twice as close as above it: there the nearest decimal may read
 * as the double below, while its upper neighbour reads as value.
 */
static int json_reads_as(double value, json_decimal *d)
{
    if (json_nearest(d) == value)
        return 1;
    if (json_double_bits(value) << 12 != 0)
        return 0;
    json_step_up(d);
    return json_nearest(d) == value;
}

/* The product of a < 2^53 and b, in two words. */
static uint64_t json_multiply(uint64_t a, uint64_t b, uint64_t *high)
{
    uint64_t a_low = a & 0xFFFFFFFFu, b_low = b & 0xFFFFFFFFu, lowest = a_low * b_low;
    uint64_t middle = (a >> 32) * b_low + (lowest >> 32);
    uint64_t other = a_low * (b >> 32) + (middle & 0xFFFFFFFFu);
    *high = (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
    return other << 32 | (lowest & 0xFFFFFFFFu);
}

/*
 * One double between 2^-24 and 2^53 is whole / 2^scale. With so many places its nearest decimal is
 * whole * 5^places / 2^(scale - places), rounded; it reads as the double when what rounding took is
 * less than half of 5^places. The first count of places where that holds gives the shortest
 * decimal.
 */
static int json_shortest_by_integers(double value, json_decimal *d)
{
    const uint64_t one = (uint64_t)1 << 52;
    uint64_t bits = json_double_bits(value), whole = (bits & (one - 1)) | one, five = 1;
    int scale = 1075 - (int)(bits >> 52), places = scale > 63 ? scale - 63 : 0, i;
    if (scale < 1 || scale > 76)
        return 0;
    for (i = 0; i < places; i++)
        five *= 5;
    for (; places <= 27; places++, five *= 5) {
        int shift = scale - places;
        uint64_t high, low = json_multiply(whole, five, &high);
        uint64_t unit = (uint64_t)1 << shift, rest = low & (unit - 1);
        uint64_t digits = shift ? high << (64 - shift) | low >> shift : low;
        if (rest > unit / 2 || (rest == unit / 2 && rest && (digits & 1))) {
            digits++;
            rest = unit - rest;
        }
        if (rest == 0 || (whole != one && 2 * rest < five)) {
            d->count = (int)json_put_uint(d->digits, digits);
            d->point = d->count - places;
            return 1;
        }
        if (whole == one && digits > 100000000000000u)
            return 0; /* beyond 15 digits a power of two has nearer and farther neighbours: below */
    }
    return 0;
}

/* The fewest digits that read as value (finite, above 0), and of those the nearest. */
static void json_shortest(double value, json_decimal *d)
{
    /* 15 digits of a normal double are its shortest ones and zeros, if they read as it at all. */
    int precision = value < DBL_MIN ? 1 : 15;
    if (!json_shortest_by_integers(value, d)) {
        for (; precision < 17; precision++) {
            json_round(value, precision, d);
            if (json_reads_as(value, d))
                break;
        }
        if (precision == 17)
            json_round(value, precision, d);
    }
    json_drop_zeros(d);
}

static size_t json_put_zeros(char *at, int64_t n)
{
    memset(at, '0', (size_t)n);
    return (size_t)n;
}

/* `digits` with a point behind the first `whole` of them; no point when none is left. */
static size_t json_put_pointed(char *at, const json_decimal *d, int whole)
{
    size_t head = (size_t)whole, tail = (size_t)(d->count - whole);
    memcpy(at, d->digits, head);
    if (tail == 0)
        return head;
    at[head] = '.';
    memcpy(at + head + 1, d->digits + head, tail);
    return head + 1 + tail;
}

/* The layout of ECMAScript's Number::toString. */
static size_t json_put_decimal(char *at, const json_decimal *d)
{
    size_t len;
    if (d->point > 0 && d->point <= 21) {
        if (d->count > d->point)
            return json_put_pointed(at, d, (int)d->point);
        len = json_put_pointed(at, d, d->count);
        return len + json_put_zeros(at + len, d->point - d->count);
    }
    if (d->point > -6 && d->point <= 0) {
        memcpy(at, "0.", 2);
        len = 2 + json_put_zeros(at + 2, -d->point);
        return len + json_put_pointed(at + len, d, d->count);
    }
    len = json_put_pointed(at, d, 1);
    at[len++] = 'e';
    if (d->point > 0)
        at[len++] = '+';
    return len + json_put_int(at + len, d->point - 1);
}

size_t srt_json_double_text(double value, char text[SRT_JSON_DOUBLE_SIZE])
{
    json_decimal d;
    size_t len = 0;
    if (value > -9007199254740992.0 && value < 9007199254740992.0 &&
        value == (double)(int64_t)value) {
        len = json_put_int(text, (int64_t)value);
    } else {
        if (value < 0)
            text[len++] = '-';
        json_shortest(value < 0 ? -value : value, &d);
        len += json_put_decimal(text + len, &d);
    }
    text[len] = '\0';
    return len;
}

/* ---- Writer -------------------------------------------------------------------------------- */

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

int srt_json_int(srt_json_writer *w, int64_t value)
{
    char *at = json_begin_value(w, 20);
    return at ? json_end_value(w, json_put_int(at, value)) : w->error.status;
}

int srt_json_double(srt_json_writer *w, double value)
{
    char *at = json_begin_value(w, SRT_JSON_DOUBLE_SIZE);
    if (!at)
        return w->error.status;
    if (!json_is_finite(value))
        return json_refuse(w, value != value ? "NaN has no place in JSON"
                                             : "infinity has no place in JSON");
    return json_end_value(w, srt_json_double_text(value, at));
}

/* Copies leading ASCII that needs no escape; how many bytes that was. */
static size_t json_copy_ascii(char *to, const char *text, size_t len)
{
    size_t at = 0;
    for (; len - at >= 8; at += 8) {
        uint64_t word = json_load8(text + at);
        if (json_any_special(word) | (word & JSON_HIGH_BITS))
            break;
        memcpy(to + at, &word, sizeof word);
    }
    for (; at < len && json_is_plain(text[at]) && !(text[at] & 0x80); at++)
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
        run = json_plain_run(text, len, &ascii);
        memcpy(out->data + out->len, text, run);
        out->len += run;
        if (run == len)
            return SERIATIM_OK;
        len -= run + 1;
        if (!srt_bytes_reserve(out, len + 8))
            return json_no_memory(w);
        out->len += json_put_escape(out->data + out->len, text[run]);
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
    if (!json_begin_value(w, len + 2) ||
        json_put_quoted(w, text, len, "a string must be valid UTF-8") != SERIATIM_OK)
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
        if (srt_grow(w->out->mem, &members, &w->member_cap, w->member_count + 1,
                     sizeof *w->members))
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
        for (hole = i; hole > 0 && json_member_compare(data, &members[hole - 1], &member) > 0;
             hole--)
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
        if (child + 1 < count &&
            json_member_compare(data, &members[child], &members[child + 1]) < 0)
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

/* ---- Path ---------------------------------------------------------------------------------- */

typedef struct json_path {
    char *text;
    size_t len, size;
    int full;
} json_path;

/* Whole or cut between characters; once cut, nothing follows. */
static void json_path_add(json_path *path, const char *text, size_t len)
{
    size_t room = path->size - 1 - path->len;
    if (path->full)
        return;
    if (len > room) {
        path->full = 1;
        for (len = room; len > 0 && ((unsigned char)text[len] & 0xC0) == 0x80;)
            len--;
    }
    memcpy(path->text + path->len, text, len);
    path->len += len;
}

static int json_is_name(const char *key, size_t len)
{
    size_t i;
    for (i = 0; i < len; i++) {
        char c = key[i], lower = (char)(c | 0x20);
        if (!(lower >= 'a' && lower <= 'z') && c != '_' && (i == 0 || c < '0' || c > '9'))
            return 0;
    }
    return len > 0;
}

/* The length of a written key from behind its opening quote to before its closing one. */
static size_t json_key_length(const char *key)
{
    size_t len = 0;
    while (key[len] != '"')
        len += key[len] == '\\' ? 2 : 1;
    return len;
}

static void json_path_add_key(json_path *path, const char *key)
{
    size_t len = json_key_length(key);
    if (json_is_name(key, len)) {
        json_path_add(path, ".", 1);
        json_path_add(path, key, len);
    } else {
        json_path_add(path, "[\"", 2);
        json_path_add(path, key, len);
        json_path_add(path, "\"]", 2);
    }
}

static void json_path_add_index(json_path *path, size_t index)
{
    char text[24];
    size_t len = 1;
    text[0] = '[';
    len += json_put_uint(text + 1, index);
    text[len++] = ']';
    json_path_add(path, text, len);
}

size_t srt_json_writer_path(const srt_json_writer *w, char *text, size_t size)
{
    json_path path = {text, 0, size, 0};
    size_t i;
    if (size == 0)
        return 0;
    json_path_add(&path, w->root, strlen(w->root));
    for (i = 1; i <= w->depth; i++) {
        const srt_json_level *level = &w->levels[i];
        if (level->kind == '[')
            json_path_add_index(&path, level->count);
        else if (level->keyed)
            json_path_add_key(&path, w->out->data + level->key + 1);
    }
    text[path.len] = '\0';
    return path.len;
}

/* ---- Reader -------------------------------------------------------------------------------- */

enum json_expects {
    JSON_VALUE,        /* a value */
    JSON_FIRST_VALUE,  /* a value, or the end of the array that just began */
    JSON_KEY,          /* a key */
    JSON_FIRST_KEY,    /* a key, or the end of the object that just began */
    JSON_COMMA_OR_END, /* behind a value inside an array or object */
    JSON_NOTHING       /* behind the one value at the top */
};

void srt_json_reader_init(srt_json_reader *r, const seriatim_allocator *mem, const char *data,
                          size_t len)
{
    srt_bytes_init(&r->scratch, mem);
    srt_json_reader_reset(r, data, len);
}

void srt_json_reader_reset(srt_json_reader *r, const char *data, size_t len)
{
    r->data = data;
    r->len = len;
    r->at = 0;
    r->depth = 0;
    r->expects = JSON_VALUE;
    srt_error_clear(&r->error);
}

void srt_json_reader_free(srt_json_reader *r)
{
    srt_bytes_free(&r->scratch);
}

static int json_reject(srt_json_reader *r, size_t at, const char *rule)
{
    return srt_fail(&r->error, SERIATIM_INVALID, "at byte %llu: %s", (unsigned long long)at, rule);
}

/* The byte at an offset, or 0 behind the end: no rule lets NUL stand outside a string. */
static char json_peek(const srt_json_reader *r, size_t at)
{
    return at < r->len ? r->data[at] : '\0';
}

static void json_skip_space(srt_json_reader *r)
{
    for (; r->at < r->len; r->at++) {
        char c = r->data[r->at];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return;
    }
}

static void json_value_read(srt_json_reader *r)
{
    r->expects = r->depth ? JSON_COMMA_OR_END : JSON_NOTHING;
}

static int json_hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The code unit of the four hex digits at r->at, which moves behind them; -1 when they are not. */
static int json_read_unit(srt_json_reader *r)
{
    int unit = 0, i, value;
    for (i = 0; i < 4; i++) {
        value = json_hex_value(json_peek(r, r->at + (size_t)i));
        if (value < 0)
            return -1;
        unit = unit * 16 + value;
    }
    r->at += 4;
    return unit;
}

static size_t json_put_utf8(char *at, int code)
{
    if (code < 0x80) {
        at[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        at[0] = (char)(0xC0 | code >> 6);
        at[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        at[0] = (char)(0xE0 | code >> 12);
        at[1] = (char)(0x80 | (code >> 6 & 0x3F));
        at[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    at[0] = (char)(0xF0 | code >> 18);
    at[1] = (char)(0x80 | (code >> 12 & 0x3F));
    at[2] = (char)(0x80 | (code >> 6 & 0x3F));
    at[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* Behind `\u`, which stood at `start`. */
static int json_read_code(srt_json_reader *r, size_t start)
{
    char text[4];
    int code = json_read_unit(r), low;
    if (code < 0)
        return json_reject(r, start, "\\u needs four hex digits");
    if (code >= 0xDC00 && code <= 0xDFFF)
        return json_reject(r, start, "a low surrogate needs a high one before it");
    if (code >= 0xD800 && code <= 0xDBFF) {
        low = -1;
        if (json_peek(r, r->at) == '\\' && json_peek(r, r->at + 1) == 'u') {
            r->at += 2;
            low = json_read_unit(r);
        }
        if (low < 0xDC00 || low > 0xDFFF)
            return json_reject(r, start, "a high surrogate needs a low one behind it");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    srt_bytes_add(&r->scratch, text, json_put_utf8(text, code));
    return SERIATIM_OK;
}

/* One escape, from its backslash on, onto scratch. */
static int json_read_escape(srt_json_reader *r)
{
    static const char letters[] = "b\bt\tn\nf\fr\r\"\"\\\\//";
    size_t start = r->at, i;
    char letter = json_peek(r, start + 1);
    r->at += 2;
    if (letter == 'u')
        return json_read_code(r, start);
    for (i = 0; letters[i]; i += 2) {
        if (letters[i] == letter) {
            srt_bytes_addc(&r->scratch, letters[i + 1]);
            return SERIATIM_OK;
        }
    }
    return json_reject(r, start, "there is no such escape");
}

/* A run of plain bytes from r->at on, checked; r->at moves behind it. */
static int json_read_run(srt_json_reader *r, size_t *run)
{
    size_t valid;
    int ascii;
    *run = json_plain_run(r->data + r->at, r->len - r->at, &ascii);
    valid = ascii ? *run : json_utf8_prefix(r->data + r->at, *run);
    if (valid < *run)
        return json_reject(r, r->at + valid, "a string must be valid UTF-8");
    r->at += *run;
    return SERIATIM_OK;
}

/* What follows a string's first run, when that is not the closing quote. */
static int json_read_escaped(srt_json_reader *r, srt_json_token *token)
{
    size_t run;
    srt_bytes_clear(&r->scratch);
    if (token->len)
        srt_bytes_add(&r->scratch, token->text, token->len);
    while (json_peek(r, r->at) != '"') {
        if (r->at >= r->len)
            return json_reject(r, r->at, "the string is not closed");
        if (r->data[r->at] != '\\')
            return json_reject(r, r->at, "a control character must be escaped");
        if (json_read_escape(r) != SERIATIM_OK || json_read_run(r, &run) != SERIATIM_OK)
            return r->error.status;
        if (run)
            srt_bytes_add(&r->scratch, r->data + r->at - run, run);
    }
    if (r->scratch.failed)
        return srt_fail_plain(&r->error, SERIATIM_NOMEM);
    token->text = r->scratch.data;
    token->len = r->scratch.len;
    return SERIATIM_OK;
}

/* From the opening quote on. */
static int json_read_string(srt_json_reader *r, srt_json_token *token, srt_json_type type)
{
    r->at++;
    token->type = type;
    token->text = r->data + r->at;
    if (json_read_run(r, &token->len) != SERIATIM_OK)
        return r->error.status;
    if (json_peek(r, r->at) != '"' && json_read_escaped(r, token) != SERIATIM_OK)
        return r->error.status;
    r->at++;
    return SERIATIM_OK;
}

static int json_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Behind the digits from `at` on. */
static size_t json_skip_digits(const srt_json_reader *r, size_t at)
{
    while (json_is_digit(json_peek(r, at)))
        at++;
    return at;
}

/* Where the parts of a number stand: sign, whole, point, fraction, exponent. */
typedef struct json_number {
    size_t whole, whole_end, fraction, fraction_end, exponent, end;
    int negative;
} json_number;

static int json_scan_exponent(srt_json_reader *r, json_number *n)
{
    size_t digits;
    n->exponent = n->end = n->fraction_end;
    if ((json_peek(r, n->end) | 0x20) != 'e')
        return SERIATIM_OK;
    n->exponent++;
    digits = n->exponent + (json_peek(r, n->exponent) == '-' || json_peek(r, n->exponent) == '+');
    n->end = json_skip_digits(r, digits);
    return n->end > digits ? SERIATIM_OK : json_reject(r, n->end, "an exponent needs digits");
}

static int json_scan_number(srt_json_reader *r, json_number *n)
{
    n->negative = json_peek(r, r->at) == '-';
    n->whole = r->at + (size_t)n->negative;
    n->whole_end = json_skip_digits(r, n->whole);
    if (n->whole_end == n->whole)
        return json_reject(r, n->whole, "a number needs digits");
    if (n->whole_end > n->whole + 1 && r->data[n->whole] == '0')
        return json_reject(r, n->whole, "a number must not begin with a zero");
    n->fraction = n->fraction_end = n->whole_end;
    if (json_peek(r, n->whole_end) == '.') {
        n->fraction++;
        n->fraction_end = json_skip_digits(r, n->fraction);
        if (n->fraction_end == n->fraction)
            return json_reject(r, n->fraction, "a fraction needs digits");
    }
    return json_scan_exponent(r, n);
}

/* The exponent's value; beyond any that text in memory could balance it only keeps its sign. */
static int64_t json_exponent_value(const srt_json_reader *r, const json_number *n)
{
    int64_t value = 0;
    size_t at = n->exponent;
    int negative = json_peek(r, at) == '-';
    for (; at < n->end; at++)
        if (json_is_digit(r->data[at]) && value < INT64_MAX / 100)
            value = value * 10 + (r->data[at] - '0');
    return negative ? -value : value;
}

/*
 * The digits of text from `at` to `end`, behind those that d holds. Beyond JSON_DIGITS of them it
 * only matters whether one is not 0; the digit in place of all those says so.
 */
static void json_take_digits(json_decimal *d, const char *text, size_t at, size_t end,
                             int64_t *taken)
{
    for (; at < end; at++) {
        if (*taken == 0 && text[at] == '0')
            continue;
        if (*taken < JSON_DIGITS)
            d->digits[d->count++] = text[at];
        else if (text[at] != '0')
            d->digits[JSON_DIGITS] = '1';
        ++*taken;
    }
}

static void json_decimal_of(const srt_json_reader *r, const json_number *n, json_decimal *d)
{
    int64_t taken = 0;
    size_t at = n->fraction;
    d->count = 0;
    d->digits[JSON_DIGITS] = '0';
    json_take_digits(d, r->data, n->whole, n->whole_end, &taken);
    d->point = taken;
    if (taken == 0)
        while (at < n->fraction_end && r->data[at] == '0') {
            at++;
            d->point--;
        }
    json_take_digits(d, r->data, at, n->fraction_end, &taken);
    d->point += json_exponent_value(r, n);
    if (d->digits[JSON_DIGITS] == '1')
        d->count = JSON_DIGITS + 1;
    json_drop_zeros(d);
}

static int json_give_int(srt_json_token *token, uint64_t size, int negative)
{
    if (size > (uint64_t)INT64_MAX + (uint64_t)negative)
        return 0;
    token->type = SRT_JSON_INT;
    token->integer = negative ? (int64_t)(0 - size) : (int64_t)size;
    return 1;
}

/* 1 when the decimal is an integer within int64, and given as one. */
static int json_give_integral(srt_json_token *token, const json_decimal *d, int negative)
{
    uint64_t size = 0;
    int i;
    if (d->count == 0)
        return json_give_int(token, 0, 0);
    if (d->count > d->point || d->point > 19)
        return 0;
    for (i = 0; i < d->point; i++)
        size = size * 10 + (uint64_t)(i < d->count ? d->digits[i] - '0' : 0);
    return json_give_int(token, size, negative);
}

static int json_give_double(srt_json_reader *r, srt_json_token *token, const json_decimal *d,
                            int negative)
{
    double size = json_nearest(d);
    if (!json_is_finite(size))
        return json_reject(r, r->at, "the number is too great for a double");
    if (d->count > d->point && size < 9223372036854775808.0 && size == (double)(uint64_t)size) {
        json_give_int(token, (uint64_t)size, negative);
        return SERIATIM_OK;
    }
    token->type = SRT_JSON_DOUBLE;
    token->number = negative ? -size : size;
    return SERIATIM_OK;
}

static int json_read_long_number(srt_json_reader *r, srt_json_token *token, const json_number *n)
{
    json_decimal d;
    json_decimal_of(r, n, &d);
    if (json_give_integral(token, &d, n->negative))
        return SERIATIM_OK;
    return json_give_double(r, token, &d, n->negative);
}

static int json_read_number(srt_json_reader *r, srt_json_token *token)
{
    json_number n;
    uint64_t size = 0;
    size_t at;
    if (json_scan_number(r, &n) != SERIATIM_OK)
        return r->error.status;
    if (n.end == n.whole_end && n.end - n.whole <= 18) {
        for (at = n.whole; at < n.end; at++)
            size = size * 10 + (uint64_t)(r->data[at] - '0');
        json_give_int(token, size, n.negative);
    } else if (json_read_long_number(r, token, &n) != SERIATIM_OK) {
        return r->error.status;
    }
    r->at = n.end;
    return SERIATIM_OK;
}

static int json_read_word(srt_json_reader *r, srt_json_token *token, const char *word,
                          srt_json_type type)
{
    size_t len = strlen(word);
    if (r->len - r->at < len || memcmp(r->data + r->at, word, len) != 0)
        return json_reject(r, r->at, "a value is expected");
    r->at += len;
    token->type = type;
    return SERIATIM_OK;
}

static int json_read_begin(srt_json_reader *r, srt_json_token *token, char bracket)
{
    if (r->depth == SRT_JSON_DEPTH)
        return json_reject(r, r->at, "arrays and objects lie too deep");
    r->open[r->depth++] = bracket;
    r->at++;
    token->type = bracket == '[' ? SRT_JSON_BEGIN_ARRAY : SRT_JSON_BEGIN_OBJECT;
    r->expects = bracket == '[' ? JSON_FIRST_VALUE : JSON_FIRST_KEY;
    return SERIATIM_OK;
}

static int json_read_end(srt_json_reader *r, srt_json_token *token)
{
    r->depth--;
    r->at++;
    token->type = r->open[r->depth] == '[' ? SRT_JSON_END_ARRAY : SRT_JSON_END_OBJECT;
    json_value_read(r);
    return SERIATIM_OK;
}

static int json_read_scalar(srt_json_reader *r, srt_json_token *token)
{
    switch (json_peek(r, r->at)) {
    case '"':
        return json_read_string(r, token, SRT_JSON_STRING);
    case 't':
        return json_read_word(r, token, "true", SRT_JSON_TRUE);
    case 'f':
        return json_read_word(r, token, "false", SRT_JSON_FALSE);
    case 'n':
        return json_read_word(r, token, "null", SRT_JSON_NULL);
    default:
        if (json_peek(r, r->at) != '-' && !json_is_digit(json_peek(r, r->at)))
            return json_reject(r, r->at, "a value is expected");
        return json_read_number(r, token);
    }
}

static int json_read_value(srt_json_reader *r, srt_json_token *token)
{
    char c = json_peek(r, r->at);
    if (c == '[' || c == '{')
        return json_read_begin(r, token, c);
    json_value_read(r);
    return json_read_scalar(r, token);
}

static int json_read_key(srt_json_reader *r, srt_json_token *token)
{
    if (json_peek(r, r->at) != '"')
        return json_reject(r, r->at, "a key is expected");
    if (json_read_string(r, token, SRT_JSON_KEY) != SERIATIM_OK)
        return r->error.status;
    json_skip_space(r);
    if (json_peek(r, r->at) != ':')
        return json_reject(r, r->at, "a colon is expected");
    r->at++;
    r->expects = JSON_VALUE;
    return SERIATIM_OK;
}

static int json_read_behind_value(srt_json_reader *r, srt_json_token *token)
{
    int in_array = r->open[r->depth - 1] == '[';
    char c = json_peek(r, r->at);
    if (c == (in_array ? ']' : '}'))
        return json_read_end(r, token);
    if (c != ',')
        return json_reject(r, r->at,
                           in_array ? "a comma or ] is expected" : "a comma or } is expected");
    r->at++;
    json_skip_space(r);
    return in_array ? json_read_value(r, token) : json_read_key(r, token);
}

static int json_read_nothing(srt_json_reader *r, srt_json_token *token)
{
    if (r->at < r->len)
        return json_reject(r, r->at, "nothing may follow the value");
    token->type = SRT_JSON_END;
    return SERIATIM_OK;
}

int srt_json_next(srt_json_reader *r, srt_json_token *token)
{
    if (r->error.status)
        return r->error.status;
    json_skip_space(r);
    switch (r->expects) {
    case JSON_FIRST_VALUE:
        return json_peek(r, r->at) == ']' ? json_read_end(r, token) : json_read_value(r, token);
    case JSON_FIRST_KEY:
        return json_peek(r, r->at) == '}' ? json_read_end(r, token) : json_read_key(r, token);
    case JSON_COMMA_OR_END:
        return json_read_behind_value(r, token);
    case JSON_NOTHING:
        return json_read_nothing(r, token);
    default:
        return json_read_value(r, token);
    }
}

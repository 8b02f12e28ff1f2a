/* json_reader.c - reads JSON; each call returns one token. */
#include "base/json.h"
#include "base/json_number.h"
#include "base/json_text.h"

#include <string.h>

enum json_expects {
    JSON_VALUE,        /* a value */
    JSON_FIRST_VALUE,  /* a value, or the end of the array that just began */
    JSON_KEY,          /* a key */
    JSON_FIRST_KEY,    /* a key, or the end of the object that just began */
    JSON_COMMA_OR_END, /* behind a value inside an array or object */
    JSON_NOTHING       /* behind the one value at the top */
};

void srt_json_reader_init(srt_json_reader *r, const seriatim_allocator *mem, const char *data, size_t len)
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

/* Returns the byte at an offset, or 0 behind the end: JSON allows no NUL outside a string. */
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

/* Reads four hex digits at r->at and moves behind them. Returns their code unit; -1 if they are not hex digits. */
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
    return json_reject(r, start, "an escape must be a backslash and one of \"\\/bfnrtu");
}

/* A run of plain bytes from r->at on, checked; r->at moves behind it. */
static int json_read_run(srt_json_reader *r, size_t *run)
{
    size_t valid;
    int ascii;
    *run = srt_json_plain_run(r->data + r->at, r->len - r->at, &ascii);
    valid = ascii ? *run : srt_json_utf8_prefix(r->data + r->at, *run);
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
 * The digits of text from `at` to `end`, behind those that d holds. Beyond SRT_JSON_DIGITS of them it
 * only matters whether one is not 0; the digit in place of all those says so.
 */
static void json_take_digits(srt_json_decimal *d, const char *text, size_t at, size_t end, int64_t *taken)
{
    for (; at < end; at++) {
        if (*taken == 0 && text[at] == '0')
            continue;
        if (*taken < SRT_JSON_DIGITS)
            d->digits[d->count++] = text[at];
        else if (text[at] != '0')
            d->digits[SRT_JSON_DIGITS] = '1';
        ++*taken;
    }
}

static void json_decimal_of(const srt_json_reader *r, const json_number *n, srt_json_decimal *d)
{
    int64_t taken = 0;
    size_t at = n->fraction;
    d->count = 0;
    d->digits[SRT_JSON_DIGITS] = '0';
    json_take_digits(d, r->data, n->whole, n->whole_end, &taken);
    d->point = taken;
    if (taken == 0)
        while (at < n->fraction_end && r->data[at] == '0') {
            at++;
            d->point--;
        }
    json_take_digits(d, r->data, at, n->fraction_end, &taken);
    d->point += json_exponent_value(r, n);
    if (d->digits[SRT_JSON_DIGITS] == '1')
        d->count = SRT_JSON_DIGITS + 1;
    srt_json_drop_zeros(d);
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
static int json_give_integral(srt_json_token *token, const srt_json_decimal *d, int negative)
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

static int json_give_double(srt_json_reader *r, srt_json_token *token, const srt_json_decimal *d, int negative)
{
    double size = srt_json_nearest(d);
    if (!srt_json_is_finite(size))
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
    srt_json_decimal d;
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
    token->is_integer = n.end == n.whole_end;
    r->at = n.end;
    return SERIATIM_OK;
}

static int json_read_word(srt_json_reader *r, srt_json_token *token, const char *word, srt_json_type type)
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
        return json_reject(r, r->at, in_array ? "a comma or ] is expected" : "a comma or } is expected");
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

/* json_number.c - doubles as ECMAScript writes them, and the double nearest to a decimal. */
#include "base/json_number.h"
#include "base/json.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double json_powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Returns 1 if doubles are not calculated in a wider format, so that each operation rounds once. */
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

int srt_json_is_finite(double value)
{
    return (json_double_bits(value) >> 52 & 0x7FF) != 0x7FF;
}

size_t srt_json_put_uint(char *at, uint64_t value)
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

size_t srt_json_put_int(char *at, int64_t value)
{
    if (value >= 0)
        return srt_json_put_uint(at, (uint64_t)value);
    *at = '-';
    return 1 + srt_json_put_uint(at + 1, 0 - (uint64_t)value);
}

void srt_json_drop_zeros(srt_json_decimal *d)
{
    while (d->count > 0 && d->digits[d->count - 1] == '0')
        d->count--;
}

double srt_json_nearest(const srt_json_decimal *d)
{
    char text[SRT_JSON_DIGITS + 32];
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
            return power < 0 ? (double)whole / json_powers[-power] : (double)whole * json_powers[power];
    }
    memcpy(text, d->digits, len);
    text[len++] = 'e';
    len += srt_json_put_int(text + len, d->point > 400 ? 400 : power);
    text[len] = '\0';
    return strtod(text, NULL);
}

/* The decimal of `precision` digits nearest to value. */
static void json_round(double value, int precision, srt_json_decimal *d)
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
static void json_step_up(srt_json_decimal *d)
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
static int json_reads_as(double value, srt_json_decimal *d)
{
    if (srt_json_nearest(d) == value)
        return 1;
    if (json_double_bits(value) << 12 != 0)
        return 0;
    json_step_up(d);
    return srt_json_nearest(d) == value;
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
 * One double between 2^-24 and 2^53 is whole / 2^scale. With that many decimal places its nearest decimal is
 * whole * 5^places / 2^(scale - places), rounded; it reads as the double when what rounding took is
 * less than half of 5^places. The first count of places where that holds gives the shortest
 * decimal.
 */
static int json_shortest_by_integers(double value, srt_json_decimal *d)
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
            d->count = (int)srt_json_put_uint(d->digits, digits);
            d->point = d->count - places;
            return 1;
        }
        if (whole == one && digits > 100000000000000u)
            return 0; /* beyond 15 digits a power of two has nearer and farther neighbours: below */
    }
    return 0;
}

/* The fewest digits that read as value (finite, above 0), and of those the nearest. */
static void json_shortest(double value, srt_json_decimal *d)
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
    srt_json_drop_zeros(d);
}

static size_t json_put_zeros(char *at, int64_t n)
{
    memset(at, '0', (size_t)n);
    return (size_t)n;
}

/* `digits` with a point behind the first `whole` of them; no point when none is left. */
static size_t json_put_pointed(char *at, const srt_json_decimal *d, int whole)
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
static size_t json_put_decimal(char *at, const srt_json_decimal *d)
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
    return len + srt_json_put_int(at + len, d->point - 1);
}

size_t srt_json_double_text(double value, char text[SRT_JSON_DOUBLE_SIZE])
{
    srt_json_decimal d;
    size_t len = 0;
    if (value > -9007199254740992.0 && value < 9007199254740992.0 && value == (double)(int64_t)value) {
        len = srt_json_put_int(text, (int64_t)value);
    } else {
        if (value < 0)
            text[len++] = '-';
        json_shortest(value < 0 ? -value : value, &d);
        len += json_put_decimal(text + len, &d);
    }
    text[len] = '\0';
    return len;
}

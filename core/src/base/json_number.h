/* json_number.h - decimal digits of integers and doubles, for the writer and the reader. */
#ifndef SRT_JSON_NUMBER_H
#define SRT_JSON_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#define SRT_JSON_DIGITS 768 /* more significant digits never change which double is nearest */

/* The value 0.DIGITS times 10 to the power `point`. The first and the last digit are not 0; the value 0 has no digits.
 */
typedef struct srt_json_decimal {
    char digits[SRT_JSON_DIGITS + 1];
    int count;
    int64_t point;
} srt_json_decimal;

/* 0 for an infinity or NaN. */
int srt_json_is_finite(double value);
/* The decimal digits, without a NUL. `at` has room for 20 bytes; returns how many were written. */
size_t srt_json_put_int(char *at, int64_t value);
size_t srt_json_put_uint(char *at, uint64_t value);
/* Removes zeros at the end of the digits; the value stays. */
void srt_json_drop_zeros(srt_json_decimal *d);
/*
 * The nearest double: infinity when the value is too great for one. strtod rounds correctly; without a decimal point
 * in the text no locale changes what it reads.
 */
double srt_json_nearest(const srt_json_decimal *d);

#endif

/* test_json_text.c - tests of canonical JSON: UTF-8 and numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <locale.h>
#include <cmocka.h>

#include "json_fixture.h"

static void test_valid_utf8_is_accepted(void **state)
{
    static const char *good[] = {"",
                                 "a",
                                 "12345678",
                                 "1234567\xC2\x80",
                                 "\xC2\x80",
                                 "\xDF\xBF",
                                 "\xE0\xA0\x80",
                                 "\xED\x9F\xBF",
                                 "\xEE\x80\x80",
                                 "\xEF\xBF\xBF",
                                 "\xF0\x90\x80\x80",
                                 "\xF4\x8F\xBF\xBF",
                                 "\x7F"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(srt_utf8_valid(good[i], strlen(good[i])));
    assert_true(srt_utf8_valid("a\0b", 3));
    assert_true(srt_utf8_valid(NULL, 0));
}

static void test_invalid_utf8_is_refused(void **state)
{
    static const char *bad[] = {"\x80",
                                "\xBF",
                                "\xC0\x80",
                                "\xC1\xBF",
                                "\xC2",
                                "\xC2\x41",
                                "\xE0\x9F\xBF",
                                "\xED\xA0\x80",
                                "\xED\xBF\xBF",
                                "\xE2\x82",
                                "\xE2\x28\xA1",
                                "\xF0\x8F\xBF\xBF",
                                "\xF0\x90\x80",
                                "\xF4\x90\x80\x80",
                                "\xF5\x80\x80\x80",
                                "\xFF",
                                "12345678\x80",
                                "1234567\xE2\x82"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        if (srt_utf8_valid(bad[i], strlen(bad[i])))
            fail_msg("row %zu was taken for UTF-8", i);
}

typedef struct number_row {
    uint64_t bits;
    const char *text;
} number_row;

/* RFC 8785, appendix B. */
static const number_row appendix_b[] = {
    {0x0000000000000000u, "0"},
    {0x8000000000000000u, "0"},
    {0x0000000000000001u, "5e-324"},
    {0x8000000000000001u, "-5e-324"},
    {0x7fefffffffffffffu, "1.7976931348623157e+308"},
    {0xffefffffffffffffu, "-1.7976931348623157e+308"},
    {0x4340000000000000u, "9007199254740992"},
    {0xc340000000000000u, "-9007199254740992"},
    {0x4430000000000000u, "295147905179352830000"},
    {0x44b52d02c7e14af5u, "9.999999999999997e+22"},
    {0x44b52d02c7e14af6u, "1e+23"},
    {0x44b52d02c7e14af7u, "1.0000000000000001e+23"},
    {0x444b1ae4d6e2ef4eu, "999999999999999700000"},
    {0x444b1ae4d6e2ef4fu, "999999999999999900000"},
    {0x444b1ae4d6e2ef50u, "1e+21"},
    {0x3eb0c6f7a0b5ed8cu, "9.999999999999997e-7"},
    {0x3eb0c6f7a0b5ed8du, "0.000001"},
    {0x41b3de4355555553u, "333333333.3333332"},
    {0x41b3de4355555554u, "333333333.33333325"},
    {0x41b3de4355555555u, "333333333.3333333"},
    {0x41b3de4355555556u, "333333333.3333334"},
    {0x41b3de4355555557u, "333333333.33333343"},
    {0xbecbf647612f3696u, "-0.0000033333333333333333"},
    {0x43143ff3c1cb0959u, "1424953923781206.2"},
};

typedef struct double_row {
    double value;
    const char *text;
} double_row;

static const double_row doubles[] = {
    {1.0, "1"},
    {-1.5, "-1.5"},
    {0.1, "0.1"},
    {0.5, "0.5"},
    {1e20, "100000000000000000000"},
    {1e21, "1e+21"},
    {1.5e21, "1.5e+21"},
    {1e-6, "0.000001"},
    {1e-7, "1e-7"},
    {1.25e-7, "1.25e-7"},
    {123.456, "123.456"},
    {1763660727.123456, "1763660727.123456"},
    {0.30000000000000004, "0.30000000000000004"},
    {5.684341886080802e-14, "5.684341886080802e-14"}, /* 2^-44: the upper neighbour is shorter */
    {9.5367431640625e-7, "9.5367431640625e-7"},       /* 2^-20 */
    {1.1920928955078125e-7, "1.1920928955078125e-7"}, /* 2^-23 */
    {5.960464477539063e-8, "5.960464477539063e-8"},   /* 2^-24 */
    {9007199254740993.0, "9007199254740992"},
    {1152921504606846976.0, "1152921504606847000"}, /* 2^60 */
    {9223372036854775808.0, "9223372036854776000"}, /* 2^63 */
    {2.2250738585072014e-308, "2.2250738585072014e-308"},
    {2.225073858507201e-308, "2.225073858507201e-308"}, /* the greatest subnormal */
    {1.5e-300, "1.5e-300"},
    {1125899906842624.25, "1125899906842624.2"}, /* two as near: the even one */
    {1125899906842624.75, "1125899906842624.8"},
    {4.35, "4.35"},
    {9.5e-323, "9.4e-323"},
};

static void check_double(double value, const char *expected)
{
    char text[SRT_JSON_DOUBLE_SIZE];
    assert_int_equal(srt_json_double_text(value, text), strlen(expected));
    assert_string_equal(text, expected);
}

static void check_all_doubles(void)
{
    double value;
    size_t i;
    for (i = 0; i < sizeof appendix_b / sizeof *appendix_b; i++) {
        memcpy(&value, &appendix_b[i].bits, sizeof value);
        check_double(value, appendix_b[i].text);
    }
    for (i = 0; i < sizeof doubles / sizeof *doubles; i++)
        check_double(doubles[i].value, doubles[i].text);
}

static void test_doubles_are_written_in_shortest_form(void **state)
{
    (void)state;
    check_all_doubles();
}

/* Significant digits of a number's text. */
static int count_digits(const char *text)
{
    int count = 0;
    for (; *text && *text != 'e'; text++)
        count += *text >= '0' && *text <= '9' && (count || *text != '0');
    return count;
}

/* What is written reads as the same double, and no text one digit shorter does. */
static void test_doubles_come_back_exactly(void **state)
{
    json_fixture *f = *state;
    uint64_t seed = 88172645463325252u, bits;
    char text[SRT_JSON_DOUBLE_SIZE], shorter[40];
    double value, got;
    size_t len;
    int i, count;
    for (i = 0; i < 100000; i++) {
        bits = next_random(&seed);
        if (i % 2) /* near 1, where people's numbers are */
            bits = (bits & 0x800fffffffffffffu) | (uint64_t)(1000 + i % 60) << 52;
        memcpy(&value, &bits, sizeof value);
        if ((bits >> 52 & 0x7FF) == 0x7FF)
            continue;
        len = srt_json_double_text(value, text);
        srt_json_reader_reset(&f->r, text, len);
        assert_int_equal(srt_json_next(&f->r, &f->token), SERIATIM_OK);
        got = f->token.type == SRT_JSON_INT ? (double)f->token.integer : f->token.number;
        assert_true(got == value);
        count = count_digits(text);
        if (count > 1 && strchr(text, '.')) {
            snprintf(shorter, sizeof shorter, "%.*e", count - 2, value);
            assert_true(strtod(shorter, NULL) != value);
        }
    }
}

/* In a locale whose decimal point is a comma, when the machine has one. */
static void test_doubles_are_written_alike_in_any_locale(void **state)
{
    static const char *names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ru_RU.UTF-8", "de_DE", "nl_NL.UTF-8"};
    json_fixture *f = *state;
    size_t i = 0;
    while (i < sizeof names / sizeof *names && !setlocale(LC_NUMERIC, names[i]))
        i++;
    if (i == sizeof names / sizeof *names)
        skip();
    assert_string_equal(localeconv()->decimal_point, ",");
    check_all_doubles();
    assert_canonical(f, "[5.684341886080802e-14,1.7976931348623157e308,0.12345678901234567891]",
                     "[5.684341886080802e-14,1.7976931348623157e+308,0.12345678901234568]");
    setlocale(LC_NUMERIC, "C");
}

static void test_integers_are_written_in_decimal(void **state)
{
    json_fixture *f = *state;
    static const int64_t values[] = {0, 1, -1, 9, 10, 9007199254740993, INT64_MAX, INT64_MIN};
    size_t i;
    srt_json_begin_array(&f->w);
    for (i = 0; i < sizeof values / sizeof *values; i++)
        srt_json_int(&f->w, values[i]);
    srt_json_end_array(&f->w);
    assert_written(f, "[0,1,-1,9,10,9007199254740993,9223372036854775807,-9223372036854775808]");
}

static void refuse_double(json_fixture *f, double value, const char *rule)
{
    json_begin(f);
    srt_json_begin_array(&f->w);
    srt_json_null(&f->w);
    assert_int_equal(srt_json_double(&f->w, value), SERIATIM_INVALID);
    assert_refused(f, rule, "payload[1]");
}

static void test_numbers_that_are_not_finite_are_refused(void **state)
{
    double huge = 1e308, infinity = huge * 10;
    refuse_double(*state, infinity, "infinity");
    refuse_double(*state, -infinity, "infinity");
    refuse_double(*state, infinity - infinity, "NaN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_valid_utf8_is_accepted),
        TEST(test_invalid_utf8_is_refused),
        TEST(test_doubles_are_written_in_shortest_form),
        TEST(test_doubles_come_back_exactly),
        TEST(test_doubles_are_written_alike_in_any_locale),
        TEST(test_integers_are_written_in_decimal),
        TEST(test_numbers_that_are_not_finite_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

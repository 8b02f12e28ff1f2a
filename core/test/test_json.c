/* test_json.c - tests of the canonical JSON writer and reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <locale.h>
#include <cmocka.h>

#include "tokens.h"

/* ---- Helpers ------------------------------------------------------------------------------- */

typedef struct fixture {
    srt_bytes out;
    srt_json_writer w;
    srt_json_reader r;
    srt_json_token token;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    srt_bytes_init(&f->out, seriatim_default_allocator());
    srt_json_writer_init(&f->w, &f->out, "payload");
    srt_json_reader_init(&f->r, seriatim_default_allocator(), "", 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    srt_json_writer_free(&f->w);
    srt_json_reader_free(&f->r);
    srt_bytes_free(&f->out);
    free(f);
    return 0;
}

static void begin(fixture *f)
{
    srt_bytes_clear(&f->out);
    srt_json_writer_reset(&f->w);
}

static int key(srt_json_writer *w, const char *text)
{
    return srt_json_key(w, text, strlen(text));
}

static int string(srt_json_writer *w, const char *text)
{
    return srt_json_string(w, text, strlen(text));
}

static void assert_bytes(const srt_bytes *out, const char *expected)
{
    if (out->len != strlen(expected) || memcmp(out->data, expected, out->len) != 0)
        fail_msg("wrote %.*s, expected %s", (int)out->len, out->len ? out->data : "", expected);
}

static void assert_written(fixture *f, const char *expected)
{
    assert_int_equal(srt_json_finish(&f->w), SERIATIM_OK);
    assert_bytes(&f->out, expected);
}

static void assert_path(fixture *f, const char *expected)
{
    char path[128];
    assert_int_equal(srt_json_writer_path(&f->w, path, sizeof path), strlen(expected));
    assert_string_equal(path, expected);
}

/* The write just done was refused with a message that holds `rule`, and nothing is left of it. */
static void assert_refused(fixture *f, const char *rule, const char *path)
{
    size_t start = f->w.start;
    assert_int_equal(f->w.error.status, SERIATIM_INVALID);
    if (!strstr(f->w.error.message, rule))
        fail_msg("message '%s' does not hold '%s'", f->w.error.message, rule);
    assert_path(f, path);
    assert_int_equal(srt_json_null(&f->w), SERIATIM_INVALID);
    assert_int_equal(srt_json_finish(&f->w), SERIATIM_INVALID);
    assert_int_equal(f->out.len, start);
    assert_path(f, path);
}

static int canonical(fixture *f, const char *text, size_t len)
{
    begin(f);
    srt_json_reader_reset(&f->r, text, len);
    return copy_tokens(&f->r, &f->w);
}

static void assert_canonical(fixture *f, const char *text, const char *expected)
{
    if (canonical(f, text, strlen(text)) != SERIATIM_OK)
        fail_msg("%s: %s %s", text, f->r.error.message, f->w.error.message);
    assert_bytes(&f->out, expected);
}

/* ---- UTF-8 --------------------------------------------------------------------------------- */

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

/* ---- Numbers ------------------------------------------------------------------------------- */

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

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
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
    fixture *f = *state;
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
    fixture *f = *state;
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
    fixture *f = *state;
    static const int64_t values[] = {0, 1, -1, 9, 10, 9007199254740993, INT64_MAX, INT64_MIN};
    size_t i;
    srt_json_begin_array(&f->w);
    for (i = 0; i < sizeof values / sizeof *values; i++)
        srt_json_int(&f->w, values[i]);
    srt_json_end_array(&f->w);
    assert_written(f, "[0,1,-1,9,10,9007199254740993,9223372036854775807,-9223372036854775808]");
}

static void refuse_double(fixture *f, double value, const char *rule)
{
    begin(f);
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

/* ---- Writer -------------------------------------------------------------------------------- */

static void test_null_and_booleans_are_written(void **state)
{
    fixture *f = *state;
    srt_json_bool(&f->w, 1);
    assert_written(f, "true");
    begin(f);
    srt_json_bool(&f->w, 0);
    assert_written(f, "false");
    begin(f);
    srt_json_null(&f->w);
    assert_written(f, "null");
    begin(f);
    srt_json_string(&f->w, NULL, 0);
    assert_written(f, "\"\"");
    begin(f);
    srt_json_double(&f->w, -0.0);
    assert_written(f, "0");
}

static void test_control_characters_are_escaped(void **state)
{
    fixture *f = *state;
    char all[0x23];
    int i;
    for (i = 0; i < 0x23; i++)
        all[i] = (char)i;
    srt_json_begin_array(&f->w);
    srt_json_string(&f->w, all, sizeof all);
    string(&f->w, "\\/\x7F\xE2\x82\xAC\xF0\x9F\x98\x80 plain text of some length\xC2\x80\"");
    string(&f->w, "1234567\n12345678\"");
    srt_json_end_array(&f->w);
    assert_written(f, "[\"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r"
                      "\\u000e\\u000f\\u0010\\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018"
                      "\\u0019\\u001a\\u001b\\u001c\\u001d\\u001e\\u001f !\\\"\","
                      "\"\\\\/\x7F\xE2\x82\xAC\xF0\x9F\x98\x80 plain text of some length\xC2\x80\\\"\","
                      "\"1234567\\n12345678\\\"\"]");
}

/* RFC 8785 section 3.2.3: a surrogate pair sorts before U+FB33, though its code point is greater.
 */
static void test_keys_are_sorted_by_utf16(void **state)
{
    static const char *const keys[] = {"\xE2\x82\xAC",     "\r",       "\xEF\xAC\xB3", "1",
                                       "\xF0\x9F\x98\x80", "\xC2\x80", "\xC3\xB6"};
    fixture *f = *state;
    size_t i;
    srt_json_begin_object(&f->w);
    for (i = 0; i < sizeof keys / sizeof *keys; i++) {
        key(&f->w, keys[i]);
        srt_json_int(&f->w, (int64_t)i);
    }
    srt_json_end_object(&f->w);
    assert_written(f, "{\"\\r\":1,\"1\":3,\"\xC2\x80\":5,\"\xC3\xB6\":6,\"\xE2\x82\xAC\":0,"
                      "\"\xF0\x9F\x98\x80\":4,\"\xEF\xAC\xB3\":2}");
}

/* Every pair of keys in this list stands in the order of UTF-16 code units. */
static void test_pairs_of_keys_are_sorted_by_utf16(void **state)
{
    static const char *const sorted[] = {"",
                                         "\x01",
                                         "\b",
                                         "\t",
                                         "\n",
                                         "\x0B",
                                         "\f",
                                         "\r",
                                         "\x0E",
                                         "\x1F",
                                         " ",
                                         "!",
                                         "\"",
                                         "\"a",
                                         "#",
                                         "A",
                                         "[",
                                         "\\",
                                         "\\a",
                                         "]",
                                         "a",
                                         "a\n",
                                         "a ",
                                         "a\"",
                                         "aa",
                                         "ab",
                                         "u0009",
                                         "\x7F",
                                         "\xC2\x80",
                                         "\xDF\xBF",
                                         "\xE0\xA0\x80",
                                         "\xED\x9F\xBF",
                                         "\xF0\x90\x80\x80",
                                         "\xF0\x9F\x98\x80",
                                         "\xF4\x8F\xBF\xBF",
                                         "\xEE\x80\x80",
                                         "\xEF\xBF\xBF"};
    const size_t count = sizeof sorted / sizeof *sorted;
    fixture *f = *state;
    srt_bytes forward;
    size_t i, j;
    srt_bytes_init(&forward, seriatim_default_allocator());
    for (i = 0; i < count; i++) {
        for (j = i + 1; j < count; j++) {
            begin(f);
            srt_json_begin_object(&f->w);
            key(&f->w, sorted[i]);
            srt_json_null(&f->w);
            key(&f->w, sorted[j]);
            srt_json_null(&f->w);
            assert_false(f->w.levels[1].unsorted);
            srt_json_end_object(&f->w);
            assert_int_equal(srt_json_finish(&f->w), SERIATIM_OK);
            srt_bytes_clear(&forward);
            srt_bytes_add(&forward, f->out.data, f->out.len);
            srt_bytes_addc(&forward, '\0');
            begin(f);
            srt_json_begin_object(&f->w);
            key(&f->w, sorted[j]);
            srt_json_null(&f->w);
            key(&f->w, sorted[i]);
            srt_json_null(&f->w);
            srt_json_end_object(&f->w);
            assert_written(f, forward.data);
        }
    }
    srt_bytes_free(&forward);
}

static void test_keys_of_nested_objects_are_sorted(void **state)
{
    fixture *f = *state;
    assert_canonical(f, "{\"b\":{\"z\":[{\"y\":1,\"x\":{}}],\"a\":[]},\"a\":{\"d\":\"1\",\"c\":2}}",
                     "{\"a\":{\"c\":2,\"d\":\"1\"},\"b\":{\"a\":[],\"z\":[{\"x\":{},\"y\":1}]}}");
}

/* Many members, in an order that needs the heap. */
static void test_an_object_of_many_keys_is_sorted(void **state)
{
    fixture *f = *state;
    uint64_t seed = 42;
    char text[24], last[24] = "";
    int order[1000], i;
    for (i = 0; i < 1000; i++)
        order[i] = i;
    for (i = 999; i > 0; i--) {
        int j = (int)(next_random(&seed) % (uint64_t)(i + 1)), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    srt_json_begin_object(&f->w);
    for (i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "%04d", order[i]);
        key(&f->w, text);
        srt_json_int(&f->w, order[i]);
    }
    srt_json_end_object(&f->w);
    assert_int_equal(srt_json_finish(&f->w), SERIATIM_OK);
    srt_json_reader_reset(&f->r, f->out.data, f->out.len);
    srt_json_next(&f->r, &f->token);
    for (i = 0; i < 1000; i++) {
        assert_int_equal(srt_json_next(&f->r, &f->token), SERIATIM_OK);
        snprintf(text, sizeof text, "%.*s", (int)f->token.len, f->token.text);
        assert_true(strcmp(last, text) < 0);
        strcpy(last, text);
        srt_json_next(&f->r, &f->token);
        assert_int_equal(f->token.integer, i);
    }
}

static void test_duplicate_keys_are_refused(void **state)
{
    fixture *f = *state;
    int i, n;
    char text[16];
    srt_json_begin_object(&f->w);
    key(&f->w, "a");
    srt_json_null(&f->w);
    assert_int_equal(key(&f->w, "a"), SERIATIM_INVALID);
    assert_refused(f, "twice", "payload.a");
    for (n = 3; n < 60; n += 20) { /* found only when sorted */
        begin(f);
        srt_json_begin_object(&f->w);
        for (i = n; i >= 0; i--) {
            snprintf(text, sizeof text, "k%d", i ? i : 2);
            key(&f->w, text);
            assert_int_equal(srt_json_null(&f->w), SERIATIM_OK);
        }
        assert_int_equal(srt_json_end_object(&f->w), SERIATIM_INVALID);
        assert_refused(f, "twice", "payload.k2");
    }
}

static void test_a_writer_refuses_invalid_utf8(void **state)
{
    fixture *f = *state;
    srt_json_begin_array(&f->w);
    assert_int_equal(string(&f->w, "long enough\xFF"), SERIATIM_INVALID);
    assert_refused(f, "string must be valid UTF-8", "payload[0]");
    begin(f);
    srt_json_begin_object(&f->w);
    assert_int_equal(key(&f->w, "\xED\xA0\x80"), SERIATIM_INVALID);
    assert_refused(f, "key must be valid UTF-8", "payload");
}

/* As a binding writes a value of the host's that is its own grandchild: parent, child, parent, ... */
static void test_f11_a_value_that_contains_itself(void **state)
{
    fixture *f = *state;
    const char values[SRT_JSON_DEPTH + 1] = "";
    int i, status = SERIATIM_OK;
    for (i = 0; i <= SRT_JSON_DEPTH; i++) {
        srt_json_made_of(&f->w, &values[i % 2]);
        status = srt_json_begin_array(&f->w);
    }
    assert_int_equal(status, SERIATIM_INVALID);
    assert_non_null(strstr(f->w.error.message, "a value that contains itself cannot be written as JSON"));
    begin(f);
    for (i = 0; i <= SRT_JSON_DEPTH; i++) {
        srt_json_made_of(&f->w, &values[i]);
        status = srt_json_begin_array(&f->w);
    }
    assert_non_null(strstr(f->w.error.message, "arrays and objects may lie 128 deep at most"));
}

static void test_values_nested_too_deeply_are_refused(void **state)
{
    fixture *f = *state;
    int i;
    for (i = 0; i < SRT_JSON_DEPTH; i++)
        assert_int_equal(srt_json_begin_array(&f->w), SERIATIM_OK);
    for (i = 0; i < SRT_JSON_DEPTH; i++)
        assert_int_equal(srt_json_end_array(&f->w), SERIATIM_OK);
    assert_int_equal(srt_json_finish(&f->w), SERIATIM_OK);
    begin(f);
    for (i = 0; i < SRT_JSON_DEPTH; i++)
        i % 2 ? (srt_json_begin_object(&f->w), key(&f->w, "a")) : srt_json_begin_array(&f->w);
    assert_int_equal(srt_json_finish(&f->w), SERIATIM_INVALID);
    begin(f);
    for (i = 0; i < SRT_JSON_DEPTH; i++)
        srt_json_begin_array(&f->w);
    assert_int_equal(srt_json_begin_object(&f->w), SERIATIM_INVALID);
    assert_non_null(strstr(f->w.error.message, "128 deep"));
    assert_int_equal(srt_json_finish(&f->w), SERIATIM_INVALID);
}

/* Calls in an order that makes no JSON; each row is the calls, then what is refused and where. */
static void test_calls_in_the_wrong_order_are_refused(void **state)
{
    static const struct {
        const char *calls, *rule, *path;
    } rows[] = {
        {"", "no value", "payload"},
        {"nn", "only one value", "payload"},
        {"[]n", "only one value", "payload"},
        {"[", "not ended", "payload[0]"},
        {"{", "not ended", "payload"},
        {"]", "no array", "payload"},
        {"}", "no object", "payload"},
        {"[}", "no object", "payload[0]"},
        {"{]", "no array", "payload"},
        {"{n", "needs a key", "payload"},
        {"{[", "needs a key", "payload"},
        {"{kk", "a key may stand only", "payload.k"},
        {"{k}", "has no value", "payload.k"},
        {"k", "a key may stand only", "payload"},
        {"[k", "a key may stand only", "payload[0]"},
    };
    fixture *f = *state;
    size_t i;
    const char *c;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin(f);
        for (c = rows[i].calls; *c; c++) {
            if (*c == '[')
                srt_json_begin_array(&f->w);
            else if (*c == ']')
                srt_json_end_array(&f->w);
            else if (*c == '{')
                srt_json_begin_object(&f->w);
            else if (*c == '}')
                srt_json_end_object(&f->w);
            else if (*c == 'k')
                key(&f->w, "k");
            else
                srt_json_null(&f->w);
        }
        srt_json_finish(&f->w);
        assert_refused(f, rows[i].rule, rows[i].path);
    }
}

/* A failure leaves what stood in out before. */
static void test_a_writer_appends_to_its_buffer(void **state)
{
    fixture *f = *state;
    srt_bytes_adds(&f->out, "before ");
    srt_json_writer_reset(&f->w);
    srt_json_int(&f->w, 1);
    assert_written(f, "before 1");
    srt_json_writer_reset(&f->w);
    srt_json_begin_array(&f->w);
    srt_json_finish(&f->w);
    assert_bytes(&f->out, "before 1");
}

static void test_an_error_names_its_path(void **state)
{
    fixture *f = *state;
    char path[16];
    int i;
    srt_json_begin_object(&f->w);
    key(&f->w, "id");
    srt_json_int(&f->w, 1);
    assert_path(f, "payload");
    key(&f->w, "items");
    srt_json_begin_array(&f->w);
    for (i = 0; i < 3; i++)
        srt_json_null(&f->w);
    assert_path(f, "payload.items[3]");
    srt_json_begin_object(&f->w);
    key(&f->w, "at");
    assert_path(f, "payload.items[3].at");
    assert_int_equal(srt_json_writer_path(&f->w, path, sizeof path), 15);
    assert_string_equal(path, "payload.items[3");
    assert_int_equal(srt_json_writer_path(&f->w, path, 1), 0);
    assert_int_equal(srt_json_writer_path(&f->w, path, 0), 0);
    srt_json_begin_object(&f->w);
    key(&f->w, "two \"words\"\n");
    srt_json_begin_object(&f->w);
    key(&f->w, "9\xE2\x82\xAC");
    assert_path(f, "payload.items[3].at[\"two \\\"words\\\"\\n\"][\"9\xE2\x82\xAC\"]");
    begin(f);
    srt_json_begin_object(&f->w);
    key(&f->w, "\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC");
    assert_int_equal(srt_json_writer_path(&f->w, path, 15), 12); /* cut between characters */
    assert_string_equal(path, "payload[\"\xE2\x82\xAC");
}

/* ---- Reader -------------------------------------------------------------------------------- */

static void test_the_reader_gives_these_tokens(void **state)
{
    static const char text[] = " { \"a\" : [ 1 , -2.5 , true,false,null ] ,\"b\\n\":\"c\\u0000\" }\r\n\t";
    static const srt_json_type types[] = {
        SRT_JSON_BEGIN_OBJECT, SRT_JSON_KEY,        SRT_JSON_BEGIN_ARRAY, SRT_JSON_INT,       SRT_JSON_DOUBLE,
        SRT_JSON_TRUE,         SRT_JSON_FALSE,      SRT_JSON_NULL,        SRT_JSON_END_ARRAY, SRT_JSON_KEY,
        SRT_JSON_STRING,       SRT_JSON_END_OBJECT, SRT_JSON_END,         SRT_JSON_END};
    fixture *f = *state;
    size_t i;
    srt_json_reader_reset(&f->r, text, sizeof text - 1);
    for (i = 0; i < sizeof types / sizeof *types; i++) {
        assert_int_equal(srt_json_next(&f->r, &f->token), SERIATIM_OK);
        assert_int_equal(f->token.type, types[i]);
        if (i == 1)
            assert_ptr_equal(f->token.text, text + 4); /* borrowed */
        if (i == 3)
            assert_int_equal(f->token.integer, 1);
        if (i == 4)
            assert_true(f->token.number == -2.5);
        if (i == 9)
            assert_memory_equal(f->token.text, "b\n", f->token.len);
        if (i == 10) {
            assert_int_equal(f->token.len, 2);
            assert_memory_equal(f->token.text, "c\0", 2);
        }
    }
}

static void test_the_reader_keeps_integers_exact(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {{"0", 0},
                {"-0", 0},
                {"-0.0", 0},
                {"0e5", 0},
                {"-0E-5", 0},
                {"1.0", 1},
                {"1e3", 1000},
                {"-5", -5},
                {"1.5e1", 15},
                {"120e-1", 12},
                {"-100000e-5", -1},
                {"0.001e3", 1},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"9223372036854775807.000", INT64_MAX},
                {"922337203685477580.7e1", INT64_MAX},
                {"-9223372036854775808e0", INT64_MIN},
                {"9007199254740993", 9007199254740993},
                {"9007199254740993.0", 9007199254740993},
                {"1000000000000000000", 1000000000000000000},
                {"1e18", 1000000000000000000},
                {"1e-999999999999999999999", 0},
                {"0e999999999999999999999", 0},
                {"1.00000000000000000000001", 1},
                {"1e+0", 1}};
    fixture *f = *state;
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        srt_json_reader_reset(&f->r, rows[i].text, strlen(rows[i].text));
        if (srt_json_next(&f->r, &f->token) != SERIATIM_OK)
            fail_msg("%s: %s", rows[i].text, f->r.error.message);
        if (f->token.type != SRT_JSON_INT || f->token.integer != rows[i].value)
            fail_msg("%s reads as type %d, %lld", rows[i].text, (int)f->token.type, (long long)f->token.integer);
        assert_int_equal(srt_json_next(&f->r, &f->token), SERIATIM_OK);
        assert_int_equal(f->token.type, SRT_JSON_END);
    }
}

static void read_double(fixture *f, const char *text, double value)
{
    srt_json_reader_reset(&f->r, text, strlen(text));
    if (srt_json_next(&f->r, &f->token) != SERIATIM_OK)
        fail_msg("%s: %s", text, f->r.error.message);
    if (f->token.type != SRT_JSON_DOUBLE || f->token.number != value)
        fail_msg("%.60s reads as type %d, %.17g", text, (int)f->token.type, f->token.number);
}

static void test_the_reader_rounds_doubles_correctly(void **state)
{
    fixture *f = *state;
    read_double(f, "9223372036854775808", 9223372036854775808.0);
    read_double(f, "-9223372036854775809", -9223372036854775808.0);
    read_double(f, "1e19", 1e19);
    read_double(f, "18446744073709551616", 18446744073709551616.0);
    read_double(f, "0.1", 0.1);
    read_double(f, "-1.5E-300", -1.5e-300);
    read_double(f, "1.7976931348623157e308", 1.7976931348623157e308);
    read_double(f, "1.7976931348623158079e308", 1.7976931348623157e308);
    read_double(f, "4.9e-324", 5e-324);
    read_double(f, "2.4703282292062328e-324", 5e-324); /* just over a half of the least */
    read_double(f, "-0.30000000000000004", -0.30000000000000004);
}

/* Half way between 1 and the next double, then one unit 800 digits further on. */
static void test_the_reader_rounds_numbers_of_many_digits(void **state)
{
    static const char half[] = "1.00000000000000011102230246251565404236316680908203125";
    fixture *f = *state;
    char text[1200];
    size_t len = sizeof half - 1;
    srt_json_reader_reset(&f->r, half, len);
    assert_int_equal(srt_json_next(&f->r, &f->token), SERIATIM_OK);
    assert_int_equal(f->token.type, SRT_JSON_INT); /* to even: 1 */
    memset(text, '0', sizeof text);
    memcpy(text, half, len);
    text[sizeof text - 2] = '1';
    text[sizeof text - 1] = '\0';
    read_double(f, text, 1.0000000000000002);
    memset(text, '0', sizeof text);
    text[0] = '1';
    strcpy(text + sizeof text - 7, "e-1191");
    assert_canonical(f, text, "10");
}

static void test_the_reader_decodes_strings(void **state)
{
    fixture *f = *state;
    assert_canonical(f, "\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00\\/\\b\\f\\n\\r\\t\\\"\\\\\"",
                     "\"A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80/\\b\\f\\n\\r\\t\\\"\\\\\"");
    assert_canonical(f, "\"\\u001F\\u007f\\uFFFF\\udbff\\udfff\"", "\"\\u001f\x7F\xEF\xBF\xBF\xF4\x8F\xBF\xBF\"");
    assert_canonical(f, "[\"\",\"12345678\\n12345678\",{\"\":\"\"}]", "[\"\",\"12345678\\n12345678\",{\"\":\"\"}]");
}

static void test_the_reader_refuses_invalid_json(void **state)
{
    static const struct {
        const char *text;
        int at;
        const char *rule;
    } rows[] = {{"", 0, "value"},
                {"  ", 2, "value"},
                {"x", 0, "value"},
                {"tru", 0, "value"},
                {"trux", 0, "value"},
                {"True", 0, "value"},
                {"nul", 0, "value"},
                {"NaN", 0, "value"},
                {"Infinity", 0, "value"},
                {"'a'", 0, "value"},
                {"\xEF\xBB\xBF"
                 "1",
                 0, "value"},
                {"truefalse", 4, "nothing"},
                {"1 2", 2, "nothing"},
                {"[]]", 2, "nothing"},
                {"{},", 2, "nothing"},
                {"-", 1, "digits"},
                {"+1", 0, "value"},
                {".5", 0, "value"},
                {"-x", 1, "digits"},
                {"01", 0, "zero"},
                {"-00", 1, "zero"},
                {"1.", 2, "fraction"},
                {"1.e5", 2, "fraction"},
                {"1e", 2, "exponent"},
                {"1e+", 3, "exponent"},
                {"1E-x", 3, "exponent"},
                {"0x10", 1, "nothing"},
                {"1e400", 0, "too great"},
                {"-1e999999999999999999999999", 0, "too great"},
                {"[", 1, "value"},
                {"[1", 2, "comma or ]"},
                {"[1,", 3, "value"},
                {"[1,]", 3, "value"},
                {"[,1]", 1, "value"},
                {"[1 2]", 3, "comma or ]"},
                {"[1}", 2, "comma or ]"},
                {"[1:2]", 2, "comma"},
                {"{", 1, "key"},
                {"{\"a\"", 4, "colon"},
                {"{\"a\" 1}", 5, "colon"},
                {"{\"a\":", 5, "value"},
                {"{\"a\":}", 5, "value"},
                {"{\"a\":1", 6, "comma or }"},
                {"{\"a\":1,", 7, "key"},
                {"{\"a\":1,}", 7, "key"},
                {"{\"a\":1]", 6, "comma or }"},
                {"{1:1}", 1, "key"},
                {"{,}", 1, "key"},
                {"{a:1}", 1, "key"},
                {"]", 0, "value"},
                {"}", 0, "value"},
                {"[1]//", 3, "nothing"},
                {"\"", 1, "not closed"},
                {"\"abc", 4, "not closed"},
                {"\"\\", 1, "escape"},
                {"\"\\\"", 3, "not closed"},
                {"\"\\x41\"", 1, "escape"},
                {"\"\\U0041\"", 1, "escape"},
                {"\"\\u004\"", 1, "four hex"},
                {"\"\\u00g0\"", 1, "four hex"},
                {"\"a\n\"", 2, "control"},
                {"\"\t\"", 1, "control"},
                {"\"\\n\x1F\"", 3, "control"},
                {"\"\\ud800\"", 1, "low one behind"},
                {"\"a\\udc00\"", 2, "high one before"},
                {"\"\\ud800\\u0041\"", 1, "low one behind"},
                {"\"\\ud800\\ud800\"", 1, "low one behind"},
                {"\"\\ud800\\n\"", 1, "low one behind"},
                {"\"\\ud800\\ue000\"", 1, "low one behind"},
                {"\"\\ud800\\u\"", 1, "low one behind"},
                {"\"\xFF\"", 1, "UTF-8"},
                {"\"abc\xED\xA0\x80\"", 4, "UTF-8"},
                {"\"\\n\xC3\"", 3, "UTF-8"},
                {"{\"\xC0\x80\":1}", 2, "UTF-8"},
                {"\xC2\xA0"
                 "1",
                 0, "value"},
                {"\f1", 0, "value"}};
    fixture *f = *state;
    char place[32];
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (canonical(f, rows[i].text, strlen(rows[i].text)) != SERIATIM_INVALID)
            fail_msg("%s was not refused", rows[i].text);
        snprintf(place, sizeof place, "at byte %d: ", rows[i].at);
        if (strncmp(f->r.error.message, place, strlen(place)) || !strstr(f->r.error.message, rows[i].rule))
            fail_msg("%s: %s", rows[i].text, f->r.error.message);
        assert_int_equal(srt_json_next(&f->r, &f->token), SERIATIM_INVALID); /* it stays */
    }
    assert_int_equal(canonical(f, "1\0", 2), SERIATIM_INVALID);
    assert_int_equal(canonical(f, "\"a\0\"", 4), SERIATIM_INVALID);
    assert_int_equal(canonical(f, "[\0]", 3), SERIATIM_INVALID);
}

static void test_the_reader_refuses_deep_nesting(void **state)
{
    fixture *f = *state;
    char text[2 * (SRT_JSON_DEPTH + 1)];
    memset(text, '[', SRT_JSON_DEPTH);
    memset(text + SRT_JSON_DEPTH, ']', SRT_JSON_DEPTH);
    assert_int_equal(canonical(f, text, 2 * SRT_JSON_DEPTH), SERIATIM_OK);
    memset(text, '[', SRT_JSON_DEPTH + 1);
    memset(text + SRT_JSON_DEPTH + 1, ']', SRT_JSON_DEPTH + 1);
    assert_int_equal(canonical(f, text, sizeof text), SERIATIM_INVALID);
    assert_string_equal(f->r.error.message, "at byte 128: arrays and objects lie too deep");
}

/* ---- Both ---------------------------------------------------------------------------------- */

static void write_random_text(srt_json_writer *w, uint64_t *seed, int as_key, int nth)
{
    static const char *const pieces[] = {"a",
                                         "B",
                                         "\xC3\xA9",
                                         "\n",
                                         "\"",
                                         "\\",
                                         "\xE2\x82\xAC",
                                         "\x01",
                                         "\xF0\x9F\x98\x80",
                                         "\xEF\xBF\xBD",
                                         " ",
                                         "plain and longer"};
    char text[200];
    size_t len = 0;
    uint64_t n = next_random(seed) % 6;
    while (n-- > 0) {
        const char *piece = pieces[next_random(seed) % (sizeof pieces / sizeof *pieces)];
        memcpy(text + len, piece, strlen(piece));
        len += strlen(piece);
    }
    if (as_key) { /* made unique at its end */
        len += (size_t)snprintf(text + len, sizeof text - len, "#%d", nth);
        srt_json_key(w, text, len);
    } else {
        srt_json_string(w, text, len);
    }
}

static void write_random_tree(srt_json_writer *w, uint64_t *seed, int depth)
{
    uint64_t kind = next_random(seed) % (depth ? 8 : 6), bits = next_random(seed);
    double value;
    int i, n = (int)(next_random(seed) % 8);
    memcpy(&value, &bits, sizeof value);
    if (kind == 0) {
        srt_json_int(w, (int64_t)bits >> bits % 64);
    } else if (kind == 1) {
        srt_json_double(w, (bits >> 52 & 0x7FF) == 0x7FF ? 0.5 : value);
    } else if (kind == 2) {
        srt_json_bool(w, (int)(bits & 1));
    } else if (kind == 3) {
        srt_json_null(w);
    } else if (kind < 6) {
        write_random_text(w, seed, 0, 0);
    } else if (kind == 6) {
        srt_json_begin_array(w);
        for (i = 0; i < n; i++)
            write_random_tree(w, seed, depth - 1);
        srt_json_end_array(w);
    } else {
        srt_json_begin_object(w);
        for (i = 0; i < n; i++) {
            write_random_text(w, seed, 1, i);
            write_random_tree(w, seed, depth - 1);
        }
        srt_json_end_object(w);
    }
}

static void test_random_trees_come_back_the_same(void **state)
{
    fixture *f = *state;
    srt_bytes first;
    uint64_t seed = 1234567;
    int i;
    srt_bytes_init(&first, seriatim_default_allocator());
    for (i = 0; i < 5000; i++) {
        begin(f);
        write_random_tree(&f->w, &seed, 5);
        if (srt_json_finish(&f->w) != SERIATIM_OK)
            fail_msg("%s", f->w.error.message);
        srt_bytes_clear(&first);
        srt_bytes_add(&first, f->out.data, f->out.len);
        assert_int_equal(canonical(f, first.data, first.len), SERIATIM_OK);
        assert_int_equal(f->out.len, first.len);
        assert_memory_equal(f->out.data, first.data, first.len);
    }
    srt_bytes_free(&first);
}

static const char sample[] = "{\"z\":[1,-2.5e-3,\"\\u00e9\\ud83d\\ude00 \xE2\x82\xAC\\n\",true,false,null,"
                             "12345678901234567890123],\"a\":{\"k\\\"\":{},\"b\":[[]],\"\":1e5}}";

/* On an exact heap copy, so that a byte too far is seen. */
static int canonical_copy(fixture *f, const char *text, size_t len)
{
    char *copy = malloc(len ? len : 1);
    int status;
    memcpy(copy, text, len);
    status = canonical(f, copy, len);
    free(copy);
    return status;
}

static void test_every_truncation_is_refused(void **state)
{
    fixture *f = *state;
    size_t len;
    for (len = 0; len < sizeof sample - 1; len++)
        assert_int_equal(canonical_copy(f, sample, len), SERIATIM_INVALID);
    assert_int_equal(canonical_copy(f, sample, len), SERIATIM_OK);
}

/* Whatever is still read must be written as bytes that read as themselves. */
static void test_every_corruption_is_refused_or_read(void **state)
{
    fixture *f = *state;
    char text[sizeof sample];
    srt_bytes first;
    size_t at;
    int byte;
    srt_bytes_init(&first, seriatim_default_allocator());
    for (at = 0; at < sizeof sample - 1; at++) {
        for (byte = 0; byte < 256; byte++) {
            memcpy(text, sample, sizeof text);
            text[at] = (char)byte;
            if (canonical_copy(f, text, sizeof text - 1) != SERIATIM_OK)
                continue;
            srt_bytes_clear(&first);
            srt_bytes_add(&first, f->out.data, f->out.len);
            assert_int_equal(canonical_copy(f, first.data, first.len), SERIATIM_OK);
            assert_int_equal(f->out.len, first.len);
            assert_memory_equal(f->out.data, first.data, first.len);
        }
    }
    srt_bytes_free(&first);
}

/* An allocator whose n-th call to get memory fails, and all after it. */
typedef struct meager {
    long left;
    long held; /* bytes; 0 at the end */
} meager;

static void *meager_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    meager *m = user;
    if (new_size && m->left-- <= 0)
        return NULL;
    m->held += (long)new_size - (long)(ptr ? old_size : 0);
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

static void test_every_allocation_may_fail(void **state)
{
    meager m = {0, 0};
    seriatim_allocator mem;
    static srt_json_writer w;
    srt_json_reader r;
    srt_bytes out;
    char path[64];
    int status = SERIATIM_NOMEM;
    long n;
    (void)state;
    mem.alloc = meager_alloc;
    mem.user = &m;
    for (n = 0; status != SERIATIM_OK; n++) {
        assert_true(n < 100);
        m.left = n;
        srt_bytes_init(&out, &mem);
        srt_json_writer_init(&w, &out, "payload");
        srt_json_reader_init(&r, &mem, sample, sizeof sample - 1);
        status = copy_tokens(&r, &w);
        if (status != SERIATIM_OK) {
            assert_int_equal(status, SERIATIM_NOMEM);
            srt_json_writer_path(&w, path, sizeof path);
            srt_json_finish(&w);
        }
        srt_json_reader_free(&r);
        srt_json_writer_free(&w);
        srt_bytes_free(&out);
        assert_int_equal(m.held, 0);
    }
    assert_true(n > 5);
}

/* With keys in order a writer takes no memory beyond out and its list of members. */
static void test_sorted_keys_are_cheap(void **state)
{
    meager m = {0, 0};
    seriatim_allocator mem;
    fixture *f = *state;
    static srt_json_writer w;
    srt_bytes out;
    int i;
    mem.alloc = meager_alloc;
    mem.user = &m;
    srt_bytes_init(&out, &mem);
    m.left = 2;
    assert_non_null(srt_bytes_reserve(&out, 100));
    srt_json_writer_init(&w, &out, "");
    for (i = 0; i < 3; i++) {
        srt_bytes_clear(&out);
        srt_json_writer_reset(&w);
        srt_json_reader_reset(&f->r, "{\"amount\":12,\"status\":\"paid\"}", 29);
        assert_int_equal(copy_tokens(&f->r, &w), SERIATIM_OK);
    }
    srt_json_writer_free(&w);
    srt_bytes_free(&out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

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
        TEST(test_null_and_booleans_are_written),
        TEST(test_control_characters_are_escaped),
        TEST(test_keys_are_sorted_by_utf16),
        TEST(test_pairs_of_keys_are_sorted_by_utf16),
        TEST(test_keys_of_nested_objects_are_sorted),
        TEST(test_an_object_of_many_keys_is_sorted),
        TEST(test_duplicate_keys_are_refused),
        TEST(test_a_writer_refuses_invalid_utf8),
        TEST(test_f11_a_value_that_contains_itself),
        TEST(test_values_nested_too_deeply_are_refused),
        TEST(test_calls_in_the_wrong_order_are_refused),
        TEST(test_a_writer_appends_to_its_buffer),
        TEST(test_an_error_names_its_path),
        TEST(test_the_reader_gives_these_tokens),
        TEST(test_the_reader_keeps_integers_exact),
        TEST(test_the_reader_rounds_doubles_correctly),
        TEST(test_the_reader_rounds_numbers_of_many_digits),
        TEST(test_the_reader_decodes_strings),
        TEST(test_the_reader_refuses_invalid_json),
        TEST(test_the_reader_refuses_deep_nesting),
        TEST(test_random_trees_come_back_the_same),
        TEST(test_every_truncation_is_refused),
        TEST(test_every_corruption_is_refused_or_read),
        TEST(test_every_allocation_may_fail),
        TEST(test_sorted_keys_are_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

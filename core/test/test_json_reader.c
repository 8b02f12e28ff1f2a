/* test_json_reader.c - tests of canonical JSON: the reader. */
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

static void test_the_reader_gives_these_tokens(void **state)
{
    static const char text[] = " { \"a\" : [ 1 , -2.5 , true,false,null ] ,\"b\\n\":\"c\\u0000\" }\r\n\t";
    static const srt_json_type types[] = {
        SRT_JSON_BEGIN_OBJECT, SRT_JSON_KEY,        SRT_JSON_BEGIN_ARRAY, SRT_JSON_INT,       SRT_JSON_DOUBLE,
        SRT_JSON_TRUE,         SRT_JSON_FALSE,      SRT_JSON_NULL,        SRT_JSON_END_ARRAY, SRT_JSON_KEY,
        SRT_JSON_STRING,       SRT_JSON_END_OBJECT, SRT_JSON_END,         SRT_JSON_END};
    json_fixture *f = *state;
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
    json_fixture *f = *state;
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

static void read_double(json_fixture *f, const char *text, double value)
{
    srt_json_reader_reset(&f->r, text, strlen(text));
    if (srt_json_next(&f->r, &f->token) != SERIATIM_OK)
        fail_msg("%s: %s", text, f->r.error.message);
    if (f->token.type != SRT_JSON_DOUBLE || f->token.number != value)
        fail_msg("%.60s reads as type %d, %.17g", text, (int)f->token.type, f->token.number);
}

static void test_the_reader_rounds_doubles_correctly(void **state)
{
    json_fixture *f = *state;
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
    json_fixture *f = *state;
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
    json_fixture *f = *state;
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
    json_fixture *f = *state;
    char place[32];
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (json_canonical(f, rows[i].text, strlen(rows[i].text)) != SERIATIM_INVALID)
            fail_msg("%s was not refused", rows[i].text);
        snprintf(place, sizeof place, "at byte %d: ", rows[i].at);
        if (strncmp(f->r.error.message, place, strlen(place)) || !strstr(f->r.error.message, rows[i].rule))
            fail_msg("%s: %s", rows[i].text, f->r.error.message);
        assert_int_equal(srt_json_next(&f->r, &f->token), SERIATIM_INVALID); /* it stays */
    }
    assert_int_equal(json_canonical(f, "1\0", 2), SERIATIM_INVALID);
    assert_int_equal(json_canonical(f, "\"a\0\"", 4), SERIATIM_INVALID);
    assert_int_equal(json_canonical(f, "[\0]", 3), SERIATIM_INVALID);
}

static void test_the_reader_refuses_deep_nesting(void **state)
{
    json_fixture *f = *state;
    char text[2 * (SRT_JSON_DEPTH + 1)];
    memset(text, '[', SRT_JSON_DEPTH);
    memset(text + SRT_JSON_DEPTH, ']', SRT_JSON_DEPTH);
    assert_int_equal(json_canonical(f, text, 2 * SRT_JSON_DEPTH), SERIATIM_OK);
    memset(text, '[', SRT_JSON_DEPTH + 1);
    memset(text + SRT_JSON_DEPTH + 1, ']', SRT_JSON_DEPTH + 1);
    assert_int_equal(json_canonical(f, text, sizeof text), SERIATIM_INVALID);
    assert_string_equal(f->r.error.message, "at byte 128: arrays and objects lie too deep");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_reader_gives_these_tokens),       TEST(test_the_reader_keeps_integers_exact),
        TEST(test_the_reader_rounds_doubles_correctly), TEST(test_the_reader_rounds_numbers_of_many_digits),
        TEST(test_the_reader_decodes_strings),          TEST(test_the_reader_refuses_invalid_json),
        TEST(test_the_reader_refuses_deep_nesting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_json_writer.c - tests of canonical JSON: the writer. */
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

static int json_key(srt_json_writer *w, const char *text)
{
    return srt_json_key(w, text, strlen(text));
}

static int json_string(srt_json_writer *w, const char *text)
{
    return srt_json_string(w, text, strlen(text));
}

static void test_null_and_booleans_are_written(void **state)
{
    json_fixture *f = *state;
    srt_json_bool(&f->w, 1);
    assert_written(f, "true");
    json_begin(f);
    srt_json_bool(&f->w, 0);
    assert_written(f, "false");
    json_begin(f);
    srt_json_null(&f->w);
    assert_written(f, "null");
    json_begin(f);
    srt_json_string(&f->w, NULL, 0);
    assert_written(f, "\"\"");
    json_begin(f);
    srt_json_double(&f->w, -0.0);
    assert_written(f, "0");
}

static void test_control_characters_are_escaped(void **state)
{
    json_fixture *f = *state;
    char all[0x23];
    int i;
    for (i = 0; i < 0x23; i++)
        all[i] = (char)i;
    srt_json_begin_array(&f->w);
    srt_json_string(&f->w, all, sizeof all);
    json_string(&f->w, "\\/\x7F\xE2\x82\xAC\xF0\x9F\x98\x80 plain text of some length\xC2\x80\"");
    json_string(&f->w, "1234567\n12345678\"");
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
    json_fixture *f = *state;
    size_t i;
    srt_json_begin_object(&f->w);
    for (i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_key(&f->w, keys[i]);
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
    json_fixture *f = *state;
    srt_bytes forward;
    size_t i, j;
    srt_bytes_init(&forward, seriatim_default_allocator());
    for (i = 0; i < count; i++) {
        for (j = i + 1; j < count; j++) {
            json_begin(f);
            srt_json_begin_object(&f->w);
            json_key(&f->w, sorted[i]);
            srt_json_null(&f->w);
            json_key(&f->w, sorted[j]);
            srt_json_null(&f->w);
            assert_false(f->w.levels[1].unsorted);
            srt_json_end_object(&f->w);
            assert_int_equal(srt_json_finish(&f->w), SERIATIM_OK);
            srt_bytes_clear(&forward);
            srt_bytes_add(&forward, f->out.data, f->out.len);
            srt_bytes_addc(&forward, '\0');
            json_begin(f);
            srt_json_begin_object(&f->w);
            json_key(&f->w, sorted[j]);
            srt_json_null(&f->w);
            json_key(&f->w, sorted[i]);
            srt_json_null(&f->w);
            srt_json_end_object(&f->w);
            assert_written(f, forward.data);
        }
    }
    srt_bytes_free(&forward);
}

static void test_keys_of_nested_objects_are_sorted(void **state)
{
    json_fixture *f = *state;
    assert_canonical(f, "{\"b\":{\"z\":[{\"y\":1,\"x\":{}}],\"a\":[]},\"a\":{\"d\":\"1\",\"c\":2}}",
                     "{\"a\":{\"c\":2,\"d\":\"1\"},\"b\":{\"a\":[],\"z\":[{\"x\":{},\"y\":1}]}}");
}

/* Many members, in an order that needs the heap. */
static void test_an_object_of_many_keys_is_sorted(void **state)
{
    json_fixture *f = *state;
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
        json_key(&f->w, text);
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
    json_fixture *f = *state;
    int i, n;
    char text[16];
    srt_json_begin_object(&f->w);
    json_key(&f->w, "a");
    srt_json_null(&f->w);
    assert_int_equal(json_key(&f->w, "a"), SERIATIM_INVALID);
    assert_refused(f, "twice", "payload.a");
    for (n = 3; n < 60; n += 20) { /* found only when sorted */
        json_begin(f);
        srt_json_begin_object(&f->w);
        for (i = n; i >= 0; i--) {
            snprintf(text, sizeof text, "k%d", i ? i : 2);
            json_key(&f->w, text);
            assert_int_equal(srt_json_null(&f->w), SERIATIM_OK);
        }
        assert_int_equal(srt_json_end_object(&f->w), SERIATIM_INVALID);
        assert_refused(f, "twice", "payload.k2");
    }
}

static void test_a_writer_refuses_invalid_utf8(void **state)
{
    json_fixture *f = *state;
    srt_json_begin_array(&f->w);
    assert_int_equal(json_string(&f->w, "long enough\xFF"), SERIATIM_INVALID);
    assert_refused(f, "string must be valid UTF-8", "payload[0]");
    json_begin(f);
    srt_json_begin_object(&f->w);
    assert_int_equal(json_key(&f->w, "\xED\xA0\x80"), SERIATIM_INVALID);
    assert_refused(f, "key must be valid UTF-8", "payload");
}

/* As a binding writes a value of the host's that is its own grandchild: parent, child, parent, ... */
static void test_f11_a_value_that_contains_itself(void **state)
{
    json_fixture *f = *state;
    const char values[SRT_JSON_DEPTH + 1] = "";
    int i, status = SERIATIM_OK;
    for (i = 0; i <= SRT_JSON_DEPTH; i++) {
        srt_json_made_of(&f->w, &values[i % 2]);
        status = srt_json_begin_array(&f->w);
    }
    assert_int_equal(status, SERIATIM_INVALID);
    assert_non_null(strstr(f->w.error.message, "a value that contains itself cannot be written as JSON"));
    json_begin(f);
    for (i = 0; i <= SRT_JSON_DEPTH; i++) {
        srt_json_made_of(&f->w, &values[i]);
        status = srt_json_begin_array(&f->w);
    }
    assert_non_null(strstr(f->w.error.message, "arrays and objects may lie 128 deep at most"));
}

static void test_values_nested_too_deeply_are_refused(void **state)
{
    json_fixture *f = *state;
    int i;
    for (i = 0; i < SRT_JSON_DEPTH; i++)
        assert_int_equal(srt_json_begin_array(&f->w), SERIATIM_OK);
    for (i = 0; i < SRT_JSON_DEPTH; i++)
        assert_int_equal(srt_json_end_array(&f->w), SERIATIM_OK);
    assert_int_equal(srt_json_finish(&f->w), SERIATIM_OK);
    json_begin(f);
    for (i = 0; i < SRT_JSON_DEPTH; i++)
        i % 2 ? (srt_json_begin_object(&f->w), json_key(&f->w, "a")) : srt_json_begin_array(&f->w);
    assert_int_equal(srt_json_finish(&f->w), SERIATIM_INVALID);
    json_begin(f);
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
    json_fixture *f = *state;
    size_t i;
    const char *c;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_begin(f);
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
                json_key(&f->w, "k");
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
    json_fixture *f = *state;
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
    json_fixture *f = *state;
    char path[16];
    int i;
    srt_json_begin_object(&f->w);
    json_key(&f->w, "id");
    srt_json_int(&f->w, 1);
    assert_path(f, "payload");
    json_key(&f->w, "items");
    srt_json_begin_array(&f->w);
    for (i = 0; i < 3; i++)
        srt_json_null(&f->w);
    assert_path(f, "payload.items[3]");
    srt_json_begin_object(&f->w);
    json_key(&f->w, "at");
    assert_path(f, "payload.items[3].at");
    assert_int_equal(srt_json_writer_path(&f->w, path, sizeof path), 15);
    assert_string_equal(path, "payload.items[3");
    assert_int_equal(srt_json_writer_path(&f->w, path, 1), 0);
    assert_int_equal(srt_json_writer_path(&f->w, path, 0), 0);
    srt_json_begin_object(&f->w);
    json_key(&f->w, "two \"words\"\n");
    srt_json_begin_object(&f->w);
    json_key(&f->w, "9\xE2\x82\xAC");
    assert_path(f, "payload.items[3].at[\"two \\\"words\\\"\\n\"][\"9\xE2\x82\xAC\"]");
    json_begin(f);
    srt_json_begin_object(&f->w);
    json_key(&f->w, "\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC");
    assert_int_equal(srt_json_writer_path(&f->w, path, 15), 12); /* cut between characters */
    assert_string_equal(path, "payload[\"\xE2\x82\xAC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

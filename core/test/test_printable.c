/* test_printable.c - what a terminal may be shown of a foreign text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/printable.h"

static void shows(const char *text, size_t len, const char *wanted)
{
    char out[256];
    size_t need = seriatim_printable(text, len, NULL, 0);
    assert_int_equal(need, strlen(wanted));
    assert_int_equal(seriatim_printable(text, len, out, need), need);
    assert_memory_equal(out, wanted, need);
}

#define SHOWS(text, wanted) shows(text, sizeof(text) - 1, wanted)

static void test_printable_text_is_shown_unchanged(void **state)
{
    static const char plain[] = "a \"b\" \\ ~ \xc2\xa0\xc3\xa4\xe2\x82\xac\xef\xbf\xbd\xf0\x9f\x98\x80";
    (void)state;
    SHOWS("", "");
    SHOWS(plain, plain);
    SHOWS("{\"a\":\"\\u001b\"}", "{\"a\":\"\\u001b\"}");
}

static void test_control_and_invalid_bytes_are_escaped(void **state)
{
    (void)state;
    SHOWS("\x1b]0;pwn\a\x1b[31mERR", "\\u001b]0;pwn\\u0007\\u001b[31mERR");
    SHOWS("a\nb\r\tc\0d\x7f", "a\\u000ab\\u000d\\u0009c\\u0000d\\u007f");
    SHOWS("\xc2\x80\xc2\x9b\xc2\x9f", "\\u0080\\u009b\\u009f");
    SHOWS("\xe2\x80\xae\xe2\x81\xa6\xd8\x9c\xef\xbb\xbf\xe2\x80\xa8\xe2\x80\x8b",
          "\\u202e\\u2066\\u061c\\ufeff\\u2028\\u200b");
    SHOWS("\x9b\xff\xc3(\xe2\x82", "\\x9b\\xff\\xc3(\\xe2\\x82");
}

static void starts(const char *text, size_t cap, const char *wanted)
{
    char out[32];
    memset(out, '#', sizeof out);
    srt_printable_start(text, strlen(text), out, cap);
    assert_string_equal(out, wanted);
    assert_int_equal(out[cap], '#');
}

static void test_a_text_that_is_too_long_is_cut_between_characters(void **state)
{
    (void)state;
    starts("", 4, "");
    starts("abc", 4, "abc");
    starts("abcd", 4, "...");
    starts("abcdefgh", 9, "abcdefgh");
    starts("abcdefgh", 8, "abcd...");
    starts("abc\xc3\xa4"
           "fgh",
           8, "abc...");
    starts("a\x1b"
           "bcdefgh",
           11, "a\\u001b...");
    starts("a\x1b"
           "bcdefgh",
           10, "a...");
    starts("a\xc3", 6, "a\\xc3");
    starts("a\xc3", 5, "a...");
}

/* Every control character there is, alone and among others. */
static void test_every_control_character_is_escaped(void **state)
{
    unsigned code;
    (void)state;
    for (code = 0; code < 0xA0; code++) {
        char text[4] = {'<', 0, 0, 0}, out[16];
        size_t len = 1, need, i;
        if (code >= 0x80)
            text[len++] = (char)0xC2;
        text[len++] = (char)code;
        text[len++] = '>';
        need = seriatim_printable(text, len, out, sizeof out);
        assert_true(need <= sizeof out);
        for (i = 0; i < need; i++)
            assert_true((out[i] >= ' ' && out[i] < 0x7F));
        assert_int_equal(need == len, code >= 0x20 && code < 0x7F);
    }
}

static void test_text_is_cut_at_the_end_of_the_buffer(void **state)
{
    char out[4] = "....";
    (void)state;
    assert_int_equal(seriatim_printable("ab\x1b", 3, out, 3), 8);
    assert_int_equal(out[3], '.');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printable_text_is_shown_unchanged),
        cmocka_unit_test(test_control_and_invalid_bytes_are_escaped),
        cmocka_unit_test(test_every_control_character_is_escaped),
        cmocka_unit_test(test_text_is_cut_at_the_end_of_the_buffer),
        cmocka_unit_test(test_a_text_that_is_too_long_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

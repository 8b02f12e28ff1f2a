/* test_record.c - every form of a record, cut and corrupted at every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/record.h"

#define STAMP "\0\0\0\0\0\0\xf0\x3f" /* 1.0 */
#define TWO "\0\0\0\0\0\0\0\x40"     /* 2.0 */
#define ENTRY(stamp, score)                                                                                            \
    stamp score "\x2\0\0\0{}"                                                                                          \
                "\x3\0\0\0"                                                                                            \
                "abc"
#define HEADER(kind, count)                                                                                            \
    kind TWO "\x4\0\0\0"                                                                                               \
             "\x1" count "\x3\0\0\0"                                                                                   \
             "why"

static const struct {
    const char *data;
    size_t len, payloads, missing;
    int shortest; /* cuts from here on are whole */
} forms[] = {
    {"\x0" STAMP "abc", 12, 1, 0, 9},
    {"\x5" STAMP TWO "abc", 20, 1, 0, 17},
    {HEADER("\x9", "\x2\0\0\0") ENTRY(TWO, TWO) ENTRY(STAMP, STAMP), 25 + 2 * 29, 2, 0, 25 + 2 * 29},
    {HEADER("\xd", "\x7\0\0\0"), 25, 0, 7, 25},
};

static int read_exact(const char *data, size_t len, srt_record *record, size_t *payloads)
{
    char *exact = malloc(len ? len : 1);
    srt_arena arena;
    size_t i, sum = 0;
    int status;
    memcpy(exact, data, len);
    srt_arena_init(&arena, seriatim_default_allocator());
    status = srt_record_read(record, &arena, exact, len);
    for (i = 0; status == SERIATIM_OK && i < record->count; i++) {
        size_t k;
        for (k = 0; k < record->payloads[i].len; k++)
            sum += (unsigned char)record->payloads[i].data[k];
        assert_true(i == 0 || record->payloads[i - 1].score <= record->payloads[i].score ||
                    record->payloads[i].score != record->payloads[i].score ||
                    record->payloads[i - 1].score != record->payloads[i - 1].score);
    }
    *payloads = record->count + (sum > SIZE_MAX - 1);
    srt_arena_free(&arena);
    free(exact);
    return status;
}

static void test_every_form_of_a_record_is_read_and_every_cut_refused(void **state)
{
    size_t i, len, payloads;
    srt_record r;
    (void)state;
    for (i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (len = 0; len <= forms[i].len; len++)
            assert_int_equal(read_exact(forms[i].data, len, &r, &payloads),
                             len >= (size_t)forms[i].shortest ? SERIATIM_OK : SERIATIM_PROTOCOL);
        assert_int_equal(payloads, forms[i].payloads);
        assert_int_equal(r.missing, forms[i].missing);
        assert_int_equal(r.retry_count, i < 2 ? -1 : 4);
    }
}

static void test_a_corrupt_record_is_refused(void **state)
{
    uint32_t x = 11;
    size_t i, k, payloads;
    srt_record r;
    (void)state;
    for (i = 0; i < 100000; i++) {
        char data[128];
        size_t form = i % 4;
        memcpy(data, forms[form].data, forms[form].len);
        for (k = 0; k < 3; k++) {
            x = x * 1664525 + 1013904223;
            data[(x >> 8) % forms[form].len] = (char)(x >> 24);
        }
        read_exact(data, forms[form].len, &r, &payloads);
    }
}

/* Found by fuzz_record: a time beyond int64 was cast to it. */
static void test_times_beyond_int64_are_bounded(void **state)
{
    static const char *const times[] = {"\0\0\0\0\0\0\xf0\x7f", "\0\0\0\0\0\0\xf8\x7f",
                                        "\0\xd0\xd0\xd0\xd0\xd0\xd0\xd0"};
    size_t i, payloads;
    (void)state;
    for (i = 0; i < 3; i++) {
        char plain[9] = "\1";
        srt_record r;
        memcpy(plain + 1, times[i], 8);
        assert_int_equal(read_exact(plain, sizeof plain, &r, &payloads), SERIATIM_OK);
        assert_int_equal(r.due_us, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form_of_a_record_is_read_and_every_cut_refused),
        cmocka_unit_test(test_a_corrupt_record_is_refused),
        cmocka_unit_test(test_times_beyond_int64_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_json_both.c - tests of canonical JSON: what the writer wrote, the reader reads. */
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
#include "tokens.h"

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
    json_fixture *f = *state;
    srt_bytes first;
    uint64_t seed = 1234567;
    int i;
    srt_bytes_init(&first, seriatim_default_allocator());
    for (i = 0; i < 5000; i++) {
        json_begin(f);
        write_random_tree(&f->w, &seed, 5);
        if (srt_json_finish(&f->w) != SERIATIM_OK)
            fail_msg("%s", f->w.error.message);
        srt_bytes_clear(&first);
        srt_bytes_add(&first, f->out.data, f->out.len);
        assert_int_equal(json_canonical(f, first.data, first.len), SERIATIM_OK);
        assert_int_equal(f->out.len, first.len);
        assert_memory_equal(f->out.data, first.data, first.len);
    }
    srt_bytes_free(&first);
}

static const char sample[] = "{\"z\":[1,-2.5e-3,\"\\u00e9\\ud83d\\ude00 \xE2\x82\xAC\\n\",true,false,null,"
                             "12345678901234567890123],\"a\":{\"k\\\"\":{},\"b\":[[]],\"\":1e5}}";

/* On an exact heap copy, so that a byte too far is seen. */
static int canonical_copy(json_fixture *f, const char *text, size_t len)
{
    char *copy = malloc(len ? len : 1);
    int status;
    memcpy(copy, text, len);
    status = json_canonical(f, copy, len);
    free(copy);
    return status;
}

static void test_every_truncation_is_refused(void **state)
{
    json_fixture *f = *state;
    size_t len;
    for (len = 0; len < sizeof sample - 1; len++)
        assert_int_equal(canonical_copy(f, sample, len), SERIATIM_INVALID);
    assert_int_equal(canonical_copy(f, sample, len), SERIATIM_OK);
}

/* Whatever is still read must be written as bytes that read as themselves. */
static void test_every_corruption_is_refused_or_read(void **state)
{
    json_fixture *f = *state;
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
    json_fixture *f = *state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_random_trees_come_back_the_same),
        TEST(test_every_truncation_is_refused),
        TEST(test_every_corruption_is_refused_or_read),
        TEST(test_every_allocation_may_fail),
        TEST(test_sorted_keys_are_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* json_fixture.c - a writer and a reader for the tests of JSON. */
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

int json_setup(void **state)
{
    json_fixture *f = calloc(1, sizeof *f);
    srt_bytes_init(&f->out, seriatim_default_allocator());
    srt_json_writer_init(&f->w, &f->out, "payload");
    srt_json_reader_init(&f->r, seriatim_default_allocator(), "", 0);
    *state = f;
    return 0;
}

int json_teardown(void **state)
{
    json_fixture *f = *state;
    srt_json_writer_free(&f->w);
    srt_json_reader_free(&f->r);
    srt_bytes_free(&f->out);
    free(f);
    return 0;
}

void json_begin(json_fixture *f)
{
    srt_bytes_clear(&f->out);
    srt_json_writer_reset(&f->w);
}

void assert_bytes(const srt_bytes *out, const char *expected)
{
    if (out->len != strlen(expected) || memcmp(out->data, expected, out->len) != 0)
        fail_msg("wrote %.*s, expected %s", (int)out->len, out->len ? out->data : "", expected);
}

void assert_written(json_fixture *f, const char *expected)
{
    assert_int_equal(srt_json_finish(&f->w), SERIATIM_OK);
    assert_bytes(&f->out, expected);
}

void assert_path(json_fixture *f, const char *expected)
{
    char path[128];
    assert_int_equal(srt_json_writer_path(&f->w, path, sizeof path), strlen(expected));
    assert_string_equal(path, expected);
}

void assert_refused(json_fixture *f, const char *rule, const char *path)
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

int json_canonical(json_fixture *f, const char *text, size_t len)
{
    json_begin(f);
    srt_json_reader_reset(&f->r, text, len);
    return copy_tokens(&f->r, &f->w);
}

void assert_canonical(json_fixture *f, const char *text, const char *expected)
{
    if (json_canonical(f, text, strlen(text)) != SERIATIM_OK)
        fail_msg("%s: %s %s", text, f->r.error.message, f->w.error.message);
    assert_bytes(&f->out, expected);
}

uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* fuzz_json.c - libFuzzer target: what reads is written again, and that reads as the same bytes. */
#include "json.h"

#include <stdlib.h>
#include <string.h>

static void write_token(srt_json_writer *w, const srt_json_token *t)
{
    switch (t->type) {
    case SRT_JSON_BEGIN_ARRAY:
        srt_json_begin_array(w);
        break;
    case SRT_JSON_END_ARRAY:
        srt_json_end_array(w);
        break;
    case SRT_JSON_BEGIN_OBJECT:
        srt_json_begin_object(w);
        break;
    case SRT_JSON_END_OBJECT:
        srt_json_end_object(w);
        break;
    case SRT_JSON_KEY:
        srt_json_key(w, t->text, t->len);
        break;
    case SRT_JSON_STRING:
        srt_json_string(w, t->text, t->len);
        break;
    case SRT_JSON_INT:
        srt_json_int(w, t->integer);
        break;
    case SRT_JSON_DOUBLE:
        srt_json_double(w, t->number);
        break;
    case SRT_JSON_NULL:
        srt_json_null(w);
        break;
    default:
        srt_json_bool(w, t->type == SRT_JSON_TRUE);
    }
}

/* Reads all of the text, writing it to out. SERIATIM_OK when both went well. */
static int rewrite(const char *data, size_t len, srt_bytes *out)
{
    srt_json_reader r;
    srt_json_writer w;
    srt_json_token t;
    char path[64];
    int status;
    srt_json_reader_init(&r, out->mem, data, len);
    srt_json_writer_init(&w, out, "");
    while ((status = srt_json_next(&r, &t)) == SERIATIM_OK && t.type != SRT_JSON_END)
        write_token(&w, &t);
    srt_json_writer_path(&w, path, sizeof path);
    if (status == SERIATIM_OK)
        status = srt_json_finish(&w);
    srt_json_writer_free(&w);
    srt_json_reader_free(&r);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    srt_bytes once, twice;
    srt_bytes_init(&once, seriatim_default_allocator());
    srt_bytes_init(&twice, seriatim_default_allocator());
    if (rewrite((const char *)data, size, &once) == SERIATIM_OK) {
        if (rewrite(once.data, once.len, &twice) != SERIATIM_OK || twice.len != once.len ||
            memcmp(once.data, twice.data, once.len) != 0)
            abort();
    }
    srt_bytes_free(&once);
    srt_bytes_free(&twice);
    return 0;
}

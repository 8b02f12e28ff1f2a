/* fuzz_json.c - libFuzzer target: what reads is written again, and that reads as the same bytes. */
#include "tokens.h"

#include <stdlib.h>
#include <string.h>

/* Reads all of the text, writing it to out. SERIATIM_OK when both went well. */
static int rewrite(const char *data, size_t len, srt_bytes *out)
{
    srt_json_reader r;
    srt_json_writer w;
    char path[64];
    int status;
    srt_json_reader_init(&r, out->mem, data, len);
    srt_json_writer_init(&w, out, "");
    status = copy_tokens(&r, &w);
    srt_json_writer_path(&w, path, sizeof path);
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

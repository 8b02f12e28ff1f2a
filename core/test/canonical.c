/*
 * canonical.c - a filter for differential.py: each line is a JSON text, and comes out canonical, or as "!" and the
 * reason.
 */
#include "tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void rewrite(const char *line, size_t len)
{
    srt_json_reader r;
    srt_json_writer w;
    srt_bytes out;
    int status;
    srt_bytes_init(&out, seriatim_default_allocator());
    srt_json_reader_init(&r, out.mem, line, len);
    srt_json_writer_init(&w, &out, "");
    status = copy_tokens(&r, &w);
    if (status == SERIATIM_OK)
        fwrite(out.data, 1, out.len, stdout);
    else
        printf("!%s", r.error.status != SERIATIM_OK ? r.error.message : w.error.message);
    putchar('\n');
    srt_json_writer_free(&w);
    srt_json_reader_free(&r);
    srt_bytes_free(&out);
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0, len = 0;
    int c;
    while ((c = getchar()) != EOF) {
        if (len == cap && !(line = realloc(line, cap = 2 * cap + 256)))
            return 1;
        if (c != '\n') {
            line[len++] = (char)c;
            continue;
        }
        rewrite(line, len);
        len = 0;
    }
    free(line);
    return 0;
}

/* canonical.c - a filter for differential.py: each line is a JSON text, and comes out canonical, or as "!" and the reason. */
#include "json.h"

#include <stdio.h>
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

static void rewrite(const char *line, size_t len)
{
    srt_json_reader r;
    srt_json_writer w;
    srt_json_token t;
    srt_bytes out;
    int status;
    srt_bytes_init(&out, seriatim_default_allocator());
    srt_json_reader_init(&r, out.mem, line, len);
    srt_json_writer_init(&w, &out, "");
    while ((status = srt_json_next(&r, &t)) == SERIATIM_OK && t.type != SRT_JSON_END)
        write_token(&w, &t);
    if (status == SERIATIM_OK && srt_json_finish(&w) == SERIATIM_OK)
        fwrite(out.data, 1, out.len, stdout);
    else
        printf("!%s", status == SERIATIM_OK ? w.error.message : r.error.message);
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

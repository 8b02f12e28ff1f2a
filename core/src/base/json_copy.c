/* json_copy.c - JSON text written anew as canonical JSON, and what of it a push refuses. */
#include "base/json.h"

static int json_copy_double(const srt_json_token *t, srt_json_writer *w, srt_json_beyond beyond)
{
    if (t->is_integer && beyond == SRT_JSON_REFUSE)
        return srt_fail(&w->error, SERIATIM_INVALID, "an integer must be from -2^63 to 2^63-1");
    return srt_json_double(w, t->number);
}

static int json_copy_token(const srt_json_token *t, srt_json_writer *w, srt_json_beyond beyond)
{
    switch (t->type) {
    case SRT_JSON_BEGIN_ARRAY:
        return srt_json_begin_array(w);
    case SRT_JSON_END_ARRAY:
        return srt_json_end_array(w);
    case SRT_JSON_BEGIN_OBJECT:
        return srt_json_begin_object(w);
    case SRT_JSON_END_OBJECT:
        return srt_json_end_object(w);
    case SRT_JSON_KEY:
        return srt_json_key(w, t->text, t->len);
    case SRT_JSON_STRING:
        return srt_json_string(w, t->text, t->len);
    case SRT_JSON_INT:
        return srt_json_int(w, t->integer);
    case SRT_JSON_DOUBLE:
        return json_copy_double(t, w, beyond);
    case SRT_JSON_TRUE:
    case SRT_JSON_FALSE:
        return srt_json_bool(w, t->type == SRT_JSON_TRUE);
    case SRT_JSON_NULL:
        return srt_json_null(w);
    default:
        return srt_fail(&w->error, SERIATIM_INVALID, "a value is expected");
    }
}

int srt_json_copy(srt_json_reader *r, const srt_json_token *first, srt_json_writer *w, size_t depth,
                  srt_json_beyond beyond)
{
    srt_json_token t = *first;
    size_t open = 0;
    int status;
    for (;;) {
        open += t.type == SRT_JSON_BEGIN_ARRAY || t.type == SRT_JSON_BEGIN_OBJECT;
        open -= t.type == SRT_JSON_END_ARRAY || t.type == SRT_JSON_END_OBJECT;
        if (open > depth)
            return srt_fail(&w->error, SERIATIM_INVALID, "arrays and objects may lie %lu deep at most",
                            (unsigned long)depth);
        status = json_copy_token(&t, w, beyond);
        if (status != SERIATIM_OK || open == 0)
            return status;
        status = srt_json_next(r, &t);
        if (status != SERIATIM_OK)
            return status;
    }
}

/* The reader's error as it is, the writer's with its place. */
static int json_check_failed(const srt_json_reader *r, const srt_json_writer *w, int status, seriatim_error *error)
{
    char place[160];
    if (status == SERIATIM_NOMEM)
        return srt_fail_plain(error, status);
    if (r->error.status != SERIATIM_OK)
        return srt_fail(error, status, "%s", r->error.message);
    srt_json_writer_path(w, place, sizeof place);
    return srt_fail(error, status, "%s: %.150s", place, w->error.message);
}

int srt_json_check(const seriatim_allocator *mem, const char *data, size_t len, const char *root, size_t depth,
                   srt_json_beyond beyond, seriatim_error *error)
{
    srt_json_reader reader;
    srt_json_writer writer;
    srt_json_token token;
    srt_bytes bytes;
    int status;
    srt_bytes_init(&bytes, mem);
    srt_json_writer_init(&writer, &bytes, root);
    srt_json_reader_init(&reader, mem, data, len);
    status = srt_json_next(&reader, &token);
    if (status == SERIATIM_OK)
        status = srt_json_copy(&reader, &token, &writer, depth, beyond);
    if (status == SERIATIM_OK)
        status = srt_json_next(&reader, &token); /* the end */
    if (status != SERIATIM_OK)
        json_check_failed(&reader, &writer, status, error);
    srt_json_reader_free(&reader);
    srt_json_writer_free(&writer);
    srt_bytes_free(&bytes);
    return status;
}

/* consume_json.c - payloads as JSON values inside the body of a request or an answer. */
#include "web/consume.h"

#define CONSUME_DEPTH 100 /* of a payload; the answer around it is not so deep that SRT_JSON_DEPTH is exceeded */

static int consume_copy_token(const srt_json_token *t, srt_json_writer *out)
{
    switch (t->type) {
    case SRT_JSON_BEGIN_ARRAY:
        return srt_json_begin_array(out);
    case SRT_JSON_END_ARRAY:
        return srt_json_end_array(out);
    case SRT_JSON_BEGIN_OBJECT:
        return srt_json_begin_object(out);
    case SRT_JSON_END_OBJECT:
        return srt_json_end_object(out);
    case SRT_JSON_KEY:
        return srt_json_key(out, t->text, t->len);
    case SRT_JSON_STRING:
        return srt_json_string(out, t->text, t->len);
    case SRT_JSON_INT:
        return srt_json_int(out, t->integer);
    case SRT_JSON_DOUBLE:
        return srt_json_double(out, t->number);
    case SRT_JSON_TRUE:
    case SRT_JSON_FALSE:
        return srt_json_bool(out, t->type == SRT_JSON_TRUE);
    case SRT_JSON_NULL:
        return srt_json_null(out);
    default:
        return SERIATIM_INVALID;
    }
}

int srt_consume_copy(srt_json_reader *r, const srt_json_token *first, srt_json_writer *out)
{
    srt_json_token t = *first;
    size_t depth = 0;
    int status;
    for (;;) {
        depth += t.type == SRT_JSON_BEGIN_ARRAY || t.type == SRT_JSON_BEGIN_OBJECT;
        depth -= t.type == SRT_JSON_END_ARRAY || t.type == SRT_JSON_END_OBJECT;
        status = depth > CONSUME_DEPTH ? SERIATIM_INVALID : consume_copy_token(&t, out);
        if (status != SERIATIM_OK || depth == 0)
            return status;
        status = srt_json_next(r, &t);
        if (status != SERIATIM_OK)
            return status;
    }
}

/* OK: it is JSON that fits into an answer. INVALID: it is not. NOMEM. */
static int consume_check_json(const seriatim_allocator *mem, const char *data, size_t len)
{
    srt_json_reader r;
    srt_json_token t;
    srt_json_writer w;
    srt_bytes bytes;
    int status;
    srt_bytes_init(&bytes, mem);
    srt_json_writer_init(&w, &bytes, "");
    srt_json_reader_init(&r, mem, data, len);
    status = srt_json_next(&r, &t);
    if (status == SERIATIM_OK && t.type != SRT_JSON_END)
        status = srt_consume_copy(&r, &t, &w);
    if (status == SERIATIM_OK)
        status = srt_json_next(&r, &t);
    if (status == SERIATIM_OK && (t.type != SRT_JSON_END || w.depth > 0))
        status = SERIATIM_INVALID;
    if (status == SERIATIM_OK)
        status = srt_json_finish(&w);
    srt_json_reader_free(&r);
    srt_json_writer_free(&w);
    srt_bytes_free(&bytes);
    return status;
}

/* Of stored text that consume_check_json found to be JSON. */
static void consume_write_json(srt_web_out *out, const char *data, size_t len)
{
    srt_json_reader r;
    srt_json_token t;
    srt_json_reader_init(&r, out->body->mem, data, len);
    if (srt_json_next(&r, &t) != SERIATIM_OK || srt_consume_copy(&r, &t, &out->json) != SERIATIM_OK)
        out->body->failed = 1; /* memory is short */
    srt_json_reader_free(&r);
}

static void consume_write_base64(srt_web_out *out, const char *data, size_t len)
{
    srt_bytes text;
    srt_bytes_init(&text, out->body->mem);
    srt_web_base64(&text, data, len);
    out->body->failed |= text.failed;
    srt_json_string(&out->json, text.data ? text.data : "", text.failed ? 0 : text.len);
    srt_bytes_free(&text);
}

void srt_consume_write(srt_web_out *out, const char *data, size_t len, int raw)
{
    int status = raw ? SERIATIM_OK : consume_check_json(out->body->mem, data, len);
    if (raw) {
        consume_write_base64(out, data, len);
    } else if (status == SERIATIM_OK) {
        consume_write_json(out, data, len);
    } else if (status == SERIATIM_NOMEM) {
        out->body->failed = 1; /* base64 would make a consumer take JSON for bytes */
    } else {
        srt_json_begin_object(&out->json);
        srt_web_key(out, "base64");
        consume_write_base64(out, data, len);
        srt_json_end_object(&out->json);
    }
}

/* tokens.h - hands what a JSON reader gives to a JSON writer. */
#ifndef SRT_TEST_TOKENS_H
#define SRT_TEST_TOKENS_H

#include "base/json.h"

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

/* Reads all of the text. SERIATIM_OK when both went well. */
static int copy_tokens(srt_json_reader *r, srt_json_writer *w)
{
    srt_json_token t;
    int status;
    while ((status = srt_json_next(r, &t)) == SERIATIM_OK && t.type != SRT_JSON_END)
        write_token(w, &t);
    return status == SERIATIM_OK ? srt_json_finish(w) : status;
}

#endif

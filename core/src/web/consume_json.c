/* consume_json.c - stored payloads inside the body of an answer. */
#include "web/consume.h"

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
    int status = SERIATIM_OK;
    if (!raw)
        status = srt_json_check(out->body->mem, data, len, "", SRT_CONSUME_DEPTH, SRT_JSON_ROUND, NULL);
    if (raw) {
        consume_write_base64(out, data, len);
    } else if (status == SERIATIM_OK) {
        srt_json_text(&out->json, data, len); /* unchanged: written anew, its numbers could become others */
    } else if (status == SERIATIM_NOMEM) {
        out->body->failed = 1; /* base64 would make a consumer take JSON for bytes */
    } else {
        srt_json_begin_object(&out->json);
        srt_web_key(out, "base64");
        consume_write_base64(out, data, len);
        srt_json_end_object(&out->json);
    }
}

/* write.c - texts and records as JSON: errors through load_error, all that is stored through the redaction; never
 * decoded. */
#include "web/web.h"

#include <string.h>

void srt_web_key(srt_web_out *out, const char *key)
{
    if (key)
        srt_json_key(&out->json, key, strlen(key));
}

void srt_web_int(srt_web_out *out, const char *key, int64_t value)
{
    srt_web_key(out, key);
    srt_json_int(&out->json, value);
}

void srt_web_double(srt_web_out *out, const char *key, double value)
{
    srt_web_key(out, key);
    if (value - value < 0 || value - value > 0 || value != value)
        srt_json_null(&out->json);
    else
        srt_json_double(&out->json, value);
}

void srt_web_bool(srt_web_out *out, const char *key, int value)
{
    srt_web_key(out, key);
    srt_json_bool(&out->json, value);
}

void srt_web_null(srt_web_out *out, const char *key)
{
    srt_web_key(out, key);
    srt_json_null(&out->json);
}

void srt_web_base64(srt_bytes *out, const char *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t i;
    for (i = 0; i < len; i += 3) {
        unsigned n = (unsigned)(unsigned char)data[i] << 16;
        if (i + 1 < len)
            n |= (unsigned)(unsigned char)data[i + 1] << 8;
        if (i + 2 < len)
            n |= (unsigned char)data[i + 2];
        srt_bytes_addc(out, digits[n >> 18]);
        srt_bytes_addc(out, digits[n >> 12 & 63]);
        srt_bytes_addc(out, i + 1 < len ? digits[n >> 6 & 63] : '=');
        srt_bytes_addc(out, i + 2 < len ? digits[n & 63] : '=');
    }
}

static void write_bytes(srt_web_out *out, const char *data, size_t len)
{
    srt_bytes text;
    srt_bytes_init(&text, out->body->mem);
    srt_web_base64(&text, data, len);
    srt_json_begin_object(&out->json);
    srt_web_key(out, "base64");
    if (text.failed)
        out->body->failed = 1;
    srt_json_string(&out->json, text.data ? text.data : "", text.failed ? 0 : text.len);
    srt_json_end_object(&out->json);
    srt_bytes_free(&text);
}

void srt_web_text(srt_web_out *out, const char *key, const char *text, size_t len)
{
    srt_web_key(out, key);
    if (srt_utf8_valid(text, len))
        srt_json_string(&out->json, text, len);
    else
        write_bytes(out, text, len);
}

void srt_web_chars(srt_web_out *out, const char *key, const char *text)
{
    srt_web_text(out, key, text, strlen(text));
}

size_t srt_web_cut(seriatim_text text, size_t most)
{
    size_t back;
    if (text.len <= most)
        return text.len;
    for (back = 0; back < 4 && back < most && ((unsigned char)text.data[most - back] & 0xC0) == 0x80; back++)
        ;
    return back < 4 ? most - back : most;
}

seriatim_text srt_web_load(const seriatim_web_hooks *hooks, seriatim_text stored)
{
    return hooks && hooks->load_error && stored.len ? hooks->load_error(hooks->context, stored) : stored;
}

static seriatim_text write_redacted(const srt_web_out *out, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    static const seriatim_text nothing = {"", 0};
    if (text.data && out->hooks && out->hooks->redact)
        text = out->hooks->redact(out->hooks->context, queue, id, text);
    return text.data ? text : nothing;
}

/* Of a text behind the redaction: no more than `most` bytes. */
static void write_cut(srt_web_out *out, const char *key, seriatim_text text, size_t most)
{
    size_t shown = srt_web_cut(text, most);
    out->cut |= shown < text.len;
    srt_web_text(out, key, text.data, shown);
}

static size_t write_most(const srt_web_out *out)
{
    return out->most ? out->most : SRT_WEB_SHOWN;
}

void srt_web_shown(srt_web_out *out, const char *key, seriatim_text queue, seriatim_text id, const char *data,
                   size_t len)
{
    seriatim_text text = {data ? data : "", data ? len : 0};
    write_cut(out, key, write_redacted(out, queue, id, text), write_most(out));
}

/*
 * Without its last bytes the text ends before a secret whose end is missing, or in a secret which the whole text has.
 * So what the redaction makes of both alike ends before either secret.
 */
void srt_web_beginning(srt_web_out *out, const char *key, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    seriatim_text shorter = text, shown;
    srt_bytes kept;
    size_t same = 0, most = write_most(out);
    if (!out->hooks || !out->hooks->redact) {
        write_cut(out, key, text, most);
        return;
    }
    shorter.len = srt_web_cut(text, text.len > SRT_WEB_UNSURE ? text.len - SRT_WEB_UNSURE : 0);
    shown = write_redacted(out, queue, id, shorter);
    srt_bytes_init(&kept, out->body->mem);
    srt_bytes_add(&kept, shown.data, shown.len);
    shown = write_redacted(out, queue, id, text);
    while (same < kept.len && same < shown.len && kept.data[same] == shown.data[same])
        same++;
    out->body->failed |= kept.failed;
    srt_bytes_free(&kept);
    write_cut(out, key, shown, same < most ? same : most);
}

void srt_web_stored_error(srt_web_out *out, const char *key, seriatim_text queue, seriatim_text id, const char *error,
                          size_t len)
{
    seriatim_text stored = {error, len}, text = srt_web_load(out->hooks, stored);
    srt_web_shown(out, key, queue, id, text.data, text.len);
}

static void write_payloads(srt_web_out *out, seriatim_text queue, seriatim_text id, const seriatim_record *record)
{
    size_t i;
    srt_web_key(out, "payloads");
    srt_json_begin_array(&out->json);
    for (i = 0; i < record->payload_count; i++) {
        const seriatim_payload *payload = &record->payloads[i];
        srt_json_begin_array(&out->json);
        out->most = (int64_t)i + 1 == out->whole ? SRT_WEB_WHOLE : 0;
        srt_web_shown(out, NULL, queue, id, payload->data, payload->len);
        out->most = 0;
        srt_web_double(out, NULL, payload->score);
        if (payload->context_len)
            srt_web_shown(out, NULL, queue, id, payload->context, payload->context_len);
        srt_json_end_array(&out->json);
    }
    srt_json_end_array(&out->json);
}

static void write_keys(srt_web_out *out, const seriatim_record *record)
{
    size_t i, k;
    srt_web_key(out, "keys");
    srt_json_begin_array(&out->json);
    for (i = 0; i < record->payload_count; i++) {
        char key[SRT_KEY], digits[2 * SRT_KEY];
        srt_number_pack(key, record->payloads[i].stamp);
        srt_number_pack(key + 8, record->payloads[i].score);
        for (k = 0; k < SRT_KEY; k++) {
            digits[2 * k] = "0123456789abcdef"[(unsigned char)key[k] >> 4];
            digits[2 * k + 1] = "0123456789abcdef"[key[k] & 15];
        }
        srt_json_string(&out->json, digits, sizeof digits);
    }
    srt_json_end_array(&out->json);
}

void srt_web_write_cursor(srt_web_out *out, seriatim_text cursor)
{
    if (cursor.data)
        srt_web_text(out, "cursor", cursor.data, cursor.len);
    else
        srt_web_null(out, "cursor");
    srt_web_bool(out, "more", cursor.data != NULL);
}

void srt_web_record(srt_web_out *out, seriatim_text queue, const seriatim_record *record)
{
    seriatim_text id;
    int dead = strcmp(record->state, "dead") == 0, running = strcmp(record->state, "running") == 0;
    id.data = record->id;
    id.len = record->id_len;
    out->cut = 0;
    srt_json_begin_object(&out->json);
    srt_web_bool(out, "behind", record->behind);
    if (record->error_len)
        srt_web_stored_error(out, "error", queue, id, record->error, record->error_len);
    srt_web_int(out, "fence", record->fence);
    srt_web_text(out, "id", record->id, record->id_len);
    if (out->keys && !running)
        write_keys(out, record);
    srt_web_int(out, "payload_total", (int64_t)record->payload_total);
    write_payloads(out, queue, id, record);
    if (!dead)
        srt_web_double(out, "perform_in", record->perform_in);
    srt_web_int(out, "retry_count", record->retry_count);
    srt_web_int(out, "shard", record->shard);
    if (running)
        srt_web_double(out, "since", (double)record->fence / 1e6);
    srt_web_chars(out, "state", record->state);
    if (out->cut)
        srt_web_bool(out, "truncated", 1);
    if (dead)
        srt_web_double(out, "updated_at", record->updated_at);
    srt_json_end_object(&out->json);
}

/* A payload of a query by deliver_at, which gives a record for each. */
static void write_scheduled(srt_web_out *out, seriatim_text queue, const seriatim_record *record)
{
    const seriatim_scheduled *one = record->scheduled;
    seriatim_text id;
    id.data = record->id;
    id.len = record->id_len;
    out->cut = 0;
    srt_json_begin_object(&out->json);
    if (one->payload.context_len)
        srt_web_shown(out, "context", queue, id, one->payload.context, one->payload.context_len);
    srt_web_double(out, "deliver_at", one->deliver_at);
    srt_web_text(out, "handle", one->handle.data, one->handle.len);
    srt_web_text(out, "id", record->id, record->id_len);
    srt_web_shown(out, "payload", queue, id, one->payload.data, one->payload.len);
    srt_web_double(out, "pushed_at", one->pushed_at);
    if (one->scored)
        srt_web_double(out, "score", one->payload.score);
    srt_web_int(out, "shard", record->shard);
    if (out->cut)
        srt_web_bool(out, "truncated", 1);
    srt_json_end_object(&out->json);
}

void srt_web_write_payloads(srt_web_out *out, seriatim_text queue, const seriatim_record *records, size_t count)
{
    size_t i;
    srt_json_begin_array(&out->json);
    for (i = 0; i < count; i++)
        write_scheduled(out, queue, &records[i]);
    srt_json_end_array(&out->json);
}

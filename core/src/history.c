/* history.c - what was processed, failed and enqueued of a queue, kept in Redis in bounded space. */
#include "history.h"

#include "keys.h"

#include <string.h>

int srt_history_write(srt_session *session, const char *ns, const char *queue, size_t len, const srt_history_sample *sample,
                      const char *unique, int kind)
{
    srt_request *r = srt_session_begin(session, srt_script_history, NULL, 0);
    srt_bytes key;
    if (!r)
        return SERIATIM_NOMEM;
    srt_bytes_init(&key, session->mem);
    srt_key_history(&key, ns, queue, len);
    srt_request_arg(r, key.data, key.len);
    r->tail.failed |= key.failed;
    r->keys = 1;
    srt_request_int(r, sample->processed);
    srt_request_int(r, sample->failed);
    srt_request_int(r, sample->enqueued);
    srt_request_int(r, sample->lag_us);
    srt_request_text(r, unique);
    r->kind = kind;
    srt_bytes_free(&key);
    return srt_session_send(session, r);
}

const srt_history_span *srt_history_span_of(const char *word, size_t len)
{
    static const srt_history_span spans[] = {
        {"15m", "10", 10, 90, 1}, {"1h", "10", 10, 360, 3}, {"1d", "300", 300, 288, 1}, {"7d", "3600", 3600, 168, 1}};
    size_t i;
    for (i = 0; i < sizeof spans / sizeof *spans; i++)
        if (strlen(spans[i].word) == len && memcmp(spans[i].word, word, len) == 0)
            return &spans[i];
    return NULL;
}

static uint32_t history_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void history_add_step(srt_history_point *point, const unsigned char *at)
{
    uint32_t bits = history_u32(at + 12);
    float lag;
    if (history_u32(at) == UINT32_MAX && history_u32(at + 4) == UINT32_MAX)
        return;
    memcpy(&lag, &bits, sizeof lag);
    point->known = 1;
    point->processed += history_u32(at);
    point->failed += history_u32(at + 4);
    point->enqueued += history_u32(at + 8);
    if ((double)lag > point->lag && (double)lag < 1e12)
        point->lag = (double)lag;
}

void srt_history_add(const srt_history_span *span, srt_history_point *points, int64_t now, const char *data, size_t len)
{
    const unsigned char *bytes = (const unsigned char *)data;
    /* The first step shown; points begin at whole ones of their own. */
    int64_t merged = (int64_t)span->merged, count = (int64_t)(span->steps / span->merged);
    int64_t first = (now / (span->step * merged) - count + 1) * merged, last;
    double number;
    size_t i, n;
    if (len < 8)
        return;
    number = srt_little_double(data);
    if (!(number >= 0 && number < 1e12))
        return;
    last = (int64_t)number;
    n = (len - 8) / 16;
    for (i = 0; i < n; i++) {
        int64_t step = last - (int64_t)(n - 1 - i), place = (step - first) / merged;
        if (step >= first && place < count)
            history_add_step(&points[place], bytes + 8 + 16 * i);
    }
}

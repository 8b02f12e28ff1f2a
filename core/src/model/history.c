/* history.c - the requests that write the history of queues, and the reading of it. */
#include "model/history.h"

#include "model/stored.h"
#include "wire/keys.h"

#include <string.h>

#define HISTORY_HEAD 32 /* bytes in front of the first ring, and of a step: as in history.lua */
#define HISTORY_STEP 20

srt_request *srt_sampler_request(srt_session *session, const char *ns, const char *process, size_t len, int goes_on)
{
    srt_request *r = srt_session_begin(session, srt_script_sampler, NULL, 0);
    srt_bytes key;
    if (!r)
        return NULL;
    srt_bytes_init(&key, session->mem);
    srt_key_global(&key, ns, "nodes", "sampler");
    srt_request_arg(r, key.data, key.len);
    r->tail.failed |= key.failed;
    r->keys = 1;
    srt_request_arg(r, process, len);
    srt_request_int(r, SRT_SAMPLER_LEASE_MS);
    srt_request_int(r, goes_on);
    srt_bytes_free(&key);
    return r;
}

srt_request *srt_sample_request(srt_session *session, const char *ns, const char *queue, size_t len, int64_t generation,
                                unsigned used, unsigned first, unsigned count)
{
    srt_request *r = srt_session_begin(session, srt_script_sample, NULL, 0);
    srt_bytes key;
    unsigned i;
    if (!r)
        return NULL;
    srt_bytes_init(&key, session->mem);
    for (i = 0; i < count; i++) {
        srt_bytes_clear(&key);
        srt_key_shard(&key, ns, queue, len, first + i);
        srt_bytes_adds(&key, "state");
        srt_request_arg(r, key.data, key.len);
        r->tail.failed |= key.failed;
    }
    r->keys = count;
    srt_request_int(r, generation);
    srt_request_int(r, used > first ? used - first : 0);
    srt_bytes_free(&key);
    return r;
}

/* The layout and the history of a queue, as two keys. */
static void history_keys(srt_request *r, srt_bytes *key, const char *ns, const char *queue, size_t len)
{
    srt_bytes_clear(key);
    srt_key_layout(key, ns, queue, len);
    srt_request_arg(r, key->data, key->len);
    r->tail.failed |= key->failed;
    srt_bytes_clear(key);
    srt_key_history(key, ns, queue, len);
    srt_request_arg(r, key->data, key->len);
    r->tail.failed |= key->failed;
    r->keys += 2;
}

srt_request *srt_idle_request(srt_session *session, const char *ns, const seriatim_text *queues, size_t count,
                              int64_t since_us)
{
    srt_request *r = srt_session_begin(session, srt_script_sample_idle, NULL, 0);
    srt_bytes key;
    size_t i;
    if (!r)
        return NULL;
    srt_bytes_init(&key, session->mem);
    for (i = 0; i < count; i++)
        history_keys(r, &key, ns, queues[i].data, queues[i].len);
    srt_request_int(r, since_us);
    srt_request_int(r, SRT_IDLE_SHARDS);
    srt_bytes_free(&key);
    return r;
}

srt_request *srt_history_request(srt_session *session, const char *ns, const char *queue, size_t len,
                                 const srt_history_sample *sample)
{
    srt_request *r = srt_session_begin(session, srt_script_history, NULL, 0);
    srt_bytes key;
    if (!r)
        return NULL;
    srt_bytes_init(&key, session->mem);
    history_keys(r, &key, ns, queue, len);
    srt_request_int(r, sample->time_us);
    srt_request_int(r, sample->processed);
    srt_request_int(r, sample->failed);
    srt_request_int(r, sample->pushed);
    srt_request_int(r, sample->lag_us);
    srt_request_int(r, sample->since_us);
    srt_bytes_free(&key);
    return r;
}

const srt_history_span *srt_history_span_of(const char *word, size_t len)
{
    static const srt_history_span spans[] = {
        {"15m", 10, 360, 0, 90, 1, SRT_TIMES_FINE, SRT_TIMES_FINE_STEPS, 15},
        {"1h", 10, 360, 0, 360, 3, SRT_TIMES_FINE, SRT_TIMES_FINE_STEPS, 60},
        {"1d", 300, 288, 360, 288, 1, SRT_TIMES_MIDDLE, SRT_TIMES_MIDDLE_STEPS, 48},
        {"7d", 3600, 168, 648, 168, 1, SRT_TIMES_COARSE, SRT_TIMES_COARSE_STEPS, 56}};
    size_t i;
    for (i = 0; i < sizeof spans / sizeof *spans; i++)
        if (strlen(spans[i].word) == len && memcmp(spans[i].word, word, len) == 0)
            return &spans[i];
    return NULL;
}

void srt_history_range(const srt_history_span *span, int64_t *first, int64_t *last)
{
    *first = HISTORY_HEAD + HISTORY_STEP * (int64_t)span->first;
    *last = *first + HISTORY_STEP * (int64_t)span->ring - 1;
}

static uint32_t history_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Behind the number of the step. */
static void history_add_step(srt_history_point *point, const unsigned char *at)
{
    uint32_t bits = history_u32(at + 12);
    float lag;
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
    int64_t first = (now / (span->step * merged) - count + 1) * merged;
    size_t i;
    for (i = 0; i < span->ring && (i + 1) * HISTORY_STEP <= len; i++) {
        const unsigned char *at = bytes + i * HISTORY_STEP;
        int64_t step = history_u32(at), place = (step - first) / merged;
        if (step >= first && place < count && step % (int64_t)span->ring == (int64_t)i)
            history_add_step(&points[place], at + 4);
    }
}

/* record.c - reads an id's record as core/scripts/lib/record.lua packs it. */
#include "model/record.h"

#include <string.h>

#define RECORD_ENTRY 24 /* the least bytes of an entry */

/* Reads little-endian fields, never past the end; `ok` turns 0 on the first that is missing. */
typedef struct record_cursor {
    const unsigned char *at, *end;
    int ok;
} record_cursor;

static record_cursor record_begin(const char *data, size_t len)
{
    record_cursor c = {(const unsigned char *)data, (const unsigned char *)data + len, 1};
    return c;
}

/* The next `count` bytes. NULL if fewer are left; then every later read fails, too. */
static const unsigned char *read_bytes(record_cursor *c, size_t count)
{
    const unsigned char *at = c->at;
    if (!c->ok || (size_t)(c->end - at) < count) {
        c->ok = 0;
        return NULL;
    }
    c->at += count;
    return at;
}

static uint64_t read_little(record_cursor *c, size_t count)
{
    const unsigned char *at = read_bytes(c, count);
    uint64_t value = 0;
    size_t i;
    for (i = 0; at && i < count; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static double read_double(record_cursor *c)
{
    const unsigned char *at = read_bytes(c, 8);
    return at ? srt_little_double((const char *)at) : 0;
}

static const char *read_text(record_cursor *c, size_t *len)
{
    const unsigned char *text;
    *len = (size_t)read_little(c, 4);
    text = read_bytes(c, *len);
    if (text)
        return (const char *)text;
    *len = 0;
    return (const char *)c->at;
}

static int record_reserve(srt_record *r, srt_arena *arena, size_t need)
{
    size_t cap = need > 2 * r->cap ? need : 2 * r->cap;
    seriatim_payload *payloads;
    if (need <= r->cap)
        return SERIATIM_OK;
    payloads = srt_arena_alloc(arena, cap * sizeof *payloads);
    if (!payloads)
        return SERIATIM_NOMEM;
    if (r->count)
        memcpy(payloads, r->payloads, r->count * sizeof *payloads);
    r->payloads = payloads;
    r->cap = cap;
    return SERIATIM_OK;
}

static int comes_after(const seriatim_payload *a, const seriatim_payload *b)
{
    return a->score > b->score || (!(a->score < b->score) && a->stamp > b->stamp);
}

/* Entries come almost in order. */
static void record_insert(srt_record *r, const seriatim_payload *payload)
{
    size_t at = r->count++;
    for (; at > 0 && comes_after(&r->payloads[at - 1], payload); at--)
        r->payloads[at] = r->payloads[at - 1];
    r->payloads[at] = *payload;
}

/* Was the score given with the push? Takes what says so off the context (stored.h). */
static void read_whose_score(seriatim_payload *payload)
{
    double arrival = payload->stamp / 1e6, delivered = arrival;
    if (payload->context_len >= SRT_CONTEXT_HEAD && *payload->context == SRT_CONTEXT_DELIVERED) {
        delivered = srt_little_double(payload->context + 1);
        payload->context += SRT_CONTEXT_HEAD;
        payload->context_len -= SRT_CONTEXT_HEAD;
    }
    payload->has_score = (payload->score < arrival || payload->score > arrival) &&
                         (payload->score < delivered || payload->score > delivered);
}

static void read_entry(srt_record *r, record_cursor *c)
{
    seriatim_payload payload;
    payload.stamp = read_double(c);
    payload.score = read_double(c);
    payload.context = read_text(c, &payload.context_len);
    payload.data = read_text(c, &payload.len);
    read_whose_score(&payload);
    if (c->ok)
        record_insert(r, &payload);
}

static int read_entries(srt_record *r, srt_arena *arena, record_cursor *c, size_t count)
{
    if (count > (size_t)(c->end - c->at) / RECORD_ENTRY)
        return SERIATIM_PROTOCOL;
    if (record_reserve(r, arena, r->count + count) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    while (count-- && c->ok)
        read_entry(r, c);
    return c->ok ? SERIATIM_OK : SERIATIM_PROTOCOL;
}

/* A value that is not a time counts as due long ago. */
static int64_t whole_microseconds(double time)
{
    return time > -9e15 && time < 9e15 ? (int64_t)time : 0;
}

/* The compact forms: one payload, never failed, due since its push. */
static int read_compact(srt_record *r, srt_arena *arena, record_cursor *c, int scored)
{
    seriatim_payload payload = {NULL, 0, 0, "", 0, 0, 0};
    payload.stamp = read_double(c);
    payload.score = scored ? read_double(c) : payload.stamp / 1e6;
    read_whose_score(&payload);
    if (!c->ok)
        return SERIATIM_PROTOCOL;
    if (record_reserve(r, arena, 1) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    payload.data = (const char *)c->at;
    payload.len = (size_t)(c->end - c->at);
    r->due_us = whole_microseconds(payload.stamp);
    record_insert(r, &payload);
    return SERIATIM_OK;
}

int srt_record_read(srt_record *r, srt_arena *arena, const char *data, size_t len)
{
    record_cursor c = record_begin(data, len);
    unsigned kind = (unsigned)read_little(&c, 1);
    double due;
    size_t count;
    memset(r, 0, sizeof *r);
    r->place = kind % SRT_RECORD_PLACES;
    r->retry_count = -1;
    r->error = "";
    if (!c.ok || kind >= SRT_RECORD_SPILLED + SRT_RECORD_PLACES)
        return SERIATIM_PROTOCOL;
    if (kind < SRT_RECORD_FULL)
        return read_compact(r, arena, &c, kind >= SRT_RECORD_SCORED);
    due = read_double(&c);
    r->due_us = whole_microseconds(due);
    r->retry_count = (int32_t)(uint32_t)read_little(&c, 4);
    r->mark = (unsigned)read_little(&c, 1) % SRT_MARK_CUT;
    count = (size_t)read_little(&c, 4);
    r->error = read_text(&c, &r->error_len);
    if (!c.ok)
        return SERIATIM_PROTOCOL;
    if (kind < SRT_RECORD_SPILLED)
        return read_entries(r, arena, &c, count);
    r->missing = count;
    return SERIATIM_OK;
}

int srt_record_join(srt_record *r, srt_arena *arena, const srt_record *more)
{
    size_t i;
    if (record_reserve(r, arena, r->count + more->count) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    for (i = 0; i < more->count; i++)
        record_insert(r, &more->payloads[i]);
    return SERIATIM_OK;
}

int srt_record_add(srt_record *r, srt_arena *arena, const char *data, size_t len)
{
    record_cursor c = record_begin(data, len);
    int status = SERIATIM_OK;
    while (status == SERIATIM_OK && c.at < c.end) {
        status = read_entries(r, arena, &c, 1);
        if (r->missing)
            r->missing--;
    }
    return status;
}

int srt_record_score(const srt_record *r, size_t count, double *score)
{
    while (count > 0 && !r->payloads[count - 1].has_score)
        count--;
    if (count > 0)
        *score = r->payloads[count - 1].score;
    return count > 0;
}

void srt_number_pack(char *at, double number)
{
    uint64_t bits;
    size_t i;
    memcpy(&bits, &number, 8);
    for (i = 0; i < 8; i++)
        at[i] = (char)(bits >> (56 - 8 * i));
}

double srt_number_unpack(const char *at)
{
    uint64_t bits = 0;
    double number;
    size_t i;
    for (i = 0; i < 8; i++)
        bits = bits << 8 | (unsigned char)at[i];
    memcpy(&number, &bits, 8);
    return number;
}

/*
 * cursor.c - where the next page goes on. A scan: POSITION.HSCAN.SEEN, or POSITION.HSCAN.SEEN.POSITION.HSCAN.HEX-OF-ID
 * within what was read between these two places; of an action GENERATION.BOUND.POSITION.HSCAN.SEEN. An index: a key and
 * an id as hex digits.
 */
#include "web/scan.h"

#include <stdio.h>
#include <stdlib.h>

static int cursor_number(const char **at, const char *end, int64_t *value)
{
    const char *begin = *at;
    *value = 0;
    for (; *at < end && **at >= '0' && **at <= '9' && *at - begin < 18; ++*at)
        *value = *value * 10 + (**at - '0');
    return *at > begin;
}

static int cursor_dot(const char **at, const char *end)
{
    return *at < end && *(*at)++ == '.';
}

static int cursor_hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads hex digits: eight bytes of the key, then `extra` bytes of the list's own and the id. */
static int cursor_after(srt_web *w, const char *at, const char *end, size_t extra, srt_target *after)
{
    size_t len = (size_t)(end - at) / 2, i;
    uint64_t key = 0;
    char *out = srt_arena_alloc(&w->memory, len + 1);
    if (!out)
        return SERIATIM_NOMEM;
    if ((end - at) % 2 || len < 9 + extra || len > SERIATIM_MAX_ID + 8 + extra)
        return SERIATIM_INVALID;
    for (i = 0; i < len; i++) {
        int high = cursor_hex(at[2 * i]), low = cursor_hex(at[2 * i + 1]);
        if (high < 0 || low < 0)
            return SERIATIM_INVALID;
        out[i] = (char)(high * 16 + low);
    }
    for (i = 0; i < 8; i++)
        key = key << 8 | (unsigned char)out[i];
    after->key = (int64_t)key;
    after->id = out + 8;
    after->len = len - 8;
    return SERIATIM_OK;
}

void srt_web_cursor_of(srt_bytes *out, int64_t key, const char *id, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    size_t i;
    for (i = 0; i < 16; i++)
        srt_bytes_addc(out, digits[(uint64_t)key >> (60 - 4 * i) & 15]);
    for (i = 0; i < len; i++) {
        srt_bytes_addc(out, digits[(unsigned char)id[i] >> 4]);
        srt_bytes_addc(out, digits[(unsigned char)id[i] & 15]);
    }
}

static int cursor_accept(srt_web *w, int status)
{
    return status == SERIATIM_INVALID ? srt_web_refuse(w, 400, "cursor must be one that this page returned") : status;
}

int srt_web_cursor_read(srt_web *w, seriatim_text cursor, size_t extra, srt_target *after)
{
    int status = cursor_after(w, cursor.data, cursor.data + cursor.len, extra, after);
    if (status == SERIATIM_OK && (after->key < -SRT_FOREVER || after->key > SRT_FOREVER))
        status = SERIATIM_INVALID;
    return cursor_accept(w, status);
}

/* HSCAN counts from the highest bit to the lowest, so that its order stays while the hash grows or shrinks. */
static uint64_t cursor_order(const char *hscan)
{
    uint64_t left = strtoull(hscan, NULL, 10), order = 0;
    int i;
    for (i = 0; i < 64; i++, left >>= 1)
        order = order << 1 | (left & 1);
    return order;
}

int srt_web_place_compare(const srt_web_place *a, const srt_web_place *b)
{
    uint64_t left = cursor_order(a->cursor), right = cursor_order(b->cursor);
    if (a->position != b->position)
        return a->position < b->position ? -1 : 1;
    return left < right ? -1 : left > right;
}

static void cursor_add_place(srt_bytes *out, const srt_web_place *place)
{
    srt_bytes_add_int(out, place->position);
    srt_bytes_addc(out, '.');
    srt_bytes_adds(out, place->cursor);
    srt_bytes_addc(out, '.');
}

int srt_web_scan_next(srt_web *w, srt_web_scan *scan, const srt_web_place *from, int64_t seen, const srt_target *last)
{
    srt_bytes text;
    srt_bytes_init(&text, w->mem);
    if (scan->acts) {
        srt_bytes_add_int(&text, scan->generation);
        srt_bytes_addc(&text, '.');
        srt_bytes_add_int(&text, scan->bound);
        srt_bytes_addc(&text, '.');
    }
    cursor_add_place(&text, from);
    srt_bytes_add_int(&text, seen);
    if (last) {
        srt_bytes_addc(&text, '.');
        cursor_add_place(&text, &scan->end);
        srt_web_cursor_of(&text, last->key, last->id, last->len);
    }
    scan->next.data = text.failed ? NULL : srt_arena_copy(&w->memory, text.data, text.len);
    scan->next.len = text.len;
    srt_bytes_free(&text);
    return scan->next.data ? SERIATIM_OK : SERIATIM_NOMEM;
}

/* Up to the dot behind it. */
static int cursor_place(const char **at, const char *end, srt_web_place *place)
{
    const char *hscan;
    int64_t position;
    if (!cursor_number(at, end, &position) || position > 1000000 || !cursor_dot(at, end))
        return 0;
    for (hscan = *at; *at < end && **at >= '0' && **at <= '9'; ++*at)
        ;
    if (*at == hscan || *at - hscan > 20)
        return 0;
    place->position = (unsigned)position;
    snprintf(place->cursor, sizeof place->cursor, "%.*s", (int)(*at - hscan), hscan);
    return cursor_dot(at, end);
}

static int cursor_of_scan(srt_web *w, srt_web_scan *scan, seriatim_text cursor)
{
    const char *at = cursor.data, *end = at ? at + cursor.len : at;
    if (!at || cursor.len == 0)
        return SERIATIM_OK;
    scan->spread = 0;
    if (scan->acts && (!cursor_number(&at, end, &scan->generation) || !cursor_dot(&at, end) ||
                       !cursor_number(&at, end, &scan->bound) || !cursor_dot(&at, end)))
        return SERIATIM_INVALID;
    if (!cursor_place(&at, end, &scan->place) || !cursor_number(&at, end, &scan->seen))
        return SERIATIM_INVALID;
    if (at == end)
        return SERIATIM_OK;
    if (!cursor_dot(&at, end) || !cursor_place(&at, end, &scan->end) ||
        srt_web_place_compare(&scan->place, &scan->end) >= 0)
        return SERIATIM_INVALID;
    scan->has_after = 1;
    return cursor_after(w, at, end, 0, &scan->after);
}

int srt_web_scan_cursor(srt_web *w, srt_web_scan *scan, seriatim_text cursor)
{
    return cursor_accept(w, cursor_of_scan(w, scan, cursor));
}

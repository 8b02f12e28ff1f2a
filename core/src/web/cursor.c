/* cursor.c - where the next page goes on. A scan: POSITION.HSCAN.SEEN, or POSITION.HSCAN.SEEN.SLICES.HEX-OF-ID within
 * what was read; of an action GENERATION.BOUND.POSITION.HSCAN.SEEN. An index: a key and an id as hex digits. */
#include "web/scan.h"

#include <stdio.h>

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

static int cursor_of_scan(srt_web *w, srt_web_scan *scan, seriatim_text cursor)
{
    const char *at = cursor.data, *end = at ? at + cursor.len : at, *hscan;
    int64_t position;
    scan->position = 0;
    scan->cursor[0] = '0';
    scan->cursor[1] = '\0';
    if (!at || cursor.len == 0)
        return SERIATIM_OK;
    scan->spread = 0;
    if (scan->acts && (!cursor_number(&at, end, &scan->generation) || !cursor_dot(&at, end) ||
                       !cursor_number(&at, end, &scan->bound) || !cursor_dot(&at, end)))
        return SERIATIM_INVALID;
    if (!cursor_number(&at, end, &position) || position > 1000000 || !cursor_dot(&at, end))
        return SERIATIM_INVALID;
    for (hscan = at; at < end && *at >= '0' && *at <= '9'; at++)
        ;
    if (at == hscan || at - hscan > 20)
        return SERIATIM_INVALID;
    snprintf(scan->cursor, sizeof scan->cursor, "%.*s", (int)(at - hscan), hscan);
    scan->position = (unsigned)position;
    if (!cursor_dot(&at, end) || !cursor_number(&at, end, &scan->seen))
        return SERIATIM_INVALID;
    if (at == end)
        return SERIATIM_OK;
    if (!cursor_dot(&at, end) || !cursor_number(&at, end, &scan->slices) || scan->slices < 1 || scan->slices > 100000 ||
        !cursor_dot(&at, end))
        return SERIATIM_INVALID;
    scan->has_after = 1;
    return cursor_after(w, at, end, 0, &scan->after);
}

int srt_web_scan_cursor(srt_web *w, srt_web_scan *scan, seriatim_text cursor)
{
    return cursor_accept(w, cursor_of_scan(w, scan, cursor));
}

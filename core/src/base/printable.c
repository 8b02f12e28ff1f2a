/*
 * printable.c - text as a terminal and a log of lines may show it: control characters and what hides or turns text are
 * escaped.
 */
#include "base/printable.h"

#include <string.h>

#include "base/json.h"

/* Returns the code point of a valid sequence, or of an ASCII byte. */
static unsigned printable_code(const unsigned char *at, size_t size)
{
    unsigned code = size == 1 ? at[0] : at[0] & (0xFFu >> (size + 1));
    size_t i;
    for (i = 1; i < size; i++)
        code = code << 6 | (at[i] & 0x3Fu);
    return code;
}

/*
 * C0, DEL and C1 move a cursor, end a line or begin a command of the terminal (U+009B is ESC [ in one character). The
 * others are not seen: zero width, line and paragraph separators, and what turns the direction of reading.
 */
static int printable_is_hidden(unsigned code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || (code >= 0x200B && code <= 0x200F) ||
           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF;
}

static char *printable_hex(char *out, unsigned value, unsigned digits)
{
    static const char hex[] = "0123456789abcdef";
    while (digits-- > 0)
        *out++ = hex[value >> 4 * digits & 15];
    return out;
}

size_t srt_printable_next(const char *text, size_t len, char *out, size_t *written)
{
    size_t size = srt_utf8_size(text, len);
    char *end = out;
    unsigned code = printable_code((const unsigned char *)text, size ? size : 1);
    if (size > 0 && !printable_is_hidden(code)) {
        memcpy(out, text, size);
        *written = size;
        return size;
    }
    *end++ = '\\';
    *end++ = size ? 'u' : 'x';
    end = printable_hex(end, code, size ? 4 : 2);
    *written = (size_t)(end - out);
    return size ? size : 1;
}

void srt_printable_start(const char *text, size_t len, char *out, size_t cap)
{
    char next[SRT_PRINTABLE_MOST];
    size_t at = 0, end = 0, cut = 0, used, written;
    while (at < len) {
        used = srt_printable_next(text + at, len - at, next, &written);
        if (end + written >= cap)
            break;
        memcpy(out + end, next, written);
        at += used;
        end += written;
        if (end + sizeof "..." <= cap)
            cut = end;
    }
    if (at < len) { /* it does not fit: up to the last character behind which "..." does */
        memcpy(out + cut, "...", sizeof "...");
        return;
    }
    out[end] = '\0';
}

size_t seriatim_printable(const char *text, size_t len, char *out, size_t cap)
{
    char next[SRT_PRINTABLE_MOST];
    size_t at = 0, total = 0, written;
    while (at < len) {
        at += srt_printable_next(text + at, len - at, next, &written);
        if (total + written <= cap)
            memcpy(out + total, next, written);
        total += written;
    }
    return total;
}

/* json_text.c - UTF-8, and what a JSON string must escape. */
#include "base/json.h"
#include "base/json_text.h"

static int json_continues(const unsigned char *at, size_t n)
{
    while (n-- > 0)
        if ((*at++ & 0xC0) != 0x80)
            return 0;
    return 1;
}

/* The length of the sequence that begins with a byte of 0x80 or more; 0 when it is not valid. */
static size_t json_utf8_sequence(const unsigned char *at, size_t left)
{
    size_t size = at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
    if (at[0] < 0xC2 || at[0] > 0xF4 || left < size || !json_continues(at + 1, size - 1))
        return 0;
    if ((at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xF0 && at[1] < 0x90))
        return 0; /* longer than it need be */
    if ((at[0] == 0xED && at[1] > 0x9F) || (at[0] == 0xF4 && at[1] > 0x8F))
        return 0; /* a surrogate, or beyond U+10FFFF */
    return size;
}

size_t srt_json_utf8_prefix(const char *text, size_t len)
{
    size_t at = 0, size;
    while (at < len) {
        if (len - at >= 8 && !(srt_json_load8(text + at) & SRT_JSON_HIGH_BITS)) {
            at += 8;
        } else if (!(text[at] & 0x80)) {
            at++;
        } else {
            size = json_utf8_sequence((const unsigned char *)text + at, len - at);
            if (size == 0)
                break;
            at += size;
        }
    }
    return at;
}

int srt_utf8_valid(const char *text, size_t len)
{
    return srt_json_utf8_prefix(text, len) == len;
}

size_t srt_utf8_size(const char *text, size_t len)
{
    if (len == 0)
        return 0;
    return (unsigned char)text[0] < 0x80 ? 1 : json_utf8_sequence((const unsigned char *)text, len);
}

size_t srt_json_plain_run(const char *text, size_t len, int *ascii)
{
    uint64_t seen = 0;
    size_t at = 0;
    for (; len - at >= 8; at += 8) {
        uint64_t word = srt_json_load8(text + at);
        if (srt_json_any_special(word))
            break;
        seen |= word;
    }
    for (; at < len && srt_json_is_plain(text[at]); at++)
        seen |= (unsigned char)text[at];
    *ascii = !(seen & SRT_JSON_HIGH_BITS);
    return at;
}

/* The letter of a two-character escape, or 0. */
static char json_escape_letter(char c)
{
    switch (c) {
    case '\b':
        return 'b';
    case '\t':
        return 't';
    case '\n':
        return 'n';
    case '\f':
        return 'f';
    case '\r':
        return 'r';
    case '"':
    case '\\':
        return c;
    default:
        return 0;
    }
}

size_t srt_json_put_escape(char *at, char c)
{
    static const char hex[] = "0123456789abcdef";
    char letter = json_escape_letter(c);
    at[0] = '\\';
    if (letter) {
        at[1] = letter;
        return 2;
    }
    memcpy(at + 1, "u00", 3);
    at[4] = hex[(unsigned char)c >> 4];
    at[5] = hex[c & 15];
    return 6;
}

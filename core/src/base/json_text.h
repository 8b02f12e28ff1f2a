/* json_text.h - UTF-8 and the escapes of JSON strings, for the writer and the reader. */
#ifndef SRT_JSON_TEXT_H
#define SRT_JSON_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SRT_JSON_EACH_BYTE 0x0101010101010101u /* times n: n in each byte of a word */
#define SRT_JSON_HIGH_BITS 0x8080808080808080u

static inline uint64_t srt_json_load8(const char *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

/* Non-zero when some byte of the word is below n (n <= 128). */
static inline uint64_t srt_json_any_below(uint64_t word, unsigned n)
{
    return (word - SRT_JSON_EACH_BYTE * n) & ~word & SRT_JSON_HIGH_BITS;
}

/* Non-zero when some byte of the word must be escaped. */
static inline uint64_t srt_json_any_special(uint64_t word)
{
    return srt_json_any_below(word, 0x20) | srt_json_any_below(word ^ (SRT_JSON_EACH_BYTE * '"'), 1) |
           srt_json_any_below(word ^ (SRT_JSON_EACH_BYTE * '\\'), 1);
}

/* Returns 1 if this ASCII character needs no escape in a JSON string. */
static inline int srt_json_is_plain(char c)
{
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

/* Writes the escape of a character that must have one. `at` has room for 6 bytes; returns how many were written. */
size_t srt_json_put_escape(char *at, char c);
/* Returns how many leading bytes need no escape; *ascii says whether all of them are ASCII. */
size_t srt_json_plain_run(const char *text, size_t len, int *ascii);
/* Returns how many leading bytes are valid UTF-8. */
size_t srt_json_utf8_prefix(const char *text, size_t len);

#endif

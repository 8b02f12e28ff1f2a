/* json.h - the text of numbers and UTF-8, beside the writer and the reader of seriatim/binding/json.h. */
#ifndef SRT_JSON_H
#define SRT_JSON_H

#include "base/bytes.h"
#include "base/status.h"
#include "seriatim/binding/json.h"

#define SRT_JSON_DOUBLE_SIZE 32 /* room for the text of any double */

/* 1 when the bytes are UTF-8 as RFC 3629 has it: shortest forms, no surrogates, up to U+10FFFF. */
int srt_utf8_valid(const char *text, size_t len);
/* Bytes of the first character; 0: it is not valid, or there is none. */
size_t srt_utf8_size(const char *text, size_t len);

/* The ECMAScript text of a finite double, NUL-terminated, in any locale. Returns its length. */
size_t srt_json_double_text(double value, char text[SRT_JSON_DOUBLE_SIZE]);

#endif

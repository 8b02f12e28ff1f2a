/* json.h - the text of numbers and UTF-8, beside the writer and the reader of seriatim/binding/json.h. */
#ifndef SRT_JSON_H
#define SRT_JSON_H

#include "base/bytes.h"
#include "base/status.h"
#include "seriatim/binding/json.h"

#define SRT_JSON_DOUBLE_SIZE 32 /* room for the text of any double */

/* Returns 1 if the bytes are UTF-8 as RFC 3629 defines it: shortest forms, no surrogates, up to U+10FFFF. */
int srt_utf8_valid(const char *text, size_t len);
/* Returns the number of bytes of the first character; 0 if it is not valid or the text is empty. */
size_t srt_utf8_size(const char *text, size_t len);

/* The ECMAScript text of a finite double, NUL-terminated, in any locale. Returns its length. */
size_t srt_json_double_text(double value, char text[SRT_JSON_DOUBLE_SIZE]);

#endif

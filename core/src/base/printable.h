/* printable.h - text as a terminal and a log of lines may show it. */
#ifndef SRT_PRINTABLE_H
#define SRT_PRINTABLE_H

#include "seriatim.h"

#define SRT_PRINTABLE_MOST 6 /* bytes that one character becomes, with room for any that stays as it is */

/* Writes the first character of the text (len > 0) to out, which has room for SRT_PRINTABLE_MOST bytes. Returns how
 * many bytes of the text it was; *written: how many bytes it became. */
size_t srt_printable_next(const char *text, size_t len, char *out, size_t *written);
/* Writes as much of the text as fits, escaped as by seriatim_printable and cut between characters, and "..." behind
 * what is cut. cap: bytes of out, with the final NUL; at least 4. */
void srt_printable_start(const char *text, size_t len, char *out, size_t cap);

#endif

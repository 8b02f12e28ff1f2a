/* seriatim/binding/bytes.h - a growing buffer. */
#ifndef SERIATIM_BINDING_BYTES_H
#define SERIATIM_BINDING_BYTES_H

#include "seriatim.h"

/*
 * A growing buffer. A failed append leaves the contents as they were and sets `failed`, which stays
 * until srt_bytes_clear: a writer appends freely and asks once at the end.
 */
typedef struct srt_bytes {
    const seriatim_allocator *mem;
    char *data;
    size_t len, cap;
    int failed;
} srt_bytes;

void srt_bytes_init(srt_bytes *b, const seriatim_allocator *mem);
void srt_bytes_free(srt_bytes *b);
void srt_bytes_clear(srt_bytes *b);                 /* keeps the memory */
char *srt_bytes_reserve(srt_bytes *b, size_t more); /* room for `more` at the end, or NULL */
void srt_bytes_add(srt_bytes *b, const void *data, size_t len);
void srt_bytes_addc(srt_bytes *b, char c);
void srt_bytes_adds(srt_bytes *b, const char *text); /* NUL-terminated */
void srt_bytes_add_int(srt_bytes *b, int64_t value); /* decimal text */
void srt_bytes_consume(srt_bytes *b, size_t n);      /* drops the first n bytes */
int srt_bytes_equal(const srt_bytes *b, const void *data, size_t len);

#endif

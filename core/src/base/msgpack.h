/* msgpack.h - arrays of texts as Redis' cmsgpack writes them. */
#ifndef SRT_MSGPACK_H
#define SRT_MSGPACK_H

#include "base/bytes.h"

/* The bytes that are not read yet. */
typedef struct srt_texts {
    const unsigned char *at, *end;
    size_t count;
} srt_texts;

/* Reads the head of an array. SERIATIM_OK, or SERIATIM_PROTOCOL if the bytes are not an array. */
int srt_texts_begin(srt_texts *texts, const char *data, size_t len);
/* Reads the next of `count` texts, which is borrowed. SERIATIM_PROTOCOL: no text is left, or it is damaged. */
int srt_texts_next(srt_texts *texts, const char **text, size_t *len);

#endif

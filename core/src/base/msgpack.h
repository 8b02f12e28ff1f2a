/* msgpack.h - arrays of texts as Redis' cmsgpack writes them. */
#ifndef SRT_MSGPACK_H
#define SRT_MSGPACK_H

#include "base/bytes.h"

/* What is left to read. */
typedef struct srt_texts {
    const unsigned char *at, *end;
    size_t count;
} srt_texts;

/* SERIATIM_OK, or SERIATIM_PROTOCOL when it is no array. */
int srt_texts_begin(srt_texts *texts, const char *data, size_t len);
/* The next of `count` texts, borrowed. SERIATIM_PROTOCOL: there is none, nor will be. */
int srt_texts_next(srt_texts *texts, const char **text, size_t *len);

#endif

/*
 * resp.h - writes commands as RESP, and reads replies into a flat list of tokens (the tape). Only resp.c and resp.h use
 * hiredis.
 */
#ifndef SRT_RESP_H
#define SRT_RESP_H

#include "base/bytes.h"
#include "base/status.h"

typedef enum srt_token_type { SRT_STRING, SRT_STATUS_LINE, SRT_ERROR, SRT_INTEGER, SRT_ARRAY, SRT_NIL } srt_token_type;

/*
 * SRT_ARRAY: `integer` is the number of elements, which follow on the tape. Strings end with a NUL that `len` leaves
 * out.
 */
typedef struct srt_token {
    srt_token_type type;
    int64_t integer;
    const char *data;
    size_t len;
} srt_token;

/* One whole reply: tokens[0] is its root. Valid until the reader's next call. */
typedef struct srt_reply {
    const srt_token *tokens;
    size_t count;
} srt_reply;

/* Append a bulk string, and an integer as a bulk string. */
size_t srt_resp_arg_size(size_t len);          /* encoded size of a bulk string of `len` bytes */
char *srt_resp_put_head(char *at, size_t len); /* what stands before them; returns where they begin */
void srt_resp_arg(srt_bytes *out, const void *data, size_t len);
void srt_resp_arg_int(srt_bytes *out, int64_t value);
void srt_resp_array(srt_bytes *out, size_t count);

typedef struct srt_reader srt_reader;

/* NULL when out of memory. */
srt_reader *srt_reader_new(const seriatim_allocator *mem);
void srt_reader_free(srt_reader *r);

/* Takes bytes from Redis. SERIATIM_OK, SERIATIM_NOMEM or SERIATIM_PROTOCOL. */
int srt_reader_feed(srt_reader *r, const char *data, size_t len);

/* The next whole reply: SERIATIM_OK, SERIATIM_AGAIN (feed more), SERIATIM_NOMEM or SERIATIM_PROTOCOL (close). */
int srt_reader_next(srt_reader *r, srt_reply *reply, seriatim_error *error);

/* Moves the memory that the last reply's strings lie in to the caller, who frees the arena. */
srt_arena srt_reader_take(srt_reader *r);

/* FOREVER of core/scripts/lib/prelude.lua: no number of a script goes beyond */
#define SRT_FOREVER INT64_C(9000000000000000)

/* Returns a string or integer token as a number between -SRT_FOREVER and SRT_FOREVER; 0 for other tokens. */
int64_t srt_token_int(const srt_token *token);
int srt_token_is(const srt_token *token, const char *text);
/* Is the reply an array of at least `count` elements (tokens[1] to tokens[count]), all of them strings or integers? */
int srt_reply_is_list(const srt_reply *reply, size_t count);

/* The status of an error reply by its first word, with its text in error. */
int srt_reply_status(const srt_token *token, seriatim_error *error);

#endif

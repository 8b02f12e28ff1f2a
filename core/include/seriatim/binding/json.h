/* seriatim/binding/json.h - canonical JSON: a writer and a pull reader, driven value by value by a binding. */
#ifndef SERIATIM_BINDING_JSON_H
#define SERIATIM_BINDING_JSON_H

#include "seriatim/binding/bytes.h"

#define SRT_JSON_DEPTH 128 /* how many arrays and objects may lie inside each other */

/*
 * The writer appends one value to `out` as RFC 8785 bytes, with one extension: an int64 is written
 * as its decimal digits, exactly. The caller may give members in any order; sorted ones cost least.
 *
 * Every call returns SERIATIM_OK, SERIATIM_INVALID (the message names the rule) or SERIATIM_NOMEM.
 * The first failure stays: later calls return it and change nothing, so a caller may write on
 * freely and look at srt_json_finish alone. The path then still tells where it happened.
 */
typedef struct srt_json_member {
    size_t start, len; /* in out: from the key's opening quote to the end of the value */
} srt_json_member;

typedef struct srt_json_level {
    char kind;           /* '[', '{', or 0 for the top */
    char keyed;          /* a key waits for its value */
    char unsorted;       /* some key came after a greater one */
    size_t start;        /* in out: behind the opening bracket */
    size_t key;          /* in out: the latest key's opening quote */
    size_t count;        /* complete values */
    size_t first_member; /* in members */
    const void *made_of; /* as srt_json_made_of said, or NULL */
} srt_json_level;

typedef struct srt_json_writer {
    srt_bytes *out;
    const char *root; /* what the path begins with */
    size_t start;     /* in out: where this writer's value begins */
    seriatim_error error;
    srt_json_member *members; /* of all open objects */
    size_t member_count, member_cap;
    srt_bytes sorting;
    const void *made_of; /* of the next array or object */
    size_t depth;
    srt_json_level levels[SRT_JSON_DEPTH + 1];
} srt_json_writer;

/* `out` and `root` (a name such as "payload", or "") are borrowed as long as the writer is used. */
void srt_json_writer_init(srt_json_writer *w, srt_bytes *out, const char *root);
void srt_json_writer_reset(srt_json_writer *w); /* for a next value at out's end; keeps memory */
void srt_json_writer_free(srt_json_writer *w);  /* out remains the caller's */

/* The host's value that the next array or object is made of; only its address is compared. With it a value that
 * contains itself is refused as such, else as one that is too deep. */
void srt_json_made_of(srt_json_writer *w, const void *value);
int srt_json_begin_array(srt_json_writer *w);
int srt_json_end_array(srt_json_writer *w);
int srt_json_begin_object(srt_json_writer *w);
int srt_json_end_object(srt_json_writer *w);
int srt_json_key(srt_json_writer *w, const char *text, size_t len);
int srt_json_string(srt_json_writer *w, const char *text, size_t len);
int srt_json_int(srt_json_writer *w, int64_t value);
int srt_json_double(srt_json_writer *w, double value);
int srt_json_bool(srt_json_writer *w, int value);
int srt_json_null(srt_json_writer *w);
/* One value as its text stands, byte for byte. The caller knows that it is JSON. */
int srt_json_text(srt_json_writer *w, const char *text, size_t len);
/* Asks that exactly one whole value was written. After a failure out is as long as before. */
int srt_json_finish(srt_json_writer *w);

/*
 * Where the next value would stand or, after a failure, the value that was refused:
 * `payload.items[3].at`, `payload["two words"]`. Cut between characters to fit `size`, always
 * NUL-terminated; returns the length. Reads out, so ask before out is changed by anything else.
 */
size_t srt_json_writer_path(const srt_json_writer *w, char *text, size_t size);

/*
 * The reader takes complete bytes that hold one JSON text (RFC 8259, strictly) and gives a token a
 * call. Integral numbers are integers: `1`, `-0`, `1.0` and `1e3` are INT when they lie within
 * int64; integral text beyond it is a DOUBLE. A fraction that no double can tell from an integer
 * within int64 is that INT, so what is written again reads as the same token. A number too great
 * for a double is refused. Duplicate keys are not looked for.
 */
typedef enum srt_json_type {
    SRT_JSON_BEGIN_ARRAY,
    SRT_JSON_END_ARRAY,
    SRT_JSON_BEGIN_OBJECT,
    SRT_JSON_END_OBJECT,
    SRT_JSON_KEY,
    SRT_JSON_STRING,
    SRT_JSON_INT,
    SRT_JSON_DOUBLE,
    SRT_JSON_TRUE,
    SRT_JSON_FALSE,
    SRT_JSON_NULL,
    SRT_JSON_END
} srt_json_type;

typedef struct srt_json_token {
    srt_json_type type;
    const char *text; /* KEY, STRING: UTF-8, may hold NUL; borrowed until the next srt_json_next */
    size_t len;
    int64_t integer; /* INT */
    double number;   /* DOUBLE */
    int is_integer;  /* DOUBLE: its text has neither a fraction nor an exponent, so it is an integer beyond int64 */
} srt_json_token;

typedef struct srt_json_reader {
    const char *data;
    size_t len, at;
    int expects; /* what may stand next; json_reader.c knows the names */
    size_t depth;
    srt_bytes scratch; /* a string that held escapes */
    seriatim_error error;
    char open[SRT_JSON_DEPTH]; /* '[' or '{' */
} srt_json_reader;

/* `data` is borrowed as long as the reader is used. */
void srt_json_reader_init(srt_json_reader *r, const seriatim_allocator *mem, const char *data, size_t len);
void srt_json_reader_reset(srt_json_reader *r, const char *data, size_t len); /* keeps the memory */
void srt_json_reader_free(srt_json_reader *r);

/*
 * SERIATIM_OK and the next token, END after the last one and ever after; SERIATIM_INVALID with a
 * message that names the byte and the rule; SERIATIM_NOMEM. A failure stays.
 */
int srt_json_next(srt_json_reader *r, srt_json_token *token);

typedef enum srt_json_beyond {
    SRT_JSON_ROUND, /* an integer beyond int64 is the nearest double, as the reader gives it */
    SRT_JSON_REFUSE /* it is refused, as a push refuses that of a language */
} srt_json_beyond;

/*
 * Copies the value that begins with `first`, of at most `depth` arrays and objects inside each other, from the reader
 * to the writer. OK, INVALID or NOMEM; the message is the reader's, or the writer's with the place in its path.
 */
int srt_json_copy(srt_json_reader *r, const srt_json_token *first, srt_json_writer *w, size_t depth,
                  srt_json_beyond beyond);
/*
 * Asks whether the bytes are one JSON text that srt_json_copy copies. OK; INVALID, with a message that names the byte,
 * or the place below `root`; NOMEM. `error` may be NULL.
 */
int srt_json_check(const seriatim_allocator *mem, const char *data, size_t len, const char *root, size_t depth,
                   srt_json_beyond beyond, seriatim_error *error);

#endif

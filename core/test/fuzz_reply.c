/*
 * fuzz_reply.c - libFuzzer target: a stream of replies reads the same whole and in pieces, and numbers stay within it.
 */
#include "fuzz.h"
#include "wire/resp.h"

/* What was read, as bytes to compare. */
typedef struct reading {
    srt_reader *reader;
    srt_bytes tape;
    int status; /* OK: goes on */
} reading;

static void write_down(srt_bytes *tape, const srt_token *t)
{
    srt_bytes_addc(tape, (char)t->type);
    srt_bytes_add_int(tape, t->type == SRT_STRING || t->type == SRT_ERROR || t->type == SRT_STATUS_LINE
                                ? (int64_t)t->len
                                : t->integer);
    if (t->type == SRT_STRING || t->type == SRT_ERROR || t->type == SRT_STATUS_LINE) {
        FUZZ_CHECK(t->data[t->len] == '\0');
        srt_bytes_add(tape, t->data, t->len);
    }
    srt_bytes_add_int(tape, srt_token_int(t));
}

/* The tape holds one whole reply: every array has its elements. Returns the place behind it. */
static size_t whole(const srt_reply *reply, size_t at)
{
    int64_t i;
    FUZZ_CHECK(at < reply->count);
    if (reply->tokens[at].type != SRT_ARRAY)
        return at + 1;
    for (i = reply->tokens[at++].integer; i > 0; i--)
        at = whole(reply, at);
    return at;
}

static void feed(reading *r, const uint8_t *data, size_t size)
{
    char *exact = malloc(size ? size : 1);
    seriatim_error error;
    srt_reply reply;
    size_t i;
    FUZZ_CHECK(exact);
    memcpy(exact, data, size);
    if (r->status == SERIATIM_OK)
        r->status = srt_reader_feed(r->reader, exact, size);
    free(exact);
    while (r->status == SERIATIM_OK && (r->status = srt_reader_next(r->reader, &reply, &error)) == SERIATIM_OK) {
        FUZZ_CHECK(whole(&reply, 0) == reply.count);
        for (i = 0; i < reply.count; i++)
            write_down(&r->tape, &reply.tokens[i]);
        if (reply.tokens[0].type == SRT_ERROR)
            srt_bytes_add_int(&r->tape, srt_reply_status(&reply.tokens[0], &error));
    }
    if (r->status == SERIATIM_AGAIN)
        r->status = SERIATIM_OK;
}

static void open_reading(reading *r)
{
    r->reader = srt_reader_new(seriatim_default_allocator());
    FUZZ_CHECK(r->reader);
    srt_bytes_init(&r->tape, seriatim_default_allocator());
    r->status = SERIATIM_OK;
}

static void close_reading(reading *r)
{
    srt_bytes_free(&r->tape);
    srt_reader_free(r->reader);
}

/* The first byte says how the pieces are cut. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reading whole_feed, pieces;
    size_t at, piece;
    unsigned cut;
    if (size == 0)
        return 0;
    cut = data[0];
    data++, size--;
    open_reading(&whole_feed);
    open_reading(&pieces);
    feed(&whole_feed, data, size);
    for (at = 0; at < size; at += piece) {
        piece = cut % 16 == 0 ? 1 : 1 + (cut = cut * 29 + 7) % 16;
        piece = piece < size - at ? piece : size - at;
        feed(&pieces, data + at, piece);
    }
    FUZZ_CHECK(pieces.status == whole_feed.status);
    FUZZ_CHECK(pieces.tape.len == whole_feed.tape.len &&
               (pieces.tape.len == 0 || memcmp(pieces.tape.data, whole_feed.tape.data, pieces.tape.len) == 0));
    close_reading(&whole_feed);
    close_reading(&pieces);
    return 0;
}

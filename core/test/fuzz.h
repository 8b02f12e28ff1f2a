/* fuzz.h - what fuzz targets share: values out of the input's bytes, and replies of Redis made of them. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

#define FUZZ_UNUSED __attribute__((unused))

/* A target's promise is broken: the fuzzer keeps the input. */
#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            abort();                                                                                                   \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes that are eaten from the front; zeros after the last. */
typedef struct fuzz_input {
    const uint8_t *data;
    size_t left;
} fuzz_input;

static FUZZ_UNUSED unsigned fuzz_byte(fuzz_input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->data++;
}

static FUZZ_UNUSED unsigned fuzz_below(fuzz_input *in, unsigned below)
{
    return fuzz_byte(in) % below;
}

/* One in four is extreme. */
static FUZZ_UNUSED int64_t fuzz_int(fuzz_input *in)
{
    static const int64_t edges[] = {0,    1,         -1,        1000,      1001,      4096,
                                    4097, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 9000000000000000};
    unsigned kind = fuzz_byte(in);
    uint64_t value = 0;
    unsigned i;
    if (kind % 4 == 0)
        return edges[kind / 4 % (sizeof edges / sizeof *edges)];
    for (i = 0; i < (kind % 4 == 1 ? 1u : kind / 4 % 9); i++)
        value = value << 8 | fuzz_byte(in);
    return (int64_t)value;
}

/* Any bits, NaN and infinities as well. */
static FUZZ_UNUSED double fuzz_double(fuzz_input *in)
{
    unsigned kind = fuzz_byte(in);
    uint64_t bits = 0;
    double value;
    unsigned i;
    if (kind % 2)
        return (double)fuzz_int(in) / (kind % 4 == 1 ? 1.0 : 8.0);
    for (i = 0; i < 8; i++)
        bits = bits << 8 | fuzz_byte(in);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A text of its own memory, exactly as long as it is, and a NUL behind when `terminated` asks; free it. */
static FUZZ_UNUSED char *fuzz_text(fuzz_input *in, size_t limit, int terminated, size_t *len)
{
    size_t wanted = fuzz_byte(in);
    char *text;
    if (wanted >= 250)
        wanted = (wanted - 249) * 256;
    wanted = wanted % (limit + 1);
    *len = wanted < in->left ? wanted : in->left;
    text = malloc(*len + 1);
    FUZZ_CHECK(text);
    if (*len)
        memcpy(text, in->data, *len);
    text[*len] = '\0';
    in->data += *len;
    in->left -= *len;
    if (!terminated) {
        char *exact = realloc(text, *len ? *len : 1);
        text = exact ? exact : text;
    }
    return text;
}

/* So that the sanitizers look at every byte. */
static FUZZ_UNUSED unsigned fuzz_sum(const void *data, size_t len)
{
    const volatile unsigned char *bytes = data;
    unsigned sum = 0;
    size_t i;
    for (i = 0; i < len; i++)
        sum += bytes[i];
    return sum;
}

/* ---- Replies ------------------------------------------------------------------------------- */

static FUZZ_UNUSED void fuzz_bulk(srt_bytes *out, const void *data, size_t len)
{
    srt_bytes_addc(out, '$');
    srt_bytes_add_int(out, (int64_t)len);
    srt_bytes_add(out, "\r\n", 2);
    srt_bytes_add(out, data, len);
    srt_bytes_add(out, "\r\n", 2);
}

static FUZZ_UNUSED void fuzz_number(srt_bytes *out, char type, int64_t value)
{
    srt_bytes_addc(out, type);
    srt_bytes_add_int(out, value);
    srt_bytes_add(out, "\r\n", 2);
}

static FUZZ_UNUSED void fuzz_bulk_int(srt_bytes *out, int64_t value)
{
    char digits[24];
    srt_bytes text = {NULL, digits, 0, sizeof digits, 0};
    srt_bytes_add_int(&text, value);
    fuzz_bulk(out, text.data, text.len);
}

static FUZZ_UNUSED void fuzz_error(srt_bytes *out, fuzz_input *in)
{
    static const char *const words[] = {
        "-ERR wrong\r\n", "-GENERATION 2\r\n", "-GENERATION x\r\n", "-STALE n2\r\n",
        "-OOM x\r\n",     "-READONLY You\r\n", "-LOADING x\r\n",    "-NOAUTH x\r\n",
        "-BUSY x\r\n",    "-NOSCRIPT x\r\n",   "-WRONGTYPE x\r\n",  "-NOPERM x\r\n",
        "-\r\n",          "-MISCONF x\r\n",    "-MOVED 1 a:1\r\n",  "-CLUSTERDOWN x\r\n"};
    srt_bytes_adds(out, words[fuzz_below(in, sizeof words / sizeof *words)]);
}

static FUZZ_UNUSED void fuzz_little_endian(srt_bytes *out, uint64_t value, unsigned bytes)
{
    for (; bytes > 0; bytes--, value >>= 8)
        srt_bytes_addc(out, (char)(value & 255));
}

static FUZZ_UNUSED void fuzz_packed_double(srt_bytes *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    fuzz_little_endian(out, bits, 8);
}

/* An entry as core/scripts/lib/record.lua packs it; now and then its lengths lie. */
static FUZZ_UNUSED void fuzz_entry(srt_bytes *out, fuzz_input *in)
{
    unsigned context = fuzz_below(in, 9), payload = fuzz_below(in, 40), lie = fuzz_below(in, 16) == 1;
    fuzz_packed_double(out, fuzz_double(in));
    fuzz_packed_double(out, fuzz_double(in));
    fuzz_little_endian(out, context + (lie ? fuzz_byte(in) << 24 : 0), 4);
    while (context-- > 0)
        srt_bytes_addc(out, (char)fuzz_byte(in));
    fuzz_little_endian(out, payload + (lie ? 1 : 0), 4);
    while (payload-- > 0)
        srt_bytes_addc(out, (char)fuzz_byte(in));
}

/* A record as core/scripts/lib/record.lua packs it, of any form, mostly whole. */
static FUZZ_UNUSED void fuzz_record(srt_bytes *out, fuzz_input *in)
{
    unsigned form = fuzz_below(in, 4), entries = fuzz_below(in, 5), error = fuzz_below(in, 9), i;
    srt_bytes_addc(out, (char)(fuzz_below(in, 4) + 4 * form));
    fuzz_packed_double(out, fuzz_double(in));
    if (form < 2) {
        if (form == 1)
            fuzz_packed_double(out, fuzz_double(in));
        for (i = 0; i < entries; i++)
            srt_bytes_addc(out, (char)fuzz_byte(in));
        return;
    }
    fuzz_little_endian(out, (uint64_t)fuzz_int(in), 4);
    srt_bytes_addc(out, (char)fuzz_below(in, 8));
    fuzz_little_endian(out, fuzz_below(in, 16) == 1 ? (uint64_t)fuzz_int(in) : entries, 4);
    fuzz_little_endian(out, error, 4);
    while (error-- > 0)
        srt_bytes_addc(out, (char)fuzz_byte(in));
    for (i = 0; form == 2 && i < entries; i++)
        fuzz_entry(out, in);
}

/* Any reply; arrays nest up to `depth`. */
static FUZZ_UNUSED void fuzz_reply(srt_bytes *out, fuzz_input *in, int depth)
{
    srt_bytes part;
    unsigned kind = fuzz_below(in, 10), count;
    srt_bytes_init(&part, seriatim_default_allocator());
    if (kind == 0) {
        fuzz_error(out, in);
    } else if (kind == 1) {
        srt_bytes_adds(out, fuzz_below(in, 2) ? "$-1\r\n" : "+OK\r\n");
    } else if (kind == 2) {
        fuzz_number(out, ':', fuzz_int(in));
    } else if (kind == 3) {
        fuzz_bulk_int(out, fuzz_int(in));
    } else if (kind == 4) {
        fuzz_record(&part, in);
        fuzz_bulk(out, part.data, part.len);
    } else if (kind >= 7 && depth > 0) {
        count = fuzz_below(in, 24);
        fuzz_number(out, '*', (int64_t)count);
        while (count-- > 0)
            fuzz_reply(out, in, depth - 1);
    } else {
        for (count = fuzz_below(in, 48); count > 0 && in->left; count--)
            srt_bytes_addc(&part, (char)fuzz_byte(in));
        fuzz_bulk(out, part.data, part.len);
    }
    srt_bytes_free(&part);
}

#endif

/* msgpack.c - reads arrays of texts as Redis' cmsgpack writes them, never past the end. */
#include "base/msgpack.h"

/* Reads a big-endian length of `bytes` bytes. Returns 0 if fewer are left. */
static int texts_length(srt_texts *t, size_t bytes, size_t *length)
{
    size_t i;
    if ((size_t)(t->end - t->at) < bytes)
        return 0;
    for (*length = 0, i = 0; i < bytes; i++)
        *length = *length << 8 | t->at[i];
    t->at += bytes;
    return 1;
}

int srt_texts_begin(srt_texts *t, const char *data, size_t len)
{
    int kind;
    t->at = (const unsigned char *)data;
    t->end = t->at + len;
    t->count = 0;
    if (len == 0)
        return SERIATIM_PROTOCOL;
    kind = *t->at++;
    if (kind >= 0x90 && kind <= 0x9f)
        t->count = (size_t)kind & 0x0f;
    else if (kind != 0xdc && kind != 0xdd)
        return SERIATIM_PROTOCOL;
    else if (!texts_length(t, kind == 0xdc ? 2 : 4, &t->count))
        return SERIATIM_PROTOCOL;
    return SERIATIM_OK;
}

static int texts_fail(srt_texts *t)
{
    t->count = 0;
    return SERIATIM_PROTOCOL;
}

int srt_texts_next(srt_texts *t, const char **text, size_t *len)
{
    int kind = t->count > 0 && t->at < t->end ? *t->at++ : 0;
    if (kind >= 0xa0 && kind <= 0xbf)
        *len = (size_t)kind & 0x1f;
    else if (kind < 0xd9 || kind > 0xdb || !texts_length(t, (size_t)1 << (kind - 0xd9), len))
        return texts_fail(t);
    if ((size_t)(t->end - t->at) < *len)
        return texts_fail(t);
    *text = (const char *)t->at;
    t->at += *len;
    t->count--;
    return SERIATIM_OK;
}

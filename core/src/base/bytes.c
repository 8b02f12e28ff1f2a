/* bytes.c - a growing buffer and an arena over one allocator function. */
#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

static void *default_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    (void)user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

const seriatim_allocator *seriatim_default_allocator(void)
{
    static const seriatim_allocator allocator = {default_alloc, NULL};
    return &allocator;
}

void *srt_realloc(const seriatim_allocator *mem, void *ptr, size_t old_size, size_t new_size)
{
    return mem->alloc(mem->user, ptr, old_size, new_size);
}

void *srt_alloc(const seriatim_allocator *mem, size_t size)
{
    void *ptr = srt_realloc(mem, NULL, 0, size);
    if (ptr)
        memset(ptr, 0, size);
    return ptr;
}

void srt_free(const seriatim_allocator *mem, void *ptr, size_t size)
{
    if (ptr)
        mem->alloc(mem->user, ptr, size, 0);
}

int srt_grow(const seriatim_allocator *mem, void **items, size_t *cap, size_t need, size_t item_size)
{
    size_t want = *cap ? *cap : 8;
    void *grown;
    if (need <= *cap)
        return SERIATIM_OK;
    while (want < need) {
        if (want > SIZE_MAX / 2 / item_size)
            return SERIATIM_NOMEM;
        want *= 2;
    }
    grown = srt_realloc(mem, *items, *cap * item_size, want * item_size);
    if (!grown)
        return SERIATIM_NOMEM;
    *items = grown;
    *cap = want;
    return SERIATIM_OK;
}

void srt_bytes_init(srt_bytes *b, const seriatim_allocator *mem)
{
    memset(b, 0, sizeof *b);
    b->mem = mem;
}

void srt_bytes_free(srt_bytes *b)
{
    srt_free(b->mem, b->data, b->cap);
    srt_bytes_init(b, b->mem);
}

void srt_bytes_clear(srt_bytes *b)
{
    b->len = 0;
    b->failed = 0;
}

char *srt_bytes_reserve(srt_bytes *b, size_t more)
{
    void *data = b->data;
    if (more == 0)
        return b->failed || !b->data ? NULL : b->data + b->len;
    if (b->failed || more > SIZE_MAX - b->len || srt_grow(b->mem, &data, &b->cap, b->len + more, 1) != SERIATIM_OK) {
        b->failed = 1;
        return NULL;
    }
    b->data = data;
    return b->data + b->len;
}

void srt_bytes_add(srt_bytes *b, const void *data, size_t len)
{
    char *at = srt_bytes_reserve(b, len);
    if (!at || len == 0)
        return;
    memcpy(at, data, len);
    b->len += len;
}

void srt_bytes_addc(srt_bytes *b, char c)
{
    srt_bytes_add(b, &c, 1);
}

void srt_bytes_adds(srt_bytes *b, const char *text)
{
    srt_bytes_add(b, text, strlen(text));
}

void srt_bytes_add_int(srt_bytes *b, int64_t value)
{
    char text[20], *at = text + sizeof text;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0)
        srt_bytes_addc(b, '-');
    srt_bytes_add(b, at, (size_t)(text + sizeof text - at));
}

void srt_bytes_consume(srt_bytes *b, size_t n)
{
    b->len -= n;
    if (b->len)
        memmove(b->data, b->data + n, b->len);
}

int srt_bytes_equal(const srt_bytes *b, const void *data, size_t len)
{
    return b->len == len && (len == 0 || memcmp(b->data, data, len) == 0);
}

#define ARENA_BLOCK ((size_t)16 * 1024)

struct srt_arena_block {
    srt_arena_block *next;
    size_t size, used; /* size: of the whole block, this header included */
};

void srt_arena_init(srt_arena *a, const seriatim_allocator *mem)
{
    a->mem = mem;
    a->head = NULL;
}

void srt_arena_free(srt_arena *a)
{
    while (a->head) {
        srt_arena_block *next = a->head->next;
        srt_free(a->mem, a->head, a->head->size);
        a->head = next;
    }
}

void srt_arena_join(srt_arena *a, srt_arena *other)
{
    srt_arena_block *last = other->head;
    if (!last)
        return;
    while (last->next)
        last = last->next;
    last->next = a->head;
    a->head = other->head;
    other->head = NULL;
}

void srt_arena_reset(srt_arena *a)
{
    srt_arena_block *keep = NULL;
    while (a->head) {
        srt_arena_block *block = a->head;
        a->head = block->next;
        if (!keep && block->size == ARENA_BLOCK)
            keep = block;
        else
            srt_free(a->mem, block, block->size);
    }
    if (keep) {
        keep->next = NULL;
        keep->used = sizeof *keep;
    }
    a->head = keep;
}

void *srt_arena_alloc(srt_arena *a, size_t size)
{
    srt_arena_block *block = a->head;
    size_t need;
    void *at;
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + 7) & ~(size_t)7;
    if (!block || block->size - block->used < size) {
        need = size + sizeof *block > ARENA_BLOCK ? size + sizeof *block : ARENA_BLOCK;
        block = srt_realloc(a->mem, NULL, 0, need);
        if (!block)
            return NULL;
        block->size = need;
        block->used = sizeof *block;
        block->next = a->head;
        a->head = block;
    }
    at = (char *)block + block->used;
    block->used += size;
    return at;
}

void *srt_arena_copy(srt_arena *a, const void *data, size_t len)
{
    char *copy = srt_arena_alloc(a, len + 1);
    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, data, len);
    copy[len] = '\0';
    return copy;
}

double srt_little_double(const char *data)
{
    const unsigned char *at = (const unsigned char *)data;
    uint64_t bits = 0;
    double value;
    size_t i;
    for (i = 0; i < sizeof bits; i++)
        bits |= (uint64_t)at[i] << (8 * i);
    memcpy(&value, &bits, sizeof value);
    return value;
}

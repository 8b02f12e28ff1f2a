/* bytes.h - memory over one allocator function: allocations, an arena, and the buffer of seriatim/binding/bytes.h. */
#ifndef SRT_BYTES_H
#define SRT_BYTES_H

#include "seriatim/binding/bytes.h"

void *srt_alloc(const seriatim_allocator *mem, size_t size); /* zeroed; NULL when out of memory */
void *srt_realloc(const seriatim_allocator *mem, void *ptr, size_t old_size, size_t new_size);
void srt_free(const seriatim_allocator *mem, void *ptr, size_t size);

/* Grows *items to hold `need` elements, doubling. SERIATIM_OK or SERIATIM_NOMEM (array untouched). */
int srt_grow(const seriatim_allocator *mem, void **items, size_t *cap, size_t need, size_t item_size);

/* Many small allocations that die together. Blocks never move. */
typedef struct srt_arena_block srt_arena_block;
typedef struct srt_arena {
    const seriatim_allocator *mem;
    srt_arena_block *head;
} srt_arena;

void srt_arena_init(srt_arena *a, const seriatim_allocator *mem);
void srt_arena_free(srt_arena *a);
void srt_arena_reset(srt_arena *a);                               /* frees all but one ordinary block */
void srt_arena_join(srt_arena *a, srt_arena *other);              /* takes over what `other` holds */
void *srt_arena_alloc(srt_arena *a, size_t size);                 /* 8-byte aligned, not zeroed; NULL: out of memory */
void *srt_arena_copy(srt_arena *a, const void *data, size_t len); /* NUL added behind */

/* The double that scripts packed as '<d': eight bytes. */
double srt_little_double(const char *data);

#endif

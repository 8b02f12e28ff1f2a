/* lua_memory.h - an allocator for one Lua state, which one thread uses at a time. */
#ifndef LUA_MEMORY_H
#define LUA_MEMORY_H

#include "seriatim_native.h"

#define SLU_MEMORY_STEP ((size_t)16) /* what malloc(3) aligns to */
#define SLU_MEMORY_LISTS 8

typedef struct slu_chunk slu_chunk;

/* Zeroed: empty. */
typedef struct slu_memory {
    void *free[SLU_MEMORY_LISTS];
    slu_chunk *chunks;
    char *at; /* in the newest chunk */
    size_t left;
} slu_memory;

/* A lua_Alloc; memory: a slu_memory. */
void *slu_memory_alloc(void *memory, void *block, size_t was, size_t size);
/* After lua_close. */
void slu_memory_free(slu_memory *memory);

#endif

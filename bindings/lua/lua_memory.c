/* lua_memory.c - memory of one Lua state: small blocks come from lists of its own, others from malloc(3). */
#include "lua_memory.h"

#define MEMORY_CHUNK ((size_t)32 * 1024) /* is cut into small blocks, and freed with the state */

struct slu_chunk {
    slu_chunk *next;
};

/* Blocks of up to 16, 32, ... bytes; 0 bytes have none. */
static size_t memory_list(size_t size)
{
    return (size - 1) / SLU_MEMORY_STEP;
}

static int memory_is_small(size_t size)
{
    return size <= SLU_MEMORY_STEP * SLU_MEMORY_LISTS;
}

static void *memory_cut(slu_memory *m, size_t size)
{
    void *block;
    if (m->left < size) {
        slu_chunk *chunk = malloc(MEMORY_CHUNK); /* what is left of the last is lost */
        if (!chunk)
            return NULL;
        chunk->next = m->chunks;
        m->chunks = chunk;
        m->at = (char *)chunk + SLU_MEMORY_STEP;
        m->left = MEMORY_CHUNK - SLU_MEMORY_STEP;
    }
    block = m->at;
    m->at += size;
    m->left -= size;
    return block;
}

static void *memory_take(slu_memory *m, size_t size)
{
    size_t list;
    void **block;
    if (!memory_is_small(size))
        return malloc(size);
    list = memory_list(size);
    block = m->free[list];
    if (!block)
        return memory_cut(m, (list + 1) * SLU_MEMORY_STEP);
    m->free[list] = *block;
    return block;
}

static void memory_give(slu_memory *m, void *block, size_t size)
{
    if (!memory_is_small(size)) {
        free(block);
    } else if (size > 0) {
        *(void **)block = m->free[memory_list(size)];
        m->free[memory_list(size)] = block;
    }
}

void *slu_memory_alloc(void *memory, void *block, size_t was, size_t size)
{
    void *moved;
    if (size == 0) {
        if (block)
            memory_give(memory, block, was);
        return NULL;
    }
    if (!block)
        return memory_take(memory, size); /* `was` is a type */
    if (!memory_is_small(was) && !memory_is_small(size))
        return realloc(block, size);
    if (memory_is_small(was) && memory_is_small(size) && memory_list(was) == memory_list(size))
        return block;
    moved = memory_take(memory, size);
    if (moved) {
        memcpy(moved, block, was < size ? was : size);
        memory_give(memory, block, was);
    }
    return moved;
}

void slu_memory_free(slu_memory *m)
{
    while (m->chunks) {
        slu_chunk *chunk = m->chunks;
        m->chunks = chunk->next;
        free(chunk);
    }
}

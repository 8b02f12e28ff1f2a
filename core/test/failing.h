/* failing.h - an allocator whose n-th call finds no memory, and that counts what lives. */
#ifndef TEST_FAILING_H
#define TEST_FAILING_H

#include "seriatim.h"

#include <stdlib.h>

typedef struct failing {
    size_t calls, fail_at;
    long live;
} failing;

static void *failing_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    failing *f = user;
    if (new_size == 0) {
        f->live -= (long)old_size;
        free(ptr);
        return NULL;
    }
    if (++f->calls == f->fail_at)
        return NULL;
    ptr = realloc(ptr, new_size);
    f->live += (long)new_size - (long)old_size;
    return ptr;
}

#endif

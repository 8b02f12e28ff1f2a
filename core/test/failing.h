/* failing.h - an allocator of which some calls find no memory, and that counts what lives. */
#ifndef TEST_FAILING_H
#define TEST_FAILING_H

#include "seriatim.h"

#include <stdlib.h>

/* Fails the call fail_at (1: the first; 0: none) and the fail_more calls behind it; live: bytes. */
typedef struct failing {
    size_t calls, fail_at;
    long live;
    size_t fail_more;
} failing;

static void *failing_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    failing *f = user;
    if (new_size == 0) {
        f->live -= (long)old_size;
        free(ptr);
        return NULL;
    }
    if (++f->calls >= f->fail_at && f->fail_at > 0 && f->calls - f->fail_at <= f->fail_more)
        return NULL;
    ptr = realloc(ptr, new_size);
    f->live += (long)new_size - (long)old_size;
    return ptr;
}

#endif

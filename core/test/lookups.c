/* lookups.c - see lookups.h. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <netdb.h>
#include <string.h>

#include "lookups.h"
#include "seriatim/binding/client.h"

typedef int lookup(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found);

static int lookups_made;

/*
 * In the place of the C library's, for the name "two.test": 127.0.0.2, where nobody listens, then 127.0.0.1. On most
 * machines "localhost" is such a name: ::1, then 127.0.0.1.
 */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found)
{
    struct addrinfo *second;
    lookup *real;
    int code;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    lookups_made++;
    if (!host || strcmp(host, "two.test") != 0)
        return real(host, port, hints, found);
    code = real("127.0.0.2", port, hints, found);
    if (code == 0 && (code = real("127.0.0.1", port, hints, &second)) == 0)
        (*found)->ai_next = second;
    return code;
}

int step_and_count_lookups(seriatim_link *link, int *lookups)
{
    int may = srt_link_may_resolve(link), before = lookups_made, status = seriatim_link_step(link);
    *lookups += lookups_made - before;
    if (!may)
        assert_int_equal(lookups_made, before);
    return status;
}

int drive_and_count_lookups(seriatim_link *link, int *lookups)
{
    int status;
    while ((status = step_and_count_lookups(link, lookups)) == SERIATIM_AGAIN)
        assert_int_equal(seriatim_link_wait(link), SERIATIM_OK);
    return status;
}

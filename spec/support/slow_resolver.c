/*
 * slow_resolver.c - preloaded into a process: a resolver that takes SLOW_RESOLVER_MS for the name "slow.test", and does
 * not know it. Until it returns, the pointer for its answer is invalid. With SLOW_RESOLVER_FROM, the name is 127.0.0.1
 * until a file of that name is there; the first such look-up removes it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int lookup(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found);

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found)
{
    const char *ms = getenv("SLOW_RESOLVER_MS"), *from = getenv("SLOW_RESOLVER_FROM");
    lookup *real;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!host || strcmp(host, "slow.test") != 0)
        return real(host, port, hints, found);
    if (hints && hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    if (from && unlink(from) != 0)
        return real("127.0.0.1", port, hints, found);
    *found = (struct addrinfo *)1;
    poll(NULL, 0, ms ? atoi(ms) : 0);
    *found = NULL;
    return EAI_NONAME;
}

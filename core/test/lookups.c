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
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lookups.h"
#include "seriatim/binding/client.h"

typedef int lookup(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found);

static int lookups_made;
static int late_ms, quick_left; /* of "late.test" */

void make_lookups_late(int ms, int quick)
{
    __atomic_store_n(&late_ms, ms, __ATOMIC_RELAXED);
    __atomic_store_n(&quick_left, quick, __ATOMIC_RELAXED);
}

static int look_up_late(lookup *real, const char *port, const struct addrinfo *hints, struct addrinfo **found)
{
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    if (__atomic_sub_fetch(&quick_left, 1, __ATOMIC_RELAXED) < 0)
        poll(NULL, 0, __atomic_load_n(&late_ms, __ATOMIC_RELAXED));
    return real("127.0.0.1", port, hints, found);
}

/*
 * In the place of the C library's, for the name "two.test": 127.0.0.2, where nobody listens by default, then 127.0.0.1.
 * On most machines "localhost" is such a name: ::1, then 127.0.0.1. And for "late.test": 127.0.0.1, after a while.
 */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found)
{
    struct addrinfo *second;
    lookup *real;
    int code;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    __atomic_add_fetch(&lookups_made, 1, __ATOMIC_RELAXED);
    if (host && strcmp(host, "late.test") == 0)
        return look_up_late(real, port, hints, found);
    if (!host || strcmp(host, "two.test") != 0)
        return real(host, port, hints, found);
    code = real("127.0.0.2", port, hints, found);
    if (code == 0 && (code = real("127.0.0.1", port, hints, &second)) == 0)
        (*found)->ai_next = second;
    return code;
}

/* A listener whose backlog is full drops every further SYN. */
void drop_packets_to_the_first_address(int *sockets, int port)
{
    struct sockaddr_in address;
    int i;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    for (i = 0; i < DROPPING_SOCKETS; i++) {
        sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_true(sockets[i] >= 0);
        assert_int_equal(fcntl(sockets[i], F_SETFL, O_NONBLOCK), 0);
        if (i == 0) {
            assert_int_equal(bind(sockets[i], (struct sockaddr *)&address, sizeof address), 0);
            assert_int_equal(listen(sockets[i], 0), 0);
        } else {
            (void)connect(sockets[i], (struct sockaddr *)&address, sizeof address);
            poll(NULL, 0, 20);
        }
    }
}

void end_dropping(const int *sockets)
{
    int i;
    for (i = 0; i < DROPPING_SOCKETS; i++)
        close(sockets[i]);
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

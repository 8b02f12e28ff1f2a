/* port.c - see port.h. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A socket, and in *status what binding it to the port gave; port 0 is any. */
static int bind_to(int port, int *status)
{
    struct sockaddr_in address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *status = bind(fd, (struct sockaddr *)&address, sizeof address);
    return fd;
}

int free_port(void)
{
    static unsigned next;
    int port, status;
    if (!next)
        next = (unsigned)getpid() * 7919u;
    do {
        port = 12000 + (int)((next += 17) % 20000);
        close(bind_to(port, &status));
    } while (status != 0);
    return port;
}

int listen_on_loopback(int backlog, int *port)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int status, fd = bind_to(0, &status);
    assert_int_equal(status, 0);
    if (backlog >= 0)
        assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

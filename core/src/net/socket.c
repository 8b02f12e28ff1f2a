/* socket.c - opens a non-blocking socket, and sets after what time a silent peer counts as gone. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "net/transport_state.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef MSG_NOSIGNAL
#define TRANSPORT_SEND_FLAGS MSG_NOSIGNAL
#else
#define TRANSPORT_SEND_FLAGS 0
#endif

/* A peer that vanished is noticed after 15 s: by unacknowledged bytes, or when idle by probes. */
#define TRANSPORT_DEAD_PEER_MS 15000
#define TRANSPORT_KEEPALIVE_S 5
#define TRANSPORT_KEEPALIVE_PROBES 2

int srt_transport_open_socket(int family)
{
    int type = SOCK_STREAM, fd;
#ifdef SOCK_CLOEXEC
    type |= SOCK_CLOEXEC; /* atomic: another thread may fork and exec at any moment */
#endif
    fd = socket(family, type, 0);
    if (fd < 0)
        return -1;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
        int code = errno;
        close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

static void transport_set(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof value); /* a kernel without it does without */
}

void srt_transport_tune(int fd, int family)
{
#ifdef SO_NOSIGPIPE
    transport_set(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
    if (family == AF_UNIX)
        return;
    transport_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    transport_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_KEEPIDLE)
    transport_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, TRANSPORT_KEEPALIVE_S);
#elif defined(TCP_KEEPALIVE)
    transport_set(fd, IPPROTO_TCP, TCP_KEEPALIVE, TRANSPORT_KEEPALIVE_S);
#endif
#ifdef TCP_KEEPINTVL
    transport_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, TRANSPORT_KEEPALIVE_S);
#endif
#ifdef TCP_KEEPCNT
    transport_set(fd, IPPROTO_TCP, TCP_KEEPCNT, TRANSPORT_KEEPALIVE_PROBES);
#endif
#ifdef TCP_USER_TIMEOUT
    transport_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, TRANSPORT_DEAD_PEER_MS);
#endif
}

int srt_transport_send(srt_transport *t, const void *data, size_t len, size_t *sent)
{
    ssize_t n;
    do
        n = send(t->fd, data, len, TRANSPORT_SEND_FLAGS);
    while (n < 0 && errno == EINTR);
    t->blocked = n < 0 || (size_t)n < len;
    *sent = n < 0 ? 0 : (size_t)n;
    if (n >= 0)
        return SERIATIM_OK;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return SERIATIM_AGAIN;
    return srt_transport_fail_errno(t, "writing to", errno);
}

int srt_transport_recv(srt_transport *t, void *buf, size_t cap, size_t *got)
{
    ssize_t n;
    *got = 0;
    do
        n = recv(t->fd, buf, cap, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        *got = (size_t)n;
        return SERIATIM_OK;
    }
    if (n == 0)
        return srt_transport_fail(t, SERIATIM_IO, "reading from", "connection closed by Redis");
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return SERIATIM_AGAIN;
    return srt_transport_fail_errno(t, "reading from", errno);
}

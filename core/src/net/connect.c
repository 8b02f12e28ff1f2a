/* connect.c - begins and ends connect(2) at each address of a host, then the TLS handshake. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "net/transport_state.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The socket is connected: the connection is ready, or its TLS handshake begins. */
static int transport_connected(srt_transport *t)
{
    srt_transport_forget_addresses(t);
    srt_error_clear(&t->error); /* that of an address which was tried before this one */
    t->deadline_ms = INT64_MAX;
    t->phase = TRANSPORT_READY;
    if (!t->at.tls)
        return SERIATIM_OK;
    if (srt_transport_tls_begin(t) != SERIATIM_OK)
        return t->error.status;
    return srt_transport_tls_handshake(t);
}

/*
 * Begins one connect(2): OK when done at once, AGAIN when under way, an error with the socket
 * closed.
 */
static int transport_begin_address(srt_transport *t, const struct sockaddr *address, socklen_t len)
{
    t->fd = srt_transport_open_socket(address->sa_family);
    if (t->fd < 0)
        return srt_transport_fail_errno(t, "opening a socket for", errno);
    srt_transport_tune(t->fd, address->sa_family);
    if (connect(t->fd, address, len) == 0)
        return transport_connected(t);
    if (errno != EINPROGRESS && errno != EINTR)
        return srt_transport_fail_errno(t, "connecting to", errno);
    t->phase = TRANSPORT_CONNECTING;
    t->deadline_ms = srt_transport_limit(t);
    return SERIATIM_AGAIN;
}

/* Tries the addresses that are left until one connects or is under way; else the last one's error.
 */
static int transport_next_address(srt_transport *t)
{
    int status = t->error.status;
    while (t->next && t->phase == TRANSPORT_CLOSED) {
        const struct addrinfo *address = t->next;
        t->next = address->ai_next;
        status = transport_begin_address(t, address->ai_addr, address->ai_addrlen);
    }
    return status;
}

/* What getaddrinfo has returned. */
static int transport_take_addresses(srt_transport *t, int code)
{
    if (code == EAI_MEMORY)
        return srt_fail_plain(&t->error, SERIATIM_NOMEM);
    if (code != 0) {
        t->addresses = NULL;
        return srt_transport_fail(t, SERIATIM_IO, "looking up", gai_strerror(code));
    }
    t->next = t->addresses;
    t->began_ms = srt_clock_ms();
    t->asks_until = t->began_ms + SERIATIM_SENTINEL_MS;
    return SERIATIM_OK;
}

/* AGAIN: a name is looked up on another thread. */
static int transport_find_addresses(srt_transport *t)
{
    struct addrinfo hints;
    char port[12];
    int code;
    memset(&hints, 0, sizeof hints);
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    snprintf(port, sizeof port, "%d", t->at.port);
    code = getaddrinfo(t->at.host, port, &hints, &t->addresses);
    if (code == EAI_NONAME) {
        hints.ai_flags = AI_NUMERICSERV;
        if (t->looks_up_by_thread && (t->lookup = srt_lookup_begin(t->at.host, port, &hints)) != NULL) {
            t->phase = TRANSPORT_LOOKING_UP;
            return SERIATIM_AGAIN;
        }
        code = getaddrinfo(t->at.host, port, &hints, &t->addresses);
    }
    return transport_take_addresses(t, code);
}

static int transport_step_look_up(srt_transport *t)
{
    int code, status;
    if (!srt_lookup_has_ended(t->lookup))
        return SERIATIM_AGAIN;
    t->phase = TRANSPORT_CLOSED;
    code = srt_lookup_take(t->lookup, &t->addresses);
    t->lookup = NULL;
    status = transport_take_addresses(t, code);
    return status == SERIATIM_OK ? transport_next_address(t) : status;
}

int srt_transport_connect_unix(srt_transport *t)
{
    struct sockaddr_un address;
    size_t len = strlen(t->url->path);
    memset(&address, 0, sizeof address);
    if (len >= sizeof address.sun_path)
        return srt_transport_fail(t, SERIATIM_INVALID, "connecting to", "path is too long (sun_path)");
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, t->url->path, len);
    return transport_begin_address(t, (const struct sockaddr *)&address, sizeof address);
}

int srt_transport_connect_host(srt_transport *t)
{
    int status = transport_find_addresses(t);
    return status == SERIATIM_OK ? transport_next_address(t) : status;
}

/* Returns 1 if connect(2) has ended, with success or not. Before that SO_ERROR has no meaning. */
static int transport_settled(const srt_transport *t)
{
    struct pollfd ready = {t->fd, POLLOUT, 0};
    return poll(&ready, 1, 0) > 0;
}

static int transport_step_connect(srt_transport *t)
{
    int code = 0;
    socklen_t len = sizeof code;
    if (transport_settled(t)) {
        if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
            code = errno;
        if (code == 0)
            return transport_connected(t);
        srt_transport_fail_errno(t, "connecting to", code);
        return transport_next_address(t);
    }
    if (srt_clock_ms() < t->deadline_ms)
        return SERIATIM_AGAIN;
    srt_transport_fail(t, SERIATIM_TIMEOUT, "connecting to", "timed out");
    return transport_next_address(t);
}

int srt_transport_expire(srt_transport *t)
{
    srt_transport_forget_addresses(t);
    if (t->phase == TRANSPORT_HANDSHAKE)
        return srt_transport_fail(t, SERIATIM_TIMEOUT, "TLS with",
                                  "the handshake got no answer (a port without TLS takes redis://)");
    return srt_transport_fail(t, SERIATIM_TIMEOUT, t->phase == TRANSPORT_READY ? "asking" : "connecting to",
                              "timed out");
}

static int transport_step_handshake(srt_transport *t)
{
    int status = srt_transport_tls_handshake(t);
    if (status == SERIATIM_AGAIN && srt_clock_ms() >= t->deadline_ms)
        return srt_transport_expire(t);
    return status;
}

int srt_transport_step_phase(srt_transport *t)
{
    switch (t->phase) {
    case TRANSPORT_LOOKING_UP:
        return transport_step_look_up(t);
    case TRANSPORT_CONNECTING:
        return transport_step_connect(t);
    case TRANSPORT_HANDSHAKE:
        return transport_step_handshake(t);
    case TRANSPORT_READY:
        if (srt_transport_has_tls(t))
            return srt_transport_tls_flush(t);
        t->blocked = 0; /* the caller holds the rest, and writes it now */
        return SERIATIM_OK;
    default:
        return srt_transport_ended(t);
    }
}

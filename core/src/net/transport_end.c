/* transport_end.c - the end of a connection: its descriptor, its TLS, its addresses, and why it ended. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "net/transport_state.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Sends no TLS goodbye: in a forked child the connection belongs to the parent. */
static void transport_tls_drop(srt_transport *t)
{
#ifdef SERIATIM_WITH_OPENSSL
    SSL_free(t->tls); /* the BIOs go with it */
    t->tls = NULL;
    t->from_peer = t->to_peer = NULL;
#else
    (void)t;
#endif
}

/* An address may drop packets. While others are left it has a part of the time only, so that they are tried as well. */
int64_t srt_transport_limit(const srt_transport *t)
{
    int64_t now = srt_clock_ms(), until = t->asking ? t->asks_until : now + t->limit_ms;
    return t->next ? now + (until - now) / 4 : until;
}

void srt_transport_close_fd(srt_transport *t)
{
    transport_tls_drop(t);
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    t->blocked = 0;
    t->phase = TRANSPORT_CLOSED;
    t->deadline_ms = INT64_MAX;
}

void srt_transport_forget_addresses(srt_transport *t)
{
    if (t->addresses)
        freeaddrinfo(t->addresses);
    t->addresses = t->next = NULL;
    srt_lookup_abandon(t->lookup);
    t->lookup = NULL;
}

int srt_transport_fail(srt_transport *t, int status, const char *what, const char *why)
{
    char *at;
    srt_transport_close_fd(t);
    if (t->url->kind == SRT_URL_UNIX)
        srt_fail(&t->error, status, "%s %s: %s", what, t->url->path, why);
    else
        srt_fail(&t->error, status, "%s %s:%d: %s", what, t->at.host, t->at.port, why);
    if (t->asking && !t->next) /* where an address of its name is left, the sentinel is asked there */
        seriatim_sentinel_failed(t->sentinel, why);
    for (at = t->error.message; *at; at++)
        if ((unsigned char)*at < ' ') /* a socket's path may hold any byte */
            *at = '?';
    return status;
}

int srt_transport_fail_errno(srt_transport *t, const char *what, int code)
{
    char text[128];
    int status = code == ETIMEDOUT ? SERIATIM_TIMEOUT : SERIATIM_IO;
    return srt_transport_fail(t, status, what, srt_errno_text(code, text, sizeof text));
}

int srt_transport_ended(srt_transport *t)
{
    if (t->error.status == SERIATIM_OK)
        return srt_fail(&t->error, SERIATIM_CLOSED, "not connected");
    return t->error.status;
}

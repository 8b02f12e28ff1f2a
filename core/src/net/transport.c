/* transport.c - one non-blocking connection to Redis: TCP, Unix socket or TLS, at an address or where sentinels say. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "net/transport_state.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* ---- Open and close ------------------------------------------------------------------------ */

srt_transport *srt_transport_create(const seriatim_allocator *mem, const srt_url *url)
{
    srt_transport *t = srt_alloc(mem, sizeof *t);
    if (!t)
        return NULL;
    t->mem = mem;
    t->url = url;
    t->fd = -1;
    t->deadline_ms = INT64_MAX;
    t->at.host = url->host ? url->host : url->hosts[0].host;
    t->at.port = url->port;
    t->at.tls = url->tls;
    if (url->kind == SRT_URL_SENTINEL && !(t->sentinel = srt_sentinel_create(mem, url))) {
        srt_free(mem, t, sizeof *t);
        return NULL;
    }
    return t;
}

void srt_transport_aim(srt_transport *t, const char *host, int port)
{
    snprintf(t->aimed, sizeof t->aimed, "%s", host);
    t->at.host = t->aimed;
    t->at.port = port;
}

void srt_transport_close(srt_transport *t)
{
    srt_transport_close_fd(t);
    srt_transport_forget_addresses(t);
    t->asking = 0;
    srt_error_clear(&t->error);
}

void srt_transport_destroy(srt_transport *t)
{
    if (!t)
        return;
    srt_transport_close(t);
#ifdef SERIATIM_WITH_OPENSSL
    SSL_CTX_free(t->tls_context);
#endif
    seriatim_sentinel_free(t->sentinel);
    srt_free(t->mem, t, sizeof *t);
}

void srt_transport_served(srt_transport *t)
{
    if (t->sentinel)
        seriatim_sentinel_served(t->sentinel);
}

void srt_transport_look_up_by_thread(srt_transport *t)
{
    t->looks_up_by_thread = 1;
}

int srt_transport_fd(const srt_transport *t)
{
    return t->lookup ? srt_lookup_fd(t->lookup) : t->fd;
}

const char *srt_transport_address(const srt_transport *t)
{
    return t->address;
}

int64_t srt_transport_began(const srt_transport *t)
{
    return t->lookup ? srt_clock_ms() : t->began_ms;
}

int64_t srt_transport_deadline(const srt_transport *t)
{
    return t->deadline_ms;
}

const seriatim_error *srt_transport_error(const srt_transport *t)
{
    return &t->error;
}

int srt_transport_wants(const srt_transport *t)
{
    switch (t->phase) {
    case TRANSPORT_LOOKING_UP:
        return SERIATIM_WANT_READ;
    case TRANSPORT_CONNECTING:
        return SERIATIM_WANT_WRITE;
    case TRANSPORT_HANDSHAKE:
    case TRANSPORT_READY:
        return t->blocked ? SERIATIM_WANT_READ | SERIATIM_WANT_WRITE : SERIATIM_WANT_READ;
    default:
        return 0;
    }
}

/* ---- Read and write, when it is ready ------------------------------------------------------ */

static int transport_put(srt_transport *t, const void *data, size_t len, size_t *written)
{
    *written = 0;
    if (srt_transport_has_tls(t))
        return srt_transport_tls_write(t, data, len, written);
    return srt_transport_send(t, data, len, written);
}

static int transport_get(srt_transport *t, void *buf, size_t cap, size_t *got)
{
    *got = 0;
    if (srt_transport_has_tls(t))
        return srt_transport_tls_read(t, buf, cap, got);
    return srt_transport_recv(t, buf, cap, got);
}

/* ---- Sentinels ----------------------------------------------------------------------------- */

/* Begins to connect to the next sentinel. If none is left, ends with the errors of all. */
static int transport_next_sentinel(srt_transport *t)
{
    int status;
    srt_transport_close_fd(t);
    srt_transport_forget_addresses(t);
    status = seriatim_sentinel_next(t->sentinel, &t->at);
    if (status != SERIATIM_OK) {
        t->asking = 0;
        t->error = *seriatim_sentinel_error(t->sentinel);
        return status;
    }
    t->asking = 1;
    t->asked = 0;
    t->asks_until = INT64_MAX;
    return srt_transport_connect_host(t);
}

/* OK: t->at is the master's address. AGAIN: wait. Any other status: go on with the next sentinel. */
static int transport_ask(srt_transport *t)
{
    const char *question;
    char answer[1024];
    size_t len, part;
    int status = SERIATIM_AGAIN;
    seriatim_sentinel_output(t->sentinel, &question, &len);
    for (; t->asked < len; t->asked += part) {
        status = transport_put(t, question + t->asked, len - t->asked, &part);
        if (status != SERIATIM_OK)
            return status;
    }
    do {
        status = transport_get(t, answer, sizeof answer, &part);
        if (status != SERIATIM_OK)
            return status;
        status = seriatim_sentinel_input(t->sentinel, answer, part, &t->at);
    } while (status == SERIATIM_AGAIN);
    return status;
}

static int transport_connect_master(srt_transport *t)
{
    srt_transport_close_fd(t);
    srt_transport_forget_addresses(t);
    t->asking = 0;
    srt_error_clear(&t->error);
    return srt_transport_connect_host(t);
}

/* status: that of the last step of the connection to the current sentinel. */
static int transport_go_on_asking(srt_transport *t, int status)
{
    while (t->asking) {
        if (status == SERIATIM_OK)
            status = transport_ask(t);
        if (status == SERIATIM_OK)
            return transport_connect_master(t);
        if (t->deadline_ms > t->asks_until)
            t->deadline_ms = t->asks_until;
        if (status == SERIATIM_AGAIN && srt_clock_ms() < t->asks_until)
            return status;
        if (status == SERIATIM_AGAIN) {
            srt_transport_forget_addresses(t);
            srt_transport_fail(t, SERIATIM_TIMEOUT, "asking", "no answer in 500 ms");
        }
        status = transport_next_sentinel(t);
    }
    return status;
}

/* ---- All of it ----------------------------------------------------------------------------- */

static int transport_begin(srt_transport *t)
{
    if (t->url->kind == SRT_URL_UNIX)
        return srt_transport_connect_unix(t);
    if (!t->sentinel)
        return srt_transport_connect_host(t);
    seriatim_sentinel_begin(t->sentinel);
    return transport_go_on_asking(t, transport_next_sentinel(t));
}

/* Returns the address once the connection is to the master and not to a sentinel. */
static int transport_note_address(srt_transport *t, int status)
{
    if (t->url->kind == SRT_URL_UNIX)
        snprintf(t->address, sizeof t->address, "%s", t->url->path);
    else if (status == SERIATIM_OK)
        snprintf(t->address, sizeof t->address, strchr(t->at.host, ':') ? "[%s]:%d" : "%s:%d", t->at.host, t->at.port);
    return status;
}

int srt_transport_connect(srt_transport *t, int limit_ms)
{
    srt_transport_close(t);
    t->limit_ms = limit_ms;
#ifndef SERIATIM_WITH_OPENSSL
    if (t->url->tls)
        return srt_transport_tls_begin(t);
#endif
    return transport_note_address(t, transport_begin(t));
}

int srt_transport_step(srt_transport *t)
{
    int was_ready = t->phase == TRANSPORT_READY && !t->asking, status = srt_transport_step_phase(t);
    if (t->asking)
        status = transport_go_on_asking(t, status);
    return was_ready ? status : transport_note_address(t, status);
}

static int transport_get_ready(srt_transport *t)
{
    return t->phase == TRANSPORT_READY && !t->asking ? SERIATIM_OK : srt_transport_step(t);
}

int srt_transport_write(srt_transport *t, const void *data, size_t len, size_t *written)
{
    int status = transport_get_ready(t);
    *written = 0;
    if (status != SERIATIM_OK || len == 0)
        return status;
    status = transport_put(t, data, len, written);
    return *written > 0 ? SERIATIM_OK : status; /* TLS sends several parts: some may be sent before the error */
}

int srt_transport_read(srt_transport *t, void *buf, size_t cap, size_t *got)
{
    int status = transport_get_ready(t);
    *got = 0;
    if (status != SERIATIM_OK)
        return status;
    if (cap == 0)
        return srt_fail_plain(&t->error, SERIATIM_INVALID);
    return transport_get(t, buf, cap, got);
}

/* ---- Wait ---------------------------------------------------------------------------------- */

/* The shorter of timeout_ms and the time until the transport's deadline; -1 without either. */
static int transport_poll_ms(const srt_transport *t, int timeout_ms)
{
    int64_t left;
    if (!t || t->deadline_ms == INT64_MAX)
        return timeout_ms < 0 ? -1 : timeout_ms;
    left = t->deadline_ms - srt_clock_ms();
    if (left < 0)
        left = 0;
    if (left > INT_MAX)
        left = INT_MAX;
    return timeout_ms >= 0 && timeout_ms < left ? timeout_ms : (int)left;
}

int srt_transport_wait(srt_transport *t, int extra_fd, int timeout_ms)
{
    struct pollfd fds[2] = {{-1, 0, 0}, {extra_fd, POLLIN, 0}}; /* poll skips a negative one */
    int wants = t ? srt_transport_wants(t) : 0, n;
    if (t && srt_transport_tls_has_bytes(t))
        return SERIATIM_OK;
    if (wants)
        fds[0].fd = srt_transport_fd(t);
    fds[0].events = (short)((wants & SERIATIM_WANT_READ ? POLLIN : 0) | (wants & SERIATIM_WANT_WRITE ? POLLOUT : 0));
    n = poll(fds, 2, transport_poll_ms(t, timeout_ms));
    if (n > 0)
        return SERIATIM_OK;
    return n == 0 || errno == EINTR ? SERIATIM_AGAIN : SERIATIM_IO;
}

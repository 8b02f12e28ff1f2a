/* transport.c - one non-blocking connection to Redis: TCP, Unix socket or TLS, at an address or where sentinels say. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "net/transport.h"

#include "net/sentinel.h"
#include "base/status.h"
#include "base/system.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef SERIATIM_WITH_OPENSSL
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#endif

#ifdef MSG_NOSIGNAL
#define TRANSPORT_SEND_FLAGS MSG_NOSIGNAL
#else
#define TRANSPORT_SEND_FLAGS 0
#endif

/* A peer that vanished is noticed after 15 s: by unacknowledged bytes, or when idle by probes. */
#define TRANSPORT_DEAD_PEER_MS 15000
#define TRANSPORT_KEEPALIVE_S 5
#define TRANSPORT_KEEPALIVE_PROBES 2

#define TRANSPORT_TLS_CHUNK ((size_t)16 * 1024)

typedef enum transport_phase {
    TRANSPORT_CLOSED,
    TRANSPORT_CONNECTING,
    TRANSPORT_HANDSHAKE,
    TRANSPORT_READY
} transport_phase;

struct srt_transport {
    const seriatim_allocator *mem;
    const srt_url *url;
    seriatim_address at;         /* TCP and TLS: the Redis or the sentinel that is connected */
    seriatim_sentinel *sentinel; /* NULL: the URL says where Redis is */
    int asking;                  /* it is connected, or to be connected, to a sentinel */
    size_t asked;                /* bytes of the question that are sent */
    int64_t asks_until;
    char address[280];
    transport_phase phase;
    int fd;
    int blocked; /* the socket took less than it was given */
    int limit_ms;
    int64_t deadline_ms;
    struct addrinfo *addresses, *next; /* TCP: all that were found, and the next to try */
    seriatim_error error;
#ifdef SERIATIM_WITH_OPENSSL
    SSL_CTX *tls_context; /* kept across connections: it holds the certificates */
    SSL *tls;
    BIO *from_peer, *to_peer; /* owned by tls */
#endif
};

/* ---- Open and close ------------------------------------------------------------------------ */

static void transport_tls_drop(srt_transport *t);

/* When what begins now must have ended. */
static int64_t transport_limit(const srt_transport *t)
{
    return t->asking ? t->asks_until : srt_clock_ms() + t->limit_ms;
}

static void transport_close_fd(srt_transport *t)
{
    transport_tls_drop(t);
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    t->blocked = 0;
    t->phase = TRANSPORT_CLOSED;
    t->deadline_ms = INT64_MAX;
}

static void transport_forget_addresses(srt_transport *t)
{
    if (t->addresses)
        freeaddrinfo(t->addresses);
    t->addresses = t->next = NULL;
}

/* Ends the connection with an error of the form "what where: why", in one line. */
static int transport_fail(srt_transport *t, int status, const char *what, const char *why)
{
    char *at;
    transport_close_fd(t);
    if (t->url->kind == SRT_URL_UNIX)
        srt_fail(&t->error, status, "%s %s: %s", what, t->url->path, why);
    else
        srt_fail(&t->error, status, "%s %s:%d: %s", what, t->at.host, t->at.port, why);
    if (t->asking)
        seriatim_sentinel_failed(t->sentinel, why);
    for (at = t->error.message; *at; at++)
        if ((unsigned char)*at < ' ') /* a socket's path may hold any byte */
            *at = '?';
    return status;
}

static int transport_fail_errno(srt_transport *t, const char *what, int code)
{
    char text[128];
    int status = code == ETIMEDOUT ? SERIATIM_TIMEOUT : SERIATIM_IO;
    return transport_fail(t, status, what, srt_errno_text(code, text, sizeof text));
}

/* What a call on a connection that has ended, or never began, answers. */
static int transport_ended(srt_transport *t)
{
    if (t->error.status == SERIATIM_OK)
        return srt_fail(&t->error, SERIATIM_CLOSED, "not connected");
    return t->error.status;
}

srt_transport *srt_transport_create(const seriatim_allocator *mem, const srt_url *url)
{
    srt_transport *t = srt_alloc(mem, sizeof *t);
    if (!t)
        return NULL;
    t->mem = mem;
    t->url = url;
    t->fd = -1;
    t->deadline_ms = INT64_MAX;
    t->at.host = url->host ? url->host : url->sentinels[0].host;
    t->at.port = url->port;
    t->at.tls = url->tls;
    if (url->kind == SRT_URL_SENTINEL && !(t->sentinel = srt_sentinel_create(mem, url))) {
        srt_free(mem, t, sizeof *t);
        return NULL;
    }
    return t;
}

void srt_transport_close(srt_transport *t)
{
    transport_close_fd(t);
    transport_forget_addresses(t);
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

int srt_transport_fd(const srt_transport *t)
{
    return t->fd;
}

const char *srt_transport_address(const srt_transport *t)
{
    return t->address;
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
    case TRANSPORT_CONNECTING:
        return SERIATIM_WANT_WRITE;
    case TRANSPORT_HANDSHAKE:
    case TRANSPORT_READY:
        return t->blocked ? SERIATIM_WANT_READ | SERIATIM_WANT_WRITE : SERIATIM_WANT_READ;
    default:
        return 0;
    }
}

/* ---- Sockets ------------------------------------------------------------------------------- */

static int transport_open_socket(int family)
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

static void transport_tune(int fd, int family)
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

static int transport_send(srt_transport *t, const void *data, size_t len, size_t *sent)
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
    return transport_fail_errno(t, "writing to", errno);
}

static int transport_recv(srt_transport *t, void *buf, size_t cap, size_t *got)
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
        return transport_fail(t, SERIATIM_IO, "reading from", "connection closed by Redis");
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return SERIATIM_AGAIN;
    return transport_fail_errno(t, "reading from", errno);
}

/* ---- TLS: OpenSSL over two memory BIOs, so that it never sees the socket ------------------- */

#ifdef SERIATIM_WITH_OPENSSL

static void transport_tls_drop(srt_transport *t)
{
    SSL_free(t->tls); /* the BIOs go with it; nothing is sent */
    t->tls = NULL;
    t->from_peer = t->to_peer = NULL;
}

/* Ends the connection with OpenSSL's own reason. */
static int transport_tls_fail(srt_transport *t)
{
    char text[160];
    long verified = t->tls ? SSL_get_verify_result(t->tls) : X509_V_OK;
    unsigned long code = ERR_get_error();
    if (verified != X509_V_OK)
        return transport_fail(t, SERIATIM_IO, "TLS certificate of",
                              X509_verify_cert_error_string(verified));
    if (code == 0)
        return transport_fail(t, SERIATIM_IO, "TLS with", "protocol failure");
    ERR_error_string_n(code, text, sizeof text);
    return transport_fail(t, SERIATIM_IO, "TLS with", text);
}

static int transport_tls_make_context(srt_transport *t)
{
    if (t->tls_context)
        return 1;
    t->tls_context = SSL_CTX_new(TLS_client_method());
    if (!t->tls_context)
        return 0;
    SSL_CTX_set_verify(t->tls_context, SSL_VERIFY_PEER, NULL);
    return SSL_CTX_set_min_proto_version(t->tls_context, TLS1_2_VERSION) &&
           SSL_CTX_set_default_verify_paths(t->tls_context);
}

/* The certificate must be for this very host, by address or by name. */
static int transport_tls_expect_host(SSL *tls, const char *host)
{
    struct in6_addr address;
    if (inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host);
    return SSL_set1_host(tls, host) && SSL_set_tlsext_host_name(tls, host);
}

static int transport_tls_make(srt_transport *t)
{
    t->tls = SSL_new(t->tls_context);
    t->from_peer = BIO_new(BIO_s_mem());
    t->to_peer = BIO_new(BIO_s_mem());
    if (!t->tls || !t->from_peer || !t->to_peer) {
        BIO_free(t->from_peer);
        BIO_free(t->to_peer);
        return 0;
    }
    SSL_set_bio(t->tls, t->from_peer, t->to_peer);
    SSL_set_connect_state(t->tls);
    return transport_tls_expect_host(t->tls, t->at.host);
}

static int transport_tls_begin(srt_transport *t)
{
    ERR_clear_error();
    if (!transport_tls_make_context(t) || !transport_tls_make(t))
        return transport_tls_fail(t);
    t->phase = TRANSPORT_HANDSHAKE;
    t->deadline_ms = transport_limit(t);
    return SERIATIM_OK;
}

/* Sends what TLS has made. */
static int transport_tls_flush(srt_transport *t)
{
    char *held, chunk[TRANSPORT_TLS_CHUNK];
    long len;
    while ((len = BIO_get_mem_data(t->to_peer, &held)) > 0) {
        size_t want = (size_t)len < sizeof chunk ? (size_t)len : sizeof chunk, sent;
        int status = transport_send(t, held, want, &sent);
        if (status != SERIATIM_OK)
            return status;
        BIO_read(t->to_peer, chunk, (int)sent);
    }
    t->blocked = 0;
    return SERIATIM_OK;
}

/* Gives TLS what has arrived. */
static int transport_tls_fill(srt_transport *t)
{
    char chunk[TRANSPORT_TLS_CHUNK];
    size_t got;
    int status = transport_recv(t, chunk, sizeof chunk, &got);
    if (status != SERIATIM_OK)
        return status;
    if (BIO_write(t->from_peer, chunk, (int)got) != (int)got)
        return transport_tls_fail(t);
    return SERIATIM_OK;
}

static int transport_tls_handshake(srt_transport *t)
{
    for (;;) {
        int rc, starved, status;
        ERR_clear_error();
        rc = SSL_do_handshake(t->tls);
        starved = rc != 1 && SSL_get_error(t->tls, rc) == SSL_ERROR_WANT_READ;
        status = transport_tls_flush(t); /* after a failure this sends the alert that says why */
        if (!t->tls)
            return status;
        if (rc == 1) {
            t->phase = TRANSPORT_READY;
            t->deadline_ms = INT64_MAX;
            return status;
        }
        if (!starved)
            return transport_tls_fail(t);
        if (status == SERIATIM_OK)
            status = transport_tls_fill(t);
        if (status != SERIATIM_OK)
            return status;
    }
}

static int transport_tls_write(srt_transport *t, const void *data, size_t len, size_t *written)
{
    int status = transport_tls_flush(t); /* so that TLS never holds back more than one part */
    while (*written < len && status == SERIATIM_OK) {
        size_t part = len - *written, taken;
        part = part < TRANSPORT_TLS_CHUNK ? part : TRANSPORT_TLS_CHUNK;
        ERR_clear_error();
        if (SSL_write_ex(t->tls, (const char *)data + *written, part, &taken) != 1)
            return transport_tls_fail(t);
        *written += taken;
        status = transport_tls_flush(t);
    }
    return status == SERIATIM_AGAIN && *written > 0 ? SERIATIM_OK : status;
}

static int transport_tls_read(srt_transport *t, void *buf, size_t cap, size_t *got)
{
    for (;;) {
        int rc, reason, status;
        ERR_clear_error();
        rc = SSL_read_ex(t->tls, buf, cap, got);
        if (rc == 1)
            return SERIATIM_OK;
        *got = 0;
        reason = SSL_get_error(t->tls, rc);
        if (reason == SSL_ERROR_ZERO_RETURN)
            return transport_fail(t, SERIATIM_IO, "reading from", "connection closed by Redis");
        if (reason != SSL_ERROR_WANT_READ)
            return transport_tls_fail(t);
        status = transport_tls_flush(t); /* reading may have made an answer: a new key, an alert */
        if (status == SERIATIM_OK || status == SERIATIM_AGAIN)
            status = transport_tls_fill(t);
        if (status != SERIATIM_OK)
            return status;
    }
}

/* 1 when a read would find bytes although the socket has none. */
static int transport_tls_has_bytes(const srt_transport *t)
{
    return t->tls && (SSL_pending(t->tls) > 0 || BIO_ctrl_pending(t->from_peer) > 0);
}

static int transport_has_tls(const srt_transport *t)
{
    return t->tls != NULL;
}

#else

static void transport_tls_drop(srt_transport *t)
{
    (void)t;
}

static int transport_tls_begin(srt_transport *t)
{
    return transport_fail(t, SERIATIM_UNSUPPORTED, "TLS with",
                          "not in this build: apt-get install libssl-dev pkg-config, then reinstall");
}

static int transport_tls_flush(srt_transport *t)
{
    return transport_tls_begin(t);
}

static int transport_tls_handshake(srt_transport *t)
{
    return transport_tls_begin(t);
}

static int transport_tls_write(srt_transport *t, const void *data, size_t len, size_t *written)
{
    (void)data;
    (void)len;
    (void)written;
    return transport_tls_begin(t);
}

static int transport_tls_read(srt_transport *t, void *buf, size_t cap, size_t *got)
{
    (void)buf;
    (void)cap;
    (void)got;
    return transport_tls_begin(t);
}

static int transport_tls_has_bytes(const srt_transport *t)
{
    (void)t;
    return 0;
}

static int transport_has_tls(const srt_transport *t)
{
    (void)t;
    return 0;
}

#endif

/* ---- Connect ------------------------------------------------------------------------------- */

/* The socket is connected: ready, or on to the handshake. */
static int transport_connected(srt_transport *t)
{
    transport_forget_addresses(t);
    t->deadline_ms = INT64_MAX;
    t->phase = TRANSPORT_READY;
    if (!t->at.tls)
        return SERIATIM_OK;
    if (transport_tls_begin(t) != SERIATIM_OK)
        return t->error.status;
    return transport_tls_handshake(t);
}

/* Begins one connect(2): OK when done at once, AGAIN when under way, an error with the socket
 * closed. */
static int transport_begin_address(srt_transport *t, const struct sockaddr *address, socklen_t len)
{
    t->fd = transport_open_socket(address->sa_family);
    if (t->fd < 0)
        return transport_fail_errno(t, "opening a socket for", errno);
    transport_tune(t->fd, address->sa_family);
    if (connect(t->fd, address, len) == 0)
        return transport_connected(t);
    if (errno != EINPROGRESS && errno != EINTR)
        return transport_fail_errno(t, "connecting to", errno);
    t->phase = TRANSPORT_CONNECTING;
    t->deadline_ms = transport_limit(t);
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
        code = getaddrinfo(t->at.host, port, &hints, &t->addresses);
    }
    if (code == EAI_MEMORY)
        return srt_fail_plain(&t->error, SERIATIM_NOMEM);
    if (code != 0) {
        t->addresses = NULL;
        return transport_fail(t, SERIATIM_IO, "looking up", gai_strerror(code));
    }
    t->next = t->addresses;
    return SERIATIM_OK;
}

static int transport_connect_unix(srt_transport *t)
{
    struct sockaddr_un address;
    size_t len = strlen(t->url->path);
    memset(&address, 0, sizeof address);
    if (len >= sizeof address.sun_path)
        return transport_fail(t, SERIATIM_INVALID, "connecting to", "path is too long (sun_path)");
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, t->url->path, len);
    return transport_begin_address(t, (const struct sockaddr *)&address, sizeof address);
}

/* Begins to connect to the host in t->at. */
static int transport_connect_host(srt_transport *t)
{
    int status = transport_find_addresses(t);
    return status == SERIATIM_OK ? transport_next_address(t) : status;
}

/* 1 when connect(2) has come to an end, good or bad; SO_ERROR says nothing before. */
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
        transport_fail_errno(t, "connecting to", code);
        return transport_next_address(t);
    }
    if (srt_clock_ms() < t->deadline_ms)
        return SERIATIM_AGAIN;
    transport_fail(t, SERIATIM_TIMEOUT, "connecting to", "timed out");
    return transport_next_address(t);
}

int srt_transport_expire(srt_transport *t)
{
    if (t->phase == TRANSPORT_HANDSHAKE)
        return transport_fail(t, SERIATIM_TIMEOUT, "TLS with", "the handshake got no answer (a port without TLS takes redis://)");
    return transport_fail(t, SERIATIM_TIMEOUT, t->phase == TRANSPORT_READY ? "asking" : "connecting to", "timed out");
}

static int transport_step_handshake(srt_transport *t)
{
    int status = transport_tls_handshake(t);
    if (status == SERIATIM_AGAIN && srt_clock_ms() >= t->deadline_ms)
        return srt_transport_expire(t);
    return status;
}

static int transport_step_phase(srt_transport *t)
{
    switch (t->phase) {
    case TRANSPORT_CONNECTING:
        return transport_step_connect(t);
    case TRANSPORT_HANDSHAKE:
        return transport_step_handshake(t);
    case TRANSPORT_READY:
        if (transport_has_tls(t))
            return transport_tls_flush(t);
        t->blocked = 0; /* the caller holds the rest, and writes it now */
        return SERIATIM_OK;
    default:
        return transport_ended(t);
    }
}

/* ---- Read and write, when it is ready ------------------------------------------------------ */

static int transport_put(srt_transport *t, const void *data, size_t len, size_t *written)
{
    *written = 0;
    if (transport_has_tls(t))
        return transport_tls_write(t, data, len, written);
    return transport_send(t, data, len, written);
}

static int transport_get(srt_transport *t, void *buf, size_t cap, size_t *got)
{
    *got = 0;
    if (transport_has_tls(t))
        return transport_tls_read(t, buf, cap, got);
    return transport_recv(t, buf, cap, got);
}

/* ---- Sentinels ----------------------------------------------------------------------------- */

/* Begins to connect to the sentinel whose turn it is, or ends with what all of them said. */
static int transport_next_sentinel(srt_transport *t)
{
    int status;
    transport_close_fd(t);
    transport_forget_addresses(t);
    status = seriatim_sentinel_next(t->sentinel, &t->at);
    if (status != SERIATIM_OK) {
        t->asking = 0;
        t->error = *seriatim_sentinel_error(t->sentinel);
        return status;
    }
    t->asking = 1;
    t->asked = 0;
    t->asks_until = srt_clock_ms() + SERIATIM_SENTINEL_MS;
    return transport_connect_host(t);
}

/* OK: t->at is the master's address. AGAIN. Anything else: this sentinel is of no use. */
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
    transport_close_fd(t);
    transport_forget_addresses(t);
    t->asking = 0;
    srt_error_clear(&t->error);
    return transport_connect_host(t);
}

/* status: of the step that was made towards the present sentinel. */
static int transport_go_on_asking(srt_transport *t, int status)
{
    while (t->asking) {
        if (status == SERIATIM_OK)
            status = transport_ask(t);
        if (status == SERIATIM_OK)
            return transport_connect_master(t);
        t->deadline_ms = t->asks_until;
        if (status == SERIATIM_AGAIN && srt_clock_ms() < t->asks_until)
            return status;
        if (status == SERIATIM_AGAIN)
            transport_fail(t, SERIATIM_TIMEOUT, "asking", "no answer in 500 ms");
        status = transport_next_sentinel(t);
    }
    return status;
}

/* ---- All of it ----------------------------------------------------------------------------- */

static int transport_begin(srt_transport *t)
{
    if (t->url->kind == SRT_URL_UNIX)
        return transport_connect_unix(t);
    if (!t->sentinel)
        return transport_connect_host(t);
    seriatim_sentinel_begin(t->sentinel);
    return transport_go_on_asking(t, transport_next_sentinel(t));
}

/* The address is known as soon as it is no sentinel's. */
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
        return transport_tls_begin(t);
#endif
    return transport_note_address(t, transport_begin(t));
}

int srt_transport_step(srt_transport *t)
{
    int was_ready = t->phase == TRANSPORT_READY && !t->asking, status = transport_step_phase(t);
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
    return status != SERIATIM_OK || len == 0 ? status : transport_put(t, data, len, written);
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
    if (t && transport_tls_has_bytes(t))
        return SERIATIM_OK;
    if (wants)
        fds[0].fd = t->fd;
    fds[0].events =
        (short)((wants & SERIATIM_WANT_READ ? POLLIN : 0) | (wants & SERIATIM_WANT_WRITE ? POLLOUT : 0));
    n = poll(fds, 2, transport_poll_ms(t, timeout_ms));
    if (n > 0)
        return SERIATIM_OK;
    return n == 0 || errno == EINTR ? SERIATIM_AGAIN : SERIATIM_IO;
}

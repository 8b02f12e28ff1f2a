/*
 * tls.c - TLS by OpenSSL over two memory BIOs, so that it never sees the socket; without OpenSSL rediss:// is refused.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "net/transport_state.h"

#ifdef SERIATIM_WITH_OPENSSL
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#endif

#define TRANSPORT_TLS_CHUNK ((size_t)16 * 1024)

#ifdef SERIATIM_WITH_OPENSSL

/* Ends the connection with the error that OpenSSL gives. */
static int transport_tls_fail(srt_transport *t)
{
    char text[160];
    long verified = t->tls ? SSL_get_verify_result(t->tls) : X509_V_OK;
    unsigned long code = ERR_get_error();
    if (verified != X509_V_OK)
        return srt_transport_fail(t, SERIATIM_IO, "TLS certificate of", X509_verify_cert_error_string(verified));
    if (code == 0)
        return srt_transport_fail(t, SERIATIM_IO, "TLS with", "protocol failure");
    ERR_error_string_n(code, text, sizeof text);
    return srt_transport_fail(t, SERIATIM_IO, "TLS with", text);
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

int srt_transport_tls_begin(srt_transport *t)
{
    ERR_clear_error();
    if (!transport_tls_make_context(t) || !transport_tls_make(t))
        return transport_tls_fail(t);
    t->phase = TRANSPORT_HANDSHAKE;
    t->deadline_ms = srt_transport_limit(t);
    return SERIATIM_OK;
}

int srt_transport_tls_flush(srt_transport *t)
{
    char *held, chunk[TRANSPORT_TLS_CHUNK];
    long len;
    while ((len = BIO_get_mem_data(t->to_peer, &held)) > 0) {
        size_t want = (size_t)len < sizeof chunk ? (size_t)len : sizeof chunk, sent;
        int status = srt_transport_send(t, held, want, &sent);
        if (status != SERIATIM_OK)
            return status;
        BIO_read(t->to_peer, chunk, (int)sent);
    }
    t->blocked = 0;
    return SERIATIM_OK;
}

/* Gives TLS the bytes that have arrived. */
static int transport_tls_fill(srt_transport *t)
{
    char chunk[TRANSPORT_TLS_CHUNK];
    size_t got;
    int status = srt_transport_recv(t, chunk, sizeof chunk, &got);
    if (status != SERIATIM_OK)
        return status;
    if (BIO_write(t->from_peer, chunk, (int)got) != (int)got)
        return transport_tls_fail(t);
    return SERIATIM_OK;
}

int srt_transport_tls_handshake(srt_transport *t)
{
    for (;;) {
        int rc, starved, status;
        ERR_clear_error();
        rc = SSL_do_handshake(t->tls);
        starved = rc != 1 && SSL_get_error(t->tls, rc) == SSL_ERROR_WANT_READ;
        status = srt_transport_tls_flush(t); /* after a failure this sends the alert that says why */
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

int srt_transport_tls_write(srt_transport *t, const void *data, size_t len, size_t *written)
{
    int status = srt_transport_tls_flush(t); /* so that TLS never holds back more than one part */
    while (*written < len && status == SERIATIM_OK) {
        size_t part = len - *written, taken;
        part = part < TRANSPORT_TLS_CHUNK ? part : TRANSPORT_TLS_CHUNK;
        ERR_clear_error();
        if (SSL_write_ex(t->tls, (const char *)data + *written, part, &taken) != 1)
            return transport_tls_fail(t);
        *written += taken;
        status = srt_transport_tls_flush(t);
    }
    return status == SERIATIM_AGAIN && *written > 0 ? SERIATIM_OK : status;
}

int srt_transport_tls_read(srt_transport *t, void *buf, size_t cap, size_t *got)
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
            return srt_transport_fail(t, SERIATIM_IO, "reading from", "connection closed by Redis");
        if (reason != SSL_ERROR_WANT_READ)
            return transport_tls_fail(t);
        status = srt_transport_tls_flush(t); /* reading may have made an answer: a new key, an alert */
        if (status == SERIATIM_OK || status == SERIATIM_AGAIN)
            status = transport_tls_fill(t);
        if (status != SERIATIM_OK)
            return status;
    }
}

int srt_transport_tls_has_bytes(const srt_transport *t)
{
    return t->tls && (SSL_pending(t->tls) > 0 || BIO_ctrl_pending(t->from_peer) > 0);
}

int srt_transport_has_tls(const srt_transport *t)
{
    return t->tls != NULL;
}

#else

int srt_transport_tls_begin(srt_transport *t)
{
    return srt_transport_fail(t, SERIATIM_UNSUPPORTED, "TLS with",
                              "not in this build: apt-get install libssl-dev pkg-config, then reinstall");
}

int srt_transport_tls_flush(srt_transport *t)
{
    return srt_transport_tls_begin(t);
}

int srt_transport_tls_handshake(srt_transport *t)
{
    return srt_transport_tls_begin(t);
}

int srt_transport_tls_write(srt_transport *t, const void *data, size_t len, size_t *written)
{
    (void)data;
    (void)len;
    (void)written;
    return srt_transport_tls_begin(t);
}

int srt_transport_tls_read(srt_transport *t, void *buf, size_t cap, size_t *got)
{
    (void)buf;
    (void)cap;
    (void)got;
    return srt_transport_tls_begin(t);
}

int srt_transport_tls_has_bytes(const srt_transport *t)
{
    (void)t;
    return 0;
}

int srt_transport_has_tls(const srt_transport *t)
{
    (void)t;
    return 0;
}

#endif

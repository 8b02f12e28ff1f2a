/* transport_state.h - shared by the files of a connection: transport_end.c, socket.c, tls.c, connect.c, transport.c. */
#ifndef SRT_TRANSPORT_STATE_H
#define SRT_TRANSPORT_STATE_H

#include "net/lookup.h"
#include "net/sentinel.h"
#include "net/transport.h"
#include "base/status.h"
#include "base/system.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/types.h>
#ifdef SERIATIM_WITH_OPENSSL
#include <openssl/ssl.h>
#endif

typedef enum transport_phase {
    TRANSPORT_CLOSED,
    TRANSPORT_LOOKING_UP, /* the host, on another thread */
    TRANSPORT_CONNECTING,
    TRANSPORT_HANDSHAKE,
    TRANSPORT_READY
} transport_phase;

struct srt_transport {
    const seriatim_allocator *mem;
    const srt_url *url;
    seriatim_address at;         /* TCP and TLS: the Redis or the sentinel that is connected */
    char aimed[256];             /* at.host, if srt_transport_aim has given one */
    seriatim_sentinel *sentinel; /* NULL: the URL says where Redis is */
    int asking;                  /* it is connected, or to be connected, to a sentinel */
    size_t asked;                /* bytes of the question that are sent */
    int64_t asks_until;          /* INT64_MAX: the sentinel's host is not looked up yet */
    char address[280];
    transport_phase phase;
    int fd;
    int blocked; /* the socket took less than it was given */
    int limit_ms;
    int64_t began_ms; /* when the host was looked up */
    int64_t deadline_ms;
    int looks_up_by_thread;            /* srt_transport_look_up_by_thread */
    srt_lookup *lookup;                /* TRANSPORT_LOOKING_UP */
    struct addrinfo *addresses, *next; /* TCP: all that were found, and the next to try */
    seriatim_error error;
#ifdef SERIATIM_WITH_OPENSSL
    SSL_CTX *tls_context; /* kept across connections: it holds the certificates */
    SSL *tls;
    BIO *from_peer, *to_peer; /* owned by tls */
#endif
};

/* ---- transport_end.c ----------------------------------------------------------------------- */

/* Returns the deadline of a step that begins now. */
int64_t srt_transport_limit(const srt_transport *t);
void srt_transport_close_fd(srt_transport *t);
/* Also abandons a look-up. */
void srt_transport_forget_addresses(srt_transport *t);
/* Ends the connection with an error of the form "what where: why", in one line. */
int srt_transport_fail(srt_transport *t, int status, const char *what, const char *why);
int srt_transport_fail_errno(srt_transport *t, const char *what, int code);
/* Returns the error of a call on a connection that has ended or was never begun. */
int srt_transport_ended(srt_transport *t);

/* ---- socket.c ------------------------------------------------------------------------------ */

int srt_transport_open_socket(int family);
void srt_transport_tune(int fd, int family);
int srt_transport_send(srt_transport *t, const void *data, size_t len, size_t *sent);
int srt_transport_recv(srt_transport *t, void *buf, size_t cap, size_t *got);

/* ---- tls.c --------------------------------------------------------------------------------- */

int srt_transport_tls_begin(srt_transport *t);
/* Sends the bytes that TLS has encrypted. */
int srt_transport_tls_flush(srt_transport *t);
int srt_transport_tls_handshake(srt_transport *t);
int srt_transport_tls_write(srt_transport *t, const void *data, size_t len, size_t *written);
int srt_transport_tls_read(srt_transport *t, void *buf, size_t cap, size_t *got);
/* Returns 1 if TLS holds decrypted bytes, so that a read succeeds although the socket is not readable. */
int srt_transport_tls_has_bytes(const srt_transport *t);
int srt_transport_has_tls(const srt_transport *t);

/* ---- connect.c ----------------------------------------------------------------------------- */

int srt_transport_connect_unix(srt_transport *t);
/* Begins to connect to the host in t->at. */
int srt_transport_connect_host(srt_transport *t);
int srt_transport_step_phase(srt_transport *t);

#endif

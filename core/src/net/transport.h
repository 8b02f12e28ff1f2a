/* transport.h - one non-blocking connection to Redis: TCP, Unix socket or TLS, at an address or where sentinels say. */
#ifndef SRT_TRANSPORT_H
#define SRT_TRANSPORT_H

#include "net/url.h"

/*
 * The life of a connection:
 *
 *     t = srt_transport_create(mem, url);
 *     status = srt_transport_connect(t, 5000);
 *     while (status == SERIATIM_AGAIN) {
 *         wait until srt_transport_fd is ready for srt_transport_wants, or srt_transport_deadline;
 *         status = srt_transport_step(t);
 *     }
 *     srt_transport_write and srt_transport_read, waiting in the same way when they say AGAIN
 *
 * Every status but OK and AGAIN ends the connection: its descriptor is closed at once, the text is
 * in srt_transport_error, and all calls but connect and destroy give the same status again.
 *
 * After a fork the child calls srt_transport_destroy: nothing here ever tells the peer of a close
 * (no shutdown(2), no TLS close), so the parent's connection lives on undisturbed.
 */
typedef struct srt_transport srt_transport;

/* NULL: out of memory. The URL is borrowed and must outlive the transport. */
srt_transport *srt_transport_create(const seriatim_allocator *mem, const srt_url *url);
/* Has the next connect go to this address instead of the URL's: a master of a cluster. A host longer than 255 is cut.
 */
void srt_transport_aim(srt_transport *t, const char *host, int port);
/*
 * From now on host names are looked up on threads of their own, and nothing blocks. A look-up has no limit but the
 * resolver's. It may go on when the transport was closed, and frees what it has when it ends.
 */
void srt_transport_look_up_by_thread(srt_transport *t);
void srt_transport_destroy(srt_transport *t); /* closes; NULL is fine */

/*
 * With sentinels each connect asks them, the one that answered last first, SERIATIM_SENTINEL_MS each, and then connects
 * to the master that the first answer names. The caller must check that it is a master (srt_session.masters_only), and
 * call srt_transport_served when it has answered a request: else the next connect begins with another sentinel.
 *
 * Begins to connect, after closing what was open; OK means ready already. Only a TCP host name
 * blocks, in getaddrinfo, unless srt_transport_look_up_by_thread was called. The last address of the host, and then the
 * TLS handshake, has limit_ms, each address before it a quarter of that. UNSUPPORTED: rediss:// in a build without
 * OpenSSL.
 */
int srt_transport_connect(srt_transport *t, int limit_ms);
/*
 * Goes on with connecting, and later with sending what TLS still holds back. OK: ready, nothing
 * held back. AGAIN: wait. TIMEOUT: the limit has passed on every address. IO: refused, reset...
 */
int srt_transport_step(srt_transport *t);
void srt_transport_served(srt_transport *t);
void srt_transport_close(srt_transport *t);

int srt_transport_fd(const srt_transport *t);    /* -1: closed; each connect or step may change it */
int srt_transport_wants(const srt_transport *t); /* mask of SERIATIM_WANT_READ, SERIATIM_WANT_WRITE */
/*
 * What it is connected to, or was last: "host:port" or a path. Empty: nothing yet. Borrowed until the next connect or
 * step.
 */
const char *srt_transport_address(const srt_transport *t);
/*
 * Ends a connect that is under way and whose caller waits no longer. Returns TIMEOUT; srt_transport_error says what did
 * not come: a connection, an answer to the TLS handshake, or a sentinel's answer.
 */
int srt_transport_expire(srt_transport *t);
/* When it began to connect, once the host was looked up; while that goes on, now. srt_clock_ms time. */
int64_t srt_transport_began(const srt_transport *t);
/* When step must be called even if nothing is ready, in srt_clock_ms time; INT64_MAX: never. */
int64_t srt_transport_deadline(const srt_transport *t);
const seriatim_error *srt_transport_error(const srt_transport *t);

/*
 * OK: *written of len bytes were taken, at least one unless len is 0. AGAIN: none. With wants
 * saying SERIATIM_WANT_WRITE and nothing left to write, wait and call step: TLS is holding bytes back.
 * If the connection ends behind some of the bytes, they count as taken, and the next call gives the error.
 */
int srt_transport_write(srt_transport *t, const void *data, size_t len, size_t *written);
/* OK: *got bytes, at least one. Read until AGAIN before waiting. End of stream is IO. */
int srt_transport_read(srt_transport *t, void *buf, size_t cap, size_t *got);

/*
 * Waits with poll(2) for what the transport (may be NULL) wants, for extra_fd (may be -1) to become
 * readable, or for the transport's deadline. OK: something is ready, try both. AGAIN: the time
 * passed, or a signal came. timeout_ms < 0: no limit.
 */
int srt_transport_wait(srt_transport *t, int extra_fd, int timeout_ms);

#endif

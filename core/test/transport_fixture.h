/*
 * transport_fixture.h - what test_transport and test_transport_tls share: a redis-server with TLS, peers, and a
 * transport driven step by step.
 */
#ifndef SRT_TEST_TRANSPORT_FIXTURE_H
#define SRT_TEST_TRANSPORT_FIXTURE_H

#include "net/transport.h"
#include "redis_process.h"

#define LIMIT_MS 30000 /* of one connect, read or write */

const seriatim_allocator *default_memory(void);
/* The caller frees it. */
srt_url parsed_url(const char *text);
/* Steps until the status is not AGAIN any more, and returns it. */
int drive_transport(srt_transport *t, int status);
/* Connects within limit_ms. Returns the status. */
int open_transport(srt_transport *t, int limit_ms);
/* All `len` bytes. Return the status. */
int transport_write_all(srt_transport *t, const char *data, size_t len);
int transport_read_all(srt_transport *t, char *data, size_t len);
void assert_ping(srt_transport *t);
/* scheme://host:port. The caller frees it. */
srt_url loopback_url(const char *scheme, const char *host, int port);

typedef struct tls_server {
    redis_process redis;
    int port, tls_port; /* 0: redis-server has no TLS */
} tls_server;

/* cmocka's set-up and tear-down: *state is a tls_server, with certificates in its folder. */
int start_tls_redis(void **state);
int stop_tls_redis(void **state);
/* Connects to a real Redis at this URL, sends commands and a large payload, and gets them back. */
void check_real(const char *text);
/* A child that closes its copy does not disturb the parent's connection. */
void check_fork(srt_transport *t);

/* For a thread: accepts one connection, sends `says` in segments of one byte, and closes or resets it. */
typedef struct one_byte_peer {
    int listener;
    const char *says; /* one byte a segment */
    int resets;
} one_byte_peer;

void *run_one_byte_peer(void *argument);

#endif

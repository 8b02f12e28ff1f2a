/* test_transport_tls.c - one connection with TLS against a real Redis, a real sentinel and wrong certificates. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "port.h"
#include "redis_process.h"
#include "net/transport.h"
#include "transport_fixture.h"

/* ---- Peers that refuse, swallow, dribble and reset ----------------------------------------- */

/* A peer that accepts but never says a word of TLS. */
static void test_a_silent_tls_peer_ends_at_the_limit(void **state)
{
    int port, listener = listen_on_loopback(5, &port);
    srt_url url = loopback_url("rediss", "127.0.0.1", port);
    srt_transport *t = srt_transport_create(default_memory(), &url);
    (void)state;
#ifdef SERIATIM_WITH_OPENSSL
    assert_int_equal(open_transport(t, 200), SERIATIM_TIMEOUT);
    assert_non_null(strstr(srt_transport_error(t)->message, "TLS"));
#else
    assert_int_equal(open_transport(t, 200), SERIATIM_UNSUPPORTED);
    assert_non_null(strstr(srt_transport_error(t)->message, "apt-get install libssl-dev"));
#endif
    srt_transport_destroy(t);
    srt_url_free(&url);
    close(listener);
}

/* ---- TLS ----------------------------------------------------------------------------------- */

static int tls_missing(const tls_server *s)
{
#ifdef SERIATIM_WITH_OPENSSL
    if (s->tls_port)
        return 0;
    fprintf(stderr, "SKIPPED: this redis-server has no TLS\n");
#else
    (void)s;
    fprintf(stderr, "SKIPPED: built without SERIATIM_WITH_OPENSSL\n");
#endif
    return 1;
}

static void test_a_tls_port_is_connected(void **state)
{
    tls_server *s = *state;
    char text[128];
    if (tls_missing(s))
        skip();
    snprintf(text, sizeof text, "rediss://localhost:%d", s->tls_port);
    check_real(text);
}

static void test_a_child_does_not_use_the_parent_s_tls_connection(void **state)
{
    tls_server *s = *state;
    srt_url url;
    srt_transport *t;
    if (tls_missing(s))
        skip();
    url = loopback_url("rediss", "localhost", s->tls_port);
    t = srt_transport_create(default_memory(), &url);
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_OK);
    check_fork(t);
    srt_transport_destroy(t);
    srt_url_free(&url);
}

/* Redis has gone: its system refuses the first bytes, and the bytes behind them are not sent. */
static void test_bytes_that_were_sent_before_an_error_are_counted(void **state)
{
    static char data[128 * 1024];
    tls_server *s = *state;
    srt_url url;
    srt_transport *t;
    size_t written = 0;
    if (tls_missing(s))
        skip();
    url = loopback_url("rediss", "localhost", s->tls_port);
    t = srt_transport_create(default_memory(), &url);
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_OK);
    assert_int_equal(transport_write_all(t, "QUIT\r\n", 6), SERIATIM_OK);
    poll(NULL, 0, 500); /* the end comes behind the answer, which is not read */
    assert_int_equal(srt_transport_write(t, data, sizeof data, &written), SERIATIM_OK);
    assert_in_range(written, 1, sizeof data - 1);
    assert_int_equal(srt_transport_write(t, data, sizeof data, &written), SERIATIM_IO);
    assert_int_equal(written, 0);
    assert_non_null(strstr(srt_transport_error(t)->message, "writing to localhost:"));
    srt_transport_destroy(t);
    srt_url_free(&url);
}

static void start_tls_sentinel(redis_process *sentinel, const tls_server *s, int port)
{
    char file[96];
    const char *const words[] = {file, "--sentinel", NULL};
    FILE *f;
    assert_int_equal(redis_make_folder(sentinel), 0);
    snprintf(file, sizeof file, "%s/sentinel.conf", sentinel->folder);
    f = fopen(file, "w");
    assert_non_null(f);
    fprintf(f,
            "port 0\ntls-port %d\nbind 127.0.0.1\ndir %s\ntls-cert-file %s/cert.pem\ntls-key-file %s/key.pem\n"
            "tls-ca-cert-file %s/cert.pem\ntls-auth-clients no\ntls-replication yes\nsentinel resolve-hostnames yes\n"
            "sentinel announce-hostnames yes\nsentinel monitor m localhost %d 1\n",
            port, sentinel->folder, s->redis.folder, s->redis.folder, s->redis.folder, s->tls_port);
    fclose(f);
    assert_int_equal(redis_run_plain(sentinel, words), 0);
}

/* Sentinel and master over TLS, each with the certificate of its own name. */
static void test_sentinel_and_master_are_reached_over_tls(void **state)
{
    tls_server *s = *state;
    char text[128], address[32];
    int port = free_port(), tries, status = SERIATIM_IO;
    srt_transport *t;
    redis_process sentinel;
    srt_url url;
    if (tls_missing(s))
        skip();
    start_tls_sentinel(&sentinel, s, port);
    snprintf(text, sizeof text, "rediss+sentinel://localhost:%d/m", port);
    url = parsed_url(text);
    t = srt_transport_create(default_memory(), &url);
    for (tries = 0; tries < 6000 && status != SERIATIM_OK; tries++) {
        poll(NULL, 0, 10);
        status = open_transport(t, LIMIT_MS);
    }
    if (status != SERIATIM_OK)
        fail_msg("%s", srt_transport_error(t)->message);
    assert_ping(t);
    snprintf(address, sizeof address, "localhost:%d", s->tls_port);
    assert_string_equal(srt_transport_address(t), address);
    srt_transport_destroy(t);
    srt_url_free(&url);
    assert_int_equal(redis_remove(&sentinel), 0);
}

static void check_tls_refused(const char *host, int port, const char *why)
{
    srt_url url = loopback_url("rediss", host, port);
    srt_transport *t = srt_transport_create(default_memory(), &url);
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_IO);
    if (!strstr(srt_transport_error(t)->message, why))
        fail_msg("%s lacks %s", srt_transport_error(t)->message, why);
    srt_transport_destroy(t);
    srt_url_free(&url);
}

/* A peer that is silent, as a Redis on a port without TLS is: it waits for the end of a line. */
static void check_tls_unanswered(int port)
{
    srt_url url = loopback_url("rediss", "127.0.0.1", port);
    srt_transport *t = srt_transport_create(default_memory(), &url);
    assert_int_equal(open_transport(t, 100), SERIATIM_TIMEOUT);
    assert_non_null(strstr(srt_transport_error(t)->message, "the handshake got no answer"));
    srt_transport_destroy(t);
    srt_url_free(&url);
}

static void test_untrusted_certificates_are_refused(void **state)
{
    tls_server *s = *state;
    char kept[128];
    int plain_port;
    one_byte_peer plain = {listen_on_loopback(5, &plain_port), "-ERR unknown command\r\n", 0};
    pthread_t thread;
    if (tls_missing(s))
        skip();
    check_tls_refused("127.0.0.1", s->tls_port, "mismatch"); /* the certificate is for localhost */
    assert_int_equal(pthread_create(&thread, NULL, run_one_byte_peer, &plain), 0);
    check_tls_refused("127.0.0.1", plain_port, "TLS"); /* a peer that speaks no TLS */
    pthread_join(thread, NULL);
    check_tls_unanswered(plain_port); /* nobody accepts any more */
    close(plain.listener);
    snprintf(kept, sizeof kept, "%s", getenv("SSL_CERT_FILE"));
    setenv("SSL_CERT_FILE", "/dev/null", 1);
    check_tls_refused("localhost", s->tls_port, "self"); /* nobody vouches for it */
    setenv("SSL_CERT_FILE", kept, 1);
}

static void show_certificate(const tls_server *s, const char *name)
{
    srt_url url = loopback_url("redis", "127.0.0.1", s->port);
    srt_transport *t = srt_transport_create(default_memory(), &url);
    char command[256], file[128], reply[5];
    snprintf(file, sizeof file, "%s/%s", s->redis.folder, name);
    snprintf(command, sizeof command, "CONFIG SET tls-cert-file %s\r\n", file);
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_OK);
    assert_int_equal(transport_write_all(t, command, strlen(command)), SERIATIM_OK);
    assert_int_equal(transport_read_all(t, reply, 5), SERIATIM_OK);
    assert_memory_equal(reply, "+OK\r\n", 5);
    setenv("SSL_CERT_FILE", file, 1);
    srt_transport_destroy(t);
    srt_url_free(&url);
}

/* A trusted certificate, but for another name. */
static void test_p2_a_certificate_of_another_name_is_refused(void **state)
{
    tls_server *s = *state;
    if (tls_missing(s))
        skip();
    show_certificate(s, "wrong.pem");
    check_tls_refused("localhost", s->tls_port, "ostname mismatch");
    show_certificate(s, "cert.pem");
}

/* ---- Out of memory ------------------------------------------------------------------------- */

static void *no_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    (void)user;
    (void)ptr;
    (void)old_size;
    (void)new_size;
    return NULL;
}

static void test_every_allocation_of_a_connection_may_fail(void **state)
{
    srt_url url = parsed_url("redis://h");
    seriatim_allocator none = {no_alloc, NULL};
    (void)state;
    assert_null(srt_transport_create(&none, &url));
    srt_transport_destroy(NULL);
    srt_url_free(&url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_silent_tls_peer_ends_at_the_limit),
        cmocka_unit_test(test_a_tls_port_is_connected),
        cmocka_unit_test(test_a_child_does_not_use_the_parent_s_tls_connection),
        cmocka_unit_test(test_bytes_that_were_sent_before_an_error_are_counted),
        cmocka_unit_test(test_sentinel_and_master_are_reached_over_tls),
        cmocka_unit_test(test_untrusted_certificates_are_refused),
        cmocka_unit_test(test_p2_a_certificate_of_another_name_is_refused),
        cmocka_unit_test(test_every_allocation_of_a_connection_may_fail),
    };
    return cmocka_run_group_tests(tests, start_tls_redis, stop_tls_redis);
}

/* test_transport.c - one connection against real Redis, hostile peers and TLS. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "port.h"
#include "redis_process.h"
#include "base/status.h"
#include "base/system.h"
#include "net/transport.h"

#define LIMIT_MS 5000

static const seriatim_allocator *mem(void)
{
    return seriatim_default_allocator();
}

/* ---- Helpers ------------------------------------------------------------------------------- */

static srt_url url_of(const char *text)
{
    srt_url url;
    seriatim_error error;
    if (srt_url_parse(&url, mem(), text, strlen(text), &error) != SERIATIM_OK)
        fail_msg("%s: %s", text, error.message);
    return url;
}

static int drive(srt_transport *t, int status)
{
    while (status == SERIATIM_AGAIN) {
        assert_int_not_equal(srt_transport_wants(t), 0);
        assert_true(srt_transport_fd(t) >= 0);
        (void)srt_transport_wait(t, -1, LIMIT_MS);
        status = srt_transport_step(t);
    }
    return status;
}

static int open_to(srt_transport *t, int limit_ms)
{
    return drive(t, srt_transport_connect(t, limit_ms));
}

static int write_all(srt_transport *t, const char *data, size_t len)
{
    while (len > 0) {
        size_t n = 0;
        int status = srt_transport_write(t, data, len, &n);
        assert_true(status != SERIATIM_OK || n > 0);
        data += n;
        len -= n;
        if (status == SERIATIM_AGAIN)
            (void)srt_transport_wait(t, -1, LIMIT_MS);
        else if (status != SERIATIM_OK)
            return status;
    }
    return drive(t, srt_transport_step(t)); /* what TLS holds back */
}

static int read_all(srt_transport *t, char *data, size_t len)
{
    int64_t end = srt_clock_ms() + LIMIT_MS;
    while (len > 0) {
        size_t n = 0;
        int status = srt_transport_read(t, data, len, &n);
        assert_true(status != SERIATIM_OK || n > 0);
        data += n;
        len -= n;
        if (status == SERIATIM_AGAIN && srt_clock_ms() < end)
            (void)srt_transport_wait(t, -1, 100);
        else if (status != SERIATIM_OK)
            return status;
    }
    return SERIATIM_OK;
}

static void assert_ping(srt_transport *t)
{
    char reply[7];
    assert_int_equal(write_all(t, "PING\r\n", 6), SERIATIM_OK);
    assert_int_equal(read_all(t, reply, 7), SERIATIM_OK);
    assert_memory_equal(reply, "+PONG\r\n", 7);
}

static srt_url loopback_url(const char *scheme, const char *host, int port)
{
    char text[128];
    snprintf(text, sizeof text, "%s://%s:%d", scheme, host, port);
    return url_of(text);
}

/* ---- A real Redis -------------------------------------------------------------------------- */

typedef struct server {
    redis_process redis;
    int port, tls_port; /* 0: redis-server has no TLS */
} server;

/* cert.pem for localhost, and wrong.pem with the same key for another name. */
static void make_certificates(const server *s)
{
    char command[1024];
    snprintf(command, sizeof command,
             "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem "
             "-out cert.pem -subj /CN=localhost -addext subjectAltName=DNS:localhost "
             ">openssl.log 2>&1 && openssl req -x509 -key key.pem -days 2 -out wrong.pem "
             "-subj /CN=redis.example -addext subjectAltName=DNS:redis.example >>openssl.log 2>&1",
             s->redis.folder);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/cert.pem", s->redis.folder);
    setenv("SSL_CERT_FILE", command, 1);
}

static int run_redis(server *s, int tls)
{
    char port[16], tls_port[16], cert[96], key[96];
    const char *const words[] = {"--port",
                                 port,
                                 "--bind",
                                 "127.0.0.1",
                                 tls ? "--tls-port" : NULL,
                                 tls_port,
                                 "--tls-cert-file",
                                 cert,
                                 "--tls-key-file",
                                 key,
                                 "--tls-auth-clients",
                                 "no",
                                 NULL};
    s->port = free_port();
    s->tls_port = tls ? free_port() : 0;
    snprintf(port, sizeof port, "%d", s->port);
    snprintf(tls_port, sizeof tls_port, "%d", s->tls_port);
    snprintf(cert, sizeof cert, "%s/cert.pem", s->redis.folder);
    snprintf(key, sizeof key, "%s/key.pem", s->redis.folder);
    return redis_run(&s->redis, words) == 0 && redis_wait(&s->redis) == 0;
}

static int start_redis(void **state)
{
    server *s = calloc(1, sizeof *s);
    if (!s || redis_make_folder(&s->redis) != 0)
        return -1;
    make_certificates(s);
    *state = s;
    return run_redis(s, 1) || run_redis(s, 0) ? 0 : -1;
}

static int stop_redis(void **state)
{
    server *s = *state;
    int status = redis_remove(&s->redis);
    free(s);
    return status;
}

/* A payload much larger than all socket buffers, there and back. */
static void assert_echo(srt_transport *t, size_t len)
{
    char head[32], *data = malloc(len + 2), *back = malloc(len + 2);
    int head_len = snprintf(head, sizeof head, "*2\r\n$4\r\nECHO\r\n$%zu\r\n", len);
    size_t i, skip;
    assert_true(data && back);
    for (i = 0; i < len; i++)
        data[i] = (char)(i * 7 + i / 251);
    memcpy(data + len, "\r\n", 2);
    assert_int_equal(write_all(t, head, (size_t)head_len), SERIATIM_OK);
    assert_int_equal(write_all(t, data, len + 2), SERIATIM_OK);
    skip = (size_t)snprintf(head, sizeof head, "$%zu\r\n", len);
    assert_int_equal(read_all(t, back, skip), SERIATIM_OK);
    assert_memory_equal(back, head, skip);
    assert_int_equal(read_all(t, back, len + 2), SERIATIM_OK);
    assert_memory_equal(back, data, len + 2);
    free(data);
    free(back);
}

static void check_real(const char *text)
{
    srt_url url = url_of(text);
    srt_transport *t = srt_transport_create(mem(), &url);
    char byte;
    size_t got = 1;
    assert_int_equal(srt_transport_fd(t), -1);
    assert_int_equal(srt_transport_step(t), SERIATIM_CLOSED);
    assert_int_equal(open_to(t, LIMIT_MS), SERIATIM_OK);
    assert_true(srt_transport_deadline(t) == INT64_MAX);
    assert_true(fcntl(srt_transport_fd(t), F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(srt_transport_fd(t), F_GETFL) & O_NONBLOCK);
    assert_ping(t);
    assert_int_equal(srt_transport_read(t, &byte, 1, &got), SERIATIM_AGAIN);
    assert_int_equal(got, 0);
    assert_int_equal(srt_transport_wants(t), SERIATIM_WANT_READ);
    assert_echo(t, (size_t)8 * 1024 * 1024);
    assert_int_equal(srt_transport_connect(t, LIMIT_MS) == SERIATIM_AGAIN ? drive(t, SERIATIM_AGAIN) : SERIATIM_OK,
                     SERIATIM_OK); /* again on the same object */
    assert_ping(t);
    assert_int_equal(write_all(t, "QUIT\r\n", 6), SERIATIM_OK);
    assert_int_equal(read_all(t, &byte, 1), SERIATIM_OK);
    {
        char rest[16];
        assert_int_equal(read_all(t, rest, 16), SERIATIM_IO);
    }
    assert_non_null(strstr(srt_transport_error(t)->message, "closed by Redis"));
    assert_int_equal(srt_transport_fd(t), -1);
    assert_int_equal(srt_transport_wants(t), 0);
    assert_int_equal(srt_transport_write(t, "x", 1, &got), SERIATIM_IO); /* sticky */
    srt_transport_destroy(t);
    srt_url_free(&url);
}

static void test_a_unix_socket_is_connected(void **state)
{
    server *s = *state;
    char text[128];
    snprintf(text, sizeof text, "unix://%s", s->redis.socket);
    check_real(text);
}

static void test_a_tcp_port_is_connected(void **state)
{
    server *s = *state;
    char text[128];
    snprintf(text, sizeof text, "redis://127.0.0.1:%d", s->port);
    check_real(text);
    snprintf(text, sizeof text, "redis://localhost:%d", s->port); /* ::1 may be refused first */
    check_real(text);
}

static void test_tcp_options_are_set(void **state)
{
    server *s = *state;
    srt_url url = loopback_url("redis", "127.0.0.1", s->port);
    srt_transport *t = srt_transport_create(mem(), &url);
    int value = 0;
    socklen_t len = sizeof value;
    assert_int_equal(open_to(t, LIMIT_MS), SERIATIM_OK);
    getsockopt(srt_transport_fd(t), IPPROTO_TCP, TCP_NODELAY, &value, &len);
    assert_true(value);
    getsockopt(srt_transport_fd(t), SOL_SOCKET, SO_KEEPALIVE, &value, &len);
    assert_true(value);
#ifdef TCP_USER_TIMEOUT
    getsockopt(srt_transport_fd(t), IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &len);
    assert_int_equal(value, 15000);
#endif
    srt_transport_destroy(t);
    srt_url_free(&url);
}

/* A child that closes its copy does not disturb the parent's connection. */
static void check_fork(srt_transport *t)
{
    pid_t child;
    assert_ping(t);
    child = fork();
    if (child == 0) {
        srt_transport_destroy(t);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_ping(t);
}

static void test_a_child_does_not_use_the_parent_s_connection(void **state)
{
    server *s = *state;
    srt_url url = loopback_url("redis", "127.0.0.1", s->port);
    srt_transport *t = srt_transport_create(mem(), &url);
    assert_int_equal(open_to(t, LIMIT_MS), SERIATIM_OK);
    check_fork(t);
    srt_transport_destroy(t);
    srt_url_free(&url);
}

/* ---- Peers that refuse, swallow, dribble and reset ----------------------------------------- */

static void test_a_refused_connection_is_an_error(void **state)
{
    srt_url url = loopback_url("redis", "127.0.0.1", free_port()), none = url_of("unix:///no%0asuch");
    srt_transport *t = srt_transport_create(mem(), &url);
    (void)state;
    assert_int_equal(open_to(t, LIMIT_MS), SERIATIM_IO);
    assert_non_null(strstr(srt_transport_error(t)->message, "refused"));
    assert_int_equal(srt_transport_step(t), SERIATIM_IO);
    srt_transport_destroy(t);
    t = srt_transport_create(mem(), &none);
    assert_int_equal(open_to(t, LIMIT_MS), SERIATIM_IO);
    assert_non_null(strstr(srt_transport_error(t)->message, "/no?such: No such file"));
    srt_transport_destroy(t);
    srt_url_free(&url);
    srt_url_free(&none);
}

static void test_p2_an_unknown_name_is_an_error(void **state)
{
    srt_url url = url_of("redis://no-such-host.invalid");
    srt_transport *t = srt_transport_create(mem(), &url);
    (void)state;
    assert_int_equal(open_to(t, LIMIT_MS), SERIATIM_IO);
    assert_non_null(strstr(srt_transport_error(t)->message, "looking up"));
    srt_transport_destroy(t);
    srt_url_free(&url);
}

/* A listener whose backlog is full drops every further SYN. */
static void test_f16_a_peer_that_drops_packets_ends_at_the_limit(void **state)
{
    int port, listener = listen_on_loopback(0, &port), i;
    srt_url url = loopback_url("redis", "127.0.0.1", port);
    srt_transport *t = srt_transport_create(mem(), &url);
    srt_transport *fill[3];
    int64_t before;
    (void)state;
    for (i = 0; i < 3; i++) {
        fill[i] = srt_transport_create(mem(), &url);
        (void)srt_transport_connect(fill[i], LIMIT_MS);
        poll(NULL, 0, 20);
    }
    before = srt_clock_ms();
    assert_int_equal(srt_transport_connect(t, 300), SERIATIM_AGAIN);
    assert_int_equal(srt_transport_wants(t), SERIATIM_WANT_WRITE);
    assert_true(srt_transport_deadline(t) >= before + 300 && srt_transport_deadline(t) <= srt_clock_ms() + 300);
    assert_int_equal(drive(t, SERIATIM_AGAIN), SERIATIM_TIMEOUT);
    assert_in_range(srt_clock_ms() - before, 290, 15000);
    assert_int_equal(srt_transport_fd(t), -1);
    for (i = 0; i < 3; i++)
        srt_transport_destroy(fill[i]);
    srt_transport_destroy(t);
    srt_url_free(&url);
    close(listener);
}

/* A peer that accepts but never says a word of TLS. */
static void test_a_silent_tls_peer_ends_at_the_limit(void **state)
{
    int port, listener = listen_on_loopback(5, &port);
    srt_url url = loopback_url("rediss", "127.0.0.1", port);
    srt_transport *t = srt_transport_create(mem(), &url);
    (void)state;
#ifdef SERIATIM_WITH_OPENSSL
    assert_int_equal(open_to(t, 200), SERIATIM_TIMEOUT);
    assert_non_null(strstr(srt_transport_error(t)->message, "TLS"));
#else
    assert_int_equal(open_to(t, 200), SERIATIM_UNSUPPORTED);
    assert_non_null(strstr(srt_transport_error(t)->message, "apt-get install libssl-dev"));
#endif
    srt_transport_destroy(t);
    srt_url_free(&url);
    close(listener);
}

typedef struct peer {
    int listener;
    const char *says; /* one byte a segment */
    int resets;
} peer;

static void *run_peer(void *argument)
{
    peer *p = argument;
    struct linger at_once = {1, 0};
    int fd = accept(p->listener, NULL, NULL), on = 1;
    const char *at;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (at = p->says; *at; at++) {
        if (send(fd, at, 1, MSG_NOSIGNAL) != 1)
            break;
        poll(NULL, 0, 2);
    }
    poll(NULL, 0, 50); /* let the last bytes be read before the reset throws them away */
    if (p->resets)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
    return NULL;
}

static void check_peer(int resets, const char *says_what)
{
    int port;
    peer p = {listen_on_loopback(5, &port), "*2\r\n$3\r\nfoo\r\n:17\r\n", resets};
    srt_url url = loopback_url("redis", "127.0.0.1", port);
    srt_transport *t = srt_transport_create(mem(), &url);
    char got[64];
    size_t len = strlen(p.says);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_peer, &p), 0);
    assert_int_equal(open_to(t, LIMIT_MS), SERIATIM_OK);
    assert_int_equal(read_all(t, got, len), SERIATIM_OK);
    assert_memory_equal(got, p.says, len);
    assert_int_equal(read_all(t, got, 1), SERIATIM_IO);
    assert_non_null(strstr(srt_transport_error(t)->message, says_what));
    pthread_join(thread, NULL);
    srt_transport_destroy(t);
    srt_url_free(&url);
    close(p.listener);
}

static void test_f17_segments_of_one_byte_arrive_whole(void **state)
{
    (void)state;
    check_peer(0, "closed by Redis");
    check_peer(1, "reset");
}

/* Writing to a peer that has gone is an error, never a SIGPIPE. */
static void test_p2_writing_to_a_gone_peer_raises_no_sigpipe(void **state)
{
    int port, listener = listen_on_loopback(5, &port), fd, status = SERIATIM_OK, i;
    srt_url url = loopback_url("redis", "127.0.0.1", port);
    srt_transport *t = srt_transport_create(mem(), &url);
    size_t n;
    (void)state;
    signal(SIGPIPE, SIG_DFL);
    assert_int_equal(open_to(t, LIMIT_MS), SERIATIM_OK);
    fd = accept(listener, NULL, NULL);
    close(fd);
    for (i = 0; i < 100 && status == SERIATIM_OK; i++) {
        status = srt_transport_write(t, "x", 1, &n);
        poll(NULL, 0, 2);
    }
    assert_int_equal(status, SERIATIM_IO);
    srt_transport_destroy(t);
    srt_url_free(&url);
    close(listener);
}

/* A peer that reads nothing: short writes, then AGAIN with WANT_WRITE; step forgets the wish. */
static void test_a_peer_that_reads_nothing_makes_writes_wait(void **state)
{
    int port, listener = listen_on_loopback(5, &port), status;
    srt_url url = loopback_url("redis", "127.0.0.1", port);
    srt_transport *t = srt_transport_create(mem(), &url);
    static char block[1 << 20];
    size_t n, sum = 0;
    (void)state;
    assert_int_equal(open_to(t, LIMIT_MS), SERIATIM_OK);
    do {
        status = srt_transport_write(t, block, sizeof block, &n);
        sum += n;
    } while (status == SERIATIM_OK);
    assert_int_equal(status, SERIATIM_AGAIN);
    assert_true(sum > 0);
    assert_int_equal(srt_transport_wants(t), SERIATIM_WANT_READ | SERIATIM_WANT_WRITE);
    assert_int_equal(srt_transport_wait(t, -1, 20), SERIATIM_AGAIN);
    assert_int_equal(srt_transport_step(t), SERIATIM_OK);
    assert_int_equal(srt_transport_wants(t), SERIATIM_WANT_READ);
    srt_transport_destroy(t);
    srt_url_free(&url);
    close(listener);
}

/* ---- Waiting ------------------------------------------------------------------------------- */

static void on_alarm(int number)
{
    (void)number;
}

static void test_a_wait_ends_at_its_limit_a_wake_or_a_signal(void **state)
{
    int wake[2];
    int64_t before = srt_clock_ms();
    struct sigaction action;
    (void)state;
    assert_int_equal(pipe(wake), 0);
    assert_int_equal(srt_transport_wait(NULL, wake[0], 50), SERIATIM_AGAIN);
    assert_in_range(srt_clock_ms() - before, 45, 15000);
    assert_int_equal(write(wake[1], "x", 1), 1);
    assert_int_equal(srt_transport_wait(NULL, wake[0], -1), SERIATIM_OK);
    close(wake[0]);
    close(wake[1]);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    assert_int_equal(srt_transport_wait(NULL, -1, -1), SERIATIM_AGAIN); /* a signal ends it */
}

/* ---- TLS ----------------------------------------------------------------------------------- */

static int tls_missing(const server *s)
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
    server *s = *state;
    char text[128];
    if (tls_missing(s))
        skip();
    snprintf(text, sizeof text, "rediss://localhost:%d", s->tls_port);
    check_real(text);
}

static void test_a_child_does_not_use_the_parent_s_tls_connection(void **state)
{
    server *s = *state;
    srt_url url;
    srt_transport *t;
    if (tls_missing(s))
        skip();
    url = loopback_url("rediss", "localhost", s->tls_port);
    t = srt_transport_create(mem(), &url);
    assert_int_equal(open_to(t, LIMIT_MS), SERIATIM_OK);
    check_fork(t);
    srt_transport_destroy(t);
    srt_url_free(&url);
}

static void start_tls_sentinel(redis_process *sentinel, const server *s, int port)
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
    server *s = *state;
    char text[128], address[32];
    int port = free_port(), tries, status = SERIATIM_IO;
    srt_transport *t;
    redis_process sentinel;
    srt_url url;
    if (tls_missing(s))
        skip();
    start_tls_sentinel(&sentinel, s, port);
    snprintf(text, sizeof text, "rediss+sentinel://localhost:%d/m", port);
    url = url_of(text);
    t = srt_transport_create(mem(), &url);
    for (tries = 0; tries < 6000 && status != SERIATIM_OK; tries++) {
        poll(NULL, 0, 10);
        status = open_to(t, LIMIT_MS);
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
    srt_transport *t = srt_transport_create(mem(), &url);
    assert_int_equal(open_to(t, LIMIT_MS), SERIATIM_IO);
    if (!strstr(srt_transport_error(t)->message, why))
        fail_msg("%s lacks %s", srt_transport_error(t)->message, why);
    srt_transport_destroy(t);
    srt_url_free(&url);
}

/* A peer that is silent, as a Redis on a port without TLS is: it waits for the end of a line. */
static void check_tls_unanswered(int port)
{
    srt_url url = loopback_url("rediss", "127.0.0.1", port);
    srt_transport *t = srt_transport_create(mem(), &url);
    assert_int_equal(open_to(t, 100), SERIATIM_TIMEOUT);
    assert_non_null(strstr(srt_transport_error(t)->message, "the handshake got no answer"));
    srt_transport_destroy(t);
    srt_url_free(&url);
}

static void test_untrusted_certificates_are_refused(void **state)
{
    server *s = *state;
    char kept[128];
    int plain_port;
    peer plain = {listen_on_loopback(5, &plain_port), "-ERR unknown command\r\n", 0};
    pthread_t thread;
    if (tls_missing(s))
        skip();
    check_tls_refused("127.0.0.1", s->tls_port, "mismatch"); /* the certificate is for localhost */
    assert_int_equal(pthread_create(&thread, NULL, run_peer, &plain), 0);
    check_tls_refused("127.0.0.1", plain_port, "TLS"); /* a peer that speaks no TLS */
    pthread_join(thread, NULL);
    check_tls_unanswered(plain_port); /* nobody accepts any more */
    close(plain.listener);
    snprintf(kept, sizeof kept, "%s", getenv("SSL_CERT_FILE"));
    setenv("SSL_CERT_FILE", "/dev/null", 1);
    check_tls_refused("localhost", s->tls_port, "self"); /* nobody vouches for it */
    setenv("SSL_CERT_FILE", kept, 1);
}

static void show_certificate(const server *s, const char *name)
{
    srt_url url = loopback_url("redis", "127.0.0.1", s->port);
    srt_transport *t = srt_transport_create(mem(), &url);
    char command[256], file[128], reply[5];
    snprintf(file, sizeof file, "%s/%s", s->redis.folder, name);
    snprintf(command, sizeof command, "CONFIG SET tls-cert-file %s\r\n", file);
    assert_int_equal(open_to(t, LIMIT_MS), SERIATIM_OK);
    assert_int_equal(write_all(t, command, strlen(command)), SERIATIM_OK);
    assert_int_equal(read_all(t, reply, 5), SERIATIM_OK);
    assert_memory_equal(reply, "+OK\r\n", 5);
    setenv("SSL_CERT_FILE", file, 1);
    srt_transport_destroy(t);
    srt_url_free(&url);
}

/* A trusted certificate, but for another name. */
static void test_p2_a_certificate_of_another_name_is_refused(void **state)
{
    server *s = *state;
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
    srt_url url = url_of("redis://h");
    seriatim_allocator none = {no_alloc, NULL};
    (void)state;
    assert_null(srt_transport_create(&none, &url));
    srt_transport_destroy(NULL);
    srt_url_free(&url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_unix_socket_is_connected),
        cmocka_unit_test(test_a_tcp_port_is_connected),
        cmocka_unit_test(test_tcp_options_are_set),
        cmocka_unit_test(test_a_child_does_not_use_the_parent_s_connection),
        cmocka_unit_test(test_a_refused_connection_is_an_error),
        cmocka_unit_test(test_p2_an_unknown_name_is_an_error),
        cmocka_unit_test(test_f16_a_peer_that_drops_packets_ends_at_the_limit),
        cmocka_unit_test(test_a_silent_tls_peer_ends_at_the_limit),
        cmocka_unit_test(test_f17_segments_of_one_byte_arrive_whole),
        cmocka_unit_test(test_p2_writing_to_a_gone_peer_raises_no_sigpipe),
        cmocka_unit_test(test_a_peer_that_reads_nothing_makes_writes_wait),
        cmocka_unit_test(test_a_wait_ends_at_its_limit_a_wake_or_a_signal),
        cmocka_unit_test(test_a_tls_port_is_connected),
        cmocka_unit_test(test_a_child_does_not_use_the_parent_s_tls_connection),
        cmocka_unit_test(test_sentinel_and_master_are_reached_over_tls),
        cmocka_unit_test(test_untrusted_certificates_are_refused),
        cmocka_unit_test(test_p2_a_certificate_of_another_name_is_refused),
        cmocka_unit_test(test_every_allocation_of_a_connection_may_fail),
    };
    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}

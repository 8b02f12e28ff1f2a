/* transport_fixture.c - a redis-server with TLS, peers that reset, and a transport driven step by step. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport_fixture.h"
#include "base/system.h"
#include "port.h"

const seriatim_allocator *default_memory(void)
{
    return seriatim_default_allocator();
}

srt_url parsed_url(const char *text)
{
    srt_url url;
    seriatim_error error;
    if (srt_url_parse(&url, default_memory(), text, strlen(text), &error) != SERIATIM_OK)
        fail_msg("%s: %s", text, error.message);
    return url;
}

int drive_transport(srt_transport *t, int status)
{
    while (status == SERIATIM_AGAIN) {
        assert_int_not_equal(srt_transport_wants(t), 0);
        assert_true(srt_transport_fd(t) >= 0);
        (void)srt_transport_wait(t, -1, LIMIT_MS);
        status = srt_transport_step(t);
    }
    return status;
}

int open_transport(srt_transport *t, int limit_ms)
{
    return drive_transport(t, srt_transport_connect(t, limit_ms));
}

int transport_write_all(srt_transport *t, const char *data, size_t len)
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
    return drive_transport(t, srt_transport_step(t)); /* what TLS holds back */
}

int transport_read_all(srt_transport *t, char *data, size_t len)
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

void assert_ping(srt_transport *t)
{
    char reply[7];
    assert_int_equal(transport_write_all(t, "PING\r\n", 6), SERIATIM_OK);
    assert_int_equal(transport_read_all(t, reply, 7), SERIATIM_OK);
    assert_memory_equal(reply, "+PONG\r\n", 7);
}

srt_url loopback_url(const char *scheme, const char *host, int port)
{
    char text[128];
    snprintf(text, sizeof text, "%s://%s:%d", scheme, host, port);
    return parsed_url(text);
}

/* cert.pem for localhost, and wrong.pem with the same key for another name. */
static void make_certificates(const tls_server *s)
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

static int run_redis(tls_server *s, int tls)
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

int start_tls_redis(void **state)
{
    tls_server *s = calloc(1, sizeof *s);
    if (!s || redis_make_folder(&s->redis) != 0)
        return -1;
    make_certificates(s);
    *state = s;
    return run_redis(s, 1) || run_redis(s, 0) ? 0 : -1;
}

int stop_tls_redis(void **state)
{
    tls_server *s = *state;
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
    assert_int_equal(transport_write_all(t, head, (size_t)head_len), SERIATIM_OK);
    assert_int_equal(transport_write_all(t, data, len + 2), SERIATIM_OK);
    skip = (size_t)snprintf(head, sizeof head, "$%zu\r\n", len);
    assert_int_equal(transport_read_all(t, back, skip), SERIATIM_OK);
    assert_memory_equal(back, head, skip);
    assert_int_equal(transport_read_all(t, back, len + 2), SERIATIM_OK);
    assert_memory_equal(back, data, len + 2);
    free(data);
    free(back);
}

void check_real(const char *text)
{
    srt_url url = parsed_url(text);
    srt_transport *t = srt_transport_create(default_memory(), &url);
    char byte;
    size_t got = 1;
    assert_int_equal(srt_transport_fd(t), -1);
    assert_int_equal(srt_transport_step(t), SERIATIM_CLOSED);
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_OK);
    assert_true(srt_transport_deadline(t) == INT64_MAX);
    assert_true(fcntl(srt_transport_fd(t), F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(srt_transport_fd(t), F_GETFL) & O_NONBLOCK);
    assert_ping(t);
    assert_int_equal(srt_transport_read(t, &byte, 1, &got), SERIATIM_AGAIN);
    assert_int_equal(got, 0);
    assert_int_equal(srt_transport_wants(t), SERIATIM_WANT_READ);
    assert_echo(t, (size_t)8 * 1024 * 1024);
    assert_int_equal(srt_transport_connect(t, LIMIT_MS) == SERIATIM_AGAIN ? drive_transport(t, SERIATIM_AGAIN)
                                                                          : SERIATIM_OK,
                     SERIATIM_OK); /* again on the same object */
    assert_ping(t);
    assert_int_equal(transport_write_all(t, "QUIT\r\n", 6), SERIATIM_OK);
    assert_int_equal(transport_read_all(t, &byte, 1), SERIATIM_OK);
    {
        char rest[16];
        assert_int_equal(transport_read_all(t, rest, 16), SERIATIM_IO);
    }
    assert_non_null(strstr(srt_transport_error(t)->message, "closed by Redis"));
    assert_int_equal(srt_transport_fd(t), -1);
    assert_int_equal(srt_transport_wants(t), 0);
    assert_int_equal(srt_transport_write(t, "x", 1, &got), SERIATIM_IO); /* sticky */
    srt_transport_destroy(t);
    srt_url_free(&url);
}

void check_fork(srt_transport *t)
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

void *run_one_byte_peer(void *argument)
{
    one_byte_peer *p = argument;
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

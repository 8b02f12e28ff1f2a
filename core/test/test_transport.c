/* test_transport.c - one connection without TLS against a real Redis and hostile peers. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/system.h"
#include "port.h"
#include "net/transport.h"
#include "transport_fixture.h"

/* ---- A real Redis -------------------------------------------------------------------------- */

static void test_a_unix_socket_is_connected(void **state)
{
    tls_server *s = *state;
    char text[128];
    snprintf(text, sizeof text, "unix://%s", s->redis.socket);
    check_real(text);
}

static void test_a_tcp_port_is_connected(void **state)
{
    tls_server *s = *state;
    char text[128];
    snprintf(text, sizeof text, "redis://127.0.0.1:%d", s->port);
    check_real(text);
    snprintf(text, sizeof text, "redis://localhost:%d", s->port); /* ::1 may be refused first */
    check_real(text);
}

static void test_tcp_options_are_set(void **state)
{
    tls_server *s = *state;
    srt_url url = loopback_url("redis", "127.0.0.1", s->port);
    srt_transport *t = srt_transport_create(default_memory(), &url);
    int value = 0;
    socklen_t len = sizeof value;
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_OK);
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

static void test_a_child_does_not_use_the_parent_s_connection(void **state)
{
    tls_server *s = *state;
    srt_url url = loopback_url("redis", "127.0.0.1", s->port);
    srt_transport *t = srt_transport_create(default_memory(), &url);
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_OK);
    check_fork(t);
    srt_transport_destroy(t);
    srt_url_free(&url);
}

/* ---- Peers that refuse, swallow, dribble and reset ----------------------------------------- */

static void test_a_refused_connection_is_an_error(void **state)
{
    srt_url url = loopback_url("redis", "127.0.0.1", free_port()), none = parsed_url("unix:///no%0asuch");
    srt_transport *t = srt_transport_create(default_memory(), &url);
    (void)state;
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_IO);
    assert_non_null(strstr(srt_transport_error(t)->message, "refused"));
    assert_int_equal(srt_transport_step(t), SERIATIM_IO);
    srt_transport_destroy(t);
    t = srt_transport_create(default_memory(), &none);
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_IO);
    assert_non_null(strstr(srt_transport_error(t)->message, "/no?such: No such file"));
    srt_transport_destroy(t);
    srt_url_free(&url);
    srt_url_free(&none);
}

static void test_p2_an_unknown_name_is_an_error(void **state)
{
    srt_url url = parsed_url("redis://no-such-host.invalid");
    srt_transport *t = srt_transport_create(default_memory(), &url);
    (void)state;
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_IO);
    assert_non_null(strstr(srt_transport_error(t)->message, "looking up"));
    srt_transport_destroy(t);
    srt_url_free(&url);
}

/* A listener whose backlog is full drops every further SYN. */
static void test_f16_a_peer_that_drops_packets_ends_at_the_limit(void **state)
{
    int port, listener = listen_on_loopback(0, &port), i;
    srt_url url = loopback_url("redis", "127.0.0.1", port);
    srt_transport *t = srt_transport_create(default_memory(), &url);
    srt_transport *fill[3];
    int64_t before;
    (void)state;
    for (i = 0; i < 3; i++) {
        fill[i] = srt_transport_create(default_memory(), &url);
        (void)srt_transport_connect(fill[i], LIMIT_MS);
        poll(NULL, 0, 20);
    }
    before = srt_clock_ms();
    assert_int_equal(srt_transport_connect(t, 300), SERIATIM_AGAIN);
    assert_int_equal(srt_transport_wants(t), SERIATIM_WANT_WRITE);
    assert_true(srt_transport_deadline(t) >= before + 300 && srt_transport_deadline(t) <= srt_clock_ms() + 300);
    assert_int_equal(drive_transport(t, SERIATIM_AGAIN), SERIATIM_TIMEOUT);
    assert_in_range(srt_clock_ms() - before, 290, 15000);
    assert_int_equal(srt_transport_fd(t), -1);
    for (i = 0; i < 3; i++)
        srt_transport_destroy(fill[i]);
    srt_transport_destroy(t);
    srt_url_free(&url);
    close(listener);
}

static void check_peer(int resets, const char *says_what)
{
    int port;
    one_byte_peer p = {listen_on_loopback(5, &port), "*2\r\n$3\r\nfoo\r\n:17\r\n", resets};
    srt_url url = loopback_url("redis", "127.0.0.1", port);
    srt_transport *t = srt_transport_create(default_memory(), &url);
    char got[64];
    size_t len = strlen(p.says);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_one_byte_peer, &p), 0);
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_OK);
    assert_int_equal(transport_read_all(t, got, len), SERIATIM_OK);
    assert_memory_equal(got, p.says, len);
    assert_int_equal(transport_read_all(t, got, 1), SERIATIM_IO);
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
    srt_transport *t = srt_transport_create(default_memory(), &url);
    size_t n;
    (void)state;
    signal(SIGPIPE, SIG_DFL);
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_OK);
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
    srt_transport *t = srt_transport_create(default_memory(), &url);
    static char block[1 << 20];
    size_t n, sum = 0;
    (void)state;
    assert_int_equal(open_transport(t, LIMIT_MS), SERIATIM_OK);
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
    struct itimerval each_second = {{1, 0}, {1, 0}}, never = {{0, 0}, {0, 0}};
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
    setitimer(ITIMER_REAL, &each_second, NULL); /* more than one: the first may come before the wait */
    assert_int_equal(srt_transport_wait(NULL, -1, -1), SERIATIM_AGAIN); /* a signal ends it */
    setitimer(ITIMER_REAL, &never, NULL);
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
        cmocka_unit_test(test_f17_segments_of_one_byte_arrive_whole),
        cmocka_unit_test(test_p2_writing_to_a_gone_peer_raises_no_sigpipe),
        cmocka_unit_test(test_a_peer_that_reads_nothing_makes_writes_wait),
        cmocka_unit_test(test_a_wait_ends_at_its_limit_a_wake_or_a_signal),
    };
    return cmocka_run_group_tests(tests, start_tls_redis, stop_tls_redis);
}

/*
 * test_link_faults.c - pushes while Redis or its connection fails: cuts at every byte, crashes, a full, frozen or
 * read-only Redis.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "redis_process.h"
#include "seriatim/binding/client.h"
#include "io/link.h"
#include "link_fixture.h"

/* ---- Redis ---------------------------------------------------------------------------------- */

static void nap(int ms)
{
    poll(NULL, 0, ms);
}

/* ---- Pushes --------------------------------------------------------------------------------- */

typedef struct flusher {
    const redis_process *server;
    volatile int stop;
    volatile int flushes;
} flusher;

static void *flush(void *argument)
{
    flusher *f = argument;
    while (!f->stop) {
        ask_redis(f->server, "SCRIPT FLUSH");
        f->flushes++;
        nap(50);
    }
    return NULL;
}

static void test_f3_script_flush_is_invisible(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "flush", 3, "list");
    flusher f = {s, 0, 0};
    double begun = wall_clock_ms();
    pthread_t thread;
    int sent = 0;
    pthread_create(&thread, NULL, flush, &f);
    /* A busy machine may let the flusher run seldom. */
    for (; wall_clock_ms() < begun + 1500 || (f.flushes <= 10 && wall_clock_ms() < begun + 60000); sent += 30)
        link_push_jobs(link, "flush", sent, 30, 50);
    f.stop = 1;
    pthread_join(thread, NULL);
    assert_true(f.flushes > 10);
    assert_int_equal(waiting_payloads(s, "flush", 3), sent);
    seriatim_link_free(link);
}

/* ---- What goes wrong ------------------------------------------------------------------------ */

typedef struct killer {
    redis_process *server;
    int times;
    volatile int done;
} killer;

static void *kill_and_restart(void *argument)
{
    killer *k = argument;
    int i;
    for (i = 0; i < k->times; i++) {
        nap(150 + 37 * i);
        redis_end(k->server, SIGKILL);
        nap(i % 2 ? 120 : 0);
        run_durable_server(k->server);
    }
    k->done = 1;
    return NULL;
}

static void test_f6_redis_dies_and_returns(void **state)
{
    redis_process *s = start_durable_server();
    seriatim_link *link = link_to_queue(s->url, "crash", 3, "list");
    killer k = {s, 8, 0};
    pthread_t thread;
    int sent = 0;
    (void)state;
    link_push_jobs(link, "crash", 0, 10, 10);
    sent = 10;
    pthread_create(&thread, NULL, kill_and_restart, &k);
    for (; !k.done; sent += 200)
        link_push_jobs(link, "crash", sent, 200, 400);
    pthread_join(thread, NULL);
    assert_int_equal(waiting_payloads(s, "crash", 3), sent);
    print_message("             %d jobs over %d crashes\n", sent, k.times);
    seriatim_link_free(link);
    stop_durable_server(s);
}

/* A proxy that cuts its first connection after a number of bytes in one direction, and lets the others through. */
typedef struct proxy {
    const redis_process *server;
    char socket[96], url[112];
    int listener, cut_up;
    volatile long limit; /* of the next first connection; -1: none */
    volatile int arm, stop, cuts;
    volatile long moved[2];
    pthread_t thread;
} proxy;

static int open_unix(const char *path, int listening)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (listening) {
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
        assert_int_equal(listen(fd, 16), 0);
    } else {
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    }
    return fd;
}

/* Moves bytes one way; 0 when the connection is over. */
static int proxy_move(proxy *p, int from, int to, int direction, long limit)
{
    char buf[4096];
    size_t room = limit < 0 ? sizeof buf : (size_t)(limit - p->moved[direction]);
    ssize_t n = room ? read(from, buf, room < sizeof buf ? room : sizeof buf) : 0;
    if (n <= 0 || write(to, buf, (size_t)n) != n)
        return 0;
    p->moved[direction] += n;
    return limit < 0 || p->moved[direction] < limit;
}

static void proxy_serve(proxy *p, int down)
{
    int up = open_unix(p->server->socket, 0), armed = p->arm, cut = p->cut_up ? 0 : 1;
    long limits[2] = {-1, -1};
    struct pollfd fds[2] = {{down, POLLIN, 0}, {up, POLLIN, 0}};
    if (armed)
        limits[cut] = p->limit;
    p->arm = 0;
    p->moved[0] = p->moved[1] = 0;
    while (!p->stop && poll(fds, 2, 50) >= 0) {
        if (limits[0] == 0 || limits[1] == 0)
            break;
        if (fds[0].revents && !proxy_move(p, down, up, 0, limits[0]))
            break;
        if (fds[1].revents && !proxy_move(p, up, down, 1, limits[1]))
            break;
    }
    p->cuts += armed && p->moved[cut] == limits[cut];
    close(up);
    close(down);
}

static void *proxy_run(void *argument)
{
    proxy *p = argument;
    struct pollfd fd = {p->listener, POLLIN, 0};
    while (!p->stop)
        if (poll(&fd, 1, 50) > 0)
            proxy_serve(p, accept(p->listener, NULL, NULL));
    return NULL;
}

static void start_proxy(proxy *p, const redis_process *s)
{
    memset(p, 0, sizeof *p);
    p->server = s;
    snprintf(p->socket, sizeof p->socket, "%s/proxy.sock", s->folder);
    snprintf(p->url, sizeof p->url, "unix://%s", p->socket);
    unlink(p->socket);
    p->listener = open_unix(p->socket, 1);
    pthread_create(&p->thread, NULL, proxy_run, p);
}

static void stop_proxy(proxy *p)
{
    p->stop = 1;
    pthread_join(p->thread, NULL);
    close(p->listener);
}

static void push_through(proxy *p, const char *queue, int cut_up, long limit, int number)
{
    seriatim_link *link;
    p->cut_up = cut_up;
    p->limit = limit;
    p->arm = limit >= 0;
    link = link_to_queue(p->url, queue, 1, "list");
    link_push_jobs(link, "cut", number, 1, 5);
    assert_int_equal(p->arm, 0);
    seriatim_link_free(link);
}

static void test_f4_a_cut_at_every_byte(void **state)
{
    redis_process *s = *state;
    proxy p;
    int cut_up, begun = 1000, sent = begun + 2; /* numbers of the same length */
    long bytes[2], n;
    start_proxy(&p, s);
    push_through(&p, "cut", 0, -1, begun); /* Redis may not know the script: then its text is sent, once */
    push_through(&p, "cut", 0, -1, begun + 1);
    bytes[0] = p.moved[1];
    bytes[1] = p.moved[0];
    assert_true(bytes[0] > 10 && bytes[1] > 600);
    for (cut_up = 0; cut_up < 2; cut_up++)
        for (n = 0; n < bytes[cut_up]; n++) {
            int before = p.cuts;
            push_through(&p, "cut", cut_up, n, sent++);
            assert_int_equal(p.cuts, before + 1);
        }
    stop_proxy(&p);
    print_message("             %d cuts\n", p.cuts);
    assert_int_equal(waiting_payloads(s, "cut", 1), sent - begun);
}

static void test_f7_a_full_redis_refuses_pushes(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "full", 3, "list");
    link_push_jobs(link, "x", 0, 30, 30);
    ask_redis(s, "CONFIG SET maxmemory 1");
    link_begin_jobs(link, "x", 30, 300, 330);
    assert_int_equal(link_drive(link), SERIATIM_FULL);
    assert_string_equal(link_message(link), "Redis is out of memory: 3 of 3 chunks (300 of 300 jobs) were not written");
    ask_redis(s, "CONFIG SET maxmemory 0");
    assert_int_equal(waiting_payloads(s, "full", 3), 30);
    link_push_jobs(link, "x", 30, 300, 330);
    assert_int_equal(waiting_payloads(s, "full", 3), 330);
    seriatim_link_free(link);
}

static void test_f7_a_full_redis_refuses_a_new_queue(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "full-new", 3, "list");
    ask_redis(s, "CONFIG SET maxmemory 1");
    link_begin_jobs(link, "x", 0, 30, 30);
    assert_int_equal(link_drive(link), SERIATIM_FULL);
    assert_string_equal(link_message(link),
                        "Redis is out of memory: nothing was pushed to queue \"full-new\", which cannot be created");
    ask_redis(s, "CONFIG SET maxmemory 0");
    link_push_jobs(link, "x", 0, 30, 30);
    assert_int_equal(waiting_payloads(s, "full-new", 3), 30);
    seriatim_link_free(link);
}

static void *promote_later(void *argument)
{
    nap(400);
    ask_redis(argument, "REPLICAOF NO ONE");
    return NULL;
}

static void test_f15_a_read_only_redis_is_waited_for(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "replica", 3, "list");
    pthread_t thread;
    link_push_jobs(link, "x", 0, 30, 30);
    ask_redis(s, "REPLICAOF 127.0.0.1 1");
    pthread_create(&thread, NULL, promote_later, s);
    link_push_jobs(link, "x", 30, 300, 330);
    pthread_join(thread, NULL);
    assert_int_equal(waiting_payloads(s, "replica", 3), 330);
    seriatim_link_free(link);
}

/* A host has a limit of its own. Where the push is not being sent again just then, its error says what Redis answered.
 */
static int names_the_cause(seriatim_link *link, int within_ms)
{
    double end = wall_clock_ms() + within_ms;
    link_begin_jobs(link, "x", 10, 10, 20);
    for (; wall_clock_ms() < end; nap(10))
        assert_int_equal(seriatim_link_step(link), SERIATIM_AGAIN);
    assert_int_not_equal(srt_link_expire(link), SERIATIM_AGAIN);
    return strstr(link_message(link), "READONLY") != NULL;
}

static void test_an_operation_that_the_host_gives_up_names_the_cause(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "given_up", 1, "list");
    int within_ms = 100;
    link_push_jobs(link, "x", 0, 10, 10);
    ask_redis(s, "REPLICAOF 127.0.0.1 1");
    while (within_ms < 5000 && !names_the_cause(link, within_ms))
        within_ms += 100;
    ask_redis(s, "REPLICAOF NO ONE");
    assert_true(within_ms < 5000);
    link_push_jobs(link, "x", 20, 10, 20);
    assert_int_equal(waiting_payloads(s, "given_up", 1), 20);
    seriatim_link_free(link);
}

static void test_f4_a_frozen_redis_leaves_the_outcome_unknown(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "frozen", 2, "list");
    double before;
    link_push_jobs(link, "x", 0, 10, 10);
    srt_link_set_limits(link, 3000, 1000);
    kill(s->pid, SIGSTOP);
    before = wall_clock_ms();
    link_begin_jobs_within(link, 1.5, "x", 10, 1500, 2000);
    assert_int_equal(link_drive(link), SERIATIM_UNKNOWN_OUTCOME);
    kill(s->pid, SIGCONT);
    assert_true(wall_clock_ms() - before >= 1499 &&
                wall_clock_ms() - before < 9000); /* the limit is a whole millisecond of the clock */
    assert_non_null(strstr(link_message(link),
                           "outcome unknown: 2 of 2 chunks (1,500 of 1,500 jobs) were sent and not answered: "
                           "shard 0 ("));
    nap(200);
    srt_link_set_limits(link, 30000, 15000);
    link_push_jobs(link, "x", 1510, 10, 2000);
    seriatim_link_free(link);
}

/* Nothing of the push was sent to anybody, so its outcome is known. */
static void test_f5_a_killed_redis_leaves_a_push_that_was_not_sent(void **state)
{
    redis_process *s = start_durable_server();
    seriatim_link *link = link_to_queue(s->url, "killed", 2, "list");
    double before;
    (void)state;
    link_push_jobs(link, "x", 0, 10, 10);
    stop_durable_server(s);
    nap(50);
    before = wall_clock_ms();
    link_begin_jobs_within(link, 1, "x", 10, 10, 20);
    assert_int_equal(link_drive(link), SERIATIM_IO);
    assert_true(wall_clock_ms() - before >= 999 && wall_clock_ms() - before < 9000);
    assert_non_null(strstr(link_message(link), "cannot connect to "));
    seriatim_link_free(link);
}

/* Longer than the silence, shorter than the limit: the chunks are sent again, and count once. */
static void test_f16_f18_a_silent_connection_is_replaced(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "silent", 2, "list");
    srt_link_set_limits(link, 20000, 100);
    link_push_jobs(link, "x", 0, 10, 10);
    kill(s->pid, SIGSTOP);
    link_begin_jobs(link, "x", 10, 1500, 2000);
    {
        double end = wall_clock_ms() + 600;
        while (wall_clock_ms() < end && seriatim_link_step(link) == SERIATIM_AGAIN)
            nap(10);
    }
    kill(s->pid, SIGCONT);
    srt_link_set_limits(link, 20000, 5000);
    assert_int_equal(link_drive(link), SERIATIM_OK);
    assert_int_equal(waiting_payloads(s, "silent", 2), 1510);
    seriatim_link_free(link);
}

/* Whoever reads the error knows what to correct, though the URL came from a setting or a variable of the host. */
static void test_the_error_of_a_refused_connection_says_where_the_url_came_from(void **state)
{
    static const char url[] = "redis://127.0.0.1:1", said[] = "; start Redis there, or correct REDIS_URL";
    seriatim_options options = {NULL, NULL, NULL, 0, "REDIS_URL"};
    seriatim_link *link;
    (void)state;
    assert_int_equal(seriatim_link_new(&options, url, &link, NULL), SERIATIM_OK);
    srt_link_set_limits(link, 300, 15000);
    assert_int_equal(seriatim_nodes_begin(seriatim_link_client(link)), SERIATIM_OK);
    assert_int_equal(link_drive(link), SERIATIM_IO);
    assert_string_equal(link_message(link) + strlen(link_message(link)) - strlen(said), said);
    seriatim_link_free(link);
}

/* There is no socket to look at then, so the host sleeps until the time to connect again. */
static void test_a_link_sleeps_while_no_master_of_the_cluster_can_be_reached(void **state)
{
    seriatim_link *link;
    int steps = 0;
    (void)state;
    assert_int_equal(seriatim_link_new(NULL, "redis+cluster://127.0.0.1:1", &link, NULL), SERIATIM_OK);
    srt_link_set_limits(link, 3000, 15000);
    assert_int_equal(seriatim_nodes_begin(seriatim_link_client(link)), SERIATIM_OK);
    for (; seriatim_link_step(link) == SERIATIM_AGAIN; steps++)
        assert_int_equal(seriatim_link_wait(link), SERIATIM_OK);
    assert_in_range(steps, 2, 60);
    seriatim_link_free(link);
}

static void test_the_error_of_a_wrong_url_says_where_the_url_came_from(void **state)
{
    static const char said[] = "not http://; correct REDIS_URL";
    seriatim_options options = {NULL, NULL, NULL, 0, "REDIS_URL"};
    seriatim_link *link = NULL;
    seriatim_error error;
    (void)state;
    assert_int_equal(seriatim_link_new(&options, "http://host", &link, &error), SERIATIM_INVALID);
    assert_string_equal(error.message + strlen(error.message) - strlen(said), said);
    assert_non_null(strstr(error.message, "redis+cluster://"));
    options.url_from = NULL;
    assert_int_equal(seriatim_link_new(&options, "http://host", &link, &error), SERIATIM_INVALID);
    assert_null(strstr(error.message, "correct"));
    assert_null(link);
}

static void test_a_port_without_a_listener_is_an_error(void **state)
{
    seriatim_link *link = link_to_queue("redis://user:secret@127.0.0.1:1/3", "q", 1, "merge");
    double before = wall_clock_ms(), took;
    (void)state;
    link_begin_jobs(link, "x", 0, 10, 10);
    assert_int_equal(link_drive(link), SERIATIM_IO);
    took = wall_clock_ms() - before;
    assert_true(took > 4000 && took < 60000);
    assert_non_null(strstr(link_message(link), ": Connection refused"));
    assert_non_null(strstr(link_message(link), "cannot connect to redis://"));
    assert_null(strstr(link_message(link), "secret"));
    assert_null(strstr(link_message(link), "correct"));
    assert_null(strstr(seriatim_link_url(link), "secret"));
    seriatim_link_free(link);
}

static int listen_on_loopback(int *port)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* A port that takes the connection and says nothing, as Redis without TLS does when it is asked for TLS: what ends at
 * its limit says what it waited for. */
static void test_a_timeout_names_what_was_waited_for(void **state)
{
    char url[64];
    int port, listener = listen_on_loopback(&port);
    seriatim_link *link;
    (void)state;
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d", port);
    link = link_to_queue(url, "q", 1, "merge");
    srt_link_set_limits(link, 200, 15000);
    link_begin_jobs(link, "x", 0, 10, 10);
    assert_int_not_equal(link_drive(link), SERIATIM_OK);
    assert_non_null(strstr(link_message(link), "cannot connect to rediss://"));
#ifdef SERIATIM_WITH_OPENSSL
    assert_non_null(strstr(link_message(link), "the handshake got no answer"));
#endif
    seriatim_link_free(link);
    close(listener);
}

static void test_f15_refused_credentials_are_final(void **state)
{
    redis_process *s = *state;
    char url[160];
    double took = 5000;
    seriatim_link *link;
    int tries;
    for (tries = 0; tries < 5 && took >= 4500; tries++) { /* a machine may be busy with other things */
        double before = wall_clock_ms();
        snprintf(url, sizeof url, "unix://nobody:wrong@%s", s->socket);
        link = link_to_queue(url, "q", 1, "merge");
        link_begin_jobs(link, "x", 0, 10, 10);
        assert_int_equal(link_drive(link), SERIATIM_AUTH);
        assert_null(strstr(link_message(link), "wrong@"));
        seriatim_link_free(link);
        snprintf(url, sizeof url, "unix://%s?db=99999", s->socket);
        link = link_to_queue(url, "q", 1, "merge");
        link_begin_jobs(link, "x", 0, 10, 10);
        assert_int_equal(link_drive(link), SERIATIM_SERVER);
        seriatim_link_free(link);
        took = wall_clock_ms() - before;
    }
    assert_true(took < 4500); /* who tries again does for 5 s */
}

/* Behind a refused SELECT nothing is sent: it would be done in another database. */
static void test_f15_a_refused_database_gets_nothing(void **state)
{
    redis_process *s = *state;
    char url[160];
    seriatim_link *link;
    ask_redis(s, "FLUSHALL");
    snprintf(url, sizeof url, "unix://%s?db=99999", s->socket);
    link = link_to_queue(url, "elsewhere", 1, "merge");
    link_begin_jobs(link, "x", 0, 10, 10);
    assert_int_equal(link_drive(link), SERIATIM_SERVER);
    seriatim_link_free(link);
    assert_int_equal(ask_redis(s, "DBSIZE"), 0);
}

static void test_p2_an_idle_connection_that_was_closed_is_replaced(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = link_to_queue(s->url, "idle", 2, "list");
    int i, slow = 0;
    link_push_jobs(link, "x", 0, 10, 10);
    for (i = 0; i < 20; i++) {
        double before;
        ask_redis(s, "CLIENT KILL TYPE normal SKIPME yes");
        before = wall_clock_ms();
        link_push_jobs(link, "x", 10 + i, 1, 100);
        slow += wall_clock_ms() - before >= 300;
    }
    assert_true(slow < 18); /* a busy machine makes some of them slow; a closed one that is not noticed, all */
    assert_int_equal(waiting_payloads(s, "idle", 2), 30);
    seriatim_link_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f3_script_flush_is_invisible),
        cmocka_unit_test(test_f6_redis_dies_and_returns),
        cmocka_unit_test(test_f4_a_cut_at_every_byte),
        cmocka_unit_test(test_f7_a_full_redis_refuses_pushes),
        cmocka_unit_test(test_f7_a_full_redis_refuses_a_new_queue),
        cmocka_unit_test(test_f15_a_read_only_redis_is_waited_for),
        cmocka_unit_test(test_an_operation_that_the_host_gives_up_names_the_cause),
        cmocka_unit_test(test_f4_a_frozen_redis_leaves_the_outcome_unknown),
        cmocka_unit_test(test_f5_a_killed_redis_leaves_a_push_that_was_not_sent),
        cmocka_unit_test(test_f16_f18_a_silent_connection_is_replaced),
        cmocka_unit_test(test_the_error_of_a_refused_connection_says_where_the_url_came_from),
        cmocka_unit_test(test_a_link_sleeps_while_no_master_of_the_cluster_can_be_reached),
        cmocka_unit_test(test_the_error_of_a_wrong_url_says_where_the_url_came_from),
        cmocka_unit_test(test_a_port_without_a_listener_is_an_error),
        cmocka_unit_test(test_a_timeout_names_what_was_waited_for),
        cmocka_unit_test(test_f15_refused_credentials_are_final),
        cmocka_unit_test(test_f15_a_refused_database_gets_nothing),
        cmocka_unit_test(test_p2_an_idle_connection_that_was_closed_is_replaced),
    };
    return cmocka_run_group_tests(tests, start_link_server, stop_link_server);
}

/* test_link.c - pushes over a real connection: counts, cuts at every byte, crashes of Redis, forks. */
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
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "redis_process.h"
#include "client/client.h"
#include "failing.h"
#include "io/link.h"
#include "base/system.h"

/* ---- Redis ---------------------------------------------------------------------------------- */

static void nap(int ms)
{
    poll(NULL, 0, ms);
}

static redisContext *ask_server(const redis_process *s)
{
    redisContext *r = redisConnectUnix(s->socket);
    if (r && !r->err)
        return r;
    if (r)
        redisFree(r);
    return NULL;
}

/*
 * With everysec Redis holds back what it acknowledges while a sync to a slow disk is under way, and loses that when it
 * is killed.
 */
static void run_server(redis_process *s)
{
    static const char *const words[] = {"--appendonly", "yes", "--appendfsync", "no", NULL};
    assert_int_equal(redis_run(s, words), 0);
    assert_int_equal(redis_wait(s), 0);
}

/* It keeps what it acknowledges in its append-only file. */
static redis_process *start_server(void)
{
    redis_process *s = calloc(1, sizeof *s);
    assert_non_null(s);
    assert_int_equal(redis_make_folder(s), 0);
    run_server(s);
    return s;
}

static void stop_server(redis_process *s)
{
    assert_int_equal(redis_remove(s), 0);
    free(s);
}

/* One command, its answer as a number or the length of a text. */
static long long ask(const redis_process *s, const char *format, ...)
{
    redisContext *r = ask_server(s);
    redisReply *reply;
    long long number;
    va_list args;
    assert_non_null(r);
    va_start(args, format);
    reply = redisvCommand(r, format, args);
    va_end(args);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply->str);
    number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : (long long)reply->len;
    freeReplyObject(reply);
    redisFree(r);
    return number;
}

/* Payloads in a record of the jobs hash (core/scripts/lib/record.lua). */
static long long payloads_of(const redisReply *record)
{
    const unsigned char *at = (const unsigned char *)record->str;
    if (at[0] / 4 < 2)
        return 1;
    return (long long)at[14] | (long long)at[15] << 8 | (long long)at[16] << 16 | (long long)at[17] << 24;
}

static long long payloads_waiting(const redis_process *s, const char *queue, unsigned shards)
{
    redisContext *r = ask_server(s);
    long long sum = 0;
    unsigned shard;
    for (shard = 0; shard < shards; shard++) {
        redisReply *reply = redisCommand(r, "HVALS seriatim:{%s/%d}:jobs", queue, (int)shard);
        size_t i;
        for (i = 0; i < reply->elements; i++)
            sum += payloads_of(reply->element[i]);
        freeReplyObject(reply);
    }
    redisFree(r);
    return sum;
}

/* ---- Links ---------------------------------------------------------------------------------- */

static seriatim_link *new_link(const char *url, const char *queue, int64_t shards, const char *fold)
{
    seriatim_queue_settings settings;
    seriatim_link *link = NULL;
    seriatim_error error;
    size_t number;
    if (seriatim_link_new(NULL, url, &link, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
    seriatim_queue_settings_init(&settings);
    settings.name = queue;
    settings.name_len = strlen(queue);
    settings.shards_count = shards;
    settings.fold = fold;
    assert_int_equal(seriatim_client_queue(seriatim_link_client(link), &settings, &number), SERIATIM_OK);
    return link;
}

static int drive(seriatim_link *link)
{
    int status;
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        assert_int_equal(seriatim_link_wait(link), SERIATIM_OK);
    return status;
}

static const char *message(seriatim_link *link)
{
    return seriatim_client_error(seriatim_link_client(link))->message;
}

static void add(seriatim_link *link, const char *id, const char *payload, const char *on_waiting)
{
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = strlen(id);
    job.payload = payload;
    job.payload_len = strlen(payload);
    job.on_waiting = on_waiting;
    assert_int_equal(seriatim_push_job(seriatim_link_client(link), &job), SERIATIM_OK);
}

/* Begins a push of `count` jobs on `ids` ids, with payloads that nobody else has. */
static void begin_jobs_within(seriatim_link *link, double seconds, const char *who, int from, int count, int ids)
{
    int i, status = seriatim_push_begin(seriatim_link_client(link), 0);
    if (status == SERIATIM_OK)
        status = seriatim_push_timeout(seriatim_link_client(link), seconds);
    if (status != SERIATIM_OK)
        fail_msg("%s", message(link));
    for (i = from; i < from + count; i++) {
        char id[32], payload[64];
        snprintf(id, sizeof id, "id-%d", i % ids);
        snprintf(payload, sizeof payload, "\"%s %d\"", who, i);
        add(link, id, payload, NULL);
    }
    assert_int_equal(seriatim_push_send(seriatim_link_client(link)), SERIATIM_OK);
}

static void begin_jobs(seriatim_link *link, const char *who, int from, int count, int ids)
{
    begin_jobs_within(link, 50, who, from, count, ids);
}

static void push_jobs(seriatim_link *link, const char *who, int from, int count, int ids)
{
    begin_jobs(link, who, from, count, ids);
    if (drive(link) != SERIATIM_OK)
        fail_msg("%s", message(link));
}

/* ---- Pushes --------------------------------------------------------------------------------- */

static void test_a_push_counts_jobs_and_gives_refused_indexes(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "counts", 5, "merge");
    seriatim_client *c = seriatim_link_client(link);
    const size_t *places;
    size_t count;
    push_jobs(link, "a", 0, 100, 100);
    assert_int_equal(seriatim_push_result(c).added, 100);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add(link, "id-1", "1", "reject");
    add(link, "new", "1", "reject");
    add(link, "id-2", "2", NULL);
    add(link, "id-3", "3", "reject");
    add(link, "new", "1", "earlier");
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(drive(link), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 1);
    assert_int_equal(seriatim_push_result(c).folded, 2);
    places = seriatim_push_refused(c, &count);
    assert_int_equal(count, 2);
    assert_int_equal(places[0], 0);
    assert_int_equal(places[1], 3);
    assert_int_equal(payloads_waiting(s, "counts", 5), 102);
    seriatim_link_free(link);
}

static void test_f28_ids_of_any_bytes_are_pushed(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "a b:{c}/0", 3, "list");
    seriatim_client *c = seriatim_link_client(link);
    unsigned seed = 7, i, k;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    for (i = 0; i < 2000; i++) {
        char id[1024];
        seriatim_job job;
        seriatim_job_init(&job);
        for (k = 0; k < sizeof id; k++)
            id[k] = (char)((seed = seed * 1103515245 + 12345) >> 16);
        job.id = id;
        job.id_len = 4 + seed % 1020;
        assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(drive(link), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 2000);
    assert_int_equal(payloads_waiting(s, "a%20b:%7Bc%7D%2F0", 3), 2000);
    seriatim_link_free(link);
}

typedef struct pinger {
    const redis_process *server;
    volatile int stop;
    double worst_ms;
} pinger;

static double now_ms(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (double)now.tv_sec * 1e3 + (double)now.tv_usec / 1e3;
}

static void *ping(void *argument)
{
    pinger *p = argument;
    redisContext *r = ask_server(p->server);
    while (!p->stop) {
        double before = now_ms(), took;
        freeReplyObject(redisCommand(r, "PING"));
        took = now_ms() - before;
        p->worst_ms = took > p->worst_ms ? took : p->worst_ms;
    }
    redisFree(r);
    return NULL;
}

/* The machine may be busy with other things: one of twenty attempts must do. */
static void test_f25_other_clients_are_served_during_a_large_push(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "large", 5, "merge");
    double best = 1e9;
    int attempt;
    for (attempt = 0; attempt < 20 && best >= 100; attempt++) {
        pinger p = {s, 0, 0};
        pthread_t thread;
        ask(s, "FLUSHALL");
        begin_jobs(link, "large", 0, 100000, 100000);
        pthread_create(&thread, NULL, ping, &p);
        assert_int_equal(drive(link), SERIATIM_OK);
        p.stop = 1;
        pthread_join(thread, NULL);
        assert_int_equal(seriatim_push_result(seriatim_link_client(link)).added, 100000);
        best = p.worst_ms < best ? p.worst_ms : best;
    }
    print_message("             worst PING during 100,000 jobs: %.1f ms\n", best);
    assert_true(best < 100); /* 5 on a quiet machine; 300 in one piece */
    seriatim_link_free(link);
}

typedef struct flusher {
    const redis_process *server;
    volatile int stop;
    int flushes;
} flusher;

static void *flush(void *argument)
{
    flusher *f = argument;
    while (!f->stop) {
        ask(f->server, "SCRIPT FLUSH");
        f->flushes++;
        nap(50);
    }
    return NULL;
}

static void test_f3_script_flush_is_invisible(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "flush", 3, "list");
    flusher f = {s, 0, 0};
    double end = now_ms() + 1500;
    pthread_t thread;
    int sent = 0;
    pthread_create(&thread, NULL, flush, &f);
    for (; now_ms() < end; sent += 30)
        push_jobs(link, "flush", sent, 30, 50);
    f.stop = 1;
    pthread_join(thread, NULL);
    assert_true(f.flushes > 10);
    assert_int_equal(payloads_waiting(s, "flush", 3), sent);
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
        run_server(k->server);
    }
    k->done = 1;
    return NULL;
}

static void test_f6_redis_dies_and_returns(void **state)
{
    redis_process *s = start_server();
    seriatim_link *link = new_link(s->url, "crash", 3, "list");
    killer k = {s, 8, 0};
    pthread_t thread;
    int sent = 0;
    (void)state;
    push_jobs(link, "crash", 0, 10, 10);
    sent = 10;
    pthread_create(&thread, NULL, kill_and_restart, &k);
    for (; !k.done; sent += 200)
        push_jobs(link, "crash", sent, 200, 400);
    pthread_join(thread, NULL);
    assert_int_equal(payloads_waiting(s, "crash", 3), sent);
    print_message("             %d jobs over %d crashes\n", sent, k.times);
    seriatim_link_free(link);
    stop_server(s);
}

/* A proxy that cuts its first connection after a number of bytes in one direction, and lets the others through. */
typedef struct proxy {
    const redis_process *server;
    char socket[96], url[112];
    int listener, cut_up;
    volatile long limit; /* of the next first connection; -1: none */
    volatile int arm, stop;
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
    int up = open_unix(p->server->socket, 0), armed = p->arm;
    long limits[2] = {-1, -1};
    struct pollfd fds[2] = {{down, POLLIN, 0}, {up, POLLIN, 0}};
    if (armed)
        limits[p->cut_up ? 0 : 1] = p->limit;
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
    link = new_link(p->url, queue, 1, "list");
    push_jobs(link, "cut", number, 1, 5);
    assert_int_equal(p->arm, 0);
    seriatim_link_free(link);
}

static void test_f4_a_cut_at_every_byte(void **state)
{
    redis_process *s = *state;
    proxy p;
    int cut_up, sent = 1;
    long bytes[2], n;
    start_proxy(&p, s);
    push_through(&p, "cut", 0, -1, 0);
    bytes[0] = p.moved[1];
    bytes[1] = p.moved[0];
    assert_true(bytes[0] > 10 && bytes[1] > 600);
    for (cut_up = 0; cut_up < 2; cut_up++)
        for (n = 0; n <= bytes[cut_up]; n++)
            push_through(&p, "cut", cut_up, n, sent++);
    stop_proxy(&p);
    print_message("             %d cuts\n", sent - 1);
    assert_int_equal(payloads_waiting(s, "cut", 1), sent);
}

static void test_a_push_follows_a_new_layout(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "layout", 3, "list");
    int shard;
    push_jobs(link, "x", 0, 300, 300);
    ask(s, "SET seriatim:{layout}:layout %s", "2 4 3");
    for (shard = 0; shard < 3; shard++)
        ask(s, "SETRANGE seriatim:{layout/%d}:state 0 %b", shard, "\0\0\0\0\0\0\0\x40", (size_t)8);
    push_jobs(link, "x", 300, 2500, 3000);
    assert_int_equal(seriatim_layout_shards(seriatim_link_client(link), 0), 4);
    assert_int_equal(payloads_waiting(s, "layout", 4), 2800);
    seriatim_link_free(link);
}

static void test_f7_a_full_redis_refuses_pushes(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "full", 3, "list");
    push_jobs(link, "x", 0, 30, 30);
    ask(s, "CONFIG SET maxmemory 1");
    begin_jobs(link, "x", 30, 300, 330);
    assert_int_equal(drive(link), SERIATIM_FULL);
    assert_string_equal(message(link), "Redis is out of memory: 3 of 3 chunks (300 of 300 jobs) were not written");
    ask(s, "CONFIG SET maxmemory 0");
    assert_int_equal(payloads_waiting(s, "full", 3), 30);
    push_jobs(link, "x", 30, 300, 330);
    assert_int_equal(payloads_waiting(s, "full", 3), 330);
    seriatim_link_free(link);
}

static void test_f7_a_full_redis_refuses_a_new_queue(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "full-new", 3, "list");
    ask(s, "CONFIG SET maxmemory 1");
    begin_jobs(link, "x", 0, 30, 30);
    assert_int_equal(drive(link), SERIATIM_FULL);
    ask(s, "CONFIG SET maxmemory 0");
    push_jobs(link, "x", 0, 30, 30);
    assert_int_equal(payloads_waiting(s, "full-new", 3), 30);
    seriatim_link_free(link);
}

static void *promote_later(void *argument)
{
    nap(400);
    ask(argument, "REPLICAOF NO ONE");
    return NULL;
}

static void test_f15_a_read_only_redis_is_waited_for(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "replica", 3, "list");
    pthread_t thread;
    push_jobs(link, "x", 0, 30, 30);
    ask(s, "REPLICAOF 127.0.0.1 1");
    pthread_create(&thread, NULL, promote_later, s);
    push_jobs(link, "x", 30, 300, 330);
    pthread_join(thread, NULL);
    assert_int_equal(payloads_waiting(s, "replica", 3), 330);
    seriatim_link_free(link);
}

static void test_f4_a_frozen_redis_leaves_the_outcome_unknown(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "frozen", 2, "list");
    double before;
    push_jobs(link, "x", 0, 10, 10);
    srt_link_set_limits(link, 3000, 1000);
    kill(s->pid, SIGSTOP);
    before = now_ms();
    begin_jobs_within(link, 1.5, "x", 10, 1500, 2000);
    assert_int_equal(drive(link), SERIATIM_UNKNOWN_OUTCOME);
    kill(s->pid, SIGCONT);
    assert_true(now_ms() - before >= 1499 &&
                now_ms() - before < 9000); /* the limit is a whole millisecond of the clock */
    assert_non_null(strstr(message(link),
                           "outcome unknown: 2 of 2 chunks (1,500 of 1,500 jobs) were sent and not answered: "
                           "shard 0 ("));
    nap(200);
    srt_link_set_limits(link, 30000, 15000);
    push_jobs(link, "x", 1510, 10, 2000);
    seriatim_link_free(link);
}

/* Nothing of the push was sent to anybody, so its outcome is known. */
static void test_f5_a_killed_redis_leaves_a_push_that_was_not_sent(void **state)
{
    redis_process *s = start_server();
    seriatim_link *link = new_link(s->url, "killed", 2, "list");
    double before;
    (void)state;
    push_jobs(link, "x", 0, 10, 10);
    stop_server(s);
    nap(50);
    before = now_ms();
    begin_jobs_within(link, 1, "x", 10, 10, 20);
    assert_int_equal(drive(link), SERIATIM_IO);
    assert_true(now_ms() - before >= 999 && now_ms() - before < 9000);
    assert_non_null(strstr(message(link), "cannot connect to "));
    seriatim_link_free(link);
}

/* The limit is of the whole push: answers do not prolong it, nor do waits for replicas. */
static void test_push_timeout_limits_the_whole_push(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "limited", 2, "list");
    seriatim_client *client = seriatim_link_client(link);
    double before, took;
    push_jobs(link, "x", 0, 10, 10);
    assert_int_equal(seriatim_push_timeout(client, 1), SERIATIM_INVALID);
    assert_int_equal(seriatim_push_begin(client, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_timeout(client, 50.1), SERIATIM_INVALID);
    assert_non_null(strstr(message(link), "push_timeout must be from 0.001 to 50 seconds"));
    assert_int_equal(seriatim_push_send(client), SERIATIM_INVALID);
    before = now_ms();
    assert_int_equal(seriatim_push_begin(client, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_timeout(client, 1), SERIATIM_OK);
    assert_int_equal(seriatim_push_replicas(client, 1, 10), SERIATIM_OK);
    add(link, "id", "1", NULL);
    assert_int_equal(seriatim_push_send(client), SERIATIM_OK);
    assert_int_equal(drive(link), SERIATIM_REPLICAS);
    took = now_ms() - before;
    assert_string_equal(message(link), "the push is written, 0 of 1 replicas have it");
    assert_true(took >= 500 && took < 9000);
    assert_int_equal(payloads_waiting(s, "limited", 2), 11);
    seriatim_link_free(link);
}

/* Longer than the silence, shorter than the limit: the chunks are sent again, and count once. */
static void test_f16_f18_a_silent_connection_is_replaced(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "silent", 2, "list");
    srt_link_set_limits(link, 20000, 100);
    push_jobs(link, "x", 0, 10, 10);
    kill(s->pid, SIGSTOP);
    begin_jobs(link, "x", 10, 1500, 2000);
    {
        double end = now_ms() + 600;
        while (now_ms() < end && seriatim_link_step(link) == SERIATIM_AGAIN)
            nap(10);
    }
    kill(s->pid, SIGCONT);
    srt_link_set_limits(link, 20000, 5000);
    assert_int_equal(drive(link), SERIATIM_OK);
    assert_int_equal(payloads_waiting(s, "silent", 2), 1510);
    seriatim_link_free(link);
}

static void test_a_port_without_a_listener_is_an_error(void **state)
{
    seriatim_link *link = new_link("redis://user:secret@127.0.0.1:1/3", "q", 1, "merge");
    double before = now_ms(), took;
    (void)state;
    begin_jobs(link, "x", 0, 10, 10);
    assert_int_equal(drive(link), SERIATIM_IO);
    took = now_ms() - before;
    assert_true(took > 4000 && took < 60000);
    assert_non_null(strstr(message(link), ": Connection refused"));
    assert_non_null(strstr(message(link), "cannot connect to redis://"));
    assert_null(strstr(message(link), "secret"));
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
    link = new_link(url, "q", 1, "merge");
    srt_link_set_limits(link, 200, 15000);
    begin_jobs(link, "x", 0, 10, 10);
    assert_int_not_equal(drive(link), SERIATIM_OK);
    assert_non_null(strstr(message(link), "cannot connect to rediss://"));
#ifdef SERIATIM_WITH_OPENSSL
    assert_non_null(strstr(message(link), "the handshake got no answer"));
#endif
    seriatim_link_free(link);
    close(listener);
}

static void test_f15_refused_credentials_are_final(void **state)
{
    redis_process *s = *state;
    char url[160];
    double before = now_ms();
    seriatim_link *link;
    snprintf(url, sizeof url, "unix://nobody:wrong@%s", s->socket);
    link = new_link(url, "q", 1, "merge");
    begin_jobs(link, "x", 0, 10, 10);
    assert_int_equal(drive(link), SERIATIM_AUTH);
    assert_null(strstr(message(link), "wrong@"));
    seriatim_link_free(link);
    snprintf(url, sizeof url, "unix://%s?db=99999", s->socket);
    link = new_link(url, "q", 1, "merge");
    begin_jobs(link, "x", 0, 10, 10);
    assert_int_equal(drive(link), SERIATIM_SERVER);
    seriatim_link_free(link);
    assert_true(now_ms() - before < 4500); /* who tries again does for 5 s */
}

/* Behind a refused SELECT nothing is sent: it would be done in another database. */
static void test_f15_a_refused_database_gets_nothing(void **state)
{
    redis_process *s = *state;
    char url[160];
    seriatim_link *link;
    ask(s, "FLUSHALL");
    snprintf(url, sizeof url, "unix://%s?db=99999", s->socket);
    link = new_link(url, "elsewhere", 1, "merge");
    begin_jobs(link, "x", 0, 10, 10);
    assert_int_equal(drive(link), SERIATIM_SERVER);
    seriatim_link_free(link);
    assert_int_equal(ask(s, "DBSIZE"), 0);
}

static void test_p2_an_idle_connection_that_was_closed_is_replaced(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "idle", 2, "list");
    double before;
    int i;
    push_jobs(link, "x", 0, 10, 10);
    before = now_ms();
    for (i = 0; i < 20; i++) {
        ask(s, "CLIENT KILL TYPE normal SKIPME yes");
        push_jobs(link, "x", 10 + i, 1, 100);
    }
    assert_true(now_ms() - before < 6000);
    assert_int_equal(payloads_waiting(s, "idle", 2), 30);
    seriatim_link_free(link);
}

static void test_reset_ends_the_running_operation(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "reset", 2, "list");
    push_jobs(link, "x", 0, 10, 10);
    begin_jobs(link, "x", 10, 10, 20);
    seriatim_link_reset(link);
    assert_int_equal(seriatim_link_step(link), SERIATIM_CLOSED);
    assert_int_equal(seriatim_link_fd(link), -1);
    assert_int_equal(seriatim_link_timeout_ms(link), -1);
    push_jobs(link, "x", 10, 10, 20);
    assert_int_equal(payloads_waiting(s, "reset", 2), 20);
    seriatim_link_free(link);
}

/* ---- Forks ---------------------------------------------------------------------------------- */

/* In the child: what the parent has under way is the parent's, and pushes go over a connection of its own. */
static int child_pushes(seriatim_link *link)
{
    int i, status;
    if (seriatim_link_step(link) != SERIATIM_CLOSED)
        return 1;
    for (i = 0; i < 50; i++) {
        if (seriatim_push_begin(seriatim_link_client(link), 0) != SERIATIM_OK)
            return 2;
        begin_jobs(link, "child", i * 3, 3, 100);
        while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
            seriatim_link_wait(link);
        if (status != SERIATIM_OK)
            return 3;
    }
    seriatim_link_free(link);
    return 0;
}

static void test_a_fork_shares_nothing(void **state)
{
    redis_process *s = *state;
    seriatim_link *link = new_link(s->url, "fork", 2, "list");
    char identity[SRT_IDENTITY + 1];
    int fd, i, status;
    pid_t pid;
    push_jobs(link, "parent", 0, 10, 100);
    strcpy(identity, seriatim_link_client(link)->identity);
    fd = seriatim_link_fd(link);
    begin_jobs(link, "parent", 10, 10, 100);
    kill(s->pid, SIGSTOP);
    assert_int_equal(seriatim_link_step(link), SERIATIM_AGAIN);
    pid = fork();
    if (pid == 0)
        _exit(child_pushes(link));
    kill(s->pid, SIGCONT);
    assert_int_equal(drive(link), SERIATIM_OK);
    for (i = 0; i < 50; i++)
        push_jobs(link, "parent", 20 + i * 3, 3, 100);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(seriatim_link_fd(link), fd);
    assert_string_equal(seriatim_link_client(link)->identity, identity);
    assert_int_equal(payloads_waiting(s, "fork", 2), 20 + 150 + 150);
    seriatim_link_free(link);
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* A link's whole life with one push; its status. */
static int life_of_a_link(const seriatim_options *options, const char *url)
{
    seriatim_queue_settings settings;
    seriatim_link *link = NULL;
    seriatim_error error;
    size_t queue;
    int status = seriatim_link_new(options, url, &link, &error), i;
    if (status != SERIATIM_OK)
        return status;
    seriatim_queue_settings_init(&settings);
    settings.name = "memory";
    settings.name_len = 6;
    status = seriatim_client_queue(seriatim_link_client(link), &settings, &queue);
    if (status == SERIATIM_OK)
        status = seriatim_push_begin(seriatim_link_client(link), queue);
    for (i = 0; i < 100 && status == SERIATIM_OK; i++) {
        seriatim_job job;
        seriatim_job_init(&job);
        job.id = (const char *)&i;
        job.id_len = sizeof i;
        status = seriatim_push_job(seriatim_link_client(link), &job);
    }
    if (status == SERIATIM_OK)
        status = seriatim_push_send(seriatim_link_client(link));
    if (status == SERIATIM_OK)
        status = drive(link);
    seriatim_link_free(link);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    redis_process *s = *state;
    failing f = {0, 0, 0};
    seriatim_allocator mem = {failing_alloc, &f};
    seriatim_options options = {0};
    int status = SERIATIM_NOMEM;
    options.allocator = &mem;
    for (f.fail_at = 1; status != SERIATIM_OK || f.calls >= f.fail_at; f.fail_at++) {
        f.calls = 0;
        status = life_of_a_link(&options, s->url);
        assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM || status == SERIATIM_UNKNOWN_OUTCOME);
        assert_int_equal(f.live, 0);
        assert_true(f.fail_at < 2000);
    }
    assert_true(f.fail_at > 40);
}

/* ---- Run ------------------------------------------------------------------------------------ */

static int start_shared(void **state)
{
    signal(SIGPIPE, SIG_IGN); /* of the proxy */
    *state = start_server();
    return 0;
}

static int stop_shared(void **state)
{
    stop_server(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_push_counts_jobs_and_gives_refused_indexes),
        cmocka_unit_test(test_f28_ids_of_any_bytes_are_pushed),
        cmocka_unit_test(test_f25_other_clients_are_served_during_a_large_push),
        cmocka_unit_test(test_f3_script_flush_is_invisible),
        cmocka_unit_test(test_f6_redis_dies_and_returns),
        cmocka_unit_test(test_f4_a_cut_at_every_byte),
        cmocka_unit_test(test_a_push_follows_a_new_layout),
        cmocka_unit_test(test_f7_a_full_redis_refuses_pushes),
        cmocka_unit_test(test_f7_a_full_redis_refuses_a_new_queue),
        cmocka_unit_test(test_f15_a_read_only_redis_is_waited_for),
        cmocka_unit_test(test_f4_a_frozen_redis_leaves_the_outcome_unknown),
        cmocka_unit_test(test_f5_a_killed_redis_leaves_a_push_that_was_not_sent),
        cmocka_unit_test(test_push_timeout_limits_the_whole_push),
        cmocka_unit_test(test_f16_f18_a_silent_connection_is_replaced),
        cmocka_unit_test(test_a_port_without_a_listener_is_an_error),
        cmocka_unit_test(test_a_timeout_names_what_was_waited_for),
        cmocka_unit_test(test_f15_refused_credentials_are_final),
        cmocka_unit_test(test_f15_a_refused_database_gets_nothing),
        cmocka_unit_test(test_p2_an_idle_connection_that_was_closed_is_replaced),
        cmocka_unit_test(test_reset_ends_the_running_operation),
        cmocka_unit_test(test_a_fork_shares_nothing),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, start_shared, stop_shared);
}

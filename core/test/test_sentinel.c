/* test_sentinel.c - sentinels: scripted ones byte by byte, then real ones, a real replica and WAIT. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client.h"
#include "failing.h"
#include "io/link.h"
#include "port.h"
#include "redis_process.h"
#include "base/system.h"

/* ---- Without sockets ------------------------------------------------------------------------ */

static seriatim_sentinel *new_sentinel(const char *url)
{
    seriatim_sentinel *s = NULL;
    seriatim_error error;
    if (seriatim_sentinel_new(NULL, url, &s, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
    return s;
}

static void asks(seriatim_sentinel *s, const char *host, int port)
{
    seriatim_address where;
    assert_int_equal(seriatim_sentinel_next(s, &where), SERIATIM_OK);
    assert_string_equal(where.host, host);
    assert_int_equal(where.port, port);
    assert_int_equal(where.tls, 0);
}

static int hears(seriatim_sentinel *s, const char *text, seriatim_address *master)
{
    return seriatim_sentinel_input(s, text, strlen(text), master);
}

static void test_a_sentinel_is_asked_with_these_bytes(void **state)
{
    static const char plain[] = "*3\r\n$8\r\nSENTINEL\r\n$23\r\nGET-MASTER-ADDR-BY-NAME\r\n$2\r\nm1\r\n";
    static const char *const logins[] = {"", "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n",
                                         "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$2\r\npw\r\n"};
    static const char *const urls[] = {"redis+sentinel://a/m1", "redis+sentinel://a/m1?sentinel_password=pw",
                                       "redis+sentinel://a/m1?sentinel_password=pw&sentinel_user=u"};
    size_t i, len;
    (void)state;
    for (i = 0; i < 3; i++) {
        seriatim_sentinel *s = new_sentinel(urls[i]);
        char want[256];
        const char *data;
        snprintf(want, sizeof want, "%s%s", logins[i], plain);
        seriatim_sentinel_output(s, &data, &len);
        assert_int_equal(len, strlen(want));
        assert_memory_equal(data, want, len);
        seriatim_sentinel_free(s);
    }
}

static void test_sentinels_are_asked_one_after_another(void **state)
{
    seriatim_sentinel *s = new_sentinel("redis+sentinel://a:1,b:2,c:3/m1");
    seriatim_address master, where;
    const char *text;
    (void)state;
    seriatim_sentinel_begin(s);
    asks(s, "a", 1);
    seriatim_sentinel_failed(s, "Connection refused");
    asks(s, "b", 2);
    assert_int_equal(hears(s, "*-1\r\n", &master), SERIATIM_SERVER);
    asks(s, "c", 3);
    assert_int_equal(hears(s, "*2\r\n$3\r\n1:2\r\n$4\r\n6380\r\n", &master), SERIATIM_OK);
    assert_string_equal(master.host, "1:2");
    assert_int_equal(master.port, 6380);
    seriatim_sentinel_begin(s); /* who answered last is asked first */
    asks(s, "c", 3);
    assert_int_equal(hears(s, "-NOAUTH no\r\n", &master), SERIATIM_AUTH);
    asks(s, "a", 1);
    assert_int_equal(hears(s, "$-1\r\n", &master), SERIATIM_SERVER);
    asks(s, "b", 2);
    assert_int_equal(hears(s, "+what\r\n", &master), SERIATIM_PROTOCOL);
    assert_int_equal(seriatim_sentinel_next(s, &where), SERIATIM_IO);
    text = seriatim_sentinel_error(s)->message;
    assert_string_equal(
        text,
        "no sentinel names it: c:3: NOAUTH no; a:1: knows no master of that name; b:2: its answer is not an address");
    seriatim_sentinel_begin(s);
    asks(s, "c", 3);
    seriatim_sentinel_free(s);
}

static void test_credentials_refused_by_all_sentinels_are_an_error(void **state)
{
    seriatim_sentinel *s = new_sentinel("redis+sentinel://a:1,b:2/m1?sentinel_password=SeCrEt");
    seriatim_address master, where;
    (void)state;
    seriatim_sentinel_begin(s);
    asks(s, "a", 1);
    assert_int_equal(hears(s, "-WRONGPASS x\r\n-NOAUTH y\r\n", &master), SERIATIM_AUTH);
    asks(s, "b", 2);
    assert_int_equal(hears(s, "+OK\r\n", &master), SERIATIM_AGAIN);
    assert_int_equal(hears(s, "-NOPERM z\r\n", &master), SERIATIM_AUTH);
    assert_int_equal(seriatim_sentinel_next(s, &where), SERIATIM_AUTH);
    assert_null(strstr(seriatim_sentinel_error(s)->message, "SeCrEt"));
    seriatim_sentinel_free(s);
}

static void test_answers_split_at_every_byte(void **state)
{
    static const char answer[] = "+OK\r\n*2\r\n$9\r\n127.0.0.1\r\n$5\r\n26380\r\n";
    seriatim_sentinel *s = new_sentinel("redis+sentinel://a:1/m1?sentinel_password=pw");
    seriatim_address master;
    size_t at, len = sizeof answer - 1;
    (void)state;
    for (at = 1; at < len; at++) {
        seriatim_sentinel_begin(s);
        asks(s, "a", 1);
        assert_int_equal(seriatim_sentinel_input(s, answer, at, &master), SERIATIM_AGAIN);
        assert_int_equal(seriatim_sentinel_input(s, answer + at, len - at, &master), SERIATIM_OK);
        assert_string_equal(master.host, "127.0.0.1");
        assert_int_equal(master.port, 26380);
    }
    seriatim_sentinel_free(s);
}

static void test_hostile_answers_of_sentinels_are_errors(void **state)
{
    static const char *const answers[] = {"*2\r\n$0\r\n\r\n$4\r\n6379\r\n",
                                          "*2\r\n$3\r\na b\r\n$4\r\n6379\r\n",
                                          "*2\r\n$3\r\na\nb\r\n$4\r\n6379\r\n",
                                          "*2\r\n$1\r\na\r\n$1\r\n0\r\n",
                                          "*2\r\n$1\r\na\r\n$5\r\n65536\r\n",
                                          "*2\r\n$1\r\na\r\n$-1\r\n",
                                          "*1\r\n$1\r\na\r\n",
                                          "*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n1\r\n",
                                          ":1\r\n",
                                          "*0\r\n",
                                          "?\r\n",
                                          "*2\r\n*1\r\n$1\r\na\r\n$1\r\n1\r\n",
                                          "*2\r\n$1\r\na\r\n$20\r\n99999999999999999999\r\n"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof answers / sizeof *answers; i++) {
        seriatim_sentinel *s = new_sentinel("redis+sentinel://a:1/m1");
        seriatim_address master, where;
        seriatim_sentinel_begin(s);
        asks(s, "a", 1);
        if (hears(s, answers[i], &master) != SERIATIM_PROTOCOL)
            fail_msg("%s was taken", answers[i]);
        assert_int_equal(hears(s, answers[i], &master), SERIATIM_PROTOCOL);
        assert_int_equal(seriatim_sentinel_next(s, &where), SERIATIM_IO);
        seriatim_sentinel_free(s);
    }
}

static void test_other_urls_are_refused(void **state)
{
    static const char *const urls[] = {"redis://a", "unix:///x", "redis+sentinel://a", ""};
    seriatim_sentinel *s;
    seriatim_error error;
    size_t i;
    (void)state;
    for (i = 0; i < 4; i++)
        assert_int_equal(seriatim_sentinel_new(NULL, urls[i], &s, &error), SERIATIM_INVALID);
    assert_int_equal(seriatim_sentinel_new(NULL, NULL, &s, &error), SERIATIM_INVALID);
}

/* A round that finds the master at its second sentinel; its status. */
static int round_with(const seriatim_allocator *mem)
{
    seriatim_sentinel *s = NULL;
    seriatim_address where;
    seriatim_error error;
    int status = seriatim_sentinel_new(mem, "redis+sentinel://a,b/m?sentinel_password=x", &s, &error);
    if (status == SERIATIM_OK) {
        seriatim_sentinel_begin(s);
        status = seriatim_sentinel_next(s, &where);
    }
    if (status == SERIATIM_OK) {
        seriatim_sentinel_failed(s, "away");
        status = seriatim_sentinel_next(s, &where);
    }
    if (status == SERIATIM_OK)
        status = hears(s, "+OK\r\n*2\r\n$9\r\n127.0.0.1\r\n$5\r\n26380\r\n", &where);
    seriatim_sentinel_free(s);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    failing f = {0, 0, 0};
    seriatim_allocator mem = {failing_alloc, &f};
    int status = SERIATIM_NOMEM;
    (void)state;
    for (f.fail_at = 1; status != SERIATIM_OK || f.calls >= f.fail_at; f.fail_at++) {
        f.calls = 0;
        status = round_with(&mem);
        assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM);
        assert_int_equal(f.live, 0);
        assert_true(f.fail_at < 100);
    }
    assert_true(f.fail_at > 5);
}

/* ---- Processes ------------------------------------------------------------------------------ */

typedef struct process {
    redis_process redis;
    int port;
    char file[96];
} process;

static void nap(int ms)
{
    poll(NULL, 0, ms);
}

static redisReply *command(int port, const char *format, ...)
{
    redisContext *r = redisConnect("127.0.0.1", port);
    redisReply *reply = NULL;
    va_list args;
    va_start(args, format);
    if (r && !r->err)
        reply = redisvCommand(r, format, args);
    va_end(args);
    redisFree(r);
    return reply;
}

/* Until an INFO of that port holds the text, at most 90 s. */
static void wait_for(int port, const char *info, const char *text)
{
    int i, found = 0;
    for (i = 0; i < 1800 && !found; i++) {
        redisReply *reply = command(port, "INFO %s", info);
        found = reply && reply->type == REDIS_REPLY_STRING && strstr(reply->str, text);
        if (reply)
            freeReplyObject(reply);
        if (!found)
            nap(50);
    }
    if (!found)
        fail_msg("port %d never said %s", port, text);
}

static void run(process *p, int is_sentinel)
{
    const char *const words[] = {p->file, is_sentinel ? "--sentinel" : NULL, NULL};
    assert_int_equal(redis_run_plain(&p->redis, words), 0);
}

static process start(const char *settings, ...)
{
    process p;
    va_list args;
    FILE *f;
    memset(&p, 0, sizeof p);
    assert_int_equal(redis_make_folder(&p.redis), 0);
    snprintf(p.file, sizeof p.file, "%s/redis.conf", p.redis.folder);
    p.port = free_port();
    f = fopen(p.file, "w");
    assert_non_null(f);
    fprintf(f, "port %d\nbind 127.0.0.1\ndir %s\n", p.port, p.redis.folder);
    va_start(args, settings);
    vfprintf(f, settings, args);
    va_end(args);
    fclose(f);
    run(&p, strstr(settings, "sentinel ") != NULL);
    wait_for(p.port, "server", "redis_version");
    return p;
}

static void stop(process *p)
{
    assert_int_equal(redis_remove(&p->redis), 0);
}

#define REDIS                                                                                                          \
    "save \"\"\nappendonly no\nrepl-diskless-sync-delay 0\nrepl-diskless-sync yes\nrepl-ping-replica-period 1\n"

static process start_replica(const process *master)
{
    process p = start(REDIS "replicaof 127.0.0.1 %d\n", master->port);
    wait_for(p.port, "replication", "master_link_status:up");
    wait_for(master->port, "replication", "state=online");
    return p;
}

/* ---- Links ---------------------------------------------------------------------------------- */

static seriatim_link *new_link(const char *url)
{
    seriatim_queue_settings settings;
    seriatim_link *link = NULL;
    seriatim_error error;
    size_t queue;
    if (seriatim_link_new(NULL, url, &link, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
    seriatim_queue_settings_init(&settings);
    settings.name = "q";
    settings.name_len = 1;
    settings.shards_count = 3;
    settings.fold = "list";
    assert_int_equal(seriatim_client_queue(seriatim_link_client(link), &settings, &queue), SERIATIM_OK);
    return link;
}

static const char *message(seriatim_link *link)
{
    return seriatim_client_error(seriatim_link_client(link))->message;
}

/* Begins a push that takes at most `seconds`; replicas and timeout: those that it waits for, 0: none. */
static void begin_within(seriatim_link *link, double seconds, int from, int count, int replicas, double timeout)
{
    seriatim_client *c = seriatim_link_client(link);
    int i;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_timeout(c, seconds), SERIATIM_OK);
    if (replicas)
        assert_int_equal(seriatim_push_replicas(c, replicas, timeout), SERIATIM_OK);
    for (i = from; i < from + count; i++) {
        char id[32];
        seriatim_job job;
        seriatim_job_init(&job);
        snprintf(id, sizeof id, "id-%d", i);
        job.id = id;
        job.id_len = strlen(id);
        assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
}

/* A failover takes long on a busy machine. */
static void begin(seriatim_link *link, int from, int count, int replicas, double timeout)
{
    begin_within(link, 50, from, count, replicas, timeout);
}

static int drive(seriatim_link *link)
{
    int status;
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        assert_int_equal(seriatim_link_wait(link), SERIATIM_OK);
    return status;
}

static void push(seriatim_link *link, int from, int count, int replicas, double timeout)
{
    begin(link, from, count, replicas, timeout);
    if (drive(link) != SERIATIM_OK)
        fail_msg("%s", message(link));
    assert_int_equal(seriatim_push_result(seriatim_link_client(link)).added, count);
}

/* Waiting ids, each of which must have one payload: a second would have made its record longer. */
static long long waiting(int port)
{
    long long sum = 0;
    int shard;
    for (shard = 0; shard < 3; shard++) {
        redisReply *reply = command(port, "HVALS seriatim:{q/%d}:jobs", shard);
        size_t i;
        assert_non_null(reply);
        for (i = 0; i < reply->elements; i++)
            assert_true((unsigned char)reply->element[i]->str[0] / 4 < 2);
        sum += (long long)reply->elements;
        freeReplyObject(reply);
    }
    return sum;
}

/* ---- Scripted sentinels --------------------------------------------------------------------- */

typedef struct scripted {
    int listener, port, silent, stop, asked;
    int first_port, then_port; /* of the masters that it names, the first time and later */
    pthread_t thread;
} scripted;

static void *scripted_run(void *argument)
{
    scripted *s = argument;
    struct pollfd fd = {s->listener, POLLIN, 0};
    while (!s->stop) {
        char buf[512], answer[128];
        int down;
        if (poll(&fd, 1, 20) <= 0)
            continue;
        down = accept(s->listener, NULL, NULL);
        s->asked++;
        if (!s->silent && read(down, buf, sizeof buf) > 0) {
            int port = s->asked > 1 ? s->then_port : s->first_port;
            snprintf(answer, sizeof answer, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n", port > 9999 ? 5 : 4, port);
            assert_true(write(down, answer, strlen(answer)) > 0);
        } else if (s->silent) {
            while (read(down, buf, sizeof buf) > 0)
                ;
        }
        close(down);
    }
    return NULL;
}

static void start_scripted(scripted *s, int silent, int first_port, int then_port)
{
    memset(s, 0, sizeof *s);
    s->listener = listen_on_loopback(16, &s->port);
    s->silent = silent;
    s->first_port = first_port;
    s->then_port = then_port;
    pthread_create(&s->thread, NULL, scripted_run, s);
}

static void stop_scripted(scripted *s)
{
    s->stop = 1;
    pthread_join(s->thread, NULL);
    close(s->listener);
}

static void test_a_silent_sentinel_costs_half_a_second(void **state)
{
    process redis = start(REDIS);
    scripted silent, good;
    seriatim_link *link;
    char url[256], address[64];
    int64_t before = srt_clock_ms(), took;
    (void)state;
    start_scripted(&silent, 1, 0, 0);
    start_scripted(&good, 0, redis.port, redis.port);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:1,127.0.0.1:%d,127.0.0.1:%d/mymaster", silent.port,
             good.port);
    link = new_link(url);
    assert_string_equal(seriatim_link_address(link), "");
    push(link, 0, 10, 0, 0);
    took = srt_clock_ms() - before;
    assert_true(took >= 490 && took < 5000);
    snprintf(address, sizeof address, "127.0.0.1:%d", redis.port);
    assert_string_equal(seriatim_link_address(link), address);
    seriatim_link_reset(link);
    push(link, 10, 10, 0, 0);
    assert_int_equal(silent.asked, 1); /* the good one was asked first */
    assert_int_equal(good.asked, 2);
    assert_int_equal(waiting(redis.port), 20);
    seriatim_link_free(link);
    stop_scripted(&silent);
    stop_scripted(&good);
    stop(&redis);
}

typedef int lookup(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found);

/*
 * In the place of the C library's, for the name "two.test": 127.0.0.2, where nobody listens, then 127.0.0.1. On most
 * machines "localhost" is such a name: ::1, then 127.0.0.1.
 */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found)
{
    struct addrinfo *second;
    lookup *real;
    int code;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!host || strcmp(host, "two.test") != 0)
        return real(host, port, hints, found);
    code = real("127.0.0.2", port, hints, found);
    if (code == 0 && (code = real("127.0.0.1", port, hints, &second)) == 0)
        (*found)->ai_next = second;
    return code;
}

static void test_a_sentinel_is_asked_at_the_second_address_of_its_name(void **state)
{
    process redis = start(REDIS);
    scripted good;
    seriatim_link *link;
    char url[256];
    (void)state;
    start_scripted(&good, 0, redis.port, redis.port);
    snprintf(url, sizeof url, "redis+sentinel://two.test:%d/mymaster", good.port);
    link = new_link(url);
    srt_link_set_limits(link, 3000, 3000);
    push(link, 0, 10, 0, 0);
    assert_int_equal(good.asked, 1);
    assert_int_equal(waiting(redis.port), 10);
    seriatim_link_free(link);
    stop_scripted(&good);
    stop(&redis);
}

static void test_a_sentinel_that_no_address_of_its_name_reaches_is_an_error(void **state)
{
    seriatim_link *link = new_link("redis+sentinel://two.test:1/mymaster");
    (void)state;
    srt_link_set_limits(link, 3000, 3000);
    begin(link, 0, 10, 0, 0);
    assert_int_equal(drive(link), SERIATIM_IO);
    assert_string_equal(message(link),
                        "cannot connect to master mymaster: no sentinel names it: two.test:1: Connection refused");
    seriatim_link_free(link);
}

/* A sentinel that has not heard the news names a replica; later it names the master. */
static void test_a_replica_is_not_taken(void **state)
{
    process redis = start(REDIS), replica = start_replica(&redis);
    scripted late;
    seriatim_link *link;
    char url[256];
    (void)state;
    start_scripted(&late, 0, replica.port, redis.port);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/mymaster", late.port);
    link = new_link(url);
    push(link, 0, 10, 0, 0);
    assert_true(late.asked >= 2);
    assert_int_equal(waiting(redis.port), 10);
    seriatim_link_free(link);
    stop_scripted(&late);
    start_scripted(&late, 0, replica.port, replica.port);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/mymaster", late.port);
    link = new_link(url);
    srt_link_set_limits(link, 3000, 3000);
    begin_within(link, 3, 0, 10, 0, 0); /* it is tried again until then */
    assert_int_equal(drive(link), SERIATIM_READONLY);
    assert_non_null(strstr(message(link), "not a master: its ROLE is slave"));
    seriatim_link_free(link);
    stop_scripted(&late);
    stop(&replica);
    stop(&redis);
}

static void test_a_master_that_no_sentinel_names_is_an_error(void **state)
{
    seriatim_link *link = new_link("redis+sentinel://:SeCrEt@127.0.0.1:1,127.0.0.1:2/mymaster");
    (void)state;
    srt_link_set_limits(link, 3000, 3000);
    begin(link, 0, 10, 0, 0);
    assert_int_equal(drive(link), SERIATIM_IO);
    assert_string_equal(message(link), "cannot connect to master mymaster: no sentinel names it: "
                                       "127.0.0.1:1: Connection refused; 127.0.0.1:2: Connection refused");
    seriatim_link_free(link);
}

/* The life of a link with a push of replicas; its status. */
static int life_of_a_link(const seriatim_allocator *mem, const char *url)
{
    seriatim_options options = {mem, NULL, NULL, 0, NULL};
    seriatim_queue_settings settings;
    seriatim_link *link = NULL;
    seriatim_error error;
    seriatim_job job;
    size_t queue;
    int status = seriatim_link_new(&options, url, &link, &error);
    if (status != SERIATIM_OK)
        return status;
    seriatim_queue_settings_init(&settings);
    settings.name = "q";
    settings.name_len = 1;
    seriatim_job_init(&job);
    job.id = "a";
    job.id_len = 1;
    status = seriatim_client_queue(seriatim_link_client(link), &settings, &queue);
    if (status == SERIATIM_OK)
        status = seriatim_push_begin(seriatim_link_client(link), queue);
    if (status == SERIATIM_OK)
        status = seriatim_push_replicas(seriatim_link_client(link), 1, 0.001);
    if (status == SERIATIM_OK)
        status = seriatim_push_job(seriatim_link_client(link), &job);
    if (status == SERIATIM_OK)
        status = seriatim_push_send(seriatim_link_client(link));
    if (status == SERIATIM_OK)
        status = drive(link);
    seriatim_link_free(link);
    return status;
}

static void test_every_allocation_of_a_link_may_fail(void **state)
{
    process redis = start(REDIS);
    scripted good;
    char url[256];
    failing f = {0, 0, 0};
    seriatim_allocator mem = {failing_alloc, &f};
    int status = SERIATIM_NOMEM;
    (void)state;
    start_scripted(&good, 0, redis.port, redis.port);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:1,127.0.0.1:%d/mymaster", good.port);
    for (f.fail_at = 1; status != SERIATIM_REPLICAS || f.calls >= f.fail_at; f.fail_at++) {
        f.calls = 0;
        status = life_of_a_link(&mem, url);
        assert_true(status == SERIATIM_REPLICAS || status == SERIATIM_NOMEM || status == SERIATIM_UNKNOWN_OUTCOME);
        assert_int_equal(f.live, 0);
        assert_true(f.fail_at < 1000);
    }
    assert_true(f.fail_at > 40);
    stop_scripted(&good);
    stop(&redis);
}

/* ---- WAIT ----------------------------------------------------------------------------------- */

static seriatim_link *link_to(const process *p)
{
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", p->port);
    return new_link(url);
}

static void test_a_push_waits_for_its_replica(void **state)
{
    process redis = start(REDIS), replica = start_replica(&redis);
    seriatim_link *link = link_to(&redis);
    int64_t before;
    int i;
    (void)state;
    for (i = 0; i < 20; i++) {
        push(link, 10 * i, 10, 1, 10);
        assert_int_equal(waiting(replica.port), 10 * i + 10);
    }
    push(link, 200, 5000, 1, 10);
    assert_int_equal(waiting(replica.port), 5200);
    before = srt_clock_ms();
    begin(link, 5200, 10, 2, 4);
    assert_int_equal(drive(link), SERIATIM_REPLICAS);
    assert_true(srt_clock_ms() - before >= 3990);
    assert_string_equal(message(link), "the push is written, 1 of 2 replicas have it");
    assert_int_equal(seriatim_push_result(seriatim_link_client(link)).added, 10);
    assert_int_equal(waiting(redis.port), 5210);
    seriatim_link_free(link);
    stop(&replica);
    stop(&redis);
}

static void *kill_clients(void *argument)
{
    const process *p = argument;
    nap(300);
    freeReplyObject(command(p->port, "CLIENT KILL TYPE normal SKIPME yes"));
    return NULL;
}

static void *let_go_on(void *argument)
{
    const process *p = argument;
    nap(700);
    kill(p->redis.pid, SIGCONT);
    return NULL;
}

/*
 * The replica stands still, so WAIT hangs, and its connection is cut. The chunk that goes again writes nothing, since
 * its number is known; WAIT must still count the replicas that have the first sending.
 */
static void test_a_cut_wait_counts_replicas_of_the_first_sending(void **state)
{
    process redis = start(REDIS), replica = start_replica(&redis);
    seriatim_link *link = link_to(&redis);
    pthread_t thread, other;
    (void)state;
    push(link, 0, 10, 1, 5);
    kill(replica.redis.pid, SIGSTOP);
    pthread_create(&thread, NULL, kill_clients, &redis);
    begin(link, 10, 10, 1, 1);
    assert_int_equal(drive(link), SERIATIM_REPLICAS);
    pthread_join(thread, NULL);
    assert_string_equal(message(link), "the push is written, 0 of 1 replicas have it");
    assert_int_equal(waiting(redis.port), 20);
    pthread_create(&thread, NULL, kill_clients, &redis);
    pthread_create(&other, NULL, let_go_on, &replica);
    push(link, 20, 10, 1, 5);
    assert_int_equal(waiting(replica.port), 30);
    assert_int_equal(waiting(redis.port), 30);
    pthread_join(thread, NULL);
    pthread_join(other, NULL);
    seriatim_link_free(link);
    stop(&replica);
    stop(&redis);
}

static void test_a_user_without_the_right_to_wait_gets_an_error(void **state)
{
    process redis = start(REDIS "user shy on >pw ~* &* +@all -wait\n");
    char url[96];
    seriatim_link *link;
    (void)state;
    snprintf(url, sizeof url, "redis://shy:pw@127.0.0.1:%d", redis.port);
    link = new_link(url);
    begin(link, 0, 10, 1, 1);
    assert_int_equal(drive(link), SERIATIM_REPLICAS);
    assert_non_null(strstr(message(link), "the push is written, and WAIT was refused: "));
    assert_int_equal(waiting(redis.port), 10);
    seriatim_link_free(link);
    stop(&redis);
}

/* ---- Real sentinels ------------------------------------------------------------------------- */

typedef struct house {
    process redis, replica, sentinels[3];
    char url[256];
} house;

static void start_house(house *h)
{
    int i;
    h->redis = start(REDIS);
    h->replica = start_replica(&h->redis);
    for (i = 0; i < 3; i++)
        h->sentinels[i] =
            start("sentinel monitor mymaster 127.0.0.1 %d 2\nsentinel down-after-milliseconds mymaster 2000\n"
                  "sentinel failover-timeout mymaster 5000\n",
                  h->redis.port);
    for (i = 0; i < 3; i++)
        wait_for(h->sentinels[i].port, "sentinel", "slaves=1,sentinels=3");
    snprintf(h->url, sizeof h->url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/mymaster",
             h->sentinels[0].port, h->sentinels[1].port, h->sentinels[2].port);
}

static void stop_house(house *h)
{
    int i;
    for (i = 0; i < 3; i++)
        stop(&h->sentinels[i]);
    stop(&h->redis);
    stop(&h->replica);
}

static void check_health(seriatim_link *link, const process *master, int replicas)
{
    const seriatim_health *health;
    char address[64];
    assert_int_equal(seriatim_health_begin(seriatim_link_client(link)), SERIATIM_OK);
    assert_int_equal(drive(link), SERIATIM_OK);
    health = seriatim_health_result(seriatim_link_client(link));
    snprintf(address, sizeof address, "127.0.0.1:%d", master->port);
    assert_string_equal(health->role, "master");
    assert_string_equal(health->address, address);
    assert_int_equal(health->replicas, replicas);
}

/* A runner goes on by itself, and tells which master it works for. */
static void take_until(seriatim_runner *runner, int count, const char *said)
{
    int64_t until = srt_clock_ms() + 100000;
    int heard = !*said;
    while ((count > 0 || !heard) && srt_clock_ms() < until) {
        seriatim_delivery *delivery;
        seriatim_event event;
        seriatim_runner_pulse(runner);
        while (seriatim_runner_event(runner, &event) == SERIATIM_OK)
            heard |= strstr(event.text, said) != NULL;
        if (seriatim_runner_take(runner, 0, &delivery) != SERIATIM_OK) {
            seriatim_runner_wait(runner, 0, 50);
            continue;
        }
        seriatim_delivery_done(delivery, 0);
        count--;
        seriatim_runner_settle(runner, delivery);
    }
    assert_true(count <= 0);
    assert_true(heard);
}

static seriatim_runner *start_runner(const char *url)
{
    seriatim_node_settings settings;
    seriatim_queue_settings queue;
    seriatim_runner *runner;
    seriatim_error error;
    size_t worker;
    memset(&settings, 0, sizeof settings);
    settings.id = "node1";
    settings.lease_ms = 5000;
    settings.poll_ms = 200;
    settings.threads = 1;
    seriatim_queue_settings_init(&queue);
    queue.name = "q";
    queue.name_len = 1;
    queue.shards_count = 3;
    queue.fold = "list";
    if (seriatim_runner_new(&settings, url, &runner, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
    assert_int_equal(seriatim_runner_worker(runner, &queue, &worker, &error), SERIATIM_OK);
    assert_int_equal(seriatim_runner_start(runner, &error), SERIATIM_OK);
    return runner;
}

static void test_f6_a_failover_is_followed(void **state)
{
    house h;
    seriatim_link *link;
    seriatim_runner *runner;
    char said[64];
    (void)state;
    start_house(&h);
    link = new_link(h.url);
    runner = start_runner(h.url);
    push(link, 0, 100, 1, 10);
    check_health(link, &h.redis, 1);
    snprintf(said, sizeof said, "the master is 127.0.0.1:%d", h.redis.port);
    take_until(runner, 100, said);
    kill(h.redis.redis.pid, SIGKILL);
    push(link, 100, 100, 0, 0);
    check_health(link, &h.replica, 0);
    snprintf(said, sizeof said, "the master is 127.0.0.1:%d", h.replica.port);
    take_until(runner, 100, said);
    begin(link, 200, 10, 1, 0.1);
    assert_int_equal(drive(link), SERIATIM_REPLICAS);
    take_until(runner, 10, "");
    seriatim_runner_free(runner);
    seriatim_link_free(link);
    stop_house(&h);
}

/* ---- Run ------------------------------------------------------------------------------------ */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sentinel_is_asked_with_these_bytes),
        cmocka_unit_test(test_sentinels_are_asked_one_after_another),
        cmocka_unit_test(test_credentials_refused_by_all_sentinels_are_an_error),
        cmocka_unit_test(test_answers_split_at_every_byte),
        cmocka_unit_test(test_hostile_answers_of_sentinels_are_errors),
        cmocka_unit_test(test_other_urls_are_refused),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_a_silent_sentinel_costs_half_a_second),
        cmocka_unit_test(test_a_sentinel_is_asked_at_the_second_address_of_its_name),
        cmocka_unit_test(test_a_sentinel_that_no_address_of_its_name_reaches_is_an_error),
        cmocka_unit_test(test_a_replica_is_not_taken),
        cmocka_unit_test(test_a_master_that_no_sentinel_names_is_an_error),
        cmocka_unit_test(test_every_allocation_of_a_link_may_fail),
        cmocka_unit_test(test_a_push_waits_for_its_replica),
        cmocka_unit_test(test_a_cut_wait_counts_replicas_of_the_first_sending),
        cmocka_unit_test(test_a_user_without_the_right_to_wait_gets_an_error),
        cmocka_unit_test(test_f6_a_failover_is_followed),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

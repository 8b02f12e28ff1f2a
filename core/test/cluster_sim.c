/* cluster_sim.c - see cluster_sim.h. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "cluster_sim.h"
#include "link_fixture.h"
#include "node_fixture.h"
#include "run_checks.h"
#include "seriatim/binding/client.h"
#include "seriatim/binding/node.h"

#define NODES 2
#define CLIENTS CHECKED_CLIENTS
#define NODE_THREADS 2
#define PIPES 32 /* of an actor at a time */
#define GHOSTS 16
#define STOPPING_MS 30000
#define CUT 400 /* one of so many steps ends a connection, or eight of them where bytes wait */

/* A connection to a master. What its actor has sent waits in `out` until the schedule delivers it. */
typedef struct csim_pipe {
    int fd;     /* -1: none */
    int number; /* of the node's channel, or of the client's master */
    int is_known;
    char mark; /* of this connection */
    srt_bytes out;
} csim_pipe;

/* A node or a client. */
typedef struct csim_actor {
    srt_node *node;
    seriatim_client *client;
    csim_pipe pipes[PIPES];
    /* Of a node: */
    seriatim_delivery *held[NODE_THREADS];
    int64_t ends[NODE_THREADS];
    uint64_t settled;
    /* Of a client: */
    int number, busy, ids[8], payloads[8], count;
    int64_t wake_at;
} csim_actor;

/* The main thread disturbs the cluster, this one steps the actors. */
static struct {
    pthread_t thread;
    uint64_t random; /* of the actors */
    int other_tokens;
    int64_t now;
    csim_actor nodes[NODES], clients[CLIENTS];
    csim_pipe ghosts[GHOSTS]; /* connections that have ended: what they have is delivered later */
    int calm, ends, ended;    /* atomic: nothing goes wrong, and nothing is pushed; no step any more; all has run */
    csim_totals sum;
} cs;

uint64_t csim_below(uint64_t *random, uint64_t most)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*random >> 33) % most;
}

static uint64_t roll(uint64_t most)
{
    return csim_below(&cs.random, most);
}

static int flag(const int *of)
{
    return __atomic_load_n(of, __ATOMIC_ACQUIRE);
}

static void set_flag(int *of)
{
    __atomic_store_n(of, 1, __ATOMIC_RELEASE);
}

static int is_calm(void)
{
    return flag(&cs.calm);
}

/* ---- An actor and its masters ----------------------------------------------------------------- */

static int view_master(const csim_actor *a, size_t i, int *number, int *port, int *wanted)
{
    srt_node_master_view of_node;
    srt_client_master_view of_client;
    if (a->node) {
        if (!srt_node_master(a->node, i, &of_node))
            return 0;
        *number = (int)of_node.channel;
        *port = of_node.port;
        *wanted = of_node.wanted;
        return 1;
    }
    if (!srt_client_master(a->client, i, &of_client))
        return 0;
    *number = (int)of_client.number;
    *port = of_client.port;
    *wanted = of_client.wanted;
    return 1;
}

static void tell_connected(csim_actor *a, int number)
{
    if (a->node)
        srt_node_connected(a->node, (srt_channel)number, NULL, NULL, 0, cs.now);
    else
        srt_client_master_connected(a->client, (unsigned)number, NULL, NULL);
}

static void tell_disconnected(csim_actor *a, int number)
{
    if (a->node)
        srt_node_disconnected(a->node, (srt_channel)number, cs.now);
    else
        srt_client_master_disconnected(a->client, (unsigned)number);
}

/* Writes the mark of the connection into the keys of tokens. */
static void change_tokens(const csim_pipe *p, size_t from)
{
    static const char kind[] = "}:push:";
    size_t i;
    for (i = from; i + sizeof kind <= p->out.len; i++)
        if (memcmp(p->out.data + i, kind, sizeof kind - 1) == 0)
            p->out.data[i + sizeof kind - 1] = p->mark;
}

static void take_output(csim_actor *a, csim_pipe *p)
{
    const char *data;
    size_t len, before = p->out.len;
    if (a->node)
        srt_node_output(a->node, (srt_channel)p->number, &data, &len);
    else
        srt_client_master_output(a->client, (unsigned)p->number, &data, &len);
    srt_bytes_add(&p->out, data, len);
    if (a->client && cs.other_tokens)
        change_tokens(p, before);
    if (a->node)
        srt_node_sent(a->node, (srt_channel)p->number, len);
    else
        srt_client_master_sent(a->client, (unsigned)p->number, len);
}

static int give_input(csim_actor *a, const csim_pipe *p, const char *data, size_t len)
{
    seriatim_error error;
    return a->node ? srt_node_input(a->node, (srt_channel)p->number, data, len, cs.now, &error)
                   : srt_client_master_input(a->client, (unsigned)p->number, data, len, &error);
}

/* ---- Connections ------------------------------------------------------------------------------ */

static void pipe_drop(csim_pipe *p)
{
    close(p->fd);
    p->fd = -1;
    srt_bytes_free(&p->out);
}

static int connect_to(int port)
{
    struct sockaddr_in address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static void pipe_open(csim_actor *a, int number, int port)
{
    csim_pipe *p = a->pipes;
    while (p->fd >= 0)
        p++;
    p->fd = connect_to(port);
    p->number = number;
    p->is_known = 1;
    p->mark = (char)('A' + roll(26));
    srt_bytes_init(&p->out, seriatim_default_allocator());
    if (p->fd >= 0)
        tell_connected(a, number);
    else
        tell_disconnected(a, number);
}

static csim_pipe *pipe_of(csim_actor *a, int number)
{
    int i;
    for (i = 0; i < PIPES; i++)
        if (a->pipes[i].fd >= 0 && a->pipes[i].number == number)
            return &a->pipes[i];
    return NULL;
}

/* The connection ends. What it has may be delivered later, as from a buffer of the system. */
static void pipe_end(csim_actor *a, csim_pipe *p)
{
    int i, number = p->number;
    for (i = 0; i < GHOSTS && cs.ghosts[i].fd >= 0; i++)
        ;
    if (p->out.len > 0 && i < GHOSTS && roll(2) == 0) {
        cs.ghosts[i] = *p;
        p->fd = -1;
    } else {
        pipe_drop(p);
    }
    tell_disconnected(a, number);
}

/* 0: the connection has ended. */
static int pipe_deliver(csim_pipe *p, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(p->fd, p->out.data, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return 0;
        memmove(p->out.data, p->out.data + sent, p->out.len - (size_t)sent);
        p->out.len -= (size_t)sent;
        len -= (size_t)sent;
    }
    return 1;
}

static void deliver_late_bytes(void)
{
    csim_pipe *p = &cs.ghosts[roll(GHOSTS)];
    if (p->fd < 0)
        return;
    pipe_deliver(p, p->out.len);
    poll(NULL, 0, 1); /* until Redis has read it: it drops what a closed connection has sent */
    pipe_drop(p);
    cs.sum.late++;
}

/* 0: it has ended. */
static int pipe_step(csim_actor *a, csim_pipe *p)
{
    static char bytes[1 << 16];
    ssize_t got;
    take_output(a, p);
    if (p->out.len > 0 && roll(3) > 0 && !pipe_deliver(p, is_calm() || roll(4) > 0 ? p->out.len : roll(p->out.len) + 1))
        return 0;
    got = recv(p->fd, bytes, roll(8) == 0 ? roll(200) + 1 : sizeof bytes, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
        return 0;
    if (got > 0 && give_input(a, p, bytes, (size_t)got) != SERIATIM_OK)
        return 0;
    if (is_calm() || roll(p->out.len > 0 ? CUT / 8 : CUT) > 0)
        return 1;
    cs.sum.cuts++;
    return 0;
}

/* Opens and closes connections as the actor wants them. */
static void follow_masters(csim_actor *a)
{
    int i, number, port, wanted;
    size_t at;
    for (i = 0; i < PIPES; i++)
        a->pipes[i].is_known = a->node && a->pipes[i].number == SRT_WAKES;
    for (at = 0; view_master(a, at, &number, &port, &wanted); at++) {
        csim_pipe *p = pipe_of(a, number);
        if (p)
            p->is_known = 1;
        if (wanted && !p)
            pipe_open(a, number, port);
        else if (!wanted && p)
            pipe_end(a, p);
        if (a->node && at == 0 && !pipe_of(a, SRT_WAKES))
            pipe_open(a, SRT_WAKES, port);
    }
    for (i = 0; i < PIPES; i++)
        if (a->pipes[i].fd >= 0 && !a->pipes[i].is_known)
            pipe_drop(&a->pipes[i]); /* the master has left the cluster */
}

static void exchange(csim_actor *a)
{
    int i;
    follow_masters(a);
    for (i = 0; i < PIPES; i++)
        if (a->pipes[i].fd >= 0 && !pipe_step(a, &a->pipes[i]))
            pipe_end(a, &a->pipes[i]);
}

/* ---- Nodes ------------------------------------------------------------------------------------ */

static void node_start(csim_actor *a, const char *id)
{
    seriatim_node_settings settings = node_of_one_thread(id);
    seriatim_queue_settings queue = queue_q();
    seriatim_error error;
    size_t worker, i;
    settings.lease_ms = 60000; /* no living node is taken for dead */
    settings.poll_ms = 100;
    settings.threads = NODE_THREADS;
    queue.shards_count = CSIM_SHARDS;
    queue.fold = "list";
    assert_int_equal(srt_node_new(&settings, &a->node, &error), SERIATIM_OK);
    for (i = 0; i < CLUSTER_STARTED; i++)
        assert_int_equal(srt_node_seed(a->node, "127.0.0.1", cluster.nodes[i].port), SERIATIM_OK);
    assert_int_equal(srt_node_worker(a->node, &queue, &worker, &error), SERIATIM_OK);
    assert_int_equal(srt_node_start(a->node, cs.now, &error), SERIATIM_OK);
}

static void thread_settle(csim_actor *a, int thread)
{
    seriatim_delivery *d = a->held[thread];
    size_t i;
    for (i = 0; i < seriatim_delivery_size(d); i++) {
        checks_end_run(seriatim_delivery_job(d, i));
        seriatim_delivery_done(d, i);
        a->settled++;
    }
    srt_node_settle(a->node, d, cs.now);
    a->held[thread] = NULL;
}

static void node_threads(csim_actor *a)
{
    int thread;
    size_t i;
    for (thread = 0; thread < NODE_THREADS; thread++) {
        seriatim_delivery *d;
        if (a->held[thread]) {
            if (cs.now >= a->ends[thread])
                thread_settle(a, thread);
        } else if (srt_node_take(a->node, 0, cs.now, &d) == SERIATIM_OK) {
            a->held[thread] = d;
            a->ends[thread] = cs.now + (int64_t)roll(6);
            for (i = 0; i < seriatim_delivery_size(d); i++)
                checks_begin_run(seriatim_delivery_job(d, i));
        }
    }
}

static void node_step(csim_actor *a)
{
    seriatim_event event;
    srt_node_pulse(a->node, cs.now);
    srt_node_tick(a->node, cs.now);
    exchange(a);
    node_threads(a);
    while (srt_node_event(a->node, cs.now, &event) == SERIATIM_OK)
        if (getenv("VERBOSE"))
            printf("%s\n", event.text);
    if (srt_node_stats(a->node).refused > 0)
        checks_violated("a node was refused a settle");
}

/* ---- Clients ---------------------------------------------------------------------------------- */

static void client_start(csim_actor *a, int number)
{
    unsigned char random[SRT_CLIENT_RANDOM];
    seriatim_queue_settings queue = queue_q();
    seriatim_error error;
    size_t i, place;
    for (i = 0; i < sizeof random; i++)
        random[i] = (unsigned char)roll(256);
    a->number = number;
    queue.shards_count = CSIM_SHARDS;
    queue.fold = "list";
    assert_int_equal(seriatim_client_new(NULL, &a->client, &error), SERIATIM_OK);
    srt_client_identify(a->client, random);
    for (i = 0; i < CLUSTER_STARTED; i++)
        assert_int_equal(srt_client_seed(a->client, "127.0.0.1", cluster.nodes[i].port), SERIATIM_OK);
    assert_int_equal(seriatim_client_queue(a->client, &queue, &place), SERIATIM_OK);
}

static void push_begin(csim_actor *a)
{
    int i;
    a->count = 1 + (int)roll(4);
    seriatim_push_begin(a->client, 0);
    for (i = 0; i < a->count; i++) {
        char id[16], payload[32];
        int name = (int)roll(CHECKED_IDS);
        seriatim_job job;
        snprintf(id, sizeof id, "id-%d", name);
        snprintf(payload, sizeof payload, "%d.%d", a->number, checks_next_payload(name, a->number));
        seriatim_job_init(&job);
        job.id = id;
        job.id_len = strlen(id);
        job.payload = payload;
        job.payload_len = strlen(payload);
        seriatim_push_job(a->client, &job);
    }
    seriatim_push_send(a->client);
    a->busy = 1;
}

static void client_wake(csim_actor *a)
{
    if (srt_client_sleeps(a->client) < 0)
        return;
    if (a->wake_at == 0)
        a->wake_at = cs.now + srt_client_sleeps(a->client);
    if (cs.now < a->wake_at)
        return;
    a->wake_at = 0;
    srt_client_wake(a->client);
}

static void client_step(csim_actor *a)
{
    int status;
    if (!a->busy && !is_calm() && roll(6) == 0)
        push_begin(a);
    srt_client_tick(a->client, cs.now);
    client_wake(a);
    exchange(a);
    status = srt_client_status(a->client);
    if (!a->busy || status == SERIATIM_AGAIN)
        return;
    if (status != SERIATIM_OK)
        checks_violated("a push fails: %s", seriatim_client_error(a->client)->message);
    a->busy = 0;
    cs.sum.pushes++;
}

/* ---- A schedule ------------------------------------------------------------------------------- */

static int64_t clock_ms(void)
{
    return (int64_t)wall_clock_ms();
}

static void actors_start(uint64_t seed)
{
    int i, k;
    memset(&cs, 0, sizeof cs);
    checks_begin();
    cs.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    cs.now = clock_ms();
    for (i = 0; i < GHOSTS; i++)
        cs.ghosts[i].fd = -1;
    for (k = 0; k < PIPES; k++) {
        for (i = 0; i < NODES; i++)
            cs.nodes[i].pipes[k].fd = -1;
        for (i = 0; i < CLIENTS; i++)
            cs.clients[i].pipes[k].fd = -1;
    }
    for (i = 0; i < NODES; i++)
        node_start(&cs.nodes[i], i ? "two" : "one");
    for (i = 0; i < CLIENTS; i++)
        client_start(&cs.clients[i], i);
}

static void actors_step(void)
{
    int i;
    cs.now = clock_ms();
    for (i = 0; i < NODES; i++)
        if (roll(4) > 0)
            node_step(&cs.nodes[i]);
    for (i = 0; i < CLIENTS; i++)
        if (roll(4) > 0)
            client_step(&cs.clients[i]);
    if (is_calm() || roll(30) == 0)
        deliver_late_bytes();
    if (roll(4) == 0)
        poll(NULL, 0, 1);
}

/* All has run, and nobody waits for an answer. */
static int is_done(void)
{
    int i, busy = checks_left();
    for (i = 0; i < CLIENTS; i++)
        busy += cs.clients[i].busy;
    for (i = 0; i < GHOSTS; i++)
        busy += cs.ghosts[i].fd >= 0;
    for (i = 0; i < NODES; i++)
        busy += srt_node_stats(cs.nodes[i].node).processed != cs.nodes[i].settled;
    return busy == 0;
}

static void *run_actors(void *unused)
{
    while (!checks_violation()[0] && !flag(&cs.ends) && !(flag(&cs.calm) && is_done()))
        actors_step();
    set_flag(&cs.ended);
    return unused;
}

static void drop_all(csim_actor *a)
{
    int i;
    for (i = 0; i < PIPES; i++)
        if (a->pipes[i].fd >= 0)
            pipe_drop(&a->pipes[i]);
}

static void nodes_stop(void)
{
    int64_t until = clock_ms() + STOPPING_MS;
    int i, stopped = 0;
    for (i = 0; i < NODES; i++)
        srt_node_stop(cs.nodes[i].node, cs.now);
    while (stopped < NODES && !checks_violation()[0]) {
        actors_step();
        for (i = stopped = 0; i < NODES; i++)
            stopped += srt_node_is_stopped(cs.nodes[i].node);
        if (clock_ms() > until)
            checks_violated("a node does not stop");
    }
}

static void actors_free(void)
{
    int i, thread;
    for (i = 0; i < NODES; i++) {
        for (thread = 0; thread < NODE_THREADS; thread++)
            if (cs.nodes[i].held[thread])
                thread_settle(&cs.nodes[i], thread);
        srt_node_free(cs.nodes[i].node);
        drop_all(&cs.nodes[i]);
    }
    for (i = 0; i < CLIENTS; i++) {
        seriatim_client_free(cs.clients[i].client);
        drop_all(&cs.clients[i]);
    }
    for (i = 0; i < GHOSTS; i++)
        if (cs.ghosts[i].fd >= 0)
            pipe_drop(&cs.ghosts[i]);
}

void csim_start(uint64_t seed, int other_tokens)
{
    actors_start(seed);
    cs.other_tokens = other_tokens;
    assert_int_equal(pthread_create(&cs.thread, NULL, run_actors, NULL), 0);
}

const char *csim_violation(void)
{
    return flag(&cs.ended) ? checks_violation() : "";
}

csim_totals csim_end(double seconds)
{
    int64_t until = clock_ms() + (int64_t)(seconds * 1000);
    set_flag(&cs.calm);
    while (!flag(&cs.ended) && clock_ms() < until)
        poll(NULL, 0, 5);
    set_flag(&cs.ends);
    pthread_join(cs.thread, NULL);
    if (!is_done())
        checks_violated("%d payloads do not run, or somebody waits for an answer", checks_left());
    nodes_stop();
    actors_free();
    cs.sum.runs = checks_runs();
    return cs.sum;
}

/* reshard_sim.c - the actors of reshard_sim.h, one step at a time, and the points at which they die. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "node_fixture.h"
#include "reshard_sim.h"

#define LEASE_MS 60000 /* no living node is taken for dead */
#define CUT 400        /* one of so many steps ends a connection */
#define KILLS 6        /* in a round */

uint64_t rsim_below(rsim *s, uint64_t most)
{
    s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (s->random >> 33) % most;
}

const char *rsim_name(int id)
{
    static char names[RSIM_IDS][16];
    snprintf(names[id], sizeof names[0], "id-%d", id);
    return names[id];
}

int rsim_waits(int id)
{
    return id % 4 == 1;
}

/* ---- Connections ----------------------------------------------------------------------------- */

static void pipe_open(rsim_pipe *p)
{
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", server.socket);
    p->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(p->fd, (struct sockaddr *)&address, sizeof address), 0);
    srt_bytes_init(&p->out, seriatim_default_allocator());
}

void rsim_pipe_drop(rsim_pipe *p)
{
    if (p->fd < 0)
        return;
    close(p->fd);
    p->fd = -1;
    srt_bytes_free(&p->out);
}

/* Its actor sends these bytes; calls of the script that is broken go to the mutant. */
static void pipe_take(const rsim *s, rsim_pipe *p, const char *data, size_t len)
{
    size_t i = p->out.len;
    srt_bytes_add(&p->out, data, len);
    assert_false(p->out.failed);
    for (; s->mutant && i + 40 <= p->out.len; i++)
        if (p->out.data[i] == s->sha[0] && memcmp(p->out.data + i, s->sha, 40) == 0)
            memcpy(p->out.data + i, s->mutant, 40);
}

/* Delivers some or all of the bytes; when this returns, Redis has answered what is whole. */
static void pipe_deliver(rsim_pipe *p, size_t len)
{
    size_t sent = 0;
    while (sent < len) {
        ssize_t now = send(p->fd, p->out.data + sent, len - sent, MSG_NOSIGNAL);
        assert_true(now > 0);
        sent += (size_t)now;
    }
    memmove(p->out.data, p->out.data + len, p->out.len - len);
    p->out.len -= len;
    REDIS("PING");
}

static void pipe_move(rsim *s, rsim_pipe *p)
{
    uint64_t few = p == &s->admin.pipe ? 3 : 1; /* the commands of one that dies half-way come one by one */
    if (p->out.len > 0 && rsim_below(s, 4) > 0)
        pipe_deliver(p, s->calm || rsim_below(s, 4) >= few ? p->out.len : rsim_below(s, p->out.len) + 1);
}

/* The connection ends. What it has may be delivered later, as from a buffer of the system. */
static void pipe_end(rsim *s, rsim_pipe *p)
{
    int i;
    for (i = 0; p->out.len > 0 && i < RSIM_GHOSTS && rsim_below(s, 2) == 0; i++)
        if (s->ghosts[i].fd < 0) {
            s->ghosts[i] = *p;
            p->fd = -1;
            return;
        }
    rsim_pipe_drop(p);
}

static int is_cut(rsim *s)
{
    int is = !s->calm && rsim_below(s, CUT) == 0;
    s->totals->cuts += (unsigned)is;
    return is;
}

/* Bytes that have come; 0: none; -1: the connection has ended. */
static ssize_t pipe_read(rsim *s, rsim_pipe *p, char *bytes, size_t cap)
{
    ssize_t got = recv(p->fd, bytes, rsim_below(s, 8) == 0 ? rsim_below(s, 200) + 1 : cap, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return got > 0 ? got : -1;
}

/* A dead node has no heartbeat, as if its lease had ended. */
static void bury(const rsim *s)
{
    unsigned i;
    for (i = 0; i < s->dead_count; i++) {
        REDIS("ZREM seriatim:{/nodes}:alive %s", s->dead[i]);
        REDIS("HDEL seriatim:{/nodes}:info %s", s->dead[i]);
    }
}

void rsim_late_bytes(rsim *s)
{
    int i = (int)rsim_below(s, RSIM_GHOSTS);
    if (s->ghosts[i].fd < 0)
        return;
    pipe_deliver(&s->ghosts[i], s->ghosts[i].out.len);
    rsim_pipe_drop(&s->ghosts[i]);
    s->totals->late++;
    bury(s);
}

/* ---- Points ---------------------------------------------------------------------------------- */

/* Somebody is at this point: does he die? */
static int dies(rsim *s, int point)
{
    int often = point == RSIM_DEPARTED || point == RSIM_ARRIVED || point == RSIM_BEFORE_OUT;
    if (s->calm || s->kills == KILLS || rsim_below(s, s->point != point ? 1000 : often ? 12 : 2) > 0)
        return 0;
    s->kills++;
    s->totals->killed[point]++;
    return 1;
}

/* Where is the mover of a shard? 0: at no point. */
static int point_of(rsim *s, rsim_node *n, const srt_mover *m)
{
    const srt_move_id *id;
    size_t count = 0;
    for (id = m->batch; id; id = id->next)
        count++;
    if (m->batch && strcmp(n->sequence, m->sequence) != 0) {
        strcpy(n->sequence, m->sequence);
        n->batch = count;
    }
    switch (m->step) {
    case SRT_MOVE_SLICE_OUT:
        return strcmp(m->place, "0") != 0 ? RSIM_SLICES : 0;
    case SRT_MOVE_SLICE_IN:
        return RSIM_SLICES;
    case SRT_MOVE_OPENED:
        return RSIM_DEPARTED;
    case SRT_MOVE_ARRIVE:
        return m->batch && count < n->batch ? RSIM_SOME_ARRIVED : RSIM_DEPARTED;
    case SRT_MOVE_ARRIVED:
    case SRT_MOVE_DEPARTED:
        return RSIM_ARRIVED;
    case SRT_MOVE_OUT:
        return RSIM_BEFORE_OUT;
    case SRT_MOVE_END:
        s->ender = n;
        return RSIM_BEFORE_END;
    default:
        return 0;
    }
}

static void maybe_die(rsim *s, rsim_node *n)
{
    size_t i;
    int point = 0;
    for (i = 0; i < n->node->shard_count && !point; i++)
        if (n->node->shards[i]->mover)
            point = point_of(s, n, n->node->shards[i]->mover);
    if (!point && s->ender == n) {
        rsim_look(s);
        if (s->old == 0 && s->turned < RSIM_SHARDS)
            point = RSIM_ENDED;
        else if (s->old == 0)
            s->ender = NULL;
    }
    if (point && dies(s, point)) {
        rsim_node_kill(s, n);
        rsim_node_start(s, n);
    }
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

void rsim_node_start(rsim *s, rsim_node *n)
{
    seriatim_node_settings settings;
    seriatim_queue_settings queue = queue_q();
    seriatim_error error;
    size_t worker;
    memset(n, 0, sizeof *n);
    snprintf(n->id, sizeof n->id, "n%u", s->node_count++);
    settings = node_of_one_thread(n->id);
    settings.lease_ms = LEASE_MS;
    settings.poll_ms = 100;
    settings.threads = RSIM_THREADS;
    queue.shards_count = 5;
    queue.fold = "list";
    n->pipes[SRT_COMMANDS].fd = n->pipes[SRT_WAKES].fd = -1;
    assert_int_equal(srt_node_new(&settings, &n->node, &error), SERIATIM_OK);
    assert_int_equal(srt_node_worker(n->node, &queue, &worker, &error), SERIATIM_OK);
    assert_int_equal(srt_node_start(n->node, s->now, &error), SERIATIM_OK);
}

static void node_disconnect(rsim *s, rsim_node *n, int channel)
{
    pipe_end(s, &n->pipes[channel]);
    srt_node_disconnected(n->node, (srt_channel)channel, s->now);
}

static void node_channel(rsim *s, rsim_node *n, int channel)
{
    static char bytes[1 << 16];
    rsim_pipe *p = &n->pipes[channel];
    seriatim_error error;
    const char *data;
    size_t len;
    ssize_t got;
    if (p->fd < 0) {
        pipe_open(p);
        assert_int_equal(srt_node_connected(n->node, (srt_channel)channel, NULL, NULL, 0, s->now), SERIATIM_OK);
    }
    srt_node_output(n->node, (srt_channel)channel, &data, &len);
    if (len > 0) {
        pipe_take(s, p, data, len);
        srt_node_sent(n->node, (srt_channel)channel, len);
    }
    pipe_move(s, p);
    got = pipe_read(s, p, bytes, sizeof bytes);
    if (got < 0 || is_cut(s))
        node_disconnect(s, n, channel);
    else if (got > 0 &&
             srt_node_input(n->node, (srt_channel)channel, bytes, (size_t)got, s->now, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
}

static void node_threads(rsim *s, rsim_node *n)
{
    int thread;
    size_t i;
    for (thread = 0; thread < RSIM_THREADS; thread++) {
        seriatim_delivery *d = n->held[thread];
        if (d && s->now >= n->ends[thread]) {
            for (i = 0; i < seriatim_delivery_size(d); i++) {
                rsim_end_run(s, seriatim_delivery_job(d, i));
                seriatim_delivery_done(d, i);
                n->settled++;
            }
            srt_node_settle(n->node, d, s->now);
            n->held[thread] = NULL;
        } else if (!d && srt_node_take(n->node, 0, s->now, &d) == SERIATIM_OK) {
            n->held[thread] = d;
            n->ends[thread] = s->now + 1 + (int64_t)rsim_below(s, 30);
            for (i = 0; i < seriatim_delivery_size(d); i++)
                rsim_begin_run(s, n, seriatim_delivery_job(d, i));
        }
    }
}

void rsim_node_step(rsim *s, rsim_node *n)
{
    seriatim_event event;
    int channel;
    srt_node_pulse(n->node, s->now);
    srt_node_tick(n->node, s->now);
    for (channel = 0; channel < SRT_CHANNELS; channel++)
        node_channel(s, n, channel);
    node_threads(s, n);
    while (srt_node_event(n->node, s->now, &event) == SERIATIM_OK)
        if (getenv("VERBOSE"))
            printf("%s: %s\n", n->id, event.text);
    if (srt_node_stats(n->node).refused > 0)
        rsim_violated(s, "%s was refused a settle", n->id);
    if (srt_node_stats(n->node).processed == n->settled)
        rsim_settles_answered(s, n);
    maybe_die(s, n);
}

void rsim_node_kill(rsim *s, rsim_node *n)
{
    int channel;
    if (!n->node)
        return;
    for (channel = 0; channel < SRT_CHANNELS; channel++)
        if (n->pipes[channel].fd >= 0)
            pipe_end(s, &n->pipes[channel]);
    srt_node_free(n->node); /* with what threads hold */
    n->node = NULL;
    rsim_died(s, n);
    assert_true(s->dead_count < RSIM_DEAD);
    strcpy(s->dead[s->dead_count++], n->id);
    s->ender = s->ender == n ? NULL : s->ender;
    bury(s);
    REDIS("PUBLISH seriatim:nodes leave"); /* the others look who lives */
}

/* ---- Clients --------------------------------------------------------------------------------- */

void rsim_client_start(rsim *s, rsim_client *c, int number)
{
    unsigned char random[SRT_CLIENT_RANDOM];
    seriatim_error error;
    size_t i;
    memset(c, 0, sizeof *c);
    for (i = 0; i < sizeof random; i++)
        random[i] = (unsigned char)rsim_below(s, 256);
    c->pipe.fd = -1;
    c->number = number;
    assert_int_equal(seriatim_client_new(NULL, &c->client, &error), SERIATIM_OK);
    c->client->as_in_cluster = number % 2;
    srt_client_identify(c->client, random);
    assert_int_equal(add_queue(c->client, "Q", 1, 5, "list"), 0);
}

void rsim_client_kill(rsim *s, rsim_client *c)
{
    if (c->pipe.fd >= 0)
        pipe_end(s, &c->pipe);
    seriatim_client_free(c->client);
    c->client = NULL;
}

static void client_disconnect(rsim *s, rsim_client *c)
{
    pipe_end(s, &c->pipe);
    srt_client_disconnected(c->client);
}

static void client_io(rsim *s, rsim_client *c)
{
    static char bytes[1 << 16];
    seriatim_error error;
    const char *data;
    size_t len;
    ssize_t got;
    if (c->pipe.fd < 0) {
        pipe_open(&c->pipe);
        assert_int_equal(srt_client_connected(c->client, NULL, NULL, 0), SERIATIM_OK);
    }
    srt_client_output(c->client, &data, &len);
    if (len > 0) {
        pipe_take(s, &c->pipe, data, len);
        srt_client_sent(c->client, len);
    }
    pipe_move(s, &c->pipe);
    got = pipe_read(s, &c->pipe, bytes, sizeof bytes);
    if (got < 0 || is_cut(s))
        client_disconnect(s, c);
    else if (got > 0 && srt_client_input(c->client, bytes, (size_t)got, &error) != SERIATIM_OK)
        client_disconnect(s, c);
}

/* A producer is stopped, often when it has heard that an id is not in its old shard, until another move may be there.
 */
static void client_freeze(rsim *s, rsim_client *c)
{
    const srt_push *p = c->client->push;
    if (s->calm || !c->busy)
        return;
    if (c != &s->admin && p && p->moved && rsim_below(s, 4) == 0)
        c->frozen_until = s->now + (int64_t)rsim_below(s, 6000);
    else if (rsim_below(s, 2000) == 0)
        c->frozen_until = s->now + (int64_t)rsim_below(s, 500);
}

void rsim_client_step(rsim *s, rsim_client *c)
{
    if (s->now < c->frozen_until && !s->calm)
        return;
    if (srt_client_sleeps(c->client) >= 0) {
        if (c->wake_at == 0)
            c->wake_at = s->now + srt_client_sleeps(c->client);
        if (s->now >= c->wake_at) {
            c->wake_at = 0;
            srt_client_wake(c->client);
        }
    }
    client_io(s, c);
    client_freeze(s, c);
    if (c == &s->admin && c->busy) {
        rsim_look(s);
        if (s->old > 0 && s->shards == s->wanted && s->turned < RSIM_SHARDS &&
            dies(s, s->turned == 0 ? RSIM_LAYOUT_WRITTEN : RSIM_SOME_TURNED)) {
            rsim_client_kill(s, c);
            rsim_client_start(s, c, -1);
        }
    }
}

/* test_cluster_random.c - a cluster of four servers without a network, in random sequences: slots move, servers take
 * over from each other, fall silent and lose their connections. Each request must get one answer, its own. ROUNDS=1000
 * for more sequences than 100, SEED=7 for one. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVERS 4
#define KEYS 12
#define REQUESTS 300
#define STEPS 6000
#define QUEUE 4096

/* A command that a server has received and not executed. key -1: CLUSTER SLOTS, -2: ASKING. */
typedef struct command {
    int key, number;
} command;

typedef struct server {
    int up;        /* it executes what it has received */
    int connected; /* the client has a connection */
    int asking;    /* its last command was ASKING */
    command queue[QUEUE];
    size_t first, last;
} server;

static struct {
    srt_cluster cl;
    int64_t now;
    uint64_t random;
    server servers[SERVERS];
    int owner[KEYS];
    int target[KEYS]; /* the slot moves there; -1: it does not move */
    unsigned slots[KEYS];
    int stale_owner[KEYS]; /* that a server may still name */
    int begun, ended;
    int executed[REQUESTS], unheard[REQUESTS], answers[REQUESTS], key_of[REQUESTS];
    srt_redis *known[KEYS];                           /* whom the client takes for the owner */
    int disturbed[KEYS], waiting[KEYS], newest[KEYS]; /* of a key: whether requests may have overtaken each other */
} sim;

static unsigned roll(unsigned below)
{
    sim.random ^= sim.random << 13;
    sim.random ^= sim.random >> 7;
    sim.random ^= sim.random << 17;
    return (unsigned)(sim.random >> 20) % below;
}

static void key_name(int key, char *out, size_t cap)
{
    snprintf(out, cap, "{k%d}", key);
}

static srt_redis *peer_of(int at)
{
    size_t i;
    for (i = 0; i < sim.cl.peer_count; i++)
        if (sim.cl.peers[i]->port == at + 1)
            return sim.cl.peers[i];
    return NULL;
}

/* From now on the requests for this key that wait may overtake each other. */
static void disturb(int key)
{
    sim.disturbed[key] |= sim.waiting[key] > 0;
}

/* ---- Servers --------------------------------------------------------------------------------- */

/* Takes what the client sends, whole commands at a time. */
static void receive(int at)
{
    static char text[65536];
    server *s = &sim.servers[at];
    srt_redis *p = peer_of(at);
    const char *data;
    char *here, *next;
    size_t len;
    srt_session_output(&p->commands, &data, &len);
    if (len == 0)
        return;
    assert_true(len < sizeof text);
    memcpy(text, data, len);
    text[len] = '\0';
    for (here = text; here; here = next) {
        command c = {-1, 0};
        next = strstr(here, "\r\n*");
        if (next) {
            *next = '\0';
            next += 2;
        }
        if (strstr(here, "ASKING"))
            c.key = -2;
        else if (strstr(here, "GET"))
            assert_int_equal(sscanf(strstr(here, "{k"), "{k%d}\r\n$%*d\r\n%d", &c.key, &c.number), 2);
        else
            assert_non_null(strstr(here, "SLOTS"));
        assert_true(s->last - s->first < QUEUE);
        s->queue[s->last++ % QUEUE] = c;
    }
    srt_session_sent(&p->commands, len);
}

/* The ranges, each with one of the keys' slots in it; now and then as they were before the last change. */
static size_t slots_answer(char *out, size_t cap)
{
    int order[KEYS], i, j;
    size_t len;
    const int *owner = roll(4) ? sim.owner : sim.stale_owner;
    for (i = 0; i < KEYS; i++) {
        for (j = i; j > 0 && sim.slots[order[j - 1]] > sim.slots[i]; j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
    len = (size_t)snprintf(out, cap, "*%d\r\n", KEYS);
    for (i = 0; i < KEYS; i++)
        len += (size_t)snprintf(out + len, cap - len, "*3\r\n:%u\r\n:%u\r\n*2\r\n$1\r\n%c\r\n:%d\r\n",
                                i ? sim.slots[order[i - 1]] + 1 : 0, i == KEYS - 1 ? 16383 : sim.slots[order[i]],
                                'A' + owner[order[i]], owner[order[i]] + 1);
    return len;
}

static void execute(const command *c)
{
    sim.executed[c->number]++;
    if (!sim.disturbed[c->key] && c->number < sim.newest[c->key])
        fail_msg("request %d for key %d was executed behind request %d", c->number, c->key, sim.newest[c->key]);
    sim.newest[c->key] = c->number;
}

static size_t answer_get(int at, const command *c, int asking, char *out, size_t cap)
{
    int owner = sim.owner[c->key], target = sim.target[c->key];
    if (owner == at && target < 0) {
        execute(c);
        return (size_t)snprintf(out, cap, "+%d:%d\r\n", c->key, c->number);
    }
    if (owner == at || (target == at && asking)) {
        disturb(c->key);
        if (owner == at && roll(3))
            return (size_t)snprintf(out, cap, "-ASK %u %c:%d\r\n", sim.slots[c->key], 'A' + target, target + 1);
        return (size_t)snprintf(out, cap, roll(2) ? "-TRYAGAIN later\r\n" : "-CLUSTERDOWN down\r\n");
    }
    return (size_t)snprintf(out, cap, "-MOVED %u %c:%d\r\n", sim.slots[c->key], 'A' + owner, owner + 1);
}

static void take_answers(srt_redis *p)
{
    srt_request *r;
    srt_reply reply;
    seriatim_error error = {0};
    int status;
    while ((status = srt_redis_next(&sim.cl, p, &r, &reply, &error)) == SERIATIM_OK) {
        int key, number;
        char text[64] = "";
        memcpy(text, reply.tokens[0].data, reply.tokens[0].len);
        assert_int_equal(sscanf(text, "%d:%d", &key, &number), 2);
        assert_int_equal(number, r->kind);
        assert_int_equal(++sim.answers[number], 1);
        sim.ended++;
        sim.waiting[key]--;
        if (sim.waiting[key] == 0)
            sim.disturbed[key] = 0;
        srt_cluster_done(&sim.cl, r);
    }
    if (status != SERIATIM_AGAIN)
        fail_msg("%d: %s", status, error.message);
}

static void serve(int at)
{
    server *s = &sim.servers[at];
    char out[2048];
    size_t len;
    command c;
    int asking = s->asking;
    if (!s->up || !s->connected || s->first == s->last)
        return;
    c = s->queue[s->first++ % QUEUE];
    s->asking = c.key == -2;
    if (c.key == -2)
        len = (size_t)snprintf(out, sizeof out, "+OK\r\n");
    else if (c.key == -1)
        len = slots_answer(out, sizeof out);
    else
        len = answer_get(at, &c, asking, out, sizeof out);
    assert_int_equal(srt_redis_input(&sim.cl, peer_of(at), out, len), SERIATIM_OK);
    take_answers(peer_of(at));
}

/* ---- Connections ----------------------------------------------------------------------------- */

/* What the server has received is executed or not, and nobody hears of it. */
static void disconnect(int at)
{
    server *s = &sim.servers[at];
    int key;
    for (; s->first < s->last; s->first++) {
        const command *c = &s->queue[s->first % QUEUE];
        if (s->up && c->key >= 0 && sim.owner[c->key] == at && sim.target[c->key] < 0 && roll(2)) {
            execute(c);
            sim.unheard[c->number]++;
        }
    }
    for (key = 0; key < KEYS; key++)
        disturb(key);
    s->connected = s->asking = 0;
    srt_redis_disconnected(&sim.cl, peer_of(at));
}

static void keep_connections(void)
{
    int at;
    for (at = 0; at < SERVERS; at++) {
        srt_redis *p = peer_of(at);
        server *s = &sim.servers[at];
        if (!p)
            continue;
        if (s->connected && !srt_redis_wanted(&sim.cl, p))
            disconnect(at);
        else if (!s->connected && srt_redis_wanted(&sim.cl, p) && s->up && roll(2)) {
            assert_int_equal(srt_redis_connected(&sim.cl, p, NULL, NULL, 0, NULL), SERIATIM_OK);
            s->connected = 1;
            s->first = s->last = 0;
        } else if (!s->connected && srt_redis_wanted(&sim.cl, p) && !s->up && roll(2))
            srt_redis_disconnected(&sim.cl, p); /* it could not be made */
        if (s->connected)
            receive(at);
    }
}

static void tick(int64_t ms)
{
    sim.now += ms;
    assert_int_equal(srt_cluster_tick(&sim.cl, sim.now), SERIATIM_OK);
    keep_connections();
}

/* ---- What happens ---------------------------------------------------------------------------- */

static void ask(void)
{
    int key = (int)roll(KEYS);
    char name[16];
    srt_request *r;
    if (sim.begun == REQUESTS || sim.begun - sim.ended > 20)
        return;
    r = srt_session_begin(srt_cluster_pool(&sim.cl), srt_script_none, NULL, 0);
    assert_non_null(r);
    r->kind = sim.begun;
    sim.key_of[sim.begun] = key;
    key_name(key, name, sizeof name);
    srt_request_text(r, "GET");
    srt_request_text(r, name);
    srt_request_int(r, sim.begun);
    sim.begun++;
    sim.waiting[key]++;
    assert_int_equal(srt_cluster_send(&sim.cl, r), SERIATIM_OK);
}

static void give(int key, int to)
{
    sim.stale_owner[key] = sim.owner[key];
    sim.owner[key] = to;
    sim.target[key] = -1;
}

/* A slot begins to move, or arrives. */
static void move(void)
{
    int key = (int)roll(KEYS), to = (int)roll(SERVERS);
    if (sim.target[key] >= 0)
        give(key, sim.target[key]);
    else if (to != sim.owner[key])
        sim.target[key] = to;
}

/* A server dies or freezes; another one has its slots some time later. */
static void lose_server(void)
{
    int at = (int)roll(SERVERS);
    server *s = &sim.servers[at];
    if (s->connected && roll(2))
        disconnect(at);
    s->up = 0;
}

static void take_over(void)
{
    int at = (int)roll(SERVERS), to = (int)roll(SERVERS), key;
    if (sim.servers[at].up || !sim.servers[to].up)
        return;
    for (key = 0; key < KEYS; key++)
        if (sim.owner[key] == at || sim.target[key] == at)
            give(key, to);
    if (roll(2)) {
        if (sim.servers[at].connected)
            disconnect(at);
        sim.servers[at].up = 1;
    }
}

/* Requests that wait at the former owner may be overtaken. */
static void note_map(void)
{
    int key;
    for (key = 0; key < KEYS; key++) {
        char name[16];
        srt_redis *p;
        key_name(key, name, sizeof name);
        p = srt_cluster_peer_of(&sim.cl, name, strlen(name));
        if (p != sim.known[key])
            disturb(key);
        sim.known[key] = p;
    }
}

static void happen(void)
{
    unsigned what = roll(1000);
    if (what < 200)
        ask();
    else if (what < 800)
        serve((int)roll(SERVERS));
    else if (what < 830)
        move();
    else if (what < 833)
        lose_server();
    else if (what < 845)
        take_over();
    else if (what < 850 && sim.servers[what % SERVERS].connected)
        disconnect((int)(what % SERVERS));
    else
        tick(roll(20));
    note_map();
}

/* Nothing goes wrong any more. Who is away stays away, and others have its slots. */
static void heal(void)
{
    int at, key, i, living = 0;
    while (living < SERVERS - 1 && !sim.servers[living].up)
        living++;
    sim.servers[living].up = 1;
    for (key = 0; key < KEYS; key++) {
        at = sim.target[key] >= 0 ? sim.target[key] : sim.owner[key];
        give(key, sim.servers[at].up ? at : living);
        sim.stale_owner[key] = sim.owner[key];
    }
    for (i = 0; i < 60000 && sim.ended < REQUESTS; i++) {
        ask();
        for (at = 0; at < SERVERS; at++)
            serve(at);
        tick(5);
        note_map();
    }
}

/* The cluster's own questions for the map may wait at a server that is away. */
static void count_waiting(void *user, srt_request *r)
{
    *(int *)user += r->route != SRT_ROUTE_MAP;
}

static void run(uint64_t seed)
{
    int key, i, left = 0;
    memset(&sim, 0, sizeof sim);
    sim.random = seed * 0x9E3779B97F4A7C15ULL + 1;
    sim.now = 1000000;
    for (i = 0; i < SERVERS; i++)
        sim.servers[i].up = 1;
    for (key = 0; key < KEYS; key++) {
        char name[16];
        key_name(key, name, sizeof name);
        sim.slots[key] = srt_key_slot(name, strlen(name));
        sim.owner[key] = sim.stale_owner[key] = (int)roll(SERVERS);
        sim.target[key] = -1;
        sim.newest[key] = -1;
    }
    assert_int_equal(srt_cluster_init(&sim.cl, seriatim_default_allocator()), SERIATIM_OK);
    for (i = 0; i < SERVERS; i++) {
        const char host[] = {(char)('A' + i), '\0'};
        assert_int_equal(srt_cluster_seed(&sim.cl, host, i + 1), SERIATIM_OK);
    }
    for (i = 0; i < STEPS; i++)
        happen();
    heal();
    assert_int_equal(sim.ended, REQUESTS);
    srt_cluster_each(&sim.cl, count_waiting, &left);
    assert_int_equal(left, 0);
    for (i = 0; i < REQUESTS; i++)
        if (sim.executed[i] != 1 + sim.unheard[i])
            fail_msg("request %d was executed %d times, %d of them unheard", i, sim.executed[i], sim.unheard[i]);
    srt_cluster_free(&sim.cl);
}

static uint64_t running; /* the seed of the sequence under way; 0: all were well */

static void test_each_request_is_answered_once_whatever_becomes_of_slots_and_servers(void **state)
{
    const char *rounds = getenv("ROUNDS"), *only = getenv("SEED");
    uint64_t last = strtoull(only ? only : rounds ? rounds : "100", NULL, 10);
    (void)state;
    for (running = only ? last : 1; running <= last; running++)
        run(running);
    running = 0;
}

static int say_seed(void **state)
{
    (void)state;
    if (running)
        print_error("SEED=%llu plays this again\n", (unsigned long long)running);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_each_request_is_answered_once_whatever_becomes_of_slots_and_servers, say_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

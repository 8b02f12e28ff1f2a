/* redis_cluster.c - see redis_cluster.h. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "redis_cluster.h"
#include "port.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 16384
#define MOST_WORDS 6
/*
 * How long a node must be silent until others call it dead. With the patient one a machine that stalls for some seconds
 * makes no failover that no test has asked for; the short one holds from a failover until the cluster is whole again.
 */
#define NODE_TIMEOUT_MS "2000"
#define PATIENT_MS "60000"
#define AT_ONCE 100 /* keys of one GETKEYSINSLOT */

redis_cluster cluster;

static const char *const *more_words;
static int turns; /* of a condition that await is asking for */

/* ---- Commands ------------------------------------------------------------------------------- */

static redisReply *call_with(redis_cluster *c, size_t node, const char *format, va_list args)
{
    redisContext *r = redisConnectUnix(c->nodes[node].redis.socket);
    redisReply *reply = r && !r->err ? redisvCommand(r, format, args) : NULL;
    if (r)
        redisFree(r);
    if (!reply)
        fail_msg("node %zu of the cluster does not answer", node);
    return reply;
}

redisReply *cluster_call(redis_cluster *c, size_t node, const char *format, ...)
{
    redisReply *reply;
    va_list args;
    va_start(args, format);
    reply = call_with(c, node, format, args);
    va_end(args);
    return reply;
}

void cluster_do(redis_cluster *c, size_t node, const char *format, ...)
{
    redisReply *reply;
    va_list args;
    va_start(args, format);
    reply = call_with(c, node, format, args);
    va_end(args);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply->str);
    freeReplyObject(reply);
}

static size_t answering(redis_cluster *c)
{
    size_t i;
    for (i = 0; i < c->count; i++)
        if (c->nodes[i].answers)
            return i;
    fail_msg("no node of the cluster answers");
    return 0;
}

/* Does the text answer of this command hold `text`? */
static int says(redis_cluster *c, size_t node, const char *command, const char *text)
{
    redisReply *reply = cluster_call(c, node, command);
    int found = reply->type == REDIS_REPLY_STRING && strstr(reply->str, text) != NULL;
    freeReplyObject(reply);
    return found;
}

/* What one node says of another, or of itself. */
typedef struct said {
    char flags[64], master[48], epoch[24], slots[256];
} said;

/* 0: the asked node does not know the one with this id. */
static int ask_about(redis_cluster *c, size_t asked, const char *id, said *s)
{
    redisReply *reply = cluster_call(c, asked, "CLUSTER NODES");
    const char *line = strstr(reply->str, id);
    int found;
    while (line && line != reply->str && line[-1] != '\n')
        line = strstr(line + 1, id);
    s->slots[0] = 0;
    found = line &&
            sscanf(line, "%*s %*s %63s %47s %*s %*s %23s %*s%255[^\n]", s->flags, s->master, s->epoch, s->slots) >= 3;
    freeReplyObject(reply);
    return found;
}

/* What each node says of all, on stderr. */
static void show_views(redis_cluster *c)
{
    size_t i;
    for (i = 0; i < c->count; i++) {
        redisReply *reply = c->nodes[i].answers ? cluster_call(c, i, "CLUSTER NODES") : NULL;
        fprintf(stderr, "node %zu (%d):\n%s", i, c->nodes[i].port, reply ? reply->str : "does not answer\n");
        if (reply)
            freeReplyObject(reply);
    }
}

static void await(redis_cluster *c, int (*condition)(redis_cluster *c, size_t node), size_t node, const char *what)
{
    for (turns = 0; turns < 6000; turns++) {
        if (condition(c, node))
            return;
        poll(NULL, 0, 10);
    }
    show_views(c);
    fail_msg("node %zu: %s after 60 s", node, what);
}

static void set_on_all(redis_cluster *c, const char *option, const char *value)
{
    size_t i;
    for (i = 0; i < c->count; i++)
        if (c->nodes[i].answers)
            cluster_do(c, i, "CONFIG SET %s %s", option, value);
}

static void set_node_timeout(redis_cluster *c, const char *ms)
{
    set_on_all(c, "cluster-node-timeout", ms);
}

/* "yes": no replica takes over unless it is told to. While nodes join, a master that stalls is not to be replaced. */
static void forbid_failovers(redis_cluster *c, const char *word)
{
    set_on_all(c, "cluster-replica-no-failover", word);
}

/* ---- Start and end -------------------------------------------------------------------------- */

static void run(cluster_node *n)
{
    char port[16], bus_port[16];
    const char *words[26] = {"--port",
                             port,
                             "--bind",
                             "127.0.0.1",
                             "--cluster-enabled",
                             "yes",
                             "--cluster-port",
                             bus_port,
                             "--cluster-node-timeout",
                             NODE_TIMEOUT_MS,
                             "--appendonly",
                             "yes",
                             "--appendfsync",
                             "no",
                             "--repl-diskless-sync-delay",
                             "0"};
    size_t i;
    snprintf(port, sizeof port, "%d", n->port);
    snprintf(bus_port, sizeof bus_port, "%d", n->bus_port);
    for (i = 0; more_words && more_words[i]; i++) {
        assert_true(i < MOST_WORDS);
        words[16 + i] = more_words[i];
    }
    assert_int_equal(redis_run(&n->redis, words), 0);
    n->answers = 1;
}

static void start_node(redis_cluster *c)
{
    cluster_node *n = &c->nodes[c->count];
    assert_true(c->count < CLUSTER_MOST_NODES);
    n->port = free_port();
    n->bus_port = free_port();
    assert_int_equal(redis_make_folder(&n->redis), 0);
    c->count++;
    run(n);
}

static void wait_for_node(redis_cluster *c, size_t node)
{
    redisReply *reply;
    if (redis_wait(&c->nodes[node].redis) != 0)
        fail_msg("node %zu of the cluster did not start", node);
    reply = cluster_call(c, node, "CLUSTER MYID");
    snprintf(c->nodes[node].id, sizeof c->nodes[node].id, "%s", reply->str);
    freeReplyObject(reply);
}

static int knows_all(redis_cluster *c, size_t node)
{
    said s;
    size_t i;
    for (i = 0; i < c->count; i++)
        if (c->nodes[i].answers && !ask_about(c, node, c->nodes[i].id, &s))
            return 0;
    return 1;
}

static int replica_is_known(redis_cluster *c, size_t node)
{
    said s;
    size_t i;
    for (i = 0; i < c->count; i++)
        if (!ask_about(c, i, c->nodes[node].id, &s) || !strstr(s.flags, "slave"))
            return 0;
    return 1;
}

static void meet(redis_cluster *c, size_t node, size_t from)
{
    for (; from < c->count; from++)
        if (c->nodes[from].answers && from != node)
            cluster_do(c, node, "CLUSTER MEET 127.0.0.1 %d %d", c->nodes[from].port, c->nodes[from].bus_port);
}

/* A node gives a handshake up after the node timeout: then they meet once more. */
static int has_met_all(redis_cluster *c, size_t node)
{
    if (turns % 500 == 499)
        meet(c, node, 0);
    return knows_all(c, node);
}

void cluster_start(redis_cluster *c, const char *const *words)
{
    size_t i, len;
    memset(c, 0, sizeof *c);
    more_words = words;
    for (i = 0; i < CLUSTER_STARTED; i++)
        start_node(c);
    len = (size_t)snprintf(c->url, sizeof c->url, "redis+cluster://");
    for (i = 0; i < CLUSTER_STARTED; i++) {
        wait_for_node(c, i);
        len += (size_t)snprintf(c->url + len, sizeof c->url - len, "%s127.0.0.1:%d", i ? "," : "", c->nodes[i].port);
        cluster_do(c, i, "CLUSTER SET-CONFIG-EPOCH %d", (int)i + 1);
        if (i < CLUSTER_MASTERS)
            cluster_do(c, i, "CLUSTER ADDSLOTSRANGE %d %d", (int)(SLOTS * i / CLUSTER_MASTERS),
                       (int)(SLOTS * (i + 1) / CLUSTER_MASTERS) - 1);
    }
    forbid_failovers(c, "yes");
    for (i = 0; i < CLUSTER_STARTED; i++)
        meet(c, i, i + 1);
    for (i = 0; i < CLUSTER_STARTED; i++)
        await(c, has_met_all, i, "it does not know all others");
    for (i = CLUSTER_MASTERS; i < CLUSTER_STARTED; i++)
        cluster_do(c, i, "CLUSTER REPLICATE %s", c->nodes[i - CLUSTER_MASTERS].id);
    for (i = CLUSTER_MASTERS; i < CLUSTER_STARTED; i++)
        await(c, replica_is_known, i, "not all know that it is a replica");
    cluster_await_whole(c);
}

void cluster_stop(redis_cluster *c)
{
    size_t i;
    for (i = 0; i < c->count; i++)
        assert_int_equal(redis_remove(&c->nodes[i].redis), 0);
    c->count = 0;
}

int redis_cluster_set_up(void **state)
{
    (void)state;
    cluster_start(&cluster, NULL);
    return 0;
}

int redis_cluster_tear_down(void **state)
{
    (void)state;
    cluster_stop(&cluster);
    return 0;
}

/* ---- Slots ---------------------------------------------------------------------------------- */

int cluster_slot(redis_cluster *c, const char *key)
{
    redisReply *reply = cluster_call(c, answering(c), "CLUSTER KEYSLOT %s", key);
    int slot = (int)reply->integer;
    freeReplyObject(reply);
    return slot;
}

/* The node that another calls the slot's master; c->count: none. */
static size_t master_by(redis_cluster *c, size_t asked, int slot)
{
    redisReply *reply = cluster_call(c, asked, "CLUSTER SLOTS");
    size_t i, found = c->count;
    for (i = 0; i < reply->elements; i++) {
        redisReply **range = reply->element[i]->element;
        if (slot < range[0]->integer || slot > range[1]->integer)
            continue;
        for (found = 0; found < c->count && strcmp(c->nodes[found].id, range[2]->element[2]->str) != 0;)
            found++;
    }
    freeReplyObject(reply);
    return found;
}

size_t cluster_master_of(redis_cluster *c, int slot)
{
    size_t found = master_by(c, answering(c), slot);
    if (found == c->count)
        fail_msg("nobody serves slot %d", slot);
    return found;
}

/* Returns how many keys it moved. */
static int migrate_some(redis_cluster *c, int slot, size_t from, size_t to, int count)
{
    redisReply *keys = cluster_call(c, from, "CLUSTER GETKEYSINSLOT %d %d", slot, count);
    size_t i;
    for (i = 0; i < keys->elements; i++)
        cluster_do(c, from, "MIGRATE 127.0.0.1 %d %b 0 10000", c->nodes[to].port, keys->element[i]->str,
                   keys->element[i]->len);
    i = keys->elements;
    freeReplyObject(keys);
    return (int)i;
}

size_t cluster_half_move(redis_cluster *c, int slot, size_t to, int keys)
{
    size_t from = cluster_master_of(c, slot);
    assert_int_not_equal(from, to);
    cluster_do(c, to, "CLUSTER SETSLOT %d IMPORTING %s", slot, c->nodes[from].id);
    cluster_do(c, from, "CLUSTER SETSLOT %d MIGRATING %s", slot, c->nodes[to].id);
    if (keys)
        migrate_some(c, slot, from, to, keys);
    return from;
}

/* Does this node know the present epoch of each master? */
static int knows_epochs(redis_cluster *c, size_t node)
{
    said own, known;
    size_t i;
    for (i = 0; i < c->count; i++)
        if (c->nodes[i].answers && ask_about(c, i, c->nodes[i].id, &own) && strstr(own.flags, "master") &&
            (!ask_about(c, node, c->nodes[i].id, &known) || strcmp(own.epoch, known.epoch) != 0))
            return 0;
    return 1;
}

static int moved_slot;

/* Do all that answer say that this node serves the slot? Replicas hear of it from their masters. */
static int serves_moved_slot(redis_cluster *c, size_t node)
{
    size_t i;
    for (i = 0; i < c->count; i++)
        if (c->nodes[i].answers && master_by(c, i, moved_slot) != node)
            return 0;
    return 1;
}

/* A node that takes a slot under an epoch that is not the highest may lose it to whoever gives it away: then nobody has
 * it. */
void cluster_end_move(redis_cluster *c, int slot, size_t from, size_t to)
{
    said s;
    size_t i;
    while (migrate_some(c, slot, from, to, AT_ONCE) > 0)
        ;
    await(c, knows_epochs, to, "does not know the epochs of all masters");
    cluster_do(c, to, "CLUSTER SETSLOT %d NODE %s", slot, c->nodes[to].id);
    cluster_do(c, from, "CLUSTER SETSLOT %d NODE %s", slot, c->nodes[to].id);
    for (i = 0; i < c->count; i++)
        if (i != from && i != to && c->nodes[i].answers && ask_about(c, i, c->nodes[i].id, &s) &&
            strstr(s.flags, "master"))
            cluster_do(c, i, "CLUSTER SETSLOT %d NODE %s", slot, c->nodes[to].id);
    moved_slot = slot;
    await(c, serves_moved_slot, to, "not all know that it serves the slot");
}

void cluster_move_slot(redis_cluster *c, int slot, size_t to)
{
    cluster_end_move(c, slot, cluster_half_move(c, slot, to, 0), to);
}

/* ---- Failovers ------------------------------------------------------------------------------ */

/* Do all that answer, so also itself, call it a master that lives, with the same slots? */
static int is_master_to_all(redis_cluster *c, size_t node)
{
    said own, other;
    size_t i;
    if (!ask_about(c, node, c->nodes[node].id, &own) || !own.slots[0])
        return 0;
    for (i = 0; i < c->count; i++)
        if (c->nodes[i].answers && (!ask_about(c, i, c->nodes[node].id, &other) || !strstr(other.flags, "master") ||
                                    strstr(other.flags, ",fail") || strcmp(other.slots, own.slots) != 0))
            return 0;
    return says(c, node, "CLUSTER INFO", "cluster_state:ok");
}

/* c->count: it has none that answers. */
static size_t replica_of(redis_cluster *c, size_t master)
{
    said s;
    size_t i;
    for (i = 0; i < c->count; i++)
        if (c->nodes[i].answers && ask_about(c, i, c->nodes[i].id, &s) && !strcmp(s.master, c->nodes[master].id))
            return i;
    return c->count;
}

size_t cluster_await_successor(redis_cluster *c, size_t node)
{
    await(c, is_master_to_all, c->nodes[node].successor, "it was not promoted");
    return c->nodes[node].successor;
}

/* On a busy machine a replica may give up after 5 s, or refuse while it has no connection to its master: then it is
 * told again. */
static int takes_over(redis_cluster *c, size_t node)
{
    said own;
    if (turns % 600 == 0 && ask_about(c, node, c->nodes[node].id, &own) && strstr(own.flags, "slave"))
        freeReplyObject(cluster_call(c, node, "CLUSTER FAILOVER"));
    return is_master_to_all(c, node);
}

size_t cluster_failover(redis_cluster *c, size_t master)
{
    size_t replica = replica_of(c, master);
    assert_true(replica < c->count);
    set_node_timeout(c, NODE_TIMEOUT_MS);
    await(c, takes_over, replica, "it was not promoted");
    return replica;
}

/* A replica that follows its master, or a master to all; or one without slots, which nobody calls dead. */
static int is_whole(redis_cluster *c, size_t node)
{
    said own, other;
    size_t i;
    if (!says(c, node, "CLUSTER INFO", "cluster_state:ok") || !ask_about(c, node, c->nodes[node].id, &own))
        return 0;
    if (own.slots[0])
        return is_master_to_all(c, node);
    for (i = 0; i < c->count; i++)
        if (c->nodes[i].answers &&
            (!ask_about(c, i, c->nodes[node].id, &other) || other.slots[0] || strstr(other.flags, ",fail")))
            return 0;
    return strstr(own.flags, "master") || says(c, node, "INFO replication", "master_link_status:up");
}

void cluster_await_whole(redis_cluster *c)
{
    size_t i;
    for (i = 0; i < c->count; i++)
        if (c->nodes[i].answers)
            await(c, is_whole, i, "the cluster is not whole");
    set_node_timeout(c, PATIENT_MS);
    forbid_failovers(c, "no");
}

void cluster_kill(redis_cluster *c, size_t node)
{
    c->nodes[node].successor = replica_of(c, node);
    set_node_timeout(c, NODE_TIMEOUT_MS);
    redis_end(&c->nodes[node].redis, SIGKILL);
    c->nodes[node].answers = 0;
}

void cluster_restart(redis_cluster *c, size_t node)
{
    run(&c->nodes[node]);
    wait_for_node(c, node);
}

void cluster_freeze(redis_cluster *c, size_t node)
{
    c->nodes[node].successor = replica_of(c, node);
    set_node_timeout(c, NODE_TIMEOUT_MS);
    assert_int_equal(kill(c->nodes[node].redis.pid, SIGSTOP), 0);
    c->nodes[node].answers = 0;
}

void cluster_thaw(redis_cluster *c, size_t node)
{
    assert_int_equal(kill(c->nodes[node].redis.pid, SIGCONT), 0);
    c->nodes[node].answers = 1;
}

void cluster_leave(redis_cluster *c, size_t master)
{
    size_t i;
    cluster_failover(c, master);
    cluster_await_whole(c);
    c->nodes[master].answers = 0;
    for (i = 0; i < c->count; i++)
        if (c->nodes[i].answers)
            cluster_do(c, i, "CLUSTER FORGET %s", c->nodes[master].id);
    cluster_do(c, master, "CLUSTER RESET");
}

long long cluster_listener(redis_cluster *c, size_t node)
{
    redisReply *list = cluster_call(c, node, "CLIENT LIST TYPE pubsub");
    const char *line = list->str; /* Redis turns the list around */
    long long oldest = 0, number;
    do {
        if (sscanf(line, "id=%lld", &number) == 1 && (!oldest || number < oldest))
            oldest = number;
        line = strchr(line, '\n');
    } while (line && *++line);
    freeReplyObject(list);
    return oldest;
}

size_t cluster_add_master(redis_cluster *c)
{
    size_t i, node = c->count;
    start_node(c);
    wait_for_node(c, node);
    forbid_failovers(c, "yes");
    set_node_timeout(c, NODE_TIMEOUT_MS); /* nodes that are patient tell each other less often who has what */
    meet(c, node, 0);
    for (i = 0; i < c->count; i++)
        if (c->nodes[i].answers)
            await(c, has_met_all, i, "it does not know all others");
    cluster_await_whole(c);
    return node;
}

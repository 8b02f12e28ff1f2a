/* redis_cluster.h - a Redis Cluster of the C tests: three masters and their replicas on ports of loopback, each in a
 * folder of its own, and what operators and accidents do to it. What goes wrong fails the test. */
#ifndef SRT_TEST_REDIS_CLUSTER_H
#define SRT_TEST_REDIS_CLUSTER_H

#include <hiredis/hiredis.h>

#include "redis_process.h"

#define CLUSTER_MASTERS 3
#define CLUSTER_STARTED 6    /* 0 to 2 begin as masters; 3, 4, 5 as their replicas, in the same order */
#define CLUSTER_MOST_NODES 8 /* with those of cluster_add_master */

typedef struct cluster_node {
    redis_process redis;
    int port, bus_port;
    int answers;      /* it runs, is not frozen, and has not left the cluster */
    size_t successor; /* of one that was killed or frozen: its replica at that time */
    char id[48];
} cluster_node;

typedef struct redis_cluster {
    cluster_node nodes[CLUSTER_MOST_NODES];
    size_t count;
    char url[256]; /* redis+cluster:// with the ports of the first CLUSTER_STARTED */
} redis_cluster;

/* words: more of each server's command line, up to a NULL, at most 6; NULL: none. */
void cluster_start(redis_cluster *c, const char *const *words);
/* Kills all of them and removes their folders; also when cluster_start failed half-way and c was zeroed before. */
void cluster_stop(redis_cluster *c);

/* The cluster of a test program, and what cmocka calls before and after its tests, of a group or of one. */
extern redis_cluster cluster;
int redis_cluster_set_up(void **state);
int redis_cluster_tear_down(void **state);

/* A command at this node by its socket; the caller frees the reply, which may be an error. */
redisReply *cluster_call(redis_cluster *c, size_t node, const char *format, ...);
/* The same without its reply, which is no error. */
void cluster_do(redis_cluster *c, size_t node, const char *format, ...);

int cluster_slot(redis_cluster *c, const char *key);
/* Which node serves the slot. */
size_t cluster_master_of(redis_cluster *c, int slot);

/* Returns when all nodes that answer know it. */
void cluster_move_slot(redis_cluster *c, int slot, size_t to);
/* Begins to move a slot and moves `keys` of its keys, until cluster_end_move. Returns the node that still serves it. */
size_t cluster_half_move(redis_cluster *c, int slot, size_t to, int keys);
void cluster_end_move(redis_cluster *c, int slot, size_t from, size_t to);

/* A replica takes over by command, with all that its master has. Returns the new master when all nodes know it. */
size_t cluster_failover(redis_cluster *c, size_t master);
/* After this node was killed or frozen: the new master of its slots, when all nodes know it (some 3 s). */
size_t cluster_await_successor(redis_cluster *c, size_t node);
/* Until all nodes that answer call the cluster whole and each replica follows its master. */
void cluster_await_whole(redis_cluster *c);
void cluster_kill(redis_cluster *c, size_t node); /* SIGKILL */
void cluster_restart(redis_cluster *c, size_t node);
void cluster_freeze(redis_cluster *c, size_t node); /* SIGSTOP */
void cluster_thaw(redis_cluster *c, size_t node);

/* It gives its slots to its replica, leaves the cluster and lives on, as after redis-cli --cluster del-node. */
void cluster_leave(redis_cluster *c, size_t master);
/* The id, as CLIENT LIST gives it, of the oldest connection to this node that is subscribed; 0: no connection is. */
long long cluster_listener(redis_cluster *c, size_t node);

/* A master without slots, known to all. Returns its place; cluster_move_slot gives it some. */
size_t cluster_add_master(redis_cluster *c);

#endif

/*
 * cluster_sim.h - clients, and nodes with some threads, on a real Redis Cluster, in a random schedule: their bytes come
 * in pieces and late, and their connections end. A checker sees that each payload runs once and in order.
 */
#ifndef SRT_TEST_CLUSTER_SIM_H
#define SRT_TEST_CLUSTER_SIM_H

#include "redis_cluster.h"

#define CSIM_SHARDS 8 /* of the queue "Q" */

typedef struct csim_totals {
    unsigned pushes, runs, cuts, late; /* late: connections whose bytes came after their end */
} csim_totals;

/* Uniform below `most`. */
uint64_t csim_below(uint64_t *random, uint64_t most);
/*
 * Starts a thread that steps all actors, until csim_end. other_tokens: a rule is broken, the token of a push is another
 * one on each connection.
 */
void csim_start(uint64_t seed, int other_tokens);
/* The first violation, or "". It ends the steps. */
const char *csim_violation(void);
/*
 * Nothing goes wrong any more, and nothing is pushed; returns when all has run and the nodes have stopped, or after a
 * violation, which may also be that they take longer than `seconds`.
 */
csim_totals csim_end(double seconds);

#endif

/* store_node.h - one node against a model of Redis (store.h), on a clock that stands still while bytes move. */
#ifndef SRT_TEST_STORE_NODE_H
#define SRT_TEST_STORE_NODE_H

#include "node_fixture.h"
#include "store.h"

#define HOLD_MS 35 /* what has ended waits at most this long for its settle */

typedef struct node_and_store {
    store *store;
    srt_node *node;
    store_conn *conns[SRT_CHANNELS];
    int writes; /* of commands to Redis */
} node_and_store;

int64_t now_of(const node_and_store *f);
/*
 * One answer or message after the other; the commands of the node as it writes them. Returns whether anything moved.
 */
int move_bytes(node_and_store *f, srt_channel channel);
/* Until nothing moves any more. The clock stands. */
void pump(node_and_store *f);
void pass(node_and_store *f, int64_t ms);
/* A node that owns all shards of the first queue, which has these settings, and sleeps. It has 20 threads. */
node_and_store open_node(seriatim_queue_settings q);
node_and_store open_node_of_threads(seriatim_queue_settings q, unsigned threads);
/* Loses both connections and opens them anew: the next pump compares the runs. */
void reconnect_node(node_and_store *f);
void close_node(node_and_store *f);
/* The n-th id of a shard of the first queue. */
store_id *id_of(const node_and_store *f, unsigned shard, unsigned n);
seriatim_delivery *take(const node_and_store *f);
void end(const node_and_store *f, seriatim_delivery *d);
/* A push is taken at once. */
seriatim_delivery *push_and_take(node_and_store *f, store_id *id);
void push_and_run(node_and_store *f, store_id *id);

#endif

/* live_node.h - a node on a real redis-server, step by step: its connections end and it dies when a test wants it. */
#ifndef SRT_TEST_LIVE_NODE_H
#define SRT_TEST_LIVE_NODE_H

#include "node/node_state.h"

#define LIVE_JOBS 4096
#define LIVE_THREADS 4
#define LIVE_MOST_MS 120000 /* that anything may take on a busy machine */

/* What threads were given, by all nodes of a test. */
typedef struct live_log {
    struct {
        char id[32], payload[64];
        int64_t fence;
    } runs[LIVE_JOBS];
    size_t count;
    size_t told; /* calls of retries_exhausted that have begun */
} live_log;

typedef struct live_node {
    srt_node *node; /* NULL: it is dead */
    int fds[SRT_CHANNELS];
    seriatim_delivery *held[LIVE_THREADS];
    int64_t ends[LIVE_THREADS], run_ms, hook_ms;
    live_log *log;
    unsigned cut;  /* of a thousand answers, the number that is lost with the connection */
    size_t cut_at; /* and the one with this number; 0: none */
    uint64_t random;
    int is_deaf;       /* it writes, and reads nothing */
    int fails;         /* its jobs do */
    size_t inputs;     /* pieces of answers that came */
    char warning[512]; /* the last one */
} live_node;

/* Of nodes that are started: 1000; whether their worker has a retries_exhausted: 0. */
extern int64_t live_lease_ms;
extern int live_hook;
/* The user of nodes that connect, whose password is "secret"; NULL: the default one. */
extern const char *live_user;

int64_t live_now(void);
/* A server of queue Q. shards: its shards_count. threads 0: it runs nothing. */
void live_start(live_node *n, const char *id, int64_t shards, unsigned threads, live_log *log);
/* What its threads run, hooks too, ends with the next step. */
void live_end_runs(live_node *n);
/* One round of its loop, which waits for an answer for a millisecond at most. */
void live_step(live_node *n);
/* Steps it until it owns this number of shards; fails after two minutes. */
void live_await_shards(live_node *n, size_t shards);
/* Its connection for commands ends. */
void live_cut(live_node *n);
void live_kill(live_node *n);
/* Stops it as TERM does, and waits for its end. */
void live_stop(live_node *n);
/* Has the queue this number of shards, and moves no ids? */
int live_is_quiet(unsigned shards);
/* Steps the nodes until the ids of the queue have moved to this number of shards, and each node has followed that. */
void live_move(live_node *nodes, size_t count, unsigned shards);

#endif

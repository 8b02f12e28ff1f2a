/*
 * reshard_sim.h - clients, and nodes with their movers, on a real redis-server while ids move twice: their bytes
 * travel, their connections end and they die when a seeded schedule says so.
 */
#ifndef SRT_TEST_RESHARD_SIM_H
#define SRT_TEST_RESHARD_SIM_H

#include "client/push.h"
#include "node/mover.h"
#include "operators.h"

#define RSIM_IDS 24
#define RSIM_CLIENTS 2
#define RSIM_NODES 2
#define RSIM_THREADS 2
#define RSIM_GHOSTS 16
#define RSIM_DEAD 64
#define RSIM_SHARDS 16 /* the most that the queue has */

/* Where who moves ids, or begins a move, dies. */
enum {
    RSIM_LAYOUT_WRITTEN = 1, /* K1: the layout of a move is written, no shard is turned */
    RSIM_SOME_TURNED,        /* K2: some are */
    RSIM_DEPARTED,           /* K3: a batch is open, and nothing of it has arrived */
    RSIM_SOME_ARRIVED,       /* K4: ids of one destination have, those of others have not */
    RSIM_ARRIVED,            /* K5: ids have arrived, and the batch has them still */
    RSIM_SLICES,             /* K6: some slices of payloads are copied */
    RSIM_BEFORE_OUT,         /* K7: a source is about to say that it is out */
    RSIM_BEFORE_END,         /* K8: the layout of the end is about to be written */
    RSIM_ENDED,              /* K9: it is written, and not all shards are turned to it */
    RSIM_POINTS
};

/* A connection to Redis. What its actor has sent waits in `out` until the schedule delivers it. */
typedef struct rsim_pipe {
    int fd; /* -1: none */
    srt_bytes out;
} rsim_pipe;

typedef struct rsim_node {
    srt_node *node;
    char id[16];
    rsim_pipe pipes[SRT_CHANNELS];
    seriatim_delivery *held[RSIM_THREADS];
    int64_t ends[RSIM_THREADS];
    uint64_t settled; /* jobs whose run has ended */
    char sequence[SRT_MOVE_NUMBER];
    size_t batch; /* ids that the batch of this sequence had */
} rsim_node;

typedef struct rsim_client {
    seriatim_client *client; /* NULL: it is dead */
    rsim_pipe pipe;
    int number, busy;
    int64_t wake_at, frozen_until;
    int ids[24], payloads[24], count; /* of the push under way */
} rsim_client;

/* What the checker knows of an id. */
typedef struct rsim_id {
    int sent[RSIM_CLIENTS], acknowledged[RSIM_CLIENTS];
    int ran[RSIM_CLIENTS],
        before[RSIM_CLIENTS];        /* the last payload of each client that ran, also before the last run */
    int first_client, first_payload; /* of the last run */
    int64_t fence;
    const rsim_node *runs; /* NULL: it does not */
    const rsim_node *ran_by;
    int is_sure;       /* Redis has answered the settle of the last run */
    int may_run_again; /* its node died before that */
} rsim_id;

/* A rule that is broken on purpose: a text of a script is replaced. script NULL: none. */
typedef struct rsim_control {
    const char *name, *script, *from, *to;
    int point;   /* where the schedules of this control kill */
    int is_rare; /* only some of many schedules show it */
} rsim_control;

typedef struct rsim_totals {
    unsigned rounds, killed[RSIM_POINTS], cuts, late, runs, again, pushes, steps;
} rsim_totals;

typedef struct rsim {
    fixture fixture;
    uint64_t random;
    int64_t now;
    int point, calm; /* calm: nothing goes wrong any more */
    unsigned kills, node_count;
    const char *sha, *mutant; /* of the script that is replaced */
    rsim_node nodes[RSIM_NODES];
    rsim_client clients[RSIM_CLIENTS], admin; /* admin begins the moves */
    rsim_pipe ghosts[RSIM_GHOSTS];            /* connections that have ended: what they have is delivered later */
    char dead[RSIM_DEAD][16];
    unsigned dead_count;
    rsim_id ids[RSIM_IDS];
    const rsim_node *ender; /* asks to write the layout of the end */
    char layout[64];
    unsigned shards, old;  /* of the layout */
    unsigned turned, used; /* shards that have it; those of them that the queue has by it */
    int leaving[RSIM_IDS]; /* ids in open batches */
    size_t leaving_count;
    unsigned wanted;
    char violation[300];
    rsim_totals *totals;
} rsim;

/* One schedule; writes the first violation into `violation`, or "". */
void rsim_round(const rsim_control *broken, int point, uint64_t seed, rsim_totals *sum, char violation[300]);

/* The parts of reshard_sim.c that rounds use. */
uint64_t rsim_below(rsim *s, uint64_t most);
void rsim_violated(rsim *s, const char *format, ...) SRT_PRINTF(2, 3);
const char *rsim_name(int id);
int rsim_waits(int id); /* its jobs wait for an hour */
void rsim_node_start(rsim *s, rsim_node *n);
void rsim_node_step(rsim *s, rsim_node *n);
void rsim_node_kill(rsim *s, rsim_node *n);
void rsim_client_start(rsim *s, rsim_client *c, int number);
void rsim_client_step(rsim *s, rsim_client *c);
void rsim_client_kill(rsim *s, rsim_client *c);
void rsim_late_bytes(rsim *s);
void rsim_pipe_drop(rsim_pipe *p);
/* reshard_checks.c */
void rsim_begin_run(rsim *s, const rsim_node *n, const seriatim_claimed *job);
void rsim_end_run(rsim *s, const seriatim_claimed *job);
void rsim_settles_answered(rsim *s, const rsim_node *n);
void rsim_died(rsim *s, const rsim_node *n);
/* Reads the layout, and looks in how many shards each id is. */
void rsim_look(rsim *s);
/* How many payloads have not run; waiting: also of the ids that wait. */
int rsim_left(const rsim *s, int waiting);

#endif

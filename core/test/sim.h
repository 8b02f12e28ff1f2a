/*
 * sim.h - nodes on a fake clock against a model of Redis, in rounds of random faults. Shared by test_node and
 * test_node_outages.
 */
#ifndef SRT_TEST_SIM_H
#define SRT_TEST_SIM_H

#include "store.h"

#define MAX_NODES 6

#define MAX_THREADS 5

#define LEASE_MS 400

#define MAX_RETRY 3

/* Kinds of absence of Redis. */
#define OUTAGES 5

enum {
    OUTAGE_KILL = 1,      /* connections end; what it knew is kept */
    OUTAGE_STALL = 2,     /* connections stay, nothing is answered */
    OUTAGE_LIST_LOST = 4, /* as KILL, and the nodes' list is gone */
    OUTAGE_JUMP = 8,      /* none: its clock jumps */
    OUTAGE_FAILOVER = 16  /* as KILL, and it forgets the last moments before */
};

/* What goes wrong in a round: chances are parts in a million, each step of a node. */
typedef struct profile {
    const char *name;
    unsigned nodes, threads, batch;
    unsigned cut, noscript, error, crash, freeze, stop, quiet, pause, nomem;
    unsigned abandon_percent;
    unsigned killers, fail_percent, long_percent, huge_percent, delay_percent;
    double ttr;
    int serial, clean, scheduler;
    int64_t chaos_ms;
    unsigned outage; /* of Redis, each step of the round */
    int outages;     /* which kinds, see begin_outage */
    unsigned pops;   /* each step of the round */
} profile;

#define POPPERS 6

/* What a popper holds; id NULL: nothing. */
typedef struct sim_popper {
    store_id *id;
    int64_t fence, until_us;
} sim_popper;

typedef struct sim_thread {
    seriatim_delivery *delivery;
    int64_t ends;
    int waiting, open[64];
} sim_thread;

typedef struct sim_node {
    srt_node *node;
    char id[32];
    store_conn *conns[SRT_CHANNELS];
    int64_t reconnect[SRT_CHANNELS];
    int64_t skew_ms, frozen_until, born_again, next_tick, abandon_at, pulse_until;
    sim_thread threads[MAX_THREADS];
    int stopping, door;
} sim_node;

typedef struct sim {
    const profile *p;
    store *store;
    sim_node nodes[MAX_NODES];
    int chaos;
    unsigned lives, deaths;
    uint64_t processed, refused, handed, stale, confirmed;
    int64_t owned_blocks;
    size_t blocks; /* of memory in nodes' hands */
    int64_t last_fault;
    int outage;                    /* the kind that is under way */
    int64_t down_from, down_until; /* Redis is away between these */
    int64_t jumped_us;             /* Redis' clock less ours */
    store_image replica;           /* of a failover */
    int no_gaps, acquiring;        /* controls */
    sim_popper poppers[POPPERS];
} sim;

/* The clock of a node, in milliseconds: the clocks of two nodes differ. */
int64_t sim_local_now(const sim *s, const sim_node *n);
/* Registers the queues of the model. Returns the status. */
int sim_add_workers(sim *s, srt_node *node);
/* Parts of a step of a node: its connection ends; bytes move; threads take and settle; time passes. */
void sim_node_disconnect(sim *s, sim_node *n, int channel);
int sim_node_io(sim *s, sim_node *n);
void sim_node_threads(sim *s, sim_node *n);
void sim_node_tick(sim *s, sim_node *n, int busy);
/* Each payload that was pushed is done or dead, once. */
void sim_check_payloads(sim *s);
/* With VERBOSE: what is open, here and there. */
void sim_dump(const sim *s);

/* Sums over the rounds, for the report. */
typedef struct totals {
    unsigned lives, deaths, rounds;
    uint64_t handed, stale, refused, commands, noticed, taken_over, retold, confirmed, pops, pops_done, pops_refused;
    uint64_t handed_over, unheard, lost_messages, late_messages, missed;
} totals;

/* What a negative control leaves out, so that a promise must break. */
typedef struct control {
    int no_fence, forget_seen, no_absence, no_heir;
    /* Of what pushes have claimed: */
    int no_gaps;   /* a node takes it though it has missed what was claimed before */
    int acquiring; /* a node takes it while the answer to its acquire is on its way */
} control;

/* One round. Writes the text of the first violation, or "". */
void sim_run_round(const profile *p, uint64_t seed, control c, totals *sum, char *violation, size_t cap);
extern const control sim_honest; /* nothing is left out */
/* SEED, ROUNDS: the number in the variable, or `fallback`. */
uint64_t sim_number_from_env(const char *name, uint64_t fallback);
/* Some round with this control must break a promise: a checker that finds nothing then proves nothing. */
void sim_breaks_a_promise(const profile *p, control c);

#endif

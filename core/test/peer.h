/* peer.h - clients of a queue Q for tests of pushes, and a peer that answers them as Redis would; no network. */
#ifndef SRT_TEST_PEER_H
#define SRT_TEST_PEER_H

#include "client/client.h"

#define IDENTITY "00112233445566778899aabbccddeeff" /* of the clients */
#define NOW 1790000000.0                            /* the time that they were told */

extern const unsigned char random_bytes[16]; /* what IDENTITY is made of */

/* ---- Clients ------------------------------------------------------------------------------- */

/* A client with the queue Q as its number 0, not connected. NULL: out of memory. */
seriatim_client *new_client(const seriatim_options *options, int64_t shards, const char *on_waiting);
int add_job(seriatim_client *c, const char *id, const char *payload);
/* Jobs of the ids id-FROM and so on. */
int add_jobs(seriatim_client *c, int from, int count);
const char *message(const seriatim_client *c);
void hears(seriatim_client *c, const char *want, size_t want_len);
int says(seriatim_client *c, const char *text);

/*
 * Calls `push` with an allocator whose first allocation fails, then with one whose second fails, and so on, until
 * `push` returns 1 without a failed allocation. Each call must free what it has allocated.
 */
void assert_every_allocation_may_fail(int (*push)(const seriatim_options *options));

/* ---- A peer that reads commands ------------------------------------------------------------- */

#define MAX_ARGS 4096

typedef struct peer {
    char *in;
    size_t in_len;
    size_t argc;
    const char *argv[MAX_ARGS];
    size_t argl[MAX_ARGS];
    size_t step; /* bytes of an answer given at once; 0: all */
    unsigned long generation, shards;
    int layouts, pushes, evals, gets;
    int jobs; /* applied */
    unsigned char seen[4000];
    unsigned wrong_shard, doubled;
    int noscript, oom_shard, stale_until; /* behaviours */
    const char *refusal;                  /* the answer of oom_shard */
    int refuse_every;
    size_t take;         /* of the jobs of a call; 0: all */
    unsigned stale_from; /* shards before this place are never stale; those of a queue R begin at 32 */
    char token[64][64];  /* last sequence and answer, by the place of the shard */
    int in_flight[64];
    int waits, replicas;    /* WAITs heard; their answer */
    const char *wait_error; /* or this, once */
    int written_here;       /* on this connection: calls that wrote something */
    struct peer *replica;   /* what a replica has: all that came before the last WAIT */
} peer;

peer *new_peer(unsigned shards);
void free_peer(peer *p);
/* One whole command, or 0. Its arguments point into p->in. */
size_t peer_parse(peer *p);
/* The answer to the command that was parsed last. */
void peer_answer(peer *p, char *out, size_t cap);
/* Takes all that the client has to say. */
void peer_take(peer *p, seriatim_client *c);
/* Gives the client this answer, in pieces of p->step bytes. Returns srt_client_input's status. */
int peer_say(const peer *p, seriatim_client *c, const char *text, seriatim_error *error);
/* Answers one command, which is heard or not when the connection ends. 0: nothing is asked. */
int peer_answer_one(peer *p, seriatim_client *c, int lost);
/* Answers until nothing is asked any more. Returns the client's status, or that of the connection when it broke. */
int peer_run(peer *p, seriatim_client *c, seriatim_error *error);
/* Loses the connection with all that is under way, and makes another one. */
void reconnect(peer *p, seriatim_client *c);
/* A whole push of add_jobs. Returns its status. */
int push_range(peer *p, seriatim_client *c, int from, int count);
seriatim_client *connected_client(int64_t shards);
/* Each of the first `count` jobs was applied, and once. */
void assert_once(const peer *p, int count);

#endif

/* store.h - a model of Redis and the scripts of a shard, with faults on order; it checks what nodes say. */
#ifndef SRT_TEST_STORE_H
#define SRT_TEST_STORE_H

#include "node/node_state.h"

#define STORE_NS "sim"
#define STORE_MAX_PAYLOADS 512 /* of one id in a round */
#define STORE_SPILL 12         /* an id with more payloads is read in slices */
#define STORE_SLICE 5
#define STORE_REMEMBERS 60000000 /* microseconds: remember_score of the second queue */
#define STORE_IN_DOUBT_FAULTS 3

/* Waiting, running or pushed behind a run. */
typedef struct store_record {
    int there;
    int place; /* 0 ready, 1 due, 3 in doubt */
    int mark;  /* 1 unproven, 2 suspect */
    int64_t due, rank;
    int retry;
    int numbers[STORE_MAX_PAYLOADS];
    int64_t stamps[STORE_MAX_PAYLOADS];
    int count;
} store_record;

typedef struct store_id {
    char name[32];
    size_t len;
    struct store_shard *shard;
    store_record first, behind;
    int running;
    char mode, digit;
    int64_t fence, overrun;
    int whole;       /* its claim may still be settled in one word */
    int spread;      /* it is noted alone, too, so its claim holds it no more */
    int handed_over; /* a push has claimed it, and no answer to a claim has named it since */

    /* What the checker knows. */
    int64_t open;         /* fence of the run that may be settled; 0: none */
    int64_t handed;       /* fence of the last run that came into a thread's hands while it was open */
    int pushed, expected; /* numbers go from 0 */
    char buried[STORE_MAX_PAYLOADS];
    int starts; /* in threads' hands */
    int runs;   /* accepted */

    /* What a test wants of it. */
    int kills, fails;
} store_id;

typedef struct store_shard {
    char prefix[96];
    size_t queue;
    int64_t tick, lease, claimed, settled, wake;
    int64_t since; /* fence at which the owner came */
    int pending;   /* runs of a dead owner, or that nobody knows, are to be looked at */
    int paused;
    size_t window; /* a push claims for the owner while fewer ids are held */
    char owner[72];
    char forgotten_owner[72]; /* acquired it, which a failover forgot, and has not done so since */
    int64_t first_rank, last_rank;
} store_shard;

/* What retries_exhausted is to be told of. */
typedef struct store_notice {
    store_id *id;
    store_shard *shard;
    int payload; /* its number */
    int64_t number;
    char node[72]; /* who tells it */
    int told;      /* how often the hook has returned from it */
} store_notice;

/* A message that comes late: to whoever is subscribed then. */
typedef struct store_late {
    int64_t at_us;
    char channel[96], text[192];
    size_t len;
} store_late;

#define STORE_LATE 16

typedef struct store_queue {
    const char *name;
    unsigned shards, from;
} store_queue;

typedef struct store_member {
    char name[72], description[256];
    int64_t until_ms, lease_ms;
    int extended; /* by an absence; it has not come back since */
} store_member;

typedef struct store_conn {
    struct store *store;
    struct store_conn *next;
    srt_bytes in, out;
    char channels[2][96];
    int channel_count;
} store_conn;

typedef struct store {
    uint64_t random;
    int64_t now_us;
    store_queue queues[2];
    store_shard shards[16];
    size_t shard_count;
    store_id *ids;
    size_t id_count;
    store_member members[64];
    size_t member_count;
    int64_t renewed_ms, away_until_ms, gap_ms; /* as in heartbeat.lua's key; renewed_ms 0: without the key */
    store_conn *conns;
    store_notice *notices;
    size_t notice_count, notice_cap;
    uint64_t noticed, taken_over,
        retold; /* notices that were written; that an heir took; hooks that returned beyond the first */
    int loaded[srt_script_count]; /* scripts */

    unsigned errors_ppm, noscript_ppm;
    /* Of the messages of pushes that have claimed: */
    unsigned lost_ppm, late_ppm;
    store_late late[STORE_LATE];
    size_t late_count;
    int hands_over; /* pushes claim for a sleeping owner */
    /* What pushes claimed; of it, what nobody heard, and was pushed as any other; lost; late. */
    uint64_t handed_over, unheard, lost_messages, late_messages;
    uint64_t missed; /* ids that pushes had claimed and that an answer to a claim named */
    int no_fence, forget_seen, no_absence, no_heir; /* negative controls */
    int again_by_held;                              /* what pushes claimed is looked for only while claims hold ids */
    int hears_last_claim; /* an acquire takes the last claim for the last that the owner and Redis know */
    int claims_unheard;   /* a push claims for the owner though nobody heard of it */
    int no_word_behind;   /* a push behind a run is not told: it waits as long as the settle is held */
    int remembers;        /* the second queue has remember_score */
    int answer_past;      /* a claim that a failover forgot is answered by the one before it, as scripts did once */
    int nobody_died;      /* no process is killed, so no run may be recovered as a dead one's */

    uint64_t commands, refused, again;
    uint64_t pops, pops_done, pops_refused;
    char violation[256]; /* the first that was seen */
} store;

uint64_t store_random(store *s, uint64_t below);
int store_chance(store *s, unsigned ppm);

/* What a replica had heard when it was taken. */
typedef struct store_image {
    store_shard shards[16];
    store_member members[64];
    size_t member_count;
    int64_t renewed_ms, away_until_ms, gap_ms;
    store_id *ids;
} store_image;

/* A failover is a copy, and later its restoration, which frees it: what happened in between is forgotten. */
void store_copy(const store *s, store_image *image);
void store_restore(store *s, store_image *image);

store *store_new(uint64_t seed, size_t ids);
void store_free(store *s);
void store_violated(store *s, const char *format, ...) SRT_PRINTF(2, 3);

store_conn *store_connect(store *s);
/* Bytes of a client; every whole command is done. */
void store_feed(store_conn *c, const char *data, size_t len);
void store_disconnect(store_conn *c);

/* Direct orders, as clients give them. */
void store_push(store *s, store_id *id, int64_t delay_us);
void store_pause(store *s, size_t shard, int on);
/* Sends the shard's owner a message: this mark, the prefix of the shard, and this text. */
void store_say(store *s, size_t shard, const char *mark, const char *rest);
/* Sends the late messages whose time has come. To be called at each step of the clock. */
void store_send_late(store *s);

/*
 * A popper takes the oldest due id of a shard, whoever owns it; NULL: nothing is due, or what is has deaths or failures
 * to come. It says later what became of the run with this fence; one that never does has failed by the end of ttr_us.
 */
store_id *store_pop(store *s, size_t shard, int64_t ttr_us);
void store_popped(store *s, store_id *id, int64_t fence, int done);

store_id *store_find(store *s, const char *name, size_t len);
/* What a thread got: is it what the store gave out? Returns 1 when this run may still be settled. */
int store_handed(store *s, const seriatim_claimed *job, int kind);

/* A hook returned from this. */
void store_hooked(store *s, const seriatim_claimed *job);

int store_empty(const store *s); /* nothing waits, nothing runs */

#endif

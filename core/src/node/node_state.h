/*
 * node_state.h - the server as a state machine: leases, heartbeats, claims, settles, drain.
 *
 * Time is an argument, bytes go in and out, deliveries come out: it opens no socket, reads no clock, starts no thread
 * and calls nobody back. The files, each of which uses those before it: job.c (claimed ids), events.c (reports to the
 * host), refusals.c, timers.c, masters.c (which Redis has a shard), shard_request.c, ready_shards.c (which shard is
 * taken from next), quarantine.c, heartbeat_fields.c (what a node reports of its process), heartbeat.c (heartbeats,
 * which nodes live), notice.c (retries_exhausted), the life of a shard (shard.h: batch.c, hold.c, recall.c, offer.c,
 * recover.c, acquire.c, settle.c, slice.c, time_to_run.c, claim.c, mover.h: mover_steps.c, mover_batch.c, mover_end.c,
 * mover.c; shard.c), checkpoint.c (payloads that are done before their run ends), delivery.c (what threads hold),
 * sample.c (histories of all queues), run_times.c (how long perform took), and the life of the node: node.c, layout.c,
 * replicas.c (what a connection wrote is on them), generation.c (a layout that changed), follow.c (the map of a
 * cluster), connection.c, tick.c.
 */
#ifndef SRT_NODE_STATE_H
#define SRT_NODE_STATE_H

#include "model/history.h"
#include "model/policy.h"
#include "model/queue_names.h"
#include "model/registry.h"
#include "node/refusals.h"
#include "seriatim/binding/node.h"
#include "wire/cluster.h"

#define SRT_NEVER INT64_MAX

/*
 * Ids uniting may be left to the next owner; runs of a dead one, or that nobody knows, are looked at before a shard is
 * given up.
 */
typedef enum srt_unfinished { SRT_FINISHED, SRT_UNITING, SRT_RUNS } srt_unfinished;

/*
 * Notices for retries_exhausted that lie in a shard: none that is known, some that others may have, some of this
 * node's.
 */
typedef enum srt_notices { SRT_NOTICES_NONE, SRT_NOTICES_OTHERS, SRT_NOTICES_OWN } srt_notices;

/*
 * A shard's notices are fetched, handed to a thread, and removed from Redis when the hook has returned; then come the
 * next.
 */
typedef enum srt_telling {
    SRT_TELLING_NONE,
    SRT_TELLING_FETCH,
    SRT_TELLING_HOOK,
    SRT_TELLING_RETURNED,
    SRT_TELLING_REMOVE
} srt_telling;

typedef struct srt_mover srt_mover; /* mover.h */
typedef struct srt_move_table srt_move_table;

typedef enum srt_shard_state { SRT_FOREIGN, SRT_ACQUIRING, SRT_OWNED, SRT_GIVING_UP } srt_shard_state;

/* How many ended in a window of SHARD_WINDOW_MS, and in the one before. */
typedef struct srt_rate {
    size_t count, before;
    int64_t since;
} srt_rate;

struct srt_shard {
    srt_queue *queue;
    size_t worker;
    unsigned index;
    const srt_shard_keys *keys;
    size_t group;
    srt_shard_state state;
    int wanted;
    int named; /* by the host's splitter, for this node */
    unsigned slot;
    const srt_redis *master; /* that had the slot when the node last looked; never followed, it may be gone */

    /* A foreign shard: who was seen to own it. */
    srt_bytes owner;
    int64_t owner_number; /* of its ownership, as Redis named it last (acquire.lua); also of an owned shard */
    int owner_asked_at; /* heartbeat.answered must reach it before the owner may count as dead: the list of living nodes
                           that we have now may be older than the ownership, and lack an owner that has just joined */
    uint64_t next_owner; /* hash of the node that should have the shard when we give it up */
    int given_up;        /* this node gave the shard up, or lost it */
    /*
     * A failover may have forgotten that we gave it up, and name this node as the owner under any of its earlier
     * leases. As this node lives, no other node would ever take the shard: it takes it again, and gives it up if it is
     * not wanted.
     */
    int perhaps_ours;

    /* An owned shard. */
    int64_t lease, seen, sequence;
    int claiming, settling, slicing, recovering; /* requests on their way */
    int settles_suspect;                         /* a settle on its way has the run of a suspect */
    srt_unfinished unfinished;                   /* what recover.lua has to do */
    char cursor[24];                             /* cursor at which it continues */
    int64_t recover_at;
    int64_t recovered; /* runs, since the shard was taken */
    int reconcile;     /* compare the runs that we know with Redis' */
    int refusals;      /* since the node was told to stop: of what must come before the shard is given up */
    unsigned refused;  /* bits of SRT_ASK_...: kinds of requests that Redis refused last (refusals.h) */
    int first_claim;   /* has not been answered */
    int paused, more, recall;
    int changed_meanwhile; /* Redis said that the shard changed while an answer that may be older was on its way */
    size_t window; /* pushes claim for this node while it has fewer ids (claim.c), as Redis was told; 0: no push does */
    size_t asked;  /* by the claim that is on its way, of a queue with a time to run */
    int64_t asked_at;                        /* and when it was sent */
    int timed;                               /* the claim that is on its way names a ttr */
    int ever_timed;                          /* one did, so a thread may have a run whose time is over */
    int64_t claim_at;                        /* after a refusal: nothing is claimed before */
    uint64_t claim_turn;                     /* when it asked last, by node->claim_turns */
    int64_t due_at, unproven_at, suspect_at; /* local ms at which something will be due */
    srt_job_list ready;                      /* claimed, not begun */
    srt_job_list pending;                    /* ended, not settled */
    int64_t pending_since;
    int urgent;           /* settle them at once: a checkpoint is among them, or more than one settle takes */
    size_t resend;        /* the first of them: a settle of an earlier generation, which is sent again as it was */
    int64_t turned;       /* generation of the layout that it was turned to by this node; 0: to none */
    int turning;          /* turn.lua was called and has not answered */
    srt_mover *mover;     /* moves its ids to other shards; NULL: nothing is to be moved, or not yet */
    int64_t prompt_until; /* what ends is not held: something was pushed behind a run (hold.c) */
    int64_t prompt_fence; /* nor are the runs of claims up to this one */
    int prompt_claim;     /* nor those of the claim that is on its way */
    srt_claim *partial_claims, *last_partial_claim; /* claims of which some ids have ended, the longest waiting first */
    srt_job_list resting;                           /* of those whose payloads are being read: pausing */
    int64_t slice_at;                               /* when their reading continues */
    srt_notices notices;                            /* to be fetched */
    srt_telling telling;                            /* what becomes of those that were fetched */
    seriatim_delivery *told;                        /* those of which the hook has returned */
    int64_t notice_at;                              /* when to look for others' notices, or to try again */
    int notice_asked_at;                            /* the heartbeat that tells whose notices may be taken over */
    char notice_seen[8];                            /* number of the last one that came */
    size_t notice_seen_len;
    struct {
        int64_t ask_at,
            tell_at;     /* when to look whether the morgue is beyond its limits, and when to report what was removed */
        int64_t removed; /* dead ids that were removed and are not reported */
        int asking;      /* a call of trim_morgue.lua is not answered */
    } morgue;
    size_t quarantined;     /* ids in its group's quarantined and died */
    size_t unproven_coming; /* unproven ids (or a suspect) that a claim on its way asks for, or that are being read */
    size_t running;         /* ids in threads' hands */
    size_t old;             /* of these: see srt_job */
    srt_job_list
        barred;        /* claimed, while an old run of the same id is in a thread's hands: ready when that has ended */
    srt_rate finished; /* ids */

    int listed;         /* among its group's shards that have ready ids */
    size_t ready_place; /* there */
    uint64_t turn;      /* when it was listed or last taken from, for the scheduler seq */
    int64_t wake_at;    /* when to step; SRT_NEVER: not in the heap */
    size_t heap_place;
};

typedef struct srt_group {
    int scheduler;
    size_t threads;
    size_t held;       /* deliveries in threads' hands */
    srt_shard **ready; /* shards that have ready ids: a heap, see ready_shards.c */
    size_t ready_count, ready_cap;
    uint64_t turn;
    srt_job_list quarantined;     /* unproven and suspect ids: handed out alone, first */
    srt_job_list died;            /* runs whose process died */
    size_t unproven_coming;       /* of its shards */
    seriatim_delivery *exhausted; /* ids whose retries_exhausted hooks are to be called */
    int wake_pending;             /* a take may give something since the flag was last cleared */
    srt_rate ended;               /* calls of perform */
    size_t waiting;               /* threads that found nothing and have not come back */
} srt_group;

typedef struct srt_peer {
    srt_bytes id, description;
    uint64_t hash;
} srt_peer;

/*
 * Steps of running a suspect alone. It ends when Redis has its settle: until then a death of the process would still be
 * charged to the suspect. If its master is away, or refuses the settle, only other suspects wait for that.
 */
typedef enum srt_quarantine_step {
    SRT_QUARANTINE_NONE,
    SRT_QUARANTINE_DRAIN, /* nothing is handed out until all threads have come back */
    SRT_QUARANTINE_CLAIM, /* and its payloads are read, if its record does not hold them */
    SRT_QUARANTINE_READY,
    SRT_QUARANTINE_RUN,
    SRT_QUARANTINE_SETTLE
} srt_quarantine_step;

typedef struct srt_quarantine {
    srt_quarantine_step step;
    srt_shard *shard;   /* of the suspect */
    int64_t until;      /* how long DRAIN waits for threads */
    int64_t not_before; /* the next suspect is looked for */
} srt_quarantine;

/* The shards that are to be stepped at a time: a heap by wake_at. */
typedef struct srt_timers {
    srt_shard **heap;
    size_t count, cap;
} srt_timers;

/* The nodes that live, this one among them, as of the last heartbeat. */
typedef struct srt_peers {
    srt_peer *list;
    size_t count, cap;
    int share_again; /* memory was short: the shards are to be shared anew */
} srt_peers;

typedef struct srt_heartbeat {
    int64_t at;          /* when the next one is due */
    int in_flight;       /* heartbeats that are not answered */
    int again;           /* another one is due as soon as they are */
    int answered;        /* heartbeats that were */
    int64_t answered_at; /* the last of them, by local time */
    int64_t redis_us;    /* and by Redis' */
    int64_t pulse_at;    /* when the host last said that its threads are alive */
    int64_t away_until;  /* Redis was away: until then (local ms) no shard is taken that names another owner */
    int away_unknown;    /* for how long is not known: the host is told when a shard is left to its owner for it */
    int64_t resident;    /* bytes of the process; 0: not known */
    int64_t began;       /* local ms at which the process was started */
    int64_t wall_us;     /* the wall clock less ours; 0: not known */
    int64_t skew_ms;     /* the wall clock less Redis', halfway between the last heartbeat and its answer */
    int has_skew;
} srt_heartbeat;

#define SRT_EVENTS 64

typedef struct srt_events {
    seriatim_event list[SRT_EVENTS]; /* a ring */
    size_t first, count;
    size_t lost; /* more than the ring holds */
} srt_events;

/* Layouts are asked for at the start, or when a worker is added; then some settings behind each heartbeat, in turn. */
typedef struct srt_layouts {
    size_t unasked; /* workers whose layouts are to be asked for */
    size_t missing; /* those that the first shards wait for */
    size_t reread;  /* the worker whose settings were read again last */
    size_t left;    /* workers whose settings are still to be read behind the last heartbeat */
    int rereading;  /* that read is not answered */
} srt_layouts;

typedef enum srt_sure {
    SRT_SURE,         /* the replicas have it, or there are none */
    SRT_SURE_ASKED,   /* an answer will come */
    SRT_SURE_LATER,   /* to be asked again after a while */
    SRT_SURE_REFUSED, /* it cannot be known: the user lacks ROLE or WAIT */
    SRT_SURE_LOST     /* the connection has ended: what was written is to be written again */
} srt_sure;

/* Shards that the host has given to groups by name. */
typedef struct srt_fixed_shards {
    seriatim_shard *shards;
    size_t *groups; /* for each shard, the group that named it */
    size_t count, cap, group_cap;
} srt_fixed_shards;

/* What the request under way of a round of samples asks for. */
typedef enum srt_sampling {
    SRT_SAMPLING_NOTHING,
    SRT_SAMPLING_LEASE,
    SRT_SAMPLING_NAMES,
    SRT_SAMPLING_IDLE,
    SRT_SAMPLING_LAYOUT,
    SRT_SAMPLING_SHARDS,
    SRT_SAMPLING_WRITE
} srt_sampling;

/* sample.c's */
typedef struct srt_sampler {
    srt_sampling step;
    int64_t at, rounds;       /* the next round, by local time; those begun */
    int64_t heard_at;         /* when the last answer came, or the round was begun */
    int heard;                /* one has come since */
    int64_t renew_at;         /* when the lease of the round is half over, by local time */
    int64_t before_us;        /* when the round before this one was begun, by any process; 0: not known */
    srt_queue_names names[2]; /* names[shown]: of the last scan that came to its end; the other one's is under way */
    int shown;
    size_t scans;  /* calls of this round */
    size_t master; /* whose keys are scanned */
    int is_whole;  /* a scan began and ended in this round */
    size_t next;   /* place of the next queue */
    size_t group;  /* queues of the call under way that measures the idle ones; 0: refused in this round */
    size_t busy[SRT_IDLE_QUEUES], busy_count, busy_next; /* places of those that it named, measured one by one */
    seriatim_text queue;                                 /* that is being measured */
    int64_t generation;
    unsigned used, shards, shard, asked, together; /* shards: with ids, all, first unread, asked now, most in a call */
    int64_t soon_us;
    srt_history_sample sample;
    int warned; /* the host was told once of a refusal */
} srt_sampler;

struct srt_node {
    const seriatim_allocator *mem;
    srt_registry registry;
    srt_cluster cluster;                          /* commands: the one Redis, or the masters */
    srt_redis *answering;                         /* whose answer is taken */
    size_t links, numbered;                       /* connections for commands; numbers of peers that were given out */
    uint64_t epoch;                               /* of the map that the shards' masters are of */
    uint64_t sent_before;                         /* commands to peers that are gone */
    int held_slot;                                /* the host was told that its requests wait; -1: of none */
    void (*on_drop)(void *host, srt_redis *peer); /* for the runner: its connection of the peer goes */
    void *host;
    srt_session wakes;
    int described; /* `description` is what other nodes read */
    srt_bytes id, description, wake_channel, nodes_channel, name;
    srt_bytes heartbeat_keys; /* encoded */
    uint64_t hash;
    int64_t lease_ms, poll_ms;
    size_t threads;
    int scheduler;

    srt_queue **workers; /* in the host's order */
    size_t worker_count, worker_cap;
    srt_shard **shards; /* of all workers, once every layout is known */
    size_t shard_count, shard_cap;
    srt_layouts layouts;
    srt_group *groups;
    size_t group_count, group_cap;
    srt_fixed_shards fixed;

    srt_timers timers;
    srt_peers peers;
    srt_heartbeat heartbeat;
    srt_refusal refusals[SRT_REFUSALS];
    int64_t poll_at;
    size_t poll_place;
    int64_t held_since; /* since then something has ended that is not settled; SRT_NEVER: nothing, as far as is noted */
    int hears;          /* both channels are subscribed, so changes of a shard are heard at once */
    srt_sampler sampler;
    struct {
        int64_t at;     /* when the next report to Redis is due */
        int64_t number; /* of the last request */
        size_t next;    /* the worker to be told of next */
        int asking;     /* a request is not answered */
        int warned;     /* the host was told once of a refusal */
    } run_times;
    int64_t offset_us; /* Redis' clock less ours */
    struct {
        srt_shard *shard; /* whose mover works; NULL: none */
        int64_t at;       /* when the next one may */
        int64_t catch_at; /* when ids may be looked for again whose run has ended */
        int64_t serial;   /* of the last request */
        uint64_t ended;   /* ids whose jobs had ended here when a mover rested last */
        const srt_move_table *table;
        int warned; /* the host was told once that ROLE or WAIT was refused */
    } moves;
    int64_t follow_at; /* when to go on with a layout that is followed; SRT_NEVER: at an answer */

    seriatim_delivery *held; /* by threads */
    size_t held_count;
    srt_quarantine quarantine;
    int opening; /* no delivery before the first claims are in */
    int64_t opened_by;
    int quiet, stopping, left, stopped;
    int ordered; /* seriatim_order, by the last heartbeat */
    int64_t give_up_at;
    int starved;          /* a shard with a time to run waits for a free thread */
    uint64_t claim_turns; /* claims of such shards, so far */
    int checkpoint_news;  /* a checkpoint was answered, or its run was lost, since the runner has looked */

    srt_events events;
    seriatim_runner_stats stats;
};

/* ---- For the runner, beside seriatim/binding/node.h ----------------------------------------- */

/* Sends a PING on the channel of wake-ups, if no answer is expected there. */
void srt_node_ask_wakes(srt_node *node);
/* The Redis that has the host's channel of this number; the channel of a Redis. NULL: it is gone. */
srt_redis *srt_node_channel_peer(const srt_node *node, int channel);
int srt_redis_channel(const srt_redis *peer);
/* Would a take give something? */
int srt_node_offers(const srt_node *node, size_t group, int64_t now);
/* 1: this failure of the worker's queue is logged; 0: it is only counted. For srt_node_failure and its test. */
int srt_node_may_log(srt_node *node, size_t worker, int64_t now);

/* ---- Between the files of the node ---------------------------------------------------------- */

void srt_node_tell(srt_node *node, int kind, int64_t number, const char *format, ...) SRT_PRINTF(4, 5);
void srt_node_wake(srt_node *node, srt_shard *shard, int64_t at); /* steps the shard at `at` or earlier */
srt_shard *srt_timers_take(srt_node *node, int64_t now);          /* the next shard to be stepped by now, or NULL */
int64_t srt_timers_next(const srt_node *node);                    /* SRT_NEVER: none */

/* Appends `;key=value` for each field that the node reports. host: the part of the description that the host wrote. */
void srt_heartbeat_fields(const srt_node *node, seriatim_text host, srt_bytes *text);
void srt_heartbeat_send(srt_node *node, int64_t lease_ms, int64_t now); /* lease_ms 0: a farewell */
void srt_heartbeat_soon(srt_node *node, int64_t now);
/* Returns 1 if the heartbeat had expired before, so that everything has to be asked again. */
int srt_heartbeat_answered(srt_node *node, const srt_reply *reply, int64_t asked_at, int64_t now);
void srt_heartbeat_failed(srt_node *node, int64_t now);
void srt_node_share(srt_node *node, int64_t now); /* which living node each shard should have */
/* This node wants it or not; the hash of the node that should have it when this one gives it up. */
void srt_shard_want(srt_node *node, srt_shard *shard, int wanted, uint64_t next_owner, int64_t now);
/* Writes what other nodes read, anew if it was written before. OK or NOMEM, which leaves it as it was. */
int srt_node_describe(srt_node *node);
/* Other nodes are told to read it at once, so that all share the shards anew. */
void srt_node_announce(srt_node *node, int64_t now);
/* The shards of this queue get owners anew; of a withdrawn one, this node wants none. */
void srt_node_share_queue(srt_node *node, const srt_queue *queue, int64_t now);
void srt_node_forget_peers(srt_node *node);
/* No heartbeat was answered for a lease time: others may have our shards. */
int srt_node_expired(const srt_node *node, int64_t now);
int srt_node_lives(const srt_node *node, const char *id, size_t len);
/* Redis was away: its owner, which has no heartbeat, may well live. */
int srt_node_leaves_to_owner(srt_node *node, const srt_shard *shard, int64_t now);

void srt_sampler_init(srt_node *node);
void srt_sampler_free(srt_node *node);
void srt_node_sample(srt_node *node, int64_t now); /* begins a round when it is time */
/* The answer to a request of the round, or the error that stands in its place (else NULL). */
void srt_node_sampled(srt_node *node, const srt_request *r, const srt_reply *reply, const seriatim_error *error);

/* Tells Redis of the run times of each queue, one after the other, when it is time. */
void srt_node_run_times(srt_node *node, int64_t now);
/* The answer to such a request; error: NULL, or what Redis refused it with. */
void srt_node_run_times_told(srt_node *node, const seriatim_error *error);
/* The node leaves: tells Redis of all queues at once. */
void srt_node_last_run_times(srt_node *node);

void srt_shard_step(srt_node *node, srt_shard *shard, int64_t now);
void srt_shard_changed(srt_node *node, srt_shard *shard,
                       int64_t now); /* Redis said that it changed: asks what there is */
/*
 * A push has claimed an id for this node: takes the id, or asks what there is. text: what stands behind the prefix of
 * the shard in the message (core/scripts/lib/hand_over.lua); it lies in the reader of SRT_WAKES.
 */
void srt_shard_handed_over(srt_node *node, srt_shard *shard, const char *text, size_t len, int64_t now);
/* Redis said that something was pushed onto an id of the shard that runs: what has ended is settled at once. */
void srt_shard_pushed_behind(srt_node *node, srt_shard *shard, int64_t now);
/*
 * Something is to be written to Redis: what all shards hold goes with it. To be called behind everything else of a
 * tick.
 */
void srt_node_settle_held(srt_node *node, int64_t now);
int srt_shard_reply(srt_node *node, srt_request *r, const srt_reply *reply, int64_t now, seriatim_error *error);
/* Its settle goes out with the next; the job is the shard's now. */
void srt_shard_ended(srt_node *node, srt_shard *shard, srt_job *job, int64_t now);
/*
 * The first `count` payloads of the i-th job are done: asks Redis, unless a request of the job is under way. Statuses
 * as of seriatim_runner_checkpoint.
 */
int srt_checkpoint_want(srt_node *node, seriatim_delivery *delivery, size_t i, size_t count, int64_t now);
/* Removes the checkpoints from the jobs that a settle has sent, and sends again those that are not confirmed. */
void srt_checkpoints_answered(srt_node *node, srt_job_list *settled, const srt_reply *reply, int64_t now);
/* How many payloads Redis is expected to remove for it. */
int64_t srt_checkpoint_expects(const srt_job *request);
/*
 * After a failover Redis may have lost checkpoints that it had confirmed: sends them again for all jobs of the shard
 * that threads have.
 */
void srt_checkpoints_repeat(srt_node *node, srt_shard *shard, int64_t now);
/* The host has handed the job back. Returns 1 if its outcome has to wait for the answer to a checkpoint. */
int srt_checkpoint_parks(srt_job *job);
/* The claim's ids will be settled one by one. */
void srt_claim_part(srt_shard *shard, srt_claim *claim);
int srt_shard_may_run(const srt_shard *shard);           /* what it has ready may be handed out now */
void srt_shard_forget(srt_node *node, srt_shard *shard); /* frees what it holds */
int srt_shard_wants_claim(srt_node *node, const srt_shard *shard, int64_t now);
/*
 * Hands back ids whose time to run ended before a thread began them, because the threads or Redis were slow: Redis may
 * give them out again.
 */
void srt_shard_release_overdue(srt_node *node, srt_shard *shard, int64_t now);
void srt_group_release_overdue(srt_node *node, srt_group *group, int64_t now); /* the same for unproven ids */
/* hold.c */
void srt_rate_add(srt_rate *rate, int64_t now);
size_t srt_rate_most(const srt_rate *rate);                /* the larger of the two numbers, however old they are */
size_t srt_rate_lately(const srt_rate *rate, int64_t now); /* the same; 0 if they are older than two windows */
/* A thread may be free: shards with a time to run that waited for one look again. */
void srt_node_wake_starved(srt_node *node, int64_t now);
/*
 * A request about a shard: begin gives NULL when out of memory; send takes NULL and returns 0, the shard will be
 * stepped again.
 */
/* The Redis that has the shard; NULL: nobody knows. */
const srt_redis *srt_shard_master(const srt_node *node, const srt_shard *shard);
void srt_node_begin_masters(srt_node *node);
int srt_node_may_send(const srt_node *node);
/* Will bytes go to the Redis of this shard, or of any if it is NULL? */
int srt_node_writes(const srt_node *node, const srt_shard *shard);
/* Tells the cluster the time, and has shards whose slot has another master ask again. */
void srt_node_follow_masters(srt_node *node, int64_t now);
void srt_node_meet_master(srt_node *node, const srt_redis *peer, int64_t now); /* the same for all shards of this one */
void srt_shard_check(srt_node *node, srt_shard *shard, int64_t now);           /* the shard asks again */
srt_request *srt_shard_begin(srt_node *node, srt_shard *shard, int script, int kind);
int srt_shard_send(srt_node *node, srt_shard *shard, srt_request *request, int64_t now);
int srt_shard_idle(const srt_shard *shard); /* nothing claimed, running, pending or on its way */

void srt_notice_step(srt_node *node, srt_shard *shard, int64_t now);
/* Redis said that there are notices. */
void srt_notice_seen(srt_node *node, srt_shard *shard, srt_notices notices, int64_t now);
void srt_notice_fetched(srt_node *node, srt_shard *shard, const srt_reply *reply, int64_t now);
void srt_notice_settled(srt_node *node, seriatim_delivery *delivery,
                        int64_t now); /* the hook has returned; takes the delivery */
void srt_notice_told(srt_node *node, srt_shard *shard, const srt_reply *reply, int64_t now);
void srt_notice_refused(srt_node *node, srt_shard *shard, int64_t now);

/* The limits of the morgue. Of a shard that this node has taken: */
void srt_morgue_taken(srt_shard *shard, int64_t now);
void srt_morgue_step(srt_node *node, srt_shard *shard, int leaving, int64_t now);
void srt_morgue_grew(srt_node *node, srt_shard *shard, int64_t now); /* ids may have died */
void srt_morgue_trimmed(srt_node *node, srt_shard *shard, const srt_reply *reply, int64_t now);
void srt_morgue_refused(srt_shard *shard, int64_t now);

/* To be called when the ready ids of a shard have changed. */
void srt_ready_update(srt_group *group, srt_shard *shard);
/* The shard that is to be taken from next, or NULL. */
srt_shard *srt_ready_best(const srt_group *group);

/* Asks for the layouts of the workers that were added. OK, or NOMEM: some are still to be asked for. */
int srt_node_ask_layouts(srt_node *node);
/* Behind each heartbeat the settings of some queues are read again: a server acts by what a later one has written. */
void srt_node_look_at_settings(srt_node *node);
/*
 * The answer to such a request. After an error, a node without shards asks again on the next connection, and one with
 * shards (srt_node_layout_refused) with a later heartbeat.
 */
int srt_node_layout_known(srt_node *node, const srt_request *r, const srt_reply *reply, int64_t now,
                          seriatim_error *error);
void srt_node_layout_refused(srt_node *node);

/*
 * Takes over a layout of a worker's queue that is newer than the one it has: makes shards that it lacks, and shares
 * them out. OK, or NOMEM: to be called again.
 */
int srt_node_adopt(srt_node *node, size_t worker, const char *text, int64_t now);

/* replicas.c: the connection whose answer is taken. */
void srt_written_note(const srt_node *node, srt_written *written);
int srt_written_stands(const srt_node *node, const srt_written *written); /* that connection has not ended */
/* A script that is sent on that connection, which stands, and is lost with it. */
void srt_written_bind(const srt_node *node, const srt_written *written, srt_request *request);
/*
 * Asks whether a replica has it. `like` says what the requests are for (kind, place, part, subject, number); their
 * answers go to srt_sure_answered, which may ask once more. An answer does not come if the connection ends.
 */
srt_sure srt_sure_ask(srt_node *node, const srt_written *written, const srt_request *like);
srt_sure srt_sure_answered(srt_node *node, const srt_written *written, const srt_request *r, const srt_reply *reply);

/* generation.c */

/* A layout of a queue was seen. If it is newer than the one that the node has, the node follows it. */
void srt_node_see_layout(srt_node *node, size_t worker, const srt_token *text, int64_t now);
/* The host was told that the layout of the queue of this name changed; len 0: of any. */
void srt_node_hear_layout(srt_node *node, const char *name, size_t len, int64_t now);
/*
 * A shard refused a request because of its generation. Returns 1 if the node does what is needed, after which the shard
 * is stepped; 0: nothing can be done (the queue is being deleted).
 */
int srt_shard_refused(srt_node *node, srt_shard *shard, const char *message, int64_t now);
void srt_shard_turn(srt_node *node, srt_shard *shard, int64_t now);
/* Returns 1 if a batch of an earlier layout is open in the shard: its layout is the third element of the answer. */
int srt_shard_turn_answered(srt_node *node, srt_request *r, const srt_reply *reply, int64_t now);
void srt_node_followed(srt_node *node, srt_request *r, const srt_reply *reply, int64_t now);
void srt_node_follow_on(srt_node *node, int64_t now); /* what waits for its time */
/* The connection has ended: what waits for an answer on it, or for its replicas, begins anew. */
void srt_node_follow_lost(srt_node *node, int64_t now);

/* mover.c: the mover of a shard. */
void srt_mover_step(srt_node *node, srt_shard *shard, int leaving, int64_t now);
void srt_mover_answered(srt_node *node, srt_request *r, const srt_reply *reply, int64_t now);
/* A batch of an earlier layout is open in the shard, and is brought to its end. text: of that layout. */
void srt_mover_finish(srt_node *node, srt_shard *shard, const srt_token *text, int64_t now);
void srt_mover_free(srt_node *node, srt_shard *shard);
/* A connection has ended: movers that wait for answers that went with it begin anew. */
void srt_node_moves_lost(srt_node *node, int64_t now);

int srt_node_drained(const srt_node *node);
/* No suspect is looked for any more: all threads go on, unless another suspect is claimed already. */
void srt_quarantine_end(srt_node *node);
/* Does the next step of running a suspect alone; returns when it wants to be called again. */
int64_t srt_quarantine_tick(srt_node *node, int64_t now);
/*
 * May an unproven id of the shard be claimed? It needs a free thread, for which those that may run now are counted.
 * While all threads are busy, one is claimed ahead.
 */
int srt_quarantine_has_room(const srt_node *node, const srt_shard *shard);
void srt_node_wake_unproven(srt_node *node); /* a thread has room for an unproven id again */
void srt_node_wake_threads(srt_node *node);  /* wakes all waiting threads, which look for a delivery again */

enum {
    SRT_ASK_NOTHING,
    SRT_ASK_LAYOUT,
    SRT_ASK_HEARTBEAT,
    SRT_ASK_SAMPLE,
    SRT_ASK_RUN_TIMES,
    SRT_ASK_FOLLOW,
    SRT_ASK_TURN,
    SRT_ASK_MOVE,
    SRT_ASK_ACQUIRE,
    SRT_ASK_CLAIM,
    SRT_ASK_SETTLE,
    SRT_ASK_RELEASE,
    SRT_ASK_SLICE,
    SRT_ASK_RECOVER,
    SRT_ASK_TELL,
    SRT_ASK_TOLD,
    SRT_ASK_TRIM
};

#endif

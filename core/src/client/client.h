/* client.h - the inside of a client, which runs one operation at a time, and how operations are built on it. */
#ifndef SRT_CLIENT_H
#define SRT_CLIENT_H

#include "model/registry.h"
#include "seriatim/binding/client.h"
#include "wire/cluster.h"

#define SRT_NO_QUEUE SERIATIM_NO_QUEUE       /* of an operation that belongs to no queue */
#define SRT_IDENTITY (2 * SRT_CLIENT_RANDOM) /* hex digits of a client's id */

/*
 * The progress of an operation: 1200 "records". unit: static, the same pointer for the same unit; NULL: nothing is
 * counted.
 */
typedef struct srt_done {
    int64_t count;
    const char *unit;
} srt_done;

/*
 * An operation: the requests of one call of the public API, as a static table of functions.
 *
 *     int seriatim_example_begin(seriatim_client *c, size_t queue)
 *     {
 *         int status = srt_client_begin(c);            // frees the last operation; an error if one is under way
 *         if (status != SERIATIM_OK) return status;
 *         c->state = my_state;                         // freed by the table's release
 *         return srt_client_start(c, &example, queue);
 *     }
 *
 * The client makes sure that the queue's layout is known and calls `send`, which queues requests: srt_client_request,
 * srt_request_*, srt_client_send. Each answer goes to `on_reply`, which may queue more. When no request waits,
 * `on_end` gives the operation's status, and srt_client_status says it. After SERIATIM_GENERATION the client lets the
 * answers that are owed come in, loads the layout again and calls `send` from the start. Requests are sent again after
 * a reconnect, so repeating them must have no further effect.
 *
 * A function that fails returns srt_client_fail(...): the remaining answers are then ignored and the operation ends.
 * `send` and `on_reply` are required, the others may be NULL.
 */
typedef struct srt_operation {
    int fresh;   /* 1: layout and settings are asked for even if they are known */
    int creates; /* 1: creates a queue that does not exist, if its shards_count is not 0; other operations never do */
    int rereads; /* 1: reads settings again that are a minute old */
    int warns;   /* 1: warns of each setting that the code sets otherwise than Redis */
    int limited; /* 1: a push, whose limit is push_timeout */
    int every_answer; /* 1: answers are handed on even after srt_client_fail */
    /* queue: NULL for SRT_NO_QUEUE; its shards_count is 0 when Redis knows no such queue and it must not be made. */
    int (*send)(seriatim_client *c, srt_queue *queue);
    /*
     * request: as it was sent, with the kind, place and subject that the operation set. reply: no error; valid during
     * the call.
     */
    int (*on_reply)(seriatim_client *c, srt_request *request, const srt_reply *reply);
    /*
     * An error reply that repeating the request cannot change (FULL, SERVER, AUTH, STALE), LOADING of one whose slot
     * moves and was given up, or READONLY of a dispensable one. If NULL, the operation fails with it.
     */
    int (*on_refused)(seriatim_client *c, srt_request *request, const seriatim_error *error);
    /*
     * The layout of c->queue cannot be loaded: the operation goes on without that queue, and returns what `send` would.
     * If NULL, the operation fails with the error.
     */
    int (*on_unloaded)(seriatim_client *c, const seriatim_error *error);
    /*
     * The request was refused because the layout is old; `send` is called next. left: Redis may have executed an
     * earlier sending.
     */
    int (*on_stale)(seriatim_client *c, srt_request *request, int left);
    /* An answer has come, of which the other functions are told next, `send` among them. May set c->queue. */
    void (*before_answer)(seriatim_client *c, const srt_request *request);
    /*
     * All answers are in: the status of the operation, its text in c->error. `failed` is what srt_client_fail said
     * before, or OK. Without it, the status is `failed`.
     */
    int (*on_end)(seriatim_client *c, int failed);
    /* The time of srt_client_sleep is over, or a message came: sends more, sleeps again, or lets the operation end. */
    int (*on_awake)(seriatim_client *c);
    /* The connection has ended; the requests that wait for an answer will be sent again. May send more. */
    void (*on_disconnected)(seriatim_client *c);
    /*
     * The I/O side gives up. c->error says why; may be rewritten. Requests without an answer are still in c->cluster.
     */
    void (*on_give_up)(seriatim_client *c);
    /* The results are not used any more: frees c->state. */
    void (*release)(seriatim_client *c);
    /* The progress. Without the function, the operation is never shown on a terminal. */
    srt_done (*done)(const seriatim_client *c);
} srt_operation;

/* One job of a push: its three arguments of push.lua, encoded. bytes NULL: its outcome is known. */
typedef struct srt_push_job {
    const char *bytes;
    uint32_t len : 29;
    uint32_t scored : 1; /* it was given a score */
    uint32_t moved : 1;  /* while ids move: its id is not in its old shard any more */
    uint32_t away : 1;   /* the answer that is taken has not written it */
    uint32_t crc;
} srt_push_job;

/* While ids move, to which shard jobs are sent. */
typedef enum srt_push_step {
    SRT_PUSH_PLAIN, /* their id lies in the same shard before and after */
    SRT_PUSH_ASK,   /* their ids alone, to the old one: is any of them there? */
    SRT_PUSH_HERE,  /* the old one, where they may only join what is there */
    SRT_PUSH_MOVED, /* the new one, since the old one has said that their id is not there */
    SRT_PUSH_UNLESS /* the new one, which also looks into the old one: both lie on the same Redis */
} srt_push_step;
#define SRT_PUSH_STEPS 5

/* Of a chunk that was answered and is not settled. */
typedef enum srt_push_doubt {
    SRT_PUSH_CERTAIN,
    SRT_PUSH_UNCOUNTED, /* it is written, and its replicas are not counted */
    SRT_PUSH_COUNTED,   /* they are, and those of other chunks are not */
    SRT_PUSH_UNANSWERED /* of a push that is given up: Redis may have written it */
} srt_push_doubt;

/* Up to 1,000 jobs of one shard: places[first .. first + count). The shard may take only the first few of them. Chunks
 * of one shard are neighbours. */
typedef struct srt_push_chunk {
    unsigned shard;
    srt_push_step step;
    size_t first, count, bytes;
    int64_t sequence; /* 0: not queued yet */
    size_t taken;     /* of this many first jobs the outcome is known */
    srt_push_doubt doubt;
    const srt_redis *peer; /* who has written it, on its present connection, ... */
    uint64_t starts;       /* ... where the request begins (srt_request.starts) */
    int found;             /* of SRT_PUSH_ASK: one of its ids is in the shard, or on its way from it */
} srt_push_chunk;

#define SRT_OUTBOX_NAME 64 /* bytes, as seriatim_push_outbox says */

typedef struct srt_push {
    int open;        /* begun and not sent */
    srt_arena arena; /* the jobs' bytes */
    srt_push_job *jobs;
    size_t job_count, job_cap;
    size_t *places; /* of the planned jobs, by shard, then in the order of the caller */
    size_t place_cap;
    srt_push_chunk *chunks; /* of the present plan */
    size_t chunk_count, chunk_cap;
    char *outcomes;   /* of a pipeline: a seriatim_outcome for each job, in handle_arena; NULL: they are only counted */
    size_t first;     /* of a pipeline: the first job of the present push; else 0 */
    size_t opened;    /* chunks before this one belong to shards that were begun */
    size_t flying;    /* bytes of chunks that wait for an answer */
    size_t elsewhere; /* the same of the other queues of a pipeline; else 0 */
    int64_t generation; /* of the present plan's layout */
    unsigned old_count; /* of that layout; 0: no ids move */
    double floor;       /* the largest tick of a shard that an id had left: the least tick of its new shard */
    int asks, asked; /* while ids move: the present plan only asks whether ids are there; a plan of this layout has */
    int old_first;   /* while ids move: jobs go to the old shards before the new ones */
    int returned;    /* a new shard did not write jobs, because their ids are still in their old shards */
    int again;       /* an id is on its way, or was said to have left: a moment later all is asked anew */
    int moved;       /* an id is not in its old shard, and replicas have to know that before it is believed */
    size_t absences; /* connections on which that is asked for */
    size_t pending_chunks, written_chunks, failed_chunks;
    size_t pending_jobs, failed_jobs; /* pending: neither written nor failed */
    seriatim_error failure;           /* why the first chunk, or before sending a job, was refused */
    seriatim_push_counts counts;
    int has_options;
    int wants_handles; /* the answer has handles: wanted, or a job is scheduled */
    srt_arena handle_arena;
    seriatim_text *handles; /* one for each job, in the order of the caller; data NULL: the job was not kept */
    char **handle_texts;    /* of all jobs */
    size_t handle_count;
    int may_refuse;  /* a job has its own on_waiting "reject" or "unique" */
    size_t *refused; /* places; counts.refused of them */
    size_t refused_cap;
    int64_t replicas, wait_ms; /* wanted: WAIT replicas wait_ms; 0: none */
    int64_t limit_ms;          /* from its first step to its end */
    size_t unanswered;         /* requests without an answer, but for those about replicas */
    size_t unsure;             /* chunks that are written and not settled: not all replicas are counted */
    size_t connection; /* counts the lost connections on which ids were absent: an answer holds for its own only */
    int64_t fewest;    /* replicas that a master has said by WAIT, the smallest number; INT64_MAX: none has */
    seriatim_push_counts sure; /* counts and written_chunks without the unsure ones */
    size_t sure_chunks;
    char outbox[SRT_OUTBOX_NAME + 1]; /* the outbox that the jobs come from; empty: none */
    int64_t low, number;              /* of the first and the last job that was added, in the outbox; 0: none was */
    seriatim_error shortage;          /* REPLICAS: too few have it; no further WAIT is sent */
} srt_push;

/*
 * The subscription of a client to the wake-up channels of shards, on a connection of its own. A message on them ends
 * the sleep of the operation under way. With a host that makes no such connection an operation sleeps for short times
 * and asks again. listener.c.
 */
typedef struct srt_listener {
    srt_session session;
    srt_bytes channels; /* encoded, all that were ever wanted */
    size_t count;
    size_t unconfirmed; /* channels that were asked for and not confirmed */
    int begun;          /* its memory is made */
    int subscribed;     /* all are confirmed */
    int refused;        /* Redis refused them at refused_at: it is tried again a minute later */
    double refused_at;  /* Unix seconds by the host's clock */
} srt_listener;

#define SRT_CLIENT_RELEASES 5

struct seriatim_client {
    const seriatim_allocator *mem;
    srt_registry registry;
    srt_cluster cluster;  /* the Redis, or the masters, that it asks */
    srt_redis *answering; /* whose answer is taken now */
    srt_redis *lost;      /* whose connection has ended, or cannot count its replicas: on_disconnected is told */
    seriatim_error error;
    srt_bytes warning; /* NUL-terminated; empty without a warning */
    srt_bytes name;    /* CLIENT SETNAME, NUL-terminated; empty: none */
    size_t max_payload;
    char identity[SRT_IDENTITY +
                  1]; /* random text, new for each process; empty: there were no random bytes, and pushes are refused */
    int64_t sequence; /* of the last chunk; never falls */
    double unix_time; /* as io/link.c last said; 0: it did not */
    uint64_t begun, answers; /* operations begun and answers taken, for the limits of io/link.c */
    int limit_ms;            /* io/link.c gives up after this time without an answer; 0: its own limit */
    int visitor;             /* the socket of whoever wants the result: io/link.c gives up when it is closed; 0: none */
    int waited_for_move;     /* the operation gave up while a slot or ids moved, as the error says */
    int heard;               /* when it last gave up, Redis may have executed a request whose answer did not come */
    int64_t left_ms; /* milliseconds that the operation may still take, as io/link.c last said; INT64_MAX: it did not */
    int64_t spent_ms; /* milliseconds since the operation was first stepped, as io/link.c last said */
    int64_t sleep_ms; /* no request waits, and the operation goes on after this time; -1: it does not sleep */
    int64_t pause_ms; /* before the layout is loaded again: the operation sleeps so long; 0: not at all */
    srt_request
        *early; /* requests to shards that were not turned to their layout yet: they are sent again as they are */
    size_t early_count;  /* among `asked` */
    int64_t early_ms;    /* spent_ms when the first of them was refused */
    srt_request *absent; /* calls for ids that are not in their old shard, until a replica of that knows it */
    int64_t absences;    /* counts them: an answer that says whether a replica knows it names its call by this number */
    srt_listener listener;

    const srt_operation *operation; /* NULL: none since the client was made */
    void *state;                    /* the operation's */
    size_t queue;                   /* its queue, or SRT_NO_QUEUE */
    int status;                     /* AGAIN: under way */
    size_t asked;                   /* its requests that have no answer; handshakes do not count */
    int failed;                     /* the status that it will end with */
    int as_in_cluster;              /* set by tests: while ids move, pushes go to the old shards first */
    int stale;                      /* the layout is to be loaded again */
    int64_t stale_generation;       /* the one that was refused */
    srt_push *push;                 /* single, or that of a pipeline's queue */
    srt_push single;
    struct srt_pipeline *pipeline;                             /* NULL: none was begun */
    int pipeline_open;                                         /* begun and not sent */
    void (*releases[SRT_CLIENT_RELEASES])(seriatim_client *c); /* called when the client is freed */
    size_t release_count;

    seriatim_turns *turns, *own_turns; /* of pops with weights; NULL: none yet. own_turns are freed with the client */
    struct srt_web *web;               /* of the web requests; NULL: no web request was begun */
    void (*after)(
        seriatim_client *c); /* called once, when the operation under way has ended well; may begin the next */

    const char *address; /* of the Redis that it is connected to, as io/link.c says; NULL: it did not. Borrowed */
    void (*before_begin)(void *host); /* the host looks at getpid() and tells the time; may be NULL */
    void *host;
};

/*
 * Has the client call `release` once, when it is freed. For files above this one that keep memory in the client from
 * operation to operation: the client knows none of them by name. At most SRT_CLIENT_RELEASES in all.
 */
void srt_client_on_free(seriatim_client *c, void (*release)(seriatim_client *c));

/* ---- For operations ------------------------------------------------------------------------ */

/* Frees the last operation's results. */
void srt_client_release(seriatim_client *c);
/* OK, or INVALID: an operation is under way. */
int srt_client_check_idle(seriatim_client *c);
/* The same, and frees the last operation's results, and drops a push or pipeline that was not sent. */
int srt_client_begin(seriatim_client *c);
/* OK: it is under way. INVALID: no such queue, SRT_NO_QUEUE among them. NOMEM. */
int srt_client_start(seriatim_client *c, const srt_operation *operation, size_t queue);
/* The same for an operation that belongs to no queue. */
int srt_client_start_alone(seriatim_client *c, const srt_operation *operation);
/* srt_client_begin and srt_client_start_alone, for an operation without a state. */
int srt_client_begin_alone(seriatim_client *c, const srt_operation *operation);
/* OK, or INVALID: the client got no random bytes, so shards cannot tell its requests from those of other clients. */
int srt_client_check_identity(seriatim_client *c);
/* The queue with this number, or NULL (the error says so). */
srt_queue *srt_client_queue_at(seriatim_client *c, size_t queue);
/* Starts a script on a shard, with the shard's KEYS and the generation as ARGV[1]. NULL: out of memory. */
srt_request *srt_client_shard_request(seriatim_client *c, srt_queue *queue, unsigned shard, int script);
/* Starts a plain command on the key of this kind ("state", say) of a shard. NULL: out of memory; the error says so. */
srt_request *srt_client_key_request(seriatim_client *c, const srt_queue *queue, unsigned shard, const char *command,
                                    const char *kind);
/*
 * The same as srt_client_shard_request for one id, which is to become ARGV[place] (counted from 1, the generation
 * included). While ids move, the call goes to the shard that the id leaves, and, if that has not the id, to its new
 * one; the request that is answered has the kind, place, part, subject and number of this one.
 */
srt_request *srt_client_id_request(seriatim_client *c, srt_queue *queue, const char *id, size_t len, int script,
                                   int place);
/* Does the id change its shard now? */
int srt_queue_moves_id(const srt_queue *queue, const char *id, size_t len);
/*
 * Any other request: srt_session_begin on srt_cluster_pool(&c->cluster). Sends it; NOMEM is already a failure of the
 * operation.
 */
int srt_client_send(seriatim_client *c, srt_request *request);
/* Goes on with another queue: `send` is called for it, at once or when its layout is known. */
int srt_client_turn_to(seriatim_client *c, size_t queue);
/*
 * Asks for the layout of c->queue while requests for other queues are under way; then before_answer is told of a
 * request with this subject, and `send` is called. later: a few milliseconds later.
 */
int srt_client_ask_layout(seriatim_client *c, void *subject, int later);
/* Is the layout unknown, or are the settings a minute old? Then a push or pop asks for them. */
int srt_client_layout_is_old(const seriatim_client *c, const srt_queue *queue);
/* No request waits: `on_awake` is called after `ms` milliseconds, or when the listener gets a message. */
void srt_client_sleep(seriatim_client *c, int64_t ms);
/* Ends the operation with this status when all answers have come. Returns status; its text must be in c->error. */
int srt_client_fail(seriatim_client *c, int status);
int srt_client_fail_plain(seriatim_client *c, int status); /* with the text of the status, if it did not fail before */
/* 1: Redis, or a proxy before it, cannot answer now with this error; the same request may succeed later. */
int srt_client_must_pause(int status, const char *text);
/* After srt_client_send: Redis may have executed the same request, which was sent before. */
void srt_client_mark_left(srt_request *request);

/*
 * OK where Unix seconds are what a job may say; else INVALID: "<where><field> ...", with `hint` ("use delay") for
 * seconds from now.
 */
int srt_check_unix_time(seriatim_client *c, const char *where, const char *field, const char *hint, double time);

/* ---- For the I/O side, beside seriatim/binding/client.h ------------------------------------- */

/*
 * As the functions without _peer, for each Redis of a cluster: a host keeps connections as wire/cluster.h says, and
 * calls srt_cluster_tick.
 */
int srt_client_peer_connected(seriatim_client *c, srt_redis *p, const char *user, const char *password, int database);
void srt_client_peer_disconnected(seriatim_client *c, srt_redis *p);
int srt_client_peer_input(seriatim_client *c, srt_redis *p, const char *data, size_t len, seriatim_error *error);

/* Does a request wait for an answer? */
int srt_client_waits(const seriatim_client *c);

/* Warns once for each setting of the code that differs from the one in Redis (warning.c). */
void srt_client_warn(seriatim_client *c, srt_queue *queue);

/* ---- Requests that came too early (early.c), for client.c ------------------------------------- */

#define SRT_CLIENT_EARLY_MS 5   /* before they are sent again */
#define SRT_CLIENT_LAYOUT (-1)  /* kind of a request for a layout */
#define SRT_CLIENT_ABSENCE (-2) /* elsewhere.c's: ROLE, or WAIT */
/*
 * elsewhere.c: an id is not in its old shard. 1: the answer is taken; the request is kept and must not be used any
 * more.
 */
int srt_client_take_elsewhere(seriatim_client *c, srt_request *r, const seriatim_error *error);
/* An id is on its way to another shard. If the operation ends before it has arrived, this is why. */
void srt_client_note_on_its_way(seriatim_client *c);
/* The answer to SRT_CLIENT_ABSENCE; an error: the user may not ask. */
void srt_client_take_absence(seriatim_client *c, srt_request *r, const srt_reply *reply, const seriatim_error *error);
/* A connection has ended, or cannot be asked for replicas: what was said there is asked for anew. */
void srt_client_forget_absences(seriatim_client *c);
/* Was the request refused because the shard has an earlier layout than the request? */
int srt_client_is_early(seriatim_client *c, const srt_request *r, const seriatim_error *error);
void srt_client_keep_early(seriatim_client *c, srt_request *r);
/* A shard has done what was asked: what ids or shards were not ready for before holds the operation up no longer. */
void srt_client_forget_held_up(seriatim_client *c);
void srt_client_send_early(seriatim_client *c);
/* Other requests are under way: in a cluster maybe for long, so its clock repeats them, else the next answer. */
void srt_client_repeat_early(seriatim_client *c);
void srt_client_drop_early(seriatim_client *c);

/* ---- The listener, for the I/O side ---------------------------------------------------------- */

/* Listens to the wake-up channels of all shards of a queue as well, from the next connection or at once. OK or NOMEM.
 */
int srt_listener_add(seriatim_client *c, srt_queue *queue);
/* Appends the name of the channel on which Redis tells that an id of the shard is due. */
void srt_listener_name(srt_bytes *name, const srt_shard_keys *shard);
/* 1: a connection is wanted. It is made while the operation sleeps, and kept. */
int srt_listener_wanted(const seriatim_client *c);
int srt_listener_connected(seriatim_client *c, const char *user, const char *password, int database);
void srt_listener_disconnected(seriatim_client *c);
/* Takes bytes; a message, or that all channels are confirmed now, wakes the operation. As srt_client_input. */
int srt_listener_input(seriatim_client *c, const char *data, size_t len, seriatim_error *error);

#endif

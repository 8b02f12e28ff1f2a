/*
 * seriatim.h - the whole public C API of the core.
 *
 * Conventions, everywhere in this file:
 *   - Functions return SERIATIM_OK (0) or a negative seriatim_status. The text of a failure lies in
 *     the object that failed, or in the seriatim_error that the caller passed; there is no global.
 *   - Times are int64_t: `*_ms` milliseconds, `*_us` microseconds. `now_ms` is any monotonic clock
 *     of the caller; Unix times come from Redis alone.
 *   - Bytes are (pointer, length) pairs, never NUL-terminated unless said. A list that is NULL while its count is
 *     above 0 is INVALID.
 *   - A pointer that is returned is borrowed from its parent; the comment says until when.
 *     A pointer that is written through an out-argument belongs to the caller.
 *   - One object, one thread at a time. Different objects never share anything. The one exception
 *     is the runner, whose functions say which threads may call them.
 */
#ifndef SERIATIM_H
#define SERIATIM_H

#include <stddef.h>
#include <stdint.h>

#include "seriatim/definitions.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Set where the shared library is compiled, with -fvisibility=hidden: it exports what this file declares and nothing
 * else.
 */
#ifdef SERIATIM_EXPORTS
#pragma GCC visibility push(default)
#endif

#define SERIATIM_VERSION "0.1.0"

/* ---- Text ---------------------------------------------------------------------------------- */

/*
 * Escapes a text of foreign origin (an id, an error) so that a terminal or a line of a log can show it, in UTF-8.
 * Control characters (C0, DEL, C1), line separators, invisible characters and those that change the direction of
 * reading become \u001b and the like; a byte that is not valid UTF-8 becomes \xff. A line of JSON keeps its meaning.
 * Returns the number of bytes of the escaped text, which is `len` if nothing had to be escaped. Writes them to `out` if
 * they fit into `cap` bytes; otherwise the content of `out` is undefined. No NUL is added.
 */
size_t seriatim_printable(const char *text, size_t len, char *out, size_t cap);
/*
 * The texts of the command line, the same in each language: "help", "help VERB", "completion bash", "completion zsh",
 * "completion fish", "man", "verbs" (all verbs, separated by spaces), "options" (a line "VERB: OPTION ..." or
 * "VERB ACTION: OPTION ..." for each) and "option OPTION" (whose it is). Static, ASCII, NUL-terminated; {program}
 * stands for the command's own name. Returns NULL for an unknown topic.
 */
const char *seriatim_command_text(const char *topic);

/* ---- Status ------------------------------------------------------------------------------- */

#define SERIATIM_STATUSES(X)                                                                                           \
    X(OK, 0, "ok")                                                                                                     \
    X(AGAIN, -1, "waiting for I/O")                                                                                    \
    X(NOMEM, -2, "out of memory")                                                                                      \
    X(INVALID, -3, "invalid argument")                                                                                 \
    X(PROTOCOL, -4, "protocol error")                                                                                  \
    X(IO, -5, "connection failed")                                                                                     \
    X(TIMEOUT, -6, "timed out")                                                                                        \
    X(UNKNOWN_OUTCOME, -7, "outcome unknown")                                                                          \
    X(STALE, -8, "fence is stale")                                                                                     \
    X(FULL, -9, "Redis is out of memory")                                                                              \
    X(GENERATION, -10, "layout generation changed")                                                                    \
    X(READONLY, -11, "Redis is read-only")                                                                             \
    X(LOADING, -12, "Redis is not ready")                                                                              \
    X(AUTH, -13, "Redis refused the credentials")                                                                      \
    X(SERVER, -14, "Redis answered with an error")                                                                     \
    X(UNSUPPORTED, -15, "not supported by this build")                                                                 \
    X(CLOSED, -16, "closed")                                                                                           \
    X(REPLICAS, -17, "too few replicas have it")

typedef enum seriatim_status {
#define X(name, code, text) SERIATIM_##name = (code),
    SERIATIM_STATUSES(X)
#undef X
} seriatim_status;

/* An error: a seriatim_status and a message of one line, NUL-terminated. */
typedef struct seriatim_error {
    int status;
    char message[448];
} seriatim_error;

/* The name of a status, "INVALID" for SERIATIM_INVALID; "UNKNOWN" for any other number. Static. */
const char *seriatim_status_name(int status);
/* The general text of a status, "invalid argument". Static. */
const char *seriatim_status_text(int status);
/* SERIATIM_VERSION as the core was compiled. A binding compares it at load. Static. */
const char *seriatim_version(void);

/* ---- Memory ------------------------------------------------------------------------------- */

/*
 * One function does all allocation: new_size 0 frees and returns NULL; ptr NULL allocates; otherwise
 * it resizes. NULL for a non-zero new_size means out of memory, and the old block is untouched.
 */
typedef void *(*seriatim_alloc_fn)(void *user, void *ptr, size_t old_size, size_t new_size);

typedef struct seriatim_allocator {
    seriatim_alloc_fn alloc;
    void *user;
} seriatim_allocator;

/* realloc and free. Static, never NULL; used wherever a caller passes NULL for an allocator. */
const seriatim_allocator *seriatim_default_allocator(void);

/* ---- Queues and jobs ---------------------------------------------------------------------- */

/* Bytes of any kind; data NULL: none. */
typedef struct seriatim_text {
    const char *data;
    size_t len;
} seriatim_text;

#define SERIATIM_MAX_ID 1024 /* bytes of an id */
#define SERIATIM_MAX_SHARDS 4096
#define SERIATIM_MAX_BATCH 1000 /* ids of a delivery */

/*
 * The settings of a worker are rows of two tables in seriatim/definitions.h, which is written from
 * core/definitions/settings.json:
 *
 *   SERIATIM_QUEUE_SETTINGS  belong to the queue. They are stored in Redis beside the queue's layout: a worker's first
 * push or server writes them, a server that starts with other values overwrites them, and every other process uses the
 * stored values SERIATIM_OWN_SETTINGS    are not stored: each process acts by its own
 *
 * The kind of a row gives the type of its field:
 */
#define SERIATIM_FIELD_WORD const char * /* one of the row's words, NUL-terminated */
#define SERIATIM_FIELD_COUNT int64_t     /* a whole number */
#define SERIATIM_FIELD_SECONDS double    /* stored with microseconds */
#define SERIATIM_FIELD_FLAG int          /* 0 or 1 */

/* The settings of a worker. Strings are only read during the call that takes the struct. */
typedef struct seriatim_queue_settings {
    const char *name; /* any bytes, 1 to 512 of them; bindings call it queue_name */
    size_t name_len;
#define X(kind, field, ...) SERIATIM_FIELD_##kind field;
    SERIATIM_OWN_SETTINGS(X)
    SERIATIM_QUEUE_SETTINGS(X)
#undef X
} seriatim_queue_settings;

/* Sets the defaults of the tables, and no name. */
void seriatim_queue_settings_init(seriatim_queue_settings *settings);

typedef enum seriatim_when { SERIATIM_NOW, SERIATIM_AT, SERIATIM_DELAY } seriatim_when;

/* One job to push. Everything is only read during seriatim_push_job. */
typedef struct seriatim_job {
    const char *id; /* 1..1024 bytes */
    size_t id_len;
    const char *payload; /* bytes to the core; bindings write canonical JSON */
    size_t payload_len;
    int has_score;
    double score; /* finite; without one, payloads are in the order of arrival */
    int when;     /* a seriatim_when: the meaning of `time` */
    double time;  /* SERIATIM_AT: Unix seconds; SERIATIM_DELAY: seconds from now */
    /*
     * The payload is not there before deliver_time, meant by deliver_when as time by when; until then it joins and
     * blocks nothing. Then it arrives as a push does: its score, unless given, is deliver_at, and SERIATIM_DELAY counts
     * from deliver_at.
     */
    int deliver_when;
    double deliver_time;
    int64_t retry_count;    /* -1 for a new job */
    const char *on_waiting; /* NULL: the setting of the queue */
    const char *context;    /* a JSON object of texts, or empty */
    size_t context_len;
    int64_t number; /* 0; in a push for which seriatim_push_outbox was called: the job's number in the outbox */
} seriatim_job;

void seriatim_job_init(seriatim_job *job);

/* The shard (from 0) of an id in a queue that has shards_count shards; 0 if shards_count is 0. */
unsigned seriatim_shard_of(const char *id, size_t len, unsigned shards_count);

/* ---- Defaults of a host ------------------------------------------------------------------- */

/*
 * Seconds until the next run after the (retry_count + 1)-th failure in a row: count^4 + 15 + r * (count + 1), where r
 * is a whole number from 0 to 29 made of `random` (0 <= random < 1). The count is the new one, one more than that of
 * the job that failed. At most 100 years; a negative count is taken as 0.
 */
double seriatim_back_off(int64_t retry_count, double random);

/*
 * The same by the fixed table of the Java library delayedQueue: 10 seconds before the attempts 2 to 9, 60 before 10 to
 * 19, 300 before 20 to 39, then 1,440. The attempt after the failure that made retry_count `count` is number count + 2.
 */
double seriatim_back_off_of_events(int64_t retry_count);

#define SERIATIM_ELSEWHERE ((size_t)-1) /* the group of a shard that another node runs */

/*
 * Fixed groups for seriatim_runner_group: of `nodes` nodes, the one numbered `node` (from 0) gets every nodes-th of the
 * `shards` shards, counted over all workers; its shards are dealt to `threads` threads, one after another. nodes 1 and
 * node 0: all shards. groups[i] becomes the group of the i-th shard or SERIATIM_ELSEWHERE. Returns the number of
 * groups, none of which is empty: 0 to threads.
 */
size_t seriatim_split(size_t shards, size_t nodes, size_t node, size_t threads, size_t *groups);

/* ---- Client: push ------------------------------------------------------------------------- */

#define SERIATIM_MAX_PAYLOAD 1048576 /* bytes of a payload, unless the options of a client have another limit */

/* Options of a client or a node. Strings are only read during the call that takes the struct. */
typedef struct seriatim_options {
    const seriatim_allocator
        *allocator;   /* NULL: the default. It must outlive the object; the allocator of a runner must be thread-safe */
    const char *ns;   /* the namespace, with which every key begins; NULL: "seriatim" */
    const char *name; /* CLIENT SETNAME; NULL: none */
    size_t max_payload;   /* bytes of a payload, at most 128 MiB; 0: SERIATIM_MAX_PAYLOAD */
    const char *url_from; /* the setting or variable that holds the URL, for the error of a URL that is wrong, or of a
                             Redis that cannot be reached; NULL: the error names none */
} seriatim_options;

/*
 * A client performs one operation at a time: begin it, drive the I/O until it ends, read the result. To begin one while
 * another is under way is INVALID. A client does no I/O itself: a link (below) does, and seriatim_link_client is its
 * client. One that was made by seriatim_client_new has no link, and no function of this file does I/O for it: the
 * bindings that have sockets of their own do (core/include/seriatim/binding/client.h, which is not installed).
 */
typedef struct seriatim_client seriatim_client;

int seriatim_client_new(const seriatim_options *options, seriatim_client **client, seriatim_error *error);
void seriatim_client_free(seriatim_client *client);
/* The error of the last call that failed. Borrowed until the client's next call. */
const seriatim_error *seriatim_client_error(const seriatim_client *client);
/*
 * A warning for the log, one line, NUL-terminated; or NULL. Each warning is returned once: a push warns if the settings
 * of the queue in Redis, which it uses, differ from those given to seriatim_client_queue. Borrowed until the client's
 * next begin.
 */
const char *seriatim_client_warning(seriatim_client *client);
/*
 * Registers a queue, or changes the settings of one registered before. *queue is its number in this client. INVALID:
 * the message names the field.
 */
int seriatim_client_queue(seriatim_client *client, const seriatim_queue_settings *settings, size_t *queue);

/*
 * Begins to read the layout of the queue; creates the queue if settings.shards_count is not 0. Once it has ended,
 * _layout_shards is the number of its shards, or 0 if the queue does not exist.
 */
int seriatim_layout_begin(seriatim_client *client, size_t queue);
unsigned seriatim_layout_shards(const seriatim_client *client, size_t queue);

/*
 * A push: begin, add jobs, send, drive. Each job is checked when it is added; after SERIATIM_INVALID, whose message
 * names the job and the field, nothing of this push is written. Jobs are sent in chunks of at most 1,000, all of one
 * shard; a chunk that is sent twice is applied once.
 *
 * Of a queue without shards_count: INVALID if it does not exist; GENERATION if it was deleted since its layout was
 * read, and the message says how many jobs were not written, if some were.
 */
int seriatim_push_begin(seriatim_client *client, size_t queue);
int seriatim_push_job(seriatim_client *client, const seriatim_job *job);
/*
 * Call it between begin and send. The push completes once `count` replicas (0 to 1000; 0: do not wait) have
 * acknowledged it. The client sends WAIT after at most 256 KB of jobs; each WAIT takes at most `timeout` seconds (0.001
 * to 10). If fewer replicas acknowledge in time, the push ends with SERIATIM_REPLICAS: all of it is written on the
 * master, and seriatim_push_result is valid. If the connection ends before the replicas were counted, the push is sent
 * again, possibly to a new master. INVALID: the message names wait_replicas or wait_timeout.
 */
int seriatim_push_replicas(seriatim_client *client, int64_t count, double timeout);
/*
 * Call it between begin and send. The push fails if it has not ended `seconds` (0.001 to 50; the default is 10) after
 * its link was first stepped, including the time to wait for replicas. INVALID: the message names push_timeout. A
 * caller that has already waited, for a connection of a pool, passes the time that is left.
 */
int seriatim_push_timeout(seriatim_client *client, double seconds);
/*
 * Between begin and send: the push answers a handle for each job, by seriatim_push_handles. One that has a job with
 * deliver_when answers them in any case.
 */
int seriatim_push_want_handles(seriatim_client *client);
/*
 * Call it between begin and the first job: the jobs come from the outbox of this name (1 to 64 letters, digits, '-' and
 * '_'), and each job has a number, from 1 to 2^53, above that of the job before. The number of the first job is the
 * low-water mark: all jobs of this queue with smaller numbers were pushed, and will not be pushed again on purpose. A
 * shard keeps the numbers of the jobs that it took from the outbox, from the mark on, and the mark, without end; it
 * does not write a job whose number is kept or is below the mark. So the caller must push the jobs of a queue in the
 * order of their numbers, beginning with the first one of which it does not know that it was pushed; it may push jobs
 * again at any time later, from any process, and each is written once. If a chunk of jobs is refused, the later jobs of
 * its shard are not sent. The push answers no handles. INVALID: the message names the outbox.
 */
int seriatim_push_outbox(seriatim_client *client, const char *name);
int seriatim_push_send(seriatim_client *client);

typedef struct seriatim_push_counts {
    size_t added;     /* jobs whose id was not waiting before */
    size_t folded;    /* jobs folded into an id that waits */
    size_t refused;   /* jobs refused by on_waiting "reject" or "unique" */
    size_t scheduled; /* jobs that arrive later, at their deliver_at */
    size_t stale;     /* jobs refused because their score is not above the one that is remembered of their id
                         (remember_score) */
    size_t repeated;  /* jobs of an outbox that were written by an earlier push */
} seriatim_push_counts;

seriatim_push_counts seriatim_push_result(const seriatim_client *client);
/* The indexes (from 0) of the refused jobs, ascending. Borrowed until the next begin. */
const size_t *seriatim_push_refused(const seriatim_client *client, size_t *count);

/*
 * The handles of a push's jobs, in their order; *count is 0 where none were wanted. A handle is a text of printable
 * ASCII that names the payload as long as it is there: while it is scheduled, waits, runs, fails and waits again, also
 * when the queue is resharded. A job that was folded into an equal payload has that one's; one that was not kept has
 * data NULL. Borrowed until the next begin.
 */
const seriatim_text *seriatim_push_handles(const seriatim_client *client, size_t *count);

/*
 * A pipeline: several pushes, of one queue or of many, in one operation. seriatim_pipeline_begin, then for each push
 * seriatim_pipeline_push and its jobs by seriatim_push_job, then seriatim_pipeline_send, and drive.
 *
 * Nothing is sent before seriatim_pipeline_send; after SERIATIM_INVALID nothing of the pipeline is. All jobs of a queue
 * are sent as those of one push, in the order of their pushes, and the queues together. Another shard is begun while at
 * most 256 KB are on their way, or nothing of the same queue. The layout of each queue is loaded, where it is not
 * known, before anything is written. A queue that fails, or whose layout has changed or cannot be loaded, leaves the
 * others alone. So does one without shards_count that is deleted meanwhile: its pushes end with GENERATION.
 *
 * Between seriatim_pipeline_push and the next one: seriatim_push_timeout and seriatim_push_replicas. The strictest
 * options of all pushes hold for the pipeline: the shortest timeout, the most replicas, the longest wait for them.
 * seriatim_push_want_handles holds for its own push. There are no outboxes.
 *
 * The operation ends with the worst that became of a queue: UNKNOWN_OUTCOME, then other failures, then REPLICAS; where
 * it has several queues, the message names each that failed.
 */
int seriatim_pipeline_begin(seriatim_client *client);
/* The next push, of this queue. Pushes are numbered from 0. */
int seriatim_pipeline_push(seriatim_client *client, size_t queue);
int seriatim_pipeline_send(seriatim_client *client);

/* What became of a job, as a letter. */
typedef enum seriatim_job_outcome {
    SERIATIM_JOB_ADDED = 'n',
    SERIATIM_JOB_FOLDED = 'f',
    SERIATIM_JOB_REFUSED = 'r',
    SERIATIM_JOB_SCHEDULED = 's',
    SERIATIM_JOB_STALE = 't',
    SERIATIM_JOB_UNWRITTEN = '-',
    SERIATIM_JOB_UNKNOWN = '?' /* it was sent and not answered, or is written, maybe on too few replicas */
} seriatim_job_outcome;

/*
 * What became of one push of an ended pipeline: its status, which is also that of *error; its jobs that were written,
 * or turned away, are counted in *counts. UNKNOWN_OUTCOME: some of its jobs were sent and not answered, or are written,
 * maybe on too few replicas. REPLICAS: it is written, and too few replicas are known to have it. Any other status but
 * OK: some of its jobs were not written. Each push of a pipeline that was refused has the error of that.
 */
int seriatim_pipeline_result(const seriatim_client *client, size_t push, seriatim_push_counts *counts,
                             seriatim_error *error);
/* A seriatim_job_outcome of one job (from 0) of a push; 0: the push has fewer. */
int seriatim_pipeline_outcome(const seriatim_client *client, size_t push, size_t job);
/* As seriatim_push_handles, of one push. */
const seriatim_text *seriatim_pipeline_handles(const seriatim_client *client, size_t push, size_t *count);

/* ---- Two-phase commit sets (Ick) ------------------------------------------------------------ */

/*
 * A set of members with scores, from which consumers reserve the lowest and commit what they have processed. A member
 * that is added again while it is reserved is reserved once more after the commit. A set belongs to no queue.
 *
 * The calls of one trip to Redis: seriatim_ick_begin, the calls in their order, seriatim_ick_send, drive, and
 * seriatim_ick_results. Each call is checked when it is made; after SERIATIM_INVALID, whose message names the argument,
 * the trip cannot be sent. A call of more than SERIATIM_ICK_SLICE members is several scripts, which are not atomic
 * together. Of the calls on one set, a call of another kind, and one behind a call of several scripts, is sent when the
 * earlier ones have ended.
 * A request whose answer was lost with its connection is sent again. Redis may then execute it twice, and what others
 * do between the two is not protected: a repeated add brings back a member that was committed meanwhile, a repeated
 * delete removes what was added meanwhile. The figures are those of the repetition: a repeated commit gives 0.
 */
#define SERIATIM_ICK_SLICE 1000
#define SERIATIM_ICK_MAX_NAME 1024    /* bytes; 0 are possible */
#define SERIATIM_ICK_MAX_MEMBER 1024  /* bytes; 0 are possible */
#define SERIATIM_ICK_MAX_CONSUMER 512 /* bytes, 1 at least */
#define SERIATIM_ICK_MAX_SIZE 2147483647

/* Which set, and who asks. It is only read during the call that takes it. */
typedef struct seriatim_ick {
    seriatim_text name;
    seriatim_text consumer; /* data NULL: "consumer" */
    double reserve_time;    /* seconds for which no other consumer gets what this one reserves: 0.1 to 86400; 0: 30 */
    int64_t token;          /* of the reservations to commit, from the result of this caller's last reserve or exchange;
                               0: it has none. A commit behind a reserve of the same trip and consumer ends nothing: the
                               reserve has given all that the consumer holds a newer token */
} seriatim_ick;

typedef struct seriatim_ick_member {
    const char *data;
    size_t len;
    double score; /* may be infinite; not NaN */
} seriatim_ick_member;

int seriatim_ick_begin(seriatim_client *client);
/* Adds members; of one that is there already the lower score counts. */
int seriatim_ick_add(seriatim_client *client, const seriatim_ick *ick, const seriatim_ick_member *members,
                     size_t count);
/*
 * Reserves members, the lowest scores first, until the consumer holds max_size (0 to SERIATIM_ICK_MAX_SIZE) of them,
 * and gives the max_size lowest of these. All that the consumer holds gets a new token. backwash 1: what it holds goes
 * back first, so that the lowest of all are reserved. If another process reserves as the same consumer between two
 * scripts of one reserve, this one only gives what it had listed and what the consumer still holds, and its commits end
 * nothing.
 */
int seriatim_ick_reserve(seriatim_client *client, const seriatim_ick *ick, int64_t max_size, int backwash);
/* Ends the reservations of these members that were made under the token. Their scores are not read. */
int seriatim_ick_commit(seriatim_client *client, const seriatim_ick *ick, const seriatim_ick_member *members,
                        size_t count);
/* commit and then reserve, in one script for up to SERIATIM_ICK_SLICE members each. */
int seriatim_ick_exchange(seriatim_client *client, const seriatim_ick *ick, int64_t max_size, int backwash,
                          const seriatim_ick_member *members, size_t count);
int seriatim_ick_stats(seriatim_client *client, const seriatim_ick *ick);
/* Removes the set. Redis frees its memory in another thread. */
int seriatim_ick_delete(seriatim_client *client, const seriatim_ick *ick);
/*
 * Adds all members of a set that the Redis::Ick gem has stored at `key` of the same database, reserved ones, too. It
 * only reads the keys of the gem. INVALID ends the trip if there is no such set, or if one of its members has more than
 * SERIATIM_ICK_MAX_MEMBER bytes; all are checked before the first is added.
 */
int seriatim_ick_import(seriatim_client *client, const seriatim_ick *ick, seriatim_text key);
int seriatim_ick_send(seriatim_client *client);

/* Members that are to be reserved, or that are reserved, or both. Scores are NaN if there is no member. */
typedef struct seriatim_ick_figures {
    int64_t size;
    double lowest, highest;
} seriatim_ick_figures;

/* What a call gives; the rest is 0. */
typedef struct seriatim_ick_result {
    int64_t added;   /* add, import: new members */
    int64_t lowered; /* add, import: lowered scores */
    int64_t ended;   /* commit, exchange: reservations that were ended */
    int64_t deleted; /* delete: how many of these there were: the set, members to be reserved, reserved members */
    int64_t token;   /* reserve, exchange: of what the consumer holds now; 0: it holds nothing, or max_size is 0 */
    const seriatim_ick_member *members; /* reserve, exchange: the lowest score first */
    size_t count;
    int exists;          /* stats: there is such a set, and: */
    const char *version; /* static */
    int64_t consumers;   /* consumers that hold members */
    seriatim_ick_figures producer, consumer, total;
    seriatim_text producer_key, consumer_key; /* the keys in Redis of the members to be reserved, and of those that this
                                                 consumer holds */
} seriatim_ick_result;

/* The results of the calls, in their order. Borrowed until the client's next begin. */
const seriatim_ick_result *seriatim_ick_results(const seriatim_client *client, size_t *count);

/* ---- Link: a client with a socket --------------------------------------------------------- */

/*
 * One connection to Redis that reconnects by itself and resends requests that were not answered. Call step until it
 * returns something else than SERIATIM_AGAIN. After AGAIN wait, by the host's own means, until seriatim_link_fd is
 * ready for seriatim_link_wants, but no longer than seriatim_link_timeout_ms. A link that was made before fork(2)
 * detects the fork and opens a connection of its own in the child.
 */
typedef struct seriatim_link seriatim_link;

#define SERIATIM_WANT_READ 1
#define SERIATIM_WANT_WRITE 2

int seriatim_link_new(const seriatim_options *options, const char *url, seriatim_link **link, seriatim_error *error);
void seriatim_link_free(seriatim_link *link);
seriatim_client *seriatim_link_client(seriatim_link *link);
/* The URL without its password. Borrowed. */
const char *seriatim_link_url(const seriatim_link *link);
/*
 * The address of the Redis that it is or was last connected to: "host:port", or the path of a socket; empty before the
 * first connection. With sentinels it is the address of the master. NUL-terminated, borrowed until the next step.
 */
const char *seriatim_link_address(const seriatim_link *link);
/* clang-format off: the lines of the list */
/*
 * Goes on with the operation of the client. Return values:
 *   OK                the operation has ended well, or no operation is under way
 *   AGAIN             wait, then step again
 *   CLOSED            the link was reset, or the operation was begun before a fork
 *   UNKNOWN_OUTCOME   the push timed out, or the link was reset, and part of it may have been written; the message
 *                     names the chunks
 *   IO, TIMEOUT       Redis could not be reached, or did not answer: within seriatim_push_timeout for a push, within
 *                     30 seconds for any other operation, within 5 seconds for both if this link was never connected
 *                     (and for as long as its host name was looked up)
 *   any other status  Redis refused the request, see seriatim_client_error
 */
/* clang-format on */
int seriatim_link_step(seriatim_link *link);
int seriatim_link_fd(const seriatim_link *link);    /* -1: only wait for the timeout */
int seriatim_link_wants(const seriatim_link *link); /* SERIATIM_WANT_* bits */
int seriatim_link_timeout_ms(const seriatim_link *link);
/* Waits by poll(2), for hosts without a scheduler of their own. OK or IO; a signal returns early with OK. */
int seriatim_link_wait(seriatim_link *link);
/*
 * Cancels the operation under way and closes the socket; the next operation connects again. It ends as CLOSED, a push
 * of which something was sent and not answered as UNKNOWN_OUTCOME.
 */
void seriatim_link_reset(seriatim_link *link);
/*
 * Shows on a terminal how far the next action on a whole queue, or the next check, is, until it ends: one line that is
 * drawn at most ten times a second and erased at the end. Other operations before it show nothing. A second call
 * replaces the first. fd: open until that end. what: the words in front of the figures, copied. total: how many ids or
 * records there are; -1: not known. Returns 1, or 0 where fd is no terminal, to which nothing is ever written.
 */
int seriatim_link_progress(seriatim_link *link, int fd, const char *what, size_t len, int64_t total);

/* ---- Sentinel: where the master is now ---------------------------------------------------- */

/* clang-format off: the lines of the program */
/*
 * Only for hosts with sockets of their own: links and runners ask the sentinels themselves at every connect. Asks the
 * sentinels of a redis+sentinel:// URL one after another, beginning with the one that answered last, and does no I/O.
 * If the master that this one named has served nobody, the round begins behind it, because it may go on naming an old
 * one:
 *
 *     seriatim_sentinel_begin(s);
 *     while (seriatim_sentinel_next(s, &where) == SERIATIM_OK)
 *         connect to `where`; send seriatim_sentinel_output; give what comes to seriatim_sentinel_input until it is not
 *         AGAIN, all within SERIATIM_SENTINEL_MS;
 *         OK: connect to the master; when it has answered a request: seriatim_sentinel_served
 *         when it cannot be asked: seriatim_sentinel_failed
 *
 * The Redis that the host then connects to must answer ROLE with "master": the session of a client that expects a
 * master checks it.
 */
/* clang-format on */
typedef struct seriatim_sentinel seriatim_sentinel;

#define SERIATIM_SENTINEL_MS 500 /* time to connect to one sentinel and get its answer */

typedef struct seriatim_address {
    const char
        *host; /* a name or an address, NUL-terminated; borrowed until the sentinel's next call but output and error */
    int port;
    int tls;
} seriatim_address;

/* INVALID: the URL is not a redis+sentinel:// or rediss+sentinel:// one. */
int seriatim_sentinel_new(const seriatim_allocator *allocator, const char *url, seriatim_sentinel **sentinel,
                          seriatim_error *error);
void seriatim_sentinel_free(seriatim_sentinel *sentinel);
/* Begins a new round: all sentinels may be asked again. */
void seriatim_sentinel_begin(seriatim_sentinel *sentinel);
/* The sentinel to ask now. IO: all were asked, and seriatim_sentinel_error holds the reason of each. NOMEM. */
int seriatim_sentinel_next(seriatim_sentinel *sentinel, seriatim_address *where);
/* The request to send to it. Borrowed until the next call of seriatim_sentinel_next. */
void seriatim_sentinel_output(const seriatim_sentinel *sentinel, const char **data, size_t *len);
/*
 * Takes bytes of its answer. OK: *master is known. AGAIN: read more. Anything else: it does not know the master; close
 * and ask the next one.
 */
int seriatim_sentinel_input(seriatim_sentinel *sentinel, const char *data, size_t len, seriatim_address *master);
/* Records that this sentinel cannot be asked, at none of the addresses of its name, and why. */
void seriatim_sentinel_failed(seriatim_sentinel *sentinel, const char *why);
/* The master that was named is one, and has answered: the next round begins with the same sentinel. */
void seriatim_sentinel_served(seriatim_sentinel *sentinel);
/* The error of seriatim_sentinel_next when it returned IO. Borrowed. */
const seriatim_error *seriatim_sentinel_error(const seriatim_sentinel *sentinel);

/* ---- Deliveries --------------------------------------------------------------------------- */

typedef struct seriatim_payload {
    const char *data;
    size_t len;
    double score;
    const char *context; /* a JSON object of texts, or empty */
    size_t context_len;
    double stamp;  /* the time of arrival in microseconds, unique among the payloads of the id */
    int has_score; /* the score was given with the push; else it is the time of arrival, or deliver_at */
} seriatim_payload;

/* One id with all payloads that waited when it was claimed, by score, then by arrival. */
typedef struct seriatim_claimed {
    const char *id;
    size_t id_len;
    int64_t fence;
    int64_t retry_count; /* -1: not failed since it was last done, had a checkpoint or was unparked */
    double perform_in;   /* Unix time in seconds at which it became due */
    const char *error;   /* of the last failure, or empty */
    size_t error_len;
    const seriatim_payload *payloads;
    size_t payload_count;
    size_t payload_total; /* SERIATIM_EXHAUSTED: the number of all payloads whose retries ended; `payloads` are the
                             first 256 KiB or so of them */
} seriatim_claimed;

typedef enum seriatim_delivery_kind {
    SERIATIM_RUN,  /* run the ids, then set the outcome of each */
    SERIATIM_DIED, /* a process died that ran this id and nothing else: do not run it, fail it with the error "worker
                      died" */
    /*
     * Call the worker's retries_exhausted hook with these ids, at most 100; they have no outcome. If the setting
     * exhausted_hook is 1, they stay in Redis until the delivery is settled; if the process dies before, they are
     * delivered again, also to another process.
     */
    SERIATIM_EXHAUSTED
} seriatim_delivery_kind;

/* Some ids of one shard, handed to one thread. Everything read from it is borrowed until it is settled. */
typedef struct seriatim_delivery seriatim_delivery;

int seriatim_delivery_kind_of(const seriatim_delivery *delivery);
size_t seriatim_delivery_worker(const seriatim_delivery *delivery); /* its number, from seriatim_runner_worker */
unsigned seriatim_delivery_shard(const seriatim_delivery *delivery);
size_t seriatim_delivery_size(const seriatim_delivery *delivery);
/* The i-th id, from 0; NULL: there are fewer. */
const seriatim_claimed *seriatim_delivery_job(const seriatim_delivery *delivery, size_t i);

/*
 * Set the outcome of the i-th id. The last call counts; an id without an outcome is released. Return OK, NOMEM, or
 * INVALID: there is no i-th id.
 */
int seriatim_delivery_done(seriatim_delivery *delivery, size_t i);
/*
 * retry_in: seconds until the next run, clamped to 0..100 years; NaN counts as 0. The first 64 KiB of the error are
 * kept.
 */
int seriatim_delivery_fail(seriatim_delivery *delivery, size_t i, const char *error, size_t len, double retry_in);
int seriatim_delivery_release(seriatim_delivery *delivery, size_t i);
/*
 * The id has neither ended nor failed: what is left of it waits for `seconds` (0 to 100 years), as after a failure,
 * with the retry_count that it has. payload: the bytes that the first payload that is left becomes, copied here, at
 * most SERIATIM_MAX_PAYLOAD; it keeps its score and its arrival. NULL: it stays. OK, NOMEM, or INVALID: seconds, len or
 * i is out of range, and the outcome is what it was.
 */
int seriatim_delivery_snooze(seriatim_delivery *delivery, size_t i, double seconds, const char *payload, size_t len);
/*
 * The payloads at these indexes (ascending) cannot be read: they are moved to the morgue, and the id is delivered again
 * without them. INVALID also if the id has no payload at one of them, or a checkpoint has ended it, or they are not
 * ascending; then the outcome is what it was.
 */
int seriatim_delivery_reject(seriatim_delivery *delivery, size_t i, const size_t *places, size_t count,
                             const char *reason, size_t len);

/* ---- Client: pull ------------------------------------------------------------------------- */

/*
 * A popper is a client that takes single ids, from queues that servers and other poppers may use as well, and reports
 * the result of each. It owns no shard and has no heartbeat: an id that it does not acknowledge within `ttr` seconds
 * has failed and is due again at once. Everything is only read during the call that takes the struct.
 */
typedef struct seriatim_pop {
    /* Numbers from seriatim_client_queue, 1 to 1000 of them: all shards of the first queue go before the second. */
    const size_t *queues;
    size_t queue_count;
    /*
     * NULL, or a weight of 1 to 1000000 for each queue: the queues take turns by their weights, and an empty one loses
     * its turn. seriatim_client_share_turns says who remembers whose turn it is.
     */
    const int64_t *weights;
    /*
     * Seconds to wait if no id is due, 0 to 60. Only a link can wait; a host that drives the client itself must pass 0.
     */
    double wait;
    double ttr;  /* seconds, 0.001 to a year; 0: the id is taken and ended at once, and is lost if the answer is lost */
    int64_t max; /* the most payloads of a delivery, 1 to 1000; it also ends at 1 MiB, but has one payload at least */
} seriatim_pop;

/* One popped id. Borrowed until the client's next begin. */
typedef struct seriatim_popped {
    size_t queue; /* its number */
    seriatim_claimed job;
    int more;            /* 1: the id has more payloads; they are delivered when these have ended */
    int64_t deliveries;  /* pops of the id since it was last acknowledged, had a checkpoint or was buried; from 1 */
    seriatim_text token; /* for seriatim_popped_begin, in any process; printable ASCII; data NULL if ttr is 0 */
} seriatim_popped;

/* Sets the defaults: no queues, wait 2 seconds, ttr 30 seconds, max 1000. */
void seriatim_pop_init(seriatim_pop *pop);
/*
 * Whose turn it is among queues that are popped with weights. Clients that share the turns of a process may be in
 * several threads; clients that pop without shared turns each have turns of their own.
 */
typedef struct seriatim_turns seriatim_turns;
/* allocator: thread-safe; NULL: the default. NULL: out of memory. */
seriatim_turns *seriatim_turns_new(const seriatim_allocator *allocator);
/* After the last client that shares them. NULL: nothing happens. */
void seriatim_turns_free(seriatim_turns *turns);
/* From its next pop on, the client takes turns with all others that share these turns. Borrowed. */
void seriatim_client_share_turns(seriatim_client *client, seriatim_turns *turns);
/* Begins a pop. INVALID: the message names the field. A queue that does not exist is treated as empty. */
int seriatim_pop_begin(seriatim_client *client, const seriatim_pop *pop);
/* What was popped, or NULL: no id was due. */
const seriatim_popped *seriatim_pop_result(const seriatim_client *client);

typedef enum seriatim_popped_kind {
    /* The delivered payloads are done. */
    SERIATIM_POPPED_ACK,
    /*
     * The run failed with the error `text`, of which 64 KiB are kept. The id is due after `seconds`, or after the
     * default back-off if `seconds` is negative.
     */
    SERIATIM_POPPED_FAIL,
    /* Hands the id back, due as it was. No failure is counted. */
    SERIATIM_POPPED_RELEASE,
    /* The run goes on, and must be acknowledged within `seconds` from now. */
    SERIATIM_POPPED_EXTEND,
    /*
     * Hands the id back, due after `seconds`. No failure is counted. `text`, at most SERIATIM_MAX_PAYLOAD, becomes the
     * first payload that is left, unless its data is NULL.
     */
    SERIATIM_POPPED_SNOOZE,
    /* The run goes on. The first `payload_count` payloads of the delivery are done whatever becomes of the others. */
    SERIATIM_POPPED_CHECKPOINT,
    /*
     * `payloads`, at most 250, cannot be read: they go to the morgue with the reason `text`. The others are due as they
     * were.
     */
    SERIATIM_POPPED_REJECT
} seriatim_popped_kind;

typedef struct seriatim_popped_outcome {
    int kind;       /* a seriatim_popped_kind */
    double seconds; /* at most 100 years; not negative, except of FAIL */
    seriatim_text text;
    const seriatim_payload *payloads; /* REJECT: as they were delivered; only their stamps are read */
    size_t payload_count;             /* of CHECKPOINT at most as many as were delivered */
} seriatim_popped_outcome;

/*
 * Begins to report the result of a delivery. It ends as STALE and changes nothing if the delivery is not the caller's
 * any more: its time is over, it has ended, or its queue was deleted. INVALID: the text is no token, or the message
 * names the field.
 */
int seriatim_popped_begin(seriatim_client *client, seriatim_text token, const seriatim_popped_outcome *outcome);

#define SERIATIM_TOKEN 3148 /* no token of a delivery has more bytes */

/* What the token of a delivery says. */
typedef struct seriatim_token_parts {
    seriatim_text queue, id;
    int64_t fence;
    size_t payload_count; /* of the delivery */
} seriatim_token_parts;

/* Reads a token. The texts of `parts` lie in `bytes`. OK, or INVALID: the text is no token. */
int seriatim_token_read(seriatim_text token, char bytes[SERIATIM_TOKEN], seriatim_token_parts *parts);

/* ---- Node: the server as a state machine -------------------------------------------------- */

typedef enum seriatim_scheduler { SERIATIM_LAG, SERIATIM_SEQ, SERIATIM_PRIORITY } seriatim_scheduler;

typedef struct seriatim_node_settings {
    seriatim_options options;
    const char *id; /* 1 to 64 bytes of [A-Za-z0-9_.-], never used by another node: a random one for each start */
    const char *description; /* for operators: host, pid, language, version; may be NULL */
    int64_t lease_ms;        /* 200..3600000; usually 10000 */
    int64_t poll_ms;         /* 10..3600000; usually 1000 */
    size_t threads;          /* of the host, 1..10000 */
    int scheduler;           /* a seriatim_scheduler, used if no fixed group is made */
} seriatim_node_settings;

typedef struct seriatim_shard {
    size_t worker;
    unsigned shard;
} seriatim_shard;

/* Events that the node reports to its host; `text` is one line for the log. */
typedef enum seriatim_event_kind {
    SERIATIM_EVENT_LEASE,     /* shards were taken or given up */
    SERIATIM_EVENT_LOST,      /* another node has taken over a shard; results of its running jobs will be rejected */
    SERIATIM_EVENT_REFUSED,   /* Redis rejected `number` job results */
    SERIATIM_EVENT_RECOVERED, /* `number` runs of a dead node were put back */
    SERIATIM_EVENT_LINK,      /* a connection serves, or one that did was lost */
    SERIATIM_EVENT_WARNING,
    SERIATIM_EVENT_FAILURES, /* `number` failures were not logged one by one, see seriatim_runner_failure */
    SERIATIM_EVENT_MORGUE,   /* morgue_max_age or morgue_max_count removed `number` dead ids of a shard */
    SERIATIM_EVENT_STALE /* `number` scheduled payloads were dropped at their deliver_at: their scores were not above
                            the remembered one */
} seriatim_event_kind;

typedef struct seriatim_event {
    int kind;
    int64_t number;
    char text[512];
} seriatim_event;

/* ---- Runner: a node with sockets and a thread of its own ---------------------------------- */

typedef struct seriatim_runner seriatim_runner;
typedef struct seriatim_waiter seriatim_waiter;

/* Makes a runner; nothing is started. */
int seriatim_runner_new(const seriatim_node_settings *settings, const char *url, seriatim_runner **runner,
                        seriatim_error *error);
/*
 * Adds a worker; *worker is its number, from 0 in the order of the calls. To a runner that was started, from any
 * thread: it serves the worker's queue as soon as Redis has answered, unless it has groups of fixed shards. A queue
 * that was withdrawn is served again, under its earlier number. INVALID: the message names the field, or says that the
 * queue has a worker or that the groups are fixed; CLOSED: the runner stops; NOMEM.
 */
int seriatim_runner_worker(seriatim_runner *runner, const seriatim_queue_settings *settings, size_t *worker,
                           seriatim_error *error);
/*
 * The runner serves the queue of this worker no more: it claims nothing, hands back what it has claimed and not begun,
 * and releases the shards when what runs has ended; then other nodes take them. OK; AGAIN: it was withdrawn before;
 * INVALID: no such worker; NOMEM, and nothing has changed.
 */
int seriatim_runner_withdraw(seriatim_runner *runner, size_t worker, seriatim_error *error);
/*
 * Before start: makes a fixed group of shards with a scheduler and threads of its own; *group is its number. If no
 * group is made, the living nodes divide all shards evenly among themselves, and the shards of this node form group 0.
 * INVALID: the message names what is wrong, or says that the runner was started.
 */
int seriatim_runner_group(seriatim_runner *runner, int scheduler, const seriatim_shard *shards, size_t count,
                          size_t *group, seriatim_error *error);
/*
 * Starts the thread. Call it in the process that will work: the thread does not survive fork(2). It may be called again
 * after IO or NOMEM (no descriptor, thread or memory was free).
 */
int seriatim_runner_start(seriatim_runner *runner, seriatim_error *error);

/*
 * Any thread, at any time. A runner has no group before seriatim_runner_start, and after it failed. Of a group that it
 * does not have nothing can be taken (INVALID), there are no candidates, the descriptor is -1, and the functions that
 * wait return at once.
 */

/*
 * Takes the next delivery of a group. OK; AGAIN: none is ready, wait; CLOSED: there will be no more, the calling thread
 * may end; INVALID: there is no such group.
 */
int seriatim_runner_take(seriatim_runner *runner, size_t group, seriatim_delivery **delivery);
/* Hands a delivery back with its outcomes and frees it. Always returns OK. NULL: nothing happens. */
int seriatim_runner_settle(seriatim_runner *runner, seriatim_delivery *delivery);
/* Settles `settled` (unless it is NULL), then takes the next delivery; returns what seriatim_runner_take returns. */
int seriatim_runner_settle_and_take(seriatim_runner *runner, seriatim_delivery *settled, size_t group,
                                    seriatim_delivery **next);
/* Moves the end of an id's time to run to `seconds` from now. OK, NOMEM, or INVALID: there is no i-th id. */
int seriatim_runner_extend(seriatim_runner *runner, seriatim_delivery *delivery, size_t i, double seconds);
/*
 * The first `count` payloads of the i-th id, in the order of seriatim_claimed, are done, whatever becomes of the id:
 * they are not delivered again after a failure, a crash or a snooze. The request is sent at once, and this does not
 * wait for the answer; until it comes, a crash may deliver these payloads again. The run goes on. What is left counts
 * as never failed: a later failure of the run is the first in a row, whatever retry_count seriatim_claimed has. A count
 * that is not greater than an earlier one changes nothing, and after abandon nothing is sent, which flush says. OK;
 * NOMEM; INVALID: count is greater than the number of payloads, there is no i-th id, or the delivery is no
 * SERIATIM_RUN.
 */
int seriatim_runner_checkpoint(seriatim_runner *runner, seriatim_delivery *delivery, size_t i, size_t count);
/*
 * Waits until Redis has confirmed all checkpoints of the delivery; it sends nothing. OK: it has. STALE, whatever was
 * confirmed before: Redis refused a checkpoint; the runner lost the shard; it has claimed one of the ids again, because
 * a ttr was over; or abandon has handed the delivery back. A ttr that is over is not noticed before one of these.
 * CLOSED: another thread settled the delivery meanwhile, or seriatim_runner_wake_all ended the wait. AGAIN: timeout_ms
 * are over (0: does not wait; -1: no limit), or a signal came; it may be called again.
 */
int seriatim_runner_flush(seriatim_runner *runner, seriatim_delivery *delivery, int timeout_ms);
/* A thread that waits so; on its stack. The fields are the runner's. */
typedef struct seriatim_flush {
    const seriatim_delivery *delivery; /* NULL: settled meanwhile, or the wait has ended */
    struct seriatim_flush *next;
} seriatim_flush;
/*
 * seriatim_runner_flush in three calls, for a language whose lock keeps other threads from settling the delivery: begin
 * while the lock is held, wait without it as often as is wanted, end once, whatever came. begin and wait return what
 * seriatim_runner_flush does; begin does not wait.
 */
int seriatim_runner_flush_begin(seriatim_runner *runner, seriatim_delivery *delivery, seriatim_flush *flush);
int seriatim_runner_flush_wait(seriatim_runner *runner, seriatim_flush *flush, int timeout_ms);
void seriatim_runner_flush_end(seriatim_runner *runner, seriatim_flush *flush);
/*
 * After AGAIN: wait until the descriptor of the group is readable, or until a time of your choice, then call clear
 * once, whatever ended the wait, and take again.
 */
int seriatim_runner_fd(seriatim_runner *runner, size_t group);
void seriatim_runner_clear(seriatim_runner *runner, size_t group);
/*
 * The same for a thread that waits by itself, so that one thread is woken at a time. wait_begin registers the caller
 * and returns the descriptor to poll; wait_end unregisters it and stands for clear. The waiter is the runner's; it is
 * NULL when the descriptor is the group's.
 */
int seriatim_runner_wait_begin(seriatim_runner *runner, size_t group, seriatim_waiter **waiter);
void seriatim_runner_wait_end(seriatim_runner *runner, size_t group, seriatim_waiter *waiter);
/* Ends the waits of all threads, for a host that is about to free the runner. */
void seriatim_runner_wake_all(seriatim_runner *runner);
/*
 * wait_begin, poll(2) for at most timeout_ms (-1: without a limit), and wait_end: for hosts without a scheduler of
 * their own.
 */
void seriatim_runner_wait(seriatim_runner *runner, size_t group, int timeout_ms);

/* For hosts with a scheduler of their own: a shard of a group that has claimed ids. */
typedef struct seriatim_candidate {
    seriatim_shard shard;
    double lag; /* seconds since its oldest id became due */
    size_t size;
} seriatim_candidate;
/*
 * Fills `list` with the shards of the group that have claimed ids, the oldest due first, at most `cap`. Returns their
 * number.
 */
size_t seriatim_runner_candidates(seriatim_runner *runner, size_t group, seriatim_candidate *list, size_t cap);
/*
 * Like seriatim_runner_take, but ids that are ready are taken only from this shard. With SERIATIM_MAX_SHARDS, a number
 * that no shard has, only what no scheduler chooses is taken: ids in doubt and dead ids.
 */
int seriatim_runner_take_from(seriatim_runner *runner, size_t group, seriatim_shard shard,
                              seriatim_delivery **delivery);

/*
 * The next event. OK, or AGAIN if no event waits. Call it regularly: at most 64 events wait, later ones are dropped,
 * and a SERIATIM_EVENT_WARNING behind those 64 says how many.
 */
int seriatim_runner_event(seriatim_runner *runner, seriatim_event *event);
/*
 * Reports that the threads of the host are alive: without a call for a lease time the node stops renewing its
 * heartbeat.
 */
void seriatim_runner_pulse(seriatim_runner *runner);
/*
 * Whether and as what the host logs a failure. Call it after seriatim_delivery_fail or _reject of id i and before
 * settle. Returns the name of the log event (static), or NULL: do not log it. "fail": the id will be retried; at the
 * limit of retries "dead", "parked" or "dropped", depending on on_exhausted; "dead" also for payloads that cannot be
 * read. At most 10 failures of a queue are logged one by one in a second. Further ones are counted, and
 * SERIATIM_EVENT_FAILURES reports their number once a second until a second has no more than 10. Any thread may call
 * it.
 */
const char *seriatim_runner_failure(seriatim_runner *runner, const seriatim_delivery *delivery, size_t i);
/* Stops claiming and hands back ids that no thread has taken; running jobs go on. */
void seriatim_runner_quiet(seriatim_runner *runner);
/*
 * Like quiet; then waits for running jobs, releases every shard and leaves the cluster of nodes. take returns CLOSED.
 * seriatim_runner_stopped says when it is done.
 */
void seriatim_runner_stop(seriatim_runner *runner);
/* After stop: hands back running jobs as well; their later outcomes are ignored. */
void seriatim_runner_abandon(seriatim_runner *runner);
int seriatim_runner_stopped(seriatim_runner *runner); /* 1: the stop is complete */
/*
 * The ids that threads run, for the log of an end that does not wait for them: "3 ids: Orders 17, Orders 18 and 1
 * more", one line of printable text; each id stands behind the name of its queue, and both are cut at 64 bytes; "0 ids"
 * if there are none. Writes at most `cap` bytes (128 or more), NUL-terminated; ids that do not fit are only counted.
 * Returns the number of ids. Any thread may call it.
 */
size_t seriatim_runner_unfinished(seriatim_runner *runner, char *out, size_t cap);

/* A command that an operator sends to a node. */
typedef enum seriatim_order { /* NONE, QUIET, STOP, each of which includes those before it */
                              SERIATIM_ORDER_NONE,
#define X(number, ...) SERIATIM_ORDER_##number,
                              SERIATIM_ORDERS(X)
#undef X
} seriatim_order;

/*
 * The seriatim_order that came with the last heartbeat, until the host has called quiet or stop for it. Call it
 * regularly.
 */
int seriatim_runner_asked(seriatim_runner *runner);

typedef struct seriatim_runner_stats {
    uint64_t commands;  /* sent to Redis */
    uint64_t processed; /* ids settled as done */
    uint64_t failed;
    uint64_t refused; /* settles that Redis refused */
    size_t shards;    /* owned */
    size_t running;   /* ids that threads have taken */
    size_t claimed;   /* ids claimed that no thread has taken yet */
    int connected;    /* and Redis has answered a heartbeat within the last lease_time: else no id is handed out */
} seriatim_runner_stats;
seriatim_runner_stats seriatim_runner_stats_now(seriatim_runner *runner);

/*
 * Ends the thread (without waiting for running jobs), closes the sockets and frees the runner. No other thread may be
 * inside a call.
 */
void seriatim_runner_free(seriatim_runner *runner);

/* ---- Operators: queries, actions, metrics ------------------------------------------------- */

/*
 * Like a push, each of these operations is begun, driven to its end, and then its result is read. Results are borrowed
 * until the client's next begin. A queue that does not exist in Redis is treated as empty and is not created.
 */
/* A scheduled payload: its deliver_at has not come, or no claim has moved it since. */
typedef struct seriatim_scheduled {
    seriatim_payload payload; /* its score is deliver_at if the push gave none */
    int scored;               /* 1: the push gave the score */
    double deliver_at;        /* Unix time in seconds */
    double pushed_at;         /* Unix time in seconds */
    seriatim_text handle;     /* as the push answered it */
} seriatim_scheduled;

/* One stored record of an id, which waits, is parked, runs, is dead, or has only scheduled payloads. */
typedef struct seriatim_record {
    const char *id;
    size_t id_len;
    const char *state;   /* "waiting" (due), "delayed", "retrying", "unproven", "suspect", "parked", "running", "dead",
                            "scheduled"; static */
    int behind;          /* 1: it waits while a run of the same id is open */
    double perform_in;   /* Unix time in seconds; 0 for a dead one; the next deliver_at for a scheduled one */
    double updated_at;   /* Unix time in seconds of the last death; 0 for others */
    int64_t retry_count; /* -1: not failed since it was last done, had a checkpoint or was unparked */
    const char *error;   /* of the last failure, or empty */
    size_t error_len;
    const seriatim_payload *payloads; /* by score, then by arrival; no more than payload_limit */
    size_t payload_count;
    size_t payload_total; /* number of payloads that are stored */
    int64_t fence;        /* of the run; 0 if it does not run */
    unsigned shard;
    /*
     * Of SERIATIM_FETCH the id's first scheduled payloads, at most 10 and about 384 KiB; of
     * SERIATIM_RANGE_BY_DELIVER_AT the one payload:
     */
    const seriatim_scheduled *scheduled; /* by deliver_at, then by arrival */
    size_t scheduled_count;
    size_t scheduled_total; /* number of scheduled payloads that are stored */
    double deliver_at;      /* of the first scheduled payload, Unix time in seconds; 0 if none is scheduled */
} seriatim_record;

typedef enum seriatim_query_kind { /* SERIATIM_RANGE_BY_ID and so on: seriatim/definitions.h says what each of them
                                      returns */
#define X(number, ...) SERIATIM_##number,
                                   SERIATIM_QUERIES(X)
#undef X
} seriatim_query_kind;

/*
 * Bounds are text in the syntax of Redis: for ids "-", "+", "[x", "(x"; for numbers (seconds, counts) "5", "(5"
 * (exclusive), "-inf",
 * "+inf". A bound with data NULL is unlimited. Everything is only read during the call that takes the struct.
 */
typedef struct seriatim_query {
    int kind;    /* seriatim_query_kind */
    int reverse; /* 1: descending; min is still the smaller bound */
    seriatim_text min, max;
    int64_t limit;         /* 1..100000 */
    int64_t payload_limit; /* of one record, 1..1000000 */
    int64_t shard;         /* -1: all */
    const seriatim_text
        *ids; /* of the two FETCH kinds; of RANGE_BY_DELIVER_AT none, or the one id whose payloads are wanted */
    size_t id_count;
} seriatim_query;

/* Sets the defaults: no bounds, all shards, limit 10, at most 1,000 payloads of a record. */
void seriatim_query_init(seriatim_query *query, int kind);
/* Begins a query, whose result is merged over all shards. INVALID: the message names the bound or the field. */
int seriatim_query_begin(seriatim_client *client, size_t queue, const seriatim_query *query);
const seriatim_record *seriatim_query_result(const seriatim_client *client, size_t *count);

/* clang-format off: the lines of a list */
/*
 * SERIATIM_PAUSE and so on: seriatim/definitions.h says what each action does and what it takes, as texts:
 *
 *   NOTHING    no texts. An action on ALL ids changes those that are there when it begins; it works in slices, and ids
 *              that come meanwhile are not touched
 *   IDS        the ids
 *   PAYLOAD    an id and the bytes of one of its payloads. Of equal payloads the one with the lowest score, then the
 *              first to arrive, is removed; an id without payloads is removed, too. Of a running id only payloads that
 *              wait behind the run can be removed: the others have been delivered. The result is 1, or 0 if there is no
 *              such payload; it is also 0 if the payload was claimed, or got another score, between the read and the
 *              removal
 *   HANDLE     the handle of a payload, see seriatim_push_handles. INVALID: the text is no handle, or of another queue.
 *              The result is 1, or 0 if the payload is being delivered, was, is dead or gone
 *   For PAYLOAD and HANDLE: after a lost connection, 0 may mean that this very call removed the payload.
 *   HANDLE_AT  a handle, and Unix time in seconds as a decimal text, "1790000000.5"
 *   RECORD     an id, and what another system held of it, packed as core/scripts/client/import.lua says. INVALID: the
 *              queue does not exist. The result is 1, or 2 if a record of the source with this or a later sequence was
 *              added before
 *   SHARDS     the number of shards that the queue is to get, 1 to SERIATIM_MAX_SHARDS, as a decimal text. INVALID: it
 *              is another number; the queue does not exist; its ids are on their way to another number of shards; an
 *              earlier version wrote the number of an outbox into one of its shards. UNSUPPORTED: a living server of
 *              the queue is of a version that cannot move ids. Nothing is written then. The operation ends when the
 *              shards know of it. The servers of the queue move the ids, also if they start later. To begin it again
 *              changes nothing. The result is 1, or 0 if the queue has this number or is on its way to it
 *   QUEUE      nothing, or the name of the queue. INVALID while a node serves it, and if it holds ids (waiting,
 *              running, parked, dead) unless its name is given. Pushes by clients that know the old layout wait until
 *              it is deleted; the push of a worker creates the queue again
 *
 * The result is the number of ids that were changed, for PARK of those that were there, for PAUSE the number of shards
 * that were not paused before, for RESUME of those that were, for DELETE_QUEUE 1.
 */
/* clang-format on */
typedef enum seriatim_action_kind {
#define X(number, ...) SERIATIM_##number,
    SERIATIM_ACTIONS(X)
#undef X
} seriatim_action_kind;

int seriatim_action_begin(seriatim_client *client, size_t queue, int kind, const seriatim_text *texts, size_t count);
/* The number that the action changed; after a failure, the number it had changed before. */
int64_t seriatim_action_result(const seriatim_client *client);

/* The figures of a shard; or of a queue: the sums over its shards, the largest lag, the earliest `first`. */
typedef struct seriatim_metrics {
    int64_t length;    /* waiting ids: fresh + retries; neither running nor parked ones, nor scheduled payloads */
    int64_t scheduled; /* payloads whose deliver_at has not come, or that no claim has moved yet */
    int64_t
        stale; /* jobs refused or dropped because their score was not above the one that was remembered of their id */
    int64_t fresh, retries, morgue_length, busy, parked, unproven, suspect;
    int64_t processed, failed, refused; /* counters of settled ids; they never decrease */
    int64_t morgue_removed;             /* counter of dead ids that morgue_max_age and morgue_max_count removed */
    double lag; /* seconds since the oldest waiting id became due, or since the first deliver_at passed; 0 if nothing is
                   due */
    double first;         /* Unix time in seconds at which the first waiting id is due; 0 if no id waits */
    double now;           /* Unix time in seconds by the clock of Redis */
    int64_t paused;       /* number of paused shards */
    int64_t lease, fence; /* of a shard */
    const char *owner;    /* of a shard: the id of the node that owns it, or empty. NUL-terminated */
} seriatim_metrics;

/* How far the servers are with a change of the number of shards, which SERIATIM_RESHARD has begun. */
typedef struct seriatim_resharding {
    unsigned from, to;    /* numbers of shards, before and after */
    unsigned shards_left; /* of the first number: shards that ids still leave */
    int64_t ids_moved;    /* from shard to shard, since it was begun */
    int64_t ids_left; /* an estimate: ids are moved whose jobs were all done, too, and ids whose jobs are done meanwhile
                         are not */
} seriatim_resharding;

int seriatim_metrics_begin(seriatim_client *client, size_t queue);
const seriatim_metrics *seriatim_metrics_total(const seriatim_client *client);
const seriatim_metrics *seriatim_metrics_shards(const seriatim_client *client, size_t *count);
/* NULL: no ids move. When a move has ended, the queue has `to` shards. */
const seriatim_resharding *seriatim_metrics_resharding(const seriatim_client *client);

/*
 * One event of an id's history. The setting history_per_id says how many Redis keeps; each is kept for seven days after
 * the last one.
 */
typedef struct seriatim_history_entry {
    const char *text; /* the event as a line for a reader, without the error: "2026-03-01T12:00:00.000Z claimed by node
                         N under fence 7"; NUL-terminated */
    const char *
        event; /* "pushed", "folded", "claimed", "done", "failed", ...; "unknown" if a later version wrote it; static */
    double at; /* Unix time in seconds, by Redis' clock */
    double due;    /* Unix time in seconds from which the id may run, or at which its payload arrives; 0: at once, or it
                      does not apply */
    int64_t fence; /* of the run, if the event is "claimed" or "done"; else 0 */
    int64_t payloads;  /* how many payloads a "checkpoint" ended or were "buried"; else 0 */
    const char *node;  /* the id of the node that "claimed" it, or empty; NUL-terminated */
    const char *error; /* the first 1,024 bytes of the error, as the worker's dump_error wrote it, or empty */
    size_t error_len;
} seriatim_history_entry;

/* Why an id is or is not running. */
typedef struct seriatim_explanation {
    const char *text; /* the answer in one sentence, NUL-terminated */
    /* Records without payloads; the state is "unknown" if there is no such record: */
    seriatim_record job;    /* the record that waits, is parked or runs */
    seriatim_record behind; /* the record of jobs pushed while it runs */
    seriatim_record dead;   /* the record in the morgue */
    int64_t scheduled;      /* number of its scheduled payloads */
    double deliver_at;      /* of the first of them, Unix time in seconds; 0 if it has none */
    const char *owner;      /* the id of the node that owns the shard, or empty; NUL-terminated */
    int owner_alive;        /* 1: the owner has a heartbeat */
    int known;              /* 1: a living node serves the queue */
    int paused;             /* 1: the shard is paused */
    int64_t lease, fence;   /* of the ownership, of the last claim */
    int has_score;          /* 1: a score is remembered of the id; jobs whose own score is not above it are stale */
    double score;           /* that score */
    double score_until;     /* the Unix time in seconds until which it is remembered */
    double now;
    const seriatim_history_entry *history; /* the last events of the id, the latest last; borrowed as the result */
    size_t history_count;
} seriatim_explanation;

int seriatim_explain_begin(seriatim_client *client, size_t queue, const char *id, size_t len);
const seriatim_explanation *seriatim_explain_result(const seriatim_client *client);

/* A defect that a check found. docs/internals/layout.md lists the kinds. */
typedef struct seriatim_finding {
    unsigned shard;
    const char *kind; /* one word, NUL-terminated like the detail */
    const char *detail;
    const char *id;
    size_t id_len;
    int repaired; /* 1: it was repaired */
} seriatim_finding;

/* In the place of the number of a queue: the whole namespace. */
#define SERIATIM_NO_QUEUE ((size_t)-1)

/*
 * Checks the integrity of what is stored of a queue, in slices; with `repair` 1 it repairs what can be repaired without
 * losing a payload. With SERIATIM_NO_QUEUE it checks that every key of the namespace belongs to a queue or to the
 * nodes, and that every queue has a layout; the id of a finding is then the key ("stray"), the queue ("layout") or the
 * node ("node").
 */
int seriatim_check_begin(seriatim_client *client, size_t queue, int repair);
const seriatim_finding *seriatim_check_result(const seriatim_client *client, size_t *count);
size_t seriatim_check_looked_at(const seriatim_client *client); /* number of entries that were checked */

/* The type of a field that a node tells of its process, by its kind, and its value if the node does not report it. */
#define SERIATIM_NODE_INTEGER int64_t   /* -1 */
#define SERIATIM_NODE_SECONDS double    /* NaN */
#define SERIATIM_NODE_TEXT const char * /* empty; NUL-terminated */

typedef struct seriatim_living_node {
    const char *name, *description; /* NUL-terminated; the description that its host gave it */
    double expires_in;              /* seconds until its heartbeat expires */
    const char *state;              /* "working", "quiet" (does not claim any more), "stopping"; static */
#define X(kind, field, key) SERIATIM_NODE_##kind field; /* seriatim/definitions.h says what it is */
    SERIATIM_NODE_FIELDS(X)
#undef X
} seriatim_living_node;

int seriatim_nodes_begin(seriatim_client *client);
const seriatim_living_node *seriatim_nodes_result(const seriatim_client *client, size_t *count);

/*
 * Sends a node, named by its id, the command to stop claiming or to stop (a seriatim_order). The node receives it at
 * once, or with its next heartbeat. To send it twice changes nothing, and QUIET does not revoke STOP. INVALID: another
 * number.
 */
int seriatim_order_begin(seriatim_client *client, const char *node, size_t len, int order);
/*
 * 1: the node is alive and will receive it (a version without such commands ignores it). 0: no living node has this id.
 */
int seriatim_order_result(const seriatim_client *client);

/*
 * The names of all queues that were ever used in the namespace, in the order of their bytes. It uses SCAN, which reads
 * every key.
 */
int seriatim_queues_begin(seriatim_client *client);
const seriatim_text *seriatim_queues_result(const seriatim_client *client, size_t *count);

/*
 * Whether Redis is configured to keep jobs, and which Redis it is: read by INFO. If Redis refuses INFO (because of an
 * ACL or a proxy), the operation ends with OK and the fields are "not reported". The result is NULL before there was an
 * answer.
 */
typedef struct seriatim_health {
    const char *maxmemory_policy; /* "noeviction" or another; NUL-terminated, empty: not reported */
    int append_only;              /* 1 on, 0 off, -1: not reported */
    const char *role;             /* "master", "slave"; NUL-terminated, empty: not reported */
    int replicas;                 /* connected ones; -1: not reported */
    const char *address;          /* of the Redis that answered, see seriatim_link_address; NUL-terminated */
} seriatim_health;

int seriatim_health_begin(seriatim_client *client);
const seriatim_health *seriatim_health_result(const seriatim_client *client);

/* ---- Web: the dashboard, its API, the metrics --------------------------------------------- */

/*
 * Answers one HTTP request of a browser, a script or Prometheus: begin, drive like a query, then call
 * seriatim_web_answer, and drive again if that gives NULL. The core opens no socket and no file; a host only
 * translates. Every request gets an answer, also one that is refused. A request that does not need Redis has ended when
 * begin returns (drive it all the same). docs/reference/http-api.md lists the routes and the shapes.
 */
typedef enum seriatim_web_role {
    SERIATIM_WEB_NOBODY,
#define X(number, ...)                                                                                                 \
    SERIATIM_WEB_##number, /* VIEWER, OPERATOR, ADMIN: each may do what those before it may; CONSUMER: it may consume  \
                              only, as ADMIN */
    SERIATIM_ROLES(X)
#undef X
} seriatim_web_role;

/* bytes of a body; hosts stop reading there and answer 413, as the core does */
#define SERIATIM_WEB_MAX_BODY 1048576

/* A request. It is only read during begin; a text that is absent has data NULL. */
typedef struct seriatim_web_request {
    const char *method;   /* "GET", "HEAD", "POST"; NUL-terminated */
    seriatim_text prefix; /* where the dashboard is mounted, "" or "/admin/jobs" */
    seriatim_text path;   /* what follows it, still percent-encoded where the host can tell: "/api/web/dashboard" */
    seriatim_text query;  /* without "?" */
    seriatim_text host, origin, sec_fetch_site, content_type, authorization, accept,
        accept_encoding; /* header fields */
    seriatim_text body;
    int secure;     /* 1: it came by https */
    int role;       /* a seriatim_web_role: what the host application permits the user */
    int socket;     /* the descriptor of the visitor's connection, open until the answer; 0: not known. A link stops a
                       change, with CLOSED, when the visitor has closed it; what was done before stays */
    int host_waits; /* above 0: a pop that finds nothing does not wait: the answer says when to ask again, in wait_ms;
                       the number of polls that wait so in this process, with this one */
    int64_t waited_ms; /* of a pop: for how long the host has waited for it in earlier requests */
} seriatim_web_request;

/* One of the host application's workers, by its name there and the name of its queue. */
typedef struct seriatim_web_worker {
    seriatim_text name, queue;
} seriatim_web_worker;

/* Only read during begin. */
typedef struct seriatim_web_settings {
    const char *title; /* NULL: "Seriatim" */
    int read_only;     /* 1: routes that change something are refused */
    const char *const
        *hosts; /* the values of the Host field that are accepted, "localhost:9292"; without a port: with any port */
    size_t host_count;   /* 0: any Host is accepted; the host application checks it */
    const char *token;   /* NULL: no token; else all but the probes and the files of the page require `Authorization:
                            Bearer TOKEN` */
    const char *stalled; /* NULL: this process works, or has no runner; else the reason for which /livez answers 503 */
    const seriatim_web_worker *workers; /* those whose name is not that of their queue; more of them change nothing */
    size_t worker_count;
    int loads_errors; /* 1: seriatim_web_answer gets a load_error, so errors are grouped by what it gives */
    int consume;      /* 1: the routes of consumers are there */
} seriatim_web_settings;

/*
 * Begins to answer a request. settings may be NULL. INVALID: an operation is under way. After NOMEM there is an answer,
 * too.
 */
int seriatim_web_begin(seriatim_client *client, const seriatim_web_settings *settings,
                       const seriatim_web_request *request);

/*
 * Called for each payload, context and error before it is put into an answer. Returns the text to show instead
 * (borrowed until the next call), or `text` itself. The text is shortened only afterwards. Of an error of which only
 * the beginning is at hand it gets all but the last 512 bytes, then the beginning, and what both results begin with is
 * shown. For a group of errors id is empty.
 */
typedef seriatim_text seriatim_web_redact(void *context, seriatim_text queue, seriatim_text id, seriatim_text text);

/*
 * Called for each error before it is redacted, shown or grouped, with the bytes that dump_error gave. Returns the text
 * to show, borrowed until the next call of this function; it may tell why the error cannot be loaded. data NULL: the
 * request is ended, by a 500 and before any change.
 */
typedef seriatim_text seriatim_web_load_error(void *context, seriatim_text stored);

/* The host's functions, which are called by seriatim_web_answer only; each may be NULL. */
typedef struct seriatim_web_hooks {
    seriatim_web_redact *redact;
    seriatim_web_load_error *load_error;
    void *context; /* their first argument */
} seriatim_web_hooks;

typedef struct seriatim_web_header {
    const char *name, *value; /* NUL-terminated */
} seriatim_web_header;

typedef struct seriatim_web_response {
    int status;
    const seriatim_web_header *headers; /* without Content-Length */
    size_t header_count;
    seriatim_text body; /* empty for HEAD */
    int wait_ms; /* above 0: nothing is due. A host that set host_waits waits for this time or until its client has
                    gone, and then begins the same request again, or sends this answer. */
} seriatim_web_response;

/*
 * The answer. status: how driving the client ended; if Redis cannot be reached the answer is a 503. Borrowed until the
 * client's next begin or the next answer. hooks may be NULL. NULL, only if the settings say loads_errors: errors were
 * loaded and the request goes on; drive the client to its end and call this again.
 */
const seriatim_web_response *seriatim_web_answer(seriatim_client *client, int status, const seriatim_web_hooks *hooks);

/*
 * What a request asked to change and what the result was, for the audit log of the host; also for a request that was
 * refused. Texts are as the request gave them, except `line`, which holds no line breaks and no control characters.
 * Borrowed until the client's next begin.
 */
typedef struct seriatim_web_change {
    const char *action;        /* "pause", "delete", "quiet_node"; static */
    const char *role;          /* "viewer", "operator", "admin"; "nobody", also if the token was missing; static */
    seriatim_text queue, node; /* one of them is set; the other has data NULL */
    seriatim_text fingerprint; /* of a group of errors; else data NULL */
    seriatim_text shards;      /* the number of shards that the queue is to get; else data NULL */
    const seriatim_text
        *ids; /* of the body, at most 1,000; empty if the request was refused before the body was read */
    size_t id_count;
    int64_t count;     /* number of ids (pause, resume: shards) that were changed; -1: not known */
    int status;        /* of the answer; 0: there was no answer, so the result is not known */
    const char *error; /* of an answer that is not 200; else empty */
    seriatim_text
        line; /* the same as one line for a log, UTF-8: at most ten ids, 200 bytes of each text. Empty: out of memory */
} seriatim_web_change;

/* The change of the last request; call it after seriatim_web_answer, or instead of it. NULL: it was not a change. */
const seriatim_web_change *seriatim_web_change_of(seriatim_client *client);

/* All routes except the page and its files, for tests that check each of them. Static. */
typedef struct seriatim_web_route {
    const char *method, *pattern; /* "GET", "/api/web/:worker/range_by_id" */
    int role;                     /* the least seriatim_web_role that it requires; NOBODY: open to all */
    const char *action;           /* the change, as the audit log names it: "pause"; NULL: it changes nothing */
} seriatim_web_route;
const seriatim_web_route *seriatim_web_routes(size_t *count);

#ifdef SERIATIM_EXPORTS
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif

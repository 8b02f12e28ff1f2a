/*
 * seriatim.h - the whole public C API of the core.
 *
 * Conventions, everywhere in this file:
 *   - Functions return SERIATIM_OK (0) or a negative seriatim_status. The text of a failure lies in
 *     the object that failed, or in the seriatim_error that the caller passed; there is no global.
 *   - Times are int64_t: `*_ms` milliseconds, `*_us` microseconds. `now_ms` is any monotonic clock
 *     of the caller; Unix times come from Redis alone.
 *   - Bytes are (pointer, length) pairs, never NUL-terminated unless said.
 *   - A pointer that is returned is borrowed from its parent; the comment says until when.
 *     A pointer that is written through an out-argument belongs to the caller.
 *   - One object, one thread at a time. Different objects never share anything. The one exception
 *     is the runner, whose functions say which threads may call them.
 */
#ifndef SERIATIM_H
#define SERIATIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Set where the shared library is compiled, with -fvisibility=hidden: it exports what this file declares and nothing else. */
#ifdef SERIATIM_EXPORTS
#pragma GCC visibility push(default)
#endif

#define SERIATIM_VERSION "0.1.0"

/* ---- Text ---------------------------------------------------------------------------------- */

/*
 * A text of foreign origin (an id, an error) as a terminal and a log of lines may show it, in UTF-8: control characters (C0, DEL,
 * C1), line separators, and characters that are not seen or turn the direction of reading become \u001b and the like, a byte that is
 * no UTF-8 becomes \xff. A line of JSON stays the same JSON. Returns how many bytes that takes: `len` where nothing is to be escaped,
 * else more. Writes them to `out` where they fit into `cap` bytes; if they do not, `out` holds nothing of use. No NUL is added.
 */
size_t seriatim_printable(const char *text, size_t len, char *out, size_t cap);
/*
 * What the command says of itself, the same in each language: "help", "help VERB", "completion bash", "completion zsh", "man", and
 * "verbs", their names with spaces between. Static, ASCII, NUL-terminated; {program} stands for the command's own name. NULL: there is
 * no such topic.
 */
const char *seriatim_command_text(const char *topic);

/* ---- Status ------------------------------------------------------------------------------- */

#define SERIATIM_STATUSES(X)                                                                       \
    X(OK, 0, "ok")                                                                                 \
    X(AGAIN, -1, "waiting for I/O")                                                                \
    X(NOMEM, -2, "out of memory")                                                                  \
    X(INVALID, -3, "invalid argument")                                                             \
    X(PROTOCOL, -4, "protocol error")                                                              \
    X(IO, -5, "connection failed")                                                                 \
    X(TIMEOUT, -6, "timed out")                                                                    \
    X(UNKNOWN_OUTCOME, -7, "outcome unknown")                                                      \
    X(STALE, -8, "fence is stale")                                                                 \
    X(FULL, -9, "Redis is out of memory")                                                          \
    X(GENERATION, -10, "layout generation changed")                                                \
    X(READONLY, -11, "Redis is read-only")                                                         \
    X(LOADING, -12, "Redis is not ready")                                                          \
    X(AUTH, -13, "Redis refused the credentials")                                                  \
    X(SERVER, -14, "Redis answered with an error")                                                 \
    X(UNSUPPORTED, -15, "not supported by this build")                                             \
    X(CLOSED, -16, "closed")                                                                       \
    X(REPLICAS, -17, "too few replicas have it")

typedef enum seriatim_status {
#define X(name, code, text) SERIATIM_##name = (code),
    SERIATIM_STATUSES(X)
#undef X
} seriatim_status;

/* What went wrong, held by whoever owns the struct. `message` is one line, NUL-terminated. */
typedef struct seriatim_error {
    int status;
    char message[256];
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

#define SERIATIM_MAX_ID 1024           /* bytes of an id */
#define SERIATIM_MAX_SHARDS 4096
#define SERIATIM_MAX_BATCH 1000        /* ids of a delivery */

/*
 * The settings that belong to a queue. They lie in Redis beside its layout: a worker's first push or server writes them, a
 * server that starts with other values overwrites them, and everybody else acts by what Redis has. All that the core and
 * Redis have of them is made from this table. X(kind, name, smallest, largest, default, words, told):
 *
 *   WORD     one of `words`, which end with a NUL each
 *   COUNT    a whole number
 *   SECONDS  kept with microseconds
 *   FLAG     0 or 1
 *   told     1: values that differ are worth a warning
 */
#define SERIATIM_QUEUE_SETTINGS(X)                                                                 \
    X(WORD, fold, 0, 0, "merge", "merge\0list\0last\0first\0", 1)                                  \
    X(WORD, on_waiting, 0, 0, "keep", "keep\0earlier\0later\0replace\0reject\0unique\0", 1)        \
    X(WORD, on_exhausted, 0, 0, "bury", "bury\0park\0drop\0", 1)                                   \
    X(COUNT, max_retry_count, 0, 1000000, 25, NULL, 1)                                             \
    X(SECONDS, ttr, 0, 31536000, 0, NULL, 1) /* time to run; 0: any */                             \
    X(FLAG, serial_shards, 0, 1, 0, NULL, 1) /* one delivery of a shard at a time */               \
    X(FLAG, exhausted_hook, 0, 1, 0, NULL, 0) /* the worker has a retries_exhausted hook */

#define SERIATIM_SETTING_WORD const char *
#define SERIATIM_SETTING_COUNT int64_t
#define SERIATIM_SETTING_SECONDS double
#define SERIATIM_SETTING_FLAG int

/*
 * What a worker says of its queue. Words are the contract's, NUL-terminated. Strings are only read
 * during the call that takes the struct.
 */
typedef struct seriatim_queue_settings {
    const char *name; /* any bytes, 1 to 512 of them */
    size_t name_len;
    int64_t shards_count; /* 1..4096; creates the queue, later Redis decides; 0: only look, and act by Redis' settings */
    int64_t batch_size;   /* 1..1000 ids a delivery; like priority not the queue's but each server's own */
    int64_t priority;     /* of build_priority_scheduler: higher goes first */
#define X(kind, field, low, high, initial, words, told) SERIATIM_SETTING_##kind field;
    SERIATIM_QUEUE_SETTINGS(X)
#undef X
} seriatim_queue_settings;

/* Fills in the defaults: 5 shards, batches of 1, and those of the table. */
void seriatim_queue_settings_init(seriatim_queue_settings *settings);

typedef enum seriatim_when { SERIATIM_NOW, SERIATIM_AT, SERIATIM_DELAY } seriatim_when;

/* One job to push. Everything is only read during seriatim_push_job. */
typedef struct seriatim_job {
    const char *id; /* 1..1024 bytes */
    size_t id_len;
    const char *payload; /* bytes to the core; bindings write canonical JSON */
    size_t payload_len;
    int has_score;
    double score; /* finite; without one, the order of arrival */
    int when;     /* seriatim_when: how `time` is meant */
    double time;  /* SERIATIM_AT: Unix seconds; SERIATIM_DELAY: seconds from now */
    int64_t retry_count;    /* -1 for a new job */
    const char *on_waiting; /* NULL: the queue's */
    const char *context;    /* a JSON object of texts, or empty */
    size_t context_len;
} seriatim_job;

void seriatim_job_init(seriatim_job *job);

/* The shard, from 0, of an id in a queue with so many shards; 0 when there are none. */
unsigned seriatim_shard_of(const char *id, size_t len, unsigned shards_count);

/* ---- Defaults of a host ------------------------------------------------------------------- */

/*
 * Seconds until the next run after the (retry_count + 1)-th failure in a row: count^4 + 15 + r * (count + 1), where r is
 * a whole number from 0 to 29 made of `random` (0 <= random < 1). At most 100 years; a negative count is taken as 0.
 */
double seriatim_back_off(int64_t retry_count, double random);

#define SERIATIM_ELSEWHERE ((size_t)-1) /* of a shard that another node runs */

/*
 * Fixed groups for seriatim_runner_group: of `nodes` nodes, the one numbered `node` (from 0) gets every nodes-th of the
 * `shards` shards, counted over all workers; its shards are dealt to `threads` threads, one after another. nodes 1 and
 * node 0: all shards. groups[i] becomes the group of the i-th shard or SERIATIM_ELSEWHERE. Returns the number of groups,
 * none of which is empty: 0 to threads.
 */
size_t seriatim_split(size_t shards, size_t nodes, size_t node, size_t threads, size_t *groups);

/* ---- Client: push ------------------------------------------------------------------------- */

/* Of a client or a node. Strings are only read during the call that takes the struct. */
typedef struct seriatim_options {
    const seriatim_allocator *allocator; /* NULL: the default; must outlive the object; a runner's must be thread-safe */
    const char *ns;                      /* namespace: what every key begins with; NULL: "seriatim" */
    const char *name;                    /* CLIENT SETNAME; NULL: none */
    size_t max_payload;                  /* bytes of a payload, at most 128 MiB; 0: 1 MiB */
} seriatim_options;

/*
 * A client asks one thing of Redis at a time: begin it, drive the I/O until it ends, read the
 * result. A begin while something is under way is INVALID. It does no I/O itself; a link (below) does, or a host with sockets of its own.
 */
typedef struct seriatim_client seriatim_client;

int seriatim_client_new(const seriatim_options *options, seriatim_client **client, seriatim_error *error);
void seriatim_client_free(seriatim_client *client);
/* Of the last call that failed. Borrowed. */
const seriatim_error *seriatim_client_error(const seriatim_client *client);
/*
 * One line for the log, NUL-terminated, or NULL; told once. A push says so where the queue's settings in Redis, by which it
 * acts, differ from those of seriatim_client_queue. Borrowed until the client's next begin.
 */
const char *seriatim_client_warning(seriatim_client *client);
/* Makes a queue known; the same name again changes its settings. *queue is its number in this client. INVALID names the field. */
int seriatim_client_queue(seriatim_client *client, const seriatim_queue_settings *settings, size_t *queue);

/*
 * Begins to ask for the queue's layout (creating the queue if settings.shards_count is not 0). Drive, then read the number
 * of its shards: 0 when there is no such queue.
 */
int seriatim_layout_begin(seriatim_client *client, size_t queue);
unsigned seriatim_layout_shards(const seriatim_client *client, size_t queue);

/*
 * A push: begin, add jobs, send, drive. Everything is checked as it is added (SERIATIM_INVALID:
 * the message names the job and the field, and nothing of this push will be written). Jobs go in
 * chunks of at most 1,000, one script call a shard, each applied once even if it is sent twice.
 */
int seriatim_push_begin(seriatim_client *client, size_t queue);
int seriatim_push_job(seriatim_client *client, const seriatim_job *job);
/*
 * Between begin and send: this push is done only when so many replicas have it (0 to 1000; 0: none is asked for). Each
 * WAIT, one for at most 256 KB of jobs, takes at most `timeout` seconds (0.001 to 10). Where they are too few the push ends
 * with SERIATIM_REPLICAS: it is written, all of it, and seriatim_push_result holds. A push whose connection ends before its
 * replicas were counted is sent again, also to another master. INVALID names wait_replicas or wait_timeout.
 */
int seriatim_push_replicas(seriatim_client *client, int64_t count, double timeout);
/*
 * Between begin and send: the push fails when it has not ended this many seconds (0.001 to 50; 10 unless this is called) after
 * its link was first stepped, waits for replicas included. INVALID names push_timeout. Who has waited before (for a connection
 * of a pool, say) gives what is left.
 */
int seriatim_push_timeout(seriatim_client *client, double seconds);
int seriatim_push_send(seriatim_client *client);

typedef struct seriatim_push_counts {
    size_t added;   /* jobs that made a new waiting id */
    size_t folded;  /* jobs united with an id that waits */
    size_t refused; /* jobs refused by on_waiting "reject" or "unique" */
} seriatim_push_counts;

seriatim_push_counts seriatim_push_result(const seriatim_client *client);
/* The places (from 0) of the refused jobs, ascending. Borrowed until the next begin. */
const size_t *seriatim_push_refused(const seriatim_client *client, size_t *count);

/* ---- Link: a client with a socket --------------------------------------------------------- */

/*
 * One connection to Redis that reconnects by itself and sends again what was not answered. Step it
 * until it says OK or fails; on SERIATIM_AGAIN wait until seriatim_link_fd can be read or written,
 * at most seriatim_link_timeout_ms, by the host's own means. A link made before fork(2) notices in
 * the child and opens a connection of its own.
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
 * The Redis that it is connected to, or was last: "host:port", or the path of its socket; empty before the first time. With
 * sentinels, the master that they named. NUL-terminated, borrowed until the next step.
 */
const char *seriatim_link_address(const seriatim_link *link);
/*
 * OK: what was begun is done. AGAIN: wait, then step. CLOSED: it was reset, or begun before a fork. At the end of
 * seriatim_push_timeout for a push, after 30 seconds without an answer for anything else (5 for both if this link never was
 * connected):
 * UNKNOWN_OUTCOME if something of a push may have been written (the message names the chunks), else
 * IO or TIMEOUT. Any other status: refused by Redis, see seriatim_client_error.
 */
int seriatim_link_step(seriatim_link *link);
int seriatim_link_fd(const seriatim_link *link);    /* -1: only wait for the timeout */
int seriatim_link_wants(const seriatim_link *link); /* SERIATIM_WANT_* bits */
int seriatim_link_timeout_ms(const seriatim_link *link);
/* Waits by poll(2), for hosts without a scheduler of their own. OK or IO; a signal returns early with OK. */
int seriatim_link_wait(seriatim_link *link);
/* Ends what is under way and closes the socket; the next begin connects again. */
void seriatim_link_reset(seriatim_link *link);

/* ---- Sentinel: where the master is now ---------------------------------------------------- */

/*
 * For hosts with sockets of their own, and for nothing else: links and runners ask by themselves at every connect. Asks the
 * sentinels of a redis+sentinel:// URL one after another, the one that answered last first, and does no I/O:
 *
 *     seriatim_sentinel_begin(s);
 *     while (seriatim_sentinel_next(s, &where) == SERIATIM_OK)
 *         connect to `where`; send seriatim_sentinel_output; give what comes to seriatim_sentinel_input until it is not
 *         AGAIN, all within SERIATIM_SENTINEL_MS; OK: connect to the master; when it cannot be asked: seriatim_sentinel_failed
 *
 * The Redis that is connected then must say ROLE master: the session of a client that expects it asks.
 */
typedef struct seriatim_sentinel seriatim_sentinel;

#define SERIATIM_SENTINEL_MS 500 /* what a slow or dead one may cost */

typedef struct seriatim_address {
    const char *host; /* a name or an address, NUL-terminated; borrowed until the sentinel's next call but output and error */
    int port;
    int tls;
} seriatim_address;

/* INVALID: no redis+sentinel:// or rediss+sentinel:// URL. */
int seriatim_sentinel_new(const seriatim_allocator *allocator, const char *url, seriatim_sentinel **sentinel,
                          seriatim_error *error);
void seriatim_sentinel_free(seriatim_sentinel *sentinel);
/* All of them may be asked again. */
void seriatim_sentinel_begin(seriatim_sentinel *sentinel);
/* The one to ask now. IO: all were asked, and seriatim_sentinel_error says what each said. NOMEM. */
int seriatim_sentinel_next(seriatim_sentinel *sentinel, seriatim_address *where);
/* What to send to it. Borrowed until the next call of next. */
void seriatim_sentinel_output(const seriatim_sentinel *sentinel, const char **data, size_t *len);
/* OK: *master is known. AGAIN: there is more to read. Anything else: this one does not know; close and ask the next. */
int seriatim_sentinel_input(seriatim_sentinel *sentinel, const char *data, size_t len, seriatim_address *master);
/* This one cannot be asked, and why. */
void seriatim_sentinel_failed(seriatim_sentinel *sentinel, const char *why);
/* Of next, when it answered IO. Borrowed. */
const seriatim_error *seriatim_sentinel_error(const seriatim_sentinel *sentinel);

/* ---- Deliveries --------------------------------------------------------------------------- */

typedef struct seriatim_payload {
    const char *data;
    size_t len;
    double score;
    const char *context; /* a JSON object of texts, or empty */
    size_t context_len;
    double stamp; /* its arrival, in microseconds; no other payload of the id has it */
} seriatim_payload;

/* One id with all the payloads that had collected, by score, then by arrival. */
typedef struct seriatim_claimed {
    const char *id;
    size_t id_len;
    int64_t fence;
    int64_t retry_count; /* -1: never failed */
    double perform_in;   /* Unix seconds at which it became due */
    const char *error;   /* of the last failure, or empty */
    size_t error_len;
    const seriatim_payload *payloads;
    size_t payload_count;
    size_t payload_total; /* SERIATIM_EXHAUSTED: of all that the retries ended for; payloads are the first of them, some 256 KiB */
} seriatim_claimed;

typedef enum seriatim_delivery_kind {
    SERIATIM_RUN,      /* run it, then say each id's outcome */
    SERIATIM_DIED,     /* its process died, twice: do not run it, fail it with the error "worker died" */
    /*
     * Tell the worker's retries_exhausted, at most 100 ids; there is no outcome. Where the settings say exhausted_hook, what this
     * tells lies in Redis until the delivery is settled, and comes again, in another process too, where it was not.
     */
    SERIATIM_EXHAUSTED
} seriatim_delivery_kind;

/* Some ids of one shard, in one thread's hands. Everything read from it is borrowed until it is settled. */
typedef struct seriatim_delivery seriatim_delivery;

int seriatim_delivery_kind_of(const seriatim_delivery *delivery);
size_t seriatim_delivery_worker(const seriatim_delivery *delivery); /* as seriatim_node_worker numbered it */
unsigned seriatim_delivery_shard(const seriatim_delivery *delivery);
size_t seriatim_delivery_size(const seriatim_delivery *delivery);
const seriatim_claimed *seriatim_delivery_job(const seriatim_delivery *delivery, size_t i);

/* The outcome of the i-th id; the last word counts; an id without one is released. OK or NOMEM. */
int seriatim_delivery_done(seriatim_delivery *delivery, size_t i);
/* retry_in: seconds until the next run; anything but 0 to 100 years is taken as 0 or 100 years, NaN as 0. Of the error 64 KiB are kept. */
int seriatim_delivery_fail(seriatim_delivery *delivery, size_t i, const char *error, size_t len, double retry_in);
int seriatim_delivery_release(seriatim_delivery *delivery, size_t i);
/* The payloads at `places` (ascending) cannot be read: they go to the morgue, the id comes again without them. */
int seriatim_delivery_reject(seriatim_delivery *delivery, size_t i, const size_t *places, size_t count, const char *reason,
                             size_t len);

/* ---- Node: the server as a state machine -------------------------------------------------- */

typedef enum seriatim_scheduler { SERIATIM_LAG, SERIATIM_SEQ, SERIATIM_PRIORITY } seriatim_scheduler;

typedef struct seriatim_node_settings {
    seriatim_options options;
    const char *id;          /* 1 to 64 bytes of [A-Za-z0-9_.-], unique for ever: a random one a start */
    const char *description; /* for operators: host, pid, language, version; may be NULL */
    int64_t lease_ms;        /* 200..3600000; 10000 */
    int64_t poll_ms;         /* 10..3600000; 1000 */
    size_t threads;          /* of the host, 1..10000 */
    int scheduler;           /* of the balanced group */
} seriatim_node_settings;

typedef struct seriatim_shard {
    size_t worker;
    unsigned shard;
} seriatim_shard;

/* What the node tells its host besides deliveries; text is one line for the log. */
typedef enum seriatim_event_kind {
    SERIATIM_EVENT_LEASE,     /* shards were taken or given up */
    SERIATIM_EVENT_LOST,      /* a lease is another node's now; what ran under it will be refused */
    SERIATIM_EVENT_REFUSED,   /* Redis refused settles; number: how many */
    SERIATIM_EVENT_RECOVERED, /* runs of a dead node came back; number: how many */
    SERIATIM_EVENT_LINK,      /* the connection came or went */
    SERIATIM_EVENT_WARNING,
    SERIATIM_EVENT_FAILURES   /* failures that seriatim_runner_failure kept back; number: how many */
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
/* Before start: the workers, in the order that numbers them. */
int seriatim_runner_worker(seriatim_runner *runner, const seriatim_queue_settings *settings, size_t *worker,
                           seriatim_error *error);
/*
 * Before start: a fixed group of shards with a scheduler and threads of its own. Without any group
 * the node shares all shards evenly with the other living nodes, as one group, number 0.
 */
int seriatim_runner_group(seriatim_runner *runner, int scheduler, const seriatim_shard *shards, size_t count, size_t *group,
                          seriatim_error *error);
/*
 * Starts the thread. Call it in the process that will work: it does not survive fork(2). After IO or NOMEM (no descriptor, thread or
 * memory was free) it may be called again.
 */
int seriatim_runner_start(seriatim_runner *runner, seriatim_error *error);

/* Any thread, at any time: */

/* The next delivery of a group: OK; AGAIN (none now: wait); CLOSED (the thread may go). */
int seriatim_runner_take(seriatim_runner *runner, size_t group, seriatim_delivery **delivery);
/* Hands a delivery back; it is gone after the call. SERIATIM_OK always. */
int seriatim_runner_settle(seriatim_runner *runner, seriatim_delivery *delivery);
/* Both in one, settle (unless `settled` is NULL) first; the answer is take's. */
int seriatim_runner_settle_and_take(seriatim_runner *runner, seriatim_delivery *settled, size_t group,
                                    seriatim_delivery **next);
/* Moves the end of an id's time to run to `seconds` from now. */
int seriatim_runner_extend(seriatim_runner *runner, seriatim_delivery *delivery, size_t i, double seconds);
/*
 * After AGAIN: wait until the group's descriptor is readable (or as long as you like), call clear, take again. Each AGAIN
 * is followed by one clear, whatever ended the wait.
 */
int seriatim_runner_fd(const seriatim_runner *runner, size_t group);
void seriatim_runner_clear(seriatim_runner *runner, size_t group);
/*
 * The same for a thread that waits by itself, so that one thread is woken at a time. wait_begin registers the caller and
 * returns the descriptor to poll; wait_end unregisters it and stands for clear. The waiter is the runner's; it is NULL when
 * the descriptor is the group's.
 */
int seriatim_runner_wait_begin(seriatim_runner *runner, size_t group, seriatim_waiter **waiter);
void seriatim_runner_wait_end(seriatim_runner *runner, size_t group, seriatim_waiter *waiter);
/* Ends the waits of all threads, for a host that is about to free the runner. */
void seriatim_runner_wake_all(seriatim_runner *runner);
/* wait_begin, poll(2) for at most timeout_ms (-1: without a limit), and wait_end: for hosts without a scheduler of their own. */
void seriatim_runner_wait(seriatim_runner *runner, size_t group, int timeout_ms);

/* For a scheduler of the host's own: the shards of a group that have claimed ids, oldest due first. Returns their number. */
typedef struct seriatim_candidate {
    seriatim_shard shard;
    double lag; /* seconds since its oldest id became due */
    size_t size;
} seriatim_candidate;
size_t seriatim_runner_candidates(seriatim_runner *runner, size_t group, seriatim_candidate *list, size_t cap);
/* As take, from that shard alone. */
int seriatim_runner_take_from(seriatim_runner *runner, size_t group, seriatim_shard shard, seriatim_delivery **delivery);

/* The next event: OK, or AGAIN when there is none. Ask now and then; the last 64 are kept. */
int seriatim_runner_event(seriatim_runner *runner, seriatim_event *event);
/* The host's threads answer: without a pulse for a lease time the node stops renewing its heartbeat. */
void seriatim_runner_pulse(seriatim_runner *runner);
/*
 * Asked by the host after seriatim_delivery_fail or _reject of id i, before settle, and before it logs that: the name of the event,
 * which is static, or NULL: do not log it. "fail": it will be retried; at the limit of retries "dead", "parked" or "dropped", as
 * on_exhausted says; "dead" also for payloads that cannot be read. So there is one line a failure. At most 10 a second of a queue are
 * logged one by one. Beyond that they are counted, and an event of each second tells the count until a second has had no more than 10.
 * Any thread.
 */
const char *seriatim_runner_failure(seriatim_runner *runner, const seriatim_delivery *delivery, size_t i);
/* Claims nothing more, hands back what is not begun; what runs goes on. */
void seriatim_runner_quiet(seriatim_runner *runner);
/* quiet, then finish what runs, release every shard, leave. takes answer CLOSED. Watch seriatim_runner_stopped. */
void seriatim_runner_stop(seriatim_runner *runner);
/* After stop: what still runs is handed back, too, and whatever it reports later is nobody's. */
void seriatim_runner_abandon(seriatim_runner *runner);
int seriatim_runner_stopped(seriatim_runner *runner);

/* What an operator asks of a node from elsewhere. */
typedef enum seriatim_order { SERIATIM_ORDER_NONE, SERIATIM_ORDER_QUIET, SERIATIM_ORDER_STOP } seriatim_order;

/* The seriatim_order that the last heartbeat brought, until the host has called quiet or stop for it. Ask now and then. */
int seriatim_runner_asked(seriatim_runner *runner);

typedef struct seriatim_runner_stats {
    uint64_t commands;  /* sent to Redis */
    uint64_t processed; /* ids settled as done */
    uint64_t failed;
    uint64_t refused;   /* settles that Redis refused */
    size_t shards;      /* owned */
    size_t running;     /* ids in the hands of threads */
    size_t claimed;     /* ids claimed and not begun */
    int connected;
} seriatim_runner_stats;
seriatim_runner_stats seriatim_runner_stats_now(seriatim_runner *runner);

/* Ends the thread (without waiting for what runs), closes the sockets, frees all. No other thread may be inside a call. */
void seriatim_runner_free(seriatim_runner *runner);

/* ---- Operators: queries, actions, metrics ------------------------------------------------- */

/*
 * Like a push, each of these is begun, driven to its end, and then read. Results are borrowed until the client's next
 * begin. A queue that Redis does not know (and that must not be created) is empty.
 */
typedef struct seriatim_text {
    const char *data;
    size_t len;
} seriatim_text;

/* What is stored of an id: it waits, is parked, runs, or is dead. */
typedef struct seriatim_record {
    const char *id;
    size_t id_len;
    const char *state;   /* "waiting" (due), "delayed", "retrying", "unproven", "suspect", "parked", "running", "dead"; static */
    int behind;          /* 1: it waits while a run of the same id is open */
    double perform_in;   /* Unix seconds; of a dead one 0 */
    double updated_at;   /* Unix seconds of the last death; of others 0 */
    int64_t retry_count; /* -1: never failed */
    const char *error;   /* of the last failure, or empty */
    size_t error_len;
    const seriatim_payload *payloads; /* by score, then by arrival; no more than payload_limit */
    size_t payload_count;
    size_t payload_total; /* what is stored */
    int64_t fence;        /* of the run; 0 when it does not run */
    unsigned shard;
} seriatim_record;

typedef enum seriatim_query_kind {
    SERIATIM_RANGE_BY_ID, /* what waits: all that metrics count in length */
    SERIATIM_RANGE_BY_PERFORM_IN,
    SERIATIM_RANGE_BY_RETRY_COUNT,
    SERIATIM_FETCH, /* these ids, waiting or parked, in this order; unknown ones are left out */
    SERIATIM_MORGUE_RANGE_BY_ID,
    SERIATIM_MORGUE_RANGE_BY_UPDATED_AT,
    SERIATIM_MORGUE_FETCH,
    SERIATIM_PROCESSING, /* what runs, by id */
    SERIATIM_PARKED      /* by the time of parking */
} seriatim_query_kind;

/*
 * Bounds are text, as Redis has them: of ids "-", "+", "[x", "(x"; of numbers (seconds, counts) "5", "(5" for exclusive,
 * "-inf", "+inf". An empty bound (data NULL) is none. Everything is only read during the call that takes the struct.
 */
typedef struct seriatim_query {
    int kind;              /* seriatim_query_kind */
    int reverse;           /* descending; min stays the smaller bound */
    seriatim_text min, max;
    int64_t limit;         /* 1..100000 */
    int64_t payload_limit; /* of one record, 1..1000000 */
    int64_t shard;         /* -1: all */
    const seriatim_text *ids; /* of the two fetches */
    size_t id_count;
} seriatim_query;

/* No bounds, all shards, limit 10, at most 1,000 payloads of a record. */
void seriatim_query_init(seriatim_query *query, int kind);
/* INVALID names the bound or the field. Ranges are merged over all shards. */
int seriatim_query_begin(seriatim_client *client, size_t queue, const seriatim_query *query);
const seriatim_record *seriatim_query_result(const seriatim_client *client, size_t *count);

/*
 * `all` means what is there when the action begins; it goes in slices, and what comes meanwhile is not touched. The others
 * take ids. All answer with the number of ids (pause and resume: of shards) that they changed.
 *
 * The last two take two texts, an id and the bytes of one of its payloads, and answer 1 or 0. Of equal payloads the first by
 * score, then by arrival, is dropped; with the last payload the id goes. Of a running id one goes that waits behind the run: what runs
 * has been delivered. 0 as well where the payload was claimed, or got another score, in the moment between look and drop.
 */
typedef enum seriatim_action_kind {
    SERIATIM_PERFORM_ALL_JOBS_NOW,
    SERIATIM_KILL_ALL_FAILED_JOBS,
    SERIATIM_DELETE_ALL_FAILED_JOBS,
    SERIATIM_MORGUE_QUEUE_UP_ALL_JOBS,
    SERIATIM_MORGUE_DELETE_ALL_JOBS,
    SERIATIM_PAUSE,
    SERIATIM_RESUME,
    SERIATIM_DELETE, /* from here on: ids */
    SERIATIM_MORGUE_QUEUE_UP,
    SERIATIM_MORGUE_DELETE,
    SERIATIM_PARK,
    SERIATIM_UNPARK,
    SERIATIM_PERFORM_NOW, /* ids that are due later become due now */
    SERIATIM_UNPARK_ALL,  /* no ids */
    SERIATIM_DROP_PAYLOAD,
    SERIATIM_MORGUE_DROP_PAYLOAD,
    /*
     * The queue itself, and 1 for an answer. INVALID while a node serves it, and where it holds ids (waiting, running, parked,
     * dead) unless the one text is its name. Pushes of who has its old layout wait meanwhile; a worker's push makes it anew.
     */
    SERIATIM_DELETE_QUEUE,
    SERIATIM_PERFORM_ALL_FAILED_JOBS_NOW, /* no ids: those that wait for a retry become due now; delayed ones stay delayed */
    SERIATIM_KILL                         /* ids that wait after a failure die now; others are left alone */
} seriatim_action_kind;

int seriatim_action_begin(seriatim_client *client, size_t queue, int kind, const seriatim_text *texts, size_t count);
/* Also after a failure: what was done before it. */
int64_t seriatim_action_result(const seriatim_client *client);

/* The figures of a shard, or of a queue: their sums, the largest lag, the smallest first. */
typedef struct seriatim_metrics {
    int64_t length; /* what waits: fresh + retries; neither running nor parked ids */
    int64_t fresh, retries, morgue_length, busy, parked, unproven, suspect;
    int64_t processed, failed, refused; /* ids settled, ever growing */
    double lag;     /* seconds since the oldest waiting id became due; 0 when none is due */
    double first;   /* Unix seconds at which the first waiting id is due; 0 when none waits */
    double now;     /* by Redis' clock */
    int64_t paused; /* shards */
    int64_t lease, fence;  /* of a shard */
    const char *owner;     /* of a shard: the node, or empty. NUL-terminated */
} seriatim_metrics;

int seriatim_metrics_begin(seriatim_client *client, size_t queue);
const seriatim_metrics *seriatim_metrics_total(const seriatim_client *client);
const seriatim_metrics *seriatim_metrics_shards(const seriatim_client *client, size_t *count);

/* Why an id is or is not running. */
typedef struct seriatim_explanation {
    const char *text;     /* the answer in one sentence, NUL-terminated */
    seriatim_record job;  /* what waits, is parked or runs, without payloads; state "unknown" when there is nothing */
    seriatim_record behind; /* what was pushed while it runs; state "unknown" when there is nothing */
    seriatim_record dead; /* what lies in the morgue; state "unknown" when there is nothing */
    const char *owner;    /* of the shard, or empty; NUL-terminated */
    int owner_alive;      /* it has a heartbeat */
    int known;            /* a living node serves the queue */
    int paused;           /* the shard */
    int64_t lease, fence; /* of the ownership, of the last claim */
    double now;
} seriatim_explanation;

int seriatim_explain_begin(seriatim_client *client, size_t queue, const char *id, size_t len);
const seriatim_explanation *seriatim_explain_result(const seriatim_client *client);

typedef struct seriatim_finding {
    unsigned shard;
    const char *kind;   /* one word, NUL-terminated like the detail */
    const char *detail;
    const char *id;
    size_t id_len;
    int repaired;
} seriatim_finding;

/* Instead of a queue's number: the namespace as a whole. */
#define SERIATIM_NO_QUEUE ((size_t)-1)

/*
 * Proves what is stored of a queue, in slices; repair mends what can be mended without losing a payload. Of
 * SERIATIM_NO_QUEUE: that every key below the namespace is a queue's or the nodes', and that every queue has a layout; then
 * the id of a finding is the key ("stray"), the queue ("layout") or the node ("node").
 */
int seriatim_check_begin(seriatim_client *client, size_t queue, int repair);
const seriatim_finding *seriatim_check_result(const seriatim_client *client, size_t *count);
size_t seriatim_check_looked_at(const seriatim_client *client);

typedef struct seriatim_living_node {
    const char *name, *description; /* NUL-terminated */
    double expires_in;              /* seconds until its heartbeat ends */
    const char *state;              /* "working", "quiet" (claims nothing more), "stopping"; static */
    int64_t rss;                    /* bytes of memory that its process holds; -1: it does not tell */
    double clock_skew;              /* seconds that its clock is ahead of Redis'; NaN: it does not tell */
    int64_t threads;                /* that run jobs; -1: it does not tell */
    int64_t since;                  /* when it started, Unix seconds by its own clock; -1: it does not tell */
} seriatim_living_node;

int seriatim_nodes_begin(seriatim_client *client);
const seriatim_living_node *seriatim_nodes_result(const seriatim_client *client, size_t *count);

/*
 * Asks a node, by its name, to claim nothing more or to stop (seriatim_order); it hears of it at once, or with its next
 * heartbeat. The same again changes nothing, and quiet does not take back stop. INVALID: another order.
 */
int seriatim_order_begin(seriatim_client *client, const char *node, size_t len, int order);
/* 1: the node lives and will hear of it (one of a version that knows no orders does nothing). 0: no such node lives. */
int seriatim_order_result(const seriatim_client *client);

/* The names of all queues that were ever used in the namespace, in the order of their bytes; SCAN looks at every key. */
int seriatim_queues_begin(seriatim_client *client);
const seriatim_text *seriatim_queues_result(const seriatim_client *client, size_t *count);

/* Whether Redis is set up to keep jobs, and who it is: by INFO. A Redis that refuses INFO (an ACL, a proxy) does not tell; no failure.
   The result is NULL while nothing was answered. */
typedef struct seriatim_health {
    const char *maxmemory_policy; /* "noeviction" or another; NUL-terminated, empty: Redis does not tell */
    int append_only;              /* 1 on, 0 off, -1: Redis does not tell */
    const char *role;             /* "master", "slave"; NUL-terminated, empty: Redis does not tell */
    int replicas;                 /* connected ones; -1: Redis does not tell */
    const char *address;          /* of who answered: see seriatim_link_address; NUL-terminated */
} seriatim_health;

int seriatim_health_begin(seriatim_client *client);
const seriatim_health *seriatim_health_result(const seriatim_client *client);

/* ---- Web: the dashboard, its API, the metrics --------------------------------------------- */

/*
 * One request of a browser, a script or Prometheus, answered with what a client asks of Redis: begin, drive like a query, then
 * answer. No socket and no file: a host only translates. Every request has an answer, a refusal is one, and a request that needs
 * no Redis has ended when begin returns (drive it all the same). docs/reference/http-api.md lists the routes and the shapes.
 */
typedef enum seriatim_web_role { SERIATIM_WEB_NOBODY, SERIATIM_WEB_VIEWER, SERIATIM_WEB_OPERATOR, SERIATIM_WEB_ADMIN } seriatim_web_role;

#define SERIATIM_WEB_MAX_BODY 1048576 /* bytes; hosts read no further and answer 413, as the core does */

/* Only read during begin; a text that is absent has data NULL. */
typedef struct seriatim_web_request {
    const char *method;   /* "GET", "HEAD", "POST"; NUL-terminated */
    seriatim_text prefix; /* where the dashboard is mounted, "" or "/admin/jobs" */
    seriatim_text path;   /* what follows it, still percent-encoded where the host can tell: "/api/web/dashboard" */
    seriatim_text query;  /* without "?" */
    seriatim_text host, origin, sec_fetch_site, content_type, authorization, accept; /* header fields */
    seriatim_text body;
    int secure;           /* it came by https */
    int role;             /* seriatim_web_role: what the host application says of the user */
} seriatim_web_request;

/* One of the host application's workers, by its name there and the name of its queue. */
typedef struct seriatim_web_worker {
    seriatim_text name, queue;
} seriatim_web_worker;

/* Only read during begin. */
typedef struct seriatim_web_settings {
    const char *title;        /* NULL: "Seriatim" */
    int read_only;            /* no route that changes anything answers */
    const char *const *hosts; /* the Host fields that are answered, "localhost:9292"; without a port: with any */
    size_t host_count;        /* 0: any Host; the host application checks */
    const char *token;        /* NULL: none; else all but /livez and the page's own files ask for `Authorization: Bearer TOKEN` */
    const char *stalled;      /* NULL: this process works, or has no runner; else why /livez answers 503 */
    const seriatim_web_worker *workers; /* those whose name is not that of their queue; more of them change nothing */
    size_t worker_count;
} seriatim_web_settings;

/* settings may be NULL. INVALID: the client is busy. NOMEM; then, too, there is an answer. */
int seriatim_web_begin(seriatim_client *client, const seriatim_web_settings *settings, const seriatim_web_request *request);

/*
 * Called for each payload, context and error before it goes into any answer; returns the text to show instead (borrowed until
 * the next call), or `text` itself. What is shown of a text is cut only afterwards. Of a group of errors id is empty.
 */
typedef seriatim_text seriatim_web_redact(void *context, seriatim_text queue, seriatim_text id, seriatim_text text);

typedef struct seriatim_web_header {
    const char *name, *value; /* NUL-terminated */
} seriatim_web_header;

typedef struct seriatim_web_response {
    int status;
    const seriatim_web_header *headers; /* without Content-Length */
    size_t header_count;
    seriatim_text body;                 /* empty for HEAD */
} seriatim_web_response;

/*
 * status: what the drive ended with; a Redis that cannot be reached is a 503 answer. Never NULL. Borrowed until the client's
 * next begin or the next answer. redact may be NULL.
 */
const seriatim_web_response *seriatim_web_answer(seriatim_client *client, int status, seriatim_web_redact *redact, void *context);

/*
 * What a request asked to change and what came of it, for the host's audit; also of one that was refused. Texts are as they were
 * given, but `line`, in which nothing can end a line or turn a terminal. Borrowed until the client's next begin.
 */
typedef struct seriatim_web_change {
    const char *action;         /* "pause", "delete", "quiet_node"; static */
    const char *role;           /* "viewer", "operator", "admin"; "nobody": also who has no token; static */
    seriatim_text queue, node;  /* one of them; the other's data NULL */
    seriatim_text fingerprint;  /* of errors; else data NULL */
    const seriatim_text *ids;   /* of the body, at most 1,000; none where it was refused before that was read */
    size_t id_count;
    int64_t count;              /* what it really did; -1: nothing that is known */
    int status;                 /* of the answer; 0: there is none, so what came of it is not known */
    const char *error;          /* of an answer that is not 200; else empty */
    seriatim_text line;         /* the same for a log, UTF-8: at most ten ids, 200 bytes of each text. Empty: no memory */
} seriatim_web_change;

/* Of the last request; after the answer, or instead of it. NULL: it asked for no change. */
const seriatim_web_change *seriatim_web_change_of(seriatim_client *client);

/* All routes beside the page and its files, for tests that must see each of them refuse. Static. */
typedef struct seriatim_web_route {
    const char *method, *pattern; /* "GET", "/api/web/:worker/range_by_id" */
    int role;                     /* the least that it asks for; NOBODY: it is open to all */
    const char *action;           /* what it changes, as the audit names it: "pause"; NULL: nothing */
} seriatim_web_route;
const seriatim_web_route *seriatim_web_routes(size_t *count);

#ifdef SERIATIM_EXPORTS
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif

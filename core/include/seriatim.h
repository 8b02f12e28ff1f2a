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

#define SERIATIM_VERSION "0.1.0"

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
    X(CLOSED, -16, "closed")

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
#define SERIATIM_MAX_TTR 31536000.0    /* seconds */

/*
 * What a worker says of its queue. Words are the contract's, NUL-terminated. Strings are only read
 * during the call that takes the struct.
 */
typedef struct seriatim_queue_settings {
    const char *name; /* any bytes, 1 to 512 of them */
    size_t name_len;
    int64_t shards_count;     /* 1..4096; creates the queue, later Redis decides; 0: only look */
    int64_t batch_size;       /* 1..1000 ids a delivery */
    int64_t max_retry_count;  /* 0..1000000 */
    const char *fold;         /* "merge", "list", "last" */
    const char *on_waiting;   /* "keep", "earlier", "later", "replace", "reject" */
    const char *on_exhausted; /* "bury", "park", "drop" */
    double ttr;               /* seconds, 0 for none */
    int serial_shards;        /* one delivery of a shard at a time */
    int64_t priority;         /* of build_priority_scheduler: higher goes first */
} seriatim_queue_settings;

/* Fills in the defaults: 5 shards, batches of 1, 25 retries, merge, keep, bury, no ttr. */
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

#ifdef __cplusplus
}
#endif
#endif

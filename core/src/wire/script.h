/*
 * script.h - a session: the commands and scripts that are sent to one Redis, in order, and their replies.
 *
 * It does no I/O: bytes to send are read from `srt_session_output`, bytes received are given to
 * `srt_session_input`, and finished requests come out of `srt_session_next`. A script goes as EVALSHA; when Redis does
 * not know it, the same arguments go again as EVAL, or as EVALSHA behind another's EVAL. Requests are kept until they
 * are answered; after a reconnect all of them are sent again, so everything that is asked through a session must be
 * safe to repeat.
 */
#ifndef SRT_SCRIPT_H
#define SRT_SCRIPT_H

#include "wire/resp.h"
#include "wire/scripts.inc"

/* srt_script_push, srt_script_claim, ...: one for each file in core/scripts that is no library. */
typedef enum srt_script {
    srt_script_none = -1, /* a plain command: its first argument is the command's name */
#define X(name, sha) srt_script_##name,
    SRT_SCRIPTS(X)
#undef X
        srt_script_count
} srt_script;

typedef struct srt_request {
    struct srt_request *next;
    int script;
    size_t args; /* arguments in tail, keys included */
    size_t keys;
    srt_bytes tail; /* the arguments, encoded */
    int handshake;
    int repeated;                /* on this connection, after a NOSCRIPT */
    struct srt_session *session; /* in which it waits for its answer; NULL: in none */
    uint64_t starts;             /* where it begins in all that the session sends; of the present connection */
    int encoded;                 /* on the present connection, and not answered */
    int left;                    /* Redis may have executed an earlier sending, whose answer did not come */
    /* Of a cluster (cluster.h): */
    int route;              /* SRT_ROUTE_KEY, ... */
    int slot;               /* of its key; -1: it has none */
    struct srt_redis *peer; /* SRT_ROUTE_PEER: who is asked */
    int asking;             /* 1: ASKING goes before it, and its answer is awaited; 2: that has come */
    int redirects;          /* since it was sent or delayed */
    int64_t due_ms;         /* delayed: when it is sent again */
    int64_t delayed_ms;     /* since when it was delayed for the first time */
    int pause_ms;           /* the last delay; 0: none */
    int hurries;            /* it does not wait for a slot that moves: Redis' refusal is its answer */
    int gave_up;            /* that is its answer: its slot moves, and it does not wait (any longer) */
    int dispensable;        /* it does not wait for a Redis that can be written to: READONLY is its answer. All
                               requests of an operation are, or none */
    /* The caller's, to know what was asked. */
    int kind;
    size_t place;
    size_t part; /* of the place */
    void *subject;
    int64_t number;
    unsigned next_shard; /* of a call for an id that may have moved: 1 more than its new shard; 0: of no such call */
    double floor;        /* the tick of the shard that the id has left */
    int64_t absence;     /* its number among the calls that wait until a replica knows that the id has left */
} srt_request;

typedef struct srt_session {
    const seriatim_allocator *mem;
    srt_reader *reader;
    srt_bytes out;
    srt_request *first, *last; /* sent or to be sent, not yet answered */
    srt_request *spare;
    size_t waiting;  /* their number */
    size_t greeting; /* greetings that have no answer: until then nothing else is sent */
    int connected;
    int masters_only; /* each connection is asked for its ROLE; a replica ends it as SERIATIM_READONLY */
    unsigned char taught[srt_script_count]; /* scripts whose text this connection has sent */
    int listens;                            /* a subscriber: after the handshake, replies come unasked */
    uint64_t commands;                      /* sent in all */
    uint64_t gone;                          /* bytes handed to the network in all */
    struct srt_redis *peer;                 /* of a cluster: whose it is */
} srt_session;

int srt_session_init(srt_session *s, const seriatim_allocator *mem, int listens);
void srt_session_free(srt_session *s);

/*
 * Starts a request, or NULL when out of memory. key_args: `keys` encoded bulk strings (srt_key_shard_args), may be
 * NULL.
 */
srt_request *srt_session_begin(srt_session *s, int script, const srt_bytes *key_args, size_t keys);
void srt_request_arg(srt_request *r, const void *data, size_t len);
void srt_request_text(srt_request *r, const char *text);
void srt_request_int(srt_request *r, int64_t value);
/* Appends the arguments of another request behind its first `skip` ones. */
void srt_request_copy_args(srt_request *r, const srt_request *other, size_t skip);
/* Sends it. SERIATIM_OK, or SERIATIM_NOMEM (the request is gone and nothing is sent). */
int srt_session_send(srt_session *s, srt_request *r);
/*
 * Sends a request that srt_session_next gave out once more, instead of srt_session_done. SERIATIM_NOMEM: it will go
 * with the next connection; close this one.
 */
int srt_session_again(srt_session *s, srt_request *r);
/*
 * May Redis have executed the request, which has no answer? It may if a byte of it was handed to the network, on this
 * connection or on an earlier one.
 */
int srt_request_left(const srt_request *r);
/*
 * The first key of a script, or the first argument behind a plain command's name, or the second one if only that has a
 * hash tag (MEMORY USAGE, ZINTERCARD 2); NULL: there is none. Borrowed.
 */
const char *srt_request_key(const srt_request *r, size_t *len);
/*
 * Takes a request that is not encoded on the present connection out of the session; before: the one in front of it,
 * NULL: it is the first.
 */
void srt_session_take(srt_session *s, srt_request *r, srt_request *before);
/* Puts a request that is in no session at the end, and sends it if there is a connection. As srt_session_again. */
int srt_session_adopt(srt_session *s, srt_request *r);

/*
 * After a new connection: authenticates, names the client, selects the database, and sends all requests again. Each
 * text may be NULL.
 */
int srt_session_connected(srt_session *s, const char *user, const char *password, int database, const char *name);
void srt_session_disconnected(srt_session *s);

/* Bytes to send, borrowed until the session's next call. */
void srt_session_output(const srt_session *s, const char **data, size_t *len);
void srt_session_sent(srt_session *s, size_t len);
int srt_session_input(srt_session *s, const char *data, size_t len);

/*
 * The next finished request with its reply: SERIATIM_OK; SERIATIM_AGAIN when there is none; or an error that ends the
 * connection (SERIATIM_PROTOCOL, SERIATIM_AUTH, SERIATIM_NOMEM...). A listening session gives *request NULL for what
 * comes unasked. The caller ends each request with srt_session_done, _again, or keeps it.
 */
int srt_session_next(srt_session *s, srt_request **request, srt_reply *reply, seriatim_error *error);
void srt_session_done(srt_session *s, srt_request *r);

/* Drops all requests that are not answered (the caller gives up). The connection must be closed, too. */
void srt_session_drop(srt_session *s);

#endif

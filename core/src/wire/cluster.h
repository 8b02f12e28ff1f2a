/*
 * cluster.h - the masters of a Redis Cluster, or the one Redis that has all keys: which request goes to which, and what
 * becomes of it when slots move or a master is away.
 *
 * It does no I/O and reads no clock. A cluster owns its peers, a peer is one Redis with two sessions: commands, and a
 * second one for who listens. The host keeps a connection for each peer that is wanted:
 *
 *     srt_cluster_tick(cl, now);                       // before the others, and at srt_cluster_due_ms at the latest
 *     for (i = 0; i < cl->peer_count; i++) {
 *         p = cl->peers[i];
 *         if (srt_redis_wanted(cl, p) && it is not connected)
 *             connect to p->host, p->port, meanwhile srt_redis_connecting, then srt_redis_connected;
 *         if (!srt_redis_wanted(cl, p) && it is connected) close, then srt_redis_disconnected;
 *         srt_session_output(&p->commands, ...), srt_session_sent;
 *         srt_redis_input(cl, p, bytes, received);
 *         while ((status = srt_redis_next(cl, p, &request, &reply, &error)) == SERIATIM_OK) ...
 *     }
 *
 * Without a seed there is one peer, it has all slots, and every call is passed to its session as it is. With seeds,
 * answers are filtered before the owner sees them:
 *
 *     MOVED                  the slot's owner is noted, the request goes to it, and the map is asked for
 *     ASK                    ASKING and the request go to that peer; the map stays
 *     TRYAGAIN, CLUSTERDOWN, LOADING, READONLY and the like
 *                            the request is sent again after 10, 20, ... 200 ms, by the map of that time
 *     16 redirects in a row  as CLUSTERDOWN
 *
 * With a patience (srt_cluster_set_patience), what is refused because its slot moves is not delayed for longer: the
 * answer is the owner's. A request that hurries is not delayed at all then. READONLY does not delay one that is
 * dispensable: it is the owner's, and the map is asked for.
 *
 * A request stays with a peer whose connection was lost until it is back, or until a new map gives the request's slot
 * to another. The map is asked for (CLUSTER SLOTS) at most once in 100 ms: at the beginning, after MOVED, and as long
 * as a peer owes answers and is away or silent, whether or not anything is sent.
 *
 * Order: the requests for one slot are executed in the order in which they were sent, except that a later one may
 * overtake one that is delayed, or that waits at a peer when the slot gets another. So whoever needs an order has at
 * most one such request under way: a settle, a claim, an acquire or release, a chunk of a push for each shard.
 */
#ifndef SRT_CLUSTER_H
#define SRT_CLUSTER_H

#include "wire/keys.h"
#include "wire/script.h"

typedef struct srt_cluster srt_cluster;

/* One Redis. */
typedef struct srt_redis {
    srt_cluster *cluster;
    char *host; /* NULL: the one Redis of a URL that names no cluster */
    int port;
    unsigned number;      /* no other peer of the cluster had it before */
    unsigned connections; /* that were made for commands */
    int served;           /* the owner's: the last one has answered more than its greeting */
    srt_session commands;
    srt_session wakes; /* after srt_redis_listen */
    int listens;
    unsigned slots; /* that it has by the map */
    int away;       /* its connection was lost, or could not be made */
    int silent;     /* it owes an answer for a second */
    int closing;    /* its connection is to be closed, though requests may wait */
    int64_t heard_ms;
    void *io;        /* the host's */
    size_t mark;     /* the owner's */
    uint64_t waited; /* the owner's: where its last WAIT begins */
} srt_redis;

/* What a connection has written: its Redis (srt_redis.number), and which of its connections it was. */
typedef struct srt_written {
    unsigned peer, connection;
} srt_written;

typedef enum srt_replicated {
    SRT_REPLICATED,        /* a replica has it, or the master has none */
    SRT_REPLICATED_ASK,    /* of ROLE: there are replicas, so WAIT is to be asked */
    SRT_REPLICATED_LATER,  /* of WAIT: none has it yet */
    SRT_REPLICATED_BY_NONE /* of ROLE: it is no master (any more) */
} srt_replicated;

/* Requests in their order. */
typedef struct srt_request_list {
    srt_request *first, *last;
    size_t count;
} srt_request_list;

typedef enum srt_map_state { SRT_MAP_FRESH, SRT_MAP_NONE, SRT_MAP_DOUBTED } srt_map_state;

typedef struct srt_seed {
    char *host;
    int port;
} srt_seed;

struct srt_cluster {
    const seriatim_allocator *mem;
    int many; /* 0: one Redis, and nothing below this line but peers is used */
    srt_redis **peers;
    size_t peer_count, peer_cap;
    unsigned numbers; /* of peers, that were given */
    srt_seed *seeds;
    size_t seed_count, seed_cap;
    srt_redis **owners;      /* of the SRT_SLOTS slots; NULL: of one nobody is known */
    int64_t patience_ms;     /* how long requests wait for a slot that moves; 0: until it has moved */
    unsigned char *given_up; /* a byte for each slot: 1, patience has ended for it */
    srt_map_state map;
    srt_request *map_request;  /* under way; NULL: none */
    srt_redis *map_peer;       /* who is asked */
    srt_redis *map_hint;       /* who should be asked next; NULL: anybody */
    int64_t asked_ms;          /* when the map was last asked for */
    int64_t ask_ms;            /* when it may be asked for again */
    int pause_ms;              /* between two questions, while they do not help */
    size_t turn;               /* of who is asked */
    size_t unanswered;         /* questions in a row */
    srt_request_list delayed;  /* to be sent again at their time */
    srt_request_list homeless; /* of slots without a peer */
    int64_t now_ms;
    uint64_t epoch;                               /* counts the changes of the map */
    uint64_t redirects;                           /* MOVED and ASK, in all */
    uint32_t jitter;                              /* of the delays; the host may set it */
    void (*on_drop)(void *host, srt_redis *peer); /* the peer goes: it has no connection, and p->io is to be freed */
    void *host;
    seriatim_error last; /* why requests were last delayed or sent again, or the map did not come */
};

enum { SRT_ROUTE_KEY, SRT_ROUTE_ANY, SRT_ROUTE_PEER, SRT_ROUTE_CONNECTION, SRT_ROUTE_MAP /* its own */ };

/* One Redis, whose peer has no address. OK or NOMEM; srt_cluster_free in each case. */
int srt_cluster_init(srt_cluster *cl, const seriatim_allocator *mem);
void srt_cluster_free(srt_cluster *cl);
/* Makes it a cluster that is found by this address as well; before the first request. OK or NOMEM. */
int srt_cluster_seed(srt_cluster *cl, const char *host, int port);

/* The session in which requests are begun (srt_session_begin); where they go is decided when they are sent. */
srt_session *srt_cluster_pool(srt_cluster *cl);
/*
 * Has a request go to any master, to one peer, or, as _CONNECTION, to a peer on the connection that it has now. Without
 * it, it goes where its key lies: the first key of a script, or what follows the name of a plain command; a command
 * that has one word goes to any master.
 *
 * _CONNECTION: an answer that would delay it goes to the owner instead, and it is dropped when the connection is lost.
 */
void srt_request_route(srt_request *r, int route, srt_redis *peer);
/* ROLE, and WAIT for that number of replicas, on the connection that the peer has now. NULL: out of memory. */
srt_request *srt_role_request(srt_cluster *cl, srt_redis *peer);
srt_request *srt_wait_request(srt_cluster *cl, srt_redis *peer, int64_t replicas, int64_t timeout_ms);
/* What the answer to ROLE, or to WAIT for one replica, says of what its connection has written before. */
srt_replicated srt_replicated_of(const srt_reply *reply);
/* As srt_session_send and srt_session_again. */
int srt_cluster_send(srt_cluster *cl, srt_request *r);
int srt_cluster_again(srt_cluster *cl, srt_request *r);
void srt_cluster_done(srt_cluster *cl, srt_request *r);
/* Calls visit for each request that has no answer, handshakes included, peer by peer. */
void srt_cluster_each(srt_cluster *cl, void (*visit)(void *user, srt_request *r), void *user);
/* The number of these requests. */
size_t srt_cluster_waiting(const srt_cluster *cl);
/* Drops all of them. All connections must be closed, too. */
void srt_cluster_drop(srt_cluster *cl);

/* Tells the time in milliseconds; sends what is due, and asks for the map. OK, or NOMEM: call it again. */
int srt_cluster_tick(srt_cluster *cl, int64_t now_ms);
/* When it is to be called next; INT64_MAX: when a connection has changed or bytes have come. */
int64_t srt_cluster_due_ms(const srt_cluster *cl);

/* The peer that has the slot of this key; NULL: it is not known. */
srt_redis *srt_cluster_peer_of(const srt_cluster *cl, const char *key, size_t len);
/* The master with this number, in the order of their addresses; NULL: there are no more. */
srt_redis *srt_cluster_master(const srt_cluster *cl, size_t number);
/* "host:port" or "[host]:port", as far as it fits; empty for the one Redis of a URL that names no cluster. */
void srt_redis_address(const srt_redis *p, char *out, size_t cap);
/*
 * From now on a request that cannot be executed because its slot moves waits for `ms` at most, and further ones for
 * this slot do not wait. Then Redis' error is its answer. 0: they wait until the slot has moved; what was given up
 * stays known until the next patience.
 */
void srt_cluster_set_patience(srt_cluster *cl, int64_t ms);
/* The first slot from this one on that was given up; -1: there is none. */
int srt_cluster_given_up(const srt_cluster *cl, int from);
/* A slot of which a request has been delayed for `ms`, as in a migration that does not end; -1: there is none. */
int srt_cluster_held_slot(const srt_cluster *cl, int64_t ms);

/* A slot of which a request waits, and whose move was the last reason why Redis could not answer one; -1: there is
 * none. */
int srt_cluster_awaited_slot(const srt_cluster *cl);
/* Does the text of an error reply say so? */
int srt_cluster_tells_of_move(const char *text);

/* 1: there is to be a connection for commands. One that is there and not wanted is to be closed. */
int srt_redis_wanted(const srt_cluster *cl, const srt_redis *p);
/*
 * How long to try to connect, limit_ms or less: who is asked for the map and has no slot is given up soon, and all
 * addresses of its name are to be tried before.
 */
int srt_redis_connect_ms(const srt_cluster *cl, const srt_redis *p, int limit_ms);
/* The host connects to it since then: the time in which its name was looked up does not count as silence. */
void srt_redis_connecting(srt_cluster *cl, const srt_redis *p, int64_t since_ms);
/* Makes the session of wakes, if there is none: it listens. OK or NOMEM. */
int srt_redis_listen(srt_cluster *cl, srt_redis *p);
/* A connection for commands is open: as srt_session_connected. */
int srt_redis_connected(srt_cluster *cl, srt_redis *p, const char *user, const char *password, int database,
                        const char *name);
/* It has ended, or could not be made. Returns how many requests of the route _CONNECTION were dropped with it. */
size_t srt_redis_disconnected(srt_cluster *cl, srt_redis *p);
/*
 * The connection is another's from now on, and the peer is as reachable as before. 0: it cannot be, because an answer
 * is owed on it, or it is to be closed.
 */
int srt_redis_leave(srt_redis *p);
int srt_redis_input(srt_cluster *cl, srt_redis *p, const char *data, size_t len);
/*
 * The next request of this peer that has its final answer, as srt_session_next. SERVER and AUTH also say that the peer
 * is no member of a cluster, or may not be asked for the slots. The message of an error names the peer of a cluster.
 */
int srt_redis_next(srt_cluster *cl, srt_redis *p, srt_request **request, srt_reply *reply, seriatim_error *error);

/*
 * A SCAN over all masters: each is asked from cursor 0 to its end, in the order of their addresses. If slots have moved
 * meanwhile, all are asked once more, for a key may have moved to a master that was asked before; at most three times.
 */
typedef struct srt_scan {
    size_t master;  /* number of the one that is asked */
    uint64_t epoch; /* that of the cluster when the first one was asked, and 1; 0: none was asked */
    int rounds;     /* that have ended */
    int more;       /* the caller's */
} srt_scan;

/* Has a request go to the master that is asked now. */
void srt_scan_route(srt_scan *scan, const srt_cluster *cl, srt_request *r);
/* A master's keys are at their end. 1: the next one is to be asked from cursor 0; 0: that was the last. */
int srt_scan_turn(srt_scan *scan, const srt_cluster *cl);

/* ---- Between the files of a cluster ---------------------------------------------------------- */

#define SRT_CLUSTER_ASK_MS 100    /* the map is asked for once in this time */
#define SRT_CLUSTER_ANSWER_MS 500 /* who has not given it then is passed over */

/* cluster_peers.c */

/* The peer with this address, made if there is none; NULL: out of memory. */
srt_redis *srt_cluster_find(srt_cluster *cl, const char *host, size_t len, int port);
void srt_cluster_set_owner(srt_cluster *cl, unsigned slot, srt_redis *p);
/* Something is known that the map does not say: it is asked for soon. */
void srt_cluster_doubt(srt_cluster *cl);
/* Sends a request that is in no session to this peer; NULL: there is none yet. NOMEM: it is kept all the same. */
int srt_cluster_put(srt_cluster *cl, srt_request *r, srt_redis *p);
/* Requests that wait for peers that have no connection go where the map says. OK or NOMEM. */
int srt_cluster_rehome(srt_cluster *cl);
/* The request, which is in no session, is sent again after a while. */
void srt_cluster_delay(srt_cluster *cl, srt_request *r);
/* Sends what was delayed until now. OK or NOMEM. */
int srt_cluster_send_due(srt_cluster *cl);
/* Lets go of peers that have no slot and nothing to answer. */
void srt_cluster_drop_empty(srt_cluster *cl);

/* cluster_map.c */

/* Asks a peer for the map. OK or NOMEM. */
int srt_cluster_map_ask(srt_cluster *cl);
/* Who was asked will not answer: there is no connection. */
void srt_cluster_map_failed(srt_cluster *cl);
/* Who was asked has not answered in time. */
void srt_cluster_map_abandon(srt_cluster *cl);
/*
 * Takes an answer to the question for the map, which may have been given up. OK; AUTH, SERVER: refused; NOMEM;
 * PROTOCOL: it cannot be read.
 */
int srt_cluster_map_answered(srt_cluster *cl, srt_redis *p, srt_request *r, const srt_reply *reply,
                             seriatim_error *error);
/* The slot and the peer of MOVED or ASK, made if it is not known. NULL: out of memory, or no address. */
srt_redis *srt_cluster_read_redirect(srt_cluster *cl, srt_redis *from, const char *text, unsigned *slot);

#endif

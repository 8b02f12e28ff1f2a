/*
 * seriatim/binding/client.h - the I/O side of a client, for a host that has sockets of its own: bytes go in and out.
 *
 * After seriatim_client_new: srt_client_identify, and srt_client_host. An operation is begun as seriatim.h says, then:
 *
 *     srt_client_connected(client, user, password, database);    // each time a connection is open
 *     while (srt_client_status(client) == SERIATIM_AGAIN) {
 *         srt_client_output(client, &data, &len);                // send them; as many as the socket took:
 *         srt_client_sent(client, sent);
 *         srt_client_input(client, bytes, received, &error);     // not OK: close, srt_client_disconnected, connect
 *     }
 *
 * A host that can wait no longer closes the connection and calls srt_client_give_up. All of it by one thread at a time.
 */
#ifndef SERIATIM_BINDING_CLIENT_H
#define SERIATIM_BINDING_CLIENT_H

#include "seriatim.h"
#include "seriatim/binding/bytes.h"

#define SRT_CLIENT_RANDOM 16 /* bytes of which a client's id is made */

/*
 * Makes the client's id of SRT_CLIENT_RANDOM random bytes, at once after seriatim_client_new. NULL: there are none, so
 * the client gets no id and its pushes are refused as INVALID.
 */
void srt_client_identify(seriatim_client *client, const unsigned char *random);
/*
 * In a child of fork(2): the operation that the parent has under way ends with CLOSED, a push that is not sent yet
 * stays, and the client gets an id of its own, as by srt_client_identify.
 */
void srt_client_forked(seriatim_client *client, const unsigned char *random);
/*
 * Has each begin of an operation call `before_begin` with `host` first: there the host looks whether the process was
 * forked, and tells the time. Both are borrowed until the client is freed.
 */
void srt_client_host(seriatim_client *client, void (*before_begin)(void *host), void *host);
/* Sets the Unix time in seconds by the host's clock. It only serves to refuse times that are too far ahead. */
void srt_client_tell_time(seriatim_client *client, double unix_time);

/*
 * The milliseconds that the operation under way may take as a whole; 0: the host only limits the time without an
 * answer.
 */
int64_t srt_client_whole_ms(const seriatim_client *client);
/* Sets how many of these milliseconds are left: no WAIT takes longer. */
void srt_client_tell_left(seriatim_client *client, int64_t left_ms);
/*
 * AGAIN: an operation is under way. OK: it ended well, or none was begun. Else how it ended; seriatim_client_error has
 * the text.
 */
int srt_client_status(const seriatim_client *client);

/*
 * A pop that waits sleeps between its questions. Meanwhile it has nothing to send, no answer comes, and the host may
 * use the connection for something else, unless srt_client_keeps:
 *
 *     while (srt_client_sleeps(client) >= 0) {
 *         // wait for this time, or until a message comes on one of the channels
 *         srt_client_tell_spent(client, milliseconds);
 *         srt_client_wake(client);
 *     }
 *
 * srt_client_sleeps: for how many milliseconds; -1: the operation does not sleep.
 */
int64_t srt_client_sleeps(const seriatim_client *client);
/* Ends the sleep, if the operation sleeps: it asks again, or ends. */
void srt_client_wake(seriatim_client *client);
/*
 * 1: it sleeps before it sends requests again that shards could not take yet. That may last for ever, so the time that
 * the host allows without an answer does not begin again.
 */
int srt_client_repeats(const seriatim_client *client);
/*
 * 1: the operation under way is a push that counts replicas. They are counted on the connections that it wrote on, so
 * it keeps them while it sleeps.
 */
int srt_client_keeps(const seriatim_client *client);
/* Sets the milliseconds since the operation was begun. To be called before each input and wake of a pop that waits. */
void srt_client_tell_spent(seriatim_client *client, int64_t spent_ms);
/*
 * Appends the names of the channels on which Redis tells that an id of a queue of the pop that sleeps is due, each with
 * a NUL behind it; none while nothing sleeps. OK or NOMEM.
 */
int srt_client_channels(const seriatim_client *client, srt_bytes *names);
/*
 * 1: the host listens to the channels of all shards of the queues of the pop under way, or of the next one. 0: it does
 * not; then the pop sleeps for short times. To be called before the wake that follows.
 */
void srt_client_listens(seriatim_client *client, int listens);

/* From now on each connection must be to a master; a replica ends it as READONLY. For hosts that ask Sentinels. */
void srt_client_expect_master(seriatim_client *client);
/* A connection is open: it is greeted with user and password (NULL: none), database and name. OK or NOMEM. */
int srt_client_connected(seriatim_client *client, const char *user, const char *password, int database);
/* The same for a connection that was greeted before and then kept open. OK or NOMEM. */
int srt_client_connected_again(seriatim_client *client);
/* The connection has ended; what was not answered is sent again on the next one. */
void srt_client_disconnected(seriatim_client *client);
/* The bytes to send now; *len 0: none. Borrowed until the next call with this client. */
void srt_client_output(const seriatim_client *client, const char **data, size_t *len);
/* The first len of these bytes were handed to the network; at most as many as there are. */
void srt_client_sent(seriatim_client *client, size_t len);
/*
 * Takes bytes from Redis and handles every whole answer. OK: go on. Everything else ends the connection; the text is in
 * *error. LOADING, READONLY: Redis will answer later, connect again after a pause. PROTOCOL: connect again. AUTH,
 * SERVER: refused for good. NOMEM.
 */
int srt_client_input(seriatim_client *client, const char *data, size_t len, seriatim_error *error);
/*
 * Ends the operation without its answers, with this status and text; the connection must be closed. Returns the status
 * that it ended with: a push of which Redis may have executed a part ends as UNKNOWN_OUTCOME.
 */
int srt_client_give_up(seriatim_client *client, int status, const char *why);

/*
 * A Redis Cluster: the client has a connection to each master that it needs, and the host makes it:
 *
 *     srt_client_tick(client, now_ms);
 *     for (i = 0; srt_client_master(client, i, &master); i++)
 *         // connect where it is wanted and not connected; close where it is connected and not wanted
 *         // then output, sent and input of each, by its number
 *
 * The functions above without a master are those of the first one. Numbers are not used twice; with an unknown one
 * nothing happens, and there is nothing to send.
 */
typedef struct srt_client_master_view {
    unsigned number;
    const char *host; /* NULL: that of the URL, which names no cluster. Borrowed until the next tick or input */
    int port;
    int wanted;
    int waits; /* it has not answered all that was asked */
} srt_client_master_view;

/* The cluster is found by this address, as well as by others; before the first operation. OK or NOMEM. */
int srt_client_seed(seriatim_client *client, const char *host, int port);
/* 0: there are no more. They may change with each tick. */
int srt_client_master(const seriatim_client *client, size_t at, srt_client_master_view *master);
/*
 * Tells the time in milliseconds, of a clock that is never set back, and does what is due. Returns when it is to be
 * called again if nothing else happens; INT64_MAX: need not be.
 */
int64_t srt_client_tick(seriatim_client *client, int64_t now_ms);
int srt_client_master_connected(seriatim_client *client, unsigned number, const char *user, const char *password);
/* The same for a connection that was greeted before and then kept open. OK or NOMEM. */
int srt_client_master_connected_again(seriatim_client *client, unsigned number);
/* It has ended, or could not be made. */
void srt_client_master_disconnected(seriatim_client *client, unsigned number);
/*
 * The host gives the connection to others. 1: it is not the client's any more. 0: an answer is owed on it,
 * srt_client_keeps, or it is to be closed, so it must be closed.
 */
int srt_client_master_left(seriatim_client *client, unsigned number);
void srt_client_master_output(const seriatim_client *client, unsigned number, const char **data, size_t *len);
void srt_client_master_sent(seriatim_client *client, unsigned number, size_t len);
/* As srt_client_input: any status but OK ends this connection. */
int srt_client_master_input(seriatim_client *client, unsigned number, const char *data, size_t len,
                            seriatim_error *error);
/* The number of answers that operations have got; those that only say where slots lie do not count. */
uint64_t srt_client_answers(const seriatim_client *client);
/* Why requests are being sent again; status OK: none has been. Borrowed until the next tick or input. */
const seriatim_error *srt_client_held_up(const seriatim_client *client);

/*
 * 1: the next seriatim_link_step may look up a host name, which blocks, also where seriatim_link_fd is a socket: the
 * link may connect to the next sentinel, or to another master. A host takes that step without the lock that its threads
 * share, or on another thread than an event loop. 0: that step looks up nothing.
 */
int srt_link_may_resolve(const seriatim_link *link);
/*
 * Ends the operation that seriatim_link_step left at AGAIN, because the time is over that the host gives it. Returns
 * its status; the error names the cause as far as it is known: what Redis said last, or why it could not be reached.
 * The connections are closed, so no later answer can be mistaken for that of another operation.
 */
int srt_link_expire(seriatim_link *link);

#endif

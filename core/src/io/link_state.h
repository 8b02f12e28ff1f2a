/* link_state.h - between link.c and link_way.c: a link, and its way to each Redis. */
#ifndef SRT_LINK_STATE_H
#define SRT_LINK_STATE_H

#include "client/client.h"
#include "io/link.h"
#include "io/progress.h"
#include "io/subscriber.h"
#include "io/watch.h"
#include "net/transport.h"

#include <sys/types.h>

typedef enum link_phase { LINK_DOWN, LINK_CONNECTING, LINK_UP } link_phase;

/* The way to one Redis. */
typedef struct link_way {
    srt_redis *peer; /* whose `io` this is */
    srt_transport *transport;
    link_phase phase;
    unsigned failures; /* connections in a row that gave no answer */
    int64_t retry_ms;  /* LINK_DOWN: when to connect */
    int64_t heard_ms;  /* when bytes last went either way */
} link_way;

struct seriatim_link {
    const seriatim_allocator *mem;
    srt_url url;
    srt_bytes text; /* the URL without its password, NUL-terminated */
    srt_bytes from; /* the setting or variable that holds the URL, NUL-terminated; empty: not known */
    seriatim_client *client;
    pid_t pid;
    int was_up;
    int may_resolve; /* what srt_link_may_resolve said before the step that is being taken */
    srt_watch watch; /* of the ways to the masters of a cluster */
    srt_watched *watched;
    size_t watched_cap;
    int64_t first_ms;        /* when the operation was first stepped */
    int64_t began_ms;        /* the same, or its last answer */
    uint64_t begun, answers; /* the client's, as last seen */
    int limit_ms, silence_ms;
    int64_t look_up_ms; /* the longest look-up of a host name in this operation */
    uint32_t jitter;
    seriatim_error last; /* why the last connection failed, during this operation */
    srt_progress progress;
    srt_subscriber subscriber; /* used while the operation sleeps, and kept open */
    int64_t asleep_ms;         /* since when the operation sleeps; 0: it does not */
    char input[16 * 1024];
};

/* link_way.c */

/* The way to this Redis, made if there is none. NULL: there is no memory, so it is not connected now. */
link_way *srt_link_way_to(seriatim_link *link, srt_redis *peer);
void srt_link_free_way(void *link, srt_redis *peer);
/* The only way, or the one to any seed; NULL: that was not made. */
link_way *srt_link_first_way(const seriatim_link *link);
void srt_link_close_all(seriatim_link *link);
void srt_link_forget_failures(seriatim_link *link);
/* Why the transport could not connect, with the link's URL. Returns *why. */
seriatim_error *srt_link_connect_error(const seriatim_link *link, const link_way *way, seriatim_error *why);
/* The connection has ended. One that had answered before is made anew at once, unless Redis asked for a pause. */
void srt_link_lose(seriatim_link *link, link_way *way, const seriatim_error *why, int at_once);
void srt_link_give_up(seriatim_link *link, const seriatim_error *why);
/*
 * OK: bytes came. AGAIN: no more bytes for now. CLOSED: the connection has ended, and its requests are kept for the
 * next.
 */
int srt_link_read(seriatim_link *link, link_way *way);
/* Connects, writes and reads, on all ways, until nothing can go on at once. */
void srt_link_exchange(seriatim_link *link);
int srt_link_visitor_has_left(const seriatim_link *link);
void srt_link_leave_with_visitor(seriatim_link *link);
void srt_link_show_progress(seriatim_link *link);

#endif

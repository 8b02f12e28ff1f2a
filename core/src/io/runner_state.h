/* runner_state.h - between the files of a runner: channel.c, channels.c, runner.c, runner_host.c. */
#ifndef SRT_RUNNER_STATE_H
#define SRT_RUNNER_STATE_H

#include "base/system.h"
#include "io/waiters.h"
#include "net/transport.h"
#include "node/node_state.h"

#include <poll.h>
#include <pthread.h>

#define RUNNER_READ ((size_t)256 * 1024)

typedef enum channel_state { CHANNEL_CLOSED, CHANNEL_CONNECTING, CHANNEL_OPEN } channel_state;

typedef struct runner_channel {
    srt_redis *peer; /* whose commands it carries; NULL: the wake-ups, or those of a peer that is gone */
    srt_channel number;
    srt_transport *transport;
    channel_state state;
    int wanted;                           /* there is somebody to connect to */
    unsigned attempts;                    /* since it last served, as srt_node_served says */
    unsigned failures_told;               /* bits of the statuses of failures since then, by -status */
    int told;                             /* a warning was given that no wake-ups come */
    int64_t retry_at, heard_at, asked_at; /* asked_at: of the last PING */
    int drained;                          /* everything was read; poll reports more */
    srt_bytes out;                        /* taken from the node, not yet written */
    seriatim_error error;
} runner_channel;

struct seriatim_runner {
    const seriatim_allocator *mem;
    srt_url url;
    srt_node *node; /* under the lock once the thread runs */
    pthread_mutex_t lock;
    pthread_t thread;
    int running, ending;
    runner_channel wakes;
    unsigned wakes_at;         /* srt_redis.number of the master of a cluster to which the wake-ups are connected */
    runner_channel **channels; /* the wake-ups, then one for each master; changed by the thread, with the lock */
    size_t channel_count, channel_cap;
    struct pollfd *fds; /* room for one more than there are channels */
    size_t fd_cap;
    char *inbox;
    int wake[2];             /* wakes the thread */
    srt_wait_queue *waiters; /* one a group */
    size_t waiters_count;
    srt_wait_queue flushing; /* threads that wait for checkpoints; its own pipe is never opened */
    seriatim_flush *flushes; /* of these threads */
    int notified;
    int unread;           /* there is more to read, or an end, that poll may not see */
    int64_t sleeps_until; /* 0: awake */
};

/* With the lock: wakes all threads that wait for checkpoints. */
void srt_runner_wake_flushes(seriatim_runner *r, int64_t now);

/* ---- channel.c ------------------------------------------------------------------------------- */

/* With the lock. */
void srt_channel_lost(seriatim_runner *r, runner_channel *c, int64_t now);
/* With the lock: closes it without a word; nobody needs it. */
void srt_channel_leave(seriatim_runner *r, runner_channel *c, int64_t now);
int srt_channel_write(runner_channel *c);
/* With the lock: moves the node's output to the channel. */
void srt_channel_collect(seriatim_runner *r, runner_channel *c);
void srt_channel_step(seriatim_runner *r, runner_channel *c);
/*
 * With the lock: closes a connection on which an expected answer has not come for long, sends a PING on the one for
 * wake-ups if it was silent for long, and tells the cluster of one that is made. Returns when to call again.
 */
int64_t srt_channel_watch(seriatim_runner *r, runner_channel *c, int64_t now);

/* ---- channels.c ------------------------------------------------------------------------------ */

/* Makes the channels of the wake-ups and of the first Redis. OK or NOMEM. */
int srt_channels_begin(seriatim_runner *r);
void srt_channels_free(seriatim_runner *r);
/* With the lock: makes channels for new masters, closes those that nobody needs, and says which may connect. */
void srt_channels_follow(seriatim_runner *r, int64_t now);

#endif

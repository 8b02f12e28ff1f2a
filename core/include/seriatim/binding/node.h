/*
 * seriatim/binding/node.h - a server as a state machine, for a host that has sockets, clock and threads of its own: the
 * time is an argument, bytes go in and out, deliveries come out.
 *
 * It is what a seriatim_runner drives, and functions of the same name do the same; comments here say only what differs.
 * `now` is srt_clock_ms. One thread at a time.
 */
#ifndef SERIATIM_BINDING_NODE_H
#define SERIATIM_BINDING_NODE_H

#include "seriatim.h"

typedef struct srt_node srt_node;

/*
 * A node has two connections: one for commands, one that is subscribed to the wake-ups. In a Redis Cluster it has one
 * for commands to each master, with the channel that srt_node_master says, and one for wake-ups to any master.
 */
typedef enum srt_channel { SRT_COMMANDS, SRT_WAKES, SRT_CHANNELS } srt_channel;

/* Settings are only read during the call; the caller frees *node. OK, INVALID (the message names the field), NOMEM. */
int srt_node_new(const seriatim_node_settings *settings, srt_node **node, seriatim_error *error);
void srt_node_free(srt_node *node);
int srt_node_worker(srt_node *node, const seriatim_queue_settings *settings, size_t *worker, seriatim_error *error);
int srt_node_withdraw(srt_node *node, size_t worker, int64_t now, seriatim_error *error);
int srt_node_group(srt_node *node, int scheduler, const seriatim_shard *shards, size_t count, size_t *group,
                   seriatim_error *error);
/* To be called before the first connection: checks that the node has at least one worker and group. */
int srt_node_start(srt_node *node, int64_t now, seriatim_error *error);

/* ---- The connections ------------------------------------------------------------------------- */

/* Makes it a node of the cluster that this address leads to, as others do; before the start. OK or NOMEM. */
int srt_node_seed(srt_node *node, const char *host, int port);
typedef struct srt_node_master_view {
    srt_channel channel; /* for its commands */
    const char *host;    /* NULL: that of the URL, which names no cluster. Borrowed until the next tick */
    int port;
    int wanted; /* it is to be connected; if not, its connection is to be closed */
} srt_node_master_view;
/* The master with this number, from 0. 0: there are no more. They may change with each tick. */
int srt_node_master(const srt_node *node, size_t number, srt_node_master_view *master);
/* Sentinels lead to it: each connection is asked whether its Redis is a master; a replica ends it as READONLY. */
void srt_node_expect_masters(srt_node *node);
/* A connection is open: it is greeted with user and password (NULL: none) and database. OK or NOMEM. */
int srt_node_connected(srt_node *node, srt_channel channel, const char *user, const char *password, int database,
                       int64_t now);
void srt_node_disconnected(srt_node *node, srt_channel channel, int64_t now);
/* Takes bytes from Redis. A status other than OK means: close this connection; the text is in *error. */
int srt_node_input(srt_node *node, srt_channel channel, const char *data, size_t len, int64_t now,
                   seriatim_error *error);
/* The bytes to send now; *len 0: none. Borrowed until the next call with this node. */
void srt_node_output(srt_node *node, srt_channel channel, const char **data, size_t *len);
/* The first len of these bytes were handed to the network; at most as many as there are. */
void srt_node_sent(srt_node *node, srt_channel channel, size_t len);
/* 1: a command of this channel has no answer yet. */
int srt_node_waits(const srt_node *node, srt_channel channel);
/*
 * 1: the connection has served, so the next one need not wait for long. The wake-ups are subscribed; of commands, a
 * heartbeat was answered, or in a cluster any request. A Redis that is loading or refuses writes answers the greeting.
 * Events of the kind LINK tell of connections that have served.
 */
int srt_node_served(const srt_node *node, srt_channel channel);

/* ---- The time -------------------------------------------------------------------------------- */

/* Will the next tick send a heartbeat? Then srt_node_vitals is to be called before. */
int srt_heartbeat_due(const srt_node *node, int64_t now);
/*
 * The state of the process that the next heartbeat publishes: its memory in bytes (0: not known), and its wall clock
 * less `now`, in microseconds.
 */
void srt_node_vitals(srt_node *node, int64_t resident, int64_t wall_us);
/* Does what is due. Returns the time at which it is to be called again. */
int64_t srt_node_tick(srt_node *node, int64_t now);

/* ---- Deliveries, as the runner's functions of these names ------------------------------------- */

/* OK, AGAIN or CLOSED. The delivery is the caller's until srt_node_settle. */
int srt_node_take(srt_node *node, size_t group, int64_t now, seriatim_delivery **delivery);
int srt_node_take_from(srt_node *node, size_t group, seriatim_shard shard, int64_t now, seriatim_delivery **delivery);
/* 1: since this was last called, something has happened after which a take may give something. -1: no such group. */
int srt_node_news(srt_node *node, size_t group);
size_t srt_node_candidates(srt_node *node, size_t group, int64_t now, seriatim_candidate *list, size_t cap);
/*
 * The run time of a delivery that a take gave begins at now_us, a time of srt_clock_us, and ends at the now_us of
 * srt_delivery_timed, which counts it and is called before the settle. Without both calls it is not counted.
 */
void srt_delivery_taken(seriatim_delivery *delivery, int64_t now_us);
void srt_delivery_timed(seriatim_delivery *delivery, int64_t now_us);
void srt_node_settle(srt_node *node, seriatim_delivery *delivery, int64_t now);
int srt_node_extend(srt_node *node, seriatim_delivery *delivery, size_t i, double seconds, int64_t now);
int srt_node_checkpoint(srt_node *node, seriatim_delivery *delivery, size_t i, size_t count, int64_t now);
/* What seriatim_runner_flush waits for: OK, STALE, or AGAIN while a checkpoint is not answered. */
int srt_node_flushed(const seriatim_delivery *delivery);
const char *srt_node_failure(srt_node *node, const seriatim_delivery *delivery, size_t i, int64_t now);

/* ---- The life of the node -------------------------------------------------------------------- */

int srt_node_event(srt_node *node, int64_t now, seriatim_event *event);
void srt_node_pulse(srt_node *node, int64_t now);
void srt_node_quiet(srt_node *node, int64_t now);
void srt_node_stop(srt_node *node, int64_t now);
void srt_node_abandon(srt_node *node, int64_t now);
int srt_node_is_stopped(const srt_node *node); /* 1: the stop is complete */
int srt_node_asked(const srt_node *node);
size_t srt_node_unfinished(const srt_node *node, char *out, size_t cap);
seriatim_runner_stats srt_node_stats(const srt_node *node);

#endif

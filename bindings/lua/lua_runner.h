/*
 * lua_runner.h - where deliveries come from: a runner, which several Lua states may share, or a node without sockets.
 */
#ifndef LUA_RUNNER_H
#define LUA_RUNNER_H

#include "seriatim_native.h"

#define SLU_RUNNER "seriatim.Runner"
#define SLU_NODE "seriatim.Node"
#define SLU_DELIVERY "seriatim.Delivery"

/*
 * What a state that takes deliveries has to know of a worker that another state has added, or withdrawn: of each worker
 * the latest change.
 */
typedef struct slu_change {
    size_t worker;
    int64_t number; /* of all changes of the source, from 1 */
    char *text;     /* what the other states make the worker of; NULL: it was withdrawn */
    size_t len;
} slu_change;

/* Counted: each Runner, Node and Delivery holds it. One of runner and node is there until it is freed. */
typedef struct slu_source {
    size_t references,
        state; /* state: the calls that use it, and whether it is closed; only lua_source.c touches these */
    pid_t pid; /* threads and sockets belong to this process alone: in another one nothing is touched */
    seriatim_runner *runner;
    srt_node *node;
    int started;
    size_t groups;        /* that were made */
    int wake[2];          /* readable once it is closed */
    pthread_mutex_t lock; /* of what follows, which only lua_changes.c touches */
    slu_change *changes;
    size_t change_count;
    int64_t last_change;
} slu_source;

slu_source *slu_source_new(void); /* NULL: no memory or descriptor */
void slu_source_hold(slu_source *source);
void slu_source_release(slu_source *source); /* the last one frees it */
/* 1: it may be used until slu_source_leave. 0: it is closed, or another process'. */
int slu_source_enter(slu_source *source);
void slu_source_leave(slu_source *source);
int slu_source_is_closed(slu_source *source);
void slu_source_close(slu_source *source);

/* The source of the first argument, a Runner or a Node, inside; NULL: return slu_source_closed. */
slu_source *slu_source_inside(lua_State *L);
int slu_source_closed(lua_State *L, slu_source *source);
slu_source *slu_source_of(lua_State *L); /* not inside */

typedef struct slu_delivery {
    seriatim_delivery *delivery; /* NULL: settled */
    slu_source *source;          /* NULL: nothing was taken yet */
    int kind, reading;
    size_t worker, shard, size;
    int64_t taken_ms;
    srt_json_reader reader;
} slu_delivery;
/* An empty Delivery, pushed. */
slu_delivery *slu_delivery_new(lua_State *L);
/* The Delivery at that place, which may be filled again; NULL: there is none. Raises where it is another source's. */
slu_delivery *slu_delivery_spent(lua_State *L, int at, const slu_source *source);
/* Settles a delivery of a node without a runner. now_us: srt_clock_us(). Raises nothing. */
void slu_node_settle(srt_node *node, seriatim_delivery *delivery, int64_t now_us);
/* Raises nothing. */
void slu_delivery_fill(slu_delivery *self, slu_source *source, seriatim_delivery *delivery);
/* All ids of what it holds are done: SERIATIM_OK or _NOMEM. Raises nothing. */
int slu_delivery_done_all(slu_delivery *self);
/*
 * Pushes {id = {what each payload's JSON says}}, or nil where one of them cannot be read; returns 1. 0: it is settled,
 * or its source is closed.
 */
int slu_delivery_read(lua_State *L, slu_delivery *self);

/* A node's settings from a table, which keeps the texts; what a runner and a node have in common. */
void slu_node_settings(lua_State *L, int at, seriatim_node_settings *settings);
/* Methods of both; see lua_changes.c. */
int slu_deliveries_worker(lua_State *L);
int slu_deliveries_withdraw(lua_State *L);
int slu_deliveries_change(lua_State *L);
void slu_changes_free(slu_source *source);
/* The methods of both. */
extern const luaL_Reg slu_deliveries[];
/* An empty Runner or Node, pushed; what it is given, it holds. */
slu_source **slu_source_box(lua_State *L, const char *name);
int slu_source_gc(lua_State *L);

#endif

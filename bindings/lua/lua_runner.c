/* lua_runner.c - native.runner: a node with a thread of its own; and what a runner and a node share. */
#include "lua_runner.h"

/* ---- Making ---------------------------------------------------------------------------------- */

void slu_node_settings(lua_State *L, int at, seriatim_node_settings *s)
{
    luaL_checktype(L, at, LUA_TTABLE);
    luaL_checkstack(L, 16, "settings");
    memset(s, 0, sizeof *s);
    lua_getfield(L, at, "namespace");
    s->options.ns = slu_cstr_or_null(L, -1, "namespace");
    lua_getfield(L, at, "name");
    s->options.name = slu_cstr_or_null(L, -1, "name");
    lua_getfield(L, at, "id");
    s->id = slu_cstr(L, -1, "id");
    lua_getfield(L, at, "description");
    s->description = slu_cstr_or_null(L, -1, "description");
    lua_getfield(L, at, "lease_ms");
    s->lease_ms = slu_int64(L, -1, "lease_ms");
    lua_getfield(L, at, "poll_ms");
    s->poll_ms = slu_int64(L, -1, "poll_ms");
    lua_getfield(L, at, "threads");
    s->threads = slu_size(L, -1, "threads");
    lua_getfield(L, at, "scheduler");
    s->scheduler = slu_int(L, -1, "scheduler");
}

/* native.runner(settings) */
static int runner_new(lua_State *L)
{
    seriatim_node_settings settings;
    seriatim_error error = {0};
    slu_source **box, *source;
    const char *url;
    lua_settop(L, 1);
    slu_node_settings(L, 1, &settings);
    lua_getfield(L, 1, "url");
    url = slu_cstr(L, -1, "url");
    box = slu_source_box(L, SLU_RUNNER);
    source = *box = slu_source_new();
    if (!source)
        return slu_nil(L, "IO", strerror(errno));
    if (seriatim_runner_new(&settings, url, &source->runner, &error) != SERIATIM_OK)
        return slu_nil_error(L, &error);
    return 1;
}

/* runner:handle(): for one runner_of. It holds the runner, which this state may let go before another has begun. */
static int runner_handle(lua_State *L)
{
    slu_source *source = slu_source_of(L);
    if (!source->runner)
        return slu_source_closed(L, source);
    slu_source_hold(source);
    lua_pushlightuserdata(L, source);
    return 1;
}

/* native.runner_of(handle) */
static int runner_of(lua_State *L)
{
    slu_source **box, *source;
    luaL_checktype(L, 1, LUA_TLIGHTUSERDATA);
    source = lua_touserdata(L, 1);
    luaL_argcheck(L, source != NULL, 1, "no handle");
    box = slu_source_box(L, SLU_RUNNER);
    *box = source;
    return 1;
}

/* ---- Before the start: both ------------------------------------------------------------------ */

/* The source, open and not started; NULL: return slu_source_closed. */
static slu_source *deliveries_unstarted(lua_State *L)
{
    slu_source *source = slu_source_of(L);
    if (source->pid != slu_pid() || slu_source_is_closed(source))
        return NULL;
    if (source->started)
        luaL_error(L, "it was started already");
    return source;
}

static seriatim_shard deliveries_shard(lua_State *L, int worker, int shard)
{
    seriatim_shard s;
    size_t index = slu_size(L, shard, "shard");
    s.worker = slu_size(L, worker, "worker");
    s.shard = index < SERIATIM_MAX_SHARDS ? (unsigned)index : SERIATIM_MAX_SHARDS; /* which none has */
    return s;
}

/* deliveries:group(scheduler, {{worker, shard}, ...}) -> its number */
static int deliveries_group(lua_State *L)
{
    slu_source *source = deliveries_unstarted(L);
    seriatim_error error = {0};
    seriatim_shard *shards;
    int scheduler, status;
    size_t group = 0, count, i;
    if (!source)
        return slu_source_closed(L, slu_source_of(L));
    scheduler = slu_int(L, 2, "scheduler");
    luaL_checktype(L, 3, LUA_TTABLE);
    lua_settop(L, 3);
    count = slu_rawlen(L, 3);
    shards = lua_newuserdata(L, (count + 1) * sizeof *shards);
    for (i = 0; i < count; i++) {
        lua_rawgeti(L, 3, (int)(i + 1));
        luaL_checktype(L, 5, LUA_TTABLE);
        lua_rawgeti(L, 5, 1);
        lua_rawgeti(L, 5, 2);
        shards[i] = deliveries_shard(L, 6, 7);
        lua_settop(L, 4);
    }
    status = source->runner ? seriatim_runner_group(source->runner, scheduler, shards, count, &group, &error)
                            : srt_node_group(source->node, scheduler, shards, count, &group, &error);
    if (status != SERIATIM_OK)
        return slu_failure_of(L, &error);
    source->groups++;
    slu_push_int(L, (int64_t)group);
    return 1;
}

static int deliveries_start(lua_State *L)
{
    slu_source *source = deliveries_unstarted(L);
    seriatim_error error = {0};
    int status;
    if (!source)
        return slu_source_closed(L, slu_source_of(L));
    status = source->runner ? seriatim_runner_start(source->runner, &error)
                            : srt_node_start(source->node, srt_clock_ms(), &error);
    if (status != SERIATIM_OK)
        return slu_failure_of(L, &error);
    source->started = 1;
    return slu_true(L);
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* The number of a group of a source that is started. */
static size_t deliveries_number(lua_State *L, const slu_source *source)
{
    size_t group = slu_size(L, 2, "group");
    if (!source->started)
        luaL_error(L, "it is not started");
    luaL_argcheck(L, group < (source->groups ? source->groups : 1), 2, "no such group");
    return group;
}

/* Each take that gave nothing is followed by one wait_end or clear. 0: it is closed. */
static int runner_wait(lua_State *L, slu_source *source, size_t group, int64_t deadline_ms)
{
    seriatim_waiter *waiter;
    struct pollfd fds[2] = {{seriatim_runner_wait_begin(source->runner, group, &waiter), POLLIN, 0},
                            {source->wake[0], POLLIN, 0}};
    slu_poll(fds, 2, deadline_ms, L);
    seriatim_runner_wait_end(source->runner, group, waiter);
    return !slu_source_is_closed(source);
}

/*
 * The time may be over while the descriptor is ready for another thread that waits: hence the take after the last
 * clear.
 */
static int runner_take(lua_State *L, slu_source *source, size_t group, int64_t deadline_ms, seriatim_delivery *settled,
                       seriatim_delivery **delivery)
{
    int status = seriatim_runner_settle_and_take(source->runner, settled, group, delivery), late = deadline_ms == 0;
    while (status == SERIATIM_AGAIN && !late) {
        if (!runner_wait(L, source, group, deadline_ms))
            return SERIATIM_CLOSED;
        late = slu_left_ms(deadline_ms) == 0;
        status = seriatim_runner_take(source->runner, group, delivery);
    }
    if (status == SERIATIM_AGAIN)
        seriatim_runner_clear(source->runner, group);
    return status;
}

static int node_take(srt_node *node, size_t group, seriatim_delivery *settled, seriatim_delivery **delivery)
{
    int64_t now_us = srt_clock_us();
    int status;
    if (settled)
        slu_node_settle(node, settled, now_us);
    status = srt_node_take(node, group, now_us / 1000, delivery);
    if (status == SERIATIM_OK)
        srt_delivery_taken(*delivery, now_us);
    return status;
}

/* With the Delivery to fill on top of the stack; leaves the source. */
static int deliveries_taken(lua_State *L, slu_source *source, int status, seriatim_delivery *delivery)
{
    if (status == SERIATIM_OK)
        slu_delivery_fill(lua_touserdata(L, -1), source, delivery);
    slu_source_leave(source);
    if (status == SERIATIM_OK)
        return 1;
    if (status == SERIATIM_AGAIN) {
        lua_pushnil(L);
        return 1;
    }
    if (status != SERIATIM_CLOSED)
        return slu_failure(L, status, NULL);
    lua_pushboolean(L, 0);
    return 1;
}

/* Inside the source: settles what the Delivery holds and takes the next. */
static int deliveries_next(lua_State *L, slu_source *source, size_t group, int64_t deadline_ms, slu_delivery *self,
                           seriatim_delivery **delivery)
{
    seriatim_delivery *settled = self->delivery;
    self->delivery = NULL;
    return source->runner ? runner_take(L, source, group, deadline_ms, settled, delivery)
                          : node_take(source->node, group, settled, delivery);
}

/* deliveries:take(group, seconds, spent): a node does not wait. What was spent is settled, and filled again. */
static int deliveries_take(lua_State *L)
{
    slu_source *source = slu_source_of(L);
    seriatim_delivery *delivery = NULL;
    size_t group = deliveries_number(L, source);
    int64_t deadline_ms = slu_deadline(L, 3);
    slu_delivery *self;
    int status;
    lua_settop(L, 4);
    self = slu_delivery_spent(L, 4, source);
    if (!self)
        self = slu_delivery_new(L);
    if (!slu_source_enter(source)) {
        lua_pushboolean(L, 0);
        return 1;
    }
    status = deliveries_next(L, source, group, deadline_ms, self, &delivery);
    return deliveries_taken(L, source, status, delivery);
}

/*
 * deliveries:advance(group, delivery) -> as take(group, nil, delivery); payloads. All its ids are done. The payloads
 * are those of what follows, as payloads_by_id gives them, where that is a run of the same worker.
 */
static int deliveries_advance(lua_State *L)
{
    slu_source *source = slu_source_of(L);
    seriatim_delivery *delivery = NULL;
    size_t group = deliveries_number(L, source), worker;
    slu_delivery *self;
    int status;
    lua_settop(L, 3);
    self = slu_delivery_spent(L, 3, source);
    luaL_argcheck(L, self && self->delivery, 3, "a delivery that is not settled is expected");
    if (!slu_source_enter(source)) {
        lua_pushboolean(L, 0);
        return 1;
    }
    worker = self->worker;
    status = slu_delivery_done_all(self);
    if (status == SERIATIM_OK)
        status = deliveries_next(L, source, group, INT64_MAX, self, &delivery);
    if (status != SERIATIM_OK)
        return deliveries_taken(L, source, status, NULL);
    slu_delivery_fill(self, source, delivery);
    slu_source_leave(source);
    return self->kind == SERIATIM_RUN && self->worker == worker ? 1 + slu_delivery_read(L, self) : 1;
}

static int deliveries_from(slu_source *source, size_t group, seriatim_shard shard, seriatim_delivery **delivery)
{
    int64_t now_us = srt_clock_us();
    int status;
    if (source->runner)
        return seriatim_runner_take_from(source->runner, group, shard, delivery);
    status = srt_node_take_from(source->node, group, shard, now_us / 1000, delivery);
    if (status == SERIATIM_OK)
        srt_delivery_taken(*delivery, now_us);
    return status;
}

/* deliveries:take_from(group, worker, shard): as take, from that shard alone and at once */
static int deliveries_take_from(lua_State *L)
{
    slu_source *source = slu_source_of(L);
    seriatim_delivery *delivery = NULL;
    size_t group = deliveries_number(L, source);
    seriatim_shard shard = deliveries_shard(L, 3, 4);
    int status;
    slu_delivery_new(L);
    if (!slu_source_enter(source)) {
        lua_pushboolean(L, 0);
        return 1;
    }
    status = deliveries_from(source, group, shard, &delivery);
    if (status == SERIATIM_AGAIN && source->runner)
        seriatim_runner_clear(source->runner, group);
    return deliveries_taken(L, source, status, delivery);
}

/*
 * deliveries:take_unscheduled(group, seconds): as take, but only dead ids and ids in doubt, which no scheduler chooses.
 * If there are no such ids, a runner waits for a change, and the answer is nil.
 */
static int deliveries_take_unscheduled(lua_State *L)
{
    static const seriatim_shard no_shard = {0, SERIATIM_MAX_SHARDS};
    slu_source *source = slu_source_of(L);
    seriatim_delivery *delivery = NULL;
    size_t group = deliveries_number(L, source);
    int64_t deadline_ms = slu_deadline(L, 3);
    int status;
    slu_delivery_new(L);
    if (!slu_source_enter(source)) {
        lua_pushboolean(L, 0);
        return 1;
    }
    status = deliveries_from(source, group, no_shard, &delivery);
    if (status == SERIATIM_AGAIN && source->runner && !runner_wait(L, source, group, deadline_ms))
        status = SERIATIM_CLOSED;
    return deliveries_taken(L, source, status, delivery);
}

static void deliveries_candidate(lua_State *L, const void *list, size_t i)
{
    const seriatim_candidate *c = (const seriatim_candidate *)list + i;
    lua_createtable(L, 4, 0);
    slu_push_int(L, (int64_t)c->shard.worker);
    lua_rawseti(L, -2, 1);
    slu_push_int(L, c->shard.shard);
    lua_rawseti(L, -2, 2);
    lua_pushnumber(L, c->lag);
    lua_rawseti(L, -2, 3);
    slu_push_int(L, (int64_t)c->size);
    lua_rawseti(L, -2, 4);
}

/* deliveries:candidates(group, cap) -> {{worker, shard, lag, size}, ...} */
static int deliveries_candidates(lua_State *L)
{
    slu_source *source = slu_source_of(L);
    size_t group = deliveries_number(L, source), room = slu_size(L, 3, "cap"), count;
    seriatim_candidate *list;
    luaL_argcheck(L, room < INT_MAX / sizeof *list, 3, "too many");
    list = lua_newuserdata(L, (room + 1) * sizeof *list);
    if (!slu_source_enter(source))
        return slu_source_closed(L, source);
    count = source->runner ? seriatim_runner_candidates(source->runner, group, list, room)
                           : srt_node_candidates(source->node, group, srt_clock_ms(), list, room);
    slu_source_leave(source);
    slu_push_list(L, count, deliveries_candidate, list);
    return 1;
}

/* ---- Watching and ending --------------------------------------------------------------------- */

/* deliveries:event() -> kind, number, text; nil: none */
static int deliveries_event(lua_State *L)
{
    static const char *const names[] = {"lease",   "lost",     "refused", "recovered", "link",
                                        "warning", "failures", "morgue",  "stale"};
    slu_source *source = slu_source_inside(L);
    seriatim_event event;
    int status;
    if (!source)
        return slu_source_closed(L, slu_source_of(L));
    status = source->runner ? seriatim_runner_event(source->runner, &event)
                            : srt_node_event(source->node, srt_clock_ms(), &event);
    slu_source_leave(source);
    if (status != SERIATIM_OK)
        return 0;
    lua_pushstring(L, names[event.kind]);
    slu_push_int(L, event.number);
    lua_pushstring(L, event.text);
    return 3;
}

static int deliveries_order(lua_State *L, void (*of_runner)(seriatim_runner *), void (*of_node)(srt_node *, int64_t))
{
    slu_source *source = slu_source_inside(L);
    if (!source)
        return slu_source_closed(L, slu_source_of(L));
    if (source->runner)
        of_runner(source->runner);
    else
        of_node(source->node, srt_clock_ms());
    slu_source_leave(source);
    return slu_true(L);
}

static int deliveries_pulse(lua_State *L)
{
    return deliveries_order(L, seriatim_runner_pulse, srt_node_pulse);
}

static int deliveries_quiet(lua_State *L)
{
    return deliveries_order(L, seriatim_runner_quiet, srt_node_quiet);
}

static int deliveries_stop(lua_State *L)
{
    return deliveries_order(L, seriatim_runner_stop, srt_node_stop);
}

static int deliveries_abandon(lua_State *L)
{
    return deliveries_order(L, seriatim_runner_abandon, srt_node_abandon);
}

/* deliveries:asked() -> "quiet", "stop" or nil */
static int deliveries_asked(lua_State *L)
{
    slu_source *source = slu_source_inside(L);
    int order;
    if (!source)
        return slu_source_closed(L, slu_source_of(L));
    order = source->runner ? seriatim_runner_asked(source->runner) : srt_node_asked(source->node);
    slu_source_leave(source);
    if (order == SERIATIM_ORDER_NONE)
        return 0;
    lua_pushstring(L, order == SERIATIM_ORDER_STOP ? "stop" : "quiet");
    return 1;
}

static int deliveries_stopped(lua_State *L)
{
    slu_source *source = slu_source_inside(L);
    int stopped;
    if (!source)
        return slu_source_closed(L, slu_source_of(L));
    if (source->runner)
        slu_ending_note(
            source->runner); /* a signal that ends the process while this is asked again and again tells it */
    stopped = source->runner ? seriatim_runner_stopped(source->runner) : srt_node_is_stopped(source->node);
    slu_source_leave(source);
    lua_pushboolean(L, stopped);
    return 1;
}

/* deliveries:unfinished() -> what threads have in hand, in one line */
static int deliveries_unfinished(lua_State *L)
{
    slu_source *source = slu_source_inside(L);
    char text[1000];
    if (!source)
        return slu_source_closed(L, slu_source_of(L));
    if (source->runner)
        seriatim_runner_unfinished(source->runner, text, sizeof text);
    else
        srt_node_unfinished(source->node, text, sizeof text);
    slu_source_leave(source);
    lua_pushstring(L, text);
    return 1;
}

static int deliveries_stats(lua_State *L)
{
    slu_source *source = slu_source_inside(L);
    seriatim_runner_stats stats;
    if (!source)
        return slu_source_closed(L, slu_source_of(L));
    stats = source->runner ? seriatim_runner_stats_now(source->runner) : srt_node_stats(source->node);
    slu_source_leave(source);
    lua_createtable(L, 0, 8);
    slu_set_int(L, "commands", (int64_t)stats.commands);
    slu_set_int(L, "processed", (int64_t)stats.processed);
    slu_set_int(L, "failed", (int64_t)stats.failed);
    slu_set_int(L, "refused", (int64_t)stats.refused);
    slu_set_int(L, "shards", (int64_t)stats.shards);
    slu_set_int(L, "running", (int64_t)stats.running);
    slu_set_int(L, "claimed", (int64_t)stats.claimed);
    slu_set_bool(L, "connected", stats.connected);
    return 1;
}

/* Frees it as soon as nobody is inside. */
static int deliveries_close(lua_State *L)
{
    slu_source_close(slu_source_of(L));
    return 0;
}

const luaL_Reg slu_deliveries[] = {{"worker", slu_deliveries_worker},
                                   {"group", deliveries_group},
                                   {"start", deliveries_start},
                                   {"take", deliveries_take},
                                   {"advance", deliveries_advance},
                                   {"event", deliveries_event},
                                   {"take_from", deliveries_take_from},
                                   {"take_unscheduled", deliveries_take_unscheduled},
                                   {"pulse", deliveries_pulse},
                                   {"candidates", deliveries_candidates},
                                   {"quiet", deliveries_quiet},
                                   {"stop", deliveries_stop},
                                   {"abandon", deliveries_abandon},
                                   {"stopped", deliveries_stopped},
                                   {"unfinished", deliveries_unfinished},
                                   {"stats", deliveries_stats},
                                   {"withdraw", slu_deliveries_withdraw},
                                   {"change", slu_deliveries_change},
                                   {"close", deliveries_close},
                                   {"asked", deliveries_asked},
                                   {NULL, NULL}};

void slu_open_runner(lua_State *L)
{
    static const luaL_Reg methods[] = {{"handle", runner_handle}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"runner", runner_new}, {"runner_of", runner_of}, {NULL, NULL}};
    slu_class(L, SLU_RUNNER, methods, slu_source_gc);
    slu_methods(L, SLU_RUNNER, slu_deliveries);
    slu_functions(L, functions);
}

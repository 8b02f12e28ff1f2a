/* lua_delivery.c - seriatim.Delivery: what a thread has to do, and what became of it. */
#include "lua_runner.h"

slu_delivery *slu_delivery_new(lua_State *L)
{
    slu_delivery *self = slu_new(L, SLU_DELIVERY, sizeof *self);
    srt_json_reader_init(&self->reader, seriatim_default_allocator(), "", 0);
    return self;
}

slu_delivery *slu_delivery_spent(lua_State *L, int at, const slu_source *source)
{
    slu_delivery *self;
    if (lua_isnoneornil(L, at))
        return NULL;
    self = luaL_checkudata(L, at, SLU_DELIVERY);
    luaL_argcheck(L, !self->source || self->source == source, at, "a delivery of this runner is expected");
    if (self->reading)
        luaL_error(L, "the delivery is being read");
    return self;
}

void slu_delivery_fill(slu_delivery *self, slu_source *source, seriatim_delivery *delivery)
{
    if (!self->source)
        slu_source_hold(source);
    self->source = source;
    self->delivery = delivery;
    self->taken_ms = srt_clock_ms();
    self->kind = seriatim_delivery_kind_of(delivery);
    self->worker = seriatim_delivery_worker(delivery);
    self->shard = seriatim_delivery_shard(delivery);
    self->size = seriatim_delivery_size(delivery);
}

void slu_node_settle(srt_node *node, seriatim_delivery *delivery, int64_t now_us)
{
    srt_delivery_timed(delivery, now_us);
    srt_node_settle(node, delivery, now_us / 1000);
}

static void delivery_hand_back(slu_source *source, seriatim_delivery *delivery)
{
    if (source->runner)
        seriatim_runner_settle(source->runner, delivery);
    else
        slu_node_settle(source->node, delivery, srt_clock_us());
}

static int delivery_gc(lua_State *L)
{
    slu_delivery *self = luaL_checkudata(L, 1, SLU_DELIVERY);
    slu_source *source = self->source;
    seriatim_delivery *delivery = self->delivery;
    self->source = NULL;
    self->delivery = NULL;
    if (delivery && slu_source_enter(source)) {
        delivery_hand_back(source, delivery);
        slu_source_leave(source);
    }
    if (source)
        slu_source_release(source);
    srt_json_reader_free(&self->reader);
    return 0;
}

/* 0: it is settled, or its source is closed. */
static int delivery_enter(const slu_delivery *self)
{
    return self->delivery && slu_source_enter(self->source);
}

/* The delivery, not settled yet, inside its source; NULL: return delivery_closed. */
static slu_delivery *delivery_inside(lua_State *L)
{
    slu_delivery *self = luaL_checkudata(L, 1, SLU_DELIVERY);
    return delivery_enter(self) ? self : NULL;
}

static int delivery_closed(lua_State *L)
{
    slu_delivery *self = luaL_checkudata(L, 1, SLU_DELIVERY);
    if (!self->delivery)
        return slu_failure(L, SERIATIM_CLOSED, "the delivery is settled");
    return slu_source_closed(L, self->source);
}

/* The second argument: a place of this delivery. */
static size_t delivery_place(lua_State *L)
{
    const slu_delivery *self = luaL_checkudata(L, 1, SLU_DELIVERY);
    size_t place = slu_place(L, 2, "place");
    luaL_argcheck(L, place < self->size, 2, "no such id in this delivery");
    return place;
}

static int delivery_done_with(lua_State *L, slu_delivery *self, int status)
{
    slu_source_leave(self->source);
    return status == SERIATIM_OK ? slu_true(L) : slu_failure(L, status, NULL);
}

/* ---- Reading: the collector may run anyone's code meanwhile, so neither may be ended --------- */

typedef struct delivery_view {
    slu_delivery *self;
    size_t place;
} delivery_view;

/* Calls f under protection, inside the source; its results are what was pushed. -1: return delivery_closed. */
static int delivery_read(lua_State *L, slu_delivery *self, size_t place, lua_CFunction f)
{
    delivery_view view = {self, place};
    int top = lua_gettop(L), status;
    slu_prepare(L, f, &view);
    if (!delivery_enter(self)) {
        lua_settop(L, top);
        return -1;
    }
    self->reading++;
    status = slu_protect(L);
    self->reading--;
    slu_source_leave(self->source);
    return status ? lua_error(L) : lua_gettop(L) - top;
}

static void delivery_payload(lua_State *L, const void *payloads, size_t i)
{
    const seriatim_payload *p = (const seriatim_payload *)payloads + i;
    lua_createtable(L, 3, 0);
    lua_pushlstring(L, p->data, p->len);
    lua_rawseti(L, -2, 1);
    lua_pushnumber(L, p->score);
    lua_rawseti(L, -2, 2);
    if (p->context_len == 0)
        return;
    lua_pushlstring(L, p->context, p->context_len);
    lua_rawseti(L, -2, 3);
}

int slu_push_claimed(lua_State *L, const seriatim_claimed *job)
{
    luaL_checkstack(L, 12, "a job");
    lua_pushlstring(L, job->id, job->id_len);
    slu_push_int(L, job->fence);
    slu_push_int(L, job->retry_count);
    lua_pushnumber(L, job->perform_in);
    if (job->error_len)
        lua_pushlstring(L, job->error, job->error_len);
    else
        lua_pushnil(L);
    slu_push_list(L, job->payload_count, delivery_payload, job->payloads);
    slu_push_int(L, (int64_t)job->payload_total);
    return 7;
}

static int delivery_read_job(lua_State *L)
{
    const delivery_view *view = lua_touserdata(L, 1);
    return slu_push_claimed(L, seriatim_delivery_job(view->self->delivery, view->place));
}

/* delivery:job(place) -> id, fence, retry_count, perform_in, error, {{payload, score, context}}, payload_total */
static int delivery_job(lua_State *L)
{
    size_t place = delivery_place(L);
    int count = delivery_read(L, lua_touserdata(L, 1), place, delivery_read_job);
    return count < 0 ? delivery_closed(L) : count;
}

/* Pushes the list of what the payloads of one id say; 0: one of them cannot be read. */
static int delivery_read_payloads(lua_State *L, srt_json_reader *reader, const seriatim_claimed *job)
{
    size_t i;
    lua_createtable(L, (int)job->payload_count, 0);
    for (i = 0; i < job->payload_count; i++) {
        srt_json_reader_reset(reader, job->payloads[i].data, job->payloads[i].len);
        if (!slu_json_read(L, reader))
            return 0;
        lua_rawseti(L, -2, (int)(i + 1));
    }
    return 1;
}

static int delivery_read_all(lua_State *L)
{
    slu_delivery *self = ((delivery_view *)lua_touserdata(L, 1))->self;
    size_t i;
    luaL_checkstack(L, 12, "payloads");
    lua_createtable(L, 0, (int)self->size);
    for (i = 0; i < self->size; i++) {
        const seriatim_claimed *job = seriatim_delivery_job(self->delivery, i);
        lua_pushlstring(L, job->id, job->id_len);
        if (!delivery_read_payloads(L, &self->reader, job))
            return 0;
        lua_rawset(L, 2);
    }
    srt_bytes_free(&self->reader.scratch);
    return 1;
}

static int delivery_read_ids(lua_State *L)
{
    const slu_delivery *self = ((delivery_view *)lua_touserdata(L, 1))->self;
    size_t i;
    lua_createtable(L, (int)self->size, 0);
    for (i = 0; i < self->size; i++) {
        const seriatim_claimed *job = seriatim_delivery_job(self->delivery, i);
        lua_pushlstring(L, job->id, job->id_len);
        lua_rawseti(L, 2, (int)(i + 1));
    }
    return 1;
}

int slu_delivery_read(lua_State *L, slu_delivery *self)
{
    int count = delivery_read(L, self, 0, delivery_read_all);
    if (count == 0)
        lua_pushnil(L);
    return count < 0 ? 0 : 1;
}

/* delivery:payloads_by_id() -> {id = {what each payload's JSON says}}; nil when one of them cannot be read */
static int delivery_payloads_by_id(lua_State *L)
{
    return slu_delivery_read(L, luaL_checkudata(L, 1, SLU_DELIVERY)) ? 1 : delivery_closed(L);
}

/* delivery:ids() -> {ids} */
static int delivery_ids(lua_State *L)
{
    int count = delivery_read(L, luaL_checkudata(L, 1, SLU_DELIVERY), 0, delivery_read_ids);
    return count < 0 ? delivery_closed(L) : count;
}

/* ---- Outcomes -------------------------------------------------------------------------------- */

static int delivery_done(lua_State *L)
{
    size_t place = delivery_place(L);
    slu_delivery *self = delivery_inside(L);
    return self ? delivery_done_with(L, self, seriatim_delivery_done(self->delivery, place)) : delivery_closed(L);
}

int slu_delivery_done_all(slu_delivery *self)
{
    int status = SERIATIM_OK;
    size_t i;
    for (i = 0; status == SERIATIM_OK && i < self->size; i++)
        status = seriatim_delivery_done(self->delivery, i);
    return status;
}

static int delivery_done_all(lua_State *L)
{
    slu_delivery *self = delivery_inside(L);
    return self ? delivery_done_with(L, self, slu_delivery_done_all(self)) : delivery_closed(L);
}

/* delivery:fail(place, error, retry_in) */
static int delivery_fail(lua_State *L)
{
    size_t place = delivery_place(L), len;
    const char *error = slu_text(L, 3, "error", &len);
    double retry_in = slu_double(L, 4, "retry_in");
    slu_delivery *self = delivery_inside(L);
    if (!self)
        return delivery_closed(L);
    return delivery_done_with(L, self, seriatim_delivery_fail(self->delivery, place, error, len, retry_in));
}

static int delivery_release(lua_State *L)
{
    size_t place = delivery_place(L);
    slu_delivery *self = delivery_inside(L);
    return self ? delivery_done_with(L, self, seriatim_delivery_release(self->delivery, place)) : delivery_closed(L);
}

/* The places of payloads, ascending, in Lua's memory on the stack. */
static size_t *delivery_places(lua_State *L, int at, size_t *count)
{
    size_t *places, i;
    luaL_checktype(L, at, LUA_TTABLE);
    *count = slu_rawlen(L, at);
    places = lua_newuserdata(L, (*count + 1) * sizeof *places);
    for (i = 0; i < *count; i++) {
        lua_rawgeti(L, at, (int)(i + 1));
        places[i] = slu_place(L, -1, "a payload's place");
        lua_pop(L, 1);
        if (places[i] == SIZE_MAX || (i > 0 && places[i] <= places[i - 1]))
            luaL_argerror(L, at, "places must be ascending, and of this id's payloads");
    }
    return places;
}

/* delivery:reject(place, places, reason) */
static int delivery_reject(lua_State *L)
{
    size_t place = delivery_place(L), len, count;
    const char *reason = slu_text(L, 4, "reason", &len);
    const size_t *places = delivery_places(L, 3, &count);
    slu_delivery *self = delivery_inside(L);
    int status = SERIATIM_INVALID;
    if (!self)
        return delivery_closed(L);
    if (count == 0 || places[count - 1] < seriatim_delivery_job(self->delivery, place)->payload_count)
        status = seriatim_delivery_reject(self->delivery, place, places, count, reason, len);
    slu_source_leave(self->source);
    if (status == SERIATIM_INVALID)
        return luaL_argerror(L, 3, "places must be ascending, and of this id's payloads");
    return status == SERIATIM_OK ? slu_true(L) : slu_failure(L, status, NULL);
}

/* delivery:extend(place, seconds) */
static int delivery_extend(lua_State *L)
{
    size_t place = delivery_place(L);
    double seconds = slu_double(L, 3, "seconds");
    slu_delivery *self = delivery_inside(L);
    int status;
    if (!self)
        return delivery_closed(L);
    status = self->source->runner ? seriatim_runner_extend(self->source->runner, self->delivery, place, seconds)
                                  : srt_node_extend(self->source->node, self->delivery, place, seconds, srt_clock_ms());
    return delivery_done_with(L, self, status);
}

/* delivery:checkpoint(place, count) */
static int delivery_checkpoint(lua_State *L)
{
    size_t place = delivery_place(L), count = slu_place(L, 3, "count") + 1;
    slu_delivery *self = delivery_inside(L);
    unsigned long payloads;
    int status;
    if (!self)
        return delivery_closed(L);
    payloads = (unsigned long)seriatim_delivery_job(self->delivery, place)->payload_count;
    status = self->source->runner
                 ? seriatim_runner_checkpoint(self->source->runner, self->delivery, place, count)
                 : srt_node_checkpoint(self->source->node, self->delivery, place, count, srt_clock_ms());
    if (status != SERIATIM_INVALID)
        return delivery_done_with(L, self, status);
    slu_source_leave(self->source);
    return slu_failure(
        L, status,
        lua_pushfstring(L, "checkpoint of %d payloads: the id has %d in this batch", (int)count, (int)payloads));
}

#define FLUSH_SLICE_MS 1000

/* Of a runner: waits. A closed source ends the wait with CLOSED. */
static int delivery_flushed(slu_delivery *self)
{
    int status;
    if (!self->source->runner)
        return srt_node_flushed(self->delivery);
    do
        status = seriatim_runner_flush(self->source->runner, self->delivery, FLUSH_SLICE_MS);
    while (status == SERIATIM_AGAIN && !slu_source_is_closed(self->source));
    return status == SERIATIM_AGAIN ? SERIATIM_CLOSED : status;
}

/*
 * delivery:flush() -> true once Redis has confirmed all its checkpoints; false, of a node: not yet; nil, kind, message
 */
static int delivery_flush(lua_State *L)
{
    slu_delivery *self = delivery_inside(L);
    int status;
    if (!self)
        return delivery_closed(L);
    status = delivery_flushed(self);
    slu_source_leave(self->source);
    if (status == SERIATIM_OK || status == SERIATIM_AGAIN) {
        lua_pushboolean(L, status == SERIATIM_OK);
        return 1;
    }
    return slu_failure(
        L, status,
        status == SERIATIM_STALE
            ? "the run is not this process's any more: another has taken it, or the end of a stop has handed it back"
            : NULL);
}

/* delivery:snooze(place, seconds, payload or nil) */
static int delivery_snooze(lua_State *L)
{
    size_t place = delivery_place(L), len = 0;
    double seconds = slu_double(L, 3, "seconds");
    const char *payload = lua_isnoneornil(L, 4) ? NULL : slu_text(L, 4, "payload", &len);
    slu_delivery *self = delivery_inside(L);
    if (!self)
        return delivery_closed(L);
    return delivery_done_with(L, self, seriatim_delivery_snooze(self->delivery, place, seconds, payload, len));
}

/* delivery:failure(place): the event as which the failure of this id is to be logged, or nil */
static int delivery_failure(lua_State *L)
{
    size_t place = delivery_place(L);
    slu_delivery *self = delivery_inside(L);
    const char *event = "fail";
    if (self) {
        event = self->source->runner ? seriatim_runner_failure(self->source->runner, self->delivery, place)
                                     : srt_node_failure(self->source->node, self->delivery, place, srt_clock_ms());
        slu_source_leave(self->source);
    }
    lua_pushstring(L, event);
    return 1;
}

static int delivery_settle(lua_State *L)
{
    slu_delivery *self = delivery_inside(L);
    seriatim_delivery *delivery;
    if (!self)
        return delivery_closed(L);
    if (self->reading) {
        slu_source_leave(self->source);
        return luaL_error(L, "the delivery is being read");
    }
    delivery = self->delivery;
    self->delivery = NULL;
    delivery_hand_back(self->source, delivery);
    slu_source_leave(self->source);
    return slu_true(L);
}

/* ---- Figures, which stay when it is settled -------------------------------------------------- */

/* delivery:kind() -> "run", "died" or "exhausted", and what worker() gives */
static int delivery_kind(lua_State *L)
{
    static const char *const kinds[] = {"run", "died", "exhausted"};
    const slu_delivery *self = luaL_checkudata(L, 1, SLU_DELIVERY);
    lua_pushstring(L, kinds[self->kind]);
    slu_push_int(L, (int64_t)self->worker);
    return 2;
}

/* delivery:elapsed() -> seconds since it was taken */
static int delivery_elapsed(lua_State *L)
{
    const slu_delivery *self = luaL_checkudata(L, 1, SLU_DELIVERY);
    lua_pushnumber(L, (lua_Number)(srt_clock_ms() - self->taken_ms) / 1000);
    return 1;
}

static int delivery_worker(lua_State *L)
{
    const slu_delivery *self = luaL_checkudata(L, 1, SLU_DELIVERY);
    slu_push_int(L, (int64_t)self->worker);
    return 1;
}

static int delivery_shard(lua_State *L)
{
    const slu_delivery *self = luaL_checkudata(L, 1, SLU_DELIVERY);
    slu_push_int(L, (int64_t)self->shard);
    return 1;
}

static int delivery_size(lua_State *L)
{
    const slu_delivery *self = luaL_checkudata(L, 1, SLU_DELIVERY);
    slu_push_int(L, (int64_t)self->size);
    return 1;
}

void slu_open_delivery(lua_State *L)
{
    static const luaL_Reg methods[] = {{"kind", delivery_kind},
                                       {"worker", delivery_worker},
                                       {"shard", delivery_shard},
                                       {"size", delivery_size},
                                       {"job", delivery_job},
                                       {"payloads_by_id", delivery_payloads_by_id},
                                       {"done", delivery_done},
                                       {"done_all", delivery_done_all},
                                       {"fail", delivery_fail},
                                       {"release", delivery_release},
                                       {"reject", delivery_reject},
                                       {"extend", delivery_extend},
                                       {"checkpoint", delivery_checkpoint},
                                       {"flush", delivery_flush},
                                       {"snooze", delivery_snooze},
                                       {"failure", delivery_failure},
                                       {"settle", delivery_settle},
                                       {"ids", delivery_ids},
                                       {"elapsed", delivery_elapsed},
                                       {NULL, NULL}};
    slu_class(L, SLU_DELIVERY, methods, delivery_gc);
}

/* lua_pop.c - pop and popped, as methods of Link and Client: takes a due id, and reports the result of a delivery. */
#include "lua_link.h"

/* ---- Pop ------------------------------------------------------------------------------------- */

static void pop_payload(lua_State *L, const void *payloads, size_t i)
{
    const seriatim_payload *p = (const seriatim_payload *)payloads + i;
    lua_createtable(L, 4, 0);
    lua_pushlstring(L, p->data, p->len);
    lua_rawseti(L, -2, 1);
    lua_pushnumber(L, p->score);
    lua_rawseti(L, -2, 2);
    lua_pushnumber(L, p->stamp);
    lua_rawseti(L, -2, 3);
    if (p->context_len == 0)
        return;
    lua_pushlstring(L, p->context, p->context_len);
    lua_rawseti(L, -2, 4);
}

static int pop_read(lua_State *L, const slu_link *self)
{
    const seriatim_popped *popped = seriatim_pop_result(self->client);
    if (!popped) {
        lua_pushboolean(L, 0);
        return 1;
    }
    lua_createtable(L, 0, 9);
    slu_set_int(L, "queue", (int64_t)popped->queue);
    slu_set_text(L, "id", popped->job.id, popped->job.id_len);
    slu_set_int(L, "fence", popped->job.fence);
    slu_set_int(L, "deliveries", popped->deliveries);
    slu_set_int(L, "retry_count", popped->job.retry_count);
    if (popped->job.error_len)
        slu_set_text(L, "error", popped->job.error, popped->job.error_len);
    lua_pushboolean(L, popped->more);
    lua_setfield(L, -2, "more");
    slu_push_list(L, popped->job.payload_count, pop_payload, popped->job.payloads);
    lua_setfield(L, -2, "payloads");
    if (popped->token.data)
        slu_set_text(L, "token", popped->token.data, popped->token.len);
    return 1;
}

/* The numbers of a list, in Lua's memory on the stack. */
static size_t *pop_queues(lua_State *L, int at, size_t *count)
{
    size_t *queues, i;
    luaL_checktype(L, at, LUA_TTABLE);
    *count = slu_rawlen(L, at);
    queues = lua_newuserdata(L, (*count + 1) * sizeof *queues);
    for (i = 0; i < *count; i++) {
        lua_rawgeti(L, at, (int)(i + 1));
        queues[i] = slu_size(L, -1, "queue");
        lua_pop(L, 1);
    }
    return queues;
}

/* One for each queue, in Lua's memory on the stack; NULL for nil. */
static const int64_t *pop_weights(lua_State *L, int at, size_t count)
{
    int64_t *weights;
    size_t i;
    if (lua_isnil(L, at))
        return NULL;
    luaL_checktype(L, at, LUA_TTABLE);
    luaL_argcheck(L, slu_rawlen(L, at) == count, at, "one weight for each queue is expected");
    weights = lua_newuserdata(L, (count + 1) * sizeof *weights);
    for (i = 0; i < count; i++) {
        lua_rawgeti(L, at, (int)(i + 1));
        weights[i] = slu_int64(L, -1, "weight");
        lua_pop(L, 1);
    }
    return weights;
}

/*
 * link:pop(queues, weights or nil, wait, ttr, max): false, or a table with queue, id, fence, deliveries, token,
 * retry_count, error, more, and payloads as {{bytes, score, stamp, context}}. token is nil if ttr is 0.
 */
static int link_pop(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    seriatim_pop pop;
    if (!self)
        return slu_link_closed(L);
    lua_settop(L, 6);
    seriatim_pop_init(&pop);
    pop.wait = slu_double(L, 4, "wait");
    pop.ttr = slu_double(L, 5, "ttr");
    pop.max = slu_int64(L, 6, "max");
    pop.queues = pop_queues(L, 2, &pop.queue_count);
    pop.weights = pop_weights(L, 3, pop.queue_count);
    return slu_link_begun(L, self, seriatim_pop_begin(self->client, &pop), pop_read);
}

/* ---- Popped ---------------------------------------------------------------------------------- */

static int popped_read(lua_State *L, const slu_link *self)
{
    (void)self;
    return slu_true(L);
}

/* How many payloads a checkpoint is about, or the stamps of those that a rejection is about, in Lua's memory on the
 * stack. */
static void popped_set_payloads(lua_State *L, int at, seriatim_popped_outcome *outcome)
{
    seriatim_payload *payloads;
    size_t i;
    if (lua_type(L, at) == LUA_TNUMBER)
        outcome->payload_count = slu_size(L, at, "count");
    if (lua_type(L, at) != LUA_TTABLE)
        return;
    outcome->payload_count = slu_rawlen(L, at);
    payloads = lua_newuserdata(L, (outcome->payload_count + 1) * sizeof *payloads);
    memset(payloads, 0, (outcome->payload_count + 1) * sizeof *payloads);
    for (i = 0; i < outcome->payload_count; i++) {
        lua_rawgeti(L, at, (int)(i + 1));
        payloads[i].stamp = slu_double(L, -1, "stamp");
        lua_pop(L, 1);
    }
    outcome->payloads = payloads;
}

static int popped_kind(lua_State *L, int at)
{
    static const char *const kinds[] = {"ack", "fail", "release", "extend", "snooze", "checkpoint", "reject", NULL};
    return luaL_checkoption(L, at, NULL, kinds);
}

/*
 * link:popped(token, kind, seconds or nil, text or nil, payloads): true. payloads: a number of them for "checkpoint", a
 * list of stamps for "reject", else nil.
 */
static int link_popped(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    seriatim_popped_outcome outcome = {0};
    seriatim_text token;
    if (!self)
        return slu_link_closed(L);
    lua_settop(L, 6);
    token.data = slu_text(L, 2, "token", &token.len);
    outcome.kind = popped_kind(L, 3);
    if (!lua_isnil(L, 4))
        outcome.seconds = slu_double(L, 4, "seconds");
    if (!lua_isnil(L, 5))
        outcome.text.data = slu_text(L, 5, "text", &outcome.text.len);
    popped_set_payloads(L, 6, &outcome);
    return slu_link_begun(L, self, seriatim_popped_begin(self->client, token, &outcome), popped_read);
}

/* token_parts(token): {queue = ..., id = ..., fence = ..., payload_count = ...}, or nil: the text is no token. */
static int token_parts(lua_State *L)
{
    char bytes[SERIATIM_TOKEN];
    seriatim_token_parts parts;
    seriatim_text token;
    token.data = slu_text(L, 1, "token", &token.len);
    if (seriatim_token_read(token, bytes, &parts) != SERIATIM_OK) {
        lua_pushnil(L);
        return 1;
    }
    lua_createtable(L, 0, 4);
    slu_set_text(L, "queue", parts.queue.data, parts.queue.len);
    slu_set_text(L, "id", parts.id.data, parts.id.len);
    slu_set_int(L, "fence", parts.fence);
    slu_set_int(L, "payload_count", (int64_t)parts.payload_count);
    return 1;
}

void slu_open_pop(lua_State *L)
{
    static const luaL_Reg functions[] = {{"token_parts", token_parts}, {NULL, NULL}};
    slu_functions(L, functions);
}

const luaL_Reg slu_pops[] = {{"pop", link_pop}, {"popped", link_popped}, {NULL, NULL}};

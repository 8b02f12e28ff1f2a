/* lua_ick.c - the calls of two-phase commit sets, as a method of Link and Client. */
#include "lua_link.h"

#include <math.h>

/* ---- Calls ------------------------------------------------------------------------------------ */

/* Fills the members from two lists on the stack; they keep the texts. scores: its place, where there may be nil. */
static void ick_members(lua_State *L, int list, int scores, seriatim_ick_member *members, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++) {
        lua_rawgeti(L, list, (int)i + 1);
        members[i].data = slu_text(L, -1, "a member", &members[i].len);
        lua_pop(L, 1);
        members[i].score = 0;
        if (lua_isnil(L, scores))
            continue;
        lua_rawgeti(L, scores, (int)i + 1);
        members[i].score = slu_double(L, -1, "a score");
        lua_pop(L, 1);
    }
}

/*
 * One call, at the top of the stack: {name of the call, name of the set, token, max_size, backwash, members, their
 * scores or nil}. Leaves the stack as it was.
 */
static int ick_call(lua_State *L, seriatim_client *client, seriatim_ick *ick)
{
    int call = lua_gettop(L), i, status;
    size_t kind_len, count;
    const char *kind;
    seriatim_ick_member *members;
    luaL_checktype(L, call, LUA_TTABLE);
    luaL_checkstack(L, 16, "a call");
    for (i = 1; i <= 7; i++)
        lua_rawgeti(L, call, i);
    luaL_checktype(L, call + 6, LUA_TTABLE);
    kind = slu_text(L, call + 1, "the call", &kind_len);
    ick->name.data = slu_text(L, call + 2, "the name", &ick->name.len);
    ick->token = slu_int64(L, call + 3, "the token");
    count = slu_rawlen(L, call + 6);
    members = lua_newuserdata(L, (count + 1) * sizeof *members);
    ick_members(L, call + 6, call + 7, members, count);
    status = srt_ick_call(client, kind, kind_len, ick, slu_int64(L, call + 4, "max_size"), lua_toboolean(L, call + 5),
                          members, count);
    lua_settop(L, call);
    return status;
}

/* ---- Results ---------------------------------------------------------------------------------- */

static void ick_pair(lua_State *L, const void *members, size_t i)
{
    const seriatim_ick_member *m = (const seriatim_ick_member *)members + i;
    lua_createtable(L, 2, 0);
    lua_pushlstring(L, m->data, m->len);
    lua_rawseti(L, -2, 1);
    lua_pushnumber(L, m->score);
    lua_rawseti(L, -2, 2);
}

static void ick_score(lua_State *L, const char *name, double score)
{
    if (srt_ick_is_whole(score))
        slu_set_int(L, name, (int64_t)score);
    else
        slu_set_double(L, name, score);
}

/* The lowest and the highest score, only if there is one. */
static void ick_range(lua_State *L, const char *low, const char *high, const seriatim_ick_figures *figures)
{
    if (isnan(figures->lowest))
        return;
    ick_score(L, low, figures->lowest);
    ick_score(L, high, figures->highest);
}

static void ick_stats(lua_State *L, const seriatim_ick_result *r)
{
    lua_createtable(L, 0, 16);
    slu_set_text(L, "pset_key", r->producer_key.data, r->producer_key.len);
    slu_set_text(L, "cset_key", r->consumer_key.data, r->consumer_key.len);
    slu_set_cstr(L, "ver", r->version);
    slu_set_int(L, "cset_size", r->consumer.size);
    slu_set_int(L, "pset_size", r->producer.size);
    slu_set_int(L, "total_size", r->total.size);
    slu_set_int(L, "consumers", r->consumers);
    ick_range(L, "pset_min", "pset_max", &r->producer);
    ick_range(L, "cset_min", "cset_max", &r->consumer);
    ick_range(L, "total_min", "total_max", &r->total);
}

static void ick_result(lua_State *L, const void *results, size_t i)
{
    const seriatim_ick_result *r = (const seriatim_ick_result *)results + i;
    luaL_checkstack(L, 8, "a result");
    lua_createtable(L, 0, 7);
    slu_set_int(L, "added", r->added);
    slu_set_int(L, "lowered", r->lowered);
    slu_set_int(L, "ended", r->ended);
    slu_set_int(L, "deleted", r->deleted);
    slu_set_int(L, "token", r->token);
    slu_push_list(L, r->count, ick_pair, r->members);
    lua_setfield(L, -2, "pairs");
    if (!r->exists)
        return;
    ick_stats(L, r);
    lua_setfield(L, -2, "stats");
}

static int ick_read(lua_State *L, const slu_link *self)
{
    size_t count;
    const seriatim_ick_result *results = seriatim_ick_results(self->client, &count);
    slu_push_list(L, count, ick_result, results);
    return 1;
}

/*
 * link:ick(consumer, reserve_time, calls): for each call {added, lowered, ended, deleted, token, pairs = {{member,
 * score}}, stats or nil}
 */
static int ick_begin(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    seriatim_ick ick = {{NULL, 0}, {NULL, 0}, 0, 0};
    int i, count, status;
    if (!self)
        return slu_link_closed(L);
    lua_settop(L, 4);
    ick.consumer.data = slu_text(L, 2, "consumer", &ick.consumer.len);
    ick.reserve_time = slu_double(L, 3, "reserve_time");
    luaL_checktype(L, 4, LUA_TTABLE);
    count = (int)slu_rawlen(L, 4);
    status = seriatim_ick_begin(self->client);
    for (i = 1; status == SERIATIM_OK && i <= count; i++) {
        lua_rawgeti(L, 4, i);
        status = ick_call(L, self->client, &ick);
        lua_settop(L, 4);
    }
    return slu_link_begun(L, self, status == SERIATIM_OK ? seriatim_ick_send(self->client) : status, ick_read);
}

const luaL_Reg slu_ick[] = {{"ick", ick_begin}, {NULL, NULL}};

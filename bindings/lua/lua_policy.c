/*
 * lua_policy.c - native.back_off, .split, .shard_of, .command_text and .printable: the core's functions without a
 * state, for what the package does itself.
 */
#include "seriatim_native.h"

/* native.back_off(count): the failure that made retry_count `count` was the (count + 1)-th in a row. */
static int policy_back_off(lua_State *L)
{
    seriatim_error error = {0};
    int64_t count = slu_int64(L, 1, "count");
    uint32_t random;
    if (srt_random(&random, sizeof random, &error) != SERIATIM_OK)
        return slu_failure_of(L, &error);
    lua_pushnumber(L, seriatim_back_off(count, random / 4294967296.0));
    return 1;
}

/* native.back_off_of_events(count): the same by the table of delayedQueue */
static int policy_back_off_of_events(lua_State *L)
{
    lua_pushnumber(L, seriatim_back_off_of_events(slu_int64(L, 1, "count")));
    return 1;
}

/* native.split(shards, nodes, node, threads): node from 0, the places from 1 */
static int policy_split(lua_State *L)
{
    size_t shards = slu_size(L, 1, "shards"), nodes = slu_size(L, 2, "nodes"), node = slu_size(L, 3, "node");
    size_t threads = slu_size(L, 4, "threads"), count, i, *groups;
    luaL_argcheck(L, shards <= INT_MAX / sizeof *groups, 1, "too many shards");
    groups = lua_newuserdata(L, (shards + 1) * sizeof *groups);
    count = seriatim_split(shards, nodes, node, threads, groups);
    lua_newtable(L);
    for (i = 0; i < count; i++) {
        lua_newtable(L);
        lua_rawseti(L, -2, (int)(i + 1));
    }
    for (i = 0; i < shards; i++) {
        if (groups[i] == SERIATIM_ELSEWHERE)
            continue;
        lua_rawgeti(L, -1, (int)(groups[i] + 1));
        slu_push_int(L, (int64_t)i + 1);
        lua_rawseti(L, -2, (int)(slu_rawlen(L, -2) + 1));
        lua_pop(L, 1);
    }
    return 1;
}

/* native.shard_of(id, shards_count) */
static int policy_shard_of(lua_State *L)
{
    size_t len, shards = slu_size(L, 2, "shards_count");
    const char *id = slu_text(L, 1, "id", &len);
    if (shards > SERIATIM_MAX_SHARDS)
        return luaL_error(L, "shards_count must be at most %d", SERIATIM_MAX_SHARDS);
    slu_push_int(L, seriatim_shard_of(id, len, (unsigned)shards));
    return 1;
}

/* native.command_text(topic): the text, or nil */
static int policy_command_text(lua_State *L)
{
    lua_pushstring(L, seriatim_command_text(luaL_checkstring(L, 1)));
    return 1;
}

/* native.printable(text): the text, UTF-8, as a terminal and a log of lines may show it */
static int policy_printable(lua_State *L)
{
    size_t len, need;
    const char *text = slu_text(L, 1, "text", &len);
    char *out;
    need = seriatim_printable(text, len, NULL, 0);
    lua_settop(L, 1);
    if (need == len)
        return 1;
    out = lua_newuserdata(L, need);
    seriatim_printable(text, len, out, need);
    lua_pushlstring(L, out, need);
    return 1;
}

void slu_open_policy(lua_State *L)
{
    static const luaL_Reg functions[] = {{"back_off", policy_back_off},
                                         {"split", policy_split},
                                         {"shard_of", policy_shard_of},
                                         {"printable", policy_printable},
                                         {"command_text", policy_command_text},
                                         {"back_off_of_events", policy_back_off_of_events},
                                         {NULL, NULL}};
    slu_functions(L, functions);
}

/*
 * lua_places.c - native.places: how many places are taken, counted over the Lua states of a process. A thread of the
 * dashboard takes one for each pop of a consumer that waits.
 */
#include "seriatim_native.h"

#define PLACES "seriatim.Places"
#define PLACE "seriatim.Place"

/* Lives as long as a PLACES or a PLACE of any Lua state refers to it. */
typedef struct slu_count {
    int references, taken;
} slu_count;

static slu_count *count_hold(slu_count *count)
{
    __atomic_add_fetch(&count->references, 1, __ATOMIC_RELAXED);
    return count;
}

static void count_release(slu_count *count)
{
    if (__atomic_sub_fetch(&count->references, 1, __ATOMIC_ACQ_REL) == 0)
        free(count);
}

static slu_count *places_at(lua_State *L)
{
    slu_count **box = luaL_checkudata(L, 1, PLACES);
    return *box;
}

/* native.places(shared): shared: what share() of another Lua state's places returned, or nil */
static int places_new(lua_State *L)
{
    slu_count *shared = lua_isnoneornil(L, 1) ? NULL : lua_touserdata(L, 1);
    slu_count **box;
    luaL_argcheck(L, lua_isnoneornil(L, 1) || lua_islightuserdata(L, 1), 1, "places of another Lua state expected");
    box = slu_new(L, PLACES, sizeof *box);
    *box = shared ? count_hold(shared) : calloc(1, sizeof **box);
    if (!*box)
        return slu_raise(L, "not enough memory");
    if (!shared)
        (*box)->references = 1;
    return 1;
}

/* places:share(): for native.places of other Lua states, while this one keeps its places */
static int places_share(lua_State *L)
{
    lua_pushlightuserdata(L, places_at(L));
    return 1;
}

/* places:taken(): a number */
static int places_taken(lua_State *L)
{
    lua_pushinteger(L, __atomic_load_n(&places_at(L)->taken, __ATOMIC_RELAXED));
    return 1;
}

/* places:take(most): a place; nil: `most` are taken */
static int places_take(lua_State *L)
{
    slu_count *count = places_at(L), **box;
    int most = slu_int(L, 2, "most"), taken = __atomic_load_n(&count->taken, __ATOMIC_RELAXED);
    box = slu_new(L, PLACE, sizeof *box);
    do {
        if (taken >= most)
            return 0;
    } while (!__atomic_compare_exchange_n(&count->taken, &taken, taken + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    *box = count_hold(count);
    return 1;
}

/* place:leave(): the garbage collector does the same, for a coroutine that was dropped while it waited */
static int place_leave(lua_State *L)
{
    slu_count **box = luaL_checkudata(L, 1, PLACE), *count = *box;
    *box = NULL;
    if (!count)
        return 0;
    __atomic_sub_fetch(&count->taken, 1, __ATOMIC_RELAXED);
    count_release(count);
    return 0;
}

static int places_gc(lua_State *L)
{
    slu_count **box = luaL_checkudata(L, 1, PLACES), *count = *box;
    *box = NULL;
    if (count)
        count_release(count);
    return 0;
}

void slu_open_places(lua_State *L)
{
    static const luaL_Reg places[] = {
        {"share", places_share}, {"taken", places_taken}, {"take", places_take}, {NULL, NULL}};
    static const luaL_Reg place[] = {{"leave", place_leave}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"places", places_new}, {NULL, NULL}};
    slu_class(L, PLACES, places, places_gc);
    slu_class(L, PLACE, place, place_leave);
    slu_functions(L, functions);
}

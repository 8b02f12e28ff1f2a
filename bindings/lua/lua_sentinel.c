/* lua_sentinel.c - native.sentinel: which Redis is the master now, for a host with sockets of its own. */
#include "seriatim_native.h"

#define SENTINEL "seriatim.Sentinel"

static seriatim_sentinel *sentinel_of(lua_State *L)
{
    return *(seriatim_sentinel **)luaL_checkudata(L, 1, SENTINEL);
}

static int sentinel_push(lua_State *L, const seriatim_address *at)
{
    lua_pushstring(L, at->host);
    slu_push_int(L, at->port);
    lua_pushboolean(L, at->tls);
    return 3;
}

/* native.sentinel(url) */
static int sentinel_new(lua_State *L)
{
    const char *url = slu_cstr(L, 1, "url");
    seriatim_error error = {0};
    seriatim_sentinel **box = slu_new(L, SENTINEL, sizeof *box);
    if (seriatim_sentinel_new(NULL, url, box, &error) != SERIATIM_OK)
        return slu_nil_error(L, &error);
    return 1;
}

static int sentinel_begin(lua_State *L)
{
    seriatim_sentinel_begin(sentinel_of(L));
    return 0;
}

/* sentinel:next() -> host, port, tls of the one to ask now; or nil, kind, message: all were asked */
static int sentinel_next(lua_State *L)
{
    seriatim_sentinel *sentinel = sentinel_of(L);
    seriatim_address at;
    int status = seriatim_sentinel_next(sentinel, &at);
    return status == SERIATIM_OK ? sentinel_push(L, &at)
                                 : slu_failure(L, status, seriatim_sentinel_error(sentinel)->message);
}

static int sentinel_output(lua_State *L)
{
    const char *data;
    size_t len;
    seriatim_sentinel_output(sentinel_of(L), &data, &len);
    lua_pushlstring(L, data, len);
    return 1;
}

/* sentinel:input(bytes) -> "again"; host, port, tls of the master; or nil: this one does not know */
static int sentinel_input(lua_State *L)
{
    size_t len;
    const char *data = slu_text(L, 2, "bytes", &len);
    seriatim_address master;
    int status = seriatim_sentinel_input(sentinel_of(L), data, len, &master);
    if (status == SERIATIM_OK)
        return sentinel_push(L, &master);
    if (status != SERIATIM_AGAIN)
        return 0;
    lua_pushliteral(L, "again");
    return 1;
}

/* sentinel:failed(why) */
static int sentinel_failed(lua_State *L)
{
    seriatim_sentinel_failed(sentinel_of(L), slu_cstr(L, 2, "why"));
    return 0;
}

/* sentinel:served() */
static int sentinel_served(lua_State *L)
{
    seriatim_sentinel_served(sentinel_of(L));
    return 0;
}

static int sentinel_gc(lua_State *L)
{
    seriatim_sentinel **box = luaL_checkudata(L, 1, SENTINEL);
    seriatim_sentinel_free(*box);
    *box = NULL;
    return 0;
}

void slu_open_sentinel(lua_State *L)
{
    static const luaL_Reg methods[] = {{"begin", sentinel_begin},
                                       {"next", sentinel_next},
                                       {"output", sentinel_output},
                                       {"input", sentinel_input},
                                       {"failed", sentinel_failed},
                                       {"served", sentinel_served},
                                       {NULL, NULL}};
    static const luaL_Reg functions[] = {{"sentinel", sentinel_new}, {NULL, NULL}};
    slu_class(L, SENTINEL, methods, sentinel_gc);
    slu_functions(L, functions);
}

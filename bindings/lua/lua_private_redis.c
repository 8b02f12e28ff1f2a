/* lua_private_redis.c - native.private_redis: this state's use of the Redis that Seriatim starts for itself. */
#include "seriatim_native.h"

#define PRIVATE_REDIS "seriatim.PrivateRedis"

typedef struct private_box {
    srt_private_redis *redis; /* NULL: not started, or released */
} private_box;

/* native.private_redis(folder): waits until it answers */
static int private_new(lua_State *L)
{
    const char *folder = slu_cstr(L, 1, "folder");
    seriatim_error error = {0};
    private_box *self = slu_new(L, PRIVATE_REDIS, sizeof *self);
    if (srt_private_redis_start(seriatim_default_allocator(), folder, &error, &self->redis) != SERIATIM_OK)
        return slu_failure_of(L, &error);
    return 1;
}

/* Also __gc. */
static int private_release(lua_State *L)
{
    private_box *self = luaL_checkudata(L, 1, PRIVATE_REDIS);
    srt_private_redis *redis = self->redis;
    self->redis = NULL;
    srt_private_redis_release(redis);
    return 0;
}

static srt_private_redis *private_of(lua_State *L)
{
    private_box *self = luaL_checkudata(L, 1, PRIVATE_REDIS);
    return self->redis;
}

static int private_url(lua_State *L)
{
    const srt_private_redis *redis = private_of(L);
    if (!redis)
        return slu_failure(L, SERIATIM_CLOSED, "the private Redis is released");
    lua_pushstring(L, srt_private_redis_url(redis));
    return 1;
}

static int private_started(lua_State *L)
{
    const srt_private_redis *redis = private_of(L);
    if (!redis)
        return slu_failure(L, SERIATIM_CLOSED, "the private Redis is released");
    lua_pushboolean(L, srt_private_redis_started(redis));
    return 1;
}

void slu_open_private_redis(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"url", private_url}, {"started", private_started}, {"release", private_release}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"private_redis", private_new}, {NULL, NULL}};
    slu_class(L, PRIVATE_REDIS, methods, private_release);
    slu_functions(L, functions);
}

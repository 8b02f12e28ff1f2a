/* seriatim_native.c - the module seriatim.native: errors, conversions and waiting, shared by the files beside it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* dladdr */
#endif
#include "seriatim_native.h"

/* ---- Errors ---------------------------------------------------------------------------------- */

int slu_raise(lua_State *L, const char *message)
{
    lua_pushstring(L, message);
    return lua_error(L);
}

int slu_nil(lua_State *L, const char *kind, const char *message)
{
    lua_pushnil(L);
    lua_pushstring(L, kind);
    lua_pushstring(L, message);
    return 3;
}

int slu_failure(lua_State *L, int status, const char *message)
{
    if (status == SERIATIM_NOMEM)
        return slu_raise(L, "not enough memory");
    if (!message || !message[0])
        message = seriatim_status_text(status);
    if (status == SERIATIM_INVALID)
        return slu_raise(L, message);
    return slu_nil(L, seriatim_status_name(status), message);
}

int slu_failure_of(lua_State *L, const seriatim_error *error)
{
    return slu_failure(L, error->status, error->message);
}

int slu_nil_error(lua_State *L, const seriatim_error *error)
{
    if (error->status != SERIATIM_INVALID)
        return slu_failure_of(L, error);
    return slu_nil(L, seriatim_status_name(error->status), error->message);
}

int slu_true(lua_State *L)
{
    lua_pushboolean(L, 1);
    return 1;
}

void slu_prepare(lua_State *L, lua_CFunction f, void *p)
{
    lua_pushcfunction(L, f);
    lua_pushlightuserdata(L, p);
}

int slu_protect(lua_State *L)
{
    return lua_pcall(L, 1, LUA_MULTRET, 0);
}

/* ---- From Lua -------------------------------------------------------------------------------- */

static int expected(lua_State *L, int at, const char *what, const char *type)
{
    return luaL_error(L, "%s must be %s, not %s", what, type, luaL_typename(L, at));
}

/* 0: it is no whole number. */
static int whole(lua_State *L, int at, int64_t *out)
{
    double number;
#if LUA_VERSION_NUM >= 503
    if (lua_isinteger(L, at)) {
        *out = lua_tointeger(L, at);
        return 1;
    }
#endif
    number = (double)lua_tonumber(L, at);
    if (number != floor(number)) /* NaN, too */
        return 0;
    if (number >= 9223372036854775808.0)
        *out = INT64_MAX;
    else
        *out = number < -9223372036854775808.0 ? INT64_MIN : (int64_t)number;
    return 1;
}

int64_t slu_int64(lua_State *L, int at, const char *what)
{
    int64_t value = 0;
    if (lua_type(L, at) != LUA_TNUMBER)
        expected(L, at, what, "an integer");
    if (!whole(L, at, &value))
        luaL_error(L, "%s must be an integer, not %f", what, (double)lua_tonumber(L, at));
    return value;
}

size_t slu_size(lua_State *L, int at, const char *what)
{
    int64_t value = slu_int64(L, at, what);
    return value < 0 ? SIZE_MAX : (size_t)value;
}

size_t slu_place(lua_State *L, int at, const char *what)
{
    int64_t value = slu_int64(L, at, what);
    return value < 1 ? SIZE_MAX : (size_t)(value - 1);
}

int slu_int(lua_State *L, int at, const char *what)
{
    int64_t value = slu_int64(L, at, what);
    return value < 0 || value > INT_MAX ? -1 : (int)value;
}

double slu_double(lua_State *L, int at, const char *what)
{
    if (lua_type(L, at) != LUA_TNUMBER)
        expected(L, at, what, "a number");
    return (double)lua_tonumber(L, at);
}

const char *slu_text(lua_State *L, int at, const char *what, size_t *len)
{
    if (lua_type(L, at) != LUA_TSTRING)
        expected(L, at, what, "a string");
    return lua_tolstring(L, at, len);
}

const char *slu_cstr(lua_State *L, int at, const char *what)
{
    size_t len;
    const char *text = slu_text(L, at, what, &len);
    if (strlen(text) != len)
        luaL_error(L, "%s must not hold a NUL", what);
    return text;
}

const char *slu_cstr_or_null(lua_State *L, int at, const char *what)
{
    return lua_toboolean(L, at) ? slu_cstr(L, at, what) : NULL;
}

int slu_item(lua_State *L, int table, int place)
{
    lua_rawgeti(L, table, place);
    return lua_toboolean(L, -1);
}

int64_t slu_deadline(lua_State *L, int at)
{
    double seconds;
    if (lua_isnoneornil(L, at))
        return INT64_MAX;
    seconds = slu_double(L, at, "seconds");
    if (!(seconds > 0))
        return 0;
    return seconds < 1e9 ? srt_clock_ms() + (int64_t)(seconds * 1000.0 + 0.999) : INT64_MAX;
}

/* Lua's own memory, so nothing needs to be freed. It is left on the stack. */
const seriatim_text *slu_texts(lua_State *L, int at, size_t *count)
{
    seriatim_text *texts;
    size_t i;
    *count = 0;
    if (lua_isnoneornil(L, at))
        return NULL;
    luaL_checktype(L, at, LUA_TTABLE);
    *count = slu_rawlen(L, at);
    texts = lua_newuserdata(L, (*count + 1) * sizeof *texts);
    for (i = 0; i < *count; i++) {
        lua_rawgeti(L, at, (int)(i + 1));
        texts[i].data = slu_text(L, -1, "an id", &texts[i].len);
        lua_pop(L, 1);
    }
    return texts;
}

size_t slu_rawlen(lua_State *L, int at)
{
#if LUA_VERSION_NUM >= 502
    return (size_t)lua_rawlen(L, at);
#else
    return lua_objlen(L, at);
#endif
}

/* ---- To Lua ---------------------------------------------------------------------------------- */

void slu_push_int(lua_State *L, int64_t value)
{
#if LUA_VERSION_NUM >= 503
    lua_pushinteger(L, (lua_Integer)value);
#else
    lua_pushnumber(L, (lua_Number)value);
#endif
}

void slu_set_text(lua_State *L, const char *name, const char *text, size_t len)
{
    lua_pushlstring(L, text ? text : "", len);
    lua_setfield(L, -2, name);
}

void slu_set_text_or_nil(lua_State *L, const char *name, const char *text, size_t len)
{
    if (len)
        slu_set_text(L, name, text, len);
}

void slu_set_cstr(lua_State *L, const char *name, const char *text)
{
    lua_pushstring(L, text); /* NULL is nil */
    lua_setfield(L, -2, name);
}

void slu_set_int(lua_State *L, const char *name, int64_t value)
{
    slu_push_int(L, value);
    lua_setfield(L, -2, name);
}

void slu_set_double(lua_State *L, const char *name, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

void slu_set_bool(lua_State *L, const char *name, int value)
{
    lua_pushboolean(L, value);
    lua_setfield(L, -2, name);
}

void slu_push_list(lua_State *L, size_t count, slu_push push, const void *array)
{
    size_t i;
    luaL_checkstack(L, 4, "a list");
    lua_createtable(L, count < INT_MAX ? (int)count : INT_MAX, 0);
    for (i = 0; i < count; i++) {
        push(L, array, i);
        lua_rawseti(L, -2, (int)(i + 1));
    }
}

/* ---- Userdata -------------------------------------------------------------------------------- */

void slu_functions(lua_State *L, const luaL_Reg *functions)
{
    for (; functions->name; functions++) {
        lua_pushcfunction(L, functions->func);
        lua_setfield(L, -2, functions->name);
    }
}

void slu_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction gc)
{
    luaL_newmetatable(L, name);
    lua_newtable(L);
    slu_functions(L, methods);
    lua_setfield(L, -2, "__index");
    if (gc) {
        lua_pushcfunction(L, gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_pop(L, 1);
}

void slu_methods(lua_State *L, const char *name, const luaL_Reg *methods)
{
    luaL_getmetatable(L, name);
    lua_getfield(L, -1, "__index");
    slu_functions(L, methods);
    lua_pop(L, 2);
}

void *slu_new(lua_State *L, const char *name, size_t size)
{
    void *self = lua_newuserdata(L, size);
    memset(self, 0, size);
    luaL_getmetatable(L, name);
    lua_setmetatable(L, -2);
    return self;
}

void *slu_test(lua_State *L, int at, const char *name)
{
    void *self = lua_touserdata(L, at);
    int same;
    if (!self || !lua_getmetatable(L, at))
        return NULL;
    luaL_getmetatable(L, name);
    same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same ? self : NULL;
}

static int bytes_gc(lua_State *L)
{
    srt_bytes_free(luaL_checkudata(L, 1, "seriatim.bytes"));
    return 0;
}

srt_bytes *slu_bytes(lua_State *L)
{
    srt_bytes *bytes = slu_new(L, "seriatim.bytes", sizeof *bytes);
    srt_bytes_init(bytes, seriatim_default_allocator());
    return bytes;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

int slu_left_ms(int64_t deadline_ms)
{
    int64_t left;
    if (deadline_ms == INT64_MAX)
        return -1;
    left = deadline_ms - srt_clock_ms();
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

int slu_poll(struct pollfd *fds, nfds_t count, int64_t deadline_ms, lua_State *L)
{
    for (;;) {
        int left = slu_left_ms(deadline_ms), ready = poll(fds, count, left);
        if (ready > 0)
            return 1;
        if (ready < 0 && errno != EINTR)
            return -1;
        if (ready < 0)
            slu_thread_answer(L);
        else if (left >= 0 && slu_left_ms(deadline_ms) == 0)
            return 0;
    }
}

int slu_pipe(int fds[2])
{
    int i;
    if (pipe(fds) != 0)
        return -1;
    for (i = 0; i < 2; i++) {
        fcntl(fds[i], F_SETFD, FD_CLOEXEC);
        fcntl(fds[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

/* ---- This process ---------------------------------------------------------------------------- */

/* Known from the load of the module on, and learnt again in each child of fork(2). */
static pid_t own_pid;

static void pid_learn(void)
{
    own_pid = getpid();
}

static void pid_watch(void)
{
    if (pthread_atfork(NULL, NULL, pid_learn) == 0)
        pid_learn();
}

pid_t slu_pid(void)
{
    return own_pid;
}

/* ---- The module ------------------------------------------------------------------------------ */

/* Threads and handlers of signals run this code after the Lua state that loaded it is closed: it stays. */
static void native_pin(void)
{
    Dl_info self;
    void *code;
    int (*here)(lua_State *, const char *) = slu_raise;
    memcpy(&code, &here, sizeof code);
    if (dladdr(code, &self) != 0 && self.dli_fname)
        (void)dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_seriatim_native(lua_State *L);

int luaopen_seriatim_native(lua_State *L)
{
    static const luaL_Reg none[] = {{NULL, NULL}};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    native_pin();
    pthread_once(&once, pid_watch);
    if (own_pid == 0)
        return slu_raise(L, "not enough memory");
    slu_class(L, "seriatim.bytes", none, bytes_gc);
    lua_newtable(L);
    slu_set_cstr(L, "version", seriatim_version());
    slu_set_int(L, "max_payload", SERIATIM_MAX_PAYLOAD);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    slu_open_definitions(L);
    slu_open_json(L);
    slu_open_rows(L);
    slu_open_link(L);
    slu_open_pop(L);
    slu_open_client(L);
    slu_open_runner(L);
    slu_open_node(L);
    slu_open_delivery(L);
    slu_open_policy(L);
    slu_open_system(L);
    slu_open_process(L);
    slu_open_signals(L);
    slu_open_sentinel(L);
    slu_open_thread(L);
    slu_open_private_redis(L);
    slu_open_web(L);
    slu_open_socket(L);
    slu_open_places(L);
    slu_open_fake(L);
    return 1;
}

/* lua_thread.c - native.thread: an OS thread with a Lua state of its own, and the traceback of a living one. */
#include "lua_memory.h"

#define THREAD "seriatim.Thread"
#define TRACE_SIZE ((size_t)8192)
#define TRACE_LEVELS 40

/* What goes from one Lua state to another. */
typedef struct slu_value {
    int type;
    int boolean, whole;
    int64_t integer;
    double number;
    void *pointer;
    char *text;
    size_t len;
} slu_value;

enum { GIVEN_CHUNK, GIVEN_NAME, GIVEN_PATH, GIVEN_CPATH, GIVEN_ARGUMENTS };

/* Counted: the Thread that Lua sees, and the thread itself. */
typedef struct slu_thread {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pid_t pid;
    lua_State *volatile state; /* the thread's own, while it may be hooked; only that thread touches it */
    /* Under the lock: */
    int references;
    pthread_t id;
    int ended, wanted;
    char *failure;
    size_t failure_len;
    char trace[TRACE_SIZE];
    size_t trace_len;
    /* The thread's alone: */
    lua_Hook hook; /* of the state; trace_hook stands in for it */
    int hook_mask, hook_count;
    slu_value *values;
    size_t value_count;
    slu_memory memory;
    int warns, warning; /* warn("@on") was called; the next piece goes on with a line */
} slu_thread;

/* Which thread a handler of signals runs in. Process-wide, as handlers are; written once. */
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

static void thread_free(slu_thread *t)
{
    size_t i;
    for (i = 0; i < t->value_count; i++)
        free(t->values[i].text);
    free(t->values);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t->failure);
    free(t);
}

static void thread_release(slu_thread *t)
{
    int last;
    pthread_mutex_lock(&t->lock);
    last = --t->references == 0;
    pthread_mutex_unlock(&t->lock);
    if (last)
        thread_free(t);
}

/* ---- Traceback: asked for by a signal, because only the thread itself may hook its Lua state ---- */

static void trace_add(slu_thread *t, const char *text)
{
    size_t len = strlen(text), room = TRACE_SIZE - t->trace_len;
    len = len < room ? len : room;
    memcpy(t->trace + t->trace_len, text, len);
    t->trace_len += len;
}

static void trace_add_level(slu_thread *t, const lua_Debug *ar)
{
    char line[160];
    const char *name = ar->name ? ar->name : ar->what[0] == 'm' ? "main chunk" : ar->what[0] == 'C' ? "?" : "function";
    if (ar->currentline > 0)
        snprintf(line, sizeof line, "\n\t%s:%d: in %.60s", ar->short_src, ar->currentline, name);
    else
        snprintf(line, sizeof line, "\n\t%s: in %.60s", ar->short_src, name);
    trace_add(t, line);
}

/* Raises nothing and allocates nothing. */
static void trace_write(slu_thread *t, lua_State *L)
{
    lua_Debug ar;
    int level;
    t->trace_len = 0;
    trace_add(t, "stack traceback:");
    for (level = 0; level < TRACE_LEVELS && lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Snl", &ar);
        trace_add_level(t, &ar);
    }
    if (level == TRACE_LEVELS)
        trace_add(t, "\n\t...");
}

void slu_thread_answer(lua_State *L)
{
    slu_thread *t = pthread_getspecific(thread_key);
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    if (t->wanted) {
        trace_write(t, L);
        t->wanted = 0;
        pthread_cond_broadcast(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
}

/* Called once: the hook that was there before comes back. */
static void trace_hook(lua_State *L, lua_Debug *ar)
{
    const slu_thread *t = pthread_getspecific(thread_key);
    (void)ar;
    lua_sethook(L, t->hook, t->hook_mask, t->hook_count);
    slu_thread_answer(L);
}

int slu_thread_traces(lua_Hook hook)
{
    return hook == trace_hook;
}

/* A second signal may come before trace_hook was called. */
static void trace_keep_hook(slu_thread *t)
{
    lua_State *L = t->state;
    if (lua_gethook(L) == trace_hook)
        return;
    t->hook = lua_gethook(L);
    t->hook_mask = lua_gethookmask(L);
    t->hook_count = lua_gethookcount(L);
}

/* In the thread that was asked: lua_sethook may be called in a handler. What waits in poll answers by itself. */
static void trace_on_signal(int number)
{
    int code = errno;
    slu_thread *t = pthread_getspecific(thread_key);
    (void)number;
    if (t && t->state) {
        trace_keep_hook(t);
        lua_sethook(t->state, trace_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
    }
    errno = code;
}

/* SIGURG is ignored by default. Where somebody else catches it, there are no tracebacks. */
static void trace_catch_signal(void)
{
    struct sigaction action;
    if (sigaction(SIGURG, NULL, &action) != 0 || (action.sa_flags & SA_SIGINFO) ||
        (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN))
        return;
    memset(&action, 0, sizeof action);
    action.sa_handler = trace_on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGURG, &action, NULL);
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void value_push(lua_State *L, const slu_value *v)
{
    switch (v->type) {
    case LUA_TBOOLEAN:
        lua_pushboolean(L, v->boolean);
        break;
    case LUA_TNUMBER:
        if (v->whole)
            slu_push_int(L, v->integer);
        else
            lua_pushnumber(L, v->number);
        break;
    case LUA_TSTRING:
        lua_pushlstring(L, v->text, v->len);
        break;
    case LUA_TLIGHTUSERDATA:
        lua_pushlightuserdata(L, v->pointer);
        break;
    default:
        lua_pushnil(L);
    }
}

/* Of what the chunk raised: its text, with a traceback. */
static int thread_describe(lua_State *L)
{
    slu_thread *t = pthread_getspecific(thread_key);
    if (!lua_tostring(L, 1) && !luaL_callmeta(L, 1, "__tostring"))
        lua_pushfstring(L, "(an error of type %s)", luaL_typename(L, 1));
    pthread_mutex_lock(&t->lock);
    trace_write(t, L);
    pthread_mutex_unlock(&t->lock);
    lua_pushliteral(L, "\n");
    lua_pushlstring(L, t->trace, t->trace_len);
    lua_concat(L, 3);
    return 1;
}

static void thread_set_path(lua_State *L, const char *name, const slu_value *value)
{
    if (value->type != LUA_TSTRING)
        return;
    value_push(L, value);
    lua_setfield(L, -2, name);
}

/* The chunk's error is left on the stack. */
static int thread_run_chunk(lua_State *L)
{
    const slu_thread *t = lua_touserdata(L, 1);
    size_t i;
    luaL_openlibs(L);
    lua_getglobal(L, "package");
    thread_set_path(L, "path", &t->values[GIVEN_PATH]);
    thread_set_path(L, "cpath", &t->values[GIVEN_CPATH]);
    lua_settop(L, 0);
    luaL_checkstack(L, (int)t->value_count + 4, "arguments");
    lua_pushcfunction(L, thread_describe);
    if (luaL_loadbuffer(L, t->values[GIVEN_CHUNK].text, t->values[GIVEN_CHUNK].len, t->values[GIVEN_NAME].text))
        return lua_error(L);
    for (i = GIVEN_ARGUMENTS; i < t->value_count; i++)
        value_push(L, &t->values[i]);
    if (lua_pcall(L, (int)(t->value_count - GIVEN_ARGUMENTS), 0, 1))
        return lua_error(L);
    return 0;
}

#if LUA_VERSION_NUM >= 504
/* What luaL_newstate has for warn(), which no other allocator can be given to. */
static void thread_warn(void *thread, const char *message, int goes_on)
{
    slu_thread *t = thread;
    if (!t->warning && !goes_on && message[0] == '@') {
        if (strcmp(message, "@on") == 0 || strcmp(message, "@off") == 0)
            t->warns = message[2] == 'n';
        return;
    }
    if (t->warns)
        fprintf(stderr, "%s%s%s", t->warning ? "" : "Lua warning: ", message, goes_on ? "" : "\n");
    t->warning = goes_on;
}

static lua_State *thread_state(slu_thread *t)
{
    lua_State *L = lua_newstate(slu_memory_alloc, &t->memory);
    if (L)
        lua_setwarnf(L, thread_warn, t);
    return L;
}
#else
/* LuaJIT, which this is built for as well, has an allocator of its own and takes no other. */
static lua_State *thread_state(slu_thread *t)
{
    (void)t;
    return luaL_newstate();
}
#endif

/* The failure's text, to be freed; NULL: it ended well. */
static char *thread_run(slu_thread *t, size_t *len)
{
    lua_State *L = thread_state(t);
    const char *text = "not enough memory";
    char *failure = NULL;
    *len = strlen(text);
    if (!L)
        return strdup(text);
    t->state = L;
    slu_prepare(L, thread_run_chunk, t);
    if (slu_protect(L)) {
        text = lua_tolstring(L, -1, len);
        failure = malloc(*len + 1);
        if (text && failure)
            memcpy(failure, text, *len);
    }
    t->state = NULL;
    lua_close(L);
    slu_memory_free(&t->memory);
    return failure;
}

static void *thread_main(void *p)
{
    slu_thread *t = p;
    size_t len;
    char *failure;
    pthread_setspecific(thread_key, t);
    failure = thread_run(t, &len);
    pthread_mutex_lock(&t->lock);
    t->failure = failure;
    t->failure_len = len;
    t->ended = 1;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    thread_release(t);
    return NULL;
}

/* ---- Starting -------------------------------------------------------------------------------- */

static int value_copy_text(lua_State *L, int at, slu_value *v)
{
    const char *text = lua_tolstring(L, at, &v->len);
    v->text = malloc(v->len + 1);
    if (v->text)
        memcpy(v->text, text, v->len + 1);
    return v->text != NULL;
}

static void value_copy(lua_State *L, int at, slu_value *v)
{
    v->type = lua_type(L, at);
    v->boolean = lua_toboolean(L, at);
    v->number = v->type == LUA_TNUMBER ? (double)lua_tonumber(L, at) : 0;
#if LUA_VERSION_NUM >= 503
    v->whole = lua_isinteger(L, at);
    v->integer = v->whole ? lua_tointeger(L, at) : 0;
#endif
    v->pointer = lua_touserdata(L, at);
    if (v->type == LUA_TSTRING && !value_copy_text(L, at, v))
        slu_raise(L, "not enough memory");
    if (v->type == LUA_TTABLE || v->type == LUA_TFUNCTION || v->type == LUA_TUSERDATA || v->type > LUA_TUSERDATA)
        luaL_error(L, "a %s cannot go to another thread", luaL_typename(L, at));
}

static slu_thread *thread_new(void)
{
    slu_thread *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    t->references = 1;
    t->pid = slu_pid();
    return t;
}

/* The stack, from 1: chunk, name, path, cpath, arguments. */
static void thread_give(lua_State *L, slu_thread *t, int count)
{
    t->values = calloc((size_t)count, sizeof *t->values);
    if (!t->values)
        slu_raise(L, "not enough memory");
    for (; t->value_count < (size_t)count; t->value_count++)
        value_copy(L, (int)t->value_count + 1, &t->values[t->value_count]);
}

static int thread_create(slu_thread *t)
{
    pthread_attr_t detached;
    int code;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_mutex_lock(&t->lock);
    t->references = 2;
    code = pthread_create(&t->id, &detached, thread_main, t);
    if (code != 0) {
        t->references = 1;
        t->ended = 1;
    }
    pthread_mutex_unlock(&t->lock);
    pthread_attr_destroy(&detached);
    return code;
}

/* native.thread(chunk, name, ...) */
static int thread_new_function(lua_State *L)
{
    slu_thread **box;
    int count, code;
    luaL_checktype(L, 1, LUA_TSTRING);
    slu_cstr(L, 2, "name");
    lua_getglobal(L, "package");
    luaL_checktype(L, -1, LUA_TTABLE);
    lua_getfield(L, -1, "path");
    lua_insert(L, 3);
    lua_getfield(L, -1, "cpath");
    lua_insert(L, 4);
    lua_pop(L, 1);
    count = lua_gettop(L);
    box = slu_new(L, THREAD, sizeof *box);
    *box = thread_new();
    if (!*box)
        return slu_raise(L, "not enough memory");
    thread_give(L, *box, count);
    trace_catch_signal();
    code = thread_create(*box);
    return code == 0 ? 1 : slu_nil(L, "IO", strerror(code));
}

/* ---- Watching -------------------------------------------------------------------------------- */

/* Also of a parent's that a child of fork(2) has: there is no such thread. */
static int thread_has_ended(slu_thread *t)
{
    return t->ended || t->pid != slu_pid();
}

/* With the lock: waits until *flag is `value`, or the deadline. Slices, for clocks that jump. */
static void thread_await(slu_thread *t, const int *flag, int value, int64_t deadline_ms)
{
    while (*flag != value && slu_left_ms(deadline_ms) != 0) {
        struct timespec until;
        int left = slu_left_ms(deadline_ms);
        long slice = left < 0 || left > 100 ? 100 : left;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += slice * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&t->changed, &t->lock, &until);
    }
}

static slu_thread *thread_of(lua_State *L)
{
    slu_thread **box = luaL_checkudata(L, 1, THREAD);
    if (!*box)
        luaL_argerror(L, 1, "no thread");
    return *box;
}

static int thread_alive(lua_State *L)
{
    slu_thread *t = thread_of(L);
    int alive = 0;
    if (t->pid == slu_pid()) {
        pthread_mutex_lock(&t->lock);
        alive = !t->ended;
        pthread_mutex_unlock(&t->lock);
    }
    lua_pushboolean(L, alive);
    return 1;
}

/* thread:join(seconds) -> true when it ended, with its error; false: it goes on */
static int thread_join(lua_State *L)
{
    slu_thread *t = thread_of(L);
    int64_t deadline_ms = slu_deadline(L, 2);
    int ended;
    if (t->pid != slu_pid())
        return slu_true(L);
    pthread_mutex_lock(&t->lock);
    thread_await(t, &t->ended, 1, deadline_ms);
    ended = t->ended;
    pthread_mutex_unlock(&t->lock);
    lua_pushboolean(L, ended);
    if (!ended || !t->failure)
        return 1;
    lua_pushlstring(L, t->failure, t->failure_len);
    return 2;
}

/* 1: the text lies in `text`. */
static int thread_ask(slu_thread *t, int64_t deadline_ms, char text[TRACE_SIZE], size_t *len)
{
    int answered = 0;
    pthread_mutex_lock(&t->lock);
    if (!t->ended) {
        t->wanted = 1;
        pthread_kill(t->id, SIGURG);
        thread_await(t, &t->wanted, 0, deadline_ms);
        answered = !t->wanted;
        t->wanted = 0;
        *len = t->trace_len;
        memcpy(text, t->trace, *len);
    }
    pthread_mutex_unlock(&t->lock);
    return answered;
}

/* thread:traceback(seconds) -> text: where it is, or why that is not known */
static int thread_traceback(lua_State *L)
{
    slu_thread *t = thread_of(L);
    int64_t deadline_ms = slu_deadline(L, 2);
    char text[TRACE_SIZE];
    size_t len = 0;
    if (t->pid == slu_pid() && thread_ask(t, deadline_ms, text, &len)) {
        lua_pushlstring(L, text, len);
        return 1;
    }
    lua_pushstring(L, thread_has_ended(t) ? "ended" : "no answer: it is inside C code, a coroutine or a compiled loop");
    return 1;
}

static int thread_gc(lua_State *L)
{
    slu_thread **box = luaL_checkudata(L, 1, THREAD), *t = *box;
    *box = NULL;
    if (t && t->pid == slu_pid())
        thread_release(t);
    return 0;
}

static void thread_make_key(void)
{
    pthread_key_create(&thread_key, NULL);
}

void slu_open_thread(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"alive", thread_alive}, {"join", thread_join}, {"traceback", thread_traceback}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"thread", thread_new_function}, {NULL, NULL}};
    pthread_once(&thread_once, thread_make_key);
    slu_class(L, THREAD, methods, thread_gc);
    slu_functions(L, functions);
}

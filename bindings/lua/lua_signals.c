/* lua_signals.c - native.catch_signals and .signal: signals as words that the main thread waits for. */
#include "seriatim_native.h"

/* Handlers of signals belong to the process, so what they use does, too: the only writable data of this module. */
static int signals_pipe[2] = {-1, -1};
static pid_t signals_pid; /* whose pipe it is */
static int signals_exit_on_second;
static int signals_ends; /* how many TERM or INT came */

static const struct {
    const char *name;
    int number;
} signals_known[] = {{"TERM", SIGTERM}, {"INT", SIGINT},   {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN}, {"CHLD", SIGCHLD},
                     {"HUP", SIGHUP},   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"KILL", SIGKILL},
                     {"CONT", SIGCONT}, {"STOP", SIGSTOP}, {"PIPE", SIGPIPE}};

int slu_signal_number(lua_State *L, int at)
{
    const char *name = slu_cstr(L, at, "a signal's name");
    size_t i;
    for (i = 0; i < sizeof signals_known / sizeof *signals_known; i++)
        if (strcmp(signals_known[i].name, name) == 0)
            return signals_known[i].number;
    return luaL_error(L, "there is no signal %s", name);
}

static const char *signal_name(int number)
{
    size_t i;
    for (i = 0; i < sizeof signals_known / sizeof *signals_known; i++)
        if (signals_known[i].number == number)
            return signals_known[i].name;
    return "UNKNOWN";
}

/* Only what is async-signal-safe. A full pipe loses a signal of hundreds. */
static void on_signal(int number)
{
    int code = errno;
    unsigned char byte = (unsigned char)number;
    ssize_t written;
    if ((number == SIGTERM || number == SIGINT) && __atomic_fetch_add(&signals_ends, 1, __ATOMIC_RELAXED) > 0 &&
        signals_exit_on_second)
        _exit(1);
    written = write(signals_pipe[1], &byte, 1);
    (void)written;
    errno = code;
}

/* A child of fork(2) gets a pipe of its own. */
static int signals_open(void)
{
    int fds[2];
    if (signals_pid == slu_pid())
        return 0;
    if (slu_pipe(fds) != 0)
        return -1;
    memcpy(signals_pipe, fds, sizeof fds);
    signals_pid = slu_pid();
    return 0;
}

static int signals_install(int number)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
    sigfillset(&action.sa_mask);
    return sigaction(number, &action, NULL);
}

/* native.catch_signals(names, exit_on_second) */
static int signals_catch(lua_State *L)
{
    size_t count, i;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    signals_exit_on_second = lua_isnil(L, 2) || lua_toboolean(L, 2);
    __atomic_store_n(&signals_ends, 0, __ATOMIC_RELAXED);
    if (signals_open() != 0)
        return slu_nil(L, "IO", strerror(errno));
    count = slu_rawlen(L, 1);
    for (i = 1; i <= count; i++) {
        lua_rawgeti(L, 1, (int)i);
        if (signals_install(slu_signal_number(L, 3)) != 0)
            return slu_nil(L, "IO", strerror(errno));
        lua_pop(L, 1);
    }
    return slu_true(L);
}

static int signals_next(lua_State *L)
{
    unsigned char byte;
    if (signals_pid != slu_pid() || read(signals_pipe[0], &byte, 1) != 1)
        return 0;
    lua_pushstring(L, signal_name(byte));
    return 1;
}

/* native.signal(seconds, parent) -> its name, or "PARENT" when that descriptor is readable; nil: none came */
static int signals_wait(lua_State *L)
{
    struct pollfd fds[2] = {{signals_pid == slu_pid() ? signals_pipe[0] : -1, POLLIN, 0}, {-1, POLLIN, 0}};
    int64_t deadline_ms = slu_deadline(L, 1);
    if (!lua_isnoneornil(L, 2) && lua_toboolean(L, 2))
        fds[1].fd = slu_int(L, 2, "parent");
    slu_poll(fds, 2, deadline_ms, L);
    if (signals_next(L))
        return 1;
    if (!fds[1].revents)
        return 0;
    lua_pushliteral(L, "PARENT");
    return 1;
}

void slu_open_signals(lua_State *L)
{
    static const luaL_Reg functions[] = {{"catch_signals", signals_catch}, {"signal", signals_wait}, {NULL, NULL}};
    slu_functions(L, functions);
}

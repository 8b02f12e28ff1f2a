/* lua_signals.c - native.catch_signals and .signal: signals as words that the main thread waits for. */
#include "seriatim_native.h"

#define SIGNALS_BEYOND 0x80 /* in the pipe, on a TERM or INT that is beyond the allowed ones */

/* Handlers of signals belong to the process, so what they use does, too: the only writable data of this module. */
static int signals_pipe[2] = {-1, -1};
static pid_t signals_pid; /* whose pipe it is */
static srt_ending signals_ending;
static int signals_exit_code; /* of the TERM or INT that ends the process */
static int signals_exits;     /* 0: that one is only marked */

void slu_ending_note(seriatim_runner *runner)
{
    srt_ending_note(&signals_ending, runner);
}

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

/* In a child of fork(2), which has its parent's handlers: the signal acts as it does without them. */
static void signals_leave(int number)
{
    struct sigaction usual;
    memset(&usual, 0, sizeof usual);
    usual.sa_handler = SIG_DFL;
    sigaction(number, &usual, NULL);
    raise(number);
}

/* Only what is async-signal-safe. A full pipe loses a signal of hundreds. */
static void on_signal(int number)
{
    int code = errno;
    unsigned char byte = (unsigned char)number;
    ssize_t written;
    if (signals_pid != getpid()) {
        signals_leave(number);
        errno = code;
        return;
    }
    if ((number == SIGTERM || number == SIGINT) && srt_ending_counts(&signals_ending, number)) {
        if (signals_exits && signals_exit_code)
            srt_ending_tell(&signals_ending);
        if (signals_exits)
            _exit(signals_exit_code);
        byte |= SIGNALS_BEYOND;
    }
    written = write(signals_pipe[1], &byte, 1);
    (void)written;
    errno = code;
}

/* A child of fork(2) that catches signals gets a pipe of its own. */
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
    sigset_t own;
    if ((number == SIGHUP || number == SIGUSR1) && sigaction(number, NULL, &action) == 0 &&
        action.sa_handler == SIG_IGN)
        return 0; /* nohup's */
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
    sigfillset(&action.sa_mask);
    sigemptyset(&own);
    sigaddset(&own, number);
    return sigaction(number, &action, NULL) == 0 && pthread_sigmask(SIG_UNBLOCK, &own, NULL) == 0 ? 0 : -1;
}

/* native.catch_signals(names, exit_on_second, "first" or "mark") */
static int signals_catch(lua_State *L)
{
    static const char *const words[] = {"first", "mark", NULL};
    size_t count, i;
    int word, first;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    word = lua_type(L, 2) == LUA_TSTRING ? luaL_checkoption(L, 2, NULL, words) : -1;
    first = word == 0;
    signals_exit_code = first ? 0 : 1;
    signals_exits = word != 1;
    srt_ending_begin(&signals_ending, first ? 0 : lua_isnil(L, 2) || lua_toboolean(L, 2) ? 1 : INT_MAX);
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

/* native.hold_signals(hold): blocks TERM and INT, or takes those that came meanwhile */
static int signals_hold(lua_State *L)
{
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGINT);
    pthread_sigmask(lua_toboolean(L, 1) ? SIG_BLOCK : SIG_UNBLOCK, &stops, NULL);
    return 0;
}

/* The number of values pushed. */
static int signals_next(lua_State *L)
{
    unsigned char byte;
    if (signals_pid != slu_pid() || read(signals_pipe[0], &byte, 1) != 1)
        return 0;
    lua_pushstring(L, signal_name(byte & ~SIGNALS_BEYOND));
    if (!(byte & SIGNALS_BEYOND))
        return 1;
    lua_pushboolean(L, 1);
    return 2;
}

/*
 * native.signal(seconds, parent) -> its name, and true of a TERM or INT beyond the allowed one; or "PARENT" when that
 * descriptor is readable; nil: none came
 */
static int signals_wait(lua_State *L)
{
    struct pollfd fds[2] = {{signals_pid == slu_pid() ? signals_pipe[0] : -1, POLLIN, 0}, {-1, POLLIN, 0}};
    int64_t deadline_ms = slu_deadline(L, 1);
    int count;
    if (!lua_isnoneornil(L, 2) && lua_toboolean(L, 2))
        fds[1].fd = slu_int(L, 2, "parent");
    slu_poll(fds, 2, deadline_ms, L);
    if ((count = signals_next(L)) > 0)
        return count;
    if (!fds[1].revents)
        return 0;
    lua_pushliteral(L, "PARENT");
    return 1;
}

void slu_open_signals(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"catch_signals", signals_catch}, {"signal", signals_wait}, {"hold_signals", signals_hold}, {NULL, NULL}};
    slu_functions(L, functions);
}

/* lua_process.c - native.spawn, .reap, .kill and .exit: what a supervisor does with its processes. */
#include "seriatim_native.h"

#define HELD "seriatim.held"
#define PARENT "%parent%"

/* ---- What tells children of our end: a pipe that only we hold the end to write of ------------ */

typedef struct process_held {
    int open, fds[2];
    pid_t pid;
} process_held;

static int held_gc(lua_State *L)
{
    process_held *held = luaL_checkudata(L, 1, HELD);
    if (held->open) {
        close(held->fds[0]);
        close(held->fds[1]);
    }
    held->open = 0;
    return 0;
}

/* One for each Lua state, as long as it lives; NULL: no descriptor. */
static process_held *held_of(lua_State *L)
{
    process_held *held;
    lua_getfield(L, LUA_REGISTRYINDEX, "seriatim.held_by_this");
    held = lua_touserdata(L, -1);
    if (!held || held->pid != slu_pid()) {
        held = slu_new(L, HELD, sizeof *held);
        if (slu_pipe(held->fds) != 0)
            return NULL;
        held->open = 1;
        held->pid = slu_pid();
        lua_setfield(L, LUA_REGISTRYINDEX, "seriatim.held_by_this");
    }
    return held;
}

/* ---- Spawn ----------------------------------------------------------------------------------- */

/* NULL-terminated, in Lua's memory on the stack. */
static char **process_words(lua_State *L, int fd)
{
    size_t count = slu_rawlen(L, 1), i;
    char **words;
    luaL_argcheck(L, count > 0, 1, "no command");
    luaL_checkstack(L, (int)count + 4, "a command");
    words = lua_newuserdata(L, (count + 1) * sizeof *words);
    for (i = 0; i < count; i++) {
        const char *word;
        lua_rawgeti(L, 1, (int)(i + 1));
        word = slu_cstr(L, -1, "a word of a command");
        if (strcmp(word, PARENT) == 0)
            word = lua_pushfstring(L, "%d", fd); /* stays on the stack, too */
        words[i] = (char *)(uintptr_t)word;
    }
    words[count] = NULL;
    return words;
}

/* In the child: only what is async-signal-safe. Ends with what execvp says. */
static void process_become(char **words, int parent, int report)
{
    int code, number;
    sigset_t waiting;
    struct sigaction usual;
    memset(&usual, 0, sizeof usual);
    usual.sa_handler = SIG_DFL;
    for (number = 1; number < 32; number++)
        if (number != SIGKILL && number != SIGSTOP)
            sigaction(number, &usual, NULL);
    sigemptyset(&waiting); /* but what a new server must not be stopped or killed by waits until it has handlers:
                              native.catch_signals */
    sigaddset(&waiting, SIGTSTP);
    sigaddset(&waiting, SIGTTIN);
    sigaddset(&waiting, SIGHUP);
    sigaddset(&waiting, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &waiting, NULL);
    setsid();
    fcntl(parent, F_SETFD, 0);
    execvp(words[0], words);
    code = errno;
    number = (int)write(report, &code, sizeof code);
    (void)number;
    _exit(127);
}

/* Starts it with all signals blocked, so that no handler of ours runs in the child. */
static pid_t process_fork(char **words, int parent, int report)
{
    sigset_t all, before;
    pid_t pid;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0)
        process_become(words, parent, report);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

/* What execvp said, or 0. */
static int process_report(int fd)
{
    int code = 0;
    ssize_t got;
    do
        got = read(fd, &code, sizeof code);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof code ? code : 0;
}

/* native.spawn(argv) -> pid */
static int process_spawn(lua_State *L)
{
    process_held *held;
    char **words;
    int report[2], code;
    pid_t pid;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    held = held_of(L);
    if (!held)
        return slu_nil(L, "IO", strerror(errno));
    words = process_words(L, held->fds[0]);
    if (slu_pipe(report) != 0)
        return slu_nil(L, "IO", strerror(errno));
    fcntl(report[0], F_SETFL, 0);
    pid = process_fork(words, held->fds[0], report[1]);
    code = pid < 0 ? errno : 0;
    close(report[1]);
    if (pid > 0)
        code = process_report(report[0]);
    close(report[0]);
    if (pid > 0 && code)
        waitpid(pid, NULL, 0);
    if (code)
        return slu_nil(L, "IO", strerror(code));
    slu_push_int(L, pid);
    return 1;
}

/* ---- Their end ------------------------------------------------------------------------------- */

/* native.reap() -> pid, "exit" or "signal", number */
static int process_reap(lua_State *L)
{
    int status;
    pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0)
        return 0;
    slu_push_int(L, pid);
    lua_pushstring(L, WIFSIGNALED(status) ? "signal" : "exit");
    slu_push_int(L, WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return 3;
}

/* native.kill(pid, name) */
static int process_kill(lua_State *L)
{
    int64_t pid = slu_int64(L, 1, "pid");
    int number = slu_signal_number(L, 2);
    luaL_argcheck(L, pid > 0 && pid <= INT_MAX, 1, "no process");
    if (kill((pid_t)pid, number) != 0)
        return slu_nil(L, "IO", strerror(errno));
    return slu_true(L);
}

/* native.exit(code) */
static int process_exit(lua_State *L)
{
    _exit(slu_int(L, 1, "code"));
}

void slu_open_process(lua_State *L)
{
    static const luaL_Reg none[] = {{NULL, NULL}};
    static const luaL_Reg functions[] = {
        {"spawn", process_spawn}, {"reap", process_reap}, {"kill", process_kill}, {"exit", process_exit}, {NULL, NULL}};
    slu_class(L, HELD, none, held_gc);
    slu_functions(L, functions);
}

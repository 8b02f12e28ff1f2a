/* private_guard.c - the guard: a process that starts the private Redis, and stops it when nobody uses it any more. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "net/private_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#define PRIVATE_LOG_MAX (1024 * 1024)
#define PRIVATE_TERM_MS 10000 /* what the guard gives Redis between TERM and KILL */
#define PRIVATE_REPORT_FD 3   /* in the guard and in Redis */
#define PRIVATE_LAST_SIGNAL 64

void srt_private_pause(int ms)
{
    (void)poll(NULL, 0, ms);
}

/* ---- The guard and Redis: from here to private_become only async-signal-safe calls ---------- */

/* Prepared before the fork, because after it a child of a process with threads may not allocate. */
typedef struct private_launch {
    const char *users, *lock, *log, *program;
    char *const *argv;
    int report, last_fd;
} private_launch;

static void private_report(char letter, int code)
{
    unsigned char record[2] = {(unsigned char)letter, (unsigned char)code};
    while (write(PRIVATE_REPORT_FD, record, sizeof record) < 0 && errno == EINTR) {
    }
}

/* Closes all descriptors of the host except that of the report. 0 to 2 become /dev/null. */
static void private_drop_descriptors(const private_launch *launch)
{
    int fd;
    if (launch->report == PRIVATE_REPORT_FD)
        (void)fcntl(PRIVATE_REPORT_FD, F_SETFD, 0); /* Redis keeps it open until it dies */
    else
        (void)dup2(launch->report, PRIVATE_REPORT_FD);
    for (fd = 0; fd <= launch->last_fd; fd++)
        if (fd != PRIVATE_REPORT_FD)
            (void)close(fd);
    fd = open("/dev/null", O_RDWR); /* the lowest free one: 0 */
    (void)dup2(fd, 1);
    (void)dup2(fd, 2);
}

static void private_open_log(const char *path)
{
    struct stat info;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (fstat(fd, &info) == 0 && info.st_size > PRIVATE_LOG_MAX)
        (void)!ftruncate(fd, 0);
    (void)dup2(fd, 1);
    (void)dup2(fd, 2);
}

static void private_reset_signals(void)
{
    struct sigaction action;
    sigset_t none;
    int number;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    for (number = 1; number <= PRIVATE_LAST_SIGNAL; number++)
        (void)sigaction(number, &action, NULL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void private_become_redis(const private_launch *launch, pid_t guard)
{
    private_open_log(launch->log);
    private_reset_signals();
    (void)umask(077);
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* of the guard, which has one thread */
#endif
    if (getppid() == guard)
        (void)execv(launch->program, launch->argv);
    private_report(PRIVATE_NO_EXEC, errno);
    _exit(127);
}

static void private_stop_redis(pid_t redis)
{
    int waited;
    (void)kill(redis, SIGTERM); /* unreaped, so the number is still its own */
    for (waited = 0; waited < PRIVATE_TERM_MS; waited += PRIVATE_PAUSE_MS) {
        if (waitpid(redis, NULL, WNOHANG) != 0)
            return;
        srt_private_pause(PRIVATE_PAUSE_MS);
    }
    (void)kill(redis, SIGKILL); /* loses nothing: what was acknowledged is in the kernel */
    (void)waitpid(redis, NULL, 0);
}

static int private_take_lock(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600); /* Redis inherits it */
    if (fd < 0)
        private_report(PRIVATE_BROKEN, errno);
    else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        private_report(errno == EWOULDBLOCK ? PRIVATE_LOST : PRIVATE_BROKEN, errno);
    else
        return fd;
    _exit(1);
}

/* Starts Redis, waits until its last user has gone, and stops it. All signals are blocked. */
static void private_guard(const private_launch *launch)
{
    pid_t guard = getpid(), redis;
    int lock, users;
    private_drop_descriptors(launch);
    (void)!chdir("/");
#ifdef __linux__
    (void)prctl(PR_SET_NAME, "seriatim-guard");
#endif
    lock = private_take_lock(launch->lock);
    users = open(launch->users, O_RDWR | O_CLOEXEC);
    redis = users < 0 ? -1 : fork();
    if (redis == 0)
        private_become_redis(launch, guard);
    private_report(redis < 0 ? PRIVATE_BROKEN : PRIVATE_WON, errno);
    if (redis < 0)
        _exit(1);
    (void)close(lock);
    (void)close(PRIVATE_REPORT_FD);
    while (flock(users, LOCK_EX) != 0 && errno == EINTR) {
    }
    private_stop_redis(redis);
    _exit(0); /* only this lets new users in */
}

/* The first fork: makes the guard in a session of its own and leaves it to init. */
static void private_become_guard(const private_launch *launch)
{
    struct sigaction action;
    pid_t guard;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL; /* where a host ignores SIGCHLD, Redis' pid would not stay ours */
    (void)sigaction(SIGCHLD, &action, NULL);
    (void)setsid();
    guard = fork();
    if (guard == 0)
        private_guard(launch);
    _exit(guard < 0 ? 1 : 0);
}

/* ---- Launch -------------------------------------------------------------------------------- */

/* The highest descriptor that may be open, with room for those that other threads open now. */
static int private_last_fd(void)
{
    DIR *list = opendir("/dev/fd");
    const struct dirent *entry;
    int last = 0;
    if (!list)
        return 65535;
    while ((entry = readdir(list)) != NULL) {
        int fd = atoi(entry->d_name);
        last = fd > last ? fd : last;
    }
    closedir(list);
    return last + 256;
}

static const char *private_search_path(srt_private_redis *p, const char *path, const char *name)
{
    char file[PATH_MAX];
    struct stat info;
    while (*path) {
        size_t len = strcspn(path, ":");
        int size = snprintf(file, sizeof file, "%.*s/%s", (int)len, path, name);
        if (path[0] == '/' && size > 0 && (size_t)size < sizeof file && stat(file, &info) == 0 &&
            S_ISREG(info.st_mode) && access(file, X_OK) == 0)
            return srt_arena_copy(&p->texts, file, (size_t)size);
        path += len + (path[len] == ':');
    }
    return NULL;
}

static int private_find_program(srt_private_redis *p, seriatim_error *error)
{
    const char *path = getenv("PATH");
    if (!path)
        path = "/usr/local/bin:/usr/bin:/bin";
    if (!p->program)
        p->program = private_search_path(p, path, "redis-server");
    if (!p->program)
        p->program = private_search_path(p, path, "valkey-server");
    if (p->program)
        return SERIATIM_OK;
    return srt_fail(error, SERIATIM_UNSUPPORTED,
                    "private Redis: neither redis-server nor valkey-server is in PATH; install one "
                    "(Debian: apt install redis-server) or set REDIS_URL");
}

static int private_open_report(int ends[2])
{
    if (pipe(ends) != 0)
        return -1;
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return 0;
}

/* Forks with every signal blocked, so that no handler of the host ever runs in the guard. */
static int private_fork(const private_launch *launch)
{
    sigset_t all, before;
    pid_t child;
    int code;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    child = fork();
    if (child == 0)
        private_become_guard(launch);
    code = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    errno = code;
    return child < 0 ? -1 : 0;
}

int srt_private_launch_guard(srt_private_redis *p, seriatim_error *error)
{
    int status = private_find_program(p, error), ends[2], forked, code;
    /* clang-format off */
    const char *argv[] = {p->program, "--port", "0", "--unixsocket", p->socket,
                          "--unixsocketperm", "700", "--dir", p->folder, "--appendonly", "yes",
                          "--appendfsync", "everysec", "--save", "", "--maxmemory-policy",
                          "noeviction", "--daemonize", "no", "--pidfile", "", NULL};
    /* clang-format on */
    private_launch launch = {p->users, p->lock, p->log, p->program, (char *const *)argv, -1, 0};
    if (status != SERIATIM_OK)
        return status;
    if (private_open_report(ends) != 0)
        return srt_private_fail_errno(error, SERIATIM_IO, "cannot start", p->program, errno);
    launch.report = ends[1];
    launch.last_fd = private_last_fd();
    forked = private_fork(&launch);
    code = errno;
    close(ends[1]);
    p->report = ends[0];
    if (forked != 0)
        return srt_private_fail_errno(error, SERIATIM_IO, "cannot start", p->program, code);
    return SERIATIM_AGAIN;
}

/* private_redis.c - the Redis that Seriatim starts for itself when it is given no URL. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "net/private_redis.h"

#include "base/bytes.h"
#include "base/status.h"
#include "base/system.h"
#include "net/transport.h"
#include "net/url.h"

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

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

#define PRIVATE_READY_MS 30000    /* until PONG: Redis may have much to load */
#define PRIVATE_STOPPING_MS 15000 /* until a guard that is stopping Redis is done */
#define PRIVATE_TERM_MS 10000     /* what the guard gives Redis between TERM and KILL */
#define PRIVATE_RELEASE_MS 5000
#define PRIVATE_PING_MS 250
#define PRIVATE_PAUSE_MS 5
#define PRIVATE_RETRY_MS 100 /* between two attempts to start, while another has the lock */
#define PRIVATE_LOG_MAX (1024 * 1024)
#define PRIVATE_REPORT_FD 3 /* in the guard and in Redis */
#define PRIVATE_LAST_SIGNAL 64

struct srt_private_redis {
    const seriatim_allocator *mem;
    srt_arena texts;
    const char *folder, *users, *lock, *log, *socket, *program;
    srt_bytes url_text;
    srt_url url;
    int users_fd; /* its shared flock is this process' use of Redis */
    int report;   /* where the guard that is starting for us reports, or -1 */
    int started;
    int64_t launch_at; /* earliest time of the next attempt to start */
};

static void private_pause(int ms)
{
    (void)poll(NULL, 0, ms);
}

static int private_fail_errno(seriatim_error *error, int status, const char *what, const char *path,
                              int code)
{
    char text[96];
    return srt_fail(error, status, "private Redis: %s %s: %s", what, path,
                    srt_errno_text(code, text, sizeof text));
}

static const char *private_join(srt_private_redis *p, const char *head, const char *tail)
{
    size_t head_len = strlen(head), tail_len = strlen(tail);
    char *text = srt_arena_alloc(&p->texts, head_len + tail_len + 1);
    if (!text)
        return NULL;
    memcpy(text, head, head_len);
    memcpy(text + head_len, tail, tail_len + 1);
    return text;
}

/* ---- The folder ---------------------------------------------------------------------------- */

/* Makes the folder and its missing parents, each mode 700. */
static int private_make_folder(const char *folder, seriatim_error *error)
{
    char path[PATH_MAX];
    size_t len = strlen(folder), i;
    int code = 0;
    if (len == 0 || len >= sizeof path)
        return srt_fail(error, SERIATIM_INVALID, "private Redis: the folder's path is %s",
                        len ? "too long" : "empty");
    for (i = 1; i <= len; i++) {
        if (folder[i] != '/' && folder[i] != '\0')
            continue;
        memcpy(path, folder, i);
        path[i] = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST && code == 0)
            code = errno; /* of the first that could not be made; what counts is the last */
    }
    if (code != 0 && access(folder, F_OK) != 0)
        return private_fail_errno(error, SERIATIM_INVALID, "cannot make folder", folder, code);
    return SERIATIM_OK;
}

static int private_check_folder(const char *folder, seriatim_error *error)
{
    struct stat info;
    if (stat(folder, &info) != 0)
        return private_fail_errno(error, SERIATIM_INVALID, "cannot use folder", folder, errno);
    if (!S_ISDIR(info.st_mode))
        return srt_fail(error, SERIATIM_INVALID, "private Redis: %s is no folder", folder);
    if (info.st_uid != geteuid())
        return srt_fail(error, SERIATIM_INVALID, "private Redis: %s belongs to another user",
                        folder);
    if (info.st_mode & (S_IWGRP | S_IWOTH))
        return srt_fail(error, SERIATIM_INVALID, "private Redis: %s is writable by others", folder);
    return SERIATIM_OK;
}

static int private_open_folder(srt_private_redis *p, const char *folder, seriatim_error *error)
{
    char real[PATH_MAX];
    int status = private_make_folder(folder, error);
    if (status == SERIATIM_OK)
        status = private_check_folder(folder, error);
    if (status != SERIATIM_OK)
        return status;
    if (!realpath(folder, real))
        return private_fail_errno(error, SERIATIM_INVALID, "cannot use folder", folder, errno);
    p->folder = srt_arena_copy(&p->texts, real, strlen(real));
    p->users = private_join(p, real, "/users");
    p->lock = private_join(p, real, "/lock");
    p->log = private_join(p, real, "/redis.log");
    if (!p->folder || !p->users || !p->lock || !p->log)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    return SERIATIM_OK;
}

/* ---- The socket's path --------------------------------------------------------------------- */

/* Makes a folder of ours that nobody else can enter, or finds that it is one. */
static int private_own_folder(const char *path)
{
    struct stat info;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return 0;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
           (info.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/* What tells this folder from others in a short name: FNV-1a of its path. */
static uint64_t private_hash(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash;
}

/* The short path that the link in the folder names, if it can still be used. */
static const char *private_read_link(srt_private_redis *p, const char *link)
{
    char target[PATH_MAX], *slash;
    ssize_t len = readlink(link, target, sizeof target - 1);
    if (len <= 0 || (size_t)len > srt_url_socket_path_max() || target[0] != '/')
        return NULL;
    target[len] = '\0';
    slash = strrchr(target, '/');
    *slash = '\0';
    if (!private_own_folder(target))
        return NULL;
    *slash = '/';
    return srt_arena_copy(&p->texts, target, (size_t)len);
}

static int private_make_link(srt_private_redis *p, const char *link, const char *base)
{
    char folder[PATH_MAX], target[PATH_MAX + 8];
    int len = snprintf(folder, sizeof folder, "%s/seriatim-%lu-%016llx", base,
                       (unsigned long)geteuid(), (unsigned long long)private_hash(p->folder));
    if (len < 0 || (size_t)len + 7 > srt_url_socket_path_max() || !private_own_folder(folder))
        return 0;
    snprintf(target, sizeof target, "%s/s.sock", folder);
    (void)unlink(link); /* unfit, or private_read_link would have taken it */
    return symlink(target, link) == 0 || errno == EEXIST;
}

/* Sets p->socket: folder/s.sock, or, where that is too long, a short path to which it is a link. */
static int private_choose_socket(srt_private_redis *p, seriatim_error *error)
{
    const char *plain = private_join(p, p->folder, "/s.sock"), *runtime = getenv("XDG_RUNTIME_DIR");
    if (!plain)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    p->socket = plain;
    if (strlen(plain) <= srt_url_socket_path_max())
        return SERIATIM_OK;
    p->socket = private_read_link(p, plain);
    if (p->socket)
        return SERIATIM_OK;
    if (!(runtime && runtime[0] == '/' && private_make_link(p, plain, runtime)) &&
        !private_make_link(p, plain, "/tmp"))
        return srt_fail(error, SERIATIM_INVALID,
                        "private Redis: the folder's path is too long for a Unix socket, and "
                        "neither XDG_RUNTIME_DIR nor /tmp gives a short one of our own");
    p->socket = private_read_link(p, plain);
    if (!p->socket)
        return srt_fail(error, SERIATIM_IO, "private Redis: no short path for the Unix socket");
    return SERIATIM_OK;
}

static int private_make_url(srt_private_redis *p, seriatim_error *error)
{
    srt_bytes_adds(&p->url_text, "unix://");
    srt_url_encode(&p->url_text, p->socket);
    srt_bytes_addc(&p->url_text, '\0');
    if (p->url_text.failed)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    return srt_url_parse(&p->url, p->mem, p->url_text.data, p->url_text.len - 1, error);
}

/* ---- PING ---------------------------------------------------------------------------------- */

typedef enum private_answer {
    PRIVATE_NOBODY, /* nothing listens */
    PRIVATE_BUSY,   /* someone does, but does not say PONG (yet) */
    PRIVATE_PONG
} private_answer;

/* Sends PING over a connection and judges what comes back. */
static private_answer private_ask(srt_transport *t, int64_t deadline)
{
    char reply[64];
    size_t count = 0, written = 0;
    int status = srt_transport_write(t, "PING\r\n", 6, &written);
    while (status == SERIATIM_OK && count < 5) {
        size_t got;
        status = srt_transport_read(t, reply + count, sizeof reply - count, &got);
        count += got;
        if (status != SERIATIM_AGAIN)
            continue;
        if (srt_clock_ms() >= deadline)
            return PRIVATE_BUSY;
        (void)srt_transport_wait(t, -1, PRIVATE_PING_MS);
        status = SERIATIM_OK;
    }
    if (status != SERIATIM_OK && status != SERIATIM_AGAIN)
        return PRIVATE_NOBODY;
    return count >= 5 && memcmp(reply, "+PONG", 5) == 0 ? PRIVATE_PONG : PRIVATE_BUSY;
}

static int private_ping(srt_private_redis *p, private_answer *answer, seriatim_error *error)
{
    int64_t deadline = srt_clock_ms() + PRIVATE_PING_MS;
    srt_transport *t = srt_transport_create(p->mem, &p->url);
    if (!t)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    *answer = PRIVATE_NOBODY;
    if (srt_transport_connect(t, PRIVATE_PING_MS) == SERIATIM_OK)
        *answer = private_ask(t, deadline);
    srt_transport_destroy(t);
    return SERIATIM_OK;
}

/* ---- The guard and Redis: from here to private_become only async-signal-safe calls ---------- */

/* What is prepared before the fork, because the host may have threads. */
typedef struct private_launch {
    const char *users, *lock, *log, *program;
    char *const *argv;
    int report, last_fd;
} private_launch;

/* What the guard says to the process that made it: a letter and an errno. */
#define PRIVATE_WON 'W'  /* has the lock, Redis comes */
#define PRIVATE_LOST 'L' /* another Redis has the lock */
#define PRIVATE_BROKEN 'B'
#define PRIVATE_NO_EXEC 'X'

static void private_report(char letter, int code)
{
    unsigned char record[2] = {(unsigned char)letter, (unsigned char)code};
    while (write(PRIVATE_REPORT_FD, record, sizeof record) < 0 && errno == EINTR) {
    }
}

/* Leaves no descriptor of the host's but the report; 0 to 2 are /dev/null. */
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
        private_pause(PRIVATE_PAUSE_MS);
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

/* Starts Redis, waits for its last user to go, stops it. All signals are blocked. */
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

static int private_launch_guard(srt_private_redis *p, seriatim_error *error)
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
        return private_fail_errno(error, SERIATIM_IO, "cannot start", p->program, errno);
    launch.report = ends[1];
    launch.last_fd = private_last_fd();
    forked = private_fork(&launch);
    code = errno;
    close(ends[1]);
    p->report = ends[0];
    if (forked != 0)
        return private_fail_errno(error, SERIATIM_IO, "cannot start", p->program, code);
    return SERIATIM_AGAIN;
}

/* ---- Waiting for PONG ---------------------------------------------------------------------- */

static void private_close_report(srt_private_redis *p)
{
    if (p->report >= 0)
        close(p->report);
    p->report = -1;
}

/* The end of Redis' own log in one line, as much of it as fits. */
static void private_log_tail(const srt_private_redis *p, char *tail, size_t cap)
{
    int fd = open(p->log, O_RDONLY | O_CLOEXEC);
    ssize_t len = 0, i;
    if (fd >= 0) {
        off_t end = lseek(fd, 0, SEEK_END), want = (off_t)cap - 1;
        (void)lseek(fd, end > want ? end - want : 0, SEEK_SET);
        len = read(fd, tail, cap - 1);
        close(fd);
    }
    len = len < 0 ? 0 : len;
    tail[len] = '\0';
    for (i = 0; i < len; i++)
        if ((unsigned char)tail[i] < ' ' || tail[i] == 0x7f)
            tail[i] = ' ';
}

static int private_died(const srt_private_redis *p, seriatim_error *error)
{
    char tail[161];
    private_log_tail(p, tail, sizeof tail);
    return srt_fail(error, SERIATIM_IO,
                    "private Redis: the server ended while starting; its redis.log ends: %s", tail);
}

/* Takes one record of the guard, waiting so long for it. AGAIN: nothing is decided by it. */
static int private_read_report(srt_private_redis *p, int wait_ms, seriatim_error *error)
{
    struct pollfd ready = {p->report, POLLIN, 0}; /* -1: only waits */
    unsigned char record[2];
    ssize_t got;
    if (poll(&ready, 1, wait_ms) <= 0)
        return SERIATIM_AGAIN;
    got = read(p->report, record, sizeof record);
    if (got < 0 && errno == EINTR)
        return SERIATIM_AGAIN;
    if (got < 2)
        return private_died(p, error);
    switch (record[0]) {
    case PRIVATE_WON:
        p->started = 1;
        return SERIATIM_AGAIN;
    case PRIVATE_LOST:
        private_close_report(p);
        p->launch_at = srt_clock_ms() + PRIVATE_RETRY_MS;
        return SERIATIM_AGAIN;
    default:
        return private_fail_errno(error, SERIATIM_IO, "cannot start", p->program, record[1]);
    }
}

/* Redis answers; whether it is ours the guard has said, or says in a moment. */
static int private_settle(srt_private_redis *p)
{
    int64_t deadline = srt_clock_ms() + PRIVATE_RELEASE_MS;
    int status = SERIATIM_AGAIN;
    while (p->report >= 0 && !p->started && status == SERIATIM_AGAIN && srt_clock_ms() < deadline)
        status = private_read_report(p, PRIVATE_PING_MS, NULL);
    private_close_report(p);
    return SERIATIM_OK;
}

static int private_await_pong(srt_private_redis *p, seriatim_error *error)
{
    int64_t deadline = srt_clock_ms() + PRIVATE_READY_MS;
    private_answer answer;
    int status;
    for (;;) {
        status = private_ping(p, &answer, error);
        if (status != SERIATIM_OK)
            return status;
        if (answer == PRIVATE_PONG)
            return private_settle(p);
        if (srt_clock_ms() >= deadline)
            return srt_fail(error, SERIATIM_TIMEOUT, "private Redis: no PONG within 30 s; see %s",
                            p->log);
        if (answer == PRIVATE_NOBODY && p->report < 0 && srt_clock_ms() >= p->launch_at)
            status = private_launch_guard(p, error);
        else
            status = private_read_report(p, PRIVATE_PAUSE_MS, error);
        if (status != SERIATIM_AGAIN)
            return status;
    }
}

/* ---- Use and release ----------------------------------------------------------------------- */

/* Becomes a user. While a guard is stopping Redis this waits, and Redis is started anew after. */
static int private_enter(srt_private_redis *p, seriatim_error *error)
{
    int64_t deadline = srt_clock_ms() + PRIVATE_STOPPING_MS;
    p->users_fd = open(p->users, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (p->users_fd < 0)
        return private_fail_errno(error, SERIATIM_IO, "cannot open", p->users, errno);
    while (flock(p->users_fd, LOCK_SH | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return private_fail_errno(error, SERIATIM_IO, "cannot lock", p->users, errno);
        if (srt_clock_ms() >= deadline)
            return srt_fail(error, SERIATIM_TIMEOUT,
                            "private Redis: the one in %s has been stopping for 15 s", p->folder);
        private_pause(PRIVATE_PAUSE_MS);
    }
    return SERIATIM_OK;
}

/* 1 when no more is to wait for: others use Redis, or it is gone. */
static int private_left(srt_private_redis *p, int users)
{
    private_answer answer = PRIVATE_NOBODY;
    int alone = flock(users, LOCK_EX | LOCK_NB) == 0, shared;
    if (alone) { /* the guard is done, or has not seen yet that we left */
        (void)flock(users, LOCK_UN);
        return private_ping(p, &answer, NULL) != SERIATIM_OK || answer == PRIVATE_NOBODY;
    }
    shared = flock(users, LOCK_SH | LOCK_NB) == 0; /* else the guard is stopping Redis */
    if (shared)
        (void)flock(users, LOCK_UN);
    return shared;
}

static void private_await_end(srt_private_redis *p)
{
    int64_t deadline = srt_clock_ms() + PRIVATE_RELEASE_MS;
    int users = open(p->users, O_RDWR | O_CLOEXEC);
    if (users < 0)
        return;
    while (!private_left(p, users) && srt_clock_ms() < deadline)
        private_pause(PRIVATE_PAUSE_MS);
    close(users);
}

static void private_free(srt_private_redis *p)
{
    private_close_report(p);
    srt_url_free(&p->url);
    srt_bytes_free(&p->url_text);
    srt_arena_free(&p->texts);
    srt_free(p->mem, p, sizeof *p);
}

void srt_private_redis_release(srt_private_redis *p)
{
    if (!p)
        return;
    if (p->users_fd >= 0) {
        close(p->users_fd); /* no LOCK_UN: it would end the use of our forks too */
        p->users_fd = -1;
        if (p->url.path)
            private_await_end(p);
    }
    private_free(p);
}

static int private_open(srt_private_redis *p, const char *folder, seriatim_error *error)
{
    int status = private_open_folder(p, folder, error);
    if (status == SERIATIM_OK)
        status = private_enter(p, error);
    if (status == SERIATIM_OK)
        status = private_choose_socket(p, error);
    if (status == SERIATIM_OK)
        status = private_make_url(p, error);
    if (status == SERIATIM_OK)
        status = private_await_pong(p, error);
    return status;
}

int srt_private_redis_start(const seriatim_allocator *mem, const char *folder,
                            seriatim_error *error, srt_private_redis **out)
{
    srt_private_redis *p = srt_alloc(mem, sizeof *p);
    int status;
    *out = NULL;
    if (!p)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    p->mem = p->url.mem = mem;
    p->users_fd = p->report = -1;
    srt_arena_init(&p->texts, mem);
    srt_bytes_init(&p->url_text, mem);
    status = private_open(p, folder, error);
    if (status == SERIATIM_OK)
        *out = p;
    else
        srt_private_redis_release(p);
    return status;
}

const char *srt_private_redis_url(const srt_private_redis *p)
{
    return p->url_text.data;
}

int srt_private_redis_started(const srt_private_redis *p)
{
    return p->started;
}

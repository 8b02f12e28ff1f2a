/* private_redis.c - the Redis that Seriatim starts for itself when it is given no URL. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "net/private_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define PRIVATE_READY_MS 30000    /* until PONG: Redis may have much to load */
#define PRIVATE_STOPPING_MS 15000 /* until a guard that is stopping Redis is done */
#define PRIVATE_RELEASE_MS 5000
#define PRIVATE_PING_MS 250
#define PRIVATE_RETRY_MS 100 /* between two attempts to start, while another has the lock */

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
    return srt_fail(error, SERIATIM_IO, "private Redis: the server ended while starting; its redis.log ends: %s", tail);
}

/* Waits for one record of the guard, at most this long, and takes it. AGAIN: it decides nothing yet. */
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
        return srt_private_fail_errno(error, SERIATIM_IO, "cannot start", p->program, record[1]);
    }
}

/* Redis answers. The guard has reported whether this process started it, or reports it in a moment. */
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
            return srt_fail(error, SERIATIM_TIMEOUT, "private Redis: no PONG within 30 s; see %s", p->log);
        if (answer == PRIVATE_NOBODY && p->report < 0 && srt_clock_ms() >= p->launch_at)
            status = srt_private_launch_guard(p, error);
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
        return srt_private_fail_errno(error, SERIATIM_IO, "cannot open", p->users, errno);
    while (flock(p->users_fd, LOCK_SH | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return srt_private_fail_errno(error, SERIATIM_IO, "cannot lock", p->users, errno);
        if (srt_clock_ms() >= deadline)
            return srt_fail(error, SERIATIM_TIMEOUT, "private Redis: the server in %s has been stopping for 15 s",
                            p->folder);
        srt_private_pause(PRIVATE_PAUSE_MS);
    }
    return SERIATIM_OK;
}

/* Returns 1 if the wait has ended: others use Redis, or it is gone. */
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
        srt_private_pause(PRIVATE_PAUSE_MS);
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
    int status = srt_private_open_folder(p, folder, error);
    if (status == SERIATIM_OK)
        status = private_enter(p, error);
    if (status == SERIATIM_OK)
        status = srt_private_choose_socket(p, error);
    if (status == SERIATIM_OK)
        status = srt_private_make_url(p, error);
    if (status == SERIATIM_OK)
        status = private_await_pong(p, error);
    return status;
}

int srt_private_redis_start(const seriatim_allocator *mem, const char *folder, seriatim_error *error,
                            srt_private_redis **out)
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

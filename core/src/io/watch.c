/* watch.c - several sockets behind one descriptor; see watch.h. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "io/watch.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/epoll.h>
#else
#include <sys/types.h>
#include <sys/event.h>
#include <sys/time.h>
#endif

/* ---- The descriptor of the system ------------------------------------------------------------ */

/* Each gives 0, or -1 with errno. */
#if defined(__linux__)

static int watch_open(void)
{
    return epoll_create1(EPOLL_CLOEXEC);
}

static int watch_apply(int fd, const srt_watched *s, int operation)
{
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = (s->wants & SERIATIM_WANT_READ ? EPOLLIN : 0u) | (s->wants & SERIATIM_WANT_WRITE ? EPOLLOUT : 0u);
    event.data.fd = s->fd;
    return epoll_ctl(fd, operation, s->fd, &event);
}

static int watch_add(int fd, const srt_watched *s)
{
    return watch_apply(fd, s, EPOLL_CTL_ADD);
}

/* Fails where the number has become another socket's. */
static int watch_change(int fd, const srt_watched *s)
{
    return watch_apply(fd, s, EPOLL_CTL_MOD);
}

static int watch_remove(int fd, const srt_watched *s)
{
    return watch_apply(fd, s, EPOLL_CTL_DEL);
}

#else

static int watch_open(void)
{
    return kqueue();
}

static int watch_filter(int fd, const srt_watched *s, short filter, int is_wanted)
{
    struct kevent event;
    EV_SET(&event, s->fd, filter, is_wanted ? EV_ADD : EV_DELETE, 0, 0, 0);
    return kevent(fd, &event, 1, NULL, 0, NULL) == 0 || (!is_wanted && errno == ENOENT) ? 0 : -1;
}

static int watch_add(int fd, const srt_watched *s)
{
    if (watch_filter(fd, s, EVFILT_READ, s->wants & SERIATIM_WANT_READ) != 0)
        return -1;
    return watch_filter(fd, s, EVFILT_WRITE, s->wants & SERIATIM_WANT_WRITE);
}

/* A closed socket has left the queue, so what has its number is added. */
static int watch_change(int fd, const srt_watched *s)
{
    return watch_add(fd, s);
}

static int watch_remove(int fd, const srt_watched *s)
{
    srt_watched none = *s;
    none.wants = 0;
    return watch_add(fd, &none);
}

#endif

/* ---- The sockets ----------------------------------------------------------------------------- */

void srt_watch_init(srt_watch *w, const seriatim_allocator *mem)
{
    memset(w, 0, sizeof *w);
    w->mem = mem;
    w->fd = -1;
}

void srt_watch_close(srt_watch *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    w->count = 0;
}

void srt_watch_free(srt_watch *w)
{
    srt_watch_close(w);
    srt_free(w->mem, w->watched, w->cap * sizeof *w->watched);
    w->watched = NULL;
    w->cap = 0;
}

static int watch_has(const srt_watched *sockets, size_t count, int fd)
{
    while (count-- > 0)
        if (sockets[count].fd == fd)
            return 1;
    return 0;
}

/* 0, or -1: a socket was closed, which the descriptor may still hold because a child of fork(2) has it open. */
static int watch_update(srt_watch *w, const srt_watched *sockets, size_t count)
{
    size_t i;
    for (i = 0; i < w->count; i++)
        if (!watch_has(sockets, count, w->watched[i].fd) && watch_remove(w->fd, &w->watched[i]) != 0)
            return -1;
    for (i = 0; i < count; i++)
        if ((watch_has(w->watched, w->count, sockets[i].fd) ? watch_change : watch_add)(w->fd, &sockets[i]) != 0)
            return -1;
    return 0;
}

static int watch_reserve(srt_watch *w, size_t count)
{
    srt_watched *more;
    if (count <= w->cap)
        return SERIATIM_OK;
    more = srt_realloc(w->mem, w->watched, w->cap * sizeof *more, count * sizeof *more);
    if (!more)
        return SERIATIM_NOMEM;
    w->watched = more;
    w->cap = count;
    return SERIATIM_OK;
}

int srt_watch_set(srt_watch *w, const srt_watched *sockets, size_t count)
{
    int status = watch_reserve(w, count), saved;
    if (status != SERIATIM_OK)
        return status;
    if (w->fd >= 0 && watch_update(w, sockets, count) != 0)
        srt_watch_close(w);
    if (w->fd < 0) {
        w->fd = watch_open();
        if (w->fd < 0 || watch_update(w, sockets, count) != 0) {
            saved = errno;
            srt_watch_close(w);
            errno = saved;
            return SERIATIM_IO;
        }
    }
    if (count)
        memcpy(w->watched, sockets, count * sizeof *sockets);
    w->count = count;
    return SERIATIM_OK;
}

int srt_watch_fd(const srt_watch *w)
{
    return w->fd;
}

/*
 * watch.h - one descriptor for a host that can wait for one only, in place of several sockets: it is readable as long
 * as one of them is ready. An epoll descriptor on Linux, a kqueue on the BSDs and macOS.
 *
 *     srt_watch_set(w, sockets, count)           // before each wait: all sockets, with what is wanted of them now
 *     wait until srt_watch_fd(w) is readable     // by poll, select, epoll, or an event loop of any language
 */
#ifndef SRT_WATCH_H
#define SRT_WATCH_H

#include "base/bytes.h"

typedef struct srt_watched {
    int fd;
    int wants; /* SERIATIM_WANT_READ, SERIATIM_WANT_WRITE, or both; 0: only its end */
} srt_watched;

typedef struct srt_watch {
    const seriatim_allocator *mem;
    int fd; /* -1: there is none */
    srt_watched *watched;
    size_t count, cap;
} srt_watch;

void srt_watch_init(srt_watch *w, const seriatim_allocator *mem);
/*
 * Watches these sockets and no others; each stands there once. A socket that was closed in between, and another one
 * that has its number since, are told apart. OK; NOMEM; IO: errno says why there is no descriptor.
 */
int srt_watch_set(srt_watch *w, const srt_watched *sockets, size_t count);
/* -1 before the first srt_watch_set. It may change with each of them. */
int srt_watch_fd(const srt_watch *w);
/* Closes the descriptor, not the sockets. A child of fork(2) must do so before it uses `w`: its parent shares it. */
void srt_watch_close(srt_watch *w);
/* The same, and frees the memory. */
void srt_watch_free(srt_watch *w);

#endif

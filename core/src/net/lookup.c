/* lookup.c - see lookup.h. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "net/lookup.h"

#include "base/pipe.h"
#include "base/status.h"
#include "base/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of malloc: the thread may end after the allocator of a runner is gone. */
struct srt_lookup {
    int users; /* the caller and the thread, as long as they need it */
    int ended;
    int pipe[2];
    struct addrinfo hints, *found;
    int code;
    char port[12];
    char host[];
};

static void lookup_leave(srt_lookup *l)
{
    if (__atomic_sub_fetch(&l->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (l->found)
        freeaddrinfo(l->found);
    srt_pipe_close(l->pipe);
    free(l);
}

static void *lookup_main(void *argument)
{
    srt_lookup *l = argument;
    struct addrinfo *found = NULL;
    l->code = getaddrinfo(l->host, l->port, &l->hints, &found);
    l->found = l->code == 0 ? found : NULL;
    __atomic_store_n(&l->ended, 1, __ATOMIC_RELEASE);
    srt_pipe_notify(l->pipe);
    lookup_leave(l);
    return NULL;
}

static int lookup_start(srt_lookup *l)
{
    pthread_t thread;
    int code = srt_thread_start(&thread, lookup_main, l);
    if (code == 0)
        pthread_detach(thread);
    return code;
}

srt_lookup *srt_lookup_begin(const char *host, const char *port, const struct addrinfo *hints)
{
    size_t len = strlen(host);
    srt_lookup *l = calloc(1, sizeof *l + len + 1);
    if (!l)
        return NULL;
    l->users = 2;
    memcpy(l->host, host, len);
    snprintf(l->port, sizeof l->port, "%s", port);
    l->hints.ai_flags = hints->ai_flags;
    l->hints.ai_family = hints->ai_family;
    l->hints.ai_socktype = hints->ai_socktype;
    if (srt_pipe_open(l->pipe) == SERIATIM_OK && lookup_start(l) == 0)
        return l;
    l->users = 1;
    lookup_leave(l);
    return NULL;
}

int srt_lookup_fd(const srt_lookup *l)
{
    return l->pipe[0];
}

int srt_lookup_has_ended(const srt_lookup *l)
{
    return __atomic_load_n(&l->ended, __ATOMIC_ACQUIRE);
}

int srt_lookup_take(srt_lookup *l, struct addrinfo **found)
{
    int code = l->code;
    *found = l->found;
    l->found = NULL;
    lookup_leave(l);
    return code;
}

void srt_lookup_abandon(srt_lookup *l)
{
    if (l)
        lookup_leave(l);
}

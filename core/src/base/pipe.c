/* pipe.c - see pipe.h. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "base/pipe.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int srt_pipe_open(int fds[2])
{
    int i;
    fds[0] = fds[1] = -1;
    if (pipe(fds) != 0)
        return SERIATIM_IO;
    for (i = 0; i < 2; i++) {
        fcntl(fds[i], F_SETFD, FD_CLOEXEC);
        fcntl(fds[i], F_SETFL, O_NONBLOCK);
    }
    return SERIATIM_OK;
}

void srt_pipe_close(int fds[2])
{
    if (fds[0] >= 0)
        close(fds[0]);
    if (fds[1] >= 0)
        close(fds[1]);
    fds[0] = fds[1] = -1;
}

/* A full pipe holds unread bytes, so its reader wakes up as well. */
void srt_pipe_notify(int fds[2])
{
    ssize_t written;
    do
        written = write(fds[1], "!", 1);
    while (written < 0 && errno == EINTR);
}

void srt_pipe_drain(int fds[2])
{
    char bytes[64];
    while (read(fds[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes)
        ;
}

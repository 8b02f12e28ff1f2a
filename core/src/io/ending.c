/*
 * ending.c - decides which TERM or INT ends the process at once. All functions but srt_ending_note are
 * async-signal-safe.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "seriatim/binding/ending.h"

#include "base/system.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define ENDING_REPEAT_MS 1000

static const char ending_head[] = "seriatim: a second signal ended the process at once; unfinished: ";

void srt_ending_begin(srt_ending *e, int allowed)
{
    __atomic_store_n(&e->allowed, allowed, __ATOMIC_RELAXED);
    __atomic_store_n(&e->seen, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&e->term_ms, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&e->shown, 0, __ATOMIC_RELEASE);
}

void srt_ending_note(srt_ending *e, seriatim_runner *runner)
{
    int next = __atomic_load_n(&e->shown, __ATOMIC_RELAXED) == 1 ? 1 : 0;
    char *line = e->lines[next];
    size_t len = sizeof ending_head - 1;
    memcpy(line, ending_head, len);
    seriatim_runner_unfinished(runner, line + len, SRT_ENDING_LINE - len - 1);
    len = strlen(line);
    line[len++] = '\n';
    e->lens[next] = len;
    __atomic_store_n(&e->shown, next + 1, __ATOMIC_RELEASE);
}

int srt_ending_counts(srt_ending *e, int number)
{
    int64_t now = srt_clock_ms(), before = __atomic_load_n(&e->term_ms, __ATOMIC_RELAXED);
    if (number == SIGTERM && before && now - before < ENDING_REPEAT_MS)
        return 0;
    if (number == SIGTERM)
        __atomic_store_n(&e->term_ms, now, __ATOMIC_RELAXED);
    return __atomic_fetch_add(&e->seen, 1, __ATOMIC_RELAXED) >= __atomic_load_n(&e->allowed, __ATOMIC_RELAXED);
}

void srt_ending_tell(const srt_ending *e)
{
    static const char nothing[] = "seriatim: a second signal ended the process at once\n";
    int shown = __atomic_load_n(&e->shown, __ATOMIC_ACQUIRE);
    if (shown)
        srt_ending_write(e->lines[shown - 1], e->lens[shown - 1]);
    else
        srt_ending_write(nothing, sizeof nothing - 1);
}

void srt_ending_write(const char *text, size_t len)
{
    struct pollfd fd = {STDERR_FILENO, POLLOUT, 0};
    ssize_t written;
    if (poll(&fd, 1, 0) != 1 || !(fd.revents & POLLOUT))
        return;
    written = write(STDERR_FILENO, text, len);
    (void)written;
}

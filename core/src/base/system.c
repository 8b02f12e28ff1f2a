/* system.c - the clocks, the memory of the process, random bytes, the text of an errno and the start of a thread. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "base/system.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach/mach.h>
#endif

static int64_t clock_read_us(clockid_t which)
{
    struct timespec now;
    clock_gettime(which, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t srt_clock_ms(void)
{
    return clock_read_us(CLOCK_MONOTONIC) / 1000;
}

int64_t srt_clock_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC);
}

int64_t srt_clock_wall_us(void)
{
    return clock_read_us(CLOCK_REALTIME);
}

#if defined(__linux__)
int64_t srt_resident_bytes(void)
{
    char text[64];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    long long pages = 0;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    return sscanf(text, "%*s %lld", &pages) == 1 ? (int64_t)pages * sysconf(_SC_PAGESIZE) : 0;
}
#elif defined(__APPLE__)
int64_t srt_resident_bytes(void)
{
    struct mach_task_basic_info info;
    mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
    return task_info(mach_task_self(), MACH_TASK_BASIC_INFO, (task_info_t)&info, &count) == KERN_SUCCESS
               ? (int64_t)info.resident_size
               : 0;
}
#else
int64_t srt_resident_bytes(void)
{
    return 0;
}
#endif

const char *srt_errno_text(int code, char *buf, size_t cap)
{
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    return strerror_r(code, buf, cap);
#else
    if (strerror_r(code, buf, cap) != 0)
        snprintf(buf, cap, "errno %d", code);
    return buf;
#endif
}

static int random_read(int fd, void *data, size_t len)
{
    char *at = data;
    while (len) {
        ssize_t n = read(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return SERIATIM_IO;
        at += n;
        len -= (size_t)n;
    }
    return SERIATIM_OK;
}

int srt_random(void *data, size_t len, seriatim_error *error)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC), status;
    if (fd < 0)
        return srt_fail(error, SERIATIM_IO, "/dev/urandom cannot be opened");
    status = random_read(fd, data, len);
    close(fd);
    return status == SERIATIM_OK ? status : srt_fail(error, status, "/dev/urandom cannot be read");
}

int srt_thread_start(pthread_t *thread, void *(*main)(void *argument), void *argument)
{
    sigset_t all, before;
    int code;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(thread, NULL, main, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

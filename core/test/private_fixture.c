/* private_fixture.c - starts private Redises in folders, and counts their processes. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "private_fixture.h"
#include "base/system.h"
#include "net/transport.h"

/* ---- Helpers ------------------------------------------------------------------------------- */

char *make_private_folder(char *name)
{
    strcpy(name, "/tmp/srt-private-XXXXXX");
    assert_non_null(mkdtemp(name));
    return name;
}

void remove_private_folder(const char *name)
{
    char command[1200];
    snprintf(command, sizeof command, "rm -rf '%s'", name);
    assert_int_equal(system(command), 0);
}

srt_private_redis *start_private(const char *folder)
{
    srt_private_redis *p = NULL;
    seriatim_error error = {0, ""};
    if (srt_private_redis_start(seriatim_default_allocator(), folder, &error, &p) != SERIATIM_OK)
        fail_msg("%s", error.message);
    return p;
}

int count_processes(const char *folder, const char *word, pid_t *found)
{
    DIR *list = opendir("/proc");
    const struct dirent *entry;
    int count = 0;
    assert_non_null(list);
    while ((entry = readdir(list)) != NULL) {
        char path[300], text[4096];
        ssize_t len, i;
        int fd;
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        fd = atoi(entry->d_name) > 0 ? open(path, O_RDONLY) : -1;
        if (fd < 0)
            continue;
        len = read(fd, text, sizeof text - 1);
        close(fd);
        for (i = 0; i < len; i++)
            if (text[i] == '\0')
                text[i] = ' ';
        text[len > 0 ? len : 0] = '\0';
        if (!strstr(text, folder) || !strstr(text, word))
            continue;
        count++;
        if (found)
            *found = atoi(entry->d_name);
    }
    closedir(list);
    return count;
}

int count_redis(const char *folder)
{
    return count_processes(folder, "redis-server", NULL);
}

int64_t await_gone(const char *folder, int64_t limit_ms)
{
    int64_t begin = srt_clock_ms();
    while (count_redis(folder) > 0) {
        if (srt_clock_ms() - begin > limit_ms)
            fail_msg("Redis in %s still lives after %d ms", folder, (int)limit_ms);
        poll(NULL, 0, 5);
    }
    return srt_clock_ms() - begin;
}

/* One command in inline form, its reply's first line without CR LF. */
static const char *ask_private(const char *text, const char *command, char *reply, size_t cap)
{
    srt_url url;
    srt_transport *t;
    size_t n, len = 0;
    int status;
    assert_int_equal(srt_url_parse(&url, seriatim_default_allocator(), text, strlen(text), NULL), SERIATIM_OK);
    t = srt_transport_create(seriatim_default_allocator(), &url);
    status = srt_transport_connect(t, 1000);
    if (status == SERIATIM_OK)
        status = srt_transport_write(t, command, strlen(command), &n);
    while (status == SERIATIM_OK && (len == 0 || reply[len - 1] != '\n')) {
        status = srt_transport_read(t, reply + len, cap - len - 1, &n);
        len += n;
        if (status == SERIATIM_AGAIN) {
            (void)srt_transport_wait(t, -1, 1000);
            status = SERIATIM_OK;
        }
    }
    reply[len] = '\0';
    reply[strcspn(reply, "\r\n")] = '\0';
    if (len == 0)
        snprintf(reply, cap, "%s", srt_transport_error(t)->message);
    srt_transport_destroy(t);
    srt_url_free(&url);
    return reply;
}

void assert_answer(const srt_private_redis *p, const char *command, const char *want)
{
    char reply[256];
    assert_string_equal(ask_private(srt_private_redis_url(p), command, reply, sizeof reply), want);
}

/* ---- Other processes ----------------------------------------------------------------------- */

static void be_other(const char *folder, int from, int to)
{
    srt_private_redis *p = NULL;
    seriatim_error error = {0, ""};
    char letter, byte;
    if (srt_private_redis_start(seriatim_default_allocator(), folder, &error, &p) != SERIATIM_OK) {
        fprintf(stderr, "%s\n", error.message);
        letter = 'E';
    } else {
        letter = srt_private_redis_started(p) ? 'S' : 'J';
    }
    (void)!write(to, &letter, 1);
    (void)!read(from, &byte, 1);
    srt_private_redis_release(p);
    _exit(0);
}

other fork_other(const char *folder)
{
    int to[2], from[2];
    other o;
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    o.pid = fork();
    if (o.pid == 0) {
        close(to[1]);
        close(from[0]);
        be_other(folder, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    o.talk = to[1];
    o.listen = from[0];
    return o;
}

char letter_of(const other *o)
{
    char letter = '?';
    assert_int_equal(read(o->listen, &letter, 1), 1);
    return letter;
}

void end_other(other *o, int number)
{
    if (number)
        kill(o->pid, number);
    else
        (void)!write(o->talk, "x", 1);
    waitpid(o->pid, NULL, 0);
    close(o->talk);
    close(o->listen);
}

/* test_private_redis.c - the private Redis begins with its first user and ends with its last. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "seriatim/binding/private_redis.h"
#include "base/status.h"
#include "base/system.h"
#include "net/transport.h"

#define ROUNDS 20

/* ---- Helpers ------------------------------------------------------------------------------- */

static char *make_folder(char *name)
{
    strcpy(name, "/tmp/srt-private-XXXXXX");
    assert_non_null(mkdtemp(name));
    return name;
}

static void remove_folder(const char *name)
{
    char command[1200];
    snprintf(command, sizeof command, "rm -rf '%s'", name);
    assert_int_equal(system(command), 0);
}

static srt_private_redis *start(const char *folder)
{
    srt_private_redis *p = NULL;
    seriatim_error error = {0, ""};
    if (srt_private_redis_start(seriatim_default_allocator(), folder, &error, &p) != SERIATIM_OK)
        fail_msg("%s", error.message);
    return p;
}

/* How many processes hold this text among their arguments, and the pid of one: /proc, no ps. */
static int count_processes(const char *folder, const char *word, pid_t *found)
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

/* Redis rewrites its title to "redis-server unixsocket:PATH", so the folder stays in sight. */
static int count_redis(const char *folder)
{
    return count_processes(folder, "redis-server", NULL);
}

#define SOON_MS 30000 /* less than 200 on a quiet machine; one that is left lives for ever */

/* Milliseconds until no Redis of this folder lives; fails the test after limit_ms. */
static int64_t await_gone(const char *folder, int64_t limit_ms)
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
static const char *ask(const char *text, const char *command, char *reply, size_t cap)
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

static void assert_answer(const srt_private_redis *p, const char *command, const char *want)
{
    char reply[256];
    assert_string_equal(ask(srt_private_redis_url(p), command, reply, sizeof reply), want);
}

/* ---- Other processes ----------------------------------------------------------------------- */

/* A process of its own that uses the folder: says 'S' (started), 'J' (joined) or 'E', then lives
   until it reads a byte (and releases) or is killed. */
typedef struct other {
    pid_t pid;
    int talk;   /* write a byte: release and end */
    int listen; /* its one letter */
} other;

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

static other fork_other(const char *folder)
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

static char letter_of(const other *o)
{
    char letter = '?';
    assert_int_equal(read(o->listen, &letter, 1), 1);
    return letter;
}

static void end_other(other *o, int number)
{
    if (number)
        kill(o->pid, number);
    else
        (void)!write(o->talk, "x", 1);
    waitpid(o->pid, NULL, 0);
    close(o->talk);
    close(o->listen);
}

/* ---- Alone --------------------------------------------------------------------------------- */

static void test_a_private_redis_starts_again_with_its_data(void **state)
{
    char folder[64], deep[128], path[160];
    struct stat info;
    srt_private_redis *p;
    (void)state;
    snprintf(deep, sizeof deep, "%s/made/it self", make_folder(folder));
    p = start(deep);
    assert_int_equal(srt_private_redis_started(p), 1);
    assert_int_equal(strncmp(srt_private_redis_url(p), "unix:///", 8), 0);
    assert_non_null(strstr(srt_private_redis_url(p), "it%20self"));
    assert_int_equal(stat(deep, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    snprintf(path, sizeof path, "%s/s.sock", deep);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_answer(p, "PING\r\n", "+PONG");
    assert_answer(p, "SET kept value\r\n", "+OK");
    assert_int_equal(count_redis(deep), 1);
    srt_private_redis_release(p);
    assert_int_equal(count_redis(deep), 0); /* release waited */
    p = start(deep);
    assert_int_equal(srt_private_redis_started(p), 1);
    assert_answer(p, "STRLEN kept\r\n", ":5");
    assert_answer(p, "CONFIG SET maxmemory-policy noeviction\r\n", "+OK");
    srt_private_redis_release(p);
    srt_private_redis_release(NULL);
    await_gone(folder, 0);
    remove_folder(folder);
}

static void test_killed_redis_loses_nothing(void **state)
{
    char folder[64];
    pid_t redis = 0;
    srt_private_redis *p, *again;
    (void)state;
    p = start(make_folder(folder));
    assert_answer(p, "SET kept value\r\n", "+OK");
    assert_int_equal(count_processes(folder, "redis-server", &redis), 1);
    kill(redis, SIGKILL);
    again = start(folder); /* the old guard still waits; this one starts a Redis of its own */
    assert_int_equal(srt_private_redis_started(again), 1);
    assert_answer(again, "STRLEN kept\r\n", ":5");
    srt_private_redis_release(p);
    assert_answer(again, "PING\r\n", "+PONG");
    srt_private_redis_release(again);
    await_gone(folder, SOON_MS);
    remove_folder(folder);
}

static void *keep_starting(void *folder)
{
    int i;
    for (i = 0; i < 5; i++)
        srt_private_redis_release(start(folder));
    return NULL;
}

/* From a process with threads, several of which come and go. */
static void test_threads_share_one_private_redis(void **state)
{
    char folder[64];
    pthread_t threads[4];
    int i;
    (void)state;
    make_folder(folder);
    for (i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_starting, folder), 0);
    for (i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    await_gone(folder, SOON_MS);
    remove_folder(folder);
}

/* ---- Several processes --------------------------------------------------------------------- */

static void test_a_second_process_joins_the_private_redis(void **state)
{
    char folder[64];
    other first, second;
    srt_private_redis *p;
    (void)state;
    first = fork_other(make_folder(folder));
    assert_int_equal(letter_of(&first), 'S');
    p = start(folder);
    assert_int_equal(srt_private_redis_started(p), 0);
    end_other(&first, 0); /* the one that started it leaves: it lives on */
    assert_answer(p, "PING\r\n", "+PONG");
    second = fork_other(folder);
    assert_int_equal(letter_of(&second), 'J');
    srt_private_redis_release(p);
    assert_int_equal(count_redis(folder), 1);
    end_other(&second, 0);
    await_gone(folder, SOON_MS); /* it held a copy of our use, so it did not know itself the last */
    remove_folder(folder);
}

static void test_redis_ends_when_its_only_owner_is_killed(void **state)
{
    char folder[64];
    other owner;
    (void)state;
    owner = fork_other(make_folder(folder));
    assert_int_equal(letter_of(&owner), 'S');
    end_other(&owner, SIGKILL);
    await_gone(folder, SOON_MS);
    remove_folder(folder);
}

static void test_redis_goes_on_when_its_starter_is_killed_and_another_lives(void **state)
{
    char folder[64];
    other owner, user;
    (void)state;
    owner = fork_other(make_folder(folder));
    assert_int_equal(letter_of(&owner), 'S');
    user = fork_other(folder);
    assert_int_equal(letter_of(&user), 'J');
    end_other(&owner, SIGKILL);
    poll(NULL, 0, 600);
    assert_int_equal(count_redis(folder), 1);
    end_other(&user, SIGKILL);
    await_gone(folder, SOON_MS);
    remove_folder(folder);
}

/* TERM, HUP and INT to the guard do nothing; its death takes Redis along (Linux). */
static void test_the_guard_ignores_signals_and_its_death_ends_redis(void **state)
{
    char folder[64], stat_path[64], text[512];
    srt_private_redis *p;
    pid_t redis = 0;
    int guard = 0, fd;
    ssize_t len;
    (void)state;
    p = start(make_folder(folder));
    assert_int_equal(count_processes(folder, "redis-server", &redis), 1);
    snprintf(stat_path, sizeof stat_path, "/proc/%d/stat", (int)redis);
    fd = open(stat_path, O_RDONLY);
    len = read(fd, text, sizeof text - 1);
    close(fd);
    assert_true(len > 0);
    text[len] = '\0';
    assert_int_equal(sscanf(strrchr(text, ')'), ") %*c %d", &guard), 1);
    assert_true(guard > 1 && guard != getpid());
    assert_int_not_equal(getsid(guard), getsid(0));
    assert_int_equal(kill(guard, SIGTERM) | kill(guard, SIGHUP) | kill(guard, SIGINT), 0);
    poll(NULL, 0, 200);
    assert_answer(p, "PING\r\n", "+PONG");
#ifdef __linux__
    kill(guard, SIGKILL);
    await_gone(folder, SOON_MS);
#endif
    srt_private_redis_release(p);
    await_gone(folder, SOON_MS);
    remove_folder(folder);
}

/* A forked child of a user counts as a user; a program that it execs does not. */
static void test_a_fork_uses_the_private_redis_and_an_exec_does_not(void **state)
{
    char folder[64];
    srt_private_redis *p;
    pid_t forked, program;
    (void)state;
    p = start(make_folder(folder));
    program = fork();
    if (program == 0) {
        execlp("sleep", "sleep", "120", (char *)NULL);
        _exit(127);
    }
    forked = fork();
    if (forked == 0) {
        pause();
        _exit(0);
    }
    srt_private_redis_release(p);
    assert_int_equal(count_redis(folder), 1);
    kill(forked, SIGKILL);
    waitpid(forked, NULL, 0);
    await_gone(folder, SOON_MS); /* although the program lives */
    assert_int_equal(kill(program, SIGKILL), 0);
    waitpid(program, NULL, 0);
    remove_folder(folder);
}

/* The guard keeps no descriptor of the caller: a pipe's reader sees the end when the owner is gone.
 */
static void test_no_descriptor_leaks(void **state)
{
    char folder[64], byte;
    srt_private_redis *p;
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    p = start(make_folder(folder));
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    srt_private_redis_release(p);
    remove_folder(folder);
}

/* Two processes that start at once, and how they end: 0 both leave, 1 and 2 one is killed. */
static void check_pair(const char *folder, int end, int may_find_one)
{
    other a = fork_other(folder), b = fork_other(folder);
    char first = letter_of(&a), second = letter_of(&b);
    int started = (first == 'S') + (second == 'S'), joined = (first == 'J') + (second == 'J');
    if (started + joined != 2 || started > 1 || (started == 0 && !may_find_one))
        fail_msg("%c and %c", first, second);
    assert_int_equal(count_redis(folder), 1);
    end_other(&a, end == 1 ? SIGKILL : 0);
    end_other(&b, end == 2 ? SIGKILL : 0);
}

static void test_two_processes_that_start_at_once_share_one_redis(void **state)
{
    char folder[64];
    int round;
    (void)state;
    make_folder(folder);
    for (round = 0; round < ROUNDS; round++) {
        check_pair(folder, round % 3, 0);
        await_gone(folder, SOON_MS);
    }
    /* Without a pause the next pair meets a Redis that is stopping, or, when it is quicker than
       the guard, one that now lives on. */
    for (round = 0; round < ROUNDS; round++)
        check_pair(folder, round % 3, 1);
    await_gone(folder, SOON_MS);
    remove_folder(folder);
}

/* A second copy of Redis would answer with another run_id, or the list would lack a push. */
static void test_a_process_that_comes_while_redis_stops_finds_its_data(void **state)
{
    char folder[64], want[32];
    int round;
    (void)state;
    make_folder(folder);
    for (round = 1; round <= ROUNDS; round++) {
        other last = fork_other(folder);
        srt_private_redis *p;
        assert_int_not_equal(letter_of(&last), 'E');
        end_other(&last, SIGKILL);
        poll(NULL, 0, round * 6); /* anywhere in the stop, which takes up to 100 ms */
        p = start(folder);
        snprintf(want, sizeof want, ":%d", round);
        assert_answer(p, "INCR rounds\r\n", want);
        assert_int_equal(count_redis(folder), 1);
        srt_private_redis_release(p);
    }
    await_gone(folder, 0);
    remove_folder(folder);
}

/* ---- Paths and failures -------------------------------------------------------------------- */

static void check_long_path(const char *runtime, const char *expected)
{
    char folder[64], deep[300], link[400], target[200];
    srt_private_redis *p;
    ssize_t len;
    if (runtime)
        setenv("XDG_RUNTIME_DIR", runtime, 1);
    else
        unsetenv("XDG_RUNTIME_DIR");
    snprintf(deep, sizeof deep, "%s/%0120d", make_folder(folder), 7);
    p = start(deep);
    assert_answer(p, "SET kept value\r\n", "+OK");
    snprintf(link, sizeof link, "%s/s.sock", deep);
    len = readlink(link, target, sizeof target - 1);
    assert_true(len > 0);
    target[len] = '\0';
    assert_int_equal(strncmp(target, expected, strlen(expected)), 0);
    setenv("XDG_RUNTIME_DIR", "/nonsense", 1); /* whoever comes later follows the link */
    {
        other joins = fork_other(deep);
        assert_int_equal(letter_of(&joins), 'J');
        end_other(&joins, 0);
    }
    srt_private_redis_release(p);
    await_gone(target, 0);
    *strrchr(target, '/') = '\0';
    assert_int_equal(rmdir(target), 0);
    p = start(deep); /* the short folder was swept away: it is made again */
    assert_answer(p, "STRLEN kept\r\n", ":5");
    srt_private_redis_release(p);
    remove_folder(target);
    remove_folder(folder);
}

static void test_a_socket_with_a_long_path_lies_in_a_shorter_folder(void **state)
{
    char runtime[64];
    (void)state;
    check_long_path(make_folder(runtime), runtime);
    check_long_path(NULL, "/tmp/seriatim-");
    check_long_path("/no/such/place", "/tmp/seriatim-");
    remove_folder(runtime);
    unsetenv("XDG_RUNTIME_DIR");
}

static int try_start(const char *folder, seriatim_error *error)
{
    srt_private_redis *p = NULL;
    int status = srt_private_redis_start(seriatim_default_allocator(), folder, error, &p);
    if (status != SERIATIM_OK)
        assert_null(p);
    srt_private_redis_release(p);
    return status;
}

static void test_a_missing_redis_server_is_an_error(void **state)
{
    char folder[64], kept[4096];
    seriatim_error error;
    (void)state;
    snprintf(kept, sizeof kept, "%s", getenv("PATH"));
    setenv("PATH", make_folder(folder), 1);
    assert_int_equal(try_start(folder, &error), SERIATIM_UNSUPPORTED);
    setenv("PATH", kept, 1);
    assert_non_null(strstr(error.message, "install"));
    assert_non_null(strstr(error.message, "redis-server"));
    assert_non_null(strstr(error.message, "valkey-server"));
    remove_folder(folder);
}

/* Makes `name` in the folder a program of one shell line, which is then first in PATH. */
static void make_program(const char *folder, const char *name, const char *line, const char *path)
{
    char file[200];
    FILE *out;
    snprintf(file, sizeof file, "%s/%s", folder, name);
    out = fopen(file, "w");
    assert_non_null(out);
    fprintf(out, "#!%s\n%s\n", "/bin/sh", line);
    fclose(out);
    chmod(file, 0755);
    setenv("PATH", path, 1);
}

static void test_valkey_server_is_found_too(void **state)
{
    char folder[64], bin[64], kept[4096];
    srt_private_redis *p;
    (void)state;
    snprintf(kept, sizeof kept, "%s", getenv("PATH"));
    make_folder(bin);
    make_program(bin, "valkey-server", "exec /usr/bin/redis-server \"$@\"", bin);
    p = start(make_folder(folder));
    setenv("PATH", kept, 1);
    assert_answer(p, "PING\r\n", "+PONG");
    srt_private_redis_release(p);
    remove_folder(folder);
    remove_folder(bin);
}

static void test_a_server_that_dies_at_its_start_is_an_error(void **state)
{
    char folder[64], bin[64], kept[4096];
    seriatim_error error;
    int64_t before = srt_clock_ms();
    (void)state;
    snprintf(kept, sizeof kept, "%s", getenv("PATH"));
    make_folder(bin);
    make_program(bin, "redis-server", "echo the disk is made of cheese; exit 3", bin);
    assert_int_equal(try_start(make_folder(folder), &error), SERIATIM_IO);
    assert_non_null(strstr(error.message, "the disk is made of cheese"));
    assert_true(srt_clock_ms() - before < 60000);
    make_program(bin, "redis-server", "", bin);
    {
        char file[200];
        snprintf(file, sizeof file, "%s/redis-server", bin);
        assert_int_equal(truncate(file, 0), 0);
        assert_int_equal(chmod(file, 0755), 0);
    }
    assert_int_equal(try_start(folder, &error), SERIATIM_IO); /* an empty file cannot be executed */
    assert_non_null(strstr(error.message, "cannot start"));
    setenv("PATH", kept, 1);
    assert_int_equal(try_start(folder, &error), SERIATIM_OK); /* nothing is left behind */
    remove_folder(folder);
    remove_folder(bin);
}

static void test_unfit_folders_are_refused(void **state)
{
    char folder[64], file[128];
    seriatim_error error;
    (void)state;
    make_folder(folder);
    snprintf(file, sizeof file, "%s/file", folder);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(try_start("", &error), SERIATIM_INVALID);
    assert_int_equal(try_start(file, &error), SERIATIM_INVALID);
    assert_non_null(strstr(error.message, "is not a folder"));
    snprintf(file, sizeof file, "%s/file/below", folder);
    assert_int_equal(try_start(file, &error), SERIATIM_INVALID);
    chmod(folder, 0777);
    assert_int_equal(try_start(folder, &error), SERIATIM_INVALID);
    assert_non_null(strstr(error.message, "writable by others"));
    chmod(folder, 0700);
    if (geteuid() == 0 && chown(folder, 12345, 12345) == 0) {
        assert_int_equal(try_start(folder, &error), SERIATIM_INVALID);
        assert_non_null(strstr(error.message, "another user"));
    }
    remove_folder(folder);
}

/* ---- Out of memory ------------------------------------------------------------------------- */

static void *failing_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    int *left = user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return (*left)-- > 0 ? realloc(ptr, new_size) : NULL;
}

static void test_every_allocation_beside_a_running_redis_may_fail(void **state)
{
    char folder[64];
    srt_private_redis *holder;
    int n, status = SERIATIM_NOMEM;
    (void)state;
    holder = start(make_folder(folder));
    for (n = 0; status != SERIATIM_OK; n++) {
        int left = n;
        seriatim_allocator mem = {failing_alloc, &left};
        seriatim_error error = {0, ""};
        srt_private_redis *p = NULL;
        assert_true(n < 100);
        status = srt_private_redis_start(&mem, folder, &error, &p);
        assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM);
        left = 100;
        srt_private_redis_release(p);
    }
    assert_true(n > 4);
    srt_private_redis_release(holder);
    await_gone(folder, 0);
    remove_folder(folder);
}

/* The same where this process has to start Redis itself. */
static void test_every_allocation_of_a_start_may_fail(void **state)
{
    char folder[64];
    int n, status = SERIATIM_NOMEM;
    (void)state;
    make_folder(folder);
    for (n = 0; status != SERIATIM_OK; n++) {
        int left = n;
        seriatim_allocator mem = {failing_alloc, &left};
        srt_private_redis *p = NULL;
        assert_true(n < 500);
        status = srt_private_redis_start(&mem, folder, NULL, &p);
        assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM);
        left = 1000;
        srt_private_redis_release(p);
        await_gone(folder, SOON_MS);
    }
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_private_redis_starts_again_with_its_data),
        cmocka_unit_test(test_killed_redis_loses_nothing),
        cmocka_unit_test(test_threads_share_one_private_redis),
        cmocka_unit_test(test_a_second_process_joins_the_private_redis),
        cmocka_unit_test(test_redis_ends_when_its_only_owner_is_killed),
        cmocka_unit_test(test_redis_goes_on_when_its_starter_is_killed_and_another_lives),
        cmocka_unit_test(test_the_guard_ignores_signals_and_its_death_ends_redis),
        cmocka_unit_test(test_a_fork_uses_the_private_redis_and_an_exec_does_not),
        cmocka_unit_test(test_no_descriptor_leaks),
        cmocka_unit_test(test_two_processes_that_start_at_once_share_one_redis),
        cmocka_unit_test(test_a_process_that_comes_while_redis_stops_finds_its_data),
        cmocka_unit_test(test_a_socket_with_a_long_path_lies_in_a_shorter_folder),
        cmocka_unit_test(test_a_missing_redis_server_is_an_error),
        cmocka_unit_test(test_valkey_server_is_found_too),
        cmocka_unit_test(test_a_server_that_dies_at_its_start_is_an_error),
        cmocka_unit_test(test_unfit_folders_are_refused),
        cmocka_unit_test(test_every_allocation_beside_a_running_redis_may_fail),
        cmocka_unit_test(test_every_allocation_of_a_start_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

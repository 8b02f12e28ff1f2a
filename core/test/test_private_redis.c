/* test_private_redis.c - the private Redis begins with its first user and ends with its last. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "seriatim/binding/private_redis.h"
#include "private_fixture.h"

#define ROUNDS 20

/* ---- Alone --------------------------------------------------------------------------------- */

static void test_a_private_redis_starts_again_with_its_data(void **state)
{
    char folder[64], deep[128], path[160];
    struct stat info;
    srt_private_redis *p;
    (void)state;
    snprintf(deep, sizeof deep, "%s/made/it self", make_private_folder(folder));
    p = start_private(deep);
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
    p = start_private(deep);
    assert_int_equal(srt_private_redis_started(p), 1);
    assert_answer(p, "STRLEN kept\r\n", ":5");
    assert_answer(p, "CONFIG SET maxmemory-policy noeviction\r\n", "+OK");
    srt_private_redis_release(p);
    srt_private_redis_release(NULL);
    await_gone(folder, 0);
    remove_private_folder(folder);
}

static void test_killed_redis_loses_nothing(void **state)
{
    char folder[64];
    pid_t redis = 0;
    srt_private_redis *p, *again;
    (void)state;
    p = start_private(make_private_folder(folder));
    assert_answer(p, "SET kept value\r\n", "+OK");
    assert_int_equal(count_processes(folder, "redis-server", &redis), 1);
    kill(redis, SIGKILL);
    again = start_private(folder); /* the old guard still waits; this one starts a Redis of its own */
    assert_int_equal(srt_private_redis_started(again), 1);
    assert_answer(again, "STRLEN kept\r\n", ":5");
    srt_private_redis_release(p);
    assert_answer(again, "PING\r\n", "+PONG");
    srt_private_redis_release(again);
    await_gone(folder, SOON_MS);
    remove_private_folder(folder);
}

static void *keep_starting(void *folder)
{
    int i;
    for (i = 0; i < 5; i++)
        srt_private_redis_release(start_private(folder));
    return NULL;
}

/* From a process with threads, several of which come and go. */
static void test_threads_share_one_private_redis(void **state)
{
    char folder[64];
    pthread_t threads[4];
    int i;
    (void)state;
    make_private_folder(folder);
    for (i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_starting, folder), 0);
    for (i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    await_gone(folder, SOON_MS);
    remove_private_folder(folder);
}

/* ---- Several processes --------------------------------------------------------------------- */

static void test_a_second_process_joins_the_private_redis(void **state)
{
    char folder[64];
    other first, second;
    srt_private_redis *p;
    (void)state;
    first = fork_other(make_private_folder(folder));
    assert_int_equal(letter_of(&first), 'S');
    p = start_private(folder);
    assert_int_equal(srt_private_redis_started(p), 0);
    end_other(&first, 0); /* the one that started it leaves: it lives on */
    assert_answer(p, "PING\r\n", "+PONG");
    second = fork_other(folder);
    assert_int_equal(letter_of(&second), 'J');
    srt_private_redis_release(p);
    assert_int_equal(count_redis(folder), 1);
    end_other(&second, 0);
    await_gone(folder, SOON_MS); /* it held a copy of our use, so it did not know itself the last */
    remove_private_folder(folder);
}

static void test_redis_ends_when_its_only_owner_is_killed(void **state)
{
    char folder[64];
    other owner;
    (void)state;
    owner = fork_other(make_private_folder(folder));
    assert_int_equal(letter_of(&owner), 'S');
    end_other(&owner, SIGKILL);
    await_gone(folder, SOON_MS);
    remove_private_folder(folder);
}

static void test_redis_goes_on_when_its_starter_is_killed_and_another_lives(void **state)
{
    char folder[64];
    other owner, user;
    (void)state;
    owner = fork_other(make_private_folder(folder));
    assert_int_equal(letter_of(&owner), 'S');
    user = fork_other(folder);
    assert_int_equal(letter_of(&user), 'J');
    end_other(&owner, SIGKILL);
    poll(NULL, 0, 600);
    assert_int_equal(count_redis(folder), 1);
    end_other(&user, SIGKILL);
    await_gone(folder, SOON_MS);
    remove_private_folder(folder);
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
    p = start_private(make_private_folder(folder));
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
    remove_private_folder(folder);
}

/* A forked child of a user counts as a user; a program that it execs does not. */
static void test_a_fork_uses_the_private_redis_and_an_exec_does_not(void **state)
{
    char folder[64];
    srt_private_redis *p;
    pid_t forked, program;
    (void)state;
    p = start_private(make_private_folder(folder));
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
    remove_private_folder(folder);
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
    p = start_private(make_private_folder(folder));
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    srt_private_redis_release(p);
    remove_private_folder(folder);
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
    make_private_folder(folder);
    for (round = 0; round < ROUNDS; round++) {
        check_pair(folder, round % 3, 0);
        await_gone(folder, SOON_MS);
    }
    /* Without a pause the next pair meets a Redis that is stopping, or, when it is quicker than
       the guard, one that now lives on. */
    for (round = 0; round < ROUNDS; round++)
        check_pair(folder, round % 3, 1);
    await_gone(folder, SOON_MS);
    remove_private_folder(folder);
}

/* A second copy of Redis would answer with another run_id, or the list would lack a push. */
static void test_a_process_that_comes_while_redis_stops_finds_its_data(void **state)
{
    char folder[64], want[32];
    int round;
    (void)state;
    make_private_folder(folder);
    for (round = 1; round <= ROUNDS; round++) {
        other last = fork_other(folder);
        srt_private_redis *p;
        assert_int_not_equal(letter_of(&last), 'E');
        end_other(&last, SIGKILL);
        poll(NULL, 0, round * 6); /* anywhere in the stop, which takes up to 100 ms */
        p = start_private(folder);
        snprintf(want, sizeof want, ":%d", round);
        assert_answer(p, "INCR rounds\r\n", want);
        assert_int_equal(count_redis(folder), 1);
        srt_private_redis_release(p);
    }
    await_gone(folder, 0);
    remove_private_folder(folder);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_ending.c - which TERM and INT end a process, and the line that is written then. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "seriatim/binding/ending.h"

static void test_a_second_term_within_a_second_is_the_first_ones(void **state)
{
    srt_ending ending = {0};
    (void)state;
    srt_ending_begin(&ending, 1);
    assert_int_equal(srt_ending_counts(&ending, SIGTERM), 0);
    assert_int_equal(srt_ending_counts(&ending, SIGTERM), 0);
    ending.term_ms -= 1000;
    assert_int_equal(srt_ending_counts(&ending, SIGTERM), 1);
}

static void test_a_second_int_is_meant(void **state)
{
    srt_ending ending = {0};
    (void)state;
    srt_ending_begin(&ending, 1);
    assert_int_equal(srt_ending_counts(&ending, SIGINT), 0);
    assert_int_equal(srt_ending_counts(&ending, SIGINT), 1);
    srt_ending_begin(&ending, 1);
    assert_int_equal(srt_ending_counts(&ending, SIGTERM), 0);
    assert_int_equal(srt_ending_counts(&ending, SIGINT), 1);
    srt_ending_begin(&ending, 0);
    assert_int_equal(srt_ending_counts(&ending, SIGTERM), 1);
}

/* What `tell` writes to standard error, where that is a pipe. */
static size_t told(const srt_ending *ending, char *text, size_t cap)
{
    int pipe_ends[2], before = dup(STDERR_FILENO);
    ssize_t got;
    assert_int_equal(pipe(pipe_ends), 0);
    assert_int_not_equal(dup2(pipe_ends[1], STDERR_FILENO), -1);
    srt_ending_tell(ending);
    dup2(before, STDERR_FILENO);
    close(before);
    close(pipe_ends[1]);
    got = read(pipe_ends[0], text, cap - 1);
    close(pipe_ends[0]);
    text[got > 0 ? got : 0] = '\0';
    return got > 0 ? (size_t)got : 0;
}

static void test_what_was_noted_is_told(void **state)
{
    seriatim_node_settings settings;
    seriatim_runner *runner;
    srt_ending ending = {0};
    char text[2000];
    int i;
    (void)state;
    told(&ending, text, sizeof text);
    assert_string_equal(text, "seriatim: a second signal ended the process at once\n");
    memset(&settings, 0, sizeof settings);
    settings.id = "n";
    settings.lease_ms = 1000;
    settings.poll_ms = 1000;
    settings.threads = 1;
    assert_int_equal(seriatim_runner_new(&settings, "redis://127.0.0.1:1", &runner, NULL), SERIATIM_OK);
    for (i = 0; i < 3; i++) {
        srt_ending_note(&ending, runner);
        told(&ending, text, sizeof text);
        assert_string_equal(text, "seriatim: a second signal ended the process at once; unfinished: 0 ids\n");
    }
    seriatim_runner_free(runner);
}

/* A reader that is stopped must not hold the end of the process up. */
static void test_a_full_pipe_is_not_waited_for(void **state)
{
    static const char filling[4096];
    srt_ending ending = {0};
    int pipe_ends[2], before = dup(STDERR_FILENO);
    (void)state;
    assert_int_equal(pipe(pipe_ends), 0);
    fcntl(pipe_ends[1], F_SETFL, O_NONBLOCK);
    while (write(pipe_ends[1], filling, sizeof filling) > 0)
        ;
    fcntl(pipe_ends[1], F_SETFL, 0);
    assert_int_not_equal(dup2(pipe_ends[1], STDERR_FILENO), -1);
    alarm(10);
    srt_ending_tell(&ending);
    alarm(0);
    dup2(before, STDERR_FILENO);
    close(before);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_second_term_within_a_second_is_the_first_ones),
        cmocka_unit_test(test_a_second_int_is_meant),
        cmocka_unit_test(test_what_was_noted_is_told),
        cmocka_unit_test(test_a_full_pipe_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_watch.c - several sockets behind one descriptor. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "io/watch.h"

#include <poll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ SERIATIM_WANT_READ
#define WRITE SERIATIM_WANT_WRITE

static srt_watch watch;
static int near[2], far[2]; /* the ends of two connections */

static void connect_pair(int at)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    near[at] = ends[0];
    far[at] = ends[1];
}

static int start(void **state)
{
    (void)state;
    srt_watch_init(&watch, seriatim_default_allocator());
    connect_pair(0);
    connect_pair(1);
    return 0;
}

static int stop(void **state)
{
    int i;
    (void)state;
    for (i = 0; i < 2; i++) {
        close(near[i]);
        close(far[i]);
    }
    srt_watch_free(&watch);
    return 0;
}

static void watch_both(int first, int second)
{
    srt_watched sockets[] = {{near[0], first}, {near[1], second}};
    assert_int_equal(srt_watch_set(&watch, sockets, 2), SERIATIM_OK);
}

/* By poll(2) and by select(2), which hosts use. */
static int is_ready(void)
{
    struct pollfd fd = {srt_watch_fd(&watch), POLLIN, 0};
    struct timeval none = {0, 0};
    fd_set set;
    int ready = poll(&fd, 1, 0);
    FD_ZERO(&set);
    FD_SET(srt_watch_fd(&watch), &set);
    assert_int_equal(select(srt_watch_fd(&watch) + 1, &set, NULL, NULL, &none), ready);
    return ready;
}

static void test_it_is_readable_when_one_of_the_sockets_is(void **state)
{
    char byte;
    (void)state;
    assert_int_equal(srt_watch_fd(&watch), -1);
    watch_both(READ, READ);
    assert_false(is_ready());
    assert_int_equal(write(far[1], "x", 1), 1);
    assert_true(is_ready());
    assert_int_equal(read(near[1], &byte, 1), 1);
    assert_false(is_ready());
    close(far[0]);
    far[0] = -1;
    assert_true(is_ready());
}

static void test_what_is_wanted_may_change(void **state)
{
    (void)state;
    watch_both(READ, WRITE);
    assert_true(is_ready());
    watch_both(READ, READ);
    assert_false(is_ready());
    assert_int_equal(write(far[0], "x", 1), 1);
    assert_true(is_ready());
    watch_both(0, READ);
    assert_false(is_ready());
}

static void test_a_socket_that_is_not_named_any_more_is_not_watched(void **state)
{
    srt_watched second;
    (void)state;
    watch_both(READ, READ);
    assert_int_equal(write(far[0], "x", 1), 1);
    second.fd = near[1];
    second.wants = READ;
    assert_int_equal(srt_watch_set(&watch, &second, 1), SERIATIM_OK);
    assert_false(is_ready());
    watch_both(READ, READ);
    assert_true(is_ready());
}

static void test_a_new_socket_with_the_number_of_a_closed_one_is_watched(void **state)
{
    int number = near[0];
    (void)state;
    watch_both(READ, READ);
    close(near[0]);
    close(far[0]);
    connect_pair(0);
    if (near[0] != number) {
        assert_int_equal(dup2(near[0], number), number);
        close(near[0]);
        near[0] = number;
    }
    watch_both(READ, READ);
    assert_false(is_ready());
    assert_int_equal(write(far[0], "x", 1), 1);
    assert_true(is_ready());
}

/* A child has its own descriptor; and what the parent has closed does not stay in the parent's because the child has
 * it. */
static void test_a_child_of_fork_has_a_descriptor_of_its_own(void **state)
{
    int status, held;
    pid_t child;
    (void)state;
    watch_both(READ, READ);
    child = fork();
    if (child == 0) {
        srt_watched second = {near[1], READ};
        srt_watch_close(&watch);
        _exit(srt_watch_set(&watch, &second, 1) == SERIATIM_OK && !is_ready() ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    held = dup(near[0]); /* as a child would hold it */
    close(near[0]);
    assert_int_equal(write(far[0], "x", 1), 1);
    assert_true(is_ready()); /* it is still in there */
    near[0] = near[1];
    connect_pair(1);
    watch_both(READ, READ);
    assert_false(is_ready());
    close(held);
}

static void test_without_a_free_descriptor_it_says_so(void **state)
{
    int last = -1, next, taken[4096], count = 0;
    srt_watched first = {near[0], READ};
    (void)state;
    while (count < 4096 && (next = dup(near[1])) >= 0)
        taken[count++] = last = next;
    if (count < 4096) {
        assert_int_equal(srt_watch_set(&watch, &first, 1), SERIATIM_IO);
        assert_int_equal(srt_watch_fd(&watch), -1);
    }
    while (count > 0)
        close(taken[--count]);
    assert_true(last >= 0);
    assert_int_equal(srt_watch_set(&watch, &first, 1), SERIATIM_OK);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_it_is_readable_when_one_of_the_sockets_is),
        CASE(test_what_is_wanted_may_change),
        CASE(test_a_socket_that_is_not_named_any_more_is_not_watched),
        CASE(test_a_new_socket_with_the_number_of_a_closed_one_is_watched),
        CASE(test_a_child_of_fork_has_a_descriptor_of_its_own),
        CASE(test_without_a_free_descriptor_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

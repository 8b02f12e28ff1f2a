/* test_waiters.c - the pipes by which threads that wait for a delivery are woken. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <string.h>

#include "io/waiters.h"

static int is_readable(const srt_wait_queue *queue, const seriatim_waiter *waiter)
{
    struct pollfd fd = {srt_waiter_fd(queue, waiter), POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
}

static void open_queue(srt_wait_queue *queue)
{
    memset(queue, 0, sizeof *queue);
    assert_int_equal(srt_waiters_open(queue), SERIATIM_OK);
}

/*
 * The runner chooses a thread with the lock and notifies its pipe after it. The thread may leave between the two,
 * because its time is over; then the byte comes into the pipe of nobody. The next who waits on that pipe is woken once
 * for nothing, and no more.
 */
static void test_a_notification_after_the_thread_has_left_wakes_the_next_one_once(void **state)
{
    srt_wait_queue queue;
    seriatim_waiter *waiter;
    int *chosen, late_before_next;
    (void)state;
    for (late_before_next = 0; late_before_next < 2; late_before_next++) {
        open_queue(&queue);
        waiter = srt_waiters_add(seriatim_default_allocator(), &queue);
        chosen = srt_waiters_choose(&queue, 0);
        srt_waiters_remove(&queue, waiter);
        if (late_before_next)
            srt_pipe_notify(chosen);
        assert_ptr_equal(srt_waiters_add(seriatim_default_allocator(), &queue), waiter);
        if (!late_before_next)
            srt_pipe_notify(chosen);
        assert_true(is_readable(&queue, waiter));
        srt_waiters_remove(&queue, waiter);
        assert_ptr_equal(srt_waiters_add(seriatim_default_allocator(), &queue), waiter);
        assert_false(is_readable(&queue, waiter));
        srt_waiters_remove(&queue, waiter);
        srt_waiters_close(seriatim_default_allocator(), &queue);
    }
}

/* The same for whoever watches the pipe of the queue. */
static void test_a_late_notification_of_the_queue_is_read_once(void **state)
{
    srt_wait_queue queue;
    int *chosen;
    (void)state;
    open_queue(&queue);
    chosen = srt_waiters_choose(&queue, 0);
    srt_waiters_remove(&queue, NULL);
    srt_pipe_notify(chosen);
    assert_true(is_readable(&queue, NULL));
    srt_waiters_remove(&queue, NULL);
    assert_false(is_readable(&queue, NULL));
    srt_waiters_close(seriatim_default_allocator(), &queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_notification_after_the_thread_has_left_wakes_the_next_one_once),
        cmocka_unit_test(test_a_late_notification_of_the_queue_is_read_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

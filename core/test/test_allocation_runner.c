/* test_allocation_runner.c - the n-th allocation fails under a runner; see test_allocation.c. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "seriatim.h"
#include "server.h"
#include "allocation.h"

/* ---- Scenario of a runner ------------------------------------------------------------------ */

static void say_outcomes(seriatim_runner *runner, seriatim_delivery *d)
{
    seriatim_flush flush;
    size_t first = 0, i;
    (void)seriatim_delivery_worker(d);
    for (i = 0; i < seriatim_delivery_size(d); i++) {
        char which = seriatim_delivery_kind_of(d) == SERIATIM_RUN ? seriatim_delivery_job(d, i)->id[0] : 0;
        int status = seriatim_runner_extend(runner, d, i, 60);
        if (which && seriatim_delivery_job(d, i)->payload_count > 1)
            status |= seriatim_runner_checkpoint(runner, d, i, 1);
        if (which % 8 == 0)
            status |= seriatim_delivery_snooze(d, i, 60, "1", 1);
        else if (which % 4 == 0)
            status |= seriatim_delivery_done(d, i);
        else if (which % 4 == 1)
            status |= seriatim_delivery_fail(d, i, "wrong", 5, 60);
        else if (which % 4 == 2)
            status |= seriatim_delivery_reject(d, i, &first, 1, "unreadable", 10);
        else
            status |= seriatim_delivery_release(d, i);
        seriatim_runner_failure(runner, d, i);
        assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM);
    }
    (void)seriatim_runner_flush(runner, d, 0);
    (void)seriatim_runner_flush_begin(runner, d, &flush);
    (void)seriatim_runner_flush_wait(runner, &flush, 0);
    seriatim_runner_flush_end(runner, &flush);
}

static int take(seriatim_runner *runner, seriatim_delivery **d, int turn)
{
    seriatim_candidate list[2];
    if (turn % 2 && seriatim_runner_candidates(runner, 0, list, 2) > 0)
        return seriatim_runner_take_from(runner, 0, list[0].shard, d);
    return seriatim_runner_take(runner, 0, d);
}

/* Takes what is there, for a little while. */
/* Settles, on odd turns taking up to three more as it does so. The status of the last take. */
static int settle(seriatim_runner *runner, seriatim_delivery *d, int turn)
{
    int more, status = SERIATIM_OK;
    for (more = turn % 2 ? 3 : 0; status == SERIATIM_OK; more--) {
        (void)seriatim_delivery_shard(d);
        say_outcomes(runner, d);
        if (more == 0) {
            assert_int_equal(seriatim_runner_settle(runner, d), SERIATIM_OK);
            break;
        }
        status = seriatim_runner_settle_and_take(runner, d, 0, &d);
    }
    return status;
}

/* As seriatim_runner_wait does. */
static void wait_begin_and_end(seriatim_runner *runner)
{
    seriatim_waiter *waiter;
    struct pollfd fd = {seriatim_runner_wait_begin(runner, 0, &waiter), POLLIN, 0};
    assert_true(waiter || fd.fd == seriatim_runner_fd(runner, 0));
    seriatim_runner_wake_all(runner);
    assert_int_equal(poll(&fd, 1, 5000), 1);
    seriatim_runner_wait_end(runner, 0, waiter);
}

static void work(seriatim_runner *runner)
{
    seriatim_event event;
    int turn;
    for (turn = 0; turn < 12; turn++) {
        seriatim_delivery *d;
        int status = take(runner, &d, turn);
        seriatim_runner_pulse(runner);
        while (seriatim_runner_event(runner, &event) == SERIATIM_OK)
            ;
        if (status == SERIATIM_OK)
            status = settle(runner, d, turn);
        if (status != SERIATIM_OK && turn % 2)
            wait_begin_and_end(runner);
        else if (status != SERIATIM_OK)
            seriatim_runner_wait(runner, 0, 5);
    }
}

static void leave(seriatim_runner *runner, int abandon)
{
    int i;
    seriatim_delivery *d;
    seriatim_runner_quiet(runner);
    seriatim_runner_stop(runner);
    if (abandon)
        seriatim_runner_abandon(runner);
    for (i = 0; i < 2000 && !seriatim_runner_stopped(runner); i++) {
        if (seriatim_runner_take(runner, 0, &d) == SERIATIM_OK)
            seriatim_runner_settle(runner, d);
        else
            seriatim_runner_clear(runner, 0);
        pause_ms(2);
    }
    assert_true(seriatim_runner_stopped(runner));
}

/* Another worker comes, goes and comes again while the runner runs. */
static int change_workers(seriatim_runner *runner)
{
    seriatim_queue_settings queue = settings_of_queue();
    size_t worker, again;
    int status;
    queue.name = "added";
    queue.name_len = 5;
    status = seriatim_runner_worker(runner, &queue, &worker, NULL);
    if (status == SERIATIM_OK)
        status = seriatim_runner_withdraw(runner, worker, NULL);
    if (status == SERIATIM_OK)
        status = seriatim_runner_worker(runner, &queue, &again, NULL);
    return status;
}

static int run(int number)
{
    static const seriatim_shard shards[] = {{0, 0}, {0, 1}};
    seriatim_queue_settings queue = settings_of_queue();
    seriatim_node_settings settings;
    seriatim_runner *runner;
    size_t worker, group;
    int status;
    char id[32], unfinished[128];
    static int lives;
    memset(&settings, 0, sizeof settings);
    snprintf(id, sizeof id, "node-%d", ++lives);
    settings.id = id;
    settings.options.allocator = &failing_allocator;
    settings.lease_ms = 10000;
    settings.poll_ms = 10;
    settings.threads = 1;
    queue.ttr = 60;
    status = seriatim_runner_new(&settings, server.url, &runner, NULL);
    if (status != SERIATIM_OK)
        return status;
    status = seriatim_runner_worker(runner, &queue, &worker, NULL);
    if (status == SERIATIM_OK && number)
        status = seriatim_runner_group(runner, SERIATIM_LAG, shards, 2, &group, NULL);
    if (status == SERIATIM_OK)
        status = seriatim_runner_start(runner, NULL);
    if (status == SERIATIM_OK) {
        if (!number)
            status = change_workers(runner);
        work(runner);
        (void)seriatim_runner_stats_now(runner);
        (void)seriatim_runner_asked(runner);
        (void)seriatim_runner_unfinished(runner, unfinished, sizeof unfinished);
        leave(runner, number);
    }
    seriatim_runner_free(runner);
    return status;
}

/* ---- The n-th allocation ------------------------------------------------------------------- */

static void test_every_allocation_of_a_runner_may_fail(void **state)
{
    int number;
    (void)state;
    for (number = 0; number < 2; number++) {
        fill_queue();
        fail_each_allocation("runner", run, number, 80);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_of_a_runner_may_fail),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

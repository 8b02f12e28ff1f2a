/* test_pop_repeated.c - poppers whose answers are lost, or whose queue gets a new generation, against a redis-server.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pop_fixture.h"
#include "reshard_fixture.h"

static int begin_pop(const fixture *f)
{
    seriatim_pop settings = plainly(f, 30);
    return seriatim_pop_begin(f->client, &settings);
}

static int begin_report(const fixture *f, const popped *p, int kind)
{
    seriatim_popped_outcome outcome = {0, 0, {NULL, 0}, NULL, 0};
    outcome.kind = kind;
    return seriatim_popped_begin(f->client, text(p->token), &outcome);
}

/* The connection ends: what Redis answers is never read. */
static void cut(const fixture *f)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    close(pair[1]);
    assert_true(dup2(pair[0], seriatim_link_fd(f->link)) >= 0);
    close(pair[0]);
}

/*
 * Sends what was begun, and waits until Redis has executed it: then as many ids run as `running` says. Redis is stopped
 * meanwhile, so the client cannot have read the answer.
 */
static void send_only(const fixture *f, long long running, int is_cut)
{
    int tries;
    assert_int_equal(kill(server.pid, SIGSTOP), 0);
    assert_int_equal(seriatim_link_step(f->link), SERIATIM_AGAIN);
    if (is_cut)
        cut(f);
    assert_int_equal(kill(server.pid, SIGCONT), 0);
    for (tries = 0; count_of("HLEN", "running") != running; tries++) {
        assert_true(tries < 3000);
        pause_ms(10);
    }
}

/* An operator's attempt to delete a queue that holds ids is refused; its layout has the next generation then. */
static void change_generation(void)
{
    fixture operator= another(1, "list");
    assert_int_equal(seriatim_action_begin(operator.client, operator.queue, SERIATIM_DELETE_QUEUE, NULL, 0),
                     SERIATIM_OK);
    assert_int_equal(drive(operator.link), SERIATIM_INVALID);
    seriatim_link_free(operator.link);
}

static long long processed(void)
{
    fixture other = another(1, "list");
    long long count = metrics(&other).processed;
    seriatim_link_free(other.link);
    return count;
}

static void test_r_pop_14_a_report_outlives_a_change_of_generation(void **state)
{
    fixture f = open_queue(1, "list");
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    change_generation();
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_int_equal(processed(), 1);
    close_queue(&f);
}

/* The first sending ended the delivery. The second one must not say that the delivery was not the caller's. */
static void test_r_pop_14_an_executed_report_is_not_stale_under_a_new_generation(void **state)
{
    static const int kinds[] = {SERIATIM_POPPED_ACK, SERIATIM_POPPED_FAIL, SERIATIM_POPPED_RELEASE};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        fixture f = open_queue(1, "list");
        popped p;
        push(&f, "a", "x", none);
        push(&f, "b", "x", none);
        assert_string_equal(pop(&f, 30, &p), "a");
        assert_int_equal(begin_report(&f, &p, kinds[i]), SERIATIM_OK);
        send_only(&f, 0, 1);
        change_generation();
        assert_int_equal(drive(f.link), SERIATIM_OK);
        assert_int_equal(metrics(&f).refused, 0);
        assert_int_equal(metrics(&f).processed, kinds[i] == SERIATIM_POPPED_ACK);
        assert_int_equal(say_plain(&f, &p, kinds[i]), SERIATIM_STALE);
        close_queue(&f);
    }
}

static void test_r_pop_14_a_pop_takes_one_id_though_the_generation_changes(void **state)
{
    fixture f = open_queue(1, "list");
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a"); /* connects */
    assert_int_equal(say_plain(&f, &p, SERIATIM_POPPED_RELEASE), SERIATIM_OK);
    assert_int_equal(begin_pop(&f), SERIATIM_OK);
    send_only(&f, 1, 1);
    change_generation();
    assert_string_equal(end_pop(&f, &p), "a");
    assert_int_equal(p.deliveries, 2);
    assert_int_equal(count_of("HLEN", "running"), 1);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, &p), "b");
    close_queue(&f);
}

/*
 * A pop of a connected client was executed: it took an id with more payloads than an answer has, and another waits. The
 * client has not read the answer; is_cut: it never will.
 */
static fixture open_sliced(int is_cut)
{
    fixture f = open_queue(1, "list");
    popped p;
    push(&f, "b", "x", none);
    assert_string_equal(pop(&f, 30, &p), "b");
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    push_many(&f, "a", 0, 900);
    push(&f, "c", "x", none);
    assert_int_equal(begin_pop(&f), SERIATIM_OK);
    send_only(&f, 1, is_cut);
    return f;
}

/* The client reads the rest of the delivery in slices, and the first slice is refused. */
static void test_r_pop_14_a_slice_of_an_old_generation_leads_to_the_same_delivery(void **state)
{
    fixture f = open_sliced(0);
    popped p;
    (void)state;
    change_generation();
    assert_string_equal(end_pop(&f, &p), "a");
    assert_int_equal(p.count, 900);
    assert_int_equal(count_of("HLEN", "running"), 1);
    close_queue(&f);
}

/* The new generation is that of a move, in which the client would begin with another shard. */
static void test_r_pop_14_a_pop_is_repeated_at_its_shard_though_ids_move(void **state)
{
    int i;
    (void)state;
    for (i = 0; i < 6; i++) {           /* with as many identities, by which the first shard is chosen */
        fixture f = open_sliced(i % 2); /* its first slice is refused, or the answer is lost */
        popped p;
        move m;
        move_begin(&m, 4);
        assert_string_equal(end_pop(&f, &p), "a");
        assert_int_equal(p.count, 900);
        assert_int_equal(p.deliveries, 1);
        assert_int_equal(count_of("HLEN", "running"), 1);
        close_queue(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_pop_14_a_report_outlives_a_change_of_generation),
        cmocka_unit_test(test_r_pop_14_an_executed_report_is_not_stale_under_a_new_generation),
        cmocka_unit_test(test_r_pop_14_a_pop_takes_one_id_though_the_generation_changes),
        cmocka_unit_test(test_r_pop_14_a_slice_of_an_old_generation_leads_to_the_same_delivery),
        cmocka_unit_test(test_r_pop_14_a_pop_is_repeated_at_its_shard_though_ids_move),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

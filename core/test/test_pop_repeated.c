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
 * Sends what was begun, and waits until Redis has executed it: then the hash has as many fields. Redis is stopped
 * meanwhile, so the client cannot have read the answer.
 */
static void send_until(const fixture *f, const char *hash, long long fields, int is_cut)
{
    char command[64];
    int tries;
    snprintf(command, sizeof command, "HLEN %s", hash);
    assert_int_equal(kill(server.pid, SIGSTOP), 0);
    assert_int_equal(seriatim_link_step(f->link), SERIATIM_AGAIN);
    if (is_cut)
        cut(f);
    assert_int_equal(kill(server.pid, SIGCONT), 0);
    for (tries = 0; number(command) != fields; tries++) {
        assert_true(tries < 3000);
        pause_ms(10);
    }
}

/* Then as many ids of shard 0 run. */
static void send_only(const fixture *f, long long running, int is_cut)
{
    send_until(f, PREFIX "running", running, is_cut);
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

/* Moves all ids to this number of shards, from the first step to the end. */
static void reshard(unsigned shards)
{
    move m;
    move_begin(&m, shards);
    move_all(&m);
}

/* The id would lie in another shard now, which has never had the run. */
static void test_r_pop_14_an_executed_report_is_not_stale_when_ids_have_moved(void **state)
{
    static const int kinds[] = {SERIATIM_POPPED_ACK, SERIATIM_POPPED_FAIL, SERIATIM_POPPED_RELEASE};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        fixture f = open_queue(1, "list");
        char id[32];
        popped p;
        push(&f, departing_id(id, "a", 0), "x", none);
        assert_string_equal(pop(&f, 30, &p), id);
        assert_int_equal(begin_report(&f, &p, kinds[i]), SERIATIM_OK);
        send_only(&f, 0, 1);
        reshard(2);
        assert_int_equal(drive(f.link), SERIATIM_OK);
        assert_int_equal(metrics(&f).refused, 0);
        assert_int_equal(metrics(&f).processed, kinds[i] == SERIATIM_POPPED_ACK);
        assert_int_equal(say_plain(&f, &p, kinds[i]), SERIATIM_STALE);
        assert_int_equal(metrics(&f).refused, 1);
        close_queue(&f);
    }
}

/* Redis has not executed it, and its run has moved on: nobody has a run of the id. */
static void test_r_pop_14_a_report_of_a_run_that_is_over_is_stale_when_ids_have_moved(void **state)
{
    fixture f = open_queue(1, "list"), other = another(1, "list");
    char id[32];
    popped p, again;
    (void)state;
    push(&f, departing_id(id, "a", 0), "x", none);
    assert_string_equal(pop(&f, SHORT, &p), id);
    expire(&p);
    assert_string_equal(pop(&other, 30, &again), id);
    assert_int_equal(ack(&other, &again), SERIATIM_OK);
    assert_int_equal(begin_report(&f, &p, SERIATIM_POPPED_ACK), SERIATIM_OK);
    send_until(&f, PREFIX "running", 0, 1);
    reshard(2);
    assert_int_equal(drive(f.link), SERIATIM_STALE);
    seriatim_link_free(other.link);
    close_queue(&f);
}

/* With ttr 0 only the answer holds the payloads. After the reshard the queue no longer has the shard. */
static void test_r_pop_14_a_pop_is_repeated_at_a_shard_that_the_queue_has_lost(void **state)
{
    fixture f = open_queue(2, "list");
    seriatim_pop settings = plainly(&f, 0);
    char id[32];
    popped p;
    (void)state;
    push(&f, departing_id(id, "a", 0), "x", none);
    assert_string_equal(pop(&f, 0, &p), id);
    push(&f, "d", "x", none);                 /* of shard 0 */
    assert_string_equal(pop(&f, 0, &p), "d"); /* the next pop begins at shard 1 */
    push(&f, id, "y", none);
    assert_int_equal(seriatim_pop_begin(f.client, &settings), SERIATIM_OK);
    send_until(&f, "seriatim:{Q/1}:jobs", 0, 1);
    reshard(1);
    assert_string_equal(end_pop(&f, &p), id);
    assert_string_equal(p.payloads, "y");
    assert_string_equal(pop(&f, 0, NULL), "-");
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_pop_14_a_report_outlives_a_change_of_generation),
        cmocka_unit_test(test_r_pop_14_an_executed_report_is_not_stale_under_a_new_generation),
        cmocka_unit_test(test_r_pop_14_a_pop_takes_one_id_though_the_generation_changes),
        cmocka_unit_test(test_r_pop_14_a_slice_of_an_old_generation_leads_to_the_same_delivery),
        cmocka_unit_test(test_r_pop_14_a_pop_is_repeated_at_its_shard_though_ids_move),
        cmocka_unit_test(test_r_pop_14_an_executed_report_is_not_stale_when_ids_have_moved),
        cmocka_unit_test(test_r_pop_14_a_report_of_a_run_that_is_over_is_stale_when_ids_have_moved),
        cmocka_unit_test(test_r_pop_14_a_pop_is_repeated_at_a_shard_that_the_queue_has_lost),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_pop_shards.c - which id a pop gives: order of queues and shards, beside owners of shards and operators. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "operators.h"
#include "pop_fixture.h"

/* ---- Who takes what --------------------------------------------------------------------------- */

static void test_r_pop_7_the_queues_go_in_the_order_named(void **state)
{
    fixture f = open_queue(2, "merge");
    size_t queues[3];
    char got[64] = "";
    seriatim_pop all = plainly(&f, 30);
    int i;
    popped p;
    (void)state;
    queues[0] = f.queue;
    queues[1] = add_queue(f.client, "R", 1, 2, "merge");
    queues[2] = add_queue(f.client, "never made", 10, 0, "merge");
    all.queues = queues;
    all.queue_count = 3;
    f.queue = queues[1];
    push(&f, "r1", "x", none);
    push(&f, "r2", "x", none);
    f.queue = queues[0];
    push(&f, "q1", "x", none);
    push(&f, "q2", "x", none);
    for (i = 0; i < 4; i++) {
        strcat(got, pop_as(&f, &all, &p));
        got[i + 1] = '\0';
        assert_int_equal(p.queue, queues[i / 2]);
    }
    assert_string_equal(got, "qqrr");
    assert_string_equal(pop_as(&f, &all, NULL), "-");
    close_queue(&f);
}

static void push_to(fixture *f, size_t queue, const char *prefix, int count)
{
    char id[16];
    size_t before = f->queue;
    int i;
    f->queue = queue;
    for (i = 0; i < count; i++) {
        snprintf(id, sizeof id, "%s%d", prefix, i);
        push(f, id, "x", none);
    }
    f->queue = before;
}

/* Clients that each pop once, as a command does, take ids of more shards than the first. */
static void test_r_pop_7_new_clients_begin_at_different_shards(void **state)
{
    fixture f = open_queue(2, "merge");
    unsigned from[2] = {0, 0};
    int i;
    (void)state;
    push_to(&f, f.queue, "a", 200);
    for (i = 0; i < 40 && (!from[0] || !from[1]); i++) {
        fixture once = another(0, "merge");
        popped p;
        assert_string_not_equal(pop(&once, 0, &p), "-");
        from[seriatim_shard_of(p.id, strlen(p.id), 2)]++;
        seriatim_link_free(once.link);
    }
    assert_true(from[0] && from[1]);
    close_queue(&f);
}

/* Each round ends with an error, which says what is wrong there. */
static void test_r_pop_21_a_shard_that_fails_pops_leaves_the_others_to_later_ones(void **state)
{
    fixture f = open_queue(5, "merge");
    int i, taken = 0, failed = 0, others = 0;
    char id[16];
    (void)state;
    push_to(&f, f.queue, "a", 40);
    for (i = 0; i < 40; i++) {
        snprintf(id, sizeof id, "a%d", i);
        others += seriatim_shard_of(id, strlen(id), 5) != 2;
    }
    number("RENAME seriatim:{Q/2}:due kept");
    number("SET seriatim:{Q/2}:due x");
    for (i = 0; i < 200 && taken < others; i++) {
        seriatim_pop one = plainly(&f, 0);
        int status = seriatim_pop_begin(f.client, &one);
        status = status == SERIATIM_OK ? drive(f.link) : status;
        failed += status != SERIATIM_OK;
        taken += status == SERIATIM_OK;
    }
    assert_int_equal(taken, others);
    assert_true(failed > 0 && failed < 40);
    number("DEL seriatim:{Q/2}:due");
    number("RENAME kept seriatim:{Q/2}:due");
    close_queue(&f);
}

static void test_r_pop_8_queues_with_weights_take_turns(void **state)
{
    static const int64_t weights[] = {5, 1, 1};
    fixture f = open_queue(1, "merge");
    size_t queues[3];
    char got[64] = "";
    seriatim_pop all = plainly(&f, 0);
    int i;
    (void)state;
    queues[0] = f.queue;
    queues[1] = add_queue(f.client, "B", 1, 1, "merge");
    queues[2] = add_queue(f.client, "C", 1, 1, "merge");
    all.queues = queues;
    all.queue_count = 3;
    all.weights = weights;
    push_to(&f, queues[0], "a", 5);
    push_to(&f, queues[1], "b", 3);
    push_to(&f, queues[2], "c", 3);
    for (i = 0; i < 11; i++)
        strncat(got, pop_as(&f, &all, NULL), 1);
    assert_string_equal(got, "aabacaabcbc"); /* smooth: 5, 1, 1; then the empty one passes its turn */
    close_queue(&f);
}

static void test_r_pop_8_clients_that_share_turns_take_them_together(void **state)
{
    static const int64_t weights[] = {2, 1};
    seriatim_turns *turns = seriatim_turns_new(NULL);
    fixture both[2] = {open_queue(1, "merge")};
    size_t queues[2][2];
    char got[64] = "";
    int i;
    (void)state;
    both[1] = another(1, "merge");
    for (i = 0; i < 2; i++) {
        queues[i][0] = both[i].queue;
        queues[i][1] = add_queue(both[i].client, "B", 1, 1, "merge");
        seriatim_client_share_turns(both[i].client, turns);
    }
    push_to(&both[0], queues[0][0], "a", 6);
    push_to(&both[0], queues[0][1], "b", 6);
    for (i = 0; i < 6; i++) {
        seriatim_pop all = plainly(&both[i % 2], 0);
        all.queues = queues[i % 2];
        all.queue_count = 2;
        all.weights = weights;
        strncat(got, pop_as(&both[i % 2], &all, NULL), 1);
    }
    assert_string_equal(got, "abaaba"); /* each by itself: "aabbaa" */
    seriatim_link_free(both[1].link);
    close_queue(&both[0]);
    seriatim_turns_free(turns);
}

static void test_r_pop_7_the_oldest_due_id_of_a_shard_comes_first(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push_later(&f, "later", "x", 0.5);
    push(&f, "now", "x", none);
    push_failed(&f, "retry", "x", 3, 0.001);
    push_later(&f, "never", "x", 3600);
    pause_ms(510);
    push(&f, "last", "x", none);
    assert_string_equal(pop(&f, 30, NULL), "now");
    assert_string_equal(pop(&f, 30, NULL), "retry");
    assert_string_equal(pop(&f, 30, NULL), "later");
    assert_string_equal(pop(&f, 30, NULL), "last");
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_1_stale_entries_are_passed_over(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    int i;
    (void)state;
    for (i = 0; i < 40; i++) {
        push(&f, "a", "x", none);
        act_on(&f, SERIATIM_DELETE, "a");
    }
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(pop(&f, 30, NULL), "b");
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_9_a_paused_queue_gives_nothing(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    act(&f, SERIATIM_PAUSE);
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    act(&f, SERIATIM_RESUME);
    assert_string_equal(pop(&f, 30, NULL), "b");
    close_queue(&f);
}

static void test_r_pop_17_operators_act_on_a_popped_id_as_on_any_run(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_non_null(strstr(explain(&f, "a")->text, "popped"));
    assert_int_equal(act_on(&f, SERIATIM_DELETE, "a"), 1);
    push(&f, "a", "y", none);
    assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_FAIL, 0, "boom"), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(p.payloads, "y");
    assert_int_equal(act_on(&f, SERIATIM_PARK, "a"), 1);
    assert_int_equal(say_plain(&f, &p, SERIATIM_POPPED_RELEASE), SERIATIM_OK);
    assert_string_equal(pop(&f, 30, NULL), "-");
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "a")->state, "parked");
    assert_sound(&f);
    close_queue(&f);
}

static void test_scheduled_payloads_arrive_by_a_pop(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    (void)state;
    schedule_one(&f, "a", "x", A_WHILE);
    assert_string_equal(pop(&f, 30, NULL), "-");
    pass_a_while();
    assert_string_equal(pop(&f, 30, &p), "a");
    close_queue(&f);
}

/* A scheduled payload arrives by the same call, which has written then. */
static void test_f10_an_id_that_cannot_be_popped_stays_in_its_index(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_pop what = plainly(&f, 30);
    popped p;
    (void)state;
    push(&f, "a", large('x'), none);
    schedule_one(&f, "b", "y", A_WHILE);
    REDIS("RENAME " PREFIX "spill:a kept");
    REDIS("SET " PREFIX "spill:a wrong");
    pass_a_while();
    assert_int_equal(seriatim_pop_begin(f.client, &what), SERIATIM_OK);
    assert_int_equal(drive(f.link), SERIATIM_SERVER);
    assert_int_equal(number("HEXISTS " PREFIX "jobs b"), 1);
    REDIS("RENAME kept " PREFIX "spill:a");
    assert_sound(&f);
    assert_string_equal(pop(&f, 30, &p), "a");
    close_queue(&f);
}

/* ---- Beside a server -------------------------------------------------------------------------- */

static void test_r_pop_10_a_server_and_a_popper_share_a_shard(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    push(&f, "c", "x", none);
    acquire(&f, "n1");
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(claim(&f, "1", run), 1);
    assert_string_equal(explain(&f, "b")->job.state, "running");
    assert_string_equal(pop(&f, 30, NULL), "c");
    assert_string_equal(pop(&f, 30, NULL), "-");
    settle_done(&f, "b", run);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_int_equal(metrics(&f).processed, 2);
    assert_int_equal(metrics(&f).refused, 0);
    assert_sound(&f);
    close_queue(&f);
}

/* The lease of the owner, its death, and its release leave a popper alone. */
static void test_r_pop_10_a_change_of_owner_leaves_a_popped_id_alone(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    redisReply *reply;
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    acquire(&f, "n1");
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(claim(&f, "5", NULL), 1);
    take_over(&f, "n2");
    assert_string_equal(explain(&f, "a")->job.state, "running");
    assert_string_equal(explain(&f, "b")->job.state, "unproven");
    freeReplyObject(acquire_seen("n2", "0")); /* it keeps the shard: KEPT */
    assert_sound(&f);
    assert_string_equal(pop(&f, 30, NULL), "b"); /* in doubt: popped as others are */
    reply = acquire_seen("n2", "0");
    strcpy(f.lease, reply->element[1]->str);
    freeReplyObject(reply);
    reply = SCRIPT(release, f.lease, "");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_int_equal(metrics(&f).busy, 1);
    assert_sound(&f);
    close_queue(&f);
}

/* Payloads that are many on both sides are united in several calls. */
static void test_r_pop_10_an_id_unites_though_the_owner_of_its_shard_is_dead(void **state)
{
    fixture f = open_queue(1, "list");
    popped p;
    (void)state;
    push_many(&f, "a", 0, 400);
    assert_string_equal(pop(&f, 30, &p), "a");
    push_many(&f, "a", 400, 400);
    assert_true(number("APPEND " PREFIX "state dead") > 4);
    assert_int_equal(say_plain(&f, &p, SERIATIM_POPPED_RELEASE), SERIATIM_OK);
    assert_int_equal(number("ZCARD " PREFIX "uniting"), 1);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(number("ZCARD " PREFIX "spill:a"), 800);
    assert_sound(&f);
    close_queue(&f);
}

/* A node takes its shard once more. Is it told to call recover.lua? */
static int keeps_unfinished(fixture *f, const char *node)
{
    redisReply *reply = acquire_seen(node, "0");
    int unfinished = (int)reply->element[4]->integer;
    assert_string_equal(reply->element[0]->str, "KEPT");
    strcpy(f->lease, reply->element[1]->str);
    freeReplyObject(reply);
    return unfinished;
}

/* One flag says both: that ids are uniting, and that the runs of the owner before are still to be looked at. */
static void test_r_pop_10_a_pop_that_unites_ids_leaves_the_runs_of_a_dead_owner(void **state)
{
    fixture f = open_queue(1, "list");
    redisReply *reply;
    char run[64];
    popped p;
    (void)state;
    push(&f, "b", "x", none);
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    push_many(&f, "a", 0, 400);
    assert_string_equal(pop(&f, 30, &p), "a");
    push_many(&f, "a", 400, 400);
    reply = SCRIPT(acquire, "n2", "merge", "n1", f.lease);
    strcpy(f.lease, reply->element[1]->str);
    freeReplyObject(reply);
    assert_int_equal(say_plain(&f, &p, SERIATIM_POPPED_RELEASE), SERIATIM_OK);
    assert_int_equal(number("ZCARD " PREFIX "uniting"), 1);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_int_equal(number("ZCARD " PREFIX "uniting"), 0);
    assert_true(keeps_unfinished(&f, "n2"));
    recover_all(&f);
    assert_false(keeps_unfinished(&f, "n2"));
    assert_string_equal(fetch(&f, SERIATIM_FETCH, "b")->state, "unproven");
    assert_sound(&f);
    close_queue(&f);
}

static void test_r_pop_11_a_claim_ends_what_a_popper_did_not_acknowledge(void **state)
{
    fixture f = open_queue(1, "merge");
    char run[64];
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    acquire(&f, "n1");
    assert_string_equal(pop(&f, A_WHILE, &p), "a");
    assert_int_equal(claim(&f, "5", NULL), 0);
    pass_a_while();
    assert_int_equal(claim(&f, "5", run), 1);
    assert_int_equal(ack(&f, &p), SERIATIM_STALE);
    settle_done(&f, "a", run);
    assert_int_equal(metrics(&f).processed, 1);
    assert_int_equal(metrics(&f).failed, 1);
    assert_sound(&f);
    close_queue(&f);
}

static void test_check_repairs_a_popped_id_without_an_end(void **state)
{
    fixture f = open_queue(1, "merge");
    (void)state;
    push(&f, "a", "x", none);
    assert_string_equal(pop(&f, 30, NULL), "a");
    REDIS("DEL " PREFIX "overrun");
    assert_string_equal(kinds_found(&f, f.queue, 1), "index state");
    assert_string_equal(kinds_found(&f, f.queue, 0), "");
    assert_string_equal(pop(&f, 30, NULL), "a");
    close_queue(&f);
}

static fixture open_serial(void)
{
    fixture f = open_queue(1, "merge");
    seriatim_queue_settings settings;
    seriatim_queue_settings_init(&settings);
    settings.name = "Q";
    settings.name_len = 1;
    settings.shards_count = 1;
    settings.serial_shards = 1;
    done(&f, seriatim_client_queue(f.client, &settings, &f.queue));
    return f;
}

static void test_r_pop_12_a_serial_shard_runs_one_id_at_a_time(void **state)
{
    fixture f = open_serial();
    popped p;
    char run[64];
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    assert_string_equal(pop(&f, 30, NULL), "-");
    acquire(&f, "n1");
    assert_int_equal(claim(&f, "5", NULL), 0);
    assert_int_equal(ack(&f, &p), SERIATIM_OK);
    assert_int_equal(claim(&f, "1", run), 1);
    assert_string_equal(pop(&f, 30, NULL), "-");
    settle_done(&f, "b", run);
    close_queue(&f);
}

/* A repair removes the run; the state of the shard still says that a popper runs an id alone. */
static void test_r_pop_12_a_popped_run_that_is_gone_holds_up_no_serial_shard(void **state)
{
    fixture f = open_serial();
    char run[64];
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    push(&f, "c", "x", none);
    acquire(&f, "n1");
    assert_string_equal(pop(&f, 30, NULL), "a");
    REDIS("HDEL " PREFIX "jobs a");
    assert_string_equal(kinds_found(&f, f.queue, 1), "run");
    assert_int_equal(claim(&f, "1", run), 1);
    settle_done(&f, "b", run);
    assert_string_equal(pop(&f, 30, NULL), "c");
    assert_int_equal(claim(&f, "1", run), 0);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_pop_7_the_queues_go_in_the_order_named),
        cmocka_unit_test(test_r_pop_7_new_clients_begin_at_different_shards),
        cmocka_unit_test(test_r_pop_21_a_shard_that_fails_pops_leaves_the_others_to_later_ones),
        cmocka_unit_test(test_r_pop_8_queues_with_weights_take_turns),
        cmocka_unit_test(test_r_pop_8_clients_that_share_turns_take_them_together),
        cmocka_unit_test(test_r_pop_7_the_oldest_due_id_of_a_shard_comes_first),
        cmocka_unit_test(test_r_pop_1_stale_entries_are_passed_over),
        cmocka_unit_test(test_r_pop_9_a_paused_queue_gives_nothing),
        cmocka_unit_test(test_r_pop_17_operators_act_on_a_popped_id_as_on_any_run),
        cmocka_unit_test(test_scheduled_payloads_arrive_by_a_pop),
        cmocka_unit_test(test_f10_an_id_that_cannot_be_popped_stays_in_its_index),
        cmocka_unit_test(test_r_pop_10_a_server_and_a_popper_share_a_shard),
        cmocka_unit_test(test_r_pop_10_a_change_of_owner_leaves_a_popped_id_alone),
        cmocka_unit_test(test_r_pop_10_an_id_unites_though_the_owner_of_its_shard_is_dead),
        cmocka_unit_test(test_r_pop_10_a_pop_that_unites_ids_leaves_the_runs_of_a_dead_owner),
        cmocka_unit_test(test_r_pop_11_a_claim_ends_what_a_popper_did_not_acknowledge),
        cmocka_unit_test(test_check_repairs_a_popped_id_without_an_end),
        cmocka_unit_test(test_r_pop_12_a_serial_shard_runs_one_id_at_a_time),
        cmocka_unit_test(test_r_pop_12_a_popped_run_that_is_gone_holds_up_no_serial_shard),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_pop_wait.c - poppers that wait: woken, cut off, refused, and calls that are sent twice. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "base/system.h"
#include "operators.h"
#include "pop_fixture.h"

/* ---- Waiting ---------------------------------------------------------------------------------- */

typedef struct waiter {
    pthread_t thread;
    double wait, waited;
    char id[64];
    int status;
} waiter;

static void *wait_for_one(void *argument)
{
    waiter *w = argument;
    fixture f = another(0, "merge");
    seriatim_pop settings = plainly(&f, 30);
    const seriatim_popped *p;
    int64_t began = srt_clock_ms();
    settings.wait = w->wait;
    w->status = seriatim_pop_begin(f.client, &settings);
    if (w->status == SERIATIM_OK)
        w->status = drive(f.link);
    p = seriatim_pop_result(f.client);
    snprintf(w->id, sizeof w->id, "%.*s", p ? (int)p->job.id_len : 1, p ? p->job.id : "-");
    w->waited = (double)(srt_clock_ms() - began) / 1000;
    seriatim_link_free(f.link);
    return NULL;
}

static void begin_waiting(waiter *w, double wait)
{
    memset(w, 0, sizeof *w);
    w->wait = wait;
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_one, w), 0);
}

/* Waits until `count` connections or more listen to the channel of shard 0. */
static void await_listeners(int count)
{
    redisReply *reply;
    long long there = -1;
    int tries;
    for (tries = 0; tries < 6000 && there < count; tries++) {
        pause_ms(10);
        reply = redis("PUBSUB NUMSUB " PREFIX "wake");
        there = reply->element[1]->integer;
        freeReplyObject(reply);
    }
    assert_true(there >= count);
}

/* A host steps a link without a socket where it may block, so only such a step may connect: it may ask the resolver. */
static void test_r_pop_13_a_step_with_a_socket_makes_no_second_connection(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_pop settings = plainly(&f, 30);
    int status;
    (void)state;
    settings.wait = 0.2;
    assert_int_equal(seriatim_pop_begin(f.client, &settings), SERIATIM_OK);
    do {
        status = seriatim_link_step(f.link);
    } while (status == SERIATIM_AGAIN && srt_client_sleeps(f.client) < 0 && seriatim_link_wait(f.link) == SERIATIM_OK);
    assert_int_equal(status, SERIATIM_AGAIN);
    assert_int_equal(seriatim_link_fd(f.link), -1);
    assert_int_equal(seriatim_link_timeout_ms(f.link), 0);
    assert_int_equal(drive(f.link), SERIATIM_OK);
    seriatim_link_free(f.link);
}

static void test_r_pop_13_a_waiting_popper_is_woken(void **state)
{
    fixture f = open_queue(3, "merge");
    waiter w;
    (void)state;
    push_later(&f, "first", "x", 3600);
    begin_waiting(&w, 30);
    await_listeners(1);
    pause_ms(150);
    push(&f, "a", "x", none);
    pthread_join(w.thread, NULL);
    assert_int_equal(w.status, SERIATIM_OK);
    assert_string_equal(w.id, "a");
    assert_true(w.waited < 9); /* by the message, not because it looked again */
    close_queue(&f);
}

/* It listens to the shards that the queue had when it began to wait, and the id comes to another one. */
static void test_r_pop_13_a_waiting_popper_hears_of_new_shards(void **state)
{
    fixture f = open_queue(3, "merge");
    char id[16] = "";
    waiter w;
    int i;
    (void)state;
    push_later(&f, "first", "x", 3600);
    begin_waiting(&w, 30);
    await_listeners(1);
    pause_ms(150);
    assert_int_equal(act_on(&f, SERIATIM_RESHARD, "5"), 1);
    for (i = 0; i == 0 || seriatim_shard_of(id, strlen(id), 5) != 4; i++)
        snprintf(id, sizeof id, "id%d", i);
    push(&f, id, "x", none);
    pthread_join(w.thread, NULL);
    assert_int_equal(w.status, SERIATIM_OK);
    assert_string_equal(w.id, id);
    assert_true(w.waited < 9);
    close_queue(&f);
}

static void test_r_pop_13_a_wait_ends_in_time(void **state)
{
    fixture f = open_queue(2, "merge");
    waiter w;
    (void)state;
    push_later(&f, "first", "x", 3600);
    begin_waiting(&w, 0.3);
    pthread_join(w.thread, NULL);
    assert_int_equal(w.status, SERIATIM_OK);
    assert_string_equal(w.id, "-");
    assert_true(w.waited >= 0.3 && w.waited < 5);
    close_queue(&f);
}

/* The second connection is cut, and made again. */
static void test_a_waiting_popper_survives_a_cut(void **state)
{
    fixture f = open_queue(1, "merge");
    waiter w;
    (void)state;
    push_later(&f, "first", "x", 3600);
    begin_waiting(&w, 30);
    await_listeners(1);
    REDIS("CLIENT KILL TYPE pubsub");
    await_listeners(1);
    REDIS("CLIENT KILL TYPE normal SKIPME yes");
    push(&f, "a", "x", none);
    pthread_join(w.thread, NULL);
    assert_int_equal(w.status, SERIATIM_OK);
    assert_string_equal(w.id, "a");
    assert_true(w.waited < 9);
    close_queue(&f);
}

/* Pops for a short time until the client listens to all channels that it wants. */
static void pop_until_subscribed(const fixture *f, size_t queue)
{
    seriatim_pop settings = plainly(f, 30);
    int tries;
    settings.queues = &queue;
    settings.wait = 0.3;
    for (tries = 0; tries < 100 && !f->client->listener.subscribed; tries++)
        assert_string_equal(pop_as(f, &settings, NULL), "-");
    assert_true(f->client->listener.subscribed);
}

/* The client adds a channel to a connection that is lost, which it does not know yet. */
static void test_r_pop_13_a_pop_of_a_further_queue_survives_a_cut(void **state)
{
    fixture f = open_queue(1, "merge"), other = another(1, "merge");
    size_t further = add_queue(f.client, "B", 1, 1, "merge");
    seriatim_pop settings = plainly(&f, 30);
    int64_t began;
    (void)state;
    other.queue = add_queue(other.client, "B", 1, 1, "merge");
    push_later(&f, "first", "x", 3600);
    push_later(&other, "first", "x", 3600);
    pop_until_subscribed(&f, f.queue);
    REDIS("CLIENT KILL TYPE pubsub");
    settings.queues = &further;
    settings.wait = 30;
    assert_int_equal(seriatim_pop_begin(f.client, &settings), SERIATIM_OK);
    while (srt_client_sleeps(f.client) < 0) {
        assert_int_equal(seriatim_link_step(f.link), SERIATIM_AGAIN);
        if (srt_client_sleeps(f.client) < 0)
            assert_int_equal(seriatim_link_wait(f.link), SERIATIM_OK);
    }
    push(&other, "a", "x", none);
    began = srt_clock_ms();
    assert_int_equal(drive(f.link), SERIATIM_OK);
    assert_non_null(seriatim_pop_result(f.client));
    assert_true(srt_clock_ms() - began < 9000); /* not because it looked again after 10 seconds */
    seriatim_link_free(other.link);
    close_queue(&f);
}

static long long connections(const char *which)
{
    redisReply *reply = redis("INFO stats");
    const char *at = strstr(reply->str, which);
    long long count;
    assert_non_null(at);
    count = strtoll(at + strlen(which), NULL, 10);
    freeReplyObject(reply);
    return count;
}

/* Too many clients is a condition that passes. */
static void test_r_pop_13_a_popper_subscribes_when_redis_has_room_again(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_pop settings = plainly(&f, 30);
    long long before = connections("rejected_connections:");
    int tries;
    (void)state;
    push_later(&f, "first", "x", 3600);
    settings.wait = 0.3;
    REDIS("CONFIG SET maxclients 1");
    for (tries = 0; tries < 100 && connections("rejected_connections:") < before + 3; tries++)
        assert_string_equal(pop_as(&f, &settings, NULL), "-");
    REDIS("CONFIG SET maxclients 10000");
    assert_true(connections("rejected_connections:") >= before + 3);
    pop_until_subscribed(&f, f.queue);
    close_queue(&f);
}

static void test_r_pop_13_a_refused_popper_subscribes_a_minute_later(void **state)
{
    fixture f = open_queue(1, "merge");
    seriatim_pop settings = plainly(&f, 30);
    long long made;
    int tries;
    (void)state;
    push_later(&f, "first", "x", 3600);
    settings.wait = 0.3;
    REDIS("ACL SETUSER default -subscribe");
    for (tries = 0; tries < 100 && !f.client->listener.refused; tries++)
        assert_string_equal(pop_as(&f, &settings, NULL), "-");
    REDIS("ACL SETUSER default +subscribe");
    assert_true(f.client->listener.refused);
    made = connections("total_connections_received:");
    assert_string_equal(pop_as(&f, &settings, NULL), "-");
    assert_int_equal(connections("total_connections_received:"), made);
    f.client->listener.refused_at -= 61;
    pop_until_subscribed(&f, f.queue);
    close_queue(&f);
}

/* All of them listen to one message; each of the ids is taken once. */
static void test_r_pop_13_ten_poppers_take_ten_ids(void **state)
{
    fixture f = open_queue(1, "merge");
    waiter all[10];
    char id[16];
    int i, sum = 0;
    (void)state;
    push_later(&f, "first", "x", 3600);
    for (i = 0; i < 10; i++)
        begin_waiting(&all[i], 30);
    await_listeners(10);
    for (i = 0; i < 10; i++) {
        snprintf(id, sizeof id, "%d", 1 << i);
        push(&f, id, "x", none);
    }
    for (i = 0; i < 10; i++) {
        pthread_join(all[i].thread, NULL);
        sum += atoi(all[i].id);
        assert_true(all[i].waited < 20);
    }
    assert_int_equal(sum, 1023);
    assert_sound(&f);
    close_queue(&f);
}

typedef struct emptier {
    pthread_t thread;
    int64_t taken, left; /* ids that wait in the queue after a pop that took nothing */
    int status;
} emptier;

/* Pops without waiting until nothing is due. */
static void *empty_queue(void *argument)
{
    emptier *e = argument;
    fixture f = another(0, "merge");
    seriatim_pop settings = plainly(&f, 0);
    for (e->taken = 0;; e->taken++) {
        e->status = seriatim_pop_begin(f.client, &settings);
        if (e->status == SERIATIM_OK)
            e->status = drive(f.link);
        if (e->status != SERIATIM_OK || !seriatim_pop_result(f.client))
            break;
    }
    if (e->status == SERIATIM_OK)
        e->left = metrics(&f).length;
    seriatim_link_free(f.link);
    return NULL;
}

static void test_r_pop_13_no_popper_takes_nothing_while_an_id_is_due(void **state)
{
    fixture f = open_queue(5, "merge");
    emptier all[10];
    int64_t taken = 0;
    char id[16];
    int i;
    (void)state;
    done(&f, seriatim_push_begin(f.client, f.queue));
    for (i = 0; i < 300; i++) {
        snprintf(id, sizeof id, "%d", i);
        add(&f, id, strlen(id), "x", none);
    }
    done(&f, seriatim_push_send(f.client));
    memset(all, 0, sizeof all);
    for (i = 0; i < 10; i++)
        assert_int_equal(pthread_create(&all[i].thread, NULL, empty_queue, &all[i]), 0);
    for (i = 0; i < 10; i++) {
        pthread_join(all[i].thread, NULL);
        assert_int_equal(all[i].status, SERIATIM_OK);
        assert_int_equal(all[i].left, 0);
        taken += all[i].taken;
    }
    assert_int_equal(taken, 300);
    close_queue(&f);
}

static void test_r_pop_11_a_waiting_popper_takes_what_another_lost(void **state)
{
    fixture f = open_queue(1, "merge");
    waiter w;
    (void)state;
    push(&f, "a", "x", none);
    assert_string_equal(pop(&f, 0.5, NULL), "a");
    begin_waiting(&w, 30);
    pthread_join(w.thread, NULL);
    assert_string_equal(w.id, "a");
    assert_true(w.waited < 9);
    close_queue(&f);
}

/* ---- Settings that change -------------------------------------------------------------------- */

static void age_settings(const fixture *f)
{
    f->client->registry.queues[f->queue]->read_at -= 61;
}

static void test_r_settings_2_a_popper_sees_changed_settings(void **state)
{
    fixture f = open_queue(1, "merge");
    popped p;
    (void)state;
    push(&f, "a", "x", none);
    push(&f, "b", "x", none);
    assert_string_equal(pop(&f, 30, &p), "a");
    REDIS("HSET seriatim:{Q}:settings serial_shards 1");
    age_settings(&f);
    assert_string_equal(pop(&f, 30, NULL), "-");
    REDIS("HSET seriatim:{Q}:settings max_retry_count 0");
    age_settings(&f);
    assert_int_equal(say_seconds(&f, &p, SERIATIM_POPPED_FAIL, 9, "boom"), SERIATIM_OK);
    assert_string_equal(payloads(&f, SERIATIM_MORGUE_FETCH, "a"), "x");
    assert_null(seriatim_client_warning(f.client)); /* a popper goes by Redis, whatever its own code says */
    assert_string_equal(pop(&f, 30, NULL), "b");
    assert_sound(&f);
    close_queue(&f);
}

/* ---- The same call again ---------------------------------------------------------------------- */

static redisReply *call_pop(const char *sequence, const char *ttr)
{
    return redis("EVAL %b 3 " PREFIX "state " PREFIX "- " PREFIX "push:c1 1 %s merge 0 %s 10 0 0 25 bury 0",
                 srt_script_text_pop, sizeof srt_script_text_pop - 1, sequence, ttr);
}

static void test_r_pop_14_a_pop_that_is_sent_twice_takes_one_id(void **state)
{
    static const char *const ttrs[] = {"30000000", "0"};
    size_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        fixture f = open_queue(1, "merge");
        redisReply *first, *second;
        push(&f, "a", "x", none);
        push(&f, "b", "x", none);
        first = call_pop("7", ttrs[i]);
        second = call_pop("7", ttrs[i]);
        assert_int_equal(second->elements, 7);
        assert_string_equal(second->element[3]->str, "a");
        assert_string_equal(second->element[2]->str, first->element[2]->str);
        freeReplyObject(second);
        second = call_pop("8", ttrs[i]);
        assert_string_equal(second->element[3]->str, "b");
        freeReplyObject(first);
        freeReplyObject(second);
        close_queue(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_pop_13_a_step_with_a_socket_makes_no_second_connection),
        cmocka_unit_test(test_r_pop_13_a_waiting_popper_is_woken),
        cmocka_unit_test(test_a_waiting_popper_survives_a_cut),
        cmocka_unit_test(test_r_pop_13_a_waiting_popper_hears_of_new_shards),
        cmocka_unit_test(test_r_pop_13_a_wait_ends_in_time),
        cmocka_unit_test(test_r_pop_13_ten_poppers_take_ten_ids),
        cmocka_unit_test(test_r_pop_13_no_popper_takes_nothing_while_an_id_is_due),
        cmocka_unit_test(test_r_pop_11_a_waiting_popper_takes_what_another_lost),
        cmocka_unit_test(test_r_pop_13_a_pop_of_a_further_queue_survives_a_cut),
        cmocka_unit_test(test_r_pop_13_a_popper_subscribes_when_redis_has_room_again),
        cmocka_unit_test(test_r_pop_13_a_refused_popper_subscribes_a_minute_later),
        cmocka_unit_test(test_r_settings_2_a_popper_sees_changed_settings),
        cmocka_unit_test(test_r_pop_14_a_pop_that_is_sent_twice_takes_one_id),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_cluster.c - where requests for the slots of a cluster go, and what its answers do to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cluster_fixture.h"

#include <stdlib.h>
#include <string.h>

/* ---- The table of answers ------------------------------------------------------------------ */

static void test_a_slot_is_that_of_the_key_s_tag(void **state)
{
    (void)state;
    assert_int_equal(srt_key_slot("123456789", 9), 12739); /* 0x31C3, the check value of CRC-16/XMODEM */
    assert_int_equal(srt_key_slot("x{a}y", 5), srt_key_slot("a", 1));
    assert_int_equal(srt_key_slot("a", 1), 15495);
    assert_int_equal(srt_key_slot("{}a", 3), srt_key_slot("{}a", 3));
    assert_int_not_equal(srt_key_slot("{}a", 3), srt_key_slot("{}b", 3));
}

static void test_moved_sends_the_request_to_the_slot_s_new_owner_at_once(void **state)
{
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    cluster_swallows("A", "-MOVED 3300 B:2\r\n");
    assert_string_equal(cluster_sends("B"), "GET {b} ");
    cluster_wait_ms(0); /* the map is asked for beside it, of the peer that MOVED names */
    assert_string_equal(cluster_sends("B"), "CLUSTER SLOTS ");
    cluster_answers("B", "+x\r\n", 1);
    cluster_asks(LOW, 2); /* the slot's owner is known before the map comes */
    assert_string_equal(cluster_sends("B"), "GET {b} ");
    assert_int_equal(cl.redirects, 1);
}

static void test_moved_to_an_unknown_peer_makes_it_known(void **state)
{
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    cluster_swallows("A", "-MOVED 3300 ::1:7000\r\n");
    assert_non_null(peer_at("::1"));
    assert_int_equal(peer_at("::1")->port, 7000);
    cluster_connect("::1");
    assert_string_equal(cluster_sends("::1"), "GET {b} ");
}

static void test_moved_without_a_host_means_the_host_that_answered(void **state)
{
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    cluster_swallows("A", "-MOVED 3300 :2\r\n");
    assert_int_equal(cl.peer_count, 3);
    assert_string_equal(cl.owners[3300]->host, "A");
    assert_int_equal(cl.owners[3300]->port, 2);
}

static void test_moved_keeps_the_order_of_a_slot_s_requests(void **state)
{
    (void)state;
    cluster_asks("{b}1", 1);
    cluster_asks("{b}2", 2);
    cluster_sends("A");
    cluster_swallows("A", "-MOVED 3300 B:2\r\n-MOVED 3300 B:2\r\n");
    cluster_asks("{b}3", 3);
    assert_string_equal(cluster_sends("B"), "GET {b}1 |GET {b}2 |GET {b}3 ");
}

static void test_the_map_is_asked_for_once_in_100_ms(void **state)
{
    (void)state;
    int64_t asked;
    cluster_asks("{b}1", 1);
    cluster_asks("{b}2", 2);
    cluster_sends("A");
    cluster_swallows("A", "-MOVED 3300 B:2\r\n");
    cluster_wait_ms(0);
    asked = now;
    cluster_sends("B");
    cluster_swallows("A", "-MOVED 3301 B:2\r\n");
    cluster_sends("B");
    cluster_answers("B", "+x\r\n", 1);
    cluster_swallows("B", MAP_AB);
    cluster_answers("B", "+x\r\n", 2);
    cluster_asks("{b}3", 3);
    cluster_sends("A");
    cluster_swallows("A", "-MOVED 3300 B:2\r\n");
    assert_string_equal(cluster_sends("B"), "GET {b}3 ");
    cluster_wait_ms(99);
    assert_string_equal(cluster_sends("B"), "");
    assert_int_equal(srt_cluster_due_ms(&cl), asked + 100);
    cluster_wait_ms(1);
    assert_string_equal(cluster_sends("B"), "CLUSTER SLOTS ");
}

static void test_ask_sends_asking_before_the_request_and_leaves_the_map(void **state)
{
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    cluster_swallows("A", "-ASK 3300 B:2\r\n");
    assert_string_equal(cluster_sends("B"), "ASKING |GET {b} ");
    cluster_swallows("B", "+OK\r\n");
    cluster_answers("B", "+x\r\n", 1);
    cluster_asks(LOW, 2);
    assert_string_equal(cluster_sends("A"), "GET {b} ");
}

static void test_ask_s_target_that_does_not_know_the_script_gets_asking_again(void **state)
{
    srt_bytes keys;
    srt_request *r;
    (void)state;
    srt_bytes_init(&keys, seriatim_default_allocator());
    srt_resp_arg(&keys, "n:{b}:state", 11);
    r = srt_session_begin(srt_cluster_pool(&cl), srt_script_release, &keys, 1);
    srt_bytes_free(&keys);
    assert_int_equal(srt_cluster_send(&cl, r), SERIATIM_OK);
    assert_non_null(strstr(cluster_sends("A"), " 1 n:{b}:state "));
    cluster_swallows("A", "-ASK 3300 B:2\r\n");
    assert_int_equal(strncmp(cluster_sends("B"), "ASKING |EVALSHA ", 16), 0);
    cluster_swallows("B", "+OK\r\n-NOSCRIPT x\r\n");
    assert_int_equal(strncmp(cluster_sends("B"), "ASKING |EVAL ", 13), 0);
    cluster_swallows("B", "+OK\r\n");
    cluster_answers("B", ":1\r\n", 0);
}

static void test_tryagain_delays_the_request_and_keeps_the_connection(void **state)
{
    int64_t before = now, pause = 0;
    int i;
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    for (i = 0; i < 8; i++) {
        cluster_swallows("A", "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
        assert_string_equal(cluster_sends("A"), "");
        before = now;
        while (!peer_at("A")->commands.waiting)
            cluster_wait_ms(1);
        pause = now - before;
        assert_in_range(pause, (10 << (i < 4 ? i : 4)) / 2, i < 5 ? 10 << i : 200);
        assert_string_equal(cluster_sends("A"), "GET {b} ");
    }
    assert_true(peer_at("A")->commands.connected);
    assert_int_equal(srt_cluster_held_slot(&cl, 100), 3300);
    assert_int_equal(srt_cluster_held_slot(&cl, 100000), -1);
    cluster_answers("A", "+x\r\n", 1);
    assert_int_equal(srt_cluster_held_slot(&cl, 100), -1);
    assert_int_equal(cl.map, SRT_MAP_FRESH);
}

static srt_request *hurry(void)
{
    srt_request *r = cluster_get(LOW, 1);
    r->hurries = 1;
    assert_int_equal(srt_cluster_send(&cl, r), SERIATIM_OK);
    cluster_sends("A");
    return r;
}

static void test_a_request_that_hurries_does_not_wait_for_a_slot_that_moves(void **state)
{
    srt_request *r;
    (void)state;
    hurry();
    cluster_answers("A", "-TRYAGAIN x\r\n", 1);
    r = hurry(); /* it waits for all else */
    cluster_swallows("A", "-CLUSTERDOWN x\r\n");
    assert_int_equal(cl.delayed.count, 1);
    assert_false(r->gave_up);
}

/* The answer of that sending has to come, whenever the slot can be asked again. */
static void test_a_request_that_hurries_waits_once_it_may_have_been_executed(void **state)
{
    srt_request *r = hurry();
    (void)state;
    srt_redis_disconnected(&cl, peer_at("A"));
    cluster_connect("A");
    cluster_sends("A");
    cluster_swallows("A", "-TRYAGAIN x\r\n");
    assert_int_equal(cl.delayed.count, 1);
    assert_false(r->gave_up);
}

static void test_later_requests_overtake_only_one_that_is_delayed(void **state)
{
    (void)state;
    cluster_asks("{b}1", 1);
    cluster_sends("A");
    cluster_swallows("A", "-TRYAGAIN x\r\n");
    cluster_asks("{b}2", 2);
    assert_string_equal(cluster_sends("A"), "GET {b}2 ");
    cluster_wait_ms(10);
    assert_string_equal(cluster_sends("A"), "GET {b}1 ");
}

static void delays(const char *answer)
{
    cluster_asks(LOW, 1);
    cluster_sends("A");
    cluster_swallows("A", answer);
    assert_int_equal(cl.map, SRT_MAP_DOUBTED);
    cluster_wait_ms(0);
    while (!strstr(cluster_sends("A"), "GET {b} "))
        cluster_wait_ms(1);
    assert_true(now < 1002000 + 200);
}

static void test_clusterdown_delays_the_request_and_doubts_the_map(void **state)
{
    (void)state;
    delays("-CLUSTERDOWN The cluster is down\r\n");
    assert_int_equal(cl.last.status, SERIATIM_LOADING);
}

static void test_readonly_delays_the_request_and_doubts_the_map(void **state)
{
    (void)state;
    delays("-READONLY You can't write against a read only replica.\r\n");
}

static void test_readonly_is_the_answer_to_a_dispensable_request_and_doubts_the_map(void **state)
{
    srt_request *r = cluster_get(LOW, 1);
    (void)state;
    r->dispensable = 1;
    assert_int_equal(srt_cluster_send(&cl, r), SERIATIM_OK);
    cluster_sends("A");
    cluster_answers("A", "-NOREPLICAS Not enough good replicas to write.\r\n", 1);
    assert_int_equal(cl.map, SRT_MAP_DOUBTED);
    r = cluster_get(LOW, 2); /* it waits for all else */
    r->dispensable = 1;
    assert_int_equal(srt_cluster_send(&cl, r), SERIATIM_OK);
    cluster_sends("A");
    cluster_swallows("A", "-LOADING x\r\n");
    assert_int_equal(cl.delayed.count, 1);
}

static void test_loading_delays_the_request_and_doubts_the_map(void **state)
{
    (void)state;
    delays("-LOADING Redis is loading the dataset in memory\r\n");
}

static void test_crossslot_is_the_owner_s_error(void **state)
{
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    cluster_answers("A", "-CROSSSLOT Keys in request don't hash to the same slot\r\n", 1);
}

static void test_sixteen_redirects_delay_the_request(void **state)
{
    int i;
    (void)state;
    cluster_asks(LOW, 1);
    for (i = 0; i < 16; i++) {
        assert_non_null(strstr(cluster_sends(i % 2 ? "B" : "A"), "GET {b} "));
        cluster_swallows(i % 2 ? "B" : "A", i % 2 ? "-MOVED 3300 A:1\r\n" : "-MOVED 3300 B:2\r\n");
    }
    assert_non_null(strstr(cluster_sends("A"), "GET {b} "));
    cluster_swallows("A", "-MOVED 3300 B:2\r\n");
    assert_int_equal(cl.delayed.count, 1);
    cluster_wait_ms(10);
    assert_int_equal(cl.delayed.count, 0);
}

/* ---- Routes ---------------------------------------------------------------------------------- */

static void test_a_request_for_a_peer_or_for_any_goes_there(void **state)
{
    srt_request *r = cluster_get(LOW, 1);
    (void)state;
    srt_request_route(r, SRT_ROUTE_PEER, peer_at("B"));
    assert_int_equal(srt_cluster_send(&cl, r), SERIATIM_OK);
    assert_string_equal(cluster_sends("B"), "GET {b} ");
    assert_ptr_equal(srt_cluster_master(&cl, 0), peer_at("A"));
    assert_ptr_equal(srt_cluster_master(&cl, 1), peer_at("B"));
    assert_null(srt_cluster_master(&cl, 2));
    srt_redis_disconnected(&cl, peer_at("A"));
    r = cluster_get(LOW, 2);
    srt_request_route(r, SRT_ROUTE_ANY, NULL);
    assert_int_equal(srt_cluster_send(&cl, r), SERIATIM_OK);
    assert_string_equal(cluster_sends("B"), "GET {b} ");
}

static void test_a_request_of_a_connection_ends_with_it(void **state)
{
    srt_request *r = cluster_get(LOW, 1);
    (void)state;
    srt_request_route(r, SRT_ROUTE_CONNECTION, peer_at("B"));
    assert_int_equal(srt_cluster_send(&cl, r), SERIATIM_OK);
    assert_int_equal(srt_redis_disconnected(&cl, peer_at("B")), 1);
    assert_int_equal(srt_cluster_waiting(&cl), 0);
    r = cluster_get(LOW, 2);
    srt_request_route(r, SRT_ROUTE_CONNECTION, peer_at("A"));
    assert_int_equal(srt_cluster_send(&cl, r), SERIATIM_OK);
    cluster_sends("A");
    cluster_answers("A", "-UNBLOCKED force unblock from blocking operation\r\n", 2);
}

static void test_one_redis_is_a_peer_that_has_all_slots(void **state)
{
    srt_cluster one;
    srt_request *r;
    srt_reply reply;
    seriatim_error error;
    const char *data;
    size_t len;
    (void)state;
    assert_int_equal(srt_cluster_init(&one, seriatim_default_allocator()), SERIATIM_OK);
    assert_int_equal(srt_redis_connected(&one, one.peers[0], NULL, NULL, 0, NULL), SERIATIM_OK);
    r = srt_session_begin(srt_cluster_pool(&one), srt_script_none, NULL, 0);
    srt_request_text(r, "GET");
    srt_request_text(r, "x");
    assert_int_equal(srt_cluster_send(&one, r), SERIATIM_OK);
    srt_session_output(&one.peers[0]->commands, &data, &len);
    assert_int_equal(len, strlen("*2\r\n$3\r\nGET\r\n$1\r\nx\r\n"));
    srt_session_sent(&one.peers[0]->commands, len);
    assert_int_equal(srt_redis_input(&one, one.peers[0], "-MOVED 1 a:1\r\n", 14), SERIATIM_OK);
    assert_int_equal(srt_redis_next(&one, one.peers[0], &r, &reply, &error), SERIATIM_OK);
    srt_cluster_done(&one, r);
    assert_int_equal(srt_cluster_due_ms(&one), INT64_MAX);
    assert_ptr_equal(srt_cluster_peer_of(&one, "x", 1), one.peers[0]);
    assert_ptr_equal(srt_cluster_master(&one, 0), one.peers[0]);
    srt_cluster_free(&one);
}

/* ---- Short memory ---------------------------------------------------------------------------- */

static size_t allocations, failing;

static void *short_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    (void)user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return ++allocations == failing ? NULL : realloc(ptr, new_size);
}

/* Takes an answer, and ends the connection if that fails, as a host does. */
static void take(srt_cluster *c, srt_redis *p, const char *answer)
{
    srt_request *r;
    srt_reply reply;
    seriatim_error error;
    int status = srt_redis_input(c, p, answer, strlen(answer));
    while (status == SERIATIM_OK && (status = srt_redis_next(c, p, &r, &reply, &error)) == SERIATIM_OK)
        srt_cluster_done(c, r);
    srt_session_sent(&p->commands, p->commands.out.len);
    if (status != SERIATIM_AGAIN && status != SERIATIM_OK)
        srt_redis_disconnected(c, p);
}

static void connect_all(srt_cluster *c)
{
    size_t i;
    for (i = 0; i < c->peer_count; i++)
        if (!c->peers[i]->commands.connected && srt_redis_connected(c, c->peers[i], NULL, NULL, 0, NULL) != SERIATIM_OK)
            srt_redis_disconnected(c, c->peers[i]);
}

/* The masters are found, a slot moves, a master is lost. Requests that could not be begun are missing, others are not.
 */
static void live_with_short_memory(srt_cluster *c, const seriatim_allocator *mem)
{
    size_t sent = 0;
    int i;
    if (srt_cluster_init(c, mem) != SERIATIM_OK || srt_cluster_seed(c, "A", 1) != SERIATIM_OK)
        return;
    for (i = 0; i < 4; i++) {
        srt_request *r = srt_session_begin(srt_cluster_pool(c), srt_script_none, NULL, 0);
        if (!r)
            continue;
        srt_request_text(r, "GET");
        srt_request_text(r, i % 2 ? HIGH : LOW);
        sent += srt_cluster_send(c, r) == SERIATIM_OK;
    }
    srt_cluster_tick(c, 1000);
    srt_cluster_tick(c, 1000);
    connect_all(c);
    take(c, c->peers[0], MAP_AB);
    connect_all(c);
    assert_int_equal(srt_cluster_waiting(c) - (c->map_request != NULL), sent);
    if (c->map == SRT_MAP_FRESH && c->peers[0]->commands.waiting == 2)
        take(c, c->peers[0], "-MOVED 3300 C:3\r\n-TRYAGAIN x\r\n");
    srt_cluster_tick(c, 1500);
    connect_all(c);
    srt_redis_disconnected(c, c->peers[0]);
    srt_cluster_tick(c, 2000);
}

static void test_every_allocation_may_fail(void **state)
{
    seriatim_allocator mem = {short_alloc, NULL};
    (void)state;
    failing = 0;
    do {
        srt_cluster c;
        allocations = 0;
        failing++;
        live_with_short_memory(&c, &mem);
        srt_cluster_free(&c);
    } while (allocations >= failing);
    assert_true(failing > 20);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, cluster_set_up, cluster_tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slot_is_that_of_the_key_s_tag),
        T(test_moved_sends_the_request_to_the_slot_s_new_owner_at_once),
        T(test_moved_to_an_unknown_peer_makes_it_known),
        T(test_moved_without_a_host_means_the_host_that_answered),
        T(test_moved_keeps_the_order_of_a_slot_s_requests),
        T(test_the_map_is_asked_for_once_in_100_ms),
        T(test_ask_sends_asking_before_the_request_and_leaves_the_map),
        T(test_ask_s_target_that_does_not_know_the_script_gets_asking_again),
        T(test_tryagain_delays_the_request_and_keeps_the_connection),
        T(test_a_request_that_hurries_does_not_wait_for_a_slot_that_moves),
        T(test_a_request_that_hurries_waits_once_it_may_have_been_executed),
        T(test_later_requests_overtake_only_one_that_is_delayed),
        T(test_clusterdown_delays_the_request_and_doubts_the_map),
        T(test_readonly_delays_the_request_and_doubts_the_map),
        T(test_readonly_is_the_answer_to_a_dispensable_request_and_doubts_the_map),
        T(test_loading_delays_the_request_and_doubts_the_map),
        T(test_crossslot_is_the_owner_s_error),
        T(test_sixteen_redirects_delay_the_request),
        T(test_a_request_for_a_peer_or_for_any_goes_there),
        T(test_a_request_of_a_connection_ends_with_it),
        cmocka_unit_test(test_one_redis_is_a_peer_that_has_all_slots),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

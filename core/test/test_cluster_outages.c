/* test_cluster_outages.c - a cluster whose masters are lost, silent or not known yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cluster_fixture.h"

#include <string.h>

/* ---- Connections that are lost ------------------------------------------------------------- */

static void test_a_lost_connection_keeps_its_requests_and_the_map_is_asked_of_another(void **state)
{
    (void)state;
    cluster_asks("{b}1", 1);
    cluster_asks("{b}2", 2);
    cluster_sends("A");
    srt_redis_disconnected(&cl, peer_at("A"));
    cluster_wait_ms(0);
    assert_string_equal(cluster_sends("B"), "CLUSTER SLOTS ");
    cluster_swallows("B", MAP_CB); /* the failover is over */
    cluster_connect("C");
    assert_string_equal(cluster_sends("C"), "GET {b}1 |GET {b}2 ");
    cluster_answers("C", "+x\r\n", 1);
    cluster_answers("C", "+x\r\n", 2);
    cluster_wait_ms(0);
    assert_null(peer_at("A"));
    assert_int_equal(dropped_peers, 1);
}

static void note_left(void *user, srt_request *r)
{
    *(int *)user += srt_request_left(r);
}

static void test_what_was_sent_may_have_been_executed_wherever_it_goes(void **state)
{
    int left = 0;
    (void)state;
    cluster_asks("{b}1", 1);
    cluster_sends("A");
    cluster_asks("{b}2", 2); /* not a byte of it */
    srt_redis_disconnected(&cl, peer_at("A"));
    cluster_wait_ms(0);
    cluster_sends("B");
    cluster_swallows("B", MAP_CB);
    srt_cluster_each(&cl, note_left, &left);
    assert_int_equal(left, 1);
    assert_int_equal(srt_cluster_waiting(&cl), 2);
}

/* A failover takes seconds: nothing is sent meanwhile, and the map is asked for all the time. */
static void test_the_map_is_asked_for_until_the_slots_of_a_lost_peer_have_an_owner(void **state)
{
    int asked = 0;
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    srt_redis_disconnected(&cl, peer_at("A"));
    while (now < 1001000 + 5000) {
        cluster_wait_ms(10);
        if (strstr(cluster_sends("B"), "CLUSTER SLOTS ")) {
            asked++;
            cluster_swallows("B", MAP_AB);
        }
    }
    assert_in_range(asked, 5, 50);
    while (!strstr(cluster_sends("B"), "CLUSTER SLOTS "))
        cluster_wait_ms(10);
    cluster_swallows("B", MAP_CB);
    cluster_connect("C");
    assert_string_equal(cluster_sends("C"), "GET {b} ");
}

static void test_a_peer_that_comes_back_gets_its_requests_again(void **state)
{
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    srt_redis_disconnected(&cl, peer_at("A"));
    cluster_wait_ms(0);
    cluster_sends("B");
    cluster_connect("A");
    assert_string_equal(cluster_sends("A"), "GET {b} ");
    cluster_swallows("B", MAP_AB);
    cluster_answers("A", "+x\r\n", 1);
    cluster_wait_ms(5000);
    assert_int_equal(srt_cluster_due_ms(&cl), INT64_MAX);
}

/* A frozen master keeps its connections open and says nothing. */
static void test_a_silent_peer_s_requests_go_to_whom_a_new_map_names(void **state)
{
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    cluster_wait_ms(990);
    assert_string_equal(cluster_sends("B"), "");
    cluster_wait_ms(10);
    assert_string_equal(cluster_sends("B"), "CLUSTER SLOTS ");
    cluster_swallows("B", MAP_CB);
    cluster_wait_ms(0);
    assert_false(srt_redis_wanted(&cl, peer_at("A")));
    srt_redis_disconnected(&cl, peer_at("A"));
    cluster_connect("C");
    assert_string_equal(cluster_sends("C"), "GET {b} ");
}

static void test_a_silent_peer_that_keeps_its_slots_keeps_its_requests(void **state)
{
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    cluster_wait_ms(1000);
    cluster_sends("B");
    cluster_swallows("B", MAP_AB);
    cluster_wait_ms(3000);
    assert_true(srt_redis_wanted(&cl, peer_at("A")));
    cluster_answers("A", "+x\r\n", 1);
}

/* The slot moves to B, which freezes. By the map it is A's all the time. */
static void test_a_request_that_was_sent_to_a_silent_target_of_a_move_goes_back(void **state)
{
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    cluster_swallows("A", "-ASK 3300 B:2\r\n");
    assert_string_equal(cluster_sends("B"), "ASKING |GET {b} ");
    cluster_wait_ms(1000);
    assert_string_equal(cluster_sends("A"), "CLUSTER SLOTS ");
    cluster_swallows("A", MAP_AB);
    cluster_wait_ms(0);
    assert_false(srt_redis_wanted(&cl, peer_at("B")));
    srt_redis_disconnected(&cl, peer_at("B"));
    cluster_wait_ms(0);
    assert_non_null(strstr(cluster_sends("A"), "GET {b} "));
}

/* It was removed from the cluster, or started again with an empty disk. */
static void test_a_master_that_has_forgotten_the_cluster_does_not_change_the_map(void **state)
{
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    cluster_swallows("A", "-CLUSTERDOWN Hash slot not served\r\n");
    cl.map_hint = peer_at("A");
    cluster_wait_ms(0);
    assert_string_equal(cluster_sends("A"), "CLUSTER SLOTS ");
    cluster_swallows("A", "*0\r\n");
    assert_ptr_equal(cl.owners[3300], peer_at("A"));
    cluster_wait_ms(0);
    while (!strstr(cluster_sends("B"), "CLUSTER SLOTS "))
        cluster_wait_ms(10);
    cluster_swallows("B", MAP_CB);
    while (!peer_at("C") || !srt_redis_wanted(&cl, peer_at("C")))
        cluster_wait_ms(10);
    cluster_connect("C");
    assert_string_equal(cluster_sends("C"), "GET {b} ");
}

static void test_a_demoted_master_that_answers_moved_loses_nothing(void **state)
{
    (void)state;
    cluster_asks(LOW, 1);
    cluster_sends("A");
    cluster_swallows("A", "-MOVED 3300 C:3\r\n");
    srt_redis_disconnected(&cl, peer_at("A")); /* and it closes the connection */
    cluster_wait_ms(0);
    cluster_connect("C");
    assert_non_null(strstr(cluster_sends("C"), "GET {b} "));
}

/* ---- The beginning ------------------------------------------------------------------------- */

static void test_dead_seeds_are_passed_over(void **state)
{
    (void)state;
    cluster_make();
    assert_int_equal(srt_cluster_seed(&cl, "S", 9), SERIATIM_OK);
    assert_int_equal(srt_cluster_seed(&cl, "B", 2), SERIATIM_OK);
    cluster_asks(HIGH, 1);
    cluster_wait_ms(0);
    srt_redis_disconnected(&cl, peer_at("A"));
    cluster_wait_ms(0);
    assert_true(srt_redis_wanted(&cl, peer_at("S")));
    cluster_wait_ms(500); /* no answer at all */
    cluster_connect("B");
    assert_string_equal(cluster_sends("B"), "CLUSTER SLOTS ");
    cluster_swallows("B", MAP_AB);
    assert_string_equal(cluster_sends("B"), "GET {a} ");
}

static void test_a_seed_without_slots_is_passed_over(void **state)
{
    (void)state;
    cluster_make();
    assert_int_equal(srt_cluster_seed(&cl, "B", 2), SERIATIM_OK);
    cluster_asks(HIGH, 1);
    cluster_wait_ms(0);
    cluster_connect("A");
    assert_string_equal(cluster_sends("A"), "CLUSTER SLOTS ");
    cluster_swallows("A", "*0\r\n");
    assert_int_equal(cl.last.status, SERIATIM_LOADING);
    assert_non_null(strstr(cl.last.message, "A:1 knows no slots"));
    cluster_wait_ms(0);
    cluster_connect("B");
    assert_string_equal(cluster_sends("B"), "CLUSTER SLOTS ");
    cluster_swallows("B", MAP_AB);
    assert_string_equal(cluster_sends("B"), "GET {a} ");
}

static void test_a_redis_that_is_no_cluster_is_an_error(void **state)
{
    seriatim_error error;
    (void)state;
    cluster_make();
    cluster_asks(LOW, 1);
    cluster_wait_ms(0);
    cluster_connect("A");
    cluster_sends("A");
    assert_int_equal(cluster_hears("A", "-ERR This instance has cluster support disabled\r\n", NULL, &error),
                     SERIATIM_SERVER);
    assert_non_null(strstr(error.message, "A:1: "));
}

static void test_the_error_of_refused_credentials_names_the_master(void **state)
{
    seriatim_error error;
    (void)state;
    srt_redis_disconnected(&cl, peer_at("B"));
    cluster_asks(HIGH, 1);
    assert_int_equal(srt_redis_connected(&cl, peer_at("B"), "user", "secret", 0, NULL), SERIATIM_OK);
    cluster_sends("B");
    assert_int_equal(cluster_hears("B", "-WRONGPASS x\r\n", NULL, &error), SERIATIM_AUTH);
    assert_string_equal(error.message, "B:2: Redis refused the credentials: WRONGPASS x");
}

static void test_requests_wait_until_their_slot_has_an_owner(void **state)
{
    (void)state;
    cluster_make();
    cluster_asks(LOW, 1);
    cluster_wait_ms(0);
    cluster_connect("A");
    cluster_sends("A");
    cluster_swallows("A", "*1\r\n*3\r\n:8192\r\n:16383\r\n*2\r\n$1\r\nB\r\n:2\r\n");
    assert_int_equal(cl.homeless.count, 1);
    cluster_wait_ms(100);
    assert_non_null(peer_at("B"));
    while (!strstr(cluster_sends("A"), "CLUSTER SLOTS "))
        cluster_wait_ms(10);
    cluster_swallows("A", MAP_AB);
    assert_string_equal(cluster_sends("A"), "GET {b} ");
}

static void test_replicas_and_more_fields_of_the_map_are_passed_over(void **state)
{
    (void)state;
    cluster_make();
    cluster_asks(LOW, 1);
    cluster_wait_ms(0);
    cluster_connect("A");
    cluster_sends("A");
    cluster_swallows("A", "*1\r\n*4\r\n:0\r\n:16383\r\n*4\r\n$0\r\n\r\n:1\r\n$2\r\nid\r\n*2\r\n$1\r\nh\r\n$1\r\nv\r\n"
                          "*3\r\n$1\r\nR\r\n:5\r\n$2\r\nid\r\n");
    assert_null(peer_at("R"));
    assert_int_equal(peer_at("A")->slots, 16384);
    assert_string_equal(cluster_sends("A"), "GET {b} ");
}

static void test_an_answer_that_is_no_map_ends_the_connection(void **state)
{
    static const char *const bad[] = {"+x\r\n",
                                      "*1\r\n:1\r\n",
                                      "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nB\r\n:2\r\n",
                                      "*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\nB\r\n:2\r\n",
                                      "*1\r\n*3\r\n:0\r\n:4\r\n*2\r\n$1\r\nB\r\n:0\r\n",
                                      "*1\r\n*2\r\n:0\r\n:4\r\n"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        seriatim_error error;
        cluster_make();
        cluster_asks(LOW, 1);
        cluster_wait_ms(0);
        cluster_connect("A");
        cluster_sends("A");
        assert_int_equal(cluster_hears("A", bad[i], NULL, &error), SERIATIM_PROTOCOL);
        if (i + 1 < sizeof bad / sizeof *bad)
            srt_cluster_free(&cl);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, cluster_set_up, cluster_tear_down)
#define FRESH(name) cmocka_unit_test_teardown(name, cluster_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_a_lost_connection_keeps_its_requests_and_the_map_is_asked_of_another),
        T(test_what_was_sent_may_have_been_executed_wherever_it_goes),
        T(test_the_map_is_asked_for_until_the_slots_of_a_lost_peer_have_an_owner),
        T(test_a_peer_that_comes_back_gets_its_requests_again),
        T(test_a_silent_peer_s_requests_go_to_whom_a_new_map_names),
        T(test_a_silent_peer_that_keeps_its_slots_keeps_its_requests),
        T(test_a_request_that_was_sent_to_a_silent_target_of_a_move_goes_back),
        T(test_a_master_that_has_forgotten_the_cluster_does_not_change_the_map),
        T(test_a_demoted_master_that_answers_moved_loses_nothing),
        FRESH(test_dead_seeds_are_passed_over),
        FRESH(test_a_seed_without_slots_is_passed_over),
        FRESH(test_a_redis_that_is_no_cluster_is_an_error),
        T(test_the_error_of_refused_credentials_names_the_master),
        FRESH(test_requests_wait_until_their_slot_has_an_owner),
        FRESH(test_replicas_and_more_fields_of_the_map_are_passed_over),
        FRESH(test_an_answer_that_is_no_map_ends_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_web_history.c - the history of queues: what is measured, merged and shown; against a real redis-server. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SRT_SCRIPT_TEXTS
#include "browser.h"
#include "model/history.h"
#include "move_fixture.h"
#include "reshard_fixture.h"

/* The time of Redis, in microseconds. */
static int64_t redis_us(void)
{
    redisReply *reply = redis("TIME");
    int64_t us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 + strtoll(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return us;
}

/*
 * One answer of a session without a link: what it sends goes by the test's own connection. Returns what history.lua
 * says.
 */
static int64_t write_history(const char *queue, int64_t time_us, int64_t processed, int64_t failed, int64_t pushed,
                             int64_t lag_us, int64_t since_us)
{
    srt_history_sample sample;
    srt_session session;
    srt_request *r;
    const char *data;
    size_t len;
    int64_t wrote;
    redisReply *reply = redis("SCRIPT LOAD %b", srt_script_text_history, sizeof srt_script_text_history - 1);
    freeReplyObject(reply);
    sample.time_us = time_us;
    sample.processed = processed;
    sample.failed = failed;
    sample.pushed = pushed;
    sample.lag_us = lag_us;
    sample.since_us = since_us;
    assert_int_equal(srt_session_init(&session, seriatim_default_allocator(), 0), SERIATIM_OK);
    assert_int_equal(srt_session_connected(&session, NULL, NULL, 0, NULL), SERIATIM_OK);
    r = srt_history_request(&session, "seriatim", queue, strlen(queue), &sample);
    assert_non_null(r);
    assert_int_equal(srt_session_send(&session, r), SERIATIM_OK);
    srt_session_output(&session, &data, &len);
    assert_int_equal(redisAppendFormattedCommand(server_redis, data, len), REDIS_OK);
    assert_int_equal(redisGetReply(server_redis, (void **)&reply), REDIS_OK);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    wrote = reply->integer;
    freeReplyObject(reply);
    srt_session_free(&session);
    return wrote;
}

/* The sum of one column over all points. */
static double sum_of(int column)
{
    double sum = 0;
    const char *at = strchr(browser.text, '[');
    int i;
    while (at && (at = strchr(at + 1, '['))) {
        const char *number = at + 1;
        for (i = 0; i < column; i++)
            number = strchr(number, ',') + 1;
        sum += strtod(number, NULL);
    }
    return sum;
}

static const char *const all_spans[] = {"15m", "1h", "1d", "7d"};

static void get_history(const char *queue, const char *span)
{
    char path[100];
    snprintf(path, sizeof path, "/api/v1/history?span=%s%s%s", span, queue ? "&queue=" : "", queue ? queue : "");
    get(path);
}

static void test_history_counts_what_came_and_ended(void **state)
{
    int64_t now;
    size_t i;
    redisReply *reply;
    (void)state;
    open_browser();
    push_two();
    push_text("Other", "1", "a", 0);
    REDIS("SET seriatim:{/nodes}:sampler %s",
          "9000000000000000 1 another"); /* ends later than any lease could, so it does not count */
    REDIS("DEL seriatim:{Q}:history seriatim:{Other}:history");
    now = redis_us();
    assert_int_equal(write_history("Q", now - 3, 0, 0, 0, 0, 0), 1);
    assert_int_equal(write_history("Q", now - 2, 5, 1, 7, 1500000, 0), 1);
    assert_int_equal(write_history("Q", now - 2, 5, 1, 7, 1500000, 0), 0); /* sent twice */
    assert_int_equal(write_history("Q", now - 3, 4, 1, 6, 1500000, 0), 0); /* measured before it, by another process */
    assert_int_equal(write_history("Q", now - 1, 7, 1, 8, 500000, 0), 1);
    assert_int_equal(write_history("Other", now - 1, 100, 10, 0, 9000000, now - 5), 1);
    assert_int_equal(write_history("None", now - 1, 100, 10, 0, 9000000, 0), 0); /* no such queue */
    for (i = 0; i < 4; i++) {
        get_history("Q", all_spans[i]);
        assert_int_equal((int)sum_of(0), 7);
        assert_int_equal((int)sum_of(1), 1);
        assert_int_equal((int)sum_of(2), 8);
        assert_true(sum_of(3) > 1.4 && sum_of(3) < 2.1);
        get_history(NULL, all_spans[i]);
        assert_int_equal((int)sum_of(0), 107);
    }
    shows("\"step\":3600}");
    assert_int_equal(seriatim_check_begin(browser.client, SERIATIM_NO_QUEUE, 0), SERIATIM_OK);
    assert_int_equal(drive_browser(), SERIATIM_OK);
    (void)seriatim_check_result(browser.client, &i);
    assert_int_equal(i, 0); /* the key is of a known kind */
    reply = redis("PTTL seriatim:{Q}:history");
    assert_true(reply->integer > 600000000);
    freeReplyObject(reply);
}

/* Points of the answer that are known, and how many stand between the first and the last of them that are not. */
static int known_points(int *gaps)
{
    const char *at = strchr(strchr(browser.text, '[') + 1, '[');
    int known = 0;
    for (*gaps = 0; at; known++) {
        const char *next = strchr(at + 1, '['), *null = at;
        while (next && (null = strstr(null + 1, "null")) && null < next)
            ++*gaps;
        at = next;
    }
    return known;
}

/*
 * Steps between two samples share what came; after more than a minute they are not known, and neither is when it came.
 */
static void test_history_marks_steps_between_samples_as_unknown(void **state)
{
    const int64_t second = 1000000;
    int64_t now;
    int gaps;
    (void)state;
    open_browser();
    push_two();
    get("/api/v1/stats"); /* this process measured just now */
    REDIS("DEL seriatim:{Q}:history");
    now = redis_us() / (10 * second) * (10 * second) + second; /* one second into a step */
    write_history("Q", now - 600 * second, 0, 0, 0, 0, 0);
    write_history("Q", now - 590 * second, 0, 0, 0, 0, 0);
    get_history("Q", "15m");
    assert_int_equal(known_points(&gaps), 2); /* idle, not unknown */
    assert_int_equal(gaps, 0);
    assert_int_equal((int)(sum_of(0) + sum_of(1) + sum_of(2) + sum_of(3)), 0);
    write_history("Q", now - 550 * second, 10, 3, 5, 100 * second, 0); /* four steps later */
    get_history("Q", "15m");
    assert_int_equal(known_points(&gaps), 6);
    assert_int_equal(gaps, 0);
    assert_int_equal((int)sum_of(0), 10);
    assert_int_equal((int)sum_of(1), 3);
    assert_int_equal((int)sum_of(2), 5);
    assert_int_equal((int)sum_of(3), 100 + 90 + 80 + 70);
    write_history("Q", now, 1000, 3, 5000, 0, 0); /* nine minutes later */
    get_history("Q", "15m");
    assert_int_equal(known_points(&gaps), 7);
    assert_int_equal(gaps, 54);
    assert_int_equal((int)sum_of(2), 5);
    get_history("Q", "7d"); /* within an hour, or the one before it, that is no gap */
    assert_int_equal((int)sum_of(2), 5000);
    assert_int_equal((int)sum_of(3), 100);
    write_history("Q", now + 1, 1, 0, 0, 0, 0); /* a state was lost, and counts anew */
    write_history("Q", now + 2, 3, 0, 0, 0, 0);
    get_history("Q", "15m");
    assert_int_equal((int)sum_of(0), 12);
}

/* A year of steps takes no more room than a week. */
static void test_history_is_bounded(void **state)
{
    redisReply *reply;
    int64_t now;
    int i;
    (void)state;
    open_browser();
    push_two();
    now = redis_us();
    for (i = 900; i >= 0; i--)
        write_history("Q", now - (int64_t)i * 10000000, 1000 - i, 0, 0, 0, 0);
    reply = redis("STRLEN seriatim:{Q}:history");
    assert_true(reply->integer <= 32 + 20 * (360 + 288 + 168));
    freeReplyObject(reply);
    /* Since `now` some seconds have passed, so the last points of a span may be empty. */
    get_history("Q", "15m");
    assert_true(sum_of(0) >= 80 && sum_of(0) <= 90);
    get_history("Q", "1h");
    assert_true(sum_of(0) >= 350 && sum_of(0) <= 360);
    get_history("Q", "1d");
    assert_int_equal((int)sum_of(0), 900);
}

/* Steps are merged by adding what came in them: no span shows more or less than came, and none adds lags up. */
static void test_merging_steps_of_history_keeps_their_sums(void **state)
{
    const int64_t second = 1000000;
    int64_t base;
    int i, gaps;
    (void)state;
    open_browser();
    push_two();
    get("/api/v1/stats"); /* this process measured just now */
    REDIS("DEL seriatim:{Q}:history");
    base = (redis_us() / (30 * second) - 20) * 30 * second;
    write_history("Q", base - 9 * second, 0, 0, 0, 10 * second, 0);
    write_history("Q", base + 1 * second, 1000, 10, 100000, 10 * second, 0);
    write_history("Q", base + 11 * second, 2000, 20, 200000, 90 * second, 0);
    write_history("Q", base + 21 * second, 3000, 30, 300000, 10 * second, 0);
    for (i = 0; i < 4; i++) {
        get_history("Q", all_spans[i]);
        assert_int_equal((int)sum_of(0), 3000);
        assert_int_equal((int)sum_of(1), 30);
        assert_int_equal((int)sum_of(2), 300000);
        if (i == 0) {
            assert_int_equal(known_points(&gaps), 4);
            assert_int_equal((int)sum_of(3), 10 + 10 + 90 + 10);
        } else if (i == 1) { /* three steps make one point */
            assert_int_equal(known_points(&gaps), 2);
            assert_int_equal((int)sum_of(3), 10 + 90);
        } else {
            assert_true((int)sum_of(3) == 90 || (int)sum_of(3) == 100);
        }
    }
}

/* Another process that shows the dashboard. */
static void new_browser(void)
{
    seriatim_error error;
    seriatim_web_request request = browser.request;
    seriatim_link_free(browser.link);
    assert_int_equal(seriatim_link_new(NULL, server.url, &browser.link, &error), SERIATIM_OK);
    browser.client = seriatim_link_client(browser.link);
    browser.request = request;
}

/* After the lease of the one before it. */
static void measure_again(void)
{
    new_browser();
    REDIS("SET seriatim:{/nodes}:sampler %s", "1 1 another");
    get("/api/web/dashboard");
}

/* No node has ever served these queues: whoever looks at the dashboard measures them. */
static void test_the_dashboard_measures_queues_that_no_node_ever_served(void **state)
{
    int i, gaps;
    (void)state;
    open_browser();
    push_text("Abandoned", "1", "a", 0);
    push_text("Idle", "1", "a", 3600);
    get("/api/web/dashboard");
    for (i = 0; i < 80; i++)
        push_text("Abandoned", "1", "b", 0);
    assert_int_equal(ask("POST", "/api/web/Abandoned/pause", "{}"), 200);
    REDIS("DEBUG SLEEP 1");
    measure_again();
    get_history("Abandoned", "1d");
    assert_int_equal((int)sum_of(2), 80);
    assert_int_equal((int)sum_of(0), 0);
    assert_true(sum_of(3) >= 1 && sum_of(3) < 60);
    get_history("Idle", "1d");
    assert_true(known_points(&gaps) >= 1);
    assert_true(sum_of(3) < 1);
    /* Another process measures: this one does not, whatever is shown. */
    REDIS("DEL seriatim:{Idle}:history");
    another_measures();
    new_browser();
    get("/api/web/dashboard");
    get_history("Idle", "1d");
    assert_int_equal(known_points(&gaps), 0);
}

/*
 * The process that held the lease is gone; the next node measures as it starts. Waits until the history of the queue
 * shows this number of pushes.
 */
static void wait_for_pushes(const char *queue, int pushes)
{
    worker w;
    int i, gaps;
    REDIS("SET seriatim:{/nodes}:sampler %s", "1 1 another");
    w = start_worker("Served", 5);
    for (i = 0; i < 1000; i++) {
        get_history(queue, "1d");
        if (known_points(&gaps) > 0 && (int)sum_of(2) >= pushes)
            break;
        pause_ms(10);
    }
    assert_int_equal((int)sum_of(2), pushes);
    stop_worker(&w);
}

/* Nodes measure queues that no node serves, too. */
static void test_nodes_measure_queues_without_a_node(void **state)
{
    int i;
    (void)state;
    open_browser();
    another_measures();
    get("/api/v1/stats"); /* this client does not ask again for ten seconds */
    push_text("Abandoned", "1", "a", 0);
    wait_for_pushes("Abandoned", 0);
    for (i = 0; i < 7; i++)
        push_text("Abandoned", "1", "b", 0);
    wait_for_pushes("Abandoned", 7);
    assert_true(sum_of(3) > 0);
    assert_int_equal((int)sum_of(0), 0);
}

static void test_history_is_measured_while_redis_is_full(void **state)
{
    redisReply *reply;
    (void)state;
    open_browser();
    push_two();
    get("/api/web/dashboard");
    REDIS("SET seriatim:{/nodes}:sampler %s", "1 1 another"); /* its lease is over */
    REDIS("DEL seriatim:{Q}:history");
    new_browser();
    REDIS("CONFIG SET maxmemory 1");
    get("/api/web/dashboard");
    REDIS("CONFIG SET maxmemory 0");
    reply = redis("EXISTS seriatim:{Q}:history");
    assert_int_equal(reply->integer, 1);
    freeReplyObject(reply);
    reply = redis("PTTL seriatim:{/nodes}:sampler");
    assert_in_range(reply->integer, 3500000, 3600000);
    freeReplyObject(reply);
    reply = redis("GET seriatim:{/nodes}:sampler");
    assert_null(strstr(reply->str, "another"));
    freeReplyObject(reply);
    /* Also where nobody has measured within the last hour. */
    REDIS("DEL seriatim:{/nodes}:sampler seriatim:{Q}:history");
    new_browser();
    REDIS("CONFIG SET maxmemory 1");
    get("/api/web/dashboard");
    REDIS("CONFIG SET maxmemory 0");
    reply = redis("EXISTS seriatim:{Q}:history seriatim:{/nodes}:sampler");
    assert_int_equal(reply->integer, 2);
    freeReplyObject(reply);
}

/* Asks for the lease as this process. Returns when the round before was begun; -1: another process measures. */
static int64_t ask_to_measure(const char *process, const char *goes_on, int64_t *now)
{
    redisReply *reply = redis("EVAL %b 1 seriatim:{/nodes}:sampler %s 15000 %s", srt_script_text_sampler,
                              sizeof srt_script_text_sampler - 1, process, goes_on);
    int64_t before = reply->element[0]->integer ? strtoll(reply->element[2]->str, NULL, 10) : -1;
    *now = strtoll(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return before;
}

/* A queue that appears while it goes on was not looked for. */
static void test_a_round_that_goes_on_keeps_the_time_at_which_it_was_begun(void **state)
{
    int64_t begun, now;
    (void)state;
    REDIS("DEL seriatim:{/nodes}:sampler");
    assert_int_equal(ask_to_measure("n1", "0", &begun), 0);
    assert_int_equal(ask_to_measure("n1", "1", &now), begun);
    assert_true(now > begun);
    assert_int_equal(ask_to_measure("n2", "1", &now), -1);
    assert_int_equal(ask_to_measure("n1", "1", &now), begun);
    assert_int_equal(ask_to_measure("n1", "0", &now), begun);
    assert_true(ask_to_measure("n1", "1", &now) > begun);
}

/* What was pushed to Q, as its history counts on; -1: it has none. */
static double pushed_in_history(void)
{
    double head[4] = {0, 0, 0, -1};
    redisReply *reply = redis("GETRANGE seriatim:{Q}:history 0 31");
    if (reply->len == sizeof head)
        memcpy(head, reply->str, sizeof head);
    freeReplyObject(reply);
    return head[3];
}

/* Measures Q, which is idle. Returns what was pushed. */
static double pushed_by_an_idle_sample(void)
{
    redisReply *reply = redis("EVAL %b 2 seriatim:{Q}:layout seriatim:{Q}:history 0 250", srt_script_text_sample_idle,
                              sizeof srt_script_text_sample_idle - 1);
    assert_int_equal(reply->elements, 1);
    assert_int_equal(reply->element[0]->integer, 1);
    freeReplyObject(reply);
    return pushed_in_history();
}

/* The same by a node, of a queue in which something waits. */
static double pushed_by_the_sample_of_a_node(void)
{
    worker w;
    int i;
    REDIS("SET seriatim:{/nodes}:sampler %s", "1 1 another");
    REDIS("DEL seriatim:{Q}:history");
    w = start_worker("Served", 5);
    for (i = 0; i < 6000 && pushed_in_history() < 0; i++)
        pause_ms(10);
    stop_worker(&w);
    return pushed_in_history();
}

/* Each is pushed and deleted. */
static void push_thirty(const fixture *f)
{
    char id[16];
    int i;
    for (i = 0; i < 30; i++) {
        snprintf(id, sizeof id, "i%d", i);
        push(f, id, "x", none);
        assert_int_equal(act_on(f, SERIATIM_DELETE, id), 1);
    }
}

/* The history takes differences: a sum over fewer shards would lose work, and the next one over all count it again. */
static void test_an_idle_queue_is_measured_over_all_shards_that_it_ever_had(void **state)
{
    static const unsigned shards[] = {2, 5, 1};
    fixture f = open_queue(3, "merge");
    size_t i;
    move m;
    (void)state;
    push_thirty(&f);
    assert_true(pushed_by_an_idle_sample() == 30);
    for (i = 0; i < sizeof shards / sizeof *shards; i++) {
        move_begin(&m, shards[i]);
        assert_true(pushed_by_an_idle_sample() == 30);
        move_all(&m);
        assert_true(pushed_by_an_idle_sample() == 30);
    }
    close_queue(&f);
}

/* Who ended the move was killed before that was turned. */
static void test_a_queue_is_measured_with_a_lost_shard_of_an_earlier_layout(void **state)
{
    fixture f = open_queue(2, "merge");
    double generation;
    redisReply *reply;
    move m;
    (void)state;
    push_thirty(&f);
    move_begin(&m, 1);
    move_all(&m);
    generation = strtod(m.generation, NULL) - 1;
    reply = redis("SETRANGE seriatim:{Q/1}:state 0 %b", (const char *)&generation, sizeof generation);
    freeReplyObject(reply);
    assert_true(pushed_by_an_idle_sample() == 30);
    push(&f, "waits", "x", none);
    assert_true(pushed_by_the_sample_of_a_node() == 31);
    close_queue(&f);
}

/* Shards that the queue has lost before are turned when the move ends. */
static void test_a_queue_that_had_more_shards_is_measured_while_its_ids_move_again(void **state)
{
    fixture f = open_queue(5, "merge");
    redisReply *reply;
    unsigned shard;
    move m;
    (void)state;
    push_thirty(&f);
    move_begin(&m, 3);
    move_all(&m);
    write_layout(2, 3, 5);
    reply = redis("GET seriatim:{Q}:layout");
    for (shard = 0; shard < 3; shard++)
        assert_string_equal(turn_shard(shard, reply->str), "OK");
    freeReplyObject(reply);
    assert_true(pushed_by_an_idle_sample() == 30);
    push(&f, "waits", "x", none);
    assert_true(pushed_by_the_sample_of_a_node() == 31);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history_counts_what_came_and_ended),
        cmocka_unit_test(test_history_is_bounded),
        cmocka_unit_test(test_merging_steps_of_history_keeps_their_sums),
        cmocka_unit_test(test_history_marks_steps_between_samples_as_unknown),
        cmocka_unit_test(test_the_dashboard_measures_queues_that_no_node_ever_served),
        cmocka_unit_test(test_nodes_measure_queues_without_a_node),
        cmocka_unit_test(test_history_is_measured_while_redis_is_full),
        cmocka_unit_test(test_a_round_that_goes_on_keeps_the_time_at_which_it_was_begun),
        cmocka_unit_test(test_an_idle_queue_is_measured_over_all_shards_that_it_ever_had),
        cmocka_unit_test(test_a_queue_is_measured_with_a_lost_shard_of_an_earlier_layout),
        cmocka_unit_test(test_a_queue_that_had_more_shards_is_measured_while_its_ids_move_again),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

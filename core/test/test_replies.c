/*
 * test_replies.c - a node that hears answers which no script gives: it goes on, and reads nothing that is not there
 * (ASan sees).
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/node_state.h"

typedef struct life {
    srt_node *node;
    int64_t now, fence;
    int settled;       /* ids */
    int warned;        /* of NOPERM */
    char warning[512]; /* the last one of these */
} life;

/* ---- Answers -------------------------------------------------------------------------------- */

/* Too short, nested, nil, of another type. */
static const char *const FOREIGN[] = {
    ":1\r\n",
    "$-1\r\n",
    "$0\r\n\r\n",
    "+OK\r\n",
    "*-1\r\n",
    "*0\r\n",
    "*1\r\n$2\r\nOK\r\n",
    "*1\r\n$5\r\nTAKEN\r\n",
    "*2\r\n$5\r\nTAKEN\r\n$1\r\nx\r\n",
    "*3\r\n$2\r\nOK\r\n$1\r\n7\r\n$1\r\n7\r\n",
    "*4\r\n$2\r\nOK\r\n*1\r\n$1\r\n7\r\n$-1\r\n:0\r\n",
    "*4\r\n$2\r\nOK\r\n$1\r\n7\r\n$1\r\n7\r\n:0\r\n",
    "*4\r\n*0\r\n:0\r\n:0\r\n:0\r\n",
    "*4\r\n$-1\r\n:0\r\n:0\r\n:0\r\n",
    "*3\r\n$5\r\nTAKEN\r\n$-1\r\n*0\r\n",
    "*1\r\n*1\r\n*1\r\n*0\r\n",
    "*8\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n*0\r\n$1\r\n1\r\n:0\r\n$1\r\nn\r\n$-1\r\n",
    "*10\r\n:1\r\n:9\r\n:1\r\n:1\r\n:1\r\n:0\r\n:1\r\n:0\r\n:1\r\n:1\r\n",
    "*10\r\n:1\r\n:9\r\n:1\r\n:1\r\n:1\r\n:0\r\n$0\r\n\r\n:0\r\n$1\r\n\x91\r\n$1\r\n\x91\r\n"};

/* What its script says to a request: the queue has one shard, in which the id "a" waits whenever it is claimed. */
static void usual_answer(life *l, int kind, srt_bytes *out)
{
    static const char ids[] = "\x91\xa1"
                              "a",
                      records[] = "\x91\xaa\0ABCDEFGH1";
    int64_t us = INT64_C(1789000000000000) + l->now * 1000;
    int i;
    switch (kind) {
    case SRT_ASK_LAYOUT:
        srt_resp_arg(out, "1 1 3", 5);
        return;
    case SRT_ASK_HEARTBEAT:
        srt_resp_array(out, 6);
        srt_resp_arg_int(out, us);
        srt_resp_arg(out, "", 0);
        srt_resp_arg_int(out, 0);
        srt_resp_arg_int(out, 0);
        srt_resp_arg(out, "n1", 2);
        srt_resp_arg(out, l->node->description.data, l->node->description.len);
        return;
    case SRT_ASK_ACQUIRE:
        srt_resp_array(out, 5);
        srt_resp_arg(out, "OK", 2);
        srt_resp_arg_int(out, ++l->fence);
        srt_resp_arg_int(out, l->fence);
        srt_resp_arg_int(out, 0);
        srt_resp_arg_int(out, 1);
        return;
    case SRT_ASK_RECOVER: /* nothing was left to recover */
        srt_resp_array(out, 4);
        srt_resp_arg(out, "", 0);
        for (i = 0; i < 3; i++)
            srt_resp_arg_int(out, 0);
        return;
    case SRT_ASK_CLAIM:
        srt_resp_array(out, 10);
        srt_resp_arg_int(out, us);
        srt_resp_arg_int(out, ++l->fence);
        for (i = 0; i < 3; i++)
            srt_resp_arg_int(out, i == 0 ? 0 : SRT_FOREVER);
        srt_resp_arg_int(out, 0);
        srt_resp_arg(out, "n", 1);
        srt_resp_arg_int(out, 1);
        srt_resp_arg(out, ids, sizeof ids - 1);
        srt_resp_arg(out, records, sizeof records - 1);
        return;
    case SRT_ASK_SETTLE:
        srt_resp_array(out, 2);
        srt_resp_arg_int(out, 0);
        srt_resp_arg_int(out, 0);
        return;
    default:
        srt_resp_arg(out, "OK", 2);
    }
}

/* ---- A node --------------------------------------------------------------------------------- */

static void open_node(life *l)
{
    seriatim_node_settings settings;
    seriatim_queue_settings q;
    seriatim_error error;
    size_t worker;
    memset(l, 0, sizeof *l);
    l->now = 1000;
    memset(&settings, 0, sizeof settings);
    settings.id = "n1";
    settings.lease_ms = 400;
    settings.poll_ms = 100;
    settings.threads = 1;
    assert_int_equal(srt_node_new(&settings, &l->node, &error), SERIATIM_OK);
    seriatim_queue_settings_init(&q);
    q.name = "q";
    q.name_len = 1;
    q.shards_count = 1;
    assert_int_equal(srt_node_worker(l->node, &q, &worker, &error), SERIATIM_OK);
    assert_int_equal(srt_node_start(l->node, l->now, &error), SERIATIM_OK);
    assert_int_equal(srt_node_connected(l->node, SRT_COMMANDS, NULL, NULL, 0, l->now), SERIATIM_OK);
}

static void reconnect(life *l)
{
    srt_node_disconnected(l->node, SRT_COMMANDS, l->now);
    assert_int_equal(srt_node_connected(l->node, SRT_COMMANDS, NULL, NULL, 0, l->now), SERIATIM_OK);
}

/* Gives it the text in memory of its own size. */
static void hear(life *l, const char *text, size_t len)
{
    char *exact = malloc(len);
    seriatim_error error;
    memcpy(exact, text, len);
    if (srt_node_input(l->node, SRT_COMMANDS, exact, len, l->now, &error) != SERIATIM_OK)
        reconnect(l);
    free(exact);
}

/* A thread takes, reads and settles. */
static void work(life *l)
{
    seriatim_delivery *d;
    while (srt_node_take(l->node, 0, l->now, &d) == SERIATIM_OK) {
        const seriatim_claimed *job = seriatim_delivery_job(d, 0);
        assert_int_equal(job->id_len, 1);
        assert_int_equal(job->payloads[0].data[0], '1');
        seriatim_delivery_done(d, 0);
        srt_node_settle(l->node, d, l->now);
    }
}

/* Goes on for some steps. The first request of this kind (-1: none) is answered so; returns whether there was one. */
static int live(life *l, int steps, int kind, const char *answer)
{
    seriatim_event event;
    const char *data;
    size_t len;
    int given = 0;
    while (steps-- > 0) {
        const srt_request *asked = l->node->cluster.peers[0]->commands.first;
        srt_bytes out;
        l->now += 20;
        srt_node_pulse(l->node, l->now);
        srt_node_tick(l->node, l->now);
        srt_node_output(l->node, SRT_COMMANDS, &data, &len);
        srt_node_sent(l->node, SRT_COMMANDS, len);
        while (srt_node_event(l->node, l->now, &event) == SERIATIM_OK)
            if (event.kind == SERIATIM_EVENT_WARNING && strstr(event.text, "NOPERM")) {
                l->warned++;
                strcpy(l->warning, event.text);
            }
        asked = l->node->cluster.peers[0]->commands.first;
        if (asked && !given && !asked->handshake && asked->kind == kind) {
            given = 1;
            hear(l, answer, strlen(answer));
        } else if (asked) {
            srt_bytes_init(&out, seriatim_default_allocator());
            l->settled += !asked->handshake && asked->kind == SRT_ASK_SETTLE;
            usual_answer(l, asked->handshake ? -1 : asked->kind, &out);
            hear(l, out.data, out.len);
            srt_bytes_free(&out);
        }
        work(l);
    }
    return given;
}

/* ---- Tests ---------------------------------------------------------------------------------- */

/*
 * Each request of a node is answered in each of these ways, behind answers that have filled the tape; then all goes on.
 */
static void test_a_node_survives_foreign_answers_to_each_request(void **state)
{
    static const int kinds[] = {SRT_ASK_LAYOUT,  SRT_ASK_HEARTBEAT, SRT_ASK_ACQUIRE,
                                SRT_ASK_RECOVER, SRT_ASK_CLAIM,     SRT_ASK_SETTLE};
    size_t kind, i;
    (void)state;
    for (kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (i = 0; i < sizeof FOREIGN / sizeof *FOREIGN; i++) {
            int asked_once = kinds[kind] == SRT_ASK_LAYOUT, before;
            life l;
            open_node(&l);
            live(&l, asked_once ? 0 : 30 + (int)i, -1, NULL);
            for (before = l.settled; !asked_once && l.settled == before;)
                live(&l, 1, -1, NULL);
            reconnect(&l); /* its shards are acquired anew; on the tape lies more of a claim that is gone than the
                              settle covers */
            if (!live(&l, 60, kinds[kind], FOREIGN[i]))
                fail_msg("nothing of kind %d was asked", kinds[kind]);
            before = l.settled;
            live(&l, 200, -1, NULL);
            if (l.settled < before + 5)
                fail_msg("kind %d, answer %zu: %d ids were settled behind it", kinds[kind], i, l.settled - before);
            srt_node_free(l.node);
        }
}

/* A user may not write any more. Heartbeats are tried ten times a second; the log says the same once a minute. */
static void test_a_refusal_of_each_heartbeat_is_told_once_a_minute(void **state)
{
    life l;
    (void)state;
    open_node(&l);
    live(&l, 30, -1, NULL);
    while (l.now < 150000)
        live(&l, 1, SRT_ASK_HEARTBEAT, "-NOPERM this user may not write\r\n");
    assert_int_equal(l.warned, 3);
    live(&l, 1, -1, NULL);
    while (l.now < 152000)
        live(&l, 1, SRT_ASK_HEARTBEAT, "-NOPERM other words\r\n");
    assert_int_equal(l.warned, 4);
    srt_node_free(l.node);
}

/* The settles of a shard are refused once a second, by scripts of two names; its other requests are answered. */
static void test_a_refusal_of_a_shard_is_told_once_a_minute(void **state)
{
    static const char *const words[] = {
        "-NOPERM no settles script: 2336db7fd5aa3f6144b2de21be479e1db883bbc3, line 44\r\n",
        "-NOPERM no settles script: 00000000aa3f6144b2de21be479e1db883bbc300, line 7\r\n"};
    life l;
    (void)state;
    open_node(&l);
    live(&l, 30, -1, NULL);
    while (l.now < 150000)
        live(&l, 1, SRT_ASK_SETTLE, words[l.now / 1000 % 2]);
    assert_int_equal(l.warned, 3);
    assert_non_null(strstr(l.warning, " more refusals were not logged): "));
    l.warned = 0;
    live(&l, 100, -1, NULL);
    assert_int_equal(l.warned, 0);
    live(&l, 100, SRT_ASK_SETTLE, words[0]);
    assert_int_equal(l.warned, 1);
    srt_node_free(l.node);
}

/* Redis has a right of each kind that the user lacks: more causes than a node remembers. None of them is left out. */
static void test_each_cause_of_a_refusal_is_told(void **state)
{
    char words[64];
    life l;
    int i;
    (void)state;
    open_node(&l);
    live(&l, 30, -1, NULL);
    for (i = 0; i < 2 * SRT_REFUSALS; i++) {
        snprintf(words, sizeof words, "-NOPERM the word %c\r\n", 'a' + i);
        assert_true(live(&l, 200, SRT_ASK_HEARTBEAT, words));
    }
    assert_int_equal(l.warned, 2 * SRT_REFUSALS);
    srt_node_free(l.node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_survives_foreign_answers_to_each_request),
        cmocka_unit_test(test_a_refusal_of_each_heartbeat_is_told_once_a_minute),
        cmocka_unit_test(test_a_refusal_of_a_shard_is_told_once_a_minute),
        cmocka_unit_test(test_each_cause_of_a_refusal_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_reshard_action.c - the action that gives a queue another number of shards: what it refuses, what it does when it
 * is repeated or ends early, and what metrics say meanwhile. Servers are real nodes on a real redis-server.
 */
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

#define SRT_SCRIPT_TEXTS
#include "live_node.h"
#include "model/stored.h"
#include "pop_fixture.h"
#include "port.h"
#include "reshard_fixture.h"

#define IDS 60

static const push_options later = {.delay = 3600};

static const char *id_of(int i)
{
    static char ids[4][32];
    static int next;
    char *id = ids[next++ % 4];
    snprintf(id, sizeof ids[0], "id-%d", i);
    return id;
}

static void fill_waiting(const fixture *f)
{
    int i;
    for (i = 0; i < IDS; i++)
        push(f, id_of(i), "1", later);
}

/* 1: it has begun. */
static int64_t reshard(const fixture *f, const char *shards)
{
    return act_on(f, SERIATIM_RESHARD, shards);
}

static int begin(const fixture *f, const char *shards)
{
    seriatim_text number = text(shards);
    int status = seriatim_action_begin(f->client, f->queue, SERIATIM_RESHARD, &number, 1);
    return status == SERIATIM_OK ? drive(f->link) : status;
}

static void refuses(const fixture *f, const char *shards, const char *message)
{
    char before[64], after[64];
    redisReply *layout = redis("GET seriatim:{Q}:layout");
    snprintf(before, sizeof before, "%s", layout->str ? layout->str : "");
    freeReplyObject(layout);
    assert_int_equal(begin(f, shards), SERIATIM_INVALID);
    assert_string_equal(seriatim_client_error(f->client)->message, message);
    layout = redis("GET seriatim:{Q}:layout");
    snprintf(after, sizeof after, "%s", layout->str ? layout->str : "");
    freeReplyObject(layout);
    assert_string_equal(before, after);
}

/* from 0: no ids move. */
static seriatim_resharding resharding(const fixture *f)
{
    static const seriatim_resharding none_moves;
    const seriatim_resharding *found;
    done(f, seriatim_metrics_begin(f->client, f->queue));
    found = seriatim_metrics_resharding(f->client);
    return found ? *found : none_moves;
}

static int is_paused(unsigned shard)
{
    redisReply *reply = redis("GET seriatim:{Q/%u}:state", shard);
    int paused = reply->str[SRT_STATE_FLAGS] & SRT_FLAG_PAUSED;
    freeReplyObject(reply);
    return paused;
}

static int stored_in(unsigned shards)
{
    int i, found = 0;
    for (i = 0; i < IDS; i++) {
        char *here = stored_of(id_of(i), shards);
        found += *here != '\0';
        free(here);
    }
    return found;
}

static void test_r_reshard_2_what_is_refused_is_named_and_nothing_is_written(void **state)
{
    fixture f = open_queue(3, "list");
    (void)state;
    refuses(&f, "5", "there is no queue \"Q\" yet: its first push or server makes it");
    fill_waiting(&f);
    refuses(&f, "0", "shards must be a whole number from 1 to 4096, not \"0\"");
    refuses(&f, "4097", "shards must be a whole number from 1 to 4096, not \"4097\"");
    refuses(&f, "-3", "shards must be a whole number from 1 to 4096, not \"-3\"");
    refuses(&f, "99999999999999999999", "shards must be a whole number from 1 to 4096, not \"99999999999999999999\"");
    refuses(&f, "", "shards must be a whole number from 1 to 4096, not \"\"");
    assert_int_equal(reshard(&f, "3"), 0); /* it has that number */
    assert_true(live_is_quiet(3));
    assert_int_equal(number("EXISTS seriatim:{Q/0}:reshard seriatim:{Q/1}:reshard seriatim:{Q/2}:reshard"), 0);
    assert_int_equal(reshard(&f, "5"), 1);
    refuses(
        &f, "7",
        "shards must be 5, not 7, while the ids of the queue \"Q\" move from 3 to 5 shards: wait until that has ended");
    refuses(
        &f, "3",
        "shards must be 5, not 3, while the ids of the queue \"Q\" move from 3 to 5 shards: wait until that has ended");
    close_queue(&f);
}

static void test_r_reshard_2_a_number_of_an_outbox_of_an_earlier_version_is_refused(void **state)
{
    fixture f = open_queue(3, "list");
    (void)state;
    fill_waiting(&f);
    REDIS("SET seriatim:{Q/2}:outbox:orders 7");
    refuses(
        &f, "5",
        "an earlier version wrote the number of an outbox into seriatim:{Q/2}:outbox:orders, and it cannot be moved: "
        "delete the key when no row waits in the outbox");
    REDIS("DEL seriatim:{Q/2}:outbox:orders");
    REDIS("SET seriatim:{Qq/2}:outbox:orders 7"); /* of another queue */
    assert_int_equal(reshard(&f, "5"), 1);
    REDIS("DEL seriatim:{Qq/2}:outbox:orders");
    close_queue(&f);
}

/* Both are sent behind the new layout, so a user who lacks one of them is told before it is written. */
static void test_r_reshard_2_a_user_who_may_not_ask_for_replicas_is_refused(void **state)
{
    static const char *const commands[] = {"role", "wait"};
    fixture f = open_queue(3, "list"), limited = f;
    seriatim_error error;
    char text[160];
    size_t i;
    (void)state;
    fill_waiting(&f);
    for (i = 0; i < 2; i++) {
        redisReply *before = redis("GET seriatim:{Q}:layout"), *after;
        snprintf(text, sizeof text, "ACL SETUSER limited on >secret ~* &* +@all -%s", commands[i]);
        REDIS(text);
        snprintf(text, sizeof text, "unix://limited:secret@%s", server.socket);
        assert_int_equal(seriatim_link_new(NULL, text, &limited.link, &error), SERIATIM_OK);
        limited.client = seriatim_link_client(limited.link);
        limited.queue = add_queue(limited.client, "Q", 1, 3, "list");
        assert_int_equal(begin(&limited, "5"), SERIATIM_AUTH);
        assert_non_null(strstr(seriatim_client_error(limited.client)->message, commands[i]));
        after = redis("GET seriatim:{Q}:layout");
        assert_string_equal(before->str, after->str);
        freeReplyObject(before);
        freeReplyObject(after);
        seriatim_link_free(limited.link);
        REDIS("ACL DELUSER limited");
    }
    close_queue(&f);
}

static void test_r_reshard_2_a_server_that_cannot_move_ids_is_named(void **state)
{
    fixture f = open_queue(3, "list");
    char description[64];
    (void)state;
    push(&f, "a", "1", later);
    REDIS("ZADD seriatim:{/nodes}:alive 9000000000000 old");
    snprintf(description, sizeof description, "b %08x;lease=1000|", (unsigned)srt_crc32("Q", 1));
    REDIS("HSET seriatim:{/nodes}:info old %s", description);
    assert_int_equal(begin(&f, "5"), SERIATIM_UNSUPPORTED);
    assert_string_equal(seriatim_client_error(f.client)->message,
                        "the node old serves the queue \"Q\" and is of a version that cannot move ids; restart it with "
                        "this version first");
    REDIS("DEL seriatim:{/nodes}:alive seriatim:{/nodes}:info");
    assert_true(live_is_quiet(3));
    close_queue(&f);
}

static void test_r_reshard_1_servers_move_the_ids_and_metrics_say_how_far_they_are(void **state)
{
    fixture f = open_queue(3, "list");
    seriatim_resharding r;
    live_node n;
    (void)state;
    live_lease_ms = 20000; /* the server is alive in Redis also while it takes no steps */
    fill_waiting(&f);
    assert_int_equal(resharding(&f).from, 0);
    assert_int_equal(reshard(&f, "6"), 1);
    assert_int_equal(reshard(&f, "6"), 0);
    r = resharding(&f);
    assert_int_equal(r.from, 3);
    assert_int_equal(r.to, 6);
    assert_int_equal(r.shards_left, 3);
    assert_int_equal(r.ids_moved, 0);
    assert_in_range(r.ids_left, IDS / 2 - 3, IDS / 2 + 3); /* half of them, each shard rounded */
    assert_int_equal(metrics(&f).length, IDS);
    live_start(&n, "mover", 3, 0, NULL);
    live_move(&n, 1, 6);
    assert_int_equal(resharding(&f).from, 0);
    assert_int_equal(stored_in(6), IDS);
    assert_int_equal(reshard(&f, "6"), 0);
    assert_int_equal(reshard(&f, "1"), 1); /* the server hears of it by a message */
    r = resharding(&f);
    assert_int_equal(r.from, 6);
    assert_int_equal(r.to, 1);
    live_move(&n, 1, 1);
    assert_int_equal(stored_in(1), IDS);
    assert_int_equal(metrics(&f).length, IDS);
    live_lease_ms = 1000;
    live_stop(&n);
    assert_string_equal(kinds_found(&f, SERIATIM_NO_QUEUE, 0), "");
    close_queue(&f);
}

static void test_r_reshard_1_metrics_count_ids_that_have_moved(void **state)
{
    fixture f = open_queue(2, "list");
    seriatim_resharding r;
    move m;
    size_t moved = 0, now;
    (void)state;
    fill_waiting(&f);
    move_begin(&m, 1);
    while ((now = move_source(&m, 1)) > 0)
        moved += now;
    assert_true(moved > 0 && moved < IDS);
    r = resharding(&f);
    assert_int_equal(r.ids_moved, moved);
    assert_int_equal(r.ids_left, 0);
    assert_int_equal(r.shards_left, 2);
    close_queue(&f);
}

/* As a command that is killed behind its first write: the layout is there, and no shard is turned. */
static void write_layout(const char *words)
{
    redisReply *time = redis("TIME");
    REDIS("SET seriatim:{Q}:layout %s%06d%s", time->element[0]->str, atoi(time->element[1]->str), words);
    freeReplyObject(time);
}

/* The next command turns what is not turned. */
static void test_r_reshard_3_an_action_that_ended_early_is_brought_to_its_end(void **state)
{
    fixture f = open_queue(3, "list");
    live_node n;
    (void)state;
    fill_waiting(&f);
    act(&f, SERIATIM_PAUSE);
    write_layout(" 5 4 3 5 paused");
    assert_int_equal(reshard(&f, "5"), 0);
    assert_true(is_paused(3) && is_paused(4));
    assert_int_equal(resharding(&f).shards_left, 3);
    live_start(&n, "mover", 3, 0, NULL);
    live_move(&n, 1, 5);
    assert_int_equal(stored_in(5), IDS);
    live_stop(&n);
    close_queue(&f);
}

/* The last server died when it had written the layout that ends the move, so no shard is turned to it. */
static void turns_behind_an_ended_move(unsigned from, unsigned to, const char *layout)
{
    fixture f = open_queue((int64_t)from, "list");
    unsigned shard;
    char shards[16];
    move m;
    fill_waiting(&f);
    move_begin(&m, to);
    for (shard = 0; shard < from; shard++)
        while (move_source(&m, shard) > 0)
            continue;
    write_layout(layout);
    snprintf(shards, sizeof shards, "%u", to);
    assert_int_equal(reshard(&f, shards), 0);
    push(&f, "a", "1", later);
    assert_int_equal(metrics(&f).length, IDS + 1);
    assert_int_equal(reshard(&f, shards), 0);
    close_queue(&f);
}

static void test_r_reshard_3_shards_behind_a_move_that_has_ended_are_turned(void **state)
{
    (void)state;
    turns_behind_an_ended_move(5, 3, " 3 4 0 5");
    turns_behind_an_ended_move(3, 5, " 5 3");
}

/* Whoever began the move died behind its first write as well, so the servers open the shards. */
static void test_r_reshard_3_servers_open_shards_that_were_closed_for_a_deletion(void **state)
{
    fixture f = open_queue(3, "list");
    live_node n;
    unsigned shard;
    (void)state;
    fill_waiting(&f);
    for (shard = 0; shard < 2; shard++)
        freeReplyObject(ON_SHARD(shard, close, "2"));
    write_layout(" 5 4 3 5");
    live_start(&n, "mover", 3, 0, NULL);
    live_move(&n, 1, 5);
    assert_int_equal(stored_in(5), IDS);
    live_stop(&n);
    close_queue(&f);
}

/* Poppers, whose random identities decide which shard they ask first. */
static void test_r_reshard_4_a_popper_makes_no_shard_before_its_turn(void **state)
{
    fixture f = open_queue(3, "list");
    redisReply *layout;
    unsigned shard;
    int i;
    (void)state;
    fill_waiting(&f);
    act(&f, SERIATIM_PAUSE);
    write_layout(" 5 4 3 5 paused");
    layout = redis("GET seriatim:{Q}:layout");
    for (shard = 0; shard < 3; shard++)
        assert_string_equal(turn_shard(shard, layout->str), "OK");
    freeReplyObject(layout);
    for (i = 0; i < 10; i++) {
        fixture popper = another(0, "list");
        seriatim_pop settings = plainly(&popper, 30);
        assert_int_equal(seriatim_pop_begin(popper.client, &settings), SERIATIM_OK);
        while (seriatim_link_step(popper.link) == SERIATIM_AGAIN && srt_client_sleeps(popper.client) < 0)
            seriatim_link_wait(popper.link);
        assert_true(srt_client_sleeps(popper.client) >= 0); /* until the shard is turned */
        seriatim_link_free(popper.link);
    }
    assert_int_equal(number("EXISTS seriatim:{Q/3}:state seriatim:{Q/4}:state"), 0);
    assert_int_equal(reshard(&f, "5"), 0);
    assert_true(is_paused(3) && is_paused(4));
    close_queue(&f);
}

/* Shards that the queue had before are paused as those that it has. */
static void test_r_reshard_4_a_paused_queue_stays_paused_and_another_is_not(void **state)
{
    fixture f = open_queue(5, "list");
    live_node n;
    unsigned shard;
    (void)state;
    live_lease_ms = 20000;
    fill_waiting(&f);
    live_start(&n, "mover", 5, 0, NULL);
    assert_int_equal(reshard(&f, "2"), 1);
    live_move(&n, 1, 2);
    act(&f, SERIATIM_PAUSE);
    assert_int_equal(reshard(&f, "5"), 1);
    for (shard = 0; shard < 5; shard++)
        assert_true(is_paused(shard));
    live_move(&n, 1, 5);
    assert_int_equal(reshard(&f, "3"), 1);
    live_move(&n, 1, 3);
    act(&f, SERIATIM_RESUME);
    assert_int_equal(reshard(&f, "7"), 1);
    live_move(&n, 1, 7);
    for (shard = 0; shard < 7; shard++)
        assert_false(is_paused(shard));
    assert_int_equal(stored_in(7), IDS);
    live_lease_ms = 1000;
    live_stop(&n);
    close_queue(&f);
}

/* One round of an operation that has not ended, which waits for an answer. */
static void step_on(seriatim_link *link, int *status)
{
    if (*status == SERIATIM_AGAIN && (*status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        seriatim_link_wait(link);
}

/* reads_first: the operator has read the layout before the move begins. Returns whether the move had begun before the
 * operator acts. */
static int act_beside_reshard(int kind, int reads_first, int rounds)
{
    static const seriatim_text three = {"3", 1};
    fixture f = open_queue(2, "list"), other = another(2, "list");
    int moves = SERIATIM_AGAIN, acts = SERIATIM_AGAIN, i, has_begun;
    unsigned shard;
    for (i = 0; i < 8; i++)
        push(&f, id_of(i), "1", later);
    if (kind == SERIATIM_RESUME)
        act(&other, SERIATIM_PAUSE);
    if (reads_first) {
        assert_int_equal(seriatim_action_begin(other.client, other.queue, kind, NULL, 0), SERIATIM_OK);
        step_on(other.link, &acts);
    }
    assert_int_equal(seriatim_action_begin(f.client, f.queue, SERIATIM_RESHARD, &three, 1), SERIATIM_OK);
    for (i = 0; i < rounds; i++)
        step_on(f.link, &moves);
    has_begun = moves != SERIATIM_AGAIN;
    if (!reads_first)
        assert_int_equal(seriatim_action_begin(other.client, other.queue, kind, NULL, 0), SERIATIM_OK);
    while (moves == SERIATIM_AGAIN || acts == SERIATIM_AGAIN) {
        for (i = 0; i < 10; i++)
            step_on(other.link, &acts);
        step_on(f.link, &moves);
    }
    assert_int_equal(moves, SERIATIM_OK);
    assert_int_equal(acts, SERIATIM_OK);
    for (shard = 0; shard < 3; shard++)
        if (!is_paused(shard) != (kind == SERIATIM_RESUME))
            fail_msg("shard %u behind %d rounds, reads first: %d", shard, rounds, reads_first);
    seriatim_link_free(other.link);
    close_queue(&f);
    return has_begun;
}

/* Behind how much of its beginning depends on how fast Redis answers; test_reshard_client.c has each answer alone. */
static void test_r_reshard_4_a_pause_or_resume_while_a_move_begins_counts_for_all_shards(void **state)
{
    static const int kinds[] = {SERIATIM_PAUSE, SERIATIM_RESUME};
    int i, rounds;
    (void)state;
    for (i = 0; i < 4; i++)
        for (rounds = 0; !act_beside_reshard(kinds[i % 2], i / 2, rounds); rounds++)
            continue;
}

/* Only the second shard has the next layout at first, so the ids of both are asked for again when that is written. */
static int64_t act_while_the_layout_changes(const fixture *f, int kind)
{
    redisReply *time = redis("TIME");
    char layout[64];
    seriatim_text ids[2];
    unsigned shard;
    int i;
    snprintf(layout, sizeof layout, "%s%06d 3 4 2 3", time->element[0]->str, atoi(time->element[1]->str));
    freeReplyObject(time);
    for (shard = 0; shard < 2; shard++) {
        for (i = 0; seriatim_shard_of(id_of(i), strlen(id_of(i)), 2) != shard; i++)
            continue;
        ids[shard] = text(id_of(i));
    }
    assert_string_equal(turn_shard(1, layout), "OK");
    assert_int_equal(seriatim_action_begin(f->client, f->queue, kind, ids, 2), SERIATIM_OK);
    for (i = 0; i < 40; i++) {
        assert_int_equal(seriatim_link_step(f->link), SERIATIM_AGAIN);
        pause_ms(1);
    }
    REDIS("SET seriatim:{Q}:layout %s", layout);
    assert_string_equal(turn_shard(0, layout), "OK");
    assert_string_equal(turn_shard(2, layout), "OK");
    assert_int_equal(drive(f->link), SERIATIM_OK);
    return seriatim_action_result(f->client);
}

static void test_ids_that_are_asked_for_again_count_once(void **state)
{
    static const int kinds[] = {SERIATIM_PARK, SERIATIM_DELETE};
    size_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        fixture f = open_queue(2, "list");
        char run[64];
        int n;
        acquire(&f, "n1");
        for (n = 0; n < 8; n++)
            push(&f, id_of(n), "1", none);
        assert_true(claim(&f, "8", run) > 0); /* those of shard 0 */
        assert_int_equal(act_while_the_layout_changes(&f, kinds[i]), 2);
        close_queue(&f);
    }
}

static void test_a_move_whose_ids_have_left_ends_while_redis_is_full(void **state)
{
    fixture f = open_queue(3, "list");
    unsigned shard;
    live_node n;
    move m;
    (void)state;
    fill_waiting(&f);
    move_begin(&m, 5);
    for (shard = 0; shard < 3; shard++)
        while (move_source(&m, shard) > 0)
            continue;
    REDIS("CONFIG SET maxmemory 1");
    REDIS("CONFIG SET maxmemory-policy noeviction");
    live_start(&n, "mover", 3, 0, NULL);
    live_move(&n, 1, 5);
    REDIS("CONFIG SET maxmemory 0");
    assert_int_equal(stored_in(5), IDS);
    live_stop(&n);
    close_queue(&f);
}

static void test_r_reshard_2_the_largest_number_of_shards_is_taken(void **state)
{
    fixture f = open_queue(1, "list");
    redisReply *reply;
    (void)state;
    push(&f, "a", "1", later);
    assert_int_equal(reshard(&f, "4096"), 1);
    reply = redis("EXISTS seriatim:{Q/4095}:state");
    assert_int_equal(reply->integer, 1);
    freeReplyObject(reply);
    assert_int_equal(resharding(&f).to, 4096);
    push(&f, "a", "2", later);
    push(&f, "b", "1", later);
    assert_int_equal(metrics(&f).length, 2);
    close_queue(&f);
}

static void test_r_reshard_6_explain_says_that_an_id_is_to_move_or_on_its_way(void **state)
{
    fixture f = open_queue(2, "list");
    char waits[64], moves[64];
    const char *id = "a";
    redisReply *batch;
    unsigned from, to;
    move m;
    int i;
    (void)state;
    for (i = 0, from = to = 0; from == to; i++) {
        id = id_of(i);
        from = seriatim_shard_of(id, strlen(id), 2);
        to = seriatim_shard_of(id, strlen(id), 3);
    }
    snprintf(waits, sizeof waits, "; a server is to move it from shard %u to shard %u", from, to);
    snprintf(moves, sizeof moves, "it is on its way from shard %u to shard %u", from, to);
    push(&f, id, "1", later);
    assert_null(strstr(explain(&f, id)->text, "shard 2"));
    move_begin(&m, 3);
    assert_non_null(strstr(explain(&f, id)->text, waits));
    assert_int_equal(explain(&f, id)->job.shard, from);
    batch = depart(&m, from, id);
    assert_non_null(strstr(explain(&f, id)->text, moves));
    assert_int_equal(bring(&m, from, batch), 1);
    freeReplyObject(batch);
    assert_null(strstr(explain(&f, id)->text, "from shard"));
    assert_string_equal(explain(&f, id)->job.state, "delayed");
    assert_int_equal(explain(&f, id)->job.shard, to);
    assert_non_null(strstr(explain(&f, "unknown")->text, "nothing waits or runs under this id"));
    close_queue(&f);
}

static void test_r_reshard_7_counters_do_not_fall_when_a_queue_is_given_fewer_shards(void **state)
{
    static live_log ran;
    fixture f = open_queue(4, "list");
    live_node n;
    int i;
    (void)state;
    live_lease_ms = 20000;
    for (i = 0; i < IDS; i++)
        push(&f, id_of(i), "1", none);
    live_start(&n, "mover", 4, 2, &ran);
    for (i = 0; i < LIVE_MOST_MS && metrics(&f).processed < IDS; i++)
        live_step(&n);
    assert_int_equal(reshard(&f, "1"), 1);
    live_move(&n, 1, 1);
    assert_int_equal(metrics(&f).processed, IDS);
    live_lease_ms = 1000;
    live_stop(&n);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r_reshard_2_what_is_refused_is_named_and_nothing_is_written),
        cmocka_unit_test(test_r_reshard_2_a_number_of_an_outbox_of_an_earlier_version_is_refused),
        cmocka_unit_test(test_r_reshard_2_a_user_who_may_not_ask_for_replicas_is_refused),
        cmocka_unit_test(test_r_reshard_2_a_server_that_cannot_move_ids_is_named),
        cmocka_unit_test(test_r_reshard_1_servers_move_the_ids_and_metrics_say_how_far_they_are),
        cmocka_unit_test(test_r_reshard_1_metrics_count_ids_that_have_moved),
        cmocka_unit_test(test_r_reshard_3_an_action_that_ended_early_is_brought_to_its_end),
        cmocka_unit_test(test_r_reshard_3_shards_behind_a_move_that_has_ended_are_turned),
        cmocka_unit_test(test_r_reshard_3_servers_open_shards_that_were_closed_for_a_deletion),
        cmocka_unit_test(test_r_reshard_4_a_popper_makes_no_shard_before_its_turn),
        cmocka_unit_test(test_r_reshard_4_a_paused_queue_stays_paused_and_another_is_not),
        cmocka_unit_test(test_r_reshard_4_a_pause_or_resume_while_a_move_begins_counts_for_all_shards),
        cmocka_unit_test(test_ids_that_are_asked_for_again_count_once),
        cmocka_unit_test(test_a_move_whose_ids_have_left_ends_while_redis_is_full),
        cmocka_unit_test(test_r_reshard_2_the_largest_number_of_shards_is_taken),
        cmocka_unit_test(test_r_reshard_6_explain_says_that_an_id_is_to_move_or_on_its_way),
        cmocka_unit_test(test_r_reshard_7_counters_do_not_fall_when_a_queue_is_given_fewer_shards),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

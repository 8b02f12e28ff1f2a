/* test_reshard.c - the scripts that move ids from shard to shard, against a real redis-server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "reshard_fixture.h"

#define IDS 32
#define SCORE_PACKED "@@@@@@@@"

/* ---- Ids in each state, all in shard 0 of 3 ----------------------------------------------- */

static char ids[IDS][32];
static size_t id_count;

/* An id that begins with `name` and lies in shard 0 of 3, but not of 4 or 7; it is kept in `ids`. */
static const char *new_id(const char *name)
{
    char *id = ids[id_count++];
    int i;
    for (i = 0; i == 0 || seriatim_shard_of(id, strlen(id), 3) != 0 || seriatim_shard_of(id, strlen(id), 4) == 0 ||
                seriatim_shard_of(id, strlen(id), 7) == 0;
         i++)
        snprintf(id, sizeof ids[0], "%s%d", name, i);
    return id;
}

static fixture open_shards(void)
{
    fixture f = open_queue(3, "merge");
    id_count = 0;
    f.history = "20";
    REDIS("HSET seriatim:{Q}:settings history_per_id 20 remember_score 600000000");
    return f;
}

static void take_shard(fixture *f, const char *from, const char *node)
{
    redisReply *reply = from[0] ? SCRIPT(acquire, node, "0", from, f->lease) : acquire_seen(node, "0");
    assert_string_equal(reply->element[0]->str, "OK");
    strcpy(f->lease, reply->element[1]->str);
    strcpy(f->seen, reply->element[2]->str);
    freeReplyObject(reply);
    recover_all(f);
}

static void claim_in_doubt(fixture *f)
{
    redisReply *reply = SCRIPT(claim, f->lease, f->seen, "1", "1", "0", "merge", "20", "25", "bury");
    strcpy(f->seen, reply->element[1]->str);
    assert_int_equal(reply->elements, 10);
    freeReplyObject(reply);
}

static void settle_scored(fixture *f, const char *id, const char *run)
{
    char sequence[16];
    snprintf(sequence, sizeof sequence, "%d", ++f->settles);
    freeReplyObject(
        SCRIPT(settle, f->lease, sequence, "merge", "0", "done", id, run, "600000000", SCORE_PACKED, "0", ""));
}

static void schedule_many(const fixture *f, const char *id, int count)
{
    char payload[32];
    int i;
    done(f, seriatim_push_begin(f->client, f->queue));
    for (i = 0; i < count; i++) {
        snprintf(payload, sizeof payload, "s%d", i);
        add_scheduled(f, id, payload, strlen(payload), 3600 + i);
    }
    done(f, seriatim_push_send(f->client));
}

static void fill_doubt(fixture *f)
{
    const char *suspect = new_id("suspect"), *unproven;
    char run[64];
    push(f, suspect, "1", none);
    assert_int_equal(claim(f, "1", run), 1);
    take_shard(f, "n1", "n2");
    claim_in_doubt(f);
    take_shard(f, "n2", "n3");
    unproven = new_id("unproven");
    push(f, unproven, "1", none);
    assert_int_equal(claim(f, "1", run), 1);
    take_shard(f, "n3", "n4");
}

static void fill_dead(fixture *f)
{
    const char *dead = new_id("dead");
    char run[64];
    int i;
    for (i = 0; i < 60; i++) {
        char payload[64];
        snprintf(payload, sizeof payload, "a payload that is rather long, to be spilled %d", i);
        push(f, dead, payload, none);
        assert_int_equal(claim(f, "1", run), 1);
        settle_failed(f, dead, run, "0", "bury");
    }
    dead = new_id("onedead");
    push(f, dead, "1", none);
    assert_int_equal(claim(f, "1", run), 1);
    settle_failed(f, dead, run, "0", "bury");
}

/* Nothing that the other functions fill may be due then. */
static void fill_waiting(fixture *f)
{
    push_options options = {0, 7, 0, "{\"a\":\"b\"}"};
    const char *id = new_id("plain");
    push(f, id, "1", none);
    id = new_id("both");
    push(f, id, "2", options);
    push(f, id, "1", options);
    push_later(f, new_id("delayed"), "1", 3600);
    push_failed(f, new_id("retried"), "1", 4, 3600);
    id = new_id("large");
    push(f, id, large('x'), options);
    id = new_id("many");
    push_many(f, id, 0, 700);
    push(f, id, "with a context", options);
    id = new_id("parked");
    push(f, id, "1", none);
    assert_int_equal(act_on(f, SERIATIM_PARK, id), 1);
    schedule_many(f, new_id("scheduled"), 3);
    id = new_id("waits_and_scheduled");
    push(f, id, "1", none);
    schedule_many(f, id, 1);
    schedule_many(f, new_id("many_scheduled"), 1200);
}

static void fill_shard(fixture *f)
{
    const char *id;
    char run[64];
    push(f, new_id("first"), "1", none);
    take_shard(f, "", "n1");
    assert_int_equal(claim(f, "1", run), 1);
    settle_scored(f, ids[0], run);
    fill_doubt(f);
    fill_dead(f);
    id = new_id("boom");
    push(f, id, large('y'), none);
    assert_int_equal(claim(f, "1", run), 1);
    settle_failed(f, id, run, "5", "bury");
    fill_waiting(f);
}

static size_t keys_of(unsigned shard, const char *name)
{
    redisReply *reply = redis("EXISTS seriatim:{Q/%u}:%s", shard, name);
    size_t count = (size_t)reply->integer;
    freeReplyObject(reply);
    return count;
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void test_all_that_is_stored_of_an_id_moves_as_it_is(void **state)
{
    static const unsigned counts[] = {8, 2, 5};
    fixture f = open_shards();
    char *before[IDS];
    unsigned shard, shards = 3;
    size_t i, k;
    move m;
    (void)state;
    fill_shard(&f);
    assert_int_equal(findings(&f, 0), 0);
    for (i = 0; i < id_count; i++) {
        before[i] = stored_of(ids[i], 3);
        assert_true(before[i][0] != '\0');
    }
    for (k = 0; k < sizeof counts / sizeof *counts; k++) {
        shards = counts[k];
        move_begin(&m, shards);
        move_all(&m);
        for (i = 0; i < id_count; i++) {
            char *after = stored_of(ids[i], shards);
            assert_string_equal(after, before[i]);
            free(after);
            for (shard = 0; shard < 8; shard++)
                assert_int_equal(is_stored(shard, ids[i]), shard == seriatim_shard_of(ids[i], strlen(ids[i]), shards));
        }
    }
    for (shard = 0; shard < 8; shard++) {
        assert_int_equal(keys_of(shard, "leaving"), 0);
        assert_int_equal(keys_of(shard, "moving"), 0);
    }
    assert_int_equal(findings(&f, 0), 0);
    for (i = 0; i < id_count; i++)
        free(before[i]);
    close_queue(&f);
}

/*
 * A mover dies before each of its calls; the next one finds the open batch and goes on. The batch has this number of
 * ids: one that has payloads in slices, and one that has none where the first leaves room for it.
 */
static void dies_at_any_call(int payloads, int scheduled, size_t of_batch, size_t calls)
{
    size_t until;
    int alive = 0;
    for (until = 1; !alive; until++) {
        fixture f = open_shards();
        char *before[IDS];
        move m;
        redisReply *batch;
        size_t i;
        push_many(&f, new_id("many"), 0, payloads);
        schedule_many(&f, ids[0], scheduled);
        push(&f, new_id("plain"), "1", none);
        for (i = 0; i < id_count; i++)
            before[i] = stored_of(ids[i], 3);
        move_begin(&m, 7);
        batch = ON_SHARD(0, depart, m.generation, ids[0], "", ids[1], "");
        assert_int_equal(batch->elements, 3 + 3 * of_batch);
        m.until = until;
        alive = bring(&m, 0, batch);
        freeReplyObject(batch);
        m.until = 0;
        batch = depart(&m, 0, "");
        assert_true(bring(&m, 0, batch));
        freeReplyObject(batch);
        move_all(&m);
        for (i = 0; i < id_count; i++) {
            char *after = stored_of(ids[i], 7);
            assert_string_equal(after, before[i]);
            free(after);
            free(before[i]);
        }
        assert_int_equal(findings(&f, 0), 0);
        close_queue(&f);
    }
    assert_true(until > calls);
}

static void test_a_mover_that_dies_at_any_call_loses_and_doubles_nothing(void **state)
{
    (void)state;
    dies_at_any_call(300, 620, 1, 12);
    dies_at_any_call(60, 20, 2, 5);
}

/* A copy of a command lies in a connection that has ended, and is executed later. */
static void test_each_step_of_a_batch_may_be_sent_twice(void **state)
{
    fixture f = open_shards();
    const char *id;
    char *before, *after, number[16];
    redisReply *batch, *again, *reply;
    shard_call call;
    unsigned target;
    move m;
    (void)state;
    push(&f, id = new_id("twice"), "1", none);
    before = stored_of(id, 3);
    move_begin(&m, 4);
    batch = depart(&m, 0, id);
    again = depart(&m, 0, id);
    assert_string_equal(again->element[0]->str, batch->element[0]->str);
    assert_int_equal(again->elements, batch->elements);
    freeReplyObject(again);
    assert_true(bring(&m, 0, batch));
    assert_true(bring(&m, 0, batch));
    target = seriatim_shard_of(id, strlen(id), 4);
    after = stored_of(id, 4);
    assert_string_equal(after, before);
    free(after);

    CALL(&call, target, arrive, m.generation);
    snprintf(number, sizeof number, "%u", 0U);
    call_text(&call, number);
    call_text(&call, batch->element[0]->str);
    call_text(&call, "0");
    call_text(&call, "merge");
    call_text(&call, "0");
    call_bytes(&call, batch->element[3]->str, batch->element[3]->len);
    call_bytes(&call, batch->element[4]->str, batch->element[4]->len);
    reply = call_send(&call, 0);
    assert_string_equal(reply->element[0]->str, "AGAIN");
    freeReplyObject(reply);
    freeReplyObject(batch);
    free(before);
    close_queue(&f);
}

static void test_an_id_that_runs_leaves_when_its_run_has_ended(void **state)
{
    fixture f = open_shards();
    const char *id;
    char run[64], sequence[16];
    redisReply *reply;
    move m;
    (void)state;
    push(&f, id = new_id("runs"), "1", none);
    take_shard(&f, "", "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    push(&f, id, "2", none);
    move_begin(&m, 4);
    reply = depart(&m, 0, id);
    assert_string_equal(reply->element[0]->str, "0");
    assert_int_equal(reply->element[2]->integer, 1);
    freeReplyObject(reply);
    snprintf(sequence, sizeof sequence, "%d", ++f.settles);
    reply = ON_SHARD(0, settle, m.generation, f.lease, sequence, "merge", "1", run, "1", id);
    assert_int_equal(reply->element[0]->integer, 0);
    freeReplyObject(reply);
    /* What waited behind the run is there, and no claim takes it. */
    reply = ON_SHARD(0, claim, m.generation, f.lease, f.seen, "5", "0", "0", "merge", "0", "25", "bury");
    assert_int_equal(reply->elements, 8);
    freeReplyObject(reply);
    assert_int_equal(is_stored(0, id), 1);
    move_all(&m);
    assert_string_equal(payloads(&f, SERIATIM_FETCH, id), "2");
    assert_int_equal(is_stored(0, id), 0);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

static void test_fences_of_an_id_rise_when_its_shard_changes(void **state)
{
    fixture f = open_shards();
    const char *id = new_id("rises");
    redisReply *batch, *state_of;
    unsigned target = seriatim_shard_of(id, strlen(id), 7);
    double tick, there;
    move m;
    (void)state;
    push(&f, id, "1", none);
    move_begin(&m, 7);
    REDIS("SETRANGE seriatim:{Q/0}:state 8 %b", "\x00\x00\x00\x00\x00\x88\xc3\x42", (size_t)8); /* 4.3e13 µs */
    batch = depart(&m, 0, id);
    tick = atof(batch->element[1]->str);
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    state_of = redis("GETRANGE seriatim:{Q/%u}:state 8 15", target);
    memcpy(&there, state_of->str, 8);
    freeReplyObject(state_of);
    assert_true(there >= tick);
    close_queue(&f);
}

static void test_a_shard_with_an_open_batch_refuses_a_turn(void **state)
{
    fixture f = open_shards();
    const char *id;
    char text[64];
    redisReply *batch;
    move m;
    (void)state;
    push(&f, id = new_id("open"), "1", none);
    move_begin(&m, 4);
    batch = depart(&m, 0, id);
    snprintf(text, sizeof text, "9%s 5 4 4 5", m.generation);
    assert_string_equal(turn_shard(0, text), "OPEN");
    freeReplyObject(batch);
    close_queue(&f);
}

/* Who is refused can compare, and write back a layout that a failover has forgotten. */
static void test_a_refusal_says_the_layout_of_the_shard(void **state)
{
    fixture f = open_shards();
    char wanted[128];
    shard_call call;
    redisReply *reply;
    move m;
    (void)state;
    push(&f, new_id("a"), "1", none);
    move_begin(&m, 4);
    CALL(&call, 0, foreign, "1");
    call_text(&call, "jobs");
    call_text(&call, "0");
    reply = call_send(&call, 1);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    snprintf(wanted, sizeof wanted, "GENERATION %s %s", m.generation, m.layout);
    assert_string_equal(reply->str, wanted);
    freeReplyObject(reply);
    close_queue(&f);
}

static void test_an_arrival_without_all_slices_is_refused(void **state)
{
    fixture f = open_shards();
    const char *id;
    shard_call call;
    redisReply *batch, *reply;
    unsigned target;
    move m;
    (void)state;
    push_many(&f, id = new_id("many"), 0, 300);
    move_begin(&m, 4);
    batch = depart(&m, 0, id);
    assert_string_equal(batch->element[5]->str, "w");
    target = seriatim_shard_of(id, strlen(id), 4);
    CALL(&call, target, arrive, m.generation);
    call_text(&call, "0");
    call_text(&call, batch->element[0]->str);
    call_text(&call, batch->element[1]->str);
    call_text(&call, "merge");
    call_text(&call, "0");
    call_bytes(&call, batch->element[3]->str, batch->element[3]->len);
    call_bytes(&call, batch->element[4]->str, batch->element[4]->len);
    reply = call_send(&call, 0);
    assert_string_equal(reply->element[0]->str, "SLICES");
    assert_string_equal(reply->element[1]->str, id);
    freeReplyObject(reply);
    assert_int_equal(is_stored(target, id), 0);
    freeReplyObject(batch);
    close_queue(&f);
}

/* ---- What a batch costs ---------------------------------------------------------------------- */

#define MANY 50 /* ids of a batch */

/* Pushes ids that lie in shard `from` of 3 and in shard `to` of 4, and wait for an hour; they are separated by spaces.
 */
static const char *push_between(const fixture *f, unsigned from, unsigned to)
{
    static const push_options later = {.delay = 3600};
    static char texts[2][MANY * 16];
    static int next;
    char *text = texts[next++ % 2];
    int i, count;
    text[0] = '\0';
    for (i = count = 0; count < MANY; i++) {
        char id[16];
        snprintf(id, sizeof id, "many%d", i);
        if (seriatim_shard_of(id, strlen(id), 3) != from || seriatim_shard_of(id, strlen(id), 4) != to)
            continue;
        push(f, id, "1", later);
        snprintf(text + strlen(text), sizeof texts[0] - strlen(text), "%s ", id);
        count++;
    }
    return text;
}

/* Has shard 0 one claim, which is stored as a whole? */
static int is_whole_claim(void)
{
    redisReply *reply = redis("HVALS seriatim:{Q/0}:claims");
    int is = reply->elements == 1 && reply->element[0]->str[0] != 'x';
    freeReplyObject(reply);
    return is;
}

/* Spreading a claim makes its settle dearer, and batches follow one another quickly. */
static void test_a_batch_changes_no_claim_of_other_ids(void **state)
{
    fixture f = open_shards();
    const char *runs, *leave, *come;
    char run[64];
    redisReply *batch;
    move m;
    (void)state;
    push(&f, runs = new_id("runs"), "1", none);
    take_shard(&f, "", "n1");
    assert_int_equal(claim(&f, "1", run), 1);
    assert_true(is_whole_claim());
    leave = push_between(&f, 0, 1);
    come = push_between(&f, 1, 0);
    move_begin(&m, 4);
    batch = depart(&m, 0, leave);
    assert_int_equal(batch->elements, 3 + 3 * MANY);
    assert_true(bring(&m, 0, batch));
    freeReplyObject(batch);
    assert_true(is_whole_claim());
    batch = depart(&m, 1, come);
    assert_int_equal(batch->elements, 3 + 3 * MANY);
    assert_true(bring(&m, 1, batch));
    freeReplyObject(batch);
    assert_true(is_whole_claim());
    batch = depart(&m, 0, runs);
    assert_int_equal(batch->element[2]->integer, 1);
    freeReplyObject(batch);
    assert_false(is_whole_claim());
    close_queue(&f);
}

static long long commands_processed(void)
{
    redisReply *reply = redis("INFO commandstats");
    const char *at = reply->str;
    long long count = 0;
    while ((at = strstr(at, ":calls=")))
        count += strtoll(at += strlen(":calls="), NULL, 10);
    freeReplyObject(reply);
    return count;
}

/* Jobs wait while a batch moves. */
static void test_a_batch_of_ids_that_only_wait_takes_few_commands(void **state)
{
    fixture f = open_queue(3, "merge");
    const char *leave = push_between(&f, 0, 1);
    long long before;
    redisReply *batch;
    move m;
    (void)state;
    move_begin(&m, 4);
    before = commands_processed();
    batch = depart(&m, 0, leave);
    assert_in_range(commands_processed() - before, 1, 60);
    before = commands_processed();
    assert_true(bring(&m, 0, batch));
    assert_in_range(commands_processed() - before, MANY, MANY + 100);
    freeReplyObject(batch);
    assert_int_equal(findings(&f, 0), 0);
    close_queue(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_is_stored_of_an_id_moves_as_it_is),
        cmocka_unit_test(test_a_mover_that_dies_at_any_call_loses_and_doubles_nothing),
        cmocka_unit_test(test_each_step_of_a_batch_may_be_sent_twice),
        cmocka_unit_test(test_an_id_that_runs_leaves_when_its_run_has_ended),
        cmocka_unit_test(test_fences_of_an_id_rise_when_its_shard_changes),
        cmocka_unit_test(test_a_shard_with_an_open_batch_refuses_a_turn),
        cmocka_unit_test(test_a_refusal_says_the_layout_of_the_shard),
        cmocka_unit_test(test_an_arrival_without_all_slices_is_refused),
        cmocka_unit_test(test_a_batch_changes_no_claim_of_other_ids),
        cmocka_unit_test(test_a_batch_of_ids_that_only_wait_takes_few_commands),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

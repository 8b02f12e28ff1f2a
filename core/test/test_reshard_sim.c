/*
 * test_reshard_sim.c - clients, and nodes with their movers, on a real redis-server while a queue goes from 5 to 16 and
 * to 3 shards: in random schedules their bytes are late, connections end, and whoever moves ids, or begins a move, dies
 * at each point of a move. ROUNDS: the number of schedules of each point, and also the broken rules that take long to
 * be found; SEED: the first schedule; POINT, CONTROL: only this one, from 1.
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

#define SRT_SCRIPT_TEXTS
#include "reshard_sim.h"
#include "sim.h"

#define WARM_UP 300        /* steps before the first move */
#define MOST_STEPS 60000   /* until a move, or what follows, has ended */
#define MOST_ROUNDS 500    /* until somebody has died at a point, or a broken rule is found */
#define LARGE_PAYLOADS 700 /* of an id, which leaves in slices */

static const rsim_control controls[] = {
    {"a push creates in the old shard", "push", "if not old[i] and (", "if false and (", RSIM_DEPARTED, 0},
    {"an id that is on its way counts as moved", "push", "noted[i], count = left[id] and 'g' or 'm'",
     "noted[i], count = 'm'", RSIM_DEPARTED, 1},
    {"'moved' is believed after the layout has changed", "push",
     "elsewhere.away = find_elsewhere(PREFIX, ids, old, elsewhere)\n",
     "elsewhere.away = find_elsewhere(PREFIX, ids, old, elsewhere)\n"
     "for i = 1, n do\n"
     "local heard = 'heard:' .. ids[i] .. ':' .. ARGV[8 + WIDTH * (i - 1)]\n"
     "if elsewhere[i] == 'm' then call('SET', heard, 1)\n"
     "elseif not elsewhere[i] and call('EXISTS', heard) == 1 then elsewhere[i], elsewhere.away = 'm', elsewhere.away + "
     "1 end\n"
     "end\n",
     RSIM_LAYOUT_WRITTEN, 1},
    {"a push does not look into the old shard", "push", "if old[i] or noted and noted[i] ~= 'm' then", "if false then",
     RSIM_DEPARTED, 0},
    {"a push of one job does not look into the old shard", "push", "call('HEXISTS', prefix .. 'jobs', ARGV[7]) == 1",
     "false", RSIM_DEPARTED, 0},
    {"a push of one job takes what is on its way for moved", "push",
     "is_there or call('EXISTS', prefix .. 'leaving', prefix .. 'dead', prefix .. 'scores', prefix .. 'scheduled') == "
     "0",
     "true", RSIM_DEPARTED, 1},
    {"a push takes what is on its way for moved", "push", "noted and noted[i] ~= 'm' then",
     "noted and not noted[i] then", RSIM_DEPARTED, 1},
    {"an id that is there is not found by its name alone", "absent", "< #ids or", "< 0 or", RSIM_DEPARTED, 0},
    {"a batch arrives again", "arrive", "local is_again = sequence > 0 and", "local is_again = sequence < 0 and",
     RSIM_ARRIVED, 0},
    {"a batch has left before it arrives", "depart", "call('HSET', LEAVING, unpack(batch))", "", RSIM_DEPARTED, 0},
    {"an id leaves while it runs", "depart", "if runs[i] then", "if false then", RSIM_DEPARTED, 0},
};
#define CONTROLS (sizeof controls / sizeof *controls)

/* ---- The script that is broken ----------------------------------------------------------------- */

static const struct {
    const char *name, *text, *sha;
    size_t len;
} scripts[] = {
#define X(name, sha) {#name, srt_script_text_##name, sha, sizeof srt_script_text_##name - 1},
    SRT_SCRIPTS(X)
#undef X
};

static void break_script(rsim *s, const rsim_control *broken, char sha[41])
{
    size_t i = 0, place, found = 0, len = strlen(broken->from);
    srt_bytes text;
    redisReply *reply;
    while (strcmp(scripts[i].name, broken->script) != 0)
        i++;
    srt_bytes_init(&text, seriatim_default_allocator());
    for (place = 0; place < scripts[i].len; place++) /* a library may be in a script twice */
        if (place + len <= scripts[i].len && memcmp(scripts[i].text + place, broken->from, len) == 0) {
            srt_bytes_adds(&text, broken->to);
            place += len - 1;
            found++;
        } else {
            srt_bytes_add(&text, scripts[i].text + place, 1);
        }
    assert_true(found > 0);
    reply = redis("SCRIPT LOAD %b", text.data, text.len);
    snprintf(sha, 41, "%s", reply->str);
    s->sha = scripts[i].sha;
    s->mutant = sha;
    freeReplyObject(reply);
    srt_bytes_free(&text);
}

/* ---- A schedule -------------------------------------------------------------------------------- */

/* Often one that is on its way, or one of those that nearly always run: they have one shard before the first move. */
static int pick_id(rsim *s)
{
    static const int hot[] = {0, 4, 6, 7, 18, 23};
    if (s->leaving_count > 0 && rsim_below(s, 4) > 0)
        return s->leaving[rsim_below(s, s->leaving_count)];
    return rsim_below(s, 2) == 0 ? hot[rsim_below(s, sizeof hot / sizeof *hot)] : (int)rsim_below(s, RSIM_IDS);
}

static void push_begin(rsim *s, rsim_client *c)
{
    char payload[32];
    int i, most = 1 + (int)rsim_below(s, 4), is_large = rsim_below(s, 4) == 0;
    rsim_look(s);
    c->count = is_large ? 24 : most; /* a large one asks for ids alone first, and often none of them is there */
    assert_int_equal(seriatim_push_begin(c->client, 0), SERIATIM_OK);
    for (i = 0; i < c->count; i++) {
        seriatim_job job;
        c->ids[i] = i < most ? pick_id(s) : c->ids[i - most];
        c->payloads[i] = ++s->ids[c->ids[i]].sent[c->number];
        snprintf(payload, sizeof payload, "%d.%d", c->number, c->payloads[i]);
        seriatim_job_init(&job);
        job.id = rsim_name(c->ids[i]);
        job.id_len = strlen(job.id);
        job.payload = payload;
        job.payload_len = strlen(payload);
        if (rsim_waits(c->ids[i])) {
            job.when = SERIATIM_DELAY;
            job.time = 3600;
            job.retry_count = 0;
        }
        assert_int_equal(seriatim_push_job(c->client, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(c->client), SERIATIM_OK);
    c->busy = 1;
}

static void producer_step(rsim *s, rsim_client *c)
{
    int i, status;
    if (!c->busy) {
        if (!s->calm && rsim_below(s, 6) == 0)
            push_begin(s, c);
        return;
    }
    rsim_client_step(s, c);
    status = srt_client_status(c->client);
    if (status == SERIATIM_AGAIN)
        return;
    if (status != SERIATIM_OK)
        rsim_violated(s, "a push fails: %s", seriatim_client_error(c->client)->message);
    for (i = 0; i < c->count; i++)
        s->ids[c->ids[i]].acknowledged[c->number] = c->payloads[i];
    c->busy = 0;
    s->totals->pushes++;
}

static void admin_step(rsim *s)
{
    rsim_client *c = &s->admin;
    char digits[8];
    seriatim_text text;
    int was_busy = c->busy;
    if (!c->busy && rsim_below(s, 10) == 0) {
        rsim_look(s);
        if (s->shards == s->wanted && s->turned > 0)
            return;
        snprintf(digits, sizeof digits, "%u", s->wanted);
        text.data = digits;
        text.len = strlen(digits);
        assert_int_equal(seriatim_action_begin(c->client, 0, SERIATIM_RESHARD, &text, 1), SERIATIM_OK);
        c->busy = 1;
    }
    if (!c->busy)
        return;
    rsim_client_step(s, c);
    if (was_busy && c->busy && srt_client_status(c->client) != SERIATIM_AGAIN)
        c->busy = 0; /* refused while the move before goes on: it is begun again */
}

static void round_step(rsim *s)
{
    int i;
    s->now++;
    s->totals->steps++;
    for (i = 0; i < RSIM_NODES; i++)
        if (rsim_below(s, 4) > 0)
            rsim_node_step(s, &s->nodes[i]);
    for (i = 0; i < RSIM_CLIENTS; i++)
        if (rsim_below(s, 4) > 0)
            producer_step(s, &s->clients[i]);
    if (s->wanted)
        admin_step(s);
    if (rsim_below(s, 30) == 0 || s->calm)
        rsim_late_bytes(s);
    if (rsim_below(s, 8) == 0)
        rsim_look(s);
}

static void move(rsim *s, unsigned shards)
{
    int steps = 0;
    s->wanted = shards;
    do {
        round_step(s);
        if (++steps == MOST_STEPS)
            rsim_violated(s, "the move to %u shards does not end: %s, %u are turned", shards, s->layout, s->turned);
    } while (!s->violation[0] && (s->shards != shards || s->old > 0 || rsim_below(s, 20) > 0));
}

/* What Redis has of the first id with payloads that do not run. */
static const char *left_over(int waiting, const rsim *s)
{
    static char text[200];
    static const char script[] = "local found = ''\n"
                                 "for shard = 0, 15 do\n"
                                 "  local prefix = 'seriatim:{Q/' .. shard .. '}:'\n"
                                 "  for _, kind in ipairs({'jobs', 'running', 'leaving', 'dead'}) do\n"
                                 "    if redis.call('HEXISTS', prefix .. kind, ARGV[1]) == 1 then found = found .. ' ' "
                                 ".. kind .. ' ' .. shard end\n"
                                 "  end\n"
                                 "  for _, kind in ipairs({'due', 'retry', 'parked', 'unproven', 'suspect'}) do\n"
                                 "    local score = redis.call('ZSCORE', prefix .. kind, ARGV[1])\n"
                                 "    if score then found = found .. ' ' .. kind .. ' ' .. shard .. ' ' .. score end\n"
                                 "  end\n"
                                 "end\n"
                                 "return redis.call('TIME')[1] .. found\n";
    redisReply *reply;
    int i = 0;
    while (i < RSIM_IDS - 1 && ((!waiting && rsim_waits(i)) ||
                                (s->ids[i].sent[0] == s->ids[i].ran[0] && s->ids[i].sent[1] == s->ids[i].ran[1])))
        i++;
    reply = redis("EVAL %s 0 %s", script, rsim_name(i));
    snprintf(text, sizeof text, "%s: %s", rsim_name(i), reply->str);
    freeReplyObject(reply);
    return text;
}

/* Until all that was pushed has run, and all are at rest; waiting: also what waits for an hour. */
static void run_all(rsim *s, int waiting)
{
    int i, steps = 0, busy = 1;
    s->calm = 1;
    while (!s->violation[0] && (busy || s->used < s->shards || rsim_left(s, waiting) > 0)) {
        round_step(s);
        busy = s->admin.busy;
        for (i = 0; i < RSIM_CLIENTS; i++)
            busy += s->clients[i].busy;
        for (i = 0; i < RSIM_GHOSTS; i++)
            busy += s->ghosts[i].fd >= 0;
        for (i = 0; i < RSIM_IDS; i++)
            busy += s->ids[i].ran_by && !s->ids[i].is_sure;
        for (i = 0; i < RSIM_NODES; i++)
            busy += s->nodes[i].node->workers[0]->shards_count != s->shards;
        if (++steps == MOST_STEPS)
            rsim_violated(s, "%d payloads do not run (%s), %u of %u shards are turned", rsim_left(s, waiting),
                          left_over(waiting, s), s->used, s->shards);
    }
}

/* All that waits lies in its shard by the new number, and Redis has no other traces of the moves. */
static void check_places(rsim *s)
{
    const char *found;
    if (s->violation[0])
        return;
    found = kinds_found(&s->fixture, s->fixture.queue, 0);
    if (found[0])
        rsim_violated(s, "check finds %s", found);
}

static void stop_nodes(rsim *s)
{
    int i, steps = 0, stopped = 0;
    for (i = 0; i < RSIM_NODES; i++)
        srt_node_stop(s->nodes[i].node, s->now);
    while (!s->violation[0] && stopped < RSIM_NODES) {
        round_step(s);
        for (i = 0, stopped = 0; i < RSIM_NODES; i++)
            stopped += srt_node_is_stopped(s->nodes[i].node);
        if (++steps == MOST_STEPS)
            rsim_violated(s, "a node does not stop");
    }
}

/* Before the nodes start: an id that leaves in slices. */
static void push_large(rsim *s)
{
    char payload[32];
    const push_options options = {3600, 0, 1, NULL};
    int i;
    done(&s->fixture, seriatim_push_begin(s->fixture.client, s->fixture.queue));
    for (i = 0; i < LARGE_PAYLOADS; i++) {
        snprintf(payload, sizeof payload, "0.%d", ++s->ids[1].sent[0]);
        add(&s->fixture, rsim_name(1), strlen(rsim_name(1)), payload, options);
    }
    done(&s->fixture, seriatim_push_send(s->fixture.client));
    s->ids[1].acknowledged[0] = LARGE_PAYLOADS;
}

static void round_begin(rsim *s)
{
    int i;
    for (i = 0; i < RSIM_GHOSTS; i++)
        s->ghosts[i].fd = -1;
    s->fixture = open_queue(5, "list");
    push_large(s);
    /* As if heartbeats had been renewed until now: shards of a node that dies need not wait. */
    REDIS("EVAL %s 0", "return redis.call('SET', 'seriatim:{/nodes}:renewed', redis.call('TIME')[1] .. '000 0 0')");
    for (i = 0; i < RSIM_NODES; i++)
        rsim_node_start(s, &s->nodes[i]);
    for (i = 0; i < RSIM_CLIENTS; i++)
        rsim_client_start(s, &s->clients[i], i);
    rsim_client_start(s, &s->admin, -1);
}

static void round_end(rsim *s)
{
    int i;
    for (i = 0; i < RSIM_NODES; i++)
        rsim_node_kill(s, &s->nodes[i]);
    for (i = 0; i < RSIM_CLIENTS; i++)
        rsim_client_kill(s, &s->clients[i]);
    rsim_client_kill(s, &s->admin);
    for (i = 0; i < RSIM_GHOSTS; i++)
        if (s->ghosts[i].fd >= 0)
            rsim_pipe_drop(&s->ghosts[i]);
    if (!s->violation[0]) {
        close_queue(&s->fixture);
        return;
    }
    seriatim_link_free(s->fixture.link);
    REDIS("FLUSHALL");
}

void rsim_round(const rsim_control *broken, int point, uint64_t seed, rsim_totals *sum, char violation[300])
{
    static rsim s;
    char mutant[41];
    int i;
    memset(&s, 0, sizeof s);
    s.totals = sum;
    s.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    s.now = 1000000;
    s.point = point;
    if (broken)
        break_script(&s, broken, mutant);
    round_begin(&s);
    for (i = 0; i < WARM_UP && !s.violation[0]; i++)
        round_step(&s);
    if (!s.violation[0])
        move(&s, 16);
    if (!s.violation[0])
        move(&s, 3);
    run_all(&s, 0);
    check_places(&s);
    if (!s.violation[0]) {
        act(&s.fixture, SERIATIM_PERFORM_ALL_FAILED_JOBS_NOW);
        run_all(&s, 1);
    }
    stop_nodes(&s);
    check_places(&s);
    strcpy(violation, s.violation);
    sum->rounds++;
    round_end(&s);
}

/* ---- Tests ------------------------------------------------------------------------------------- */

static void round_at(int point, uint64_t seed, rsim_totals *sum)
{
    char violation[300];
    rsim_round(NULL, point, seed, sum, violation);
    if (violation[0])
        fail_msg("POINT=%d SEED=%llu ROUNDS=1: %s", point, (unsigned long long)seed, violation);
}

/* K4 needs a batch of several destinations, which is rare: it is counted. */
static void test_jobs_run_once_and_in_order_whoever_dies_in_two_moves(void **state)
{
    uint64_t rounds = sim_number_from_env("ROUNDS", 1), seed = sim_number_from_env("SEED", 1);
    uint64_t only = sim_number_from_env("POINT", 0), i;
    rsim_totals sum = {0};
    int point;
    (void)state;
    for (point = 1; point < RSIM_POINTS; point++) {
        if (only && only != (uint64_t)point)
            continue;
        for (i = 0; i < rounds || (sum.killed[point] == 0 && i < MOST_ROUNDS && point != RSIM_SOME_ARRIVED); i++)
            round_at(point, seed + i, &sum);
        if (sum.killed[point] == 0 && point != RSIM_SOME_ARRIVED)
            fail_msg("nobody died at K%d", point);
    }
    printf("%u rounds of %u steps: %u pushes, %u runs, %u again, %u connections ended, %u times late bytes; deaths",
           sum.rounds, sum.steps / sum.rounds, sum.pushes, sum.runs, sum.again, sum.cuts, sum.late);
    for (point = 1; point < RSIM_POINTS; point++)
        printf(" K%d: %u", point, sum.killed[point]);
    printf("\n");
}

static void test_each_broken_rule_is_found(void **state)
{
    uint64_t only = sim_number_from_env("CONTROL", 0), seed;
    int all = getenv("ROUNDS") != NULL;
    rsim_totals sum = {0};
    char violation[300];
    size_t i;
    (void)state;
    for (i = 0; i < CONTROLS; i++) {
        if (only ? only != i + 1 : controls[i].is_rare && !all)
            continue;
        violation[0] = '\0';
        for (seed = 1; seed <= MOST_ROUNDS && !violation[0]; seed++)
            rsim_round(&controls[i], controls[i].point, seed, &sum, violation);
        if (!violation[0])
            fail_msg("nothing is found if %s", controls[i].name);
        printf("%s: round %d: %s\n", controls[i].name, (int)seed - 1, violation);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs_run_once_and_in_order_whoever_dies_in_two_moves),
        cmocka_unit_test(test_each_broken_rule_is_found),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* test_node_masters.c - a node whose shards lie on two scripted masters: MOVED, TRYAGAIN, and a master that is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "node/mover.h"
#include "node/node_state.h"
#include "seriatim.h"

static const char *const shas[] = {
#define X(name, sha) sha,
    SRT_SCRIPTS(X)
#undef X
};

static struct {
    srt_node *node;
    int64_t now;
    char sent[2][65536]; /* to the masters a and b, since the last step */
} f;

static srt_channel channel_of(const char *host)
{
    srt_node_master_view m;
    size_t i;
    for (i = 0; srt_node_master(f.node, i, &m); i++)
        if (strcmp(m.host, host) == 0)
            return m.channel;
    fail_msg("the node does not know %s", host);
    return SRT_COMMANDS;
}

static int is_wanted(const char *host)
{
    srt_node_master_view m;
    size_t i;
    for (i = 0; srt_node_master(f.node, i, &m); i++)
        if (strcmp(m.host, host) == 0)
            return m.wanted;
    return 0;
}

/* Takes what the node sends to this master. Returns it as text. */
static const char *take(const char *host)
{
    char *text = f.sent[*host - 'a'];
    const char *data;
    size_t len;
    srt_node_output(f.node, channel_of(host), &data, &len);
    assert_true(len < sizeof *f.sent);
    memcpy(text, data, len);
    text[len] = '\0';
    srt_node_sent(f.node, channel_of(host), len);
    return text;
}

static void say(const char *host, const char *text)
{
    seriatim_error error = {0};
    if (srt_node_input(f.node, channel_of(host), text, strlen(text), f.now, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
}

static void tick(int64_t ms)
{
    f.now += ms;
    srt_node_tick(f.node, f.now);
}

static void open_link(const char *host)
{
    assert_true(is_wanted(host));
    assert_int_equal(srt_node_connected(f.node, channel_of(host), NULL, NULL, 0, f.now), SERIATIM_OK);
    assert_non_null(strstr(take(host), "SETNAME"));
    say(host, "+OK\r\n");
}

#define SENDS(host, script) (strstr(take(host), shas[srt_script_##script]) != NULL)

/* The node has not reached its cluster, of which it knows a. */
static void start(void)
{
    seriatim_node_settings settings;
    seriatim_queue_settings queue;
    seriatim_error error = {0};
    size_t worker;
    memset(&settings, 0, sizeof settings);
    settings.id = "n";
    settings.lease_ms = 10000;
    settings.poll_ms = 1000;
    settings.threads = 1;
    seriatim_queue_settings_init(&queue);
    queue.name = "Q";
    queue.name_len = 1;
    queue.shards_count = 1;
    f.now = 1000;
    assert_int_equal(srt_node_new(&settings, &f.node, &error), SERIATIM_OK);
    assert_int_equal(srt_node_seed(f.node, "a", 1), SERIATIM_OK);
    assert_int_equal(srt_node_worker(f.node, &queue, &worker, &error), SERIATIM_OK);
    assert_int_equal(srt_node_start(f.node, f.now, &error), SERIATIM_OK);
    tick(1);
}

/* The node has asked for its layout; a has all slots. */
static void ask_for_the_layout(void)
{
    start();
    open_link("a");
    assert_non_null(strstr(take("a"), "SLOTS"));
    say("a", "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:1\r\n");
    tick(1);
    assert_true(SENDS("a", layout));
}

static const char *layout = "$5\r\n1 1 3\r\n"; /* as Redis answers it */

static void say_layout(void)
{
    say("a", "*1\r\n");
    say("a", layout);
}

/* The node knows its layout and has sent the first heartbeat; a has all slots. */
static void begin(void)
{
    ask_for_the_layout();
    say_layout();
    tick(1);
    assert_true(SENDS("a", heartbeat));
}

/* The node lives alone. */
static const char *heartbeat_text(void)
{
    static char text[256];
    char description[64];
    snprintf(description, sizeof description, "b %08x|", (unsigned)srt_crc32("Q", 1));
    snprintf(text, sizeof text,
             "*6\r\n$16\r\n1800000000000000\r\n$0\r\n\r\n$1\r\n0\r\n$1\r\n0\r\n$1\r\nn\r\n$%d\r\n%s\r\n",
             (int)strlen(description), description);
    return text;
}

/* So it takes the shard. */
static void answer_heartbeat(const char *host)
{
    say(host, heartbeat_text());
    say("a", "*1\r\n:0\r\n"); /* another process measures the queues */
    say_layout();             /* the settings, which are read again */
    tick(1);
}

static void moved(char *text, size_t cap, int slot)
{
    snprintf(text, cap, "-MOVED %d b:2\r\n", slot);
}

/* The master of the shard is b, which it is to be acquired from. */
static void begin_at_b(void)
{
    static const char key[] = "seriatim:{Q/0}:state";
    char text[64];
    begin();
    answer_heartbeat("a");
    assert_true(SENDS("a", acquire));
    moved(text, sizeof text, (int)srt_key_slot(key, strlen(key)));
    say("a", text);
    tick(1);
    open_link("b");
}

#define ACQUIRED "*5\r\n$2\r\nOK\r\n$1\r\n7\r\n$1\r\n7\r\n:0\r\n:0\r\n"

static void test_a_shard_follows_its_slot(void **state)
{
    (void)state;
    begin_at_b();
    assert_true(SENDS("b", acquire));
    say("b", "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
    tick(1);
    assert_false(SENDS("b", acquire));
    tick(20);
    assert_true(SENDS("b", acquire));
    say("b", ACQUIRED);
    tick(1);
    assert_true(SENDS("b", claim));
    srt_node_free(f.node);
}

static void test_heartbeats_follow_the_slot_of_the_nodes(void **state)
{
    static const char key[] = "seriatim:{/nodes}:alive";
    char text[64];
    (void)state;
    begin();
    moved(text, sizeof text, (int)srt_key_slot(key, strlen(key)));
    say("a", text);
    tick(1);
    open_link("b");
    assert_true(SENDS("b", heartbeat));
    answer_heartbeat("b");
    assert_true(SENDS("a", acquire)); /* the shard stays where it was */
    srt_node_free(f.node);
}

static void test_requests_are_sent_again_to_a_master_that_was_lost(void **state)
{
    (void)state;
    begin();
    answer_heartbeat("a");
    assert_true(SENDS("a", acquire));
    srt_node_disconnected(f.node, channel_of("a"), f.now);
    tick(1);
    open_link("a");
    tick(1);
    assert_true(SENDS("a", acquire));
    srt_node_free(f.node);
}

/* The node owns the shard. A claim brought nothing, and a suspect is due in this time. */
static void begin_with_suspect(int due_in_ms)
{
    char text[256];
    begin_at_b();
    assert_true(SENDS("b", acquire));
    say("b", ACQUIRED);
    tick(1);
    assert_true(SENDS("b", claim));
    snprintf(text, sizeof text,
             "*8\r\n$16\r\n1800000000000000\r\n$1\r\n7\r\n$16\r\n9000000000000000\r\n$16\r\n9000000000000000\r\n"
             "$16\r\n18000000%05d000\r\n:0\r\n$1\r\nn\r\n:0\r\n",
             due_in_ms);
    say("b", text);
    tick(1);
}

static void test_a_suspect_waits_for_its_master_while_other_ids_run(void **state)
{
    int i;
    (void)state;
    begin_with_suspect(5000);
    srt_node_disconnected(f.node, channel_of("b"), f.now);
    for (i = 0; i < 12; i++) {
        tick(500);
        assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_NONE);
    }
    open_link("b");
    tick(1);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_CLAIM);
    srt_node_free(f.node);
}

static void test_other_ids_run_when_a_master_is_lost_that_a_suspect_is_claimed_from(void **state)
{
    (void)state;
    begin_with_suspect(0);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_CLAIM);
    srt_node_disconnected(f.node, channel_of("b"), f.now);
    tick(1);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_NONE);
    srt_node_free(f.node);
}

static void test_other_ids_run_when_a_master_is_silent_that_a_suspect_is_claimed_from(void **state)
{
    (void)state;
    begin_with_suspect(0);
    tick(999);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_CLAIM);
    tick(1);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_NONE);
    srt_node_free(f.node);
}

#define NEVER "$16\r\n9000000000000000\r\n"
#define NOW "$16\r\n1800000000000000\r\n"
/* A suspect; another one is due. */
#define CLAIMED_SUSPECT                                                                                                \
    "*10\r\n" NOW "$1\r\n8\r\n" NEVER NEVER NOW ":0\r\n$1\r\ns\r\n:0\r\n$3\r\n\x91\xa1"                                \
    "i\r\n$12\r\n\x91\xaa\x03"                                                                                         \
    "AAAAAAAAx\r\n"
#define SUSPECT_IS_DUE "*8\r\n" NOW "$1\r\n7\r\n" NEVER NEVER NOW ":0\r\n$1\r\nn\r\n:0\r\n"

typedef struct call_answer {
    const char *word; /* of the call: the checksum of a script, or of a command */
    const char *answer;
} call_answer;

/* Answers those of these calls that the node has sent to this master. Returns how many of the first one came. */
static int answer_calls(const char *host, const call_answer *answers, size_t count)
{
    const char *at = take(host), *next, *found;
    size_t i, which;
    int first = 0;
    for (; *at; at = next + 1) {
        for (i = 0, next = NULL, which = 0; i < count; i++) {
            found = strstr(at, answers[i].word);
            if (found && (!next || found < next)) {
                next = found;
                which = i;
            }
        }
        if (!next)
            break;
        say(host, answers[which].answer);
        first += which == 0;
    }
    return first;
}

/* The slot of Q/0 belongs to b, all others to a. */
static const char *map_text(void)
{
    static const char key[] = "seriatim:{Q/0}:state";
    static char text[256];
    int slot = (int)srt_key_slot(key, strlen(key));
    snprintf(text, sizeof text,
             "*3\r\n*3\r\n:0\r\n:%d\r\n*2\r\n$1\r\na\r\n:1\r\n*3\r\n:%d\r\n:%d\r\n*2\r\n$1\r\nb\r\n:2\r\n"
             "*3\r\n:%d\r\n:16383\r\n*2\r\n$1\r\na\r\n:1\r\n",
             slot - 1, slot, slot, slot + 1);
    return text;
}

/* The master of the suspect's shard has answered the claim. */
static seriatim_delivery *run_suspect(const char *host)
{
    const call_answer answers[] = {{shas[srt_script_claim], CLAIMED_SUSPECT}, {"SLOTS", map_text()}};
    seriatim_delivery *d;
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_CLAIM);
    assert_int_equal(answer_calls(host, answers, 2), 1);
    tick(1);
    assert_int_equal(srt_node_take(f.node, 0, f.now, &d), SERIATIM_OK);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_RUN);
    return d;
}

static void end_suspect(seriatim_delivery *d)
{
    assert_int_equal(seriatim_delivery_done(d, 0), SERIATIM_OK);
    srt_node_settle(f.node, d, f.now);
}

static void test_other_ids_run_when_a_master_is_lost_that_the_settle_of_a_suspect_goes_to(void **state)
{
    seriatim_delivery *d;
    (void)state;
    begin_with_suspect(0);
    d = run_suspect("b");
    srt_node_disconnected(f.node, channel_of("b"), f.now);
    end_suspect(d);
    tick(1);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_NONE);
    srt_node_free(f.node);
}

static void test_other_ids_run_when_redis_refuses_the_settle_of_a_suspect(void **state)
{
    const call_answer answers[] = {
        {shas[srt_script_settle], "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"},
        {shas[srt_script_claim], SUSPECT_IS_DUE}};
    int i, refused = 0;
    (void)state;
    begin_with_suspect(0);
    end_suspect(run_suspect("b"));
    tick(1);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_SETTLE);
    for (i = 0; i < 30; i++) {
        refused += answer_calls("b", answers, 2);
        tick(100);
        assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_NONE); /* and no other suspect is begun */
    }
    assert_in_range(refused, 2, 4);
    srt_node_free(f.node);
}

/* The shard Q/0 lies on b, Q/1 on a, and a suspect is due in each. */
static void begin_with_two_suspects(void)
{
    static const char key[] = "seriatim:{Q/0}:state";
    const call_answer answers[] = {{shas[srt_script_claim], SUSPECT_IS_DUE},
                                   {shas[srt_script_heartbeat], heartbeat_text()}};
    char text[64];
    layout = "$5\r\n1 2 3\r\n";
    begin();
    answer_heartbeat("a");
    assert_true(SENDS("a", acquire));
    moved(text, sizeof text, (int)srt_key_slot(key, strlen(key)));
    say("a", text);
    say("a", ACQUIRED);
    tick(1);
    open_link("b");
    assert_true(SENDS("b", acquire));
    say("b", ACQUIRED);
    tick(1);
    assert_int_equal(answer_calls("b", answers, 2), 1);
    assert_int_equal(answer_calls("a", answers, 2), 1);
    tick(1);
    say_layout();
    layout = "$5\r\n1 1 3\r\n";
}

/* Until then its death would still be charged to it. */
static void test_no_suspect_of_another_master_runs_before_redis_has_the_settle_of_the_last_one(void **state)
{
    const call_answer answers[] = {{shas[srt_script_settle], "*2\r\n:0\r\n:0\r\n"},
                                   {shas[srt_script_acquire], "*5\r\n$4\r\nKEPT\r\n$1\r\n7\r\n$1\r\n8\r\n:0\r\n:0\r\n"},
                                   {shas[srt_script_claim], SUSPECT_IS_DUE}};
    seriatim_delivery *d;
    int sent, i;
    (void)state;
    for (sent = 0; sent < 2; sent++) {
        int settled = 0;
        begin_with_two_suspects();
        d = run_suspect("b");
        if (!sent)
            srt_node_disconnected(f.node, channel_of("b"), f.now);
        end_suspect(d);
        tick(1);
        if (sent) {
            assert_true(SENDS("b", settle));
            srt_node_disconnected(f.node, channel_of("b"), f.now);
        }
        for (i = 0; i < 5; i++) {
            tick(1);
            assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_NONE);
        }
        open_link("b");
        for (i = 0; i < 10 && f.node->quarantine.step == SRT_QUARANTINE_NONE; i++) {
            settled += answer_calls("b", answers, 3);
            tick(1);
        }
        assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_CLAIM);
        assert_int_equal(settled, 1);
        srt_node_free(f.node);
    }
}

/* Its claim was given up because its master was lost. */
static void test_a_suspect_that_comes_late_is_handed_back_while_the_settle_of_another_is_not_in_redis(void **state)
{
    const call_answer answers[] = {{shas[srt_script_claim], CLAIMED_SUSPECT}};
    seriatim_delivery *d;
    int i, claimed = 0;
    (void)state;
    begin_with_two_suspects();
    srt_node_disconnected(f.node, channel_of("b"), f.now);
    tick(1);
    d = run_suspect("a");
    srt_node_disconnected(f.node, channel_of("a"), f.now);
    end_suspect(d);
    tick(1);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_NONE);
    open_link("b");
    for (i = 0; i < 5 && claimed == 0; i++) {
        claimed += answer_calls("b", answers, 1);
        tick(1);
    }
    assert_int_equal(claimed, 1);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_NONE);
    assert_int_equal(srt_node_take(f.node, 0, f.now, &d), SERIATIM_AGAIN);
    srt_node_free(f.node);
}

/* The answer comes late, and the next claim may take as long. */
static void test_a_suspect_of_a_slow_master_is_not_claimed_again_at_once(void **state)
{
    (void)state;
    begin_with_suspect(0);
    tick(1000);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_NONE);
    assert_true(SENDS("b", claim));
    say("b", SUSPECT_IS_DUE);
    tick(1);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_NONE);
    tick(9990);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_NONE);
    if (SENDS("b", claim))
        say("b", SUSPECT_IS_DUE);
    tick(20);
    assert_int_equal(f.node->quarantine.step, SRT_QUARANTINE_CLAIM);
    srt_node_free(f.node);
}

#define CLAIMED_NOTHING "*8\r\n$16\r\n1800000000000000\r\n$1\r\n7\r\n" NEVER NEVER NEVER ":0\r\n$1\r\nn\r\n:0\r\n"

/* Answers all that the node has sent to this master, of a shard from which no id is to move. */
static void answer_mover(const char *host)
{
    const call_answer answers[] = {{shas[srt_script_turn], "*3\r\n$2\r\nOK\r\n:1\r\n$9\r\n1 1 4 1 1\r\n"},
                                   {shas[srt_script_acquire], ACQUIRED},
                                   {shas[srt_script_claim], CLAIMED_NOTHING},
                                   {shas[srt_script_depart], "*3\r\n$1\r\n0\r\n$1\r\n7\r\n:0\r\n"},
                                   {shas[srt_script_foreign], "*2\r\n$1\r\n0\r\n$1\r\n0\r\n"},
                                   {shas[srt_script_out], ":1\r\n"},
                                   {"ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"}};
    answer_calls(host, answers, sizeof answers / sizeof *answers);
}

/* The connection to the master on which it was found stands. */
static void test_a_mover_at_rest_begins_anew_when_its_shard_has_another_master(void **state)
{
    static const char key[] = "seriatim:{Q/0}:state";
    const srt_shard *s;
    char text[64];
    int i;
    (void)state;
    layout = "$9\r\n1 1 4 1 1\r\n"; /* the mover has nothing to do but to end */
    begin();
    answer_heartbeat("a");
    s = f.node->shards[0];
    for (i = 0; i < 60 && !(s->mover && s->mover->step == SRT_MOVE_REST); i++) {
        answer_mover("a");
        tick(1);
    }
    assert_true(i < 60);
    srt_shard_changed(f.node, f.node->shards[0], f.now);
    tick(1);
    assert_true(SENDS("a", claim));
    moved(text, sizeof text, (int)srt_key_slot(key, strlen(key)));
    say("a", text);
    tick(1);
    open_link("b");
    for (i = 0; i < 5; i++) {
        answer_mover("b");
        tick(1);
    }
    assert_int_equal(s->state, SRT_OWNED);
    assert_false(s->reconcile);
    assert_int_not_equal(s->mover->step, SRT_MOVE_REST);
    layout = "$5\r\n1 1 3\r\n";
    srt_node_free(f.node);
}

static void stops_at_once(void)
{
    srt_node_stop(f.node, f.now);
    tick(1);
    assert_true(srt_node_is_stopped(f.node));
}

static void test_a_node_that_has_not_reached_its_cluster_stops_at_once(void **state)
{
    (void)state;
    start();
    stops_at_once();
    srt_node_free(f.node);
}

/* Its first heartbeat would tell other nodes that it lives. */
static void test_a_node_that_stops_before_its_layout_comes_sends_no_heartbeat(void **state)
{
    (void)state;
    ask_for_the_layout();
    stops_at_once();
    say("a", "*1\r\n$5\r\n1 1 3\r\n");
    tick(1);
    tick(10000);
    assert_false(SENDS("a", heartbeat));
    srt_node_free(f.node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_shard_follows_its_slot),
        cmocka_unit_test(test_heartbeats_follow_the_slot_of_the_nodes),
        cmocka_unit_test(test_requests_are_sent_again_to_a_master_that_was_lost),
        cmocka_unit_test(test_a_suspect_waits_for_its_master_while_other_ids_run),
        cmocka_unit_test(test_other_ids_run_when_a_master_is_lost_that_a_suspect_is_claimed_from),
        cmocka_unit_test(test_other_ids_run_when_a_master_is_silent_that_a_suspect_is_claimed_from),
        cmocka_unit_test(test_other_ids_run_when_a_master_is_lost_that_the_settle_of_a_suspect_goes_to),
        cmocka_unit_test(test_other_ids_run_when_redis_refuses_the_settle_of_a_suspect),
        cmocka_unit_test(test_no_suspect_of_another_master_runs_before_redis_has_the_settle_of_the_last_one),
        cmocka_unit_test(test_a_suspect_that_comes_late_is_handed_back_while_the_settle_of_another_is_not_in_redis),
        cmocka_unit_test(test_a_suspect_of_a_slow_master_is_not_claimed_again_at_once),
        cmocka_unit_test(test_a_mover_at_rest_begins_anew_when_its_shard_has_another_master),
        cmocka_unit_test(test_a_node_that_has_not_reached_its_cluster_stops_at_once),
        cmocka_unit_test(test_a_node_that_stops_before_its_layout_comes_sends_no_heartbeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

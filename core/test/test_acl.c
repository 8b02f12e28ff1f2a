/* test_acl.c - what an ACL refuses, against a real redis-server: a script that is refused a command
 * has written nothing. */
#define _GNU_SOURCE /* memmem */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "wire/script.h"
#include "server.h"

#define PREFIX "seriatim:{Q/0}:"
#define NODES "seriatim:{/nodes}:"
#define WORDS 48

static const char *const KINDS[] = {"state", "-"};

/* ---- Users and scripts ---------------------------------------------------------------------- */

/* The connection of an ACL user that has all keys and commands, but the given rules behind; the
 * caller frees it. */
static redisContext *user_with(const char *rules)
{
    redisContext *c = redisConnectUnix(server.socket);
    char command[256];
    REDIS("ACL DELUSER limited");
    snprintf(command, sizeof command, "ACL SETUSER limited on >secret ~seriatim:* +@all %s", rules);
    REDIS(command);
    assert_non_null(c);
    freeReplyObject(redisCommand(c, "AUTH limited secret"));
    return c;
}

static size_t shard_keys(const char *argv[], char keys[][64])
{
    size_t i;
    for (i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        snprintf(keys[i], 64, PREFIX "%s", KINDS[i]);
        argv[i] = keys[i];
    }
    return i;
}

/* Runs a script on shard 0 of queue Q; more arguments follow, NULL ends them. A push has its
 * client's key behind the shard's. */
static redisReply *run(redisContext *c, const char *text, size_t len, const char *push_key, ...)
{
    char keys[sizeof KINDS / sizeof *KINDS][64], count[16];
    const char *argv[WORDS] = {"EVAL", text, count};
    size_t lens[WORDS] = {4, len}, n, i;
    redisReply *reply;
    va_list args;
    n = 3 + shard_keys(argv + 3, keys);
    if (push_key)
        argv[n++] = push_key;
    snprintf(count, sizeof count, "%d", (int)n - 3);
    argv[n++] = "1";
    va_start(args, push_key);
    while ((argv[n] = va_arg(args, const char *)))
        n++;
    va_end(args);
    for (i = 2; i < n; i++)
        lens[i] = strlen(argv[i]);
    reply = redisCommandArgv(c, (int)n, argv, lens);
    assert_non_null(reply);
    return reply;
}
#define RUN(c, name, ...) run(c, srt_script_text_##name, sizeof srt_script_text_##name - 1, NULL, __VA_ARGS__, NULL)
#define PUSH(c, sequence, ...)                                                                                         \
    run(c, srt_script_text_push, sizeof srt_script_text_push - 1, PREFIX "push:c1", sequence, "list", "keep", "2",     \
        "3", __VA_ARGS__, NULL)

/* A text or number of a reply, which is no error, as text; good for three more calls. Frees the
 * reply. */
static const char *said(redisReply *reply, size_t place)
{
    static char texts[4][64];
    static int next = 0;
    char *text = texts[next++ % 4];
    const redisReply *at = reply;
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    if (reply->type == REDIS_REPLY_ARRAY)
        at = reply->element[place];
    if (at->type == REDIS_REPLY_INTEGER)
        snprintf(text, 64, "%lld", at->integer);
    else
        snprintf(text, 64, "%.60s", at->str);
    freeReplyObject(reply);
    return text;
}

#define ON_NODES(c, name, words)                                                                                       \
    redisCommand(c, "EVAL %b 5 " NODES "alive " NODES "info " NODES "order:n1 " NODES "renewed " NODES "- n1 " words,  \
                 srt_script_text_##name, sizeof srt_script_text_##name - 1)
#define LAYOUT(c, mode, shards)                                                                                        \
    redisCommand(c,                                                                                                    \
                 "EVAL %b 5 seriatim:{Q}:layout seriatim:{Q}:settings seriatim:{Q}:deleted seriatim:{Q}:history "      \
                 "seriatim:{Q}:run_times " mode " 0 " shards,                                                          \
                 srt_script_text_layout, sizeof srt_script_text_layout - 1)
#define BEAT(c, lease_ms) ON_NODES(c, heartbeat, lease_ms " b|test seriatim:nodes")

/* An owned shard; `claim` claims what waits, so that the owner sleeps after it. */
static char lease[64], seen[64];

static void own(void)
{
    redisReply *reply = RUN(server_redis, acquire, "n1", "merge", "", "0");
    snprintf(lease, sizeof lease, "%s", reply->element[1]->str);
    snprintf(seen, sizeof seen, "%s", reply->element[2]->str);
    freeReplyObject(reply);
}

static void claim(void)
{
    redisReply *reply = RUN(server_redis, claim, lease, seen, "10", "0", "0", "merge", "3");
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    snprintf(seen, sizeof seen, "%s", reply->element[1]->str);
    freeReplyObject(reply);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

/* Redis 7 gives a user no channels unless told so. */
static void test_a_push_works_without_channels(void **state)
{
    redisContext *limited = user_with("resetchannels");
    (void)state;
    REDIS("FLUSHALL");
    own();
    claim();
    assert_string_equal(said(PUSH(limited, "1", "a", "1"), 0), "1 1 0");
    assert_string_equal(said(redis("HLEN " PREFIX "jobs"), 0), "1");
    assert_string_equal(said(PUSH(limited, "1", "a", "1"), 0), "1 1 0");
    assert_string_equal(said(PUSH(limited, "2", "a", "2"), 0), "1 0 1");
    redisFree(limited);
}

/* A delete that ended behind its first write left `held` as it was: the shard could not be released
 * any more. */
static void test_a_delete_works_without_channels(void **state)
{
    redisContext *limited = user_with("resetchannels");
    char run_of_all[80];
    (void)state;
    REDIS("FLUSHALL");
    own();
    said(PUSH(server_redis, "1", "a", "1", "b", "2", "c", "3"), 0);
    claim();
    assert_string_equal(said(RUN(limited, delete, "", "", "merge", "a"), 2), "1");
    snprintf(run_of_all, sizeof run_of_all, "0n%s", seen);
    assert_string_equal(said(RUN(server_redis, settle, lease, "1", "merge", "1", run_of_all, "-3"), 0), "0");
    assert_string_equal(said(redis("HLEN " PREFIX "jobs"), 0), "0");
    assert_string_equal(said(RUN(limited, release, lease, "seriatim:nodes"), 0), "OK");
    redisFree(limited);
}

static void test_actions_work_without_channels(void **state)
{
    redisContext *limited = user_with("resetchannels");
    (void)state;
    REDIS("FLUSHALL");
    own();
    claim();
    assert_string_equal(said(RUN(limited, pause, NULL), 0), "1");
    assert_string_equal(said(RUN(limited, resume, NULL), 0), "1");
    said(PUSH(server_redis, "1", "a", "1"), 0);
    assert_string_equal(said(RUN(limited, park, "a"), 0), "1");
    claim();
    assert_string_equal(said(RUN(limited, unpark, "a"), 0), "1");
    redisFree(limited);
}

/* A node settles a run whose score a queue with remember_score keeps; a push that is not above it is stale. */
static void test_scores_are_kept_without_channels(void **state)
{
    redisContext *limited = user_with("resetchannels");
    char run_of_a[80];
    (void)state;
    REDIS("FLUSHALL");
    own();
    said(PUSH(server_redis, "1", "a", "1"), 0);
    freeReplyObject(RUN(limited, claim, lease, seen, "10", "0", "0", "merge", "3", "25", "bury", "1"));
    snprintf(run_of_a, sizeof run_of_a, "0n%s", said(redis("HKEYS " PREFIX "claims"), 0));
    said(RUN(limited, settle, lease, "1", "merge", "0", "done", "a", run_of_a, "60000000", "@@@@@@@@", "0", ""), 0);
    assert_string_equal(said(redis("HLEN " PREFIX "scores"), 0), "1");
    assert_string_equal(said(redis("HLEN " PREFIX "jobs"), 0), "0");
    redisFree(limited);
}

#define CONSUME(c, name, ...)                                                                                          \
    run(c, srt_script_text_##name, sizeof srt_script_text_##name - 1, PREFIX "push:c2", __VA_ARGS__, NULL)

/* A popper sleeps, so that what makes an id due tells it. */
static void test_a_popper_works_without_channels(void **state)
{
    redisContext *limited = user_with("resetchannels");
    redisReply *popped;
    (void)state;
    REDIS("FLUSHALL");
    said(CONSUME(limited, pop, "1", "merge", "3", "30000000", "10", "1", "0", "25", "bury", "0"), 0);
    assert_string_equal(said(PUSH(limited, "1", "a", "1"), 0), "1 1 0");
    popped = CONSUME(limited, pop, "2", "merge", "3", "30000000", "10", "1", "0", "25", "bury", "0");
    assert_int_equal(popped->elements, 7);
    said(CONSUME(limited, pop, "3", "merge", "3", "30000000", "10", "1", "0", "25", "bury", "0"), 0);
    assert_string_equal(said(CONSUME(limited, popped, "4", "merge", "3", "release", "a", popped->element[2]->str, "0",
                                     "", "25", "bury", "", "0", "0", "", "0"),
                             0),
                        "1");
    assert_string_equal(said(redis("HLEN " PREFIX "running"), 0), "0");
    freeReplyObject(popped);
    redisFree(limited);
}

static void test_a_node_works_without_channels(void **state)
{
    redisContext *limited = user_with("resetchannels");
    (void)state;
    REDIS("FLUSHALL");
    assert_string_equal(said(BEAT(limited, "1000"), 4), "n1");
    assert_string_equal(said(ON_NODES(limited, order, "quiet seriatim:nodes"), 0), "1");
    assert_string_equal(said(BEAT(limited, "1000"), 1), "quiet");
    said(BEAT(limited, "0"), 0);
    assert_string_equal(said(redis("ZCARD " NODES "alive"), 0), "0");
    redisFree(limited);
}

/* The names of the commands that scripts call, each once, but for those that are best effort (owner.lua,
 * hand_over.lua). */
static size_t commands_of_scripts(char names[][24], size_t cap)
{
#define X(name, sha) {srt_script_text_##name, sizeof srt_script_text_##name - 1},
    static const struct {
        const char *text;
        size_t len;
    } scripts[] = {SRT_SCRIPTS(X)};
#undef X
    size_t i, n = 0, k;
    for (i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        const char *at = scripts[i].text, *end = at + scripts[i].len;
        while ((at = memmem(at, (size_t)(end - at), "call('", 6)) && n < cap) {
            size_t len = strcspn(at += 6, "'");
            snprintf(names[n], sizeof names[n], "%.*s", (int)len, at);
            for (k = 0; strcmp(names[k], names[n]) != 0; k++)
                ;
            n += k == n && strcmp(names[n], "PUBLISH") != 0 && strcmp(names[n], "PUBSUB") != 0;
        }
    }
    return n;
}

/* Who lacks a single command that any script needs is refused before a queue is known, by the command's name. */
static void test_each_missing_command_is_named(void **state)
{
    char names[64][24], rule[40], words[40];
    size_t count = commands_of_scripts(names, 64), i;
    (void)state;
    REDIS("FLUSHALL");
    assert_in_range(count, 30, 60);
    for (i = 0; i < count; i++) {
        redisContext *limited;
        redisReply *reply;
        snprintf(rule, sizeof rule, "-%s", names[i]);
        limited = user_with(rule);
        reply = LAYOUT(limited, "keep", "3");
        snprintf(words, sizeof words, "missing: %s", names[i]);
        if (reply->type != REDIS_REPLY_ERROR || !strstr(reply->str, words) || strncmp(reply->str, "NOPERM ", 7) != 0)
            fail_msg("without %s: %s", names[i], reply->str);
        freeReplyObject(reply);
        redisFree(limited);
    }
    assert_string_equal(said(redis("DBSIZE"), 0), "0");
}

/* Who may write nothing may look. */
static void test_a_user_without_write_rights_may_read(void **state)
{
    redisContext *limited = user_with("-@write resetchannels");
    (void)state;
    REDIS("FLUSHALL");
    freeReplyObject(LAYOUT(server_redis, "keep", "3"));
    assert_string_equal(said(LAYOUT(limited, "look", "0"), 0), "1 3 3");
    redisFree(limited);
}

/* A server begins with this call, so that it does not run without being able to do anything. */
static void test_a_user_without_write_rights_is_refused_a_queue_that_is_there(void **state)
{
    redisContext *limited = user_with("-@write +eval +evalsha resetchannels");
    int i;
    (void)state;
    REDIS("FLUSHALL");
    freeReplyObject(LAYOUT(server_redis, "keep", "3"));
    for (i = 0; i < 2; i++) {
        redisReply *reply = i ? LAYOUT(limited, "set", "3") : LAYOUT(limited, "keep", "3");
        seriatim_error error;
        srt_token token = {SRT_ERROR, 0, NULL, 0};
        assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        token.data = reply->str;
        token.len = reply->len;
        if (srt_reply_status(&token, &error) != SERIATIM_AUTH || !strstr(error.message, "may not write"))
            fail_msg("%s: %s", i ? "set" : "keep", reply->str);
        freeReplyObject(reply);
    }
    redisFree(limited);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_push_works_without_channels),
        cmocka_unit_test(test_a_delete_works_without_channels),
        cmocka_unit_test(test_actions_work_without_channels),
        cmocka_unit_test(test_scores_are_kept_without_channels),
        cmocka_unit_test(test_a_popper_works_without_channels),
        cmocka_unit_test(test_a_node_works_without_channels),
        cmocka_unit_test(test_each_missing_command_is_named),
        cmocka_unit_test(test_a_user_without_write_rights_may_read),
        cmocka_unit_test(test_a_user_without_write_rights_is_refused_a_queue_that_is_there),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

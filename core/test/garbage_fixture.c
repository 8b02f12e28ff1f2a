/* garbage_fixture.c - see garbage_fixture.h. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
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
#include "garbage_fixture.h"
#include "server.h"
#include "wire/script.h"

#define PREFIX GARBAGE_PREFIX
#define MAX_DUMPS 64

static const struct {
    const char *name, *text, *sha;
    size_t len;
} scripts[] = {
#define X(name, sha) {#name, srt_script_text_##name, sha, sizeof srt_script_text_##name - 1},
    SRT_SCRIPTS(X)
#undef X
};
#define SCRIPTS (sizeof scripts / sizeof *scripts)

static int is_loaded[SCRIPTS];

/* How many changes Redis has made: while this is the same, nothing differs. A digest of all keys takes it a
 * millisecond. */
static long long changes(void)
{
    static const char name[] = "rdb_changes_since_last_save:";
    redisReply *reply = redis("INFO persistence");
    const char *found = strstr(reply->str, name);
    long long count;
    assert_non_null(found);
    count = strtoll(found + sizeof name - 1, NULL, 10);
    freeReplyObject(reply);
    return count;
}

/* ---- Calls --------------------------------------------------------------------------------- */

void garbage_set(garbage_arguments *a, size_t i, const char *data, size_t len)
{
    free(a->data[i]);
    a->data[i] = malloc(len + 1);
    memcpy(a->data[i], data, len);
    a->lens[i] = len;
}

void garbage_free(garbage_arguments *a)
{
    while (a->count > 0)
        free(a->data[--a->count]);
}

static void describe(const garbage_arguments *a, char *out, size_t cap)
{
    size_t i, k, at = 0;
    for (i = 0; i < a->count && at + 80 < cap; i++) {
        at += (size_t)snprintf(out + at, cap - at, " '");
        for (k = 0; k < a->lens[i] && k < 16; k++)
            at += (size_t)snprintf(out + at, cap - at, a->data[i][k] >= ' ' ? "%c" : "\\x%02x",
                                   (unsigned char)a->data[i][k]);
        at += (size_t)snprintf(out + at, cap - at, "'");
    }
}

static size_t script_named(const char *name)
{
    size_t i;
    for (i = 0; i < SCRIPTS; i++)
        if (strcmp(scripts[i].name, name) == 0)
            return i;
    fail_msg("there is no script %s", name);
    return 0;
}

#define ICK "seriatim:{/ick/K}:"

int garbage_is_of_shard(char kind)
{
    return kind == 'S' || kind == 'P' || kind == 'Q';
}

size_t garbage_keys(char kind, const char *keys[GARBAGE_KEYS])
{
    static const char *const shard[] = {PREFIX "state", PREFIX "-", PREFIX "push:me", PREFIX "outbox:o"};
    static const char *const nodes[] = {"seriatim:{/nodes}:alive", "seriatim:{/nodes}:info",
                                        "seriatim:{/nodes}:order:n1", "seriatim:{/nodes}:renewed",
                                        "seriatim:{/nodes}:-"};
    static const char *const queue[] = {"seriatim:{Q}:layout",  "seriatim:{Q}:settings",  "seriatim:{Q}:deleted",
                                        "seriatim:{Q}:history", "seriatim:{Q}:run_times", "seriatim:{Q}:-"};
    static const char *const ick[] = {ICK "about",  ICK "pset", ICK "again", ICK "held",
                                      ICK "tokens", ICK "ends", ICK "-",     ICK "cset:me"};
    size_t count = kind == 'S'                  ? 2
                   : kind == 'I'                ? 7
                   : kind == 'J'                ? 8
                   : kind == 'P'                ? 3
                   : kind == 'Q'                ? 4
                   : kind == 'L'                ? 6
                   : kind == 'B'                ? 5
                   : kind == 'N' || kind == 'H' ? 2
                   : kind == 'T'                ? 2
                   : kind == 'O'                ? 3
                                                : 1,
           i;
    for (i = 0; i < count; i++)
        keys[i] = kind == 'L'                                 ? queue[i]
                  : kind == 'H'                               ? queue[3 * i]
                  : kind == 'T'                               ? queue[4 * i]
                  : kind == 'M'                               ? "seriatim:{/nodes}:sampler"
                  : kind == 'I' || kind == 'J'                ? ick[i]
                  : kind == 'N' || kind == 'O' || kind == 'B' ? nodes[i]
                                                              : shard[i];
    return count;
}

redisReply *garbage_call(const char *name, char kind, const garbage_arguments *a)
{
    const char *argv[3 + GARBAGE_KEYS + MAX_ARGS] = {"EVALSHA"}, *keys[GARBAGE_KEYS];
    size_t lens[3 + GARBAGE_KEYS + MAX_ARGS] = {7}, script = script_named(name), n = 3, i,
                                   count = garbage_keys(kind, keys);
    char digits[8];
    redisReply *reply;
    snprintf(digits, sizeof digits, "%d", (int)count);
    if (!is_loaded[script])
        freeReplyObject(redis("SCRIPT LOAD %b", scripts[script].text, scripts[script].len));
    is_loaded[script] = 1;
    argv[1] = scripts[script].sha;
    lens[1] = strlen(argv[1]);
    argv[2] = digits;
    lens[2] = strlen(digits);
    for (i = 0; i < count; i++, n++) {
        argv[n] = keys[i];
        lens[n] = strlen(keys[i]);
    }
    for (i = 0; i < a->count; i++, n++) {
        argv[n] = a->data[i];
        lens[n] = a->lens[i];
    }
    reply = redisCommandArgv(server_redis, (int)n, argv, lens);
    if (!reply) {
        char text[2048] = "";
        describe(a, text, sizeof text);
        fail_msg("%s%s: %s", name, text, server_redis->errstr);
    }
    return reply;
}

/* ---- A shard with something in every key ---------------------------------------------------- */

static struct {
    char lease[32], seen[32], run[64], run2[64], popped[32], token[32];
    char *keys[MAX_DUMPS], *dumps[MAX_DUMPS];
    size_t dump_lens[MAX_DUMPS], count;
    int is_known; /* the number of changes before the last call, which may have made none */
    long long changes;
} shard;

static redisReply *plainly(const char *name, int kind, ...)
{
    garbage_arguments a;
    const char *text;
    redisReply *reply;
    va_list args;
    memset(&a, 0, sizeof a);
    va_start(args, kind);
    while ((text = va_arg(args, const char *)))
        garbage_set(&a, a.count++, text, strlen(text));
    va_end(args);
    reply = garbage_call(name, (char)kind, &a);
    garbage_free(&a);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", name, reply->str);
    return reply;
}
#define PLAINLY(...) freeReplyObject(plainly(__VA_ARGS__, NULL))

static void push_options(const char *id, const char *payload, const char *sequence, const char *options, size_t len)
{
    garbage_arguments a;
    redisReply *reply;
    const char *head[] = {"1", sequence, "list", "keep", "3", "3", id, payload};
    memset(&a, 0, sizeof a);
    for (; a.count < 8; a.count++)
        garbage_set(&a, a.count, head[a.count], strlen(head[a.count]));
    garbage_set(&a, a.count++, options, len);
    reply = garbage_call("push", 'P', &a);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("push: %s", reply->str);
    freeReplyObject(reply);
    garbage_free(&a);
}

static void push_many(const char *id, int count, const char *options, size_t len)
{
    static int sequence;
    int i;
    for (i = 0; i < count; i++) {
        char payload[200], number[16];
        snprintf(payload, sizeof payload, "%0150d", i);
        snprintf(number, sizeof number, "%d", ++sequence);
        freeReplyObject(redis("DEL " PREFIX "push:me"));
        push_options(id, payload, number, options, len);
    }
}

/* One of a claim as a whole is not in `running`. */
static void claim_one(const char *id, char *run, size_t cap)
{
    redisReply *reply = plainly("claim", 'S', "1", shard.lease, shard.seen, "1", "0", "0", "merge", "3", NULL), *open;
    const redisReply *ids = reply->elements < 10 ? NULL : reply->element[8];
    if (!ids || ids->len != 2 + strlen(id) || memcmp(ids->str + 2, id, strlen(id)) != 0)
        fail_msg("%s was not claimed", id);
    snprintf(shard.seen, sizeof shard.seen, "%s", reply->element[1]->str);
    freeReplyObject(reply);
    open = redis("HGET " PREFIX "running %s", id);
    snprintf(run, cap, "%s%s", open->str ? open->str : "0n", open->str ? "" : shard.seen);
    freeReplyObject(open);
}

static void pop_one(const char *id, const char *ttr)
{
    redisReply *reply = plainly("pop", 'P', "1", "1000000", "list", "3", ttr, "1000", "1", "0", "3", "bury", "0", NULL);
    assert_int_equal(reply->elements, 7);
    assert_string_equal(reply->element[3]->str, id);
    if (!shard.popped[0])
        snprintf(shard.popped, sizeof shard.popped, "%s", reply->element[2]->str);
    freeReplyObject(reply);
    freeReplyObject(redis("DEL " PREFIX "push:me"));
}

static void own_shard(void)
{
    redisReply *reply = plainly("acquire", 'S', "1", "n1", "merge", "", "0", NULL);
    snprintf(shard.lease, sizeof shard.lease, "%s", reply->element[1]->str);
    snprintf(shard.seen, sizeof shard.seen, "%s", reply->element[2]->str);
    freeReplyObject(reply);
}

static void keep_dumps(void)
{
    redisReply *keys = redis("KEYS *");
    size_t i;
    assert_true(keys->elements <= MAX_DUMPS);
    for (i = 0; i < keys->elements; i++) {
        redisReply *dump = redis("DUMP %b", keys->element[i]->str, keys->element[i]->len);
        shard.keys[i] = strdup(keys->element[i]->str);
        shard.dumps[i] = malloc(dump->len);
        memcpy(shard.dumps[i], dump->str, dump->len);
        shard.dump_lens[i] = dump->len;
        freeReplyObject(dump);
    }
    shard.count = keys->elements;
    freeReplyObject(keys);
}

/*
 * Brings keys back in one command, and deletes those that the shard does not have, or the one: a round trip for each
 * key took most of the time of the test, and a FLUSHALL half of the command's.
 */
static void bring_back(size_t from, size_t count, const char *one)
{
    static const char text[] =
        "local is = {} for i = 1, #KEYS do is[KEYS[i]] = true end "
        "for _, key in ipairs(ARGV[1] ~= '' and {ARGV[1]} or redis.call('KEYS', '*')) do "
        "if not is[key] then redis.call('DEL', key) end end "
        "for i = 1, #KEYS do redis.call('RESTORE', KEYS[i], 0, ARGV[i + 1], 'REPLACE') end return 'OK'";
    const char *argv[4 + 2 * MAX_DUMPS] = {"EVAL", text};
    size_t lens[4 + 2 * MAX_DUMPS] = {4, sizeof text - 1}, i;
    char digits[8];
    redisReply *reply;
    argv[2] = digits;
    lens[2] = (size_t)snprintf(digits, sizeof digits, "%d", (int)count);
    for (i = 0; i < count; i++) {
        argv[3 + i] = shard.keys[from + i];
        lens[3 + i] = strlen(shard.keys[from + i]);
        argv[4 + count + i] = shard.dumps[from + i];
        lens[4 + count + i] = shard.dump_lens[from + i];
    }
    argv[3 + count] = one;
    lens[3 + count] = strlen(one);
    reply = redisCommandArgv(server_redis, 4 + 2 * (int)count, argv, lens);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("restore: %s", reply ? reply->str : server_redis->errstr);
    freeReplyObject(reply);
}

void garbage_restore(const char *key)
{
    size_t i;
    if (!shard.is_known || changes() != shard.changes) {
        bring_back(0, shard.count, "");
    } else if (key) {
        for (i = 0; i < shard.count && strcmp(shard.keys[i], key) != 0; i++)
            ;
        bring_back(i, i < shard.count, key);
    }
    shard.is_known = 0;
}

/* A two-phase commit set: two consumers have reserved members, one of which was added again. */
static void build_ick(void)
{
    redisReply *reply;
    PLAINLY("ick_add", 'I', "1", "held", "2", "again", "3", "theirs", "4", "free");
    reply = plainly("ick_reserve", 'J', "me", "", "2", "0", "30000000", "0", "", NULL);
    snprintf(shard.token, sizeof shard.token, "%s", reply->element[0]->str);
    freeReplyObject(reply);
    PLAINLY("ick_add", 'I', "7", "again");
    REDIS("ZADD " ICK "ends 1 other");
    REDIS("HSET " ICK "tokens other 5");
    REDIS("HSET " ICK "held theirs other");
    REDIS("ZREM " ICK "pset theirs");
    REDIS("ZADD " ICK "cset:other 3 theirs");
}

static void build_shard(void)
{
    static const double score[] = {7, 8e15}; /* and when it is forgotten */
    static const char failed[] = "\4\0\0\0\0\0\0\0\0\0\0\0\0\x54\xd2\xea\x41\3\0\0\0\0";
    PLAINLY("layout", 'L', "keep", "0", "1", "fold", "merge");
    PLAINLY("heartbeat", 'B', "n1", "100000", "host", "seriatim:nodes");
    own_shard();
    push_many("run", 20, "", 0);
    claim_one("run", shard.run, sizeof shard.run);
    push_many("run2", 1, "", 0);
    claim_one("run2", shard.run2, sizeof shard.run2);
    push_many("popped", 20, "", 0);
    pop_one("popped", "1000000000000");
    push_many("lost", 20, "", 0);
    pop_one("lost", "1"); /* whoever claims or pops next ends it */
    push_many("run", 20, "", 0);
    push_many("run2", 1, OPTIONS, sizeof OPTIONS - 1);
    push_many("bad", 20, failed, sizeof failed - 1);
    PLAINLY("kill_failed", 'S', "1", "0", "", "merge");
    push_many("bad", 2, failed, sizeof failed - 1);
    push_many("parked", 2, "", 0);
    PLAINLY("park", 'S', "1", "parked");
    push_many("hot", 20, "", 0);
    push_many("a", 1, "", 0);
    push_many("b", 2, "", 0);
    push_many("later", 3, OPTIONS, sizeof OPTIONS - 1);
    push_many("plan", 3, SCHEDULED, sizeof SCHEDULED - 1);
    push_many("a", 1, SCHEDULED, sizeof SCHEDULED - 1);
    push_many("run", 1, SCHEDULED, sizeof SCHEDULED - 1);
    freeReplyObject(redis("ZADD " PREFIX "overrun 9000000000000000 run"));
    freeReplyObject(redis("HSET " PREFIX "scores run %b a %b b x", score, sizeof score, score, sizeof score));
    freeReplyObject(redis("ZADD " PREFIX "scoreends 8000000000000000 run 8000000000000000 a 5 b"));
    freeReplyObject(redis("DEL " PREFIX "push:me"));
    build_ick();
    keep_dumps();
}

/* ---- Trials -------------------------------------------------------------------------------- */

void garbage_plausible(garbage_arguments *a, const struct call *c)
{
    memset(a, 0, sizeof *a);
    for (; a->count < MAX_ARGS && c->args[a->count]; a->count++) {
        const char *text = c->args[a->count];
        if (strcmp(text, SCHEDULED) == 0)
            garbage_set(a, a->count, SCHEDULED, sizeof SCHEDULED - 1);
        else if (strcmp(text, IMPORTED("w")) == 0)
            garbage_set(a, a->count, IMPORTED("w"), sizeof IMPORTED("w") - 1);
        else if (strcmp(text, IMPORTED("d")) == 0)
            garbage_set(a, a->count, IMPORTED("d"), sizeof IMPORTED("d") - 1);
        else if (strcmp(text, OPTIONS) == 0 && text[1] == '\0')
            garbage_set(a, a->count, OPTIONS, sizeof OPTIONS - 1);
        else if (text[0] == '\1')
            text = strcmp(text, LEASE) == 0   ? shard.lease
                   : strcmp(text, SEEN) == 0  ? shard.seen
                   : strcmp(text, RUN) == 0   ? shard.run
                   : strcmp(text, RUN2) == 0  ? shard.run2
                   : strcmp(text, TOKEN) == 0 ? shard.token
                                              : shard.popped;
        if (!a->data[a->count])
            garbage_set(a, a->count, text, strlen(text));
    }
}

int garbage_broken; /* errors that changed something */

/* Calls; an error must not have changed anything. Returns whether it was an error. */
int garbage_refuses_cleanly(const struct call *c, const garbage_arguments *a, const char *what)
{
    char text[2048] = "";
    redisReply *reply;
    int failed;
    shard.changes = changes();
    shard.is_known = 1;
    reply = garbage_call(c->name, c->keys, a);
    failed = reply->type == REDIS_REPLY_ERROR;
    if (failed && changes() != shard.changes) {
        describe(a, text, sizeof text);
        print_message("%s%s: changed something although it says: %s\n   %s\n", c->name, text, reply->str, what);
        garbage_broken++;
    }
    freeReplyObject(reply);
    return failed;
}

int garbage_start(void **state)
{
    if (start_server(state) != 0)
        return -1;
    memset(is_loaded, 0, sizeof is_loaded);
    build_shard();
    return 0;
}

int garbage_stop(void **state)
{
    while (shard.count > 0) {
        shard.count--;
        free(shard.keys[shard.count]);
        free(shard.dumps[shard.count]);
    }
    return stop_server(state);
}

/* reshard_fixture.c - a queue on a real Redis whose ids move from shard to shard: the scripts of a move, called one by
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRT_SCRIPT_TEXTS
#include "base/bytes.h"
#include "reshard_fixture.h"

static const char *const foreign_kinds[] = {"jobs", "scheduled", "dead", "scores", "events", "notices", "outboxes"};

/* ---- Calls ---------------------------------------------------------------------------------- */

void call_begin(shard_call *call, unsigned shard, const char *script, size_t len, const char *generation)
{
    static const char *const kinds[] = {"state", "-"};
    size_t i;
    call->count = 0;
    call_text(call, "EVAL");
    call_bytes(call, script, len);
    call_text(call, "2");
    for (i = 0; i < 2; i++) {
        snprintf(call->keys[i], sizeof call->keys[i], "seriatim:{Q/%u}:%s", shard, kinds[i]);
        call_text(call, call->keys[i]);
    }
    if (generation)
        call_text(call, generation);
}

void call_bytes(shard_call *call, const char *data, size_t len)
{
    assert_true(call->count < CALL_ARGS);
    call->argv[call->count] = data;
    call->lens[call->count++] = len;
}

void call_text(shard_call *call, const char *text)
{
    call_bytes(call, text, strlen(text));
}

redisReply *call_send(shard_call *call, int may_fail)
{
    redisReply *reply = redisCommandArgv(server_redis, (int)call->count, call->argv, call->lens);
    if (!reply || (reply->type == REDIS_REPLY_ERROR && !may_fail))
        fail_msg("%.60s: %s", call->argv[1], reply ? reply->str : "closed");
    return reply;
}

redisReply *shard_script(unsigned shard, const char *script, size_t len, const char *generation, ...)
{
    static shard_call call;
    va_list args;
    const char *text;
    call_begin(&call, shard, script, len, generation);
    va_start(args, generation);
    while ((text = va_arg(args, const char *)))
        call_text(&call, text);
    va_end(args);
    return call_send(&call, 0);
}

/* ---- A move --------------------------------------------------------------------------------- */

static void replace_layout(move *m, const char *words)
{
    static const char *const kinds[] = {"layout", "settings", "deleted", "history", "run_times", "-"};
    shard_call call;
    redisReply *reply;
    size_t i;
    call.count = 0;
    call_text(&call, "EVAL");
    call_bytes(&call, srt_script_text_set_layout, sizeof srt_script_text_set_layout - 1);
    call_text(&call, "6");
    for (i = 0; i < 6; i++) {
        snprintf(call.keys[i], sizeof call.keys[i], "seriatim:{Q}:%s", kinds[i]);
        call_text(&call, call.keys[i]);
    }
    call_text(&call, m->layout);
    call_text(&call, words);
    reply = call_send(&call, 0);
    assert_int_equal(reply->element[0]->integer, 1);
    snprintf(m->layout, sizeof m->layout, "%s", reply->element[1]->str);
    snprintf(m->generation, sizeof m->generation, "%.*s", (int)strcspn(m->layout, " "), m->layout);
    freeReplyObject(reply);
}

const char *departing_id(char id[32], const char *name, int number)
{
    int i;
    for (i = 0; i == 0 || seriatim_shard_of(id, strlen(id), 2) == 0; i++)
        snprintf(id, 32, "%s%d-%d", name, number, i);
    return id;
}

const char *turn_shard(unsigned shard, const char *layout)
{
    static char word[16];
    shard_call call;
    redisReply *reply;
    CALL(&call, shard, turn, NULL);
    call_text(&call, layout);
    reply = call_send(&call, 0);
    snprintf(word, sizeof word, "%s", reply->element[0]->str);
    freeReplyObject(reply);
    return word;
}

static void turn_all(const move *m)
{
    unsigned i;
    for (i = 0; i < m->old || i < m->shards; i++)
        assert_string_equal(turn_shard(i, m->layout), "OK");
}

void move_begin(move *m, unsigned shards)
{
    redisReply *reply = redis("GET seriatim:{Q}:layout");
    char words[64];
    unsigned most;
    memset(m, 0, sizeof *m);
    snprintf(m->layout, sizeof m->layout, "%s", reply->str);
    freeReplyObject(reply);
    assert_int_equal(sscanf(m->layout, "%*s %u", &m->old), 1);
    m->shards = shards;
    most = m->old > shards ? m->old : shards;
    snprintf(words, sizeof words, "%u 4 %u %u", shards, m->old, most);
    replace_layout(m, words);
    turn_all(m);
}

/* Is the mover dead before this call? */
static int killed(move *m)
{
    return m->until && ++m->kills >= m->until;
}

redisReply *depart(const move *m, unsigned source, const char *ids)
{
    static char words[8192];
    shard_call call;
    char *word;
    CALL(&call, source, depart, m->generation);
    snprintf(words, sizeof words, "%s", ids);
    for (word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        call_text(&call, word);
        call_text(&call, "");
    }
    return call_send(&call, 0);
}

static int bring_slices(move *m, unsigned source, unsigned target, const char *sequence, const redisReply *id,
                        char letter)
{
    char place[32] = "0", kind[2] = {letter, '\0'}, from[16];
    shard_call call;
    snprintf(from, sizeof from, "%u", source);
    while (place[0]) {
        redisReply *slice, *reply;
        if (killed(m))
            return 0;
        CALL(&call, source, slice_out, m->generation);
        call_text(&call, sequence);
        call_bytes(&call, id->str, id->len);
        call_text(&call, kind);
        call_text(&call, place);
        slice = call_send(&call, 0);
        assert_int_equal(slice->elements, 2);
        if (killed(m)) {
            freeReplyObject(slice);
            return 0;
        }
        CALL(&call, target, slice_in, m->generation);
        call_text(&call, from);
        call_text(&call, sequence);
        call_bytes(&call, id->str, id->len);
        call_text(&call, kind);
        call_text(&call, place);
        call_bytes(&call, slice->element[1]->str, slice->element[1]->len);
        call_text(&call, "merge");
        reply = call_send(&call, 0);
        snprintf(place, sizeof place, "%s", slice->element[0]->str);
        freeReplyObject(reply);
        freeReplyObject(slice);
    }
    return 1;
}

/* The id '' is the shard itself, and goes nowhere. */
static int goes_to(const move *m, unsigned target, const redisReply *id)
{
    return id->len > 0 && seriatim_shard_of(id->str, id->len, m->shards) == target;
}

/* Returns the first word of the answer. */
static const char *arrive(const move *m, unsigned source, unsigned target, redisReply *batch)
{
    static char word[16];
    char from[16];
    shard_call call;
    redisReply *reply;
    size_t i;
    CALL(&call, target, arrive, m->generation);
    snprintf(from, sizeof from, "%u", source);
    call_text(&call, from);
    call_text(&call, batch->element[0]->str);
    call_text(&call, batch->element[1]->str);
    call_text(&call, "merge");
    call_text(&call, "100");
    for (i = 3; i < batch->elements; i += 3)
        if (goes_to(m, target, batch->element[i]) || batch->element[i]->len == 0) {
            call_bytes(&call, batch->element[i]->str, batch->element[i]->len);
            call_bytes(&call, batch->element[i + 1]->str, batch->element[i + 1]->len);
        }
    reply = call_send(&call, 0);
    snprintf(word, sizeof word, "%s", reply->element[0]->str);
    freeReplyObject(reply);
    return word;
}

static const char *departed(const move *m, unsigned source, unsigned target, redisReply *batch)
{
    static char word[16];
    shard_call call;
    redisReply *reply;
    size_t i;
    CALL(&call, source, departed, m->generation);
    call_text(&call, batch->element[0]->str);
    for (i = 3; i < batch->elements; i += 3)
        if (goes_to(m, target, batch->element[i]))
            call_bytes(&call, batch->element[i]->str, batch->element[i]->len);
    reply = call_send(&call, 0);
    snprintf(word, sizeof word, "%s", reply->str);
    freeReplyObject(reply);
    return word;
}

int bring(move *m, unsigned source, redisReply *batch)
{
    unsigned target;
    size_t i;
    for (target = 0; target < m->shards; target++) {
        size_t mine = 0;
        for (i = 3; i < batch->elements; i += 3) {
            const char *letter;
            if (!goes_to(m, target, batch->element[i]))
                continue;
            mine++;
            for (letter = batch->element[i + 2]->str; *letter; letter++)
                if (!bring_slices(m, source, target, batch->element[0]->str, batch->element[i], *letter))
                    return 0;
        }
        if (mine == 0)
            continue;
        do {
            if (killed(m))
                return 0;
        } while (strcmp(arrive(m, source, target, batch), "MORE") == 0);
        do {
            if (killed(m))
                return 0;
        } while (strcmp(departed(m, source, target, batch), "MORE") == 0);
    }
    return 1;
}

/* Takes and brings what one answer of foreign lists. */
static size_t move_listed(move *m, unsigned source, const redisReply *listed)
{
    shard_call call;
    redisReply *batch;
    size_t i, left = 0;
    CALL(&call, source, depart, m->generation);
    for (i = 2; i < listed->elements && i < 202; i++)
        call_bytes(&call, listed->element[i]->str, listed->element[i]->len);
    batch = call_send(&call, 0);
    if (strcmp(batch->element[0]->str, "0") != 0) {
        for (i = 3; i < batch->elements; i += 3)
            left += batch->element[i]->len > 0;
        assert_true(bring(m, source, batch));
    }
    freeReplyObject(batch);
    return left;
}

/* Goes through all foreign ids of a source; mark: that of the scan. */
static size_t scan_source(move *m, unsigned source, char mark[32])
{
    size_t kind, left = 0, listed = 0;
    for (kind = 0; kind < sizeof foreign_kinds / sizeof *foreign_kinds; kind++) {
        char cursor[64] = "0";
        do {
            redisReply *reply = ON_SHARD(source, foreign, m->generation, foreign_kinds[kind], cursor);
            snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
            if (listed++ == 0)
                snprintf(mark, 32, "%s", reply->element[1]->str);
            if (reply->elements > 2)
                left += move_listed(m, source, reply);
            freeReplyObject(reply);
        } while (strcmp(cursor, "0") != 0);
    }
    return left;
}

size_t move_source(move *m, unsigned source)
{
    char mark[32];
    return scan_source(m, source, mark);
}

static void close_source(move *m, unsigned source)
{
    char mark[32];
    unsigned target;
    redisReply *reply, *batch;
    while (scan_source(m, source, mark) > 0)
        continue;
    batch = depart(m, source, "");
    assert_string_equal(batch->element[0]->str, "0");
    for (target = 0; target < m->shards; target++)
        assert_string_equal(arrive(m, source, target, batch), "OK");
    freeReplyObject(batch);
    reply = ON_SHARD(source, out, m->generation, mark);
    assert_int_equal(reply->integer, 1);
    freeReplyObject(reply);
}

void move_end(move *m)
{
    char words[64];
    if (m->old > m->shards)
        snprintf(words, sizeof words, "%u 4 0 %u", m->shards, m->old);
    else
        snprintf(words, sizeof words, "%u 3", m->shards);
    replace_layout(m, words);
    turn_all(m);
}

void move_all(move *m)
{
    unsigned source;
    for (source = 0; source < m->old; source++)
        close_source(m, source);
    move_end(m);
}

/* ---- What is stored ------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    const redisReply *const *x = a, *const *y = b;
    size_t len = (*x)->len < (*y)->len ? (*x)->len : (*y)->len;
    int order = memcmp((*x)->str, (*y)->str, len);
    return order ? order : ((*x)->len > (*y)->len) - ((*x)->len < (*y)->len);
}

static void add_reply(srt_bytes *out, const redisReply *reply, int ordered)
{
    size_t i;
    if (reply->type == REDIS_REPLY_STRING) {
        for (i = 0; i < reply->len; i++) {
            char c = reply->str[i], hex[8];
            snprintf(hex, sizeof hex, c > ' ' && c <= '~' ? "%c" : "\\%02x", (unsigned char)c);
            srt_bytes_adds(out, hex);
        }
        srt_bytes_adds(out, " ");
    } else if (reply->type == REDIS_REPLY_ARRAY) {
        if (!ordered)
            qsort(reply->element, reply->elements, sizeof *reply->element, by_text);
        for (i = 0; i < reply->elements; i++)
            add_reply(out, reply->element[i], 1);
    }
}

static void add_stored(srt_bytes *out, unsigned shard, const char *command, const char *key, const char *id,
                       int ordered)
{
    char text[512];
    redisReply *reply;
    snprintf(text, sizeof text, command, shard, id);
    reply = redis(text);
    if ((reply->type == REDIS_REPLY_STRING) || reply->elements > 0) {
        srt_bytes_adds(out, key);
        srt_bytes_adds(out, ": ");
        add_reply(out, reply, ordered);
        srt_bytes_adds(out, "\n");
    }
    freeReplyObject(reply);
}

char *stored(unsigned shard, const char *id)
{
    static const char *const hashes[] = {"jobs", "dead", "scores"};
    static const char *const sets[] = {"due", "retry", "parked", "unproven", "suspect", "died", "scoreends", "moving"};
    static const char *const payloads[] = {"spill", "deadspill", "sched"};
    static const char *const maps[] = {"spillmap", "deadspillmap", "schedmap"};
    char command[128];
    srt_bytes out;
    size_t i;
    srt_bytes_init(&out, seriatim_default_allocator());
    for (i = 0; i < sizeof hashes / sizeof *hashes; i++) {
        snprintf(command, sizeof command, "HGET seriatim:{Q/%%u}:%s %%s", hashes[i]);
        add_stored(&out, shard, command, hashes[i], id, 1);
    }
    for (i = 0; i < sizeof sets / sizeof *sets; i++) {
        snprintf(command, sizeof command, "ZSCORE seriatim:{Q/%%u}:%s %%s", sets[i]);
        add_stored(&out, shard, command, sets[i], id, 1);
    }
    for (i = 0; i < sizeof payloads / sizeof *payloads; i++) {
        snprintf(command, sizeof command, "ZRANGE seriatim:{Q/%%u}:%s:%%s 0 -1 WITHSCORES", payloads[i]);
        add_stored(&out, shard, command, payloads[i], id, 1);
    }
    for (i = 0; i < sizeof maps / sizeof *maps; i++) {
        snprintf(command, sizeof command, "HKEYS seriatim:{Q/%%u}:%s:%%s", maps[i]);
        add_stored(&out, shard, command, maps[i], id, 0);
        snprintf(command, sizeof command, "HVALS seriatim:{Q/%%u}:%s:%%s", maps[i]);
        add_stored(&out, shard, command, maps[i], id, 0);
    }
    add_stored(&out, shard, "LRANGE seriatim:{Q/%u}:events:%s 0 -1", "events", id, 1);
    srt_bytes_addc(&out, '\0');
    return out.data;
}

char *stored_of(const char *id, unsigned count)
{
    return stored(seriatim_shard_of(id, strlen(id), count), id);
}

int is_stored(unsigned shard, const char *id)
{
    char *text = stored(shard, id);
    int is = text[0] != '\0';
    free(text);
    return is;
}

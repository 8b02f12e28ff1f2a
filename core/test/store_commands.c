/* store_commands.c - the commands that nodes send to the model of Redis, and which script each runs. */
#define SRT_SCRIPT_TEXTS
#include "store_parts.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    size_t len;
    const char *sha;
} store_scripts[] = {
#define X(name, sha) {srt_script_text_##name, sizeof srt_script_text_##name - 1, sha},
    SRT_SCRIPTS(X)
#undef X
};

#define SCRIPTS (sizeof store_scripts / sizeof *store_scripts)

static store_shard *shard_of_key(store *s, store_arg key)
{
    size_t i;
    for (i = 0; i < s->shard_count; i++)
        if (key.len == strlen(s->shards[i].prefix) + 5 && memcmp(key.data, s->shards[i].prefix, key.len - 5) == 0)
            return &s->shards[i];
    return NULL;
}

/* Another process measures the queues. */
static void do_sampler(store_conn *c)
{
    srt_resp_array(&c->out, 3);
    store_say_int(c, 0);
    store_say_int(c, 1);
    store_say_int(c, 0);
}

static void do_script(store_conn *c, int script, const store_arg *keys, size_t key_count, const store_arg *argv,
                      size_t argc)
{
    store_shard *sh = shard_of_key(c->store, keys[0]);
    if (script == srt_script_layout)
        store_do_layout(c, keys[0], argv[2]);
    else if (script == srt_script_heartbeat)
        store_do_beat(c, argv);
    else if (script == srt_script_sampler)
        do_sampler(c);
    else if (!sh || key_count != SRT_SHARD_KEYS || store_number_of(argv[0]) != 1)
        store_say_line(c, "-ERR keys");
    else if (script == srt_script_acquire)
        store_do_acquire(c, sh, argv, argc);
    else if (script == srt_script_claim)
        store_do_claim(c, sh, argv);
    else if (script == srt_script_settle)
        store_do_settle(c, sh, argv, argc);
    else if (script == srt_script_release)
        store_do_release(c, sh, argv);
    else if (script == srt_script_tell)
        store_do_tell(c, sh, argv, argc);
    else if (script == srt_script_told)
        store_do_told(c, sh, argv, argc);
    else if (script == srt_script_slice)
        store_do_slice(c, sh, argv);
    else if (script == srt_script_recover)
        store_do_recover(c, sh, argv);
    else
        store_say_line(c, "-ERR unknown script");
}

static int find_script(store_arg word, int by_text)
{
    size_t i;
    for (i = 0; i < SCRIPTS; i++) {
        const char *data = by_text ? store_scripts[i].text : store_scripts[i].sha;
        size_t len = by_text ? store_scripts[i].len : 40;
        if (word.len == len && memcmp(word.data, data, len) == 0)
            return (int)i;
    }
    return -1;
}

static void do_eval(store_conn *c, const store_arg *words, size_t count, int by_text)
{
    static const char *const errors[STORE_IN_DOUBT_FAULTS] = {"-LOADING Redis is loading", "-OOM command not allowed",
                                                              "-ERR something else"};
    store *s = c->store;
    int script = find_script(words[1], by_text);
    size_t keys = (size_t)store_number_of(words[2]);
    if (store_chance(s, s->noscript_ppm))
        memset(s->loaded, 0, sizeof s->loaded);
    if (script < 0 || count < 3 + keys) {
        store_say_line(c, "-ERR eval");
        return;
    }
    if (by_text)
        s->loaded[script] = 1;
    if (!s->loaded[script])
        store_say_line(c, "-NOSCRIPT No matching script.");
    else if (store_chance(s, s->errors_ppm))
        store_say_line(c, errors[store_random(s, STORE_IN_DOUBT_FAULTS)]);
    else
        do_script(c, script, words + 3, keys, words + 3 + keys, count - 3 - keys);
}

static void do_subscribe(store_conn *c, const store_arg *words, size_t count)
{
    size_t i;
    for (i = 1; i < count && c->channel_count < 2; i++) {
        store_arg_copy(c->channels[c->channel_count++], 96, words[i]);
        srt_resp_array(&c->out, 3);
        store_say_text(c, "subscribe");
        srt_resp_arg(&c->out, words[i].data, words[i].len);
        store_say_int(c, c->channel_count);
    }
}

static void do_command(store_conn *c, const store_arg *words, size_t count)
{
    char channel[160], text[160];
    c->store->commands++;
    if (store_arg_is(words[0], "EVALSHA") || store_arg_is(words[0], "EVAL")) {
        do_eval(c, words, count, words[0].len == 4);
    } else if (store_arg_is(words[0], "SUBSCRIBE")) {
        do_subscribe(c, words, count);
    } else if (store_arg_is(words[0], "PUBLISH")) {
        store_arg_copy(channel, sizeof channel, words[1]);
        store_arg_copy(text, sizeof text, words[2]);
        store_publish(c->store, channel, text, strlen(text));
        store_say_int(c, 0);
    } else if (store_arg_is(words[0], "PING")) {
        srt_resp_array(&c->out, 2);
        store_say_text(c, "pong");
        store_say_text(c, "");
    } else {
        store_say_line(c, "+OK");
    }
}

/* A line's number behind `mark`; 0 when the line is not whole. */
static size_t read_line(const char **at, const char *end, char mark, size_t *value)
{
    const char *p = *at;
    if (p == end || *p++ != mark)
        return 0;
    for (*value = 0; p < end && *p >= '0' && *p <= '9'; p++)
        *value = *value * 10 + (size_t)(*p - '0');
    if (end - p < 2)
        return 0;
    *at = p + 2;
    return 1;
}

/* Returns the bytes of one whole command, which was executed; 0 if no whole command has come. */
static size_t take_command(store_conn *c)
{
    const char *at = c->in.data, *end = at + c->in.len;
    store_arg *words;
    size_t count, i;
    if (!read_line(&at, end, '*', &count))
        return 0;
    words = malloc(count * sizeof *words);
    for (i = 0; i < count; i++) {
        if (!read_line(&at, end, '$', &words[i].len) || (size_t)(end - at) < words[i].len + 2)
            break;
        words[i].data = at;
        at += words[i].len + 2;
    }
    if (i == count)
        do_command(c, words, count);
    free(words);
    return i == count ? (size_t)(at - c->in.data) : 0;
}

void store_feed(store_conn *c, const char *data, size_t len)
{
    size_t used;
    srt_bytes_add(&c->in, data, len);
    while (c->in.len && (used = take_command(c)) > 0)
        srt_bytes_consume(&c->in, used);
}

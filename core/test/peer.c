/* peer.c - see peer.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "failing.h"
#include "peer.h"
#include "wire/keys.h"

#define X(name, sha) sha,
static const char *const shas[] = {SRT_SCRIPTS(X)};
#undef X

const unsigned char random_bytes[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                        0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};

/* ---- Clients ------------------------------------------------------------------------------- */

seriatim_client *new_client(const seriatim_options *options, int64_t shards, const char *on_waiting)
{
    seriatim_queue_settings settings;
    seriatim_client *c = NULL;
    seriatim_error error;
    size_t queue = 99;
    if (seriatim_client_new(options, &c, &error) != SERIATIM_OK)
        return NULL;
    srt_client_identify(c, random_bytes);
    srt_client_tell_time(c, NOW);
    seriatim_queue_settings_init(&settings);
    settings.name = "Q";
    settings.name_len = 1;
    settings.shards_count = shards;
    settings.on_waiting = on_waiting;
    if (seriatim_client_queue(c, &settings, &queue) != SERIATIM_OK) {
        seriatim_client_free(c);
        return NULL;
    }
    assert_int_equal(queue, 0);
    return c;
}

int add_job(seriatim_client *c, const char *id, const char *payload)
{
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = strlen(id);
    job.payload = payload;
    job.payload_len = strlen(payload);
    return seriatim_push_job(c, &job);
}

int add_jobs(seriatim_client *c, int from, int count)
{
    int i, status = SERIATIM_OK;
    for (i = from; i < from + count && status == SERIATIM_OK; i++) {
        char id[32];
        snprintf(id, sizeof id, "id-%d", i);
        status = add_job(c, id, "{}");
    }
    return status;
}

const char *message(const seriatim_client *c)
{
    return seriatim_client_error(c)->message;
}

void assert_every_allocation_may_fail(int (*push)(const seriatim_options *options))
{
    failing f = {0};
    seriatim_allocator mem = {failing_alloc, &f};
    seriatim_options options = {0};
    size_t n;
    int done = 0;
    options.allocator = &mem;
    for (n = 1; !done; n++) {
        f.calls = 0;
        f.fail_at = n;
        done = push(&options) && f.calls < n;
        assert_int_equal(f.live, 0);
        assert_true(n < 5000);
    }
    assert_true(n > 50);
}

/* ---- A peer that is spelled out: what the client must say, what it hears -------------------- */

void hears(seriatim_client *c, const char *want, size_t want_len)
{
    const char *data;
    size_t len;
    srt_client_output(c, &data, &len);
    assert_int_equal(len, want_len);
    assert_memory_equal(data, want, len);
    srt_client_sent(c, len);
}

int says(seriatim_client *c, const char *text)
{
    seriatim_error error = {0, ""};
    return srt_client_input(c, text, strlen(text), &error);
}

/* ---- A peer that reads commands ------------------------------------------------------------- */

peer *new_peer(unsigned shards)
{
    peer *p = calloc(1, sizeof *p);
    p->generation = 1;
    p->shards = shards;
    p->oom_shard = -1;
    p->refusal = "OOM command not allowed when used memory > 'maxmemory'. script: x";
    return p;
}

void free_peer(peer *p)
{
    free(p->in);
    free(p->replica);
    free(p);
}

size_t peer_parse(peer *p)
{
    size_t at = 0, i;
    char *end;
    if (p->in_len == 0)
        return 0;
    assert_int_equal(p->in[0], '*');
    p->argc = strtoul(p->in + 1, &end, 10);
    assert_true(p->argc >= 1 && p->argc <= MAX_ARGS);
    at = (size_t)(end - p->in) + 2;
    for (i = 0; i < p->argc; i++) {
        assert_int_equal(p->in[at], '$');
        p->argl[i] = strtoul(p->in + at + 1, &end, 10);
        at = (size_t)(end - p->in) + 2;
        p->argv[i] = p->in + at;
        at += p->argl[i] + 2;
        assert_true(at <= p->in_len);
    }
    return at;
}

static int arg_is(const peer *p, size_t i, const char *text)
{
    return p->argl[i] == strlen(text) && memcmp(p->argv[i], text, p->argl[i]) == 0;
}

static unsigned long arg_number(const peer *p, size_t i)
{
    return strtoul(p->argv[i], NULL, 10);
}

static int peer_script(const peer *p)
{
    size_t i;
    if (arg_is(p, 0, "EVAL"))
        return p->argl[1] > 6000 ? srt_script_push : srt_script_layout;
    for (i = 0; i < sizeof shas / sizeof *shas; i++)
        if (arg_is(p, 1, shas[i]))
            return (int)i;
    return srt_script_none;
}

static unsigned peer_shard(const char *key)
{
    return (unsigned)strtoul(strchr(key, '/') + 1, NULL, 10);
}

/* The place of the shard among those of the queues Q and R. */
static unsigned peer_place(const char *key)
{
    return peer_shard(key) + (strstr(key, "{R/") && strstr(key, "{R/") < strchr(key, '/') ? 32 : 0);
}

static void bulk(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "$%d\r\n%s\r\n", (int)strlen(text), text);
}

static void peer_push(peer *p, char *out, size_t cap)
{
    size_t keys = SRT_SHARD_KEYS + 1, first = 3 + keys + 6, width = arg_number(p, first - 2) % 10,
           n = (p->argc - first) / width, i, refused = 0;
    unsigned shard = peer_shard(p->argv[3]), place = peer_place(p->argv[3]);
    char answer[8192] = "", sequence[24];
    p->pushes++;
    assert_true(n >= 1 && n <= 1000);
    snprintf(sequence, sizeof sequence, "%lu ", arg_number(p, 4 + keys));
    if (place >= p->stale_from && (p->stale_until > 0 || arg_number(p, 3 + keys) != p->generation)) {
        p->stale_until -= p->stale_until > 0;
        snprintf(out, cap, "-GENERATION %lu\r\n", p->generation);
        return;
    }
    p->written_here++;
    if (strncmp(p->token[place], sequence, strlen(sequence)) == 0) {
        bulk(out, cap, strchr(p->token[place], ' ') + 1);
        return;
    }
    if ((int)place == p->oom_shard) {
        snprintf(out, cap, "-%s\r\n", p->refusal);
        return;
    }
    if (p->take && n > p->take)
        n = p->take;
    for (i = 0; i < n; i++) {
        const char *id = p->argv[first + width * i];
        unsigned long number = strtoul(id + 3, NULL, 10);
        p->wrong_shard += seriatim_shard_of(id, p->argl[first + width * i], (unsigned)p->shards) != shard;
        p->doubled += number < sizeof p->seen && p->seen[number]++;
        if (p->refuse_every && i % (size_t)p->refuse_every == 0) {
            snprintf(answer + strlen(answer), sizeof answer - strlen(answer), " %lu", (unsigned long)i + 1);
            refused++;
        }
    }
    p->jobs += (int)n;
    {
        char text[8300];
        snprintf(text, sizeof text, "%lu %lu 0%s%s", (unsigned long)n, (unsigned long)(n - refused), answer,
                 arg_number(p, first - 2) % 20 == 13 ? " a1000" : "");
        bulk(out, cap, text);
        snprintf(p->token[place], sizeof p->token[place], "%s%.30s", sequence, text);
    }
}

/* A WAIT counts only what its own connection wrote before it. */
static void peer_wait(peer *p, char *out, size_t cap)
{
    p->waits++;
    assert_int_equal(p->argc, 3);
    assert_true(p->written_here > 0);
    if (p->wait_error) {
        snprintf(out, cap, "%s", p->wait_error);
        p->wait_error = NULL;
        return;
    }
    snprintf(out, cap, ":%d\r\n", p->replicas);
    if (!p->replica)
        p->replica = malloc(sizeof *p);
    *p->replica = *p;
}

void peer_answer(peer *p, char *out, size_t cap)
{
    char text[64];
    if (arg_is(p, 0, "WAIT")) {
        peer_wait(p, out, cap);
        return;
    }
    if (arg_is(p, 0, "PEXPIRE")) {
        int is_there = *p->token[peer_place(p->argv[1])] != '\0';
        p->written_here += is_there;
        snprintf(out, cap, ":%d\r\n", is_there);
        return;
    }
    if (arg_is(p, 0, "GET")) {
        const char *token = p->token[peer_place(p->argv[1])];
        p->gets++;
        if (*token)
            bulk(out, cap, token);
        else
            snprintf(out, cap, "$-1\r\n");
        return;
    }
    if (p->noscript && arg_is(p, 0, "EVALSHA")) {
        snprintf(out, cap, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
        return;
    }
    p->evals += arg_is(p, 0, "EVAL");
    if (peer_script(p) == srt_script_push) {
        peer_push(p, out, cap);
        return;
    }
    assert_int_equal(peer_script(p), srt_script_layout);
    p->layouts++;
    snprintf(text, sizeof text, "%lu %lu 3", p->generation, p->shards);
    bulk(out, cap, text);
}

void peer_take(peer *p, seriatim_client *c)
{
    const char *data;
    size_t len;
    srt_client_output(c, &data, &len);
    if (len == 0)
        return;
    p->in = realloc(p->in, p->in_len + len + 1);
    memcpy(p->in + p->in_len, data, len);
    p->in_len += len;
    p->in[p->in_len] = '\0';
    srt_client_sent(c, len);
}

int peer_say(const peer *p, seriatim_client *c, const char *text, seriatim_error *error)
{
    size_t len = strlen(text), at, n;
    int status = SERIATIM_OK;
    for (at = 0; at < len && status == SERIATIM_OK; at += n) {
        n = p->step && p->step < len - at ? p->step : len - at;
        status = srt_client_input(c, text + at, n, error);
    }
    return status;
}

int peer_answer_one(peer *p, seriatim_client *c, int lost)
{
    static char out[16384];
    seriatim_error error = {0, ""};
    size_t len;
    peer_take(p, c);
    len = peer_parse(p);
    if (len == 0)
        return 0;
    peer_answer(p, out, sizeof out);
    p->in_len -= len;
    memmove(p->in, p->in + len, p->in_len + 1);
    if (!lost)
        assert_int_equal(peer_say(p, c, out, &error), SERIATIM_OK);
    return 1;
}

int peer_run(peer *p, seriatim_client *c, seriatim_error *error)
{
    static char out[16384];
    size_t len;
    for (peer_take(p, c); (len = peer_parse(p)) > 0; peer_take(p, c)) {
        int status;
        peer_answer(p, out, sizeof out);
        p->in_len -= len;
        memmove(p->in, p->in + len, p->in_len + 1);
        status = peer_say(p, c, out, error);
        if (status != SERIATIM_OK)
            return status;
    }
    return srt_client_status(c);
}

void reconnect(peer *p, seriatim_client *c)
{
    p->in_len = 0;
    p->written_here = 0;
    srt_client_disconnected(c);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
}

int push_range(peer *p, seriatim_client *c, int from, int count)
{
    seriatim_error error = {0, ""};
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(add_jobs(c, from, count), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    return peer_run(p, c, &error);
}

seriatim_client *connected_client(int64_t shards)
{
    seriatim_client *c = new_client(NULL, shards, "keep");
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    return c;
}

void assert_once(const peer *p, int count)
{
    int i;
    assert_int_equal(p->jobs, count);
    assert_int_equal(p->wrong_shard, 0);
    assert_int_equal(p->doubled, 0);
    for (i = 0; i < count; i++)
        assert_int_equal(p->seen[i], 1);
}

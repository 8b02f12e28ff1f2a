/* test_client.c - the client and its pushes against a scripted peer, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "client/client.h"
#include "failing.h"

#define X(name, sha) sha,
static const char *const shas[] = {SRT_SCRIPTS(X)};
#undef X

static const unsigned char random_bytes[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                               0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
#define IDENTITY "00112233445566778899aabbccddeeff"
#define NOW 1790000000.0

/* ---- Clients ------------------------------------------------------------------------------- */

static seriatim_client *new_client(const seriatim_options *options, int64_t shards, const char *on_waiting)
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

static int add_job(seriatim_client *c, const char *id, const char *payload)
{
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = strlen(id);
    job.payload = payload;
    job.payload_len = strlen(payload);
    return seriatim_push_job(c, &job);
}

static int add_jobs(seriatim_client *c, int from, int count)
{
    int i, status = SERIATIM_OK;
    for (i = from; i < from + count && status == SERIATIM_OK; i++) {
        char id[32];
        snprintf(id, sizeof id, "id-%d", i);
        status = add_job(c, id, "{}");
    }
    return status;
}

static const char *message(const seriatim_client *c)
{
    return seriatim_client_error(c)->message;
}

/* ---- A peer that is spelled out: what the client must say, what it hears -------------------- */

static void hears(seriatim_client *c, const char *want, size_t want_len)
{
    const char *data;
    size_t len;
    srt_client_output(c, &data, &len);
    assert_int_equal(len, want_len);
    assert_memory_equal(data, want, len);
    srt_client_sent(c, len);
}

static int says(seriatim_client *c, const char *text)
{
    seriatim_error error = {0, ""};
    return srt_client_input(c, text, strlen(text), &error);
}

#define SHARD_KEYS                                                                                                     \
    "$20\r\nseriatim:{Q/0}:state\r\n$19\r\nseriatim:{Q/0}:jobs\r\n$20\r\nseriatim:{Q/0}:ready\r\n"                     \
    "$18\r\nseriatim:{Q/0}:due\r\n$22\r\nseriatim:{Q/0}:running\r\n$19\r\nseriatim:{Q/0}:next\r\n"                     \
    "$20\r\nseriatim:{Q/0}:retry\r\n$19\r\nseriatim:{Q/0}:dead\r\n$19\r\nseriatim:{Q/0}:died\r\n"                      \
    "$21\r\nseriatim:{Q/0}:parked\r\n$23\r\nseriatim:{Q/0}:unproven\r\n$22\r\nseriatim:{Q/0}:suspect\r\n"              \
    "$22\r\nseriatim:{Q/0}:overrun\r\n$21\r\nseriatim:{Q/0}:claims\r\n$52\r\nseriatim:{Q/0}:push:" IDENTITY "\r\n"

/* The settings of new_client, as the queue's hash in Redis has them; seconds are microseconds there. */
#define SETTINGS                                                                                                       \
    "$4\r\nfold\r\n$5\r\nmerge\r\n$10\r\non_waiting\r\n$4\r\nkeep\r\n$12\r\non_exhausted\r\n$4\r\nbury\r\n"            \
    "$15\r\nmax_retry_count\r\n$2\r\n25\r\n$3\r\nttr\r\n$1\r\n0\r\n$14\r\nremember_score\r\n$1\r\n0\r\n$13\r\nserial_" \
    "shards\r\n$1\r\n0\r\n"                                                                                            \
    "$14\r\nmorgue_max_age\r\n$1\r\n0\r\n$16\r\nmorgue_max_count\r\n$1\r\n0\r\n"                                       \
    "$14\r\nhistory_per_id\r\n$1\r\n0\r\n"                                                                             \
    "$14\r\nexhausted_hook\r\n$1\r\n0\r\n"

static size_t layout_command(char *out, size_t cap, int shards)
{
    char digits[8];
    snprintf(digits, sizeof digits, "%d", shards);
    return (size_t)snprintf(
        out, cap,
        "*33\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n5\r\n$19\r\nseriatim:{Q}:layout\r\n"
        "$21\r\nseriatim:{Q}:settings\r\n$20\r\nseriatim:{Q}:deleted\r\n$20\r\nseriatim:{Q}:history\r\n"
        "$22\r\nseriatim:{Q}:run_times\r\n"
        "$4\r\nkeep\r\n$1\r\n0\r\n$%d\r\n%s\r\n" SETTINGS,
        shas[srt_script_layout], (int)strlen(digits), digits);
}

static void test_a_push_sends_exactly_these_bytes(void **state)
{
    static const char options[] = "$24\r\n"
                                  "\x03"
                                  "\x00\x00\x00\x00\x00\x00\x1c\x40" /* score 7 */
                                  "\x00\x00\xc0\xb8\x80\x6f\x19\x43" /* placeholder, checked below */
                                  "\x02\x00\x00\x00"                 /* retry_count 2 */
                                  "\x03"                             /* later */
                                  "{}\r\n";
    char want[4096];
    const char *data;
    size_t len, queue_len;
    seriatim_client *c = new_client(NULL, 1, "keep");
    seriatim_job job;
    double due = 1789000000.25 * 1e6;
    (void)state;
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(add_job(c, "a", "[1]"), SERIATIM_OK);
    seriatim_job_init(&job);
    job.id = "b\0c";
    job.id_len = 3;
    job.has_score = 1;
    job.score = 7;
    job.when = SERIATIM_AT;
    job.time = 1789000000.25;
    job.retry_count = 2;
    job.on_waiting = "later";
    job.context = "{}";
    job.context_len = 2;
    assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_AGAIN);
    len = layout_command(want, sizeof want, 1);
    hears(c, want, len);
    assert_int_equal(says(c, "$5\r\n1 1 3\r\n"), SERIATIM_OK);
    assert_int_equal(seriatim_layout_shards(c, 0), 1);
    len = (size_t)snprintf(want, sizeof want,
                           "*30\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$2\r\n15\r\n" SHARD_KEYS
                           "$1\r\n1\r\n$1\r\n1\r\n$5\r\nmerge\r\n$4\r\nkeep\r\n$1\r\n3\r\n$1\r\n0\r\n"
                           "$1\r\na\r\n$3\r\n[1]\r\n$0\r\n\r\n",
                           shas[srt_script_push]);
    memcpy(want + len, "$3\r\nb\0c\r\n$0\r\n\r\n", 15);
    len += 15;
    queue_len = len;
    memcpy(want + len, options, sizeof options - 1);
    len += sizeof options - 1;
    memcpy(want + queue_len + 5 + 9, &due, 8); /* this test runs on little-endian machines */
    srt_client_output(c, &data, &queue_len);
    assert_int_equal(queue_len, len);
    hears(c, want, len);
    assert_int_equal(says(c, "$5\r\n2 1 1\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 1);
    assert_int_equal(seriatim_push_result(c).folded, 1);
    seriatim_client_free(c);
}

/* ---- A peer that reads commands ------------------------------------------------------------- */

#define MAX_ARGS 4096

typedef struct peer {
    char *in;
    size_t in_len;
    size_t argc;
    const char *argv[MAX_ARGS];
    size_t argl[MAX_ARGS];
    size_t step; /* bytes of an answer given at once; 0: all */
    unsigned long generation, shards;
    int layouts, pushes, evals, gets;
    int jobs; /* applied */
    unsigned char seen[4000];
    unsigned wrong_shard, doubled;
    int noscript, oom_shard, stale_until; /* behaviours */
    int refuse_every;
    size_t take;        /* of the jobs of a call; 0: all */
    char token[64][64]; /* last sequence and answer, by shard */
    int in_flight[64];
    int waits, replicas;    /* WAITs heard; their answer */
    const char *wait_error; /* or this, once */
    int pushes_here;        /* on this connection */
    struct peer *replica;   /* what a replica has: all that came before the last WAIT */
} peer;

static peer *new_peer(unsigned shards)
{
    peer *p = calloc(1, sizeof *p);
    p->generation = 1;
    p->shards = shards;
    p->oom_shard = -1;
    return p;
}

static void free_peer(peer *p)
{
    free(p->in);
    free(p->replica);
    free(p);
}

/* One whole command, or 0. Its arguments point into p->in. */
static size_t peer_parse(peer *p)
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

static void bulk(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "$%d\r\n%s\r\n", (int)strlen(text), text);
}

static void peer_push(peer *p, char *out, size_t cap)
{
    size_t first = 3 + 15 + 6, width = arg_number(p, first - 2), n = (p->argc - first) / width, i, refused = 0;
    unsigned shard = peer_shard(p->argv[3]);
    char answer[8192] = "", sequence[24];
    p->pushes++;
    p->pushes_here++;
    assert_true(n >= 1 && n <= 1000);
    snprintf(sequence, sizeof sequence, "%lu ", arg_number(p, 19));
    if (p->stale_until > 0 || arg_number(p, 18) != p->generation) {
        p->stale_until -= p->stale_until > 0;
        snprintf(out, cap, "-GENERATION %lu\r\n", p->generation);
        return;
    }
    if (strncmp(p->token[shard], sequence, strlen(sequence)) == 0) {
        bulk(out, cap, strchr(p->token[shard], ' ') + 1);
        return;
    }
    if ((int)shard == p->oom_shard) {
        snprintf(out, cap, "-OOM command not allowed when used memory > 'maxmemory'. script: x\r\n");
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
        snprintf(text, sizeof text, "%lu %lu 0%s", (unsigned long)n, (unsigned long)(n - refused), answer);
        bulk(out, cap, text);
        snprintf(p->token[shard], sizeof p->token[shard], "%s%.30s", sequence, text);
    }
}

/* A WAIT counts only what its own connection wrote before it. */
static void peer_wait(peer *p, char *out, size_t cap)
{
    p->waits++;
    assert_int_equal(p->argc, 3);
    assert_true(p->pushes_here > 0);
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

static void peer_answer(peer *p, char *out, size_t cap)
{
    char text[64];
    if (arg_is(p, 0, "WAIT")) {
        peer_wait(p, out, cap);
        return;
    }
    if (arg_is(p, 0, "GET")) {
        const char *token = p->token[peer_shard(p->argv[1])];
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

/* Takes all that the client has to say. */
static void peer_take(peer *p, seriatim_client *c)
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

static int peer_say(const peer *p, seriatim_client *c, const char *text, seriatim_error *error)
{
    size_t len = strlen(text), at, n;
    int status = SERIATIM_OK;
    for (at = 0; at < len && status == SERIATIM_OK; at += n) {
        n = p->step && p->step < len - at ? p->step : len - at;
        status = srt_client_input(c, text + at, n, error);
    }
    return status;
}

/* Answers until nothing is asked any more. Returns the client's status, or that of the connection when it broke. */
static int peer_run(peer *p, seriatim_client *c, seriatim_error *error)
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

static void reconnect(peer *p, seriatim_client *c)
{
    p->in_len = 0;
    p->pushes_here = 0;
    srt_client_disconnected(c);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
}

static int push_range(peer *p, seriatim_client *c, int from, int count)
{
    seriatim_error error = {0, ""};
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(add_jobs(c, from, count), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    return peer_run(p, c, &error);
}

static seriatim_client *connected_client(int64_t shards)
{
    seriatim_client *c = new_client(NULL, shards, "keep");
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    return c;
}

static void assert_once(const peer *p, int count)
{
    int i;
    assert_int_equal(p->jobs, count);
    assert_int_equal(p->wrong_shard, 0);
    assert_int_equal(p->doubled, 0);
    for (i = 0; i < count; i++)
        assert_int_equal(p->seen[i], 1);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void test_f3_noscript_becomes_eval(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    (void)state;
    p->noscript = 1;
    assert_int_equal(push_range(p, c, 0, 2500), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 2500);
    assert_int_equal(p->evals, p->layouts + p->pushes);
    assert_once(p, 2500);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_f17_answers_split_at_every_byte(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    (void)state;
    p->step = 1;
    p->refuse_every = 100;
    seriatim_client_free(c);
    c = new_client(NULL, 3, "reject");
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(push_range(p, c, 0, 2500), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added + seriatim_push_result(c).refused, 2500);
    assert_true(seriatim_push_result(c).refused >= 25);
    free_peer(p);
    seriatim_client_free(c);
}

/*
 * A shard may take the first jobs of a chunk alone: the others follow, in order, each once, whatever is refused or
 * lost.
 */
static void test_the_rest_of_a_partly_taken_chunk_follows_in_order(void **state)
{
    int every;
    (void)state;
    for (every = 0; every < 4; every += 3) {
        peer *p = new_peer(3);
        seriatim_client *c = new_client(NULL, 3, "reject");
        size_t count, i;
        const size_t *places;
        assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
        p->take = 70;
        p->refuse_every = every;
        if (every == 0) { /* the layout is known, and grows old */
            assert_int_equal(push_range(p, c, 2500, 100), SERIATIM_OK);
            p->generation = 2;
        }
        assert_int_equal(push_range(p, c, 0, 2500), SERIATIM_OK);
        assert_int_equal(seriatim_push_result(c).added + seriatim_push_result(c).refused, 2500);
        places = seriatim_push_refused(c, &count);
        for (i = 1; i < count; i++)
            assert_true(places[i] > places[i - 1] && places[i] < 2500);
        assert_int_equal(p->jobs, every == 0 ? 2600 : 2500);
        assert_int_equal(p->doubled, 0);
        for (i = 0; i < 2500; i++)
            assert_int_equal(p->seen[i], 1);
        assert_true(p->pushes > 33);
        free_peer(p);
        seriatim_client_free(c);
    }
}

static void test_indexes_of_refused_jobs_ascend(void **state)
{
    peer *p = new_peer(7);
    seriatim_client *c = new_client(NULL, 7, "reject");
    const size_t *places;
    size_t count, i;
    (void)state;
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    p->refuse_every = 3;
    assert_int_equal(push_range(p, c, 0, 2000), SERIATIM_OK);
    places = seriatim_push_refused(c, &count);
    assert_true(count > 600);
    for (i = 1; i < count; i++)
        assert_true(places[i] > places[i - 1] && places[i] < 2000);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_f15_loading_keeps_the_request(void **state)
{
    static const char *const pauses[] = {"-LOADING Redis is loading the dataset in memory\r\n",
                                         "-BUSY Redis is busy running a script.\r\n",
                                         "-READONLY You can't write against a read only replica. script: 123\r\n",
                                         "-MISCONF no disk\r\n",
                                         "-MASTERDOWN Link with MASTER is down\r\n",
                                         "-ERR max number of clients reached\r\n"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        peer *p = new_peer(2);
        seriatim_client *c = connected_client(2);
        seriatim_error error = {0, ""};
        int status;
        assert_int_equal(push_range(p, c, 0, 10), SERIATIM_OK);
        assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
        add_jobs(c, 10, 10);
        assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
        peer_take(p, c);
        status = peer_say(p, c, pauses[i], &error);
        assert_int_equal(status, i == 2 || i == 3 ? SERIATIM_READONLY : SERIATIM_LOADING);
        assert_true(strlen(error.message) > 10);
        assert_int_equal(srt_client_status(c), SERIATIM_AGAIN);
        reconnect(p, c);
        assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
        assert_int_equal(seriatim_push_result(c).added, 10);
        assert_once(p, 20);
        free_peer(p);
        seriatim_client_free(c);
    }
}

static void test_f4_lost_answers_are_not_applied_twice(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    seriatim_error error;
    char out[16384];
    (void)state;
    assert_int_equal(push_range(p, c, 0, 100), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 100, 3000);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    peer_take(p, c);
    assert_true(peer_parse(p) > 0);
    peer_answer(p, out, sizeof out); /* applied, and the answer is lost */
    reconnect(p, c);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 3000);
    assert_once(p, 3100);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_a_new_generation_distributes_the_jobs_again(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    (void)state;
    assert_int_equal(push_range(p, c, 0, 100), SERIATIM_OK);
    p->generation = 2;
    p->shards = 5;
    assert_int_equal(push_range(p, c, 100, 3700), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 3700);
    assert_int_equal(seriatim_layout_shards(c, 0), 5);
    assert_once(p, 3800);
    assert_int_equal(p->layouts, 2);
    assert_int_equal(p->gets, 0);
    free_peer(p);
    seriatim_client_free(c);
}

/* Two shards took their chunk before the layout changed, and the answers were lost with the connection. */
static void test_a_new_generation_after_lost_answers_applies_no_chunk_twice(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    seriatim_error error;
    char out[16384];
    int i;
    (void)state;
    assert_int_equal(push_range(p, c, 0, 100), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 100, 900);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    peer_take(p, c);
    for (i = 0; i < 2; i++) {
        size_t len = peer_parse(p);
        peer_answer(p, out, sizeof out);
        p->in_len -= len;
        memmove(p->in, p->in + len, p->in_len + 1);
    }
    p->generation = 2;
    p->shards = 4;
    reconnect(p, c);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_int_equal(p->gets, 3);
    assert_int_equal(seriatim_push_result(c).added, 900);
    assert_int_equal(p->jobs, 1000);
    assert_int_equal(p->doubled, 0);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_a_refusal_under_an_unchanged_layout_waits(void **state)
{
    peer *p = new_peer(2);
    seriatim_client *c = connected_client(2);
    seriatim_error error;
    (void)state;
    assert_int_equal(push_range(p, c, 0, 10), SERIATIM_OK);
    p->stale_until = 2;
    assert_int_equal(push_range(p, c, 10, 10), SERIATIM_LOADING);
    reconnect(p, c);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_LOADING);
    p->generation = 2;
    reconnect(p, c);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_once(p, 20);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_full_redis_names_what_is_missing(void **state)
{
    peer *p = new_peer(5);
    seriatim_client *c = connected_client(5);
    char want[200];
    size_t i, missing = 0;
    (void)state;
    p->oom_shard = 2;
    for (i = 0; i < 3999; i++) {
        char id[32];
        snprintf(id, sizeof id, "id-%d", (int)i);
        missing += seriatim_shard_of(id, strlen(id), 5) == 2;
    }
    assert_int_equal(push_range(p, c, 0, 3999), SERIATIM_FULL);
    snprintf(want, sizeof want, "Redis is out of memory: 1 of 5 chunks (%lu of 3,999 jobs) were not written",
             (unsigned long)missing);
    assert_string_equal(message(c), want);
    assert_int_equal(seriatim_push_result(c).added, 3999 - missing);
    assert_int_equal(p->jobs, 3999 - missing);
    p->oom_shard = -1;
    assert_int_equal(push_range(p, c, 4000, 10), SERIATIM_OK);
    free_peer(p);
    seriatim_client_free(c);
}

/* ---- Chunks --------------------------------------------------------------------------------- */

static void test_one_chunk_of_a_shard_at_a_time(void **state)
{
    peer *p = new_peer(2);
    seriatim_client *c = connected_client(2);
    seriatim_error error;
    (void)state;
    assert_int_equal(push_range(p, c, 0, 1), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 1, 3900);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(c->session.waiting, 2);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_once(p, 3901);
    assert_int_equal(p->pushes, 5);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_large_payloads_make_small_chunks(void **state)
{
    const size_t size = 200 * 1024;
    peer *p = new_peer(1);
    seriatim_client *c = connected_client(1);
    seriatim_error error;
    seriatim_job job;
    char *payload = calloc(1, size), id[32];
    int i;
    (void)state;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    seriatim_job_init(&job);
    job.payload = payload;
    job.payload_len = size;
    for (i = 0; i < 10; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        job.id = id;
        job.id_len = strlen(id);
        assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_int_equal(p->pushes, 5); /* two each: at most 512 KiB */
    assert_once(p, 10);
    free(payload);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_f26_empty_push_is_done_at_once(void **state)
{
    seriatim_client *c = new_client(NULL, 5, "keep");
    (void)state;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(srt_client_waits(c), 0);
    seriatim_client_free(c);
}

/* ---- Validation ----------------------------------------------------------------------------- */

static void expect_refused(const seriatim_job *job, const char *want)
{
    seriatim_client *c = new_client(NULL, 5, "keep");
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(add_jobs(c, 0, 3), SERIATIM_OK);
    assert_int_equal(seriatim_push_job(c, job), SERIATIM_INVALID);
    assert_string_equal(message(c), want);
    assert_int_equal(add_job(c, "later", "{}"), SERIATIM_INVALID);
    assert_int_equal(seriatim_push_send(c), SERIATIM_INVALID);
    assert_string_equal(message(c), want);
    assert_int_equal(srt_client_status(c), SERIATIM_INVALID);
    assert_int_equal(srt_client_waits(c), 0);
    seriatim_client_free(c);
}

static void test_f11_f26_every_check_of_a_job(void **state)
{
    static const char long_id[1025] = "x";
    char *large = calloc(1, 1024 * 1024 + 1);
    seriatim_job good, job;
    (void)state;
    seriatim_job_init(&good);
    good.id = "a";
    good.id_len = 1;
#define REFUSED(change, want)                                                                                          \
    do {                                                                                                               \
        job = good;                                                                                                    \
        change;                                                                                                        \
        expect_refused(&job, want);                                                                                    \
    } while (0)
    REFUSED(job.id_len = 0, "jobs[3]: id is empty");
    REFUSED(job.id = NULL, "jobs[3]: id is missing");
    REFUSED((job.id = long_id, job.id_len = 1025), "jobs[3]: id is 1025 bytes long; at most 1024 are allowed");
    REFUSED(job.payload_len = 5, "jobs[3]: payload is missing");
    REFUSED((job.payload = large, job.payload_len = 1024 * 1024 + 1),
            "jobs[3]: payload is 1048577 bytes long; at most 1048576 are allowed: store it elsewhere and push its key "
            "(queue Q, id a)");
    REFUSED((job.context = large, job.context_len = 1024 * 1024 + 1),
            "jobs[3]: context is 1048577 bytes long; at most 1048576 are allowed: store it elsewhere and push its key "
            "(queue Q, id a)");
    REFUSED((job.has_score = 1, job.score = NAN), "jobs[3]: score must be a finite number");
    REFUSED((job.has_score = 1, job.score = INFINITY), "jobs[3]: score must be a finite number");
    REFUSED((job.has_score = 1, job.score = -INFINITY), "jobs[3]: score must be a finite number");
    REFUSED((job.when = SERIATIM_AT, job.time = NAN), "jobs[3]: perform_in must be a finite number");
    REFUSED((job.when = SERIATIM_AT, job.time = -INFINITY), "jobs[3]: perform_in must be a finite number");
    REFUSED((job.when = SERIATIM_DELAY, job.time = INFINITY), "jobs[3]: delay must be a finite number");
    REFUSED((job.when = SERIATIM_AT, job.time = 60),
            "jobs[3]: perform_in: 60 is in 1970; for seconds from now use delay");
    REFUSED((job.when = SERIATIM_AT, job.time = 5e-324),
            "jobs[3]: perform_in: 4.940656458e-324 is in 1970; for seconds from now use delay");
    REFUSED((job.when = SERIATIM_AT, job.time = 999999999.5),
            "jobs[3]: perform_in: 999999999.5 is in 2001; for seconds from now use delay");
    REFUSED((job.when = SERIATIM_AT, job.time = 1790000000000.0),
            "jobs[3]: perform_in looks like milliseconds: it is Unix time in seconds");
    REFUSED((job.when = SERIATIM_AT, job.time = 1e300),
            "jobs[3]: perform_in looks like milliseconds: it is Unix time in seconds");
    REFUSED((job.when = SERIATIM_AT, job.time = NOW + 101 * 365.25 * 86400),
            "jobs[3]: perform_in is more than 100 years ahead");
    REFUSED((job.when = SERIATIM_DELAY, job.time = 101 * 365.25 * 86400),
            "jobs[3]: delay is more than 100 years ahead");
    REFUSED(job.when = 3, "jobs[3]: when must be NOW, AT or DELAY");
    REFUSED(job.retry_count = -2, "jobs[3]: retry_count must be from -1 to 1000000, not -2");
    REFUSED(job.retry_count = 1000001, "jobs[3]: retry_count must be from -1 to 1000000, not 1000001");
    REFUSED(job.on_waiting = "sooner",
            "jobs[3]: on_waiting must be one of keep, earlier, later, replace, reject, unique, not \"sooner\"");
#undef REFUSED
    free(large);
}

static void test_f11_f26_edges_that_are_allowed(void **state)
{
    static const char longest[1024] = "id";
    static const double times[] = {-1e300, -1, 0, 1e9, NOW, NOW + 100 * 365.25 * 86400};
    char *payload = calloc(1, 1024 * 1024);
    peer *p = new_peer(5);
    seriatim_client *c = connected_client(5);
    seriatim_error error;
    seriatim_job job;
    size_t i;
    (void)state;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    for (i = 0; i < 2 * sizeof times / sizeof *times; i++) {
        seriatim_job_init(&job);
        job.id = longest;
        job.id_len = 1024 - i;
        job.payload = payload;
        job.payload_len = i ? 0 : 1024 * 1024;
        job.when = i % 2 ? SERIATIM_AT : SERIATIM_DELAY;
        job.time = times[i / 2];
        if (!(i % 2) && job.time > 1e9)
            job.time = 100 * 365.25 * 86400;
        job.has_score = 1;
        job.score = i % 2 ? -1.7976931348623157e308 : 1.7976931348623157e308;
        job.retry_count = i % 2 ? 1000000 : 0;
        assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_int_equal(p->jobs, 12);
    free(payload);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_options_of_a_client_are_checked(void **state)
{
    seriatim_options options = {0};
    seriatim_client *c = NULL;
    seriatim_error error;
    (void)state;
    options.name = "with space";
    assert_int_equal(seriatim_client_new(&options, &c, &error), SERIATIM_INVALID);
    assert_string_equal(error.message, "name must be printable ASCII without spaces");
    options.name = NULL;
    options.ns = "";
    assert_int_equal(seriatim_client_new(&options, &c, &error), SERIATIM_INVALID);
    options.ns = NULL;
    options.max_payload = (size_t)1 << 40;
    assert_int_equal(seriatim_client_new(&options, &c, &error), SERIATIM_INVALID);
    assert_null(c);
}

/* ---- Replicas ------------------------------------------------------------------------------ */

/* Begins a push of `count` jobs that one replica must have. */
static void begin_replicated(seriatim_client *c, int from, int count)
{
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_replicas(c, 1, 0.25), SERIATIM_OK);
    assert_int_equal(add_jobs(c, from, count), SERIATIM_OK);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
}

static void test_replicas_are_counted(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    seriatim_error error = {0, ""};
    (void)state;
    p->replicas = 2;
    begin_replicated(c, 0, 3700);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_int_equal(seriatim_push_result(c).added, 3700);
    assert_int_equal(p->pushes, 6);
    assert_int_equal(p->waits, 2); /* the shards go together, the two chunks of each one after another */
    assert_once(p, 3700);
    assert_int_equal(push_range(p, c, 3700, 10), SERIATIM_OK);
    assert_int_equal(p->waits, 2); /* each push says for itself */
    free_peer(p);
    seriatim_client_free(c);
}

static void test_too_few_replicas_are_an_error(void **state)
{
    static const char *const errors[] = {NULL, "-NOPERM this user has no permissions to run the 'wait' command\r\n",
                                         "-ERR unknown command 'WAIT'\r\n"};
    static const char *const texts[] = {"the push is written, 0 of 1 replicas have it",
                                        "the push is written, and WAIT was refused: ", "WAIT was refused: "};
    size_t i;
    (void)state;
    for (i = 0; i < 3; i++) {
        peer *p = new_peer(3);
        seriatim_client *c = connected_client(3);
        seriatim_error error = {0, ""};
        p->wait_error = errors[i];
        begin_replicated(c, 0, 3700);
        assert_int_equal(peer_run(p, c, &error), SERIATIM_REPLICAS);
        assert_non_null(strstr(message(c), texts[i]));
        assert_int_equal(seriatim_push_result(c).added, 3700);
        assert_int_equal(p->waits, 1); /* one shortage is enough */
        assert_once(p, 3700);
        free_peer(p);
        seriatim_client_free(c);
    }
}

static void test_a_push_is_sent_again_when_its_master_became_a_replica(void **state)
{
    static const char *const errors[] = {
        "-ERR WAIT cannot be used with replica instances. Please also note that...\r\n",
        "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n"};
    size_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        peer *p = new_peer(3);
        seriatim_client *c = connected_client(3);
        seriatim_error error = {0, ""};
        int status;
        p->replicas = 1;
        p->wait_error = errors[i];
        begin_replicated(c, 0, 100);
        status = peer_run(p, c, &error);
        assert_int_equal(status, i ? SERIATIM_READONLY : SERIATIM_LOADING);
        reconnect(p, c);
        assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
        assert_int_equal(seriatim_push_result(c).added, 100);
        assert_int_equal(p->pushes, 6);
        assert_once(p, 100);
        free_peer(p);
        seriatim_client_free(c);
    }
}

/* Answers one command, which is heard or not when the connection ends. */
static int peer_answer_one(peer *p, seriatim_client *c, int lost)
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

/* The master dies; the replica that takes its place has nothing that came after the last WAIT. */
static peer *fail_over(peer *p)
{
    peer *next = p->replica ? p->replica : new_peer((unsigned)p->shards);
    next->in = p->in;
    next->replica = NULL;
    next->replicas = 1;
    p->replica = NULL;
    p->in = NULL;
    free_peer(p);
    return next;
}

/* After each answer in turn the connection ends, with that answer or without, and the master goes on or fails over. */
static void test_f6_a_cut_at_every_answer_loses_no_replicated_push(void **state)
{
    int cut, how, finished = 0;
    (void)state;
    for (how = 0; how < 8; how++)
        for (cut = 1, finished = 0; !finished; cut++) {
            int lost = how & 1, fails_over = how & 2, reshards = how & 4, i, going = 1;
            peer *p = new_peer(3);
            seriatim_client *c = connected_client(3);
            seriatim_error error = {0, ""};
            p->replicas = 1;
            begin_replicated(c, 0, 3700);
            for (i = 1; i <= cut && going; i++)
                going = peer_answer_one(p, c, lost && i == cut);
            if (fails_over)
                p = fail_over(p);
            if (reshards && !fails_over) {
                p->generation++;
                p->shards = 4;
            }
            reconnect(p, c);
            assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
            assert_int_equal(seriatim_push_result(c).added, 3700);
            assert_once(p, 3700);
            finished = !going;
            assert_true(cut < 100);
            free_peer(p);
            seriatim_client_free(c);
        }
}

static void test_giving_up_before_replicas_are_counted_says_so(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    int i;
    (void)state;
    begin_replicated(c, 0, 100);
    for (i = 0; i < 4; i++) /* the layout, three chunks */
        peer_answer_one(p, c, 0);
    assert_int_equal(srt_client_give_up(c, SERIATIM_IO, "gone"), SERIATIM_UNKNOWN_OUTCOME);
    assert_non_null(
        strstr(message(c), "outcome unknown: 3 of 3 chunks (100 of 100 jobs) were sent and not answered: shard 0 ("));
    free_peer(p);
    seriatim_client_free(c);
}

static void test_settings_of_replicas_are_checked(void **state)
{
    static const struct {
        int64_t count;
        double timeout;
        const char *names;
    } cases[] = {{-1, 1, "wait_replicas"}, {1001, 1, "wait_replicas"}, {1, 0, "wait_timeout"},
                 {1, -1, "wait_timeout"},  {1, 10.01, "wait_timeout"}, {1, NAN, "wait_timeout"}};
    seriatim_client *c = connected_client(3);
    size_t i;
    (void)state;
    assert_int_equal(seriatim_push_replicas(c, 1, 1), SERIATIM_INVALID);
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
        assert_int_equal(seriatim_push_replicas(c, cases[i].count, cases[i].timeout), SERIATIM_INVALID);
        assert_non_null(strstr(message(c), cases[i].names));
        assert_int_equal(add_job(c, "a", "1"), SERIATIM_INVALID);
        assert_int_equal(seriatim_push_send(c), SERIATIM_INVALID);
    }
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_replicas(c, 0, 0.001), SERIATIM_OK);
    assert_int_equal(seriatim_push_replicas(c, 1000, 10), SERIATIM_OK);
    seriatim_client_free(c);
}

/* ---- Misuse, giving up, forks --------------------------------------------------------------- */

static void test_a_second_operation_is_refused_while_one_runs(void **state)
{
    seriatim_client *c = new_client(NULL, 5, "keep");
    (void)state;
    assert_int_equal(add_job(c, "a", ""), SERIATIM_INVALID);
    assert_string_equal(message(c), "no push was begun");
    assert_int_equal(seriatim_push_send(c), SERIATIM_INVALID);
    assert_int_equal(seriatim_push_begin(c, 7), SERIATIM_INVALID);
    assert_string_equal(message(c), "there is no queue with the number 7");
    assert_int_equal(seriatim_layout_begin(c, 7), SERIATIM_INVALID);
    assert_int_equal(srt_client_status(c), SERIATIM_INVALID);
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_INVALID);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_INVALID);
    assert_string_equal(message(c), "the client is busy with another operation");
    assert_int_equal(srt_client_status(c), SERIATIM_AGAIN);
    assert_int_equal(srt_client_give_up(c, SERIATIM_CLOSED, "enough"), SERIATIM_CLOSED);
    assert_string_equal(message(c), "enough");
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    seriatim_client_free(c);
}

static void test_a_queue_that_does_not_exist_has_no_layout(void **state)
{
    seriatim_client *c = connected_client(0);
    (void)state;
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_OK);
    assert_int_equal(says(c, "$0\r\n\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_layout_shards(c, 0), 0);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_job(c, "a", "1");
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(says(c, "$0\r\n\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_INVALID);
    assert_string_equal(message(c), "the queue does not exist, and shards_count is 0");
    seriatim_client_free(c);
}

static void test_asking_for_the_layout_reads_it_again(void **state)
{
    peer *p = new_peer(2);
    seriatim_client *c = connected_client(2);
    seriatim_error error;
    (void)state;
    assert_int_equal(push_range(p, c, 0, 1), SERIATIM_OK);
    p->generation = 2;
    p->shards = 9;
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_OK);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_int_equal(seriatim_layout_shards(c, 0), 9);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_f25_giving_up_names_the_chunks(void **state)
{
    peer *p = new_peer(3);
    seriatim_client *c = connected_client(3);
    seriatim_error error;
    const char *data;
    char out[16384];
    size_t len;
    (void)state;
    assert_int_equal(push_range(p, c, 0, 1), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 1, 3000);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    srt_client_give_up(c, SERIATIM_IO, "cannot connect");
    assert_int_equal(srt_client_status(c), SERIATIM_IO); /* nothing left */
    assert_string_equal(message(c), "cannot connect");
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 1, 3000);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    srt_client_output(c, &data, &len);
    srt_client_sent(c, len / 2); /* into the second chunk */
    srt_client_disconnected(c);
    srt_client_give_up(c, SERIATIM_IO, "cannot connect");
    assert_int_equal(srt_client_status(c), SERIATIM_UNKNOWN_OUTCOME);
    assert_string_equal(message(c), "outcome unknown: 2 of 5 chunks (1,965 of 3,000 jobs) were sent and not answered: "
                                    "shard 0 (1,000 jobs), shard 1 (965 jobs); 1,035 jobs were not written");
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 1, 3000);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    peer_take(p, c);
    peer_parse(p);
    peer_answer(p, out, sizeof out);
    peer_say(p, c, out, &error);
    srt_client_give_up(c, SERIATIM_TIMEOUT, "timed out");
    assert_int_equal(srt_client_status(c), SERIATIM_UNKNOWN_OUTCOME);
    assert_true(seriatim_push_result(c).added > 0);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_f15_refusals_end_the_connection_or_the_operation(void **state)
{
    seriatim_options options = {0};
    seriatim_error error;
    seriatim_client *c;
    (void)state;
    options.name = "tester";
    c = new_client(&options, 5, "keep");
    assert_int_equal(srt_client_connected(c, "user", "secret", 3), SERIATIM_OK);
    hears(c,
          "*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$6\r\nsecret\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
          "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$6\r\ntester\r\n",
          100);
    assert_int_equal(srt_client_input(c, "-WRONGPASS no\r\n", 15, &error), SERIATIM_AUTH);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_OK);
    assert_int_equal(says(c, "+OK\r\n-NOPERM this user has no permissions\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_AUTH);
    assert_int_equal(seriatim_layout_begin(c, 0), SERIATIM_OK);
    assert_int_equal(says(c, "-ERR what\r\n"), SERIATIM_OK);
    assert_int_equal(srt_client_status(c), SERIATIM_SERVER);
    assert_int_equal(says(c, "+unasked\r\n"), SERIATIM_PROTOCOL);
    seriatim_client_free(c);
}

static void test_hostile_answers_end_in_an_error(void **state)
{
    static const char *const answers[] = {"$0\r\n\r\n",         "$1\r\n1\r\n",
                                          "$5\r\n2 1 1\r\n",    "$5\r\n2 3 0\r\n",
                                          "$6\r\n99 2 0\r\n",   "*0\r\n",
                                          "*2\r\n:1\r\n:1\r\n", ":2\r\n",
                                          "+2 2 0\r\n",         "$-1\r\n",
                                          "$7\r\n2 2 0 x\r\n",  "$7\r\n2 1 0 3\r\n",
                                          "$7\r\n2 1 0 0\r\n",  "$7\r\n2 1 0 1\r\n",
                                          "$5\r\n2 2 0\r\n",    "$15\r\n2 99999999999 0\r\n",
                                          "$5\r\n-1 3 0\r\n",   "$5\r\n0 0 0\r\n",
                                          "$5\r\n3 3 0\r\n",    "$5\r\n1 2 0\r\n"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof answers / sizeof *answers; i++) {
        seriatim_client *c = connected_client(1);
        assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
        add_jobs(c, 0, 2);
        assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
        assert_int_equal(says(c, "$5\r\n1 1 3\r\n"), SERIATIM_OK);
        says(c, answers[i]);
        if (i == 2 || i == 14)
            assert_int_equal(srt_client_status(c), SERIATIM_OK);
        else
            assert_true(srt_client_status(c) == SERIATIM_PROTOCOL || srt_client_status(c) == SERIATIM_AGAIN);
        seriatim_client_free(c);
    }
}

static void test_a_fork_keeps_only_what_is_not_sent(void **state)
{
    static const unsigned char other[16] = {0xff};
    peer *p = new_peer(2);
    seriatim_client *c = connected_client(2);
    seriatim_error error;
    (void)state;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 0, 5);
    srt_client_forked(c, other);
    assert_string_equal(c->identity, "ff000000000000000000000000000000");
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    assert_int_equal(srt_client_connected(c, NULL, NULL, 0), SERIATIM_OK);
    assert_int_equal(peer_run(p, c, &error), SERIATIM_OK);
    assert_once(p, 5);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 5, 5);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    srt_client_forked(c, other);
    assert_int_equal(srt_client_status(c), SERIATIM_CLOSED);
    assert_int_equal(srt_client_waits(c), 0);
    free_peer(p);
    seriatim_client_free(c);
}

static void test_without_random_bytes_a_push_is_refused(void **state)
{
    seriatim_client *c = new_client(NULL, 1, "keep");
    (void)state;
    srt_client_forked(c, NULL);
    assert_string_equal(c->identity, "");
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 0, 1);
    assert_int_equal(seriatim_push_send(c), SERIATIM_INVALID);
    assert_string_equal(message(c), "the client has no identity yet");
    srt_client_identify(c, random_bytes);
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    add_jobs(c, 0, 1);
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
    seriatim_client_free(c);
}

static void test_a_kept_connection_is_not_greeted_again(void **state)
{
    const seriatim_options options = {NULL, NULL, "named", 0};
    seriatim_client *c = new_client(&options, 1, "keep");
    const char *data;
    size_t len;
    (void)state;
    assert_int_equal(srt_client_connected(c, "user", "secret", 3), SERIATIM_OK);
    srt_client_output(c, &data, &len);
    assert_true(len > 0);
    srt_client_disconnected(c);
    assert_int_equal(srt_client_connected_again(c), SERIATIM_OK);
    srt_client_output(c, &data, &len);
    assert_int_equal(len, 0);
    assert_int_equal(seriatim_health_begin(c), SERIATIM_OK);
    srt_client_output(c, &data, &len);
    assert_memory_equal(data, "*", 1);
    assert_true(len < 30); /* INFO alone */
    seriatim_client_free(c);
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* A push of 3,000 jobs, each wave of which loses its connection once before its replicas are counted. */
static int push_replicated_with(const seriatim_options *options)
{
    peer *p = new_peer(3);
    seriatim_client *c = new_client(options, 3, "keep");
    seriatim_error error = {0, ""};
    int status = SERIATIM_NOMEM, i;
    p->replicas = 1;
    if (c && srt_client_connected(c, NULL, NULL, 0) == SERIATIM_OK && seriatim_push_begin(c, 0) == SERIATIM_OK) {
        seriatim_push_replicas(c, 1, 1);
        add_jobs(c, 0, 3000);
        status = seriatim_push_send(c);
        for (i = 0; i < 3 && status == SERIATIM_OK && srt_client_status(c) == SERIATIM_AGAIN; i++) {
            p->wait_error = "-UNBLOCKED force unblock\r\n";
            peer_run(p, c, &error);
            p->wait_error = NULL;
            p->in_len = 0;
            p->pushes_here = 0;
            srt_client_disconnected(c);
            status = srt_client_connected(c, NULL, NULL, 0);
        }
        if (status == SERIATIM_OK)
            status = peer_run(p, c, &error);
        if (srt_client_status(c) == SERIATIM_AGAIN)
            status = srt_client_give_up(c, SERIATIM_NOMEM, "out of memory");
        else
            status = srt_client_status(c);
    }
    assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM || status == SERIATIM_UNKNOWN_OUTCOME);
    assert_int_equal(p->doubled, 0);
    if (status == SERIATIM_OK)
        assert_int_equal(seriatim_push_result(c).added, 3000);
    seriatim_client_free(c);
    free_peer(p);
    return status == SERIATIM_OK;
}

/* A whole push of 3,000 jobs; 1 when it came to its end without a failure. */
static int push_with(const seriatim_options *options)
{
    peer *p = new_peer(3);
    seriatim_client *c = new_client(options, 3, "reject");
    seriatim_error error = {0, ""};
    int status = SERIATIM_NOMEM, done;
    p->refuse_every = 50;
    if (c && srt_client_connected(c, NULL, NULL, 0) == SERIATIM_OK && seriatim_push_begin(c, 0) == SERIATIM_OK) {
        add_jobs(c, 0, 3000);
        status = seriatim_push_send(c);
        if (status == SERIATIM_OK)
            status = peer_run(p, c, &error);
        if (status == SERIATIM_AGAIN || srt_client_status(c) == SERIATIM_AGAIN)
            status = srt_client_give_up(c, SERIATIM_NOMEM, "out of memory");
    }
    assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM || status == SERIATIM_UNKNOWN_OUTCOME);
    assert_int_equal(p->doubled, 0);
    done = status == SERIATIM_OK;
    if (done)
        assert_int_equal(seriatim_push_result(c).added + seriatim_push_result(c).refused, 3000);
    else if (c && status == SERIATIM_NOMEM)
        assert_int_equal(seriatim_push_result(c).added + seriatim_push_result(c).refused, p->jobs);
    seriatim_client_free(c);
    free_peer(p);
    return done;
}

static void test_every_allocation_of_a_replicated_push_may_fail(void **state)
{
    failing f = {0, 0, 0};
    seriatim_allocator mem = {failing_alloc, &f};
    seriatim_options options = {0};
    size_t n;
    int done = 0;
    (void)state;
    options.allocator = &mem;
    for (n = 1; !done; n++) {
        f.calls = 0;
        f.fail_at = n;
        done = push_replicated_with(&options) && f.calls < n;
        assert_int_equal(f.live, 0);
        assert_true(n < 5000);
    }
    assert_true(n > 50);
}

static void test_every_allocation_may_fail(void **state)
{
    failing f = {0, 0, 0};
    seriatim_allocator mem = {failing_alloc, &f};
    seriatim_options options = {0};
    size_t n;
    int done = 0;
    (void)state;
    options.allocator = &mem;
    for (n = 1; !done; n++) {
        f.calls = 0;
        f.fail_at = n;
        done = push_with(&options) && f.calls < n;
        assert_int_equal(f.live, 0);
        assert_true(n < 5000);
    }
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_push_sends_exactly_these_bytes),
        cmocka_unit_test(test_f3_noscript_becomes_eval),
        cmocka_unit_test(test_f17_answers_split_at_every_byte),
        cmocka_unit_test(test_indexes_of_refused_jobs_ascend),
        cmocka_unit_test(test_the_rest_of_a_partly_taken_chunk_follows_in_order),
        cmocka_unit_test(test_f15_loading_keeps_the_request),
        cmocka_unit_test(test_f4_lost_answers_are_not_applied_twice),
        cmocka_unit_test(test_a_new_generation_distributes_the_jobs_again),
        cmocka_unit_test(test_a_new_generation_after_lost_answers_applies_no_chunk_twice),
        cmocka_unit_test(test_a_refusal_under_an_unchanged_layout_waits),
        cmocka_unit_test(test_full_redis_names_what_is_missing),
        cmocka_unit_test(test_one_chunk_of_a_shard_at_a_time),
        cmocka_unit_test(test_large_payloads_make_small_chunks),
        cmocka_unit_test(test_f26_empty_push_is_done_at_once),
        cmocka_unit_test(test_f11_f26_every_check_of_a_job),
        cmocka_unit_test(test_f11_f26_edges_that_are_allowed),
        cmocka_unit_test(test_options_of_a_client_are_checked),
        cmocka_unit_test(test_a_second_operation_is_refused_while_one_runs),
        cmocka_unit_test(test_a_queue_that_does_not_exist_has_no_layout),
        cmocka_unit_test(test_asking_for_the_layout_reads_it_again),
        cmocka_unit_test(test_f25_giving_up_names_the_chunks),
        cmocka_unit_test(test_f15_refusals_end_the_connection_or_the_operation),
        cmocka_unit_test(test_hostile_answers_end_in_an_error),
        cmocka_unit_test(test_a_fork_keeps_only_what_is_not_sent),
        cmocka_unit_test(test_without_random_bytes_a_push_is_refused),
        cmocka_unit_test(test_a_kept_connection_is_not_greeted_again),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_replicas_are_counted),
        cmocka_unit_test(test_too_few_replicas_are_an_error),
        cmocka_unit_test(test_a_push_is_sent_again_when_its_master_became_a_replica),
        cmocka_unit_test(test_f6_a_cut_at_every_answer_loses_no_replicated_push),
        cmocka_unit_test(test_giving_up_before_replicas_are_counted_says_so),
        cmocka_unit_test(test_settings_of_replicas_are_checked),
        cmocka_unit_test(test_every_allocation_of_a_replicated_push_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

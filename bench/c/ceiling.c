/*
 * ceiling.c - what Redis can do with the bare scripts: push, then claim and settle, no node, no host.
 *
 *   ceiling URL JOBS SHARDS CLAIM_SIZE PAYLOAD_BYTES
 *
 * One connection. JOBS distinct ids are pushed in slices of 1,000 a shard; then, round after round, each shard gets
 * what its last claim took settled and is claimed again, all shards in one write. Prints one line: pushed/s, drained/s,
 * Redis microseconds a pushed and a drained job (user and system time of its process). It speaks the core's inner
 * language, so it is compiled with the core in it.
 */
#include "all.c"

#include <stdio.h>

#define SLICE 1000

typedef struct bench {
    srt_url url;
    srt_transport *transport;
    srt_session session;
    size_t jobs, shards, claim, payload;
    srt_bytes keys[SERIATIM_MAX_SHARDS], push_keys[SERIATIM_MAX_SHARDS];
    int64_t lease[SERIATIM_MAX_SHARDS], seen[SERIATIM_MAX_SHARDS], sequence[SERIATIM_MAX_SHARDS];
    size_t id_count[SERIATIM_MAX_SHARDS]; /* of the last claim */
    char run[SERIATIM_MAX_SHARDS][32];
} bench;

static void bench_die(const char *what)
{
    fprintf(stderr, "ceiling: %s\n", what);
    exit(1);
}

static void bench_must(int status, const char *what)
{
    if (status != SERIATIM_OK)
        bench_die(what);
}

static double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- The connection ------------------------------------------------------------------------ */

static void bench_flush(bench *b)
{
    const char *data;
    size_t len, written;
    for (srt_session_output(&b->session, &data, &len); len; srt_session_output(&b->session, &data, &len)) {
        int status = srt_transport_write(b->transport, data, len, &written);
        if (status == SERIATIM_OK)
            srt_session_sent(&b->session, written);
        else if (status == SERIATIM_AGAIN)
            srt_transport_wait(b->transport, -1, 1000);
        else
            bench_die("cannot write");
    }
}

/* The next answer; the caller ends the request. */
static srt_request *bench_next(bench *b, srt_reply *reply)
{
    char input[64 * 1024];
    size_t got;
    srt_request *r;
    seriatim_error error = {0};
    int status;
    while ((status = srt_session_next(&b->session, &r, reply, &error)) == SERIATIM_AGAIN) {
        bench_flush(b); /* what was answered NOSCRIPT */
        status = srt_transport_read(b->transport, input, sizeof input, &got);
        if (status == SERIATIM_OK)
            bench_must(srt_session_input(&b->session, input, got), "cannot read an answer");
        else if (status == SERIATIM_AGAIN)
            srt_transport_wait(b->transport, -1, 1000);
        else
            bench_die("the connection is gone");
    }
    if (status != SERIATIM_OK || reply->tokens[0].type == SRT_ERROR)
        bench_die(status != SERIATIM_OK ? error.message : reply->tokens[0].data);
    return r;
}

/* ---- What Redis spent ---------------------------------------------------------------------- */

static double bench_redis_seconds(bench *b)
{
    static const char *const names[] = {"used_cpu_sys:", "used_cpu_user:"};
    srt_reply reply;
    double seconds = 0;
    size_t i;
    srt_request *r = srt_session_begin(&b->session, srt_script_none, NULL, 0);
    srt_request_text(r, "INFO");
    srt_request_text(r, "cpu");
    bench_must(srt_session_send(&b->session, r), "out of memory");
    bench_flush(b);
    r = bench_next(b, &reply);
    for (i = 0; i < 2; i++) {
        const char *at = strstr(reply.tokens[0].data, names[i]);
        seconds += at ? strtod(at + strlen(names[i]), NULL) : 0;
    }
    srt_session_done(&b->session, r);
    return seconds;
}

/* ---- Pushing ------------------------------------------------------------------------------- */

static void bench_push_slice(bench *b, size_t shard, size_t from, size_t to)
{
    char id[32], payload[4096];
    size_t i;
    srt_request *r = srt_session_begin(&b->session, srt_script_push, &b->push_keys[shard], SRT_SHARD_KEYS + 1);
    srt_request_int(r, 1);
    srt_request_int(r, ++b->sequence[shard]);
    srt_request_text(r, "merge");
    srt_request_text(r, "keep");
    srt_request_text(r, "2");
    srt_request_int(r, 0);
    memset(payload, 'x', sizeof payload);
    for (i = from; i < to; i++) {
        int len = snprintf(id, sizeof id, "order:%zu:%zu", shard, i);
        srt_request_arg(r, id, (size_t)len);
        srt_request_arg(r, payload, b->payload);
    }
    bench_must(srt_session_send(&b->session, r), "out of memory");
}

static void bench_push(bench *b)
{
    size_t each = b->jobs / b->shards, from, shard;
    srt_reply reply;
    for (from = 0; from < each; from += SLICE) {
        for (shard = 0; shard < b->shards; shard++)
            bench_push_slice(b, shard, from, from + SLICE < each ? from + SLICE : each);
        bench_flush(b);
        for (shard = 0; shard < b->shards; shard++)
            srt_session_done(&b->session, bench_next(b, &reply));
    }
}

/* ---- Claiming and settling ----------------------------------------------------------------- */

static void bench_acquire(bench *b)
{
    srt_reply reply;
    size_t shard;
    for (shard = 0; shard < b->shards; shard++) {
        srt_request *r = srt_session_begin(&b->session, srt_script_acquire, &b->keys[shard], SRT_SHARD_KEYS);
        srt_request_int(r, 1);
        srt_request_text(r, "ceiling");
        srt_request_text(r, "merge");
        srt_request_text(r, "");
        srt_request_int(r, 0);
        bench_must(srt_session_send(&b->session, r), "out of memory");
        bench_flush(b);
        r = bench_next(b, &reply);
        b->lease[shard] = srt_token_int(&reply.tokens[2]);
        b->seen[shard] = srt_token_int(&reply.tokens[3]);
        b->sequence[shard] = 0;
        srt_session_done(&b->session, r);
    }
}

/* The claim as a whole. */
static void bench_settle(bench *b, size_t shard)
{
    srt_request *r = srt_session_begin(&b->session, srt_script_settle, &b->keys[shard], SRT_SHARD_KEYS);
    srt_request_int(r, 1);
    srt_request_int(r, b->lease[shard]);
    srt_request_int(r, ++b->sequence[shard]);
    srt_request_text(r, "merge");
    srt_request_text(r, "1");
    srt_request_text(r, b->run[shard]);
    srt_request_int(r, -(int64_t)b->id_count[shard]);
    bench_must(srt_session_send(&b->session, r), "out of memory");
}

static void bench_claim(bench *b, size_t shard)
{
    srt_request *r = srt_session_begin(&b->session, srt_script_claim, &b->keys[shard], SRT_SHARD_KEYS);
    srt_request_int(r, 1);
    srt_request_int(r, b->lease[shard]);
    srt_request_int(r, b->seen[shard]);
    srt_request_int(r, (int64_t)b->claim);
    srt_request_int(r, 0);
    srt_request_int(r, 0);
    srt_request_text(r, "merge");
    srt_request_int(r, 0);
    r->kind = 1;
    bench_must(srt_session_send(&b->session, r), "out of memory");
}

static size_t bench_claimed(bench *b, size_t shard, const srt_reply *reply)
{
    srt_texts ids = {NULL, NULL, 0};
    b->seen[shard] = srt_token_int(&reply->tokens[2]);
    snprintf(b->run[shard], sizeof b->run[shard], "0n%.*s", (int)reply->tokens[2].len, reply->tokens[2].data);
    if (reply->count > 10)
        bench_must(srt_texts_begin(&ids, reply->tokens[9].data, reply->tokens[9].len),
                   "cannot read the ids of a claim");
    return b->id_count[shard] = ids.count;
}

/* Returns the number of jobs that were claimed. */
static size_t bench_round(bench *b)
{
    size_t shard, count = 0, answers = 0;
    srt_reply reply;
    for (shard = 0; shard < b->shards; shard++) {
        if (b->id_count[shard]) {
            bench_settle(b, shard);
            answers++;
        }
        bench_claim(b, shard);
        answers++;
    }
    bench_flush(b);
    for (shard = 0; answers > 0; answers--) {
        srt_request *r = bench_next(b, &reply);
        if (r->kind == 1)
            count += bench_claimed(b, shard++, &reply);
        srt_session_done(&b->session, r);
    }
    return count;
}

/* ---- Course -------------------------------------------------------------------------------- */

static void bench_connect(bench *b, const char *url)
{
    const seriatim_allocator *mem = seriatim_default_allocator();
    seriatim_error error = {0};
    srt_bytes prefix;
    size_t shard;
    int status;
    bench_must(srt_url_parse(&b->url, mem, url, strlen(url), &error), "the URL");
    b->transport = srt_transport_create(mem, &b->url);
    for (status = srt_transport_connect(b->transport, 5000); status == SERIATIM_AGAIN;
         status = srt_transport_step(b->transport))
        srt_transport_wait(b->transport, -1, 1000);
    bench_must(status, "cannot connect");
    bench_must(srt_session_init(&b->session, mem, 0), "out of memory");
    bench_must(srt_session_connected(&b->session, b->url.user, b->url.password, b->url.db, NULL), "out of memory");
    srt_bytes_init(&prefix, mem);
    for (shard = 0; shard < b->shards; shard++) {
        srt_bytes_clear(&prefix);
        srt_key_shard(&prefix, "seriatim", "ceiling", 7, (unsigned)shard);
        srt_bytes_init(&b->keys[shard], mem);
        srt_bytes_init(&b->push_keys[shard], mem);
        srt_key_shard_args(&b->keys[shard], prefix.data, prefix.len);
        srt_key_shard_args(&b->push_keys[shard], prefix.data, prefix.len);
        srt_bytes_adds(&prefix, "token");
        srt_resp_arg(&b->push_keys[shard], prefix.data, prefix.len);
    }
    srt_bytes_free(&prefix);
}

int main(int argc, char **argv)
{
    static bench b;
    double began, cpu, push, push_cpu, drain, drain_cpu;
    size_t drained = 0, count;
    if (argc != 6)
        bench_die("URL JOBS SHARDS CLAIM_SIZE PAYLOAD_BYTES");
    b.jobs = strtoul(argv[2], NULL, 10);
    b.shards = strtoul(argv[3], NULL, 10);
    b.claim = strtoul(argv[4], NULL, 10);
    b.payload = strtoul(argv[5], NULL, 10);
    bench_connect(&b, argv[1]);
    cpu = bench_redis_seconds(&b);
    began = bench_now();
    bench_push(&b);
    push = bench_now() - began;
    push_cpu = bench_redis_seconds(&b) - cpu;
    bench_acquire(&b);
    cpu = bench_redis_seconds(&b);
    began = bench_now();
    while ((count = bench_round(&b)) > 0)
        drained += count;
    drain = bench_now() - began;
    drain_cpu = bench_redis_seconds(&b) - cpu;
    printf("%.0f %.0f %.2f %.2f\n", (double)drained / push, (double)drained / drain, push_cpu * 1e6 / (double)drained,
           drain_cpu * 1e6 / (double)drained);
    return 0;
}

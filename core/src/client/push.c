/* push.c - a push: jobs checked, packed, shared out to shards and sent in chunks that are safe to repeat. */
#include "client/client.h"
#include "model/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUSH_CHUNK_JOBS ((size_t)1000) /* as in core/scripts/client/push.lua */
#define PUSH_CHUNK_BYTES ((size_t)512 * 1024) /* of a chunk of more than one job */
#define PUSH_FLYING_BYTES ((size_t)256 * 1024) /* more makes others wait and sends no faster; one chunk may be larger */
#define PUSH_KEEP_JOBS ((size_t)65536)              /* a larger push gives its memory back */

#define PUSH_MILLISECONDS 1e11       /* as seconds, the year 5138; as milliseconds, 1973 */
#define PUSH_OLDEST 1e9                 /* September 2001: a positive time before it was meant as seconds from now */
#define PUSH_YEAR 31556952.0            /* seconds, as the calendar has them on average */
#define PUSH_DAY 86400.0             /* by which the host's clock may be behind */

enum { PUSH_KIND_CHUNK, PUSH_KIND_TOKEN, PUSH_KIND_WAIT };

#define PUSH_MAX_REPLICAS 1000
#define PUSH_LIMIT_MS 10000
#define PUSH_MAX_LIMIT 50.0 /* seconds: less than the 60 for which a shard remembers a push */
#define PUSH_WAIT_SPARE_MS 250
#define PUSH_MAX_WAIT 10.0 /* seconds: less than the silence after which a connection counts as dead */

/* ---- Checks -------------------------------------------------------------------------------- */

static int push_check_time(seriatim_client *c, const seriatim_job *job, unsigned long at)
{
    const char *field = job->when == SERIATIM_DELAY ? "delay" : "perform_in";
    double limit = SRT_CENTURY_SECONDS;
    if (job->when == SERIATIM_NOW)
        return SERIATIM_OK;
    if (job->when != SERIATIM_AT && job->when != SERIATIM_DELAY)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: when must be NOW, AT or DELAY", at);
    if (!isfinite(job->time))
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: %s must be a finite number", at, field);
    if (job->when == SERIATIM_AT && job->time > 0 && job->time < PUSH_OLDEST)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: perform_in: %.10g is in %d; for seconds from now use delay", at,
                        job->time, 1970 + (int)(job->time / PUSH_YEAR));
    if (job->when == SERIATIM_AT && job->time >= PUSH_MILLISECONDS)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: perform_in looks like milliseconds: it is Unix time in seconds",
                        at);
    if (job->when == SERIATIM_AT)
        limit = c->unix_time > 0 ? c->unix_time + PUSH_DAY + SRT_CENTURY_SECONDS : PUSH_MILLISECONDS;
    if (job->time > limit)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: %s is more than 100 years ahead", at, field);
    return SERIATIM_OK;
}

static int push_check_bytes(seriatim_client *c, const char *field, const void *data, size_t len, unsigned long at)
{
    if (!data && len)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: %s is missing", at, field);
    if (len > c->max_payload)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: %s is %lu bytes long; at most %lu are allowed", at, field,
                        (unsigned long)len, (unsigned long)c->max_payload);
    return SERIATIM_OK;
}

static int push_check(seriatim_client *c, const seriatim_job *job, unsigned long at)
{
    int status;
    if (!job->id || job->id_len == 0)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: id is %s", at, job->id ? "empty" : "missing");
    if (job->id_len > SERIATIM_MAX_ID)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: id is %lu bytes long; at most %d are allowed", at,
                        (unsigned long)job->id_len, SERIATIM_MAX_ID);
    if ((status = push_check_bytes(c, "payload", job->payload, job->payload_len, at)) != SERIATIM_OK ||
        (status = push_check_bytes(c, "context", job->context, job->context_len, at)) != SERIATIM_OK ||
        (status = push_check_time(c, job, at)) != SERIATIM_OK)
        return status;
    if (job->has_score && !isfinite(job->score))
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: score must be a finite number", at);
    if (job->retry_count < -1 || job->retry_count > 1000000)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: retry_count must be from -1 to 1000000, not %lld", at,
                        (long long)job->retry_count);
    if (job->on_waiting && !srt_on_waiting_place(job->on_waiting))
        return srt_fail(&c->error, SERIATIM_INVALID,
                        "jobs[%lu]: on_waiting must be one of keep, earlier, later, replace, reject, unique, not \"%.40s\"", at,
                        job->on_waiting);
    return SERIATIM_OK;
}

/* ---- Packing ------------------------------------------------------------------------------- */

#define PUSH_OPTIONS 22 /* bytes of packed options before the context */

enum { PUSH_HAS_SCORE = 1, PUSH_HAS_DUE = 2, PUSH_HAS_DELAY = 4 };

static char *push_put_uint(char *at, uint64_t value, int bytes)
{
    for (; bytes > 0; bytes--, value >>= 8)
        *at++ = (char)(value & 255);
    return at;
}

static char *push_put_double(char *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return push_put_uint(at, bits, 8);
}

static int push_has(const seriatim_job *job)
{
    int has = job->has_score ? PUSH_HAS_SCORE : 0;
    if (job->when == SERIATIM_AT && job->time > 0)
        return has | PUSH_HAS_DUE;
    return job->when == SERIATIM_DELAY && job->time > 0 ? has | PUSH_HAS_DELAY : has;
}

/* The fixed part of a job's options, or 0 bytes when it has none. */
static size_t push_pack_options(const seriatim_job *job, char *out)
{
    int has = push_has(job);
    char *at = out;
    if (!has && job->retry_count == -1 && !job->on_waiting && job->context_len == 0)
        return 0;
    *at++ = (char)has;
    at = push_put_double(at, has & PUSH_HAS_SCORE ? job->score : 0);
    at = push_put_double(at, has > PUSH_HAS_SCORE ? floor(job->time * 1e6) : 0);
    at = push_put_uint(at, (uint64_t)job->retry_count, 4);
    *at = (char)srt_on_waiting_place(job->on_waiting);
    return PUSH_OPTIONS;
}

static char *push_put(char *at, const void *data, size_t len)
{
    if (len)
        memcpy(at, data, len);
    return at + len;
}

static char *push_put_arg(char *at, const void *data, size_t len)
{
    return push_put(push_put(srt_resp_put_head(at, len), data, len), "\r\n", 2);
}

/* Does this word of on_waiting (NULL: none of its own) refuse jobs? */
static int push_refuses(const char *word)
{
    return word && (strcmp(word, "reject") == 0 || strcmp(word, "unique") == 0);
}

/* The job as three encoded arguments in the arena. */
static int push_add(seriatim_client *c, const seriatim_job *job)
{
    srt_push *p = &c->push;
    void *jobs = p->jobs;
    char options[PUSH_OPTIONS], *at;
    size_t fixed = push_pack_options(job, options), packed = fixed + job->context_len;
    size_t len = srt_resp_arg_size(job->id_len) + srt_resp_arg_size(job->payload_len) + srt_resp_arg_size(packed);
    if (p->job_count == p->job_cap) {
        if (srt_grow(c->mem, &jobs, &p->job_cap, p->job_count + 1, sizeof *p->jobs) != SERIATIM_OK)
            return srt_fail_plain(&c->error, SERIATIM_NOMEM);
        p->jobs = jobs;
    }
    at = srt_arena_alloc(&p->arena, len);
    if (!at)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    p->has_options |= packed > 0;
    p->may_refuse |= push_refuses(job->on_waiting);
    p->jobs[p->job_count].bytes = at;
    p->jobs[p->job_count].len = (uint32_t)len;
    p->jobs[p->job_count].crc = srt_crc32(job->id, job->id_len);
    p->job_count++;
    at = push_put_arg(push_put_arg(at, job->id, job->id_len), job->payload, job->payload_len);
    at = push_put(srt_resp_put_head(at, packed), options, fixed);
    push_put(push_put(at, job->context, job->context_len), "\r\n", 2);
    return SERIATIM_OK;
}

/* ---- Building ------------------------------------------------------------------------------ */

static void push_free_lists(const seriatim_allocator *mem, srt_push *p)
{
    srt_free(mem, p->jobs, p->job_cap * sizeof *p->jobs);
    srt_free(mem, p->places, p->place_cap * sizeof *p->places);
    srt_free(mem, p->chunks, p->chunk_cap * sizeof *p->chunks);
    p->jobs = NULL;
    p->places = NULL;
    p->chunks = NULL;
    p->job_cap = p->place_cap = p->chunk_cap = 0;
}

static void push_free(seriatim_client *c)
{
    srt_push *p = &c->push;
    push_free_lists(c->mem, p);
    srt_free(c->mem, p->refused, p->refused_cap * sizeof *p->refused);
    srt_arena_free(&p->arena);
}

/* At the client's first push. */
static void push_init(seriatim_client *c)
{
    srt_arena_init(&c->push.arena, c->mem);
    srt_client_on_free(c, push_free);
}

/* The jobs go; counts and refused places stay. */
static void push_forget_jobs(seriatim_client *c)
{
    srt_push *p = &c->push;
    srt_arena_reset(&p->arena);
    if (p->job_cap > PUSH_KEEP_JOBS)
        push_free_lists(c->mem, p);
    p->job_count = p->chunk_count = 0;
}

int seriatim_push_begin(seriatim_client *c, size_t queue)
{
    srt_push *p = &c->push;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    if (!p->arena.mem)
        push_init(c);
    push_forget_jobs(c);
    memset(&p->counts, 0, sizeof p->counts);
    p->pending_chunks = p->written_chunks = p->failed_chunks = p->pending_jobs = p->failed_jobs = 0;
    p->may_refuse = p->has_options = 0;
    p->replicas = p->wait_ms = 0;
    p->limit_ms = PUSH_LIMIT_MS;
    p->unsure = p->sure_chunks = 0;
    memset(&p->sure, 0, sizeof p->sure);
    srt_error_clear(&p->failure);
    srt_error_clear(&p->shortage);
    c->queue = queue;
    if (!srt_client_queue_at(c, queue))
        return SERIATIM_INVALID;
    p->open = 1;
    return SERIATIM_OK;
}

/* A push that was not begun, or that cannot be sent any more. */
static int push_check_open(seriatim_client *c)
{
    if (!c->push.open)
        return srt_fail(&c->error, SERIATIM_INVALID, "no push was begun");
    if (c->push.failure.status != SERIATIM_OK)
        c->error = c->push.failure;
    return c->push.failure.status;
}

int seriatim_push_job(seriatim_client *c, const seriatim_job *job)
{
    int status = push_check_open(c);
    if (status != SERIATIM_OK)
        return status;
    status = push_check(c, job, (unsigned long)c->push.job_count);
    if (status == SERIATIM_OK)
        status = push_add(c, job);
    if (status != SERIATIM_OK)
        c->push.failure = c->error;
    return status;
}

/* An option of the push was refused, as c->error says: it cannot be sent any more. */
static int push_refuse_option(seriatim_client *c)
{
    c->push.failure = c->error;
    return c->error.status;
}

int seriatim_push_timeout(seriatim_client *c, double seconds)
{
    int status = push_check_open(c);
    if (status != SERIATIM_OK)
        return status;
    if (!(seconds >= 0.001 && seconds <= PUSH_MAX_LIMIT)) {
        srt_fail(&c->error, SERIATIM_INVALID, "push_timeout must be from 0.001 to %.0f seconds", PUSH_MAX_LIMIT);
        return push_refuse_option(c);
    }
    c->push.limit_ms = (int64_t)(seconds * 1000);
    return SERIATIM_OK;
}

int seriatim_push_replicas(seriatim_client *c, int64_t count, double timeout)
{
    int status = push_check_open(c);
    if (status != SERIATIM_OK)
        return status;
    if (count < 0 || count > PUSH_MAX_REPLICAS)
        status = srt_fail(&c->error, SERIATIM_INVALID, "wait_replicas must be from 0 to %d, not %lld", PUSH_MAX_REPLICAS,
                          (long long)count);
    else if (!(timeout >= 0.001 && timeout <= PUSH_MAX_WAIT))
        status = srt_fail(&c->error, SERIATIM_INVALID, "wait_timeout must be from 0.001 to %.0f seconds", PUSH_MAX_WAIT);
    if (status != SERIATIM_OK)
        return push_refuse_option(c);
    c->push.replicas = count;
    c->push.wait_ms = (int64_t)(timeout * 1000);
    return SERIATIM_OK;
}

seriatim_push_counts seriatim_push_result(const seriatim_client *c)
{
    return c->push.counts;
}

const size_t *seriatim_push_refused(const seriatim_client *c, size_t *count)
{
    *count = c->push.counts.refused;
    return c->push.refused;
}

/* ---- Planning ------------------------------------------------------------------------------ */

/* Counts the jobs of each shard into starts[shard + 1], then adds up. */
static void push_count_shards(const srt_push *p, unsigned shards, size_t *starts)
{
    size_t i;
    for (i = 0; i < p->job_count; i++)
        if (p->jobs[i].bytes)
            starts[p->jobs[i].crc % shards + 1]++;
    for (i = 0; i < shards; i++)
        starts[i + 1] += starts[i];
}

/* Afterwards starts[shard] is the end of that shard. */
static void push_sort_places(const srt_push *p, unsigned shards, size_t *starts)
{
    size_t i;
    for (i = 0; i < p->job_count; i++)
        if (p->jobs[i].bytes)
            p->places[starts[p->jobs[i].crc % shards]++] = i;
}

static int push_add_chunk(const seriatim_allocator *mem, srt_push *p, unsigned shard, size_t first, size_t end)
{
    void *chunks = p->chunks;
    srt_push_chunk chunk = {shard, first, 0, 0, 0, 0, 0};
    if (srt_grow(mem, &chunks, &p->chunk_cap, p->chunk_count + 1, sizeof *p->chunks) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    p->chunks = chunks;
    while (first + chunk.count < end && chunk.count < PUSH_CHUNK_JOBS) {
        size_t len = p->jobs[p->places[first + chunk.count]].len;
        if (chunk.count && chunk.bytes + len > PUSH_CHUNK_BYTES)
            break;
        chunk.bytes += len;
        chunk.count++;
    }
    p->chunks[p->chunk_count++] = chunk;
    return SERIATIM_OK;
}

static int push_cut(const seriatim_allocator *mem, srt_push *p, unsigned shards, const size_t *ends)
{
    unsigned shard;
    size_t first = 0;
    for (shard = 0; shard < shards; shard++)
        while (first < ends[shard]) {
            if (push_add_chunk(mem, p, shard, first, ends[shard]) != SERIATIM_OK)
                return SERIATIM_NOMEM;
            first += p->chunks[p->chunk_count - 1].count;
        }
    return SERIATIM_OK;
}

/* Shares out the jobs whose outcome is not known. */
static int push_plan(seriatim_client *c, unsigned shards)
{
    srt_push *p = &c->push;
    void *places = p->places;
    size_t size = ((size_t)shards + 1) * sizeof(size_t), *starts;
    int status = srt_grow(c->mem, &places, &p->place_cap, p->job_count, sizeof *p->places);
    p->places = places;
    p->chunk_count = p->opened = p->flying = p->pending_chunks = 0;
    starts = status == SERIATIM_OK ? srt_alloc(c->mem, size) : NULL;
    if (!starts)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    push_count_shards(p, shards, starts);
    push_sort_places(p, shards, starts);
    status = push_cut(c->mem, p, shards, starts);
    srt_free(c->mem, starts, size);
    p->pending_chunks = p->chunk_count;
    return status == SERIATIM_OK ? status : srt_fail_plain(&c->error, SERIATIM_NOMEM);
}

/* ---- Sending ------------------------------------------------------------------------------- */

/* The key under which a shard remembers what this client pushed last. */
static void push_token_arg(const seriatim_client *c, const srt_queue *queue, unsigned shard, srt_request *r)
{
    const srt_bytes *prefix = &queue->shards[shard].prefix;
    size_t len = prefix->len + 5 + SRT_IDENTITY, size = srt_resp_arg_size(len);
    char *at = srt_bytes_reserve(&r->tail, size);
    if (!at)
        return;
    at = push_put(srt_resp_put_head(at, len), prefix->data, prefix->len);
    push_put(push_put(push_put(at, "push:", 5), c->identity, SRT_IDENTITY), "\r\n", 2);
    r->tail.len += size;
    r->args++;
}

#define PUSH_NO_OPTIONS 6 /* bytes of an empty bulk string */

/* How many values a job, then the jobs; the options stay away where no job has any. */
static void push_chunk_args(const srt_push *p, const srt_push_chunk *chunk, srt_request *r)
{
    size_t width = p->has_options ? 3 : 2, unused = p->has_options ? 0 : PUSH_NO_OPTIONS, i;
    char *at;
    srt_request_int(r, (int64_t)width);
    at = srt_bytes_reserve(&r->tail, chunk->bytes);
    if (!at)
        return;
    for (i = chunk->first; i < chunk->first + chunk->count; i++) {
        const srt_push_job *job = &p->jobs[p->places[i]];
        at = push_put(at, job->bytes, job->len - unused);
    }
    r->tail.len += chunk->bytes - chunk->count * unused;
    r->args += width * chunk->count;
}

/* A chunk that was sent before goes with the number that it had, by which its shard knows it. */
static int push_send_chunk(seriatim_client *c, size_t i)
{
    srt_push *p = &c->push;
    srt_push_chunk *chunk = &p->chunks[i];
    int again = chunk->sequence != 0, status;
    const srt_queue *queue = c->registry.queues[c->queue];
    srt_request *r =
        srt_session_begin(&c->session, srt_script_push, &queue->shards[chunk->shard].args, SRT_SHARD_KEYS);
    if (!r)
        return srt_client_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
    if (!again) {
        chunk->sequence = ++c->sequence;
        p->flying += chunk->bytes;
    }
    push_token_arg(c, queue, chunk->shard, r);
    r->keys = r->args;
    srt_request_int(r, queue->generation);
    srt_request_int(r, chunk->sequence);
    srt_request_text(r, queue->now.fold);
    srt_request_text(r, queue->now.on_waiting);
    push_chunk_args(p, chunk, r);
    r->kind = PUSH_KIND_CHUNK;
    r->place = i;
    status = srt_client_send(c, r);
    if (again && status == SERIATIM_OK)
        srt_client_mark_left(r);
    return status;
}

/* Begins further shards, as many as fit into what may fly at once. */
static int push_open_shards(seriatim_client *c)
{
    srt_push *p = &c->push;
    int status = SERIATIM_OK;
    while (status == SERIATIM_OK && p->opened < p->chunk_count &&
           (p->flying == 0 || p->flying + p->chunks[p->opened].bytes <= PUSH_FLYING_BYTES)) {
        size_t first = p->opened;
        while (p->opened < p->chunk_count && p->chunks[p->opened].shard == p->chunks[first].shard)
            p->opened++;
        status = push_send_chunk(c, first);
    }
    return status;
}

/* Chunk i has its outcome: what is left of it, or its shard's next one, may go. */
static int push_go_on(seriatim_client *c, size_t i)
{
    srt_push *p = &c->push;
    size_t next = p->chunks[i].count ? i : i + 1;
    if (c->stale || c->failed != SERIATIM_OK)
        return SERIATIM_OK;
    if (next < p->chunk_count && p->chunks[next].shard == p->chunks[i].shard && push_send_chunk(c, next) != SERIATIM_OK)
        return c->failed;
    return push_open_shards(c);
}

/* Room for every place that may be refused: an answer must not fail for lack of memory. */
static int push_make_room(seriatim_client *c, const srt_queue *queue)
{
    srt_push *p = &c->push;
    void *refused = p->refused;
    if (!p->may_refuse && !push_refuses(queue->now.on_waiting))
        return SERIATIM_OK;
    if (srt_grow(c->mem, &refused, &p->refused_cap, p->job_count, sizeof *p->refused) != SERIATIM_OK)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    p->refused = refused;
    return SERIATIM_OK;
}

static int push_send(seriatim_client *c, srt_queue *queue)
{
    int status;
    if (queue->shards_count == 0)
        return srt_client_fail(
            c, srt_fail(&c->error, SERIATIM_INVALID, "the queue does not exist, and shards_count is 0"));
    status = push_make_room(c, queue);
    if (status == SERIATIM_OK)
        status = push_plan(c, queue->shards_count);
    return status == SERIATIM_OK ? push_open_shards(c) : srt_client_fail(c, status);
}

/* ---- Answers ------------------------------------------------------------------------------- */

/* The jobs of a chunk that an answer was about have their outcome. What is left of it goes under a new number. */
static void push_settle_chunk(srt_push *p, srt_push_chunk *chunk)
{
    size_t taken = chunk->taken;
    p->flying -= chunk->bytes;
    p->pending_jobs -= taken;
    for (; taken > 0; taken--, chunk->first++, chunk->count--) {
        chunk->bytes -= p->jobs[p->places[chunk->first]].len;
        p->jobs[p->places[chunk->first]].bytes = NULL;
    }
    chunk->taken = 0;
    chunk->sequence = 0;
    p->pending_chunks -= chunk->count == 0;
}

/* The next number of an answer, or SIZE_MAX at its end and for what is no number. */
static size_t push_read_number(const char **at, const char *end)
{
    size_t value = 0;
    const char *start;
    if (*at < end && **at == ' ')
        ++*at;
    start = *at;
    for (; *at < end && **at >= '0' && **at <= '9' && *at - start < 9; ++*at)
        value = value * 10 + (size_t)(**at - '0');
    return *at == start ? SIZE_MAX : value;
}

static int push_fail_answer(seriatim_client *c, const char *text)
{
    return c->failed != SERIATIM_OK ? c->failed
                                    : srt_fail(&c->error, SERIATIM_PROTOCOL, "the answer to a push cannot be read: %.60s", text);
}

/* 'taken new folded', then the places of refused jobs from 1. */
static int push_take_counts(seriatim_client *c, srt_push_chunk *chunk, const char *text, size_t len)
{
    srt_push *p = &c->push;
    const char *at = text, *end = text + len;
    size_t before = p->counts.refused, place, taken = push_read_number(&at, end), added = push_read_number(&at, end),
           folded = push_read_number(&at, end);
    if (taken < 1 || taken > chunk->count || added > taken || folded > taken)
        return push_fail_answer(c, text);
    while ((place = push_read_number(&at, end)) != SIZE_MAX) {
        if (place < 1 || place > taken)
            return push_fail_answer(c, text);
        if (p->counts.refused == p->refused_cap)
            return push_fail_answer(c, text);
        p->refused[p->counts.refused++] = p->places[chunk->first + place - 1];
    }
    if (at != end || added + folded + p->counts.refused - before != taken)
        return push_fail_answer(c, text);
    chunk->taken = taken;
    p->counts.added += added;
    p->counts.folded += folded;
    return SERIATIM_OK;
}

static int push_take_written(seriatim_client *c, size_t i, const char *text, size_t len)
{
    srt_push *p = &c->push;
    size_t refused = p->counts.refused;
    int status = push_take_counts(c, &p->chunks[i], text, len);
    if (status != SERIATIM_OK) {
        p->counts.refused = refused;
        return srt_client_fail(c, status);
    }
    p->written_chunks += p->chunks[i].taken == p->chunks[i].count;
    if (p->replicas && p->shortage.status == SERIATIM_OK) {
        p->chunks[i].unsure = 1;
        p->unsure++;
        return SERIATIM_OK;
    }
    push_settle_chunk(p, &p->chunks[i]);
    return push_go_on(c, i);
}

/* ---- Replicas ------------------------------------------------------------------------------ */

/* Redis is to answer while the push still waits, and looks at timeouts ten times a second only. 0 would be for ever. */
static int64_t push_wait_ms(const seriatim_client *c)
{
    int64_t most = c->left_ms - PUSH_WAIT_SPARE_MS;
    most = most < c->push.wait_ms ? most : c->push.wait_ms;
    return most > 1 ? most : 1;
}

/*
 * WAIT counts the replicas that have what this very connection wrote, so it follows when all chunks that were sent are
 * answered; until then nothing of them is settled, and on another connection they go again before the next WAIT.
 */
static int push_ask_replicas(seriatim_client *c)
{
    srt_push *p = &c->push;
    srt_request *r;
    if (p->unsure == 0 || c->asked != 1 || c->failed != SERIATIM_OK)
        return c->failed;
    r = srt_session_begin(&c->session, srt_script_none, NULL, 0);
    if (!r)
        return srt_client_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
    srt_request_text(r, "WAIT");
    srt_request_int(r, p->replicas);
    srt_request_int(r, push_wait_ms(c));
    r->kind = PUSH_KIND_WAIT;
    r->place = p->connection;
    return srt_client_send(c, r);
}

static void push_settle_unsure(srt_push *p)
{
    size_t i;
    for (i = 0; i < p->opened && p->unsure; i++)
        if (p->chunks[i].unsure)
            push_settle_chunk(p, &p->chunks[i]);
    p->unsure = 0;
    p->sure = p->counts;
    p->sure_chunks = p->written_chunks;
}

static int push_take_replicas(seriatim_client *c, const srt_request *r, int64_t count)
{
    srt_push *p = &c->push;
    size_t i, opened = p->opened;
    if (r->place != p->connection)
        return SERIATIM_OK;
    if (count < p->replicas && p->shortage.status == SERIATIM_OK)
        srt_fail(&p->shortage, SERIATIM_REPLICAS, "the push is written, %lld of %lld replicas have it", (long long)count,
                 (long long)p->replicas);
    push_settle_unsure(p);
    for (i = 0; i < opened; i++)
        if (p->chunks[i].unsure) {
            p->chunks[i].unsure = 0;
            push_go_on(c, i);
        }
    return c->failed;
}

/* What is not known to be on the replicas does not count as written. */
static void push_forget_unsure(srt_push *p)
{
    if (!p->replicas || p->shortage.status != SERIATIM_OK)
        return;
    p->counts = p->sure;
    p->written_chunks = p->sure_chunks;
}

/* Nobody can say whether the next master has it: all that is unsure goes again, and counts when it is answered again. */
static void push_on_disconnected(seriatim_client *c)
{
    srt_push *p = &c->push;
    srt_request *r;
    size_t i;
    p->connection++;
    for (r = c->session.first; r; r = r->next)
        if (r->kind == PUSH_KIND_WAIT && !r->handshake) {
            r->handshake = 1; /* dropped with the connection */
            c->asked--;
        }
    for (i = 0; i < p->opened && p->unsure; i++)
        if (p->chunks[i].unsure && push_send_chunk(c, i) == SERIATIM_OK) {
            p->chunks[i].unsure = 0;
            p->unsure--;
        }
    push_forget_unsure(p);
}

/* ---- All answers --------------------------------------------------------------------------- */

/* The token of a chunk whose layout grew old under way: 'sequence answer' of what this shard took from us last. */
static int push_take_token(seriatim_client *c, size_t i, const srt_token *token)
{
    const char *space = token->type == SRT_STRING ? memchr(token->data, ' ', token->len) : NULL;
    if (!space || srt_token_int(token) != c->push.chunks[i].sequence)
        return SERIATIM_OK; /* it was not written: it is planned again */
    return push_take_written(c, i, space + 1, token->len - (size_t)(space + 1 - token->data));
}

static int push_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    const srt_token *root = &reply->tokens[0];
    if (r->kind == PUSH_KIND_TOKEN)
        push_take_token(c, r->place, root);
    else if (root->type != (r->kind == PUSH_KIND_WAIT ? SRT_INTEGER : SRT_STRING))
        srt_client_fail(c, push_fail_answer(c, "no text"));
    else if (r->kind == PUSH_KIND_WAIT)
        push_take_replicas(c, r, root->integer);
    else
        push_take_written(c, r->place, root->data, root->len);
    return push_ask_replicas(c);
}

static int push_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    srt_push *p = &c->push;
    if (r->kind == PUSH_KIND_TOKEN) {
        if (c->failed == SERIATIM_OK)
            srt_fail(&c->error, SERIATIM_UNKNOWN_OUTCOME, "outcome unknown: %.200s", error->message);
        return srt_client_fail(c, SERIATIM_UNKNOWN_OUTCOME);
    }
    if (r->kind == PUSH_KIND_WAIT) {
        if (r->place == p->connection)
            srt_fail(&p->shortage, SERIATIM_REPLICAS, "the push is written, and WAIT was refused: %.180s", error->message);
        push_take_replicas(c, r, 0);
        return push_ask_replicas(c);
    }
    if (p->failed_chunks++ == 0)
        p->failure = *error;
    p->chunks[r->place].taken = p->chunks[r->place].count;
    p->failed_jobs += p->chunks[r->place].count;
    push_settle_chunk(p, &p->chunks[r->place]);
    push_go_on(c, r->place);
    return push_ask_replicas(c);
}

/* Was an earlier sending of it applied, before the layout changed? Its token tells. */
static int push_on_stale(seriatim_client *c, srt_request *r, int left)
{
    const srt_queue *queue = c->registry.queues[c->queue];
    srt_request *ask;
    if (!left || c->failed != SERIATIM_OK)
        return push_ask_replicas(c);
    ask = srt_session_begin(&c->session, srt_script_none, NULL, 0);
    if (!ask)
        return srt_client_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
    srt_request_text(ask, "GET");
    push_token_arg(c, queue, c->push.chunks[r->place].shard, ask);
    ask->kind = PUSH_KIND_TOKEN;
    ask->place = r->place;
    return srt_client_send(c, ask);
}

/* ---- The end ------------------------------------------------------------------------------- */

/* 1400 as "1,400", in buf. */
static const char *push_number(char buf[32], size_t value)
{
    char *at = buf + 31;
    int digits = 0;
    *at = '\0';
    do {
        if (digits && digits % 3 == 0)
            *--at = ',';
        *--at = (char)('0' + value % 10);
        value /= 10;
        digits++;
    } while (value);
    return at;
}

static size_t push_append(char *out, size_t cap, size_t at, const char *text)
{
    size_t len = strlen(text);
    if (at + len >= cap)
        return at;
    memcpy(out + at, text, len + 1);
    return at + len;
}

/* "2 of 5 chunks (1,400 of 5,000 jobs)" */
static void push_describe(const srt_push *p, size_t chunks, size_t jobs, char *out, size_t cap)
{
    char a[32], b[32], d[32], e[32];
    snprintf(out, cap, "%s of %s chunks (%s of %s jobs)", push_number(a, chunks),
             push_number(b, p->pending_chunks + p->written_chunks + p->failed_chunks), push_number(d, jobs),
             push_number(e, p->job_count));
}

static int push_compare_places(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

static void push_close(seriatim_client *c)
{
    srt_push *p = &c->push;
    if (p->counts.refused)
        qsort(p->refused, p->counts.refused, sizeof *p->refused, push_compare_places);
    push_forget_jobs(c);
}

/* Adds to the error in c->error what was not written. */
static int push_fail_unwritten(seriatim_client *c)
{
    srt_push *p = &c->push;
    char what[128], why[sizeof c->error.message];
    int status = c->error.status;
    memcpy(why, c->error.message, sizeof why);
    if ((p->written_chunks == 0 && status != SERIATIM_FULL) || status == SERIATIM_PROTOCOL || status == SERIATIM_UNKNOWN_OUTCOME)
        return status; /* nothing was written, or nobody can say what */
    push_describe(p, p->failed_chunks + p->pending_chunks, p->failed_jobs + p->pending_jobs, what, sizeof what);
    return srt_fail(&c->error, status, "%.140s: %s were not written", why, what);
}

static int push_on_end(seriatim_client *c, int failed)
{
    srt_push *p = &c->push;
    push_settle_unsure(p);
    if (failed == SERIATIM_OK && p->failed_chunks > 0) {
        failed = p->failure.status;
        c->error = p->failure;
        if (failed == SERIATIM_FULL)
            srt_fail_plain(&c->error, failed);
    }
    if (failed != SERIATIM_OK)
        push_fail_unwritten(c);
    else if ((failed = p->shortage.status) != SERIATIM_OK)
        c->error = p->shortage;
    push_close(c);
    return failed;
}

/* Does this request, which has no answer, leave the outcome of its chunk in doubt? */
static int push_in_doubt(const seriatim_client *c, const srt_request *r)
{
    if (r->handshake || r->kind == PUSH_KIND_WAIT)
        return 0;
    return r->kind == PUSH_KIND_TOKEN || (r->kind == PUSH_KIND_CHUNK && srt_client_left(c, r));
}

/* ": shard 3 (1,000 jobs), shard 4 (400 jobs)" as far as it fits. */
static size_t push_list_shards(const srt_push *p, char *out, size_t cap, size_t at)
{
    const char *between = ": ";
    size_t i;
    for (i = 0; i < p->chunk_count; i++) {
        char text[64], number[32];
        const srt_push_chunk *chunk = &p->chunks[i];
        if (!chunk->unsure)
            continue;
        snprintf(text, sizeof text, "%sshard %u (%s jobs)", between, chunk->shard, push_number(number, chunk->count));
        if (at + strlen(text) + 6 > cap)
            return push_append(out, cap, at, ", ...");
        at = push_append(out, cap, at, text);
        between = ", ";
    }
    return at;
}

static void push_fail_unknown(seriatim_client *c, size_t chunks, size_t jobs)
{
    srt_push *p = &c->push;
    size_t unwritten = p->failed_jobs + p->pending_jobs - jobs, at;
    char text[sizeof c->error.message], tail[64] = "", what[128], number[32];
    push_describe(p, chunks, jobs, what, sizeof what);
    if (unwritten)
        snprintf(tail, sizeof tail, "; %s jobs were not written", push_number(number, unwritten));
    snprintf(text, sizeof text, "outcome unknown: %s were sent and not answered", what);
    at = push_list_shards(p, text, sizeof text - strlen(tail), strlen(text));
    push_append(text, sizeof text, at, tail);
    srt_fail(&c->error, SERIATIM_UNKNOWN_OUTCOME, "%s", text);
}

static void push_on_give_up(seriatim_client *c)
{
    srt_push *p = &c->push;
    const srt_request *r;
    size_t chunks = 0, jobs = 0, i;
    push_forget_unsure(p);
    for (r = c->session.first; r; r = r->next)
        if (push_in_doubt(c, r))
            p->chunks[r->place].unsure = 1;
    for (i = 0; i < p->chunk_count; i++)
        if (p->chunks[i].unsure) {
            chunks++;
            jobs += p->chunks[i].count;
        }
    if (chunks)
        push_fail_unknown(c, chunks, jobs);
    else
        push_fail_unwritten(c);
    push_close(c);
}

int seriatim_push_send(seriatim_client *c)
{
    static const srt_operation operation = {
        .creates = 1,
        .minds = 1,
        .limited = 1,
        .every_answer = 1,
        .send = push_send,
        .on_reply = push_on_reply,
        .on_refused = push_on_refused,
        .on_stale = push_on_stale,
        .on_end = push_on_end,
        .on_disconnected = push_on_disconnected,
        .on_give_up = push_on_give_up,
    };
    int status;
    if (c->before_begin)
        c->before_begin(c->host);
    status = push_check_open(c);
    if (status == SERIATIM_OK && !c->identity[0])
        status = srt_fail(&c->error, SERIATIM_INVALID, "the client has no identity yet");
    c->push.open = 0;
    if (status != SERIATIM_OK) {
        c->status = status;
        return status;
    }
    if (c->push.job_count == 0)
        return SERIATIM_OK;
    c->push.pending_jobs = c->push.job_count;
    return srt_client_start(c, &operation, c->queue);
}

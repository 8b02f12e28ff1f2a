/* push_pack.c - the jobs of a push as the arguments of push.lua, in the push's memory. */
#include "client/push.h"
#include "model/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUSH_KEEP_JOBS ((size_t)65536) /* a larger push gives its memory back */

#define PUSH_OPTIONS 22                    /* bytes of packed options before the context */
#define PUSH_SCHEDULED 30                  /* the same of a job that is scheduled */
#define PUSH_DIGITS 24                     /* of a number, with its end */
#define PUSH_LEN_MASK UINT32_C(0x1fffffff) /* a job is some 256 MiB at most */

enum { PUSH_HAS_SCORE = 1, PUSH_HAS_DUE = 2, PUSH_HAS_DELAY = 4, PUSH_HAS_DELIVER_AT = 8, PUSH_HAS_DELIVER_IN = 16 };

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
    if (job->deliver_when != SERIATIM_NOW && job->deliver_time > 0)
        has |= job->deliver_when == SERIATIM_AT ? PUSH_HAS_DELIVER_AT : PUSH_HAS_DELIVER_IN;
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
    at = push_put_double(at, has & (PUSH_HAS_DUE | PUSH_HAS_DELAY) ? floor(job->time * 1e6) : 0);
    at = push_put_uint(at, (uint64_t)job->retry_count, 4);
    *at++ = (char)srt_on_waiting_place(job->on_waiting);
    if (!(has & (PUSH_HAS_DELIVER_AT | PUSH_HAS_DELIVER_IN)))
        return PUSH_OPTIONS;
    push_put_double(at, floor(job->deliver_time * 1e6));
    return PUSH_SCHEDULED;
}

char *srt_push_put(char *at, const void *data, size_t len)
{
    if (len)
        memcpy(at, data, len);
    return at + len;
}

/* The first of a job's encoded arguments is its id: "$2\r\nid\r\n". */
const char *srt_push_id(const srt_push_job *job, size_t *len)
{
    char *end;
    *len = (size_t)strtoul(job->bytes + 1, &end, 10);
    return end + 2;
}

static char *push_put_arg(char *at, const void *data, size_t len)
{
    return srt_push_put(srt_push_put(srt_resp_put_head(at, len), data, len), "\r\n", 2);
}

int srt_push_refuses(const char *word)
{
    return word && (strcmp(word, "reject") == 0 || strcmp(word, "unique") == 0);
}

/* The number of a job of an outbox as text; 0 bytes without an outbox. */
static size_t push_pack_number(srt_push *p, const seriatim_job *job, char out[PUSH_DIGITS])
{
    p->number = job->number;
    if (p->low == 0)
        p->low = job->number;
    return p->outbox[0] ? (size_t)snprintf(out, PUSH_DIGITS, "%lld", (long long)job->number) : 0;
}

/* The job as three encoded arguments in the arena, or four if it comes from an outbox. */
int srt_push_add(seriatim_client *c, const seriatim_job *job)
{
    srt_push *p = c->push;
    void *jobs = p->jobs;
    char options[PUSH_SCHEDULED], digits[PUSH_DIGITS], *at;
    size_t fixed = push_pack_options(job, options), packed = fixed + job->context_len;
    size_t number = push_pack_number(p, job, digits);
    size_t len = srt_resp_arg_size(job->id_len) + srt_resp_arg_size(job->payload_len) + srt_resp_arg_size(packed) +
                 (number ? srt_resp_arg_size(number) : 0);
    if (p->job_count == p->job_cap) {
        if (srt_grow(c->mem, &jobs, &p->job_cap, p->job_count + 1, sizeof *p->jobs) != SERIATIM_OK)
            return srt_fail_plain(&c->error, SERIATIM_NOMEM);
        p->jobs = jobs;
    }
    at = srt_arena_alloc(&p->arena, len);
    if (!at)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    p->has_options |= packed > 0;
    p->wants_handles |= job->deliver_when != SERIATIM_NOW && !p->outbox[0];
    p->jobs[p->job_count].scored = job->has_score != 0;
    p->jobs[p->job_count].moved = p->jobs[p->job_count].away = 0;
    p->may_refuse |= srt_push_refuses(job->on_waiting);
    p->jobs[p->job_count].bytes = at;
    p->jobs[p->job_count].len = (uint32_t)len & PUSH_LEN_MASK;
    p->jobs[p->job_count].crc = srt_crc32(job->id, job->id_len);
    p->job_count++;
    at = push_put_arg(push_put_arg(at, job->id, job->id_len), job->payload, job->payload_len);
    at = srt_push_put(srt_resp_put_head(at, packed), options, fixed);
    at = srt_push_put(srt_push_put(at, job->context, job->context_len), "\r\n", 2);
    if (number)
        push_put_arg(at, digits, number);
    return SERIATIM_OK;
}

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

void srt_push_free(const seriatim_allocator *mem, srt_push *p)
{
    push_free_lists(mem, p);
    srt_free(mem, p->refused, p->refused_cap * sizeof *p->refused);
    if (!p->arena.mem)
        return;
    srt_arena_free(&p->arena);
    srt_arena_free(&p->handle_arena);
}

static void push_free_single(seriatim_client *c)
{
    srt_push_free(c->mem, &c->single);
}

void srt_push_init(seriatim_client *c)
{
    srt_arena_init(&c->push->arena, c->mem);
    srt_arena_init(&c->push->handle_arena, c->mem);
    if (c->push == &c->single)
        srt_client_on_free(c, push_free_single);
}

/* The jobs go; counts and refused places stay. */
void srt_push_forget_jobs(seriatim_client *c)
{
    srt_push *p = c->push;
    srt_arena_reset(&p->arena);
    if (p->job_cap > PUSH_KEEP_JOBS)
        push_free_lists(c->mem, p);
    p->job_count = p->chunk_count = 0;
}

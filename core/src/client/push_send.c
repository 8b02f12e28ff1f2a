/* push_send.c - sends the chunks: those of a shard one after another, as many shards at once as is of use. */
#include "client/push.h"

#include <stdio.h>

/* more makes others wait and sends no faster; one chunk of a queue may be larger */
#define PUSH_FLYING_BYTES ((size_t)256 * 1024)

/* The key under which a shard remembers what this client pushed last. */
void srt_push_token_arg(const seriatim_client *c, const srt_queue *queue, unsigned shard, srt_request *r)
{
    const srt_bytes *prefix = &queue->shards[shard]->prefix;
    size_t len = prefix->len + 5 + SRT_IDENTITY, size = srt_resp_arg_size(len);
    char *at = srt_bytes_reserve(&r->tail, size);
    if (!at)
        return;
    at = srt_push_put(srt_resp_put_head(at, len), prefix->data, prefix->len);
    srt_push_put(srt_push_put(srt_push_put(at, "push:", 5), c->identity, SRT_IDENTITY), "\r\n", 2);
    r->tail.len += size;
    r->args++;
}

/* The key under which a shard keeps the numbers of the jobs that it took from the outbox. */
static void push_outbox_arg(const srt_push *p, const srt_bytes *prefix, srt_request *r)
{
    char key[SRT_OUTBOX_NAME + 8];
    size_t len = (size_t)snprintf(key, sizeof key, "outbox:%s", p->outbox), size = srt_resp_arg_size(prefix->len + len);
    char *at = srt_bytes_reserve(&r->tail, size);
    if (!at)
        return;
    at = srt_push_put(srt_resp_put_head(at, prefix->len + len), prefix->data, prefix->len);
    srt_push_put(srt_push_put(at, key, len), "\r\n", 2);
    r->tail.len += size;
    r->args++;
}

#define PUSH_NO_OPTIONS 6 /* bytes of an empty bulk string */
#define PUSH_NAMED 13     /* three values a job, and the answer names the arrivals */
#define PUSH_REMEMBERS 20 /* more: jobs whose score is not above the remembered one are stale */
#define PUSH_LISTED 40    /* more: the answer has a letter for each job */

/* The width, and the old shards of the jobs, each with the number of its jobs, which follow one another. */
static void push_unless_arg(const srt_push *p, const srt_push_chunk *chunk, int64_t width, srt_request *r)
{
    char text[32 + 10 * SRT_PUSH_CHUNK_JOBS]; /* there are at most 4,096 shards, and 1,000 jobs */
    int len = snprintf(text, sizeof text, "%d unless ", (int)width);
    size_t i, next, end = chunk->first + chunk->count;
    for (i = chunk->first; i < end; i = next) {
        unsigned from = p->jobs[p->places[i]].crc % p->old_count;
        for (next = i; next < end && p->jobs[p->places[next]].crc % p->old_count == from; next++)
            ;
        if (from == chunk->shard)
            len += snprintf(text + len, sizeof text - (size_t)len, "-:%u,", (unsigned)(next - i));
        else
            len += snprintf(text + len, sizeof text - (size_t)len, "%u:%u,", from, (unsigned)(next - i));
    }
    text[len - 1] = '\0';
    srt_request_text(r, text);
}

static void push_width_arg(const srt_push *p, const srt_push_chunk *chunk, int64_t width, srt_request *r)
{
    char text[64];
    if (chunk->step == SRT_PUSH_UNLESS) {
        push_unless_arg(p, chunk, width, r);
        return;
    }
    if (chunk->step == SRT_PUSH_PLAIN) {
        srt_request_int(r, width);
        return;
    }
    if (chunk->step == SRT_PUSH_HERE)
        snprintf(text, sizeof text, "%d here", (int)width);
    else
        snprintf(text, sizeof text, "%d %.0f", (int)width, p->floor);
    srt_request_text(r, text);
}

/*
 * How many values a job, history_per_id, the low-water mark of the outbox if there is one, then the jobs; the options
 * stay away where no job has any.
 */
static void push_chunk_args(const srt_push *p, const srt_push_chunk *chunk, const srt_settings *settings,
                            srt_request *r)
{
    int options = p->has_options || p->wants_handles;
    size_t width = options ? 3 : 2, args = width + (p->outbox[0] ? 1 : 0), unused = options ? 0 : PUSH_NO_OPTIONS, i;
    char *at;
    push_width_arg(p, chunk,
                   (p->wants_handles ? PUSH_NAMED : (int64_t)width) +
                       (options && settings->remember_score > 0 ? PUSH_REMEMBERS : 0) + (p->outcomes ? PUSH_LISTED : 0),
                   r);
    srt_request_int(r, settings->history_per_id);
    if (p->outbox[0])
        srt_request_int(r, p->low);
    at = srt_bytes_reserve(&r->tail, chunk->bytes);
    if (!at)
        return;
    for (i = chunk->first; i < chunk->first + chunk->count; i++) {
        const srt_push_job *job = &p->jobs[p->places[i]];
        at = srt_push_put(at, job->bytes, job->len - unused);
    }
    r->tail.len += chunk->bytes - chunk->count * unused;
    r->args += args * chunk->count;
}

/* A chunk that was sent before goes with the number that it had, by which its shard knows it. */
int srt_push_send_chunk(seriatim_client *c, size_t i)
{
    srt_push *p = c->push;
    srt_push_chunk *chunk = &p->chunks[i];
    int again = chunk->sequence != 0, status;
    int script = p->outbox[0] ? srt_script_push_outbox : srt_script_push;
    const srt_queue *queue = c->registry.queues[c->queue];
    srt_request *r =
        srt_session_begin(srt_cluster_pool(&c->cluster), script, &queue->shards[chunk->shard]->args, SRT_SHARD_KEYS);
    if (!r)
        return srt_client_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
    if (!again) {
        chunk->sequence = ++c->sequence;
        p->flying += chunk->bytes;
    }
    srt_push_token_arg(c, queue, chunk->shard, r);
    if (p->outbox[0])
        push_outbox_arg(p, &queue->shards[chunk->shard]->prefix, r);
    r->keys = r->args;
    srt_request_int(r, queue->generation);
    srt_request_int(r, chunk->sequence);
    srt_request_text(r, queue->now.fold);
    srt_request_text(r, queue->now.on_waiting);
    push_chunk_args(p, chunk, &queue->now, r);
    status = srt_push_ask(c, r, PUSH_KIND_CHUNK, i);
    if (again && status == SERIATIM_OK)
        srt_client_mark_left(r);
    return status;
}

static int push_begin_chunk(seriatim_client *c, size_t i)
{
    return c->push->chunks[i].step == SRT_PUSH_ASK ? srt_push_send_ids(c, i) : srt_push_send_chunk(c, i);
}

/*
 * Begins further shards, as many as fit into what may fly at once. A queue of which nothing flies begins one in any
 * case: what flies of other queues may wait for a master that is away.
 */
int srt_push_open_shards(seriatim_client *c)
{
    srt_push *p = c->push;
    int status = SERIATIM_OK;
    while (status == SERIATIM_OK && p->opened < p->chunk_count &&
           (p->flying == 0 || p->elsewhere + p->flying + p->chunks[p->opened].bytes <= PUSH_FLYING_BYTES)) {
        size_t first = p->opened;
        while (p->opened < p->chunk_count && p->chunks[p->opened].shard == p->chunks[first].shard)
            p->opened++;
        status = push_begin_chunk(c, first);
    }
    return status;
}

/* Is another chunk of this shard to be sent? */
static int push_has_next(const srt_push *p, size_t next, unsigned shard)
{
    return next < p->chunk_count && p->chunks[next].shard == shard;
}

/*
 * Chunk i has its outcome: what is left of it, or its shard's next one, may go. If ids of it are still in their old
 * shards, what follows has to wait for that: it may have jobs of the same ids, which leave their old shard meanwhile.
 */
int srt_push_go_on(seriatim_client *c, size_t i)
{
    srt_push *p = c->push;
    size_t next = p->chunks[i].count ? i : i + 1;
    if (c->stale || c->failed != SERIATIM_OK)
        return SERIATIM_OK;
    for (; p->returned && push_has_next(p, next, p->chunks[i].shard) && p->chunks[next].step == SRT_PUSH_UNLESS; next++)
        p->pending_chunks--;
    if (push_has_next(p, next, p->chunks[i].shard) && push_begin_chunk(c, next) != SERIATIM_OK)
        return c->failed;
    return srt_push_open_shards(c);
}

/* Room for every place that may be refused: an answer must not fail for lack of memory. */
static int push_make_room(seriatim_client *c, const srt_queue *queue)
{
    srt_push *p = c->push;
    void *refused = p->refused;
    if (!p->may_refuse && !srt_push_refuses(queue->now.on_waiting))
        return SERIATIM_OK;
    if (srt_grow(c->mem, &refused, &p->refused_cap, p->job_count, sizeof *p->refused) != SERIATIM_OK)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    p->refused = refused;
    return SERIATIM_OK;
}

/* Where chunks were made, the queue was there: nobody has made a mistake, and some of them may be written. */
static int push_without_queue(seriatim_client *c)
{
    if (c->push->chunk_count > 0)
        return srt_client_fail(c, srt_fail(&c->error, SERIATIM_GENERATION, SRT_PUSH_DELETED));
    return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID, "the queue does not exist, and shards_count is 0"));
}

int srt_push_send(seriatim_client *c, srt_queue *queue)
{
    int status;
    if (queue->shards_count == 0)
        return push_without_queue(c);
    status = push_make_room(c, queue);
    if (status == SERIATIM_OK)
        status = srt_push_make_handles(c, queue);
    if (status == SERIATIM_OK)
        srt_push_begin_steps(c, queue);
    if (status == SERIATIM_OK)
        status = srt_push_plan(c, queue);
    return status == SERIATIM_OK ? srt_push_open_shards(c) : srt_client_fail(c, status);
}

/* push_plan.c - shares the jobs out to the shards of the queue, and cuts those of a shard into chunks. */
#include "client/push.h"

#include <limits.h>
#include <string.h>

#define PUSH_CHUNK_BYTES ((size_t)512 * 1024) /* of a chunk of more than one job */

/* old shards that a call looks into: each costs Redis six commands */
#define PUSH_OLD_SHARDS ((size_t)200)

#define PUSH_NO_LANE UINT_MAX

/*
 * Where a job goes now: a shard and a step of it, as shard * SRT_PUSH_STEPS + step. PUSH_NO_LANE: nowhere. Behind a
 * plan that asked, one call takes all that a shard gets: the jobs whose id stays, and those whose id has moved to it.
 */
static unsigned push_lane(const srt_push *p, const srt_queue *queue, const srt_push_job *job)
{
    unsigned to = job->crc % queue->shards_count, from = queue->old_count ? job->crc % queue->old_count : to;
    if (!job->bytes || (p->asks && from == to))
        return PUSH_NO_LANE;
    if (queue->old_count && !p->old_first && (from != to || p->job_count > 1))
        return to * SRT_PUSH_STEPS + SRT_PUSH_UNLESS;
    if (job->moved || (p->asked && from == to))
        return to * SRT_PUSH_STEPS + SRT_PUSH_MOVED;
    if (from == to)
        return to * SRT_PUSH_STEPS + SRT_PUSH_PLAIN;
    return from * SRT_PUSH_STEPS + (p->asks ? SRT_PUSH_ASK : SRT_PUSH_HERE);
}

/* Counts the jobs of each lane into starts[lane + 1], then adds up. */
static void push_count_lanes(const srt_push *p, const srt_queue *queue, unsigned lanes, size_t *starts)
{
    size_t i;
    for (i = 0; i < p->job_count; i++) {
        unsigned lane = push_lane(p, queue, &p->jobs[i]);
        if (lane != PUSH_NO_LANE)
            starts[lane + 1]++;
    }
    for (i = 0; i < lanes; i++)
        starts[i + 1] += starts[i];
}

/* Those of an old shard follow one another, so that a call looks into each once. starts has old_count + 1 zeros. */
static void push_order_by_old_shard(const srt_push *p, size_t *starts, size_t *order)
{
    size_t i;
    for (i = 0; i < p->job_count; i++)
        starts[p->jobs[i].crc % p->old_count + 1]++;
    for (i = 0; i < p->old_count; i++)
        starts[i + 1] += starts[i];
    for (i = 0; i < p->job_count; i++)
        order[starts[p->jobs[i].crc % p->old_count]++] = i;
    memset(starts, 0, (p->old_count + 1) * sizeof *starts);
}

/* Afterwards starts[lane] is the end of that lane. order: of the jobs, NULL: as they are. */
static void push_sort_places(const srt_push *p, const srt_queue *queue, size_t *starts, const size_t *order)
{
    size_t i;
    for (i = 0; i < p->job_count; i++) {
        size_t place = order ? order[i] : i;
        unsigned lane = push_lane(p, queue, &p->jobs[place]);
        if (lane != PUSH_NO_LANE)
            p->places[starts[lane]++] = place;
    }
}

static int push_add_chunk(const seriatim_allocator *mem, srt_push *p, unsigned lane, size_t first, size_t end)
{
    void *chunks = p->chunks;
    srt_push_chunk chunk = {
        lane / SRT_PUSH_STEPS, (srt_push_step)(lane % SRT_PUSH_STEPS), first, 0, 0, 0, 0, SRT_PUSH_CERTAIN, NULL, 0, 0};
    size_t most =
        chunk.step == SRT_PUSH_UNLESS && p->old_count > PUSH_OLD_SHARDS ? PUSH_OLD_SHARDS : SRT_PUSH_CHUNK_JOBS;
    if (srt_grow(mem, &chunks, &p->chunk_cap, p->chunk_count + 1, sizeof *p->chunks) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    p->chunks = chunks;
    while (first + chunk.count < end && chunk.count < most) {
        size_t len = p->jobs[p->places[first + chunk.count]].len;
        if (chunk.count && chunk.bytes + len > PUSH_CHUNK_BYTES)
            break;
        chunk.bytes += len;
        chunk.count++;
    }
    p->chunks[p->chunk_count++] = chunk;
    return SERIATIM_OK;
}

static int push_cut(const seriatim_allocator *mem, srt_push *p, unsigned lanes, const size_t *ends)
{
    unsigned lane;
    size_t first = 0;
    for (lane = 0; lane < lanes; lane++)
        while (first < ends[lane]) {
            if (push_add_chunk(mem, p, lane, first, ends[lane]) != SERIATIM_OK)
                return SERIATIM_NOMEM;
            first += p->chunks[p->chunk_count - 1].count;
        }
    return SERIATIM_OK;
}

static int push_sort_and_cut(const seriatim_allocator *mem, srt_push *p, const srt_queue *queue)
{
    unsigned lanes = srt_queue_addressed(queue) * SRT_PUSH_STEPS;
    int looks = queue->old_count && !p->old_first, status;
    size_t size = ((size_t)lanes + 1 + (looks ? p->job_count : 0)) * sizeof(size_t), *starts = srt_alloc(mem, size);
    size_t *order = looks && starts ? starts + lanes + 1 : NULL;
    if (!starts)
        return SERIATIM_NOMEM;
    if (order)
        push_order_by_old_shard(p, starts, order);
    push_count_lanes(p, queue, lanes, starts);
    push_sort_places(p, queue, starts, order);
    status = push_cut(mem, p, lanes, starts);
    srt_free(mem, starts, size);
    return status;
}

/* Shares out the jobs whose outcome is not known. */
int srt_push_plan(seriatim_client *c, const srt_queue *queue)
{
    srt_push *p = c->push;
    void *places = p->places;
    int status = srt_grow(c->mem, &places, &p->place_cap, p->job_count, sizeof *p->places);
    p->places = places;
    p->chunk_count = p->opened = p->flying = p->pending_chunks = 0;
    if (status == SERIATIM_OK && p->job_count == 1 && p->jobs[0].bytes) { /* most pushes have one job */
        p->places[0] = 0;
        status = push_add_chunk(c->mem, p, push_lane(p, queue, &p->jobs[0]), 0, 1);
    } else if (status == SERIATIM_OK) {
        status = push_sort_and_cut(c->mem, p, queue);
    }
    p->pending_chunks = p->chunk_count;
    return status == SERIATIM_OK ? status : srt_fail_plain(&c->error, SERIATIM_NOMEM);
}

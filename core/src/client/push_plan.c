/* push_plan.c - shares the jobs out to the shards of the queue, and cuts those of a shard into chunks. */
#include "client/push.h"

#define PUSH_CHUNK_JOBS ((size_t)1000)        /* as in core/scripts/client/push.lua */
#define PUSH_CHUNK_BYTES ((size_t)512 * 1024) /* of a chunk of more than one job */

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

static int push_sort_and_cut(const seriatim_allocator *mem, srt_push *p, unsigned shards)
{
    size_t size = ((size_t)shards + 1) * sizeof(size_t), *starts = srt_alloc(mem, size);
    int status;
    if (!starts)
        return SERIATIM_NOMEM;
    push_count_shards(p, shards, starts);
    push_sort_places(p, shards, starts);
    status = push_cut(mem, p, shards, starts);
    srt_free(mem, starts, size);
    return status;
}

/* Shares out the jobs whose outcome is not known. */
int srt_push_plan(seriatim_client *c, unsigned shards)
{
    srt_push *p = c->push;
    void *places = p->places;
    int status = srt_grow(c->mem, &places, &p->place_cap, p->job_count, sizeof *p->places);
    p->places = places;
    p->chunk_count = p->opened = p->flying = p->pending_chunks = 0;
    if (status == SERIATIM_OK && p->job_count == 1 && p->jobs[0].bytes) { /* most pushes have one job */
        p->places[0] = 0;
        status = push_add_chunk(c->mem, p, p->jobs[0].crc % shards, 0, 1);
    } else if (status == SERIATIM_OK) {
        status = push_sort_and_cut(c->mem, p, shards);
    }
    p->pending_chunks = p->chunk_count;
    return status == SERIATIM_OK ? status : srt_fail_plain(&c->error, SERIATIM_NOMEM);
}

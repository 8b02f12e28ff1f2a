/*
 * pipeline.c - pushes of several queues in one operation: collects them, and says what came of each. The jobs of a
 * queue, of all its pushes, are one srt_push, here a part; so they go in as few chunks as those of one push.
 */
#include "client/pipeline.h"

#include <string.h>

#define PIPELINE_KEEP_PUSHES ((size_t)65536) /* a larger pipeline gives its memory back */

/* ---- Collecting ------------------------------------------------------------------------------ */

static void pipeline_free(seriatim_client *c)
{
    srt_pipeline *pl = c->pipeline;
    size_t i;
    for (i = 0; i < pl->part_cap && pl->parts[i]; i++) {
        srt_push_free(c->mem, &pl->parts[i]->push);
        srt_free(c->mem, pl->parts[i], sizeof *pl->parts[i]);
    }
    srt_free(c->mem, pl->parts, pl->part_cap * sizeof *pl->parts);
    srt_free(c->mem, pl->pushes, pl->push_cap * sizeof *pl->pushes);
    srt_free(c->mem, pl, sizeof *pl);
}

int seriatim_pipeline_begin(seriatim_client *c)
{
    srt_pipeline *pl = c->pipeline;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    if (!pl) {
        pl = c->pipeline = srt_alloc(c->mem, sizeof *pl);
        if (!pl)
            return srt_fail_plain(&c->error, SERIATIM_NOMEM);
        srt_client_on_free(c, pipeline_free);
    }
    if (pl->push_cap > PIPELINE_KEEP_PUSHES) {
        srt_free(c->mem, pl->pushes, pl->push_cap * sizeof *pl->pushes);
        pl->pushes = NULL;
        pl->push_cap = 0;
    }
    pl->part_count = pl->push_count = 0;
    pl->begun = 0;
    pl->replicas = pl->wait_ms = pl->limit_ms = 0;
    srt_error_clear(&pl->failure);
    c->pipeline_open = 1;
    return SERIATIM_OK;
}

static int pipeline_fail(seriatim_client *c, int status)
{
    c->pipeline->failure = c->error;
    return status;
}

/* The part of the queue, which is made if it has none. NULL: out of memory. */
static srt_queue_part *pipeline_part(seriatim_client *c, size_t queue)
{
    srt_pipeline *pl = c->pipeline;
    void *parts = pl->parts;
    size_t i, cap = pl->part_cap;
    for (i = 0; i < pl->part_count; i++)
        if (pl->parts[i]->queue == queue)
            return pl->parts[i];
    if (srt_grow(c->mem, &parts, &pl->part_cap, i + 1, sizeof *pl->parts) != SERIATIM_OK)
        return NULL;
    pl->parts = parts;
    memset(pl->parts + cap, 0, (pl->part_cap - cap) * sizeof *pl->parts);
    if (!pl->parts[i] && !(pl->parts[i] = srt_alloc(c->mem, sizeof **pl->parts)))
        return NULL;
    pl->part_count++;
    pl->parts[i]->queue = queue;
    pl->parts[i]->planned = pl->parts[i]->loading = pl->parts[i]->unloaded = 0;
    pl->parts[i]->stale_generation = 0;
    srt_error_clear(&pl->parts[i]->error);
    srt_error_clear(&pl->parts[i]->cause);
    c->push = &pl->parts[i]->push;
    srt_push_open(c);
    return pl->parts[i];
}

/* The push that was begun last is whole: its options join those of the others. */
static void pipeline_close_push(seriatim_client *c)
{
    srt_pipeline *pl = c->pipeline;
    srt_piped *last = pl->push_count ? &pl->pushes[pl->push_count - 1] : NULL;
    srt_push *p;
    if (!last)
        return;
    p = &last->part->push;
    last->count = p->job_count - last->first;
    last->handles = p->wants_handles;
    p->wants_handles |= pl->wants_handles;
    if (p->replicas > pl->replicas)
        pl->replicas = p->replicas;
    if (p->replicas > 0 && p->wait_ms > pl->wait_ms)
        pl->wait_ms = p->wait_ms;
    if (pl->limit_ms == 0 || p->limit_ms < pl->limit_ms)
        pl->limit_ms = p->limit_ms;
    if (p->failure.status != SERIATIM_OK && pl->failure.status == SERIATIM_OK)
        pl->failure = p->failure;
    p->open = 0;
}

static int pipeline_check_open(seriatim_client *c)
{
    srt_pipeline *pl = c->pipeline;
    if (!c->pipeline_open)
        return srt_fail(&c->error, SERIATIM_INVALID, "no pipeline was begun");
    pipeline_close_push(c);
    if (pl->failure.status != SERIATIM_OK)
        c->error = pl->failure;
    return pl->failure.status;
}

int seriatim_pipeline_push(seriatim_client *c, size_t queue)
{
    srt_pipeline *pl = c->pipeline;
    int status = pipeline_check_open(c);
    void *pushes;
    srt_queue_part *part;
    if (status != SERIATIM_OK)
        return status;
    if (!srt_client_queue_at(c, queue))
        return pipeline_fail(c, SERIATIM_INVALID);
    pushes = pl->pushes;
    part = srt_grow(c->mem, &pushes, &pl->push_cap, pl->push_count + 1, sizeof *pl->pushes) == SERIATIM_OK
               ? pipeline_part(c, queue)
               : NULL;
    pl->pushes = pushes;
    if (!part)
        return pipeline_fail(c, srt_fail_plain(&c->error, SERIATIM_NOMEM));
    c->push = &part->push;
    c->queue = queue;
    pl->wants_handles = part->push.wants_handles;
    part->push.wants_handles = 0;
    srt_push_default_options(&part->push);
    part->push.first = part->push.job_count;
    part->push.open = 1;
    memset(&pl->pushes[pl->push_count], 0, sizeof *pl->pushes);
    pl->pushes[pl->push_count].part = part;
    pl->pushes[pl->push_count++].first = part->push.job_count;
    return SERIATIM_OK;
}

int seriatim_pipeline_send(seriatim_client *c)
{
    int status = srt_client_check_idle(c);
    if (status != SERIATIM_OK)
        return status;
    status = pipeline_check_open(c);
    if (status == SERIATIM_OK && (status = srt_client_check_identity(c)) != SERIATIM_OK)
        pipeline_fail(c, status);
    c->pipeline_open = 0;
    if (status != SERIATIM_OK) {
        c->status = status;
        return status;
    }
    return srt_pipeline_start(c);
}

/* ---- What came of it ------------------------------------------------------------------------- */

static const srt_piped *pipeline_piped(const seriatim_client *c, size_t push)
{
    return c->pipeline && push < c->pipeline->push_count ? &c->pipeline->pushes[push] : NULL;
}

int seriatim_pipeline_outcome(const seriatim_client *c, size_t push, size_t job)
{
    const srt_piped *piped = pipeline_piped(c, push);
    const char *outcomes = piped ? piped->part->push.outcomes : NULL;
    if (!piped || job >= piped->count)
        return 0;
    return outcomes && outcomes[piped->first + job] ? outcomes[piped->first + job] : SERIATIM_JOB_UNWRITTEN;
}

int seriatim_pipeline_result(const seriatim_client *c, size_t push, seriatim_push_counts *counts, seriatim_error *error)
{
    const srt_piped *piped = pipeline_piped(c, push);
    size_t i, unknown = 0, unwritten = 0;
    memset(counts, 0, sizeof *counts);
    srt_error_clear(error);
    if (!piped)
        return srt_fail(error, SERIATIM_INVALID, "there is no push with the number %lu", (unsigned long)push);
    for (i = 0; i < piped->count; i++) {
        int outcome = seriatim_pipeline_outcome(c, push, i);
        counts->added += outcome == SERIATIM_JOB_ADDED;
        counts->folded += outcome == SERIATIM_JOB_FOLDED;
        counts->refused += outcome == SERIATIM_JOB_REFUSED;
        counts->scheduled += outcome == SERIATIM_JOB_SCHEDULED;
        counts->stale += outcome == SERIATIM_JOB_STALE;
        unwritten += outcome == SERIATIM_JOB_UNWRITTEN;
        unknown += outcome == SERIATIM_JOB_UNKNOWN;
    }
    if (c->pipeline->failure.status != SERIATIM_OK) /* nothing of it was sent */
        *error = c->pipeline->failure;
    else if (unknown)
        *error = piped->part->error;
    else if (unwritten)
        *error = piped->part->cause;
    else if (piped->count)
        *error = piped->part->push.shortage;
    return error->status;
}

const seriatim_text *seriatim_pipeline_handles(const seriatim_client *c, size_t push, size_t *count)
{
    const srt_piped *piped = pipeline_piped(c, push);
    const srt_push *p = piped ? &piped->part->push : NULL;
    *count = piped && piped->handles && p->handle_count ? piped->count : 0;
    return *count ? p->handles + piped->first : NULL;
}

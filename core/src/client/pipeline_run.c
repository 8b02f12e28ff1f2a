/*
 * pipeline_run.c - a pipeline under way: sends the chunks of its parts, takes the answers, and says how each part
 * ended. The parts share the connection and what may fly on it.
 */
#include "client/pipeline.h"

#include "base/printable.h"

#include <stdio.h>
#include <string.h>

#define PIPELINE_SHOWN 48 /* bytes of a queue's name in an error */

/* ---- The parts as one operation -------------------------------------------------------------- */

size_t srt_pipeline_flying(const seriatim_client *c)
{
    size_t i, bytes = 0;
    for (i = 0; i < c->pipeline->part_count; i++)
        bytes += c->pipeline->parts[i]->push.flying;
    return bytes;
}

/* What the client and the files of a push take for the present push. */
static void pipeline_turn_to(seriatim_client *c, srt_queue_part *part)
{
    part->push.elsewhere = srt_pipeline_flying(c) - part->push.flying;
    c->push = &part->push;
    c->queue = part->queue;
    c->stale = part->stale;
    c->stale_generation = part->stale_generation;
}

/* Runs `act` for each part, and comes back to the present one. */
static void pipeline_each(seriatim_client *c, void (*act)(seriatim_client *c, srt_queue_part *part))
{
    srt_pipeline *pl = c->pipeline;
    srt_push *push = c->push;
    size_t queue = c->queue, i;
    int stale = c->stale;
    int64_t generation = c->stale_generation;
    for (i = 0; i < pl->part_count; i++) {
        pipeline_turn_to(c, pl->parts[i]);
        act(c, pl->parts[i]);
    }
    c->push = push;
    c->queue = queue;
    c->stale = stale;
    c->stale_generation = generation;
}

/* An answer must not fail for lack of memory. */
static int pipeline_make_outcomes(seriatim_client *c)
{
    srt_push *p = c->push;
    if (p->outcomes)
        return SERIATIM_OK;
    p->outcomes = srt_arena_alloc(&p->handle_arena, p->job_count + 1);
    if (!p->outcomes)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    memset(p->outcomes, 0, p->job_count + 1);
    return SERIATIM_OK;
}

/* Is there something of it to send? */
static int pipeline_wants(const srt_queue_part *part)
{
    return part->push.job_count > 0 && !part->unloaded;
}

/* A part that keeps the others from being sent: its layout is not known, or its queue does not exist. */
static srt_queue_part *pipeline_hindrance(const seriatim_client *c)
{
    const srt_pipeline *pl = c->pipeline;
    size_t i;
    for (i = 0; i < pl->part_count; i++)
        if (pl->parts[i]->stale)
            return pl->parts[i];
    for (i = 0; i < pl->part_count; i++)
        if (pipeline_wants(pl->parts[i]) && c->registry.queues[pl->parts[i]->queue]->shards_count == 0)
            return pl->parts[i];
    return NULL;
}

/* All that was sent of the part is answered, so nothing of it is in doubt. */
static void pipeline_leave_out(srt_queue_part *part, int status, const char *why)
{
    part->unloaded = 1;
    if (part->push.failure.status == SERIATIM_OK)
        srt_fail(&part->push.failure, status, "%s", why);
}

/* Each layout is known, or cannot be loaded, and each queue exists, before anything is written. */
static int pipeline_send(seriatim_client *c, srt_queue *queue)
{
    srt_pipeline *pl = c->pipeline;
    srt_queue_part *part = (srt_queue_part *)c->push, *first = NULL;
    size_t i;
    part->stale = part->loading = 0;
    if (pl->begun && queue && queue->shards_count == 0)
        pipeline_leave_out(part, SERIATIM_GENERATION, SRT_PUSH_DELETED);
    if (!pl->begun && (first = pipeline_hindrance(c)) != NULL) {
        pipeline_turn_to(c, first);
        return first->stale ? SERIATIM_OK : srt_push_send(c, c->registry.queues[c->queue]);
    }
    pl->begun = 1;
    for (i = 0; i < pl->part_count && c->failed == SERIATIM_OK; i++) {
        if (pl->parts[i]->planned || pl->parts[i]->stale || !pipeline_wants(pl->parts[i]))
            continue;
        pipeline_turn_to(c, pl->parts[i]);
        if (pipeline_make_outcomes(c) != SERIATIM_OK)
            return srt_client_fail(c, SERIATIM_NOMEM);
        pl->parts[i]->planned = 1;
        srt_push_send(c, c->registry.queues[c->queue]);
    }
    return c->failed;
}

static int pipeline_on_unloaded(seriatim_client *c, const seriatim_error *error)
{
    pipeline_leave_out((srt_queue_part *)c->push, error->status, error->message);
    return pipeline_send(c, NULL);
}

static void pipeline_before_answer(seriatim_client *c, const srt_request *r)
{
    if (r->subject)
        pipeline_turn_to(c, r->subject);
}

static void pipeline_open_shards(seriatim_client *c, srt_queue_part *part)
{
    if (part->planned && !part->stale && c->failed == SERIATIM_OK)
        srt_push_open_shards(c);
}

static void pipeline_ask_replicas(seriatim_client *c, srt_queue_part *part)
{
    (void)part;
    srt_push_ask_replicas(c);
}

static void pipeline_load(seriatim_client *c, srt_queue_part *part, int later)
{
    c->stale_generation = part->stale_generation;
    part->loading = 1;
    srt_client_ask_layout(c, part, later);
}

static void pipeline_follow_moved(seriatim_client *c, srt_queue_part *part)
{
    c->pause_ms = 0;
    if (!part->planned || part->stale || !srt_push_follow(c))
        return;
    part->stale = 1;
    part->stale_generation = 0;
    part->planned = 0;
    pipeline_load(c, part, 1);
}

/* A layout that has grown old is loaded when all that was sent by it is answered. */
static void pipeline_load_again(seriatim_client *c, srt_queue_part *part)
{
    if (c->pipeline->begun && part->stale && !part->loading && part->push.unanswered == 0 && part->push.unsure == 0 &&
        c->failed == SERIATIM_OK)
        pipeline_load(c, part, 0);
}

/* An answer was taken: sends what may follow it. */
static int pipeline_go_on(seriatim_client *c)
{
    pipeline_each(c, pipeline_ask_replicas);
    pipeline_each(c, pipeline_open_shards);
    pipeline_each(c, pipeline_follow_moved);
    pipeline_each(c, pipeline_load_again);
    c->stale = 0; /* each part has its own */
    return c->failed;
}

/* An answer to WAIT counts for each part that has written something on its connection. */
static int pipeline_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    srt_pipeline *pl = c->pipeline;
    size_t i;
    if (r->subject)
        srt_push_take_answer(c, r, reply);
    for (i = 0; !r->subject && i < pl->part_count; i++) {
        pipeline_turn_to(c, pl->parts[i]);
        srt_push_take_answer(c, r, reply);
    }
    return pipeline_go_on(c);
}

static int pipeline_on_refused(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    srt_pipeline *pl = c->pipeline;
    size_t i;
    if (r->subject)
        srt_push_take_refusal(c, r, error);
    for (i = 0; !r->subject && i < pl->part_count; i++) {
        pipeline_turn_to(c, pl->parts[i]);
        srt_push_take_refusal(c, r, error);
    }
    return pipeline_go_on(c);
}

static int pipeline_on_stale(seriatim_client *c, srt_request *r, int left)
{
    srt_queue_part *part = r->subject;
    part->stale = 1;
    part->stale_generation = c->stale_generation;
    part->planned = 0;
    srt_push_take_stale(c, r, left);
    return pipeline_go_on(c);
}

static void pipeline_part_disconnected(seriatim_client *c, srt_queue_part *part)
{
    (void)part;
    srt_push_on_disconnected(c);
}

static void pipeline_on_disconnected(seriatim_client *c)
{
    pipeline_each(c, pipeline_part_disconnected);
    srt_push_forget_lost(c);
    pipeline_each(c, pipeline_follow_moved);
    pipeline_each(c, pipeline_load_again);
}

/* ---- The end --------------------------------------------------------------------------------- */

static int pipeline_rank(int status)
{
    return status == SERIATIM_OK ? 0 : status == SERIATIM_REPLICAS ? 1 : status == SERIATIM_UNKNOWN_OUTCOME ? 3 : 2;
}

/* The worst that became of a queue: an unknown outcome, a failure, or too few replicas. Names each such queue. */
static int pipeline_name_failures(seriatim_client *c)
{
    srt_pipeline *pl = c->pipeline;
    const srt_queue_part *worst = pl->parts[0];
    char text[sizeof c->error.message] = "", name[PIPELINE_SHOWN];
    size_t i, failed = 0, at = 0;
    for (i = 0; i < pl->part_count; i++) {
        failed += pl->parts[i]->error.status != SERIATIM_OK;
        if (pipeline_rank(pl->parts[i]->error.status) > pipeline_rank(worst->error.status))
            worst = pl->parts[i];
    }
    c->error = worst->error;
    if (failed == 0 || pl->part_count == 1)
        return worst->error.status;
    for (i = 0; i < pl->part_count; i++) {
        const srt_bytes *queue = &c->registry.queues[pl->parts[i]->queue]->name;
        if (pl->parts[i]->error.status == SERIATIM_OK || at >= sizeof text - 1)
            continue;
        srt_printable_start(queue->data, queue->len, name, sizeof name);
        at += (size_t)snprintf(text + at, sizeof text - at, "%squeue %s: %.*s", at ? "; " : "", name,
                               (int)(sizeof text / failed > 64 ? sizeof text / failed - 64 : 16),
                               pl->parts[i]->error.message);
    }
    return srt_fail(&c->error, worst->error.status, "%s", text);
}

/* Of a part that failed as a whole: what was sent and not answered, where nobody can say whether it was written. */
static void pipeline_mark_doubtful(srt_queue_part *part, int status)
{
    srt_push *p = &part->push;
    size_t i;
    for (i = 0; (status == SERIATIM_PROTOCOL || status == SERIATIM_UNKNOWN_OUTCOME) && i < p->chunk_count; i++)
        if (p->chunks[i].sequence != 0)
            srt_push_mark(p, &p->chunks[i], SERIATIM_JOB_UNKNOWN);
}

/* Ends a part, of an operation that failed by `why` (OK: it did not), or that is given up. */
static void pipeline_end_part(seriatim_client *c, srt_queue_part *part, const seriatim_error *why, int given_up)
{
    srt_push *p = &part->push;
    int whole, status;
    if (!given_up && p->unsure > 0 && p->shortage.status == SERIATIM_OK) /* another part failed before its WAIT */
        srt_fail(&p->shortage, SERIATIM_REPLICAS, "the push is written, and its replicas were not counted");
    if (!given_up)
        srt_push_settle_unsure(p);
    whole = p->pending_jobs == 0 && p->unsure == 0;
    part->cause = p->failure.status != SERIATIM_OK ? p->failure : *why;
    c->error = *why;
    if (given_up && !whole) {
        srt_push_on_give_up(c);
        part->error = c->error;
        return;
    }
    if (!whole && !part->unloaded)
        pipeline_mark_doubtful(part, why->status);
    status = srt_push_on_end(c, whole ? SERIATIM_OK : why->status);
    part->error = c->error;
    if (status == SERIATIM_OK)
        srt_error_clear(&part->error);
}

static int pipeline_end(seriatim_client *c, const seriatim_error *why, int given_up)
{
    srt_pipeline *pl = c->pipeline;
    size_t i;
    for (i = 0; i < pl->part_count; i++) {
        pipeline_turn_to(c, pl->parts[i]);
        if (pl->parts[i]->unloaded)
            pipeline_end_part(c, pl->parts[i], &pl->parts[i]->push.failure, 0);
        else
            pipeline_end_part(c, pl->parts[i], why, given_up);
    }
    return pipeline_name_failures(c);
}

static int pipeline_on_end(seriatim_client *c, int failed)
{
    seriatim_error none = {0, ""}, why = failed != SERIATIM_OK ? c->error : none;
    return pipeline_end(c, &why, 0);
}

static void pipeline_on_give_up(seriatim_client *c)
{
    seriatim_error why = c->error;
    pipeline_end(c, &why, 1);
}

/* ---- The beginning --------------------------------------------------------------------------- */

/* The options of all pushes hold for each part. The first queue that has jobs, or SRT_NO_QUEUE. */
static size_t pipeline_prepare(seriatim_client *c)
{
    srt_pipeline *pl = c->pipeline;
    size_t i, first = SRT_NO_QUEUE;
    for (i = pl->part_count; i-- > 0;) {
        srt_queue_part *part = pl->parts[i];
        srt_push *p = &part->push;
        p->replicas = pl->replicas;
        p->wait_ms = pl->wait_ms;
        p->limit_ms = pl->limit_ms;
        p->connection = 0;
        p->pending_jobs = p->job_count;
        part->stale = p->job_count && srt_client_layout_is_old(c, c->registry.queues[part->queue]);
        if (p->job_count) {
            first = part->queue;
            c->push = p;
        }
    }
    return first;
}

int srt_pipeline_start(seriatim_client *c)
{
    static const srt_operation operation = {
        .creates = 1,
        .rereads = 1,
        .warns = 1,
        .limited = 1,
        .every_answer = 1,
        .send = pipeline_send,
        .before_answer = pipeline_before_answer,
        .on_reply = pipeline_on_reply,
        .on_refused = pipeline_on_refused,
        .on_unloaded = pipeline_on_unloaded,
        .on_stale = pipeline_on_stale,
        .on_end = pipeline_on_end,
        .on_disconnected = pipeline_on_disconnected,
        .on_give_up = pipeline_on_give_up,
    };
    size_t queue = pipeline_prepare(c);
    return queue == SRT_NO_QUEUE ? SERIATIM_OK : srt_client_start(c, &operation, queue);
}

/*
 * checkpoint.c - payloads that are done before their run ends: notes them and reads the answers; settle.c sends them.
 */
#include "node/node_state.h"

#include <string.h>

/* ---- Asking -------------------------------------------------------------------------------- */

static srt_checkpoint *checkpoint_new(srt_job *job)
{
    srt_checkpoint *c = srt_arena_alloc(&job->claim->memory, sizeof *c);
    if (!c)
        return NULL;
    memset(c, 0, sizeof *c);
    c->job = job;
    return c;
}

/*
 * Names the last payload that is done, not how many are: Redis may have heard of some of them, or have forgotten that.
 * So the request may be sent again.
 */
static void checkpoint_fill(srt_checkpoint *c)
{
    const seriatim_payload *last = &c->job->record.payloads[c->asked - 1];
    srt_job *r = &c->request;
    memset(r, 0, sizeof *r);
    r->claim = c->job->claim;
    r->shard = c->job->shard;
    r->view.id = c->job->view.id;
    r->view.id_len = c->job->view.id_len;
    r->run = c->job->run;
    r->run_len = c->job->run_len;
    r->mode = c->job->mode;
    r->lease = c->job->lease;
    r->checkpoint = c;
    r->outcome = SRT_CHECKPOINT;
    srt_number_pack(c->last, last->stamp);
    srt_number_pack(c->last + 8, last->score);
    r->text = c->last;
    r->text_len = sizeof c->last;
    srt_job_note_score(r, c->job, c->asked);
}

static void checkpoint_ask(srt_node *node, srt_checkpoint *c, int64_t now)
{
    srt_shard *s = c->job->shard;
    c->asking = 1;
    c->asked = c->wanted;
    checkpoint_fill(c);
    c->job->claim->jobs++;
    if (s->pending.count == 0)
        s->pending_since = now;
    srt_list_add(&s->pending, &c->request);
    s->urgent = 1;
    srt_node_wake(node, s, now);
}

int srt_checkpoint_want(srt_node *node, seriatim_delivery *d, size_t i, size_t count, int64_t now)
{
    srt_job *job = i < d->count ? d->jobs[i] : NULL;
    if (!job || d->kind != SERIATIM_RUN || count > job->record.count)
        return SERIATIM_INVALID;
    if (d->abandoned || count == 0 || (job->checkpoint && count <= job->checkpoint->wanted))
        return SERIATIM_OK;
    if (!job->checkpoint)
        job->checkpoint = checkpoint_new(job);
    if (!job->checkpoint)
        return SERIATIM_NOMEM;
    job->checkpoint->wanted = count;
    job->record.retry_count = -1; /* as Redis has it before the outcome of the run, which goes behind the checkpoint */
    if (!job->checkpoint->asking && !job->checkpoint->stale)
        checkpoint_ask(node, job->checkpoint, now);
    return SERIATIM_OK;
}

int srt_node_flushed(const seriatim_delivery *d)
{
    int status = SERIATIM_OK;
    size_t i;
    if (d->abandoned)
        return SERIATIM_STALE;
    for (i = 0; d->kind == SERIATIM_RUN && i < d->count; i++) {
        const srt_checkpoint *c = d->jobs[i]->checkpoint;
        if (d->jobs[i]->lost || (c && c->stale))
            return SERIATIM_STALE;
        if (c && c->confirmed < c->wanted)
            status = SERIATIM_AGAIN;
    }
    return status;
}

int srt_checkpoint_parks(srt_job *job)
{
    srt_checkpoint *c = job->checkpoint;
    if (!c || job == &c->request)
        return 0;
    c->over = 1;
    c->parked = c->asking && job->outcome != SRT_DONE;
    return c->parked;
}

int64_t srt_checkpoint_expects(const srt_job *request)
{
    const srt_checkpoint *c = request->checkpoint;
    return c->asked > c->confirmed ? (int64_t)(c->asked - c->confirmed) : 1;
}

void srt_checkpoints_repeat(srt_node *node, srt_shard *s, int64_t now)
{
    const seriatim_delivery *d;
    size_t i;
    for (d = node->held; d; d = d->next)
        for (i = 0; d->shard == s && d->kind == SERIATIM_RUN && !d->abandoned && i < d->count; i++) {
            srt_checkpoint *c = d->jobs[i]->checkpoint;
            if (!c || c->stale)
                continue;
            c->confirmed = 0;
            if (!c->asking)
                checkpoint_ask(node, c, now);
        }
}

/* ---- Answers ------------------------------------------------------------------------------- */

/* Queues the outcome of the run, which waited for the answer to its checkpoint. */
static void checkpoint_unpark(srt_checkpoint *c, int64_t now)
{
    srt_shard *s = c->job->shard;
    c->parked = 0;
    if (s->pending.count == 0)
        s->pending_since = now;
    srt_list_add(&s->pending, c->job);
}

/* digit: settle.lua's answer for this checkpoint; '2' also if the answer is not known. */
static void checkpoint_answered(srt_node *node, srt_checkpoint *c, char digit, int64_t now)
{
    c->asking = 0;
    node->checkpoint_news = 1;
    /* The job is in no list while its outcome waits, so an acquire has given the new lease to the request only. */
    if (c->parked)
        c->job->lease = c->request.lease;
    if (digit == '0')
        c->stale = 1;
    else if (digit == '1')
        c->confirmed = c->asked;
    if (!c->stale && c->confirmed < c->wanted && (!c->over || c->parked))
        checkpoint_ask(node, c, now);
    else if (c->parked)
        checkpoint_unpark(c, now);
}

/* AGAIN stands for a lost answer: whether Redis took the checkpoints is not known, so they are sent again. */
void srt_checkpoints_answered(srt_node *node, srt_job_list *settled, const srt_reply *reply, int64_t now)
{
    const srt_token *digits = reply->count > 3 ? &reply->tokens[3] : NULL;
    int lost = reply->count > 1 && srt_token_is(&reply->tokens[1], "STALE");
    srt_job_list all = *settled;
    size_t at = 0;
    srt_job *job;
    memset(settled, 0, sizeof *settled);
    while ((job = srt_list_take(&all))) {
        if (job->outcome != SRT_CHECKPOINT) {
            srt_list_add(settled, job);
            continue;
        }
        checkpoint_answered(node, job->checkpoint,
                            lost                         ? '0'
                            : digits && at < digits->len ? digits->data[at++]
                                                         : '2',
                            now);
        srt_claim_free_one(job->claim);
    }
}

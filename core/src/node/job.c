/* job.c - claimed ids in the memory of their claim: lists of them, and deliveries of some to one thread. */
#include "node/node_state.h"

#include <string.h>

void srt_list_add(srt_job_list *list, srt_job *job)
{
    job->next = NULL;
    if (list->last)
        list->last->next = job;
    else
        list->first = job;
    list->last = job;
    list->count++;
}

void srt_list_add_first(srt_job_list *list, srt_job *job)
{
    job->next = list->first;
    list->first = job;
    if (!list->last)
        list->last = job;
    list->count++;
}

srt_job *srt_list_take(srt_job_list *list)
{
    srt_job *job = list->first;
    if (!job)
        return NULL;
    list->first = job->next;
    if (!list->first)
        list->last = NULL;
    list->count--;
    job->next = NULL;
    return job;
}

void srt_list_join(srt_job_list *list, srt_job_list *more)
{
    if (!more->first)
        return;
    if (list->last)
        list->last->next = more->first;
    else
        list->first = more->first;
    list->last = more->last;
    list->count += more->count;
    memset(more, 0, sizeof *more);
}

void srt_list_free(srt_job_list *list)
{
    srt_job *job;
    while ((job = srt_list_take(list)))
        srt_job_free(job);
}

void srt_claim_free_one(srt_claim *claim)
{
    const seriatim_allocator *mem = claim->memory.mem;
    if (--claim->jobs > 0)
        return;
    srt_arena_free(&claim->memory);
    srt_free(mem, claim, sizeof *claim);
}

void srt_job_free(srt_job *job)
{
    srt_checkpoint *c = job->outcome == SRT_CHECKPOINT ? job->checkpoint : NULL;
    if (c && c->parked) {
        c->parked = 0;
        srt_job_free(c->job);
    }
    srt_free(job->claim->memory.mem, job->outcome_text, job->outcome_size);
    srt_claim_free_one(job->claim);
}

void srt_job_view(srt_job *job)
{
    job->view.retry_count = job->record.retry_count;
    job->view.perform_in = (double)job->record.due_us / 1e6;
    job->view.error = job->record.error;
    job->view.error_len = job->record.error_len;
    job->view.payloads = job->record.payloads;
    job->view.payload_count = job->record.count;
}

seriatim_delivery *srt_delivery_new(const seriatim_allocator *mem, int kind, srt_shard *shard, size_t cap)
{
    seriatim_delivery *d = srt_alloc(mem, sizeof *d + cap * sizeof(srt_job *));
    if (!d)
        return NULL;
    d->kind = kind;
    d->shard = shard;
    d->cap = cap;
    return d;
}

void srt_delivery_free(const seriatim_allocator *mem, seriatim_delivery *d)
{
    size_t i;
    for (i = 0; i < d->count; i++)
        srt_job_free(d->jobs[i]);
    srt_free(mem, d, sizeof *d + d->cap * sizeof(srt_job *));
}

void srt_job_note_score(srt_job *done, const srt_job *job, size_t count)
{
    double score;
    done->scored = job->shard->queue->now.remember_score > 0 && srt_record_score(&job->record, count, &score);
    if (done->scored)
        srt_number_pack(done->score, score);
}

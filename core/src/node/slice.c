/* slice.c - reads the payloads of a claimed spilled id, which are not in its record, some at a time. */
#include "node/shard.h"

#include <string.h>

/* the reading of an id with more payloads pauses between slices, so that other clients of Redis get their turn */
#define SLICE_MANY_PAYLOADS 2000

void srt_shard_slice(srt_node *node, srt_job *job, int64_t now)
{
    srt_shard *s = job->shard;
    srt_request *r = srt_shard_begin(node, s, srt_script_slice, SRT_ASK_SLICE);
    if (r) {
        r->subject = job;
        srt_request_arg(r, job->view.id, job->view.id_len);
        srt_request_arg(r, job->run, job->run_len);
        srt_request_int(r, (int64_t)job->record.count);
    }
    if (srt_shard_send(node, s, r, now)) {
        srt_shard_slicing(node, job, 1);
    } else {
        srt_job_free(job);
        s->reconcile = 1;
    }
}

/* Goes on reading ids that have many payloads. */
void srt_shard_slice_on(srt_node *node, srt_shard *s, int64_t now)
{
    srt_job_list resting = s->resting;
    srt_job *job;
    if (now < s->slice_at)
        return;
    memset(&s->resting, 0, sizeof s->resting);
    while ((job = srt_list_take(&resting))) {
        srt_shard_slicing(node, job, -1);
        srt_shard_slice(node, job, now);
    }
}

void srt_shard_sliced(srt_node *node, srt_job *job, const srt_reply *reply, int64_t now)
{
    srt_shard *s = job->shard;
    const srt_token *token = &reply->tokens[1], *error = &reply->tokens[2];
    srt_arena strings;
    srt_shard_slicing(node, job, -1);
    if (job->lease != s->lease || s->state != SRT_OWNED || reply->count < 3 || token->type != SRT_STRING ||
        error->type != SRT_STRING) {
        s->reconcile |= s->state == SRT_OWNED;
        srt_job_free(job);
        return;
    }
    strings = srt_reader_take(node->answering->commands.reader);
    srt_arena_join(&job->claim->memory, &strings);
    if (error->len) {
        job->record.error = error->data;
        job->record.error_len = error->len;
    }
    if (srt_record_add(&job->record, &job->claim->memory, token->data, token->len) != SERIATIM_OK) {
        srt_job_free(job);
        s->reconcile = 1;
    } else if (token->len == 0 && job->record.count == 0) {
        job->outcome =
            SRT_DONE; /* its payloads were evicted or deleted by hand: perform is never called without payloads */
        srt_shard_ended(node, s, job, now);
    } else if (token->len == 0 || job->record.missing == 0) {
        srt_job_ready(node, job, now);
    } else if (job->record.count < SLICE_MANY_PAYLOADS) {
        srt_shard_slice(node, job, now);
    } else {
        srt_shard_slicing(node, job, 1);
        s->slice_at = now + SHARD_SLICE_PAUSE_MS;
        srt_list_add(&s->resting, job);
    }
}

/* offer.c - puts a claimed id, when all of its payloads were read, into the list that threads take it from. */
#include "node/shard.h"

#include <string.h>

/* Does a thread still run this id under an earlier claim? A run whose time to run is over does not count: Redis gave
 * its id out because of that. */
static int runs_already(const srt_node *node, const srt_job *job, int64_t now)
{
    const srt_shard *s = job->shard;
    int64_t over = now * 1000 + node->offset_us - s->queue->now.ttr;
    const seriatim_delivery *d;
    size_t i;
    for (d = node->held; s->old > 0 && d; d = d->next)
        for (i = 0; d->shard == s && i < d->count; i++) {
            const srt_job *held = d->jobs[i];
            if (held->old && held->view.id_len == job->view.id_len &&
                memcmp(held->view.id, job->view.id, job->view.id_len) == 0 &&
                (s->queue->now.ttr == 0 || held->view.fence > over))
                return 1;
        }
    return 0;
}

/*
 * Is the process empty, or kept empty for this suspect? Not if its claim was given up because its master was away, and
 * answered later. And does Redis know of the end of the last one?
 */
static int runs_next(const srt_node *node, const srt_shard *s)
{
    if (srt_suspect_is_unsettled(node))
        return 0;
    if (node->quarantine.step == SRT_QUARANTINE_CLAIM)
        return node->quarantine.shard == s;
    return node->quarantine.step < SRT_QUARANTINE_CLAIM && node->held_count == 0;
}

/* At once: until Redis has it, the death of another id would be charged to this one. */
static void hand_back(srt_node *node, srt_job *job, int64_t now)
{
    srt_shard *s = job->shard;
    if (s->pending.count == 0)
        s->pending_since = now;
    srt_list_add(&s->pending, job); /* its outcome is that it was released */
    s->urgent = 1;
    srt_node_wake(node, s, now);
}

/* Puts a claimed id into the list that it is handed out from. A process never runs an id twice at once. */
void srt_job_ready(srt_node *node, srt_job *job, int64_t now)
{
    srt_shard *s = job->shard;
    srt_group *group = &node->groups[s->group];
    if (job->mode != SRT_RUN_DIED && runs_already(node, job, now)) {
        srt_claim_part(s, job->claim);
        srt_list_add(&s->barred, job);
        return;
    }
    if (job->mode == SRT_RUN_SUSPECT && !runs_next(node, s)) {
        hand_back(node, job, now);
        return;
    }
    srt_job_view(job);
    group->wake_pending = 1;
    s->quarantined += job->mode != SRT_RUN_NORMAL;
    if (job->mode == SRT_RUN_DIED) {
        srt_list_add(&group->died, job);
    } else if (job->mode == SRT_RUN_SUSPECT) {
        srt_list_add_first(&group->quarantined, job);
        node->quarantine.step = SRT_QUARANTINE_READY;
    } else if (job->mode == SRT_RUN_UNPROVEN) {
        srt_list_add(&group->quarantined, job);
    } else {
        srt_list_add(&s->ready, job);
        srt_ready_update(group, s);
    }
}

/* An earlier run has ended: ids that waited for it may be ready. */
void srt_shard_old_ended(srt_node *node, srt_shard *s, int64_t now)
{
    srt_job_list barred = s->barred;
    srt_job *job;
    s->old--;
    memset(&s->barred, 0, sizeof s->barred);
    while ((job = srt_list_take(&barred)))
        srt_job_ready(node, job, now);
}

int srt_node_news(srt_node *n, size_t group)
{
    int news;
    if (group >= n->group_count)
        return -1;
    news = n->groups[group].wake_pending;
    n->groups[group].wake_pending = 0;
    return news;
}

/*
 * recall.c - what becomes of claimed ids when a shard is handed back, lost, or compared with a Redis that does not know
 * them after a failover.
 */
#include "node/shard.h"

#include <string.h>

#define NO_LEASE (-1)

/* Removes the jobs of one shard from a list of its group, and returns them. */
static srt_job_list take_of_shard(srt_shard *s, srt_job_list *list)
{
    srt_job_list own = {NULL, NULL, 0}, rest = {NULL, NULL, 0};
    srt_job *job;
    while ((job = srt_list_take(list)))
        srt_list_add(job->shard == s ? &own : &rest, job);
    *list = rest;
    s->quarantined -= own.count;
    return own;
}

static void recall_quarantined(srt_node *node, srt_shard *s, srt_job_list *to)
{
    srt_job_list quarantined;
    if (s->quarantined == 0)
        return;
    quarantined = take_of_shard(s, &node->groups[s->group].quarantined);
    if (quarantined.count && node->quarantine.step == SRT_QUARANTINE_READY)
        srt_quarantine_end(node);
    if (quarantined.count)
        srt_node_wake_unproven(node);
    srt_list_join(to, &quarantined);
}

void srt_shard_recall(srt_node *node, srt_shard *s, int64_t now)
{
    srt_job_list backwards = {NULL, NULL, 0};
    srt_job *job;
    s->recall = 0;
    srt_list_join(&s->ready, &s->barred);
    while ((job = srt_list_take(&s->ready))) {
        srt_claim_part(s, job->claim);
        srt_list_add_first(&backwards, job);
    }
    srt_claim_part_all(s);
    srt_ready_update(&node->groups[s->group], s);
    recall_quarantined(node, s, &backwards);
    if (backwards.count && !s->pending.count)
        s->pending_since = now;
    if (backwards.count)
        srt_node_wake_starved(node, now);
    srt_list_join(&s->pending, &backwards);
}

/* Where a ttr is shorter, a run may be void when it begins, and ids are not handed back for that. */
#define OVERDUE_LEAST_MS 100

static int is_overdue(const srt_job *job, int64_t now)
{
    int64_t ttr = job->shard->queue->now.ttr / 1000;
    return ttr > 0 && now - job->claim->taken_at >= (ttr > OVERDUE_LEAST_MS ? ttr : OVERDUE_LEAST_MS);
}

static void release_overdue(srt_node *node, srt_job *job, int64_t now)
{
    srt_shard *s = job->shard;
    srt_claim_part(s, job->claim);
    if (s->pending.count == 0)
        s->pending_since = now;
    srt_list_add(&s->pending, job); /* its outcome is that it was released */
    srt_node_wake(node, s, now);
}

void srt_shard_release_overdue(srt_node *node, srt_shard *s, int64_t now)
{
    if (!s->ready.first || !is_overdue(s->ready.first, now))
        return;
    while (s->ready.first && is_overdue(s->ready.first, now))
        release_overdue(node, srt_list_take(&s->ready), now);
    srt_ready_update(&node->groups[s->group], s);
    srt_node_wake_starved(node, now);
}

/* Not a suspect, which is claimed when the process is empty and begins at once. */
void srt_group_release_overdue(srt_node *node, srt_group *group, int64_t now)
{
    srt_job_list all = group->quarantined;
    size_t before = all.count;
    srt_job *job;
    memset(&group->quarantined, 0, sizeof group->quarantined);
    while ((job = srt_list_take(&all))) {
        if (job->mode != SRT_RUN_UNPROVEN || !is_overdue(job, now)) {
            srt_list_add(&group->quarantined, job);
            continue;
        }
        job->shard->quarantined--;
        job->shard->urgent = 1; /* until Redis has it, the death of another id would be charged to this one */
        release_overdue(node, job, now);
    }
    if (group->quarantined.count < before)
        srt_node_wake_unproven(node);
}

static void job_lose(srt_node *node, srt_job *job)
{
    job->lost = 1;
    node->checkpoint_news = 1; /* for who waits in a flush */
}

/* A thread may still have a run of the id whose time is over: Redis claims no id whose run it would still take. */
void srt_job_lose_earlier(srt_node *node, const srt_job *job)
{
    const seriatim_delivery *d;
    size_t i;
    for (d = node->held; job->shard->ever_timed && d; d = d->next)
        for (i = 0; d->shard == job->shard && d->kind == SERIATIM_RUN && !d->abandoned && i < d->count; i++) {
            srt_job *held = d->jobs[i];
            if (held->view.id_len == job->view.id_len && memcmp(held->view.id, job->view.id, job->view.id_len) == 0)
                job_lose(node, held);
        }
}

/*
 * Marks the runs that threads have as old: Redis may give their ids out again, because another node owned the shard or
 * because a failover lost their claims. Runs that were claimed after the last claim that Redis knows (`heard`; 0: not
 * known) lose their lease: acquire must not name them beside newer runs of the same ids. Runs without the shard's lease
 * are lost.
 */
void srt_shard_mark_old(srt_node *node, srt_shard *s, int64_t heard)
{
    const seriatim_delivery *d;
    size_t i;
    for (d = node->held; s->running > 0 && d; d = d->next)
        for (i = 0; d->shard == s && d->kind == SERIATIM_RUN && !d->abandoned && i < d->count; i++) {
            srt_job *job = d->jobs[i];
            s->old += !job->old;
            job->old = 1;
            if (heard && job->view.fence > heard)
                job->lease = NO_LEASE;
            if (s->state == SRT_FOREIGN || job->lease != s->lease)
                job_lose(node, job);
        }
}

/* Frees the jobs of a list that are not runs of this shard in Redis any more. */
static size_t drop_forgotten(const srt_shard *s, srt_job_list *list, int64_t heard)
{
    srt_job_list kept = {NULL, NULL, 0};
    size_t before = list->count;
    srt_job *job;
    while ((job = srt_list_take(list)))
        if (job->shard == s && (job->lease != s->lease || job->view.fence > heard))
            srt_job_free(job);
        else
            srt_list_add(&kept, job);
    *list = kept;
    return before - kept.count;
}

/*
 * After a failover Redis may not know the last claims: their ids wait there and will be claimed again. So the ids of
 * these claims that no thread has begun are dropped here. `heard`: the last claim that Redis knows.
 */
void srt_shard_drop_forgotten(srt_node *node, srt_shard *s, int64_t heard)
{
    srt_group *group = &node->groups[s->group];
    size_t dropped;
    drop_forgotten(s, &s->ready, heard);
    drop_forgotten(s, &s->barred, heard);
    srt_ready_update(group, s);
    if (s->quarantined == 0)
        return;
    dropped = drop_forgotten(s, &group->quarantined, heard) + drop_forgotten(s, &group->died, heard);
    s->quarantined -= dropped;
    if (dropped && node->quarantine.step == SRT_QUARANTINE_READY)
        srt_quarantine_end(node);
    if (dropped)
        srt_node_wake_unproven(node);
}

void srt_shard_lose(srt_node *node, srt_shard *s)
{
    srt_job_list dropped = {NULL, NULL, 0};
    srt_job *job;
    s->state = SRT_FOREIGN;
    srt_mover_free(node, s);
    srt_bytes_clear(&s->owner);
    srt_claim_part_all(s);
    srt_list_free(&s->ready);
    srt_list_free(&s->barred);
    while ((job = srt_list_take(&s->resting))) {
        srt_shard_slicing(node, job, -1);
        srt_job_free(job);
    }
    srt_ready_update(&node->groups[s->group], s);
    recall_quarantined(node, s, &dropped);
    if (s->quarantined) {
        srt_job_list died = take_of_shard(s, &node->groups[s->group].died);
        srt_list_join(&dropped, &died);
    }
    srt_list_free(&dropped);
    srt_shard_mark_old(node, s, 0);
    s->given_up = 1;
    s->paused = s->recall = s->reconcile = 0;
    s->unfinished = SRT_FINISHED;
    s->first_claim = 0;
    s->due_at = s->unproven_at = s->suspect_at = SRT_NEVER;
    if (node->quarantine.shard == s &&
        (node->quarantine.step == SRT_QUARANTINE_DRAIN || node->quarantine.step == SRT_QUARANTINE_CLAIM ||
         node->quarantine.step == SRT_QUARANTINE_SETTLE))
        srt_quarantine_end(node);
    srt_node_tell(node, SERIATIM_EVENT_LOST, 1, "lost the lease of shard %.*s", (int)s->keys->prefix.len - 1,
                  s->keys->prefix.data);
}

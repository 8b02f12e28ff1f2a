/*
 * quarantine.c - ids that may have ended a process. An unproven id runs alone in its thread's delivery; a suspect runs
 * with nothing else in its process: the node stops handing out, waits until all threads are back, claims the suspect
 * and runs it.
 */
#include "node/shard.h"

#define QUARANTINE_PATIENCE_MS 5000 /* how long the node waits at most until the threads have finished */
#define QUARANTINE_PAUSE_MS 10000   /* pause before the next attempt if they have not, or if the master is slow */

void srt_node_wake_unproven(srt_node *node)
{
    size_t i;
    for (i = 0; i < node->shard_count; i++)
        srt_node_wake(node, node->shards[i], node->shards[i]->unproven_at);
}

void srt_unproven_begins(srt_node *node, srt_shard *s)
{
    s->unproven_coming++;
    node->groups[s->group].unproven_coming++;
}

void srt_unproven_comes(srt_node *node, srt_shard *s)
{
    s->unproven_coming--;
    node->groups[s->group].unproven_coming--;
    srt_node_wake_unproven(node); /* if no thread gets it, or may run it yet, there is room for another one */
}

void srt_shard_slicing(srt_node *node, const srt_job *job, int change)
{
    job->shard->slicing += change;
    if (job->mode != SRT_RUN_UNPROVEN)
        return;
    if (change > 0)
        srt_unproven_begins(node, job->shard);
    else
        srt_unproven_comes(node, job->shard);
}

/* Do ids that run, and those that wait to be run alone, leave room for another one below max_running? */
static int has_room_in_queue(const srt_node *node, const srt_queue *queue)
{
    size_t count = queue->running, i;
    if (!queue->own.max_running)
        return 1;
    for (i = 0; i < node->shard_count; i++)
        if (node->shards[i]->queue == queue)
            count += node->shards[i]->quarantined + node->shards[i]->unproven_coming;
    return count < (size_t)queue->own.max_running;
}

int srt_quarantine_has_room(const srt_node *node, const srt_shard *s)
{
    const srt_group *group = &node->groups[s->group];
    const srt_job *job;
    size_t count = group->unproven_coming;
    for (job = group->quarantined.first; job; job = job->next)
        count += (size_t)srt_shard_may_run(job->shard);
    /* The one that is claimed ahead gets the next thread: no ordinary id that is ready goes before it. */
    return srt_shard_may_run(s) && (count == 0 || group->held + count < group->threads) &&
           !(s->queue->now.serial_shards && (s->quarantined || s->unproven_coming)) &&
           has_room_in_queue(node, s->queue);
}

void srt_quarantine_end(srt_node *node)
{
    const srt_job *job;
    size_t i;
    node->quarantine.step = SRT_QUARANTINE_NONE;
    for (i = 0; i < node->group_count; i++)
        for (job = node->groups[i].quarantined.first; job; job = job->next)
            if (job->mode == SRT_RUN_SUSPECT)
                node->quarantine.step = SRT_QUARANTINE_READY;
    srt_node_wake_threads(node);
}

static int quarantine_goes_on(const srt_node *n)
{
    const srt_shard *s = n->quarantine.shard;
    return !n->quiet && s->wanted && !s->paused && (s->state == SRT_OWNED || (s->state == SRT_ACQUIRING && s->lease));
}

/* A master that is away answers no claim and no settle, and the ids of all others would wait for it. */
static int quarantine_reaches(const srt_node *n, const srt_shard *s)
{
    const srt_redis *p = srt_shard_master(n, s);
    return p && p->commands.connected && !p->silent;
}

int srt_suspect_is_unsettled(const srt_node *n)
{
    const srt_job *job;
    size_t i;
    for (i = 0; i < n->shard_count; i++) {
        if (n->shards[i]->settles_suspect)
            return 1;
        for (job = n->shards[i]->pending.first; job; job = job->next)
            if (job->mode == SRT_RUN_SUSPECT)
                return 1;
    }
    return 0;
}

/* Does the step wait for the shard's master? */
static int quarantine_asks(const srt_node *n)
{
    return n->quarantine.step == SRT_QUARANTINE_DRAIN || n->quarantine.step == SRT_QUARANTINE_CLAIM ||
           n->quarantine.step == SRT_QUARANTINE_SETTLE;
}

int64_t srt_quarantine_tick(srt_node *n, int64_t now)
{
    int64_t next = SRT_NEVER;
    size_t i;
    if (quarantine_asks(n) && !quarantine_reaches(n, n->quarantine.shard)) {
        const srt_redis *p = srt_shard_master(n, n->quarantine.shard);
        if (p && p->silent)
            n->quarantine.not_before = now + QUARANTINE_PAUSE_MS;
        srt_quarantine_end(n); /* what its claim brings later: offer.c */
    }
    for (i = 0; n->quarantine.step == SRT_QUARANTINE_NONE && !n->quiet && i < n->shard_count; i++) {
        srt_shard *s = n->shards[i];
        int64_t at = s->suspect_at > n->quarantine.not_before ? s->suspect_at : n->quarantine.not_before;
        if (s->suspect_at == SRT_NEVER || s->state != SRT_OWNED || s->paused || !s->wanted || !quarantine_reaches(n, s))
            continue;
        if (at > now) {
            next = at < next ? at : next;
            continue;
        }
        if (srt_suspect_is_unsettled(n))
            break; /* the answer to its settle brings the next tick */
        n->quarantine.step = SRT_QUARANTINE_DRAIN;
        n->quarantine.shard = s;
        n->quarantine.until = now + QUARANTINE_PATIENCE_MS;
    }
    if (n->quarantine.step == SRT_QUARANTINE_DRAIN && (now >= n->quarantine.until || !quarantine_goes_on(n))) {
        n->quarantine.not_before = now + QUARANTINE_PAUSE_MS;
        srt_quarantine_end(n);
    }
    if (n->quarantine.step == SRT_QUARANTINE_CLAIM && !n->quarantine.shard->claiming && !quarantine_goes_on(n))
        srt_quarantine_end(n);
    /* An id of the shard whose payloads are being read is waited for here, where the wait has an end. */
    if (n->quarantine.step == SRT_QUARANTINE_DRAIN && n->held_count == 0 && !n->quarantine.shard->slicing) {
        n->quarantine.step = SRT_QUARANTINE_CLAIM;
        srt_node_wake(n, n->quarantine.shard, now);
    }
    return n->quarantine.step == SRT_QUARANTINE_DRAIN ? n->quarantine.until : next;
}

/*
 * time_to_run.c - how many ids are claimed of a queue with a ttr. It counts from the claim, so only ids are claimed
 * that a thread can begin at once, or soon, where jobs are short.
 */
#include "node/shard.h"

#define AHEAD_TTR_US 1000000 /* with a ttr below this, nothing is claimed ahead, however short the jobs are */
#define ASKED_MS 1000        /* a claim that is not answered by then may go to a Redis that is away */

size_t srt_shard_room(const srt_shard *s)
{
    size_t runs = s->ready.count + s->running + s->quarantined + s->barred.count + s->pending.count;
    return runs < SHARD_MAX_RUNS ? SHARD_MAX_RUNS - runs : 0;
}

/* Ids of the shard that wait for a thread, or will: a claim that is on its way may bring as many as it asks for. */
static size_t ids_before_threads(const srt_shard *s, int64_t now)
{
    return s->ready.count + (now - s->asked_at < ASKED_MS ? s->asked : 0) + (size_t)s->slicing;
}

/* How many more ids of the queue max_running lets begin. */
static size_t left_of_max_running(const srt_node *node, const srt_queue *queue, int64_t now)
{
    size_t limit = (size_t)queue->own.max_running, taken = queue->running, i;
    for (i = 0; i < node->shard_count; i++)
        if (node->shards[i]->queue == queue)
            taken += ids_before_threads(node->shards[i], now);
    return taken < limit ? limit - taken : 0;
}

/* How many more ids of the shard could begin, were enough threads free. */
static size_t may_begin(const srt_node *node, const srt_shard *s, int64_t now)
{
    const srt_queue *queue = s->queue;
    size_t most = SHARD_MAX_CLAIM, left;
    if (queue->now.serial_shards)
        most = s->running == 0 && ids_before_threads(s, now) == 0 ? (size_t)queue->own.batch_size : 0;
    if (!queue->own.max_running)
        return most;
    left = left_of_max_running(node, queue, now);
    return left < most ? left : most;
}

/* Threads that what the shard has claimed, or asked for, can take now. */
static size_t threads_for(const srt_shard *s, int64_t now)
{
    const srt_queue *queue = s->queue;
    size_t batch = (size_t)queue->own.batch_size, limit = (size_t)queue->own.max_running;
    size_t threads = (ids_before_threads(s, now) + batch - 1) / batch;
    if (queue->now.serial_shards && threads > (s->running == 0))
        threads = s->running == 0;
    if (limit && queue->running + threads > limit)
        threads = queue->running < limit ? limit - queue->running : 0;
    return threads;
}

/*
 * Is a free thread for `a` rather than for `b`? It is for the one that claimed less recently, unless their priorities
 * decide.
 */
static int claims_before(const srt_node *node, const srt_shard *a, const srt_shard *b)
{
    if (node->groups[a->group].scheduler == SERIATIM_PRIORITY && a->queue->own.priority != b->queue->own.priority)
        return a->queue->own.priority > b->queue->own.priority;
    return a->claim_turn < b->claim_turn;
}

/* Would it claim now, if a thread were free? */
static int waits_for_thread(const srt_node *node, const srt_shard *s, int64_t now)
{
    return s->state == SRT_OWNED && s->wanted && !s->reconcile && !s->claiming && !s->paused &&
           (s->more || s->due_at <= now) && now >= s->claim_at && srt_shard_room(s) > 0 && may_begin(node, s, now) > 0;
}

/* Threads of the group that nothing is claimed for, less one for each shard that claims before this one. */
static size_t free_threads(const srt_node *node, const srt_shard *s, int64_t now)
{
    const srt_group *group = &node->groups[s->group];
    size_t taken = group->held, i;
    for (i = 0; i < node->shard_count && taken < group->threads; i++) {
        const srt_shard *other = node->shards[i];
        if (other->group != s->group || other->queue->now.ttr == 0)
            continue;
        taken += threads_for(other, now);
        taken += (size_t)(claims_before(node, other, s) && waits_for_thread(node, other, now));
    }
    return taken < group->threads ? group->threads - taken : 0;
}

/* Have two calls of perform for each thread of the group, or more, ended in the last 20 ms or so? */
static int are_short(const srt_group *group, int64_t now)
{
    return srt_rate_lately(&group->ended, now) >= 2 * group->threads;
}

/*
 * How many ids of the shard to have claimed before a thread is free: 0, unless jobs are short. Then as many as were
 * finished lately, or one call of perform: the threads may be busy with other shards whenever this one looks.
 */
static size_t ids_ahead(const srt_node *node, const srt_shard *s, int64_t now)
{
    size_t lately = srt_rate_lately(&s->finished, now), batch = (size_t)s->queue->own.batch_size;
    if (s->queue->now.ttr < AHEAD_TTR_US || !are_short(&node->groups[s->group], now))
        return 0;
    if (s->queue->now.serial_shards)
        return lately >= 2 * batch ? lately : 0;
    return lately > batch ? lately : batch;
}

size_t srt_shard_timed_ids(srt_node *node, const srt_shard *s, int64_t now)
{
    size_t most = may_begin(node, s, now),
           ids = most ? free_threads(node, s, now) * (size_t)s->queue->own.batch_size : 0;
    size_t before = ids_before_threads(s, now), ahead = ids_ahead(node, s, now);
    ids = ids < most ? ids : most;
    if (ahead > before + ids)
        ids = ahead - before;
    if (s->queue->own.max_running && ids > most)
        ids = most;
    if (ids == 0)
        node->starved = 1;
    return ids;
}

void srt_node_wake_starved(srt_node *node, int64_t now)
{
    size_t i;
    if (!node->starved)
        return;
    node->starved = 0;
    for (i = 0; i < node->shard_count; i++)
        if (node->shards[i]->queue->now.ttr)
            srt_node_wake(node, node->shards[i], now);
}

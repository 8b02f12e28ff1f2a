/*
 * ready_shards.c - decides which shard is next: a binary heap of the group's shards that have ids to hand out, in the
 * order of the group's scheduler.
 */
#include "node/node_state.h"

/* Is `a` to be taken before `b`? */
static int goes_before(int scheduler, const srt_shard *a, const srt_shard *b)
{
    if (scheduler == SERIATIM_SEQ)
        return a->turn < b->turn;
    if (scheduler == SERIATIM_PRIORITY && a->queue->own.priority != b->queue->own.priority)
        return a->queue->own.priority > b->queue->own.priority;
    return a->ready.first->record.due_us < b->ready.first->record.due_us;
}

static void ready_set(srt_group *group, size_t place, srt_shard *s)
{
    group->ready[place] = s;
    s->ready_place = place;
}

/* Restores the order of the heap around the shard at this index. */
static void ready_sift(srt_group *group, size_t place)
{
    srt_shard *s = group->ready[place];
    size_t child;
    while (place > 0 && goes_before(group->scheduler, s, group->ready[(place - 1) / 2])) {
        ready_set(group, place, group->ready[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    while ((child = 2 * place + 1) < group->ready_count) {
        if (child + 1 < group->ready_count &&
            goes_before(group->scheduler, group->ready[child + 1], group->ready[child]))
            child++;
        if (!goes_before(group->scheduler, group->ready[child], s))
            break;
        ready_set(group, place, group->ready[child]);
        place = child;
    }
    ready_set(group, place, s);
}

void srt_ready_update(srt_group *group, srt_shard *s)
{
    if (s->ready.count > 0) {
        if (!s->listed) {
            s->turn = group->turn++;
            ready_set(group, group->ready_count++, s);
        }
        ready_sift(group, s->ready_place);
    } else if (s->listed) {
        srt_shard *last = group->ready[--group->ready_count];
        if (last != s) {
            ready_set(group, s->ready_place, last);
            ready_sift(group, s->ready_place);
        }
    }
    s->listed = s->ready.count > 0;
}

/* Not while it is uncertain whether this node still owns the shard, and not beyond the worker's max_running. */
int srt_shard_may_run(const srt_shard *s)
{
    if (s->queue->own.max_running && s->queue->running >= (size_t)s->queue->own.max_running)
        return 0;
    return s->state == SRT_OWNED && !s->reconcile && (!s->queue->now.serial_shards || s->running == 0);
}

/*
 * The best shard below this index of the heap that may run. Shards that may not run are few, so their children are
 * searched.
 */
static srt_shard *best_from(const srt_group *group, size_t place)
{
    srt_shard *left, *right;
    if (place >= group->ready_count || srt_shard_may_run(group->ready[place]))
        return place < group->ready_count ? group->ready[place] : NULL;
    left = best_from(group, 2 * place + 1);
    right = best_from(group, 2 * place + 2);
    if (!left || !right)
        return left ? left : right;
    return goes_before(group->scheduler, right, left) ? right : left;
}

srt_shard *srt_ready_best(const srt_group *group)
{
    return best_from(group, 0);
}

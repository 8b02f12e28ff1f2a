/* timers.c - a binary heap of a node's shards by the time at which each wants to be stepped. */
#include "node/node_state.h"

static void heap_set(srt_node *n, size_t place, srt_shard *s)
{
    n->timers.heap[place] = s;
    s->heap_place = place;
}

static void heap_up(srt_node *n, size_t place)
{
    srt_shard *s = n->timers.heap[place];
    while (place > 0 && n->timers.heap[(place - 1) / 2]->wake_at > s->wake_at) {
        heap_set(n, place, n->timers.heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_set(n, place, s);
}

static void heap_down(srt_node *n, size_t place)
{
    srt_shard *s = n->timers.heap[place];
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= n->timers.count)
            break;
        if (child + 1 < n->timers.count && n->timers.heap[child + 1]->wake_at < n->timers.heap[child]->wake_at)
            child++;
        if (n->timers.heap[child]->wake_at >= s->wake_at)
            break;
        heap_set(n, place, n->timers.heap[child]);
        place = child;
    }
    heap_set(n, place, s);
}

void srt_node_wake(srt_node *n, srt_shard *s, int64_t at)
{
    if (at >= s->wake_at)
        return;
    if (s->wake_at == SRT_NEVER) {
        s->wake_at = at;
        heap_set(n, n->timers.count++, s);
        heap_up(n, n->timers.count - 1);
    } else {
        s->wake_at = at;
        heap_up(n, s->heap_place);
    }
}

srt_shard *srt_timers_take(srt_node *n, int64_t now)
{
    srt_shard *s;
    if (n->timers.count == 0 || n->timers.heap[0]->wake_at > now)
        return NULL;
    s = n->timers.heap[0];
    s->wake_at = SRT_NEVER;
    if (--n->timers.count > 0) {
        heap_set(n, 0, n->timers.heap[n->timers.count]);
        heap_down(n, 0);
    }
    return s;
}

int64_t srt_timers_next(const srt_node *n)
{
    return n->timers.count ? n->timers.heap[0]->wake_at : SRT_NEVER;
}

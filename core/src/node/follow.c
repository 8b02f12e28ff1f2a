/* follow.c - follows the map of a Redis Cluster: what a shard does whose master is another one, or is back. */
#include "node/node_state.h"

/* After this time the host is told that requests wait for a slot; once, until none waits any more. */
#define HELD_MS 1000

/* What was answered before a connection ended, or by another master, may have changed: the shard asks again. */
void srt_shard_check(srt_node *n, srt_shard *s, int64_t now)
{
    if (s->state == SRT_OWNED)
        s->reconcile = 1;
    srt_shard_changed(n, s, now);
}

/* The shard's master is another one, or has a new connection. A failover may have forgotten who owns the shard. */
static void meet_master(srt_node *n, srt_shard *s, int64_t now)
{
    if (s->state == SRT_FOREIGN) {
        srt_bytes_clear(&s->owner);
        s->perhaps_ours = s->given_up;
    }
    srt_shard_check(n, s, now);
}

void srt_node_meet_master(srt_node *n, const srt_redis *p, int64_t now)
{
    size_t i;
    for (i = 0; i < n->shard_count; i++)
        if (srt_shard_master(n, n->shards[i]) == p)
            meet_master(n, n->shards[i], now);
}

static void follow_map(srt_node *n, int64_t now)
{
    size_t i;
    n->epoch = n->cluster.epoch;
    for (i = 0; i < n->shard_count; i++) {
        srt_shard *s = n->shards[i];
        const srt_redis *p = srt_shard_master(n, s);
        if (p == s->master)
            continue;
        s->master = p;
        meet_master(n, s, now);
    }
}

static void tell_of_held(srt_node *n)
{
    int slot = srt_cluster_held_slot(&n->cluster, HELD_MS);
    if (slot >= 0 && n->held_slot < 0)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, slot, "Redis Cluster does not serve slot %d: %.200s", slot,
                      n->cluster.last.message);
    n->held_slot = slot;
}

void srt_node_follow_masters(srt_node *n, int64_t now)
{
    size_t i;
    srt_cluster_tick(&n->cluster, now); /* after NOMEM the next tick sends the rest */
    if (!n->cluster.many)
        return;
    for (i = 0; i < n->cluster.peer_count; i++)
        if (!n->cluster.peers[i]->mark)
            n->cluster.peers[i]->mark = ++n->numbered;
    if (n->epoch != n->cluster.epoch)
        follow_map(n, now);
    tell_of_held(n);
}

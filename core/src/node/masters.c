/*
 * masters.c - which Redis has a shard: the one Redis of the URL, or the master of a cluster that has the slot of the
 * shard's keys.
 */
#include "node/node_state.h"

#include <string.h>

static void master_dropped(void *node, srt_redis *p)
{
    srt_node *n = node;
    n->sent_before += p->commands.commands;
    if (n->on_drop)
        n->on_drop(n->host, p);
}

void srt_node_begin_masters(srt_node *n)
{
    n->cluster.on_drop = master_dropped;
    n->cluster.host = n;
    n->cluster.jitter = (uint32_t)n->hash;
    n->cluster.peers[0]->mark = n->numbered = 1;
}

int srt_node_seed(srt_node *n, const char *host, int port)
{
    return srt_cluster_seed(&n->cluster, host, port);
}

/* The requests of a cluster wait in the session of their master, which is connected for them. */
int srt_node_may_send(const srt_node *n)
{
    return n->cluster.many || n->cluster.peers[0]->commands.connected;
}

const srt_redis *srt_shard_master(const srt_node *n, const srt_shard *s)
{
    return n->cluster.many ? n->cluster.owners[s->slot] : n->cluster.peers[0];
}

static int master_writes(const srt_redis *p)
{
    return p && p->commands.connected && p->commands.out.len > 0;
}

int srt_node_writes(const srt_node *n, const srt_shard *s)
{
    size_t i;
    if (s)
        return master_writes(srt_shard_master(n, s));
    for (i = 0; i < n->cluster.peer_count; i++)
        if (master_writes(n->cluster.peers[i]))
            return 1;
    return 0;
}

srt_redis *srt_node_channel_peer(const srt_node *n, int channel)
{
    size_t i;
    for (i = 0; i < n->cluster.peer_count; i++)
        if (n->cluster.peers[i]->mark == (size_t)channel / 2 + 1)
            return n->cluster.peers[i];
    return NULL;
}

int srt_redis_channel(const srt_redis *p)
{
    return 2 * (int)(p->mark - 1);
}

int srt_node_master(const srt_node *n, size_t number, srt_node_master_view *master)
{
    const srt_redis *p = number < n->cluster.peer_count ? n->cluster.peers[number] : NULL;
    if (!p)
        return 0;
    master->channel = (srt_channel)srt_redis_channel(p);
    master->host = p->host;
    master->port = p->port;
    master->wanted = srt_redis_wanted(&n->cluster, p);
    return 1;
}

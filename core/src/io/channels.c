/* channels.c - the connections of a runner: one for wake-ups, and one for commands to each master. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "io/runner_state.h"

#include <string.h>

static int channels_grow(seriatim_runner *r)
{
    void *channels = r->channels, *fds = r->fds;
    if (srt_grow(r->mem, &channels, &r->channel_cap, r->channel_count + 1, sizeof *r->channels) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    r->channels = channels;
    if (srt_grow(r->mem, &fds, &r->fd_cap, r->channel_count + 2, sizeof *r->fds) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    r->fds = fds;
    return SERIATIM_OK;
}

static int channel_init(seriatim_runner *r, runner_channel *c)
{
    srt_bytes_init(&c->out, r->mem);
    c->transport = srt_transport_create(r->mem, &r->url);
    if (!c->transport)
        return SERIATIM_NOMEM;
    srt_transport_look_up_by_thread(c->transport);
    return SERIATIM_OK;
}

static void channel_free(seriatim_runner *r, runner_channel *c)
{
    srt_transport_destroy(c->transport);
    srt_bytes_free(&c->out);
    if (c != &r->wakes)
        srt_free(r->mem, c, sizeof *c);
}

/* A channel for the commands of a master. */
static int channels_add(seriatim_runner *r, srt_redis *p)
{
    runner_channel *c = channels_grow(r) == SERIATIM_OK ? srt_alloc(r->mem, sizeof *c) : NULL;
    if (!c)
        return SERIATIM_NOMEM;
    if (channel_init(r, c) != SERIATIM_OK) {
        channel_free(r, c);
        return SERIATIM_NOMEM;
    }
    if (p->host)
        srt_transport_aim(c->transport, p->host, p->port);
    c->peer = p;
    c->number = (srt_channel)srt_redis_channel(p);
    c->wanted = srt_redis_wanted(&r->node->cluster, p);
    p->io = c;
    r->channels[r->channel_count++] = c;
    return SERIATIM_OK;
}

/* The master is gone; it had no connection. */
static void peer_gone(void *runner, srt_redis *p)
{
    runner_channel *c = p->io;
    (void)runner;
    if (c)
        c->peer = NULL;
}

int srt_channels_begin(seriatim_runner *r)
{
    r->node->on_drop = peer_gone;
    r->node->host = r;
    r->wakes.number = SRT_WAKES;
    if (channels_grow(r) != SERIATIM_OK || channel_init(r, &r->wakes) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    r->channels[r->channel_count++] = &r->wakes;
    if (channels_add(r, r->node->cluster.peers[0]) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    r->channels[1]->wanted = 1; /* a cluster is found by its first seed */
    r->wakes.wanted = !r->node->cluster.many;
    return SERIATIM_OK;
}

void srt_channels_free(seriatim_runner *r)
{
    size_t i;
    for (i = 0; i < r->channel_count; i++)
        channel_free(r, r->channels[i]);
    if (r->channel_count == 0)
        channel_free(r, &r->wakes);
    srt_free(r->mem, r->channels, r->channel_cap * sizeof *r->channels);
    srt_free(r->mem, r->fds, r->fd_cap * sizeof *r->fds);
}

static void channels_sweep(seriatim_runner *r, int64_t now)
{
    size_t i = 1;
    while (i < r->channel_count) {
        runner_channel *c = r->channels[i];
        if (!c->peer) {
            channel_free(r, c);
            r->channels[i] = r->channels[--r->channel_count];
            continue;
        }
        c->wanted = srt_redis_wanted(&r->node->cluster, c->peer);
        if (c->state != CHANNEL_CLOSED && !c->wanted)
            srt_channel_leave(r, c, now);
        i++;
    }
}

/*
 * The wake-ups of all masters come from any of them: from one that takes commands. A master without slots may have left
 * the cluster and live on, and then its connection stays and nothing comes.
 */
static void channels_aim_wakes(seriatim_runner *r, int64_t now)
{
    const srt_redis *to = NULL;
    size_t i;
    int stays = 0;
    for (i = 1; i < r->channel_count; i++) {
        const runner_channel *c = r->channels[i];
        if (c->peer->slots == 0)
            continue;
        stays |= c->peer->number == r->wakes_at;
        if (!to && c->state == CHANNEL_OPEN)
            to = c->peer;
    }
    r->wakes.wanted = to != NULL;
    if (!to)
        return;
    if (r->wakes.state == CHANNEL_OPEN && !stays)
        srt_channel_leave(r, &r->wakes, now);
    if (r->wakes.state == CHANNEL_CLOSED) {
        srt_transport_aim(r->wakes.transport, to->host, to->port);
        r->wakes_at = to->number;
    }
}

void srt_channels_follow(seriatim_runner *r, int64_t now)
{
    const srt_cluster *cl = &r->node->cluster;
    size_t i;
    if (!cl->many)
        return;
    channels_sweep(r, now);
    for (i = 0; i < cl->peer_count; i++)
        if (!cl->peers[i]->io && cl->peers[i]->mark)
            channels_add(r, cl->peers[i]); /* after NOMEM the next tick tries again */
    channels_aim_wakes(r, now);
}

/* masters.c - the connections of a client to the masters of a cluster, by numbers, for hosts that have sockets. */
#include "client/client.h"

static srt_redis *masters_find(const seriatim_client *c, unsigned number)
{
    size_t i;
    for (i = 0; i < c->cluster.peer_count; i++)
        if (c->cluster.peers[i]->number == number)
            return c->cluster.peers[i];
    return NULL;
}

int srt_client_seed(seriatim_client *c, const char *host, int port)
{
    return srt_cluster_seed(&c->cluster, host, port);
}

int srt_client_master(const seriatim_client *c, size_t at, srt_client_master_view *master)
{
    const srt_redis *p = at < c->cluster.peer_count ? c->cluster.peers[at] : NULL;
    if (!p)
        return 0;
    master->number = p->number;
    master->host = p->host;
    master->port = p->port;
    master->wanted = srt_redis_wanted(&c->cluster, p);
    master->waits = p->commands.waiting > 0;
    return 1;
}

int64_t srt_client_tick(seriatim_client *c, int64_t now_ms)
{
    return srt_cluster_tick(&c->cluster, now_ms) == SERIATIM_OK ? srt_cluster_due_ms(&c->cluster) : now_ms + 1;
}

int srt_client_master_connected(seriatim_client *c, unsigned number, const char *user, const char *password)
{
    srt_redis *p = masters_find(c, number);
    return p ? srt_client_peer_connected(c, p, user, password, 0) : SERIATIM_OK;
}

int srt_client_master_connected_again(seriatim_client *c, unsigned number)
{
    srt_redis *p = masters_find(c, number);
    return p ? srt_redis_connected(&c->cluster, p, NULL, NULL, 0, NULL) : SERIATIM_OK;
}

void srt_client_master_disconnected(seriatim_client *c, unsigned number)
{
    srt_redis *p = masters_find(c, number);
    if (p)
        srt_client_peer_disconnected(c, p);
}

int srt_client_keeps(const seriatim_client *c)
{
    size_t i;
    if (c->status != SERIATIM_AGAIN || !c->operation->limited)
        return 0;
    for (i = 0; i < c->cluster.peer_count; i++)
        if (c->cluster.peers[i]->mark) /* it has said that an id is not there, which its replicas are to know */
            return 1;
    return c->push->replicas > 0;
}

int srt_client_master_left(seriatim_client *c, unsigned number)
{
    srt_redis *p = masters_find(c, number);
    return p && !srt_client_keeps(c) && srt_redis_leave(p);
}

void srt_client_master_output(const seriatim_client *c, unsigned number, const char **data, size_t *len)
{
    const srt_redis *p = masters_find(c, number);
    *data = NULL;
    *len = 0;
    if (p)
        srt_session_output(&p->commands, data, len);
}

void srt_client_master_sent(seriatim_client *c, unsigned number, size_t len)
{
    srt_redis *p = masters_find(c, number);
    if (p)
        srt_session_sent(&p->commands, len);
}

int srt_client_master_input(seriatim_client *c, unsigned number, const char *data, size_t len, seriatim_error *error)
{
    srt_redis *p = masters_find(c, number);
    return p ? srt_client_peer_input(c, p, data, len, error) : SERIATIM_OK;
}

uint64_t srt_client_answers(const seriatim_client *c)
{
    return c->answers;
}

const seriatim_error *srt_client_held_up(const seriatim_client *c)
{
    return &c->cluster.last;
}

/*
 * replicas.c - waits until a replica has what a connection has written. ROLE says whether there are replicas; if there
 * are, WAIT counts those that have it. Both are sent on that very connection, and are lost with it.
 */
#include "node/node_state.h"

#define REPLICAS_WAIT_MS 50 /* the connection answers nothing else meanwhile */

void srt_written_note(const srt_node *n, srt_written *w)
{
    w->peer = n->answering->number;
    w->connection = n->answering->connections;
}

static srt_redis *written_peer(const srt_node *n, const srt_written *w)
{
    size_t i;
    for (i = 0; i < n->cluster.peer_count; i++) {
        srt_redis *p = n->cluster.peers[i];
        if (p->number == w->peer)
            return p->connections == w->connection && p->commands.connected ? p : NULL;
    }
    return NULL;
}

int srt_written_stands(const srt_node *n, const srt_written *w)
{
    return written_peer(n, w) != NULL;
}

void srt_written_bind(const srt_node *n, const srt_written *w, srt_request *r)
{
    srt_request_route(r, SRT_ROUTE_CONNECTION, written_peer(n, w));
}

static srt_sure sure_send(srt_node *n, const srt_written *w, const srt_request *like, int waits)
{
    srt_redis *p = written_peer(n, w);
    srt_request *r;
    if (!p)
        return SRT_SURE_LOST;
    r = waits ? srt_wait_request(&n->cluster, p, 1, REPLICAS_WAIT_MS) : srt_role_request(&n->cluster, p);
    if (!r)
        return SRT_SURE_LATER;
    r->kind = like->kind;
    r->place = like->place;
    r->part = like->part;
    r->subject = like->subject;
    r->number = like->number;
    return srt_cluster_send(&n->cluster, r) == SERIATIM_OK ? SRT_SURE_ASKED : SRT_SURE_LATER;
}

srt_sure srt_sure_ask(srt_node *n, const srt_written *w, const srt_request *like)
{
    return sure_send(n, w, like, 0);
}

srt_sure srt_sure_answered(srt_node *n, const srt_written *w, const srt_request *r, const srt_reply *reply)
{
    seriatim_error error;
    if (srt_reply_status(&reply->tokens[0], &error) != SERIATIM_OK) {
        if (error.status != SERIATIM_AUTH && error.status != SERIATIM_SERVER)
            return SRT_SURE_LATER; /* it loads its data, or is busy */
        if (!n->moves.warned)
            srt_node_tell(n, SERIATIM_EVENT_WARNING, error.status,
                          "no move of ids can end, because it is not known whether replicas have what was written: %s",
                          error.message);
        n->moves.warned = 1;
        return SRT_SURE_REFUSED;
    }
    switch (srt_replicated_of(reply)) {
    case SRT_REPLICATED:
        return SRT_SURE;
    case SRT_REPLICATED_ASK:
        return sure_send(n, w, r, 1);
    case SRT_REPLICATED_LATER:
        return SRT_SURE_LATER;
    default:
        return SRT_SURE_LOST;
    }
}

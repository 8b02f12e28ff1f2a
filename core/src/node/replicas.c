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
    w->waits = 0;
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

static srt_sure sure_send(srt_node *n, srt_written *w, const srt_request *like, int waits)
{
    srt_redis *p = written_peer(n, w);
    srt_request *r = p ? srt_session_begin(srt_cluster_pool(&n->cluster), srt_script_none, NULL, 0) : NULL;
    if (!r)
        return p ? SRT_SURE_LATER : SRT_SURE_LOST;
    srt_request_text(r, waits ? "WAIT" : "ROLE");
    if (waits) {
        srt_request_int(r, 1);
        srt_request_int(r, REPLICAS_WAIT_MS);
    }
    srt_request_route(r, SRT_ROUTE_CONNECTION, p);
    r->kind = like->kind;
    r->place = like->place;
    r->part = like->part;
    r->subject = like->subject;
    r->number = like->number;
    w->waits = waits;
    return srt_cluster_send(&n->cluster, r) == SERIATIM_OK ? SRT_SURE_ASKED : SRT_SURE_LATER;
}

srt_sure srt_sure_ask(srt_node *n, srt_written *w, const srt_request *like)
{
    return sure_send(n, w, like, 0);
}

/* ROLE of a master: its word, its offset, a list of its replicas. */
srt_sure srt_sure_answered(srt_node *n, srt_written *w, const srt_request *r, const srt_reply *reply)
{
    const srt_token *t = reply->tokens;
    seriatim_error error;
    if (srt_reply_status(t, &error) != SERIATIM_OK) {
        if (!n->moves.warned)
            srt_node_tell(n, SERIATIM_EVENT_WARNING, error.status,
                          "ids do not move, because it is not known whether replicas have what was written: %s",
                          error.message);
        n->moves.warned = 1;
        return SRT_SURE_LATER;
    }
    if (w->waits)
        return srt_token_int(t) >= 1 ? SRT_SURE : SRT_SURE_LATER;
    if (reply->count < 4 || !srt_token_is(&t[1], "master") || t[3].type != SRT_ARRAY)
        return SRT_SURE_LOST;
    return t[3].integer == 0 ? SRT_SURE : sure_send(n, w, r, 1);
}

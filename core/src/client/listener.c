/* listener.c - subscribes to the wake-up channels of shards, on a connection of their own; a message ends a sleep. */
#include "client/client.h"

#include <string.h>

#define LISTENER_REFUSED 60.0 /* seconds after which a subscription that Redis refused is tried again */

static void listener_free(seriatim_client *c)
{
    srt_bytes_free(&c->listener.channels);
    srt_session_free(&c->listener.session);
}

/* At the first channel. */
static int listener_begin(seriatim_client *c)
{
    srt_listener *l = &c->listener;
    int status = srt_session_init(&l->session, c->mem, 1);
    if (status != SERIATIM_OK)
        return status;
    srt_bytes_init(&l->channels, c->mem);
    l->begun = 1;
    l->session.masters_only = c->cluster.peers[0]->commands.masters_only;
    srt_client_on_free(c, listener_free);
    return SERIATIM_OK;
}

/* SUBSCRIBE to all channels; to one that is subscribed already, Redis confirms it again. */
static int listener_subscribe(srt_listener *l)
{
    srt_bytes *out = &l->session.out;
    srt_resp_array(out, l->count + 1);
    srt_resp_arg(out, "SUBSCRIBE", 9);
    srt_bytes_add(out, l->channels.data, l->channels.len);
    l->unconfirmed += l->count;
    l->subscribed = 0;
    return out->failed ? SERIATIM_NOMEM : SERIATIM_OK;
}

void srt_listener_name(srt_bytes *name, const srt_shard_keys *shard)
{
    srt_bytes_add(name, shard->prefix.data, shard->prefix.len);
    srt_bytes_adds(name, "wake");
}

/* Adds the channel of a shard, encoded. NOMEM. */
static int listener_add_shard(srt_listener *l, const srt_shard_keys *shard)
{
    srt_bytes name;
    int status;
    srt_bytes_init(&name, l->channels.mem);
    srt_listener_name(&name, shard);
    if (!name.failed)
        srt_resp_arg(&l->channels, name.data, name.len);
    status = name.failed || l->channels.failed ? SERIATIM_NOMEM : SERIATIM_OK;
    srt_bytes_free(&name);
    return status;
}

/* The name of a shard's channel never changes, so each is added once. */
int srt_listener_add(seriatim_client *c, srt_queue *queue)
{
    srt_listener *l = &c->listener;
    size_t before = l->count;
    if (!l->begun && listener_begin(c) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    for (; queue->pop_channels < srt_queue_addressed(queue); queue->pop_channels++, l->count++) {
        size_t len = l->channels.len;
        if (listener_add_shard(l, queue->shards[queue->pop_channels]) == SERIATIM_OK)
            continue;
        l->channels.len = len;
        l->channels.failed = 0;
        return SERIATIM_NOMEM;
    }
    return l->count > before && l->session.connected ? listener_subscribe(l) : SERIATIM_OK;
}

int srt_listener_wanted(const seriatim_client *c)
{
    const srt_listener *l = &c->listener;
    double since = c->unix_time - l->refused_at;
    return l->count > 0 && (!l->refused || since >= LISTENER_REFUSED || since < 0);
}

int srt_listener_connected(seriatim_client *c, const char *user, const char *password, int database)
{
    srt_listener *l = &c->listener;
    int status = srt_session_connected(&l->session, user, password, database, c->name.len ? c->name.data : NULL);
    l->unconfirmed = 0;
    l->refused = 0;
    return status == SERIATIM_OK ? listener_subscribe(l) : status;
}

void srt_listener_disconnected(seriatim_client *c)
{
    c->listener.subscribed = 0;
    c->listener.unconfirmed = 0;
    srt_session_disconnected(&c->listener.session);
    srt_client_wake(c); /* it may sleep for longer than it should without a subscription */
}

/* What came unasked: the confirmation of a channel, or a message. */
static int listener_take(seriatim_client *c, const srt_reply *reply, seriatim_error *error)
{
    srt_listener *l = &c->listener;
    int status = srt_reply_status(&reply->tokens[0], error);
    if (status != SERIATIM_OK) {
        l->refused =
            (status == SERIATIM_AUTH || status == SERIATIM_SERVER) && !srt_client_must_pause(status, error->message);
        l->refused_at = c->unix_time;
        return status;
    }
    if (reply->count < 4)
        return SERIATIM_OK;
    if (srt_token_is(&reply->tokens[1], "subscribe")) {
        if (l->unconfirmed > 0 && --l->unconfirmed > 0)
            return SERIATIM_OK;
        l->subscribed = 1;
    }
    /* What was asked before the last confirmation may be old. */
    srt_client_wake(c);
    return SERIATIM_OK;
}

int srt_listener_input(seriatim_client *c, const char *data, size_t len, seriatim_error *error)
{
    srt_session *session = &c->listener.session;
    int status = srt_session_input(session, data, len);
    if (status != SERIATIM_OK)
        return srt_fail_plain(error, status);
    for (;;) {
        srt_request *r;
        srt_reply reply;
        status = srt_session_next(session, &r, &reply, error);
        if (status == SERIATIM_AGAIN)
            return SERIATIM_OK;
        if (status == SERIATIM_OK)
            status = listener_take(c, &reply, error);
        if (status != SERIATIM_OK)
            return status;
    }
}

/* ---- For a host that listens by itself ------------------------------------------------------- */

void srt_client_listens(seriatim_client *c, int listens)
{
    c->listener.subscribed = listens;
}

void srt_client_tell_spent(seriatim_client *c, int64_t spent_ms)
{
    c->spent_ms = spent_ms;
}

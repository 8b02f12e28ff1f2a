/* connection.c - what a node asks on a new connection, and which file takes what comes in. */
#include "node/node_state.h"

#include <string.h>

static void subscribe(srt_node *n)
{
    srt_session *session = &n->wakes;
    srt_resp_array(&session->out, 3);
    srt_resp_arg(&session->out, "SUBSCRIBE", 9);
    srt_resp_arg(&session->out, n->wake_channel.data, n->wake_channel.len);
    srt_resp_arg(&session->out, n->nodes_channel.data, n->nodes_channel.len);
}

void srt_node_expect_masters(srt_node *n)
{
    n->cluster.peers[0]->commands.masters_only = 1;
    n->wakes.masters_only = 1;
}

void srt_node_ask_wakes(srt_node *n)
{
    srt_bytes *out = &n->wakes.out;
    size_t before = out->len;
    srt_resp_array(out, 1);
    srt_resp_arg(out, "PING", 4);
    if (!out->failed)
        return;
    out->len = before; /* not all was asked, so not all will be answered, and the connection is made anew */
    out->failed = 0;
}

/*
 * What Redis answered before the connection was lost, or before the heartbeat expired, may have changed: everything is
 * asked again.
 */
static void check_all(srt_node *n, int64_t now)
{
    size_t i;
    for (i = 0; i < n->shard_count; i++)
        srt_shard_check(n, n->shards[i], now);
}

static int wakes_connected(srt_node *n, const char *user, const char *password, int database)
{
    int status = srt_session_connected(&n->wakes, user, password, database, n->name.data);
    if (status == SERIATIM_OK)
        subscribe(n);
    return status == SERIATIM_OK && n->wakes.out.failed ? SERIATIM_NOMEM : status;
}

/* Only of connections that serve: a Redis that refuses writes is connected to again and again. */
static void tell_of_link(srt_node *n, const srt_redis *p, int connected)
{
    const char *what = connected ? "connected to Redis" : "lost the connection to Redis";
    if (n->cluster.many)
        srt_node_tell(n, SERIATIM_EVENT_LINK, connected, "%s at %.200s:%d", what, p->host, p->port);
    else
        srt_node_tell(n, SERIATIM_EVENT_LINK, connected, "%s", what);
}

int srt_node_connected(srt_node *n, srt_channel channel, const char *user, const char *password, int database,
                       int64_t now)
{
    srt_redis *p = srt_node_channel_peer(n, (int)channel);
    int status;
    if (channel == SRT_WAKES)
        return wakes_connected(n, user, password, database);
    if (!p)
        return SERIATIM_INVALID;
    status = srt_redis_connected(&n->cluster, p, user, password, database, n->name.data);
    if (status != SERIATIM_OK)
        return status;
    p->served = 0;
    n->links++;
    n->stats.connected = 1;
    if (srt_node_ask_layouts(n) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    /*
     * After an outage of any length: renew the heartbeat before other nodes find it expired, and wait for new
     * heartbeats of theirs.
     */
    if (!n->heartbeat.in_flight)
        n->heartbeat.at = now;
    srt_node_meet_master(n, p, now);
    return SERIATIM_OK;
}

void srt_node_disconnected(srt_node *n, srt_channel channel, int64_t now)
{
    srt_redis *p = srt_node_channel_peer(n, (int)channel);
    int was_connected;
    if (channel == SRT_WAKES) {
        srt_session_disconnected(&n->wakes);
        n->hears = 0;
        return;
    }
    if (!p)
        return;
    was_connected = p->commands.connected;
    if (was_connected && p->served && !p->closing)
        tell_of_link(n, p, 0);
    srt_redis_disconnected(&n->cluster, p);
    srt_node_follow_lost(n, now);
    srt_node_moves_lost(n, now);
    n->links -= was_connected != 0;
    if (!was_connected || n->links > 0)
        return;
    n->stats.connected = 0;
    n->opened_by = now;
}

/* Of the requests that follow a layout or move ids, one that goes with its connection is not sent again. */
static int generation_reply(srt_node *n, srt_request *r, const srt_reply *reply, int64_t now, seriatim_error *error)
{
    int status = srt_reply_status(&reply->tokens[0], error);
    if ((status == SERIATIM_READONLY || status == SERIATIM_LOADING) && r->route != SRT_ROUTE_CONNECTION)
        return srt_cluster_again(&n->cluster, r) == SERIATIM_OK ? status : SERIATIM_NOMEM;
    if (r->kind == SRT_ASK_MOVE)
        srt_mover_answered(n, r, reply, now);
    else if (r->kind == SRT_ASK_FOLLOW)
        srt_node_followed(n, r, reply, now);
    else if (srt_shard_turn_answered(n, r, reply, now))
        srt_mover_finish(n, r->subject, &reply->tokens[3], now);
    srt_cluster_done(&n->cluster, r);
    return SERIATIM_OK;
}

static int command_reply(srt_node *n, srt_request *r, const srt_reply *reply, int64_t now, seriatim_error *error)
{
    int kind = r->kind, status;
    if (kind == SRT_ASK_NOTHING) {
        srt_cluster_done(&n->cluster, r);
        return SERIATIM_OK;
    }
    if (kind == SRT_ASK_TURN || kind == SRT_ASK_FOLLOW || kind == SRT_ASK_MOVE)
        return generation_reply(n, r, reply, now, error);
    if (kind != SRT_ASK_LAYOUT && kind != SRT_ASK_HEARTBEAT && kind != SRT_ASK_SAMPLE && kind != SRT_ASK_RUN_TIMES)
        return srt_shard_reply(n, r, reply, now, error);
    status = srt_reply_status(&reply->tokens[0], error);
    if (status != SERIATIM_OK && status != SERIATIM_READONLY && status != SERIATIM_LOADING && kind != SRT_ASK_SAMPLE &&
        kind != SRT_ASK_RUN_TIMES)
        srt_refusal_tell(n, kind == SRT_ASK_LAYOUT ? SRT_REFUSED_LAYOUT : SRT_REFUSED_HEARTBEAT, NULL, error, now);
    if (status == SERIATIM_OK && kind == SRT_ASK_LAYOUT)
        status = srt_node_layout_known(n, r, reply, now, error);
    if (status == SERIATIM_OK && kind == SRT_ASK_LAYOUT && r->number == SRT_LAYOUT_LOOK)
        srt_node_see_layout(n, r->place, srt_layout_of(reply), now);
    if (status == SERIATIM_READONLY || status == SERIATIM_LOADING ||
        (status != SERIATIM_OK && kind == SRT_ASK_LAYOUT && n->shard_count == 0)) {
        srt_cluster_again(&n->cluster, r);
        return status;
    }
    if (status != SERIATIM_OK && kind == SRT_ASK_LAYOUT)
        srt_node_layout_refused(n);
    if (kind == SRT_ASK_LAYOUT && status == SERIATIM_OK && n->heartbeat.answered == 0 && n->layouts.missing == 0)
        srt_refusals_over(n, SRT_REFUSED_LAYOUT);
    if (kind == SRT_ASK_HEARTBEAT && status == SERIATIM_OK) {
        srt_refusals_over(n, SRT_REFUSED_HEARTBEAT);
        if (srt_heartbeat_answered(n, reply, r->number, now))
            check_all(n, now);
        srt_node_look_at_settings(n);
    } else if (kind == SRT_ASK_HEARTBEAT) {
        srt_heartbeat_failed(n, now);
    } else if (kind == SRT_ASK_SAMPLE) {
        srt_node_sampled(n, r, reply, status == SERIATIM_OK ? NULL : error);
    } else if (kind == SRT_ASK_RUN_TIMES) {
        srt_node_run_times_told(n, status == SERIATIM_OK ? NULL : error);
    }
    srt_cluster_done(&n->cluster, r);
    return SERIATIM_OK;
}

/* A message about a run begins with the prefix of its shard, of which the first brace that closes is the last byte but
 * one. */
static size_t prefix_length(const char *data, size_t len)
{
    const char *brace = memchr(data, '}', len);
    return brace && brace + 1 < data + len ? (size_t)(brace - data) + 2 : len;
}

static srt_shard *shard_of_prefix(const srt_node *n, const char *prefix, size_t len)
{
    size_t i;
    for (i = 0; i < n->shard_count; i++) {
        const srt_bytes *own = &n->shards[i]->keys->prefix;
        if (own->len == len && memcmp(own->data, prefix, len) == 0)
            return n->shards[i];
    }
    return NULL;
}

/*
 * A message that a shard changed: an id is due, its owner gave it up, or ('!') the ids that are claimed and not begun
 * are to be handed back; or ('~') that something waits behind a run; or ('=') that a push has claimed an id for this
 * node. `order`: an operator's order, which the next heartbeat brings.
 */
static void wake_message(srt_node *n, const srt_token *text, int64_t now)
{
    int recall = text->len > 0 && *text->data == '!', behind = text->len > 0 && *text->data == '~';
    int pushed = text->len > 0 && *text->data == '=';
    const char *prefix = text->data + (recall || behind || pushed);
    size_t rest = text->len - (size_t)(recall || behind || pushed), len = pushed ? prefix_length(prefix, rest) : rest;
    srt_shard *s = shard_of_prefix(n, prefix, len);
    if (srt_token_is(text, "order"))
        srt_heartbeat_soon(n, now);
    if (!s)
        return;
    if (behind) {
        srt_shard_pushed_behind(n, s, now);
        return;
    }
    srt_bytes_clear(&s->owner);
    if (pushed) {
        srt_shard_handed_over(n, s, prefix + len, rest - len, now);
        return;
    }
    s->recall |= recall && s->state == SRT_OWNED;
    srt_shard_changed(n, s, now);
}

static int wakes_reply(srt_node *n, const srt_reply *reply, int64_t now, seriatim_error *error)
{
    static const char layout_word[] = "layout ";
    const srt_token *t = reply->tokens;
    int status = srt_reply_status(t, error);
    if (status != SERIATIM_OK)
        return status;
    if (reply->count < 4)
        return SERIATIM_OK;
    if (srt_token_is(&t[1], "subscribe")) {
        n->hears = 1; /* Redis accepts both channels of the command or refuses both */
        check_all(n, now);
    } else if (t[2].len == n->wake_channel.len && memcmp(t[2].data, n->wake_channel.data, t[2].len) == 0)
        wake_message(n, &t[3], now);
    else if (t[3].len >= sizeof layout_word - 1 && memcmp(t[3].data, layout_word, sizeof layout_word - 1) == 0)
        srt_node_hear_layout(n, t[3].data + sizeof layout_word - 1, t[3].len - (sizeof layout_word - 1), now);
    else
        srt_heartbeat_soon(n, now);
    return SERIATIM_OK;
}

static int wakes_input(srt_node *n, const char *data, size_t len, int64_t now, seriatim_error *error)
{
    int status = srt_session_input(&n->wakes, data, len);
    while (status == SERIATIM_OK) {
        srt_request *r;
        srt_reply reply;
        status = srt_session_next(&n->wakes, &r, &reply, error);
        if (status == SERIATIM_OK)
            status = wakes_reply(n, &reply, now, error);
    }
    return status == SERIATIM_AGAIN ? SERIATIM_OK : status;
}

int srt_node_input(srt_node *n, srt_channel channel, const char *data, size_t len, int64_t now, seriatim_error *error)
{
    srt_redis *p = srt_node_channel_peer(n, (int)channel);
    int heartbeats = n->heartbeat.answered;
    int status;
    if (channel == SRT_WAKES)
        return wakes_input(n, data, len, now, error);
    if (!p)
        return srt_fail(error, SERIATIM_INVALID, "no Redis has the channel %d", (int)channel);
    n->answering = p;
    status = srt_redis_input(&n->cluster, p, data, len);
    while (status == SERIATIM_OK) {
        srt_request *r;
        srt_reply reply;
        status = srt_redis_next(&n->cluster, p, &r, &reply, error);
        if (status == SERIATIM_OK)
            status = command_reply(n, r, &reply, now, error);
        if (!p->served && status == SERIATIM_OK && (n->cluster.many || n->heartbeat.answered != heartbeats)) {
            p->served = 1;
            tell_of_link(n, p, 1);
        }
    }
    return status == SERIATIM_AGAIN ? SERIATIM_OK : status;
}

static srt_session *session_of(srt_node *n, srt_channel channel)
{
    srt_redis *p = srt_node_channel_peer(n, (int)channel);
    return channel == SRT_WAKES ? &n->wakes : p ? &p->commands : NULL;
}

void srt_node_output(srt_node *n, srt_channel channel, const char **data, size_t *len)
{
    const srt_session *session = session_of(n, channel);
    *len = 0;
    if (session)
        srt_session_output(session, data, len);
}

void srt_node_sent(srt_node *n, srt_channel channel, size_t len)
{
    srt_session *session = session_of(n, channel);
    if (session)
        srt_session_sent(session, len);
}

int srt_node_waits(const srt_node *n, srt_channel channel)
{
    const srt_redis *p = channel == SRT_WAKES ? NULL : srt_node_channel_peer(n, (int)channel);
    return p && p->commands.waiting > 0;
}

int srt_node_served(const srt_node *n, srt_channel channel)
{
    const srt_redis *p = srt_node_channel_peer(n, (int)channel);
    return channel == SRT_WAKES ? n->hears : p && p->served;
}

/* connection.c - what a node asks on a new connection, and which file takes what comes in. */
#include "node/node_state.h"

#include <string.h>

static void subscribe(srt_node *n)
{
    srt_session *session = &n->sessions[SRT_WAKES];
    srt_resp_array(&session->out, 3);
    srt_resp_arg(&session->out, "SUBSCRIBE", 9);
    srt_resp_arg(&session->out, n->wake_channel.data, n->wake_channel.len);
    srt_resp_arg(&session->out, n->nodes_channel.data, n->nodes_channel.len);
}

void srt_node_expect_masters(srt_node *n)
{
    int i;
    for (i = 0; i < SRT_CHANNELS; i++)
        n->sessions[i].masters_only = 1;
}

void srt_node_ask_wakes(srt_node *n)
{
    srt_bytes *out = &n->sessions[SRT_WAKES].out;
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
    for (i = 0; i < n->shard_count; i++) {
        srt_shard *s = n->shards[i];
        if (s->state == SRT_OWNED)
            s->reconcile = 1;
        srt_shard_changed(n, s, now);
    }
}

int srt_node_connected(srt_node *n, srt_channel channel, const char *user, const char *password, int database,
                       int64_t now)
{
    int status = srt_session_connected(&n->sessions[channel], user, password, database, n->name.data);
    size_t i;
    if (status != SERIATIM_OK)
        return status;
    if (channel == SRT_WAKES) {
        subscribe(n);
        return n->sessions[channel].out.failed ? SERIATIM_NOMEM : SERIATIM_OK;
    }
    n->stats.connected = 1;
    srt_node_tell(n, SERIATIM_EVENT_LINK, 1, "connected to Redis");
    if (srt_node_ask_layouts(n) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    /*
     * After an outage of any length: renew the heartbeat before other nodes find it expired, and wait for new
     * heartbeats of theirs.
     */
    if (!n->heartbeat.in_flight)
        n->heartbeat.at = now;
    for (i = 0; i < n->shard_count; i++)
        if (n->shards[i]->state == SRT_FOREIGN) {
            srt_bytes_clear(&n->shards[i]->owner);
            n->shards[i]->perhaps_ours = n->shards[i]->given_up;
        }
    check_all(n, now);
    return SERIATIM_OK;
}

void srt_node_disconnected(srt_node *n, srt_channel channel, int64_t now)
{
    srt_session_disconnected(&n->sessions[channel]);
    if (channel == SRT_WAKES)
        n->hears = 0;
    if (channel != SRT_COMMANDS || !n->stats.connected)
        return;
    n->stats.connected = 0;
    n->opened_by = now;
    srt_node_tell(n, SERIATIM_EVENT_LINK, 0, "lost the connection to Redis");
}

static int command_reply(srt_node *n, srt_request *r, const srt_reply *reply, int64_t now, seriatim_error *error)
{
    int kind = r->kind, status;
    if (kind == SRT_ASK_NOTHING) {
        srt_session_done(&n->sessions[SRT_COMMANDS], r);
        return SERIATIM_OK;
    }
    if (kind != SRT_ASK_LAYOUT && kind != SRT_ASK_HEARTBEAT && kind != SRT_ASK_SAMPLE && kind != SRT_ASK_RUN_TIMES)
        return srt_shard_reply(n, r, reply, now, error);
    status = srt_reply_status(&reply->tokens[0], error);
    if (status != SERIATIM_OK && status != SERIATIM_READONLY && status != SERIATIM_LOADING && kind != SRT_ASK_SAMPLE &&
        kind != SRT_ASK_RUN_TIMES)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, status, "%s", error->message);
    if (status == SERIATIM_OK && kind == SRT_ASK_LAYOUT)
        status = srt_node_layout_known(n, r, reply, now, error);
    if (status == SERIATIM_READONLY || status == SERIATIM_LOADING ||
        (status != SERIATIM_OK && kind == SRT_ASK_LAYOUT && n->shard_count == 0)) {
        srt_session_again(&n->sessions[SRT_COMMANDS], r);
        return status;
    }
    if (status != SERIATIM_OK && kind == SRT_ASK_LAYOUT)
        srt_node_layout_refused(n);
    if (kind == SRT_ASK_HEARTBEAT && status == SERIATIM_OK) {
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
    srt_session_done(&n->sessions[SRT_COMMANDS], r);
    return SERIATIM_OK;
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
 * are to be handed back; or ('~') that something waits behind a run. On the channel of the nodes: an operator's order,
 * which the next heartbeat brings.
 */
static void wake_message(srt_node *n, const srt_token *text, int64_t now)
{
    int recall = text->len > 0 && *text->data == '!', behind = text->len > 0 && *text->data == '~';
    srt_shard *s = shard_of_prefix(n, text->data + recall + behind, text->len - (size_t)(recall + behind));
    if (srt_token_is(text, "order"))
        srt_heartbeat_soon(n, now);
    if (!s)
        return;
    if (behind) {
        srt_shard_pushed_behind(n, s, now);
        return;
    }
    srt_bytes_clear(&s->owner);
    s->recall |= recall && s->state == SRT_OWNED;
    srt_shard_changed(n, s, now);
}

static int wakes_reply(srt_node *n, const srt_reply *reply, int64_t now, seriatim_error *error)
{
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
    else
        srt_heartbeat_soon(n, now);
    return SERIATIM_OK;
}

int srt_node_input(srt_node *n, srt_channel channel, const char *data, size_t len, int64_t now, seriatim_error *error)
{
    srt_session *session = &n->sessions[channel];
    int status = srt_session_input(session, data, len);
    while (status == SERIATIM_OK) {
        srt_request *r;
        srt_reply reply;
        status = srt_session_next(session, &r, &reply, error);
        if (status == SERIATIM_AGAIN)
            return SERIATIM_OK;
        if (status == SERIATIM_OK)
            status = r ? command_reply(n, r, &reply, now, error) : wakes_reply(n, &reply, now, error);
    }
    return status;
}

void srt_node_output(srt_node *n, srt_channel channel, const char **data, size_t *len)
{
    srt_session_output(&n->sessions[channel], data, len);
}

void srt_node_sent(srt_node *n, srt_channel channel, size_t len)
{
    srt_session_sent(&n->sessions[channel], len);
}

int srt_node_waits(const srt_node *n)
{
    return n->sessions[SRT_COMMANDS].waiting > 0;
}

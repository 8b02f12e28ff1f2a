/* channel.c - a connection of a runner, for commands or for wake-ups: connect, write, read, close, find dead ones. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "io/runner_state.h"

#include <string.h>

#define RUNNER_CONNECT_MS 5000
#define RUNNER_SILENCE_MS 15000 /* without an expected answer for this time the connection is treated as dead */

static void channel_close(seriatim_runner *r, runner_channel *c, int64_t now)
{
    srt_transport_close(c->transport);
    srt_bytes_clear(&c->out);
    c->state = CHANNEL_CLOSED;
    c->retry_at = now + srt_reconnect_delay(c->attempts++, (uint64_t)now ^ (uint64_t)(uintptr_t)r);
}

/*
 * With the lock: warns that no wake-ups come, once until they have come again. A fault that ends both connections
 * (Redis stopped, a wrong password) is reported for the commands only. So this waits until a heartbeat was answered
 * and, unless Redis itself refuses the subscription, for the third failure in a row.
 */
static void tell_of_wakes(seriatim_runner *r, const char *why)
{
    runner_channel *c = &r->wakes;
    int refused = c->error.status == SERIATIM_AUTH || c->error.status == SERIATIM_SERVER;
    if (c->told || r->node->links == 0 || r->node->heartbeat.answered == 0 || !(refused || c->attempts > 1))
        return;
    c->told = 1;
    srt_node_tell(
        r->node, SERIATIM_EVENT_WARNING, c->error.status,
        "cannot subscribe to the wake-up channels, so new jobs are found only by polling every poll_interval: %.250s",
        why);
}

void srt_channel_leave(seriatim_runner *r, runner_channel *c, int64_t now)
{
    channel_close(r, c, now);
    c->attempts = 0;
    c->retry_at = now;
    srt_error_clear(&c->error);
    srt_node_disconnected(r->node, c->number, now);
}

/* Does the connection for wake-ups go to the same master of a cluster? Then it has ended or will end, too. */
static int shares_master(const seriatim_runner *r, const runner_channel *c)
{
    return c->peer && c->peer->host && r->wakes.state != CHANNEL_CLOSED &&
           strcmp(srt_transport_address(c->transport), srt_transport_address(r->wakes.transport)) == 0;
}

/* Of failures in a row, the first one of each kind is told. */
static void tell_of_loss(seriatim_runner *r, runner_channel *c, const seriatim_error *why)
{
    unsigned kind = 1u << -why->status;
    if (c->attempts == 0)
        c->failures_told = 0;
    if (!(c->failures_told & kind))
        srt_node_tell(r->node, SERIATIM_EVENT_WARNING, 0, "Redis: %.400s", why->message);
    c->failures_told |= kind;
}

void srt_channel_lost(seriatim_runner *r, runner_channel *c, int64_t now)
{
    const seriatim_error *error = c->error.message[0] ? &c->error : srt_transport_error(c->transport);
    const char *why = error->message;
    if (c->peer)
        tell_of_loss(r, c, error);
    if (c == &r->wakes)
        tell_of_wakes(r, why);
    if (shares_master(r, c))
        srt_channel_leave(r, &r->wakes, now);
    channel_close(r, c, now);
    srt_error_clear(&c->error);
    srt_node_disconnected(r->node, c->number, now);
}

/* With the lock: the connection for wake-ups must go to the master that takes the commands. */
static void channel_leave_old_master(seriatim_runner *r, const runner_channel *commands, int64_t now)
{
    runner_channel *wakes = &r->wakes;
    const char *address = srt_transport_address(commands->transport);
    if (wakes->state != CHANNEL_OPEN || strcmp(address, srt_transport_address(wakes->transport)) == 0)
        return;
    wakes->attempts = 0;
    srt_channel_lost(r, wakes, now);
}

/* With the lock: a connection for commands serves, which it did not before. */
static void tell_of_master(seriatim_runner *r, const runner_channel *c)
{
    if (c->peer && r->url.kind == SRT_URL_SENTINEL)
        srt_node_tell(r->node, SERIATIM_EVENT_LINK, 1, "the master is %.200s", srt_transport_address(c->transport));
}

/* With the lock: the transport is ready, the session may begin. */
static void channel_opened(seriatim_runner *r, runner_channel *c, int64_t now)
{
    c->state = CHANNEL_OPEN;
    c->heard_at = now;
    if (c->peer && r->url.kind == SRT_URL_SENTINEL)
        channel_leave_old_master(r, c, now);
    if (srt_node_connected(r->node, c->number, r->url.user, r->url.password, r->url.db, now) != SERIATIM_OK)
        srt_channel_lost(r, c, now);
}

static int channel_connect(runner_channel *c, int64_t now)
{
    if (c->state == CHANNEL_CLOSED && now >= c->retry_at && c->wanted) {
        int limit_ms = c->peer ? srt_redis_connect_ms(c->peer->cluster, c->peer, RUNNER_CONNECT_MS) : RUNNER_CONNECT_MS;
        c->state = CHANNEL_CONNECTING;
        return srt_transport_connect(c->transport, limit_ms);
    }
    return c->state == CHANNEL_CONNECTING ? srt_transport_step(c->transport) : SERIATIM_AGAIN;
}

int srt_channel_write(runner_channel *c)
{
    size_t written, done = 0;
    int status = SERIATIM_OK;
    while (done < c->out.len && status == SERIATIM_OK) {
        status = srt_transport_write(c->transport, c->out.data + done, c->out.len - done, &written);
        if (status == SERIATIM_OK)
            done += written;
    }
    srt_bytes_consume(&c->out, done);
    if (status == SERIATIM_OK &&
        ((srt_transport_wants(c->transport) & SERIATIM_WANT_WRITE) || srt_transport_fd(c->transport) < 0))
        status = srt_transport_step(c->transport); /* it may have ended behind the last byte */
    return status == SERIATIM_AGAIN ? SERIATIM_OK : status;
}

/* Reads what there is; *got is 0 when there is nothing. */
static int channel_read(seriatim_runner *r, runner_channel *c, size_t *got)
{
    size_t more;
    int status = SERIATIM_OK;
    *got = 0;
    while (status == SERIATIM_OK && *got < RUNNER_READ) {
        status = srt_transport_read(c->transport, r->inbox + *got, RUNNER_READ - *got, &more);
        if (status == SERIATIM_OK)
            *got += more;
    }
    return status == SERIATIM_AGAIN || *got > 0 ? SERIATIM_OK : status;
}

void srt_channel_collect(seriatim_runner *r, runner_channel *c)
{
    const char *data;
    size_t len;
    if (c->state != CHANNEL_OPEN)
        return;
    srt_node_output(r->node, c->number, &data, &len);
    if (len == 0)
        return;
    srt_bytes_add(&c->out, data, len);
    if (!c->out.failed)
        srt_node_sent(r->node, c->number, len);
    c->out.failed = 0;
}

void srt_channel_step(seriatim_runner *r, runner_channel *c)
{
    int64_t now = srt_clock_ms();
    size_t got = 0;
    channel_state was = c->state;
    int status, has_ended, served;
    if (was == CHANNEL_OPEN && c->drained)
        return;
    status = was == CHANNEL_OPEN ? channel_read(r, c, &got) : channel_connect(c, now);
    has_ended = was == CHANNEL_OPEN && srt_transport_fd(c->transport) < 0; /* after bytes, which are taken first */
    c->drained = was == CHANNEL_OPEN && got < RUNNER_READ && !has_ended;
    if (status == SERIATIM_AGAIN || (was == CHANNEL_OPEN && status == SERIATIM_OK && got == 0))
        return;
    now = srt_clock_ms();
    pthread_mutex_lock(&r->lock);
    if (status == SERIATIM_OK && was != CHANNEL_OPEN) {
        channel_opened(r, c, now);
    } else if (status == SERIATIM_OK) {
        served = srt_node_served(r->node, c->number);
        c->heard_at = now;
        status = srt_node_input(r->node, c->number, r->inbox, got, now, &c->error);
        if (status == SERIATIM_OK) {
            if (srt_node_served(r->node, c->number)) {
                c->attempts = 0;
                srt_transport_served(c->transport);
                if (!served)
                    tell_of_master(r, c);
            }
            c->told &= !r->node->hears;
            srt_error_clear(&c->error); /* of an earlier refusal */
        }
        r->unread |= got == RUNNER_READ || has_ended;
    }
    if (status != SERIATIM_OK)
        srt_channel_lost(r, c, now);
    pthread_mutex_unlock(&r->lock);
}

/* With the lock: Redis does not answer any more. */
static void channel_silent(seriatim_runner *r, runner_channel *c, int64_t now)
{
    srt_fail(&c->error, SERIATIM_TIMEOUT, "no answer for %d seconds", RUNNER_SILENCE_MS / 1000);
    srt_channel_lost(r, c, now);
}

static int64_t watch_commands(seriatim_runner *r, runner_channel *c, int64_t now)
{
    if (!c->peer || c->peer->commands.waiting == 0) {
        c->heard_at = now;
        return SRT_NEVER;
    }
    if (now - c->heard_at < RUNNER_SILENCE_MS)
        return c->heard_at + RUNNER_SILENCE_MS;
    channel_silent(r, c, now);
    return now;
}

static int64_t watch_wakes(seriatim_runner *r, runner_channel *c, int64_t now)
{
    if (now - c->heard_at < RUNNER_SILENCE_MS / 2)
        return c->heard_at + RUNNER_SILENCE_MS / 2;
    if (now - c->heard_at >= RUNNER_SILENCE_MS) {
        channel_silent(r, c, now);
        return now;
    }
    if (c->asked_at <= c->heard_at) {
        c->asked_at = now;
        srt_node_ask_wakes(r->node);
    }
    return c->heard_at + RUNNER_SILENCE_MS;
}

int64_t srt_channel_watch(seriatim_runner *r, runner_channel *c, int64_t now)
{
    if (c->state == CHANNEL_CONNECTING && c->peer)
        srt_redis_connecting(&r->node->cluster, c->peer, srt_transport_began(c->transport));
    if (c->state != CHANNEL_OPEN)
        return SRT_NEVER;
    return c == &r->wakes ? watch_wakes(r, c, now) : watch_commands(r, c, now);
}

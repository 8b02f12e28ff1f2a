/*
 * channel.c - the two connections of a runner, for commands and for wake-ups: connect, write, read, close, and find
 * dead ones.
 */
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
    runner_channel *c = &r->channels[SRT_WAKES];
    int refused = c->error.status == SERIATIM_AUTH || c->error.status == SERIATIM_SERVER;
    if (c->told || r->channels[SRT_COMMANDS].state != CHANNEL_OPEN || r->node->heartbeat.answered == 0 ||
        !(refused || c->attempts > 1))
        return;
    c->told = 1;
    srt_node_tell(
        r->node, SERIATIM_EVENT_WARNING, c->error.status,
        "cannot subscribe to the wake-up channels, so new jobs are found only by polling every poll_interval: %.120s",
        why);
}

void srt_channel_lost(seriatim_runner *r, int which, int64_t now)
{
    runner_channel *c = &r->channels[which];
    const char *why = c->error.message[0] ? c->error.message : srt_transport_error(c->transport)->message;
    if (which == SRT_COMMANDS && (c->attempts == 0 || c->state == CHANNEL_OPEN))
        srt_node_tell(r->node, SERIATIM_EVENT_WARNING, 0, "Redis: %.200s", why);
    if (which == SRT_WAKES)
        tell_of_wakes(r, why);
    channel_close(r, c, now);
    srt_error_clear(&c->error);
    srt_node_disconnected(r->node, (srt_channel)which, now);
}

/* With the lock: the connection for wake-ups must go to the master that takes the commands. */
static void channel_leave_old_master(seriatim_runner *r, int64_t now)
{
    runner_channel *wakes = &r->channels[SRT_WAKES];
    const char *address = srt_transport_address(r->channels[SRT_COMMANDS].transport);
    srt_node_tell(r->node, SERIATIM_EVENT_LINK, 1, "the master is %.200s", address);
    if (wakes->state != CHANNEL_OPEN || strcmp(address, srt_transport_address(wakes->transport)) == 0)
        return;
    wakes->attempts = 0;
    srt_channel_lost(r, SRT_WAKES, now);
}

/* With the lock: the transport is ready, the session may begin. */
static void channel_opened(seriatim_runner *r, int which, int64_t now)
{
    runner_channel *c = &r->channels[which];
    c->state = CHANNEL_OPEN;
    c->heard_at = now;
    if (which == SRT_COMMANDS && r->url.kind == SRT_URL_SENTINEL)
        channel_leave_old_master(r, now);
    if (srt_node_connected(r->node, (srt_channel)which, r->url.user, r->url.password, r->url.db, now) != SERIATIM_OK)
        srt_channel_lost(r, which, now);
}

static int channel_connect(runner_channel *c, int64_t now)
{
    if (c->state == CHANNEL_CLOSED && now >= c->retry_at) {
        c->state = CHANNEL_CONNECTING;
        return srt_transport_connect(c->transport, RUNNER_CONNECT_MS);
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
    if (status == SERIATIM_OK && (srt_transport_wants(c->transport) & SERIATIM_WANT_WRITE))
        status = srt_transport_step(c->transport);
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

void srt_channel_collect(seriatim_runner *r, int which)
{
    const char *data;
    size_t len;
    srt_node_output(r->node, (srt_channel)which, &data, &len);
    if (len == 0 || r->channels[which].state != CHANNEL_OPEN)
        return;
    srt_bytes_add(&r->channels[which].out, data, len);
    if (!r->channels[which].out.failed)
        srt_node_sent(r->node, (srt_channel)which, len);
    r->channels[which].out.failed = 0;
}

void srt_channel_step(seriatim_runner *r, int which)
{
    runner_channel *c = &r->channels[which];
    int64_t now = srt_clock_ms();
    size_t got = 0;
    channel_state was = c->state;
    int status;
    if (was == CHANNEL_OPEN && c->drained)
        return;
    status = was == CHANNEL_OPEN ? channel_read(r, c, &got) : channel_connect(c, now);
    c->drained = was == CHANNEL_OPEN && got < RUNNER_READ;
    if (status == SERIATIM_AGAIN || (was == CHANNEL_OPEN && status == SERIATIM_OK && got == 0))
        return;
    now = srt_clock_ms();
    pthread_mutex_lock(&r->lock);
    if (status == SERIATIM_OK && was != CHANNEL_OPEN) {
        channel_opened(r, which, now);
    } else if (status == SERIATIM_OK) {
        c->heard_at = now;
        status = srt_node_input(r->node, (srt_channel)which, r->inbox, got, now, &c->error);
        if (status == SERIATIM_OK) {
            if (which == SRT_COMMANDS || r->node->hears)
                c->attempts = 0;
            c->told &= !r->node->hears;
            srt_error_clear(&c->error); /* of an earlier refusal */
        }
        r->unread |= got == RUNNER_READ;
    }
    if (status != SERIATIM_OK)
        srt_channel_lost(r, which, now);
    pthread_mutex_unlock(&r->lock);
}

/* With the lock: Redis does not answer any more. */
static void channel_silent(seriatim_runner *r, int which, int64_t now)
{
    srt_fail(&r->channels[which].error, SERIATIM_TIMEOUT, "no answer for %d seconds", RUNNER_SILENCE_MS / 1000);
    srt_channel_lost(r, which, now);
}

int64_t srt_channel_watch_commands(seriatim_runner *r, int64_t now)
{
    runner_channel *c = &r->channels[SRT_COMMANDS];
    if (c->state != CHANNEL_OPEN)
        return SRT_NEVER;
    if (!srt_node_waits(r->node)) {
        c->heard_at = now;
        return SRT_NEVER;
    }
    if (now - c->heard_at < RUNNER_SILENCE_MS)
        return c->heard_at + RUNNER_SILENCE_MS;
    channel_silent(r, SRT_COMMANDS, now);
    return now;
}

int64_t srt_channel_watch_wakes(seriatim_runner *r, int64_t now)
{
    runner_channel *c = &r->channels[SRT_WAKES];
    if (c->state != CHANNEL_OPEN)
        return SRT_NEVER;
    if (now - c->heard_at < RUNNER_SILENCE_MS / 2)
        return c->heard_at + RUNNER_SILENCE_MS / 2;
    if (now - c->heard_at >= RUNNER_SILENCE_MS) {
        channel_silent(r, SRT_WAKES, now);
        return now;
    }
    if (c->asked_at <= c->heard_at) {
        c->asked_at = now;
        srt_node_ask_wakes(r->node);
    }
    return c->heard_at + RUNNER_SILENCE_MS;
}

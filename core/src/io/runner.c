/* runner.c - a node with sockets and one native thread; host threads take and settle under its lock. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "node/node_state.h"
#include "base/system.h"
#include "net/transport.h"
#include "io/waiters.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define RUNNER_CONNECT_MS 5000
#define RUNNER_SILENCE_MS 15000 /* an owed answer that does not come: the connection is dead */
#define RUNNER_READ ((size_t)256 * 1024)

typedef enum channel_state { CHANNEL_CLOSED, CHANNEL_CONNECTING, CHANNEL_OPEN } channel_state;

typedef struct runner_channel {
    srt_transport *transport;
    channel_state state;
    unsigned attempts; /* since it last served: commands were answered, or the wakes' channels subscribed */
    int told;          /* of the wakes: a warning says why they do not come */
    int64_t retry_at, heard_at, asked_at; /* asked_at: of the last PING */
    int drained;   /* all has been read that was there; poll tells of more */
    srt_bytes out; /* taken from the node, not yet written */
    seriatim_error error;
} runner_channel;

struct seriatim_runner {
    const seriatim_allocator *mem;
    srt_url url;
    srt_node *node; /* under the lock once the thread runs */
    pthread_mutex_t lock;
    pthread_t thread;
    int running, ending;
    runner_channel channels[SRT_CHANNELS];
    char *inbox;
    int wake[2];             /* wakes the thread */
    srt_wait_queue *waiters; /* one a group */
    size_t waiters_count;
    int notified;
    int unread; /* the inbox was full: more may lie where poll does not see it */
    int64_t sleeps_until; /* 0: awake */
};

/* ---- Connections: called by the thread, without the lock unless said ----------------------- */

static void channel_close(seriatim_runner *r, runner_channel *c, int64_t now)
{
    srt_transport_close(c->transport);
    srt_bytes_clear(&c->out);
    c->state = CHANNEL_CLOSED;
    c->retry_at = now + srt_reconnect_delay(c->attempts++, (uint64_t)now ^ (uint64_t)(uintptr_t)r);
}

/*
 * With the lock: warns once that no wakes come, until they have come again. What ends both connections (Redis stopped, a wrong
 * password) is told of the commands alone, so this waits for the answer to a heartbeat, and, unless Redis itself refuses, for a
 * third failure in a row.
 */
static void tell_of_wakes(seriatim_runner *r, const char *why)
{
    runner_channel *c = &r->channels[SRT_WAKES];
    int refused = c->error.status == SERIATIM_AUTH || c->error.status == SERIATIM_SERVER;
    if (c->told || r->channels[SRT_COMMANDS].state != CHANNEL_OPEN || r->node->beats == 0 || !(refused || c->attempts > 1))
        return;
    c->told = 1;
    srt_node_tell(r->node, SERIATIM_EVENT_WARNING, c->error.status,
                  "cannot subscribe to the channels of wakes, so new jobs are only found by polling, every poll_interval: %.120s", why);
}

/* With the lock. */
static void channel_lost(seriatim_runner *r, int which, int64_t now)
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

/* With the lock: wakes come from the master that takes the commands, or not at all. */
static void channel_leave_old_master(seriatim_runner *r, int64_t now)
{
    runner_channel *wakes = &r->channels[SRT_WAKES];
    const char *address = srt_transport_address(r->channels[SRT_COMMANDS].transport);
    srt_node_tell(r->node, SERIATIM_EVENT_LINK, 1, "the master is %.200s", address);
    if (wakes->state != CHANNEL_OPEN || strcmp(address, srt_transport_address(wakes->transport)) == 0)
        return;
    wakes->attempts = 0;
    channel_lost(r, SRT_WAKES, now);
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
        channel_lost(r, which, now);
}

static int channel_connect(runner_channel *c, int64_t now)
{
    if (c->state == CHANNEL_CLOSED && now >= c->retry_at) {
        c->state = CHANNEL_CONNECTING;
        return srt_transport_connect(c->transport, RUNNER_CONNECT_MS);
    }
    return c->state == CHANNEL_CONNECTING ? srt_transport_step(c->transport) : SERIATIM_AGAIN;
}

static int channel_write(runner_channel *c)
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

/* With the lock: moves what the node wants to send to the channel. */
static void channel_collect(seriatim_runner *r, int which)
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

static void channel_step(seriatim_runner *r, int which)
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
            srt_error_clear(&c->error); /* of a refusal that was dealt with */
        }
        r->unread |= got == RUNNER_READ;
    }
    if (status != SERIATIM_OK)
        channel_lost(r, which, now);
    pthread_mutex_unlock(&r->lock);
}

/* ---- The thread ---------------------------------------------------------------------------- */

/* With the lock: the peer does not answer any more. */
static void channel_silent(seriatim_runner *r, int which, int64_t now)
{
    srt_fail(&r->channels[which].error, SERIATIM_TIMEOUT, "no answer for %d seconds", RUNNER_SILENCE_MS / 1000);
    channel_lost(r, which, now);
}

/* With the lock. An answer is owed and nothing has been heard for long. Returns when to look again. */
static int64_t watch_commands(seriatim_runner *r, int64_t now)
{
    runner_channel *c = &r->channels[SRT_COMMANDS];
    if (c->state != CHANNEL_OPEN)
        return SRT_NEVER;
    if (r->node->sessions[SRT_COMMANDS].waiting == 0) {
        c->heard_at = now;
        return SRT_NEVER;
    }
    if (now - c->heard_at < RUNNER_SILENCE_MS)
        return c->heard_at + RUNNER_SILENCE_MS;
    channel_silent(r, SRT_COMMANDS, now);
    return now;
}

/* With the lock. Nothing is owed on the channel of wakes, so it is asked. Returns when to look again. */
static int64_t watch_wakes(seriatim_runner *r, int64_t now)
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

/* With the lock: which groups need one more of the threads that wait? Returns when to look again. */
static int64_t choose_waiters(seriatim_runner *r, int64_t now)
{
    int64_t until = SRT_NEVER;
    size_t i;
    for (i = 0; i < r->waiters_count; i++) {
        srt_group *group = &r->node->groups[i];
        srt_wait_queue *queue = &r->waiters[i];
        int more = srt_waiters_more(queue, group->waiting), offers = more && srt_node_offers(r->node, i, now);
        int wake = more && (group->news || offers) && !srt_waiters_keep_up(queue, group->held, now);
        group->news = 0;
        queue->to_notify = wake ? srt_waiters_choose(queue, now) : NULL;
        if (offers)
            until = now + SRT_WAIT_STUCK_MS;
    }
    return until;
}

static void notify_chosen(seriatim_runner *r)
{
    size_t i;
    for (i = 0; i < r->waiters_count; i++)
        if (r->waiters[i].to_notify)
            srt_pipe_notify(r->waiters[i].to_notify);
}

/* Lets the node do what is due and collects its output. Returns until when the thread may sleep. */
static int64_t runner_tick(seriatim_runner *r)
{
    int64_t now = srt_clock_ms(), until, commands, wakes, waiters;
    int which;
    pthread_mutex_lock(&r->lock);
    r->notified = 0;
    commands = watch_commands(r, now);
    wakes = watch_wakes(r, now);
    if (srt_node_beat_due(r->node, now))
        srt_node_vitals(r->node, srt_resident_bytes(), srt_clock_wall_us() - now * 1000);
    until = srt_node_tick(r->node, now);
    until = commands < until ? commands : until;
    until = wakes < until ? wakes : until;
    for (which = 0; which < SRT_CHANNELS; which++)
        channel_collect(r, which);
    waiters = choose_waiters(r, now);
    until = waiters < until ? waiters : until;
    r->sleeps_until = until;
    pthread_mutex_unlock(&r->lock);
    notify_chosen(r);
    return until;
}

static void runner_awake(seriatim_runner *r)
{
    pthread_mutex_lock(&r->lock);
    r->sleeps_until = 0;
    pthread_mutex_unlock(&r->lock);
}

static void runner_sleep(seriatim_runner *r, int64_t until)
{
    struct pollfd fds[1 + SRT_CHANNELS] = {{0, 0, 0}}; /* a poll that fails leaves revents as they were */
    int whose[1 + SRT_CHANNELS];
    int64_t now = srt_clock_ms();
    nfds_t count = 1;
    int which;
    fds[0].fd = r->wake[0];
    fds[0].events = POLLIN;
    for (which = 0; which < SRT_CHANNELS; which++) {
        runner_channel *c = &r->channels[which];
        int wants = srt_transport_wants(c->transport);
        int64_t deadline = c->state == CHANNEL_CLOSED ? c->retry_at : srt_transport_deadline(c->transport);
        if (deadline < until)
            until = deadline;
        if (c->state == CHANNEL_CLOSED)
            continue;
        whose[count] = which;
        fds[count].fd = srt_transport_fd(c->transport);
        fds[count].events = (short)((wants & SERIATIM_WANT_READ ? POLLIN : 0) |
                                    (wants & SERIATIM_WANT_WRITE || c->out.len ? POLLOUT : 0));
        count++;
    }
    if (until > now + 60000)
        until = now + 60000;
    poll(fds, count, until > now && !r->unread ? (int)(until - now) : 0);
    r->unread = 0;
    if (fds[0].revents)
        srt_pipe_drain(r->wake);
    while (count-- > 1)
        if (fds[count].revents)
            r->channels[whose[count]].drained = 0;
}

static void *runner_main(void *argument)
{
    seriatim_runner *r = argument;
    for (;;) {
        int64_t until;
        int which;
        for (which = 0; which < SRT_CHANNELS; which++)
            channel_step(r, which);
        until = runner_tick(r);
        for (which = 0; which < SRT_CHANNELS; which++) {
            runner_channel *c = &r->channels[which];
            if (c->state == CHANNEL_OPEN && channel_write(c) != SERIATIM_OK) {
                pthread_mutex_lock(&r->lock);
                channel_lost(r, which, srt_clock_ms());
                pthread_mutex_unlock(&r->lock);
            }
        }
        runner_sleep(r, until);
        runner_awake(r);
        if (__atomic_load_n(&r->ending, __ATOMIC_ACQUIRE))
            return NULL;
    }
}

/* ---- Making -------------------------------------------------------------------------------- */

/* Of a runner without a thread; it may open them again. */
static void pipes_close(seriatim_runner *r)
{
    size_t i;
    for (i = 0; i < r->waiters_count; i++)
        srt_waiters_close(r->mem, &r->waiters[i]);
    if (r->waiters)
        srt_free(r->mem, r->waiters, r->node->group_count * sizeof *r->waiters);
    r->waiters = NULL;
    r->waiters_count = 0;
    srt_pipe_close(r->wake);
}

static void runner_free_parts(seriatim_runner *r)
{
    size_t i;
    pipes_close(r);
    for (i = 0; i < SRT_CHANNELS; i++) {
        srt_transport_destroy(r->channels[i].transport);
        srt_bytes_free(&r->channels[i].out);
    }
    if (r->node)
        srt_node_free(r->node);
    srt_free(r->mem, r->inbox, RUNNER_READ);
    srt_url_free(&r->url);
    pthread_mutex_destroy(&r->lock);
    srt_free(r->mem, r, sizeof *r);
}

int seriatim_runner_new(const seriatim_node_settings *settings, const char *url, seriatim_runner **out,
                        seriatim_error *error)
{
    const seriatim_allocator *mem = settings->options.allocator ? settings->options.allocator : seriatim_default_allocator();
    seriatim_runner *r = srt_alloc(mem, sizeof *r);
    int status, i;
    if (!r)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    r->mem = mem;
    r->wake[0] = r->wake[1] = -1;
    r->url.mem = mem;
    pthread_mutex_init(&r->lock, NULL);
    for (i = 0; i < SRT_CHANNELS; i++)
        srt_bytes_init(&r->channels[i].out, mem);
    status = srt_url_parse(&r->url, mem, url, strlen(url), error);
    if (status == SERIATIM_OK)
        status = srt_node_new(settings, &r->node, error);
    if (status == SERIATIM_OK && !(r->inbox = srt_alloc(mem, RUNNER_READ)))
        status = srt_fail_plain(error, SERIATIM_NOMEM);
    for (i = 0; status == SERIATIM_OK && i < SRT_CHANNELS; i++)
        if (!(r->channels[i].transport = srt_transport_create(mem, &r->url)))
            status = srt_fail_plain(error, SERIATIM_NOMEM);
    if (status != SERIATIM_OK) {
        runner_free_parts(r);
        return status;
    }
    if (r->url.kind == SRT_URL_SENTINEL)
        srt_node_expect_masters(r->node);
    *out = r;
    return SERIATIM_OK;
}

int seriatim_runner_worker(seriatim_runner *r, const seriatim_queue_settings *settings, size_t *worker, seriatim_error *error)
{
    return srt_node_worker(r->node, settings, worker, error);
}

int seriatim_runner_group(seriatim_runner *r, int scheduler, const seriatim_shard *shards, size_t count, size_t *group,
                          seriatim_error *error)
{
    return srt_node_group(r->node, scheduler, shards, count, group, error);
}

static int pipe_failed(seriatim_error *error)
{
    char text[128];
    return srt_fail(error, SERIATIM_IO, "cannot open a pipe: %s", srt_errno_text(errno, text, sizeof text));
}

/* What it opened before it failed is for pipes_close. */
static int pipes_open(seriatim_runner *r, seriatim_error *error)
{
    size_t count = r->node->group_count;
    if (srt_pipe_open(r->wake) != SERIATIM_OK)
        return pipe_failed(error);
    r->waiters = srt_alloc(r->mem, count * sizeof *r->waiters);
    if (!r->waiters)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    for (; r->waiters_count < count; r->waiters_count++)
        if (srt_waiters_open(&r->waiters[r->waiters_count]) != SERIATIM_OK)
            return pipe_failed(error);
    return SERIATIM_OK;
}

/* The host's signals are its own business: none is delivered to this thread. */
static int start_thread(seriatim_runner *r, seriatim_error *error)
{
    sigset_t all, before;
    char text[128];
    int code;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&r->thread, NULL, runner_main, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0)
        return SERIATIM_OK;
    return srt_fail(error, SERIATIM_IO, "cannot start a thread: %s", srt_errno_text(code, text, sizeof text));
}

int seriatim_runner_start(seriatim_runner *r, seriatim_error *error)
{
    int status;
    if (r->running)
        return srt_fail(error, SERIATIM_INVALID, "the runner was started already");
    status = srt_node_start(r->node, srt_clock_ms(), error);
    if (status == SERIATIM_OK)
        status = pipes_open(r, error);
    if (status == SERIATIM_OK)
        status = start_thread(r, error);
    if (status == SERIATIM_OK)
        r->running = 1;
    else
        pipes_close(r);
    return status;
}

void seriatim_runner_free(seriatim_runner *r)
{
    if (!r)
        return;
    if (r->running) {
        __atomic_store_n(&r->ending, 1, __ATOMIC_RELEASE);
        srt_pipe_notify(r->wake);
        pthread_join(r->thread, NULL);
    }
    runner_free_parts(r);
}

/* ---- For the host's threads ---------------------------------------------------------------- */

/* Wakes the thread if the node now wants something earlier than it would look. With the lock. */
static void runner_hurry(seriatim_runner *r)
{
    const srt_node *n = r->node;
    int due = srt_timers_next(n) < r->sleeps_until;
    if (r->notified || r->sleeps_until == 0 || (!due && !n->stopping))
        return;
    r->notified = 1;
    srt_pipe_notify(r->wake);
}

/* Wakes the thread for an order that no timer shows. With the lock. */
static void runner_order(seriatim_runner *r)
{
    r->notified = 1;
    if (r->running)
        srt_pipe_notify(r->wake);
}

static void runner_taken(seriatim_runner *r, size_t group, int status, seriatim_delivery *const *delivery, int64_t now_us)
{
    srt_group *g = &r->node->groups[group];
    srt_wait_queue *queue = &r->waiters[group];
    int64_t now = now_us / 1000;
    if (status == SERIATIM_OK) {
        const srt_shard *s = (*delivery)->shard;
        (*delivery)->taken_us = now_us;
        srt_waiters_taken(queue, s->ready.count == 0 && s->claiming, now);
    }
    if (status == SERIATIM_AGAIN) {
        g->waiting++;
        srt_waiters_found_nothing(queue, now);
    } else if (status == SERIATIM_CLOSED) {
        srt_waiters_wake(queue, now);
    } else if (status == SERIATIM_OK && srt_waiters_more(queue, g->waiting)) {
        int first = g->hooks || g->singles.first || g->died.first;
        if (first || (g->ready_count && !srt_waiters_keep_up(queue, g->held, now)))
            srt_waiters_wake(queue, now);
    }
    runner_hurry(r);
}

int seriatim_runner_take(seriatim_runner *r, size_t group, seriatim_delivery **delivery)
{
    return seriatim_runner_settle_and_take(r, NULL, group, delivery);
}

int seriatim_runner_take_from(seriatim_runner *r, size_t group, seriatim_shard shard, seriatim_delivery **delivery)
{
    int64_t now_us = srt_clock_us();
    int status;
    pthread_mutex_lock(&r->lock);
    status = srt_node_take_from(r->node, group, shard, now_us / 1000, delivery);
    runner_taken(r, group, status, delivery, now_us);
    pthread_mutex_unlock(&r->lock);
    return status;
}

size_t seriatim_runner_candidates(seriatim_runner *r, size_t group, seriatim_candidate *list, size_t cap)
{
    size_t count;
    pthread_mutex_lock(&r->lock);
    count = srt_node_candidates(r->node, group, srt_clock_ms(), list, cap);
    pthread_mutex_unlock(&r->lock);
    return count;
}

/* With the lock. */
static void runner_settled(seriatim_runner *r, seriatim_delivery *delivery, int64_t now_us)
{
    srt_waiters_ended(&r->waiters[delivery->shard->group], now_us - delivery->taken_us);
    srt_node_settle(r->node, delivery, now_us / 1000);
    if (r->node->solo != SRT_SOLO_NONE)
        runner_order(r);
}

int seriatim_runner_settle(seriatim_runner *r, seriatim_delivery *delivery)
{
    int64_t now_us = srt_clock_us();
    pthread_mutex_lock(&r->lock);
    runner_settled(r, delivery, now_us);
    runner_hurry(r);
    pthread_mutex_unlock(&r->lock);
    return SERIATIM_OK;
}

int seriatim_runner_settle_and_take(seriatim_runner *r, seriatim_delivery *settled, size_t group, seriatim_delivery **next)
{
    int64_t now_us = srt_clock_us();
    int status;
    pthread_mutex_lock(&r->lock);
    if (settled)
        runner_settled(r, settled, now_us);
    status = srt_node_take(r->node, group, now_us / 1000, next);
    runner_taken(r, group, status, next, now_us);
    pthread_mutex_unlock(&r->lock);
    return status;
}

int seriatim_runner_extend(seriatim_runner *r, seriatim_delivery *delivery, size_t i, double seconds)
{
    int status;
    pthread_mutex_lock(&r->lock);
    status = srt_node_extend(r->node, delivery, i, seconds, srt_clock_ms());
    runner_hurry(r);
    pthread_mutex_unlock(&r->lock);
    return status;
}

int seriatim_runner_fd(const seriatim_runner *r, size_t group)
{
    return srt_waiter_fd(&r->waiters[group], NULL);
}

void seriatim_runner_clear(seriatim_runner *r, size_t group)
{
    seriatim_runner_wait_end(r, group, NULL);
}

int seriatim_runner_wait_begin(seriatim_runner *r, size_t group, seriatim_waiter **waiter)
{
    int fd;
    pthread_mutex_lock(&r->lock);
    *waiter = srt_waiters_add(r->mem, &r->waiters[group]);
    fd = srt_waiter_fd(&r->waiters[group], *waiter);
    pthread_mutex_unlock(&r->lock);
    return fd;
}

void seriatim_runner_wait_end(seriatim_runner *r, size_t group, seriatim_waiter *waiter)
{
    pthread_mutex_lock(&r->lock);
    srt_waiters_remove(&r->waiters[group], waiter);
    if (r->node->groups[group].waiting > 0)
        r->node->groups[group].waiting--;
    pthread_mutex_unlock(&r->lock);
}

void seriatim_runner_wake_all(seriatim_runner *r)
{
    int64_t now = srt_clock_ms();
    size_t i;
    pthread_mutex_lock(&r->lock);
    for (i = 0; i < r->waiters_count; i++) {
        while (r->waiters[i].waiting)
            srt_waiters_wake(&r->waiters[i], now);
        srt_waiters_wake(&r->waiters[i], now); /* whoever watches the descriptor of the group */
    }
    pthread_mutex_unlock(&r->lock);
}

void seriatim_runner_wait(seriatim_runner *r, size_t group, int timeout_ms)
{
    seriatim_waiter *waiter;
    struct pollfd fd = {seriatim_runner_wait_begin(r, group, &waiter), POLLIN, 0};
    poll(&fd, 1, timeout_ms);
    seriatim_runner_wait_end(r, group, waiter);
}

int seriatim_runner_event(seriatim_runner *r, seriatim_event *event)
{
    int status;
    pthread_mutex_lock(&r->lock);
    status = srt_node_event(r->node, srt_clock_ms(), event);
    pthread_mutex_unlock(&r->lock);
    return status;
}

const char *seriatim_runner_failure(seriatim_runner *r, const seriatim_delivery *d, size_t i)
{
    const char *event;
    pthread_mutex_lock(&r->lock);
    event = srt_node_failure(r->node, d, i, srt_clock_ms());
    pthread_mutex_unlock(&r->lock);
    return event;
}

void seriatim_runner_pulse(seriatim_runner *r)
{
    pthread_mutex_lock(&r->lock);
    srt_node_pulse(r->node, srt_clock_ms());
    pthread_mutex_unlock(&r->lock);
}

static void runner_tell(seriatim_runner *r, void (*order)(srt_node *, int64_t))
{
    pthread_mutex_lock(&r->lock);
    order(r->node, srt_clock_ms());
    runner_order(r);
    pthread_mutex_unlock(&r->lock);
}

void seriatim_runner_quiet(seriatim_runner *r)
{
    runner_tell(r, srt_node_quiet);
}

void seriatim_runner_stop(seriatim_runner *r)
{
    runner_tell(r, srt_node_stop);
}

void seriatim_runner_abandon(seriatim_runner *r)
{
    runner_tell(r, srt_node_abandon);
}

int seriatim_runner_asked(seriatim_runner *r)
{
    int order;
    pthread_mutex_lock(&r->lock);
    order = srt_node_asked(r->node);
    pthread_mutex_unlock(&r->lock);
    return order;
}

int seriatim_runner_stopped(seriatim_runner *r)
{
    int stopped;
    pthread_mutex_lock(&r->lock);
    stopped = r->node->stopped;
    pthread_mutex_unlock(&r->lock);
    return stopped;
}

seriatim_runner_stats seriatim_runner_stats_now(seriatim_runner *r)
{
    seriatim_runner_stats stats;
    const srt_node *n = r->node;
    size_t i;
    pthread_mutex_lock(&r->lock);
    stats = n->stats;
    stats.commands = n->sessions[SRT_COMMANDS].commands + n->sessions[SRT_WAKES].commands;
    stats.shards = stats.claimed = 0;
    for (i = 0; i < n->shard_count; i++) {
        stats.shards += n->shards[i]->state == SRT_OWNED;
        stats.claimed += n->shards[i]->ready.count + n->shards[i]->apart;
    }
    pthread_mutex_unlock(&r->lock);
    return stats;
}

/* runner_host.c - the functions that the host's threads call. They take and settle under the runner's lock. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "io/runner_state.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

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

/* Wakes the thread for a call of the host that no timer knows of. With the lock. */
static void runner_order(seriatim_runner *r)
{
    r->notified = 1;
    if (r->running)
        srt_pipe_notify(r->wake);
}

/* With the lock. Groups are known from the start of the runner on. */
static int runner_has(const seriatim_runner *r, size_t group)
{
    return group < r->waiters_count;
}

static void runner_taken(seriatim_runner *r, size_t group, int status, seriatim_delivery *const *delivery,
                         int64_t now_us)
{
    srt_group *g = &r->node->groups[group];
    srt_wait_queue *queue = &r->waiters[group];
    int64_t now = now_us / 1000;
    if (status == SERIATIM_OK) {
        const srt_shard *s = (*delivery)->shard;
        srt_delivery_taken(*delivery, now_us);
        srt_waiters_taken(queue, s->ready.count == 0 && s->claiming, now);
    }
    if (status == SERIATIM_AGAIN) {
        g->waiting++;
        srt_waiters_found_nothing(queue, now);
    } else if (status == SERIATIM_CLOSED) {
        srt_waiters_wake(queue, now);
    } else if (status == SERIATIM_OK && srt_waiters_more(queue, g->waiting)) {
        int first = g->exhausted || g->quarantined.first || g->died.first;
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
    int status = SERIATIM_INVALID;
    pthread_mutex_lock(&r->lock);
    if (runner_has(r, group)) {
        status = srt_node_take_from(r->node, group, shard, now_us / 1000, delivery);
        runner_taken(r, group, status, delivery, now_us);
    }
    pthread_mutex_unlock(&r->lock);
    return status;
}

size_t seriatim_runner_candidates(seriatim_runner *r, size_t group, seriatim_candidate *list, size_t cap)
{
    size_t count;
    pthread_mutex_lock(&r->lock);
    count = runner_has(r, group) ? srt_node_candidates(r->node, group, srt_clock_ms(), list, cap) : 0;
    pthread_mutex_unlock(&r->lock);
    return count;
}

void srt_runner_wake_flushes(seriatim_runner *r, int64_t now)
{
    r->node->checkpoint_news = 0;
    while (r->flushing.waiting)
        srt_waiters_wake(&r->flushing, now);
}

/* With the lock: ends the waiting of threads for checkpoints of this delivery. NULL: of every delivery. */
static void end_flushes(seriatim_runner *r, const seriatim_delivery *delivery, int64_t now)
{
    seriatim_flush *f;
    for (f = r->flushes; f; f = f->next)
        if (!delivery || f->delivery == delivery)
            f->delivery = NULL;
    if (r->flushes)
        srt_runner_wake_flushes(r, now);
}

/* With the lock. */
static void runner_settled(seriatim_runner *r, seriatim_delivery *delivery, int64_t now_us)
{
    srt_waiters_ended(&r->waiters[delivery->shard->group], now_us - delivery->taken_us);
    end_flushes(r, delivery, now_us / 1000);
    srt_delivery_timed(delivery, now_us);
    srt_node_settle(r->node, delivery, now_us / 1000);
    if (r->node->quarantine.step != SRT_QUARANTINE_NONE)
        runner_order(r);
}

int seriatim_runner_settle(seriatim_runner *r, seriatim_delivery *delivery)
{
    int64_t now_us = srt_clock_us();
    if (!delivery)
        return SERIATIM_OK;
    pthread_mutex_lock(&r->lock);
    runner_settled(r, delivery, now_us);
    runner_hurry(r);
    pthread_mutex_unlock(&r->lock);
    return SERIATIM_OK;
}

int seriatim_runner_settle_and_take(seriatim_runner *r, seriatim_delivery *settled, size_t group,
                                    seriatim_delivery **next)
{
    int64_t now_us = srt_clock_us();
    int status = SERIATIM_INVALID;
    pthread_mutex_lock(&r->lock);
    if (settled)
        runner_settled(r, settled, now_us);
    if (runner_has(r, group)) {
        status = srt_node_take(r->node, group, now_us / 1000, next);
        runner_taken(r, group, status, next, now_us);
    } else if (settled) {
        runner_hurry(r);
    }
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

int seriatim_runner_checkpoint(seriatim_runner *r, seriatim_delivery *delivery, size_t i, size_t count)
{
    int status;
    pthread_mutex_lock(&r->lock);
    status = srt_node_checkpoint(r->node, delivery, i, count, srt_clock_ms());
    runner_hurry(r);
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* how often a thread looks that has no pipe of its own, because memory or descriptors are short */
#define FLUSH_POLL_MS 10

/* With the lock, which it releases while it waits, at most this long. Returns 0 when a signal came. */
static int flush_wait(seriatim_runner *r, int64_t wait_ms)
{
    seriatim_waiter *waiter = srt_waiters_add(r->mem, &r->flushing);
    struct pollfd fd = {waiter ? srt_waiter_fd(&r->flushing, waiter) : -1, POLLIN, 0};
    int64_t most = waiter ? 60000 : FLUSH_POLL_MS;
    int polled;
    pthread_mutex_unlock(&r->lock);
    polled = poll(&fd, 1, (int)(wait_ms < most ? wait_ms : most));
    pthread_mutex_lock(&r->lock);
    if (waiter)
        srt_waiters_remove(&r->flushing, waiter);
    return polled >= 0;
}

int seriatim_runner_flush_begin(seriatim_runner *r, seriatim_delivery *delivery, seriatim_flush *flush)
{
    int status;
    pthread_mutex_lock(&r->lock);
    flush->delivery = delivery;
    flush->next = r->flushes;
    r->flushes = flush;
    status = srt_node_flushed(delivery);
    pthread_mutex_unlock(&r->lock);
    return status;
}

int seriatim_runner_flush_wait(seriatim_runner *r, seriatim_flush *flush, int timeout_ms)
{
    int64_t now = srt_clock_ms(), until = timeout_ms < 0 ? SRT_NEVER : now + timeout_ms;
    int status;
    pthread_mutex_lock(&r->lock);
    do {
        status = flush->delivery ? srt_node_flushed(flush->delivery) : SERIATIM_CLOSED;
    } while (status == SERIATIM_AGAIN && (now = srt_clock_ms()) < until && flush_wait(r, until - now));
    pthread_mutex_unlock(&r->lock);
    return status;
}

void seriatim_runner_flush_end(seriatim_runner *r, seriatim_flush *flush)
{
    seriatim_flush **from = &r->flushes;
    pthread_mutex_lock(&r->lock);
    while (*from != flush)
        from = &(*from)->next;
    *from = flush->next;
    pthread_mutex_unlock(&r->lock);
}

int seriatim_runner_flush(seriatim_runner *r, seriatim_delivery *delivery, int timeout_ms)
{
    seriatim_flush own;
    int status = seriatim_runner_flush_begin(r, delivery, &own);
    if (status == SERIATIM_AGAIN && timeout_ms != 0)
        status = seriatim_runner_flush_wait(r, &own, timeout_ms);
    seriatim_runner_flush_end(r, &own);
    return status;
}

int seriatim_runner_fd(seriatim_runner *r, size_t group)
{
    int fd;
    pthread_mutex_lock(&r->lock);
    fd = runner_has(r, group) ? srt_waiter_fd(&r->waiters[group], NULL) : -1;
    pthread_mutex_unlock(&r->lock);
    return fd;
}

void seriatim_runner_clear(seriatim_runner *r, size_t group)
{
    seriatim_runner_wait_end(r, group, NULL);
}

int seriatim_runner_wait_begin(seriatim_runner *r, size_t group, seriatim_waiter **waiter)
{
    int fd = -1;
    *waiter = NULL;
    pthread_mutex_lock(&r->lock);
    if (runner_has(r, group)) {
        *waiter = srt_waiters_add(r->mem, &r->waiters[group]);
        fd = srt_waiter_fd(&r->waiters[group], *waiter);
    }
    pthread_mutex_unlock(&r->lock);
    return fd;
}

void seriatim_runner_wait_end(seriatim_runner *r, size_t group, seriatim_waiter *waiter)
{
    pthread_mutex_lock(&r->lock);
    if (runner_has(r, group)) {
        srt_waiters_remove(&r->waiters[group], waiter);
        if (r->node->groups[group].waiting > 0)
            r->node->groups[group].waiting--;
    }
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
        srt_waiters_wake(&r->waiters[i], now); /* the thread that watches the descriptor of the group */
    }
    end_flushes(r, NULL, now);
    pthread_mutex_unlock(&r->lock);
}

void seriatim_runner_wait(seriatim_runner *r, size_t group, int timeout_ms)
{
    seriatim_waiter *waiter;
    struct pollfd fd = {seriatim_runner_wait_begin(r, group, &waiter), POLLIN, 0};
    if (fd.fd < 0)
        return;
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

int seriatim_runner_worker(seriatim_runner *r, const seriatim_queue_settings *settings, size_t *worker,
                           seriatim_error *error)
{
    int status;
    pthread_mutex_lock(&r->lock);
    status = srt_node_worker(r->node, settings, worker, error);
    runner_order(r);
    pthread_mutex_unlock(&r->lock);
    return status;
}

int seriatim_runner_withdraw(seriatim_runner *r, size_t worker, seriatim_error *error)
{
    int status;
    pthread_mutex_lock(&r->lock);
    status = srt_node_withdraw(r->node, worker, srt_clock_ms(), error);
    runner_order(r);
    pthread_mutex_unlock(&r->lock);
    return status;
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
    stopped = srt_node_is_stopped(r->node);
    pthread_mutex_unlock(&r->lock);
    return stopped;
}

size_t seriatim_runner_unfinished(seriatim_runner *r, char *out, size_t cap)
{
    size_t count;
    pthread_mutex_lock(&r->lock);
    count = srt_node_unfinished(r->node, out, cap);
    pthread_mutex_unlock(&r->lock);
    return count;
}

seriatim_runner_stats seriatim_runner_stats_now(seriatim_runner *r)
{
    seriatim_runner_stats stats;
    pthread_mutex_lock(&r->lock);
    stats = srt_node_stats(r->node);
    stats.connected = stats.connected && !srt_node_expired(r->node, srt_clock_ms());
    pthread_mutex_unlock(&r->lock);
    return stats;
}

/*
 * waiters.c - threads that wait for a delivery: which of them is woken, and when waking another one would only slow the
 * others down.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "io/waiters.h"

#include <unistd.h>

#define WAIT_TINY_US 20  /* a job that takes less is done before another thread would be awake */
#define WAIT_LONG_US 100 /* longer times are counted as this: they come from threads that did not get a processor */
/* how long the threads awake may be behind with such jobs before another one is woken */
#define WAIT_PATIENCE_MS 10

struct seriatim_waiter {
    int pipe[2];
    int woken;
    seriatim_waiter *next; /* in the one list of its queue that it is in */
};

/* ---- Waiters ------------------------------------------------------------------------------- */

static seriatim_waiter *waiter_new(const seriatim_allocator *mem)
{
    seriatim_waiter *waiter = srt_alloc(mem, sizeof *waiter);
    if (!waiter)
        return NULL;
    if (srt_pipe_open(waiter->pipe) == SERIATIM_OK)
        return waiter;
    srt_free(mem, waiter, sizeof *waiter);
    return NULL;
}

static void waiters_free(const seriatim_allocator *mem, seriatim_waiter *waiter)
{
    while (waiter) {
        seriatim_waiter *next = waiter->next;
        srt_pipe_close(waiter->pipe);
        srt_free(mem, waiter, sizeof *waiter);
        waiter = next;
    }
}

static void waiter_unlink(seriatim_waiter **from, const seriatim_waiter *waiter)
{
    while (*from && *from != waiter)
        from = &(*from)->next;
    if (*from)
        *from = waiter->next;
}

int srt_waiters_open(srt_wait_queue *queue)
{
    queue->hold_us = 16 * WAIT_LONG_US;
    return srt_pipe_open(queue->pipe);
}

void srt_waiters_close(const seriatim_allocator *mem, srt_wait_queue *queue)
{
    srt_pipe_close(queue->pipe);
    waiters_free(mem, queue->waiting);
    waiters_free(mem, queue->woken);
    waiters_free(mem, queue->free);
}

seriatim_waiter *srt_waiters_add(const seriatim_allocator *mem, srt_wait_queue *queue)
{
    seriatim_waiter *own;
    if (queue->notified)
        return NULL;
    own = queue->free ? queue->free : waiter_new(mem);
    if (!own)
        return NULL;
    waiter_unlink(&queue->free, own);
    own->woken = 0;
    own->next = queue->waiting;
    queue->waiting = own;
    return own;
}

int srt_waiter_fd(const srt_wait_queue *queue, const seriatim_waiter *waiter)
{
    return waiter ? waiter->pipe[0] : queue->pipe[0];
}

void srt_waiters_remove(srt_wait_queue *queue, seriatim_waiter *waiter)
{
    if (!waiter) {
        srt_pipe_drain(queue->pipe);
        queue->notified = 0;
        return;
    }
    srt_pipe_drain(waiter->pipe); /* also of a byte that came when the thread before had left, see to_notify */
    if (waiter->woken) {
        waiter_unlink(&queue->woken, waiter);
        queue->woken_count--;
    } else {
        waiter_unlink(&queue->waiting, waiter);
    }
    waiter->next = queue->free;
    queue->free = waiter;
}

/* ---- Whom to wake -------------------------------------------------------------------------- */

int *srt_waiters_choose(srt_wait_queue *queue, int64_t now)
{
    seriatim_waiter *waiter = queue->waiting;
    int was_notified = queue->notified;
    queue->caught_up_at = queue->last_take_at = now;
    if (!waiter) {
        queue->notified = 1;
        return was_notified ? NULL : queue->pipe;
    }
    queue->waiting = waiter->next;
    waiter->next = queue->woken;
    queue->woken = waiter;
    queue->woken_count++;
    waiter->woken = 1;
    return waiter->pipe;
}

void srt_waiters_wake(srt_wait_queue *queue, int64_t now)
{
    int *pipe = srt_waiters_choose(queue, now);
    if (pipe)
        srt_pipe_notify(pipe);
}

int srt_waiters_more(const srt_wait_queue *queue, size_t waiting)
{
    return queue->waiting || waiting > queue->woken_count;
}

int srt_waiters_keep_up(const srt_wait_queue *queue, size_t held, int64_t now)
{
    if (!queue->waiting)
        return 0;
    if (held == 0)
        return queue->woken_count > 0;
    return queue->hold_us < 16 * WAIT_TINY_US && now - queue->caught_up_at < WAIT_PATIENCE_MS &&
           now - queue->last_take_at < SRT_WAIT_STUCK_MS;
}

void srt_waiters_taken(srt_wait_queue *queue, int all, int64_t now)
{
    queue->last_take_at = now;
    if (all)
        queue->caught_up_at = now;
}

void srt_waiters_found_nothing(srt_wait_queue *queue, int64_t now)
{
    queue->caught_up_at = now;
}

void srt_waiters_ended(srt_wait_queue *queue, int64_t held_us)
{
    queue->hold_us += (held_us < WAIT_LONG_US ? held_us : WAIT_LONG_US) - queue->hold_us / 16;
}

/*
 * waiters.h - threads that wait for a delivery: which of them is woken, and when waking another one would only slow the
 * others down.
 *
 * A thread waits in one of two ways. On a pipe of its own: then it is woken alone, and the thread that began to wait
 * last is woken first. Or on the pipe of the queue, as an event loop does: that pipe is notified once, and again only
 * after a thread has come. All functions are called with the lock of the runner, unless their comment says otherwise.
 */
#ifndef SRT_WAITERS_H
#define SRT_WAITERS_H

#include "base/bytes.h"
#include "base/pipe.h"

#define SRT_WAIT_STUCK_MS 2 /* if nothing that is ready was taken for this time, another thread is woken */

typedef struct srt_wait_queue {
    int pipe[2];
    int notified;
    seriatim_waiter *waiting, *woken, *free; /* woken: the thread was notified and has not come yet */
    size_t woken_count;
    int *to_notify; /* chosen with the lock, and notified without it, because the woken thread takes the lock at once */

    int64_t hold_us; /* 16 times the moving average of the microseconds that a thread holds a delivery; each counts for
                        a 16th */
    int64_t caught_up_at; /* the threads awake had taken all there was of a shard with more to claim, or one more was
                             woken */
    int64_t last_take_at; /* or the last wake */
} srt_wait_queue;

int srt_waiters_open(srt_wait_queue *queue); /* SERIATIM_IO: errno says why */
void srt_waiters_close(const seriatim_allocator *mem, srt_wait_queue *queue);
/*
 * Chooses a thread to wake. Returns its pipe, which the caller notifies; NULL: the queue's own pipe was chosen, and it
 * is notified.
 */
int *srt_waiters_choose(srt_wait_queue *queue, int64_t now);
void srt_waiters_wake(srt_wait_queue *queue, int64_t now);
/* `waiting` threads found nothing and have not come back: does one of them wait that was not woken yet? */
int srt_waiters_more(const srt_wait_queue *queue, size_t waiting);
/*
 * 1: the threads that wait are better left alone, because jobs are tiny and those awake, which hold `held` deliveries,
 * keep up with what is claimed; one more would be in their way, and in that of Redis. 0 for whoever watches the queue's
 * pipe.
 */
int srt_waiters_keep_up(const srt_wait_queue *queue, size_t held, int64_t now);
/* A delivery was taken; `all`: nothing is left of its shard, and a claim for more is on its way. */
void srt_waiters_taken(srt_wait_queue *queue, int all, int64_t now);
/* A thread asked for a delivery, and nothing was ready. */
void srt_waiters_found_nothing(srt_wait_queue *queue, int64_t now);
/* A delivery was handed back after held_us. */
void srt_waiters_ended(srt_wait_queue *queue, int64_t held_us);
/* NULL: the caller waits for the queue's own pipe, because it was notified already or memory is short. */
seriatim_waiter *srt_waiters_add(const seriatim_allocator *mem, srt_wait_queue *queue);
int srt_waiter_fd(const srt_wait_queue *queue, const seriatim_waiter *waiter);
/* The thread does not wait any more, woken or not. `waiter` may be NULL, as srt_waiters_add returned it. */
void srt_waiters_remove(srt_wait_queue *queue, seriatim_waiter *waiter);

#endif

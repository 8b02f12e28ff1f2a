/*
 * turns.c - whose turn it is among queues that are popped with weights. The clients of a process share it, in any
 * threads: each function holds the lock for a few instructions for each queue.
 */
#include "client/turns.h"

#include "model/policy.h"

#include <sched.h>
#include <unistd.h>

struct srt_turn {
    srt_turn *next;
    srt_bytes name; /* of the queue */
    uint64_t hash;
    int64_t credit; /* how much it has gathered of its weights */
};

struct seriatim_turns {
    const seriatim_allocator *mem;
    srt_turn *first;
    int holder; /* the pid of the process whose thread holds the lock; 0: nobody does */
};

/*
 * A thread may hold the lock while another one forks. In the child no thread will ever release it, so a lock that
 * belongs to another process is taken over. The list is whole at every moment: a turn is linked when it is complete,
 * and none is moved or removed.
 */
static void turns_lock(seriatim_turns *turns)
{
    int own = (int)getpid(), holder = 0;
    while (!__atomic_compare_exchange_n(&turns->holder, &holder, own, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        if (holder == own) {
            holder = 0;
            sched_yield();
        }
}

static void turns_unlock(seriatim_turns *turns)
{
    __atomic_store_n(&turns->holder, 0, __ATOMIC_RELEASE);
}

seriatim_turns *seriatim_turns_new(const seriatim_allocator *allocator)
{
    const seriatim_allocator *mem = allocator ? allocator : seriatim_default_allocator();
    seriatim_turns *turns = srt_alloc(mem, sizeof *turns);
    if (turns)
        turns->mem = mem;
    return turns;
}

static void turn_free(const seriatim_allocator *mem, srt_turn *turn)
{
    srt_bytes_free(&turn->name);
    srt_free(mem, turn, sizeof *turn);
}

void seriatim_turns_free(seriatim_turns *turns)
{
    srt_turn *turn, *next;
    if (!turns)
        return;
    for (turn = turns->first; turn; turn = next) {
        next = turn->next;
        turn_free(turns->mem, turn);
    }
    srt_free(turns->mem, turns, sizeof *turns);
}

static srt_turn *turn_add(seriatim_turns *turns, const srt_queue *queue, uint64_t hash)
{
    srt_turn *turn = srt_alloc(turns->mem, sizeof *turn);
    if (!turn)
        return NULL;
    srt_bytes_init(&turn->name, turns->mem);
    srt_bytes_add(&turn->name, queue->name.data, queue->name.len);
    if (turn->name.failed) {
        turn_free(turns->mem, turn);
        return NULL;
    }
    turn->hash = hash;
    turn->next = turns->first;
    turns->first = turn;
    return turn;
}

srt_turn *srt_turns_find(seriatim_turns *turns, const srt_queue *queue)
{
    uint64_t hash = srt_hash(queue->name.data, queue->name.len);
    srt_turn *turn;
    turns_lock(turns);
    for (turn = turns->first; turn; turn = turn->next)
        if (turn->hash == hash && srt_bytes_equal(&turn->name, queue->name.data, queue->name.len))
            break;
    if (!turn)
        turn = turn_add(turns, queue, hash);
    turns_unlock(turns);
    return turn;
}

/* Of two queues with the same credit the one that was named first stays first. */
void srt_turns_sort(seriatim_turns *turns, size_t *queues, srt_turn **of, int64_t *weights, size_t count)
{
    size_t i, at;
    turns_lock(turns);
    for (i = 1; i < count; i++) {
        size_t queue = queues[i];
        srt_turn *turn = of[i];
        int64_t weight = weights[i];
        for (at = i; at > 0 && of[at - 1]->credit + weights[at - 1] < turn->credit + weight; at--) {
            queues[at] = queues[at - 1];
            of[at] = of[at - 1];
            weights[at] = weights[at - 1];
        }
        queues[at] = queue;
        of[at] = turn;
        weights[at] = weight;
    }
    turns_unlock(turns);
}

void srt_turns_take(seriatim_turns *turns, srt_turn *const *of, const int64_t *weights, size_t count, size_t taken)
{
    int64_t all = 0;
    size_t i;
    turns_lock(turns);
    for (i = 0; i < count; i++) {
        of[i]->credit = i < taken ? 0 : of[i]->credit + weights[i];
        all += i < taken ? 0 : weights[i];
    }
    of[taken]->credit -= all;
    turns_unlock(turns);
}

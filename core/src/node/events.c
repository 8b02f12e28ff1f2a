/*
 * events.c - what a node reports to its host: at most SRT_EVENTS at a time, and failures of a queue at a bounded rate.
 */
#include "node/node_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FAILURES_MS 1000
#define FAILURES_TOLD 10 /* failures of one queue reported in that time */

void srt_node_tell(srt_node *n, int kind, int64_t number, const char *format, ...)
{
    seriatim_event *event;
    va_list args;
    if (n->events.count == SRT_EVENTS) {
        n->events.lost++;
        return;
    }
    event = &n->events.list[(n->events.first + n->events.count++) % SRT_EVENTS];
    event->kind = kind;
    event->number = number;
    va_start(args, format);
    vsnprintf(event->text, sizeof event->text, format, args);
    va_end(args);
}

int srt_node_may_log(srt_node *n, size_t worker, int64_t now)
{
    srt_queue *queue = n->workers[worker];
    if (!queue->failures.crowded && now - queue->failures.since_ms >= FAILURES_MS) {
        queue->failures.since_ms = now;
        queue->failures.told = 0;
    }
    if (!queue->failures.crowded && queue->failures.told < FAILURES_TOLD) {
        queue->failures.told++;
        return 1;
    }
    queue->failures.crowded = 1;
    queue->failures.kept++;
    return 0;
}

/*
 * Payloads that cannot be read go to the morgue at once; others at max_retry_count, by the same rule as in settle.lua.
 */
static const char *failure_event(const srt_job *job)
{
    const srt_settings *now = &job->shard->queue->now;
    if (job->outcome == SRT_REJECTED)
        return "dead";
    if (job->outcome != SRT_FAILED || job->record.retry_count + 1 < now->max_retry_count)
        return "fail";
    return strcmp(now->on_exhausted, "park") == 0   ? "parked"
           : strcmp(now->on_exhausted, "drop") == 0 ? "dropped"
                                                    : "dead";
}

const char *srt_node_failure(srt_node *n, const seriatim_delivery *d, size_t i, int64_t now)
{
    return i < d->count && srt_node_may_log(n, d->shard->worker, now) ? failure_event(d->jobs[i]) : NULL;
}

/* One event for each second in which failures of a queue were not reported singly, with their count; the last one also
 * after the node has stopped. */
static void tell_failures(srt_node *n, int64_t now)
{
    size_t i;
    for (i = 0; i < n->worker_count && n->events.count < SRT_EVENTS; i++) {
        srt_queue *queue = n->workers[i];
        if (!queue->failures.crowded || (now - queue->failures.since_ms < FAILURES_MS && !n->stopped))
            continue;
        if (queue->failures.kept)
            srt_node_tell(n, SERIATIM_EVENT_FAILURES, queue->failures.kept,
                          "%lld more failures in queue %.*s are not logged one by one", (long long)queue->failures.kept,
                          (int)(queue->name.len < 150 ? queue->name.len : 150), queue->name.data);
        queue->failures.crowded = queue->failures.kept > FAILURES_TOLD;
        queue->failures.kept = queue->failures.told = 0;
        queue->failures.since_ms = now;
    }
}

int srt_node_event(srt_node *n, int64_t now, seriatim_event *event)
{
    if (n->events.count == 0)
        tell_failures(n, now);
    if (n->events.count == 0)
        return SERIATIM_AGAIN;
    *event = n->events.list[n->events.first];
    n->events.first = (n->events.first + 1) % SRT_EVENTS;
    n->events.count--;
    if (n->events.count == 0 && n->events.lost) {
        size_t lost = n->events.lost;
        n->events.lost = 0;
        srt_node_tell(n, SERIATIM_EVENT_WARNING, (int64_t)lost, "%lu more events were dropped", (unsigned long)lost);
    }
    return SERIATIM_OK;
}

void srt_node_wake_threads(srt_node *node)
{
    size_t i;
    for (i = 0; i < node->group_count; i++)
        node->groups[i].wake_pending = 1;
}

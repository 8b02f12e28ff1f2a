/* push_check.c - what a job may be. */
#include "base/printable.h"
#include "client/push.h"
#include "model/policy.h"

#include <math.h>
#include <stdio.h>

#define PUSH_MILLISECONDS 2.6e11 /* as seconds, behind the year 9999, where dates end; as milliseconds, 1978 */
#define PUSH_LATEST 1e11         /* where the time is not known yet: the year 5138 */
#define PUSH_OLDEST 1e9          /* September 2001: a positive time before it was meant as seconds from now */
#define PUSH_YEAR 31556952.0     /* seconds, as the calendar has them on average */
#define PUSH_DAY 86400.0         /* by which the host's clock may be behind */
#define PUSH_LARGEST_NUMBER (INT64_C(1) << 53)
#define PUSH_SHOWN 48 /* bytes that an error shows of a queue's name or of an id */

/* Unix seconds of a field; `where` stands before its name, `hint` says how to tell seconds from now. */
int srt_check_unix_time(seriatim_client *c, const char *where, const char *field, const char *hint, double time)
{
    double limit = c->unix_time > 0 ? c->unix_time + PUSH_DAY + SRT_CENTURY_SECONDS : PUSH_LATEST;
    if (!isfinite(time))
        return srt_fail(&c->error, SERIATIM_INVALID, "%s%s must be a finite number", where, field);
    if (time > 0 && time < PUSH_OLDEST)
        return srt_fail(&c->error, SERIATIM_INVALID, "%s%s: %.10g is in %d; for seconds from now %s", where, field,
                        time, 1970 + (int)(time / PUSH_YEAR), hint);
    if (time >= PUSH_MILLISECONDS)
        return srt_fail(&c->error, SERIATIM_INVALID, "%s%s looks like milliseconds: it is Unix time in seconds", where,
                        field);
    if (time > limit)
        return srt_fail(&c->error, SERIATIM_INVALID, "%s%s is more than 100 years ahead", where, field);
    return SERIATIM_OK;
}

/*
 * A time that may be said in two ways: names[0] is the field of Unix seconds, names[1] that of seconds from now, and
 * names[2] the hint at it.
 */
static int push_check_when(seriatim_client *c, const char *where, const char *const names[3], int when, double time)
{
    if (when == SERIATIM_NOW)
        return SERIATIM_OK;
    if (when == SERIATIM_AT)
        return srt_check_unix_time(c, where, names[0], names[2], time);
    if (when != SERIATIM_DELAY)
        return srt_fail(&c->error, SERIATIM_INVALID, "%swhen must be NOW, AT or DELAY", where);
    if (!isfinite(time))
        return srt_fail(&c->error, SERIATIM_INVALID, "%s%s must be a finite number", where, names[1]);
    if (time > SRT_CENTURY_SECONDS)
        return srt_fail(&c->error, SERIATIM_INVALID, "%s%s is more than 100 years ahead", where, names[1]);
    return SERIATIM_OK;
}

static int push_check_times(seriatim_client *c, const seriatim_job *job, unsigned long at)
{
    static const char *const due[3] = {"perform_in", "delay", "use deliver_in (this payload) or delay (its id)"};
    static const char *const delivery[3] = {"deliver_at", "deliver_in", "use deliver_in"};
    char where[40];
    int status;
    if (job->when == SERIATIM_NOW && job->deliver_when == SERIATIM_NOW)
        return SERIATIM_OK;
    snprintf(where, sizeof where, "jobs[%lu]: ", at);
    status = push_check_when(c, where, due, job->when, job->time);
    return status == SERIATIM_OK ? push_check_when(c, where, delivery, job->deliver_when, job->deliver_time) : status;
}

/* The message names the limit and the cure before the queue and the id, which may fill what is left of it. */
static int push_refuse_bytes(seriatim_client *c, const char *field, size_t len, const seriatim_job *job,
                             unsigned long at)
{
    const srt_queue *queue = srt_client_queue_at(c, c->queue);
    char name[PUSH_SHOWN] = "", id[PUSH_SHOWN];
    if (queue)
        srt_printable_start(queue->name.data, queue->name.len, name, sizeof name);
    srt_printable_start(job->id, job->id_len, id, sizeof id);
    return srt_fail(&c->error, SERIATIM_INVALID,
                    "jobs[%lu]: %s is %lu bytes long; at most %lu are allowed: store it elsewhere and push its key "
                    "(queue %s, id %s)",
                    at, field, (unsigned long)len, (unsigned long)c->max_payload, name, id);
}

static int push_check_bytes(seriatim_client *c, const char *field, const void *data, size_t len,
                            const seriatim_job *job, unsigned long at)
{
    if (!data && len)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: %s is missing", at, field);
    return len > c->max_payload ? push_refuse_bytes(c, field, len, job, at) : SERIATIM_OK;
}

/* Of an outbox: numbers ascend, and are exact as the doubles of Lua. */
static int push_check_number(seriatim_client *c, const seriatim_job *job, unsigned long at)
{
    const srt_push *p = c->push;
    if (p->outbox[0] ? job->number > p->number && job->number <= PUSH_LARGEST_NUMBER : job->number == 0)
        return SERIATIM_OK;
    if (!p->outbox[0])
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: number is for jobs of an outbox", at);
    return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: number must be from %lld to 2^53, not %lld", at,
                    (long long)p->number + 1, (long long)job->number);
}

int srt_push_check(seriatim_client *c, const seriatim_job *job, unsigned long at)
{
    int status;
    if (!job->id || job->id_len == 0)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: id is %s", at, job->id ? "empty" : "missing");
    if (job->id_len > SERIATIM_MAX_ID)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: id is %lu bytes long; at most %d are allowed", at,
                        (unsigned long)job->id_len, SERIATIM_MAX_ID);
    if ((status = push_check_bytes(c, "payload", job->payload, job->payload_len, job, at)) != SERIATIM_OK ||
        (status = push_check_bytes(c, "context", job->context, job->context_len, job, at)) != SERIATIM_OK ||
        (status = push_check_times(c, job, at)) != SERIATIM_OK)
        return status;
    if ((status = push_check_number(c, job, at)) != SERIATIM_OK)
        return status;
    if (job->has_score && !isfinite(job->score))
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: score must be a finite number", at);
    if (job->retry_count == INT64_MAX) /* what a host gives for a number that int64_t does not hold */
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: retry_count must be from -1 to 1000000", at);
    if (job->retry_count < -1 || job->retry_count > 1000000)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: retry_count must be from -1 to 1000000, not %lld", at,
                        (long long)job->retry_count);
    if (job->on_waiting && !srt_on_waiting_place(job->on_waiting))
        return srt_fail(
            &c->error, SERIATIM_INVALID,
            "jobs[%lu]: on_waiting must be one of keep, earlier, later, replace, reject, unique, not \"%.40s\"", at,
            job->on_waiting);
    return SERIATIM_OK;
}

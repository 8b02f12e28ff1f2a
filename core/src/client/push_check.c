/* push_check.c - what a job may be. */
#include "client/push.h"
#include "model/policy.h"

#include <math.h>

#define PUSH_MILLISECONDS 1e11       /* as seconds, the year 5138; as milliseconds, 1973 */
#define PUSH_OLDEST 1e9                 /* September 2001: a positive time before it was meant as seconds from now */
#define PUSH_YEAR 31556952.0            /* seconds, as the calendar has them on average */
#define PUSH_DAY 86400.0             /* by which the host's clock may be behind */

static int push_check_time(seriatim_client *c, const seriatim_job *job, unsigned long at)
{
    const char *field = job->when == SERIATIM_DELAY ? "delay" : "perform_in";
    double limit = SRT_CENTURY_SECONDS;
    if (job->when == SERIATIM_NOW)
        return SERIATIM_OK;
    if (job->when != SERIATIM_AT && job->when != SERIATIM_DELAY)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: when must be NOW, AT or DELAY", at);
    if (!isfinite(job->time))
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: %s must be a finite number", at, field);
    if (job->when == SERIATIM_AT && job->time > 0 && job->time < PUSH_OLDEST)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: perform_in: %.10g is in %d; for seconds from now use delay", at,
                        job->time, 1970 + (int)(job->time / PUSH_YEAR));
    if (job->when == SERIATIM_AT && job->time >= PUSH_MILLISECONDS)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: perform_in looks like milliseconds: it is Unix time in seconds",
                        at);
    if (job->when == SERIATIM_AT)
        limit = c->unix_time > 0 ? c->unix_time + PUSH_DAY + SRT_CENTURY_SECONDS : PUSH_MILLISECONDS;
    if (job->time > limit)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: %s is more than 100 years ahead", at, field);
    return SERIATIM_OK;
}

static int push_check_bytes(seriatim_client *c, const char *field, const void *data, size_t len, unsigned long at)
{
    if (!data && len)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: %s is missing", at, field);
    if (len > c->max_payload)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: %s is %lu bytes long; at most %lu are allowed", at, field,
                        (unsigned long)len, (unsigned long)c->max_payload);
    return SERIATIM_OK;
}

int srt_push_check(seriatim_client *c, const seriatim_job *job, unsigned long at)
{
    int status;
    if (!job->id || job->id_len == 0)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: id is %s", at, job->id ? "empty" : "missing");
    if (job->id_len > SERIATIM_MAX_ID)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: id is %lu bytes long; at most %d are allowed", at,
                        (unsigned long)job->id_len, SERIATIM_MAX_ID);
    if ((status = push_check_bytes(c, "payload", job->payload, job->payload_len, at)) != SERIATIM_OK ||
        (status = push_check_bytes(c, "context", job->context, job->context_len, at)) != SERIATIM_OK ||
        (status = push_check_time(c, job, at)) != SERIATIM_OK)
        return status;
    if (job->has_score && !isfinite(job->score))
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: score must be a finite number", at);
    if (job->retry_count < -1 || job->retry_count > 1000000)
        return srt_fail(&c->error, SERIATIM_INVALID, "jobs[%lu]: retry_count must be from -1 to 1000000, not %lld", at,
                        (long long)job->retry_count);
    if (job->on_waiting && !srt_on_waiting_place(job->on_waiting))
        return srt_fail(&c->error, SERIATIM_INVALID,
                        "jobs[%lu]: on_waiting must be one of keep, earlier, later, replace, reject, unique, not \"%.40s\"", at,
                        job->on_waiting);
    return SERIATIM_OK;
}

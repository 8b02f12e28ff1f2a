/* push_outcome.c - how a push ends: its counts, or an error that says how much of it was written. */
#include "client/push.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 1400 as "1,400", in buf. */
static const char *push_number(char buf[32], size_t value)
{
    char *at = buf + 31;
    int digits = 0;
    *at = '\0';
    do {
        if (digits && digits % 3 == 0)
            *--at = ',';
        *--at = (char)('0' + value % 10);
        value /= 10;
        digits++;
    } while (value);
    return at;
}

static size_t push_append(char *out, size_t cap, size_t at, const char *text)
{
    size_t len = strlen(text);
    if (at + len >= cap)
        return at;
    memcpy(out + at, text, len + 1);
    return at + len;
}

/* "2 of 5 chunks (1,400 of 5,000 jobs)". Chunks that were answered may have jobs that wait for their ids: no chunks. */
static void push_describe(const srt_push *p, size_t chunks, size_t jobs, char *out, size_t cap)
{
    char a[32], b[32], d[32], e[32];
    if (chunks == 0)
        snprintf(out, cap, "%s of %s jobs", push_number(d, jobs), push_number(e, p->job_count));
    else
        snprintf(out, cap, "%s of %s chunks (%s of %s jobs)", push_number(a, chunks),
                 push_number(b, p->pending_chunks + p->written_chunks + p->failed_chunks), push_number(d, jobs),
                 push_number(e, p->job_count));
}

static int push_compare_places(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

static void push_close(seriatim_client *c)
{
    srt_push *p = c->push;
    if (p->counts.refused)
        qsort(p->refused, p->counts.refused, sizeof *p->refused, push_compare_places);
    srt_push_forget_jobs(c);
}

/* Leaves the whole words of the text that fit into cap bytes, and " ..." behind them. */
static void push_shorten(char *text, size_t cap)
{
    size_t at = cap - sizeof " ...";
    if (strlen(text) < cap)
        return;
    while (at > 0 && text[at] != ' ')
        at--;
    memcpy(text + at, " ...", sizeof " ...");
}

/* Adds to the error in c->error what was not written. */
static int push_fail_unwritten(seriatim_client *c)
{
    static const char between[] = ": ", behind[] = " were not written";
    const srt_queue *queue = c->registry.queues[c->queue];
    srt_push *p = c->push;
    char what[128], why[sizeof c->error.message];
    int status = c->error.status, is_none_written = p->failed_jobs + p->pending_jobs == p->job_count;
    if (status == SERIATIM_FULL && queue->generation == 0 && is_none_written)
        return srt_fail(&c->error, status, "%s: nothing was pushed to queue \"%.*s\", which cannot be created",
                        seriatim_status_text(status), (int)queue->name.len, queue->name.data);
    memcpy(why, c->error.message, sizeof why);
    /* Jobs are counted: of a chunk that counts as unwritten, a shard may have taken the first jobs. */
    if ((is_none_written && status != SERIATIM_FULL) || status == SERIATIM_PROTOCOL ||
        status == SERIATIM_UNKNOWN_OUTCOME)
        return status; /* nothing was written, or nobody can say what */
    push_describe(p, p->failed_chunks + p->pending_chunks, p->failed_jobs + p->pending_jobs, what, sizeof what);
    push_shorten(why, sizeof why - strlen(between) - strlen(what) - strlen(behind));
    return srt_fail(&c->error, status, "%s%s%s%s", why, between, what, behind);
}

int srt_push_on_end(seriatim_client *c, int failed)
{
    srt_push *p = c->push;
    srt_push_settle_unsure(p);
    if (failed == SERIATIM_OK && p->failed_chunks > 0) {
        failed = p->failure.status;
        c->error = p->failure;
        if (failed == SERIATIM_FULL)
            srt_fail_plain(&c->error, failed);
    }
    if (failed == SERIATIM_OK && p->pending_jobs > 0) /* a defect of this client must not pass for a written job */
        failed = srt_fail(&c->error, SERIATIM_PROTOCOL, "%lu jobs of the push have no answer",
                          (unsigned long)p->pending_jobs);
    if (failed != SERIATIM_OK)
        push_fail_unwritten(c);
    else if ((failed = p->shortage.status) != SERIATIM_OK)
        c->error = p->shortage;
    push_close(c);
    return failed;
}

/* A request without an answer leaves the outcome of its chunk in doubt if Redis may have executed it. */
static void push_note_doubt(void *push, srt_request *r)
{
    srt_push *p = push;
    if (!r->handshake && r->subject == p &&
        (r->kind == PUSH_KIND_TOKEN || (r->kind == PUSH_KIND_CHUNK && srt_request_left(r))) &&
        p->chunks[r->place].doubt == SRT_PUSH_CERTAIN)
        p->chunks[r->place].doubt = SRT_PUSH_UNANSWERED;
}

/*
 * Of a chunk that is in doubt. An answer says which jobs are written: not those behind the first ones, or elsewhere,
 * nor those that a pipeline knows to be refused or stale.
 */
static int push_may_be_written(const srt_push *p, const srt_push_chunk *chunk, size_t i)
{
    size_t place = p->places[chunk->first + i];
    int outcome = p->outcomes ? p->outcomes[place] : SERIATIM_JOB_UNWRITTEN;
    if (chunk->doubt == SRT_PUSH_UNANSWERED)
        return 1;
    return i < chunk->taken && !p->jobs[place].away && outcome != SERIATIM_JOB_REFUSED && outcome != SERIATIM_JOB_STALE;
}

/* unanswered: 1, of what was not answered; 0, of what is written, and whose replicas are not counted. */
static size_t push_doubtful_jobs(const srt_push *p, const srt_push_chunk *chunk, int unanswered)
{
    size_t i, jobs = 0;
    if (chunk->doubt == SRT_PUSH_CERTAIN || (chunk->doubt == SRT_PUSH_UNANSWERED) != unanswered)
        return 0;
    for (i = 0; i < chunk->count; i++)
        if (push_may_be_written(p, chunk, i))
            jobs++;
    return jobs;
}

typedef struct push_doubtful {
    size_t chunks, jobs;
} push_doubtful;

static push_doubtful push_count_doubtful(const srt_push *p, int unanswered)
{
    push_doubtful found = {0, 0};
    size_t i;
    for (i = 0; i < p->chunk_count; i++) {
        size_t jobs = push_doubtful_jobs(p, &p->chunks[i], unanswered);
        found.chunks += jobs > 0;
        found.jobs += jobs;
    }
    return found;
}

static void push_mark_doubtful(srt_push *p, const srt_push_chunk *chunk)
{
    size_t i;
    for (i = 0; p->outcomes && chunk->doubt != SRT_PUSH_CERTAIN && i < chunk->count; i++)
        if (push_may_be_written(p, chunk, i))
            p->outcomes[p->places[chunk->first + i]] = SERIATIM_JOB_UNKNOWN;
}

/* ": shard 3 (1,000 jobs), shard 4 (400 jobs)" as far as it fits. */
static size_t push_list_shards(const srt_push *p, int unanswered, char *out, size_t cap, size_t at)
{
    const char *between = ": ";
    size_t i;
    for (i = 0; i < p->chunk_count; i++) {
        char text[64], number[32];
        size_t jobs = push_doubtful_jobs(p, &p->chunks[i], unanswered);
        if (jobs == 0)
            continue;
        snprintf(text, sizeof text, "%sshard %u (%s jobs)", between, p->chunks[i].shard, push_number(number, jobs));
        if (at + strlen(text) + 6 > cap)
            return push_append(out, cap, at, ", ...");
        at = push_append(out, cap, at, text);
        between = ", ";
    }
    return at;
}

/* Names the shards of what was not answered; if all was, of what may be on too few replicas. */
static void push_fail_unknown(seriatim_client *c, push_doubtful unanswered, push_doubtful written)
{
    srt_push *p = c->push;
    int first = unanswered.chunks > 0;
    size_t unwritten = p->failed_jobs + p->pending_jobs - unanswered.jobs - written.jobs, at;
    char text[sizeof c->error.message], tail[128] = "", what[128], number[32];
    push_describe(p, first ? unanswered.chunks : written.chunks, first ? unanswered.jobs : written.jobs, what,
                  sizeof what);
    if (first && written.jobs)
        snprintf(tail, sizeof tail, "; %s jobs are written, maybe on too few replicas",
                 push_number(number, written.jobs));
    if (unwritten)
        snprintf(tail + strlen(tail), sizeof tail - strlen(tail), "; %s jobs were not written",
                 push_number(number, unwritten));
    snprintf(text, sizeof text, "outcome unknown: %s %s", what,
             first ? "were sent and not answered" : "are written, maybe on too few replicas");
    at = push_list_shards(p, first, text, sizeof text - strlen(tail), strlen(text));
    push_append(text, sizeof text, at, tail);
    srt_fail(&c->error, SERIATIM_UNKNOWN_OUTCOME, "%s", text);
}

void srt_push_on_give_up(seriatim_client *c)
{
    srt_push *p = c->push;
    push_doubtful unanswered, written;
    size_t i;
    srt_push_forget_unsure(p);
    srt_cluster_each(&c->cluster, push_note_doubt, p);
    unanswered = push_count_doubtful(p, 1);
    written = push_count_doubtful(p, 0);
    for (i = 0; i < p->chunk_count; i++)
        push_mark_doubtful(p, &p->chunks[i]);
    if (unanswered.chunks || written.chunks)
        push_fail_unknown(c, unanswered, written);
    else
        push_fail_unwritten(c);
    push_close(c);
}

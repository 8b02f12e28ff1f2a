/*
 * claim.c - takes ids that are due from Redis, as many as the threads finish in a short time, and what pushes have
 * claimed for this node.
 */
#include "base/msgpack.h"
#include "node/shard.h"

#include <stdio.h>
#include <string.h>

/* ---- The request ---------------------------------------------------------------------------- */

/* How many ids the threads can use. */
static size_t wanted_ids(srt_node *node, const srt_shard *s, int64_t now)
{
    size_t window = srt_shard_window(node, s), ids;
    if (s->queue->now.ttr == 0)
        return s->ready.count * 2 <= window ? window - s->ready.count : 0;
    ids = srt_shard_timed_ids(node, s, now);
    return ids < window ? ids : window;
}

static size_t claim_limit(srt_node *node, const srt_shard *s, int64_t now)
{
    size_t wanted = wanted_ids(node, s, now), room = srt_shard_room(s);
    return wanted < room ? wanted : room;
}

/* Is there room for more of the ids that are due? */
int srt_shard_wants_claim(srt_node *node, const srt_shard *s, int64_t now)
{
    return !s->claiming && now >= s->claim_at && (s->more || s->due_at <= now) && claim_limit(node, s, now) > 0;
}

/* The message may arrive before the answer to an earlier request; that answer must not hide it. */
void srt_shard_changed(srt_node *node, srt_shard *s, int64_t now)
{
    s->more = 1;
    s->paused = 0;
    s->changed_meanwhile = s->claiming || s->state == SRT_ACQUIRING;
    srt_node_wake(node, s, now);
}

void srt_shard_claim(srt_node *node, srt_shard *s, size_t limit, int kind, int64_t now)
{
    srt_request *r = srt_shard_begin(node, s, srt_script_claim, SRT_ASK_CLAIM);
    size_t window = srt_shard_push_window(node, s);
    if (r) {
        srt_request_int(r, s->lease);
        srt_request_int(r, s->seen);
        srt_request_int(r, (int64_t)limit);
        srt_request_int(r, kind);
        srt_request_int(r, s->queue->now.ttr);
        srt_request_text(r, s->queue->now.fold);
        srt_request_int(r, s->queue->now.history_per_id);
        srt_settings_limits(&s->queue->now, r);
        srt_request_text(r, s->queue->now.remember_score ? "1" : "");
        srt_request_int(r, (int64_t)window);
        r->number = s->lease;
        r->place = (size_t)kind;
    }
    if (!srt_shard_send(node, s, r, now))
        return;
    s->claiming = 1;
    s->timed = s->queue->now.ttr > 0;
    s->window = window;
    s->asked = kind == SRT_CLAIM_READY && s->queue->now.ttr ? limit : 0;
    s->asked_at = now;
    if (s->asked)
        s->claim_turn = ++node->claim_turns;
    if (kind != SRT_CLAIM_READY)
        srt_unproven_begins(node, s);
}

void srt_shard_withdraw_window(srt_node *node, srt_shard *s, int64_t now)
{
    if (s->window && !s->claiming && srt_shard_push_window(node, s) == 0)
        srt_shard_claim(node, s, 0, SRT_CLAIM_READY, now);
}

void srt_shard_want_claim(srt_node *node, srt_shard *s, int64_t now)
{
    if (s->claiming || node->quiet)
        return;
    if (s->paused) {
        if (s->more || s->due_at <= now)
            srt_shard_claim(node, s, 1, 0, now); /* takes nothing, and moves scheduled payloads whose time has come */
        return;
    }
    if (node->quarantine.step == SRT_QUARANTINE_CLAIM && node->quarantine.shard == s) {
        if (!s->slicing) /* else its payloads are being read, or those of an id before it */
            srt_shard_claim(node, s, 1, SRT_CLAIM_SUSPECT, now);
    } else if (s->unproven_at <= now && srt_quarantine_has_room(node, s)) {
        srt_shard_claim(node, s, 1, SRT_CLAIM_UNPROVEN, now);
    } else if (srt_shard_wants_claim(node, s, now)) {
        srt_shard_claim(node, s, claim_limit(node, s, now), SRT_CLAIM_READY, now);
    }
}

/* ---- The answer ----------------------------------------------------------------------------- */

/* The texts of a claim's runs: its mode and fence behind a digit that says whether the record is spilled. */
static char *claim_run(srt_claim *claim, char digit, const srt_token *mode, const srt_token *fence)
{
    char *run = srt_arena_alloc(&claim->memory, fence->len + 2);
    if (!run || mode->len != 1)
        return NULL;
    run[0] = digit;
    run[1] = mode->data[0];
    memcpy(run + 2, fence->data, fence->len);
    return run;
}

/* id, record: in the memory of the claim */
static int claim_job(srt_node *node, srt_shard *s, srt_claim *claim, seriatim_text id, seriatim_text record,
                     char *const runs[2], size_t run_len, int64_t now)
{
    srt_job *job = srt_arena_alloc(&claim->memory, sizeof *job);
    int status;
    if (!job)
        return SERIATIM_NOMEM;
    memset(job, 0, sizeof *job);
    job->view.id = id.data;
    job->view.id_len = id.len;
    status = srt_record_read(&job->record, &claim->memory, record.data, record.len);
    if (status != SERIATIM_OK)
        return status;
    job->claim = claim;
    job->shard = s;
    job->view.fence = s->seen;
    job->run = runs[job->record.missing > 0];
    job->run_len = run_len;
    job->mode = job->run[1];
    job->lease = s->lease;
    job->text = "";
    claim->jobs++;
    srt_job_lose_earlier(node, job);
    if (job->record.missing)
        srt_shard_slice(node, job, now);
    else
        srt_job_ready(node, job, now);
    return SERIATIM_OK;
}

/* A claim whose ids lie in the last reply of a session. Its one job is the caller's: to be freed with
 * srt_claim_free_one. */
static srt_claim *claim_new(srt_node *node, srt_session *session)
{
    srt_claim *claim = srt_alloc(node->mem, sizeof *claim);
    if (!claim)
        return NULL;
    memset(claim, 0, sizeof *claim);
    claim->memory = srt_reader_take(session->reader);
    claim->jobs = 1;
    return claim;
}

static void tell_unreadable(srt_node *node, const srt_shard *s, srt_claim *claim)
{
    claim->whole = 0;
    srt_node_tell(node, SERIATIM_EVENT_WARNING, 1, "shard %.*s: the record of an id cannot be read",
                  (int)s->keys->prefix.len - 1, s->keys->prefix.data);
}

/* Takes the ids of a claim's answer. */
static int claim_take(srt_node *node, srt_shard *s, const srt_reply *reply, int64_t now)
{
    srt_claim *claim = claim_new(node, &node->answering->commands);
    const srt_token *fence = &reply->tokens[2], *mode = &reply->tokens[7], *texts = &reply->tokens[9];
    seriatim_text id, record;
    srt_texts ids, records;
    char *runs[2];
    int status;
    if (!claim)
        return SERIATIM_NOMEM;
    claim->taken_at = now;
    claim->timed = s->timed;
    s->ever_timed |= s->timed;
    runs[0] = claim_run(claim, '0', mode, fence);
    runs[1] = claim_run(claim, '1', mode, fence);
    status = runs[0] && runs[1] ? SERIATIM_OK : SERIATIM_NOMEM;
    if (status == SERIATIM_OK)
        status = srt_texts_begin(&ids, texts[0].data, texts[0].len);
    if (status == SERIATIM_OK)
        status = srt_texts_begin(&records, texts[1].data, texts[1].len);
    if (status == SERIATIM_OK) {
        claim->whole = srt_token_int(&reply->tokens[8]) != 0;
        claim->ids = ids.count;
    }
    while (status == SERIATIM_OK && ids.count > 0) {
        status = srt_texts_next(&ids, &id.data, &id.len);
        if (status == SERIATIM_OK)
            status = srt_texts_next(&records, &record.data, &record.len);
        if (status == SERIATIM_OK)
            status = claim_job(node, s, claim, id, record, runs, fence->len + 2, now);
        if (status == SERIATIM_PROTOCOL) {
            tell_unreadable(node, s, claim);
            status = SERIATIM_OK;
        } else if (status != SERIATIM_OK) {
            claim->whole = 0;
        }
    }
    srt_claim_free_one(claim);
    return status;
}

static int64_t local_time(const srt_node *node, int64_t redis_us)
{
    return redis_us >= SRT_FOREVER ? SRT_NEVER : (redis_us - node->offset_us + 999) / 1000;
}

void srt_shard_claimed(srt_node *node, srt_shard *s, const srt_request *r, const srt_reply *reply, int64_t now)
{
    int64_t next, fence, flags;
    int past, had_suspect = node->quarantine.step == SRT_QUARANTINE_CLAIM && node->quarantine.shard == s &&
                            r->place == SRT_CLAIM_SUSPECT;
    s->claiming = 0;
    s->asked = 0;
    srt_node_wake_starved(node, now); /* it may have brought less */
    s->first_claim = 0;
    if (r->place != SRT_CLAIM_READY)
        srt_unproven_comes(node, s);
    if (r->number != s->lease || s->state != SRT_OWNED)
        return;
    node->offset_us = srt_token_int(&reply->tokens[1]) - now * 1000;
    /* A claim that is not newer than the last: after a failover Redis does not know the last claim and answers with an
     * earlier one. Its ids run in threads or have ended, so none of them is taken again; acquire tells Redis which runs
     * this node has. */
    fence = srt_token_int(&reply->tokens[2]);
    past = s->seen && (fence < s->seen || (fence == s->seen && reply->count > 10));
    s->reconcile |= past;
    if (!past)
        s->seen = fence;
    if (s->prompt_claim)
        s->prompt_fence = s->seen;
    s->prompt_claim = 0;
    next = srt_token_int(&reply->tokens[3]);
    s->more = next == 0;
    s->due_at = next == 0 ? SRT_NEVER : local_time(node, next);
    s->unproven_at = local_time(node, srt_token_int(&reply->tokens[4]));
    s->suspect_at = local_time(node, srt_token_int(&reply->tokens[5]));
    flags = srt_token_int(&reply->tokens[6]);
    s->paused = (flags & SRT_SAYS_PAUSED) != 0 && !s->changed_meanwhile;
    srt_shard_find_unfinished(s, flags);
    if (flags >= SRT_SAYS_STALE)
        srt_node_tell(
            node, SERIATIM_EVENT_STALE, flags / SRT_SAYS_STALE,
            "dropped %lld scheduled payload%s in shard %.*s: the score was not above that of a run that was done",
            (long long)(flags / SRT_SAYS_STALE), flags / SRT_SAYS_STALE == 1 ? "" : "s", (int)s->keys->prefix.len - 1,
            s->keys->prefix.data);
    if (flags & SRT_SAYS_NOTICED)
        srt_notice_seen(node, s, SRT_NOTICES_OTHERS, now);
    if (flags & SRT_SAYS_POSTPONED)
        srt_node_tell(
            node, SERIATIM_EVENT_WARNING, 1,
            "shard %.*s: a scheduled payload waits, because the record of its id cannot be read: see seriatim check",
            (int)s->keys->prefix.len - 1, s->keys->prefix.data);
    s->more |= s->changed_meanwhile;
    s->changed_meanwhile = 0;
    if (reply->count > 10 && !past && claim_take(node, s, reply, now) != SERIATIM_OK)
        s->reconcile = 1;
    /* Pushes may have claimed more than once before they knew that this node wants nothing: each answer has one claim.
     */
    if (reply->count > 10 && !s->reconcile && (node->quiet || s->paused))
        srt_shard_claim(node, s, 0, SRT_CLAIM_READY, now);
    /* A suspect whose payloads are still being read runs next. If they cannot be read, another claim follows. */
    if (had_suspect && node->quarantine.step == SRT_QUARANTINE_CLAIM && !(reply->count > 10 && s->slicing))
        srt_quarantine_end(node);
}

/* ---- A push that has claimed ------------------------------------------------------------------ */

#define PUSHED_HEAD 18 /* two fences, the length of the id */

static int64_t read_fence(const char *data)
{
    double fence = srt_little_double(data);
    return fence > 0 && fence <= (double)SRT_FOREVER ? (int64_t)fence : 0;
}

static int pushed_take(srt_node *node, srt_shard *s, seriatim_text id, seriatim_text record, int64_t now)
{
    srt_claim *claim = claim_new(node, &node->wakes);
    char run[32], *runs[2];
    int len = snprintf(run, sizeof run, SRT_RUN_PLAIN "%lld", (long long)s->seen), status;
    if (!claim)
        return SERIATIM_NOMEM;
    claim->whole = 1;
    claim->ids = 1;
    runs[0] = runs[1] = srt_arena_copy(&claim->memory, run, (size_t)len);
    status = runs[0] ? claim_job(node, s, claim, id, record, runs, (size_t)len, now) : SERIATIM_NOMEM;
    if (status == SERIATIM_PROTOCOL) {
        tell_unreadable(node, s, claim);
        status = SERIATIM_OK;
    }
    srt_claim_free_one(claim);
    return status;
}

/*
 * Only the claim that follows the last one that this node has seen is taken. While the answer to a claim or an acquire
 * is on its way, it is not known which that is. What is not taken here, the next claim answers, the oldest first.
 */
void srt_shard_handed_over(srt_node *node, srt_shard *s, const char *text, size_t len, int64_t now)
{
    int64_t fence = len > PUSHED_HEAD ? read_fence(text) : 0;
    seriatim_text id, record;
    id.len = fence ? (size_t)(unsigned char)text[16] + 256 * (size_t)(unsigned char)text[17] : 0;
    if (fence && s->state == SRT_OWNED && fence <= s->seen)
        return; /* an answer to a claim had it */
    if (!fence || id.len > len - PUSHED_HEAD || s->state != SRT_OWNED || s->claiming || s->reconcile ||
        read_fence(text + 8) != s->seen) {
        srt_shard_changed(node, s, now);
        return;
    }
    id.data = text + PUSHED_HEAD;
    record.data = id.data + id.len;
    record.len = len - PUSHED_HEAD - id.len;
    s->seen = fence;
    if (pushed_take(node, s, id, record, now) != SERIATIM_OK)
        s->reconcile = 1;
    srt_node_wake(node, s, now);
}

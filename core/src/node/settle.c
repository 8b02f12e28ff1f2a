/* settle.c - sends the outcomes of runs to Redis, many in a call. */
#include "node/shard.h"

#include <string.h>

/* what is held for this long goes with anything else that is written, and so does what all other shards hold */
#define SETTLE_ALONG_MS 25
#define SETTLE_PORTION 250 /* payloads that one call moves, as in core/scripts/lib/record.lua */
#define SETTLE_PORTION_BYTES ((size_t)384 * 1024)
/* ids of a settle that failed or were rejected: each costs as much as ten that were done */
#define SETTLE_OTHERS 100

/* ---- The request ---------------------------------------------------------------------------- */

/* Done, and nothing else is to be said of it. */
static int is_just_done(const srt_job *job)
{
    return job->outcome == SRT_DONE && !job->scored;
}

static size_t payload_bytes(const srt_job *job, size_t place)
{
    return job->record.payloads[place].len + job->record.payloads[place].context_len;
}

/*
 * How many of the payloads that are still to be rejected go into one settle: limited in number, in bytes and in
 * distance.
 */
static size_t reject_portion(const srt_job *job)
{
    const size_t *first = job->rejected + job->rejected_done;
    size_t left = job->rejected_count - job->rejected_done, count = 0, place = left ? *first : 0, bytes = 0;
    for (; count < left && count < SETTLE_PORTION && first[count] - *first < 2 * SETTLE_PORTION; count++) {
        for (; place <= first[count]; place++)
            bytes += payload_bytes(job, place);
        if (count && bytes > SETTLE_PORTION_BYTES)
            break;
    }
    return count;
}

/* If more payloads are to be rejected than one settle takes, every settle but the last leaves the run open. */
static int reject_goes_on(const srt_job *job)
{
    return job->outcome == SRT_REJECTED && job->rejected_done + reject_portion(job) < job->rejected_count;
}

/* The first payloads, which Redis has no more, because a checkpoint has ended them: their number. */
static size_t job_ended(const srt_job *job)
{
    return job->checkpoint ? job->checkpoint->confirmed : 0;
}

/* Indexes count in the record as Redis has it now, without the payloads that were rejected or confirmed before. */
static void settle_reject(srt_request *r, srt_job *job)
{
    const size_t *first = job->rejected + job->rejected_done;
    size_t count = reject_portion(job), i, gone = job->rejected_done + job_ended(job);
    char *stamps = srt_arena_alloc(&job->claim->memory, 8 * count + 1);
    srt_request_int(r, count && *first > gone ? (int64_t)(*first - gone) : 0);
    srt_request_arg(r, job->text, job->text_len);
    srt_request_int(r, count ? (int64_t)(first[count - 1] - *first + 1) : 1);
    r->tail.failed |= !stamps;
    for (i = 0; stamps && i < count; i++)
        srt_number_pack(stamps + 8 * i, job->record.payloads[first[i]].stamp);
    srt_request_arg(r, stamps ? stamps : "", stamps ? 8 * count : 0);
    job->rejected_sent = count;
}

/* Names the payload that a snooze replaces: the first that no checkpoint has taken. */
static void settle_first_stamp(srt_request *r, const srt_job *job)
{
    size_t first = job_ended(job);
    char stamp[8];
    if (!job->has_payload || first >= job->record.count) {
        srt_request_text(r, "");
        return;
    }
    srt_number_pack(stamp, job->record.payloads[first].stamp);
    srt_request_arg(r, stamp, sizeof stamp);
}

/*
 * The last argument of an outcome: what a snooze replaces, which score a checkpoint leaves, or what becomes of an id
 * without retries.
 */
static void settle_action(srt_request *r, const srt_job *job)
{
    if (job->outcome == SRT_SNOOZED)
        settle_first_stamp(r, job);
    else if (job->outcome == SRT_CHECKPOINT)
        srt_request_arg(r, job->score, job->scored ? sizeof job->score : 0);
    else
        srt_request_text(r, job->shard->queue->now.on_exhausted);
}

static void settle_other(srt_request *r, srt_job *job)
{
    static const char *const kinds[] = {"release", "done", "fail", "reject", "extend", "checkpoint", "snooze"};
    static const char *const hooked[] = {"release", "done", "fail+", "reject+", "extend", "checkpoint", "snooze"};
    const srt_queue *queue = job->shard->queue;
    int goes_on = reject_goes_on(job);
    srt_request_text(r, queue->now.exhausted_hook ? goes_on ? "bury+" : hooked[job->outcome]
                        : goes_on ? "bury"
                                                  : kinds[job->outcome]);
    srt_request_arg(r, job->view.id, job->view.id_len);
    srt_request_arg(r, job->run, job->run_len);
    if (job->outcome == SRT_REJECTED) {
        settle_reject(r, job);
        return;
    }
    srt_request_int(r, job->scored ? queue->now.remember_score : job->time_us);
    if (job->outcome == SRT_DONE)
        srt_request_arg(r, job->score, sizeof job->score);
    else
        srt_request_arg(r, job->text, job->text_len);
    srt_request_int(r, job->outcome == SRT_CHECKPOINT ? srt_checkpoint_expects(job) : queue->now.max_retry_count);
    settle_action(r, job);
}

static const srt_job *next_done(const srt_job *job)
{
    while (job && !is_just_done(job))
        job = job->next;
    return job;
}

/* Jobs of one claim that stand side by side share the text of their run. Returns the first done job behind the group
 * that begins at `job`; *count is the size of that group. */
static const srt_job *next_group(const srt_job *job, int64_t *count)
{
    const char *run = job->run;
    for (*count = 0; job && job->run == run; ++*count)
        job = next_done(job->next);
    return job;
}

static void settle_done(srt_request *r, const srt_job_list *list)
{
    const srt_job *first = next_done(list->first), *group, *following, *job;
    int64_t groups = 0, count;
    for (group = first; group; group = next_group(group, &count))
        groups++;
    srt_request_int(r, groups);
    for (group = first; group; group = following) {
        following = next_group(group, &count);
        srt_request_arg(r, group->run, group->run_len);
        srt_request_int(r, group->claim->whole ? -count : count);
        for (job = group; !group->claim->whole && job != following; job = next_done(job->next))
            srt_request_arg(r, job->view.id, job->view.id_len);
    }
}

static srt_request *settle_request(srt_node *node, srt_shard *s, const srt_job_list *list)
{
    srt_request *r = srt_shard_begin(node, s, srt_script_settle, SRT_ASK_SETTLE);
    srt_job *job;
    if (!r)
        return NULL;
    srt_request_int(r, list->first->lease);
    srt_request_int(r, s->sequence + 1);
    srt_request_text(r, s->queue->now.fold);
    settle_done(r, list);
    for (job = list->first; job; job = job->next)
        if (!is_just_done(job))
            settle_other(r, job);
    return r;
}

/* Moves the first job, or all jobs of the claim that it begins if that is settled as one run. */
static void take_group(srt_job_list *to, srt_job_list *from)
{
    size_t count = from->first->claim->whole ? from->first->claim->ids : 1;
    for (; count > 0; count--)
        srt_list_add(to, srt_list_take(from));
}

/*
 * At most this many bytes of payloads move in Redis when the job is settled: one payload to the morgue, or all that are
 * rejected.
 */
static size_t settle_bytes(const srt_job *job)
{
    size_t bytes = job->text_len, i, count = reject_portion(job);
    for (i = 0; i < count; i++)
        bytes += payload_bytes(job, job->rejected[job->rejected_done + i]);
    return bytes + (job->outcome != SRT_EXTENDED && job->record.count ? payload_bytes(job, 0) : 0);
}

/* Takes jobs of one lease that fit into one call: at most 1,000 ids and a whole claim, and not too much to move. */
static void take_settles(srt_job_list *to, srt_job_list *from)
{
    int64_t lease = from->first->lease;
    size_t others = 0, bytes = 0;
    while (from->first && from->first->lease == lease && to->count < SHARD_MAX_CLAIM) {
        const srt_job *job = from->first;
        int alone = reject_goes_on(job);
        if (!is_just_done(job)) {
            bytes += settle_bytes(job);
            others++;
            if (to->count && (alone || others > SETTLE_OTHERS || (others > 1 && bytes > SETTLE_PORTION_BYTES)))
                return;
        }
        take_group(to, from);
        if (alone)
            return;
    }
}

static void take_again(srt_job_list *to, srt_job_list *from, size_t count)
{
    for (; count > 0; count--)
        srt_list_add(to, srt_list_take(from));
}

static int has_suspect(const srt_job_list *list)
{
    const srt_job *job = list->first;
    while (job && job->mode != SRT_RUN_SUSPECT)
        job = job->next;
    return job != NULL;
}

/* Settles what has ended. */
void srt_shard_settle(srt_node *node, srt_shard *s, int64_t now)
{
    srt_job_list batch = {NULL, NULL, 0};
    srt_job_list *kept = srt_alloc(node->mem, sizeof *kept);
    int64_t lease = s->pending.first->lease;
    size_t again = s->resend;
    srt_request *r;
    if (!kept) {
        srt_node_wake(node, s, now + SHARD_RETRY_MS);
        return;
    }
    if (again)
        take_again(&batch, &s->pending, again);
    else
        take_settles(&batch, &s->pending);
    *kept = batch;
    r = settle_request(node, s, kept);
    if (r) {
        r->number = lease;
        r->subject = kept;
    }
    if (!srt_shard_send(node, s, r, now)) {
        srt_list_join(kept, &s->pending);
        s->pending = *kept;
        srt_free(node->mem, kept, sizeof *kept);
        return;
    }
    s->resend = 0;
    s->sequence++;
    s->settling = 1;
    s->settles_suspect = has_suspect(kept);
    s->urgent = s->pending.count > 0;
    s->pending_since = now;
}

/* ---- What ends ------------------------------------------------------------------------------- */

void srt_shard_ended(srt_node *node, srt_shard *s, srt_job *job, int64_t now)
{
    if (job->outcome != SRT_EXTENDED && job->outcome != SRT_CHECKPOINT)
        srt_rate_add(&s->finished, now);
    if (now < node->held_since)
        node->held_since = now;
    if (job->old)
        srt_shard_old_ended(node, s, now);
    if (s->prompt_fence && job->view.fence <= s->prompt_fence)
        srt_shard_prompt(s, now);
    if (srt_checkpoint_parks(job))
        return;
    if (job->outcome == SRT_DONE)
        srt_job_note_score(job, job, job->record.count);
    if (job->claim->whole && is_just_done(job) && s->state == SRT_OWNED && job->lease == s->lease) {
        srt_claim_ended(s, job, now);
    } else {
        srt_claim_part(s, job->claim);
        if (s->pending.count == 0)
            s->pending_since = now;
        srt_list_add(&s->pending, job);
        s->urgent |= job->mode != SRT_RUN_NORMAL; /* until Redis has it, a death of the process is charged to the id */
    }
    if (s->state != SRT_OWNED || srt_shard_should_settle(node, s, now))
        srt_node_wake(node, s, now);
    else
        srt_node_wake(node, s, srt_shard_settle_at(node, s, now));
}

/* ---- With what is written anyway ------------------------------------------------------------ */

/*
 * Not what a settle that Redis refused is to try again later. A shard that has much to run settles more at once, with
 * its next claim.
 */
static int may_go_along(const srt_shard *s, int is_time, int64_t now)
{
    if (s->state != SRT_OWNED || s->reconcile || s->settling || s->pending.count == 0 || s->pending_since > now)
        return 0;
    return s->ready.count ? s->claiming : is_time;
}

void srt_node_settle_held(srt_node *node, int64_t now)
{
    int is_time = node->held_since <= now - SETTLE_ALONG_MS;
    size_t i;
    if (!srt_node_writes(node, NULL))
        return;
    for (i = 0; i < node->shard_count; i++)
        if (may_go_along(node->shards[i], is_time, now) && srt_node_writes(node, node->shards[i]))
            srt_shard_settle(node, node->shards[i], now);
    if (is_time)
        node->held_since = SRT_NEVER;
}

/* ---- The answer ----------------------------------------------------------------------------- */

/*
 * Has this settle ended the retries of an id, or put payloads into the morgue? After a lost answer that is not known.
 */
static int settle_may_bury(const srt_job_list *list, const srt_reply *reply)
{
    const srt_job *job;
    if (reply->count > 4 || (reply->count > 1 && srt_token_is(&reply->tokens[1], "AGAIN")))
        return 1;
    for (job = list->first; job; job = job->next)
        if (job->outcome == SRT_REJECTED)
            return 1;
    return 0;
}

/* Did this failure exhaust the retries? Redis answers it; if the answer was lost, the retry count decides. */
static int job_exhausted(const srt_job *job, const srt_reply *reply)
{
    size_t i;
    if (job->outcome != SRT_FAILED)
        return 0;
    if (srt_token_is(&reply->tokens[1], "AGAIN"))
        return job_ended(job) < job->view.payload_count &&
               job->record.retry_count + 1 >= job->shard->queue->now.max_retry_count;
    for (i = 4; i < reply->count; i++)
        if (reply->tokens[i].len == job->view.id_len &&
            memcmp(reply->tokens[i].data, job->view.id, job->view.id_len) == 0)
            return 1;
    return 0;
}

/*
 * Where the settings in Redis say that there is no hook, though the worker may have one. bury takes the payload with
 * the lowest score alone.
 */
static void shard_exhausted(srt_node *node, srt_shard *s, srt_job_list *list, const srt_reply *reply)
{
    srt_group *group = &node->groups[s->group];
    seriatim_delivery *d = srt_delivery_new(node->mem, SERIATIM_EXHAUSTED, s, list->count);
    srt_job_list rest = {NULL, NULL, 0};
    srt_job *job;
    while (d && (job = srt_list_take(list))) {
        if (!job_exhausted(job, reply)) {
            srt_list_add(&rest, job);
            continue;
        }
        job->view.payloads += job_ended(job);
        job->view.payload_count -= job_ended(job);
        if (strcmp(s->queue->now.on_exhausted, "bury") == 0 && job->view.payload_count > 1)
            job->view.payload_count = 1;
        job->view.payload_total = job->view.payload_count;
        job->view.error = job->text;
        job->view.error_len = job->text_len;
        d->jobs[d->count++] = job;
    }
    srt_list_join(list, &rest);
    if (!d)
        return;
    if (d->count == 0) {
        srt_delivery_free(node->mem, d);
        return;
    }
    d->next = group->exhausted;
    group->exhausted = d;
    group->wake_pending = 1;
}

/* Redis has the settle of a suspect: the other ids go on. */
static void settled_suspect(srt_node *node, const srt_shard *s, const srt_job_list *list)
{
    const srt_job *job;
    if (node->quarantine.step != SRT_QUARANTINE_SETTLE || node->quarantine.shard != s)
        return;
    for (job = list->first; job; job = job->next)
        if (job->mode == SRT_RUN_SUSPECT && job->outcome != SRT_EXTENDED) {
            srt_quarantine_end(node);
            return;
        }
}

/* Redis answers how many settles were refused, not which: they are subtracted from the done ones first. */
static void count_settled(srt_node *node, const srt_job_list *list, int64_t refused)
{
    int64_t done = 0, failed = 0, taken;
    const srt_job *job;
    for (job = list->first; job; job = job->next) {
        done += job->outcome == SRT_DONE;
        failed += job->outcome == SRT_FAILED;
    }
    taken = done < refused ? done : refused;
    done -= taken;
    failed -= failed < refused - taken ? failed : refused - taken;
    node->stats.processed += (uint64_t)done;
    node->stats.failed += (uint64_t)failed;
}

/* The settle left the run open because more of its payloads are to be rejected: those go with the next settle. */
static int reject_again(srt_shard *s, srt_job_list *list, int64_t refused)
{
    srt_job *job = list->first;
    if (refused || !job || !reject_goes_on(job))
        return 0;
    job->rejected_done += job->rejected_sent;
    srt_list_add_first(&s->pending, srt_list_take(list));
    s->urgent = 1;
    return 1;
}

void srt_shard_settled(srt_node *node, srt_shard *s, srt_request *r, const srt_reply *reply, int64_t now)
{
    srt_job_list *list = r->subject;
    const srt_token *tokens = reply->tokens;
    int64_t refused = 0;
    s->settling = s->settles_suspect = 0;
    srt_checkpoints_answered(node, list, reply, now);
    if (reply->count > 1 && srt_token_is(&tokens[1], "STALE")) {
        refused = (int64_t)list->count;
        if (s->state == SRT_OWNED && r->number == s->lease)
            srt_shard_lose(node, s);
    } else if (reply->count > 2) {
        refused = srt_token_int(&tokens[1]);
        if (srt_token_int(&tokens[2]) % 2) {
            s->more = 1;
            srt_shard_prompt(s, now);
        }
        srt_shard_find_unfinished(s, srt_token_int(&tokens[2]));
    }
    count_settled(node, list, refused);
    if (refused) {
        node->stats.refused += (uint64_t)refused;
        srt_node_tell(node, SERIATIM_EVENT_REFUSED, refused, "%lld job results refused in shard %.*s: %s",
                      (long long)refused, (int)s->keys->prefix.len - 1, s->keys->prefix.data,
                      srt_token_is(&tokens[1], "STALE") ? "another node has taken the shard over"
                                                        : "their time to run is over, or Redis has lost the runs");
    }
    if (reject_again(s, list, refused)) {
        srt_free(node->mem, list, sizeof *list);
        return;
    }
    settled_suspect(node, s, list);
    if (settle_may_bury(list, reply))
        srt_morgue_grew(node, s, now);
    if (s->queue->now.exhausted_hook && settle_may_bury(list, reply))
        srt_notice_seen(node, s, SRT_NOTICES_OWN, now);
    else if (!s->queue->now.exhausted_hook &&
             (reply->count > 4 || (reply->count > 1 && srt_token_is(&tokens[1], "AGAIN"))))
        shard_exhausted(node, s, list, reply);
    srt_list_free(list);
    srt_free(node->mem, list, sizeof *list);
}

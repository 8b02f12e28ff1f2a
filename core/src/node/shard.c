/* shard.c - the next request for a shard, and which file takes the answer. */
#include "node/shard.h"

void srt_shard_forget(srt_node *node, srt_shard *s)
{
    srt_claim_part_all(s);
    srt_list_free(&s->ready);
    srt_list_free(&s->pending);
    srt_list_free(&s->resting);
    srt_list_free(&s->barred);
    if (s->told)
        srt_delivery_free(node->mem, s->told);
    srt_bytes_free(&s->owner);
    srt_mover_free(node, s);
}

/* Has this node nothing of its own in the shard? */
static int shard_is_empty(const srt_shard *s)
{
    return s->running == 0 && s->quarantined == 0 && s->ready.count == 0 && s->barred.count == 0 &&
           s->pending.count == 0 && !s->partial_claims && !s->claiming && !s->settling && !s->slicing && !s->recovering;
}

int srt_shard_idle(const srt_shard *s)
{
    return shard_is_empty(s) && s->unfinished != SRT_RUNS;
}

/*
 * A node that stops leaves a shard that it cannot give up, because Redis has runs that no script can bring to an end.
 * The next owner finds its heartbeat gone.
 */
static int shard_leave(srt_node *node, srt_shard *s)
{
    if (!node->stopping || s->refusals < SHARD_REFUSALS || !shard_is_empty(s))
        return 0;
    srt_node_tell(node, SERIATIM_EVENT_WARNING, 1,
                  "shard %.*s is left as it is, because its runs cannot be ended: check it",
                  (int)s->keys->prefix.len - 1, s->keys->prefix.data);
    srt_mover_free(node, s);
    s->state = SRT_FOREIGN;
    return 1;
}

static void shard_step_owned(srt_node *node, srt_shard *s, int64_t now)
{
    int leaving = !s->wanted || node->stopping;
    if (s->queue->turns && s->turned != s->queue->generation)
        srt_shard_turn(node, s, now);
    if (leaving || node->quiet || s->paused || s->recall)
        srt_shard_recall(node, s, now);
    if (shard_leave(node, s))
        return;
    srt_shard_slice_on(node, s, now);
    if (s->seen == 0 && !s->claiming)
        srt_shard_claim(node, s, 1, SRT_CLAIM_READY,
                        now); /* runs of dead processes are reported before anything else */
    if (s->reconcile && s->resend) {
        /* Redis may have executed it. Were its runs named to an acquire, their absence would say that Redis has
         * forgotten all claims since. */
        if (!s->settling && s->pending_since <= now)
            srt_shard_settle(node, s, now);
        return;
    }
    if (s->reconcile) {
        if (!s->claiming && !s->settling && !s->slicing && !s->recovering)
            srt_shard_acquire(node, s, now);
        return;
    }
    if (srt_shard_should_recover(s, leaving, now))
        srt_shard_recover(node, s, now);
    srt_morgue_step(node, s, leaving, now);
    srt_shard_release_overdue(node, s, now);
    srt_group_release_overdue(node, &node->groups[s->group], now);
    srt_shard_part_claims(node, s, now);
    srt_shard_withdraw_window(node, s, now);
    if (!leaving)
        srt_shard_want_claim(node, s, now);
    if (srt_shard_should_settle(node, s, now))
        srt_shard_settle(node, s, now);
    if (s->mover || s->queue->old_count)
        srt_mover_step(node, s, leaving, now);
    if (leaving && !s->mover && srt_shard_idle(s))
        srt_shard_release(node, s, now);
}

static void shard_step_foreign(srt_node *node, srt_shard *s, int64_t now)
{
    if (s->pending.count && !s->settling)
        srt_shard_settle(node, s, now);
    if (s->perhaps_ours) {
        s->perhaps_ours = 0;
        srt_shard_acquire_own(node, s, now);
        return;
    }
    if (!s->wanted || node->stopping || node->heartbeat.answered == 0)
        return;
    if (s->owner.len > 0 && node->heartbeat.answered < s->owner_asked_at)
        return;
    if (s->owner.len > 0 && srt_node_lives(node, s->owner.data, s->owner.len))
        srt_bytes_clear(&s->owner);
    if (s->owner.len > 0 && srt_node_leaves_to_owner(node, s, now))
        return;
    if (s->queue->old_count && s->index >= s->queue->old_count && s->turned != s->queue->generation)
        srt_shard_turn(node, s, now); /* whether it is paused is known only to the layout */
    else
        srt_shard_acquire(node, s, now);
}

static int64_t shard_next_wake(const srt_node *node, const srt_shard *s, int64_t now)
{
    int64_t at = s->resting.count ? s->slice_at : SRT_NEVER;
    if (s->state != SRT_OWNED || (s->reconcile && !s->resting.count))
        return SRT_NEVER; /* the answer will step the shard */
    if (srt_shard_settle_at(node, s, now) < at)
        at = srt_shard_settle_at(node, s, now);
    if (s->unfinished && !s->recovering && s->recover_at > now && s->recover_at < at)
        at = s->recover_at;
    if (!s->claiming && !node->quiet && s->wanted) {
        if (s->claim_at > now && s->claim_at < at)
            at = s->claim_at;
        if (s->due_at > now && s->due_at < at)
            at = s->due_at;
        if (!s->paused && s->unproven_at > now && s->unproven_at < at)
            at = s->unproven_at;
    }
    return at > now ? at : now + 1; /* never within the same tick */
}

void srt_shard_step(srt_node *node, srt_shard *s, int64_t now)
{
    if (!srt_node_may_send(node))
        return;
    if (s->state == SRT_OWNED)
        shard_step_owned(node, s, now);
    else if (s->state == SRT_FOREIGN)
        shard_step_foreign(node, s, now);
    if (s->mover && s->state != SRT_OWNED)
        srt_mover_step(node, s, 0, now);
    srt_notice_step(node, s, now);
    srt_node_wake(node, s, shard_next_wake(node, s, now));
}

/* ---- Answers ------------------------------------------------------------------------------- */

/* Redis answered with an error. The request is tried again. */
static void shard_refused(srt_node *node, srt_shard *s, srt_request *r, int status, const seriatim_error *error,
                          int64_t now)
{
    srt_job_list *list = r->subject;
    size_t before;
    int follows = status == SERIATIM_GENERATION && srt_shard_refused(node, s, error->message, now);
    switch (r->kind) {
    case SRT_ASK_ACQUIRE:
        s->state = r->number ? SRT_OWNED : SRT_FOREIGN;
        s->reconcile = r->number != 0;
        s->refusals += node->stopping && !follows;
        break;
    case SRT_ASK_CLAIM:
        s->claiming = 0;
        s->asked = 0;
        if (status != SERIATIM_STALE && !follows)
            s->claim_at = now + 10 * SHARD_RETRY_MS;
        srt_node_wake_starved(node, now);
        /* It is not known, and is asked to be 0 once more, but for a node that stops: its release ends it. */
        s->window = !node->stopping && status != SERIATIM_GENERATION;
        if (r->place != SRT_CLAIM_READY)
            srt_unproven_comes(node, s);
        if (node->quarantine.step == SRT_QUARANTINE_CLAIM && node->quarantine.shard == s) {
            node->quarantine.not_before = now + 10 * SHARD_RETRY_MS;
            srt_quarantine_end(node);
        }
        if (status == SERIATIM_STALE && r->number == s->lease && s->state == SRT_OWNED)
            srt_shard_lose(node, s);
        break;
    case SRT_ASK_SETTLE:
        s->settling = s->settles_suspect = 0;
        before = s->pending.count;
        srt_list_join(list, &s->pending);
        s->pending = *list;
        s->pending_since = follows ? now : now + 10 * SHARD_RETRY_MS;
        s->urgent = follows;
        if (status == SERIATIM_GENERATION) {
            /* A copy of it may have been executed in the earlier generation. The shard remembers its number. */
            s->resend = s->pending.count - before;
            s->sequence--;
        }
        srt_free(node->mem, list, sizeof *list);
        if (node->quarantine.step == SRT_QUARANTINE_SETTLE && node->quarantine.shard == s)
            srt_quarantine_end(node); /* Redis may refuse it for good */
        break;
    case SRT_ASK_RECOVER:
        s->recovering = 0;
        s->refusals += node->stopping && !follows;
        s->recover_at = follows ? now : now + 10 * SHARD_RETRY_MS;
        if (status == SERIATIM_STALE && r->number == s->lease && s->state == SRT_OWNED)
            srt_shard_lose(node, s);
        break;
    case SRT_ASK_RELEASE: /* a node that stops does not wait for the answer: the next owner finds its heartbeat gone */
        s->state = node->stopping && !follows ? SRT_FOREIGN : SRT_OWNED;
        break;
    case SRT_ASK_TELL:
    case SRT_ASK_TOLD:
        srt_notice_refused(node, s, now);
        break;
    case SRT_ASK_TRIM:
        srt_morgue_refused(s, now);
        if (status == SERIATIM_STALE && r->number == s->lease && s->state == SRT_OWNED)
            srt_shard_lose(node, s);
        break;
    default:
        break;
    }
    if (status != SERIATIM_STALE && !follows)
        srt_shard_denied(node, s, r->kind, error, now);
    srt_node_wake(node, s, now + (status == SERIATIM_STALE ? 0 : 10 * SHARD_RETRY_MS));
}

/*
 * Does the answer have the form that the script of the request gives? If not, it does not come from a script of
 * Seriatim.
 */
static int reply_fits(int kind, const srt_reply *reply)
{
    const srt_token *tokens = reply->tokens;
    switch (kind) {
    case SRT_ASK_ACQUIRE:
        return srt_reply_is_list(reply, 3) && (srt_token_is(&tokens[1], "TAKEN") || reply->count > 5);
    case SRT_ASK_RECOVER: /* begins with the cursor */
        return srt_reply_is_list(reply, 4) && tokens[1].type == SRT_STRING;
    case SRT_ASK_CLAIM: /* 8 elements, or 10 when ids were taken */
        return srt_reply_is_list(reply, 8) &&
               (reply->count == 9 || (reply->count == 11 && tokens[7].len == 1 && tokens[9].type == SRT_STRING &&
                                      tokens[10].type == SRT_STRING));
    case SRT_ASK_SETTLE: /* 0 and AGAIN stand alone */
        return tokens[0].type == SRT_INTEGER ||
               (srt_reply_is_list(reply, 1) && (srt_token_is(&tokens[1], "AGAIN") || reply->count > 2));
    case SRT_ASK_TRIM:
        return srt_reply_is_list(reply, 2);
    case SRT_ASK_RELEASE:
        return tokens[0].type == SRT_STRING;
    default: /* a slice, which is told apart where it is taken */
        return 1;
    }
}

int srt_shard_reply(srt_node *node, srt_request *r, const srt_reply *reply, int64_t now, seriatim_error *error)
{
    srt_job *job = r->kind == SRT_ASK_SLICE ? r->subject : NULL;
    srt_shard *s = job                         ? job->shard
                   : r->kind == SRT_ASK_SETTLE ? ((srt_job_list *)r->subject)->first->shard
                                               : r->subject;
    int status = srt_reply_status(&reply->tokens[0], error);
    if (status == SERIATIM_READONLY || status == SERIATIM_LOADING)
        return srt_cluster_again(&node->cluster, r) == SERIATIM_OK ? status : SERIATIM_NOMEM;
    if (status == SERIATIM_OK && !reply_fits(r->kind, reply))
        status = srt_fail(error, SERIATIM_PROTOCOL, "an answer of a form that no script gives");
    if (status != SERIATIM_OK && !job) {
        shard_refused(node, s, r, status, error, now);
    } else {
        srt_shard_granted(node, s, r->kind);
        if (r->kind == SRT_ASK_ACQUIRE)
            srt_shard_acquired(node, s, r, reply, now);
        else if (r->kind == SRT_ASK_CLAIM)
            srt_shard_claimed(node, s, r, reply, now);
        else if (r->kind == SRT_ASK_SETTLE)
            srt_shard_settled(node, s, r, reply, now);
        else if (r->kind == SRT_ASK_RELEASE)
            srt_shard_released(node, s, reply);
        else if (r->kind == SRT_ASK_RECOVER)
            srt_shard_recovered(node, s, r, reply, now);
        else if (r->kind == SRT_ASK_TELL)
            srt_notice_fetched(node, s, reply, now);
        else if (r->kind == SRT_ASK_TOLD)
            srt_notice_told(node, s, reply, now);
        else if (r->kind == SRT_ASK_TRIM)
            srt_morgue_trimmed(node, s, reply, now);
        else
            srt_shard_sliced(node, job, reply, now);
        srt_node_wake(node, s, now);
    }
    srt_cluster_done(&node->cluster, r);
    return SERIATIM_OK;
}

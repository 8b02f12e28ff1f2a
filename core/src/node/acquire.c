/* acquire.c - takes a shard, compares its runs with Redis' and gives it up. */
#include "node/shard.h"

#include <string.h>

/* ---- Runs that this node has ----------------------------------------------------------------- */

typedef void (*shard_visit)(srt_job *job, void *context);

static void visit_run(srt_job *job, const srt_shard *s, shard_visit visit, void *context)
{
    if (job->shard == s && job->lease == s->lease)
        visit(job, context);
}

static void visit_runs(const srt_job_list *list, const srt_shard *s, shard_visit visit, void *context)
{
    srt_job *job;
    for (job = list->first; job; job = job->next)
        visit_run(job, s, visit, context);
}

/*
 * Visits the runs of the shard that this node has under its present lease. Those of an earlier lease are left out:
 * Redis may have given their ids out again. With a ttr an id may have two runs here: a thread still has one whose time
 * is over, and the id was claimed again.
 */
static void shard_visit_runs(srt_node *node, srt_shard *s, shard_visit visit, void *context)
{
    const seriatim_delivery *d;
    const srt_claim *claim;
    size_t i;
    visit_runs(&s->ready, s, visit, context);
    visit_runs(&s->pending, s, visit, context);
    visit_runs(&s->barred, s, visit, context);
    for (claim = s->partial_claims; claim; claim = claim->next)
        visit_runs(&claim->ended, s, visit, context);
    visit_runs(&node->groups[s->group].quarantined, s, visit, context);
    visit_runs(&node->groups[s->group].died, s, visit, context);
    for (d = node->held; d; d = d->next)
        for (i = 0; d->kind != SERIATIM_EXHAUSTED && !d->abandoned && i < d->count; i++)
            visit_run(d->jobs[i], s, visit, context);
}

/* Tells Redis which runs this node has, so that it puts back those that no process has. */
static void tell_run(srt_job *job, void *request)
{
    srt_request_arg(request, job->view.id, job->view.id_len);
    srt_request_arg(request, job->run, job->run_len);
}

static void part_run(srt_job *job, void *context)
{
    (void)context;
    job->claim->whole = 0;
}

static void find_timed(srt_job *job, void *found)
{
    *(int *)found |= job->claim->timed;
}

static void renumber_run(srt_job *job, void *lease)
{
    job->lease = *(int64_t *)lease;
}

/* ---- Acquire -------------------------------------------------------------------------------- */

/* acquire.lua takes the shard only if nobody has acquired or released it since Redis named its owner here. */
void srt_shard_acquire(srt_node *node, srt_shard *s, int64_t now)
{
    srt_request *r = srt_shard_begin(node, s, srt_script_acquire, SRT_ASK_ACQUIRE);
    int timed = s->queue->now.ttr > 0;
    if (r) {
        if (s->state == SRT_OWNED)
            shard_visit_runs(node, s, find_timed, &timed); /* the ttr may have been removed since */
        r->number = s->state == SRT_OWNED ? s->lease : 0;
        srt_request_arg(r, node->id.data, node->id.len);
        srt_request_text(r, timed ? "0" : "1");
        srt_request_arg(r, s->owner.data, s->owner.len);
        srt_request_int(r, s->owner_number);
        if (s->state == SRT_OWNED)
            shard_visit_runs(node, s, tell_run, r);
    }
    if (!srt_shard_send(node, s, r, now))
        return;
    if (s->state == SRT_OWNED) {
        shard_visit_runs(node, s, part_run, NULL);
        srt_claim_part_all(s);
    }
    s->state = SRT_ACQUIRING;
    s->reconcile = 0;
}

/* Acquires the shard only if Redis names this node as its owner, under any lease. */
void srt_shard_acquire_own(srt_node *node, srt_shard *s, int64_t now)
{
    srt_bytes_clear(&s->owner);
    srt_bytes_add(&s->owner, node->id.data, node->id.len);
    srt_shard_acquire(node, s, now);
}

/*
 * Redis refused the acquire, and names the owner and the number that the next acquire expects. The owner is this node
 * if Redis executed an earlier copy of the request, whose answer was lost with a connection. The shard has no owner if
 * a failover has forgotten that copy.
 */
static void acquire_taken(srt_node *node, srt_shard *s, const srt_request *r, const srt_reply *reply, int64_t now)
{
    const srt_token *owner = &reply->tokens[2];
    int own = owner->len == node->id.len && memcmp(owner->data, node->id.data, owner->len) == 0;
    s->owner_number = srt_token_int(&reply->tokens[3]);
    if (r->number && (own || owner->len == 0)) {
        s->state = SRT_OWNED;
        s->reconcile = 1;
        return;
    }
    if (r->number)
        srt_shard_lose(node, s);
    s->state = SRT_FOREIGN;
    s->perhaps_ours = own;
    srt_bytes_clear(&s->owner);
    srt_bytes_add(&s->owner, owner->data, owner->len);
    s->owner_asked_at = node->heartbeat.answered + 1;
    if (s->changed_meanwhile)
        srt_bytes_clear(&s->owner);
    s->changed_meanwhile = 0;
    if (s->owner.len == 0 || srt_node_lives(node, s->owner.data, s->owner.len))
        return;
    s->owner_asked_at += node->heartbeat.in_flight;
    srt_heartbeat_soon(node, now);
}

void srt_shard_acquired(srt_node *node, srt_shard *s, const srt_request *r, const srt_reply *reply, int64_t now)
{
    int64_t recovered, lease;
    if (srt_token_is(&reply->tokens[1], "TAKEN")) {
        acquire_taken(node, s, r, reply, now);
        return;
    }
    lease = srt_token_int(&reply->tokens[2]);
    recovered = srt_token_int(&reply->tokens[4]);
    s->state = SRT_OWNED;
    s->seen = srt_token_int(&reply->tokens[3]);
    s->more = 1;
    s->window = 0;
    s->paused = s->recall = 0;
    s->unfinished = srt_token_int(&reply->tokens[5]) ? SRT_RUNS : SRT_FINISHED;
    s->recover_at = now;
    strcpy(s->cursor, "0");
    s->notice_asked_at = node->heartbeat.answered + node->heartbeat.in_flight + 1;
    srt_morgue_taken(s, now);
    if (r->number && srt_token_is(&reply->tokens[1], "KEPT")) {
        shard_visit_runs(node, s, renumber_run, &lease);
    } else {
        s->sequence = s->sequence > now ? s->sequence : now; /* greater than every sequence number used before */
        s->first_claim = node->opening;
        s->due_at = s->unproven_at = s->suspect_at = SRT_NEVER;
        s->turned = 0; /* its state may have been lost, and with it that ids leave it: turn.lua */
    }
    s->lease = s->owner_number = lease;
    s->given_up = 0;
    srt_shard_mark_old(node, s, r->number ? s->seen : 0);
    if (r->number) {
        /* While runs of dead processes are to be reported Redis does not name the last claim that it knows. The next
         * acquire puts back what is dropped here. */
        s->reconcile = s->seen == 0;
        srt_shard_drop_forgotten(node, s, s->seen);
        srt_checkpoints_repeat(node, s, now);
    }
    srt_bytes_clear(&s->owner);
    node->groups[s->group].wake_pending = 1;
    s->recovered = recovered;
    if (s->unfinished != SRT_RUNS)
        srt_shard_tell_recovered(node, s);
}

/* ---- Release -------------------------------------------------------------------------------- */

void srt_shard_release(srt_node *node, srt_shard *s, int64_t now)
{
    srt_bytes channel;
    srt_request *r = srt_shard_begin(node, s, srt_script_release, SRT_ASK_RELEASE);
    size_t i;
    srt_bytes_init(&channel, node->mem);
    for (i = 0; i < node->peers.count; i++) {
        if (node->peers.list[i].hash != s->next_owner || s->next_owner == node->hash)
            continue;
        srt_bytes_add(&channel, node->wake_channel.data, node->wake_channel.len - node->id.len);
        srt_bytes_add(&channel, node->peers.list[i].id.data, node->peers.list[i].id.len);
    }
    if (r) {
        srt_request_int(r, s->lease);
        srt_request_arg(r, channel.data, channel.failed ? 0 : channel.len);
    }
    srt_bytes_free(&channel);
    if (srt_shard_send(node, s, r, now))
        s->state = SRT_GIVING_UP;
}

void srt_shard_released(const srt_node *node, srt_shard *s, const srt_reply *reply)
{
    if (srt_token_is(&reply->tokens[0], "BUSY")) {
        s->refusals += node->stopping;
        s->state = SRT_OWNED;
        s->reconcile = 1;
        return;
    }
    s->state = SRT_FOREIGN;
    s->given_up = 1;
    s->lease = 0;
    srt_bytes_clear(&s->owner);
    s->due_at = s->unproven_at = s->suspect_at = SRT_NEVER;
}

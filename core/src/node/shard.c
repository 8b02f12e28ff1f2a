/* shard.c - one shard in a node's life: acquire, claim, settle, give up. */
#include "base/msgpack.h"
#include "node/node_state.h"

#include <string.h>

#define SHARD_MAX_CLAIM 1000   /* ids a script call */
#define SHARD_FLUSH_MS 5       /* while more is ready, a finished id waits this long for others to settle with */
#define SHARD_HOLD_MS 35       /* and as long for the others of its claim, to be settled in one word */
#define SHARD_WINDOW_MS 20     /* a claim takes what was finished in so long: it is to end within HOLD also where jobs are slow at times */
#define SHARD_SLICE_PAUSE_MS 2 /* between slices of an id that has more than so many payloads: others want Redis, too */
#define SHARD_MANY_PAYLOADS 2000
#define NO_LEASE (-1)
#define SHARD_RETRY_MS 100     /* after a request could not be made */
#define SHARD_PORTION 250      /* payloads that one call moves, as in core/scripts/lib/record.lua */
#define SHARD_PORTION_BYTES ((size_t)384 * 1024)
#define SHARD_SETTLE_OTHERS 100 /* ids of a settle that are not just done: each costs as much as ten of those */

/* ---- Claims that are settled as a whole ---------------------------------------------------- */

static void part_add(srt_shard *s, srt_claim *claim, int64_t now)
{
    claim->ended_since = now;
    claim->next = NULL;
    claim->previous = s->last_part;
    if (s->last_part)
        s->last_part->next = claim;
    else
        s->parts = claim;
    s->last_part = claim;
}

/* What has ended of it can be settled: all of it, or what has ended so far. */
static void part_end(srt_shard *s, srt_claim *claim, int64_t now)
{
    if (claim->previous)
        claim->previous->next = claim->next;
    else
        s->parts = claim->next;
    if (claim->next)
        claim->next->previous = claim->previous;
    else
        s->last_part = claim->previous;
    if (s->pending.count == 0)
        s->pending_since = now;
    srt_list_join(&s->pending, &claim->ended);
}

void srt_claim_part(srt_shard *s, srt_claim *claim, int64_t now)
{
    claim->whole = 0;
    if (claim->ended.count)
        part_end(s, claim, now);
}

static void shard_part_all(srt_shard *s, int64_t now)
{
    while (s->parts)
        srt_claim_part(s, s->parts, now);
}

/* With nothing else to do, and with claims that take long, nobody waits for the whole. */
static int64_t part_until(const srt_shard *s)
{
    int busy = s->ready.count || s->claiming || s->more;
    return s->parts ? s->parts->ended_since + (busy ? SHARD_HOLD_MS : SHARD_FLUSH_MS) : SRT_NEVER;
}

static void shard_ended_in_whole(srt_shard *s, srt_job *job, int64_t now)
{
    srt_claim *claim = job->claim;
    srt_list_add(&claim->ended, job);
    if (claim->ended.count == 1)
        part_add(s, claim, now);
    if (claim->ended.count == claim->ids)
        part_end(s, claim, now);
}

void srt_shard_forget(srt_node *node, srt_shard *s)
{
    shard_part_all(s, 0);
    srt_list_free(&s->ready);
    srt_list_free(&s->pending);
    srt_list_free(&s->resting);
    srt_list_free(&s->barred);
    if (s->told)
        srt_delivery_free(node->mem, s->told);
    srt_bytes_free(&s->owner);
}

/* ---- Asking -------------------------------------------------------------------------------- */

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
 * Visits the runs of the shard that this node has under its present lease. Those of an earlier lease are left out: acquire takes
 * one run for each id, the last that is named. Were an old job of the same id named after the present one, its fence would not
 * be that of the run in Redis, and the id would be put back and run again while it still runs here.
 */
static void shard_visit_runs(srt_node *node, srt_shard *s, shard_visit visit, void *context)
{
    const seriatim_delivery *d;
    const srt_claim *claim;
    size_t i;
    visit_runs(&s->ready, s, visit, context);
    visit_runs(&s->pending, s, visit, context);
    visit_runs(&s->barred, s, visit, context);
    for (claim = s->parts; claim; claim = claim->next)
        visit_runs(&claim->ended, s, visit, context);
    visit_runs(&node->groups[s->group].singles, s, visit, context);
    visit_runs(&node->groups[s->group].died, s, visit, context);
    for (d = node->held; d; d = d->next)
        for (i = 0; d->kind != SERIATIM_EXHAUSTED && !d->abandoned && i < d->count; i++)
            visit_run(d->jobs[i], s, visit, context);
}

/* So that Redis can put back the runs that nobody has. */
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

static void renumber_run(srt_job *job, void *lease)
{
    job->lease = *(int64_t *)lease;
}

/* The owner is expected to be nobody, or the node that was seen and found dead. */
static void shard_acquire(srt_node *node, srt_shard *s, int64_t now)
{
    int dead = s->state == SRT_FOREIGN && s->owner.len > 0;
    srt_request *r = srt_shard_begin(node, s, srt_script_acquire, SRT_ASK_ACQUIRE);
    if (r) {
        r->number = s->state == SRT_OWNED ? s->lease : 0;
        srt_request_arg(r, node->id.data, node->id.len);
        srt_request_text(r, s->queue->now.fold);
        srt_request_arg(r, s->owner.data, dead ? s->owner.len : 0);
        srt_request_int(r, dead ? s->owner_lease : 0);
        if (s->state == SRT_OWNED)
            shard_visit_runs(node, s, tell_run, r);
    }
    if (!srt_shard_send(node, s, r, now))
        return;
    if (s->state == SRT_OWNED) {
        shard_visit_runs(node, s, part_run, NULL);
        shard_part_all(s, now);
    }
    s->state = SRT_ACQUIRING;
    s->reconcile = 0;
}

static void shard_claim(srt_node *node, srt_shard *s, size_t limit, int doubt, int64_t now)
{
    srt_request *r = srt_shard_begin(node, s, srt_script_claim, SRT_ASK_CLAIM);
    if (r) {
        srt_request_int(r, s->lease);
        srt_request_int(r, s->seen);
        srt_request_int(r, (int64_t)limit);
        srt_request_int(r, doubt);
        srt_request_int(r, s->queue->now.ttr);
        srt_request_text(r, s->queue->now.fold);
        r->number = s->lease;
        r->place = (size_t)doubt;
    }
    if (!srt_shard_send(node, s, r, now))
        return;
    s->claiming = 1;
    if (doubt)
        node->groups[s->group].doubt_claims++;
}

/* Goes on with what an acquire or a settle left, a slice a call. */
static void shard_recover(srt_node *node, srt_shard *s, int64_t now)
{
    srt_request *r = srt_shard_begin(node, s, srt_script_recover, SRT_ASK_RECOVER);
    if (r) {
        srt_request_int(r, s->lease);
        srt_request_text(r, s->queue->now.fold);
        srt_request_text(r, s->cursor);
        r->number = s->lease;
    }
    if (srt_shard_send(node, s, r, now))
        s->recovering = 1;
}

static size_t payload_bytes(const srt_job *job, size_t place)
{
    return job->record.payloads[place].len + job->record.payloads[place].context_len;
}

/* How many of the payloads that are yet to be rejected one settle takes: few, small together, and near each other. */
static size_t reject_portion(const srt_job *job)
{
    const size_t *first = job->rejected + job->rejected_done;
    size_t left = job->rejected_count - job->rejected_done, count = 0, place = left ? *first : 0, bytes = 0;
    for (; count < left && count < SHARD_PORTION && first[count] - *first < 2 * SHARD_PORTION; count++) {
        for (; place <= first[count]; place++)
            bytes += payload_bytes(job, place);
        if (count && bytes > SHARD_PORTION_BYTES)
            break;
    }
    return count;
}

/* A run that loses more payloads than one settle takes: all but the last leave it open. */
static int reject_goes_on(const srt_job *job)
{
    return job->outcome == SRT_REJECTED && job->rejected_done + reject_portion(job) < job->rejected_count;
}

/* Places are those of the record as Redis has it now: what was rejected before lay in front. */
static void settle_reject(srt_request *r, srt_job *job)
{
    const size_t *first = job->rejected + job->rejected_done;
    size_t count = reject_portion(job), i;
    char *stamps = srt_arena_alloc(&job->claim->memory, 8 * count + 1);
    srt_request_int(r, count ? (int64_t)(*first - job->rejected_done) : 0);
    srt_request_arg(r, job->text, job->text_len);
    srt_request_int(r, count ? (int64_t)(first[count - 1] - *first + 1) : 1);
    r->tail.failed |= !stamps;
    for (i = 0; stamps && i < count; i++)
        srt_number_pack(stamps + 8 * i, job->record.payloads[first[i]].stamp);
    srt_request_arg(r, stamps ? stamps : "", stamps ? 8 * count : 0);
    job->rejected_sent = count;
}

static void settle_other(srt_request *r, srt_job *job)
{
    static const char *const kinds[] = {"release", "done", "fail", "reject", "extend"};
    static const char *const hooked[] = {"release", "done", "fail+", "reject+", "extend"};
    const srt_queue *queue = job->shard->queue;
    int goes_on = reject_goes_on(job);
    srt_request_text(r, queue->now.exhausted_hook ? goes_on ? "bury+" : hooked[job->outcome] : goes_on ? "bury" : kinds[job->outcome]);
    srt_request_arg(r, job->view.id, job->view.id_len);
    srt_request_arg(r, job->run, job->run_len);
    if (job->outcome == SRT_REJECTED) {
        settle_reject(r, job);
        return;
    }
    srt_request_int(r, job->time_us);
    srt_request_arg(r, job->text, job->text_len);
    srt_request_int(r, queue->now.max_retry_count);
    srt_request_text(r, queue->now.on_exhausted);
}

static const srt_job *next_done(const srt_job *job)
{
    while (job && job->outcome != SRT_DONE)
        job = job->next;
    return job;
}

/* The done job that begins the next group: neighbours of one claim share the text of their run. *count: of the group at `job`. */
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
        if (job->outcome != SRT_DONE)
            settle_other(r, job);
    return r;
}

/* Moves the first job, or the whole claim that it begins. */
static void take_group(srt_job_list *to, srt_job_list *from)
{
    size_t count = from->first->claim->whole ? from->first->claim->ids : 1;
    for (; count > 0; count--)
        srt_list_add(to, srt_list_take(from));
}

/* Bytes that the settle of a job may move: a payload that goes to the morgue, or all that are rejected. */
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
        if (job->outcome != SRT_DONE) {
            bytes += settle_bytes(job);
            others++;
            if (to->count && (alone || others > SHARD_SETTLE_OTHERS || (others > 1 && bytes > SHARD_PORTION_BYTES)))
                return;
        }
        take_group(to, from);
        if (alone)
            return;
    }
}

/* Settles what has ended. */
static void shard_settle(srt_node *node, srt_shard *s, int64_t now)
{
    srt_job_list batch = {NULL, NULL, 0};
    srt_job_list *kept = srt_alloc(node->mem, sizeof *kept);
    int64_t lease = s->pending.first->lease;
    srt_request *r;
    if (!kept) {
        srt_node_wake(node, s, now + SHARD_RETRY_MS);
        return;
    }
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
    s->sequence++;
    s->settling = 1;
    s->pending_since = now;
}

static void shard_release(srt_node *node, srt_shard *s, int64_t now)
{
    srt_bytes channel;
    srt_request *r = srt_shard_begin(node, s, srt_script_release, SRT_ASK_RELEASE);
    size_t i;
    srt_bytes_init(&channel, node->mem);
    for (i = 0; i < node->living_count; i++) {
        if (node->living[i].hash != s->heir || s->heir == node->hash)
            continue;
        srt_bytes_add(&channel, node->wake_channel.data, node->wake_channel.len - node->id.len);
        srt_bytes_add(&channel, node->living[i].id.data, node->living[i].id.len);
    }
    if (r) {
        srt_request_int(r, s->lease);
        srt_request_arg(r, channel.data, channel.failed ? 0 : channel.len);
    }
    srt_bytes_free(&channel);
    if (srt_shard_send(node, s, r, now))
        s->state = SRT_GIVING_UP;
}

static void shard_slice(srt_node *node, srt_job *job, int64_t now)
{
    srt_shard *s = job->shard;
    srt_request *r = srt_shard_begin(node, s, srt_script_slice, SRT_ASK_SLICE);
    if (r) {
        r->subject = job;
        srt_request_arg(r, job->view.id, job->view.id_len);
        srt_request_arg(r, job->run, job->run_len);
        srt_request_int(r, (int64_t)job->record.count);
    }
    if (srt_shard_send(node, s, r, now)) {
        s->slicing++;
    } else {
        srt_job_free(job);
        s->reconcile = 1;
    }
}

/* Goes on reading ids that have many payloads. */
static void shard_slice_on(srt_node *node, srt_shard *s, int64_t now)
{
    srt_job_list resting = s->resting;
    srt_job *job;
    if (now < s->slice_at)
        return;
    memset(&s->resting, 0, sizeof s->resting);
    while ((job = srt_list_take(&resting))) {
        s->slicing--;
        shard_slice(node, job, now);
    }
}

/* ---- What to do next ----------------------------------------------------------------------- */

int srt_shard_idle(const srt_shard *s)
{
    return s->running == 0 && s->apart == 0 && s->ready.count == 0 && s->barred.count == 0 && s->pending.count == 0 && !s->parts && !s->claiming &&
           !s->settling && !s->slicing && !s->recovering && s->unfinished != SRT_RUNS;
}

/* Takes a shard's jobs out of a list of its group. */
static srt_job_list take_apart(srt_shard *s, srt_job_list *list)
{
    srt_job_list own = {NULL, NULL, 0}, rest = {NULL, NULL, 0};
    srt_job *job;
    while ((job = srt_list_take(list)))
        srt_list_add(job->shard == s ? &own : &rest, job);
    *list = rest;
    s->apart -= own.count;
    return own;
}

static void shard_recall_singles(srt_node *node, srt_shard *s, srt_job_list *to)
{
    srt_job_list singles;
    if (s->apart == 0)
        return;
    singles = take_apart(s, &node->groups[s->group].singles);
    if (singles.count && node->solo == SRT_SOLO_READY)
        srt_node_end_solo(node);
    if (singles.count)
        srt_node_wake_unproven(node);
    srt_list_join(to, &singles);
}

static void shard_recall(srt_node *node, srt_shard *s, int64_t now)
{
    srt_job_list backwards = {NULL, NULL, 0};
    srt_job *job;
    s->recall = 0;
    srt_list_join(&s->ready, &s->barred);
    while ((job = srt_list_take(&s->ready))) {
        srt_claim_part(s, job->claim, now);
        srt_list_add_first(&backwards, job);
    }
    shard_part_all(s, now);
    srt_ready_update(&node->groups[s->group], s);
    shard_recall_singles(node, s, &backwards);
    if (backwards.count && !s->pending.count)
        s->pending_since = now;
    srt_list_join(&s->pending, &backwards);
}

/* How many ids to have at hand: what a window has finished, at least two rounds of the group's threads. */
static size_t shard_window(const srt_node *node, const srt_shard *s)
{
    size_t window = 2 * node->groups[s->group].threads * s->queue->batch_size;
    if (s->finished_before > window)
        window = s->finished_before;
    if (s->finished > window)
        window = s->finished;
    return window < SHARD_MAX_CLAIM ? window : SHARD_MAX_CLAIM;
}

/* Ids whose time to run counts from the claim are claimed when a thread is free for them. */
static size_t claim_limit(srt_node *node, const srt_shard *s)
{
    const srt_group *group = &node->groups[s->group];
    size_t window = shard_window(node, s), free_ids;
    if (s->queue->now.ttr == 0)
        return s->ready.count * 2 <= window ? window - s->ready.count : 0;
    free_ids = group->held < group->threads ? (group->threads - group->held) * s->queue->batch_size : 0;
    if (free_ids <= s->ready.count) {
        node->starved = 1;
        return 0;
    }
    return free_ids - s->ready.count < window ? free_ids - s->ready.count : window;
}

/* Is there room for more of the ids that are due? */
int srt_shard_wants_claim(srt_node *node, const srt_shard *s, int64_t now)
{
    return !s->claiming && (s->more || s->due_at <= now) && claim_limit(node, s) > 0;
}

static void shard_want_claim(srt_node *node, srt_shard *s, int64_t now)
{
    const srt_group *group = &node->groups[s->group];
    if (s->claiming || s->paused || node->quiet)
        return;
    if (node->solo == SRT_SOLO_CLAIM && node->solo_shard == s) {
        shard_claim(node, s, 1, 2, now);
    } else if (s->unproven_at <= now && group->singles.count + group->doubt_claims < group->threads) {
        shard_claim(node, s, 1, 1, now);
    } else if (srt_shard_wants_claim(node, s, now)) {
        shard_claim(node, s, claim_limit(node, s), 0, now);
    }
}

static int should_settle(const srt_node *node, const srt_shard *s, int64_t now)
{
    if (s->pending.count == 0 || s->settling)
        return 0;
    if (node->solo == SRT_SOLO_SETTLE && node->solo_shard == s)
        return 1;
    return s->ready.count == 0 || s->claiming || s->pending.count * 2 >= shard_window(node, s) ||
           now - s->pending_since >= SHARD_FLUSH_MS;
}

/* Deaths that were found are answered to a claim before more are looked for. */
static int should_recover(const srt_shard *s, int leaving, int64_t now)
{
    return s->unfinished && !s->recovering && s->seen != 0 && now >= s->recover_at && (!leaving || s->unfinished == SRT_RUNS);
}

static void shard_step_owned(srt_node *node, srt_shard *s, int64_t now)
{
    int leaving = !s->wanted || node->stopping;
    if (leaving || node->quiet || s->paused || s->recall)
        shard_recall(node, s, now);
    shard_slice_on(node, s, now);
    if (s->seen == 0 && !s->claiming)
        shard_claim(node, s, 1, 0, now); /* deaths to report are answered before anything else */
    if (s->reconcile) {
        if (!s->claiming && !s->settling && !s->slicing && !s->recovering)
            shard_acquire(node, s, now);
        return;
    }
    if (should_recover(s, leaving, now))
        shard_recover(node, s, now);
    while (part_until(s) <= now)
        srt_claim_part(s, s->parts, now);
    if (!leaving)
        shard_want_claim(node, s, now);
    if (should_settle(node, s, now))
        shard_settle(node, s, now);
    if (leaving && srt_shard_idle(s))
        shard_release(node, s, now);
}

static void shard_step_foreign(srt_node *node, srt_shard *s, int64_t now)
{
    if (s->pending.count && !s->settling)
        shard_settle(node, s, now);
    if (s->give_up_again) {
        s->give_up_again = 0;
        s->lease = s->given_up;
        shard_release(node, s, now);
        return;
    }
    if (!s->wanted || node->stopping || node->beats == 0)
        return;
    if (s->owner.len > 0 && node->beats < s->asked_beat)
        return;
    if (s->owner.len > 0 && srt_node_lives(node, s->owner.data, s->owner.len))
        srt_bytes_clear(&s->owner);
    if (s->owner.len > 0 && srt_node_leaves_to_owner(node, s, now))
        return;
    shard_acquire(node, s, now);
}

static int64_t shard_next_wake(const srt_node *node, const srt_shard *s, int64_t now)
{
    int64_t at = s->resting.count ? s->slice_at : SRT_NEVER;
    if (s->state != SRT_OWNED || (s->reconcile && !s->resting.count))
        return SRT_NEVER; /* an answer wakes it */
    if (s->pending.count && !s->settling && s->pending_since + SHARD_FLUSH_MS < at)
        at = s->pending_since + SHARD_FLUSH_MS;
    if (part_until(s) < at)
        at = part_until(s);
    if (s->unfinished && !s->recovering && s->recover_at > now && s->recover_at < at)
        at = s->recover_at;
    if (!s->claiming && !s->paused && !node->quiet && s->wanted) {
        if (s->due_at > now && s->due_at < at)
            at = s->due_at;
        if (s->unproven_at > now && s->unproven_at < at)
            at = s->unproven_at;
    }
    return at > now ? at : now + 1; /* never within the same tick */
}

void srt_shard_step(srt_node *node, srt_shard *s, int64_t now)
{
    if (!node->sessions[SRT_COMMANDS].connected)
        return;
    if (s->state == SRT_OWNED)
        shard_step_owned(node, s, now);
    else if (s->state == SRT_FOREIGN)
        shard_step_foreign(node, s, now);
    srt_notice_step(node, s, now);
    srt_node_wake(node, s, shard_next_wake(node, s, now));
}

static void shard_count_finished(srt_shard *s, int64_t now)
{
    if (now - s->window_start >= SHARD_WINDOW_MS) {
        s->finished_before = now - s->window_start < 2 * SHARD_WINDOW_MS ? s->finished : 0;
        s->finished = 0;
        s->window_start = now;
    }
    s->finished++;
}

static void job_ready(srt_node *node, srt_job *job, int64_t now);

/* An old run has ended. */
static void shard_old_ended(srt_node *node, srt_shard *s, int64_t now)
{
    srt_job_list barred = s->barred;
    srt_job *job;
    s->old--;
    memset(&s->barred, 0, sizeof s->barred);
    while ((job = srt_list_take(&barred)))
        job_ready(node, job, now);
}

void srt_shard_ended(srt_node *node, srt_shard *s, srt_job *job, int64_t now)
{
    int64_t at;
    shard_count_finished(s, now);
    if (job->old)
        shard_old_ended(node, s, now);
    if (job->claim->whole && job->outcome == SRT_DONE && s->state == SRT_OWNED && job->lease == s->lease) {
        shard_ended_in_whole(s, job, now);
    } else {
        srt_claim_part(s, job->claim, now);
        if (s->pending.count == 0)
            s->pending_since = now;
        srt_list_add(&s->pending, job);
    }
    at = s->pending.count ? s->pending_since + SHARD_FLUSH_MS : part_until(s);
    if (s->state != SRT_OWNED || should_settle(node, s, now))
        srt_node_wake(node, s, now);
    else if (s->wake_at > at)
        srt_node_wake(node, s, at);
}

/* ---- Answers ------------------------------------------------------------------------------- */

/*
 * The runs that threads have from now on are old: Redis may give their ids out again, because another node had the shard or because
 * a failover forgot their claims. Those that are claimed later than what Redis has heard of (`heard`, 0: not known) are of no lease:
 * acquire must not name them beside newer runs of the same ids.
 */
static void shard_mark_old(const srt_node *node, srt_shard *s, int64_t heard)
{
    const seriatim_delivery *d;
    size_t i;
    for (d = node->held; s->running > 0 && d; d = d->next)
        for (i = 0; d->shard == s && d->kind == SERIATIM_RUN && !d->abandoned && i < d->count; i++) {
            s->old += !d->jobs[i]->old;
            d->jobs[i]->old = 1;
            if (heard && d->jobs[i]->view.fence > heard)
                d->jobs[i]->lease = NO_LEASE;
        }
}

/* Is an old run of the same id in a thread's hands? One whose time to run is over does not count: Redis gave its id out on purpose. */
static int runs_already(const srt_node *node, const srt_job *job, int64_t now)
{
    const srt_shard *s = job->shard;
    int64_t over = now * 1000 + node->offset_us - s->queue->now.ttr;
    const seriatim_delivery *d;
    size_t i;
    for (d = node->held; s->old > 0 && d; d = d->next)
        for (i = 0; d->shard == s && i < d->count; i++) {
            const srt_job *held = d->jobs[i];
            if (held->old && held->view.id_len == job->view.id_len && memcmp(held->view.id, job->view.id, job->view.id_len) == 0 &&
                (s->queue->now.ttr == 0 || held->view.fence > over))
                return 1;
        }
    return 0;
}

/* Frees what waits in a list for a thread and is no run of this shard in Redis any more. */
static size_t drop_forgotten(const srt_shard *s, srt_job_list *list, int64_t heard)
{
    srt_job_list kept = {NULL, NULL, 0};
    size_t before = list->count;
    srt_job *job;
    while ((job = srt_list_take(list)))
        if (job->shard == s && (job->lease != s->lease || job->view.fence > heard))
            srt_job_free(job);
        else
            srt_list_add(&kept, job);
    *list = kept;
    return before - kept.count;
}

/*
 * After a failover Redis may not know the last claims: their ids wait there and will be claimed again. What threads have not begun is
 * forgotten here, too. `heard`: the last claim that Redis knows.
 */
static void shard_drop_forgotten(srt_node *node, srt_shard *s, int64_t heard)
{
    srt_group *group = &node->groups[s->group];
    size_t dropped;
    drop_forgotten(s, &s->ready, heard);
    drop_forgotten(s, &s->barred, heard);
    srt_ready_update(group, s);
    if (s->apart == 0)
        return;
    dropped = drop_forgotten(s, &group->singles, heard) + drop_forgotten(s, &group->died, heard);
    s->apart -= dropped;
    if (dropped && node->solo == SRT_SOLO_READY)
        srt_node_end_solo(node);
    if (dropped)
        srt_node_wake_unproven(node);
}

static void shard_lose(srt_node *node, srt_shard *s)
{
    srt_job_list dropped = {NULL, NULL, 0};
    s->state = SRT_FOREIGN;
    srt_bytes_clear(&s->owner);
    shard_part_all(s, s->pending_since);
    srt_list_free(&s->ready);
    srt_list_free(&s->barred);
    s->slicing -= (int)s->resting.count;
    srt_list_free(&s->resting);
    srt_ready_update(&node->groups[s->group], s);
    shard_recall_singles(node, s, &dropped);
    if (s->apart) {
        srt_job_list died = take_apart(s, &node->groups[s->group].died);
        srt_list_join(&dropped, &died);
    }
    srt_list_free(&dropped);
    shard_mark_old(node, s, 0);
    s->given_up = s->lease;
    s->paused = s->recall = s->reconcile = 0;
    s->unfinished = SRT_FINISHED;
    s->first_claim = 0;
    s->due_at = s->unproven_at = s->suspect_at = SRT_NEVER;
    if (node->solo_shard == s && (node->solo == SRT_SOLO_DRAIN || node->solo == SRT_SOLO_CLAIM || node->solo == SRT_SOLO_SETTLE))
        srt_node_end_solo(node);
    srt_node_tell(node, SERIATIM_EVENT_LOST, 1, "lost the lease of shard %.*s", (int)s->keys->prefix.len - 1,
                  s->keys->prefix.data);
}

/* It may overtake the answer to an older question: that one does not hide it. */
void srt_shard_news(srt_node *node, srt_shard *s, int64_t now)
{
    s->more = 1;
    s->paused = 0;
    s->woken = s->claiming || s->state == SRT_ACQUIRING;
    srt_node_wake(node, s, now);
}

static void acquire_taken(srt_node *node, srt_shard *s, const srt_request *r, const srt_reply *reply, int64_t now)
{
    if (r->number)
        shard_lose(node, s);
    s->state = SRT_FOREIGN;
    srt_bytes_clear(&s->owner);
    srt_bytes_add(&s->owner, reply->tokens[2].data, reply->tokens[2].len);
    s->owner_lease = srt_token_int(&reply->tokens[3]);
    s->asked_beat = node->beats + 1;
    if (s->woken)
        srt_bytes_clear(&s->owner);
    s->woken = 0;
    if (s->owner.len == 0 || srt_node_lives(node, s->owner.data, s->owner.len))
        return;
    s->asked_beat += node->beating;
    srt_node_beat_soon(node, now);
}

static void tell_recovered(srt_node *node, srt_shard *s)
{
    if (s->recovered)
        srt_node_tell(node, SERIATIM_EVENT_RECOVERED, s->recovered, "recovered %lld run%s in shard %.*s", (long long)s->recovered,
                      s->recovered == 1 ? "" : "s", (int)s->keys->prefix.len - 1, s->keys->prefix.data);
    s->recovered = 0;
}

static void shard_acquired(srt_node *node, srt_shard *s, const srt_request *r, const srt_reply *reply, int64_t now)
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
    s->paused = s->recall = 0;
    s->unfinished = srt_token_int(&reply->tokens[5]) ? SRT_RUNS : SRT_FINISHED;
    s->recover_at = now;
    strcpy(s->cursor, "0");
    s->notice_beat = node->beats + node->beating + 1;
    if (r->number && srt_token_is(&reply->tokens[1], "KEPT")) {
        shard_visit_runs(node, s, renumber_run, &lease);
    } else {
        s->sequence = s->sequence > now ? s->sequence : now; /* never one that was used */
        s->first_claim = node->opening;
        s->due_at = s->unproven_at = s->suspect_at = SRT_NEVER;
    }
    s->lease = lease;
    s->given_up = 0;
    shard_mark_old(node, s, r->number ? s->seen : 0);
    if (r->number) {
        /* With deaths to report Redis does not say which claim it knows: it puts back what is dropped here when asked once more. */
        s->reconcile = s->seen == 0;
        shard_drop_forgotten(node, s, s->seen);
    }
    srt_bytes_clear(&s->owner);
    node->groups[s->group].news = 1;
    s->recovered = recovered;
    if (s->unfinished != SRT_RUNS)
        tell_recovered(node, s);
}

/* Answers a part of the recovery, or of what is uniting. */
static void shard_recovered(srt_node *node, srt_shard *s, const srt_request *r, const srt_reply *reply, int64_t now)
{
    const srt_token *cursor = &reply->tokens[1];
    s->recovering = 0;
    if (r->number != s->lease || s->state != SRT_OWNED || cursor->len >= sizeof s->cursor)
        return;
    memcpy(s->cursor, cursor->data, cursor->len);
    s->cursor[cursor->len] = '\0';
    s->unfinished = cursor->len == 0 ? SRT_FINISHED : s->cursor[0] == 'u' ? SRT_UNITING : SRT_RUNS;
    s->recover_at = now + SHARD_SLICE_PAUSE_MS;
    s->recovered += srt_token_int(&reply->tokens[2]);
    if (srt_token_int(&reply->tokens[3]))
        s->seen = 0;
    s->more |= srt_token_int(&reply->tokens[4]) != 0;
    if (s->unfinished != SRT_RUNS)
        tell_recovered(node, s);
}

/* A claimed id goes where it will be handed out from. One process never runs one id twice at once. */
static void job_ready(srt_node *node, srt_job *job, int64_t now)
{
    srt_shard *s = job->shard;
    srt_group *group = &node->groups[s->group];
    if (job->mode != 'o' && runs_already(node, job, now)) {
        srt_claim_part(s, job->claim, now);
        srt_list_add(&s->barred, job);
        return;
    }
    srt_job_view(job);
    group->news = 1;
    s->apart += job->mode != 'n';
    if (job->mode == 'o') {
        srt_list_add(&group->died, job);
    } else if (job->mode == 's') {
        srt_list_add_first(&group->singles, job);
        if (node->solo < SRT_SOLO_RUN)
            node->solo = SRT_SOLO_READY;
    } else if (job->mode == 'u') {
        srt_list_add(&group->singles, job);
    } else {
        srt_list_add(&s->ready, job);
        srt_ready_update(group, s);
    }
}

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

static int claim_job(srt_node *node, srt_shard *s, srt_claim *claim, srt_texts *ids, srt_texts *records, char *const runs[2],
                     size_t run_len, int64_t now)
{
    srt_job *job = srt_arena_alloc(&claim->memory, sizeof *job);
    const char *record;
    size_t len;
    int status;
    if (!job)
        return SERIATIM_NOMEM;
    memset(job, 0, sizeof *job);
    status = srt_texts_next(ids, &job->view.id, &job->view.id_len);
    if (status == SERIATIM_OK)
        status = srt_texts_next(records, &record, &len);
    if (status == SERIATIM_OK)
        status = srt_record_read(&job->record, &claim->memory, record, len);
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
    if (job->record.missing)
        shard_slice(node, job, now);
    else
        job_ready(node, job, now);
    return SERIATIM_OK;
}

/* Takes the ids of a claim's answer. */
static int claim_take(srt_node *node, srt_shard *s, const srt_reply *reply, int64_t now)
{
    srt_claim *claim = srt_alloc(node->mem, sizeof *claim);
    const srt_token *fence = &reply->tokens[2], *mode = &reply->tokens[7], *texts = &reply->tokens[9];
    srt_texts ids, records;
    char *runs[2];
    int status;
    if (!claim)
        return SERIATIM_NOMEM;
    memset(claim, 0, sizeof *claim);
    claim->memory = srt_reader_take(node->sessions[SRT_COMMANDS].reader);
    claim->jobs = 1;
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
        status = claim_job(node, s, claim, &ids, &records, runs, fence->len + 2, now);
        if (status == SERIATIM_OK)
            continue;
        claim->whole = 0;
        if (status == SERIATIM_PROTOCOL) {
            srt_node_tell(node, SERIATIM_EVENT_WARNING, 1, "shard %.*s: the record of an id cannot be read",
                          (int)s->keys->prefix.len - 1, s->keys->prefix.data);
            status = SERIATIM_OK;
        }
    }
    srt_claim_free_one(claim);
    return status;
}

static int64_t local_time(const srt_node *node, int64_t redis_us)
{
    return redis_us >= SRT_FOREVER ? SRT_NEVER : (redis_us - node->offset_us + 999) / 1000;
}

/* The second bit of what a claim or a settle says: there is something for recover.lua to do. */
static void shard_finds_unfinished(srt_shard *s, int64_t flags)
{
    if (flags < 2 || s->unfinished)
        return;
    s->unfinished = SRT_UNITING;
    strcpy(s->cursor, "u");
}

static void shard_claimed(srt_node *node, srt_shard *s, const srt_request *r, const srt_reply *reply, int64_t now)
{
    int64_t next, fence, flags;
    int past, had_suspect = node->solo == SRT_SOLO_CLAIM && node->solo_shard == s && r->place == 2;
    s->claiming = 0;
    s->first_claim = 0;
    if (r->place) {
        node->groups[s->group].doubt_claims--;
        srt_node_wake_unproven(node);
    }
    if (r->number != s->lease || s->state != SRT_OWNED)
        return;
    node->offset_us = srt_token_int(&reply->tokens[1]) - now * 1000;
    /* Not newer than what was seen: after a failover Redis does not know the last claim, and tells of an earlier one. What that
     * gave is in threads' hands or has ended, so none of it is taken again; acquire tells Redis what is known here. */
    fence = srt_token_int(&reply->tokens[2]);
    past = s->seen && (fence < s->seen || (fence == s->seen && reply->count > 10));
    s->reconcile |= past;
    if (!past)
        s->seen = fence;
    next = srt_token_int(&reply->tokens[3]);
    s->more = next == 0;
    s->due_at = next == 0 ? SRT_NEVER : local_time(node, next);
    s->unproven_at = local_time(node, srt_token_int(&reply->tokens[4]));
    s->suspect_at = local_time(node, srt_token_int(&reply->tokens[5]));
    flags = srt_token_int(&reply->tokens[6]);
    s->paused = (flags & 1) != 0 && !s->woken;
    shard_finds_unfinished(s, flags & 3);
    if (flags & 4)
        srt_notice_seen(node, s, SRT_NOTICES_OTHERS, now);
    s->more |= s->woken;
    s->woken = 0;
    if (reply->count > 10 && !past && claim_take(node, s, reply, now) != SERIATIM_OK)
        s->reconcile = 1;
    if (had_suspect && node->solo == SRT_SOLO_CLAIM)
        srt_node_end_solo(node);
}

static void shard_sliced(srt_node *node, srt_job *job, const srt_reply *reply, int64_t now)
{
    srt_shard *s = job->shard;
    const srt_token *token = &reply->tokens[1], *error = &reply->tokens[2];
    srt_arena strings;
    s->slicing--;
    if (job->lease != s->lease || s->state != SRT_OWNED || reply->count < 3 || token->type != SRT_STRING || error->type != SRT_STRING) {
        s->reconcile |= s->state == SRT_OWNED;
        srt_job_free(job);
        return;
    }
    strings = srt_reader_take(node->sessions[SRT_COMMANDS].reader);
    srt_arena_join(&job->claim->memory, &strings);
    if (error->len) {
        job->record.error = error->data;
        job->record.error_len = error->len;
    }
    if (srt_record_add(&job->record, &job->claim->memory, token->data, token->len) != SERIATIM_OK) {
        srt_job_free(job);
        s->reconcile = 1;
    } else if (token->len == 0 && job->record.count == 0) {
        job->outcome = SRT_DONE; /* its payloads were evicted or deleted by hand: nobody is called without any */
        srt_shard_ended(node, s, job, now);
    } else if (token->len == 0 || job->record.missing == 0) {
        job_ready(node, job, now);
    } else if (job->record.count < SHARD_MANY_PAYLOADS) {
        shard_slice(node, job, now);
    } else {
        s->slicing++;
        s->slice_at = now + SHARD_SLICE_PAUSE_MS;
        srt_list_add(&s->resting, job);
    }
}

/* Where the worker has a hook, does Redis have notices of this settle? After a lost answer that is not known. */
static int settle_noticed(const srt_shard *s, const srt_job_list *list, const srt_reply *reply)
{
    const srt_job *job;
    if (!s->queue->now.exhausted_hook)
        return 0;
    if (reply->count > 3 || (reply->count > 1 && srt_token_is(&reply->tokens[1], "AGAIN")))
        return 1;
    for (job = list->first; job; job = job->next)
        if (job->outcome == SRT_REJECTED)
            return 1;
    return 0;
}

/* Did this failure reach the limit? Redis says so; where its answer was lost, the count does. */
static int job_exhausted(const srt_job *job, const srt_reply *reply)
{
    size_t i;
    if (job->outcome != SRT_FAILED)
        return 0;
    if (srt_token_is(&reply->tokens[1], "AGAIN"))
        return job->record.retry_count + 1 >= job->shard->queue->now.max_retry_count;
    for (i = 3; i < reply->count; i++)
        if (reply->tokens[i].len == job->view.id_len &&
            memcmp(reply->tokens[i].data, job->view.id, job->view.id_len) == 0)
            return 1;
    return 0;
}

/* Where the settings in Redis say that there is no hook, though the worker may have one. bury takes the payload with the lowest score alone. */
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
    d->next = group->hooks;
    group->hooks = d;
    group->news = 1;
}

/* Redis has the settle of a suspect: the others go on. */
static void settled_suspect(srt_node *node, const srt_shard *s, const srt_job_list *list)
{
    const srt_job *job;
    if (node->solo != SRT_SOLO_SETTLE || node->solo_shard != s)
        return;
    for (job = list->first; job; job = job->next)
        if (job->mode == 's' && job->outcome != SRT_EXTENDED) {
            srt_node_end_solo(node);
            return;
        }
}

/* Redis says how many were refused, not which: they are taken off the done ones first. */
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

/* A settle that left the run open, because more of its payloads are to be rejected: those go with the next. */
static int reject_again(srt_shard *s, srt_job_list *list, int64_t refused)
{
    srt_job *job = list->first;
    if (refused || !job || !reject_goes_on(job))
        return 0;
    job->rejected_done += job->rejected_sent;
    srt_list_add_first(&s->pending, srt_list_take(list));
    return 1;
}

static void shard_settled(srt_node *node, srt_shard *s, srt_request *r, const srt_reply *reply, int64_t now)
{
    srt_job_list *list = r->subject;
    const srt_token *tokens = reply->tokens;
    int64_t refused = 0;
    s->settling = 0;
    if (reply->count > 1 && srt_token_is(&tokens[1], "STALE")) {
        refused = (int64_t)list->count;
        if (s->state == SRT_OWNED && r->number == s->lease)
            shard_lose(node, s);
    } else if (reply->count > 2) {
        refused = srt_token_int(&tokens[1]);
        s->more |= srt_token_int(&tokens[2]) % 2 != 0;
        shard_finds_unfinished(s, srt_token_int(&tokens[2]));
    }
    count_settled(node, list, refused);
    if (refused) {
        node->stats.refused += (uint64_t)refused;
        srt_node_tell(node, SERIATIM_EVENT_REFUSED, refused, "%lld settles refused in shard %.*s: the runs are another's now",
                      (long long)refused, (int)s->keys->prefix.len - 1, s->keys->prefix.data);
    }
    if (reject_again(s, list, refused)) {
        srt_free(node->mem, list, sizeof *list);
        return;
    }
    settled_suspect(node, s, list);
    if (settle_noticed(s, list, reply))
        srt_notice_seen(node, s, SRT_NOTICES_OWN, now);
    else if (!s->queue->now.exhausted_hook && (reply->count > 3 || (reply->count > 1 && srt_token_is(&tokens[1], "AGAIN"))))
        shard_exhausted(node, s, list, reply);
    srt_list_free(list);
    srt_free(node->mem, list, sizeof *list);
}

static void shard_released(srt_shard *s, const srt_reply *reply)
{
    if (srt_token_is(&reply->tokens[0], "BUSY")) {
        s->state = SRT_OWNED;
        s->reconcile = 1;
        return;
    }
    s->state = SRT_FOREIGN;
    s->given_up = s->lease;
    s->lease = 0;
    srt_bytes_clear(&s->owner);
    s->due_at = s->unproven_at = s->suspect_at = SRT_NEVER;
}

/* Redis refused the request itself. What the request was about is tried again. */
static void shard_refused(srt_node *node, srt_shard *s, srt_request *r, int status, const seriatim_error *error, int64_t now)
{
    srt_job_list *list = r->subject;
    switch (r->kind) {
    case SRT_ASK_ACQUIRE:
        s->state = r->number ? SRT_OWNED : SRT_FOREIGN;
        s->reconcile = r->number != 0;
        break;
    case SRT_ASK_CLAIM:
        s->claiming = 0;
        if (r->place) {
            node->groups[s->group].doubt_claims--;
            srt_node_wake_unproven(node);
        }
        if (node->solo == SRT_SOLO_CLAIM && node->solo_shard == s) {
            node->solo_not_before = now + 10 * SHARD_RETRY_MS;
            srt_node_end_solo(node);
        }
        if (status == SERIATIM_STALE && r->number == s->lease && s->state == SRT_OWNED)
            shard_lose(node, s);
        break;
    case SRT_ASK_SETTLE:
        s->settling = 0;
        srt_list_join(list, &s->pending);
        s->pending = *list;
        s->pending_since = now;
        srt_free(node->mem, list, sizeof *list);
        break;
    case SRT_ASK_RECOVER:
        s->recovering = 0;
        s->recover_at = now + 10 * SHARD_RETRY_MS;
        if (status == SERIATIM_STALE && r->number == s->lease && s->state == SRT_OWNED)
            shard_lose(node, s);
        break;
    case SRT_ASK_RELEASE: /* who stops needs no leave: an heir finds the heartbeat gone */
        s->state = node->stopping ? SRT_FOREIGN : SRT_OWNED;
        break;
    case SRT_ASK_TELL:
    case SRT_ASK_TOLD:
        srt_notice_refused(node, s, now);
        break;
    default:
        break;
    }
    if (status != SERIATIM_STALE)
        srt_node_tell(node, SERIATIM_EVENT_WARNING, status, "shard %.*s: %s", (int)s->keys->prefix.len - 1,
                      s->keys->prefix.data, error->message);
    srt_node_wake(node, s, now + (status == SERIATIM_STALE ? 0 : 10 * SHARD_RETRY_MS));
}

/* Has the answer the form that the script of the request gives it? Of another form is what no Seriatim has said. */
static int reply_fits(int kind, const srt_reply *reply)
{
    const srt_token *tokens = reply->tokens;
    switch (kind) {
    case SRT_ASK_ACQUIRE:
        return srt_reply_is_list(reply, 3) && (srt_token_is(&tokens[1], "TAKEN") || reply->count > 5);
    case SRT_ASK_RECOVER: /* begins with the cursor */
        return srt_reply_is_list(reply, 4) && tokens[1].type == SRT_STRING;
    case SRT_ASK_CLAIM: /* 8 elements, or 10 when ids were taken */
        return srt_reply_is_list(reply, 8) && (reply->count == 9 || (reply->count == 11 && tokens[7].len == 1 &&
                                               tokens[9].type == SRT_STRING && tokens[10].type == SRT_STRING));
    case SRT_ASK_SETTLE: /* AGAIN stands alone */
        return srt_reply_is_list(reply, 1) && (srt_token_is(&tokens[1], "AGAIN") || reply->count > 2);
    case SRT_ASK_RELEASE:
        return tokens[0].type == SRT_STRING;
    default: /* a slice, which is told apart where it is taken */
        return 1;
    }
}

int srt_shard_reply(srt_node *node, srt_request *r, const srt_reply *reply, int64_t now, seriatim_error *error)
{
    srt_job *job = r->kind == SRT_ASK_SLICE ? r->subject : NULL;
    srt_shard *s = job ? job->shard : r->kind == SRT_ASK_SETTLE ? ((srt_job_list *)r->subject)->first->shard : r->subject;
    int status = srt_reply_status(&reply->tokens[0], error);
    if (status == SERIATIM_READONLY || status == SERIATIM_LOADING)
        return srt_session_again(&node->sessions[SRT_COMMANDS], r) == SERIATIM_OK ? status : SERIATIM_NOMEM;
    if (status == SERIATIM_OK && !reply_fits(r->kind, reply))
        status = srt_fail(error, SERIATIM_PROTOCOL, "an answer of a form that no script gives");
    if (status != SERIATIM_OK && !job) {
        shard_refused(node, s, r, status, error, now);
    } else {
        if (r->kind == SRT_ASK_ACQUIRE)
            shard_acquired(node, s, r, reply, now);
        else if (r->kind == SRT_ASK_CLAIM)
            shard_claimed(node, s, r, reply, now);
        else if (r->kind == SRT_ASK_SETTLE)
            shard_settled(node, s, r, reply, now);
        else if (r->kind == SRT_ASK_RELEASE)
            shard_released(s, reply);
        else if (r->kind == SRT_ASK_RECOVER)
            shard_recovered(node, s, r, reply, now);
        else if (r->kind == SRT_ASK_TELL)
            srt_notice_fetched(node, s, reply, now);
        else if (r->kind == SRT_ASK_TOLD)
            srt_notice_told(node, s, reply, now);
        else
            shard_sliced(node, job, reply, now);
        srt_node_wake(node, s, now);
    }
    srt_session_done(&node->sessions[SRT_COMMANDS], r);
    return SERIATIM_OK;
}

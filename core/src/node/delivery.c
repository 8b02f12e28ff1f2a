/* delivery.c - what host threads hold: hand-out by the scheduler, outcomes, hand-back. */
#include "base/printable.h"
#include "node/node_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading ------------------------------------------------------------------------------- */

int seriatim_delivery_kind_of(const seriatim_delivery *d)
{
    return d->kind;
}

size_t seriatim_delivery_worker(const seriatim_delivery *d)
{
    return d->shard->worker;
}

unsigned seriatim_delivery_shard(const seriatim_delivery *d)
{
    return d->shard->index;
}

size_t seriatim_delivery_size(const seriatim_delivery *d)
{
    return d->count;
}

const seriatim_claimed *seriatim_delivery_job(const seriatim_delivery *d, size_t i)
{
    return i < d->count ? &d->jobs[i]->view : NULL;
}

/* ---- Outcomes, in memory of their own, because other threads may use jobs of the same claim ---- */

static const seriatim_allocator *outcome_memory(const srt_job *job)
{
    return job->claim->memory.mem;
}

static void outcome_clear(srt_job *job)
{
    srt_free(outcome_memory(job), job->outcome_text, job->outcome_size);
    job->outcome_text = NULL;
    job->outcome_size = job->text_len = 0;
    job->rejected_count = job->rejected_done = job->rejected_sent = 0;
    job->text = "";
    job->rejected = NULL;
    job->time_us = 0;
    job->has_payload = 0;
    job->outcome = SRT_RELEASED;
}

static void *outcome_reserve(srt_job *job, size_t size)
{
    outcome_clear(job);
    job->outcome_text = srt_alloc(outcome_memory(job), size + 1);
    job->outcome_size = job->outcome_text ? size + 1 : 0;
    return job->outcome_text;
}

int seriatim_delivery_done(seriatim_delivery *d, size_t i)
{
    if (i >= d->count)
        return SERIATIM_INVALID;
    outcome_clear(d->jobs[i]);
    d->jobs[i]->outcome = SRT_DONE;
    return SERIATIM_OK;
}

int seriatim_delivery_release(seriatim_delivery *d, size_t i)
{
    if (i >= d->count)
        return SERIATIM_INVALID;
    outcome_clear(d->jobs[i]);
    return SERIATIM_OK;
}

static int64_t seconds_to_us(double seconds)
{
    if (!(seconds > 0))
        return 0;
    return (int64_t)((seconds < SRT_CENTURY_SECONDS ? seconds : SRT_CENTURY_SECONDS) * 1e6);
}

int seriatim_delivery_snooze(seriatim_delivery *d, size_t i, double seconds, const char *payload, size_t len)
{
    srt_job *job;
    char *text;
    if (i >= d->count || !(seconds >= 0 && seconds <= SRT_CENTURY_SECONDS) || (payload && len > SERIATIM_MAX_PAYLOAD))
        return SERIATIM_INVALID;
    job = d->jobs[i];
    text = outcome_reserve(job, payload ? len : 0);
    if (!text)
        return SERIATIM_NOMEM;
    if (payload && len)
        memcpy(text, payload, len);
    job->outcome = SRT_SNOOZED;
    job->text = text;
    job->text_len = payload ? len : 0;
    job->has_payload = payload != NULL;
    job->time_us = seconds_to_us(seconds);
    return SERIATIM_OK;
}

/*
 * The text of an error is cut to this many bytes: a settle that Redis refuses for its size would be repeated for ever.
 */
#define ERROR_BYTES 65536

/* The length to which the error is cut. UTF-8 is cut before the first byte of a character. */
static size_t error_length(const char *error, size_t len)
{
    size_t cut = ERROR_BYTES;
    if (!error)
        return 0;
    if (len <= ERROR_BYTES)
        return len;
    while (cut > ERROR_BYTES - 3 && ((unsigned char)error[cut] & 0xC0) == 0x80)
        cut--;
    return cut;
}

int seriatim_delivery_fail(seriatim_delivery *d, size_t i, const char *error, size_t len, double retry_in)
{
    srt_job *job;
    char *text;
    if (i >= d->count)
        return SERIATIM_INVALID;
    job = d->jobs[i];
    len = error_length(error, len);
    text = outcome_reserve(job, len);
    if (!text)
        return SERIATIM_NOMEM;
    if (len)
        memcpy(text, error, len);
    job->outcome = SRT_FAILED;
    job->text = text;
    job->text_len = len;
    job->time_us = seconds_to_us(retry_in);
    return SERIATIM_OK;
}

/* settle.c reads the payloads of these places, each once, on the runner's thread. A checkpoint has ended the first. */
static int has_places(const srt_job *job, const size_t *places, size_t count)
{
    size_t i;
    if (count && job->checkpoint && places[0] < job->checkpoint->wanted)
        return 0;
    for (i = 0; i < count; i++)
        if (places[i] >= job->record.count || (i > 0 && places[i] <= places[i - 1]))
            return 0;
    return 1;
}

int seriatim_delivery_reject(seriatim_delivery *d, size_t i, const size_t *places, size_t count, const char *reason,
                             size_t len)
{
    srt_job *job;
    size_t *kept;
    char *text;
    if (i >= d->count || (count && !places) || !has_places(d->jobs[i], places, count))
        return SERIATIM_INVALID;
    job = d->jobs[i];
    len = error_length(reason, len);
    kept = outcome_reserve(job, len + count * sizeof *places);
    if (!kept)
        return SERIATIM_NOMEM;
    text = (char *)(kept + count);
    if (len)
        memcpy(text, reason, len);
    if (count)
        memcpy(kept, places, count * sizeof *places);
    job->outcome = SRT_REJECTED;
    job->text = text;
    job->text_len = len;
    job->rejected = kept;
    job->rejected_count = count;
    return SERIATIM_OK;
}

/* ---- Hand-out ------------------------------------------------------------------------------ */

static void count_running(srt_node *node, srt_shard *s, size_t count)
{
    s->running += count;
    s->queue->running += count;
    node->stats.running += count;
}

static void discount_running(srt_node *node, srt_shard *s, size_t count)
{
    s->running -= count;
    s->queue->running -= count;
    node->stats.running -= count;
}

static void hold(srt_node *node, seriatim_delivery *d)
{
    d->previous = NULL;
    d->next = node->held;
    if (node->held)
        node->held->previous = d;
    node->held = d;
    node->held_count++;
    node->groups[d->shard->group].held++;
    if (d->kind == SERIATIM_EXHAUSTED)
        return; /* the ids of such a delivery are settled already */
    count_running(node, d->shard, d->count);
}

static void let_go(srt_node *node, seriatim_delivery *d)
{
    if (d->previous)
        d->previous->next = d->next;
    else
        node->held = d->next;
    if (d->next)
        d->next->previous = d->previous;
    node->held_count--;
    node->groups[d->shard->group].held--;
    if (!d->abandoned && d->kind != SERIATIM_EXHAUSTED)
        discount_running(node, d->shard, d->count);
}

/* Out of memory, the job was not handed out: the waiting threads are woken to try again. */
static int take_later(srt_node *node, srt_shard *s, int64_t now)
{
    node->groups[s->group].wake_pending = 1;
    srt_node_wake(node, s, now + 100);
    return SERIATIM_AGAIN;
}

/* Hands out one job alone: a run whose process died, or an unproven or suspect id. */
static int take_quarantined(srt_node *node, srt_job_list *list, int kind, int64_t now, seriatim_delivery **out)
{
    srt_job *job = list->first;
    seriatim_delivery *d = srt_delivery_new(node->mem, kind, job->shard, 1);
    if (!d)
        return take_later(node, job->shard, now);
    d->jobs[d->count++] = srt_list_take(list);
    d->shard->quarantined--;
    d->is_suspect = job->mode == SRT_RUN_SUSPECT;
    if (d->is_suspect)
        node->quarantine.step = SRT_QUARANTINE_RUN;
    hold(node, d);
    srt_node_wake_unproven(node);
    *out = d;
    return SERIATIM_OK;
}

/* How many ids the next delivery of a shard that may run holds. */
static size_t batch_of(const srt_shard *s)
{
    size_t most = (size_t)s->queue->own.batch_size, limit = (size_t)s->queue->own.max_running;
    if (limit && limit - s->queue->running < most)
        most = limit - s->queue->running;
    return s->ready.count < most ? s->ready.count : most;
}

/* A shard that has an id to hand out, the next one by the scheduler. */
static srt_shard *next_shard(srt_node *node, const srt_group *group, int64_t now)
{
    srt_shard *s;
    while ((s = srt_ready_best(group))) {
        srt_shard_release_overdue(node, s, now);
        if (s->ready.count)
            break;
    }
    return s;
}

static int take_batch(srt_node *node, srt_shard *s, int64_t now, seriatim_delivery **out)
{
    size_t count = batch_of(s);
    seriatim_delivery *d = srt_delivery_new(node->mem, SERIATIM_RUN, s, count);
    srt_group *group = &node->groups[s->group];
    if (!d)
        return take_later(node, s, now);
    while (d->count < count)
        d->jobs[d->count++] = srt_list_take(&s->ready);
    s->turn = group->turn++;
    srt_ready_update(group, s);
    hold(node, d);
    if (srt_shard_wants_claim(node, s, now))
        srt_node_wake(node, s, now);
    *out = d;
    return SERIATIM_OK;
}

static int quarantined_may_run(const srt_node *node, const srt_job *job)
{
    if (!srt_shard_may_run(job->shard))
        return 0;
    if (job->mode == SRT_RUN_SUSPECT)
        return node->held_count == 0 && node->quarantine.step == SRT_QUARANTINE_READY;
    return node->quarantine.step == SRT_QUARANTINE_NONE;
}

/* The first unproven or suspect id that may run now, or NULL: those of a shard that may not do not hold up the others.
 */
static const srt_job *next_quarantined(const srt_node *node, const srt_group *group)
{
    const srt_job *job = group->quarantined.first;
    while (job && !quarantined_may_run(node, job))
        job = job->next;
    return job;
}

int srt_node_drained(const srt_node *n)
{
    const seriatim_delivery *d;
    size_t i;
    for (d = n->held; d; d = d->next)
        if (!d->abandoned && d->kind != SERIATIM_EXHAUSTED)
            return 0;
    for (i = 0; i < n->group_count; i++)
        if (n->groups[i].exhausted && !n->give_up_at)
            return 0;
    for (i = 0; i < n->shard_count; i++)
        if (n->shards[i]->state != SRT_FOREIGN || n->shards[i]->settling || n->shards[i]->pending.count ||
            (!n->give_up_at && (n->shards[i]->telling != SRT_TELLING_NONE || n->shards[i]->notices == SRT_NOTICES_OWN)))
            return 0;
    return 1;
}

/*
 * Hands out what goes before any ready id. SERIATIM_OK, _CLOSED, or _AGAIN; then *go_on says whether ready ids may be
 * handed out.
 */
static int take_first(srt_node *node, srt_group *group, int64_t now, seriatim_delivery **out, int *go_on)
{
    const srt_job *job;
    *go_on = 0;
    if (group->exhausted) {
        *out = group->exhausted;
        group->exhausted = (*out)->next;
        hold(node, *out);
        return SERIATIM_OK;
    }
    if (node->stopped || (node->stopping && srt_node_drained(node)))
        return SERIATIM_CLOSED;
    if (group->died.first)
        return take_quarantined(node, &group->died, SERIATIM_DIED, now, out);
    if (node->opening || node->quiet || srt_node_expired(node, now))
        return SERIATIM_AGAIN;
    srt_group_release_overdue(node, group, now);
    job = next_quarantined(node, group);
    while (job && group->quarantined.first != job)
        srt_list_add(&group->quarantined, srt_list_take(&group->quarantined));
    if (job)
        return take_quarantined(node, &group->quarantined, SERIATIM_RUN, now, out);
    *go_on = node->quarantine.step == SRT_QUARANTINE_NONE;
    return SERIATIM_AGAIN;
}

int srt_node_take(srt_node *node, size_t number, int64_t now, seriatim_delivery **out)
{
    srt_group *group = &node->groups[number];
    int go_on, status = take_first(node, group, now, out, &go_on);
    srt_shard *s;
    if (status != SERIATIM_AGAIN || !go_on)
        return status;
    s = next_shard(node, group, now);
    return s ? take_batch(node, s, now, out) : SERIATIM_AGAIN;
}

int srt_node_offers(const srt_node *node, size_t number, int64_t now)
{
    const srt_group *group = &node->groups[number];
    if (group->exhausted || group->died.first)
        return 1;
    if (node->opening || node->quiet || srt_node_expired(node, now))
        return 0;
    return next_quarantined(node, group) || (node->quarantine.step == SRT_QUARANTINE_NONE && srt_ready_best(group));
}

int srt_node_take_from(srt_node *node, size_t number, seriatim_shard wanted, int64_t now, seriatim_delivery **out)
{
    srt_group *group = &node->groups[number];
    int go_on, status = take_first(node, group, now, out, &go_on);
    size_t i;
    if (status != SERIATIM_AGAIN || !go_on)
        return status;
    for (i = 0; i < group->ready_count; i++) {
        srt_shard *s = group->ready[i];
        if (s->worker != wanted.worker || s->index != wanted.shard || !srt_shard_may_run(s))
            continue;
        srt_shard_release_overdue(node, s, now);
        return s->ready.count ? take_batch(node, s, now, out) : SERIATIM_AGAIN;
    }
    return SERIATIM_AGAIN;
}

size_t srt_node_candidates(srt_node *node, size_t number, int64_t now, seriatim_candidate *list, size_t cap)
{
    const srt_group *group = &node->groups[number];
    size_t count = 0, at, i;
    for (i = 0; i < group->ready_count; i++) {
        const srt_shard *s = group->ready[i];
        seriatim_candidate c;
        if (!srt_shard_may_run(s))
            continue;
        c.shard.worker = s->worker;
        c.shard.shard = s->index;
        c.lag = fmax(0, (double)(now * 1000 + node->offset_us - s->ready.first->record.due_us) / 1e6);
        c.size = s->ready.count;
        if (count == cap && (cap == 0 || list[cap - 1].lag >= c.lag))
            continue;
        at = count < cap ? count++ : cap - 1;
        while (at > 0 && list[at - 1].lag < c.lag) {
            list[at] = list[at - 1];
            at--;
        }
        list[at] = c;
    }
    return count;
}

/* ---- Hand-back ----------------------------------------------------------------------------- */

static void suspect_ended(srt_node *node, const seriatim_delivery *d)
{
    if (d->abandoned) {
        srt_quarantine_end(node);
        return;
    }
    node->quarantine.step = SRT_QUARANTINE_SETTLE;
    node->quarantine.shard = d->shard;
}

void srt_node_settle(srt_node *node, seriatim_delivery *d, int64_t now)
{
    size_t i;
    let_go(node, d);
    if (d->kind == SERIATIM_RUN)
        srt_rate_add(&node->groups[d->shard->group].ended, now);
    if (d->is_suspect)
        suspect_ended(node, d);
    if (node->quarantine.step == SRT_QUARANTINE_READY && node->held_count == 0)
        srt_node_wake_threads(node);
    if (d->kind != SERIATIM_EXHAUSTED && !d->abandoned) {
        for (i = 0; i < d->count; i++)
            srt_shard_ended(node, d->shard, d->jobs[i], now);
        d->count = 0;
    }
    if (d->shard->queue->now.serial_shards)
        node->groups[d->shard->group].wake_pending = 1;
    if (d->shard->queue->own.max_running || d->shard->queue->now.serial_shards)
        srt_node_wake_unproven(node);
    if (d->shard->queue->own.max_running)
        srt_node_wake_threads(node); /* other shards of the worker may run now, also in other groups */
    if (d->shard->state == SRT_OWNED && (!d->shard->wanted || node->stopping))
        srt_node_wake(node, d->shard, now);
    srt_node_wake_starved(node, now);
    if (d->notices)
        srt_notice_settled(node, d, now);
    else
        srt_delivery_free(node->mem, d);
}

/* A job of its own that carries only the request to extend the time to run. */
int srt_node_extend(srt_node *node, seriatim_delivery *d, size_t i, double seconds, int64_t now)
{
    const srt_job *job;
    srt_claim *claim;
    srt_job *extend;
    if (i >= d->count)
        return SERIATIM_INVALID;
    job = d->jobs[i];
    if (d->kind == SERIATIM_EXHAUSTED || d->abandoned)
        return SERIATIM_OK;
    claim = srt_alloc(node->mem, sizeof *claim);
    if (!claim)
        return SERIATIM_NOMEM;
    memset(claim, 0, sizeof *claim);
    srt_arena_init(&claim->memory, node->mem);
    claim->jobs = 1;
    claim->timed = job->claim->timed;
    extend = srt_arena_alloc(&claim->memory, sizeof *extend);
    if (extend) {
        memset(extend, 0, sizeof *extend); /* the thread writes the outcome into `job` meanwhile */
        extend->claim = claim;
        extend->shard = job->shard;
        extend->run_len = job->run_len;
        extend->mode = job->mode;
        extend->lease = job->lease;
        extend->view.id_len = job->view.id_len;
        extend->view.id = srt_arena_copy(&claim->memory, job->view.id, job->view.id_len);
        extend->run = srt_arena_copy(&claim->memory, job->run, job->run_len);
        extend->text = "";
        extend->outcome = SRT_EXTENDED;
        extend->time_us = seconds_to_us(seconds);
    }
    if (!extend || !extend->view.id || !extend->run) {
        srt_arena_free(&claim->memory);
        srt_free(node->mem, claim, sizeof *claim);
        return SERIATIM_NOMEM;
    }
    srt_shard_ended(node, d->shard, extend, now);
    srt_node_wake(node, d->shard, now);
    return SERIATIM_OK;
}

int srt_node_checkpoint(srt_node *node, seriatim_delivery *d, size_t i, size_t count, int64_t now)
{
    int status = srt_checkpoint_want(node, d, i, count, now);
    if (status == SERIATIM_OK && d->jobs[i]->checkpoint)
        srt_claim_part(d->shard, d->jobs[i]->claim);
    return status;
}

static void abandon_job(srt_node *node, seriatim_delivery *d, size_t i, int64_t now)
{
    srt_claim_part(d->shard, d->jobs[i]->claim);
    if (srt_node_extend(node, d, i, 0, now) == SERIATIM_OK)
        d->shard->pending.last->outcome = SRT_RELEASED;
}

/*
 * Hands back all ids that run. The threads may still read their deliveries, but outcomes that they report are ignored.
 */
void srt_node_abandon(srt_node *node, int64_t now)
{
    seriatim_delivery *d;
    size_t i;
    for (d = node->held; d; d = d->next) {
        if (d->abandoned || d->kind == SERIATIM_EXHAUSTED)
            continue;
        for (i = 0; i < d->count; i++)
            abandon_job(node, d, i, now);
        d->abandoned = 1;
        discount_running(node, d->shard, d->count);
    }
    node->checkpoint_news = 1;
    node->give_up_at = now + 2000;
}

/* ---- What is unfinished ---------------------------------------------------------------------- */

#define UNFINISHED_TEXT 64 /* bytes shown of an id or of a queue's name, escaped */
#define UNFINISHED_MORE 32 /* room for " and N more" */

/* Escapes control bytes of a text for a line of the log and cuts it between characters. */
static void unfinished_add(srt_bytes *out, const char *text, size_t len)
{
    char shown[UNFINISHED_TEXT + sizeof "..."];
    srt_printable_start(text, len, shown, sizeof shown);
    srt_bytes_adds(out, shown);
}

/* Appends "queue id" of a job if it fits into what is left of `cap`. */
static int unfinished_job(srt_bytes *out, size_t cap, const srt_job *job, int first)
{
    const srt_bytes *queue = &job->shard->queue->name;
    size_t before = out->len;
    srt_bytes_adds(out, first ? ": " : ", ");
    unfinished_add(out, queue->data, queue->len);
    srt_bytes_addc(out, ' ');
    unfinished_add(out, job->view.id, job->view.id_len);
    if (!out->failed && out->len + UNFINISHED_MORE < cap)
        return 1;
    out->len = before;
    return 0;
}

size_t srt_node_unfinished(const srt_node *node, char *out, size_t cap)
{
    const seriatim_delivery *d;
    size_t count = 0, shown = 0, i;
    int fits = 1;
    srt_bytes text;
    for (d = node->held; d; d = d->next)
        count += d->abandoned || d->kind == SERIATIM_EXHAUSTED ? 0 : d->count;
    srt_bytes_init(&text, node->mem);
    srt_bytes_add_int(&text, (int64_t)count);
    srt_bytes_adds(&text, count == 1 ? " id" : " ids");
    for (d = node->held; d && fits; d = d->next)
        for (i = 0; fits && !d->abandoned && d->kind != SERIATIM_EXHAUSTED && i < d->count; i++) {
            fits = unfinished_job(&text, cap, d->jobs[i], shown == 0);
            shown += (size_t)fits;
        }
    if (shown && shown < count) {
        srt_bytes_adds(&text, " and ");
        srt_bytes_add_int(&text, (int64_t)(count - shown));
        srt_bytes_adds(&text, " more");
    }
    snprintf(out, cap, "%.*s", (int)text.len, text.data ? text.data : "");
    srt_bytes_free(&text);
    return count;
}

/* fake_settle.c - ends runs: what core/scripts/server/settle.lua does, for queues in memory. */
#include "fake/fake.h"
#include "model/policy.h"

#include <string.h>

static int64_t fake_microseconds(double seconds)
{
    if (!(seconds > 0))
        return 0;
    return (int64_t)((seconds < SRT_CENTURY_SECONDS ? seconds : SRT_CENTURY_SECONDS) * 1e6);
}

/* ---- Scores that are remembered ------------------------------------------------------------------------ */

/*
 * The highest score that was given to one of the first `count` entries, or to one that a checkpoint of the run has
 * ended, is remembered. 0: none has one.
 */
static int fake_remember(const srt_fake_queue *q, srt_fake_id *id, size_t count)
{
    const srt_fake_entries *list = &id->waiting.entries;
    int64_t until = q->now + q->known->now.remember_score;
    int is_known = id->remembered_until > q->now, found = id->scored;
    double score = id->highest;
    size_t i;
    for (i = 0; q->known->now.remember_score > 0 && i < count; i++) {
        if (list->items[i]->scored && (!found || list->items[i]->score > score))
            score = list->items[i]->score;
        found |= list->items[i]->scored;
    }
    id->scored = found;
    id->highest = score;
    if (!found || (is_known && id->remembered > score))
        return found;
    if (!is_known || id->remembered < score || id->remembered_until < until)
        id->remembered_until = until;
    id->remembered = score;
    return 1;
}

/* Removes what waits behind the run and has a score that is not above the remembered one. */
static void fake_remove_stale(const srt_fake_queue *q, srt_fake_id *id)
{
    srt_fake_record *n = &id->behind;
    size_t i = 0;
    while (n->there && !n->delivered && i < n->entries.count) {
        if (srt_fake_is_stale(q, id, n->entries.items[i]))
            srt_fake_entries_drop(q->mem, &n->entries, i);
        else
            i++;
    }
    if (n->there && n->entries.count == 0)
        srt_fake_record_clear(q->mem, n);
}

static void fake_done(srt_fake_queue *q, srt_fake_id *id)
{
    if (fake_remember(q, id, id->waiting.entries.count))
        fake_remove_stale(q, id);
    srt_fake_promote(q, id);
}

/* ---- retries_exhausted ---------------------------------------------------------------------------------- */

/* Copies of these entries are to be told. OK or NOMEM. */
static int fake_notify(srt_fake_queue *q, const srt_fake_id *id, srt_fake_entry *const *entries, size_t count,
                       seriatim_text error)
{
    srt_fake_notice *notice, **end = &q->notices;
    size_t i;
    int status = SERIATIM_OK;
    if (!q->known->now.exhausted_hook)
        return SERIATIM_OK;
    notice = srt_alloc(q->mem, sizeof *notice);
    if (!notice)
        return SERIATIM_NOMEM;
    notice->id = id;
    notice->record.retry = id->waiting.retry;
    notice->record.due = id->waiting.due;
    srt_fake_set_error(&notice->record, q->mem, error);
    while (*end)
        end = &(*end)->next;
    *end = notice;
    for (i = 0; i < count && status == SERIATIM_OK; i++) {
        srt_fake_entry *copy = srt_fake_entry_copy(q->mem, entries[i]);
        status = copy ? srt_fake_entries_add(q->mem, &notice->record.entries, copy) : SERIATIM_NOMEM;
    }
    return status;
}

/* ---- Failures ------------------------------------------------------------------------------------------- */

/* What remains of a run goes back, or, if nothing remains, what was pushed meanwhile goes on. */
static int fake_go_on(srt_fake_queue *q, srt_fake_id *id)
{
    if (id->waiting.entries.count)
        return srt_fake_put_back(q, id, 0);
    srt_fake_promote(q, id);
    return SERIATIM_OK;
}

/* The entry at this place of the run dies. */
static int fake_die(srt_fake_queue *q, srt_fake_id *id, size_t at, seriatim_text error)
{
    return srt_fake_bury(q, id, srt_fake_entries_take(&id->waiting.entries, at), error);
}

static int fake_exhausted(srt_fake_queue *q, srt_fake_id *id, seriatim_text error)
{
    srt_fake_record *r = &id->waiting;
    int buries = strcmp(q->known->now.on_exhausted, "bury") == 0;
    int status = fake_notify(q, id, r->entries.items, buries ? 1 : r->entries.count, error);
    if (status != SERIATIM_OK)
        return status;
    if (strcmp(q->known->now.on_exhausted, "park") == 0)
        return srt_fake_put_back(q, id, 1);
    if (!buries) {
        srt_fake_promote(q, id);
        return SERIATIM_OK;
    }
    status = fake_die(q, id, 0, error);
    r->retry = 0;
    r->due = q->now;
    return status == SERIATIM_OK ? fake_go_on(q, id) : status;
}

static int fake_fail(srt_fake_queue *q, srt_fake_id *id, const srt_fake_outcome *outcome)
{
    srt_fake_record *r = &id->waiting;
    if (r->entries.count == 0) {
        srt_fake_promote(q, id); /* checkpoints have ended all of it */
        return SERIATIM_OK;
    }
    srt_fake_set_error(r, q->mem, outcome->text);
    r->retry++;
    r->due = q->now + fake_microseconds(outcome->seconds);
    r->place = SRT_FAKE_DUE;
    r->delivered = 1;
    return r->retry < q->known->now.max_retry_count ? srt_fake_put_back(q, id, 0)
                                                    : fake_exhausted(q, id, outcome->text);
}

static int fake_reject(srt_fake_queue *q, srt_fake_id *id, const srt_fake_outcome *outcome)
{
    srt_fake_record *r = &id->waiting;
    size_t i;
    int status = SERIATIM_OK;
    for (i = 0; i < outcome->count && status == SERIATIM_OK; i++)
        status = fake_notify(q, id, &r->entries.items[outcome->places[i] - id->done], 1, outcome->text);
    for (i = outcome->count; i > 0 && status == SERIATIM_OK; i--)
        status = fake_die(q, id, outcome->places[i - 1] - id->done, outcome->text);
    return status == SERIATIM_OK ? fake_go_on(q, id) : status;
}

/* ---- Snooze and checkpoint -------------------------------------------------------------------------------- */

/* The first payload that is left becomes another, and folds with one that is equal to it. */
static int fake_replace(const srt_fake_queue *q, srt_fake_record *r, seriatim_text payload)
{
    const srt_fake_entry *old = r->entries.items[0];
    seriatim_text context = {old->context, old->context_len};
    srt_fake_entry *entry = srt_fake_entry_new(q->mem, old, payload, context);
    if (!entry)
        return SERIATIM_NOMEM;
    srt_fake_entries_drop(q->mem, &r->entries, 0);
    return srt_fake_fold(q, r, entry, NULL);
}

static int fake_snooze(srt_fake_queue *q, srt_fake_id *id, const srt_fake_outcome *outcome)
{
    srt_fake_record *r = &id->waiting;
    int status = SERIATIM_OK;
    if (r->entries.count == 0) {
        srt_fake_promote(q, id);
        return SERIATIM_OK;
    }
    if (outcome->text.data)
        status = fake_replace(q, r, outcome->text);
    if (status != SERIATIM_OK)
        return status;
    r->due = q->now + fake_microseconds(outcome->seconds);
    r->place = SRT_FAKE_DUE;
    r->delivered = 1;
    return srt_fake_put_back(q, id, 0);
}

static void fake_checkpoint(const srt_fake_queue *q, srt_fake_id *id, size_t count)
{
    srt_fake_record *r = &id->waiting;
    seriatim_text nothing = {NULL, 0};
    if (count <= id->done)
        return;
    (void)fake_remember(q, id, count - id->done);
    for (; id->done < count; id->done++)
        srt_fake_entries_drop(q->mem, &r->entries, 0);
    r->retry = -1;
    r->delivered = 1;
    srt_fake_set_error(r, q->mem, nothing);
}

/* ---- All -------------------------------------------------------------------------------------------------- */

static int fake_check_outcome(const srt_fake *fake, const srt_fake_id *id, const srt_fake_outcome *outcome)
{
    seriatim_error *error = &fake->client->error;
    size_t size, i;
    int fits;
    if (!id || !id->fence || id->fence != outcome->fence)
        return srt_fail(error, SERIATIM_STALE, "the run has ended, or the queue was cleared");
    size = id->done + id->waiting.entries.count;
    fits = outcome->count <= size;
    for (i = 0; outcome->kind == SRT_FAKE_REJECT && fits && i < outcome->count; i++)
        fits = outcome->places[i] >= id->done && outcome->places[i] < size &&
               (i == 0 || outcome->places[i] > outcome->places[i - 1]);
    return fits ? SERIATIM_OK
                : srt_fail(error, SERIATIM_INVALID, "the run has %lu payloads, to be named in their order",
                           (unsigned long)size);
}

static int fake_settle(srt_fake_queue *q, srt_fake_id *id, const srt_fake_outcome *outcome)
{
    switch (outcome->kind) {
    case SRT_FAKE_FAIL:
        return fake_fail(q, id, outcome);
    case SRT_FAKE_RELEASE:
        return fake_go_on(q, id);
    case SRT_FAKE_SNOOZE:
        return fake_snooze(q, id, outcome);
    case SRT_FAKE_REJECT:
        return fake_reject(q, id, outcome);
    case SRT_FAKE_CHECKPOINT:
        fake_checkpoint(q, id, outcome->count);
        return SERIATIM_OK;
    default:
        fake_done(q, id);
        return SERIATIM_OK;
    }
}

int srt_fake_settle(srt_fake *fake, size_t queue, const srt_fake_outcome *outcome, int64_t now)
{
    srt_fake_queue *q = srt_fake_queue_at(fake, queue, now);
    srt_fake_id *id;
    int status;
    if (!q)
        return fake->client->error.status;
    id = srt_fake_find(q, outcome->id.data, outcome->id.len);
    status = fake_check_outcome(fake, id, outcome);
    if (status != SERIATIM_OK)
        return status;
    return fake_settle(q, id, outcome) == SERIATIM_OK ? SERIATIM_OK : srt_fake_no_memory(fake);
}

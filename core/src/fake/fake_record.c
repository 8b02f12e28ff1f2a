/*
 * fake_record.c - folds payloads into what their id has: the rules of core/scripts/lib/record.lua and join.lua, for
 * queues in memory.
 */
#include "fake/fake.h"

#include <string.h>

void srt_fake_record_clear(const seriatim_allocator *mem, srt_fake_record *record)
{
    srt_fake_entries_free(mem, &record->entries);
    if (record->error.mem)
        srt_bytes_free(&record->error);
    memset(record, 0, sizeof *record);
}

void srt_fake_set_error(srt_fake_record *record, const seriatim_allocator *mem, seriatim_text error)
{
    if (!record->error.mem)
        srt_bytes_init(&record->error, mem);
    srt_bytes_clear(&record->error);
    srt_bytes_add(&record->error, error.data, error.len);
}

/* ---- Folding ------------------------------------------------------------------------------------ */

static int fake_keeps_one(const srt_fake_queue *q)
{
    return strcmp(q->known->now.fold, "last") == 0 || strcmp(q->known->now.fold, "first") == 0;
}

/* In a queue that keeps one payload of an id: is it a rather than b? */
static int fake_is_kept(const srt_fake_queue *q, const srt_fake_entry *a, const srt_fake_entry *b)
{
    int order = srt_fake_entry_compare(a, b);
    return strcmp(q->known->now.fold, "last") == 0 ? order > 0 : order < 0;
}

/*
 * Two equal payloads become one, which keeps the arrival of `early`, the one that came first. With remember_score the
 * larger score counts where both were given, so that one push that is not stale is enough.
 */
static void fake_fold_score(const srt_fake_queue *q, srt_fake_entry *early, const srt_fake_entry *late)
{
    int remembers = q->known->now.remember_score > 0;
    const srt_fake_entry *from = late->score < early->score ? late : early;
    int scored = remembers ? early->scored && late->scored : from->scored;
    if (remembers && scored)
        from = late->score > early->score ? late : early;
    early->score = from->score;
    early->scored = scored;
}

/* `entry` and the equal payload at this place become one. */
static void fake_fold_equal(const srt_fake_queue *q, srt_fake_entries *list, size_t at, srt_fake_entry *entry)
{
    srt_fake_entry *old = list->items[at];
    if (entry->stamp < old->stamp) {
        fake_fold_score(q, entry, old);
        list->items[at] = entry;
        srt_fake_entry_free(q->mem, old);
    } else {
        fake_fold_score(q, old, entry);
        srt_fake_entry_free(q->mem, entry);
    }
}

static size_t fake_equal_place(const srt_fake_entries *list, const srt_fake_entry *entry)
{
    size_t i;
    for (i = 0; i < list->count && !srt_fake_entry_equal(list->items[i], entry); i++)
        continue;
    return i;
}

static int fake_fold_merged(const srt_fake_queue *q, srt_fake_entries *list, srt_fake_entry *entry, double *into)
{
    size_t at = fake_equal_place(list, entry);
    if (at == list->count)
        return srt_fake_entries_add(q->mem, list, entry);
    fake_fold_equal(q, list, at, entry);
    if (into)
        *into = list->items[at]->stamp;
    return SERIATIM_OK;
}

int srt_fake_fold(const srt_fake_queue *q, srt_fake_record *record, srt_fake_entry *entry, double *into)
{
    srt_fake_entries *list = &record->entries;
    if (into)
        *into = entry->stamp;
    if (strcmp(q->known->now.fold, "merge") == 0)
        return fake_fold_merged(q, list, entry, into);
    if (!fake_keeps_one(q) || list->count == 0)
        return srt_fake_entries_add(q->mem, list, entry);
    if (fake_is_kept(q, entry, list->items[0])) {
        srt_fake_entry_free(q->mem, list->items[0]);
        list->items[0] = entry;
    } else {
        srt_fake_entry_free(q->mem, entry);
    }
    return SERIATIM_OK;
}

/* ---- Waiting ------------------------------------------------------------------------------------ */

/* Is a record of place READY due? */
static int fake_is_due(const srt_fake_queue *q, const srt_fake_record *record)
{
    return record->due <= (q->now > q->tick ? q->now : q->tick);
}

void srt_fake_place(srt_fake_record *record, int parked)
{
    record->place = parked ? SRT_FAKE_PARKED_PLACE : SRT_FAKE_DUE;
}

/* A ready job asks for now: its stamp is later while the clock is behind the tick. */
static int64_t fake_moved(const srt_fake_queue *q, const srt_fake_job *job, int64_t due)
{
    const char *word = job->entry->word;
    int64_t asked = job->place == SRT_FAKE_READY && job->due > q->now ? q->now : job->due;
    if (strcmp(word, "earlier") == 0)
        return asked < due ? asked : due;
    if (strcmp(word, "later") == 0)
        return asked > due ? asked : due;
    return strcmp(word, "replace") == 0 ? asked : due;
}

static void fake_record_for(srt_fake_record *record, const srt_fake_job *job)
{
    record->there = 1;
    record->place = job->place;
    record->due = job->due;
    record->retry = job->entry->retry;
}

static int fake_join_behind(srt_fake_queue *q, srt_fake_record *n, const srt_fake_job *job, double *into)
{
    int64_t due = fake_moved(q, job, n->due);
    if (!n->there) {
        fake_record_for(n, job);
    } else if (due != n->due) {
        n->due = due;
        n->place = job->place;
    }
    if (strcmp(job->entry->word, "earlier") == 0) {
        n->earlier = 1;
        n->due = fake_moved(q, job, n->due);
    }
    return srt_fake_fold(q, n, job->entry, into);
}

static int fake_join_waiting(srt_fake_queue *q, srt_fake_record *w, const srt_fake_job *job, double *into)
{
    if (!w->there) {
        fake_record_for(w, job);
        if (w->place == SRT_FAKE_READY)
            w->rank = ++q->last_rank;
    } else {
        int64_t due = fake_moved(q, job, w->due);
        if (due != w->due && w->place != SRT_FAKE_PARKED_PLACE && (w->place != SRT_FAKE_READY || due > q->now)) {
            w->due = due;
            w->place = SRT_FAKE_DUE;
        }
    }
    return srt_fake_fold(q, w, job->entry, into);
}

int srt_fake_join(srt_fake_queue *q, srt_fake_id *id, const srt_fake_job *job, int *added, double *into)
{
    srt_fake_record *record = id->fence ? &id->behind : &id->waiting;
    int status;
    *added = !record->there;
    status = id->fence ? fake_join_behind(q, record, job, into) : fake_join_waiting(q, record, job, into);
    if (record->entries.count == 0)
        srt_fake_record_clear(q->mem, record);
    return status;
}

/* ---- The end of a run ------------------------------------------------------------------------------ */

void srt_fake_promote(srt_fake_queue *q, srt_fake_id *id)
{
    srt_fake_record *r = &id->waiting;
    srt_fake_record_clear(q->mem, r);
    id->fence = 0;
    if (!id->behind.there)
        return;
    *r = id->behind;
    memset(&id->behind, 0, sizeof id->behind);
    r->earlier = 0;
    r->place = r->due <= q->now || (r->place == SRT_FAKE_READY && fake_is_due(q, r)) ? SRT_FAKE_READY : SRT_FAKE_DUE;
    if (r->place == SRT_FAKE_READY)
        r->rank = ++q->last_rank;
}

int srt_fake_put_back(srt_fake_queue *q, srt_fake_id *id, int parked)
{
    srt_fake_record *r = &id->waiting, *n = &id->behind;
    int status = SERIATIM_OK;
    id->fence = 0;
    if (n->there && n->earlier && n->due < r->due)
        r->due = n->due;
    while (n->there && n->entries.count && status == SERIATIM_OK)
        status = srt_fake_fold(q, r, srt_fake_entries_take(&n->entries, 0), NULL);
    srt_fake_record_clear(q->mem, n);
    /* The ready ids are in the order of their arrivals, and this one is older than those at the end. */
    if (r->place == SRT_FAKE_READY && fake_is_due(q, r) && r->due > q->now)
        r->due = q->now;
    srt_fake_place(r, parked);
    return status;
}

int srt_fake_bury(const srt_fake_queue *q, srt_fake_id *id, srt_fake_entry *entry, seriatim_text error)
{
    srt_fake_record *dead = &id->dead;
    dead->there = 1;
    dead->due = q->now;
    dead->retry = -1;
    srt_fake_set_error(dead, q->mem, error);
    if (strcmp(q->known->now.fold, "list") == 0)
        return srt_fake_entries_add(q->mem, &dead->entries, entry);
    return fake_fold_merged(q, &dead->entries, entry, NULL);
}

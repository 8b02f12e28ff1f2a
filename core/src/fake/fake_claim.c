/*
 * fake_claim.c - moves what was scheduled and takes what is due: what core/scripts/server/claim.lua and
 * lib/move_scheduled.lua do, for queues in memory.
 */
#include "fake/fake.h"

#include <string.h>

#define CLAIM_PAYLOADS 1000 /* a claim stops at this number of payloads, or of bytes */
#define CLAIM_BYTES ((size_t)1024 * 1024)

/* ---- What was scheduled ---------------------------------------------------------------------------- */

/* Does the scheduled payload a, of id x, arrive before b, of id y? */
static int fake_arrives_before(const srt_fake_entry *a, const srt_fake_entry *b)
{
    if (a->deliver_at != b->deliver_at)
        return a->deliver_at < b->deliver_at;
    return a->stamp < b->stamp;
}

/* The scheduled payload that arrives next, by now; NULL: none. *owner and *place: where it lies. */
static srt_fake_entry *fake_next_arrival(const srt_fake_queue *q, srt_fake_id **owner, size_t *place)
{
    srt_fake_entry *best = NULL;
    size_t i, k;
    for (i = 0; i < q->id_count; i++) {
        for (k = 0; k < q->ids[i]->scheduled.count; k++) {
            srt_fake_entry *entry = q->ids[i]->scheduled.items[k];
            if (entry->deliver_at > q->now || (best && !fake_arrives_before(entry, best)))
                continue;
            best = entry;
            *owner = q->ids[i];
            *place = k;
        }
    }
    return best;
}

/* `reject` and `unique` have acted at the push. */
static int fake_arrive_at(srt_fake_queue *q, srt_fake_id *id, srt_fake_entry *entry)
{
    srt_fake_job job = {entry, SRT_FAKE_DUE, entry->deliver_at};
    int added;
    if (strcmp(entry->word, "reject") == 0 || strcmp(entry->word, "unique") == 0)
        entry->word = "keep";
    if (entry->delay)
        job.due = entry->deliver_at + entry->delay;
    else if (entry->due > entry->deliver_at)
        job.due = entry->due;
    if (!entry->scored)
        entry->score = (double)entry->deliver_at / 1e6;
    return srt_fake_join(q, id, &job, &added, NULL);
}

static int fake_arrive_all(srt_fake_queue *q)
{
    srt_fake_entry *entry;
    srt_fake_id *id;
    size_t place;
    int status = SERIATIM_OK;
    while (q->scheduled && status == SERIATIM_OK && (entry = fake_next_arrival(q, &id, &place)) != NULL) {
        srt_fake_entries_take(&id->scheduled, place);
        q->scheduled--;
        if (srt_fake_is_stale(q, id, entry))
            srt_fake_entry_free(q->mem, entry);
        else
            status = fake_arrive_at(q, id, entry);
    }
    return status;
}

/* ---- Which id is next -------------------------------------------------------------------------------- */

static unsigned fake_shard_of(const srt_fake_queue *q, const srt_fake_id *id)
{
    int64_t shards = q->known->own.shards_count;
    return shards > 0 ? seriatim_shard_of(id->name, id->len, (unsigned)shards) : 0;
}

/* By the name, bytewise: so ids that are due at the same microsecond are ordered in Redis. */
static int fake_name_before(const srt_fake_id *a, const srt_fake_id *b)
{
    size_t len = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->name, b->name, len);
    return order ? order < 0 : a->len < b->len;
}

static int fake_due_before(const srt_fake_id *a, const srt_fake_id *b)
{
    if (a->waiting.due != b->waiting.due)
        return a->waiting.due < b->waiting.due;
    return fake_name_before(a, b);
}

/* The id to claim next, of this shard unless it is SIZE_MAX; NULL: none. Ready ids have the order of a list of their
 * own. */
static srt_fake_id *fake_next_id(const srt_fake_queue *q, size_t shard)
{
    srt_fake_id *ready = NULL, *due = NULL;
    size_t i;
    for (i = 0; i < q->id_count; i++) {
        srt_fake_id *id = q->ids[i];
        const srt_fake_record *r = &id->waiting;
        if (!r->there || id->fence || (shard != SIZE_MAX && fake_shard_of(q, id) != shard))
            continue;
        if (r->place == SRT_FAKE_READY && (!ready || r->rank < ready->waiting.rank))
            ready = id;
        if (r->place == SRT_FAKE_DUE && r->due <= q->now && (!due || fake_due_before(id, due)))
            due = id;
    }
    return !due || (ready && ready->waiting.due < due->waiting.due) ? ready : due;
}

/* ---- Taking -------------------------------------------------------------------------------------------- */

static int fake_make_taken(srt_fake *fake, size_t count)
{
    void *taken = fake->taken;
    int status = srt_grow(fake->mem, &taken, &fake->taken_cap, count, sizeof *fake->taken);
    fake->taken = taken;
    return status;
}

/* Adds a record to the answer of this take. `entries` are in the order of their delivery. OK or NOMEM. */
static int fake_answer(srt_fake *fake, const srt_fake_id *id, const srt_fake_record *r)
{
    seriatim_payload *payloads = srt_arena_alloc(&fake->answers, (r->entries.count + 1) * sizeof *payloads);
    seriatim_claimed *row;
    size_t i;
    if (!payloads || fake_make_taken(fake, fake->taken_count + 1) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    for (i = 0; i < r->entries.count; i++)
        payloads[i] = srt_fake_payload(r->entries.items[i]);
    row = &fake->taken[fake->taken_count++];
    memset(row, 0, sizeof *row);
    row->id = id->name;
    row->id_len = id->len;
    row->retry_count = r->retry;
    row->perform_in = (double)r->due / 1e6;
    row->error = r->error.data;
    row->error_len = r->error.len;
    row->payloads = payloads;
    row->payload_count = row->payload_total = r->entries.count;
    return SERIATIM_OK;
}

static size_t fake_bytes_of(const srt_fake_entries *list)
{
    size_t i, bytes = 0;
    for (i = 0; i < list->count; i++)
        bytes += list->items[i]->payload_len + list->items[i]->context_len;
    return bytes;
}

static void fake_begin_answer(srt_fake *fake)
{
    srt_arena_reset(&fake->answers);
    fake->taken_count = 0;
}

static int fake_claim_ids(srt_fake *fake, srt_fake_queue *q, size_t limit, size_t *shard)
{
    /* Not `now`, as in Redis: a test may be ahead of the clock here, and arrivals of later pushes must not be. */
    int64_t fence = q->tick + 1;
    size_t payloads = 0, bytes = 0;
    srt_fake_id *id;
    while (fake->taken_count < limit && payloads < CLAIM_PAYLOADS && bytes < CLAIM_BYTES &&
           (id = fake_next_id(q, *shard)) != NULL) {
        srt_fake_entries_sort(&id->waiting.entries);
        if (fake_answer(fake, id, &id->waiting) != SERIATIM_OK)
            return fake->taken_count ? SERIATIM_OK : SERIATIM_NOMEM;
        fake->taken[fake->taken_count - 1].fence = id->fence = q->tick = fence;
        id->done = 0;
        id->scored = 0;
        *shard = fake_shard_of(q, id);
        payloads += id->waiting.entries.count;
        bytes += fake_bytes_of(&id->waiting.entries);
    }
    return SERIATIM_OK;
}

int srt_fake_take(srt_fake *fake, size_t queue, size_t limit, int64_t now, unsigned *shard, size_t *count)
{
    srt_fake_queue *q = srt_fake_queue_at(fake, queue, now);
    size_t chosen = SIZE_MAX;
    int status;
    *count = 0;
    *shard = 0;
    if (!q)
        return fake->client->error.status;
    fake_begin_answer(fake);
    status = fake_arrive_all(q);
    if (status == SERIATIM_OK)
        status = fake_claim_ids(fake, q, limit, &chosen);
    if (status != SERIATIM_OK)
        return srt_fake_no_memory(fake);
    *count = fake->taken_count;
    *shard = chosen == SIZE_MAX ? 0 : (unsigned)chosen;
    return SERIATIM_OK;
}

int srt_fake_take_exhausted(srt_fake *fake, size_t queue, size_t *count)
{
    srt_fake_queue *q = srt_fake_queue_at(fake, queue, 0);
    srt_fake_notice *notice = q ? q->notices : NULL;
    *count = 0;
    if (!q)
        return fake->client->error.status;
    fake_begin_answer(fake);
    if (!notice)
        return SERIATIM_OK;
    srt_fake_entries_sort(&notice->record.entries);
    if (fake_answer(fake, notice->id, &notice->record) != SERIATIM_OK)
        return srt_fake_no_memory(fake);
    srt_fake_notice_free(q, q->told);
    q->told = notice;
    q->notices = notice->next;
    *count = 1;
    return SERIATIM_OK;
}

const seriatim_claimed *srt_fake_taken(const srt_fake *fake, size_t i)
{
    return &fake->taken[i];
}

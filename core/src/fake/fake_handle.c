/* fake_handle.c - what core/scripts/operator/cancel.lua and reschedule.lua do, for queues in memory. */
#include "client/handle.h"
#include "fake/fake.h"
#include "model/record.h"

#include <math.h>

/* Where a payload lies that a handle names. */
typedef struct fake_found {
    srt_fake_queue *q;
    srt_fake_id *id;         /* NULL: it is gone, dead or running */
    srt_fake_record *record; /* NULL: it is scheduled */
    size_t at;
    int scored; /* its push gave it a score */
} fake_found;

/* What runs was delivered: only what waits behind the run is looked at. */
static void fake_look(fake_found *found, srt_fake_id *id, double stamp)
{
    srt_fake_record *record = id->fence ? &id->behind : &id->waiting;
    found->at = srt_fake_entries_find(&id->scheduled, stamp);
    if (found->at < id->scheduled.count) {
        found->id = id;
        return;
    }
    found->at = srt_fake_entries_find(&record->entries, stamp);
    if (found->at == record->entries.count)
        return;
    found->id = id;
    found->record = record;
}

/* OK, also where nothing is found; INVALID: it is no handle of this queue. */
static int fake_find_handle(srt_fake *fake, size_t queue, seriatim_text text, int64_t now, fake_found *found)
{
    const fake_found nothing = {NULL, NULL, NULL, 0, 0};
    srt_handle handle;
    srt_fake_id *id;
    int status;
    *found = nothing;
    found->q = srt_fake_queue_at(fake, queue, now);
    if (!found->q)
        return fake->client->error.status;
    srt_arena_reset(&fake->answers);
    fake->taken_count = 0;
    status = srt_handle_check(fake->client, &fake->answers, found->q->known, text, &handle);
    if (status != SERIATIM_OK)
        return status;
    found->scored = handle.scored;
    id = srt_fake_find(found->q, handle.id.data, handle.id.len);
    if (id)
        fake_look(found, id, srt_number_unpack(handle.stamp));
    return SERIATIM_OK;
}

/* Takes the payload out of its record; with the last one the record goes. */
static srt_fake_entry *fake_take_out(const fake_found *found)
{
    srt_fake_entries *list = found->record ? &found->record->entries : &found->id->scheduled;
    srt_fake_entry *entry = srt_fake_entries_take(list, found->at);
    if (!found->record)
        found->q->scheduled--;
    else if (list->count == 0)
        srt_fake_record_clear(found->q->mem, found->record);
    return entry;
}

int srt_fake_cancel(srt_fake *fake, size_t queue, seriatim_text handle, int *changed)
{
    fake_found found;
    int status = fake_find_handle(fake, queue, handle, 0, &found);
    *changed = status == SERIATIM_OK && found.id;
    if (*changed)
        srt_fake_entry_free(found.q->mem, fake_take_out(&found));
    return status;
}

/* The payload waits again for its deliver_at. */
static int fake_schedule_again(const fake_found *found, int64_t at)
{
    srt_fake_entry *entry = fake_take_out(found);
    entry->deliver_at = at;
    entry->scored = found->scored;
    entry->due = entry->delay = 0;
    entry->retry = -1;
    entry->word = "keep";
    if (srt_fake_entries_add(found->q->mem, &found->id->scheduled, entry) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    found->q->scheduled++;
    return SERIATIM_OK;
}

static void fake_make_due(const fake_found *found)
{
    srt_fake_record *r = found->record;
    if (r != &found->id->behind && r->due <= found->q->now)
        return;
    r->due = found->q->now;
    if (r != &found->id->behind)
        srt_fake_place(r, 0);
}

static int fake_reschedule(const fake_found *found, int64_t at)
{
    if (!found->record) {
        found->id->scheduled.items[found->at]->deliver_at = at;
        return SERIATIM_OK;
    }
    if (at > found->q->now)
        return fake_schedule_again(found, at);
    fake_make_due(found);
    return SERIATIM_OK;
}

int srt_fake_reschedule(srt_fake *fake, size_t queue, seriatim_text handle, seriatim_text at, int64_t now, int *changed)
{
    fake_found found;
    double seconds;
    int64_t time;
    int status = srt_handle_read_time(fake->client, at, &seconds);
    *changed = 0;
    if (status == SERIATIM_OK)
        status = fake_find_handle(fake, queue, handle, now, &found);
    if (status != SERIATIM_OK || !found.id)
        return status;
    if (found.record &&
        (found.record->delivered || (found.record == &found.id->waiting &&
                                     (found.record->retry >= 0 || found.record->place == SRT_FAKE_PARKED_PLACE))))
        return SERIATIM_OK;
    time = seconds > 0 ? (int64_t)floor(seconds * 1e6 + 0.5) : 0;
    status = fake_reschedule(&found, time > now ? time : now);
    *changed = status == SERIATIM_OK;
    return status == SERIATIM_OK ? status : srt_fake_no_memory(fake);
}

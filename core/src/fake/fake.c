/* fake.c - the queues in memory and their ids: makes, finds, lists and forgets them. */
#include "fake/fake.h"

#include <stdlib.h>
#include <string.h>

int srt_fake_no_memory(const srt_fake *fake)
{
    return srt_fail_plain(&fake->client->error, SERIATIM_NOMEM);
}

srt_fake *srt_fake_new(seriatim_client *client)
{
    srt_fake *fake = srt_alloc(client->mem, sizeof *fake);
    if (!fake)
        return NULL;
    fake->mem = client->mem;
    fake->client = client;
    srt_arena_init(&fake->answers, client->mem);
    return fake;
}

/* ---- Ids ---------------------------------------------------------------------------------------- */

static void fake_id_free(const seriatim_allocator *mem, srt_fake_id *id)
{
    srt_fake_record_clear(mem, &id->waiting);
    srt_fake_record_clear(mem, &id->behind);
    srt_fake_record_clear(mem, &id->dead);
    srt_fake_entries_free(mem, &id->scheduled);
    srt_free(mem, id->name, id->len);
    srt_free(mem, id, sizeof *id);
}

srt_fake_id *srt_fake_find(const srt_fake_queue *q, const char *name, size_t len)
{
    unsigned crc = srt_crc32(name, len);
    srt_fake_id *id = q->buckets[crc % SRT_FAKE_BUCKETS];
    while (id && (id->crc != crc || id->len != len || memcmp(id->name, name, len) != 0))
        id = id->next;
    return id;
}

static srt_fake_id *fake_id_new(srt_fake_queue *q, const char *name, size_t len)
{
    srt_fake_id *id = srt_alloc(q->mem, sizeof *id), **bucket;
    if (!id)
        return NULL;
    id->name = srt_alloc(q->mem, len);
    if (!id->name) {
        srt_free(q->mem, id, sizeof *id);
        return NULL;
    }
    memcpy(id->name, name, len);
    id->len = len;
    id->crc = srt_crc32(name, len);
    bucket = &q->buckets[id->crc % SRT_FAKE_BUCKETS];
    id->next = *bucket;
    *bucket = id;
    q->ids[q->id_count++] = id;
    return id;
}

srt_fake_id *srt_fake_id_of(srt_fake_queue *q, const char *name, size_t len)
{
    srt_fake_id *id = srt_fake_find(q, name, len);
    void *ids = q->ids;
    if (id)
        return id;
    if (srt_grow(q->mem, &ids, &q->id_cap, q->id_count + 1, sizeof *q->ids) != SERIATIM_OK)
        return NULL;
    q->ids = ids;
    return fake_id_new(q, name, len);
}

int srt_fake_is_stale(const srt_fake_queue *q, const srt_fake_id *id, const srt_fake_entry *entry)
{
    return q->known->now.remember_score > 0 && entry->scored && id->remembered_until > q->now &&
           entry->score <= id->remembered;
}

/* ---- Queues ------------------------------------------------------------------------------------- */

void srt_fake_notice_free(const srt_fake_queue *q, srt_fake_notice *notice)
{
    if (!notice)
        return;
    srt_fake_record_clear(q->mem, &notice->record);
    srt_free(q->mem, notice, sizeof *notice);
}

static void fake_notices_free(srt_fake_queue *q)
{
    srt_fake_notice_free(q, q->told);
    q->told = NULL;
    while (q->notices) {
        srt_fake_notice *notice = q->notices;
        q->notices = notice->next;
        srt_fake_notice_free(q, notice);
    }
}

static void fake_queue_empty(srt_fake_queue *q)
{
    size_t i;
    fake_notices_free(q);
    for (i = 0; i < q->id_count; i++)
        fake_id_free(q->mem, q->ids[i]);
    memset(q->buckets, 0, sizeof q->buckets);
    q->id_count = q->scheduled = 0;
}

void srt_fake_free(srt_fake *fake)
{
    size_t i;
    if (!fake)
        return;
    for (i = 0; i < fake->queue_count; i++) {
        srt_fake_queue *q = fake->queues[i];
        if (!q)
            continue;
        fake_queue_empty(q);
        srt_free(fake->mem, q->ids, q->id_cap * sizeof *q->ids);
        srt_free(fake->mem, q, sizeof *q);
    }
    srt_free(fake->mem, fake->queues, fake->queue_cap * sizeof *fake->queues);
    srt_free(fake->mem, fake->taken, fake->taken_cap * sizeof *fake->taken);
    srt_free(fake->mem, fake->rows, fake->row_cap * sizeof *fake->rows);
    srt_arena_free(&fake->answers);
    srt_free(fake->mem, fake, sizeof *fake);
}

/* Room for the queue with this number. */
static int fake_make_room(srt_fake *fake, size_t number)
{
    void *queues = fake->queues;
    if (srt_grow(fake->mem, &queues, &fake->queue_cap, number + 1, sizeof *fake->queues) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    fake->queues = queues;
    while (fake->queue_count <= number)
        fake->queues[fake->queue_count++] = NULL;
    return SERIATIM_OK;
}

srt_fake_queue *srt_fake_queue_at(srt_fake *fake, size_t number, int64_t now)
{
    const srt_queue *known = srt_client_queue_at(fake->client, number);
    srt_fake_queue *q = NULL;
    if (!known)
        return NULL;
    if (fake_make_room(fake, number) == SERIATIM_OK)
        q = fake->queues[number] ? fake->queues[number] : srt_alloc(fake->mem, sizeof *q);
    if (!q) {
        srt_fake_no_memory(fake);
        return NULL;
    }
    fake->queues[number] = q;
    q->mem = fake->mem;
    q->known = known;
    q->now = now;
    return q;
}

void srt_fake_clear(srt_fake *fake, size_t queue)
{
    if (queue < fake->queue_count && fake->queues[queue])
        fake_queue_empty(fake->queues[queue]);
}

/* ---- When ----------------------------------------------------------------------------------------- */

static void fake_note_earliest(int64_t time, int64_t *at, int *found)
{
    if (!*found || time < *at)
        *at = time;
    *found = 1;
}

/* Of a waiting record. */
static int64_t fake_due(const srt_fake_record *record, int64_t now)
{
    return record->place == SRT_FAKE_READY && record->due > now ? now : record->due;
}

int srt_fake_next(const srt_fake *fake, size_t queue, int64_t now, int64_t *at)
{
    const srt_fake_queue *q = queue < fake->queue_count ? fake->queues[queue] : NULL;
    size_t i, k;
    int found = 0;
    for (i = 0; q && i < q->id_count; i++) {
        const srt_fake_id *id = q->ids[i];
        if (id->waiting.there && !id->fence && id->waiting.place != SRT_FAKE_PARKED_PLACE)
            fake_note_earliest(fake_due(&id->waiting, now), at, &found);
        for (k = 0; k < id->scheduled.count; k++)
            fake_note_earliest(id->scheduled.items[k]->deliver_at, at, &found);
    }
    return found;
}

/* ---- What is there ---------------------------------------------------------------------------------- */

seriatim_payload srt_fake_payload(const srt_fake_entry *entry)
{
    seriatim_payload p = {0};
    p.data = entry->payload;
    p.len = entry->payload_len;
    p.score = entry->score;
    p.context = entry->context;
    p.context_len = entry->context_len;
    p.stamp = entry->stamp;
    p.has_score = entry->scored;
    return p;
}

static int fake_add_row(srt_fake *fake, const srt_fake_id *id, const srt_fake_entry *entry, srt_fake_row like)
{
    void *rows = fake->rows;
    if (srt_grow(fake->mem, &rows, &fake->row_cap, fake->row_count + 1, sizeof *fake->rows) != SERIATIM_OK)
        return srt_fake_no_memory(fake);
    fake->rows = rows;
    like.id.data = id->name;
    like.id.len = id->len;
    like.payload = srt_fake_payload(entry);
    fake->rows[fake->row_count++] = like;
    return SERIATIM_OK;
}

static int fake_add_rows(srt_fake *fake, const srt_fake_id *id, const srt_fake_record *record, int state)
{
    srt_fake_row row = {0};
    size_t i;
    int status = SERIATIM_OK;
    row.state = record->place == SRT_FAKE_PARKED_PLACE ? (int)SRT_FAKE_PARKED : state;
    row.time = record->due;
    row.retry_count = record->retry;
    row.error.data = record->error.data;
    row.error.len = record->error.len;
    for (i = 0; record->there && i < record->entries.count && status == SERIATIM_OK; i++)
        status = fake_add_row(fake, id, record->entries.items[i], row);
    return status;
}

static int fake_add_scheduled(srt_fake *fake, const srt_fake_id *id)
{
    srt_fake_row row = {0};
    size_t i;
    int status = SERIATIM_OK;
    row.state = SRT_FAKE_SCHEDULED;
    for (i = 0; i < id->scheduled.count && status == SERIATIM_OK; i++) {
        row.time = id->scheduled.items[i]->deliver_at;
        row.retry_count = id->scheduled.items[i]->retry;
        status = fake_add_row(fake, id, id->scheduled.items[i], row);
    }
    return status;
}

/* By time; the payloads of an id as they are delivered. */
static int fake_compare_rows(const void *a, const void *b)
{
    const srt_fake_row *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->payload.score < y->payload.score || x->payload.score > y->payload.score)
        return x->payload.score < y->payload.score ? -1 : 1;
    return (x->payload.stamp > y->payload.stamp) - (x->payload.stamp < y->payload.stamp);
}

int srt_fake_list(srt_fake *fake, size_t queue, const srt_fake_row **rows, size_t *count)
{
    const srt_fake_queue *q = queue < fake->queue_count ? fake->queues[queue] : NULL;
    size_t i;
    int status = SERIATIM_OK;
    fake->row_count = 0;
    for (i = 0; q && i < q->id_count && status == SERIATIM_OK; i++) {
        const srt_fake_id *id = q->ids[i];
        status = fake_add_rows(fake, id, &id->waiting, id->fence ? SRT_FAKE_RUNNING : SRT_FAKE_WAITING);
        if (status == SERIATIM_OK)
            status = fake_add_rows(fake, id, &id->behind, SRT_FAKE_WAITING);
        if (status == SERIATIM_OK)
            status = fake_add_rows(fake, id, &id->dead, SRT_FAKE_DEAD);
        if (status == SERIATIM_OK)
            status = fake_add_scheduled(fake, id);
    }
    if (fake->row_count)
        qsort(fake->rows, fake->row_count, sizeof *fake->rows, fake_compare_rows);
    *rows = fake->rows;
    *count = fake->row_count;
    return status;
}

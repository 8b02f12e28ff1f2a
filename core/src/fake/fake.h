/*
 * fake.h - between the files of the queues in memory. From the bottom up: fake_entry.c (payloads), fake_record.c (the
 * payloads of an id: core/scripts/lib/record.lua and join.lua), fake.c (queues and ids), fake_push.c (push.lua),
 * fake_claim.c (claim.lua, move_scheduled.lua), fake_settle.c (settle.lua), fake_handle.c (cancel.lua, reschedule.lua).
 */
#ifndef SRT_FAKE_H
#define SRT_FAKE_H

#include "client/client.h"
#include "seriatim/binding/fake.h"

/* ---- fake_entry.c: payloads --------------------------------------------------------------------- */

/* One payload, and how it was pushed. Its bytes lie behind it, in the same block. */
typedef struct srt_fake_entry {
    double stamp, score;
    int scored; /* the score was given with the push, or with that of the equal payload that folded into this one */
    char *payload, *context;
    size_t payload_len, context_len;
    /* As it was pushed: */
    int64_t deliver_at; /* microseconds; 0: at once */
    int64_t due;        /* microseconds; 0: when it arrives */
    int64_t delay;      /* microseconds from its arrival; 0: none */
    int64_t retry;
    const char *word; /* its on_waiting, static */
} srt_fake_entry;

typedef struct srt_fake_entries {
    srt_fake_entry **items;
    size_t count, cap;
} srt_fake_entries;

/* A copy of `like` with these bytes. NULL: out of memory. */
srt_fake_entry *srt_fake_entry_new(const seriatim_allocator *mem, const srt_fake_entry *like, seriatim_text payload,
                                   seriatim_text context);
/* A copy with all that it has. NULL: out of memory. */
srt_fake_entry *srt_fake_entry_copy(const seriatim_allocator *mem, const srt_fake_entry *entry);
void srt_fake_entry_free(const seriatim_allocator *mem, srt_fake_entry *entry);
/* Below 0 where a comes before b: by score, then by arrival. */
int srt_fake_entry_compare(const srt_fake_entry *a, const srt_fake_entry *b);
int srt_fake_entry_equal(const srt_fake_entry *a, const srt_fake_entry *b); /* the same payload */

/* Adds an entry, which the list owns then. OK, or NOMEM: it is freed. */
int srt_fake_entries_add(const seriatim_allocator *mem, srt_fake_entries *list, srt_fake_entry *entry);
srt_fake_entry *srt_fake_entries_take(srt_fake_entries *list,
                                      size_t at); /* the caller owns it then; the others close up */
void srt_fake_entries_drop(const seriatim_allocator *mem, srt_fake_entries *list, size_t at);
void srt_fake_entries_free(const seriatim_allocator *mem, srt_fake_entries *list);
void srt_fake_entries_sort(srt_fake_entries *list);
/* The place of the entry that arrived at this stamp, or list->count. */
size_t srt_fake_entries_find(const srt_fake_entries *list, double stamp);

/* ---- fake_record.c: what an id has in one place ---------------------------------------------------- */

enum { SRT_FAKE_READY, SRT_FAKE_DUE, SRT_FAKE_PARKED_PLACE }; /* places of a record, as in model/stored.h */

typedef struct srt_fake_record {
    int there;
    int place;
    int earlier;              /* behind a run: an `earlier` push asked for its due time */
    int delivered;            /* a run of it failed, was snoozed or had a checkpoint */
    int64_t due, rank, retry; /* rank: of a ready one, its place among the ready ones */
    srt_bytes error;
    srt_fake_entries entries;
} srt_fake_record;

/* A job as it arrives, with the record that it makes where its id has none. */
typedef struct srt_fake_job {
    srt_fake_entry *entry;
    int place;
    int64_t due;
} srt_fake_job;

typedef struct srt_fake_id {
    struct srt_fake_id *next; /* in its bucket */
    char *name;
    size_t len;
    unsigned crc;
    srt_fake_record waiting; /* while fence is not 0: what runs */
    srt_fake_record behind, dead;
    srt_fake_entries scheduled;
    int64_t fence; /* of its run; 0: it does not run */
    size_t done;   /* payloads of its run that checkpoints have ended */
    int scored;    /* one of these had a score of its own: */
    double highest;
    double remembered;
    int64_t remembered_until; /* microseconds; 0: no score is remembered */
} srt_fake_id;

/* What retries_exhausted is to be told. */
typedef struct srt_fake_notice {
    struct srt_fake_notice *next;
    const srt_fake_id *id;
    srt_fake_record record;
} srt_fake_notice;

#define SRT_FAKE_BUCKETS 1024

typedef struct srt_fake_queue {
    const seriatim_allocator *mem;
    const srt_queue *known; /* its settings */
    int64_t tick;           /* the last arrival or fence */
    int64_t now;            /* of the present call */
    int64_t last_rank;      /* of a ready id */
    size_t scheduled;       /* payloads */
    srt_fake_id *buckets[SRT_FAKE_BUCKETS];
    srt_fake_id **ids; /* in the order of their first pushes */
    size_t id_count, id_cap;
    srt_fake_notice *notices, *told; /* in their order; told: the last that was taken */
} srt_fake_queue;

void srt_fake_record_clear(const seriatim_allocator *mem, srt_fake_record *record); /* it is not there any more */
/*
 * Adds an entry, which the record owns then, by the queue's fold mode. OK, or NOMEM: the entry is freed. into (may be
 * NULL): the arrival of the equal payload that it was folded into, or its own.
 */
int srt_fake_fold(const srt_fake_queue *q, srt_fake_record *record, srt_fake_entry *entry, double *into);
/* A waiting record is parked, or comes by its due time. */
void srt_fake_place(srt_fake_record *record, int parked);
/* Unites a job that arrives with what its id has. *added: the id had nothing. As srt_fake_fold. */
int srt_fake_join(srt_fake_queue *q, srt_fake_id *id, const srt_fake_job *job, int *added, double *into);
/* What was pushed while the id ran becomes its waiting record. */
void srt_fake_promote(srt_fake_queue *q, srt_fake_id *id);
/* Puts the record of a run back, united with what was pushed meanwhile. OK or NOMEM. */
int srt_fake_put_back(srt_fake_queue *q, srt_fake_id *id, int parked);
/* Moves `entry` to the morgue. OK or NOMEM. */
int srt_fake_bury(const srt_fake_queue *q, srt_fake_id *id, srt_fake_entry *entry, seriatim_text error);
void srt_fake_set_error(srt_fake_record *record, const seriatim_allocator *mem, seriatim_text error);

/* ---- fake.c ------------------------------------------------------------------------------------------ */

struct srt_fake {
    const seriatim_allocator *mem;
    seriatim_client *client;
    srt_fake_queue **queues; /* by number; NULL: nothing was pushed */
    size_t queue_count, queue_cap;
    srt_arena answers; /* of the last call */
    seriatim_claimed *taken;
    size_t taken_count, taken_cap;
    srt_fake_row *rows;
    size_t row_count, row_cap;
};

/* The queue with this number, made where it is missing; `now` is that of the call. NULL: c->error says why. */
srt_fake_queue *srt_fake_queue_at(srt_fake *fake, size_t number, int64_t now);
/* NULL: nothing of it was pushed yet. */
srt_fake_id *srt_fake_find(const srt_fake_queue *q, const char *name, size_t len);
/* The same, made where it is missing. NULL: out of memory. */
srt_fake_id *srt_fake_id_of(srt_fake_queue *q, const char *name, size_t len);
seriatim_payload srt_fake_payload(const srt_fake_entry *entry);
/* Is the score of an entry not above the one that is remembered of its id? */
int srt_fake_is_stale(const srt_fake_queue *q, const srt_fake_id *id, const srt_fake_entry *entry);
void srt_fake_notice_free(const srt_fake_queue *q, srt_fake_notice *notice);
int srt_fake_no_memory(const srt_fake *fake); /* NOMEM, as c->error says then */

#endif

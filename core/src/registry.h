/* registry.h - queues and their limits, held by whoever owns the registry. */
#ifndef SRT_REGISTRY_H
#define SRT_REGISTRY_H

#include "keys.h"
#include "status.h"

typedef enum srt_fold { SRT_FOLD_MERGE, SRT_FOLD_LIST, SRT_FOLD_LAST } srt_fold;
typedef enum srt_exhausted { SRT_BURY, SRT_PARK, SRT_DROP } srt_exhausted;

typedef struct srt_shard_keys {
    srt_bytes prefix; /* NAMESPACE:{QUEUE/SHARD}: */
    srt_bytes args;   /* the shard's KEYS, encoded */
} srt_shard_keys;

typedef struct srt_queue {
    srt_bytes name;
    unsigned wanted_shards;
    size_t batch_size;
    int64_t max_retry_count;
    const char *fold, *on_waiting, *on_exhausted; /* static words */
    int64_t ttr_us;
    int serial_shards;
    int64_t priority;
    /* The layout as Redis has it; generation 0 until it is known. */
    int64_t generation;
    unsigned shards_count;
    srt_shard_keys *shards;
} srt_queue;

typedef struct srt_registry {
    const seriatim_allocator *mem;
    srt_bytes ns; /* NUL-terminated */
    srt_queue **queues;
    size_t count, cap;
} srt_registry;

int srt_registry_init(srt_registry *r, const seriatim_allocator *mem, const char *ns, seriatim_error *error);
void srt_registry_free(srt_registry *r);

/* Adds a queue, or updates the settings of one that is there (its layout stays). Checks every field, naming it. */
int srt_registry_add(srt_registry *r, const seriatim_queue_settings *settings, srt_queue **queue, seriatim_error *error);
srt_queue *srt_registry_find(const srt_registry *r, const char *name, size_t len); /* or NULL */

/* Reads 'generation shards schema' as layout.lua answers it. PROTOCOL, or UNSUPPORTED for another version's schema. */
int srt_layout_read(const char *text, size_t len, int64_t *generation, int64_t *shards, seriatim_error *error);
/* Takes such a text and makes the shards' keys. */
int srt_queue_set_layout(srt_registry *r, srt_queue *queue, const char *answer, size_t len, seriatim_error *error);

/* The static word for one that a caller gave ("keep", ...), or NULL. */
const char *srt_on_waiting_word(const char *word);
/* Its place from 1, as push.lua wants it; 0 for NULL. */
int srt_on_waiting_place(const char *word);

#endif

/* registry.h - the queues that a client or a node uses, with their settings and layouts. */
#ifndef SRT_REGISTRY_H
#define SRT_REGISTRY_H

#include "model/run_times.h"
#include "wire/cluster.h"
#include "model/settings.h"
#include "base/status.h"

typedef struct srt_shard_keys {
    srt_bytes prefix; /* NAMESPACE:{QUEUE/SHARD}: */
    srt_bytes args;   /* the shard's KEYS, encoded */
} srt_shard_keys;

#define SRT_LAYOUT_TEXT 64 /* bytes of the text of a layout, NUL included */

/*
 * How many shards a queue has. Its text in Redis is `generation shards 3`, or, while ids move from one number of shards
 * to another and of a queue that once had more shards, `generation shards 4 old most`; with a word `paused` behind it
 * while ids move of a queue that was paused when that began.
 */
typedef struct srt_layout {
    int64_t generation;
    unsigned shards; /* where ids belong */
    unsigned old;    /* while ids move: the number of shards where they belonged before; else 0 */
    unsigned most;   /* shards that the queue ever had */
    int paused;      /* while ids move: shards that the queue gets are paused when they are turned to it */
} srt_layout;

/* Settings that each process takes from its own worker; Redis does not store them. */
typedef struct srt_own_settings {
#define X(kind, name, ...) SERIATIM_FIELD_##kind name;
    SERIATIM_OWN_SETTINGS(X)
#undef X
} srt_own_settings;

typedef struct srt_queue {
    srt_bytes name;
    srt_own_settings own;
    srt_settings code; /* as the worker says, or the defaults */
    /* What all act by: as Redis had it when the layout was last read; until then as `code`. */
    srt_settings now;
    double read_at;  /* Unix seconds by the host's clock at which a client last read the layout; 0: it is not told the
                        time */
    uint32_t warned; /* checksum of the difference between code and Redis that was last told */
    /* The layout as Redis has it; generation 0 until it is known. */
    int64_t generation;
    unsigned shards_count; /* where ids belong */
    unsigned old_count;    /* while ids move: where they belonged before; else 0 */
    unsigned most_count;   /* shards that it ever had: some may hold figures of jobs that have ended */
    char layout[SRT_LAYOUT_TEXT];
    /* Of shards that were in a layout that this process has seen, the first shards_known of most_count or more. They
     * stay where they are, also when the layout changes, until the layout is forgotten. */
    srt_shard_keys **shards;
    unsigned shards_known;
    size_t shards_cap;
    size_t running; /* of a node: ids of all its shards that threads run now */
    /* Of a node: */
    int withdrawn;             /* it serves the queue no more */
    int unasked;               /* layout.lua is to be called for it */
    int unwritten;             /* Redis does not have these settings yet */
    struct srt_shard **places; /* its shards by their numbers, also those that the queue has lost */
    unsigned place_count;
    size_t place_cap;
    unsigned split_count; /* how many shards the host's splitter has shared out; later ones follow these */
    int turns;            /* its layout was another one, or says that ids move: each shard is turned to it */
    int ends;             /* this node has written the layout that ends a move, and is to turn all shards to it */
    struct {
        int step;                   /* what is asked, see generation.c; 0: nothing */
        int64_t at;                 /* when to go on; SRT_NEVER: at an answer */
        char text[SRT_LAYOUT_TEXT]; /* that is written back, or that replicas are to have */
        srt_written written;
    } follow;
    /* Of a client: how many shards its next pop begins behind its first one. */
    unsigned pop_shard;
    unsigned pop_channels; /* shards whose wake-up channels it listens to */
    /* Of a node: which of its failures are logged one by one. */
    struct {
        int64_t since_ms;   /* when the second began that the counts are of */
        int64_t told, kept; /* in it: logged one by one, and kept back */
        int crowded;        /* all are kept back */
    } failures;
    srt_run_counts run_counts; /* of a node: the calls of perform that Redis was not told of */
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
int srt_registry_add(srt_registry *r, const seriatim_queue_settings *settings, srt_queue **queue,
                     seriatim_error *error);
/* The place of the queue with this name in `queues`, or SERIATIM_NO_QUEUE. */
size_t srt_registry_number(const srt_registry *r, const char *name, size_t len);
srt_queue *srt_registry_find(const srt_registry *r, const char *name, size_t len); /* or NULL */

/*
 * Reads the text of a layout as layout.lua answers it. UNSUPPORTED if it cannot be read or is of another version's
 * schema; then *layout is not to be used.
 */
int srt_layout_read(const char *text, size_t len, srt_layout *layout, seriatim_error *error);
/* The opposite. */
void srt_layout_write(const srt_layout *layout, char text[SRT_LAYOUT_TEXT]);
/*
 * Takes the message of a SERIATIM_GENERATION error apart: the generation of the shard (negative: closed for a deletion)
 * and the layout that it was turned to, borrowed; *len is 0 if it was never turned. Returns 0 if the message says no
 * generation.
 */
int srt_layout_refused(const char *message, int64_t *generation, const char **text, size_t *len);
/* How many shards hold ids, or may: while ids move, the greater of both numbers. */
unsigned srt_queue_addressed(const srt_queue *queue);
/* Stores the layout of such a text in the queue, and makes the keys of its shards. */
int srt_queue_set_layout(srt_registry *r, srt_queue *queue, const char *answer, size_t len, seriatim_error *error);
/*
 * Gives a queue that is in no registry this number of shards and this generation, for srt_queue_forget_layout to free.
 * NOMEM.
 */
int srt_queue_with_shards(srt_registry *r, srt_queue *queue, unsigned count, int64_t generation);
/* Redis has no such queue any more: generation and shards_count become 0. */
void srt_queue_forget_layout(const srt_registry *r, srt_queue *queue);

/* What layout.lua does with the settings in its arguments. */
typedef enum srt_layout_mode {
    SRT_LAYOUT_LOOK, /* nothing is written: the queue is not made */
    SRT_LAYOUT_KEEP, /* makes the queue; settings that Redis lacks are written, the others stay */
    SRT_LAYOUT_SET   /* makes the queue; all settings are written */
} srt_layout_mode;

/* Starts a script on the KEYS of the queue as a whole. NULL: out of memory. */
srt_request *srt_queue_request(const srt_registry *r, srt_session *session, const srt_queue *queue, int script);
/* Starts layout.lua. refused: the generation that a shard refused, or 0. NULL: out of memory. */
srt_request *srt_layout_request(const srt_registry *r, srt_session *session, const srt_queue *queue,
                                srt_layout_mode mode, int64_t refused);
/*
 * Takes its answer over: layout and, unless the mode is SET, settings. *absent: there is no such queue; the layout that
 * was known stays. Otherwise a status of srt_queue_set_layout or srt_settings_take, and nothing is taken over. redis
 * (may be NULL) becomes what Redis had before the call.
 */
int srt_layout_take(srt_registry *r, srt_queue *queue, srt_layout_mode mode, const srt_reply *reply, int *absent,
                    srt_settings *redis, seriatim_error *error);
/* The text of the layout in an answer; its length is 0 where there is no such queue. */
const srt_token *srt_layout_of(const srt_reply *reply);
/* Takes the settings of an answer to SRT_LAYOUT_LOOK alone. */
int srt_settings_look(srt_queue *queue, const srt_reply *reply, int *absent, seriatim_error *error);

#endif

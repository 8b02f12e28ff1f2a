/* integrity.h - between the files of the check of what is stored. */
#ifndef SRT_INTEGRITY_H
#define SRT_INTEGRITY_H

#include "client/operator.h"

/* What is looked at in each shard, in this order; SCAN then looks for keys that nothing owns. */
typedef enum integrity_step {
    INTEGRITY_TYPES,
    INTEGRITY_LIST_READY,
    INTEGRITY_JOBS,
    INTEGRITY_LIST_AGAIN,
    INTEGRITY_CONFIRM_READY,
    INTEGRITY_NEXT,
    INTEGRITY_RUNNING,
    INTEGRITY_DEAD,
    INTEGRITY_DUE,
    INTEGRITY_PARKED,
    INTEGRITY_UNPROVEN,
    INTEGRITY_SUSPECT,
    INTEGRITY_RETRY,
    INTEGRITY_DIED,
    INTEGRITY_OVERRUN,
    INTEGRITY_SCHEDULED,
    INTEGRITY_TRACED,
    INTEGRITY_SCORES,
    INTEGRITY_SCORE_ENDS,
    INTEGRITY_TOLD,
    INTEGRITY_OUTBOXES,
    INTEGRITY_STEPS,
    INTEGRITY_SCAN = INTEGRITY_STEPS,
    INTEGRITY_OWNED,
    INTEGRITY_NAMESPACE, /* without a queue: SCAN, layouts, nodes */
    INTEGRITY_LAYOUT,
    INTEGRITY_NODES,
    INTEGRITY_ICK /* a key of a two-phase commit set */
} integrity_step;

/* A queue that a key names, on the way through the whole namespace. */
typedef struct integrity_queue {
    seriatim_text name;
    int seen; /* INTEGRITY_HAS_* bits */
} integrity_queue;

/* What was seen of a queue. A deleted queue keeps that mark and the states of its shards, which refuse old layouts. */
enum { INTEGRITY_HAS_LAYOUT = 1, INTEGRITY_HAS_MARK = 2, INTEGRITY_HAS_CONTENT = 4 };

typedef struct integrity_state {
    const seriatim_allocator *mem;
    int repair;
    srt_queue *queue;
    unsigned shard;
    integrity_step step;
    srt_bytes left;    /* a byte a shard: 1, its keys are not what the scripts need */
    srt_bytes pattern; /* of the keys; what stands before the shard is `prefix` bytes long */
    size_t prefix;

    uint64_t *listed; /* hashes of the ids in the shard's ready list, sorted after the last slice */
    size_t listed_count, listed_cap;
    int unlisted;           /* the ready list could not be read */
    srt_arena memory;       /* of the shard */
    seriatim_text *missing; /* ids that did not seem to be listed */
    size_t missing_count, missing_cap, confirmed;

    integrity_queue *queues; /* without a queue */
    size_t queue_count, queue_cap;
    srt_bytes name; /* of the key that is looked at */

    seriatim_text *ick_keys; /* of two-phase commit sets, in k->memory; request->place is an index */
    size_t ick_count, ick_cap;

    srt_arena results;
    seriatim_finding *findings;
    size_t count, cap;
    size_t looked_at;
    int64_t records; /* the same without the indexes, in which an id stands once more */
    int64_t keys;    /* that SCAN gave */
    srt_scan scan;   /* over the masters */
} integrity_state;

extern const char *const srt_integrity_single[];

/* ---- integrity_list.c ------------------------------------------------------------------------ */

int srt_integrity_compare(const void *left, const void *right);
int srt_integrity_list(seriatim_client *c, integrity_state *k, const srt_token *id);
int srt_integrity_miss(seriatim_client *c, integrity_state *k, const srt_token *id);
/* The list was read once more: who is in it now is not missing. */
void srt_integrity_keep_missing(integrity_state *k);

/* ---- integrity_request.c --------------------------------------------------------------------- */

/* From its end: claims shorten the beginning, so no place that is counted from the end moves away from the reader. */
int srt_integrity_ask_list(seriatim_client *c, integrity_state *k, int64_t from);
int srt_integrity_listed(const char *const *words, const char *at, size_t len);
srt_request *srt_integrity_request(seriatim_client *c, integrity_state *k, unsigned shard, const char *part,
                                   const srt_token *cursor);
int srt_integrity_ask(seriatim_client *c, integrity_state *k, const srt_token *cursor);
int srt_integrity_ask_scan(seriatim_client *c, integrity_state *k, const srt_token *cursor, int kind);
/* Goes on with the step that is set, or the next one that has something to do. */
int srt_integrity_go_on(seriatim_client *c, integrity_state *k);

/* ---- integrity_finding.c --------------------------------------------------------------------- */

int srt_integrity_find_plain(seriatim_client *c, integrity_state *k, const char *kind, seriatim_text id,
                             const char *detail);
/* What a script has found, and the ids that must be in the ready list. */
int srt_integrity_take(seriatim_client *c, integrity_state *k, const srt_request *r, const srt_reply *reply);
/*
 * Finds an id that lies in a shard to which it belongs neither by the number of shards nor, while ids move, by the old
 * one. what: of which kind of key it is.
 */
int srt_integrity_place(seriatim_client *c, integrity_state *k, unsigned shard, const char *what, seriatim_text id);
int srt_integrity_stray(seriatim_client *c, integrity_state *k, const srt_token *key, unsigned shard,
                        const char *detail);

/* ---- integrity_ick.c ------------------------------------------------------------------------- */

/* Is it a key of a two-phase commit set? `at`: where its hash tag begins, `brace`: where it ends. */
int srt_integrity_of_ick(const char *at, const char *brace, const char *end);
/* Asks whether the key agrees with the others of its set; it must be one of a set. */
int srt_integrity_ick(seriatim_client *c, integrity_state *k, const srt_token *key);
/* Takes the findings of a slice, and asks for the next one. */
int srt_integrity_on_ick(seriatim_client *c, integrity_state *k, const srt_request *r, const srt_reply *reply);
/* A key whose script failed is a finding. */
int srt_integrity_ick_refused(seriatim_client *c, integrity_state *k, const srt_request *r, const char *message);

/* ---- integrity_keys.c ------------------------------------------------------------------------ */

/* Takes SHARD}:KIND:ID apart. A key of an id or a client is asked for its owner. */
int srt_integrity_key(seriatim_client *c, integrity_state *k, const srt_token *key);
/* NAMESPACE:{...}:KIND, or what stands below the namespace without being ours. */
int srt_integrity_any_key(seriatim_client *c, integrity_state *k, const srt_token *key);
int srt_integrity_send_namespace(seriatim_client *c, srt_queue *queue);
/* {layout, name, value, ...} */
int srt_integrity_on_layout(seriatim_client *c, integrity_state *k, const srt_request *r, const srt_reply *reply);
int srt_integrity_on_end(seriatim_client *c, int failed);

#endif

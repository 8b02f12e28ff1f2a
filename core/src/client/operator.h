/* operator.h - what queries, actions and checks share: ids by shard, bounds, views of records. */
#ifndef SRT_OPERATOR_H
#define SRT_OPERATOR_H

#include "client/client.h"
#include "model/queue_names.h"
#include "model/record.h"

/* ids of one call: at most some 8 ms of Redis where each has a payload of 1 MiB that is freed */
#define SRT_SLICE 50
#define SRT_ACTION_CALLS 50 /* calls of a slice of an action on a whole queue: some 0.2 s where Redis is near */

/* An id on its way to or from its shard. */
typedef struct srt_target {
    const char *id;
    size_t len;
    int64_t key; /* what the answers are sorted by, before the id */
    unsigned shard;
} srt_target;

/* Copies the caller's ids; key is an id's place. Checks their length. */
int srt_targets_copy(seriatim_client *c, srt_arena *arena, const seriatim_text *ids, size_t count,
                     srt_target **targets);
/*
 * Finds each one's shard, sorts by shard, then id, and drops all but the first of equal ids. Returns how many remain.
 */
size_t srt_targets_route(srt_target *targets, size_t count, unsigned shards_count);
/*
 * How many from `first` on go into one call: the same shard, at most SRT_SLICE; an id that changes its shard now goes
 * alone. queue NULL: the targets are no ids.
 */
size_t srt_targets_chunk(const srt_queue *queue, const srt_target *targets, size_t count, size_t first);
int srt_target_by_key(const void *left, const void *right); /* key, then id */
int srt_target_by_id(const void *left, const void *right);  /* shard, then id, then key */
int srt_id_compare(const char *a, size_t a_len, const char *b, size_t b_len);

/* A range of whole numbers, both ends included. */
typedef struct srt_range {
    int64_t low, high;
} srt_range;

/* Reads a decimal number in any locale, at most 17 digits of it. Returns 0 if the text is not one. */
int srt_decimal_read(const char *at, size_t len, double *value);
/* Reads the bounds of numbers; what is meant times `scale` is whole. INVALID names the bound. */
int srt_range_read(seriatim_client *c, srt_range *range, seriatim_text min, seriatim_text max, double scale);

/* One end of a range of ids: kind '-', '+', '[' or '('. */
typedef struct srt_id_bound {
    char kind;
    const char *id;
    size_t len;
} srt_id_bound;

int srt_id_bound_read(seriatim_client *c, srt_arena *arena, srt_id_bound *bound, const char *name, seriatim_text text);
int srt_id_within(const srt_id_bound *min, const srt_id_bound *max, const char *id, size_t len);

/* What an operator sees of a record; `run` as in the shard's running hash, or empty. */
typedef enum srt_part { SRT_PART_WAITING, SRT_PART_RUNNING, SRT_PART_DEAD } srt_part;
void srt_record_view(seriatim_record *view, const srt_record *record, srt_part part, int64_t now_us,
                     const srt_token *run);

/* An operation's zeroed state, or NULL with the client's error set. */
void *srt_operator_state(seriatim_client *c, size_t size);
/*
 * srt_client_begin, then c->state is the operation's zeroed state. Whoever cannot start the operation frees it and sets
 * it to NULL.
 */
int srt_operator_begin(seriatim_client *c, size_t size);
/* The failure of an answer that is not as the script promises. */
int srt_operator_protocol(seriatim_client *c, const char *script);
int srt_operator_nomem(seriatim_client *c);
double srt_operator_seconds(const srt_token *us);
int srt_operator_is_never(const srt_token *us); /* a time that no shard will see: scripts write it for "none" */

/* Beside the public kinds of a query: running ids, in this order. */
#define SRT_FETCH_RUNNING SERIATIM_QUERIES_COUNT
#define SRT_FETCH_WAITING (SRT_FETCH_RUNNING + 1) /* SERIATIM_FETCH without scheduled payloads */
#define SRT_FETCH_BEHIND (SRT_FETCH_RUNNING + 2)  /* what waits behind runs */
/*
 * seriatim_query_begin without its checks; after (may be NULL): only what comes behind that key and id, for queries by
 * number; most_bytes: about how many bytes of payloads are read in all, 0: any number. Where they are large a record
 * has fewer than payload_limit, or none.
 */
int srt_query_begin(seriatim_client *c, size_t queue, const seriatim_query *query, const srt_target *after,
                    int64_t most_bytes);
/*
 * Behind which key and id there may be more: those of the last id of the page as it was listed, whatever has become of
 * it since. NULL: the page is the last one.
 */
const srt_target *srt_query_more(const seriatim_client *c);
/* The result, once, in memory that the arena takes over. */
const seriatim_record *srt_query_keep(seriatim_client *c, srt_arena *arena, size_t *count);

/* Of a kind that there is. */
int srt_action_takes_ids(int kind);
/* 1: it acts on all ids of a queue, so that its work grows with the queue. */
int srt_action_is_whole(int kind);

/*
 * Where an action on a whole queue goes on: in this shard, whose ids it began to read at `began`, behind `cursor`; both
 * texts are the script's own, and empty before its first call in a shard. Shards are walked one after another, and
 * while ids move twice: the number goes on from that of the shards then.
 */
typedef struct srt_action_place {
    int64_t generation; /* of the layout that the shard belongs to; 0: the action begins */
    int64_t bound;      /* when the action began in its first shard, in microseconds by Redis; 0: it has not yet */
    unsigned shard;
    seriatim_text began, cursor;
} srt_action_place;

/*
 * A slice of an action for which srt_action_is_whole: at most SRT_ACTION_CALLS calls, one after another, from `from`
 * on. If the queue got another layout since, it goes through the shards again from the first one, and does not act on
 * what came after `bound`.
 */
int srt_action_slice_begin(seriatim_client *c, size_t queue, int kind, const srt_action_place *from);
/*
 * After such a slice has ended well. 1: there is more, from *place on, whose texts are borrowed until the next
 * operation.
 */
int srt_action_slice_more(const seriatim_client *c, srt_action_place *place);
/* seriatim_action_begin of a kind that drops a payload, which is named by its key (record.h). */
int srt_drop_begin(seriatim_client *c, size_t queue, int kind, seriatim_text id, seriatim_text key);

/* open_batches.c: which batches of ids on their way to another shard are open, and when all of these have ended. */
#define SRT_BATCHES_LOOKS 50 /* of a slice, or of a request that reads ids: the next one looks on */

typedef struct srt_batches {
    const seriatim_allocator *mem;
    int64_t *open; /* of each shard that ids leave: the number of its batch; 0: none, or it has ended */
    size_t cap;
    unsigned count;
    int64_t since_ms; /* spent_ms of the first look behind the last batch that has ended; -1: there was none yet */
} srt_batches;

/* Asks all shards that ids leave for their batch; `kind` of the requests. With none, it must not be called. */
int srt_batches_begin(seriatim_client *c, srt_batches *b, srt_queue *queue, int kind);
/* Asks those again whose batch had not ended; to be called when the operation awakes. */
int srt_batches_ask(seriatim_client *c, srt_batches *b, srt_queue *queue, int kind);
/*
 * To be called when the operation awakes. 1: for 30 s none of them has ended. Whoever moves ids has died then, or is
 * held up.
 */
int srt_batches_stay(const seriatim_client *c, srt_batches *b);
/* Takes an answer. 1: it is the last one, and all batches have ended; else the operation sleeps after the last one. */
int srt_batches_take(seriatim_client *c, srt_batches *b, const srt_request *r, const srt_token *sequence);
void srt_batches_free(srt_batches *b);

/* seriatim_action_begin of SERIATIM_DELETE_QUEUE, after srt_client_begin; force: as the public kind says. */
int srt_delete_begin(seriatim_client *c, size_t queue, const seriatim_text *force, size_t count);
int64_t srt_delete_result(const seriatim_client *c); /* 1: it is deleted */
/* The same of an action on a handle, whose script is cancel or reschedule. */
int srt_handle_begin(seriatim_client *c, size_t queue, int script, const seriatim_text *texts, size_t count);
int64_t srt_handle_result(const seriatim_client *c); /* 1: it is done */

/*
 * The same of SERIATIM_RESHARD: has the servers of a queue move its ids to another number of shards. Ends when all
 * shards know of it, or as soon as the servers will do the rest. Of a move to the same number that is under way only
 * what is missing is done.
 */
int srt_reshard_begin(seriatim_client *c, size_t queue, const seriatim_text *texts, size_t count);
int64_t srt_reshard_result(const seriatim_client *c); /* 1: this operation has begun the move */
/*
 * Adds what a shard that ids leave tells: how many have left, how many ids it had before, 1 if none is to leave any
 * more. from and to are set.
 */
void srt_resharding_add(seriatim_resharding *r, unsigned shard, int64_t moved, int64_t before, int is_out);

/* Starts a script on the two KEYS of the nodes. NULL: out of memory. */
srt_request *srt_nodes_request(seriatim_client *c, int script);
/* Sends nodes.lua. */
int srt_nodes_ask(seriatim_client *c, int kind);
/* 1: by its description, the node serves the queue of this name. */
int srt_node_serves(const srt_token *description, const srt_bytes *name);

/*
 * What follows `name`, "\nfield:", in a text of INFO, up to the end of the line; NULL when there is no such line.
 * Borrowed.
 */
const char *srt_info_field(const char *text, const char *name, size_t *len);
/*
 * After seriatim_health_begin: what INFO says of a field, "\nredis_version:"; data NULL when it says nothing. Borrowed.
 */
seriatim_text srt_health_field(const seriatim_client *c, const char *name);

/* master_facts.c */

/* A slot that is on its way to the master with this address; "": it is not known. */
typedef struct srt_moving_slot {
    unsigned slot;
    char to[300];
} srt_moving_slot;

/* A master of a cluster. */
typedef struct srt_master_facts {
    char address[300];
    unsigned slots;
    const char *info; /* the text of INFO; "": Redis refused it */
    int tells_moving; /* 0: Redis refused CLUSTER NODES */
    srt_moving_slot *moving;
    size_t moving_count;
} srt_master_facts;

/* Asks each master of a cluster. */
int srt_master_facts_begin(seriatim_client *c);
/* In the order of their addresses; until the next operation is begun. *count 0: they were not asked. */
const srt_master_facts *srt_master_facts_result(const seriatim_client *c, size_t *count);
/*
 * As seriatim_queues_begin, but goes on where `found` ended and adds to it, also when the operation fails later, and
 * ends with the first answer of SCAN after this time: then the next one goes on from there. Borrowed until the next
 * operation begins.
 */
#define SRT_QUEUES_ALL INT64_MAX /* no limit of the time */
int srt_queues_begin(seriatim_client *c, srt_queue_names *found, int64_t ms);

#endif

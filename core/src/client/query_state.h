/* query_state.h - between the files of a query: query_pick.c, query_ask.c, query_scheduled.c, query.c. */
#ifndef SRT_QUERY_STATE_H
#define SRT_QUERY_STATE_H

#include "client/operator.h"

/* What a request asks for: srt_request.kind. From QUERY_FETCH_IDS on: records of kind - QUERY_FETCH_IDS ids. */
typedef enum query_part {
    QUERY_SCAN_WAITING,
    QUERY_SCAN_BEHIND,
    QUERY_SCAN_RUNNING,
    QUERY_SCAN_DEAD,
    QUERY_LIST_READY,
    QUERY_LIST_DUE,
    QUERY_LIST_UNPROVEN,
    QUERY_LIST_SUSPECT,
    QUERY_LIST_RETRY,
    QUERY_LIST_DIED,
    QUERY_LIST_PARKED,
    QUERY_LIST_MOVING,
    QUERY_SCHEDULED_PAGE, /* the parts that query_scheduled.c asks for */
    QUERY_SCHEDULED_READ,
    QUERY_SCHEDULED_OF_IDS,
    QUERY_FETCH_IDS
} query_part;

typedef struct query_found {
    seriatim_record view;
    srt_record record; /* what the view shows; more of its payloads may come in further answers */
    int64_t key;
} query_found;

typedef struct query_state {
    const seriatim_allocator *mem;
    int kind, reverse;
    size_t limit, payload_limit;
    int64_t most_bytes, bytes; /* of the page's payloads, 0: any number; and of the records that came */
    int64_t shard;             /* -1: all */
    srt_range range;
    srt_id_bound min, max;
    int has_after;
    srt_target after; /* only what comes behind this key and id; of scheduled payloads stamp and id */
    srt_arena args;   /* bounds and ids of the caller */
    srt_target *chosen;
    size_t chosen_count;

    srt_queue *queue;
    srt_arena memory; /* the candidates' ids */
    srt_target *candidates;
    size_t count, cap;
    size_t open;     /* requests of the present phase */
    int is_full;     /* as many candidates as the limit were listed */
    srt_target last; /* the last of these as it was listed: what is read afterwards may have changed */

    srt_arena results;
    query_found *found;
    size_t found_count, found_cap;
    seriatim_record *records;
} query_state;

/* ---- query_pick.c ---------------------------------------------------------------------------- */

int srt_query_is_fetch(const query_state *q);
srt_part srt_query_part_of(const query_state *q);
/* 1: the query sorts by id; 0: by a number. */
int srt_query_is_by_id(const query_state *q);
/* Drops all but one of each id, then all but the best `limit`, and moves those to memory of their own. */
int srt_query_cut(query_state *q);
int srt_query_add(seriatim_client *c, query_state *q, const srt_token *id, int64_t key, unsigned shard);
/* A zeroed entry of q->found. NULL: out of memory, which the client has been told. */
query_found *srt_query_new_found(seriatim_client *c, query_state *q);

/* ---- query_ask.c ----------------------------------------------------------------------------- */

/* Asks one part of one shard; cursor: of a scan, or the place in the ready list. */
int srt_query_ask(seriatim_client *c, query_state *q, int part, unsigned shard, const char *cursor, size_t len);
/* Asks for n candidates from `first` on; `from` payloads of the first one are known. */
int srt_query_ask_records(seriatim_client *c, query_state *q, size_t first, size_t n, int64_t from);
/* The page is known: asks for its records. */
int srt_query_fetch(seriatim_client *c, query_state *q);
int srt_query_send(seriatim_client *c, srt_queue *queue);

/* ---- query_scheduled.c ----------------------------------------------------------------------- */

/*
 * A candidate of SERIATIM_RANGE_BY_DELIVER_AT is a payload: its id is eight bytes of arrival, big-endian, and the id;
 * its key is deliver_at.
 */
int srt_query_ask_scheduled(seriatim_client *c, query_state *q, unsigned shard, const srt_target *after);
/* The page is known: asks for its payloads. */
int srt_query_read_scheduled(seriatim_client *c, query_state *q);
/* What is scheduled of n candidates of a fetch, from `first` on. */
int srt_query_ask_scheduled_of(seriatim_client *c, query_state *q, size_t first, size_t n);
/* The answer to the first of these three; to the other two. */
int srt_query_on_scheduled_page(seriatim_client *c, query_state *q, const srt_request *r, const srt_reply *reply);
int srt_query_on_scheduled_texts(seriatim_client *c, query_state *q, const srt_request *r, const srt_reply *reply);
/* After found is sorted: what is scheduled of an id becomes part of the record of the same id. */
void srt_query_join_scheduled(query_state *q);

#endif

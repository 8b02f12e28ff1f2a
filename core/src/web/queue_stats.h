/* queue_stats.h - between the files that read the figures of all queues. */
#ifndef SRT_QUEUE_STATS_H
#define SRT_QUEUE_STATS_H

#include "web/web.h"

/* Those of an idle shard begin with STATS_JOBS, in the order in which they are asked. */
enum {
    STATS_TIME,
    STATS_NODES,
    STATS_MOVE,
    STATS_GONE,
    STATS_LAYOUT,
    STATS_STATES,
    STATS_SHARDS,
    STATS_LOCATE,
    STATS_JOBS,
    STATS_RUNNING,
    STATS_OWNED,
    STATS_PARKED,
    STATS_RETRY,
    STATS_DEAD,
    STATS_DUE,
    STATS_FIRST,
    STATS_READY,
    STATS_LATER,
    STATS_NEXT,
    STATS_FAILED_LATER,
    STATS_FAILED_TIMES,
    STATS_SCHEDULED,
    STATS_RECORDS,
    STATS_STATE
};

typedef struct stats_state {
    srt_web *w;
    srt_web_snapshot *snapshot;   /* where the rows lie; NULL: in the request's memory */
    const srt_web_snapshot *last; /* the one before it, whose figures may stand */
    srt_arena memory;             /* the living nodes */
    seriatim_text *nodes;
    size_t node_count;
    size_t begun;         /* rows whose layout is asked for */
    int awaited;          /* answers without which no figure can be read, of TIME and of the nodes; of a cluster only */
    unsigned char *tries; /* of each row */
    srt_bytes key;
} stats_state;

/* ---- queue_stats_request.c ------------------------------------------------------------------- */

srt_arena *srt_web_stats_memory(stats_state *s);
int srt_web_stats_ask_layout(seriatim_client *c, stats_state *s, size_t place);
/* How far a shard is that ids leave. */
int srt_web_stats_ask_move(seriatim_client *c, stats_state *s, size_t place, unsigned shard);
/* The counters of a shard that the queue has no more. */
int srt_web_stats_ask_gone(seriatim_client *c, stats_state *s, size_t place, unsigned shard);
void srt_web_stats_on_gone(stats_state *s, const srt_request *r, const srt_reply *reply);
void srt_web_stats_on_gone_refused(stats_state *s, const srt_request *r);
void srt_web_stats_on_move(stats_state *s, const srt_request *r, const srt_reply *reply);
void srt_web_stats_add_key(seriatim_client *c, stats_state *s, srt_request *r, const srt_web_row *row, unsigned shard,
                           const char *kind);
/* STATES or SHARDS of these, at most STATS_TOGETHER; or LOCATE in one. */
int srt_web_stats_ask_shards(seriatim_client *c, stats_state *s, size_t place, unsigned first, unsigned count,
                             int what);
/* A whole number that is packed as a double; 0 if the double is not a whole number up to SRT_FOREVER. */
int64_t srt_web_stats_number(const char *data, size_t at);
/* What the state says by itself. */
int srt_web_stats_set_version(seriatim_client *c, stats_state *s, srt_web_shard *shard, const srt_token *state);

/* ---- queue_stats_idle.c ---------------------------------------------------------------------- */

/* By its state no claim holds ids, no id is in doubt, and none is to leave the shard. */
int srt_web_stats_is_idle(const stats_state *s, const srt_web_row *row, const srt_token *state);
/*
 * The state is read before and behind what plain commands read: where it is the same, all is of one moment; else, and
 * where something runs after all, the script is asked. While they are under way `length` counts what is in `jobs`,
 * `delayed` what is in `due`, and read_us is -1 once more than they tell is to be known.
 */
int srt_web_stats_ask_idle(seriatim_client *c, stats_state *s, size_t place, unsigned shard, const srt_token *state);
int srt_web_stats_on_part(seriatim_client *c, stats_state *s, const srt_request *r, const srt_reply *reply);
/* A part is refused: the script will be, too, or finds what it can. */
int srt_web_stats_on_part_refused(seriatim_client *c, stats_state *s, const srt_request *r);

#endif

/*
 * refusals.h - what Redis refuses a node: the host is told of each cause at once, and then once a minute, with the
 * number of refusals that it was not told of. The requests are tried again once a second and shard, or more often.
 */
#ifndef SRT_REFUSALS_H
#define SRT_REFUSALS_H

#include "node/job.h"
#include "seriatim/binding/node.h"

#define SRT_REFUSALS 8

typedef enum srt_refused { SRT_REFUSED_HEARTBEAT, SRT_REFUSED_LAYOUT, SRT_REFUSED_SHARD, SRT_REFUSED_MOVE } srt_refused;

typedef struct srt_refusal {
    uint64_t cause; /* hash of what was refused, the status, and the words of Redis */
    srt_refused what;
    int64_t told_at; /* 0: not in use */
    int64_t kept;    /* refusals since then */
} srt_refusal;

/* shard: of SHARD and MOVE; else NULL. */
void srt_refusal_tell(srt_node *node, srt_refused what, const srt_shard *shard, const seriatim_error *error,
                      int64_t now);
/* Redis takes it again: the next refusal is told at once, and the number of those that were not told is told now. */
void srt_refusals_over(srt_node *node, srt_refused what);

/* Redis has refused, or accepted, a request of this kind of the shard. When it refuses none any more, it is over. */
void srt_shard_denied(srt_node *node, srt_shard *shard, int kind, const seriatim_error *error, int64_t now);
void srt_shard_granted(srt_node *node, srt_shard *shard, int kind);

#endif

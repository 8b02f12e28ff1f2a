/*
 * policy.h - computes which node should own which shard, and the back-off of retries and reconnects. The public part is
 * in seriatim.h.
 */
#ifndef SRT_POLICY_H
#define SRT_POLICY_H

#include "seriatim.h"

#define SRT_CENTURY_SECONDS 3155760000.0 /* 100 years: nothing is due later than so long from now */

/* A well-mixed 64-bit hash of some bytes. */
uint64_t srt_hash(const void *data, size_t len);

/*
 * Shares `shards` shards of one queue among `count` nodes (their hashes, all different, in any order) so that no two
 * nodes differ by more than one shard and few shards move when a node comes or goes. owners[i] is the place in `nodes`
 * of the owner of shard i; load is scratch for `count` numbers. The answer depends only on the set of nodes.
 */
void srt_share_shards(uint64_t queue, const uint64_t *nodes, size_t count, unsigned shards, unsigned *owners,
                      unsigned *load);

/* Milliseconds before the attempt-th reconnect (from 0): 50 doubling to 1000, less up to half by `random`. */
int64_t srt_reconnect_delay(unsigned attempt, uint64_t random);

#endif

/*
 * run_times.h - how long the calls of perform take: counted by each node, added up in Redis (run_times.lua), read as a
 * histogram and as percentiles.
 *
 * Buckets are half octaves: bucket 0 holds run times up to 256 us; bucket k up to 256 us * 2^(k / 2), above the one
 * before it; the last one all that are longer than 2.4 hours.
 */
#ifndef SRT_RUN_TIMES_H
#define SRT_RUN_TIMES_H

#include "model/stored.h"
#include "wire/script.h"

#define SRT_RUN_TIMES_EVERY_MS 10000 /* a node tells Redis of a queue */

/* The calls that a node has counted and not told Redis of. */
typedef struct srt_run_counts {
    uint32_t calls[SRT_TIMES_BUCKETS];
    int64_t sum_us;
    int any;
} srt_run_counts;

/* Counts one call that took `us` microseconds; a negative number counts as 0. */
void srt_run_counts_add(srt_run_counts *counts, int64_t us);
/* The longest run time of the bucket, in seconds; of the last one infinity. */
double srt_run_bound(size_t bucket);

/* Begins run_times.lua. number: grows with each call of this node. hash: of the node's name. NULL: out of memory. */
srt_request *srt_run_times_request(srt_session *session, const char *ns, const char *queue, size_t len,
                                   seriatim_text node, uint64_t hash, int64_t number, const srt_run_counts *counts);

/* What Redis holds: of a queue since it was made, of a step, or of several added up. */
typedef struct srt_run_times {
    double calls[SRT_TIMES_BUCKETS];
    double sum; /* seconds; only of the field 'total' */
} srt_run_times;

/*
 * A request with this command, HGET or HMGET, and the key of the queue's run times; the caller adds the fields. NULL:
 * out of memory.
 */
srt_request *srt_run_times_reading(srt_session *session, const char *command, const char *ns, const char *queue,
                                   size_t len);
/* Adds the field 'total'. Bytes that run_times.lua would not have written are left out. */
void srt_run_times_add_total(srt_run_times *times, const char *data, size_t len);
/*
 * Adds a field 'LENGTH:PLACE'. Returns the number of its step; -1 if the bytes are too short to hold a step: then
 * nothing is added.
 */
int64_t srt_run_times_add_step(srt_run_times *times, const char *data, size_t len);
double srt_run_times_calls(const srt_run_times *times);
/*
 * The run time in seconds that the part (0 to 1) of the calls did not exceed; it lies in the bucket of the exact one,
 * so it is wrong by a factor of 1.42 at most. Of calls in the last bucket: 2.4 hours. 0 if there are no calls.
 */
double srt_run_times_quantile(const srt_run_times *times, double part);

#endif

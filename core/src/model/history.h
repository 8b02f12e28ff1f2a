/*
 * history.h - the history of a queue in Redis, of bounded size: how many jobs were pushed, done and failed, and the
 * lag. One process at a time, a node or a dashboard, measures every queue of the namespace every ten seconds, even if
 * no server serves it.
 */
#ifndef SRT_HISTORY_H
#define SRT_HISTORY_H

#include "wire/script.h"

#define SRT_SAMPLE_EVERY_MS 10000
/* a round and a half: another process goes on soon after the one that measured has died; a longer round renews it */
#define SRT_SAMPLER_LEASE_MS 15000
#define SRT_SAMPLE_SHARDS 5 /* of one call: the worst of them together take a few ms */
#define SRT_IDLE_QUEUES 50  /* measured by one call, */
#define SRT_IDLE_SHARDS 250 /* if they have no more shards than this together */

/* Counters since the queue was made, and the lag, at one time of Redis. Microseconds. */
typedef struct srt_history_sample {
    int64_t time_us, processed, failed, pushed, lag_us;
    int64_t since_us; /* when the queue would have been seen, had it been there: history.lua's; 0: not known */
} srt_history_sample;

/* Each begins one request, which is safe to repeat and which the caller sends; NULL: out of memory. */

/* Asks to be the process that measures, under a name of its own, or to go on with a round: sampler.lua. */
srt_request *srt_sampler_request(srt_session *session, const char *ns, const char *process, size_t len, int goes_on);
/*
 * Measures those of count queues, at most SRT_IDLE_QUEUES, in which nothing waits, and writes their samples:
 * sample_idle.lua.
 */
srt_request *srt_idle_request(srt_session *session, const char *ns, const seriatim_text *queues, size_t count,
                              int64_t since_us);
/*
 * Reads the counters and the smallest due time of count shards, at most SRT_SAMPLE_SHARDS, from the one numbered
 * `first`: sample.lua. Of those beyond the first `used` shards of the queue, which have no ids, only the counters.
 */
srt_request *srt_sample_request(srt_session *session, const char *ns, const char *queue, size_t len, int64_t generation,
                                unsigned used, unsigned first, unsigned count);
/* Adds the sample to the history of the queue: history.lua. */
srt_request *srt_history_request(srt_session *session, const char *ns, const char *queue, size_t len,
                                 const srt_history_sample *sample);

/* What the dashboard shows of a span. */
typedef struct srt_history_span {
    const char *word; /* "15m" */
    int64_t step;     /* seconds of a stored step */
    size_t ring;      /* stored steps, which all lie in one ring */
    size_t first;     /* stored steps in the rings before it */
    size_t steps;     /* stored ones in the span */
    size_t merged;    /* stored ones that make one point */
    /* Of the run times (model/run_times.h): seconds of a stored step, how many are stored, how many are in the span. */
    int64_t run_step;
    size_t run_ring, run_steps;
} srt_history_span;

/* Returns NULL if no such span exists. */
const srt_history_span *srt_history_span_of(const char *word, size_t len);
/* The bytes of the span's ring within the history: both ends included, as GETRANGE takes them. */
void srt_history_range(const srt_history_span *span, int64_t *first, int64_t *last);

typedef struct srt_history_point {
    int known;
    double processed, failed, enqueued, lag;
} srt_history_point;

/*
 * Adds the ring of a queue to the points (steps / merged of them), the last of which is the present one at `now`
 * (seconds).
 */
void srt_history_add(const srt_history_span *span, srt_history_point *points, int64_t now, const char *data,
                     size_t len);

#endif

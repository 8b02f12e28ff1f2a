/* history.h - what was processed, failed and enqueued of a queue, kept in Redis in bounded space: written by nodes, read by the dashboard. */
#ifndef SRT_HISTORY_H
#define SRT_HISTORY_H

#include "script.h"

/* What came since the last time, and the lag of now. */
typedef struct srt_history_sample {
    int64_t processed, failed, enqueued;
    int64_t lag_us;
} srt_history_sample;

/*
 * Sends one request, which answers with an integer and is safe to repeat; `unique`: a text that no other call has ("NODE:7").
 * kind: of the request, for the caller to know its answer by. OK or NOMEM (nothing is sent).
 */
int srt_history_write(srt_session *session, const char *ns, const char *queue, size_t len, const srt_history_sample *sample,
                      const char *unique, int kind);

/* What the dashboard shows of a span. */
typedef struct srt_history_span {
    const char *word;  /* "15m" */
    const char *field; /* of the hash: the seconds of a stored step */
    int64_t step;      /* seconds of a stored step */
    size_t steps;      /* stored ones in the span */
    size_t merged;     /* stored ones that make one point */
} srt_history_span;

/* NULL: there is no such span. */
const srt_history_span *srt_history_span_of(const char *word, size_t len);

typedef struct srt_history_point {
    int known;
    double processed, failed, enqueued, lag;
} srt_history_point;

/* Adds what is stored of a queue to the points (steps / merged of them), the last of which is the present one at `now` (seconds). */
void srt_history_add(const srt_history_span *span, srt_history_point *points, int64_t now, const char *data, size_t len);

#endif

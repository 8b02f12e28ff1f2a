/* consume.h - between the files of consuming over HTTP: consume_body.c reads a request, consume.c carries it out. */
#ifndef SRT_WEB_CONSUME_H
#define SRT_WEB_CONSUME_H

#include "web/request.h"

/* Which of the routes, beside SERIATIM_POPPED_ of those that report the result of a delivery. */
#define SRT_CONSUME_PUSH (-1)
#define SRT_CONSUME_POP (-2)

#define SRT_CONSUME_PATH "/api/v1/consume/"
#define SRT_CONSUME_JOBS 1000
#define SRT_CONSUME_QUEUES 100
#define SRT_CONSUME_DEPTH 100 /* of a payload; with what is around it, it is not deeper than SRT_JSON_DEPTH */

/* The fields of a body. All texts lie in the memory of the request. */
typedef struct srt_consume {
    seriatim_text queue, token, error, on_waiting;
    seriatim_text payload; /* of a snooze, as it is stored; data NULL: it stays */
    seriatim_text queues[SRT_CONSUME_QUEUES];
    int64_t weights[SRT_CONSUME_QUEUES];
    int exist[SRT_CONSUME_QUEUES];      /* Redis knows the queue */
    size_t numbers[SRT_CONSUME_QUEUES]; /* of the queues in the client */
    size_t queue_count, weight_count, found;
    seriatim_job *jobs;
    size_t job_count;
    double wait, ttr, seconds, retry_in;
    int64_t max;
    int raw, handles;
    int64_t count; /* of a checkpoint: how many payloads of the delivery are done, the first ones */
} srt_consume;

/*
 * Reads the body into w->page. OK or NOMEM; a refusal, in w->status, names the field, what it must be and what it was.
 */
int srt_consume_read(srt_web *w, const seriatim_web_request *request);

/*
 * consume_json.c: writes a stored text: the JSON text that it is, or {"base64": ...}; if `raw`, as base64 without an
 * object.
 */
void srt_consume_write(srt_web_out *out, const char *data, size_t len, int raw);

#endif

/* pipeline.h - between the files of a pipeline: pipeline.c, pipeline_run.c. And what tests ask of it. */
#ifndef SRT_PIPELINE_H
#define SRT_PIPELINE_H

#include "client/push.h"

typedef struct srt_queue_part {
    srt_push push; /* the first member: the subject of its requests is the part */
    size_t queue;
    int stale;    /* its layout is to be loaded (again) */
    int loading;  /* again, and that is asked for */
    int unloaded; /* that failed, or it is deleted: nothing more of it is sent; push.failure says why */
    int64_t stale_generation;
    int planned;                 /* its chunks are made */
    seriatim_error error, cause; /* how it ended; cause: why, before the error said how much was written */
} srt_queue_part;

/* One push: jobs[first .. first + count) of a part. */
typedef struct srt_piped {
    srt_queue_part *part;
    size_t first, count;
    int handles; /* wanted */
} srt_piped;

typedef struct srt_pipeline {
    srt_queue_part **parts; /* made; part_count of them are in use */
    size_t part_count, part_cap;
    srt_piped *pushes;
    size_t push_count, push_cap;
    int wants_handles;
    int begun;                           /* the layouts are known, and chunks are sent */
    seriatim_error failure;              /* why it cannot be sent */
    int64_t replicas, wait_ms, limit_ms; /* the strictest of all pushes; limit_ms 0: no push yet */
} srt_pipeline;

/* pipeline_run.c */
size_t srt_pipeline_flying(const seriatim_client *c); /* bytes of chunks of all its queues that wait for an answer */
/* No push follows. OK also if there are no jobs, or how it failed at once. */
int srt_pipeline_start(seriatim_client *c);

#endif

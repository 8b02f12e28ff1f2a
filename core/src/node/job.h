/* job.h - claimed ids, the claims that they came with, and the deliveries in which threads get them. */
#ifndef SRT_JOB_H
#define SRT_JOB_H

#include "base/bytes.h"
#include "model/record.h"

typedef struct srt_shard srt_shard;

/* EXTENDED and CHECKPOINT are requests about a run that goes on. */
typedef enum srt_outcome {
    SRT_RELEASED,
    SRT_DONE,
    SRT_FAILED,
    SRT_REJECTED,
    SRT_EXTENDED,
    SRT_CHECKPOINT,
    SRT_SNOOZED
} srt_outcome;

typedef struct srt_claim srt_claim;
typedef struct srt_checkpoint srt_checkpoint;

/* A claimed id. */
typedef struct srt_job {
    struct srt_job *next;
    srt_claim *claim; /* the memory that it is allocated in */
    srt_shard *shard;
    seriatim_claimed view; /* texts of the record, for the host */
    srt_record record;
    int old;  /* was in a thread's hands when its shard was lost or acquired: its id may be claimed again meanwhile */
    int lost; /* Redis takes no more reports on it: its shard was lost, or its id was claimed anew */
    const char *run; /* as Redis has it in `running` */
    size_t run_len;
    char mode;     /* SRT_RUN_NORMAL, _UNPROVEN, _SUSPECT or _DIED */
    int64_t lease; /* lease under which it was claimed */
    srt_outcome outcome;
    void *outcome_text; /* holds the bytes that `text` and `rejected` point into */
    size_t outcome_size;
    int64_t time_us;  /* FAILED, SNOOZED: until the next run; EXTENDED: to the end of the time to run */
    const char *text; /* FAILED: error; REJECTED: reason; SNOOZED: what the first payload becomes; CHECKPOINT: the last
                         one that is done */
    size_t text_len;
    int has_payload; /* SNOOZED: there is such a text */
    int scored; /* DONE, CHECKPOINT: Redis is to remember the score that `score` packs, for the queue's remember_score
                 */
    char score[8];
    srt_checkpoint *checkpoint;                          /* NULL: none was asked for */
    size_t *rejected;                                    /* REJECTED: places of the payloads in the record, ascending */
    size_t rejected_count, rejected_done, rejected_sent; /* of them: settled; in the settle that is on its way */
} srt_job;

typedef struct srt_job_list {
    srt_job *first, *last;
    size_t count;
} srt_job_list;

/* The answer to one claim; it lives while any of its jobs does. */
struct srt_claim {
    srt_arena memory;
    size_t jobs;
    int whole;  /* Redis notes its runs as one: it is settled in one word if all its ids are done before any is settled
                   alone */
    size_t ids; /* of a claim that is settled as one run: its ids, as Redis counts them */
    srt_job_list ended; /* of a claim that is settled as one run: ids that are done, while others are not */
    int64_t ended_since;
    int64_t taken_at;           /* when its answer came (local ms) */
    int timed;                  /* claimed with a ttr, so Redis may end its runs: claim.lua */
    srt_claim *next, *previous; /* in its shard's list of those of which some ids have ended */
};

/*
 * What the host has said to be done of an id that runs. The request to Redis is a job of its own, which travels with
 * the settles of the shard. One is pending or under way for an id at a time; what is asked for meanwhile goes with the
 * next.
 */
struct srt_checkpoint {
    srt_job request;
    srt_job *job;     /* the job whose payloads these are */
    size_t wanted;    /* the first payloads that are done, by the word of the host: their number */
    size_t asked;     /* the number that the request names */
    size_t confirmed; /* the number that Redis has confirmed; 0 again after a reconnect, until it has heard of them once
                         more */
    int asking;       /* the request is pending or under way */
    int stale;        /* Redis answered that another node has the run now */
    int over;         /* the host has handed the job back */
    int parked;       /* and its outcome waits for the answer to the request, so that only what is left goes back */
    char last[16];    /* the text of the request: stamp and score of a payload */
};

struct seriatim_delivery {
    int kind;
    srt_shard *shard;
    seriatim_delivery *next, *previous; /* in the node's list of those that threads hold */
    int abandoned;                      /* handed back already: outcomes that the host reports later are ignored */
    int is_suspect;                     /* it runs with nothing else in its process */
    int notices;                        /* each job is a notice that lies in Redis until the hook has returned */
    int64_t taken_us;                   /* by the host's clock, when a thread got it; 0: its run time is not counted */
    size_t count, cap;
    srt_job *jobs[1]; /* cap of them */
};

void srt_list_add(srt_job_list *list, srt_job *job);
void srt_list_add_first(srt_job_list *list, srt_job *job);
srt_job *srt_list_take(srt_job_list *list);
void srt_list_join(srt_job_list *list, srt_job_list *more); /* moves all of `more` to the end of `list` */
void srt_list_free(srt_job_list *list);                     /* frees its jobs */
void srt_job_free(srt_job *job);
void srt_job_view(srt_job *job); /* copies what the host may read of the record */
/*
 * Notes in `done` (job or its checkpoint) the highest score of the job's first `count` payloads, where the queue
 * remembers it.
 */
void srt_job_note_score(srt_job *done, const srt_job *job, size_t count);
void srt_claim_free_one(srt_claim *claim); /* drops one job of the claim; frees the claim with its last job */
seriatim_delivery *srt_delivery_new(const seriatim_allocator *mem, int kind, srt_shard *shard, size_t cap);
void srt_delivery_free(const seriatim_allocator *mem, seriatim_delivery *delivery);

#endif

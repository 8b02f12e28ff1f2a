/*
 * shard.h - between the files of a shard's life: batch, hold, recall, offer, recover, acquire, settle, quarantine,
 * slice, time_to_run, claim and shard.c.
 */
#ifndef SRT_SHARD_H
#define SRT_SHARD_H

#include "node/node_state.h"

#define SHARD_MAX_CLAIM 1000 /* ids in one script call */
/* of this node: acquire, and spread in the operators' scripts, look at all of them in one call */
#define SHARD_MAX_RUNS 4000
/*
 * a claim takes as many ids as were finished in this time, so that it ends within the 35 ms of hold.c also if jobs are
 * slow at times
 */
#define SHARD_WINDOW_MS 20
#define SHARD_SLICE_PAUSE_MS 2 /* pause between slices of long work, so that other clients of Redis get their turn */
#define SHARD_RETRY_MS 100     /* after a request could not be made */
#define SHARD_REFUSALS 3       /* of a release: then a node that stops leaves the shard as it is */

/* batch.c */
void srt_claim_part_all(srt_shard *s);
void srt_claim_ended(srt_shard *s, srt_job *job,
                     int64_t now); /* the job is done, and its claim may still be settled in one word */

/* hold.c */
size_t srt_shard_window(const srt_node *node, const srt_shard *s);
/* Ids of claims that have not ended as a whole are given to the next settle, if they have waited long enough. */
void srt_shard_part_claims(const srt_node *node, srt_shard *s, int64_t now);
int srt_shard_should_settle(const srt_node *node, const srt_shard *s, int64_t now);
/* When the shard is to be stepped for what has ended; SRT_NEVER: nothing waits, or an answer steps it. */
int64_t srt_shard_settle_at(const srt_node *node, const srt_shard *s, int64_t now);
/* How many ids Redis may have claimed for this node when a push claims one more; 0: no push is to. */
size_t srt_shard_push_window(const srt_node *node, const srt_shard *s);
void srt_shard_prompt(srt_shard *s, int64_t now); /* for a time, what ends is not held */

/* recall.c */
void srt_shard_recall(srt_node *node, srt_shard *s, int64_t now); /* hands back what no thread has begun */
void srt_shard_lose(srt_node *node, srt_shard *s);                /* the shard is lost: another node has it */
/* The id was claimed: an earlier run of it that a thread has is lost. */
void srt_job_lose_earlier(srt_node *node, const srt_job *job);
void srt_shard_mark_old(srt_node *node, srt_shard *s, int64_t heard);
void srt_shard_drop_forgotten(srt_node *node, srt_shard *s, int64_t heard);

/* offer.c */
void srt_job_ready(srt_node *node, srt_job *job, int64_t now);
void srt_shard_old_ended(srt_node *node, srt_shard *s, int64_t now);

/* recover.c */
int srt_shard_should_recover(const srt_shard *s, int leaving, int64_t now);
void srt_shard_recover(srt_node *node, srt_shard *s, int64_t now);
void srt_shard_recovered(srt_node *node, srt_shard *s, const srt_request *r, const srt_reply *reply, int64_t now);
void srt_shard_find_unfinished(srt_shard *s, int64_t flags); /* flags: the SRT_SAYS_* bits of a claim or a settle */
void srt_shard_tell_recovered(srt_node *node, srt_shard *s);

/* acquire.c */
void srt_shard_acquire(srt_node *node, srt_shard *s, int64_t now);
void srt_shard_acquire_own(srt_node *node, srt_shard *s, int64_t now);
void srt_shard_acquired(srt_node *node, srt_shard *s, const srt_request *r, const srt_reply *reply, int64_t now);
void srt_shard_release(srt_node *node, srt_shard *s, int64_t now);
void srt_shard_released(const srt_node *node, srt_shard *s, const srt_reply *reply);

/* settle.c */
void srt_shard_settle(srt_node *node, srt_shard *s, int64_t now);
void srt_shard_settled(srt_node *node, srt_shard *s, srt_request *r, const srt_reply *reply, int64_t now);

/* quarantine.c */
/* The reading of the payloads of a job begins (change 1) or ends (-1). */
void srt_shard_slicing(srt_node *node, const srt_job *job, int change);
/* Has a suspect been run or handed back without Redis knowing it? A death of the process would be charged to it. */
int srt_suspect_is_unsettled(const srt_node *node);
/* An unproven id, or a suspect, is asked for or read; it has come, or will not. */
void srt_unproven_begins(srt_node *node, srt_shard *s);
void srt_unproven_comes(srt_node *node, srt_shard *s);

/* slice.c */
void srt_shard_slice(srt_node *node, srt_job *job, int64_t now);
void srt_shard_slice_on(srt_node *node, srt_shard *s, int64_t now); /* continues reading ids whose reading paused */
void srt_shard_sliced(srt_node *node, srt_job *job, const srt_reply *reply, int64_t now);

/* time_to_run.c */
size_t srt_shard_room(const srt_shard *s); /* how many more of its ids this node may claim, by SHARD_MAX_RUNS */
/* How many ids to claim of a queue with a ttr; 0: the shard is stepped again when a thread may be free
 * (srt_node_wake_starved). */
size_t srt_shard_timed_ids(srt_node *node, const srt_shard *s, int64_t now);

/* claim.c */
void srt_shard_claim(srt_node *node, srt_shard *s, size_t limit, int kind, int64_t now); /* kind: SRT_CLAIM_* */
void srt_shard_want_claim(srt_node *node, srt_shard *s,
                          int64_t now); /* claims if there is something due and room for it */
/* Tells Redis that pushes are to claim nothing more for this node, if they would. */
void srt_shard_withdraw_window(srt_node *node, srt_shard *s, int64_t now);
void srt_shard_claimed(srt_node *node, srt_shard *s, const srt_request *r, const srt_reply *reply, int64_t now);

#endif

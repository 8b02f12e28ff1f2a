/*
 * push.h - between the files of a push. From the bottom up: push_check.c and push_pack.c (jobs), push_plan.c (chunks),
 * push_ask.c, push_send.c, push_answer.c, push_replicas.c, push_outcome.c, push.c, pipeline_run.c, pipeline.c. Its data
 * is srt_push of client.h.
 */
#ifndef SRT_PUSH_H
#define SRT_PUSH_H

#include "client/client.h"

#define SRT_PUSH_CHUNK_JOBS ((size_t)1000) /* as in core/scripts/client/push.lua */

/* Kinds of a push's requests: the jobs of a chunk; the ids of one, which may not be in the shard; what a shard took
 * from us last; WAIT; ROLE, or WAIT, behind an absence.
 */
enum { PUSH_KIND_CHUNK, PUSH_KIND_ASK, PUSH_KIND_TOKEN, PUSH_KIND_WAIT, PUSH_KIND_ABSENCE };

/* why the rest of a push cannot be sent, whose layout was refused: GENERATION */
#define SRT_PUSH_DELETED "the queue was deleted meanwhile, and shards_count is 0"

#define PUSH_MARK_ABSENT 1 /* mark of a peer that has said that an id is not there */

/* push_check.c */
int srt_push_check(seriatim_client *c, const seriatim_job *job,
                   unsigned long at); /* INVALID: c->error names jobs[at] and the field */

/* push_pack.c */
int srt_push_refuses(const char *word); /* 1: this word of on_waiting (NULL: none of its own) refuses jobs */
int srt_push_add(seriatim_client *c, const seriatim_job *job);
char *srt_push_put(char *at, const void *data, size_t len);    /* copies; returns the end of what it wrote */
const char *srt_push_id(const srt_push_job *job, size_t *len); /* of a job that has bytes; lies in these */
void srt_push_init(seriatim_client *c);                        /* c->push, which never took a job */
void srt_push_free(const seriatim_allocator *mem,
                   srt_push *p);               /* for the owner of a push but the client's single one */
void srt_push_forget_jobs(seriatim_client *c); /* counts and refused places stay */

/* push_plan.c */
int srt_push_plan(seriatim_client *c, const srt_queue *queue); /* shares out the jobs whose outcome is not known */

/* push_handles.c: of the jobs, if handles are wanted */
int srt_push_make_handles(seriatim_client *c,
                          const srt_queue *queue); /* all but their arrivals; again changes nothing */
/* Reads the arrivals of the first `taken` jobs of a chunk at *at, which ends up behind them. OK or PROTOCOL. */
int srt_push_take_arrivals(srt_push *p, const srt_push_chunk *chunk, size_t taken, const char **at, const char *end);

/* push_ask.c */
int srt_push_ask(seriatim_client *c, srt_request *r, int kind, size_t i); /* sends a request about chunk i */
int srt_push_send_ids(seriatim_client *c, size_t i); /* those of chunk i, whose step is SRT_PUSH_ASK */

/* push_send.c */
void srt_push_token_arg(const seriatim_client *c, const srt_queue *queue, unsigned shard, srt_request *r);
int srt_push_send_chunk(seriatim_client *c, size_t i);
int srt_push_open_shards(seriatim_client *c);     /* begins further shards, as many as fit into what may fly at once */
int srt_push_go_on(seriatim_client *c, size_t i); /* chunk i is answered: sends what may follow */
int srt_push_send(seriatim_client *c, srt_queue *queue);

/* push_answer.c */
/* Outcomes that an answer names; m, g, h: not written (push_moved.c), o: it was written by an earlier push. */
#define SRT_PUSH_LETTERS "nfrstmgho"
void srt_push_mark(srt_push *p, const srt_push_chunk *chunk, char outcome); /* all jobs of it, in a pipeline */
void srt_push_settle_chunk(srt_push *p, srt_push_chunk *chunk);
int srt_push_fail_answer(seriatim_client *c, const char *text);
int srt_push_take_written(seriatim_client *c, const srt_request *r, const char *text, size_t len);
int srt_push_take_asked(seriatim_client *c, size_t i, const srt_token *answer);
int srt_push_take_token(seriatim_client *c, const srt_request *r, const srt_token *token);

/* push_replicas.c */
/* After an answer: asks for the replicas of what is written, or settles it when they are counted. */
int srt_push_ask_replicas(seriatim_client *c);
void srt_push_settle_unsure(srt_push *p);
/* The answer to WAIT, which may be another queue's. 1: something of this push was written on the connection before. */
int srt_push_take_replicas(seriatim_client *c, const srt_request *r, int64_t count);
void srt_push_forget_unsure(srt_push *p);
void srt_push_forget_marks(seriatim_client *c); /* of all masters */
void srt_push_on_disconnected(seriatim_client *c);
void srt_push_forget_lost(seriatim_client *c); /* behind it: the marks that were made on that connection */

/* push_moved.c: while ids move */
/* Before a plan; of a new layout all begins anew. */
void srt_push_begin_steps(seriatim_client *c, const srt_queue *queue);
/* A shard has said that it did not write a job, by this letter. */
void srt_push_note_away(seriatim_client *c, srt_push_job *job, char letter);
/*
 * After an answer. 1: all chunks are answered and some jobs were not written: they are to be planned again; c->pause_ms
 * is set if they are to wait before, until the layout is loaded again. 0: the push goes on, or has ended.
 */
int srt_push_follow_moved(seriatim_client *c);
/*
 * The answer to ROLE or WAIT; reply NULL: Redis refused it, so nobody can say more. What was asked before a connection
 * was lost does not count: all is asked anew.
 */
void srt_push_take_absence(seriatim_client *c, const srt_request *r, const srt_reply *reply);
/* What shards have said is not believed any more: all that was not written is asked for anew. */
void srt_push_forget_moved(srt_push *p);

/* push.c */
void srt_push_default_options(srt_push *p);
void srt_push_open(seriatim_client *c); /* c->push takes jobs from now on, and forgets those of before */
void srt_push_take_answer(seriatim_client *c, const srt_request *r, const srt_reply *reply);
void srt_push_take_refusal(seriatim_client *c, const srt_request *r, const seriatim_error *error);
void srt_push_take_stale(seriatim_client *c, const srt_request *r, int left); /* as srt_operation.on_stale */
/*
 * After an answer: plans jobs again that were not written. 1: the layout is to be loaded again before. 0: also if it is
 * loaded again anyway (c->stale).
 */
int srt_push_follow(seriatim_client *c);
int srt_push_seal(seriatim_client *c); /* no job and no option follows. OK, or why the push cannot be sent */

/* push_outcome.c */
int srt_push_on_end(seriatim_client *c, int failed);
void srt_push_on_give_up(seriatim_client *c);

#endif

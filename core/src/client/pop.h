/* pop.h - between the files of pull: pop.c takes, popped.c says what became of it, pop_token.c names it. */
#ifndef SRT_POP_H
#define SRT_POP_H

#include "client/operator.h"

/* What the token of a popped id says. Texts lie in the arena that read it. */
typedef struct srt_pop_token {
    seriatim_text queue, id;
    int64_t fence;
    double stamp, score; /* of the last payload that was delivered */
    int64_t delivered;   /* number of payloads */
    int more;            /* the id had more payloads */
    int scored;          /* a score was given to a delivered payload, and `highest` is the highest of these scores */
    double highest;
} srt_pop_token;

/* A token as a text in the arena; data NULL: out of memory. */
seriatim_text srt_pop_token_write(srt_arena *arena, const srt_pop_token *token);
/* OK, NOMEM, or INVALID: the text is no token. */
int srt_pop_token_read(srt_pop_token *token, srt_arena *arena, seriatim_text text);

/*
 * seriatim_pop_begin. host_waits: the host asks again as long as it has time, so the pop also ends without an error if
 * nothing is due where it could ask, and srt_pop_miss says why it could not ask everywhere; NULL: it could.
 */
int srt_pop_begin(seriatim_client *c, const seriatim_pop *pop, int host_waits);
const seriatim_error *srt_pop_miss(const seriatim_client *c);

/*
 * Starts a script on the shard's keys and the key of what this client did last, with generation, c->sequence, fold and
 * history_per_id. The caller counts c->sequence up, except to repeat a request that Redis may have executed: the shard
 * answers the same number as before. NULL: out of memory, which is already a failure of the operation.
 */
srt_request *srt_pop_request(seriatim_client *c, const srt_queue *queue, unsigned shard, int script);

#endif

/* answers_fixture.h - a node that hears answers which are written here: what its scripts say of shards that are empty.
 */
#ifndef TEST_ANSWERS_FIXTURE_H
#define TEST_ANSWERS_FIXTURE_H

#include "node/node_state.h"

#define RETRIES 7 /* another server writes them */

/* Who measures, and until when: sampler.lua. */
typedef struct sampler_lease {
    const srt_node *holder;
    int64_t until;
} sampler_lease;

typedef struct life {
    srt_node *node;
    int64_t now;
    int changed;       /* the settings in Redis */
    int shards;        /* of the queues: 2, else 1 */
    unsigned measured; /* queues that are found to be measured, at most 10; 0: another node measures */
    int64_t slow_ms;   /* how long each answer to the sampler takes, but for that about its lease */
    int64_t answer_at;
    unsigned looked_at;   /* of those queues, by bits */
    sampler_lease *lease; /* that the nodes share; NULL: a node has it whenever it asks */
    const char *refusal;  /* of the shards of a queue; NULL: its layout is refused */
} life;

/* Lets the node write, and answers it, for ms milliseconds of its time. */
void answer_for(life *l, int64_t ms);

#endif

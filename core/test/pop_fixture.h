/* pop_fixture.h - what the test programs of poppers share: pop an id, keep the delivery, settle it. */
#ifndef SRT_TEST_POP_FIXTURE_H
#define SRT_TEST_POP_FIXTURE_H

#include "operators.h"

/* What was popped last, kept beyond the client's next operation. */
typedef struct popped {
    char id[64], payloads[512], token[512];
    size_t queue;
    int64_t fence, deliveries, retry_count;
    int more;
    size_t count;
    seriatim_payload last;
} popped;

/* Returns the id, or "-": nothing was due. */
const char *pop_as(const fixture *f, const seriatim_pop *pop, popped *kept);
/* As pop_as, of a pop that was begun. */
const char *end_pop(const fixture *f, popped *kept);
/* Settings of a pop of the fixture's queue with this ttr. */
seriatim_pop plainly(const fixture *f, double ttr);
/* As pop_as, with these settings. */
const char *pop(const fixture *f, double ttr, popped *kept);
/* Report the outcome of what was popped, and return the status of the report. */
int say(const fixture *f, const popped *p, seriatim_popped_outcome outcome);
int say_plain(const fixture *f, const popped *p, int kind);
int say_seconds(const fixture *f, const popped *p, int kind, double seconds, const char *words);
int ack(const fixture *f, const popped *p);
int checkpoint(const fixture *f, const popped *p, size_t count); /* the first payloads of the delivery are done */
/* `check` finds nothing wrong in the queue. */
void assert_sound(const fixture *f);
/* Waits until the time of a run is over. */
void expire(const popped *p);

#define SHORT 0.05 /* seconds: a ttr that `expire` waits for */

/* Seconds, within which also a busy machine carries out the next call; and returns when they are over. */
#define A_WHILE 4.0
void pass_a_while(void);

#endif

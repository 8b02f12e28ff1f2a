/* conformance.h - what the parts of the runner share: the suite, a scenario, its queues. */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <pthread.h>

#include <hiredis/hiredis.h>

#include "value.h"

#define QUEUES 8

typedef struct suite {
    pthread_mutex_t lock; /* whoever uses anything here, or memory kept, holds it */
    char url[128];
    redisContext *redis;
    long scenarios, checks, failed;
} suite;

extern suite the_suite;

void lock(void);
void unlock(void);
/* Counts one check and prints it when it failed. */
void conclude(const check *c, const char *where);
/* A command; the caller frees the reply. */
redisReply *redis_command(const char *format, ...);
/* The names of all keys but those of nodes and of remembered pushes, sorted, compared with a list of texts. */
void compare_keys(check *c, const value *wanted);

typedef struct queue {
    seriatim_text label, name;
    const value *settings;
    int raw;
} queue;

#define KEPT_HANDLES 8

/* The handles that a push has answered. */
typedef struct kept_handles {
    seriatim_text name, *list;
    size_t count;
} kept_handles;

#define KEPT_DELIVERIES 32

/* The token of what a pop gave. */
typedef struct kept_delivery {
    seriatim_text name, token;
} kept_delivery;

#define KEPT_TOKENS 16

/* The token that the last reserve of a two-phase commit set gave to an object. */
typedef struct kept_token {
    seriatim_text object, set;
    int64_t token;
} kept_token;

typedef struct scenario {
    const char *where; /* file: name */
    double start;      /* T */
    seriatim_text ns;
    seriatim_link *link;
    queue queues[QUEUES];
    size_t queue_count;
    kept_handles kept[KEPT_HANDLES];
    size_t kept_count;
    kept_delivery deliveries[KEPT_DELIVERIES];
    size_t delivery_count;
    kept_token tokens[KEPT_TOKENS];
    size_t token_count;
    size_t popped_numbers[QUEUES]; /* of the queues, in the link, as the last pop asked for them */
} scenario;

/* From the settings of a worker, borrowed. */
void queue_init(queue *q, seriatim_text label, const value *settings);
void queue_core_settings(const queue *q, seriatim_queue_settings *settings);
queue *scenario_queue(scenario *s, const value *label);
/* A new connection to the namespace. */
void scenario_connect(scenario *s, seriatim_text ns);
/* The queue's number in the link; a negative status, and the client's error, when its settings are refused. */
int scenario_number(scenario *s, const queue *q, size_t *number);
/* Drives what was begun; `begun` is what the begin said. */
int scenario_drive(scenario *s, int begun);

void scenario_run(const char *file, const value *scenario);
void steps_run(scenario *s, const value *list, const char *where);
/* The step run (run.c). Called without the lock. */
void step_run(scenario *s, const value *step, const char *where, check *c);
/* Is the status, and are the parts of its message, those of `error`? error NULL: it must be OK. */
void check_outcome(check *c, const value *error, int status, const char *message);
/* The steps push and pipeline (push.c). A status of the client. */
int do_push(scenario *s, queue *q, const value *step, check *c);
int do_pipeline(scenario *s, queue *q, const value *step, check *c);
/* A payload as it lies in Redis; payload NULL: the default one. */
seriatim_text payload_bytes(const value *payload, int raw);
/* Keeps the handles under a name; name NULL: it does not. */
void keep_handles(scenario *s, const value *name, const seriatim_text *list, size_t count);
/* The handle that the step names: one that was kept, or the text itself. */
seriatim_text handle_of(const scenario *s, const value *step);
/* The steps pop and popped (pull.c). A status of the client. */
int do_pop(scenario *s, queue *q, const value *step, check *c);
int do_popped(scenario *s, queue *q, const value *step, check *c);
/* The step ick (sets.c). A status of the client. */
int do_ick(scenario *s, queue *q, const value *step, check *c);

#endif

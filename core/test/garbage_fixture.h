/*
 * garbage_fixture.h - a shard of queue Q on a real Redis with something in every key, calls of scripts on it, and
 * whether an error has changed anything.
 */
#ifndef SRT_TEST_GARBAGE_FIXTURE_H
#define SRT_TEST_GARBAGE_FIXTURE_H

#include <hiredis/hiredis.h>

#include "garbage_calls.h"

#define GARBAGE_PREFIX "seriatim:{Q/0}:"
#define GARBAGE_KEYS 8

typedef struct garbage_arguments {
    char *data[MAX_ARGS];
    size_t lens[MAX_ARGS], count;
} garbage_arguments;

extern int garbage_broken; /* errors that changed something */

int garbage_start(void **state);
int garbage_stop(void **state);
void garbage_set(garbage_arguments *a, size_t i, const char *data, size_t len);
void garbage_free(garbage_arguments *a);
/* kind: as in `calls`. */
int garbage_is_of_shard(char kind);
/* The keys that a script declares. Returns their number. */
size_t garbage_keys(char kind, const char *keys[GARBAGE_KEYS]);
redisReply *garbage_call(const char *name, char kind, const garbage_arguments *a);
/* Brings all keys back as they were. key: the only one that was changed since by other means than calls, or NULL. */
void garbage_restore(const char *key);
/* The arguments of one of `calls`; garbage_free frees them. */
void garbage_plausible(garbage_arguments *a, const struct call *c);
/*
 * Calls; an error must not have changed anything. what: how the keys are, for the message that says what has. Returns
 * whether it was an error.
 */
int garbage_refuses_cleanly(const struct call *c, const garbage_arguments *a, const char *what);

#endif

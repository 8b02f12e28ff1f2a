/*
 * run_checks.h - what must hold of the runs of some ids: each payload runs once and in order, an id runs once at a
 * time, and its fences rise. For one thread; the ids are "id-0", "id-1", ..., and a payload is "1.17": the 17th of
 * client 1.
 */
#ifndef SRT_TEST_RUN_CHECKS_H
#define SRT_TEST_RUN_CHECKS_H

#include "seriatim.h"

#define CHECKED_IDS 16
#define CHECKED_CLIENTS 2

/* Forgets all. */
void checks_begin(void);
/* The number of the next payload of this client for this id, which is being pushed. */
int checks_next_payload(int id, int client);
void checks_begin_run(const seriatim_claimed *job);
void checks_end_run(const seriatim_claimed *job);
/* The number of payloads that were pushed and have not run. */
int checks_left(void);
unsigned checks_runs(void);
/* Only the first violation is kept. */
#ifdef __GNUC__
__attribute__((format(printf, 1, 2)))
#endif
void checks_violated(const char *format, ...);
/* "": there is none. */
const char *checks_violation(void);

#endif

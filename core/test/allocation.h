/*
 * allocation.h - what the programs test_allocation*.c share: an allocator whose n-th call fails, and a scenario that
 * is tried with each n.
 */
#ifndef SRT_TEST_ALLOCATION_H
#define SRT_TEST_ALLOCATION_H

#include "seriatim.h"

#define MOST 3000 /* allocations of one scenario */

/* Fails the call that fail_each wants to fail, and counts the bytes that live. Threads may share it. */
extern const seriatim_allocator failing_allocator;
/* Of the queue "Q", with 2 shards. */
seriatim_queue_settings settings_of_queue(void);
/* Begins and sends a push of 30 jobs on 9 ids. */
int push_thirty(seriatim_client *c, size_t queue);
/* Until the operation of the link has ended; its status. */
int drive_failing(seriatim_link *link);
/* Pushes to the queue "Q", without failures: something to look at. */
void fill_queue(void);
/*
 * Runs scenario(number), which ends with OK or NOMEM, with the n-th allocation failing: for every n up to the number
 * that a whole scenario needs; beyond `dense` only some. `what` names it in failures.
 */
void fail_each_allocation(const char *what, int (*scenario)(int), int number, size_t dense);

#endif

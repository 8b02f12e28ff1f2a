/* journal.h - the lines of kit/journal.rb, written by the kit's C programs. */
#ifndef CRASH_JOURNAL_H
#define CRASH_JOURNAL_H

#include "seriatim.h"

/* Opens the file that JOURNAL names. 0 or -1. */
int journal_open(void);
void journal_start(const char *queue, const seriatim_claimed *job);
/* kind: "end", "fail" or "snooze"; of a popper also "reported" or "refused". Of the job it reads the id and the fence.
 */
void journal_end(const char *kind, const char *queue, const seriatim_claimed *job);
/* kind: "task", "did" or "confirmed"; of one payload. */
void journal_task(const char *kind, const char *queue, const seriatim_claimed *job, const seriatim_payload *payload);
/* The runs of this process are those of a popper, which have this time to run, in seconds. */
void journal_popper(double ttr);
void journal_pushed(const char *queue, const char *id, long number);

/* What follows the word in these bytes, or NULL. */
const char *journal_find(const char *data, size_t len, const char *word);

#endif

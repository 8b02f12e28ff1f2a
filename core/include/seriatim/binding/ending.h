/*
 * seriatim/binding/ending.h - what ends a process at a signal: which TERM and INT count, and the line that says what
 * was left unfinished.
 */
#ifndef SERIATIM_BINDING_ENDING_H
#define SERIATIM_BINDING_ENDING_H

#include "seriatim.h"

#define SRT_ENDING_LINE 1000 /* bytes */

/* One a process, because handlers of signals belong to the process. Zeroed: every TERM and INT ends the process. */
typedef struct srt_ending {
    int allowed;     /* the number of TERM and INT that are only passed on; one more ends the process */
    int seen;        /* how many came */
    int64_t term_ms; /* when the latest TERM that counted came; 0: none did */
    /* What a runner had in hand, twice: a handler may read one of them while the other is written. */
    int shown; /* from 1, so that 0 says that nothing was noted */
    size_t lens[2];
    char lines[2][SRT_ENDING_LINE];
} srt_ending;

/* Counts from zero again, and forgets what was noted. */
void srt_ending_begin(srt_ending *ending, int allowed);
/* Notes what the runner's threads have in hand. By one thread, and not in a handler: it takes the runner's lock. */
void srt_ending_note(srt_ending *ending, seriatim_runner *runner);
/*
 * In a handler, of each TERM and INT: is the process to end now? A second TERM within a second is the first one's,
 * because service managers send it to a group and to each process of it; INT (Ctrl-C) twice is meant.
 */
int srt_ending_counts(srt_ending *ending, int number);
/* In a handler, before _exit: writes to standard error that the process ends at once, and what was noted. */
void srt_ending_tell(const srt_ending *ending);

/*
 * Writes to standard error in a handler: as much as it takes at once, because a pipe that nobody reads must not keep a
 * process from ending. The text ends with its newline.
 */
void srt_ending_write(const char *text, size_t len);

#endif

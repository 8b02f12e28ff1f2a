/* progress.h - one line on a terminal that says how far an operation is. */
#ifndef SRT_PROGRESS_H
#define SRT_PROGRESS_H

#include "client/client.h"

#define SRT_PROGRESS_WHAT 200 /* bytes of the words in front, with their NUL */
#define SRT_PROGRESS_LINE 400 /* bytes of a line, with its NUL */

typedef struct srt_progress {
    int on; /* the operation under way, or the next one that counts, is shown */
    int fd; /* the terminal */
    char what[SRT_PROGRESS_WHAT];
    int64_t total;    /* of the unit that is counted first; -1: not known */
    const char *unit; /* that is counted now; NULL: nothing was counted yet */
    int64_t began_ms; /* when this unit was counted first */
    int64_t drawn_ms; /* stays from one operation to the next, so that many short ones do not draw
                         more often either */
    size_t width;     /* bytes of the line that stands on the terminal; 0: none does */
} srt_progress;

/* 1: it will be shown. 0: fd is no terminal, and nothing is written to it. what: shown as
 * seriatim_printable gives it, at most 199 bytes. */
int srt_progress_begin(srt_progress *p, int fd, const char *what, size_t len, int64_t total);
/* Draws the line anew unless the last one is younger than a tenth of a second. Errors of the
 * terminal are ignored. */
void srt_progress_show(srt_progress *p, const srt_done *done, int64_t now_ms);
/* Erases the line; nothing more is shown. */
void srt_progress_end(srt_progress *p);

/*
 * "check Orders: 1200 of 5000 records (24%), 400/s, 0:09 left", NUL-terminated, into
 * SRT_PROGRESS_LINE bytes; returns its length. A total that is not known, or less than what was
 * done, is left out with what follows from it; the rate, too, in the first 0.2 s.
 */
size_t srt_progress_text(char *line, const char *what, const srt_done *done, int64_t total, int64_t elapsed_ms);

#endif

/* scan.h - reads ids of one queue for a bounded time. A cursor says where the next request goes on. */
#ifndef SRT_WEB_SCAN_H
#define SRT_WEB_SCAN_H

#include "web/web.h"

/* DUE: by the time of a retry or of a claim; ERRORS: their first lines; WHOLE: all of an error */
enum { SRT_SCAN_IDS, SRT_SCAN_DUE, SRT_SCAN_HOT, SRT_SCAN_ERRORS, SRT_SCAN_WHOLE };

/* A place of a reading: all positions before this one were read, and of this one what lies before the cursor. */
typedef struct srt_web_place {
    unsigned position; /* a stage of a shard */
    char cursor[24];   /* of HSCAN */
} srt_web_place;

typedef struct srt_web_scan srt_web_scan;
struct srt_web_scan {
    int what;
    const char *stages[2]; /* parts of browse.lua, one after another in each shard */
    unsigned stage_count;
    int64_t slice; /* ids of a call */
    int64_t most;  /* ids that a sample reads */
    seriatim_text prefix, from;
    /* Of ERRORS without `take`: which of them are kept; `error` is for this function. */
    int (*matches)(seriatim_text error, const srt_token *line);
    seriatim_text error;
    int by_id;       /* of these: in the order of ids, not of times */
    srt_range range; /* of the numbers: times of DUE and ERRORS */
    int has_after;   /* what lies before `end` was read before, and shown up to `after` */
    srt_target after;
    int reverse;
    size_t limit;
    /* Instead of keeping ids; NOMEM. May set `full`: this slice is to be read again; or `enough`: no slice behind it.
     */
    int (*take)(srt_web *w, srt_web_scan *scan, const srt_token *id, int64_t number, const srt_token *text);
    int full, enough;
    /*
     * Of an action on what is found: the cursor begins with GENERATION.BOUND. While ids move all is read twice, and
     * anew if the queue got another layout since.
     */
    int acts;
    int64_t generation; /* of the layout whose shards are read */
    int64_t bound;      /* when the action began, in microseconds by Redis */
    int bounds;         /* the numbers are times, and what has a later one than the bound is left out */
    void *groups;       /* of take */
    void *kept;         /* in its place from the start, then: zeroed when the reading begins */
    size_t kept_size;

    srt_web_place place, asked; /* where it reads, and where it began */
    srt_web_place end;          /* with has_after: where it is to end; then where it ended, not behind that */
    int spread; /* without a cursor: read some ids of every shard, others in each look, not the first shards */
    int sample; /* the answer: `spread` was asked for, and some ids were not read */

    int64_t total, looked, seen, now_us;
    int complete;
    srt_target *items; /* in order: by key, then id */
    size_t count;
    seriatim_text next; /* the cursor; data NULL at the end */
};

/* In w->found; NULL: no memory. */
srt_web_scan *srt_web_scan_new(srt_web *w, int what);
/* The same for a sample of ids from all shards: those in `stage`, then those behind runs. */
srt_web_scan *srt_web_scan_sample(srt_web *w, int what, const char *stage);
/* A handler's `next` for it: reads the parameter "cursor" in the first step, then finds the queue and begins. */
int srt_web_sample_ids(seriatim_client *c, srt_web *w);
/*
 * Sets `next`: a reading from there on; with `last`, the page behind this id among what lies between there and `end`.
 * OK or NOMEM.
 */
int srt_web_scan_next(srt_web *w, srt_web_scan *scan, const srt_web_place *from, int64_t seen, const srt_target *last);
/* Less than 0: HSCAN comes to `a` first; 0: they are the same. */
int srt_web_place_compare(const srt_web_place *a, const srt_web_place *b);
/* Where to go on; without a cursor at the beginning, as in a new scan. A given cursor ends `spread`. OK; SRT_WEB_DONE:
 * that was no cursor, and is refused; NOMEM. */
int srt_web_scan_cursor(srt_web *w, srt_web_scan *scan, seriatim_text cursor);
/* The same for pages of an index: a key and an id as hex digits. extra: bytes in front of the id, of an arrival. */
void srt_web_cursor_of(srt_bytes *out, int64_t key, const char *id, size_t len);
int srt_web_cursor_read(srt_web *w, seriatim_text cursor, size_t extra, srt_target *after);
int srt_web_scan_begin(seriatim_client *c, srt_web *w);
/*
 * After a scan with `take`: of scan->items, which the caller has filled, keeps those that the page wants, in its order
 * and up to its limit, and sets the cursor, as a scan without `take` does. OK or NOMEM.
 */
int srt_web_scan_choose(srt_web *w, srt_web_scan *scan);
/* errors.c: whether the error belongs to the group with this fingerprint. */
int srt_web_error_is(seriatim_text fingerprint, const srt_token *line);
/* errors.c: the scan, of WHOLE with `error`, keeps errors; behind it srt_web_errors_choose finds those of the group. */
void srt_web_errors_hold(srt_web_scan *scan);
/* SRT_WEB_LOADS: it must be called again by the answer. DONE: scan->items and the cursor are set, or w->status; NOMEM.
 */
int srt_web_errors_choose(srt_web *w);
/* Members "cursor", "of" and "seen" of an answer. */
void srt_web_write_seen(const srt_web_scan *scan, srt_web_out *out);
/* Member "sample", then those of srt_web_write_seen. */
void srt_web_write_sample(const srt_web_scan *scan, srt_web_out *out);

#endif

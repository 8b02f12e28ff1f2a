/*
 * seriatim/binding/fake.h - queues in memory, for the test modes of a binding: no Redis is asked.
 *
 * A fake keeps what a client pushes, by the same rules as the scripts in Redis: fold modes, order, due times,
 * on_waiting, handles, retries, morgue. Not there: ttr, pause, serial_shards, the marks of processes that died.
 *
 * `queue` is the number that seriatim_client_queue gave; the settings of that queue are those of the worker. `now` is
 * Unix time in microseconds and is the caller's choice: a test may let hours pass at once. A function that fails leaves
 * its text in seriatim_client_error. All of it by one thread at a time.
 */
#ifndef SERIATIM_BINDING_FAKE_H
#define SERIATIM_BINDING_FAKE_H

#include "seriatim.h"

typedef struct srt_fake srt_fake;

/* The client is borrowed until the fake is freed, and needs no connection. NULL: out of memory. */
srt_fake *srt_fake_new(seriatim_client *client);
void srt_fake_free(srt_fake *fake);

/*
 * Ends a push that was begun, in place of seriatim_push_send. Then seriatim_push_result, _refused and _handles say what
 * they would say of Redis. OK; INVALID: no push was begun, or a job was refused; NOMEM: some of the jobs may be kept.
 */
int srt_fake_push(srt_fake *fake, int64_t now);

/* As the actions of this name; *changed: 1 or 0. at: decimal text, Unix seconds. OK, INVALID or NOMEM. */
int srt_fake_cancel(srt_fake *fake, size_t queue, seriatim_text handle, int *changed);
int srt_fake_reschedule(srt_fake *fake, size_t queue, seriatim_text handle, seriatim_text at, int64_t now,
                        int *changed);

/*
 * *at: when the next id of the queue is due, or its next scheduled payload arrives; for an id that is ready, at most
 * `now`: of several pushes in the same microsecond, the later ones arrive after it. Returns 0 if no such time exists.
 */
int srt_fake_next(const srt_fake *fake, size_t queue, int64_t now, int64_t *at);

/*
 * Claims up to `limit` ids of one shard that are due at `now`, as a server does. *count: how many; 0: nothing is due.
 * *shard: theirs. OK or NOMEM.
 */
int srt_fake_take(srt_fake *fake, size_t queue, size_t limit, int64_t now, unsigned *shard, size_t *count);
/*
 * Takes what retries_exhausted of the worker is to be told next, where the queue has that hook: *count is 1, or 0. OK
 * or NOMEM.
 */
int srt_fake_take_exhausted(srt_fake *fake, size_t queue, size_t *count);
/* The i-th id of the last take. Borrowed until the next call with this fake. */
const seriatim_claimed *srt_fake_taken(const srt_fake *fake, size_t i);

typedef enum srt_fake_kind {
    SRT_FAKE_DONE,
    SRT_FAKE_FAIL,    /* text: the error; seconds until the next run */
    SRT_FAKE_RELEASE, /* hands the id back as it was */
    SRT_FAKE_SNOOZE, /* seconds until the next run; text: what the first payload that is left becomes; NULL: it stays */
    /* text: the reason; places: of the payloads that cannot be read, ascending. They die; the id is due without them.
     */
    SRT_FAKE_REJECT,
    SRT_FAKE_CHECKPOINT /* the first `count` payloads are done, and the run goes on */
} srt_fake_kind;

typedef struct srt_fake_outcome {
    int kind;
    seriatim_text id, text;
    int64_t fence; /* of the run */
    double seconds;
    const size_t *places; /* of REJECT: `count` of them */
    size_t count;
} srt_fake_outcome;

/*
 * Reports the outcome of a run. OK; STALE: the id does not run under this fence; INVALID: the run has fewer payloads;
 * NOMEM.
 */
int srt_fake_settle(srt_fake *fake, size_t queue, const srt_fake_outcome *outcome, int64_t now);

typedef enum srt_fake_state {
    SRT_FAKE_WAITING, /* also those that wait for a retry, or behind a run */
    SRT_FAKE_RUNNING,
    SRT_FAKE_SCHEDULED, /* `time` is its deliver_at */
    SRT_FAKE_PARKED,
    SRT_FAKE_DEAD
} srt_fake_state;

/* One payload of a queue. */
typedef struct srt_fake_row {
    int state; /* a srt_fake_state */
    seriatim_text id, error;
    seriatim_payload payload;
    int64_t time; /* Unix microseconds at which its id is due; dead: when it died */
    int64_t retry_count;
} srt_fake_row;

/* All payloads, dead ones too, by time. Borrowed until the next call with this fake. OK or NOMEM. */
int srt_fake_list(srt_fake *fake, size_t queue, const srt_fake_row **rows, size_t *count);

/* Forgets everything of the queue. The outcomes of runs are STALE then. */
void srt_fake_clear(srt_fake *fake, size_t queue);

#endif

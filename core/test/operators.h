/* operators.h - a queue on a real Redis, what a node and an operator do with it, and what is stored then. */
#ifndef SRT_TEST_OPERATORS_H
#define SRT_TEST_OPERATORS_H

#include <hiredis/hiredis.h>

#include "client/client.h"
#include "client/operator.h"
#include "server.h"

#define PREFIX "seriatim:{Q/0}:"

typedef struct fixture {
    seriatim_link *link;
    seriatim_client *client;
    size_t queue;
    char lease[32], seen[32];
    int settles;
    const char *history; /* history_per_id, as claims say it; NULL: 0 */
} fixture;

typedef struct push_options {
    double delay, score;
    int64_t retry_count; /* 0: none, else one more */
    const char *context;
} push_options;

#define LARGE 5000

extern const push_options none;

long long count_of(const char *command, const char *key);
/*
 * Runs a script on shard 0 of queue Q; more arguments follow the generation, NULL ends them; then come `tail_len`
 * bytes, if any.
 */
redisReply *script(const char *text, size_t len, const char *tail, size_t tail_len, ...);
size_t add_queue(seriatim_client *c, const char *name, size_t len, int64_t shards, const char *fold);
fixture open_queue(int64_t shards, const char *fold);
int drive(seriatim_link *link);
void done(const fixture *f, int begun);
void add(const fixture *f, const char *id, size_t len, const char *payload, push_options options);
void push(const fixture *f, const char *id, const char *payload, push_options options);
/* A failed id: a push with a retry_count. */
void push_failed(const fixture *f, const char *id, const char *payload, int64_t retry_count, double delay);
void push_later(const fixture *f, const char *id, const char *payload, double delay);
void push_many(const fixture *f, const char *id, int from, int count);
/* Ids i0, i1, ..., from the one with this number, with payload "x", in one push. */
void push_new_ids(const fixture *f, int from, int count, push_options options);
/* To a push that has begun: a payload that is delivered in this many seconds. */
void add_scheduled(const fixture *f, const char *id, const char *payload, size_t len, double seconds);
void schedule_one(const fixture *f, const char *id, const char *payload, double seconds);
/* A node takes the shard that nobody else has, as it does that has asked who has it. knows_all: "1": its runs end
 * through it alone. The caller frees the reply. */
redisReply *acquire_seen(const char *node, const char *knows_all);
void acquire(fixture *f, const char *node);
/* A slice of what an acquire or a settle left. Returns 0 when nothing is left. */
int recover_slice(fixture *f, char cursor[24]);
/* Returns how many calls it took. */
int recover_all(fixture *f);
/* After n1: as its heir, or of a shard whose state was lost. Returns 1 for an heir, who is to recover its runs. */
int take_from_dead(fixture *f, const char *node);
/* The same, and recovers them. */
void take_over(fixture *f, const char *node);
/* Claims up to `limit` ids; the run of the first is written to `run`. Returns their number. */
size_t claim(fixture *f, const char *limit, char run[64]);
void settle_done(fixture *f, const char *id, const char *run);
void settle_failed(fixture *f, const char *id, const char *run, const char *limit, const char *action);
seriatim_text text(const char *word);
int64_t act(const fixture *f, int kind);
int64_t act_on(const fixture *f, int kind, const char *id);
/* kind: SERIATIM_DROP_PAYLOAD or SERIATIM_MORGUE_DROP_PAYLOAD. */
int64_t drop(const fixture *f, int kind, const char *id, const char *payload);
/* The ids of a range, joined by spaces. */
const char *range(const fixture *f, int kind, int reverse, const char *min, const char *max, int64_t limit);
/* One id's record, or NULL. */
const seriatim_record *fetch(const fixture *f, int kind, const char *id);
/* An id's payloads, joined by commas; "-" when it is unknown. */
const char *payloads(const fixture *f, int kind, const char *id);
seriatim_metrics metrics(const fixture *f);
size_t findings(const fixture *f, int repair);
void close_queue(fixture *f);
/* A queue that Redis does not know, and that is not made by looking. */
/* There is no queue: pause and resume say so, since the first push would make it, not paused. */
void refuses_to_pause(const fixture *f, seriatim_action_kind kind);
void fill(fixture *f);
/* Fails what waits of an id. */
void fail_all(fixture *f, const char *id);
void kill_one(const fixture *f, const char *id, const char *payload);
/* What check finds: "kind kind ...", each once, in the order of appearance. */
const char *kinds_found(const fixture *f, size_t queue, int repair);
const seriatim_explanation *explain(const fixture *f, const char *id);
/* The events of its history, joined by spaces. */
const char *events_of(const fixture *f, const char *id);
/* The names of all queues, joined by spaces. */
const char *queues(const fixture *f);
long long number(const char *command);
const char *large(char letter);
/*
 * Another process that uses the queue, with settings of its own. shards 0: it knows none, like the command and the
 * dashboard.
 */
fixture another(int64_t shards, const char *fold);

/* Runs script NAME on shard 0 of queue Q. Define SRT_SCRIPT_TEXTS before this header. */
#define SCRIPT_BYTES(name, tail, len, ...)                                                                             \
    script(srt_script_text_##name, sizeof srt_script_text_##name - 1, tail, len, __VA_ARGS__, NULL)
#define SCRIPT(name, ...) SCRIPT_BYTES(name, NULL, 0, __VA_ARGS__)

#endif

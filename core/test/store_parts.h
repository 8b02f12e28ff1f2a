/* store_parts.h - what the files of the model of Redis (store*.c) use of each other. */
#ifndef SRT_TEST_STORE_PARTS_H
#define SRT_TEST_STORE_PARTS_H

#include "store.h"

#define FOREVER INT64_C(9000000000000000)

typedef struct store_arg {
    const char *data;
    size_t len;
} store_arg;

/* ---- store.c --------------------------------------------------------------------------------- */

/* The next tick of the shard: the time of Redis in microseconds, but always rising. */
int64_t store_advance(const store *s, store_shard *sh);
void store_add_payload(store_record *r, int number, int64_t stamp);
/* Puts what waits of an id where a claim finds it: ready, due, in doubt. */
void store_place(store *s, store_id *id);
/* The run is over, and its payloads wait again. */
void store_put_back(store *s, store_id *id);
/* The run is over, without payloads of it that come again. */
void store_finish(store *s, store_id *id);

/* ---- store_pushes.c -------------------------------------------------------------------------- */

/* Claims for the owner what was pushed just now, as the first of its id. Returns 0 if the push is one as any other. */
int store_hand_over(store *s, store_id *id, int64_t stamp);

/* ---- store_answers.c ------------------------------------------------------------------------- */

/* Write one value of an answer, as RESP. */
void store_say_int(store_conn *c, int64_t value);
void store_say_text(store_conn *c, const char *text);
void store_say_line(store_conn *c, const char *line);
/* Returns how many connections are subscribed. */
int store_publish(store *s, const char *channel, const char *text, size_t len);
void store_tell_owner(store *s, const store_shard *sh, const char *mark);
void store_wake_owner(store *s, store_shard *sh, int64_t time);
/* The owner's channel. */
void store_wake_channel(const store_shard *sh, char *channel, size_t cap);
/* Pack what a claim answers, as core/scripts/lib/record.lua does. */
void store_pack_little(srt_bytes *out, uint64_t value, size_t bytes);
void store_pack_double(srt_bytes *out, double value);
/* Ids of the second queue, which remembers scores, are pushed with scores: these ascend as the numbers do. */
int store_is_scored(const store *s, const store_id *id);
double store_score_of(const store_record *r, int i);
void store_pack_entry(srt_bytes *out, const store_record *r, int i, int scored);
void store_pack_record(srt_bytes *out, const store_record *r, int scored);
/* Read an argument of a script. */
int64_t store_number_of(store_arg arg);
int store_arg_is(store_arg arg, const char *text);
void store_arg_copy(char *to, size_t cap, store_arg arg);
int store_run_is(const store_id *id, store_arg run);
/* The ids, and their records, as MessagePack arrays. */
void store_say_texts(store_conn *c, store_id **ids, size_t count);

/* ---- store_checks.c -------------------------------------------------------------------------- */

/* A settle is accepted: it must be that of the run that is open, and a thread must have had it. */
void store_check_settle(store *s, const store_id *id, int64_t fence, int run);
/* The first payloads are done: they must be those that are next. */
void store_check_in_order(store *s, store_id *id, int count);
void store_check_done(store *s, store_id *id);
/* Of a run that is done without a score. */
void store_check_plain(store *s, const store_id *id);

/* ---- store_members.c ------------------------------------------------------------------------- */

/* store_do_*: each does what the script of that name does, and writes its answer. */
void store_do_layout(store_conn *c, store_arg key, store_arg wanted);
size_t store_find_member(const store *s, const char *name);
void store_do_beat(store_conn *c, const store_arg *argv);
int store_is_unfinished(const store *s, const store_shard *sh);
/* ARGV: generation, node, fold, owner, lease, known runs... */
void store_do_acquire(store_conn *c, store_shard *sh, const store_arg *argv, size_t argc);
/* ARGV: generation, lease, fold, cursor */
void store_do_recover(store_conn *c, store_shard *sh, const store_arg *argv);
void store_do_release(store_conn *c, store_shard *sh, const store_arg *argv);

/* ---- store_claims.c -------------------------------------------------------------------------- */

/* The next id of a shard in a place; ready ones by rank, others by due time. */
store_id *store_first_in(store *s, const store_shard *sh, int where, int mark);
int64_t store_due_of(const store_id *id);
/* Ids that claims hold together, which are noted nowhere else. */
size_t store_held(const store *s, const store_shard *sh);
void store_void_overrun(store *s, store_shard *sh);
/* ARGV: generation, lease, seen, limit, doubt, ttr, fold */
void store_do_claim(store_conn *c, store_shard *sh, const store_arg *argv);
/* The first payload of an id goes to the morgue: the owner's hook is to be told. */
void store_add_notice(store *s, store_id *id, int payload);
/* ARGV: generation, node, lease, number seen, limit, living nodes */
void store_do_tell(store_conn *c, store_shard *sh, const store_arg *argv, size_t argc);
/* ARGV: generation, node, numbers */
void store_do_told(store_conn *c, store_shard *sh, const store_arg *argv, size_t argc);
/* ARGV: generation, id, run, from */
void store_do_slice(store_conn *c, const store_shard *sh, const store_arg *argv);

/* ---- store_settle.c -------------------------------------------------------------------------- */

void store_settle_fail(store *s, store_id *id, int64_t time, int64_t limit, int *exhausted);
/*
 * ARGV: generation, lease, sequence, fold, groups, then run, count and ids each (or the count below zero of a whole
 * claim); then seven each: kind, id, run, time, text, limit, action
 */
void store_do_settle(store_conn *c, store_shard *sh, const store_arg *argv, size_t argc);

#endif

/* reshard_fixture.h - a queue on a real Redis whose ids move from shard to shard: the scripts of a move, called one by
 * one. */
#ifndef SRT_TEST_RESHARD_FIXTURE_H
#define SRT_TEST_RESHARD_FIXTURE_H

#include "operators.h"

#define CALL_ARGS 1300

/* A script call on one shard of queue Q. */
typedef struct shard_call {
    const char *argv[CALL_ARGS];
    size_t lens[CALL_ARGS], count;
    char keys[6][64];
} shard_call;

/* A move of queue Q. generation: that of the layout, as text. */
typedef struct move {
    unsigned old, shards;
    char layout[64], generation[32];
    size_t kills, until; /* the mover stops for good before its call number `until`, if that is not 0; `kills` counts */
} move;

/* generation NULL: the script takes none (turn). The texts must live until the call. */
void call_begin(shard_call *call, unsigned shard, const char *script, size_t len, const char *generation);
void call_text(shard_call *call, const char *text);
void call_bytes(shard_call *call, const char *data, size_t len);
/* The answer; an error reply fails the test, unless may_fail. */
redisReply *call_send(shard_call *call, int may_fail);
#define CALL(call, shard, name, generation)                                                                            \
    call_begin(call, shard, srt_script_text_##name, sizeof srt_script_text_##name - 1, generation)
/* Sends a call of texts alone; NULL ends them. */
redisReply *shard_script(unsigned shard, const char *script, size_t len, const char *generation, ...);
#define ON_SHARD(shard, name, ...)                                                                                     \
    shard_script(shard, srt_script_text_##name, sizeof srt_script_text_##name - 1, __VA_ARGS__, NULL)

/* An id that begins with name and number, and lies in shard 0 of 1 and in shard 1 of 2. Returns id. */
const char *departing_id(char id[32], const char *name, int number);
/* Turns a shard to this layout. Returns the first word of the answer, which the next call replaces. */
const char *turn_shard(unsigned shard, const char *layout);
/* Replaces the layout and turns all shards. shards: the new number. */
void move_begin(move *m, unsigned shards);
/* One pass over a source: lists, departs and brings what can be taken. Returns how many ids have left. */
size_t move_source(move *m, unsigned source);
/* Opens a batch of these ids, separated by spaces, with no notices. The caller frees the answer. */
redisReply *depart(const move *m, unsigned source, const char *ids);
/* Brings the batch of an answer of depart to its destinations. 0: the mover was killed. */
int bring(move *m, unsigned source, redisReply *batch);
/* Moves all ids, closes and ends the move, and turns all shards. */
void move_all(move *m);
/* Ends a move of which all sources are out. */
void move_end(move *m);
/* All that is stored of an id in a shard, as text; the caller frees it. */
char *stored(unsigned shard, const char *id);
/* The same of the shard of `count` in which it lies. */
char *stored_of(const char *id, unsigned count);
int is_stored(unsigned shard, const char *id);

#endif

/* move_fixture.h - layouts of queue Q, and nodes that are stepped while ids move. */
#ifndef SRT_TEST_MOVE_FIXTURE_H
#define SRT_TEST_MOVE_FIXTURE_H

#include "live_node.h"

/* Writes the layout of queue Q: a new generation, and these words behind it. */
void write_layout_words(const char *words);
/* Only the layout is written, as by a command that dies then: the shards are of the layout before. */
void write_layout(unsigned shards, unsigned old, unsigned most);
/* The same of a layout in which no ids move. */
void write_quiet(unsigned shards);
/* An id that lies in shard 0 of 3, and in another one of 5; the same each time. */
const char *leaving_id(void);
void steps_for(live_node *nodes, size_t count, int64_t ms);

#endif

/* turns.h - whose turn it is among queues that are popped with weights. */
#ifndef SRT_TURNS_H
#define SRT_TURNS_H

#include "model/registry.h"

/* What is remembered of a queue, by its name. It lives as long as the turns. */
typedef struct srt_turn srt_turn;

/* Finds the turn of a queue, or adds one. NULL: out of memory. */
srt_turn *srt_turns_find(seriatim_turns *turns, const srt_queue *queue);
/*
 * Puts the queues in the order in which they are to be asked: the one that has gathered most, with its weight for this
 * turn, comes first. of[i] is the turn of queues[i]; all three arrays are permuted alike.
 */
void srt_turns_sort(seriatim_turns *turns, size_t *queues, srt_turn **of, int64_t *weights, size_t count);
/* The queue at `taken` of this order gave an id, those before it were empty: smooth weighted round robin. */
void srt_turns_take(seriatim_turns *turns, srt_turn *const *of, const int64_t *weights, size_t count, size_t taken);

#endif

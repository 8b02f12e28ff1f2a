/* sim_parts.h - what sim.c and sim_rounds.c use of each other. */
#ifndef SRT_TEST_SIM_PARTS_H
#define SRT_TEST_SIM_PARTS_H

#include "sim.h"

/* ---- sim.c ----------------------------------------------------------------------------------- */

/* Our own clock: Redis' may jump. */
int64_t sim_wall_ms(const sim *s);
void sim_node_born(sim *s, sim_node *n);
/* The process is gone, whatever it did. */
void sim_node_gone(sim *s, sim_node *n, int64_t back_in);
void sim_node_crash(sim *s, sim_node *n);

#endif

/* node_fixture.h - settings of a node and of the queue that it serves. */
#ifndef TEST_NODE_FIXTURE_H
#define TEST_NODE_FIXTURE_H

#include "seriatim.h"

/* Settings of a node with this id, a thread, a lease of 10 s and a look at Redis each second. */
seriatim_node_settings node_of_one_thread(const char *id);
/* Settings of the queue "Q", the default ones. */
seriatim_queue_settings queue_q(void);

#endif

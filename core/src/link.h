/* link.h - what a link shares with the rest of the core. */
#ifndef SRT_LINK_H
#define SRT_LINK_H

#include "status.h"

/* Bytes that no other process has: of a client's or a node's id. OK or IO. */
int srt_random(void *data, size_t len, seriatim_error *error);

#endif

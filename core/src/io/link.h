/* link.h - what a link shares with the rest of the core. */
#ifndef SRT_LINK_H
#define SRT_LINK_H

#include "seriatim.h"

/* Other limits than the usual 30 s without an answer (not of pushes) and 15 s of silence, for tests. */
void srt_link_set_limits(seriatim_link *link, int limit_ms, int silence_ms);

#endif

/* event.h - reads one event of an id's history as core/scripts/lib/events.lua packs it. */
#ifndef SRT_EVENT_H
#define SRT_EVENT_H

#include "base/bytes.h"
#include "model/stored.h"

/*
 * The error points into `data`; the other texts lie in the arena. What cannot be read is "unknown". SERIATIM_OK, or
 * SERIATIM_NOMEM.
 */
int srt_event_read(seriatim_history_entry *entry, srt_arena *arena, const char *data, size_t len);

#endif

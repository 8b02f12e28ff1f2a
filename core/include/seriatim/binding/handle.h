/* seriatim/binding/handle.h - the handle of a payload that is being run. */
#ifndef SERIATIM_BINDING_HANDLE_H
#define SERIATIM_BINDING_HANDLE_H

#include "seriatim.h"

/* How many bytes srt_claimed_handle writes. */
size_t srt_claimed_handle_size(seriatim_text queue, const seriatim_claimed *job);
/* Writes what the push of this payload answered: see seriatim_push_handles. queue: the name; `place` < payload_count.
 */
void srt_claimed_handle(seriatim_text queue, const seriatim_claimed *job, size_t place, char *out);

#endif

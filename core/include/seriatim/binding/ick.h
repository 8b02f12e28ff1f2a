/* seriatim/binding/ick.h - the calls of two-phase commit sets, by name. */
#ifndef SERIATIM_BINDING_ICK_H
#define SERIATIM_BINDING_ICK_H

#include "seriatim.h"

/*
 * Adds a call to the trip that seriatim_ick_begin has begun: "ickadd", "ickreserve", "ickcommit", "ickexchange",
 * "ickstats", "ickdel" or "import" (whose one member is the key of the gem's set). Arguments that a call does not take
 * are not read. Returns what the function of seriatim.h returns; INVALID for another name.
 */
int srt_ick_call(seriatim_client *client, const char *name, size_t len, const seriatim_ick *ick, int64_t max_size,
                 int backwash, const seriatim_ick_member *members, size_t count);
/* 1: a language with integers shows this score as one. */
int srt_ick_is_whole(double score);

#endif

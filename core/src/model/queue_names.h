/* queue_names.h - the names of all queues of a namespace, found by SCAN: the keys of their layouts tell them. */
#ifndef SRT_QUEUE_NAMES_H
#define SRT_QUEUE_NAMES_H

#include "wire/script.h"

/* In the order of SCAN, which may give one name twice. */
typedef struct srt_queue_names {
    srt_arena memory;
    seriatim_text *names;
    size_t count, cap;
} srt_queue_names;

void srt_queue_names_init(srt_queue_names *names, const seriatim_allocator *mem);
void srt_queue_names_free(srt_queue_names *names);
void srt_queue_names_clear(srt_queue_names *names);
/* A call of SCAN from this cursor on, "0" at first; it looks at some 4,000 keys. NULL: out of memory. */
srt_request *srt_queue_names_request(srt_session *session, const seriatim_allocator *mem, const char *ns,
                                     const char *cursor, size_t len);
/*
 * Adds the names of its answer, up to `most` in all; keys of other kinds are passed over. OK: reply->tokens[1] is the
 * next cursor, "0" at the end. PROTOCOL: that is no answer of SCAN. NOMEM.
 */
int srt_queue_names_take(srt_queue_names *names, const char *ns, const srt_reply *reply, size_t most);

#endif

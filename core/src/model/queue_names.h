/* queue_names.h - the names of all queues of a namespace, found by SCAN: the keys of their layouts tell them. */
#ifndef SRT_QUEUE_NAMES_H
#define SRT_QUEUE_NAMES_H

#include "wire/cluster.h"

/* Names in the order of SCAN, which may give one twice, and where SCAN goes on. */
typedef struct srt_queue_names {
    srt_arena memory;
    seriatim_text *names;
    size_t count, cap;
    size_t slices;   /* answers of SCAN that were taken */
    char cursor[24]; /* "0": at the beginning, or at the end if slices is not 0 */
    srt_scan scan;   /* over the masters */
} srt_queue_names;

void srt_queue_names_init(srt_queue_names *names, const seriatim_allocator *mem);
void srt_queue_names_free(srt_queue_names *names);
/* Back to the beginning. */
void srt_queue_names_clear(srt_queue_names *names);
/* A call of SCAN from the cursor on; it looks at some 4,000 keys. NULL: out of memory. */
srt_request *srt_queue_names_request(const srt_queue_names *names, srt_session *session, const char *ns);
/*
 * Adds the names of its answer, up to `most` in all, and takes over its cursor; keys of other kinds are passed over.
 * PROTOCOL: that is no answer of SCAN. NOMEM.
 */
int srt_queue_names_take(srt_queue_names *names, const char *ns, const srt_reply *reply, size_t most);
/*
 * Has the request go to the master that is asked now; a caller that has one Redis needs it not. To be called behind
 * each srt_queue_names_take as well: at the end of a master's keys the next one is turned to.
 */
void srt_queue_names_route(srt_queue_names *names, const srt_cluster *cluster, srt_request *r);
void srt_queue_names_turn(srt_queue_names *names, const srt_cluster *cluster);
/* 1: the last answer was that at the end of the keyspace, of the last master. */
int srt_queue_names_complete(const srt_queue_names *names);

#endif

/* seriatim/binding/private_redis.h - the Redis that Seriatim starts for itself when it is given no URL. */
#ifndef SERIATIM_BINDING_PRIVATE_REDIS_H
#define SERIATIM_BINDING_PRIVATE_REDIS_H

#include "seriatim.h"

/*
 * One redis-server (or valkey-server) for each data folder, on a Unix socket with its append-only
 * file on, shared by all processes that start it there and ended with the last of them, however
 * that one ends.
 *
 * Two flocks decide everything, and the kernel drops both with their process:
 *   users  shared by every process that uses Redis; its guard process waits for it exclusively,
 *          gets it when the last user is gone, and holds it until Redis is gone: a process that
 *          comes meanwhile waits, then starts anew.
 *   lock   exclusive, handed down to redis-server itself, which so holds it as long as it lives:
 *          a second one on the same folder cannot start.
 *
 * The guard is no child of the caller and in a session of its own; it holds no descriptor of the
 * caller's. A fork of a user counts as a user until it releases, execs or ends.
 */
typedef struct srt_private_redis srt_private_redis;

/*
 * Blocks until Redis answers PONG, at most some 45 s (15 for one that is stopping, 30 for its data
 * to load). The folder is made, mode 700, with its missing parents. UNSUPPORTED: no redis-server in
 * PATH. INVALID: the folder is unfit. IO: Redis died, with the end of folder/redis.log. TIMEOUT.
 */
int srt_private_redis_start(const seriatim_allocator *mem, const char *folder, seriatim_error *error,
                            srt_private_redis **out);
/* unix:///..., borrowed until release. */
const char *srt_private_redis_url(const srt_private_redis *p);
/* 1: this process started Redis; 0: it joined one that ran. */
int srt_private_redis_started(const srt_private_redis *p);
/* Ends this process' use. The last user waits until Redis is gone, at most 5 s. NULL is fine. */
void srt_private_redis_release(srt_private_redis *p);

#endif

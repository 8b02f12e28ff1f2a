/* server.h - a redis-server of a test program's own, on a Unix socket in a folder of its own. */
#ifndef SRT_TEST_SERVER_H
#define SRT_TEST_SERVER_H

#include <hiredis/hiredis.h>

#include "redis_process.h"

extern redis_process server;
extern redisContext *server_redis; /* it gives up a command after 20 s */

/* cmocka's set-up and tear-down: it runs and is connected; it has ended and its folder is gone. */
int start_server(void **state);
int stop_server(void **state);

/* A command by format; the caller frees the reply, which is no error: the test fails. */
redisReply *redis(const char *format, ...);
#define REDIS(...) freeReplyObject(redis(__VA_ARGS__))

/* Starts a replica of the server, and returns when it has all. The caller removes it. */
void start_replica(redis_process *replica);

void pause_ms(long ms);

#endif

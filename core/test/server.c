/* server.c - see server.h. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server.h"

#include <stdlib.h>
#include <time.h>

redis_process server;
redisContext *server_redis;

void pause_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* Redis takes over the collation of LC_ALL (script/test makes the locale); scripts must not depend on it. */
int start_server(void **state)
{
    static const char *const words[] = {"--enable-debug-command", "yes", NULL};
    struct timeval limit = {20, 0};
    int status;
    (void)state;
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    status = redis_make_folder(&server) == 0 ? redis_run(&server, words) : -1;
    unsetenv("LC_ALL");
    if (status != 0 || redis_wait(&server) != 0)
        return -1;
    server_redis = redisConnectUnix(server.socket);
    return server_redis && !server_redis->err ? redisSetTimeout(server_redis, limit) : -1;
}

int stop_server(void **state)
{
    (void)state;
    redisFree(server_redis);
    return redis_remove(&server);
}

redisReply *redis(const char *format, ...)
{
    redisReply *reply;
    va_list args;
    va_start(args, format);
    reply = redisvCommand(server_redis, format, args);
    va_end(args);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply ? reply->str : server_redis->errstr);
    return reply;
}

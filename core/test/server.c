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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "port.h"

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

static int has_online_replica(void)
{
    redisReply *reply = redis("ROLE");
    int has = reply->elements > 2 && reply->element[2]->elements > 0;
    freeReplyObject(reply);
    return has;
}

void start_replica(redis_process *replica)
{
    char port[16];
    const char *words[] = {"--port", "0", "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", port, NULL};
    int i;
    snprintf(port, sizeof port, "%d", free_port());
    REDIS("CONFIG SET port %s", port);
    REDIS("CONFIG SET repl-diskless-sync-delay 0");
    memset(replica, 0, sizeof *replica);
    assert_int_equal(redis_make_folder(replica), 0);
    assert_int_equal(redis_run(replica, words), 0);
    assert_int_equal(redis_wait(replica), 0);
    for (i = 0; i < 12000 && !has_online_replica(); i++)
        pause_ms(5);
    assert_true(has_online_replica());
}

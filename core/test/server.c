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

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct server server;

void pause_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

int start_server(void **state)
{
    struct timeval limit = {20, 0};
    int i;
    (void)state;
    strcpy(server.folder, "/tmp/seriatim-test-XXXXXX");
    if (!mkdtemp(server.folder))
        return -1;
    snprintf(server.socket, sizeof server.socket, "%s/s", server.folder);
    snprintf(server.url, sizeof server.url, "unix://%s", server.socket);
    server.pid = fork();
    if (server.pid == 0) {
        setenv("LC_ALL", "de_DE.UTF-8",
               1); /* Redis takes over the collation; scripts must not depend on it (script/test makes it) */
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", server.socket, "--dir", server.folder,
               "--save", "", "--enable-debug-command", "yes", "--logfile", "/dev/null", (char *)NULL);
        _exit(127);
    }
    for (i = 0; i < 1500; i++) {
        server.redis = redisConnectUnix(server.socket);
        if (server.redis && !server.redis->err)
            return redisSetTimeout(server.redis, limit);
        redisFree(server.redis);
        pause_ms(20);
    }
    return -1;
}

int stop_server(void **state)
{
    char command[128];
    (void)state;
    redisFree(server.redis);
    kill(server.pid, SIGKILL);
    waitpid(server.pid, NULL, 0);
    snprintf(command, sizeof command, "rm -rf '%s'", server.folder);
    return system(command);
}

redisReply *redis(const char *format, ...)
{
    redisReply *reply;
    va_list args;
    va_start(args, format);
    reply = redisvCommand(server.redis, format, args);
    va_end(args);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply ? reply->str : server.redis->errstr);
    return reply;
}

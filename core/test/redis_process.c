/* redis_process.c - see redis_process.h. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "redis_process.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "redis-server"
#define MOST_WORDS 32

int redis_make_folder(redis_process *p)
{
    memset(p, 0, sizeof *p);
    strcpy(p->folder, "/tmp/seriatim-test-XXXXXX");
    if (!mkdtemp(p->folder))
        return -1;
    snprintf(p->socket, sizeof p->socket, "%s/s", p->folder);
    snprintf(p->url, sizeof p->url, "unix://%s", p->socket);
    return 0;
}

int redis_run_plain(redis_process *p, const char *const *words)
{
    char *argv[MOST_WORDS] = {PROGRAM};
    char log[96];
    size_t i;
    for (i = 0; i + 2 < MOST_WORDS && words[i]; i++)
        argv[i + 1] = (char *)words[i];
    snprintf(log, sizeof log, "%s/log", p->folder);
    p->pid = fork();
    if (p->pid == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, 1);
        dup2(fd, 2);
        execvp(PROGRAM, argv);
        _exit(127);
    }
    return p->pid > 0 ? 0 : -1;
}

int redis_run(redis_process *p, const char *const *words)
{
    const char *all[MOST_WORDS] = {"--port", "0", "--unixsocket", p->socket, "--dir", p->folder, "--save", ""};
    size_t i = 8;
    for (; words && *words && i + 2 < MOST_WORDS; i++)
        all[i] = *words++;
    return redis_run_plain(p, all);
}

static int redis_answers(const redis_process *p)
{
    redisContext *redis = redisConnectUnix(p->socket);
    redisReply *reply = redis && !redis->err ? redisCommand(redis, "PING") : NULL;
    int answers = reply && reply->type == REDIS_REPLY_STATUS;
    if (reply)
        freeReplyObject(reply);
    if (redis)
        redisFree(redis);
    return answers;
}

int redis_wait(redis_process *p)
{
    int i;
    for (i = 0; i < 6000; i++) {
        if (redis_answers(p))
            return 0;
        if (waitpid(p->pid, NULL, WNOHANG) == p->pid) {
            p->pid = 0;
            return -1;
        }
        poll(NULL, 0, 10);
    }
    return -1;
}

void redis_end(redis_process *p, int signal_number)
{
    if (p->pid > 0) {
        kill(p->pid, signal_number);
        waitpid(p->pid, NULL, 0);
    }
    p->pid = 0;
}

int redis_remove(redis_process *p)
{
    char command[128];
    redis_end(p, SIGKILL);
    snprintf(command, sizeof command, "rm -rf '%s'", p->folder);
    return system(command) == 0 ? 0 : -1;
}

/*
 * sentinel_fixture.h - what the programs test_sentinel*.c share: redis-servers and sentinels as processes, and pushes
 * over links to them.
 */
#ifndef SRT_TEST_SENTINEL_FIXTURE_H
#define SRT_TEST_SENTINEL_FIXTURE_H

#include <hiredis/hiredis.h>

#include "redis_process.h"
#include "seriatim.h"

typedef struct redis_node {
    redis_process redis;
    int port;
    char file[96];
} redis_node;

void nap_ms(int ms);
/* A command to the server at the port; the caller frees the reply. */
redisReply *command_at(int port, const char *format, ...);
/* Until an INFO of that port holds the text, at most 90 s. */
void wait_for_info(int port, const char *info, const char *text);
/* A redis-server, or a sentinel, with these lines of settings; a format. */
redis_node start_process(const char *settings, ...);
void stop_process(redis_node *p);

#define PLAIN_REDIS                                                                                                    \
    "save \"\"\nappendonly no\nrepl-diskless-sync-delay 0\nrepl-diskless-sync yes\nrepl-ping-replica-period 1\n"

redis_node start_replica_of(const redis_node *master);
/* A link whose client has one queue, with the number 0. */
seriatim_link *sentinel_link(const char *url);
const char *sentinel_message(seriatim_link *link);
/* Begins a push that takes at most `seconds`; replicas and timeout: those that it waits for, 0: none. */
void begin_within(seriatim_link *link, double seconds, int from, int count, int replicas, double timeout);
/* A failover takes long on a busy machine. */
void sentinel_begin_push(seriatim_link *link, int from, int count, int replicas, double timeout);
/* Until the operation has ended; its status. sentinel_push: a whole push, which must end well. */
int sentinel_drive(seriatim_link *link);
void sentinel_push(seriatim_link *link, int from, int count, int replicas, double timeout);
/* Waiting ids, each of which must have one payload: a second would have made its record longer. */
long long payloads_waiting_at(int port);

#endif

/*
 * link_fixture.h - what test_link and test_link_faults share: a redis-server of the program's own, and links that push
 * to it.
 */
#ifndef SRT_TEST_LINK_FIXTURE_H
#define SRT_TEST_LINK_FIXTURE_H

#include <hiredis/hiredis.h>

#include "redis_process.h"
#include "seriatim.h"

/* A connection for the test's own commands; NULL: Redis accepts none. The caller frees it. */
redisContext *connect_redis(const redis_process *s);
/* Runs redis-server, again if it has ended, with an append-only file that keeps all that it has acknowledged. */
void run_durable_server(redis_process *s);
/* As run_durable_server, in a new folder. stop_durable_server ends it and frees it. */
redis_process *start_durable_server(void);
void stop_durable_server(redis_process *s);
/* One command, its answer as a number or the length of a text. */
long long ask_redis(const redis_process *s, const char *format, ...);
/* How many payloads wait in the queue, over all its shards. */
long long waiting_payloads(const redis_process *s, const char *queue, unsigned shards);
/* A link whose client has one queue, with the number 0. */
seriatim_link *link_to_queue(const char *url, const char *queue, int64_t shards, const char *fold);
/* Steps until the operation of the link has ended. Returns its status. */
int link_drive(seriatim_link *link);
/* Drives the operation that was begun with this status, until it has succeeded. Returns the client. */
seriatim_client *link_finish(seriatim_link *link, int begun);
/* Takes steps of an operation for `ms`; it does not end. */
void link_goes_on_for(seriatim_link *link, int ms);
/* How many findings a check of the queue has. */
size_t link_findings(seriatim_link *link, size_t queue);
/* The message of the last error. */
const char *link_message(seriatim_link *link);
/* Adds a job to the push that was begun. */
void link_add_job(seriatim_link *link, const char *id, const char *payload, const char *on_waiting);
/* Begins a push of `count` jobs on `ids` ids, with payloads that nobody else has. */
void link_begin_jobs_within(seriatim_link *link, double seconds, const char *who, int from, int count, int ids);
/* As link_begin_jobs_within, with 50 seconds; link_push_jobs also waits until the push is done. */
void link_begin_jobs(seriatim_link *link, const char *who, int from, int count, int ids);
void link_push_jobs(seriatim_link *link, const char *who, int from, int count, int ids);
double wall_clock_ms(void);
/* cmocka's set-up and tear-down: a durable server for all tests of a program. */
int start_link_server(void **state);
int stop_link_server(void **state);

#endif

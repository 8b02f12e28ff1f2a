/* link_fixture.c - a redis-server that keeps what it acknowledges, and pushes of numbered payloads over a link. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "link_fixture.h"

redisContext *connect_redis(const redis_process *s)
{
    redisContext *r = redisConnectUnix(s->socket);
    if (r && !r->err)
        return r;
    if (r)
        redisFree(r);
    return NULL;
}

/*
 * With everysec Redis holds back what it acknowledges while a sync to a slow disk is under way, and loses that when it
 * is killed.
 */
void run_durable_server(redis_process *s)
{
    static const char *const words[] = {"--appendonly", "yes", "--appendfsync", "no", NULL};
    assert_int_equal(redis_run(s, words), 0);
    assert_int_equal(redis_wait(s), 0);
}

redis_process *start_durable_server(void)
{
    redis_process *s = calloc(1, sizeof *s);
    assert_non_null(s);
    assert_int_equal(redis_make_folder(s), 0);
    run_durable_server(s);
    return s;
}

void stop_durable_server(redis_process *s)
{
    assert_int_equal(redis_remove(s), 0);
    free(s);
}

long long ask_redis(const redis_process *s, const char *format, ...)
{
    redisContext *r = connect_redis(s);
    redisReply *reply;
    long long number;
    va_list args;
    assert_non_null(r);
    va_start(args, format);
    reply = redisvCommand(r, format, args);
    va_end(args);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply->str);
    number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : (long long)reply->len;
    freeReplyObject(reply);
    redisFree(r);
    return number;
}

/* Payloads in a record of the jobs hash (core/scripts/lib/record.lua). */
static long long payloads_of(const redisReply *record)
{
    const unsigned char *at = (const unsigned char *)record->str;
    if (at[0] / 4 < 2)
        return 1;
    return (long long)at[14] | (long long)at[15] << 8 | (long long)at[16] << 16 | (long long)at[17] << 24;
}

long long waiting_payloads(const redis_process *s, const char *queue, unsigned shards)
{
    redisContext *r = connect_redis(s);
    long long sum = 0;
    unsigned shard;
    for (shard = 0; shard < shards; shard++) {
        redisReply *reply = redisCommand(r, "HVALS seriatim:{%s/%d}:jobs", queue, (int)shard);
        size_t i;
        for (i = 0; i < reply->elements; i++)
            sum += payloads_of(reply->element[i]);
        freeReplyObject(reply);
    }
    redisFree(r);
    return sum;
}

seriatim_link *link_to_queue(const char *url, const char *queue, int64_t shards, const char *fold)
{
    seriatim_queue_settings settings;
    seriatim_link *link = NULL;
    seriatim_error error;
    size_t number;
    if (seriatim_link_new(NULL, url, &link, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
    seriatim_queue_settings_init(&settings);
    settings.name = queue;
    settings.name_len = strlen(queue);
    settings.shards_count = shards;
    settings.fold = fold;
    assert_int_equal(seriatim_client_queue(seriatim_link_client(link), &settings, &number), SERIATIM_OK);
    return link;
}

int link_drive(seriatim_link *link)
{
    int status;
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        assert_int_equal(seriatim_link_wait(link), SERIATIM_OK);
    return status;
}

const char *link_message(seriatim_link *link)
{
    return seriatim_client_error(seriatim_link_client(link))->message;
}

void link_add_job(seriatim_link *link, const char *id, const char *payload, const char *on_waiting)
{
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = id;
    job.id_len = strlen(id);
    job.payload = payload;
    job.payload_len = strlen(payload);
    job.on_waiting = on_waiting;
    assert_int_equal(seriatim_push_job(seriatim_link_client(link), &job), SERIATIM_OK);
}

void link_begin_jobs_within(seriatim_link *link, double seconds, const char *who, int from, int count, int ids)
{
    int i, status = seriatim_push_begin(seriatim_link_client(link), 0);
    if (status == SERIATIM_OK)
        status = seriatim_push_timeout(seriatim_link_client(link), seconds);
    if (status != SERIATIM_OK)
        fail_msg("%s", link_message(link));
    for (i = from; i < from + count; i++) {
        char id[32], payload[64];
        snprintf(id, sizeof id, "id-%d", i % ids);
        snprintf(payload, sizeof payload, "\"%s %d\"", who, i);
        link_add_job(link, id, payload, NULL);
    }
    assert_int_equal(seriatim_push_send(seriatim_link_client(link)), SERIATIM_OK);
}

void link_begin_jobs(seriatim_link *link, const char *who, int from, int count, int ids)
{
    link_begin_jobs_within(link, 50, who, from, count, ids);
}

void link_push_jobs(seriatim_link *link, const char *who, int from, int count, int ids)
{
    link_begin_jobs(link, who, from, count, ids);
    if (link_drive(link) != SERIATIM_OK)
        fail_msg("%s", link_message(link));
}

double wall_clock_ms(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (double)now.tv_sec * 1e3 + (double)now.tv_usec / 1e3;
}

seriatim_client *link_finish(seriatim_link *link, int begun)
{
    int status = begun == SERIATIM_OK ? link_drive(link) : begun;
    if (status != SERIATIM_OK)
        fail_msg("%d: %s", status, link_message(link));
    return seriatim_link_client(link);
}

void link_goes_on_for(seriatim_link *link, int ms)
{
    double until = wall_clock_ms() + ms;
    while (wall_clock_ms() < until) {
        assert_int_equal(seriatim_link_step(link), SERIATIM_AGAIN);
        seriatim_link_wait(link);
    }
}

size_t link_findings(seriatim_link *link, size_t queue)
{
    size_t count;
    seriatim_check_result(link_finish(link, seriatim_check_begin(seriatim_link_client(link), queue, 0)), &count);
    return count;
}

int start_link_server(void **state)
{
    signal(SIGPIPE, SIG_IGN); /* of the proxy */
    *state = start_durable_server();
    return 0;
}

int stop_link_server(void **state)
{
    stop_durable_server(*state);
    return 0;
}

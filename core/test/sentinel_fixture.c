/* sentinel_fixture.c - redis-servers and sentinels as processes, and pushes over links to them. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "sentinel_fixture.h"
#include "port.h"

/* ---- Processes ------------------------------------------------------------------------------ */

void nap_ms(int ms)
{
    poll(NULL, 0, ms);
}

redisReply *command_at(int port, const char *format, ...)
{
    redisContext *r = redisConnect("127.0.0.1", port);
    redisReply *reply = NULL;
    va_list args;
    va_start(args, format);
    if (r && !r->err)
        reply = redisvCommand(r, format, args);
    va_end(args);
    redisFree(r);
    return reply;
}

void wait_for_info(int port, const char *info, const char *text)
{
    int i, found = 0;
    for (i = 0; i < 1800 && !found; i++) {
        redisReply *reply = command_at(port, "INFO %s", info);
        found = reply && reply->type == REDIS_REPLY_STRING && strstr(reply->str, text);
        if (reply)
            freeReplyObject(reply);
        if (!found)
            nap_ms(50);
    }
    if (!found)
        fail_msg("port %d never said %s", port, text);
}

static void run_process(redis_node *p, int is_sentinel)
{
    const char *const words[] = {p->file, is_sentinel ? "--sentinel" : NULL, NULL};
    assert_int_equal(redis_run_plain(&p->redis, words), 0);
}

redis_node start_process(const char *settings, ...)
{
    redis_node p;
    va_list args;
    FILE *f;
    memset(&p, 0, sizeof p);
    assert_int_equal(redis_make_folder(&p.redis), 0);
    snprintf(p.file, sizeof p.file, "%s/redis.conf", p.redis.folder);
    p.port = free_port();
    f = fopen(p.file, "w");
    assert_non_null(f);
    fprintf(f, "port %d\nbind 127.0.0.1\ndir %s\n", p.port, p.redis.folder);
    va_start(args, settings);
    vfprintf(f, settings, args);
    va_end(args);
    fclose(f);
    run_process(&p, strstr(settings, "sentinel ") != NULL);
    wait_for_info(p.port, "server", "redis_version");
    return p;
}

void stop_process(redis_node *p)
{
    assert_int_equal(redis_remove(&p->redis), 0);
}

redis_node start_replica_of(const redis_node *master)
{
    redis_node p = start_process(PLAIN_REDIS "replicaof 127.0.0.1 %d\n", master->port);
    wait_for_info(p.port, "replication", "master_link_status:up");
    wait_for_info(master->port, "replication", "state=online");
    return p;
}

/* ---- Links ---------------------------------------------------------------------------------- */

seriatim_link *sentinel_link(const char *url)
{
    seriatim_queue_settings settings;
    seriatim_link *link = NULL;
    seriatim_error error;
    size_t queue;
    if (seriatim_link_new(NULL, url, &link, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
    seriatim_queue_settings_init(&settings);
    settings.name = "q";
    settings.name_len = 1;
    settings.shards_count = 3;
    settings.fold = "list";
    assert_int_equal(seriatim_client_queue(seriatim_link_client(link), &settings, &queue), SERIATIM_OK);
    return link;
}

const char *sentinel_message(seriatim_link *link)
{
    return seriatim_client_error(seriatim_link_client(link))->message;
}

void begin_within(seriatim_link *link, double seconds, int from, int count, int replicas, double timeout)
{
    seriatim_client *c = seriatim_link_client(link);
    int i;
    assert_int_equal(seriatim_push_begin(c, 0), SERIATIM_OK);
    assert_int_equal(seriatim_push_timeout(c, seconds), SERIATIM_OK);
    if (replicas)
        assert_int_equal(seriatim_push_replicas(c, replicas, timeout), SERIATIM_OK);
    for (i = from; i < from + count; i++) {
        char id[32];
        seriatim_job job;
        seriatim_job_init(&job);
        snprintf(id, sizeof id, "id-%d", i);
        job.id = id;
        job.id_len = strlen(id);
        assert_int_equal(seriatim_push_job(c, &job), SERIATIM_OK);
    }
    assert_int_equal(seriatim_push_send(c), SERIATIM_OK);
}

void sentinel_begin_push(seriatim_link *link, int from, int count, int replicas, double timeout)
{
    begin_within(link, 50, from, count, replicas, timeout);
}

int sentinel_drive(seriatim_link *link)
{
    int status;
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN)
        assert_int_equal(seriatim_link_wait(link), SERIATIM_OK);
    return status;
}

void sentinel_push(seriatim_link *link, int from, int count, int replicas, double timeout)
{
    sentinel_begin_push(link, from, count, replicas, timeout);
    if (sentinel_drive(link) != SERIATIM_OK)
        fail_msg("%s", sentinel_message(link));
    assert_int_equal(seriatim_push_result(seriatim_link_client(link)).added, count);
}

long long payloads_waiting_at(int port)
{
    long long sum = 0;
    int shard;
    for (shard = 0; shard < 3; shard++) {
        redisReply *reply = command_at(port, "HVALS seriatim:{q/%d}:jobs", shard);
        size_t i;
        assert_non_null(reply);
        for (i = 0; i < reply->elements; i++)
            assert_true((unsigned char)reply->element[i]->str[0] / 4 < 2);
        sum += (long long)reply->elements;
        freeReplyObject(reply);
    }
    return sum;
}

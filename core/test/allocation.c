/* allocation.c - an allocator whose n-th call fails, and a scenario that is tried with each n. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "allocation.h"
#include "server.h"

/* Used by the runner's thread as well. */
static struct {
    pthread_mutex_t lock;
    size_t calls, fail_at;
    long live;
} memory = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0};

static void *allocate(void *user, void *ptr, size_t old_size, size_t new_size)
{
    int fails;
    (void)user;
    pthread_mutex_lock(&memory.lock);
    fails = new_size > 0 && ++memory.calls == memory.fail_at;
    if (!fails)
        memory.live += (long)new_size - (long)(ptr ? old_size : 0);
    pthread_mutex_unlock(&memory.lock);
    if (fails)
        return NULL;
    if (new_size > 0)
        return realloc(ptr, new_size);
    free(ptr);
    return NULL;
}

const seriatim_allocator failing_allocator = {allocate, NULL};

seriatim_queue_settings settings_of_queue(void)
{
    seriatim_queue_settings q;
    seriatim_queue_settings_init(&q);
    q.name = "Q";
    q.name_len = 1;
    q.shards_count = 2;
    q.fold = "list";
    q.remember_score = 60;
    return q;
}

int push_thirty(seriatim_client *c, size_t queue)
{
    int i, status = seriatim_push_begin(c, queue);
    if (status == SERIATIM_OK)
        status = seriatim_push_replicas(c, 0, 1);
    if (status == SERIATIM_OK)
        status = seriatim_push_timeout(c, 50);
    for (i = 0; i < 30 && status == SERIATIM_OK; i++) {
        char id = (char)('a' + i % 9);
        seriatim_job job;
        seriatim_job_init(&job);
        job.id = &id;
        job.id_len = 1;
        job.payload = "{\"some\":\"payload\"}";
        job.payload_len = 18;
        job.on_waiting = i % 2 ? "reject" : NULL;
        if (i % 3 == 0)
            job.has_score = 1, job.score = i;
        if (i % 5 == 4)
            job.retry_count = 3, job.when = SERIATIM_DELAY, job.time = 60;
        status = seriatim_push_job(c, &job);
    }
    return status == SERIATIM_OK ? seriatim_push_send(c) : status;
}

int drive_failing(seriatim_link *link)
{
    int status;
    while ((status = seriatim_link_step(link)) == SERIATIM_AGAIN) {
        (void)seriatim_link_fd(link);
        (void)seriatim_link_wants(link);
        (void)seriatim_link_timeout_ms(link);
        status = seriatim_link_wait(link);
        if (status != SERIATIM_OK)
            return status;
    }
    return status;
}

void fill_queue(void)
{
    seriatim_options options = {&failing_allocator, NULL, "a-name", 0, NULL};
    seriatim_queue_settings settings = settings_of_queue();
    seriatim_link *link;
    size_t queue;
    memory.fail_at = 0;
    assert_int_equal(seriatim_link_new(&options, server.url, &link, NULL), SERIATIM_OK);
    assert_int_equal(seriatim_client_queue(seriatim_link_client(link), &settings, &queue), SERIATIM_OK);
    assert_int_equal(push_thirty(seriatim_link_client(link), queue), SERIATIM_OK);
    assert_int_equal(drive_failing(link), SERIATIM_OK);
    seriatim_link_free(link);
}

static int attempt(const char *what, int (*scenario)(int), int number, size_t fail_at)
{
    int status;
    memory.calls = 0;
    memory.live = 0;
    memory.fail_at = fail_at;
    status = scenario(number);
    if (status != SERIATIM_OK && status != SERIATIM_NOMEM)
        fail_msg("%s %d, allocation %lu: %s", what, number, (unsigned long)fail_at, seriatim_status_name(status));
    if (memory.live != 0)
        fail_msg("%s %d, allocation %lu: %ld bytes live on", what, number, (unsigned long)fail_at, memory.live);
    return status;
}

void fail_each_allocation(const char *what, int (*scenario)(int), int number, size_t dense)
{
    size_t n, failed = 0;
    for (n = 1; n < MOST; n += n < dense ? 1 : n / 8) {
        failed += attempt(what, scenario, number, n) == SERIATIM_NOMEM;
        if (memory.calls < n)
            break;
    }
    assert_true(n < MOST && failed > 0);
    assert_int_equal(attempt(what, scenario, number, 0), SERIATIM_OK);
}

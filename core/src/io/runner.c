/* runner.c - a node with sockets and one native thread. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "io/runner_state.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ---- The thread ---------------------------------------------------------------------------- */

/* With the lock: wakes one more waiting thread of each group that needs it. Returns when to call again. */
static int64_t choose_waiters(seriatim_runner *r, int64_t now)
{
    int64_t until = SRT_NEVER;
    size_t i;
    for (i = 0; i < r->waiters_count; i++) {
        srt_group *group = &r->node->groups[i];
        srt_wait_queue *queue = &r->waiters[i];
        int more = srt_waiters_more(queue, group->waiting), offers = more && srt_node_offers(r->node, i, now);
        int wake = more && (group->wake_pending || offers) && !srt_waiters_keep_up(queue, group->held, now);
        group->wake_pending = 0;
        queue->to_notify = wake ? srt_waiters_choose(queue, now) : NULL;
        if (offers)
            until = now + SRT_WAIT_STUCK_MS;
    }
    return until;
}

static void notify_chosen(seriatim_runner *r)
{
    size_t i;
    for (i = 0; i < r->waiters_count; i++)
        if (r->waiters[i].to_notify)
            srt_pipe_notify(r->waiters[i].to_notify);
}

/* Ticks the node and collects its output. Returns until when the thread may sleep. */
static int64_t runner_tick(seriatim_runner *r)
{
    int64_t now = srt_clock_ms(), until, silent = SRT_NEVER, waiters;
    size_t i;
    pthread_mutex_lock(&r->lock);
    r->notified = 0;
    for (i = r->channel_count; i-- > 0;) {
        int64_t at = srt_channel_watch(r, r->channels[i], now);
        silent = at < silent ? at : silent;
    }
    if (srt_heartbeat_due(r->node, now))
        srt_node_vitals(r->node, srt_resident_bytes(), srt_clock_wall_us() - now * 1000);
    until = srt_node_tick(r->node, now);
    until = silent < until ? silent : until;
    srt_channels_follow(r, now);
    for (i = r->channel_count; i-- > 0;)
        srt_channel_collect(r, r->channels[i]);
    if (r->node->checkpoint_news)
        srt_runner_wake_flushes(r, now);
    waiters = choose_waiters(r, now);
    until = waiters < until ? waiters : until;
    r->sleeps_until = until;
    pthread_mutex_unlock(&r->lock);
    notify_chosen(r);
    return until;
}

static void runner_awake(seriatim_runner *r)
{
    pthread_mutex_lock(&r->lock);
    r->sleeps_until = 0;
    pthread_mutex_unlock(&r->lock);
}

static void runner_sleep(seriatim_runner *r, int64_t until)
{
    struct pollfd *fds = r->fds;
    int64_t now = srt_clock_ms();
    size_t count = r->channel_count, i;
    memset(fds, 0, (count + 1) * sizeof *fds); /* poll leaves revents unchanged if it fails */
    fds[0].fd = r->wake[0];
    fds[0].events = POLLIN;
    for (i = 0; i < count; i++) {
        runner_channel *c = r->channels[i];
        int wants = srt_transport_wants(c->transport);
        int64_t deadline = c->state != CHANNEL_CLOSED ? srt_transport_deadline(c->transport)
                           : c->wanted                ? c->retry_at
                                                      : SRT_NEVER;
        if (deadline < until)
            until = deadline;
        fds[i + 1].fd = c->state == CHANNEL_CLOSED ? -1 : srt_transport_fd(c->transport);
        fds[i + 1].events = (short)((wants & SERIATIM_WANT_READ ? POLLIN : 0) |
                                    (wants & SERIATIM_WANT_WRITE || c->out.len ? POLLOUT : 0));
    }
    if (until > now + 60000)
        until = now + 60000;
    poll(fds, (nfds_t)count + 1, until > now && !r->unread ? (int)(until - now) : 0);
    r->unread = 0;
    if (fds[0].revents)
        srt_pipe_drain(r->wake);
    for (i = 0; i < count; i++)
        if (fds[i + 1].revents)
            r->channels[i]->drained = 0;
}

static void *runner_main(void *argument)
{
    seriatim_runner *r = argument;
    for (;;) {
        int64_t until;
        size_t i;
        for (i = r->channel_count; i-- > 0;)
            srt_channel_step(r, r->channels[i]);
        until = runner_tick(r);
        for (i = r->channel_count; i-- > 0;) {
            runner_channel *c = r->channels[i];
            if (c->state == CHANNEL_OPEN && srt_channel_write(c) != SERIATIM_OK) {
                pthread_mutex_lock(&r->lock);
                srt_channel_lost(r, c, srt_clock_ms());
                pthread_mutex_unlock(&r->lock);
            }
        }
        runner_sleep(r, until);
        runner_awake(r);
        if (__atomic_load_n(&r->ending, __ATOMIC_ACQUIRE))
            return NULL;
    }
}

/* ---- Making -------------------------------------------------------------------------------- */

/* For a runner without a thread. It may open them again. */
static void pipes_close(seriatim_runner *r)
{
    size_t i;
    for (i = 0; i < r->waiters_count; i++)
        srt_waiters_close(r->mem, &r->waiters[i]);
    if (r->waiters)
        srt_free(r->mem, r->waiters, r->node->group_count * sizeof *r->waiters);
    r->waiters = NULL;
    r->waiters_count = 0;
    srt_waiters_close(r->mem, &r->flushing);
    memset(&r->flushing, 0, sizeof r->flushing);
    r->flushing.pipe[0] = r->flushing.pipe[1] = -1;
    srt_pipe_close(r->wake);
}

static void runner_free_parts(seriatim_runner *r)
{
    pipes_close(r);
    if (r->node)
        srt_node_free(r->node);
    srt_channels_free(r);
    srt_free(r->mem, r->inbox, RUNNER_READ);
    srt_url_free(&r->url);
    pthread_mutex_destroy(&r->lock);
    srt_free(r->mem, r, sizeof *r);
}

/* The seeds of a cluster's URL. */
static int runner_seed(seriatim_runner *r)
{
    int status = SERIATIM_OK;
    size_t i;
    for (i = 0; r->url.kind == SRT_URL_CLUSTER && i < r->url.host_count && status == SERIATIM_OK; i++)
        status = srt_node_seed(r->node, r->url.hosts[i].host, r->url.hosts[i].port);
    return status;
}

int seriatim_runner_new(const seriatim_node_settings *settings, const char *url, seriatim_runner **out,
                        seriatim_error *error)
{
    const seriatim_allocator *mem =
        settings->options.allocator ? settings->options.allocator : seriatim_default_allocator();
    seriatim_runner *r;
    int status;
    if (!url)
        return srt_fail(error, SERIATIM_INVALID, "the URL is missing");
    r = srt_alloc(mem, sizeof *r);
    if (!r)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    r->mem = mem;
    r->wake[0] = r->wake[1] = -1;
    r->flushing.pipe[0] = r->flushing.pipe[1] = -1;
    r->url.mem = mem;
    pthread_mutex_init(&r->lock, NULL);
    status = srt_url_parse(&r->url, mem, url, strlen(url), error);
    if (status == SERIATIM_OK)
        status = srt_node_new(settings, &r->node, error);
    if (status == SERIATIM_OK && !(r->inbox = srt_alloc(mem, RUNNER_READ)))
        status = srt_fail_plain(error, SERIATIM_NOMEM);
    if (status == SERIATIM_OK && (runner_seed(r) != SERIATIM_OK || srt_channels_begin(r) != SERIATIM_OK))
        status = srt_fail_plain(error, SERIATIM_NOMEM);
    if (status != SERIATIM_OK) {
        runner_free_parts(r);
        return status;
    }
    if (r->url.kind == SRT_URL_SENTINEL)
        srt_node_expect_masters(r->node);
    *out = r;
    return SERIATIM_OK;
}

int seriatim_runner_group(seriatim_runner *r, int scheduler, const seriatim_shard *shards, size_t count, size_t *group,
                          seriatim_error *error)
{
    int status;
    pthread_mutex_lock(&r->lock);
    status = r->running ? srt_fail(error, SERIATIM_INVALID, "groups are made before the runner is started")
                        : srt_node_group(r->node, scheduler, shards, count, group, error);
    pthread_mutex_unlock(&r->lock);
    return status;
}

static int pipe_failed(seriatim_error *error)
{
    char text[128];
    return srt_fail(error, SERIATIM_IO, "cannot open a pipe: %s", srt_errno_text(errno, text, sizeof text));
}

/* After an error pipes_close closes those that were opened. */
static int pipes_open(seriatim_runner *r, seriatim_error *error)
{
    size_t count = r->node->group_count;
    if (srt_pipe_open(r->wake) != SERIATIM_OK)
        return pipe_failed(error);
    r->waiters = srt_alloc(r->mem, count * sizeof *r->waiters);
    if (!r->waiters)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    for (; r->waiters_count < count; r->waiters_count++)
        if (srt_waiters_open(&r->waiters[r->waiters_count]) != SERIATIM_OK)
            return pipe_failed(error);
    return SERIATIM_OK;
}

static int start_thread(seriatim_runner *r, seriatim_error *error)
{
    char text[128];
    int code = srt_thread_start(&r->thread, runner_main, r);
    if (code == 0)
        return SERIATIM_OK;
    return srt_fail(error, SERIATIM_IO, "cannot start a thread: %s", srt_errno_text(code, text, sizeof text));
}

/* With the lock, which the new thread waits for. */
static int runner_start(seriatim_runner *r, seriatim_error *error)
{
    int status = srt_node_start(r->node, srt_clock_ms(), error);
    if (status == SERIATIM_OK)
        status = pipes_open(r, error);
    if (status == SERIATIM_OK)
        status = start_thread(r, error);
    if (status == SERIATIM_OK)
        r->running = 1;
    else
        pipes_close(r);
    return status;
}

int seriatim_runner_start(seriatim_runner *r, seriatim_error *error)
{
    int status;
    pthread_mutex_lock(&r->lock);
    if (r->running)
        status = srt_fail(error, SERIATIM_INVALID, "the runner was started already");
    else
        status = runner_start(r, error);
    pthread_mutex_unlock(&r->lock);
    return status;
}

void seriatim_runner_free(seriatim_runner *r)
{
    if (!r)
        return;
    if (r->running) {
        __atomic_store_n(&r->ending, 1, __ATOMIC_RELEASE);
        srt_pipe_notify(r->wake);
        pthread_join(r->thread, NULL);
    }
    runner_free_parts(r);
}

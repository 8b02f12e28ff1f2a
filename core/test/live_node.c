/* live_node.c - see live_node.h. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "live_node.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "node_fixture.h"
#include "server.h"

int64_t live_lease_ms = 1000;
int live_hook;
const char *live_user;

int64_t live_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void live_disconnect(live_node *n, int channel)
{
    if (n->fds[channel] < 0)
        return;
    close(n->fds[channel]);
    n->fds[channel] = -1;
    srt_node_disconnected(n->node, (srt_channel)channel, live_now());
}

static void live_connect(live_node *n, int channel)
{
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", server.socket);
    n->fds[channel] = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(n->fds[channel], (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(
        srt_node_connected(n->node, (srt_channel)channel, live_user, live_user ? "secret" : NULL, 0, live_now()),
        SERIATIM_OK);
}

void live_start(live_node *n, const char *id, int64_t shards, unsigned threads, live_log *log)
{
    seriatim_node_settings settings = node_of_one_thread(id);
    seriatim_queue_settings queue = queue_q();
    seriatim_error error;
    size_t worker;
    int channel;
    memset(n, 0, sizeof *n);
    n->log = log;
    n->random = 7;
    n->run_ms = 2;
    settings.lease_ms = live_lease_ms;
    settings.poll_ms = 100;
    settings.threads = threads ? threads : 1;
    queue.shards_count = shards;
    queue.fold = "list";
    queue.exhausted_hook = live_hook;
    assert_int_equal(srt_node_new(&settings, &n->node, &error), SERIATIM_OK);
    assert_int_equal(srt_node_worker(n->node, &queue, &worker, &error), SERIATIM_OK);
    assert_int_equal(srt_node_start(n->node, live_now(), &error), SERIATIM_OK);
    for (channel = 0; channel < SRT_CHANNELS; channel++)
        live_connect(n, channel);
}

static int is_cut(live_node *n)
{
    n->random = n->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (n->random >> 33) % 1000 < n->cut || (n->cut_at && n->inputs == n->cut_at);
}

static void live_write(live_node *n, int channel)
{
    const char *data;
    size_t len;
    for (srt_node_output(n->node, (srt_channel)channel, &data, &len); len > 0;
         srt_node_output(n->node, (srt_channel)channel, &data, &len)) {
        ssize_t sent = send(n->fds[channel], data, len, MSG_NOSIGNAL);
        if (sent <= 0) { /* Redis has ended */
            live_disconnect(n, channel);
            return;
        }
        srt_node_sent(n->node, (srt_channel)channel, (size_t)sent);
    }
}

static void live_read(live_node *n, int channel)
{
    static char bytes[1 << 16];
    seriatim_error error;
    ssize_t got = recv(n->fds[channel], bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return;
    n->inputs++;
    if (got <= 0 || is_cut(n)) {
        live_disconnect(n, channel);
        return;
    }
    if (srt_node_input(n->node, (srt_channel)channel, bytes, (size_t)got, live_now(), &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
}

static void live_take(live_node *n, int thread)
{
    size_t i, p;
    if (srt_node_take(n->node, 0, live_now(), &n->held[thread]) != SERIATIM_OK) {
        n->held[thread] = NULL;
        return;
    }
    n->ends[thread] = live_now() + n->run_ms;
    if (n->held[thread]->kind == SERIATIM_EXHAUSTED) {
        n->ends[thread] = live_now() + n->hook_ms;
        n->log->told++;
        return;
    }
    for (i = 0; i < seriatim_delivery_size(n->held[thread]); i++) {
        const seriatim_claimed *job = seriatim_delivery_job(n->held[thread], i);
        for (p = 0; p < job->payload_count; p++) {
            assert_true(n->log->count < LIVE_JOBS);
            snprintf(n->log->runs[n->log->count].id, sizeof n->log->runs[0].id, "%.*s", (int)job->id_len, job->id);
            snprintf(n->log->runs[n->log->count].payload, sizeof n->log->runs[0].payload, "%.*s",
                     (int)job->payloads[p].len, job->payloads[p].data);
            n->log->runs[n->log->count++].fence = job->fence;
        }
    }
}

static void live_threads(live_node *n)
{
    int thread;
    size_t i;
    for (thread = 0; n->log && thread < LIVE_THREADS; thread++) {
        seriatim_delivery *d = n->held[thread];
        if (d && live_now() >= n->ends[thread]) {
            for (i = 0; d->kind != SERIATIM_EXHAUSTED && i < seriatim_delivery_size(d); i++)
                if (n->fails)
                    seriatim_delivery_fail(d, i, "boom", 4, 0);
                else
                    seriatim_delivery_done(d, i);
            srt_node_settle(n->node, d, live_now());
            n->held[thread] = NULL;
        }
        if (!n->held[thread])
            live_take(n, thread);
    }
}

void live_end_runs(live_node *n)
{
    memset(n->ends, 0, sizeof n->ends);
    n->run_ms = n->hook_ms = 0;
}

static void live_warnings(live_node *n)
{
    seriatim_event event;
    while (srt_node_event(n->node, live_now(), &event) == SERIATIM_OK)
        if (event.kind == SERIATIM_EVENT_WARNING)
            snprintf(n->warning, sizeof n->warning, "%s", event.text);
}

void live_step(live_node *n)
{
    struct pollfd polled[SRT_CHANNELS];
    int channel;
    if (!n->node)
        return;
    srt_node_pulse(n->node, live_now());
    srt_node_tick(n->node, live_now());
    for (channel = 0; channel < SRT_CHANNELS; channel++) {
        if (n->fds[channel] < 0)
            live_connect(n, channel);
        live_write(n, channel); /* perhaps there is no connection behind this */
        polled[channel].fd = n->fds[channel];
        polled[channel].events = POLLIN;
    }
    poll(polled, SRT_CHANNELS, 1);
    for (channel = 0; !n->is_deaf && channel < SRT_CHANNELS; channel++)
        if (n->fds[channel] >= 0)
            live_read(n, channel);
    live_threads(n);
    live_warnings(n);
}

void live_await_shards(live_node *n, size_t shards)
{
    int64_t until = live_now() + 120000;
    while (srt_node_stats(n->node).shards != shards && live_now() < until)
        live_step(n);
    assert_int_equal(srt_node_stats(n->node).shards, shards);
}

void live_cut(live_node *n)
{
    live_disconnect(n, SRT_COMMANDS);
}

void live_kill(live_node *n)
{
    int channel, thread;
    for (channel = 0; channel < SRT_CHANNELS; channel++)
        if (n->node && n->fds[channel] >= 0)
            close(n->fds[channel]);
    for (thread = 0; thread < LIVE_THREADS; thread++)
        n->held[thread] = NULL; /* the node frees what threads hold */
    srt_node_free(n->node);
    n->node = NULL;
}

void live_stop(live_node *n)
{
    int64_t until = live_now() + 30000;
    srt_node_stop(n->node, live_now());
    while (!srt_node_is_stopped(n->node) && live_now() < until)
        live_step(n);
    assert_true(srt_node_is_stopped(n->node));
    live_kill(n);
}

static const char *live_layout(void)
{
    static char text[64];
    redisReply *reply = redis("GET seriatim:{Q}:layout");
    snprintf(text, sizeof text, "%s", reply->str);
    freeReplyObject(reply);
    return text;
}

int live_is_quiet(unsigned shards)
{
    unsigned has, schema, old = 0;
    return sscanf(live_layout(), "%*s %u %u %u", &has, &schema, &old) >= 2 && has == shards && old == 0;
}

/* Has the node not followed the layout of the end, or does it turn its shards to it? */
static size_t live_is_behind(const live_node *n, unsigned shards)
{
    const srt_queue *queue = n->node ? n->node->workers[0] : NULL;
    unsigned i;
    if (!queue)
        return 0;
    for (i = 0; i < queue->place_count; i++)
        if (queue->places[i]->turning ||
            (queue->places[i]->state == SRT_OWNED && queue->turns && queue->places[i]->turned != queue->generation))
            return 1;
    return queue->shards_count != shards || queue->old_count != 0;
}

void live_move(live_node *nodes, size_t count, unsigned shards)
{
    int64_t until = live_now() + LIVE_MOST_MS;
    size_t i, behind = 1;
    while (behind) {
        behind = !live_is_quiet(shards);
        for (i = 0; i < count; i++) {
            live_step(&nodes[i]);
            behind += live_is_behind(&nodes[i], shards);
        }
        if (live_now() > until)
            fail_msg("the move does not end: %s; %s", live_layout(), nodes[0].warning);
    }
}

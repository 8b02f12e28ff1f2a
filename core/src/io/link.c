/* link.c - a client with a socket, or one to each master of a cluster: connects, sends, receives, and connects again.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "io/link_state.h"

#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINK_SILENCE_MS 15000 /* an open connection on which an answer is missing this long is treated as dead */
/* of an operation on a link that was never connected, so that a wrong URL is reported soon; look-ups do not count */
#define LINK_FIRST_LIMIT_MS 5000
#define LINK_LIMIT_MS 30000 /* without an answer, of any operation but a push */
/* a connection unused for longer is read before it is written to: Redis may have closed it */
#define LINK_IDLE_MS 10
#define LINK_VISITOR_MS 100  /* how often a visitor's socket is looked at while Redis is silent */
#define LINK_UNWATCHED_MS 20 /* how often sockets are looked at for which there is no common descriptor */

/* ---- Life ---------------------------------------------------------------------------------- */

/* In a child of fork(2), whose parent keeps connection and operation. Without randomness the child cannot push. */
static void link_check_fork(seriatim_link *link)
{
    unsigned char random[SRT_CLIENT_RANDOM] = {0};
    int status;
    if (getpid() == link->pid)
        return;
    link->pid = getpid();
    status = srt_random(random, sizeof random, &link->last);
    srt_client_forked(link->client, status == SERIATIM_OK ? random : NULL);
    memcpy(&link->jitter, random, sizeof link->jitter);
    srt_link_close_all(link);
    srt_watch_close(&link->watch);
    srt_subscriber_close(&link->subscriber);
    srt_link_forget_failures(link);
}

static void link_tell_time(seriatim_link *link)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    srt_client_tell_time(link->client, (double)now.tv_sec + (double)now.tv_nsec / 1e9);
}

static void link_before_begin(void *host)
{
    link_check_fork(host);
    link_tell_time(host);
}

/* The seeds of a cluster's URL. */
static int link_seed(seriatim_link *link)
{
    int status = SERIATIM_OK;
    size_t i;
    for (i = 0; link->url.kind == SRT_URL_CLUSTER && i < link->url.host_count && status == SERIATIM_OK; i++)
        status = srt_cluster_seed(&link->client->cluster, link->url.hosts[i].host, link->url.hosts[i].port);
    link->client->cluster.on_drop = srt_link_free_way;
    link->client->cluster.host = link;
    link->client->cluster.jitter = link->jitter;
    return status == SERIATIM_OK && srt_link_way_to(link, link->client->cluster.peers[0]) ? SERIATIM_OK
                                                                                          : SERIATIM_NOMEM;
}

/* The error of a wrong URL names the setting or variable that holds it. */
static int link_parse_url(seriatim_link *link, const char *url, const char *url_from, seriatim_error *error)
{
    seriatim_error wrong;
    int status = srt_url_parse(&link->url, link->mem, url, strlen(url), &wrong);
    if (status == SERIATIM_OK)
        return status;
    return url_from ? srt_fail(error, status, "%.380s; correct %.50s", wrong.message, url_from)
                    : srt_fail(error, status, "%s", wrong.message);
}

static int link_init(seriatim_link *link, const seriatim_options *options, const char *url, seriatim_error *error)
{
    unsigned char random[SRT_CLIENT_RANDOM];
    int status = link_parse_url(link, url, options ? options->url_from : NULL, error);
    if (status == SERIATIM_OK)
        status = seriatim_client_new(options, &link->client, error);
    if (status == SERIATIM_OK)
        status = srt_random(random, sizeof random, error);
    if (status != SERIATIM_OK)
        return status;
    srt_client_identify(link->client, random);
    memcpy(&link->jitter, random, sizeof link->jitter);
    srt_url_redact(&link->url, &link->text);
    srt_bytes_addc(&link->text, '\0');
    if (options && options->url_from)
        srt_bytes_add(&link->from, options->url_from, strlen(options->url_from) + 1);
    if (link_seed(link) != SERIATIM_OK || link->text.failed || link->from.failed)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    if (link->url.kind == SRT_URL_SENTINEL)
        srt_client_expect_master(link->client);
    link->client->address = seriatim_link_address(link);
    srt_client_host(link->client, link_before_begin, link);
    srt_subscriber_init(&link->subscriber, link->mem, &link->url, link->client);
    link_tell_time(link);
    return SERIATIM_OK;
}

int seriatim_link_new(const seriatim_options *options, const char *url, seriatim_link **out, seriatim_error *error)
{
    const seriatim_allocator *mem = options && options->allocator ? options->allocator : seriatim_default_allocator();
    seriatim_link *link;
    int status;
    if (!url)
        return srt_fail(error, SERIATIM_INVALID, "the URL is missing");
    link = srt_alloc(mem, sizeof *link);
    if (!link)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    link->mem = mem;
    link->pid = getpid();
    srt_link_set_limits(link, LINK_LIMIT_MS, LINK_SILENCE_MS);
    srt_bytes_init(&link->text, mem);
    srt_bytes_init(&link->from, mem);
    srt_watch_init(&link->watch, mem);
    status = link_init(link, options, url, error);
    if (status != SERIATIM_OK) {
        seriatim_link_free(link);
        return status;
    }
    *out = link;
    return SERIATIM_OK;
}

void srt_link_set_limits(seriatim_link *link, int limit_ms, int silence_ms)
{
    link->limit_ms = limit_ms;
    link->silence_ms = silence_ms;
}

void seriatim_link_free(seriatim_link *link)
{
    if (!link)
        return;
    srt_progress_end(&link->progress);
    srt_subscriber_free(&link->subscriber);
    seriatim_client_free(link->client);
    srt_watch_free(&link->watch);
    srt_free(link->mem, link->watched, link->watched_cap * sizeof *link->watched);
    srt_bytes_free(&link->text);
    srt_bytes_free(&link->from);
    srt_url_free(&link->url);
    srt_free(link->mem, link, sizeof *link);
}

seriatim_client *seriatim_link_client(seriatim_link *link)
{
    return link->client;
}

const char *seriatim_link_url(const seriatim_link *link)
{
    return link->text.data;
}

int seriatim_link_progress(seriatim_link *link, int fd, const char *what, size_t len, int64_t total)
{
    return srt_progress_begin(&link->progress, fd, what, what ? len : 0, total);
}

const char *seriatim_link_address(const seriatim_link *link)
{
    return link->client->cluster.many ? link->text.data : srt_transport_address(srt_link_first_way(link)->transport);
}

/* ---- Time ---------------------------------------------------------------------------------- */

static int64_t link_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t link_deadline_ms(const seriatim_link *link)
{
    int64_t whole = srt_client_whole_ms(link->client), limit = whole ? whole : link->limit_ms;
    if (link->client->limit_ms && link->client->limit_ms < link->limit_ms)
        return link_earlier(link->began_ms + link->client->limit_ms, whole ? link->first_ms + whole : INT64_MAX);
    if (!link->was_up && limit > LINK_FIRST_LIMIT_MS + link->look_up_ms)
        limit = LINK_FIRST_LIMIT_MS + link->look_up_ms;
    return (whole ? link->first_ms : link->began_ms) + limit;
}

static int64_t link_silence_ms(const seriatim_link *link, const link_way *way)
{
    return way->phase == LINK_UP && way->peer->commands.waiting > 0 ? way->heard_ms + link->silence_ms : INT64_MAX;
}

static void link_check_silence(seriatim_link *link, link_way *way, int64_t now)
{
    seriatim_error why;
    char master[300];
    if (now < link_silence_ms(link, way))
        return;
    srt_redis_address(way->peer, master, sizeof master); /* of a cluster the URL names the seeds only */
    srt_fail(&why, SERIATIM_TIMEOUT, "no answer from %.180s for %d ms", *master ? master : link->text.data,
             link->silence_ms);
    srt_link_lose(link, way, &why, 1);
}

/*
 * Has the last connection to a Redis that is needed failed, and none to it has answered since? Of a cluster any seed is
 * needed until one has answered.
 */
static int link_lacks_one(const seriatim_link *link)
{
    const srt_cluster *cl = &link->client->cluster;
    size_t i;
    for (i = 0; i < cl->peer_count; i++) {
        const link_way *way = cl->peers[i]->io;
        if (way && way->failures > 0 && srt_redis_wanted(cl, cl->peers[i]))
            return 1;
    }
    return cl->many && cl->map == SRT_MAP_NONE;
}

int srt_link_expire(seriatim_link *link)
{
    const srt_cluster *cl = &link->client->cluster;
    link_way *first = srt_link_first_way(link);
    seriatim_error why;
    if (!link_lacks_one(link))
        srt_error_clear(&link->last);
    why = link->last.status == SERIATIM_OK && cl->many ? cl->last : link->last;
    if (why.status == SERIATIM_OK && first && first->phase == LINK_CONNECTING) {
        srt_transport_expire(first->transport);
        srt_link_connect_error(link, first, &why);
    } else if (why.status == SERIATIM_OK) {
        why = cl->last;
        if (why.status == SERIATIM_OK)
            srt_fail(&why, SERIATIM_TIMEOUT, "waiting for an answer from %.180s: timed out", link->text.data);
        if (!first || first->phase != LINK_UP)
            srt_connect_error(&why, SERIATIM_TIMEOUT, link->text.data, "timed out", link->from.data);
    }
    srt_link_give_up(link, &why);
    return srt_client_status(link->client);
}

static void link_check_limits(seriatim_link *link)
{
    const srt_cluster *cl = &link->client->cluster;
    int64_t now = srt_clock_ms();
    size_t i;
    for (i = 0; i < cl->peer_count; i++)
        if (cl->peers[i]->io)
            link_check_silence(link, cl->peers[i]->io, now);
    if (now >= link_deadline_ms(link))
        srt_link_expire(link);
}

/*
 * Bytes written to a connection that Redis has closed count as sent, and the outcome of a push would be unknown
 * although Redis never got it. So a connection that was idle is read first, which shows that it is closed.
 */
static void link_note_operation(seriatim_link *link)
{
    srt_cluster *cl = &link->client->cluster;
    int64_t now;
    size_t i;
    if (link->begun == link->client->begun)
        return;
    now = srt_clock_ms();
    link->begun = link->client->begun;
    link->first_ms = link->began_ms = now;
    link->asleep_ms = link->look_up_ms = 0;
    srt_error_clear(&link->last);
    for (i = 0; i < cl->peer_count; i++) {
        link_way *way = cl->peers[i]->io;
        int was_idle = way && way->phase == LINK_UP && now - way->heard_ms > LINK_IDLE_MS;
        if (way)
            way->heard_ms = now;
        if (was_idle)
            srt_link_read(link, way);
        cl->peers[i]->heard_ms = now; /* the operation was begun by the clock of the last step, which may be long ago */
    }
}

/* ---- Sleep --------------------------------------------------------------------------------- */

static int64_t link_awake_ms(const seriatim_link *link)
{
    int64_t sleep = srt_client_sleeps(link->client);
    return sleep >= 0 && link->asleep_ms ? link->asleep_ms + sleep : INT64_MAX;
}

static void link_hear_anew(seriatim_link *link, int64_t now)
{
    srt_cluster *cl = &link->client->cluster;
    size_t i;
    for (i = 0; i < cl->peer_count; i++) {
        cl->peers[i]->heard_ms = now;
        if (cl->peers[i]->io)
            ((link_way *)cl->peers[i]->io)->heard_ms = now;
    }
}

/*
 * Goes on with an operation that sleeps: a message or the end of its time wakes it. The limit begins again, unless it
 * slept because shards were not ready for its requests: that may last for ever.
 */
static void link_sleep(seriatim_link *link)
{
    int64_t now = srt_clock_ms(), began = srt_client_repeats(link->client) ? link->began_ms : 0;
    if (!link->asleep_ms)
        link->asleep_ms = now;
    link->client->spent_ms = now - link->first_ms;
    srt_subscriber_step(&link->subscriber, link->input, sizeof link->input);
    now = srt_clock_ms();
    link->client->spent_ms = now - link->first_ms;
    if (now >= link_awake_ms(link))
        srt_client_wake(link->client);
    if (srt_client_sleeps(link->client) < 0) {
        link->asleep_ms = 0;
        link_hear_anew(link, now);
        link->began_ms = began ? began : now;
    }
}

/*
 * An operation that begins to sleep listens at once, so that the host waits for the right socket. What it sends when it
 * is woken by that is written in the same step: the host waits for an answer then. Without a connection to listen on,
 * the link has no socket now, so the host makes the next step, which may ask the resolver, where it may block.
 */
static void link_fall_asleep(seriatim_link *link)
{
    while (srt_client_sleeps(link->client) >= 0 && !link->asleep_ms && srt_subscriber_transport(&link->subscriber)) {
        link_sleep(link);
        if (srt_client_sleeps(link->client) < 0 && srt_client_status(link->client) == SERIATIM_AGAIN &&
            !srt_link_visitor_has_left(link))
            srt_link_exchange(link);
    }
}

/* Watches the ways to the masters of a cluster. Without a descriptor the host waits for the timeout. */
static void link_watch(seriatim_link *link)
{
    const srt_cluster *cl = &link->client->cluster;
    void *watched = link->watched;
    size_t i, count = 0;
    if (!cl->many || srt_client_status(link->client) != SERIATIM_AGAIN)
        return;
    if (srt_grow(link->mem, &watched, &link->watched_cap, cl->peer_count, sizeof *link->watched) != SERIATIM_OK) {
        srt_watch_close(&link->watch);
        return;
    }
    link->watched = watched;
    for (i = 0; i < cl->peer_count; i++) {
        const link_way *way = cl->peers[i]->io;
        if (!way || way->phase == LINK_DOWN)
            continue;
        link->watched[count].fd = srt_transport_fd(way->transport);
        link->watched[count++].wants = srt_transport_wants(way->transport);
    }
    if (count == 0 || srt_watch_set(&link->watch, link->watched, count) != SERIATIM_OK)
        srt_watch_close(&link->watch);
}

int seriatim_link_step(seriatim_link *link)
{
    link->may_resolve = srt_link_may_resolve(link);
    link_before_begin(link);
    if (srt_client_status(link->client) != SERIATIM_AGAIN)
        return srt_client_status(link->client);
    link_note_operation(link);
    if (srt_client_sleeps(link->client) >= 0)
        link_sleep(link);
    if (srt_client_status(link->client) != SERIATIM_AGAIN)
        return srt_client_status(link->client);
    srt_cluster_tick(&link->client->cluster, srt_clock_ms());
    if (srt_link_visitor_has_left(link))
        srt_link_leave_with_visitor(link);
    else
        srt_link_exchange(link);
    link_fall_asleep(link);
    if (srt_client_sleeps(link->client) < 0 && srt_client_status(link->client) == SERIATIM_AGAIN)
        link_check_limits(link);
    srt_link_show_progress(link);
    link_watch(link);
    return srt_client_status(link->client);
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* What the host waits for. NULL: only for the timeout, or for the masters of a cluster. */
static srt_transport *link_awaited(const seriatim_link *link)
{
    const link_way *way = srt_link_first_way(link);
    if (srt_client_sleeps(link->client) >= 0)
        return srt_subscriber_transport(&link->subscriber);
    return link->client->cluster.many || way->phase == LINK_DOWN ? NULL : way->transport;
}

/* Is there a socket to a master? */
static int link_has_socket(const seriatim_link *link)
{
    const srt_cluster *cl = &link->client->cluster;
    size_t i;
    for (i = 0; i < cl->peer_count; i++) {
        const link_way *way = cl->peers[i]->io;
        if (way && way->phase != LINK_DOWN)
            return 1;
    }
    return 0;
}

static int link_watches(const seriatim_link *link)
{
    return link->client->cluster.many && srt_client_sleeps(link->client) < 0 && srt_watch_fd(&link->watch) >= 0;
}

int seriatim_link_fd(const seriatim_link *link)
{
    const srt_transport *awaited = link_awaited(link);
    if (awaited)
        return srt_transport_fd(awaited);
    return link_watches(link) ? srt_watch_fd(&link->watch) : -1;
}

/* A socket that connects may be that of one sentinel of several, or of a sentinel that names the master. */
int srt_link_may_resolve(const seriatim_link *link)
{
    const srt_cluster *cl = &link->client->cluster;
    size_t i;
    if (link->subscriber.connecting || seriatim_link_fd(link) < 0)
        return 1;
    for (i = 0; i < cl->peer_count; i++) {
        const link_way *way = cl->peers[i]->io;
        if (way && way->phase != LINK_DOWN ? way->phase == LINK_CONNECTING : srt_redis_wanted(cl, cl->peers[i]))
            return 1;
    }
    return 0;
}

int seriatim_link_wants(const seriatim_link *link)
{
    const srt_transport *awaited = link_awaited(link);
    if (awaited)
        return srt_transport_wants(awaited);
    return link_watches(link) ? SERIATIM_WANT_READ : 0;
}

/* When a way to a Redis is to be looked at though it is not ready. */
static int64_t link_way_ms(const seriatim_link *link, const srt_redis *peer)
{
    const link_way *way = peer->io;
    if (way && way->phase != LINK_DOWN)
        return link_earlier(link_silence_ms(link, way), srt_transport_deadline(way->transport));
    if (!srt_redis_wanted(&link->client->cluster, peer))
        return INT64_MAX;
    return way ? way->retry_ms : srt_clock_ms() + 1; /* the next step makes it, unless memory is short */
}

/* When to step again though no socket is ready. */
static int64_t link_next_ms(const seriatim_link *link, int64_t now)
{
    const srt_cluster *cl = &link->client->cluster;
    int64_t next;
    size_t i;
    if (link->begun != link->client->begun)
        return now; /* not stepped yet */
    if (srt_client_sleeps(link->client) >= 0) {
        if (!link->asleep_ms)
            return now;
        next = link_earlier(link_awake_ms(link), srt_subscriber_deadline(&link->subscriber));
    } else {
        next = link_earlier(link_deadline_ms(link), srt_cluster_due_ms(cl));
        for (i = 0; i < cl->peer_count; i++)
            next = link_earlier(next, link_way_ms(link, cl->peers[i]));
        if (cl->many && !link_watches(link) && link_has_socket(link))
            next = link_earlier(next, now + LINK_UNWATCHED_MS);
    }
    return link->client->visitor ? link_earlier(next, now + LINK_VISITOR_MS) : next;
}

int seriatim_link_timeout_ms(const seriatim_link *link)
{
    int64_t now = srt_clock_ms(), next = link_next_ms(link, now);
    if (srt_client_status(link->client) != SERIATIM_AGAIN)
        return -1;
    return next > now ? (int)(next - now) : 0;
}

int seriatim_link_wait(seriatim_link *link)
{
    int watched = link_watches(link) ? srt_watch_fd(&link->watch) : -1;
    int status = srt_transport_wait(link_awaited(link), watched, seriatim_link_timeout_ms(link));
    return status == SERIATIM_AGAIN ? SERIATIM_OK : status;
}

void seriatim_link_reset(seriatim_link *link)
{
    srt_client_give_up(link->client, SERIATIM_CLOSED, "closed while it was under way");
    srt_progress_end(&link->progress);
    srt_link_close_all(link);
    srt_subscriber_close(&link->subscriber);
    srt_link_forget_failures(link);
}

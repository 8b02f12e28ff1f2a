/* link.c - a client with a socket: connects, sends, receives, and connects again. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "io/link.h"

#include "client/client.h"
#include "base/system.h"
#include "io/progress.h"
#include "io/subscriber.h"
#include "net/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINK_CONNECT_MS 5000
#define LINK_SILENCE_MS 15000    /* an open connection on which an answer is missing this long is treated as dead */
#define LINK_FIRST_LIMIT_MS 5000 /* of an operation on a link that was never connected: a wrong URL is told soon */
#define LINK_LIMIT_MS 30000      /* without an answer, of any operation but a push */
#define LINK_IDLE_MS 10          /* a connection unused for longer is read before a write: Redis may have closed it */
#define LINK_VISITOR_MS 100      /* how often a visitor's socket is looked at while Redis is silent */
#define LINK_PAUSE_MS 50
#define LINK_LONGEST_PAUSE_MS 1000

typedef enum link_phase { LINK_DOWN, LINK_CONNECTING, LINK_UP } link_phase;

struct seriatim_link {
    const seriatim_allocator *mem;
    srt_url url;
    srt_bytes text; /* the URL without its password, NUL-terminated */
    srt_bytes from; /* the setting or variable that holds the URL, NUL-terminated; empty: not known */
    seriatim_client *client;
    srt_transport *transport;
    link_phase phase;
    pid_t pid;
    int was_up;
    unsigned failures;       /* connections in a row that gave no answer */
    int64_t retry_ms;        /* LINK_DOWN: when to connect */
    int64_t heard_ms;        /* when bytes last went either way */
    int64_t first_ms;        /* when the operation was first stepped */
    int64_t began_ms;        /* the same, or its last answer */
    uint64_t begun, answers; /* the client's, as last seen */
    int limit_ms, silence_ms;
    uint32_t jitter;
    seriatim_error last; /* why the last connection failed, during this operation */
    srt_progress progress;
    srt_subscriber subscriber; /* used while the operation sleeps, and kept open */
    int64_t asleep_ms;         /* since when the operation sleeps; 0: it does not */
    char input[16 * 1024];
};

/* ---- Life ---------------------------------------------------------------------------------- */

static void link_close(seriatim_link *link)
{
    srt_transport_close(link->transport);
    link->phase = LINK_DOWN;
    link->retry_ms = 0;
}

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
    link_close(link);
    srt_subscriber_close(&link->subscriber);
    link->failures = 0;
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

static int link_init(seriatim_link *link, const seriatim_options *options, const char *url, seriatim_error *error)
{
    unsigned char random[SRT_CLIENT_RANDOM];
    int status = srt_url_parse(&link->url, link->mem, url, strlen(url), error);
    if (status == SERIATIM_OK && link->url.kind == SRT_URL_CLUSTER)
        status = srt_fail(error, SERIATIM_UNSUPPORTED, "Redis URL: the scheme redis+cluster is not supported yet");
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
    link->transport = srt_transport_create(link->mem, &link->url);
    if (link->text.failed || link->from.failed || !link->transport)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    if (link->url.kind == SRT_URL_SENTINEL)
        srt_client_expect_master(link->client);
    link->client->address = srt_transport_address(link->transport);
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
    srt_transport_destroy(link->transport);
    srt_subscriber_free(&link->subscriber);
    seriatim_client_free(link->client);
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

const char *seriatim_link_address(const seriatim_link *link)
{
    return srt_transport_address(link->transport);
}

/* ---- The end of a connection --------------------------------------------------------------- */

/* 0, 50, 100, ... 1,000 ms, each shortened by up to a half, so that many clients do not come back at once. */
static int64_t link_pause_ms(seriatim_link *link)
{
    int64_t pause = LINK_LONGEST_PAUSE_MS;
    if (link->failures == 0)
        return 0;
    if (link->failures <= 5)
        pause = (int64_t)LINK_PAUSE_MS << (link->failures - 1);
    pause = pause < LINK_LONGEST_PAUSE_MS ? pause : LINK_LONGEST_PAUSE_MS;
    link->jitter = link->jitter * 1664525u + 1013904223u;
    return pause - pause * (int64_t)(link->jitter >> 24) / 512;
}

/* The connection has ended. One that had answered before is made anew at once, unless Redis asked for a pause. */
static void link_lose(seriatim_link *link, const seriatim_error *why, int at_once)
{
    link->last = *why;
    srt_client_disconnected(link->client);
    link_close(link);
    if (link->failures == 0 && !at_once)
        link->failures = 1;
    link->retry_ms = srt_clock_ms() + link_pause_ms(link);
    link->failures++;
}

static void link_give_up(seriatim_link *link, const seriatim_error *why)
{
    srt_client_give_up(link->client, why->status, why->message);
    link_close(link);
}

static int link_is_final(int status)
{
    return status == SERIATIM_AUTH || status == SERIATIM_SERVER || status == SERIATIM_INVALID ||
           status == SERIATIM_UNSUPPORTED || status == SERIATIM_NOMEM;
}

/* ---- Connect ------------------------------------------------------------------------------- */

/* Why the transport could not connect, with the link's URL. Returns *why. */
static seriatim_error *link_connect_error(const seriatim_link *link, seriatim_error *why)
{
    static const char verb[] = "connecting to ";
    seriatim_error cause = *srt_transport_error(link->transport);
    const char *reason = cause.message, *at;
    char master[64];
    if (strncmp(reason, verb, sizeof verb - 1) == 0) /* the URL says it already */
        for (at = reason; (at = strstr(at, ": ")) != NULL; reason = at)
            at += 2;
    snprintf(master, sizeof master, "master %.40s", link->url.master ? link->url.master : "");
    if (link->url.kind == SRT_URL_SENTINEL)
        srt_connect_error(why, cause.status, master, cause.message, link->from.data);
    else
        srt_connect_error(why, cause.status, link->text.data, reason, link->from.data);
    return why;
}

static void link_fail_connect(seriatim_link *link)
{
    seriatim_error why;
    if (link_is_final(link_connect_error(link, &why)->status))
        link_give_up(link, &why);
    else
        link_lose(link, &why, 0);
}

static void link_take_connect(seriatim_link *link, int status)
{
    seriatim_error why;
    link->phase = LINK_CONNECTING;
    if (status == SERIATIM_AGAIN)
        return;
    if (status != SERIATIM_OK) {
        link_fail_connect(link);
        return;
    }
    status = srt_client_connected(link->client, link->url.user, link->url.password, link->url.db);
    if (status != SERIATIM_OK) {
        srt_fail_plain(&why, status);
        link_give_up(link, &why);
        return;
    }
    link->phase = LINK_UP;
    link->was_up = 1;
    link->heard_ms = srt_clock_ms();
}

/* ---- Send and receive ---------------------------------------------------------------------- */

static void link_lose_transport(seriatim_link *link)
{
    seriatim_error why = *srt_transport_error(link->transport);
    link_lose(link, &why, 1);
}

/* AGAIN: the socket accepts no more bytes, or nothing is left to send. */
static int link_write(seriatim_link *link)
{
    const char *data;
    size_t len, written;
    int status = SERIATIM_OK;
    if (srt_transport_wants(link->transport) & SERIATIM_WANT_WRITE)
        status = srt_transport_step(link->transport);
    for (srt_client_output(link->client, &data, &len); len && status == SERIATIM_OK;
         srt_client_output(link->client, &data, &len)) {
        status = srt_transport_write(link->transport, data, len, &written);
        if (status == SERIATIM_OK) {
            srt_client_sent(link->client, written);
            link->heard_ms = srt_clock_ms();
        }
    }
    return status == SERIATIM_OK ? SERIATIM_AGAIN : status;
}

static void link_take_input_error(seriatim_link *link, const seriatim_error *why)
{
    if (link_is_final(why->status))
        link_give_up(link, why);
    else
        link_lose(link, why, why->status == SERIATIM_PROTOCOL);
}

static void link_note_answers(seriatim_link *link)
{
    link->heard_ms = srt_clock_ms();
    if (link->answers == link->client->answers)
        return;
    link->answers = link->client->answers;
    link->began_ms = link->heard_ms;
    link->failures = 0;
}

/* ---- Progress ------------------------------------------------------------------------------ */

int seriatim_link_progress(seriatim_link *link, int fd, const char *what, size_t len, int64_t total)
{
    return srt_progress_begin(&link->progress, fd, what, len, total);
}

/* Called after each answer, so that the progress is drawn while one step takes many answers. */
static void link_show_progress(seriatim_link *link)
{
    const seriatim_client *c = link->client;
    srt_done done;
    if (!link->progress.on || !c->operation || !c->operation->done)
        return;
    if (srt_client_status(c) != SERIATIM_AGAIN) {
        srt_progress_end(&link->progress);
        return;
    }
    done = c->operation->done(c);
    if (done.unit)
        srt_progress_show(&link->progress, &done, srt_clock_ms());
}

/* Called before an answer is taken, because the client may then send a command that blocks, such as WAIT. */
static void link_tell_left(seriatim_link *link)
{
    int64_t limit = srt_client_whole_ms(link->client);
    link->client->spent_ms = srt_clock_ms() - link->first_ms;
    if (limit)
        srt_client_tell_left(link->client, link->first_ms + limit - srt_clock_ms());
}

/*
 * OK: bytes came. AGAIN: no more bytes for now. CLOSED: the connection has ended, and its requests are kept for the
 * next.
 */
static int link_read(seriatim_link *link)
{
    seriatim_error why;
    size_t got;
    int status = srt_transport_read(link->transport, link->input, sizeof link->input, &got);
    if (status == SERIATIM_AGAIN)
        return status;
    if (status != SERIATIM_OK) {
        link_lose_transport(link);
        return SERIATIM_CLOSED;
    }
    link_tell_left(link);
    status = srt_client_input(link->client, link->input, got, &why);
    link_note_answers(link);
    link_show_progress(link);
    if (status == SERIATIM_OK)
        return SERIATIM_OK;
    link_take_input_error(link, &why);
    return SERIATIM_CLOSED;
}

/* Unread bytes hide an end. */
static int link_visitor_has_left(const seriatim_link *link)
{
    char byte;
    ssize_t got;
    if (link->client->visitor <= 0)
        return 0;
    got = recv(link->client->visitor, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 ||
           (got < 0 && (errno == ECONNRESET || errno == ECONNABORTED || errno == EPIPE || errno == ETIMEDOUT));
}

/* What waits for an answer may have been heard; nothing more is sent. */
static void link_leave_with_visitor(seriatim_link *link)
{
    seriatim_error why;
    srt_fail(&why, SERIATIM_CLOSED, "the client closed its connection before the answer");
    link_give_up(link, &why);
}

static void link_exchange(seriatim_link *link)
{
    int status;
    do {
        status = link_write(link);
        if (status != SERIATIM_AGAIN) {
            link_lose_transport(link);
            return;
        }
        status = link_read(link);
    } while (status == SERIATIM_OK && srt_client_status(link->client) == SERIATIM_AGAIN &&
             !link_visitor_has_left(link));
}

/* ---- Time ---------------------------------------------------------------------------------- */

static int64_t link_deadline_ms(const seriatim_link *link)
{
    int64_t whole = srt_client_whole_ms(link->client), limit = whole ? whole : link->limit_ms;
    if (link->client->limit_ms && link->client->limit_ms < link->limit_ms)
        return link->began_ms + link->client->limit_ms;
    limit = link->was_up || limit < LINK_FIRST_LIMIT_MS ? limit : LINK_FIRST_LIMIT_MS;
    return (whole ? link->first_ms : link->began_ms) + limit;
}

static int64_t link_silence_ms(const seriatim_link *link)
{
    return link->phase == LINK_UP && srt_client_waits(link->client) ? link->heard_ms + link->silence_ms : INT64_MAX;
}

static void link_check_limits(seriatim_link *link)
{
    seriatim_error why;
    int64_t now = srt_clock_ms();
    if (now >= link_silence_ms(link)) {
        srt_fail(&why, SERIATIM_TIMEOUT, "no answer from %.180s for %d ms", link->text.data, link->silence_ms);
        link_lose(link, &why, 1);
    }
    if (now < link_deadline_ms(link))
        return;
    why = link->last;
    if (why.status == SERIATIM_OK && link->phase == LINK_CONNECTING) {
        srt_transport_expire(link->transport);
        link_connect_error(link, &why);
    } else if (why.status == SERIATIM_OK) {
        srt_fail(&why, SERIATIM_TIMEOUT, "waiting for an answer from %.180s: timed out", link->text.data);
        if (link->phase != LINK_UP)
            srt_connect_error(&why, SERIATIM_TIMEOUT, link->text.data, "timed out", link->from.data);
    }
    link_give_up(link, &why);
}

/*
 * Bytes written to a connection that Redis has closed count as sent, and the outcome of a push would be unknown
 * although Redis never got it. So a connection that was idle is read first, which shows that it is closed.
 */
static void link_note_operation(seriatim_link *link)
{
    int64_t now;
    int was_idle;
    if (link->begun == link->client->begun)
        return;
    now = srt_clock_ms();
    was_idle = now - link->heard_ms > LINK_IDLE_MS;
    link->begun = link->client->begun;
    link->first_ms = link->began_ms = link->heard_ms = now;
    link->asleep_ms = 0;
    srt_error_clear(&link->last);
    if (link->phase == LINK_UP && was_idle)
        link_read(link);
}

/* ---- Sleep --------------------------------------------------------------------------------- */

static int64_t link_awake_ms(const seriatim_link *link)
{
    int64_t sleep = srt_client_sleeps(link->client);
    return sleep >= 0 && link->asleep_ms ? link->asleep_ms + sleep : INT64_MAX;
}

/* Goes on with an operation that sleeps: a message or the end of its time wakes it. */
static void link_sleep(seriatim_link *link)
{
    int64_t now = srt_clock_ms();
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
        link->began_ms = link->heard_ms = now;
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
        if (srt_client_sleeps(link->client) < 0 && link->phase == LINK_UP &&
            srt_client_status(link->client) == SERIATIM_AGAIN && !link_visitor_has_left(link))
            link_exchange(link);
    }
}

int seriatim_link_step(seriatim_link *link)
{
    link_before_begin(link);
    if (srt_client_status(link->client) != SERIATIM_AGAIN)
        return srt_client_status(link->client);
    link_note_operation(link);
    if (srt_client_sleeps(link->client) >= 0)
        link_sleep(link);
    if (srt_client_status(link->client) != SERIATIM_AGAIN)
        return srt_client_status(link->client);
    if (link_visitor_has_left(link))
        link_leave_with_visitor(link);
    else if (link->phase == LINK_DOWN && srt_clock_ms() >= link->retry_ms)
        link_take_connect(link, srt_transport_connect(link->transport, LINK_CONNECT_MS));
    else if (link->phase == LINK_CONNECTING)
        link_take_connect(link, srt_transport_step(link->transport));
    if (link->phase == LINK_UP && srt_client_status(link->client) == SERIATIM_AGAIN)
        link_exchange(link);
    link_fall_asleep(link);
    if (srt_client_sleeps(link->client) < 0 && srt_client_status(link->client) == SERIATIM_AGAIN)
        link_check_limits(link);
    link_show_progress(link);
    return srt_client_status(link->client);
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* What the host waits for. NULL: only for the timeout. */
static srt_transport *link_awaited(const seriatim_link *link)
{
    if (srt_client_sleeps(link->client) >= 0)
        return srt_subscriber_transport(&link->subscriber);
    return link->phase == LINK_DOWN ? NULL : link->transport;
}

int seriatim_link_fd(const seriatim_link *link)
{
    const srt_transport *awaited = link_awaited(link);
    return awaited ? srt_transport_fd(awaited) : -1;
}

int seriatim_link_wants(const seriatim_link *link)
{
    const srt_transport *awaited = link_awaited(link);
    return awaited ? srt_transport_wants(awaited) : 0;
}

static int64_t link_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When to step again though no socket is ready. */
static int64_t link_next_ms(const seriatim_link *link, int64_t now)
{
    int64_t next;
    if (link->begun != link->client->begun)
        return now; /* not stepped yet */
    if (srt_client_sleeps(link->client) >= 0) {
        if (!link->asleep_ms)
            return now;
        next = link_earlier(link_awake_ms(link), srt_subscriber_deadline(&link->subscriber));
    } else {
        next = link_earlier(link_deadline_ms(link), link_silence_ms(link));
        next = link_earlier(next, link->phase == LINK_DOWN ? link->retry_ms : srt_transport_deadline(link->transport));
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
    int status = srt_transport_wait(link_awaited(link), -1, seriatim_link_timeout_ms(link));
    return status == SERIATIM_AGAIN ? SERIATIM_OK : status;
}

void seriatim_link_reset(seriatim_link *link)
{
    srt_client_give_up(link->client, SERIATIM_CLOSED, "closed while it was under way");
    srt_progress_end(&link->progress);
    link_close(link);
    srt_subscriber_close(&link->subscriber);
    link->failures = 0;
}

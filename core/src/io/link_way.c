/* link_way.c - the connections of a link: connects, writes and reads, and connects again. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "io/link_state.h"

#include "base/system.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define LINK_CONNECT_MS 5000
#define LINK_PAUSE_MS 50
#define LINK_LONGEST_PAUSE_MS 1000

/* ---- Life ---------------------------------------------------------------------------------- */

link_way *srt_link_way_to(seriatim_link *link, srt_redis *peer)
{
    link_way *way = peer->io;
    if (way)
        return way;
    way = srt_alloc(link->mem, sizeof *way);
    if (!way)
        return NULL;
    way->transport = srt_transport_create(link->mem, &link->url);
    if (!way->transport) {
        srt_free(link->mem, way, sizeof *way);
        return NULL;
    }
    if (peer->host)
        srt_transport_aim(way->transport, peer->host, peer->port);
    way->peer = peer;
    peer->io = way;
    return way;
}

void srt_link_free_way(void *host, srt_redis *peer)
{
    seriatim_link *link = host;
    link_way *way = peer->io;
    if (!way)
        return;
    srt_transport_destroy(way->transport);
    srt_free(link->mem, way, sizeof *way);
    peer->io = NULL;
}

static void link_close(link_way *way)
{
    srt_transport_close(way->transport);
    way->phase = LINK_DOWN;
    way->retry_ms = 0;
}

void srt_link_close_all(seriatim_link *link)
{
    srt_cluster *cl = &link->client->cluster;
    size_t i;
    for (i = 0; i < cl->peer_count; i++)
        if (cl->peers[i]->io)
            link_close(cl->peers[i]->io);
}

void srt_link_forget_failures(seriatim_link *link)
{
    srt_cluster *cl = &link->client->cluster;
    size_t i;
    for (i = 0; i < cl->peer_count; i++)
        if (cl->peers[i]->io)
            ((link_way *)cl->peers[i]->io)->failures = 0;
}

link_way *srt_link_first_way(const seriatim_link *link)
{
    return link->client->cluster.peers[0]->io;
}

/* ---- The end of a connection --------------------------------------------------------------- */

/* 0, 50, 100, ... 1,000 ms, each shortened by up to a half, so that many clients do not come back at once. */
static int64_t link_pause_ms(seriatim_link *link, const link_way *way)
{
    int64_t pause = LINK_LONGEST_PAUSE_MS;
    if (way->failures == 0)
        return 0;
    if (way->failures <= 5)
        pause = (int64_t)LINK_PAUSE_MS << (way->failures - 1);
    pause = pause < LINK_LONGEST_PAUSE_MS ? pause : LINK_LONGEST_PAUSE_MS;
    link->jitter = link->jitter * 1664525u + 1013904223u;
    return pause - pause * (int64_t)(link->jitter >> 24) / 512;
}

void srt_link_lose(seriatim_link *link, link_way *way, const seriatim_error *why, int at_once)
{
    link->last = *why;
    link_close(way);
    if (way->failures == 0 && !at_once)
        way->failures = 1;
    way->retry_ms = srt_clock_ms() + link_pause_ms(link, way);
    way->failures++;
    srt_client_peer_disconnected(link->client, way->peer);
}

void srt_link_give_up(seriatim_link *link, const seriatim_error *why)
{
    srt_client_give_up(link->client, why->status, why->message);
    srt_link_close_all(link);
}

static int link_is_final(int status)
{
    return status == SERIATIM_AUTH || status == SERIATIM_SERVER || status == SERIATIM_INVALID ||
           status == SERIATIM_UNSUPPORTED || status == SERIATIM_NOMEM;
}

/* ---- Connect ------------------------------------------------------------------------------- */

seriatim_error *srt_link_connect_error(const seriatim_link *link, const link_way *way, seriatim_error *why)
{
    static const char verb[] = "connecting to ";
    seriatim_error cause = *srt_transport_error(way->transport);
    const char *reason = cause.message, *at;
    char master[64];
    if (!link->client->cluster.many && strncmp(reason, verb, sizeof verb - 1) == 0) /* the URL says it already */
        for (at = reason; (at = strstr(at, ": ")) != NULL; reason = at)
            at += 2;
    snprintf(master, sizeof master, "master %.40s", link->url.master ? link->url.master : "");
    if (link->url.kind == SRT_URL_SENTINEL)
        srt_connect_error(why, cause.status, master, cause.message, link->from.data);
    else
        srt_connect_error(why, cause.status, link->text.data, reason, link->from.data);
    return why;
}

static void link_fail_connect(seriatim_link *link, link_way *way)
{
    seriatim_error why;
    if (link_is_final(srt_link_connect_error(link, way, &why)->status))
        srt_link_give_up(link, &why);
    else
        srt_link_lose(link, way, &why, 0);
}

static void link_take_connect(seriatim_link *link, link_way *way, int status)
{
    seriatim_error why;
    way->phase = LINK_CONNECTING;
    if (status == SERIATIM_AGAIN)
        return;
    if (status != SERIATIM_OK) {
        link_fail_connect(link, way);
        return;
    }
    status = srt_client_peer_connected(link->client, way->peer, link->url.user, link->url.password, link->url.db);
    if (status != SERIATIM_OK) {
        srt_fail_plain(&why, status);
        srt_link_give_up(link, &why);
        return;
    }
    way->phase = LINK_UP;
    link->was_up = 1;
    way->heard_ms = srt_clock_ms();
}

/* ---- Send and receive ---------------------------------------------------------------------- */

static void link_lose_transport(seriatim_link *link, link_way *way)
{
    seriatim_error why = *srt_transport_error(way->transport);
    srt_link_lose(link, way, &why, 1);
}

/* AGAIN: the socket accepts no more bytes, or nothing is left to send. */
static int link_write(link_way *way)
{
    srt_session *session = &way->peer->commands;
    const char *data;
    size_t len, written;
    int status = SERIATIM_OK;
    if (srt_transport_wants(way->transport) & SERIATIM_WANT_WRITE)
        status = srt_transport_step(way->transport);
    for (srt_session_output(session, &data, &len); len && status == SERIATIM_OK;
         srt_session_output(session, &data, &len)) {
        status = srt_transport_write(way->transport, data, len, &written);
        if (status == SERIATIM_OK) {
            srt_session_sent(session, written);
            way->heard_ms = srt_clock_ms();
        }
    }
    return status == SERIATIM_OK ? SERIATIM_AGAIN : status;
}

static void link_take_input_error(seriatim_link *link, link_way *way, const seriatim_error *why)
{
    if (link_is_final(why->status))
        srt_link_give_up(link, why);
    else
        srt_link_lose(link, way, why, why->status == SERIATIM_PROTOCOL);
}

static void link_note_answers(seriatim_link *link, link_way *way)
{
    way->heard_ms = srt_clock_ms();
    if (link->answers == link->client->answers)
        return;
    link->answers = link->client->answers;
    link->began_ms = way->heard_ms;
    way->failures = 0;
    srt_transport_served(way->transport);
}

/* ---- Progress ------------------------------------------------------------------------------ */

/* Called after each answer, so that the progress is drawn while one step takes many answers. */
void srt_link_show_progress(seriatim_link *link)
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

int srt_link_read(seriatim_link *link, link_way *way)
{
    seriatim_error why;
    size_t got;
    int status = srt_transport_read(way->transport, link->input, sizeof link->input, &got);
    if (status == SERIATIM_AGAIN)
        return status;
    if (status != SERIATIM_OK) {
        link_lose_transport(link, way);
        return SERIATIM_CLOSED;
    }
    link_tell_left(link);
    status = srt_client_peer_input(link->client, way->peer, link->input, got, &why);
    link_note_answers(link, way);
    srt_link_show_progress(link);
    if (status == SERIATIM_OK)
        return SERIATIM_OK;
    link_take_input_error(link, way, &why);
    return SERIATIM_CLOSED;
}

/* Unread bytes hide an end. */
int srt_link_visitor_has_left(const seriatim_link *link)
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
void srt_link_leave_with_visitor(seriatim_link *link)
{
    seriatim_error why;
    srt_fail(&why, SERIATIM_CLOSED, "the client closed its connection before the answer");
    srt_link_give_up(link, &why);
}

/* OK: it has read everything that came. CLOSED: the connection has ended. */
static int link_exchange_with(seriatim_link *link, link_way *way)
{
    int status;
    do {
        status = link_write(way);
        if (status != SERIATIM_AGAIN) {
            link_lose_transport(link, way);
            return SERIATIM_CLOSED;
        }
        status = srt_link_read(link, way);
    } while (status == SERIATIM_OK && srt_client_status(link->client) == SERIATIM_AGAIN &&
             !srt_link_visitor_has_left(link));
    return status == SERIATIM_AGAIN ? SERIATIM_OK : status;
}

/*
 * Connects, if it is to be. A way that is lost or wanted during a step which the host was told to look up nothing is
 * left to the next one.
 */
static void link_approach(seriatim_link *link, link_way *way)
{
    srt_cluster *cl = &link->client->cluster;
    int64_t now = srt_clock_ms();
    int status;
    if (way->phase == LINK_DOWN && link->may_resolve && now >= way->retry_ms && srt_redis_wanted(cl, way->peer))
        status = srt_transport_connect(way->transport, srt_redis_connect_ms(cl, way->peer, LINK_CONNECT_MS));
    else if (way->phase == LINK_CONNECTING)
        status = srt_transport_step(way->transport);
    else
        return;
    srt_redis_connecting(cl, way->peer, srt_transport_began(way->transport));
    if (srt_transport_began(way->transport) - now > link->look_up_ms)
        link->look_up_ms = srt_transport_began(way->transport) - now;
    link_take_connect(link, way, status);
}

/* Of a cluster a connection that is not wanted any more is closed. */
static void link_leave(seriatim_link *link, link_way *way)
{
    if (way->phase == LINK_DOWN || srt_redis_wanted(&link->client->cluster, way->peer))
        return;
    link_close(way);
    srt_client_peer_disconnected(link->client, way->peer);
}

/* What one master has answered may be for another to do: so until none has anything to send. */
void srt_link_exchange(seriatim_link *link)
{
    srt_cluster *cl = &link->client->cluster;
    size_t i, left;
    do {
        left = 0;
        for (i = 0; i < cl->peer_count && srt_client_status(link->client) == SERIATIM_AGAIN; i++) {
            link_way *way = srt_link_way_to(link, cl->peers[i]);
            if (!way)
                continue;
            link_leave(link, way);
            link_approach(link, way);
            if (way->phase == LINK_UP && srt_client_status(link->client) == SERIATIM_AGAIN)
                link_exchange_with(link, way);
        }
        if (cl->many && srt_client_status(link->client) == SERIATIM_AGAIN && !srt_link_visitor_has_left(link)) {
            srt_cluster_tick(cl, srt_clock_ms());
            for (i = 0; i < cl->peer_count; i++) {
                const link_way *way = cl->peers[i]->io;
                left += way && way->phase == LINK_UP && way->peer->commands.out.len > 0 &&
                        !(srt_transport_wants(way->transport) & SERIATIM_WANT_WRITE);
            }
        }
    } while (left > 0);
}

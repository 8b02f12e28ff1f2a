/* cluster_map.c - which peer has which slot: asks with CLUSTER SLOTS, and asks again while something is wrong. */
#include "wire/cluster.h"

#include <stdlib.h>
#include <string.h>

#define MAP_LONGEST_PAUSE_MS 1000

/* ---- Reading --------------------------------------------------------------------------------- */

/* The token behind this one and all that it holds. */
static const srt_token *map_behind(const srt_token *t)
{
    int64_t left = 1;
    for (; left > 0; left--, t++)
        if (t->type == SRT_ARRAY)
            left += t->integer;
    return t;
}

static int map_is_slot(const srt_token *t)
{
    return t->type == SRT_INTEGER && t->integer >= 0 && t->integer < SRT_SLOTS;
}

/* [first, last, [host, port, ...], ...] */
static int map_is_range(const srt_token *t)
{
    return t[0].type == SRT_ARRAY && t[0].integer >= 3 && map_is_slot(&t[1]) && map_is_slot(&t[2]) &&
           t[1].integer <= t[2].integer && t[3].type == SRT_ARRAY && t[3].integer >= 2 &&
           (t[4].type == SRT_STRING || t[4].type == SRT_NIL) && t[5].type == SRT_INTEGER && t[5].integer > 0 &&
           t[5].integer <= 65535;
}

/* A server that does not know its own address names none: it is the one that answered. */
static srt_redis *map_named(srt_cluster *cl, const srt_redis *from, const char *host, size_t len, int port)
{
    if (len == 0 || (len == 1 && *host == '?')) {
        host = from->host;
        len = strlen(host);
    }
    return srt_cluster_find(cl, host, len, port);
}

static int map_check(srt_cluster *cl, const srt_redis *from, const srt_reply *reply)
{
    const srt_token *at = reply->tokens, *end = at + reply->count;
    if (at->type != SRT_ARRAY)
        return SERIATIM_PROTOCOL;
    for (at++; at < end; at = map_behind(at)) {
        if (end - at < 6 || !map_is_range(at))
            return SERIATIM_PROTOCOL;
        if (!map_named(cl, from, at[4].data, at[4].len, (int)at[5].integer))
            return SERIATIM_NOMEM;
    }
    return SERIATIM_OK;
}

static int map_take(srt_cluster *cl, const srt_redis *from, const srt_reply *reply, seriatim_error *error)
{
    const srt_token *at = reply->tokens + 1, *end = reply->tokens + reply->count;
    unsigned char covered[SRT_SLOTS / 8] = {0};
    int status = map_check(cl, from, reply);
    unsigned slot;
    if (status == SERIATIM_PROTOCOL)
        return srt_fail(error, status, "the answer to CLUSTER SLOTS cannot be read");
    if (status != SERIATIM_OK)
        return srt_fail_plain(error, status);
    for (; at < end; at = map_behind(at)) {
        srt_redis *p = map_named(cl, from, at[4].data, at[4].len, (int)at[5].integer);
        for (slot = (unsigned)at[1].integer; slot <= (unsigned)at[2].integer; slot++) {
            srt_cluster_set_owner(cl, slot, p);
            covered[slot / 8] |= (unsigned char)(1u << slot % 8);
        }
    }
    for (slot = 0; slot < SRT_SLOTS; slot++)
        if (!(covered[slot / 8] & (1u << slot % 8)))
            srt_cluster_set_owner(cl, slot, NULL);
    return SERIATIM_OK;
}

/*
 * A node that has met no other, or that was removed from the cluster, knows no slots. Its answer says nothing about
 * the cluster, so another is asked, as after LOADING.
 */
static int map_check_knowledge(const srt_redis *from, const srt_reply *reply, seriatim_error *error)
{
    char address[300];
    if (reply->tokens[0].type != SRT_ARRAY || reply->tokens[0].integer > 0)
        return SERIATIM_OK;
    srt_redis_address(from, address, sizeof address);
    return srt_fail(error, SERIATIM_LOADING, "%.180s knows no slots: it has joined no cluster, or the cluster has none",
                    address);
}

/* "MOVED 3999 127.0.0.1:6381", "ASK 3999 ::1:6381", "MOVED 3999 :6381" */
srt_redis *srt_cluster_read_redirect(srt_cluster *cl, srt_redis *from, const char *text, unsigned *slot)
{
    const char *number = strchr(text, ' '), *host, *colon;
    char *end;
    unsigned long value, port;
    if (!number)
        return NULL;
    value = strtoul(number + 1, &end, 10);
    colon = strrchr(text, ':');
    if (value >= SRT_SLOTS || *end != ' ' || !colon || colon < end + 1)
        return NULL;
    host = end + 1;
    port = strtoul(colon + 1, &end, 10);
    if (port < 1 || port > 65535)
        return NULL;
    *slot = (unsigned)value;
    return map_named(cl, from, host, (size_t)(colon - host), (int)port);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static int map_peer_is_up(const srt_redis *p)
{
    return p->commands.connected && !p->closing && !p->silent;
}

static int map_peer_may_come(const srt_redis *p)
{
    return p->slots > 0 && !p->away && !p->closing && !p->silent;
}

/* The next peer that is so; NULL: none is, or all were asked without success. */
static srt_redis *map_choose_peer(srt_cluster *cl, int (*fits)(const srt_redis *p))
{
    size_t i, at;
    for (i = 0; i < cl->peer_count && cl->unanswered < cl->peer_count; i++) {
        at = (cl->turn + i) % cl->peer_count;
        if (fits(cl->peers[at])) {
            cl->turn = at + 1;
            return cl->peers[at];
        }
    }
    return NULL;
}

static srt_redis *map_known(const srt_cluster *cl, const srt_seed *seed)
{
    size_t i;
    for (i = 0; i < cl->peer_count; i++)
        if (cl->peers[i]->port == seed->port && strcmp(cl->peers[i]->host, seed->host) == 0)
            return cl->peers[i];
    return NULL;
}

/* Who has a connection, else masters that were not lost, else all known addresses in turn. NULL: out of memory. */
static srt_redis *map_choose(srt_cluster *cl)
{
    srt_redis *p = cl->map_hint;
    size_t at;
    cl->map_hint = NULL;
    if (p && map_peer_is_up(p))
        return p;
    if ((p = map_choose_peer(cl, map_peer_is_up)) || (p = map_choose_peer(cl, map_peer_may_come)))
        return p;
    for (;;) {
        at = cl->turn++ % (cl->peer_count + cl->seed_count);
        if (at < cl->peer_count)
            return cl->peers[at];
        at -= cl->peer_count;
        if (!map_known(cl, &cl->seeds[at]))
            return srt_cluster_find(cl, cl->seeds[at].host, strlen(cl->seeds[at].host), cl->seeds[at].port);
    }
}

int srt_cluster_map_ask(srt_cluster *cl)
{
    srt_redis *p = map_choose(cl);
    srt_request *r = p ? srt_session_begin(srt_cluster_pool(cl), srt_script_none, NULL, 0) : NULL;
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_text(r, "CLUSTER");
    srt_request_text(r, "SLOTS");
    srt_request_route(r, SRT_ROUTE_MAP, p);
    r->slot = -1;
    if (p->commands.waiting == 0)
        p->heard_ms = cl->now_ms;
    if (srt_session_send(&p->commands, r) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    cl->map_request = r;
    cl->map_peer = p;
    cl->asked_ms = cl->now_ms;
    return SERIATIM_OK;
}

/* All addresses are asked at once, one after another; then there is a pause. */
void srt_cluster_map_failed(srt_cluster *cl)
{
    size_t all = cl->peer_count + cl->seed_count;
    cl->map_request = NULL;
    cl->map_peer = NULL;
    cl->unanswered++;
    if (cl->unanswered % all != 0)
        return;
    cl->ask_ms = cl->now_ms + cl->pause_ms;
    cl->pause_ms = 2 * cl->pause_ms < MAP_LONGEST_PAUSE_MS ? 2 * cl->pause_ms : MAP_LONGEST_PAUSE_MS;
}

/* It stays where it is until its answer comes, if it was sent; nobody waits for that. */
void srt_cluster_map_abandon(srt_cluster *cl)
{
    srt_session *s = &cl->map_peer->commands;
    srt_request *r, *before = NULL;
    for (r = s->first; r && r != cl->map_request; r = r->next)
        before = r;
    if (r && !r->encoded) {
        srt_session_take(s, r, before);
        srt_cluster_done(cl, r);
    }
    cl->map_peer->silent = cl->map_peer->commands.connected;
    srt_cluster_map_failed(cl);
}

int srt_cluster_map_answered(srt_cluster *cl, srt_redis *p, srt_request *r, const srt_reply *reply,
                             seriatim_error *error)
{
    int current = r == cl->map_request, status = srt_reply_status(&reply->tokens[0], error);
    uint64_t epoch = cl->epoch;
    srt_cluster_done(cl, r);
    if (!current)
        return SERIATIM_OK;
    if (status == SERIATIM_OK)
        status = map_check_knowledge(p, reply, error);
    if (status == SERIATIM_LOADING || status == SERIATIM_READONLY) {
        cl->last = *error;
        srt_cluster_map_failed(cl);
        return SERIATIM_OK;
    }
    cl->map_request = NULL;
    cl->map_peer = NULL;
    if (status == SERIATIM_OK)
        status = map_take(cl, p, reply, error);
    if (status != SERIATIM_OK)
        return status;
    cl->map = SRT_MAP_FRESH;
    cl->unanswered = 0;
    cl->pause_ms =
        epoch == cl->epoch && 2 * cl->pause_ms < MAP_LONGEST_PAUSE_MS ? 2 * cl->pause_ms : SRT_CLUSTER_ASK_MS;
    cl->ask_ms = cl->asked_ms + cl->pause_ms;
    if (srt_cluster_rehome(cl) != SERIATIM_OK)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    return SERIATIM_OK;
}

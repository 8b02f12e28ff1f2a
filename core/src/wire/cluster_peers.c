/* cluster_peers.c - the peers of a cluster and their slots, and which request goes to which. */
#include "wire/cluster.h"

#include <stdio.h>
#include <string.h>

#define CLUSTER_FIRST_PAUSE_MS 10
#define CLUSTER_LONGEST_PAUSE_MS 200
#define SCAN_ROUNDS 3

/* ---- Lists of requests ----------------------------------------------------------------------- */

static void list_append(srt_request_list *list, srt_request *r)
{
    r->next = NULL;
    r->session = NULL;
    if (list->last)
        list->last->next = r;
    else
        list->first = r;
    list->last = r;
    list->count++;
}

static srt_request *list_shift(srt_request_list *list)
{
    srt_request *r = list->first;
    list->first = r->next;
    if (!list->first)
        list->last = NULL;
    list->count--;
    r->next = NULL;
    return r;
}

static void list_drop(srt_cluster *cl, srt_request_list *list)
{
    while (list->first)
        srt_cluster_done(cl, list_shift(list));
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void cluster_free_text(const srt_cluster *cl, char *text)
{
    if (text)
        srt_free(cl->mem, text, strlen(text) + 1);
}

static char *cluster_copy(const srt_cluster *cl, const char *text, size_t len)
{
    char *copy = srt_alloc(cl->mem, len + 1);
    if (copy)
        memcpy(copy, text, len);
    return copy;
}

static void peer_free(srt_cluster *cl, srt_redis *p)
{
    if (cl->on_drop)
        cl->on_drop(cl->host, p);
    if (p->commands.mem)
        srt_session_free(&p->commands);
    if (p->wakes.mem)
        srt_session_free(&p->wakes);
    cluster_free_text(cl, p->host);
    srt_free(cl->mem, p, sizeof *p);
}

static srt_redis *cluster_add(srt_cluster *cl, const char *host, size_t len, int port)
{
    void *peers = cl->peers;
    srt_redis *p;
    if (srt_grow(cl->mem, &peers, &cl->peer_cap, cl->peer_count + 1, sizeof *cl->peers) != SERIATIM_OK)
        return NULL;
    cl->peers = peers;
    p = srt_alloc(cl->mem, sizeof *p);
    if (!p)
        return NULL;
    p->cluster = cl;
    p->port = port;
    if ((host && !(p->host = cluster_copy(cl, host, len))) ||
        srt_session_init(&p->commands, cl->mem, 0) != SERIATIM_OK) {
        cluster_free_text(cl, p->host);
        srt_free(cl->mem, p, sizeof *p);
        return NULL;
    }
    p->commands.peer = p;
    p->number = cl->numbers++;
    cl->peers[cl->peer_count++] = p;
    return p;
}

int srt_cluster_init(srt_cluster *cl, const seriatim_allocator *mem)
{
    memset(cl, 0, sizeof *cl);
    cl->mem = mem;
    cl->jitter = 1;
    return cluster_add(cl, NULL, 0, 0) ? SERIATIM_OK : SERIATIM_NOMEM;
}

void srt_cluster_free(srt_cluster *cl)
{
    size_t i;
    if (!cl->mem)
        return;
    if (cl->peer_count > 0)
        srt_cluster_drop(cl);
    for (i = 0; i < cl->peer_count; i++)
        peer_free(cl, cl->peers[i]);
    for (i = 0; i < cl->seed_count; i++)
        cluster_free_text(cl, cl->seeds[i].host);
    srt_free(cl->mem, cl->peers, cl->peer_cap * sizeof *cl->peers);
    srt_free(cl->mem, cl->seeds, cl->seed_cap * sizeof *cl->seeds);
    srt_free(cl->mem, cl->owners, SRT_SLOTS * sizeof *cl->owners);
    srt_free(cl->mem, cl->given_up, SRT_SLOTS);
    memset(cl, 0, sizeof *cl);
}

/* The peer that stands for one Redis becomes the first seed's. */
static int cluster_begin_many(srt_cluster *cl, const char *host, int port)
{
    srt_redis *p = cl->peers[0];
    cl->owners = srt_alloc(cl->mem, SRT_SLOTS * sizeof *cl->owners);
    cl->given_up = srt_alloc(cl->mem, SRT_SLOTS);
    if (!cl->owners || !cl->given_up || !(p->host = cluster_copy(cl, host, strlen(host))))
        return SERIATIM_NOMEM;
    p->port = port;
    cl->many = 1;
    cl->map = SRT_MAP_NONE;
    cl->pause_ms = SRT_CLUSTER_ASK_MS;
    return SERIATIM_OK;
}

int srt_cluster_seed(srt_cluster *cl, const char *host, int port)
{
    void *seeds = cl->seeds;
    if (srt_grow(cl->mem, &seeds, &cl->seed_cap, cl->seed_count + 1, sizeof *cl->seeds) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    cl->seeds = seeds;
    if (!cl->many && cluster_begin_many(cl, host, port) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    cl->seeds[cl->seed_count].port = port;
    cl->seeds[cl->seed_count].host = cluster_copy(cl, host, strlen(host));
    return cl->seeds[cl->seed_count++].host ? SERIATIM_OK : SERIATIM_NOMEM;
}

static void peer_remove(srt_cluster *cl, size_t i)
{
    srt_redis *p = cl->peers[i];
    cl->peer_count--;
    memmove(cl->peers + i, cl->peers + i + 1, (cl->peer_count - i) * sizeof *cl->peers);
    cl->map_hint = cl->map_hint == p ? NULL : cl->map_hint;
    peer_free(cl, p);
}

/* ---- Peers and slots ------------------------------------------------------------------------- */

srt_redis *srt_cluster_find(srt_cluster *cl, const char *host, size_t len, int port)
{
    size_t i;
    for (i = 0; i < cl->peer_count; i++) {
        srt_redis *p = cl->peers[i];
        if (p->port == port && strlen(p->host) == len && memcmp(p->host, host, len) == 0)
            return p;
    }
    return cluster_add(cl, host, len, port);
}

void srt_cluster_set_owner(srt_cluster *cl, unsigned slot, srt_redis *p)
{
    srt_redis *before = cl->owners[slot];
    if (before == p)
        return;
    if (before)
        before->slots--;
    if (p)
        p->slots++;
    cl->owners[slot] = p;
    cl->epoch++;
}

srt_redis *srt_cluster_peer_of(const srt_cluster *cl, const char *key, size_t len)
{
    return cl->many ? cl->owners[srt_key_slot(key, len)] : cl->peers[0];
}

static int peer_is_before(const srt_redis *a, const srt_redis *b)
{
    int order = strcmp(a->host, b->host);
    return order < 0 || (order == 0 && a->port < b->port);
}

srt_redis *srt_cluster_master(const srt_cluster *cl, size_t number)
{
    srt_redis *last = NULL, *next;
    size_t i, n;
    if (!cl->many)
        return number == 0 ? cl->peers[0] : NULL;
    for (n = 0; n <= number; n++, last = next) {
        next = NULL;
        for (i = 0; i < cl->peer_count; i++) {
            srt_redis *p = cl->peers[i];
            if (p->slots > 0 && (!last || peer_is_before(last, p)) && (!next || peer_is_before(p, next)))
                next = p;
        }
        if (!next)
            return NULL;
    }
    return last;
}

void srt_cluster_doubt(srt_cluster *cl)
{
    if (cl->map == SRT_MAP_FRESH)
        cl->map = SRT_MAP_DOUBTED;
}

void srt_redis_address(const srt_redis *p, char *out, size_t cap)
{
    if (p->host)
        snprintf(out, cap, strchr(p->host, ':') ? "[%s]:%d" : "%s:%d", p->host, p->port);
    else
        *out = '\0';
}

/* ---- Where a request goes -------------------------------------------------------------------- */

srt_session *srt_cluster_pool(srt_cluster *cl)
{
    return &cl->peers[0]->commands;
}

void srt_request_route(srt_request *r, int route, srt_redis *peer)
{
    r->route = route;
    r->peer = peer;
}

static srt_request *connection_request(srt_cluster *cl, srt_redis *peer, const char *word)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(cl), srt_script_none, NULL, 0);
    if (!r)
        return NULL;
    srt_request_text(r, word);
    srt_request_route(r, SRT_ROUTE_CONNECTION, peer);
    return r;
}

srt_request *srt_role_request(srt_cluster *cl, srt_redis *peer)
{
    return connection_request(cl, peer, "ROLE");
}

srt_request *srt_wait_request(srt_cluster *cl, srt_redis *peer, int64_t replicas, int64_t timeout_ms)
{
    srt_request *r = connection_request(cl, peer, "WAIT");
    if (r) {
        srt_request_int(r, replicas);
        srt_request_int(r, timeout_ms);
    }
    return r;
}

/* To ROLE a master answers its word, its offset and a list of its replicas. */
srt_replicated srt_replicated_of(const srt_reply *reply)
{
    const srt_token *t = reply->tokens;
    if (t[0].type == SRT_INTEGER)
        return t[0].integer >= 1 ? SRT_REPLICATED : SRT_REPLICATED_LATER;
    if (reply->count < 4 || !srt_token_is(&t[1], "master") || t[3].type != SRT_ARRAY)
        return SRT_REPLICATED_BY_NONE;
    return t[3].integer > 0 ? SRT_REPLICATED_ASK : SRT_REPLICATED;
}

static int peer_is_up(const srt_redis *p)
{
    return p->commands.connected && !p->closing && !p->silent;
}

/* Any master, one that has a connection if there is one. NULL: no master is known. */
static srt_redis *cluster_any(const srt_cluster *cl)
{
    srt_redis *best = NULL;
    size_t i;
    for (i = 0; i < cl->peer_count; i++) {
        srt_redis *p = cl->peers[i];
        if (p->slots > 0 && (!best || (!peer_is_up(best) && peer_is_up(p)) || (best->away && !p->away)))
            best = p;
    }
    return best;
}

static srt_redis *cluster_place(const srt_cluster *cl, srt_request *r)
{
    if (r->peer && r->route != SRT_ROUTE_KEY && r->route != SRT_ROUTE_ANY)
        return r->peer;
    return r->slot >= 0 ? cl->owners[r->slot] : cluster_any(cl);
}

static void peer_note_owed(srt_redis *p)
{
    if (p->commands.waiting == 0)
        p->heard_ms = p->cluster->now_ms;
}

static void cluster_find_slot(srt_request *r)
{
    size_t len;
    const char *key = r->route == SRT_ROUTE_KEY ? srt_request_key(r, &len) : NULL;
    r->slot = key ? (int)srt_key_slot(key, len) : -1;
}

int srt_cluster_send(srt_cluster *cl, srt_request *r)
{
    srt_redis *p;
    if (!cl->many || r->tail.failed)
        return srt_session_send(&cl->peers[0]->commands, r);
    cluster_find_slot(r);
    p = cluster_place(cl, r);
    if (p) {
        peer_note_owed(p);
        return srt_session_send(&p->commands, r);
    }
    list_append(&cl->homeless, r);
    srt_cluster_doubt(cl);
    return SERIATIM_OK;
}

/* Sends a request that is in no session to this peer, or where it belongs. NOMEM: it is kept all the same. */
int srt_cluster_put(srt_cluster *cl, srt_request *r, srt_redis *p)
{
    if (!p) {
        list_append(&cl->homeless, r);
        srt_cluster_doubt(cl);
        return SERIATIM_OK;
    }
    peer_note_owed(p);
    if (srt_session_adopt(&p->commands, r) == SERIATIM_OK)
        return SERIATIM_OK;
    p->closing = 1; /* it goes with the next connection */
    return SERIATIM_NOMEM;
}

int srt_cluster_again(srt_cluster *cl, srt_request *r)
{
    if (!cl->many)
        return srt_session_again(&cl->peers[0]->commands, r);
    r->asking = 0;
    cluster_find_slot(r);
    return srt_cluster_put(cl, r, cluster_place(cl, r));
}

void srt_cluster_done(srt_cluster *cl, srt_request *r)
{
    srt_session_done(srt_cluster_pool(cl), r);
}

static int cluster_moves_away(const srt_redis *p, srt_request *r)
{
    if (r->encoded || r->handshake || r->route == SRT_ROUTE_MAP || r->route == SRT_ROUTE_CONNECTION)
        return 0;
    if (r->route == SRT_ROUTE_PEER && p->away && p->slots == 0)
        r->route = SRT_ROUTE_ANY; /* it is no master any more, and may never come back */
    return r->asking || r->route == SRT_ROUTE_ANY || r->slot < 0 ? p->away : 1;
}

/* The requests of a peer, in their order. */
static int peer_rehome(srt_cluster *cl, srt_redis *p)
{
    srt_request *r, *next, *before = NULL;
    int status = SERIATIM_OK;
    for (r = p->commands.first; r; r = next) {
        srt_redis *place = cluster_moves_away(p, r) ? cluster_place(cl, r) : p;
        next = r->next;
        if (place == p || !place) {
            before = r;
            continue;
        }
        srt_session_take(&p->commands, r, before);
        r->asking = 0;
        if (srt_cluster_put(cl, r, place) != SERIATIM_OK)
            status = SERIATIM_NOMEM;
    }
    return status;
}

int srt_cluster_rehome(srt_cluster *cl)
{
    srt_request_list homeless = cl->homeless;
    int status = SERIATIM_OK;
    size_t i;
    memset(&cl->homeless, 0, sizeof cl->homeless);
    for (i = 0; i < cl->peer_count; i++)
        if (peer_rehome(cl, cl->peers[i]) != SERIATIM_OK)
            status = SERIATIM_NOMEM;
    while (homeless.first)
        if (srt_cluster_again(cl, list_shift(&homeless)) != SERIATIM_OK)
            status = SERIATIM_NOMEM;
    return status;
}

void srt_scan_route(srt_scan *scan, const srt_cluster *cl, srt_request *r)
{
    srt_redis *p = srt_cluster_master(cl, scan->master);
    if (scan->epoch == 0)
        scan->epoch = cl->epoch + 1;
    srt_request_route(r, p ? SRT_ROUTE_PEER : SRT_ROUTE_ANY, p);
}

int srt_scan_turn(srt_scan *scan, const srt_cluster *cl)
{
    if (srt_cluster_master(cl, ++scan->master))
        return 1;
    scan->master = 0;
    if (!cl->many || scan->epoch == cl->epoch + 1 || ++scan->rounds == SCAN_ROUNDS)
        return 0;
    scan->epoch = 0;
    return 1;
}

/* ---- All requests ---------------------------------------------------------------------------- */

static void visit_each(srt_request *r, void (*visit)(void *user, srt_request *r), void *user)
{
    srt_request *next;
    for (; r; r = next) {
        next = r->next;
        if (r->route != SRT_ROUTE_MAP)
            visit(user, r);
    }
}

void srt_cluster_each(srt_cluster *cl, void (*visit)(void *user, srt_request *r), void *user)
{
    size_t i;
    for (i = 0; i < cl->peer_count; i++)
        visit_each(cl->peers[i]->commands.first, visit, user);
    visit_each(cl->delayed.first, visit, user);
    visit_each(cl->homeless.first, visit, user);
}

size_t srt_cluster_waiting(const srt_cluster *cl)
{
    size_t i, waiting = cl->delayed.count + cl->homeless.count;
    for (i = 0; i < cl->peer_count; i++)
        waiting += cl->peers[i]->commands.waiting;
    return waiting;
}

void srt_cluster_drop(srt_cluster *cl)
{
    size_t i;
    for (i = 0; i < cl->peer_count; i++) {
        srt_session_drop(&cl->peers[i]->commands);
        cl->peers[i]->closing = 0;
    }
    list_drop(cl, &cl->delayed);
    list_drop(cl, &cl->homeless);
    cl->map_request = NULL;
    cl->map_peer = NULL;
}

static int request_is_held(const srt_cluster *cl, const srt_request *r, int64_t ms)
{
    return r->pause_ms > 0 && r->slot >= 0 && cl->now_ms - r->delayed_ms >= ms;
}

int srt_cluster_held_slot(const srt_cluster *cl, int64_t ms)
{
    const srt_request *r;
    size_t i;
    for (r = cl->delayed.first; r; r = r->next)
        if (request_is_held(cl, r, ms))
            return r->slot;
    for (i = 0; i < cl->peer_count; i++)
        for (r = cl->peers[i]->commands.first; r; r = r->next)
            if (request_is_held(cl, r, ms))
                return r->slot;
    return -1;
}

/* A script that declares only some of its keys ends where it meets one that is at the other master. */
int srt_cluster_tells_of_move(const char *text)
{
    return strncmp(text, "TRYAGAIN", 8) == 0 || strstr(text, "non local key") != NULL;
}

int srt_cluster_awaited_slot(const srt_cluster *cl)
{
    const char *text = strstr(cl->last.message, ": "); /* Redis' own words stand behind those of the status */
    return text && srt_cluster_tells_of_move(text + 2) ? srt_cluster_held_slot(cl, 0) : -1;
}

void srt_cluster_set_patience(srt_cluster *cl, int64_t ms)
{
    cl->patience_ms = ms;
    if (ms > 0 && cl->many)
        memset(cl->given_up, 0, SRT_SLOTS);
}

int srt_cluster_given_up(const srt_cluster *cl, int from)
{
    const unsigned char *found =
        cl->many && from < SRT_SLOTS ? memchr(cl->given_up + from, 1, (size_t)(SRT_SLOTS - from)) : NULL;
    return found ? (int)(found - cl->given_up) : -1;
}

/* ---- Later ------------------------------------------------------------------------------------ */

void srt_cluster_delay(srt_cluster *cl, srt_request *r)
{
    int pause = r->pause_ms ? 2 * r->pause_ms : CLUSTER_FIRST_PAUSE_MS;
    if (!r->pause_ms)
        r->delayed_ms = cl->now_ms;
    r->pause_ms = pause < CLUSTER_LONGEST_PAUSE_MS ? pause : CLUSTER_LONGEST_PAUSE_MS;
    cl->jitter = cl->jitter * 1664525u + 1013904223u;
    r->due_ms = cl->now_ms + r->pause_ms - r->pause_ms * (int)(cl->jitter >> 24) / 512;
    r->redirects = r->asking = 0;
    list_append(&cl->delayed, r);
}

int srt_cluster_send_due(srt_cluster *cl)
{
    srt_request_list delayed = cl->delayed;
    int status = SERIATIM_OK;
    memset(&cl->delayed, 0, sizeof cl->delayed);
    while (delayed.first) {
        srt_request *r = list_shift(&delayed);
        if (cl->now_ms < r->due_ms)
            list_append(&cl->delayed, r);
        else if (srt_cluster_again(cl, r) != SERIATIM_OK)
            status = SERIATIM_NOMEM;
    }
    return status;
}

/* ---- Peers that are needed no more ----------------------------------------------------------- */

static int peer_is_named(const srt_cluster *cl, const srt_redis *p)
{
    const srt_request *r;
    for (r = cl->delayed.first; r; r = r->next)
        if (r->peer == p)
            return 1;
    return cl->map_peer == p || cl->map_hint == p;
}

void srt_cluster_drop_empty(srt_cluster *cl)
{
    size_t i = 0;
    while (i < cl->peer_count) {
        srt_redis *p = cl->peers[i];
        if (p->slots > 0 || p->commands.waiting > 0 || peer_is_named(cl, p) || cl->peer_count == 1) {
            i++;
        } else if (p->commands.connected) {
            p->closing = 1;
            i++;
        } else {
            peer_remove(cl, i);
        }
    }
}

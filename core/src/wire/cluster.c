/* cluster.c - connections, answers and time of a cluster: what becomes of a request when its answer is no answer. */
#include "wire/cluster.h"

#include <string.h>

#define CLUSTER_REDIRECTS 16
#define CLUSTER_SILENT_MS 1000 /* a peer that owes an answer so long may be frozen, and another may have its slots */

/* ---- Connections ----------------------------------------------------------------------------- */

int srt_redis_wanted(const srt_cluster *cl, const srt_redis *p)
{
    return !cl->many || (!p->closing && (p->commands.waiting > 0 || p->commands.connected));
}

int srt_redis_connect_ms(const srt_cluster *cl, const srt_redis *p, int limit_ms)
{
    return cl->map_peer == p && p->slots == 0 && limit_ms > SRT_CLUSTER_ANSWER_MS ? SRT_CLUSTER_ANSWER_MS : limit_ms;
}

void srt_redis_connecting(srt_cluster *cl, const srt_redis *p, int64_t since_ms)
{
    if (cl->map_request && cl->map_peer == p && cl->asked_ms < since_ms)
        cl->asked_ms = since_ms;
}

int srt_redis_listen(srt_cluster *cl, srt_redis *p)
{
    int status = p->listens ? SERIATIM_OK : srt_session_init(&p->wakes, cl->mem, 1);
    p->listens = status == SERIATIM_OK;
    p->wakes.peer = p;
    return status;
}

int srt_redis_connected(srt_cluster *cl, srt_redis *p, const char *user, const char *password, int database,
                        const char *name)
{
    p->away = p->silent = p->closing = 0;
    p->heard_ms = cl->now_ms;
    p->connections++;
    return srt_session_connected(&p->commands, user, password, database, name);
}

/* What belongs to the connection that has ended. */
static size_t peer_drop_bound(srt_cluster *cl, srt_redis *p)
{
    srt_request *r, *next, *before = NULL;
    size_t dropped = 0;
    for (r = p->commands.first; r; r = next) {
        next = r->next;
        if (!r->handshake && r->route != SRT_ROUTE_CONNECTION && r->route != SRT_ROUTE_MAP) {
            before = r;
            continue;
        }
        dropped += !r->handshake && r->route == SRT_ROUTE_CONNECTION;
        if (r == cl->map_request)
            cl->map_request = NULL;
        srt_session_take(&p->commands, r, before);
        srt_cluster_done(cl, r);
    }
    return dropped;
}

size_t srt_redis_disconnected(srt_cluster *cl, srt_redis *p)
{
    size_t dropped;
    srt_session_disconnected(&p->commands);
    dropped = peer_drop_bound(cl, p);
    if (!cl->many)
        return dropped;
    p->silent = 0;
    if (p->closing && p->commands.waiting == 0) {
        p->closing = 0;
        return dropped;
    }
    p->away = 1;
    p->closing = 0;
    srt_cluster_doubt(cl);
    if (cl->map_peer == p && !cl->map_request)
        srt_cluster_map_failed(cl);
    srt_cluster_rehome(cl); /* what it could not encode goes with the next connection */
    return dropped;
}

int srt_redis_leave(srt_redis *p)
{
    if (!p->commands.connected || p->commands.waiting > 0 || p->closing)
        return 0;
    srt_session_disconnected(&p->commands);
    p->silent = 0;
    return 1;
}

/* ---- Answers --------------------------------------------------------------------------------- */

static int cluster_redirect(srt_cluster *cl, srt_redis *p, srt_request *r, const char *text, int asking,
                            seriatim_error *error)
{
    unsigned slot;
    srt_redis *target = srt_cluster_read_redirect(cl, p, text, &slot);
    cl->redirects++;
    if (!target || r->redirects >= CLUSTER_REDIRECTS) {
        srt_fail(&cl->last, SERIATIM_LOADING, "%s: %.100s", seriatim_status_text(SERIATIM_LOADING), text);
        srt_cluster_delay(cl, r);
        srt_cluster_doubt(cl);
        return SERIATIM_OK;
    }
    r->redirects++;
    r->asking = asking;
    if (!asking) {
        srt_cluster_set_owner(cl, slot, target);
        srt_cluster_doubt(cl);
        cl->map_hint = target;
    }
    if (srt_cluster_put(cl, r, target) != SERIATIM_OK)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    return SERIATIM_OK;
}

/*
 * Is the slot of this request, which Redis has refused because it moves, not waited for any more? An earlier sending of
 * one that hurries may have been executed: that answer is waited for.
 */
static int cluster_gives_up(srt_cluster *cl, const srt_request *r)
{
    if (r->hurries)
        return !r->left;
    if (!cl->given_up[r->slot] && r->pause_ms > 0 && cl->now_ms - r->delayed_ms >= cl->patience_ms)
        cl->given_up[r->slot] = 1;
    return cl->given_up[r->slot];
}

/* AGAIN: it is the answer, and the owner's. */
static int cluster_filter(srt_cluster *cl, srt_redis *p, srt_request *r, const srt_token *root, seriatim_error *error)
{
    int status, delays;
    if (root->type != SRT_ERROR)
        return SERIATIM_AGAIN;
    if (strncmp(root->data, "MOVED ", 6) == 0)
        return cluster_redirect(cl, p, r, root->data, 0, error);
    if (strncmp(root->data, "ASK ", 4) == 0)
        return cluster_redirect(cl, p, r, root->data, 1, error);
    status = srt_reply_status(root, error);
    delays = status == SERIATIM_LOADING || status == SERIATIM_READONLY;
    if ((cl->patience_ms > 0 || r->hurries) && r->slot >= 0 && srt_cluster_tells_of_move(root->data)) {
        r->gave_up = cluster_gives_up(cl, r);
        delays = !r->gave_up;
    }
    if (status == SERIATIM_READONLY && r->dispensable) {
        srt_cluster_doubt(cl);
        delays = 0;
    }
    if (!delays || r->route == SRT_ROUTE_CONNECTION) {
        srt_error_clear(error);
        return SERIATIM_AGAIN;
    }
    cl->last = *error;
    srt_cluster_delay(cl, r);
    if (strncmp(root->data, "TRYAGAIN", 8) != 0)
        srt_cluster_doubt(cl);
    return SERIATIM_OK;
}

int srt_redis_input(srt_cluster *cl, srt_redis *p, const char *data, size_t len)
{
    p->heard_ms = cl->now_ms;
    p->silent = 0;
    return srt_session_input(&p->commands, data, len);
}

/* The URL of a cluster names the seeds only, and each node has users and passwords of its own. */
static int peer_fail(const srt_redis *p, int status, seriatim_error *error)
{
    seriatim_error why;
    char address[300];
    if (status == SERIATIM_NOMEM)
        return status;
    why = *error;
    srt_redis_address(p, address, sizeof address);
    return srt_fail(error, status, "%.180s: %s", address, why.message);
}

int srt_redis_next(srt_cluster *cl, srt_redis *p, srt_request **request, srt_reply *reply, seriatim_error *error)
{
    for (;;) {
        int status = srt_session_next(&p->commands, request, reply, error);
        if (status == SERIATIM_AGAIN || !cl->many)
            return status;
        if (status != SERIATIM_OK)
            return peer_fail(p, status, error);
        if ((*request)->route == SRT_ROUTE_MAP)
            status = srt_cluster_map_answered(cl, p, *request, reply, error);
        else
            status = cluster_filter(cl, p, *request, &reply->tokens[0], error);
        if (status == SERIATIM_AGAIN)
            return SERIATIM_OK;
        if (status != SERIATIM_OK)
            return peer_fail(p, status, error);
    }
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* Does a request wait here whose slot another has, by now, or still, while it moves here? */
static int cluster_is_deposed(const srt_cluster *cl, const srt_redis *p)
{
    const srt_request *r;
    for (r = p->commands.first; r; r = r->next)
        if (!r->handshake && r->slot >= 0 && cl->owners[r->slot] && cl->owners[r->slot] != p)
            return 1;
    return 0;
}

/*
 * A frozen master keeps its connections. When a new map gives its slots to another, its requests go there: the
 * connection is closed. Returns 1 if something is wrong that a new map may mend.
 */
static int cluster_look_at(srt_cluster *cl, srt_redis *p)
{
    if (p->commands.waiting == 0)
        return 0;
    if (!p->commands.connected)
        return p->away;
    if (cl->now_ms - p->heard_ms >= CLUSTER_SILENT_MS)
        p->silent = 1;
    if (p->silent && cl->map == SRT_MAP_FRESH && cluster_is_deposed(cl, p))
        p->closing = 1;
    return p->silent;
}

int srt_cluster_tick(srt_cluster *cl, int64_t now_ms)
{
    int trouble = cl->homeless.count > 0, status;
    size_t i;
    cl->now_ms = now_ms;
    if (!cl->many)
        return SERIATIM_OK;
    status = srt_cluster_send_due(cl);
    for (i = 0; i < cl->peer_count; i++)
        trouble |= cluster_look_at(cl, cl->peers[i]);
    if (trouble)
        srt_cluster_doubt(cl);
    if (cl->map_request && now_ms - cl->asked_ms >= SRT_CLUSTER_ANSWER_MS)
        srt_cluster_map_abandon(cl);
    if (cl->map == SRT_MAP_FRESH)
        srt_cluster_drop_empty(cl);
    else if (!cl->map_request && now_ms >= cl->ask_ms && srt_cluster_map_ask(cl) != SERIATIM_OK)
        status = SERIATIM_NOMEM;
    return status;
}

static int64_t cluster_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t srt_cluster_due_ms(const srt_cluster *cl)
{
    int64_t due = INT64_MAX;
    const srt_request *r;
    size_t i;
    if (!cl->many)
        return due;
    for (r = cl->delayed.first; r; r = r->next)
        due = cluster_earlier(due, r->due_ms);
    for (i = 0; i < cl->peer_count; i++) {
        const srt_redis *p = cl->peers[i];
        if (p->commands.waiting > 0 && p->commands.connected && !p->silent)
            due = cluster_earlier(due, p->heard_ms + CLUSTER_SILENT_MS);
        if (p->commands.waiting > 0 && (p->silent || p->away))
            due = cluster_earlier(due, cl->map_request ? cl->asked_ms + SRT_CLUSTER_ANSWER_MS : cl->ask_ms);
    }
    if (cl->map_request)
        due = cluster_earlier(due, cl->asked_ms + SRT_CLUSTER_ANSWER_MS);
    else if (cl->map != SRT_MAP_FRESH || cl->homeless.count > 0)
        due = cluster_earlier(due, cl->ask_ms);
    return due;
}

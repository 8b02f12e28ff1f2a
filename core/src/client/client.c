/* client.c - runs one operation at a time: sends its requests, takes the answers, keeps the layout up to date. */
#include "client/client.h"

#include <string.h>

#define CLIENT_SETTINGS_AGE 60.0 /* seconds after which a push or pop asks for its queue's settings again */

/* ---- The operation under way --------------------------------------------------------------- */

int srt_client_check_idle(seriatim_client *c)
{
    if (c->before_begin)
        c->before_begin(c->host);
    if (c->status == SERIATIM_AGAIN)
        return srt_fail(&c->error, SERIATIM_INVALID, "the client is busy with another operation");
    return SERIATIM_OK;
}

int srt_client_begin(seriatim_client *c)
{
    int status = srt_client_check_idle(c);
    if (status != SERIATIM_OK)
        return status;
    srt_client_release(c);
    c->push = &c->single;
    c->push->open = c->pipeline_open = 0;
    c->after = NULL;
    c->status = SERIATIM_OK;
    c->waited_for_move = 0;
    srt_error_clear(&c->error);
    return SERIATIM_OK;
}

int srt_client_check_identity(seriatim_client *c)
{
    return c->identity[0] ? SERIATIM_OK : srt_fail(&c->error, SERIATIM_INVALID, "the client has no identity yet");
}

int srt_client_status(const seriatim_client *c)
{
    return c->status;
}

int srt_client_waits(const seriatim_client *c)
{
    return srt_cluster_waiting(&c->cluster) > 0;
}

/* An operation that may not create the queue, or that has no settings for it, only reads the layout. */
static srt_layout_mode client_layout_mode(const seriatim_client *c)
{
    return c->operation->creates && c->registry.queues[c->queue]->own.shards_count ? SRT_LAYOUT_KEEP : SRT_LAYOUT_LOOK;
}

int srt_client_ask_layout(seriatim_client *c, void *subject, int later)
{
    const srt_queue *queue = c->registry.queues[c->queue];
    srt_request *r = srt_layout_request(&c->registry, srt_cluster_pool(&c->cluster), queue, client_layout_mode(c),
                                        c->stale_generation);
    if (!r)
        return srt_client_fail_plain(c, SERIATIM_NOMEM);
    r->kind = SRT_CLIENT_LAYOUT;
    r->subject = subject;
    if (!later || r->tail.failed)
        return srt_client_send(c, r);
    c->asked++;
    srt_client_keep_early(c, r);
    return SERIATIM_OK;
}

static void client_end(seriatim_client *c)
{
    int failed = c->failed;
    if (c->operation->on_end)
        failed = c->operation->on_end(c, failed);
    c->status = failed;
    if (failed == SERIATIM_OK && c->after)
        c->after(c);
}

/* When no request waits for an answer: continues the operation, or ends it. */
static void client_settle(seriatim_client *c)
{
    if (c->status != SERIATIM_AGAIN || c->sleep_ms >= 0)
        return;
    if (c->early && c->asked == c->early_count)
        srt_client_sleep(c, SRT_CLIENT_EARLY_MS);
    else if (c->early)
        srt_client_repeat_early(c);
    if (c->asked > 0)
        return;
    if (c->failed == SERIATIM_OK && c->stale && c->pause_ms > 0) {
        srt_client_sleep(c, c->pause_ms);
        c->pause_ms = 0;
        return;
    }
    if (c->failed == SERIATIM_OK && c->stale)
        srt_client_ask_layout(c, NULL, 0);
    if (c->asked == 0)
        client_end(c);
}

/* Settings can change without a new layout, so they are read again after a minute, or if the clock was put back. */
int srt_client_layout_is_old(const seriatim_client *c, const srt_queue *queue)
{
    return queue->generation == 0 || (queue->read_at > 0 && (c->unix_time - queue->read_at >= CLIENT_SETTINGS_AGE ||
                                                             c->unix_time < queue->read_at));
}

static void client_prepare(seriatim_client *c, const srt_operation *operation, size_t queue)
{
    c->operation = operation;
    c->queue = queue;
    c->begun++;
    c->status = SERIATIM_AGAIN;
    c->failed = SERIATIM_OK;
    c->stale_generation = 0;
    c->left_ms = INT64_MAX;
    c->spent_ms = 0;
    c->sleep_ms = -1;
    c->pause_ms = 0;
    c->stale = 0;
    srt_error_clear(&c->cluster.last); /* of an earlier operation */
}

static int client_prepared(seriatim_client *c)
{
    client_settle(c);
    return c->status == SERIATIM_AGAIN ? SERIATIM_OK : c->status;
}

int srt_client_start(seriatim_client *c, const srt_operation *operation, size_t queue)
{
    srt_queue *target = srt_client_queue_at(c, queue);
    client_prepare(c, operation, queue);
    c->stale = target && (operation->fresh ||
                          (operation->rereads ? srt_client_layout_is_old(c, target) : target->generation == 0));
    if (!target)
        srt_client_fail(c, SERIATIM_INVALID);
    else if (!c->stale)
        operation->send(c, target);
    return client_prepared(c);
}

int srt_client_start_alone(seriatim_client *c, const srt_operation *operation)
{
    client_prepare(c, operation, SRT_NO_QUEUE);
    operation->send(c, NULL);
    return client_prepared(c);
}

int srt_client_begin_alone(seriatim_client *c, const srt_operation *operation)
{
    int status = srt_client_begin(c);
    return status == SERIATIM_OK ? srt_client_start_alone(c, operation) : status;
}

int srt_client_turn_to(seriatim_client *c, size_t queue)
{
    srt_queue *target = srt_client_queue_at(c, queue);
    if (!target)
        return srt_client_fail(c, SERIATIM_INVALID);
    c->queue = queue;
    c->stale_generation = 0;
    c->stale = srt_client_layout_is_old(c, target);
    return c->stale ? SERIATIM_OK : c->operation->send(c, target);
}

void srt_client_sleep(seriatim_client *c, int64_t ms)
{
    c->sleep_ms = ms > 0 ? ms : 0;
}

int64_t srt_client_sleeps(const seriatim_client *c)
{
    return c->status == SERIATIM_AGAIN ? c->sleep_ms : -1;
}

void srt_client_wake(seriatim_client *c)
{
    if (srt_client_sleeps(c) < 0)
        return;
    c->sleep_ms = -1;
    if (c->early)
        srt_client_send_early(c);
    else if (c->operation->on_awake)
        c->operation->on_awake(c);
    client_settle(c);
}

static void client_drop(seriatim_client *c)
{
    size_t i;
    for (i = 0; i < c->cluster.peer_count; i++)
        srt_client_peer_disconnected(c, c->cluster.peers[i]);
    srt_client_drop_early(c);
    srt_cluster_drop(&c->cluster);
    c->asked = 0;
}

/* Requests for a layout change nothing, so an unanswered one is no unknown outcome. */
static void client_note_left(void *any, srt_request *r)
{
    *(int *)any |= r->kind != SRT_CLIENT_LAYOUT && srt_request_left(r);
}

static int client_any_left(seriatim_client *c)
{
    int any = 0;
    srt_cluster_each(&c->cluster, client_note_left, &any);
    return any;
}

static void client_fail_moving(seriatim_error *error, int status, int slot)
{
    srt_fail(error, status,
             "Redis is moving slot %d to another master, and its keys cannot be read together before that has ended",
             slot);
}

int srt_client_give_up(seriatim_client *c, int status, const char *why)
{
    seriatim_error error;
    if (c->status != SERIATIM_AGAIN) {
        client_drop(c);
        return c->status;
    }
    srt_fail(&error, status, "%s", why);
    if (c->failed == SERIATIM_OK && (status == SERIATIM_TIMEOUT || status == SERIATIM_LOADING)) {
        int slot = srt_cluster_awaited_slot(&c->cluster);
        c->waited_for_move = slot >= 0 || (c->cluster.last.status == SERIATIM_TIMEOUT &&
                                           strcmp(error.message, c->cluster.last.message) == 0);
        if (slot >= 0)
            client_fail_moving(&error, status, slot);
    }
    c->sleep_ms = -1;
    srt_client_send_early(c);
    c->heard = client_any_left(c);
    if (c->failed == SERIATIM_OK)
        c->error = error;
    if (c->operation->on_give_up)
        c->operation->on_give_up(c);
    c->status = c->error.status;
    client_drop(c);
    return c->status;
}

void srt_client_forked(seriatim_client *c, const unsigned char *random)
{
    srt_client_identify(c, random);
    if (c->status == SERIATIM_AGAIN)
        c->status = srt_fail(&c->error, SERIATIM_CLOSED,
                             "this operation was begun before fork and belongs to the parent process");
    client_drop(c);
}

/* ---- Connection ---------------------------------------------------------------------------- */

void srt_client_expect_master(seriatim_client *c)
{
    c->cluster.peers[0]->commands.masters_only = 1;
}

int srt_client_peer_connected(seriatim_client *c, srt_redis *p, const char *user, const char *password, int database)
{
    return srt_redis_connected(&c->cluster, p, user, password, database, c->name.len ? c->name.data : NULL);
}

int srt_client_connected(seriatim_client *c, const char *user, const char *password, int database)
{
    return srt_client_peer_connected(c, c->cluster.peers[0], user, password, database);
}

int srt_client_connected_again(seriatim_client *c)
{
    return srt_redis_connected(&c->cluster, c->cluster.peers[0], NULL, NULL, 0, NULL);
}

void srt_client_peer_disconnected(seriatim_client *c, srt_redis *p)
{
    c->asked -= srt_redis_disconnected(&c->cluster, p);
    c->lost = p;
    srt_client_forget_absences(c);
    if (c->status != SERIATIM_AGAIN)
        return;
    if (c->operation->on_disconnected)
        c->operation->on_disconnected(c);
    if (c->operation->on_disconnected || c->early)
        client_settle(c);
}

void srt_client_disconnected(seriatim_client *c)
{
    srt_client_peer_disconnected(c, c->cluster.peers[0]);
}

void srt_client_output(const seriatim_client *c, const char **data, size_t *len)
{
    srt_session_output(&c->cluster.peers[0]->commands, data, len);
}

void srt_client_sent(seriatim_client *c, size_t len)
{
    srt_session_sent(&c->cluster.peers[0]->commands, len);
}

/* ---- Answers ------------------------------------------------------------------------------- */

int srt_client_must_pause(int status, const char *text)
{
    return status == SERIATIM_LOADING || status == SERIATIM_READONLY ||
           (status == SERIATIM_SERVER &&
            (strstr(text, "max number of clients") || strstr(text, "WAIT cannot be used with replica")));
}

/* Keeps a request for the next connection. WAIT is not asked again: what it was asked for is. */
static int client_hold(seriatim_client *c, srt_request *r)
{
    srt_client_peer_disconnected(c, c->answering);
    if (r->route != SRT_ROUTE_CONNECTION)
        return srt_cluster_again(&c->cluster, r);
    c->asked--;
    srt_cluster_done(&c->cluster, r);
    return SERIATIM_OK;
}

/* Redis will answer later. In a cluster only WAIT comes here, whose connection goes on, or what was asked too soon. */
static int client_pause(seriatim_client *c, srt_request *r, seriatim_error *error)
{
    if (c->cluster.many && r->route != SRT_ROUTE_CONNECTION) {
        srt_cluster_delay(&c->cluster, r);
        return SERIATIM_OK;
    }
    if (c->cluster.many) {
        c->asked--;
        srt_cluster_done(&c->cluster, r);
        srt_client_forget_absences(c);
        c->lost = c->answering;
        if (c->status == SERIATIM_AGAIN && c->operation->on_disconnected)
            c->operation->on_disconnected(c);
        client_settle(c);
        return SERIATIM_OK;
    }
    if (client_hold(c, r) != SERIATIM_OK)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    if (error->status == SERIATIM_SERVER)
        error->status = SERIATIM_LOADING;
    return error->status;
}

static void client_take_stale(seriatim_client *c, srt_request *r)
{
    if (!c->stale)
        c->stale_generation = c->registry.queues[c->queue]->generation;
    c->stale = 1;
    if (c->operation->on_stale)
        c->operation->on_stale(c, r, r->left);
}

static int client_lack_layout(seriatim_client *c, const seriatim_error *error)
{
    if (c->operation->on_unloaded && error->status != SERIATIM_NOMEM) {
        c->stale = 0;
        return c->operation->on_unloaded(c, error);
    }
    c->error = *error;
    return srt_client_fail(c, error->status);
}

static void client_take_refusal(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    if (r->kind == SRT_CLIENT_LAYOUT) {
        client_lack_layout(c, error);
        return;
    }
    if (c->operation->on_refused) {
        c->operation->on_refused(c, r, error);
        return;
    }
    c->error = *error;
    srt_client_fail(c, error->status);
}

/* AGAIN: Redis still has the layout whose generation was refused. */
static int client_take_layout(seriatim_client *c, const srt_request *r, const srt_reply *reply)
{
    srt_queue *queue;
    seriatim_error error;
    int absent;
    if (c->operation->before_answer)
        c->operation->before_answer(c, r);
    queue = c->registry.queues[c->queue];
    if (srt_layout_take(&c->registry, queue, client_layout_mode(c), reply, &absent, NULL, &error) != SERIATIM_OK)
        return client_lack_layout(c, &error);
    queue->read_at = c->unix_time;
    if (absent)
        srt_queue_forget_layout(&c->registry, queue);
    else if (c->operation->warns && queue->own.shards_count)
        srt_client_warn(c, queue);
    if (queue->generation == c->stale_generation && c->stale_generation != 0)
        return SERIATIM_AGAIN;
    c->stale = 0;
    return c->operation->send(c, queue);
}

static void client_take_answer(seriatim_client *c, srt_request *r, const srt_reply *reply, const seriatim_error *error)
{
    if (c->operation->before_answer)
        c->operation->before_answer(c, r);
    if (c->failed != SERIATIM_OK && (!c->operation->every_answer || r->kind == SRT_CLIENT_LAYOUT))
        return;
    if (error->status == SERIATIM_GENERATION && c->queue != SRT_NO_QUEUE && r->kind != SRT_CLIENT_LAYOUT)
        client_take_stale(c, r);
    else if (error->status != SERIATIM_OK)
        client_take_refusal(c, r, error);
    else {
        srt_client_forget_held_up(c);
        c->operation->on_reply(c, r, reply);
    }
}

/*
 * READONLY, of an operation that can do without its writes: it ends without them, and what goes on is asked on the next
 * connection, because another Redis may be the master by now.
 */
static int client_do_without(seriatim_client *c, srt_request *r, const seriatim_error *error)
{
    client_drop(c);
    client_take_refusal(c, r, error);
    srt_cluster_done(&c->cluster, r);
    client_settle(c);
    return error->status;
}

/* What Redis says of a request whose slot moves and was given up, in words that name it. */
static int client_name_moving_slot(const srt_request *r, seriatim_error *error)
{
    if (!r->gave_up)
        return 0;
    client_fail_moving(error, SERIATIM_LOADING, r->slot);
    return 1;
}

/* One whole answer. Any status but OK ends the connection. */
static int client_take(seriatim_client *c, srt_request *r, const srt_reply *reply, seriatim_error *error)
{
    const srt_token *root = &reply->tokens[0];
    srt_error_clear(error);
    srt_reply_status(root, error);
    if (error->status == SERIATIM_READONLY && r->dispensable) {
        if (!c->cluster.many)
            return client_do_without(c, r, error);
    } else if (!client_name_moving_slot(r, error) && srt_client_must_pause(error->status, error->message)) {
        return client_pause(c, r, error);
    }
    if (r->kind == SRT_CLIENT_LAYOUT && error->status == SERIATIM_OK && c->failed == SERIATIM_OK) {
        if (client_take_layout(c, r, reply) == SERIATIM_AGAIN) {
            srt_fail(error, SERIATIM_LOADING, "the layout of the queue is being changed");
            return client_pause(c, r, error);
        }
    } else if (r->kind == SRT_CLIENT_ABSENCE) {
        srt_client_take_absence(c, r, reply, error);
    } else if (srt_client_is_early(c, r, error)) {
        srt_client_keep_early(c, r);
        srt_fail(&c->cluster.last, SERIATIM_TIMEOUT,
                 "timed out: a shard does not have the new layout of its queue yet; start a server of the queue, or "
                 "run seriatim reshard again");
        client_settle(c);
        return SERIATIM_OK;
    } else if (srt_client_take_elsewhere(c, r, error)) {
        client_settle(c);
        return SERIATIM_OK;
    } else {
        client_take_answer(c, r, reply, error);
    }
    c->asked--;
    c->answers++;
    srt_cluster_done(&c->cluster, r);
    client_settle(c);
    return SERIATIM_OK;
}

int srt_client_peer_input(seriatim_client *c, srt_redis *p, const char *data, size_t len, seriatim_error *error)
{
    srt_request *r;
    srt_reply reply;
    int status = srt_redis_input(&c->cluster, p, data, len);
    if (status != SERIATIM_OK)
        return srt_fail(error, status, status == SERIATIM_NOMEM ? "out of memory" : "an answer of Redis is too large");
    c->answering = p;
    while ((status = srt_redis_next(&c->cluster, p, &r, &reply, error)) == SERIATIM_OK) {
        status = client_take(c, r, &reply, error);
        if (status != SERIATIM_OK)
            return status;
    }
    if (status == SERIATIM_AGAIN)
        return SERIATIM_OK;
    if (srt_client_must_pause(status, error->message))
        error->status = status == SERIATIM_SERVER ? SERIATIM_LOADING : status;
    return error->status;
}

int srt_client_input(seriatim_client *c, const char *data, size_t len, seriatim_error *error)
{
    return srt_client_peer_input(c, c->cluster.peers[0], data, len, error);
}

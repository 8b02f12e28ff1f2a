/* delete.c - deletes a queue: closes its shards, counts what they hold, empties them, and then deletes its layout. */
#include "base/system.h"
#include "client/operator.h"

#include <string.h>

enum { DELETE_NODES, DELETE_BEGIN, DELETE_CLOSE, DELETE_WIPE, DELETE_RENEW, DELETE_END };

#define DELETE_RENEW_MS 1000 /* far below the PATIENCE of delete_queue.lua */

typedef struct delete_state {
    int force;      /* delete its content too */
    int begun;      /* requests were sent */
    srt_queue all;  /* the queue with all shards that it ever had, under the next generation; its name is borrowed */
    int64_t old;    /* the generation that is deleted */
    int64_t ids;    /* that the closed shards held, and scheduled payloads */
    size_t waiting; /* shards of the present step without their last answer */
    int64_t told;   /* when delete_queue.lua was last told that the deletion is under way, in srt_clock_ms time */
    int deleted;
} delete_state;

static void delete_release(seriatim_client *c)
{
    delete_state *d = c->state;
    srt_queue_forget_layout(&c->registry, &d->all);
    srt_free(c->mem, d, sizeof *d);
}

/* ---- Who serves it --------------------------------------------------------------------------- */

static int delete_ask_queue(seriatim_client *c, delete_state *d, const char *step, int kind)
{
    srt_request *r = srt_queue_request(&c->registry, srt_cluster_pool(&c->cluster), &d->all, srt_script_delete_queue);
    if (!r)
        return srt_operator_nomem(c);
    srt_request_int(r, d->old);
    srt_request_text(r, step);
    r->kind = kind;
    d->told = srt_clock_ms();
    return srt_client_send(c, r);
}

/* {now in milliseconds, node, expiry, description, ...} */
static int delete_on_nodes(seriatim_client *c, delete_state *d, const srt_reply *reply)
{
    const srt_token *at = reply->tokens;
    size_t i;
    if (!srt_reply_is_list(reply, 1))
        return srt_operator_protocol(c, "nodes");
    for (i = 2; i + 2 < reply->count; i += 3)
        if (srt_token_int(&at[i + 1]) > srt_token_int(&at[1]) && srt_node_serves(&at[i + 2], &d->all.name))
            return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID,
                                               "the node %.*s serves the queue; stop it first",
                                               (int)(at[i].len < 100 ? at[i].len : 100), at[i].data));
    return delete_ask_queue(c, d, "begin", DELETE_BEGIN);
}

/* ---- Its shards ------------------------------------------------------------------------------ */

/* cursor: of a wipe; NULL: it begins. */
static int delete_ask_shard(seriatim_client *c, delete_state *d, unsigned shard, int kind, const srt_token *cursor)
{
    srt_request *r =
        srt_client_shard_request(c, &d->all, shard, kind == DELETE_CLOSE ? srt_script_close : srt_script_wipe);
    if (!r)
        return SERIATIM_NOMEM;
    if (kind == DELETE_WIPE) {
        srt_request_int(r, d->force);
        srt_request_arg(r, cursor ? cursor->data : "0", cursor ? cursor->len : 1);
    }
    r->kind = kind;
    r->place = shard;
    return srt_client_send(c, r);
}

static int delete_ask_shards(seriatim_client *c, delete_state *d, int kind)
{
    unsigned shard;
    int status = SERIATIM_OK;
    d->waiting = d->all.shards_count;
    for (shard = 0; shard < d->all.shards_count && status == SERIATIM_OK; shard++)
        status = delete_ask_shard(c, d, shard, kind, NULL);
    return status;
}

static int delete_changed(seriatim_client *c)
{
    return srt_client_fail(c,
                           srt_fail(&c->error, SERIATIM_INVALID, "the queue was changed meanwhile; look at it again"));
}

static int delete_on_begin(seriatim_client *c, delete_state *d, const srt_reply *reply)
{
    const srt_token *at = reply->tokens;
    int64_t most;
    if (!srt_reply_is_list(reply, 0))
        return srt_operator_protocol(c, "delete_queue");
    if (reply->count < 3)
        return delete_changed(c);
    most = srt_token_int(&at[2]);
    if (most < 1 || most > SERIATIM_MAX_SHARDS)
        return srt_operator_protocol(c, "delete_queue");
    srt_queue_forget_layout(&c->registry, &d->all); /* if the answer comes a second time */
    if (srt_queue_with_shards(&c->registry, &d->all, (unsigned)most, d->old + 1) != SERIATIM_OK)
        return srt_operator_nomem(c);
    return delete_ask_shards(c, d, DELETE_CLOSE);
}

static int delete_on_close(seriatim_client *c, delete_state *d, const srt_reply *reply)
{
    size_t i;
    if (!srt_reply_is_list(reply, 4))
        return srt_operator_protocol(c, "close");
    for (i = 1; i <= 4; i++)
        d->ids += srt_token_int(&reply->tokens[i]);
    if (--d->waiting > 0)
        return SERIATIM_OK;
    return d->ids && !d->force ? delete_ask_queue(c, d, "keep", DELETE_END) : delete_ask_shards(c, d, DELETE_WIPE);
}

/*
 * While many ids are wiped, the queue must not go on: layout.lua would let it, after its time. What a renewal answers
 * is not looked at: if the queue has gone on, the last step is told so.
 */
static int delete_on_wipe(seriatim_client *c, delete_state *d, const srt_request *r, const srt_reply *reply)
{
    int status = SERIATIM_OK;
    if (reply->tokens[0].type != SRT_STRING)
        return srt_operator_protocol(c, "wipe");
    if (reply->tokens[0].len > 0) {
        if (srt_clock_ms() - d->told >= DELETE_RENEW_MS)
            status = delete_ask_queue(c, d, "begin", DELETE_RENEW);
        return status == SERIATIM_OK ? delete_ask_shard(c, d, (unsigned)r->place, DELETE_WIPE, &reply->tokens[0])
                                     : status;
    }
    return --d->waiting > 0 ? SERIATIM_OK : delete_ask_queue(c, d, "delete", DELETE_END);
}

/* The client asks for the layout again, whether it was deleted or not. */
static int delete_on_end_step(seriatim_client *c, delete_state *d, const srt_reply *reply)
{
    srt_queue_forget_layout(&c->registry, c->registry.queues[c->queue]);
    if (d->ids && !d->force)
        return srt_client_fail(
            c, srt_fail(&c->error, SERIATIM_INVALID,
                        "the queue holds %lld ids (waiting, running, parked or dead); with force they are deleted, too",
                        (long long)d->ids));
    if (reply->count < 3)
        return delete_changed(c);
    d->deleted = 1;
    return SERIATIM_OK;
}

/* ---- The operation --------------------------------------------------------------------------- */

static int delete_send(seriatim_client *c, srt_queue *queue)
{
    delete_state *d = c->state;
    if (queue->shards_count == 0)
        return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID, "there is no such queue"));
    if (queue->old_count)
        return srt_client_fail(c, srt_fail(&c->error, SERIATIM_INVALID,
                                           "its ids are moved to another number of shards; wait for the end of that"));
    if (d->begun)
        return delete_changed(c);
    d->begun = 1;
    d->all.name = queue->name;
    d->old = queue->generation;
    return srt_nodes_ask(c, DELETE_NODES);
}

static int delete_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    delete_state *d = c->state;
    switch (r->kind) {
    case DELETE_NODES:
        return delete_on_nodes(c, d, reply);
    case DELETE_BEGIN:
        return delete_on_begin(c, d, reply);
    case DELETE_CLOSE:
        return delete_on_close(c, d, reply);
    case DELETE_WIPE:
        return delete_on_wipe(c, d, r, reply);
    case DELETE_RENEW:
        return SERIATIM_OK;
    default:
        return delete_on_end_step(c, d, reply);
    }
}

int srt_delete_begin(seriatim_client *c, size_t queue, const seriatim_text *force, size_t count)
{
    static const srt_operation operation = {
        .fresh = 1, .send = delete_send, .on_reply = delete_on_reply, .release = delete_release};
    const srt_queue *named = srt_client_queue_at(c, queue);
    delete_state *d;
    if (!named)
        return SERIATIM_INVALID;
    if (count > 1 ||
        (count == 1 && (!force || !force->data || !srt_bytes_equal(&named->name, force->data, force->len))))
        return srt_fail(&c->error, SERIATIM_INVALID, "force must be the name of the queue that is to be deleted");
    d = srt_operator_state(c, sizeof *d);
    if (!d)
        return SERIATIM_NOMEM;
    d->force = count == 1;
    c->state = d;
    return srt_client_start(c, &operation, queue);
}

int64_t srt_delete_result(const seriatim_client *c)
{
    return c->operation && c->operation->send == delete_send && ((const delete_state *)c->state)->deleted;
}

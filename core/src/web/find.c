/*
 * find.c - finds the queue that a request names: one that the client knows, one that Redis has, or the queue of the
 * worker of this name.
 */
#include "web/web.h"

/* Which names are asked for, and where the answers go. */
typedef struct layout_state {
    const seriatim_text *names;
    size_t count;
    int *found;
} layout_state;

static int exists_ask(seriatim_client *c, seriatim_text name, size_t place)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), srt_script_none, NULL, 0);
    srt_bytes key;
    int status;
    if (!r)
        return srt_operator_nomem(c);
    srt_bytes_init(&key, c->mem);
    srt_key_layout(&key, c->registry.ns.data, name.data, name.len);
    srt_request_text(r, "EXISTS");
    srt_request_arg(r, key.data, key.len);
    r->tail.failed |= key.failed;
    r->place = place;
    status = srt_client_send(c, r);
    srt_bytes_free(&key);
    return status;
}

static int exists_send(seriatim_client *c, srt_queue *queue)
{
    const layout_state *l = c->state;
    size_t i;
    int status = SERIATIM_OK;
    (void)queue;
    for (i = 0; i < l->count && status == SERIATIM_OK; i++)
        status = exists_ask(c, l->names[i], i);
    return status;
}

static int exists_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    ((layout_state *)c->state)->found[r->place] = srt_token_int(&reply->tokens[0]) > 0;
    return SERIATIM_OK;
}

static void exists_release(seriatim_client *c)
{
    srt_free(c->mem, c->state, sizeof(layout_state));
}

int srt_web_layouts_begin(seriatim_client *c, const seriatim_text *names, size_t count, int *found)
{
    static const srt_operation operation = {
        .send = exists_send, .on_reply = exists_on_reply, .release = exists_release};
    layout_state *l;
    int status = srt_operator_begin(c, sizeof *l);
    if (status != SERIATIM_OK)
        return status;
    l = c->state;
    l->names = names;
    l->count = count;
    l->found = found;
    return srt_client_start_alone(c, &operation);
}

static int find_register(seriatim_client *c, srt_web *w)
{
    seriatim_queue_settings settings;
    w->queue = srt_registry_number(&c->registry, w->worker.data, w->worker.len);
    if (w->queue != SRT_NO_QUEUE)
        return SERIATIM_OK;
    seriatim_queue_settings_init(&settings);
    settings.name = w->worker.data;
    settings.name_len = w->worker.len;
    settings.shards_count = 0;
    return seriatim_client_queue(c, &settings, &w->queue);
}

/*
 * Redis has no such queue: if it is made again, its layout may be another one. One of the host's own is shown as empty,
 * because its first push makes it. Returns whether it is such a queue.
 */
static int find_own(seriatim_client *c, srt_web *w)
{
    size_t number = srt_registry_number(&c->registry, w->worker.data, w->worker.len);
    srt_queue *queue = number == SRT_NO_QUEUE ? NULL : c->registry.queues[number];
    if (!queue)
        return 0;
    srt_queue_forget_layout(&c->registry, queue);
    if (queue->own.shards_count == 0 || srt_web_changes(w))
        return 0;
    w->queue = number;
    return 1;
}

/*
 * w->worker is no queue: is it a worker? Its queue takes its place, once: a queue's name is not looked up as a worker's
 * again.
 */
static int find_by_worker(srt_web *w)
{
    const seriatim_web_worker *worker = srt_web_worker_named(w, w->worker);
    if (!worker)
        return 0;
    w->worker = worker->queue;
    w->worker_count = 0;
    w->step = 0;
    return 1;
}

/*
 * Only what Redis knows becomes known to the client: no request can fill its memory with names. What the client knows
 * may have been deleted since.
 */
int srt_web_find_queue(seriatim_client *c, srt_web *w)
{
    if (w->step == 1 && w->queue == SRT_NO_QUEUE) {
        if (w->is_there)
            return find_register(c, w) == SERIATIM_OK ? SRT_WEB_DONE : SERIATIM_NOMEM;
        if (find_own(c, w))
            return SRT_WEB_DONE;
        if (!find_by_worker(w))
            return srt_web_refuse(w, 404, "there is no such queue");
    }
    if (w->step > 0)
        return SRT_WEB_DONE;
    if (w->worker.len < 1 || w->worker.len > 512)
        return srt_web_refuse(w, 404, "there is no such queue");
    w->is_there = 0;
    return srt_web_layouts_begin(c, &w->worker, 1, &w->is_there);
}

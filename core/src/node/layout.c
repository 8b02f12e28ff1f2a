/* layout.c - the layouts and settings of a node's queues, and the shards that follow from them. */
#include "node/node_state.h"

#include <string.h>

#define REREAD_ALL_MS 50000 /* in this time the settings of all workers are read again, unless heartbeats are rarer */

/*
 * A server writes the settings of a queue when it begins to serve it; later it only reads what other servers have
 * written.
 */
static srt_layout_mode layout_mode(const srt_queue *queue)
{
    return queue->generation && !queue->unwritten ? SRT_LAYOUT_LOOK : SRT_LAYOUT_SET;
}

static int ask_layout(srt_node *n, size_t worker)
{
    const srt_queue *queue = n->workers[worker];
    srt_layout_mode mode = layout_mode(queue);
    srt_request *r = srt_layout_request(&n->registry, srt_cluster_pool(&n->cluster), queue, mode, 0);
    if (!r)
        return SERIATIM_NOMEM;
    r->kind = SRT_ASK_LAYOUT;
    r->place = worker;
    r->number = mode;
    return srt_cluster_send(&n->cluster, r);
}

int srt_node_ask_layouts(srt_node *n)
{
    size_t i;
    for (i = 0; n->layouts.unasked && i < n->worker_count; i++) {
        if (!n->workers[i]->unasked)
            continue;
        if (ask_layout(n, i) != SERIATIM_OK)
            return SERIATIM_NOMEM;
        n->workers[i]->unasked = 0;
        n->layouts.unasked--;
    }
    return SERIATIM_OK;
}

static void look_at_next(srt_node *n)
{
    if (n->layouts.left == 0)
        return;
    n->layouts.left--;
    n->layouts.reread = (n->layouts.reread + 1) % n->worker_count;
    n->layouts.rereading = ask_layout(n, n->layouts.reread) == SERIATIM_OK;
}

void srt_node_look_at_settings(srt_node *n)
{
    int64_t workers = (int64_t)n->worker_count, most = workers * (n->lease_ms / 4) / REREAD_ALL_MS + 1;
    if (n->layouts.rereading || n->shard_count == 0)
        return;
    n->layouts.left = (size_t)(most < workers ? most : workers);
    look_at_next(n);
}

static int add_shard(srt_node *n, size_t worker, unsigned index)
{
    srt_shard *s = srt_alloc(n->mem, sizeof *s);
    if (!s)
        return SERIATIM_NOMEM;
    s->queue = n->workers[worker];
    s->worker = worker;
    s->index = index;
    s->keys = s->queue->shards[index];
    s->slot = srt_key_slot(s->keys->prefix.data, s->keys->prefix.len);
    s->master = srt_shard_master(n, s);
    s->wake_at = s->due_at = s->unproven_at = s->suspect_at = SRT_NEVER;
    srt_bytes_init(&s->owner, n->mem);
    s->queue->places[s->queue->place_count++] = s;
    n->shards[n->shard_count++] = s;
    return SERIATIM_OK;
}

static srt_shard *find_shard(const srt_node *n, seriatim_shard wanted)
{
    const srt_queue *queue = n->workers[wanted.worker];
    return wanted.shard < queue->place_count ? queue->places[wanted.shard] : NULL;
}

static void take_fixed(srt_node *n)
{
    size_t i;
    for (i = 0; i < n->fixed.count; i++) {
        srt_shard *s = find_shard(n, n->fixed.shards[i]);
        if (!s) {
            srt_node_tell(n, SERIATIM_EVENT_WARNING, 1, "the splitter named shard %u of \"%.*s\", which does not exist",
                          n->fixed.shards[i].shard, (int)n->workers[n->fixed.shards[i].worker]->name.len,
                          n->workers[n->fixed.shards[i].worker]->name.data);
            continue;
        }
        s->named = 1;
        s->wanted = !s->queue->withdrawn && s->index < srt_queue_addressed(s->queue);
        s->group = n->fixed.groups[i];
    }
}

/*
 * Shards that the splitter was not asked about are this node's if it has the shard with the same remainder: so with the
 * same splitter on all nodes each of them has one that wants it.
 */
static void name_fixed(const srt_queue *queue)
{
    unsigned i;
    for (i = 0; i < queue->place_count; i++) {
        const srt_shard *like = queue->places[i % queue->split_count];
        queue->places[i]->named = like->named;
        queue->places[i]->group = like->group;
    }
}

static void share_fixed(srt_node *n, const srt_queue *queue, int64_t now)
{
    unsigned i;
    for (i = 0; i < queue->place_count; i++) {
        srt_shard *s = queue->places[i];
        srt_shard_want(n, s, s->named && !queue->withdrawn && i < srt_queue_addressed(queue), 0, now);
    }
}

/* Allocates the heap of ready shards of each group, large enough for all of its shards. */
static int make_room(srt_node *n)
{
    size_t g, i;
    for (g = 0; g < n->group_count; g++) {
        void *ready = n->groups[g].ready;
        size_t count = 0;
        for (i = 0; i < n->shard_count; i++)
            count += n->shards[i]->group == g;
        if (srt_grow(n->mem, &ready, &n->groups[g].ready_cap, count, sizeof *n->groups[g].ready) != SERIATIM_OK)
            return SERIATIM_NOMEM;
        n->groups[g].ready = ready;
    }
    return SERIATIM_OK;
}

/* Removes the shards behind the first `count`. Nothing of them is in use. */
static void unmake_shards(srt_node *n, size_t count)
{
    while (n->shard_count > count) {
        srt_shard *s = n->shards[--n->shard_count];
        s->queue->place_count--;
        srt_free(n->mem, s, sizeof *s);
    }
}

/* Those of its layout that are not there. */
static int add_shards(srt_node *n, size_t worker)
{
    const srt_queue *queue = n->workers[worker];
    while (queue->place_count < srt_queue_addressed(queue))
        if (add_shard(n, worker, queue->place_count) != SERIATIM_OK)
            return SERIATIM_NOMEM;
    return SERIATIM_OK;
}

/* Room for all shards of a worker in its own list, in the node's, and in the timers. */
static int grow_shards(srt_node *n, srt_queue *queue)
{
    unsigned all = srt_queue_addressed(queue);
    size_t more = all > queue->place_count ? all - queue->place_count : 0;
    void *shards = n->shards, *heap = n->timers.heap, *places = queue->places;
    if (srt_grow(n->mem, &places, &queue->place_cap, queue->place_count + more, sizeof *queue->places) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    queue->places = places;
    if (srt_grow(n->mem, &shards, &n->shard_cap, n->shard_count + more, sizeof *n->shards) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    n->shards = shards;
    if (srt_grow(n->mem, &heap, &n->timers.cap, n->shard_count + more, sizeof *n->timers.heap) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    n->timers.heap = heap;
    return SERIATIM_OK;
}

/* Makes the shards of the workers from `worker` up to `end`, or none of them. */
static int make_shards(srt_node *n, size_t worker, size_t end)
{
    size_t before = n->shard_count;
    int status = SERIATIM_OK;
    for (; status == SERIATIM_OK && worker < end; worker++) {
        status = grow_shards(n, n->workers[worker]);
        if (status == SERIATIM_OK)
            status = add_shards(n, worker);
    }
    if (status == SERIATIM_OK)
        status = make_room(n);
    if (status != SERIATIM_OK)
        unmake_shards(n, before);
    return status;
}

int srt_node_adopt(srt_node *n, size_t worker, const char *text, int64_t now)
{
    srt_queue *queue = n->workers[worker];
    int status = srt_queue_set_layout(&n->registry, queue, text, strlen(text), NULL);
    unsigned i;
    if (status == SERIATIM_OK)
        status = make_shards(n, worker, worker + 1);
    if (status != SERIATIM_OK)
        return status;
    queue->turns = 1;
    if (n->fixed.count) {
        name_fixed(queue);
        if (make_room(n) != SERIATIM_OK) /* before the shards are wanted: their ready ids need it */
            return SERIATIM_NOMEM;
        share_fixed(n, queue, now);
    }
    for (i = 0; i < queue->place_count; i++) {
        srt_shard *s = queue->places[i];
        s->window |= s->state == SRT_OWNED; /* a claim that said it may have been refused */
        srt_node_wake(n, s, now);
    }
    srt_node_share_queue(n, queue, now);
    return SERIATIM_OK;
}

/* All layouts are known: makes the shards and sends the first heartbeat. */
static int make_first_shards(srt_node *n, int64_t now)
{
    if (srt_node_describe(n) != SERIATIM_OK || make_shards(n, 0, n->worker_count) != SERIATIM_OK)
        return SERIATIM_NOMEM; /* described again: workers may have been added since the start */
    take_fixed(n);
    if (make_room(n) != SERIATIM_OK) {
        unmake_shards(n, 0);
        return SERIATIM_NOMEM;
    }
    n->heartbeat.at = now;
    n->sampler.at = now;
    return SERIATIM_OK;
}

/* The layout of a worker that was added to a running node is known: from now on this node takes its part of it. */
static int serve_added(srt_node *n, size_t worker, int64_t now)
{
    seriatim_shard first = {0, 0};
    first.worker = worker;
    if (find_shard(n, first))
        return SERIATIM_OK;
    if (srt_node_describe(n) != SERIATIM_OK || make_shards(n, worker, worker + 1) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    srt_node_announce(n, now);
    return SERIATIM_OK;
}

static void tell_of_settings(srt_node *n, const srt_queue *queue, const char *who, const srt_settings *before)
{
    srt_bytes text;
    srt_bytes_init(&text, n->mem);
    if (srt_settings_differences(&text, before, ", now ", &queue->now) > 0 && !text.failed)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, 0, "queue \"%.*s\": %s changed its settings in Redis: %.*s",
                      (int)queue->name.len, queue->name.data, who, (int)text.len, text.data);
    srt_bytes_free(&text);
}

/* Takes over settings that another server wrote. */
static void settings_seen(srt_node *n, srt_queue *queue, const srt_reply *reply)
{
    srt_settings before = queue->now;
    seriatim_error error;
    int absent, status;
    n->layouts.rereading = 0;
    status = srt_settings_look(queue, reply, &absent, &error);
    if (status != SERIATIM_OK)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, status, "%s", error.message);
    else if (!absent)
        tell_of_settings(n, queue, "another server", &before);
    srt_node_wake_threads(n); /* serial_shards may let more run */
    look_at_next(n);
}

static int layout_came(srt_node *n, srt_queue *queue, const srt_reply *reply, seriatim_error *error)
{
    srt_settings before;
    int absent, status = srt_layout_take(&n->registry, queue, SRT_LAYOUT_SET, reply, &absent, &before, error);
    if (status == SERIATIM_OK && absent)
        status = srt_fail(error, SERIATIM_PROTOCOL, "the layout of the queue cannot be read");
    if (status != SERIATIM_OK)
        return status;
    n->layouts.missing -= n->shard_count == 0;
    queue->turns = queue->old_count > 0;
    queue->split_count = srt_queue_addressed(queue);
    if (queue->shards_count != queue->own.shards_count)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, queue->shards_count,
                      "queue \"%.*s\" has %u shards; this server says shards_count = %lld, which counts only when a "
                      "queue is created: change the code, or run seriatim reshard",
                      (int)queue->name.len, queue->name.data, queue->shards_count, (long long)queue->own.shards_count);
    tell_of_settings(n, queue, "this server", &before);
    return SERIATIM_OK;
}

/* The settings of a worker that is served again are in Redis. */
static void settings_written(srt_node *n, srt_queue *queue, int64_t now)
{
    queue->unwritten = 0;
    queue->now = queue->code;
    n->layouts.rereading = 0;
    srt_node_wake_threads(n); /* serial_shards may let more run */
    take_fixed(n);
    srt_node_announce(n, now);
    srt_node_share_queue(n, queue, now);
}

int srt_node_layout_known(srt_node *n, const srt_request *r, const srt_reply *reply, int64_t now, seriatim_error *error)
{
    srt_queue *queue = n->workers[r->place];
    int status = SERIATIM_OK;
    if (!queue->generation)
        status = layout_came(n, queue, reply, error);
    else if (r->number == SRT_LAYOUT_SET)
        settings_written(n, queue, now);
    else
        settings_seen(n, queue, reply);
    if (status == SERIATIM_OK && n->layouts.missing == 0) {
        status = n->shard_count == 0 ? make_first_shards(n, now) : serve_added(n, r->place, now);
        if (status != SERIATIM_OK)
            srt_fail_plain(error, status);
    }
    if (status != SERIATIM_OK && n->shard_count > 0)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, status, "%s", error->message); /* the connection does not end by it */
    return status;
}

/* A running node keeps its connection, and asks again with a later heartbeat. */
void srt_node_layout_refused(srt_node *n)
{
    n->layouts.rereading = 0;
}

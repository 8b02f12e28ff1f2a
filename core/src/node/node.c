/* node.c - makes a node: its settings, names, queues and groups. */
#include "node/node_state.h"

#include <string.h>

static int check_node_settings(const seriatim_node_settings *s, seriatim_error *error)
{
    size_t i, len = s->id ? strlen(s->id) : 0;
    for (i = 0; i < len; i++)
        if (!((s->id[i] >= 'a' && s->id[i] <= 'z') || (s->id[i] >= 'A' && s->id[i] <= 'Z') ||
              (s->id[i] >= '0' && s->id[i] <= '9') || strchr("_.-", s->id[i])))
            return srt_fail(error, SERIATIM_INVALID, "node id may hold letters, digits, _ . - only");
    if (len < 1 || len > 64)
        return srt_fail(error, SERIATIM_INVALID, "node id must be 1 to 64 bytes, not %lu", (unsigned long)len);
    if (s->lease_ms < 200 || s->lease_ms > 3600000)
        return srt_fail(error, SERIATIM_INVALID, "lease_time must be from 0.2 to 3600 seconds");
    if (s->poll_ms < 10 || s->poll_ms > 3600000)
        return srt_fail(error, SERIATIM_INVALID, "poll_interval must be from 0.01 to 3600 seconds");
    if (s->threads < 1 || s->threads > 10000)
        return srt_fail(error, SERIATIM_INVALID, "threads_per_node must be from 1 to 10000");
    if (s->scheduler < SERIATIM_LAG || s->scheduler > SERIATIM_PRIORITY)
        return srt_fail(error, SERIATIM_INVALID, "scheduler must be lag, seq or priority");
    return SERIATIM_OK;
}

#define NODE_TEXTS 6

/* The texts of a node that live as long as it. */
static srt_bytes *node_text(srt_node *n, size_t i)
{
    srt_bytes *const all[NODE_TEXTS] = {&n->id,           &n->description,   &n->name,
                                        &n->wake_channel, &n->nodes_channel, &n->heartbeat_keys};
    return all[i];
}

static int node_names(srt_node *n, const seriatim_node_settings *s)
{
    const char *ns = n->registry.ns.data;
    size_t i;
    srt_bytes_adds(&n->id, s->id);
    srt_bytes_adds(&n->description, s->description ? s->description : "");
    srt_key_wake(&n->wake_channel, ns, s->id, strlen(s->id));
    srt_key_escape(&n->nodes_channel, ns, strlen(ns));
    srt_bytes_adds(&n->nodes_channel, ":nodes");
    srt_key_heartbeat_args(&n->heartbeat_keys, ns, s->id, strlen(s->id));
    srt_bytes_adds(&n->name, s->options.name ? s->options.name : "seriatim");
    srt_bytes_addc(&n->name, '\0');
    for (i = 0; i < NODE_TEXTS; i++)
        if (node_text(n, i)->failed)
            return SERIATIM_NOMEM;
    return SERIATIM_OK;
}

static void node_init_bytes(srt_node *n)
{
    size_t i;
    for (i = 0; i < NODE_TEXTS; i++)
        srt_bytes_init(node_text(n, i), n->mem);
}

int srt_node_new(const seriatim_node_settings *s, srt_node **out, seriatim_error *error)
{
    const seriatim_allocator *mem = s->options.allocator ? s->options.allocator : seriatim_default_allocator();
    srt_node *n;
    int status = check_node_settings(s, error);
    if (status != SERIATIM_OK)
        return status;
    n = srt_alloc(mem, sizeof *n);
    if (!n)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    n->mem = mem;
    n->lease_ms = s->lease_ms;
    n->poll_ms = s->poll_ms;
    n->threads = s->threads;
    n->scheduler = s->scheduler;
    n->held_since = n->follow_at = SRT_NEVER;
    n->held_slot = -1;
    node_init_bytes(n);
    srt_sampler_init(n);
    status = srt_registry_init(&n->registry, mem, s->options.ns ? s->options.ns : "seriatim", error);
    if (status == SERIATIM_OK &&
        (srt_cluster_init(&n->cluster, mem) != SERIATIM_OK || srt_session_init(&n->wakes, mem, 1) != SERIATIM_OK ||
         node_names(n, s) != SERIATIM_OK))
        status = srt_fail_plain(error, SERIATIM_NOMEM);
    if (status != SERIATIM_OK) {
        srt_node_free(n);
        return status;
    }
    n->hash = srt_hash(n->id.data, n->id.len);
    srt_node_begin_masters(n);
    *out = n;
    return SERIATIM_OK;
}

static void free_groups(srt_node *n)
{
    size_t i;
    for (i = 0; i < n->group_count; i++) {
        srt_group *group = &n->groups[i];
        srt_list_free(&group->quarantined);
        srt_list_free(&group->died);
        while (group->exhausted) {
            seriatim_delivery *d = group->exhausted;
            group->exhausted = d->next;
            srt_delivery_free(n->mem, d);
        }
    }
    for (i = 0; i < n->group_count; i++)
        srt_free(n->mem, n->groups[i].ready, n->groups[i].ready_cap * sizeof *n->groups[i].ready);
    srt_free(n->mem, n->groups, n->group_cap * sizeof *n->groups);
}

/* Frees the jobs that are in a request. */
static void free_request(void *node, srt_request *r)
{
    srt_node *n = node;
    if (r->kind == SRT_ASK_SETTLE) {
        srt_list_free(r->subject);
        srt_free(n->mem, r->subject, sizeof(srt_job_list));
    } else if (r->kind == SRT_ASK_SLICE) {
        srt_job_free(r->subject);
    }
}

void srt_node_free(srt_node *n)
{
    size_t i;
    if (!n)
        return;
    while (n->held) {
        seriatim_delivery *d = n->held;
        n->held = d->next;
        srt_delivery_free(n->mem, d);
    }
    if (n->cluster.mem)
        srt_cluster_each(&n->cluster, free_request, n);
    free_groups(n);
    for (i = 0; i < n->shard_count; i++) {
        srt_shard_forget(n, n->shards[i]);
        srt_free(n->mem, n->shards[i], sizeof *n->shards[i]);
    }
    for (i = 0; i < n->worker_count; i++)
        srt_free(n->mem, n->workers[i]->places, n->workers[i]->place_cap * sizeof *n->workers[i]->places);
    srt_cluster_free(&n->cluster);
    if (n->wakes.mem)
        srt_session_free(&n->wakes);
    srt_node_forget_peers(n);
    srt_free(n->mem, n->peers.list, n->peers.cap * sizeof *n->peers.list);
    srt_free(n->mem, n->shards, n->shard_cap * sizeof *n->shards);
    srt_free(n->mem, n->timers.heap, n->timers.cap * sizeof *n->timers.heap);
    srt_sampler_free(n);
    srt_free(n->mem, n->workers, n->worker_cap * sizeof *n->workers);
    srt_free(n->mem, n->fixed.shards, n->fixed.cap * sizeof *n->fixed.shards);
    srt_free(n->mem, n->fixed.groups, n->fixed.group_cap * sizeof *n->fixed.groups);
    srt_registry_free(&n->registry);
    for (i = 0; i < NODE_TEXTS; i++)
        srt_bytes_free(node_text(n, i));
    srt_free(n->mem, n, sizeof *n);
}

/* Whether this node can take a worker now. *known: a worker of this queue was withdrawn, and is served again. */
static int check_worker(const srt_node *n, const seriatim_queue_settings *settings, srt_queue **known,
                        seriatim_error *error)
{
    *known = settings->name ? srt_registry_find(&n->registry, settings->name, settings->name_len) : NULL;
    if (*known && !(*known)->withdrawn)
        return srt_fail(error, SERIATIM_INVALID, "two workers have the queue_name \"%.*s\"", (int)settings->name_len,
                        settings->name);
    if (settings->shards_count < 1)
        return srt_fail(error, SERIATIM_INVALID, "shards_count must be from 1 to %d", SERIATIM_MAX_SHARDS);
    if (n->stopping)
        return srt_fail(error, SERIATIM_CLOSED, "the server stops");
    if (n->described && n->fixed.count && !*known)
        return srt_fail(error, SERIATIM_INVALID,
                        "build_splitter has fixed the shards of this server, so no worker can be added while it runs");
    return SERIATIM_OK;
}

static void ask_layout_of(srt_node *n, srt_queue *queue)
{
    n->layouts.unasked += !queue->unasked;
    queue->unasked = 1;
    queue->unwritten = queue->generation != 0;
}

/* Of a worker that was withdrawn: its number, its shards and their state have stayed. */
static int serve_again(srt_node *n, srt_queue *queue, size_t *worker, seriatim_error *error)
{
    queue->withdrawn = 0;
    if (n->described && srt_node_describe(n) != SERIATIM_OK) {
        queue->withdrawn = 1;
        return srt_fail_plain(error, SERIATIM_NOMEM);
    }
    for (*worker = 0; n->workers[*worker] != queue; ++*worker)
        ;
    ask_layout_of(n, queue);
    return SERIATIM_OK;
}

int srt_node_worker(srt_node *n, const seriatim_queue_settings *settings, size_t *worker, seriatim_error *error)
{
    void *workers = n->workers;
    srt_queue *queue, *known;
    int status = check_worker(n, settings, &known, error);
    if (status != SERIATIM_OK)
        return status;
    if (srt_grow(n->mem, &workers, &n->worker_cap, n->worker_count + 1, sizeof *n->workers) != SERIATIM_OK)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    n->workers = workers;
    status = srt_registry_add(&n->registry, settings, &queue, error);
    if (status != SERIATIM_OK)
        return status;
    if (known)
        return serve_again(n, queue, worker, error);
    *worker = n->worker_count;
    n->workers[n->worker_count++] = queue;
    n->layouts.missing += n->shard_count == 0;
    ask_layout_of(n, queue);
    return SERIATIM_OK;
}

int srt_node_withdraw(srt_node *n, size_t worker, int64_t now, seriatim_error *error)
{
    srt_queue *queue = worker < n->worker_count ? n->workers[worker] : NULL;
    if (!queue)
        return srt_fail(error, SERIATIM_INVALID, "no worker has the number %lu", (unsigned long)worker);
    if (queue->withdrawn)
        return SERIATIM_AGAIN;
    queue->withdrawn = 1;
    if (n->described && srt_node_describe(n) != SERIATIM_OK) {
        queue->withdrawn = 0;
        return srt_fail_plain(error, SERIATIM_NOMEM);
    }
    srt_node_announce(n, now);
    srt_node_share_queue(n, queue, now);
    return SERIATIM_OK;
}

static srt_group *node_add_group(srt_node *n, int scheduler, size_t threads)
{
    void *groups = n->groups;
    srt_group *group;
    if (srt_grow(n->mem, &groups, &n->group_cap, n->group_count + 1, sizeof *n->groups) != SERIATIM_OK)
        return NULL;
    n->groups = groups;
    group = &n->groups[n->group_count++];
    memset(group, 0, sizeof *group);
    group->scheduler = scheduler;
    group->threads = threads;
    return group;
}

int srt_node_group(srt_node *n, int scheduler, const seriatim_shard *shards, size_t count, size_t *number,
                   seriatim_error *error)
{
    void *fixed = n->fixed.shards, *fixed_group = n->fixed.groups;
    size_t i;
    if (scheduler < SERIATIM_LAG || scheduler > SERIATIM_PRIORITY)
        return srt_fail(error, SERIATIM_INVALID, "scheduler must be lag, seq or priority");
    if (count && !shards)
        return srt_fail(error, SERIATIM_INVALID, "shards are missing");
    for (i = 0; i < count; i++)
        if (shards[i].worker >= n->worker_count)
            return srt_fail(error, SERIATIM_INVALID, "the splitter named a shard of an unknown worker");
    if (srt_grow(n->mem, &fixed, &n->fixed.cap, n->fixed.count + count, sizeof *n->fixed.shards) != SERIATIM_OK)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    n->fixed.shards = fixed;
    if (srt_grow(n->mem, &fixed_group, &n->fixed.group_cap, n->fixed.count + count, sizeof *n->fixed.groups) !=
            SERIATIM_OK ||
        (n->fixed.groups = fixed_group, !node_add_group(n, scheduler, 1)))
        return srt_fail_plain(error, SERIATIM_NOMEM);
    *number = n->group_count - 1;
    for (i = 0; i < count; i++) {
        n->fixed.shards[n->fixed.count] = shards[i];
        n->fixed.groups[n->fixed.count++] = *number;
    }
    return SERIATIM_OK;
}

int srt_node_start(srt_node *n, int64_t now, seriatim_error *error)
{
    if (n->worker_count == 0)
        return srt_fail(error, SERIATIM_INVALID, "workers must not be empty");
    if (n->group_count == 0 && !node_add_group(n, n->scheduler, n->threads))
        return srt_fail_plain(error, SERIATIM_NOMEM);
    if (!n->described && srt_node_describe(n) != SERIATIM_OK)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    n->described = 1; /* the host calls this again if it could not open a descriptor or start a thread */
    n->opening = 1;
    n->opened_by = SRT_NEVER;
    n->heartbeat.at = n->heartbeat.pulse_at = n->heartbeat.answered_at = n->heartbeat.began = now;
    n->poll_at = now + n->poll_ms;
    return SERIATIM_OK;
}

seriatim_runner_stats srt_node_stats(const srt_node *n)
{
    seriatim_runner_stats stats = n->stats;
    size_t i;
    stats.commands = n->sent_before + n->wakes.commands;
    for (i = 0; i < n->cluster.peer_count; i++)
        stats.commands += n->cluster.peers[i]->commands.commands;
    stats.shards = stats.claimed = 0;
    for (i = 0; i < n->shard_count; i++) {
        stats.shards += n->shards[i]->state == SRT_OWNED;
        stats.claimed += n->shards[i]->ready.count + n->shards[i]->quarantined;
    }
    return stats;
}

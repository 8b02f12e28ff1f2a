/* node.c - a node's connections, layouts and timers. */
#include "node/node_state.h"

#include <string.h>

#define NODE_FAREWELL_MS 1000    /* so long before an abandoned node gives up, it leaves, whatever is open */

/* ---- Making -------------------------------------------------------------------------------- */

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

#define NODE_TEXTS 9

/* What is named at the beginning and freed at the end. */
static srt_bytes *node_text(srt_node *n, size_t i)
{
    srt_bytes *const all[NODE_TEXTS] = {&n->id,        &n->description, &n->name,     &n->wake_channel, &n->nodes_channel,
                                        &n->alive_key, &n->info_key,    &n->order_key, &n->renewed_key};
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
    srt_key_global(&n->alive_key, ns, "nodes", "alive");
    srt_key_global(&n->info_key, ns, "nodes", "info");
    srt_key_order(&n->order_key, ns, s->id, strlen(s->id));
    srt_key_global(&n->renewed_key, ns, "nodes", "renewed");
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
    node_init_bytes(n);
    srt_sampler_init(n);
    status = srt_registry_init(&n->registry, mem, s->options.ns ? s->options.ns : "seriatim", error);
    if (status == SERIATIM_OK && (srt_session_init(&n->sessions[SRT_COMMANDS], mem, 0) != SERIATIM_OK ||
                                  srt_session_init(&n->sessions[SRT_WAKES], mem, 1) != SERIATIM_OK ||
                                  node_names(n, s) != SERIATIM_OK))
        status = srt_fail_plain(error, SERIATIM_NOMEM);
    if (status != SERIATIM_OK) {
        srt_node_free(n);
        return status;
    }
    n->hash = srt_hash(n->id.data, n->id.len);
    *out = n;
    return SERIATIM_OK;
}

static void free_groups(srt_node *n)
{
    size_t i;
    for (i = 0; i < n->group_count; i++) {
        srt_group *group = &n->groups[i];
        srt_list_free(&group->singles);
        srt_list_free(&group->died);
        while (group->hooks) {
            seriatim_delivery *d = group->hooks;
            group->hooks = d->next;
            srt_delivery_free(n->mem, d);
        }
    }
    for (i = 0; i < n->group_count; i++)
        srt_free(n->mem, n->groups[i].ready, n->groups[i].ready_cap * sizeof *n->groups[i].ready);
    srt_free(n->mem, n->groups, n->group_cap * sizeof *n->groups);
}

/* Jobs that are in requests die with the node, too. */
static void free_requests(srt_node *n)
{
    srt_session *session = &n->sessions[SRT_COMMANDS];
    srt_request *r;
    for (r = session->first; r; r = r->next) {
        if (r->kind == SRT_ASK_SETTLE) {
            srt_list_free(r->subject);
            srt_free(n->mem, r->subject, sizeof(srt_job_list));
        } else if (r->kind == SRT_ASK_SLICE) {
            srt_job_free(r->subject);
        }
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
    if (n->sessions[SRT_COMMANDS].mem)
        free_requests(n);
    free_groups(n);
    for (i = 0; i < n->shard_count; i++) {
        srt_shard_forget(n, n->shards[i]);
        srt_free(n->mem, n->shards[i], sizeof *n->shards[i]);
    }
    for (i = 0; i < SRT_CHANNELS; i++)
        if (n->sessions[i].mem)
            srt_session_free(&n->sessions[i]);
    srt_node_forget_living(n);
    srt_free(n->mem, n->living, n->living_cap * sizeof *n->living);
    srt_free(n->mem, n->shards, n->shard_cap * sizeof *n->shards);
    srt_free(n->mem, n->heap, n->heap_cap * sizeof *n->heap);
    srt_sampler_free(n);
    srt_free(n->mem, n->workers, n->worker_cap * sizeof *n->workers);
    srt_free(n->mem, n->fixed, n->fixed_cap * sizeof *n->fixed);
    srt_free(n->mem, n->fixed_group, n->fixed_group_cap * sizeof *n->fixed_group);
    srt_registry_free(&n->registry);
    for (i = 0; i < NODE_TEXTS; i++)
        srt_bytes_free(node_text(n, i));
    srt_free(n->mem, n, sizeof *n);
}

int srt_node_worker(srt_node *n, const seriatim_queue_settings *settings, size_t *worker, seriatim_error *error)
{
    void *workers = n->workers;
    srt_queue *queue;
    int status;
    if (settings->name && srt_registry_find(&n->registry, settings->name, settings->name_len))
        return srt_fail(error, SERIATIM_INVALID, "two workers have the queue_name \"%.*s\"", (int)settings->name_len,
                        settings->name);
    if (settings->shards_count < 1)
        return srt_fail(error, SERIATIM_INVALID, "shards_count must be from 1 to %d", SERIATIM_MAX_SHARDS);
    if (srt_grow(n->mem, &workers, &n->worker_cap, n->worker_count + 1, sizeof *n->workers) != SERIATIM_OK)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    n->workers = workers;
    status = srt_registry_add(&n->registry, settings, &queue, error);
    if (status != SERIATIM_OK)
        return status;
    *worker = n->worker_count;
    n->workers[n->worker_count++] = queue;
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
    void *fixed = n->fixed, *fixed_group = n->fixed_group;
    size_t i;
    if (scheduler < SERIATIM_LAG || scheduler > SERIATIM_PRIORITY)
        return srt_fail(error, SERIATIM_INVALID, "scheduler must be lag, seq or priority");
    for (i = 0; i < count; i++)
        if (shards[i].worker >= n->worker_count)
            return srt_fail(error, SERIATIM_INVALID, "the splitter named a shard of an unknown worker");
    if (srt_grow(n->mem, &fixed, &n->fixed_cap, n->fixed_count + count, sizeof *n->fixed) != SERIATIM_OK)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    n->fixed = fixed;
    if (srt_grow(n->mem, &fixed_group, &n->fixed_group_cap, n->fixed_count + count, sizeof *n->fixed_group) != SERIATIM_OK ||
        (n->fixed_group = fixed_group, !node_add_group(n, scheduler, 1)))
        return srt_fail_plain(error, SERIATIM_NOMEM);
    *number = n->group_count - 1;
    for (i = 0; i < count; i++) {
        n->fixed[n->fixed_count] = shards[i];
        n->fixed_group[n->fixed_count++] = *number;
    }
    return SERIATIM_OK;
}

/* What other nodes read: 'b' (shares all shards) or 'f' (fixed groups), the queues by checksum, then the host's text. */
static int node_describe(srt_node *n)
{
    srt_bytes text;
    size_t i, b;
    srt_bytes_init(&text, n->mem);
    srt_bytes_addc(&text, n->fixed_count ? 'f' : 'b');
    for (i = 0; i < n->worker_count; i++) {
        uint32_t crc = srt_crc32(n->workers[i]->name.data, n->workers[i]->name.len);
        srt_bytes_addc(&text, ' ');
        for (b = 0; b < 8; b++)
            srt_bytes_addc(&text, "0123456789abcdef"[(crc >> (28 - 4 * b)) & 15]);
    }
    srt_bytes_addc(&text, '|');
    srt_bytes_add(&text, n->description.data, n->description.len);
    if (text.failed) {
        srt_bytes_free(&text);
        return SERIATIM_NOMEM;
    }
    srt_bytes_free(&n->description);
    n->description = text;
    return SERIATIM_OK;
}

int srt_node_start(srt_node *n, int64_t now, seriatim_error *error)
{
    if (n->worker_count == 0)
        return srt_fail(error, SERIATIM_INVALID, "workers must not be empty");
    if (n->group_count == 0 && !node_add_group(n, n->scheduler, n->threads))
        return srt_fail_plain(error, SERIATIM_NOMEM);
    if (!n->described && node_describe(n) != SERIATIM_OK)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    n->described = 1; /* its host may have to start it again, when it found no descriptor or no thread */
    n->layouts_missing = n->worker_count;
    n->opening = 1;
    n->opened_by = SRT_NEVER;
    n->beat_at = n->pulse_at = n->beaten_at = n->began = now;
    n->poll_at = now + n->poll_ms;
    return SERIATIM_OK;
}

/* ---- Layouts ------------------------------------------------------------------------------- */

/* A server that starts writes its settings; later it only looks whether another one has written others. */
static srt_layout_mode layout_mode(const srt_queue *queue)
{
    return queue->generation ? SRT_LAYOUT_LOOK : SRT_LAYOUT_SET;
}

static int ask_layout(srt_node *n, size_t worker)
{
    const srt_queue *queue = n->workers[worker];
    srt_request *r = srt_layout_request(&n->registry, &n->sessions[SRT_COMMANDS], queue, layout_mode(queue), 0);
    if (!r)
        return SERIATIM_NOMEM;
    r->kind = SRT_ASK_LAYOUT;
    r->place = worker;
    return srt_session_send(&n->sessions[SRT_COMMANDS], r);
}

/* With each heartbeat the settings of one queue are read again, so that a server acts by what a later one has written. */
static void look_at_settings(srt_node *n)
{
    if (n->looking || n->shard_count == 0)
        return;
    n->looked_at = (n->looked_at + 1) % n->worker_count;
    n->looking = ask_layout(n, n->looked_at) == SERIATIM_OK;
}

static int add_shard(srt_node *n, size_t worker, unsigned index)
{
    srt_shard *s = srt_alloc(n->mem, sizeof *s);
    if (!s)
        return SERIATIM_NOMEM;
    s->queue = n->workers[worker];
    s->worker = worker;
    s->index = index;
    s->keys = &s->queue->shards[index];
    s->wake_at = s->due_at = s->unproven_at = s->suspect_at = SRT_NEVER;
    srt_bytes_init(&s->owner, n->mem);
    n->shards[n->shard_count++] = s;
    return SERIATIM_OK;
}

static srt_shard *find_shard(const srt_node *n, seriatim_shard wanted)
{
    size_t i;
    for (i = 0; i < n->shard_count; i++)
        if (n->shards[i]->worker == wanted.worker && n->shards[i]->index == wanted.shard)
            return n->shards[i];
    return NULL;
}

static void take_fixed(srt_node *n)
{
    size_t i;
    for (i = 0; i < n->fixed_count; i++) {
        srt_shard *s = find_shard(n, n->fixed[i]);
        if (!s) {
            srt_node_tell(n, SERIATIM_EVENT_WARNING, 1, "the splitter named shard %u of \"%.*s\", which does not exist",
                          n->fixed[i].shard, (int)n->workers[n->fixed[i].worker]->name.len,
                          n->workers[n->fixed[i].worker]->name.data);
            continue;
        }
        s->wanted = 1;
        s->group = n->fixed_group[i];
    }
}

/* Room for all shards of each group. */
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

static void unmake_shards(srt_node *n)
{
    while (n->shard_count > 0)
        srt_free(n->mem, n->shards[--n->shard_count], sizeof **n->shards);
}

/* All layouts are known: makes the shards and begins to beat. */
static int make_shards(srt_node *n, int64_t now)
{
    void *shards = n->shards, *heap = n->heap;
    size_t worker, total = 0;
    unsigned i;
    for (worker = 0; worker < n->worker_count; worker++)
        total += n->workers[worker]->shards_count;
    if (srt_grow(n->mem, &shards, &n->shard_cap, total, sizeof *n->shards) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    n->shards = shards;
    if (srt_grow(n->mem, &heap, &n->heap_cap, total, sizeof *n->heap) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    n->heap = heap;
    for (worker = 0; worker < n->worker_count; worker++)
        for (i = 0; i < n->workers[worker]->shards_count; i++)
            if (add_shard(n, worker, i) != SERIATIM_OK) {
                unmake_shards(n);
                return SERIATIM_NOMEM;
            }
    take_fixed(n);
    if (make_room(n) != SERIATIM_OK) {
        unmake_shards(n);
        return SERIATIM_NOMEM;
    }
    n->beat_at = now;
    n->sampler.at = now;
    return SERIATIM_OK;
}

static void tell_of_settings(srt_node *n, const srt_queue *queue, const char *who, const srt_settings *before)
{
    srt_bytes text;
    srt_bytes_init(&text, n->mem);
    if (srt_settings_differences(&text, before, ", now ", &queue->now) > 0 && !text.failed)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, 0, "queue \"%.*s\": %s changed its settings in Redis: %.*s", (int)queue->name.len,
                      queue->name.data, who, (int)text.len, text.data);
    srt_bytes_free(&text);
}

/* What another server wrote since; a layout that changed or went is met by the scripts, which check the generation. */
static void settings_seen(srt_node *n, srt_queue *queue, const srt_reply *reply)
{
    srt_settings before = queue->now;
    seriatim_error error;
    int absent, status;
    n->looking = 0;
    status = srt_settings_look(queue, reply, &absent, &error);
    if (status != SERIATIM_OK)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, status, "%s", error.message);
    else if (!absent)
        tell_of_settings(n, queue, "another server", &before);
    srt_node_news(n); /* serial_shards may let more run */
}

static int layout_came(srt_node *n, srt_queue *queue, const srt_reply *reply, seriatim_error *error)
{
    srt_settings before;
    int absent, status = srt_layout_take(&n->registry, queue, SRT_LAYOUT_SET, reply, &absent, &before, error);
    if (status == SERIATIM_OK && absent)
        status = srt_fail(error, SERIATIM_PROTOCOL, "the layout of the queue cannot be read");
    if (status != SERIATIM_OK)
        return status;
    n->layouts_missing--;
    if (queue->shards_count != queue->wanted_shards)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, queue->shards_count,
                      "queue \"%.*s\" has %u shards in Redis; shards_count = %u only creates a queue", (int)queue->name.len,
                      queue->name.data, queue->shards_count, queue->wanted_shards);
    tell_of_settings(n, queue, "this server", &before);
    return SERIATIM_OK;
}

/* What fails here is asked for again by the next connection. */
static int layout_known(srt_node *n, size_t worker, const srt_reply *reply, int64_t now, seriatim_error *error)
{
    srt_queue *queue = n->workers[worker];
    int status = SERIATIM_OK;
    if (queue->generation)
        settings_seen(n, queue, reply);
    else
        status = layout_came(n, queue, reply, error);
    if (status == SERIATIM_OK && n->layouts_missing == 0 && n->shard_count == 0 && make_shards(n, now) != SERIATIM_OK)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    return status;
}

/* ---- Connections --------------------------------------------------------------------------- */

static void subscribe(srt_node *n)
{
    srt_session *session = &n->sessions[SRT_WAKES];
    srt_resp_array(&session->out, 3);
    srt_resp_arg(&session->out, "SUBSCRIBE", 9);
    srt_resp_arg(&session->out, n->wake_channel.data, n->wake_channel.len);
    srt_resp_arg(&session->out, n->nodes_channel.data, n->nodes_channel.len);
}

void srt_node_expect_masters(srt_node *n)
{
    int i;
    for (i = 0; i < SRT_CHANNELS; i++)
        n->sessions[i].masters_only = 1;
}

void srt_node_ask_wakes(srt_node *n)
{
    srt_bytes *out = &n->sessions[SRT_WAKES].out;
    size_t before = out->len;
    srt_resp_array(out, 1);
    srt_resp_arg(out, "PING", 4);
    if (!out->failed)
        return;
    out->len = before; /* what is not asked is not answered, and the connection is made anew */
    out->failed = 0;
}

/* Nothing that Redis said before the connection was lost, or before the heartbeat expired, is taken for granted. */
static void check_all(srt_node *n, int64_t now)
{
    size_t i;
    for (i = 0; i < n->shard_count; i++) {
        srt_shard *s = n->shards[i];
        if (s->state == SRT_OWNED)
            s->reconcile = 1;
        srt_shard_news(n, s, now);
    }
}

int srt_node_connected(srt_node *n, srt_channel channel, const char *user, const char *password, int database, int64_t now)
{
    int status = srt_session_connected(&n->sessions[channel], user, password, database, n->name.data);
    size_t i;
    if (status != SERIATIM_OK)
        return status;
    if (channel == SRT_WAKES) {
        subscribe(n);
        return n->sessions[channel].out.failed ? SERIATIM_NOMEM : SERIATIM_OK;
    }
    n->stats.connected = 1;
    srt_node_tell(n, SERIATIM_EVENT_LINK, 1, "connected to Redis");
    for (; n->layouts_asked < n->worker_count; n->layouts_asked++)
        if (ask_layout(n, n->layouts_asked) != SERIATIM_OK)
            return SERIATIM_NOMEM;
    /* After an outage of any length: be heard before others find this heartbeat expired, and believe none that is from before. */
    if (!n->beating)
        n->beat_at = now;
    for (i = 0; i < n->shard_count; i++)
        if (n->shards[i]->state == SRT_FOREIGN) {
            srt_bytes_clear(&n->shards[i]->owner);
            n->shards[i]->give_up_again = n->shards[i]->given_up != 0;
        }
    check_all(n, now);
    return SERIATIM_OK;
}

void srt_node_disconnected(srt_node *n, srt_channel channel, int64_t now)
{
    srt_session_disconnected(&n->sessions[channel]);
    if (channel == SRT_WAKES)
        n->hears = 0;
    if (channel != SRT_COMMANDS || !n->stats.connected)
        return;
    n->stats.connected = 0;
    n->opened_by = now;
    srt_node_tell(n, SERIATIM_EVENT_LINK, 0, "lost the connection to Redis");
}

static int command_reply(srt_node *n, srt_request *r, const srt_reply *reply, int64_t now, seriatim_error *error)
{
    int kind = r->kind, status;
    if (kind == SRT_ASK_NOTHING) {
        srt_session_done(&n->sessions[SRT_COMMANDS], r);
        return SERIATIM_OK;
    }
    if (kind != SRT_ASK_LAYOUT && kind != SRT_ASK_BEAT && kind != SRT_ASK_SAMPLE)
        return srt_shard_reply(n, r, reply, now, error);
    status = srt_reply_status(&reply->tokens[0], error);
    if (status != SERIATIM_OK && status != SERIATIM_READONLY && status != SERIATIM_LOADING && kind != SRT_ASK_SAMPLE)
        srt_node_tell(n, SERIATIM_EVENT_WARNING, status, "%s", error->message);
    if (status == SERIATIM_OK && kind == SRT_ASK_LAYOUT)
        status = layout_known(n, r->place, reply, now, error);
    if (status == SERIATIM_READONLY || status == SERIATIM_LOADING || (status != SERIATIM_OK && kind == SRT_ASK_LAYOUT)) {
        srt_session_again(&n->sessions[SRT_COMMANDS], r);
        return status;
    }
    if (kind == SRT_ASK_BEAT && status == SERIATIM_OK) {
        if (srt_node_beaten(n, reply, r->number, now))
            check_all(n, now);
        look_at_settings(n);
    } else if (kind == SRT_ASK_BEAT) {
        srt_node_beat_failed(n, now);
    } else if (kind == SRT_ASK_SAMPLE) {
        srt_node_sampled(n, r, reply, status == SERIATIM_OK ? NULL : error);
    }
    srt_session_done(&n->sessions[SRT_COMMANDS], r);
    return SERIATIM_OK;
}

static srt_shard *shard_of_prefix(const srt_node *n, const char *prefix, size_t len)
{
    size_t i;
    for (i = 0; i < n->shard_count; i++) {
        const srt_bytes *own = &n->shards[i]->keys->prefix;
        if (own->len == len && memcmp(own->data, prefix, len) == 0)
            return n->shards[i];
    }
    return NULL;
}

/*
 * A shard has news: something is due, its owner gave it up, or ('!') what is claimed and not begun is to be handed back. Or there is
 * an order, which the heartbeat brings.
 */
static void wake_message(srt_node *n, const srt_token *text, int64_t now)
{
    int recall = text->len > 0 && *text->data == '!';
    srt_shard *s = shard_of_prefix(n, text->data + recall, text->len - (size_t)recall);
    if (srt_token_is(text, "order"))
        srt_node_beat_soon(n, now);
    if (!s)
        return;
    srt_bytes_clear(&s->owner);
    s->recall |= recall && s->state == SRT_OWNED;
    srt_shard_news(n, s, now);
}

static int wakes_reply(srt_node *n, const srt_reply *reply, int64_t now, seriatim_error *error)
{
    const srt_token *t = reply->tokens;
    int status = srt_reply_status(t, error);
    if (status != SERIATIM_OK)
        return status;
    if (reply->count < 4)
        return SERIATIM_OK;
    if (srt_token_is(&t[1], "subscribe")) {
        n->hears = 1; /* Redis takes the command's two channels or refuses both */
        check_all(n, now);
    } else if (t[2].len == n->wake_channel.len && memcmp(t[2].data, n->wake_channel.data, t[2].len) == 0)
        wake_message(n, &t[3], now);
    else
        srt_node_beat_soon(n, now);
    return SERIATIM_OK;
}

int srt_node_input(srt_node *n, srt_channel channel, const char *data, size_t len, int64_t now, seriatim_error *error)
{
    srt_session *session = &n->sessions[channel];
    int status = srt_session_input(session, data, len);
    while (status == SERIATIM_OK) {
        srt_request *r;
        srt_reply reply;
        status = srt_session_next(session, &r, &reply, error);
        if (status == SERIATIM_AGAIN)
            return SERIATIM_OK;
        if (status == SERIATIM_OK)
            status = r ? command_reply(n, r, &reply, now, error) : wakes_reply(n, &reply, now, error);
    }
    return status;
}

void srt_node_output(srt_node *n, srt_channel channel, const char **data, size_t *len)
{
    srt_session_output(&n->sessions[channel], data, len);
}

void srt_node_sent(srt_node *n, srt_channel channel, size_t len)
{
    srt_session_sent(&n->sessions[channel], len);
}

/* ---- Time ---------------------------------------------------------------------------------- */

static int node_opened(const srt_node *n, int64_t now)
{
    size_t i;
    if (now >= n->opened_by)
        return 1;
    for (i = 0; i < n->shard_count; i++) {
        const srt_shard *s = n->shards[i];
        if (s->wanted && (s->state == SRT_ACQUIRING || (s->state == SRT_OWNED && s->first_claim) ||
                          (s->state == SRT_FOREIGN && s->owner.len == 0 && s->wake_at <= now)))
            return 0;
    }
    return n->shard_count > 0 && n->beats > 0;
}

static void node_open(srt_node *n, int64_t now)
{
    if (!n->opening || !node_opened(n, now))
        return;
    n->opening = 0;
    srt_node_news(n);
}

/* Looks at one shard each poll interval, in case a wake was lost; at all of them while no wake can come. */
static void node_poll(srt_node *n, int64_t now)
{
    size_t tried;
    if (now < n->poll_at)
        return;
    n->poll_at = now + n->poll_ms;
    for (tried = 0; tried < n->shard_count; tried++) {
        srt_shard *s = n->shards[n->poll_place++ % n->shard_count];
        if (s->state != SRT_OWNED || s->claiming)
            continue;
        srt_shard_news(n, s, now);
        if (n->hears)
            return;
    }
}

static void node_leave(srt_node *n, int64_t now)
{
    size_t i;
    if (now >= n->give_up_at && n->give_up_at)
        n->stopped = 1;
    if (!n->left && !n->beating && (srt_node_drained(n) || (n->give_up_at && now >= n->give_up_at - NODE_FAREWELL_MS))) {
        if (n->sessions[SRT_COMMANDS].connected) {
            srt_node_beat(n, 0, now);
            n->left = n->beating > 0;
        } else if (!n->shard_count) {
            n->stopped = 1;
        }
    }
    for (i = 0; i < n->group_count; i++)
        n->groups[i].news = 1;
}

/* By its pulse. */
static int node_lives(const srt_node *n, int64_t now)
{
    return now - n->pulse_at < n->lease_ms;
}

int srt_node_beat_due(const srt_node *n, int64_t now)
{
    return n->sessions[SRT_COMMANDS].connected && n->shard_count && !n->left && !n->beating && node_lives(n, now) && now >= n->beat_at;
}

void srt_node_vitals(srt_node *n, int64_t resident, int64_t wall_us)
{
    n->resident = resident;
    n->wall_us = wall_us;
}

int64_t srt_node_tick(srt_node *n, int64_t now)
{
    int64_t next = n->poll_at, solo;
    srt_shard *s;
    if (srt_node_beat_due(n, now))
        srt_node_beat(n, n->lease_ms, now);
    node_poll(n, now);
    solo = srt_node_solo(n, now);
    while ((s = srt_timers_take(n, now)))
        srt_shard_step(n, s, now);
    node_open(n, now);
    srt_node_sample(n, now);
    if (n->stopping && !n->stopped)
        node_leave(n, now);
    if (srt_timers_next(n) < next)
        next = srt_timers_next(n);
    if (solo < next)
        next = solo;
    if (n->opening && n->opened_by < next)
        next = n->opened_by;
    if (!n->beating && !n->left && n->beat_at < next)
        next = node_lives(n, now) ? n->beat_at : now + n->lease_ms / 4;
    if (n->give_up_at && n->give_up_at < next)
        next = n->give_up_at;
    if (n->poll_at < next)
        next = n->poll_at;
    return next > now ? next : now + 1;
}

/* ---- Orders of the host -------------------------------------------------------------------- */

void srt_node_pulse(srt_node *n, int64_t now)
{
    n->pulse_at = now;
}

static void wake_all(srt_node *n, int64_t now)
{
    size_t i;
    for (i = 0; i < n->shard_count; i++)
        srt_node_wake(n, n->shards[i], now);
}

/* From now on the others share our shards, too: says so in the description, and that there is news. */
static void announce_leaving(srt_node *n, int64_t now)
{
    srt_session *session = &n->sessions[SRT_COMMANDS];
    srt_request *r;
    if (n->description.len)
        n->description.data[0] = n->stopping ? 's' : 'q';
    if (!session->connected || !n->shard_count)
        return;
    srt_node_beat(n, n->lease_ms, now);
    r = srt_session_begin(session, srt_script_none, NULL, 0);
    if (!r)
        return;
    r->kind = SRT_ASK_NOTHING;
    srt_request_text(r, "PUBLISH");
    srt_request_arg(r, n->nodes_channel.data, n->nodes_channel.len);
    srt_request_text(r, "stop");
    srt_session_send(session, r);
}

/* Claims no more, so what waits in its shards must be another's as soon as there is another. */
void srt_node_quiet(srt_node *n, int64_t now)
{
    if (n->quiet)
        return;
    n->quiet = 1;
    announce_leaving(n, now);
    srt_node_share(n, now);
    wake_all(n, now);
}

void srt_node_stop(srt_node *n, int64_t now)
{
    if (n->stopping)
        return;
    n->stopping = 1;
    if (n->quiet)
        announce_leaving(n, now);
    srt_node_quiet(n, now);
    wake_all(n, now);
}

int srt_node_asked(const srt_node *n)
{
    int done = n->stopping ? SERIATIM_ORDER_STOP : n->quiet ? SERIATIM_ORDER_QUIET : SERIATIM_ORDER_NONE;
    return n->ordered > done ? n->ordered : SERIATIM_ORDER_NONE;
}

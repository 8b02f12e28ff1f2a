/* lua_operators.c - queries, actions, metrics and what else an operator asks, as methods of Link and Client. */
#include "lua_link.h"

#include <math.h>

/* The core's number for a name. */
static int operators_named(lua_State *L, int at, const char *argument, int (*number)(const char *, size_t))
{
    size_t len;
    const char *name = slu_text(L, at, argument, &len);
    return number(name, len);
}

/* ---- Queries --------------------------------------------------------------------------------- */

static void operators_payload(lua_State *L, const void *payloads, size_t i)
{
    const seriatim_payload *p = (const seriatim_payload *)payloads + i;
    lua_createtable(L, 2, 0);
    lua_pushlstring(L, p->data, p->len);
    lua_rawseti(L, -2, 1);
    lua_pushnumber(L, p->score);
    lua_rawseti(L, -2, 2);
}

static void operators_scheduled(lua_State *L, const void *list, size_t i)
{
    const seriatim_scheduled *s = (const seriatim_scheduled *)list + i;
    lua_createtable(L, 0, 5);
    slu_set_text(L, "payload", s->payload.data, s->payload.len);
    if (s->scored)
        slu_set_double(L, "score", s->payload.score);
    slu_set_double(L, "deliver_at", s->deliver_at);
    slu_set_double(L, "pushed_at", s->pushed_at);
    slu_set_text(L, "handle", s->handle.data, s->handle.len);
}

static void operators_record(lua_State *L, const void *records, size_t i)
{
    const seriatim_record *record = (const seriatim_record *)records + i;
    luaL_checkstack(L, 8, "a record");
    lua_createtable(L, 0, 14);
    slu_set_text(L, "id", record->id, record->id_len);
    slu_set_cstr(L, "state", record->state);
    slu_set_bool(L, "behind", record->behind);
    slu_set_double(L, "perform_in", record->perform_in);
    slu_set_double(L, "updated_at", record->updated_at);
    slu_set_int(L, "retry_count", record->retry_count);
    slu_set_text_or_nil(L, "error", record->error, record->error_len);
    slu_push_list(L, record->payload_count, operators_payload, record->payloads);
    lua_setfield(L, -2, "payloads");
    slu_set_int(L, "payloads_count", (int64_t)record->payload_total);
    slu_set_int(L, "fence", record->fence);
    slu_set_int(L, "shard", record->shard);
    slu_push_list(L, record->scheduled_count, operators_scheduled, record->scheduled);
    lua_setfield(L, -2, "scheduled");
    slu_set_int(L, "scheduled_total", (int64_t)record->scheduled_total);
    slu_set_double(L, "deliver_at", record->deliver_at);
}

static int operators_read_query(lua_State *L, const slu_link *self)
{
    size_t count;
    const seriatim_record *records = seriatim_query_result(self->client, &count);
    slu_push_list(L, count, operators_record, records);
    return 1;
}

static void operators_bound(lua_State *L, int at, const char *name, seriatim_text *bound)
{
    if (!lua_isnoneornil(L, at))
        bound->data = slu_text(L, at, name, &bound->len);
}

/* link:query(queue, name, reverse, min, max, limit, shard, ids): all fields of each record */
static int operators_query(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    seriatim_query query;
    size_t queue;
    if (!self)
        return slu_link_closed(L);
    lua_settop(L, 9);
    queue = slu_size(L, 2, "queue");
    seriatim_query_init(&query, operators_named(L, 3, "name", seriatim_query_named));
    query.reverse = lua_toboolean(L, 4);
    operators_bound(L, 5, "min", &query.min);
    operators_bound(L, 6, "max", &query.max);
    if (!lua_isnil(L, 7))
        query.limit = slu_int64(L, 7, "limit");
    if (!lua_isnil(L, 8))
        query.shard = slu_int64(L, 8, "shard");
    query.ids = slu_texts(L, 9, &query.id_count);
    return slu_link_begun(L, self, seriatim_query_begin(self->client, queue, &query), operators_read_query);
}

/* ---- Actions --------------------------------------------------------------------------------- */

static int operators_read_action(lua_State *L, const slu_link *self)
{
    slu_push_int(L, seriatim_action_result(self->client));
    return 1;
}

/* link:action(queue, name, texts that it takes or nil): what seriatim_action_result says */
static int operators_action(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    const seriatim_text *texts;
    size_t queue, count;
    int kind;
    if (!self)
        return slu_link_closed(L);
    queue = slu_size(L, 2, "queue");
    kind = operators_named(L, 3, "name", seriatim_action_named);
    texts = slu_texts(L, 4, &count);
    return slu_link_begun(L, self, seriatim_action_begin(self->client, queue, kind, texts, count),
                          operators_read_action);
}

/* ---- Metrics --------------------------------------------------------------------------------- */

static void operators_figures(lua_State *L, const seriatim_metrics *m)
{
    lua_createtable(L, 0, 19);
    slu_set_int(L, "length", m->length);
    slu_set_int(L, "scheduled", m->scheduled);
    slu_set_int(L, "stale", m->stale);
    slu_set_int(L, "fresh", m->fresh);
    slu_set_int(L, "retries", m->retries);
    slu_set_int(L, "morgue_length", m->morgue_length);
    slu_set_double(L, "lag", m->lag);
    slu_set_int(L, "processed", m->processed);
    slu_set_int(L, "failed", m->failed);
    slu_set_int(L, "busy", m->busy);
    slu_set_int(L, "parked", m->parked);
    slu_set_int(L, "unproven", m->unproven);
    slu_set_int(L, "suspect", m->suspect);
    slu_set_int(L, "refused", m->refused);
    slu_set_int(L, "morgue_removed", m->morgue_removed);
    slu_set_double(L, "first", m->first);
    slu_set_double(L, "now", m->now);
    slu_set_int(L, "paused", m->paused);
}

static void operators_shard_figures(lua_State *L, const void *shards, size_t i)
{
    const seriatim_metrics *m = (const seriatim_metrics *)shards + i;
    operators_figures(L, m);
    slu_set_int(L, "lease", m->lease);
    slu_set_int(L, "fence", m->fence);
    slu_set_text_or_nil(L, "owner", m->owner, strlen(m->owner));
}

static void operators_resharding(lua_State *L, const seriatim_resharding *r)
{
    lua_createtable(L, 0, 5);
    slu_set_int(L, "from", r->from);
    slu_set_int(L, "to", r->to);
    slu_set_int(L, "shards_left", r->shards_left);
    slu_set_int(L, "ids_moved", r->ids_moved);
    slu_set_int(L, "ids_left", r->ids_left);
}

static int operators_read_metrics(lua_State *L, const slu_link *self)
{
    size_t count;
    const seriatim_metrics *shards = seriatim_metrics_shards(self->client, &count);
    const seriatim_resharding *resharding = seriatim_metrics_resharding(self->client);
    operators_figures(L, seriatim_metrics_total(self->client));
    slu_push_list(L, count, operators_shard_figures, shards);
    lua_setfield(L, -2, "shards");
    if (resharding) {
        operators_resharding(L, resharding);
        lua_setfield(L, -2, "resharding");
    }
    return 1;
}

/* link:metrics(queue): the queue's figures; its shards' at .shards; how far a move is at .resharding */
static int operators_metrics(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    size_t queue;
    if (!self)
        return slu_link_closed(L);
    queue = slu_size(L, 2, "queue");
    return slu_link_begun(L, self, seriatim_metrics_begin(self->client, queue), operators_read_metrics);
}

/* ---- Explain, check, nodes ------------------------------------------------------------------- */

static void operators_known(lua_State *L, const char *name, const seriatim_record *record)
{
    if (strcmp(record->state, "unknown") == 0)
        return;
    operators_record(L, record, 0);
    lua_setfield(L, -2, name);
}

static void operators_history_entry(lua_State *L, const void *history, size_t i)
{
    const seriatim_history_entry *entry = (const seriatim_history_entry *)history + i;
    lua_createtable(L, 0, 8);
    slu_set_cstr(L, "text", entry->text);
    slu_set_cstr(L, "event", entry->event);
    slu_set_double(L, "at", entry->at);
    if (entry->due > 0)
        slu_set_double(L, "due", entry->due);
    if (entry->fence)
        slu_set_int(L, "fence", entry->fence);
    if (entry->payloads)
        slu_set_int(L, "payloads_count", entry->payloads);
    if (*entry->node)
        slu_set_cstr(L, "node", entry->node);
    slu_set_text_or_nil(L, "error", entry->error, entry->error_len);
}

static int operators_read_explanation(lua_State *L, const slu_link *self)
{
    const seriatim_explanation *e = seriatim_explain_result(self->client);
    lua_createtable(L, 0, 13);
    slu_set_cstr(L, "text", e->text);
    operators_known(L, "job", &e->job);
    operators_known(L, "behind", &e->behind);
    operators_known(L, "dead", &e->dead);
    slu_set_int(L, "scheduled", e->scheduled);
    slu_set_double(L, "deliver_at", e->deliver_at);
    slu_set_text_or_nil(L, "owner", e->owner, strlen(e->owner));
    slu_set_bool(L, "owner_alive", e->owner_alive);
    slu_set_bool(L, "paused", e->paused);
    slu_set_int(L, "lease", e->lease);
    slu_set_int(L, "fence", e->fence);
    if (e->has_score) {
        slu_set_double(L, "remembered_score", e->score);
        slu_set_double(L, "remembered_until", e->score_until);
    }
    slu_set_double(L, "now", e->now);
    slu_push_list(L, e->history_count, operators_history_entry, e->history);
    lua_setfield(L, -2, "history");
    return 1;
}

/* link:explain(queue, id) */
static int operators_explain(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    const char *id;
    size_t queue, len;
    if (!self)
        return slu_link_closed(L);
    queue = slu_size(L, 2, "queue");
    id = slu_text(L, 3, "id", &len);
    return slu_link_begun(L, self, seriatim_explain_begin(self->client, queue, id, len), operators_read_explanation);
}

static void operators_finding(lua_State *L, const void *findings, size_t i)
{
    const seriatim_finding *f = (const seriatim_finding *)findings + i;
    lua_createtable(L, 0, 5);
    slu_set_int(L, "shard", f->shard);
    slu_set_cstr(L, "kind", f->kind);
    slu_set_cstr(L, "detail", f->detail);
    slu_set_text_or_nil(L, "id", f->id, f->id_len);
    slu_set_bool(L, "repaired", f->repaired);
}

static int operators_read_check(lua_State *L, const slu_link *self)
{
    size_t count;
    const seriatim_finding *findings = seriatim_check_result(self->client, &count);
    slu_push_int(L, (int64_t)seriatim_check_looked_at(self->client));
    slu_push_list(L, count, operators_finding, findings);
    return 2;
}

/* link:check(queue, repair): how many records it looked at, findings */
static int operators_check(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    size_t queue;
    if (!self)
        return slu_link_closed(L);
    queue = slu_size(L, 2, "queue");
    return slu_link_begun(L, self, seriatim_check_begin(self->client, queue, lua_toboolean(L, 3)),
                          operators_read_check);
}

/* A field that a node tells of its process, by its kind; nothing where it does not. */
#define NODE_INTEGER(L, name, value) ((value) < 0 ? (void)0 : slu_set_int(L, name, value))
#define NODE_SECONDS(L, name, value) (isnan(value) ? (void)0 : slu_set_double(L, name, value))
#define NODE_TEXT(L, name, value) slu_set_text_or_nil(L, name, value, strlen(value))

static void operators_node(lua_State *L, const void *nodes, size_t i)
{
    const seriatim_living_node *node = (const seriatim_living_node *)nodes + i;
    lua_createtable(L, 0, 4);
    slu_set_cstr(L, "name", node->name);
    slu_set_cstr(L, "description", node->description);
    slu_set_double(L, "expires_in", node->expires_in);
    slu_set_cstr(L, "state", node->state);
#define X(kind, field, key) NODE_##kind(L, #field, node->field);
    SERIATIM_NODE_FIELDS(X)
#undef X
}

static int operators_read_nodes(lua_State *L, const slu_link *self)
{
    size_t count;
    const seriatim_living_node *nodes = seriatim_nodes_result(self->client, &count);
    slu_push_list(L, count, operators_node, nodes);
    return 1;
}

/* link:nodes(): {{name, description, expires_in, state, and those of SERIATIM_NODE_FIELDS}} */
static int operators_nodes(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    return self ? slu_link_begun(L, self, seriatim_nodes_begin(self->client), operators_read_nodes)
                : slu_link_closed(L);
}

static int operators_read_order(lua_State *L, const slu_link *self)
{
    lua_pushboolean(L, seriatim_order_result(self->client));
    return 1;
}

/* link:node_command(node, "quiet" or "stop"): true where such a node is alive */
static int operators_node_command(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    const char *node;
    size_t len;
    if (!self)
        return slu_link_closed(L);
    node = slu_text(L, 2, "node", &len);
    return slu_link_begun(
        L, self, seriatim_order_begin(self->client, node, len, operators_named(L, 3, "command", seriatim_order_named)),
        operators_read_order);
}

/* ---- Queues and health ----------------------------------------------------------------------- */

static void operators_name(lua_State *L, const void *names, size_t i)
{
    const seriatim_text *name = (const seriatim_text *)names + i;
    lua_pushlstring(L, name->data, name->len);
}

static int operators_read_queues(lua_State *L, const slu_link *self)
{
    size_t count;
    const seriatim_text *names = seriatim_queues_result(self->client, &count);
    slu_push_list(L, count, operators_name, names);
    return 1;
}

/* link:queues(): the names of all queues of the namespace */
static int operators_queues(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    return self ? slu_link_begun(L, self, seriatim_queues_begin(self->client), operators_read_queues)
                : slu_link_closed(L);
}

static int operators_read_health(lua_State *L, const slu_link *self)
{
    const seriatim_health *health = seriatim_health_result(self->client);
    lua_pushstring(L, health->maxmemory_policy[0] ? health->maxmemory_policy : NULL);
    if (health->append_only < 0)
        lua_pushnil(L);
    else
        lua_pushboolean(L, health->append_only);
    if (health->replicas < 0)
        lua_pushnil(L);
    else
        lua_pushinteger(L, health->replicas);
    return 3;
}

/* link:health(): maxmemory_policy, appendonly, replicas; nil where Redis does not tell */
static int operators_health(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    return self ? slu_link_begun(L, self, seriatim_health_begin(self->client), operators_read_health)
                : slu_link_closed(L);
}

const luaL_Reg slu_operators[] = {{"query", operators_query},
                                  {"action", operators_action},
                                  {"metrics", operators_metrics},
                                  {"explain", operators_explain},
                                  {"check", operators_check},
                                  {"nodes", operators_nodes},
                                  {"queues", operators_queues},
                                  {"health", operators_health},
                                  {"node_command", operators_node_command},
                                  {NULL, NULL}};

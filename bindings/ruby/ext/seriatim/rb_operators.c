/* rb_operators.c - queries, actions, metrics and what else an operator asks, as methods of Seriatim::Native::Link. */
#include "rb_link.h"

#include <math.h>

#define SET(hash, name, value) rb_hash_aset(hash, ID2SYM(rb_intern(name)), value)

static VALUE operators_text_or_nil(const char *text, size_t len)
{
    return len ? srb_text(text, len) : Qnil;
}

static VALUE operators_cstr(const char *text)
{
    return text ? srb_text(text, strlen(text)) : Qnil;
}

/* The texts of a list of Strings, which must outlive them, in a buffer for rb_free_tmp_buffer. */
static seriatim_text *operators_texts(VALUE list, VALUE *buffer, size_t *count)
{
    seriatim_text *texts;
    long i;
    *count = 0;
    *buffer = 0;
    if (NIL_P(list))
        return NULL;
    Check_Type(list, T_ARRAY);
    for (i = 0; i < RARRAY_LEN(list); i++)
        Check_Type(RARRAY_AREF(list, i), T_STRING);
    *count = (size_t)RARRAY_LEN(list);
    texts = rb_alloc_tmp_buffer(buffer, (long)((*count + 1) * sizeof *texts));
    for (i = 0; i < RARRAY_LEN(list); i++) {
        texts[i].data = RSTRING_PTR(RARRAY_AREF(list, i));
        texts[i].len = (size_t)RSTRING_LEN(RARRAY_AREF(list, i));
    }
    return texts;
}

static seriatim_text operators_bound(VALUE text)
{
    seriatim_text bound = {NULL, 0};
    if (!NIL_P(text)) {
        Check_Type(text, T_STRING);
        bound.data = RSTRING_PTR(text);
        bound.len = (size_t)RSTRING_LEN(text);
    }
    return bound;
}

/* The core's number for a name, a String. */
static int operators_named(VALUE name, int (*number)(const char *, size_t))
{
    Check_Type(name, T_STRING);
    return number(RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
}

/* ---- Queries --------------------------------------------------------------------------------- */

static VALUE operators_payloads(const seriatim_record *record)
{
    VALUE list = rb_ary_new_capa((long)record->payload_count);
    size_t i;
    for (i = 0; i < record->payload_count; i++)
        rb_ary_push(list, rb_ary_new_from_args(2, srb_bytes(record->payloads[i].data, record->payloads[i].len),
                                               DBL2NUM(record->payloads[i].score)));
    return list;
}

static VALUE operators_scheduled(const seriatim_record *record)
{
    VALUE list = rb_ary_new_capa((long)record->scheduled_count);
    size_t i;
    for (i = 0; i < record->scheduled_count; i++) {
        const seriatim_scheduled *s = &record->scheduled[i];
        VALUE hash = rb_hash_new();
        SET(hash, "payload", srb_bytes(s->payload.data, s->payload.len));
        if (s->scored)
            SET(hash, "score", DBL2NUM(s->payload.score));
        SET(hash, "deliver_at", DBL2NUM(s->deliver_at));
        SET(hash, "pushed_at", DBL2NUM(s->pushed_at));
        SET(hash, "handle", srb_text(s->handle.data, s->handle.len));
        rb_ary_push(list, hash);
    }
    return list;
}

static VALUE operators_record(const seriatim_record *record)
{
    VALUE hash = rb_hash_new();
    SET(hash, "id", srb_text(record->id, record->id_len));
    SET(hash, "state", operators_cstr(record->state));
    SET(hash, "behind", record->behind ? Qtrue : Qfalse);
    SET(hash, "perform_in", DBL2NUM(record->perform_in));
    SET(hash, "updated_at", DBL2NUM(record->updated_at));
    SET(hash, "retry_count", LL2NUM(record->retry_count));
    SET(hash, "error", operators_text_or_nil(record->error, record->error_len));
    SET(hash, "payloads", operators_payloads(record));
    SET(hash, "payloads_count", SIZET2NUM(record->payload_total));
    SET(hash, "fence", LL2NUM(record->fence));
    SET(hash, "shard", UINT2NUM(record->shard));
    SET(hash, "scheduled", operators_scheduled(record));
    SET(hash, "scheduled_total", SIZET2NUM(record->scheduled_total));
    SET(hash, "deliver_at", DBL2NUM(record->deliver_at));
    return hash;
}

/* link.query(queue, name, reverse, min, max, limit, shard or -1, ids or nil, seconds) -> all fields of each record */
static VALUE operators_query(int argc, VALUE *argv, VALUE self)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    const seriatim_record *records;
    seriatim_query query;
    VALUE buffer, list;
    size_t queue, count, i;
    int status;
    rb_check_arity(argc, 9, 9);
    queue = NUM2SIZET(argv[0]);
    seriatim_query_init(&query, operators_named(argv[1], seriatim_query_named));
    query.reverse = RTEST(argv[2]);
    query.min = operators_bound(argv[3]);
    query.max = operators_bound(argv[4]);
    query.limit = NUM2LL(argv[5]);
    query.shard = NUM2LL(argv[6]);
    query.ids = operators_texts(argv[7], &buffer, &query.id_count);
    status = seriatim_query_begin(client, queue, &query);
    rb_free_tmp_buffer(&buffer);
    srb_link_check(box, status);
    srb_link_drive(box, argv[8]);
    records = seriatim_query_result(client, &count);
    list = rb_ary_new_capa((long)count);
    for (i = 0; i < count; i++)
        rb_ary_push(list, operators_record(&records[i]));
    return list;
}

/* ---- Actions --------------------------------------------------------------------------------- */

/* link.action(queue, name, texts that it takes or nil, seconds) -> what seriatim_action_result says */
static VALUE operators_action(VALUE self, VALUE queue, VALUE name, VALUE ids, VALUE seconds)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    size_t number = NUM2SIZET(queue), count;
    int status, action = operators_named(name, seriatim_action_named);
    VALUE buffer;
    seriatim_text *texts = operators_texts(ids, &buffer, &count);
    status = seriatim_action_begin(client, number, action, texts, count);
    rb_free_tmp_buffer(&buffer);
    srb_link_check(box, status);
    srb_link_drive(box, seconds);
    return LL2NUM(seriatim_action_result(client));
}

/* ---- Metrics --------------------------------------------------------------------------------- */

static VALUE operators_figures(const seriatim_metrics *m)
{
    VALUE hash = rb_hash_new();
    SET(hash, "length", LL2NUM(m->length));
    SET(hash, "scheduled", LL2NUM(m->scheduled));
    SET(hash, "stale", LL2NUM(m->stale));
    SET(hash, "fresh", LL2NUM(m->fresh));
    SET(hash, "retries", LL2NUM(m->retries));
    SET(hash, "morgue_length", LL2NUM(m->morgue_length));
    SET(hash, "lag", DBL2NUM(m->lag));
    SET(hash, "processed", LL2NUM(m->processed));
    SET(hash, "failed", LL2NUM(m->failed));
    SET(hash, "busy", LL2NUM(m->busy));
    SET(hash, "parked", LL2NUM(m->parked));
    SET(hash, "unproven", LL2NUM(m->unproven));
    SET(hash, "suspect", LL2NUM(m->suspect));
    SET(hash, "refused", LL2NUM(m->refused));
    SET(hash, "morgue_removed", LL2NUM(m->morgue_removed));
    SET(hash, "first", DBL2NUM(m->first));
    SET(hash, "now", DBL2NUM(m->now));
    SET(hash, "paused", LL2NUM(m->paused));
    return hash;
}

static VALUE operators_shard_figures(const seriatim_metrics *m)
{
    VALUE hash = operators_figures(m);
    SET(hash, "lease", LL2NUM(m->lease));
    SET(hash, "fence", LL2NUM(m->fence));
    SET(hash, "owner", operators_text_or_nil(m->owner, strlen(m->owner)));
    return hash;
}

static VALUE operators_resharding(const seriatim_resharding *r)
{
    VALUE hash;
    if (!r)
        return Qnil;
    hash = rb_hash_new();
    SET(hash, "from", UINT2NUM(r->from));
    SET(hash, "to", UINT2NUM(r->to));
    SET(hash, "shards_left", UINT2NUM(r->shards_left));
    SET(hash, "ids_moved", LL2NUM(r->ids_moved));
    SET(hash, "ids_left", LL2NUM(r->ids_left));
    return hash;
}

/* link.metrics(queue, seconds) -> the queue's figures; its shards' at :shards; how far a move is at :resharding */
static VALUE operators_metrics(VALUE self, VALUE queue, VALUE seconds)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    const seriatim_metrics *shards;
    VALUE hash, list;
    size_t count, i;
    srb_link_check(box, seriatim_metrics_begin(client, NUM2SIZET(queue)));
    srb_link_drive(box, seconds);
    hash = operators_figures(seriatim_metrics_total(client));
    shards = seriatim_metrics_shards(client, &count);
    list = rb_ary_new_capa((long)count);
    for (i = 0; i < count; i++)
        rb_ary_push(list, operators_shard_figures(&shards[i]));
    SET(hash, "shards", list);
    SET(hash, "resharding", operators_resharding(seriatim_metrics_resharding(client)));
    return hash;
}

/* ---- Explain, check, nodes ------------------------------------------------------------------- */

static VALUE operators_known(const seriatim_record *record)
{
    return strcmp(record->state, "unknown") == 0 ? Qnil : operators_record(record);
}

static VALUE operators_history_entry(const seriatim_history_entry *entry)
{
    VALUE hash = rb_hash_new();
    SET(hash, "text", operators_cstr(entry->text));
    SET(hash, "event", operators_cstr(entry->event));
    SET(hash, "at", DBL2NUM(entry->at));
    SET(hash, "due", entry->due > 0 ? DBL2NUM(entry->due) : Qnil);
    SET(hash, "fence", entry->fence ? LL2NUM(entry->fence) : Qnil);
    SET(hash, "payloads_count", entry->payloads ? LL2NUM(entry->payloads) : Qnil);
    SET(hash, "node", operators_text_or_nil(entry->node, strlen(entry->node)));
    SET(hash, "error", operators_text_or_nil(entry->error, entry->error_len));
    return hash;
}

/* link.explain(queue, id, seconds) */
static VALUE operators_explain(VALUE self, VALUE queue, VALUE id, VALUE seconds)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    const seriatim_explanation *e;
    VALUE hash = rb_hash_new(), history = rb_ary_new();
    size_t i;
    Check_Type(id, T_STRING);
    srb_link_check(box, seriatim_explain_begin(client, NUM2SIZET(queue), RSTRING_PTR(id), (size_t)RSTRING_LEN(id)));
    RB_GC_GUARD(id);
    srb_link_drive(box, seconds);
    e = seriatim_explain_result(client);
    SET(hash, "text", operators_cstr(e->text));
    SET(hash, "job", operators_known(&e->job));
    SET(hash, "behind", operators_known(&e->behind));
    SET(hash, "dead", operators_known(&e->dead));
    SET(hash, "scheduled", LL2NUM(e->scheduled));
    SET(hash, "deliver_at", DBL2NUM(e->deliver_at));
    SET(hash, "owner", operators_text_or_nil(e->owner, strlen(e->owner)));
    SET(hash, "owner_alive", e->owner_alive ? Qtrue : Qfalse);
    SET(hash, "paused", e->paused ? Qtrue : Qfalse);
    SET(hash, "lease", LL2NUM(e->lease));
    SET(hash, "fence", LL2NUM(e->fence));
    SET(hash, "remembered_score", e->has_score ? DBL2NUM(e->score) : Qnil);
    SET(hash, "remembered_until", e->has_score ? DBL2NUM(e->score_until) : Qnil);
    SET(hash, "now", DBL2NUM(e->now));
    for (i = 0; i < e->history_count; i++)
        rb_ary_push(history, operators_history_entry(&e->history[i]));
    SET(hash, "history", history);
    return hash;
}

static VALUE operators_finding(const seriatim_finding *f)
{
    VALUE hash = rb_hash_new();
    SET(hash, "shard", UINT2NUM(f->shard));
    SET(hash, "kind", operators_cstr(f->kind));
    SET(hash, "detail", operators_cstr(f->detail));
    SET(hash, "id", operators_text_or_nil(f->id, f->id_len));
    SET(hash, "repaired", f->repaired ? Qtrue : Qfalse);
    return hash;
}

/* link.check(queue, repair, seconds) -> [how many records it looked at, findings] */
static VALUE operators_check(VALUE self, VALUE queue, VALUE repair, VALUE seconds)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    const seriatim_finding *findings;
    VALUE list = rb_ary_new();
    size_t count, i;
    srb_link_check(box, seriatim_check_begin(client, NUM2SIZET(queue), RTEST(repair)));
    srb_link_drive(box, seconds);
    findings = seriatim_check_result(client, &count);
    for (i = 0; i < count; i++)
        rb_ary_push(list, operators_finding(&findings[i]));
    return rb_ary_new_from_args(2, SIZET2NUM(seriatim_check_looked_at(client)), list);
}

/* A field that a node tells of its process, by its kind; nil where it does not. */
#define NODE_INTEGER(value) ((value) < 0 ? Qnil : LL2NUM(value))
#define NODE_SECONDS(value) (isnan(value) ? Qnil : DBL2NUM(value))
#define NODE_TEXT(value) operators_text_or_nil(value, strlen(value))

/* link.nodes(seconds) -> [{name:, description:, expires_in:, state:, and those of SERIATIM_NODE_FIELDS}, ...] */
static VALUE operators_nodes(VALUE self, VALUE seconds)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    const seriatim_living_node *nodes;
    VALUE list = rb_ary_new();
    size_t count, i;
    srb_link_check(box, seriatim_nodes_begin(client));
    srb_link_drive(box, seconds);
    nodes = seriatim_nodes_result(client, &count);
    for (i = 0; i < count; i++) {
        VALUE hash = rb_hash_new();
        SET(hash, "name", operators_cstr(nodes[i].name));
        SET(hash, "description", operators_cstr(nodes[i].description));
        SET(hash, "expires_in", DBL2NUM(nodes[i].expires_in));
        SET(hash, "state", operators_cstr(nodes[i].state));
#define X(kind, field, key) SET(hash, #field, NODE_##kind(nodes[i].field));
        SERIATIM_NODE_FIELDS(X)
#undef X
        rb_ary_push(list, hash);
    }
    return list;
}

/* link.node_command(node, "quiet" or "stop", seconds) -> true: such a node is alive */
static VALUE operators_node_command(VALUE self, VALUE node, VALUE command, VALUE seconds)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    Check_Type(node, T_STRING);
    srb_link_check(box, seriatim_order_begin(client, RSTRING_PTR(node), (size_t)RSTRING_LEN(node),
                                             operators_named(command, seriatim_order_named)));
    RB_GC_GUARD(node);
    srb_link_drive(box, seconds);
    return seriatim_order_result(client) ? Qtrue : Qfalse;
}

/* ---- Queues and health ----------------------------------------------------------------------- */

/* link.queues(seconds) -> the names of all queues of the namespace */
static VALUE operators_queues(VALUE self, VALUE seconds)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    const seriatim_text *names;
    VALUE list;
    size_t count, i;
    srb_link_check(box, seriatim_queues_begin(client));
    srb_link_drive(box, seconds);
    names = seriatim_queues_result(client, &count);
    list = rb_ary_new_capa((long)count);
    for (i = 0; i < count; i++)
        rb_ary_push(list, srb_text(names[i].data, names[i].len));
    return list;
}

/* link.health(seconds) -> {maxmemory_policy:, appendonly:, replicas:}, nil where Redis does not tell */
static VALUE operators_health(VALUE self, VALUE seconds)
{
    srb_link *box = srb_link_idle(self);
    seriatim_client *client = seriatim_link_client(box->link);
    const seriatim_health *health;
    VALUE hash = rb_hash_new();
    srb_link_check(box, seriatim_health_begin(client));
    srb_link_drive(box, seconds);
    health = seriatim_health_result(client);
    SET(hash, "maxmemory_policy", operators_text_or_nil(health->maxmemory_policy, strlen(health->maxmemory_policy)));
    SET(hash, "appendonly", health->append_only < 0 ? Qnil : health->append_only ? Qtrue : Qfalse);
    SET(hash, "replicas", health->replicas < 0 ? Qnil : INT2NUM(health->replicas));
    return hash;
}

void srb_init_operators(VALUE link_class)
{
    rb_define_method(link_class, "query", operators_query, -1);
    rb_define_method(link_class, "action", operators_action, 4);
    rb_define_method(link_class, "metrics", operators_metrics, 2);
    rb_define_method(link_class, "explain", operators_explain, 3);
    rb_define_method(link_class, "check", operators_check, 3);
    rb_define_method(link_class, "nodes", operators_nodes, 1);
    rb_define_method(link_class, "node_command", operators_node_command, 3);
    rb_define_method(link_class, "queues", operators_queues, 1);
    rb_define_method(link_class, "health", operators_health, 1);
}

/* py_operators.c - queries, actions, metrics and what else an operator asks, as methods of seriatim._native.Link. */
#include "py_link.h"

#include <math.h>

#include <string.h>

static seriatim_client *operators_client(const spy_link *self)
{
    return seriatim_link_client(self->link);
}

/* The texts of a list of bytes or None, which keeps them; PyMem_Free them. NULL with an exception, or none for None. */
static seriatim_text *operators_texts(PyObject *list, size_t *count)
{
    seriatim_text *texts;
    Py_ssize_t i;
    *count = 0;
    if (list == Py_None || spy_check_list(list) < 0)
        return NULL;
    texts = PyMem_New(seriatim_text, (size_t)PyList_GET_SIZE(list) + 1);
    if (!texts)
        return (seriatim_text *)PyErr_NoMemory();
    for (i = 0; i < PyList_GET_SIZE(list); i++)
        if (spy_data(PyList_GET_ITEM(list, i), &texts[i].data, &texts[i].len) < 0) {
            PyMem_Free(texts);
            return NULL;
        }
    *count = (size_t)PyList_GET_SIZE(list);
    return texts;
}

/* The core's number for a name, a str. */
static int operators_named(PyObject *name, int (*number)(const char *, size_t), int *kind)
{
    Py_ssize_t len;
    const char *text = PyUnicode_AsUTF8AndSize(name, &len);
    if (!text)
        return -1;
    *kind = number(text, (size_t)len);
    return 0;
}

/* None for an empty text: what Redis does not have. */
static PyObject *operators_text_or_none(const char *text)
{
    return *text ? spy_cstr_or_none(text) : spy_none_or(0);
}

/* ---- Queries --------------------------------------------------------------------------------- */

static PyObject *operators_payload(const void *payloads, size_t i)
{
    const seriatim_payload *p = (const seriatim_payload *)payloads + i;
    return Py_BuildValue("(Nd)", PyBytes_FromStringAndSize(p->data, (Py_ssize_t)p->len), p->score);
}

static PyObject *operators_scheduled(const void *list, size_t i)
{
    const seriatim_scheduled *s = (const seriatim_scheduled *)list + i;
    PyObject *dict = PyDict_New();
    if (dict && (spy_set(dict, "payload", PyBytes_FromStringAndSize(s->payload.data, (Py_ssize_t)s->payload.len)) ||
                 (s->scored && spy_set(dict, "score", PyFloat_FromDouble(s->payload.score))) ||
                 spy_set(dict, "deliver_at", PyFloat_FromDouble(s->deliver_at)) ||
                 spy_set(dict, "pushed_at", PyFloat_FromDouble(s->pushed_at)) ||
                 spy_set(dict, "handle", spy_text(s->handle.data, s->handle.len))))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *operators_record(const void *records, size_t i)
{
    const seriatim_record *record = (const seriatim_record *)records + i;
    PyObject *dict = PyDict_New();
    if (dict &&
        (spy_set(dict, "id", spy_id(record->id, record->id_len)) ||
         spy_set(dict, "state", spy_cstr_or_none(record->state)) ||
         spy_set(dict, "behind", PyBool_FromLong(record->behind)) ||
         spy_set(dict, "perform_in", PyFloat_FromDouble(record->perform_in)) ||
         spy_set(dict, "updated_at", PyFloat_FromDouble(record->updated_at)) ||
         spy_set(dict, "retry_count", PyLong_FromLongLong(record->retry_count)) ||
         spy_set(dict, "error", spy_error_or_none(record->error, record->error_len)) ||
         spy_set(dict, "payloads", spy_list(record->payload_count, operators_payload, record->payloads)) ||
         spy_set(dict, "payloads_count", PyLong_FromSize_t(record->payload_total)) ||
         spy_set(dict, "fence", PyLong_FromLongLong(record->fence)) ||
         spy_set(dict, "shard", PyLong_FromUnsignedLong(record->shard)) ||
         spy_set(dict, "scheduled", spy_list(record->scheduled_count, operators_scheduled, record->scheduled)) ||
         spy_set(dict, "scheduled_total", PyLong_FromSize_t(record->scheduled_total)) ||
         spy_set(dict, "deliver_at", PyFloat_FromDouble(record->deliver_at))))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *operators_read_query(const spy_link *self)
{
    size_t count;
    const seriatim_record *records = seriatim_query_result(operators_client(self), &count);
    return spy_list(count, operators_record, records);
}

/* link.query(queue, name, reverse, min, max, limit, shard, ids): all fields of each record */
PyObject *spy_link_query(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"queue", "name", "reverse", "min", "max", "limit", "shard", "ids", NULL};
    spy_link *self = (spy_link *)object;
    seriatim_client *client;
    seriatim_query query;
    seriatim_text *texts;
    PyObject *queue, *limit, *shard, *ids;
    const char *name;
    Py_ssize_t name_len, min_len = 0, max_len = 0;
    size_t number;
    int status;
    seriatim_query_init(&query, 0);
    if (!PyArg_ParseTupleAndKeywords(args, names, "Os#pz#z#OOO:query", keywords, &queue, &name, &name_len,
                                     &query.reverse, &query.min.data, &min_len, &query.max.data, &max_len, &limit,
                                     &shard, &ids) ||
        spy_size(queue, &number) < 0 || spy_int64(limit, &query.limit) < 0 || spy_int64(shard, &query.shard) < 0 ||
        !(client = spy_link_client(self)))
        return NULL;
    query.kind = seriatim_query_named(name, (size_t)name_len);
    query.min.len = (size_t)min_len;
    query.max.len = (size_t)max_len;
    texts = operators_texts(ids, &query.id_count);
    if (!texts && ids != Py_None)
        return NULL;
    query.ids = texts;
    status = seriatim_query_begin(client, number, &query);
    PyMem_Free(texts);
    return spy_link_begun(self, status, operators_read_query);
}

/* ---- Actions --------------------------------------------------------------------------------- */

static PyObject *operators_read_action(const spy_link *self)
{
    return PyLong_FromLongLong(seriatim_action_result(operators_client(self)));
}

/* link.action(queue, name, texts that it takes or None): what seriatim_action_result says */
PyObject *spy_link_action(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client;
    seriatim_text *texts;
    size_t queue, count;
    int status, kind;
    if (spy_arity("action", nargs, 3, 3) < 0 || spy_size(args[0], &queue) < 0 ||
        operators_named(args[1], seriatim_action_named, &kind) < 0 || !(client = spy_link_client(self)))
        return NULL;
    texts = operators_texts(args[2], &count);
    if (!texts && args[2] != Py_None)
        return NULL;
    status = seriatim_action_begin(client, queue, kind, texts, count);
    PyMem_Free(texts);
    return spy_link_begun(self, status, operators_read_action);
}

/* ---- Metrics --------------------------------------------------------------------------------- */

static PyObject *operators_figures(const seriatim_metrics *m)
{
    PyObject *dict = PyDict_New();
    if (dict &&
        (spy_set(dict, "length", PyLong_FromLongLong(m->length)) ||
         spy_set(dict, "scheduled", PyLong_FromLongLong(m->scheduled)) ||
         spy_set(dict, "stale", PyLong_FromLongLong(m->stale)) ||
         spy_set(dict, "fresh", PyLong_FromLongLong(m->fresh)) ||
         spy_set(dict, "retries", PyLong_FromLongLong(m->retries)) ||
         spy_set(dict, "morgue_length", PyLong_FromLongLong(m->morgue_length)) ||
         spy_set(dict, "lag", PyFloat_FromDouble(m->lag)) ||
         spy_set(dict, "processed", PyLong_FromLongLong(m->processed)) ||
         spy_set(dict, "failed", PyLong_FromLongLong(m->failed)) ||
         spy_set(dict, "busy", PyLong_FromLongLong(m->busy)) ||
         spy_set(dict, "parked", PyLong_FromLongLong(m->parked)) ||
         spy_set(dict, "unproven", PyLong_FromLongLong(m->unproven)) ||
         spy_set(dict, "suspect", PyLong_FromLongLong(m->suspect)) ||
         spy_set(dict, "refused", PyLong_FromLongLong(m->refused)) ||
         spy_set(dict, "morgue_removed", PyLong_FromLongLong(m->morgue_removed)) ||
         spy_set(dict, "first", PyFloat_FromDouble(m->first)) || spy_set(dict, "now", PyFloat_FromDouble(m->now)) ||
         spy_set(dict, "paused", PyLong_FromLongLong(m->paused))))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *operators_shard_figures(const void *shards, size_t i)
{
    const seriatim_metrics *m = (const seriatim_metrics *)shards + i;
    PyObject *dict = operators_figures(m);
    if (dict && (spy_set(dict, "lease", PyLong_FromLongLong(m->lease)) ||
                 spy_set(dict, "fence", PyLong_FromLongLong(m->fence)) ||
                 spy_set(dict, "owner", operators_text_or_none(m->owner))))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *operators_resharding(const seriatim_resharding *r)
{
    PyObject *dict;
    if (!r)
        return spy_none_or(0);
    dict = PyDict_New();
    if (dict && (spy_set(dict, "from", PyLong_FromUnsignedLong(r->from)) ||
                 spy_set(dict, "to", PyLong_FromUnsignedLong(r->to)) ||
                 spy_set(dict, "shards_left", PyLong_FromUnsignedLong(r->shards_left)) ||
                 spy_set(dict, "ids_moved", PyLong_FromLongLong(r->ids_moved)) ||
                 spy_set(dict, "ids_left", PyLong_FromLongLong(r->ids_left))))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *operators_read_metrics(const spy_link *self)
{
    seriatim_client *client = operators_client(self);
    size_t count;
    const seriatim_metrics *shards = seriatim_metrics_shards(client, &count);
    PyObject *dict = operators_figures(seriatim_metrics_total(client));
    if (dict && (spy_set(dict, "shards", spy_list(count, operators_shard_figures, shards)) ||
                 spy_set(dict, "resharding", operators_resharding(seriatim_metrics_resharding(client)))))
        Py_CLEAR(dict);
    return dict;
}

/* link.metrics(queue): the queue's figures; its shards' at "shards"; how far a move is at "resharding" */
PyObject *spy_link_metrics(PyObject *object, PyObject *queue)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client;
    size_t number;
    if (spy_size(queue, &number) < 0 || !(client = spy_link_client(self)))
        return NULL;
    return spy_link_begun(self, seriatim_metrics_begin(client, number), operators_read_metrics);
}

/* ---- Explain, check, nodes ------------------------------------------------------------------- */

static PyObject *operators_known(const seriatim_record *record)
{
    return strcmp(record->state, "unknown") == 0 ? spy_none_or(0) : operators_record(record, 0);
}

static PyObject *operators_history_entry(const void *history, size_t i)
{
    const seriatim_history_entry *entry = (const seriatim_history_entry *)history + i;
    PyObject *dict = PyDict_New();
    if (dict &&
        (spy_set(dict, "text", spy_cstr_or_none(entry->text)) ||
         spy_set(dict, "event", spy_cstr_or_none(entry->event)) || spy_set(dict, "at", PyFloat_FromDouble(entry->at)) ||
         spy_set(dict, "due", entry->due > 0 ? PyFloat_FromDouble(entry->due) : spy_none_or(0)) ||
         spy_set(dict, "fence", entry->fence ? PyLong_FromLongLong(entry->fence) : spy_none_or(0)) ||
         spy_set(dict, "payloads_count", entry->payloads ? PyLong_FromLongLong(entry->payloads) : spy_none_or(0)) ||
         spy_set(dict, "node", operators_text_or_none(entry->node)) ||
         spy_set(dict, "error", spy_error_or_none(entry->error, entry->error_len))))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *operators_read_explanation(const spy_link *self)
{
    const seriatim_explanation *e = seriatim_explain_result(operators_client(self));
    PyObject *dict = PyDict_New();
    if (dict &&
        (spy_set(dict, "text", spy_cstr_or_none(e->text)) || spy_set(dict, "job", operators_known(&e->job)) ||
         spy_set(dict, "behind", operators_known(&e->behind)) || spy_set(dict, "dead", operators_known(&e->dead)) ||
         spy_set(dict, "scheduled", PyLong_FromLongLong(e->scheduled)) ||
         spy_set(dict, "deliver_at", PyFloat_FromDouble(e->deliver_at)) ||
         spy_set(dict, "owner", operators_text_or_none(e->owner)) ||
         spy_set(dict, "owner_alive", PyBool_FromLong(e->owner_alive)) ||
         spy_set(dict, "paused", PyBool_FromLong(e->paused)) || spy_set(dict, "lease", PyLong_FromLongLong(e->lease)) ||
         spy_set(dict, "fence", PyLong_FromLongLong(e->fence)) ||
         spy_set(dict, "remembered_score", e->has_score ? PyFloat_FromDouble(e->score) : spy_none_or(0)) ||
         spy_set(dict, "remembered_until", e->has_score ? PyFloat_FromDouble(e->score_until) : spy_none_or(0)) ||
         spy_set(dict, "now", PyFloat_FromDouble(e->now)) ||
         spy_set(dict, "history", spy_list(e->history_count, operators_history_entry, e->history))))
        Py_CLEAR(dict);
    return dict;
}

/* link.explain(queue, id) */
PyObject *spy_link_explain(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client;
    const char *id;
    size_t queue, len;
    if (spy_arity("explain", nargs, 2, 2) < 0 || spy_size(args[0], &queue) < 0 || spy_data(args[1], &id, &len) < 0 ||
        !(client = spy_link_client(self)))
        return NULL;
    return spy_link_begun(self, seriatim_explain_begin(client, queue, id, len), operators_read_explanation);
}

static PyObject *operators_finding(const void *findings, size_t i)
{
    const seriatim_finding *f = (const seriatim_finding *)findings + i;
    PyObject *dict = PyDict_New();
    if (dict &&
        (spy_set(dict, "shard", PyLong_FromUnsignedLong(f->shard)) ||
         spy_set(dict, "kind", spy_cstr_or_none(f->kind)) || spy_set(dict, "detail", spy_cstr_or_none(f->detail)) ||
         spy_set(dict, "id", f->id_len ? spy_id(f->id, f->id_len) : spy_none_or(0)) ||
         spy_set(dict, "repaired", PyBool_FromLong(f->repaired))))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *operators_read_check(const spy_link *self)
{
    seriatim_client *client = operators_client(self);
    size_t count;
    const seriatim_finding *findings = seriatim_check_result(client, &count);
    return Py_BuildValue("(nN)", (Py_ssize_t)seriatim_check_looked_at(client),
                         spy_list(count, operators_finding, findings));
}

/* link.check(queue, repair): (how many records it looked at, findings) */
PyObject *spy_link_check(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client;
    size_t queue;
    if (spy_arity("check", nargs, 2, 2) < 0 || spy_size(args[0], &queue) < 0 || !(client = spy_link_client(self)))
        return NULL;
    return spy_link_begun(self, seriatim_check_begin(client, queue, args[1] == Py_True), operators_read_check);
}

/* A field that a node tells of its process, by its kind; None where it does not. */
#define NODE_INTEGER(value) ((value) < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(value))
#define NODE_SECONDS(value) (isnan(value) ? Py_NewRef(Py_None) : PyFloat_FromDouble(value))
#define NODE_TEXT(value) operators_text_or_none(value)

static PyObject *operators_node(const void *nodes, size_t i)
{
    const seriatim_living_node *node = (const seriatim_living_node *)nodes + i;
    PyObject *dict = PyDict_New();
    if (dict && (spy_set(dict, "name", spy_cstr_or_none(node->name)) ||
                 spy_set(dict, "description", spy_cstr_or_none(node->description)) ||
                 spy_set(dict, "expires_in", PyFloat_FromDouble(node->expires_in)) ||
#define X(kind, field, key) spy_set(dict, #field, NODE_##kind(node->field)) ||
                 SERIATIM_NODE_FIELDS(X)
#undef X
                     spy_set(dict, "state", spy_cstr_or_none(node->state))))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *operators_read_nodes(const spy_link *self)
{
    size_t count;
    const seriatim_living_node *nodes = seriatim_nodes_result(operators_client(self), &count);
    return spy_list(count, operators_node, nodes);
}

/* link.nodes(): [{"name", "description", "expires_in", "state", and those of SERIATIM_NODE_FIELDS}] */
PyObject *spy_link_nodes(PyObject *object, PyObject *ignored)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client = spy_link_client(self);
    (void)ignored;
    return client ? spy_link_begun(self, seriatim_nodes_begin(client), operators_read_nodes) : NULL;
}

static PyObject *operators_read_order(const spy_link *self)
{
    return PyBool_FromLong(seriatim_order_result(operators_client(self)));
}

/* link.node_command(node, "quiet" or "stop"): True where such a node is alive */
PyObject *spy_link_node_command(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client;
    const char *node;
    size_t len;
    int command;
    if (spy_arity("node_command", nargs, 2, 2) < 0 || spy_data(args[0], &node, &len) < 0 ||
        operators_named(args[1], seriatim_order_named, &command) < 0 || !(client = spy_link_client(self)))
        return NULL;
    return spy_link_begun(self, seriatim_order_begin(client, node, len, command), operators_read_order);
}

/* ---- Queues and health ----------------------------------------------------------------------- */

static PyObject *operators_name(const void *names, size_t i)
{
    const seriatim_text *name = (const seriatim_text *)names + i;
    return spy_id(name->data, name->len);
}

static PyObject *operators_read_queues(const spy_link *self)
{
    size_t count;
    const seriatim_text *names = seriatim_queues_result(operators_client(self), &count);
    return spy_list(count, operators_name, names);
}

/* link.queues(): the names of all queues of the namespace */
PyObject *spy_link_queues(PyObject *object, PyObject *ignored)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client = spy_link_client(self);
    (void)ignored;
    return client ? spy_link_begun(self, seriatim_queues_begin(client), operators_read_queues) : NULL;
}

static PyObject *operators_read_health(const spy_link *self)
{
    const seriatim_health *health = seriatim_health_result(operators_client(self));
    const char *policy = health->maxmemory_policy;
    int kept = health->append_only;
    PyObject *dict = PyDict_New();
    if (dict && (spy_set(dict, "maxmemory_policy", operators_text_or_none(policy)) ||
                 spy_set(dict, "appendonly", kept < 0 ? spy_none_or(0) : PyBool_FromLong(kept)) ||
                 spy_set(dict, "replicas", health->replicas < 0 ? spy_none_or(0) : PyLong_FromLong(health->replicas))))
        Py_CLEAR(dict);
    return dict;
}

/* link.health(): {"maxmemory_policy", "appendonly", "replicas"}, None where Redis does not tell */
PyObject *spy_link_health(PyObject *object, PyObject *ignored)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client = spy_link_client(self);
    (void)ignored;
    return client ? spy_link_begun(self, seriatim_health_begin(client), operators_read_health) : NULL;
}

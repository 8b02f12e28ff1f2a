/*
 * py_web.c - a web request, asked like a query and answered whatever came of it, as methods of seriatim._native.Link.
 */
#include "py_link.h"

#include <string.h>

/* ---- The request ----------------------------------------------------------------------------- */

static int web_check_tuple(PyObject *tuple)
{
    if (PyTuple_Check(tuple))
        return 0;
    PyErr_Format(PyExc_TypeError, "expected a tuple, not %.100s", Py_TYPE(tuple)->tp_name);
    return -1;
}

/* The texts of a tuple of str, which keeps them; PyMem_Free them. NULL with an exception. */
static const char **web_texts(PyObject *tuple)
{
    Py_ssize_t i, count = PyTuple_GET_SIZE(tuple);
    const char **texts = PyMem_New(const char *, (size_t)count + 1);
    if (!texts)
        return (const char **)PyErr_NoMemory();
    for (i = 0; i < count; i++)
        if (spy_cstr(PyTuple_GET_ITEM(tuple, i), &texts[i]) < 0) {
            PyMem_Free(texts);
            return NULL;
        }
    return texts;
}

/* A tuple of bytes, name, queue, name, queue, ..., which keeps them; PyMem_Free them. NULL with an exception. */
static seriatim_web_worker *web_workers(PyObject *tuple, size_t *count)
{
    Py_ssize_t i, texts = PyTuple_GET_SIZE(tuple);
    seriatim_web_worker *workers = PyMem_New(seriatim_web_worker, (size_t)texts / 2 + 1);
    if (!workers)
        return (seriatim_web_worker *)PyErr_NoMemory();
    *count = (size_t)texts / 2;
    for (i = 0; i < texts / 2 * 2; i++) {
        seriatim_text *text = i % 2 ? &workers[i / 2].queue : &workers[i / 2].name;
        if (spy_data(PyTuple_GET_ITEM(tuple, i), &text->data, &text->len) < 0) {
            PyMem_Free(workers);
            return NULL;
        }
    }
    return workers;
}

/* A WebSettings tuple, which keeps the texts; PyMem_Free its hosts and its workers. */
static int web_read_settings(PyObject *tuple, seriatim_web_settings *settings, const char ***hosts,
                             seriatim_web_worker **workers)
{
    PyObject *names, *pairs;
    memset(settings, 0, sizeof *settings);
    if (web_check_tuple(tuple) < 0 ||
        !PyArg_ParseTuple(tuple, "zpO!zzO!pp", &settings->title, &settings->read_only, &PyTuple_Type, &names,
                          &settings->token, &settings->stalled, &PyTuple_Type, &pairs, &settings->loads_errors,
                          &settings->consume) ||
        !(*hosts = web_texts(names)))
        return -1;
    *workers = web_workers(pairs, &settings->worker_count);
    if (!*workers) {
        PyMem_Free(*hosts);
        return -1;
    }
    settings->workers = *workers;
    settings->hosts = *hosts;
    settings->host_count = (size_t)PyTuple_GET_SIZE(names);
    return 0;
}

/* A WebRequest tuple, which keeps the texts. */
static int web_read_request(PyObject *tuple, seriatim_web_request *r)
{
    seriatim_text *const texts[] = {
        &r->prefix,        &r->path,   &r->query,           &r->host, &r->origin, &r->sec_fetch_site, &r->content_type,
        &r->authorization, &r->accept, &r->accept_encoding, &r->body};
    Py_ssize_t lens[sizeof texts / sizeof *texts];
    size_t i;
    long long waited_ms = 0;
    memset(r, 0, sizeof *r);
    if (web_check_tuple(tuple) < 0 ||
        !PyArg_ParseTuple(tuple, "sz#z#z#z#z#z#z#z#z#z#z#piiiL", &r->method, &r->prefix.data, &lens[0], &r->path.data,
                          &lens[1], &r->query.data, &lens[2], &r->host.data, &lens[3], &r->origin.data, &lens[4],
                          &r->sec_fetch_site.data, &lens[5], &r->content_type.data, &lens[6], &r->authorization.data,
                          &lens[7], &r->accept.data, &lens[8], &r->accept_encoding.data, &lens[9], &r->body.data,
                          &lens[10], &r->secure, &r->socket, &r->role, &r->host_waits, &waited_ms))
        return -1;
    r->waited_ms = waited_ms;
    for (i = 0; i < sizeof texts / sizeof *texts; i++)
        texts[i]->len = (size_t)lens[i];
    return 0;
}

static PyObject *web_read_nothing(const spy_link *self)
{
    (void)self;
    Py_RETURN_NONE;
}

/* link.web(settings, request): whatever comes of it, there is an answer */
PyObject *spy_link_web(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_link *self = (spy_link *)object;
    seriatim_web_settings settings;
    seriatim_web_request request;
    seriatim_client *client;
    const char **hosts;
    seriatim_web_worker *workers;
    PyObject *begun;
    int status;
    if (spy_arity("web", nargs, 2, 2) < 0 || web_read_request(args[1], &request) < 0 ||
        !(client = spy_link_client(self)) || web_read_settings(args[0], &settings, &hosts, &workers) < 0)
        return NULL;
    status = seriatim_web_begin(client, &settings, &request);
    PyMem_Free(hosts);
    PyMem_Free(workers);
    begun = spy_link_begun(self, status, web_read_nothing);
    if (srt_client_status(client) != SERIATIM_AGAIN)
        self->read = web_read_nothing; /* a failure has its answer, too */
    return begun;
}

/* ---- The answer ------------------------------------------------------------------------------ */

/* The application's functions, and what each gave last. */
typedef struct web_calls {
    PyObject *redact, *load_error, *shown, *loaded;
} web_calls;

/* The text that a function gave, kept in *kept; data NULL after an exception. Takes the reference of `said`. */
static seriatim_text web_said(PyObject *said, PyObject **kept)
{
    seriatim_text text = {NULL, 0};
    if (said && PyUnicode_Check(said))
        Py_SETREF(said, PyUnicode_AsUTF8String(said));
    Py_XSETREF(*kept, said);
    if (!said || spy_data(said, &text.data, &text.len) < 0)
        text.data = NULL;
    return text;
}

/* After an exception, which is raised in the end, nothing is shown any more. */
static seriatim_text web_redact(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    static const seriatim_text nothing = {NULL, 0};
    web_calls *calls = context;
    if (PyErr_Occurred())
        return nothing;
    return web_said(PyObject_CallFunction(calls->redact, "NNN", spy_id(queue.data, queue.len), spy_id(id.data, id.len),
                                          spy_id(text.data, text.len)),
                    &calls->shown);
}

static seriatim_text web_load_error(void *context, seriatim_text stored)
{
    static const seriatim_text nothing = {NULL, 0};
    web_calls *calls = context;
    if (PyErr_Occurred())
        return nothing;
    return web_said(PyObject_CallFunction(calls->load_error, "N", spy_id(stored.data, stored.len)), &calls->loaded);
}

static PyObject *web_header(const void *headers, size_t i)
{
    const seriatim_web_header *header = (const seriatim_web_header *)headers + i;
    return Py_BuildValue("(ss)", header->name, header->value);
}

static PyObject *web_response(const seriatim_web_response *response)
{
    return Py_BuildValue("(iNNi)", response->status, spy_list(response->header_count, web_header, response->headers),
                         PyBytes_FromStringAndSize(response->body.data, (Py_ssize_t)response->body.len),
                         response->wait_ms);
}

/*
 * link.answer(redact or None, load_error or None): (status, [(name, value)], body) of the web request, which has ended,
 * well or not; None: it goes on, so the link is to be driven again
 */
PyObject *spy_link_answer(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client;
    web_calls calls = {NULL, NULL, NULL, NULL};
    seriatim_web_hooks hooks = {NULL, NULL, &calls};
    const seriatim_web_response *response;
    PyObject *result = NULL;
    if (spy_arity("answer", nargs, 2, 2) < 0 || !(client = spy_link_client(self)))
        return NULL;
    calls.redact = args[0];
    calls.load_error = args[1];
    hooks.redact = calls.redact == Py_None ? NULL : web_redact;
    hooks.load_error = calls.load_error == Py_None ? NULL : web_load_error;
    if (self->read != web_read_nothing || srt_client_status(client) == SERIATIM_AGAIN) {
        PyErr_SetString(PyExc_RuntimeError, "there is no web request, or it has not ended yet");
        return NULL;
    }
    self->busy = 1;
    response = seriatim_web_answer(client, srt_client_status(client), &hooks);
    if (!PyErr_Occurred())
        result = response ? web_response(response) : Py_NewRef(Py_None);
    self->busy = 0;
    Py_XDECREF(calls.shown);
    Py_XDECREF(calls.loaded);
    return result;
}

/* ---- What it changed ------------------------------------------------------------------------- */

/* Takes the value's reference. */
static int web_set(PyObject *dict, const char *key, PyObject *value)
{
    int failed = !value || PyDict_SetItemString(dict, key, value) < 0;
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

static int web_set_text(PyObject *dict, const char *key, seriatim_text text)
{
    return text.data ? web_set(dict, key, spy_id(text.data, text.len)) : 0;
}

static PyObject *web_changed_id(const void *ids, size_t i)
{
    const seriatim_text *id = (const seriatim_text *)ids + i;
    return spy_id(id->data, id->len);
}

static int web_set_change(PyObject *dict, const seriatim_web_change *change)
{
    if (web_set(dict, "action", PyUnicode_FromString(change->action)) < 0 ||
        web_set(dict, "role", PyUnicode_FromString(change->role)) < 0 ||
        web_set_text(dict, "queue", change->queue) < 0 || web_set_text(dict, "node", change->node) < 0 ||
        web_set_text(dict, "fingerprint", change->fingerprint) < 0 || web_set_text(dict, "shards", change->shards) < 0)
        return -1;
    if ((change->id_count && web_set(dict, "ids", spy_list(change->id_count, web_changed_id, change->ids)) < 0) ||
        (change->count >= 0 && web_set(dict, "count", PyLong_FromLongLong(change->count)) < 0) ||
        (change->status && web_set(dict, "status", PyLong_FromLong(change->status)) < 0))
        return -1;
    return change->error[0] ? web_set(dict, "error", spy_text(change->error, strlen(change->error))) : 0;
}

/* link.change(): what the web request asked to change and what came of it so far, with its line for a log; or None */
PyObject *spy_link_change(PyObject *object, PyObject *ignored)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client = spy_link_client(self);
    const seriatim_web_change *change;
    PyObject *dict, *result = NULL;
    (void)ignored;
    if (!client)
        return NULL;
    change = seriatim_web_change_of(client);
    if (!change)
        Py_RETURN_NONE;
    self->busy = 1;
    dict = PyDict_New();
    if (dict && web_set_change(dict, change) == 0)
        result = Py_BuildValue("(ON)", dict, spy_text(change->line.data, change->line.len));
    Py_XDECREF(dict);
    self->busy = 0;
    return result;
}

/* ---- Routes ---------------------------------------------------------------------------------- */

static PyObject *web_route(const void *routes, size_t i)
{
    const seriatim_web_route *route = (const seriatim_web_route *)routes + i;
    return Py_BuildValue("(ssiN)", route->method, route->pattern, route->role, PyBool_FromLong(route->action != NULL));
}

PyObject *spy_web_routes(PyObject *module, PyObject *ignored)
{
    size_t count;
    const seriatim_web_route *routes = seriatim_web_routes(&count);
    (void)module;
    (void)ignored;
    return spy_list(count, web_route, routes);
}

/*
 * py_link.c - seriatim._native.Link: one connection that pushes and asks, driven to its end or stepped by an event
 * loop.
 */
#include "py_link.h"

#include "py_jobs.h"

#include <pthread.h>

#define FAST(function) (PyCFunction)(void (*)(void))(function)

/* ---- Use ------------------------------------------------------------------------------------- */

/*
 * In a child of fork(2): a step makes the link notice, which leaves the parent's connection alone. One that a thread of
 * the parent was inside of may be half changed, and stays untouched.
 */
static int link_adopt(spy_link *self)
{
    if (self->busy) {
        spy_raise(spy_state_of((PyObject *)self), SERIATIM_CLOSED,
                  "the link was in use when the process forked; create another one");
        return -1;
    }
    self->forks = spy_forks();
    seriatim_link_step(self->link);
    return 0;
}

static seriatim_link *link_idle(spy_link *self)
{
    if (!self->link) {
        spy_raise(spy_state_of((PyObject *)self), SERIATIM_CLOSED, "the link is closed");
        return NULL;
    }
    if (self->forks != spy_forks() && link_adopt(self) < 0)
        return NULL;
    if (self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the link is in use by another thread");
        return NULL;
    }
    return self->link;
}

seriatim_client *spy_link_client(spy_link *self)
{
    seriatim_link *link = link_idle(self);
    return link ? seriatim_link_client(link) : NULL;
}

static PyObject *link_fail(spy_link *self, int status)
{
    spy_state *state = spy_state_of((PyObject *)self);
    const seriatim_error *error = seriatim_client_error(seriatim_link_client(self->link));
    if (error->status == status)
        return spy_raise_error(state, error);
    return spy_raise(state, status, error->message[0] ? error->message : seriatim_status_text(status));
}

PyObject *spy_link_begun(spy_link *self, int status, PyObject *(*read)(const spy_link *))
{
    if (status == SERIATIM_OK) {
        self->read = read;
        Py_RETURN_NONE;
    }
    if (srt_client_status(seriatim_link_client(self->link)) != SERIATIM_AGAIN)
        self->read = NULL; /* nothing is under way, and what came before is forgotten */
    return link_fail(self, status);
}

/* ---- Going on with what was begun ------------------------------------------------------------ */

/* The resolver blocks: a step that may ask it goes without the GIL. */
static int link_step(spy_link *self)
{
    int status;
    if (!srt_link_may_resolve(self->link))
        return seriatim_link_step(self->link);
    Py_BEGIN_ALLOW_THREADS status = seriatim_link_step(self->link);
    Py_END_ALLOW_THREADS return status;
}

static int link_wait(spy_link *self, int64_t deadline_ms)
{
    seriatim_link *link = self->link;
    int wants = seriatim_link_wants(link), patience = seriatim_link_timeout_ms(link), left = spy_left_ms(deadline_ms);
    struct pollfd fd = {seriatim_link_fd(link), POLLIN, 0};
    if (wants)
        fd.events = (short)((wants & SERIATIM_WANT_READ ? POLLIN : 0) | (wants & SERIATIM_WANT_WRITE ? POLLOUT : 0));
    if (patience < 0 || (left >= 0 && left < patience))
        patience = left;
    return spy_poll(&fd, fd.fd >= 0, patience);
}

/* 0 with the status of the end; or -1 with an exception. */
static int link_drive(spy_link *self, int64_t deadline_ms, int *status)
{
    for (;;) {
        *status = link_step(self);
        if (*status != SERIATIM_AGAIN)
            return 0;
        if (spy_left_ms(deadline_ms) == 0) {
            *status = srt_link_expire(self->link);
            return 0;
        }
        if (link_wait(self, deadline_ms) < 0)
            return -1;
    }
}

static PyObject *link_read_pipeline(const spy_link *self);

/* Busy, because the collector may run anyone's code while the result is made. */
static PyObject *link_result(spy_link *self, int status)
{
    PyObject *result;
    if (!self->read) {
        PyErr_SetString(PyExc_RuntimeError, "no operation was begun");
        return NULL;
    }
    if (status == SERIATIM_AGAIN) {
        PyErr_SetString(PyExc_RuntimeError, "the operation has not ended yet");
        return NULL;
    }
    if (status != SERIATIM_OK && status != SERIATIM_REPLICAS && self->read != link_read_pipeline)
        return link_fail(self, status);
    self->busy = 1;
    result = self->read(self);
    self->busy = 0;
    return result;
}

/*
 * An exception may end a wait: what was begun is then dropped with its socket, so no answer can be mistaken for
 * another's.
 */
static PyObject *link_drive_method(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    spy_link *self = (spy_link *)object;
    int64_t deadline_ms;
    int ended, status = SERIATIM_OK;
    if (spy_arity("drive", nargs, 0, 1) < 0 || spy_deadline(args, nargs, names, 0, &deadline_ms) < 0 ||
        !link_idle(self))
        return NULL;
    self->busy = 1;
    ended = link_drive(self, deadline_ms, &status);
    self->busy = 0;
    if (ended < 0) {
        seriatim_link_reset(self->link);
        return NULL;
    }
    return link_result(self, status);
}

static PyObject *link_step_method(PyObject *object, PyObject *ignored)
{
    spy_link *self = (spy_link *)object;
    int status;
    (void)ignored;
    if (!link_idle(self))
        return NULL;
    self->busy = 1;
    status = link_step(self);
    self->busy = 0;
    return PyBool_FromLong(status != SERIATIM_AGAIN);
}

static PyObject *link_expire(PyObject *object, PyObject *ignored)
{
    seriatim_link *link = link_idle((spy_link *)object);
    (void)ignored;
    if (!link)
        return NULL;
    srt_link_expire(link);
    Py_RETURN_NONE;
}

static PyObject *link_result_method(PyObject *object, PyObject *ignored)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client = spy_link_client(self);
    (void)ignored;
    return client ? link_result(self, srt_client_status(client)) : NULL;
}

static PyObject *link_may_resolve(PyObject *object, PyObject *ignored)
{
    seriatim_link *link = link_idle((spy_link *)object);
    (void)ignored;
    return link ? PyBool_FromLong(srt_link_may_resolve(link)) : NULL;
}

static PyObject *link_fileno(PyObject *object, PyObject *ignored)
{
    seriatim_link *link = link_idle((spy_link *)object);
    (void)ignored;
    return link ? PyLong_FromLong(seriatim_link_fd(link)) : NULL;
}

static PyObject *link_wants(PyObject *object, PyObject *ignored)
{
    seriatim_link *link = link_idle((spy_link *)object);
    (void)ignored;
    return link ? PyLong_FromLong(seriatim_link_wants(link)) : NULL;
}

static PyObject *link_timeout(PyObject *object, PyObject *ignored)
{
    seriatim_link *link = link_idle((spy_link *)object);
    int patience;
    (void)ignored;
    if (!link)
        return NULL;
    patience = seriatim_link_timeout_ms(link);
    return patience < 0 ? spy_none_or(0) : PyFloat_FromDouble(patience / 1000.0);
}

/* ---- Queues and layout ----------------------------------------------------------------------- */

/* link.queue(settings) -> its number in this link */
static PyObject *link_queue(PyObject *object, PyObject *tuple)
{
    spy_link *self = (spy_link *)object;
    seriatim_queue_settings settings;
    seriatim_client *client;
    size_t queue;
    int status;
    if (spy_queue_settings(tuple, &settings) < 0 || !(client = spy_link_client(self)))
        return NULL;
    status = seriatim_client_queue(client, &settings, &queue);
    return status == SERIATIM_OK ? PyLong_FromSize_t(queue) : link_fail(self, status);
}

static PyObject *link_read_layout(const spy_link *self)
{
    return PyLong_FromUnsignedLong(seriatim_layout_shards(seriatim_link_client(self->link), self->queue));
}

/* link.layout(queue): shards_count as Redis has it, 0 when there is no such queue */
static PyObject *link_layout(PyObject *object, PyObject *queue)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client;
    size_t number;
    if (spy_size(queue, &number) < 0 || !(client = spy_link_client(self)))
        return NULL;
    self->queue = number;
    return spy_link_begun(self, seriatim_layout_begin(client, number), link_read_layout);
}

/* ---- Push ------------------------------------------------------------------------------------ */

static PyObject *link_refused_place(const void *places, size_t i)
{
    return PyLong_FromSize_t(((const size_t *)places)[i]);
}

/* What was said of too few replicas (the push is written), or None. */
static PyObject *link_shortage(const seriatim_client *client)
{
    return spy_cstr_or_none(srt_client_status(client) == SERIATIM_REPLICAS ? seriatim_client_error(client)->message
                                                                           : NULL);
}

static PyObject *link_handle(const void *handles, size_t i)
{
    const seriatim_text *handle = (const seriatim_text *)handles + i;
    return handle->data ? spy_text(handle->data, handle->len) : spy_none_or(0);
}

static PyObject *link_read_push(const spy_link *self)
{
    seriatim_client *client = seriatim_link_client(self->link);
    seriatim_push_counts counts = seriatim_push_result(client);
    size_t count, handle_count;
    const size_t *places = seriatim_push_refused(client, &count);
    const seriatim_text *handles = seriatim_push_handles(client, &handle_count);
    return Py_BuildValue("(nnNNNnnN)", (Py_ssize_t)counts.added, (Py_ssize_t)counts.folded,
                         spy_list(count, link_refused_place, places), link_shortage(client),
                         spy_cstr_or_none(seriatim_client_warning(client)), (Py_ssize_t)counts.scheduled,
                         (Py_ssize_t)counts.stale, spy_list(handle_count, link_handle, handles));
}

static int link_check_jobs(spy_link *self, PyObject *jobs)
{
    if (Py_IS_TYPE(jobs, spy_state_of((PyObject *)self)->jobs_type))
        return 0;
    PyErr_Format(PyExc_TypeError, "expected Jobs, not %.100s", Py_TYPE(jobs)->tp_name);
    return -1;
}

/* link.push(queue, jobs, replicas = 0, wait_timeout = 1.0, push_timeout = 10.0, handles = False): (added, folded,
   [places of refused jobs], shortage or None, warning or None, scheduled, stale, [handles or None]) */
static PyObject *link_push(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client;
    size_t queue;
    int64_t replicas = 0;
    double timeout = 1, limit = 10;
    int status;
    if (spy_arity("push", nargs, 2, 6) < 0 || spy_size(args[0], &queue) < 0 || link_check_jobs(self, args[1]) < 0 ||
        (nargs > 2 && spy_int64(args[2], &replicas) < 0) || (nargs > 3 && spy_double(args[3], &timeout) < 0) ||
        (nargs > 4 && spy_double(args[4], &limit) < 0) || !(client = spy_link_client(self)))
        return NULL;
    status = seriatim_push_begin(client, queue);
    if (status == SERIATIM_OK)
        status = seriatim_push_replicas(client, replicas, timeout);
    if (status == SERIATIM_OK)
        status = seriatim_push_timeout(client, limit);
    if (status == SERIATIM_OK && nargs > 5 && args[5] == Py_True)
        status = seriatim_push_want_handles(client);
    if (status == SERIATIM_OK)
        status = spy_jobs_push(args[1], client);
    if (status == SERIATIM_OK)
        status = seriatim_push_send(client);
    return spy_link_begun(self, status, link_read_push);
}

/* ---- Pipelines ------------------------------------------------------------------------------- */

/* An exception that nobody has raised, or None. */
static PyObject *link_exception(const spy_link *self, const seriatim_error *error)
{
    PyObject *type, *value, *trace;
    if (error->status == SERIATIM_OK)
        return spy_none_or(0);
    spy_raise_error(spy_state_of((PyObject *)self), error);
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

static PyObject *link_piped_places(const seriatim_client *client, size_t push, size_t refused)
{
    PyObject *places = PyList_New(0), *place;
    size_t job;
    for (job = 0; places && refused; job++) {
        if (seriatim_pipeline_outcome(client, push, job) != SERIATIM_JOB_REFUSED)
            continue;
        refused--;
        place = PyLong_FromSize_t(job);
        if (!place || PyList_Append(places, place) < 0)
            Py_CLEAR(places);
        Py_XDECREF(place);
    }
    return places;
}

static PyObject *link_piped(const void *object, size_t push)
{
    const spy_link *self = object;
    const seriatim_client *client = seriatim_link_client(self->link);
    seriatim_push_counts counts;
    seriatim_error error;
    size_t count;
    const seriatim_text *handles = seriatim_pipeline_handles(client, push, &count);
    seriatim_pipeline_result(client, push, &counts, &error);
    return Py_BuildValue("(nnNNOnnN)", (Py_ssize_t)counts.added, (Py_ssize_t)counts.folded,
                         link_piped_places(client, push, counts.refused), link_exception(self, &error), Py_None,
                         (Py_ssize_t)counts.scheduled, (Py_ssize_t)counts.stale, spy_list(count, link_handle, handles));
}

static PyObject *link_read_pipeline(const spy_link *self)
{
    seriatim_client *client = seriatim_link_client(self->link);
    seriatim_error error = {0, ""};
    if (srt_client_status(client) != SERIATIM_OK)
        error = *seriatim_client_error(client);
    return Py_BuildValue("(NNN)", spy_list(self->queue, link_piped, self), link_exception(self, &error),
                         spy_cstr_or_none(seriatim_client_warning(client)));
}

/* One push of a pipeline: (queue, jobs, replicas, wait_timeout, push_timeout, handles). -1: an exception is set. */
static int link_collect(spy_link *self, seriatim_client *client, PyObject *row, int *status)
{
    PyObject *jobs;
    Py_ssize_t queue;
    long long replicas;
    double timeout, limit;
    int handles;
    if (!PyArg_ParseTuple(row, "nOLddp", &queue, &jobs, &replicas, &timeout, &limit, &handles) ||
        link_check_jobs(self, jobs) < 0)
        return -1;
    *status = seriatim_pipeline_push(client, (size_t)queue);
    if (*status == SERIATIM_OK)
        *status = seriatim_push_replicas(client, replicas, timeout);
    if (*status == SERIATIM_OK)
        *status = seriatim_push_timeout(client, limit);
    if (*status == SERIATIM_OK && handles)
        *status = seriatim_push_want_handles(client);
    if (*status == SERIATIM_OK)
        *status = spy_jobs_push(jobs, client);
    return 0;
}

/* link.pipeline([(queue, jobs, replicas, wait_timeout, push_timeout, handles), ...]): ([what push gives, of each, but
   an exception or None in the place of the shortage], exception or None, warning or None) */
static PyObject *link_pipeline(PyObject *object, PyObject *rows)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client = spy_link_client(self);
    Py_ssize_t i;
    int status;
    if (!client)
        return NULL;
    if (!PyList_CheckExact(rows)) {
        PyErr_SetString(PyExc_TypeError, "expected a list");
        return NULL;
    }
    status = seriatim_pipeline_begin(client);
    for (i = 0; i < PyList_GET_SIZE(rows) && status == SERIATIM_OK; i++)
        if (link_collect(self, client, PyList_GET_ITEM(rows, i), &status) < 0)
            return NULL;
    if (status == SERIATIM_OK)
        status = seriatim_pipeline_send(client);
    self->queue = (size_t)PyList_GET_SIZE(rows);
    return spy_link_begun(self, status, link_read_pipeline);
}

/* link.check_jobs(queue, jobs): raises what a push of them would before it is sent */
static PyObject *link_check_push(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client;
    size_t queue;
    int status;
    if (spy_arity("check_jobs", nargs, 2, 2) < 0 || spy_size(args[0], &queue) < 0 ||
        link_check_jobs(self, args[1]) < 0 || !(client = spy_link_client(self)))
        return NULL;
    status = seriatim_push_begin(client, queue);
    if (status == SERIATIM_OK)
        status = spy_jobs_push(args[1], client);
    return status == SERIATIM_OK ? spy_none_or(0) : link_fail(self, status);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static seriatim_turns *link_turns; /* of the process, of all its interpreters */
static pthread_once_t link_turns_once = PTHREAD_ONCE_INIT;

static void link_make_turns(void)
{
    link_turns = seriatim_turns_new(NULL);
}

static int link_init(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"url", "namespace", "name", "max_payload", "url_from", NULL};
    spy_link *self = (spy_link *)object;
    seriatim_options options = {0};
    seriatim_error error = {0};
    const char *url;
    Py_ssize_t max_payload;
    if (!PyArg_ParseTupleAndKeywords(args, names, "sszn|z:Link", keywords, &url, &options.ns, &options.name,
                                     &max_payload, &options.url_from))
        return -1;
    if (self->link) {
        PyErr_SetString(PyExc_TypeError, "already initialized");
        return -1;
    }
    options.max_payload = max_payload < 0 ? SIZE_MAX : (size_t)max_payload;
    if (seriatim_link_new(&options, url, &self->link, &error) != SERIATIM_OK) {
        spy_raise_error(spy_state_of(object), &error);
        return -1;
    }
    pthread_once(&link_turns_once, link_make_turns);
    seriatim_client_share_turns(seriatim_link_client(self->link), link_turns);
    self->forks = spy_forks();
    self->read = NULL;
    return 0;
}

/* A link that is busy here was so when the process forked. */
static void link_dealloc(PyObject *object)
{
    spy_link *self = (spy_link *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->link && !self->busy)
        seriatim_link_free(self->link);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *link_reset(PyObject *object, PyObject *ignored)
{
    seriatim_link *link = link_idle((spy_link *)object);
    (void)ignored;
    if (link)
        seriatim_link_reset(link);
    return spy_none_or(!link);
}

/*
 * link.progress(what, total or None): is the next action on a whole queue or check shown on stderr? It is where that is
 * a terminal.
 */
static PyObject *link_progress(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    seriatim_link *link;
    const char *what;
    size_t len;
    int64_t total = -1;
    if (spy_arity("progress", nargs, 2, 2) < 0 || spy_data(args[0], &what, &len) < 0 ||
        (args[1] != Py_None && spy_int64(args[1], &total) < 0) || !(link = link_idle((spy_link *)object)))
        return NULL;
    return PyBool_FromLong(seriatim_link_progress(link, STDERR_FILENO, what, len, total));
}

/* One that is in use is closed when it is collected. */
static PyObject *link_close(PyObject *object, PyObject *ignored)
{
    spy_link *self = (spy_link *)object;
    (void)ignored;
    if (self->link && !self->busy) {
        seriatim_link_free(self->link);
        self->link = NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *link_url(PyObject *object, void *ignored)
{
    seriatim_link *link = link_idle((spy_link *)object);
    (void)ignored;
    return link ? spy_cstr_or_none(seriatim_link_url(link)) : NULL;
}

static PyMethodDef link_methods[] = {
    {"queue", link_queue, METH_O, NULL},
    {"push", FAST(link_push), METH_FASTCALL, NULL},
    {"pipeline", link_pipeline, METH_O, NULL},
    {"check_jobs", FAST(link_check_push), METH_FASTCALL, NULL},
    {"layout", link_layout, METH_O, NULL},
    {"query", FAST(spy_link_query), METH_VARARGS | METH_KEYWORDS, NULL},
    {"action", FAST(spy_link_action), METH_FASTCALL, NULL},
    {"metrics", spy_link_metrics, METH_O, NULL},
    {"explain", FAST(spy_link_explain), METH_FASTCALL, NULL},
    {"check", FAST(spy_link_check), METH_FASTCALL, NULL},
    {"nodes", spy_link_nodes, METH_NOARGS, NULL},
    {"node_command", FAST(spy_link_node_command), METH_FASTCALL, NULL},
    {"queues", spy_link_queues, METH_NOARGS, NULL},
    {"health", spy_link_health, METH_NOARGS, NULL},
    {"pop", FAST(spy_link_pop), METH_FASTCALL, NULL},
    {"popped", FAST(spy_link_popped), METH_FASTCALL, NULL},
    {"ick", FAST(spy_link_ick), METH_FASTCALL, NULL},
    {"web", FAST(spy_link_web), METH_FASTCALL, NULL},
    {"answer", FAST(spy_link_answer), METH_FASTCALL, NULL},
    {"change", spy_link_change, METH_NOARGS, NULL},
    {"drive", FAST(link_drive_method), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"step", link_step_method, METH_NOARGS, NULL},
    {"expire", link_expire, METH_NOARGS, NULL},
    {"may_resolve", link_may_resolve, METH_NOARGS, NULL},
    {"result", link_result_method, METH_NOARGS, NULL},
    {"fileno", link_fileno, METH_NOARGS, NULL},
    {"wants", link_wants, METH_NOARGS, NULL},
    {"timeout", link_timeout, METH_NOARGS, NULL},
    {"reset", link_reset, METH_NOARGS, NULL},
    {"progress", FAST(link_progress), METH_FASTCALL, NULL},
    {"close", link_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef link_attributes[] = {
    {"url", link_url, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot link_slots[] = {
    {Py_tp_doc, (void *)"One connection; what was begun is driven to its end, or stepped."},
    {Py_tp_init, (void *)link_init},
    {Py_tp_dealloc, (void *)link_dealloc},
    {Py_tp_traverse, (void *)spy_visit_type},
    {Py_tp_methods, link_methods},
    {Py_tp_getset, link_attributes},
    {0, NULL},
};

PyType_Spec spy_link_spec = {
    .name = "seriatim._native.Link",
    .basicsize = sizeof(spy_link),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = link_slots,
};

/* py_fake.c - seriatim._native.Fake: queues in memory, for tests of applications. */
#include "py_jobs.h"

#define FAST(function) (PyCFunction)(void (*)(void))(function)

typedef struct fake_box {
    PyObject_HEAD seriatim_link *link; /* never connected: it checks and packs what is pushed */
    srt_fake *fake;
    int busy; /* a result is being made: the collector may run anyone's code meanwhile */
} fake_box;

/* ---- Life ------------------------------------------------------------------------------------ */

static int fake_init(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {NULL};
    fake_box *self = (fake_box *)object;
    seriatim_error error = {0};
    if (!PyArg_ParseTupleAndKeywords(args, names, ":Fake", keywords))
        return -1;
    if (self->fake) {
        PyErr_SetString(PyExc_TypeError, "already initialized");
        return -1;
    }
    if (!self->link && seriatim_link_new(NULL, "redis://localhost", &self->link, &error) != SERIATIM_OK) {
        spy_raise_error(spy_state_of(object), &error);
        return -1;
    }
    self->fake = srt_fake_new(seriatim_link_client(self->link));
    if (self->fake)
        return 0;
    PyErr_NoMemory();
    return -1;
}

static void fake_dealloc(PyObject *object)
{
    fake_box *self = (fake_box *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    srt_fake_free(self->fake);
    if (self->link)
        seriatim_link_free(self->link);
    type->tp_free(object);
    Py_DECREF(type);
}

/* NULL with an exception. */
static srt_fake *fake_of(PyObject *object)
{
    fake_box *self = (fake_box *)object;
    if (self->fake && !self->busy)
        return self->fake;
    if (self->busy)
        PyErr_SetString(PyExc_RuntimeError, "the queues in memory are in use");
    else
        PyErr_SetString(PyExc_TypeError, "not initialized");
    return NULL;
}

static seriatim_client *fake_client(PyObject *object)
{
    return seriatim_link_client(((fake_box *)object)->link);
}

/* 0, or -1 with the exception of this status. */
static int fake_check(PyObject *object, int status)
{
    const seriatim_error *error = seriatim_client_error(fake_client(object));
    spy_state *state = spy_state_of(object);
    if (status == SERIATIM_OK)
        return 0;
    if (error->status == status)
        spy_raise_error(state, error);
    else
        spy_raise(state, status, seriatim_status_text(status));
    return -1;
}

/* The number of a queue, and the time. 0 or -1. */
static int fake_queue_and_time(PyObject *queue, PyObject *time, size_t *number, int64_t *now)
{
    return spy_size(queue, number) < 0 || spy_int64(time, now) < 0 ? -1 : 0;
}

/* ---- Pushes and handles ---------------------------------------------------------------------- */

/* fake.queue(settings) -> its number */
static PyObject *fake_queue(PyObject *object, PyObject *dict)
{
    seriatim_queue_settings settings;
    size_t queue;
    if (!fake_of(object) || spy_queue_settings(dict, &settings) < 0 ||
        fake_check(object, seriatim_client_queue(fake_client(object), &settings, &queue)) < 0)
        return NULL;
    return PyLong_FromSize_t(queue);
}

static PyObject *fake_place(const void *places, size_t i)
{
    return PyLong_FromSize_t(((const size_t *)places)[i]);
}

static PyObject *fake_handle(const void *handles, size_t i)
{
    const seriatim_text *handle = (const seriatim_text *)handles + i;
    return handle->data ? spy_text(handle->data, handle->len) : spy_none_or(0);
}

static PyObject *fake_pushed(fake_box *self, const seriatim_client *client)
{
    seriatim_push_counts counts = seriatim_push_result(client);
    size_t count, handle_count;
    const size_t *places = seriatim_push_refused(client, &count);
    const seriatim_text *handles = seriatim_push_handles(client, &handle_count);
    PyObject *result;
    self->busy = 1;
    result = Py_BuildValue("(nnNnnN)", (Py_ssize_t)counts.added, (Py_ssize_t)counts.folded,
                           spy_list(count, fake_place, places), (Py_ssize_t)counts.scheduled, (Py_ssize_t)counts.stale,
                           spy_list(handle_count, fake_handle, handles));
    self->busy = 0;
    return result;
}

/*
 * fake.push(queue, jobs, handles, now) -> (added, folded, [places of refused jobs], scheduled, stale, [handles or
 * None]); now: Unix time in microseconds, as below
 */
static PyObject *fake_push(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    srt_fake *fake = fake_of(object);
    seriatim_client *client;
    size_t queue;
    int64_t now;
    int status;
    if (!fake || spy_arity("push", nargs, 4, 4) < 0 || fake_queue_and_time(args[0], args[3], &queue, &now) < 0)
        return NULL;
    if (!Py_IS_TYPE(args[1], spy_state_of(object)->jobs_type)) {
        PyErr_Format(PyExc_TypeError, "expected Jobs, not %.100s", Py_TYPE(args[1])->tp_name);
        return NULL;
    }
    client = fake_client(object);
    status = seriatim_push_begin(client, queue);
    if (status == SERIATIM_OK && args[2] == Py_True)
        status = seriatim_push_want_handles(client);
    if (status == SERIATIM_OK)
        status = spy_jobs_push(args[1], client);
    if (status == SERIATIM_OK)
        status = srt_fake_push(fake, now);
    return fake_check(object, status) < 0 ? NULL : fake_pushed((fake_box *)object, client);
}

static int fake_text(PyObject *value, seriatim_text *text)
{
    text->data = NULL;
    text->len = 0;
    return value == Py_None ? 0 : spy_data(value, &text->data, &text->len);
}

/* fake.cancel(queue, handle) -> was it cancelled? */
static PyObject *fake_cancel(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    srt_fake *fake = fake_of(object);
    seriatim_text handle;
    size_t queue;
    int changed;
    if (!fake || spy_arity("cancel", nargs, 2, 2) < 0 || spy_size(args[0], &queue) < 0 ||
        fake_text(args[1], &handle) < 0 || fake_check(object, srt_fake_cancel(fake, queue, handle, &changed)) < 0)
        return NULL;
    return PyBool_FromLong(changed);
}

/* fake.reschedule(queue, handle, decimal Unix seconds, now) -> was it? */
static PyObject *fake_reschedule(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    srt_fake *fake = fake_of(object);
    seriatim_text handle, at;
    size_t queue;
    int64_t now;
    int changed;
    if (!fake || spy_arity("reschedule", nargs, 4, 4) < 0 || fake_queue_and_time(args[0], args[3], &queue, &now) < 0 ||
        fake_text(args[1], &handle) < 0 || fake_text(args[2], &at) < 0 ||
        fake_check(object, srt_fake_reschedule(fake, queue, handle, at, now, &changed)) < 0)
        return NULL;
    return PyBool_FromLong(changed);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* fake.next(queue, now) -> Unix time in microseconds, or None: nothing will be due */
static PyObject *fake_next(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    srt_fake *fake = fake_of(object);
    size_t queue;
    int64_t now, at;
    if (!fake || spy_arity("next", nargs, 2, 2) < 0 || fake_queue_and_time(args[0], args[1], &queue, &now) < 0)
        return NULL;
    return srt_fake_next(fake, queue, now, &at) ? PyLong_FromLongLong(at) : spy_none_or(0);
}

static PyObject *fake_taken(const void *fake, size_t i)
{
    return spy_claimed(srt_fake_taken(fake, i));
}

static PyObject *fake_rows(fake_box *self, size_t count)
{
    PyObject *rows;
    self->busy = 1;
    rows = spy_list(count, fake_taken, self->fake);
    self->busy = 0;
    return rows;
}

/* fake.take(queue, limit, now) -> (shard, [as delivery.job, ...]) */
static PyObject *fake_take(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    srt_fake *fake = fake_of(object);
    size_t queue, limit, count;
    int64_t now;
    unsigned shard;
    if (!fake || spy_arity("take", nargs, 3, 3) < 0 || fake_queue_and_time(args[0], args[2], &queue, &now) < 0 ||
        spy_size(args[1], &limit) < 0 || fake_check(object, srt_fake_take(fake, queue, limit, now, &shard, &count)) < 0)
        return NULL;
    return Py_BuildValue("(IN)", shard, fake_rows((fake_box *)object, count));
}

/* fake.take_exhausted(queue) -> [as delivery.job], or [] */
static PyObject *fake_take_exhausted(PyObject *object, PyObject *number)
{
    srt_fake *fake = fake_of(object);
    size_t queue, count;
    if (!fake || spy_size(number, &queue) < 0 || fake_check(object, srt_fake_take_exhausted(fake, queue, &count)) < 0)
        return NULL;
    return fake_rows((fake_box *)object, count);
}

/* Of a list the places, which the caller frees; else the count. 0 or -1. */
static int fake_which(PyObject *which, srt_fake_outcome *outcome, size_t **places)
{
    Py_ssize_t i;
    *places = NULL;
    if (!PyList_Check(which))
        return which == Py_None ? 0 : spy_size(which, &outcome->count);
    outcome->count = (size_t)PyList_GET_SIZE(which);
    outcome->places = *places = PyMem_New(size_t, outcome->count + 1);
    if (!*places) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < PyList_GET_SIZE(which); i++)
        if (spy_size(PyList_GET_ITEM(which, i), *places + i) < 0)
            return -1;
    return 0;
}

/*
 * fake.settle(queue, id, fence, kind, seconds, text or None, which, now): kind is a FAKE_*; which: the places of
 * payloads (FAKE_REJECT), their count (FAKE_CHECKPOINT) or None
 */
static PyObject *fake_settle(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    srt_fake *fake = fake_of(object);
    srt_fake_outcome outcome = {0};
    size_t queue, *places = NULL;
    int64_t kind, now;
    int status = -1;
    if (!fake || spy_arity("settle", nargs, 8, 8) < 0 || fake_queue_and_time(args[0], args[7], &queue, &now) < 0 ||
        fake_text(args[1], &outcome.id) < 0 || spy_int64(args[2], &outcome.fence) < 0 ||
        spy_int64(args[3], &kind) < 0 || spy_double(args[4], &outcome.seconds) < 0 ||
        fake_text(args[5], &outcome.text) < 0)
        return NULL;
    outcome.kind = kind < SRT_FAKE_DONE || kind > SRT_FAKE_CHECKPOINT ? -1 : (int)kind;
    if (outcome.kind < 0)
        PyErr_SetString(PyExc_ValueError, "no such outcome");
    else if (fake_which(args[6], &outcome, &places) == 0)
        status = fake_check(object, srt_fake_settle(fake, queue, &outcome, now));
    PyMem_Free(places);
    return spy_none_or(status < 0);
}

/* ---- What is kept ---------------------------------------------------------------------------- */

static PyObject *fake_row(const void *rows, size_t i)
{
    static const char *const states[] = {"waiting", "running", "scheduled", "parked", "dead"};
    const srt_fake_row *row = (const srt_fake_row *)rows + i;
    const seriatim_payload *p = &row->payload;
    return Py_BuildValue("(sNNNNLLN)", states[row->state], spy_id(row->id.data, row->id.len),
                         PyBytes_FromStringAndSize(p->data, (Py_ssize_t)p->len),
                         p->has_score ? PyFloat_FromDouble(p->score) : spy_none_or(0),
                         spy_bytes_or_none(p->context, p->context_len), (long long)row->time,
                         (long long)row->retry_count, spy_error_or_none(row->error.data, row->error.len));
}

/* fake.rows(queue) -> [(state, id, payload, score or None, context or None, time, retry_count, error or None)] */
static PyObject *fake_list(PyObject *object, PyObject *number)
{
    srt_fake *fake = fake_of(object);
    const srt_fake_row *rows;
    size_t queue, count;
    PyObject *list;
    if (!fake || spy_size(number, &queue) < 0 || fake_check(object, srt_fake_list(fake, queue, &rows, &count)) < 0)
        return NULL;
    ((fake_box *)object)->busy = 1;
    list = spy_list(count, fake_row, rows);
    ((fake_box *)object)->busy = 0;
    return list;
}

/* fake.clear(queue) */
static PyObject *fake_clear(PyObject *object, PyObject *number)
{
    srt_fake *fake = fake_of(object);
    size_t queue;
    if (!fake || spy_size(number, &queue) < 0)
        return NULL;
    srt_fake_clear(fake, queue);
    Py_RETURN_NONE;
}

/* ---- The class ------------------------------------------------------------------------------- */

int spy_add_fake_kinds(PyObject *module)
{
    return PyModule_AddIntConstant(module, "FAKE_DONE", SRT_FAKE_DONE) < 0 ||
                   PyModule_AddIntConstant(module, "FAKE_FAIL", SRT_FAKE_FAIL) < 0 ||
                   PyModule_AddIntConstant(module, "FAKE_RELEASE", SRT_FAKE_RELEASE) < 0 ||
                   PyModule_AddIntConstant(module, "FAKE_SNOOZE", SRT_FAKE_SNOOZE) < 0 ||
                   PyModule_AddIntConstant(module, "FAKE_REJECT", SRT_FAKE_REJECT) < 0 ||
                   PyModule_AddIntConstant(module, "FAKE_CHECKPOINT", SRT_FAKE_CHECKPOINT) < 0
               ? -1
               : 0;
}

static PyMethodDef fake_methods[] = {
    {"queue", fake_queue, METH_O, NULL},
    {"push", FAST(fake_push), METH_FASTCALL, NULL},
    {"cancel", FAST(fake_cancel), METH_FASTCALL, NULL},
    {"reschedule", FAST(fake_reschedule), METH_FASTCALL, NULL},
    {"next", FAST(fake_next), METH_FASTCALL, NULL},
    {"take", FAST(fake_take), METH_FASTCALL, NULL},
    {"take_exhausted", fake_take_exhausted, METH_O, NULL},
    {"settle", FAST(fake_settle), METH_FASTCALL, NULL},
    {"rows", fake_list, METH_O, NULL},
    {"clear", fake_clear, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot fake_slots[] = {
    {Py_tp_doc, (void *)"Queues in memory, for tests of applications: no Redis is asked."},
    {Py_tp_init, (void *)fake_init},
    {Py_tp_dealloc, (void *)fake_dealloc},
    {Py_tp_traverse, (void *)spy_visit_type},
    {Py_tp_methods, fake_methods},
    {0, NULL},
};

PyType_Spec spy_fake_spec = {
    .name = "seriatim._native.Fake",
    .basicsize = sizeof(fake_box),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = fake_slots,
};

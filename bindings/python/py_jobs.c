/*
 * py_jobs.c - seriatim._native.Jobs: the jobs of a push, read once, as the core takes them. What is plain is read here;
 * of all else seriatim._client.jobs says what it is, or why it is refused: the rules are there alone.
 */
#include "py_jobs.h"

#include <stdio.h>
#include <string.h>

/* A job in `packed`; its on_waiting with a NUL, its id, payload and context lie behind it. */
typedef struct packed_job {
    seriatim_job job; /* but for the pointers */
    size_t on_waiting_size;
} packed_job;

typedef struct jobs_box {
    PyObject_HEAD srt_bytes packed;
    Py_ssize_t count;
} jobs_box;

/* ---- Packing --------------------------------------------------------------------------------- */

static void jobs_pack(srt_bytes *out, const seriatim_job *job)
{
    packed_job head = {*job, job->on_waiting ? strlen(job->on_waiting) + 1 : 0};
    srt_bytes_add(out, &head, sizeof head);
    srt_bytes_add(out, job->on_waiting, head.on_waiting_size);
    srt_bytes_add(out, job->id, job->id_len);
    srt_bytes_add(out, job->payload, job->payload_len);
    srt_bytes_add(out, job->context, job->context_len);
}

/* The job at `at`; returns where the next one is. */
static const char *jobs_unpack(const char *at, seriatim_job *job)
{
    packed_job head;
    memcpy(&head, at, sizeof head);
    at += sizeof head;
    *job = head.job;
    job->on_waiting = head.on_waiting_size ? at : NULL;
    job->id = at + head.on_waiting_size;
    job->payload = job->id + job->id_len;
    job->context = job->payload + job->payload_len;
    return job->context + job->context_len;
}

int spy_jobs_push(PyObject *jobs, seriatim_client *client)
{
    const srt_bytes *packed = &((jobs_box *)jobs)->packed;
    const char *at = packed->data;
    int status = SERIATIM_OK;
    while (status == SERIATIM_OK && at < packed->data + packed->len) {
        seriatim_job job;
        at = jobs_unpack(at, &job);
        status = seriatim_push_job(client, &job);
    }
    return status;
}

/* ---- Plain dicts: 1 it is read; 0 seriatim._client.jobs must say ----------------------------- */

enum { KEY_ID, KEY_PAYLOAD, KEY_SCORE, KEY_PERFORM_IN, KEY_PERFORM_AT, KEY_DELAY, KEY_OTHER = SPY_JOB_KEYS };

typedef struct plain_job {
    seriatim_job job;
    PyObject *payload;
    char digits[24];
} plain_job;

static int plain_key(const spy_state *state, PyObject *key)
{
    int i;
    for (i = 0; i < SPY_JOB_KEYS; i++)
        if (key == state->job_keys[i])
            return i;
    if (PyUnicode_CheckExact(key))
        for (i = 0; i < SPY_JOB_KEYS; i++)
            if (PyUnicode_Compare(key, state->job_keys[i]) == 0)
                return i;
    return KEY_OTHER;
}

static int plain_id(plain_job *plain, PyObject *id)
{
    Py_ssize_t len;
    int beyond;
    if (PyUnicode_CheckExact(id)) {
        plain->job.id = PyUnicode_AsUTF8AndSize(id, &len);
        plain->job.id_len = (size_t)len;
    } else if (PyLong_CheckExact(id)) {
        long long number = PyLong_AsLongLongAndOverflow(id, &beyond);
        plain->job.id = beyond ? NULL : plain->digits;
        plain->job.id_len = (size_t)snprintf(plain->digits, sizeof plain->digits, "%lld", number);
    } else if (PyBytes_CheckExact(id)) {
        plain->job.id = PyBytes_AS_STRING(id);
        plain->job.id_len = (size_t)PyBytes_GET_SIZE(id);
    }
    PyErr_Clear(); /* of a text without UTF-8 */
    return plain->job.id != NULL;
}

static int plain_number(PyObject *value, double *number)
{
    if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value))
        return 0;
    *number = PyFloat_AsDouble(value);
    if (*number != -1.0 || !PyErr_Occurred())
        return 1;
    PyErr_Clear();
    return 0;
}

static int plain_time(seriatim_job *job, int when, PyObject *value)
{
    if (job->when != SERIATIM_NOW)
        return 0;
    job->when = when;
    return plain_number(value, &job->time);
}

static int plain_value(plain_job *plain, int key, PyObject *value)
{
    if (key == KEY_ID)
        return plain_id(plain, value);
    if (key == KEY_PAYLOAD) {
        plain->payload = value;
        return 1;
    }
    if (value == Py_None)
        return key != KEY_OTHER;
    if (key == KEY_SCORE)
        return plain->job.has_score = plain_number(value, &plain->job.score);
    if (key == KEY_DELAY)
        return plain_time(&plain->job, SERIATIM_DELAY, value);
    return key != KEY_OTHER && plain_time(&plain->job, SERIATIM_AT, value);
}

/* Runs no code of the caller's, so nothing changes under its hands. */
static int plain_read(const spy_state *state, PyObject *dict, plain_job *plain)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    seriatim_job_init(&plain->job);
    plain->payload = NULL;
    if (!PyDict_CheckExact(dict))
        return 0;
    while (PyDict_Next(dict, &at, &key, &value))
        if (!plain_value(plain, plain_key(state, key), value))
            return 0;
    return plain->job.id != NULL;
}

/* ---- Reading a push: 0, or -1 with an exception ---------------------------------------------- */

typedef struct jobs_reader {
    spy_state *state;
    PyObject *row; /* (job, place) -> JobRow, or raises */
    srt_bytes json;
} jobs_reader;

/* 1, or 0 where JSON cannot say it. */
static int jobs_write_payload(jobs_reader *r, plain_job *plain)
{
    srt_bytes_clear(&r->json);
    if (!plain->payload)
        srt_bytes_adds(&r->json, "\"\"");
    else if (!spy_json_add(&r->json, plain->payload))
        return 0;
    plain->job.payload = r->json.data;
    plain->job.payload_len = r->json.len;
    return !r->json.failed;
}

enum {
    ROW_ID,
    ROW_PAYLOAD,
    ROW_SCORE,
    ROW_WHEN,
    ROW_TIME,
    ROW_RETRY,
    ROW_ON_WAITING,
    ROW_CONTEXT,
    ROW_DELIVER_WHEN,
    ROW_DELIVER_TIME,
    ROW_FIELDS
};

static int row_options(PyObject *row, seriatim_job *job)
{
    PyObject *score = PyTuple_GET_ITEM(row, ROW_SCORE), *context = PyTuple_GET_ITEM(row, ROW_CONTEXT);
    PyObject *on_waiting = PyTuple_GET_ITEM(row, ROW_ON_WAITING);
    job->has_score = score != Py_None;
    if (job->has_score && spy_double(score, &job->score) < 0)
        return -1;
    if (on_waiting != Py_None && spy_cstr(on_waiting, &job->on_waiting) < 0)
        return -1;
    return context == Py_None ? 0 : spy_data(context, &job->context, &job->context_len);
}

static int row_read(PyObject *row, seriatim_job *job)
{
    int64_t when, deliver_when;
    if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != ROW_FIELDS) {
        PyErr_Format(PyExc_TypeError, "a job is a tuple of %d values", ROW_FIELDS);
        return -1;
    }
    seriatim_job_init(job);
    if (spy_data(PyTuple_GET_ITEM(row, ROW_ID), &job->id, &job->id_len) < 0 ||
        spy_data(PyTuple_GET_ITEM(row, ROW_PAYLOAD), &job->payload, &job->payload_len) < 0 ||
        spy_int64(PyTuple_GET_ITEM(row, ROW_WHEN), &when) < 0 ||
        spy_double(PyTuple_GET_ITEM(row, ROW_TIME), &job->time) < 0 ||
        spy_int64(PyTuple_GET_ITEM(row, ROW_RETRY), &job->retry_count) < 0 ||
        spy_int64(PyTuple_GET_ITEM(row, ROW_DELIVER_WHEN), &deliver_when) < 0 ||
        spy_double(PyTuple_GET_ITEM(row, ROW_DELIVER_TIME), &job->deliver_time) < 0)
        return -1;
    job->when = when < SERIATIM_NOW || when > SERIATIM_DELAY ? -1 : (int)when;
    job->deliver_when = deliver_when < SERIATIM_NOW || deliver_when > SERIATIM_DELAY ? -1 : (int)deliver_when;
    return row_options(row, job);
}

static int jobs_add_row(jobs_reader *r, PyObject *item, Py_ssize_t place, srt_bytes *out)
{
    PyObject *row = PyObject_CallFunction(r->row, "On", item, place);
    seriatim_job job;
    int status = row ? row_read(row, &job) : -1;
    if (status == 0)
        jobs_pack(out, &job);
    Py_XDECREF(row);
    return status;
}

static int jobs_add(jobs_reader *r, PyObject *item, Py_ssize_t place, int json, srt_bytes *out)
{
    plain_job plain;
    if (!json || !plain_read(r->state, item, &plain) || !jobs_write_payload(r, &plain))
        return jobs_add_row(r, item, place, out);
    jobs_pack(out, &plain.job);
    return 0;
}

/* Code of the caller's may change the list meanwhile. */
static int jobs_read(jobs_reader *r, PyObject *list, int json, jobs_box *self)
{
    int status = 0;
    for (self->count = 0; status == 0 && self->count < PyList_GET_SIZE(list); self->count++) {
        PyObject *item = Py_NewRef(PyList_GET_ITEM(list, self->count));
        status = jobs_add(r, item, self->count, json, &self->packed);
        Py_DECREF(item);
    }
    if (status == 0 && self->packed.failed) {
        PyErr_NoMemory();
        return -1;
    }
    return status;
}

/* jobs(list, row, json): with json, plain dicts are read without asking `row`, their payloads as JSON. */
PyObject *spy_jobs(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    jobs_reader r = {.state = PyModule_GetState(module)};
    jobs_box *self;
    if (spy_arity("jobs", nargs, 3, 3) < 0 || spy_check_list(args[0]) < 0)
        return NULL;
    self = PyObject_New(jobs_box, r.state->jobs_type);
    if (!self)
        return NULL;
    srt_bytes_init(&self->packed, seriatim_default_allocator());
    srt_bytes_init(&r.json, seriatim_default_allocator());
    r.row = args[1];
    if (jobs_read(&r, args[0], args[2] == Py_True, self) < 0)
        Py_CLEAR(self);
    srt_bytes_free(&r.json);
    return (PyObject *)self;
}

/* ---- The class ------------------------------------------------------------------------------- */

static void jobs_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    srt_bytes_free(&((jobs_box *)object)->packed);
    type->tp_free(object);
    Py_DECREF(type);
}

static Py_ssize_t jobs_size(PyObject *object)
{
    return ((jobs_box *)object)->count;
}

static PyObject *jobs_row(const seriatim_job *job)
{
    return Py_BuildValue("(y#y#NidLzNid)", job->id, (Py_ssize_t)job->id_len, job->payload, (Py_ssize_t)job->payload_len,
                         job->has_score ? PyFloat_FromDouble(job->score) : spy_none_or(0), (int)job->when, job->time,
                         (long long)job->retry_count, job->on_waiting,
                         spy_bytes_or_none(job->context, job->context_len), (int)job->deliver_when, job->deliver_time);
}

/* jobs.rows() -> [JobRow] */
static PyObject *jobs_rows(PyObject *object, PyObject *ignored)
{
    const srt_bytes *packed = &((jobs_box *)object)->packed;
    const char *at = packed->data;
    PyObject *rows = PyList_New(0);
    (void)ignored;
    while (rows && at < packed->data + packed->len) {
        seriatim_job job;
        PyObject *row;
        at = jobs_unpack(at, &job);
        row = jobs_row(&job);
        if (!row || PyList_Append(rows, row) < 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

static PyMethodDef jobs_methods[] = {
    {"rows", jobs_rows, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot jobs_slots[] = {
    {Py_tp_doc, (void *)"The jobs of a push, read and checked."},
    {Py_tp_dealloc, (void *)jobs_dealloc},
    {Py_tp_methods, jobs_methods},
    {Py_sq_length, (void *)jobs_size},
    {0, NULL},
};

PyType_Spec spy_jobs_spec = {
    .name = "seriatim._native.Jobs",
    .basicsize = sizeof(jobs_box),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = jobs_slots,
};

/* py_delivery.c - seriatim._native.Delivery: what a thread has to do, and what became of it. */
#include "py_runner.h"

#include <string.h>
#include <time.h>

#define FAST(function) (PyCFunction)(void (*)(void))(function)

typedef struct delivery_box {
    PyObject_HEAD seriatim_delivery *delivery; /* NULL: settled */
    spy_runner *runner;
    int kind, reading;
    Py_ssize_t worker, shard, size;
    int64_t taken_us;
} delivery_box;

static int64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

PyObject *spy_delivery_new(spy_runner *runner, seriatim_delivery *delivery)
{
    delivery_box *self = PyObject_New(delivery_box, spy_state_of((PyObject *)runner)->delivery_type);
    if (!self) {
        seriatim_runner_settle(runner->runner, delivery);
        return NULL;
    }
    self->delivery = delivery;
    self->runner = (spy_runner *)Py_NewRef((PyObject *)runner);
    self->kind = seriatim_delivery_kind_of(delivery);
    self->reading = 0;
    self->worker = (Py_ssize_t)seriatim_delivery_worker(delivery);
    self->shard = (Py_ssize_t)seriatim_delivery_shard(delivery);
    self->size = (Py_ssize_t)seriatim_delivery_size(delivery);
    self->taken_us = clock_us();
    return (PyObject *)self;
}

/* The collector need not know it: a runner refers to nothing, so no cycle goes through it. */
static void delivery_dealloc(PyObject *object)
{
    delivery_box *self = (delivery_box *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->delivery && spy_runner_usable(self->runner))
        seriatim_runner_settle(self->runner->runner, self->delivery);
    Py_DECREF(self->runner);
    type->tp_free(object);
    Py_DECREF(type);
}

/* The delivery, not settled yet, of a runner that still is; NULL with an exception. */
static seriatim_delivery *delivery_of(delivery_box *self)
{
    if (!self->delivery)
        return (seriatim_delivery *)spy_raise(spy_state_of((PyObject *)self), SERIATIM_CLOSED,
                                              "the delivery is settled");
    return spy_runner_of(self->runner) ? self->delivery : NULL;
}

/* delivery_of, with a place of it. */
static seriatim_delivery *delivery_at(delivery_box *self, PyObject *number, size_t *place)
{
    seriatim_delivery *delivery = delivery_of(self);
    if (!delivery || spy_size(number, place) < 0)
        return NULL;
    if (*place < (size_t)self->size)
        return delivery;
    PyErr_SetString(PyExc_IndexError, "no such id in this delivery");
    return NULL;
}

/* ---- Reading: the collector may run anyone's code meanwhile, so neither may be ended --------- */

static void delivery_begin_reading(delivery_box *self)
{
    self->reading++;
    spy_runner_enter(self->runner);
}

static void delivery_end_reading(delivery_box *self)
{
    self->reading--;
    spy_runner_leave(self->runner);
}

static PyObject *delivery_payload(const void *payloads, size_t i)
{
    const seriatim_payload *p = (const seriatim_payload *)payloads + i;
    return Py_BuildValue("(NdN)", PyBytes_FromStringAndSize(p->data, (Py_ssize_t)p->len), p->score,
                         spy_bytes_or_none(p->context, p->context_len));
}

PyObject *spy_claimed(const seriatim_claimed *job)
{
    return Py_BuildValue("(NLLdNNn)", spy_id(job->id, job->id_len), (long long)job->fence, (long long)job->retry_count,
                         job->perform_in, spy_error_or_none(job->error, job->error_len),
                         spy_list(job->payload_count, delivery_payload, job->payloads), (Py_ssize_t)job->payload_total);
}

/* delivery.job(place) -> as spy_claimed */
static PyObject *delivery_job(PyObject *object, PyObject *number)
{
    delivery_box *self = (delivery_box *)object;
    PyObject *row;
    size_t place;
    seriatim_delivery *delivery = delivery_at(self, number, &place);
    if (!delivery)
        return NULL;
    delivery_begin_reading(self);
    row = spy_claimed(seriatim_delivery_job(delivery, place));
    delivery_end_reading(self);
    return row;
}

static PyObject *delivery_id(const void *delivery, size_t i)
{
    const seriatim_claimed *job = seriatim_delivery_job(delivery, i);
    return spy_id(job->id, job->id_len);
}

/* delivery.ids() -> [id], in their places */
static PyObject *delivery_ids(PyObject *object, PyObject *ignored)
{
    delivery_box *self = (delivery_box *)object;
    seriatim_delivery *delivery = delivery_of(self);
    PyObject *ids;
    (void)ignored;
    if (!delivery)
        return NULL;
    delivery_begin_reading(self);
    ids = spy_list((size_t)self->size, delivery_id, delivery);
    delivery_end_reading(self);
    return ids;
}

/* The list of what the payloads of one id say; NULL without an exception when one of them cannot be read. */
static PyObject *delivery_read_payloads(srt_json_reader *reader, const seriatim_claimed *job)
{
    PyObject *list = PyList_New((Py_ssize_t)job->payload_count);
    size_t i;
    for (i = 0; list && i < job->payload_count; i++) {
        PyObject *value;
        srt_json_reader_reset(reader, job->payloads[i].data, job->payloads[i].len);
        value = spy_json_read(reader);
        if (value)
            PyList_SET_ITEM(list, (Py_ssize_t)i, value);
        else
            Py_CLEAR(list);
    }
    return list;
}

static int delivery_read_id(srt_json_reader *reader, const seriatim_claimed *job, PyObject *dict)
{
    PyObject *payloads = delivery_read_payloads(reader, job), *id;
    int status = -1;
    if (!payloads)
        return -1;
    id = spy_id(job->id, job->id_len);
    if (id)
        status = PyDict_SetItem(dict, id, payloads);
    Py_XDECREF(id);
    Py_DECREF(payloads);
    return status;
}

/* delivery.payloads_by_id() -> {id: [what each payload's JSON says]}, or None when one of them cannot be read */
static PyObject *delivery_payloads_by_id(PyObject *object, PyObject *ignored)
{
    delivery_box *self = (delivery_box *)object;
    seriatim_delivery *delivery = delivery_of(self);
    srt_json_reader reader;
    PyObject *dict;
    Py_ssize_t i;
    (void)ignored;
    if (!delivery || !(dict = PyDict_New()))
        return NULL;
    srt_json_reader_init(&reader, seriatim_default_allocator(), "", 0);
    delivery_begin_reading(self);
    for (i = 0; dict && i < self->size; i++)
        if (delivery_read_id(&reader, seriatim_delivery_job(delivery, (size_t)i), dict) < 0)
            Py_CLEAR(dict);
    delivery_end_reading(self);
    srt_json_reader_free(&reader);
    return dict || PyErr_Occurred() ? dict : spy_none_or(0);
}

/* ---- Outcomes -------------------------------------------------------------------------------- */

static PyObject *delivery_check(delivery_box *self, int status)
{
    if (status == SERIATIM_OK)
        Py_RETURN_NONE;
    return spy_raise(spy_state_of((PyObject *)self), status, seriatim_status_text(status));
}

static PyObject *delivery_done(PyObject *object, PyObject *number)
{
    delivery_box *self = (delivery_box *)object;
    size_t place;
    seriatim_delivery *delivery = delivery_at(self, number, &place);
    return delivery ? delivery_check(self, seriatim_delivery_done(delivery, place)) : NULL;
}

static PyObject *delivery_done_all(PyObject *object, PyObject *ignored)
{
    delivery_box *self = (delivery_box *)object;
    seriatim_delivery *delivery = delivery_of(self);
    int status = SERIATIM_OK;
    Py_ssize_t i;
    (void)ignored;
    if (!delivery)
        return NULL;
    for (i = 0; status == SERIATIM_OK && i < self->size; i++)
        status = seriatim_delivery_done(delivery, (size_t)i);
    return delivery_check(self, status);
}

/* delivery.fail(place, error, retry_in) */
static PyObject *delivery_fail(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    delivery_box *self = (delivery_box *)object;
    seriatim_delivery *delivery;
    const char *error;
    size_t place, len;
    double retry_in;
    if (spy_arity("fail", nargs, 3, 3) < 0 || spy_data(args[1], &error, &len) < 0 ||
        spy_double(args[2], &retry_in) < 0 || !(delivery = delivery_at(self, args[0], &place)))
        return NULL;
    return delivery_check(self, seriatim_delivery_fail(delivery, place, error, len, retry_in));
}

static PyObject *delivery_release(PyObject *object, PyObject *number)
{
    delivery_box *self = (delivery_box *)object;
    size_t place;
    seriatim_delivery *delivery = delivery_at(self, number, &place);
    return delivery ? delivery_check(self, seriatim_delivery_release(delivery, place)) : NULL;
}

/* The places of payloads, ascending and below `payloads`. */
static int delivery_places(PyObject *list, size_t payloads, size_t *places)
{
    Py_ssize_t i;
    for (i = 0; i < PyList_GET_SIZE(list); i++) {
        if (spy_size(PyList_GET_ITEM(list, i), &places[i]) < 0)
            return -1;
        if (places[i] >= payloads || (i > 0 && places[i] <= places[i - 1])) {
            PyErr_SetString(PyExc_IndexError, "places must be ascending, and of this id's payloads");
            return -1;
        }
    }
    return 0;
}

/* delivery.reject(place, places, reason) */
static PyObject *delivery_reject(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    delivery_box *self = (delivery_box *)object;
    seriatim_delivery *delivery;
    const char *reason;
    size_t place, len, count, *places;
    int status = 1;
    if (spy_arity("reject", nargs, 3, 3) < 0 || spy_check_list(args[1]) < 0 || spy_data(args[2], &reason, &len) < 0 ||
        !(delivery = delivery_at(self, args[0], &place)))
        return NULL;
    count = (size_t)PyList_GET_SIZE(args[1]);
    places = PyMem_New(size_t, count + 1);
    if (!places)
        return PyErr_NoMemory();
    if (delivery_places(args[1], seriatim_delivery_job(delivery, place)->payload_count, places) == 0)
        status = seriatim_delivery_reject(delivery, place, places, count, reason, len);
    PyMem_Free(places);
    return status == 1 ? NULL : delivery_check(self, status);
}

/* delivery.failure(place): the event as which the failure of this id is to be logged, or None */
static PyObject *delivery_failure(PyObject *object, PyObject *number)
{
    delivery_box *self = (delivery_box *)object;
    size_t place;
    seriatim_delivery *delivery = delivery_at(self, number, &place);
    const char *event;
    if (!delivery)
        return NULL;
    event = seriatim_runner_failure(self->runner->runner, delivery, place);
    return event ? PyUnicode_FromString(event) : Py_NewRef(Py_None);
}

/* delivery.extend(place, seconds) */
static PyObject *delivery_extend(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    delivery_box *self = (delivery_box *)object;
    seriatim_delivery *delivery;
    size_t place;
    double seconds;
    if (spy_arity("extend", nargs, 2, 2) < 0 || spy_double(args[1], &seconds) < 0 ||
        !(delivery = delivery_at(self, args[0], &place)))
        return NULL;
    return delivery_check(self, seriatim_runner_extend(self->runner->runner, delivery, place, seconds));
}

/* delivery.checkpoint(place, count) */
static PyObject *delivery_checkpoint(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    delivery_box *self = (delivery_box *)object;
    seriatim_delivery *delivery;
    size_t place, count;
    char text[128];
    int status;
    if (spy_arity("checkpoint", nargs, 2, 2) < 0 || spy_size(args[1], &count) < 0 ||
        !(delivery = delivery_at(self, args[0], &place)))
        return NULL;
    status = seriatim_runner_checkpoint(self->runner->runner, delivery, place, count);
    if (status != SERIATIM_INVALID)
        return delivery_check(self, status);
    snprintf(text, sizeof text, "checkpoint of %lu payloads: the id has %lu in this batch", (unsigned long)count,
             (unsigned long)seriatim_delivery_job(delivery, place)->payload_count);
    return spy_raise(spy_state_of(object), status, text);
}

/* delivery.flush(seconds): True once Redis has confirmed all its checkpoints, False when the time is over */
static PyObject *delivery_flush(PyObject *object, PyObject *seconds)
{
    delivery_box *self = (delivery_box *)object;
    seriatim_delivery *delivery = delivery_of(self);
    seriatim_runner *runner;
    seriatim_flush flush; /* is begun under the lock of the interpreter: another thread may settle the delivery */
    double wait;
    int status;
    if (!delivery || spy_double(seconds, &wait) < 0)
        return NULL;
    runner = self->runner->runner;
    status = seriatim_runner_flush_begin(runner, delivery, &flush);
    spy_runner_enter(self->runner);
    if (status == SERIATIM_AGAIN && wait > 0) {
        Py_BEGIN_ALLOW_THREADS status =
            seriatim_runner_flush_wait(runner, &flush, (int)((wait < 60 ? wait : 60) * 1000));
        Py_END_ALLOW_THREADS
    }
    seriatim_runner_flush_end(runner, &flush);
    spy_runner_leave(self->runner);
    if (status == SERIATIM_OK || status == SERIATIM_AGAIN)
        return PyBool_FromLong(status == SERIATIM_OK);
    return spy_raise(
        spy_state_of(object), status,
        status == SERIATIM_STALE
            ? "the run is not this process's any more: another has taken it, or the end of a stop has handed it back"
            : "the delivery is settled");
}

/* delivery.snooze(place, seconds, payload or None) */
static PyObject *delivery_snooze(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    delivery_box *self = (delivery_box *)object;
    seriatim_delivery *delivery;
    const char *payload = NULL;
    size_t place, len = 0;
    double seconds;
    if (spy_arity("snooze", nargs, 3, 3) < 0 || spy_double(args[1], &seconds) < 0 ||
        (args[2] != Py_None && spy_data(args[2], &payload, &len) < 0) ||
        !(delivery = delivery_at(self, args[0], &place)))
        return NULL;
    return delivery_check(self, seriatim_delivery_snooze(delivery, place, seconds, payload, len));
}

/* The delivery, which is no longer of this object; NULL with an exception. */
static seriatim_delivery *delivery_give(delivery_box *self)
{
    seriatim_delivery *delivery = delivery_of(self);
    if (!delivery)
        return NULL;
    if (self->reading) {
        PyErr_SetString(PyExc_RuntimeError, "the delivery is being read");
        return NULL;
    }
    self->delivery = NULL;
    return delivery;
}

int spy_delivery_give(spy_runner *runner, PyObject *object, seriatim_delivery **given)
{
    delivery_box *self = (delivery_box *)object;
    if (object == Py_None)
        return 0;
    if (!Py_IS_TYPE(object, spy_state_of((PyObject *)runner)->delivery_type) || self->runner != runner) {
        PyErr_SetString(PyExc_TypeError, "expected a delivery of this runner");
        return -1;
    }
    *given = delivery_give(self);
    return *given ? 0 : -1;
}

static PyObject *delivery_settle(PyObject *object, PyObject *ignored)
{
    delivery_box *self = (delivery_box *)object;
    seriatim_delivery *delivery = delivery_give(self);
    (void)ignored;
    if (!delivery)
        return NULL;
    seriatim_runner_settle(self->runner->runner, delivery);
    Py_RETURN_NONE;
}

/* Seconds since it was taken. */
static PyObject *delivery_elapsed(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    return PyFloat_FromDouble((double)(clock_us() - ((delivery_box *)object)->taken_us) / 1e6);
}

static Py_ssize_t delivery_size(PyObject *object)
{
    return ((delivery_box *)object)->size;
}

static PyMethodDef delivery_methods[] = {
    {"job", delivery_job, METH_O, NULL},
    {"ids", delivery_ids, METH_NOARGS, NULL},
    {"payloads_by_id", delivery_payloads_by_id, METH_NOARGS, NULL},
    {"done", delivery_done, METH_O, NULL},
    {"done_all", delivery_done_all, METH_NOARGS, NULL},
    {"fail", FAST(delivery_fail), METH_FASTCALL, NULL},
    {"release", delivery_release, METH_O, NULL},
    {"reject", FAST(delivery_reject), METH_FASTCALL, NULL},
    {"extend", FAST(delivery_extend), METH_FASTCALL, NULL},
    {"checkpoint", FAST(delivery_checkpoint), METH_FASTCALL, NULL},
    {"flush", delivery_flush, METH_O, NULL},
    {"snooze", FAST(delivery_snooze), METH_FASTCALL, NULL},
    {"failure", delivery_failure, METH_O, NULL},
    {"settle", delivery_settle, METH_NOARGS, NULL},
    {"elapsed", delivery_elapsed, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef delivery_members[] = {
    {"kind", T_INT, offsetof(delivery_box, kind), READONLY, NULL},
    {"worker", T_PYSSIZET, offsetof(delivery_box, worker), READONLY, NULL},
    {"shard", T_PYSSIZET, offsetof(delivery_box, shard), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot delivery_slots[] = {
    {Py_tp_doc, (void *)"What a thread has to do. One that is collected unsettled is settled."},
    {Py_tp_dealloc, (void *)delivery_dealloc},
    {Py_tp_methods, delivery_methods},
    {Py_tp_members, delivery_members},
    {Py_sq_length, (void *)delivery_size},
    {0, NULL},
};

PyType_Spec spy_delivery_spec = {
    .name = "seriatim._native.Delivery",
    .basicsize = sizeof(delivery_box),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = delivery_slots,
};

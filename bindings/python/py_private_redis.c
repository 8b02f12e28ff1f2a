/*
 * py_private_redis.c - seriatim._native.PrivateRedis: this process' use of the Redis that Seriatim starts for itself.
 */
#include "seriatim_native.h"

typedef struct private_box {
    PyObject_HEAD srt_private_redis *redis; /* NULL: not started, or released */
} private_box;

/* Waits until it answers. */
static int private_init(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"folder", NULL};
    private_box *self = (private_box *)object;
    srt_private_redis *redis = NULL;
    seriatim_error error = {0};
    const char *folder;
    int status;
    if (!PyArg_ParseTupleAndKeywords(args, names, "s:PrivateRedis", keywords, &folder))
        return -1;
    if (self->redis) {
        PyErr_SetString(PyExc_TypeError, "already initialized");
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS status = srt_private_redis_start(seriatim_default_allocator(), folder, &error, &redis);
    Py_END_ALLOW_THREADS if (status != SERIATIM_OK)
    {
        spy_raise_error(spy_state_of(object), &error);
        return -1;
    }
    self->redis = redis;
    return 0;
}

static void private_end(private_box *self)
{
    srt_private_redis *redis = self->redis;
    self->redis = NULL;
    Py_BEGIN_ALLOW_THREADS srt_private_redis_release(redis);
    Py_END_ALLOW_THREADS
}

static void private_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    private_end((private_box *)object);
    type->tp_free(object);
    Py_DECREF(type);
}

static srt_private_redis *private_of(PyObject *object)
{
    private_box *self = (private_box *)object;
    if (!self->redis)
        spy_raise(spy_state_of(object), SERIATIM_CLOSED, "the private Redis is released");
    return self->redis;
}

static PyObject *private_url(PyObject *object, void *ignored)
{
    srt_private_redis *redis = private_of(object);
    (void)ignored;
    return redis ? spy_cstr_or_none(srt_private_redis_url(redis)) : NULL;
}

static PyObject *private_started(PyObject *object, void *ignored)
{
    srt_private_redis *redis = private_of(object);
    (void)ignored;
    return redis ? PyBool_FromLong(srt_private_redis_started(redis)) : NULL;
}

static PyObject *private_release(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    private_end((private_box *)object);
    Py_RETURN_NONE;
}

static PyMethodDef private_methods[] = {
    {"release", private_release, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef private_attributes[] = {
    {"url", private_url, NULL, NULL, NULL},
    {"started", private_started, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot private_slots[] = {
    {Py_tp_doc, (void *)"This process' use of the Redis that Seriatim starts for itself."},
    {Py_tp_init, (void *)private_init},
    {Py_tp_dealloc, (void *)private_dealloc},
    {Py_tp_traverse, (void *)spy_visit_type},
    {Py_tp_methods, private_methods},
    {Py_tp_getset, private_attributes},
    {0, NULL},
};

PyType_Spec spy_private_redis_spec = {
    .name = "seriatim._native.PrivateRedis",
    .basicsize = sizeof(private_box),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = private_slots,
};

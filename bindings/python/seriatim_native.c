/* seriatim_native.c - the module seriatim._native: errors, conversions and waiting, shared by the files beside it. */
#include "seriatim_native.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* how long a signal may wait for its Python handler while the main thread waits for Redis */
#define SIGNAL_STEP_MS 50

spy_state *spy_state_of(PyObject *self)
{
    return PyType_GetModuleState(Py_TYPE(self));
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static unsigned forks;
static int forks_unwatched;

static void forks_count(void)
{
    forks++;
}

static void forks_watch(void)
{
    forks_unwatched = pthread_atfork(NULL, NULL, forks_count);
}

unsigned spy_forks(void)
{
    return forks;
}

static PyObject *native_forks(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    return PyLong_FromUnsignedLong(forks);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Imported late: the package imports this module first. */
static PyObject *errors_maker(spy_state *state)
{
    PyObject *module, *maker;
    if (state->from_status)
        return state->from_status;
    module = PyImport_ImportModule("seriatim._errors");
    if (!module)
        return NULL;
    maker = PyObject_GetAttrString(module, "from_status");
    Py_DECREF(module);
    Py_XSETREF(state->from_status, maker);
    return maker;
}

PyObject *spy_raise_named(spy_state *state, const char *name, PyObject *text)
{
    PyObject *maker, *error;
    if (!text)
        return NULL;
    maker = errors_maker(state);
    error = maker ? PyObject_CallFunction(maker, "sO", name, text) : NULL;
    Py_DECREF(text);
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

PyObject *spy_raise(spy_state *state, int status, const char *message)
{
    if (status == SERIATIM_NOMEM)
        return PyErr_NoMemory();
    return spy_raise_named(state, seriatim_status_name(status), spy_text(message, strlen(message)));
}

PyObject *spy_raise_error(spy_state *state, const seriatim_error *error)
{
    return spy_raise(state, error->status, error->message[0] ? error->message : seriatim_status_text(error->status));
}

/* ---- From Python ----------------------------------------------------------------------------- */

static int expected(const char *what, PyObject *value)
{
    PyErr_Format(PyExc_TypeError, "expected %s, not %.100s", what, Py_TYPE(value)->tp_name);
    return -1;
}

int spy_arity(const char *name, Py_ssize_t given, Py_ssize_t least, Py_ssize_t most)
{
    if (given >= least && given <= most)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s takes %zd to %zd arguments, not %zd", name, least, most, given);
    return -1;
}

int spy_int64(PyObject *value, int64_t *out)
{
    int beyond;
    if (!PyLong_Check(value))
        return expected("int", value);
    *out = PyLong_AsLongLongAndOverflow(value, &beyond);
    if (beyond)
        *out = beyond > 0 ? INT64_MAX : INT64_MIN;
    return 0;
}

int spy_size(PyObject *value, size_t *out)
{
    int64_t number;
    if (spy_int64(value, &number) < 0)
        return -1;
    *out = number < 0 ? SIZE_MAX : (size_t)number;
    return 0;
}

int spy_double(PyObject *value, double *out)
{
    if (PyFloat_Check(value)) {
        *out = PyFloat_AS_DOUBLE(value);
        return 0;
    }
    if (!PyLong_Check(value))
        return expected("float", value);
    *out = PyLong_AsDouble(value);
    return *out == -1.0 && PyErr_Occurred() ? -1 : 0;
}

int spy_data(PyObject *value, const char **data, size_t *len)
{
    if (!PyBytes_Check(value))
        return expected("bytes", value);
    *data = PyBytes_AS_STRING(value);
    *len = (size_t)PyBytes_GET_SIZE(value);
    return 0;
}

int spy_cstr(PyObject *value, const char **out)
{
    Py_ssize_t len;
    if (!PyUnicode_Check(value))
        return expected("str", value);
    *out = PyUnicode_AsUTF8AndSize(value, &len);
    if (!*out)
        return -1;
    if (strlen(*out) != (size_t)len) {
        PyErr_SetString(PyExc_ValueError, "a NUL is not allowed");
        return -1;
    }
    return 0;
}

int spy_check_list(PyObject *value)
{
    return PyList_Check(value) ? 0 : expected("list", value);
}

/* The value of `seconds`, borrowed; NULL with an exception, or without one when it was not given. */
static PyObject *seconds_argument(PyObject *const *args, Py_ssize_t nargs, PyObject *names, Py_ssize_t at)
{
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    if (named == 0)
        return nargs > at ? args[at] : NULL;
    if (named == 1 && nargs <= at && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "seconds") == 0)
        return args[nargs];
    PyErr_SetString(PyExc_TypeError, "the only named argument is seconds, once");
    return NULL;
}

int spy_deadline(PyObject *const *args, Py_ssize_t nargs, PyObject *names, Py_ssize_t at, int64_t *deadline_ms)
{
    PyObject *value = seconds_argument(args, nargs, names, at);
    double seconds;
    *deadline_ms = INT64_MAX;
    if (!value)
        return PyErr_Occurred() ? -1 : 0;
    if (value == Py_None)
        return 0;
    if (spy_double(value, &seconds) < 0)
        return -1;
    if (!(seconds > 0))
        *deadline_ms = 0;
    else if (seconds < 1e9)
        *deadline_ms = srt_clock_ms() + (int64_t)(seconds * 1000.0 + 0.999);
    return 0;
}

/* ---- To Python ------------------------------------------------------------------------------- */

PyObject *spy_id(const char *bytes, size_t len)
{
    PyObject *text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)len, NULL);
    if (text || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return text;
    PyErr_Clear();
    return PyBytes_FromStringAndSize(bytes, (Py_ssize_t)len);
}

PyObject *spy_text(const char *bytes, size_t len)
{
    return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)len, "replace");
}

PyObject *spy_error_or_none(const char *error, size_t len)
{
    return len ? spy_id(error, len) : spy_none_or(0);
}

PyObject *spy_cstr_or_none(const char *text)
{
    return text ? spy_text(text, strlen(text)) : spy_none_or(0);
}

PyObject *spy_bytes_or_none(const char *bytes, size_t len)
{
    return len ? PyBytes_FromStringAndSize(bytes, (Py_ssize_t)len) : spy_none_or(0);
}

PyObject *spy_none_or(int failed)
{
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

int spy_set(PyObject *dict, const char *name, PyObject *value)
{
    int status = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return status;
}

PyObject *spy_list(size_t count, spy_make make, const void *array)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    size_t i;
    for (i = 0; list && i < count; i++) {
        PyObject *item = make(array, i);
        if (item)
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

int spy_left_ms(int64_t deadline_ms)
{
    int64_t left;
    if (deadline_ms == INT64_MAX)
        return -1;
    left = deadline_ms - srt_clock_ms();
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

/*
 * By an interned name, because the interpreter's cache of lookups would keep each new string. NULL with an exception;
 * `owner` may be NULL.
 */
static PyObject *attribute(PyObject *owner, const char *name)
{
    PyObject *key = owner ? PyUnicode_InternFromString(name) : NULL, *value = key ? PyObject_GetAttr(owner, key) : NULL;
    Py_XDECREF(key);
    return value;
}

/*
 * Does this thread run Python's signal handlers? -1 with an exception: a handler has run inside the call, and raised. 1
 * also when the module cannot be imported, as at the end of the interpreter.
 */
static int is_main_thread(void)
{
    PyObject *threading = PyImport_ImportModule("threading"), *function, *thread, *ident;
    unsigned long number;
    if (!threading) {
        PyErr_Clear();
        return 1;
    }
    function = attribute(threading, "main_thread");
    thread = function ? PyObject_CallNoArgs(function) : NULL;
    ident = attribute(thread, "ident");
    number = ident ? PyLong_AsUnsignedLong(ident) : 0;
    Py_XDECREF(ident);
    Py_XDECREF(thread);
    Py_XDECREF(function);
    Py_DECREF(threading);
    return PyErr_Occurred() ? -1 : number == PyThread_get_thread_ident();
}

/*
 * poll(2) without the GIL: -1 with an exception, 0 when the time passed, 1 when a descriptor is ready or a signal came.
 */
static int poll_once(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    int ready, code;
    Py_BEGIN_ALLOW_THREADS ready = poll(fds, count, timeout_ms);
    code = errno;
    Py_END_ALLOW_THREADS if (ready >= 0 || code == EINTR) return ready != 0;
    errno = code;
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

/*
 * The C handler of Python only notes a signal; the main thread then runs the Python handler. Nothing interrupts the
 * main thread's poll if the kernel gave the signal to another thread, or if it came between PyErr_CheckSignals and
 * poll, where busy threads take the GIL. signal.set_wakeup_fd would help, but belongs to the host. So the main thread
 * polls in steps and looks for signals between them.
 */
int spy_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    int64_t deadline_ms = timeout_ms < 0 ? INT64_MAX : srt_clock_ms() + timeout_ms;
    int left = spy_left_ms(deadline_ms), in_steps = 1, ready;
    do {
        if (PyErr_CheckSignals() < 0)
            return -1;
        ready = poll_once(fds, count, in_steps && (left < 0 || left > SIGNAL_STEP_MS) ? SIGNAL_STEP_MS : left);
        left = spy_left_ms(deadline_ms);
        if (ready == 0 && left != 0 && in_steps)
            in_steps = is_main_thread();
    } while (ready == 0 && left != 0 && in_steps >= 0);
    return ready < 0 || in_steps < 0 ? -1 : PyErr_CheckSignals();
}

/* ---- The module ------------------------------------------------------------------------------ */

int spy_visit_type(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int native_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type ? PyModule_AddType(module, *type) : -1;
}

static int native_make_keys(spy_state *state)
{
    static const char *const names[SPY_JOB_KEYS] = {"id", "payload", "score", "perform_in", "perform_at", "delay"};
    int i;
    for (i = 0; i < SPY_JOB_KEYS; i++)
        if (!(state->job_keys[i] = PyUnicode_InternFromString(names[i])))
            return -1;
    return 0;
}

static int native_exec(PyObject *module)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    spy_state *state = PyModule_GetState(module);
    pthread_once(&watched, forks_watch);
    if (forks_unwatched) {
        PyErr_NoMemory();
        return -1;
    }
    if (native_add_type(module, &spy_link_spec, &state->link_type) < 0 ||
        native_add_type(module, &spy_jobs_spec, &state->jobs_type) < 0 ||
        native_add_type(module, &spy_runner_spec, &state->runner_type) < 0 ||
        native_add_type(module, &spy_delivery_spec, &state->delivery_type) < 0 ||
        native_add_type(module, &spy_private_redis_spec, &state->private_redis_type) < 0 ||
        native_add_type(module, &spy_fake_spec, &state->fake_type) < 0 || native_make_keys(state) < 0 ||
        spy_add_popped_kinds(module) < 0 || spy_add_fake_kinds(module) < 0 ||
        PyModule_AddIntConstant(module, "MAX_PAYLOAD", SERIATIM_MAX_PAYLOAD) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "version", seriatim_version());
}

static int native_traverse(PyObject *module, visitproc visit, void *arg)
{
    spy_state *state = PyModule_GetState(module);
    Py_VISIT(state->from_status);
    Py_VISIT(state->link_type);
    Py_VISIT(state->jobs_type);
    Py_VISIT(state->runner_type);
    Py_VISIT(state->delivery_type);
    Py_VISIT(state->private_redis_type);
    Py_VISIT(state->fake_type);
    return 0;
}

static int native_clear(PyObject *module)
{
    spy_state *state = PyModule_GetState(module);
    int i;
    for (i = 0; i < SPY_JOB_KEYS; i++)
        Py_CLEAR(state->job_keys[i]);
    Py_CLEAR(state->from_status);
    Py_CLEAR(state->link_type);
    Py_CLEAR(state->jobs_type);
    Py_CLEAR(state->runner_type);
    Py_CLEAR(state->delivery_type);
    Py_CLEAR(state->private_redis_type);
    Py_CLEAR(state->fake_type);
    return 0;
}

static void native_free(void *module)
{
    native_clear(module);
}

static PyMethodDef native_methods[] = {
    {"dump", (PyCFunction)(void (*)(void))spy_dump, METH_FASTCALL, NULL},
    {"load", spy_load, METH_O, NULL},
    {"check_json", (PyCFunction)(void (*)(void))spy_check_json, METH_FASTCALL, NULL},
    {"jobs", (PyCFunction)(void (*)(void))spy_jobs, METH_FASTCALL, NULL},
    {"forks", native_forks, METH_NOARGS, NULL},
    {"back_off", spy_back_off, METH_O, NULL},
    {"token_parts", spy_token_parts, METH_O, NULL},
    {"back_off_of_events", spy_back_off_of_events, METH_O, NULL},
    {"command_text", spy_command_text, METH_O, NULL},
    {"printable", spy_printable, METH_O, NULL},
    {"worker_settings", spy_worker_settings, METH_NOARGS, NULL},
    {"split", (PyCFunction)(void (*)(void))spy_split, METH_FASTCALL, NULL},
    {"shard_of", (PyCFunction)(void (*)(void))spy_shard_of, METH_FASTCALL, NULL},
    {"web_routes", spy_web_routes, METH_NOARGS, NULL},
    {"exit_beyond", (PyCFunction)(void (*)(void))spy_exit_beyond, METH_FASTCALL, NULL},
    {"ending_counts", spy_ending_counts, METH_O, NULL},
    {"write_stderr", spy_write_stderr, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

/* Without the GIL, which guards every object here, the module is not offered. */
static PyModuleDef_Slot native_slots[] = {
    {Py_mod_exec, native_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef native_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "seriatim._native",
    .m_doc = "The C glue: convert, call, convert. Everything public lies above it.",
    .m_size = sizeof(spy_state),
    .m_methods = native_methods,
    .m_slots = native_slots,
    .m_traverse = native_traverse,
    .m_clear = native_clear,
    .m_free = native_free,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&native_module);
}

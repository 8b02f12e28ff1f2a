/* py_runner.c - seriatim._native.Runner: the node, and how the host's threads and event loops take from it. */
#include "py_runner.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FAST(function) (PyCFunction)(void (*)(void))(function)

/* ---- Use ------------------------------------------------------------------------------------- */

int spy_runner_usable(const spy_runner *self)
{
    return self->runner && !self->closed && self->forks == spy_forks();
}

seriatim_runner *spy_runner_of(spy_runner *self)
{
    if (spy_runner_usable(self))
        return self->runner;
    return (seriatim_runner *)spy_raise(
        spy_state_of((PyObject *)self), SERIATIM_CLOSED,
        self->runner && !self->closed
            ? "the runner belongs to the process that created it; create another one after fork"
            : "the runner is closed");
}

static void wake_close(spy_runner *self)
{
    close(self->wake[0]);
    close(self->wake[1]);
}

/* Joins the runner's thread, which may be asking the resolver. */
static void runner_free(spy_runner *self)
{
    seriatim_runner *runner = self->runner;
    self->runner = NULL;
    wake_close(self);
    Py_BEGIN_ALLOW_THREADS seriatim_runner_free(runner);
    Py_END_ALLOW_THREADS
}

void spy_runner_enter(spy_runner *self)
{
    self->inside++;
}

void spy_runner_leave(spy_runner *self)
{
    if (--self->inside == 0 && self->closed && self->runner && self->forks == spy_forks())
        runner_free(self);
}

/* ---- Making ---------------------------------------------------------------------------------- */

static int wake_open(spy_runner *self)
{
    int i;
    if (pipe(self->wake) != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    for (i = 0; i < 2; i++) {
        fcntl(self->wake[i], F_SETFD, FD_CLOEXEC);
        fcntl(self->wake[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

static int runner_make(spy_runner *self, const seriatim_node_settings *settings, const char *url)
{
    seriatim_error error = {0};
    if (wake_open(self) < 0)
        return -1;
    if (seriatim_runner_new(settings, url, &self->runner, &error) != SERIATIM_OK) {
        wake_close(self);
        spy_raise_error(spy_state_of((PyObject *)self), &error);
        return -1;
    }
    self->forks = spy_forks();
    return 0;
}

static int runner_init(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"url",      "namespace", "name",    "id",        "description",
                               "lease_ms", "poll_ms",   "threads", "scheduler", NULL};
    spy_runner *self = (spy_runner *)object;
    seriatim_node_settings settings = {0};
    const char *url;
    long long lease_ms, poll_ms;
    Py_ssize_t threads;
    if (!PyArg_ParseTupleAndKeywords(args, names, "sszssLLni:Runner", keywords, &url, &settings.options.ns,
                                     &settings.options.name, &settings.id, &settings.description, &lease_ms, &poll_ms,
                                     &threads, &settings.scheduler))
        return -1;
    if (self->runner || self->closed) {
        PyErr_SetString(PyExc_TypeError, "already initialized");
        return -1;
    }
    settings.lease_ms = lease_ms;
    settings.poll_ms = poll_ms;
    settings.threads = threads < 0 ? SIZE_MAX : (size_t)threads;
    return runner_make(self, &settings, url);
}

/* In a child of fork(2) there is no thread to end: all is left alone. */
static void runner_dealloc(PyObject *object)
{
    spy_runner *self = (spy_runner *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->runner && self->forks == spy_forks())
        runner_free(self);
    type->tp_free(object);
    Py_DECREF(type);
}

/* The runner, which was not started; NULL with an exception. */
static seriatim_runner *runner_unstarted(spy_runner *self)
{
    seriatim_runner *runner = spy_runner_of(self);
    if (!runner || !self->started)
        return runner;
    PyErr_SetString(PyExc_RuntimeError, "the runner was started already");
    return NULL;
}

/* runner.worker(settings) -> its number */
static PyObject *runner_worker(PyObject *object, PyObject *tuple)
{
    seriatim_runner *runner = spy_runner_of((spy_runner *)object);
    seriatim_queue_settings settings;
    seriatim_error error = {0};
    size_t worker;
    if (!runner || spy_queue_settings(tuple, &settings) < 0)
        return NULL;
    if (seriatim_runner_worker(runner, &settings, &worker, &error) != SERIATIM_OK)
        return spy_raise_error(spy_state_of(object), &error);
    return PyLong_FromSize_t(worker);
}

/* runner.withdraw(worker) -> False: it was withdrawn before */
static PyObject *runner_withdraw(PyObject *object, PyObject *number)
{
    seriatim_runner *runner = spy_runner_of((spy_runner *)object);
    seriatim_error error = {0};
    size_t worker;
    int status;
    if (!runner || spy_size(number, &worker) < 0)
        return NULL;
    status = seriatim_runner_withdraw(runner, worker, &error);
    if (status != SERIATIM_OK && status != SERIATIM_AGAIN)
        return spy_raise_error(spy_state_of(object), &error);
    return PyBool_FromLong(status == SERIATIM_OK);
}

static int runner_shard(PyObject *worker, PyObject *number, seriatim_shard *shard)
{
    size_t index;
    if (spy_size(worker, &shard->worker) < 0 || spy_size(number, &index) < 0)
        return -1;
    shard->shard = index < SERIATIM_MAX_SHARDS ? (unsigned)index : SERIATIM_MAX_SHARDS; /* which none has */
    return 0;
}

static int runner_shards(PyObject *pairs, seriatim_shard *shards)
{
    Py_ssize_t i;
    for (i = 0; i < PyList_GET_SIZE(pairs); i++) {
        PyObject *pair = PyList_GET_ITEM(pairs, i);
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
            PyErr_SetString(PyExc_TypeError, "a shard is a tuple of worker and shard");
            return -1;
        }
        if (runner_shard(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1), &shards[i]) < 0)
            return -1;
    }
    return 0;
}

/* runner.group(scheduler, [(worker, shard), ...]) -> its number */
static PyObject *runner_group(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_runner *self = (spy_runner *)object;
    seriatim_runner *runner;
    seriatim_error error = {0};
    seriatim_shard *shards;
    int64_t scheduler;
    size_t group, count;
    int status = 1;
    if (spy_arity("group", nargs, 2, 2) < 0 || spy_int64(args[0], &scheduler) < 0 || spy_check_list(args[1]) < 0 ||
        !(runner = runner_unstarted(self)))
        return NULL;
    count = (size_t)PyList_GET_SIZE(args[1]);
    shards = PyMem_New(seriatim_shard, count + 1);
    if (!shards)
        return PyErr_NoMemory();
    if (runner_shards(args[1], shards) == 0)
        status = seriatim_runner_group(runner, scheduler < 0 || scheduler > INT_MAX ? -1 : (int)scheduler, shards,
                                       count, &group, &error);
    PyMem_Free(shards);
    if (status != SERIATIM_OK)
        return status == 1 ? NULL : spy_raise_error(spy_state_of(object), &error);
    self->groups++;
    return PyLong_FromSize_t(group);
}

static PyObject *runner_start(PyObject *object, PyObject *ignored)
{
    spy_runner *self = (spy_runner *)object;
    seriatim_runner *runner = runner_unstarted(self);
    seriatim_error error = {0};
    (void)ignored;
    if (!runner)
        return NULL;
    if (seriatim_runner_start(runner, &error) != SERIATIM_OK)
        return spy_raise_error(spy_state_of(object), &error);
    self->started = 1;
    Py_RETURN_NONE;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* The runner, started, with the group's number; NULL with an exception. */
static seriatim_runner *runner_with_group(spy_runner *self, PyObject *number, size_t *group)
{
    seriatim_runner *runner = spy_runner_of(self);
    if (!runner || spy_size(number, group) < 0)
        return NULL;
    if (!self->started) {
        PyErr_SetString(PyExc_RuntimeError, "the runner is not started");
        return NULL;
    }
    if (*group >= (self->groups ? self->groups : 1)) {
        PyErr_SetString(PyExc_IndexError, "no such group in this runner");
        return NULL;
    }
    return runner;
}

/*
 * Each take that gave nothing is followed by one wait_end or clear, if the runner still is. Returns 0, or -1 with an
 * exception.
 */
static int runner_wait(spy_runner *self, size_t group, int64_t deadline_ms)
{
    seriatim_waiter *waiter;
    struct pollfd fds[2] = {{seriatim_runner_wait_begin(self->runner, group, &waiter), POLLIN, 0},
                            {self->wake[0], POLLIN, 0}};
    int status;
    spy_runner_enter(self);
    status = spy_poll(fds, 2, spy_left_ms(deadline_ms));
    if (spy_runner_usable(self))
        seriatim_runner_wait_end(self->runner, group, waiter);
    spy_runner_leave(self);
    return status < 0 || !spy_runner_of(self) ? -1 : 0;
}

static PyObject *runner_taken(spy_runner *self, int status, seriatim_delivery *delivery)
{
    if (status == SERIATIM_OK)
        return spy_delivery_new(self, delivery);
    if (status == SERIATIM_AGAIN)
        Py_RETURN_NONE;
    return spy_raise(spy_state_of((PyObject *)self), status,
                     status == SERIATIM_CLOSED ? "the runner has stopped" : seriatim_status_text(status));
}

/*
 * runner.take(group, seconds = None, settled = None): `settled` is a delivery that is settled first. The time may be
 * over while the descriptor is ready for another thread that waits: hence the take after the last clear.
 */
static PyObject *runner_take(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    spy_runner *self = (spy_runner *)object;
    seriatim_delivery *delivery = NULL, *settled = NULL;
    int64_t deadline_ms;
    size_t group;
    int status, late;
    if (spy_arity("take", nargs, 1, 3) < 0 || !runner_with_group(self, args[0], &group) ||
        spy_deadline(args, nargs, names, 1, &deadline_ms) < 0 ||
        (nargs > 2 && spy_delivery_give(self, args[2], &settled) < 0))
        return NULL;
    status = seriatim_runner_settle_and_take(self->runner, settled, group, &delivery);
    if (deadline_ms == 0)
        return runner_taken(self, status, delivery);
    for (late = 0; status == SERIATIM_AGAIN && !late;) {
        if (runner_wait(self, group, deadline_ms) < 0)
            return NULL;
        late = spy_left_ms(deadline_ms) == 0;
        status = seriatim_runner_take(self->runner, group, &delivery);
    }
    if (status == SERIATIM_AGAIN)
        seriatim_runner_clear(self->runner, group);
    return runner_taken(self, status, delivery);
}

/* runner.take_from(group, worker, shard) */
static PyObject *runner_take_from(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_runner *self = (spy_runner *)object;
    seriatim_delivery *delivery = NULL;
    seriatim_shard shard;
    size_t group;
    int status;
    if (spy_arity("take_from", nargs, 3, 3) < 0 || runner_shard(args[1], args[2], &shard) < 0 ||
        !runner_with_group(self, args[0], &group))
        return NULL;
    status = seriatim_runner_take_from(self->runner, group, shard, &delivery);
    return runner_taken(self, status, delivery);
}

/*
 * runner.take_unscheduled(group, seconds): takes only dead ids and ids in doubt, which no scheduler chooses. If there
 * are no such ids, it waits for a change and returns None.
 */
static PyObject *runner_take_unscheduled(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    static const seriatim_shard no_shard = {0, SERIATIM_MAX_SHARDS};
    spy_runner *self = (spy_runner *)object;
    seriatim_delivery *delivery = NULL;
    int64_t deadline_ms;
    size_t group;
    int status;
    if (spy_arity("take_unscheduled", nargs, 2, 2) < 0 || !runner_with_group(self, args[0], &group) ||
        spy_deadline(args, nargs, NULL, 1, &deadline_ms) < 0)
        return NULL;
    status = seriatim_runner_take_from(self->runner, group, no_shard, &delivery);
    if (status == SERIATIM_AGAIN && deadline_ms != 0 && runner_wait(self, group, deadline_ms) < 0)
        return NULL;
    return runner_taken(self, status, delivery);
}

static PyObject *runner_candidate(const void *list, size_t i)
{
    const seriatim_candidate *c = (const seriatim_candidate *)list + i;
    return Py_BuildValue("(nIdn)", (Py_ssize_t)c->shard.worker, c->shard.shard, c->lag, (Py_ssize_t)c->size);
}

/* runner.candidates(group, cap) -> [(worker, shard, lag, size), ...] */
static PyObject *runner_candidates(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    seriatim_runner *runner;
    seriatim_candidate *list;
    PyObject *result;
    size_t group, room, count;
    if (spy_arity("candidates", nargs, 2, 2) < 0 ||
        !(runner = runner_with_group((spy_runner *)object, args[0], &group)) || spy_size(args[1], &room) < 0)
        return NULL;
    list = PyMem_New(seriatim_candidate, room ? room : 1);
    if (!list)
        return PyErr_NoMemory();
    count = seriatim_runner_candidates(runner, group, list, room);
    result = spy_list(count, runner_candidate, list);
    PyMem_Free(list);
    return result;
}

static PyObject *runner_fileno(PyObject *object, PyObject *number)
{
    size_t group;
    seriatim_runner *runner = runner_with_group((spy_runner *)object, number, &group);
    return runner ? PyLong_FromLong(seriatim_runner_fd(runner, group)) : NULL;
}

static PyObject *runner_clear(PyObject *object, PyObject *number)
{
    size_t group;
    seriatim_runner *runner = runner_with_group((spy_runner *)object, number, &group);
    if (!runner)
        return NULL;
    seriatim_runner_clear(runner, group);
    Py_RETURN_NONE;
}

/* ---- Watching and ending --------------------------------------------------------------------- */

/* runner.event() -> (kind, number, text) or None */
static PyObject *runner_event(PyObject *object, PyObject *ignored)
{
    static const char *const names[] = {"lease",   "lost",     "refused", "recovered", "link",
                                        "warning", "failures", "morgue",  "stale"};
    seriatim_runner *runner = spy_runner_of((spy_runner *)object);
    seriatim_event event;
    (void)ignored;
    if (!runner)
        return NULL;
    if (seriatim_runner_event(runner, &event) != SERIATIM_OK)
        Py_RETURN_NONE;
    return Py_BuildValue("(sLN)", names[event.kind], (long long)event.number, spy_text(event.text, strlen(event.text)));
}

static PyObject *runner_order(PyObject *object, void (*order)(seriatim_runner *))
{
    seriatim_runner *runner = spy_runner_of((spy_runner *)object);
    if (runner)
        order(runner);
    return spy_none_or(!runner);
}

static PyObject *runner_pulse(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    return runner_order(object, seriatim_runner_pulse);
}

static PyObject *runner_quiet(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    return runner_order(object, seriatim_runner_quiet);
}

static PyObject *runner_stop(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    return runner_order(object, seriatim_runner_stop);
}

static PyObject *runner_abandon(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    return runner_order(object, seriatim_runner_abandon);
}

/* runner.asked() -> "quiet", "stop" or None */
static PyObject *runner_asked(PyObject *object, PyObject *ignored)
{
    seriatim_runner *runner = spy_runner_of((spy_runner *)object);
    int order;
    (void)ignored;
    if (!runner)
        return NULL;
    order = seriatim_runner_asked(runner);
    return order == SERIATIM_ORDER_NONE ? spy_none_or(0)
                                        : PyUnicode_FromString(order == SERIATIM_ORDER_STOP ? "stop" : "quiet");
}

/* Asked again and again while the runner stops, so a signal that ends the process then tells what is unfinished. */
static PyObject *runner_stopped(PyObject *object, PyObject *ignored)
{
    seriatim_runner *runner = spy_runner_of((spy_runner *)object);
    (void)ignored;
    if (!runner)
        return NULL;
    spy_ending_note(runner);
    return PyBool_FromLong(seriatim_runner_stopped(runner));
}

/* runner.unfinished() -> what threads have in hand, in one line */
static PyObject *runner_unfinished(PyObject *object, PyObject *ignored)
{
    seriatim_runner *runner = spy_runner_of((spy_runner *)object);
    char text[1000];
    (void)ignored;
    if (!runner)
        return NULL;
    seriatim_runner_unfinished(runner, text, sizeof text);
    return spy_text(text, strlen(text));
}

static PyObject *runner_stats(PyObject *object, PyObject *ignored)
{
    seriatim_runner *runner = spy_runner_of((spy_runner *)object);
    seriatim_runner_stats stats;
    PyObject *dict;
    (void)ignored;
    if (!runner)
        return NULL;
    stats = seriatim_runner_stats_now(runner);
    dict = PyDict_New();
    if (dict && (spy_set(dict, "commands", PyLong_FromUnsignedLongLong(stats.commands)) ||
                 spy_set(dict, "processed", PyLong_FromUnsignedLongLong(stats.processed)) ||
                 spy_set(dict, "failed", PyLong_FromUnsignedLongLong(stats.failed)) ||
                 spy_set(dict, "refused", PyLong_FromUnsignedLongLong(stats.refused)) ||
                 spy_set(dict, "shards", PyLong_FromSize_t(stats.shards)) ||
                 spy_set(dict, "running", PyLong_FromSize_t(stats.running)) ||
                 spy_set(dict, "claimed", PyLong_FromSize_t(stats.claimed)) ||
                 spy_set(dict, "connected", PyBool_FromLong(stats.connected))))
        Py_CLEAR(dict);
    return dict;
}

/*
 * Frees the runner as soon as nobody is inside; every later call of it, or of a delivery of it, raises, as do those
 * that wait.
 */
static PyObject *runner_close(PyObject *object, PyObject *ignored)
{
    spy_runner *self = (spy_runner *)object;
    ssize_t written;
    (void)ignored;
    if (!spy_runner_usable(self))
        Py_RETURN_NONE;
    self->closed = 1;
    written = write(self->wake[1], "!", 1); /* stays in the pipe, so it wakes all */
    (void)written;
    if (self->inside == 0)
        runner_free(self);
    Py_RETURN_NONE;
}

static PyMethodDef runner_methods[] = {
    {"worker", runner_worker, METH_O, NULL},
    {"withdraw", runner_withdraw, METH_O, NULL},
    {"group", FAST(runner_group), METH_FASTCALL, NULL},
    {"start", runner_start, METH_NOARGS, NULL},
    {"take", FAST(runner_take), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"take_from", FAST(runner_take_from), METH_FASTCALL, NULL},
    {"take_unscheduled", FAST(runner_take_unscheduled), METH_FASTCALL, NULL},
    {"candidates", FAST(runner_candidates), METH_FASTCALL, NULL},
    {"fileno", runner_fileno, METH_O, NULL},
    {"clear", runner_clear, METH_O, NULL},
    {"event", runner_event, METH_NOARGS, NULL},
    {"pulse", runner_pulse, METH_NOARGS, NULL},
    {"quiet", runner_quiet, METH_NOARGS, NULL},
    {"stop", runner_stop, METH_NOARGS, NULL},
    {"abandon", runner_abandon, METH_NOARGS, NULL},
    {"asked", runner_asked, METH_NOARGS, NULL},
    {"stopped", runner_stopped, METH_NOARGS, NULL},
    {"unfinished", runner_unfinished, METH_NOARGS, NULL},
    {"stats", runner_stats, METH_NOARGS, NULL},
    {"close", runner_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot runner_slots[] = {
    {Py_tp_doc, (void *)"A node with a native thread of its own."},
    {Py_tp_init, (void *)runner_init},
    {Py_tp_dealloc, (void *)runner_dealloc},
    {Py_tp_traverse, (void *)spy_visit_type},
    {Py_tp_methods, runner_methods},
    {0, NULL},
};

PyType_Spec spy_runner_spec = {
    .name = "seriatim._native.Runner",
    .basicsize = sizeof(spy_runner),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = runner_slots,
};

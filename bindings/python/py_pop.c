/* py_pop.c - pop, and the reports on what was popped, as methods of seriatim._native.Link. */
#include "py_link.h"

#include <string.h>

/* ---- Pop ------------------------------------------------------------------------------------- */

/* The numbers of a list; PyMem_Free them. NULL with an exception. */
static int64_t *pop_numbers(PyObject *list, size_t *count)
{
    int64_t *numbers;
    Py_ssize_t i;
    if (spy_check_list(list) < 0)
        return NULL;
    *count = (size_t)PyList_GET_SIZE(list);
    numbers = PyMem_New(int64_t, *count + 1);
    if (!numbers)
        return (int64_t *)PyErr_NoMemory();
    for (i = 0; i < PyList_GET_SIZE(list); i++)
        if (spy_int64(PyList_GET_ITEM(list, i), &numbers[i]) < 0) {
            PyMem_Free(numbers);
            return NULL;
        }
    return numbers;
}

/* The queues that a list names by their numbers; PyMem_Free them. NULL with an exception. */
static size_t *pop_queues(PyObject *list, size_t *count)
{
    size_t *queues, i;
    int64_t *numbers = pop_numbers(list, count);
    if (!numbers)
        return NULL;
    queues = PyMem_New(size_t, *count + 1);
    for (i = 0; queues && i < *count; i++)
        queues[i] = numbers[i] < 0 ? SIZE_MAX : (size_t)numbers[i];
    PyMem_Free(numbers);
    return queues ? queues : (size_t *)PyErr_NoMemory();
}

static PyObject *pop_payload(const void *payloads, size_t i)
{
    const seriatim_payload *p = (const seriatim_payload *)payloads + i;
    return Py_BuildValue("(NdNd)", PyBytes_FromStringAndSize(p->data, (Py_ssize_t)p->len), p->score,
                         spy_bytes_or_none(p->context, p->context_len), p->stamp);
}

static PyObject *pop_read(const spy_link *self)
{
    const seriatim_popped *popped = seriatim_pop_result(seriatim_link_client(self->link));
    const seriatim_claimed *job;
    if (!popped)
        return spy_none_or(0);
    job = &popped->job;
    return Py_BuildValue("(nNLLNN)", (Py_ssize_t)popped->queue, spy_id(job->id, job->id_len), (long long)job->fence,
                         (long long)popped->deliveries, spy_bytes_or_none(popped->token.data, popped->token.len),
                         spy_list(job->payload_count, pop_payload, job->payloads));
}

static PyObject *pop_begin(spy_link *self, seriatim_pop *pop, PyObject *numbers, PyObject *weights)
{
    seriatim_client *client;
    size_t *queues = pop_queues(numbers, &pop->queue_count), weight_count = pop->queue_count;
    int64_t *own = queues && weights != Py_None ? pop_numbers(weights, &weight_count) : NULL;
    PyObject *begun = NULL;
    if (queues && weight_count != pop->queue_count)
        PyErr_SetString(PyExc_ValueError, "each queue needs a weight");
    else if (queues && (own || weights == Py_None) && (client = spy_link_client(self))) {
        pop->queues = queues;
        pop->weights = own;
        begun = spy_link_begun(self, seriatim_pop_begin(client, pop), pop_read);
    }
    PyMem_Free(queues);
    PyMem_Free(own);
    return begun;
}

/*
 * link.pop(queues, weights or None, wait, ttr, max): None, no id was due; or (queue, id, fence, deliveries,
 * token or None, [(payload, score, context, stamp)])
 */
PyObject *spy_link_pop(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    seriatim_pop pop;
    seriatim_pop_init(&pop);
    if (spy_arity("pop", nargs, 5, 5) < 0 || spy_double(args[2], &pop.wait) < 0 || spy_double(args[3], &pop.ttr) < 0 ||
        spy_int64(args[4], &pop.max) < 0)
        return NULL;
    return pop_begin((spy_link *)object, &pop, args[0], args[1]);
}

/* ---- Reports --------------------------------------------------------------------------------- */

static PyObject *popped_read(const spy_link *self)
{
    (void)self;
    return spy_none_or(0);
}

/* Only scores and stamps, of a list of (score, stamp); PyMem_Free them. NULL with an exception. */
static seriatim_payload *popped_payloads(PyObject *list, size_t *count)
{
    seriatim_payload *payloads;
    Py_ssize_t i;
    if (spy_check_list(list) < 0)
        return NULL;
    *count = (size_t)PyList_GET_SIZE(list);
    payloads = PyMem_Calloc(*count + 1, sizeof *payloads);
    if (!payloads)
        return (seriatim_payload *)PyErr_NoMemory();
    for (i = 0; i < PyList_GET_SIZE(list); i++)
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "dd", &payloads[i].score, &payloads[i].stamp)) {
            PyMem_Free(payloads);
            return NULL;
        }
    return payloads;
}

/* link.popped(token, kind, seconds, text or None, [(score, stamp)]): None; kind: a POPPED_* of this module */
PyObject *spy_link_popped(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_link *self = (spy_link *)object;
    seriatim_popped_outcome outcome;
    seriatim_payload *payloads;
    seriatim_client *client;
    seriatim_text token;
    int64_t kind;
    int status;
    memset(&outcome, 0, sizeof outcome);
    if (spy_arity("popped", nargs, 5, 5) < 0 || spy_data(args[0], &token.data, &token.len) < 0 ||
        spy_int64(args[1], &kind) < 0 || spy_double(args[2], &outcome.seconds) < 0 ||
        (args[3] != Py_None && spy_data(args[3], &outcome.text.data, &outcome.text.len) < 0) ||
        !(client = spy_link_client(self)))
        return NULL;
    payloads = popped_payloads(args[4], &outcome.payload_count);
    if (!payloads)
        return NULL;
    outcome.kind = kind < 0 || kind > INT_MAX ? -1 : (int)kind;
    outcome.payloads = payloads;
    status = seriatim_popped_begin(client, token, &outcome);
    PyMem_Free(payloads);
    return spy_link_begun(self, status, popped_read);
}

int spy_add_popped_kinds(PyObject *module)
{
    return PyModule_AddIntConstant(module, "POPPED_ACK", SERIATIM_POPPED_ACK) < 0 ||
                   PyModule_AddIntConstant(module, "POPPED_FAIL", SERIATIM_POPPED_FAIL) < 0 ||
                   PyModule_AddIntConstant(module, "POPPED_RELEASE", SERIATIM_POPPED_RELEASE) < 0 ||
                   PyModule_AddIntConstant(module, "POPPED_EXTEND", SERIATIM_POPPED_EXTEND) < 0 ||
                   PyModule_AddIntConstant(module, "POPPED_SNOOZE", SERIATIM_POPPED_SNOOZE) < 0 ||
                   PyModule_AddIntConstant(module, "POPPED_CHECKPOINT", SERIATIM_POPPED_CHECKPOINT) < 0 ||
                   PyModule_AddIntConstant(module, "POPPED_REJECT", SERIATIM_POPPED_REJECT) < 0
               ? -1
               : 0;
}

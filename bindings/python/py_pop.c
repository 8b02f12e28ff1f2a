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
    return Py_BuildValue("(nNLLNLNNN)", (Py_ssize_t)popped->queue, spy_id(job->id, job->id_len), (long long)job->fence,
                         (long long)popped->deliveries, spy_bytes_or_none(popped->token.data, popped->token.len),
                         (long long)job->retry_count, spy_error_or_none(job->error, job->error_len),
                         PyBool_FromLong(popped->more), spy_list(job->payload_count, pop_payload, job->payloads));
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
 * token or None, retry_count, error or None, more, [(payload, score, context, stamp)])
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

/* Payloads of which only the stamps are set; PyMem_Free them. NULL with an exception. */
static seriatim_payload *popped_payloads(PyObject *stamps)
{
    seriatim_payload *payloads;
    Py_ssize_t i;
    payloads = PyMem_Calloc((size_t)PyList_GET_SIZE(stamps) + 1, sizeof *payloads);
    if (!payloads)
        return (seriatim_payload *)PyErr_NoMemory();
    for (i = 0; i < PyList_GET_SIZE(stamps); i++)
        if (spy_double(PyList_GET_ITEM(stamps, i), &payloads[i].stamp) < 0) {
            PyMem_Free(payloads);
            return NULL;
        }
    return payloads;
}

/* Sets how many payloads a checkpoint is about, or which payloads a rejection is about; PyMem_Free outcome->payloads.
 */
static int popped_set_payloads(seriatim_popped_outcome *outcome, PyObject *payloads)
{
    if (payloads == Py_None)
        return 0;
    if (PyLong_Check(payloads))
        return spy_size(payloads, &outcome->payload_count);
    if (spy_check_list(payloads) < 0)
        return -1;
    outcome->payload_count = (size_t)PyList_GET_SIZE(payloads);
    outcome->payloads = popped_payloads(payloads);
    return outcome->payloads ? 0 : -1;
}

/*
 * link.popped(token, kind, seconds, text or None, payloads): None; kind: a POPPED_* of this module; payloads: a number
 * of them for POPPED_CHECKPOINT, a list of stamps for POPPED_REJECT, else None
 */
PyObject *spy_link_popped(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_link *self = (spy_link *)object;
    seriatim_popped_outcome outcome;
    seriatim_client *client;
    seriatim_text token;
    int64_t kind;
    int status;
    memset(&outcome, 0, sizeof outcome);
    if (spy_arity("popped", nargs, 5, 5) < 0 || spy_data(args[0], &token.data, &token.len) < 0 ||
        spy_int64(args[1], &kind) < 0 || spy_double(args[2], &outcome.seconds) < 0 ||
        (args[3] != Py_None && spy_data(args[3], &outcome.text.data, &outcome.text.len) < 0) ||
        !(client = spy_link_client(self)) || popped_set_payloads(&outcome, args[4]) < 0)
        return NULL;
    outcome.kind = kind < 0 || kind > INT_MAX ? -1 : (int)kind;
    status = seriatim_popped_begin(client, token, &outcome);
    PyMem_Free((void *)outcome.payloads);
    return spy_link_begun(self, status, popped_read);
}

/* token_parts(token): (queue, id, fence, number of payloads), or None: the text is no token of a delivery */
PyObject *spy_token_parts(PyObject *module, PyObject *object)
{
    char bytes[SERIATIM_TOKEN];
    seriatim_token_parts parts;
    seriatim_text token;
    (void)module;
    if (spy_data(object, &token.data, &token.len) < 0)
        return NULL;
    if (seriatim_token_read(token, bytes, &parts) != SERIATIM_OK)
        return spy_none_or(0);
    return Py_BuildValue("(NNLn)", spy_id(parts.queue.data, parts.queue.len), spy_id(parts.id.data, parts.id.len),
                         (long long)parts.fence, (Py_ssize_t)parts.payload_count);
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

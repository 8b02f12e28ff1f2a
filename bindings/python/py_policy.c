/*
 * py_policy.c - seriatim._native.back_off, .split, .shard_of, .command_text and .printable: the core's functions
 * without a state, for what the package does itself.
 */
#include "seriatim_native.h"

/* back_off(count): the failure that made retry_count `count` was the (count + 1)-th in a row. */
PyObject *spy_back_off(PyObject *module, PyObject *count)
{
    seriatim_error error;
    int64_t number;
    uint32_t random;
    if (spy_int64(count, &number) < 0)
        return NULL;
    if (srt_random(&random, sizeof random, &error) != SERIATIM_OK)
        return spy_raise_error(PyModule_GetState(module), &error);
    return PyFloat_FromDouble(seriatim_back_off(number, random / 4294967296.0));
}

/* back_off_of_events(count): the same by the table of delayedQueue */
PyObject *spy_back_off_of_events(PyObject *module, PyObject *count)
{
    int64_t number;
    (void)module;
    if (spy_int64(count, &number) < 0)
        return NULL;
    return PyFloat_FromDouble(seriatim_back_off_of_events(number));
}

/* command_text(topic): the str, or None */
PyObject *spy_command_text(PyObject *module, PyObject *topic)
{
    const char *name = PyUnicode_AsUTF8(topic), *text = name ? seriatim_command_text(name) : NULL;
    (void)module;
    if (!name)
        return NULL;
    return text ? PyUnicode_FromString(text) : Py_NewRef(Py_None);
}

/* printable(text): the str as a terminal and a log of lines may show it. No lone surrogates. */
PyObject *spy_printable(PyObject *module, PyObject *text)
{
    Py_ssize_t len;
    const char *data = PyUnicode_AsUTF8AndSize(text, &len);
    PyObject *result;
    size_t need;
    char *out;
    (void)module;
    if (!data)
        return NULL;
    need = seriatim_printable(data, (size_t)len, NULL, 0);
    if (need == (size_t)len)
        return Py_NewRef(text);
    out = PyMem_Malloc(need);
    if (!out)
        return PyErr_NoMemory();
    seriatim_printable(data, (size_t)len, out, need);
    result = PyUnicode_FromStringAndSize(out, (Py_ssize_t)need);
    PyMem_Free(out);
    return result;
}

/* The places of each group, from what seriatim_split said of each shard. */
static PyObject *split_hands(const size_t *groups, size_t shards, size_t count)
{
    PyObject *hands = PyList_New((Py_ssize_t)count), *place;
    size_t i;
    int status = hands ? 0 : -1;
    for (i = 0; status == 0 && i < count; i++) {
        PyObject *hand = PyList_New(0);
        if (hand)
            PyList_SET_ITEM(hands, (Py_ssize_t)i, hand);
        status = hand ? 0 : -1;
    }
    for (i = 0; status == 0 && i < shards; i++) {
        if (groups[i] == SERIATIM_ELSEWHERE)
            continue;
        place = PyLong_FromSize_t(i);
        status = place ? PyList_Append(PyList_GET_ITEM(hands, (Py_ssize_t)groups[i]), place) : -1;
        Py_XDECREF(place);
    }
    if (status < 0)
        Py_CLEAR(hands);
    return hands;
}

/* split(shards, nodes, node, threads) */
PyObject *spy_split(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    size_t shards, nodes, node, threads, *groups;
    PyObject *hands;
    (void)module;
    if (spy_arity("split", nargs, 4, 4) < 0 || spy_size(args[0], &shards) < 0 || spy_size(args[1], &nodes) < 0 ||
        spy_size(args[2], &node) < 0 || spy_size(args[3], &threads) < 0)
        return NULL;
    groups = PyMem_New(size_t, shards ? shards : 1);
    if (!groups)
        return PyErr_NoMemory();
    hands = split_hands(groups, shards, seriatim_split(shards, nodes, node, threads, groups));
    PyMem_Free(groups);
    return hands;
}

/* shard_of(id, shards_count) */
PyObject *spy_shard_of(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    const char *id;
    size_t len, shards;
    (void)module;
    if (spy_arity("shard_of", nargs, 2, 2) < 0 || spy_data(args[0], &id, &len) < 0 || spy_size(args[1], &shards) < 0)
        return NULL;
    if (shards > SERIATIM_MAX_SHARDS)
        return PyErr_Format(PyExc_ValueError, "shards_count must be at most %d", SERIATIM_MAX_SHARDS);
    return PyLong_FromUnsignedLong(seriatim_shard_of(id, len, (unsigned)shards));
}

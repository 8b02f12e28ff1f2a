/* py_ick.c - the calls of two-phase commit sets, as a method of seriatim._native.Link. */
#include "py_link.h"

#include <math.h>
#include <string.h>

/* ---- Calls ------------------------------------------------------------------------------------ */

/* A pair of bytes and a float; the list keeps the bytes. */
static int ick_member(PyObject *pair, seriatim_ick_member *member)
{
    return PyArg_ParseTuple(pair, "y#d", &member->data, &member->len, &member->score) ? 0 : -1;
}

/* The members of a list of (bytes, score), in memory for PyMem_Free; NULL with an exception. */
static seriatim_ick_member *ick_members(PyObject *list, size_t *count)
{
    seriatim_ick_member *members;
    Py_ssize_t i;
    if (spy_check_list(list) < 0)
        return NULL;
    *count = (size_t)PyList_GET_SIZE(list);
    members = PyMem_New(seriatim_ick_member, *count + 1);
    if (!members)
        return (seriatim_ick_member *)PyErr_NoMemory();
    for (i = 0; i < PyList_GET_SIZE(list); i++)
        if (ick_member(PyList_GET_ITEM(list, i), &members[i]) < 0) {
            PyMem_Free(members);
            return NULL;
        }
    return members;
}

/* One call: (name of the call, name of the set, token, max_size, backwash, [(member, score)]). 0, or -1. */
static int ick_call(seriatim_client *client, seriatim_ick *ick, PyObject *call, int *status)
{
    const char *kind;
    Py_ssize_t kind_len, name_len;
    long long token, max_size;
    int backwash;
    PyObject *list;
    seriatim_ick_member *members;
    size_t count;
    if (!PyArg_ParseTuple(call, "s#y#LLpO", &kind, &kind_len, &ick->name.data, &name_len, &token, &max_size, &backwash,
                          &list))
        return -1;
    members = ick_members(list, &count);
    if (!members)
        return -1;
    ick->name.len = (size_t)name_len;
    ick->token = token;
    *status = srt_ick_call(client, kind, (size_t)kind_len, ick, max_size, backwash, members, count);
    PyMem_Free(members);
    return 0;
}

/* ---- Results ---------------------------------------------------------------------------------- */

static PyObject *ick_pair(const void *members, size_t i)
{
    const seriatim_ick_member *m = (const seriatim_ick_member *)members + i;
    return Py_BuildValue("(Nd)", spy_id(m->data, m->len), m->score);
}

static PyObject *ick_score(double score)
{
    return srt_ick_is_whole(score) ? PyLong_FromDouble(score) : PyFloat_FromDouble(score);
}

/* The lowest and the highest score, only if there is one. */
static int ick_range(PyObject *dict, const char *low, const char *high, const seriatim_ick_figures *figures)
{
    return !isnan(figures->lowest) &&
           (spy_set(dict, low, ick_score(figures->lowest)) || spy_set(dict, high, ick_score(figures->highest)));
}

/* None: there is no such set. */
static PyObject *ick_stats(const seriatim_ick_result *r)
{
    PyObject *dict;
    if (!r->exists)
        return spy_none_or(0);
    dict = PyDict_New();
    if (dict &&
        (spy_set(dict, "pset_key", spy_id(r->producer_key.data, r->producer_key.len)) ||
         spy_set(dict, "cset_key", spy_id(r->consumer_key.data, r->consumer_key.len)) ||
         spy_set(dict, "ver", spy_text(r->version, strlen(r->version))) ||
         spy_set(dict, "cset_size", PyLong_FromLongLong(r->consumer.size)) ||
         spy_set(dict, "pset_size", PyLong_FromLongLong(r->producer.size)) ||
         spy_set(dict, "total_size", PyLong_FromLongLong(r->total.size)) ||
         spy_set(dict, "consumers", PyLong_FromLongLong(r->consumers)) ||
         ick_range(dict, "pset_min", "pset_max", &r->producer) ||
         ick_range(dict, "cset_min", "cset_max", &r->consumer) || ick_range(dict, "total_min", "total_max", &r->total)))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *ick_result(const void *results, size_t i)
{
    const seriatim_ick_result *r = (const seriatim_ick_result *)results + i;
    return Py_BuildValue("(LLLLLNN)", (long long)r->added, (long long)r->lowered, (long long)r->ended,
                         (long long)r->deleted, (long long)r->token, spy_list(r->count, ick_pair, r->members),
                         ick_stats(r));
}

static PyObject *ick_read(const spy_link *self)
{
    size_t count;
    const seriatim_ick_result *results = seriatim_ick_results(seriatim_link_client(self->link), &count);
    return spy_list(count, ick_result, results);
}

/*
 * link.ick(consumer, reserve_time, calls): for each call (new members, lowered scores, reservations that were ended,
 * keys that were deleted, token, [(member, score)], statistics or None)
 */
PyObject *spy_link_ick(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    spy_link *self = (spy_link *)object;
    seriatim_client *client;
    seriatim_ick ick = {{NULL, 0}, {NULL, 0}, 0, 0};
    Py_ssize_t i;
    int status;
    if (spy_arity("ick", nargs, 3, 3) < 0 || spy_data(args[0], &ick.consumer.data, &ick.consumer.len) < 0 ||
        spy_double(args[1], &ick.reserve_time) < 0 || spy_check_list(args[2]) < 0 || !(client = spy_link_client(self)))
        return NULL;
    status = seriatim_ick_begin(client);
    for (i = 0; status == SERIATIM_OK && i < PyList_GET_SIZE(args[2]); i++)
        if (ick_call(client, &ick, PyList_GET_ITEM(args[2], i), &status) < 0)
            return NULL;
    return spy_link_begun(self, status == SERIATIM_OK ? seriatim_ick_send(client) : status, ick_read);
}

/* py_link.h - a link as push and operators share it. */
#ifndef PY_LINK_H
#define PY_LINK_H

#include "seriatim_native.h"

typedef struct spy_link {
    PyObject_HEAD seriatim_link *link;          /* NULL: closed */
    unsigned forks;                             /* spy_forks() where it was used last */
    int busy;                                   /* someone is inside, maybe without the GIL */
    size_t queue;                               /* of what was begun */
    PyObject *(*read)(const struct spy_link *); /* the result of what was begun; NULL: nothing was */
} spy_link;

/* The client of a link that nobody is inside of; NULL with an exception. */
seriatim_client *spy_link_client(spy_link *self);
/* After a begin: None, with `read` for its result; or raises its failure. */
PyObject *spy_link_begun(spy_link *self, int status, PyObject *(*read)(const spy_link *));

/* py_operators.c: queries and actions, as methods of Link. */
PyObject *spy_link_query(PyObject *self, PyObject *args, PyObject *names);
PyObject *spy_link_action(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_link_metrics(PyObject *self, PyObject *queue);
PyObject *spy_link_explain(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_link_check(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_link_nodes(PyObject *self, PyObject *ignored);
PyObject *spy_link_node_command(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_link_queues(PyObject *self, PyObject *ignored);
PyObject *spy_link_health(PyObject *self, PyObject *ignored);

/* py_pop.c */
PyObject *spy_link_pop(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_link_popped(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
/* py_ick.c: two-phase commit sets, as a method of Link. */
PyObject *spy_link_ick(PyObject *self, PyObject *const *args, Py_ssize_t nargs);

/* py_web.c */
PyObject *spy_link_web(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_link_answer(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_link_change(PyObject *self, PyObject *ignored);

#endif

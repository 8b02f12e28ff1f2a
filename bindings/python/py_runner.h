/* py_runner.h - a runner as its deliveries know it. */
#ifndef PY_RUNNER_H
#define PY_RUNNER_H

#include "seriatim_native.h"

typedef struct spy_runner {
    PyObject_HEAD seriatim_runner *runner; /* NULL: not made yet, or freed */
    unsigned forks;                        /* spy_forks() where it was made: the runner's thread lives there alone */
    size_t groups;                         /* that were made */
    int started, closed;
    Py_ssize_t
        inside;  /* calls that may be without the GIL, or run other code: the last of them frees a closed runner */
    int wake[2]; /* readable once it is closed */
} spy_runner;

/* The runner, which still is, and in this process; NULL with an exception. */
seriatim_runner *spy_runner_of(spy_runner *self);
/* 1 when spy_runner_of would give it. */
int spy_runner_usable(const spy_runner *self);
void spy_runner_enter(spy_runner *self);
void spy_runner_leave(spy_runner *self);

/* A Delivery; settles it where it cannot be made. */
PyObject *spy_delivery_new(spy_runner *runner, seriatim_delivery *delivery);
/* What a Delivery of this runner holds, for the caller to settle; of None nothing. 0, or -1 with an exception. */
int spy_delivery_give(spy_runner *runner, PyObject *object, seriatim_delivery **given);

#endif

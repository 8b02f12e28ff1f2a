/* py_jobs.h - the jobs of a push as a link takes them. */
#ifndef PY_JOBS_H
#define PY_JOBS_H

#include "seriatim_native.h"

/* Adds the jobs of a Jobs to the push that was begun: OK or a status. */
int spy_jobs_push(PyObject *jobs, seriatim_client *client);

#endif

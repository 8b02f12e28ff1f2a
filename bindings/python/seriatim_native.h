/* seriatim_native.h - what the files of this glue share: convert, call, convert; no rule of the queue lives here. */
#ifndef SERIATIM_NATIVE_H
#define SERIATIM_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "seriatim/binding.h"

#include <poll.h>

#define SPY_JOB_KEYS 6

/* Of one interpreter's seriatim._native. */
typedef struct spy_state {
    PyObject *from_status; /* seriatim._errors.from_status; NULL until the first error */
    PyTypeObject *link_type, *jobs_type, *runner_type, *delivery_type, *private_redis_type, *fake_type;
    PyObject *job_keys[SPY_JOB_KEYS]; /* of a plain job dict; interned */
} spy_state;

/* Of an instance of one of this module's classes, none of which can be subclassed. */
spy_state *spy_state_of(PyObject *self);

/*
 * How many forks, by fork(2), lie between this process and the one that loaded the module: getpid(2) without a system
 * call.
 */
unsigned spy_forks(void);

/* ---- Errors: each sets the exception and returns NULL ---------------------------------------- */

/* `name` is a status' name, or "UNDECODABLE". */
PyObject *spy_raise_named(spy_state *state, const char *name, PyObject *text);
PyObject *spy_raise(spy_state *state, int status, const char *message);
PyObject *spy_raise_error(spy_state *state, const seriatim_error *error);

/* ---- From Python: 0, or -1 with an exception ------------------------------------------------- */

int spy_arity(const char *name, Py_ssize_t given, Py_ssize_t least, Py_ssize_t most);
/* What does not fit is the nearest that does: the core refuses it with the field's name. */
int spy_int64(PyObject *value, int64_t *out);
int spy_size(PyObject *value, size_t *out);
int spy_double(PyObject *value, double *out);
int spy_data(PyObject *value, const char **data, size_t *len); /* of bytes, which keep them */
int spy_cstr(PyObject *value, const char **out);               /* of a str without NUL, which keeps it */
/* A list of the given kind. */
int spy_check_list(PyObject *value);
/* A dict of a queue's settings by name, which keeps the texts; what is missing or None is the default. 0 or -1. */
int spy_queue_settings(PyObject *dict, seriatim_queue_settings *settings);
/* Of `seconds`, given by place `at` or by name, the monotonic ms at which they are over; INT64_MAX for None. */
int spy_deadline(PyObject *const *args, Py_ssize_t nargs, PyObject *names, Py_ssize_t at, int64_t *deadline_ms);

/* ---- To Python: NULL with an exception ------------------------------------------------------- */

PyObject *spy_id(const char *bytes, size_t len);   /* str, or bytes where they are not UTF-8 */
PyObject *spy_text(const char *bytes, size_t len); /* str; what is not UTF-8 is replaced */
PyObject *spy_error_or_none(const char *error,
                            size_t len); /* stored: str, or bytes where it is not UTF-8 (dump_error) */
PyObject *spy_cstr_or_none(const char *text);
PyObject *spy_bytes_or_none(const char *bytes, size_t len); /* None where there are none */
PyObject *spy_none_or(int failed);                          /* None, or NULL where the exception is set already */

/* (id, fence, retry_count, perform_in, error, [(payload, score, context)], payload_total) */
PyObject *spy_claimed(const seriatim_claimed *job);

/* Sets dict[name] and takes the value over; -1 where it is NULL. */
int spy_set(PyObject *dict, const char *name, PyObject *value);
typedef PyObject *(*spy_make)(const void *array, size_t i);
PyObject *spy_list(size_t count, spy_make make, const void *array);

/* What a payload's JSON says; NULL without an exception: it cannot be read, reader->error says why. */
struct srt_json_reader;
PyObject *spy_json_read(struct srt_json_reader *reader);
/* Adds the value's canonical JSON: 1; or 0 where it has none, and dump says why. */
struct srt_bytes;
int spy_json_add(struct srt_bytes *out, PyObject *value);

/* ---- Waiting --------------------------------------------------------------------------------- */

/* The ms left until the deadline as poll(2) wants them: -1 for INT64_MAX, never more than a minute. */
int spy_left_ms(int64_t deadline_ms);
/*
 * poll(2) without the GIL; timeout_ms < 0: no limit. A signal ends it early, after its Python handler has run, in the
 * main thread at most 50 ms later, whichever thread the kernel gave it to. Returns 0, or -1 with an exception: of the
 * handler, or an OSError.
 */
int spy_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/* ---- The other files ------------------------------------------------------------------------- */

int spy_visit_type(PyObject *self, visitproc visit, void *arg); /* tp_traverse of what only holds its type */

PyObject *spy_dump(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_load(PyObject *module, PyObject *bytes);
PyObject *spy_check_json(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_jobs(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_back_off(PyObject *module, PyObject *count);
PyObject *spy_token_parts(PyObject *module, PyObject *token);
PyObject *spy_back_off_of_events(PyObject *module, PyObject *count);
PyObject *spy_command_text(PyObject *module, PyObject *topic);
PyObject *spy_printable(PyObject *module, PyObject *text);
PyObject *spy_worker_settings(PyObject *module, PyObject *ignored);
PyObject *spy_split(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_shard_of(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_web_routes(PyObject *module, PyObject *ignored);
PyObject *spy_exit_beyond(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *spy_ending_counts(PyObject *module, PyObject *number);
PyObject *spy_write_stderr(PyObject *module, PyObject *data);
/* Notes what the runner's threads have in hand, for the line that is written when a signal ends the process at once. */
void spy_ending_note(seriatim_runner *runner);

/* Adds the kinds that link.popped takes, as numbers. 0 or -1. */
int spy_add_popped_kinds(PyObject *module);
/* The kinds that fake.settle takes. 0 or -1. */
int spy_add_fake_kinds(PyObject *module);

extern PyType_Spec spy_link_spec, spy_jobs_spec, spy_runner_spec, spy_delivery_spec, spy_private_redis_spec,
    spy_fake_spec;

#endif

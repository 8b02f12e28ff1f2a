/*
 * py_signals.c - seriatim._native.exit_beyond: signals beyond the allowed ones end the process, whoever holds the GIL.
 */
#include "seriatim_native.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define SPY_SIGNALS 65

/* Handlers of signals belong to the process, so what they use does, too. */
static struct sigaction before[SPY_SIGNALS];
static char installed[SPY_SIGNALS];
static int exit_code;
static srt_ending ending;

void spy_ending_note(seriatim_runner *runner)
{
    srt_ending_note(&ending, runner);
}

/* Only what is async-signal-safe. */
static void on_signal(int number, siginfo_t *info, void *context)
{
    const struct sigaction *next = &before[number];
    if (srt_ending_counts(&ending, number)) {
        if (exit_code)
            srt_ending_tell(&ending);
        _exit(exit_code);
    }
    if (next->sa_flags & SA_SIGINFO)
        next->sa_sigaction(number, info, context);
    else
        next->sa_handler(number);
}

/* Where somebody has set a handler since, it stays. */
static void signals_restore(void)
{
    struct sigaction now;
    int number;
    for (number = 1; number < SPY_SIGNALS; number++) {
        if (installed[number] && sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
            now.sa_sigaction == on_signal)
            sigaction(number, &before[number], NULL);
        installed[number] = 0;
    }
}

static int signals_install(int number)
{
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    if (!(action.sa_flags & SA_SIGINFO) && (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)) {
        PyErr_Format(PyExc_ValueError, "signal %d has no handler yet", number);
        return -1;
    }
    before[number] = action;
    action.sa_flags |= SA_SIGINFO;
    action.sa_sigaction = on_signal;
    installed[number] = 1;
    return sigaction(number, &action, NULL);
}

/* exit_beyond(signals, allowed, code) */
PyObject *spy_exit_beyond(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    int64_t number, count, code;
    Py_ssize_t i;
    (void)module;
    if (spy_arity("exit_beyond", nargs, 3, 3) < 0 || spy_check_list(args[0]) < 0 || spy_int64(args[1], &count) < 0 ||
        spy_int64(args[2], &code) < 0)
        return NULL;
    signals_restore();
    exit_code = (int)code;
    srt_ending_begin(&ending, (int)count);
    for (i = 0; i < PyList_GET_SIZE(args[0]); i++) {
        if (spy_int64(PyList_GET_ITEM(args[0], i), &number) < 0)
            return NULL;
        if (number < 1 || number >= SPY_SIGNALS)
            return PyErr_Format(PyExc_ValueError, "there is no signal %lld", (long long)number);
        if (!installed[number] && signals_install((int)number) < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* ending_counts(number): in a handler, of each SIGTERM and SIGINT: is it beyond those that exit_beyond allowed? */
PyObject *spy_ending_counts(PyObject *module, PyObject *number)
{
    int64_t value;
    (void)module;
    if (spy_int64(number, &value) < 0)
        return NULL;
    return PyBool_FromLong(srt_ending_counts(&ending, (int)value));
}

/* write_stderr(data): what standard error takes at once, without a lock of Python's */
PyObject *spy_write_stderr(PyObject *module, PyObject *text)
{
    const char *data;
    size_t len;
    (void)module;
    if (spy_data(text, &data, &len) < 0)
        return NULL;
    srt_ending_write(data, len);
    Py_RETURN_NONE;
}

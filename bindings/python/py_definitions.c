/* py_definitions.c - what the core defines by name, for Python: the settings of a worker. */
#include "seriatim_native.h"

#include <string.h>

static PyObject *definitions_words(const char *words)
{
    PyObject *list = PyList_New(0), *word, *tuple;
    for (; list && *words; words += strlen(words) + 1) {
        word = PyUnicode_FromString(words);
        if (!word || PyList_Append(list, word) < 0)
            Py_CLEAR(list);
        Py_XDECREF(word);
    }
    tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

/* A number of the setting's kind: an int for text and integer, else a float. */
static PyObject *definitions_number(const seriatim_setting *s, double number)
{
    return s->kind == SERIATIM_SETTING_SECONDS ? PyFloat_FromDouble(number) : PyLong_FromDouble(number);
}

static PyObject *definitions_default(const seriatim_setting *s)
{
    if (s->use == SERIATIM_USE_OPTIONAL || s->kind == SERIATIM_SETTING_TEXT)
        return spy_none_or(0);
    if (s->kind == SERIATIM_SETTING_WORD)
        return PyUnicode_FromString(s->initial_word);
    return s->kind == SERIATIM_SETTING_FLAG ? PyBool_FromLong(s->initial > 0) : definitions_number(s, s->initial);
}

static PyObject *definitions_setting(const seriatim_setting *s)
{
    PyObject *dict = PyDict_New();
    if (dict &&
        (spy_set(dict, "name", PyUnicode_FromString(s->name)) ||
         spy_set(dict, "kind", PyUnicode_FromString(s->kind_name)) ||
         spy_set(dict, "optional", PyBool_FromLong(s->use == SERIATIM_USE_OPTIONAL)) ||
         spy_set(dict, "default", definitions_default(s)) || spy_set(dict, "low", definitions_number(s, s->least)) ||
         spy_set(dict, "high", definitions_number(s, s->most)) ||
         spy_set(dict, "words", definitions_words(s->words ? s->words : ""))))
        Py_CLEAR(dict);
    return dict;
}

/* worker_settings(): a dict for each setting that users set */
PyObject *spy_worker_settings(PyObject *module, PyObject *ignored)
{
    size_t count, i;
    const seriatim_setting *all = seriatim_settings(&count);
    PyObject *list = PyList_New(0), *dict;
    (void)module;
    (void)ignored;
    for (i = 0; list && i < count; i++) {
        if (all[i].use == SERIATIM_USE_HIDDEN)
            continue;
        dict = definitions_setting(&all[i]);
        if (!dict || PyList_Append(list, dict) < 0)
            Py_CLEAR(list);
        Py_XDECREF(dict);
    }
    return list;
}

static int definitions_take(seriatim_queue_settings *settings, const seriatim_setting *s, PyObject *value)
{
    void *field = seriatim_setting_field(settings, s);
    switch (s->kind) {
    case SERIATIM_SETTING_TEXT:
        return spy_data(value, &settings->name, &settings->name_len);
    case SERIATIM_SETTING_WORD:
        return spy_cstr(value, field);
    case SERIATIM_SETTING_COUNT:
        return spy_int64(value, field);
    case SERIATIM_SETTING_SECONDS:
        return spy_double(value, field);
    default:
        *(int *)field = PyObject_IsTrue(value);
        return *(int *)field < 0 ? -1 : 0;
    }
}

int spy_queue_settings(PyObject *dict, seriatim_queue_settings *settings)
{
    size_t count, i;
    const seriatim_setting *all = seriatim_settings(&count);
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "a queue's settings are a dict");
        return -1;
    }
    seriatim_queue_settings_init(settings);
    for (i = 0; i < count; i++) {
        PyObject *value = PyDict_GetItemString(dict, all[i].name);
        if (value && value != Py_None && definitions_take(settings, &all[i], value) < 0)
            return -1;
    }
    return 0;
}

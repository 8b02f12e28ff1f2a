/*
 * py_json.c - seriatim._native.dump and .load: Python objects to canonical JSON and back, by the core's writer and
 * reader.
 */
#include "seriatim_native.h"

#include <string.h>

#define SPY_PATH_SIZE 256

/* ---- dump ------------------------------------------------------------------------------------ */

typedef struct json_dump {
    srt_json_writer writer;
    PyObject *refused; /* the rule that was broken and that only this binding knows, or NULL */
} json_dump;

static int json_write(json_dump *d, PyObject *value);

/* Nothing is written of a value that no rule covers; the path then still ends at it. */
static int json_refuse(json_dump *d, PyObject *rule)
{
    Py_XSETREF(d->refused, rule);
    return 0;
}

static int json_refuse_class(json_dump *d, PyObject *value, const char *rule)
{
    const char *name = Py_TYPE(value)->tp_name, *dot = strrchr(name, '.');
    return json_refuse(d, PyUnicode_FromFormat("%s %s", dot ? dot + 1 : name, rule));
}

typedef int (*json_put)(srt_json_writer *, const char *, size_t);

/* A lone surrogate goes to the writer as the bytes that it would have, and is refused there. */
static int json_put_surrogates(json_dump *d, PyObject *text, json_put put)
{
    PyObject *bytes;
    int status;
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        return 0;
    PyErr_Clear();
    bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
    if (!bytes)
        return 0;
    status = put(&d->writer, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return status == SERIATIM_OK;
}

static int json_put_text(json_dump *d, PyObject *text, json_put put)
{
    Py_ssize_t len;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &len);
    if (!bytes)
        return json_put_surrogates(d, text, put);
    return put(&d->writer, bytes, (size_t)len) == SERIATIM_OK;
}

static int json_write_object(json_dump *d, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    srt_json_made_of(&d->writer, dict);
    if (srt_json_begin_object(&d->writer) != SERIATIM_OK)
        return 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        if (!PyUnicode_Check(key))
            return json_refuse_class(d, key, "cannot be a key: keys must be str");
        if (!json_put_text(d, key, srt_json_key) || !json_write(d, value))
            return 0;
    }
    return srt_json_end_object(&d->writer) == SERIATIM_OK;
}

/* Of a list or a tuple. */
static int json_write_array(json_dump *d, PyObject *items)
{
    Py_ssize_t i;
    srt_json_made_of(&d->writer, items);
    if (srt_json_begin_array(&d->writer) != SERIATIM_OK)
        return 0;
    for (i = 0; i < PySequence_Fast_GET_SIZE(items); i++)
        if (!json_write(d, PySequence_Fast_GET_ITEM(items, i)))
            return 0;
    return srt_json_end_array(&d->writer) == SERIATIM_OK;
}

static int json_write_int(json_dump *d, PyObject *value)
{
    int beyond;
    long long number = PyLong_AsLongLongAndOverflow(value, &beyond);
    if (beyond)
        return json_refuse(d, PyUnicode_FromString("int must be from -2^63 to 2^63-1"));
    return srt_json_int(&d->writer, number) == SERIATIM_OK;
}

/* None of this runs code of the caller's, so nothing changes under its hands. */
static int json_write(json_dump *d, PyObject *value)
{
    if (PyUnicode_Check(value))
        return json_put_text(d, value, srt_json_string);
    if (value == Py_None)
        return srt_json_null(&d->writer) == SERIATIM_OK;
    if (PyBool_Check(value))
        return srt_json_bool(&d->writer, value == Py_True) == SERIATIM_OK;
    if (PyLong_Check(value))
        return json_write_int(d, value);
    if (PyDict_Check(value))
        return json_write_object(d, value);
    if (PyList_Check(value) || PyTuple_Check(value))
        return json_write_array(d, value);
    if (PyFloat_Check(value))
        return srt_json_double(&d->writer, PyFloat_AS_DOUBLE(value)) == SERIATIM_OK;
    return json_refuse_class(d, value, "cannot be written as JSON");
}

static PyObject *json_raise_invalid(json_dump *d, spy_state *state)
{
    char path[SPY_PATH_SIZE];
    size_t len = srt_json_writer_path(&d->writer, path, sizeof path);
    PyObject *where = spy_text(path, len), *rule, *text;
    if (d->refused)
        rule = Py_NewRef(d->refused);
    else
        rule = PyUnicode_FromString(d->writer.error.message);
    text = where && rule ? PyUnicode_FromFormat("%U%s%U", where, len ? ": " : "", rule) : NULL;
    Py_XDECREF(where);
    Py_XDECREF(rule);
    return spy_raise_named(state, "INVALID", text);
}

static PyObject *json_finish(json_dump *d, spy_state *state, const srt_bytes *out, int written)
{
    int status;
    if (PyErr_Occurred())
        return NULL;
    if (d->refused)
        return json_raise_invalid(d, state);
    status = srt_json_finish(&d->writer);
    if (status == SERIATIM_NOMEM)
        return PyErr_NoMemory();
    if (status != SERIATIM_OK || !written)
        return json_raise_invalid(d, state);
    return PyBytes_FromStringAndSize(out->data, (Py_ssize_t)out->len);
}

static void json_dump_init(json_dump *d, srt_bytes *out, const char *root)
{
    d->refused = NULL;
    srt_json_writer_init(&d->writer, out, root);
}

static void json_dump_free(json_dump *d)
{
    srt_json_writer_free(&d->writer);
    Py_XDECREF(d->refused);
}

/* dump(value, root): canonical JSON; root is what the path in an error begins with. */
PyObject *spy_dump(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    json_dump d;
    srt_bytes out;
    const char *root;
    PyObject *bytes;
    int written;
    if (spy_arity("dump", nargs, 2, 2) < 0 || spy_cstr(args[1], &root) < 0)
        return NULL;
    srt_bytes_init(&out, seriatim_default_allocator());
    json_dump_init(&d, &out, root);
    written = json_write(&d, args[0]);
    bytes = json_finish(&d, PyModule_GetState(module), &out, written);
    json_dump_free(&d);
    srt_bytes_free(&out);
    return bytes;
}

int spy_json_add(srt_bytes *out, PyObject *value)
{
    json_dump d;
    size_t before = out->len;
    int written;
    json_dump_init(&d, out, "");
    written = json_write(&d, value) && !d.refused && srt_json_finish(&d.writer) == SERIATIM_OK;
    json_dump_free(&d);
    if (written)
        return 1;
    out->len = before;
    PyErr_Clear();
    return 0;
}

/* ---- load ------------------------------------------------------------------------------------ */

/* 0; or -1, with an exception only for want of memory. */
static int json_next(srt_json_reader *r, srt_json_token *token)
{
    if (srt_json_next(r, token) == SERIATIM_OK)
        return 0;
    if (r->error.status == SERIATIM_NOMEM)
        PyErr_NoMemory();
    return -1;
}

static PyObject *json_read(srt_json_reader *r, srt_json_token *token);

static int json_read_item(srt_json_reader *r, srt_json_token *token, PyObject *list)
{
    PyObject *item = json_read(r, token);
    int status = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return status;
}

static PyObject *json_read_array(srt_json_reader *r, srt_json_token *token)
{
    PyObject *list = PyList_New(0);
    int status = list ? json_next(r, token) : -1;
    while (status == 0 && token->type != SRT_JSON_END_ARRAY) {
        status = json_read_item(r, token, list);
        if (status == 0)
            status = json_next(r, token);
    }
    if (status < 0)
        Py_CLEAR(list);
    return list;
}

static int json_read_member(srt_json_reader *r, srt_json_token *token, PyObject *dict)
{
    PyObject *key = PyUnicode_DecodeUTF8(token->text, (Py_ssize_t)token->len, NULL), *value = NULL;
    int status = key ? json_next(r, token) : -1;
    if (status == 0)
        value = json_read(r, token);
    status = value ? PyDict_SetItem(dict, key, value) : -1;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return status;
}

static PyObject *json_read_object(srt_json_reader *r, srt_json_token *token)
{
    PyObject *dict = PyDict_New();
    int status = dict ? json_next(r, token) : -1;
    while (status == 0 && token->type != SRT_JSON_END_OBJECT) {
        status = json_read_member(r, token, dict);
        if (status == 0)
            status = json_next(r, token);
    }
    if (status < 0)
        Py_CLEAR(dict);
    return dict;
}

/* The value that begins with the current token; leaves its last token current. */
static PyObject *json_read(srt_json_reader *r, srt_json_token *token)
{
    switch (token->type) {
    case SRT_JSON_BEGIN_ARRAY:
        return json_read_array(r, token);
    case SRT_JSON_BEGIN_OBJECT:
        return json_read_object(r, token);
    case SRT_JSON_STRING:
        return PyUnicode_DecodeUTF8(token->text, (Py_ssize_t)token->len, NULL);
    case SRT_JSON_INT:
        return PyLong_FromLongLong(token->integer);
    case SRT_JSON_DOUBLE:
        return PyFloat_FromDouble(token->number);
    case SRT_JSON_TRUE:
        Py_RETURN_TRUE;
    case SRT_JSON_FALSE:
        Py_RETURN_FALSE;
    default:
        Py_RETURN_NONE;
    }
}

PyObject *spy_json_read(srt_json_reader *reader)
{
    srt_json_token token;
    PyObject *value = json_next(reader, &token) == 0 ? json_read(reader, &token) : NULL;
    if (value && json_next(reader, &token) < 0) /* END */
        Py_CLEAR(value);
    return value;
}

/* load(bytes): what the JSON text says. */
PyObject *spy_load(PyObject *module, PyObject *bytes)
{
    srt_json_reader reader;
    PyObject *value;
    const char *data;
    size_t len;
    if (spy_data(bytes, &data, &len) < 0)
        return NULL;
    srt_json_reader_init(&reader, seriatim_default_allocator(), data, len);
    value = spy_json_read(&reader);
    if (!value && !PyErr_Occurred())
        spy_raise_named(PyModule_GetState(module), "UNDECODABLE",
                        spy_text(reader.error.message, strlen(reader.error.message)));
    srt_json_reader_free(&reader);
    return value;
}

/* check_json(bytes, root): raises Invalid for what a push would refuse of the text. */
PyObject *spy_check_json(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    const char *data, *root;
    seriatim_error error;
    size_t len;
    int status;
    if (spy_arity("check_json", nargs, 2, 2) < 0 || spy_data(args[0], &data, &len) < 0 || spy_cstr(args[1], &root) < 0)
        return NULL;
    status = srt_json_check(seriatim_default_allocator(), data, len, root, SRT_JSON_DEPTH, SRT_JSON_REFUSE, &error);
    if (status == SERIATIM_NOMEM)
        return PyErr_NoMemory();
    if (status != SERIATIM_OK)
        return spy_raise_named(PyModule_GetState(module), "INVALID", spy_text(error.message, strlen(error.message)));
    Py_RETURN_NONE;
}

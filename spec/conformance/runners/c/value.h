/* value.h - the JSON of the files as a tree, and the comparison of its values with what was found. */
#ifndef CONFORMANCE_VALUE_H
#define CONFORMANCE_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "seriatim.h"

/* Memory that is given back all at once. Whoever uses it holds the lock (conformance.h), or is the only thread. */
void *keep(size_t size);
seriatim_text keep_text(const char *data, size_t len); /* NUL-terminated, too */
void keep_nothing(void);

typedef enum value_kind {
    VALUE_NULL,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_DOUBLE,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_MAP
} value_kind;

typedef struct value {
    value_kind kind;
    seriatim_text text; /* NUL-terminated */
    int64_t integer;    /* INT, BOOL */
    double number;      /* INT, BOOL, DOUBLE */
    seriatim_text key;  /* of a member */
    struct value *first, *next;
    size_t count; /* of items or members */
} value;

/* NULL when the bytes are not JSON, or JSON that cannot be read. */
value *value_read(const char *data, size_t len);
/* The member of a map; NULL if the value is not a map or has no such member. */
const value *value_get(const value *map, const char *key);
const value *value_at(const value *list, size_t place);
double value_number(const value *v, double otherwise); /* also of "NaN", "Infinity", "-Infinity" */
int value_true(const value *v);
int value_says(const value *v, const char *word);
/* A text, {"hex"} or {"repeat", "times"}. */
seriatim_text value_bytes(const value *v);
/* As canonical JSON. */
seriatim_text value_canonical(const value *v);

int text_equal(seriatim_text a, seriatim_text b);
int text_compare(seriatim_text a, seriatim_text b);
int text_has(seriatim_text text, seriatim_text part);

/* What was wrong in one check; empty when it passed. */
typedef struct check {
    char wrong[2048];
    size_t len;
    double start; /* T */
} check;

void wrong(check *c, const char *format, ...);

/* What was found: nothing, a number, or a text. */
typedef struct found {
    enum { FOUND_NOTHING, FOUND_NUMBER, FOUND_TEXT } kind;
    double number;
    seriatim_text text;
} found;

found found_nothing(void);
found found_number(double number);
found found_text(seriatim_text text);
found found_word(const char *word); /* NULL: nothing */
void compare(check *c, const value *wanted, found f, const char *where);
/* A payload as it lies in Redis. */
void compare_payload(check *c, const value *wanted, seriatim_text bytes, int raw, const char *where);

double unix_time(void);
void pause_seconds(double seconds);

#endif

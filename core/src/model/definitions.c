/* definitions.c - the rows of seriatim/definitions.h as data, for bindings that read and call by name. */
#include "seriatim/binding/names.h"
#include "seriatim/binding/settings.h"

#include <stddef.h>
#include <string.h>

#define NAME_TEXT "text"
#define NAME_WORD "word"
#define NAME_COUNT "integer"
#define NAME_SECONDS "seconds"
#define NAME_FLAG "flag"

/* The two defaults of a row: a number and a word. */
#define INITIAL_TEXT(value) 0, NULL
#define INITIAL_WORD(value) 0, value
#define INITIAL_COUNT(value) value, NULL
#define INITIAL_SECONDS(value) value, NULL
#define INITIAL_FLAG(value) value, NULL

#define ROW(kind, name, field, least, most, initial, words, use)                                                       \
    {                                                                                                                  \
        name, NAME_##kind, SERIATIM_SETTING_##kind, SERIATIM_USE_##use, least, most, words, INITIAL_##kind(initial),   \
            offsetof(seriatim_queue_settings, field)                                                                   \
    }

static const seriatim_setting settings_rows[] = {ROW(TEXT, "queue_name", name, 1, 512, NULL, NULL, PLAIN),
#define X(kind, name, low, least, high, initial, words, use) ROW(kind, #name, name, least, high, initial, words, use),
                                                 SERIATIM_OWN_SETTINGS(X) SERIATIM_QUEUE_SETTINGS(X)
#undef X
};

const seriatim_setting *seriatim_settings(size_t *count)
{
    *count = sizeof settings_rows / sizeof *settings_rows;
    return settings_rows;
}

void *seriatim_setting_field(seriatim_queue_settings *settings, const seriatim_setting *setting)
{
    return (char *)settings + setting->offset;
}

/* ---- Actions, queries, orders ---------------------------------------------------------------- */

#define X(number, name, ...) #name,
static const char *const action_names[] = {SERIATIM_ACTIONS(X)};
static const char *const query_names[] = {SERIATIM_QUERIES(X)};
#undef X
#define X(number, name) #name,
static const char *const order_names[] = {"none", SERIATIM_ORDERS(X)};
#undef X

#define SIZE_OF(names) (sizeof names / sizeof *names)

static int definitions_named(const char *const *names, size_t count, const char *name, size_t len)
{
    size_t i;
    for (i = 0; i < count; i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return (int)i;
    return -1;
}

int seriatim_action_named(const char *name, size_t len)
{
    return definitions_named(action_names, SIZE_OF(action_names), name, len);
}

int seriatim_query_named(const char *name, size_t len)
{
    return definitions_named(query_names, SIZE_OF(query_names), name, len);
}

int seriatim_order_named(const char *name, size_t len)
{
    return definitions_named(order_names, SIZE_OF(order_names), name, len);
}

const char *seriatim_action_name(int action)
{
    return action >= 0 && (size_t)action < SIZE_OF(action_names) ? action_names[action] : "none";
}

const char *seriatim_order_name(int order)
{
    return order_names[order > 0 && (size_t)order < SIZE_OF(order_names) ? order : SERIATIM_ORDER_NONE];
}

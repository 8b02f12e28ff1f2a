/* definitions.c - the rows of seriatim/definitions.h as data, for bindings that read by name. */
#include "seriatim/binding.h"

#include <stddef.h>

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

#define ROW(kind, name, field, least, most, initial, words, use)                                                 \
    {name,  NAME_##kind,            SERIATIM_SETTING_##kind, SERIATIM_USE_##use, least, most,                    \
     words, INITIAL_##kind(initial), offsetof(seriatim_queue_settings, field)}

static const seriatim_setting settings_rows[] = {
    ROW(TEXT, "queue_name", name, 1, 512, NULL, NULL, PLAIN),
#define X(kind, name, low, least, high, initial, words, use) ROW(kind, #name, name, least, high, initial, words, use),
    SERIATIM_OWN_SETTINGS(X)
    SERIATIM_QUEUE_SETTINGS(X)
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

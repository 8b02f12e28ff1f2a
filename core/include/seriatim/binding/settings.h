/* seriatim/binding/settings.h - the settings of a worker, by name. */
#ifndef SERIATIM_BINDING_SETTINGS_H
#define SERIATIM_BINDING_SETTINGS_H

#include "seriatim.h"

typedef enum seriatim_setting_kind {
    SERIATIM_SETTING_TEXT,    /* queue_name alone: name and name_len of the struct */
    SERIATIM_SETTING_WORD,    /* a const char * */
    SERIATIM_SETTING_COUNT,   /* an int64_t */
    SERIATIM_SETTING_SECONDS, /* a double */
    SERIATIM_SETTING_FLAG     /* an int, 0 or 1 */
} seriatim_setting_kind;

typedef enum seriatim_setting_use {
    SERIATIM_USE_PLAIN,
    SERIATIM_USE_OPTIONAL, /* a user may also write nil, which is the default and 0 in C */
    SERIATIM_USE_HIDDEN    /* no user sets it, the binding does */
} seriatim_setting_use;

/* One setting, as core/definitions/settings.json defines it. All texts are static and end with a NUL. */
typedef struct seriatim_setting {
    const char *name;
    const char *kind_name; /* "text", "word", "integer", "seconds", "flag" */
    int kind;              /* seriatim_setting_kind */
    int use;               /* seriatim_setting_use */
    double least, most;    /* what a user may write: a COUNT, SECONDS, or the bytes of a TEXT */
    const char *words; /* of a WORD: one after another, each with its NUL, an empty one behind the last; else NULL */
    double initial;    /* default of a COUNT, of SECONDS, of a FLAG */
    const char *initial_word; /* default of a WORD; NULL for the other kinds. A TEXT has no default */
    size_t offset;            /* of its field in seriatim_queue_settings */
} seriatim_setting;

/* All settings. A binding goes through them to check what its users write and to fill in the struct. Static. */
const seriatim_setting *seriatim_settings(size_t *count);
/* Where the setting lies in the struct: a pointer to the type that its kind names. */
void *seriatim_setting_field(seriatim_queue_settings *settings, const seriatim_setting *setting);

/* The place, from 1, of a word among those of the setting on_waiting; 0 for any other text and for NULL. */
int srt_on_waiting_place(const char *word);

#endif

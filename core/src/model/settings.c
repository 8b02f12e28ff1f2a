/*
 * settings.c - the settings that belong to a queue: checked, converted, written for Redis and read from it, compared.
 */
#include "model/settings.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct setting {
    const char *name, *words;
    int kind; /* seriatim_setting_kind */
    int64_t low, high;
    int use;              /* seriatim_setting_use */
    size_t given, stored; /* offsets in seriatim_queue_settings and in srt_settings */
} setting;

static const setting settings_table[] = {
#define X(kind, name, low, least, high, initial, words, use)                                                           \
    {#name,                                                                                                            \
     words,                                                                                                            \
     SERIATIM_SETTING_##kind,                                                                                          \
     low,                                                                                                              \
     high,                                                                                                             \
     SERIATIM_USE_##use,                                                                                               \
     offsetof(seriatim_queue_settings, name),                                                                          \
     offsetof(srt_settings, name)},
    SERIATIM_QUEUE_SETTINGS(X)
#undef X
};

#define SETTINGS_COUNT (sizeof settings_table / sizeof settings_table[0])
#define SETTINGS_DIGITS 32 /* room for a number as text */

void seriatim_queue_settings_init(seriatim_queue_settings *settings)
{
    memset(settings, 0, sizeof *settings);
#define X(kind, name, low, least, high, initial, words, use) settings->name = initial;
    SERIATIM_OWN_SETTINGS(X)
    SERIATIM_QUEUE_SETTINGS(X)
#undef X
}

/* ---- Words and fields ------------------------------------------------------------------------ */

/* The table's word that equals the text; NULL when no word does. *place, if wanted, counts from 1. */
static const char *find_word(const char *words, const char *text, size_t len, int *place)
{
    int at = 1;
    for (; *words; words += strlen(words) + 1, at++)
        if (strlen(words) == len && memcmp(words, text, len) == 0) {
            if (place)
                *place = at;
            return words;
        }
    return NULL;
}

static const char *waiting_word(const char *word, int *place)
{
    const setting *s = settings_table;
    while (strcmp(s->name, "on_waiting") != 0)
        s++;
    return word ? find_word(s->words, word, strlen(word), place) : NULL;
}

const char *srt_on_waiting_word(const char *word)
{
    return waiting_word(word, NULL);
}

int srt_on_waiting_place(const char *word)
{
    int place = 0;
    waiting_word(word, &place);
    return place;
}

static const char **word_of(srt_settings *settings, const setting *s)
{
    return (const char **)(void *)((char *)settings + s->stored);
}

static int64_t *number_of(srt_settings *settings, const setting *s)
{
    return (int64_t *)(void *)((char *)settings + s->stored);
}

/* ---- What a worker says ---------------------------------------------------------------------- */

static int refuse_word(const setting *s, const char *word, seriatim_error *error)
{
    char list[128] = "";
    const char *at;
    for (at = s->words; *at; at += strlen(at) + 1)
        if (strlen(list) + strlen(at) + 3 < sizeof list)
            strcat(strcat(list, *list ? ", " : ""), at);
    return srt_fail(error, SERIATIM_INVALID, "%s must be one of %s, not \"%.40s\"", s->name, list, word ? word : "");
}

static int read_word(srt_settings *settings, const setting *s, const char *word, seriatim_error *error)
{
    const char *known = word ? find_word(s->words, word, strlen(word), NULL) : NULL;
    if (!known)
        return refuse_word(s, word, error);
    *word_of(settings, s) = known;
    return SERIATIM_OK;
}

static int read_seconds(srt_settings *settings, const setting *s, double seconds, seriatim_error *error)
{
    if (!(seconds >= (double)s->low && seconds <= (double)s->high))
        return srt_fail(error, SERIATIM_INVALID, "%s must be from %lld (none) to %lld seconds", s->name,
                        (long long)s->low, (long long)s->high);
    *number_of(settings, s) = (int64_t)floor(seconds * 1e6);
    return SERIATIM_OK;
}

static int read_count(srt_settings *settings, const setting *s, int64_t value, seriatim_error *error)
{
    if (value < s->low || value > s->high)
        return srt_fail(error, SERIATIM_INVALID, "%s must be from %lld to %lld, not %lld", s->name, (long long)s->low,
                        (long long)s->high, (long long)value);
    *number_of(settings, s) = value;
    return SERIATIM_OK;
}

int srt_settings_read(srt_settings *settings, const seriatim_queue_settings *given, seriatim_error *error)
{
    size_t i;
    int status = SERIATIM_OK;
    for (i = 0; i < SETTINGS_COUNT && status == SERIATIM_OK; i++) {
        const setting *s = &settings_table[i];
        const void *field = (const char *)given + s->given;
        if (s->kind == SERIATIM_SETTING_WORD)
            status = read_word(settings, s, *(const char *const *)field, error);
        else if (s->kind == SERIATIM_SETTING_SECONDS)
            status = read_seconds(settings, s, *(const double *)field, error);
        else if (s->kind == SERIATIM_SETTING_COUNT)
            status = read_count(settings, s, *(const int64_t *)field, error);
        else
            *number_of(settings, s) = *(const int *)field != 0;
    }
    return status;
}

/* ---- What Redis has -------------------------------------------------------------------------- */

void srt_settings_args(srt_request *r, const srt_settings *settings)
{
    srt_settings copy = *settings;
    size_t i;
    for (i = 0; i < SETTINGS_COUNT; i++) {
        const setting *s = &settings_table[i];
        srt_request_text(r, s->name);
        if (s->kind == SERIATIM_SETTING_WORD)
            srt_request_text(r, *word_of(&copy, s));
        else
            srt_request_int(r, *number_of(&copy, s));
    }
}

/* A number as srt_settings_args writes it, within the setting's range. */
static int take_number(srt_settings *settings, const setting *s, const srt_token *value)
{
    int64_t scale = s->kind == SERIATIM_SETTING_SECONDS ? 1000000 : 1, number = srt_token_int(value);
    size_t i;
    for (i = 0; i < value->len; i++)
        if (value->data[i] < '0' || value->data[i] > '9')
            return 0;
    if (value->len < 1 || number < s->low * scale || number > s->high * scale)
        return 0;
    *number_of(settings, s) = number;
    return 1;
}

static int take_one(srt_settings *settings, const setting *s, const srt_token *value)
{
    const char *word;
    if (s->kind != SERIATIM_SETTING_WORD)
        return take_number(settings, s, value);
    word = find_word(s->words, value->data, value->len, NULL);
    if (word)
        *word_of(settings, s) = word;
    return word != NULL;
}

static const setting *find_setting(const srt_token *name)
{
    size_t i;
    for (i = 0; i < SETTINGS_COUNT; i++)
        if (srt_token_is(name, settings_table[i].name))
            return &settings_table[i];
    return NULL;
}

int srt_settings_take(srt_settings *settings, const srt_token *list, size_t count, seriatim_error *error)
{
    srt_settings taken = *settings;
    size_t i;
    for (i = 0; i + 1 < count; i += 2) {
        const setting *s;
        if (list[i].type != SRT_STRING || list[i + 1].type != SRT_STRING)
            return srt_fail(error, SERIATIM_PROTOCOL, "the settings of the queue cannot be read");
        s = find_setting(&list[i]);
        if (s && !take_one(&taken, s, &list[i + 1]))
            return srt_fail(error, SERIATIM_UNSUPPORTED,
                            "the queue's %s in Redis is \"%.*s\", which this version does not know", s->name,
                            (int)(list[i + 1].len < 40 ? list[i + 1].len : 40), list[i + 1].data);
    }
    *settings = taken;
    return SERIATIM_OK;
}

/* ---- Differences ----------------------------------------------------------------------------- */

/* As a user writes it: seconds with at most six decimals, and "none" where a setting may be nil and is. */
static void add_value(srt_bytes *text, srt_settings *settings, const setting *s)
{
    int64_t number, rest, digit;
    if (s->kind == SERIATIM_SETTING_WORD) {
        srt_bytes_adds(text, *word_of(settings, s));
        return;
    }
    number = *number_of(settings, s);
    if (number == 0 && s->use == SERIATIM_USE_OPTIONAL) {
        srt_bytes_adds(text, "none");
        return;
    }
    if (s->kind != SERIATIM_SETTING_SECONDS) {
        srt_bytes_add_int(text, number);
        return;
    }
    srt_bytes_add_int(text, number / 1000000);
    rest = number % 1000000;
    if (rest)
        srt_bytes_addc(text, '.');
    for (digit = 100000; rest; rest %= digit, digit /= 10)
        srt_bytes_addc(text, (char)('0' + rest / digit));
}

size_t srt_settings_differences(srt_bytes *text, const srt_settings *first, const char *between,
                                const srt_settings *second)
{
    srt_settings a = *first, b = *second;
    size_t i, named = 0;
    for (i = 0; i < SETTINGS_COUNT; i++) {
        const setting *s = &settings_table[i];
        int same = s->kind == SERIATIM_SETTING_WORD ? *word_of(&a, s) == *word_of(&b, s)
                                                    : *number_of(&a, s) == *number_of(&b, s);
        if (same || s->use == SERIATIM_USE_HIDDEN) /* no user sets it, so a difference is not worth a warning */
            continue;
        srt_bytes_adds(text, named++ ? "; " : "");
        srt_bytes_adds(text, s->name);
        srt_bytes_adds(text, ": ");
        add_value(text, &a, s);
        srt_bytes_adds(text, between);
        add_value(text, &b, s);
    }
    return named;
}

void srt_settings_limits(const srt_settings *settings, srt_request *r)
{
    char action[16];
    size_t len = strlen(settings->on_exhausted);
    memcpy(action, settings->on_exhausted, len);
    action[len] = '+';
    srt_request_int(r, settings->max_retry_count);
    srt_request_arg(r, action, len + (settings->exhausted_hook != 0));
}

/*
 * settings.h - the settings that belong to a queue: kept in Redis beside its layout, the same for everybody who uses
 * it.
 */
#ifndef SRT_SETTINGS_H
#define SRT_SETTINGS_H

#include "wire/script.h"
#include "seriatim/binding/settings.h"

#define SRT_STORED_WORD const char * /* one of the table's words, static */
#define SRT_STORED_COUNT int64_t
#define SRT_STORED_SECONDS int64_t /* microseconds */
#define SRT_STORED_FLAG int64_t    /* 0 or 1 */

typedef struct srt_settings {
#define X(kind, name, ...) SRT_STORED_##kind name;
    SERIATIM_QUEUE_SETTINGS(X)
#undef X
} srt_settings;

/* Checks what a worker says and converts it. INVALID names the field. */
int srt_settings_read(srt_settings *settings, const seriatim_queue_settings *given, seriatim_error *error);

/* Adds name, value, name, value ... as the queue's hash in Redis holds them. */
void srt_settings_args(srt_request *r, const srt_settings *settings);
/*
 * Takes such a list over; names that this version does not know are passed over, and what the list does not name stays
 * as it is. UNSUPPORTED: a value that this version cannot act by; *settings is as it was.
 */
int srt_settings_take(srt_settings *settings, const srt_token *list, size_t count, seriatim_error *error);

/* Adds max_retry_count and on_exhausted, with '+' behind it if the queue has a hook, as claims and pops want them. */
void srt_settings_limits(const srt_settings *settings, srt_request *r);

/*
 * Appends what differs: "fold: list<between>merge; ttr: 2.5<between>none", the values of `first` in front. Settings
 * that only say what a process can do (exhausted_hook) are left out. Returns how many it named.
 */
size_t srt_settings_differences(srt_bytes *text, const srt_settings *first, const char *between,
                                const srt_settings *second);

/* Returns the static copy of a word that a caller gave ("keep", ...); NULL if no such word exists. */
const char *srt_on_waiting_word(const char *word);

#endif

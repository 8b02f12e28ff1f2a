/* definitions.h - written by script/embed from core/definitions/; do not edit. */
#ifndef SERIATIM_DEFINITIONS_H
#define SERIATIM_DEFINITIONS_H

/* clang-format off */
/*
 * X(kind, name, low, least, high, initial, words, use): low and high are what C takes, least is what a user may write at least;
 * each of the words of a WORD ends with a NUL; use is PLAIN, OPTIONAL (nil stands for 0) or HIDDEN (no user sets it).
 */
#define SERIATIM_QUEUE_SETTINGS(X) \
    X(WORD, fold, 0, 0, 0, "merge", "merge\0list\0last\0first\0", PLAIN) /* Which payloads of one id are kept while it waits. */ \
    X(WORD, on_waiting, 0, 0, 0, "keep", "keep\0earlier\0later\0replace\0reject\0unique\0", PLAIN) /* What a push to a waiting id does. */ \
    X(WORD, on_exhausted, 0, 0, 0, "bury", "bury\0park\0drop\0", PLAIN) /* What happens to an id whose retries are used up. */ \
    X(COUNT, max_retry_count, 0, 0, 1000000, 25, NULL, PLAIN) /* How often an id is retried; one more failure in a row is its last. */ \
    X(SECONDS, ttr, 0, 0.001, 31536000, 0, NULL, OPTIONAL) /* How long a delivery may run before its ids run again; nil: any time. 0: nil. */ \
    X(FLAG, serial_shards, 0, 0, 1, 0, NULL, PLAIN) /* Whether ids of one shard run one after another. */ \
    X(FLAG, exhausted_hook, 0, 0, 1, 0, NULL, HIDDEN) /* Whether the worker has a retries_exhausted of its own. */

#define SERIATIM_OWN_SETTINGS(X) \
    X(COUNT, shards_count, 0, 1, 4096, 5, NULL, PLAIN) /* How many parts the queue has, and the most servers that share it. 0: creates no queue and acts by Redis' settings alone. */ \
    X(COUNT, batch_size, 1, 1, 1000, 1, NULL, PLAIN) /* How many ids one call of perform gets at most. */ \
    X(COUNT, max_running, 0, 0, 100000, 0, NULL, PLAIN) /* How many ids of the worker run at once in one process; 0: no limit. */ \
    X(COUNT, priority, -1000000, -1000000, 1000000, 0, NULL, PLAIN) /* Which worker goes first under build_priority_scheduler: the higher one. */

/* clang-format on */

#endif

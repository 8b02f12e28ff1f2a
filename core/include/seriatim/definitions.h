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
    X(COUNT, max_retry_count, 0, 0, 1000000, 25, NULL, PLAIN) /* How often a failed id is retried; then on_exhausted says what happens. */ \
    X(SECONDS, ttr, 0, 0.001, 31536000, 0, NULL, OPTIONAL) /* How long a delivery may run before its ids run again; nil: no limit. 0: nil. */ \
    X(SECONDS, remember_score, 0, 0.001, 31536000, 0, NULL, OPTIONAL) /* How long jobs not scored above a run are refused; nil: never. 0: nil. */ \
    X(FLAG, serial_shards, 0, 0, 1, 0, NULL, PLAIN) /* Whether ids of one shard run one after another. */ \
    X(SECONDS, morgue_max_age, 0, 0.001, 3153600000, 0, NULL, OPTIONAL) /* How long a dead id is kept in the morgue; nil: for ever. 0: nil. */ \
    X(COUNT, morgue_max_count, 0, 1, 1000000000, 0, NULL, OPTIONAL) /* How many dead ids the morgue keeps; nil: all. 0: nil. */ \
    X(COUNT, history_per_id, 0, 0, 100, 0, NULL, PLAIN) /* How many of the last events of an id explain shows, for seven days; 0: none. */ \
    X(FLAG, exhausted_hook, 0, 0, 1, 0, NULL, HIDDEN) /* Whether the worker has a retries_exhausted of its own. */

#define SERIATIM_OWN_SETTINGS(X) \
    X(COUNT, shards_count, 0, 1, 4096, 5, NULL, PLAIN) /* How many parts the queue has, and the most servers that share it. 0: creates no queue and acts by Redis' settings alone. */ \
    X(COUNT, batch_size, 1, 1, 1000, 1, NULL, PLAIN) /* How many ids one call of perform gets at most. */ \
    X(COUNT, max_running, 0, 0, 100000, 0, NULL, PLAIN) /* How many ids of the worker run at once in one process; 0: no limit. */ \
    X(COUNT, priority, -1000000, -1000000, 1000000, 0, NULL, PLAIN) /* Which worker goes first under build_priority_scheduler: the higher one. */ \
    X(FLAG, assumed, 0, 0, 1, 0, NULL, HIDDEN) /* Whether the program chose none of the settings: then no push warns that Redis has others. */

/* X(NUMBER, name): the roles of the dashboard, each of which may do what those before it may, but for the last. */
#define SERIATIM_ROLES(X) \
    X(VIEWER, viewer) /* Reads. */ \
    X(OPERATOR, operator) /* Also runs, pauses and parks. */ \
    X(ADMIN, admin) /* Also kills and deletes, and pushes and consumes. */ \
    X(CONSUMER, consumer) /* Pushes and consumes over HTTP, and nothing else. */
#define SERIATIM_ROLES_COUNT 4

/*
 * X(NUMBER, name, takes, role): takes is NOTHING, IDS, PAYLOAD, HANDLE, HANDLE_AT, RECORD, SHARDS or QUEUE; role is who may do it in the
 * dashboard, ADMIN or OPERATOR; NONE: it has no route there.
 */
#define SERIATIM_ACTIONS(X) \
    X(PERFORM_NOW, perform_now, IDS, OPERATOR) /* Makes waiting ids that are due later due now; of a running id, the payloads that wait behind the run. retry_count does not change. */ \
    X(PERFORM_ALL_JOBS_NOW, perform_all_jobs_now, NOTHING, OPERATOR) /* Makes all waiting ids due now. */ \
    X(PERFORM_ALL_FAILED_JOBS_NOW, perform_all_failed_jobs_now, NOTHING, OPERATOR) /* Makes all ids that wait for a retry due now; delayed ids that never failed stay delayed. retry_count does not change. */ \
    X(PARK, park, IDS, OPERATOR) /* Parks the ids with all their payloads: they do not run until unpark. A running id is parked when its run ends. Returns how many of the ids were there, parked before or not. */ \
    X(UNPARK, unpark, IDS, OPERATOR) /* Moves parked ids back to the waiting ones, due now, as if they had never failed. */ \
    X(UNPARK_ALL, unpark_all, NOTHING, OPERATOR) /* Moves all parked ids back to the waiting ones, due now, as if they had never failed. */ \
    X(DELETE, delete, IDS, ADMIN) /* Deletes waiting and scheduled ids; a running id is not retried if it fails. */ \
    X(DELETE_ALL_FAILED_JOBS, delete_all_failed_jobs, NOTHING, ADMIN) /* Deletes all waiting ids that failed before. */ \
    X(KILL, kill, IDS, NONE) /* Moves waiting ids that failed before to the morgue; the others stay. */ \
    X(KILL_ALL_FAILED_JOBS, kill_all_failed_jobs, NOTHING, ADMIN) /* Moves all waiting ids that failed before to the morgue. */ \
    X(MORGUE_QUEUE_UP, morgue_queue_up, IDS, OPERATOR) /* Moves dead ids back to the waiting ones, due now; those of a running id wait behind its run, and a parked id stays parked. */ \
    X(MORGUE_QUEUE_UP_ALL_JOBS, morgue_queue_up_all_jobs, NOTHING, OPERATOR) /* Moves all dead ids back to the waiting ones, as morgue_queue_up does. */ \
    X(MORGUE_DELETE, morgue_delete, IDS, ADMIN) /* Deletes dead ids. */ \
    X(MORGUE_DELETE_ALL_JOBS, morgue_delete_all_jobs, NOTHING, ADMIN) /* Deletes all dead ids. */ \
    X(CANCEL, cancel, HANDLE, ADMIN) /* Deletes one payload, by the handle that its push returned, while it is scheduled, waits, is in back-off or parked; the id goes with its last one. False: it is being delivered, was delivered, is dead or no longer there. After a lost connection false may mean that this very call removed it. */ \
    X(RESCHEDULE, reschedule, HANDLE_AT, OPERATOR) /* Gives a payload that is scheduled, or waits and was never delivered, another deliver_at; one in the past means now. False: it is being delivered, was delivered, is dead or no longer there, or its id is parked or waits after a run that was not done. */ \
    X(DROP_PAYLOAD, drop_payload, PAYLOAD, ADMIN) /* Deletes one payload of a waiting or parked id, of equal ones the one with the lowest score; the id goes with its last one. Of a running id, one that waits behind the run. Returns 1, or 0 if no payload of the id is equal. After a lost connection 0 may mean that this very call removed it. */ \
    X(MORGUE_DROP_PAYLOAD, morgue_drop_payload, PAYLOAD, ADMIN) /* Deletes one payload of a dead id. Returns 1, or 0 if no payload of the id is equal. After a lost connection 0 may mean that this very call removed it. */ \
    X(PAUSE, pause, NOTHING, OPERATOR) /* Stops claims of the queue until resume; running jobs go on. Returns how many shards were not paused before. */ \
    X(RESUME, resume, NOTHING, OPERATOR) /* Undoes pause. Returns how many shards were paused. */ \
    X(RESHARD, reshard, SHARDS, ADMIN) /* Gives the queue another number of shards: its servers move its ids while it is in use, and the metrics say how far they are. Returns 1, or 0 if the queue has this number already or its ids are on their way to it. */ \
    X(IMPORT, import, RECORD, NONE) /* Adds payloads that another queue system held of one id, with their scores, time, retry_count and error, as waiting or dead. Returns 1, or 2 if this record was added before. */ \
    X(DELETE_QUEUE, delete_queue, QUEUE, NONE) /* Deletes the queue itself: layout, settings and, if its name is given, the ids that it holds. Refused while a node serves it. Returns 1. */
#define SERIATIM_ACTIONS_COUNT 23

/* X(NUMBER, name, form, descending): form is RANGE, FETCH or LIST; descending names the route of a RANGE that descends. */
#define SERIATIM_QUERIES(X) \
    X(RANGE_BY_ID, range_by_id, RANGE, rev_range_by_id) /* Waiting ids, in the order of their bytes. */ \
    X(RANGE_BY_PERFORM_IN, range_by_perform_in, RANGE, rev_range_by_perform_in) /* Waiting ids, in the order in which they become due. */ \
    X(RANGE_BY_RETRY_COUNT, range_by_retry_count, RANGE, rev_range_by_retry_count) /* Waiting ids that failed, in the order of their retry_count. */ \
    X(FETCH, fetch, FETCH, none) /* The given ids that wait, are parked or have scheduled payloads, in the given order; unknown ones are left out. */ \
    X(MORGUE_RANGE_BY_ID, morgue_range_by_id, RANGE, morgue_rev_range_by_id) /* Dead ids, in the order of their bytes. */ \
    X(MORGUE_RANGE_BY_UPDATED_AT, morgue_range_by_updated_at, RANGE, morgue_rev_range_by_updated_at) /* Dead ids, in the order of their last death. */ \
    X(MORGUE_FETCH, morgue_fetch, FETCH, none) /* The given ids that are dead, in the given order; unknown ones are left out. */ \
    X(PROCESSING_DATA, processing_data, LIST, none) /* Running ids, in the order of their bytes. */ \
    X(PARKED, parked, LIST, none) /* Parked ids, in the order in which they were parked. */ \
    X(RANGE_BY_DELIVER_AT, range_by_deliver_at, LIST, none) /* Scheduled payloads, a record for each of them, in the order of deliver_at, then of their pushes. */
#define SERIATIM_QUERIES_COUNT 10

/* X(NUMBER, name) */
#define SERIATIM_ORDERS(X) \
    X(QUIET, quiet) /* The node claims nothing more; what runs goes on. */ \
    X(STOP, stop) /* The node finishes what runs within its deadline, hands the rest back and leaves. */
#define SERIATIM_ORDERS_COUNT 2

/* X(kind, name, key): kind is INTEGER, SECONDS (the heartbeat has milliseconds) or TEXT; see seriatim_living_node. */
#define SERIATIM_NODE_FIELDS(X) \
    X(TEXT, language, "language") /* Programming language of its workers and its version, "ruby 3.1.2"; "c" of a host in C. */ \
    X(TEXT, version, "version") /* Version of Seriatim that it runs, "0.1.0". */ \
    X(INTEGER, threads, "threads") /* Number of threads that run jobs. */ \
    X(INTEGER, since, "since") /* Unix time in seconds, by its own clock, at which it started. */ \
    X(INTEGER, rss, "rss") /* Resident memory of its process in bytes. */ \
    X(SECONDS, clock_skew, "skew_ms") /* Seconds that its clock is ahead of the clock of Redis. */

/* X(NUMBER, name): the fields of a job. */
#define SERIATIM_JOB_FIELDS(X) \
    X(ID, id) \
    X(PAYLOAD, payload) \
    X(SCORE, score) \
    X(PERFORM_IN, perform_in) \
    X(PERFORM_AT, perform_at) \
    X(DELAY, delay) \
    X(ON_WAITING, on_waiting) \
    X(CONTEXT, context) \
    X(RETRY_COUNT, retry_count) \
    X(DELIVER_AT, deliver_at) \
    X(DELIVER_IN, deliver_in)

/* clang-format on */

#endif

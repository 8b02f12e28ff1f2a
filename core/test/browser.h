/* browser.h - a browser of the dashboard on a real redis-server: what it asks, what answers show, and jobs for it. */
#ifndef SRT_TEST_BROWSER_H
#define SRT_TEST_BROWSER_H

#include "client/client.h"
#include "server.h"

extern struct browser {
    seriatim_link *link;
    seriatim_client *client;
    seriatim_web_settings settings;
    seriatim_web_request request;
    seriatim_web_hooks hooks;
    int64_t history; /* history_per_id of workers */
    const seriatim_web_response *response;
    void (*meanwhile)(void); /* NULL, or what is done whenever it waits */
    char text[1 << 20];      /* the last body, NUL-terminated */
} browser;

seriatim_text text_of(const char *text);
/* A new browser, which asks this Redis. */
void browse_at(const char *url);
/* The same of the server, which is empty. */
void open_browser(void);
/* Another process measures the queues for the next seconds, so looking at the dashboard writes nothing. */
void another_measures(void);
int drive_browser(void);
/* Asks for PATH[?QUERY] and returns the status. */
int ask(const char *method, const char *target, const char *body);
void get(const char *target);
/* As `get`, by a browser that comes for the first time. */
void get_first(const char *target);
void shows(const char *part);
size_t queue_of(seriatim_client *client, const char *name, int64_t shards);
seriatim_job job_of(const char *id, size_t len, const char *payload, size_t payload_len, double delay);
/* By a client of its own, as an application would. */
void push_job(const char *name, const seriatim_job *job);
void push_plain(const char *name, const char *id, size_t len, const char *payload, size_t payload_len, double delay);
void push_text(const char *name, const char *id, const char *payload, double delay);
/* Pushes `count` ids, 0 and so on, with a payload each, onto the queue Q. */
void push_ids(int count);
/* An id that has failed and waits for its next run. */
void push_failed_id(const char *id, double delay);
/* At this many seconds from now; it is not there before. */
void push_scheduled(const char *name, const char *id, double seconds);
/* The next text behind this name in the answer; empty: no more. In the order of calls until the next `get`. */
const char *next_member(const char **at, const char *name);
/* A route's pattern with words in the places of its names. */
const char *path_of(const char *pattern);
#define KEY31 "0000000000000000000000000000000"
#define KEY "0" KEY31

/* By a client of its own, as `seriatim queues delete` does. */
void delete_queue(const char *name);
/* Pushes two ids onto Q: one named as the queue, due now, and "2", due in 1,000 s. */
void push_two(void);
typedef struct worker {
    seriatim_runner *runner;
    seriatim_delivery *held;
} worker;

worker start_worker(const char *name, int64_t retries);
seriatim_delivery *take_one(const worker *w);
/* Starts a worker, which takes a job and keeps it until stop_worker. */
worker hold_one(const char *name, int64_t retries);
/* Runs one id, which fails with this error; "NUMBER" in it becomes a number. */
void fail_one(const worker *w, const char *error, double retry_in);
void stop_worker(worker *w);
/* `count` ids of Q fail and wait for a retry that is far off. */
void fail_ids(const char *error, int count);
void fingerprint_of(const char *error, char fingerprint[17]);
/* Its line, NUL-terminated. */
const char *line_of(const seriatim_web_change *change);
void told(const char *line);
/* Follows the cursors of a page to its end, from one or NULL; the number of records. */
int walk_from(const char *target, const char *cursor, const char *first, const char *last);
/* On a busy machine a page may end before all ids are read, which it says; then their order is not of the whole. */
int walk(const char *target, const char *first, const char *last);
enum { LOADED_IDS = 1500 };
enum { SPREAD_SHARDS = 24, SPREAD_FAR = 12, SPREAD_IDS = 30000, SPREAD_HOT = 5, SPREAD_PAYLOADS = 400 };

int64_t member(const char *name);
seriatim_text hide(void *context, seriatim_text queue, seriatim_text id, seriatim_text text);
int drops(const char *action, const char *id, const char *key);

#endif

/* web.h - a web request inside the core: parsed and routed once, then a chain of a client's operations, then a body. */
#ifndef SRT_WEB_H
#define SRT_WEB_H

#include "base/json.h"
#include "client/operator.h"
#include "web/assets.h"

/*
 * How long Redis may leave a web request without an answer: somebody snapshots at the page, and a change that was not
 * sent until then must not be carried out later. Shorter than the 5 s that mounts give a read, so that the cause is
 * told and not just that time is over.
 */
#define SRT_WEB_LIMIT_MS 4500
/*
 * How long a page waits for a slot of a Redis Cluster that moves: a small slot takes some milliseconds. Then its shard
 * is left out, and the answer names the slot.
 */
#define SRT_WEB_MOVING_MS 250
#define SRT_WEB_DONE 1            /* of a route's `next`: all is known */
#define SRT_WEB_LOADS 2           /* of a route's `next`: it needs w->hooks, so it is called again by the answer */
#define SRT_WEB_ROWS 100          /* records of an answer */
#define SRT_WEB_WHOLE 1048576     /* bytes of the payload that is asked for by its place */
#define SRT_WEB_SHOWN 4096        /* bytes of a text that are shown */
#define SRT_WEB_UNSURE 512        /* bytes at the end of a cut text in which a redaction may not know a secret */
#define SRT_WEB_PAYLOADS 20       /* of a record */
#define SRT_WEB_BYTES 4194304     /* of the payloads of a list, about */
#define SRT_WEB_SAMPLED 20000     /* ids that one sample of all shards of a queue reads at most, if it has the time */
#define SRT_WEB_READING_US 100000 /* how long a page reads what has no index, by Redis' clock */

typedef struct srt_web srt_web;
typedef struct srt_web_out srt_web_out;

/*
 * What a route does: `next` begins operation after operation (w->step counts them), `write` tells what came of them. An
 * operation finds the request it works for in c->web.
 */
typedef struct srt_web_handler {
    int (*next)(seriatim_client *c, srt_web *w);
    void (*write)(seriatim_client *c, srt_web *w, srt_web_out *out);
    int number; /* the handler's own */
    int flag;
    void (*text)(srt_web *w, srt_bytes *out); /* instead of `write`: no JSON */
    int uses;                                 /* SRT_WEB_ bits */
} srt_web_handler;

#define SRT_WEB_NAMES_WORKERS 1 /* the host's workers, which are kept until the answer */
#define SRT_WEB_TAKES_PAYLOAD 2 /* the body names one payload of an id */
#define SRT_WEB_SHOWS_FIGURES 4 /* of queues: they are measured before, when it is time */
#define SRT_WEB_TAKES_HANDLE 8  /* the body names one payload by its handle */
#define SRT_WEB_CONSUMES 16     /* pushes, pops or reports the result of a delivery; not told to the audit */
#define SRT_WEB_TAKES_SHARDS 32 /* the body has a number of shards */

/* A shard and a queue as overviews show them. */
typedef struct srt_web_shard {
    int64_t length, retries, busy, parked, dead, delayed, processed, failed, refused, pushed, paused;
    int64_t removed;   /* dead ids, by the queue's limits of the morgue */
    int64_t scheduled; /* payloads whose deliver_at has not come, or which no claim has moved yet */
    int64_t stale;     /* jobs that were refused or removed because of their score */
    int64_t lag_us;
    const char *owner;
    int owner_alive;
    int is_missing; /* Redis refused to read it: the figures say nothing */
    /* In a snapshot of all queues: what the figures hold for. */
    seriatim_text version; /* the shard's state before they were read; data NULL: it has none, or they were not read */
    int64_t soon_us, change_us, read_us;
} srt_web_shard;

typedef struct srt_web_row {
    seriatim_text name;
    int64_t generation;
    unsigned shards_count;    /* while ids move, of both numbers the larger one */
    seriatim_resharding move; /* from and to are the same if none do */
    srt_web_shard *shards;
    srt_web_shard gone;        /* the counters of shards that the queue had before it was given fewer */
    seriatim_text state;       /* of w->locate in this queue; empty: it does not wait, run or stand parked here */
    int is_dead, is_scheduled; /* as well */
    srt_web_shard total;       /* owner_alive, paused, is_missing: numbers of shards; lag: the largest */
} srt_web_row;

/* The figures of all queues at one moment, kept for the next request. */
typedef struct srt_web_snapshot {
    srt_arena memory;
    srt_web_row *rows; /* by name */
    size_t row_count, shard_count;
    int64_t now_us;
    double at; /* by the host's clock; 0: not to be shown again */
} srt_web_snapshot;

typedef struct srt_web_param {
    seriatim_text name, value;
} srt_web_param;

/* Of a request that measures the queues first. */
typedef struct srt_web_sampling {
    int64_t before_us; /* when the round before this one was begun, by any process; 0: not known */
    int granted, looking, written;
} srt_web_sampling;

struct srt_web {
    const seriatim_allocator *mem;
    srt_arena memory; /* of this request */

    /* The request. */
    const seriatim_web_route *route;  /* NULL: refused, or the page or a file of it */
    const seriatim_web_route *routes; /* all of them, */
    const srt_web_handler *handlers;  /* and what each does */
    size_t route_count;
    const srt_web_handler *handler;
    const srt_web_asset *asset;
    int is_same_version; /* the path of the file names the version that is served: what it names stays the same */
    int head, depth, role, read_only, consume;
    int host_waits;    /* of a pop: the number of polls that the host lets wait; 0: the operation waits */
    int64_t waited_ms; /* of a pop: for how long the host has waited */
    int wait_ms;       /* of its answer: after which the host asks again; 0: it is the last */
    int wants_html;    /* a person reads the answer: by the field Accept */
    int takes_gzip;    /* by the field Accept-Encoding */
    const char *title, *stalled;
    const char *allow;          /* methods of the path, when it is one of a route */
    seriatim_text worker, word; /* the pattern's :worker (as it was given, then its queue) and the one behind it */
    const seriatim_web_worker *workers; /* the host's, of routes that take or show their names */
    size_t worker_count;
    srt_web_param *params; /* of the query */
    size_t param_count;
    seriatim_text *ids; /* of the body */
    size_t id_count;
    int has_ids;
    seriatim_text cursor, id, key; /* of the body; the key of a payload, unpacked */
    seriatim_text handle, at;      /* of the body; a time as decimal text, data NULL: none is given */
    seriatim_text shards;          /* of the body: a number as decimal text; data NULL: none is given */
    int is_slice;                  /* of an action on a whole queue: a slice of it is asked for */
    int loads_errors;              /* the answer gets a load_error */

    /* What came of it. */
    srt_web_sampling *sampling;      /* in memory; NULL: it does not measure */
    int is_sampling;                 /* still: the handler comes next */
    int is_loading;                  /* the handler waits for the hooks */
    const seriatim_web_hooks *hooks; /* the host's, during an answer; else NULL */
    int step;
    int status; /* HTTP; 0: not decided yet */
    char error[256];
    char location[600];
    int is_there; /* Redis knows a queue named `worker` */
    size_t queue; /* its number in the client */
    srt_web_row *rows;
    size_t row_count;
    int64_t now_us;
    int64_t count;        /* what a change really did; -1: nothing that is known */
    int64_t total;        /* of an action in slices: what all slices did so far */
    int is_changing;      /* the operation under way is the change itself */
    int64_t done;         /* of a change that failed: what was done before */
    int is_unknown;       /* of a change that failed: Redis may have heard a request whose answer did not come */
    seriatim_text locate; /* rows tell of this id alone */
    void *found;          /* a scan, in memory */
    void *page;           /* the handler's own, in memory */

    srt_bytes body, line;
    seriatim_web_change change;
    char moving[200]; /* slots that were given up, as far as they fit */
    seriatim_web_header headers[12];
    size_t header_count;
    seriatim_web_response response;

    /* Kept from request to request: the names of the queues that Redis knows. */
    srt_arena names_memory;
    seriatim_text *names;
    size_t name_count;
    double names_at; /* by the host's clock; 0: never */
    size_t names_slices;
    srt_queue_names search;        /* of the names: of a request that failed, or under way */
    double search_at;              /* when it last went on, by the host's clock */
    double sampled_at;             /* when it last asked to measure, by the host's clock; 0: never */
    srt_web_snapshot snapshots[2]; /* the last, and the one before it or under way */
    int last_snapshot;
};

/* A body being written; the redaction is at hand wherever a text is. */
struct srt_web_out {
    srt_json_writer json;
    srt_bytes *body;
    const seriatim_web_hooks *hooks;
    int cut;       /* a text was longer than what is shown */
    int keys;      /* records tell the keys of their payloads */
    int64_t whole; /* the payload of each record, from 1, of which SRT_WEB_WHOLE are shown; 0: of none */
    size_t most;   /* bytes shown of the next text; 0: SRT_WEB_SHOWN */
};

/* ---- text.c, params.c, request.c ------------------------------------------------------------- */

/* routes.c: of each of seriatim_web_routes, in their order. */
const srt_web_handler *srt_web_handlers(void);
/* Decides what is asked and whether it is allowed; w->status tells of a refusal. OK or NOMEM. */
int srt_web_read(srt_web *w, const seriatim_web_settings *settings, const seriatim_web_request *request);
const char *srt_web_role_word(int role);
/* Says no; the message is for the user. Returns SRT_WEB_DONE. */
int srt_web_refuse(srt_web *w, int status, const char *format, ...) SRT_PRINTF(3, 4);
/* Of a change, unless it was refused: how much it really was. Returns SRT_WEB_DONE. */
int srt_web_done(srt_web *w, int64_t count);
/* The one worker of this name, or of this queue; NULL when no worker has it, or several do. */
const seriatim_web_worker *srt_web_worker_named(const srt_web *w, seriatim_text name);
const seriatim_web_worker *srt_web_worker_of(const srt_web *w, seriatim_text queue);
/* A field of the query; data NULL when it is absent. */
seriatim_text srt_web_param_of(const srt_web *w, const char *name);
int srt_web_word_is(seriatim_text text, const char *word);
/* Does the request ask for something that changes what is stored? */
int srt_web_changes(const srt_web *w);
/* A whole number of the query within its range, or `absent`. 0: it is refused. */
int srt_web_param_int(srt_web *w, const char *name, int64_t low, int64_t high, int64_t absent, int64_t *value);

/* ---- write.c ------------------------------------------------------------------------------- */

void srt_web_key(srt_web_out *out, const char *key);
void srt_web_int(srt_web_out *out, const char *key, int64_t value);
void srt_web_double(srt_web_out *out, const char *key, double value);
void srt_web_bool(srt_web_out *out, const char *key, int value);
void srt_web_null(srt_web_out *out, const char *key);
void srt_web_chars(srt_web_out *out, const char *key, const char *text); /* NUL-terminated */
/* Text, or {"base64": ...} where it is not UTF-8. key NULL: an element of an array. */
void srt_web_text(srt_web_out *out, const char *key, const char *text, size_t len);
/* The same, through the redaction, and at most SRT_WEB_SHOWN bytes of it. */
void srt_web_shown(srt_web_out *out, const char *key, seriatim_text queue, seriatim_text id, const char *text,
                   size_t len);
/*
 * The same of the beginning of a longer text that is not at hand: less of it, so that nothing is shown of a secret of
 * up to SRT_WEB_UNSURE bytes whose end is missing.
 */
void srt_web_beginning(srt_web_out *out, const char *key, seriatim_text queue, seriatim_text id, seriatim_text text);
/* The same of an error as it is stored: loaded, then through the redaction. */
void srt_web_stored_error(srt_web_out *out, const char *key, seriatim_text queue, seriatim_text id, const char *error,
                          size_t len);
/* The text of a stored error: what the host's load_error makes of it, if there is one. Of an id without an error: none.
 */
seriatim_text srt_web_load(const seriatim_web_hooks *hooks, seriatim_text stored);
/* How many bytes of a text are shown, of at most `most`: it is not cut inside a character. */
size_t srt_web_cut(seriatim_text text, size_t most);
void srt_web_record(srt_web_out *out, seriatim_text queue, const seriatim_record *record);
/* An array of what a query by deliver_at has found. */
void srt_web_write_payloads(srt_web_out *out, seriatim_text queue, const seriatim_record *records, size_t count);
void srt_web_base64(srt_bytes *out, const char *data, size_t len);

/* Members "cursor" and "more"; data NULL: there is no more. */
void srt_web_write_cursor(srt_web_out *out, seriatim_text cursor);

/* ---- names.c --------------------------------------------------------------------------------- */

/*
 * Finds the names of all queues; where names are known, it only goes on with the search for new ones. OK: begun,
 * perhaps at its end. SRT_WEB_DONE: the known names are new enough.
 */
int srt_web_names_begin(seriatim_client *c, srt_web *w);
/* After it has ended. */
int srt_web_names_take(seriatim_client *c, srt_web *w);

/* ---- queue_stats.c --------------------------------------------------------------------------- */

/*
 * Reads the figures of every shard of these queues into w->rows. snapshot: where they are kept; NULL: in the memory of
 * the request.
 */
int srt_web_queue_stats_begin(seriatim_client *c, srt_web *w, const seriatim_text *names, size_t count,
                              srt_web_snapshot *snapshot);
/* Two steps: the names, then their figures; then SRT_WEB_DONE. */
int srt_web_queue_stats_all(seriatim_client *c, srt_web *w);

/* ---- find.c ---------------------------------------------------------------------------------- */

/* Asks which of these queues Redis knows, of which `found` becomes 1. Both arrays must stay until the end. */
int srt_web_layouts_begin(seriatim_client *c, const seriatim_text *names, size_t count, int *found);
/*
 * Makes w->worker's queue known to the client, in two steps; three where it is a worker's name, which stands for the
 * worker's queue if no queue is named so. w->step moves on; refuses an unknown one with 404.
 */
int srt_web_find_queue(seriatim_client *c, srt_web *w);

/* ---- sample.c ------------------------------------------------------------------------------ */

/* Is it time to measure the queues, in front of the handler? */
int srt_web_sample_due(const seriatim_client *c, const srt_web *w);
/* As a handler's `next`. */
int srt_web_sample_next(seriatim_client *c, srt_web *w);

/* ---- metrics.c ----------------------------------------------------------------------------- */

void srt_web_metrics_text(srt_web *w, srt_bytes *out);

/* ---- records.c ----------------------------------------------------------------------------- */

/* Reads these ids of w->queue; kind: a fetch; payloads: of an id at most; most_bytes: as of srt_query_begin. */
int srt_web_fetch_begin(seriatim_client *c, srt_web *w, int kind, const srt_target *targets, size_t count,
                        int64_t payloads, int64_t most_bytes);

/* ---- api.c --------------------------------------------------------------------------------- */

/* Finds w->worker's queue and begins one operation on it, which does not make the queue. */
int srt_web_on_queue(seriatim_client *c, srt_web *w, int (*begin)(seriatim_client *, srt_web *));
/* The field "resharding": how far a move to another number of shards is, or null. */
void srt_web_write_move(srt_web_out *out, const srt_web_row *row);
void srt_web_write_row(srt_web_out *out, const srt_web_row *row);

/* ---- Handlers ------------------------------------------------------------------------------ */

#define SRT_WEB_HANDLER(name)                                                                                          \
    int srt_web_##name##_next(seriatim_client *c, srt_web *w);                                                         \
    void srt_web_##name##_write(seriatim_client *c, srt_web *w, srt_web_out *out);
SRT_WEB_HANDLER(stats)
SRT_WEB_HANDLER(dashboard)
SRT_WEB_HANDLER(scheduled)
SRT_WEB_HANDLER(range)
SRT_WEB_HANDLER(queue)
SRT_WEB_HANDLER(records)
SRT_WEB_HANDLER(id)
SRT_WEB_HANDLER(hottest)
SRT_WEB_HANDLER(ages)
SRT_WEB_HANDLER(bytes)
SRT_WEB_HANDLER(errors)
SRT_WEB_HANDLER(group)
SRT_WEB_HANDLER(running)
SRT_WEB_HANDLER(masters)
SRT_WEB_HANDLER(nodes)
SRT_WEB_HANDLER(search)
SRT_WEB_HANDLER(history)
SRT_WEB_HANDLER(consume_push)
SRT_WEB_HANDLER(consume_pop)
SRT_WEB_HANDLER(consume_outcome)
#undef SRT_WEB_HANDLER
/* masters.c: the slot of a shard in a cluster; -1: out of memory. */
int srt_web_shard_slot(const seriatim_client *c, seriatim_text queue, unsigned shard);
/* masters.c: the address of the master of a cluster that has the shard, as far as it fits; "": it is not known. */
void srt_web_shard_address(const seriatim_client *c, seriatim_text queue, unsigned shard, char *out, size_t cap);
int srt_web_act_next(seriatim_client *c, srt_web *w);
int srt_web_drop_next(seriatim_client *c, srt_web *w);
int srt_web_order_next(seriatim_client *c, srt_web *w);
void srt_web_count_write(seriatim_client *c, srt_web *w, srt_web_out *out);
int srt_web_handle_next(seriatim_client *c, srt_web *w);
int srt_web_shards_next(seriatim_client *c, srt_web *w);
int srt_web_metrics_next(seriatim_client *c, srt_web *w);
int srt_web_livez_next(seriatim_client *c, srt_web *w);
int srt_web_readyz_next(seriatim_client *c, srt_web *w);
void srt_web_well_write(seriatim_client *c, srt_web *w, srt_web_out *out);
int srt_web_consume_openapi_next(seriatim_client *c, srt_web *w);

#endif

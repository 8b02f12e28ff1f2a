/* ick.h - between the files of two-phase commit sets: the calls of one trip to Redis. */
#ifndef SRT_ICK_H
#define SRT_ICK_H

#include "client/operator.h"

typedef enum ick_kind { ICK_ADD, ICK_RESERVE, ICK_COMMIT, ICK_EXCHANGE, ICK_STATS, ICK_DELETE, ICK_IMPORT } ick_kind;

/* What the requests of an import ask for; a request of a script has ICK_SCRIPT. The number is request->kind. */
enum { ICK_SCRIPT, ICK_VERSION, ICK_SCAN };

/* A set that is called in the trip: its calls that were sent and have not ended. */
typedef struct ick_set {
    size_t open;
    ick_kind kind; /* of the last of them */
    int is_large;  /* the last of them may be several scripts */
} ick_set;

typedef struct ick_call {
    ick_kind kind;
    seriatim_text name, consumer;
    int64_t token;        /* of the reservations to commit */
    int64_t current;      /* that the first script of a reserve gave; 0: none was given yet */
    int64_t max_size, us; /* us: reserve_time */
    int backwash;
    const seriatim_ick_member *members; /* to add, or to commit */
    size_t count, sent;
    seriatim_text key; /* of an import */
    int checked;       /* an import has found that all members can be added, and reads them again to add them */
    int reserved_set;  /* an import reads the consumer set, and not the producer set */
    srt_bytes cursor;  /* of its scan */
    seriatim_ick_member *found;
    size_t found_cap;
    size_t asked; /* its requests that have no answer */
    ick_set *set;
    seriatim_ick_result *result;
} ick_call;

typedef struct ick_state {
    const seriatim_allocator *mem;
    srt_arena memory;
    ick_call *calls;
    size_t count, cap;
    seriatim_ick_result *results; /* one a call */
    size_t begun;                 /* calls before this one were sent */
    int open;                     /* begun, and not sent */
    srt_bytes keys;               /* of the request that is written */
} ick_state;

/* Gives the calls of each set their ick_set. Returns OK or NOMEM. */
int srt_ick_order(ick_state *s);
/* Sends what can be sent: see ick_may_send. */
int srt_ick_go_on(seriatim_client *c, ick_state *s);
int srt_ick_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply);

/* The next request of an import. */
int srt_ick_import_ask(seriatim_client *c, ick_state *s, ick_call *call);
/* The answer of a request whose kind is ICK_VERSION or ICK_SCAN. */
int srt_ick_import_take(seriatim_client *c, ick_state *s, ick_call *call, const srt_request *r, const srt_reply *reply);
/* A script of the set with its KEYS; consumer 1: the caller's reservations are among them. NULL: out of memory. */
srt_request *srt_ick_request(seriatim_client *c, ick_state *s, const ick_call *call, int script, int consumer);
int srt_ick_send(seriatim_client *c, const ick_state *s, ick_call *call, srt_request *r, int kind);

#endif

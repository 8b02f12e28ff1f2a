/* rb_link.h - a link as push and operators share it. */
#ifndef RB_LINK_H
#define RB_LINK_H

#include "seriatim_native.h"

typedef struct srb_link {
    seriatim_link *link; /* NULL: closed */
    int busy;            /* someone waits for an answer */
    int stepping;        /* a thread changes the link without the interpreter's lock */
} srb_link;

/* The link, which nobody else is using; raises. */
srb_link *srb_link_idle(VALUE self);
/* [place, ...] of the jobs that the push refused; [handle or nil, ...] of all its jobs, or []. */
VALUE srb_link_places(seriatim_client *client);
VALUE srb_link_handles(const seriatim_client *client);
/* Raises the client's error unless the status is OK. */
void srb_link_check(srb_link *box, int status);
/* Drives what was begun to its end, at most `limit` seconds (nil: as long as the core allows); gives its status. */
int srb_link_run(srb_link *box, VALUE limit);
/* The same; raises its failure. */
void srb_link_drive(srb_link *box, VALUE limit);

/*
 * rb_jobs.c: adds an Array of Hashes to the push that was begun. payloads: nil (they are written as JSON) or the bytes
 * of each; numbers: nil, or that of each job in its outbox. Without a link they are only checked. Raises the class of
 * :INVALID, naming jobs[i] and the field.
 */
void srb_jobs_push(srb_link *box, VALUE jobs, VALUE payloads, VALUE numbers);

/* rb_operators.c: queries and actions, as methods of Link. */
void srb_init_operators(VALUE link_class);

/* rb_pop.c: pop and what reports on it, as methods of Link. */
void srb_init_pop(VALUE link_class);
/* rb_ick.c: two-phase commit sets, as a method of Link. */
void srb_init_ick(VALUE link_class);

/* rb_web.c: the dashboard's requests, as a method of Link. */
void srb_init_web(VALUE link_class);

#endif

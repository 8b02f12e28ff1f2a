/*
 * stored.h - the numbers and letters by which states, records and runs are packed in Redis.
 *
 * The one definition for the core and for the scripts: script/embed writes each value into a script in the place of its
 * name without SRT_, so that the scripts pay nothing for the names. Offsets count from 0; the string functions of Lua
 * count from 1.
 */
#ifndef SRT_STORED_H
#define SRT_STORED_H

/* ---- A shard's state: 11 doubles, flags (B), 2 doubles, a number (H), a double, a byte, 2 doubles, a byte, the owner
 */

#define SRT_STATE_FORMAT "<dddddddddddBddHdBddB" /* of struct.pack; the owner follows */
#define SRT_STATE_TO_HELD "<ddddddddddd"         /* its first eleven */
#define SRT_STATE_PROCESSED 48                   /* offsets of the counters */
#define SRT_STATE_FAILED 56
#define SRT_STATE_REFUSED 64
#define SRT_STATE_PUSHED 72
#define SRT_STATE_HELD 80       /* ids in claims that are noted as a whole */
#define SRT_STATE_FLAGS 88      /* bits: */
#define SRT_STATE_DELIVERS 89   /* the smallest deliver_at of what is scheduled, in microseconds; 9e15: nothing is */
#define SRT_STATE_REMOVED 97    /* dead ids that the limits of the morgue removed */
#define SRT_STATE_HISTORY 105   /* history_per_id, as the last push, claim or pop said: a 16-bit number */
#define SRT_STATE_STALE 107     /* how many jobs were refused or removed because of their score */
#define SRT_STATE_REMEMBERS 115 /* 1: the queue has remember_score, as the last push with options or claim said */
#define SRT_STATE_ENDS 116      /* no run of a popper ends before this microsecond; 9e15: none runs */
#define SRT_STATE_ASLEEP 124    /* poppers sleep until then, as far as they know; 0: none sleeps */
/* Offset 132, a byte: a push claims its job for the owner while fewer ids than this are held; 0: no push does. */
/* the id of the node, to the end of the state; also the length of a state without an owner */
#define SRT_STATE_OWNER 133

#define SRT_FLAG_PAUSED 1     /* claims give nothing */
#define SRT_FLAG_DOUBTED 2    /* an id may be unproven or suspect */
#define SRT_FLAG_UNFINISHED 4 /* recover.lua has something to do */
#define SRT_FLAG_NOTICED 8    /* there are notices for retries_exhausted (notices.lua) */
#define SRT_FLAG_ALONE 16     /* of a shard of which one id runs at a time: a popper has it, and claims give nothing */
#define SRT_FLAG_SOURCE 32    /* ids leave the shard: it lies in another one by the new number of shards (turn.lua) */
#define SRT_FLAG_CHANGED 64   /* from this bit on: a number that operators' changes raise */

/* ---- A record: its first byte is a place plus a form ----------------------------------------- */

#define SRT_PLACE_READY 0 /* due since its push: in the ready list */
#define SRT_PLACE_DUE 1
#define SRT_PLACE_PARKED 2
#define SRT_PLACE_IN_DOUBT 3 /* unproven or suspect, as the mark says */
#define SRT_RECORD_PLACES 4  /* the first byte modulo this is the place */

#define SRT_RECORD_PLAIN 0    /* stamp, payload */
#define SRT_RECORD_SCORED 4   /* stamp, score, payload */
#define SRT_RECORD_FULL 8     /* the fields below, then the payloads */
#define SRT_RECORD_SPILLED 12 /* the fields below; the payloads lie in keys of their own */

#define SRT_PLAIN_BYTES 2000 /* a push leaves a payload of this length in the record; see LARGE in lib/record.lua */

#define SRT_RECORD_DUE 1   /* offset of the due time, a double; of a plain or scored record the stamp */
#define SRT_RECORD_RETRY 9 /* offset of the retry count, of a full or spilled record */

#define SRT_MARK_NONE 0
#define SRT_MARK_UNPROVEN 1 /* ran in a process that died */
#define SRT_MARK_SUSPECT 2  /* was unproven, and ran in a process that died */
#define SRT_MARK_EARLIER 4  /* behind a run: its due time was asked for by on_waiting "earlier" */
#define SRT_MARK_CUT 8      /* a bit beside the others: the rest of the error lies in the map */
/* a bit beside the others: a run of the id has ended, and some of its payloads may have been delivered */
#define SRT_MARK_DELIVERED 16
#define SRT_MARK_POPPED 32 /* a bit beside the others: the number of pops, 32 bits with a sign, ends the record */

/*
 * What stands before the context (JSON, which never begins so) of a payload whose score is its deliver_at: this byte
 * and that score, <d. Other payloads without a score of their own have stamp / 1e6.
 */
#define SRT_CONTEXT_DELIVERED 1
#define SRT_CONTEXT_HEAD 9 /* bytes */

/* ---- Run times: run_times.lua ---------------------------------------------------------------- */

#define SRT_TIMES_BUCKETS 52
/* Lengths of the steps in seconds, and how many of each are kept: an hour, a day and a week */
#define SRT_TIMES_FINE 60
#define SRT_TIMES_FINE_STEPS 60
#define SRT_TIMES_MIDDLE 1800
#define SRT_TIMES_MIDDLE_STEPS 48
#define SRT_TIMES_COARSE 10800
#define SRT_TIMES_COARSE_STEPS 56

/* ---- A run: a digit of bits, a letter, the fence of its claim -------------------------------- */

#define SRT_RUN_SPILLED 1  /* its record is spilled */
#define SRT_RUN_DELETED 2  /* an operator has deleted it: it is not to come back */
#define SRT_RUN_TO_PARK 4  /* it is to be parked when it ends */
#define SRT_RUN_TO_LEAVE 8 /* its id is to leave the shard when it ends (depart.lua) */

#define SRT_RUN_NORMAL 'n'
#define SRT_RUN_UNPROVEN 'u'
#define SRT_RUN_SUSPECT 's'
#define SRT_RUN_DIED 'o'    /* was a suspect, and its process died: it is to be failed */
#define SRT_RUN_LOST 'b'    /* no process has it: it is to come back */
#define SRT_RUN_UNITING 'm' /* has ended; its payloads are being united with those that came meanwhile */
#define SRT_RUN_POPPED 'p'  /* a popper has it, whoever owns the shard; its end lies in `overrun` */
#define SRT_RUN_PLAIN "0n"  /* what the run of an id of a claim noted as a whole begins with */

/* ---- An event of an id's history: kind (a byte), time in microseconds and a number (doubles), a text ---- */

#define SRT_HISTORY_MOST 100 /* the largest history_per_id */
#define SRT_EVENT_TEXT 1024  /* bytes of the text that are kept */
#define SRT_EVENT_HEAD 17    /* bytes before the text */

/* Its kind; behind each what the number is, where it has one, and the text. */
/* clang-format off */
/* definitions: events, written by script/embed from core/definitions/events.json */

#define SRT_EVENT_PUSHED 1 /* when it is due; 0: at once */
#define SRT_EVENT_FOLDED 2 /* when the id would be due for this push; 0: at once */
#define SRT_EVENT_REFUSED 3
#define SRT_EVENT_SCHEDULED 4 /* its deliver_at */
#define SRT_EVENT_ARRIVED 5 /* when it is due; 0: at once */
#define SRT_EVENT_CLAIMED 6 /* the fence; the text: the node */
#define SRT_EVENT_DONE 7 /* the fence */
#define SRT_EVENT_FAILED 8 /* when it is due again; 0: it is not; the text: the error */
#define SRT_EVENT_BURIED 9 /* how many payloads; the text: the error */
#define SRT_EVENT_DROPPED 10 /* by on_exhausted */
#define SRT_EVENT_PARKED 11 /* the text: the error, where on_exhausted parked it */
#define SRT_EVENT_UNPARKED 12
#define SRT_EVENT_REQUEUED 13 /* out of the morgue */
#define SRT_EVENT_DELETED 14
#define SRT_EVENT_DELETED_DEAD 15 /* out of the morgue */
#define SRT_EVENT_CHECKPOINT 16 /* how many payloads */
#define SRT_EVENT_SNOOZED 17 /* when it is due again */
#define SRT_EVENT_RETURNED 18 /* its run was handed back */
#define SRT_EVENT_RECOVERED 19 /* the process that ran it died */
#define SRT_EVENT_OVERRUN 20 /* its ttr was over: it is due again */
#define SRT_EVENT_CANCELLED 21 /* one payload was removed */
#define SRT_EVENT_RESCHEDULED 22 /* its new deliver_at */
#define SRT_EVENT_DUE_NOW 23 /* an operator made it due */
#define SRT_EVENT_STALE 24 /* how many payloads were refused or removed because of their score */
#define SRT_EVENT_POPPED 25 /* the fence */

/* end of definitions */
/* clang-format on */

/* What a claim asks for. */
#define SRT_CLAIM_READY 0
#define SRT_CLAIM_UNPROVEN 1
#define SRT_CLAIM_SUSPECT 2

/* Bits of what a claim says of the shard; a settle says the second one, and 1 where ids became ready. */
#define SRT_SAYS_PAUSED 1
#define SRT_SAYS_UNFINISHED 2
#define SRT_SAYS_NOTICED 4
#define SRT_SAYS_POSTPONED 8 /* a scheduled payload could not arrive, because the record of its id cannot be read */
#define SRT_SAYS_STALE 16    /* of a claim: once for each scheduled payload that was stale at its arrival */

/*
 * What a departure says of the ids that stay: how many run, or have a notice of a living node, and this much for each
 * whose record is broken.
 */
#define SRT_STAYS_BROKEN 1000

/* ---- What a client did last: push:CLIENT ------------------------------------------------------- */

/*
 * How long it is remembered, in milliseconds. A text, because Redis formats a number that a script gives to a command
 * by printf, which takes half as long as a command.
 */
#define SRT_PUSH_TOKEN_MS "60000"

/* ---- A two-phase commit set (an Ick) ----------------------------------------------------------- */

#define SRT_ICK_VERSION "ick.v2" /* "ick.v1" is what the Redis::Ick gem stores */
#define SRT_ICK_SLICE 1000       /* members that one call adds, ends, moves or lists, at most */
#define SRT_ICK_PART 100         /* members that a call reads at once of those that it moves or lists */
#define SRT_ICK_CONSUMERS 1000   /* consumers that may hold members of one set at once */
/*
 * Bytes of members after which a call adds, ends, moves or lists no more, so that Redis is not blocked for longer by
 * large members than by SRT_ICK_SLICE small ones. What a call moves or lists may be SRT_ICK_PART members larger.
 */
#define SRT_ICK_SLICE_BYTES 200000
#define SRT_ICK_LONGEST 86400000000 /* microseconds: the longest reserve_time */

#endif

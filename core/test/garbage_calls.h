/* garbage_calls.h - plausible calls of each script, whose arguments test_garbage spoils one by one. */
#ifndef SRT_TEST_GARBAGE_CALLS_H
#define SRT_TEST_GARBAGE_CALLS_H

#include "imported.h"

#define MAX_ARGS 24

/* Options of a pushed job: score 7, an hour later, 2 failures, `later`, a context. */
#define OPTIONS "\5\0\0\0\0\0\0\x1c\x40\0\0\0\0\x54\xd2\xea\x41\2\0\0\0\3{}"

/* Of a job that is scheduled for a microsecond later. */
#define SCHEDULED "\20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\377\377\377\377\0\0\0\0\0\0\0\360\77"

/* A stamp, packed. */
#define STAMP "ABCDEFGH"

/* A stamp and a score, packed. */
#define KEY "ABCDEFGH@@@@@@@@"

/* Text that makes a record outgrow what lies beside others: with another payload, and alone. */
#define TEXT64 "................................................................"
#define TEXT512 TEXT64 TEXT64 TEXT64 TEXT64 TEXT64 TEXT64 TEXT64 TEXT64
#define LONG TEXT512 TEXT512
#define LAST_KEY "CCCCCCCCCCCCCCCC" /* a stamp and a score that no payload is behind */
#define LONGER LONG LONG LONG

/* A double. */
#define NUMBER "\1\1\1\1\1\1\x10\x43"

/* What a batch holds of an id: a record with a score of its own (lib/parts.lua). */
#define PART " \x81\xa1j\xb2\4" NUMBER NUMBER "x"
/* Of jobs of the outbox o: its low-water mark, the number of one, and what foreign.lua says of it. */
#define MARKS                                                                                                          \
    " \x81\xa1l\x92\xa1o\xa1"                                                                                          \
    "5"
#define TAKEN " \x81\xa1u\x92\xa1o\xa8" NUMBER
#define NUMBERS "\x92\xa1o\xa8" NUMBER

/* An argument: text, or LEASE, SEEN, RUN (of the running id), RUN2, TOKEN (of a set's reservations). */
#define LEASE "\1lease"
#define SEEN "\1seen"
#define RUN "\1run"
#define RUN2 "\1run2"
#define POPPED "\1popped" /* the fence of the popped id */
#define TOKEN "\1token"

/*
 * A plausible call of each script, in several ways. keys: S the shard's, P with a push token, Q with that and an
 * outbox, N the nodes', O with an order, L the layout, H layout and history, T layout and run times, M who measures, I
 * a two-phase commit set's, J the same with a consumer.
 */
static const struct call {
    const char *name;
    char keys;
    const char *args[MAX_ARGS];
} calls[] = {
    {"acquire", 'S', {"1", "n2", "merge", "n1", LEASE}},
    {"acquire", 'S', {"1", "n1", "merge", "", LEASE, "run", RUN}},
    {"heartbeat", 'B', {"n1", "10000", "host", "seriatim:nodes"}},
    {"heartbeat", 'B', {"n1", "0", "host", "seriatim:nodes"}},
    {"browse", 'S', {"1", "waiting", "0", "50", "hot", ""}},
    {"browse", 'S', {"1", "running", "0", "50", "due", "r"}},
    {"browse", 'S', {"1", "dead", "0", "50", "errors", ""}},
    {"check", 'S', {"1", "jobs", "0", "1", "merge"}},
    {"check", 'S', {"1", "due", "0", "1", "merge"}},
    {"check", 'S', {"1", "ready", "0", "1", "merge", "a", "b"}},
    {"check", 'S', {"1", "spill", "0", "1", "merge", "hot", "a"}},
    {"check_nodes", 'N', {"1"}},
    {"check_types", 'S', {"1", "1"}},
    {"cancel", 'S', {"1", "hot", STAMP, ""}},
    {"cancel", 'S', {"1", "plan", STAMP, "1:0"}},
    {"check_events", 'S', {"1", "traced", "0", "1"}},
    {"check_events", 'S', {"1", "events", "0", "1", "hot"}},
    {"check_scheduled", 'S', {"1", "scheduled", "0", "1"}},
    {"check_scheduled", 'S', {"1", "sched", "0", "1", "plan"}},
    {"check_scheduled", 'S', {"1", "schedmap", "0", "1", "plan"}},
    {"check_scores", 'S', {"1", "scores", "0", "1"}},
    {"check_scores", 'S', {"1", "scoreends", "0", "1"}},
    {"claim", 'S', {"1", LEASE, SEEN, "5", "0", "0", "merge", "20", "3", "bury+"}},
    {"claim", 'S', {"1", LEASE, SEEN, "5", "0", "1000000", "merge", "2", "3", "bury+"}},
    {"claim", 'S', {"1", LEASE, SEEN, "5", "1", "0", "merge", "0", "3", "bury+"}},
    {"claim", 'S', {"1", LEASE, "7", "5", "0", "0", "merge", "100", "3", "bury+"}},
    {"claim", 'S', {"1", LEASE, SEEN, "5", "0", "0", "merge", "2", "3", "bury", "1"}},
    {"claim", 'S', {"1", LEASE, SEEN, "5", "0", "0", "merge", "2", "0", "bury+"}},
    {"claim", 'S', {"1", LEASE, SEEN, "5", "0", "0", "list", "0", "0", "drop+"}},
    {"dead_delete", 'S', {"1", "", "0", "", "bad"}},
    {"dead_delete", 'S', {"1", "0", "0", ""}},
    {"dead_requeue", 'S', {"1", "", "0", "merge", "bad"}},
    {"dead_requeue", 'S', {"1", "0", "0", "list"}},
    {"delete", 'S', {"1", "", "", "merge", "a", "hot", "run", "plan", "unknown"}},
    {"delete", 'S', {"1", "9e15", "", "merge", "plan"}},
    {"delete", 'S', {"1", "9e15 1 1000 2", "", "merge", "plan"}},
    {"delete_failed", 'S', {"1", "0", ""}},
    {"drop", 'S', {"1", "waiting", "hot", KEY}},
    {"drop", 'S', {"1", "dead", "bad", KEY}},
    {"import", 'S', {"1", "merge", "hot", IMPORTED("w")}},
    {"import", 'S', {"1", "last", "run", IMPORTED("w")}},
    {"import", 'S', {"1", "list", "new", IMPORTED("w")}},
    {"import", 'S', {"1", "list", "bad", IMPORTED("d")}},
    {"explain", 'S', {"1", "run"}},
    {"scheduled_page", 'S', {"1", "up", "-9000000000000000", "9000000000000000", "10", "", "", ""}},
    {"scheduled_page", 'S', {"1", "down", "0", "9000000000000000", "10", "4000000000000000", STAMP, "plan"}},
    {"scheduled_read", 'S', {"1", "payloads", "10", STAMP "plan"}},
    {"scheduled_read", 'S', {"1", "ids", "10", "plan", "hot"}},
    {"find", 'S', {"1", "waiting", "hot", "x", ""}},
    {"find", 'S', {"1", "waiting", "hot", "x", "1" KEY}},
    {"find", 'S', {"1", "waiting", "hot", "x", "2"}},
    {"find", 'S', {"1", "dead", "bad", "x", ""}},
    {"history", 'H', {"1000000000", "1", "2", "3", "4000000", "0"}},
    {"ick_add", 'I', {"5", "x", "1.5", "y", "-inf", "held"}},
    {"ick_add", 'I', {NULL}},
    {"ick_commit", 'J', {"me", TOKEN, "held", "again"}},
    {"ick_delete", 'I', {NULL}},
    {"ick_reserve", 'J', {"me", "", "3", "0", "30000000", "0", ""}},
    {"ick_reserve", 'J', {"me", "", "3", "0", "30000000", "1", TOKEN, "held", "again"}},
    {"ick_reserve", 'J', {"me", TOKEN, "3", "1", "30000000", "0", ""}},
    {"ick_stats", 'I', {NULL}},
    {"kill_failed", 'S', {"1", "0", "", "merge", "1", "failed", "run", "hot", "none"}},
    {"kill_failed", 'S', {"1", "0", "", "merge"}},
    {"kill_failed", 'S', {"1", "0", "", "merge", "1"}},
    {"layout", 'L', {"set", "0", "3", "fold", "list", "ttr", "5"}},
    {"list", 'S', {"1", "due", "up", "-inf", "+inf", "0", "10"}},
    {"list", 'S', {"1", "ready", "down", "-inf", "+inf", "0", "10"}},
    {"locate", '1', {"1", "run"}},
    {"metrics", 'S', {"1"}},
    {"nodes", 'N', {NULL}},
    {"order", 'O', {"n1", "stop", "seriatim:wake:n1"}},
    {"order", 'O', {"n1", "quiet", "seriatim:wake:n1"}},
    {"page", 'S', {"1", "due", "up", "-inf", "+inf", "", "10", "5", "a"}},
    {"page", 'S', {"1", "ready", "down", "-inf", "+inf", "", "10", "5", "a"}},
    {"park", 'S', {"1", "a", "hot", "run"}},
    {"pause", 'S', {"1"}},
    {"close", 'S', {"2"}},
    {"wipe", 'S', {"1", "1", "0"}},
    {"delete_queue", 'L', {"1", "delete"}},
    {"perform_failed", 'S', {"1", "0", ""}},
    {"perform_now", 'S', {"1", "0", ""}},
    {"perform_ids", 'S', {"1", "later", "run", "a"}},
    {"push", 'P', {"1", "8", "merge", "keep", "3", "3", "a", "x", "", "new", "y", "", "run", "z", ""}},
    {"push",
     'P',
     {"1", "8", "list", "earlier", "3", "100", "new", "x", OPTIONS, "a", "y", OPTIONS, "run", "z", OPTIONS, "hot", "w",
      OPTIONS}},
    {"push", 'P', {"1", "8", "merge", "keep", "2", "0", "a", "x", "new", "y", "run", "z"}},
    {"push",
     'P',
     {"1", "8", "list", "unique", "13", "3", "new", "x", SCHEDULED, "a", "y", "", "run", "z", SCHEDULED, "plan", "w",
      OPTIONS}},
    {"push",
     'P',
     {"1", "8", "list", "keep", "33", "3", "new", "x", SCHEDULED, "a", "y", OPTIONS, "run", "z", OPTIONS, "hot", "w",
      ""}},
    {"push", 'P', {"1", "8", "merge", "unique", "23", "2", "new", "x", OPTIONS, "a", "y", OPTIONS}},
    {"push", 'P', {"1", "8", "last", "reject", "3", "100", "hot", "x", "", "later", "y", OPTIONS}},
    {"push", 'P', {"1", "8", "list", "keep", "2", "0", "fresh", "y", "a", LONG}},
    {"push", 'P', {"1", "8", "list", "keep", "2", "3", "fresh", "y", "run2", LONG}},
    {"push", 'P', {"1", "8", "list", "keep", "2", "100", "fresh", "y", "new", LONGER}},
    {"push", 'P', {"1", "8", "list", "keep", "2 unless 0:1", "0", "fresh", "y"}},
    {"push", 'P', {"1", "8", "list", "keep", "43 unless 0:1,-:1", "3", "fresh", "y", OPTIONS, "run", "z", OPTIONS}},
    {"absent", 'S', {"1", "\x93\xa1x\xa3run\xa4plan"}},
    {"push_outbox", 'Q', {"1", "8", "list", "keep", "3", "3", "6", "a", "x", OPTIONS, "6", "new", "y", "", "7"}},
    {"push_outbox", 'Q', {"1", "8", "merge", "reject", "23 here", "0", "2", "a", "x", "", "5", "run", LONG, "", "9"}},
    {"pop", 'P', {"1", "8", "merge", "3", "30000000", "1000", "1", "0", "3", "bury", "0"}},
    {"pop", 'P', {"1", "8", "list", "0", "0", "2", "0", "0", "3", "bury+", "60000000"}},
    {"pop", 'P', {"1", "8", "last", "0", "1000000", "1", "1", "1", "0", "drop+", "60000000"}},
    {"pop", 'P', {"1", "8", "merge", "3", "30000000", "1000", "1", "0", "0", "bury+", "0"}},
    {"popped",
     'P',
     {"1", "8", "merge", "3", "ack", "popped", POPPED, "0", "", "3", "bury", "", "0", "60000000", "@@@@@@@@", "0"}},
    {"popped",
     'P',
     {"1", "8", "merge", "3", "ack", "popped", POPPED, "0", "", "3", "bury", KEY, "3", "60000000", "@@@@@@@@", "0"}},
    {"popped",
     'P',
     {"1", "8", "merge", "3", "fail", "popped", POPPED, "5000000", "wrong", "3", "bury", "", "0", "0", "", "0"}},
    {"popped",
     'P',
     {"1", "8", "merge", "0", "fail", "popped", POPPED, "", "wrong", "0", "bury+", "", "0", "0", "", "0"}},
    {"popped", 'P', {"1", "8", "list", "3", "release", "popped", POPPED, "0", "", "3", "park", "", "0", "0", "", "0"}},
    {"popped",
     'P',
     {"1", "8", "list", "3", "extend", "popped", POPPED, "5000000", "", "3", "park", "", "0", "0", "", "0"}},
    {"popped",
     'P',
     {"1", "8", "merge", "3", "snooze", "popped", POPPED, "5000000", LONGER, "3", "bury", LAST_KEY, "0", "0", "", "0"}},
    {"popped",
     'P',
     {"1", "8", "merge", "3", "checkpoint", "popped", POPPED, "0", "", "3", "bury", KEY, "3", "60000000", "@@@@@@@@",
      "0"}},
    {"popped",
     'P',
     {"1", "8", "merge", "3", "reject", "popped", POPPED, "0", "why", "3", "bury+", STAMP, "1", "0", "", "0"}},
    {"records", 'S', {"1", "waiting", "100", "0", "0", "0", "a", "hot"}},
    {"records", 'S', {"1", "waiting", "100", "0", "5", "900", "a", "hot"}},
    {"records", 'S', {"1", "dead", "100", "0", "0", "0", "bad"}},
    {"recover", 'S', {"1", LEASE, "merge", "0"}},
    {"release", 'S', {"1", LEASE, "seriatim:nodes"}},
    {"reschedule", 'S', {"1", "later", STAMP, "", "1e15", "0"}},
    {"resume", 'S', {"1"}},
    {"run_times", 'T', {"n1", "7", "1", "300", "0", "1", "3", "2"}},
    {"run_times", 'T', {"n2", "63", "2", "0"}},
    {"running", '1', {"10"}},
    {"scan", 'S', {"1", "waiting", "0"}},
    {"scan", 'S', {"1", "running", "0"}},
    {"settle", 'S', {"1", LEASE, "9", "merge", "1", RUN, "1", "run"}},
    {"settle",
     'S',
     {"1", LEASE, "9", "merge", "1", RUN, "1", "run", "fail", "run2", RUN2, "60000000", "wrong", "3", "bury"}},
    {"settle",
     'S',
     {"1", LEASE, "9", "merge", "0", "fail", "run", RUN, "60000000", "wrong", "0", "bury", "release", "run2", RUN2, "0",
      "", "0", ""}},
    {"settle",
     'S',
     {"1", LEASE, "9", "list", "0", "reject", "run", RUN, "0", "why", "1", "12345678", "extend", "run2", RUN2,
      "1000000", "", "0", ""}},
    {"settle",
     'S',
     {"1", LEASE, "9", "merge", "0", "fail", "run", RUN, "0", "wrong", "0", "park", "fail", "run2", RUN2, "0", "x", "0",
      "drop"}},
    {"settle", 'S', {"1", LEASE, "9", "merge", "2", RUN, "1", "run", RUN2, "-1"}},
    {"settle",
     'S',
     {"1", LEASE, "9", "merge", "0", "release", "run2", RUN2, "0", "", "0", "", "fail", "run", RUN, "0", LONGER, "9",
      "bury"}},
    {"settle",
     'S',
     {"1", LEASE, "9", "merge", "0", "fail", "run", RUN, "0", LONGER, "0", "bury", "fail", "run2", RUN2, "0", LONGER,
      "0", "bury"}},
    {"settle",
     'S',
     {"1", LEASE, "9", "merge", "0", "fail+", "run", RUN, "0", "wrong", "0", "bury", "fail+", "run2", RUN2, "0", "x",
      "0", "drop"}},
    {"settle",
     'S',
     {"1", LEASE, "9", "list", "0", "reject+", "run", RUN, "0", "why", "1", "12345678", "fail+", "run2", RUN2, "0", "x",
      "0", "park"}},
    {"settle",
     'S',
     {"1", LEASE, "9", "list", "0", "done", "run", RUN, "60000000", "@@@@@@@@", "0", "", "checkpoint", "run2", RUN2,
      "60000000", KEY, "1", "@@@@@@@@"}},
    {"settle",
     'S',
     {"1", LEASE, "9", "merge", "0", "done", "run2", RUN2, "60000000", "@@@@@@@@", "0", "", "snooze", "run", RUN,
      "60000000", "x", "0", STAMP}},
    {"slice", 'S', {"1", "run", RUN, "0"}},
    {"sample", '1', {"1", "1"}},
    {"sample_idle", 'H', {"0", "250"}},
    {"sampler", 'M', {"n1", "15000", "0"}},
    {"summary", '1', {"1"}},
    {"check_ick", 'I', {"about", "0", "1"}},
    {"check_ick", 'I', {"pset", "0", "0"}},
    {"check_ick", 'I', {"again", "0", "1"}},
    {"check_ick", 'I', {"held", "0", "1"}},
    {"check_ick", 'I', {"tokens", "0", "1"}},
    {"check_ick", 'I', {"ends", "0", "1"}},
    {"check_ick", 'J', {"cset", "0", "1", "me"}},
    {"check_notices", 'S', {"1", "tellers", "0", "1"}},
    {"check_notices", 'S', {"1", "told", "0", "1"}},
    {"check_outboxes", 'S', {"1", "outboxes", "0", "1"}},
    {"check_outboxes", 'S', {"1", "outbox", "0", "1", "o"}},
    {"tell", 'S', {"1", "n1", LEASE, "", "100", "n1", "n2"}},
    {"tell", 'S', {"1", "n2", LEASE, "12345678", "1"}},
    {"told", 'S', {"1", "n1", "12345678", "87654321"}},
    {"try_write", 'M', {NULL}},
    {"trim_morgue", 'S', {"1", LEASE, "1", "0"}},
    {"trim_morgue", 'S', {"1", LEASE, "0", "1"}},
    {"unpark", 'S', {"1", "parked", "run"}},
    {"unpark_all", 'S', {"1", "0"}},
    {"foreign", 'S', {"1", "jobs", "0"}},
    {"foreign", 'S', {"1", "notices", "0"}},
    {"foreign", 'S', {"1", "outboxes", "0"}},
    {"depart", 'S', {"1", "hot", "", "run", "!", "a", NUMBERS}},
    {"departed", 'S', {"1", "5", "hot"}},
    {"slice_out", 'S', {"1", "5", "hot", "w", "0"}},
    {"slice_in", 'S', {"1", "0", "5", "new", "s", "0", "", "merge"}},
    {"arrive", 'S', {"1", "0", "0", "5", "merge", "20", "", MARKS}},
    {"arrive", 'S', {"1", "0", "5", "5", "merge", "20", "new", PART, "hot", PART, "run", TAKEN}},
    {"out", 'S', {"1", "0"}},
    {"set_layout", 'L', {"", "1 4 3"}},
    {"turn", 'S', {"1 1 3", "0"}},
};
#define CALLS (sizeof calls / sizeof *calls)

#endif

/* imported.h - a record of another queue system, as import.lua takes it. */
#ifndef SRT_TEST_IMPORTED_H
#define SRT_TEST_IMPORTED_H

/* kind: "w" (it waits) or "d" (it is dead). Sequence 1, time 0, no failure, source "s", error "e", payload "p", score
 * 0. */
#define IMPORTED(kind)                                                                                                 \
    kind "\0\0\0\0\0\0\360\77\0\0\0\0\0\0\0\0\377\377\377\377\1\0\0\0s\1\0\0\0e\1\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0p"

#endif

/* record.h - reads an id's record as core/scripts/lib/record.lua packs it. */
#ifndef SRT_RECORD_H
#define SRT_RECORD_H

#include "base/bytes.h"
#include "model/stored.h"

typedef struct srt_record {
    unsigned place; /* SRT_PLACE_* */
    unsigned mark;  /* SRT_MARK_*, without the bit of SRT_MARK_CUT */
    int64_t due_us;
    int64_t retry_count;
    const char *error;
    size_t error_len;
    seriatim_payload *payloads; /* by score, then by arrival */
    size_t count, cap;
    size_t missing; /* payloads that lie in a zset of their own */
} srt_record;

/*
 * Reads a record. Texts point into `data`, arrays lie in the arena. SERIATIM_OK, SERIATIM_NOMEM, or SERIATIM_PROTOCOL
 * when the bytes are no record.
 */
int srt_record_read(srt_record *record, srt_arena *arena, const char *data, size_t len);
/* Appends the payloads of another record of the same id. */
int srt_record_join(srt_record *record, srt_arena *arena, const srt_record *more);
/* Appends packed entries as slice.lua returns them, and subtracts their number from `missing`. */
int srt_record_add(srt_record *record, srt_arena *arena, const char *data, size_t len);
/* The highest score that was given to one of the first `count` payloads. 0: none of them has a score of its own. */
int srt_record_score(const srt_record *record, size_t count, double *score);

/* A stamp or score as scripts take it: eight bytes, big-endian. */
void srt_number_pack(char *at, double number);
/* The number that srt_number_pack wrote. */
double srt_number_unpack(const char *at);

#define SRT_KEY 16 /* bytes that name a payload of an id: stamp, then score */

#endif

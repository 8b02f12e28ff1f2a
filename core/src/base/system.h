/* system.h - the clocks, the memory of the process and the text of an errno. */
#ifndef SRT_SYSTEM_H
#define SRT_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

/* A clock that never goes back, in milliseconds and in microseconds. */
int64_t srt_clock_ms(void);
int64_t srt_clock_us(void);
/* The wall clock, in microseconds since 1970. */
int64_t srt_clock_wall_us(void);
/* Resident memory of the process in bytes; 0 where the system does not tell. */
int64_t srt_resident_bytes(void);
/* The text of an errno, in buf or static; safe with threads. */
const char *srt_errno_text(int code, char *buf, size_t cap);

#endif

/* seriatim/binding/system.h - the clocks, the memory of the process and random bytes. */
#ifndef SERIATIM_BINDING_SYSTEM_H
#define SERIATIM_BINDING_SYSTEM_H

#include "seriatim.h"

/* A clock that never goes back, in milliseconds: what seriatim.h and these headers call now_ms, now or a deadline. */
int64_t srt_clock_ms(void);
/* The same clock in microseconds. */
int64_t srt_clock_us(void);
/* The wall clock, in microseconds since 1970. */
int64_t srt_clock_wall_us(void);
/* Resident memory of the process in bytes; 0 where the system does not tell. */
int64_t srt_resident_bytes(void);
/* Fills data with len random bytes of the system, fit for the id of a client or a node. OK, or IO with its text. */
int srt_random(void *data, size_t len, seriatim_error *error);

#endif

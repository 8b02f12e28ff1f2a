/* status.h - the names of status codes, and the error message that an object holds after a failure. */
#ifndef SRT_STATUS_H
#define SRT_STATUS_H

#include "seriatim.h"

#if defined(__GNUC__)
#define SRT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define SRT_PRINTF(fmt, args)
#endif

/* Writes status and message into error (which may be NULL) and returns status: `return srt_fail(...)`. */
int srt_fail(seriatim_error *error, int status, const char *format, ...) SRT_PRINTF(3, 4);
/* As srt_fail, with the general text of the status. */
int srt_fail_plain(seriatim_error *error, int status);
void srt_error_clear(seriatim_error *error);

#endif

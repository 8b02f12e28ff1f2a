/* system.h - the text of an errno, beside what seriatim/binding/system.h declares. */
#ifndef SRT_SYSTEM_H
#define SRT_SYSTEM_H

#include "seriatim/binding/system.h"

/* The text of an errno, in buf or static; safe with threads. */
const char *srt_errno_text(int code, char *buf, size_t cap);

#endif

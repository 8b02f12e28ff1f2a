/* system.h - the text of an errno and threads, beside what seriatim/binding/system.h declares. */
#ifndef SRT_SYSTEM_H
#define SRT_SYSTEM_H

#include "seriatim/binding/system.h"

#include <pthread.h>

/* The text of an errno, in buf or static; safe with threads. */
const char *srt_errno_text(int code, char *buf, size_t cap);
/* pthread_create with all signals blocked in the new thread, so that the host's own threads get them. 0, or an errno.
 */
int srt_thread_start(pthread_t *thread, void *(*main)(void *argument), void *argument);

#endif

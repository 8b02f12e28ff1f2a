/*
 * private_fixture.h - what test_private_redis and test_private_redis_faults share: folders, private Redises and their
 * processes.
 */
#ifndef SRT_TEST_PRIVATE_FIXTURE_H
#define SRT_TEST_PRIVATE_FIXTURE_H

#include <sys/types.h>

#include "seriatim/binding/private_redis.h"

char *make_private_folder(char *name);
void remove_private_folder(const char *name);
srt_private_redis *start_private(const char *folder);
/* How many processes hold this text among their arguments, and the pid of one: /proc, no ps. */
int count_processes(const char *folder, const char *word, pid_t *found);
/* Redis rewrites its title to "redis-server unixsocket:PATH", so the folder stays in sight. */
int count_redis(const char *folder);

#define SOON_MS 30000 /* less than 200 on a quiet machine; one that is left lives for ever */

/* Milliseconds until no Redis of this folder lives; fails the test after limit_ms. */
int64_t await_gone(const char *folder, int64_t limit_ms);
void assert_answer(const srt_private_redis *p, const char *command, const char *want);

/* A process of its own that uses the folder: says 'S' (started), 'J' (joined) or 'E', then lives
   until it reads a byte (and releases) or is killed. */
typedef struct other {
    pid_t pid;
    int talk;   /* write a byte: release and end */
    int listen; /* its one letter */
} other;

other fork_other(const char *folder);
char letter_of(const other *o);
void end_other(other *o, int number);

#endif

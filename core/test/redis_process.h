/* redis_process.h - redis-servers of the C tests: each in a folder of its own, on a Unix socket or by a file of
 * settings. */
#ifndef SRT_TEST_REDIS_PROCESS_H
#define SRT_TEST_REDIS_PROCESS_H

#include <sys/types.h>

typedef struct redis_process {
    char folder[64], socket[80], url[96]; /* url: of the socket */
    pid_t pid;                            /* 0: it does not run */
} redis_process;

/* Makes the folder. 0, or -1. */
int redis_make_folder(redis_process *p);
/*
 * Starts redis-server on the socket, without snapshots. words: more of its command line, up to a NULL, at most 20;
 * NULL: none. What it prints goes to the file `log` in the folder. -1: no process could be started.
 */
int redis_run(redis_process *p, const char *const *words);
/* As redis_run, with these words alone. */
int redis_run_plain(redis_process *p, const char *const *words);
/* Until it answers PING on the socket, so after loading. 0; -1: it has ended, or did not answer for 60 s. */
int redis_wait(redis_process *p);
/* Sends the signal and waits for the end. */
void redis_end(redis_process *p, int signal_number);
/* Kills it if it runs, and removes the folder. 0, or -1. */
int redis_remove(redis_process *p);

#endif

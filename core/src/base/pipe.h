/* pipe.h - a pipe with which one thread wakes another that waits by poll(2). */
#ifndef SRT_PIPE_H
#define SRT_PIPE_H

/* A pipe without blocking, closed on exec. SERIATIM_IO: errno says why; srt_pipe_close closes what was opened. */
int srt_pipe_open(int fds[2]);
void srt_pipe_close(int fds[2]);  /* sets both to -1; they may be -1 already */
void srt_pipe_notify(int fds[2]); /* makes the reading end readable; any thread */
void srt_pipe_drain(int fds[2]);

#endif

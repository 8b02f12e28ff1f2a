/* private_state.h - shared by the files of the private Redis: private_folder.c, private_guard.c, private_redis.c. */
#ifndef SRT_PRIVATE_STATE_H
#define SRT_PRIVATE_STATE_H

#include "base/bytes.h"
#include "base/status.h"
#include "base/system.h"
#include "seriatim/binding/private_redis.h"
#include "net/transport.h"
#include "net/url.h"

#define PRIVATE_PAUSE_MS 5

/* What the guard reports to the process that started it: a letter and an errno. */
#define PRIVATE_WON 'W'  /* has the lock, Redis comes */
#define PRIVATE_LOST 'L' /* another Redis has the lock */
#define PRIVATE_BROKEN 'B'
#define PRIVATE_NO_EXEC 'X'

struct srt_private_redis {
    const seriatim_allocator *mem;
    srt_arena texts;
    const char *folder, *users, *lock, *log, *socket, *program;
    srt_bytes url_text;
    srt_url url;
    int users_fd; /* its shared flock is this process' use of Redis */
    int report;   /* where the guard that is starting for us reports, or -1 */
    int started;
    int64_t launch_at; /* earliest time of the next attempt to start */
};

/* ---- private_folder.c ------------------------------------------------------------------------ */

int srt_private_fail_errno(seriatim_error *error, int status, const char *what, const char *path, int code);
int srt_private_open_folder(srt_private_redis *p, const char *folder, seriatim_error *error);
/* Sets p->socket: folder/s.sock, or, where that is too long, a short path to which it is a link. */
int srt_private_choose_socket(srt_private_redis *p, seriatim_error *error);
int srt_private_make_url(srt_private_redis *p, seriatim_error *error);

/* ---- private_guard.c ------------------------------------------------------------------------- */

void srt_private_pause(int ms);
int srt_private_launch_guard(srt_private_redis *p, seriatim_error *error);

#endif

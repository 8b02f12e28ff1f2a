/* private_folder.c - the folder of the private Redis, and a path for its socket that is short enough. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#include "net/private_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

int srt_private_fail_errno(seriatim_error *error, int status, const char *what, const char *path, int code)
{
    char text[96];
    return srt_fail(error, status, "private Redis: %s %s: %s", what, path, srt_errno_text(code, text, sizeof text));
}

static const char *private_join(srt_private_redis *p, const char *head, const char *tail)
{
    size_t head_len = strlen(head), tail_len = strlen(tail);
    char *text = srt_arena_alloc(&p->texts, head_len + tail_len + 1);
    if (!text)
        return NULL;
    memcpy(text, head, head_len);
    memcpy(text + head_len, tail, tail_len + 1);
    return text;
}

/* Makes the folder and its missing parents, each mode 700. */
static int private_make_folder(const char *folder, seriatim_error *error)
{
    char path[PATH_MAX];
    size_t len = strlen(folder), i;
    int code = 0;
    if (len == 0 || len >= sizeof path)
        return srt_fail(error, SERIATIM_INVALID, "private Redis: the folder's path is %s", len ? "too long" : "empty");
    for (i = 1; i <= len; i++) {
        if (folder[i] != '/' && folder[i] != '\0')
            continue;
        memcpy(path, folder, i);
        path[i] = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST && code == 0)
            code = errno; /* of the first that could not be made; what counts is the last */
    }
    if (code != 0 && access(folder, F_OK) != 0)
        return srt_private_fail_errno(error, SERIATIM_INVALID, "cannot make folder", folder, code);
    return SERIATIM_OK;
}

static int private_check_folder(const char *folder, seriatim_error *error)
{
    struct stat info;
    if (stat(folder, &info) != 0)
        return srt_private_fail_errno(error, SERIATIM_INVALID, "cannot use folder", folder, errno);
    if (!S_ISDIR(info.st_mode))
        return srt_fail(error, SERIATIM_INVALID, "private Redis: %s is not a folder", folder);
    if (info.st_uid != geteuid())
        return srt_fail(error, SERIATIM_INVALID, "private Redis: %s belongs to another user", folder);
    if (info.st_mode & (S_IWGRP | S_IWOTH))
        return srt_fail(error, SERIATIM_INVALID, "private Redis: %s is writable by others", folder);
    return SERIATIM_OK;
}

int srt_private_open_folder(srt_private_redis *p, const char *folder, seriatim_error *error)
{
    char real[PATH_MAX];
    int status = private_make_folder(folder, error);
    if (status == SERIATIM_OK)
        status = private_check_folder(folder, error);
    if (status != SERIATIM_OK)
        return status;
    if (!realpath(folder, real))
        return srt_private_fail_errno(error, SERIATIM_INVALID, "cannot use folder", folder, errno);
    p->folder = srt_arena_copy(&p->texts, real, strlen(real));
    p->users = private_join(p, real, "/users");
    p->lock = private_join(p, real, "/lock");
    p->log = private_join(p, real, "/redis.log");
    if (!p->folder || !p->users || !p->lock || !p->log)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    return SERIATIM_OK;
}

/* Makes a folder of ours that nobody else can enter, or finds that it is one. */
static int private_own_folder(const char *path)
{
    struct stat info;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return 0;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
           (info.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/* What tells this folder from others in a short name: FNV-1a of its path. */
static uint64_t private_hash(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash;
}

/* The short path that the link in the folder names, if it can still be used. */
static const char *private_read_link(srt_private_redis *p, const char *link)
{
    char target[PATH_MAX], *slash;
    ssize_t len = readlink(link, target, sizeof target - 1);
    if (len <= 0 || (size_t)len > srt_url_socket_path_max() || target[0] != '/')
        return NULL;
    target[len] = '\0';
    slash = strrchr(target, '/');
    *slash = '\0';
    if (!private_own_folder(target))
        return NULL;
    *slash = '/';
    return srt_arena_copy(&p->texts, target, (size_t)len);
}

static int private_make_link(srt_private_redis *p, const char *link, const char *base)
{
    char folder[PATH_MAX], target[PATH_MAX + 8];
    int len = snprintf(folder, sizeof folder, "%s/seriatim-%lu-%016llx", base, (unsigned long)geteuid(),
                       (unsigned long long)private_hash(p->folder));
    if (len < 0 || (size_t)len + 7 > srt_url_socket_path_max() || !private_own_folder(folder))
        return 0;
    snprintf(target, sizeof target, "%s/s.sock", folder);
    (void)unlink(link); /* unfit, or private_read_link would have taken it */
    return symlink(target, link) == 0 || errno == EEXIST;
}

int srt_private_choose_socket(srt_private_redis *p, seriatim_error *error)
{
    const char *plain = private_join(p, p->folder, "/s.sock"), *runtime = getenv("XDG_RUNTIME_DIR");
    if (!plain)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    p->socket = plain;
    if (strlen(plain) <= srt_url_socket_path_max())
        return SERIATIM_OK;
    p->socket = private_read_link(p, plain);
    if (p->socket)
        return SERIATIM_OK;
    if (!(runtime && runtime[0] == '/' && private_make_link(p, plain, runtime)) && !private_make_link(p, plain, "/tmp"))
        return srt_fail(error, SERIATIM_INVALID,
                        "private Redis: the folder's path is too long for a Unix socket, and "
                        "neither XDG_RUNTIME_DIR nor /tmp has a short one");
    p->socket = private_read_link(p, plain);
    if (!p->socket)
        return srt_fail(error, SERIATIM_IO, "private Redis: no short path for the Unix socket");
    return SERIATIM_OK;
}

int srt_private_make_url(srt_private_redis *p, seriatim_error *error)
{
    srt_bytes_adds(&p->url_text, "unix://");
    srt_url_encode(&p->url_text, p->socket);
    srt_bytes_addc(&p->url_text, '\0');
    if (p->url_text.failed)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    return srt_url_parse(&p->url, p->mem, p->url_text.data, p->url_text.len - 1, error);
}

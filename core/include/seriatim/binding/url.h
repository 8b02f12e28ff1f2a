/* seriatim/binding/url.h - a Redis URL taken apart. */
#ifndef SERIATIM_BINDING_URL_H
#define SERIATIM_BINDING_URL_H

#include "seriatim/binding/bytes.h"

typedef enum srt_url_kind { SRT_URL_TCP, SRT_URL_TLS, SRT_URL_UNIX, SRT_URL_SENTINEL, SRT_URL_CLUSTER } srt_url_kind;

#define SRT_URL_MAX_HOSTS 16
#define SRT_URL_MAX_BYTES 8192

typedef struct srt_url_host {
    const char *host;
    int port;
} srt_url_host;

/*
 * redis://[user[:password]@][host][:port][/db], rediss:// (the same over TLS),
 * unix://[user[:password]@]/path[?db=n],
 * redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/master[/db][?sentinel_user=...&sentinel_password=...]
 * and rediss+sentinel:// (the same over TLS, to sentinels and master alike),
 * redis+cluster://[user[:password]@]host[:port][,host[:port]...][/0] and rediss+cluster:// (the same over TLS); user
 * and password are Redis'. Texts are percent-decoded, NUL-terminated and never hold a NUL of their own; they live until
 * srt_url_free.
 */
typedef struct srt_url {
    const seriatim_allocator *mem;
    srt_url_kind kind;
    const char *user;     /* NULL: none given */
    const char *password; /* NULL: none given */
    const char *host;     /* TCP and TLS; an IPv6 address without its brackets; default 127.0.0.1; else NULL */
    const char *path;     /* Unix: the absolute path of the socket */
    int port;             /* TCP and TLS; default 6379 */
    int db;               /* default 0 */
    int tls;              /* TLS, and sentinels or a cluster over TLS */
    srt_url_host hosts[SRT_URL_MAX_HOSTS]; /* sentinels, default port 26379; or members of a cluster, 6379 */
    size_t host_count;
    const char *master;                            /* the name by which the sentinels know it */
    const char *sentinel_user, *sentinel_password; /* NULL: none given */
    char *block;                                   /* holds all the texts above */
    size_t block_size;
} srt_url;

/*
 * OK: *url owns its texts. INVALID: the message names the part and its rule and quotes nothing of
 * the URL, because a misplaced character can make a piece of the password look like any other part.
 * NOMEM. After a failure *url holds nothing to free, and
 * srt_url_free on it is harmless.
 */
int srt_url_parse(srt_url *url, const seriatim_allocator *mem, const char *text, size_t len, seriatim_error *error);
void srt_url_free(srt_url *url);

/* Appends the URL with *** in the place of every password, for logs. */
void srt_url_redact(const srt_url *url, srt_bytes *out);

/*
 * Writes the error of a connection that could not be made, and returns `status`: "cannot connect to URL: REASON". Where
 * Redis did not answer (IO, TIMEOUT), it also says what to do: start Redis, or correct url_from, the setting or
 * variable that holds the URL; NULL: it is not known. url: without its password.
 */
int srt_connect_error(seriatim_error *error, int status, const char *url, const char *reason, const char *url_from);

#endif

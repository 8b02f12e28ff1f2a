/*
 * sentinel.c - Sentinel discovery: asks the sentinels of a URL, one after another, for the master's address. It does no
 * I/O: its caller moves the bytes.
 */
#include "net/sentinel.h"

#include "wire/resp.h"

#include <stdio.h>
#include <string.h>

#define SENTINEL_MAX_HOST 255

struct seriatim_sentinel {
    const seriatim_allocator *mem;
    srt_url own; /* of one made by seriatim_sentinel_new */
    const srt_url *url;
    srt_bytes request;
    srt_reader *reader;
    size_t first; /* to be asked first: the one that answered last */
    int named;    /* it named a master, which has answered no request since */
    size_t asked; /* in this round */
    size_t current;
    size_t replies;                   /* of the current one */
    size_t refused;                   /* how many of this round refused the credentials */
    char why[96];                     /* the current one is of no use */
    char said[200];                   /* "host:port: why; ..." of those before it */
    char host[SENTINEL_MAX_HOST + 1]; /* the master's */
    seriatim_error error;
};

/* ---- Life ---------------------------------------------------------------------------------- */

static void sentinel_write_request(seriatim_sentinel *s)
{
    const srt_url *url = s->url;
    if (url->sentinel_password) {
        srt_resp_array(&s->request, url->sentinel_user ? 3 : 2);
        srt_resp_arg(&s->request, "AUTH", 4);
        if (url->sentinel_user)
            srt_resp_arg(&s->request, url->sentinel_user, strlen(url->sentinel_user));
        srt_resp_arg(&s->request, url->sentinel_password, strlen(url->sentinel_password));
    }
    srt_resp_array(&s->request, 3);
    srt_resp_arg(&s->request, "SENTINEL", 8);
    srt_resp_arg(&s->request, "GET-MASTER-ADDR-BY-NAME", 23);
    srt_resp_arg(&s->request, url->master, strlen(url->master));
}

seriatim_sentinel *srt_sentinel_create(const seriatim_allocator *mem, const srt_url *url)
{
    seriatim_sentinel *s = srt_alloc(mem, sizeof *s);
    if (!s)
        return NULL;
    s->mem = mem;
    s->own.mem = mem;
    s->url = url;
    srt_bytes_init(&s->request, mem);
    sentinel_write_request(s);
    if (s->request.failed) {
        seriatim_sentinel_free(s);
        return NULL;
    }
    return s;
}

int seriatim_sentinel_new(const seriatim_allocator *allocator, const char *text, seriatim_sentinel **sentinel,
                          seriatim_error *error)
{
    const seriatim_allocator *mem = allocator ? allocator : seriatim_default_allocator();
    srt_url url;
    int status;
    if (!text)
        return srt_fail(error, SERIATIM_INVALID, "the URL is missing");
    status = srt_url_parse(&url, mem, text, strlen(text), error);
    if (status != SERIATIM_OK)
        return status;
    if (url.kind != SRT_URL_SENTINEL) {
        srt_url_free(&url);
        return srt_fail(error, SERIATIM_INVALID, "Redis URL: the scheme is redis+sentinel:// or rediss+sentinel://");
    }
    *sentinel = srt_sentinel_create(mem, &url);
    if (!*sentinel) {
        srt_url_free(&url);
        return srt_fail_plain(error, SERIATIM_NOMEM);
    }
    (*sentinel)->own = url;
    (*sentinel)->url = &(*sentinel)->own;
    return SERIATIM_OK;
}

void seriatim_sentinel_free(seriatim_sentinel *s)
{
    if (!s)
        return;
    srt_reader_free(s->reader);
    if (s->request.data)
        memset(s->request.data, 0, s->request.cap); /* it may hold a password */
    srt_bytes_free(&s->request);
    srt_url_free(&s->own);
    srt_free(s->mem, s, sizeof *s);
}

/* ---- A round ------------------------------------------------------------------------------- */

void seriatim_sentinel_begin(seriatim_sentinel *s)
{
    s->first = (s->first + (size_t)s->named) % s->url->host_count;
    s->named = 0;
    s->asked = s->refused = 0;
    s->why[0] = s->said[0] = '\0';
    srt_error_clear(&s->error);
}

/* Appends the error of the current sentinel to those of the others, if there is room. */
static void sentinel_note(seriatim_sentinel *s)
{
    const srt_url_host *host = &s->url->hosts[s->current];
    size_t at = strlen(s->said);
    if (!s->why[0])
        return;
    snprintf(s->said + at, sizeof s->said - at, "%s%s:%d: %s", at ? "; " : "", host->host, host->port, s->why);
    s->why[0] = '\0';
}

static int sentinel_give_up(seriatim_sentinel *s)
{
    int status = s->refused == s->url->host_count ? SERIATIM_AUTH : SERIATIM_IO;
    return srt_fail(&s->error, status, "no sentinel names it: %s", s->said);
}

int seriatim_sentinel_next(seriatim_sentinel *s, seriatim_address *where)
{
    srt_reader *fresh;
    sentinel_note(s);
    if (s->asked == s->url->host_count)
        return sentinel_give_up(s);
    fresh = srt_reader_new(s->mem);
    if (!fresh)
        return srt_fail_plain(&s->error, SERIATIM_NOMEM);
    srt_reader_free(s->reader);
    s->reader = fresh;
    s->replies = 0;
    s->current = (s->first + s->asked++) % s->url->host_count;
    where->host = s->url->hosts[s->current].host;
    where->port = s->url->hosts[s->current].port;
    where->tls = s->url->tls;
    return SERIATIM_OK;
}

void seriatim_sentinel_output(const seriatim_sentinel *s, const char **data, size_t *len)
{
    *data = s->request.data;
    *len = s->request.len;
}

void seriatim_sentinel_failed(seriatim_sentinel *s, const char *why)
{
    char *at;
    snprintf(s->why, sizeof s->why, "%s", why ? why : "it cannot be asked");
    for (at = s->why; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = '?';
}

void seriatim_sentinel_served(seriatim_sentinel *s)
{
    s->named = 0;
}

const seriatim_error *seriatim_sentinel_error(const seriatim_sentinel *s)
{
    return &s->error;
}

/* ---- The answer ---------------------------------------------------------------------------- */

static int sentinel_fail(seriatim_sentinel *s, int status, const char *why)
{
    seriatim_sentinel_failed(s, why);
    return status;
}

/* Checks that this is an address or a name that may be given to getaddrinfo and written to a log. */
static int sentinel_host_fits(const srt_token *host)
{
    size_t i;
    if (host->type != SRT_STRING || host->len == 0 || host->len > SENTINEL_MAX_HOST)
        return 0;
    for (i = 0; i < host->len; i++)
        if (host->data[i] <= ' ' || host->data[i] > '~')
            return 0;
    return 1;
}

static int sentinel_take_address(seriatim_sentinel *s, const srt_reply *reply, seriatim_address *master)
{
    const srt_token *t = reply->tokens;
    int64_t port;
    if (t[0].type == SRT_NIL || (t[0].type == SRT_ARRAY && t[0].integer < 0))
        return sentinel_fail(s, SERIATIM_SERVER, "knows no master of that name");
    if (t[0].type != SRT_ARRAY || reply->count != 3 || !sentinel_host_fits(&t[1]) ||
        (port = srt_token_int(&t[2])) < 1 || port > 65535)
        return sentinel_fail(s, SERIATIM_PROTOCOL, "its answer is not an address");
    memcpy(s->host, t[1].data, t[1].len);
    s->host[t[1].len] = '\0';
    s->first = s->current;
    s->named = 1;
    master->host = s->host;
    master->port = (int)port;
    master->tls = s->url->tls;
    return SERIATIM_OK;
}

static int sentinel_take(seriatim_sentinel *s, const srt_reply *reply, seriatim_address *master)
{
    seriatim_error error;
    int greeting = s->url->sentinel_password && s->replies == 0;
    int status = srt_reply_status(&reply->tokens[0], &error);
    s->replies++;
    if (status != SERIATIM_OK) {
        s->refused += status == SERIATIM_AUTH;
        return sentinel_fail(s, status, reply->tokens[0].data);
    }
    return greeting ? SERIATIM_AGAIN : sentinel_take_address(s, reply, master);
}

int seriatim_sentinel_input(seriatim_sentinel *s, const char *data, size_t len, seriatim_address *master)
{
    seriatim_error error;
    srt_reply reply;
    int status;
    if (!s->reader || s->why[0])
        return SERIATIM_PROTOCOL;
    status = srt_reader_feed(s->reader, data, len);
    while (status == SERIATIM_OK) {
        status = srt_reader_next(s->reader, &reply, &error);
        if (status == SERIATIM_AGAIN)
            return status;
        if (status != SERIATIM_OK)
            break;
        status = sentinel_take(s, &reply, master);
        if (status != SERIATIM_AGAIN)
            return status;
        status = SERIATIM_OK;
    }
    return sentinel_fail(s, status, status == SERIATIM_NOMEM ? "out of memory" : "its answer cannot be read");
}

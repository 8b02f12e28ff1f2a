/* url.c - parses a Redis URL. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "net/url.h"

#include "base/status.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define URL_MAX_HOST 255
#define URL_DEFAULT_PORT 6379
#define URL_SENTINEL_PORT 26379
#define URL_DEFAULT_HOST "127.0.0.1"

/* A part of the URL's text. */
typedef struct url_span {
    const char *at, *end;
} url_span;

typedef struct url_parser {
    srt_url *url;
    char *free_at; /* where the next decoded text goes: the block is as long as the URL and a bit */
    seriatim_error *error;
} url_parser;

static int url_invalid(url_parser *p, const char *rule)
{
    return srt_fail(p->error, SERIATIM_INVALID, "Redis URL: %s", rule);
}

static int url_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int srt_url_is_alnum(char c)
{
    return url_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int url_hex(char c)
{
    if (url_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static const char *url_find(url_span span, char c)
{
    return span.at < span.end ? memchr(span.at, c, (size_t)(span.end - span.at)) : NULL;
}

static const char *url_find_last(url_span span, char c)
{
    const char *at = span.end;
    while (at > span.at)
        if (*--at == c)
            return at;
    return NULL;
}

/* Returns the place of the first character that is in `set`, or the end. */
static const char *url_find_any(url_span span, const char *set)
{
    while (span.at < span.end && !strchr(set, *span.at))
        span.at++;
    return span.at;
}

static int url_decode(url_parser *p, url_span span, const char *part, const char **out)
{
    char *to = p->free_at;
    *out = to;
    while (span.at < span.end) {
        char c = *span.at++;
        if (c == '%') {
            int high = span.end - span.at >= 2 ? url_hex(span.at[0]) : -1;
            int low = high >= 0 ? url_hex(span.at[1]) : -1;
            if (low < 0)
                return srt_fail(p->error, SERIATIM_INVALID, "Redis URL: %s: a %% is followed by two hexadecimal digits",
                                part);
            c = (char)(high * 16 + low);
            span.at += 2;
        }
        if (c == '\0')
            return srt_fail(p->error, SERIATIM_INVALID, "Redis URL: %s: NUL is not allowed", part);
        *to++ = c;
    }
    *to++ = '\0';
    p->free_at = to;
    return SERIATIM_OK;
}

/* Reads a number that has only digits, from 0 to max. Returns -1 for anything else. */
static int url_number(url_span span, int max)
{
    int64_t value = 0;
    if (span.at == span.end)
        return -1;
    for (; span.at < span.end; span.at++) {
        if (!url_is_digit(*span.at))
            return -1;
        value = value * 10 + (*span.at - '0');
        if (value > max)
            return -1;
    }
    return (int)value;
}

static int url_parse_db(url_parser *p, url_span span)
{
    p->url->db = url_number(span, INT32_MAX);
    if (p->url->db < 0)
        return url_invalid(p, "the database must be a whole number from 0 to 2147483647");
    return SERIATIM_OK;
}

static int url_parse_port(url_parser *p, url_span span)
{
    p->url->port = url_number(span, 65535);
    if (p->url->port < 1)
        return url_invalid(p, "the port must be a whole number from 1 to 65535 (in a user or password "
                              "write / as %2F, ? as %3F, # as %23)");
    return SERIATIM_OK;
}

/* Cuts "user:password@" off the front of the authority. */
static int url_parse_login(url_parser *p, url_span *authority)
{
    const char *at = url_find_last(*authority, '@'), *colon;
    url_span user = {authority->at, at}, password = {at, at};
    int status;
    if (!at)
        return SERIATIM_OK;
    authority->at = at + 1;
    colon = url_find(user, ':');
    if (colon) {
        user.end = colon;
        password.at = colon + 1;
        status = url_decode(p, password, "password", &p->url->password);
        if (status != SERIATIM_OK)
            return status;
    }
    if (user.at < user.end)
        return url_decode(p, user, "user", &p->url->user);
    return SERIATIM_OK;
}

static int url_check_name(url_parser *p, const char *host)
{
    size_t len = strlen(host), i;
    for (i = 0; i < len; i++)
        if (!srt_url_is_alnum(host[i]) && !strchr("-._", host[i]))
            return url_invalid(p, "the host may hold letters, digits and -._ only");
    if (len > URL_MAX_HOST)
        return url_invalid(p, "the host may have at most 255 bytes");
    return SERIATIM_OK;
}

static int url_check_ipv6(url_parser *p, const char *host)
{
    struct in6_addr address;
    char plain[INET6_ADDRSTRLEN];
    size_t len = strcspn(host, "%"); /* a zone may follow: fe80::1%eth0 */
    if (len < sizeof plain) {
        memcpy(plain, host, len);
        plain[len] = '\0';
        if (inet_pton(AF_INET6, plain, &address) == 1)
            return host[len] ? url_check_name(p, host + len + 1) : SERIATIM_OK;
    }
    return url_invalid(p, "the host in brackets must be an IPv6 address");
}

static int url_parse_ipv6(url_parser *p, url_span *rest)
{
    const char *close = url_find(*rest, ']');
    url_span host = {rest->at + 1, close};
    int status;
    if (!close)
        return url_invalid(p, "the host lacks its closing bracket");
    rest->at = close + 1;
    if (rest->at < rest->end && *rest->at != ':')
        return url_invalid(p, "behind the host in brackets only a port may stand");
    status = url_decode(p, host, "host", &p->url->host);
    return status == SERIATIM_OK ? url_check_ipv6(p, p->url->host) : status;
}

static int url_parse_name(url_parser *p, url_span *rest)
{
    const char *colon = url_find(*rest, ':');
    url_span host = {rest->at, colon ? colon : rest->end};
    int status;
    if (colon && url_find_last(*rest, ':') != colon)
        return url_invalid(p, "an IPv6 host must stand in brackets, and a URL may have one port");
    rest->at = host.end;
    if (host.at == host.end)
        return SERIATIM_OK;
    status = url_decode(p, host, "host", &p->url->host);
    return status == SERIATIM_OK ? url_check_name(p, p->url->host) : status;
}

static int url_parse_host(url_parser *p, url_span authority)
{
    int bracket = authority.at < authority.end && *authority.at == '[';
    int status = bracket ? url_parse_ipv6(p, &authority) : url_parse_name(p, &authority);
    if (status != SERIATIM_OK || authority.at == authority.end)
        return status;
    authority.at++; /* the colon */
    return url_parse_port(p, authority);
}

static int url_parse_tcp(url_parser *p, url_span rest)
{
    url_span authority = {rest.at, url_find_any(rest, "/?#")};
    int status;
    p->url->host = URL_DEFAULT_HOST;
    p->url->port = URL_DEFAULT_PORT;
    rest.at = authority.end;
    status = url_parse_login(p, &authority);
    if (status == SERIATIM_OK)
        status = url_parse_host(p, authority);
    if (status != SERIATIM_OK || rest.at == rest.end)
        return status;
    if (*rest.at != '/' || url_find_any(rest, "?#") != rest.end)
        return url_invalid(p, "behind host and port only /database may stand, no ? and no #");
    rest.at++;
    return rest.at == rest.end ? SERIATIM_OK : url_parse_db(p, rest);
}

static int url_parse_item(url_parser *p, url_span item)
{
    srt_url *url = p->url;
    int clustered = url->kind == SRT_URL_CLUSTER, status;
    if (item.at == item.end)
        return url_invalid(p, clustered
                                  ? "each member of the cluster must be host or host:port, with commas between them"
                                  : "each sentinel must be host or host:port, with commas between them");
    if (url->host_count == SRT_URL_MAX_HOSTS)
        return url_invalid(p, clustered ? "there are at most 16 members of the cluster"
                                        : "there are at most 16 sentinels");
    url->port = clustered ? URL_DEFAULT_PORT : URL_SENTINEL_PORT;
    url->host = URL_DEFAULT_HOST;
    status = url_parse_host(p, item);
    url->hosts[url->host_count].host = url->host;
    url->hosts[url->host_count++].port = url->port;
    url->host = NULL;
    url->port = 0;
    return status;
}

static int url_parse_list(url_parser *p, url_span list)
{
    const char *comma;
    int status = SERIATIM_OK;
    while (status == SERIATIM_OK && (comma = url_find(list, ',')) != NULL) {
        url_span item = {list.at, comma};
        status = url_parse_item(p, item);
        list.at = comma + 1;
    }
    return status == SERIATIM_OK ? url_parse_item(p, list) : status;
}

/* "master" or "master/db" */
static int url_parse_master(url_parser *p, url_span path)
{
    const char *slash = url_find(path, '/');
    url_span name = {path.at, slash ? slash : path.end}, db = {slash ? slash + 1 : path.end, path.end};
    int status;
    if (name.at == name.end)
        return url_invalid(p, "behind the sentinels stands /master, the name by which they know it");
    status = url_decode(p, name, "master", &p->url->master);
    return status == SERIATIM_OK && db.at < db.end ? url_parse_db(p, db) : status;
}

static int url_parse_option(url_parser *p, url_span option)
{
    static const char user[] = "sentinel_user=", password[] = "sentinel_password=";
    size_t len = (size_t)(option.end - option.at);
    if (len >= sizeof user - 1 && memcmp(option.at, user, sizeof user - 1) == 0) {
        option.at += sizeof user - 1;
        return url_decode(p, option, "sentinel_user", &p->url->sentinel_user);
    }
    if (len >= sizeof password - 1 && memcmp(option.at, password, sizeof password - 1) == 0) {
        option.at += sizeof password - 1;
        return url_decode(p, option, "sentinel_password", &p->url->sentinel_password);
    }
    return url_invalid(
        p, "the query of a sentinel URL is sentinel_user=... and sentinel_password=..., with & between them");
}

static int url_parse_options(url_parser *p, url_span query)
{
    int status = SERIATIM_OK;
    while (status == SERIATIM_OK && query.at <= query.end) {
        url_span option = {query.at, url_find_any(query, "&")};
        status = url_parse_option(p, option);
        query.at = option.end + 1;
    }
    if (status == SERIATIM_OK && p->url->sentinel_user && !p->url->sentinel_password)
        return url_invalid(p, "sentinel_user stands with a sentinel_password");
    return status;
}

static int url_parse_sentinel_url(url_parser *p, url_span rest)
{
    url_span authority = {rest.at, url_find_any(rest, "/?#")};
    url_span path = {authority.end, url_find_any(rest, "?#")};
    int status = url_parse_login(p, &authority);
    p->url->kind = SRT_URL_SENTINEL;
    if (status == SERIATIM_OK)
        status = url_parse_list(p, authority);
    path.at += path.at < path.end; /* the slash */
    if (status == SERIATIM_OK)
        status = url_parse_master(p, path);
    if (status != SERIATIM_OK || path.end == rest.end)
        return status;
    if (*path.end == '#')
        return url_invalid(p, "it may not hold # (write it as %23)");
    rest.at = path.end + 1;
    return url_parse_options(p, rest);
}

static int url_parse_cluster_url(url_parser *p, url_span rest)
{
    url_span authority = {rest.at, url_find_any(rest, "/?#")};
    int status = url_parse_login(p, &authority);
    p->url->kind = SRT_URL_CLUSTER;
    if (status == SERIATIM_OK)
        status = url_parse_list(p, authority);
    rest.at = authority.end;
    if (status != SERIATIM_OK || rest.at == rest.end)
        return status;
    if (*rest.at != '/' || url_find_any(rest, "?#") != rest.end)
        return url_invalid(p, "behind the members of a cluster only /0 may stand, no ? and no #");
    rest.at++;
    if (rest.at == rest.end)
        return SERIATIM_OK;
    status = url_parse_db(p, rest);
    return status == SERIATIM_OK && p->url->db ? url_invalid(p, "a cluster has the database 0 only") : status;
}

static int url_parse_query(url_parser *p, url_span query)
{
    if (query.end - query.at < 3 || memcmp(query.at, "db=", 3) != 0)
        return url_invalid(p, "the query of a unix URL may only be db=number");
    query.at += 3;
    return url_parse_db(p, query);
}

static int url_parse_path(url_parser *p, url_span path)
{
    int status;
    if (path.at == path.end)
        return url_invalid(p, "a unix URL must hold the absolute path of a socket");
    if (url_find(path, '#'))
        return url_invalid(p, "the path may not hold # (write it as %23)");
    status = url_decode(p, path, "path", &p->url->path);
    if (status != SERIATIM_OK)
        return status;
    if (strlen(p->url->path) > srt_url_socket_path_max())
        return srt_fail(p->error, SERIATIM_INVALID,
                        "Redis URL: the path of a Unix socket may have at most %d bytes "
                        "(sun_path)",
                        (int)srt_url_socket_path_max());
    return SERIATIM_OK;
}

static int url_parse_unix(url_parser *p, url_span rest)
{
    url_span authority = {rest.at, url_find_any(rest, "/?#")};
    url_span path = {authority.end, url_find_any(rest, "?")};
    int status = url_parse_login(p, &authority);
    if (status != SERIATIM_OK)
        return status;
    if (authority.at < authority.end)
        return url_invalid(p, "a unix URL has no host: unix:///path, unix://user:password@/path");
    status = url_parse_path(p, path);
    if (status != SERIATIM_OK || path.end == rest.end)
        return status;
    rest.at = path.end + 1;
    return url_parse_query(p, rest);
}

/* Takes "scheme:" off the front if it is this one, whatever its case. */
static int url_take_scheme(url_span *rest, const char *scheme)
{
    size_t len = strlen(scheme), i;
    if ((size_t)(rest->end - rest->at) < len)
        return 0;
    for (i = 0; i < len; i++) {
        char c = rest->at[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c != scheme[i])
            return 0;
    }
    rest->at += len;
    return 1;
}

/* "http://" of "http://host"; empty when the text begins with no scheme. */
static url_span url_scheme_of(url_span text)
{
    url_span none = {text.at, text.at}, scheme = {text.at, text.at};
    while (scheme.end < text.end && (srt_url_is_alnum(*scheme.end) || strchr("+-.", *scheme.end)))
        scheme.end++;
    if (scheme.end == text.at || text.end - scheme.end < 3 || memcmp(scheme.end, "://", 3) != 0)
        return none;
    scheme.end += 3;
    return scheme;
}

/* "host:6379" of "user:password@host:6379/1", which lacks its scheme; empty when the text is of another form. */
static url_span url_address_of(url_span text)
{
    const char *login = url_find_last(text, '@');
    url_span none = {text.at, text.at}, address = {login ? login + 1 : text.at, text.end}, port;
    const char *at = address.at;
    address.end = url_find_any(address, "/");
    while (at < address.end && (srt_url_is_alnum(*at) || strchr("-._", *at)))
        at++;
    if (at == address.at || at == address.end || *at != ':')
        return none;
    port.at = at + 1;
    port.end = address.end;
    return url_number(port, 65535) > 0 ? address : none;
}

/* Names what was given where that can be told from a password: an unknown scheme, or host and port without any. */
static int url_refuse_scheme(url_parser *p, url_span text)
{
    static const char rule[] =
        "the scheme must be redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, redis+cluster:// or "
        "rediss+cluster://";
    url_span scheme = url_scheme_of(text), address = url_address_of(text);
    int most = 100; /* bytes of it that are shown */
    int scheme_len = scheme.end - scheme.at > most ? most : (int)(scheme.end - scheme.at);
    int address_len = address.end - address.at > most ? most : (int)(address.end - address.at);
    if (scheme_len)
        return srt_fail(p->error, SERIATIM_INVALID, "Redis URL: %s, not %.*s", rule, scheme_len, scheme.at);
    if (address_len)
        return srt_fail(p->error, SERIATIM_INVALID, "Redis URL: %s, and %.*s has none", rule, address_len, address.at);
    return url_invalid(p, rule);
}

static int url_parse_scheme(url_parser *p, url_span rest)
{
    if (url_take_scheme(&rest, "redis://")) {
        p->url->kind = SRT_URL_TCP;
        return url_parse_tcp(p, rest);
    }
    if (url_take_scheme(&rest, "rediss://")) {
        p->url->kind = SRT_URL_TLS;
        p->url->tls = 1;
        return url_parse_tcp(p, rest);
    }
    if (url_take_scheme(&rest, "unix://") || url_take_scheme(&rest, "unix:")) {
        p->url->kind = SRT_URL_UNIX;
        return url_parse_unix(p, rest);
    }
    if (url_take_scheme(&rest, "redis+sentinel://"))
        return url_parse_sentinel_url(p, rest);
    if (url_take_scheme(&rest, "rediss+sentinel://")) {
        p->url->tls = 1;
        return url_parse_sentinel_url(p, rest);
    }
    if (url_take_scheme(&rest, "redis+cluster://"))
        return url_parse_cluster_url(p, rest);
    if (url_take_scheme(&rest, "rediss+cluster://")) {
        p->url->tls = 1;
        return url_parse_cluster_url(p, rest);
    }
    return url_refuse_scheme(p, rest);
}

static int url_check_text(url_parser *p, url_span text)
{
    if (text.end - text.at > SRT_URL_MAX_BYTES)
        return url_invalid(p, "it may have at most 8192 bytes");
    for (; text.at < text.end; text.at++)
        if ((unsigned char)*text.at <= ' ' || *text.at == 0x7f)
            return url_invalid(p, "spaces and control characters are percent-encoded");
    return SERIATIM_OK;
}

int srt_url_parse(srt_url *url, const seriatim_allocator *mem, const char *text, size_t len, seriatim_error *error)
{
    url_parser parser = {url, NULL, error};
    url_span whole = {text, text + len};
    int status;
    memset(url, 0, sizeof *url);
    url->mem = mem;
    status = url_check_text(&parser, whole);
    if (status != SERIATIM_OK)
        return status;
    url->block_size = len + 8; /* a NUL behind each text; all but four have a separator in the URL */
    url->block = srt_alloc(mem, url->block_size);
    if (!url->block)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    parser.free_at = url->block;
    status = url_parse_scheme(&parser, whole);
    if (status != SERIATIM_OK)
        srt_url_free(url);
    return status;
}

void srt_url_free(srt_url *url)
{
    const seriatim_allocator *mem = url->mem;
    if (url->block)
        memset(url->block, 0, url->block_size); /* it may hold a password */
    if (mem)
        srt_free(mem, url->block, url->block_size);
    memset(url, 0, sizeof *url);
    url->mem = mem;
}

size_t srt_url_socket_path_max(void)
{
    return sizeof((struct sockaddr_un *)NULL)->sun_path - 1;
}

int srt_connect_error(seriatim_error *error, int status, const char *url, const char *reason, const char *url_from)
{
    int advises = url_from && (status == SERIATIM_IO || status == SERIATIM_TIMEOUT);
    return srt_fail(error, status, "cannot connect to %.120s: %.200s%s%.60s", url, reason,
                    advises ? "; start Redis there, or correct " : "", advises ? url_from : "");
}

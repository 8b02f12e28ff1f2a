/* url_redact.c - writes a URL as text: without its password for logs, or with its parts percent-encoded. */
#include "net/url.h"

#include <string.h>

void srt_url_encode(srt_bytes *out, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (srt_url_is_alnum(*text) || strchr("-._~/", *text)) {
            srt_bytes_addc(out, *text);
            continue;
        }
        srt_bytes_addc(out, '%');
        srt_bytes_addc(out, digits[c >> 4]);
        srt_bytes_addc(out, digits[c & 15]);
    }
}

/* Encodes a text, including / and &. */
static void url_encode_part(srt_bytes *out, const char *text)
{
    for (; *text; text++) {
        char one[2] = {*text, '\0'};
        if (*text == '/')
            srt_bytes_adds(out, "%2F");
        else
            srt_url_encode(out, one);
    }
}

static void url_redact_login(const srt_url *url, srt_bytes *out)
{
    if (url->user)
        url_encode_part(out, url->user); /* a slash would end the authority */
    if (url->password)
        srt_bytes_adds(out, ":***");
    if (url->user || url->password)
        srt_bytes_addc(out, '@');
}

static void url_redact_host(const char *host, int port, srt_bytes *out)
{
    int ipv6 = strchr(host, ':') != NULL;
    if (ipv6)
        srt_bytes_addc(out, '[');
    for (const char *at = host; *at; at++) {
        if (*at == '%')
            srt_bytes_adds(out, "%25");
        else
            srt_bytes_addc(out, *at);
    }
    if (ipv6)
        srt_bytes_addc(out, ']');
    srt_bytes_addc(out, ':');
    srt_bytes_add_int(out, port);
}

static void url_redact_hosts(const srt_url *url, srt_bytes *out)
{
    size_t i;
    for (i = 0; i < url->host_count; i++) {
        if (i)
            srt_bytes_addc(out, ',');
        url_redact_host(url->hosts[i].host, url->hosts[i].port, out);
    }
    srt_bytes_addc(out, '/');
}

static void url_redact_sentinels(const srt_url *url, srt_bytes *out)
{
    url_redact_hosts(url, out);
    url_encode_part(out, url->master);
    srt_bytes_addc(out, '/');
    srt_bytes_add_int(out, url->db);
    if (url->sentinel_user) {
        srt_bytes_adds(out, "?sentinel_user=");
        url_encode_part(out, url->sentinel_user);
    }
    if (url->sentinel_password)
        srt_bytes_adds(out, url->sentinel_user ? "&sentinel_password=***" : "?sentinel_password=***");
}

void srt_url_redact(const srt_url *url, srt_bytes *out)
{
    if (url->kind == SRT_URL_UNIX) {
        srt_bytes_adds(out, "unix://");
        url_redact_login(url, out);
        srt_url_encode(out, url->path);
        srt_bytes_adds(out, "?db=");
    } else if (url->kind == SRT_URL_SENTINEL) {
        srt_bytes_adds(out, url->tls ? "rediss+sentinel://" : "redis+sentinel://");
        url_redact_login(url, out);
        url_redact_sentinels(url, out);
        return;
    } else if (url->kind == SRT_URL_CLUSTER) {
        srt_bytes_adds(out, url->tls ? "rediss+cluster://" : "redis+cluster://");
        url_redact_login(url, out);
        url_redact_hosts(url, out);
    } else {
        srt_bytes_adds(out, url->kind == SRT_URL_TLS ? "rediss://" : "redis://");
        url_redact_login(url, out);
        url_redact_host(url->host, url->port, out);
        srt_bytes_addc(out, '/');
    }
    srt_bytes_add_int(out, url->db);
}

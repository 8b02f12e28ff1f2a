/* fuzz_url.c - libFuzzer target: a URL that parses reads back from its parts, and its log form hides the password. */
#include "fuzz.h"
#include "net/url.h"

/* Writes a URL from its parts, as a user would. */
static void write_url(const srt_url *u, srt_bytes *out)
{
    srt_bytes_adds(out, u->kind == SRT_URL_UNIX ? "unix://" : u->kind == SRT_URL_TLS ? "rediss://" : "redis://");
    if (u->user)
        srt_url_encode(out, u->user);
    if (u->password) {
        srt_bytes_addc(out, ':');
        srt_url_encode(out, u->password);
    }
    if (u->user || u->password)
        srt_bytes_addc(out, '@');
    if (u->kind == SRT_URL_UNIX) {
        srt_url_encode(out, u->path);
        srt_bytes_adds(out, "?db=");
        srt_bytes_add_int(out, u->db);
        return;
    }
    srt_bytes_adds(out, strchr(u->host, ':') ? "[" : "");
    srt_bytes_adds(out, u->host);
    srt_bytes_adds(out, strchr(u->host, ':') ? "]:" : ":");
    srt_bytes_add_int(out, u->port);
    srt_bytes_addc(out, '/');
    srt_bytes_add_int(out, u->db);
}

static int same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static void reads_back(const srt_url *u)
{
    srt_url again;
    srt_bytes text;
    seriatim_error error;
    srt_bytes_init(&text, seriatim_default_allocator());
    write_url(u, &text);
    if (text.len > SRT_URL_MAX_BYTES) { /* each byte may have become three */
        srt_bytes_free(&text);
        return;
    }
    FUZZ_CHECK(srt_url_parse(&again, seriatim_default_allocator(), text.data, text.len, &error) == SERIATIM_OK);
    FUZZ_CHECK(again.kind == u->kind && again.port == u->port && again.db == u->db);
    FUZZ_CHECK(same(again.host, u->host) && same(again.path, u->path) && same(again.password, u->password));
    FUZZ_CHECK(same(again.user ? again.user : "", u->user ? u->user : ""));
    srt_url_free(&again);
    srt_bytes_free(&text);
}

/* What is logged is the same whatever the password. */
static void is_hidden(const srt_url *u)
{
    srt_bytes log, others;
    srt_url other = *u;
    other.password = u->password ? "another" : NULL;
    other.sentinel_password = u->sentinel_password ? "another" : NULL;
    srt_bytes_init(&log, seriatim_default_allocator());
    srt_bytes_init(&others, seriatim_default_allocator());
    srt_url_redact(u, &log);
    srt_url_redact(&other, &others);
    FUZZ_CHECK(log.len == others.len && memcmp(log.data, others.data, log.len) == 0);
    srt_bytes_free(&log);
    srt_bytes_free(&others);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *exact = malloc(size ? size : 1);
    seriatim_error error = {0, ""};
    srt_url url;
    int status;
    FUZZ_CHECK(exact);
    if (size)
        memcpy(exact, data, size);
    status = srt_url_parse(&url, seriatim_default_allocator(), exact, size, &error);
    free(exact);
    if (status == SERIATIM_OK) {
        is_hidden(&url);
        if (url.kind == SRT_URL_TCP || url.kind == SRT_URL_TLS || url.kind == SRT_URL_UNIX)
            reads_back(&url);
    } else {
        FUZZ_CHECK(error.message[0] && memchr(error.message, '\0', sizeof error.message));
    }
    srt_url_free(&url);
    return 0;
}

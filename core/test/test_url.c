/* test_url.c - URLs good, hostile and secret. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "net/url.h"

/* Fails at the n-th allocation. */
typedef struct failing {
    int left;
} failing;

static void *failing_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    failing *f = user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    if (f->left-- <= 0)
        return NULL;
    return realloc(ptr, new_size);
}

static srt_url parse(const char *text)
{
    srt_url url;
    seriatim_error error = {0, ""};
    int status = srt_url_parse(&url, seriatim_default_allocator(), text, strlen(text), &error);
    if (status != SERIATIM_OK)
        fail_msg("%s: %s", text, error.message);
    return url;
}

static void check_text(const char *got, const char *want)
{
    if (!want)
        assert_null(got);
    else
        assert_string_equal(got, want);
}

typedef struct good_tcp {
    const char *text, *user, *password, *host;
    int port, db;
    srt_url_kind kind;
    const char *redacted;
} good_tcp;

static void test_urls_of_tcp_are_parsed(void **state)
{
    static const good_tcp cases[] = {
        {"redis://", NULL, NULL, "127.0.0.1", 6379, 0, SRT_URL_TCP, "redis://127.0.0.1:6379/0"},
        {"REDIS://h", NULL, NULL, "h", 6379, 0, SRT_URL_TCP, "redis://h:6379/0"},
        {"redis://:7000", NULL, NULL, "127.0.0.1", 7000, 0, SRT_URL_TCP, "redis://127.0.0.1:7000/0"},
        {"redis://h/", NULL, NULL, "h", 6379, 0, SRT_URL_TCP, "redis://h:6379/0"},
        {"redis:///3", NULL, NULL, "127.0.0.1", 6379, 3, SRT_URL_TCP, "redis://127.0.0.1:6379/3"},
        {"redis://my_host-1.a.b:1/15", NULL, NULL, "my_host-1.a.b", 1, 15, SRT_URL_TCP, "redis://my_host-1.a.b:1/15"},
        {"rediss://u:p@h:65535/2147483647", "u", "p", "h", 65535, 2147483647, SRT_URL_TLS,
         "rediss://u:***@h:65535/2147483647"},
        {"redis://:secret@h", NULL, "secret", "h", 6379, 0, SRT_URL_TCP, "redis://:***@h:6379/0"},
        {"redis://u:@h", "u", "", "h", 6379, 0, SRT_URL_TCP, "redis://u:***@h:6379/0"},
        {"redis://u@h", "u", NULL, "h", 6379, 0, SRT_URL_TCP, "redis://u@h:6379/0"},
        {"redis://:p@ss:w@h:1", NULL, "p@ss:w", "h", 1, 0, SRT_URL_TCP, "redis://:***@h:1/0"},
        {"redis://u%3a%2F:%2f%40%25@h", "u:/", "/@%", "h", 6379, 0, SRT_URL_TCP, "redis://u%3A%2F:***@h:6379/0"},
        {"redis://[::1]", NULL, NULL, "::1", 6379, 0, SRT_URL_TCP, "redis://[::1]:6379/0"},
        {"redis://:x@[fe80::1%25eth0]:7/1", NULL, "x", "fe80::1%eth0", 7, 1, SRT_URL_TCP,
         "redis://:***@[fe80::1%25eth0]:7/1"},
        {"redis://%6c%6F", NULL, NULL, "lo", 6379, 0, SRT_URL_TCP, "redis://lo:6379/0"},
    };
    size_t i;
    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        const good_tcp *c = &cases[i];
        srt_bytes out;
        srt_url url;
        url = parse(c->text);
        check_text(url.user, c->user);
        check_text(url.password, c->password);
        check_text(url.host, c->host);
        assert_null(url.path);
        assert_int_equal(url.port, c->port);
        assert_int_equal(url.db, c->db);
        assert_int_equal(url.kind, c->kind);
        srt_bytes_init(&out, seriatim_default_allocator());
        srt_url_redact(&url, &out);
        srt_bytes_addc(&out, '\0');
        assert_string_equal(out.data, c->redacted);
        srt_bytes_free(&out);
        srt_url_free(&url);
    }
}

static void check_unix(const char *text, const char *user, const char *password, const char *path, int db,
                       const char *redacted)
{
    srt_url url = parse(text);
    srt_bytes out;
    assert_int_equal(url.kind, SRT_URL_UNIX);
    check_text(url.user, user);
    check_text(url.password, password);
    check_text(url.path, path);
    assert_int_equal(url.db, db);
    srt_bytes_init(&out, seriatim_default_allocator());
    srt_url_redact(&url, &out);
    srt_bytes_addc(&out, '\0');
    assert_string_equal(out.data, redacted);
    srt_bytes_free(&out);
    srt_url_free(&url);
}

static void test_urls_of_unix_sockets_are_parsed(void **state)
{
    (void)state;
    check_unix("unix:///run/r.sock", NULL, NULL, "/run/r.sock", 0, "unix:///run/r.sock?db=0");
    check_unix("unix:/r.sock", NULL, NULL, "/r.sock", 0, "unix:///r.sock?db=0");
    check_unix("unix:///r.sock?db=7", NULL, NULL, "/r.sock", 7, "unix:///r.sock?db=7");
    check_unix("unix://u:p@/r?db=1", "u", "p", "/r", 1, "unix://u:***@/r?db=1");
    check_unix("unix:u:p@/r", "u", "p", "/r", 0, "unix://u:***@/r?db=0");
    check_unix("unix://:p@/a@b%20c%3f", NULL, "p", "/a@b c?", 0, "unix://:***@/a%40b%20c%3F?db=0");
}

static void check_redacted(const srt_url *url, const char *redacted)
{
    srt_bytes out;
    srt_bytes_init(&out, seriatim_default_allocator());
    srt_url_redact(url, &out);
    srt_bytes_addc(&out, '\0');
    assert_string_equal(out.data, redacted);
    srt_bytes_free(&out);
}

static void test_urls_of_sentinels_are_parsed(void **state)
{
    srt_url url =
        parse("redis+sentinel://u:SeCrEt@a,[::1]:7,:8,c:9/my%2Fmaster/3?sentinel_user=x%26&sentinel_password=SeCrEt");
    (void)state;
    assert_int_equal(url.kind, SRT_URL_SENTINEL);
    assert_int_equal(url.tls, 0);
    check_text(url.user, "u");
    check_text(url.password, "SeCrEt");
    check_text(url.host, NULL);
    check_text(url.master, "my/master");
    check_text(url.sentinel_user, "x&");
    check_text(url.sentinel_password, "SeCrEt");
    assert_int_equal(url.db, 3);
    assert_int_equal(url.host_count, 4);
    check_text(url.hosts[0].host, "a");
    assert_int_equal(url.hosts[0].port, 26379);
    check_text(url.hosts[1].host, "::1");
    assert_int_equal(url.hosts[1].port, 7);
    check_text(url.hosts[2].host, "127.0.0.1");
    check_text(url.hosts[3].host, "c");
    check_redacted(&url, "redis+sentinel://u:***@a:26379,[::1]:7,127.0.0.1:8,c:9/my%2Fmaster/3"
                         "?sentinel_user=x%26&sentinel_password=***");
    srt_url_free(&url);
    url = parse("rediss+sentinel://:SeCrEt@1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16/m/");
    assert_int_equal(url.tls, 1);
    assert_int_equal(url.host_count, 16);
    assert_int_equal(url.db, 0);
    srt_url_free(&url);
    url = parse("redis+sentinel://a/m?sentinel_password=SeCrEt");
    check_redacted(&url, "redis+sentinel://a:26379/m/0?sentinel_password=***");
    srt_url_free(&url);
}

static void test_a_socket_path_that_is_too_long_is_refused(void **state)
{
    char text[512] = "unix://";
    size_t max = srt_url_socket_path_max();
    seriatim_error error;
    srt_url url;
    (void)state;
    memset(text + 7, '/', max);
    url = parse(text);
    assert_int_equal(strlen(url.path), max);
    srt_url_free(&url);
    text[7 + max] = 'x';
    assert_int_equal(srt_url_parse(&url, seriatim_default_allocator(), text, strlen(text), &error), SERIATIM_INVALID);
    assert_non_null(strstr(error.message, "sun_path"));
}

typedef struct bad_url {
    const char *text, *names; /* the message names this part */
} bad_url;

static void test_invalid_urls_are_refused_without_their_password(void **state)
{
    static const bad_url cases[] = {
        {"", "scheme"},
        {"SeCrEt", "scheme"},
        {"redis:", "scheme"},
        {"redis:/h", "scheme"},
        {"http://SeCrEt@h", "scheme"},
        {"redis://h:", "port"},
        {"redis://h:0", "port"},
        {"redis://h:65536", "port"},
        {"redis://h:-1", "port"},
        {"redis://h:99999999999999999999", "port"},
        {"redis://h:6379x", "port"},
        {"redis://:SeCrEt/x@h", "port"},
        {"redis://u:SeCrEt?x@h", "port"},
        {"redis://u:SeCrEt#x@h", "port"},
        {"redis://h/SeCrEt", "database"},
        {"redis://h/-1", "database"},
        {"redis://h/2147483648", "database"},
        {"redis://h/1/2", "database"},
        {"redis://h/1?db=2", "no ?"},
        {"redis://h#SeCrEt", "no #"},
        {"redis://h?SeCrEt", "no ?"},
        {"redis://u:SeCrEt%@h", "password"},
        {"redis://u:SeCrEt%4@h", "password"},
        {"redis://u:SeCrEt%zz@h", "password"},
        {"redis://u:SeCrEt%00@h", "password"},
        {"redis://SeCrEt%0g:x@h", "user"},
        {"redis://h%00", "host"},
        {"redis://h%2fx", "host"},
        {"redis://h%0a", "host"},
        {"redis://h*", "host"},
        {"redis://\xc3\xa9", "host"},
        {"redis://::1", "brackets"},
        {"redis://h:1:2", "brackets"},
        {"redis://[::1", "bracket"},
        {"redis://[]", "IPv6"},
        {"redis://[SeCrEt]", "IPv6"},
        {"redis://[127.0.0.1]", "IPv6"},
        {"redis://[::1]x", "port"},
        {"redis://[::1]:", "port"},
        {"redis://[::1%25]/../]", "database"},
        {"redis://[::1%25a%0ab]", "host"},
        {"redis://h\n", "control"},
        {" redis://h", "spaces"},
        {"redis://:Se CrEt@h", "spaces"},
        {"redis+sentinel:", "scheme"},
        {"redis+sentinel://", "sentinel must be host"},
        {"redis+sentinel://:SeCrEt@/m", "sentinel must be host"},
        {"redis+sentinel://a,,b/m", "sentinel must be host"},
        {"redis+sentinel://a,/m", "sentinel must be host"},
        {"redis+sentinel://a", "/master"},
        {"redis+sentinel://a/", "/master"},
        {"redis+sentinel://a//1", "/master"},
        {"redis+sentinel://a/m/SeCrEt", "database"},
        {"redis+sentinel://a/m/1/2", "database"},
        {"redis+sentinel://a/m%00", "master"},
        {"redis+sentinel://a:0/m", "port"},
        {"redis+sentinel://a:1:2/m", "brackets"},
        {"redis+sentinel://a,b c/m", "spaces"},
        {"redis+sentinel://SeCrEt/x@a/m", "database"},
        {"redis+sentinel://a/m#SeCrEt", "#"},
        {"redis+sentinel://a/m?", "query"},
        {"redis+sentinel://a/m?db=1", "query"},
        {"redis+sentinel://a/m?sentinel_password=SeCrEt&", "query"},
        {"redis+sentinel://a/m?sentinel_password=SeCrEt%", "sentinel_password"},
        {"redis+sentinel://a/m?sentinel_user=SeCrEt", "sentinel_password"},
        {"redis+sentinel://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17/m", "16"},
        {"unix:", "path"},
        {"unix://", "path"},
        {"unix://SeCrEt", "host"},
        {"unix://u:SeCrEt@h/x", "host"},
        {"unix://u:SeCrEt/x@/y", "host"},
        {"unix:///x%00", "path"},
        {"unix:///x#y", "path"},
        {"unix:///x?", "query"},
        {"unix:///x?SeCrEt=1", "query"},
        {"unix:///x?db=", "database"},
        {"unix:///x?db=1&db=2", "database"},
    };
    size_t i;
    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        seriatim_error error = {0, ""};
        srt_url url;
        int status = srt_url_parse(&url, seriatim_default_allocator(), cases[i].text, strlen(cases[i].text), &error);
        if (status != SERIATIM_INVALID || error.status != SERIATIM_INVALID)
            fail_msg("%s was taken", cases[i].text);
        if (!strstr(error.message, cases[i].names))
            fail_msg("%s: %s lacks '%s'", cases[i].text, error.message, cases[i].names);
        if (strstr(error.message, "eCrE"))
            fail_msg("%s: %s shows the password", cases[i].text, error.message);
        assert_null(url.block);
        srt_url_free(&url);
    }
}

/* Without a scheme that is known, the message names what was given, as far as it can be no password. */
static void test_a_refused_url_is_named_without_its_password(void **state)
{
    static const bad_url cases[] = {
        {"localhost:6379", "rediss+cluster://, and localhost:6379 has none"},
        {"10.0.0.1:6379/3", ", and 10.0.0.1:6379 has none"},
        {"u:SeCrEt@my-redis_1:6380", ", and my-redis_1:6380 has none"},
        {"u:SeCrEt:1@:6380", "rediss+cluster://"},
        {"http://u:SeCrEt@h:1", ", not http://"},
        {"redis+x.y-z://h", ", not redis+x.y-z://"},
    };
    size_t i;
    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        seriatim_error error = {0, ""};
        srt_url url;
        size_t len = strlen(cases[i].text), end;
        assert_int_equal(srt_url_parse(&url, seriatim_default_allocator(), cases[i].text, len, &error),
                         SERIATIM_INVALID);
        end = strlen(error.message) - strlen(cases[i].names);
        if (end > strlen(error.message) || strcmp(error.message + end, cases[i].names) != 0)
            fail_msg("%s: %s does not end with '%s'", cases[i].text, error.message, cases[i].names);
        assert_null(strstr(error.message, "eCrE"));
    }
}

static void test_urls_of_clusters_are_parsed(void **state)
{
    srt_url url = parse("redis+cluster://u:SeCrEt@a,[::1]:7,:8/0");
    (void)state;
    assert_int_equal(url.kind, SRT_URL_CLUSTER);
    assert_int_equal(url.tls, 0);
    check_text(url.user, "u");
    check_text(url.password, "SeCrEt");
    check_text(url.host, NULL);
    assert_int_equal(url.db, 0);
    assert_int_equal(url.host_count, 3);
    check_text(url.hosts[0].host, "a");
    assert_int_equal(url.hosts[0].port, 6379);
    check_text(url.hosts[1].host, "::1");
    assert_int_equal(url.hosts[1].port, 7);
    check_text(url.hosts[2].host, "127.0.0.1");
    check_redacted(&url, "redis+cluster://u:***@a:6379,[::1]:7,127.0.0.1:8/0");
    srt_url_free(&url);
    url = parse("rediss+cluster://a");
    assert_int_equal(url.tls, 1);
    check_redacted(&url, "rediss+cluster://a:6379/0");
    srt_url_free(&url);
}

static void test_a_bad_url_of_a_cluster_is_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"redis+cluster://", "each member of the cluster must be host or host:port"},
        {"redis+cluster://a,,b", "each member of the cluster must be host or host:port"},
        {"redis+cluster://a/1", "a cluster has the database 0 only"},
        {"redis+cluster://a/0?db=0", "behind the members of a cluster only /0 may stand"},
        {"redis+cluster://:SeCrEt@1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "at most 16 members"},
    };
    size_t i;
    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        seriatim_error error = {0, ""};
        srt_url url;
        assert_int_equal(
            srt_url_parse(&url, seriatim_default_allocator(), cases[i].text, strlen(cases[i].text), &error),
            SERIATIM_INVALID);
        if (!strstr(error.message, cases[i].says))
            fail_msg("%s: %s", cases[i].text, error.message);
        assert_null(strstr(error.message, "SeCrEt"));
    }
}

/* Every one-byte change and every cut of a full URL: parsed or refused, never a crash or a leak. */
static void mutate(const char *good)
{
    size_t len = strlen(good), i;
    int c;
    for (i = 0; i < len; i++) {
        for (c = 0; c < 256; c++) {
            char *copy = malloc(len); /* exact, so that ASan sees a read beyond */
            seriatim_error error = {0, ""};
            srt_url url;
            assert_non_null(copy);
            memcpy(copy, good, len);
            copy[i] = (char)c;
            if (srt_url_parse(&url, seriatim_default_allocator(), copy, c % 2 ? len : i, &error))
                assert_null(strstr(error.message, "eCrE"));
            srt_url_free(&url);
            free(copy);
        }
    }
}

static void test_mutated_urls_never_show_the_password(void **state)
{
    (void)state;
    mutate("rediss://us%41r:SeCrEt%20@[fe80::1%25eth0]:6390/12");
    mutate("redis+sentinel://us%41r:SeCrEt@[fe80::1%25eth0]:6390,b/m%20/12?sentinel_user=u&sentinel_password=SeCrEt");
}

static void test_urls_that_are_too_long_are_refused(void **state)
{
    size_t len = 9000;
    char *text = malloc(len);
    seriatim_error error;
    srt_url url;
    (void)state;
    assert_non_null(text);
    memset(text, 'a', len);
    memcpy(text, "redis://", 8);
    assert_int_equal(srt_url_parse(&url, seriatim_default_allocator(), text, len, &error), SERIATIM_INVALID);
    assert_int_equal(srt_url_parse(&url, seriatim_default_allocator(), text, 8 + 256, &error), SERIATIM_INVALID);
    assert_non_null(strstr(error.message, "255"));
    free(text);
}

static void test_every_allocation_of_a_url_may_fail(void **state)
{
    static const char text[] = "redis://u:p@h:1/2";
    int n, status = SERIATIM_NOMEM;
    (void)state;
    for (n = 0; status != SERIATIM_OK; n++) {
        failing f = {n};
        seriatim_allocator mem = {failing_alloc, &f};
        seriatim_error error = {0, ""};
        srt_url url;
        assert_true(n < 10);
        status = srt_url_parse(&url, &mem, text, sizeof text - 1, &error);
        assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM);
        srt_url_free(&url);
    }
    assert_int_equal(n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls_of_tcp_are_parsed),
        cmocka_unit_test(test_urls_of_unix_sockets_are_parsed),
        cmocka_unit_test(test_invalid_urls_are_refused_without_their_password),
        cmocka_unit_test(test_a_refused_url_is_named_without_its_password),
        cmocka_unit_test(test_a_socket_path_that_is_too_long_is_refused),
        cmocka_unit_test(test_urls_of_clusters_are_parsed),
        cmocka_unit_test(test_a_bad_url_of_a_cluster_is_refused),
        cmocka_unit_test(test_mutated_urls_never_show_the_password),
        cmocka_unit_test(test_urls_that_are_too_long_are_refused),
        cmocka_unit_test(test_every_allocation_of_a_url_may_fail),
        cmocka_unit_test(test_urls_of_sentinels_are_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

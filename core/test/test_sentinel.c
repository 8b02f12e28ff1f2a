/* test_sentinel.c - how sentinels are asked, byte by byte, without sockets. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "failing.h"
#include "sentinel_fixture.h"

/* ---- Without sockets ------------------------------------------------------------------------ */

static seriatim_sentinel *new_sentinel(const char *url)
{
    seriatim_sentinel *s = NULL;
    seriatim_error error;
    if (seriatim_sentinel_new(NULL, url, &s, &error) != SERIATIM_OK)
        fail_msg("%s", error.message);
    return s;
}

static void asks(seriatim_sentinel *s, const char *host, int port)
{
    seriatim_address where;
    assert_int_equal(seriatim_sentinel_next(s, &where), SERIATIM_OK);
    assert_string_equal(where.host, host);
    assert_int_equal(where.port, port);
    assert_int_equal(where.tls, 0);
}

static int hears(seriatim_sentinel *s, const char *text, seriatim_address *master)
{
    return seriatim_sentinel_input(s, text, strlen(text), master);
}

static void test_a_sentinel_is_asked_with_these_bytes(void **state)
{
    static const char plain[] = "*3\r\n$8\r\nSENTINEL\r\n$23\r\nGET-MASTER-ADDR-BY-NAME\r\n$2\r\nm1\r\n";
    static const char *const logins[] = {"", "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n",
                                         "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$2\r\npw\r\n"};
    static const char *const urls[] = {"redis+sentinel://a/m1", "redis+sentinel://a/m1?sentinel_password=pw",
                                       "redis+sentinel://a/m1?sentinel_password=pw&sentinel_user=u"};
    size_t i, len;
    (void)state;
    for (i = 0; i < 3; i++) {
        seriatim_sentinel *s = new_sentinel(urls[i]);
        char want[256];
        const char *data;
        snprintf(want, sizeof want, "%s%s", logins[i], plain);
        seriatim_sentinel_output(s, &data, &len);
        assert_int_equal(len, strlen(want));
        assert_memory_equal(data, want, len);
        seriatim_sentinel_free(s);
    }
}

static void test_sentinels_are_asked_one_after_another(void **state)
{
    seriatim_sentinel *s = new_sentinel("redis+sentinel://a:1,b:2,c:3/m1");
    seriatim_address master, where;
    const char *text;
    (void)state;
    seriatim_sentinel_begin(s);
    asks(s, "a", 1);
    seriatim_sentinel_failed(s, "Connection refused");
    asks(s, "b", 2);
    assert_int_equal(hears(s, "*-1\r\n", &master), SERIATIM_SERVER);
    asks(s, "c", 3);
    assert_int_equal(hears(s, "*2\r\n$3\r\n1:2\r\n$4\r\n6380\r\n", &master), SERIATIM_OK);
    assert_string_equal(master.host, "1:2");
    assert_int_equal(master.port, 6380);
    seriatim_sentinel_served(s);
    seriatim_sentinel_begin(s); /* who answered last is asked first */
    asks(s, "c", 3);
    assert_int_equal(hears(s, "-NOAUTH no\r\n", &master), SERIATIM_AUTH);
    asks(s, "a", 1);
    assert_int_equal(hears(s, "$-1\r\n", &master), SERIATIM_SERVER);
    asks(s, "b", 2);
    assert_int_equal(hears(s, "+what\r\n", &master), SERIATIM_PROTOCOL);
    assert_int_equal(seriatim_sentinel_next(s, &where), SERIATIM_IO);
    text = seriatim_sentinel_error(s)->message;
    assert_string_equal(
        text,
        "no sentinel names it: c:3: NOAUTH no; a:1: knows no master of that name; b:2: its answer is not an address");
    seriatim_sentinel_begin(s);
    asks(s, "c", 3);
    seriatim_sentinel_free(s);
}

static void test_who_named_a_master_that_did_not_serve_is_asked_last(void **state)
{
    static const char answer[] = "*2\r\n$1\r\nm\r\n$4\r\n6380\r\n";
    seriatim_sentinel *s = new_sentinel("redis+sentinel://a:1,b:2,c:3/m1");
    seriatim_address master;
    (void)state;
    seriatim_sentinel_begin(s);
    asks(s, "a", 1);
    assert_int_equal(hears(s, answer, &master), SERIATIM_OK);
    seriatim_sentinel_begin(s);
    asks(s, "b", 2);
    seriatim_sentinel_failed(s, "Connection refused");
    asks(s, "c", 3);
    seriatim_sentinel_failed(s, "Connection refused");
    asks(s, "a", 1);
    seriatim_sentinel_failed(s, "Connection refused");
    seriatim_sentinel_begin(s); /* nobody has named it since */
    asks(s, "b", 2);
    assert_int_equal(hears(s, answer, &master), SERIATIM_OK);
    seriatim_sentinel_served(s);
    seriatim_sentinel_begin(s);
    asks(s, "b", 2);
    seriatim_sentinel_free(s);
}

static void test_credentials_refused_by_all_sentinels_are_an_error(void **state)
{
    seriatim_sentinel *s = new_sentinel("redis+sentinel://a:1,b:2/m1?sentinel_password=SeCrEt");
    seriatim_address master, where;
    (void)state;
    seriatim_sentinel_begin(s);
    asks(s, "a", 1);
    assert_int_equal(hears(s, "-WRONGPASS x\r\n-NOAUTH y\r\n", &master), SERIATIM_AUTH);
    asks(s, "b", 2);
    assert_int_equal(hears(s, "+OK\r\n", &master), SERIATIM_AGAIN);
    assert_int_equal(hears(s, "-NOPERM z\r\n", &master), SERIATIM_AUTH);
    assert_int_equal(seriatim_sentinel_next(s, &where), SERIATIM_AUTH);
    assert_null(strstr(seriatim_sentinel_error(s)->message, "SeCrEt"));
    seriatim_sentinel_free(s);
}

static void test_answers_split_at_every_byte(void **state)
{
    static const char answer[] = "+OK\r\n*2\r\n$9\r\n127.0.0.1\r\n$5\r\n26380\r\n";
    seriatim_sentinel *s = new_sentinel("redis+sentinel://a:1/m1?sentinel_password=pw");
    seriatim_address master;
    size_t at, len = sizeof answer - 1;
    (void)state;
    for (at = 1; at < len; at++) {
        seriatim_sentinel_begin(s);
        asks(s, "a", 1);
        assert_int_equal(seriatim_sentinel_input(s, answer, at, &master), SERIATIM_AGAIN);
        assert_int_equal(seriatim_sentinel_input(s, answer + at, len - at, &master), SERIATIM_OK);
        assert_string_equal(master.host, "127.0.0.1");
        assert_int_equal(master.port, 26380);
    }
    seriatim_sentinel_free(s);
}

static void test_hostile_answers_of_sentinels_are_errors(void **state)
{
    static const char *const answers[] = {"*2\r\n$0\r\n\r\n$4\r\n6379\r\n",
                                          "*2\r\n$3\r\na b\r\n$4\r\n6379\r\n",
                                          "*2\r\n$3\r\na\nb\r\n$4\r\n6379\r\n",
                                          "*2\r\n$1\r\na\r\n$1\r\n0\r\n",
                                          "*2\r\n$1\r\na\r\n$5\r\n65536\r\n",
                                          "*2\r\n$1\r\na\r\n$-1\r\n",
                                          "*1\r\n$1\r\na\r\n",
                                          "*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n1\r\n",
                                          ":1\r\n",
                                          "*0\r\n",
                                          "?\r\n",
                                          "*2\r\n*1\r\n$1\r\na\r\n$1\r\n1\r\n",
                                          "*2\r\n$1\r\na\r\n$20\r\n99999999999999999999\r\n"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof answers / sizeof *answers; i++) {
        seriatim_sentinel *s = new_sentinel("redis+sentinel://a:1/m1");
        seriatim_address master, where;
        seriatim_sentinel_begin(s);
        asks(s, "a", 1);
        if (hears(s, answers[i], &master) != SERIATIM_PROTOCOL)
            fail_msg("%s was taken", answers[i]);
        assert_int_equal(hears(s, answers[i], &master), SERIATIM_PROTOCOL);
        assert_int_equal(seriatim_sentinel_next(s, &where), SERIATIM_IO);
        seriatim_sentinel_free(s);
    }
}

static void test_other_urls_are_refused(void **state)
{
    static const char *const urls[] = {"redis://a", "unix:///x", "redis+sentinel://a", ""};
    seriatim_sentinel *s;
    seriatim_error error;
    size_t i;
    (void)state;
    for (i = 0; i < 4; i++)
        assert_int_equal(seriatim_sentinel_new(NULL, urls[i], &s, &error), SERIATIM_INVALID);
    assert_int_equal(seriatim_sentinel_new(NULL, NULL, &s, &error), SERIATIM_INVALID);
}

/* A round that finds the master at its second sentinel; its status. */
static int round_with(const seriatim_allocator *mem)
{
    seriatim_sentinel *s = NULL;
    seriatim_address where;
    seriatim_error error;
    int status = seriatim_sentinel_new(mem, "redis+sentinel://a,b/m?sentinel_password=x", &s, &error);
    if (status == SERIATIM_OK) {
        seriatim_sentinel_begin(s);
        status = seriatim_sentinel_next(s, &where);
    }
    if (status == SERIATIM_OK) {
        seriatim_sentinel_failed(s, "away");
        status = seriatim_sentinel_next(s, &where);
    }
    if (status == SERIATIM_OK)
        status = hears(s, "+OK\r\n*2\r\n$9\r\n127.0.0.1\r\n$5\r\n26380\r\n", &where);
    seriatim_sentinel_free(s);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    failing f = {0};
    seriatim_allocator mem = {failing_alloc, &f};
    int status = SERIATIM_NOMEM;
    (void)state;
    for (f.fail_at = 1; status != SERIATIM_OK || f.calls >= f.fail_at; f.fail_at++) {
        f.calls = 0;
        status = round_with(&mem);
        assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM);
        assert_int_equal(f.live, 0);
        assert_true(f.fail_at < 100);
    }
    assert_true(f.fail_at > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sentinel_is_asked_with_these_bytes),
        cmocka_unit_test(test_sentinels_are_asked_one_after_another),
        cmocka_unit_test(test_who_named_a_master_that_did_not_serve_is_asked_last),
        cmocka_unit_test(test_credentials_refused_by_all_sentinels_are_an_error),
        cmocka_unit_test(test_answers_split_at_every_byte),
        cmocka_unit_test(test_hostile_answers_of_sentinels_are_errors),
        cmocka_unit_test(test_other_urls_are_refused),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

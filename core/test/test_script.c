/* test_script.c - a session: NOSCRIPT, reconnects, handshakes, short memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/script.h"

typedef struct short_memory {
    size_t calls, fail_at;
} short_memory;

static void *short_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    short_memory *m = user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return ++m->calls == m->fail_at ? NULL : realloc(ptr, new_size);
}

static void ask(srt_session *s, int kind)
{
    srt_request *r = srt_session_begin(s, srt_script_heartbeat, NULL, 0);
    assert_non_null(r);
    r->kind = kind;
    srt_request_text(r, "argument");
    assert_int_equal(srt_session_send(s, r), SERIATIM_OK);
}

/* How many times a text was to be sent; the output is sent then. */
static int sends(srt_session *s, const char *text)
{
    const char *data;
    size_t len, i;
    int count = 0;
    srt_session_output(s, &data, &len);
    for (i = 0; i + strlen(text) <= len; i++)
        count += memcmp(data + i, text, strlen(text)) == 0;
    srt_session_sent(s, len);
    return count;
}

static int hears(srt_session *s, const char *text, srt_request **r, seriatim_error *error)
{
    srt_reply reply;
    assert_int_equal(srt_session_input(s, text, strlen(text)), SERIATIM_OK);
    return srt_session_next(s, r, &reply, error);
}

static void test_noscript_sends_the_script_s_text(void **state)
{
    srt_session s;
    srt_request *r;
    seriatim_error error;
    (void)state;
    assert_int_equal(srt_session_init(&s, seriatim_default_allocator(), 0), SERIATIM_OK);
    assert_int_equal(srt_session_connected(&s, NULL, NULL, 0, NULL), SERIATIM_OK);
    ask(&s, 7);
    assert_int_equal(sends(&s, "EVALSHA\r\n"), 1);
    assert_int_equal(hears(&s, "-NOSCRIPT x\r\n", &r, &error), SERIATIM_AGAIN);
    assert_int_equal(sends(&s, "EVAL\r\n"), 1);
    assert_int_equal(hears(&s, "+OK\r\n", &r, &error), SERIATIM_OK);
    assert_int_equal(r->kind, 7);
    srt_session_done(&s, r);
    assert_int_equal(hears(&s, "+OK\r\n", &r, &error), SERIATIM_PROTOCOL);
    srt_session_free(&s);
}

/* What was asked meanwhile comes behind the text, unless the script is forgotten again. */
static void test_a_connection_sends_a_script_s_text_once(void **state)
{
    srt_session s;
    srt_request *r;
    seriatim_error error;
    int i;
    (void)state;
    assert_int_equal(srt_session_init(&s, seriatim_default_allocator(), 0), SERIATIM_OK);
    assert_int_equal(srt_session_connected(&s, NULL, NULL, 0, NULL), SERIATIM_OK);
    for (i = 0; i < 3; i++)
        ask(&s, i);
    assert_int_equal(sends(&s, "EVALSHA\r\n"), 3);
    assert_int_equal(hears(&s, "-NOSCRIPT x\r\n-NOSCRIPT x\r\n-NOSCRIPT x\r\n", &r, &error), SERIATIM_AGAIN);
    assert_int_equal(sends(&s, "EVAL\r\n"), 1);
    assert_int_equal(hears(&s, "+OK\r\n", &r, &error), SERIATIM_OK);
    assert_int_equal(r->kind, 0);
    srt_session_done(&s, r);
    assert_int_equal(hears(&s, "-NOSCRIPT x\r\n", &r, &error), SERIATIM_AGAIN);
    assert_int_equal(sends(&s, "EVAL\r\n"), 1);
    srt_session_disconnected(&s);
    assert_int_equal(srt_session_connected(&s, NULL, NULL, 0, NULL), SERIATIM_OK);
    assert_int_equal(sends(&s, "EVALSHA\r\n"), 2);
    assert_int_equal(hears(&s, "-NOSCRIPT x\r\n", &r, &error), SERIATIM_AGAIN);
    assert_int_equal(sends(&s, "EVAL\r\n"), 1);
    srt_session_free(&s);
}

static void test_requests_are_sent_again_in_order_after_a_reconnect(void **state)
{
    srt_session s;
    srt_request *r;
    seriatim_error error;
    int i;
    (void)state;
    assert_int_equal(srt_session_init(&s, seriatim_default_allocator(), 0), SERIATIM_OK);
    for (i = 0; i < 3; i++)
        ask(&s, i);
    assert_int_equal(srt_session_connected(&s, "user", "secret", 2, "name"), SERIATIM_OK);
    assert_int_equal(sends(&s, "EVALSHA\r\n"), 0); /* the greeting may be refused */
    assert_int_equal(hears(&s, "+OK\r\n+OK\r\n+OK\r\n", &r, &error), SERIATIM_AGAIN);
    assert_int_equal(sends(&s, "EVALSHA\r\n"), 3);
    assert_int_equal(hears(&s, ":1\r\n", &r, &error), SERIATIM_OK);
    assert_int_equal(r->kind, 0);
    srt_session_done(&s, r);
    srt_session_disconnected(&s);
    ask(&s, 3);
    assert_int_equal(srt_session_connected(&s, NULL, "secret", 0, NULL), SERIATIM_OK);
    assert_int_equal(hears(&s, "+OK\r\n", &r, &error), SERIATIM_AGAIN);
    assert_int_equal(sends(&s, "EVALSHA\r\n"), 3);
    assert_int_equal(hears(&s, ":1\r\n", &r, &error), SERIATIM_OK);
    assert_int_equal(r->kind, 1);
    srt_session_done(&s, r);
    srt_session_free(&s);
}

static void test_a_user_without_a_password_is_named(void **state)
{
    srt_session s;
    (void)state;
    assert_int_equal(srt_session_init(&s, seriatim_default_allocator(), 0), SERIATIM_OK);
    assert_int_equal(srt_session_connected(&s, "worker", NULL, 0, NULL), SERIATIM_OK);
    assert_int_equal(sends(&s, "*3\r\n$4\r\nAUTH\r\n$6\r\nworker\r\n$0\r\n\r\n"), 1);
    srt_session_free(&s);
}

static void test_f15_a_refused_handshake_ends_the_connection(void **state)
{
    srt_session s;
    srt_request *r;
    seriatim_error error;
    (void)state;
    assert_int_equal(srt_session_init(&s, seriatim_default_allocator(), 0), SERIATIM_OK);
    ask(&s, 1);
    assert_int_equal(srt_session_connected(&s, NULL, "wrong", 0, NULL), SERIATIM_OK);
    assert_int_equal(hears(&s, "-WRONGPASS x\r\n", &r, &error), SERIATIM_AUTH);
    assert_int_equal(sends(&s, "EVALSHA\r\n"), 0);
    srt_session_disconnected(&s);
    assert_int_equal(s.waiting, 1);
    srt_session_free(&s);
}

/* Whatever fails, the request is answered after a reconnect at the latest. */
static int life(size_t fail_at)
{
    short_memory memory = {0, fail_at};
    seriatim_allocator mem = {short_alloc, &memory};
    srt_session s;
    srt_request *r;
    seriatim_error error;
    memset(&s, 0, sizeof s);
    if (srt_session_init(&s, &mem, 0) == SERIATIM_OK && srt_session_connected(&s, NULL, NULL, 0, NULL) == SERIATIM_OK &&
        (r = srt_session_begin(&s, srt_script_heartbeat, NULL, 0)) != NULL && srt_session_send(&s, r) == SERIATIM_OK) {
        int status = hears(&s, "-NOSCRIPT x\r\n", &r, &error);
        if (status == SERIATIM_AGAIN)
            status = hears(&s, "+OK\r\n", &r, &error);
        if (status != SERIATIM_OK) {
            assert_int_equal(s.waiting, 1);
            srt_session_disconnected(&s);
            assert_int_equal(srt_session_connected(&s, NULL, NULL, 0, NULL), SERIATIM_OK);
            assert_int_equal(hears(&s, "+OK\r\n", &r, &error), SERIATIM_OK);
        }
        srt_session_done(&s, r);
    }
    if (s.mem)
        srt_session_free(&s);
    return memory.calls < fail_at;
}

static void test_every_allocation_fails(void **state)
{
    size_t n = 1;
    (void)state;
    while (!life(n))
        n++;
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noscript_sends_the_script_s_text),
        cmocka_unit_test(test_a_connection_sends_a_script_s_text_once),
        cmocka_unit_test(test_requests_are_sent_again_in_order_after_a_reconnect),
        cmocka_unit_test(test_a_user_without_a_password_is_named),
        cmocka_unit_test(test_f15_a_refused_handshake_ends_the_connection),
        cmocka_unit_test(test_every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

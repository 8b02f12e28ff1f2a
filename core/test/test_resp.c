/* test_resp.c - commands' bytes, and replies in every cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/resp.h"

static void test_a_command_has_exactly_these_bytes(void **state)
{
    static const char want[] = "*3\r\n$3\r\nSET\r\n$3\r\na\0b\r\n$20\r\n-9223372036854775808\r\n";
    srt_bytes out;
    (void)state;
    srt_bytes_init(&out, seriatim_default_allocator());
    srt_resp_array(&out, 3);
    srt_resp_arg(&out, "SET", 3);
    srt_resp_arg(&out, "a\0b", 3);
    srt_resp_arg_int(&out, INT64_MIN);
    assert_int_equal(out.len, sizeof want - 1);
    assert_memory_equal(out.data, want, out.len);
    srt_bytes_free(&out);
}

static void test_f17_a_reply_cut_at_every_byte(void **state)
{
    static const char text[] = "*5\r\n$3\r\na\0b\r\n*2\r\n:-7\r\n$-1\r\n+OK\r\n-STALE x\r\n$0\r\n\r\n";
    size_t cut;
    (void)state;
    for (cut = 1; cut < sizeof text - 1; cut++) {
        srt_reader *r = srt_reader_new(seriatim_default_allocator());
        seriatim_error error;
        srt_reply reply;
        assert_int_equal(srt_reader_feed(r, text, cut), SERIATIM_OK);
        assert_int_equal(srt_reader_next(r, &reply, &error), SERIATIM_AGAIN);
        assert_int_equal(srt_reader_feed(r, text + cut, sizeof text - 1 - cut), SERIATIM_OK);
        assert_int_equal(srt_reader_next(r, &reply, &error), SERIATIM_OK);
        assert_int_equal(reply.count, 8);
        assert_int_equal(reply.tokens[1].len, 3);
        assert_int_equal(reply.tokens[3].integer, -7);
        assert_int_equal(reply.tokens[4].type, SRT_NIL);
        assert_true(srt_token_is(&reply.tokens[5], "OK"));
        assert_int_equal(srt_reply_status(&reply.tokens[6], &error), SERIATIM_STALE);
        assert_int_equal(srt_reader_next(r, &reply, &error), SERIATIM_AGAIN);
        srt_reader_free(r);
    }
}

static void test_f15_errors_have_their_status(void **state)
{
    static const struct {
        const char *text;
        int status;
    } table[] = {{"OOM command", SERIATIM_FULL},
                 {"READONLY You", SERIATIM_READONLY},
                 {"LOADING x", SERIATIM_LOADING},
                 {"NOAUTH x", SERIATIM_AUTH},
                 {"GENERATION 3", SERIATIM_GENERATION},
                 {"STALE", SERIATIM_STALE},
                 {"STALEMATE x", SERIATIM_SERVER},
                 {"ERR x", SERIATIM_SERVER},
                 {"", SERIATIM_SERVER},
                 {"UNKILLABLE x", SERIATIM_LOADING},
                 {"INPROG x", SERIATIM_LOADING},
                 {"IOERR x", SERIATIM_LOADING},
                 {"DENIED x", SERIATIM_AUTH},
                 {"ERR Protocol error: unauthenticated multibulk length", SERIATIM_AUTH},
                 {"ERR Protocol error: unauthenticated bulk length", SERIATIM_AUTH},
                 {"ERR Protocol error: invalid multibulk length", SERIATIM_SERVER},
                 {"NOPERM x", SERIATIM_AUTH},
                 {"ERR The user executing the script can't run this command or subcommand script: 0a", SERIATIM_AUTH},
                 {"ERR Error running script (call to f_0a): @user_script:1: @user_script: 1: The user executing the "
                  "script can't run this command or subcommand",
                  SERIATIM_AUTH},
                 {"MOVED 1 a:1", SERIATIM_SERVER},
                 {"ERR Error running script (call to f_0a): @user_script:1: @user_script: 1: -OOM x", SERIATIM_FULL},
                 {"ERR Error running script (call to f_0a): @user_script:9: -READONLY x", SERIATIM_READONLY},
                 {"ERR Error running script (call to f_0a): @user_script:1: x", SERIATIM_SERVER}};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof table / sizeof *table; i++) {
        srt_token token = {SRT_ERROR, 0, table[i].text, strlen(table[i].text)};
        assert_int_equal(srt_reply_status(&token, NULL), table[i].status);
    }
}

/* A wrong password is one matter, and a right that is missing another. */
static void test_an_error_of_a_missing_right_says_so(void **state)
{
    static const struct {
        const char *text, *before;
    } table[] = {{"WRONGPASS x", "Redis refused the credentials"},
                 {"NOAUTH x", "Redis refused the credentials"},
                 {"NOPERM x", "Redis answers, but its user lacks a right"},
                 {"NOPERM ACL failure in script: User u has no permissions to run the 'hset' command",
                  "Redis answers, but its user may not write, or lacks another right"},
                 {"ERR The user executing the script can't run this command or subcommand script: 0a",
                  "Redis answers, but its user may not write, or lacks another right"}};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof table / sizeof *table; i++) {
        srt_token token = {SRT_ERROR, 0, table[i].text, strlen(table[i].text)};
        char want[256];
        seriatim_error error;
        assert_int_equal(srt_reply_status(&token, &error), SERIATIM_AUTH);
        snprintf(want, sizeof want, "%s: %s", table[i].before, table[i].text);
        assert_string_equal(error.message, want);
    }
}

/* A node of a cluster that was connected to by the URL of a single Redis. */
static void test_moved_names_the_url_of_a_cluster(void **state)
{
    static const char text[] = "MOVED 3999 127.0.0.1:6381";
    srt_token token = {SRT_ERROR, 0, text, sizeof text - 1};
    seriatim_error error;
    (void)state;
    assert_int_equal(srt_reply_status(&token, &error), SERIATIM_SERVER);
    assert_non_null(strstr(error.message, text));
    assert_non_null(strstr(error.message, "the URL must begin with redis+cluster:// or rediss+cluster://"));
}

static void test_absurd_sizes_end_the_connection(void **state)
{
    static const char *const bad[] = {"*1666666666\r\n", "$99999999999999999999\r\n", "?\r\n", "$-7\r\n", ":abc\r\n"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        srt_reader *r = srt_reader_new(seriatim_default_allocator());
        seriatim_error error;
        srt_reply reply;
        int status = srt_reader_feed(r, bad[i], strlen(bad[i]));
        if (status == SERIATIM_OK)
            status = srt_reader_next(r, &reply, &error);
        if (status == SERIATIM_OK || status == SERIATIM_AGAIN)
            fail_msg("%s: accepted", bad[i]);
        srt_reader_free(r);
    }
}

/* Found by fuzz_client: 19 digits, or sums of what a reply said, went beyond int64. */
static void test_numbers_beyond_int64_end_the_connection(void **state)
{
    static const struct {
        const char *text;
        int64_t number;
    } table[] = {{"0", 0},
                 {"-7", -7},
                 {"1789000000000000", 1789000000000000},
                 {"9000000000000001", 9000000000000000},
                 {"-9999999999999999999", -9000000000000000},
                 {"99999999999999999999999999", 9000000000000000},
                 {"12x", 12},
                 {"x", 0},
                 {"-", 0}};
    srt_token integer = {SRT_INTEGER, INT64_MIN, NULL, 0};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof table / sizeof *table; i++) {
        srt_token token = {SRT_STRING, 0, table[i].text, strlen(table[i].text)};
        assert_int_equal(srt_token_int(&token), table[i].number);
    }
    assert_int_equal(srt_token_int(&integer), -9000000000000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_command_has_exactly_these_bytes),
        cmocka_unit_test(test_f17_a_reply_cut_at_every_byte),
        cmocka_unit_test(test_f15_errors_have_their_status),
        cmocka_unit_test(test_an_error_of_a_missing_right_says_so),
        cmocka_unit_test(test_moved_names_the_url_of_a_cluster),
        cmocka_unit_test(test_absurd_sizes_end_the_connection),
        cmocka_unit_test(test_numbers_beyond_int64_end_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

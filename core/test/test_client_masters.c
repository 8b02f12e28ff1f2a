/* test_client_masters.c - a client of a cluster whose host has the sockets: connections by numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "client/client.h"

#define MAP "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$1\r\nA\r\n:1\r\n*3\r\n:8192\r\n:16383\r\n*2\r\n$1\r\nB\r\n:2\r\n"

/* What it has for this master, sent; 1: `text` is a part of it. */
static int sends(seriatim_client *c, unsigned number, const char *text)
{
    const char *data;
    size_t len, i;
    int found = 0;
    srt_client_master_output(c, number, &data, &len);
    for (i = 0; i + strlen(text) <= len; i++)
        found |= memcmp(data + i, text, strlen(text)) == 0;
    srt_client_master_sent(c, number, len);
    return found;
}

static void hears(seriatim_client *c, unsigned number, const char *text)
{
    seriatim_error error;
    assert_int_equal(srt_client_master_input(c, number, text, strlen(text), &error), SERIATIM_OK);
}

static void test_an_operation_asks_each_master_on_its_own_connection(void **state)
{
    static const char info[] = "$8\r\n\nrole:me\r\n";
    seriatim_client *c;
    seriatim_error error;
    srt_client_master_view first, second;
    (void)state;
    assert_int_equal(seriatim_client_new(NULL, &c, &error), SERIATIM_OK);
    assert_int_equal(srt_client_master(c, 0, &first), 1);
    assert_null(first.host);
    assert_int_equal(srt_client_seed(c, "A", 1), SERIATIM_OK);
    assert_int_equal(seriatim_health_begin(c), SERIATIM_OK);
    assert_int_equal(srt_client_tick(c, 1000), 1500); /* another is asked then */
    assert_int_equal(srt_client_master(c, 0, &first), 1);
    assert_string_equal(first.host, "A");
    assert_int_equal(first.port, 1);
    assert_true(first.wanted);
    assert_int_equal(srt_client_master_connected(c, first.number, "u", "p"), SERIATIM_OK);
    assert_true(sends(c, first.number, "AUTH"));
    hears(c, first.number, "+OK\r\n");
    assert_true(sends(c, first.number, "SLOTS"));
    hears(c, first.number, MAP);
    assert_int_equal(srt_client_master(c, 1, &second), 1);
    assert_int_equal(srt_client_master(c, 2, &second), 0);
    assert_true(sends(c, first.number, "INFO"));
    hears(c, first.number, info);
    assert_int_equal(srt_client_master(c, 1, &second), 1);
    assert_string_equal(second.host, "B");
    assert_true(second.wanted);
    assert_int_equal(srt_client_master_connected(c, second.number, NULL, NULL), SERIATIM_OK);
    assert_true(sends(c, second.number, "INFO"));
    srt_client_master_disconnected(c, second.number);
    assert_int_equal(srt_client_master_connected(c, second.number, NULL, NULL), SERIATIM_OK);
    assert_true(sends(c, second.number, "INFO"));
    assert_int_equal(srt_client_status(c), SERIATIM_AGAIN);
    hears(c, second.number, info);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_string_equal(seriatim_health_result(c)->address, "A:1");
    assert_false(sends(c, 77, "x")); /* nobody has this number */
    hears(c, 77, "+x\r\n");
    srt_client_master_disconnected(c, 77);
    seriatim_client_free(c);
}

/* Each operation has its own reason, which is said when its time has passed. */
static void test_what_held_up_an_earlier_operation_is_forgotten(void **state)
{
    static const char info[] = "$8\r\n\nrole:me\r\n", map[] = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nA\r\n:1\r\n";
    seriatim_client *c;
    seriatim_error error;
    srt_client_master_view only;
    (void)state;
    assert_int_equal(seriatim_client_new(NULL, &c, &error), SERIATIM_OK);
    assert_int_equal(srt_client_seed(c, "A", 1), SERIATIM_OK);
    assert_int_equal(seriatim_health_begin(c), SERIATIM_OK);
    srt_client_tick(c, 1000);
    assert_int_equal(srt_client_master(c, 0, &only), 1);
    assert_int_equal(srt_client_master_connected(c, only.number, NULL, NULL), SERIATIM_OK);
    assert_true(sends(c, only.number, "SLOTS"));
    hears(c, only.number, map);
    assert_true(sends(c, only.number, "INFO"));
    hears(c, only.number, "-LOADING Redis is loading the dataset in memory\r\n");
    assert_int_equal(srt_client_held_up(c)->status, SERIATIM_LOADING);
    srt_client_tick(c, 1050);
    assert_true(sends(c, only.number, "INFO"));
    hears(c, only.number, info);
    assert_int_equal(srt_client_status(c), SERIATIM_OK);
    assert_int_equal(seriatim_health_begin(c), SERIATIM_OK);
    assert_int_equal(srt_client_held_up(c)->status, SERIATIM_OK);
    seriatim_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_operation_asks_each_master_on_its_own_connection),
        cmocka_unit_test(test_what_held_up_an_earlier_operation_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

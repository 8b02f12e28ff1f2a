/* test_registry.c - every limit of a queue, by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>

#include "failing.h"
#include "model/registry.h"

static void refuses(const seriatim_queue_settings *s, const char *field)
{
    srt_registry r;
    srt_queue *queue;
    seriatim_error error;
    assert_int_equal(srt_registry_init(&r, seriatim_default_allocator(), "ns", &error), SERIATIM_OK);
    assert_int_equal(srt_registry_add(&r, s, &queue, &error), SERIATIM_INVALID);
    if (strncmp(error.message, field, strlen(field)) != 0)
        fail_msg("\"%s\" does not name %s", error.message, field);
    assert_int_equal(r.count, 0);
    srt_registry_free(&r);
}

static void test_a_refusal_of_a_setting_names_it(void **state)
{
    seriatim_queue_settings good, s;
    (void)state;
    seriatim_queue_settings_init(&good);
    good.name = "q";
    good.name_len = 1;
#define REFUSES(member, value, field) (s = good, s.member = (value), refuses(&s, field))
    REFUSES(name_len, 0, "queue_name");
    REFUSES(name_len, 513, "queue_name");
    REFUSES(name, NULL, "queue_name");
    REFUSES(shards_count, -1, "shards_count");
    REFUSES(shards_count, SERIATIM_MAX_SHARDS + 1, "shards_count");
    REFUSES(batch_size, 0, "batch_size");
    REFUSES(batch_size, SERIATIM_MAX_BATCH + 1, "batch_size");
    REFUSES(max_retry_count, -1, "max_retry_count");
    REFUSES(max_retry_count, 1000001, "max_retry_count");
    REFUSES(fold, "Merge", "fold");
    REFUSES(fold, NULL, "fold");
    REFUSES(on_waiting, "", "on_waiting");
    REFUSES(on_exhausted, "bury ", "on_exhausted");
    REFUSES(ttr, -1, "ttr");
    REFUSES(ttr, (double)NAN, "ttr");
    REFUSES(ttr, (double)INFINITY, "ttr");
#undef REFUSES
}

static int set_layout(const char *text, unsigned *shards)
{
    seriatim_queue_settings s;
    srt_registry r;
    srt_queue *queue;
    seriatim_error error;
    int status;
    seriatim_queue_settings_init(&s);
    s.name = "q";
    s.name_len = 1;
    assert_int_equal(srt_registry_init(&r, seriatim_default_allocator(), "ns", &error), SERIATIM_OK);
    assert_int_equal(srt_registry_add(&r, &s, &queue, &error), SERIATIM_OK);
    status = srt_queue_set_layout(&r, queue, text, strlen(text), &error);
    *shards = queue->shards_count;
    srt_registry_free(&r);
    return status;
}

static void test_layouts_are_read_as_redis_stores_them(void **state)
{
    static const char *const bad[] = {"", "5", "1 0", "0 5", "1 4097", "x y", "1 ", " 5", "-1 5"};
    unsigned shards;
    size_t i;
    (void)state;
    assert_int_equal(set_layout("3 7 3", &shards), SERIATIM_OK);
    assert_int_equal(shards, 7);
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(set_layout(bad[i], &shards), SERIATIM_PROTOCOL);
    assert_int_equal(set_layout("3 7", &shards), SERIATIM_UNSUPPORTED); /* of an earlier version, or a later one */
    assert_int_equal(set_layout("3 7 2", &shards), SERIATIM_UNSUPPORTED);
    assert_int_equal(set_layout("3 7 4", &shards), SERIATIM_UNSUPPORTED);
}

static int build(size_t fail_at)
{
    failing memory = {0, fail_at, 0, 0};
    seriatim_allocator mem = {failing_alloc, &memory};
    seriatim_queue_settings s;
    srt_registry r;
    srt_queue *queue;
    int status;
    seriatim_queue_settings_init(&s);
    s.name = "q";
    s.name_len = 1;
    status = srt_registry_init(&r, &mem, "ns", NULL);
    if (status == SERIATIM_OK)
        status = srt_registry_add(&r, &s, &queue, NULL);
    if (status == SERIATIM_OK)
        status = srt_queue_set_layout(&r, queue, "1 5 3", 5, NULL);
    srt_registry_free(&r);
    assert_int_equal(memory.live, 0);
    return status;
}

static void test_every_allocation_fails(void **state)
{
    size_t n = 1;
    (void)state;
    while (build(n) != SERIATIM_OK)
        n++;
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refusal_of_a_setting_names_it),
        cmocka_unit_test(test_layouts_are_read_as_redis_stores_them),
        cmocka_unit_test(test_every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

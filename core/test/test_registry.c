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
        assert_int_equal(set_layout(bad[i], &shards), SERIATIM_UNSUPPORTED);
    assert_int_equal(set_layout("3 7", &shards), SERIATIM_UNSUPPORTED); /* of an earlier version, or a later one */
    assert_int_equal(set_layout("3 7 2", &shards), SERIATIM_UNSUPPORTED);
    assert_int_equal(set_layout("3 7 5", &shards), SERIATIM_UNSUPPORTED);
    assert_int_equal(set_layout("3 7 4 5 9", &shards), SERIATIM_OK);
    assert_int_equal(shards, 7);
    assert_int_equal(set_layout("3 7 4", &shards), SERIATIM_UNSUPPORTED);
    assert_int_equal(set_layout("3 7 4 5 6", &shards), SERIATIM_UNSUPPORTED); /* it has seven shards now */
    assert_int_equal(set_layout("3 7 4 9 8", &shards), SERIATIM_UNSUPPORTED);
    assert_int_equal(set_layout("3 7 4 5 9 1", &shards), SERIATIM_UNSUPPORTED);
    assert_int_equal(set_layout("3 7 4 5 9 paused", &shards), SERIATIM_OK);
    assert_int_equal(set_layout("3 7 4 0 9 paused", &shards), SERIATIM_UNSUPPORTED); /* nothing moves */
    assert_int_equal(set_layout("3 7 4 5 9 paused ", &shards), SERIATIM_UNSUPPORTED);
}

static void reads_and_writes(const char *text, int64_t generation, unsigned shards, unsigned old, unsigned most)
{
    srt_layout layout;
    char written[SRT_LAYOUT_TEXT];
    assert_int_equal(srt_layout_read(text, strlen(text), &layout, NULL), SERIATIM_OK);
    assert_int_equal(layout.generation, generation);
    assert_int_equal(layout.shards, shards);
    assert_int_equal(layout.old, old);
    assert_int_equal(layout.most, most);
    srt_layout_write(&layout, written);
    assert_string_equal(written, text);
}

static void test_a_layout_says_what_moves(void **state)
{
    (void)state;
    reads_and_writes("1 5 3", 1, 5, 0, 5);
    reads_and_writes("1790000000000000 4096 4 1 4096", INT64_C(1790000000000000), 4096, 1, 4096);
    reads_and_writes("7 3 4 16 16", 7, 3, 16, 16);
    reads_and_writes("8 3 4 0 16", 8, 3, 0, 16); /* nothing moves; thirteen shards keep figures */
}

static void test_a_refusal_says_the_layout_of_the_shard(void **state)
{
    int64_t generation;
    const char *text;
    size_t len;
    (void)state;
    assert_true(srt_layout_refused("reload the layout: GENERATION 7 7 16 4 5 16", &generation, &text, &len));
    assert_int_equal(generation, 7);
    assert_int_equal(len, 11);
    assert_memory_equal(text, "7 16 4 5 16", 11);
    assert_true(srt_layout_refused("reload the layout: GENERATION 3", &generation, &text, &len));
    assert_int_equal(generation, 3);
    assert_int_equal(len, 0);
    assert_true(srt_layout_refused("GENERATION -4", &generation, &text, &len));
    assert_int_equal(generation, -4);
    assert_false(srt_layout_refused("GENERATION", &generation, &text, &len));
    assert_false(srt_layout_refused("GENERATION x", &generation, &text, &len));
}

/* A node points to the keys of a shard as long as it lives, also after the queue has lost that shard. */
static void test_the_keys_of_a_shard_stay_where_they_are(void **state)
{
    srt_queue queue;
    srt_registry r;
    const srt_shard_keys *first, *last;
    (void)state;
    memset(&queue, 0, sizeof queue);
    assert_int_equal(srt_registry_init(&r, seriatim_default_allocator(), "ns", NULL), SERIATIM_OK);
    srt_bytes_init(&queue.name, r.mem);
    srt_bytes_adds(&queue.name, "q");
    assert_int_equal(srt_queue_set_layout(&r, &queue, "1 5 3", 5, NULL), SERIATIM_OK);
    first = queue.shards[0];
    last = queue.shards[4];
    assert_int_equal(srt_queue_set_layout(&r, &queue, "2 900 4 5 900", 13, NULL), SERIATIM_OK);
    assert_int_equal(srt_queue_addressed(&queue), 900);
    assert_int_equal(srt_queue_set_layout(&r, &queue, "3 2 4 900 900", 13, NULL), SERIATIM_OK);
    assert_int_equal(srt_queue_addressed(&queue), 900);
    assert_int_equal(srt_queue_set_layout(&r, &queue, "4 2 4 0 900", 11, NULL), SERIATIM_OK);
    assert_int_equal(srt_queue_addressed(&queue), 2);
    assert_ptr_equal(queue.shards[0], first);
    assert_ptr_equal(queue.shards[4], last);
    assert_memory_equal(last->prefix.data, "ns:{q/4}:", 9);
    srt_queue_forget_layout(&r, &queue);
    srt_bytes_free(&queue.name);
    srt_registry_free(&r);
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
        cmocka_unit_test(test_a_layout_says_what_moves),
        cmocka_unit_test(test_a_refusal_says_the_layout_of_the_shard),
        cmocka_unit_test(test_the_keys_of_a_shard_stay_where_they_are),
        cmocka_unit_test(test_every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_keys.c - shards of ids, and names that are data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/keys.h"

static void test_an_id_has_its_shard_by_crc32(void **state)
{
    static const unsigned want[] = {4, 3, 2, 1, 3, 1, 0, 1, 1, 4};
    unsigned i;
    (void)state;
    for (i = 0; i < 10; i++) {
        char id = (char)('0' + i);
        assert_int_equal(seriatim_shard_of(&id, 1, 5), want[i]);
    }
    assert_int_equal(seriatim_shard_of("x", 1, 0), 0);
    assert_int_equal(srt_crc32("123456789", 9), 0xcbf43926);
}

static uint32_t next_random(uint32_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 17;
    return *x ^= *x << 5;
}

/* What Redis Cluster hashes: between the first { and the first } after it. */
static void tag_of(const char *key, size_t len, const char **tag, size_t *tag_len)
{
    const char *open = memchr(key, '{', len), *close;
    assert_non_null(open);
    close = memchr(open, '}', len - (size_t)(open - key));
    assert_non_null(close);
    *tag = open + 1;
    *tag_len = (size_t)(close - open - 1);
    assert_true(*tag_len > 0);
}

static void test_f29_hostile_names_share_no_key(void **state)
{
    static const char bytes[] = "{}:%/ \n\0a\xc3";
    enum { NAMES = 400 };
    static char names[NAMES][6];
    static size_t lens[NAMES];
    static srt_bytes keys[NAMES];
    uint32_t x = 7;
    size_t i, k;
    (void)state;
    for (i = 0; i < NAMES; i++) {
        const char *tag, *end;
        size_t tag_len;
        lens[i] = 1 + next_random(&x) % 5;
        for (k = 0; k < lens[i]; k++)
            names[i][k] = bytes[next_random(&x) % (sizeof bytes - 1)];
        srt_bytes_init(&keys[i], seriatim_default_allocator());
        srt_key_shard(&keys[i], "n{s", names[i], lens[i], (unsigned)(i % 3));
        tag_of(keys[i].data, keys[i].len, &tag, &tag_len);
        end = keys[i].data + keys[i].len;
        assert_ptr_equal(tag + tag_len, end - 2); /* the tag holds the whole name and the shard */
    }
    for (i = 0; i < NAMES; i++)
        for (k = 0; k < i; k++) {
            int same_name = lens[i] == lens[k] && memcmp(names[i], names[k], lens[i]) == 0 && i % 3 == k % 3;
            int same_key = keys[i].len == keys[k].len && memcmp(keys[i].data, keys[k].data, keys[i].len) == 0;
            assert_int_equal(same_name, same_key);
        }
    for (i = 0; i < NAMES; i++)
        srt_bytes_free(&keys[i]);
}

static void test_the_key_of_a_layout_gives_the_queue_s_name_back(void **state)
{
    static const char bytes[] = "{}:%/ \n\0a\xc3"
                                "4F";
    srt_bytes key, name;
    uint32_t x = 9;
    int i;
    (void)state;
    srt_bytes_init(&key, seriatim_default_allocator());
    srt_bytes_init(&name, seriatim_default_allocator());
    for (i = 0; i < 2000; i++) {
        char given[6];
        size_t k, len = 1 + next_random(&x) % sizeof given;
        for (k = 0; k < len; k++)
            given[k] = bytes[next_random(&x) % (sizeof bytes - 1)];
        srt_bytes_clear(&key);
        srt_key_layout(&key, "n{s", given, len);
        assert_int_equal(srt_key_read_layout(&name, "n{s", key.data, key.len), SERIATIM_OK);
        assert_int_equal(name.len, len);
        assert_memory_equal(name.data, given, len);
        assert_int_equal(srt_key_read_layout(&name, "n{s2", key.data, key.len), SERIATIM_INVALID);
        assert_int_equal(srt_key_read_layout(&name, "n{s", key.data, key.len - 1), SERIATIM_INVALID);
        assert_int_equal(srt_key_read_layout(&name, "n{s", key.data, next_random(&x) % key.len), SERIATIM_INVALID);
    }
    assert_int_equal(srt_key_read_layout(&name, "n", "", 0), SERIATIM_INVALID);
    srt_bytes_free(&key);
    srt_bytes_free(&name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_id_has_its_shard_by_crc32),
        cmocka_unit_test(test_f29_hostile_names_share_no_key),
        cmocka_unit_test(test_the_key_of_a_layout_gives_the_queue_s_name_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_policy.c - even shares, few moves, bounded back-off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"

#define SHARDS 24

static void share(const uint64_t *nodes, size_t count, uint64_t *owners)
{
    unsigned places[SHARDS], load[16], i;
    srt_share_shards(99, nodes, count, SHARDS, places, load);
    for (i = 0; i < SHARDS; i++)
        owners[i] = nodes[places[i]];
}

static void test_shares_are_even_and_stable(void **state)
{
    uint64_t nodes[8], reversed[8], owners[SHARDS], again[SHARDS], fewer[SHARDS];
    size_t count, i, k;
    (void)state;
    for (i = 0; i < 8; i++) {
        char name = (char)('a' + i);
        nodes[i] = srt_hash(&name, 1);
    }
    for (count = 1; count <= 8; count++) {
        size_t moved = 0;
        for (i = 0; i < count; i++)
            reversed[i] = nodes[count - 1 - i];
        share(nodes, count, owners);
        share(reversed, count, again);
        assert_memory_equal(owners, again, sizeof owners);
        for (i = 0; i < count; i++) {
            size_t own = 0;
            for (k = 0; k < SHARDS; k++)
                own += owners[k] == nodes[i];
            assert_in_range(own, SHARDS / count, (SHARDS + count - 1) / count);
        }
        if (count < 2)
            continue;
        share(nodes, count - 1, fewer);
        for (k = 0; k < SHARDS; k++)
            moved += owners[k] != fewer[k] && owners[k] != nodes[count - 1];
        assert_true(moved <= SHARDS / 3);
    }
}

static void test_back_off_stays_in_range(void **state)
{
    unsigned attempt;
    uint64_t random;
    (void)state;
    for (attempt = 0; attempt < 100; attempt++)
        for (random = 0; random < 2000; random += 7) {
            int64_t most = attempt < 5 ? 50 << attempt : 1000, delay = srt_reconnect_delay(attempt, random);
            assert_true(delay <= most && delay > most / 2 - 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_are_even_and_stable),
        cmocka_unit_test(test_back_off_stays_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

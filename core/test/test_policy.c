/* test_policy.c - even shares, few moves, groups of shards, bounded back-off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/policy.h"

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

static void test_reconnects_back_off_in_range(void **state)
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

/* The seed's ranges: 15-44, 16-74, 31-118, ... */
static void test_r_retry_9_the_default_back_off_stays_in_its_ranges(void **state)
{
    static const double least[] = {15, 16, 31, 96, 271}, most[] = {44, 74, 118, 212, 416};
    int64_t count;
    int i;
    (void)state;
    for (count = 0; count < 5; count++) {
        assert_true(seriatim_back_off(count, 0) == least[count]);
        assert_true(seriatim_back_off(count, 0.999999) == most[count]);
        for (i = 0; i < 1000; i++) {
            double seconds = seriatim_back_off(count, i / 1000.0);
            assert_true(seconds == least[count] + (double)(i * 30 / 1000) * (double)(count + 1));
        }
    }
    assert_true(seriatim_back_off(25, 0.5) == 390625 + 15 + 15 * 26);
}

static void test_r_event_6_the_back_off_of_events_follows_its_table(void **state)
{
    double total = 0;
    int64_t attempt;
    (void)state;
    assert_true(seriatim_back_off_of_events(-1) == 10);
    for (attempt = 2; attempt <= 69; attempt++)
        total += seriatim_back_off_of_events(attempt - 2);
    assert_true(total == 49880);
    for (attempt = 2; attempt <= 1000; attempt++)
        assert_true(seriatim_back_off_of_events(attempt - 2) == (attempt < 10   ? 10
                                                                 : attempt < 20 ? 60
                                                                 : attempt < 40 ? 300
                                                                                : 1440));
    assert_true(seriatim_back_off_of_events(INT64_MAX) == 1440);
}

static void test_the_back_off_of_any_arguments_is_bounded(void **state)
{
    (void)state;
    assert_true(seriatim_back_off(-1, 0) == 15);
    assert_true(seriatim_back_off(INT64_MIN, 0.5) == 30);
    assert_true(seriatim_back_off(1000000, 0) == 3155760000.0);
    assert_true(seriatim_back_off(INT64_MAX, 0.5) == 3155760000.0);
    assert_true(seriatim_back_off(0, -3) == 15);
    assert_true(seriatim_back_off(0, 1) == 44);
    assert_true(seriatim_back_off(0, INFINITY) == 44);
    assert_true(seriatim_back_off(0, NAN) == 15);
}

static void assert_split(size_t shards, size_t nodes, size_t node, size_t threads, size_t count, const size_t *want)
{
    size_t groups[32];
    assert_true(shards <= 32);
    assert_int_equal(seriatim_split(shards, nodes, node, threads, groups), count);
    if (shards)
        assert_memory_equal(groups, want, shards * sizeof *want);
}

static void test_split_deals_all_shards_to_threads(void **state)
{
    static const size_t three[] = {0, 1, 2, 0, 1, 2, 0, 1}, each[] = {0, 1}, one[] = {0, 0, 0};
    (void)state;
    assert_split(8, 1, 0, 3, 3, three);
    assert_split(2, 1, 0, 5, 2, each);
    assert_split(3, 1, 0, 1, 1, one);
    assert_split(0, 1, 0, 3, 0, NULL);
}

#define OFF SERIATIM_ELSEWHERE

static void test_split_deals_to_nodes_first(void **state)
{
    static const size_t first[] = {0, OFF, OFF, 1, OFF, OFF, 0, OFF}, last[] = {OFF, OFF, 0, OFF, OFF, 1, OFF, OFF};
    static const size_t none[] = {OFF, OFF};
    (void)state;
    assert_split(8, 3, 0, 2, 2, first);
    assert_split(8, 3, 2, 2, 2, last);
    assert_split(8, 3, 2, 9, 2, last);
    assert_split(2, 3, 2, 4, 0, none);
    assert_split(2, 3, 3, 4, 0, none);
    assert_split(2, 0, 0, 4, 0, none);
    assert_split(2, 1, 0, 0, 0, none);
}

/* Every shard is in one group of one node, and no group of a node has two shards more than another. */
static void test_split_deals_every_shard_evenly(void **state)
{
    size_t shards, nodes, node, threads, i;
    (void)state;
    for (shards = 0; shards <= 24; shards++)
        for (nodes = 1; nodes <= 5; nodes++)
            for (threads = 1; threads <= 6; threads++) {
                size_t seen[24] = {0};
                for (node = 0; node < nodes; node++) {
                    size_t groups[24], load[6] = {0}, count = seriatim_split(shards, nodes, node, threads, groups);
                    for (i = 0; i < shards; i++) {
                        if (groups[i] == SERIATIM_ELSEWHERE)
                            continue;
                        assert_true(groups[i] < count);
                        load[groups[i]]++;
                        seen[i]++;
                    }
                    for (i = 0; i < count; i++)
                        assert_true(load[i] > 0 && load[i] <= load[0] && load[0] - load[i] <= 1);
                }
                for (i = 0; i < shards; i++)
                    assert_int_equal(seen[i], 1);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_are_even_and_stable),
        cmocka_unit_test(test_reconnects_back_off_in_range),
        cmocka_unit_test(test_r_retry_9_the_default_back_off_stays_in_its_ranges),
        cmocka_unit_test(test_r_event_6_the_back_off_of_events_follows_its_table),
        cmocka_unit_test(test_the_back_off_of_any_arguments_is_bounded),
        cmocka_unit_test(test_split_deals_all_shards_to_threads),
        cmocka_unit_test(test_split_deals_to_nodes_first),
        cmocka_unit_test(test_split_deals_every_shard_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_seeds.c - a Redis Cluster that is found by the seeds of a URL, whose names are looked up slowly. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "link_fixture.h"
#include "lookups.h"
#include "redis_cluster.h"
#include "wire/cluster.h"

/* None of them is left for the other while it connects. */
static void test_seeds_whose_names_are_looked_up_slowly_are_asked(void **state)
{
    char url[96];
    seriatim_link *link;
    (void)state;
    make_lookups_late(SRT_CLUSTER_ANSWER_MS + 100, 0);
    snprintf(url, sizeof url, "redis+cluster://late.test:%d,late.test:%d", cluster.nodes[0].port,
             cluster.nodes[1].port);
    link = link_to_queue(url, "late", 24, "list");
    link_push_jobs(link, "a", 0, 100, 100);
    seriatim_link_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds_whose_names_are_looked_up_slowly_are_asked),
    };
    return cmocka_run_group_tests(tests, redis_cluster_set_up, redis_cluster_tear_down);
}

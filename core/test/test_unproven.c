/*
 * test_unproven.c - when ids that may have ended a process run: against a model of Redis (store.h), on a clock that
 * stands still while bytes move.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "store_node.h"

/* An id that waits for its run alone. */
static store_id *unproven(node_and_store *f, unsigned shard, unsigned n)
{
    store_id *id = id_of(f, shard, n);
    store_push(f->store, id, 0);
    id->first.place = 3;
    id->first.mark = 1;
    return id;
}

static const store_id *id_of_delivery(const node_and_store *f, const seriatim_delivery *d)
{
    const seriatim_claimed *job = seriatim_delivery_job(d, 0);
    size_t i;
    for (i = 0; i < f->store->id_count; i++)
        if (f->store->ids[i].len == job->id_len && memcmp(f->store->ids[i].name, job->id, job->id_len) == 0)
            return &f->store->ids[i];
    return NULL;
}

/* With serial_shards the second id of a shard waits for the first, and those of other shards do not. */
static void test_f35_an_unproven_id_that_may_not_run_holds_up_no_other(void **state)
{
    seriatim_queue_settings q = queue_q();
    node_and_store f;
    seriatim_delivery *first, *second;
    const store_id *a, *b;
    int runs;
    (void)state;
    q.serial_shards = 1;
    f = open_node_of_threads(q, 2);
    unproven(&f, 0, 0);
    unproven(&f, 0, 1);
    unproven(&f, 0, 2);
    pass(&f, 5);
    unproven(&f, 1, 0);
    unproven(&f, 1, 1);
    pass(&f, 5);
    first = take(&f);
    pass(&f, 5);
    a = id_of_delivery(&f, first);
    for (runs = 0; runs < 2; runs++) { /* the other shard goes on beside it */
        second = take(&f);
        b = id_of_delivery(&f, second);
        assert_ptr_not_equal(a->shard, b->shard);
        end(&f, second);
        pass(&f, 5);
    }
    assert_false(srt_node_offers(f.node, 0, now_of(&f)));
    end(&f, first);
    for (runs = 0; runs < 2; runs++) {
        pass(&f, 5);
        second = take(&f);
        assert_ptr_equal(id_of_delivery(&f, second)->shard, a->shard);
        assert_false(srt_node_offers(f.node, 0, now_of(&f)));
        end(&f, second);
    }
    pass(&f, HOLD_MS);
    assert_int_equal(f.node->stats.processed, 5);
    close_node(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f35_an_unproven_id_that_may_not_run_holds_up_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

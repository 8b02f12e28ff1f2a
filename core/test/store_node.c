/* store_node.c - see store_node.h. */
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

int64_t now_of(const node_and_store *f)
{
    return f->store->now_us / 1000 - INT64_C(1790000000000);
}

int move_bytes(node_and_store *f, srt_channel channel)
{
    srt_bytes *from = &f->conns[channel]->out;
    seriatim_error error = {0, ""};
    const char *data;
    size_t len;
    int moved = from->len > 0;
    if (moved) {
        assert_int_equal(srt_node_input(f->node, channel, from->data, from->len, now_of(f), &error), SERIATIM_OK);
        srt_bytes_clear(from);
    }
    srt_node_output(f->node, channel, &data, &len);
    if (len > 0) {
        store_feed(f->conns[channel], data, len);
        srt_node_sent(f->node, channel, len);
        f->writes += channel == SRT_COMMANDS;
        moved = 1;
    }
    return moved;
}

void pump(node_and_store *f)
{
    int moved = 1;
    while (moved) {
        srt_node_pulse(f->node, now_of(f));
        srt_node_tick(f->node, now_of(f));
        moved = move_bytes(f, SRT_WAKES);
        moved |= move_bytes(f, SRT_COMMANDS);
    }
    assert_string_equal(f->store->violation, "");
}

void pass(node_and_store *f, int64_t ms)
{
    for (; ms > 0; ms--) {
        f->store->now_us += 1000;
        pump(f);
    }
}

void reconnect_node(node_and_store *f)
{
    int i;
    for (i = 0; i < SRT_CHANNELS; i++) {
        store_disconnect(f->conns[i]);
        srt_node_disconnected(f->node, (srt_channel)i, now_of(f));
        f->conns[i] = store_connect(f->store);
        assert_int_equal(srt_node_connected(f->node, (srt_channel)i, NULL, NULL, 0, now_of(f)), SERIATIM_OK);
    }
}

void close_node(node_and_store *f)
{
    srt_node_free(f->node);
    store_free(f->store);
}

store_id *id_of(const node_and_store *f, unsigned shard, unsigned n)
{
    size_t i;
    for (i = 0; i < f->store->id_count; i += 2)
        if (f->store->ids[i].shard == &f->store->shards[shard] && n-- == 0)
            return &f->store->ids[i];
    fail_msg("the shard has too few ids");
    return NULL;
}

seriatim_delivery *take(const node_and_store *f)
{
    seriatim_delivery *d = NULL;
    const seriatim_claimed *job;
    assert_int_equal(srt_node_take(f->node, 0, now_of(f), &d), SERIATIM_OK);
    job = seriatim_delivery_job(d, 0);
    assert_int_equal(seriatim_delivery_size(d), 1);
    assert_int_equal(store_handed(f->store, job, SERIATIM_RUN), 1);
    return d;
}

void end(const node_and_store *f, seriatim_delivery *d)
{
    assert_int_equal(seriatim_delivery_done(d, 0), SERIATIM_OK);
    srt_node_settle(f->node, d, now_of(f));
}

seriatim_delivery *push_and_take(node_and_store *f, store_id *id)
{
    store_push(f->store, id, 0);
    pump(f);
    return take(f);
}

void push_and_run(node_and_store *f, store_id *id)
{
    end(f, push_and_take(f, id));
    pump(f);
}

node_and_store open_node(seriatim_queue_settings q)
{
    return open_node_of_threads(q, 20);
}

node_and_store open_node_of_threads(seriatim_queue_settings q, unsigned threads)
{
    node_and_store f = {store_new(7, 800), NULL, {NULL}, 0};
    seriatim_node_settings settings = node_of_one_thread("holder");
    seriatim_error error;
    size_t worker;
    int i;
    settings.options.ns = STORE_NS;
    settings.lease_ms = 600000;
    settings.poll_ms = 3600000;
    settings.threads = threads;
    q.name = f.store->queues[0].name;
    q.name_len = strlen(q.name);
    q.shards_count = (int64_t)f.store->queues[0].shards;
    assert_int_equal(srt_node_new(&settings, &f.node, &error), SERIATIM_OK);
    assert_int_equal(srt_node_worker(f.node, &q, &worker, &error), SERIATIM_OK);
    assert_int_equal(srt_node_start(f.node, now_of(&f), &error), SERIATIM_OK);
    for (i = 0; i < SRT_CHANNELS; i++) {
        f.conns[i] = store_connect(f.store);
        assert_int_equal(srt_node_connected(f.node, (srt_channel)i, NULL, NULL, 0, now_of(&f)), SERIATIM_OK);
    }
    pass(&f, 5000);                    /* its shards are its own, and it has measured once */
    push_and_run(&f, id_of(&f, 4, 0)); /* Redis knows the scripts */
    pass(&f, HOLD_MS);
    f.node->stats.processed = 0;
    return f;
}

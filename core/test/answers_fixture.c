/* answers_fixture.c - see answers_fixture.h. */
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

#include "answers_fixture.h"

static void answer_layout(const life *l, srt_bytes *out)
{
    srt_resp_array(out, l->changed ? 3 : 1);
    srt_resp_arg(out, l->shards == 2 ? "1 2 3" : "1 1 3", 5);
    if (!l->changed)
        return;
    srt_resp_arg(out, "max_retry_count", 15);
    srt_resp_arg_int(out, RETRIES);
}

static int has_lease(life *l)
{
    sampler_lease *lease = l->lease;
    if (!lease || !l->measured)
        return l->measured > 0;
    if (lease->holder && lease->holder != l->node && l->now < lease->until)
        return 0;
    lease->holder = l->node;
    lease->until = l->now + SRT_SAMPLER_LEASE_MS;
    return 1;
}

static void answer_sampler(life *l, srt_bytes *out)
{
    srt_resp_array(out, 3);
    srt_resp_arg_int(out, has_lease(l));
    srt_resp_arg_int(out, INT64_C(1789000000000000) + l->now * 1000);
    srt_resp_arg_int(out, 0);
}

/* The names of all queues; which of them are not idle; then errors, so that the next one is measured. */
static void answer_sample(life *l, srt_bytes *out)
{
    char key[32];
    unsigned i;
    switch (l->node->sampler.step) {
    case SRT_SAMPLING_NAMES:
        srt_resp_array(out, 2);
        srt_resp_arg(out, "0", 1);
        srt_resp_array(out, l->measured);
        for (i = 0; i < l->measured; i++) {
            snprintf(key, sizeof key, "seriatim:{m%u}:layout", i);
            srt_resp_arg(out, key, strlen(key));
        }
        return;
    case SRT_SAMPLING_IDLE:
        srt_resp_array(out, l->measured + 1);
        for (i = 0; i <= l->measured; i++)
            srt_resp_arg_int(out, i ? i : l->measured);
        return;
    case SRT_SAMPLING_LAYOUT:
        l->looked_at |= 1u << (l->node->sampler.queue.data[1] - '0');
        if (l->refusal)
            srt_resp_arg(out, "1 2 3", 5);
        else
            srt_bytes_adds(out, "-ERR no figures\r\n");
        return;
    default: /* NOTHING: of a round that has ended */
        srt_bytes_adds(out, l->refusal ? l->refusal : "-ERR no figures\r\n");
    }
}

/* What its script says to a request; no shard has anything to run. */
static void answer_of(life *l, const srt_request *asked, srt_bytes *out)
{
    int i;
    switch (asked->handshake ? -1 : asked->kind) {
    case SRT_ASK_LAYOUT:
        answer_layout(l, out);
        return;
    case SRT_ASK_HEARTBEAT:
        srt_resp_array(out, 5);
        srt_resp_arg_int(out, INT64_C(1789000000000000) + l->now * 1000);
        srt_resp_arg(out, "", 0);
        srt_resp_arg_int(out, 0);
        srt_resp_arg(out, "n1", 2);
        srt_resp_arg(out, l->node->description.data, l->node->description.len);
        return;
    case SRT_ASK_ACQUIRE:
        srt_resp_array(out, 5);
        srt_resp_arg(out, "OK", 2);
        for (i = 0; i < 4; i++)
            srt_resp_arg_int(out, i < 2);
        return;
    case SRT_ASK_CLAIM:
        srt_resp_array(out, 8);
        srt_resp_arg_int(out, INT64_C(1789000000000000) + l->now * 1000);
        srt_resp_arg_int(out, 1);
        for (i = 0; i < 3; i++)
            srt_resp_arg_int(out, SRT_FOREVER);
        srt_resp_arg_int(out, 0);
        srt_resp_arg(out, "n", 1);
        srt_resp_arg_int(out, 0);
        return;
    case SRT_ASK_SAMPLE:
        if (asked->script == srt_script_sampler)
            answer_sampler(l, out);
        else
            answer_sample(l, out);
        return;
    default:
        srt_resp_arg(out, "OK", 2);
    }
}

/* Is the answer still on its way? */
static int is_slow(life *l, const srt_request *asked)
{
    if (asked->handshake || asked->kind != SRT_ASK_SAMPLE || asked->script == srt_script_sampler)
        return 0;
    if (l->answer_at == 0)
        l->answer_at = l->now + l->slow_ms;
    if (l->now < l->answer_at)
        return 1;
    l->answer_at = 0;
    return 0;
}

static void answer_all(life *l)
{
    const srt_request *asked;
    seriatim_error error;
    while ((asked = l->node->cluster.peers[0]->commands.first)) {
        const srt_request *other;
        const char *data;
        size_t len, reads = 0;
        srt_bytes out;
        for (other = asked; l->changed && other; other = other->next)
            reads += !other->handshake && other->kind == SRT_ASK_LAYOUT;
        assert_true(reads <= 1); /* so that a claim waits for one of them at most */
        srt_node_output(l->node, SRT_COMMANDS, &data, &len);
        srt_node_sent(l->node, SRT_COMMANDS, len);
        if (is_slow(l, asked))
            return;
        srt_bytes_init(&out, seriatim_default_allocator());
        answer_of(l, asked, &out);
        assert_int_equal(srt_node_input(l->node, SRT_COMMANDS, out.data, out.len, l->now, &error), SERIATIM_OK);
        srt_bytes_free(&out);
    }
}

void answer_for(life *l, int64_t ms)
{
    int64_t until = l->now + ms;
    seriatim_event event;
    for (; l->now < until; l->now += 10) {
        srt_node_pulse(l->node, l->now);
        srt_node_tick(l->node, l->now);
        answer_all(l);
        while (srt_node_event(l->node, l->now, &event) == SERIATIM_OK)
            ;
    }
}

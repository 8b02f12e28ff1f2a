/*
 * fuzz_node.c - libFuzzer target: a node fed with replies that fit what it asked, that nearly fit, or that do not,
 * while threads take, say outcomes and settle, time goes on and connections are lost.
 */
#include "fuzz.h"
#include "node/node_state.h"

#define THREADS 3
#define SHARDS 3

typedef struct life {
    srt_node *node;
    int64_t now;
    int open[SRT_CHANNELS];
    seriatim_delivery *held[THREADS];
    int64_t lease, fence;
    unsigned sum;
} life;

/* ---- Answers that fit ---------------------------------------------------------------------- */

static void answer_beat(srt_bytes *out, fuzz_input *in, const life *l)
{
    unsigned others = fuzz_below(in, 4), i;
    const char *order = (const char *[]){"", "quiet", "stop", "else"}[fuzz_below(in, 4)];
    fuzz_number(out, '*', 6 + 2 * (int64_t)others);
    fuzz_bulk_int(out, INT64_C(1789000000000000) + l->now * 1000);
    fuzz_bulk(out, order, strlen(order));
    fuzz_bulk_int(out, (int64_t)fuzz_below(in, 3) * 200);
    fuzz_bulk_int(out, (int64_t)fuzz_below(in, 3) - 1);
    fuzz_bulk(out, "n1", 2);
    fuzz_bulk(out, "about", 5);
    for (i = 0; i < others; i++) {
        char name[2] = {'n', (char)('2' + fuzz_below(in, 4))};
        fuzz_bulk(out, name, 2);
        fuzz_bulk(out, "", 0);
    }
}

static void answer_acquire(srt_bytes *out, fuzz_input *in, life *l)
{
    int taken = fuzz_below(in, 4) == 0;
    fuzz_number(out, '*', taken ? 3 : 5);
    fuzz_bulk(out, taken ? "TAKEN" : "OK", taken ? 5 : 2);
    if (taken)
        fuzz_bulk(out, "n2", 2);
    fuzz_bulk_int(out, ++l->lease);
    if (!taken) {
        fuzz_bulk_int(out, l->fence);
        fuzz_number(out, ':', (int64_t)fuzz_below(in, 3));
        fuzz_number(out, ':', (int64_t)fuzz_below(in, 2));
    }
}

static void answer_recover(srt_bytes *out, fuzz_input *in)
{
    static const char *const cursors[] = {"", "u", "42", "18446744073709551615",
                                          "a cursor of more bytes than any that a script gives"};
    const char *cursor = cursors[fuzz_below(in, 5)];
    fuzz_number(out, '*', 4);
    fuzz_bulk(out, cursor, strlen(cursor));
    fuzz_number(out, ':', (int64_t)fuzz_below(in, 60));
    fuzz_number(out, ':', (int64_t)fuzz_below(in, 2));
    fuzz_number(out, ':', (int64_t)fuzz_below(in, 2));
}

static void answer_claim(srt_bytes *out, fuzz_input *in, life *l)
{
    static const char *const modes[] = {"n", "n", "u", "s", "o", "x"};
    unsigned ids = fuzz_below(in, 6), i;
    int64_t server = INT64_C(1789000000000000) + l->now * 1000;
    srt_bytes names, records, record;
    srt_bytes_init(&record, seriatim_default_allocator());
    fuzz_number(out, '*', ids ? 10 : 8);
    fuzz_bulk_int(out, server);
    fuzz_bulk_int(out, ++l->fence);
    for (i = 0; i < 3; i++)
        fuzz_bulk_int(out, fuzz_below(in, 2) ? INT64_C(9000000000000000) : server + (int64_t)fuzz_byte(in) * 1000);
    fuzz_number(out, ':', fuzz_below(in, 8) == 1);
    fuzz_bulk(out, modes[fuzz_below(in, 6)], 1);
    fuzz_number(out, ':', (int64_t)fuzz_below(in, 2));
    srt_bytes_init(&names, seriatim_default_allocator());
    srt_bytes_init(&records, seriatim_default_allocator());
    srt_bytes_addc(&names, (char)(0x90 + ids));
    srt_bytes_addc(&records, (char)(0x90 + ids - (fuzz_below(in, 16) == 1)));
    for (i = 0; i < ids; i++) {
        srt_bytes_addc(&names, '\xa1');
        srt_bytes_addc(&names, (char)('a' + fuzz_below(in, 20)));
        srt_bytes_clear(&record);
        fuzz_record(&record, in);
        srt_bytes_addc(&records, '\xda');
        srt_bytes_addc(&records, (char)(record.len >> 8));
        srt_bytes_addc(&records, (char)record.len);
        srt_bytes_add(&records, record.data, record.len - (fuzz_below(in, 64) == 1));
    }
    if (ids) {
        fuzz_bulk(out, names.data, names.len);
        fuzz_bulk(out, records.data, records.len);
    }
    srt_bytes_free(&names);
    srt_bytes_free(&records);
    srt_bytes_free(&record);
}

static void answer_settle(srt_bytes *out, fuzz_input *in)
{
    unsigned kind = fuzz_below(in, 8);
    if (kind == 0) {
        srt_bytes_adds(out, "*2\r\n$5\r\nSTALE\r\n$2\r\nn2\r\n");
    } else if (kind == 1) {
        srt_bytes_adds(out, "*1\r\n$5\r\nAGAIN\r\n");
    } else {
        size_t checkpoints = fuzz_below(in, 4);
        fuzz_number(out, '*', kind == 2 ? 4 : kind == 3 ? 2 : 3);
        fuzz_number(out, ':', (int64_t)fuzz_below(in, 3));
        fuzz_number(out, ':', (int64_t)fuzz_below(in, 2));
        if (kind != 3)
            fuzz_bulk(out, &"012012012"[fuzz_below(in, 3)], checkpoints);
        if (kind == 2)
            fuzz_bulk(out, "a", 1);
    }
}

static void answer_slice(srt_bytes *out, fuzz_input *in)
{
    unsigned entries = fuzz_below(in, 4);
    srt_bytes text;
    srt_bytes_init(&text, seriatim_default_allocator());
    while (entries-- > 0)
        fuzz_entry(&text, in);
    srt_resp_array(out, 2);
    fuzz_bulk(out, text.data, text.len);
    fuzz_bulk(out, "wrong", fuzz_below(in, 2) ? 5 : 0);
    srt_bytes_free(&text);
}

static void answer_asked(srt_bytes *out, fuzz_input *in, life *l, int asked)
{
    static const char *const layouts[] = {"1 2 3", "1 1 3", "2 3 3", "1 0 3", "1 2"};
    static const char *const released[] = {"OK", "OK", "BUSY", "STALE"};
    const char *word;
    switch (asked) {
    case SRT_ASK_LAYOUT:
        word = layouts[fuzz_below(in, 5)];
        fuzz_bulk(out, word, strlen(word));
        return;
    case SRT_ASK_HEARTBEAT:
        answer_beat(out, in, l);
        return;
    case SRT_ASK_ACQUIRE:
        answer_acquire(out, in, l);
        return;
    case SRT_ASK_RECOVER:
        answer_recover(out, in);
        return;
    case SRT_ASK_CLAIM:
        answer_claim(out, in, l);
        return;
    case SRT_ASK_SETTLE:
        answer_settle(out, in);
        return;
    case SRT_ASK_RELEASE:
        word = released[fuzz_below(in, 4)];
        fuzz_bulk(out, word, strlen(word));
        return;
    case SRT_ASK_SLICE:
        answer_slice(out, in);
        return;
    default:
        srt_bytes_adds(out, "+OK\r\n");
    }
}

/* ---- The network --------------------------------------------------------------------------- */

static void lose(life *l, srt_channel channel)
{
    l->open[channel] = 0;
    srt_node_disconnected(l->node, channel, l->now);
}

static void connect_all(life *l)
{
    int channel;
    for (channel = 0; channel < SRT_CHANNELS; channel++)
        if (!l->open[channel])
            l->open[channel] = srt_node_connected(l->node, (srt_channel)channel, NULL, NULL, 0, l->now) == SERIATIM_OK;
}

static void send_all(life *l)
{
    const char *data;
    size_t len;
    int channel;
    for (channel = 0; channel < SRT_CHANNELS; channel++) {
        srt_node_output(l->node, (srt_channel)channel, &data, &len);
        l->sum += fuzz_sum(data, len);
        srt_node_sent(l->node, (srt_channel)channel, len);
    }
}

static void hear(life *l, srt_channel channel, const srt_bytes *text)
{
    char *exact = malloc(text->len ? text->len : 1);
    seriatim_error error;
    FUZZ_CHECK(exact);
    if (text->len)
        memcpy(exact, text->data, text->len);
    if (l->open[channel] && srt_node_input(l->node, channel, exact, text->len, l->now, &error) != SERIATIM_OK)
        lose(l, channel);
    free(exact);
}

static void answer(life *l, fuzz_input *in, unsigned dice)
{
    const srt_request *asked = l->node->cluster.peers[0]->commands.first;
    srt_bytes reply;
    srt_bytes_init(&reply, seriatim_default_allocator());
    if (asked && dice % 8 == 0)
        fuzz_reply(&reply, in, 3);
    else if (asked)
        answer_asked(&reply, in, l, asked->handshake ? -1 : asked->kind);
    hear(l, SRT_COMMANDS, &reply);
    srt_bytes_free(&reply);
}

static void wake_up(life *l, fuzz_input *in)
{
    static const char *const said[] = {"seriatim:{q0/0}:", "!seriatim:{q0/1}:", "n2", "", "!", "seriatim:{q1/0}:"};
    const char *word = said[fuzz_below(in, 6)];
    srt_bytes message;
    srt_bytes_init(&message, seriatim_default_allocator());
    if (fuzz_below(in, 4) == 0) {
        fuzz_reply(&message, in, 2);
    } else {
        srt_bytes_adds(&message, "*3\r\n$7\r\nmessage\r\n");
        fuzz_bulk(&message, fuzz_below(in, 2) ? "seriatim:wake:n1" : "seriatim:nodes:xx", 16);
        fuzz_bulk(&message, word, strlen(word));
    }
    hear(l, SRT_WAKES, &message);
    srt_bytes_free(&message);
}

/* ---- Threads ------------------------------------------------------------------------------- */

static void look(life *l, const seriatim_delivery *d)
{
    size_t i, k;
    for (i = 0; i < seriatim_delivery_size(d); i++) {
        const seriatim_claimed *job = seriatim_delivery_job(d, i);
        l->sum += fuzz_sum(job->id, job->id_len) + fuzz_sum(job->error, job->error_len);
        for (k = 0; k < job->payload_count; k++)
            l->sum += fuzz_sum(job->payloads[k].data, job->payloads[k].len) +
                      fuzz_sum(job->payloads[k].context, job->payloads[k].context_len);
    }
}

static void say_outcome(seriatim_delivery *d, size_t i, fuzz_input *in)
{
    size_t first = 0;
    switch (fuzz_below(in, 6)) {
    case 0:
        seriatim_delivery_fail(d, i, "wrong", 5, fuzz_double(in));
        return;
    case 1:
        seriatim_delivery_release(d, i);
        return;
    case 2:
        if (seriatim_delivery_job(d, i)->payload_count > 0)
            seriatim_delivery_reject(d, i, &first, 1, "unreadable", 10);
        return;
    case 3:
        seriatim_delivery_done(d, i);
        return;
    case 4:
        seriatim_delivery_snooze(d, i, fuzz_double(in), fuzz_below(in, 2) ? "another" : NULL, 7);
        return;
    default:
        return;
    }
}

static void settle(life *l, unsigned thread, fuzz_input *in)
{
    seriatim_delivery *d = l->held[thread];
    size_t i;
    look(l, d);
    for (i = 0; seriatim_delivery_kind_of(d) != SERIATIM_EXHAUSTED && i < seriatim_delivery_size(d); i++)
        say_outcome(d, i, in);
    srt_node_settle(l->node, d, l->now);
    l->held[thread] = NULL;
}

static void step_thread(life *l, fuzz_input *in)
{
    unsigned thread = fuzz_below(in, THREADS);
    seriatim_candidate candidates[SHARDS];
    if (!l->held[thread]) {
        size_t count = srt_node_candidates(l->node, 0, l->now, candidates, SHARDS);
        int status = count && fuzz_below(in, 2)
                         ? srt_node_take_from(l->node, 0, candidates[0].shard, l->now, &l->held[thread])
                         : srt_node_take(l->node, 0, l->now, &l->held[thread]);
        if (status != SERIATIM_OK)
            l->held[thread] = NULL;
    } else if (fuzz_below(in, 4) == 0 && seriatim_delivery_size(l->held[thread]) > 0) {
        srt_node_extend(l->node, l->held[thread], 0, fuzz_double(in), l->now);
    } else if (fuzz_below(in, 4) == 0 && seriatim_delivery_size(l->held[thread]) > 0) {
        srt_node_checkpoint(l->node, l->held[thread], 0, fuzz_below(in, 4), l->now);
        srt_node_flushed(l->held[thread]);
    } else {
        settle(l, thread, in);
    }
}

/* ---- A life -------------------------------------------------------------------------------- */

static void step(life *l, fuzz_input *in)
{
    unsigned event = fuzz_byte(in);
    seriatim_event told;
    if (event < 128)
        answer(l, in, event);
    else if (event < 190)
        step_thread(l, in);
    else if (event < 205)
        wake_up(l, in);
    else if (event < 240)
        l->now += event < 220 ? (int64_t)fuzz_byte(in) : (int64_t)fuzz_byte(in) * 100;
    else if (event < 246)
        lose(l, (srt_channel)(event % SRT_CHANNELS));
    else if (event < 250)
        srt_node_pulse(l->node, l->now);
    else if (event == 250)
        srt_node_quiet(l->node, l->now);
    else if (event == 251)
        srt_node_stop(l->node, l->now);
    else if (event == 252 && l->node->stopping)
        srt_node_abandon(l->node, l->now);
    connect_all(l);
    FUZZ_CHECK(srt_node_tick(l->node, l->now) > l->now - 1);
    send_all(l);
    while (srt_node_event(l->node, l->now, &told) == SERIATIM_OK)
        FUZZ_CHECK(memchr(told.text, '\0', sizeof told.text));
}

static int make(life *l, fuzz_input *in)
{
    seriatim_node_settings settings;
    seriatim_queue_settings q;
    seriatim_error error;
    size_t worker;
    unsigned i, workers = 1 + fuzz_below(in, 2);
    memset(&settings, 0, sizeof settings);
    settings.id = "n1";
    settings.lease_ms = 400;
    settings.poll_ms = 100;
    settings.threads = THREADS;
    settings.scheduler = (int)fuzz_below(in, 3);
    if (srt_node_new(&settings, &l->node, &error) != SERIATIM_OK)
        return 0;
    for (i = 0; i < workers; i++) {
        seriatim_queue_settings_init(&q);
        q.name = i ? "q1" : "q0";
        q.name_len = 2;
        q.shards_count = 2;
        q.batch_size = 1 + fuzz_below(in, 4);
        q.max_retry_count = fuzz_below(in, 4);
        q.serial_shards = (int)fuzz_below(in, 2);
        q.ttr = fuzz_below(in, 2) ? 0 : 0.5;
        FUZZ_CHECK(srt_node_worker(l->node, &q, &worker, &error) == SERIATIM_OK);
    }
    return srt_node_start(l->node, l->now, &error) == SERIATIM_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    life l;
    unsigned i;
    memset(&l, 0, sizeof l);
    l.now = 1000;
    if (make(&l, &in))
        connect_all(&l);
    while (in.left > 0)
        step(&l, &in);
    for (i = 0; i < THREADS; i++)
        if (l.held[i])
            settle(&l, i, &in);
    srt_node_free(l.node);
    return 0;
}

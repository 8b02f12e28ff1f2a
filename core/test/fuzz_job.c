/* fuzz_job.c - libFuzzer target: any jobs pushed; what was accepted goes out whole, in order, and nothing else does. */
#include "fuzz.h"
#include "client/client.h"

#include <math.h>

#define MAX_JOBS 12

typedef struct pushed {
    char *ids[MAX_JOBS], *payloads[MAX_JOBS];
    size_t id_lens[MAX_JOBS], payload_lens[MAX_JOBS];
    size_t count;
    int refused, has_options;
} pushed;

static void check_accepted(const seriatim_job *job)
{
    FUZZ_CHECK(job->id_len >= 1 && job->id_len <= SERIATIM_MAX_ID);
    FUZZ_CHECK(!job->has_score || isfinite(job->score));
    FUZZ_CHECK(job->when == SERIATIM_NOW || job->time == job->time);
    FUZZ_CHECK(job->retry_count >= -1);
}

static void push_one(seriatim_client *c, fuzz_input *in, pushed *p)
{
    static const char *const words[] = {NULL, "keep", "earlier", "later", "replace", "reject", "never", ""};
    size_t i = p->count++;
    char *context;
    seriatim_job job;
    seriatim_job_init(&job);
    job.id = p->ids[i] = fuzz_text(in, 1100, 0, &p->id_lens[i]);
    job.id_len = p->id_lens[i];
    job.payload = p->payloads[i] = fuzz_text(in, 1100, 0, &p->payload_lens[i]);
    job.payload_len = p->payload_lens[i];
    job.context = context = fuzz_text(in, 80, 0, &job.context_len);
    job.has_score = (int)fuzz_below(in, 2);
    job.score = fuzz_double(in);
    job.when = (int)fuzz_below(in, 4);
    job.time = fuzz_double(in);
    job.retry_count = fuzz_below(in, 2) ? -1 : fuzz_int(in);
    job.on_waiting = words[fuzz_below(in, 8)];
    if (p->refused || seriatim_push_job(c, &job) != SERIATIM_OK) {
        FUZZ_CHECK(p->refused || seriatim_client_error(c)->status == SERIATIM_INVALID);
        p->refused = 1;
    } else {
        check_accepted(&job);
        p->has_options |= job.has_score || job.context_len > 0 || job.retry_count != -1 || job.on_waiting ||
                          (job.when != SERIATIM_NOW && job.time > 0);
    }
    free(context);
}

static srt_reply next_command(srt_reader *reader)
{
    srt_reply reply;
    seriatim_error error;
    FUZZ_CHECK(srt_reader_next(reader, &reply, &error) == SERIATIM_OK);
    FUZZ_CHECK(reply.tokens[0].type == SRT_ARRAY && (size_t)reply.tokens[0].integer == reply.count - 1);
    return reply;
}

static void take_output(seriatim_client *c, srt_reader *reader)
{
    const char *data;
    size_t len;
    srt_client_output(c, &data, &len);
    FUZZ_CHECK(srt_reader_feed(reader, data, len) == SERIATIM_OK);
    srt_client_sent(c, len);
}

/* The jobs stand in the one chunk of the one shard: id, payload and, where one of them has any, options. */
static void check_chunk(const srt_reply *command, const pushed *p)
{
    size_t head = 1 + 3 + SRT_SHARD_KEYS + 1 + 6, width = p->has_options ? 3 : 2, i;
    FUZZ_CHECK(command->tokens[head - 2].data[0] == (char)('0' + width)); /* history_per_id follows */
    FUZZ_CHECK(command->count == head + width * p->count);
    for (i = 0; i < p->count; i++) {
        const srt_token *id = &command->tokens[head + width * i], *payload = id + 1;
        FUZZ_CHECK(id->len == p->id_lens[i] && memcmp(id->data, p->ids[i], id->len) == 0);
        FUZZ_CHECK(payload->len == p->payload_lens[i] && memcmp(payload->data, p->payloads[i], payload->len) == 0);
    }
}

static void send_all(seriatim_client *c, const pushed *p)
{
    srt_reader *reader = srt_reader_new(seriatim_default_allocator());
    seriatim_error error;
    srt_reply command;
    FUZZ_CHECK(reader);
    FUZZ_CHECK(srt_client_connected(c, NULL, NULL, 0) == SERIATIM_OK);
    FUZZ_CHECK((seriatim_push_send(c) == SERIATIM_OK) == !p->refused);
    if (!p->refused && p->count > 0) {
        take_output(c, reader);
        command = next_command(reader);
        FUZZ_CHECK(command.count > 1 + 5 &&
                   srt_token_is(&command.tokens[1], "EVALSHA")); /* of the layout, with the settings */
        FUZZ_CHECK(srt_client_input(c, "*1\r\n$5\r\n1 1 3\r\n", 15, &error) == SERIATIM_OK);
        take_output(c, reader);
        command = next_command(reader);
        check_chunk(&command, p);
    }
    take_output(c, reader);
    FUZZ_CHECK(srt_reader_next(reader, &command, &error) == SERIATIM_AGAIN);
    srt_reader_free(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char identity[16] = "0123456789abcde";
    fuzz_input in = {data, size};
    seriatim_options options = {NULL, NULL, NULL, 1000, NULL};
    seriatim_queue_settings settings;
    seriatim_client *c;
    pushed p;
    size_t queue, i;
    memset(&p, 0, sizeof p);
    FUZZ_CHECK(seriatim_client_new(&options, &c, NULL) == SERIATIM_OK);
    srt_client_identify(c, identity);
    seriatim_queue_settings_init(&settings);
    settings.name = "Q";
    settings.name_len = 1;
    FUZZ_CHECK(seriatim_client_queue(c, &settings, &queue) == SERIATIM_OK);
    FUZZ_CHECK(seriatim_push_begin(c, queue) == SERIATIM_OK);
    if (fuzz_below(&in, 2))
        srt_client_tell_time(c, 1789000000);
    while (in.left > 0 && p.count < MAX_JOBS)
        push_one(c, &in, &p);
    send_all(c, &p);
    seriatim_client_free(c);
    for (i = 0; i < p.count; i++) {
        free(p.ids[i]);
        free(p.payloads[i]);
    }
    return 0;
}

/* fuzz_sentinel.c - libFuzzer target: sentinels that answer anything, in pieces, or not at all. */
#include "fuzz.h"
#include "net/sentinel.h"

static void is_address(const seriatim_address *a)
{
    FUZZ_CHECK(a->host && a->host[0] && a->port >= 1 && a->port <= 65535);
}

/* As a sentinel that knows its master, one that does not, or anything. */
static void write_answer(srt_bytes *out, fuzz_input *in)
{
    unsigned kind = fuzz_below(in, 4);
    size_t len;
    char *host;
    if (kind == 0) {
        fuzz_reply(out, in, 2);
        return;
    }
    srt_bytes_adds(out, kind == 1 ? "+OK\r\n" : kind == 2 ? "" : "-WRONGPASS x\r\n");
    host = fuzz_text(in, 40, 0, &len);
    srt_bytes_adds(out, "*2\r\n");
    fuzz_bulk(out, host, len);
    fuzz_bulk_int(out, fuzz_below(in, 2) ? 6379 : fuzz_int(in));
    free(host);
}

static int ask(seriatim_sentinel *s, fuzz_input *in)
{
    seriatim_address master;
    const char *data;
    size_t len, cut;
    srt_bytes answer;
    int status;
    srt_bytes_init(&answer, seriatim_default_allocator());
    seriatim_sentinel_output(s, &data, &len);
    FUZZ_CHECK(len > 0 && fuzz_sum(data, len) > 0);
    write_answer(&answer, in);
    cut = answer.len * fuzz_byte(in) / 256;
    status = seriatim_sentinel_input(s, answer.data, cut, &master);
    if (status == SERIATIM_AGAIN)
        status = seriatim_sentinel_input(s, answer.data + cut, answer.len - cut, &master);
    if (status == SERIATIM_OK)
        is_address(&master);
    srt_bytes_free(&answer);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const urls[] = {"redis+sentinel://a,b:1,[::1]:2/m",
                                       "redis+sentinel://u:p@a/m/3?sentinel_user=x&sentinel_password=y",
                                       "rediss+sentinel://:p@a,b,c,d/m"};
    fuzz_input in = {data, size};
    seriatim_sentinel *s;
    seriatim_error error;
    int rounds = 3;
    FUZZ_CHECK(seriatim_sentinel_new(NULL, urls[fuzz_below(&in, 3)], &s, &error) == SERIATIM_OK);
    while (rounds-- > 0 && in.left > 0) {
        seriatim_address where;
        int status;
        seriatim_sentinel_begin(s);
        while ((status = seriatim_sentinel_next(s, &where)) == SERIATIM_OK) {
            is_address(&where);
            if (fuzz_below(&in, 8) == 1)
                seriatim_sentinel_failed(s, "nobody listens");
            else if (ask(s, &in) == SERIATIM_AGAIN)
                seriatim_sentinel_failed(s, "too slow");
        }
        FUZZ_CHECK(seriatim_sentinel_error(s)->message[0]);
    }
    seriatim_sentinel_free(s);
    return 0;
}

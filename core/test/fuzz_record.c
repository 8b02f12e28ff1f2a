/* fuzz_record.c - libFuzzer target: any bytes as a record, and as entries that are added to it. */
#include "fuzz.h"
#include "model/record.h"

/* Everything that it points to can be read, and payloads ascend. */
static void look(const srt_record *r)
{
    size_t i;
    unsigned sum = fuzz_sum(r->error, r->error_len);
    FUZZ_CHECK(r->count <= r->cap || r->count == 0);
    for (i = 0; i < r->count; i++) {
        const seriatim_payload *p = &r->payloads[i];
        sum += fuzz_sum(p->data, p->len) + fuzz_sum(p->context, p->context_len) + fuzz_sum(&p->stamp, sizeof p->stamp);
        if (i > 0 && r->payloads[i - 1].score == r->payloads[i - 1].score && p->score == p->score)
            FUZZ_CHECK(r->payloads[i - 1].score <= p->score);
    }
    (void)sum;
}

/* The first byte: where the record ends and the entries to add begin, in 256ths. */
static void raw(const uint8_t *data, size_t size)
{
    size_t cut = (size - 1) * data[0] / 255;
    char *first = malloc(cut + 1), *second = malloc(size - cut);
    srt_record record;
    srt_arena arena;
    FUZZ_CHECK(first && second);
    memcpy(first, data + 1, cut);
    memcpy(second, data + 1 + cut, size - 1 - cut);
    first = realloc(first, cut ? cut : 1);
    srt_arena_init(&arena, seriatim_default_allocator());
    memset(&record, 0, sizeof record);
    if (srt_record_read(&record, &arena, first, cut) == SERIATIM_OK) {
        look(&record);
        if (srt_record_add(&record, &arena, second, size - 1 - cut) == SERIATIM_OK)
            look(&record);
    }
    srt_arena_free(&arena);
    free(first);
    free(second);
}

/* One that the scripts could have packed. */
static void packed(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    srt_bytes bytes;
    srt_record record;
    srt_arena arena;
    srt_bytes_init(&bytes, seriatim_default_allocator());
    srt_arena_init(&arena, seriatim_default_allocator());
    memset(&record, 0, sizeof record);
    fuzz_record(&bytes, &in);
    if (srt_record_read(&record, &arena, bytes.data, bytes.len) == SERIATIM_OK)
        look(&record);
    srt_arena_free(&arena);
    srt_bytes_free(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    raw(data, size);
    packed(data, size);
    return 0;
}

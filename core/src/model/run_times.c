/* run_times.c - buckets of run times: counting, the request that tells Redis, reading what Redis holds. */
#include "model/run_times.h"

#include "wire/keys.h"

#include <math.h>

#define FIRST_BITS 8 /* the first bucket ends at 2^8 us */
#define ROOT_OF_2 1.4142135623730951
#define PLACES 64 /* for the last calls of nodes */

void srt_run_counts_add(srt_run_counts *counts, int64_t us)
{
    size_t bucket = 0;
    us = us > 0 ? us : 0;
    if (us > 1 << FIRST_BITS) {
        int bits = 64 - __builtin_clzll((unsigned long long)us - 1); /* the smallest power of 2 that is not less */
        int is_lower_half = (double)us * ROOT_OF_2 <= ldexp(1, bits);
        bucket = (size_t)(2 * (bits - FIRST_BITS) - is_lower_half);
    }
    counts->calls[bucket < SRT_TIMES_BUCKETS ? bucket : SRT_TIMES_BUCKETS - 1]++;
    counts->sum_us += us;
    counts->any = 1;
}

double srt_run_bound(size_t bucket)
{
    if (bucket + 1 >= SRT_TIMES_BUCKETS)
        return HUGE_VAL;
    return ldexp(1, FIRST_BITS + (int)(bucket / 2)) * (bucket % 2 ? ROOT_OF_2 : 1) / 1e6;
}

srt_request *srt_run_times_request(srt_session *session, const char *ns, const char *queue, size_t len,
                                   seriatim_text node, uint64_t hash, int64_t number, const srt_run_counts *counts)
{
    srt_request *r = srt_session_begin(session, srt_script_run_times, NULL, 0);
    srt_bytes key;
    size_t i;
    if (!r)
        return NULL;
    srt_bytes_init(&key, session->mem);
    srt_key_layout(&key, ns, queue, len);
    srt_request_arg(r, key.data, key.len);
    r->tail.failed |= key.failed;
    srt_bytes_clear(&key);
    srt_key_run_times(&key, ns, queue, len);
    srt_request_arg(r, key.data, key.len);
    r->tail.failed |= key.failed;
    r->keys = 2;
    srt_bytes_free(&key);
    srt_request_arg(r, node.data, node.len);
    srt_request_int(r, (int64_t)(hash % PLACES));
    srt_request_int(r, number);
    srt_request_int(r, counts->sum_us);
    for (i = 0; i < SRT_TIMES_BUCKETS; i++)
        if (counts->calls[i]) {
            srt_request_int(r, (int64_t)i);
            srt_request_int(r, counts->calls[i]);
        }
    return r;
}

/* ---- Reading ------------------------------------------------------------------------------- */

srt_request *srt_run_times_reading(srt_session *session, const char *command, const char *ns, const char *queue,
                                   size_t len)
{
    srt_request *r = srt_session_begin(session, srt_script_none, NULL, 0);
    srt_bytes key;
    if (!r)
        return NULL;
    srt_bytes_init(&key, session->mem);
    srt_key_run_times(&key, ns, queue, len);
    srt_request_text(r, command);
    srt_request_arg(r, key.data, key.len);
    r->tail.failed |= key.failed;
    srt_bytes_free(&key);
    return r;
}

static void times_add(srt_run_times *times, unsigned bucket, double calls)
{
    if (bucket < SRT_TIMES_BUCKETS && calls >= 0 && calls <= 9e15)
        times->calls[bucket] += calls;
}

void srt_run_times_add_total(srt_run_times *times, const char *data, size_t len)
{
    size_t at;
    double sum;
    if (len < 8)
        return;
    sum = srt_little_double(data) / 1e6;
    times->sum += sum >= 0 && sum <= 9e15 ? sum : 0;
    for (at = 8; at + 9 <= len; at += 9)
        times_add(times, (unsigned char)data[at], srt_little_double(data + at + 1));
}

static uint32_t times_u32(const char *data)
{
    const unsigned char *at = (const unsigned char *)data;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

int64_t srt_run_times_add_step(srt_run_times *times, const char *data, size_t len)
{
    size_t at;
    if (len < 4)
        return -1;
    for (at = 4; at + 5 <= len; at += 5)
        times_add(times, (unsigned char)data[at], times_u32(data + at + 1));
    return times_u32(data);
}

double srt_run_times_calls(const srt_run_times *times)
{
    double calls = 0;
    size_t i;
    for (i = 0; i < SRT_TIMES_BUCKETS; i++)
        calls += times->calls[i];
    return calls;
}

/* Within a bucket the calls are taken to lie evenly. */
double srt_run_times_quantile(const srt_run_times *times, double part)
{
    double wanted = part * srt_run_times_calls(times), before = 0;
    size_t i;
    for (i = 0; i < SRT_TIMES_BUCKETS; i++) {
        double low = i ? srt_run_bound(i - 1) : 0;
        if (times->calls[i] > 0 && before + times->calls[i] >= wanted) {
            double share = (wanted - before) / times->calls[i];
            return i + 1 == SRT_TIMES_BUCKETS ? low : low + (srt_run_bound(i) - low) * (share > 0 ? share : 0);
        }
        before += times->calls[i];
    }
    return 0;
}

/* store_answers.c - how the model of Redis reads arguments and writes answers, as RESP and as packed records. */
#include "store_parts.h"

#include <stdio.h>
#include <string.h>

void store_say_int(store_conn *c, int64_t value)
{
    srt_bytes_addc(&c->out, ':');
    srt_bytes_add_int(&c->out, value);
    srt_bytes_adds(&c->out, "\r\n");
}

void store_say_text(store_conn *c, const char *text)
{
    srt_resp_arg(&c->out, text, strlen(text));
}

void store_say_line(store_conn *c, const char *line)
{
    srt_bytes_adds(&c->out, line);
    srt_bytes_adds(&c->out, "\r\n");
}

int store_publish(store *s, const char *channel, const char *text, size_t len)
{
    store_conn *c;
    int i, heard = 0;
    for (c = s->conns; c; c = c->next)
        for (i = 0; i < c->channel_count; i++)
            if (strcmp(c->channels[i], channel) == 0) {
                srt_resp_array(&c->out, 3);
                store_say_text(c, "message");
                store_say_text(c, channel);
                srt_resp_arg(&c->out, text, len);
                heard++;
            }
    return heard;
}

void store_wake_channel(const store_shard *sh, char *channel, size_t cap)
{
    snprintf(channel, cap, STORE_NS ":wake:%s", sh->owner);
}

void store_tell_owner(store *s, const store_shard *sh, const char *mark)
{
    char channel[160], text[100];
    if (!sh->owner[0])
        return;
    store_wake_channel(sh, channel, sizeof channel);
    snprintf(text, sizeof text, "%s%s", mark, sh->prefix);
    store_publish(s, channel, text, strlen(text));
}

void store_wake_owner(store *s, store_shard *sh, int64_t time)
{
    if (time >= sh->wake)
        return;
    sh->wake = 0;
    store_tell_owner(s, sh, "");
}

void store_pack_little(srt_bytes *out, uint64_t value, size_t bytes)
{
    while (bytes--) {
        srt_bytes_addc(out, (char)(value & 255));
        value >>= 8;
    }
}

void store_pack_double(srt_bytes *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    store_pack_little(out, bits, 8);
}

int store_is_scored(const store *s, const store_id *id)
{
    return s->remembers && id->shard->queue == 1;
}

double store_score_of(const store_record *r, int i)
{
    return r->numbers[i] - 1000;
}

void store_pack_entry(srt_bytes *out, const store_record *r, int i, int scored)
{
    char text[16];
    int len = snprintf(text, sizeof text, "%d", r->numbers[i]);
    store_pack_double(out, (double)r->stamps[i]);
    store_pack_double(out, scored ? store_score_of(r, i) : (double)r->stamps[i] / 1e6);
    store_pack_little(out, 0, 4);
    store_pack_little(out, (uint64_t)len, 4);
    srt_bytes_add(out, text, (size_t)len);
}

void store_pack_record(srt_bytes *out, const store_record *r, int scored)
{
    int i, spilled = r->count > STORE_SPILL;
    if (r->count == 1 && r->due == r->stamps[0] && r->retry == -1 && !r->mark) {
        store_pack_little(out, (uint64_t)(r->place + (scored ? 4 : 0)), 1);
        store_pack_double(out, (double)r->stamps[0]);
        if (scored)
            store_pack_double(out, store_score_of(r, 0));
        srt_bytes_add_int(out, r->numbers[0]);
        return;
    }
    store_pack_little(out, (uint64_t)(r->place + (spilled ? 12 : 8)), 1);
    store_pack_double(out, (double)r->due);
    store_pack_little(out, (uint64_t)(uint32_t)r->retry, 4);
    store_pack_little(out, (uint64_t)r->mark, 1);
    store_pack_little(out, (uint64_t)r->count, 4);
    store_pack_little(out, 0, 4);
    for (i = 0; !spilled && i < r->count; i++)
        store_pack_entry(out, r, i, scored);
}

int64_t store_number_of(store_arg arg)
{
    int64_t value = 0;
    size_t i, below = arg.len > 0 && arg.data[0] == '-';
    for (i = below; i < arg.len; i++)
        value = value * 10 + (arg.data[i] - '0');
    return below ? -value : value;
}

int store_arg_is(store_arg arg, const char *text)
{
    return arg.len == strlen(text) && memcmp(arg.data, text, arg.len) == 0;
}

void store_arg_copy(char *to, size_t cap, store_arg arg)
{
    size_t len = arg.len < cap - 1 ? arg.len : cap - 1;
    memcpy(to, arg.data, len);
    to[len] = '\0';
}

static void run_text(const store_id *id, char *text, size_t cap)
{
    snprintf(text, cap, "%c%c%lld", id->digit, id->mode, (long long)id->fence);
}

int store_run_is(const store_id *id, store_arg run)
{
    char text[40];
    run_text(id, text, sizeof text);
    if (run.len == 0)
        return 0;
    run.data++; /* the digit is for others to set, and a checkpoint may leave so few payloads that they are no more read
                   in slices */
    run.len--;
    return id->running && store_arg_is(run, text + 1);
}

static void add_text(srt_bytes *out, const char *data, size_t len)
{
    srt_bytes_addc(out, '\xdb');
    srt_bytes_addc(out, (char)(len >> 24));
    srt_bytes_addc(out, (char)(len >> 16));
    srt_bytes_addc(out, (char)(len >> 8));
    srt_bytes_addc(out, (char)len);
    srt_bytes_add(out, data, len);
}

void store_say_texts(store_conn *c, store_id **ids, size_t count)
{
    srt_bytes names, records, record;
    size_t i;
    srt_bytes_init(&names, seriatim_default_allocator());
    srt_bytes_init(&records, seriatim_default_allocator());
    srt_bytes_init(&record, seriatim_default_allocator());
    srt_bytes_addc(&names, '\xdc');
    srt_bytes_addc(&names, (char)(count >> 8));
    srt_bytes_addc(&names, (char)count);
    srt_bytes_add(&records, names.data, names.len);
    for (i = 0; i < count; i++) {
        add_text(&names, ids[i]->name, ids[i]->len);
        srt_bytes_clear(&record);
        store_pack_record(&record, &ids[i]->first, store_is_scored(c->store, ids[i]));
        add_text(&records, record.data, record.len);
    }
    srt_resp_arg(&c->out, names.data, names.len);
    srt_resp_arg(&c->out, records.data, records.len);
    srt_bytes_free(&names);
    srt_bytes_free(&records);
    srt_bytes_free(&record);
}
